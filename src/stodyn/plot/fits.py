"""Pictures of records, filters and fits: Allan deviations, filtered states, bands of prediction, profiles."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from stodyn.arguments import checks_arguments, suggestion
from stodyn.plot.shared import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PURPLE,
    SKY,
    axes_for,
    entry_names,
    finish,
    label_of,
    of_dataset,
    picked,
    times_of,
    variable_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax = axes_for(ax)
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


FEW = 50  # times that are marked, as the lines between them are straight


@of_dataset
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
        The upper Axes of a new picture. Of a right model, 95 % of the innovations lie between the dashed lines. Up to
        50 times have marks: the lines between them are straight, whatever the state does.

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
    mean = picked(result, "mean", component)
    own = str(mean["component"].values)
    spread = 2.0 * np.sqrt(result["covariance"].sel(component=own, other=own).values)
    _, (upper, lower) = pyplot.subplots(
        2, sharex=True, figsize=(6.4, 5.2), layout="constrained", height_ratios=(2.0, 1.0)
    )
    t = times_of(mean)
    upper.fill_between(t, mean.values - spread, mean.values + spread, color=SKY, alpha=0.4, lw=0, label="mean ± 2σ")
    few = "o" if len(t) <= FEW else None
    upper.plot(t, mean.values, color=BLUE, lw=1.2, marker=few, ms=3, label="mean")
    times, sensors = result["reading_time"].values, result["sensor"].values
    for sensor, colour in zip(dict.fromkeys(sensors), itertools.cycle(PALETTE[1:]), strict=False):
        mine, reads = sensors == sensor, (sensors == sensor) & (result["reads"].values == own)
        if reads.any():
            upper.plot(times[reads], result["reading_observed"].values[reads], ".", color=colour, ms=4, label=sensor)
        scaled = (result["innovation"] / result["innovation_sd"]).values
        lower.plot(times[mine], scaled[mine], ".", color=colour, ms=4, label=sensor)
    for end in (-2.0, 2.0):
        lower.axhline(end, color=GREY, lw=0.8, ls="--")
    finish(lower, None, label_of(result, "time"), "innovation / σ")
    finish(upper, result, "time", mean, legend=True)
    upper.set_xlabel("")
    return upper


@of_dataset
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
    from matplotlib.ticker import LogLocator

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
    unit = json.loads(result["reading_observed"].attrs.get("units", "{}")).get(own)
    finish(upper, result, "time", f"{own} [{unit}]" if unit else own, legend=True)
    one = result.sel(output=own)
    _scaled_summaries(left, one)
    _beside(right, one["frequency"].values, *_bands(one, "spectrum"))
    right.set(xscale="log", yscale="log")
    right.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))  # more labels than these run into each other
    finish(right, None, "frequency", "spectral density")
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
    finish(ax, None, "", "")


@of_dataset
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
        return _profile_of_fit(run, name, axes_for(ax))
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
    return finish(ax, result, across, "log-likelihood, from its maximum", legend=True)


def _profile_of_peaks(run: xarray.Dataset, name: str, ax: Axes | None) -> Axes:
    values, stderr = (variable_of(run, f"{name}_quantile{ending}") for ending in ("", "_stderr"))
    entry = f"{name}_entry"
    if entry not in values.dims:
        raise ValueError(f"name: {name!r} is of one response; a profile needs several, such as those of all floors")
    ax, places = axes_for(ax), np.arange(values.sizes[entry])
    for q, colour in zip(run[f"{name}_probability"].values, itertools.cycle(PALETTE), strict=False):
        own, error = (v.sel({f"{name}_probability": q}).values for v in (values, stderr))
        ax.errorbar(own, places, xerr=2.0 * error, color=colour, lw=1.2, marker="o", ms=3, label=f"{100 * q:g} %")
    ax.set_yticks(places, entry_names(values, name))
    return finish(ax, run, name, "", legend=True)
