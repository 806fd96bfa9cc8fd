"""How heavy the tails of a level are: is the tail index α, P(|Y - E Y| > y) ~ y^-α, below four?

The variance of an estimated variance is infinite for α < 4, and neither a standard error nor a kurtosis from a sample
shows that. With d_1 ≥ d_2 ≥ ... the distances from the mean, Hill's estimate

    1/α ≈ mean of ln(d_i/d_(k+1)) over i ≤ k,          with a standard error of 1/(α √k),

k = √N/2 of N points, and 16 at least, is the sharper one in a small sample, but tails that are lighter than any power,
such as those of the fourth power of a normal number, look like powers to it: it only decides whether more points are
taken. The verdict comes from the exceedances d_i - d_(k+1), which do not depend on where distances begin. Those of a
power follow Pareto's generalised law, whose shape 1/α their L-moments l_1, l_2, l_3 give twice,

    s_2 = 2 - l_1/l_2,          s_3 = (3 τ - 1)/(1 + τ),  τ = l_3/l_2,

the second from values further out. Where tails are lighter than a power the shape falls with the threshold, and
s_3 < s_2: the shape that is compared with 1/4 is s_3 + (s_3 - s_2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

KEPT = 2048  # of the largest and of the smallest values
FEWEST_KEPT, FEWEST_POINTS = 16, 256
SHARE, OF_FEW, ENOUGH = 64, 16, 256  # one in so many points is an exceedance, more of few points, but not more than
CLEAR_POINTS, SURE_POINTS = 2**12, 2**14  # from which a tail is light, and heavy, where its shape is beyond doubt
TELLING_POINTS = 2**18  # up to which points are added, and from which the shape decides
BEYOND_DOUBT, RATHER, DECIDING = 2.0, 1.5, 0.5  # standard errors of the shape: heavy and light early, and in the end
LEAST_INDEX = 4.0


class Tail(NamedTuple):
    """The tails of the entries of f: 1/α by Hill, and the shape of their exceedances with its standard error."""

    points: int
    hill: np.ndarray
    shape: np.ndarray
    stderr: np.ndarray

    @property
    def may_be_heavy(self) -> np.ndarray:
        """Where Hill's index is below four by half its error, and the shape does not say otherwise."""
        return self._may_be_heavy(0.5)

    @property
    def is_suspect(self) -> np.ndarray:
        """The same by its whole error."""
        return self._may_be_heavy(1.0)

    def _may_be_heavy(self, errors: float) -> np.ndarray:
        is_light = (self.points >= CLEAR_POINTS) & (self.shape + RATHER * self.stderr < 1 / LEAST_INDEX)
        return (self.hill * (1 - errors / math.sqrt(_hill_count(self.points))) > 1 / LEAST_INDEX) & ~is_light

    @property
    def is_heavy(self) -> np.ndarray:
        doubt = DECIDING if self.points >= TELLING_POINTS else BEYOND_DOUBT
        return (self.points >= SURE_POINTS) & (self.shape - doubt * self.stderr > 1 / LEAST_INDEX)


UNKNOWN = Tail(0, np.zeros(1), np.zeros(1), np.full(1, math.inf))


def extremes(values: np.ndarray) -> np.ndarray:
    """The largest of some numbers and of their negatives, (2, entries, up to KEPT), from numbers (entries, paths)."""
    return _largest(np.stack([values, -values]))


def most_extreme(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _largest(np.concatenate([a, b], axis=-1))


def _largest(values: np.ndarray) -> np.ndarray:
    size = values.shape[-1]
    return values if size <= KEPT else np.partition(values, size - KEPT, axis=-1)[..., -KEPT:]


def tail(largest: np.ndarray, mean: np.ndarray, points: int) -> Tail:
    """The tails of numbers from their extremes and means; of few points nothing is known."""
    if points < FEWEST_POINTS:
        nothing = np.zeros(mean.shape)
        return Tail(points, nothing, nothing, nothing + math.inf)
    few = _hill_count(points)
    many = min(max(points // SHARE, min(points // OF_FEW, ENOUGH)), KEPT - 1)
    with np.errstate(all="ignore"):
        distances = np.concatenate([largest[0] - mean[:, None], largest[1] + mean[:, None]], axis=-1)
        highest = -np.sort(-distances, axis=-1)
        hill = np.log(highest[:, :few] / highest[:, few, None]).mean(axis=-1)
        shape = _shape(highest[:, :many] - highest[:, many, None])
    shape = np.where(np.isfinite(shape), shape, 0.0)
    stderr = (1.4 + 1.5 * np.maximum(shape, 0.0)) / math.sqrt(many)
    return Tail(points, np.where(np.isfinite(hill), hill, 0.0), shape, stderr)


def _hill_count(points: int) -> int:
    return max(int(math.sqrt(points) / 2), FEWEST_KEPT)


def _shape(exceedances: np.ndarray) -> np.ndarray:
    """The shape from exceedances (entries, k), the largest first: s_3 + (s_3 - s_2)."""
    k = exceedances.shape[-1]
    below = np.arange(k - 1, -1, -1.0)
    first = exceedances.mean(axis=-1)
    second = (exceedances * below).mean(axis=-1) / (k - 1)
    third = (exceedances * below * (below - 1)).mean(axis=-1) / ((k - 1) * (k - 2))
    l2, l3 = 2 * second - first, 6 * third - 6 * second + first
    nearer, further = 2 - first / l2, (3 * l3 / l2 - 1) / (1 + l3 / l2)
    return 2 * further - nearer
