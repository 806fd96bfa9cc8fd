"""R, C, L, and K, which couples inductors: M_12 = k √(L1 L2). Values that are expressions are in varying.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from stodyn.circuits.devices import ANY, TEMPERATURE, Parameter
from stodyn.circuits.element import Card, Element, ElementType, ModelType
from stodyn.circuits.elements import controlled, varying
from stodyn.circuits.elements.controlled import is_expression
from stodyn.circuits.words import unbraced

SHORT = 1e-3  # Ω
TIGHT = 1.0 - 1e-8  # the coupling that stands for 1, at which inductors would not be independent
LABELS = {"mfg", "pn", "type", "tol", "pwr", "ipk", "irms", "v", "mfr"}  # remarks of LTspice on the part that is bought
STORED = {"r": "", "c": "q", "l": "flux"}  # charge and flux as expressions
NOT_HERE = {"hc": "Chan's model of cores is not implemented; give a constant inductance, or its flux as Flux={...}"}
RESISTOR = ModelType({"r": Parameter(1.0), "rsh": Parameter(0.0, "Ω/□"), "defw": Parameter(1e-6, "m", 0.0, False),
                      "narrow": Parameter(0.0, "m"), "tc1": Parameter(0.0, "1/K", ANY),
                      "tc2": Parameter(0.0, "1/K²", ANY), "tce": Parameter(0.0, "1/K", ANY), **TEMPERATURE},
                     refused={"kf": 0.0}, same={"tc": "tc1", "resistance": "r"})  # fmt: skip
CAPACITOR = ModelType({"c": Parameter(1.0), "cj": Parameter(0.0, "F/m²"), "cjsw": Parameter(0.0, "F/m"),
                       "defw": Parameter(1e-5, "m", 0.0, False), "narrow": Parameter(0.0, "m"),
                       "short": Parameter(0.0, "m"),
                       "tc1": Parameter(0.0, "1/K", ANY), "tc2": Parameter(0.0, "1/K²", ANY),
                       **TEMPERATURE}, same={"cap": "c"})  # fmt: skip
INDUCTOR = ModelType({"l": Parameter(1.0), "tc1": Parameter(0.0, "1/K", ANY), "tc2": Parameter(0.0, "1/K²", ANY),
                      **TEMPERATURE})  # fmt: skip


def _two_ends(card: Card) -> list[Element]:
    """The value of a part: a number, a model and a number, or a model with l= and w= (resistors); tc=, m= and scale=
    for all."""
    letter = card.type.name
    text = card.parameters.pop("value", None) or card.parameters.pop(letter, None)
    rest = card.rest if text is None else [*card.rest, text]
    stored = card.parameters.pop(STORED[letter], None)
    if expression := stored or next((word for word in rest if is_expression(word)), ""):
        if letter == "r":
            return controlled.resistor(card, expression)
        return _varying(card, expression, stored is not None)
    numbers = dict.fromkeys(("tc1", "tc2", "tce"), 0.0)
    nominal = card.nominal
    named = next((word for word in rest if word in card.netlist.model_names), None)
    if named is not None and not named[0].isdigit():
        model = card.scope.model(named, tuple(card.type.models), card.name, card.at)
        rest = [word for word in rest if word != named]
        numbers, nominal = model.numbers, model.nominal(nominal)
        if rest and letter in model.explicit:
            card.netlist.notes.append(f"{card.at}: {card.full} has a value of its own; {letter}= of .model {named} is "
                                      "left out, as in ngspice")  # fmt: skip
        if letter in "rc" and not rest and (size := _by_dimensions(card, numbers)) > 0.0:
            rest = [repr(size)]
        if not rest and letter in model.explicit:  # .model rmod r (r=1k): the value of all that name no other
            rest = [repr(model.numbers[letter])]
        if not rest:
            raise card.malformed(f"its value is missing, and .model {named} gives none")
    if "tc" in card.parameters:
        terms = card.parameters.pop("tc")
        numbers = {**numbers, "tc1": card.number(terms, "tc", place="tc1")}
        if rest and len(rest) == 2:  # tc=1m,2u: the second follows as a word
            numbers["tc2"] = card.number(rest.pop(), "tc", place="tc2")
    numbers = {**numbers, "tc1": card.named("tc1", numbers["tc1"]), "tc2": card.named("tc2", numbers["tc2"])}
    initial = _initial(card)
    least = 0.0 if letter == "l" else -math.inf
    _drop_labels(card)
    value = card.number(card.only(rest), "", least, False) * card.named("scale", 1.0, 0.0, False)
    warmer = card.kelvin - nominal
    exponential = card.named("tce", numbers.get("tce", 0.0))  # it takes the place of the others, as in SPICE
    value *= (
        1.01 ** (exponential * warmer) if exponential else 1.0 + (numbers["tc1"] + numbers["tc2"] * warmer) * warmer
    )
    many = card.named("m", 1.0, 0.0, False)
    value = value * many if letter == "c" else value / many
    if letter == "r" and value <= 0.0:
        return [_odd_resistor(card, value)]
    if letter == "c" and value == 0.0:
        raise card.malformed("= 0: expected more than 0, or less")
    if not value > 0.0 and letter == "l":
        raise card.malformed(f"is {value:g} at this temperature")
    parts, nodes = _own_parasites(card, many)
    if value < 0.0:
        card.netlist.notes.append(f"{card.at}: {card.full} is negative")
        return [controlled.proportional_charge(card, nodes, value, initial), *parts]
    return [card.part(letter, nodes, value, initial=initial), *parts]


def _by_dimensions(card: Card, numbers: Mapping[str, float]) -> float:
    """The value of a resistor by its squares, of a capacitor by its area and its rim; 0 without either."""
    length, width = card.named("l", 0.0, 0.0, False), card.named("w", numbers["defw"], 0.0, False)
    width -= numbers["narrow"]
    if card.type.name == "r":
        return numbers["rsh"] * (length - numbers["narrow"]) / width
    length -= numbers["short"]
    return numbers["cj"] * length * width + 2.0 * numbers["cjsw"] * (length + width)


def _varying(card: Card, text: str, is_stored: bool) -> list[Element]:
    """A capacitor or an inductor whose value is an expression."""
    initial, many = _initial(card), card.named("m", 1.0, 0.0, False)
    _drop_labels(card)
    warmer = card.kelvin - card.nominal
    size = card.named("scale", 1.0, 0.0, False) * (many if card.type.name == "c" else 1.0 / many)
    size *= 1.0 + (card.named("tc1", 0.0) + card.named("tc2", 0.0) * warmer) * warmer
    parts, nodes = _own_parasites(card, many)
    of = varying.capacitor if card.type.name == "c" else varying.inductor
    bare = unbraced(text)
    return [*of(card, nodes, bare if size == 1.0 else f"({bare})*{size!r}", is_stored, initial), *parts]


def _initial(card: Card) -> float | None:
    if "ic" not in card.parameters or card.type.name == "r":
        return None
    if card.netlist.transient is not None and not card.netlist.transient.uic:
        card.netlist.notes.append(f"{card.at}: left out ic= of {card.full}, which matters only with .tran ... uic")
    return card.named("ic", 0.0)


def _drop_labels(card: Card) -> None:
    for key in LABELS & card.parameters.keys():
        del card.parameters[key]
    for key, why in NOT_HERE.items():
        if key in card.parameters:
            raise card.malformed(f"{key}=: {why}")


def _own_parasites(card: Card, many: float) -> tuple[list[Element], tuple[str, str]]:
    """LTspice's parasitic parts in a C or an L, and the nodes that are left for the part itself: rser= and lser= in
    series with it, rpar= and cpar= across all of it, rlshunt= across lser. Their resistors are noisy."""
    inner, outer = card.nodes
    parts: list[Element] = []
    if card.type.name == "r":
        return parts, (inner, outer)
    for key, kind in (("rser", "r"), ("lser", "l"), ("rpar", "r"), ("cpar", "c"), ("rlshunt", "r")):
        size = card.named(key, 0.0, 0.0) * (many if kind == "c" else 1.0 / many)
        if not size:
            continue
        across = card.nodes
        if key in ("rser", "lser"):
            across = inner, card.inner(key)
            inner = card.inner(key)
        elif key == "rlshunt" and card.type.name == "c":
            lser = next((part for part in parts if part.name.endswith(".lser")), None)
            if lser is None:
                raise card.malformed("rlshunt= shunts lser=, which is missing")
            across = lser.nodes
        parts.append(card.part(kind, across, size, f".{key}", noisy=True))
    return parts, (inner, outer)


def _odd_resistor(card: Card, ohms: float) -> Element:
    """One of 0 Ω, which is 1 mΩ as in ngspice, or a negative one, which has no temperature and so no noise."""
    if ohms == 0.0:
        card.netlist.notes.append(f"{card.at}: {card.full} = 0 is taken as {SHORT:g} ohm, as in ngspice")
        return card.part("r", card.nodes, SHORT)
    card.netlist.notes.append(f"{card.at}: {card.full} is negative; it has no noise here")
    return card.part("r", card.nodes, ohms, noisy=False)


def _coupling(card: Card) -> list[Element]:
    """K L1 L2 [L3 ...] coefficient: each pair is coupled"""
    if len(card.rest) < 3:
        raise card.malformed()
    *names, text = card.rest
    coefficient = card.number(text, "its coefficient", -1.0, place="value")
    if abs(coefficient) > 1.0:
        raise card.malformed(f"its coefficient is {coefficient:g}, but it must lie between -1 and 1")
    if len(set(names)) < len(names):
        raise card.malformed(f"couples {next(name for name in names if names.count(name) > 1)} with itself")
    if abs(coefficient) == 1.0:
        card.netlist.notes.append(f"{card.at}: {card.full}: a coefficient of 1 is taken as {TIGHT!r}")
        coefficient *= TIGHT
    pairs = [" ".join(card.scope.prefix + name for name in pair) for pair in itertools.combinations(names, 2)]
    return [card.part("k", (), coefficient, f".{k}" if k else "", source=both) for k, both in enumerate(pairs)]


R = ElementType("r", "R n+ n- value", 2, _two_ends, {"r": RESISTOR, "res": RESISTOR}, noisy=True)
C = ElementType("c", "C n+ n- value [ic=volts]", 2, _two_ends, {"c": CAPACITOR, "cap": CAPACITOR})
L = ElementType("l", "L n+ n- value [ic=amperes]", 2, _two_ends, {"l": INDUCTOR, "ind": INDUCTOR})
K = ElementType("k", "K inductor inductor ... coefficient", 0, _coupling)
