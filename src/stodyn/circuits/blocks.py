"""Lines -> blocks: the top and the subcircuits, with their parameters, functions and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stodyn import listing
from stodyn.circuits import conditions, directives
from stodyn.circuits.directive import Directive, OwnFunction, Statement
from stodyn.circuits.element import near
from stodyn.circuits.text import DEEPEST, Line, NetlistError, Position
from stodyn.circuits.words import fields

LISTED = listing.values(directives, Directive)
KNOWN = {name: entry for entry in LISTED.values() for name in (entry.name, *entry.also)}
STRUCTURE = (".subckt", ".ends", ".include", ".lib", ".endl", ".end", *conditions.WORDS)
SUBCIRCUIT = ".subckt NAME NODE ... [name=value ...]"


class Block(NamedTuple):
    """The lines of the top, or of a subcircuit with its nodes and its parameters; among the lines stand conditions, and
    the models that depend on them."""

    at: Position | None
    name: str
    nodes: tuple[str, ...]
    defaults: dict[str, str]
    lines: list[Line]
    settings: list[Statement]
    subcircuits: dict[str, Any]
    models: dict[str, tuple[str, dict[str, str], Position]]
    params: dict[str, tuple[str, Position]]
    functions: dict[str, OwnFunction]
    notes: list[str]  # on the whole netlist

    def model_names(self) -> set[str]:
        """The names of all models, including those of subcircuits."""
        conditional = {
            name
            for line in self.lines
            if conditions.word_of(line) == ".model"
            for name in line.text.lower().split()[1:2]
        }
        return conditional.union(self.models, *(inner.model_names() for inner in self.subcircuits.values()))


def _opened(
    at: Position | None, notes: list[str], name: str = "", nodes: tuple[str, ...] = (), defaults: Any = None
) -> Block:
    return Block(at, name, nodes, defaults or {}, [], [], {}, {}, {}, {}, notes)


def blocks(lines: list[Line]) -> Block:
    """The top of a netlist: elements in `lines`, directives for later stages in `settings`, the others already read."""
    within, opened = [_opened(None, [])], [conditions.Open()]
    for line in lines:
        block, word = within[-1], conditions.word_of(line)
        if word in conditions.WORDS:
            opened[-1].take(word, line.at)
        opened[-1].allow("" if word in (*conditions.WORDS, ".ends") else word, line.at)
        if not word or word in conditions.WORDS or (opened[-1].begun and word == conditions.ALLOWED):
            block.lines.append(line)
        elif word == ".subckt":
            within.append(_subcircuit(line, within))
            opened.append(conditions.Open())
        elif word == ".ends":
            if len(within) == 1:
                raise NetlistError(".ends without .subckt", line.at)
            named = line.text.split()[1:]
            if named and named[0].lower() != block.name:
                _misnamed(named[0], within, line.at)
            opened.pop().close()
            _add(within.pop(), within[-1])
        elif word not in KNOWN:
            raise NetlistError(f"unknown directive {word}{near(word, (*KNOWN, *STRUCTURE))}", line.at)
        elif KNOWN[word].stage == "block":
            KNOWN[word].read(Statement(KNOWN[word], line, block))
        elif len(within) > 1 and word in KNOWN[".print"].also:
            block.settings.append(Statement(KNOWN[word], line, block))
        elif len(within) > 1:
            raise NetlistError(
                f"{word} belongs outside of the subcircuit {block.name} ({block.at}); is its .ends missing?", line.at
            )
        else:
            block.settings.append(Statement(KNOWN[word], line, block))
    if len(within) > 1:
        raise NetlistError(f".subckt {within[-1].name} is not closed by .ends", within[-1].at)
    opened[0].close()
    return within[0]


def _misnamed(name: str, within: list[Block], at: Position) -> None:
    """Note an .ends that names no open subcircuit; refuse one that names another, whose own is then missing."""
    block = within[-1]
    if name.lower() in {outer.name for outer in within[1:-1]}:
        raise NetlistError(f".ends {name}: the open subcircuit is {block.name} ({block.at})", at)
    block.notes.append(f"{at}: .ends {name} closes {block.name} ({block.at}), the subcircuit that is open")


def with_conditions(block: Block, holds: Callable[[str, Position], bool]) -> Block:
    """A block of elements alone, with the models that the conditions in it leave."""
    lines = conditions.live(block.lines, holds)
    chosen = block._replace(lines=[line for line in lines if line.text[0] != "."], models=dict(block.models))
    for line in lines:
        if line.text[0] == ".":
            KNOWN[conditions.ALLOWED].read(Statement(KNOWN[conditions.ALLOWED], line, chosen))
    return chosen


def _add(inner: Block, block: Block) -> None:
    """Add a subcircuit to the block it stands in; the same one may come again, from a file that is included twice."""
    other = block.subcircuits.setdefault(inner.name, inner)
    if other is not inner and _content(other) != _content(inner):
        raise NetlistError(f".subckt {inner.name}: is defined already, differently ({other.at})", inner.at)


def _content(block: Block) -> Any:
    """All that matters in a block, without its lines' places."""
    inside = {name: _content(inner) for name, inner in block.subcircuits.items()}
    models = {name: (kind, numbers) for name, (kind, numbers, _) in block.models.items()}
    params = {name: text for name, (text, _) in block.params.items()}
    functions = {name: (own.arguments, own.body) for name, own in block.functions.items()}
    return block.nodes, block.defaults, [line.text for line in block.lines], inside, models, params, functions


def _subcircuit(line: Line, within: list[Block]) -> Block:
    words, parameters = fields(line)
    if "params:" in words:
        words.remove("params:")
    if len(words) < 2:
        raise NetlistError(f".subckt: expected {SUBCIRCUIT}", line.at)
    _, name, *nodes = words
    if len(within) > DEEPEST:
        raise NetlistError(f".subckt {name}: definitions nested deeper than {DEEPEST}", line.at)
    return _opened(line.at, within[0].notes, name, tuple(nodes), parameters)
