"""Runs that each estimate the probability of a rare event, as paths of a run of the engine.

A path of such a run is a whole run of splitting, of subset simulation or of importance sampling, so that blocks, places
and ledgers hold some of these. Run r draws from generators of its own, which depend on the seed and on r alone.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from stodyn.accuracy.rare_estimate import Effort, Estimate
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.program.work import NO_FAILURES, Went
from stodyn.engine.run import Run
from stodyn.engine.spec import Spec
from stodyn.noise import stream
from stodyn.statistics.contract import Labelled, Statistic, Variable


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcomes(Statistic):
    """The outcomes of runs, each with its estimate `probability`; the executor looks at their paths by itself.

    replicas, kill  paths of a run, and the share of them that is replaced per round
    rests_on        a digest of what else the outcomes rest on
    columns         the entries of an outcome that the result shows, by their names there
    """

    collected_by_users = False
    columns: ClassVar[dict[str, str]] = {"estimate": "probability"}
    replicas: int
    kill: float
    rests_on: str = ""

    def observe(self, snapshot):
        return ()

    def merge(self, a, b):
        return a + b

    def label(self, result, labels):
        columns = {name: [getattr(one, entry) for one in result] for name, entry in self.columns.items()}
        return Labelled({name: Variable(("run",), np.array(values)) for name, values in columns.items()})


class Repeated(executors.Executor):
    """Blocks of runs.

    counts  whether an estimate is the share of a run's paths that had the event, where it is 1
    """

    spec: Spec
    counts = True
    width = 1

    @property
    def collect(self) -> Any:
        """The statistic of the outcomes."""
        return self.spec.statistics[0]

    def block(self, layout, block, tell):
        first = layout.first_path(block)
        return Went([self.outcomes(layout.seed, range(first, first + layout.paths_in(block)), tell)], NO_FAILURES, 0)

    @abstractmethod
    def outcomes(self, seed: int, runs: range, tell: executors.Tell) -> list[Any]:
        """The outcomes of some runs; tell(path_steps) is called as work is done, and may raise."""

    @abstractmethod
    def path_steps(self, outcomes: Sequence[Any]) -> int:
        """The number of steps that the paths of runs have made."""

    def variables(self, run: Run, outcomes: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a result shows besides the estimates: further variables, and their coordinates."""
        return {}, {}

    def doubts(self, outcomes: Sequence[Any], estimate: Estimate) -> Iterator[tuple[str, type[Warning]]]:
        """The doubts about an estimate, in words with what to do about them, and the kind of each."""
        yield from ()


class OneByOne(Repeated):
    """Blocks of runs that are computed one after the other."""

    def outcomes(self, seed, runs, tell):
        return [self.outcome(stream.generator(seed, run, "selection"), tell) for run in runs]

    @abstractmethod
    def outcome(self, rng: np.random.Generator, tell: executors.Tell) -> Any:
        """The outcome of one run."""


def run_of(executor: Repeated, effort: Effort) -> Run:
    """The runs that an effort begins with."""
    return Run(executor.spec, Layout(executor.spec, effort.runs, effort.seed, executor.width), executor)
