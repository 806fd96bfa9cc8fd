"""Figures 1 to 4 of Rajan & Raha: an elastic beam in three channels of noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from stodyn.analysis.step.second_order import dissipation
from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import StochasticAlpha
from stodyn.models.beam import BEAM
from stodyn.statistics.paths import Paths
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.mechanics_runs import by_rho, moments_at_end, pace, path_of_each, same_paths, several_paths
from stodyn.studies.papers import RAJAN_RAHA

H, ELEMENTS = 0.01, 10
# Without noise, at t = 1: θ_10 and θ_10' of a tight-tolerance integration.
EXACT = {"th10": 0.5117546299, "dth10": 1.500762978}


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    T, paths = size.of((0.1, 8), (2.0, 256), (5.0, 10_000))
    steps = round(T / H)
    middle, last = f"th{ELEMENTS // 2}", f"th{ELEMENTS}"
    progress("without noise")
    rows = without_noise()
    progress(f"{paths} paths to T = {T:g}, with several ρ on the same Brownian paths")
    rhos = (0.0, 0.5, 1.0)[: size.of(1, 3, 3)]
    runs = same_paths(BEAM(n=ELEMENTS).problem, by_rho(*rhos), T, steps, paths, 6, seed=7)
    for label, result in runs.items():
        rows += moments_at_end(label, result, (middle, last))
        rows.append(Row(f"{label}: roughness of the rate of the last angle", None, roughness(result, last), None,
                        "rms second difference of the recorded paths", **of_run(result)))  # fmt: skip
    damped, undamped = (list(runs)[k] for k in (0, -1))
    end = "angle θ₁₀ of the last element [rad]"
    figures = {
        "fig1": path_of_each(runs, middle, "angle θ₅ [rad]", "Middle of the beam"),
        "fig2": path_of_each(runs, last, "angle θ₁₀ [rad]", "End of the beam"),
        "fig3": several_paths(runs[damped], last, end, f"End of the beam, {damped}"),
        "fig4": several_paths(runs[undamped], last, end, f"End of the beam, {undamped}"),
        "dissipation": dissipation_picture(),
    }
    return StudyResult(rows, figures)


def without_noise() -> list[Row]:
    problem = BEAM(position=0.0, velocity=0.0, additive=0.0).problem
    result = simulate(problem, StochasticAlpha(rho=0.5), t=(0.0, 1.0), dt=H, paths=1, seed=1, progress=False,
                     collect=Paths(1, at=[1.0]))["path"].isel(number=0, time=0)  # fmt: skip
    return [
        Row(f"no noise, ρ = 0.5: {name}(1)", None, float(result.sel(component=name)), None, f"exact {exact:.9g}",
            T=1.0, h=H, paths=1)
        for name, exact in EXACT.items()
    ]  # fmt: skip


def roughness(result, angle: str) -> float:
    velocity = result["path"].sel(component=f"d{angle}").values
    return float(np.sqrt(np.mean(np.diff(velocity, 2, axis=1) ** 2)))


def dissipation_picture() -> Picture:
    """The share of each mode's energy that remains after a step, for some ρ."""
    figure, ax = drawing.canvas(size=(7.6, 3.8))
    ω = BEAM.exact["frequencies"]()
    least: dict[float, float] = {}
    for style, rho in zip(drawing.styles(markers=True), (0.0, 0.5, 0.8, 1.0), strict=False):
        left = dissipation(StochasticAlpha(rho=rho), ω * H).radius ** 2
        least[rho] = 100.0 * left.min()
        ax.plot(ω, left, **style, label=f"ρ = {rho:g}")
    ax.set(xlabel="angular frequency of the mode", ylabel="share of the energy left", xscale="log")
    drawing.legend(figure)
    caption = (
        f"The share of the energy of each of the ten modes that is left after a step of h = {H:g}, for four values of "
        f"ρ, computed without noise. The fastest mode keeps {least[0.0]:.0f} % with ρ = 0 and {least[1.0]:.0f} % with "
        "ρ = 1."
    )
    drawing.note(figure, f"h = {H:g}, computed without paths")
    return Picture(figure, caption)


def estimate() -> float:
    return 3 * 10_000 * 500 * pace(BEAM.problem, 256, 20, 0.2) + 60.0


STUDY = Study(
    "beam",
    RAJAN_RAHA,
    "Figs 1-4: an elastic beam in three channels of noise",
    "ρ decides how fast the high modes lose energy: the velocity of the end is rougher with ρ = 1 than with ρ = 0, "
    "while the angles themselves hardly differ. The paper does not give T, h or seeds, so its paths cannot be "
    "repeated; without noise the method agrees with an integration to a tight tolerance to 2e-4.",
    run,
    estimate,
)
