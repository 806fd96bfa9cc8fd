"""S and W: a switch controlled by a voltage or by the current of a source, with a smooth path from ROFF to RON.

With the control c, log R runs from log ROFF at VT - SMOOTH to log RON at VT + SMOOTH along (3z - z³)/4 + 1/2; without
SMOOTH, which SPICE does not have, within 1 % of VT (at least 10 mV or 1 µA). VH < 0 is a transition of half-width |VH|,
as in LTspice. VH > 0 is a hysteresis: the switch has RON from where c rises above VT + VH until it falls below VT - VH,
and ROFF from there on; between them it is at first what `on` or `off` in its line says. Without VH and SMOOTH, where
the control rests exactly at VT (thresholds.py), the switch has the resistance that it has beyond VT: RON where c came
from below, as at first, and ROFF where it came from above, as in SPICE. PSpice's VSWITCH and ISWITCH
have that path from ROFF at VOFF to RON at VON; with VT or VH they are LTspice's, which are SW and CSW. The resistance
has thermal noise.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from stodyn.circuits.devices import ANY, BOLTZMANN, Law, Numbers, Parameter, known_log
from stodyn.circuits.element import GROUND, Card, Element, ElementType, ModelType


def _model(unit: str) -> ModelType:
    """The model of a switch controlled in V or A."""
    letter = unit.replace("A", "I").lower()
    own = {f"{letter}t": Parameter(0.0, unit, ANY), f"{letter}h": Parameter(0.0, unit, ANY)}
    resistances = {key: Parameter(value, "Ω", 0.0, False) for key, value in (("ron", 1.0), ("roff", 1e12))}
    return ModelType({**own, "smooth": Parameter(0.0, unit), **resistances})


def _pspice_model(unit: str) -> ModelType:
    """The model of PSpice's switch controlled in V or A."""
    letter = unit.replace("A", "I").lower()
    on, off = {"V": (1.0, 0.0), "A": (1e-3, 0.0)}[unit]
    resistances = {key: Parameter(value, "Ω", 0.0, False) for key, value in (("ron", 1.0), ("roff", 1e6))}
    ends = {f"{letter}on": Parameter(on, unit, ANY), f"{letter}off": Parameter(off, unit, ANY)}
    middle = {f"{letter}{key}": Parameter(0.0, unit, ANY) for key in "th"}
    return ModelType({**ends, **middle, **resistances}, check=functools.partial(_apart, letter))


def _apart(letter: str, numbers: Mapping[str, float]) -> None:
    if numbers[f"{letter}on"] == numbers[f"{letter}off"]:
        raise ValueError(f"{letter}on and {letter}off are the same; expected two values")


VOLTAGE, CURRENT = _model("V"), _model("A")
PSPICE_VOLTAGE, PSPICE_CURRENT = _pspice_model("V"), _pspice_model("A")


def conductance(control: Any, p: Numbers, xp: Any) -> Any:
    z = xp.clip((control - p["middle"]) / p["reach"], -1.0, 1.0)
    share = 0.5 + 0.25 * z * (3.0 - z * z)
    return xp.exp(-(known_log(p["roff"], xp) + share * known_log(p["ron"] / p["roff"], xp)))


def current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return read[0] * conductance(read[1], p, xp)


def noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * conductance(read[1], p, xp)


def remembered(on: Any, p: Numbers, xp: Any) -> Any:
    """The conductance of a switch that is on (1) or off (0)."""
    return xp.where(on > 0.5, 1.0 / p["ron"], 1.0 / p["roff"])


def remembered_current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return read[0] * remembered(read[2], p, xp)


def remembered_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * remembered(read[2], p, xp)


def _beyond(read: tuple[Any, ...], p: Numbers) -> Any:
    """The control moved by the path's half-width: up where it came from below, down where it came from above."""
    return read[1] - (2.0 * read[2] - 1.0) * p["reach"]


def resting_current(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return read[0] * conductance(_beyond(read, p), p, xp)


def resting_noise(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    return 2.0 * BOLTZMANN * p.kelvin * conductance(_beyond(read, p), p, xp)


PSPICE = ("vswitch", "iswitch")
SWITCH = Law("switch", current, noise, "thermal")
WITH_MEMORY = Law("switch with memory", remembered_current, remembered_noise, "thermal", remembers=True)
RESTING = Law("switch at its threshold", resting_current, resting_noise, "thermal", remembers=True)


def narrowest(middle: float, unit: str) -> float:
    """The half-width of a path that the model does not give."""
    return max(0.01 * abs(middle), 0.01 if unit == "V" else 1e-6)


def resting(e: Element) -> Element:
    """The switch with a memory of the side from which its control reached VT."""
    middle, reach = e.value["middle"], e.value["reach"]
    value = {**e.value, "low": middle - 2.0 * reach, "high": middle + 2.0 * reach, "on": 0.0}
    return e._replace(kind=RESTING.name, law=RESTING, reads=(*e.reads, (f"on({e.name})", GROUND)), value=value)


def _switch(card: Card, model: Any, is_on: bool, keys: tuple[str, str], control: tuple[str, str]) -> list[Element]:
    p = model.numbers
    ends, numbers = (card.nodes[0], card.nodes[1]), {"ron": p["ron"], "roff": p["roff"]}
    if model.type in PSPICE and not model.explicit.intersection(keys):
        on, off = (p[keys[0][0] + word] for word in ("on", "off"))
        return [card.nonlinear(SWITCH, ends, (ends, control), {**numbers, "middle": 0.5 * (on + off),
                                                               "reach": 0.5 * (on - off)})]  # fmt: skip
    middle, half = (p[key] for key in keys)
    if half > 0.0:
        numbers |= {"low": middle - half, "high": middle + half, "on": float(is_on)}
        return [card.nonlinear(WITH_MEMORY, ends, (ends, control, (f"on({card.full})", GROUND)), numbers)]
    smallest = narrowest(middle, "V" if keys[0] == "vt" else "A")
    numbers |= {"middle": middle, "reach": max(p.get("smooth", 0.0), -half, smallest)}
    return [card.nonlinear(SWITCH, ends, (ends, control), numbers)]


def _is_on(card: Card) -> bool:
    """Whether the line ends in `on`; `on` and `off` are taken away."""
    return card.rest[-1:] in (["on"], ["off"]) and card.rest.pop() == "on"


def _by_voltage(card: Card) -> list[Element]:
    is_on = _is_on(card)
    return _switch(card, card.model(), is_on, ("vt", "vh"), (card.nodes[2], card.nodes[3]))


def _by_current(card: Card) -> list[Element]:
    is_on = _is_on(card)
    if len(card.rest) != 2:
        raise card.malformed()
    source = card.scope.prefix + card.rest.pop(0)
    return _switch(card, card.model(), is_on, ("it", "ih"), (f"i({source})", GROUND))


S = ElementType("s", "S n+ n- nc+ nc- model [on|off]", 4, _by_voltage, {"sw": VOLTAGE, "vswitch": PSPICE_VOLTAGE},
                noisy=True)  # fmt: skip
W = ElementType("w", "W n+ n- vsource model [on|off]", 2, _by_current, {"csw": CURRENT, "iswitch": PSPICE_CURRENT},
                noisy=True)  # fmt: skip
