"""`sd.recommend`: ranked by what is wanted, never a method that refuses the problem."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.catalogue import catalogue
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.models.geometric_brownian_motion import GEOMETRIC_BROWNIAN_MOTION
from stodyn.models.kubo import KUBO
from stodyn.models.noise_structures import GENERAL_NOISE
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.warnings import CovarianceError


@pytest.mark.brief("ornstein_uhlenbeck", "general_noise")
@pytest.mark.parametrize("model", [KUBO, ORNSTEIN_UHLENBECK, GENERAL_NOISE, DAMPED_KUBO], ids=lambda model: model.name)
def test_the_first_has_the_highest_order_of_all_that_take_the_problem(model):
    problem = model.problem
    own = [m for m in catalogue().values() if isinstance(problem, m.accepts) and m.refusal(problem) is None]
    for want in ("strong", "weak"):
        choices = sd.recommend(problem, want)
        orders = [choice.method.promised(want, problem.noise_structure) for choice in choices]
        exact = want == "weak" and "exact in law" in choices[0].reason
        assert exact or orders[0] == max(m.promised(want, problem.noise_structure) for m in own)
        assert orders[exact:] == sorted(orders[exact:], reverse=True)
        assert all(choice.method.refusal(problem) is None for choice in choices)


def test_fast_counts_operations():
    choices = sd.recommend(GEOMETRIC_BROWNIAN_MOTION.problem, "fast", 3)
    assert choices[0].method.name in ("Euler", "EulerMaruyama")
    operations = [int(choice.reason.split(" operations")[0].split()[-1]) for choice in choices]
    assert operations == sorted(operations)


def test_long_keeps_the_structure():
    assert "symplectic" in sd.recommend(DAMPED_KUBO.problem, "long", 1)[0].reason


def test_left_out_the_default_comes_first_and_each_method_once():
    choices = sd.recommend(GENERAL_NOISE.problem, most=9)
    assert choices[0].method is sd.method("EulerMaruyama")
    assert "default: " in repr(choices).splitlines()[0]
    names = [choice.method.name for choice in choices[1:]]
    assert len(set(names)) == len(names)
    run = sd.simulate(GENERAL_NOISE.problem, choices[1].method, t=(0, 0.1), dt=0.05, paths=8, seed=1)
    assert bool(jnp.all(jnp.isfinite(run["mean"].values)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="want: expected one of 'strong', 'weak', 'long', 'fast', or nothing"):
        sd.recommend(KUBO.problem, "x")
    with pytest.raises(ValueError, match="most: expected how many methods to list"):
        sd.recommend(KUBO.problem, "strong", 0)
    with pytest.raises(TypeError, match="problem: expected a problem"):
        sd.recommend(3)


# A gene makes messengers and these make proteins, and both decay: what each reaction changes, and its rate a + S x.
CHANGE = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
BASE, SLOPE = np.array([40.0, 0.0, 0.0, 0.0]), np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [0.0, 0.25]])
GENE = sd.SDE(
    lambda t, x: CHANGE @ (BASE + SLOPE @ x),
    lambda t, x: CHANGE * jnp.sqrt(jnp.maximum(BASE + SLOPE @ x, 0.0)),
    start=[10.0, 20.0],
)


def variances_of_the_gene(T):
    """By m' = S a(m) and P' = A P + P A' + S diag a(m) S', which are closed because all rates are linear."""
    A = CHANGE @ SLOPE

    def slope(t, y):
        m, P = y[:2], y[2:].reshape(2, 2)
        rates = BASE + SLOPE @ m
        return np.concatenate([CHANGE @ rates, (A @ P + P @ A.T + CHANGE * rates @ CHANGE.T).ravel()])

    return scipy.integrate.solve_ivp(slope, (0, T), [10, 20, 0, 0, 0, 0], rtol=1e-10, atol=1e-10).y[[2, 5], -1]


def test_a_default_of_weak_order_one_is_told_with_the_method_for_statistics():
    options = {
        "t": (0, 2),
        "dt": 0.125,
        "paths": 100_000,
        "seed": 1,
        "progress": False,
        "collect": st.Moments(at=[2.0]),
    }
    with pytest.warns(
        CovarianceError, match='has weak order 1: means, .* "PlatenWeak2Pairs" .* "MilsteinLevy"'
    ) as told:
        default = sd.simulate(GENE, **options)
    assert len(told) == 1 and "PlatenWeak2Pairs" in [choice.method.name for choice in sd.recommend(GENE, "weak")]
    named, exact = sd.simulate(GENE, "PlatenWeak2Pairs", **options), variances_of_the_gene(2.0)
    off, stays = (run["variance"].values[0] / exact - 1 for run in (default, named))
    error = 5 * named["variance_stderr"].values[0] / exact
    assert np.all(off > 0.02) and off[0] > 0.05 and np.all(np.abs(stays) < 0.01 + error)


def test_a_method_by_name_is_taken_without_a_word():
    """And so is the default where noise commutes, or where paths are stopped, which weak methods do not step."""
    few = {"t": (0, 0.25), "dt": 0.125, "paths": 4, "seed": 1, "progress": False}
    sd.simulate(GENE, "EulerMaruyama", **few)
    sd.simulate(GENE, stop=sd.Stop(sd.Level(10.01)), **few)
    sd.simulate(sd.SDE(lambda t, x: -x, lambda t, x: jnp.diag(x), start=[1.0, 2.0]), **few)


@pytest.mark.parametrize("want", [None, "weak", "strong"])
def test_from_no_molecules_only_methods_that_leave_the_start_are_named(want):
    """The slope of the root is infinite at 0, so that methods which take it are NaN after the first step."""

    def noise(t, x):
        return jnp.array([[50**0.5, -jnp.sqrt(jnp.maximum(x[0], 0.0))]])

    births = sd.SDE(lambda t, x: 50 - x, noise, start=[0.0])
    choices = sd.recommend(births, want)
    names = [choice.method.name for choice in choices]
    assert names[0] == {None: "EulerMaruyama", "weak": "PlatenWeak2Pairs", "strong": "Euler"}[want]
    assert not {"MilsteinLevy", "RS1", "RS2"} & set(names)
    for choice in choices[:2]:
        sd.simulate(births, choice.method, t=(0, 0.5), dt=0.125, paths=4, seed=1, progress=False)
