"""Numbers with units in words, as data sheets print them: "0.34 deg/sqrt(h)", "100 ug/sqrt(Hz)".

A unit is a product of powers of angles, lengths and times; what is asked for says which powers it must have, so that a
drift in deg/h is not taken for a random walk in deg/√h. Numbers without a unit are in rad, m and s.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

from stodyn.arguments import suggestion

GRAVITY = 9.80665  # m/s², standard
DEGREE = math.pi / 180.0


class Unit(NamedTuple):
    """A size in rad, m and s, and the powers of angle, length and time."""

    size: float
    angle: Fraction
    length: Fraction
    time: Fraction

    def to(self, power: Fraction) -> Unit:
        """This unit to a power."""
        return Unit(self.size ** float(power), self.angle * power, self.length * power, self.time * power)

    def times(self, other: Unit) -> Unit:
        """The product of two units."""
        return Unit(self.size * other.size, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))

    @property
    def powers(self) -> tuple[Fraction, Fraction, Fraction]:
        """The powers of angle, length and time in this unit."""
        return self.angle, self.length, self.time


def _unit(size: float, angle: int = 0, length: int = 0, time: int = 0) -> Unit:
    return Unit(size, Fraction(angle), Fraction(length), Fraction(time))


UNITS = {
    "rad": _unit(1.0, 1), "mrad": _unit(1e-3, 1), "urad": _unit(1e-6, 1),
    "dps": _unit(DEGREE, 1, 0, -1), "mdps": _unit(1e-3 * DEGREE, 1, 0, -1),
    "deg": _unit(DEGREE, 1), "mdeg": _unit(1e-3 * DEGREE, 1), "arcsec": _unit(DEGREE / 3600.0, 1),
    "m": _unit(1.0, 0, 1), "cm": _unit(1e-2, 0, 1), "mm": _unit(1e-3, 0, 1), "ft": _unit(0.3048, 0, 1),
    "g": _unit(GRAVITY, 0, 1, -2), "mg": _unit(1e-3 * GRAVITY, 0, 1, -2), "ug": _unit(1e-6 * GRAVITY, 0, 1, -2),
    "s": _unit(1.0, 0, 0, 1), "ms": _unit(1e-3, 0, 0, 1), "us": _unit(1e-6, 0, 0, 1), "min": _unit(60.0, 0, 0, 1),
    "h": _unit(3600.0, 0, 0, 1), "hr": _unit(3600.0, 0, 0, 1), "Hz": _unit(1.0, 0, 0, -1),
}  # fmt: skip
NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")
FACTOR = re.compile(r"\s*(sqrt\(\s*(?P<under>[A-Za-z]+)\s*\)|(?P<plain>[A-Za-z]+)(?:\^(?P<power>-?\d+))?)\s*")


def number(name: str, value: Any, like: str) -> float:
    """Return a value in rad, m and s: a number as it is, or one with a unit in words of the same kind as `like`."""
    if not isinstance(value, str):
        return float(value)
    known = measure(name, value)
    if known is None:
        raise ValueError(f"{name}: expected a number with a unit, such as '0.3 {like}', got {value!r}")
    if known.powers != parsed(like, name).powers:
        raise ValueError(f"{name}: {_parts(value)[1]} is not a unit of this; expected one like {like}")
    return known.size


def measure(name: str, value: Any) -> Unit | None:
    """Return a number with a unit in words as a unit of that size; None of anything else."""
    count, unit = _parts(value) if isinstance(value, str) else ("", "")
    return parsed(unit, name).times(_unit(float(count))) if unit else None


def in_words(unit: Unit) -> str:
    """The unit of rad, m and s with the powers of this one, such as rad/s."""
    powers = list(zip(("rad", "m", "s"), unit.powers, strict=True))
    above = " ".join(_power(word, power) for word, power in powers if power > 0) or "1"
    return "/".join([above, *(_power(word, -power) for word, power in powers if power < 0)])


def _power(word: str, power: Fraction) -> str:
    if power.denominator == 1:
        return word if power == 1 else f"{word}^{power}"
    return f"sqrt({word})" if power == Fraction(1, 2) else f"{word}^({power})"


def is_density(value: Any) -> bool:
    """Whether a value is a number per √Hz, of which it is to be said how frequencies are counted."""
    return isinstance(value, str) and "sqrt(Hz)" in _spelled(_parts(value)[1]).replace(" ", "")


def _parts(value: str) -> tuple[str, str]:
    """The number and the unit in a text; both are empty where there is none."""
    parts = NUMBER.match(value)
    return ("", "") if parts is None else (parts[1], parts[2])


def _spelled(text: str) -> str:
    """A unit in letters of ASCII."""
    text = text.replace("µ", "u").replace("μ", "u").replace("°", "deg").replace("²", "^2").replace("·", "*")
    return re.sub(r"√\(?([A-Za-z]+)\)?", r"sqrt(\1)", text)


def parsed(text: str, name: str = "unit") -> Unit:
    """Return the unit that a text such as "deg/s/sqrt(Hz)" names; what follows a slash divides."""
    text = _spelled(text)
    unit, sign, rest = _unit(1.0), 1, text
    while True:
        factor = FACTOR.match(rest)
        if factor is None:
            raise ValueError(f"{name}: {text!r} is no unit; write it like deg/sqrt(h), rad/s/sqrt(Hz) or m/s^2")
        word = factor["under"] or factor["plain"]
        if word not in UNITS:
            raise ValueError(
                f"{name}: there is no unit {word!r}; there are {', '.join(UNITS)}{suggestion(word, UNITS)}"
            )
        power = Fraction(1, 2) if factor["under"] else Fraction(factor["power"] or 1)
        unit = unit.times(UNITS[word].to(sign * power))
        rest = rest[factor.end() :]
        if not rest:
            return unit
        if rest[0] not in "/*":
            raise ValueError(f"{name}: expected / or * before {rest!r} in {text!r}")
        sign, rest = (-1 if rest[0] == "/" else 1), rest[1:]
