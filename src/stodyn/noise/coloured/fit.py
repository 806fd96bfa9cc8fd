"""A filter for a spectrum known by samples, with the error of the fit."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.noise.coloured.filters import through
from stodyn.noise.coloured.process import NOTABLY_FOLDED
from stodyn.telling import tell
from stodyn.warnings import SpectrumNotMet

DECIBEL = 10.0 / math.log(10.0)
DAMPING = (1e-4, 1e2)  # of the sections of a fit
BEYOND = 30.0  # sections may lie this factor beyond the band
WORTHWHILE = 0.97  # two poles more must bring the root mean square error below this share of what it was
EXACT = 1e-6  # dB
SPILL = 1.5  # times the variance of the samples: the total variance of a filter above which there is a warning
FAINT, FADING = 1e-6, 0.25  # densities below this share of the largest count by its ratio to this power
GUARD, GUARDED, BELOW, ABOVE = 3.0, 60, 2.0, 1.5  # weight and points outside the band; bounds there, see below


@dataclasses.dataclass(frozen=True)
class Fit:
    """How well a filter meets the samples to which it was fitted; densities are one-sided, as the samples are.

    order     the number of its poles
    error_db  the largest |10 log10(filter/samples)|, at the samples and halfway between them. There the spectrum is
              taken from a smooth curve through the logarithms of the samples, and the error is reduced by the
              difference between this curve and straight lines, the doubt about the spectrum; it is 0 where the samples
              are met exactly
    rms_db    the root mean square of the same at the samples
    variance  of the samples by the trapezoidal rule over the band; variance_in_band and variance_in_all: of the filter
    """

    order: int
    error_db: float
    rms_db: float
    variance: float
    variance_in_band: float
    variance_in_all: float

    def in_units(self, factor: float) -> Fit:
        """The fit of a noise whose variance is `factor` times as large."""
        variances = (factor * v for v in (self.variance, self.variance_in_band, self.variance_in_all))
        return Fit(self.order, self.error_db, self.rms_db, *variances)

    def __str__(self) -> str:
        return (
            f"order {self.order}: at most {self.error_db:.3g} dB off ({self.rms_db:.3g} dB rms); variance in the band "
            f"{self.variance_in_band:.6g} for {self.variance:.6g}, in total {self.variance_in_all:.6g}"
        )


@checks_arguments
def fitted(
    frequency: ArrayLike,
    psd: ArrayLike,
    tolerance_db: float = 0.5,
    highest_order: int = 8,
    name: str = "y",
    dt: float | None = None,
):
    """Fit a filter to samples of a spectrum; `fit` of the noise tells how well it meets them.

    The filter is a product of sections with one or two poles and zeros, all stable, whose frequencies and dampings are
    fitted to the logarithm of the density by least squares, with more poles until no sample is further off than
    `tolerance_db`. Where `highest_order` does not reach it, or more poles follow only the scatter of the samples, the
    best filter is returned with the warning SpectrumNotMet. Nothing is known of the spectrum beyond its samples: there
    the filter is kept below twice the density at the lower end, and below that at the upper end falling as f^(-3/2). A
    warning also reports a filter whose total variance is more than 1.5 times that of the samples, or whose variance in
    the band is more than a tenth off.

    Parameters
    ----------
    frequency : array
        In cycles per unit of time, increasing, >= 0.
    psd : array
        The one-sided density, > 0, as scipy.signal.welch gives it: ∫ psd df is the variance.
    tolerance_db : float
        The largest error that is accepted, in dB.
    highest_order : int
        The largest number of poles.
    name : str
        The name of the output.
    dt : float, optional
        The step at which the noise will be sampled, if known. The part beyond 1/(2 dt) is then folded back, with a
        warning where it is more than a tenth of the variance of the samples.

    Returns
    -------
    Coloured

    Raises
    ------
    ValueError
        If the samples are not a density over increasing frequencies, or `dt` is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> f = np.linspace(0.0, 2.0, 40)
    >>> noise = sd.noise.coloured.fitted(f, 1.0 / (1.0 + f**2))
    >>> noise.fit.order
    1
    """
    f, S = check_samples(frequency, psd)
    if dt is not None and not (math.isfinite(dt) and dt > 0):
        raise ValueError(f"dt: expected a step > 0, or None, got {dt!r}")
    weight = np.minimum((S / (FAINT * S.max())) ** FADING, 1.0)
    best, spreads = None, []
    for order in range(1, highest_order + 1):
        spread, scatter = math.inf, False
        for zeros in range(order - 1, max(order - 4, -1), -1):
            for damping in (0.7, 0.15):
                candidate = _optimised(f, S, weight, order, zeros, damping)
                off = weight * (_log_density(candidate, 2.0 * np.pi * f) - np.log(S))
                if (rms := float(np.sqrt(np.mean(off**2)))) < spread:
                    # Neighbours that differ as if they were independent are scatter, not a shape that is missed.
                    spread, scatter = rms, float(np.sum(np.diff(off) ** 2)) > np.sum(off**2)
                error = max(float(np.abs(off).max()), _spilled(candidate, f, S))
                if best is None or error < 0.98 * best[0]:
                    best = error, candidate
        spreads.append(spread)
        useless = scatter and len(spreads) > 2 and spread > WORTHWHILE * spreads[-3]
        if useless or (best is not None and DECIBEL * best[0] <= tolerance_db):
            break
    assert best is not None
    noise, fit = _filter(best[1], name, f, S)
    complaints = _variances(noise, fit, dt)
    if fit.error_db > tolerance_db:
        complaints.append(
            f"asked for {tolerance_db:g} dB. Where the samples scatter, as those of an estimated spectrum do, average "
            "more of them or raise tolerance_db; where the spectrum bends, take more of them, or a higher order"
        )
    if complaints:
        tell(f"{fit}; {'; '.join(complaints)}.", SpectrumNotMet)
    return dataclasses.replace(noise, fit=fit)


def _spilled(sections: _Sections, f: np.ndarray, S: np.ndarray) -> float:
    """How far the logarithm of the filter's whole variance lies above that of SPILL times the samples' variance; 0
    where it lies below."""
    total = float(_through(sections, "y").variance[0])
    return max(0.0, math.log(max(total, 1e-300) / (SPILL * float(np.trapezoid(S, f)))))


def _variances(noise, fit: Fit, dt: float | None) -> list[str]:
    """Return how the variance of the filter differs from that of the samples: in the band, in total and beyond it."""
    complaints = []
    if abs(fit.variance_in_band / fit.variance - 1.0) > 0.1 and fit.error_db > EXACT:
        complaints.append(
            f"in the band its variance is {fit.variance_in_band:.4g}, but that of the samples is {fit.variance:.4g}"
        )
    if fit.variance_in_all > SPILL * fit.variance:
        complaints.append(
            f"its total variance is {fit.variance_in_all:.4g}, but that of the samples is {fit.variance:.4g}: the rest "
            "lies outside the band, where the samples say nothing. Give samples up to where the spectrum has fallen off"
        )
    if dt is not None:
        folded = float(noise.folded_variance(dt)[0])
        if folded > NOTABLY_FOLDED * fit.variance:
            complaints.append(
                f"sampled at dt = {dt:g}, {folded:.4g} of its variance lies beyond 1/(2 dt) = {0.5 / dt:g} and is "
                f"folded back onto the band, whose samples have {fit.variance:.4g}. Take a shorter dt"
            )
    return complaints


class _Sections(NamedTuple):
    """g² Π |zeros|² / Π |poles|²: log of the gain; log of frequency and of damping of each pair; of single roots."""

    gain: float
    poles: np.ndarray  # (pairs, 2)
    pole: np.ndarray  # (0 or 1,)
    zeros: np.ndarray
    zero: np.ndarray


def _guards(f: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ω outside the band, and the logarithm of the density that the filter may have there; densities that add
    less than about a thousandth of the variance of the samples are ignored.
    """
    low = np.geomspace(f[0] / 300.0, 0.97 * f[0], GUARDED) if f[0] > 0 else np.empty(0)
    high = np.geomspace(1.03 * f[-1], 300.0 * f[-1], GUARDED)
    little = 1e-3 * float(np.trapezoid(S, f))
    at_low, at_high = max(BELOW * S[0], little / max(f[0], 1e-300)), max(S[-1], little / f[-1])
    allowed = [np.full(len(low), math.log(at_low)), math.log(at_high) - ABOVE * np.log(high / f[-1])]
    return 2.0 * np.pi * np.concatenate([low, high]), np.concatenate(allowed)


def _optimised(f: np.ndarray, S: np.ndarray, weight: np.ndarray, order: int, zeros: int, damping: float) -> _Sections:
    ω, target = 2.0 * np.pi * f, np.log(S)
    outside, allowed = _guards(f, S)
    share = GUARD * math.sqrt(len(f) / len(outside))
    positive = ω[ω > 0]
    low, high = math.log(positive[0]), math.log(positive[-1])
    shapes = order // 2, order % 2, zeros // 2, zeros % 2

    def unpacked(v: np.ndarray) -> _Sections:
        ends = np.cumsum([1, 2 * shapes[0], shapes[1], 2 * shapes[2]])
        gain, poles, pole, pairs, zero = np.split(v, ends)
        return _Sections(gain[0], poles.reshape(-1, 2), pole, pairs.reshape(-1, 2), zero)

    def places(count: int, shift: float) -> np.ndarray:
        return low + (high - low) * (np.arange(count) + 0.5 + shift) / max(count, 1)

    at = np.concatenate([places(shapes[0] + shapes[1], 0.0), places(shapes[2] + shapes[3], 0.2)])
    logs = math.log(damping)
    start = [0.0]
    for pairs, single in (shapes[:2], shapes[2:]):
        here, at = at[: pairs + single], at[pairs + single :]
        start += [value for place in here[:pairs] for value in (place, logs)] + list(here[pairs:])
    reach = math.log(BEYOND)
    bounds = [(-np.inf, np.inf)]
    for pairs, single in (shapes[:2], shapes[2:]):
        bounds += [(low - reach, high + reach), (math.log(DAMPING[0]), math.log(DAMPING[1]))] * pairs
        bounds += [(low - reach, high + reach)] * single
    lower, upper = np.array(bounds).T
    guess = np.clip(np.array(start), lower + 1e-9, upper - 1e-9)
    guess[0] = np.mean(target - _log_density(unpacked(guess), ω))

    def off(v: np.ndarray) -> np.ndarray:
        too_much = np.maximum(_log_density(unpacked(v), outside) - allowed, 0.0)
        return np.concatenate([weight * (_log_density(unpacked(v), ω) - target), share * too_much])

    def slopes(v: np.ndarray) -> np.ndarray:
        active = _log_density(unpacked(v), outside) > allowed
        return np.concatenate([
            weight[:, None] * _slopes(unpacked(v), ω), share * active[:, None] * _slopes(unpacked(v), outside)
        ])  # fmt: skip

    fit = scipy.optimize.least_squares(off, guess, slopes, bounds=(lower, upper), max_nfev=200, x_scale=1.0)
    return unpacked(fit.x)


def _log_density(sections: _Sections, ω: np.ndarray) -> np.ndarray:
    """The logarithm of the one-sided density at ω, in any unit."""

    def pair(place: np.ndarray) -> np.ndarray:
        x = (ω / np.exp(place[0])) ** 2
        return np.log((1.0 - x) ** 2 + 4.0 * np.exp(2.0 * place[1]) * x + 1e-300)

    def single(place: float) -> np.ndarray:
        return np.log1p((ω / math.exp(place)) ** 2)

    total = np.full(ω.shape, sections.gain)
    for sign, pairs, ones in ((-1.0, sections.poles, sections.pole), (1.0, sections.zeros, sections.zero)):
        for place in pairs:
            total += sign * pair(place)
        for place in ones:
            total += sign * single(place)
    return total


def _slopes(sections: _Sections, ω: np.ndarray) -> np.ndarray:
    """The derivatives of _log_density by the entries of the sections, (len(ω), entries)."""
    columns = [np.ones(ω.shape)]
    for sign, pairs, ones in ((-1.0, sections.poles, sections.pole), (1.0, sections.zeros, sections.zero)):
        for place, damping in pairs:
            x, squared = (ω / np.exp(place)) ** 2, np.exp(2.0 * damping)
            density = (1.0 - x) ** 2 + 4.0 * squared * x + 1e-300
            columns.append(sign * 4.0 * x * (1.0 - x - 2.0 * squared) / density)
            columns.append(sign * 8.0 * squared * x / density)
        for place in ones:
            x = (ω / np.exp(place)) ** 2
            columns.append(-2.0 * sign * x / (1.0 + x))
    return np.stack(columns, axis=1)


def _through(sections: _Sections, name: str):
    """Return the filter that consists of these sections."""

    def roots(pairs: np.ndarray, ones: np.ndarray) -> np.ndarray:
        pairs_of_roots = [np.roots([1.0, 2.0 * math.exp(ω + ζ), math.exp(2.0 * ω)]) for ω, ζ in pairs]
        return np.concatenate([*pairs_of_roots, -np.exp(ones)]).astype(complex)

    z, p = roots(sections.zeros, sections.zero), roots(sections.poles, sections.pole)
    # At ω = 0 the one-sided density is exp(gain) = 2 |H(0)|².
    at_zero = math.exp(0.5 * sections.gain) / math.sqrt(2.0)
    gain = at_zero * float(np.real(np.prod(-p) / np.prod(-z)))
    return through((z, p, gain), name=name)


def _filter(sections: _Sections, name: str, f: np.ndarray, S: np.ndarray):
    """The filter, and how well it meets the samples."""
    noise = _through(sections, name)

    def off(f: np.ndarray, S: np.ndarray) -> np.ndarray:
        return DECIBEL * np.log(2.0 * noise.spectrum(f)[:, 0, 0].real / S)

    scale = f[f > 0][0]
    u = np.arcsinh(f / scale)  # as the logarithm, and finite at zero
    middle = 0.5 * (u[:-1] + u[1:])
    halfway = scale * np.sinh(middle)
    at_samples = off(f, S)
    smooth = scipy.interpolate.PchipInterpolator(u, np.log(S))(middle)
    doubt = DECIBEL * np.abs(smooth - 0.5 * (np.log(S[:-1]) + np.log(S[1:])))  # how uncertain the spectrum is there
    in_between = np.maximum(np.abs(off(halfway, np.exp(smooth))) - doubt, 0.0)
    if np.abs(at_samples).max() < EXACT and 2 * len(noise.A) < len(f):
        in_between = np.zeros(1)  # the samples are those of this filter: between them the spectrum is its own
    fine = np.unique(np.concatenate([f, halfway, np.linspace(f[0], f[-1], 2001)]))
    fit = Fit(
        len(noise.A),
        float(max(np.abs(at_samples).max(), np.abs(in_between).max(initial=0.0))),
        float(np.sqrt(np.mean(at_samples**2))),
        float(np.trapezoid(S, f)),
        float(np.trapezoid(2.0 * noise.spectrum(fine)[:, 0, 0].real, fine)),
        float(noise.variance[0]),
    )
    return noise, fit


def check_samples(frequency: ArrayLike, psd: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies and density as arrays; refuse them where they are not a density over increasing
    frequencies."""
    f, S = np.asarray(frequency, float), np.asarray(psd, float)
    if f.ndim != 1 or f.shape != S.shape or len(f) < 4:
        raise ValueError(f"frequency, psd: expected two lists of one length, 4 or more, got {f.shape} and {S.shape}")
    for what, values in (("frequency", f), ("psd", S)):
        missing = ~np.isfinite(values)
        if missing.any():
            raise ValueError(f"{what}: {missing.sum()} of {len(values)} values are missing or not finite, first number "
                             f"{np.argmax(missing)}; leave those samples out")  # fmt: skip
    if f[0] < 0 or np.any(np.diff(f) <= 0):
        raise ValueError("frequency: expected increasing values >= 0")
    low = int(np.argmin(S))
    if S[low] <= 0:
        kind = "negative" if S[low] < 0 else "zero"
        raise ValueError(f"psd: {kind} at {f[low]:g} ({S[low]:g}); a density is above 0. Leave such samples out.")
    return f, S
