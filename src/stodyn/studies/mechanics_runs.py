"""Tools shared by the studies of noisy mechanics: runs of several methods on the same paths, and their figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from stodyn import plot
from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import GeneralisedAlpha, StochasticAlpha
from stodyn.problems.mechanical import Mechanical
from stodyn.statistics.iterations import Iterations
from stodyn.statistics.moments import Moments
from stodyn.statistics.paths import Paths
from stodyn.studies.contract import Row


def same_paths(
    problem: Mechanical, methods: Mapping[str, GeneralisedAlpha], T: float, steps: int, paths: int, kept: int, seed: int
) -> dict[str, Any]:
    """Label -> run. One seed: path i of every run is driven by the same Brownian path."""
    every = max(steps // 400, 1)
    return {
        label: simulate(problem, method, t=(0.0, T), dt=T / steps, paths=paths, seed=seed, progress=False,
                        collect=[Moments(every=every), Paths(kept, every=every), Iterations(every=steps)])
        for label, method in methods.items()
    }  # fmt: skip


def by_rho(*rhos: float, **options: Any) -> dict[str, GeneralisedAlpha]:
    return {f"ρ = {rho:g}": StochasticAlpha(rho=rho, **options) for rho in rhos}


def path_of_each(runs: Mapping[str, Any], component: str, title: str, number: int = 0) -> Figure:
    """One path in every run, over time."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    for k, (label, run) in enumerate(runs.items()):
        one = run["path"].sel(number=number, component=component)
        ax.plot(run["time"], one, lw=0.8, color=plot.PALETTE[k % len(plot.PALETTE)], label=label)
    ax.set(xlabel="time", ylabel=component, title=title)
    ax.legend(fontsize=8)
    return figure


def several_paths(run: Any, component: str, title: str, mean: bool = False) -> Figure:
    """The recorded paths of one run, over time."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    for one in run["path"].sel(component=component):
        ax.plot(run["time"], one, lw=0.7)
    if mean:
        ax.plot(run["time"], run["mean"].sel(component=component), color="k", lw=2, label="mean")
    ax.set(xlabel="time", ylabel=component, title=title)
    return figure


def moments_at_end(label: str, run: Any, components: Sequence[str]) -> list[Row]:
    last = run.isel(time=-1)
    rows = []
    for name in components:
        mean, variance = (last[kind].sel(component=name) for kind in ("mean", "variance"))
        rows.append(Row(f"{label}: E {name}(T)", None, float(mean), float(last["mean_stderr"].sel(component=name))))
        spread = float(np.sqrt(variance))
        error = float(last["variance_stderr"].sel(component=name)) / (2.0 * spread) if spread > 0 else None
        rows.append(Row(f"{label}: standard deviation of {name}(T)", None, spread, error))
    return rows


def newton_row(label: str, run: Any, steps: int, paper: float | str | None, remark: str = "") -> Row:
    """The mean number of Newton iterations per path over all steps."""
    total, error = (steps * float(run[name].values[-1]) for name in ("iterations", "iterations_stderr"))
    return Row(f"{label}: Newton iterations", paper, total, error, remark)


def pace(problem: Mechanical, paths: int, steps: int, T: float) -> float:
    """Seconds per path and step on this machine, timed after compilation."""
    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        simulate(problem, StochasticAlpha(), t=(0.0, T), dt=T / steps, paths=paths, seed=1, progress=False)
        seconds = time.perf_counter() - began
    return seconds / paths / steps
