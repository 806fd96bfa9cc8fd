"""Pictures of methods and matrices: orders, comparisons, regions of stability, patterns of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import xarray

from stodyn.arguments import checks_arguments
from stodyn.plot.shared import BLUE, GREY, ORANGE, PALETTE, axes_for, finish, of_dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_dataset
def order(study: xarray.Dataset, *, ax: Axes | None = None) -> Axes:
    """Draw error against step size with ±2 standard errors and the fitted line, both axes logarithmic.

    Parameters
    ----------
    study : Dataset
        A result of `analysis.order`: the variables error, error_stderr and used (whether the fit used the point) over
        the dimension step; the attributes order and order_stderr (the slope), and kind, method and model where known.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If `study` lacks one of the variables.
    """
    for name in ("error", "error_stderr", "used"):
        if name not in study.variables:
            raise ValueError(f"study: has no {name!r}; expected the Dataset of analysis.order")
    step, error, stderr = study["step"].values, study["error"].values, study["error_stderr"].values
    used = study["used"].values.astype(bool)
    ax = axes_for(ax)
    ax.set_xscale("log")
    ax.set_yscale("log")
    bars = np.minimum(2.0 * stderr, 0.999 * error), 2.0 * stderr
    name = str(study.attrs.get("method", "error"))
    for points, face, label in ((used, BLUE, name), (~used, "white", "left out")):
        if points.any():
            sides = [side[points] for side in bars]
            ax.errorbar(step[points], error[points], sides, fmt="o", color=BLUE, mfc=face, ms=5, lw=1, label=label)
    slope = float(study.attrs["order"])
    middle = np.mean(np.log(error[used]) - slope * np.log(step[used]))
    label = f"order {slope:.2f} ± {2.0 * float(study.attrs['order_stderr']):.2f}"
    ax.plot(step[used], np.exp(middle) * step[used] ** slope, color=ORANGE, lw=1.5, zorder=1, label=label)
    along = f"{study.attrs.get('kind', '')} error".strip()
    return finish(ax, study, "step size h", along, legend=True, title=str(study.attrs.get("model", "")))


@of_dataset
def comparison(study: xarray.Dataset, *, ax: Axes | None = None) -> Axes:
    """Draw error against cost of several methods, both axes logarithmic; points that are not settled are hollow.

    Parameters
    ----------
    study : Dataset
        A result of `sd.compare`: error, error_stderr, cost and settled over integrator and dt.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If `study` lacks one of the variables.
    """
    if not {"error", "error_stderr", "cost", "settled"} <= set(study.variables):
        raise ValueError("study: expected the Dataset of sd.compare, with error, error_stderr, cost and settled")
    ax = axes_for(ax)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for i, name in enumerate(study["integrator"].values):
        row = study.sel(integrator=name)
        color, error, cost = PALETTE[i % len(PALETTE)], row["error"].values, 1e6 * row["cost"].values
        ax.plot(cost, error, "o-", color=color, mfc="white", ms=6, lw=1.2, label=str(name))
        settled = row["settled"].values
        ax.plot(cost[settled], error[settled], "o", color=color, ms=6)
    ax.xaxis.set_minor_formatter("")  # labels of 2, 3, 4, ... would touch within one decade
    begin, end = study.attrs["t"]
    title = f"t = {begin:g} to {end:g}, {study.attrs['paths']:,} paths, dt = {_steps(study)}"
    quantity = study.attrs["quantity"]
    of = "root mean square of paths" if quantity == "paths" else f"mean of {quantity}"
    return finish(ax, None, "processor time per path [µs]", f"error, {of}", legend=True, title=title)


def _steps(study: xarray.Dataset) -> str:
    return f"{float(study['dt'].max()):g} to {float(study['dt'].min()):g}"


@checks_arguments
def region(
    x: np.ndarray,
    y: np.ndarray,
    inside: np.ndarray,
    *,
    limit: float = 1.0,
    labels: Sequence[str] = ("Re hλ", "Im hλ"),
    label: str | None = None,
    color: str = BLUE,
    ax: Axes | None = None,
) -> Axes:
    """Draw a region of the plane, shaded, with its boundary.

    Several regions on the same Axes differ by `color` and `label`.

    Parameters
    ----------
    x, y : array
        The grid.
    inside : array (len(y), len(x))
        Booleans, or a level (a spectral radius) that is at most `limit` inside the region; a level gives a smooth
        boundary.
    limit : float
        The largest level inside the region.
    labels : pair of str
        The labels of the axes.
    label, color : str
        The entry in the legend, if any, and the colour.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    ValueError
        If the shape of `inside` does not match the grid.
    """
    x, y, inside = np.asarray(x, float), np.asarray(y, float), np.asarray(inside)
    if inside.shape != (len(y), len(x)):
        raise ValueError(f"inside: expected shape (len(y), len(x)) = ({len(y)}, {len(x)}), got {inside.shape}")
    level = np.where(inside, 0.0, 1.0) if inside.dtype == bool else np.nan_to_num(inside, nan=np.inf, posinf=np.inf)
    edge = 0.5 if inside.dtype == bool else limit
    level = np.minimum(level, 1e3 * (abs(edge) + 1.0))  # a contour cannot be interpolated towards infinity
    ax = axes_for(ax)
    if level.min() <= edge:
        ax.contourf(x, y, level, levels=[min(level.min(), edge) - 1.0, edge], colors=[color], alpha=0.25)
    if level.min() <= edge < level.max():
        ax.contour(x, y, level, levels=[edge], colors=[color], linewidths=1.5)
    ax.axhline(0.0, color=GREY, lw=0.6, zorder=0)
    ax.axvline(0.0, color=GREY, lw=0.6, zorder=0)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    if label is not None:
        ax.fill([], [], color=color, alpha=0.25, label=label)
    return finish(ax, None, labels[0], labels[1], legend=label is not None)


@checks_arguments
def spy(matrix: Any, *, ax: Axes | None = None) -> Axes:
    """Draw where a matrix is not zero.

    Parameters
    ----------
    matrix : array or scipy.sparse matrix
        The matrix.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    entries = scipy.sparse.coo_array(matrix)
    entries.eliminate_zeros()
    rows, columns = entries.shape
    ax = axes_for(ax)
    ax.plot(entries.coords[1], entries.coords[0], "s", color=BLUE, ms=max(0.5, 200.0 / max(rows, columns)), mew=0)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    finish(ax, None, f"{entries.nnz} of {rows} x {columns} entries", "")
    ax.grid(False)
    return ax
