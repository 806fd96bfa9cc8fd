"""E, G, F, H: sources controlled by a voltage or by the current of a V source, linear, POLY(1), VALUE={...} or TABLE;
and B: any expression of V(...) and I(...).

A voltage that is not linear in what it reads is a branch, u+ - u- = value, whose equation reads it.
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


def _law(card: Card, text: str) -> tuple[Law, tuple[tuple[str, str], ...]]:
    """The law of an expression, and the pairs that it reads."""
    bare = unbraced(text)
    pairs: dict[tuple[str, str], str] = {}

    def replaced(found: re.Match) -> str:
        letter, first, second = found.groups()
        if letter == "v":
            pair = card.scope.node(first), card.scope.node(second or "0")
        else:
            pair = f"i({card.scope.prefix}{first})", GROUND
        return pairs.setdefault(pair, f"read_{len(pairs)}")

    expression = READ.sub(replaced, bare)
    names = {name: k for k, name in enumerate(pairs.values())}
    numbers: dict[str, float] = {}

    def known(name: str) -> float:
        if name == "time":
            raise BadValue("time is not understood in expressions of sources; take a waveform of V or I")
        if name not in numbers:
            numbers[name] = card.scope.value(name)
        return numbers[name]

    def value(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        asked = Names(lambda name: read[names[name]] if name in names else known(name), card.scope.function)
        return evaluate_arrays(expression, asked, xp) + 0.0 * read[0]

    try:
        if not pairs:
            raise BadValue("it reads neither V(...) nor I(...); a constant is a V or I source")
        value(tuple(np.full(1, 0.1) for _ in pairs), Numbers({}, 300.0), np)
    except BadValue as error:
        raise NetlistError(f"{card.name}: {error}", card.at) from None
    return Law(f"expression {card.full}", value), tuple(pairs)


def _driven(card: Card, is_voltage: bool, law: Law, reads: tuple[tuple[str, str], ...], numbers: dict[str, float]):
    """The parts of a source whose voltage or current is a law."""
    a, b = card.nodes[0], card.nodes[1]
    if not is_voltage:
        return [card.nonlinear(law, (a, b), reads, numbers)]
    branch = card.part("v", (a, b), Waveform(0.0))
    law_part = card.nonlinear(law, (GROUND, GROUND), reads, numbers, ".value")
    return [branch, law_part._replace(source=card.full)]


def _form(card: Card, is_voltage: bool, reads: tuple[tuple[str, str], ...]) -> list[Element] | None:
    """POLY(1) c0 c1 ..., VALUE={...}, TABLE {...} = (x, y) ...; None where the source is linear."""
    for key in ("value", "cur", "vol"):
        if key in card.given:
            law, pairs = _law(card, card.given.pop(key))
            return _driven(card, is_voltage, law, pairs, {})
    if card.rest and card.rest[0] == "poly":
        order = card.rest[2:3]
        if card.rest[1:2] != ["("] or card.rest[3:4] != [")"] or order != ["1"]:
            raise card.malformed("only POLY(1) is understood")
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
    kinds = [key for key in ("v", "i") if key in card.given]
    if len(kinds) != 1 or card.rest:
        raise card.malformed()
    law, reads = _law(card, card.given.pop(kinds[0]))
    return _driven(card, kinds[0] == "v", law, reads, {})


E = ElementType("e", "E n+ n- nc+ nc- gain", 2, _by_voltage)
G = ElementType("g", "G n+ n- nc+ nc- transconductance", 2, _by_voltage)
F = ElementType("f", "F n+ n- vsource gain", 2, _by_current)
H = ElementType("h", "H n+ n- vsource transresistance", 2, _by_current)
B = ElementType("b", "B n+ n- V={expression} or I={expression}", 2, _behavioural)
