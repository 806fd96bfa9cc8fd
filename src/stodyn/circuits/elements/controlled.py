"""E, G, F, H: sources controlled by voltages or by currents, linear, POLY(n), VALUE={...}, TABLE {...} (x, y) ... or
LAPLACE {...} {rational function of s}; B: any expression of V(...), I(...) and time, with laplace=. A resistor whose
value is such an expression is one as well.

A voltage source with a nonlinear law is a branch with the equation u+ - u- = value. In expressions, idt(x) and sdt(x)
are the voltage of 1 F that x charges, held at its initial value at the operating point. A current ddt(Q) of the voltage
across the source alone is that of the charge Q; any other ddt(x) is x through s/(1 + τs), with τ half the step of
.tran, so that the trapezoidal rule takes differences from step to step.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stodyn.circuits import transfer
from stodyn.circuits.devices import REFERENCE, Law, Numbers
from stodyn.circuits.element import GROUND, Card, Element, ElementType, is_node
from stodyn.circuits.expressions import BadValue, Names, evaluate_arrays
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform
from stodyn.circuits.words import unbraced
from stodyn.numerics import dual

READ = re.compile(r"(?<![\w.])([vi])\s*\(\s*([^\s(),]+)\s*(?:,\s*([^\s(),]+)\s*)?\)")
MISREAD = re.compile(r"(?<![\w.])[vi]\s*\([^()]*\)")  # what is left where READ has been replaced
READING = re.compile(r"(?<![\w.])[vi]\s*\(")
LIMIT = re.compile(r"(?<![\w.])limit\s*+\(")
POWER = re.compile(r"(?:\^|\*\*)\s*(\d+)(?![\d.])|\bpow\s*\([^()]*,\s*(\d+)\s*\)")  # whole powers
MOST_TERMS, MOST_CONTROLS = 300, 20
NOT_HERE = {
    "freq": "tables over frequency are not implemented; write the filter with R, L, C and controlled sources",
    "chebyshev": "write the filter with R, L, C and controlled sources",
}
LAPLACE = "LAPLACE {expression} {function of s}, or nc+ nc- laplace={function of s}"
NO_FUNCTION = {
    "idtmod": "reset an integrator of C and a B source by a switch",
    "delay": "delays are not implemented; a ladder of L and C delays a signal",
    "absdelay": "delays are not implemented; a ladder of L and C delays a signal",
    "white": "noise in expressions is not implemented; resistors have theirs",
}
FACTORS_BEFORE = re.compile(r"\s*-?\s*(?:[\w.{}]+\s*\*\s*)*")
FACTORS_AFTER = re.compile(r"(?:\s*[*/]\s*[\w.{}]+)*\s*")
CALCULUS = re.compile(r"(?<![\w.])(ddt|idt|sdt)\s*\(")
SHORTEST = 1e-12  # s: the time constant of derivatives without .tran
USUAL_CHARGE = 1e-12  # F: the unit of a charge that does not change at first
VOLTS = np.array([0.1, -0.1, 0.5, -0.5, 2.0, -2.0, 8.0, -8.0, 30.0, -30.0])  # at which charges are tried
CALLED = re.compile(r"(?<![\w.])([a-z_]\w*)\s*\(")
JUMPS = "it jumps at the operating point, where simulators differ: u(0) is 0 here and in LTspice, 1/2 in ngspice"
BESIDE, DIRECTIONS = 1e-9, 3  # of what an expression reads: how far beside it a jump is looked for, and in how many
ROUNDED = 1e-6  # of its value: smaller changes may be rounding
TIME = re.compile(r"(?<![\w.])time(?![\w.(])")
TIME_NODE = "time"  # the node whose voltage is the time


@functools.cache
def monomials(controls: int, terms: int) -> tuple[tuple[int, ...], ...]:
    """The factors of each term of POLY(controls), in SPICE's order: 1, x1, ..., xn, x1 x1, x1 x2, ..., xn xn, ..."""
    every = (
        factors
        for degree in itertools.count()
        for factors in itertools.combinations_with_replacement(range(controls), degree)
    )
    return tuple(itertools.islice(every, terms))


@functools.cache
def _polynomial_law(controls: int, terms: int) -> Law:
    def value(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        total = 0.0 * read[0]
        if controls == 1:
            for k in reversed(range(terms)):
                total = total * read[0] + p[f"p{k}"]
            return total
        for k, factors in enumerate(monomials(controls, terms)):
            total = total + p[f"p{k}"] * math.prod(read[i] for i in factors)
        return total

    return Law(f"polynomial of {controls} variables and {terms} terms", value)


def law_of(
    card: Card, text: str, own: Mapping[str, tuple[str, str]] | None = None
) -> tuple[Law, tuple[tuple[str, str], ...], dict[str, float]]:
    """The law of an expression, the pairs that it reads, and the parameters in it; `own` are further names in it, of
    pairs of nodes."""
    bare = unbraced(text).replace("{", "(").replace("}", ")")
    if known := next((name for name in CALLED.findall(bare) if name in NO_FUNCTION), ""):
        raise card.malformed(f"{known}() is not implemented: {NO_FUNCTION[known]}")
    pairs: dict[tuple[str, str], str] = {}

    def replaced(match: re.Match) -> str:
        letter, first, second = match.groups()
        if letter == "v":
            pair = card.scope.node(first), card.scope.node(second or "0")
        else:
            pair = f"i({card.scope.prefix}{first})", GROUND
        return pairs.setdefault(pair, f"read_{len(pairs)}")

    expression = READ.sub(replaced, bare)
    if TIME.search(expression):
        pairs[(TIME_NODE, GROUND)] = TIME_NODE
        card.netlist.reads_time = card.netlist.reads_time or card.at
    own = {name: pair for name, pair in (own or {}).items() if re.search(rf"(?<![\w.]){name}(?![\w.(])", expression)}
    for pair in own.values():
        pairs.setdefault(pair, f"read_{len(pairs)}")
    names = {name: k for k, name in enumerate(pairs.values())}
    names |= {name: names[pairs[pair]] for name, pair in own.items()}
    numbers: dict[str, float] = {}

    def value(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        def parameter(name: str) -> Any:
            if name == "hertz":
                raise BadValue("hertz: values that depend on the frequency are not implemented; use R, L and C")
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
        if not pairs:
            raise BadValue(f"{bare!r} reads no voltage and no current")
        if unread := MISREAD.search(expression):
            raise BadValue(f"{unread[0]}: expected V(node), V(node, node) or I(source)")
        with np.errstate(all="ignore"):  # an expression need not have a value here
            value(tuple(np.full(1, 0.1) for _ in pairs), Asked({}, 300.0), np)
    except BadValue as error:
        raise NetlistError(f"{card.name}: {error}", card.at) from None
    if any(int(odd or other) % 2 for odd, other in POWER.findall(expression)):
        card.netlist.notes.append(
            f"{card.at}: {card.full}: an odd power of a negative number is negative; ngspice has that of the magnitude"
        )
    if LIMIT.search(expression) and card.scope.function("limit") is None:
        card.netlist.notes.append(f"{card.at}: {card.full}: limit(x, a, b) is x within a and b, as in LTspice and "
                                  "PSpice; ngspice has 0 outside of its compatibility modes")  # fmt: skip
    return (
        Law(f"expression {card.full}", value, remark=(functools.partial(_jumps, value), JUMPS)),
        tuple(pairs),
        numbers,
    )


def _jumps(value: Callable[..., Any], read: tuple[Any, ...], p: Numbers) -> np.ndarray:
    """Whether an expression jumps where it reads these values: it changes as much over a part of a small interval
    around them as over all of it."""
    rng, jumping = np.random.default_rng(1), np.zeros(np.shape(read[0]), bool)
    for _ in range(DIRECTIONS):
        shift = [BESIDE * (1.0 + np.abs(v)) * rng.standard_normal() for v in read]
        with np.errstate(all="ignore"):
            ahead, behind, near_ahead, near_behind = (
                value(tuple(v + share * d for v, d in zip(read, shift, strict=True)), p, np)
                for share in (1.0, -1.0, 1.0 / 16.0, -1.0 / 16.0)
            )
            change, least = np.abs(ahead - behind), ROUNDED * np.maximum(np.abs(ahead), np.abs(behind))
            jumping |= (change > least) & (np.abs(near_ahead - near_behind) > 0.5 * change)
    return jumping


def _sourced(card: Card, is_voltage: bool, text: str) -> list[Element]:
    """A source whose voltage or current is an expression; a constant one reads nothing."""
    if not is_voltage and (stored := _derivative_of(text)):
        law, reads, numbers = law_of(card, stored)
        if is_between(reads, card.nodes):
            return [charge(card, card.nodes, law, reads, numbers)]
    text, own, parts = _expanded(card, text)
    if own or is_expression(text):
        return [*parts, *driven(card, is_voltage, *law_of(card, text, own))]
    value = card.number(text, "its value", place="value")
    return [card.part("v" if is_voltage else "i", card.nodes, Waveform(value), noisy=False)]


def is_between(reads: tuple[tuple[str, str], ...], ends: tuple[str, ...]) -> bool:
    """Whether nothing but the voltage between two nodes is read."""
    return set(map(frozenset, reads)) == {frozenset(ends)}


def charge(
    card: Card, ends: tuple[str, ...], law: Law, reads: tuple[tuple[str, str], ...], numbers: dict[str, float],
    suffix: str = "", initial: float | None = None,
) -> Element:  # fmt: skip
    """The part whose charge between two nodes follows a law."""
    slopes = _slopes_at(law, reads, numbers)
    unit = float(np.nan_to_num(np.abs(slopes[0]).max(initial=0.0), posinf=0.0)) or USUAL_CHARGE
    is_monotone = reads == (ends,) and bool((slopes > 0.0).all())

    def value(read: tuple[Any, ...], p: Numbers, xp: Any) -> Any:
        return law.value(read, p, xp) / p["unit"]

    stored = Law(f"charge of {law.name}", value, stores=True, conducts=False, monotone=is_monotone)
    return card.nonlinear(stored, (ends[0], ends[1]), reads, {**numbers, "unit": unit}, suffix, noisy=False,
                          initial=initial)  # fmt: skip


def proportional_charge(card: Card, ends: tuple[str, str], farads: float, initial: float | None) -> Element:
    """The charge of a capacitor that is negative, which is none of the linear parts."""
    return charge(card, ends, _polynomial_law(1, 2), (ends,), {"p0": 0.0, "p1": farads}, initial=initial)


def _slopes_at(law: Law, reads: tuple[tuple[str, str], ...], numbers: dict[str, float]) -> np.ndarray:
    """The slopes of a law (VOLTS, reads) where all that it reads has each of the values VOLTS."""
    p = Numbers({key: np.array([value]) for key, value in numbers.items()}, REFERENCE)
    with np.errstate(all="ignore"):
        at = tuple(VOLTS.copy() for _ in reads)
        return np.array(dual.slopes(lambda read, xp: law.value(read, p, xp), at)[1]).T


# --- derivatives and integrals in expressions -------------------------------------------------------------------------


def _expanded(card: Card, text: str) -> tuple[str, dict[str, tuple[str, str]], list[Element]]:
    """An expression with names in place of its derivatives and integrals, the pairs of nodes whose voltages these are,
    and the parts that make them."""
    own: dict[str, tuple[str, str]] = {}
    parts: list[Element] = []
    while match := CALCULUS.search(text):
        name, end = f"{match[1]}_{len(own)}", _closing(card, text, match.end())
        node = card.inner(name)
        source = dataclasses.replace(card, full=node, nodes=(node, GROUND), rest=[], parameters={})
        arguments = _arguments(text[match.end() : end])
        parts += _derivative(source, arguments) if match[1] == "ddt" else _integral(source, match[1], arguments)
        own[name] = node, GROUND
        text = text[: match.start()] + name + text[end + 1 :]
    return text, own, parts


def _derivative(source: Card, arguments: list[str]) -> list[Element]:
    if len(arguments) != 1:
        raise source.malformed(f"ddt() takes one expression, got {len(arguments)}")
    transient = source.netlist.transient
    τ, why = (SHORTEST, "") if transient is None else (0.5 * transient.step, ", half the step of .tran")
    source.netlist.notes.append(f"{source.at}: {source.name}: ddt(x) is x through s/(1 + {τ:g} s){why}")
    return _filtered(source, True, arguments[0], f"s/(1 + {τ!r}*s)")


def _integral(source: Card, name: str, arguments: list[str]) -> list[Element]:
    if not 1 <= len(arguments) <= 2:
        raise source.malformed(f"{name}() takes an expression and an initial value, got {len(arguments)} argument(s)")
    node, _ = source.nodes
    initial = source.number(arguments[1], "its initial value", place="ic") if len(arguments) == 2 else 0.0
    source.netlist.resting[node] = initial
    charging = dataclasses.replace(source, full=f"{node}.rate", nodes=(GROUND, node))
    return [
        *_sourced(charging, False, arguments[0]),
        source.part("c", (node, GROUND), 1.0, ".state", initial=initial, noisy=False),
    ]


def _derivative_of(text: str) -> str:
    """The expression Q where a text is ddt(Q), or that times numbers and parameters; empty where it is not."""
    bare = unbraced(text).strip()
    match = CALCULUS.search(bare)
    if match is None or match[1] != "ddt":
        return ""
    end = _closing(None, bare, match.end())
    before, inside, after = bare[: match.start()], bare[match.end() : end], bare[end + 1 :]
    is_multiple = FACTORS_BEFORE.fullmatch(before) and FACTORS_AFTER.fullmatch(after)
    return f"{before}({inside}){after}" if is_multiple and not CALCULUS.search(inside) else ""


def _closing(card: Card | None, text: str, start: int) -> int:
    """The place of the parenthesis that closes what is open at `start`; the end of the text where none does."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    if card is not None:
        raise card.malformed(f"{text!r}: a parenthesis is not closed")
    return len(text)


def _arguments(text: str) -> list[str]:
    """The arguments of a call, at the commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _plain_number(p: Numbers, name: str) -> Any:
    """A parameter in the expression of a law with a single part: a plain number where it is known."""
    value = p[name]
    return float(value[0]) if isinstance(value, np.ndarray) and value.shape == (1,) else value


def driven(card: Card, is_voltage: bool, law: Law, reads: tuple[tuple[str, str], ...], numbers: dict[str, float]):
    """The parts of a source whose voltage or current follows a law."""
    a, b = card.nodes[0], card.nodes[1]
    if not is_voltage:
        return [card.nonlinear(law, (a, b), reads, numbers)]
    branch = card.part("v", (a, b), Waveform(0.0))
    law_part = card.nonlinear(law, (GROUND, GROUND), reads, numbers, ".value")
    return [branch, law_part._replace(source=card.full)]


def _form(card: Card, is_voltage: bool) -> list[Element] | None:
    """VALUE={...} or TABLE {...} (x, y) ...; None where the source is linear or POLY."""
    if card.rest[:1] == ["value"] and len(card.rest) == 2:  # PSpice needs no =
        card.parameters["value"] = card.rest.pop()
        card.rest.clear()
    for key in ("value", "cur", "vol"):
        if key in card.parameters:
            return _sourced(card, is_voltage, card.parameters.pop(key))
    if named := next((word for word in (*card.rest[:1], *card.parameters) if word in NOT_HERE), ""):
        raise card.malformed(f"{named}: {NOT_HERE[named]}")
    if card.rest[:1] == ["laplace"]:
        if len(card.rest) != 3:
            raise card.malformed(f"expected {LAPLACE}")
        return _filtered(card, is_voltage, *card.rest[1:])
    if "laplace" in card.parameters:
        return _filtered(card, is_voltage, _control_of(card), card.parameters.pop("laplace"))
    if card.rest[:1] == ["table"]:
        _, text, *points = card.rest
        values = ", ".join(word for word in points if word not in "()")
        card.netlist.notes.append(f"{card.at}: {card.full}: the corners of its TABLE are sharp, as in LTspice and "
                                  "PSpice; ngspice rounds them over a tenth of the line beside them")  # fmt: skip
        return _sourced(card, is_voltage, f"table({unbraced(text)}, {values})")
    return None


def _control_of(card: Card) -> str:
    """The control of LTspice's E n+ n- nc+ nc- laplace=... as an expression."""
    words = [word for word in card.rest if word not in "()"]
    count = 2 if card.type.name in "eg" else 1
    if len(words) != count:
        raise card.malformed(f"laplace= follows {'two nodes' if count == 2 else 'a source'}; expected {LAPLACE}")
    return f"{'v' if count == 2 else 'i'}({', '.join(words)})"


def _filtered(card: Card, is_voltage: bool, text: str, of: str) -> list[Element]:
    """A source that follows an expression through a transfer function in s."""
    for key in ("window", "nfft", "mtol"):  # LTspice's, for its convolution
        card.parameters.pop(key, None)
    try:
        function = transfer.rational(
            unbraced(of).replace("{", "(").replace("}", ")"), card.scope.parameter, card.scope.function
        )
    except BadValue as error:
        raise NetlistError(f"{card.name}: laplace: {error}", card.at) from None
    many = card.named("m", 1.0, 0.0, False) if not is_voltage else 1.0
    parts, control = _as_voltage(card, text)
    more, reads, gains = transfer.states(card, function, control)
    letter = "e" if is_voltage else "g"
    return [*parts, *more, *linear(card, reads, [0.0, *(many * gain for gain in gains)], letter)]


def _as_voltage(card: Card, text: str) -> tuple[list[Element], tuple[str, str]]:
    """The pair of nodes between which an expression is a voltage: its own where it is one, or a node made for it."""
    bare = unbraced(text).strip()
    match = READ.fullmatch(bare)
    if match and match[1] == "v":
        return [], (card.scope.node(match[2]), card.scope.node(match[3] or "0"))
    node = card.inner("u")
    source = dataclasses.replace(card, full=node, nodes=(node, GROUND), rest=[], parameters={})
    return _sourced(source, True, bare), (node, GROUND)


def _by_voltage(card: Card) -> list[Element]:
    special = _form(card, card.type.name == "e")
    if special is not None:
        return special
    if card.rest[:1] == ["poly"]:
        controls, words = _controls(card, 2)
        pairs = [(card.scope.node(a), card.scope.node(b)) for a, b in zip(controls[::2], controls[1::2], strict=True)]
        return _polynomials(card, pairs, words)
    words = [word for word in card.rest if word not in "()"]
    if len(words) < 3:
        raise NetlistError(f"{card.name}: expected {card.type.form}, found {len(card.rest) + 2} word(s) after the name",
                           card.at)  # fmt: skip
    control = card.scope.node(words[0]), card.scope.node(words[1])
    return [card.part(card.type.name, (*card.nodes, *control), _gain(card, words[2:]))]


def _by_current(card: Card) -> list[Element]:
    special = _form(card, card.type.name == "h")
    if special is not None:
        return special
    if card.rest[:1] == ["poly"]:
        controls, words = _controls(card, 1)
        return _polynomials(card, [(f"i({card.scope.prefix}{name})", GROUND) for name in controls], words)
    if not card.rest:
        raise card.malformed()
    gain = _gain(card, card.rest[1:])
    return [card.part(card.type.name, card.nodes, gain, source=card.scope.prefix + card.rest[0])]


def _gain(card: Card, words: list[str]) -> float:
    return card.number(card.only(words), "") * (card.named("m", 1.0, 0.0, False) if card.type.name in "gf" else 1.0)


def _controls(card: Card, each: int) -> tuple[list[str], list[str]]:
    """The nodes or sources of POLY(n), `each` for every variable, and the coefficients after them."""
    order = card.rest[2:3]
    if card.rest[1:2] != ["("] or card.rest[3:4] != [")"] or not (order and order[0].isdigit() and int(order[0]) > 0):
        raise card.malformed("expected POLY(n) with n = 1, 2, ...")
    count = each * int(order[0])
    if count > each * MOST_CONTROLS:
        raise card.malformed(f"POLY({order[0]}): expected at most {MOST_CONTROLS} variables")
    words = [word for word in card.rest[4:] if word not in "()"]
    if len(words) <= count:
        raise card.malformed(f"POLY({order[0]}) reads {count} {'nodes' if each == 2 else 'sources'} and takes at least "
                             f"one coefficient, found {len(words)} word(s) after it")  # fmt: skip
    return words[:count], words[count:]


def _polynomials(card: Card, reads: list[tuple[str, str]], words: list[str]) -> list[Element]:
    """A polynomial of what is read: linear parts where it is linear, otherwise a law."""
    if len(words) > MOST_TERMS:
        raise card.malformed(f"POLY takes up to {MOST_TERMS} coefficients, got {len(words)}")
    terms = [card.number(word, "poly", place=f"p{k}") for k, word in enumerate(words)]
    if len(terms) == 1:  # SPICE takes a single coefficient for the linear one
        terms = [0.0, *terms]
    if not any(terms[1 + len(reads) :]):
        return linear(card, reads, terms)
    numbers = {f"p{k}": value for k, value in enumerate(terms)}
    law = _polynomial_law(len(reads), len(terms))
    return driven(card, card.type.name in "eh", law, tuple(dict.fromkeys(reads)), numbers)


def linear(card: Card, reads: list[tuple[str, str]], terms: list[float], letter: str = "") -> list[Element]:
    """p0 + p1 x1 + ... as linear parts: currents side by side, voltages in series."""
    (plus, minus), is_voltage = card.nodes, (letter or card.type.name) in "eh"
    by_voltage, by_current = "eh" if is_voltage else "gf"
    steps: list[tuple[str, Any, tuple[str, str]]] = [
        (by_voltage if is_node(read[0]) else by_current, gain, read)
        for gain, read in zip(terms[1:], reads, strict=False)
        if gain
    ]
    if terms[0] or not steps:
        steps.append(("v" if is_voltage else "i", Waveform(terms[0]), (GROUND, GROUND)))
    parts = []
    for k, (kind, value, read) in enumerate(steps):
        last = minus if k == len(steps) - 1 or not is_voltage else card.inner(f"sum{k}")
        controls = read if kind in "eg" else ()
        source = read[0][2:-1] if kind in "fh" else ""
        parts.append(card.part(kind, (plus, last, *controls), value, f".term{k}" if k else "", source=source))
        plus = last if is_voltage else plus
    return parts


def resistor(card: Card, text: str) -> list[Element]:
    """A resistor whose value is an expression of voltages or currents; as in ngspice it has no noise."""
    law, reads, numbers = law_of(card, f"across/({unbraced(text)})", {"across": (card.nodes[0], card.nodes[1])})
    card.netlist.notes.append(f"{card.at}: {card.full} depends on voltages or currents; it has no noise, as in ngspice")
    return [card.nonlinear(law, (card.nodes[0], card.nodes[1]), reads, numbers, noisy=False)]


def is_expression(text: str) -> bool:
    """Whether a value reads voltages, currents or the time, or what looks like them."""
    return READING.search(text) is not None or TIME.search(text) is not None


def _behavioural(card: Card) -> list[Element]:
    kinds = [key for key in ("v", "i", "r") if key in card.parameters]
    if named := next((word for word in card.parameters if word in NOT_HERE), ""):
        raise card.malformed(f"{named}=: {NOT_HERE[named]}")
    if len(kinds) != 1 or card.rest:
        raise card.malformed()
    warmer = card.kelvin - card.nominal
    grown = 1.0 + (card.named("tc1", 0.0) + card.named("tc2", 0.0) * warmer) * warmer
    text = card.parameters.pop(kinds[0])
    text = text if grown == 1.0 else f"({unbraced(text)})*{grown!r}"
    for key in ("tripdv", "tripdt"):  # LTspice's, for the control of its steps
        card.parameters.pop(key, None)
    beside = []
    for key, kind in (("rpar", "r"), ("cpar", "c")):
        if size := card.named(key, 0.0, 0.0):
            beside.append(card.part(kind, card.nodes, size, f".{key}", noisy=True))
    if kinds[0] == "r":
        return [*resistor(card, text), *beside]
    if "laplace" in card.parameters:
        return [*_filtered(card, kinds[0] == "v", text, card.parameters.pop("laplace")), *beside]
    return [*_sourced(card, kinds[0] == "v", text), *beside]


E = ElementType("e", "E n+ n- nc+ nc- gain", 2, _by_voltage)
G = ElementType("g", "G n+ n- nc+ nc- transconductance", 2, _by_voltage)
F = ElementType("f", "F n+ n- vsource gain", 2, _by_current)
H = ElementType("h", "H n+ n- vsource transresistance", 2, _by_current)
B = ElementType("b", "B n+ n- V={expression} or I={expression}", 2, _behavioural)
