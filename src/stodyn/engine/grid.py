"""Times: the steps of a run and where its statistics look."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stodyn.hints import Reals
from stodyn.numerics.running_sums import running_sums
from stodyn.statistics.contract import Statistic

TOLERANCE = 1e-9  # relative to the interval: how closely dt must divide it and times must lie on the grid
DEFAULT_SAVES = 100
MOST_STEPS = 10**8  # of a run: their times are stored
LEAST_SPACINGS = 8  # of floating-point numbers in a step
DIGITS = 13  # of a time that may be a short decimal
SIZES = np.array([float(f"1e{e}") for e in range(-27, DIGITS + 1)])  # of times
DECIMALS = 22  # at most: 10^22 is the largest power of ten that is a floating-point number
SCALES = np.array([float(10 ** min(DIGITS - e, DECIMALS)) for e in range(-27, DIGITS + 1)])  # 10^decimals of each


def span_of(t: Any) -> tuple[float, float]:
    """Return the start and the end of the interval t of a run; anything else is refused."""
    ends = _numbers(t)
    if ends is None or ends.shape != (2,):
        words = f"t: expected (start, end), such as t=(0, 8), got {t!r}"
        if ends is not None and ends.ndim == 1 and len(ends) > 3:
            words = (
                f"t: expected (start, end), got {len(ends)} times from {ends[0]:g} to {ends[-1]:g}. Write "
                f"t=({ends[0]:g}, {ends[-1]:g}) and the step as dt=..., or as a list of steps: dt=np.diff(times)"
            )
        raise ValueError(words)
    start, end = map(float, ends)
    if not (np.isfinite(start) and np.isfinite(end) and end > start):
        raise ValueError(f"t: expected a finite interval (start, end) with start < end, got {t!r}")
    return start, end


def step_times(t: Reals, dt: ArrayLike | Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    """(times (steps + 1,), lengths (steps,)) of the interval t = (start, end) cut by dt.

    dt is a number, the lengths of all steps, or a function of the interval that gives them, such as stodyn.plan(...).
    """
    start, end = span_of(t)
    if callable(dt):
        dt = _planned(dt, (start, end))
    lengths = _numbers(dt)
    if lengths is None:
        raise ValueError(f"dt: expected a positive step length (or a list of them), got {dt!r}")
    if lengths.ndim == 1 and lengths.size > 1 and lengths[0] == start and np.all(np.diff(lengths) > 0):
        _refuse_times(lengths, start, end)
    if lengths.ndim > 1 or not np.all(np.isfinite(lengths)) or np.any(lengths <= 0):
        raise ValueError(f"dt: expected a positive step length (or a list of them), got {dt!r}")
    span = end - start
    if lengths.ndim == 0 and not span / float(lengths) <= MOST_STEPS:
        raise ValueError(
            f"dt: {float(lengths):g} cuts the interval ({start:g}, {end:g}) into {span / float(lengths):.3g} steps, "
            f"but a run may have at most {MOST_STEPS:g}. Take longer steps, or run the interval in parts."
        )
    apart = float(lengths.min(initial=span))
    if apart < LEAST_SPACINGS * np.spacing(max(abs(start), abs(end))):
        raise ValueError(
            f"t: between {start:g} and {end:g} floating-point numbers are {np.spacing(max(abs(start), abs(end))):.2g} "
            f"apart, too far for steps of {apart:g}. Count the time from the start of the run."
        )
    if lengths.ndim == 1:
        if abs(lengths.sum() - span) > TOLERANCE * span:
            raise ValueError(f"dt: the steps add up to {lengths.sum()}, but the interval is {span} long")
        return start + running_sums(lengths), lengths
    steps = max(round(span / float(lengths)), 1)
    if abs(steps * float(lengths) - span) > TOLERANCE * span:
        fewer = max(int(span / float(lengths)), 1)
        counted = f"{fewer} steps" if fewer > 1 else "1 step"
        raise ValueError(
            f"dt: {float(lengths)} does not divide the interval ({start}, {end}); the nearest that do are "
            f"{span / (fewer + 1):.12g} ({fewer + 1} steps) and {span / fewer:.12g} ({counted})"
        )
    times = step_time(start, float(lengths), np.arange(steps + 1))
    h = float(lengths)
    if abs(times[-1] - end) > 2 * np.spacing(max(abs(start), abs(end))):  # a rounded dt that was meant to divide it
        h = span / steps
        times = step_time(start, h, np.arange(steps + 1))
    return np.append(times[:-1], end), np.full(steps, h)


def _planned(plan: Callable[..., Any], span: tuple[float, float]) -> Any:
    """The steps that a function gives for an interval; one that takes points in time is refused in words."""
    try:
        return plan(span)
    except (TypeError, AttributeError) as error:
        if not inspect.isroutine(plan):  # sd.plan's, whose errors are its own
            raise
        raise TypeError(
            f"dt: a function is called once, with the interval ({span[0]:g}, {span[1]:g}) of the run, and gives the "
            f"lengths of all steps, but this one failed there with {type(error).__name__}: {error}. Give a list of "
            f"lengths that add up to {span[1] - span[0]:g}, or one number"
        ) from error


def _refuse_times(values: np.ndarray, start: float, end: float) -> None:
    """Refuse times at which steps end in place of the lengths of steps, unless they are such lengths too."""
    if abs(values.sum() - (end - start)) > TOLERANCE * (end - start):
        raise ValueError(
            f"dt: expected lengths of steps, got times from {values[0]:g} to {values[-1]:g}; their differences, "
            f"np.diff(times), are steps if they go from {start:g} to {end:g}"
        )


def are_equal(lengths: np.ndarray) -> bool:
    """Whether the lengths of steps are the same, up to the rounding of their times."""
    return bool(np.ptp(lengths) <= TOLERANCE * lengths[0])


def step_of(lengths: np.ndarray) -> float | np.ndarray:
    """The length of the steps of a run; those of all of them where they differ."""
    return float(lengths.max()) if are_equal(lengths) else lengths


def step_time(start: float, dt: float, k: np.ndarray) -> np.ndarray:
    """The time at which step k begins, whatever the end of the run: start + k dt, or the decimal within its rounding.

    So 0.3 is not stored as 0.30000000000000004, and run.sel(time=0.3) finds it. Exported models count in the same way.
    """
    times = start + k * dt
    size = np.maximum(np.abs(times), abs(start))
    above = np.minimum(np.searchsorted(SIZES, size), len(SIZES) - 1)
    scale = SCALES[above]
    with np.errstate(over="ignore"):
        short = np.rint(times * scale) / scale
    is_decimal = (np.abs(short - times) <= 2 * np.spacing(size)) & (size <= SIZES[-1]) & (k > 0)
    return np.where(is_decimal, short, times)


def _numbers(value: Any) -> np.ndarray | None:
    """Real numbers as an array; None for words, truth values and anything else that is not a real number."""
    try:
        array = np.asarray(value if np.ndim(value) == 0 else list(value))
        if array.dtype.kind not in "iufO" or any(isinstance(v, bool | str) for v in np.asarray(value, object).flat):
            return None
        return array.astype(float)
    except (TypeError, ValueError):
        return None


def save_steps(statistic: Statistic, times: np.ndarray, fallback: np.ndarray | None) -> np.ndarray:
    """Return the steps after which a statistic looks; `fallback` is for one that names none."""
    steps, span, kind = len(times) - 1, times[-1] - times[0], type(statistic).__name__
    wanted = statistic.wanted_times(times)
    if wanted is not None:
        if wanted.size == 0:
            raise ValueError(f"{kind}: at= is empty; give at least one time")
        nearest = np.searchsorted(times, wanted).clip(1, steps)
        nearest = np.where(np.abs(times[nearest - 1] - wanted) <= np.abs(times[nearest] - wanted), nearest - 1, nearest)
        off = ~(np.abs(times[nearest] - wanted) <= TOLERANCE * span)  # NaN is off every grid
        if np.any(off):
            time = wanted[off][0]
            if not times[0] <= time <= times[-1]:
                raise ValueError(
                    f"{kind}: at={time:.12g} is outside the run, which goes from {times[0]:.12g} to {times[-1]:.12g}. "
                    "Give times inside it, or a longer t=."
                )
            after = int(np.searchsorted(times, time).clip(1, steps))
            raise ValueError(
                f"{kind}: at={time:.12g} is not a time of the grid; the two nearest are "
                f"{times[after - 1]:.12g} and {times[after]:.12g}. Nothing is interpolated."
            )
        if np.any(np.diff(nearest) <= 0):
            raise ValueError(f"{kind}: at= must be increasing times, got {statistic.at}")
        return nearest
    if statistic.every is not None:
        if statistic.every > steps:
            raise ValueError(f"{kind}: every={statistic.every} steps, but the run has only {steps}")
        return _regular(steps, int(statistic.every))
    if fallback is not None:
        return fallback
    return _regular(steps, max(steps // (statistic.own_times or DEFAULT_SAVES), 1))


def _regular(steps: int, every: int) -> np.ndarray:
    """0, every, 2 every, ... and the end."""
    saves = np.arange(0, steps + 1, every)
    return saves if saves[-1] == steps else np.append(saves, steps)
