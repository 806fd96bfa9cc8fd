"""Riggs' Figure 1 made quantitative: the effect of noise of finite bandwidth in place of white noise."""

from __future__ import annotations

import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import plot
from stodyn.analysis.step.linear import coefficients
from stodyn.noise.coloured import Coloured, gauss_markov, through
from stodyn.numerics import lyapunov
from stodyn.problems.excitation import with_noise
from stodyn.problems.sde import SDE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import RIGGS

POLE = 2.0  # the pole of the system x' = -2 x + noise: its bandwidth in rad per unit of time
RATIOS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FILTER_ORDER = 8


def run(size: Size, out: Path, progress) -> StudyResult:
    paths = size.of(64, 100_000, 400_000)
    rows, figures = [], {"figure-1-bandwidths": _picture()}
    progress("exact variances")
    for ratio in RATIOS:
        rows.append(Row(f"first-order noise, bandwidths 1 : {ratio:g}, error of the variance [%]", None,
                        100 * first_order_error(ratio), None, "-1/(1 + ratio) exactly"))  # fmt: skip
    for ratio in RATIOS:
        filtered = f"{100 * variance_error(flat(ratio)):.4g} through a Butterworth filter of order {FILTER_ORDER}"
        rows.append(Row(f"flat noise cut off at 1 : {ratio:g} [%]", None, 100 * cut_off_error(ratio), None, filtered))
    for needed, law in ((0.01, "first-order noise"), (0.01, "cut-off noise")):
        ratio = 1.0 / needed - 1.0 if "first" in law else 1.0 / math.tan(needed * math.pi / 2.0)
        rows.append(Row(f"ratio of bandwidths for 1 % with {law}", "much greater", ratio, None,
                        "oversampling is a choice of the error, not a rule"))  # fmt: skip
    for ratio in (3.0, 30.0):
        progress(f"runs at 1 : {ratio:g}, {paths} paths")
        noise = first_order(ratio)
        result = sd.simulate(driven(noise), "VanLoan", t=(0.0, 3.0), dt=0.5, paths=paths, seed=1, progress=False,
                          collect=sd.statistics.Moments(at=[3.0]))  # fmt: skip
        exact = 1.0 / (2.0 * POLE)
        error, stderr = (float(result[name][0, 0]) / exact for name in ("variance", "variance_stderr"))
        rows.append(Row(f"runs with first-order noise, 1 : {ratio:g}, error [%]", None, 100 * (error - 1), 100 * stderr,
                        f"exact {100 * first_order_error(ratio):.4g}", **of_run(result)))  # fmt: skip
    return StudyResult(rows, figures)


def first_order(ratio: float) -> Coloured:
    """Noise of the bandwidth ratio · POLE with the density 1 of white noise at low frequencies."""
    bandwidth = ratio * POLE
    return gauss_markov(math.sqrt(0.5 * bandwidth), 1.0 / bandwidth)


def flat(ratio: float) -> Coloured:
    """Noise of the same density and bandwidth, flat up to its cut-off: a Butterworth filter."""
    angles = np.pi * (2 * np.arange(1, FILTER_ORDER + 1) + FILTER_ORDER - 1) / (2 * FILTER_ORDER)
    poles = ratio * POLE * np.exp(1j * angles)
    return through(([], poles, (ratio * POLE) ** FILTER_ORDER))


def driven(noise: Coloured) -> SDE:
    """x' = -POLE x + noise."""
    return with_noise(SDE(lambda t, x: -POLE * x, lambda t, x: jnp.zeros((1, 1)), [0.0], names=("x",)), noise, "x")


def variance_error(noise: Coloured) -> float:
    """The relative error of the stationary variance against white noise, from the Lyapunov equation."""
    linear = coefficients(driven(noise))
    P = lyapunov.continuous(linear.A, linear.b.T @ linear.b)
    return float(2.0 * POLE * P[0, 0] - 1.0)


def first_order_error(ratio: float) -> float:
    """-1/(1 + ratio): Var x = (1/2a) b/(a + b) for noise of the bandwidth b through a pole a."""
    return -1.0 / (1.0 + ratio)


def cut_off_error(ratio: float) -> float:
    """(2/π) arctan(ratio) - 1, for noise of density 1 up to ratio · a and none beyond."""
    return 2.0 / math.pi * math.atan(ratio) - 1.0


def _picture() -> Picture:
    figure, (above, below) = drawing.canvas(2, size=(7.6, 6.0))
    ω = np.geomspace(0.05, 2000.0, 400) * POLE
    above.loglog(ω / POLE, 1.0 / (1.0 + (ω / POLE) ** 2), color="k", label="system, squared gain")
    for color, ratio in zip(plot.PALETTE, (3.0, 30.0, 300.0), strict=False):
        density = first_order(ratio).spectrum(ω / (2.0 * np.pi))[:, 0, 0].real
        above.loglog(ω / POLE, density, color=color, label=f"noise, 1 : {ratio:g}")
    above.set(xlabel="frequency over the system's bandwidth", ylabel="relative density", ylim=(1e-6, 3.0))
    drawing.legend_beside(above)
    ratios = np.geomspace(0.3, 1000.0, 200)
    below.loglog(ratios, [-first_order_error(r) for r in ratios], color=plot.PALETTE[0], label="first-order noise")
    below.loglog(ratios, [-cut_off_error(r) for r in ratios], color=plot.PALETTE[1], label="cut-off noise")
    below.set(xlabel="ratio of the bandwidths, noise : system", ylabel="share of the variance missing")
    drawing.legend_beside(below)
    caption = (
        "Above: the squared gain of x' = -2x + noise, and the spectra of noise whose bandwidth is 3, 30 and 300 times "
        "as large. Below: the share of the stationary variance that noise of finite bandwidth misses, exact."
    )
    return Picture(figure, caption)


STUDY = Study(
    "riggs-bandwidth",
    RIGGS,
    "Fig. 1 in numbers: how wide is wide enough?",
    'Riggs asks for a bandwidth of the noise "much greater" than the system\'s. In numbers: the variance is too '
    "small by 1/(1 + ratio) for first-order noise and by 1 - (2/π) arctan(ratio) for noise with a sharp cut-off, so "
    "that 1 % takes a ratio of 99, or 64.",
    run,
    lambda: 5.0,
)
