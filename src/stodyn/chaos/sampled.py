"""Moments from samples of a solution, with an expansion fitted to them as control variate, and their errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stodyn.numerics import tails

FEWEST = 3  # samples for the standard error of a variance
ROUNDING = 1e-13  # of the largest value, below which a spread is none


class Sampled(NamedTuple):
    """Mean and variance with their standard errors, and the root mean square error of the expansion at samples left out
    one at a time; each (times, n). `heaviest` is the tail index of the component whose tail is too heavy for them and
    the heaviest, its time and its component; empty where there is none.
    """

    mean: np.ndarray
    variance: np.ndarray
    mean_stderr: np.ndarray
    variance_stderr: np.ndarray
    left_out: np.ndarray
    heaviest: tuple[float, int, int] | tuple[()] = ()

    @property
    def std_stderr(self) -> np.ndarray:
        """The standard error of the square root of the variance; 0 where nothing varies."""
        return self.variance_stderr / np.where(self.variance > 0.0, 2.0 * np.sqrt(np.maximum(self.variance, 0.0)), 1.0)


def of_samples(values: np.ndarray, left_out: np.ndarray) -> Sampled:
    """The moments of the samples (K, times, n) themselves."""
    off = values - values.mean(axis=0)
    variance = np.sum(off**2, axis=0) / (len(values) - 1)
    return Sampled(values.mean(axis=0), variance, _stderr(values), _stderr_of_squares(off), left_out, heaviest(values))


def with_control(values: np.ndarray, coefficients: np.ndarray, off: np.ndarray) -> Sampled:
    """The moments of the samples with the fit as control variate.

    Those of the fit are known from its coefficients (terms, times, n); from the samples comes only what it misses, its
    errors `off` at samples left out. They are orthogonal to the fit, so that their squares add to its variance.
    """
    fitted = values - off - coefficients[0]
    missed = np.mean(off**2, axis=0)
    variance = np.sum(coefficients[1:] ** 2, axis=0) + missed
    of_variance = _stderr((fitted + off) ** 2 - fitted**2)
    return Sampled(coefficients[0], variance, _stderr(off), of_variance, np.sqrt(missed), heaviest(values))


def heaviest(values: np.ndarray) -> tuple[float, int, int] | tuple[()]:
    """The tail index of the samples (K, times, n) whose tail index is beyond doubt below four, and where it is least;
    each component is looked at when its largest sample is furthest out. Distances are those from the median: where
    there is no mean, that of the samples is further out than most of the largest ones.
    """
    off = np.abs(values - values.mean(axis=0))
    spread = off.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread > ROUNDING * np.abs(values).max(axis=0), off.max(axis=0) / spread, 0.0)
    at, components = share.argmax(axis=0), np.arange(values.shape[2])
    chosen = values[:, at, components].T
    shapes = tails.tail(tails.extremes(chosen), np.median(chosen, axis=1), len(values))
    indices = np.where(shapes.looks_heavy & (share.max(axis=0) > 0.0), shapes.hill, 0.0)
    worst = int(np.argmax(indices))
    return (1 / float(indices[worst]), int(at[worst]), worst) if indices[worst] > 0.0 else ()


def _stderr_of_squares(off: np.ndarray) -> np.ndarray:
    """The standard error of a mean of squared deviations; NaN for two samples, which deviate by the same amount
    whatever the variance is."""
    return _stderr(off**2) if len(off) >= FEWEST else np.full(off.shape[1:], np.nan)


def _stderr(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean over samples."""
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))
