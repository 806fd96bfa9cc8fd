""".step, .temp and .dc: one netlist for several values.

.step param NAME start stop increment | .step param NAME list v1 v2 ... | .step dec|oct param NAME start stop points
.dc V1 start stop increment [V2 start stop increment] sweeps sources, the temperature or .params at DC.
.step temp ... and .step V1 ... step the temperature and the value of a source in the same ways; .temp t1 t2 ... is
.step temp list t1 t2 ..., and a single temperature is that of the circuit.
"""

from __future__ import annotations

import dataclasses
import math

from stodyn.circuits.asked import TEMPERATURE, Step
from stodyn.circuits.devices import ZERO_CELSIUS
from stodyn.circuits.directive import Directive, Statement
from stodyn.circuits.words import NAME

MOST = 10_000  # values of one .step


def _step(statement: Statement) -> None:
    words, parameters = statement.fields()
    spacing = words.pop(0) if words[:1] and words[0] in ("dec", "oct", "lin") else "lin"
    is_parameter = words[:1] == ["param"]
    words = words[is_parameter:]
    if len(words) < 2 or parameters:
        raise statement.malformed()
    name, *texts = words
    place = name
    if name == "temp" and not is_parameter:
        place = TEMPERATURE
    elif not is_parameter:
        if name[0] not in "vi":
            raise statement.error(f" {name}: expected param NAME, temp, or the name of a V or I source")
        place = f"{name}.value"
    elif not NAME.fullmatch(name):
        raise statement.error(f" param {name}: a name has letters, digits and _, a letter first")
    if any(step.place == place for step in statement.netlist.steps):
        raise statement.error(f" {name}: is stepped already")
    is_list = texts[0] == "list"
    numbers = [statement.number(text, name) for text in texts[is_list:]]
    if is_list and numbers:
        values = numbers
    elif len(numbers) == 3:
        values = _spaced(statement, name, spacing, *numbers)
    else:
        raise statement.malformed()
    if len(values) > MOST:
        raise statement.error(f" {name}: {len(values):,} values, expected at most {MOST:,}")
    if place == TEMPERATURE and min(values) <= -ZERO_CELSIUS:
        raise statement.error(f" temp: expected more than {-ZERO_CELSIUS} °C, got {min(values):g}")
    if is_parameter and name not in statement.block.params:  # .step alone gives it
        override = statement.netlist.overrides.get(name)
        statement.scope.known[name] = values[0] if override is None else override
    statement.netlist.steps.append(Step(place, tuple(values), statement.at))
    statement.netlist.notes.append(f"{statement.at}: .step {name} has {len(values)} value(s): circuit.steps() gives a "
                                   "circuit for each")  # fmt: skip


def _dc(statement: Statement) -> None:
    """.dc SOURCE start stop increment [SOURCE start stop increment]"""
    words, parameters = statement.fields()
    words = words[1:] if words[:1] == ["lin"] else words
    if parameters or len(words) not in (4, 8):
        raise statement.malformed()
    if statement.netlist.dc:
        raise statement.error(": is given twice")
    for k in range(0, len(words), 4):
        name, *texts = words[k : k + 4]
        names = {element.name for element in statement.netlist.elements}
        is_parameter = name in statement.block.params and name not in names
        place = name if name == TEMPERATURE or is_parameter else f"{name}.value"
        if name not in names and not is_parameter and name != TEMPERATURE:
            statement.netlist.notes.append(
                f"{statement.at}: left out .dc: there is no source, element or .param {name}"
            )
            statement.netlist.dc.clear()
            return
        start, stop, by = (statement.number(text, name) for text in texts)
        values = _spaced(statement, name, "lin", start, stop, by if start != stop else 1.0)
        statement.netlist.dc.append(Step(place, tuple(values), statement.at))


def _spaced(statement: Statement, name: str, spacing: str, start: float, stop: float, by: float) -> list[float]:
    """Values from start to stop: by an increment, or with a number of points per decade or octave."""
    if spacing == "lin":
        if not by or (stop - start) / by < 0.0:
            raise statement.error(f" {name}: no increment of {by:g} leads from {start:g} to {stop:g}")
        count = _counted(statement, name, (stop - start) / by)
        return [start + k * by for k in range(count)]
    base = 10.0 if spacing == "dec" else 2.0
    if not (0.0 < start <= stop and by > 0.0):
        raise statement.error(f" {name}: expected 0 < start <= stop and points > 0, got {start:g} {stop:g} {by:g}")
    count = _counted(statement, name, math.log(stop / start, base) * by)
    return [start * base ** (k / by) for k in range(count)]


def _counted(statement: Statement, name: str, steps: float) -> int:
    if steps > MOST:
        raise statement.error(f" {name}: {steps:.3g} values, expected at most {MOST:,}")
    return math.floor(steps + 1e-9) + 1


def _temperature(statement: Statement) -> None:
    line = statement.line
    if statement.body.startswith("="):
        line = line._replace(text=line.text.replace("=", " ", 1))
    words, parameters = dataclasses.replace(statement, line=line).fields()
    if not words or parameters:
        raise statement.malformed()
    values = tuple(statement.number(word, "", -ZERO_CELSIUS, False) for word in words)
    statement.netlist.kelvin = values[0] + ZERO_CELSIUS
    if len(values) > 1:
        if any(step.place == TEMPERATURE for step in statement.netlist.steps):
            raise statement.error(": the temperature is stepped already")
        statement.netlist.steps.append(Step(TEMPERATURE, values, statement.at))
        statement.netlist.notes.append(f"{statement.at}: .temp has {len(values)} values, as in LTspice: the circuit is "
                                       f"at {values[0]:g} °C, and circuit.steps() gives one for each")  # fmt: skip


DC = Directive(".dc", ".dc SOURCE START STOP INCREMENT [SOURCE START STOP INCREMENT]", _dc, "analyses")
STEP = Directive(".step", ".step param NAME start stop increment, or .step param NAME list v1 v2 ...", _step, "sweeps")
TEMP = Directive(".temp", ".temp and a temperature in degrees Celsius, or several", _temperature, "sweeps")
