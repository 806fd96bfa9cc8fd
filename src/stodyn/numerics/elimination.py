"""Small dense linear systems a x = b for one path, written out in scalar operations."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import Array
from jax.typing import ArrayLike

PIVOTED = 3  # up to this size rows are exchanged per path, by selection
WRITTEN_OUT = 12  # up to this size elimination is written out in a fixed row order; beyond it is LAPACK's LU
NOISE = 200  # a pivot below this many ε of its row's size tells a singular matrix

_written_out: contextvars.ContextVar[int] = contextvars.ContextVar("written_out", default=WRITTEN_OUT)


@contextlib.contextmanager
def written_out(size: int) -> Iterator[None]:
    """Within it, systems of more than `size` unknowns go to the library: where a step is not taken apart into scalars,
    writing them out compiles slowly and gains nothing."""
    token = _written_out.set(size)
    try:
        yield
    finally:
        _written_out.reset(token)


def solve(a: ArrayLike, b: ArrayLike, order: Sequence[int] | None = None) -> Array:
    """Solve a x = b for one path, a (n, n) and b (n,), by Gaussian elimination.

    n <= 3    partial pivoting by selection
    n <= 12   rows in the fixed order `order` (default 0, ..., n-1; `row_order` picks one), so that a pivot may be small
              for some paths: x is NaN unless every row leaves |a x - b| <= √ε (Σ|a_ij| max|x| + |b_i|), that is,
              unless growth has cost less than half of the digits
    beyond    LU with partial pivoting

    A zero pivot gives a result that is not finite; a singular system that has solutions may give one of them. Costs
    n³/3 multiplications, and 2 n² for the test; up to 12 unknowns all are scalar operations, and zeros known when
    tracing cost nothing.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    n = b.shape[0] if b.ndim == 1 else -1
    if a.shape != (n, n):
        raise ValueError(f"solve: a and b must have the shapes (n, n) and (n,), found {a.shape} and {b.shape}")
    if order is not None and sorted(order) != list(range(n)):
        raise ValueError(f"solve: order must be a permutation of 0, ..., {n - 1}, found {tuple(order)}")
    if n > _written_out.get():
        return jnp.linalg.solve(a, b)
    rows = [([a[i, j] for j in range(n)], b[i]) for i in (range(n) if order is None else order)]
    x = _eliminate([[*row, right] for row, right in rows], pivoting=n <= PIVOTED)
    if n <= PIVOTED:
        return jnp.stack(x)
    tolerance = math.sqrt(float(jnp.finfo(jnp.result_type(a, b)).eps))
    size = functools.reduce(jnp.maximum, map(jnp.abs, x))
    sound = jnp.asarray(True)
    for row, right in rows:
        residual = sum((aj * xj for aj, xj in zip(row, x, strict=True)), -right)
        scale = sum(map(jnp.abs, row[1:]), jnp.abs(row[0])) * size + jnp.abs(right)
        sound &= jnp.abs(residual) <= tolerance * scale
    return jnp.where(sound, jnp.stack(x), jnp.nan)


def factorised(a: ArrayLike, order: Sequence[int] | None = None) -> Callable[[ArrayLike], Array]:
    """b -> x with a x = b, the elimination of a (n, n) made once for any number of right-hand sides.

    n <= 12   rows in the fixed order `order`: every x is NaN unless a x = a·1 gives ones back to √ε of them
    beyond    LU with partial pivoting

    n³/3 multiplications once and n² a right-hand side.
    """
    a = jnp.asarray(a)
    n = a.shape[0]
    if n > _written_out.get():
        factors = jax.scipy.linalg.lu_factor(a)
        return lambda b: jax.scipy.linalg.lu_solve(factors, b)
    order = range(n) if order is None else order
    rows = [[a[i, j] for j in range(n)] for i in order]
    inverse = _decompose(rows)

    def substitute(b: Sequence[Array]) -> list[Array]:
        y: list[Array] = []
        for k in range(n):
            y.append(sum((-rows[k][j] * y[j] for j in range(k)), b[order[k]]))
        x: list[Array] = []
        for k in reversed(range(n)):
            x.insert(0, sum((-rows[k][j] * x[j - k - 1] for j in range(k + 1, n)), y[k]) * inverse[k])
        return x

    ones = substitute([sum((a[i, j] for j in range(1, n)), a[i, 0]) for i in range(n)])
    tolerance = math.sqrt(float(jnp.finfo(a.dtype).eps))
    sound = functools.reduce(jnp.logical_and, (jnp.abs(x - 1.0) <= tolerance for x in ones))
    inverse = [jnp.where(sound, pivot, jnp.nan) for pivot in inverse]
    return lambda b: jnp.stack(substitute(jnp.asarray(b)))  # type: ignore[arg-type]


def determinant(a: ArrayLike, order: Sequence[int] | None = None) -> Array:
    """The determinant of a (n, n) for one path, with the same regimes and the same row order as `solve`."""
    a = jnp.asarray(a)
    n = a.shape[0]
    if n == 0:
        return jnp.ones((), a.dtype)
    if n == 1:
        return a[0, 0]
    if n == 2:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    if n > _written_out.get():
        return jnp.linalg.det(a)
    order = range(n) if order is None else order
    rows = [[a[i, j] for j in range(n)] for i in order]
    _decompose(rows)
    sign = round(float(np.linalg.det(np.eye(n)[list(order)])))
    return sign * functools.reduce(jnp.multiply, (rows[k][k] for k in range(n)))


def _decompose(rows: list[list[Array]]) -> list[Array]:
    """Overwrite the rows by U and, below it, L without its ones; returns the inverses of the pivots."""
    n = len(rows)
    inverse: list[Array] = []
    for k in range(n):
        inverse.append(1.0 / rows[k][k])
        for i in range(k + 1, n):
            rows[i][k] = rows[i][k] * inverse[k]
            for j in range(k + 1, n):
                rows[i][j] = rows[i][j] - rows[i][k] * rows[k][j]
    return inverse


def _eliminate(rows: list[list[Array]], pivoting: bool) -> list[Array]:
    """x from the rows (a_i0, ..., a_i,n-1, b_i), which are overwritten by U."""
    n = len(rows)
    inverse: list[Array] = []
    for k in range(n):
        if pivoting:
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
