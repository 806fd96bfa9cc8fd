"""Noise of a sensor's readings, in words that say how it changes with the rate.

per_sample(s)               standard deviation s of a reading, at any rate
density(n, sides=2)         n/√T at the period T: white over all frequencies, S(f) = n² on both sides; Allan's N
density(n, sides=1)         n/√(2T): data sheets count positive frequencies alone
density(n, bandwidth=b)     one pole at b: standard deviation n√(πb) (two-sided), correlated between readings
a Coloured                  its own law at the readings, exactly
a Distribution              independent draws of it

Each of them becomes a Recursion, y = C s + white e, s⁺ = Φ s + drive e, which is what simulations, filters and exact
analyses read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.noise import units
from stodyn.noise.coloured import Coloured, gauss_markov
from stodyn.numerics import van_loan

CHUNK = 1 << 15  # numbers of states that are drawn at a time, so that they stay in the cache
Size: TypeAlias = Any  # a number, an array with one for each output, a name in params, or a function of params


@dataclasses.dataclass(frozen=True, eq=False)
class Recursion:
    """The noise of readings at equal times: y_k = C s_k + white e_k, s_{k+1} = Φ s_k + drive w_k, s_0 = start z.

    `white` is a function of params with one number for each output (or one for all); e, w and z are standard normals.
    """

    Phi: np.ndarray
    drive: np.ndarray
    C: np.ndarray
    start: np.ndarray
    white: Callable[[Any], Any]

    @property
    def states(self) -> int:
        """How many numbers the noise remembers from one reading to the next."""
        return len(self.Phi)

    def draws(self, rng: np.random.Generator, paths: int, steps: int) -> np.ndarray:
        """Draw the noise of readings one after the other: an array (paths, steps, outputs)."""
        s = rng.standard_normal((paths, self.start.shape[1])) @ self.start.T
        values = np.empty((paths, steps, len(self.C)))
        longest = max(CHUNK // (paths * max(self.states, 1)), 1)
        for first in range(0, steps, longest):
            count = min(longest, steps - first)
            states = _followed(self.Phi, s, rng.standard_normal((count * paths, self.drive.shape[1])) @ self.drive.T)
            read = states[:-paths] @ self.C.T
            values[:, first : first + count], s = read.reshape(count, paths, -1).swapaxes(0, 1), states[-paths:]
        return values + self.white(None) * rng.standard_normal(values.shape)


def _followed(Phi: np.ndarray, s: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """All states of s⁺ = Φ s + moved, one below the other, by doubling: after each turn a state holds what twice as
    many of those before it have left."""
    states, power, apart = np.concatenate([s, moved]), Phi.T, len(s)
    while apart < len(states):
        states[apart:] += states[:-apart] @ power
        power, apart = power @ power, 2 * apart
    return states


@dataclasses.dataclass(frozen=True)
class PerSample:
    """Independent noise of a given standard deviation in every reading."""

    size: Size

    @property
    def reading_unit(self) -> units.Unit | None:
        """The unit of a reading, where the size has one in words."""
        return units.measure("size", self.size)

    def recursion(self, every: float, outputs: int) -> Recursion:
        """Return the noise at readings this far apart."""
        return memoryless(outputs, lambda params: resolved(self.size, params))


@dataclasses.dataclass(frozen=True)
class Density:
    """White noise by the root of its spectral density."""

    root: Size
    sides: int
    bandwidth: float | None = None

    @property
    def reading_unit(self) -> units.Unit | None:
        """The unit of a reading, where the root has one in words."""
        known = units.measure("root", self.root)
        return None if known is None else known.times(units.parsed("sqrt(Hz)"))

    def two_sided(self, params: Any = None) -> Any:
        """Return the root of the two-sided density, which is Allan's N."""
        root = resolved(self.root, params)
        return root if self.sides == 2 else root / math.sqrt(2.0)

    def coloured(self) -> Coloured:
        """Return the noise behind one pole at the bandwidth."""
        assert self.bandwidth is not None
        size = self.two_sided() * math.sqrt(math.pi * self.bandwidth)
        return gauss_markov(float(size), 1.0 / (2.0 * math.pi * self.bandwidth))

    def recursion(self, every: float, outputs: int) -> Recursion:
        """Return the noise at readings this far apart."""
        if self.bandwidth is not None:
            return of_coloured(self.coloured(), every, outputs)
        return memoryless(outputs, lambda params: self.two_sided(params) / math.sqrt(every))


@checks_arguments
def per_sample(size: Size) -> PerSample:
    """Give the standard deviation of a sensor's noise in each reading, which does not change with its rate.

    Parameters
    ----------
    size : float, array, str or callable
        The standard deviation, in units of the reading: a number, one for each output, the name of an entry of params,
        or a function of params; or with a unit in words, "0.02 deg/s", for a reading in rad, m and s.

    Returns
    -------
    PerSample

    Raises
    ------
    ValueError
        If a number is negative or not finite, or its unit is one per √Hz.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.per_sample(0.02)
    PerSample(size=0.02)
    """
    known = units.measure("size", size)
    if known is not None and known.time.denominator != 1:
        raise ValueError(
            f"size: {size!r} is the root of a density, from which the deviation of a reading follows by the rate; "
            f"write density({size!r}, sides=1) or sides=2"
        )
    return PerSample(_checked("size", size))


@checks_arguments
def density(root: Size, *, sides: int | None = None, bandwidth: float | None = None) -> Density:
    """Give a sensor's noise by the root of its spectral density: the standard deviation of a reading then has √rate.

    Parameters
    ----------
    root : float, array, str or callable
        In units of the reading per √Hz: a number, one for each output, the name of an entry of params, or a function
        of params; or with a unit in words, "0.008 deg/s/sqrt(Hz)", for a reading in rad, m and s.
    sides : 1 or 2
        Whether the density counts positive frequencies alone, as data sheets do, or both signs, as Allan's N, kalibr
        and the intensity of white noise do; the roots differ by √2. A reading of the period T has the standard
        deviation root/√(2T) with one side and root/√T with two. It must be said: without, the call is refused.
    bandwidth : float, optional
        In Hz, one pole in front of the converter; by default white up to all frequencies.

    Returns
    -------
    Density

    Raises
    ------
    ValueError
        If `sides` is neither 1 nor 2, or a number is negative or not finite.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.density(0.0025, sides=2)
    Density(root=0.0025, sides=2, bandwidth=None)
    """
    if sides is None:
        raise ValueError(f"sides: the frequencies of {root!r} may be counted in two ways: {both_counts(root)}; give "
                         "sides=1 or sides=2")  # fmt: skip
    if sides not in (1, 2):
        raise ValueError(f"sides: expected 1 (positive frequencies, as data sheets) or 2 (Allan's N), got {sides!r}")
    if bandwidth is not None:
        if not (isinstance(bandwidth, int | float) and math.isfinite(bandwidth) and bandwidth > 0):
            raise ValueError(f"bandwidth: expected a positive frequency in Hz, got {bandwidth!r}")
        is_number = isinstance(root, int | float | np.number) or units.measure("root", root) is not None
        if not is_number:
            raise ValueError(f"root: expected one number where there is a bandwidth, got {root!r}")
    known = units.measure("root", root)
    if known is not None and known.time.denominator == 1:
        raise ValueError(f"root: {root!r} is no root of a density; expected a unit per √Hz, or one like deg/sqrt(h)")
    return Density(_checked("root", root), sides, bandwidth)


def both_counts(root: Any) -> str:
    """Both readings of the root of a density whose sides are not given, in words."""
    known = units.measure("root", root)
    if known is None and (isinstance(root, str) or callable(root) or np.ndim(root)):
        return "positive ones alone, as data sheets do, or both signs, as Allan's N and kalibr do; roots differ by √2"
    size, unit = (float(root), "") if known is None else (known.size, " in rad, m, s")
    return (
        f"positive ones alone, as data sheets do (sides=1, in Allan's terms {size / math.sqrt(2.0):.4g}{unit}), or "
        f"both signs, as Allan's N and kalibr do (sides=2, {size:.4g}{unit})"
    )


def expect_unit(argument: str, noise: Any, unit: str | None) -> None:
    """Refuse noise with a unit in words, or of a data sheet, where readings are in another unit of rad, m and s."""
    known = getattr(noise, "reading_unit", None)
    if known is None or unit is None:
        return
    try:
        read = units.parsed(unit)
    except ValueError:
        read = None
    if read is None or read.powers != known.powers:
        raise ValueError(
            f"{argument}: is of {units.in_words(known)}, but the readings are in {unit}; give a noise of what is read, "
            "or per_sample or density with a number alone, which is in the unit of the readings"
        )
    if read.size != 1.0:
        raise ValueError(
            f"{argument}: sizes with units in words, and those of data sheets, become {units.in_words(known)}, but the "
            f"readings are in {unit}; give per_sample or density a number alone, or read in {units.in_words(known)}"
        )


def _checked(name: str, size: Size) -> Size:
    if callable(size) or (isinstance(size, str) and units.measure(name, size) is None):
        return size
    numbers = np.asarray(resolved(size, None))
    if numbers.dtype.kind not in "fiu" or numbers.ndim > 1 or not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ValueError(f"{name}: expected a number >= 0, one for each output, a name in params or a function of "
                         f"params, got {size!r}")  # fmt: skip
    return size


def resolved(size: Size, params: Any) -> Any:
    """Return the number behind a Size."""
    if callable(size):
        return size(params)
    if isinstance(size, str):
        unit = units.measure("noise", size)
        if unit is not None:
            return unit.size
        if not hasattr(params, "keys") or size not in params:
            known = ", ".join(map(str, params)) if hasattr(params, "keys") else "none"
            raise ValueError(f"noise: there is no {size!r} in params; there are {known}")
        return params[size]
    return size if isinstance(size, int | float) else np.asarray(size, float)


def memoryless(outputs: int, white: Callable[[Any], Any]) -> Recursion:
    """Return independent noise of this size."""
    return Recursion(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((outputs, 0)), np.zeros((0, 0)), white)


def of_coloured(noise: Coloured, every: float, outputs: int) -> Recursion:
    """Return a filter's noise at readings this far apart; one output serves every reading with a noise of its own."""
    if len(noise.C) not in (1, outputs):
        raise ValueError(f"noise: it has {len(noise.C)} outputs, the reading has {outputs}")
    Phi, Qd = noise.discretise(every)
    copies = 1 if len(noise.C) == outputs else outputs
    parts = (Phi, van_loan.root(Qd), noise.C, van_loan.root(noise.state_covariance))
    Phi, drive, C, start = (scipy.linalg.block_diag(*[part] * copies) for part in parts)
    return Recursion(Phi, drive, C, start, lambda params: 0.0)


def stacked(parts: list[Recursion]) -> Recursion:
    """Return the sum of independent noises of the same outputs."""
    Phi, drive, start = (scipy.linalg.block_diag(*(getattr(part, name) for part in parts) )
                         for name in ("Phi", "drive", "start"))  # fmt: skip

    def white(params: Any) -> Any:
        return sum(part.white(params) ** 2 for part in parts) ** 0.5

    return Recursion(Phi, drive, np.concatenate([part.C for part in parts], axis=1), start, white)


def recursion(noise: Any, every: float, outputs: int = 1) -> Recursion:
    """Return any noise of a sensor as a Recursion at readings this far apart."""
    if noise is None:
        return memoryless(outputs, lambda params: 0.0)
    if isinstance(noise, Coloured):
        return of_coloured(noise, every, outputs)
    if hasattr(noise, "recursion"):
        return noise.recursion(every, outputs)
    raise TypeError(refusal(noise))


def shown(value: Any, resolution: float | None, limits: tuple[float, float] | None) -> Any:
    """Return values as a sensor shows them: rounded to its resolution, within its limits."""
    array = np if isinstance(value, np.ndarray) else jnp
    if resolution:
        value = resolution * array.floor(value / resolution + 0.5)
    return value if limits is None else array.clip(value, *limits)


def refusal(noise: Any) -> str:
    """The words in which something that is no noise of a sensor is refused; a bare number has two meanings."""
    if isinstance(noise, int | float | np.number):
        return (
            f"noise: {noise!r} may be the standard deviation of a reading or the root of a density, which differ by "
            f"the root of the rate; write sd.per_sample({noise!r}) or sd.density({noise!r}, sides=1 or 2)"
        )
    return (
        f"noise: expected sd.per_sample(...), sd.density(..., sides=...), a Coloured, a distribution or "
        f"noise.gyro(...), got {type(noise).__name__}"
    )
