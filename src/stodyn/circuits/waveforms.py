"""Independent sources over time: DC, SIN, PULSE, EXP, SFFM, AM and PWL, all the sources of a kind at once."""

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
UNTIMED = 1e-9  # s: edges and time constants that are left out where there is no .tran
RETURN = (
    1e-3  # the time of a return that SPICE does at once, over the shorter edge of a pulse or the last line of a PWL
)
TIME = "time"  # the kind of a source whose value is the time itself


class Waveform(NamedTuple):
    """A source: its DC value (None where it has none), a waveform with its numbers, "" where it is constant, and
    the size and phase (degrees) of its small signal; a PWL may begin later and be repeated from one of its times on."""

    dc: float | None
    kind: str = ""
    numbers: tuple[float, ...] = ()
    small_signal: tuple[float, float] = (0.0, 0.0)
    delay: float = 0.0
    repeated: float | None = None

    @property
    def returns(self) -> float:
        """How long this source takes to return to the beginning of its period where SPICE lets it jump; 0 if it does
        not."""
        if self.kind == "pulse":
            return self.numbers[8]
        return _wrapped(self)[1] if self.kind == "pwl" else 0.0


# Names and defaults in the order in which SPICE writes them; step and stop are those of .tran.
ARGUMENTS = {
    "sin": ("vo", "va", "freq", "td", "theta", "phase"),
    "pulse": ("v1", "v2", "td", "tr", "tf", "pw", "per", "np"),
    "exp": ("v1", "v2", "td1", "tau1", "td2", "tau2"),
    "sffm": ("vo", "va", "fc", "mdi", "fs", "phasec", "phases"),
    "am": ("va", "vo", "mf", "fc", "td"),
}


def apart(numbers: Sequence[float]) -> list[float]:
    """The points of a PWL with a jump, two points at one time, as a steep line; other points at that time left out."""
    times, values = list(numbers[::2]), list(numbers[1::2])
    needed = [k for k, t in enumerate(times) if k == 0 or times[k - 1 : k + 2] != [t, t, t]]
    needed = [k for k in needed if k == 0 or (times[k], values[k]) != (times[k - 1], values[k - 1])]
    times, values = [times[k] for k in needed], [values[k] for k in needed]
    for k in range(len(times) - 1):
        if times[k] == times[k + 1]:
            beside = times[k + 2] - times[k] if k + 2 < len(times) else times[k] - times[k - 1]
            times[k + 1] += RETURN * max(beside, 0.0)
    return [number for point in zip(times, values, strict=True) for number in point]


def completed(kind: str, numbers: Sequence[float], step: float | None, stop: float | None) -> tuple[float, ...]:
    """The numbers of a waveform with SPICE's defaults for missing ones; ValueError where they make no sense.

    sin    vo + va exp(-(t - td) theta) sin(2π freq (t - td) + phase°), before td as at td
    pulse  v1, from td in tr to v2, stays pw, in tf back; np times, every per, which ends what has not ended yet
    sffm   vo + va sin(2π fc t + phasec° + mdi sin(2π fs t + phases°))
    am     va (vo + sin(2π mf (t - td))) sin(2π fc (t - td)), 0 before td
    exp    v1, from td1 towards v2 with tau1, from td2 back with tau2
    pwl    straight lines through the points t1 v1 t2 v2 ..., constant before and after
    """
    if kind == "pwl":
        if len(numbers) < 2 or len(numbers) % 2:
            raise ValueError(f"pwl: expected pairs t1 v1 t2 v2 ..., got {len(numbers)} number(s)")
        if len(numbers) > 2 * MOST_POINTS:
            raise ValueError(f"pwl: {len(numbers) // 2:,} points, expected at most {MOST_POINTS:,}")
        numbers = apart(numbers)
        late = np.flatnonzero(np.diff(numbers[::2]) <= 0.0)
        if len(late):
            k = 2 * int(late[0])
            raise ValueError(f"pwl: times must increase, but {numbers[k + 2]:g} comes after {numbers[k]:g}")
        return tuple(numbers)
    names = ARGUMENTS[kind]
    if not 2 <= len(numbers) <= len(names):
        raise ValueError(f"{kind}: expected {' '.join(names)}, at least the first two, got {len(numbers)}")
    missing: dict[str, float | None] = {
        "freq": None if stop is None else 1.0 / stop, "fc": None if stop is None else 1.0 / stop,
        "fs": None if stop is None else 1.0 / stop, "mf": None if stop is None else 1.0 / stop, "tr": step,
        "tf": step, "pw": stop, "per": math.inf, "np": math.inf, "tau1": step,
        "td2": None if step is None else _at(numbers, 2, 0.0) + step, "tau2": step,
    }  # fmt: skip
    values = []
    for i, name in enumerate(names):
        value = numbers[i] if i < len(numbers) else missing.get(name, 0.0)
        if name in ("tr", "tf") and value == 0.0:
            value = step
        if name == "freq" and value == 0.0 and stop is not None:
            value = 1.0 / stop
        if name in ("per", "np") and value == 0.0:  # as in SPICE
            value = math.inf
        if value is None and name in ("tr", "tf", "pw", "tau1", "tau2", "td2"):
            value = math.inf if name == "pw" else UNTIMED
        if value is None:
            raise ValueError(f"{kind}: {name} is missing, and there is no .tran to take it from")
        if name in ("freq", "tr", "tf", "per", "np", "tau1", "tau2", "fc", "fs", "mf") and not value > 0.0:
            raise ValueError(f"{kind}: {name} = {value:g}, expected more than 0")
        if name == "pw" and value < 0.0:
            raise ValueError(f"pulse: pw = {value:g}, expected 0 or more")
        values.append(value)
    if kind == "pulse":
        is_cut = sum(values[3:6]) > values[6] * (1 + 1e-9)
        values.append(min(RETURN * min(values[3:5]), values[6]) if is_cut else 0.0)
    return tuple(values)


def _at(numbers: Sequence[float], index: int, default: float) -> float:
    return numbers[index] if index < len(numbers) else default


class Sources:
    """The values of many waveforms at a time t: the constant ones, then the kinds of _LAWS, then PWL, in `order`.

    `startup` is the time in which all sources rise from 0 (.tran ... startup), 0 where they do not.
    """

    def __init__(self, waveforms: Sequence[Waveform], startup: float = 0.0):
        self.startup = startup
        kinds = ("", *_LAWS, "pwl")
        places = {kind: [i for i, w in enumerate(waveforms) if w.kind == kind] for kind in kinds}
        self.order = np.array([i for kind in kinds for i in places[kind]], int)
        self.constant = np.array([waveforms[i].dc or 0.0 for i in places[""]])
        self.moving = {kind: np.array([waveforms[i].numbers for i in places[kind]]).T for kind in _LAWS if places[kind]}
        self.points = _segments([waveforms[i] for i in places["pwl"]])
        self.count = len(places["pwl"])
        signals = [w.small_signal[0] * np.exp(1j * np.deg2rad(w.small_signal[1])) for w in waveforms]
        self.small_signal = np.array(signals, complex)[self.order]
        self.dc = np.array([w.dc if w.dc is not None else np.nan for w in waveforms])[self.order]

    def values(self, t: Any, xp: Any) -> Any:
        """Return the values (sources,) of all sources at time t, in `order`."""
        values = self.risen(t, xp)
        return values * xp.clip(t / self.startup, 0.0, 1.0) if self.startup else values

    def risen(self, t: Any, xp: Any) -> Any:
        """Return the values of all sources at time t as if there were no startup."""
        parts = [xp.asarray(self.constant)]
        parts += [_LAWS[kind](t, numbers, xp) for kind, numbers in self.moving.items()]
        if self.points is not None:
            here = self.points.values(t, xp)
            member = (self.points.source == np.arange(self.count)[:, None]).astype(float)
            parts.append(member @ here)
        return xp.concatenate(parts)

    def at_times(self, t: np.ndarray) -> np.ndarray:
        """The values (times, sources) at many times, in `order`."""
        when = t[:, None]
        parts = [np.tile(self.constant, (len(t), 1))]
        parts += [_LAWS[kind](when, numbers, np) for kind, numbers in self.moving.items()]
        if self.points is not None:
            here = self.points.values(when, np)
            parts.append(here @ (self.points.source[:, None] == np.arange(self.count)).astype(float))
        values = np.concatenate(parts, axis=1)
        return values * np.clip(when / self.startup, 0.0, 1.0) if self.startup else values

    def corners(self, start: float, end: float) -> np.ndarray:
        """The times between start and end at which the slope of a source jumps, in increasing order."""
        corners = [
            *self.moving.get("sin", np.zeros((6, 0)))[3],
            *self.moving.get("am", np.zeros((5, 0)))[4],
            *self.moving.get("exp", np.zeros((6, 0)))[[2, 4]].ravel(),
            self.startup,
        ]
        for _, _, td, tr, tf, pw, per, times, cut in self.moving.get("pulse", np.zeros((9, 0))).T:
            one = np.cumsum([0.0, tr, pw, tf])
            one = np.append(one[one < per - cut], per - cut) if cut else one
            corners += _repeated(td + one, td, per, start, min(end, td + (times - 0.5) * per))
        if self.points is not None:
            corners += self.points.corners(start, end)
        times = np.unique(corners)
        return times[(times > start) & (times < end)]

    def period(self) -> tuple[float | None, float]:
        """The common period of all sources, None where they are constant, and the time from which they are periodic.

        ValueError where there is no common period: for periods whose ratios are not fractions of numbers up to
        MOST_PERIODS, and for damped sines. EXP and PWL are constant after their last point.
        """
        lengths, begin = [], self.startup
        for vo_va in self.moving.get("sin", np.zeros((6, 0))).T:
            if vo_va[1] and vo_va[4]:
                raise ValueError("sources: a damped SIN has no period; take its theta away")
            if vo_va[1]:
                lengths.append(1.0 / vo_va[2])
                begin = max(begin, vo_va[3])
        for v1, v2, td, tr, tf, pw, per, times, _ in self.moving.get("pulse", np.zeros((9, 0))).T:
            if v1 != v2 and math.isfinite(per) and math.isfinite(times):
                begin = max(begin, td + times * per)
            elif v1 != v2 and math.isfinite(per):
                lengths.append(per)
                begin = max(begin, td)
            elif v1 != v2:
                begin = max(begin, td + tr + pw + tf)
        for _, _, _, tau1, td2, tau2 in self.moving.get("exp", np.zeros((6, 0))).T:
            begin = max(begin, td2 + SETTLED * max(tau1, tau2))
        for _, va, fc, mdi, fs, *_ in self.moving.get("sffm", np.zeros((7, 0))).T:
            lengths += [1.0 / fc, *([1.0 / fs] if mdi else [])] if va else []
        for va, _, mf, fc, td in self.moving.get("am", np.zeros((5, 0))).T:
            lengths += [1.0 / fc, 1.0 / mf] if va else []
            begin = max(begin, td)
        if TIME in self.moving:
            raise ValueError("sources: an expression of time has no period; write it as a waveform of V or I")
        if self.points is not None:
            lengths += self.points.period[self.points.period > 0.0].tolist()
            begin = max(begin, self.points.settled)
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
        return np.where(np.isnan(self.dc), self.risen(0.0, np), self.dc)


def _sin(t, numbers, xp):
    vo, va, freq, td, theta, phase = numbers
    after = xp.maximum(t - td, 0.0)
    return vo + va * xp.exp(-after * theta) * xp.sin(2.0 * np.pi * freq * after + phase * (np.pi / 180.0))


def _pulse(t, numbers, xp):
    v1, v2, td, tr, tf, pw, per, times, cut = numbers
    rate, period = 1.0 / per, np.where(np.isfinite(per), per, 0.0)
    after = xp.maximum(t - td, 0.0)
    after = after - xp.floor(after * rate) * period
    up, down = xp.clip(after / tr, 0.0, 1.0), xp.clip((after - tr - pw) / tf, 0.0, 1.0)
    share = up - down
    if cut.any():  # a period that ends before the pulse does
        length = np.where(cut > 0.0, cut, 1.0)
        share = share * xp.clip(np.where(cut > 0.0, period / length, 1.0) - after * ((cut > 0.0) / length), 0.0, 1.0)
    if np.isfinite(times).any():
        last = np.where(np.isfinite(times * per), td + times * per, np.finfo(float).max)
        share = xp.where(t < last, share, 0.0)
    return v1 + (v2 - v1) * share


def _sffm(t, numbers, xp):
    vo, va, fc, mdi, fs, phasec, phases = numbers
    inner = mdi * xp.sin(2.0 * np.pi * fs * t + phases * (np.pi / 180.0))
    return vo + va * xp.sin(2.0 * np.pi * fc * t + phasec * (np.pi / 180.0) + inner)


def _am(t, numbers, xp):
    va, vo, mf, fc, td = numbers
    after = xp.maximum(t - td, 0.0)
    return va * (vo + xp.sin(2.0 * np.pi * mf * after)) * xp.sin(2.0 * np.pi * fc * after)


def _time(t, numbers, xp):
    return t * numbers[0]


def _exp(t, numbers, xp):
    v1, v2, td1, tau1, td2, tau2 = numbers
    up, down = (-xp.expm1(-xp.maximum(t - td, 0.0) / tau) for td, tau in ((td1, tau1), (td2, tau2)))
    return v1 + (v2 - v1) * (up - down)


_LAWS = {"sin": _sin, "pulse": _pulse, "exp": _exp, "sffm": _sffm, "am": _am, TIME: _time}


def _repeated(times: np.ndarray, begin: float, period: float, start: float, end: float) -> list[float]:
    """Times that come again with a period, between start and end at least; an infinite period comes once."""
    if not math.isfinite(period):
        return times.tolist()
    first, last = (math.floor((t - begin) / period) for t in (start, end))
    if last - first > MOST_CORNERS:
        raise ValueError(f"sources: {last - first:,} periods of {period:g} s in the run, expected at most "
                         f"{MOST_CORNERS:,}")  # fmt: skip
    turns = np.arange(max(first, 0), max(last, 0) + 1)
    return np.add.outer(turns * period, times).ravel().tolist()


class Lines(NamedTuple):
    """The lines of all PWL sources, one entry each: from `begin` to `end`, v0 + slope (t - t0), after `delay`; those of
    a source that is repeated come again with its `period` (0: never) from `base` on."""

    begin: np.ndarray
    end: np.ndarray
    source: np.ndarray
    t0: np.ndarray
    v0: np.ndarray
    slope: np.ndarray
    delay: np.ndarray
    base: np.ndarray
    period: np.ndarray

    def values(self, t: Any, xp: Any) -> Any:
        """The value of each line at t, 0 where t is not on it."""
        if self.delay.any() or self.period.any():
            t = t - self.delay
            rate = np.where(self.period > 0.0, 1.0 / np.where(self.period > 0.0, self.period, 1.0), 0.0)
            t = t - xp.floor(xp.maximum(t - self.base, 0.0) * rate) * self.period
        return xp.where((t >= self.begin) & (t < self.end), self.v0 + (t - self.t0) * self.slope, 0.0)

    def corners(self, start: float, end: float) -> list[float]:
        corners = []
        for begin, delay, base, period in zip(self.begin, self.delay, self.base, self.period, strict=True):
            turns = period if period and begin >= base else math.inf
            corners += _repeated(np.array([begin + delay]), base + delay, turns, start, end)
        return corners

    @property
    def settled(self) -> float:
        """The time from which all of them are constant or repeated."""
        last = np.where(self.period > 0.0, self.base, np.where(np.isfinite(self.begin), self.begin, 0.0))
        return float((last + self.delay).max(initial=0.0))


def _wrapped(waveform: Waveform) -> tuple[tuple[float, ...], float]:
    """The points of a PWL, and how long it takes to return to where it is repeated from: where it ends elsewhere, it
    does so in the last RETURN of its last line."""
    numbers, base = waveform.numbers, waveform.repeated
    if base is None:
        return numbers, 0.0
    times, values = np.array(numbers[::2]), np.array(numbers[1::2])
    first = float(np.interp(base, times, values))
    if values[-1] == first:
        return numbers, 0.0
    length = RETURN * float(times[-1] - times[-2])
    before = float(np.interp(times[-1] - length, times, values))
    return (*numbers[:-2], float(times[-1]) - length, before, float(times[-1]), first), length


def _segments(waveforms: Sequence[Waveform]) -> Lines | None:
    """All the lines of all the PWL sources; None where there is no source."""
    rows = []
    for source, waveform in enumerate(waveforms):
        numbers = _wrapped(waveform)[0]
        t, v = np.array(numbers[::2]), np.array(numbers[1::2])
        begin, end = np.append(-np.inf, t), np.append(t, np.inf)
        slope = np.concatenate([[0.0], np.diff(v) / np.diff(t), [0.0]])
        from_point = np.append(0, np.arange(len(t)))
        base = 0.0 if waveform.repeated is None else waveform.repeated
        length = 0.0 if waveform.repeated is None else t[-1] - base
        same = [np.full(len(begin), value) for value in (waveform.delay, base, length)]
        rows.append(np.stack([begin, end, np.full(len(begin), source), t[from_point], v[from_point], slope, *same]))
    return Lines(*np.concatenate(rows, axis=1)) if rows else None
