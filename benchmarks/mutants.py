"""How many small faults the tests see: lines of the package are changed one at a time, and the tests that reach them
run.

    python benchmarks/mutants.py map                     once: which test reaches which line (some 20 minutes)
    python benchmarks/mutants.py run --count 300         a sample; goes on where it was stopped
    python benchmarks/mutants.py map --only statistics/ --longest 1      tests of a room alone, those up to a second
    python benchmarks/mutants.py run --only statistics/ --count 30       faults of a room alone
    python benchmarks/mutants.py show                    what was found: the share killed, and what survived

A fault is one of: + for -, * for /, < for <=, == for !=, `and` for `or`, a number one larger, the other value of a
conditional expression, a result that is not returned. A process that has imported everything but the package forks one
child for each fault; the child imports the package with the fault in it and runs the tests that reach the line, the
quick ones and those of other functions first, until one fails. A test that kills is also run without the fault, once,
so that a test that fails anyway kills nothing. What survives is either equivalent to the line before or not tested.

Everything is kept in build/mutants: map-*.npz (the map), results.jsonl (a line for each fault, as it is known). A
sample is the beginning of one random order of all faults, so that the share has a meaning whenever the run is stopped;
its interval is Wilson's at 95 %. Verdicts: killed; survives (all tests of the map that reach the line pass); unreached
(none does); stuck (the tests ran out of processor time; counted as killed: a fault that never ends is seen); undecided
(the tests tried within --seconds pass, others were not tried).
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import copy
import importlib
import importlib.machinery
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HOME = Path(__file__).resolve().parent.parent
PACKAGE = HOME / "src" / "stodyn"
KEPT = HOME / "build" / "mutants"
ROOMS = ("methods", "noise", "statistics", "problems", "engine")
TESTS = ("statistics", "noise", "problems", "methods", "engine", "analysis", "accuracy", "claims", "chaos", "physics")
SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
PYTEST = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-W", "ignore:Module already imported"]


class Fault(NamedTuple):
    """A changed line: the text that stands in place of columns `start` to `end` (in bytes) of it."""

    file: str
    line: int
    start: int
    end: int
    text: str

    def source(self) -> bytes:
        """The file with the fault in it."""
        lines = (PACKAGE / self.file).read_bytes().split(b"\n")
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.text.encode() + line[self.end :]
        return b"\n".join(lines)

    def before(self) -> str:
        return (PACKAGE / self.file).read_bytes().split(b"\n")[self.line - 1][self.start : self.end].decode()


# --- faults -----------------------------------------------------------------------------------------------------------


def faults(file: str) -> list[Fault]:
    """All faults of a file; those inside words for the user, annotations and tests of __name__ are left out."""
    tree, found = ast.parse((PACKAGE / file).read_text()), []
    words: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Raise):
            words |= {id(part) for part in ast.walk(node)}
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            words |= {id(part) for part in ast.walk(note)} if note is not None else set()
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


# --- which test reaches which line ------------------------------------------------------------------------------------


class Statements:
    """The statements inside functions of the package's rooms, numbered; `numbers[file][line]` is the innermost one."""

    def __init__(self) -> None:
        self.count, self.numbers, self.trees = 0, {}, {}
        for room in ROOMS:
            for path in sorted((PACKAGE / room).rglob("*.py")):
                self._number(path)

    def _number(self, path: Path) -> None:
        tree = ast.parse(path.read_bytes())
        lines = self.numbers.setdefault(str(path.relative_to(PACKAGE)), {})
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                self._mark(function, lines)
        self.trees[str(path)] = ast.fix_missing_locations(tree)

    def _mark(self, holder: Any, lines: dict[int, int]) -> None:
        """A mark before each statement of a body, and of the bodies inside it that are not functions' own."""
        for name in ("body", "orelse", "finalbody"):
            body = getattr(holder, name, None)
            if not isinstance(body, list):
                continue
            marked = []
            for place, statement in enumerate(body):
                words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if not (words and place == 0):
                    mark = ast.parse(f"__reached__[{self.count}] = 1").body[0]
                    marked.append(ast.copy_location(mark, statement))
                    for inside in ast.walk(mark):
                        ast.copy_location(inside, statement)
                    for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                        lines[line] = self.count
                    self.count += 1
                marked.append(statement)
                if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    self._mark(statement, lines)
                    for handler in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
                        self._mark(handler, lines)
            setattr(holder, name, marked)


def changing(change: Callable[[str], Any]) -> None:
    """From now on a module is compiled from what `change` gives for its path, where it gives anything."""
    plain = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> Any:
        path = loader.get_filename(name)
        changed = change(path)
        return plain(loader, name) if changed is None else compile(changed, path, "exec", dont_inherit=True)

    importlib.machinery.SourceFileLoader.get_code = get_code


class Watching:
    """A plugin for pytest: what each test reaches and how long it takes. Tests that fail or are slow are left out."""

    def __init__(self, longest: float) -> None:
        self.longest, self.seen = longest, {}
        signal.signal(signal.SIGPROF, self._over)

    def _over(self, *_: Any) -> None:
        raise TimeoutError(f"more than {self.longest} s of processor time")

    def pytest_runtest_setup(self, item: Any) -> None:
        builtins.__reached__[:] = bytes(len(builtins.__reached__))
        self.began = time.process_time()

    def pytest_runtest_call(self, item: Any) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.longest)

    def pytest_runtest_logreport(self, report: Any) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        if report.when == "call" and report.passed:
            self.seen[report.nodeid] = (bytes(builtins.__reached__), time.process_time() - self.began)


def map_tests(given: argparse.Namespace) -> None:
    """Run every file of tests once, each in a fork, and write down which statements each of its tests reaches."""
    KEPT.mkdir(parents=True, exist_ok=True)
    statements = Statements()
    builtins.__reached__ = bytearray(statements.count)
    everything_but_the_package()
    changing(lambda path: statements.trees.get(path))
    import stodyn.cli  # noqa: F401

    for room in TESTS:
        for file in sorted((HOME / "tests" / room).glob("test_*.py")):
            part = KEPT / f"map-{room}-{file.stem}.npz"
            if not part.exists() and given.only in f"{room}/{file.name}":
                in_a_fork(lambda: _map_file(file, part, given.longest), given.seconds * 10)
                print(f"{file.relative_to(HOME)}: {'seen' if part.exists() else 'ran out of time'}", flush=True)


def _map_file(file: Path, part: Path, longest: float) -> int:
    import pytest

    watching = Watching(longest)
    pytest.main([*PYTEST[1:], str(file.relative_to(HOME))], plugins=[watching])
    ids, seen = list(watching.seen), list(watching.seen.values())
    marks = np.array([np.frombuffer(bits, dtype=np.uint8) for bits, _ in seen], dtype=np.uint8)
    reached = np.packbits(marks.reshape(len(ids), len(builtins.__reached__)), axis=1)
    np.savez_compressed(part, ids=np.array(ids, dtype=str), reached=reached, seconds=np.array([s for _, s in seen]))
    return 0


class Map:
    """The map, read: tests that reach a line, in the order in which they are tried."""

    def __init__(self) -> None:
        statements = Statements()
        self.numbers, self.count = statements.numbers, statements.count
        parts = [np.load(part) for part in sorted(KEPT.glob("map-*.npz"))]
        parts = [part for part in parts if len(part["ids"])]
        if not parts:
            raise SystemExit("no map of the tests yet: python benchmarks/mutants.py map")
        self.ids = np.concatenate([part["ids"] for part in parts])
        self.seconds = np.concatenate([part["seconds"] for part in parts])
        self.reached = np.concatenate([part["reached"] for part in parts])

    def _of(self, number: int) -> np.ndarray:
        return np.flatnonzero(self.reached[:, number // 8] >> (7 - number % 8) & 1)

    def tests(self, fault: Fault) -> list[tuple[str, float]]:
        """Tests that reach the fault's statement; for one outside functions, those that reach its file."""
        number = self.numbers[fault.file].get(fault.line)
        if number is not None:
            found = self._of(number)
        else:
            of_file = np.zeros(self.count, dtype=np.uint8)
            of_file[sorted(set(self.numbers[fault.file].values()))] = 1
            found = np.flatnonzero((self.reached & np.packbits(of_file)).any(axis=1))
            if not of_file.any():
                found = np.flatnonzero([Path(fault.file).stem in name for name in self.ids])
        order, tried = [], {}
        stem = Path(fault.file).stem
        for k in sorted(found, key=lambda k: self.seconds[k]):
            name, seconds = str(self.ids[k]), float(self.seconds[k])
            function = name.partition("[")[0]
            tried[function] = tried.get(function, -1) + 1
            near = stem in function.partition("::")[0]
            order.append((tried[function] > 0, tried[function] if not near else 0, not near, seconds, name))
        return [(name, seconds) for *_, seconds, name in sorted(order)]


# --- a fault and its tests --------------------------------------------------------------------------------------------


def everything_but_the_package() -> None:
    """Import what the package and its tests import, so that forks find it there."""
    listing = "import sys, stodyn.cli, pytest, hypothesis, mpmath; print(*sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(HOME / "src")}
    names = subprocess.run([sys.executable, "-c", listing], env=environment, capture_output=True, text=True, check=True)
    for name in names.stdout.split():
        if not name.startswith(("stodyn", "__main__")):
            try:
                importlib.import_module(name)
            except Exception:  # names that are no modules of their own
                continue


def in_a_fork(work: Callable[[], int], seconds: float) -> int | None:
    """What `work` returns in a fork of this process; None where it took longer, or very much longer by the clock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            code = work()
        except BaseException:
            (KEPT / "error").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    deadline = time.monotonic() + 100 * seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        os.waitpid(child, 0)
        return None
    if os.WIFSIGNALED(status):
        return None if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else 98
    return os.waitstatus_to_exitcode(status)


class Failed:
    """A plugin for pytest: the first test that fails, written to a file."""

    def __init__(self, file: Path):
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.file.write_text(report.nodeid)


def outcome(fault: Fault | None, tests: list[str], seconds: float) -> tuple[int | None, str]:
    """What pytest says of the tests with the fault in place, and the test that failed."""
    note = KEPT / f"failed-{os.getpid()}"
    note.unlink(missing_ok=True)

    def work() -> int:
        import pytest

        if fault is not None:
            place, source = str(PACKAGE / fault.file), fault.source()
            changing(lambda path: source if path == place else None)
        return int(pytest.main([*PYTEST, *tests], plugins=[Failed(note)]))

    code = in_a_fork(work, seconds)
    failed = note.read_text() if note.exists() else ""
    note.unlink(missing_ok=True)
    return code, failed


def judged(fault: Fault, reach: Map, seconds: float, sound: dict[str, bool]) -> dict[str, Any]:
    """Verdict, the test that decided it, and processor time, for one fault."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    tests = [test for test in reach.tests(fault) if sound.get(test[0], True)]
    chosen, cost = [], 0.0
    for name, took in tests:
        if cost + took <= seconds or not chosen:
            chosen.append(name)
            cost += took
    verdict, by = "unreached", ""
    while chosen:
        code, by = outcome(fault, chosen, 3 * cost + 20)
        if code is None:
            verdict = "stuck"
        elif code == 0:
            verdict = "survives" if len(chosen) == len(tests) else "undecided"
        else:
            verdict = "killed"
            if by and by not in sound:
                sound[by] = outcome(None, [by], 3 * cost + 20)[0] == 0
                if not sound[by]:
                    chosen = [name for name in chosen if name != by]
                    continue
        break
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    counts = {"reaching": len(tests), "tried": len(chosen), "seconds": round(spent, 1)}
    return {"fault": list(fault), "before": fault.before(), "verdict": verdict, "by": by, **counts}


# --- the commands -----------------------------------------------------------------------------------------------------


def known() -> dict[Fault, dict[str, Any]]:
    """Verdicts of earlier runs; the last one of a fault counts."""
    file = KEPT / "results.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {Fault(*row["fault"]): row for row in rows}


def sample(given: argparse.Namespace) -> list[Fault]:
    files = [str(f.relative_to(PACKAGE)) for room in ROOMS for f in sorted((PACKAGE / room).rglob("*.py"))]
    all_of_them = [fault for file in files for fault in faults(file) if given.only in file]
    random.Random(given.seed).shuffle(all_of_them)
    print(f"{min(given.count, len(all_of_them))} of {len(all_of_them)} faults", flush=True)
    return all_of_them[: given.count]


def run(given: argparse.Namespace) -> None:
    done, wanted, sound = known(), sample(given), {}
    everything_but_the_package()
    reach = Map()
    for number, fault in enumerate(wanted, 1):
        if fault in done:
            continue
        done[fault] = judged(fault, reach, given.seconds, sound)
        with (KEPT / "results.jsonl").open("a") as file:
            file.write(json.dumps(done[fault]) + "\n")
        print(f"{number}: {told(done[fault])}", flush=True)
    show(given)


def told(row: dict[str, Any]) -> str:
    fault = Fault(*row["fault"])
    how = f"by {row['by']}" if row["by"] else f"{row['tried']} of {row['reaching']} tests"
    return f"{row['verdict']}: {fault.file}:{fault.line}: {row['before']} -> {fault.text} ({how}, {row['seconds']} s)"


def show(given: argparse.Namespace) -> None:
    """The share killed with Wilson's interval, and what was not killed."""
    done = known()
    rows = [done[fault] for fault in sample(given) if fault in done]
    for row in rows:
        if row["verdict"] not in ("killed", "stuck"):
            print(told(row))
    counts = {
        verdict: sum(row["verdict"] == verdict for row in rows) for verdict in sorted({r["verdict"] for r in rows})
    }
    killed, n, z = counts.get("killed", 0) + counts.get("stuck", 0), max(len(rows), 1), 1.959964
    middle = (killed + z * z / 2) / (n + z * z)
    half = z * math.sqrt(killed * (n - killed) / n + z * z / 4) / (n + z * z)
    print(f"{counts}: {killed / n:.1%} of {len(rows)} killed, 95 % interval [{middle - half:.1%}, {middle + half:.1%}]")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("command", choices=("map", "run", "show"))
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", help="part of a path inside the package or tests")
    options.add_argument("--seconds", type=float, default=60.0, help="of processor time for the tests of one fault")
    options.add_argument("--longest", type=float, default=5.0, help="seconds that a test may take to be mapped")
    given = options.parse_args()
    os.chdir(HOME)
    # As tests/conftest.py sets them: JAX reads these when it is imported, which is before a fork runs its tests.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HOME / "build" / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    sys.path.insert(0, str(HOME / "src"))
    os.environ["PYTHONPATH"] = str(HOME / "src")
    {"map": map_tests, "run": run, "show": show}[given.command](given)


if __name__ == "__main__":
    main()
