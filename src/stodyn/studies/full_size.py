"""How much of a paper's ensemble a full run takes, and how long that lasts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from stodyn.engine.simulate import simulate
from stodyn.methods.catalogue import find
from stodyn.problems.hamiltonian import Hamiltonian

# Of one run, for methods that solve equations and for others: not much more than 20 minutes on two cores.
MOST_PATH_STEPS = {True: 1e10, False: 5e10}
TIMED = {True: "DIRK", False: "RS1"}


def is_implicit(name: str) -> bool:
    return find(name).accepts is Hamiltonian


def affordable(name: str, paths: int, steps: int) -> int:
    """How many of the paper's paths one run of that many steps takes."""
    return min(paths, max(round(MOST_PATH_STEPS[is_implicit(name)] / steps), 1))


def remark(taken: int, paths: int) -> str:
    """What a row says of a run that takes a part of the paper's paths."""
    return "" if taken == paths else f"{taken:.2g} of the paper's {paths:.0g} paths"


def seconds(problem: Any, runs: Sequence[tuple[str, float]], paths: int, end: float) -> float:
    """About how long the runs (method, dt) to `end` take: one method of each kind is timed on a small piece."""
    total = 0.0
    for kind in {is_implicit(name) for name, _ in runs}:
        chosen = [(name, round(end / h)) for name, h in runs if is_implicit(name) == kind]
        total += pace(problem, TIMED[kind], chosen[0][1], end) * sum(
            affordable(name, paths, steps) * steps for name, steps in chosen
        )
    return total


def pace(problem: Any, name: str, steps: int, end: float, paths: int = 16_384, timed: int = 200) -> float:
    """Seconds a path and step, from a run of some steps after one that compiles."""
    given: dict[str, Any] = dict(t=(0.0, timed * end / steps), dt=end / steps, paths=paths, seed=1, progress=False)
    simulate(problem, name, **given)
    began = time.perf_counter()
    simulate(problem, name, **given)
    return (time.perf_counter() - began) / (paths * timed)
