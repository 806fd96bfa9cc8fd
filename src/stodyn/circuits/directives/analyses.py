""".tran, .ac, .noise and .op: the analyses."""

from __future__ import annotations

import re

from stodyn.circuits.asked import NoiseAnalysis, Sweep, Transient
from stodyn.circuits.directive import Directive, Statement

SPACINGS = ("dec", "oct", "lin")
MOST_POINTS = 100_000
TRAN_WORDS = ("uic", "startup", "steady", "nodiscard", "step")
STARTUP = 20e-6  # s, as in LTspice
USUAL_STEPS = 50  # of .tran where the step is left out or 0: SPICE's own longest step is a 50th of the time
OUTPUT = re.compile(r"v\s*+\(\s*+([^\s(),]++)\s*+(?:,\s*+([^\s(),]++)\s*+)?\)\s*+(.*+)")


def _tran(statement: Statement) -> None:
    words, parameters = statement.fields()
    if statement.netlist.transient is not None:
        raise statement.error(": is given twice")
    numbers = [statement.number(word) for word in words if word not in TRAN_WORDS]
    if left := [word for word in words if word in TRAN_WORDS[2:]]:
        statement.netlist.notes.append(f"{statement.at}: left out {' '.join(left)}")
    numbers = [0.0, *numbers] if len(numbers) == 1 else numbers
    if not 2 <= len(numbers) <= 4 or parameters:
        raise statement.malformed()
    step, stop = (numbers[3] if len(numbers) == 4 else numbers[0]), numbers[1]
    if step == 0.0 and stop > 0.0:
        step = stop / USUAL_STEPS
        statement.netlist.notes.append(f"{statement.at}: .tran without a step: it is {step:g} s, STOP/{USUAL_STEPS}")
    if not 0.0 < step <= stop:
        raise statement.error(f": expected 0 < step <= stop, got {step:g} and {stop:g}")
    if stop / step > 1e8:
        raise statement.error(f": {stop / step:.3g} steps, expected at most 1e8")
    start = numbers[2] if len(numbers) > 2 else 0.0
    if not 0.0 <= start < stop:
        raise statement.error(f": expected 0 <= start < stop, got {start:g} and {stop:g}")
    startup = STARTUP if "startup" in words else 0.0
    statement.netlist.transient = Transient(step, stop, "uic" in words, start, startup)


def _sweep(statement: Statement, words: list[str]) -> Sweep:
    if len(words) < 4 or words[0] not in SPACINGS:
        raise statement.malformed()
    points, first, last = (statement.number(text, "", 0.0, False) for text in words[1:4])
    if not first <= last or points > MOST_POINTS or points != int(points):
        raise statement.error(
            f": expected f1 <= f2 and a whole number of at most {MOST_POINTS:,} points, got {' '.join(words[1:4])}"
        )
    return Sweep(words[0], int(points), first, last)


def _ac(statement: Statement) -> None:
    words, parameters = statement.fields()
    if statement.netlist.ac is not None:
        raise statement.error(": is given twice")
    if parameters or len(words) != 4:
        raise statement.malformed()
    statement.netlist.ac = _sweep(statement, words)


def _noise(statement: Statement) -> None:
    if statement.netlist.noise is not None:
        raise statement.error(": is given twice")
    match = OUTPUT.fullmatch(statement.body)
    words = match[3].split() if match else []
    if match is None or len(words) not in (5, 6):
        raise statement.malformed()
    node, reference, source = statement.scope.node(match[1]), statement.scope.node(match[2] or "0"), words[0]
    nodes = statement.netlist.node_order
    for name in (node, reference):
        if name not in nodes and name != "0":
            raise statement.error(f" v({name}): there is no node {name}")
    if not any(e.name == source and e.kind in "vi" for e in statement.netlist.elements):
        raise statement.error(f": there is no source {source} to refer the noise to")
    statement.netlist.noise = NoiseAnalysis(node, reference, source, _sweep(statement, words[1:]), statement.at)


def _op(statement: Statement) -> None:
    statement.netlist.wants_point = True


TRAN = Directive(".tran", ".tran STEP STOP [START [LONGEST STEP]] [uic] [startup]", _tran)
AC = Directive(".ac", ".ac dec|oct|lin POINTS F1 F2", _ac)
NOISE = Directive(".noise", ".noise v(NODE[,REFERENCE]) SOURCE dec|oct|lin POINTS F1 F2", _noise, "analyses")
OP = Directive(".op", ".op", _op)
