"""How heavy the tails of a level are: is the tail index α, P(|Y - E Y| > y) ~ y^-α, below four?

The variance of an estimated variance is infinite for α < 4, and neither a standard error nor a kurtosis from a sample
shows that. With d_1 ≥ d_2 ≥ ... the distances from the mean, Hill's estimate

    1/α ≈ mean of ln(d_i/d_(k+1)) over i ≤ k,          with a standard error of 1/(α √k),

k = √N/2 of N points, and 16 at least, is the sharper one in a small sample, but tails that are lighter than any power,
such as those of the fourth power of a normal number, look like powers to it: where it is above four nothing is
suspected. Elsewhere the verdict comes from the exceedances e_i = d_i - d_(k+1), which do not depend on where distances
begin. Those of a power follow Pareto's generalised law, with the density (1 + θ e)^(-1 - 1/ξ) θ/ξ and the shape
ξ = 1/α. For a given θ the likelihood is largest at ξ(θ) = mean of ln(1 + θ e), where its logarithm is
k (ln(θ/ξ) - ξ - 1); the shape is the mean of ξ(θ) weighted by that likelihood, and its standard error (1 + ξ)/√k is
that of the most likely one.

Where tails are lighter than a power, ξ falls with the threshold. So one point in 16 is enough to call a tail light, and
one in 64 is what calls it heavy. Fewer than SHOWING points show no shape.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

KEPT = 2048  # of the largest and of the smallest values
FEWEST_KEPT, FEWEST_POINTS = 16, 256
NEAR, FAR = 16, 64  # one in so many points is an exceedance, by which a tail is called light, and heavy
FEWEST_EXCEEDANCES = 256  # of which a shape is found
SHOWING = FEWEST_EXCEEDANCES * NEAR  # points from which on there is a shape
TELLING_POINTS = 2**18  # up to which points are added, and from which the shape decides
BEYOND_DOUBT, RATHER, DECIDING = 2.0, 1.0, 1.0  # standard errors of the shape: heavy early, light, heavy in the end
LEAST_INDEX = 4.0
TRIED = np.linspace(0.0, 1.0, 41)[1:-1]  # shapes whose θ, at the mean of the exceedances, are tried


class Shape(NamedTuple):
    """Shapes of exceedances, by entry, and their standard errors."""

    value: np.ndarray
    stderr: np.ndarray

    def is_above(self, errors: float) -> np.ndarray:
        """Where the tail index is below four by so many standard errors; negative: where it may be."""
        return self.value - errors * self.stderr > 1 / LEAST_INDEX


class Tail(NamedTuple):
    """The tails of the entries of f: 1/α by Hill, and the shapes of many exceedances and of fewer, further out."""

    points: int
    hill: np.ndarray
    near: Shape
    far: Shape

    @property
    def may_be_heavy(self) -> np.ndarray:
        """Where Hill's index is below four, unless the shape says the contrary."""
        return self.near.is_above(-RATHER)

    @property
    def looks_heavy(self) -> np.ndarray:
        """Where Hill's index is below four beyond doubt."""
        return self.hill * (1 - BEYOND_DOUBT / math.sqrt(_hill_count(self.points))) > 1 / LEAST_INDEX

    @property
    def is_heavy(self) -> np.ndarray:
        doubt = DECIDING if self.points >= TELLING_POINTS else BEYOND_DOUBT
        return self.far.is_above(doubt)


NOTHING = Shape(np.zeros(1), np.zeros(1))
UNKNOWN = Tail(0, np.zeros(1), NOTHING, NOTHING)


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
        return UNKNOWN._replace(points=points)
    few = _hill_count(points)
    with np.errstate(all="ignore"):
        distances = np.concatenate([largest[0] - mean[:, None], largest[1] + mean[:, None]], axis=-1)
        highest = -np.sort(-distances, axis=-1)
        hill = np.log(highest[:, :few] / highest[:, few, None]).mean(axis=-1)
        hill = np.where(np.isfinite(hill), hill, 0.0)
        near, far = (_shapes(highest, hill > 1 / LEAST_INDEX, min(points // share, KEPT - 1)) for share in (NEAR, FAR))
    return Tail(points, hill, near, far)


def _hill_count(points: int) -> int:
    """How many of the largest distances Hill's estimate takes."""
    return max(int(math.sqrt(points) / 2), FEWEST_KEPT)


def _shapes(highest: np.ndarray, is_open: np.ndarray, count: int) -> Shape:
    """The shapes of `count` exceedances of distances (entries, paths), the largest first: 0 ± 0 where they are not
    open, and 0 ± 1 where exceedances are few, for shapes of laws with a mean lie below 1."""
    value = np.zeros(is_open.shape)
    if count < FEWEST_EXCEEDANCES:
        return Shape(value, 1.0 * is_open)
    for entry in np.flatnonzero(is_open):
        value[entry] = _shape(highest[entry, :count] - highest[entry, count])
    value = np.where(np.isfinite(value), value, 0.0)
    return Shape(value, is_open * (1 + value) / math.sqrt(count))


def _shape(exceedances: np.ndarray) -> float:
    """The mean of ξ(θ), weighted by the likelihood; the mean of the exceedances is ξ/(θ (1 - ξ))."""
    tried = TRIED / (1 - TRIED) / exceedances.mean()
    shapes = np.log1p(tried[:, None] * exceedances).mean(axis=-1)
    likelihood = len(exceedances) * (np.log(tried / shapes) - shapes)
    return float(np.average(shapes, weights=np.exp(likelihood - likelihood.max())))
