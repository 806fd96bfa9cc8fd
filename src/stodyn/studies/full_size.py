"""The share of a paper's ensemble that a run at full size takes, and its duration."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

from stodyn.engine.simulate import simulate
from stodyn.statistics.moments import Moments

LONGEST = 1200.0  # seconds: a run that would take longer is made with a part of the paper's paths
TIMED = 16_384  # paths


def affordable(problem: Any, name: str, h: float, end: float, paths: int) -> int:
    """The number of the paper's paths that a run to `end` takes: all, or as many as fit into LONGEST, to two digits."""
    most = LONGEST / (pace(problem, name, h) * round(end / h))
    return paths if paths <= most else max(int(float(f"{most:.1e}")), 1)


def remark(count: int, paths: int) -> str:
    """The remark in a row whose run takes only part of the paper's paths."""
    return "" if count == paths else f"{count:.2g} of the paper's {paths:.0g} paths, for 20 minutes"


def seconds(problem: Any, runs: Sequence[tuple[str, float]], paths: int, end: float) -> float:
    """About how long the runs (method, dt) to `end` take."""
    return sum(pace(problem, name, h) * round(end / h) * affordable(problem, name, h, end, paths) for name, h in runs)


@functools.cache
def pace(problem: Any, name: str, h: float) -> float:
    """Seconds per path and step, timed on some steps after a run that compiles, without the fixed cost of a run."""

    def timed(steps: int) -> float:
        began = time.perf_counter()
        simulate(problem, name, t=(0.0, steps * h), dt=h, paths=TIMED, seed=1, progress=False,
                 collect=Moments(at=[steps * h]))  # fmt: skip
        return time.perf_counter() - began

    timed(5)
    few = timed(5)
    if few > 2.0:
        return few / (5 * TIMED)
    return max(timed(105) - few, 1e-9) / (100 * TIMED)
