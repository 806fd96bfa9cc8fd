"""Statistics of the time series of single paths: power spectrum, autocovariance, Allan variance.

The first two are quadratic in x - m, where the mean m is known only once all blocks are done. So a block keeps, about a
level s of its own, each path's Q = q(x - s, x - s) and L = q(x - s, 1) of every frequency or lag; with K = q(1, 1),

    q(x - m, x - m) = Q + 2 (s - m) L + (s - m)² K,        q(x - m, 1) = L + (s - m) K,

so that no level, however large, is squared and subtracted again.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.hints import Count, Integer, is_integer, is_whole
from stodyn.numerics.allan_variance import allan_variance, stretches_for
from stodyn.statistics.contract import Labelled, Statistic, Variable


class Sums(NamedTuple):
    """Sums over paths: their number; the level s (n,) and the mean of x (n,); the mean (n, entries, forms) and the
    central products (n, entries, forms, forms) of the forms (Q, L, ...) of every entry; and the forms of `each` path by
    itself (paths, n, entries, forms), as long as there are no more than FEW of them.
    """

    paths: np.ndarray  # ()
    level: np.ndarray
    mean: np.ndarray
    forms: np.ndarray
    products: np.ndarray
    each: np.ndarray


FEW = 24  # paths up to which errors come from leaving out one path after another


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Series(Statistic):
    """A statistic that needs the whole series of a path, taken over the first `paths` paths from time `after` on.

    Its times must be equally spaced; a shorter last piece (where `every` does not divide the run) is left out. Paths
    that failed are left out.
    """

    refuses_stops = "needs records that go on to the end"

    paths: Count = 1024
    after: float | None = None
    first: int = dataclasses.field(default=0, init=False, repr=False)
    length: int = dataclasses.field(default=0, init=False, repr=False)
    spacing: float = dataclasses.field(default=1.0, init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        kind = type(self).__name__
        for name, is_right in (
            ("paths", is_whole),
            ("segment", is_integer),
            ("lags", is_integer),
            ("per_octave", is_integer),
        ):
            if not is_right(value := getattr(self, name, 1)):
                raise ValueError(f"{kind}: {name} must be a whole number >= 1, got {value!r}")
        object.__setattr__(self, "paths", int(self.paths))
        for name in ("after", "confidence"):
            value = getattr(self, name, None)
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if value is not None and not (is_number and np.isfinite(value)):
                raise ValueError(f"{kind}: {name} must be a finite number, got {value!r}")

    def prepared(self, problem, times):
        kind = type(self).__name__
        first = 0 if self.after is None else int(np.searchsorted(times, self.after - 1e-9 * np.ptp(times)))
        lengths = np.diff(times[first:])
        if len(lengths) > 1 and lengths[-1] < lengths[0] * (1 - 1e-6):
            lengths = lengths[:-1]
        if len(lengths) < 1 or np.ptp(lengths) > 1e-6 * lengths[0]:
            raise ValueError(f"{kind}: needs at least two equally spaced times, from after={self.after} on; use every=")
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "first", first)
        object.__setattr__(ready, "length", len(lengths) + 1)
        object.__setattr__(ready, "spacing", float(lengths[0]))
        ready.check_length(len(lengths) + 1)
        return ready

    @abstractmethod
    def check_length(self, length: int) -> None:
        """Refuse a series that is too short for this statistic."""

    @abstractmethod
    def estimate(self, series: np.ndarray) -> np.ndarray:
        """series (paths, n, times) about the level -> Q and L of every entry, in pairs: (paths, n, entries, forms)."""

    @abstractmethod
    def of_one(self) -> np.ndarray:
        """The form K of the constant series 1, for every entry and pair of forms: (entries, pairs)."""

    def observe(self, snapshot):
        return snapshot.x[:, : self.paths]

    def fold(self, observed, block):
        wanted = int(np.clip(self.paths - block.first, 0, block.paths))
        values = observed[self.first : self.first + self.length, :, :wanted]
        series = np.moveaxis(values, (0, 2), (2, 0)).astype(float)
        series = series[np.isfinite(series).all(axis=(1, 2))]
        if not len(series):
            return None
        level = series.mean(axis=(0, 2))
        series -= level[:, None]
        return self.summed(self.estimate(series), level, level + series.mean(axis=(0, 2)))

    def summed(self, forms: np.ndarray, level: np.ndarray, mean: np.ndarray) -> Sums:
        """The sums over paths with these forms (paths, n, entries, forms) about a level, x having this mean."""
        about = forms - forms.mean(axis=0)
        products = np.einsum("pnea,pneb->neab", about, about)
        each = forms if len(forms) <= FEW else forms[:0]
        return Sums(np.array(len(forms)), level, mean, forms.mean(axis=0), products, each)

    def merge(self, a, b):
        if a is None or b is None:
            return b if a is None else a
        b = self.about(b, a.level)
        count = a.paths + b.paths
        share, apart = b.paths / count, b.forms - a.forms
        between = a.paths * share * apart[..., :, None] * apart[..., None, :]
        mean = a.mean + share * (b.mean - a.mean)
        each = np.concatenate([a.each, b.each]) if count <= FEW else a.each[:0]
        return Sums(count, a.level, mean, a.forms + share * apart, a.products + b.products + between, each)

    def about(self, sums: Sums, level: np.ndarray) -> Sums:
        """Move the sums of the same paths to another level."""
        d, one = (sums.level - level)[:, None, None], self.of_one()

        def moved(forms: np.ndarray) -> np.ndarray:
            forms = forms.copy()
            forms[..., ::2] += 2 * d * forms[..., 1::2] + d**2 * one
            forms[..., 1::2] += d * one
            return forms

        count = sums.forms.shape[-1]
        shear = np.zeros((len(level), count, count)) + np.eye(count)
        shear[:, range(0, count, 2), range(1, count, 2)] = 2 * d[..., 0]
        products = np.einsum("nac,necd,nbd->neab", shear, sums.products, shear)
        return Sums(sums.paths, level, sums.mean, moved(sums.forms), products, moved(sums.each))

    def final(self, result: Sums | None, labels) -> Sums:
        """The sums about the mean of all the paths; NaN where every path failed."""
        if result is not None:
            return self.about(result, result.mean)
        n, (entries, pairs) = len(labels.names), self.of_one().shape
        nobody = np.full((n, entries, 2 * pairs, 2 * pairs), np.nan)
        return Sums(np.array(1), nobody[:, 0, 0, 0], nobody[:, 0, 0, 0], nobody[..., 0], nobody, nobody[None, ..., 0])

    def memory(self, times, paths, n):
        return 16 * times * min(self.paths, paths) * n


FEW_PATHS = 4  # below which their scatter says less about the error of a spectrum than the number of segments


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Spectrum(_Series):
    """The power spectral density of every component by Welch's averaged periodogram, with its confidence band.

    S(f) = ∫ R(τ) exp(-2πi f τ) dτ is two-sided, with f in cycles per unit of time: ∫ S df over all f is the variance.

    Parameters
    ----------
    segment : int
        The length of a segment, in times. Segments overlap by half under a Hann window; the estimate is their average.
    confidence : float
        The probability with which the band covers the truth.
    mean : "paths" or "segment"
        The mean that is subtracted: that of all paths and times, or each segment's own, for paths whose level wanders.
        A segment's own mean takes most of S at the two lowest frequencies with it.
    paths : int
        How many paths, from the first, are averaged over.
    after : float, optional
        The time after which a path is used, for example that of a transient.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these equally spaced times; by default after every step.

    Notes
    -----
    The band is that of a χ² estimate whose degrees of freedom are read off the scatter between paths. That scatter is
    itself known only with n - 1 degrees of freedom for n paths, so the band is widened by the ratio of Student's
    quantile to the normal one. For fewer than four paths the degrees of freedom are those of the segments of a Gaussian
    process.

    Variables: spectrum, spectrum_low, spectrum_high (frequency, component), and spectrum_too_low (frequency): whether
    the subtracted mean is more than a twentieth of the estimate. The window smooths over about 2/(segment
    · spacing) in frequency, and frequencies beyond 1/(2 · spacing) are folded back: both are biases that more paths do
    not cure.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> spectrum = st.Spectrum(segment=512, after=10.0)
    """

    segment: Integer = 256
    confidence: float = 0.95
    mean: str = "paths"

    def __post_init__(self):
        super().__post_init__()
        if self.mean not in ("paths", "segment"):
            raise ValueError(f'Spectrum: mean must be "paths" or "segment", got {self.mean!r}')
        if self.every is None and self.at is None:
            object.__setattr__(self, "every", 1)

    def check_length(self, length):
        if not 0 < self.confidence < 1:
            raise ValueError(f"Spectrum: confidence must lie between 0 and 1, got {self.confidence}")
        if not 8 <= self.segment <= length:
            raise ValueError(
                f"Spectrum: segment={self.segment} times, expected from 8 to {length}, the number of times; "
                "observe more often (every=), or take a shorter segment"
            )

    def estimate(self, series):
        """The cross spectrum of x and 1 is a mean over the segments of Re X conj(W), W that of the window alone."""
        Q = self._welch(series, series, "constant" if self.mean == "segment" else False)
        if self.mean == "segment":
            return np.stack([Q, np.zeros_like(Q)], axis=-1)
        return np.stack([Q, self._welch(series, np.ones_like(series[:1, :1]), False)], axis=-1)

    def of_one(self):
        one = np.ones(self.segment)
        K = self._welch(one, one, False) if self.mean == "paths" else np.zeros(self.segment // 2 + 1)
        return K[:, None]

    def _welch(self, x, y, detrend):
        """The two-sided cross spectrum of two series by Welch's method."""
        _, power = scipy.signal.csd(x, y, 1 / self.spacing, "hann", self.segment, detrend=detrend, axis=-1)
        power = power.real.copy()
        power[..., 1 : None if self.segment % 2 else -1] /= 2  # scipy gives the one-sided density
        return power

    @property
    def segments(self) -> int:
        """The number of segments in a path."""
        return max(1, (self.length - self.segment // 2) // (self.segment - self.segment // 2))

    def label(self, result, labels):
        frequency = np.fft.rfftfreq(self.segment, self.spacing)
        sums = self.final(result, labels)
        count, mean = int(sums.paths), sums.forms[..., 0]
        tail = (1 - self.confidence) / 2
        if count < FEW_PATHS:
            overlap = 1 + 2 / 36 * (1 - 1 / self.segments)  # by half, where Hann's windows have the correlation 1/6
            freedom = np.full_like(mean, 2 * count * self.segments / overlap)
        else:
            of_mean = sums.products[..., 0, 0] / (count * (count - 1))
            wider = scipy.stats.t.isf(tail, count - 1) / scipy.stats.norm.isf(tail)
            with np.errstate(divide="ignore", invalid="ignore"):
                freedom = np.clip(2 * mean**2 / of_mean, 2, 1e9) / wider**2
        low = mean * freedom / scipy.stats.chi2.ppf(1 - tail, freedom)
        high = mean * freedom / scipy.stats.chi2.ppf(tail, freedom)
        pieces = 1 if self.mean == "segment" else self.segments * count
        dims = ("frequency", "component")
        attrs = {"confidence": self.confidence, "paths": count}
        return Labelled(
            {
                "spectrum": Variable(dims, mean.T, attrs),
                "spectrum_low": Variable(dims, low.T, attrs),
                "spectrum_high": Variable(dims, high.T, attrs),
                "spectrum_too_low": Variable(dims[:1], (np.arange(len(frequency)) < 2) & (pieces < 20)),
            },
            {"frequency": Variable(("frequency",), frequency)},
        )


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Autocorrelation(_Series):
    """The autocovariance R(lag) of every component of a stationary process, and R(lag)/R(0), with standard errors.

    Parameters
    ----------
    lags : int
        The largest lag, counted in the times between observations.
    paths : int
        How many paths, from the first, are averaged over.
    after : float, optional
        The time after which a path is used, for example that of a transient.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these equally spaced times; by default on the run's own
        grid.

    Notes
    -----
    The average is taken over time within a path and over paths. The standard errors come from the scatter between
    paths, which are independent, so correlation in time needs no model. With n paths they have n - 1 degrees of
    freedom, which is one of their attributes: an interval is ± Student's quantile times the standard error, 2.36 of
    them for 95 % with 8 paths. For 3 to 24 paths they come from leaving out one path after another (the jackknife). The
    mean is that of all the paths, not of each one, and the part that its own variance takes from R is added back.

    Variables: autocovariance, autocovariance_stderr, autocorrelation, autocorrelation_stderr (lag, component).

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> correlation = st.Autocorrelation(lags=100, every=5)
    """

    lags: Integer = 50

    def check_length(self, length):
        if not 1 <= self.lags < length:
            default = " (the default)" if self.lags == type(self).lags else ""
            raise ValueError(
                f"Autocorrelation: lags={self.lags}{default}, expected from 1 to {length - 1}, less than the number of "
                "times"
            )

    def estimate(self, series):
        """The means of x(t) x(t + lag) and of (x(t) + x(t + lag))/2 for each lag; beside them those of lag 0."""
        times, lag = series.shape[-1], np.arange(self.lags + 1)
        padded = np.fft.rfft(series, 2 * times, axis=-1)
        Q = np.fft.irfft(np.abs(padded) ** 2, axis=-1)[..., : self.lags + 1] / (times - lag)
        ends = np.cumsum(series[..., : self.lags], axis=-1) + np.cumsum(series[..., : -self.lags - 1 : -1], axis=-1)
        ends = np.concatenate([np.zeros((*ends.shape[:-1], 1)), ends], axis=-1)
        L = (series.sum(axis=-1, keepdims=True) - 0.5 * ends) / (times - lag)
        return np.stack([Q, L, *np.broadcast_arrays(Q[..., :1], L[..., :1], Q)[:2]], axis=-1)

    def of_one(self):
        return np.ones((self.lags + 1, 2))

    @staticmethod
    def unbiased(sums: Sums) -> np.ndarray:
        """R and R(lag)/R(0), (2, n, entries), from sums about the mean m of all their paths.

        E (x - m)(x' - m) = R - 2 Cov((x + x')/2, m) + Var m.
        """
        of_means = sums.products / (sums.paths * max(sums.paths - 1, 1))
        R = sums.forms[..., 0] + 2 * of_means[..., 1, 3] - of_means[..., 3, 3]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.stack([R, R / R[:, :1]])

    def stderr(self, sums: Sums, estimate: np.ndarray) -> np.ndarray:
        """Standard errors of the values of `unbiased`: by the jackknife for few paths, to first order in their scatter
        for many; there the scatter of R is that of Q alone, because about m dR/dm vanishes."""
        count = int(sums.paths)
        if count < 2:
            return np.full_like(estimate, np.nan)
        if 2 < count == len(sums.each):
            without = []
            for i in range(count):
                forms = np.delete(sums.each, i, axis=0)
                others = self.summed(forms, sums.level, sums.level + forms[..., 0, 3].mean(axis=0))
                without.append(self.unbiased(self.about(others, others.mean)))
            return np.sqrt((count - 1) * np.var(without, axis=0))
        Q = [[sums.products[..., a, b] / (count * (count - 1)) for b in (0, 2)] for a in (0, 2)]
        R, ratio = estimate
        of_ratio = (Q[0][0] - 2 * ratio * Q[0][1] + ratio**2 * Q[1][1]) / R[:, :1] ** 2
        return np.sqrt(np.maximum([Q[0][0], of_ratio], 0.0))

    def label(self, result, labels):
        sums = self.final(result, labels)
        estimate, count = self.unbiased(sums), int(sums.paths)
        stderr = self.stderr(sums, estimate)
        dims, attrs = ("lag", "component"), {"paths": count, "degrees_of_freedom": max(count - 1, 0)}
        return Labelled(
            {
                "autocovariance": Variable(dims, estimate[0].T, attrs),
                "autocovariance_stderr": Variable(dims, stderr[0].T, attrs),
                "autocorrelation": Variable(dims, estimate[1].T, attrs),
                "autocorrelation_stderr": Variable(dims, stderr[1].T, attrs),
            },
            {"lag": Variable(("lag",), self.spacing * np.arange(self.lags + 1))},
        )


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Allan(_Series):
    """The overlapping Allan variance of every component, with standard errors from the scatter between paths.

    AVAR(tau) is half the mean square of the difference of neighbouring means over tau: N²/tau of white noise of the
    density N², K² tau/3 of a random walk. stodyn.analysis.allan reads coefficients off a record.

    Parameters
    ----------
    per_octave : int
        How many averaging times there are in each octave, from the time between observations to a quarter of the run.
    paths : int
        How many paths, from the first, are averaged over.
    after : float, optional
        The time after which a path is used, for example that of a transient.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these equally spaced times; by default after every step.

    Notes
    -----
    Variables: allan_variance, allan_variance_stderr (tau, component).

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> allan = st.Allan(per_octave=2, paths=64)
    """

    per_octave: Integer = 1

    def __post_init__(self):
        super().__post_init__()
        if self.every is None and self.at is None:
            object.__setattr__(self, "every", 1)

    def check_length(self, length):
        if length < 4:
            raise ValueError(f"Allan: needs at least four times, got {length}; observe more often (every=)")

    @property
    def stretches(self) -> np.ndarray:
        """The averaging times, counted in observations."""
        return stretches_for(self.length, int(self.per_octave))

    def estimate(self, series):
        """The variance does not change with the level, so that there is nothing beside it."""
        V = allan_variance(series, self.stretches)
        return np.stack([V, np.zeros_like(V)], axis=-1)

    def of_one(self):
        return np.zeros((len(self.stretches), 1))

    def label(self, result, labels):
        sums = self.final(result, labels)
        count = int(sums.paths)
        with np.errstate(divide="ignore", invalid="ignore"):
            stderr = np.sqrt(sums.products[..., 0, 0] / (count * np.float64(count - 1)))
        dims, attrs = ("tau", "component"), {"paths": count, "degrees_of_freedom": max(count - 1, 0)}
        return Labelled(
            {
                "allan_variance": Variable(dims, sums.forms[..., 0].T, attrs),
                "allan_variance_stderr": Variable(dims, stderr.T, attrs),
            },
            {"tau": Variable(("tau",), self.spacing * self.stretches)},
        )
