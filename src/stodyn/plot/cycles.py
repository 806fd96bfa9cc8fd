"""Pictures of oscillators: the cycle, its phase noise, jitter and cyclostationary noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from stodyn.plot.shared import BLUE, GREY, ORANGE, PALETTE, SKY, axes_for, component_number, finish, of_dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_dataset
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
    ax = axes_for(ax)
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
    return finish(ax, result, "offset [Hz]", "phase noise [dBc/Hz]", legend=True)


@of_dataset
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
    upper.plot(t, result["x"].isel(component=component_number(result, node, "node")).values, color=BLUE, lw=1.6)
    finish(upper, result, "", node)
    strength = result["kick"].values ** 2
    loudest = np.argsort(-strength.mean(axis=0))[: len(PALETTE)]
    for color, k in zip(PALETTE, loudest, strict=False):
        label = f"{result['source'].values[k]}, {float(result['c_by_source'][k] / result['c']):.0%} of c"
        lower.plot(t, strength[:, k], color=color, lw=1.3, label=label)
    finish(lower, None, f"time [{unit}]" if unit else "time", "(vᵀg)² of each source", legend=True)
    lower.xaxis.set_major_formatter(EngFormatter())
    return upper


@of_dataset
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
    ax = axes_for(ax)
    k, variance = result["periods"].values, result["accumulated"].values
    shown = len(k) if ends is None else min(len(k), ends.shape[1] - 1)
    ax.plot(k[:shown], variance[:shown], color=BLUE, lw=1.6, label="threshold crossings, computed")
    ax.plot(k[:shown], k[:shown] * float(result["c"] * result["period"]), color=GREY, lw=1.0, ls="--", label="c T k")
    if ends is not None:
        sampled = np.var(ends[:, 1:] - ends[:, :1], axis=0, ddof=1)[:shown]
        error = 2.0 * sampled * np.sqrt(2.0 / len(ends))
        ax.errorbar(k[:shown], sampled, error, fmt="o", color=ORANGE, ms=4, lw=1, label="paths")
    unit = result.attrs["time_unit"]
    return finish(ax, result, "period k", f"variance of its end [{unit}²]" if unit else "variance of its end", True)


@of_dataset
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
    ax = axes_for(ax)
    t, x, σ = (result[name].values for name in ("phase", "x", "deviation"))
    i = component_number(result, component)
    ax.fill_between(t, x[:, i] - 2.0 * σ[:, i], x[:, i] + 2.0 * σ[:, i], color=SKY, alpha=0.4, lw=0, label="±2σ")
    ax.plot(t, x[:, i], color=BLUE, lw=1.5, label=component)
    return finish(ax, None, "phase", component, legend=True)


def _expect_phase_noise(result: Any) -> None:
    """Refuse what is not a result of analysis.phase_noise."""
    if not all(name in getattr(result, "variables", ()) for name in ("offset", "L", "c", "periods", "accumulated")):
        raise ValueError(
            "result: expected a result of analysis.phase_noise(problem, node, ...), got another "
            f"{type(result).__name__}"
        )
