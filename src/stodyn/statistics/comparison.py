"""Comparing points that share their paths: the covariance of the errors of their means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

ALL_PAIRS = 256  # points along a line up to which each is compared with each: beyond, with the one before it


class Products(NamedTuple):
    """Central sums over paths of points p and q along a line: Σ d_p d_q, Σ d_p² d_q, Σ d_p d_q² and Σ d_p² d_q², shape
    (..., P, P); for more than ALL_PAIRS points (..., P, 2), where q is p itself and the point before it."""

    first: Any
    mixed: Any
    swapped: Any
    second: Any


def others(values: np.ndarray) -> np.ndarray:
    """The values (..., P) of the points q that belong to each p: (..., 1, P) or (..., P, 2)."""
    if values.shape[-1] <= ALL_PAIRS:
        return values[..., None, :]
    return np.stack([values, np.roll(values, 1, -1)], -1)


def _own(first: np.ndarray) -> np.ndarray:
    """Σ d_p² (..., P) from Σ d_p d_q."""
    is_whole = first.shape[-2] <= ALL_PAIRS
    return np.diagonal(first, axis1=-2, axis2=-1) if is_whole else first[..., 0]


def _products(a: np.ndarray) -> Products:
    """The products of a line from the deviations (..., P, lanes)."""
    squares = a * a
    if a.shape[-2] <= ALL_PAIRS:
        mixed = _each_with_each(squares, a)
        return Products(_each_with_each(a, a), mixed, np.swapaxes(mixed, -2, -1), _each_with_each(squares, squares))
    return Products(*(_with_the_one_before(*pair) for pair in ((a, a), (squares, a), (a, squares), (squares, squares))))


def _each_with_each(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.einsum("...pl,...ql->...pq", u, v)


def _with_the_one_before(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Each point beside the one before it, which for the first point is the last."""
    return np.stack([np.einsum("...pl,...pl->...p", u, w) for w in (v, np.roll(v, 1, -2))], -1)


class Comparison(NamedTuple):
    """Sums over the paths that are sound at every point: their number (times,), the means (times, entries, *grid), and
    the Products of the lines along each dimension of the grid (times, entries, *other dimensions, P, ...).
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
        lines.append(_products(np.moveaxis(d, 2 + axis, -2)))
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
    p, q = s[..., :, None], others(s)
    first, mixed, swapped, second = sums.lines[axis]
    n = sums.paths.reshape(-1, *[1] * (first.ndim - 1))
    own = _own(first)
    of_p, of_q = own[..., :, None], others(own)
    return Products(
        first + n * p * q,
        mixed + 2 * p * first + q * of_p + n * p**2 * q,
        swapped + 2 * q * first + p * of_q + n * q**2 * p,
        second + 2 * q * mixed + 2 * p * swapped + 4 * p * q * first + q**2 * of_p + p**2 * of_q
        + n * p**2 * q**2,
    )  # fmt: skip


def error_covariances(sums: Comparison, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The covariances of the estimated means and variances of points p and q along an axis, in the shape of Products:

    Cov(x̄_p, x̄_q) = κ11/N,   Cov(s²_p, s²_q) = κ22/N + 2 κ11²/(N - 1),

    for paths that are the same at both points, estimated without bias: κ22 by Fisher's k22, zero for N < 4,
    and with E k11² = κ11² + κ22/N + (κ20 κ02 + κ11²)/(N - 1), E k20 k02 = κ20 κ02 + Cov(s²_p, s²_q)

    Cov(s²_p, s²_q) ≈ ((N - 1)/N k22 + 2 ((N - 1) k11² - k20 k02)/(N - 2))/(N + 1).
    """
    first, second = sums.lines[axis].first, sums.lines[axis].second
    n = sums.paths.reshape(-1, *[1] * (first.ndim - 1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        joint = np.where(n > 1, first / (n - 1), np.nan)
        own = _own(first)
        product = own[..., :, None] * others(own)
        k22 = n * (n + 1) * second - (n - 1) * (2 * first**2 + product)
        k22 = np.where(n > 3, k22 / ((n - 1) * (n - 2) * (n - 3)), 0.0)
        squares = np.where(n > 2, ((n - 1) * joint**2 - product / (n - 1) ** 2) / (n - 2), joint**2)
        of_variances = ((n - 1) / n * k22 + 2 * squares) / (n + 1)
        return joint / n, of_variances
