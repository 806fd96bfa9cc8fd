"""How many small faults the tests see: lines of the package are changed one at a time, and the tests near them run.

    python benchmarks/mutants.py                      a sample of 300 (hours; --processes 8 on a larger machine)
    python benchmarks/mutants.py --count 20 --only statistics/moments.py
    python benchmarks/mutants.py --count 40 --only statistics --files 2 --seconds 30    a quick look

A fault is one of: + for -, * for /, < for <=, == for !=, `and` for `or`, a number one larger, the other value of a
conditional expression, a result that is not returned. Each is made in a copy of src, and pytest runs the tests of its
room, the files that name its module first, until one fails. What survives is listed with its line: such a line is
either equivalent to the one before or not tested. Tests that take more than --seconds of processor time with a fault
are counted apart: a fault that never ends is seen, one that tests are too slow for is not.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import copy
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).resolve().parent.parent
ROOMS = ("methods", "noise", "statistics", "problems", "engine")
SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Fault(NamedTuple):
    """A changed line: the text that stands in place of columns `start` to `end` of it."""

    file: Path
    line: int
    start: int
    end: int
    text: str


def faults(file: Path) -> list[Fault]:
    """All faults of a file; those inside words for the user are left out."""
    tree, found = ast.parse(file.read_text()), []
    words = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    words |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in words or not isinstance(node, ast.expr | ast.stmt) or node.lineno != node.end_lineno:
            continue
        for changed in _changed(node):
            found.append(Fault(file, node.lineno, node.col_offset, node.end_col_offset or 0, changed))
    return found


def _changed(node: ast.AST) -> list[str]:
    """What may stand for an expression or a statement of one line."""
    inner = copy.deepcopy(node)
    if isinstance(inner, ast.BinOp | ast.BoolOp) and type(inner.op) in SWAPPED:
        inner.op = SWAPPED[type(inner.op)]()
    elif isinstance(inner, ast.Compare) and type(inner.ops[0]) in SWAPPED:
        inner.ops[0] = SWAPPED[type(inner.ops[0])]()
    elif isinstance(inner, ast.Constant) and type(inner.value) in (int, float):
        inner.value += 1
    elif isinstance(inner, ast.IfExp):
        return [f"({ast.unparse(inner.orelse)})"]
    elif isinstance(inner, ast.Return) and inner.value is not None:
        return ["return None"]
    else:
        return []
    text = ast.unparse(inner)
    return [f"({text})"] if isinstance(node, ast.expr) else [text]


def tests_of(file: Path) -> list[Path]:
    """The tests of a module's room, those that name it first."""
    room = file.relative_to(HOME / "src/stodyn").parts[0]
    near = sorted((HOME / "tests" / room).glob("test_*.py"))
    named = [test for test in near if f"{room}.{file.stem}" in test.read_text() or file.stem in test.stem]
    return named + [test for test in near if test not in named]


def killed(fault: Fault, seconds: float, files: int | None) -> bool | None:
    """Whether a test fails with the fault in place; None where the time was over before one did."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(HOME / "src", source)
        changed = source / fault.file.relative_to(HOME / "src")
        lines = changed.read_bytes().split(b"\n")
        line = lines[fault.line - 1]
        lines[fault.line - 1] = line[: fault.start] + fault.text.encode() + line[fault.end :]
        changed.write_bytes(b"\n".join(lines))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            *map(str, tests_of(fault.file)[:files]),
        ]
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        limited = ["bash", "-c", f'ulimit -t {math.ceil(seconds)}; exec "$@"', "limited", *command]
        run = subprocess.run(limited, cwd=HOME, env=environment, capture_output=True, check=False)
    if run.returncode == -signal.SIGXCPU:
        return None
    return run.returncode != 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--only", default="", help="part of a path inside the package")
    options.add_argument("--seconds", type=float, default=900.0, help="of processor time for the tests of one fault")
    options.add_argument("--files", type=int, default=None, help="how many files of tests are run at most")
    given = options.parse_args()
    files = [f for room in ROOMS for f in sorted((HOME / "src/stodyn" / room).rglob("*.py")) if given.only in str(f)]
    all_of_them = [fault for file in files for fault in faults(file)]
    sample = random.Random(given.seed).sample(all_of_them, min(given.count, len(all_of_them)))
    print(f"{len(sample)} of {len(all_of_them)} faults in {len(files)} files", flush=True)
    seen, over = 0, 0
    with concurrent.futures.ThreadPoolExecutor(given.processes) as pool:
        answers = pool.map(lambda fault: killed(fault, given.seconds, given.files), sample)
        for number, (fault, dead) in enumerate(zip(sample, answers, strict=True), 1):
            seen, over = seen + (dead is True), over + (dead is None)
            if not dead:
                before = fault.file.read_bytes().split(b"\n")[fault.line - 1][fault.start : fault.end].decode()
                what = "survives" if dead is False else "no time for"
                print(f"{what}: {fault.file.relative_to(HOME)}:{fault.line}: {before} -> {fault.text}", flush=True)
            if number % 10 == 0 or number == len(sample):
                decided = max(number - over, 1)
                print(f"{seen} of {decided} killed ({seen / decided:.1%}), {over} undecided", flush=True)


if __name__ == "__main__":
    main()
