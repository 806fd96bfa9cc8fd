"""Küpper, Kværnø & Rößler, Fig. 6: rms errors of stiffly accurate Runge-Kutta methods on a nonlinear SDAE."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stodyn.analysis.step.order import strong_order
from stodyn.methods import stiff
from stodyn.models.differential_algebraic import NONCOMMUTING_DAE, NONLINEAR_DAE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KUPPER
from stodyn.studies.sdae_linear import convergence

STEPS = (4, 8, 16, 32, 64, 128)


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    result = convergence(NONLINEAR_DAE, "The nonlinear SDAE of index 1 (example 2)", "Fig. 6", size, progress)
    progress("two channels, with areas and without")
    paths = size.of(50, 400, 2000)
    studies = areas(paths, size.of(1, 3, 3))
    rows = [
        Row(f"two channels that do not commute: {name}, order", None, study.attrs["order"], study.attrs["order_stderr"],
            f"in [{study.attrs['order_low']:.2f}, {study.attrs['order_high']:.2f}], extension of the paper",
            float(study["step"].max()) * STEPS[0], f"1/{STEPS[0]} to 1/{STEPS[-1]} of T", paths)
        for name, study in studies.items()
    ]  # fmt: skip
    return StudyResult([*result.rows, *rows], {**result.figures, "areas": picture(studies, paths)})


def areas(paths: int, last: int) -> dict[str, Any]:
    """Strong errors on a nonlinear SDAE with two channels that do not commute: RK1W2M with W_j W_k/2 in place of
    I_(j,k), with I_(j,k), and implicit Euler, all on the same paths; or the last of these."""
    problem = NONCOMMUTING_DAE.problem
    taken_as_commuting = dataclasses.replace(problem, structure="without areas")
    cases = {
        "ImplicitEuler": (stiff.ImplicitEuler, problem),
        "RK1W2M without areas": (stiff.RK1W2M, taken_as_commuting),
        "RK1W2M with areas": (stiff.RK1W2MLevy, problem),
    }
    return {
        name: strong_order(system, method, steps=STEPS, paths=paths, seed=11, refine=8,
                           reference=stiff.StiffMilsteinLevy)
        for name, (method, system) in list(cases.items())[-last:]
    }  # fmt: skip


def picture(studies: Mapping[str, Any], paths: int) -> Picture:
    """Errors against step sizes: without areas a method of order 1 falls to order 1/2, that of implicit Euler."""
    figure, ax = drawing.canvas(size=(7.6, 4.4))
    for style, (name, study) in zip(drawing.styles(markers=True), studies.items(), strict=False):
        error, step = study["error"].values, study["step"].values
        ax.errorbar(step, error, 2.0 * study["error_stderr"].values, **style, label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    first = [study["error"].values[0] for study in studies.values()]
    drawing.slope_guide(ax, step, 0.5, 1.5 * max(first))
    drawing.slope_guide(ax, step, 1.0, 0.6 * min(first))
    ax.set(xlabel="step h", ylabel="root mean square error at T")
    drawing.legend(figure)
    caption = (
        f"A nonlinear SDAE with two channels that do not commute: strong errors at T = {step.max() * STEPS[0]:g}, "
        f"{paths} paths, bars of two standard errors; dotted lines have the orders written beside them. Without Lévy "
        "areas a method of order 1 falls to the order of implicit Euler, 1/2, though its errors are smaller."
    )
    return Picture(figure, caption)


STUDY = Study(
    "sdae-nonlinear",
    KUPPER,
    "Fig. 6: errors on a nonlinear SDAE of index 1; what areas are for",
    "The orders are those of the paper, and RK1W3 has the smallest errors. The solution printed for the example lacks "
    "a rotation; the methods converge to the solution with the rotation. The study goes beyond the paper with two "
    "channels that do not commute, for which a method of order 1 needs Lévy areas.",
    run,
    lambda: 150.0,
)
