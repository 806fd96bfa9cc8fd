"""Pictures over frequency and lag: spectra, autocorrelations and the noise of circuits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import xarray

from stodyn.arguments import checks_arguments
from stodyn.plot.runs import band
from stodyn.plot.shared import (
    BLUE,
    GREY,
    ORANGE,
    SKY,
    axes_for,
    finish,
    label_of,
    name_of,
    of_dataset,
    picked,
    squared,
    times_of,
    unit_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_dataset
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
    power, low, high = (picked(run, name, component) for name in ("spectrum", "spectrum_low", "spectrum_high"))
    frequency = power["frequency"].values
    positive = frequency > 0.0
    frequency = frequency[positive]
    ax = axes_for(ax)
    level = power.attrs.get("confidence")
    label = "confidence band" if level is None else f"{100 * level:g} % confidence band"
    ax.fill_between(frequency, low.values[positive], high.values[positive], color=SKY, alpha=0.4, lw=0, label=label)
    ax.loglog(frequency, power.values[positive], color=BLUE, lw=1.2, label="spectrum")
    if exact is not None:
        ax.plot(frequency, exact(frequency), color=ORANGE, lw=1.5, ls="--", label="exact")
    unit, per = unit_of(run, power), unit_of(run, "time")
    across = f"frequency [1/{per}]" if per else "frequency"
    along = f"power spectral density [{squared(unit)} {per}]" if unit and per else "power spectral density"
    return finish(ax, run, across, along, legend=True)


@of_dataset
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
    values, stderr = (picked(run, name, component) for name in ("autocorrelation", "autocorrelation_stderr"))
    lag, ax = run["lag"].values, axes_for(ax)
    low, high = values.values - 2.0 * stderr.values, values.values + 2.0 * stderr.values
    ax.fill_between(lag, low, high, color=SKY, alpha=0.4, lw=0, label="± 2 standard errors")
    ax.plot(lag, values.values, color=BLUE, lw=1.5, label="paths")
    if exact is not None:
        ax.plot(lag, exact(lag), color=ORANGE, lw=1.5, ls="--", label="exact")
    ax.axhline(0.0, color=GREY, lw=0.6, zorder=0)
    per = unit_of(run, "time")
    return finish(ax, run, f"lag [{per}]" if per else "lag", f"autocorrelation of {name_of(values)}", legend=True)


@of_dataset
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
    variance, stderr = (picked(run, name, component).values for name in ("variance", "variance_stderr"))
    t, sigma = times_of(picked(run, "variance", component)), np.sqrt(variance)
    error = np.divide(stderr, 2.0 * sigma, out=np.zeros_like(sigma), where=sigma > 0.0)
    lower.fill_between(t, sigma - 2.0 * error, sigma + 2.0 * error, color=SKY, alpha=0.4, lw=0)
    lower.plot(t, sigma, color=BLUE, lw=1.5)
    finish(lower, None, label_of(run, "time"), f"σ of {label_of(run, picked(run, 'variance', component))}")
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
    ax = axes_for(ax)
    for density, color, style, label in ((sampled, BLUE, "-", "paths"), (computed, ORANGE, "--", "small-signal")):
        if density is not None:
            ax.loglog(density[0], np.sqrt(density[1]), style, color=color, lw=1.3, label=label)
    ax.xaxis.set_major_formatter(EngFormatter())
    ax.yaxis.set_major_formatter(EngFormatter())
    return finish(ax, None, "frequency [Hz]", f"noise [{unit}/√Hz]", legend=True)
