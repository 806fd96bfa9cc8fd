"""A first guess of a periodic solution: follow the system without noise until it repeats itself.

The length of the first window is taken from the fastest rate at the start and doubled until some component has gone up
and down several times, in the last window or in the last three joined. From there on windows of a few periods follow
until three successive periods agree to 1 % and the states at their ends to 5 % of their range; Newton does the rest,
however slowly the amplitude settles. Where one component still drifts and others have gone round regularly meanwhile,
as the bias of an oscillator does on its bypass capacitor, Newton may try from there before the next window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy

from stodyn.analysis.cycle.periodic_system import System
from stodyn.numerics import radau

RTOL, FINE = 1e-3, 1e-5
SMALL, SMALL_IN_UNIT = 1e-3, 0.1  # of the largest component, and of the largest in the same unit
FROM_ZERO = 1e-12  # taken for the largest component of a start whose components are all zero
WINDOW_POINTS = 800  # points of a window
DOUBLINGS = 60
MOST_TURNS = 8  # rises of one component within a period
JOINED = 3  # windows that are joined where the last one shows too few periods
RISES = 3  # the fewest in a window from which a period is inferred
PEAKS = 0.01  # of the times of a window: a component that is elsewhere for less is one of peaks
EQUAL = 0.01  # of a period, by which those that count as equal may differ
PATIENCE = 3  # windows of unequal periods, after which the error of steps is taken for their cause
FEW_TURNS = 6.0  # periods of the first window with smaller errors
REGULAR = 10  # the fewest in a window while another component drifts
NOTHING_KNOWN = 1e-3  # taken for the largest component where kicks begin at zero
KICKS = 0.01, 0.1, 1.0  # of the sizes of the components
REST = 1e-6  # of the size of a component: a range below it is none


Watch = Callable[[float, float, np.ndarray, np.ndarray], None]  # called with t, h, x and Z of every step


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


class DiesOut(NoOscillation):
    """The system came to rest, at x."""

    def __init__(self, message: str, x: np.ndarray):
        super().__init__(message)
        self.x = x


def followed(
    system: System, times: np.ndarray, x: np.ndarray, rtol: float = RTOL, watch: Watch | None = None
) -> np.ndarray:  # fmt: skip
    """The states (times, n) of the noise-free system from x at the first time; NoOscillation where there are none."""
    equations = radau.Nonlinear(
        system.mass[None],
        lambda t, y: system.f(t, y[:, 0])[:, None],
        lambda t, y: system.jacobian(np.array([t]), y),
    )
    try:
        return radau.controlled(equations, times, x[None], 5, rtol, rtol * _floors(system, x), watch=watch)[0][:, 0]
    except radau.StepTooSmall:
        raise NoOscillation(f"the noise-free system could not be followed from t = {times[0]:.4g} to {times[-1]:.4g}: "
                            "it jumps or has a singularity there") from None  # fmt: skip


def _floors(system: System, x: np.ndarray) -> np.ndarray:
    """Sizes below which components need not be followed: shares of the largest of all, and of all in their unit."""
    sizes = np.abs(x)
    return np.maximum(SMALL * (sizes.max() or FROM_ZERO), SMALL_IN_UNIT * system.largest_alike(sizes))


def driven(system: System, t: float, x: np.ndarray, period: float, settle: float) -> Guess:
    """Guess a cycle by following a path for at most `settle` periods, or fewer where the states at their ends agree to
    5 % of the range."""
    for _ in range(max(1, math.ceil(settle))):
        states = followed(system, np.linspace(t, t + period, 33), x)
        reach = np.ptp(states, axis=0)
        moved = np.abs(states[-1] - x)
        t, x = t + period, states[-1]
        others = np.setdiff1d(np.arange(system.n), system.wandering)
        if np.all(moved[others] <= 0.05 * reach[others] + 1e-9 * np.abs(states[:, others]).max(axis=0)):
            break
    return Guess(t, x, period, (period,))


class Modes(NamedTuple):
    """The small motions T z exp(λt) of a system around a state: λ (r,), how much of each λ may be rounding, and T z
    (n, r)."""

    rates: np.ndarray
    rounding: np.ndarray
    shapes: np.ndarray


def modes_at(system: System, x: np.ndarray) -> Modes:
    """The modes of the linearised system on its constraints, R M x' = R J x, 0 = N J x: the pencil J - λM itself has
    infinite eigenvalues too, which rounding makes finite ones of any sign."""
    rows, N, *_ = system.split
    J = system.jacobian(np.zeros(1), x[None])[0]
    T = np.linalg.solve(np.concatenate([system.mass[rows], N @ J]), np.eye(system.n, len(rows)))
    A = J[rows] @ T
    rates, left, vectors = scipy.linalg.eig(A, left=True)
    return Modes(rates, _rounding_of_rates(A, left, vectors), T @ vectors)


def _rounding_of_rates(A: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Eigenvalues are those of A + δA, |δA| <= n ε |A| in units in which rows and columns are of one size: each moves
    by |w| |v| |δA|/|w*v| or, where w*v = 0, as of a double one, by about the root of that."""
    balanced, (unit, _) = scipy.linalg.matrix_balance(A, permute=False, separate=True)
    lengths = np.linalg.norm(right.T / unit, axis=1) * np.linalg.norm(left.T * unit, axis=1)
    share = len(A) * np.finfo(float).eps
    with np.errstate(divide="ignore"):
        conditions = lengths / np.abs(np.sum(left.conj() * right, axis=0))
    return np.linalg.norm(balanced) * np.minimum(share * conditions, np.sqrt(share))


def autonomous(system: System, x: np.ndarray, period: float | None, settle: float) -> Iterator[Guess]:
    """States of the oscillation and their periods, the last one where it repeats itself or had the time to; those
    before it while some components drift.

    From a state of rest it begins with a kick; where that, or a start of the caller's, comes to rest, larger kicks from
    there follow."""
    modes = modes_at(system, x)
    starts = KICKS if _is_at_rest(system, x, modes) else (0.0, *KICKS)
    for k, share in enumerate(starts):
        kicked = _kicked(system, x, share, modes) if share else x
        try:
            yield from _followed_until_it_repeats(system, x if kicked is None else kicked, period, settle)
            return
        except DiesOut as error:
            if kicked is None or k + 1 == len(starts):
                raise
            x = error.x
            modes = modes_at(system, x)


def _followed_until_it_repeats(system: System, x: np.ndarray, period: float | None, settle: float) -> Iterator[Guess]:
    t, window = 0.0, 3.0 * period if period else _first_window(modes_at(system, x))
    start_window, periods, largest = window, [], np.zeros(system.n)
    known = period
    spent, irregular, rtol = 0.0, 0, RTOL
    windows: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(DOUBLINGS + 8 * math.ceil(settle)):
        times = np.linspace(t, t + window, WINDOW_POINTS + 1)
        states = followed(system, times, x, rtol)
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
            is_still = window > start_window and np.all(reach <= 1e-4 * largest + REST * (size + 1e-9 * size.max()))
            if is_still and window >= _slowest_time(modes_at(system, x)):
                left = float((reach / np.maximum(largest, 1e-300)).max())
                raise DiesOut(f"the oscillation dies out: in the last {window:.4g} of time every component stays "
                              f"within {left:.1e} of the range it had", x)  # fmt: skip
            window *= 2.0
            continue
        spent += window / (known or window)
        periods, known = np.diff(rises[0])[-3:].tolist(), float(rises[0][-1] - rises[0][-2])
        if spent > 8.0 * settle:
            break
        window = max(4.5 * known, min(2.0 * window, MOST_TURNS * 3.0 * known))
        irregular += _is_irregular(rises[0])
        if irregular == PATIENCE and rtol > FINE:
            rtol, window = FINE, FEW_TURNS * known
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


def _is_at_rest(system: System, x: np.ndarray, modes: Modes) -> bool:
    """Whether nothing moves at a state, compared with its size and the fastest mode."""
    at = np.zeros(1)
    speed = np.abs(system.velocity(at, x[None], system.jacobian(at, x[None]))[0])
    fastest = np.abs(modes.rates).max(initial=0.0)
    return bool(speed.max() <= 1e-6 * fastest * _largest(x))


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x).max()) or NOTHING_KNOWN


def _kicked(system: System, x: np.ndarray, share: float, modes: Modes) -> np.ndarray | None:
    """The state moved along its growing modes, by this share of the sizes of components; where none grows, along those
    that oscillate, since a large oscillation may last where a small one dies out. None where there are neither."""
    rates = modes.rates
    growing = rates.real > modes.rounding
    chosen = growing if growing.any() else rates.imag > 1e-3 * np.abs(rates)
    if not chosen.any():
        return None
    sizes = np.maximum(system.largest_alike(np.abs(x)), SMALL * _largest(x))
    sizes = np.where(sizes > SMALL * _largest(x), sizes, _largest(x))
    for shape in modes.shapes[:, chosen & (rates.imag >= 0.0)].real.T:
        x = x + share * shape / (np.abs(shape) / sizes).max()
    return x


def _slowest_time(modes: Modes) -> float:
    """The time constant of the slowest mode that moves at all: over less than this, a system only seems to rest."""
    sizes = np.abs(modes.rates)
    return float(np.max(1.0 / sizes[sizes > modes.rounding], initial=0.0))


def _first_window(modes: Modes) -> float:
    sizes = np.abs(modes.rates[modes.rates != 0.0])
    return 2.0 * np.pi / float(sizes.max()) if len(sizes) else 1.0


def _repeated(
    system: System, times: np.ndarray, states: np.ndarray, candidates: list[np.ndarray] | None
) -> Guess | None:
    """The last period of a window in which the states repeat, counted by the first component that shows it; None where
    they do not."""
    for rises in candidates or ():
        turns = _turns(system, times, states, rises)
        if turns is not None:
            periods = rises[turns::turns] - rises[: len(rises) - turns : turns] if turns > 1 else np.diff(rises)
            x = _between(times, states, rises[-1])
            return Guess(float(rises[-1]), x, float(periods[-1]), tuple(periods[-3:]), (times, states))
    return None


def _turns(system: System, times: np.ndarray, states: np.ndarray, rises: np.ndarray) -> int | None:
    """The number of rises after which the states repeat to 5 % of their range and the time between to 1 %; None where
    they do not repeat.

    A component may rise several times in a period, as the supply of a ring oscillator does.
    """
    ends = np.stack([_between(times, states, when) for when in rises])
    allowed = 0.05 * np.ptp(states, axis=0) + REST * np.abs(states).max(axis=0)
    allowed[system.wandering] = np.inf
    for turns in range(1, min(MOST_TURNS, (len(rises) - 1) // 2) + 1):
        lengths = rises[turns:] - rises[:-turns]
        apart = np.abs(ends[turns:] - ends[:-turns])[-2 * turns :]
        if np.ptp(lengths[-2 * turns :]) <= EQUAL * lengths[-1] and np.all(apart <= allowed):
            return turns
    return None


def _rises(system: System, times: np.ndarray, states: np.ndarray) -> list[np.ndarray] | None:
    """When each component rises through the middle of its range, beginning with the one that does so least often: where
    its range drifts, it may miss some.

    None where one does so at all, but fewer than RISES times: the period may be longer than this window shows, unless
    it is one of peaks between which the times of the window miss others.
    """
    rises = sorted((some for some in _rises_of_each(system, times, states) if len(some)), key=len)
    if rises and len(rises[0]) < RISES:
        lasting = ~_is_of_peaks(states)
        rises = sorted((some for some in _rises_of_each(system, times, states, lasting) if len(some)), key=len)
    return None if not rises or len(rises[0]) < RISES else rises


def _is_irregular(rises: np.ndarray) -> bool:
    """Whether the times between rises differ: the errors of coarse steps move where sharp thresholds switch."""
    lengths = np.diff(rises)
    return bool(np.ptp(lengths) > EQUAL * lengths.mean())


def _drifting(system: System, times: np.ndarray, states: np.ndarray) -> Guess | None:
    """The last turn of the components that go round at least REGULAR times in a window, in equal times and without
    much change from one to the next; None where none does."""
    regular = (some for some in _rises_of_each(system, times, states) if len(some) >= REGULAR)
    for rises in sorted(regular, key=len):
        if _turns(system, times, states, rises) == 1:
            periods = np.diff(rises)
            return Guess(float(rises[-1]), _between(times, states, rises[-1]), float(periods[-1]), tuple(periods[-3:]),
                         (times, states), True)  # fmt: skip
    return None


def _is_of_peaks(states: np.ndarray) -> np.ndarray:
    """Which components are away from the value that they usually have at few times only."""
    away = np.abs(states - np.median(states, axis=0)) > 0.2 * np.ptp(states, axis=0)
    return np.mean(away, axis=0) < PEAKS


def _rises_of_each(
    system: System, times: np.ndarray, states: np.ndarray, some: np.ndarray | slice = slice(None)
) -> Iterator[np.ndarray]:  # fmt: skip
    """When each component rises through the middle of its range. Ripple of less than 40 % of the range is passed over.
    Components that do not move are left out."""
    for i in np.setdiff1d(np.arange(system.n)[some], system.wandering):
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
