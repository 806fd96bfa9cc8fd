""".tran, .ac, .noise, .op, .tf, .sens, .four and .sp: the analyses."""

from __future__ import annotations

import re

from stodyn.circuits.asked import Fourier, NoiseAnalysis, Output, Sweep, TransferFunction, Transient
from stodyn.circuits.directive import Directive, Statement

SPACINGS = ("dec", "oct", "lin")
MOST_POINTS = 1_000_000
TRAN_WORDS = ("uic", "startup", "steady", "nodiscard", "step")
STARTUP = 20e-6  # s, as in LTspice
USUAL_STEPS = 50  # of .tran where the step is left out or 0: SPICE's own longest step is a 50th of the time
MILLI = re.compile(r"(?<=\s)(\d+(?:\.\d*)?)M(?:[hH][zZ])?(?=\s|$)")  # a capital M: a million is meant
ASKED = re.compile(r"([vi])\s*+\(\s*+([^\s(),]++)\s*+(?:,\s*+([^\s(),]++)\s*+)?\)")
OUTPUT = re.compile(r"v\s*+\(\s*+([^\s(),]++)\s*+(?:,\s*+([^\s(),]++)\s*+)?\)\s*+(.*+)")


def _tran(statement: Statement) -> None:
    words, parameters = statement.fields()
    if statement.netlist.transient is not None:
        raise statement.error(": is given twice")
    numbers = [statement.number(word) for word in words if word not in TRAN_WORDS]
    if left := [word for word in words if word in TRAN_WORDS[2:]]:
        statement.netlist.notes.append(f"{statement.at}: left out {' '.join(left)}")
    numbers = [0.0, *numbers] if len(numbers) == 1 else numbers
    if len(numbers) == 2 and "start" in parameters:  # as HSPICE writes it
        numbers.append(statement.number(parameters.pop("start"), "start"))
    if not 2 <= len(numbers) <= 4 or parameters:
        raise statement.malformed()
    step, stop = (numbers[3] if len(numbers) == 4 else numbers[0]), numbers[1]
    if stop == 0.0:
        statement.netlist.notes.append(f"{statement.at}: left out .tran, which ends at 0 s")
        return
    if step == 0.0 or step > stop > 0.0:
        what = "without a step" if step == 0.0 else f"with a step of {step:g} s, longer than all of it"
        step = stop / USUAL_STEPS
        statement.netlist.notes.append(f"{statement.at}: .tran {what}: it is {step:g} s, STOP/{USUAL_STEPS}")
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
    if milli := MILLI.search(statement.line.text):
        statement.netlist.notes.append(f"{statement.at}: {milli[0]} is {milli[1]} millihertz, as in SPICE; write "
                                       f"{milli[1]}MEG for megahertz")  # fmt: skip
    if not first <= last or points > MOST_POINTS or points != int(points):
        raise statement.error(
            f": expected f1 <= f2 and a whole number of at most {MOST_POINTS:,} points, got {' '.join(words[1:4])}"
            + ("; M is milli, MEG is mega" if any(word.endswith(("m", "mhz")) for word in words[2:4]) else "")
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


def _outputs(statement: Statement, text: str) -> tuple[list[Output], str]:
    """The outputs v(a), v(a,b) and i(v1) at the beginning of a text, and the rest of it."""
    outputs = []
    names = {element.name for element in statement.netlist.elements}
    while match := ASKED.match(text):
        letter, first, second = match.groups()
        if letter == "i":
            if first not in names:
                raise statement.error(f" i({first}): there is no element {first}")
            outputs.append(Output(f"i({statement.scope.prefix}{first})"))
        else:
            ends = [statement.scope.node(name) for name in (first, second or "0")]
            for name in ends:
                if name not in statement.netlist.node_order and name != "0":
                    raise statement.error(f" v({name}): there is no node {name}")
            outputs.append(Output(*ends))
        text = text[match.end() :].strip()
    return outputs, text


def _tf(statement: Statement) -> None:
    outputs, source = _outputs(statement, statement.body)
    if len(outputs) != 1 or len(source.split()) != 1:
        raise statement.malformed()
    if not any(e.name == source and e.kind in "vi" for e in statement.netlist.elements):
        raise statement.error(f": there is no source {source}")
    statement.netlist.transfer = TransferFunction(outputs[0], source)


def _sens(statement: Statement) -> None:
    if "=" in statement.body:  # Xyce's
        statement.netlist.notes.append(f"{statement.at}: left out .sens; expected {statement.type.form}")
        return
    outputs, rest = _outputs(statement, statement.body)
    if len(outputs) != 1 or rest.split()[:1] not in ([], ["ac"], ["dc"]):
        raise statement.malformed()
    if rest.startswith("ac"):
        statement.netlist.notes.append(f"{statement.at}: left out .sens ... ac; .step gives .ac at other values")
        return
    statement.netlist.sensitivity = outputs[0]


def _four(statement: Statement) -> None:
    frequency, rest = (*statement.body.split(None, 1), "", "")[:2]
    outputs, left = _outputs(statement, rest)
    if not outputs or left:
        raise statement.malformed()
    statement.netlist.fourier = Fourier(statement.number(frequency, "", 0.0, False), tuple(outputs))


def _sp(statement: Statement) -> None:
    words, parameters = statement.fields()
    if parameters or len(words) not in (4, 5):
        raise statement.malformed()
    if not statement.netlist.ports:
        raise statement.error(": there are no ports; write V1 in 0 DC 0 AC 1 portnum=1 z0=50")
    statement.netlist.scattering = _sweep(statement, words)


def _op(statement: Statement) -> None:
    statement.netlist.wants_point = True


TRAN = Directive(".tran", ".tran STEP STOP [START [LONGEST STEP]] [uic] [startup]", _tran)
AC = Directive(".ac", ".ac dec|oct|lin POINTS F1 F2", _ac)
NOISE = Directive(".noise", ".noise v(NODE[,REFERENCE]) SOURCE dec|oct|lin POINTS F1 F2", _noise, "analyses")
OP = Directive(".op", ".op", _op)
TF = Directive(".tf", ".tf v(NODE[,REFERENCE]) SOURCE, or .tf i(SOURCE) SOURCE", _tf, "analyses")
SENS = Directive(".sens", ".sens v(NODE[,REFERENCE]), or .sens i(SOURCE)", _sens, "analyses")
FOUR = Directive(".four", ".four FREQUENCY v(NODE) ...", _four, "analyses", (".fourier",))
SP = Directive(".sp", ".sp dec|oct|lin POINTS F1 F2 [donoise]", _sp, "analyses")
