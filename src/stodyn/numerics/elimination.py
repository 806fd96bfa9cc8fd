"""Small dense linear systems a x = b for one path, eliminated by whole rows in an order fixed before the run.

In lanes the rows fall apart into scalar operations; under vmap each is an array over the paths, which compiles faster
and runs two or three times as fast as LAPACK called for every path. A path whose matrix does not suit the fixed order
is solved again with exchanges of rows, in a loop that runs once where a path needs it and otherwise not at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

PIVOTED = 3  # up to this size rows are always exchanged per path, by selection
WRITTEN_OUT = 12  # up to this size elimination is written out in a fixed row order; beyond it is LAPACK's LU
ORDERED = 32  # the same where the caller knows an order: that of a sparse system fills few places
NOISE = 200  # a pivot below this many ε of its row's size means a singular matrix
GROWTH = 1000  # errors of this many ε mean that the order of rows does not suit the matrix
SMALL = 0.01  # unknowns below this share of the largest are not measured by their own size: they may be rounded zeros

Order = tuple[int, ...] | None
Pivots = list[tuple[Array, Array, Array]]  # each with the column below it, and the row to the right of it over it


def solve(a: ArrayLike, b: ArrayLike, order: Sequence[int] | None = None) -> Array:
    """Solve a x = b for one path, a (n, n) and b (n,), by Gaussian elimination.

    n <= 3    partial pivoting by selection, each row measured by its largest entry
    n <= 12   or up to 32 with an order: rows in the fixed `order` (default 0, ..., n-1; `row_order` picks one). Where a
              row then leaves
              |a x - b| > 1000 ε (|a| (|x| + max|x|/100) + |b|), max|x| in units of its columns, the path is solved
              again, by partial pivoting of the matrix with columns and rows scaled
    beyond    LU with partial pivoting

    So x is good to the condition of a for every regular a. Where a is singular x is not finite or solves a system near
    by. Costs n³/3 multiplications, and 2 n² for the test; in lanes zeros known when tracing cost nothing. Derivatives,
    forwards and backwards, are those of a⁻¹ b, n² multiplications for each after one more elimination.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    n = b.shape[0] if b.ndim == 1 else -1
    if a.shape != (n, n):
        raise ValueError(f"solve: a and b must have the shapes (n, n) and (n,), got {a.shape} and {b.shape}")
    if order is not None and sorted(order) != list(range(n)):
        raise ValueError(f"solve: order must be a permutation of 0, ..., {n - 1}, got {tuple(order)}")
    if not is_written_out(n, order):
        return jnp.linalg.solve(a, b)
    if n <= PIVOTED:
        return jnp.stack(_eliminate_exchanging([[*(a[i, j] for j in range(n)), b[i]] for i in range(n)]))
    return _solution(a, b, _fixed(order))


def solved(a: Array, b: Array, order: Order = None) -> tuple[Array, Callable[[Array], Array]]:
    """x with a x = b, and a function that gives it for further b from the same elimination: NaN where `solve` would
    begin again with exchanges of rows. Without derivatives."""
    if not is_written_out(len(b), order):
        factors = jax.scipy.linalg.lu_factor(a)
        return jax.scipy.linalg.lu_solve(factors, b), lambda b: jax.scipy.linalg.lu_solve(factors, b)
    if len(b) <= PIVOTED:
        return solve(a, b), lambda b: solve(a, b)
    b, pivots = _evaluated_once(b), _decompose(_ordered(a, order))
    quick = _substitute(pivots, _ordered(b, order))
    unsound = _is_unsound(a, quick, b)
    x = _mended(unsound, quick, lambda: _exchanging(a, b)[0])
    return x, lambda b: jnp.where(unsound, jnp.nan, _substitute(pivots, _ordered(b, order)))


def factorised(
    a: ArrayLike, order: Sequence[int] | None = None, is_definite: bool = False
) -> Callable[[ArrayLike], Array]:
    """b -> x with a x = b, the elimination of a (n, n) made once for any number of right-hand sides.

    n <= 3    as `solve` does it, for each of them
    n <= 12   or up to 32 with an order: rows in the fixed `order`; where it does not suit a, which a right-hand side
              with equal shares of every column shows, each x comes from partial pivoting as in `solve`
    beyond    LU with partial pivoting

    It costs n³/3 multiplications and 4 n² for the test once, and n² per right-hand side. Where a is symmetric and
    positive definite (`is_definite`) every order of rows suits it: there is no test, and beyond n = 3 no exchange.
    """
    a = jnp.asarray(a)
    if not is_written_out(a.shape[0], order):
        factors = jax.scipy.linalg.lu_factor(a)
        return lambda b: jax.scipy.linalg.lu_solve(factors, b)
    if a.shape[0] <= PIVOTED:
        return lambda b: solve(a, b)
    held, fixed = lax.stop_gradient(a), _fixed(order)
    pivots = _decompose(_ordered(held, fixed))
    unsound = None if is_definite else _examined(held, pivots, fixed)[0]
    return lambda b: _inverted(a, pivots, unsound, jnp.asarray(b), fixed)


def determinant(a: ArrayLike, order: Sequence[int] | None = None, unit: float = 1.0) -> Array:
    """The determinant of a/unit, a (n, n), for one path: expanded up to n = 3; up to 12 (with an order 32) by
    elimination in the row order or, where that does not suit a, by partial pivoting; beyond by LU. 0, about 0 or NaN
    where a is singular. A unit like the entries keeps products of n of them within the range of floats."""
    a = jnp.asarray(a) if unit == 1.0 else jnp.asarray(a) * (1.0 / unit)
    n = a.shape[0]
    if n == 0:
        return jnp.ones((), a.dtype)
    if n == 1:
        return a[0, 0]
    if n == 2:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    if n == 3:
        return jnp.dot(a[0], jnp.cross(a[1], a[2]))
    return _determinant(a, _fixed(order)) if is_written_out(n, order) else jnp.linalg.det(a)


def is_written_out(n: int, order: Sequence[int] | None) -> bool:
    """Whether elimination of n unknowns is written out, rather than left to LAPACK."""
    return n <= (WRITTEN_OUT if order is None else ORDERED)


def _fixed(order: Sequence[int] | None) -> Order:
    return None if order is None else tuple(order)


def _ordered(a: Array, order: Order) -> Array:
    return a if order is None else a[np.asarray(order, int)]


# --- in a fixed order -------------------------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _solution(a: Array, b: Array, order: Order) -> Array:
    b = _evaluated_once(b)
    pivots = _decompose(_ordered(jnp.concatenate([a, b[:, None]], axis=1), order))
    upper = _upper(pivots)
    x = _substitute_back(upper, upper[:, -1])
    return _mended(_is_unsound(a, x, b), x, lambda: _exchanging(a, b)[0])


@_solution.defjvp
def _solution_derivative(order: Order, primals: Any, changes: Any) -> tuple[Array, Array]:
    (a, b), (da, db) = primals, changes
    b = _evaluated_once(b)
    pivots = _decompose(_ordered(lax.stop_gradient(a), order))
    unsound = _is_unsound(a, _substitute(pivots, _ordered(b, order)), b)
    x = _inverted(a, pivots, unsound, b, order)
    return x, _linear(a, pivots, unsound, db - da @ x, order)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def _inverted(a: Array, pivots: Pivots, unsound: Array | None, b: Array, order: Order) -> Array:
    """a⁻¹ b from the pivots of a or, where those are not sound, from a itself; `unsound` is None where a is symmetric
    and positive definite."""
    if unsound is None:
        return _substitute(pivots, _ordered(b, order))
    return _mended(unsound, _substitute(pivots, _ordered(b, order)), lambda: _exchanging(a, b)[0])


@_inverted.defjvp
def _inverted_derivative(order: Order, primals: Any, changes: Any) -> tuple[Array, Array]:
    (a, pivots, unsound, b), (da, _, _, db) = primals, changes
    x = _inverted(a, pivots, unsound, b, order)
    return x, _linear(a, pivots, unsound, db - da @ x, order)


def _linear(a: Array, pivots: Pivots, unsound: Array | None, b: Array, order: Order) -> Array:
    """a⁻¹ b as JAX knows it to be linear in b, and can transpose it."""
    if unsound is None:
        return lax.custom_linear_solve(
            lambda x: a @ x, b, lambda _, b: _inverted(a, pivots, unsound, b, order), symmetric=True
        )
    return lax.custom_linear_solve(
        lambda x: a @ x,
        b,
        lambda _, b: _inverted(a, pivots, unsound, b, order),
        lambda _, b: _solution(a.T, b, None),
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _determinant(a: Array, order: Order) -> Array:
    sign = 1 if order is None else round(float(np.linalg.det(np.eye(len(a))[list(order)])))
    pivots = _decompose(_ordered(a, order))
    quick = sign * functools.reduce(jnp.multiply, (pivot for pivot, _, _ in pivots))
    unsound, b = _examined(a, pivots, order)
    return _mended(unsound, quick, lambda: _exchanging(a, b)[1])


@_determinant.defjvp
def _determinant_derivative(order: Order, primals: Any, changes: Any) -> tuple[Array, Array]:
    determinant = _determinant(*primals, order)
    return determinant, determinant * jnp.trace(jnp.linalg.solve(*primals, *changes))


@jax.jit
def _decompose(a: Array) -> Pivots:
    """The rows of a (n, n or more) as they stand: every pivot, the column below it, its row to the right over it.

    Here and in the substitutions, operations of `lax` are traced in a third of the time that those of `jnp` take.
    """
    pivots = []
    while (height := a.shape[0]) > 0:
        width = a.shape[1]
        pivot, column = _first(_first(a)), lax.slice(_first(a, 1), (1,), (height,))
        row = _times(lax.slice(_first(a), (1,), (width,)), _inverse(pivot))
        pivots.append((pivot, column, row))
        shape = (height - 1, width - 1)
        product = lax.mul(lax.broadcast_in_dim(column, shape, (0,)), lax.broadcast_in_dim(row, shape, (1,)))
        a = lax.sub(lax.slice(a, (1, 1), a.shape), product)
    return pivots


def _substitute(pivots: Pivots, b: Array) -> Array:
    """x from the decomposition of a (n, n)."""
    y: list[Array] = []
    for pivot, column, _ in pivots:
        y.append(lax.mul(_first(b), _inverse(pivot)))
        b = lax.sub(lax.slice(b, (1,), b.shape), _times(column, y[-1]))
    return _substitute_back(_upper(pivots), jnp.stack(y))


def _first(a: Array, axis: int = 0) -> Array:
    return lax.index_in_dim(a, 0, axis, keepdims=False)


def _times(a: Array, number: Array) -> Array:
    return lax.mul(a, lax.broadcast_in_dim(number, a.shape, ()))


def _inverse(number: Array) -> Array:
    return lax.div(number.dtype.type(1), number)


def _upper(pivots: Pivots) -> Array:
    """The rows of the pivots below each other: the numbers above the diagonal, zeros elsewhere."""
    zero = jnp.zeros((), pivots[0][2].dtype)
    return jnp.stack([lax.pad(row, zero, [(k + 1, 0, 0)]) for k, (_, _, row) in enumerate(pivots)])


def _substitute_back(upper: Array, y: Array) -> Array:
    """x with x_k + Σ upper[k, j] x_j = y_k, j > k. Each x_j is taken out of all equations above it at once: n
    operations on arrays are traced instead of n²/2 on numbers."""
    x: list[Array] = []
    for k in reversed(range(len(y))):
        x.insert(0, lax.index_in_dim(y, k, keepdims=False))
        column = lax.squeeze(lax.slice(upper, (0, k), (k, k + 1)), (1,))
        y = lax.sub(lax.slice(y, (0,), (k,)), _times(column, x[0]))
    return jnp.stack(x)


def _is_unsound(a: Array, x: Array, b: Array) -> Array:
    """Whether growth has spoilt x in a x = b, and b is finite: a path that failed before needs no care.

    Row by row, so that the units of the equations do not matter, and each x_j by its own size or, where it is small,
    by that of the others in units of their columns. Few paths need the latter, and only where one does it is computed.
    """
    entries, size, error = jnp.abs(a), jnp.abs(x), jnp.abs(a @ x - b)
    most = GROWTH * jnp.finfo(x.dtype).eps

    def is_large() -> Array:
        columns = jnp.max(entries, axis=0)
        scale = entries @ (size + SMALL * jnp.max(size * columns) * (1.0 / columns)) + jnp.abs(b)
        return ~jnp.all(error <= most * scale)

    is_doubtful = ~jnp.all(error <= most * (entries @ size + jnp.abs(b)))
    return only_where(is_doubtful & jnp.isfinite(jnp.sum(b)), is_large)


def _evaluated_once(b: Array) -> Array:
    """b, which the compiler may not compute again for the test: a residual at its root is rounding and nothing else, so
    that two evaluations with and without fused multiply-adds have nothing in common."""
    return lax.optimization_barrier(b)


def _examined(a: Array, pivots: Pivots, order: Order) -> tuple[Array, Array]:
    """Whether pivots of a (n, n) are unsound, and the right-hand side that tells: that of x_j = c_j/max_i |a_ij|, the
    c_j between 1 and 2 such that nothing cancels by chance."""
    irregular = jnp.asarray(1.0 + np.sqrt(2.0) * np.arange(1, len(a) + 1) % 1.0, a.dtype)
    b = a @ (irregular / jnp.max(jnp.abs(a), axis=0))
    return _is_unsound(a, _substitute(pivots, _ordered(b, order)), b), b


# --- with exchanges, path by path -------------------------------------------------------------------------------------


def only_where(is_needed: Array, answer: Callable[[], Array]) -> Array:
    """`is_needed` and answer(): a loop, because the paths of a block run one only while one of them needs it."""

    def once(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return jnp.zeros_like(state[0]), answer()

    return lax.while_loop(lambda state: state[0], once, (is_needed, jnp.zeros_like(is_needed)))[1]


def _mended(unsound: Array, quick: Array, slow: Callable[[], Array]) -> Array:
    """`quick`, or the result of `slow` where that is unsound: a loop, because the paths of a block run one only while
    one of them needs it."""

    def once(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return jnp.zeros_like(state[0]), slow()

    return lax.while_loop(lambda state: state[0], once, (unsound, quick))[1]


def _exchanging(a: Array, b: Array) -> tuple[Array, Array]:
    """x with a x = b and det a by partial pivoting, rows measured by their largest entries after columns are.

    One loop over the columns, so that there are O(n²) operations to compile: the column to be eliminated is always the
    first and then becomes the last, and so does the row of its pivot.
    """
    n = len(b)
    number = jnp.arange(n)

    def measure(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, largest = state
        column = jnp.abs(rows[:, 0])
        return _turned(rows, n), jnp.maximum(largest, column * (1.0 / jnp.max(column)))

    def eliminate(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rows, weight, product = state  # finished rows have no weight
        chosen = jnp.argmax(jnp.abs(rows[:, 0]) * weight)
        exchanged = number == chosen
        top = functools.reduce(lambda top, i: jnp.where(exchanged[i], rows[i], top), range(1, n), rows[0])
        rows, weight = jnp.where(exchanged[:, None], rows[0], rows), jnp.where(exchanged, weight[0], weight)
        pivot = top[0]
        top = top * (1.0 / pivot)
        factor = jnp.where(number[1:] + k < n, rows[1:, 0], 0.0)
        rows = jnp.concatenate([rows[1:] - factor[:, None] * top, top[None]])
        weight = jnp.concatenate([weight[1:], jnp.zeros(1, weight.dtype)])
        return _turned(rows, n), weight, product * jnp.where(chosen == 0, pivot, -pivot)

    rows = jnp.concatenate([a, b[:, None]], axis=1)
    _, largest = _repeat(n, measure, (rows, jnp.zeros(n, a.dtype)))
    rows, _, product = _repeat(n, eliminate, (rows, 1.0 / largest, jnp.ones((), a.dtype)))
    return _substitute_back(rows, rows[:, n]), product


def _turned(rows: Array, n: int) -> Array:
    """The first of the n columns after the others, those beyond as they were."""
    return jnp.concatenate([rows[:, 1:n], rows[:, :1], rows[:, n:]], axis=1)


def _repeat(times: int, body: Callable, state: Any) -> Any:
    """body(k, state) for k = 0, ..., times - 1, as a loop that no compiler writes out."""
    start = jnp.asarray(0, jnp.int32)
    return lax.while_loop(lambda s: s[0] < times, lambda s: (s[0] + 1, body(s[0], s[1])), (start, state))[1]


def _eliminate_exchanging(rows: list[list[Array]]) -> list[Array]:
    """x from the rows (a_i0, ..., a_i,n-1, b_i), which are overwritten by U: each pivot the largest of its column, in
    units of the largest entry of its row."""
    n = len(rows)
    inverse: list[Array] = []
    sizes = [functools.reduce(jnp.maximum, map(jnp.abs, row[:n])) for row in rows]
    for k in range(n):
        for i in range(k + 1, n):
            exchange = jnp.abs(rows[i][k]) * sizes[k] > jnp.abs(rows[k][k]) * sizes[i]
            pairs = list(zip(rows[k][k:], rows[i][k:], strict=True))
            rows[k][k:] = [jnp.where(exchange, lower, upper) for upper, lower in pairs]
            rows[i][k:] = [jnp.where(exchange, upper, lower) for upper, lower in pairs]
            if k + 2 < n:
                sizes[i], sizes[k] = (jnp.where(exchange, sizes[j], sizes[i + k - j]) for j in (k, i))
        inverse.append(1.0 / rows[k][k])
        for i in range(k + 1, n):
            factor = rows[i][k] * inverse[k]
            for j in range(k + 1, n + 1):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
    x: list[Array] = []
    for k in reversed(range(n)):
        x.insert(0, sum((-rows[k][j] * x[j - k - 1] for j in range(k + 1, n)), rows[k][n]) * inverse[k])
    return x


def row_order(a: np.ndarray) -> tuple[int, ...]:
    """The order of the rows of a known matrix for `solve`: partial pivoting, each row measured by its largest entry.

    A block of paths takes it once, at a typical state; it suits every matrix near enough for its pivots to stay.
    """
    a = np.asarray(a, dtype=float)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not np.isfinite(a).all():
        raise ValueError(f"row_order: a must be a finite square matrix, got shape {a.shape}:\n{a}")
    for axis, line in enumerate(("column", "row")):
        if not (nonzero := np.any(a, axis=axis)).all():
            raise ValueError(f"row_order: a must be regular, but {line} {np.argmin(nonzero)} is zero:\n{a}")
    n = len(a)
    order = list(range(n))
    u = a / np.abs(a).max(axis=1, keepdims=True)
    u = u / np.abs(u).max(axis=0)
    for k in range(n):
        i = k + int(np.argmax(np.abs(u[k:, k])))
        if abs(u[i, k]) <= NOISE * np.finfo(float).eps:
            raise ValueError(f"row_order: a must be regular, but column {k} depends on those before it:\n{a}")
        u[[k, i]] = u[[i, k]]
        order[k], order[i] = order[i], order[k]
        u[k + 1 :, k:] -= np.outer(u[k + 1 :, k] / u[k, k], u[k, k:])
    return tuple(order)
