"""Likelihoods of records that are printed or known in closed form: the Nile, OU, CIR and a double well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

import stodyn
from stodyn import plot
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import OWN

# The flow of the Nile at Aswan, 1871 to 1970, in 1e8 m³ a year
NILE = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], float)  # fmt: skip
READING = Sensor("y", of="x", noise=stodyn.per_sample("r"))
K = np.arange(1, 26)
TIMES, VALUES = 0.2 * K + 0.05 * np.sin(K), np.sin(1.3 * K) + 0.5 * np.cos(0.7 * K**2)
VARIANCE = 0.49  # of the double well's noise, and places beyond whose ends its law has less than 1e-15:
WELL = np.linspace(-3.2, 3.2, 257)


def nile() -> list[Row]:
    """The local level model at the variances of J. Durbin & S. J. Koopman: unknown start, and starts of wide priors."""
    level = SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1469.1**0.5, "r": 15099.0**0.5})
    years = 1871.0 + np.arange(len(NILE))
    exact = stodyn.filtered(level, data=(years, NILE), sensors=READING, t0=1871.0, initial="diffuse")
    rows = [Row("Nile: log L, the first level unknown", "-632.5376 or -632.5377", float(exact.loglik),
                remark="the printed value is the next one")]  # fmt: skip
    for variance, printed in ((1e6, -632.5376), (1e7, None)):
        vague = level.changed(start=scipy.stats.norm(0.0, variance**0.5))
        whole, first = (float(stodyn.filtered(vague, data=(years[:n], NILE[:n]), sensors=READING, t0=1871.0).loglik)
                        for n in (len(NILE), 1))  # fmt: skip
        words = f"Nile: log L, a prior of variance {variance:g}, the first reading not counted"
        rows.append(Row(words, printed, whole - first, remark="no limit of an unknown level: the prior shows"))
    return rows


def ornstein_uhlenbeck() -> Row:
    """Against the dense joint normal law of all readings."""
    a, mu, s, r = 0.8, 0.5, 1.1, 0.3
    problem = SDE(lambda t, x, p: -p["a"] * (x - p["mu"]), lambda t, x, p: p["s"], 0.0,
                  params={"a": a, "mu": mu, "s": s, "r": r})  # fmt: skip
    lags = np.abs(TIMES - TIMES[:, None])
    joint = scipy.stats.multivariate_normal(np.full(25, mu), s**2 / (2 * a) * np.exp(-a * lags) + r**2 * np.eye(25))
    ours = stodyn.likelihood(problem, data=(TIMES, VALUES), sensors=READING, initial="stationary")()
    return Row(
        "Ornstein-Uhlenbeck, irregular times: log L", float(joint.logpdf(VALUES)), ours, remark="dense normal law"
    )


def cox_ingersoll_ross() -> Row:
    """Read without noise, against noncentral χ² laws of the transitions."""
    rate, level, s = 0.9, 1.2, 0.5
    x = level * (1.0 + 0.4 * np.sin(1.3 * K) + 0.2 * np.cos(0.7 * K**2))
    problem = SDE(lambda t, x, p: p["rate"] * (p["level"] - x), lambda t, x, p: p["s"] * jnp.sqrt(x), level,
                  params={"rate": rate, "level": level, "s": s})  # fmt: skip
    decay = np.exp(-rate * np.diff(TIMES))
    c = 2 * rate / (s**2 * (1.0 - decay))
    laws = scipy.stats.ncx2(4 * rate * level / s**2, 2 * c * decay * x[:-1], scale=0.5 / c)
    ours = stodyn.likelihood(problem, data=(TIMES, x), sensors=Sensor("y", of="x"), initial="diffuse")()
    return Row("Cox-Ingersoll-Ross, given the first reading: log L", float(laws.logpdf(x[1:]).sum()), ours,
               remark="noncentral χ² laws")  # fmt: skip


def well_record() -> tuple[np.ndarray, np.ndarray]:
    """Readings that change from one well to the other between times 8 and 9."""
    k = np.arange(1, 21)
    return k.astype(float), np.where(k <= 8, -1.0 + 0.3 * np.sin(1.3 * k), 1.0 + 0.3 * np.cos(0.7 * k**2))


def double_well() -> SDE:
    return SDE(lambda t, x: x - x**3, lambda t, x: VARIANCE**0.5 + 0.0 * x, -1.0, params={"r": 0.5})


def by_sinc(r: float) -> float:
    """The exact log L from reading to reading by sinc functions, of the law over the root of the stationary one: its
    equation, ψ' = σ²/2 ψ'' - (f²/σ² + f')/2 ψ, is symmetric."""
    x, h = WELL, WELL[1] - WELL[0]
    n = np.subtract.outer(np.arange(len(x)), np.arange(len(x)))
    second = np.where(n == 0, -(np.pi**2) / 3.0, -2.0 * (-1.0) ** n / np.maximum(n**2, 1)) / h**2
    drift, slope = x - x**3, 1.0 - 3.0 * x**2
    step = scipy.linalg.expm(0.5 * VARIANCE * second - np.diag(0.5 * (drift**2 / VARIANCE + slope)))
    root = np.exp((0.5 * x**2 - 0.25 * x**4) / VARIANCE)
    begun = int(np.argmin(np.abs(x + 1.0)))
    law = root * step[:, begun] / (h * root[begun])
    total = 0.0
    for y in well_record()[1]:
        law = law * np.exp(-0.5 * ((y - x) / r) ** 2) / (np.sqrt(2 * np.pi) * r)
        total += np.log(h * law.sum())
        law = root * (step @ (law / (h * law.sum() * root)))
    return float(total)


def wells(noises: tuple[float, ...]) -> tuple[list[Row], dict[str, list[float]]]:
    """Filters that take the law for a normal one, and the grid that contradicts them."""
    rows: list[Row] = []
    curves: dict[str, list[float]] = {"exact": [], "ekf": [], "statistical": []}
    for r in noises:
        curves["exact"].append(by_sinc(r))
        for by in ("ekf", "statistical"):
            result: Any = stodyn.likelihood(double_well(), data=well_record(), sensors=READING, by=by, dt=0.01,
                                            params={"r": r})()  # fmt: skip
            curves[by].append(result)
            rows.append(Row(f"double well, r = {r:g}: log L by {by}", curves["exact"][-1], result,
                            remark="sinc functions; the filter takes the law for a normal one", h=0.01))  # fmt: skip
    return rows, curves


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    noises = size.of((0.5,), (1.0, 0.5, 0.2), (1.0, 0.7, 0.5, 0.3, 0.2))
    progress("exact likelihoods")
    rows = [*nile(), ornstein_uhlenbeck(), cox_ingersoll_ross()]
    progress("the double well")
    more, curves = wells(noises)
    return StudyResult([*rows, *more], {"wells": picture(noises, curves)})


def picture(noises: tuple[float, ...], curves: dict[str, list[float]]) -> Picture:
    figure, ax = drawing.canvas(size=(6.8, 3.8))
    for (word, values), colour in zip(curves.items(), ("k", plot.BLUE, plot.SKY), strict=True):
        ax.plot(noises, values, "o-", color=colour, ms=4, label=word)
    ax.set(xscale="log", xlabel="noise of a reading", ylabel="log L")
    drawing.legend(figure)
    return Picture(
        figure,
        "A record with one change from well to well: with precise readings normal filters agree, and are wrong by ten.",
    )


STUDY = Study(
    "exact-likelihoods",
    OWN,
    "likelihoods of records: the Nile, OU, CIR and a double well (J. Durbin & S. J. Koopman, Time Series Analysis by "
    "State Space Methods, 2012; J. C. Cox, J. E. Ingersoll & S. A. Ross, Econometrica 53, 1985)",
    "The log-likelihood that texts print for the Nile's local level, -632.5376, is that of a prior of variance 10⁶ "
    "whose first reading is not counted; with a level that is really unknown it is -632.5456. Linear problems and CIR "
    "are exact to rounding. In a double well two filters that take the law for a normal one agree within one where "
    "readings are precise, and are both wrong there by ten.",
    run,
    lambda: 60.0,
)
