"""What steps change of the energy of a body that goes through a narrow, steep piece of a force and is not turned round.

Steps see the force of such a piece by chance: with steps h of a body at the speed V they add up h a(s) at places h V
apart, of which the first may be anywhere, while the piece changes the speed by ∫ a ds / V. The variance of the
difference over that first place, Var J, heats like noise does: with N passages in the time in which damping takes the
energy, or in a run that is shorter, V² becomes too large by N Var J. Whether a body is turned round depends on its
energy against that of the piece, ∫ a ds; one that is moves as at any stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stodyn.methods.surfaces import Equations, Stop

PLACES = np.geomspace(1e-6, 1.0, 120)  # along a piece, of the way that is looked at
WITHIN = np.linspace(-0.05, 1.15, 13)  # of its width, in and beside it, where a step may end
FARTHER, ATTEMPTS = 8.0, 4  # times as far, if the piece does not end there
PHASES, MOST_STEPS = 32, 128  # of steps in a piece, beyond which steps resolve it


class Passage(NamedTuple):
    """A way into a piece of a function.

    V      the speed of a body that comes there in the long run, or at the end of a run
    lasts  the time in which damping takes the energy, or what is left of the run
    width  how wide the piece is; infinite where a body is turned round in it
    s, a   places along the way, 0 where the piece begins, and the acceleration there
    """

    V: float
    lasts: float
    width: float
    s: np.ndarray
    a: np.ndarray

    def heating(self, h: float) -> float:
        """Var J of steps of length h."""
        step = h * self.V
        count = min(math.ceil(self.width / step), MOST_STEPS) + 2
        into = (1.0 - self.width * WITHIN / step) % 1.0
        places = np.unique(np.concatenate([(np.arange(PHASES) + 0.5) / PHASES, into]))
        gaps = np.diff(np.concatenate([places[-1:] - 1.0, places, places[:1] + 1.0]))
        weights = 0.5 * (gaps[1:] + gaps[:-1])
        s = step * (np.arange(count) - places[:, None])
        a = np.interp(s, self.s, self.a)
        impulses = h * (a.sum(axis=1) - 0.5 * (a[:, 0] + a[:, -1]))
        errors = impulses - (self._work(s[:, -1]) - self._work(s[:, 0])) / self.V
        return float(weights @ errors**2 - (weights @ errors) ** 2)

    def _work(self, s: np.ndarray) -> np.ndarray:
        """∫ a ds from the first place, with the same a beyond the last ones."""
        beyond = self.a[0] * np.minimum(s - self.s[0], 0.0) + self.a[-1] * np.maximum(s - self.s[-1], 0.0)
        return np.interp(s, self.s, _sums(self.a, self.s)) + beyond


def passage(equations: Equations, stop: Stop, t: float, z: np.ndarray, end: float) -> Passage:
    """The way into a piece at a state beside it, in a run to a time."""
    rates = _rates(equations, t, z[None])[0]
    begun, into = float(stop.row @ rates), stop.row @ stop.soft
    kicks = np.zeros(1) if equations.g is None else into @ np.asarray(equations.g(np.full(1, t), z[None]))[0]
    left, c = end - t, 2.0 * max(stop.damping, 0.0)
    lasts = min(left, 1.0 / c) if c > 0.0 else left
    forgotten = -math.expm1(-c * left)
    V = math.sqrt(begun**2 * (1.0 - forgotten) + float(kicks @ kicks) * (forgotten / c if c > 0.0 else left))
    forward = math.copysign(1.0, begun)

    def acceleration(s: np.ndarray) -> np.ndarray:
        along = forward * (stop.soft @ stop.push) / (into @ stop.push)
        return forward * _rates(equations, t, z + s[:, None] * along) @ into

    width = _width(acceleration, V, stop.swings)
    if math.isinf(width):
        return Passage(V, lasts, width, np.zeros(1), np.zeros(1))
    from_end = width * PLACES[:-1]
    s = np.unique(np.concatenate([-from_end, [0.0], from_end, width - from_end, [width], width + from_end]))
    return Passage(V, lasts, width, s, acceleration(s))


def _width(acceleration: Callable[[np.ndarray], np.ndarray], V: float, rate: float) -> float:
    reach = 4.0 * V / rate
    for _ in range(ATTEMPTS):
        s = np.concatenate([[0.0], reach * PLACES])
        a = acceleration(s)
        energy = 0.5 * V**2 + _sums(a, s)
        is_stiff = -np.diff(a) / np.diff(s) > 0.5 * rate**2
        begin = int(np.argmax(is_stiff))
        ends = begin + np.flatnonzero(~is_stiff[begin:])
        end = int(ends[0]) if len(ends) else len(is_stiff)
        if (energy[: end + 1] <= 0.0).any():
            return math.inf
        if len(ends):
            return float(s[end])
        reach *= FARTHER
    return math.inf


def excess(passages: list[Passage], rate: float, h: float) -> float:
    """The relative error of V² by passages that were met at a rate."""
    return float(np.mean([max(1.0, rate * own.lasts) * own.heating(h) / own.V**2 for own in passages]))


def _rates(equations: Equations, t: float, states: np.ndarray) -> np.ndarray:
    return np.asarray(equations.f(np.full(len(states), t), states))


def _sums(a: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The integral of a from the first of places s to each of them."""
    return np.concatenate([[0.0], np.cumsum(0.5 * (a[1:] + a[:-1]) * np.diff(s))])
