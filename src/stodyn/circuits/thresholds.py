"""Switches whose control rests exactly at their threshold, as 0 V does where VT is left out.

A path of finite width around VT would leave such a switch half closed for as long as its control rests. In SPICE it has
RON where the control came to VT from below, as at the operating point, and ROFF where it came from above: so it has
here (`switch.RESTING`). What counts are controls that V sources alone determine, at their DC values and at the levels
of PULSE, PWL and EXP; other voltages are at VT within rounding at most, and then SPICE's own answer depends on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from stodyn.circuits.element import Element
from stodyn.circuits.elements import switch
from stodyn.circuits.waveforms import Waveform

SAME = 1e-12  # of the larger of a level and VT, a choice: decimals and their sums differ by rounding


def with_resting(elements: list[Element], notes: list[str]) -> list[Element]:
    """The elements, with a memory in each switch whose control rests at VT, and a note for each of them."""
    joined: dict[str, list[tuple[str, float, Waveform]]] = {}
    for e in elements:
        if e.kind == "v":
            plus, minus = e.nodes[:2]
            joined.setdefault(plus, []).append((minus, 1.0, e.value))
            joined.setdefault(minus, []).append((plus, -1.0, e.value))
    return [_resting(e, joined, notes) if e.law is switch.SWITCH else e for e in elements]


def _resting(e: Element, joined: dict[str, list[tuple[str, float, Waveform]]], notes: list[str]) -> Element:
    middle = e.value["middle"]
    if e.value["reach"] != switch.narrowest(middle, "V"):
        return e
    for level in _levels(*e.reads[1], joined):
        if abs(level - middle) <= SAME * abs(middle):
            notes.append(
                f"{e.at}: {e.name}: its control rests at VT = {middle:g} V, where it has RON after a lower control and "
                "at the operating point, and ROFF after a higher one, as in ngspice; give VT a value between the levels"
            )
            return switch.resting(e)
    return e


def _levels(plus: str, minus: str, joined: dict[str, list[tuple[str, float, Waveform]]]) -> Iterator[float]:
    """The levels at which the voltage between two nodes rests where V sources alone determine it, all but one of them
    constant."""
    ways: dict[str, list[tuple[float, Waveform]]] = {plus: []}
    ends = [plus]
    for end in ends:
        for other, sign, source in joined.get(end, ()):
            if other not in ways:
                ways[other] = [*ways[end], (sign, source)]
                ends.append(other)
    steady = [sign * (source.dc or 0.0) for sign, source in ways.get(minus, ()) if not source.kind]
    moving = [(sign, source) for sign, source in ways.get(minus, ()) if source.kind]
    if moving and len(moving) == 1:
        ((sign, source),) = moving
        yield from (sum(steady) + sign * level for level in _flat(source))
    elif steady and not moving:
        yield sum(steady)


def _flat(source: Waveform) -> Iterator[float]:
    """The values at which a waveform stands still."""
    if source.kind == "pwl":
        values = source.numbers[1::2]
        yield from (values[0], values[-1], *(a for a, b in itertools.pairwise(values) if a == b))
    elif source.kind in ("pulse", "exp"):
        yield from source.numbers[:2]
    else:
        return
    if source.dc is not None:
        yield source.dc
