"""Wind gusts along the axes of an aircraft: Dryden and von Karman turbulence, MIL-F-8785C and MIL-HDBK-1797."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import check_positive, checks_arguments
from stodyn.noise.coloured.filters import gauss_markov, through
from stodyn.noise.coloured.process import Coloured

STANDARDS = ("MIL-F-8785C", "MIL-HDBK-1797")
COMPONENTS = "uvwpqr"
FOOT = {"ft": 1.0, "m": 0.3048}
LOW, HIGH = 1000.0, 2000.0  # feet: where the low- and the high-altitude formulas end and begin
LENGTH = {"dryden": 1750.0, "von_karman": 2500.0}  # feet, above HIGH


class Scales(NamedTuple):
    """Lengths L and intensities sigma of turbulence for the components u, v, w, as a standard states them."""

    L: tuple[float, float, float]
    sigma: tuple[float, float, float]


@checks_arguments
def dryden(
    V: float,
    sigma: float | Sequence[float],
    L: float | Sequence[float],
    b: float | None = None,
    components: str = "uvw",
    standard: str = "MIL-F-8785C",
    signs: tuple[float, float] = (1.0, 1.0),
) -> Coloured:
    """Make Dryden gusts on an aircraft flying at the speed V: outputs u_g, v_g, w_g and the rates p_g, q_g, r_g.

    With T = L/V and white noise of unit intensity, in state spaces of one state for u, two for v and w:

        H_u = σ_u √(2T) / (1 + T s),   H_v, H_w = σ √T (1 + √3 T s) / (1 + T s)²,
        H_p = σ_w √(0.8 π/V) (π/4b)^(1/6) L_w^(-1/3) / (1 + 4b s/πV),
        H_q = ± (s/V) / (1 + 4b s/πV) H_w,   H_r = ± (s/V) / (1 + 3b s/πV) H_v.

    The variances of u, v and w are σ² exactly. q is made from the noise of w, and r from that of v; u, v, w, p are
    independent.

    Parameters
    ----------
    V : float
        The speed of the aircraft.
    sigma, L : float or sequence of three
        Intensities and lengths of u, v, w, or one number for all; see `turbulence_scales`.
    b : float, optional
        The span, which the rates need.
    components : str
        Which outputs, such as "uwq".
    standard : "MIL-F-8785C" or "MIL-HDBK-1797"
        The formulas of the latter contain 2 L_v and 2 L_w in place of L_v and L_w.
    signs : (float, float)
        The signs of q and r, which depend on the axes used.

    Returns
    -------
    Coloured

    Examples
    --------
    >>> import stodyn as sd
    >>> gusts = sd.noise.coloured.dryden(V=50.0, sigma=1.5, L=200.0, components="uw")
    >>> gusts.names
    ('u_g', 'w_g')
    """
    (σ_u, σ_v, σ_w), (L_u, L_v, L_w) = _checked(V, sigma, L, b, components, standard)

    def across(σ: float, T: float) -> Coloured:
        A = [[0.0, 1.0], [-1.0 / T**2, -2.0 / T]]
        return Coloured(A, [[0.0], [1.0]], σ * math.sqrt(T) * np.array([[1.0 / T**2, math.sqrt(3.0) / T]]))

    along = gauss_markov(σ_u, L_u / V)
    gusts = {"u": along, "v": across(σ_v, L_v / V), "w": across(σ_w, L_w / V)}
    return _assembled(V, b, components, signs, gusts, roll_gain=σ_w * L_w ** (-1.0 / 3.0))


@checks_arguments
def von_karman(
    V: float,
    sigma: float | Sequence[float],
    L: float | Sequence[float],
    b: float | None = None,
    components: str = "uvw",
    standard: str = "MIL-F-8785C",
    signs: tuple[float, float] = (1.0, 1.0),
) -> Coloured:
    """Make von Karman gusts by their usual rational approximation.

        H_u = σ_u √(2T) (1 + 0.25 T s) / (1 + 1.357 T s + 0.1987 T² s²),
        H_v, H_w = σ √T (1 + 2.7478 T s + 0.3398 T² s²) / (1 + 2.9958 T s + 1.9754 T² s² + 0.1539 T³ s³).

    The spectra are those of `von_karman_spectrum` to 0.2 dB up to ω T = 10; beyond, the filters fall off faster, by up
    to 2.6 dB at 100 and 5.9 dB at 1000. So their variances are 0.968714 σ² (u) and 0.962336 σ² (v, w), not σ²: the
    missing part lies at high frequencies, and scaling it in would spoil the band that is right.

    Parameters
    ----------
    V, sigma, L, b, components, standard, signs
        As for `dryden`.

    Returns
    -------
    Coloured
        With the outputs and rates of `dryden`.

    Examples
    --------
    >>> import stodyn as sd
    >>> gusts = sd.noise.coloured.von_karman(V=50.0, sigma=1.0, L=200.0, components="u")
    >>> gusts.variance.round(6)
    array([0.968714])
    """
    (σ_u, σ_v, σ_w), (L_u, L_v, L_w) = _checked(V, sigma, L, b, components, standard)

    def shaped(σ: float, T: float, numerator: Sequence[float], denominator: Sequence[float]) -> Coloured:
        num, den = np.polynomial.Polynomial(numerator), np.polynomial.Polynomial(denominator)  # of T s, ascending
        gain = num.coef[-1] / den.coef[-1]
        slow = through((num.roots(), den.roots(), gain))  # of time in units of T
        return Coloured(slow.A / T, slow.B / math.sqrt(T), σ * slow.C)

    def across(σ: float, T: float) -> Coloured:
        return shaped(σ, T, (1.0, 2.7478, 0.3398), (1.0, 2.9958, 1.9754, 0.1539))

    along = shaped(math.sqrt(2.0) * σ_u, L_u / V, (1.0, 0.25), (1.0, 1.357, 0.1987))
    gusts = {"u": along, "v": across(σ_v, L_v / V), "w": across(σ_w, L_w / V)}
    return _assembled(V, b, components, signs, gusts, roll_gain=σ_w * L_w ** (-1.0 / 3.0))


@checks_arguments
def von_karman_spectrum(frequency: ArrayLike, sigma: float, T: float, component: str = "u") -> np.ndarray:
    """Return the density that `von_karman` approximates, two-sided in cycles per unit of time.

    σ² 2T / (1 + (1.339 T ω)²)^(5/6) for u, σ² T (1 + (8/3)(1.339 T ω)²) / (1 + (1.339 T ω)²)^(11/6) for v and w.

    Parameters
    ----------
    frequency : array
        In cycles per unit of time.
    sigma, T : float
        The intensity and T = L/V.
    component : "u" or "v"
        Along the flight, or across it.

    Returns
    -------
    array
    """
    x = (1.339 * T * 2.0 * np.pi * np.asarray(frequency, float)) ** 2
    if component == "u":
        return 2.0 * sigma**2 * T / (1.0 + x) ** (5.0 / 6.0)
    return sigma**2 * T * (1.0 + 8.0 / 3.0 * x) / (1.0 + x) ** (11.0 / 6.0)


@checks_arguments
def turbulence_scales(
    height: float,
    wind: float | None = None,
    sigma: float | None = None,
    spectrum: str = "dryden",
    standard: str = "MIL-F-8785C",
    unit: str = "ft",
) -> Scales:
    """Return the lengths and intensities of u, v, w at a height above ground, by the standard's formulas.

    10 to 1000 ft: L_w = h, L_u = L_v = h/(0.177 + 0.000823 h)^1.2, σ_w = 0.1 wind, σ_u = σ_v = σ_w/(0.177 + 0.000823
    h)^0.4. Above 2000 ft: L = 1750 ft (Dryden) or 2500 ft (von Karman), and the intensity `sigma`. In between, linear
    in h. In MIL-HDBK-1797 L_v and L_w are half of these, but L_u is not.

    Parameters
    ----------
    height : float
        At least 10 ft.
    wind : float, optional
        The mean wind at 20 ft (6 m), needed below 2000 ft.
    sigma : float, optional
        The intensity above 1000 ft, from the standard's tables by season and probability.
    spectrum : "dryden" or "von_karman"
        The gusts for which the scales are.
    standard : "MIL-F-8785C" or "MIL-HDBK-1797"
        As for `dryden`.
    unit : "ft" or "m"
        The unit of height and lengths; wind and sigma may have any unit of speed.

    Returns
    -------
    Scales

    Raises
    ------
    ValueError
        If `height` is below 10 ft, or the `wind` or `sigma` needed at this height is missing.

    Examples
    --------
    >>> import stodyn as sd
    >>> scales = sd.noise.coloured.turbulence_scales(2000.0, sigma=5.0)
    >>> scales.L
    (1750.0, 1750.0, 1750.0)
    """
    if unit not in FOOT:
        raise ValueError(f'unit: expected "ft" or "m", got {unit!r}')
    if spectrum not in LENGTH:
        raise ValueError(f"spectrum: expected one of {tuple(LENGTH)}, got {spectrum!r}")
    _check_standard(standard)
    h = height / FOOT[unit]
    if not (math.isfinite(h) and h >= 10.0):
        raise ValueError(f"height: expected at least 10 ft (3.048 m), where the formulas begin, got {height:g} {unit}")
    if h < HIGH and wind is None:
        raise ValueError(f"wind: below {HIGH:g} ft the mean wind at 20 ft (6 m) is needed")
    if h > LOW and sigma is None:
        raise ValueError(f"sigma: above {LOW:g} ft the intensity of turbulence is needed")

    def low(h: float) -> np.ndarray:
        shape = 0.177 + 0.000823 * h
        σ_w = 0.1 * float(wind or 0.0)
        return np.array([h / shape**1.2, h / shape**1.2, h, σ_w / shape**0.4, σ_w / shape**0.4, σ_w])

    high = np.array([LENGTH[spectrum]] * 3 + [float(sigma or 0.0)] * 3)
    share = min(max((h - LOW) / (HIGH - LOW), 0.0), 1.0)
    values = (1.0 - share) * low(min(h, LOW)) + share * high
    if standard == "MIL-HDBK-1797":
        values[1:3] /= 2.0
    L, σ = values[:3] * FOOT[unit], values[3:]
    return Scales(tuple(L.tolist()), tuple(σ.tolist()))


def _assembled(V, b, components, signs, gusts: dict[str, Coloured], roll_gain: float) -> Coloured:
    """The chosen outputs of independent gusts u, v and w, with p independent of them, q made of w and r of v."""
    parts = dict(gusts)
    if "r" in components:
        parts["v"] = _with_rate(gusts["v"], signs[1], 3.0 * b / (math.pi * V), V)
    if "q" in components:
        parts["w"] = _with_rate(gusts["w"], signs[0], 4.0 * b / (math.pi * V), V)
    if "p" in components:
        lag = 4.0 * b / (math.pi * V)
        gain = roll_gain * math.sqrt(0.8 * math.pi / V) * (math.pi / (4.0 * b)) ** (1.0 / 6.0)
        parts["p"] = Coloured([[-1.0 / lag]], [[gain / lag]], [[1.0]])
    outputs = {"u": ("u", 0), "v": ("v", 0), "w": ("w", 0), "p": ("p", 0), "q": ("w", 1), "r": ("v", 1)}
    used = {part: noise for part, noise in parts.items() if any(outputs[c][0] == part for c in components)}
    A, B = (scipy.linalg.block_diag(*(getattr(noise, name) for noise in used.values())) for name in ("A", "B"))
    begins = dict(zip(used, np.cumsum([0, *(len(noise.A) for noise in used.values())]), strict=False))
    C = np.zeros((len(components), len(A)))
    for row, letter in zip(C, components, strict=True):
        part, which = outputs[letter]
        row[begins[part] : begins[part] + len(used[part].A)] = used[part].C[which]
    return Coloured(A, B, C, tuple(f"{letter}_g" for letter in components))


def _with_rate(gust: Coloured, sign: float, lag: float, V: float) -> Coloured:
    """A gust y and sign (s/V)/(1 + lag s) y = sign (y - l)/(V lag) with l' = (y - l)/lag."""
    k = len(gust.A)
    A = np.block([[gust.A, np.zeros((k, 1))], [gust.C / lag, np.full((1, 1), -1.0 / lag)]])
    B = np.concatenate([gust.B, np.zeros((1, 1))])
    y = np.concatenate([gust.C, np.zeros((1, 1))], axis=1)
    rate = sign * (y - np.eye(1, k + 1, k)) / (V * lag)
    return Coloured(A, B, np.concatenate([y, rate]), ("y", "rate"))


def _checked(V, sigma, L, b, components, standard) -> tuple[Sequence[float], Sequence[float]]:
    """σ and L of u, v, w as they stand in the formulas."""
    _check_standard(standard)
    if not components or len(set(components)) != len(components) or not set(components) <= set(COMPONENTS):
        raise ValueError(f"components: expected different letters of {COMPONENTS!r}, got {components!r}")
    check_positive("a speed", V=V)
    if set(components) & set("pqr") and (b is None or not b > 0):
        raise ValueError(f"b: the rates {', '.join(sorted(set(components) & set('pqr')))} need the span, got {b!r}")
    three = []
    for name, value in (("sigma", sigma), ("L", L)):
        numbers = [float(value)] * 3 if np.ndim(value) == 0 else [float(x) for x in value]
        if len(numbers) != 3 or not all(math.isfinite(x) and x > 0 for x in numbers):
            raise ValueError(f"{name}: expected a number > 0, or three for u, v, w, got {value!r}")
        three.append(numbers)
    if standard == "MIL-HDBK-1797":
        three[1] = [three[1][0], 2.0 * three[1][1], 2.0 * three[1][2]]
    return three[0], three[1]


def _check_standard(standard: str) -> None:
    if standard not in STANDARDS:
        raise ValueError(f"standard: expected one of {STANDARDS}, got {standard!r}")
