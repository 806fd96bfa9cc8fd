""".if (CONDITION) ... .elseif (CONDITION) ... .else ... .endif: which lines belong to an instance of a block.

Elements and .models may stand between them, as in ngspice; conditions read the parameters of the instance they lie in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stodyn.circuits.text import Line, NetlistError, Position

IF, ELSEIF, ELSE, ENDIF = WORDS = (".if", ".elseif", ".else", ".endif")
ALLOWED = ".model"


def word_of(line: Line) -> str:
    """The directive that a line begins with; "" for an element."""
    return line.text.split(None, 1)[0].lower().partition("(")[0] if line.text[0] == "." else ""


class Open:
    """The .if that are open in a block while its lines are collected."""

    def __init__(self) -> None:
        self.begun: list[tuple[Position, bool]] = []  # their positions, and whether .else has come

    def take(self, word: str, at: Position) -> None:
        """Go on with one of WORDS."""
        if word == IF:
            self.begun.append((at, False))
            return
        if not self.begun:
            raise NetlistError(f"{word} without .if", at)
        begin, had_else = self.begun.pop()
        if word != ENDIF:
            if had_else:
                raise NetlistError(f"{word} after the .else of the .if at {begin}", at)
            self.begun.append((begin, word == ELSE))

    def allow(self, word: str, at: Position) -> None:
        """Refuse a directive that may not depend on a condition."""
        if self.begun and word and word != ALLOWED:
            raise NetlistError(f"{word} stands within .if ({self.begun[-1][0]}), where only elements and .model may "
                               "stand; give a .param its value by {c ? a : b}, and move other lines out",
                               at)  # fmt: skip

    def close(self) -> None:
        if self.begun:
            raise NetlistError(".if is not closed by .endif", self.begun[-1][0])


def live(lines: Iterable[Line], holds: Callable[[str, Position], bool]) -> list[Line]:
    """The lines that conditions leave; `holds` says whether a condition does."""
    chosen: list[Line] = []
    around: list[tuple[bool, bool]] = []  # of each open .if: whether its lines are live, whether a branch was taken
    for line in lines:
        word = word_of(line)
        if word not in WORDS:
            if all(is_live for is_live, _ in around):
                chosen.append(line)
            continue
        before = around.pop() if word != IF else (False, False)
        outside = all(is_live for is_live, _ in around)
        if word in (IF, ELSEIF):
            text = line.text[len(word) :].strip()
            is_live = outside and not before[1] and holds(text, line.at)
            around.append((is_live, before[1] or is_live))
        elif word == ELSE:
            around.append((not before[1], True))
    return chosen
