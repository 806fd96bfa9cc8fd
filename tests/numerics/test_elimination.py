"""Elimination against NumPy's LU, where it must answer and where it must refuse."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics.elimination import determinant, factorised, row_order, solve
from stodyn.numerics.printing import rows, scalars
from stodyn.numerics.printing.nodes import Graph, reachable
from stodyn.numerics.printing.over_arrays import Printed
from stodyn.numerics.printing.points import AtPoints, at_points

EPS = np.finfo(float).eps
BATCH = 60
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16)  # both sides of every regime


def at_one(function, *arguments):
    """A function of arrays, printed and called once: JAX would compile its operations one by one."""
    return jax.tree.map(lambda found: found[0], at_points(function, *(np.asarray(a)[None] for a in arguments)))


solve_all = AtPoints(solve)  # printed as a run prints it, once for each size; beyond 12 unknowns by XLA
everything = AtPoints(lambda a, b: (solve(a, b), factorised(a)(b), determinant(a)))


def ordered(a, b):
    """The same systems with the rows of each in the order row_order chooses."""
    orders = [list(row_order(matrix)) for matrix in a]
    return np.stack([m[o] for m, o in zip(a, orders, strict=True)]), np.stack(
        [v[o] for v, o in zip(b, orders, strict=True)]
    )


def times(a, x):
    return np.einsum("sij,sj->si", a, x)


def backward_error(a, x, b):
    """Row-wise, of each system: max |a x - b|_i / (Σ_j |a_ij| max|x| + |b_i|)."""
    size = np.abs(x).max(axis=1, keepdims=True)
    return np.max(np.abs(times(a, x) - b) / (np.abs(a).sum(axis=2) * size + np.abs(b)), axis=1)


def random_systems(n, seed=0):
    rng = np.random.default_rng((n, seed))
    return rng.normal(size=(BATCH, n, n)), rng.normal(size=(BATCH, n))


@pytest.mark.brief("1", "2", "3", "4", "5", "8", "12", "13")
@pytest.mark.parametrize("n", SIZES)
def test_solves_random_systems_to_rounding(n):
    a, b = random_systems(n)
    if n > 3:
        a, b = ordered(a, b)
    x = solve_all(a, b)
    exact = np.linalg.solve(a, b[..., None])[..., 0]
    assert (backward_error(a, x, b) < 4 * n * EPS).all()
    assert (np.abs(x - exact).max(axis=1) <= 10 * n * EPS * np.linalg.cond(a) * np.abs(exact).max(axis=1)).all()


@pytest.mark.parametrize("n", [n for n in SIZES if 3 < n <= 12])
def test_natural_order_solves_dominant_systems(n):
    a, b = random_systems(n)
    a += np.abs(a).sum(axis=2, keepdims=True) * np.eye(n)
    np.testing.assert_allclose(solve_all(a, b), np.linalg.solve(a, b[..., None])[..., 0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("pivot", [0.0, 1e-20, -1e-12])
@pytest.mark.parametrize("n", [2, 3])
def test_small_systems_exchange_rows(n, pivot):
    a, b = random_systems(n)
    a[:, 0, 0] = pivot
    x = solve_all(a, b)
    assert (backward_error(a, x, b) < 4 * n * EPS).all()


def test_small_systems_exchange_rows_at_the_second_pivot():
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 1.0], [1.0, 1.0, 1.0]])
    x = solve_all(np.stack([a, np.eye(3)[::-1]]), np.stack([a @ [1.0, 2.0, 3.0], np.arange(3.0)]))
    np.testing.assert_allclose(x[0], [1.0, 2.0, 3.0], rtol=1e-15)
    np.testing.assert_array_equal(x[1], [2.0, 1.0, 0.0])


@pytest.mark.parametrize("n", [4, 5, 6])
def test_given_order_serves_matrices_with_zero_diagonal(n):
    (a, *_), (b, *_) = random_systems(n)
    a = a + 4 * n * np.eye(n)[::-1]
    np.fill_diagonal(a, np.where(np.arange(n) == n // 2, a.diagonal(), 0.0) if n % 2 else 0.0)
    order = row_order(a)
    assert order == tuple(reversed(range(n)))
    for x in at_one(lambda a, b: (solve(a, b, order), solve(a, b)), a, b):
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-12)


@pytest.mark.parametrize("n", [n for n in SIZES if 3 < n <= 12])
def test_small_pivots_of_the_fixed_order_cost_few_digits(n):
    """A first pivot of size e would cost log10(1/e) digits of 16: at most three, then rows are exchanged."""
    (good, *_), (right, *_) = ordered(*random_systems(n))
    a, b = np.repeat(good[None], BATCH, axis=0), np.repeat(right[None], BATCH, axis=0)
    a[:, 0, 0] = np.append(np.geomspace(1e-25, 1e-2, BATCH - 1), 0.0)
    assert (backward_error(a, solve_all(a, b), b) <= 1010 * EPS).all()


def test_growth_away_from_the_diagonal_is_seen():
    """[[e, 0, 1, 1], [1, ...], ...]: the second pivot shows nothing of the 1/e beside it."""
    a = np.array([[1e-14, 0, 1, 1], [1, 1, 0, 2], [1, 0, 0, 1], [0, 0, 3, 1]])
    b, order = a @ np.array([1.0, -2.0, 3.0, 0.7]), row_order(a)
    for x in at_one(lambda a, b: (solve(a, b), solve(a, b, order)), a, b):
        np.testing.assert_allclose(x, [1.0, -2.0, 3.0, 0.7], rtol=1e-14)


# --- badly ordered regular systems ------------------------------------------------------------------------------------

MANY = 1000


def shuffled_triangles(rng, n):
    """Triangular matrices, rows and columns in another order: most begin with a zero, each in its own place."""
    a = np.tril(rng.normal(size=(MANY, n, n)), -1) + np.eye(n) * rng.choice([-1.0, 1.0], (MANY, 1, n))
    return np.stack([m[rng.permutation(n)][:, rng.permutation(n)] for m in a])


def saddle_points(rng, n):
    """[[A, B'], [B, 0]] with A positive definite or, every second one, only so where B x = 0; constraints first."""
    k = n // 3
    A, B = rng.normal(size=(MANY, n - k, n - k)), rng.normal(size=(MANY, k, n - k))
    A = A @ A.transpose(0, 2, 1) / n + 0.3 * np.eye(n - k)
    A[::2] -= 3.0 * B[::2].transpose(0, 2, 1) @ B[::2]
    a = np.zeros((MANY, n, n))
    a[:, k:, k:], a[:, :k, k:], a[:, k:, :k] = A, B, B.transpose(0, 2, 1)
    return a


def tiny_diagonals(rng, n):
    a = rng.normal(size=(MANY, n, n))
    a[:, np.arange(n), np.arange(n)] = 10.0 ** rng.uniform(-30, 0, (MANY, n))
    return a


KINDS = [shuffled_triangles, saddle_points, tiny_diagonals]


@pytest.mark.brief(*(f"{kind.__name__}-{n}" for kind in KINDS for n in (3, 4, 5, 12)))
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_every_regular_system_is_solved_in_any_order_and_any_units(kind, n):
    """Row by row to 1010 ε, by `solve` and `factorised`, and the determinant to that and the condition of the matrix;
    then the same in units of the equations and, from 4 unknowns on, of the unknowns that differ by 10^4."""
    rng = np.random.default_rng(n)
    a, b = kind(rng, n), rng.normal(size=(MANY, n))
    x, once, found = everything(a, b)
    assert (backward_error(a, x, b) <= 1010 * EPS).all()
    assert (backward_error(a, once, b) <= 1010 * n * EPS * np.linalg.cond(a)).all()
    exact = np.linalg.det(a)
    assert (np.abs(found - exact) <= 4000 * n * EPS * np.linalg.cond(a) * np.abs(exact)).all()
    rows, columns = 2.0 ** rng.integers(-7, 7, (MANY, n)), 2.0 ** (rng.integers(-7, 7, (MANY, n)) * (n > 3))
    scaled = rows[:, :, None] * a * columns[:, None, :]
    y = everything(scaled, rows * b)[0] * columns
    assert (np.abs(y - x).max(axis=1) <= 4000 * n * EPS * np.linalg.cond(a) * np.abs(x).max(axis=1)).all()


@pytest.mark.parametrize("n", [5, 13, 40])
def test_badly_ordered_systems_are_solved_under_vmap(n, quick_compiling):
    """The same kinds as above through XLA, where a loop exchanges the rows of 5 and LU those of 13 and 40 unknowns."""
    rng = np.random.default_rng(n)
    a = np.concatenate([kind(rng, n)[:200] for kind in KINDS])
    b = rng.normal(size=a.shape[:2])
    x = np.asarray(jax.jit(jax.vmap(solve))(a, b))
    assert (backward_error(a, x, b) <= 1010 * EPS).all()


def test_printed_programs_exchange_rows_path_by_path():
    """The paths of a block that need it, and the others keep their bits; in both precisions."""
    n = 5
    a, b = random_systems(n, 7)
    a += 3 * n * np.eye(n)
    served = solve_all(a, b)
    a[::7] = np.roll(a[::7], 2, axis=1)
    for dtype in (np.float64, np.float32):
        A, B = a.astype(dtype), b.astype(dtype)
        printed = Printed({"all": lambda a, b: (solve(a, b), factorised(a)(b), determinant(a))}, [A[0], B[0]])
        x, once, found = printed("all", np.moveaxis(A, 0, -1), B.T)
        exact = np.linalg.solve(a, b[..., None])[..., 0]
        bound = 1000 * n * np.finfo(dtype).eps * np.linalg.cond(a) * np.abs(exact).max(axis=1)
        assert (np.abs(x.T - exact).max(axis=1) <= bound).all()
        assert (np.abs(once.T - exact).max(axis=1) <= bound).all()
        np.testing.assert_allclose(found, np.linalg.det(a), rtol=1e3 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(solve_all(a, b)[1], served[1])


@pytest.mark.brief("None")
@pytest.mark.parametrize("order", [None, (1, 0, 3, 2)])
def test_derivatives_of_all_kinds_are_those_of_the_inverse(order):
    """Forwards, backwards, twice, and for many right-hand sides, served by the order or not."""
    rng = np.random.default_rng(3)
    a, b, da = np.eye(4)[[1, 0, 3, 2]] + 0.1 * rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=(4, 4))
    inverse = np.linalg.inv(a)

    def solving(a):
        return solve(a, b, order)

    for function in (solving, lambda a: factorised(a, order)(b)):

        def along(s, function=function):
            return function(a + s * da)

        first, second = -inverse @ da @ inverse @ b, 2 * inverse @ da @ inverse @ da @ inverse @ b
        for derivative in (jax.jacfwd(along), jax.jacrev(along)):
            np.testing.assert_allclose(at_one(derivative, 0.0), first, rtol=1e-12)
        if (order is None) == (function is solving):  # twice takes seconds to trace: each function and order once
            again = jax.jacrev if order is None else jax.jacfwd
            np.testing.assert_allclose(at_one(again(jax.jacfwd(along)), 0.0), second, rtol=1e-12)
    slope = at_one(jax.grad(lambda s: determinant(a + s * da, order)), 0.0)
    np.testing.assert_allclose(slope, np.linalg.det(a) * np.trace(inverse @ da), rtol=1e-12)


def test_zero_components_are_no_alarm():
    """x_0 = x_1 = 0 up to rounding: the first row's residual is as large as its terms, and yet the answer is good."""
    a = np.array([[2.0, -1.0, 0.0, 0.0], [0.3, 0.7, 0.1, 0.3], [0.1, 0.9, 3.0, -0.7], [0.2, 0.1, 0.3, 2.0]])
    b = a @ np.array([0.0, 0.0, 1.1, -0.3])
    np.testing.assert_allclose(at_one(solve, a, b), [0.0, 0.0, 1.1, -0.3], atol=1e-15)


@pytest.mark.parametrize("n", SIZES[1:])
def test_singular_systems_give_a_solution_or_nothing(n):
    """To rounding a singular matrix neighbours a regular one: what is finite must solve the system, row by row."""
    a, b = random_systems(n, 3)
    a[:, :, -1] = times(a[:, :, :-1], b[:, 1:])
    for right in (b, times(a, b)):
        x = solve_all(a, right)
        finite = np.isfinite(x).all(axis=1)
        assert (backward_error(a[finite], x[finite], right[finite]) <= np.sqrt(EPS)).all()
    a[:, 0] = 0.0
    assert not np.isfinite(solve_all(a, b)).all(axis=1).any()
    assert not np.isfinite(solve_all(np.zeros_like(a), b)).all(axis=1).any()


@pytest.mark.parametrize("n", SIZES[1:])
def test_ill_conditioned_systems_are_solved_while_digits_are_left(n):
    rng = np.random.default_rng(n)
    left, right = (np.linalg.qr(rng.normal(size=(BATCH, n, n)))[0] for _ in range(2))
    condition = np.geomspace(1e2, 1e11, BATCH)
    singular_values = condition[:, None] ** -np.linspace(0.0, 1.0, n)
    a = (left * singular_values[:, None, :]) @ right
    b = a.sum(axis=2)
    if n > 3:
        a, b = ordered(a, b)
    assert (np.abs(solve_all(a, b) - 1.0).max(axis=1) < 20 * n * EPS * condition).all()


@pytest.mark.parametrize("n", [2, 3, 4, 12, 13])
def test_units_of_the_rows_do_not_matter(n):
    a, b = ordered(*random_systems(n))
    scale = 2.0 ** np.random.default_rng(n).integers(-200, 200, (BATCH, n))
    assert row_order(scale[0][:, None] * a[0]) == row_order(a[0])
    x = solve_all(scale[..., None] * a, scale * b)
    if 3 < n <= 12:
        np.testing.assert_array_equal(x, solve_all(a, b))
    else:
        np.testing.assert_allclose(x, np.linalg.solve(a, b[..., None])[..., 0], rtol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 13])
def test_nan_and_infinity_do_not_hide(n):
    a, b = random_systems(n)
    a[:, n // 2, n // 2] = np.nan
    assert not np.isfinite(solve_all(a, b)).all(axis=1).any()
    a, b = random_systems(n)
    b[:, -1] = np.inf
    assert not np.isfinite(solve_all(a, b)).all(axis=1).any()


@pytest.mark.parametrize("n", [1, 3, 5, 12])
def test_falls_apart_into_scalar_operations_up_to_twelve_unknowns(n):
    """2 n³/3 multiplications and subtractions and O(n²) beside them; a diagonal costs O(n) of them.
    Exchanges, and the longer test that says who needs them, are O(n²) in loops that few paths enter."""

    def operations(known):
        graph = Graph()
        a = scalars.inputs_of(graph, "a", (n, n), np.float64)
        if known:
            a = np.where(np.eye(n, dtype=bool), a, scalars.known_entries(np.zeros((n, n))))
        trace = jax.make_jaxpr(solve)(np.eye(n), np.ones(n))
        (x,) = scalars.scalarised(trace, [a, scalars.inputs_of(graph, "b", (n,), np.float64)], graph)
        straight, everything = (rows.operations(reachable(x.tolist(), rare)) for rare in (False, True))
        return straight, everything - straight

    straight, rare = operations(known=False)
    assert straight <= 2 * n**3 / 3 + 8 * n**2 + 16 * n
    assert rare <= 11 * n**2 + 30 * n
    if n > 3:
        assert operations(known=True)[0] <= 20 * n


@pytest.mark.parametrize("n", [1, 2, 3, 4, 13])
def test_derivatives_of_solutions_are_those_of_the_inverse(n):
    (a, *_), (b, *_) = random_systems(n)
    a = a + 3 * n * np.eye(n)
    inverse = np.linalg.inv(a)
    tangent = at_one(jax.jacfwd(lambda s: solve(a + s * jnp.eye(n), b)), 0.0)
    np.testing.assert_allclose(tangent, -inverse @ inverse @ b, rtol=1e-11)


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.brief("3", "5")
@pytest.mark.parametrize("n", [3, 5, 13])
def test_solutions_in_single_precision_stay_in_it(n):
    """Under vmap as XLA compiles it."""
    a, b = random_systems(n)
    a += 3 * n * np.eye(n)
    x = jax.jit(jax.vmap(solve))(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32))
    assert x.dtype == jnp.float32
    exact = np.linalg.solve(a, b[..., None])[..., 0]
    bound = 10 * n * np.finfo(np.float32).eps * np.linalg.cond(a) * np.abs(exact).max(axis=1)
    assert (np.abs(x - exact).max(axis=1) <= bound).all()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=re.escape("got (2, 3) and (2,)")):
        solve(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match=re.escape("got (2, 2) and (2, 1)")):
        solve(np.ones((2, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="order must be a permutation"):
        solve(np.eye(4), np.ones(4), (0, 1, 2, 2))
    with pytest.raises(ValueError, match="column 2 depends on those before it"):
        row_order(np.arange(9.0).reshape(3, 3) + 1.0)
    with pytest.raises(ValueError, match="row 1 is zero"):
        row_order(np.array([[1.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="finite square matrix"):
        row_order(np.ones((2, 3)))


@pytest.mark.parametrize("n", [1, 3, 6, 13])
def test_a_matrix_eliminated_once_serves_many_right_hand_sides(n):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 2))
    order = row_order(a)

    def both(a, b):
        inverse = factorised(a, order)
        return jnp.stack([inverse(b[:, k]) for k in range(2)], axis=1), determinant(a, order)

    x, found = at_one(both, a, b)
    np.testing.assert_allclose(a @ x, b, atol=1e-10)
    np.testing.assert_allclose(found, np.linalg.det(a), rtol=1e-10)


def test_a_small_pivot_spoils_no_solution():
    a = np.array([[1e-12, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    for order in (None, (1, 0, 2, 3)):
        found = at_one(lambda a, order=order: factorised(a, order)(jnp.ones(4)), a)
        np.testing.assert_allclose(found, np.linalg.solve(a, np.ones(4)), rtol=1e-12, atol=1e-15)


def test_definite_matrices_are_eliminated_without_a_look_at_each_path():
    """Bit for bit as those that are looked at, with the same derivatives in both directions, and without a loop."""
    root = np.random.default_rng(3).standard_normal((6, 6))
    a, b = root @ root.T + np.eye(6), np.arange(1.0, 7.0)
    x, looked = (at_one(lambda a, b, d=d: factorised(a, is_definite=d)(b), a, b) for d in (True, False))
    np.testing.assert_array_equal(x, looked)
    assert "while" not in str(jax.make_jaxpr(lambda a, b: factorised(a, is_definite=True)(b))(a, b))

    def size(s, is_definite):
        return jnp.sum(factorised(a + s * np.diag(b), is_definite=is_definite)(b * (1.0 + s)) ** 2)

    for slope in (jax.grad, jax.jacfwd):
        found, right = (at_one(slope(lambda s, d=d: size(s, d)), 0.3) for d in (True, False))
        np.testing.assert_allclose(found, right, rtol=1e-12)
    assert np.isfinite(at_one(jax.grad(jax.grad(lambda s: size(s, True))), 0.3))
