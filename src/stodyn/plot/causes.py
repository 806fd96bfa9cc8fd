"""Pictures of what causes a variance: indices of Sobol and shares."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import xarray

from stodyn.plot.shared import (
    ORANGE,
    PALETTE,
    SKY,
    axes_for,
    finish,
    name_of,
    of_dataset,
    picked,
    several,
    squared,
    time_name,
    times_of,
    unit_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_dataset
def indices(run: xarray.Dataset, component: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw Sobol's first-order indices of random parameters over time, stacked, with what they share at the top.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Surrogate.
    component : str, optional
        The name of the component; needed only where there are several.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on. A bar for each stored time; the white rest up to 1 is the share of two or more parameters
        together. Times without variance have no bar.

    Raises
    ------
    ValueError
        If the run has no indices, or those of a single time.
    """
    first = picked(run, "sobol_first", component)
    t = several(times_of(first), "the indices are", "Surrogate")
    parameters = [str(name) for name in first["parameter"].values]
    shares = np.nan_to_num(first.transpose("parameter", time_name(first)).values)
    ax, below, width = axes_for(ax), np.zeros(len(t)), np.diff(t).min()
    for name, share, colour in zip(parameters, shares, itertools.cycle(PALETTE), strict=False):
        ax.bar(t, share, 0.9 * width, bottom=below, color=colour, label=name)
        below = below + share
    ax.set_ylim(0.0, 1.0)
    return finish(ax, run, "time", f"share of the variance of {name_of(first)}", legend=True)


@of_dataset
def shares(split: xarray.Dataset, component: str, *, ax: Axes | None = None) -> Axes:
    """Draw the variance of a component over time, split into the parts due to parameters and to noise, stacked.

    Parameters
    ----------
    split : Dataset
        A result of `analysis.tolerance.split_variance`.
    component : str
        The name of the component.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If `split` lacks one of the variances.
    """
    for name in ("variance_parameters", "variance_noise"):
        if name not in split.variables:
            raise ValueError(f"split: has no {name!r}; expected the Dataset of analysis.tolerance.split_variance")
    ax = axes_for(ax)
    parts = [picked(split, name, component) for name in ("variance_parameters", "variance_noise")]
    values = np.maximum([part.values for part in parts], 0.0)
    ax.stackplot(times_of(parts[0]), values, colors=(SKY, ORANGE), labels=("by parameters", "by noise"), alpha=0.8)
    unit = unit_of(split, parts[0])
    along = f"variance of {component} [{squared(unit)}]" if unit else f"variance of {component}"
    return finish(ax, split, "time", along, legend=True)
