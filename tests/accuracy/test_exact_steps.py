"""Exact steps of linear problems on levels, and extremes of functions that no noise acts on."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.accuracy.estimate import Estimator
from stodyn.accuracy.exact_steps import ExactSteps, are_exact
from stodyn.accuracy.levels import LevelRun
from stodyn.engine.progress import Progress
from stodyn.statistics import functional

A = np.array([[0.0, 1.0], [-1.0, -0.2]])


def oscillator(noise=0.5, force=0.3, start=(0.0, 1.0), A=A):
    return sd.SDE(lambda t, x: A @ x + jnp.array([0.0, force]), lambda t, x: jnp.array([[0.0], [noise]]), start)


def test_two_steps_are_one_of_twice_the_length():
    """Φ, c and the joint covariance of W and w over 2h, from those over h and from the law over 2h."""
    short, long = (ExactSteps().prepared(oscillator(), h).law for h in (0.4, 0.8))

    def covariance(law, h):
        mixed = np.concatenate([np.sqrt(h) * np.eye(1, 3), np.hstack([np.sqrt(h) * law.share, law.rest])])
        return mixed @ mixed.T

    joined = scipy.linalg.block_diag(np.eye(1), short.Phi)
    once = covariance(short, 0.4)
    assert np.allclose(joined @ once @ joined.T + once, covariance(long, 0.8), rtol=1e-12, atol=1e-15)
    assert np.allclose(short.Phi @ short.Phi, long.Phi, rtol=1e-13)
    assert np.allclose(short.Phi @ short.c + short.c, long.c, rtol=1e-13)


def test_the_end_of_a_linear_path_has_no_bias():
    """E x² of an oscillator over 64 periods: the stationary law. Levels differ by rounding alone."""
    one = sd.estimate(oscillator(), lambda t, x: x[0] ** 2, t=(0, 400), error=0.02, seed=2)
    assert abs(float(one.value) - (0.25 / 0.4 + 0.3**2)) < 0.06 and float(one.error) <= 0.02
    assert one.attrs["trusted"] and one.attrs["path_steps"] < 1e5
    assert float(one.bias) < 1e-13 and np.all(np.abs(one.level_mean.values[1:]) < 1e-13)


@pytest.mark.parametrize("kind, truth", [(functional.Maximum, 1.0), (functional.Minimum, -1.0)])
def test_extremes_between_steps(kind, truth):
    """x = sin t has its extremes between the steps; a polygon through 8 states of it misses 2 % of them."""
    undamped = oscillator(noise=1e-9, force=0.0, A=np.array([[0.0, 1.0], [-1.0, 0.0]]))
    estimator = Estimator(undamped, kind(lambda t, x: x[0]), (0.0, 5.0))
    _, question = estimator.questions[0]
    run = LevelRun(question, "single", 8, 1, "sobol")
    run.grow(256, Progress(0, False))
    assert run.known(slice(0, 1)).mean == pytest.approx(truth, abs=4e-3)
    assert float(estimator.answer(1e-3, 1).value) == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize("function", [lambda t, x: x[0], lambda t, x: x[0] + 0.1 * x[1]])
def test_maxima_by_exact_steps_and_by_others(function):
    """A maximum over six periods, with and without noise on the function: intervals of 0.1 that hold with 95 %, so
    that a distance of 0.3 is one of six standard errors."""
    found = [
        sd.estimate(oscillator(), functional.Maximum(function), t=(0, 40), error=0.1, seed=1, method=method)
        for method in (None, "PlatenWeak2")
    ]
    assert "ExactSteps" in found[0].attrs["route"]
    assert abs(float(found[0].value) - float(found[1].value)) < 0.3
    assert found[0].attrs["path_steps"] < 1e5


def test_which_problems_have_exact_steps():
    loaded = sd.SDE(lambda t, x: -x + jnp.sin(t), lambda t, x: 1.0, 0.0)
    bent = sd.SDE(lambda t, x: -x - 1e-3 * x**3, lambda t, x: 1.0, 0.0)
    broken = sd.SDE(lambda t, x: -jnp.sqrt(x), lambda t, x: 1.0, 1.0)
    assert are_exact(oscillator()) and not any(map(are_exact, (loaded, bent, broken)))


def test_levels_of_any_size_are_whole():
    """A level that ends within a block holds as many points as were asked for, those of a fresh one."""
    _, question = Estimator(oscillator(), lambda t, x: x[0] ** 2, (0.0, 4.0)).questions[0]
    grown = LevelRun(question, "pair", 4, 1, "random", None, 16)
    for points in (16, 32, 48, 80, 96, 128):
        grown.grow(points, Progress(0, False))
        fresh = LevelRun(question, "pair", 4, 1, "random", None, 16)
        fresh.grow(points, Progress(0, False))
        assert grown.known(slice(1, 2)).points == points
        assert grown.known(slice(1, 2)).mean == pytest.approx(fresh.known(slice(1, 2)).mean, rel=1e-12)
