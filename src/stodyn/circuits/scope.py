"""The meaning of names inside one instance of a block: parameters, functions, models, subcircuits and nodes.

The caller may give values by the names of their places: a .param by its name (x1.r in the instance x1), a
parameter of an element or of a model as m1.w or nch.vto, the number of a simple element as r1.value. Each random
function in an expression has a ξ of its own, named after its place: gauss(r1), gauss(x1.r), gauss(m1.w).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from stodyn.circuits.blocks import Block
from stodyn.circuits.devices import BOLTZMANN, CHARGE, ZERO_CELSIUS
from stodyn.circuits.element import FLAG, GROUND, Model, near
from stodyn.circuits.expressions import NORMAL, BadValue, Function, Names, evaluate, number
from stodyn.circuits.kinds import MODELS
from stodyn.circuits.text import NetlistError, Position
from stodyn.circuits.words import unbraced
from stodyn.noise.distribution import Distribution, Normal, Uniform

NAME = re.compile(r"(?<![\w.])[a-z_][\w.]*+(?!\s*\()")
WITH_LEVELS = ("nmos", "pmos")  # types of models that choose a law by LEVEL themselves
MOST_KINDS = 3  # of a model that an error names
CALLED = re.compile(r"(?<![\w.])([a-z_]\w*+)\s*\(")
AKO = "ako:"  # .model A AKO:B NPN(...): B with other numbers
_CIDER = "CIDER's devices, computed from their doping, are not supported; take a card of D, Q or M"
_CODE = "XSPICE's {} is not implemented; a B source, or switches, can take its place"
NOT_HERE = {
    **dict.fromkeys(("numd", "nbjt", "numos"), _CIDER),
    **{kind: _CODE.format(kind) for kind in
       ("oneshot", "core", "lcouple", "memristor", "potentiometer", "file_source", "delay", "astate",
        "cmeter", "lmeter", "d_osc", "d_pwm", "d_ram", "d_state", "d_source", "d_fdiv", "d_lut", "d_genlut",
        "d_srlatch", "d_process", "d_cosim", "bidi_bridge", "real_gain", "real_delay", "d_to_real", "real_to_v",
        "sidiode")},
    "ilimit": "XSPICE's ilimit is not implemented; a B source I={limit(G*V(a,b), LEAST, MOST)} limits a current",
    "multi_input_pwl": "XSPICE's multi_input_pwl is not implemented; a B source V={pwl(min(V(a), V(b)), X, Y, ...)} is "
                       "the same for model=and, with max() for model=or",
    "d_tristate": "outputs with three states are not implemented; switches (S) can connect a node to either rail, or "
                  "to none",
}  # fmt: skip
FLAGS = {"true": "1", "t": "1", "false": "0", "f": "0"}


class Overrides:
    """The caller's values, the names of those already used, and the random values met while reading."""

    def __init__(self, values: Mapping[str, float]):
        self.values, self.used = values, set[str]()
        self.random: dict[str, Distribution] = {}
        self.met: dict[str, float] = {}  # every number that has a place, by that place

    def get(self, place: str) -> float | None:
        if place not in self.values:
            return None
        self.used.add(place)
        return float(self.values[place])

    def chance(self, place: str, law: str) -> float:
        """ξ of the next random function at a place: the caller's value, or 0."""
        name, k = place, 1
        while name in self.random:
            k += 1
            name = f"{place} {k}"
        self.random[name] = Normal(0.0, 1.0) if law == NORMAL else Uniform(-1.0, 1.0)
        return self.get(name) or 0.0


class Scope:
    """The names of one instance; parameters are computed when they are asked for."""

    def __init__(self, block: Block, outer: Scope | None, values: dict[str, float], prefix: str,
                 nodes: dict[str, str], path: dict[str, Position], netlist: Any):  # fmt: skip
        self.netlist = netlist
        self.block, self.outer, self.prefix, self.nodes, self.path = block, outer, prefix, nodes, path
        self.known: dict[str, float] = dict(values)
        self.built: dict[str, Any] = {}
        self.needs: dict[str, tuple[str, ...]] = {}
        self.globals: set[str] = outer.globals if outer is not None else set()

    # --- parameters and functions ---------------------------------------------------------------------------------

    def parameter(self, name: str) -> float:
        if name not in self.known and self._definition(name) is None:
            if self.outer is not None:
                return self.outer.parameter(name)
            if name == "temper":
                return self.netlist.kelvin - ZERO_CELSIUS
            if name == "vt":  # PSpice's name for it
                return BOLTZMANN * self.netlist.kelvin / CHARGE
            raise BadValue(f"there is no parameter {name}{near(name, self.block.params)}")
        chain = dict.fromkeys([name])  # each waits for the next: a chain may be of any length
        while chain:
            this = next(reversed(chain))
            text, at = self._definition(this) or ("", None)
            needed = () if this in self.known else self._needed(text)
            waits = next((n for n in needed if n not in self.known and self._definition(n) is not None), None)
            if waits in chain:
                raise NetlistError(f".param {waits}: is defined by itself ({' -> '.join([*chain, waits])})", at)
            if waits is not None:
                chain[waits] = None
                continue
            if this not in self.known:
                try:
                    self.known[this] = self.value(text, self.prefix + this)
                except BadValue as error:
                    raise NetlistError(f".param {this}: {error}", at) from None
            del chain[this]
        return self.known[name]

    def _definition(self, name: str) -> tuple[str, Position | None] | None:
        """The text of a parameter of this block, and its position."""
        if name in self.block.params:
            return self.block.params[name]
        return (self.block.defaults[name], self.block.at) if name in self.block.defaults else None

    def _needed(self, text: str) -> tuple[str, ...]:
        """The names in an expression and in the functions of .func that it calls."""
        if text not in self.needs:
            names, waiting, visited = dict[str, None](), [text], set[str]()
            while waiting:
                this = waiting.pop()
                names.update(dict.fromkeys(NAME.findall(this)))
                for name in set(CALLED.findall(this)) - visited:
                    visited.add(name)
                    own = self.function(name)
                    if own is not None:
                        waiting.append(own.body)
            self.needs[text] = tuple(names)
        return self.needs[text]

    def function(self, name: str) -> Function | None:
        """The function of .func of that name."""
        if name in self.block.functions:
            arguments, body, _ = self.block.functions[name]
            return Function(arguments, body, self.parameter)
        return None if self.outer is None else self.outer.function(name)

    def value(self, text: str, place: str = "") -> float:
        """The number that a word or an expression stands for; raises BadValue. `place` is the name of this value."""
        override = self.netlist.overrides.get(place)
        if override is not None:
            self.netlist.overrides.met[place] = override
            return override
        value = number(text)
        if value is None:
            chance = None if not place else lambda name, law: self.netlist.overrides.chance(f"{name}({place})", law)
            value = evaluate(unbraced(text), Names(self.parameter, self.function, chance))
        if not math.isfinite(value):
            raise BadValue(f"{text} is not a finite number")
        if place:
            self.netlist.overrides.met[place] = value
        return value

    def number(self, text: str, what: str, at: Position, least: float = -math.inf, or_equal: bool = True,
               form: str = "", place: str = "") -> float:  # fmt: skip
        """A number >= `least`; its errors name `what` and the position, and show the expected `form`."""
        try:
            value = self.value(text, place)
        except BadValue as error:
            raise NetlistError(f"{what}: {error}{f'; expected {form}' if form else ''}", at) from None
        if value < least or (value == least and not or_equal):
            shown = text if number_or_none(text) is not None else f"{text} = {value:g}"
            raise NetlistError(f"{what} = {shown}: expected {'at least' if or_equal else 'more than'} {least:g}", at)
        return value

    def holds(self, text: str, at: Position) -> bool:
        """Whether a condition of .if or .elseif is true: a number other than 0."""
        if not text:
            raise NetlistError("the condition is missing; expected .if (CONDITION)", at)
        return self.number(text, ".if", at) != 0.0

    # --- models, subcircuits, nodes -------------------------------------------------------------------------------

    def model(self, name: str, kinds: tuple[str, ...], element: str, at: Position) -> Model:
        """The .model of that name; its type must be one of `kinds`."""
        scope = self._home(name)
        if scope is None:
            raise NetlistError(f"{element}: there is no .model {name}{self._instead(name, kinds)}", at)
        kind, parameters, where = scope.block.models[name]
        chain = [name]
        while kind.startswith(AKO):  # a kind of another model
            chain.append(kind.removeprefix(AKO))
            home = self._home(chain[-1])
            if home is None or chain[-1] in chain[:-1]:
                raise NetlistError(f".model {name}: there is no .model {chain[-1]} for AKO to begin with"
                                   f"{near(chain[-1], set(self.models()) - set(chain))}", where)  # fmt: skip
            kind, others, _ = home.block.models[chain[-1]]
            parameters = {**others, **parameters}
        if kind in NOT_HERE:
            raise NetlistError(f".model {name}: {NOT_HERE[kind]}. It is the model of {element} ({at})", where)
        if kind not in MODELS:  # an error only where it is used: libraries hold many
            raise NetlistError(f".model {name}: unknown type {kind}; there are {', '.join(MODELS)}. It is the model of "
                               f"{element} ({at})", where)  # fmt: skip
        if kind not in kinds:
            raise NetlistError(f"{element}: .model {name} is a {kind}, expected {' or '.join(kinds)}", at)
        if name not in scope.built:
            scope.built[name] = scope._built(name, kind, parameters, where)
        return scope.built[name]

    def _home(self, name: str) -> Scope | None:
        """The scope in which a model is defined."""
        scope: Scope | None = self
        while scope is not None and name not in scope.block.models:
            scope = scope.outer
        return scope

    def _instead(self, name: str, kinds: tuple[str, ...]) -> str:
        """How a netlist gets a model that is not defined, or what to take in its place."""
        binned = [other for other in self.models() if other.startswith(f"{name}.")]
        if binned:
            return f", but one in bins of W and L, which are BSIM's; name one of {', '.join(binned[:4])}"
        kind = "|".join(kinds) if len(kinds) <= MOST_KINDS else "TYPE"
        return (
            f": write .model {name} {kind} (...), or read the file that has it by .lib FILE or .include FILE"
            f"{near(name, self.models())}"
        )

    def _built(self, name: str, kind: str, parameters: dict[str, str], at: Position) -> Model:
        """The numbers of a model, with defaults; refuses parameters that would change the answer, leaves out others."""
        known = MODELS[kind]
        numbers: dict[str, float] = {key: parameter.default for key, parameter in known.parameters.items()}
        lists, named = dict(known.lists), set()
        places = {key: f"{self.prefix}{name}.{key}" for key in numbers}
        outside = {key: "" for key in numbers if key not in parameters and places[key] in self.netlist.overrides.values}
        for key, text in {**parameters, **outside}.items():
            same = known.same.get(key, key)
            if same == "level" and kind == "d" and self.number(text, f".model {name}: level", at) == 2.0:
                self.netlist.notes.append(f"{at}: .model {name}: level = 2 is read as 1, as in ngspice")
            elif same == "level" and kind not in WITH_LEVELS and self.number(text, f".model {name}: level", at) != 1.0:
                raise NetlistError(f".model {name}: level = {text}, but only level 1 of {kind} is implemented; take a "
                                   "card of level 1", at)  # fmt: skip
            if same in known.refused:
                value = self.number(text, f".model {name}: {key}", at)
                if value != known.refused[same]:
                    raise NetlistError(f".model {name}: {key} = {text} would change the answer and is not implemented; "
                                       "remove it if the circuit can do without", at)  # fmt: skip
            elif same in lists:
                words = text.strip("[]").replace(",", " ").split()
                lists[same] = tuple(self.number(word, f".model {name}: {key}", at) for word in words)
                named.add(same)
            elif same in numbers:
                limit = known.parameters[same]
                text = FLAGS.get(text, text) if limit.unit == FLAG else text
                numbers[same] = self.number(text, f".model {name}: {key}", at, limit.least, limit.may_be_least,
                                            place=places[same])  # fmt: skip
                named.add(same)
            else:
                self.netlist.ignored.setdefault(name, []).append(f"{key}{near(key, numbers)}")
        try:
            known.check(numbers)
        except ValueError as error:
            raise NetlistError(f".model {name}: {error}", at) from None
        return Model(name, kind, numbers, frozenset(named), at, lists)

    def models(self) -> list[str]:
        return [*self.block.models, *(self.outer.models() if self.outer is not None else ())]

    def subcircuit(self, name: str) -> tuple[Block, Scope] | None:
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


def number_or_none(text: str) -> float | None:
    """The number that a word stands for, None if it is not a number."""
    try:
        return number(text)
    except BadValue:
        return None
