"""N: the noise of an amplifier as its data sheet states it, at the input of one without noise.

N outside inside other [en=V/√Hz] [enk=Hz] [in=A/√Hz] [ink=Hz] [bw=Hz]
EN stands in series between the pin `outside` and the node `inside`, which the amplifier reads; a current IN flows from
ground into each of the pins `outside` and `other`. All are independent, with the one-sided densities
    EN² (1 + ENK/f)   and   IN² (1 + INK/f),   over 1 + (f/BW)² where BW is given.
Each is the voltage of a noisy resistor of 1 kΩ on a node of its own, which a controlled source carries to its place; BW
is a capacitor there. Without it the noise is white, and where it would then drive a nonlinear device or a capacitor
directly, noise in time is refused and asks for BW (channels.py).
"""

from __future__ import annotations

import math
from typing import Any

from stodyn.circuits.devices import BOLTZMANN, Law, Numbers
from stodyn.circuits.element import GROUND, Card, Element, ElementType

OHMS = 1e3  # of the resistors whose noise is carried
NOT_COMPILED = (
    "compiled Verilog-A models, which are N in ngspice, are not supported; N is the noise of an amplifier here"
)


def _none(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return 0.0 * read[0]


FLICKER = Law("flicker noise", _none, conducts=False)


def generator(card: Card, name: str, corner: float, bandwidth: float) -> tuple[list[Element], str, float]:
    """A node of its own whose noise is white above the corner and below the bandwidth (0: none), the name of that node,
    and the root of its one-sided density, V/√Hz."""
    node, heat = card.inner(name), 4.0 * BOLTZMANN * card.kelvin
    parts = [card.part("r", (node, GROUND), OHMS, f".{name}")]
    if corner:
        numbers = {"kf": heat / OHMS * corner, "af": 0.0}
        parts.append(card.nonlinear(FLICKER, (GROUND, node), ((GROUND, GROUND),), numbers, f".{name}k"))
    if bandwidth:
        parts.append(card.part("c", (node, GROUND), 1.0 / (2.0 * math.pi * bandwidth * OHMS), f".{name}.bw"))
    return parts, node, math.sqrt(heat * OHMS)


def _parse(card: Card) -> list[Element]:
    if card.rest or not {"en", "in"} & card.parameters.keys():
        raise card.malformed(NOT_COMPILED if card.rest else "en= and in= are missing")
    outside, inside, other = card.nodes
    if outside == inside:
        raise card.malformed("the pin and the node that the amplifier reads are the same")
    voltage, current = card.named("en", 0.0, 0.0), card.named("in", 0.0, 0.0)
    corners = card.named("enk", 0.0, 0.0), card.named("ink", 0.0, 0.0)
    bandwidth = card.named("bw", 0.0, 0.0, False)
    parts, node, size = generator(card, "en", corners[0], bandwidth) if voltage else ([], GROUND, 1.0)
    parts.append(card.part("e", (inside, outside, node, GROUND), voltage / size, ".e"))
    for pin, name in ((outside, "in"), (other, "inn")):
        if current and pin != GROUND:
            more, node, size = generator(card, name, corners[1], bandwidth)
            parts += [*more, card.part("g", (GROUND, pin, node, GROUND), current / size, f".{name}.g")]
    return parts


N = ElementType("n", "N outside inside other en=... [enk=...] [in=...] [ink=...] [bw=...]", 3, _parse, noisy=True)
