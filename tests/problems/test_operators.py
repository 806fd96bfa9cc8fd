"""Noise that is never a matrix: its products, what is proved of it, and the same paths as by the matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.numerics.diagonals import diagonal

START = np.array([0.7, -0.4, 1.3])
ROWS, COLUMNS = np.array([0, 2, 1, 2]), np.array([1, 0, 1, 1])


def drift(t, x):
    return jnp.roll(x, 1) - x


DIAGONAL = {
    "diag": lambda t, x: jnp.diag(0.3 * x),
    "eye": lambda t, x: 0.5 * jnp.eye(3),
    "columns": lambda t, x: jnp.eye(3) * x * 0.2,
    "rows": lambda t, x: 0.2 * jnp.eye(3) * jnp.sin(x)[:, None],
    "where": lambda t, x: jnp.where(jnp.arange(3)[:, None] == jnp.arange(3), jnp.exp(-t) * x, 0.0),
    "numpy": lambda t, x: np.diag([0.1, 0.2, 0.3]) * x[0],
    "transposed": lambda t, x: jax.jit(jnp.diag)(jnp.cos(x)).T,
}


@pytest.mark.parametrize("name", DIAGONAL)
def test_diagonal_matrices_are_pushed_as_vectors(name):
    problem = sd.SDE(drift, DIAGONAL[name], START)
    W = np.array([0.3, -1.1, 0.8])
    with jax.enable_x64(True):
        G = np.asarray(DIAGONAL[name](0.4, jnp.asarray(START)))
        assert np.array_equal(diagonal(DIAGONAL[name])(0.4, START), np.diagonal(G))
        assert np.array_equal(problem.push(0.4, START, None, W), np.diagonal(G) * W)
        trace = jax.make_jaxpr(lambda x, W: problem.push(0.4, x, None, W))(START, W)
    assert all(v.aval.shape != (3, 3) for e in trace.jaxpr.eqns for v in e.outvars)


def test_a_matrix_of_other_places_is_not_diagonal():
    problem = sd.SDE(drift, lambda t, x: jnp.roll(jnp.diag(x), 1, axis=0), START)
    with jax.enable_x64(True):
        assert np.allclose(problem.push(0.0, START, None, np.ones(3)), np.roll(START, 1))


OPERATORS = {
    "diagonal": (lambda t, x: sd.diagonal(0.3 * x), lambda t, x: jnp.diag(0.3 * x), "diagonal"),
    "constant": (lambda t, x: sd.diagonal(jnp.full(3, 0.3)), lambda t, x: 0.3 * jnp.eye(3), "additive"),
    "foreign": (lambda t, x: sd.diagonal(jnp.roll(x, 1)), lambda t, x: jnp.diag(jnp.roll(x, 1)), "general"),
    "sparse": (
        lambda t, x: sd.sparse(ROWS, COLUMNS, jnp.append(x, x[0]), (3, 2)),
        lambda t, x: jnp.array([[0.0, x[0]], [0.0, x[2]], [x[1], x[0]]]),
        "general",
    ),
    "product": (
        lambda t, x: sd.product(lambda w: jnp.array([w[0], w[1] - w[0], 0.0]), 2),
        lambda t, x: jnp.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 0.0]]),
        "additive",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_their_matrices(name):
    operator, matrix, kind = OPERATORS[name]
    one, other = (sd.SDE(drift, g, START, calculus="stratonovich") for g in (operator, matrix))
    assert one.m == other.m
    assert one.noise_structure.kind == other.noise_structure.kind == kind
    with jax.enable_x64(True):
        assert np.array_equal(one.g(0.0, START, None), other.g(0.0, START, None))
        for i in range(3):
            assert np.isclose(np.sum(one.row(0.0, START, None, i) ** 2), np.sum(other.g(0.0, START, None)[i] ** 2))
        W = np.linspace(-1.0, 1.5, one.m)
        assert np.allclose(one.push(0.0, START, None, W), other.push(0.0, START, None, W), rtol=1e-15)


METHODS = ("Heun", "Milstein", "SRIW1", "R2", "ImplicitMidpoint")


def paths(problem, method):
    found = sd.simulate(problem, method, t=(0, 0.2), dt=0.1, paths=8, seed=3, collect=sd.statistics.Paths(8))
    return found.path.values


@pytest.mark.parametrize("method", METHODS)
def test_methods_take_the_same_steps_with_the_vector_as_with_the_matrix(method):
    operator, matrix, _ = OPERATORS["diagonal"]
    one, other = (paths(sd.SDE(drift, g, START, calculus="stratonovich"), method) for g in (operator, matrix))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("name", ["sparse", "product"])
def test_sparse_noise_and_products_take_the_steps_of_the_matrix(name):
    operator, matrix, _ = OPERATORS[name]
    one, other = (paths(sd.SDE(drift, g, START), "EulerMaruyama") for g in (operator, matrix))
    assert np.allclose(one, other, rtol=1e-14, atol=0)


def test_a_hundred_thousand_components_are_described_without_a_matrix():
    n = 100_000
    for g in (lambda t, x: sd.diagonal(0.1 * x), lambda t, x: jnp.diag(0.1 * x)):
        problem = sd.SDE(lambda t, x: -x, g, np.ones(n))
        assert problem.noise_structure.kinds == ("diagonal", "commutative")


def test_matrices_that_do_not_fit_are_refused_with_the_way_out():
    with pytest.raises(MemoryError, match=r"diffusion: its matrix \(10000000, 10000000\) .* Return sd.diagonal"):
        sd.SDE(lambda t, x: -x, lambda t, x: jnp.outer(x, x), np.zeros(10_000_000))
    with pytest.raises(MemoryError, match=r"diffusion: .* more memory than the machine has .* sd.diagonal"):
        sd.SDE(lambda t, x: -x, lambda t, x: np.ones((10**8, 10**8)) * x[0], np.zeros(3))


def test_bad_operators_are_refused():
    with pytest.raises(TypeError, match=r"diagonal: expected a vector"):
        sd.SDE(drift, lambda t, x: sd.diagonal(jnp.diag(x)), START)
    with pytest.raises(ValueError, match=r"diffusion: returned shape \(2, 2\), expected \(3, channels\)"):
        sd.SDE(drift, lambda t, x: sd.diagonal(x[:2]), START)
    with pytest.raises(ValueError, match=r"diffusion: returned an operator for a scalar start"):
        sd.SDE(lambda t, x: -x, lambda t, x: sd.diagonal(jnp.ones(1)), 1.0)
    with pytest.raises(ValueError, match=r"sparse: rows: expected numbers from 0 to 1"):
        sd.sparse([0, 2], [0, 0], [1.0, 1.0], (2, 1))
    with pytest.raises(ValueError, match=r"sparse: columns: expected whole numbers of shape \(2,\)"):
        sd.sparse([0, 1], [0.0, 0.5], [1.0, 1.0], (2, 1))
    with pytest.raises(ValueError, match=r"product: channels: expected a whole number"):
        sd.product(lambda w: w, 0)


def test_differences_of_noise_are_those_of_its_matrices():
    first, second = np.array([0.3, -1.0, 2.0, 0.5]), np.array([1.1, 0.4, -0.2, 0.7])
    W = np.array([0.3, -1.1, 0.8])
    kinds = (
        lambda x: sd.diagonal(jnp.asarray(x[:3])),
        lambda x: sd.sparse(ROWS, COLUMNS, jnp.asarray(x), (3, 3)),
        lambda x: sd.product(lambda w: jnp.outer(jnp.asarray(x[:3]), jnp.asarray(x[1:])) @ w, 3),
    )
    with jax.enable_x64(True):
        for kind in kinds:
            apart = kind(first) - kind(second)
            expected = kind(first).dense() - kind(second).dense()
            np.testing.assert_allclose(apart.dense(), expected, rtol=1e-13)
            np.testing.assert_allclose(apart @ W, expected @ W, rtol=1e-13)
