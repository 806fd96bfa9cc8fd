"""How heavy the tails of a level are: Hill's estimate of the tail index α, P(|Y - E Y| > y) ~ y^-α, with its error.

The variance of an estimated variance is infinite for α < 4, and neither a standard error nor a kurtosis from a sample
shows that. With d_1 ≥ d_2 ≥ ... the distances from the mean,

    1/α ≈ mean of ln(d_i/d_(k+1)) over i ≤ k,          with a standard error of 1/(α √k),

k = √N/2 of N points, and 16 at least. Tails that are lighter than any power, such as those of the square or the cube of
a normal number, look like powers to a small sample: from fewer than 1024 points nothing is concluded, but more are
taken.
"""

from __future__ import annotations

import math

import numpy as np

KEPT = 64  # of the largest and of the smallest values
FEWEST_KEPT, FEWEST_POINTS, SURE_POINTS = 16, 256, 1024
TELLING_POINTS = 2**14  # up to which points are added where a tail may be heavy
SURE, MAYBE = 2.5, 1.0  # standard errors beyond which a tail is heavy, and from which it may be
LEAST_INDEX = 4.0


def extremes(values: np.ndarray) -> np.ndarray:
    """The largest of some numbers and of their negatives, (2, entries, KEPT), from numbers (entries, paths)."""
    both = np.stack([values, -values])
    if both.shape[-1] > KEPT:
        return np.partition(both, both.shape[-1] - KEPT, axis=-1)[..., -KEPT:]
    missing = KEPT - both.shape[-1]
    return np.pad(both, ((0, 0), (0, 0), (missing, 0)), constant_values=-np.inf)


def most_extreme(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.partition(np.concatenate([a, b], axis=-1), KEPT, axis=-1)[..., KEPT:]


def is_heavy(heaviness: np.ndarray | float, stderr: float, points: int, surely: float) -> np.ndarray:
    """Whether the tail index is below four, by `surely` standard errors."""
    if points < (SURE_POINTS if surely >= SURE else FEWEST_POINTS):
        return np.zeros(np.shape(heaviness), bool)
    return np.asarray(heaviness * (1 - surely * stderr) > 1 / LEAST_INDEX)


def heaviness(largest: np.ndarray, mean: np.ndarray, points: int) -> tuple[np.ndarray, float]:
    """Hill's 1/α of each entry, and its relative standard error; infinitely uncertain for few points."""
    if points < FEWEST_POINTS:
        return np.zeros(mean.shape), math.inf
    k = min(max(int(math.sqrt(points) / 2), FEWEST_KEPT), KEPT - 1)
    with np.errstate(all="ignore"):
        distances = np.concatenate([largest[0] - mean[:, None], largest[1] + mean[:, None]], axis=-1)
        highest = -np.sort(-distances, axis=-1)[:, : k + 1]
        inverse_index = np.log(highest[:, :k] / highest[:, k:]).mean(axis=-1)
    return np.where(np.isfinite(inverse_index), inverse_index, 0.0), 1.0 / math.sqrt(k)
