"""Riggs' example (89), x' = -2x + w with noise of intensity 0.01 from x = 0, through any integrator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import stodyn as sd
from stodyn import plot
from stodyn.analysis.step.covariance import delivered
from stodyn.methods.contract import Method
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row

EXAMPLE = ORNSTEIN_UHLENBECK(rate=2.0, sigma=0.1, start=0.0)
END = 2.0
RUNS = 40_000  # Riggs made 1000; their standard error, 4.5 %, hides what is shown here
TINY, FULL = 64, 400_000


class Curve(NamedTuple):
    """The variance over time: sampled with its standard error, and exactly as the integrator delivers it."""

    time: np.ndarray
    variance: np.ndarray
    stderr: np.ndarray
    discrete: np.ndarray
    h: float
    runs: int

    @property
    def process(self) -> np.ndarray:
        """The variance of the continuous process."""
        return EXAMPLE.exact["variance"](self.time)[:, 0]


def simulated(
    method: Method, h: float, runs: int, seed: int = 1986, end: float = END, every: int | None = None
) -> Curve:
    """The example through a method with the step h."""
    steps = round(end / h)
    moments = sd.statistics.Moments(every=every or max(steps // 40, 1))
    with warnings.catch_warnings():  # of variances that are wrong by a factor: the subject
        warnings.simplefilter("ignore", sd.warnings.ResponseNotDelivered)
        run = sd.simulate(
            EXAMPLE.problem, method, t=(0.0, end), dt=h, paths=runs, seed=seed, collect=moments, progress=False
        )
    exact = delivered(EXAMPLE.problem, method, h, steps).covariance[:, 0, 0]
    times = run["time"].values
    picked = np.rint(times / h).astype(int)
    return Curve(times, run["variance"].values[:, 0], run["variance_stderr"].values[:, 0], exact[picked], h, runs)


def compared(quantity: str, curve: Curve, paper: float | str | None = None, remark: str = "") -> Row:
    """P_D/P at the end of a curve, and its distance from the exact value for the step."""
    P = curve.process[-1]
    discrete = curve.discrete[-1] / P
    off = (curve.variance[-1] - curve.discrete[-1]) / curve.stderr[-1]
    exact = f"exact for this step {discrete:.4f}, runs {off:+.1f} standard errors from it"
    return Row(quantity, paper, curve.variance[-1] / P, curve.stderr[-1] / P, "; ".join(filter(None, (exact, remark))),
               T=float(curve.time[-1]), h=curve.h, paths=curve.runs)  # fmt: skip


def variance_picture(what: str, curves: Mapping[str, Curve]) -> Picture:
    """Variance over time: the runs with two standard errors, the exact discrete variance, the process."""
    figure, ax = drawing.canvas(size=(7.2, 4.4))
    for color, (name, curve) in zip(plot.PALETTE, curves.items(), strict=False):
        ax.errorbar(curve.time, curve.variance, 2.0 * curve.stderr, fmt=".", color=color, ms=4, lw=0.8, label=name)
        ax.plot(curve.time, curve.discrete, color=color, lw=1.0)
    ax.plot([], [], color=plot.GREY, lw=1.0, label="exact for the step")
    fine = np.linspace(0.0, max(curve.time[-1] for curve in curves.values()), 201)
    ax.plot(fine, EXAMPLE.exact["variance"](fine)[:, 0], color="k", lw=1.5, ls="--", label="continuous process")
    ax.set(xlabel="time", ylabel="variance of x")
    drawing.legend(figure, columns=3)
    one = next(iter(curves.values()))
    caption = (
        f"{what}: the variance of x' = -2x + w, T = {one.time[-1]:g}, h = {one.h:g}, {one.runs} runs. Dots with bars "
        "of two standard errors: simulated; lines of the same colour: the exact variance of the integrator; dashed: "
        "the process."
    )
    return Picture(figure, caption)


def seconds(methods: Sequence[tuple[Method, float]], runs: int) -> float:
    """The estimated time of `runs` runs of these methods and steps: a tenth of them timed, after one that compiles."""
    total = 0.0
    for method, h in methods:
        simulated(method, h, runs // 10)
        began = time.perf_counter()
        simulated(method, h, runs // 10)
        total += 10.0 * (time.perf_counter() - began)
    return total
