"""Pulch (2012), section 4: the Miller integrator with random parameters. Figures 3 to 5 and Table 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes
from stodyn.engine.simulate import simulate
from stodyn.methods.expansions import Galerkin, Quadrature
from stodyn.models.miller_integrator import MILLER_INTEGRATOR
from stodyn.plot import BLUE, ORANGE
from stodyn.statistics.surrogate import Surrogate
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import PULCH

PERIOD = 1e-6
END = 4.0 * PERIOD
TABLE_1 = {"Galerkin": (4e-15, 6e-6, 2e-5, 6e-9, 2e-7), "quadrature": (4e-15, 3e-7, 8e-7, 3e-10, 7e-7)}
J2 = "the paper's j2 column is not reached with any step: 50 steps give 2e-7 in j2 but 1.5e-4 in u2"


def exact_coefficients(times: np.ndarray, degree: int, count: int) -> np.ndarray:
    """<x Φ_i> on M_degree from the closed form, by count³ Gauss nodes: (times, n, terms)."""
    problem = MILLER_INTEGRATOR.problem
    basis, rule = bases.make("total", problem.distributions, degree), nodes.tensor(problem.distributions, count)
    phi = basis.evaluate(rule.points) * rule.weights[:, None]
    return np.einsum("kl,tkn->tnl", phi, MILLER_INTEGRATOR.exact["states"](times, rule.points))


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    problem, names = MILLER_INTEGRATOR.problem, MILLER_INTEGRATOR.problem.components
    steps, count = size.of((40, 4), (200, 8), (800, 16))
    every = Surrogate(every=1)
    progress("Galerkin on M_3")
    galerkin = simulate(problem, Galerkin(degree=3), t=(0.0, END), dt=END / steps, collect=every)
    progress("quadrature over 4³ nodes")
    quadrature = simulate(problem, Quadrature(degree=3, nodes=4), t=(0.0, END), dt=END / steps, collect=every)
    exact = exact_coefficients(galerkin["time"].values, 3, count)
    rows: list[Row] = []
    setting: dict[str, Any] = {"T": END, "h": END / steps}
    for label, result in (("Galerkin", galerkin), ("quadrature", quadrature)):
        errors = np.abs(result["coefficient"].values - exact).max(axis=(0, 2))
        for name, printed, ours in zip(names, TABLE_1[label], errors, strict=True):
            remark = J2 if name == "j2" else f"{steps} steps; against the closed form"
            rows.append(Row(f"Table 1, {label}, {name}", printed, float(ours), remark=remark, **setting))
    at = {name: galerkin.sel(component=name).isel(time=steps // 4) for name in names[1:]}
    for name, one in at.items():
        v = exact[steps // 4, names.index(name)]
        rows.append(Row(f"mean {name}(T), closed form", None, float(v[0]), T=PERIOD))
        rows.append(Row(f"mean {name}(T), Galerkin M_3", None, float(one["mean"]), T=PERIOD, h=END / steps))
        rows.append(Row(f"std {name}(T), closed form", None, float(np.sqrt(np.sum(v[1:] ** 2))), remark="M_3 part",
                        T=PERIOD))  # fmt: skip
        rows.append(Row(f"std {name}(T), Galerkin M_3", None, float(one["std"]), T=PERIOD, h=END / steps))
    basis = bases.make("total", problem.distributions, 3)
    whole = coupled.galerkin(problem, basis, np.array([0.0, END]))
    rows.append(Row("Figure 5, non-zeros of A_gal", 180, whole.system.A.nnz))
    rows.append(Row("Figure 5, non-zeros of B_gal", 200, whole.system.B.nnz))
    progress("indices")
    rows.append(Row("index of the system", 2, problem.pencil_at().index, remark="in SI units, both algorithms"))
    three = problem.pencil_at(problem.center * (1.5, 1.0, 1.0))
    rows.append(Row("index at a = 1 + C1/C2 = 3", 3, three.index))
    rows.append(Row("index of the Galerkin system on M_3", 2, whole.pencil().index))
    return StudyResult(rows, figures(galerkin, whole, END / steps))


def figures(result: Any, whole: coupled.Coupled, h: float) -> dict[str, Picture]:
    """Means and standard deviations, the coefficients of the output, the sparse matrices."""
    t = result["time"].values / PERIOD
    setting = f"Galerkin's method on M_3, t from 0 to 4 T with T = {PERIOD:g} s, h = {h:g} s"
    moments, axes = drawing.canvas(5, 2, size=(8.0, 8.4), sharex=True)
    for row, name in zip(axes, result["component"].values, strict=True):
        unit = "A" if str(name).startswith("j") else "V"
        row[0].plot(t, result["mean"].sel(component=name), color=BLUE)
        row[1].plot(t, result["std"].sel(component=name), color=ORANGE)
        row[0].set_ylabel(f"{name} [{unit}]")
        row[1].set_ylabel(f"σ of {name} [{unit}]")
    axes[0, 0].set_title("mean")
    axes[0, 1].set_title("standard deviation")
    for ax in axes[-1]:
        ax.set_xlabel("time over period, t/T")
    decay, panels = drawing.canvas(2, 2, size=(10.0, 6.0), sharex=True)
    orders = result["degree_in"].values
    for degree, ax in enumerate(panels.ravel()):
        for style, k in zip(drawing.styles(), np.flatnonzero(orders.sum(axis=1) == degree), strict=False):
            label = "(" + ",".join(map(str, orders[k])) + ")"
            ax.plot(t, result["coefficient"].sel(component="u3").values[:, k], **style, label=label)
        ax.set_title(f"degree {degree}", fontsize="medium")
        ax.set(ylabel="coefficient of u3 [V]", xlabel="time over period, t/T" if degree > 1 else "")
        drawing.legend_beside(ax, title="degrees in\n(a, C1, C2)" if degree == 0 else None)
    spy, places = drawing.canvas(1, 2, size=(7.6, 4.0))
    matrices = {"A_gal": whole.system.A, "B_gal": whole.system.B}
    for ax, (name, matrix) in zip(places, matrices.items(), strict=True):
        ax.grid(False)
        ax.spy(matrix.toarray(), markersize=1.5, color="k")
        ax.set(xlabel="column", ylabel="row")
        ax.set_title(f"{name}, {matrix.nnz} non-zeros", fontsize="medium")
    return {
        "fig3": Picture(moments, f"Means and standard deviations of voltages and current: {setting}."),
        "fig4": Picture(
            decay,
            f"The coefficients of the output voltage u3, by degree; a curve is named by its degrees in the "
            f"three parameters. {setting}.",
        ),
        "fig5": Picture(spy, "The non-zero entries of the matrices of the Galerkin system on M_3."),
    }


STUDY = Study(
    "miller",
    PULCH,
    "section 4: the Miller integrator with random parameters, Figs 3-5 and Table 1",
    "Table 1 is confirmed except for the current j2: no step size gives its printed errors. With 50 steps the error of "
    "j2 is the printed one, but that of u2 is then 25 times as large as printed. The index is 2, or 3 where a = 1 + "
    "C1/C2.",
    run,
    lambda: 10.0,
)
