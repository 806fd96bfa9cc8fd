"""Küpper, Kværnø & Rößler, Figs. 1-4: regions of mean-square stability of stiffly accurate Runge-Kutta methods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from stodyn import plot
from stodyn.analysis.step import stability
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KUPPER
from stodyn.studies.sdae_linear import METHODS

FIGURES = {
    "fig1": ("ImplicitEuler", "Trapezoidal"),
    "fig2": ("RK1W1", "RK1W2"),
    "fig3": ("RK1W3", "RK1W4"),
    "fig4": ("RK1W5",),
}
ONE_SIGN = {method.name: 1 for method in METHODS} | {"RK1W1": 2, "RK1W5": 2}  # two where R̂ is not even in k
A_STABLE = ("ImplicitEuler", "Trapezoidal")


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows = []
    for method in METHODS[: size.of(3, 7, 7)]:
        progress(method.name)
        for sign in (1, -1)[: ONE_SIGN[method.name]]:
            where = f", k {'>' if sign > 0 else '<'} 0" if ONE_SIGN[method.name] == 2 else ""
            for h in (-0.1, -1.0, -5.0, -20.0):
                noise = stability.largest_noise(method, h, sign)
                rows.append(Row(f"{method.name}: largest k² at h = {h:g}{where}", None, noise, remark="equation: -2h"))
        verdict = stability.a_stability(method)
        paper = "A-stable" if method.name in A_STABLE else "not A-stable"
        ours = "A-stable" if verdict.a_stable else "not A-stable"
        remark = f"largest R̂ inside the equation's region {verdict.worst:.4g} at h = {verdict.h.real:.4g}"
        rows.append(Row(f"{method.name}: verdict", paper, ours, remark=f"{remark}, k = {verdict.k.real:.4g}"))
        if len(method.table.A) == 3:
            right, printed = (float(stability.closed_form(method.table, -1.0, 1.0, printed=p)) for p in (False, True))
            rows.append(Row(f"{method.name}: R̂(-1, 1)", printed, right, remark="(7.2) as printed; with B31 for B32"))
    points = size.of(8, 100, 200)
    return StudyResult(rows, {name: picture(names, points) for name, names in FIGURES.items()})


def picture(names: tuple[str, ...], points: int) -> Picture:
    """The regions over (h, k²) with the equation's own boundary k² = -2h; the second sign of k in another colour."""
    figure, axes = drawing.canvas(1, len(names), size=(5.0 * len(names), 4.6), squeeze=False)
    h, squares = np.linspace(-8.0, 2.0, points), np.linspace(0.0, 20.0, points)
    for ax, name in zip(axes[0], names, strict=True):
        for sign, color in ((1, plot.BLUE), (-1, plot.ORANGE))[: ONE_SIGN[name]]:
            label = "stable, both signs of k" if ONE_SIGN[name] == 1 else f"stable, k {'>' if sign > 0 else '<'} 0"
            level = stability.region(name, h, squares, sign)
            plot.region(h, squares, level, labels=("h = λ Δt", "k² = μ² Δt"), color=color, ax=ax)
            ax.fill([], [], color=color, alpha=0.25, label=label)
        ax.plot([-8.0, 0.0], [16.0, 0.0], "--", color="k", lw=1.2, label="the equation: k² = -2h")
        ax.set_title(name)
    drawing.legend(figure, columns=3)
    caption = (
        f"{' and '.join(names)}: where the method is stable in mean square on dX = λ X dt + μ X dW (shaded), for real "
        "λ and μ, computed. The equation is stable left of the dashed line; an A-stable method covers all of that."
    )
    return Picture(figure, caption)


STUDY = Study(
    "sdae-stability",
    KUPPER,
    "Figs 1-4: mean-square stability of the methods",
    "The regions are those of the paper's figures, and none of the methods of order 1 is A-stable, as the paper says. "
    "In (7.2) B32 should read B31: with the printed formula, RK1W2, for example, has a different region. RK1W1 and "
    "RK1W5 have different regions for the two signs of k.",
    run,
    lambda: 60.0,
)
