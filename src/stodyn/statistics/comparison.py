"""Comparing points that share their paths: the covariance of the errors of their means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Products(NamedTuple):
    """Central sums over paths of points along a line: Σ d_p d_q, Σ d_p² d_q and Σ d_p² d_q², shape (..., P, P)."""

    first: Any
    mixed: Any
    second: Any


class Comparison(NamedTuple):
    """Sums over the paths that are sound at every point: their number (times,), the means (times, entries, *grid), and
    the Products of the lines along each dimension of the grid (times, entries, *other dimensions, P, P).
    """

    paths: np.ndarray
    mean: np.ndarray
    lines: list[Products]


def compared(values: Sequence[np.ndarray], sound: Sequence[np.ndarray], grid: Sequence[int]) -> Comparison:
    """The sums of one block, from values (times, entries, lanes) and sound (times, lanes) at each point of the grid.

    The sums are taken by NumPy's own loops: a BLAS may add in a different order on a different number of threads.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # fourth powers of states beyond 1e77
        return _compared(values, np.logical_and.reduce(list(sound)), grid)


def _compared(values: Sequence[np.ndarray], everywhere: np.ndarray, grid: Sequence[int]) -> Comparison:
    count = everywhere.sum(axis=1).astype(float)
    x = np.stack([np.where(everywhere[:, None], v, 0.0) for v in values], axis=2, dtype=float)
    mean = x.sum(axis=-1) / np.maximum(count, 1.0)[:, None, None]
    d = np.where(everywhere[:, None, None], x - mean[..., None], 0.0)
    d = d.reshape(*d.shape[:2], *grid, d.shape[-1])
    lines = []
    for axis in range(len(grid)):
        a = np.moveaxis(d, 2 + axis, -2)
        lines.append(
            Products(*(np.einsum("...pl,...ql->...pq", u, v) for u, v in ((a, a), (a * a, a), (a * a, a * a))))
        )
    return Comparison(count, mean.reshape(*mean.shape[:2], *grid), lines)


def merged(a: Comparison, b: Comparison) -> Comparison:
    """The sums over both sets of paths, moved to their common mean."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _merged(a, b)


def _merged(a: Comparison, b: Comparison) -> Comparison:
    count = a.paths + b.paths
    share = (b.paths / np.maximum(count, 1.0)).reshape(-1, *[1] * (a.mean.ndim - 1))
    mean = a.mean + share * (b.mean - a.mean)
    lines = [
        Products(*(x + y for x, y in zip(*(_moved(c, k, mean) for c in (a, b)), strict=True)))
        for k in range(len(a.lines))
    ]
    return Comparison(count, mean, lines)


def _moved(sums: Comparison, axis: int, mean: np.ndarray) -> Products:
    """The products along an axis about another mean: replacing d by d + s, with Σ d = 0,

    Σ (d_p + s_p)(d_q + s_q) = Σ d_p d_q + N s_p s_q,
    Σ (d_p + s_p)² (d_q + s_q) = Σ d_p² d_q + 2 s_p Σ d_p d_q + s_q Σ d_p² + N s_p² s_q,
    Σ (d_p + s_p)² (d_q + s_q)² = Σ d_p² d_q² + 2 s_q Σ d_p² d_q + 2 s_p Σ d_q² d_p + 4 s_p s_q Σ d_p d_q
                                 + s_q² Σ d_p² + s_p² Σ d_q² + N s_p² s_q².
    """
    s = np.moveaxis(sums.mean - mean, 2 + axis, -1)
    p, q = s[..., :, None], s[..., None, :]
    first, mixed, second = sums.lines[axis]
    n = sums.paths.reshape(-1, *[1] * (first.ndim - 1))
    own = np.diagonal(first, axis1=-2, axis2=-1)
    of_p, of_q = own[..., :, None], own[..., None, :]
    return Products(
        first + n * p * q,
        mixed + 2 * p * first + q * of_p + n * p**2 * q,
        second + 2 * q * mixed + 2 * p * np.swapaxes(mixed, -2, -1) + 4 * p * q * first + q**2 * of_p + p**2 * of_q
        + n * p**2 * q**2,
    )  # fmt: skip


def error_covariances(sums: Comparison, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The covariances of the estimated means and variances of points p and q along an axis (..., P, P):

    Cov(x̄_p, x̄_q) = κ11/N,   Cov(s²_p, s²_q) = κ22/N + 2 κ11²/(N - 1),

    for paths that are the same at both points, estimated without bias: κ22 by Fisher's k22, zero for N < 4,
    and with E k11² = κ11² + κ22/N + (κ20 κ02 + κ11²)/(N - 1), E k20 k02 = κ20 κ02 + Cov(s²_p, s²_q)

    Cov(s²_p, s²_q) ≈ ((N - 1)/N k22 + 2 ((N - 1) k11² - k20 k02)/(N - 2))/(N + 1).
    """
    first, _, second = sums.lines[axis]
    n = sums.paths.reshape(-1, *[1] * (first.ndim - 1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        joint = np.where(n > 1, first / (n - 1), np.nan)
        own = np.diagonal(first, axis1=-2, axis2=-1)
        product = own[..., :, None] * own[..., None, :]
        k22 = n * (n + 1) * second - (n - 1) * (2 * first**2 + product)
        k22 = np.where(n > 3, k22 / ((n - 1) * (n - 2) * (n - 3)), 0.0)
        squares = np.where(n > 2, ((n - 1) * joint**2 - product / (n - 1) ** 2) / (n - 2), joint**2)
        of_variances = ((n - 1) / n * k22 + 2 * squares) / (n + 1)
        return joint / n, of_variances
