"""kT/C: the stationary covariance of the nodes of an RC network is kT C⁻¹, whatever its resistors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stodyn
from stodyn import plot, statistics
from stodyn.analysis.linear import step_map
from stodyn.models.circuits import RC_LADDER
from stodyn.studies.contract import Row, Size, Study, StudyResult

METHOD, STEP, SETTLED = "Trapezoidal", 0.05, 20.0  # us


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths, nodes = size.of((64, 2), (40_000, 3), (1_000_000, 5))
    model = RC_LADDER(nodes=nodes)
    exact = model.exact["equilibrium"]()
    progress("covariance analysis")
    computed = step_map(model.problem, METHOD, STEP, nodes=3).stationary().covariance
    progress(f"{paths} paths")
    sampled = stodyn.simulate(model.problem, METHOD, t=(0.0, SETTLED), dt=STEP, paths=paths, seed=1, progress=False,
                              collect=statistics.Moments(at=[SETTLED]))  # fmt: skip
    found, stderr = sampled["variance"].values[-1], sampled["variance_stderr"].values[-1]
    rows = []
    for i, name in enumerate(model.problem.components):
        rows.append(Row(f"Var {name}, V²: paths", exact[i, i], found[i], stderr[i], "against kT C⁻¹"))
        rows.append(Row(f"Var {name}, V²: covariance of the step", exact[i, i], computed[i, i], remark="computed"))
    return StudyResult(rows, {"ktc": drawn(model.problem.components, exact, found, stderr)})


def drawn(names: Any, exact: np.ndarray, found: np.ndarray, stderr: np.ndarray) -> Any:
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    across = np.arange(len(names))
    ax.bar(across, 1e12 * np.diagonal(exact), color=plot.SKY, alpha=0.6, label="kT C⁻¹")
    ax.errorbar(across, 1e12 * found, 2e12 * stderr, fmt="o", color=plot.BLUE, ms=4, lw=1, label="paths")
    ax.set(xticks=across, xticklabels=list(names), ylabel="variance, µV²")
    ax.legend(frameon=False, fontsize="small")
    return figure


STUDY = Study(
    "ktc-noise",
    "Thermal noise on an RC ladder: kT/C from paths and from covariance analysis (H. Nyquist, Phys. Rev. 32 (1928))",
    run,
    lambda: 120.0,
)
