"""Lines -> flat elements: parameters, models and subcircuits resolved, every element with its place in the text."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stodyn.circuits import topology
from stodyn.circuits.asked import (
    TEMPERATURE,
    Fourier,
    Measure,
    NoiseAnalysis,
    Output,
    Step,
    Sweep,
    TransferFunction,
    Transient,
)
from stodyn.circuits.blocks import Block, blocks, with_conditions
from stodyn.circuits.devices import ZERO_CELSIUS
from stodyn.circuits.directive import STAGES, Statement
from stodyn.circuits.element import GROUND, Card, Delay, Element, ElementType, near
from stodyn.circuits.elements.controlled import TIME_NODE
from stodyn.circuits.expressions import BadValue
from stodyn.circuits.kinds import TYPES
from stodyn.circuits.scope import Overrides, Scope
from stodyn.circuits.sensing import with_sensors
from stodyn.circuits.text import DEEPEST, LEFT_OUT_LIBRARY, Line, NetlistError, Position, read_text, uncommented
from stodyn.circuits.thresholds import with_resting
from stodyn.circuits.waveforms import TIME, Waveform
from stodyn.circuits.words import SWITCH, fields, is_number
from stodyn.telling import tell

MOST_ELEMENTS = 100_000
MOST_COPIES = 100  # of a subcircuit by m=
ONCE = (".tran", ".ac", ".noise", ".dc")  # analyses that a netlist asks for once
INSTANCE = "X [node ...] subcircuit [name=value ...]"
NOT_HERE = {
    "o": "lines with losses (LTRA) are not supported; take T, a line without, or a ladder of R, L and C",
    "u": "RC lines are not supported; write one as a ladder of R and C",
    "z": "MESFETs are not supported; J is a junction transistor",
    "p": "coupled lines with losses (CPL) are not supported; take T, lines without, or ladders of R, L, C and K",
    "y": "lines with losses (TXL) are not supported; take T, a line without, or a ladder of R, L and C",
}  # fmt: skip
FIRST_LINE = "the first line is the title"
DIRECTIVE = re.compile(r"\.[A-Za-z]")
VOLTAGE = re.compile(r"\bv\(([^()]*)\)")
TEMPERED = "rcldqmjb"  # elements that may have a temperature of their own
CONTROLLED = "eg"  # two nodes more, at which nothing else than the control may hang
# A capital M as the value of a resistor or as a frequency, where nine times of ten a million is meant, and 1F.
MISTAKEN = {
    "r": re.compile(r"(?<=[\s=])(\d+(?:\.\d*)?)M(?:[oO]hms?|Ω)?(?=\s|$)"),
    "v": re.compile(r"(?i:sine?|sffm|am)\s*\(?\s*\S+\s+\S+\s+(\d+(?:\.\d*)?)M(?:[hH][zZ])?(?=[\s)]|$)"),
    "c": re.compile(r"(?<=[\s=])(\d+(?:\.\d*)?)F(?=\s|$)"),
}
MISTAKEN["i"] = MISTAKEN["v"]
MEANT = {
    "r": "{0}M is {0} milliohm, as in SPICE; write {0}MEG for megohms",
    "v": "{0}M is {0} millihertz, as in SPICE; write {0}MEG for megahertz",
    "c": "{0}F is {0} femtofarad, as in SPICE; write {0} for farads",
}
MEANT["i"] = MEANT["v"]
BEHAVIOURAL = re.compile(r"(\S+\s+\S+\s+\S+)\s+([vir])\s*=\s*(.*)")
BESIDE = re.compile(r"\s+(tripdv|tripdt|rpar|cpar|tc1|tc2|temp|dtemp|noise|noisy|laplace|m)\s*=\s*")  # after it
TABLE = re.compile(r"(\b(?:table|laplace)\s*(?:\{[^{}]*\}|'[^']*'))\s*=")  # PSpice: TABLE {...} = (x, y) ...
STORED = re.compile(r"\b(q|flux|[rcl](?=\s*=\s*\())\s*=\s*(?![{'\"])(.*?)(?=\s+\w+\s*=|$)")  # LTspice: without braces
LAPLACE = re.compile(r"\blaplace\s*=\s*(?![{'\"])(.*?)(?=\s+(?:window|nfft|mtol|m)\s*=|$)")  # LTspice: without braces
VECTOR = re.compile(r"(%\w+)\s*\[")  # of a code model: %vd[1 2]
ROUND = str.maketrans("{}", "()")
PAIRED = re.compile(r"(\S+)\s*\(\s*([^\s(),]+)[\s,]+([^\s(),]+)\s*\)(.*)")  # E1 (a b) (c d): nodes in parentheses
INITIAL = re.compile(r"\bic\s*=\s*([^\s,]+(?:\s*,\s*[^\s,]+)+)")  # of devices: ic=0.7,5


class Deck(NamedTuple):
    """A netlist before any number is computed: it may be laid out again with other values; `bodies`: whether MOS
    transistors whose models give no junctions have those that SPICE gives them."""

    title: str
    name: str
    at: Position
    top: Block
    notes: tuple[str, ...]
    bodies: bool = False


@dataclasses.dataclass
class Netlist:
    """A circuit as flat elements, with the analyses and settings of the netlist."""

    deck: Deck
    overrides: Overrides
    elements: list[Element] = dataclasses.field(default_factory=list)
    initial: dict[str, tuple[float, Position]] = dataclasses.field(default_factory=dict)
    guesses: dict[str, tuple[float, Position]] = dataclasses.field(default_factory=dict)
    resting: dict[str, float] = dataclasses.field(default_factory=dict)  # integrals, which the operating point holds
    kelvin: float = 27.0 + ZERO_CELSIUS
    nominal: float = 27.0 + ZERO_CELSIUS
    transient: Transient | None = None
    noise: NoiseAnalysis | None = None
    ac: Sweep | None = None
    wants_point: bool = False
    dc: list[Step] = dataclasses.field(default_factory=list)
    transfer: TransferFunction | None = None
    sensitivity: Output | None = None
    fourier: Fourier | None = None
    scattering: Sweep | None = None
    measures: list[Measure] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)
    noisy: bool = True
    least_capacitance: float = 0.0
    flicker_band: tuple[float | None, float | None] = (None, None)
    notes: list[str] = dataclasses.field(default_factory=list)
    node_order: dict[str, None] = dataclasses.field(default_factory=dict)
    terminals: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    reads_time: Position | None = None
    logic: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # digital nodes by those that depend on them
    at_rest: list[tuple[str, Position]] = dataclasses.field(default_factory=list)  # elements without a law in time
    delays: list[Delay] = dataclasses.field(default_factory=list)
    ports: dict[int, tuple[str, float]] = dataclasses.field(default_factory=dict)
    model_names: set[str] = dataclasses.field(default_factory=set)
    ignored: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.deck.title


def read_deck(source: str | Path, libraries: Sequence[str | Path] = ()) -> Deck:
    """The blocks of a netlist; see `text.read_text` for the kinds of source."""
    text = read_text(source, libraries)
    title, lines, name, notes = text.title, text.lines, text.title.text.lstrip("* "), list(text.notes)
    lost = (
        f"{title.at}: {FIRST_LINE}, as in SPICE, and is not read: {title.text!r}. If it belongs to the circuit, put a "
        "title before it"
    )
    if DIRECTIVE.match(title.text):
        notes.append(lost)
    with causes_in_errors(notes):
        top = blocks(lines)
        notes += top.notes
        if not top.lines and not top.subcircuits:
            raise NetlistError("the netlist has no elements", title.at)
    deck = Deck(name, title.at.file, title.at, top, tuple(notes))
    return deck._replace(notes=(*notes, lost)) if _is_element(title, deck) else deck


def laid_out(deck: Deck, values: Mapping[str, float] | None = None) -> Netlist:
    """The flat elements of a deck, with some values from the caller (see scope.py); `temp` is in °C."""
    values = dict(values or {})
    netlist = Netlist(deck, Overrides(values), notes=list(deck.notes), model_names=deck.top.model_names())
    scope = Scope(deck.top, None, {}, "", {}, {}, netlist)
    settings = _asked_once(deck, netlist.notes)
    for stage in STAGES[1:]:
        for statement in settings:
            if statement.type.stage == stage:
                statement.type.read(dataclasses.replace(statement, netlist=netlist, scope=scope))
        if stage == "settings":
            celsius = netlist.overrides.get(TEMPERATURE)
            netlist.kelvin = netlist.kelvin if celsius is None else celsius + ZERO_CELSIUS
            _lay_out(deck.top, scope, netlist)
            netlist.elements = with_sensors(netlist.elements, netlist.terminals)
            _add_time(netlist)
            netlist.elements = with_resting(netlist.elements, netlist.notes)
            topology.hold(netlist)
            topology.add_capacitors(netlist)
    if not netlist.elements:
        raise NetlistError("the netlist has no elements", deck.at)
    for place in values:
        if place not in netlist.overrides.used and place not in deck.top.params:
            raise NetlistError(f"there is no value named {place}{near(place, _places(netlist, scope))}; a .param goes "
                               "by its name, others by names such as r1.value, m1.w, nch.vto, x1.r")  # fmt: skip
    netlist.notes += _bad_but_unused(scope)
    if netlist.ignored:
        ignored = "; ".join(f"{model}: {', '.join(names)}" for model, names in netlist.ignored.items())
        netlist.notes.append(f"left out unknown parameters of models: {ignored}")
    return netlist


def _asked_once(deck: Deck, notes: list[str]) -> list[Statement]:
    """The directives of a netlist, without the analyses of included files that the netlist asks for itself."""
    own = {setting.type.name for setting in deck.top.settings if setting.at.file == deck.at.file}
    counting = []
    for setting in deck.top.settings:
        name = setting.type.name
        if name in ONCE and name in own and setting.at.file != deck.at.file:
            notes.append(f"{setting.at}: left out {name} of an included file: {deck.at.file} has its own")
        else:
            counting.append(setting)
    return counting


def _add_time(netlist: Netlist) -> None:
    """The source whose voltage is the time, where an expression reads it."""
    if netlist.reads_time is None:
        return
    if TIME_NODE in netlist.node_order:
        raise NetlistError(f"the node {TIME_NODE} stands for the time in an expression; give the node another name",
                           netlist.reads_time)  # fmt: skip
    clock = Waveform(0.0, TIME, (1.0,))
    netlist.elements.append(Element(TIME_NODE, "v", (TIME_NODE, GROUND), clock, False, netlist.reads_time))


def _bad_but_unused(scope: Scope) -> list[str]:
    """A note on each .param that has no value and that nothing has asked for."""
    notes, random = [], dict(scope.netlist.overrides.random)
    for name in scope.block.params:
        try:
            scope.parameter(name)
        except (NetlistError, BadValue) as error:
            notes.append(f"left out a .param that nothing uses: {error}")
    scope.netlist.overrides.random = random  # without those of parameters that nothing uses
    return notes


def warn(notes: Iterable[str]) -> None:
    """Warn of the parts of the netlist that were left out and may matter."""
    for note in notes:
        if note.startswith("left out unknown parameters") or FIRST_LINE in note:
            tell(note)


def _places(netlist: Netlist, scope: Scope) -> list[str]:
    """The names of values, as far as they are easily listed."""
    return [*scope.block.params, *(f"{e.name}.value" for e in netlist.elements), *netlist.overrides.random]


@contextlib.contextmanager
def causes_in_errors(notes: Iterable[str]) -> Iterator[None]:
    """Add to errors what may have caused them: a first line that looks like a part of the circuit, and libraries that
    were left out to those about something that is not defined."""
    try:
        yield
    except NetlistError as error:
        is_missing = "there is no" in str(error)
        lost = [note for note in notes if FIRST_LINE in note or (is_missing and note.endswith(LEFT_OUT_LIBRARY))]
        error.args = (". ".join([str(error).rstrip("."), *lost]),)
        raise


# --- a first line that looks like an element --------------------------------------------------------------------------


def _is_element(title: Line, deck: Deck) -> bool:
    """Whether the first line could be read as an element, at nodes that other lines name."""
    line = title._replace(text=uncommented(title.text))
    letter = line.text[:1].lower()
    if letter not in TYPES and letter != "x":
        return False
    named = {GROUND, "gnd"}.union(*map(_named, [*deck.top.lines, *(setting.line for setting in deck.top.settings)]))
    shared = [node for node in _nodes(line.text.lower().split()) if node in named]
    return len(shared) >= 2 and _is_readable(line, deck)


def _is_readable(line: Line, deck: Deck) -> bool:
    """Whether a line alone is an element of the netlist; one with an expression was meant as one in any case."""
    netlist = Netlist(deck, Overrides({}), model_names=deck.top.model_names())
    scope = Scope(deck.top, None, {}, "", {}, {}, netlist)
    try:
        _lay_out(deck.top._replace(lines=[line]), scope, netlist)
    except (NetlistError, BadValue):
        return "{" in line.text
    return True


def _named(line: Line) -> set[str]:
    """The names in a line that may be those of nodes or elements, without its values."""
    words = re.split(r"[\s(),=]+", line.text.lower())
    others = {word for word in words if not is_number(word)}
    in_voltages = {node.strip() for pair in VOLTAGE.findall(line.text.lower()) for node in pair.split(",")}
    return others | in_voltages | set(_nodes(words))


def _nodes(words: Sequence[str]) -> Sequence[str]:
    """The words of an element that stand where nodes do, or the inductors of a coupling."""
    letter = words[0][:1]
    if letter == "x":
        return words[1:]
    if letter not in TYPES:
        return ()
    return words[1 : 1 + (4 if letter in CONTROLLED else TYPES[letter].nodes or 2)]


# --- elements ---------------------------------------------------------------------------------------------------------


def _lay_out(block: Block, scope: Scope, netlist: Netlist) -> None:
    names: dict[str, Position] = {}
    block = scope.block = with_conditions(block, scope.holds)
    for line in block.lines:
        letter = line.text[0].lower()
        words, parameters = _behavioural(line) if letter == "b" else fields(_plain(line))
        name = words[0] if words else line.text
        if letter not in TYPES and letter != "x":
            known = ", ".join(key.upper() for key in (*TYPES, "x"))
            raise NetlistError(
                f"{name}: there is no element {letter.upper()}"
                f"{'; ' + NOT_HERE[letter] if letter in NOT_HERE else f'; there are {known}'}",
                line.at,
            )
        if name in names:
            raise NetlistError(f"{name}: is defined already ({names[name]})", line.at)
        names[name] = line.at
        if len(netlist.elements) >= MOST_ELEMENTS:
            raise NetlistError(f"{name}: more than {MOST_ELEMENTS:,} elements", line.at)
        if letter in MISTAKEN and (value := MISTAKEN[letter].search(line.text)):
            netlist.notes.append(f"{line.at}: {name}: {MEANT[letter].format(value[1])}")
        if letter == "x":
            _instance(name, words, parameters, scope, netlist, line.at)
        else:
            netlist.elements += _element(TYPES[letter], name, words, parameters, scope, netlist, line.at)


def _instance(name, words, parameters, scope: Scope, netlist: Netlist, at: Position) -> None:
    words = [word for word in words if word != "params:"]
    if len(words) < 2:
        raise NetlistError(f"{name}: expected {INSTANCE}", at)
    kind = words[-1]
    subcircuit = scope.subcircuit(kind)
    if subcircuit is None:
        raise NetlistError(
            f"{name}: there is no .subckt {kind}: define it between .subckt {kind} NODE ... and .ends, or read the "
            f"file that does by .lib FILE or .include FILE{near(kind, scope.subcircuits())}",
            at,
        )
    block, home = subcircuit
    nodes = words[1:-1]
    if len(nodes) != len(block.nodes):
        raise NetlistError(
            f"{name}: {kind} has the {len(block.nodes)} node(s) {' '.join(block.nodes)}, got {len(nodes)}: "
            f"{' '.join(nodes)}", at)  # fmt: skip
    _check_nodes(name, nodes, at)
    if kind in scope.path:
        raise NetlistError(f"{name}: the subcircuit {kind} contains itself ({' -> '.join([*scope.path, kind])})", at)
    if len(scope.path) > DEEPEST:
        raise NetlistError(f"{name}: subcircuits nested deeper than {DEEPEST}", at)
    numbers, copies = {}, _copies(name, block, parameters, scope, at)
    for key, text in parameters.items():
        if key not in block.defaults and key not in block.params:
            raise NetlistError(f"{name}: {kind} has no parameter {key}{near(key, block.defaults)}", at)
        numbers[key] = scope.number(text, f"{name}: {key}", at, place=f"{scope.prefix}{name}.{key}")
    inside: dict[str, str] = {}
    for own, node in zip(block.nodes, map(scope.node, nodes), strict=True):
        if own in (GROUND, "gnd") and node != GROUND:
            netlist.notes.append(f"{at}: {name}: the node {own} of .subckt {kind} is the ground, the same everywhere; "
                                 f"that it is connected to {node} has no effect, as in ngspice")  # fmt: skip
        if inside.setdefault(own, node) != node:
            netlist.notes.append(f"{at}: {name}: .subckt {kind} names its node {own} twice; the first connection "
                                 "counts, as in ngspice")  # fmt: skip
    for k in range(copies):
        own = f"{scope.prefix}{name}#{k + 1}." if k else f"{scope.prefix}{name}."
        inner = Scope(block, home, numbers, own, dict(inside), {**scope.path, kind: at}, netlist)
        _lay_out(block, inner, netlist)


def _copies(name: str, block: Block, parameters: dict[str, str], scope: Scope, at: Position) -> int:
    """How many copies of a subcircuit stand side by side, m=; it is taken from the parameters unless the subcircuit has
    a parameter of that name."""
    if "m" not in parameters or "m" in block.defaults or "m" in block.params:
        return 1
    copies = scope.number(parameters.pop("m"), f"{name}: m", at, place=f"{scope.prefix}{name}.m")
    if copies not in range(1, MOST_COPIES + 1):
        raise NetlistError(
            f"{name}: m={copies:g} copies of a subcircuit; expected a whole number from 1 to {MOST_COPIES}, or give "
            "the subcircuit a parameter m", at)  # fmt: skip
    return int(copies)


def _check_nodes(name: str, nodes: list[str], at: Position) -> None:
    """Refuse an expression or a bracket where a node belongs."""
    wrong = next((node for node in nodes if set(node) & set("(){}='\"")), None)
    if wrong is not None:
        raise NetlistError(f"{name}: expected the name of a node, found {wrong!r}", at)


def _plain(line: Line) -> Line:
    """A line without parentheses around its nodes, without = after a table, with braces around transfer functions,
    charges and fluxes, and with one value in ic=."""
    text = line.text.lower()
    if (paired := PAIRED.fullmatch(text)) and text[0] in "eghf":
        text = " ".join(paired.groups())
    if text[0] in "eghf":
        text = LAPLACE.sub(lambda match: f"laplace={{{match[1].translate(ROUND)}}}", TABLE.sub(r"\1 ", text))
    if text[0] == "a":
        text = VECTOR.sub(r"\1 [", text)
    if text[0] in "rcl":
        text = STORED.sub(lambda match: f"{match[1]}={{{match[2].translate(ROUND)}}}", text)
    text = INITIAL.sub("ic=0", text) if "ic" in text else text
    return line._replace(text=text)


def _behavioural(line: Line) -> tuple[list[str], dict[str, str]]:
    """The words of a B source, whose expression needs no braces."""
    match = BEHAVIOURAL.fullmatch(line.text.lower())
    if match is None:
        return fields(line)
    text, *others = BESIDE.split(match[3])
    return match[1].split(), {match[2]: text.strip(), **dict(zip(others[::2], others[1::2], strict=True))}


def _element(kind: ElementType, name, words, parameters, scope: Scope, netlist: Netlist, at: Position) -> list[Element]:
    """The parts of an element."""
    nodes, rest = words[1 : kind.nodes + 1], words[kind.nodes + 1 :]
    if len(nodes) < kind.nodes or any(node in "()" for node in nodes):
        raise NetlistError(f"{name}: expected {kind.form}, found {len(words) - 1} word(s) after the name", at)
    noisy = bool(kind.noisy)  # off for current sources: a photocurrent has shot noise, a current mirror has none
    for key in ("noise", "noisy"):
        if key in parameters:
            if kind.noisy is None:
                loud = ", ".join(other.name.upper() for other in TYPES.values() if other.noisy is not None)
                raise NetlistError(f"{name}: {key}= is for {loud}; {kind.name.upper()} has no noise", at)
            if parameters[key] not in SWITCH:
                raise NetlistError(f"{name}: {key}={parameters[key]}, expected on or off", at)
            noisy = SWITCH[parameters.pop(key)]
    _check_nodes(name, nodes, at)
    places = tuple(map(scope.node, nodes))
    netlist.node_order.update(dict.fromkeys(places))
    netlist.terminals[scope.prefix + name] = places
    card = Card(kind, name, scope.prefix + name, places, rest, parameters, noisy, at, scope, netlist)
    if kind.name in TEMPERED and {"temp", "dtemp"} & parameters.keys():
        card.take_temperature()
    parts = kind.parse(card)
    if "ic" in parameters and kind.name in "dqmj":
        del parameters["ic"]
        netlist.notes.append(f"{at}: left out ic= of {card.full}; .ic gives voltages of nodes")
    if parameters:
        raise NetlistError(f"{name}: did not expect {next(iter(parameters))}=; expected {kind.form}", at)
    for part in parts:
        if part.kind in ("v", "e", "h") and part.nodes[0] == part.nodes[1]:
            raise NetlistError(f"{name}: both ends are the node {part.nodes[0]}: a voltage source that is "
                               "short-circuited", at)  # fmt: skip
    return parts
