"""The description of an element, which each file of elements/ holds, and the card from which it reads a line.

A file holds one or more values of ElementType. The reader hands the line to its `parse` as a Card and gets the parts
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
FLAG = "true or false"  # the unit of a parameter that is one or the other
LONGEST_NAME = 100  # the longest name for which similar ones are suggested


class Element(NamedTuple):
    """A part of the circuit after all subcircuits are laid out.

    name     its name, preceded by the instances it lies in: x1.r1
    kind     the letter of a linear part, the name of the law of a nonlinear one
    nodes    the names of its nodes, beginning with the two between which it carries current
    value    a number, a Waveform (v, i), or a mapping of numbers (laws)
    source   the controlling source of f and h, the inductors of k
    initial  the value of ic= of a capacitor or an inductor
    kelvin   its own temperature, where it has one
    law      the law of a nonlinear part; `reads`: the pairs of nodes, or of i(source) and ground, that it reads
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
    kelvin: float | None = None


class Delay(NamedTuple):
    """A node whose voltage, times a gain, is for small signals that of another node after a delay in seconds."""

    node: str
    of: str
    gain: float
    delay: float


class Model(NamedTuple):
    """A .model: its type, its numbers and its lists of numbers with all defaults, and the names that the line sets."""

    name: str
    type: str
    numbers: dict[str, float]
    explicit: frozenset[str]
    at: Position
    lists: Mapping[str, tuple[float, ...]] = {}

    def nominal(self, default: float) -> float:
        """Return the temperature TNOM of a model in kelvin; the default where the line sets none."""
        return self.numbers["tnom"] + ZERO_CELSIUS if "tnom" in self.explicit else default


@dataclasses.dataclass(frozen=True, eq=False)
class ModelType:
    """A type of .model and its parameters.

    parameters  the parameters that are implemented, by name
    same        other spellings of them
    refused     parameters that would change the answer: name -> the value at which they have no effect
    check       raises ValueError where the numbers contradict one another
    words       words without a value in a .model, such as pchan, and the type that each makes it
    lists       parameters that are several numbers in brackets, with their defaults
    """

    parameters: Mapping[str, Parameter]
    same: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, float] = dataclasses.field(default_factory=dict)
    check: Callable[[Mapping[str, float]], None] = lambda numbers: None
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class ElementType:
    """A kind of element, such as resistors, and how its lines are read.

    name    its letter
    form    the form of its line, for messages
    nodes   the number of nodes after its name
    parse   the function that turns a line into parts
    models  the types of .model that it takes
    noisy   None if it has no noise of its own; otherwise whether its noise is on by default
    """

    name: str
    form: str
    nodes: int
    parse: Callable[[Card], list[Element]]
    models: Mapping[str, ModelType] = dataclasses.field(default_factory=dict)
    noisy: bool | None = None


class Lookup(Protocol):
    """The lookup of names that a card needs."""

    def number(self, text: str, what: str, at: Position, least: float = ..., or_equal: bool = ...,
               form: str = ..., place: str = ...) -> float: ...  # fmt: skip
    def model(self, name: str, kinds: tuple[str, ...], element: str, at: Position) -> Model: ...
    def node(self, name: str) -> str: ...
    def value(self, text: str, place: str = ...) -> float: ...
    def function(self, name: str) -> Any: ...
    def parameter(self, name: str) -> Any: ...

    prefix: str


@dataclasses.dataclass(eq=False)
class Card:
    """A line of the netlist: its name, its nodes, the words after them, its name=value pairs, and its surroundings.

    `name` is the name in the text, `full` includes the instances it lies in. A parser takes items from `rest` and
    `parameters`; whatever remains in `parameters` is refused.
    """

    type: ElementType
    name: str
    full: str
    nodes: tuple[str, ...]
    rest: list[str]
    parameters: dict[str, str]
    noisy: bool
    at: Position
    scope: Lookup
    netlist: Any
    own_kelvin: float | None = None

    def part(self, kind: str, nodes: tuple[str, ...], value: Any, suffix: str = "", **more: Any) -> Element:
        """A linear part; `suffix` names all but the main one."""
        noisy = more.pop("noisy", self.noisy)
        return Element(self.full + suffix, kind, nodes, value, noisy, self.at, kelvin=self.own_kelvin, **more)

    def nonlinear(
        self, law: Law, ends: tuple[str, str], reads: tuple[tuple[str, str], ...], value: Mapping[str, float],
        suffix: str = "", **more: Any,
    ) -> Element:  # fmt: skip
        """A part with a law, between two nodes, reading pairs of nodes or (i(source), ground)."""
        controls = [node for pair in reads for node in pair if is_node(node)]
        nodes = tuple(dict.fromkeys((*ends, *controls))) if ends[0] != ends[1] else (*ends, *dict.fromkeys(controls))
        numbers = {"kf": 0.0, "af": 1.0, **value}
        noisy = more.pop("noisy", self.noisy)
        return Element(
            self.full + suffix, law.name, nodes, numbers, noisy, self.at, law=law, reads=reads, kelvin=self.own_kelvin,
            **more,
        )  # fmt: skip

    def number(
        self, text: str, what: str = "", least: float = -float("inf"), or_equal: bool = True, place: str = ""
    ) -> float:
        """The number that a word stands for; `place` is its name within the element, by default `what`."""
        label = f"{self.name}: {what}" if what else self.name
        place = f"{self.full}.{place or what or 'value'}"
        return self.scope.number(text, label, self.at, least, or_equal, "" if what else self.type.form, place)

    def named(self, key: str, default: float, least: float = -float("inf"), or_equal: bool = True) -> float:
        """Return the number of key=..., or the default."""
        text = self.parameters.pop(key, None)
        if text is None and f"{self.full}.{key}" not in self.netlist.overrides.values:
            return default
        return self.number(text or "", key, least, or_equal)

    def only(self, rest: list[str] | None = None) -> str:
        """Return the only word that remains on the line; refuse more or none."""
        rest = self.rest if rest is None else rest
        if len(rest) != 1:
            fault = "its value is missing" if not rest else f"did not expect {' '.join(rest[1:])!r}"
            raise NetlistError(f"{self.name}: {fault}; expected {self.type.form}", self.at)
        return rest[0]

    def model(self, most: int = 1) -> Model:
        """The .model named by the first word after the nodes; at most `most` words may follow the nodes, besides OFF,
        which is a first guess for the operating point and not needed here.
        """
        self.rest = [*self.rest[:1], *(word for word in self.rest[1:] if word != "off")]
        if not self.rest or len(self.rest) > most:
            raise self.malformed()
        return self.scope.model(self.rest[0], tuple(self.type.models), self.name, self.at)

    def malformed(self, fault: str = "") -> NetlistError:
        return NetlistError(f"{self.name}: {f'{fault}; ' if fault else ''}expected {self.type.form}", self.at)

    def inner(self, suffix: str) -> str:
        """Return the name of an internal node of the element."""
        return f"{self.full}.{suffix}"

    def resistor(
        self, a: str, b: str, resistance: float, suffix: str, stores: bool = True
    ) -> tuple[list[Element], str]:
        """A series resistor from node a to an internal node, which takes the place of a; nothing is added if its
        resistance is zero. A node that stores no charge gets a stray capacitance across the resistor, which white noise
        needs."""
        if not resistance > 0.0:
            return [], a
        own = self.inner(b)
        parts = [self.part("r", (a, own), resistance, suffix)]
        if not stores:
            parts.append(self.part("c", (a, own), STRAY, f"{suffix}.stray"))
        return parts, own

    @property
    def kelvin(self) -> float:
        """The temperature of the element: that of the circuit, or its own by temp= or dtemp=."""
        return self.netlist.kelvin if self.own_kelvin is None else self.own_kelvin

    def take_temperature(self) -> None:
        """Read temp=, in °C, or dtemp=, the difference to the temperature of the circuit."""
        differs = self.named("dtemp", 0.0) + self.netlist.kelvin
        kelvin = self.named("temp", differs - ZERO_CELSIUS, -ZERO_CELSIUS, False) + ZERO_CELSIUS
        self.own_kelvin = kelvin if kelvin != self.netlist.kelvin else None

    @property
    def nominal(self) -> float:
        return self.netlist.nominal


def is_node(name: str) -> bool:
    """Whether a name that a device reads is that of a node, not of a current, i(v1), or a memory, on(s1)."""
    return not name.startswith(("i(", "on("))


def near(word: str, known: Any) -> str:
    """A hint at the name that was probably meant."""
    if len(word) > LONGEST_NAME:
        return ""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
