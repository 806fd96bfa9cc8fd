"""What a sensor reads of a state, when, and with which noise; one description for loops and for data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.noise import readings
from stodyn.noise.coloured import Coloured
from stodyn.noise.distribution import Distribution, distribution
from stodyn.problems.calling import call
from stodyn.problems.contract import traced_twice

KEEPS = ("last", "zero")
SHEET = ("every", "resolution", "range")  # what the data sheet of a gyro says where the sensor does not


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Jitter:
    """Readings about their times: each a random whole number of steps early or late.

    Parameters
    ----------
    steps : int
        Up to how many steps of the run, early or late, with equal chances; less than half a period.
    drifting : bool
        False (the default): about the regular times. True: the intervals are independent, and their sum wanders.

    Notes
    -----
    Sensors and parts that are given the same Jitter act at the same instants.

    Examples
    --------
    >>> import stodyn as sd
    >>> late = sd.Jitter(steps=2)
    """

    steps: int
    drifting: bool = False

    def __post_init__(self):
        if not (isinstance(self.steps, int) and self.steps >= 1):
            raise ValueError(f"Jitter: steps must be a whole number >= 1, got {self.steps!r}")


class Times(NamedTuple):
    """When something acts, in exact fractions: every period from the phase on, its effect after the delay."""

    every: Fraction
    phase: Fraction
    delay: Fraction


class Timed:
    """What acts at times of its own: a sensor or a part, with its name, `every`, `phase` and `delay`."""

    name: str
    every: Any
    phase: Any
    delay: Any

    @property
    def times(self) -> Times:
        """When it acts; refuses what has no period."""
        if self.every is None:
            raise ValueError(f"every: {self.name!r} needs the time between its readings in a loop")
        return Times(*map(self.time, Times._fields))

    @property
    def function_words(self) -> str:
        """Its function in words, with which errors begin."""
        return f"of ({self.name})"

    def time(self, word: str) -> Fraction:
        """One of its times."""
        return exact(f"{word} ({self.name})", getattr(self, word), least=0.0 if word == "every" else None)


def exact(name: str, value: Any, *, least: float | None = None) -> Fraction:
    """Return a time as the decimal fraction that it was written as."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number | Fraction):
        raise TypeError(f"{name}: expected a time as a number, got {value!r}")
    if not math.isfinite(value) or value < 0 or (least is not None and value <= least):
        raise ValueError(
            f"{name}: expected a {'positive' if least is not None else 'non-negative'} time, got {value!r}"
        )
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Sensor(Timed):
    """A sensor: what it reads of the state, how often, with which noise, and how the reading is made.

    Parameters
    ----------
    name : str
        The name of the reading.
    of : str, int, callable, or a sequence of these
        What is read: a component, or a function of(t, x[, params]); several make a vector. In a loop params hold the
        inputs as they act at the time, so that an accelerometer reads the force on it.
    every : float, optional
        The time between readings; needed in a loop.
    noise : per_sample(...), density(..., sides=...), Coloured, a distribution (also scipy's) or gyro(...), optional
        The noise of a reading. A bare number is refused, because the standard deviation of a reading and the root of a
        density differ by the root of the rate. A gyro or accelerometer also gives its errors of scale and direction,
        and its period, resolution and range where they are not given here.
    phase, delay : float
        The time of the first reading after the start, and how late readings arrive.
    average : bool or float, optional
        A reading is the average over the last `every` (True) or over this time, by the trapezoidal rule on the steps.
    increment : bool
        A reading is the integral of the quantity since the sensor's time before, as of a counter or of the angle
        increments of a gyro; for data.
    resolution : float, optional
        One digit of the reading, to which it is rounded.
    range : (low, high), optional
        The limits of the reading.
    bias : Coloured, optional
        A noise that is added to the reading, besides `noise`.
    jitter : Jitter, optional
        Readings about their times.
    loss : float
        The chance that a reading does not arrive.
    keep : "last" or "zero"
        What stands for a reading that did not arrive.
    log_density : callable, optional
        For data: the logarithm of the density of a reading, log_density(reading, t, x, params), in place of `noise`.
    unit : str, optional
        The unit of the reading.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used.

    Examples
    --------
    >>> import stodyn as sd
    >>> gyro = sd.Sensor("rate", of="v", every=0.01, noise=sd.density(1e-3, sides=2), resolution=1e-4)
    """

    name: str
    of: Any
    every: Any
    noise: Any
    phase: Any
    delay: Any
    average: Any
    increment: bool
    resolution: Any
    range: Any
    bias: Any
    jitter: Jitter | None
    loss: float
    keep: str
    log_density: Callable | None
    unit: str | None

    def __init__(
        self,
        name: str,
        of: Any,
        *,
        every: float | None = None,
        noise: Any = None,
        phase: float = 0,
        delay: float = 0,
        average: bool | float | None = None,
        increment: bool = False,
        resolution: float | None = None,
        range: tuple[float, float] | None = None,
        bias: Coloured | None = None,
        jitter: Jitter | None = None,
        loss: float = 0,
        keep: str = "last",
        log_density: Callable | None = None,
        unit: str | None = None,
    ):
        for field, value in list(locals().items()):
            if field != "self":
                object.__setattr__(self, field, value)
        for field in SHEET:
            if getattr(self, field) is None:
                object.__setattr__(self, field, getattr(noise, field, None))
        if hasattr(noise, "dist") and isinstance(noise.dist, scipy.stats.rv_continuous):
            object.__setattr__(self, "noise", distribution(noise, f"noise ({name})"))
        _check(self)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What it reads, one after the other."""
        is_several = isinstance(self.of, Sequence) and not isinstance(self.of, str)
        return tuple(self.of) if is_several else (self.of,)

    def unit_of(self, part: Any, problem: Any) -> str | None:
        """The unit of readings of a part: that of the sensor, else of the component; refuses noise in another."""
        units = problem.component_units or {}
        read = None if callable(part) else units.get(problem.components[_component(problem, part, self.name)])
        unit = self.unit or read
        readings.expect_unit(f"noise ({self.name})", self.noise, unit)
        return unit

    def value(self, problem: Any, t: Any, x: Any, params: Any) -> Any:
        """Return what is read of a state, without noise: a vector."""
        pieces = []
        for part in self.parts:
            if callable(part):
                pieces.append(jnp.ravel(jnp.asarray(call(part, t, x, params=params), x.dtype)))
            else:
                pieces.append(x[_component(problem, part, self.name)][None])
        value = jnp.concatenate(pieces)
        return value if not hasattr(self.noise, "response") else _turned(value, self.noise.response, self.name)

    def width(self, problem: Any, params: Any) -> int:
        """Return how many numbers are read; refuses a function that draws a number, counts or reads a clock."""
        _, shape = traced_twice(self.function_words, lambda x: self.value(problem, 0.0, x, params), np.zeros(problem.n))
        return shape.shape[0]

    def shown(self, value: Any) -> Any:
        """Return a value as the sensor shows it."""
        return readings.shown(value, self.resolution, self.range)

    def recursion(self, outputs: int) -> readings.Recursion:
        """Return noise and bias at the readings as one recursion; of a distribution its draws are separate."""
        every = float(self.times.every)
        parts = [readings.recursion(noise, every, outputs) for noise in self.recursive] or [
            readings.memoryless(outputs, lambda params: 0.0)
        ]
        return readings.stacked(parts) if len(parts) != 1 else parts[0]

    @property
    def recursive(self) -> list[Any]:
        """Noise and bias, where there are any, but for a distribution."""
        return [noise for noise in (self.noise, self.bias) if not (noise is None or isinstance(noise, Distribution))]


def _turned(value: Any, response: np.ndarray, sensor: str) -> Any:
    """Return what axes with errors of scale and direction read; one axis stands for as many as there are."""
    if len(response) == 1:
        return value if response[0, 0] == 1.0 else response[0, 0] * value
    if len(response) != len(value):
        raise ValueError(f"of ({sensor}): its noise has {len(response)} axes, got {len(value)} readings")
    return response @ value


def _component(problem: Any, part: Any, sensor: str) -> int:
    names = problem.components
    if isinstance(part, str):
        if part not in names:
            raise ValueError(f"of ({sensor}): there is no component {part!r}; there are {', '.join(names)}")
        return names.index(part)
    if isinstance(part, int | np.integer) and 0 <= part < len(names):
        return int(part)
    raise ValueError(f"of ({sensor}): expected a component or a function of(t, x[, params]), got {part!r}")


def _are_numbers(value: Any, shape: tuple[int, ...]) -> bool:
    return np.shape(value) == shape and np.asarray(value).dtype.kind in "fiu"


def _check(sensor: Sensor) -> None:
    """Refuse what no sensor has."""
    if not (isinstance(sensor.name, str) and sensor.name):
        raise TypeError(f"name: expected a word, got {sensor.name!r}")
    words = f" ({sensor.name})"
    is_noise = isinstance(sensor.noise, Coloured | Distribution) or hasattr(sensor.noise, "recursion")
    if sensor.noise is not None and not is_noise:
        raise TypeError(readings.refusal(sensor.noise))
    readings.expect_unit(f"noise{words}", sensor.noise, sensor.unit)
    if sensor.bias is not None and not isinstance(sensor.bias, Coloured):
        raise TypeError(f"bias{words}: expected a Coloured, got {sensor.bias!r}")
    for word in Times._fields[sensor.every is None :]:
        sensor.time(word)
    if sensor.resolution is not None and not (_are_numbers(sensor.resolution, ()) and sensor.resolution > 0):
        raise ValueError(
            f"resolution{words}: expected a positive number, got {sensor.resolution!r}; that of a converter of n bits "
            "is (high - low) / 2**n of its range"
        )
    if sensor.range is not None and not (_are_numbers(sensor.range, (2,)) and sensor.range[0] < sensor.range[1]):
        raise ValueError(f"range{words}: expected (low, high) with low < high, got {sensor.range!r}")
    if not 0 <= sensor.loss < 1:
        raise ValueError(f"loss{words}: expected a probability below 1, got {sensor.loss!r}")
    if sensor.keep not in KEEPS:
        raise ValueError(f"keep{words}: expected one of {', '.join(KEEPS)}, got {sensor.keep!r}")
    if sensor.jitter is not None and not isinstance(sensor.jitter, Jitter):
        raise TypeError(f"jitter{words}: expected sd.Jitter(steps=...), got {sensor.jitter!r}")
    if sensor.log_density is not None and sensor.noise is not None:
        raise ValueError(f"log_density{words}: give it or noise, not both")
