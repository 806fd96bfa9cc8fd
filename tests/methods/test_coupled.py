"""Levels on the same noise: exact means of differences, and how their variances fall."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.accuracy.candidates import _WithoutAreas
from stodyn.accuracy.levels import LevelRun, Question
from stodyn.engine.places.threads import Threads
from stodyn.engine.progress import Progress
from stodyn.engine.spec import matched
from stodyn.methods.coupled import FINE, Level, Levelled, refusal
from stodyn.methods.platen import PlatenWeak2, PlatenWeak2Pairs, WienerPairs
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.statistics import functional

BAR = Progress(0, False)
OU = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 2.0)


def zeros(x):
    return jnp.zeros_like(x)


def area(t, x):
    """Clark and Cameron's: dX_1 = dW_1, dX_2 = X_1 dW_2."""
    return jnp.stack([jnp.stack([1.0 + 0.0 * x[0], zeros(x[0])]), jnp.stack([zeros(x[0]), x[0]])])


CLARK_CAMERON = sd.SDE(lambda t, x: jnp.zeros_like(x), area, [0.0, 0.0])


def question(problem, method, f, end):
    return Question(matched(problem, method)[0], method, f, (0.0, end), Threads(1))


def level(asked, kind, steps, points="random", count=8192):
    run = LevelRun(asked, kind, steps, 5, points)
    run.grow(count, BAR)
    return run.known(slice(0, 1))


def second_moment(n, end=2.0):
    """E x² by PlatenWeak2 on dX = -X dt + dW: x' = (1 - h + h²/2) x + (1 - h/2) W."""
    h, moment = end / n, 4.0
    for _ in range(n):
        moment = (1 - h + h * h / 2) ** 2 * moment + h * (1 - h / 2) ** 2
    return moment


def test_means_are_those_of_the_steps():
    """Within 5 standard errors of 8192 points, or of 15 degrees of freedom within 12: once in a million."""
    asked = question(OU, PlatenWeak2, functional.End(lambda t, x: x[0] ** 2), 2.0)
    falls = []
    for n in (16, 32):
        found = level(asked, "pair", n)
        exact = second_moment(n) - second_moment(n // 2)
        assert abs(found.mean[0] - exact) < 5 * np.sqrt(found.stderr2[0])
        falls.append(found.variance[0])
    assert 3.5 < falls[0] / falls[1] < 4.5
    net = level(asked, "single", 16, "sobol", 2048)
    assert abs(net.mean[0] - second_moment(16)) < 12 * np.sqrt(net.stderr2[0])
    assert net.gain[0] > 10  # of the points; pseudo-random ones have 1


def test_antithetic_pairs_where_channels_do_not_commute():
    """Var Y falls by 2 for pairs of weak order 2 steps, and by 4 for antithetic ones without areas."""
    f = functional.End(lambda t, x: jnp.cos(x[1]))
    falls = {}
    for method, kind in ((PlatenWeak2Pairs, "pair"), (_WithoutAreas(), "antithetic")):
        asked = question(CLARK_CAMERON, method, f, 1.0)
        falls[kind] = level(asked, kind, 16).variance[0] / level(asked, kind, 32).variance[0]
    assert 1.6 < falls["pair"] < 2.4 and 3.2 < falls["antithetic"] < 5.0


def test_functionals_of_brownian_motion():
    """W from 0 over a unit of time: E max = √(2/π), exact at any step with the bridge; E ∫ W² = 1/2 by the trapezoidal
    rule; P(W > 0.5) exact; pairs of extremes have mean 0. Within 12 standard errors of 15 degrees of freedom."""
    brownian = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    for f, exact in (
        (functional.Maximum(lambda t, x: x[0]), np.sqrt(2 / np.pi)),
        (functional.Minimum(lambda t, x: x[0]), -np.sqrt(2 / np.pi)),
        (functional.TimeAverage(lambda t, x: x[0] ** 2), 0.5),
        (functional.Probability(lambda t, x: x[0] - 0.5), 0.3085375387259869),
    ):
        asked = question(brownian, PlatenWeak2, f, 1.0)
        for kind, truth in (("single", exact), ("pair", 0.0)):
            found = level(asked, kind, 4, "sobol", 2048)
            assert abs(found.mean[0] - truth) < 12 * np.sqrt(found.stderr2[0]) + 1e-12


def test_blocks_may_be_cut_anywhere():
    """The same level in one call and grown by doubling, with pseudo-random and with Sobol points."""
    asked = question(OU, PlatenWeak2, functional.End(lambda t, x: x[0]), 2.0)
    for points in ("random", "sobol"):
        whole = level(asked, "pair", 8, points, 8192)
        grown = LevelRun(asked, "pair", 8, 5, points)
        for count in (256, 512, 4096, 8192):
            grown.grow(count, BAR)
        assert grown.known(slice(0, 1)).mean == pytest.approx(whole.mean, rel=1e-12)
        assert grown.spent == 8192 * 12


def test_what_cannot_be_coupled():
    assert "not a Brownian path" in refusal(sd.method("RS1"), 1)
    assert refusal(sd.method("Heun"), 2) is None and refusal(sd.method("ShiftedVerlet"), 1) is None
    assert refusal(sd.method("VanLoan"), 1) == "VanLoan makes whole paths at once"
    assert refusal(sd.method("AB2"), 1) == "AB2 is a multistep method, whose history does not couple"
    assert "chooses or fixes its steps by itself" in refusal(sd.method("ExactNoise(Heun)"), 1)


def test_pairs_of_a_longer_step_have_the_variance_of_its_length():
    """V of a step of 2h from those of two steps of h: linear in their normals, of variance (2h)²."""
    recipe, h = WienerPairs(), 0.3

    def joined(u):
        halves = [recipe.increment(h, {"W": jnp.ones(2), "aux": u[k : k + 1]}, 2) for k in (0, 1)]
        step = recipe.join(*halves)
        return jnp.stack([step.aux["pairs"][0, 1], step.h, *step.W])

    nothing, *weights = at_points(joined, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(nothing, [0.0, 2 * h, 2 * np.sqrt(h), 2 * np.sqrt(h)], rtol=1e-14)
    assert sum(row[0] ** 2 for row in weights) == pytest.approx((2 * h) ** 2)


@pytest.mark.parametrize("kind", ["single", "pair", "antithetic"])
def test_a_level_makes_the_steps_of_its_base(kind):
    """Of Euler's method with f = t + x and g = 1: two fine steps with the halves of the noise, in either order, beside
    the long one with their sum; and the trapezoidal rule over each step."""
    problem, t, h, x = sd.SDE(lambda t, x: t + x, lambda t, x: 1.0, 0.5), 2.0, 0.2, 0.5
    function = functional.Integral(lambda t, x: t * x[0])
    levelled, method = Levelled(problem, function, kind, 1), Level(sd.method("EulerMaruyama"), kind, function)

    def end(normals):
        noise = method.needs.increment(jnp.asarray(h), {"W": normals}, 1)
        start = jnp.tile(jnp.array([x, 0.0]), levelled.copies)
        state, report = method.step(levelled, t, method.start(levelled, t, start, None), noise, None)
        return method.read(state), report.ok

    def walked(*W):
        own, gathered, now, long = x, 0.0, t, h / len(W)
        for w in W:
            after = own + long * (now + own) + w
            gathered += 0.5 * long * (now * own + (now + long) * after)
            own, now = after, now + long
        return [own, gathered]

    ξ = np.array([0.3, -1.1])[: 1 if kind == "single" else 2]
    W = np.sqrt(h / len(ξ)) * ξ
    fine = [walked(*W), walked(*W[::-1])][: FINE[kind]]
    found, ok = at_one(end, ξ)
    assert ok and method.needs.normals(1) == {"W": len(ξ)}
    np.testing.assert_allclose(found, np.ravel(fine + [walked(W.sum())][: len(ξ) - 1]), rtol=1e-14)


def test_normals_of_a_functional_go_with_the_half_whose_noise_they_join():
    """The maximum over two fine steps of W, by bridges with a normal each, in either order."""
    function, h, x = functional.Maximum(lambda t, x: x[0]), 0.2, 0.5
    levelled = Levelled(sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, x), function, "antithetic", 1)
    method = Level(sd.method("EulerMaruyama"), "antithetic", function)

    def end(ξ, u):
        noise = method.needs.increment(jnp.asarray(h), {"W": ξ, "extreme": u}, 1)
        start = jnp.tile(jnp.array([x, 0.0]), 3)
        return method.read(method.step(levelled, 0.0, method.start(levelled, 0.0, start, None), noise, None)[0])

    def highest(*halves):
        own, most = x, x
        for w, u in halves:
            most = max(most, own + 0.5 * (w + np.sqrt(w * w - h * scipy.stats.norm.logcdf(u))))
            own += w
        return [own, most]

    ξ, u = np.array([0.3, 0.8]), np.array([-1.0, 0.5])
    halves = list(zip(np.sqrt(0.5 * h) * ξ, u, strict=True))
    expected = [highest(*halves), highest(*halves[::-1]), highest(*halves)]  # the long step is told its middle
    assert method.needs.normals(1) == {"W": 2, "extreme": 2}
    np.testing.assert_allclose(at_one(end, ξ, u), np.ravel(expected), rtol=1e-12)
