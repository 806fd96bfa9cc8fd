"""Riggs' Figures 11 to 14: the Adams-Bashforth integrator of order 4 on example (89), its factor and its starters."""

from __future__ import annotations

from pathlib import Path

from stodyn.analysis.step.covariance import noise_needed, steady_ratio
from stodyn.methods.multistep import AB4
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.papers import RIGGS
from stodyn.studies.riggs_example import FULL, RUNS, TINY, compared, seconds, simulated, variance_picture


def printed_share(h: float) -> float:
    """h Q_D/Q of Riggs' (71), which leaves out the factor 1 + hA + ... of (84)."""
    z = -2.0 * h
    return 1.0 / (1.0 - 6.34 * z + 18.98 * z**2 - 60.87 * z**3)


def corrected_share(h: float) -> float:
    """h Q_D/Q of Riggs' (85)."""
    z = -2.0 * h
    return (1.0 + z + 2.0 * z**2 / 3.0 + z**3 / 3.0) * printed_share(h)


IN_HISTORY = AB4(placement="history", starter="adams")
FIGURES = (("figure-11-ab4", 0.005), ("figure-12-ab4", 0.001), ("figure-14-ab4", 0.025))


def run(size: Size, out: Path, progress) -> StudyResult:
    runs = size.of(TINY, RUNS, FULL)
    rows, figures = [], {}
    for name, h in FIGURES[: size.of(1, 3, 3)]:
        progress(f"AB4, h = {h}, {runs} runs")
        curves = {
            "Q/h": simulated(IN_HISTORY, h, runs),
            "(71)": simulated(IN_HISTORY(gamma=printed_share(h)), h, runs),
            "increment outside the history": simulated(AB4, h, runs),
        }
        figures[name] = variance_picture("AB4", curves)
        for label, curve in curves.items():
            rows.append(
                compared(f"AB4, h = {h}, {label}: P_D/P at t = 2", curve, "1 (agrees)" if label == "(71)" else None)
            )
        z = -2.0 * h
        needed = float(noise_needed(IN_HISTORY, z, 1.0, 1.0).samples[0, 0])
        rows.append(
            Row(
                f"h Q_D/Q that makes the variance right, h = {h}",
                printed_share(h),
                needed,
                None,
                f"(85): {corrected_share(h):.6g}; it makes the spectrum at low frequencies wrong by the same factor",
                h=h,
            )
        )
        rows.append(
            Row(f"P_D/P with the increment outside, h = {h}", None, steady_ratio(AB4, z), None, "steady state", h=h)
        )
    progress("starters")
    starters = {
        "RK4, as Riggs": AB4(placement="history", starter="rk4", gamma=printed_share(0.005)),
        "RK4, history taken again": AB4(placement="history", starter="rk4-resampled", gamma=printed_share(0.005)),
        "Euler, AB2, AB3": IN_HISTORY(gamma=printed_share(0.005)),
        "increment outside the history": AB4,
    }
    curves = {name: simulated(method, 0.005, runs, end=0.1, every=1) for name, method in starters.items()}
    figures["figure-13-starters"] = variance_picture("The start of AB4", curves)
    for name, curve in curves.items():
        P = curve.process[4]
        rows.append(
            Row(
                f"start by {name}: P_D/P after step 4",
                "spike" if "Riggs" in name else None,
                curve.variance[4] / P,
                curve.stderr[4] / P,
                f"exact for this step {curve.discrete[4] / P:.3f}",
                T=4 * curve.h,
                h=curve.h,
                paths=curve.runs,
            )
        )
    return StudyResult(rows, figures)


def estimate() -> float:
    return 3.0 * seconds([(AB4, h) for _, h in FIGURES], FULL)


STUDY = Study(
    "riggs-adams-bashforth",
    RIGGS,
    "Figs 11-14: Adams-Bashforth and its starters",
    "An Adams-Bashforth method that keeps noise in its history needs smaller samples. Riggs' (71) makes the variance "
    "nearly right at h = 0.005 and 5 % too large at h = 0.025; (85) is nearer. Both spoil the spectrum at low "
    "frequencies by the same factor. The spike of Fig. 13 comes from Runge-Kutta starters whose noise does not match; "
    "with the increment outside the history there is no factor, no spike and no problem with starters.",
    run,
    estimate,
)
