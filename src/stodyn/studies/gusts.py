"""An airliner in Dryden gusts: its response by runs at an advised step, against the exact covariance and spectrum."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import stodyn as sd
from stodyn import plot
from stodyn.analysis.covariance import advise, delivered, largest_step, steady
from stodyn.methods.classical import RK4
from stodyn.models.gust_response import GUST_RESPONSE
from stodyn.statistics import Moments, Spectrum
from stodyn.studies.contract import Row, Study, StudyResult

WITHIN = 0.01  # of the variances, for which a step is advised
PATHS, END, FULL_END = 100_000, 60.0, 600.0
NAMES = ("u", "w", "q", "theta")


def run(full: bool, out: Path, progress) -> StudyResult:
    A, B = GUST_RESPONSE.exact["system"]()
    exact = GUST_RESPONSE.exact["stationary_covariance"]()
    progress("advice")
    h = advised_step(A, B)
    largest = largest_step(RK4, A, B, WITHIN)
    rows = [
        Row(f"largest step with every variance within {WITHIN:.0%}, RK4 held [s]", None, largest, None, f"taken: {h:g}")
    ]
    rows += [Row(f"error at this step: {line.name} [%]", None, line.worst, None, "the worst variance")
             for line in advise(A, B, None, h)[:6]]  # fmt: skip
    at_step = np.diagonal(steady(RK4, A, B, h)) / np.diagonal(exact)
    rows += [Row(f"delivered/exact variance of {name}, in the long run", None, ratio)
             for name, ratio in zip(NAMES, at_step, strict=False)]  # fmt: skip
    end = FULL_END if full else END
    progress(f"{PATHS} paths over {end:g} s")
    flown, expected = response(h, end, PATHS)
    for i, name in enumerate(NAMES):
        P = exact[i, i]
        variance, stderr = (float(flown[word].sel(component=name)[-1]) for word in ("variance", "variance_stderr"))
        rows.append(Row(f"variance of {name} in the runs over the exact one", None, variance / P, stderr / P,
                        f"the step delivers {expected[i, i] / P:.5f}"))  # fmt: skip
    progress("spectra")
    series = sd.simulate(GUST_RESPONSE.problem, RK4, t=(0.0, 400.0), dt=h, paths=512, seed=8, progress=False,
                         collect=Spectrum(every=1, segment=512, paths=512))  # fmt: skip
    return StudyResult(rows, {"spectra": _drawn(series)})


def advised_step(A: np.ndarray, B: np.ndarray) -> float:
    """The largest step for RK4 with held samples that divides a second and keeps every variance within WITHIN."""
    return 1.0 / np.ceil(1.0 / largest_step(RK4, A, B, WITHIN))


def response(h: float, end: float, paths: int):
    """A run from the stationary law, and the covariance that its step delivers at the end."""
    run = sd.simulate(GUST_RESPONSE.problem, RK4, t=(0.0, end), dt=h, paths=paths, seed=7, progress=False,
                      collect=Moments(at=[0.0, end]))  # fmt: skip
    return run, delivered(RK4, GUST_RESPONSE.problem, h, round(end / h)).covariance[-1]


def _drawn(series):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    f = series["frequency"].values[1:]
    exact = GUST_RESPONSE.exact["spectrum"](f)
    for i, (ax, name) in enumerate(zip(figure.subplots(2, 2, sharex=True).ravel(), NAMES, strict=True)):
        found = [series[word].sel(component=name).values[1:] for word in ("spectrum", "spectrum_low", "spectrum_high")]
        ax.fill_between(f, found[1], found[2], color=plot.PALETTE[0], alpha=0.3, lw=0)
        ax.loglog(f, found[0], color=plot.PALETTE[0], lw=1.0, label="runs")
        ax.loglog(f, exact[:, i, i].real, "k--", lw=1.0, label="exact")
        ax.set(title=name, xlabel="frequency [1/s]" if i > 1 else "")
    ax.legend(frameon=False)
    return figure


def estimate() -> float:
    began = time.perf_counter()
    response(0.1, 6.0, PATHS // 10)
    return 1000.0 * (time.perf_counter() - began)


STUDY = Study(
    "gusts", "An airliner in Dryden gusts: response covariance and spectrum at an advised step", run, estimate
)
