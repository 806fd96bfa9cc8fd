"""The description of a directive, which each file of directives/ holds, and the statement from which it reads a line.

A file holds one or more values of Directive; the reader finds them by listing the folder. Directives of the stage
"block" may also stand in subcircuits and define names there; those of "sweeps", then those of "settings", are read
before the elements, in the order of the text, and those of "analyses" after them.
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
    """A kind of directive, such as .tran, and how its lines are read.

    name   its name with the dot; `also`: other spellings
    form   the form of its line, for messages
    read   the function that reads a line, given as a Statement
    stage  the stage at which it is read
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
    """A line with a directive: the block it stands in and, after the stage "block", the netlist and the scope."""

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
        """The text after the directive, in lower case."""
        parts = self.line.text.lower().split(None, 1)
        return parts[1].strip() if len(parts) > 1 else ""

    def fields(self) -> tuple[list[str], dict[str, str]]:
        """The words after the directive and the name=value pairs."""
        fields, parameters = words.fields(self.line)
        return fields[1:], parameters

    def number(self, text: str, what: str = "", least: float = -float("inf"), or_equal: bool = True) -> float:
        label = f"{self.type.name} {what}".strip()
        return self.scope.number(text, label, self.at, least, or_equal)

    def malformed(self, fault: str = "") -> NetlistError:
        return NetlistError(f"{self.type.name}: {f'{fault}; ' if fault else ''}expected {self.type.form}", self.at)

    def error(self, message: str) -> NetlistError:
        return NetlistError(f"{self.type.name}{message}", self.at)
