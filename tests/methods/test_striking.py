"""Impacts located within the step: bouncing balls in closed form, moving frames, metrics of the mass, rest at a wall.

Sampled tests allow 5 standard errors (a false alarm in 6e-7 for each number) and have fixed seeds.
"""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods import striking
from stodyn.methods.contract import EXPLICIT, Method
from stodyn.methods.excited import Course
from stodyn.noise import coloured, wiener
from stodyn.numerics import van_loan
from stodyn.numerics.printing.points import at_one
from stodyn.problems.elements import BoucWen
from stodyn.problems.mechanical import Mechanical

G = 9.81
BALL = sd.Mechanical(lambda t, x, v: -G + 0.0 * x, None, (1.0, 0.0))
FLOOR = sd.Level(0.0, of="x", direction="down")
OSCILLATOR = sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 0.5, (1.0, 0.0))


def path_of(problem, method="RK4", t=3.0, dt=0.1, **options):
    run = sd.simulate(problem, method, t=(0, t), dt=dt, paths=1, seed=1, threads=1,
                      collect=st.Paths(1, every=1), **options)  # fmt: skip
    return run["path"].values[0]


def bounced(times, e, height=1.0, floor=0.0):
    """Height, speed and impacts so far of a ball that falls from rest, in closed form."""
    found = []
    for t in times:
        impact, speed, count = np.sqrt(2 * (height - floor) / G), np.sqrt(2 * G * (height - floor)), 0
        if t < impact:
            found.append((height - G * t**2 / 2, -G * t, 0))
            continue
        while True:
            speed, count = e * speed, count + 1
            if t < impact + 2 * speed / G:
                s = t - impact
                found.append((floor + speed * s - G * s**2 / 2, speed - G * s, count))
                break
            impact += 2 * speed / G
    return np.array(found)


@pytest.mark.parametrize("method", ["RK4", "StochasticAlpha"])
def test_a_bouncing_ball_is_exact(method):
    """Parabolas are cubics, so that impacts are found to rounding and every one of them takes 1 - e² of the energy."""
    path = path_of(sd.with_walls(BALL, sd.Impact(FLOOR, sd.Restitution(0.8))), method)
    np.testing.assert_allclose(path[:, :3], bounced(0.1 * np.arange(31), 0.8), atol=1e-12)
    assert path[-1, 2] == 6 and np.all(path[:, 3] == 0)
    energy = 0.5 * path[:, 1] ** 2 + G * path[:, 0]
    np.testing.assert_allclose(energy, G * 0.64 ** path[:, 2], rtol=1e-12)


def test_a_floor_that_moves_is_a_floor_at_rest_in_its_frame():
    """The floor rises at 0.3 from 0, and the ball starts with 0.3: as seen from a frame that moves with it."""
    rising = sd.Mechanical(lambda t, x, v: -G + 0.0 * x, None, (1.0, 0.3))
    path = path_of(
        sd.with_walls(rising, sd.Impact(sd.Level(lambda t: 0.3 * t, "x", "down"), sd.Restitution(0.8))), t=2.0
    )
    times = 0.1 * np.arange(21)
    exact = bounced(times, 0.8)
    np.testing.assert_allclose(path[:, 0] - 0.3 * times, exact[:, 0], atol=1e-12)
    np.testing.assert_allclose(path[:, 1] - 0.3, exact[:, 1], atol=1e-11)


def test_a_ball_comes_to_rest():
    """e = 1/2: all impacts are over at √(2/g) (1 + 2 e/(1 - e)), and from then on the ball lies at 0 without speed."""
    path = path_of(sd.with_walls(BALL, sd.Impact(FLOOR, sd.Restitution(0.5))), t=2.0)
    over = np.sqrt(2 / G) * 3.0
    lies = 0.1 * np.arange(21) >= over + 0.1
    np.testing.assert_allclose(path[lies, :2], 0.0, atol=1e-15)
    assert np.all(np.diff(path[lies, 3]) == 1) and np.all(np.diff(path[lies, 2]) == 0)
    before = 0.1 * np.arange(21) < over - 0.1
    np.testing.assert_allclose(path[before, :2], bounced(0.1 * np.arange(21)[before], 0.5)[:, :2], atol=1e-12)


def test_many_walls_in_one_step():
    """A free particle at speed 10 in a box of width 1: five impacts in a step of 1/2, a folded line; at speed 100
    there are more than a step allows, and it is told to rest."""
    free = sd.Mechanical(lambda t, x, v: 0.0 * x, None, sd.PerPath(np.array([[0.3, 10.0], [0.3, 100.0]])))
    box = sd.with_walls(free, sd.Walls({"x": (0.0, 1.0)}, "impact", located=True))
    run = sd.simulate(box, "RK4", t=(0, 1), dt=0.5, paths=2, seed=1, threads=1, collect=st.Paths(2, every=1))
    one, other = run["path"].values
    folded = np.abs((0.3 + 10.0 * np.array([0.0, 0.5, 1.0]) + 1.0) % 2.0 - 1.0)
    np.testing.assert_allclose(one[:, 0], folded, atol=1e-12)
    assert one[:, 2].tolist() == [0, 5, 10] and np.all(one[:, 3] == 0)
    assert other[1, 3] == 1 and np.all((other[:, 0] >= 0) & (other[:, 0] <= 1))


MASS = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_a_slope_in_the_metric_of_the_mass():
    """A slope n·x >= 0: e = 1 keeps v'Mv/2 + potential, ν = n·v is turned round, and momentum along the slope kept."""
    n = np.array([0.6, 0.8])
    start = (np.array([0.5, 1.0]), np.array([0.4, -1.0]))
    problem = sd.Mechanical(lambda t, x, v: jnp.array([0.3, -2.0]), None, start, MASS)
    slope = sd.Impact(sd.Level(0.0, of=lambda t, x: n @ x[:2], direction="down"), sd.Restitution(1.0))
    path = path_of(sd.with_walls(problem, slope), t=2.0)
    x, v, impacts = path[:, :2], path[:, 2:4], path[:, 4]
    energy = 0.5 * np.einsum("ti,ij,tj->t", v, MASS, v) - x @ [0.3, -2.0]
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12)
    assert impacts[-1] >= 1 and (x @ n).min() > -1e-12
    along = np.array([-0.8, 0.6])
    momentum = v @ MASS @ along - 0.1 * np.arange(21) * (along @ [0.3, -2.0])
    np.testing.assert_allclose(momentum, momentum[0], rtol=1e-12)


def test_any_map_may_be_applied_at_an_impact():
    """Where it reaches the floor the ball begins anew at 1, with its speed: uniform acceleration, folded in x."""
    problem = sd.with_walls(BALL, sd.Impact(FLOOR, lambda t, x: x.at[0].set(1.0)))
    path = path_of(problem, t=1.0)
    times = 0.1 * np.arange(11)
    np.testing.assert_allclose(path[:, 1], -G * times, atol=1e-12)
    np.testing.assert_allclose(path[:, 0], (1 - G * times**2 / 2) % 1.0 + (times == 0), atol=1e-11)


def test_the_order_of_a_smooth_motion_with_impacts():
    """x'' = -x with a wall at -0.4 off the centre, e = 0.7: between impacts amplitude and phase are known, and the
    error of RK4 with impacts found on cubics falls by 2^4 with the step (2^3.6 asked)."""
    quiet = sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.0))
    problem = sd.with_walls(quiet, sd.Impact(sd.Level(-0.4, "x", "down"), sd.Restitution(0.7)))
    t, amplitude, phase = 0.0, 1.0, 0.0  # x = amplitude cos(t - phase)
    while (hit := phase + np.arccos(-0.4 / amplitude)) < 12.0:
        t, v = hit, 0.7 * np.sqrt(amplitude**2 - 0.16)
        amplitude = np.hypot(0.4, v)
        phase = t + np.arctan2(v, -0.4)
        phase -= 0.0 if phase >= t else -2 * np.pi
        if amplitude <= 0.4 * (1 + 1e-12):
            break
    exact = amplitude * np.cos(12.0 - phase)
    errors = [abs(path_of(problem, t=12.0, dt=dt)[-1, 0] - exact) for dt in (0.2, 0.1)]
    assert errors[1] < 1e-5 and errors[0] / errors[1] > 2**3.6


@dataclasses.dataclass(frozen=True)
class _Flow(Method):
    """Exact steps of x'' = -x - v/10 + ξ/2, of any length."""

    accepts, calculus, name, claims, citation = Mechanical, "ito", "Flow", (), "test"

    @property
    def needs(self):
        return wiener.WZ

    def step(self, problem, t, state, noise, params):
        h, w = noise.h, np.sqrt(1.0 - 0.0025)
        decay, c, s = jnp.exp(-0.05 * h), jnp.cos(w * h), jnp.sin(w * h) / w
        x, v = state
        mean = decay * jnp.stack([c * x + s * (v + 0.05 * x), c * v - s * (x + 0.05 * v)])
        # Covariance by Simpson's rule over b(u) = flow(u) (0, 1/2): to 1e-6 at h = 0.4
        total = jnp.zeros((2, 2), h.dtype)
        for weight, u in zip((1, 4, 2, 4, 2, 4, 2, 4, 1), np.linspace(0, 1, 9), strict=True):
            g, cu, su = 0.5 * jnp.exp(-0.05 * u * h), jnp.cos(w * u * h), jnp.sin(w * u * h) / w
            b = g * jnp.stack([su, cu - 0.05 * su])
            total = total + weight * h / 24 * b[:, None] * b[None, :]
        first = noise.W[0] / jnp.sqrt(h)
        second = (noise.Z[0] - 0.5 * h * noise.W[0]) / jnp.sqrt(h**3 / 12)
        root = jnp.sqrt(total[1, 1])
        below = total[0, 1] / root
        rest = jnp.sqrt(jnp.maximum(total[0, 0] - below**2, 0.0))
        return mean + jnp.stack([below * first + rest * second, root * first]), EXPLICIT


def test_impacts_with_noise():
    """e = 0.7, T = 4, exact flow between impacts. Located in steps of 0.4 E v²/2 = .2258(5) and E x = .5363(5), by
    another program; mirrored after the steps .2215(5) and .5342(5): the locating is what is tested."""
    A, b = np.array([[0.0, 1.0], [-1.0, -0.1]]), np.array([[0.0], [0.5]])
    Phi, Qd = van_loan.discretise(A, b, np.eye(1), 0.4)
    kinetic = st.Observable(lambda t, x: 0.5 * x[1] ** 2, name="kinetic", at=[4.0])
    free = sd.simulate(OSCILLATOR, _Flow(), t=(0, 0.4), dt=0.4, paths=20_000, seed=2, threads=1)
    np.testing.assert_allclose(free["mean"].values[-1], Phi @ [1.0, 0.0], atol=5 * np.sqrt(Qd.max() / 20_000))
    np.testing.assert_allclose(free["variance"].values[-1], np.diag(Qd), rtol=0.05)
    problem = sd.with_walls(OSCILLATOR, sd.Walls({"x": (0.0, None)}, "impact", 0.7, located=True))
    run = sd.simulate(problem, _Flow(), t=(0, 4), dt=0.4, paths=100_000, seed=1, threads=1,
                      collect=[st.Moments(at=[4.0]), kinetic])  # fmt: skip
    error = run["kinetic_stderr"].values[0]
    assert error < 1.1e-3 and abs(run["kinetic"].values[0] - 0.2258) < 5 * np.hypot(error, 5e-4)
    assert abs(run["mean"].values[0, 0] - 0.5363) < 5 * np.hypot(run["mean_stderr"].values[0, 0], 5e-4)


def test_impacts_share_their_impulse_with_joints():
    """A rod that strikes a wall, against its angle on the same paths: without noise errors of order 2, and with noise
    the joint holds to rounding, impacts are the same, and most paths differ by no more than the error of a step."""
    level, push = sd.Level(0.0, of="x0", direction="down"), jnp.array([[1.5], [0.0]])
    start = ([np.sin(1.0), -np.cos(1.0)], [0.5 * np.cos(1.0), 0.5 * np.sin(1.0)])
    off = []
    for noise, dt in ((0.0, 1 / 32), (0.0, 1 / 128), (1.0, 1 / 128)):
        rod = sd.Mechanical(lambda t, x, v: jnp.array([0.0, -9.81]), lambda t, x, v, noise=noise: noise * push, start,
                            constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None])  # fmt: skip
        turn = 1.5 * noise
        angle = sd.Mechanical(lambda t, x, v: -9.81 * jnp.sin(x),
                              lambda t, x, v, turn=turn: turn * jnp.cos(x)[:, None], ([1.0], [0.5]))  # fmt: skip
        jointed, plain = (
            sd.simulate(sd.with_walls(system, sd.Impact(level, sd.Restitution(0.7))), t=(0.0, 1.0), dt=dt, paths=40,
                        seed=1, collect=st.Paths(40, at=[1.0]), progress=False)["path"].values[:, 0]
            for system in (rod, angle)
        )  # fmt: skip
        np.testing.assert_allclose(np.sum(jointed[:, :2] ** 2, axis=1), 1.0, rtol=1e-13)
        assert np.array_equal(jointed[:, -2], plain[:, -2]) and jointed[:, -2].max() >= 1
        off.append(np.median(np.abs(jointed[:, 0] - np.sin(plain[:, 0]))))
    assert off[0] < 3e-3 and off[1] < off[0] / 6.0 and off[2] < 3e-3, off


START = 1.0, 0.5  # angle and rate of a pendulum
HINGE = dict(stiffness=8.0, alpha=0.2, beta=3.0, gamma=2.0)
WIND = coloured.gauss_markov(3.0, 0.3)
PAST = st.Paths(8, at=[1.0])


def struck_pendulums(with_wind, dt):
    """A pendulum with a hysteretic hinge that strikes a wall below its pin, by its rod and by its angle; in wind."""
    θ, ω = START
    rod = sd.Mechanical(
        lambda t, x, v: jnp.array([0.0, -9.81]), None, ([np.sin(θ), -np.cos(θ)], [ω * np.cos(θ), ω * np.sin(θ)]),
        constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None],
    )  # fmt: skip
    angle = sd.Mechanical(lambda t, x, v: -9.81 * jnp.sin(x), None, ([θ], [ω]))
    rod = sd.with_elements(rod, BoucWen(at=lambda x: jnp.arctan2(x[0], -x[1]), **HINGE))
    angle = sd.with_elements(angle, BoucWen(at=0, **HINGE))
    if with_wind:
        rod = sd.with_noise(rod, WIND, np.array([[1.0], [0.0]]))
        angle = sd.with_noise(angle, WIND, lambda t, x, v: jnp.cos(x)[:, None])
    walled = (sd.with_walls(one, sd.Impact(sd.Level(0.0, 0, "down"), sd.Restitution(0.7))) for one in (rod, angle))
    return [sd.simulate(one, t=(0.0, 1.0), dt=dt, paths=8, seed=1, threads=1, collect=PAST)["path"].values[:, 0]
            for one in walled]  # fmt: skip


def test_a_stop_beside_a_hysteretic_hinge():
    """A pendulum with a wall and a hinge that yields, against its equations solved to 1e-10 by another program: errors
    of order 2, by its rod and by its angle; the state of the hinge does not jump."""
    bw, z_share = HINGE, (1 - HINGE["alpha"]) * HINGE["stiffness"]

    def rates(t, y):
        θ, ω, z = y
        torque = bw["alpha"] * bw["stiffness"] * θ + z_share * z
        return [ω, -9.81 * np.sin(θ) - torque, ω - bw["beta"] * abs(ω) * z - bw["gamma"] * ω * abs(z)]

    def strikes(t, y):
        return y[0]

    strikes.terminal, strikes.direction, accurate = True, -1, dict(rtol=1e-10, atol=1e-12)
    fall = scipy.integrate.solve_ivp(rates, (0, 1), [*START, 0.0], events=strikes, **accurate)
    when, (_, ω, z) = fall.t[-1], fall.y[:, -1]
    assert fall.status == 1
    θ, ω, z = scipy.integrate.solve_ivp(rates, (when, 1), [0.0, -0.7 * ω, z], **accurate).y[:, -1]
    off = []
    for dt in (1 / 64, 1 / 256):
        rod, angle = (run[0] for run in struck_pendulums(False, dt))
        assert abs(rod[:2] @ rod[:2] - 1.0) < 1e-13 and rod[-2] == angle[-2] == 1
        found = (np.sin(angle[0]), np.cos(angle[0]) * angle[1], angle[2])
        off.append([np.abs(np.subtract(one, (np.sin(θ), np.cos(θ) * ω, z))).max() for one in (rod[[0, 2, 4]], found)])
    assert np.all(np.array(off[1]) < 3e-3) and np.all(np.array(off[0]) > 7.0 * np.array(off[1])), off


def test_a_stop_beside_coloured_noise():
    """The same in wind, by the rod and by the angle: the same paths with errors of order 2, the same impacts, and wind
    that no impact changes."""
    off = []
    for dt in (1 / 32, 1 / 128):
        rod, angle = struck_pendulums(True, dt)
        np.testing.assert_allclose(np.sum(rod[:, :2] ** 2, axis=1), 1.0, rtol=1e-13)
        assert np.array_equal(rod[:, -2:], angle[:, -2:]) and rod[:, -2].min() >= 1
        assert np.array_equal(rod[:, -3], angle[:, -3]) and np.ptp(rod[:, -3]) > 1.0
        off.append(np.median(np.abs(rod[:, 0] - np.sin(angle[:, 0]))))
    assert off[1] < 3e-4 and off[0] > 8.0 * off[1], off


def test_a_ball_under_a_random_steady_force():
    """Noise that hardly changes in a million years, in a force: each ball bounces in closed form, with a weight of its
    own, and each impact takes 1 - e² of its energy."""
    steady = sd.with_noise(BALL, coloured.gauss_markov(1.0, 1e13), "x")
    problem = sd.with_walls(steady, sd.Impact(FLOOR, sd.Restitution(0.8)))
    run = sd.simulate(problem, "StochasticAlpha", t=(0.0, 2.0), dt=0.1, paths=5, seed=1, threads=1,
                      collect=st.Paths(5, every=1))  # fmt: skip
    for path in run["path"].values:
        weight = G - path[0, 2]
        exact = bounced(0.1 * np.arange(21) * np.sqrt(weight / G), 0.8)
        np.testing.assert_allclose(path[:, 0], exact[:, 0], atol=1e-5)
        assert np.array_equal(path[:, 3], exact[:, 2]) and path[-1, 3] >= 2
        energy = 0.5 * path[:, 1] ** 2 + weight * path[:, 0]
        np.testing.assert_allclose(energy, weight * 0.64 ** path[:, 3], rtol=1e-5)


def test_what_is_left_of_coloured_noise_after_an_impact():
    """A cubic in time is known from its ends and integrals, and so are the integrals over the rest of a step."""
    y = np.polynomial.Polynomial([0.7, -1.3, 2.1, 0.9])
    once, h = y.integ(), 0.4
    twice = once.integ()
    whole = Course(y(0.0), y(h), np.zeros(2), once(h), twice(h))
    for u in (0.0, 0.35, 1.0):
        left, begin = whole.rest(u, h), u * h
        expected = y(begin), y(h), once(h) - once(begin), twice(h) - twice(begin) - (h - begin) * once(begin)
        np.testing.assert_allclose((left.first, left.last, left.once, left.twice), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("add", "words"),
    [
        (
            lambda walled: sd.with_noise(walled, coloured.gauss_markov(3.0, 0.3), "x"),
            "add noise before with_walls",
        ),
        (
            lambda walled: sd.with_elements(walled, sd.elements.Gap(at=0, stiffness=1.0)),
            "add elements before with_walls",
        ),
    ],
    ids=["coloured noise", "elements"],
)
@pytest.mark.parametrize(
    "wall", [sd.Walls({"x": (0.0, None)}, "impact", 0.7), sd.Impact(FLOOR)], ids=["walls", "impact"]
)
def test_what_is_put_around_walls_is_refused_with_the_way_out(wall, add, words):
    with pytest.raises(TypeError, match=words):
        add(sd.with_walls(BALL, wall))


def test_levels_beside_walls():
    """The cubic through a step with an impact dips below the floor, where the ball never is; a level above is reached
    on the way up from the floor, when the parabola says."""
    thrown = sd.Mechanical(lambda t, x, v: -G + 0.0 * x, None, (0.2, -3.0))
    bouncing = sd.with_walls(thrown, sd.Impact(FLOOR, sd.Restitution(0.8)))
    below, above = sd.Level(-0.05, of=lambda t, x: x[0], direction="down"), sd.Level(0.25, "x")
    options = dict(t=(0, 0.5), dt=0.1, paths=1, seed=1, threads=1)
    with pytest.warns(UserWarning, match="no path has reached Level.-0.05"):
        stopped = sd.simulate(bouncing, "RK4", stop=sd.Stop(below, above), **options)
    speed = np.sqrt(9 + 2 * G * 0.2)
    rise = (0.8 * speed - np.sqrt(0.64 * speed**2 - 2 * G * 0.25)) / G
    assert stopped["stop_time"].values[0] == pytest.approx((speed - 3) / G + rise, abs=1e-11)
    assert stopped["stopped_by"].values[0] == 1
    with pytest.raises(ValueError, match="cannot be reached: walls keep x between 0 and inf"):
        sd.simulate(bouncing, "RK4", stop=sd.Stop(sd.Level(-0.1, "x", "down")), **options)


def impact(*arguments, **options):
    return sd.with_walls(BALL, sd.Impact(*arguments, **options))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sd.Restitution(1.2), ValueError, "from 0 .* to 1 .*got 1.2"),
        (lambda: sd.Restitution(-0.1), ValueError, "restitution: expected"),
        (lambda: impact(FLOOR, 0.7), TypeError, "then: expected stodyn.Restitution"),
        (lambda: impact(0.0), TypeError, "expected stodyn.Level"),
        (lambda: impact(sd.Level((0.0, 2.0), "x")), ValueError, "has two sides; give an Impact for each"),
        (lambda: impact(sd.Level(0.0, "dx", "down")), ValueError, "walls bound positions"),
        (lambda: impact(sd.Level(0.0, lambda t, x: x[0] + x[1], "down")), ValueError, "walls bound positions"),
        (lambda: impact(FLOOR, lambda t, x: x[0]), ValueError, r"then: returned shape \(\), expected \(2,\)"),
        (lambda: path_of(impact(sd.Level(2.0, "x", "down"))), ValueError, "beyond the wall"),
        (lambda: sd.with_walls(BALL, sd.Impact(FLOOR), sd.Impact(sd.Level(-1.0, "x"))), ValueError, "they cross"),
        (lambda: sd.with_walls(BALL, sd.Impact(FLOOR), {"x": (0, 1)}), TypeError, "stodyn.Impact"),
        (lambda: sd.with_walls(BALL), TypeError, "walls: expected at least one"),
        (lambda: sd.Walls({"x": (0, 1)}, located=True), ValueError, "located: belongs to impacts"),
        (lambda: path_of(impact(FLOOR), "AB2"), ValueError, "an impact cuts a step in two"),
        (
            lambda: path_of(sd.with_walls(sd.with_noise(BALL, WIND, "x"), sd.Impact(FLOOR)), "RK4"),
            ValueError,
            "RK4 draws coloured noise step by step",
        ),
        (
            lambda: sd.with_walls(sd.with_noise(BALL, WIND, "x"), sd.Walls({"x": (0, 1)}, "impact")),
            ValueError,
            "located=True",
        ),
        (
            lambda: sd.with_walls(dataclasses.replace(BALL, accelerations=True), sd.Impact(FLOOR)),
            TypeError,
            "leave out accelerations=",
        ),
    ],
)
def test_impacts_that_cannot_be_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_keys_are_the_bits_of_their_normals():
    """Of both words of a double, or the one of a float."""
    z = np.array([0.3, -1.7])
    wide = z.view(np.uint64)
    folded = (wide ^ (wide >> np.uint64(32))).astype(np.uint32)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(striking.key_of(jnp.asarray(z)), folded)
        narrow = jnp.asarray(z, np.float32)
        np.testing.assert_array_equal(striking.key_of(narrow), np.asarray(narrow).view(np.uint32))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_path_lies_on_a_cubic_where_it_strikes_and_its_velocity_scatters_about_it(share):
    """Hermite's, and half the standard deviation of a bridge for v, which the ends of the step fix."""
    h, x, y, z = 0.2, np.array([0.5, -1.0, 2.0, 0.3]), np.array([0.1, -0.8, 1.0, 1.5]), np.array([0.7, -1.2])
    B = np.array([[0.8, 0.0], [0.3, 1.1]])
    motion = types.SimpleNamespace(kicks=lambda t, x, v, none, params: B)
    own = types.SimpleNamespace(N=2, n=4, m=2, motion=motion)
    problem = types.SimpleNamespace(own=types.SimpleNamespace(own=own, **vars(own)))
    found = at_one(lambda u: striking._place(problem, h, x, y, u, None, 0.0, z), np.array(share))
    cubic = scipy.interpolate.CubicHermiteSpline([0.0, h], [x[:2], y[:2]], [x[2:], y[2:]])
    velocity = cubic(share * h, 1) + 0.5 * np.sqrt(h * share * (1.0 - share)) * B @ z
    np.testing.assert_allclose(found, np.concatenate([cubic(share * h), velocity]), rtol=1e-12, atol=1e-14)
