"""Rainflow counts of many series at once (ASTM E1049), and the cycles to failure of a material.

The turning points of a series are read one by one onto a stack. Whenever the range between the two in the middle of its
last four is no larger than its neighbours, these two are a full cycle and leave the stack (the four-point rule). Those
left in the end count as half cycles. These are the counts of ASTM's three-point rule, whichever way a series begins.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.arguments import checks_arguments


class Cycles(NamedTuple):
    """Cycles of several series: the series each belongs to, its range, its mean, and 1, or ½ for half a cycle."""

    series: np.ndarray
    range: np.ndarray
    mean: np.ndarray
    counts: np.ndarray


def cycles_of(points: np.ndarray) -> Cycles:
    """The rainflow cycles of the columns of `points` (times, series), which need not be turning points."""
    turns = [_turning_points(column) for column in points.T]
    sizes = np.array([len(one) for one in turns], int)
    stack = np.zeros((sizes.max(initial=0), len(turns)))
    for k, one in enumerate(turns):
        stack[: len(one), k] = one
    full, height = _full_cycles(stack, sizes)
    rest = np.arange(1, len(stack))[:, None] < height
    _, series = np.nonzero(rest)
    ends = stack[1:][rest], stack[:-1][rest]
    half = _cycles(series, *ends, 0.5)
    return Cycles(*(np.concatenate(parts) for parts in zip(*full, half, strict=True)))


def _turning_points(values: np.ndarray) -> np.ndarray:
    """The first point, those at which a series turns, and the last; one of points that follow each other and agree."""
    values = values[np.append(True, np.diff(values) != 0.0)]
    rising = np.diff(values) > 0.0
    inner = rising[1:] != rising[:-1]
    return values[np.concatenate([[True], inner, [True]])] if len(values) > 1 else values


def _full_cycles(stack: np.ndarray, sizes: np.ndarray) -> tuple[list[Cycles], np.ndarray]:
    """The full cycles of all columns, whose rests are left in `stack`, and how many points are left in each."""
    full, height = [], np.zeros(len(sizes), int)
    for k in range(len(stack)):
        open_ones = np.flatnonzero(k < sizes)
        stack[height[open_ones], open_ones] = stack[k, open_ones]
        height[open_ones] += 1
        while len(open_ones := open_ones[height[open_ones] >= 4]):
            top = height[open_ones]
            a, b, c, d = (stack[top - j, open_ones] for j in (4, 3, 2, 1))
            inner = np.abs(c - b)
            closes = (inner <= np.abs(b - a)) & (inner <= np.abs(d - c))
            open_ones, top = open_ones[closes], top[closes]
            full.append(_cycles(open_ones, b[closes], c[closes], 1.0))
            stack[top - 3, open_ones] = d[closes]
            height[open_ones] -= 2
    return full, height


def _cycles(series: np.ndarray, a: np.ndarray, b: np.ndarray, count: float) -> Cycles:
    return Cycles(series, np.abs(b - a), 0.5 * (a + b), np.full(len(series), count))


def between_steps(values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Values (times, ...) with the turning points of Hermite's cubics between them; slopes are those of one step at its
    beginning and its end, (2, times - 1, ...). A step without turning points repeats its first value."""
    a, b = values[:-1], values[1:]
    p, q = slopes
    half, cubed = 3.0 * (b - a) - 2.0 * p - q, 3.0 * (2.0 * (a - b) + p + q)  # slope: p + 2 half u + cubed u²
    square = half**2 - cubed * p
    with np.errstate(divide="ignore", invalid="ignore"):
        root = -(half + np.copysign(np.sqrt(np.maximum(square, 0.0)), half))
        shares = np.sort(np.stack([root / cubed, p / root]), axis=0)
        is_inside = (square > 0.0) & (shares > 0.0) & (shares < 1.0)
    u = np.where(is_inside, shares, 0.0)
    inside = a + u * (p + u * (half + u * cubed / 3.0))
    # A turning point that is not in the step becomes the point before it.
    first = np.where(is_inside[0], inside[0], a)
    second = np.where(is_inside[1], inside[1], first)
    woven = np.stack([a, first, second], axis=1).reshape(3 * len(a), *values.shape[1:])
    return np.concatenate([woven, values[-1:]])


AMPLITUDE, RANGE = "amplitude", "range"
STEEPEST = 100.0  # slope; those of steel are from 3 to 20


@checks_arguments
@dataclasses.dataclass(frozen=True)
class SNCurve:
    """The number of cycles to failure, N = K S^-m, by the amplitude S of the stress or by its range.

    Parameters
    ----------
    K : float
        The number of cycles at S = 1.
    m : float
        The slope, > 0.
    knee : float, optional
        The S below which the slope is another one, `below`; the curve is continuous there.
    below : float, optional
        The slope below the knee, usually larger than m; math.inf for an endurance limit: no damage below it.
    per : "amplitude" or "range"
        Whether S is the amplitude of a cycle, half of its range, as of test bars, or the range, as in codes.

    Raises
    ------
    ValueError
        If a number is not above 0, or only one of `knee` and `below` is given.

    Examples
    --------
    >>> from stodyn.analysis import fatigue
    >>> curve = fatigue.SNCurve(1e12, 3.0, knee=20.0, below=5.0)
    >>> float(curve.cycles_to_failure(100.0))
    1000000.0
    """

    K: float
    m: float
    knee: float | None = None
    below: float | None = None
    per: str = AMPLITUDE

    def __post_init__(self):
        for name in ("K", "m"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected a number > 0, got {getattr(self, name)!r}")
        if self.m > STEEPEST:
            raise ValueError(f"m: a slope of {self.m:g} is above {STEEPEST}; the order is SNCurve(K, m), K in cycles")
        if (self.knee is None) != (self.below is None):
            raise ValueError(
                f"knee, below: expected both or neither, the S at which the slope changes and the slope below it, got "
                f"{self.knee!r} and {self.below!r}"
            )
        if self._knee and not (0.0 < self._knee[0] < math.inf and self._knee[1] > 0.0):
            raise ValueError(f"knee, below: expected numbers > 0, got {self.knee!r} and {self.below!r}")
        if self.per not in (AMPLITUDE, RANGE):
            raise ValueError(f'per: expected "{AMPLITUDE}" or "{RANGE}", got {self.per!r}')

    @property
    def _knee(self) -> tuple[float, float] | None:
        """The S at which the slope changes, and the slope below it."""
        return None if self.knee is None or self.below is None else (self.knee, self.below)

    def cycles_to_failure(self, S: Any) -> np.ndarray:
        """Return N at the amplitude or range S.

        Parameters
        ----------
        S : float or array
            As `per` says.

        Returns
        -------
        array

        Raises
        ------
        ValueError
            If a number is below 0.
        """
        with np.errstate(divide="ignore"):
            return 1.0 / self._damage(_not_below_zero("S", S))

    def damage(self, ranges: Any) -> np.ndarray:
        """Return Miner's damage 1/N of one cycle of each range.

        Parameters
        ----------
        ranges : float or array
            The difference of the largest and the smallest stress of a cycle.

        Returns
        -------
        array

        Raises
        ------
        ValueError
            If a number is below 0.
        """
        return self._damage(_not_below_zero("ranges", ranges) * (1.0 if self.per == RANGE else 0.5))

    def _damage(self, S: np.ndarray) -> np.ndarray:
        upper = S**self.m / self.K
        if self._knee is None:
            return upper
        knee, below = self._knee
        with np.errstate(over="ignore", under="ignore"):
            lower = knee**self.m / self.K * (S / knee) ** below
        return np.where(knee > S, np.where(S > 0.0, lower, 0.0), upper)  # NaN where S is

    def mean_damage(self, scale: float, shape: float) -> float:
        """E 1/N of cycles with amplitudes of Weibull's law: P(amplitude > a) = exp(-(a/scale)^shape), Rayleigh's where
        shape = 2 and scale = √2 σ, the exponential one where shape = 1."""
        unit = scale * (2.0 if self.per == RANGE else 1.0)
        order = 1.0 + self.m / shape
        whole = unit**self.m / self.K * math.gamma(order)
        if self._knee is None:
            return whole
        knee, below = self._knee
        at = (knee / unit) ** shape
        upper = whole * float(scipy.special.gammaincc(order, at))
        if math.isinf(below):
            return upper
        order = 1.0 + below / shape
        log = math.lgamma(order) + below * math.log(unit / knee)
        return upper + knee**self.m / self.K * math.exp(log) * float(scipy.special.gammainc(order, at))


def _not_below_zero(name: str, values: Any) -> np.ndarray:
    sizes = np.asarray(values, float)
    if np.any(sizes < 0.0):
        raise ValueError(f"{name}: expected numbers >= 0, got {sizes.min():g}")
    return sizes


def curve_of(curve: Any) -> SNCurve:
    """An S-N curve, which may be given as the pair (K, m)."""
    if isinstance(curve, SNCurve):
        return curve
    if isinstance(curve, (tuple, list)) and len(curve) == 2:
        return SNCurve(float(curve[0]), float(curve[1]))
    raise TypeError(f"curve: expected (K, m) of N = K S^-m with S the amplitude, or an SNCurve, got {curve!r}")
