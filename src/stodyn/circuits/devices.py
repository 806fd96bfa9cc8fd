"""The building blocks of nonlinear elements: laws of currents and charges, their numbers, junctions.

A law takes the voltages (or currents) that it reads, for all the parts of a kind at once (arrays), their numbers and an
array module (numpy, jax.numpy, or dual numbers for slopes), and returns
    current  the current from the first node of the part to the second, A
    noise    the two-sided density S of its white current noise in A²/Hz: i dt + √S dW
    charge   the charge on the first node over the part's `unit` capacitance, V: its derivative is a current
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

BOLTZMANN, CHARGE = 1.380649e-23, 1.602176634e-19  # J/K, C (exact)
ZERO_CELSIUS = 273.15  # K
LARGEST = 1e9  # A: beyond it a junction's exponential continues as its tangent, so that no Newton step overflows
REFERENCE = 300.15  # K: the reference of SPICE's temperature formulas
FLICKER_FLOOR = 1e-30  # A²: the least i0², so that flicker noise has a slope where no current flows
STEADY = 100.0  # (current / flicker noise)² from which the formula of the latter holds
EASY = 10.0  # V: the most by which a voltage that controls no junction may rise in one step of Newton's method


@dataclasses.dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of the parts of a kind, one array each; `usual` holds nominal ones where a run takes them as data."""

    of: Mapping[str, Any]
    kelvin: float
    usual: Mapping[str, np.ndarray] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.of[name]

    def known(self, name: str) -> np.ndarray:
        """Concrete numbers, for decisions about the form of an equation."""
        return (self.of if self.usual is None else self.usual)[name]

    @property
    def thermal_voltage(self) -> float:
        return BOLTZMANN * self.kelvin / CHARGE

    def chosen(self, which: np.ndarray) -> Numbers:
        usual = None if self.usual is None else {key: values[which] for key, values in self.usual.items()}
        return Numbers({key: values[..., which] for key, values in self.of.items()}, self.kelvin, usual)


class Current(NamedTuple):
    """The current of each part, or its charge, and its slopes in the voltages it reads."""

    i: Any
    slopes: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Law:
    """How a nonlinear part behaves.

    name         its name in messages and groups
    value        (read, numbers, xp) -> its current, or its charge over `unit`
    noise        (read, numbers, xp) -> S, None if it has no noise; `sort`: the name of that noise
    junction     per voltage read: (name of IS, name of N) if it controls a junction, otherwise None
    stores       whether `value` is a charge
    conducts     whether it makes a path for direct current
    breakdown    (name of BV, name of NBV) where the junction conducts backwards as well
    monotone     whether `value` is a charge that grows with the voltage between the ends and depends on nothing else
    couples      (numbers) -> whether `value` is a charge of a device whose charges, taken together, change as those of
                 capacitors between its nodes do: the charge at a node grows with the voltage of that node, and falls
                 with that of any other
    capacitance  (read, numbers) -> the capacitance over `unit` that small signals see between the ends of a charge,
                 where it is not the slope of that charge
    remembers    whether it is a switch with memory: besides its voltage and its control it reads an unknown of its own,
                 1 where it is on and 0 where it is off, which changes where the control leaves `low` to `high`
    remark       (read, numbers) -> for which parts other simulators differ at an operating point, and why
    """

    name: str
    value: Callable[[tuple[Any, ...], Numbers, Any], Any]
    noise: Callable[[tuple[Any, ...], Numbers, Any], Any] | None = None
    sort: str = ""
    junction: tuple[tuple[str, str] | None, ...] = ()
    stores: bool = False
    conducts: bool = True
    breakdown: tuple[str, str] | None = None
    monotone: bool = False
    couples: Callable[[Numbers], bool] | None = None
    capacitance: Callable[[tuple[Any, ...], Numbers], Any] | None = None
    remembers: bool = False
    remark: tuple[Callable[[tuple[Any, ...], Numbers], np.ndarray], str] | None = None

    def room(self, k: int, v: np.ndarray, p: Numbers) -> np.ndarray:
        """The most by which the k-th voltage may rise in one step of Newton's method: for a junction, to 2 N V_T beyond
        the voltage at which it conducts 10 µA."""
        names = self.junction[k] if k < len(self.junction) else None
        if names is None:
            return np.maximum(EASY, np.abs(v))  # twofold: an op-amp without feedback may go to hundreds of kilovolts
        scale = p[names[1]] * p.thermal_voltage
        knee = scale * np.log(1e-5 / p[names[0]] + 1.0)
        return np.maximum(knee - v, 0.0) + 2.0 * scale

    def is_beyond(self, k: int, v: np.ndarray, p: Numbers) -> np.ndarray:
        """Whether the k-th voltage drives more than LARGEST through a junction, whose current is a tangent there."""
        names = self.junction[k]
        if names is None:
            return np.zeros(np.shape(v), bool)
        return v > p[names[1]] * p.thermal_voltage * np.log(LARGEST / p[names[0]] + 1.0)

    def room_below(self, v: np.ndarray, p: Numbers) -> np.ndarray:
        """The most by which the voltage may fall in one step: into the breakdown of a junction."""
        if self.breakdown is None or not (p.known(self.breakdown[0]) < 1e30).any():
            return np.full(len(v), np.inf)
        scale = p[self.breakdown[1]] * p.thermal_voltage
        knee = -p[self.breakdown[0]] - scale * np.log(1e-5 / p["is"] + 1.0)
        return np.maximum(v - knee, 0.0) + 2.0 * scale


class Parameter(NamedTuple):
    """A parameter of a model: its default, its unit, and the least value it may have (-math.inf: any)."""

    default: float
    unit: str = ""
    least: float = 0.0
    may_be_least: bool = True


ANY = -math.inf
FLICKER = {"kf": Parameter(0.0), "af": Parameter(1.0, "", 0.0, False)}
TEMPERATURE = {"tnom": Parameter(math.nan, "°C", -ZERO_CELSIUS, False)}


def thermal(resistance: Any, kelvin: Any) -> Any:
    """2kT/R: the two-sided density of a resistor's current noise; one-sided it is 4kT/R."""
    return 2.0 * BOLTZMANN * kelvin / resistance


def flicker_size(i: Any, p: Numbers, xp: Any) -> Any:
    """√KF |i|^(AF/2), with the sign of i: the factor of noise with the one-sided density 1/f.

    Below the current i0 at which this would be a tenth of the current, i0^(2 - AF) = 100 KF, it is proportional to i:
    i √KF (i² + i0²)^((AF - 2)/4). The slope of a transistor that is on without a current would be infinite.
    AF = 0, which no model may have, is noise that does not depend on a current.
    """
    if not p.known("af").any():
        return xp.sqrt(p["kf"]) + 0.0 * i
    return xp.sqrt(p["kf"]) * i * (i * i + _least_square(p, xp)) ** (0.25 * p["af"] - 0.5)


def flicker_slope(i: Any, p: Numbers, xp: Any) -> Any:
    """Return the derivative of `flicker_size` in i."""
    if not p.known("af").any():
        return 0.0 * i
    least = _least_square(p, xp)
    return xp.sqrt(p["kf"]) * (0.5 * p["af"] * i * i + least) * (i * i + least) ** (0.25 * p["af"] - 1.5)


def _least_square(p: Numbers, xp: Any) -> Any:
    """Return i0², the square of the current below which `flicker_size` is proportional to i."""
    return (STEADY * p["kf"]) ** (2.0 / xp.maximum(2.0 - p["af"], 0.5)) + FLICKER_FLOOR


# --- junctions --------------------------------------------------------------------------------------------------------


def known_log(x: Any, xp: Any) -> Any:
    """The logarithm, computed by numpy where its argument is known before the run."""
    return np.log(x) if isinstance(x, np.ndarray | float) else xp.log(x)


def exponential(v: Any, saturation: Any, scale: Any, xp: Any) -> Any:
    """IS (exp(v/scale) - 1), beyond LARGEST along its tangent."""
    most = known_log(LARGEST / saturation + 1.0, xp)
    z = v / scale
    below = xp.minimum(z, most)
    return saturation * (xp.expm1(below) + xp.exp(below) * xp.maximum(z - most, 0.0))


def depletion(v: Any, potential: Any, grading: Any, fc: Any, xp: Any, abrupt: bool = False) -> Any:
    """The charge of a depletion layer over its capacitance CJO, V: VJ/(1-M) (1 - (1 - v/VJ)^(1-M)) up to FC VJ, beyond
    with the capacitance continued as a straight line. Abrupt junctions, M = 1/2, take a root, which is quicker than a
    power."""
    edge = fc * potential
    below = xp.minimum(v, edge)
    left = 1.0 - below / potential
    power = xp.sqrt(left) if abrupt else left ** (1.0 - grading)
    lower = potential / (1.0 - grading) * (1.0 - power)
    over = xp.maximum(v - edge, 0.0)
    slope = (1.0 - fc) ** (-grading)
    return lower + slope * over * (1.0 + 0.5 * grading / (potential * (1.0 - fc)) * over)


def gap(kelvin: float) -> float:
    """The band gap of silicon, eV."""
    return 1.16 - 7.02e-4 * kelvin**2 / (kelvin + 1108.0)


def _shift(kelvin: float) -> float:
    thermal_voltage = BOLTZMANN * kelvin / CHARGE
    argument = -gap(kelvin) / (2.0 * thermal_voltage) + 1.1150877 / (2.0 * BOLTZMANN * REFERENCE / CHARGE)
    return -2.0 * thermal_voltage * (1.5 * math.log(kelvin / REFERENCE) + argument)


def potential_at(potential: float, kelvin: float, nominal: float) -> float:
    """The potential of a junction at a temperature, given the one at TNOM."""
    at_reference = (potential - _shift(nominal)) * REFERENCE / nominal
    return kelvin / REFERENCE * at_reference + _shift(kelvin)


def capacitance_ratio(potential: float, grading: float, kelvin: float, nominal: float) -> float:
    """The factor by which CJO grows from TNOM to a temperature."""
    at_reference = (potential - _shift(nominal)) * REFERENCE / nominal

    def grown(temperature: float, there: float) -> float:
        return 1.0 + grading * (4e-4 * (temperature - REFERENCE) - (there - at_reference) / at_reference)

    return grown(kelvin, potential_at(potential, kelvin, nominal)) / grown(nominal, potential)


def saturation_ratio(kelvin: float, nominal: float, energy: float, power: float, emission: float = 1.0) -> float:
    """The factor by which IS grows from TNOM to a temperature: exp((T/TNOM - 1) EG/(N V_T)) (T/TNOM)^(XTI/N)."""
    ratio = kelvin / nominal
    exponent = (ratio - 1.0) * energy / (emission * BOLTZMANN * kelvin / CHARGE)
    return math.exp(exponent) * ratio ** (power / emission)
