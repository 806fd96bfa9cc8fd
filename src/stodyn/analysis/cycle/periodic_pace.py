"""A turn of a relaxation oscillator, followed closely enough for Newton's method: steps of its own lengths.

Equal steps are too long for edges within a millionth of the period, and a guess of the period that is right to 1e-4
misses them by many times their width. Such oscillators forget where they began within a turn or two, so that a run to a
small error ends on the cycle, and the steps that it takes say where steps must be short.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from stodyn.analysis.cycle import periodic_start
from stodyn.analysis.cycle.periodic_mesh import Pace, pace_of
from stodyn.analysis.cycle.periodic_start import Guess, NoOscillation
from stodyn.analysis.cycle.periodic_system import System
from stodyn.numerics import radau

CLOSELY = 1e-7  # error of a step, a choice: of the period it leaves less than an edge takes
AGAIN = 1e-6  # of the range: how nearly a turn has to end where it began
TURNS = 6  # that are followed until it does
SPAN = 2.2  # periods that are followed at once: a whole turn from a place within the first
HALVINGS = 60  # of a step, to the instant of a crossing


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """The steps of a run: their beginnings and the end of the last (N + 1,), the states there, and the stages."""

    times: np.ndarray
    states: np.ndarray
    stages: np.ndarray

    def at(self, times: np.ndarray) -> np.ndarray:
        """Return the states at times within the run, from the polynomials of its steps."""
        k = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.times) - 2)
        places = (times - self.times[k]) / np.diff(self.times)[k]
        weights = radau.scheme(5).interpolation(places)
        return self.states[k] + np.einsum("...s,...sn->...n", weights, self.stages[k])


class Turn(NamedTuple):
    """One period: its first time in the run, its length, the run, and the pace of its steps."""

    begin: float
    period: float
    run: Run
    pace: Pace

    def on(self, shares: np.ndarray) -> np.ndarray:
        """The states at shares of the period."""
        return self.run.at(self.begin + self.period * shares)


def turn(system: System, guess: Guess) -> Turn:
    """The turn of an oscillator to which a guess leads; NoOscillation where it does not come back."""
    x, period = guess.x, guess.period
    for _ in range(TURNS):
        run = _followed(system, x, SPAN * period)
        begin = _slowest(run, period)
        period = _return(system, run, begin, period)
        first, last = run.at(np.array([begin, begin + period]))
        others = np.setdiff1d(np.arange(system.n), system.wandering)
        if np.all(np.abs(last - first)[others] <= AGAIN * np.ptp(run.states, axis=0)[others]):
            break
        x = run.states[-1]
    inside = run.times[(run.times > begin) & (run.times < begin + period)]
    ends = np.concatenate([[0.0], (inside - begin) / period, [1.0]])
    return Turn(begin, period, run, pace_of(ends))


def _followed(system: System, x: np.ndarray, span: float) -> Run:
    """The steps from x at time 0 to a time."""
    steps: list[tuple[float, np.ndarray, np.ndarray]] = []
    end = periodic_start.followed(
        system, np.array([0.0, span]), x, CLOSELY, lambda t, h, x, Z: steps.append((t, x[0], Z[:, 0]))
    )[-1]
    times, states, stages = (np.array(some) for some in zip(*steps, strict=True))
    return Run(np.append(times, span), np.concatenate([states, end[None]]), stages)


def _slowest(run: Run, period: float) -> float:
    """The middle of the longest step within the first period."""
    inside = run.times[1:] <= period
    if not inside.any():
        raise NoOscillation("the steps that follow it are longer than its period")
    lengths = np.where(inside, np.diff(run.times), 0.0)
    k = int(np.argmax(lengths))
    return float(run.times[k] + 0.5 * lengths[k])


def _return(system: System, run: Run, begin: float, period: float) -> float:
    """The time after which the component that moves fastest at a time is back, as near to a period as can be."""
    x = run.at(np.array([begin]))[0]
    i, direction = _fastest(system, run, begin, x)
    z = direction * (run.states[:, i] - x[i])
    near = np.flatnonzero((z[:-1] < 0.0) & (z[1:] >= 0.0) & (run.times[1:] > begin + 0.5 * period))
    if not len(near):
        raise NoOscillation("it does not come back to where it was")
    k = near[np.argmin(np.abs(run.times[near] - begin - period))]
    low, high = run.times[k], run.times[k + 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        ahead = direction * (run.at(np.array([middle]))[0, i] - x[i]) >= 0.0
        low, high = (low, middle) if ahead else (middle, high)
    return float(high - begin)


def _fastest(system: System, run: Run, begin: float, x: np.ndarray) -> tuple[int, float]:
    """The component that moves fastest by its range, and in which direction."""
    reach = np.ptp(run.states, axis=0)
    J = system.jacobian(np.array([begin]), x[None])
    velocity = system.velocity(np.array([begin]), x[None], J)[0]
    speed = np.abs(velocity) / np.where(reach > 0.0, reach, np.inf)
    speed[system.wandering] = 0.0
    i = int(np.argmax(speed))
    return i, float(np.sign(velocity[i]))
