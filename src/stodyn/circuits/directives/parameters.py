""".param NAME=VALUE, .func NAME(x, y) {expression}, .model NAME TYPE (name=value ...)."""

from __future__ import annotations

import re

from stodyn.circuits.directive import Directive, OwnFunction, Statement
from stodyn.circuits.expressions import CONSTANTS, FUNCTIONS, RANDOM
from stodyn.circuits.kinds import MODELS
from stodyn.circuits.words import NAME, assignments, fields, unbraced

CALLED = re.compile(rf"=\s*((?:{'|'.join({**FUNCTIONS, **RANDOM})})\s*\([^()]*\))")  # a value without braces
FUNCTION = re.compile(r"([a-z_]\w*+)\s*+\(([^()]*+)\)\s*+=?\s*+(\S.*+)", re.DOTALL)


def _param(statement: Statement) -> None:
    params = statement.block.params
    for name, arguments, value in assignments(statement.line):
        if arguments is not None:
            _define(statement, name, arguments.strip()[1:-1], value)
            continue
        if name in params and params[name][0] != value:
            before = params[name][1]
            if before.file == statement.at.file:
                raise statement.error(f" {name}: is given already ({before})")
            statement.block.notes.append(f"{statement.at}: .param {name} replaces that of {before}, as in ngspice")
        _check_brackets(statement, name, value)
        params[name] = value, statement.at


def _func(statement: Statement) -> None:
    match = FUNCTION.fullmatch(statement.body)
    if match is None:
        raise statement.malformed()
    _define(statement, *match.groups())


def _define(statement: Statement, name: str, arguments: str, body: str) -> None:
    functions = statement.block.functions
    names = tuple(word.strip() for word in arguments.split(",")) if arguments.strip() else ()
    if name in FUNCTIONS or name in RANDOM:
        raise statement.error(f" {name}: there is a function of that name already; take another name")
    if name in functions:
        raise statement.error(f" {name}: is defined already ({functions[name].at})")
    if not all(NAME.fullmatch(word) for word in names) or len(set(names)) < len(names):
        raise statement.error(f" {name}({arguments}): its arguments must be different names")
    if any(word in CONSTANTS for word in names):
        raise statement.error(f" {name}({arguments}): pi is a constant and cannot name an argument")
    _check_brackets(statement, name, body)
    functions[name] = OwnFunction(names, unbraced(body), statement.at)


def _check_brackets(statement: Statement, name: str, text: str) -> None:
    """Refuse text that is obviously wrong, whether or not the name is used."""
    for opening, closing in ("()", "{}"):
        if text.count(opening) != text.count(closing):
            raise statement.error(f" {name}: {opening!r} and {closing!r} do not match in {text[:60]!r}")


def _model(statement: Statement) -> None:
    repeats: list[str] = []
    line = statement.line._replace(text=CALLED.sub(r"={\1}", statement.line.text.lower()))
    words, parameters = fields(line, repeats)
    words = [word for word in words[1:] if word not in ("(", ")", "+")]
    if len(words) < 2:
        raise statement.malformed()
    name, kind, *stray = words
    known = MODELS[kind].words if kind in MODELS else {}
    kind = next((known[word] for word in stray if word in known), kind)
    stray = [word for word in stray if word not in known]
    if kind in MODELS and set(stray[::2]) <= MODELS[kind].parameters.keys() and len(stray) % 2 == 0:  # SW(RON 1)
        parameters, stray = {**parameters, **dict(zip(stray[::2], stray[1::2], strict=True))}, []
    models = statement.block.models
    if name in models and models[name][:2] != (kind, parameters):
        raise statement.error(f" {name}: is defined already, differently ({models[name][2]})")
    if stray and kind in MODELS:
        raise statement.error(f" {name}: did not expect {stray[0]!r}; parameters are name=value")
    if repeats and kind in MODELS:
        twice = ", ".join(dict.fromkeys(repeats))
        statement.block.notes.append(
            f"{statement.at}: .model {name}: {twice} given twice; the last counts, as in ngspice"
        )
    models[name] = kind, parameters, statement.at


PARAM = Directive(".param", ".param NAME=VALUE ...", _param, "block", (".params",))
FUNC = Directive(".func", ".func NAME(x, y) {expression}", _func, "block")
MODEL = Directive(".model", ".model NAME TYPE (name=value ...)", _model, "block")
