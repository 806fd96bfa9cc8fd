"""Small dense linear systems a x = b for one path, written out in scalar operations."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import Array
from jax.typing import ArrayLike

PIVOTED = 3  # up to this size rows are exchanged per path, by selection
WRITTEN_OUT = 12  # up to this size elimination is written out in a fixed row order; beyond it is LAPACK's LU
NOISE = (
    200  # a pivot of a singular matrix is rounding noise: in 1e5 random ones it stayed below 200 of its error bounds
)


def solve(a: ArrayLike, b: ArrayLike, order: Sequence[int] | None = None) -> Array:
    """Solve a x = b for one path, a (n, n) and b (n,), by Gaussian elimination; NaN where the answer has no meaning.

    n <= 3    partial pivoting by selection
    n <= 12   rows in the fixed order `order` (default 0, ..., n-1; `row_order` picks one), so that a pivot may be small
              for some paths: x is NaN unless every row leaves |a x - b| <= √ε (Σ|a_ij| max|x| + |b_i|), that is,
              unless growth has cost less than half of the digits
    beyond    LU with partial pivoting

    In each, a pivot below 200 times the rounding error it carries is noise: the matrix is singular to working precision
    (in float64 from a condition number of 1e12 on) and x is NaN. Neither test depends on the units of a row. Costs n³/3
    multiplications and 3 n² for the tests; up to 12 unknowns all are scalar operations, and zeros known when tracing
    cost nothing.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    n = b.shape[0] if b.ndim == 1 else -1
    if a.shape != (n, n):
        raise ValueError(f"solve: a and b must have the shapes (n, n) and (n,), found {a.shape} and {b.shape}")
    if order is not None and sorted(order) != list(range(n)):
        raise ValueError(f"solve: order must be a permutation of 0, ..., {n - 1}, found {tuple(order)}")
    eps = float(jnp.finfo(jnp.result_type(a, b)).eps)

    if n > WRITTEN_OUT:
        lu, exchanges = jax.scipy.linalg.lu_factor(a)
        error = eps * jnp.max(jnp.tril(jnp.abs(lu), -1) * jnp.abs(lu).T, axis=1)
        regular = jnp.all(jnp.abs(jnp.diagonal(lu)) > NOISE * error)
        return jnp.where(regular, jax.scipy.linalg.lu_solve((lu, exchanges), b), jnp.nan)

    rows = [([a[i, j] for j in range(n)], b[i]) for i in (range(n) if order is None else order)]
    x, regular = _eliminate([[*row, right] for row, right in rows], eps, pivoting=n <= PIVOTED)
    if n > PIVOTED:
        size = functools.reduce(jnp.maximum, map(jnp.abs, x))
        for row, right in rows:
            residual = sum((aj * xj for aj, xj in zip(row, x, strict=True)), -right)
            scale = sum(map(jnp.abs, row[1:]), jnp.abs(row[0])) * size + jnp.abs(right)
            regular &= jnp.abs(residual) <= math.sqrt(eps) * scale
    return jnp.where(regular, jnp.stack(x), jnp.nan)


def _eliminate(rows: list[list[Array]], eps: float, pivoting: bool) -> tuple[list[Array], Array]:
    """x from the rows (a_i0, ..., a_i,n-1, b_i), which are overwritten by L and U; and whether every pivot is sound."""
    n = len(rows)
    inverse: list[Array] = []
    uncertainty: list[Array] = []  # relative, of row k of U: that of its pivot, but at least ε
    regular = jnp.asarray(True)
    for k in range(n):
        if pivoting:
            for i in range(k + 1, n):
                exchange = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
                pairs = list(zip(rows[k], rows[i], strict=True))
                rows[k] = [jnp.where(exchange, lower, upper) for upper, lower in pairs]
                rows[i] = [jnp.where(exchange, upper, lower) for upper, lower in pairs]
        pivot = rows[k][k]
        errors = [jnp.abs(rows[k][j] * rows[j][k]) * uncertainty[j] for j in range(k)]
        error = functools.reduce(jnp.maximum, errors, jnp.zeros_like(pivot))
        regular &= jnp.abs(pivot) > NOISE * error
        inverse.append(1.0 / pivot)
        uncertainty.append(jnp.maximum(eps, error * jnp.abs(inverse[k])))
        for i in range(k + 1, n):
            rows[i][k] = rows[i][k] * inverse[k]
            for j in range(k + 1, n + 1):
                rows[i][j] = rows[i][j] - rows[i][k] * rows[k][j]
    x: list[Array] = []
    for k in reversed(range(n)):
        x.insert(0, sum((-rows[k][j] * x[j - k - 1] for j in range(k + 1, n)), rows[k][n]) * inverse[k])
    return x, regular


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
