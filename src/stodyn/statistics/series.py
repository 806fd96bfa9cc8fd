"""Statistics of the time series of single paths: power spectrum and autocovariance."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
import scipy.signal
import scipy.stats

from stodyn.statistics.contract import Labelled, Statistic, Variable


class Sums(NamedTuple):
    """Over the paths: how many, and the sums of each path's estimates and of the products needed for their errors."""

    paths: int
    first: np.ndarray
    products: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Series(Statistic):
    """A statistic that needs the whole series of a path: taken over the first `paths` paths, from time `after` on.

    Its times must be equally spaced. Paths that failed are left out.
    """

    paths: int = 1024
    after: float | None = None
    first: int = dataclasses.field(default=0, init=False, repr=False)
    spacing: float = dataclasses.field(default=1.0, init=False, repr=False)

    def prepared(self, problem, times):
        kind = type(self).__name__
        first = 0 if self.after is None else int(np.searchsorted(times, self.after - 1e-9 * np.ptp(times)))
        kept = np.diff(times[first:])
        while len(kept) > 1 and kept[-1] < kept[0] * (1 - 1e-6):  # every= need not divide the run: drop its last piece
            kept = kept[:-1]
        if len(kept) < 1 or np.ptp(kept) > 1e-6 * kept[0]:
            raise ValueError(f"{kind}: needs at least two equally spaced times, from after={self.after} on; use every=")
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "first", first)
        object.__setattr__(ready, "spacing", float(kept[0]))
        self.check_length(len(kept) + 1)
        return ready

    @abstractmethod
    def check_length(self, length: int) -> None:
        """Refuse a series that is too short for what was asked."""

    @abstractmethod
    def estimate(self, series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """series (paths, n, times) -> (paths, ...) estimates of single paths, and their products (paths, ...)."""

    def observe(self, snapshot):
        return snapshot.x[:, : self.paths]

    def fold(self, observed, block):
        wanted = int(np.clip(self.paths - block.first, 0, block.paths))
        series = np.moveaxis(observed[self.first :, :, :wanted], (0, 2), (2, 0)).astype(float)
        series = series[np.isfinite(series).all(axis=(1, 2))]
        if not len(series):
            return None
        estimates, products = self.estimate(series)
        return Sums(len(series), estimates.sum(axis=0), products.sum(axis=0))

    def merge(self, a, b):
        if a is None or b is None:
            return b if a is None else a
        return Sums(a.paths + b.paths, a.first + b.first, a.products + b.products)

    @staticmethod
    def unless_nobody(result: Sums | None, run, one: tuple[int, ...], product: tuple[int, ...] | None = None) -> Sums:
        """The result, NaN where every path failed; the shapes are those of a component's estimates and products."""
        if result is not None:
            return result
        n = len(run.names)
        return Sums(1, np.full((n, *one), np.nan), np.full((n, *(product or one)), np.nan))

    def memory(self, times, paths, n):
        return 16 * times * min(self.paths, paths) * n


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spectrum(_Series):
    """The power spectral density of every component by Welch's averaged periodogram, with its confidence band.

    S(f) = ∫ R(τ) exp(-2πi f τ) dτ, two-sided, f in cycles a unit of time: ∫ S df over all f is the variance. Hann
    window, segments of `segment` times overlapping by half, each freed of its mean; averaged over the segments and over
    the first `paths` paths. The band is that of a χ² estimate whose degrees of freedom are read off the scatter between
    paths; with one path, off the number of segments. Variables: spectrum, spectrum_low, spectrum_high (frequency,
    component). The window smooths over about 2/(segment · spacing) in frequency, and frequencies beyond
    1/(2 · spacing) are folded back: both are biases that more paths do not cure. So it looks at every step unless told
    otherwise.
    """

    segment: int = 256
    confidence: float = 0.95

    def __post_init__(self):
        super().__post_init__()
        if self.every is None and self.at is None:
            object.__setattr__(self, "every", 1)

    def check_length(self, length):
        if not 0 < self.confidence < 1:
            raise ValueError(f"Spectrum: confidence must lie between 0 and 1, got {self.confidence}")
        if not 8 <= self.segment <= length:
            raise ValueError(
                f"Spectrum: segment={self.segment} times, expected from 8 to the {length} times there are; "
                "look more often (every=), or take a shorter segment"
            )

    def estimate(self, series):
        _, power = scipy.signal.welch(series, 1 / self.spacing, "hann", self.segment, scaling="density", axis=-1)
        power[..., 1 : None if self.segment % 2 else -1] /= 2  # scipy gives the one-sided density
        return power, power**2

    def label(self, result, run):
        frequency = np.fft.rfftfreq(self.segment, self.spacing)
        times = len(run.times) - self.first
        result = self.unless_nobody(result, run, (len(frequency),))
        mean = result.first / result.paths
        if result.paths > 1:
            of_mean = (result.products / result.paths - mean**2) / (result.paths - 1)
        else:
            segments = max(1, (times - self.segment // 2) // (self.segment - self.segment // 2))
            of_mean = mean**2 / segments * (1 + 2 / 36 * (1 - 1 / segments))  # Hann, half overlap: correlation 1/6
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.clip(2 * mean**2 / of_mean, 2, 1e9)
        tail = (1 - self.confidence) / 2
        low = mean * freedom / scipy.stats.chi2.ppf(1 - tail, freedom)
        high = mean * freedom / scipy.stats.chi2.ppf(tail, freedom)
        dims = ("frequency", "component")
        attrs = {"confidence": self.confidence, "paths": result.paths}
        return Labelled(
            {
                "spectrum": Variable(dims, mean.T, attrs),
                "spectrum_low": Variable(dims, low.T, attrs),
                "spectrum_high": Variable(dims, high.T, attrs),
            },
            {"frequency": Variable(("frequency",), frequency)},
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Autocorrelation(_Series):
    """The autocovariance R(lag) of every component of a stationary process, and R(lag)/R(0), with standard errors.

    Averaged over time within a path and over the first `paths` paths; the standard errors come from the scatter
    between paths, which are independent, so correlation in time needs no model. The mean is that of all the paths, not
    of each one. `lags` counts the times between looks. Variables: autocovariance, autocovariance_stderr,
    autocorrelation, autocorrelation_stderr (lag, component).
    """

    lags: int = 50

    def check_length(self, length):
        if not 1 <= self.lags < length:
            raise ValueError(
                f"Autocorrelation: lags={self.lags}, expected from 1 to {length - 1}, fewer than the times"
            )

    def estimate(self, series):
        """Of each path: the mean of x(t) x(t + lag) for every lag, and the mean of x; their products pairwise."""
        times = series.shape[-1]
        padded = np.fft.rfft(series, 2 * times, axis=-1)
        sums = np.fft.irfft(np.abs(padded) ** 2, axis=-1)[..., : self.lags + 1]
        lagged = sums / (times - np.arange(self.lags + 1))
        one = np.concatenate([lagged, series.mean(axis=-1, keepdims=True)], axis=-1)
        return one, one[..., :, None] * one[..., None, :]

    def label(self, result, run):
        last = self.lags + 1
        result = self.unless_nobody(result, run, (last + 1,), (last + 1, last + 1))
        count = result.paths
        mean = result.first / count
        scatter = (result.products / count - mean[..., :, None] * mean[..., None, :]) / max(count - 1, 1)
        level = mean[:, last]
        covariance = mean[:, :last] - level[:, None] ** 2
        # R = <x x'> - <x>²: its variance to first order, and that of R(lag)/R(0), from the scatter between paths.
        slope = np.zeros((*covariance.shape, last + 1))
        slope[:, np.arange(last), np.arange(last)] = 1.0
        slope[:, :, last] = -2 * level[:, None]
        ratio = covariance / covariance[:, :1]
        slope_ratio = (slope - ratio[..., None] * slope[:, :1]) / covariance[:, :1, None]

        def stderr(gradient: np.ndarray) -> Any:
            variance = np.einsum("nla,nab,nlb->nl", gradient, scatter, gradient)
            return np.sqrt(np.maximum(variance, 0)) if count > 1 else np.full(variance.shape, np.nan)

        dims = ("lag", "component")
        return Labelled(
            {
                "autocovariance": Variable(dims, covariance.T),
                "autocovariance_stderr": Variable(dims, stderr(slope).T),
                "autocorrelation": Variable(dims, ratio.T),
                "autocorrelation_stderr": Variable(dims, stderr(slope_ratio).T),
            },
            {"lag": Variable(("lag",), self.spacing * np.arange(last))},
        )
