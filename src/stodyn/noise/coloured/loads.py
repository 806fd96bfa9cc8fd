"""Spectra of loads on structures: filtered ground motion, wind, waves and roads, each as a filter of white noise.

A density is given the way its own field writes it; `Coloured.spectrum` is two-sided in cycles per unit of time, so that

    one-sided in cycles  G(f) = 2 S(f),    two-sided in radians  S(ω) = S(f)/2π,    one-sided in radians  G(ω) = S(f)/π

at f = ω/2π. The variance is ∫ G(f) df over f > 0.
"""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import check_positive, checks_arguments
from stodyn.noise.coloured.filters import gauss_markov, warn_of_percents
from stodyn.noise.coloured.fit import fitted
from stodyn.noise.coloured.points import relaxing
from stodyn.noise.coloured.process import Coloured
from stodyn.warnings import SpectrumNotMet

ROADS = dict(zip("ABCDEFGH", (16e-6 * 4.0**k for k in range(8)), strict=True))  # m³ at 0.1 cycles/m, ISO 8608
REFERENCE = 0.1  # cycles/m
WIND_BAND = (1e-3, 1e2)  # of f L/U: where the filters of wind meet their spectra
WAVE_BAND = (0.6, 2.5)  # of ω/ω_p: where the filters of waves meet theirs
WAVE_TOLERANCE = 0.5  # dB


# --- earthquakes ------------------------------------------------------------------------------------------------------


@checks_arguments
def clough_penzien(
    omega: float,
    zeta: float,
    omega_f: float,
    zeta_f: float,
    *,
    sigma: float | None = None,
    S0: float | None = None,
    name: str = "ground",
) -> Coloured:
    """Make the ground acceleration of an earthquake after which the ground rests: Kanai-Tajimi's, high-pass filtered.

    Kanai and Tajimi's spectrum has an acceleration at ω = 0, and the ground runs away; the second filter removes it:

        S(ω) = S0 (ω_g⁴ + 4 ζ_g² ω_g² ω²)/((ω_g² - ω²)² + 4 ζ_g² ω_g² ω²) · ω⁴/((ω_f² - ω²)² + 4 ζ_f² ω_f² ω²).

    Parameters
    ----------
    omega, zeta : float
        Frequency ω_g in radians per unit of time, and damping ratio ζ_g, of the layer of soil.
    omega_f, zeta_f : float
        Those of the second filter; usually ω_f is about a tenth of ω_g.
    sigma, S0 : float
        One of the two: the standard deviation of the ground's acceleration, or the two-sided density of the bedrock in
        radians per unit of time.
    name : str
        The name of the output.

    Returns
    -------
    Coloured
        With four states.

    Raises
    ------
    ValueError
        If not exactly one of `sigma` and `S0` is passed, or a number is not above 0.

    References
    ----------
    R. W. Clough & J. Penzien, Dynamics of Structures (1975).

    Examples
    --------
    >>> import stodyn as sd
    >>> ground = sd.noise.coloured.clough_penzien(15.0, 0.6, 1.5, 0.6, sigma=2.0)
    >>> ground.variance.round(9)
    array([4.])
    """
    check_positive(omega=omega, zeta=zeta, omega_f=omega_f, zeta_f=zeta_f)
    warn_of_percents(omega=omega, zeta=zeta)
    warn_of_percents(omega_f=omega_f, zeta_f=zeta_f)
    if (sigma is None) == (S0 is None):
        raise ValueError(f"sigma, S0: expected one of the two, got sigma={sigma!r} and S0={S0!r}")
    soil, rest = omega * np.array([1.0, 2.0 * zeta]), omega_f * np.array([1.0, 2.0 * zeta_f])
    # States: ω x and x' of the layer, and of an oscillator that the layer's acceleration drives; the acceleration of
    # that oscillator is the layer's less the forces of its spring and damper.
    A = np.zeros((4, 4))
    A[0, 1], A[2, 3] = omega, omega_f
    A[1, :2], A[3, :2], A[3, 2:] = -soil, soil, -rest
    C = np.concatenate([soil, -rest])[None]
    unit = Coloured(A, [[0.0], [1.0], [0.0], [0.0]], C, name)
    if S0 is not None:
        check_positive(S0=S0)
        return unit.mixed(math.sqrt(2.0 * math.pi * S0))
    check_positive(sigma=sigma)
    return unit.mixed(sigma / math.sqrt(unit.variance[0]))  # type: ignore[operator]


# --- wind -------------------------------------------------------------------------------------------------------------


@checks_arguments
def kaimal_spectrum(frequency: ArrayLike, speed: float, sigma: float, L: float) -> np.ndarray:
    """Return Kaimal's density G(f) = 4 σ² (L/U)/(1 + 6 f L/U)^(5/3), one-sided in cycles (IEC 61400-1).

    Parameters
    ----------
    frequency : array
        In cycles per unit of time.
    speed, sigma, L : float
        As for `kaimal`.

    Returns
    -------
    array
    """
    T = L / speed
    return 4.0 * sigma**2 * T / (1.0 + 6.0 * T * np.asarray(frequency, float)) ** (5.0 / 3.0)


@checks_arguments
def von_karman_wind_spectrum(frequency: ArrayLike, speed: float, sigma: float, L: float) -> np.ndarray:
    """Return von Kármán's density along the wind, G(f) = 4 σ² (L/U)/(1 + 70.8 (f L/U)²)^(5/6), one-sided in cycles.

    Parameters
    ----------
    frequency : array
        In cycles per unit of time.
    speed, sigma, L : float
        As for `kaimal`.

    Returns
    -------
    array
    """
    T = L / speed
    return 4.0 * sigma**2 * T / (1.0 + 70.8 * (T * np.asarray(frequency, float)) ** 2) ** (5.0 / 6.0)


@checks_arguments
def kaimal(speed: float, sigma: float, L: float, name: str = "wind") -> Coloured:
    """Make the turbulence of the wind at a point with Kaimal's spectrum, as IEC 61400-1 writes it: `kaimal_spectrum`.

    A sum of first-order processes that meets the density to 0.05 dB for f L/U from 0.001 to 100 and falls off faster
    beyond; `fit` tells how well. Its variance is therefore 0.3 % below σ². The form f G/u*² = 105 n/(1 +
    33 n)^(5/3), n = f z/U, is the same with L = 5.5 z and σ = 2.185 u*.

    Parameters
    ----------
    speed, sigma : float
        U, the mean wind, and the standard deviation of the turbulence, in the same unit.
    L : float
        The integral length of the component; IEC 61400-1 gives 8.1 Λ, 2.7 Λ and 0.66 Λ for the three of them.
    name : str
        The name of the output.

    Returns
    -------
    Coloured
    """
    check_positive(speed=speed, sigma=sigma, L=L)
    return _in_units(_wind("kaimal"), L / speed, sigma, name)


@checks_arguments
def von_karman_wind(speed: float, sigma: float, L: float, name: str = "wind") -> Coloured:
    """Make the turbulence along the mean wind at a point with von Kármán's spectrum: `von_karman_wind_spectrum`.

    A filter like that of `kaimal`, with the same accuracy. For aircraft, and for components across the wind, see
    `von_karman`.

    Parameters
    ----------
    speed, sigma, L, name
        As for `kaimal`.

    Returns
    -------
    Coloured
    """
    check_positive(speed=speed, sigma=sigma, L=L)
    return _in_units(_wind("von_karman"), L / speed, sigma, name)


@functools.cache
def _wind(kind: str) -> Coloured:
    """Return the filter of wind with U = σ = L = 1."""
    density = kaimal_spectrum if kind == "kaimal" else von_karman_wind_spectrum
    f = np.geomspace(*WIND_BAND, 101)
    return relaxing(f, density(f, 1.0, 1.0, 1.0), per_decade=2 if kind == "kaimal" else 5)


# --- waves ------------------------------------------------------------------------------------------------------------


@checks_arguments
def jonswap_spectrum(omega: ArrayLike, height: float, period: float, gamma: float = 3.3) -> np.ndarray:
    """Return the density of a sea's elevation, one-sided in radians per unit of time, of the variance height²/16.

    G(ω) ∝ ω⁻⁵ exp(-1.25 (ω_p/ω)⁴) γ^exp(-(ω/ω_p - 1)²/2s²), ω_p = 2π/period, s = 0.07 below ω_p and 0.09 above.

    Parameters
    ----------
    omega : array
        In radians per unit of time.
    height, period, gamma : float
        As for `jonswap`.

    Returns
    -------
    array
    """
    peak = 2.0 * math.pi / period
    u = np.asarray(omega, float) / peak
    return height**2 / (16.0 * peak) * _sea(u, gamma) / _sea_variance(gamma)


@checks_arguments
def jonswap(height: float, period: float, gamma: float = 3.3, name: str = "wave") -> Coloured:
    """Make the elevation of the sea at a point with the JONSWAP spectrum: `jonswap_spectrum`.

    A filter fitted to the density by `fitted`, to 0.5 dB for ω/ω_p from 0.6 to 2.5, which holds 97 % of the variance;
    `fit` tells how well. Its total variance is up to 5 % above height²/16, owing to its part outside that band.

    Parameters
    ----------
    height : float
        H_s, the significant wave height: four standard deviations of the elevation.
    period : float
        T_p, the period at the peak of the spectrum.
    gamma : float
        How much the peak stands out: 3.3 in the mean of the measurements, 1 for Pierson and Moskowitz's sea; 1 to 7.
    name : str
        The name of the output.

    Returns
    -------
    Coloured

    Raises
    ------
    ValueError
        If `gamma` is not between 1 and 7, or a number is not above 0.

    References
    ----------
    K. Hasselmann et al., Measurements of wind-wave growth and swell decay during the Joint North Sea Wave Project,
    Deutsche Hydrographische Zeitschrift A8 (1973).
    """
    check_positive(height=height, period=period)
    if not 1.0 <= gamma <= 7.0:
        raise ValueError(f"gamma: expected a number from 1 (Pierson and Moskowitz's sea) to 7, got {gamma!r}")
    return _in_units(_sea_filter(float(gamma)), period, height, name)


@checks_arguments
def pierson_moskowitz(height: float, period: float, name: str = "wave") -> Coloured:
    """Make the elevation of a fully developed sea: `jonswap` with gamma = 1, whose density has no peak factor.

    Parameters
    ----------
    height, period, name
        As for `jonswap`.

    Returns
    -------
    Coloured

    References
    ----------
    W. J. Pierson & L. Moskowitz, J. Geophys. Res. 69 (1964).
    """
    return jonswap(height, period, 1.0, name)


def _sea(u: np.ndarray, gamma: float) -> np.ndarray:
    """Return the shape of the density of waves over u = ω/ω_p."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        u = np.maximum(u, 1e-3)
        width = np.where(u <= 1.0, 0.07, 0.09)
        return u**-5.0 * np.exp(-1.25 * u**-4.0) * gamma ** np.exp(-((u - 1.0) ** 2) / (2.0 * width**2))


@functools.cache
def _sea_variance(gamma: float) -> float:
    parts = ((0.2, 1.0), (1.0, 2.0), (2.0, np.inf))
    return sum(
        scipy.integrate.quad(lambda u: float(_sea(np.asarray(u), gamma)), *part, epsabs=0.0)[0] for part in parts
    )


@functools.cache
def _sea_filter(gamma: float) -> Coloured:
    """Return the filter of waves with height = period = 1."""
    ω = 2.0 * math.pi * np.linspace(*WAVE_BAND, 120)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpectrumNotMet)
        return fitted(ω / (2.0 * math.pi), 2.0 * math.pi * jonswap_spectrum(ω, 1.0, 1.0, gamma), WAVE_TOLERANCE)


# --- roads ------------------------------------------------------------------------------------------------------------


@checks_arguments
def iso_road(grade: str | float, speed: float, longest: float = 100.0, name: str = "road") -> Coloured:
    """Make the height of a road under a wheel at a steady speed, with the spectrum of ISO 8608: a first-order filter.

    Over the spatial frequency n the standard's density, one-sided, is G(n) = G_0 (n/n_0)⁻², n_0 = 0.1 cycles/m. Its
    variance is infinite, as that of slopes without an end is; the filter levels off at wavelengths beyond `longest`,

        G(n) = G_0 n_0²/(n² + n_c²),   n_c = 1/longest,        z' = -2π n_c U z + 2π n_0 √(G_0 U/2) w,

    which is the standard's to 0.5 % at a tenth of that length. The height of the road is not differentiable, and
    neither is the force of a stiff damper on it.

    Parameters
    ----------
    grade : "A" to "H", or float
        The class of the road, whose G_0 is 16, 64, 256, ... · 10⁻⁶ m³, the middle of the standard's range; or G_0.
    speed : float
        U in m/s.
    longest : float
        The wavelength in m beyond which the density is level.
    name : str
        The name of the output.

    Returns
    -------
    Coloured
        With one state; its variance is π G_0 n_0² longest/2, in m².

    Raises
    ------
    ValueError
        If the grade is unknown, or a number is not above 0.

    Examples
    --------
    >>> import stodyn as sd
    >>> road = sd.noise.coloured.iso_road("B", speed=20.0)
    >>> road.names
    ('road',)
    """
    if isinstance(grade, str):
        if grade not in ROADS:
            raise ValueError(f"grade: expected one of {', '.join(ROADS)}, or G_0 in m³ at 0.1 cycles/m, got {grade!r}")
        grade = ROADS[grade]
    check_positive(grade=grade, speed=speed, longest=longest)
    sigma = math.sqrt(0.5 * math.pi * grade * REFERENCE**2 * longest)
    return gauss_markov(sigma, longest / (2.0 * math.pi * speed), name)


# ----------------------------------------------------------------------------------------------------------------------


def _in_units(noise: Coloured, time: float, size: float, name: str) -> Coloured:
    """Noise of unit time and size in other units; its fit is converted to these units."""
    fit = noise.fit.in_units(size**2) if noise.fit is not None else None
    return Coloured(noise.A / time, noise.B / math.sqrt(time), size * noise.C, name, fit)
