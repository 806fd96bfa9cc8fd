"""Whether two versions of the library give the same bits: every model with the methods that fit it.

    python benchmarks/catalogue_bits.py record OLD                 into the folder OLD, by the stodyn that is imported
    python benchmarks/catalogue_bits.py record NEW --steps OLD     the same pairs and steps as in OLD, by another one
    python benchmarks/catalogue_bits.py compare OLD NEW            what moved between them, and by how much

A model is run with the method that it gets when none is named and with the first that fits of each module of methods:
PATHS paths, STEPS steps, whose length is a power of two, so that grids of times are exact. A pair that takes longer
than `--seconds` is left out; a second `record` into the same folder goes on where the first one ended. What moved is
listed by the largest difference of any number, relative to the largest number of its variable, and the exit status
is 1.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

PATHS, STEPS = 64, 4
LISTS = "pairs.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--steps", type=Path, help="a folder whose pairs and steps are taken")
    recording.add_argument("--seconds", type=float, default=120.0, help="the most that a pair may take")
    recording.add_argument("--models", nargs="*", help="these models only")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    asked = parser.parse_args()
    if asked.verb == "compare":
        return compare(asked.old, asked.new)
    asked.folder.mkdir(parents=True, exist_ok=True)
    record(asked.folder, asked.steps, asked.seconds, asked.models)
    return 0


def record(folder: Path, steps: Path | None, seconds: float, models: list[str] | None) -> None:
    """Run all pairs in a process of their own, one for each model, which is ended where a pair takes too long."""
    lists = Path(folder, LISTS)
    pairs = json.loads((Path(steps, LISTS) if steps else lists).read_text()) if steps or lists.exists() else chosen()
    lists.write_text(json.dumps(pairs, indent=1))
    for model, (dt, methods) in pairs.items():
        if models and model not in models:
            continue
        worker = None
        for method in methods:
            file = Path(folder, f"{model} {method}.npz")
            if file.exists():
                continue
            worker = worker or Worker()
            found = worker.answer((model, method, dt), seconds)
            if "left out" in found:
                print(f"{model} {method}: {found['left out']}", flush=True)
            if found.pop("ended", False):
                worker = None
            np.savez(file, **found)
        if worker:
            worker.end()


def chosen() -> dict[str, tuple[float, list[str]]]:
    """Model -> its step and the names of its methods; small models first."""
    from stodyn.methods import catalogue as methods
    from stodyn.methods.recommend import recommended
    from stodyn.models import catalogue as models
    from stodyn.problems.time_scale import time_scale

    pairs = {}
    for name, model in sorted(models.catalogue().items(), key=lambda item: item[1].problem.n):
        first = {"recommended": recommended(model.problem).name}
        for method in methods.fitting(model.problem):
            first.setdefault(type(methods.catalogue()[method]).__module__, method)
        dt = 2.0 ** math.floor(math.log2(0.01 * min(time_scale(model.problem), 1.0)))
        pairs[name] = dt, sorted(set(first.values()))
    return pairs


class Worker:
    """A process that runs pairs."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=answers, args=(other,), daemon=True)
        self.process.start()

    def answer(self, pair: tuple, seconds: float) -> dict[str, Any]:
        self.pipe.send(pair)
        if self.pipe.poll(seconds):
            try:
                return self.pipe.recv()
            except EOFError:
                reason = "the process died"
        else:
            reason = f"no result after {seconds:g} s"
        self.end()
        return {"left out": reason, "ended": True}

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def answers(pipe: Any) -> None:
    warnings.simplefilter("ignore")
    while True:
        model, method, dt = pipe.recv()
        try:
            pipe.send(numbers(model, method, dt))
        except Exception as error:
            pipe.send({"left out": f"{type(error).__name__}: {str(error)[:150]}"})


def numbers(model: str, method: str, dt: float) -> dict[str, Any]:
    """All numbers of a run: the paths, or the moments where there are none."""
    import stodyn as sd
    from stodyn.methods.contract import Expansion
    from stodyn.models.catalogue import catalogue

    chosen = sd.method(method)
    ensemble = {"paths": PATHS, "seed": 1, "collect": sd.statistics.Paths(PATHS, every=1)}
    run = sd.simulate(catalogue()[model].problem, chosen, t=(0.0, STEPS * dt), dt=dt, progress=False,
                      **({} if isinstance(chosen, Expansion) else ensemble))  # fmt: skip
    found = {name: variable.values for name, variable in run.data_vars.items()}
    return {name: values for name, values in found.items() if values.dtype.kind in "fc"}


def compare(old: Path, new: Path) -> int:
    """Print every pair with other bits, and those of which one version has no numbers."""
    same, moved, lacking = 0, [], []
    for file in sorted(old.glob("*.npz")):
        pair = file.stem
        if not Path(new, file.name).exists():
            lacking.append(f"{pair}: not in {new}")
            continue
        a, b = np.load(file), np.load(Path(new, file.name))
        left_out = [f"{folder}: {r['left out']}" for folder, r in ((old, a), (new, b)) if "left out" in r]
        if left_out:
            lacking.append(f"{pair}: {'; '.join(left_out)}")
            continue
        if others := sorted({*a.files} ^ {*b.files}):
            lacking.append(f"{pair}: only one has {', '.join(others)}")
        if far := {
            name: distance(a[name], b[name]) for name in a.files if name in b.files and differ(a[name], b[name])
        }:
            moved.append((max(far.values()), f"{pair}: {', '.join(f'{name} {d:.2g}' for name, d in far.items())}"))
        else:
            same += 1
    print(f"{same} pairs with the same bits, {len(moved)} moved, {len(lacking)} not compared or not as a whole")
    print("moved, relative to the largest number of the variable:", *(line for _, line in sorted(moved, reverse=True)),
          "not compared:", *lacking, sep="\n  ")  # fmt: skip
    return bool(moved)


def differ(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes()


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """How far numbers moved, relative to the largest of them; infinite where their shapes or failures differ."""
    if a.shape != b.shape or (np.isfinite(a) != np.isfinite(b)).any():
        return math.inf
    finite = np.isfinite(a)
    return float(np.abs(a - b)[finite].max(initial=0.0) / (np.abs(a)[finite].max(initial=0.0) or 1.0))


if __name__ == "__main__":
    sys.exit(main())
