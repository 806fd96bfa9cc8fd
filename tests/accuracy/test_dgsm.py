"""Mean squared derivatives by random parameters, and their bounds on Sobol shares, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd

CERTAIN = 5.2  # standard errors, which a normal number exceeds twice in ten million
OPTIONS = {"t": (0, 1), "dt": 1 / 4, "paths": 4_000, "seed": 3, "dgsm": True}


def assert_near(result, name, exact):
    off = (result[name].values - exact) / result[f"{name}_stderr"].values
    assert np.all(np.abs(off) < CERTAIN), off


def test_a_sum_of_normal_uniform_and_noise():
    """x(1) = a + 2 b + W/2: the bound is the share itself for a normal a, and 12/π² times it for a uniform b."""
    params = {"a": sd.noise.Normal(0.0, 0.7), "fixed": 2.0, "b": scipy.stats.uniform(1.0, 0.9)}
    problem = sd.SDE(lambda t, x, p: p["a"] + p["fixed"] * p["b"], lambda t, x: 0.5, 0.0, params)
    result = sd.sensitivity(problem, lambda t, x: x[0], of=("a", "b"), **OPTIONS)
    assert result["parameter"].values.tolist() == ["a", "b"]
    np.testing.assert_allclose(result["dgsm"], [1.0, 4.0], rtol=1e-12)
    np.testing.assert_allclose(result["poincare"], [0.49, 0.81 / np.pi**2], rtol=1e-12)
    variances = np.array([0.49, 4 * 0.81 / 12, 0.25])
    assert_near(result, "bound", variances[:2] / variances.sum() * [1.0, 12 / np.pi**2])


def test_of_a_nonlinear_function_it_is_above_the_share_with_interactions():
    """f = a b with normal a and b of mean m and deviation s: E (∂f/∂a)² = m² + s², Var f = 2 m² s² + s⁴, and the total
    share of a, (m² s² + s⁴)/Var f, is the bound."""
    m, s = 0.8, 0.5
    params = {"a": sd.noise.Normal(m, s), "b": sd.noise.Normal(m, s)}
    problem = sd.SDE(lambda t, x, p: p["a"] * p["b"], lambda t, x: 0.0, 0.0, params)
    result = sd.sensitivity(problem, lambda t, x: x[0], of="a", **OPTIONS)
    assert_near(result, "dgsm", m**2 + s**2)
    assert_near(result, "bound", (m**2 * s**2 + s**4) / (2 * m**2 * s**2 + s**4))


@pytest.mark.parametrize(
    "law, exact, at_most",
    [
        (sd.noise.Exponential(0.7), 4 * 0.49, 1.003),  # for which Muckenhoupt's bound is the constant
        (sd.noise.Beta(1.0, 1.0), 1 / np.pi**2, 4.0),
        (sd.noise.Truncated(sd.noise.Normal(0.0, 1.0), -40.0, 40.0), 1.0, 4.0),
        (sd.noise.LogNormal(0.0, 1.0), np.inf, 1.0),
        (scipy.stats.t(5), np.inf, 1.0),
    ],
)
def test_bounds_on_poincares_constant(law, exact, at_most):
    constant = sd.noise.distribution.distribution(law, "law").poincare
    assert exact * 0.999 <= constant <= at_most * exact


@pytest.mark.parametrize(
    "f, of, words",
    [
        (lambda t, x: x[0], "b", "'b' is not among the problem's random params: a"),
        (lambda t, x: x[0] > 0, "a", "mean squared derivatives of paths are wrong here: f jumps"),
    ],
)
def test_what_has_no_mean_squared_derivative_is_refused(f, of, words):
    params = {"a": sd.noise.Normal(0.0, 1.0), "b": 1.0}
    problem = sd.SDE(lambda t, x, p: p["a"] * p["b"] * x, lambda t, x: 0.1, 1.0, params)
    with pytest.raises(ValueError, match=words):
        sd.sensitivity(problem, f, of=of, **OPTIONS)


def test_fixed_parameters_and_vectors_are_refused():
    fixed = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 0.1, 1.0, {"k": 1.0})
    with pytest.raises(ValueError, match="not among the problem's random params: none"):
        sd.sensitivity(fixed, lambda t, x: x[0], of="k", **OPTIONS)
    drawn = fixed.changed(params={"k": sd.noise.Normal(1.0, 0.1)})
    with pytest.raises(ValueError, match="f: expected a number"):
        sd.sensitivity(drawn, lambda t, x: jnp.stack([x[0], x[0]]), of="k", **OPTIONS)
    with pytest.raises(ValueError, match="second: True is not possible with dgsm=True"):
        sd.sensitivity(drawn, lambda t, x: x[0], of="k", second=True, **OPTIONS)
