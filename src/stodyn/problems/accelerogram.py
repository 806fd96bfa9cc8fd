"""Recorded accelerograms as loads: files of PEER (AT2) and of columns (CSV), read with care, and resampled."""

from __future__ import annotations

import dataclasses
import fractions
import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import check_positive, checks_arguments

EVEN = 1e-3  # of a step: by so much may a time of a file be off an even grid, as files round their times
HEADER = 4  # lines above the values of an AT2 file; the last says how many there are and how far apart
DENOMINATOR = 1000  # the largest in the ratio of two steps

__all__ = ["Accelerogram", "read_record"]


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Accelerogram:
    """A recorded acceleration on an even grid of times: straight between its values, 0 before and after them.

    Parameters
    ----------
    values : array (samples,)
        The values at `start`, start + dt, start + 2 dt, ...
    dt : float
        The time between two of them.
    start : float
        The time of the first one.

    Raises
    ------
    ValueError
        If there are fewer than two values, or some are not finite.

    Examples
    --------
    >>> import stodyn as sd
    >>> pulse = sd.structures.Accelerogram([0.0, 1.0, 0.0], dt=0.5)
    >>> float(pulse(0.25))
    0.5
    """

    values: Any
    dt: float
    start: float = 0.0

    def __post_init__(self):
        check_positive("a time", dt=self.dt)
        values = np.asarray(self.values, float)
        if values.ndim != 1 or len(values) < 2:
            raise ValueError(f"values: expected at least two numbers, one after the other, got shape {values.shape}")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise ValueError(f"values: {len(bad)} are not finite, the first at t = {self.start + bad[0] * self.dt:g}")
        object.__setattr__(self, "values", values)

    @property
    def duration(self) -> float:
        """The time from the first value to the last."""
        return (len(self.values) - 1) * self.dt

    def __call__(self, t: Any) -> Any:
        """The value at a time, by jax.numpy."""
        last = len(self.values) - 1
        place = (jnp.asarray(t) - self.start) / self.dt
        k = jnp.clip(jnp.floor(place), 0, last - 1)
        values, number = jnp.asarray(self.values, place.dtype), k.astype(jnp.int32)
        inside = values[number] + (place - k) * (values[number + 1] - values[number])
        return jnp.where((place >= 0.0) & (place <= last), inside, 0.0)

    @checks_arguments
    def delayed(self, time: float) -> Accelerogram:
        """Return the record as it arrives later: at the next support, after the time that the wave takes to it.

        Parameters
        ----------
        time : float
            The delay; negative for an earlier arrival.

        Returns
        -------
        Accelerogram
        """
        if not np.isfinite(time):
            raise ValueError(f"time: expected a finite number, got {time!r}")
        return dataclasses.replace(self, start=self.start + time)

    @checks_arguments
    def resampled(self, dt: float) -> Accelerogram:
        """Return the record on another grid, without aliasing: what is too fast for the new one is filtered out first.

        A run with longer steps than those of a record reads some of its values only, so that motion above 1/(2 dt)
        appears as a slower one: give it the record resampled to its dt. The filter is a symmetric one (Kaiser's
        window), which delays nothing.

        Parameters
        ----------
        dt : float
            The time between two values of the new record.

        Returns
        -------
        Accelerogram
        """
        check_positive("a time", dt=dt)
        ratio = fractions.Fraction(self.dt / dt).limit_denominator(DENOMINATOR)
        if not ratio or abs(float(ratio) * dt / self.dt - 1.0) > 1e-9:
            raise ValueError(f"dt: expected a ratio of whole numbers up to {DENOMINATOR} to {self.dt:g}, got {dt!r}")
        values = scipy.signal.resample_poly(self.values, ratio.numerator, ratio.denominator)
        return Accelerogram(values, dt, self.start)


@checks_arguments
def read_record(
    file: str | Path, unit: float | None = None, dt: float | None = None, column: int = 1, start: float | None = None
) -> Accelerogram:
    """Read an accelerogram: a file of PEER with the ending .AT2, or columns of numbers (CSV), times in the first.

    Parameters
    ----------
    file : str or Path
        The file. Columns are separated by commas, semicolons, tabs or blanks; lines above them that begin with no
        number are a header.
    unit : float, optional
        What a value of 1 in the file is in the units of the problem: 9.80665 for values in g and metres. AT2 files hold
        accelerations in g and need it; otherwise it is 1.
    dt : float, optional
        For a file without times: the time between two values.
    column : int
        The column of the values, counted from 0 at the times; in a file without times 0 is the first.
    start : float, optional
        The time at which the record begins in a run; by default that of the file, 0 for AT2.

    Returns
    -------
    Accelerogram

    Raises
    ------
    ValueError
        If an AT2 file is read without `unit`, if the header is not one of such a file, the number of values is not the
        one it states, a value is missing or no number, numbers have or may have decimal commas, or there is a gap:
        times that are not evenly spaced.
    """
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"file: there is no file {str(path)!r}")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if path.suffix.lower() == ".at2":
        values, step = _at2(str(path), lines)
        if unit is None:
            raise ValueError(
                f"unit: {path.name} holds accelerations in g, but left out is what 1 g is in the problem; give "
                "unit=9.80665 for metres and seconds, or unit=1 for accelerations in g"
            )
        return Accelerogram(unit * values, step, 0.0 if start is None else start)
    unit = 1.0 if unit is None else unit
    table = _columns(str(path), lines)
    if dt is not None and all(len(row) == 2 and all(map(_is_digits, row)) for row in table):
        raise ValueError(
            f"file: {path.name} holds lines such as {','.join(table[0])!r}: one number with a decimal comma, or two "
            "columns of whole numbers. Write points in place of decimal commas, or 1.0 for a whole 1"
        )
    if dt is None:
        times, values = _picked(str(path), table, 0), _picked(str(path), table, column)
        step = _even_step(str(path), times)
        return Accelerogram(unit * values, step, float(times[0]) if start is None else start)
    return Accelerogram(unit * _picked(str(path), table, column), dt, 0.0 if start is None else start)


def _at2(path: str, lines: list[str]) -> tuple[np.ndarray, float]:
    """The values of an AT2 file and their step."""
    known = lines[HEADER - 1] if len(lines) >= HEADER else ""
    number = r"([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)"
    named = re.search(rf"NPTS\s*=\s*(\d+).*?DT\s*=\s*{number}", known, re.IGNORECASE)
    plain = re.match(rf"\s*(\d+)\s+{number}\s+NPTS,?\s*DT", known, re.IGNORECASE)
    match = named or plain
    if match is None:
        raise ValueError(
            f"file: {path!r} is not an AT2 file: line {HEADER} should state NPTS and DT, as in 'NPTS= 4000, DT= .0050 "
            f"SEC', but is {known.strip()[:60]!r}"
        )
    count, step = int(match[1]), float(match[2])
    values = _numbers(path, [word for line in lines[HEADER:] for word in line.split()])
    if len(values) != count:
        raise ValueError(
            f"file: {path!r} states NPTS = {count} values but holds {len(values)}; "
            f"{'its end is missing' if len(values) < count else 'something follows them'}"
        )
    return values, step


def _numbers(path: str, words: list[str]) -> np.ndarray:
    try:
        return np.array(words, float)
    except ValueError as error:
        raise ValueError(f"file: {path!r} holds something other than numbers among its values ({error})") from None


def _columns(path: str, lines: list[str]) -> list[list[str]]:
    """The words of each line below the header."""
    texts = [line.strip() for line in lines if line.strip()]
    rows = [re.split(r"\s*[,;]\s*|\s+", line) for line in texts]
    first = next((i for i, row in enumerate(rows) if _is_number(row[0])), len(rows))
    if len(rows) - first < 2:
        raise ValueError(f"file: {path!r} holds no columns of numbers")
    decimal = next((line for line in texts[first:] if _has_decimal_commas(line)), None)
    if decimal is not None:
        raise ValueError(
            f"file: {path!r} holds {decimal[:60]!r}, with a comma between digits and columns separated otherwise: it "
            "would be read as one column more. Write points in place of decimal commas, or commas alone between columns"
        )
    return rows[first:]


def _has_decimal_commas(line: str) -> bool:
    """Whether commas stand between digits where semicolons, tabs or blanks separate the columns."""
    return bool(re.search(r"\d,\d", line) and re.search(r";|[^\s,;]\s+[^\s,;]", line))


def _is_digits(word: str) -> bool:
    return bool(re.fullmatch(r"[-+]?\d+", word))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _picked(path: str, rows: list[list[str]], column: int) -> np.ndarray:
    short = next((i for i, row in enumerate(rows) if len(row) <= column or not row[column]), None)
    if short is not None:
        raise ValueError(f"file: {path!r} has no value in column {column} of line {short + 1} of its numbers")
    return _numbers(path, [row[column] for row in rows])


def _even_step(path: str, times: ArrayLike) -> float:
    """The step of an even grid of times, one of the steps between them; a gap is told."""
    steps = np.diff(np.asarray(times, float))
    usual = float(np.sort(steps)[(len(steps) - 1) // 2])
    off = np.flatnonzero(~(np.abs(steps - usual) <= EVEN * abs(usual)))
    if len(off) or not usual > 0.0:
        k = int(off[0]) if len(off) else 0
        raise ValueError(
            f"file: {path!r} has a gap: from t = {np.asarray(times)[k]:g} to the next value it is {steps[k]:g}, "
            f"elsewhere {usual:g}. Fill it, or give dt= and column= if the first column holds no times"
        )
    return float((np.asarray(times)[-1] - np.asarray(times)[0]) / len(steps))
