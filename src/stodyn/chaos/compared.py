"""An expansion compared with the solution at parameters that had no part in it: what it misses, and how far its mean
and its standard deviation are off."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

OFF = 0.05  # of the standard deviation: where the mean or it is off by more, beyond doubt, it is said
BEYOND_DOUBT = 2.0  # standard errors


class Compared(NamedTuple):
    """What an expansion misses (times, n), and by how much its mean and its standard deviation are off, with standard
    errors: arrays (2, times, n)."""

    missed: np.ndarray
    off: np.ndarray
    stderr: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        """The errors of the mean and of the standard deviation that are stated, (2, times, n): what was found and its
        standard error, and no more than is missed, as the root mean square of an error bounds both."""
        return np.minimum(np.abs(self.off) + self.stderr, np.where(self.missed > 0.0, self.missed, np.inf))

    @property
    def surely_off(self) -> np.ndarray:
        """How far the mean or the standard deviation is off (times, n), where that is beyond doubt; 0 elsewhere."""
        return np.where(np.abs(self.off) > BEYOND_DOUBT * self.stderr, np.abs(self.off), 0.0).max(axis=0)


def compared(coefficients: np.ndarray, values: np.ndarray, fitted: np.ndarray, weights: np.ndarray) -> Compared:
    """Compare an expansion, its values `fitted` (K, times, n), with those of the solution at points with weights.

    The moments of the expansion are known from its coefficients, and those of what it misses come from the points.
    """
    mean, variance = coefficients[..., 0], np.sum(coefficients[..., 1:] ** 2, axis=-1)
    missed = values - fitted
    gained = (values - mean) ** 2 - (fitted - mean) ** 2
    moves, stderrs = zip(*(_average(part, weights) for part in (missed, gained)), strict=True)
    whole = np.sqrt(np.maximum(variance + moves[1] - moves[0] ** 2, 0.0))
    total = np.sqrt(variance) + whole
    return Compared(
        np.sqrt(np.einsum("k,ktn->tn", weights, missed**2)),
        np.stack([moves[0], whole - np.sqrt(variance)]),
        np.stack([stderrs[0], stderrs[1] / np.where(total > 0.0, total, 1.0)]),
    )


def _average(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A weighted mean over points and its standard error, as if they were independent."""
    mean = np.einsum("k,ktn->tn", weights, values)
    return mean, np.sqrt(np.einsum("k,ktn->tn", weights**2, (values - mean) ** 2))
