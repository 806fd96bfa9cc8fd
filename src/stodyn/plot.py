"""Pictures of results: every function draws a Dataset on matplotlib Axes and returns them; none opens a window."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import scipy
import xarray

from stodyn import listing
from stodyn.arguments import checks_arguments, expect_dataset, suggestion
from stodyn.results import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T", bound=Callable[..., Any])
__all__ = [
    "AMBER",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "PURPLE",
    "SKY",
    "allan",
    "autocorrelation",
    "band",
    "comparison",
    "cycle",
    "cyclostationary",
    "filtered",
    "fragility",
    "free_energy",
    "hazard",
    "histogram",
    "indices",
    "jitter",
    "levels",
    "noise_density",
    "observable",
    "order",
    "paths",
    "phase",
    "phase_noise",
    "predictive",
    "profile",
    "region",
    "save",
    "shares",
    "spectrum",
    "spy",
    "survival",
    "sweep",
    "transient_noise",
]
__dir__ = listing.names_of(__name__)

# The colour-blind safe palette of M. Okabe & K. Ito, Color universal design (2008).
BLUE, ORANGE, GREEN, SKY, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#7F7F7F"
AMBER = "#E69F00"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER)
LEGEND_COLUMNS = 4


MAKERS = {"result": "stodyn.analysis.phase_noise", "study": "stodyn.compare", "runs": "stodyn.sweep"}


def _of_dataset(function: T) -> T:
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


@checks_arguments
def allan(curve: Any, fit: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw an Allan deviation with the intervals of its points and, if there is a fit, the fit and each of its terms.

    Parameters
    ----------
    curve : AllanCurve
        From stodyn.analysis.allan(y, dt).
    fit : AllanFit, optional
        From curve.fit("NBK"); the intervals are those of its noise.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    TypeError
        If `curve` is no Allan variance of stodyn.analysis.allan.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> curve = sd.analysis.allan(np.random.default_rng(1).standard_normal(1000), dt=0.01)
    >>> ax = sd.plot.allan(curve, curve.fit("NK"))
    """
    if not hasattr(curve, "deviation"):
        raise TypeError(f"curve: expected the result of stodyn.analysis.allan(y, dt), got {type(curve).__name__}")
    ax = _axes(ax)
    low, high = (np.sqrt(end) for end in curve.interval(fit))
    errors = [curve.deviation - low, high - curve.deviation]
    ax.errorbar(curve.tau, curve.deviation, errors, color=BLUE, fmt="o", ms=3, lw=1.0, label="record, 95 % intervals")
    if fit is not None:
        ax.plot(curve.tau, np.sqrt(fit.variance(curve.tau)), color=ORANGE, lw=1.5, label=f"fit of {fit.terms}")
        for letter, colour in zip(fit.terms, (GREEN, PURPLE, SKY, AMBER, GREY), strict=False):
            if fit[letter].is_seen:
                ax.plot(
                    curve.tau, np.sqrt(fit.variance(curve.tau, letter)), color=colour, lw=1.0, ls="--", label=letter
                )
    ax.set(xscale="log", yscale="log", ylim=(0.5 * low.min(), 2.0 * high.max()))
    ax.set(xlabel="averaging time", ylabel="Allan deviation")
    ax.legend(fontsize="small")
    return ax


@_of_dataset
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
    mean, variance = (_pick(run, name, component) for name in ("mean", "variance"))
    stderr = _pick(run, "mean_stderr", component) if "coefficient" not in run else 0.0 * mean
    t, center, spread = _time(mean), mean.values, 2.0 * np.sqrt(variance.values)
    if len(t) < 2:
        raise ValueError("run: the moments are of one time, but a band needs several; collect Moments(every=...)")
    ax = _axes(ax)
    if "path" in run.variables:
        _draw_paths(ax, run, component)
    ax.fill_between(t, center - spread, center + spread, color=SKY, alpha=0.3, lw=0, label="mean ± 2σ")
    _draw_mean(ax, t, center, stderr.values)
    return _finish(ax, run, "time", mean, legend=True)


@_of_dataset
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
    shown = _pick(run, "path", component)
    ax = _axes(ax)
    _draw_paths(ax, run, component, PALETTE if len(_rows(shown)) <= len(PALETTE) else (GREY,), alpha=0.9)
    return _finish(ax, run, "time", shown)


@_of_dataset
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
        If the run lacks the Observable, or it is a vector.
    """
    mean, stderr = _variable(run, name), _variable(run, f"{name}_stderr")
    if mean.ndim != 1:
        raise ValueError(
            f"name: {name!r} has the dimensions {mean.dims}; choose one entry first: run.isel({mean.dims[-1]}=0)"
        )
    ax = _axes(ax)
    t = _time(mean)
    if spread:
        wide = 2.0 * _variable(run, f"{name}_std").values
        ax.fill_between(t, mean.values - wide, mean.values + wide, color=SKY, alpha=0.3, lw=0, label="paths ± 2σ")
    _draw_mean(ax, t, mean.values, stderr.values)
    if exact is not None:
        ax.plot(t, exact(t), color=ORANGE, lw=1.5, ls="--", label="exact")
    return _finish(ax, run, "time", mean, legend=True)


@_of_dataset
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
    density, stderr = (_at(_pick(run, name, component), time) for name in ("density", "density_stderr"))
    if "density_edge" in run:
        edges = _at(_pick(run, "density_edge", component), time).values
        left, right = edges[:-1], edges[1:]
    else:
        left, right = run["bin_left"].values, run["bin_right"].values
    ax = _axes(ax)
    ax.stairs(density.values, [*left, right[-1]], fill=True, color=SKY, alpha=0.5, label="paths")
    ax.errorbar(0.5 * (left + right), density.values, 2.0 * stderr.values, fmt="none", ecolor=BLUE, lw=1, zorder=3)
    if exact is not None:
        x = np.linspace(left[0], right[-1], 501)
        ax.plot(x, exact(x), color=ORANGE, lw=1.5, label="exact")
    ax.set_ylim(bottom=0.0)
    when = f"t = {float(_time(density)):g} {_unit(run, 'time')}".rstrip()
    unit = _unit(run, density)
    along = f"density [1/{unit if unit.isalpha() else f'({unit})'}]" if unit else "density"
    return _finish(ax, run, density, along, legend=exact is not None, title=when)


@_of_dataset
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
    density, stderr = (_at(_pick(run, name, component), time) for name in ("density", "density_stderr"))
    p, middle = density.values, run["bin"].values
    visited = p > 0.0
    energy = -kT * np.log(p[visited] / p.max())
    ax = _axes(ax)
    error = 2.0 * kT * stderr.values[visited] / p[visited]
    ax.errorbar(middle[visited], energy, error, fmt="o", color=BLUE, ms=3, lw=1, label="paths")
    if exact is not None:
        x = np.linspace(middle[visited][0], middle[visited][-1], 501)
        curve = np.asarray(exact(x), float)
        ax.plot(x, curve - curve.min(), color=ORANGE, lw=1.5, label="exact")
    when = f"t = {float(_time(density)):g} {_unit(run, 'time')}".rstrip()
    along = "-ln p" if kT == 1.0 else "-kT ln p"
    return _finish(ax, run, density, along, legend=exact is not None, title=when)


@_of_dataset
def filtered(result: xarray.Dataset, component: str | None = None) -> Axes:
    """Draw what a record says of a component, with the readings of it; below, the innovations in their deviations.

    Parameters
    ----------
    result : Dataset
        From stodyn.filtered or stodyn.smoothed.
    component : str, optional
        The name of the component; needed only where there are several.

    Returns
    -------
    Axes
        The upper Axes of a new picture. Of a right model, 95 % of the innovations lie between the dashed lines.

    Raises
    ------
    ValueError
        If the result is not one of these functions.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * x, 0.0)
    >>> sensor = sd.Sensor("y", of="x", noise=sd.per_sample(0.1))
    >>> ax = sd.plot.filtered(sd.filtered(decay, data=([0.5, 0.7, 1.5], [0.3, 0.1, -0.2]), sensors=sensor))
    """
    from matplotlib import pyplot

    if "innovation" not in result:
        raise ValueError("result: expected that of stodyn.filtered or stodyn.smoothed")
    mean = _pick(result, "mean", component)
    own = str(mean["component"].values)
    spread = 2.0 * np.sqrt(result["covariance"].sel(component=own, other=own).values)
    _, (upper, lower) = pyplot.subplots(
        2, sharex=True, figsize=(6.4, 5.2), layout="constrained", height_ratios=(2.0, 1.0)
    )
    t = _time(mean)
    upper.fill_between(t, mean.values - spread, mean.values + spread, color=SKY, alpha=0.4, lw=0, label="mean ± 2σ")
    upper.plot(t, mean.values, color=BLUE, lw=1.2, label="mean")
    times, sensors = result["reading_time"].values, result["sensor"].values
    for sensor, colour in zip(dict.fromkeys(sensors), itertools.cycle(PALETTE[1:]), strict=False):
        mine, reads = sensors == sensor, (sensors == sensor) & (result["reads"].values == own)
        if reads.any():
            upper.plot(times[reads], result["reading_observed"].values[reads], ".", color=colour, ms=4, label=sensor)
        scaled = (result["innovation"] / result["innovation_sd"]).values
        lower.plot(times[mine], scaled[mine], ".", color=colour, ms=4, label=sensor)
    for end in (-2.0, 2.0):
        lower.axhline(end, color=GREY, lw=0.8, ls="--")
    _finish(lower, None, _label(result, "time"), "innovation / σ")
    _finish(upper, result, "time", mean, legend=True)
    upper.set_xlabel("")
    return upper


@_of_dataset
def predictive(result: xarray.Dataset, output: str | None = None) -> Axes:
    """Draw a record beside those that the fitted model makes: the readings, their summaries, and their spectrum.

    Parameters
    ----------
    result : Dataset
        From stodyn.fit, with predictive records.
    output : str, optional
        The name of a sensor, or of one of its outputs; needed only where there are several.

    Returns
    -------
    Axes
        The upper Axes of a new picture. Bands hold 95 % of the simulated records; summaries are drawn so that their
        bands have one size.

    Raises
    ------
    ValueError
        If the result has no predictive records, or none of this output.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    >>> data = np.arange(1.0, 10.0), np.cumsum([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
    >>> result = sd.fit(walk, data=data, sensors=sd.Sensor("y", of="x"), free={"s": (0, None)})
    >>> ax = sd.plot.predictive(result)
    """
    from matplotlib import pyplot

    if "summary_observed" not in result:
        raise ValueError("result: expected that of stodyn.fit with predictive records of at least eight readings")
    names = [str(name) for name in result["output"].values]
    own = output if output is not None or len(names) > 1 else names[0]
    if own not in names:
        raise ValueError(f"output: expected one of {', '.join(names)}, got {output!r}")
    _, panels = pyplot.subplot_mosaic([["upper", "upper"], ["left", "right"]], figsize=(7.2, 5.6), layout="constrained")
    upper, left, right = (panels[name] for name in ("upper", "left", "right"))
    chosen = result["sensor"].values == own
    _beside(upper, result["reading_time"].values[chosen], *_bands(result, "reading", chosen))
    _finish(upper, None, "time", own, legend=True)
    one = result.sel(output=own)
    _scaled_summaries(left, one)
    _beside(right, one["frequency"].values, *_bands(one, "spectrum"))
    right.set(xscale="log", yscale="log")
    _finish(right, None, "frequency", "spectral density")
    return upper


def _bands(result: xarray.Dataset, name: str, chosen: Any = slice(None)) -> list[np.ndarray]:
    """What was observed, and the ends of the band."""
    return [result[f"{name}_{ending}"].values[chosen] for ending in ("observed", "low", "high")]


def _beside(ax: Axes, x: np.ndarray, observed: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    ax.fill_between(x, low, high, color=SKY, alpha=0.4, lw=0, label="95 % of simulated records")
    ax.plot(x, observed, ".-", color=ORANGE, lw=0.6, ms=3, label="record")


def _scaled_summaries(ax: Axes, one: xarray.Dataset) -> None:
    """Each summary on a row of its own, on which its band has one length."""
    observed, low, high = _bands(one, "summary")
    places = np.arange(len(observed))
    middle, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), 1e-300)
    ax.barh(places, np.full(len(places), 2.0), left=-1.0, height=0.5, color=SKY, alpha=0.4)
    ax.plot(np.clip((observed - middle) / half, -4.0, 4.0), places, "o", color=ORANGE, ms=4)
    labels = [f"{name}\n{value:.3g}" for name, value in zip(one["summary"].values, observed, strict=True)]
    ax.set_yticks(places, labels, fontsize="small")
    ax.set_xticks([-1.0, 1.0], ["2.5 %", "97.5 %"])
    ax.set_xlim(-4.4, 4.4)
    _finish(ax, None, "", "")


@_of_dataset
def fragility(run: xarray.Dataset, name: str = "peak", *, ax: Axes | None = None) -> Axes:
    """Draw the probability that a peak is beyond a level, over the levels, with intervals of 95 %: a fragility curve.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Extreme(..., levels=...).
    name : str
        Its name; a curve is drawn for each of its responses.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    passed = _variable(run, f"{name}_passed")
    limits = interval(run, f"{name}_passed")
    ax, level = _axes(ax), run[f"{name}_level"].values
    entries = _by_entry(passed, name)
    for (label, own), colour in zip(entries, itertools.cycle(PALETTE), strict=False):
        low, high = (dict(_by_entry(limits[end], name))[label] for end in ("low", "high"))
        ax.fill_between(level, low, high, color=colour, alpha=0.2, lw=0)
        ax.plot(level, own, color=colour, lw=1.2, marker="o", ms=3, label=label)
    ax.set_ylim(0.0, 1.0)
    return _finish(ax, run, f"{name}_level", f"P({name} beyond the level)", legend=len(entries) > 1)


@_of_dataset
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
    """
    return _over_time(run, f"{name}_survival", "probability of not having reached the level", exact, ax, top=1.0)


@_of_dataset
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
    """
    per = _unit(run, "time")
    return _over_time(run, f"{name}_hazard", f"hazard [1/{per}]" if per else "hazard", exact, ax)


def _over_time(
    run: xarray.Dataset, name: str, along: str, exact: Any, ax: Axes | None, top: float | None = None
) -> Axes:
    """A variable of a Passage with its intervals."""
    values = _variable(run, name)
    if values.ndim != 1:
        raise ValueError(f"run: {name!r} has the dimensions {values.dims}; choose one entry first: run.isel(...)")
    limits, t, ax = interval(run, name), run[values.dims[0]].values, _axes(ax)
    ax.fill_between(t, limits["low"].values, limits["high"].values, color=SKY, alpha=0.4, lw=0, label="95 %")
    ax.plot(t, values.values, color=BLUE, lw=1.5, label="paths")
    if exact is not None:
        ax.plot(t, exact(t), color=ORANGE, lw=1.5, ls="--", label="exact")
    ax.set_ylim(bottom=0.0, top=top)
    return _finish(ax, run, "time", along, legend=True)


@_of_dataset
def profile(run: xarray.Dataset, name: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the profile of a likelihood, or the peaks of many responses from the bottom up: a profile of drifts.

    Parameters
    ----------
    run : Dataset
        A result of stodyn.fit with profiles; or a run that collected statistics.Extreme of several responses, such as
        the drifts of all floors, whose quantiles are drawn with ±2 standard errors.
    name : str, optional
        Of a fit, the parameter; left out, all of them, in standard errors from their estimates. Of a run, the name of
        the statistic, by default "peak".
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on. What lies above the dashed line at -1.92 is the interval of 95 %; the dotted parabola is the
        profile of a normal law, with the same estimate and standard error.

    Raises
    ------
    ValueError
        If the fit has no such profile; if the run has no such peaks, or those of one response only.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    >>> data = np.arange(1.0, 5.0), np.array([1.0, -1.0, 1.0, -1.0])
    >>> result = sd.fit(walk, data=data, sensors=sd.Sensor("y", of="x"), free={"s": (0, None)})
    >>> ax = sd.plot.profile(result, "s")
    """
    if "estimate" in run:
        return _profile_of_fit(run, name, _axes(ax))
    return _profile_of_peaks(run, "peak" if name is None else name, ax)


HALF_95 = 1.9207  # how far the logarithm of a profile falls to the ends of an interval of 95 %


def _profile_of_fit(result: xarray.Dataset, name: str | None, ax: Axes) -> Axes:
    if "profile" not in result:
        raise ValueError("run: this fit has no profiles; they are for up to six parameters, with profile=True")
    names = [str(own) for own in result["parameter"].values]
    if name is not None and name not in names:
        raise ValueError(f"name: there is no parameter {name!r}; there are {', '.join(names)}{suggestion(name, names)}")
    for own, colour in zip(names if name is None else [name], itertools.cycle(PALETTE), strict=False):
        one = result.sel(parameter=own, other=own)
        center, size = float(one["estimate"]), float(one["stderr"])
        x, drop = one["profile_value"].values, one["profile"].values
        place = int(np.searchsorted(x, center))
        x, drop = np.insert(x, place, center), np.insert(drop, place, 0.0)
        scaled = (x - center) / size if name is None else x
        ax.plot(scaled, drop, "o-", color=colour, lw=1.2, ms=3, label=own)
    ends = ax.get_xlim()
    grid = np.linspace(*ends, 200)
    ax.plot(grid, -0.5 * (grid if name is None else (grid - center) / size) ** 2, ":", color=GREY, label="normal law")
    ax.axhline(-HALF_95, color=GREY, lw=0.8, ls="--", label="95 %")
    ax.set(xlim=ends, ylim=(-5.0, 0.3))
    across = "standard errors from the estimate" if name is None else name
    return _finish(ax, None, across, "log-likelihood, from its maximum", legend=True)


def _profile_of_peaks(run: xarray.Dataset, name: str, ax: Axes | None) -> Axes:
    values, stderr = (_variable(run, f"{name}_quantile{ending}") for ending in ("", "_stderr"))
    entry = f"{name}_entry"
    if entry not in values.dims:
        raise ValueError(f"name: {name!r} is of one response; a profile needs several, such as those of all floors")
    ax, places = _axes(ax), np.arange(values.sizes[entry])
    for q, colour in zip(run[f"{name}_probability"].values, itertools.cycle(PALETTE), strict=False):
        own, error = (v.sel({f"{name}_probability": q}).values for v in (values, stderr))
        ax.errorbar(own, places, xerr=2.0 * error, color=colour, lw=1.2, marker="o", ms=3, label=f"{100 * q:g} %")
    labels = run[entry].values if entry in run.coords else places
    ax.set_yticks(places, [str(label) for label in labels])
    return _finish(ax, run, name, "response", legend=True)


def _by_entry(variable: xarray.DataArray, name: str) -> list[tuple[str, np.ndarray]]:
    """The names and values of each response of a variable of statistics.Extreme."""
    entry = f"{name}_entry"
    if entry not in variable.dims:
        return [(name, variable.values)]
    labels = variable[entry].values if entry in variable.coords else np.arange(variable.sizes[entry])
    return [(str(label), variable.isel({entry: i}).values) for i, label in enumerate(labels)]


@_of_dataset
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
        raise ValueError(_missing(run, "path"))
    ax = _axes(ax)
    for name in names:
        across, along = _pick(run, name, a), _pick(run, name, b)
        if name == "path":
            for k, (x, y) in enumerate(zip(_rows(across), _rows(along), strict=True)):
                ax.plot(x, y, color=GREY, lw=0.7, alpha=0.6, label=None if k else "paths")
        else:
            ax.plot(across, along, color=BLUE, lw=1.8, label="mean")
            ax.plot(across.values[0], along.values[0], "o", color=BLUE, ms=5, label="start of the mean")
    return _finish(ax, run, across, along, legend=True)


@_of_dataset
def spectrum(
    run: xarray.Dataset,
    component: str | None = None,
    *,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the power spectral density of a component with its confidence band, both axes logarithmic.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Spectrum.
    component : str, optional
        The name of the component; needed only where there are several.
    exact : callable, optional
        exact(frequency), drawn over it.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    power, low, high = (_pick(run, name, component) for name in ("spectrum", "spectrum_low", "spectrum_high"))
    frequency = power["frequency"].values
    positive = frequency > 0.0
    frequency = frequency[positive]
    ax = _axes(ax)
    level = power.attrs.get("confidence")
    label = "confidence band" if level is None else f"{100 * level:g} % confidence band"
    ax.fill_between(frequency, low.values[positive], high.values[positive], color=SKY, alpha=0.4, lw=0, label=label)
    ax.loglog(frequency, power.values[positive], color=BLUE, lw=1.2, label="spectrum")
    if exact is not None:
        ax.plot(frequency, exact(frequency), color=ORANGE, lw=1.5, ls="--", label="exact")
    unit, per = _unit(run, power), _unit(run, "time")
    across = f"frequency [1/{per}]" if per else "frequency"
    along = f"power spectral density [{_squared(unit)} {per}]" if unit and per else "power spectral density"
    return _finish(ax, run, across, along, legend=True)


@_of_dataset
def autocorrelation(
    run: xarray.Dataset,
    component: str | None = None,
    *,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the autocorrelation of a component over the lag, with ±2 standard errors.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Autocorrelation.
    component : str, optional
        The name of the component; needed only where there are several.
    exact : callable, optional
        exact(lag), drawn beside it.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    values, stderr = (_pick(run, name, component) for name in ("autocorrelation", "autocorrelation_stderr"))
    lag, ax = run["lag"].values, _axes(ax)
    low, high = values.values - 2.0 * stderr.values, values.values + 2.0 * stderr.values
    ax.fill_between(lag, low, high, color=SKY, alpha=0.4, lw=0, label="± 2 standard errors")
    ax.plot(lag, values.values, color=BLUE, lw=1.5, label="paths")
    if exact is not None:
        ax.plot(lag, exact(lag), color=ORANGE, lw=1.5, ls="--", label="exact")
    ax.axhline(0.0, color=GREY, lw=0.6, zorder=0)
    per = _unit(run, "time")
    return _finish(ax, run, f"lag [{per}]" if per else "lag", f"autocorrelation of {_name(values)}", legend=True)


@_of_dataset
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
    first = _pick(run, "sobol_first", component)
    t, parameters = _time(first), [str(name) for name in first["parameter"].values]
    shares = np.nan_to_num(first.transpose("parameter", _time_name(first)).values)
    if len(t) < 2:
        raise ValueError(
            "run: the indices are of one time, but bars over time need several; collect Surrogate(every=...)"
        )
    ax, below, width = _axes(ax), np.zeros(len(t)), np.diff(t).min()
    for name, share, colour in zip(parameters, shares, itertools.cycle(PALETTE), strict=False):
        ax.bar(t, share, 0.9 * width, bottom=below, color=colour, label=name)
        below = below + share
    ax.set_ylim(0.0, 1.0)
    return _finish(ax, run, "time", f"share of the variance of {_name(first)}", legend=True)


@_of_dataset
def transient_noise(run: xarray.Dataset, component: str) -> Axes:
    """Draw a waveform with its ±2σ band and, below it, σ over time with ±2 standard errors.

    The noise is often so much smaller than the signal that the band alone would not show it.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Moments.
    component : str
        The name of the component.

    Returns
    -------
    Axes
        The upper Axes of a new picture.
    """
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter

    _, (upper, lower) = pyplot.subplots(2, sharex=True, figsize=(6.4, 5.2), layout="constrained")
    only = run.drop_vars("path", errors="ignore")  # the band shows their spread; hundreds of paths would hide it
    band(only, component, ax=upper)
    upper.set_xlabel("")
    variance, stderr = (_pick(run, name, component).values for name in ("variance", "variance_stderr"))
    t, sigma = _time(_pick(run, "variance", component)), np.sqrt(variance)
    error = np.divide(stderr, 2.0 * sigma, out=np.zeros_like(sigma), where=sigma > 0.0)
    lower.fill_between(t, sigma - 2.0 * error, sigma + 2.0 * error, color=SKY, alpha=0.4, lw=0)
    lower.plot(t, sigma, color=BLUE, lw=1.5)
    _finish(lower, None, _label(run, "time"), f"σ of {_label(run, _pick(run, 'variance', component))}")
    lower.xaxis.set_major_formatter(EngFormatter())
    lower.yaxis.set_major_formatter(EngFormatter())
    low, high = upper.get_ylim()
    if high - low > 1e-3 * max(abs(low), abs(high)):  # otherwise an offset on the axis is clearer
        upper.yaxis.set_major_formatter(EngFormatter())
    return upper


@checks_arguments
def noise_density(
    sampled: tuple[np.ndarray, np.ndarray] | None = None,
    computed: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    unit: str = "V",
    ax: Axes | None = None,
) -> Axes:
    """Draw output noise as circuit designers read it: the root of the one-sided density over frequency, on log axes.

    Parameters
    ----------
    sampled, computed : pair of arrays, optional
        (frequency in Hz, density in unit²/Hz) from paths and from the small-signal analysis; either or both.
    unit : str
        The unit of the output: the vertical axis is in unit/√Hz.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.

    Raises
    ------
    TypeError
        If `sampled` or `computed` is not a pair.
    """
    from matplotlib.ticker import EngFormatter

    for name, pair in (("sampled", sampled), ("computed", computed)):
        if pair is not None and (not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2):
            raise TypeError(
                f"{name}: expected a pair (frequency, density) of arrays, got a {type(pair).__name__}; for example "
                "(noise.frequency, noise.density) with noise = circuit.noise_spectrum(node, frequencies)"
            )
    ax = _axes(ax)
    for density, color, style, label in ((sampled, BLUE, "-", "paths"), (computed, ORANGE, "--", "small-signal")):
        if density is not None:
            ax.loglog(density[0], np.sqrt(density[1]), style, color=color, lw=1.3, label=label)
    ax.xaxis.set_major_formatter(EngFormatter())
    ax.yaxis.set_major_formatter(EngFormatter())
    return _finish(ax, None, "frequency [Hz]", f"noise [{unit}/√Hz]", legend=True)


@_of_dataset
def phase_noise(result: xarray.Dataset, *, ax: Axes | None = None) -> Axes:
    """Draw L(f) of an oscillator in dBc/Hz over the offset from the carrier, with the half-width of its line marked.

    Parameters
    ----------
    result : Dataset
        A result of `analysis.phase_noise`.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    from matplotlib.ticker import EngFormatter

    _expect_phase_noise(result)
    ax = _axes(ax)
    f, L = result["offset"].values, 10.0 * np.log10(result["L"].values)
    corner, f0 = float(result["corner"]), result.attrs["harmonic"] * float(result["frequency0"])
    slope = 10.0 * np.log10(f0**2 * float(result["c"]) / f**2)
    ax.semilogx(f, L, color=BLUE, lw=1.6, label=f"L of {result.attrs['node']}")
    ax.semilogx(f, slope, color=GREY, lw=0.9, ls="--", label="white noise, -20 dB/decade")
    if f[0] < corner < f[-1]:
        ax.axvline(corner, color=ORANGE, lw=0.9, label="half-width of the line")
    low, high = float(L.min()), float(L.max())
    ax.set_ylim(low - 5.0, high + 10.0)
    ax.xaxis.set_major_formatter(EngFormatter())
    return _finish(ax, None, "offset [Hz]", "phase noise [dBc/Hz]", legend=True)


@_of_dataset
def cycle(result: xarray.Dataset, node: str | None = None) -> Axes:
    """Draw one period of an oscillator: a waveform and, below it, the squared effect of each noise source on the phase.

    Parameters
    ----------
    result : Dataset
        A result of `analysis.phase_noise`.
    node : str, optional
        The component whose waveform is drawn; the output by default.

    Returns
    -------
    Axes
        The upper Axes of a new picture.
    """
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter

    _expect_phase_noise(result)
    node = result.attrs["node"] if node is None else node
    _, (upper, lower) = pyplot.subplots(2, sharex=True, figsize=(6.4, 5.2), layout="constrained")
    t, unit = result["time"].values, result.attrs["time_unit"]
    upper.plot(t, result["x"].isel(component=_component_number(result, node, "node")).values, color=BLUE, lw=1.6)
    _finish(upper, None, "", node)
    strength = result["kick"].values ** 2
    loudest = np.argsort(-strength.mean(axis=0))[: len(PALETTE)]
    for color, k in zip(PALETTE, loudest, strict=False):
        label = f"{result['source'].values[k]}, {float(result['c_by_source'][k] / result['c']):.0%} of c"
        lower.plot(t, strength[:, k], color=color, lw=1.3, label=label)
    _finish(lower, None, f"time [{unit}]" if unit else "time", "(vᵀg)² of each source", legend=True)
    lower.xaxis.set_major_formatter(EngFormatter())
    return upper


@_of_dataset
def jitter(result: xarray.Dataset, ends: np.ndarray | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw how the variance of the end of the k-th period grows with k, and c T k beside it.

    Parameters
    ----------
    result : Dataset
        A result of `analysis.phase_noise`.
    ends : array (paths, periods), optional
        The times at which paths crossed the threshold, drawn with ±2 standard errors.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    _expect_phase_noise(result)
    ax = _axes(ax)
    k, variance = result["periods"].values, result["accumulated"].values
    shown = len(k) if ends is None else min(len(k), ends.shape[1] - 1)
    ax.plot(k[:shown], variance[:shown], color=BLUE, lw=1.6, label="threshold crossings, computed")
    ax.plot(k[:shown], k[:shown] * float(result["c"] * result["period"]), color=GREY, lw=1.0, ls="--", label="c T k")
    if ends is not None:
        sampled = np.var(ends[:, 1:] - ends[:, :1], axis=0, ddof=1)[:shown]
        error = 2.0 * sampled * np.sqrt(2.0 / len(ends))
        ax.errorbar(k[:shown], sampled, error, fmt="o", color=ORANGE, ms=4, lw=1, label="paths")
    unit = result.attrs["time_unit"]
    return _finish(ax, None, "period k", f"variance of its end [{unit}²]" if unit else "variance of its end", True)


@_of_dataset
def cyclostationary(result: xarray.Dataset, component: str, *, ax: Axes | None = None) -> Axes:
    """Draw a waveform of a driven system over its period with the ±2σ band of its noise.

    Parameters
    ----------
    result : Dataset
        A result of `cyclostationary.covariance`.
    component : str
        The name of the component.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The Axes drawn on.
    """
    ax = _axes(ax)
    t, x, σ = (result[name].values for name in ("phase", "x", "deviation"))
    i = _component_number(result, component)
    ax.fill_between(t, x[:, i] - 2.0 * σ[:, i], x[:, i] + 2.0 * σ[:, i], color=SKY, alpha=0.4, lw=0, label="±2σ")
    ax.plot(t, x[:, i], color=BLUE, lw=1.5, label=component)
    return _finish(ax, None, "phase", component, legend=True)


@_of_dataset
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
    ax = _axes(ax)
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
    return _finish(ax, study, "step size h", along, legend=True, title=str(study.attrs.get("model", "")))


@_of_dataset
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
    ax = _axes(ax)
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
    return _finish(ax, None, "processor time per path [µs]", f"error, {of}", legend=True, title=title)


def _steps(study: xarray.Dataset) -> str:
    return f"{float(study['dt'].max()):g} to {float(study['dt'].min()):g}"


@_of_dataset
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
    ax = _axes(ax)
    parts = [_pick(split, name, component) for name in ("variance_parameters", "variance_noise")]
    values = np.maximum([part.values for part in parts], 0.0)
    ax.stackplot(_time(parts[0]), values, colors=(SKY, ORANGE), labels=("by parameters", "by noise"), alpha=0.8)
    unit = _unit(split, parts[0])
    along = f"variance of {component} [{_squared(unit)}]" if unit else f"variance of {component}"
    return _finish(ax, split, "time", along, legend=True)


@_of_dataset
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
    dims = _swept(runs)
    if not dims:
        raise ValueError("runs: not a sweep; make one with stodyn.sweep(problem, over={...}, ...)")
    if len(dims) > 2:
        raise ValueError(f"runs: swept over {', '.join(dims)}; choose all but two first: runs.sel({dims[0]}=...)")
    values, errors = (_one_number(runs, which, component, time, dims) for which in (name, f"{name}_stderr"))
    when = f"t = {float(_time(values)):g} {_unit(runs, 'time')}".rstrip() if _has_time(values) else ""
    label = name if _name(values) == name else f"{name} of {_label(runs, values) if name == 'mean' else _name(values)}"
    ax = _axes(ax)
    if len(dims) == 1:
        x = runs[dims[0]].values
        across = x if x.dtype.kind in "if" else np.arange(len(x))
        low, high = values.values - 2.0 * errors.values, values.values + 2.0 * errors.values
        ax.fill_between(across, low, high, color=SKY, alpha=0.4, lw=0, label="± 2 standard errors")
        ax.plot(across, values.values, "o-", color=BLUE, lw=1.5, ms=4, label=name)
        if across is not x:
            ax.set_xticks(across, list(map(str, x)))
        return _finish(ax, runs, _label(runs, dims[0]), label, legend=True, title=when)
    x, y = (runs[dim].values for dim in dims)
    picture = ax.pcolormesh(x, y, values.transpose(dims[1], dims[0]).values, cmap="viridis", shading="nearest")
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(picture, ax=ax, label=label)
    error = f"largest standard error {float(errors.max()):.2g}"
    title = f"{when}, {error}" if when else error
    _finish(ax, runs, _label(runs, dims[0]), _label(runs, dims[1]), title=title)
    ax.grid(False)
    return ax


def _swept(run: xarray.Dataset) -> list[str]:
    """Return the dimensions of a sweep along which no point has been chosen; none for a single run."""
    record = json.loads(run.attrs.get("provenance", "{}"))
    return [dim for dim in record.get("sweep", {}).get("dimensions", ()) if dim in run.dims]


def _one_number(
    runs: xarray.Dataset, name: str, component: str | None, time: float | None, dims: Sequence[str]
) -> xarray.DataArray:
    """Return a variable of a sweep at one time and for one component."""
    variable = _variable(runs, name)
    if "component" in variable.dims:
        variable = variable.isel(component=_component_number(runs, component))
    variable = _at(variable, time)
    if set(variable.dims) - set(dims):
        more = next(str(dim) for dim in variable.dims if dim not in dims)
        raise ValueError(f"name: {name!r} has the dimension {more} too; choose one entry first: runs.isel({more}=0)")
    return variable


@_of_dataset
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
    means.set(xlabel="steps", ylabel="of a level")
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
    ax = _axes(ax)
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
    return _finish(ax, None, labels[0], labels[1], legend=label is not None)


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
    ax = _axes(ax)
    ax.plot(entries.coords[1], entries.coords[0], "s", color=BLUE, ms=max(0.5, 200.0 / max(rows, columns)), mew=0)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    _finish(ax, None, f"{entries.nnz} of {rows} x {columns} entries", "")
    ax.grid(False)
    return ax


# --- shared by all pictures ------------------------------------------------------------------------------------------

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


def _missing(run: xarray.Dataset, name: str) -> str:
    how = f"statistics.{COLLECT[name]}" if name in COLLECT else f"statistics.Observable(function, name={name!r})"
    if "coefficient" in run and name.startswith("density"):
        how = "statistics.Surrogate(density=40)"
    have = ", ".join(map(str, run.data_vars)) or "nothing"
    return f"run: has no {name!r} (it has {have}). Collect it: simulate(..., collect=[{how}])"


def _variable(run: xarray.Dataset, name: str) -> xarray.DataArray:
    if name not in run.variables:
        raise ValueError(_missing(run, name))
    return run[name]


def _pick(run: xarray.Dataset, name: str, component: str | None) -> xarray.DataArray:
    """Return a variable of the run for one component."""
    variable = _variable(run, name)
    swept = _swept(run)
    if swept:
        raise ValueError(
            f"run: a sweep over {', '.join(swept)}; draw it with plot.sweep(run, {name!r}), or choose a point first: "
            f"run.isel({swept[0]}=0)"
        )
    return variable.isel(component=_component_number(run, component))


def _expect_phase_noise(result: Any) -> None:
    """Refuse what is not a result of analysis.phase_noise."""
    if not all(name in getattr(result, "variables", ()) for name in ("offset", "L", "c", "periods", "accumulated")):
        raise ValueError(
            "result: expected a result of analysis.phase_noise(problem, node, ...), got another "
            f"{type(result).__name__}"
        )


def _component_number(run: xarray.Dataset, component: str | None, argument: str = "component") -> int:
    known = [str(c) for c in np.atleast_1d(run["component"].values)]
    if component is None and len(known) > 1:
        raise ValueError(f"{argument}: choose one of {', '.join(known)}")
    if component is not None and component not in known:
        raise ValueError(
            f"{argument}: unknown component {component!r}; the components are {', '.join(known)}"
            f"{suggestion(component, known)}"
        )
    return 0 if component is None else known.index(component)


def _has_time(variable: xarray.DataArray) -> bool:
    return any(str(name).startswith("time") for name in (*variable.dims, *variable.coords))


def _time_name(variable: xarray.DataArray) -> str:
    """Return `time`, or `time_path` and the like where a statistic has times of its own."""
    return next(str(name) for name in (*variable.dims, *variable.coords) if str(name).startswith("time"))


def _time(variable: xarray.DataArray) -> np.ndarray:
    return variable[_time_name(variable)].values


def _at(variable: xarray.DataArray, time: float | None) -> xarray.DataArray:
    if not _has_time(variable):
        if time is not None:
            raise ValueError(f"time: {variable.name} is one number for a whole run; leave time out")
        return variable
    times = _time(variable)
    nearest = -1 if time is None else int(np.argmin(np.abs(times - time)))
    if time is not None and abs(times[nearest] - time) > 1e-9 * max(1.0, abs(time)):
        raise ValueError(f"time: nothing was stored at {time:g}; the nearest stored time is {times[nearest]:g}")
    return variable.isel({_time_name(variable): nearest})


def _rows(paths: xarray.DataArray) -> np.ndarray:
    """(paths, times)."""
    return paths.transpose(..., _time_name(paths)).values


def _unit(run: xarray.Dataset | None, what: xarray.DataArray | str) -> str:
    """Return the unit in the attribute `units` of the run or variable: a unit, or component -> unit, also as JSON."""
    if run is None:
        return ""
    variable = (run[what] if what in run.variables else None) if isinstance(what, str) else what
    for owner in (run, variable):
        units = {} if owner is None else owner.attrs.get("units", {})
        if isinstance(units, str) and units.startswith("{"):
            units = json.loads(units)
        unit = units.get(_name(what), "") if isinstance(units, Mapping) else units
        if unit:
            return str(unit)
    return ""


def _name(what: xarray.DataArray | str) -> str:
    if isinstance(what, str):
        return what
    return str(what["component"].item() if "component" in what.coords else what.name)


def _squared(unit: str) -> str:
    return f"{unit}²" if unit.isalpha() else f"({unit})²"


def _label(run: xarray.Dataset | None, what: xarray.DataArray | str) -> str:
    unit = _unit(run, what)
    return f"{_name(what)} [{unit}]" if unit else _name(what)


def _draw_paths(
    ax: Axes, run: xarray.Dataset, component: str | None, colors: Sequence[str] = (GREY,), alpha: float = 0.5
) -> None:
    shown = _pick(run, "path", component)
    for i, row in enumerate(_rows(shown)):
        color = colors[i % len(colors)]
        ax.plot(_time(shown), row, color=color, lw=0.7, alpha=alpha, label="paths" if i == 0 else None)


def _draw_mean(ax: Axes, t: np.ndarray, mean: np.ndarray, stderr: np.ndarray) -> None:
    ax.fill_between(t, mean - 2.0 * stderr, mean + 2.0 * stderr, color=BLUE, alpha=0.4, lw=0)
    ax.plot(t, mean, color=BLUE, lw=1.8, label="mean")


def _axes(ax: Axes | None) -> Axes:
    if ax is None:
        from matplotlib import pyplot  # takes half a second to import; needs no display until a window is shown

        ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    if not hasattr(ax, "plot"):
        raise TypeError(f"ax: expected Axes, such as matplotlib.pyplot.subplots()[1], got {type(ax).__name__}")
    return ax


def _title(run: xarray.Dataset | None, begun: str) -> str:
    """Return a title: the beginning that the picture gives, then the method, the step and the paths of the run."""
    record = json.loads(run.attrs.get("provenance", "{}")) if run is not None else {}
    parts = [begun] if begun else []
    if "method" in record:
        parts.append(str(record["method"]).partition("(")[0])
        if isinstance(record.get("dt"), float):
            parts.append(f"dt = {record['dt']:g} {_unit(run, 'time')}".rstrip())
        elif "steps" in record:
            parts.append(f"{record['steps']:,} steps")
        if "paths" in record:
            parts.append(f"{record['paths']:,} paths")
    return ", ".join(parts)


def _finish(
    ax: Axes, run: xarray.Dataset | None, across: Any, along: Any, legend: bool = False, title: str = ""
) -> Axes:
    """Label the axes, and put the legend between the picture and its title, where it hides nothing."""
    ax.set(xlabel=_label(run, across), ylabel=_label(run, along))
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
    whole = _title(run, title)
    if whole:
        ax.set_title(whole, fontsize="medium", pad=6.0 + 15.0 * rows)
    return ax
