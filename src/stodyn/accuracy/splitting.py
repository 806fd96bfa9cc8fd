"""Adaptive multilevel splitting: paths that come near a rare event are continued in several ways.

Of N paths from the start, each scored by its best step (the event itself scores infinity), again and again:

    Z = the k-th smallest score;  all paths with scores <= Z are killed, K >= k of them;  p <- p (1 - K/N)
    each killed one becomes a copy of a surviving one, drawn at random, up to and including its first step that scores
    more than Z, and goes on from there with noise of its own

until Z is infinite; p times the share of paths with the event is an unbiased estimate of its probability for every N, k
and score (C.-E. Bréhier, M. Gazeau, L. Goudenège, T. Lelièvre & M. Rousset, Ann. Appl. Prob. 26, 2016). Two details
matter: copies begin at a step that scores strictly more than Z, and all paths that tie with Z are killed.

A segment is the part of a path between two branchings. Segments of a run are numbered in the order in which they begin,
and each has normals of its own, in run k those of path k·2³² + number. Only steps that beat all before them can be
branched from, so only these records are stored.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

REPORT_AT = 0.5  # share of the last reported p at which states are reported again
SEEN = 32  # survivors whose states are stored from such a round
SEGMENTS = 2**32  # most segments of a run


class Segment(NamedTuple):
    """The result of a segment: records (scores, carries) above the score it began with, its last carry, its steps."""

    scores: np.ndarray  # (records,), increasing
    carries: np.ndarray  # (records, size)
    last: np.ndarray  # (size,)
    steps: int
    has_event: bool


@dataclasses.dataclass
class Path:
    """A path: its records, how it ended, and its segments with the step at which each begins."""

    scores: np.ndarray
    carries: np.ndarray
    last: np.ndarray
    has_event: bool
    lineage: tuple[tuple[int, int], ...]

    @property
    def best(self) -> float:
        return math.inf if self.has_event else float(self.scores[-1]) if len(self.scores) else -math.inf

    def first_above(self, score: float) -> int:
        """The index of the first record above a score; the number of records if only the end of the path is."""
        return int(self.scores.searchsorted(score, "right"))


class Outcome(NamedTuple):
    """The outcome of a run: its estimate, its course, and the segments of the paths with the event.

    rounds            the number of rounds of killing
    levels, shares    Z and p of the reported rounds
    means, variances  (rounds, n): those of the states at which survivors could branch
    families          the number of first paths these come from, as if all were equally frequent
    snapshots         (rounds, SEEN, n): the states of some of these survivors
    ancestors         the number of first paths that the last population comes from
    steps, reached    the number of steps that were made, and the best score
    ends              (paths, size): the last carries of the paths with the event
    lineage           (path, segment, first step) of each of these
    begins            (segments, 1 + size): number and first carry of the segments in lineages
    """

    probability: float
    rounds: int
    levels: np.ndarray
    shares: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    families: np.ndarray
    snapshots: np.ndarray
    ancestors: int
    steps: int
    reached: float
    ends: np.ndarray
    lineage: np.ndarray
    begins: np.ndarray


Simulate = Callable[[np.ndarray, np.ndarray], Sequence[Segment]]  # (carries, numbers) -> how each segment went


class Splitting:
    """One run: `wanted` gives the segments to make next, `take` receives their results; `outcome` is set at the end."""

    def __init__(
        self, run_number: int, starts: np.ndarray, kill: float, rng: np.random.Generator, states: slice, clock: int
    ):
        self.run_number, self.kill, self.rng, self.states, self.clock = run_number, kill, rng, states, clock
        self.N, self.share, self.steps = len(starts), 1.0, 0
        self.begins: dict[int, np.ndarray] = dict(enumerate(starts))
        empty = np.empty(0), np.empty((0, starts.shape[1]))
        self.paths = [Path(*empty, start, False, ((k, self._step(start)),)) for k, start in enumerate(starts)]
        self.best = np.full(self.N, -math.inf)  # scores of the paths
        self.waiting = list(range(self.N))  # paths whose last segment has not been made
        self.rounds = 0
        self.reports: list[tuple[float, float, np.ndarray, np.ndarray, float, np.ndarray]] = []
        self.outcome: Outcome | None = None

    def _step(self, carry: np.ndarray) -> int:
        return int(carry[self.clock])

    def wanted(self) -> tuple[np.ndarray, np.ndarray]:
        """The carries and numbers of the segments to be made."""
        numbers = [self.paths[i].lineage[-1][0] for i in self.waiting]
        return np.array([self.begins[s] for s in numbers]), self.run_number * SEGMENTS + np.array(numbers, np.uint64)

    def take(self, segments: Sequence[Segment]) -> None:
        for i, segment in zip(self.waiting, segments, strict=True):
            path = self.paths[i]
            beats = segment.scores.searchsorted(path.scores[-1], "right") if len(path.scores) else 0
            scores = np.concatenate([path.scores, segment.scores[beats:]])
            carries = np.concatenate([path.carries, segment.carries[beats:]])
            self.paths[i] = Path(scores, carries, segment.last, segment.has_event, path.lineage)
            self.best[i] = self.paths[i].best
            self.steps += segment.steps
        self.waiting = []
        while not self.waiting and self.outcome is None:
            self._select()

    def _select(self) -> None:
        level = float(np.partition(self.best, math.ceil(self.kill * self.N) - 1)[math.ceil(self.kill * self.N) - 1])
        killed = self.best <= level
        if level == math.inf:
            self._finish(self.share * float(np.mean(self.best == math.inf)))
            return
        if killed.all():
            self._finish(0.0)
            return
        survivors = np.flatnonzero(~killed)
        self.share *= 1.0 - killed.sum() / self.N
        self.rounds += 1
        if not self.reports or self.share < REPORT_AT * self.reports[-1][1]:
            self._report(level, survivors)
        number = len(self.begins)
        for i, parent in zip(np.flatnonzero(killed), self.rng.choice(survivors, killed.sum()), strict=True):
            source = self.paths[parent]
            k = source.first_above(level)
            if k == len(source.scores):  # the step that ends it: the same path once more
                self.paths[i], self.best[i] = dataclasses.replace(source), self.best[parent]
                continue
            begin = source.carries[k]
            step, parts = self._step(begin), len(source.lineage)
            while parts and source.lineage[parts - 1][1] >= step:
                parts -= 1
            lineage = (*source.lineage[:parts], (number, step))
            self.paths[i] = Path(source.scores[: k + 1], source.carries[: k + 1], begin, False, lineage)
            self.begins[number] = begin
            self.waiting.append(int(i))
            number += 1

    def _report(self, level: float, survivors: np.ndarray) -> None:
        """Store where the survivors first were above the level, for the search for missed ways."""
        states = []
        for i in survivors:
            path, k = self.paths[i], self.paths[i].first_above(level)
            states.append((path.carries[k] if k < len(path.scores) else path.last)[self.states])
        _, sizes = np.unique([self.paths[i].lineage[0][0] for i in survivors], return_counts=True)
        families = len(survivors) ** 2 / np.sum(sizes**2)
        some = np.array(states)[np.linspace(0, len(states) - 1, SEEN).round().astype(int)]
        self.reports.append((level, self.share, np.mean(states, axis=0), np.var(states, axis=0), families, some))

    def _finish(self, probability: float) -> None:
        n, reached = len(self.paths[0].last[self.states]), [path for path in self.paths if path.has_event]
        levels, shares, means, variances, families, snapshots = (
            zip(*self.reports, strict=True) if self.reports else ((),) * 6
        )
        lineage = [(k, *part) for k, path in enumerate(reached) for part in path.lineage]
        used = sorted({segment for _, segment, _ in lineage})
        size = len(self.paths[0].last)
        self.outcome = Outcome(
            probability,
            self.rounds,
            np.array(levels, float),
            np.array(shares, float),
            np.array(means, float).reshape(-1, n),
            np.array(variances, float).reshape(-1, n),
            np.array(families, float),
            np.array(snapshots, float).reshape(-1, SEEN, n),
            len({path.lineage[0][0] for path in self.paths}),
            self.steps,
            max(path.best for path in self.paths),
            np.array([path.last for path in reached]).reshape(-1, size),
            np.array(lineage, np.int64).reshape(-1, 3),
            np.array([[segment, *self.begins[segment]] for segment in used]).reshape(-1, 1 + size),
        )


def run_together(runs: Sequence[Splitting], simulate: Simulate) -> Iterator[int]:
    """Take all runs to their ends, computing their segments in batches; yield the number of steps of each round."""
    while going := [run for run in runs if run.waiting]:
        wanted = [run.wanted() for run in going]
        carries, numbers = (np.concatenate(part) for part in zip(*wanted, strict=True))
        segments = iter(simulate(carries, numbers))
        before = sum(run.steps for run in going)
        for run, (own, _) in zip(going, wanted, strict=True):
            run.take([next(segments) for _ in own])
        yield sum(run.steps for run in going) - before


def records(scores: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which entries of scores (steps, lanes) beat `base` (lanes,) and all before them in their lane; and the best score
    of each lane after them."""
    running = np.maximum.accumulate(np.concatenate([base[None], scores]), axis=0)
    return scores > running[:-1], running[-1]
