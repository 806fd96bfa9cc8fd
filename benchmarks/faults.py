"""Faults in what looks at a problem before its run: each function that a run calls fails in turn, and none ends it raw.

    python benchmarks/faults.py            a sample of 40 functions
    python benchmarks/faults.py --all      all of them
    python benchmarks/faults.py structure  those whose names hold a word

The body of a function of the rooms below that looks at traces (printing, facts, patterns, checks of steps) is replaced
by one that raises. The run must give the same numbers, printed or not, or, where it needs the function, end in a
StodynFault; any other error is printed as RAW, with the function. The functions that take up faults are left out.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import random
import sys
import types
import warnings

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import kept_traces, variances
from stodyn.engine.failure import StodynFault
from stodyn.engine.program import executors

ROOMS = (
    "stodyn.numerics.facts", "stodyn.numerics.printing", "stodyn.numerics.sparse", "stodyn.numerics.regions",
    "stodyn.numerics.lyapunov", "stodyn.numerics.rounding", "stodyn.numerics.uncompiled", "stodyn.problems.structure",
    "stodyn.problems.sparsity", "stodyn.engine.stability", "stodyn.engine.variances", "stodyn.engine.jumps",
    "stodyn.engine.energies", "stodyn.methods.energy_account", "stodyn.methods.one_contact", "stodyn.methods.surfaces",
    "stodyn.methods.written_stops",
)  # fmt: skip
RUN = dict(t=(0.0, 1.0), dt=0.5, paths=2, seed=1, collect=st.Moments(at=1.0))


def problems() -> dict[str, tuple[object, str]]:
    def chain(t, x):
        return jnp.roll(x, 1) - 2.0 * x + jnp.roll(x, -1)

    one = sd.SDE(lambda t, x: -1.5 * jnp.sin(x), lambda t, x: 0.1 * x[:, None] * jnp.ones((1, 2)), [1.0])
    wide = sd.SDE(chain, lambda t, x: 0.1 * jnp.eye(20)[:, :2], np.arange(20.0))
    bodies = sd.Mechanical(lambda t, x, v: -2.0 * x, lambda t, x, v: 0.3 * jnp.eye(2), ([1.0, 0.0], [0.0, 0.0]))
    return {"one": (one, "Heun"), "implicit": (wide, "ThetaEuler"), "bodies": (bodies, "Newmark")}


def forget() -> None:
    kept_traces.forget()
    executors.forget()
    variances._verdicts.clear()


def run(problem, method) -> np.ndarray:
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sd.simulate(problem, method, **RUN)["mean"].values


def functions() -> dict[object, str]:
    """Every function of the rooms, by itself."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(ROOMS) and not name.endswith(".unprintable"):
            for word, value in vars(module).items():
                if isinstance(value, types.FunctionType) and value.__module__ == name:
                    found[value] = f"{name.removeprefix('stodyn.')}.{word}"
    return found


def called(problem, method, among: dict[object, str]) -> set[str]:
    """The names of the functions that a run calls."""
    codes = {inspect.unwrap(f).__code__: name for f, name in among.items()}
    seen: set[str] = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code in codes:
            seen.add(codes[frame.f_code])

    sys.setprofile(note)
    try:
        run(problem, method)
    finally:
        sys.setprofile(None)
    return seen


def with_fault(function, problem, method) -> np.ndarray:
    """The result of a run in which a function fails, inside of what decorates it."""

    def broken(*arguments, **options):
        return {}["injected"]

    inner = inspect.unwrap(function)
    code = inner.__code__
    same = {word: getattr(code, word) for word in ("co_filename", "co_name", "co_qualname")}
    inner.__code__ = broken.__code__.replace(**same)
    try:
        return run(problem, method)
    finally:
        inner.__code__ = code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    for room in ROOMS:
        importlib.import_module(room)
    raw = told = tried = 0
    for which, (problem, method) in problems().items():
        expected, among = run(problem, method), functions()
        names = called(problem, method, among)
        some = sorted(((name, f) for f, name in among.items() if name in names), key=lambda pair: pair[0])
        if chosen.words:
            some = [(name, f) for name, f in some if any(word in name for word in chosen.words)]
        elif not chosen.all:
            some = random.Random(chosen.seed).sample(some, min(len(some), 14))
        for name, function in some:
            tried += 1
            try:
                same = np.allclose(with_fault(function, problem, method), expected, rtol=1e-9)
                words = "" if same else "OTHER NUMBERS"
            except StodynFault as error:
                words = f"told: {str(error)[:80]}"
            except Exception as error:
                words = f"RAW {type(error).__name__}: {str(error)[:80]}"
            told, raw = told + words.startswith("told"), raw + words.startswith(("RAW", "OTHER"))
            if words:
                print(f"{which}: {name}: {words}", flush=True)
    print(f"{tried} faults, {told} that end a run in words, {raw} that end it raw")


if __name__ == "__main__":
    main()
