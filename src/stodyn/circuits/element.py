"""What a file of elements/ says of its element, and what it is given to read a line with.

A file holds one or more values of ElementType. The reader hands the line to its `parse` as a Card, and gets the parts
that the line stands for: linear ones by their letter (r c l v i e g f h k), nonlinear ones by their Law. A diode with
RS is a junction, a charge and a resistor. Parts may have nodes of their own, named after the element.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from stodyn.circuits.devices import ZERO_CELSIUS, Law, Parameter
from stodyn.circuits.text import NetlistError, Position

GROUND = "0"
STRAY = 1e-14  # F, across series resistors of devices without any capacitance behind them
LONGEST_NAME = 100  # of which near ones are looked for


class Element(NamedTuple):
    """A part of the circuit after all subcircuits are laid out.

    name     with the instances it lies in: x1.r1
    kind     the letter of a linear part, the name of its law else
    nodes    names of its nodes, those it carries current between first
    value    a number, a Waveform (v, i), or a mapping of numbers (laws)
    source   the controlling source of f and h, the inductors of k
    initial  what ic= says of a capacitor or an inductor
    law      of a nonlinear part; `reads`: pairs of nodes, or of i(source) and ground, between which it looks
    """

    name: str
    kind: str
    nodes: tuple[str, ...]
    value: Any
    noisy: bool
    at: Position
    source: str = ""
    initial: float | None = None
    law: Law | None = None
    reads: tuple[tuple[str, str], ...] = ()


class Model(NamedTuple):
    """A .model: its type, its numbers with all defaults, and the names that were given."""

    name: str
    type: str
    numbers: dict[str, float]
    given: frozenset[str]
    at: Position

    def nominal(self, default: float) -> float:
        """TNOM in kelvin."""
        return self.numbers["tnom"] + ZERO_CELSIUS if "tnom" in self.given else default


@dataclasses.dataclass(frozen=True, eq=False)
class ModelType:
    """What a type of .model knows.

    parameters  implemented, by name
    same        other spellings
    refused     parameters that would change the answer: name -> the value at which they do nothing
    check       raises ValueError where the numbers do not go together
    """

    parameters: Mapping[str, Parameter]
    same: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, float] = dataclasses.field(default_factory=dict)
    check: Callable[[Mapping[str, float]], None] = lambda numbers: None


@dataclasses.dataclass(frozen=True, eq=False)
class ElementType:
    """A kind of element.

    name    its letter
    form    what a line of it looks like
    nodes   how many nodes follow its name
    parse   the line as parts
    models  types of .model that it takes
    noisy   None: has no noise of its own; else whether that is on unless the line says so
    """

    name: str
    form: str
    nodes: int
    parse: Callable[[Card], list[Element]]
    models: Mapping[str, ModelType] = dataclasses.field(default_factory=dict)
    noisy: bool | None = None


class Lookup(Protocol):
    """What a card needs of the names around it."""

    def number(self, text: str, what: str, at: Position, least: float = ..., or_equal: bool = ...,
               form: str = ..., place: str = ...) -> float: ...  # fmt: skip
    def model(self, name: str, kinds: tuple[str, ...], element: str, at: Position) -> Model: ...
    def node(self, name: str) -> str: ...
    def value(self, text: str, place: str = ...) -> float: ...
    def function(self, name: str) -> Any: ...

    prefix: str


@dataclasses.dataclass(eq=False)
class Card:
    """A line of the netlist: its name, nodes, the words after them, its name=value pairs, and the settings around.

    `name` is as in the text, `full` with the instances it lies in. A parser takes from `rest` and `given`; what is left
    in `given` is refused.
    """

    type: ElementType
    name: str
    full: str
    nodes: tuple[str, ...]
    rest: list[str]
    given: dict[str, str]
    noisy: bool
    at: Position
    scope: Lookup
    netlist: Any

    def part(self, kind: str, nodes: tuple[str, ...], value: Any, suffix: str = "", **more: Any) -> Element:
        """A linear part; `suffix` names all but the main one."""
        return Element(self.full + suffix, kind, nodes, value, more.pop("noisy", self.noisy), self.at, **more)

    def nonlinear(
        self, law: Law, ends: tuple[str, str], reads: tuple[tuple[str, str], ...], value: Mapping[str, float],
        suffix: str = "", **more: Any,
    ) -> Element:  # fmt: skip
        """A part with a law, between two nodes, reading pairs of nodes or (i(source), ground)."""
        seen = [node for pair in reads for node in pair if not node.startswith("i(")]
        nodes = tuple(dict.fromkeys((*ends, *seen))) if ends[0] != ends[1] else (*ends, *dict.fromkeys(seen))
        numbers = {"unit": 1.0, "kf": 0.0, "af": 1.0, **value}
        noisy = more.pop("noisy", self.noisy)
        return Element(self.full + suffix, law.name, nodes, numbers, noisy, self.at, law=law, reads=reads, **more)

    def number(
        self, text: str, what: str = "", least: float = -float("inf"), or_equal: bool = True, place: str = ""
    ) -> float:
        """The number that a word says; `place` is what it is called in the element where `what` does not say so."""
        said = f"{self.name}: {what}" if what else self.name
        place = f"{self.full}.{place or what or 'value'}"
        return self.scope.number(text, said, self.at, least, or_equal, "" if what else self.type.form, place)

    def named(self, key: str, default: float, least: float = -float("inf"), or_equal: bool = True) -> float:
        """The number of key=..., or the default."""
        text = self.given.pop(key, None)
        if text is None and f"{self.full}.{key}" not in self.netlist.given.values:
            return default
        return self.number(text or "", key, least, or_equal)

    def only(self, rest: list[str] | None = None) -> str:
        """The one word that is left."""
        rest = self.rest if rest is None else rest
        if len(rest) != 1:
            said = "its value is missing" if not rest else f"did not expect {' '.join(rest[1:])!r}"
            raise NetlistError(f"{self.name}: {said}; expected {self.type.form}", self.at)
        return rest[0]

    def model(self, most: int = 1) -> Model:
        """The .model that the first word after the nodes names; `most` words may follow the nodes in all."""
        if not self.rest or len(self.rest) > most:
            raise self.malformed()
        return self.scope.model(self.rest[0], tuple(self.type.models), self.name, self.at)

    def malformed(self, said: str = "") -> NetlistError:
        return NetlistError(f"{self.name}: {f'{said}; ' if said else ''}expected {self.type.form}", self.at)

    def inner(self, suffix: str) -> str:
        """A node of the element's own."""
        return f"{self.full}.{suffix}"

    def resistor(
        self, a: str, b: str, resistance: float, suffix: str, stores: bool = True
    ) -> tuple[list[Element], str]:
        """A resistor in series from node a to a node of the element's own, which takes the place of a; none where it is
        zero. A node that stores no charge gets a stray capacitance across the resistor: white noise needs one."""
        if not resistance > 0.0:
            return [], a
        own = self.inner(b)
        parts = [self.part("r", (a, own), resistance, suffix)]
        if not stores:
            parts.append(self.part("c", (a, own), STRAY, f"{suffix}.stray"))
        return parts, own

    @property
    def kelvin(self) -> float:
        return self.netlist.kelvin

    @property
    def nominal(self) -> float:
        return self.netlist.nominal


def near(word: str, known: Any) -> str:
    """A hint at the name that may have been meant."""
    if len(word) > LONGEST_NAME:
        return ""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
