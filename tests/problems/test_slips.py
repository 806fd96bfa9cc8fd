"""Dry friction that sticks, against motions and laws in closed form."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.step.one_step import OneStep
from stodyn.methods.alpha import StochasticAlpha
from stodyn.methods.rattle_alpha import RattleAlpha
from stodyn.noise import coloured
from stodyn.noise.increment import Increment
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems.elements import BoucWen, Coulomb, Gap

BODY = sd.Mechanical(lambda t, x, v: 0.0 * x, lambda t, x, v: 1.0, (0.0, 2.0))
HINGE = (lambda x: jnp.arctan2(x[0], -x[1]), 0)


def path_of(problem, dt, T, paths=1, **options):
    kept = st.Paths(paths, every=1)
    run = sd.simulate(problem, t=(0.0, T), dt=dt, paths=paths, seed=1, collect=kept, progress=False, **options)
    return run["time"].values, run["path"].values


def test_a_body_brakes_and_then_rests():
    """It stops at v²/2μ within μh²/2 (a step ends beyond the stop), and from then on has no speed at all."""
    brake = sd.with_elements(sd.Mechanical(BODY.force, None, (0.0, 2.0)), Coulomb(at=0, slip=3.0))
    for dt in (0.1, 0.03):
        t, path = path_of(brake, dt, 0.9)
        x, v = path[0].T
        rests = t > 2.0 / 3.0 + dt
        assert np.abs(v[rests]).max() < 1e-15 and np.ptp(x[rests]) < 1e-12
        assert 0 <= x[-1] - 2.0 / 3.0 <= 0.5 * 3.0 * dt**2
        np.testing.assert_allclose(x[t < 0.6], (2.0 * t - 1.5 * t**2)[t < 0.6], atol=1e-12)


@pytest.mark.brief("StochasticAlpha")
@pytest.mark.parametrize("method", ["StochasticAlpha", "Newmark", "HHT", "WBZ"])
def test_a_block_on_a_belt(method):
    """It goes with the belt until its spring pulls as much as friction holds, then swings for ever about that place."""
    s, k, V = 3.0, 10.0, 0.5
    block = sd.with_elements(sd.Mechanical(lambda t, x, v: -k * x, None, (0.0, V)), Coulomb(at=0, slip=s, belt=V))
    off = []
    for dt in (0.02, 0.01):
        t, path = path_of(block, dt, 4.0, method=method)
        start = s / (k * V)
        exact = np.where(t < start, V * t, s / k + V / math.sqrt(k) * np.sin(math.sqrt(k) * (t - start)))
        off.append(np.abs(path[0, :, 0] - exact).max())
    assert off[0] < 8e-4 and off[0] / off[1] == pytest.approx(4.0, rel=0.05), off


def test_the_step_under_noise_is_a_soft_threshold():
    """v' = 0 where |v + W| <= h slip, and nearer to 0 by h slip elsewhere; x' has half of it."""
    problem, h, slip = sd.with_elements(BODY, Coulomb(at=0, slip=1.5)), 0.25, 1.5
    method = StochasticAlpha(tol=1e-14).prepared(problem, h)
    one = OneStep(problem, method)
    rng = np.random.default_rng(3)
    ξ, state = rng.standard_normal((40, 2)), np.zeros((40, one.size))
    state[:, 1] = np.linspace(-1.0, 1.0, 40)
    after = one.after(0.0, h, None, state, ξ)
    free = state[:, 1] + math.sqrt(h) * ξ[:, 0]
    v = np.sign(free) * np.maximum(np.abs(free) - h * slip, 0.0)
    np.testing.assert_allclose(after[:, 1], v, atol=1e-14)
    assert 3 < np.sum(v == 0.0) < 37


def test_the_stationary_law_under_noise():
    """The density of v' = -μ sign v + σ ξ is (μ/σ²) exp(-2μ|v|/σ²). An implicit step of length h makes E|v| and E v²
    smaller by less than 0.9 and 0.7 of h μ²/σ² times their values, which fall with it."""
    problem = sd.with_elements(BODY, Coulomb(at=0, slip=1.0))
    moments = [st.Observable(lambda t, x, n=n: jnp.abs(x[1]) ** n, name=f"m{n}", at=[20.0]) for n in (1, 2)]
    run = sd.simulate(problem, t=(0.0, 20.0), dt=0.04, paths=20_000, seed=1, collect=moments, progress=False)
    for n, share in ((1, 0.9), (2, 0.7)):
        off, error = run[f"m{n}"].values[0] - 0.5, run[f"m{n}_stderr"].values[0]
        assert -0.5 * share * 0.04 - 5 * error < off < 5 * error


@pytest.mark.brief("coloured")
@pytest.mark.parametrize("driven", [False, True], ids=["plain", "coloured"])
def test_a_hinge_that_sticks_is_that_of_the_angle(driven):
    rod = sd.Mechanical(lambda t, x, v: jnp.array([0.0, -9.81]), None, ([math.sin(1.0), -math.cos(1.0)], np.zeros(2)),
                        constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None], impulses=True)  # fmt: skip
    angle = sd.Mechanical(lambda t, x, v: -9.81 * jnp.sin(x), None, ([1.0], [0.0]))
    pair = [sd.with_elements(one, Coulomb(at=at, slip=2.0)) for one, at in zip((rod, angle), HINGE, strict=True)]
    if driven:
        noise = coloured.gauss_markov(5.0, 2.0)
        pair = [sd.with_noise(pair[0], noise, "x0"), sd.with_noise(pair[1], noise, lambda t, x, v: jnp.cos(x)[:, None])]
    off = []
    for dt in (1 / 32, 1 / 128):
        jointed, plain = (path_of(one, dt, 3.0, paths=10)[1] for one in pair)
        off.append(np.sqrt(np.mean((jointed[:, -1, 0] - np.sin(plain[:, -1, 0])) ** 2)))
        rests = np.abs(plain[:, :, 1]) < 1e-12
        assert rests[:, 1:].any() and np.abs(jointed[:, :, 2:4][rests]).max() < (0.3 if driven else 0.05)
    assert off[0] < 0.01 and off[1] < off[0] / 6.0, off


def test_many_surfaces_share_what_holds_them():
    """Three surfaces between two blocks and the ground, of which two would hold them: no path fails, and what is stuck
    rests; with a stop and a hysteretic spring beside them."""
    blocks = sd.Mechanical(lambda t, x, v: jnp.array([8.0, 0.0]) * jnp.sin(3.0 * t) - 5.0 * (x - x[::-1]),
                           lambda t, x, v: 0.5 * jnp.eye(2), (np.zeros(2), np.zeros(2)))  # fmt: skip
    surfaces = [Coulomb(at=0, slip=1.0), Coulomb(at=1, to=0, slip=2.0), Coulomb(at=1, slip=1.0)]
    several = sd.with_elements(
        blocks, *surfaces, Gap(at=0, stiffness=1000.0, gap=0.1), BoucWen(at=1, stiffness=1.0, alpha=0.1)
    )
    _, path = path_of(several, 0.01, 3.0, paths=40)
    assert np.isfinite(path).all()
    still = sd.with_elements(sd.Mechanical(lambda t, x, v: jnp.array([1.5, 0.2]), None, (np.zeros(2), np.zeros(2))),
                             *surfaces)  # fmt: skip
    assert np.abs(path_of(still, 0.01, 1.0)[1]).max() < 1e-9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Coulomb(at=0, slip=-1.0), "Coulomb: slip: expected a number > 0"),
        (lambda: Coulomb(at=0, slip=1.0, belt="fast"), "Coulomb: belt: expected a rate"),
        (lambda: path_of(sd.with_elements(BODY, Coulomb(at=0, slip=1.0)), 0.1, 0.2, method="StochasticAlpha20"),
         "Coulomb. has none at rest"),
        (lambda: path_of(sd.with_elements(BODY, Coulomb(at=0, slip=1.0)), 0.1, 0.2, method="Heun"),
         "takes SDE problems"),
        (lambda: sd.with_elements(sd.Mechanical(BODY.force, None, (0.0, 2.0), accelerations=True),
                                  Coulomb(at=0, slip=1.0)), "accelerations: not available beside Coulomb"),
        (lambda: sd.with_elements(sd.Mechanical(lambda t, x, v: -x, None, (np.ones(2), np.ones(2)), mass=[1.0, 0.0]),
                                  Coulomb(at=0, slip=1.0)), "mass: Coulomb needs inertia"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.brief("Rattle")
@pytest.mark.parametrize("method", ["Rattle", "RattleAlpha15", "ProjectedAlpha", "ConstrainedBAOAB"])
def test_other_methods_for_joints_refuse_it(method):
    rod = sd.Mechanical(lambda t, x, v: 0.0 * x, None, ([1.0, 0.0], [0.0, 1.0]),
                        constraints=lambda t, x: 0.5 * (x @ x - 1.0)[None])  # fmt: skip
    with pytest.raises(ValueError, match=r"Coulomb. has none at rest; take RattleAlpha"):
        path_of(sd.with_elements(rod, Coulomb(at=0, slip=1.0)), 0.1, 0.2, method=method)


def test_friction_that_sticks_beside_many_joints_with_dampers_is_that_of_each():
    """Five pendulums, whose step is eliminated by its pattern: the first, which sticks, moves as by itself."""
    angles = np.linspace(0.3, 1.0, 5)

    def pendulums(n):
        place = np.stack([np.sin(angles[:n]), -np.cos(angles[:n])], axis=1).ravel()
        free = sd.Mechanical(
            lambda t, x, v: jnp.tile(jnp.array([0.0, -9.81]), n) - 0.3 * v, None, (place, np.zeros(2 * n)),
            constraints=lambda t, x: 0.5 * (x[0::2] ** 2 + x[1::2] ** 2 - 1.0),
        )  # fmt: skip
        return sd.with_elements(free, Coulomb(at=0, slip=10.0), *([Coulomb(at=2, slip=0.5)] if n > 1 else []))

    def after(n):
        problem = pendulums(n)
        x = np.asarray(problem.example_start(), float)

        def step(x):
            noise = Increment(h=0.01, W=x[:0], Z=x[:0])
            (found, _), report = RattleAlpha.step(problem, 0.0, RattleAlpha.start(problem, 0.0, x, None), noise, None)
            return jnp.append(found, report.ok)

        *found, ok = Uncompiled(step)(x)
        assert ok
        return np.array(found)

    many, one = after(5), after(1)
    assert np.abs(many[[0, 1, 10, 11]] - one).max() < 1e-9 and np.abs(one[2:]).max() < 1e-9
    assert abs(many[12]) > 0.01  # the second one slips
