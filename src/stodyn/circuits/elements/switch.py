"""S and W: a switch controlled by a voltage or by the current of a source, with a smooth path from ROFF to RON.

With the control c, log R runs from log ROFF at VT - SMOOTH to log RON at VT + SMOOTH along (3z - z³)/4 + 1/2; without
SMOOTH, which SPICE does not have, within 1 % of VT (at least 10 mV or 1 µA). Its resistance has thermal noise. VH of
SPICE is a hysteresis, for which a switch would need memory; it is refused.
"""

from __future__ import annotations

from typing import Any

from stodyn.circuits.devices import ANY, BOLTZMANN, Law, Numbers, Parameter, known_log
from stodyn.circuits.element import GROUND, Card, Element, ElementType, ModelType


def _check(numbers: Any) -> None:
    for key in ("vh", "ih"):
        if numbers.get(key):
            raise ValueError(
                f"{key} = {numbers[key]:g} is a hysteresis, but switches have no memory here. Leave it out, or take a "
                "comparator with positive feedback; smooth= is the half-width of a transition without memory"
            )


def _model(unit: str) -> ModelType:
    """The model of a switch controlled in V or A."""
    letter = unit.replace("A", "I").lower()
    own = {f"{letter}t": Parameter(0.0, unit, ANY), f"{letter}h": Parameter(0.0, unit, ANY)}
    resistances = {key: Parameter(value, "Ω", 0.0, False) for key, value in (("ron", 1.0), ("roff", 1e12))}
    return ModelType({**own, "smooth": Parameter(0.0, unit), **resistances}, check=_check)


VOLTAGE, CURRENT = _model("V"), _model("A")


def conductance(control: Any, p: Numbers, xp: Any) -> Any:
    z = xp.clip((control - p["middle"]) / p["reach"], -1.0, 1.0)
    share = 0.5 + 0.25 * z * (3.0 - z * z)
    return xp.exp(-(known_log(p["roff"], xp) + share * known_log(p["ron"] / p["roff"], xp)))


def current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return read[0] * conductance(read[1], p, xp)


def noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * conductance(read[1], p, xp)


SWITCH = Law("switch", current, noise, "thermal")


def _switch(card: Card, model: Any, middle: str, control: tuple[str, str]) -> list[Element]:
    p = model.numbers
    smallest = max(0.01 * abs(p[middle]), 0.01 if middle == "vt" else 1e-6)
    numbers = {"ron": p["ron"], "roff": p["roff"], "middle": p[middle], "reach": max(p["smooth"], smallest)}
    ends = card.nodes[0], card.nodes[1]
    return [card.nonlinear(SWITCH, ends, (ends, control), numbers)]


def _by_voltage(card: Card) -> list[Element]:
    if card.rest[-1:] in (["on"], ["off"]):
        card.rest.pop()
    return _switch(card, card.model(), "vt", (card.nodes[2], card.nodes[3]))


def _by_current(card: Card) -> list[Element]:
    if card.rest[-1:] in (["on"], ["off"]):
        card.rest.pop()
    if len(card.rest) != 2:
        raise card.malformed()
    source = card.scope.prefix + card.rest.pop(0)
    return _switch(card, card.model(), "it", (f"i({source})", GROUND))


S = ElementType("s", "S n+ n- nc+ nc- model [on|off]", 4, _by_voltage, {"sw": VOLTAGE}, noisy=True)
W = ElementType("w", "W n+ n- vsource model [on|off]", 2, _by_current, {"csw": CURRENT}, noisy=True)
