"""Küpper, Kværnø & Rößler, Fig. 6: mean-square errors of stiffly accurate Runge-Kutta methods on a nonlinear SDAE."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stodyn.analysis.order import strong_order
from stodyn.methods import stiff
from stodyn.models.differential_algebraic import NONCOMMUTING_DAE, NONLINEAR_DAE
from stodyn.plot import PALETTE
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.sdae_linear import convergence


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    found = convergence(NONLINEAR_DAE, "Fig. 6", size, progress)
    progress("two channels, with areas and without")
    studies = areas(size.of(50, 400, 2000), size.of(1, 3, 3))
    rows = [
        Row(f"two channels that do not commute: {name}, order", None, study.attrs["order"], study.attrs["order_stderr"],
            f"in [{study.attrs['order_low']:.2f}, {study.attrs['order_high']:.2f}], extension of the paper")
        for name, study in studies.items()
    ]  # fmt: skip
    return StudyResult([*found.rows, *rows], {**found.figures, "areas": drawn(studies)})


def areas(paths: int, last: int) -> dict[str, Any]:
    """Strong errors on a nonlinear SDAE with two channels that do not commute: RK1W2M with W_j W_k/2 in place of
    I_(j,k), with I_(j,k), and implicit Euler, all on the same paths; or the last of these."""
    problem = NONCOMMUTING_DAE.problem
    taken_as_commuting = dataclasses.replace(problem, structure="commutative")
    cases = {
        "ImplicitEuler": (stiff.ImplicitEuler, problem),
        "RK1W2M without areas": (stiff.RK1W2M, taken_as_commuting),
        "RK1W2M with areas": (stiff.RK1W2MLevy, problem),
    }
    return {
        name: strong_order(given, method, steps=(4, 8, 16, 32, 64, 128), paths=paths, seed=11, refine=8,
                           reference=stiff.StiffMilsteinLevy)
        for name, (method, given) in list(cases.items())[-last:]
    }  # fmt: skip


def drawn(studies: Mapping[str, Any]) -> Any:
    """Errors against step sizes: without areas a method of order 1 is no better than implicit Euler."""
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
    for color, (name, study) in zip(PALETTE, studies.items(), strict=False):
        error, step = study["error"].values, study["step"].values
        label = f"{name}: order {study.attrs['order']:.2f}"
        ax.errorbar(step, error, 2.0 * study["error_stderr"].values, fmt="o-", ms=3, lw=1, color=color, label=label)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set(xlabel="step size h", ylabel="mean-square error", title=NONCOMMUTING_DAE.name)
    ax.legend(frameon=False, fontsize="small")
    return figure


STUDY = Study(
    "sdae-nonlinear",
    "Küpper, Kværnø & Rößler (2012), Fig. 6: errors on a nonlinear SDAE of index 1; what areas are for",
    run,
    lambda: 150.0,
)
