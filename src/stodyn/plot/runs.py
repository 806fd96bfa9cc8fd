"""Pictures of a run or a sweep: bands, paths, observables, densities, phase portraits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray

from stodyn.plot.shared import (
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    SKY,
    at_time,
    axes_for,
    component_number,
    draw_mean,
    draw_paths,
    finish,
    has_time,
    label_of,
    missing,
    name_of,
    of_dataset,
    per,
    picked,
    places,
    rows_of,
    several,
    swept,
    times_of,
    unit_of,
    unit_of_number,
    variable_of,
    words_of_passage,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_dataset
def band(run: xarray.Dataset, component: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the mean of a component and the ±2σ band of its paths, with stored paths if there are any.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Moments, or an expansion in random parameters; paths are drawn if it also
        collected statistics.Paths.
    component : str, optional
        The name of the component; needed only where there are several.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on. The dark band around the mean is its error, ±2 standard errors: with many paths it is
        thinner than the line.

    Raises
    ------
    ValueError
        If the run has no moments, or those of a single time.

    Examples
    --------
    >>> import stodyn as sd
    >>> from stodyn.models.kubo import kubo
    >>> run = sd.simulate(kubo(), t=(0, 1), dt=0.1, paths=8, seed=1)
    >>> ax = sd.plot.band(run, "q")
    """
    mean, variance = (picked(run, name, component) for name in ("mean", "variance"))
    stderr = picked(run, "mean_stderr", component) if "coefficient" not in run else 0.0 * mean
    t, center = several(times_of(mean), "the moments are", "Moments"), mean.values
    spread, ax = 2.0 * np.sqrt(variance.values), axes_for(ax)
    if "path" in run.variables:
        draw_paths(ax, run, component)
    ax.fill_between(t, center - spread, center + spread, color=SKY, alpha=0.3, lw=0, label="mean ± 2σ")
    draw_mean(ax, t, center, stderr.values)
    return finish(ax, run, "time", mean, legend=True)


@of_dataset
def paths(run: xarray.Dataset, component: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the paths of a component that statistics.Paths stored.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Paths.
    component : str, optional
        The name of the component; needed only where there are several.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    shown = picked(run, "path", component)
    ax = axes_for(ax)
    draw_paths(ax, run, component, PALETTE if len(rows_of(shown)) <= len(PALETTE) else (GREY,), alpha=0.9)
    return finish(ax, run, "time", shown)


@of_dataset
def observable(
    run: xarray.Dataset,
    name: str,
    *,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    spread: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean of a statistics.Observable with ±2 standard errors.

    Parameters
    ----------
    run : Dataset
        A run that collected the Observable.
    name : str
        The name of the Observable.
    exact : callable, optional
        exact(t), drawn beside it.
    spread : bool
        Whether to draw the ±2σ band of the single paths too, which does not shrink with their number.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If the run lacks the Observable, or it is a vector or of a single time.
    """
    mean, stderr = variable_of(run, name), variable_of(run, f"{name}_stderr")
    if mean.ndim != 1:
        raise ValueError(
            f"name: {name!r} has the dimensions {mean.dims}; choose one entry first: run.isel({mean.dims[-1]}=0)"
        )
    t, ax = several(times_of(mean), f"{name} is", "Observable"), axes_for(ax)
    if spread:
        wide = 2.0 * variable_of(run, f"{name}_std").values
        ax.fill_between(t, mean.values - wide, mean.values + wide, color=SKY, alpha=0.3, lw=0, label="paths ± 2σ")
    draw_mean(ax, t, mean.values, stderr.values)
    if exact is not None:
        ax.plot(t, exact(t), color=ORANGE, lw=1.5, ls="--", label="exact")
    return finish(ax, run, "time", mean, legend=True)


@of_dataset
def histogram(
    run: xarray.Dataset,
    component: str | None = None,
    *,
    time: float | None = None,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density of a component at one time, with ±2 standard errors per bin.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Histogram, or statistics.Surrogate(density=...).
    component : str, optional
        The name of the component; needed only where there are several.
    time : float, optional
        One of the stored times; the last one by default.
    exact : callable, optional
        exact(x), drawn over it.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    density, stderr = (at_time(picked(run, name, component), time) for name in ("density", "density_stderr"))
    if "density_edge" in run:
        edges = at_time(picked(run, "density_edge", component), time).values
        left, right = edges[:-1], edges[1:]
    else:
        left, right = run["bin_left"].values, run["bin_right"].values
    ax = axes_for(ax)
    ax.stairs(density.values, [*left, right[-1]], fill=True, color=SKY, alpha=0.5, label="paths")
    ax.errorbar(0.5 * (left + right), density.values, 2.0 * stderr.values, fmt="none", ecolor=BLUE, lw=1, zorder=3)
    if exact is not None:
        x = np.linspace(left[0], right[-1], 501)
        ax.plot(x, exact(x), color=ORANGE, lw=1.5, label="exact")
    ax.set_ylim(bottom=0.0)
    when = f"t = {float(times_of(density)):g} {unit_of(run, 'time')}".rstrip()
    unit = unit_of(run, density)
    along = f"density [{per(unit)}]" if unit else "density"
    return finish(ax, run, density, along, legend=exact is not None, title=when)


@of_dataset
def free_energy(
    run: xarray.Dataset,
    component: str | None = None,
    *,
    kT: float = 1.0,
    time: float | None = None,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the free energy -kT ln p of a component at one time, from 0 at its lowest bin, with ±2 standard errors.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Histogram. Bins that no path is in have no finite energy and are left out.
    component : str, optional
        The name of the component; needed only where there are several.
    kT : float
        The thermal energy, in whose unit the energy is drawn.
    time : float, optional
        One of the stored times; the last one by default.
    exact : callable, optional
        exact(x), an energy drawn beside it, from 0 at its lowest value.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on. The error of an energy is kT times the relative error of the density in its bin.
    """
    density, stderr = (at_time(picked(run, name, component), time) for name in ("density", "density_stderr"))
    p, middle = density.values, run["bin"].values
    visited = p > 0.0
    energy = -kT * np.log(p[visited] / p.max())
    ax = axes_for(ax)
    error = 2.0 * kT * stderr.values[visited] / p[visited]
    ax.errorbar(middle[visited], energy, error, fmt="o", color=BLUE, ms=3, lw=1, label="paths")
    if exact is not None:
        x = np.linspace(middle[visited][0], middle[visited][-1], 501)
        curve = np.asarray(exact(x), float)
        ax.plot(x, curve - curve.min(), color=ORANGE, lw=1.5, label="exact")
    when = f"t = {float(times_of(density)):g} {unit_of(run, 'time')}".rstrip()
    along = "-ln p" if kT == 1.0 else "-kT ln p"
    return finish(ax, run, density, along, legend=exact is not None, title=when)


@of_dataset
def phase(run: xarray.Dataset, a: str, b: str, *, ax: Axes | None = None) -> Axes:
    """Draw component b against component a: the stored paths, and the mean if statistics.Moments was collected.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Paths, statistics.Moments or both.
    a, b : str
        The names of the components along the horizontal and the vertical axis.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If the run has neither paths nor moments.
    """
    names = [name for name in ("path", "mean") if name in run.variables]
    if not names:
        raise ValueError(missing(run, "path"))
    ax = axes_for(ax)
    for name in names:
        across, along = picked(run, name, a), picked(run, name, b)
        if name == "path":
            for k, (x, y) in enumerate(zip(rows_of(across), rows_of(along), strict=True)):
                ax.plot(x, y, color=GREY, lw=0.7, alpha=0.6, label=None if k else "paths")
        else:
            ax.plot(across, along, color=BLUE, lw=1.8, label="mean")
            ax.plot(across.values[0], along.values[0], "o", color=BLUE, ms=5, label="start of the mean")
    return finish(ax, run, across, along, legend=True)


@of_dataset
def sweep(
    runs: xarray.Dataset,
    name: str = "mean",
    component: str | None = None,
    *,
    time: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a number of a sweep over its parameters: a line with its error, or a heat map.

    Parameters
    ----------
    runs : Dataset
        A result of `stodyn.sweep` over one or two dimensions.
    name : str
        The variable: "mean", "variance", or the name of an Observable.
    component : str, optional
        The name of the component; needed only where there are several.
    time : float, optional
        One of the stored times; the last one by default. Leave it out for a variable without times.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on. Over one parameter the line has a band of ±2 standard errors; over two the colour shows the
        number, and the title gives the largest standard error.

    Raises
    ------
    ValueError
        If `runs` is not a sweep, has more than two dimensions of parameters, or lacks the variable.
    """
    dims = swept(runs)
    if not dims:
        raise ValueError("runs: not a sweep; make one with stodyn.sweep(problem, over={...}, ...)")
    if len(dims) > 2:
        raise ValueError(f"runs: swept over {', '.join(dims)}; choose all but two first: runs.sel({dims[0]}=...)")
    values, errors = (_one_number(runs, which, component, time, dims) for which in (name, f"{name}_stderr"))
    when = f"t = {float(times_of(values)):g} {unit_of(runs, 'time')}".rstrip() if has_time(values) else ""
    words, unit = words_of_passage(runs, name), unit_of_number(runs, values)
    label = name if name_of(values) == name else f"{name} of {name_of(values)}"
    label = (label if words is None else words[0]) + (f" [{unit}]" if unit else "")
    ax = axes_for(ax)
    if len(dims) == 1:
        across = places(ax, runs[dims[0]].values)
        low, high = values.values - 2.0 * errors.values, values.values + 2.0 * errors.values
        ax.fill_between(across, low, high, color=SKY, alpha=0.4, lw=0, label="± 2 standard errors")
        ax.plot(across, values.values, "o-", color=BLUE, lw=1.5, ms=4, label=name)
        return finish(ax, runs, label_of(runs, dims[0]), label, legend=True, title=when)
    x, y = (runs[dim].values for dim in dims)
    picture = ax.pcolormesh(x, y, values.transpose(dims[1], dims[0]).values, cmap="viridis", shading="nearest")
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(picture, ax=ax, label=label)
    error = f"largest standard error {float(errors.max()):.2g}"
    title = f"{when}, {error}" if when else error
    finish(ax, runs, label_of(runs, dims[0]), label_of(runs, dims[1]), title=title)
    ax.grid(False)
    return ax


def _one_number(
    runs: xarray.Dataset, name: str, component: str | None, time: float | None, dims: Sequence[str]
) -> xarray.DataArray:
    """Return a variable of a sweep at one time and for one component."""
    variable = variable_of(runs, name)
    if "component" in variable.dims:
        variable = variable.isel(component=component_number(runs, component))
    variable = at_time(variable, time)
    if set(variable.dims) - set(dims):
        more = next(str(dim) for dim in variable.dims if dim not in dims)
        raise ValueError(f"name: {name!r} has the dimension {more} too; choose one entry first: runs.isel({more}=0)")
    return variable
