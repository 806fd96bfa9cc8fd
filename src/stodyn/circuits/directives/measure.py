""".measure tran|ac|noise NAME ...: delays between events, when, find, deriv, max, min, pp, avg, rms, integ, param.

.measure tran delay trig v(in) val=0.5 rise=1 targ v(out) val=0.5 fall=last [td=1n]
.measure tran t when v(out)=0.5 cross=2        .measure tran y find v(out) at=1u        ... find v(out) when v(in)=1
.measure tran m avg v(out) from=1u to=2u       .measure tran r param='delay/t'          ... deriv v(out) at=1u
"""

from __future__ import annotations

import re

from stodyn.circuits.asked import Event, Measure
from stodyn.circuits.directive import Directive, Statement
from stodyn.circuits.words import NAME, unbraced

ANALYSES = ("tran", "ac", "noise")
SKIPPED = ("dc", "op", "tf", "four", "sp")  # analyses that are left out
WINDOWED = {"max": "max", "min": "min", "pp": "pp", "avg": "avg", "rms": "rms", "integ": "integ", "integral": "integ"}
EDGES = ("rise", "fall", "cross")
WORD = re.compile(
    r"""par\s*+\(\s*+'[^']*+'\s*+\)|\{[^{}]*+\}|'[^']*+'|"[^"]*+"|[a-z]\w*+\s*+\([^()]*+\)|=|[^\s=(){}'"]++|\S"""
)


class _Words:
    """The words of a .measure: signals such as v(a, b) and expressions in quotes are one word each."""

    def __init__(self, statement: Statement):
        self.statement = statement
        self.words = WORD.findall(statement.body)
        self.place = 0

    def next(self, what: str) -> str:
        if self.place >= len(self.words) or self.words[self.place] == "=":
            raise self.statement.malformed(f"{what} is missing")
        self.place += 1
        return self.words[self.place - 1]

    def peek(self, ahead: int = 0) -> str:
        return self.words[self.place + ahead] if self.place + ahead < len(self.words) else ""

    def number(self, text: str, what: str) -> float:
        return self.statement.number(text, what)

    def pairs(self, known: tuple[str, ...]) -> dict[str, str]:
        """name=value as long as the names are known."""
        pairs: dict[str, str] = {}
        while self.peek() in known and self.peek(1) == "=":
            key = self.next("a name")
            self.place += 1
            if key in pairs:
                raise self.statement.error(f": {key}= is given twice")
            pairs[key] = self.next(f"the value of {key}=")
        return pairs


def _expression(word: str) -> str:
    match = re.fullmatch(r"par\s*+\(\s*+'([^']*+)'\s*+\)", word)
    return match[1] if match else unbraced(word)


def _event(words: _Words, is_trigger: bool) -> Event:
    """[v(x) val=y | v(x)=y | at=t] [rise|fall|cross=n|last] [td=t]"""
    if words.peek() == "at" and words.peek(1) == "=":
        return Event(at=words.number(words.pairs(("at",))["at"], "at"))
    signal = _expression(words.next("a signal"))
    if signal in EDGES:
        raise words.statement.malformed(f"expected a signal such as v(out), found {signal}")
    level: float | str = 0.0
    if not is_trigger:
        if words.peek() != "=":
            raise words.statement.malformed(f"the level of {signal} is missing")
        words.place += 1
        text = words.next("a level")
        level = _expression(text) if "(" in text else words.number(text, signal)
    pairs = words.pairs(("val", "td", *EDGES))
    if is_trigger:
        if "val" not in pairs:
            raise words.statement.malformed(f"val= of {signal} is missing")
        level = words.number(pairs["val"], "val")
    edges = [edge for edge in EDGES if edge in pairs]
    if len(edges) > 1:
        raise words.statement.error(f": {edges[0]}= and {edges[1]}= of one event; give one of them")
    count = 1
    if edges:
        text = pairs[edges[0]]
        number = -1.0 if text == "last" else words.number(text, edges[0])
        if number != int(number) or (number < 1 and text != "last"):
            raise words.statement.error(f": {edges[0]}={text}, expected 1, 2, ... or last")
        count = int(number)
    after = words.number(pairs["td"], "td") if "td" in pairs else -float("inf")
    return Event(signal, level, edges[0] if edges else "cross", count, after)


def _read(statement: Statement) -> None:
    words = _Words(statement)
    analysis, name, kind = words.next("the analysis"), words.next("a name"), words.next("what is measured")
    if analysis in SKIPPED or name in WINDOWED or "(" in kind or words.peek() == "(":
        why = "" if analysis in SKIPPED else f"; expected {statement.type.form}"
        statement.netlist.notes.append(f"{statement.at}: left out .measure {analysis} {name}{why}")
        return
    if analysis not in ANALYSES:
        raise statement.error(f": {analysis} is not known; there are {', '.join(ANALYSES)}")
    if not NAME.fullmatch(name):
        raise statement.error(f" {name}: a name has letters, digits and _, a letter first")
    if any(other.name == name and other.analysis == analysis for other in statement.netlist.measures):
        raise statement.error(f" {name}: is given already")
    measure = Measure(analysis, name, WINDOWED.get(kind, kind), statement.at)
    if kind == "trig":
        trigger = _event(words, True)
        if words.next("targ") != "targ":
            raise statement.malformed("targ is missing")
        measure = measure._replace(kind="delay", trigger=trigger, target=_event(words, True))
    elif kind == "when":
        measure = measure._replace(target=_event(words, False))
    elif kind in ("find", "deriv"):
        measure = measure._replace(signal=_expression(words.next("a signal")))
        if words.peek() == "when":
            words.place += 1
            measure = measure._replace(target=_event(words, False))
        elif words.peek() == "at":
            measure = measure._replace(target=_event(words, True))
        else:
            raise statement.malformed("at= or when is missing")
    elif kind == "param":
        if words.peek() != "=":
            raise statement.malformed("= is missing")
        words.place += 1
        measure = measure._replace(signal=_expression(words.next("an expression")))
    elif kind in WINDOWED:
        signal = _expression(words.next("a signal"))
        limits = words.pairs(("from", "to"))
        ends = [words.number(limits[key], key) if key in limits else default
                for key, default in (("from", -float("inf")), ("to", float("inf")))]  # fmt: skip
        measure = measure._replace(signal=signal, window=(ends[0], ends[1]))
    else:
        raise statement.error(f" {name}: {kind} is not known; there are trig, when, find, deriv, param, "
                              f"{', '.join(WINDOWED)}")  # fmt: skip
    if words.peek():
        raise statement.error(f" {name}: did not expect {words.peek()!r}")
    statement.netlist.measures.append(measure)


MEASURE = Directive(
    ".measure", ".measure tran|ac|noise NAME and what: trig ... targ ..., when ..., find ... at=...", _read, "analyses",
    (".meas",),
)  # fmt: skip
