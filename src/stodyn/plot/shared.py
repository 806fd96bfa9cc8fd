"""What all pictures share: colours, axes, labels, titles, and how a variable of a run is found."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import xarray

from stodyn.arguments import checks_arguments, expect_dataset, suggestion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T", bound=Callable[..., Any])

# The colour-blind safe palette of M. Okabe & K. Ito, Color universal design (2008).
BLUE, ORANGE, GREEN, SKY, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#7F7F7F"


AMBER = "#E69F00"


PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER)


LEGEND_COLUMNS = 4


MAKERS = {"result": "stodyn.analysis.phase_noise", "study": "stodyn.compare", "runs": "stodyn.sweep"}


def of_dataset(function: T) -> T:
    """Return a function that draws a Dataset, its first argument, after a check of that and of its other arguments."""
    name = next(iter(inspect.signature(function).parameters))

    @functools.wraps(function)
    def drawing(*arguments: Any, **options: Any) -> Any:
        if arguments or name in options:
            expect_dataset(arguments[0] if arguments else options[name], name, MAKERS.get(name, "stodyn.simulate"))
        return function(*arguments, **options)

    return checks_arguments(cast(T, drawing))


@checks_arguments
def save(ax: Axes | Figure, file: str | Path) -> None:
    """Write the picture that `ax` belongs to.

    Parameters
    ----------
    ax : Axes or Figure
        Axes that a function of this module returned, or the whole figure.
    file : str or Path
        Where to write it; the ending of the name (.png, .pdf, .svg) decides the format.

    Raises
    ------
    TypeError
        If `ax` is neither Axes nor a figure.
    ValueError
        If no picture can be written in the format of the file.
    """
    if not hasattr(ax, "get_figure"):
        raise TypeError(f"ax: expected Axes, such as stodyn.plot.band(run) returns, got {type(ax).__name__}")
    figure = ax.get_figure(root=True)
    assert figure is not None
    ending, known = Path(file).suffix.removeprefix("."), figure.canvas.get_supported_filetypes()
    if ending and ending.lower() not in known:
        raise ValueError(f"file: no picture can be written as .{ending}; its ending may be {', '.join(sorted(known))}")
    figure.savefig(file, dpi=150, bbox_inches="tight")


COLLECT = {
    "mean": "Moments()",
    "mean_stderr": "Moments()",
    "variance": "Moments()",
    "path": "Paths(5)",
    "density": "Histogram(edges)",
    "density_stderr": "Histogram(edges)",
    "peak_passed": "Extreme(of, levels=levels)",
    "peak_quantile": "Extreme(of)",
    "spectrum": "Spectrum()",
    "spectrum_low": "Spectrum()",
    "spectrum_high": "Spectrum()",
    "autocorrelation": "Autocorrelation()",
    "autocorrelation_stderr": "Autocorrelation()",
    "sobol_first": "Surrogate(every=1)",
    "passage_survival": "Passage(level)",
    "passage_hazard": "Passage(level)",
}


PASSAGE = {  # what a variable of statistics.Passage measures, and whether as a time or a rate, by the end of its name
    "survival": ("probability of not having reached the level", ""),
    "restricted_mean": ("mean time to the level, counted up to t", "time"),
    "mean": ("mean time to the level", "time"),
    "hazard": ("hazard", "rate"),
    "density": ("density of the time to the level", "rate"),
}


def missing(run: xarray.Dataset, name: str) -> str:
    how = f"statistics.{COLLECT[name]}" if name in COLLECT else f"statistics.Observable(function, name={name!r})"
    if "coefficient" in run and name.startswith("density"):
        how = "statistics.Surrogate(density=40)"
    have = ", ".join(map(str, run.data_vars)) or "nothing"
    return f"run: has no {name!r} (it has {have}). Collect it: simulate(..., collect=[{how}])"


def variable_of(run: xarray.Dataset, name: str) -> xarray.DataArray:
    if name not in run.variables:
        raise ValueError(missing(run, name))
    return run[name]


def picked(run: xarray.Dataset, name: str, component: str | None) -> xarray.DataArray:
    """Return a variable of the run for one component."""
    variable = variable_of(run, name)
    names = swept(run)
    if names:
        raise ValueError(
            f"run: a sweep over {', '.join(names)}; draw it with plot.sweep(run, {name!r}), or choose a point first: "
            f"run.isel({names[0]}=0)"
        )
    return variable.isel(component=component_number(run, component))


def swept(run: xarray.Dataset) -> list[str]:
    """Return the dimensions of a sweep along which no point has been chosen; none for a single run."""
    record = json.loads(run.attrs.get("provenance", "{}"))
    return [dim for dim in record.get("sweep", {}).get("dimensions", ()) if dim in run.dims]


def component_number(run: xarray.Dataset, component: str | None, argument: str = "component") -> int:
    known = [str(c) for c in np.atleast_1d(run["component"].values)]
    if component is None and len(known) > 1:
        raise ValueError(f"{argument}: choose one of {', '.join(known)}")
    if component is not None and component not in known:
        raise ValueError(
            f"{argument}: unknown component {component!r}; the components are {', '.join(known)}"
            f"{suggestion(component, known)}"
        )
    return 0 if component is None else known.index(component)


def has_time(variable: xarray.DataArray) -> bool:
    return any(str(name).startswith("time") for name in (*variable.dims, *variable.coords))


def time_name(variable: xarray.DataArray) -> str:
    """Return `time`, or `time_path` and the like where a statistic has times of its own."""
    return next(str(name) for name in (*variable.dims, *variable.coords) if str(name).startswith("time"))


def times_of(variable: xarray.DataArray) -> np.ndarray:
    return variable[time_name(variable)].values


def several(times: np.ndarray, what: str, collect: str) -> np.ndarray:
    """Return the times of a picture over time; an error where there is one, of which a line shows nothing."""
    if len(times) < 2:
        raise ValueError(f"run: {what} of one time, but this picture needs several; collect {collect}(every=...)")
    return times


def at_time(variable: xarray.DataArray, time: float | None) -> xarray.DataArray:
    if not has_time(variable):
        if time is not None:
            raise ValueError(f"time: {variable.name} is one number for a whole run; leave time out")
        return variable
    times = times_of(variable)
    nearest = -1 if time is None else int(np.argmin(np.abs(times - time)))
    if time is not None and abs(times[nearest] - time) > 1e-9 * max(1.0, abs(time)):
        raise ValueError(f"time: nothing was stored at {time:g}; the nearest stored time is {times[nearest]:g}")
    return variable.isel({time_name(variable): nearest})


def rows_of(paths: xarray.DataArray) -> np.ndarray:
    """The values of paths as an array (paths, times)."""
    return paths.transpose(..., time_name(paths)).values


def unit_of(run: xarray.Dataset | None, what: xarray.DataArray | str) -> str:
    """Return the unit in the attribute `units` of the run or variable: a unit, or component -> unit, also as JSON."""
    if run is None:
        return ""
    variable = (run[what] if what in run.variables else None) if isinstance(what, str) else what
    for owner in (run, variable):
        units = {} if owner is None else owner.attrs.get("units", {})
        if isinstance(units, str) and units.startswith("{"):
            units = json.loads(units)
        unit = units.get(name_of(what), "") if isinstance(units, Mapping) else units
        if unit:
            return str(unit)
    return ""


def name_of(what: xarray.DataArray | str) -> str:
    if isinstance(what, str):
        return what
    return str(what["component"].item() if "component" in what.coords else what.name)


def bracketed(unit: str) -> str:
    return unit if unit.isalpha() else f"({unit})"


def squared(unit: str) -> str:
    return f"{bracketed(unit)}²"


def unit_of_number(run: xarray.Dataset, number: xarray.DataArray) -> str:
    """Return the unit of a variable of the run, of one component where it has several; "" where none is known.

    It follows from what the name ends in: variances have units squared, covariances the product of two units, passages
    that of the time or its inverse.
    """
    name = str(number.name)
    if (words := words_of_passage(run, name)) is not None:
        time = unit_of(run, "time")
        return time and {"time": time, "rate": per(time)}.get(words[1], "")
    if name == "covariance":
        one, other = (
            unit_of(run, number.assign_coords(component=number[end].item())) for end in ("component", "other")
        )
        product = squared(one) if one == other else f"{bracketed(one)}·{bracketed(other)}"
        return product if one and other else ""
    if name_of(number) != name:
        unit = unit_of(run, number)
        return {"mean": unit, "std": unit, "quantile": unit, "variance": unit and squared(unit)}.get(name, "")
    unit, is_square = unit_of(run, number), name.endswith("_variance") and name.removesuffix("_variance") in run
    return unit and squared(unit) if is_square else unit


def words_of_passage(run: xarray.Dataset, name: str) -> tuple[str, str] | None:
    """Return what a variable of statistics.Passage is in words, and the "time" or "rate" it is; None for others."""
    ending = next((ending for ending in PASSAGE if name.endswith(f"_{ending}")), None)
    is_passage = ending is not None and f"{name.removesuffix(f'_{ending}')}_survival" in run
    return PASSAGE[ending] if is_passage and ending else None


def per(unit: str) -> str:
    """Return the inverse of a unit."""
    return f"1/{bracketed(unit)}"


def label_of(run: xarray.Dataset | None, what: xarray.DataArray | str) -> str:
    unit = unit_of(run, what)
    return f"{name_of(what)} [{unit}]" if unit else name_of(what)


def by_entry(variable: xarray.DataArray, name: str) -> list[tuple[str, np.ndarray]]:
    """The names and values of each response of a variable of statistics.Extreme."""
    entry = f"{name}_entry"
    if entry not in variable.dims:
        return [(name, variable.values)]
    return [(label, variable.isel({entry: i}).values) for i, label in enumerate(entry_names(variable, name))]


def entry_names(variable: xarray.DataArray, name: str) -> list[str]:
    """Return the names of the responses of statistics.Extreme, `response 0` and so on where a function gives them."""
    entry = f"{name}_entry"
    if entry in variable.coords:
        return [str(own) for own in variable[entry].values]
    return [f"response {i}" for i in range(variable.sizes[entry])]


def draw_paths(
    ax: Axes, run: xarray.Dataset, component: str | None, colors: Sequence[str] = (GREY,), alpha: float = 0.5
) -> None:
    shown = picked(run, "path", component)
    for i, row in enumerate(rows_of(shown)):
        color = colors[i % len(colors)]
        ax.plot(times_of(shown), row, color=color, lw=0.7, alpha=alpha, label="paths" if i == 0 else None)


def draw_mean(ax: Axes, t: np.ndarray, mean: np.ndarray, stderr: np.ndarray) -> None:
    ax.fill_between(t, mean - 2.0 * stderr, mean + 2.0 * stderr, color=BLUE, alpha=0.4, lw=0)
    ax.plot(t, mean, color=BLUE, lw=1.8, label="mean")


def axes_for(ax: Axes | None) -> Axes:
    if ax is None:
        from matplotlib import pyplot  # takes half a second to import; needs no display until a window is shown

        ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    if not hasattr(ax, "plot"):
        raise TypeError(f"ax: expected Axes, such as matplotlib.pyplot.subplots()[1], got {type(ax).__name__}")
    return ax


def title_of(run: xarray.Dataset | None, begun: str) -> str:
    """Return a title: the beginning that the picture gives, then what it was made with.

    Of a run its method, with the dissipation ρ of those that have it, step and paths; of a fit its filter, law and
    readings; of an oscillator its times.
    """
    record = json.loads(run.attrs.get("provenance", "{}")) if run is not None else {}
    parts = [begun] if begun else []
    if run is not None and "law" in run.attrs:  # of a filter or a fit
        parts.append(f"{run.attrs['by']}, law of a step: {run.attrs['law']}")
        if "reading" in run.sizes:
            parts.append(f"{run.sizes['reading']:,} readings")
    if run is not None and "time_unit" in run.attrs:  # of an oscillator's cycle
        parts.append(f"computed at {run.sizes['time']:,} times of one period")
    if "method" in record:
        name, _, options = str(record["method"]).partition("(")
        rho = re.search(r"\brho=([^,)]+)", options)
        parts += [name, *([f"ρ = {float(rho[1]):g}"] if rho else [])]
        if isinstance(record.get("dt"), float):
            parts.append(f"dt = {record['dt']:g} {unit_of(run, 'time')}".rstrip())
        elif "steps" in record:
            parts.append(f"{record['steps']:,} steps")
        if "paths" in record:
            parts.append(f"{record['paths']:,} paths")
    return ", ".join(parts)


def places(ax: Axes, values: np.ndarray) -> np.ndarray:
    """Return where values stand on the horizontal axis; words stand in a row, each under its own tick."""
    if values.dtype.kind in "if":
        return values
    row = np.arange(len(values))
    ax.set_xticks(row, list(map(str, values)))
    return row


def finish(
    ax: Axes, run: xarray.Dataset | None, across: Any, along: Any, legend: bool = False, title: str = ""
) -> Axes:
    """Label the axes, and put the legend between the picture and its title, where it hides nothing."""
    ax.set(xlabel=label_of(run, across), ylabel=label_of(run, along))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    ax.yaxis.get_offset_text().set_horizontalalignment("right")  # a factor such as 1e-6 stands left of the legend
    rows = 0
    if legend:
        entries = len(ax.get_legend_handles_labels()[1])
        rows = -(-entries // LEGEND_COLUMNS)
        ax.legend(
            frameon=False,
            fontsize="small",
            ncols=min(entries, LEGEND_COLUMNS) or 1,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            borderaxespad=0.2,
            borderpad=0.0,
        )
    whole = title_of(run, title)
    if whole:
        ax.set_title(whole, fontsize="medium", pad=6.0 + 15.0 * rows)
    return ax
