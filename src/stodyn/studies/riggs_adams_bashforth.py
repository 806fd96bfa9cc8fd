"""Riggs' Figures 11 to 14: the Adams-Bashforth integrator of order 4 on example (89), its factor and its starters."""

from __future__ import annotations

from pathlib import Path

from stodyn.analysis.covariance import noise_needed, steady_ratio
from stodyn.methods.multistep import AB4
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.riggs_example import FULL, RUNS, SOURCE, TINY, compared, drawn, seconds, simulated


def by_71(h: float) -> float:
    """h Q_D/Q of Riggs' (71), which leaves out the factor 1 + hA + ... of (84)."""
    z = -2.0 * h
    return 1.0 / (1.0 - 6.34 * z + 18.98 * z**2 - 60.87 * z**3)


def by_85(h: float) -> float:
    """h Q_D/Q of Riggs' (85)."""
    z = -2.0 * h
    return (1.0 + z + 2.0 * z**2 / 3.0 + z**3 / 3.0) * by_71(h)


IN_HISTORY = AB4(placement="history", starter="adams")
FIGURES = (("figure-11-ab4", 0.005), ("figure-12-ab4", 0.001), ("figure-14-ab4", 0.025))


def run(size: Size, out: Path, progress) -> StudyResult:
    runs = size.of(TINY, RUNS, FULL)
    rows, figures = [], {}
    for name, h in FIGURES[: size.of(1, 3, 3)]:
        progress(f"AB4, h = {h}, {runs} runs")
        curves = {
            "Q/h": simulated(IN_HISTORY, h, runs),
            "(71)": simulated(IN_HISTORY(gamma=by_71(h)), h, runs),
            "increment outside the history": simulated(AB4, h, runs),
        }
        figures[name] = drawn(f"AB4, h = {h}", curves)
        for label, curve in curves.items():
            rows.append(
                compared(f"AB4, h = {h}, {label}: P_D/P at t = 2", curve, "1 (agrees)" if label == "(71)" else None)
            )
        z = -2.0 * h
        needed = float(noise_needed(IN_HISTORY, z, 1.0, 1.0).samples[0, 0])
        rows.append(
            Row(
                f"h Q_D/Q that makes the variance right, h = {h}",
                by_71(h),
                needed,
                None,
                f"(85): {by_85(h):.6g}; it makes the spectrum at low frequencies wrong by the same factor",
            )
        )
        rows.append(Row(f"P_D/P with the increment outside, h = {h}", None, steady_ratio(AB4, z), None, "steady state"))
    progress("starters")
    starters = {
        "RK4, as Riggs": AB4(placement="history", starter="rk4", gamma=by_71(0.005)),
        "RK4, history taken again": AB4(placement="history", starter="rk4-resampled", gamma=by_71(0.005)),
        "Euler, AB2, AB3": IN_HISTORY(gamma=by_71(0.005)),
        "increment outside the history": AB4,
    }
    curves = {name: simulated(method, 0.005, runs, end=0.1, every=1) for name, method in starters.items()}
    figures["figure-13-starters"] = drawn("AB4, h = 0.005: the start", curves, legend="upper right")
    for name, curve in curves.items():
        P = curve.process[4]
        rows.append(
            Row(
                f"start by {name}: P_D/P after step 4",
                "spike" if "Riggs" in name else None,
                curve.variance[4] / P,
                curve.stderr[4] / P,
                f"exact for this step {curve.discrete[4] / P:.3f}",
            )
        )
    return StudyResult(rows, figures)


def estimate() -> float:
    return 3.0 * seconds([(AB4, h) for _, h in FIGURES], FULL)


STUDY = Study("riggs-adams-bashforth", f"{SOURCE}: Figs 11-14, the starters", run, estimate)
