"""Adaptive multilevel splitting: paths that come near a rare event are continued in several ways.

Of N paths from the start, each scored by its best step (the event itself scores infinity), again and again:

    Z = the k-th smallest score;  all paths with scores <= Z are killed, K >= k of them;  p <- p (1 - K/N)
    each killed one becomes a copy of a surviving one, drawn at random, up to and including its first step that scores
    more than Z, and goes on from there with noise of its own

until Z is infinite; p times the share of paths with the event is an unbiased estimate of its probability for every N, k
and score (C.-E. Bréhier, M. Gazeau, L. Goudenège, T. Lelièvre & M. Rousset, Ann. Appl. Prob. 26, 2016). Two details
matter: copies begin at a step that scores strictly more than Z, and all paths that tie with Z are killed.

Only steps that beat all before them can be branched from, and only while they score more than Z: these records are
stored. Several runs go side by side; path i of the r-th is lane r N + i of all arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stodyn.engine.branches import NONE, Family, Grown

REPORT_AT = 0.5  # share of the last reported p at which states are reported again
SEEN = 32  # survivors whose states are stored from such a round
SPARE = 1024  # stored carries that are not worth to be dropped


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


class Segments(NamedTuple):
    """How segments went: the steps that beat their scores and all before them, and the end of each segment."""

    segment: np.ndarray  # (records,): which of them made it, in the order of steps for each
    scores: np.ndarray  # (records,)
    carries: np.ndarray  # (records, size)
    last: np.ndarray  # (segments, size)
    best: np.ndarray  # (segments,): the best score; infinity with the event


Simulate = Callable[[np.ndarray, np.ndarray, np.ndarray], Segments]  # of carries, path numbers, and scores to be beaten


class Records:
    """The steps that can be branched from, sorted by lane and in each lane by their scores."""

    def __init__(self, size: int):
        self.lane, self._scores, self._rows = np.empty(0, int), np.empty(0), np.empty(0, int)
        self._carries, self._segments = Grown(np.empty((0, size))), Grown(np.empty(0, int))

    def add(self, lane: np.ndarray, scores: np.ndarray, carries: np.ndarray, segments: np.ndarray) -> None:
        """Add steps of lanes, made by these segments, which score more than those that their lanes have."""
        self._segments.add(segments)
        self._insert(lane, scores, self._carries.add(carries))

    def _insert(self, lane: np.ndarray, scores: np.ndarray, rows: np.ndarray) -> None:
        lanes = np.concatenate([self.lane, lane])
        order = np.argsort(lanes, kind="stable")
        self.lane = lanes[order]
        self._scores = np.concatenate([self._scores, scores])[order]
        self._rows = np.concatenate([self._rows, rows])[order]

    def keep(self, above: np.ndarray) -> None:
        """Keep the records of each lane that score more than its level `above`."""
        still = self._scores > above[self.lane]
        self.lane, self._scores, self._rows = self.lane[still], self._scores[still], self._rows[still]
        if self._carries.count > 2 * self._rows.size + SPARE:
            used, self._rows = np.unique(self._rows, return_inverse=True)
            self._carries, self._segments = (Grown(of.values[used]) for of in (self._carries, self._segments))

    def first(self, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of some lanes have a record, and the place of the first record of each of these."""
        place = np.searchsorted(self.lane, lanes)
        has_one = np.searchsorted(self.lane, lanes, "right") > place
        return has_one, place[has_one]

    def copy(self, places: np.ndarray, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copy records to other lanes; returns their scores, their carries, and the segments that made them."""
        scores, rows = self._scores[places], self._rows[places]
        self._insert(lanes, scores, rows)
        return scores, self._carries.values[rows], self._segments.values[rows]

    def carries(self, places: np.ndarray) -> np.ndarray:
        """The carries of the records at these places."""
        return self._carries.values[self._rows[places]]


class Splitting:
    """Some runs side by side: `wanted` gives the segments to be made next, `take` receives how they went, until nothing
    is wanted; then `outcomes` are complete.

    starts   (runs, N, size): the first carries
    rngs     of each run, for the draws of survivors
    n        the number of components, which are the first entries of a carry
    clock    the entry of a carry that counts its steps
    """

    def __init__(
        self, runs: range, starts: np.ndarray, kill: float, rngs: Sequence[np.random.Generator], n: int, clock: int
    ):
        count, self.N, size = starts.shape
        self.least, self.rngs, self.n, self.clock = math.ceil(kill * self.N), rngs, n, clock
        self.run_of = np.repeat(np.arange(count), self.N)
        self.last = starts.reshape(-1, size).copy()  # carry of each path
        self.family = Family(runs, size)
        self.segment = self.family.begin(self.run_of, NONE, self.last)  # the last one of each path
        self.ancestor = self.segment.copy()
        self.best = np.full(len(self.last), -math.inf)  # scores of the paths
        self.records = Records(size)
        self.waiting = np.arange(len(self.last))  # paths whose last segment has not been made
        self.share, self.rounds, self.steps = np.ones(count), np.zeros(count, int), np.zeros(count)
        self.reports: list[list[tuple]] = [[] for _ in runs]
        self.outcomes: list[Outcome | None] = [None for _ in runs]

    def wanted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The carries with which the segments begin, the paths whose normals they take, and the scores to be beaten."""
        segments = self.segment[self.waiting]
        return self.family.carries(segments), self.family.paths(segments), self.best[self.waiting]

    def take(self, went: Segments) -> None:
        """Take in the segments that were wanted; kill and branch until others are wanted, or all runs have ended."""
        lanes, segments = self.waiting, self.segment[self.waiting]
        begun, ended = self.family.carries(segments)[:, self.clock], went.last[:, self.clock]
        self.steps += np.bincount(self.run_of[lanes], ended - begun, len(self.steps))
        self.last[lanes], self.best[lanes] = went.last, went.best
        self.records.add(lanes[went.segment], went.scores, went.carries, segments[went.segment])
        self.waiting = np.empty(0, int)
        while (idle := self._idle()).size:
            self._select(idle)

    def _idle(self) -> np.ndarray:
        """The runs that have not ended and want no segments."""
        wants = np.bincount(self.run_of[self.waiting], minlength=len(self.outcomes))
        return np.array([run for run, one in enumerate(self.outcomes) if one is None and not wants[run]], int)

    def _select(self, runs: np.ndarray) -> None:
        """Kill the worst paths of some runs, and let them go on from survivors; ends a run without paths to kill."""
        best = self.best.reshape(-1, self.N)[runs]
        level = np.partition(best, self.least - 1, axis=1)[:, self.least - 1]
        is_killed = best <= level[:, None]
        has_ended = (level == math.inf) | is_killed.all(axis=1)
        for run, of_run in zip(runs[has_ended], best[has_ended], strict=True):
            self._finish(run, float(self.share[run] * np.mean(of_run == math.inf)))
        runs, level, is_killed = runs[~has_ended], level[~has_ended], is_killed[~has_ended]
        self.share[runs] *= 1.0 - is_killed.sum(axis=1) / self.N
        self.rounds[runs] += 1
        above = np.full((len(self.share), self.N), -math.inf)
        above[runs] = np.where(is_killed, math.inf, level[:, None])
        self.records.keep(above.ravel())
        lanes, parents = [np.empty(0, int)], [np.empty(0, int)]
        for run, one, of_run in zip(runs, level, is_killed, strict=True):
            killed, survivors = np.flatnonzero(of_run), np.flatnonzero(~of_run)
            if not self.reports[run] or self.share[run] < REPORT_AT * self.reports[run][-1][1]:
                self._report(run, one, run * self.N + survivors)
            lanes.append(run * self.N + killed)
            parents.append(run * self.N + self.rngs[run].choice(survivors, killed.size))
        self._branch(np.concatenate(lanes), np.concatenate(parents))

    def _branch(self, lanes: np.ndarray, parents: np.ndarray) -> None:
        """Make paths copies of others up to their first records, from which they go on; of one that has none, because
        only the step that ends it is above the level, a copy is the same path once more."""
        for of_paths in (self.last, self.best, self.segment, self.ancestor):
            of_paths[lanes] = of_paths[parents]
        goes_on, places = self.records.first(parents)
        lanes = lanes[goes_on]
        self.best[lanes], carries, segments = self.records.copy(places, lanes)
        self.segment[lanes] = self.family.begin(self.run_of[lanes], segments, carries)
        self.waiting = np.concatenate([self.waiting, lanes])

    def _report(self, run: int, level: float, survivors: np.ndarray) -> None:
        """Store where survivors first were above the level, for the search for missed ways."""
        states = self.last[survivors]
        has_record, places = self.records.first(survivors)
        states[has_record] = self.records.carries(places)
        states = np.ascontiguousarray(states[:, : self.n])
        sizes = np.unique(self.ancestor[survivors], return_counts=True)[1]
        families = len(survivors) ** 2 / np.sum(sizes**2)
        some = states[np.linspace(0, len(states) - 1, SEEN).round().astype(int)]
        means, variances = np.mean(states, axis=0), np.var(states, axis=0)
        self.reports[run].append((level, self.share[run], means, variances, families, some))

    def _finish(self, run: int, probability: float) -> None:
        """Store the outcome of a run that has ended."""
        lanes = slice(run * self.N, (run + 1) * self.N)
        reached, n = self.best[lanes] == math.inf, self.n
        ends = self.last[lanes][reached]
        path, segments = self.family.lineage(self.segment[lanes][reached])
        used = np.unique(segments)
        levels, shares, means, variances, families, snapshots = (
            zip(*self.reports[run], strict=True) if self.reports[run] else ((),) * 6
        )
        first_steps = self.family.carries(segments)[:, self.clock].astype(int)
        self.outcomes[run] = Outcome(
            probability,
            int(self.rounds[run]),
            np.array(levels, float),
            np.array(shares, float),
            np.array(means, float).reshape(-1, n),
            np.array(variances, float).reshape(-1, n),
            np.array(families, float),
            np.array(snapshots, float).reshape(-1, SEEN, n),
            len(np.unique(self.ancestor[lanes])),
            int(self.steps[run]),
            float(self.best[lanes].max()),
            ends,
            np.stack([path, self.family.numbers(segments), first_steps], axis=1),
            np.column_stack([self.family.numbers(used), self.family.carries(used)]),
        )


def run_together(splitting: Splitting, simulate: Simulate) -> Iterator[int]:
    """Take all runs to their ends, computing their segments in batches; yield the number of steps of each round."""
    while splitting.waiting.size:
        before = splitting.steps.sum()
        splitting.take(simulate(*splitting.wanted()))
        yield int(splitting.steps.sum() - before)


def records(scores: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which entries of scores (steps, lanes) beat `base` (lanes,) and all before them in their lane; and the best score
    of each lane after them."""
    running = np.maximum.accumulate(np.concatenate([base[None], scores]), axis=0)
    return scores > running[:-1], running[-1]
