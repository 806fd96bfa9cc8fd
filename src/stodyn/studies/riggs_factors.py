"""Riggs' Table 1 and Figures 2 to 4: the factor Γ and the error function V(z) of each integrator."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np

from stodyn.analysis.step.covariance import error_function, gamma, steady_ratio
from stodyn.methods import classical as c
from stodyn.methods.multistep import AB4
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import RIGGS

HISTORY = AB4(placement="history", starter="adams")
TABLE_1 = (
    ("RK2", c.RK2, 2.0),
    ("RK3", c.RK3, 2.0),
    ("RK4", c.RK4, 3.6),
    ("Gill", c.Gill, 2.57),
    ("RK(5,6)", c.RK56Butcher, 3.54),
)
OTHERS = (c.ExplicitMidpoint, c.Ralston, c.Heun3, c.SSP3, c.KuttaNystrom, c.RKF45, c.DOPRI5)


def run(size: Size, out: Path, progress) -> StudyResult:
    progress("factors from the tables and from the steps")
    rows = []
    for name, table, paper in TABLE_1[: size.of(2, 5, 5)]:
        fresh = table(noise="fresh")
        same = abs(gamma(fresh) / float(fresh.Gamma) - 1)
        rows.append(
            Row(
                f"Γ of {name}",
                paper,
                float(fresh.Gamma),
                None,
                f"{fresh.Gamma} exactly; shipped step: off by {same:.0e}",
            )
        )
    for table in OTHERS[: size.of(1, 7, 7)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", c.CovarianceError)
            fresh = table(noise="fresh")
        off = 100 * (steady_ratio(fresh, -0.05) - 1)
        rows.append(
            Row(
                f"c1 of {table.name}",
                None,
                float(fresh.c1),
                None,
                f"not 1: an error of order h that (57) misses, {off:+.2g} % at hA = -0.05",
            )
        )
    rows += claims()
    progress("error functions")
    return StudyResult(rows, figures(size.of(3, 40, 40)))


def claims() -> list[Row]:
    """The statements in the text about its figures, in numbers."""
    one_step = 100 * error_function(c.Euler, -0.2) / math.expm1(-0.4)
    return [
        Row(
            "Euler, hA = -0.2, one step [%]",
            "less than 10",
            one_step,
            None,
            "V is not a relative error: divide by exp(2hA) - 1",
        ),
        Row("Euler, hA = -0.2, steady state [%]", "less than 10", 100 * (steady_ratio(c.Euler, -0.2) - 1)),
        Row("AB4 with Q/h, hA = -0.1 [%]", "order of 100", 100 * (steady_ratio(HISTORY, -0.1) - 1)),
        Row(
            "AB4 with Q/h, hA = -0.2 [%]",
            "order of 100",
            100 * (steady_ratio(HISTORY, -0.2) - 1),
            None,
            "unstable beyond -0.3",
        ),
        Row(
            "RK2 steady state, hA = -0.2 [%]",
            "larger than RK4's",
            100 * (steady_ratio(c.RK2(noise="fresh"), -0.2) - 1),
            None,
            "two errors of RK2 cancel in the steady state",
        ),
        Row("RK4 steady state, hA = -0.2 [%]", None, 100 * (steady_ratio(c.RK4(noise="fresh"), -0.2) - 1)),
    ]


def truncated_series(z: float) -> float:
    """f of AB4 as Riggs' (83) truncates it."""
    return 1 - 6.34 * z + 18.98 * z**2 - 60.87 * z**3


def figures(points: int) -> dict[str, Picture]:
    z = -np.linspace(0.002, 0.2, points)
    curves = {
        "figure-2-euler": {"Euler": [error_function(c.Euler, s) for s in z]},
        "figure-3-runge-kutta": {t.name: [error_function(t(noise="fresh"), s) for s in z] for t in (c.RK2, c.RK4)},
        "figure-4-adams-bashforth": {
            "AB4 with Q/h, exact": [(steady_ratio(HISTORY, s) - 1) * math.expm1(2 * s) for s in z],
            "AB4 with Q/h, Riggs' (83)": [2 * s * truncated_series(s) - math.expm1(2 * s) for s in z],
            "AB4 with (71), as Riggs (f = 1)": [2 * s - math.expm1(2 * s) for s in z],
        },
    }
    pictures = {}
    for name, lines in curves.items():
        figure, ax = drawing.canvas(size=(6.8, 4.2))
        for style, (label, values) in zip(drawing.styles(), lines.items(), strict=False):
            ax.plot(-z, values, **style, label=label)
        ax.axhline(0.0, color="k", lw=0.8)
        ax.set(xlabel="step times rate, |hA|", ylabel="error function V(hA)")
        drawing.legend(figure, columns=2)
        caption = (
            "V(hA), the error of the variance that a step adds, in units of Q/(2|A|), computed: zero is exact. It is "
            "not a relative error, which is V/(exp(2hA) - 1)."
        )
        pictures[name] = Picture(figure, caption)
    return pictures


STUDY = Study(
    "riggs-factors",
    RIGGS,
    "Table 1, Figs 2-4: the factors Γ and the error functions",
    "The factors of Table 1 are right. V(hA) is not a relative error, so the percentages read off Figs 2 to 4 are not "
    "those of a variance: the table gives these for one step and for the steady state. Methods whose c1 is not 1 have "
    "an error of first order in h that (57) does not account for.",
    run,
    lambda: 20.0,
)
