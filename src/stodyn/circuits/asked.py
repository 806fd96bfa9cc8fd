"""The requests of a netlist: analyses, values to step through, and measurements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stodyn.circuits.text import Position

TEMPERATURE = "temp"  # the name of the circuit's temperature among the caller's values, °C


class Transient(NamedTuple):
    """.tran step stop [start [longest step]] [uic] [startup]; `startup`: the time in which the sources rise from 0."""

    step: float
    stop: float
    uic: bool
    start: float = 0.0
    startup: float = 0.0


class Sweep(NamedTuple):
    """Frequencies: dec|oct|lin points f1 f2."""

    spacing: str
    points: int
    first: float
    last: float

    @property
    def frequencies(self) -> np.ndarray:
        """Hz: a number of points per decade, per octave, or in all."""
        if self.spacing == "lin":
            return np.linspace(self.first, self.last, self.points)
        base = 10.0 if self.spacing == "dec" else 2.0
        count = int(np.floor(np.log(self.last / self.first) / np.log(base) * self.points + 1e-9)) + 1
        return self.first * base ** (np.arange(count) / self.points)


class NoiseAnalysis(NamedTuple):
    """.noise v(node[,reference]) source dec|oct|lin points f1 f2"""

    node: str
    reference: str
    source: str
    sweep: Sweep
    at: Position


class Step(NamedTuple):
    """.step or .temp: the name of a value, and the values that it takes."""

    place: str
    values: tuple[float, ...]
    at: Position


class Output(NamedTuple):
    """What .tf, .sens and .four look at: v(node[,reference]), or i(source) as the node and no reference."""

    node: str
    reference: str = "0"

    @property
    def is_voltage(self) -> bool:
        return not self.node.startswith("i(")

    @property
    def name(self) -> str:
        both = self.node if self.reference == "0" else f"{self.node},{self.reference}"
        return f"v({both})" if self.is_voltage else self.node


class TransferFunction(NamedTuple):
    """.tf OUTPUT SOURCE"""

    output: Output
    source: str


class Fourier(NamedTuple):
    """.four FREQUENCY OUTPUT ..."""

    frequency: float
    outputs: tuple[Output, ...]


class Event(NamedTuple):
    """When a signal meets a level, `v(out)=0.5 rise=2 td=1n`; or, with `at`, a fixed place on the axis.

    level  a number, or the expression of another signal
    edge   rise, fall or cross; `occurrence` says which of them, -1 for the last
    after  the place on the axis where counting begins
    """

    signal: str = ""
    level: float | str = 0.0
    edge: str = "cross"
    occurrence: int = 1
    after: float = -np.inf
    at: float | None = None


class Measure(NamedTuple):
    """.measure ANALYSIS NAME ...

    kind    delay (between the events `trigger` and `target`), when, find, deriv, max, min, pp, avg, rms, integ, param
    signal  the expression that is measured
    window  (from, to)
    """

    analysis: str
    name: str
    kind: str
    at: Position
    signal: str = ""
    trigger: Event | None = None
    target: Event | None = None
    window: tuple[float, float] = (-np.inf, np.inf)
