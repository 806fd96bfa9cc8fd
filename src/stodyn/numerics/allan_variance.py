"""The Allan variance of a series of rates: half the mean square of differences of neighbouring means.

With θ_i the sum of the first i values, the means over m values are differences of θ, and
    V_m = Σ_i (θ_{i+2m} - 2 θ_{i+m} + θ_i)² / (2 m² M),
over all i (overlapping, M = n - 2m + 1), or over every m-th (plain, M = n/m - 1).
"""

from __future__ import annotations

import numpy as np

BLOCK = 1 << 13  # differences that are squared at a time, so that they stay in the cache


def allan_variance(y: np.ndarray, stretches: np.ndarray, *, is_overlapping: bool = True) -> np.ndarray:
    """Return V_m (..., points) of the series y (..., n) for each of the stretches m, of which n holds two at least."""
    series = np.asarray(y, float)
    rows = series.reshape(-1, series.shape[-1])
    V = np.empty((len(rows), len(stretches)))
    for row, values in zip(V, rows, strict=True):
        total = np.concatenate([[0.0], np.cumsum(values - values.mean())])
        for k, m in enumerate(map(int, stretches)):
            mean = _mean_square(total, m) if is_overlapping else _mean_square(total[::m], 1)
            row[k] = mean / (2.0 * m**2)
    return V.reshape(*series.shape[:-1], len(stretches))


def _mean_square(total: np.ndarray, m: int) -> float:
    """The mean square of all second differences over the distance m."""
    count = len(total) - 2 * m
    before, after = np.empty((2, min(BLOCK, count)))
    square = 0.0
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        middle, d = total[first + m : last + m], before[: last - first]
        np.subtract(total[first:last], middle, out=d)
        np.subtract(total[first + 2 * m : last + 2 * m], middle, out=after[: last - first])
        d += after[: last - first]
        square += float(d @ d)
    return square / count


def stretches_for(samples: int, per_octave: int = 1) -> np.ndarray:
    """Return stretches in a geometric series from 1 to a quarter of the samples, without repetition."""
    most = max(samples // 4, 1)
    count = int(np.floor(per_octave * np.log2(most) + 1e-9)) + 1
    return np.unique(np.round(2.0 ** (np.arange(count) / per_octave)).astype(int))
