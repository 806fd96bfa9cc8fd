"""An expectation and its gradient to a stated error: right, within the error, and refused where paths do not tell."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import stodyn as sd
from stodyn.statistics.functional import TimeAverage

SAFE = 3.0  # half-widths at the level .95: six standard errors


def growth(mu, sigma):
    return sd.SDE(
        lambda t, x, p: p["mu"] * x, lambda t, x, p: p["sigma"] * x, 1.0, {"mu": mu, "sigma": sigma}, names=["x"]
    )


def estimated(problem, f, gradient, error=0.02):
    result = sd.estimate(problem, f, t=(0, 1), error=error, seed=1, gradient=gradient)
    assert np.all(result["gradient_error"] <= error) and np.all(result["error"] <= error)
    return result


def assert_near(result, value, gradient):
    assert np.all(np.abs(result["value"].values - value) <= SAFE * result["error"].values)
    assert np.all(np.abs(result["gradient"].values - gradient) <= SAFE * result["gradient_error"].values)


@pytest.mark.parametrize("mu, sigma", [(0.1, 0.3), (-0.3, 0.4)])
def test_a_moment_by_parameters_and_the_start(mu, sigma):
    result = estimated(growth(mu, sigma), lambda t, x: x[0] ** 2, ("mu", "sigma", "start.x"))
    square = np.exp(2 * mu + sigma**2)
    assert_near(result, square, square * np.array([2.0, 2 * sigma, 2.0]))
    assert result["parameter"].values.tolist() == ["mu", "sigma", "start.x"]
    assert "gradient by tangent: f is smooth" in result.attrs["route"] and result.attrs["trusted"]


def test_a_probability_by_the_law_of_its_last_step():
    result = estimated(growth(0.1, 0.3), lambda t, x: x[0] > 1.1, ("mu", "sigma"))
    d = (0.1 - 0.045 - np.log(1.1)) / 0.3
    assert_near(result, norm.cdf(d), norm.pdf(d) * np.array([1 / 0.3, -(0.1 - np.log(1.1)) / 0.09 - 0.5]))
    assert "gradient by conditional: f jumps" in result.attrs["route"]


def test_a_vector_of_time_averages_of_linear_equations():
    """Exact steps would not see the parameters: other ones are taken. The mean does not depend on the noise."""
    k, s = 1.3, 0.5
    decay = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x, p: p["s"], 1.0, {"k": k, "s": s})
    result = estimated(decay, TimeAverage(lambda t, x: jnp.stack([x[0], x[0] ** 2])), ("k", "s"))
    assert result["gradient"].dims == ("parameter", "entry")

    def exact(k, s):
        e, stationary = np.exp(-k), s**2 / (2 * k)
        return np.array([(1 - e) / k, stationary + (1 - stationary) * (1 - e**2) / (2 * k)])

    ε = 1e-6
    slopes = [exact(k + ε, s) - exact(k - ε, s), exact(k, s + ε) - exact(k, s - ε)]
    assert_near(result, exact(k, s), np.array(slopes) / (2 * ε))


def test_differential_algebraic_equations():
    """x1 = x0/5, and x0 decays by 2k/5."""
    network = sd.SDAE(
        np.diag([1.0, 0.0]),
        lambda t, x, p: jnp.stack([-p["k"] * (x[0] - x[1]) / 2, (x[0] - x[1]) / 2 - x[1] / 0.5]),
        lambda t, x: jnp.array([[0.6], [0.0]]), [1.0, 0.2], {"k": 1.0},
    )  # fmt: skip
    exact = 0.2 * np.exp(-0.4)
    assert_near(estimated(network, lambda t, x: x[1], "k"), exact, -0.4 * exact)


@pytest.mark.parametrize(
    "f, options, words",
    [
        (lambda t, x: jnp.where(x[0] > 1.1, x[0], 0.0), {"gradient": "mu"}, 'takes the route "weight"'),
        (lambda t, x: x[0], {"gradient": "nu"}, "'nu' is not among the problem's params"),
        (lambda t, x: x[0], {"gradient": "mu", "control": (lambda t, x: x[0], 1.0)}, "leave control or gradient out"),
    ],
)
def test_what_has_no_such_gradient_is_refused_in_words(f, options, words):
    with pytest.raises(ValueError, match=words):
        sd.estimate(growth(0.1, 0.3), f, t=(0, 1), error=0.02, seed=1, **options)
