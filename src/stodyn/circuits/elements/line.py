"""T: an ideal transmission line of impedance Z0 and delay TD, or NL wavelengths at F.

With the currents i₁ and i₂ into its two ports and z = exp(-iω TD),
    u₁ - Z0 i₁ = z (u₂ + Z0 i₂),   u₂ - Z0 i₂ = z (u₁ + Z0 i₁);   at DC u₁ = u₂ and i₁ = -i₂
.op, .dc, .ac and .noise have it exactly. In time it is a delay, which the methods here do not have, and is refused. O,
a line with losses, is refused everywhere (netlist.py).
"""

from __future__ import annotations

from stodyn.circuits.element import Card, Element, ElementType


def _parse(card: Card) -> list[Element]:
    if card.rest:
        raise card.malformed()
    card.parameters.pop("ic", None)
    impedance = card.named("z0", 0.0, 0.0, False)
    if not impedance > 0.0:
        raise card.malformed("Z0= is missing")
    frequency = card.named("f", 0.0, 0.0, False)
    lengths = card.named("nl", 0.25, 0.0, False)
    delay = card.named("td", lengths / frequency if frequency else 0.0, 0.0, False)
    if not delay > 0.0:
        raise card.malformed("its delay is missing: TD=, or F= and NL=")
    a, b, c, d = card.nodes
    near, far = card.full, f"{card.full}.far"
    return [card.part("t", (a, b, c, d), (impedance, delay, far)),
            card.part("t", (c, d, a, b), (impedance, delay, near), ".far")]  # fmt: skip


T = ElementType("t", "T a b c d Z0=... TD=... (or F=... NL=...)", 4, _parse)
