"""Independent sources over time: DC, SIN, PULSE, EXP and PWL, all the sources of a kind at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

MOST_POINTS = 200_000
MOST_CORNERS = 1_000_000  # periods of a pulse in a run
MOST_PERIODS = 1000  # of the fastest source in the common period of all
SETTLED = 40.0  # time constants after which an EXP is constant


class Waveform(NamedTuple):
    """A source: its DC value (None where it has none), a waveform with its numbers, "" where it is constant, and
    the size and phase (degrees) of its small signal."""

    dc: float | None
    kind: str = ""
    numbers: tuple[float, ...] = ()
    small_signal: tuple[float, float] = (0.0, 0.0)


# Names and defaults in the order in which SPICE writes them; step and stop are those of .tran.
ARGUMENTS = {
    "sin": ("vo", "va", "freq", "td", "theta", "phase"),
    "pulse": ("v1", "v2", "td", "tr", "tf", "pw", "per"),
    "exp": ("v1", "v2", "td1", "tau1", "td2", "tau2"),
}


def completed(kind: str, numbers: Sequence[float], step: float | None, stop: float | None) -> tuple[float, ...]:
    """The numbers of a waveform with SPICE's defaults for missing ones; ValueError where they make no sense.

    sin    vo + va exp(-(t - td) theta) sin(2π freq (t - td) + phase°), before td as at td
    pulse  v1, from td in tr to v2, stays pw, in tf back; repeated every per
    exp    v1, from td1 towards v2 with tau1, from td2 back with tau2
    pwl    straight lines through the points t1 v1 t2 v2 ..., constant before and after
    """
    if kind == "pwl":
        if len(numbers) < 2 or len(numbers) % 2:
            raise ValueError(f"pwl: expected pairs t1 v1 t2 v2 ..., got {len(numbers)} number(s)")
        if len(numbers) > 2 * MOST_POINTS:
            raise ValueError(f"pwl: {len(numbers) // 2:,} points, expected at most {MOST_POINTS:,}")
        late = np.flatnonzero(np.diff(numbers[::2]) <= 0.0)
        if len(late):
            k = 2 * int(late[0])
            raise ValueError(f"pwl: times must increase, but {numbers[k + 2]:g} comes after {numbers[k]:g}")
        return tuple(numbers)
    names = ARGUMENTS[kind]
    if not 2 <= len(numbers) <= len(names):
        raise ValueError(f"{kind}: expected {' '.join(names)}, at least the first two, got {len(numbers)}")
    missing: dict[str, float | None] = {
        "freq": None if stop is None else 1.0 / stop, "tr": step, "tf": step, "pw": stop, "per": math.inf, "tau1": step,
        "td2": None if step is None else _at(numbers, 2, 0.0) + step, "tau2": step,
    }  # fmt: skip
    values = []
    for i, name in enumerate(names):
        value = numbers[i] if i < len(numbers) else missing.get(name, 0.0)
        if name in ("tr", "tf") and value == 0.0:
            value = step
        if value is None:
            raise ValueError(f"{kind}: {name} is missing, and there is no .tran to take it from")
        if name in ("freq", "tr", "tf", "per", "tau1", "tau2") and not value > 0.0:
            raise ValueError(f"{kind}: {name} = {value:g}, expected more than 0")
        if name == "pw" and value < 0.0:
            raise ValueError(f"pulse: pw = {value:g}, expected 0 or more")
        values.append(value)
    if kind == "pulse" and math.isfinite(values[6]) and sum(values[3:6]) > values[6] * (1 + 1e-9):
        raise ValueError(f"pulse: tr + tf + pw = {sum(values[3:6]):g} is longer than the period {values[6]:g}")
    return tuple(values)


def _at(numbers: Sequence[float], index: int, default: float) -> float:
    return numbers[index] if index < len(numbers) else default


class Sources:
    """The values of many waveforms at a time t: the constant ones, then SIN, PULSE, EXP, PWL, in `order`."""

    def __init__(self, waveforms: Sequence[Waveform]):
        kinds = ("", *ARGUMENTS, "pwl")
        places = {kind: [i for i, w in enumerate(waveforms) if w.kind == kind] for kind in kinds}
        self.order = np.array([i for kind in kinds for i in places[kind]], int)
        self.constant = np.array([waveforms[i].dc or 0.0 for i in places[""]])
        self.moving = {
            kind: np.array([waveforms[i].numbers for i in places[kind]]).T for kind in ARGUMENTS if places[kind]
        }
        self.points = _segments([waveforms[i].numbers for i in places["pwl"]])
        self.count = len(places["pwl"])
        signals = [w.small_signal[0] * np.exp(1j * np.deg2rad(w.small_signal[1])) for w in waveforms]
        self.small_signal = np.array(signals, complex)[self.order]
        self.dc = np.array([w.dc if w.dc is not None else np.nan for w in waveforms])[self.order]

    def values(self, t: Any, xp: Any) -> Any:
        """(sources,), in `order`."""
        parts = [xp.asarray(self.constant)]
        parts += [_LAWS[kind](t, numbers, xp) for kind, numbers in self.moving.items()]
        if self.points is not None:
            begin, end, source, t0, v0, slope = self.points
            here = xp.where((t >= begin) & (t < end), v0 + (t - t0) * slope, 0.0)
            member = (source == np.arange(self.count)[:, None]).astype(float)
            parts.append(member @ here)
        return xp.concatenate(parts)

    def at_times(self, t: np.ndarray) -> np.ndarray:
        """The values (times, sources) at many times, in `order`."""
        when = t[:, None]
        parts = [np.tile(self.constant, (len(t), 1))]
        parts += [_LAWS[kind](when, numbers, np) for kind, numbers in self.moving.items()]
        if self.points is not None:
            begin, end, source, t0, v0, slope = self.points
            here = np.where((when >= begin) & (when < end), v0 + (when - t0) * slope, 0.0)
            parts.append(here @ (source[:, None] == np.arange(self.count)).astype(float))
        return np.concatenate(parts, axis=1)

    def corners(self, start: float, end: float) -> np.ndarray:
        """The times between start and end at which the slope of a source jumps, in increasing order."""
        corners = [
            *self.moving.get("sin", np.zeros((6, 0)))[3],
            *self.moving.get("exp", np.zeros((6, 0)))[[2, 4]].ravel(),
        ]
        for _, _, td, tr, tf, pw, per in self.moving.get("pulse", np.zeros((7, 0))).T:
            one = td + np.cumsum([0.0, tr, pw, tf])
            first, last = (math.floor((t - td) / per) if math.isfinite(per) else 0 for t in (start, end))
            if last - first > MOST_CORNERS:
                raise ValueError(f"pulse: {last - first:,} periods of {per:g} s in the run, expected at most "
                                 f"{MOST_CORNERS:,}")  # fmt: skip
            turns = np.arange(max(first, 0), max(last, 0) + 1)
            corners += np.add.outer(turns * (per if math.isfinite(per) else 0.0), one).ravel().tolist()
        if self.points is not None:
            corners += self.points[0].tolist()
        times = np.unique(corners)
        return times[(times > start) & (times < end)]

    def period(self) -> tuple[float | None, float]:
        """The common period of all sources, None where they are constant, and the time from which they are periodic.

        ValueError where there is no common period: for periods whose ratios are not fractions of numbers up to
        MOST_PERIODS, and for damped sines. EXP and PWL are constant after their last point.
        """
        lengths, begin = [], 0.0
        for vo_va in self.moving.get("sin", np.zeros((6, 0))).T:
            if vo_va[1] and vo_va[4]:
                raise ValueError("sources: a damped SIN has no period; take its theta away")
            if vo_va[1]:
                lengths.append(1.0 / vo_va[2])
                begin = max(begin, vo_va[3])
        for v1, v2, td, tr, tf, pw, per in self.moving.get("pulse", np.zeros((7, 0))).T:
            if v1 != v2 and math.isfinite(per):
                lengths.append(per)
                begin = max(begin, td)
            elif v1 != v2:
                begin = max(begin, td + tr + pw + tf)
        for _, _, _, tau1, td2, tau2 in self.moving.get("exp", np.zeros((6, 0))).T:
            begin = max(begin, td2 + SETTLED * max(tau1, tau2))
        if self.points is not None:
            begin = max(begin, float(self.points[0][np.isfinite(self.points[0])].max(initial=0.0)))
        if not lengths:
            return None, begin
        shortest, whole = min(lengths), Fraction(1)
        for period in lengths:
            ratio = Fraction(period / shortest).limit_denominator(MOST_PERIODS)
            if abs(float(ratio) * shortest - period) > 1e-9 * period:
                whole = Fraction(MOST_PERIODS + 1)
            whole = Fraction(math.lcm(whole.numerator, ratio.numerator), math.gcd(whole.denominator, ratio.denominator))
        if whole > MOST_PERIODS:
            periods = ", ".join(f"{period:g}" for period in dict.fromkeys(lengths))
            raise ValueError(f"sources: periods {periods} have no common multiple below {MOST_PERIODS} periods")
        common = float(whole) * shortest
        return common, math.ceil(begin / common - 1e-9) * common

    def at_rest(self) -> np.ndarray:
        """The DC values, and for sources without a DC value their values at t = 0."""
        return np.where(np.isnan(self.dc), self.values(0.0, np), self.dc)


def _sin(t, numbers, xp):
    vo, va, freq, td, theta, phase = numbers
    after = xp.maximum(t - td, 0.0)
    return vo + va * xp.exp(-after * theta) * xp.sin(2.0 * np.pi * freq * after + phase * (np.pi / 180.0))


def _pulse(t, numbers, xp):
    v1, v2, td, tr, tf, pw, per = numbers
    rate, period = 1.0 / per, np.where(np.isfinite(per), per, 0.0)
    after = xp.maximum(t - td, 0.0)
    after = after - xp.floor(after * rate) * period
    up, down = xp.clip(after / tr, 0.0, 1.0), xp.clip((after - tr - pw) / tf, 0.0, 1.0)
    return v1 + (v2 - v1) * (up - down)


def _exp(t, numbers, xp):
    v1, v2, td1, tau1, td2, tau2 = numbers
    up, down = (-xp.expm1(-xp.maximum(t - td, 0.0) / tau) for td, tau in ((td1, tau1), (td2, tau2)))
    return v1 + (v2 - v1) * (up - down)


_LAWS = {"sin": _sin, "pulse": _pulse, "exp": _exp}


def _segments(points: Sequence[Sequence[float]]):
    """begin, end, source, t0, v0, slope of all the lines of all the PWL sources; None where there is no source."""
    rows = []
    for source, numbers in enumerate(points):
        t, v = np.array(numbers[::2]), np.array(numbers[1::2])
        begin, end = np.append(-np.inf, t), np.append(t, np.inf)
        slope = np.concatenate([[0.0], np.diff(v) / np.diff(t), [0.0]])
        from_point = np.append(0, np.arange(len(t)))
        rows.append(np.stack([begin, end, np.full(len(begin), source), t[from_point], v[from_point], slope]))
    return np.concatenate(rows, axis=1) if rows else None
