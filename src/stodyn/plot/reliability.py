"""Pictures of what fails, and when: fragility, survival, hazard and the levels of splitting."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from scipy.stats import norm

from stodyn.plot.shared import (
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    PASSAGE,
    SKY,
    axes_for,
    by_entry,
    finish,
    of_dataset,
    per,
    places,
    several,
    unit_of,
    variable_of,
)
from stodyn.results import interval, provenance

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_dataset
def fragility(run: xarray.Dataset, name: str = "peak", *, ax: Axes | None = None) -> Axes:
    """Draw a fragility curve: probabilities over a parameter, or of peaks over their levels, with intervals of 95 %.

    Parameters
    ----------
    run : Dataset
        A result of stodyn.fragility, drawn as points with their intervals and, where one was fitted, the lognormal
        curve; or a run that collected statistics.Extreme(..., levels=...).
    name : str
        Of a run, the name of the statistic; a curve is drawn for each of its responses. Those of a function get names
        by run.assign_coords(peak_entry=["floor 1", ...]), and a unit by run["peak"].attrs["units"] = "m".
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Examples
    --------
    >>> import stodyn as sd
    >>> problem = sd.SDE(lambda t, x: -x, lambda t, x, p: p["intensity"], 0.0, {"intensity": 1.0})
    >>> curve = sd.fragility(problem, over={"intensity": [0.5, 1.0, 2.0]}, event=sd.Level(2.0), before=1.0, dt=0.1,
    ...                      seed=1, by="elementary", runs=4)
    >>> ax = sd.plot.fragility(curve)
    """
    parameter = provenance(run).get("swept") if "probability_low" in run else None
    if parameter is not None:
        return _over_a_parameter(run, parameter, axes_for(ax))
    passed = variable_of(run, f"{name}_passed")
    limits = interval(run, f"{name}_passed")
    ax, level = axes_for(ax), run[f"{name}_level"].values
    entries = by_entry(passed, name)
    for (label, own), colour in zip(entries, itertools.cycle(PALETTE), strict=False):
        low, high = (dict(by_entry(limits[end], name))[label] for end in ("low", "high"))
        ax.fill_between(level, low, high, color=colour, alpha=0.2, lw=0)
        ax.plot(level, own, color=colour, lw=1.2, marker="o", ms=3, label=label)
    ax.set_ylim(0.0, 1.0)
    unit = unit_of(run, name) or unit_of(run, f"{name}_level")
    across = f"level of {name}" + (f" [{unit}]" if unit else "")
    return finish(ax, run, across, f"P({name} beyond the level)", legend=len(entries) > 1)


def _over_a_parameter(curve: xarray.Dataset, parameter: str, ax: Axes) -> Axes:
    """The points of a result of stodyn.fragility with their intervals, and its lognormal curve."""
    across = places(ax, curve[parameter].values)
    middle, low, high = (curve[f"probability{end}"].values for end in ("", "_low", "_high"))
    errors = np.maximum([middle - low, high - middle], 0.0)
    ax.errorbar(across, middle, errors, fmt="o", color=BLUE, ms=4, lw=1, capsize=2, label="estimated, 95 %")
    if "median" in curve:
        median, dispersion = float(curve["median"]), float(curve["dispersion"])
        x = np.geomspace(across.min(), across.max(), 301)
        label = f"lognormal, median {median:.3g}, dispersion {dispersion:.3g}"
        ax.plot(x, norm.cdf(np.log(x / median) / dispersion), color=ORANGE, lw=1.5, label=label)
    ax.set_ylim(0.0, 1.0)
    return finish(ax, curve, parameter, "probability of the event", legend=True)


@of_dataset
def survival(
    run: xarray.Dataset,
    name: str = "passage",
    *,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the probability that a level has not been reached, over time, with intervals of 95 %.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Passage.
    name : str
        The name of the statistic.
    exact : callable, optional
        exact(t), drawn beside it.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If the run lacks the statistic, or it is a vector or of a single time.
    """
    return _over_time(run, f"{name}_survival", PASSAGE["survival"][0], exact, ax, top=1.0)


@of_dataset
def hazard(
    run: xarray.Dataset,
    name: str = "passage",
    *,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the rate at which paths reach a level that they have not reached yet, with intervals of 95 %.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Passage; it has a rate for each interval between two observations.
    name : str
        The name of the statistic.
    exact : callable, optional
        exact(t), drawn beside it.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If the run lacks the statistic, or it is a vector or of a single interval.
    """
    time = unit_of(run, "time")
    return _over_time(run, f"{name}_hazard", f"hazard [{per(time)}]" if time else "hazard", exact, ax)


def _over_time(
    run: xarray.Dataset, name: str, along: str, exact: Any, ax: Axes | None, top: float | None = None
) -> Axes:
    """A variable of a Passage with its intervals."""
    values = variable_of(run, name)
    if values.ndim != 1:
        raise ValueError(f"run: {name!r} has the dimensions {values.dims}; choose one entry first: run.isel(...)")
    t = several(run[values.dims[0]].values, f"{name} is", "Passage")
    limits, ax = interval(run, name), axes_for(ax)
    ax.fill_between(t, limits["low"].values, limits["high"].values, color=SKY, alpha=0.4, lw=0, label="95 %")
    ax.plot(t, values.values, color=BLUE, lw=1.5, label="paths")
    if exact is not None:
        ax.plot(t, exact(t), color=ORANGE, lw=1.5, ls="--", label="exact")
    ax.set_ylim(bottom=0.0, top=top)
    return finish(ax, run, "time", along, legend=True)


@of_dataset
def levels(result: xarray.Dataset, truth: float | None = None) -> Axes:
    """Draw an estimate in four pictures: the levels, their points, the error against the cost, and the value.

    The first shows the variance and the size of the averages of each level over its steps; the second, the points of
    each level; the third, the error against the path-steps spent, beside the cost of plain Monte Carlo; the fourth, the
    value with its interval against the path-steps. For a vector, the entry that was last to meet the error is drawn.

    Parameters
    ----------
    result : Dataset
        A result of `stodyn.estimate`.
    truth : float, optional
        The exact value, drawn where it is known.

    Returns
    -------
    Axes
        The first of the four Axes of a new picture.
    """
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator

    one = result.isel(entry=0) if "entry" in result.dims else result
    figure, grid = pyplot.subplots(2, 2, figsize=(9.6, 7.2), layout="constrained")
    means, points, errors, values = grid.ravel()
    is_difference = one["role"].values != "base"
    steps = one["steps"].values
    for name, colour, label in (("level_variance", BLUE, "variance"), ("level_mean", ORANGE, "|mean|")):
        size = np.abs(one[name].values)
        means.loglog(steps[is_difference], size[is_difference], "o-", color=colour, label=f"{label} of differences")
        means.loglog(steps[~is_difference], size[~is_difference], "s", color=colour, label=f"{label} of f")
    means.set(xlabel="steps", ylabel="variance and |mean| of a level")
    means.legend(frameon=False, fontsize="small")
    names = [f"{n}\n{role}" for n, role in zip(steps, one["role"].values, strict=True)]
    points.bar(np.arange(len(names)), one["points"].values, color=SKY)
    points.set_xticks(np.arange(len(names)), names, fontsize="small")
    points.set(yscale="log", ylabel="points")
    spent, half = result["progress_path_steps"].values, result["progress_error"].values
    errors.loglog(spent, half, "o-", color=BLUE, label="this estimate")
    plain = result.attrs["plain_path_steps"]
    if np.isfinite(plain):
        errors.loglog([plain], [half[-1]], "D", color=GREY, label="plain Monte Carlo")
    errors.set(xlabel="path-steps", ylabel="error")
    errors.legend(frameon=False, fontsize="small")
    values.errorbar(spent, result["progress_value"].values, yerr=half, fmt="o", color=BLUE, capsize=3)
    if truth is not None:
        values.axhline(truth, color=ORANGE, lw=1)
    values.set(xscale="log", xlabel="path-steps", ylabel="value")
    for ax in (errors, values):
        ax.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))  # more labels than these run into each other
    figure.suptitle(result.attrs["route"], fontsize="medium")
    return means
