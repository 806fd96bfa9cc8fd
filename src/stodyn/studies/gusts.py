"""An airliner in Dryden gusts: its simulated response at an advised step, against the exact covariance and spectrum."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import scipy

import stodyn as sd
from stodyn import plot
from stodyn.analysis.step.covariance import advise, delivered, largest_step, spectrum, steady
from stodyn.analysis.step.integrator import system_step
from stodyn.methods.classical import RK4
from stodyn.models.gust_response import GUST_RESPONSE
from stodyn.numerics import lyapunov
from stodyn.statistics import Moments, Spectrum
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN

WITHIN = 0.01  # the relative error of the variances for which a step is advised
PATHS, END, FULL_END = 100_000, 60.0, 600.0
SERIES = (1200.0, 64, 8192)  # for the spectra: duration in s, paths and samples per segment
NAMES = ("u", "w", "q", "theta")


def run(size: Size, out: Path, progress) -> StudyResult:
    A, B = GUST_RESPONSE.exact["system"]()
    exact = GUST_RESPONSE.exact["stationary_covariance"]()
    progress("advice")
    h = advised_step(A, B)
    largest = largest_step(RK4, A, B, WITHIN)
    rows = [
        Row(f"largest step with every variance within {WITHIN:.0%}, RK4 held [s]", None, largest, None, f"used: {h:g}")
    ]
    rows += [Row(f"error at this step: {line.name} [%]", None, line.worst, None, "the worst variance", h=h)
             for line in advise(A, B, None, h)[:6]]  # fmt: skip
    at_step = np.diagonal(steady(RK4, A, B, h)) / np.diagonal(exact)
    rows += [Row(f"delivered/exact variance of {name}, in the long run", None, ratio, h=h)
             for name, ratio in zip(NAMES, at_step, strict=False)]  # fmt: skip
    paths, end = size.of((64, 2.0), (PATHS, END), (PATHS, FULL_END))
    progress(f"{paths} paths over {end:g} s")
    flown, expected = response(h, end, paths)
    for i, name in enumerate(NAMES):
        P = exact[i, i]
        variance, stderr = (float(flown[word].sel(component=name)[-1]) for word in ("variance", "variance_stderr"))
        rows.append(Row(f"variance of {name} in the runs over the exact one", None, variance / P, stderr / P,
                        f"the step delivers {expected[i, i] / P:.5f}", **of_run(flown)))  # fmt: skip
    progress("spectra")
    duration, paths, segment = size.of((40.0, 4, 256), SERIES, SERIES)
    series = spectra(h, duration, paths, segment)
    rows += [_density(series, name, wanted, A, B, h) for name in ("w", "q") for wanted in (0.05, 0.14, 0.5)]
    return StudyResult(rows, {"spectra": _picture(series, A, B, segment)})


def advised_step(A: np.ndarray, B: np.ndarray) -> float:
    """The largest step for RK4 with held samples that divides a second and keeps every variance within WITHIN."""
    return 1.0 / np.ceil(1.0 / largest_step(RK4, A, B, WITHIN))


def response(h: float, end: float, paths: int):
    """A run from the stationary law, and the covariance that the method delivers with its step at the end."""
    run = sd.simulate(GUST_RESPONSE.problem, RK4, t=(0.0, end), dt=h, paths=paths, seed=7, progress=False,
                      collect=Moments(at=[0.0, end]))  # fmt: skip
    return run, delivered(GUST_RESPONSE.problem, RK4, h, round(end / h)).covariance[-1]


def spectra(h: float, end: float, paths: int, segment: int):
    """The spectra of the states in runs from the stationary law."""
    collect = Spectrum(every=1, segment=segment, paths=paths)
    steps = round(end / h)
    return sd.simulate(GUST_RESPONSE.problem, RK4, t=(0.0, steps * h), dt=h, paths=paths, seed=8, progress=False,
                       collect=collect)  # fmt: skip


def _density(series, name: str, wanted: float, A: np.ndarray, B: np.ndarray, h: float) -> Row:
    """The spectral density of a state near a given frequency, over the exact one."""
    f = float(series["frequency"].sel(frequency=wanted, method="nearest"))
    k = list(series["component"].values).index(name)
    density, low, high = (
        float(series[word].sel(component=name, frequency=f)) for word in ("spectrum", "spectrum_low", "spectrum_high")
    )
    exact, delivered = (float(S[k, k].real) for S in (GUST_RESPONSE.exact["spectrum"](f), spectrum(RK4, A, B, h, f)))
    stderr = (high - low) / (2.0 * 1.96)
    remark = f"the step delivers {delivered / exact:.5f}"
    return Row(f"density of {name} at {f:.3g} Hz in the runs over the exact one", None, density / exact, stderr / exact,
               remark, **of_run(series))  # fmt: skip


def through_window(A: np.ndarray, B: np.ndarray, h: float, segment: int) -> np.ndarray:
    """The expectation of the estimated densities (segment//2 + 1, n): the autocovariances of the discrete state times
    those of Hann's window, transformed. Where a density is low beside a peak, the window brings part of the peak there.
    """
    step = system_step(RK4, A, B, h)
    now = lyapunov.discrete(step.M, step.G @ step.G.T)
    lags = np.empty((segment, len(step.R)))
    for k in range(segment):
        lags[k] = np.diagonal(step.R @ now @ step.R.T)
        now = step.M @ now
    window = scipy.signal.get_window("hann", segment)
    overlap = scipy.signal.correlate(window, window)[segment - 1 :] / np.sum(window**2)
    return h * (2.0 * np.fft.rfft(overlap[:, None] * lags, axis=0).real - lags[0])


def _picture(series, A: np.ndarray, B: np.ndarray, segment: int) -> Picture:
    figure, axes = drawing.canvas(2, 2, size=(9.0, 6.8), sharex=True)
    f, setting = series["frequency"].values[1:], of_run(series)
    exact = GUST_RESPONSE.exact["spectrum"](f)
    expected = through_window(A, B, setting["h"], segment)[1:]
    words = {"u": "forward speed u", "w": "vertical speed w", "q": "pitch rate q", "theta": "pitch angle θ"}
    for i, (ax, name) in enumerate(zip(axes.ravel(), NAMES, strict=True)):
        densities = [
            series[word].sel(component=name).values[1:] for word in ("spectrum", "spectrum_low", "spectrum_high")
        ]
        ax.fill_between(f, densities[1], densities[2], color=plot.PALETTE[0], alpha=0.3, lw=0)
        ax.loglog(f, densities[0], color=plot.PALETTE[0], lw=1.0, label="simulated")
        ax.loglog(f, expected[:, i], color=plot.PALETTE[1], lw=1.2, label="exact for the step, through the window")
        ax.loglog(f, exact[:, i, i].real, "k--", lw=1.2, label="exact for the process")
        unit = (GUST_RESPONSE.problem.component_units or {})[name]
        ax.set(title=words[name], xlabel="frequency [Hz]" if i > 1 else "", ylabel=f"density [({unit})²/Hz]")
    drawing.legend(figure, columns=3)
    caption = (
        f"Spectral densities of the airliner's motion: RK4, T = {setting['T']:g} s, h = {setting['h']:.4g} s, "
        f"{setting['paths']} paths, segments of {segment} samples, bands of 95 % confidence. At the lowest frequencies "
        "some densities are small compared with the phugoid's peak at 0.011 Hz, and Hann's window brings part of the "
        "peak there: this is what the exact density looks like through the window. At the highest, samples held over a "
        "step carry no power."
    )
    return Picture(figure, caption)


def estimate() -> float:
    began = time.perf_counter()
    response(0.1, 6.0, PATHS // 10)
    return 1000.0 * (time.perf_counter() - began)


STUDY = Study(
    "gusts",
    OWN,
    "an airliner in Dryden gusts: covariance and spectrum at an advised step",
    "The step that keeps every variance within 1 % is computed before the run; the variances and spectra of the run "
    "then agree with the computed ones.",
    run,
    estimate,
)
