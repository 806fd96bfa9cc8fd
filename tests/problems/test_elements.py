"""Nonlinear elements at the nodes of structures."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import stodyn as sd
from stodyn.analysis.step.one_step import OneStep
from stodyn.methods.alpha import Newmark, StochasticAlpha
from stodyn.noise import coloured as co
from stodyn.numerics.printing.points import at_one
from stodyn.problems.elements import BoucWen, Friction, Gap, PowerDamper

PLAIN = sd.Mechanical(lambda t, x, v: -0.2 * v, lambda t, x, v: 2.0, (0.0, 0.0))
SPRING = BoucWen(at=0, stiffness=4.0 * math.pi**2, alpha=0.1)


def test_bouc_wen_on_given_increments():
    """Sixty-four steps of 1/32 with made-up noise: x, v and z to the digits of an independent computation."""
    problem = sd.with_elements(PLAIN, SPRING)
    assert problem.components == ("x", "dx", "z")
    h, n = 1.0 / 32.0, np.arange(64)
    method = StochasticAlpha(tol=1e-13).prepared(problem, h)
    W = 0.2 * np.cos(n)
    Z = 0.5 * h * W + 0.002 * h * np.sin(n)
    ξ = np.stack([W / math.sqrt(h), (2.0 * Z / h - W) * math.sqrt(3.0 / h)], axis=1)
    one = OneStep(problem, method)
    state = np.zeros((1, one.size))
    for k in n:
        state = one.after(k * h, h, None, state, ξ[[k]])
    np.testing.assert_allclose(state[0, [0, 1, 3]], [-0.003599697764, 0.420608327782, -0.003783323179], rtol=1e-9)


def test_bouc_wen_against_a_fine_solution():
    """A frame of two storeys with a yielding first storey and a load that swings, without noise: error of order 2."""
    K, C = np.array([[300.0, -300.0], [-300.0, 300.0]]), 0.5 * np.eye(2)
    frame = sd.Mechanical.from_matrices([1.0, 1.0], C, K, load=lambda t: jnp.array([0.0, 40.0]) * jnp.sin(9.0 * t))
    element = BoucWen(at=0, stiffness=300.0, alpha=0.05, A=1.0, beta=20.0, gamma=15.0, n=2.0)
    problem = sd.with_elements(frame, element, names=["yield"])

    def slope(t, s):
        x, v, z = s[:2], s[2:4], s[4]
        pull = 300.0 * (0.05 * x[0] + 0.95 * z)
        a = -K @ x - C @ v + np.array([-pull, 40.0 * np.sin(9.0 * t)])
        return [*v, *a, v[0] - 20.0 * abs(v[0]) * abs(z) * z - 15.0 * v[0] * z**2]

    exact = scipy.integrate.solve_ivp(slope, (0.0, 2.0), np.zeros(5), rtol=1e-10, atol=1e-12, max_step=0.01).y[:, -1]
    off = []
    for dt in (0.01, 0.005):
        run = sd.simulate(problem, Newmark, t=(0.0, 2.0), dt=dt, paths=1, seed=1, progress=False,
                          collect=sd.statistics.Paths(at=[2.0]))  # fmt: skip
        off.append(np.abs(run["path"].values.ravel() - exact).max())
    assert off[1] < 0.01 * np.abs(exact).max() and off[0] / off[1] > 3.0, off
    lowered = problem.lower(sd.SDE)[0]
    s = np.array([0.01, 0.02, 0.3, -0.1, 0.05])
    np.testing.assert_allclose(lowered.f(0.4, s, None), slope(0.4, s), rtol=1e-12)


def test_bouc_wen_has_finite_slopes_at_rest():
    element = BoucWen(at=0, stiffness=1.0, alpha=0.1, beta=40.0, gamma=30.0, n=1.5)
    by_start, by_rate, by_speed = at_one(jax.grad(element.after, (0, 1, 2)), 0.0, 0.0, 0.0, 0.01)
    np.testing.assert_allclose([by_start, by_rate, by_speed], [1.0, 0.005, 0.005], rtol=1e-14)


def test_the_forces_of_elements():
    base = sd.Mechanical(lambda t, x, v: jnp.zeros(2), None, (np.zeros(2), np.zeros(2)), names=("a", "b"))
    x, v = np.array([0.5, 0.2]), np.array([2.0, 1.0])
    for element, F in (
        (Gap(at="a", to="b", stiffness=10.0, gap=0.1), 10.0 * 0.2),
        (Gap(at="b", to="a", stiffness=10.0, gap=0.1), 0.0),
        (Gap(at="b", to="a", stiffness=10.0, gap=0.1, both=True), -10.0 * 0.2),
        (PowerDamper(at="a", c=3.0, exponent=2.0), 3.0 * 4.0),
        (PowerDamper(at="a", to="b", c=3.0, exponent=0.3, smooth=1e-6), 3.0),
        (Friction(at="a", to="b", slip=5.0, speed=0.01), 5.0),
    ):
        found = np.asarray(sd.with_elements(base, element).force(0.0, x, v))
        at, to = (0, 1) if element.at == "a" else (1, 0)
        expected = np.zeros(2)
        expected[at] -= F
        if element.to is not None:
            expected[to] += F
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_structure_with_elements_is_no_longer_taken_as_linear_and_may_be_driven():
    frame = sd.Mechanical.from_matrices([1.0, 1.0], 0.1 * np.eye(2), [[2.0, -1.0], [-1.0, 1.0]])
    both = sd.with_elements(frame, Gap(at=1, stiffness=5.0, gap=0.2), BoucWen(at=0, stiffness=1.0, alpha=0.1))
    assert not both.system.is_linear
    with pytest.raises(TypeError, match="expected a linear structure"):
        sd.structures.stationary_covariance(both)
    moved = dataclasses.replace(both, start=([0.3, 0.1], [0.0, 0.0]))
    np.testing.assert_allclose(moved.example_start(), [0.3, 0.1, 0.0, 0.0, 0.0])
    pushed = dataclasses.replace(sd.base_excited(frame, co.gauss_markov(0.5, 1.0)), start=([0.3, 0.1], [0.0, 0.0]))
    np.testing.assert_allclose(pushed.example_start()[:4], [0.3, 0.1, 0.0, 0.0])
    with pytest.raises(ValueError, match="mass: differs from the given M"):
        dataclasses.replace(frame, mass=[2.0, 2.0])
    few = sd.Mechanical.from_matrices([1.0, 1.0], 0.1 * np.eye(2), [[2.0, -1.0], [-1.0, 1.0]], modes=1)
    with pytest.raises(ValueError, match="problem: its coordinates are modes"):
        sd.with_elements(few, Gap(at=0, stiffness=5.0))
    assert not dataclasses.replace(frame, force=lambda t, x, v: -(x**3)).is_linear
    driven = sd.base_excited(both, co.gauss_markov(0.5, 1.0, "ground"))
    run = sd.simulate(driven, t=(0.0, 0.4), dt=0.1, paths=8, seed=1, progress=False)
    assert tuple(run["component"].values) == ("x0", "x1", "dx0", "dx1", "z", "ground")
    assert (run["variance"].values[-1] > 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sd.with_elements(PLAIN), "elements: expected one or more"),
        (lambda: sd.with_elements(PLAIN, Gap(at="y", stiffness=1.0)), "Gap: at: there is no coordinate 'y'"),
        (lambda: sd.with_elements(PLAIN, Gap(at=1, stiffness=1.0)), "Gap: at: expected a coordinate, 0 to 0"),
        (lambda: sd.with_elements(PLAIN, Gap(at=0, to=0, stiffness=1.0)), "Gap: at, to: both are coordinate 0"),
        (lambda: sd.with_elements(PLAIN, Gap(at=lambda x: x[0], stiffness=1.0)), "Gap: at: a stop acts between coord"),
        (lambda: sd.with_elements(PLAIN, BoucWen(at=lambda x: x, stiffness=1.0, alpha=0.1)), "BoucWen: at: returned"),
        (lambda: Gap(at=0, stiffness=-1.0), "Gap: stiffness: expected a number > 0"),
        (lambda: PowerDamper(at=0, c=1.0, exponent=0.5), "PowerDamper: smooth: with the exponent 0.5"),
        (lambda: BoucWen(at=0, stiffness=1.0, alpha=2.0), "BoucWen: alpha: expected the ratio"),
        (lambda: BoucWen(at=0, stiffness=1.0, alpha=0.1, gamma=0.9), "BoucWen: gamma: expected -beta < gamma"),
        (lambda: BoucWen(at=0, stiffness=1.0, alpha=0.1, n=0.5), "BoucWen: n: expected a number >= 1"),
        (
            lambda: sd.simulate(
                sd.with_elements(PLAIN, SPRING), "StochasticAlpha15", t=(0, 1), dt=0.1, paths=2, seed=1
            ),
            "order: 1.5 needs forces with derivatives",
        ),
        (lambda: sd.with_elements(sd.with_noise(PLAIN, co.gauss_markov(1, 1), "x"), SPRING), "before it is driven"),
    ],
)
def test_elements_that_do_not_fit_are_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def ends(problem, dt, paths=20):
    kept = sd.statistics.Paths(paths, at=[2.0])
    run = sd.simulate(problem, t=(0.0, 2.0), dt=dt, paths=paths, seed=1, collect=kept, progress=False)
    return run["path"].values.reshape(paths, -1)


def test_elements_beside_a_joint_that_is_straight_are_those_along_the_line():
    """A slider on an inclined line, with a hysteretic spring, a damper and a stop on its x: the step along the line."""
    c, s = math.cos(0.6), math.sin(0.6)
    slider = sd.Mechanical(lambda t, x, v: -0.2 * v, lambda t, x, v: jnp.array([[2.0 * c], [2.0 * s]]),
                           (np.zeros(2), np.zeros(2)), constraints=lambda t, x: (s * x[0] - c * x[1])[None],
                           impulses=True)  # fmt: skip
    line = sd.Mechanical(lambda t, x, v: -0.2 * v, lambda t, x, v: jnp.array([[2.0]]), ([0.0], [0.0]))
    on_x = (BoucWen(at=0, stiffness=40.0, alpha=0.1, beta=3.0, gamma=2.0), PowerDamper(at=0, c=0.5, exponent=2.0))
    along = (
        BoucWen(at=0, stiffness=40.0 * c**2, alpha=0.1, beta=3.0 * c, gamma=2.0 * c),
        PowerDamper(at=0, c=0.5 * c**3, exponent=2.0),
    )
    both = sd.with_elements(slider, *on_x)
    assert both.components == ("x0", "x1", "dx0", "dx1", "Λ_g0", "z")
    found, expected = ends(both, 1 / 64), ends(sd.with_elements(line, *along), 1 / 64)
    np.testing.assert_allclose(found[:, [0, 2, 5]], expected * [c, c, c], rtol=1e-9, atol=1e-12)


@pytest.mark.brief("coloured")
@pytest.mark.parametrize("driven", [False, True], ids=["white", "coloured"])
def test_a_hysteretic_hinge_is_that_of_the_angle(driven):
    """The stretch of an element may be any function of the coordinates: here the angle of a rod, with and without
    coloured noise in the force; methods on the same paths, whose differences fall as their orders say."""
    elements = [
        (BoucWen(at=at, stiffness=40.0, alpha=0.1), PowerDamper(at=at, c=0.5, exponent=2.0))
        for at in (lambda x: jnp.arctan2(x[0], -x[1]), 0)
    ]
    push = None if driven else lambda t, x, v: jnp.array([[1.5], [0.0]])
    rod = sd.Mechanical(lambda t, x, v: jnp.array([0.0, -9.81]), push, ([math.sin(1.0), -math.cos(1.0)], np.zeros(2)),
                        constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None])  # fmt: skip
    turn = None if driven else lambda t, x, v: 1.5 * jnp.cos(x)[:, None]
    angle = sd.Mechanical(lambda t, x, v: -9.81 * jnp.sin(x), turn, ([1.0], [0.0]))
    pair = [sd.with_elements(rod, *elements[0]), sd.with_elements(angle, *elements[1])]
    if driven:
        noise = co.gauss_markov(3.0, 0.3)
        pair = [sd.with_noise(pair[0], noise, "x0"), sd.with_noise(pair[1], noise, lambda t, x, v: jnp.cos(x)[:, None])]
    off = []
    for dt in (1 / 32, 1 / 128):
        at_rod, at_angle = (ends(problem, dt) for problem in pair)
        apart = at_rod[:, [0, 4]] - np.stack([np.sin(at_angle[:, 0]), at_angle[:, 2]], axis=1)
        off.append(np.sqrt(np.mean(apart**2, axis=0)))
    assert (off[0] < 0.01).all() and (off[1] < off[0] / (9.0 if driven else 2.5)).all(), off


def test_a_stiff_stop_beside_joints_is_told_with_what_joints_take():
    """Methods of the α family refuse joints, so that they are no way out."""
    rod = sd.Mechanical(lambda t, x, v: jnp.array([0.0, -9.81]), None, ([0.6, -0.8], [0.0, 0.0]),
                        constraints=lambda t, x: x @ x - 1.0)  # fmt: skip
    stopped = sd.with_elements(rod, Gap(at=0, stiffness=1e7, gap=0.61))
    with pytest.raises(ValueError, match=r"RattleAlpha .* \(Gap\): .* steps of .* or an impact in place of the stop"):
        sd.simulate(stopped, t=(0.0, 0.1), dt=0.01, paths=2, seed=1)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_a_damper_that_is_not_smoothed_is_the_plain_power(exponent):
    rates = np.array([-2.0, -0.3, 0.0, 0.7])
    force = sd.elements.PowerDamper(at=0, c=3.0, exponent=exponent, smooth=0.0).force(0.0, rates)
    np.testing.assert_allclose(force, 3.0 * np.sign(rates) * np.abs(rates) ** exponent, rtol=1e-6)
