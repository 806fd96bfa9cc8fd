"""Figures 1 to 4 of Rajan & Raha: an elastic beam in three channels of noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from stodyn import plot
from stodyn.analysis.second_order import dissipation
from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import StochasticAlpha
from stodyn.models.beam import BEAM
from stodyn.statistics.paths import Paths
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.mechanics_runs import by_rho, moments_at_end, pace, path_of_each, same_paths, several_paths

H = 0.01
# Without noise, at t = 1: θ_10 and θ_10' of a tight-tolerance integration.
EXACT = {"th10": 0.5117546299, "dth10": 1.500762978}


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    T, paths = size.of((0.1, 8), (2.0, 256), (5.0, 10_000))
    steps = round(T / H)
    progress("without noise")
    rows = without_noise()
    progress(f"{paths} paths to T = {T:g}, with several ρ on the same Brownian paths")
    rhos = (0.0, 0.5, 1.0)[: size.of(1, 3, 3)]
    runs = same_paths(BEAM.problem, by_rho(*rhos), T, steps, paths, 6, seed=7)
    for label, found in runs.items():
        rows += moments_at_end(label, found, ("th5", "th10"))
        rows.append(
            Row(f"{label}: roughness of θ_10'", None, roughness(found), None, "rms second difference of a path")
        )
    rows.append(
        Row("T and h", None, f"{T:g}, {H:g}", None, "the paper gives neither these nor seeds: no path can be repeated")
    )
    damped, kept = (list(runs)[k] for k in (0, -1))
    figures = {
        "fig1": path_of_each(runs, "th5", "middle of the beam, one Brownian path"),
        "fig2": path_of_each(runs, "th10", "end of the beam, one Brownian path"),
        "fig3": several_paths(runs[damped], "th10", f"end of the beam, {damped}"),
        "fig4": several_paths(runs[kept], "th10", f"end of the beam, {kept}"),
        "dissipation": dissipation_picture(),
    }
    return StudyResult(rows, figures)


def without_noise() -> list[Row]:
    problem = BEAM(position=0.0, velocity=0.0, additive=0.0).problem
    found = simulate(problem, StochasticAlpha(rho=0.5), t=(0.0, 1.0), dt=H, paths=1, seed=1, progress=False,
                     collect=Paths(1, at=[1.0]))["path"].isel(number=0, time=0)  # fmt: skip
    return [
        Row(f"no noise, ρ = 0.5: {name}(1)", None, float(found.sel(component=name)), None, f"exact {exact:.9g}")
        for name, exact in EXACT.items()
    ]


def roughness(found) -> float:
    velocity = found["path"].sel(component="dth10").values
    return float(np.sqrt(np.mean(np.diff(velocity, 2, axis=1) ** 2)))


def dissipation_picture() -> Figure:
    """The share of each mode's energy that remains after a step, for some ρ."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax, ω = figure.subplots(), BEAM.exact["frequencies"]()
    for k, rho in enumerate((0.0, 0.5, 0.8, 1.0)):
        radius = dissipation(StochasticAlpha(rho=rho), ω * H).radius
        ax.plot(ω, radius**2, "o-", color=plot.PALETTE[k], label=f"ρ = {rho:g}")
    ax.set(xlabel="frequency of the mode", ylabel=f"energy left after a step of {H:g}", xscale="log")
    ax.legend(fontsize=8)
    return figure


def estimate() -> float:
    return 3 * 10_000 * 500 * pace(BEAM.problem, 256, 20, 0.2) + 60.0


STUDY = Study("beam", "Rajan & Raha, Figs 1-4: an elastic beam in three channels of noise", run, estimate)
