"""How much of a paper's ensemble a full run takes, and how long that lasts."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

from stodyn.engine.simulate import simulate

LONGEST = 1200.0  # seconds: a run that would take longer is made with a part of the paper's paths
TIMED_PATHS, TIMED_STEPS = 16_384, 100


def affordable(problem: Any, name: str, h: float, end: float, paths: int) -> int:
    """How many of the paper's paths a run to `end` takes: all, or as many as fit into LONGEST, to two digits."""
    most = LONGEST / (pace(problem, name, h) * round(end / h))
    return paths if paths <= most else max(int(float(f"{most:.1e}")), 1)


def remark(taken: int, paths: int) -> str:
    """What a row says of a run that takes a part of the paper's paths."""
    return "" if taken == paths else f"{taken:.2g} of the paper's {paths:.0g} paths, for 20 minutes"


def seconds(problem: Any, runs: Sequence[tuple[str, float]], paths: int, end: float) -> float:
    """About how long the runs (method, dt) to `end` take."""
    return sum(pace(problem, name, h) * round(end / h) * affordable(problem, name, h, end, paths) for name, h in runs)


@functools.cache
def pace(problem: Any, name: str, h: float) -> float:
    """Seconds a path and step, timed on some steps after a run that compiles."""
    given: dict[str, Any] = dict(t=(0.0, TIMED_STEPS * h), dt=h, paths=TIMED_PATHS, seed=1, progress=False)
    simulate(problem, name, **given)
    began = time.perf_counter()
    simulate(problem, name, **given)
    return (time.perf_counter() - began) / (TIMED_PATHS * TIMED_STEPS)
