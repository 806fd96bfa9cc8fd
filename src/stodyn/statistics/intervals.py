"""Confidence intervals of estimates over N independent paths, from an estimate and its standard error s.

    Student      value ± t s, with N - 1 degrees of freedom: means
    covariance   a covariance c of numbers with variances v and w: half the difference of √(vw) ± c, which are taken for
                 two independent variances (Zou and Donner, Statistics in Medicine 27, 2008, 1693), with
                 ν = (vw + c²)/s² - 2, N - 1 at most; chi-square where v = w = c
    chi-square   a variance v: (v ν/χ²_upper, v ν/χ²_lower), with ν = 2 v²/s² - 2 degrees of freedom, N - 1 at most. For
                 normal numbers ν is about N - 1; with heavy tails it is smaller
    deviation    a standard deviation r: the square roots of the limits of r², with ν = r²/(2 s²) - ¼, N - 1 at most
    rms          a root mean square r: the square roots of the limits of r², with ν = r²/(2 s²), N at most
    binomial     a probability p: the limits of Clopper and Pearson for N trials, or for more where paths carry
                 probabilities instead of yes or no and scatter less: N (N p(1 - p) + 1)/(N² s² + 1) trials
    bounded      a mean r of numbers from 0 to Δ: Δ times the limits of r/Δ, taken as a probability that paths carry
    hazard       a hazard λ over an interval Δ: from the limits of the probability 1 - exp(-λ Δ) among the paths that
                 enter it

p(1 - p)/s² trials would have the scatter s, but N paths show s only where N p(1 - p) is large: the few that carry the
event may all be missing. The ones above stand for one further path as uncertain as yes or no, and vanish with N.

The last six never leave the range of possible values. They cover the truth at least as often as they claim for
normal numbers and for counts; chi-square covers it less often where a few paths of a heavy tail decide a variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy

STUDENT, CHI_SQUARE, RMS, BINOMIAL, HAZARD = "Student", "chi-square", "rms", "binomial", "hazard"
BOUNDED, DEVIATION, COVARIANCE = "bounded", "deviation", "covariance"
Limits = tuple[np.ndarray, np.ndarray]


def attributes(kind: str, paths: Any, width: Any = None) -> dict[str, Any]:
    """The attributes that describe the interval of a variable: its kind, the number of paths (one number, one for each
    time, or the name of the variable that holds them) and, for a density or a hazard, the widths of its bins; for a
    mean of bounded numbers the largest that they can be."""
    widths = {} if width is None else {"width": np.asarray(width).tolist()}
    if isinstance(paths, str):
        return {"interval": kind, "paths": paths} | widths
    counts = np.rint(np.asarray(paths, float)).astype(int).reshape(-1).tolist()
    known: Any = counts[0] if counts.count(counts[0]) == len(counts) else counts
    return {"interval": kind, "paths": known} | widths


def limits(value: Any, stderr: Any, attrs: Mapping[str, Any], confidence: float = 0.95) -> Limits:
    """The lower and the upper limit of an estimate with these attributes, in which `paths` stands as numbers."""
    value, stderr = np.asarray(value, float), np.asarray(stderr, float)
    paths = np.asarray(attrs["paths"], float)
    paths = paths.reshape(paths.shape + (1,) * (value.ndim - paths.ndim)) if paths.ndim else paths
    tail = 0.5 * (1.0 - confidence)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = np.asarray(attrs.get("width", 1.0), float)
        if attrs["interval"] == BINOMIAL:
            low, high = _binomial(value * width, stderr * width, paths, tail)
            return low / width, high / width
        if attrs["interval"] == BOUNDED:
            share, scatter = (np.where(width > 0, v / width, 0.0) for v in (value, stderr))
            low, high = _binomial(share, scatter, paths, tail)
            return low * width, high * width
        if attrs["interval"] == HAZARD:
            stays = np.exp(-value * width)
            low, high = _binomial(1.0 - stays, stays * stderr * width, paths, tail)
            return -np.log1p(-low) / width, -np.log1p(-high) / width
        return _RULES[attrs["interval"]](value, stderr, paths, tail)


def _student(value: np.ndarray, stderr: np.ndarray, paths: np.ndarray, tail: float) -> Limits:
    """The limits of a mean by Student's law."""
    reach = scipy.special.stdtrit(paths - 1.0, 1.0 - tail) * stderr
    return value - reach, value + reach


def _chi_square(value: np.ndarray, stderr: np.ndarray, paths: np.ndarray, tail: float) -> Limits:
    """The limits of a variance, with the degrees of freedom that its standard error tells."""
    return _scaled(value, np.clip(2.0 * (value / stderr) ** 2 - 2.0, 1.0, paths - 1.0), tail)


def _deviation(value: np.ndarray, stderr: np.ndarray, paths: np.ndarray, tail: float) -> Limits:
    """The limits of a standard deviation, from those of the variance."""
    low, high = _scaled(value**2, np.clip(0.5 * (value / stderr) ** 2 - 0.25, 1.0, paths - 1.0), tail)
    return np.sqrt(low), np.sqrt(high)


def _covariance(value: np.ndarray, stderr: np.ndarray, paths: np.ndarray, tail: float) -> Limits:
    """The limits of the covariances (..., n, n), with the variances on the diagonal."""
    variance = np.diagonal(value, axis1=-2, axis2=-1)
    size = np.fmax(np.sqrt(variance[..., :, None] * variance[..., None, :]), np.abs(value))
    freedom = np.clip((size**2 + value**2) / stderr**2 - 2.0, 1.0, paths - 1.0)
    plus, minus = 0.5 * (size + value), 0.5 * (size - value)
    (low, high), (least, most) = _scaled(plus, freedom, tail), _scaled(minus, freedom, tail)
    return value - np.hypot(plus - low, most - minus), value + np.hypot(high - plus, minus - least)


def _rms(value: np.ndarray, stderr: np.ndarray, paths: np.ndarray, tail: float) -> Limits:
    """The limits of a root mean square, from those of its square."""
    low, high = _scaled(value**2, np.clip(0.5 * (value / stderr) ** 2, 1.0, paths), tail)
    return np.sqrt(low), np.sqrt(high)


def _scaled(value: np.ndarray, freedom: np.ndarray, tail: float) -> Limits:
    """The limits of a variance whose estimate is a scaled χ²; without scatter, the value itself."""
    low, high = (value * freedom / (2.0 * scipy.special.gammaincinv(0.5 * freedom, q)) for q in (1.0 - tail, tail))
    return np.where(value > 0, low, value), np.where(value > 0, high, value)


def _binomial(p: np.ndarray, stderr: np.ndarray, paths: np.ndarray, tail: float) -> Limits:
    """Clopper and Pearson's limits of a probability, with as many trials as its standard error tells."""
    p = np.clip(p, 0.0, 1.0)
    trials = np.fmax(paths, paths * (paths * p * (1.0 - p) + 1.0) / ((paths * stderr) ** 2 + 1.0))
    hits = p * trials
    low = np.where(hits > 0, scipy.special.betaincinv(hits, trials - hits + 1.0, tail), 0.0)
    high = np.where(hits < trials, scipy.special.betaincinv(hits + 1.0, trials - hits, 1.0 - tail), 1.0)
    unknown = np.isnan(p)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


_RULES: dict[str, Callable[..., Limits]] = {
    STUDENT: _student,
    CHI_SQUARE: _chi_square,
    COVARIANCE: _covariance,
    DEVIATION: _deviation,
    RMS: _rms,
}
