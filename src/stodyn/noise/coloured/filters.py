"""Filters of standard noises: Gauss-Markov, ground motion, flicker, and any rational one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stodyn.arguments import check_positive, checks_arguments
from stodyn.hints import is_integer
from stodyn.noise.coloured.process import Coloured, summed
from stodyn.numerics import systems
from stodyn.telling import tell
from stodyn.warnings import Overdamped

REAL = 1e-12  # a choice, of the root itself: smaller imaginary parts of users' real roots come from their arithmetic
PERCENTS = 5.0  # a choice: damping ratios of filters from here on are taken for percentages, or for another argument


def warn_of_percents(**values: float) -> None:
    """Warn of a damping ratio, the second of two arguments, that looks like a percentage or like the first one."""
    (omega, ω), (zeta, ζ) = values.items()
    if ζ >= PERCENTS:
        tell(
            f"{zeta}: the ratio {ζ:g} is {100.0 * ζ:g} % of critical damping. Ratios are not percentages: {ζ:g} % is "
            f"{ζ / 100.0:g}. The order is {omega}, {zeta}, and {omega} is {ω:g} here",
            Overdamped,
        )


@checks_arguments
def gauss_markov(sigma: float, tau: float, name: str = "y") -> Coloured:
    """Make a first-order Gauss-Markov process: y' = -y/tau + sigma √(2/tau) w.

    Parameters
    ----------
    sigma, tau : float
        Standard deviation and correlation time; the autocovariance is sigma² exp(-|lag|/tau).
    name : str
        The name of the output.

    Returns
    -------
    Coloured

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.noise.coloured.gauss_markov(sigma=2.0, tau=0.5).variance.round(12)
    array([4.])
    """
    check_positive(sigma=sigma, tau=tau)
    return Coloured([[-1.0 / tau]], [[sigma * math.sqrt(2.0 / tau)]], [[1.0]], name)


@checks_arguments
def gauss_markov2(sigma: float, omega: float, zeta: float, name: str = "y") -> Coloured:
    """Make a second-order Gauss-Markov process: y'' + 2 zeta omega y' + omega² y = 2 sigma omega √(zeta omega) w.

    Parameters
    ----------
    sigma : float
        The standard deviation of y; that of y' is sigma omega.
    omega, zeta : float
        Frequency in radians per unit of time and damping ratio; zeta = 1 is critically damped.
    name : str
        The name of the output.

    Returns
    -------
    Coloured
        With the states y and y'.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.noise.coloured.gauss_markov2(sigma=2.0, omega=3.0, zeta=0.1).variance.round(9)
    array([4.])
    """
    check_positive(sigma=sigma, omega=omega, zeta=zeta)
    warn_of_percents(omega=omega, zeta=zeta)
    A = [[0.0, 1.0], [-(omega**2), -2.0 * zeta * omega]]
    return Coloured(A, [[0.0], [2.0 * sigma * omega * math.sqrt(zeta * omega)]], [[1.0, 0.0]], name)


@checks_arguments
def kanai_tajimi(
    omega: float, zeta: float, *, sigma: float | None = None, S0: float | None = None, name: str = "ground"
) -> Coloured:
    """Make the ground acceleration of an earthquake: bedrock noise through a layer of soil.

    S(ω) = S0 (omega⁴ + 4 zeta² omega² ω²) / ((omega² - ω²)² + 4 zeta² omega² ω²), two-sided, in radians per unit of
    time.

    Parameters
    ----------
    omega, zeta : float
        Frequency in radians per unit of time, and damping ratio, of the layer.
    sigma, S0 : float
        One of the two: the standard deviation of the ground's acceleration, or the density of the bedrock;
        sigma² = π S0 omega (1 + 4 zeta²) / (2 zeta).
    name : str
        The name of the output.

    Returns
    -------
    Coloured
        With two states.

    Raises
    ------
    ValueError
        If not exactly one of `sigma` and `S0` is passed, or a number is not above 0.

    References
    ----------
    K. Kanai (1957); H. Tajimi, Proc. 2nd World Conf. Earthquake Engineering (1960).

    Examples
    --------
    >>> import stodyn as sd
    >>> ground = sd.noise.coloured.kanai_tajimi(omega=15.0, zeta=0.6, sigma=1.5)
    >>> ground.variance.round(9)
    array([2.25])
    """
    check_positive(omega=omega, zeta=zeta)
    warn_of_percents(omega=omega, zeta=zeta)
    if (sigma is None) == (S0 is None):
        raise ValueError(f"sigma, S0: expected one of the two, got sigma={sigma!r} and S0={S0!r}")
    if S0 is None:
        check_positive(sigma=sigma)
        S0 = sigma**2 * 2.0 * zeta / (math.pi * omega * (1.0 + 4.0 * zeta**2))  # type: ignore[operator]
    check_positive(S0=S0)
    # The states are the layer's displacement and velocity; the ground's acceleration is that by its spring and damper.
    A = [[0.0, 1.0], [-(omega**2), -2.0 * zeta * omega]]
    return Coloured(A, [[0.0], [math.sqrt(2.0 * math.pi * S0)]], [[omega**2, 2.0 * zeta * omega]], name)


@checks_arguments
def flicker(K: float, band: tuple[float, float], poles_per_decade: int = 2, name: str = "y") -> Coloured:
    """Make flicker noise of the one-sided density K/f on a band of frequencies.

    It is a sum of independent first-order processes of variance K ln 10 / poles_per_decade each, with time constants
    evenly spaced in the logarithm from 1/(2π f2) to 1/(2π f1) and one decade beyond on either side. A decade inside the
    band the density is K/f to 0.25 dB with one pole per decade, to 0.013 dB with two and 0.03 dB with more. Towards the
    ends of the band it falls short, because nothing comes from further away: by 0.15 dB with two poles per decade, by
    up to 0.3 dB with others; in a band of less than a decade, which consists of ends only, by up to 0.6 dB.

    Parameters
    ----------
    K : float
        The density at the frequency 1.
    band : (f1, f2)
        In cycles per unit of time, f1 < f2.
    poles_per_decade : int
        How many processes there are per decade.
    name : str
        The name of the output.

    Returns
    -------
    Coloured

    Raises
    ------
    ValueError
        If the band is empty, or `poles_per_decade` is not a whole number >= 1.

    Examples
    --------
    >>> import stodyn as sd
    >>> noise = sd.noise.coloured.flicker(1e-3, (0.1, 1000.0))
    >>> bool(abs(2.0 * noise.spectrum(10.0)[0, 0] / 1e-4 - 1.0) < 0.01)
    True
    """
    if np.shape(band) != (2,):
        raise TypeError(f"band: expected a pair of frequencies (f1, f2), got {band!r}; write flicker(K, (f1, f2))")
    f1, f2 = band
    check_positive(K=K, f1=f1, f2=f2)
    if not f1 < f2:
        raise ValueError(f"band: expected (f1, f2) with f1 < f2, got {band!r}")
    if not is_integer(poles_per_decade):
        raise ValueError(f"poles_per_decade: expected a whole number >= 1, got {poles_per_decade!r}")
    decades = math.log10(f2 / f1) + 2.0
    count = math.ceil(decades * poles_per_decade - 1e-9) + 1
    middle = -math.log10(2.0 * math.pi) - 0.5 * math.log10(f1 * f2)
    exponents = middle + (np.arange(count) - 0.5 * (count - 1)) / poles_per_decade
    sigma = math.sqrt(K * math.log(10.0) / poles_per_decade)
    return summed(*(gauss_markov(sigma, 10.0**e, name) for e in exponents))


@checks_arguments
def through(system: Any, intensity: float = 1.0, name: str = "y") -> Coloured:
    """Pass white noise through a rational filter, which must be stable and strictly proper.

    Parameters
    ----------
    system : tuple, or system of scipy.signal or python-control
        (numerator, denominator), (zeros, poles, gain), (A, B, C, D), or an lti, TransferFunction, ZerosPolesGain or
        StateSpace object of scipy.signal, or a TransferFunction or StateSpace of python-control, in continuous time. A
        state space keeps its coordinates; the others become a chain of sections of one or two poles, which keeps digits
        at high orders.
    intensity : float
        The intensity of the white noise.
    name : str
        The name of the output.

    Returns
    -------
    Coloured

    Raises
    ------
    ValueError
        If the filter is not stable or not strictly proper.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.noise.coloured.through(([1.0], [1.0, 0.5])).variance.round(12)
    array([1.])
    """
    check_positive(intensity=intensity)
    root = math.sqrt(intensity)
    if systems.is_system(system):
        if systems.time_step(system):
            raise TypeError(
                f"system: {type(system).__name__} is in discrete time (dt = {system.dt}); expected continuous time"
            )
        system = _as_tuple(system)
    if isinstance(system, (tuple, list)) and len(system) == 4:
        A, B, C, D = (np.atleast_2d(np.asarray(value, float)) for value in system)
        if np.any(D):
            raise ValueError(
                f"system: not strictly proper, it passes white noise straight on (D = {D}); expected D = 0"
            )
        names = (name,) if len(C) == 1 else tuple(f"{name}{i}" for i in range(len(C)))
        return Coloured(A, root * B, C, names)
    if isinstance(system, (tuple, list)) and len(system) == 3:
        z, p, k = system
    elif isinstance(system, (tuple, list)) and len(system) == 2:
        z, p, k = _zpk(*system)
    else:
        raise TypeError(
            "system: expected (numerator, denominator), (zeros, poles, gain), (A, B, C, D) or a continuous system of "
            f"scipy.signal or python-control, got {system!r}"
        )
    A, B, C = _chain(np.atleast_1d(z), np.atleast_1d(p), float(np.squeeze(k)))
    return Coloured(A, root * B, C, name)


def _as_tuple(system: Any) -> tuple[Any, ...]:
    """A system of scipy.signal or python-control as (zeros, poles, gain), (numerator, denominator) or matrices."""
    if hasattr(system, "to_zpk") and not hasattr(system, "A"):
        roots = system.to_zpk()
        return roots.zeros, roots.poles, roots.gain
    return systems.polynomials(system) or systems.matrices("system", system)[:4]


def _zpk(numerator: ArrayLike, denominator: ArrayLike) -> tuple[np.ndarray, np.ndarray, float]:
    num, den = (np.trim_zeros(np.atleast_1d(np.asarray(c, float)), "f") for c in (numerator, denominator))
    sound = num.ndim == den.ndim == 1 and len(num) and len(den) and np.isfinite(num).all() and np.isfinite(den).all()
    if not sound:
        raise ValueError(
            f"system: expected the finite coefficients of two polynomials, got {numerator!r} and {denominator!r}"
        )
    return np.roots(num), np.roots(den), num[0] / den[0]


def _chain(zeros: np.ndarray, poles: np.ndarray, gain: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B, C of gain Π (s - z) / Π (s - p): sections of one or two poles in series, the slowest first."""
    if len(zeros) >= len(poles):
        raise ValueError(
            f"system: not strictly proper, {len(zeros)} zeros for {len(poles)} poles; white noise would pass straight "
            "on. Expected more poles than zeros."
        )
    if not (np.isfinite(zeros).all() and np.isfinite(poles).all() and math.isfinite(gain)):
        raise ValueError("system: expected finite zeros, poles and gain")
    if len(poles) and np.max(np.real(poles)) >= 0:
        raise ValueError(
            f"system: not stable, a pole has the real part {np.max(np.real(poles)):.6g}; expected all below 0"
        )
    pole_groups, zero_groups = _pairs(poles), _pairs(zeros)
    A, B, C, D = np.zeros((0, 0)), np.zeros((0, 1)), np.zeros((1, 0)), 1.0
    share = 1.0  # of the gain that the sections take: each responds about as 1 at the frequency of its poles
    for p in pole_groups:
        # The nearest zeros that fit go with these poles. A section has at most as many zeros as poles, and there are
        # always sections enough, since there are fewer zeros than poles.
        fitting = [z for z in zero_groups if len(z) <= len(p)]
        z = min(fitting, key=lambda z: abs(z[0] - p[0])) if fitting else np.zeros(0)
        zero_groups = [other for other in zero_groups if other is not z]
        own = float(abs(np.prod(p))) ** ((len(p) - len(z)) / len(p))
        a, b, c, d = _section(z, p)
        c, d, share = own * c, own * d, share * own
        k = len(A)
        A = np.block([[A, np.zeros((k, len(a)))], [b @ C, a]])
        B = np.concatenate([B, b * D])
        C, D = np.concatenate([d * C, c], axis=1), d * D
    assert D == 0.0 and not zero_groups
    return A, B, C * (gain / share)


def _pairs(roots: np.ndarray) -> list[np.ndarray]:
    """Conjugate pairs, and real roots two by two with one left over where their number is odd; the smallest first."""
    is_real = np.abs(roots.imag) <= REAL * np.abs(roots)
    real = np.sort(roots[is_real].real)[::-1]
    upper = roots[~is_real & (roots.imag > 0.0)]
    if 2 * len(upper) + len(real) != len(roots):
        raise ValueError(f"system: expected zeros and poles that are real or come in conjugate pairs, got {roots}")
    groups = [np.array([r, r.conjugate()]) for r in upper]
    groups += [real[i : i + 2].astype(complex) for i in range(0, len(real), 2)]
    return sorted(groups, key=lambda group: abs(group[0]))


def _section(z: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A, B, C, D of Π (s - z) / Π (s - p) for one or two poles, the states scaled by the size of the poles."""
    den, num = np.poly(p).real, np.poly(z).real if len(z) else np.ones(1)
    num = np.concatenate([np.zeros(len(den) - len(num)), num])
    d = num[0]
    rest = (num - d * den)[1:]
    if len(p) == 1:
        return np.array([[-den[1]]]), np.ones((1, 1)), np.array([[rest[0]]]), d
    ω = math.sqrt(abs(den[2]))
    # States x and x'/ω of x'' + den1 x' + den2 x = ω u; the output is (rest0 x' + rest1 x)/ω + d u.
    A = np.array([[0.0, ω], [-den[2] / ω, -den[1]]])
    return A, np.array([[0.0], [1.0]]), np.array([[rest[1] / ω, rest[0]]]), d
