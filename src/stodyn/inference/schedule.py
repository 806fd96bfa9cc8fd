"""What happens when: the readings of a record in rows, with windows that begin before they are read.

A reading over a window is that of an integral, which is reset where the window begins. Windows of a sensor that overlap
take integrals of their own, at most eight. Each integral has columns of its own, so that a row is: go to its time, take
what its columns read, reset what begins there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from stodyn.inference.record import Record, distinct, nearest, places_of
from stodyn.problems.sensor import Sensor
from stodyn.problems.sensor_noise import window

MOST_OVERLAPS = 8
SAME_GAP = 1e-12  # of a gap: those closer than this share their law
WHOLE = 1e-6  # of a step: a time this close to a whole number of steps is one
ROUNDING = 8 * float(np.finfo(float).eps)  # of a time: a gap is the difference of two, each a sum of rounded products


@dataclasses.dataclass(frozen=True, eq=False)
class Schedule:
    """The rows of a record.

    times     (rows,) when
    gaps      (k,) the different lengths of time between rows, and `gap` (rows,) which of them leads to a row
    begins    (k,) when they begin, where that counts, and else 0
    values    (rows, columns), NaN where a column is not read
    reset     (rows, integrals) whether an integral begins anew after a row
    outputs   (columns,) the output of the record that a column belongs to
    integrals of each sensor, how many windows it has at a time; 0 where it reads points
    """

    times: np.ndarray
    gaps: np.ndarray
    gap: np.ndarray
    values: np.ndarray
    reset: np.ndarray
    outputs: np.ndarray
    integrals: tuple[int, ...]
    begins: np.ndarray

    def one_by_one(self) -> Schedule:
        """Return this with a gap of its own for each row, for laws that depend on time."""
        lengths = np.diff(self.times, prepend=self.times[0])
        rows = np.arange(len(lengths))
        return dataclasses.replace(self, gaps=lengths, gap=rows, begins=self.times - lengths)

    def with_rows(self, times: np.ndarray, own: np.ndarray) -> Schedule:
        """Return this with rows at more times; those numbered `own` are its rows."""
        values = np.full((len(times), self.values.shape[1]), np.nan)
        reset = np.zeros((len(times), self.reset.shape[1]), bool)
        values[own], reset[own] = self.values, self.reset
        return dataclasses.replace(self, times=times, values=values, reset=reset, gap=np.zeros(len(times), int))

    def integrated(self, widths: Sequence[int]) -> int:
        """Return how many states the integrals of all windows are, of sensors with so many outputs."""
        return sum(count * width for count, width in zip(self.integrals, widths, strict=True))

    @functools.cached_property
    def longest(self) -> float:
        """The longest gap."""
        return float(self.gaps.max())


def scheduled(record: Record, t0: float, at: Any = None) -> Schedule:
    """Return the rows of a record from t0 on, with rows of their own for the times `at`."""
    early = record.times[0]
    if early < t0 and not np.isclose(early, t0, rtol=0, atol=1e-12 * max(abs(t0), np.ptp(record.times))):
        raise ValueError(
            f"t0: the first reading is at {early:.12g}, before the start at {t0:.12g}; give t0={early:.12g}"
        )
    begins = [_begins(sensor, own.times, t0) for sensor, own in zip(record.sensors, record.series, strict=True)]
    wanted = [np.maximum(record.times, t0), *(begin for begin in begins if begin is not None)]
    if at is not None:
        wanted.append(_checked_at(at, t0))
    times = distinct(np.concatenate([[t0], *wanted]))
    columns, resets, integrals, first = [], [], [], 0
    outputs: list[int] = []
    for sensor, begin, own in zip(record.sensors, begins, record.series, strict=True):
        rows = places_of(sensor, own._replace(times=np.maximum(own.times, t0)), times)
        slots = np.zeros(len(rows), int) if begin is None else _slots(begin, own.times, float(np.ptp(times)))
        count = int(slots.max()) + 1
        width = own.values.shape[1]
        for slot in range(count):
            column = np.full((len(times), width), np.nan)
            column[rows[slots == slot]] = own.values[slots == slot]
            columns.append(column)
            outputs += range(first, first + width)
            if begin is not None:
                reset = np.zeros(len(times), bool)
                reset[nearest(times, begin[slots == slot])] = True
                resets.append(reset)
        integrals.append(0 if begin is None else count)
        first += width
    gaps, gap = alike(times)
    reset = np.stack(resets, axis=1) if resets else np.zeros((len(times), 0), bool)
    return Schedule(times, gaps, gap, np.concatenate(columns, axis=1), reset, np.array(outputs), tuple(integrals),
                    np.zeros(len(gaps)))  # fmt: skip


def _checked_at(at: Any, t0: float) -> np.ndarray:
    times = np.atleast_1d(np.asarray(at, float))
    if times.ndim != 1 or not np.isfinite(times).all() or (times < t0).any():
        raise ValueError(f"at: expected finite times from {t0:.12g} on, got {at!r}")
    return times


def _begins(sensor: Sensor, times: np.ndarray, t0: float) -> np.ndarray | None:
    """Where the windows of the readings begin; None where points are read."""
    if sensor.increment:
        return np.concatenate([[t0], times[:-1]])
    length = window(sensor)
    if length is None:
        return None
    begins = times - length
    if begins[0] < t0 - 1e-9 * length:
        raise ValueError(
            f"average ({sensor.name}): the window of the first reading begins at {begins[0]:.12g}, before the start at "
            f"{t0:.12g}; give an earlier t0, or leave the reading out"
        )
    return np.maximum(begins, t0)


def _slots(begins: np.ndarray, ends: np.ndarray, span: float) -> np.ndarray:
    """The number of the integral that each window takes: the first one that is free when the window begins."""
    free: list[float] = []
    slots = np.empty(len(begins), int)
    for k, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        slot = next((j for j, until in enumerate(free) if until <= begin + 1e-12 * span), len(free))
        if slot == len(free):
            free.append(0.0)
        if len(free) > MOST_OVERLAPS:
            raise ValueError(f"average: more than {MOST_OVERLAPS} windows overlap at time {begin:.12g}")
        free[slot], slots[k] = end, slot
    return slots


def alike(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different gaps between rows, the first of length 0, and which one leads to each row."""
    gaps = np.diff(times, prepend=times[0])
    shortest = gaps[gaps > 0].min(initial=np.inf)
    unit = max(ROUNDING * np.abs(times).max(), SAME_GAP * (shortest if np.isfinite(shortest) else 1.0), 1e-300)
    _, which = np.unique(np.round(gaps / unit), return_inverse=True)
    return np.bincount(which, gaps) / np.bincount(which), which


def keeping(schedule: Schedule, widths: Sequence[int]) -> np.ndarray:
    """Return 0 for each integral that is reset before the way to a row, 1 for the others: (rows, integral states)."""
    places, k = [], 0
    for count, width in zip(schedule.integrals, widths, strict=True):
        for _ in range(count):
            places += [k] * width
            k += 1
    before = np.concatenate([np.zeros((1, schedule.reset.shape[1]), bool), schedule.reset[:-1]])
    return 1.0 - before[:, places]
