"""C and L whose values are expressions: a charge Q, a capacitance C, a flux Flux or an inductance L.

    Q     a charge between the nodes
    C     the charge ∫ C dv where C is a smooth function of its own voltage v alone; otherwise u₊ - u₋ = w with w' = i/C
    Flux  the current x of a gyrator with the charge Flux(x), whose derivative is the voltage
    L     the current x with x' = v/L
x in an expression is the voltage of a capacitor and the current of an inductor, as in LTspice. None of them has noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stodyn.circuits.devices import REFERENCE, Law, Numbers
from stodyn.circuits.element import GROUND, Card, Element
from stodyn.circuits.elements.controlled import VOLTS, charge, is_between, law_of
from stodyn.circuits.waveforms import Waveform

ORDERS = (8, 32)  # of the quadrature of a capacitance
SMOOTH = 1e-10  # the relative difference to twice the order, up to which a quadrature is believed


def capacitor(card: Card, nodes: tuple[str, str], text: str, is_charge: bool, initial: float | None) -> list[Element]:
    """A capacitor between two nodes whose charge, or capacitance, is an expression."""
    law, reads, numbers = law_of(card, text, {"x": nodes})
    if is_charge:
        return [charge(card, nodes, law, reads, numbers, initial=initial)]
    if is_between(reads, nodes):
        for order in ORDERS:
            sign = 1.0 if reads == (nodes,) else -1.0
            stored = _integrated(law, order, sign)
            if _agree(stored, _integrated(law, 2 * order, sign), numbers):
                return [charge(card, nodes, stored, (nodes,), numbers, initial=initial)]
    state = card.inner("state")
    law, reads, numbers = law_of(card, f"flow/({text})", {"x": nodes, "flow": (f"i({card.full})", GROUND)})
    return [
        card.part("e", (*nodes, state, GROUND), 1.0),
        card.part("c", (state, GROUND), 1.0, ".state", initial=initial),
        card.nonlinear(law, (GROUND, state), reads, numbers, ".rate", noisy=False),
    ]


def inductor(card: Card, nodes: tuple[str, str], text: str, is_flux: bool, initial: float | None) -> list[Element]:
    """An inductor between two nodes whose flux, or inductance, is an expression."""
    first, last = nodes
    inside, state = card.inner("inside"), card.inner("state")
    parts = [
        card.part("v", (first, inside), Waveform(0.0)),
        card.part("g", (inside, last, state, GROUND), 1.0, ".flow"),
    ]
    own = {"x": (state, GROUND), "across": (inside, last)}
    if is_flux:
        stored = charge(card, (state, GROUND), *law_of(card, text, own), suffix=".flux", initial=initial)
        return [*parts, stored, card.part("g", (GROUND, state, inside, last), 1.0, ".rate")]
    law, reads, numbers = law_of(card, f"across/({text})", own)
    return [
        *parts,
        card.part("c", (state, GROUND), 1.0, ".state", initial=initial),
        card.nonlinear(law, (GROUND, state), reads, numbers, ".rate", noisy=False),
    ]


def _integrated(law: Law, order: int, sign: float = 1.0) -> Law:
    """The charge ∫ C dv from 0 V of a capacitance by Gauss and Legendre; `sign`: of the voltage that C reads."""
    places, weights = np.polynomial.legendre.leggauss(order)
    rule = tuple(zip((0.5 * (places + 1.0) * sign).tolist(), (0.5 * weights).tolist(), strict=True))

    def value(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        total = 0.0 * read[0]
        for share, weight in rule:
            total = total + weight * law.value((share * read[0],), p, xp)
        return read[0] * total

    return Law(law.name, value)


def _agree(first: Law, second: Law, numbers: dict[str, float]) -> bool:
    p = Numbers({key: np.array([value]) for key, value in numbers.items()}, REFERENCE)
    with np.errstate(all="ignore"):
        one, other = (np.asarray(law.value((VOLTS,), p, np)) for law in (first, second))
        return bool((np.abs(one - other) <= SMOOTH * np.abs(other)).all())
