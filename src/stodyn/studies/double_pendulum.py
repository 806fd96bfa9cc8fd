"""Figures 7 to 12 of Rajan & Raha: a double pendulum with noise that grows with its velocities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import StochasticAlpha
from stodyn.models.double_pendulum import DOUBLE_PENDULUM
from stodyn.statistics.paths import Paths
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.mechanics_runs import by_rho, moments_at_end, pace, same_paths, several_paths

H, T = 0.01, 5.0
EXACT = {"th1": -0.16080467763, "th2": -1.94519685596}  # without noise, g = 9.81, at t = 2


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows, figures = [], {}
    progress("without noise")
    silent = DOUBLE_PENDULUM(noise=(0.0, 0.0)).problem
    for rho in (0.0, 1.0)[: size.of(1, 2, 2)]:
        quiet = simulate(silent, StochasticAlpha(rho=rho), t=(0.0, 2.0), dt=H, paths=1, seed=1, progress=False,
                         collect=Paths(1, at=[2.0]))["path"].isel(number=0, time=0)  # fmt: skip
        rows += [Row(f"no noise, ρ = {rho:g}, h = {H:g}: {name}(2)", None, float(quiet.sel(component=name)), None,
                     f"exact {exact:.8g}; g is not in the paper") for name, exact in EXACT.items()]  # fmt: skip
    paths, end = size.of((8, 0.5), (4096, T), (100_000, T))
    methods = by_rho(*(1.0, 0.0)[: size.of(1, 2, 2)])
    progress(f"{paths} paths with ρ = 1 and ρ = 0 on the same Brownian paths")
    runs = same_paths(DOUBLE_PENDULUM.problem, methods, end, round(end / H), paths, 5, seed=11)
    for (label, found), (first, second, plane) in zip(runs.items(), ((7, 8, 11), (9, 10, 12)), strict=False):
        rows += moments_at_end(label, found, ("th1", "th2"))
        energy = DOUBLE_PENDULUM.exact["energy"](found["path"].values)
        rows.append(
            Row(f"{label}: energy of a path at T", None, float(np.mean(energy[:, -1])), None, "of 5 paths; 0 at t = 0")
        )
        figures[f"fig{first}"] = several_paths(found, "th1", label)
        figures[f"fig{second}"] = several_paths(found, "th2", label)
        figures[f"fig{plane}"] = phase_plane(found, label)
    return StudyResult(rows, figures)


def phase_plane(found, label: str) -> Figure:
    figure = Figure(figsize=(5, 5), layout="constrained")
    ax = figure.subplots()
    for one in found["path"][:2]:
        ax.plot(one.sel(component="dth1"), one.sel(component="dth2"), lw=0.7)
    ax.set(xlabel="dth1", ylabel="dth2", title=label)
    return figure


def estimate() -> float:
    return 2 * 100_000 * 500 * pace(DOUBLE_PENDULUM.problem, 4096, 100, 1.0) + 30.0


STUDY = Study("double-pendulum", "Rajan & Raha, Figs 7-12: a double pendulum with multiplicative noise", run, estimate)
