"""Tools shared by the studies of noisy mechanics: runs of several methods on the same paths, and their figures."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import GeneralisedAlpha, StochasticAlpha
from stodyn.plot.shared import title_of
from stodyn.problems.mechanical import Mechanical
from stodyn.statistics.iterations import Iterations
from stodyn.statistics.moments import Moments
from stodyn.statistics.paths import Paths
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, of_run
from stodyn.warnings import EnergyNotKept


@contextlib.contextmanager
def damping_is_shown() -> Iterator[None]:
    """Runs with a paper's steps, which damp what is stiff: nobody is told of the energy that is lost, since the study
    says so itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EnergyNotKept)
        yield


def same_paths(
    problem: Mechanical,
    methods: Mapping[str, GeneralisedAlpha],
    T: float,
    steps: int,
    paths: int,
    saved: int,
    seed: int,
) -> dict[str, Any]:
    """Label -> run. One seed: path i of every run is driven by the same Brownian path."""
    every = max(steps // 400, 1)
    return {
        label: simulate(problem, method, t=(0.0, T), dt=T / steps, paths=paths, seed=seed, progress=False,
                        collect=[Moments(every=every), Paths(saved, every=every), Iterations(every=steps)])
        for label, method in methods.items()
    }  # fmt: skip


def by_rho(*rhos: float, **options: Any) -> dict[str, GeneralisedAlpha]:
    return {f"ρ = {rho:g}": StochasticAlpha(rho=rho, **options) for rho in rhos}


def path_of_each(runs: Mapping[str, Any], component: str, axis: str, what: str, clock: str = "time") -> Picture:
    """One path in every run over time, and below how far each is from the last run."""
    figure, (above, below) = drawing.canvas(2, size=(7.6, 5.0), sharex=True)
    *others, (reference, last) = runs.items()
    truth = last["path"].sel(number=0, component=component)
    for style, (label, run) in zip(drawing.styles(), runs.items(), strict=False):
        one = run["path"].sel(number=0, component=component)
        above.plot(run["time"], one, **style, label=label)
        below.plot(run["time"], one - truth, **style)
    above.set(ylabel=axis)
    below.set(xlabel=clock, ylabel=f"difference from\n{reference} {axis[axis.find('[') :]}")
    drawing.legend(figure)
    setting = of_run(last)
    differ = f"below, their differences from {reference}" if others else "below, nothing to compare with"
    caption = (
        f"{what}: one Brownian path for all methods, T = {setting['T']:g}, h = {setting['h']:g}. Above, the paths; "
        f"{differ}."
    )
    drawing.note(figure, f"h = {setting['h']:g}, one of {setting['paths']:,} paths")
    return Picture(figure, caption)


def several_paths(result: Any, component: str, axis: str, what: str, clock: str = "time") -> Picture:
    """The recorded paths of one run over time, and the mean of all."""
    figure, ax = drawing.canvas(size=(7.6, 3.8))
    for one in result["path"].sel(component=component):
        ax.plot(result["time"], one, lw=0.7, alpha=0.8)
    ax.plot(result["time"], result["mean"].sel(component=component), color="k", lw=1.8, label="mean of all paths")
    ax.set(xlabel=clock, ylabel=axis)
    drawing.legend(figure, columns=2)
    setting = of_run(result)
    caption = (
        f"{what}: {result.sizes['number']} paths (thin) and the mean of {setting['paths']}, T = {setting['T']:g}, "
        f"h = {setting['h']:g}."
    )
    drawing.note(figure, title_of(result, ""))
    return Picture(figure, caption)


def moments_at_end(label: str, result: Any, components: Sequence[str]) -> list[Row]:
    last, setting = result.isel(time=-1), of_run(result)
    rows = []
    for name in components:
        mean, variance = (last[kind].sel(component=name) for kind in ("mean", "variance"))
        stderr = float(last["mean_stderr"].sel(component=name))
        rows.append(Row(f"{label}: E {name}(T)", None, float(mean), stderr, **setting))
        spread = float(np.sqrt(variance))
        error = float(last["variance_stderr"].sel(component=name)) / (2.0 * spread) if spread > 0 else None
        rows.append(Row(f"{label}: standard deviation of {name}(T)", None, spread, error, **setting))
    return rows


def newton_row(label: str, result: Any, steps: int, paper: float | str | None, remark: str = "") -> Row:
    """The mean number of Newton iterations per path over all steps."""
    total, error = (steps * float(result[name].values[-1]) for name in ("iterations", "iterations_stderr"))
    return Row(f"{label}: Newton iterations", paper, total, error, remark, **of_run(result))


def pace(problem: Mechanical, paths: int, steps: int, T: float) -> float:
    """Seconds per path and step on this machine, timed after compilation."""
    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        simulate(problem, StochasticAlpha(), t=(0.0, T), dt=T / steps, paths=paths, seed=1, progress=False)
        seconds = time.perf_counter() - began
    return seconds / paths / steps
