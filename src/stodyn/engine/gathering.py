"""Where the statistics of a run look, and what has been gathered of a block: what they saw, and which paths failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np


class Failures(NamedTuple):
    """The lanes that went bad, the step after which the state of each was first bad, and whether its solve failed."""

    lane: np.ndarray
    step: np.ndarray
    unsolved: np.ndarray


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps of a run, and where its statistics look: save k lies after step saves[k], looks[s][k]: does s look?"""

    t: np.ndarray  # (steps + 1,)
    h: np.ndarray  # (steps,)
    saves: np.ndarray  # increasing; 0 is the start
    looks: tuple[np.ndarray, ...]

    def saves_in(self, first: int, last: int) -> slice:
        """Which saves lie after step `first` and not after step `last`."""
        return slice(*np.searchsorted(self.saves, (first, last), side="right"))


class Went(NamedTuple):
    """How a block went: what each statistic saw over its times (a leading axis), the failures by lane, and how many
    steps were solved no better than rounding allows."""

    observed: list[Any]
    failures: Failures
    rounded: int


class Gathered:
    """What the statistics of a block have seen so far, and the lanes that have gone bad."""

    def __init__(self, plan: Plan):
        self.seen: list[list[Any]] = [[] for _ in plan.looks]
        self.failures: list[Failures] = [Failures(np.empty(0, int), np.empty(0, int), np.empty(0, bool))]
        self.rounded = 0  # steps that were solved no better than rounding allows

    def keep(self, observed: Sequence[Any]) -> None:
        """What each statistic saw at the next saves, a leading axis; None where it did not look."""
        for parts, one in zip(self.seen, observed, strict=True):
            if one is not None:
                parts.append(one)

    def begun_badly(self, bad: np.ndarray) -> None:
        """Lanes that are bad before the first step."""
        lanes = np.flatnonzero(bad)
        self.failures.append(Failures(lanes, np.zeros(lanes.size, int), np.zeros(lanes.size, bool)))

    def gone_bad(self, first: int, bad: np.ndarray, diagnose: Callable) -> None:
        """Lanes that are bad after a call from step `first` on; diagnose() tells after which of its steps each was."""
        fresh = np.setdiff1d(np.flatnonzero(bad), np.concatenate([f.lane for f in self.failures]))
        if fresh.size:
            step, unsolved = map(np.asarray, diagnose())
            self.failures.append(Failures(fresh, first + step[fresh] + 1, unsolved[fresh]))

    def result(self) -> Went:
        found = Failures(*map(np.concatenate, zip(*self.failures, strict=True)))
        order = np.argsort(found.lane)
        observations = [jax.tree.map(lambda *xs: np.concatenate(xs), *parts) for parts in self.seen]
        return Went(observations, Failures(*(part[order] for part in found)), self.rounded)
