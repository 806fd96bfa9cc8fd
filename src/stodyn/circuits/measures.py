"""Measurements on waveforms by .measure: many paths at once, each path by itself.

A waveform is a row of values over an axis (time or frequency) with straight lines between its points. Signals are
expressions of v(node), v(a,b) and i(source); for small signals also of vm, vdb, vp, vr and vi, and for noise of onoise
and inoise (V/√Hz). A measurement that does not exist on a path, because a level is never reached, is NaN there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stodyn.circuits.asked import Event, Measure
from stodyn.circuits.expressions import BadValue, Names, evaluate_arrays
from stodyn.circuits.text import NetlistError

SIGNAL = re.compile(r"(?<![\w.])(v|vm|vdb|vp|vr|vi|i)\s*\(\s*([^\s(),]+)\s*(?:,\s*([^\s(),]+)\s*)?\)")
PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "v": np.abs, "i": np.abs, "vm": np.abs, "vdb": lambda z: 20.0 * np.log10(np.abs(z)), "vp": np.angle,
    "vr": np.real, "vi": np.imag,
}  # fmt: skip


class Waveforms:
    """Values over an axis: `of` returns those of an unknown, (paths, points), by its name; "0" is the ground."""

    def __init__(self, axis: np.ndarray, of: Callable[[str], np.ndarray], names: Sequence[str],
                 more: Mapping[str, np.ndarray] | None = None):  # fmt: skip
        self.axis, self.of, self.names, self.more = np.asarray(axis, float), of, names, dict(more or {})

    def signal(self, expression: str, known: Mapping[str, Any]) -> np.ndarray:
        """The values (paths, points) of an expression; BadValue if it contains an unknown name."""
        series: dict[str, np.ndarray] = {}

        def replaced(match: re.Match) -> str:
            name = f"read_{len(series)}"
            series[name] = self._read(*match.groups())
            return name

        text = SIGNAL.sub(replaced, expression)

        def lookup(name: str) -> Any:
            if name in series:
                return series[name]
            if name in self.more:
                return self.more[name]
            if name in known:
                return np.asarray(known[name])[..., None]
            raise BadValue(f"there is no {name} in {expression}")

        value = np.asarray(evaluate_arrays(text, Names(lookup), np), float)
        return np.atleast_2d(np.broadcast_to(value, np.broadcast_shapes(value.shape, self.axis.shape)))

    def _read(self, letter: str, first: str, second: str | None) -> np.ndarray:
        value = self._unknown(f"i({first})" if letter == "i" else first)
        value = value - self._unknown(second) if second else value
        return PARTS[letter](value) if np.iscomplexobj(value) else value

    def _unknown(self, name: str) -> np.ndarray:
        if name in ("0", "gnd"):
            return np.zeros(len(self.axis))
        if name not in self.names:
            raise BadValue(f"there is no {name if name.startswith('i(') else f'node {name}'}")
        return self.of(name)


def measured(measures: Sequence[Measure], waveforms: Waveforms) -> dict[str, np.ndarray]:
    """name -> values (paths,), in the order of the netlist; a measurement may use those before it."""
    known: dict[str, np.ndarray] = {}
    for measure in measures:
        try:
            known[measure.name] = _one(measure, waveforms, known)
        except BadValue as error:
            raise NetlistError(f".measure {measure.name}: {error}", measure.at) from None
    return known


def _one(measure: Measure, waveforms: Waveforms, known: Mapping[str, np.ndarray]) -> np.ndarray:
    axis, (low, high) = waveforms.axis, measure.window
    if measure.kind == "delay":
        return _met(measure.target, waveforms, known) - _met(measure.trigger, waveforms, known)
    if measure.kind == "when":
        return _met(measure.target, waveforms, known)
    if measure.kind == "param":
        return waveforms.signal(measure.signal, known)[:, 0]
    y = waveforms.signal(measure.signal, known)
    if measure.kind in ("find", "deriv"):
        y = np.gradient(y, axis, axis=1) if measure.kind == "deriv" else y
        return _interpolated(axis, y, _met(measure.target, waveforms, known))
    low, high = max(low, axis[0]), min(high, axis[-1])
    if not low < high:
        raise BadValue(f"from {measure.window[0]:g} to {measure.window[1]:g}: the run goes from {axis[0]:g} to "
                       f"{axis[-1]:g}")  # fmt: skip
    inside = (axis > low) & (axis < high)
    edges = [_interpolated(axis, y, np.full(len(y), place))[:, None] for place in (low, high)]
    y = np.concatenate([edges[0], y[:, inside], edges[1]], axis=1)
    places = np.concatenate([[low], axis[inside], [high]])
    return _KINDS[measure.kind](places, y)


def _rms(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """√ of the mean square of straight lines: (a² + ab + b²)/3 over each."""
    squares = (y[:, 1:] ** 2 + y[:, 1:] * y[:, :-1] + y[:, :-1] ** 2) / 3.0
    return np.sqrt((squares * np.diff(x)).sum(axis=1) / (x[-1] - x[0]))


_KINDS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "max": lambda x, y: y.max(axis=1),
    "min": lambda x, y: y.min(axis=1),
    "pp": lambda x, y: np.ptp(y, axis=1),
    "integ": lambda x, y: np.trapezoid(y, x, axis=1),
    "avg": lambda x, y: np.trapezoid(y, x, axis=1) / (x[-1] - x[0]),
    "rms": _rms,
}


def _interpolated(axis: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """y (paths, points) interpolated at one place per path; NaN outside the axis."""
    at = np.broadcast_to(at, (max(len(y), np.size(at)),))
    y = np.broadcast_to(y, (len(at), y.shape[1]))
    k = np.clip(np.searchsorted(axis, np.nan_to_num(at, nan=axis[0]), side="right") - 1, 0, len(axis) - 2)
    rows = np.arange(len(at))
    share = (at - axis[k]) / (axis[k + 1] - axis[k])
    values = y[rows, k] + share * (y[rows, k + 1] - y[rows, k])
    reach = 1e-9 * (axis[-1] - axis[0])
    return np.where((at >= axis[0] - reach) & (at <= axis[-1] + reach), values, np.nan)


def _met(event: Event | None, waveforms: Waveforms, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """The place on the axis at which each path meets the event; NaN where it does not."""
    assert event is not None
    if event.at is not None:
        return np.full(1, event.at)
    axis = waveforms.axis
    level = event.level if isinstance(event.level, float) else waveforms.signal(event.level, known)
    over = waveforms.signal(event.signal, known) - level
    up, down = (over[:, :-1] < 0.0) & (over[:, 1:] >= 0.0), (over[:, :-1] > 0.0) & (over[:, 1:] <= 0.0)
    hit = {"rise": up, "fall": down, "cross": up | down}[event.edge]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = over[:, :-1] / (over[:, :-1] - over[:, 1:])
    places = np.where(hit, axis[:-1] + share * np.diff(axis), np.nan)
    hit = hit & (places >= event.after)
    if event.occurrence < 0:
        k = hit.shape[1] - 1 - np.argmax(hit[:, ::-1], axis=1)
        enough = hit.any(axis=1)
    else:
        rank = np.cumsum(hit, axis=1)
        k, enough = np.argmax(hit & (rank == event.occurrence), axis=1), rank[:, -1] >= event.occurrence
    return np.where(enough, places[np.arange(len(places)), k], np.nan)
