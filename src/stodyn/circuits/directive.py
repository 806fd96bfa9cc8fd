"""What a file of directives/ says of its directive, and what it is given to read a line with.

A file holds one or more values of Directive; the reader finds them by listing the folder. Those of the stage "block"
stand in subcircuits as well and say what names mean there; "sweeps" and then "settings" are read before the elements,
in the order of the text, and "analyses" after them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from stodyn.circuits import words
from stodyn.circuits.text import Line, NetlistError, Position

STAGES = ("block", "sweeps", "settings", "analyses")


@dataclasses.dataclass(frozen=True, eq=False)
class Directive:
    """A directive.

    name   with its dot; `also`: other spellings
    form   what a line of it looks like
    read   takes the line in, as a Statement
    stage  when it is read
    """

    name: str
    form: str
    read: Callable[[Statement], None]
    stage: str = "settings"
    also: tuple[str, ...] = ()


class OwnFunction(NamedTuple):
    """A function of .func as it stands in the text."""

    arguments: tuple[str, ...]
    body: str
    at: Position


@dataclasses.dataclass(eq=False)
class Statement:
    """A line with a directive: the block it stands in, and, after the stage "block", the netlist and the names."""

    type: Directive
    line: Line
    block: Any
    netlist: Any = None
    scope: Any = None

    @property
    def at(self) -> Position:
        return self.line.at

    @property
    def body(self) -> str:
        """What follows the directive, in lower case."""
        found = self.line.text.lower().split(None, 1)
        return found[1].strip() if len(found) > 1 else ""

    def fields(self) -> tuple[list[str], dict[str, str]]:
        """The words after the directive and the name=value pairs."""
        found, given = words.fields(self.line)
        return found[1:], given

    def number(self, text: str, what: str = "", least: float = -float("inf"), or_equal: bool = True) -> float:
        said = f"{self.type.name} {what}".strip()
        return self.scope.number(text, said, self.at, least, or_equal)

    def malformed(self, said: str = "") -> NetlistError:
        return NetlistError(f"{self.type.name}: {f'{said}; ' if said else ''}expected {self.type.form}", self.at)

    def error(self, said: str) -> NetlistError:
        return NetlistError(f"{self.type.name}{said}", self.at)
