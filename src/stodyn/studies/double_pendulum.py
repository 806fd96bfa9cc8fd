"""Figures 7 to 12 of Rajan & Raha: a double pendulum with noise that grows with its velocities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import StochasticAlpha
from stodyn.models.double_pendulum import DOUBLE_PENDULUM
from stodyn.plot.shared import title_of
from stodyn.statistics.paths import Paths
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.mechanics_runs import by_rho, moments_at_end, pace, same_paths, several_paths
from stodyn.studies.papers import RAJAN_RAHA

H, T = 0.01, 5.0
EXACT = {"th1": -0.16080467763, "th2": -1.94519685596}  # without noise, g = 9.81, at t = 2


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows, figures = [], {}
    progress("without noise")
    silent = DOUBLE_PENDULUM(noise=(0.0, 0.0)).problem
    for rho in (0.0, 1.0)[: size.of(1, 2, 2)]:
        quiet = simulate(silent, StochasticAlpha(rho=rho), t=(0.0, 2.0), dt=H, paths=1, seed=1, progress=False,
                         collect=Paths(1, at=[2.0]))["path"].isel(number=0, time=0)  # fmt: skip
        rows += [
            Row(
                f"no noise, ρ = {rho:g}, h = {H:g}: {name}(2)",
                None,
                float(quiet.sel(component=name)),
                None,
                f"exact {exact:.8g}; g is not in the paper",
                T=2.0,
                h=H,
                paths=1,
            )
            for name, exact in EXACT.items()
        ]
    paths, end = size.of((8, 0.5), (4096, T), (100_000, T))
    methods = by_rho(*(1.0, 0.0)[: size.of(1, 2, 2)])
    progress(f"{paths} paths with ρ = 1 and ρ = 0 on the same Brownian paths")
    runs = same_paths(DOUBLE_PENDULUM.problem, methods, end, round(end / H), paths, 5, seed=11)
    for (label, result), (first, second, plane) in zip(runs.items(), ((7, 8, 11), (9, 10, 12)), strict=False):
        rows += moments_at_end(label, result, ("th1", "th2"))
        energy = DOUBLE_PENDULUM.exact["energy"](result["path"].values)
        rows.append(Row(f"{label}: mean energy at T of the recorded paths", None, float(np.mean(energy[:, -1])), None,
                        f"of {len(energy)} paths; 0 at t = 0", end, H, len(energy)))  # fmt: skip
        for number, component, angle in (
            (first, "th1", "upper angle θ₁ [rad]"),
            (second, "th2", "lower angle θ₂ [rad]"),
        ):
            figures[f"fig{number}"] = several_paths(result, component, angle, f"Double pendulum, {label}", "time [s]")
        figures[f"fig{plane}"] = phase_plane(result, label)
    return StudyResult(rows, figures)


def phase_plane(result, label: str) -> Picture:
    figure, ax = drawing.canvas(size=(6.0, 5.0))
    for number, (style, one) in enumerate(zip(drawing.styles(), result["path"][:2], strict=False)):
        ax.plot(one.sel(component="dth1"), one.sel(component="dth2"), **style | {"ls": "-", "lw": 0.8},
                label=f"path {number + 1}")  # fmt: skip
    ax.set(xlabel="rate of the upper angle [rad/s]", ylabel="rate of the lower angle [rad/s]")
    drawing.legend(figure, columns=2)
    setting = of_run(result)
    drawing.note(figure, title_of(result, ""))
    caption = f"Double pendulum, {label}: the rates of two paths, T = {setting['T']:g} s, h = {setting['h']:g} s."
    return Picture(figure, caption)


def estimate() -> float:
    return 2 * 100_000 * 500 * pace(DOUBLE_PENDULUM.problem, 4096, 100, 1.0) + 30.0


STUDY = Study(
    "double-pendulum",
    RAJAN_RAHA,
    "Figs 7-12: a double pendulum with multiplicative noise",
    "The equations are right as printed; gravity, which the paper does not give, is 9.81 here. Single paths with ρ = 1 "
    "and ρ = 0 diverge from each other, but the moments at T agree within their standard errors.",
    run,
    estimate,
)
