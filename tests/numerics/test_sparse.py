"""Sparse elimination: found in the trace, as dense elimination gives it, also where the fixed order does not serve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from stodyn.numerics import uncompiled
from stodyn.numerics.instructions import rows_of
from stodyn.numerics.printing.points import at_one
from stodyn.numerics.sparse import Pattern, filled_in, find_order, find_pattern

NODES, SOURCES = 20, 3


def net(seed):
    """A net of conductances with voltage sources, whose diagonal has zeros, and a rail that all nodes know."""
    rng = np.random.default_rng(seed)
    a = np.zeros((NODES + SOURCES, NODES + SOURCES))
    for i, j in [(i, i + 1) for i in range(NODES - 1)] + [(i, NODES - 1) for i in range(NODES - 2)]:
        a[np.ix_((i, j), (i, j))] += rng.uniform(0.5, 2.0) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    for k, node in enumerate((0, 7, NODES - 1)):
        a[NODES + k, node] = a[node, NODES + k] = 1.0
    return a


def equations(x):
    """Nonlinear, with the pattern of a net."""
    return jnp.asarray(net(1)) @ x + x * jnp.where(np.arange(x.size) < NODES, x, 0.0)


def test_the_pattern_and_the_jacobian_are_those_of_the_dense_one():
    x = np.linspace(-1.0, 1.0, NODES + SOURCES)
    found = find_pattern(equations, x)
    assert np.array_equal(found.csr().toarray(), (net(1) != 0.0) | np.diag(np.arange(x.size) < NODES))
    dense = at_one(jax.jacfwd(equations), x)
    for reversible, colours, long in ((False, NODES + 1, []), (True, 5, [NODES - 1])):
        pattern = Pattern(found.rows, found.columns, found.shape, reversible)
        assert pattern.colours.max() < colours and list(pattern.long) == long
        filled = at_one(lambda x, pattern=pattern: pattern.dense(pattern.jacobian(equations, x)), x)
        np.testing.assert_allclose(filled, dense, atol=1e-15)
    values = net(2)[pattern.rows, pattern.columns]
    np.testing.assert_allclose(at_one(pattern.times, values, x), net(2) @ x, atol=1e-13)


@pytest.mark.parametrize("share", [0.05, 0.4, 1.0])
def test_columns_take_the_first_colour_that_is_free_in_their_rows(share):
    holds = np.random.default_rng(4).random((40, 30)) < share
    colours, order = Pattern.of(holds).colours, np.argsort(-holds.sum(axis=0), kind="stable")
    for place, column in enumerate(order):
        beside = [other for other in order[:place] if (holds[:, other] & holds[:, column]).any()]
        assert colours[column] == min(set(range(31)) - set(colours[beside].tolist()))


@pytest.fixture(scope="module")
def elimination():
    pattern = Pattern.of(net(1) != 0.0)
    return find_order(pattern, net(1)[None, pattern.rows, pattern.columns])


def products(elimination):
    """How many products it takes."""
    n = elimination.pattern.shape[0]
    return np.bincount(elimination.beside.rows, minlength=n) @ np.bincount(elimination.below.rows, minlength=n)


def test_solutions_and_determinants_are_those_of_dense_matrices_whatever_the_pivots(elimination, quick_compiling):
    """Path 2 has a zero where the order wants a pivot and 3 one of 1e-13: there partial pivoting answers. Path 4 has
    failed before and path 5 is singular: neither may give a number."""
    pattern = elimination.pattern
    matrices = np.array([net(seed) for seed in (2, 3, 4, 5, 6, 7)])
    first = np.intersect1d(elimination.beside.rows, elimination.below.rows)[0]
    row, column = elimination.rows[first], elimination.columns[first]
    matrices[2, row, column], matrices[3, row, column] = 0.0, 1e-13
    matrices[4] *= np.nan
    matrices[5, :, -1] = 0.0
    values = matrices[:, pattern.rows, pattern.columns].T
    b = np.random.default_rng(1).standard_normal((len(net(1)), 6))

    def both(values, b):
        solve = elimination.factorised(values)
        return solve(b), jnp.stack(elimination.determinant(values))

    x, (sign, size) = jax.jit(jax.vmap(both, in_axes=-1, out_axes=-1))(values, b)
    for k in range(4):
        np.testing.assert_allclose(x[:, k], np.linalg.solve(matrices[k], b[:, k]), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose((sign[k], size[k]), np.linalg.slogdet(matrices[k]), rtol=1e-10)
    assert not np.isfinite(x[:, 4]).any() and not np.isfinite(x[:, 5]).all()
    assert not sign[4] * sign[0] > 0 and not abs(sign[5]) > 0
    common = jax.jit(jax.vmap(both, in_axes=(None, -1), out_axes=(-1, None)))
    for k in (0, 2, 3):  # one matrix for all the paths
        x, found = common(values[:, k], b)
        np.testing.assert_allclose(x, np.linalg.solve(matrices[k], b), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found, np.linalg.slogdet(matrices[k]), rtol=1e-10)


def test_derivatives_are_those_of_the_solution(elimination, quick_compiling):
    pattern = elimination.pattern
    values, b = net(2)[pattern.rows, pattern.columns], np.linspace(0.0, 1.0, len(net(1)))

    def sparse(s):
        return jnp.sum(elimination.factorised(s * s * jnp.asarray(values))(jnp.sin(s * b)) ** 2)

    def dense(s):
        return jnp.sum(jnp.linalg.solve(s * s * net(2), jnp.sin(s * b)) ** 2)

    np.testing.assert_allclose(jax.jit(jax.grad(sparse))(1.2), jax.jit(jax.grad(dense))(1.2), rtol=1e-10)


def test_large_matrices_are_eliminated_along_the_diagonal_where_that_serves():
    """A grid of 15 x 15 nodes in compiled code's order; one with a zero on its diagonal with rows exchanged."""
    line = np.diag(np.ones(14), 1) + np.diag(np.ones(14), -1)
    grid = 5.0 * np.eye(225) - np.kron(line, np.eye(15)) - np.kron(np.eye(15), line)
    grid[3, 4] *= 0.3
    for corner, is_symmetric in ((5.0, True), (0.0, False)):
        grid[0, 0] = corner
        pattern = Pattern.of((grid != 0.0) | np.eye(225, dtype=bool))
        values = grid[pattern.rows, pattern.columns]
        found = find_order(pattern, values[None])
        assert np.array_equal(found.rows, found.columns) == is_symmetric
        assert products(found) < 225**3 / 300  # a hundredth of dense
        b = np.sin(np.arange(225.0))
        (x,) = uncompiled.run(jax.make_jaxpr(lambda v, b: found.factorised(v)(b))(values, b), values, b)
        np.testing.assert_allclose(x, np.linalg.solve(grid, b), rtol=1e-11, atol=1e-11)


def test_fill_that_underflows_in_the_numbers_tried_is_still_eliminated():
    """A ring of 1000 waves, whose fill does not decay, in an order found with numbers whose fill is 1e-400."""
    n = 1000
    ring = 0.7 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    ring[0, -1] = ring[-1, 0] = -1.0
    pattern = Pattern.of(ring != 0.0)
    values, b = ring[pattern.rows, pattern.columns], np.sin(np.arange(float(n)))
    found = find_order(pattern, values[None])
    upper, lower = found.beside.csr().toarray(), found.below.csr().toarray().T
    known = upper | lower | np.eye(n, dtype=bool)
    assert not np.any(lower.astype(float) @ upper.astype(float) * ~known)
    (x,) = uncompiled.run(jax.make_jaxpr(lambda v, b: found.factorised(v)(b))(values, b), values, b)
    np.testing.assert_allclose(x, np.linalg.solve(ring, b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_places_that_fill_in_are_those_of_elimination(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    holds = (rng.random((n, n)) < rng.uniform(0.02, 0.4)) | np.eye(n, dtype=bool)
    holds = holds | holds.T if seed % 3 == 0 else holds
    beside, below = filled_in(scipy.sparse.csr_array(holds))
    for k in range(n):
        holds[k + 1 :, k + 1 :] |= np.outer(holds[k + 1 :, k], holds[k, k + 1 :])
    assert np.array_equal(beside.csr().toarray(), np.triu(holds, 1))
    assert np.array_equal(below.csr().toarray().T, np.tril(holds, -1))


def test_nets_with_sources_are_eliminated_where_the_diagonal_is_zero():
    """Conductances of a grid and voltage sources at some nodes, whose currents have no diagonal of their own."""
    side = 16
    n, line = side * side, 2.0 * np.eye(side) - np.eye(side, k=1) - np.eye(side, k=-1)
    nodes = np.kron(line, np.eye(side)) + np.kron(np.eye(side), line)
    at = np.eye(n)[[0, 7, 100]]
    a = np.block([[nodes, at.T], [at, np.zeros((3, 3))]])
    pattern = Pattern.of(a != 0.0)
    samples = np.array([a, a + 0.1 * np.diag(np.arange(n + 3) < n)])
    found = find_order(pattern, samples[:, pattern.rows, pattern.columns])
    assert not np.array_equal(found.rows, found.columns)
    assert products(found) < 40 * n * np.log2(n)
    b = np.random.default_rng(1).standard_normal(n + 3)
    with jax.enable_x64(True):
        solve = jax.jit(jax.vmap(lambda entries: found.factorised(entries)(b)))
        solutions = np.asarray(solve(samples[:, pattern.rows, pattern.columns]))
    for matrix, x in zip(samples, solutions, strict=True):
        np.testing.assert_allclose(matrix @ x, b, atol=1e-11)


def test_work_grows_with_the_net_and_not_with_its_square():
    """L and U of a ladder hold 5n numbers and are made in groups whose number grows like n/32 + log n."""
    for n in (50, 199):
        ladder = 3.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
        pattern = Pattern.of(ladder != 0.0)
        found = find_order(pattern, ladder[None, pattern.rows, pattern.columns])
        assert n + len(found.beside.rows) + len(found.below.rows) <= 5 * n
        assert len(found._plan.factoring.grouped.base) <= 5 * n / 32 + 2.5 * np.log2(n)
    full = Pattern.of(np.ones((30, 30)))
    assert find_order(full, np.random.default_rng(1).standard_normal((1, 900))) is None
    assert find_order(pattern, np.zeros((1, len(pattern.rows)))) is None
    nowhere = np.diag([1.0, 0.0, 1.0]) + np.eye(3, k=-2)
    assert find_order(Pattern.of(nowhere), np.ones((1, 3))) is None


def test_rows_of_numbers_known_while_tracing():
    """JAX hands over slopes that no input enters as arrays of NumPy, as in implicit steps of a structure whose load has
    a filter of two states."""
    numbers = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(rows_of(numbers, np.array([2, 0])), numbers[[2, 0]])
