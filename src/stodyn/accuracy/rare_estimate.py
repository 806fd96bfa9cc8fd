"""A question about a rare event, and the estimate of its probability from repeated runs.

R independent runs of N paths each give estimates p_1, ..., p_R, every one of them unbiased:

    p = their mean,   stderr = s/√R,   95 %:  p exp(± t_(R-1) stderr/p)

The interval is taken on the logarithmic scale, since estimates are skewed to the right; it is never taken from one run.
Where every one of the R N paths had the event, nothing scatters: then low is the probability of which all of them would
have it once in 40 times, 0.025^(1/(R N)), as of Clopper and Pearson.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy

from stodyn.engine import grid
from stodyn.problems.level import Level

LONGEST = 200_000  # steps that a path may take where `before` has no time
ORDINARY = 1000  # steps of such paths as their steps are looked at
BATCH = 4  # runs are added in multiples of it
MOST_RUNS = 4096


@dataclasses.dataclass(frozen=True)
class Question:
    """Which event of which problem, before which time or which other levels, looked for with which steps."""

    problem: Any
    event: Level
    others: tuple[Level, ...]
    t0: float
    end: float | None
    dt: float

    @property
    def steps(self) -> int:
        """The largest number of steps of a path."""
        return LONGEST if self.end is None else len(grid.step_times((self.t0, self.end), self.dt)[1])

    @property
    def span(self) -> tuple[float, float]:
        """When paths begin and end; if no time ends them, of paths of an ordinary length."""
        return self.t0, self.t0 + ORDINARY * self.dt if self.end is None else self.end


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many runs of how many paths answer the question, and from which seed."""

    replicas: int
    runs: int
    kill: float
    seed: int
    tol: float | None

    def suffices(self, estimate: Estimate, runs: int) -> bool:
        """Whether the estimate of that many runs is near enough, or no more are allowed."""
        return self.tol is None or estimate.relative <= self.tol or runs >= MOST_RUNS

    def next_total(self, estimate: Estimate, runs: int) -> int:
        """The total number of runs wanted next: as many as the scatter calls for, at most twice as many as now."""
        relative = estimate.relative
        wanted = runs * (relative / float(self.tol or 1.0)) ** 2 if math.isfinite(relative) else 2 * runs
        return int(min(max(BATCH * math.ceil(1.1 * wanted / BATCH), runs + BATCH), 2 * runs, MOST_RUNS))


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The mean of runs, its standard error, and 95 % bounds on the logarithmic scale."""

    mean: float
    stderr: float
    low: float
    high: float
    scatter: float  # c.o.v. of single runs

    @staticmethod
    def of(estimates: np.ndarray, counted: int = 0) -> Estimate:
        """The estimate from those of single runs, each 1 where all of so many counted paths had the event."""
        count, mean = len(estimates), float(np.mean(estimates))
        spread = float(np.std(estimates, ddof=1))
        if mean == 0:
            return Estimate(0.0, 0.0, 0.0, math.nan, math.nan)
        if counted and np.all(estimates == 1.0):
            return Estimate(1.0, 0.0, 0.025 ** (1.0 / (counted * count)), 1.0, 0.0)
        stderr = spread / math.sqrt(count)
        factor = math.exp(float(scipy.stats.t.ppf(0.975, count - 1)) * stderr / mean)
        return Estimate(mean, stderr, mean / factor, min(mean * factor, 1.0), spread / mean)

    def variables(self) -> dict[str, Any]:
        """The estimate as variables of a Dataset."""
        numbers = {"": self.mean, "_stderr": self.stderr, "_low": self.low, "_high": self.high}
        return {f"probability{name}": ((), value) for name, value in numbers.items()}

    @property
    def relative(self) -> float:
        """The relative standard error; infinite where the mean is 0."""
        return self.stderr / self.mean if self.mean > 0 else math.inf
