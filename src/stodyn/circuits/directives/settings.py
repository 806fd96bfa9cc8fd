""".options, .global, and the directives that have no effect here and are left out with a note."""

from __future__ import annotations

from stodyn.circuits.devices import ZERO_CELSIUS
from stodyn.circuits.directive import Directive, Statement
from stodyn.circuits.words import SWITCH


def _options(statement: Statement) -> None:
    words, parameters = statement.fields()
    netlist, at = statement.netlist, statement.at
    low, high = netlist.flicker_band
    for key, text in parameters.items():
        if key == "noise":
            if text not in SWITCH:
                raise statement.error(f": noise={text}, expected on or off")
            netlist.noisy = SWITCH[text]
        elif key == "temp":
            netlist.kelvin = statement.number(text, "temp", -ZERO_CELSIUS, False) + ZERO_CELSIUS
        elif key == "tnom":
            netlist.nominal = statement.number(text, "tnom", -ZERO_CELSIUS, False) + ZERO_CELSIUS
        elif key == "cmin":
            netlist.least_capacitance = statement.number(text, "cmin", 0.0)
        elif key == "flo":
            low = statement.number(text, "flo", 0.0, False)
        elif key == "fhi":
            high = statement.number(text, "fhi", 0.0, False)
        else:
            netlist.notes.append(f"{at}: left out the option {key}")
    netlist.notes += [f"{at}: left out the option {word}" for word in words]
    netlist.flicker_band = low, high


def _global(statement: Statement) -> None:
    statement.scope.globals.update(statement.fields()[0])


def _left_out(statement: Statement) -> None:
    word = statement.line.text.split()[0].lower()
    if word != ".title":
        statement.netlist.notes.append(f"{statement.at}: left out {word}")


OPTIONS = Directive(".options", ".options name=value ...", _options, also=(".option", ".opt"))
GLOBAL = Directive(".global", ".global NODE ...", _global)
LEFT_OUT = Directive(
    ".print", ".print ...", _left_out,
    also=(".plot", ".probe", ".save", ".width", ".title", ".pz", ".disto", ".backanno",
          ".csparam", ".pss", ".hb", ".wave", ".net", ".savebias", ".loadbias", ".ferret", ".machine"),
)  # fmt: skip
