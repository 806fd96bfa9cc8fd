"""Riggs' Table 2 and Figures 5 to 10: Monte Carlo runs of example (89) through Runge-Kutta methods."""

from __future__ import annotations

from pathlib import Path

from stodyn.methods import classical as c
from stodyn.studies.contract import Size, Study, StudyResult
from stodyn.studies.papers import RIGGS
from stodyn.studies.riggs_example import FULL, RUNS, TINY, compared, seconds, simulated, variance_picture

FIGURES = (
    ("figure-5-euler", c.Euler, 0.005),
    ("figure-6-rk2", c.RK2(noise="fresh"), 0.005),
    ("figure-7-rk4", c.RK4(noise="fresh"), 0.005),
    ("figure-8-rk4", c.RK4(noise="fresh"), 0.1),
    ("figure-9-gill", c.Gill(noise="fresh"), 0.05),
    ("figure-10-rk56", c.RK56Butcher(noise="fresh"), 0.05),
)


def run(size: Size, out: Path, progress) -> StudyResult:
    runs = size.of(TINY, RUNS, FULL)
    rows, figures = [], {}
    for name, method, h in FIGURES[: size.of(2, 6, 6)]:
        progress(f"{method.name}, h = {h}, {runs} runs")
        curve = simulated(method, h, runs)
        curves = {f"{method.name}, {float(method.Gamma):.3g} Q/h": curve}
        rows.append(compared(f"{method.name}, h = {h}: P_D/P at t = 2", curve, "1 (agrees)"))
        if method.Gamma != 1:
            naive = simulated(method(gamma=1.0), h, runs)
            curves[f"{method.name}, Q/h"] = naive
            away = (naive.process[-1] - naive.variance[-1]) / naive.stderr[-1]
            rows.append(compared(f"{method.name}, h = {h}, with Q/h", naive, None, f"{away:.0f} from the process"))
        figures[name] = variance_picture(method.name, curves)
    held = simulated(c.RK4, 0.1, runs)
    rows.append(compared("RK4 held, h = 0.1: P_D/P at t = 2", held, None, "no factor needed"))
    return StudyResult(rows, figures)


def estimate() -> float:
    return 2.0 * seconds([(method, h) for _, method, h in FIGURES], FULL)


STUDY = Study(
    "riggs-runge-kutta",
    RIGGS,
    "Table 2, Figs 5-10: Runge-Kutta methods",
    "With samples of variance Γ Q/h, one for each stage, the variance is right, as Riggs says; with Q/h, the common "
    "rule, it is too small by the factor Γ. Samples held over the step need no factor at all.",
    run,
    estimate,
)
