"""Small dense linear systems a x = b for one path, eliminated by whole rows.

In lanes the rows fall apart into scalar operations; under vmap each is an array over the paths, which compiles faster
and runs two or three times as fast as LAPACK called for every path.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import Array
from jax.typing import ArrayLike

PIVOTED = 3  # up to this size rows are exchanged per path, by selection
WRITTEN_OUT = 12  # up to this size elimination is written out in a fixed row order; beyond it is LAPACK's LU
ELIMINATION = "_decompose"  # the function by which a trace shows that there is an elimination by rows
NOISE = 200  # a pivot below this many ε of its row's size tells a singular matrix


def solve(a: ArrayLike, b: ArrayLike, order: Sequence[int] | None = None) -> Array:
    """Solve a x = b for one path, a (n, n) and b (n,), by Gaussian elimination.

    n <= 3    partial pivoting by selection
    n <= 12   rows in the fixed order `order` (default 0, ..., n-1; `row_order` picks one), so that a pivot may be small
              for some paths: x is NaN unless every row leaves |a x - b| <= √ε (Σ|a_ij| max|x| + |b_i|), that is,
              unless growth has cost less than half of the digits
    beyond    LU with partial pivoting

    A zero pivot gives a result that is not finite; a singular system that has solutions may give one of them. Costs
    n³/3 multiplications, and 2 n² for the test; in lanes zeros known when tracing cost nothing.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    n = b.shape[0] if b.ndim == 1 else -1
    if a.shape != (n, n):
        raise ValueError(f"solve: a and b must have the shapes (n, n) and (n,), found {a.shape} and {b.shape}")
    if order is not None and sorted(order) != list(range(n)):
        raise ValueError(f"solve: order must be a permutation of 0, ..., {n - 1}, found {tuple(order)}")
    if n > WRITTEN_OUT:
        return jnp.linalg.solve(a, b)
    if n <= PIVOTED:
        return jnp.stack(_eliminate_exchanging([[*(a[i, j] for j in range(n)), b[i]] for i in range(n)]))
    pivots = _decompose(_ordered(jnp.concatenate([a, b[:, None]], axis=1), order))
    x = _substitute_back([row for _, _, row in pivots], [row[-1] for _, _, row in pivots])
    scale = jnp.sum(jnp.abs(a), axis=1) * jnp.max(jnp.abs(x)) + jnp.abs(b)
    residual = jnp.sum(a * x, axis=1) - b
    return jnp.where(jnp.all(jnp.abs(residual) <= _tolerance(x) * scale), x, jnp.nan)


def factorised(a: ArrayLike, order: Sequence[int] | None = None) -> Callable[[ArrayLike], Array]:
    """b -> x with a x = b, the elimination of a (n, n) made once for any number of right-hand sides.

    n <= 12   rows in the fixed order `order`: every x is NaN unless a x = a·1 gives ones back to √ε of them
    beyond    LU with partial pivoting

    n³/3 multiplications once and n² a right-hand side.
    """
    a = jnp.asarray(a)
    if a.shape[0] > WRITTEN_OUT:
        factors = jax.scipy.linalg.lu_factor(a)
        return lambda b: jax.scipy.linalg.lu_solve(factors, b)
    pivots = _decompose(_ordered(a, order))
    ones = _substitute(pivots, _ordered(jnp.sum(a, axis=1), order))
    sound = jnp.all(jnp.abs(ones - 1.0) <= _tolerance(ones))
    pivots = [(jnp.where(sound, pivot, jnp.nan), column, row) for pivot, column, row in pivots]
    return lambda b: _substitute(pivots, _ordered(jnp.asarray(b), order))


def determinant(a: ArrayLike, order: Sequence[int] | None = None) -> Array:
    """The determinant of a (n, n) for one path: expanded up to n = 3, by elimination in the given row order up to 12 (a
    small pivot costs digits and a zero one gives NaN), beyond by LU with partial pivoting."""
    a = jnp.asarray(a)
    n = a.shape[0]
    if n == 0:
        return jnp.ones((), a.dtype)
    if n == 2:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    if n == 3:
        return jnp.dot(a[0], jnp.cross(a[1], a[2]))
    if n > WRITTEN_OUT:
        return jnp.linalg.det(a)
    sign = 1 if order is None else round(float(np.linalg.det(np.eye(n)[list(order)])))
    pivots = _decompose(_ordered(a, order))
    return sign * functools.reduce(jnp.multiply, (pivot for pivot, _, _ in pivots))


def _tolerance(x: Array) -> float:
    return math.sqrt(float(jnp.finfo(x.dtype).eps))


def _ordered(a: Array, order: Sequence[int] | None) -> Array:
    return a if order is None else a[np.asarray(order, int)]


@jax.jit
def _decompose(a: Array) -> list[tuple[Array, Array, Array]]:
    """The rows of a (n, n or more) as they stand: every pivot, the column below it, its row to the right over it."""
    pivots = []
    for _ in range(a.shape[0]):
        pivot, column = a[0, 0], a[1:, 0]
        row = a[0, 1:] * (1.0 / pivot)
        pivots.append((pivot, column, row))
        a = a[1:, 1:] - column[:, None] * row
    return pivots


def _substitute(pivots: list[tuple[Array, Array, Array]], b: Array) -> Array:
    """x from the decomposition of a (n, n)."""
    y: list[Array] = []
    for pivot, column, _ in pivots:
        y.append(b[0] * (1.0 / pivot))
        b = b[1:] - column * y[-1]
    return _substitute_back([row for _, _, row in pivots], y)


def _substitute_back(rows: list[Array], y: list[Array]) -> Array:
    """x with x_k + Σ rows[k][j] x_(k+1+j) = y_k."""
    x: list[Array] = []
    for row, last in zip(reversed(rows), reversed(y), strict=True):
        x.insert(0, sum((-row[j] * known for j, known in enumerate(x)), last))
    return jnp.stack(x)


def _eliminate_exchanging(rows: list[list[Array]]) -> list[Array]:
    """x from the rows (a_i0, ..., a_i,n-1, b_i), which are overwritten by U: each pivot the largest of its column."""
    n = len(rows)
    inverse: list[Array] = []
    for k in range(n):
        for i in range(k + 1, n):
            exchange = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
            pairs = list(zip(rows[k][k:], rows[i][k:], strict=True))
            rows[k][k:] = [jnp.where(exchange, lower, upper) for upper, lower in pairs]
            rows[i][k:] = [jnp.where(exchange, upper, lower) for upper, lower in pairs]
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

    A block of paths takes it once, at a typical state; it serves every matrix near enough for its pivots to stay.
    """
    a = np.asarray(a, dtype=float)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not np.isfinite(a).all():
        raise ValueError(f"row_order: a must be a finite square matrix, found the shape {a.shape}:\n{a}")
    for axis, line in enumerate(("column", "row")):
        if not (nonzero := np.any(a, axis=axis)).all():
            raise ValueError(f"row_order: a must be regular, found {line} {np.argmin(nonzero)} to be zero:\n{a}")
    n = len(a)
    order = list(range(n))
    u = a / np.abs(a).max(axis=1, keepdims=True)
    u = u / np.abs(u).max(axis=0)
    for k in range(n):
        i = k + int(np.argmax(np.abs(u[k:, k])))
        if abs(u[i, k]) <= NOISE * np.finfo(float).eps:
            raise ValueError(f"row_order: a must be regular, found column {k} to depend on those before it:\n{a}")
        u[[k, i]] = u[[i, k]]
        order[k], order[i] = order[i], order[k]
        u[k + 1 :, k:] -= np.outer(u[k + 1 :, k] / u[k, k], u[k, k:])
    return tuple(order)
