"""stodyn tour: three noisy systems, their statistics beside the exact ones, and pictures."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
import xarray
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from stodyn import plot
from stodyn import statistics as st
from stodyn.engine.simulate import simulate
from stodyn.methods.explicit import Heun
from stodyn.methods.implicit import ImplicitMidpoint
from stodyn.models.double_well import DOUBLE_WELL
from stodyn.models.kubo import KUBO
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.results import provenance

INDENT = (0, 0, 0, 2)


class Line(NamedTuple):
    """One row of the table: a statistic with its standard error, and the exact value where there is one."""

    quantity: str
    ours: float
    stderr: float
    exact: float | None


class Stop(NamedTuple):
    """One system of the tour."""

    title: str
    why: str
    run: xarray.Dataset
    lines: Sequence[Line]
    picture: Any  # matplotlib Axes
    file: str


def command(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("tour"),
    paths: Annotated[int, typer.Option(help="Paths of each system.", min=100)] = 100_000,
    seed: Annotated[int, typer.Option(help="Another seed, other paths.", min=0)] = 1,
) -> None:
    """Simulate three noisy systems, compare their statistics with the exact ones, draw them."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    console.print(
        f"\n[bold]stodyn[/bold] simulates systems with noise in them. Here are three, {paths:,} paths each.\n"
    )
    began = time.perf_counter()
    for visit in (ornstein_uhlenbeck, kubo, double_well):
        started = time.perf_counter()
        stop = visit(paths, seed)
        show(console, stop, time.perf_counter() - started)
        plot.save(stop.picture, out / stop.file)
        console.print(f"  picture: {out / stop.file}\n")
    console.print(
        f"All of it took {time.perf_counter() - began:.0f} s, compiling included. The column [bold]z[/bold] is the "
        "distance from the exact value in standard errors, the small error of the step included: one in twenty is "
        "beyond 2 by chance.\n"
        "Next: [bold]stodyn methods[/bold] lists the methods, the README has twenty lines to start from.\n"
    )


def ornstein_uhlenbeck(paths: int, seed: int) -> Stop:
    model = ORNSTEIN_UHLENBECK(start=2.0)
    collect = [st.Moments(every=4), st.Paths(12)]
    run = simulate(model.problem, Heun, t=(0, 5), dt=0.01, paths=paths, seed=seed, collect=collect)
    end = float(run.time[-1])
    lines = moments(run, "x", float(model.exact["mean"](end)[0]), float(model.exact["variance"](end)[0]))
    title = "Ornstein-Uhlenbeck: a velocity, a voltage, an error that is pulled back to zero"
    return Stop(title, model.summary, run, lines, plot.band(run, "x"), "ornstein_uhlenbeck.png")


def kubo(paths: int, seed: int) -> Stop:
    model = KUBO
    collect = [st.Moments(every=40), st.Observable(lambda t, x, p: 0.5 * (x @ x), name="energy"), st.Iterations()]
    run = simulate(model.problem, ImplicitMidpoint, t=(0, 10), dt=0.0025, paths=paths, seed=seed, collect=collect)
    end = float(run.time[-1])
    mean, variance = model.exact["mean"](end), model.exact["variance"](end)
    lines = moments(run, "q", float(mean[0]), float(variance[0]))
    lines += [Line("energy", *last(run, "energy"), float(model.exact["energy"](end)))]
    title = "Damped Kubo oscillator: multiplicative noise, implicit midpoint rule, Newton in every step"
    return Stop(
        title, model.summary, run, lines, plot.observable(run, "energy", exact=model.exact["energy"]), "kubo.png"
    )


def double_well(paths: int, seed: int) -> Stop:
    model = DOUBLE_WELL
    collect = [st.Moments(at=[100.0]), st.Histogram(np.linspace(-2.0, 2.0, 81))]
    run = simulate(model.problem, Heun, t=(0, 100), dt=0.02, paths=paths, seed=seed, collect=collect)
    lines = moments(run, "x", 0.0, float(model.exact["stationary_variance"]()))
    picture = plot.histogram(run, "x", exact=model.exact["stationary_density"])
    title = "Two wells: a particle kicked over the barrier, against its exact stationary density"
    return Stop(title, model.summary, run, lines, picture, "double_well.png")


def last(run: xarray.Dataset, name: str, component: str | None = None) -> tuple[float, float]:
    """A statistic at the end of the run and its standard error."""
    value, stderr = run[name], run[f"{name}_stderr"]
    if component is not None:
        value, stderr = value.sel(component=component), stderr.sel(component=component)
    return float(value[-1]), float(stderr[-1])


def moments(run: xarray.Dataset, component: str, mean: float, variance: float) -> list[Line]:
    return [
        Line(f"mean of {component}", *last(run, "mean", component), mean),
        Line(f"variance of {component}", *last(run, "variance", component), variance),
    ]


def show(console: Console, stop: Stop, seconds: float) -> None:
    record = provenance(stop.run)
    console.print(f"[bold]{stop.title}[/bold]")
    console.print(Padding(stop.why, INDENT, expand=False))
    columns = ("", f"t = {record['t'][1]:g}", "standard error", "exact", "z")
    table = Table(*columns, box=None, header_style="dim", padding=(0, 2), pad_edge=True)
    for column in table.columns[1:]:
        column.justify = "right"
    for line in stop.lines:
        exact = "" if line.exact is None else f"{line.exact:.6f}"
        z = "" if line.exact is None else f"{(line.ours - line.exact) / line.stderr:+.1f}"
        table.add_row(line.quantity, f"{line.ours:.6f}", f"{line.stderr:.6f}", exact, z)
    console.print(table)
    speed = seconds / record["paths"] / record["steps"] * 1e9
    said = (
        f"{record['paths']:,} paths x {record['steps']:,} steps of {record['method'].partition('(')[0]} in "
        f"{seconds:.1f} s: {speed:.1f} ns a path and step, compiling included ({record['executor']})"
    )
    console.print(Padding(said, INDENT, expand=False))
