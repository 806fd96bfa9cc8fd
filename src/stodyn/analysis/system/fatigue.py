"""Fatigue: rainflow counts of records, Miner's damage, and damage rates of Gaussian stresses from spectral moments.

For a stationary Gaussian stress with the moments λ0, λ1, λ2, λ4 of its one-sided density over ω,

    narrow band   ν0 E 1/N, amplitudes by Rayleigh's law: for N = K S^-m  ν0 K⁻¹ (√2 σ)^m Γ(1 + m/2), ν0 = √(λ2/λ0)/2π
    Dirlik        νp E 1/N, amplitudes/σ by D1 Exp(Q) + D2 Rayleigh(R) + D3 Rayleigh(1),                νp = √(λ4/λ2)/2π
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.analysis.system.structures import SpectralMoments, spectral_moments
from stodyn.arguments import checks_arguments
from stodyn.numerics.fatigue import Cycles, SNCurve, curve_of, cycles_of

__all__ = ["Cycles", "SNCurve", "damage", "dirlik", "narrow_band", "rainflow", "spectral_moments"]
__dir__ = listing.names_of(__name__)

NARROW = 1e-6  # 1 - γ, below which Dirlik's law is Rayleigh's but for rounding


@checks_arguments
def rainflow(record: ArrayLike) -> Cycles:
    """Count the rainflow cycles of a record, or of several (ASTM E1049): full ones, and the rest as half cycles.

    Parameters
    ----------
    record : array (times,) or (times, records)
        Values one after the other; they need not be turning points. Of a DataArray such as run["path"].sel(component=
        "x0") of `st.Paths` the dimension time is taken, wherever it stands.

    Returns
    -------
    Cycles
        The arrays series (the number of the record), range, mean, and counts (1, or ½ for half a cycle).

    Raises
    ------
    ValueError
        If the record is not one of finite numbers.
    TypeError
        If it is complex.

    Examples
    --------
    >>> from stodyn.analysis import fatigue
    >>> cycles = fatigue.rainflow([-2, 1, -3, 5, -1, 3, -4, 4, -2])
    >>> float(cycles.counts[cycles.range == 4].sum())
    1.5
    """
    return cycles_of(_columns(record))


def _columns(record: Any) -> np.ndarray:
    """A record as (times, records), the times of a DataArray first."""
    if isinstance(record, xr.DataArray) and "time" in record.dims:
        record = record.transpose("time", ...)
    if np.iscomplexobj(record):
        raise TypeError("record: expected real numbers, got complex ones")
    values = np.asarray(record, float)
    if values.ndim not in (1, 2) or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(
            f"record: expected finite numbers (times,) or (times, records), got shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with numbers that are not finite'}"
        )
    return values.reshape(len(values), -1)


@checks_arguments
def damage(record: ArrayLike | Cycles, curve: Any) -> np.ndarray:
    """Return Miner's damage Σ n/N of a record, or of several; failure is at 1.

    Parameters
    ----------
    record : array (times,) or (times, records), or Cycles
        A record, or the counts of `rainflow`, which hold nothing of records without a cycle behind the last one.
    curve : (K, m) or SNCurve
        The cycles to failure; (K, m) is N = K S^-m with S the amplitude.

    Returns
    -------
    array, (records,)
    """
    if isinstance(record, Cycles):
        cycles, records = record, 1
    else:
        columns = _columns(record)
        cycles, records = cycles_of(columns), columns.shape[1]
    return np.bincount(cycles.series, cycles.counts * curve_of(curve).damage(cycles.range), records)


@checks_arguments
def narrow_band(moments: Sequence[float], curve: Any) -> float:
    """Return the damage per unit of time of a narrow-band Gaussian stress: a cycle at each zero crossing, amplitudes by
    Rayleigh's law.

    For a wider spectrum it is on the safe side.

    Parameters
    ----------
    moments : SpectralMoments or (λ0, λ1, λ2, ...)
        As `spectral_moments` gives them, of the one-sided density over radians per unit of time.
    curve : (K, m) or SNCurve
        The cycles to failure.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If λ0 or λ2 is not a finite number > 0.
    """
    λ0, _, λ2 = _known(moments, 3, "narrow_band")
    return math.sqrt(λ2 / λ0) / (2.0 * math.pi) * curve_of(curve).mean_damage(math.sqrt(2.0 * λ0), 2.0)


@checks_arguments
def dirlik(moments: Sequence[float], curve: Any) -> float:
    """Return the damage per unit of time of a Gaussian stress of any bandwidth, by Dirlik's law of rainflow ranges.

    T. Dirlik, Application of computers in fatigue analysis (Warwick, 1985): fitted to simulated rainflow counts, and
    good to some per cent for most spectra. Compare it with `st.Rainflow`.

    Parameters
    ----------
    moments : SpectralMoments or (λ0, λ1, λ2, λ4)
        As `spectral_moments` gives them, of the one-sided density over radians per unit of time.
    curve : (K, m) or SNCurve
        The cycles to failure.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a moment is not a finite number > 0, as λ4 where white noise enters the second derivative of the stress, or
        if no spectrum has these moments.
    """
    λ0, λ1, λ2, λ4 = _known(moments, 4, "dirlik")
    γ, narrowness = λ2 / math.sqrt(λ0 * λ4), λ1 / math.sqrt(λ0 * λ2)
    if max(γ, narrowness) > 1.0 + NARROW:
        raise ValueError(
            f"moments: no spectrum has them: λ1² <= λ0 λ2 and λ2² <= λ0 λ4 hold for every one, got λ1²/(λ0 λ2) = "
            f"{narrowness**2:.4g} and λ2²/(λ0 λ4) = {γ**2:.4g}; expected λ0, λ1, λ2, λ4 in this order"
        )
    if 1.0 - γ < NARROW:
        return narrow_band(moments, curve)
    law, σ = curve_of(curve), math.sqrt(λ0)
    x = λ1 / λ0 * math.sqrt(λ2 / λ4)
    D1 = 2.0 * (x - γ**2) / (1.0 + γ**2)
    left = 1.0 - γ - D1 + D1**2
    R = (γ - x - D1**2) / left
    D2 = left / (1.0 - R)
    D3 = 1.0 - D1 - D2
    Q = 1.25 * (γ - D3 - D2 * R) / D1
    parts = D1 * law.mean_damage(σ * Q, 1.0), D2 * law.mean_damage(σ * abs(R) * math.sqrt(2.0), 2.0)
    rate = math.sqrt(λ4 / λ2) / (2.0 * math.pi)
    return rate * (sum(parts) + D3 * law.mean_damage(σ * math.sqrt(2.0), 2.0))


def _known(moments: Any, count: int, who: str) -> tuple[float, ...]:
    """The first moments, as many as are needed; refuse others in words."""
    if not isinstance(moments, SpectralMoments):
        moments = tuple(float(λ) for λ in moments)
    names = ("λ0", "λ1", "λ2", "λ4")[:count]
    if len(moments) < count:
        raise ValueError(f"moments: expected {', '.join(names)}, got {len(moments)} numbers")
    for name, λ in zip(names, moments, strict=False):
        if not 0.0 < λ < math.inf:
            why = "; white noise enters the second derivative of the stress, whose variance is not finite: take " \
                  "narrow_band, count cycles with st.Rainflow, or give the load a spectrum that falls off"  # fmt: skip
            raise ValueError(
                f"moments: {who} needs a finite {name} > 0, got {λ:g}{why if name == 'λ4' and λ == math.inf else ''}"
            )
    return tuple(moments[:count])
