""".ic v(NODE)=VALUE: voltages at the start of a run; .nodeset v(NODE)=VALUE: a guess of the operating point."""

from __future__ import annotations

import re

from stodyn.circuits.directive import Directive, Statement

VOLTAGE = re.compile(r"v\s*+\(\s*+([^\s()]++)\s*+\)\s*+=\s*+(\{[^{}]*+\}|'[^']*+'|[^\s,]++)[\s,]*+")


def _read(statement: Statement) -> None:
    known = statement.netlist.initial if statement.type is IC else statement.netlist.guesses
    body = statement.body
    voltages = VOLTAGE.findall(body)
    if not body.strip():
        statement.netlist.notes.append(f"{statement.at}: left out {statement.type.name}, which names no node")
        return
    if not voltages or VOLTAGE.sub("", body).strip():
        raise statement.malformed()
    for name, text in voltages:
        node = statement.scope.node(name)
        if node == "0":
            raise statement.error(": the ground is at 0 V by definition")
        if node in known:
            raise statement.error(f" v({node}): is given already ({known[node][1]})")
        known[node] = statement.number(text, f"v({node})"), statement.at


IC = Directive(".ic", ".ic v(NODE)=VALUE ...", _read)
NODESET = Directive(".nodeset", ".nodeset v(NODE)=VALUE ...", _read)
