"""E, G, F, H: sources controlled by a voltage or by the current of a V source, linear, POLY(1) or VALUE={...};
and B: any expression of V(...) and I(...).

A voltage source with a nonlinear law is a branch with the equation u+ - u- = value.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from stodyn.circuits.devices import Law, Numbers
from stodyn.circuits.element import GROUND, Card, Element, ElementType
from stodyn.circuits.expressions import BadValue, Names, evaluate_arrays
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform
from stodyn.circuits.words import unbraced

READ = re.compile(r"(?<![\w.])([vi])\s*\(\s*([^\s(),]+)\s*(?:,\s*([^\s(),]+)\s*)?\)")
MISREAD = re.compile(r"(?<![\w.])[vi]\s*\([^()]*\)")  # what is left where READ has been replaced
POWER = re.compile(r"(?:\^|\*\*)\s*(\d+)(?![\d.])|\bpow\s*\([^()]*,\s*(\d+)\s*\)")  # whole powers
MOST_TERMS = 20


def _coefficients(p: Numbers) -> list[np.ndarray]:
    return [p[f"p{k}"] for k in range(MOST_TERMS) if f"p{k}" in p.of]


def _polynomial(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
    total = 0.0 * read[0]
    for coefficient in reversed(_coefficients(p)):
        total = total * read[0] + coefficient
    return total


@functools.cache
def _polynomial_law(terms: int) -> Law:
    return Law(f"polynomial of {terms} terms", _polynomial)


def _law(card: Card, text: str) -> tuple[Law, tuple[tuple[str, str], ...], dict[str, float]]:
    """The law of an expression, the pairs that it reads, and the parameters in it."""
    bare = unbraced(text)
    pairs: dict[tuple[str, str], str] = {}

    def replaced(match: re.Match) -> str:
        letter, first, second = match.groups()
        if letter == "v":
            pair = card.scope.node(first), card.scope.node(second or "0")
        else:
            pair = f"i({card.scope.prefix}{first})", GROUND
        return pairs.setdefault(pair, f"read_{len(pairs)}")

    expression = READ.sub(replaced, bare)
    names = {name: k for k, name in enumerate(pairs.values())}
    numbers: dict[str, float] = {}

    def value(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        def parameter(name: str) -> Any:
            if name == "time":
                raise BadValue("time cannot be used in expressions of sources; use a waveform of V or I")
            return read[names[name]] if name in names else _plain_number(p, f"given {name}")

        def function(name: str) -> Any:
            own = card.scope.function(name)
            return own and own._replace(lookup=lambda inner: _plain_number(p, f"given {name} {inner}"))

        return evaluate_arrays(expression, Names(parameter, function), xp) + 0.0 * read[0]

    class Asked(Numbers):
        """Records the parameters of an expression."""

        def __getitem__(self, name: str) -> Any:
            _, first, *inner = name.split()
            own = card.scope.function(first) if inner else None
            numbers[name] = own.lookup(inner[0]) if own else card.scope.value(first)
            return np.array([numbers[name]])

    try:
        if (open_ones := bare.count("(") - bare.count(")")) != 0:
            raise BadValue(f"{bare!r}: a parenthesis is not {'closed' if open_ones > 0 else 'opened'}")
        if unread := MISREAD.search(expression):
            raise BadValue(f"{unread[0]}: expected V(node), V(node, node) or I(source)")
        if not pairs:
            raise BadValue("it reads neither V(...) nor I(...); write a constant as a V or I source")
        with np.errstate(all="ignore"):  # an expression need not have a value here
            value(tuple(np.full(1, 0.1) for _ in pairs), Asked({}, 300.0), np)
    except BadValue as error:
        raise NetlistError(f"{card.name}: {error}", card.at) from None
    if any(int(odd or other) % 2 for odd, other in POWER.findall(expression)):
        card.netlist.notes.append(
            f"{card.at}: {card.full}: an odd power of a negative number is negative; ngspice has that of the magnitude"
        )
    return Law(f"expression {card.full}", value), tuple(pairs), numbers


def _plain_number(p: Numbers, name: str) -> Any:
    """A parameter in the expression of a law with a single part: a plain number where it is known."""
    value = p[name]
    return float(value[0]) if isinstance(value, np.ndarray) and value.shape == (1,) else value


def _driven(card: Card, is_voltage: bool, law: Law, reads: tuple[tuple[str, str], ...], numbers: dict[str, float]):
    """The parts of a source whose voltage or current follows a law."""
    a, b = card.nodes[0], card.nodes[1]
    if not is_voltage:
        return [card.nonlinear(law, (a, b), reads, numbers)]
    branch = card.part("v", (a, b), Waveform(0.0))
    law_part = card.nonlinear(law, (GROUND, GROUND), reads, numbers, ".value")
    return [branch, law_part._replace(source=card.full)]


def _form(card: Card, is_voltage: bool, reads: tuple[tuple[str, str], ...]) -> list[Element] | None:
    """VALUE={...}; None where the source is linear or POLY(1)."""
    for key in ("value", "cur", "vol"):
        if key in card.parameters:
            return _driven(card, is_voltage, *_law(card, card.parameters.pop(key)))
    if card.rest and card.rest[0] == "poly":
        order = card.rest[2:3]
        if card.rest[1:2] != ["("] or card.rest[3:4] != [")"] or order != ["1"]:
            raise card.malformed("only POLY(1) is supported")
    return None


def _by_voltage(card: Card) -> list[Element]:
    is_voltage = card.type.name == "e"
    special = _form(card, is_voltage, ())
    if special is not None:
        return special
    words = [word for word in card.rest if word not in "()" or card.rest[0] != "poly"]
    poly = words[:1] == ["poly"]
    words = words[2:] if poly else words
    if len(words) < 3:
        raise NetlistError(f"{card.name}: expected {card.type.form}, found {len(card.rest) + 2} word(s) after the name",
                           card.at)  # fmt: skip
    control = card.scope.node(words[0]), card.scope.node(words[1])
    if poly:
        return _polynomials(card, is_voltage, control, words[2:])
    value = card.number(card.only(words[2:]), "")
    return [card.part(card.type.name, (*card.nodes, *control), value)]


def _by_current(card: Card) -> list[Element]:
    is_voltage = card.type.name == "h"
    words = [word for word in card.rest if word not in "()" or card.rest[0] != "poly"]
    special = _form(card, is_voltage, ())
    if special is not None:
        return special
    poly = words[:1] == ["poly"]
    words = words[2:] if poly else words
    if not words:
        raise card.malformed()
    source = card.scope.prefix + words[0]
    if poly:
        return _polynomials(card, is_voltage, (f"i({source})", GROUND), words[1:])
    value = card.number(card.only(words[1:]), "")
    return [card.part(card.type.name, card.nodes, value, source=source)]


def _polynomials(card: Card, is_voltage: bool, control: tuple[str, str], words: list[str]) -> list[Element]:
    if not words or len(words) > MOST_TERMS:
        raise card.malformed(f"POLY(1) takes 1 to {MOST_TERMS} coefficients, got {len(words)}")
    terms = [card.number(word, "poly", place=f"p{k}") for k, word in enumerate(words)]
    if len(terms) == 1:  # SPICE takes a single coefficient for the linear one
        terms = [0.0, *terms]
    numbers = {f"p{k}": value for k, value in enumerate(terms)}
    return _driven(card, is_voltage, _polynomial_law(len(terms)), (control,), numbers)


def _behavioural(card: Card) -> list[Element]:
    kinds = [key for key in ("v", "i") if key in card.parameters]
    if len(kinds) != 1 or card.rest:
        raise card.malformed()
    return _driven(card, kinds[0] == "v", *_law(card, card.parameters.pop(kinds[0])))


E = ElementType("e", "E n+ n- nc+ nc- gain", 2, _by_voltage)
G = ElementType("g", "G n+ n- nc+ nc- transconductance", 2, _by_voltage)
F = ElementType("f", "F n+ n- vsource gain", 2, _by_current)
H = ElementType("h", "H n+ n- vsource transresistance", 2, _by_current)
B = ElementType("b", "B n+ n- V={expression} or I={expression}", 2, _behavioural)
