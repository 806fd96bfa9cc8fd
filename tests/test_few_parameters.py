"""In the rooms that every call goes through no function has more than eight parameters, but for the doors."""

import ast
from pathlib import Path

import stodyn

ROOMS = ("engine", "statistics", "numerics/printing")
MOST = 8
DOORS = {"simulate", "sweep", "prepare"}  # whose further arguments are given by name


def functions(room):
    for file in sorted((Path(stodyn.__file__).parent / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file.name, node


def test_functions_have_few_parameters():
    crowded, doors = [], set()
    for room in ROOMS:
        for file, node in functions(room):
            by_place = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            count = len(by_place) + len(node.args.kwonlyargs)
            if node.name in DOORS and count > MOST:
                doors.add(node.name)
                count = len(by_place)
            if count > MOST:
                crowded.append(f"{file}: {node.name} has {count}")
    assert not crowded
    assert doors == DOORS
