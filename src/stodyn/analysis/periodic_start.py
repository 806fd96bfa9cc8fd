"""A first guess of a periodic solution: follow the system without noise until it repeats itself.

The length of the first window is taken from the fastest rate at the start and doubled until some component has gone up
and down several times, in the last window or in the last three joined. From there on windows of a few periods follow
until three successive periods agree to 1 % and the states at their ends to 5 % of their range; Newton does the rest,
however slowly the amplitude settles. Where one component still drifts and others have gone round regularly meanwhile,
as the bias of an oscillator does on its bypass capacitor, Newton may try from there before the next window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from stodyn.analysis.periodic_system import System
from stodyn.numerics import radau

RTOL, FINE = 1e-3, 1e-5
SMALL, SMALL_IN_UNIT = 1e-3, 0.1  # of the largest component, and of the largest in the same unit
FROM_ZERO = 1e-12  # taken for the largest component of a start whose components are all zero
WINDOW_POINTS = 800  # points of a window
DOUBLINGS = 60
MOST_TURNS = 8  # rises of one component within a period
JOINED = 3  # windows that are joined where the last one shows too few periods
RISES = 3  # the fewest in a window from which a period is inferred
REGULAR = 10  # the fewest in a window while another component drifts
REST = 1e-6  # of the size of a component: a range below it is none


class Guess(NamedTuple):
    """A state near the periodic solution at time t, its period, and the periods observed last; where whole periods were
    observed, the times and states of the last window, and whether some components still drift there."""

    t: float
    x: np.ndarray
    period: float
    periods: tuple[float, ...]
    window: tuple[np.ndarray, np.ndarray] | None = None
    drifts: bool = False

    def turn(self, shares: np.ndarray) -> np.ndarray:
        """The states (shares, n) at these fractions of the last observed period, which ended at t."""
        assert self.window is not None
        times, states = self.window
        when = self.t + self.period * (shares - 1.0)
        return np.stack([np.interp(when, times, states[:, i]) for i in range(states.shape[1])], axis=1)


class NoOscillation(ValueError):
    """No solution was found that repeats itself."""


def followed(system: System, times: np.ndarray, x: np.ndarray, rtol: float = RTOL) -> np.ndarray:
    """The states (times, n) of the noise-free system from x at the first time; NoOscillation where there are none."""
    equations = radau.Nonlinear(
        system.mass[None],
        lambda t, y: system.f(t, y[:, 0])[:, None],
        lambda t, y: system.jacobian(np.array([t]), y),
    )
    try:
        return radau.controlled(equations, times, x[None], 5, rtol, atol=rtol * _floors(system, x))[0][:, 0]
    except radau.StepTooSmall:
        raise NoOscillation(f"the noise-free system could not be followed from t = {times[0]:.4g} to {times[-1]:.4g}: "
                            "it jumps or has a singularity there") from None  # fmt: skip


def _floors(system: System, x: np.ndarray) -> np.ndarray:
    """Sizes below which components need not be followed: shares of the largest of all, and of all in their unit."""
    sizes = np.abs(x)
    return np.maximum(SMALL * (sizes.max() or FROM_ZERO), SMALL_IN_UNIT * system.largest_alike(sizes))


def driven(system: System, t: float, x: np.ndarray, period: float, settle: float) -> Guess:
    """After at most `settle` periods, fewer where the states at their ends agree to 5 % of the range."""
    for _ in range(max(1, math.ceil(settle))):
        states = followed(system, np.linspace(t, t + period, 33), x)
        reach = np.ptp(states, axis=0)
        moved = np.abs(states[-1] - x)
        t, x = t + period, states[-1]
        others = np.setdiff1d(np.arange(system.n), system.wandering)
        if np.all(moved[others] <= 0.05 * reach[others] + 1e-9 * np.abs(states[:, others]).max(axis=0)):
            break
    return Guess(t, x, period, (period,))


def autonomous(system: System, x: np.ndarray, period: float | None, settle: float) -> Iterator[Guess]:
    """States of the oscillation and their periods, the last one where it repeats itself or had the time to; those
    before it while some components drift."""
    x = _pushed(system, x)
    t, window = 0.0, 3.0 * period if period else _first_window(system, x)
    start_window, periods, largest = window, [], np.zeros(system.n)
    known = period
    spent = 0.0
    windows: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(DOUBLINGS + 8 * math.ceil(settle)):
        times = np.linspace(t, t + window, WINDOW_POINTS + 1)
        states = followed(system, times, x)
        if not np.isfinite(states).all():
            raise NoOscillation(f"the noise-free system has no finite solution beyond t = {t:.4g}")
        reach = np.ptp(states, axis=0)
        largest = np.maximum(largest, reach)
        t, x = times[-1], states[-1]
        rises = _rises(system, times, states)
        windows = [*windows[1 - JOINED :], (times[1:], states[1:])]
        guess = _repeated(system, times, states, rises)
        if rises is None and len(windows) == JOINED:
            joined = np.concatenate([part[0] for part in windows]), np.concatenate([part[1] for part in windows])
            guess = _repeated(system, *joined, _rises(system, *joined))
        if guess is not None:
            yield guess
            return
        drifting = _drifting(system, times, states)
        if drifting is not None:
            yield drifting
        if rises is None:
            if known is not None:
                spent += window / known
                if spent > 8.0 * settle:
                    break
            size = np.abs(states).max(axis=0)
            if window > start_window and np.all(reach <= 1e-4 * largest + REST * (size + 1e-9 * size.max())):
                left = float((reach / np.maximum(largest, 1e-300)).max())
                raise NoOscillation(f"the oscillation dies out: in the last {window:.4g} of time every component "
                                    f"stays within {left:.1e} of the range it had")  # fmt: skip
            window *= 2.0
            continue
        spent += window / (known or window)
        periods, known = np.diff(rises)[-3:].tolist(), float(rises[-1] - rises[-2])
        if spent > 8.0 * settle:
            break
        window = max(4.5 * known, min(2.0 * window, MOST_TURNS * 3.0 * known))
    if known is None:
        raise NoOscillation("no component keeps going up and down")
    yield Guess(t, x, known, tuple(periods))


def sharpened(system: System, guess: Guess) -> Guess:
    """The guess after one more period, its period from the return of the component that moves fastest."""
    before = followed(system, np.linspace(0.0, guess.period, 401), guess.x, FINE)
    reach = np.ptp(before, axis=0)
    x = before[-1]
    ahead = np.linspace(0.0, 1.25 * guess.period, 2501)
    states = followed(system, ahead, x, FINE)
    speed = np.abs(states[1] - x) / np.where(reach > 0.0, reach, np.inf)
    speed[system.wandering] = 0.0
    i = int(np.argmax(speed))
    z = (states[:, i] - x[i]) * np.sign(states[1, i] - x[i])
    back = 1 + np.flatnonzero((z[1:-1] < 0.0) & (z[2:] >= 0.0))
    if not len(back):
        return guess._replace(x=x)
    shares = -z[back] / (z[back + 1] - z[back])
    times = ahead[back] + shares * (ahead[1] - ahead[0])
    near = int(np.argmin(np.abs(times - guess.period)))
    return guess._replace(x=x, period=float(times[near]))


def _pushed(system: System, x: np.ndarray) -> np.ndarray:
    """The start, or where nothing moves there, one a little off it along its fastest growing mode."""
    at = np.zeros(1)
    J = system.jacobian(at, x[None])[0]
    speed = system.velocity(at, x[None], J[None])[0]
    values, vectors = scipy.linalg.eig(J, system.mass)
    usable = np.isfinite(values)
    fastest = np.abs(values[usable]).max(initial=0.0)
    if np.all(np.abs(speed) > 1e-9 * fastest * (1e-9 + np.abs(x))) or not usable.any():
        return x
    if np.abs(speed).max() > 1e-6 * fastest * (1e-3 + np.abs(x).max()):
        return x
    fastest = np.argmax(np.where(usable, values.real, -np.inf))
    if not values[fastest].real > 0.0:
        return x
    mode = vectors[:, fastest].real
    return x + 0.01 * (np.abs(x).max() + 1e-3) * mode / np.abs(mode).max()


def _first_window(system: System, x: np.ndarray) -> float:
    values = scipy.linalg.eigvals(system.jacobian(np.zeros(1), x[None])[0], system.mass)
    sizes = np.abs(values[np.isfinite(values)])
    sizes = sizes[sizes > 0.0]
    return 2.0 * np.pi / float(sizes.max()) if len(sizes) else 1.0


def _repeated(system: System, times: np.ndarray, states: np.ndarray, rises: np.ndarray | None) -> Guess | None:
    """The last period of a window in which the states repeat; None where they do not."""
    turns = None if rises is None else _turns(system, times, states, rises)
    if rises is None or turns is None:
        return None
    periods = rises[turns::turns] - rises[: len(rises) - turns : turns] if turns > 1 else np.diff(rises)
    x = _between(times, states, rises[-1])
    return Guess(float(rises[-1]), x, float(periods[-1]), tuple(periods[-3:]), (times, states))


def _turns(system: System, times: np.ndarray, states: np.ndarray, rises: np.ndarray) -> int | None:
    """After how many rises the states repeat to 5 % of their range and the time between to 1 %; None where they do not.

    A component may rise several times in a period, as the supply of a ring oscillator does.
    """
    ends = np.stack([_between(times, states, when) for when in rises])
    allowed = 0.05 * np.ptp(states, axis=0) + REST * np.abs(states).max(axis=0)
    allowed[system.wandering] = np.inf
    for turns in range(1, min(MOST_TURNS, (len(rises) - 1) // 2) + 1):
        lengths = rises[turns:] - rises[:-turns]
        apart = np.abs(ends[turns:] - ends[:-turns])[-2 * turns :]
        if np.ptp(lengths[-2 * turns :]) <= 0.01 * lengths[-1] and np.all(apart <= allowed):
            return turns
    return None


def _rises(system: System, times: np.ndarray, states: np.ndarray) -> np.ndarray | None:
    """When a component rises through the middle of its range, for the component that does so least often.

    None where one does so at all, but fewer than RISES times: the period may be longer than this window shows.
    """
    rises = [some for some in _rises_of_each(system, times, states) if len(some)]
    least = min(rises, key=len, default=None)
    return None if least is None or len(least) < RISES else least


def _drifting(system: System, times: np.ndarray, states: np.ndarray) -> Guess | None:
    """The last turn of the components that go round at least REGULAR times in a window, in equal times and without
    much change from one to the next; None where none does."""
    rises = min((some for some in _rises_of_each(system, times, states) if len(some) >= REGULAR), key=len, default=None)
    if rises is None or _turns(system, times, states, rises) != 1:
        return None
    periods = np.diff(rises)
    return Guess(float(rises[-1]), _between(times, states, rises[-1]), float(periods[-1]), tuple(periods[-3:]),
                 (times, states), True)  # fmt: skip


def _rises_of_each(system: System, times: np.ndarray, states: np.ndarray) -> Iterator[np.ndarray]:
    """When each component rises through the middle of its range. Ripple of less than 40 % of the range is passed over.
    Components that do not move are left out."""
    for i in np.setdiff1d(np.arange(system.n), system.wandering):
        values = states[:, i]
        low, high = values.min(), values.max()
        if high - low <= REST * (np.abs(values).max() + 1e-300):
            continue
        z = (values - 0.5 * (low + high)) / (high - low)
        rises, last = [], 1
        for k in (1 + np.flatnonzero((z[:-1] < 0.2) & (z[1:] >= 0.2))).tolist():
            if z[last : k + 1].min() < -0.2:
                before = k
                while z[before - 1] >= 0.0:
                    before -= 1
                share = -z[before - 1] / (z[before] - z[before - 1])
                rises.append(times[before - 1] + share * (times[before] - times[before - 1]))
                last = k + 1
        yield np.array(rises)


def _between(times: np.ndarray, states: np.ndarray, when: float) -> np.ndarray:
    return np.array([np.interp(when, times, states[:, i]) for i in range(states.shape[1])])
