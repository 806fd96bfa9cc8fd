"""Draws from a density by rejection."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from stodyn import listing

__dir__ = listing.names_of(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class Rejection:
    """Draw vectors from a density on a box: uniform points in the box, accepted with probability density/bound.

    An instance is a function draw(rng, size) -> (size, d), as `start` of a problem takes it. It costs bound · volume /
    ∫ density evaluations per draw.

    Parameters
    ----------
    density : function density(x) -> (k,)
        For points x (k, d), in NumPy; it need not be normalised.
    lower, upper : sequences of float (d,)
        The corners of the box, which must contain all but a negligible part of the density.
    bound : float
        At least the largest value of the density; a point above it stops the draw with an error.

    Examples
    --------
    >>> import numpy as np
    >>> from stodyn.noise.rejection import Rejection
    >>> disc = Rejection(lambda x: 1.0 * ((x**2).sum(axis=1) < 1.0), [-1.0, -1.0], [1.0, 1.0], 1.0)
    >>> disc(np.random.default_rng(0), 5).shape
    (5, 2)
    """

    density: Callable[[np.ndarray], np.ndarray]
    lower: Sequence[float]
    upper: Sequence[float]
    bound: float

    def __post_init__(self):
        lower, upper = (np.atleast_1d(np.asarray(side, float)) for side in (self.lower, self.upper))
        if (
            lower.shape != upper.shape
            or lower.ndim != 1
            or not (np.isfinite(lower + upper).all() and (lower < upper).all())
        ):
            raise ValueError(
                f"lower, upper: expected the corners of a finite box, got {self.lower!r} and {self.upper!r}"
            )
        if not (np.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"bound: expected a positive number above the density, got {self.bound!r}")

    def __call__(self, rng: np.random.Generator, size: int) -> np.ndarray:
        lower, upper = np.atleast_1d(self.lower), np.atleast_1d(self.upper)
        accepted, missing, draws = [np.empty((0, len(lower)))], size, 0
        while missing > 0:
            x = lower + (upper - lower) * rng.random((max(4 * missing, 64), len(lower)))
            height = np.asarray(self.density(x), float)
            if height.shape != (len(x),):
                raise ValueError(f"density: returned shape {height.shape} for points {x.shape}, expected ({len(x)},)")
            if not np.all((height >= 0) & (height <= self.bound)):
                bad = height[~((height >= 0) & (height <= self.bound))][0]
                raise ValueError(f"density: found {bad:.6g}, expected values from 0 to bound = {self.bound:.6g}")
            accepted.append(x[rng.random(len(x)) * self.bound < height][:missing])
            missing, draws = missing - len(accepted[-1]), draws + len(x)
            if draws > 10_000_000 and missing == size:
                raise ValueError(f"density: none of {draws} points was accepted; the box or the bound is far too large")
        return np.concatenate(accepted)
