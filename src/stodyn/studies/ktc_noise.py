"""kT/C: the stationary covariance of the nodes of an RC network is kT C⁻¹, whatever its resistors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stodyn
from stodyn import plot, statistics
from stodyn.analysis.step.linear import step_map
from stodyn.models.circuits import RC_LADDER
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN

METHOD, STEP, SETTLED = "Trapezoidal", 0.05, 20.0  # us


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths, nodes = size.of((64, 5), (40_000, 3), (1_000_000, 5))
    model = RC_LADDER(nodes=nodes)
    exact = model.exact["equilibrium"]()
    progress("covariance analysis")
    computed = step_map(model.problem, METHOD, STEP, nodes=3).stationary().covariance
    progress(f"{paths} paths")
    sampled = stodyn.simulate(model.problem, METHOD, t=(0.0, SETTLED), dt=STEP, paths=paths, seed=1, progress=False,
                              collect=statistics.Moments(at=[SETTLED]))  # fmt: skip
    variance, stderr = sampled["variance"].values[-1], sampled["variance_stderr"].values[-1]
    rows = []
    for i, name in enumerate(model.problem.components):
        rows.append(Row(f"Var {name}, V²: paths", exact[i, i], variance[i], stderr[i], "against kT C⁻¹; T and h in µs",
                        **of_run(sampled)))  # fmt: skip
        rows.append(
            Row(f"Var {name}, V²: covariance of the step", exact[i, i], computed[i, i], remark="computed", h=STEP)
        )
    return StudyResult(rows, {"ktc": picture(model.problem.components, exact, variance, stderr, paths)})


def picture(names: Any, exact: np.ndarray, variance: np.ndarray, stderr: np.ndarray, paths: int) -> Picture:
    figure, ax = drawing.canvas(size=(6.8, 3.8))
    across = np.arange(len(names))
    ax.bar(across, 1e12 * np.diagonal(exact), color=plot.SKY, alpha=0.6, label="exact: kT C⁻¹")
    ax.errorbar(across, 1e12 * variance, 2e12 * stderr, fmt="o", color=plot.BLUE, ms=4, lw=1, capsize=4, label="paths")
    ax.set(xticks=across, xticklabels=list(names), xlabel="node", ylabel="variance of the voltage [µV²]")
    drawing.legend(figure)
    caption = (
        f"Thermal noise on an RC ladder: {METHOD}, T = {SETTLED:g} µs, h = {STEP:g} µs, {paths} paths; bars of two "
        "standard errors."
    )
    return Picture(figure, caption)


STUDY = Study(
    "ktc-noise",
    OWN,
    "thermal noise on an RC ladder: kT/C (H. Nyquist, Phys. Rev. 32, 1928)",
    "The variance of the voltage at a node of an RC network is given by kT C⁻¹, whatever the resistors. Both the paths "
    "and the stationary covariance of the method's step confirm this.",
    run,
    lambda: 120.0,
)
