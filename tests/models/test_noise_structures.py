"""The systems for order studies have the noise they are named after, and solutions that satisfy their equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.models.noise_structures import (
    ADDITIVE_NOISE,
    COMMUTATIVE_NOISE,
    DIAGONAL_NOISE,
    GENERAL_NOISE,
    SCALAR_NOISE,
)
from stodyn.problems.lowering import to_stratonovich


@pytest.mark.parametrize(
    ("model", "has", "has_not"),
    [
        (ADDITIVE_NOISE, {"additive", "commutative"}, {"diagonal", "scalar"}),
        (SCALAR_NOISE, {"scalar", "diagonal", "commutative"}, {"additive"}),
        (DIAGONAL_NOISE, {"diagonal", "commutative"}, {"additive", "scalar"}),
        (COMMUTATIVE_NOISE, {"commutative"}, {"additive", "diagonal", "scalar"}),
        (GENERAL_NOISE, set(), {"additive", "diagonal", "scalar", "commutative"}),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_models_have_the_noise_structures_of_their_names(model, has, has_not):
    structure = model.problem.noise_structure
    assert all(map(structure.implies, has))
    assert not any(map(structure.implies, has_not))


@pytest.mark.parametrize(
    "model",
    [
        SCALAR_NOISE,
        SCALAR_NOISE(alpha=-0.3, beta=1.2, start=-0.5),
        COMMUTATIVE_NOISE,
        COMMUTATIVE_NOISE(decay=-0.2, frequency=2.0, amplitude=0.3, phase=0.9, start=(0.5, -1.5)),
    ],
    ids=lambda model: f"{model.name} {dict(model.overrides)}",
)
@pytest.mark.parametrize("seed", range(3))
def test_solutions_satisfy_the_stratonovich_equation(model, seed):
    """x = u(t, W): ∂u/∂W = g(u) and ∂u/∂t = f(u) with the Stratonovich f, by central differences of order 4."""
    problem, solution = to_stratonovich(model.problem), model.exact["solution"]
    rng = np.random.default_rng(seed)
    t, W = rng.uniform(0.1, 2.0), rng.standard_normal(problem.m)
    x = jnp.asarray(solution(t, W))

    def slope(function, h=1e-3):
        return (8.0 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12.0 * h)

    params = problem.params
    np.testing.assert_allclose(slope(lambda h: solution(t + h, W)), problem.f(t, x, params), rtol=1e-9, atol=1e-9)
    for k in range(problem.m):
        unit = np.eye(problem.m)[k]
        along = slope(lambda h, unit=unit: solution(t, W + h * unit))
        np.testing.assert_allclose(along, problem.g(t, x, params)[:, k], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("t", [0.3, 1.7])
def test_moments_of_commuting_channels_are_those_of_the_solution(t):
    """Against the solution integrated over W(t) by Gauss-Hermite."""
    model = COMMUTATIVE_NOISE(start=(0.5, -1.5))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weight = np.outer(weights, weights).ravel() / (2.0 * np.pi)
    W = np.sqrt(t) * np.stack([v.ravel() for v in np.meshgrid(nodes, nodes)], axis=-1)
    x = model.exact["solution"](t, W)
    np.testing.assert_allclose(weight @ x, model.exact["mean"](t), rtol=1e-12)
    np.testing.assert_allclose(weight @ x**2 - (weight @ x) ** 2, model.exact["variance"](t), rtol=1e-11)


def test_single_precision_stays_single():
    for model in (ADDITIVE_NOISE, SCALAR_NOISE, DIAGONAL_NOISE, COMMUTATIVE_NOISE, GENERAL_NOISE):
        problem = model.problem
        params = jax.tree.map(jnp.float32, problem.params)
        x, t = jnp.ones(problem.n, jnp.float32), jnp.float32(0.5)
        drift, noise = (jax.eval_shape(function, t, x, params) for function in (problem.f, problem.g))
        assert drift.dtype == noise.dtype == jnp.float32
