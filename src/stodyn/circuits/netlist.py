"""Lines -> flat elements: parameters, models and subcircuits resolved, every element with its place in the text."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from stodyn import listing
from stodyn.circuits import elements
from stodyn.circuits.devices import ZERO_CELSIUS
from stodyn.circuits.element import GROUND, Card, Element, ElementType, Model, near
from stodyn.circuits.expressions import BadValue, evaluate, number
from stodyn.circuits.text import DEEPEST, Line, NetlistError, Position, read_text

MOST_ELEMENTS = 100_000
TYPES = listing.values(elements, ElementType)
MODELS = {name: model for kind in TYPES.values() for name, model in kind.models.items()}
TOKEN = re.compile(r"""\{[^{}]*\}|'[^']*'|"[^"]*"|[=(),]|[^\s=(),{}'"]+|\S""")
INSTANCE = "X node ... subcircuit [name=value ...]"
FIRST_VALUE = {"r": 3, "c": 3, "l": 3, "v": 3, "i": 3, "e": 5, "g": 5, "f": 4, "h": 4, "d": 3, "m": 5}
NOT_HERE = {
    "t": "a transmission line is not understood; write it as a ladder of some ten L and C sections for each wavelength",
    "o": "a lossy line is not understood; write it as a ladder of R, L and C",
    "u": "an RC line is not understood; write it as a ladder of R and C",
    "z": "a MESFET is not understood; J is a junction transistor", "a": "code models are not understood",
    "n": "compiled Verilog-A models are not understood",
}  # fmt: skip
BEHAVIOURAL = re.compile(r"(\S+\s+\S+\s+\S+)\s+([vi])\s*=\s*(.*)")
PERIPHERAL = (".print", ".plot", ".probe", ".save", ".width", ".title", ".op", ".ac", ".dc", ".four", ".meas",
              ".measure", ".tf", ".sens", ".pz", ".disto", ".nodeset", ".backanno")  # fmt: skip
DIRECTIVES = (".param", ".model", ".subckt", ".ends", ".tran", ".ic", ".temp", ".include", ".options", ".noise",
              ".global", ".end")  # fmt: skip
ADVICE = {
    ".lib": "copy the models that are used into the netlist, or .include a file of them",
    ".func": "write the expression out where it is used",
    ".step": "run the netlist once for each value",
}
ASSIGNED = re.compile(r"(?<![^\s=,(])([^\s=,(]++)\s*+(?:\([^)]*+\)\s*+)?=")  # no way back: in linear time
NAME = re.compile(r"(?<![\w.])[a-z_][\w.]*+(?!\s*\()")
INITIAL = re.compile(r"v\s*\(\s*([^\s()]+)\s*\)\s*=\s*(\{[^{}]*\}|'[^']*'|[^\s,]+)[\s,]*")
NOISE = re.compile(
    r"\.noise\s+v\s*\(\s*([^\s(),]+)\s*(?:,\s*([^\s(),]+)\s*)?\)\s+(\S+)"
    r"\s+(dec|oct|lin)\s+(\S+)\s+(\S+)\s+(\S+).*"
)
SWITCH = {"on": True, "off": False, "1": True, "0": False, "yes": True, "no": False}


class Transient(NamedTuple):
    """.tran step stop [start [longest step]] [uic]"""

    step: float
    stop: float
    uic: bool


class NoiseAnalysis(NamedTuple):
    """.noise v(node[,reference]) source dec|oct|lin points f1 f2"""

    node: str
    reference: str
    frequencies: tuple[str, int, float, float]
    at: Position


@dataclasses.dataclass
class Netlist:
    """A circuit as flat elements and what the netlist asks for."""

    title: str
    name: str
    elements: list[Element] = dataclasses.field(default_factory=list)
    initial: dict[str, tuple[float, Position]] = dataclasses.field(default_factory=dict)
    kelvin: float = 27.0 + ZERO_CELSIUS
    nominal: float = 27.0 + ZERO_CELSIUS
    transient: Transient | None = None
    noise: NoiseAnalysis | None = None
    noisy: bool = True
    flicker_band: tuple[float | None, float | None] = (None, None)
    notes: list[str] = dataclasses.field(default_factory=list)
    node_order: dict[str, None] = dataclasses.field(default_factory=dict)
    model_names: set[str] = dataclasses.field(default_factory=set)
    ignored: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    without_gate: list[str] = dataclasses.field(default_factory=list)


def read_netlist(source: str | Path) -> Netlist:
    """The flat elements of a netlist: see `text.read_text` for what may be given."""
    text = read_text(source)
    title, lines = text.title, text.lines
    netlist = Netlist(title.text.lstrip("* "), title.at.file, notes=text.notes)
    if title.text.startswith(".") or _is_element(title):
        lines = [title, *lines]
        netlist.title = ""
        netlist.notes.append(f"{title.at}: there is no title, the first line is read as part of the circuit")
    top = _blocks(lines)
    if not top.lines and not top.subcircuits:
        raise NetlistError("the netlist has no elements", title.at)
    settings = [line for line in top.lines if line.text[0] == "."]
    scope = _Scope(top, None, {}, "", {}, {}, netlist)
    netlist.model_names = _model_names(top)
    _settings(netlist, settings, scope)
    _lay_out(top, scope, netlist)
    for line in settings:
        if line.text.split()[0].lower() == ".noise":
            netlist.noise = _noise(line, scope)
    if not netlist.elements:
        raise NetlistError("the netlist has no elements", title.at)
    if netlist.ignored:
        told = "; ".join(f"{model}: {', '.join(names)}" for model, names in netlist.ignored.items())
        warnings.warn(f"parameters of models that are not known were left out: {told}", stacklevel=4)
        netlist.notes.append(f"left out parameters of models that are not known: {told}")
    if netlist.without_gate:
        some = ", ".join(netlist.without_gate[:8]) + (" and others" if len(netlist.without_gate) > 8 else "")
        said = f"with TOX the gates of {some} have capacitances of their own, Meyer's, and these are left out"
        warnings.warn(said, stacklevel=4)
        netlist.notes.append(said)
    return netlist


def _model_names(block: _Block) -> set[str]:
    found = set(block.models)
    for inner in block.subcircuits.values():
        found |= _model_names(inner)
    return found


def _is_element(line: Line) -> bool:
    """Whether the first line says a whole element with a number: no title does."""
    words = line.text.lower().split()
    if not words or words[0][0] not in FIRST_VALUE or len(words) < 2:
        return False
    last = FIRST_VALUE[words[0][0]] + (words[0][0] in "vi" and len(words) > 3 and words[3] == "dc")
    return len(words) > last and len(words[0]) > 1 and _is_number(words[last])


# --- blocks: the top and the subcircuits ------------------------------------------------------------------------------


class _Block(NamedTuple):
    """The lines of the top, or of a subcircuit with its nodes and its parameters."""

    at: Position | None
    name: str
    nodes: tuple[str, ...]
    defaults: dict[str, str]
    lines: list[Line]
    subcircuits: dict[str, Any]
    models: dict[str, Any]
    params: dict[str, tuple[str, Position]]


def _blocks(lines: list[Line]) -> _Block:
    """Sort lines into subcircuits, parameters, models and the rest."""
    open_blocks = [_Block(None, "", (), {}, [], {}, {}, {})]
    for line in lines:
        block = open_blocks[-1]
        if line.text[0] != ".":
            block.lines.append(line)
            continue
        word = line.text.split(None, 1)[0].lower().partition("(")[0]
        if word == ".subckt":
            words, given = _fields(line)
            if "params:" in words:
                words.remove("params:")
            if len(words) < 3:
                raise NetlistError(".subckt: expected .subckt NAME NODE ... [name=value ...]", line.at)
            _, name, *nodes = words
            if name in block.subcircuits:
                raise NetlistError(f".subckt {name}: is defined already ({block.subcircuits[name].at})", line.at)
            if len(set(nodes)) < len(nodes) or GROUND in nodes:
                raise NetlistError(f".subckt {name}: its nodes must be different ones, and none the ground", line.at)
            if len(open_blocks) > DEEPEST:
                raise NetlistError(f".subckt {name}: definitions nested deeper than {DEEPEST}", line.at)
            inner = _Block(line.at, name, tuple(nodes), given, [], {}, {}, {})
            block.subcircuits[name] = inner
            open_blocks.append(inner)
        elif word == ".ends":
            if len(open_blocks) == 1:
                raise NetlistError(".ends without .subckt", line.at)
            named = line.text.split()[1:]
            if named and named[0].lower() != block.name:
                raise NetlistError(f".ends {named[0]}: the open subcircuit is {block.name} ({block.at})", line.at)
            open_blocks.pop()
        elif word == ".param" or word == ".params":
            for name, value in _assignments(line).items():
                if name in block.params:
                    raise NetlistError(f".param {name}: is given already ({block.params[name][1]})", line.at)
                block.params[name] = value, line.at
        elif word == ".model":
            words, given = _fields(line)
            words = [word for word in words if word not in "()"]
            if len(words) < 3:
                raise NetlistError(".model: expected .model NAME TYPE (name=value ...)", line.at)
            _, name, kind, *stray = words
            if name in block.models:
                raise NetlistError(f".model {name}: is defined already ({block.models[name][2]})", line.at)
            if kind not in MODELS:
                raise NetlistError(f".model {name}: unknown type {kind}; there are {', '.join(MODELS)}", line.at)
            if stray:
                raise NetlistError(f".model {name}: did not expect {stray[0]!r}; parameters are name=value", line.at)
            block.models[name] = kind, given, line.at
        elif word not in PERIPHERAL and word not in DIRECTIVES and word != ".option":
            hint = f"; {ADVICE[word]}" if word in ADVICE else near(word, DIRECTIVES)
            raise NetlistError(f"unknown directive {word}{hint}", line.at)
        elif len(open_blocks) > 1:
            raise NetlistError(
                f"{word} belongs outside of the subcircuit {block.name} ({block.at}); is its .ends missing?", line.at
            )
        else:
            block.lines.append(line)
    if len(open_blocks) > 1:
        raise NetlistError(f".subckt {open_blocks[-1].name} is not closed by .ends", open_blocks[-1].at)
    return open_blocks[0]


def _fields(line: Line) -> tuple[list[str], dict[str, str]]:
    """The words of a line in lower case and its name=value pairs; commas separate, parentheses are words."""
    words: list[str] = []
    pairs: dict[str, str] = {}
    tokens = TOKEN.findall(line.text.lower())
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token in ("{", "}", "'", '"'):
            raise NetlistError(f"{tokens[0]}: {token} without its partner", line.at)
        if i + 1 < len(tokens) and tokens[i + 1] == "=":
            if i + 2 >= len(tokens) or tokens[i + 2] in ("=", "(", ")", ","):
                raise NetlistError(f"{tokens[0]}: {token}= has no value", line.at)
            if token in pairs:
                raise NetlistError(f"{tokens[0]}: {token}= is given twice", line.at)
            pairs[token] = tokens[i + 2]
            i += 3
            continue
        if token == "=":
            raise NetlistError(f"{tokens[0]}: = without a name before it", line.at)
        if token != ",":
            words.append(token)
        i += 1
    return words, pairs


def _assignments(line: Line) -> dict[str, str]:
    """name = expression pairs of .param, whose expressions may hold spaces."""
    text = line.text.lower().split(None, 1)
    found = list(ASSIGNED.finditer(text[1])) if len(text) > 1 else []
    if not found or text[1][: found[0].start()].strip():
        raise NetlistError(".param: expected .param NAME=VALUE ...", line.at)
    pairs: dict[str, str] = {}
    for this, then in zip(found, [*found[1:], None], strict=True):
        name, value = this[1], text[1][this.end() : then.start() if then else None].strip().rstrip(",")
        if "(" in this[0]:
            raise NetlistError(f".param {this[0][:-1]}: functions of your own are not understood", line.at)
        if not re.fullmatch(r"[a-z_]\w*", name):
            raise NetlistError(f".param {name}: a name has letters, digits and _, a letter first", line.at)
        if not value:
            raise NetlistError(f".param {name}= has no value", line.at)
        if name in pairs:
            raise NetlistError(f".param {name}= is given twice", line.at)
        pairs[name] = value
    return pairs


def _is_number(word: str) -> bool:
    try:
        return number(word) is not None
    except BadValue:  # said where the number is needed
        return True


# --- scopes: parameters and models ------------------------------------------------------------------------------------


class _Scope:
    """What names mean inside one instance: parameters, computed when asked for, models, subcircuits and nodes."""

    def __init__(self, block: _Block, outer: _Scope | None, given: dict[str, float], prefix: str,
                 nodes: dict[str, str], path: dict[str, Position], netlist: Netlist):  # fmt: skip
        self.netlist = netlist
        self.block, self.outer, self.prefix, self.nodes, self.path = block, outer, prefix, nodes, path
        self.known: dict[str, float] = dict(given)
        self.built: dict[str, Any] = {}
        self.globals: set[str] = outer.globals if outer is not None else set()

    def parameter(self, name: str) -> float:
        if name not in self.known and self._definition(name) is None:
            if self.outer is not None:
                return self.outer.parameter(name)
            raise BadValue(f"there is no parameter {name}{near(name, self.block.params)}")
        chain = dict.fromkeys([name])  # each waits for the next: a chain may be of any length
        while chain:
            this = next(reversed(chain))
            text, at = self._definition(this) or ("", None)
            needed = () if this in self.known else NAME.findall(text)
            waits = next((n for n in needed if n not in self.known and self._definition(n) is not None), None)
            if waits in chain:
                raise NetlistError(f".param {waits}: is defined by itself ({' -> '.join([*chain, waits])})", at)
            if waits is not None:
                chain[waits] = None
                continue
            if this not in self.known:
                try:
                    self.known[this] = self.value(text)
                except BadValue as error:
                    raise NetlistError(f".param {this}: {error}", at) from None
            del chain[this]
        return self.known[name]

    def _definition(self, name: str) -> tuple[str, Position | None] | None:
        """The text of a parameter of this block, and where it stands."""
        if name in self.block.params:
            return self.block.params[name]
        return (self.block.defaults[name], self.block.at) if name in self.block.defaults else None

    def value(self, text: str) -> float:
        """The number a word or an expression says; raises BadValue."""
        found = number(text)
        if found is None:
            bare = text[1:-1] if text[:1] in "{'\"" and len(text) > 1 else text
            found = evaluate(bare, self.parameter)
        if not math.isfinite(found):
            raise BadValue(f"{text} is not a finite number")
        return found

    def number(self, text: str, what: str, at: Position, least: float = -math.inf, or_equal: bool = True,
               form: str = "") -> float:  # fmt: skip
        """The same in a place that can be named, and of at least some size; `form` is what the line should be like."""
        try:
            found = self.value(text)
        except BadValue as error:
            raise NetlistError(f"{what}: {error}{f'; expected {form}' if form else ''}", at) from None
        if found < least or (found == least and not or_equal):
            raise NetlistError(f"{what} = {text}: expected {'at least' if or_equal else 'more than'} {least:g}", at)
        return found

    def model(self, name: str, kinds: tuple[str, ...], element: str, at: Position) -> Model:
        """The .model of that name; its type must be one of `kinds`."""
        scope: _Scope | None = self
        while scope is not None and name not in scope.block.models:
            scope = scope.outer
        if scope is None:
            raise NetlistError(f"{element}: there is no .model {name}{near(name, self.models())}", at)
        kind, given, where = scope.block.models[name]
        if kind not in kinds:
            raise NetlistError(f"{element}: .model {name} is a {kind}, expected {' or '.join(kinds)}", at)
        if name not in scope.built:
            scope.built[name] = scope._built(name, kind, given, where)
        return scope.built[name]

    def _built(self, name: str, kind: str, given: dict[str, str], at: Position) -> Model:
        """Numbers with their defaults. Parameters that would change the answer are refused, unknown ones left out."""
        known = MODELS[kind]
        numbers: dict[str, float] = {key: parameter.default for key, parameter in known.parameters.items()}
        said = set()
        for key, text in given.items():
            same = known.same.get(key, key)
            if same in known.refused:
                value = self.number(text, f".model {name}: {key}", at)
                if value != known.refused[same]:
                    raise NetlistError(f".model {name}: {key} = {text} would change the answer and is not implemented; "
                                       "take it out where the circuit can do without", at)  # fmt: skip
            elif same in numbers:
                limit = known.parameters[same]
                numbers[same] = self.number(text, f".model {name}: {key}", at, limit.least, limit.may_be_least)
                said.add(same)
            else:
                self.netlist.ignored.setdefault(name, []).append(f"{key}{near(key, numbers)}")
        try:
            known.check(numbers)
        except ValueError as error:
            raise NetlistError(f".model {name}: {error}", at) from None
        return Model(name, kind, numbers, frozenset(said), at)

    def models(self) -> list[str]:
        return [*self.block.models, *(self.outer.models() if self.outer is not None else ())]

    def subcircuit(self, name: str) -> tuple[_Block, _Scope] | None:
        if name in self.block.subcircuits:
            return self.block.subcircuits[name], self
        return None if self.outer is None else self.outer.subcircuit(name)

    def subcircuits(self) -> list[str]:
        return [*self.block.subcircuits, *(self.outer.subcircuits() if self.outer is not None else ())]

    def node(self, name: str) -> str:
        if name in ("0", "gnd"):
            return GROUND
        if name in self.nodes:
            return self.nodes[name]
        full = name if name in self.globals else self.prefix + name
        self.nodes[name] = full
        return full


# --- elements ---------------------------------------------------------------------------------------------------------


def _lay_out(block: _Block, scope: _Scope, netlist: Netlist) -> None:
    names: dict[str, Position] = {}
    for line in block.lines:
        letter = line.text[0].lower()
        if letter == ".":
            continue
        words, given = _behavioural(line) if letter == "b" else _fields(line)
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
        if letter == "x":
            _instance(name, words, given, scope, netlist, line.at)
        else:
            netlist.elements += _element(TYPES[letter], name, words, given, scope, netlist, line.at)


def _instance(name, words, given, scope: _Scope, netlist: Netlist, at: Position) -> None:
    words = [word for word in words if word != "params:"]
    if len(words) < 3:
        raise NetlistError(f"{name}: expected {INSTANCE}", at)
    kind = words[-1]
    found = scope.subcircuit(kind)
    if found is None:
        raise NetlistError(f"{name}: there is no .subckt {kind}{near(kind, scope.subcircuits())}", at)
    block, home = found
    nodes = words[1:-1]
    if len(nodes) != len(block.nodes):
        raise NetlistError(
            f"{name}: {kind} has the {len(block.nodes)} node(s) {' '.join(block.nodes)}, got {len(nodes)}: "
            f"{' '.join(nodes)}", at)  # fmt: skip
    if kind in scope.path:
        raise NetlistError(f"{name}: the subcircuit {kind} holds itself ({' -> '.join([*scope.path, kind])})", at)
    if len(scope.path) > DEEPEST:
        raise NetlistError(f"{name}: subcircuits nested deeper than {DEEPEST}", at)
    numbers = {}
    for key, text in given.items():
        if key not in block.defaults and key not in block.params:
            raise NetlistError(f"{name}: {kind} has no parameter {key}{near(key, block.defaults)}", at)
        numbers[key] = scope.number(text, f"{name}: {key}", at)
    inside = dict(zip(block.nodes, map(scope.node, nodes), strict=True))
    inner = _Scope(block, home, numbers, f"{scope.prefix}{name}.", inside, {**scope.path, kind: at}, netlist)
    _lay_out(block, inner, netlist)


def _behavioural(line: Line) -> tuple[list[str], dict[str, str]]:
    """The words of a B source, whose expression may stand without braces."""
    found = BEHAVIOURAL.fullmatch(line.text.lower())
    if found is None:
        return _fields(line)
    return found[1].split(), {found[2]: found[3].strip()}


def _element(kind: ElementType, name, words, given, scope: _Scope, netlist: Netlist, at: Position) -> list[Element]:
    """The parts of an element."""
    if len(name) < 2:
        raise NetlistError(f"{name}: an element needs a name, such as {name}1", at)
    nodes, rest = words[1 : kind.nodes + 1], words[kind.nodes + 1 :]
    if len(nodes) < kind.nodes or any(node in "()" for node in nodes):
        raise NetlistError(f"{name}: expected {kind.form}, found {len(words) - 1} word(s) after the name", at)
    noisy = bool(kind.noisy)  # a current source only where asked: a photocurrent has shot noise, a current mirror not
    for key in ("noise", "noisy"):
        if key in given:
            if kind.noisy is None:
                loud = ", ".join(other.name.upper() for other in TYPES.values() if other.noisy is not None)
                raise NetlistError(f"{name}: {key}= is for {loud}; {kind.name.upper()} has no noise", at)
            if given[key] not in SWITCH:
                raise NetlistError(f"{name}: {key}={given[key]}, expected on or off", at)
            noisy = SWITCH[given.pop(key)]
    places = tuple(map(scope.node, nodes))
    netlist.node_order.update(dict.fromkeys(places))
    card = Card(kind, name, scope.prefix + name, places, rest, given, noisy, at, scope, netlist)
    parts = kind.parse(card)
    if given:
        raise NetlistError(f"{name}: did not expect {next(iter(given))}=; expected {kind.form}", at)
    for part in parts:
        if part.kind in ("v", "e", "h") and part.nodes[0] == part.nodes[1]:
            raise NetlistError(f"{name}: both ends are the node {part.nodes[0]}: a voltage source that is "
                               "short-circuited", at)  # fmt: skip
    return parts


# --- directives -------------------------------------------------------------------------------------------------------


def _settings(netlist: Netlist, lines: list[Line], scope: _Scope) -> None:
    """.tran, .temp, .ic, .options, .global; and a note for each that is left out."""
    for line in lines:
        word, at = line.text.split()[0].lower(), line.at
        if word == ".ic":
            _initial(netlist, line, scope)
            continue
        if word in PERIPHERAL or word == ".noise":
            if word not in (".title", ".op", ".noise"):
                netlist.notes.append(f"{at}: left out {word}")
            continue
        words, given = _fields(line)
        if word == ".tran":
            if netlist.transient is not None:
                raise NetlistError(".tran: is given twice", at)
            netlist.transient = _transient(words, given, scope, at)
        elif word == ".temp":
            if len(words) != 2 or given:
                raise NetlistError(".temp: expected .temp and one temperature in degrees Celsius", at)
            celsius = scope.number(words[1], ".temp", at, -ZERO_CELSIUS, False)
            netlist.kelvin = celsius + ZERO_CELSIUS
        elif word in (".options", ".option"):
            _options(netlist, words, given, scope, at)
        elif word == ".global":
            scope.globals.update(words[1:])


def _transient(words, given, scope: _Scope, at: Position) -> Transient:
    uic = "uic" in words
    numbers = [scope.number(word, ".tran", at) for word in words[1:] if word != "uic"]
    if not 2 <= len(numbers) <= 4 or given:
        raise NetlistError(".tran: expected .tran STEP STOP [START [LONGEST STEP]] [uic]", at)
    step, stop = (numbers[3] if len(numbers) == 4 else numbers[0]), numbers[1]
    if not 0.0 < step <= stop:
        raise NetlistError(f".tran: expected 0 < step <= stop, got {step:g} and {stop:g}", at)
    if stop / step > 1e8:
        raise NetlistError(f".tran: {stop / step:.3g} steps, expected at most 1e8", at)
    return Transient(step, stop, uic)


def _initial(netlist: Netlist, line: Line, scope: _Scope) -> None:
    body = line.text.lower().split(None, 1)[1:]
    found = INITIAL.findall(body[0]) if body else []
    if not found or INITIAL.sub("", body[0]).strip():
        raise NetlistError(".ic: expected .ic v(NODE)=VALUE ...", line.at)
    for node, text in found:
        if node in ("0", "gnd"):
            raise NetlistError(".ic: the ground is at 0 V by definition", line.at)
        if node in netlist.initial:
            raise NetlistError(f".ic v({node}): is given already ({netlist.initial[node][1]})", line.at)
        netlist.initial[node] = scope.number(text, f".ic v({node})", line.at), line.at


def _options(netlist: Netlist, words, given, scope: _Scope, at: Position) -> None:
    low, high = netlist.flicker_band
    for key, text in given.items():
        if key == "noise":
            if text not in SWITCH:
                raise NetlistError(f".options: noise={text}, expected on or off", at)
            netlist.noisy = SWITCH[text]
        elif key == "temp":
            netlist.kelvin = scope.number(text, ".options temp", at, -ZERO_CELSIUS, False) + ZERO_CELSIUS
        elif key == "tnom":
            netlist.nominal = scope.number(text, ".options tnom", at, -ZERO_CELSIUS, False) + ZERO_CELSIUS
        elif key == "flo":
            low = scope.number(text, ".options flo", at, 0.0, False)
        elif key == "fhi":
            high = scope.number(text, ".options fhi", at, 0.0, False)
        else:
            netlist.notes.append(f"{at}: left out the option {key}")
    netlist.notes += [f"{at}: left out the option {word}" for word in words[1:]]
    netlist.flicker_band = low, high


def _noise(line: Line, scope: _Scope) -> NoiseAnalysis:
    found = NOISE.fullmatch(line.text.lower())
    if found is None:
        raise NetlistError(".noise: expected .noise v(NODE[,REFERENCE]) SOURCE dec|oct|lin POINTS F1 F2", line.at)
    node, reference, _, spacing, *numbers = found.groups()
    points, first, last = (scope.number(text, ".noise", line.at, 0.0, False) for text in numbers)
    if not first <= last or points > 1e5:
        raise NetlistError(f".noise: expected f1 <= f2 and at most 1e5 points, got {' '.join(numbers)}", line.at)
    return NoiseAnalysis(scope.node(node), scope.node(reference or "0"), (spacing, int(points), first, last), line.at)
