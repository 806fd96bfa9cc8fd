"""The Allan variance of a record, and the noise of a sensor from it with intervals that cover.

V is linear in the squares θ of the coefficients, E V = X θ, and its covariance C(θ) is known exactly (allan_terms):
    θ = argmin |C^(-1/2) (V - X θ)|, θ >= 0, with C at the θ before;   cov θ = (Xᵀ C⁻¹ X)⁻¹.
Neighbouring points of the curve hold much of the same data, and C says how much: the coefficients come out 1.4 to 4
times sharper than with weights from the points alone.

The error of θ_k grows with θ_k itself, so an interval holds the values that the estimate is not too far from in the
error that they would have: |θ̂_k - θ_k| <= q sd_k(θ_k). With the error at the estimate, intervals of K cover 90 of 100.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.analysis.system import allan_terms
from stodyn.arguments import checks_arguments
from stodyn.hints import is_integer
from stodyn.noise import inertial
from stodyn.noise.inertial import Inertial
from stodyn.numerics.allan_variance import allan_variance, stretches_for
from stodyn.telling import tell
from stodyn.warnings import DoesNotFit

ROUNDS = 8  # at most, in which C follows θ; three are enough where no term is near zero
DOUBLINGS = 20  # of an upper end, after which a record is said to set none
SETTLED = 1e-3  # change of θ, in its errors, at which they end
SUSPICIOUS = 1e-3  # chance of residuals as large as those seen, below which the terms are said not to fit
TIMES = 8  # correlation times that are tried first
SMALL = 1e-4  # change of a correlation time, by which its derivative is taken
KINDS = ("overlapping", "plain")
WORDS = {
    "Q": "quantisation", "N": "angle random walk", "B": "bias instability", "K": "rate random walk", "R": "rate ramp",
    "G": "Gauss-Markov",
}  # fmt: skip


class Coefficient(NamedTuple):
    """One coefficient of a fit: its value, the interval that covers it, and whether it is seen at all.

    A coefficient that is not seen has the value 0, and `high` says below what it lies.
    """

    value: float
    low: float
    high: float
    is_seen: bool


@dataclasses.dataclass(frozen=True, eq=False)
class AllanFit:
    """Coefficients of noise fitted to an Allan variance; fit["N"] is that of white rate noise.

    Attributes
    ----------
    terms : str
        The letters of the terms: Q quantisation, N angle random walk (white rate noise), B bias instability (flicker),
        K rate random walk, R rate ramp, G a Gauss-Markov process of the standard deviation fit["G"].
    squares, covariance : arrays (terms,), (terms, terms)
        The squares of the coefficients and the covariance of their errors.
    intervals : array (terms, 2)
        The ends of the intervals of the squares; infinity where the record sets no upper limit.
    chi2, freedom, p_value
        The squared residuals in units of their covariance, how many they are, and the chance of larger ones.
    confidence : float
        The probability with which an interval covers its coefficient.
    averaged : bool
        Whether samples are averages over their spacing.
    correlation_time : Coefficient or None
        That of the Gauss-Markov process, with its interval.
    """

    terms: str
    squares: np.ndarray
    covariance: np.ndarray
    intervals: np.ndarray
    chi2: float
    freedom: int
    p_value: float
    confidence: float
    averaged: bool
    dt: float
    correlation_time: Coefficient | None = None

    def __getitem__(self, letter: str) -> Coefficient:
        if letter not in self.terms:
            raise KeyError(f"there is no term {letter!r}; the fit has {', '.join(self.terms)}")
        k = self.terms.index(letter)
        square, (low, high) = self.squares[k], self.intervals[k]
        return Coefficient(float(np.sqrt(square)), float(np.sqrt(low)), float(np.sqrt(high)), bool(square > 0.0))

    @checks_arguments
    def variance(self, tau: ArrayLike, terms: str | None = None) -> np.ndarray:
        """Return the Allan variance of the fitted terms.

        Parameters
        ----------
        tau : float or array (...)
            Averaging times, whole multiples of the spacing of the samples.
        terms : str, optional
            Only these of the terms.

        Returns
        -------
        array (...)
        """
        tau = np.asarray(tau, float)
        time = None if self.correlation_time is None else self.correlation_time.value / self.dt
        X = _columns(self.terms, np.round(tau.ravel() / self.dt), self.dt, self.averaged, time)
        is_wanted = np.array([terms is None or letter in terms for letter in self.terms])
        return (X @ np.where(is_wanted, self.squares, 0.0)).reshape(tau.shape)

    @checks_arguments
    def noise(self, kind: str = "gyro") -> Inertial:
        """Return a sensor with the fitted noise, as `noise=` of a Sensor or to be drawn by its `sample`.

        Parameters
        ----------
        kind : "gyro" or "accelerometer"

        Returns
        -------
        Inertial
            Of the terms N, B, K and G; quantisation and ramps are no noise that a sensor adds to a reading.
        """
        if kind not in ("gyro", "accelerometer"):
            raise ValueError(f'kind: expected "gyro" or "accelerometer", got {kind!r}')
        N, B, K = (self[letter].value if letter in self.terms else 0.0 for letter in "NBK")
        rest: dict[str, Any] = {"bias_instability": B, "rate_random_walk": K, "every": self.dt}
        if self.correlation_time is not None and self["G"].is_seen:
            rest["gauss_markov"] = (self["G"].value, self.correlation_time.value)
        return inertial.gyro(arw=N, **rest) if kind == "gyro" else inertial.accelerometer(vrw=N, **rest)

    def __str__(self) -> str:
        lines = []
        for letter in self.terms:
            value, low, high, is_seen = self[letter]
            words = f"{value:.4g}  ({low:.4g} to {high:.4g})" if is_seen else f"not seen, below {high:.4g}"
            lines.append(f"{letter}  {WORDS[letter]:18s} {words}")
            if letter == "G" and self.correlation_time is not None and is_seen:
                value, low, high, _ = self.correlation_time
                lines.append(f"   {'of correlation time':18s} {value:.4g}  ({low:.4g} to {high:.4g})")
        return "\n".join([*lines, f"χ² {self.chi2:.3g} for {self.freedom}, p = {self.p_value:.2g}"])


@dataclasses.dataclass(frozen=True, eq=False)
class AllanCurve:
    """The Allan variance of a record at several averaging times.

    Attributes
    ----------
    tau, variance : arrays (points,)
        Averaging times, and the variances of half the differences of neighbouring means over them.
    stretches : array (points,)
        The averaging times in samples.
    dt : float
        The time between samples.
    samples, records : int
        The number of samples in a record, and of independent records whose variances were averaged.
    kind : str
        "overlapping" or "plain".
    """

    tau: np.ndarray
    variance: np.ndarray
    stretches: np.ndarray
    dt: float
    samples: int
    records: int
    kind: str

    @property
    def deviation(self) -> np.ndarray:
        """The Allan deviations (points,), roots of the variances."""
        return np.sqrt(self.variance)

    @checks_arguments
    def fit(self, terms: str = "QNBKR", *, averaged: bool = False, confidence: float = 0.95) -> AllanFit:
        """Fit coefficients of noise by generalised least squares with the exact covariance of the points.

        Parameters
        ----------
        terms : str
            Letters: Q quantisation (of the angle), N angle or velocity random walk, B bias instability, K rate random
            walk, R rate ramp. In units of the record y and of time t: Q in y t, N in y √t, B in y, K in y/√t, R in y/t.
            G adds a Gauss-Markov process, whose correlation time is found between dt and the longest averaging time;
            the intervals of all terms allow for its error.
        averaged : bool
            Whether each sample is the average over the time since the one before, as of a rate-integrating gyro. The
            Allan variance of a random walk that is sampled is half as large again at the shortest averaging time.
        confidence : float
            The probability with which intervals cover.

        Returns
        -------
        AllanFit

        Warns
        -----
        DoesNotFit
            If the residuals have a probability below 0.001: a term is missing, or the record holds a sine or jumps.

        Raises
        ------
        ValueError
            If a letter is unknown, there are fewer points than terms, or the points are not overlapping ones.
        """
        letters = _checked_terms(terms, len(self.tau))
        if self.kind != "overlapping":
            raise ValueError(f'kind: the law of the points is that of overlapping ones, got {self.kind!r}; '
                             'call allan(..., kind="overlapping")')  # fmt: skip
        if not (self.variance > 0.0).all():
            still = self.tau[np.argmin(self.variance > 0.0)]
            raise ValueError(
                f"y: its Allan variance at tau = {still:g} is 0, so that it has no noise to be found there"
            )
        law = _law(letters, self, averaged)
        try:
            squares, C = _settled(law, self.variance)
        except np.linalg.LinAlgError as failure:
            raise ValueError(
                f"y: of the terms {letters} none but a ramp is seen, so that its points have no errors; a record needs "
                "noise to be fitted"
            ) from failure
        active = squares > 0.0
        off = np.linalg.solve(np.linalg.cholesky(C), self.variance - law.X @ squares)
        covariance = law.errors(squares)
        quantile = float(scipy.stats.norm.isf((1.0 - confidence) / 2.0))
        intervals = law.scale[:, None] * [_interval(law, squares, k, quantile) for k in range(len(letters))]
        unknown = int(active.sum()) + int(law.time is not None)
        chi2, freedom = float(off @ off), max(len(self.tau) - unknown, 0)
        p_value = float(scipy.stats.chi2.sf(chi2, freedom)) if freedom else 1.0
        covariance = law.scale[:, None] * covariance * law.scale
        fit = AllanFit(
            letters, squares * law.scale, covariance, intervals, chi2, freedom, p_value, confidence, averaged, self.dt,
            law.time_and_interval(squares, quantile),
        )  # fmt: skip
        if p_value < SUSPICIOUS:
            tell(_what_does_not_fit(self, fit, np.sqrt(np.diagonal(C))), DoesNotFit)
        return fit

    @checks_arguments
    def interval(self, fit: AllanFit | None = None, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of an interval for each variance: χ² with the degrees of freedom that the fitted noise has.

        Parameters
        ----------
        fit : AllanFit, optional
            The noise that the record is taken to have; by default a fit of all terms.
        confidence : float
            The probability with which each interval covers.

        Returns
        -------
        tuple of two arrays (points,)
        """
        freedom = self.freedom(fit)
        tail = (1.0 - confidence) / 2.0
        return tuple(self.variance * freedom / scipy.stats.chi2.isf(share, freedom) for share in (tail, 1.0 - tail))

    @checks_arguments
    def freedom(self, fit: AllanFit | None = None) -> np.ndarray:
        """Return the degrees of freedom 2 V²/var V of each point, for the noise of a fit.

        Parameters
        ----------
        fit : AllanFit, optional
            By default a fit of all terms.

        Returns
        -------
        array (points,)
        """
        if fit is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DoesNotFit)
                fit = self.fit("QNBKR"[: max(len(self.tau) - 1, 1)])
        time = None if fit.correlation_time is None else fit.correlation_time.value / self.dt
        law = _Law(fit.terms, self, fit.averaged, time)
        squares = fit.squares / law.scale
        return 2.0 * (law.X @ squares) ** 2 / np.diagonal(law.covariance(squares))


@checks_arguments
def allan(
    y: Any,
    dt: float | None = None,
    taus: str | int | Sequence[float] | np.ndarray = "octaves",
    *,
    kind: str = "overlapping",
    component: str | None = None,
) -> AllanCurve:
    """Return the Allan variance of a record of rates: of a gyro, an accelerometer, a clock's frequency.

    Parameters
    ----------
    y : array (n,) or (records, n), DataArray, or Dataset
        The record, equally spaced in time; several records are independent ones of the same noise, whose variances are
        averaged. A Dataset is a run that collected statistics.Paths.
    dt : float, optional
        The time between samples; needed where y has no times of its own.
    taus : "octaves", int or sequence of float
        Averaging times: doubled from dt on, up to a quarter of the record; so many for each octave; or these, which are
        whole multiples of dt.
    kind : "overlapping" or "plain"
        Whether means begin at every sample, or follow each other. Plain ones are less precise.
    component : str, optional
        Which component of a run, where it has several.

    Returns
    -------
    AllanCurve
        With `fit`, which finds the coefficients of the noise, and `interval`.

    Raises
    ------
    ValueError
        If times are not equally spaced, values are missing or not finite, or the record is shorter than two of the
        averaging times.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> rate = 0.01 * np.random.default_rng(1).standard_normal(100_000)  # rad/s at 100 Hz: N = 0.001 rad/s/√Hz
    >>> print(f'{sd.analysis.allan(rate, dt=0.01).fit("N")["N"].value:.4f}')
    0.0010
    """
    series, spacing = _record(y, dt, component)
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    records, samples = series.shape
    stretches = _stretches(taus, spacing, samples)
    V = allan_variance(series, stretches, is_overlapping=kind == "overlapping").mean(axis=0)
    return AllanCurve(stretches * spacing, V, stretches, spacing, samples, records, kind)


def _record(y: Any, dt: Any, component: str | None) -> tuple[np.ndarray, float]:
    """Return the series (records, n) and the time between samples."""
    times = None
    if hasattr(y, "data_vars"):
        if "path" not in y:
            raise ValueError("y: the run holds no paths; collect statistics.Paths(...) in simulate")
        y = y["path"]
    if hasattr(y, "dims"):
        y = _one_component(y, component)
        times = np.asarray(y["time"], float) if "time" in y.coords else None
        y = y.transpose(..., "time") if "time" in y.dims else y
    series = np.atleast_2d(np.asarray(y, float))
    if series.ndim != 2 or series.shape[1] < 3:
        columns = "; it has its channels in columns: give one of them, y[:, 0]" if len(series) >= 3 else ""
        raise ValueError(
            f"y: expected at least three samples, as an array (n,) or (records, n), got {np.shape(y)}{columns}"
        )
    if not np.isfinite(series).all():
        where = int(np.argmin(np.isfinite(series).all(axis=0)))
        raise ValueError(f"y: sample {where} is missing or not finite; Allan variances need every sample of a record")
    if (dt is None) == (times is None):
        raise ValueError("dt: expected the time between samples" if dt is None else "dt: the record has its own times")
    if times is not None:
        return series, _spacing(times)
    if np.ndim(dt):
        raise TypeError(f"dt: expected the time between samples, one number, got an array of shape {np.shape(dt)}")
    return series, float(dt)


def _one_component(y: Any, component: str | None) -> Any:
    if "component" not in y.dims:
        return y
    names = [str(name) for name in y["component"].values]
    if component is None and len(names) > 1:
        raise ValueError(f"component: expected one of {', '.join(names)}")
    if component is not None and component not in names:
        raise ValueError(f"component: there is no {component!r}; there are {', '.join(names)}")
    return y.sel(component=component or names[0])


def _spacing(times: np.ndarray) -> float:
    gaps = np.diff(times)
    if not np.allclose(gaps, gaps[0], rtol=1e-6, atol=0.0):
        worst = int(np.argmax(np.abs(gaps - gaps[0])))
        raise ValueError(f"y: expected equally spaced times, but samples {worst} and {worst + 1} are {gaps[worst]:g} "
                         f"apart, the first ones {gaps[0]:g}")  # fmt: skip
    return float((times[-1] - times[0]) / len(gaps))


def _stretches(taus: Any, dt: float, samples: int) -> np.ndarray:
    if not (np.isfinite(dt) and dt > 0.0):
        raise ValueError(f"dt: expected a positive time between samples, got {dt!r}")
    if isinstance(taus, str):
        if taus != "octaves":
            raise ValueError(f'taus: expected "octaves", a number of points for each octave, or times, got {taus!r}')
        return stretches_for(samples)
    if is_integer(taus):
        return stretches_for(samples, int(taus))
    wanted = np.atleast_1d(np.asarray(taus, float)) / dt
    stretches = np.round(wanted)
    is_off = (np.abs(wanted - stretches) > 1e-6 * wanted) | (stretches < 1)
    if is_off.any():
        off = wanted[is_off][0]
        near = dt * max(np.round(off), 1.0)
        raise ValueError(f"taus: {off * dt:g} is no whole multiple of dt = {dt:g}; the nearest one is {near:g}")
    if stretches.max() > samples // 2:
        raise ValueError(f"taus: {stretches.max() * dt:g} is more than half the record, {samples * dt / 2:g}")
    return np.unique(stretches).astype(int)


def _checked_terms(terms: str, points: int) -> str:
    unknown = [letter for letter in terms if letter not in allan_terms.LETTERS]
    if unknown or not terms or len(set(terms)) != len(terms):
        raise ValueError(f"terms: expected different letters of {allan_terms.LETTERS}, such as 'NBK', got {terms!r}")
    count = len(terms) + ("G" in terms)
    if count > points:
        raise ValueError(f"terms: {count} numbers to be found need as many averaging times, there are {points}")
    return terms


def _columns(terms: str, stretches: np.ndarray, dt: float, averaged: bool, time: float | None = None) -> np.ndarray:
    """X (points, terms): the Allan variance of each term whose coefficient is 1; `time` of G in samples."""
    columns = []
    for letter in terms:
        if letter == "R":
            columns.append((stretches * dt) ** 2 / 2.0)
            continue
        unit = allan_terms.variances(allan_terms.differences_of(letter, averaged, time), stretches)
        columns.append(unit * dt ** (allan_terms.UNITS[letter] - 2.0))
    return np.stack(columns, axis=1)


class _Law:
    """Mean and covariance of V as functions of squared coefficients, in units in which columns of X are of size 1."""

    def __init__(self, terms: str, curve: AllanCurve, averaged: bool, time: float | None = None):
        self.terms, self.curve, self.averaged, self.time = terms, curve, averaged, time
        X = _columns(terms, curve.stretches, curve.dt, averaged, time)
        self.scale = 1.0 / np.max(X / curve.variance[:, None], axis=0)
        self.X = X * self.scale
        differences = [allan_terms.differences_of(letter, averaged, time) for letter in terms]
        H, L = allan_terms.laws(differences, curve.stretches, curve.samples)
        powers = np.array([allan_terms.UNITS[letter] if letter != "R" else 0.0 for letter in terms]) - 2.0
        units = self.scale * curve.dt**powers
        self.H = H * units[:, None] * units / curve.records
        ramp = self.scale[terms.index("R")] if "R" in terms else 0.0
        self.L = L * units * curve.dt**2 * ramp / curve.records
        self.ramp = terms.index("R") if "R" in terms else 0

    def covariance(self, squares: np.ndarray) -> np.ndarray:
        """C (points, points) at these squares."""
        return np.einsum("ijab,a,b->ij", self.H, squares, squares) + squares[self.ramp] * (self.L @ squares)

    def errors(self, squares: np.ndarray) -> np.ndarray:
        """The covariance of the errors of an estimate, where these are the squares."""
        return self._all_errors(squares)[: len(squares), : len(squares)]

    def _all_errors(self, squares: np.ndarray) -> np.ndarray:
        """The covariance of the errors of all estimates, with the logarithm of the correlation time last where there is
        one."""
        X = self.X if self.time is None else np.column_stack([self.X, squares[self.terms.index("G")] * self._slope])
        whitened = np.linalg.solve(np.linalg.cholesky(self.covariance(squares)), X)
        return np.linalg.pinv(whitened.T @ whitened, hermitian=True)

    @functools.cached_property
    def _slope(self) -> np.ndarray:
        """The derivative of G's column by the logarithm of its correlation time."""
        assert self.time is not None
        curve, k = self.curve, self.terms.index("G")
        later, earlier = (
            _columns("G", curve.stretches, curve.dt, self.averaged, self.time * factor)[:, 0]
            for factor in (1.0 + SMALL, 1.0 - SMALL)
        )
        return (later - earlier) / (2.0 * SMALL) * self.scale[k]

    def time_and_interval(self, squares: np.ndarray, quantile: float) -> Coefficient | None:
        """The correlation time with its interval, even in its logarithm; None where there is none."""
        if self.time is None:
            return None
        time, is_seen = self.time * self.curve.dt, bool(squares[self.terms.index("G")] > 0.0)
        factor = float(np.exp(quantile * np.sqrt(self._all_errors(squares)[-1, -1]))) if is_seen else np.inf
        return Coefficient(time, time / factor, time * factor, is_seen)


def _law(terms: str, curve: AllanCurve, averaged: bool) -> _Law:
    """The law of the terms; that of a Gauss-Markov process has the correlation time of the least squares, with the
    covariance of that one of a few, equally far apart in the logarithm, under which the points are most probable."""
    if "G" not in terms:
        return _Law(terms, curve, averaged)
    tried = np.linspace(0.0, np.log(float(curve.stretches.max())), TIMES)
    roots = [_root(_Law(terms, curve, averaged, float(np.exp(logarithm))), curve.variance) for logarithm in tried]
    best = int(np.argmin([_improbable(root, off) for root, off in roots]))

    def squares(logarithm: float) -> float:
        X = _columns(terms, curve.stretches, curve.dt, averaged, float(np.exp(logarithm)))
        whitened = np.linalg.solve(roots[best][0], np.column_stack([X / X.max(axis=0), curve.variance]))
        return scipy.optimize.nnls(whitened[:, :-1], whitened[:, -1])[1] ** 2

    ends = tried[max(best - 1, 0)], tried[min(best + 1, TIMES - 1)]
    least = scipy.optimize.minimize_scalar(squares, bounds=ends, method="bounded", options={"xatol": 1e-5})
    return _Law(terms, curve, averaged, float(np.exp(least.x)))


def _root(law: _Law, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The root of C at the terms that fit best, and how far the points are off in its units."""
    squares, C = _settled(law, V)
    root = np.linalg.cholesky(C)
    return root, np.linalg.solve(root, V - law.X @ squares)


def _improbable(root: np.ndarray, off: np.ndarray) -> float:
    """-2 times the logarithm of the probability of the points, but for a constant."""
    return float(off @ off + 2.0 * np.log(np.diagonal(root)).sum())


def _interval(law: _Law, squares: np.ndarray, k: int, quantile: float) -> tuple[float, float]:
    """The least and the largest θ_k whose own error reaches the estimate, the other terms as estimated."""

    def beyond(square: float) -> float:
        value = max(square, 1e-9 * estimate)  # without any noise C would have no inverse
        deviation = np.sqrt(law.errors(np.where(np.arange(len(squares)) == k, value, squares))[k, k])
        return abs(square - squares[k]) - quantile * deviation

    estimate, least = squares[k], 0.0
    if estimate > 0.0 and beyond(0.0) > 0.0:
        least = scipy.optimize.brentq(beyond, 0.0, estimate, xtol=1e-12 * estimate)
    most = 2.0 * estimate + quantile * np.sqrt(law.errors(squares)[k, k])
    for _ in range(DOUBLINGS):
        if beyond(most) > 0.0:
            return least, scipy.optimize.brentq(beyond, max(estimate, 0.0), most)
        most *= 2.0
    return least, np.inf


def _settled(law: _Law, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return θ >= 0 and C: least squares with C of the θ before, from the weights of the points alone on."""
    squares = scipy.optimize.nnls(law.X / V[:, None], np.ones(len(V)))[0]
    C = law.covariance(squares)
    for _ in range(ROUNDS):
        root = np.linalg.cholesky(C)
        whitened = np.linalg.solve(root, np.column_stack([law.X, V]))
        new = scipy.optimize.nnls(whitened[:, :-1], whitened[:, -1])[0]
        errors = 1.0 / np.linalg.norm(whitened[:, :-1], axis=0)
        is_settled = np.all(np.abs(new - squares) < SETTLED * errors)
        squares, C = new, law.covariance(new)
        if is_settled:
            break
    return squares, C


def _what_does_not_fit(curve: AllanCurve, fit: AllanFit, errors: np.ndarray) -> str:
    apart = (curve.variance - fit.variance(curve.tau)) / errors
    worst = int(np.argmax(np.abs(apart)))
    side = "above" if apart[worst] > 0 else "below"
    return (
        f"terms: {fit.terms} do not explain the record: χ² {fit.chi2:.3g} for {fit.freedom} (p = {fit.p_value:.2g}); "
        f"the farthest point, at {curve.tau[worst]:g}, lies {abs(apart[worst]):.3g} errors {side} the fit. "
        "Add a term, or look for a sine, jumps or a change of temperature in the record."
    )
