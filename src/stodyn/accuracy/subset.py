"""Subset simulation: a rare event reached through the space of the noise, for paths that cannot be split.

A path is a function of the normals of its steps and of those behind its random parameters, u. From N paths,

    Z = the level that a tenth of them scores above;  p <- p/10
    chains go on from that tenth, u' = ρ u + √(1 - ρ²) ξ with fresh normals ξ, taken where u' scores above Z

until a tenth of the paths has the event (S. Au & J. Beck, Prob. Eng. Mech. 16, 2001). Estimates are biased by O(1/N),
and where the score misleads, chains miss the event silently: splitting is better wherever it can be used.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.accuracy.rare_estimate import Effort, Question
from stodyn.accuracy.repeated import OneByOne, Outcomes, run_of
from stodyn.engine.layout import Members
from stodyn.engine.program import executors
from stodyn.engine.run import Run
from stodyn.engine.spec import Spec, describe
from stodyn.methods.stopping import Stop
from stodyn.noise.supply import GivenNormals
from stodyn.statistics.stopping import Stopped
from stodyn.warnings import MissedWays

SEEDS = 0.1  # share of the paths from which chains go on
STAYS = 0.8  # ρ
MOST_LEVELS = 60

Score = Callable[[np.ndarray], np.ndarray]  # of normals (size, paths): how near each came, infinity with the event


class SubsetRun(NamedTuple):
    """The estimate of a run, the number of its levels and of its paths, and the best score."""

    probability: float
    levels: int
    paths: int
    reached: float


def subset(score: Score, size: int, count: int, rng: np.random.Generator) -> SubsetRun:
    """One run with `count` paths at each level; paths are functions of `size` normals."""
    u = rng.standard_normal((size, count))
    scores, share, evaluations = score(u), 1.0, count
    seeds = max(round(SEEDS * count), 1)
    for levels in range(MOST_LEVELS):
        with_event = np.isposinf(scores)
        if with_event.sum() >= seeds:
            return SubsetRun(share * float(with_event.mean()), levels, evaluations, math.inf)
        level = float(np.sort(scores)[-seeds - 1])
        above = np.flatnonzero(scores > level)
        if not above.size:  # all of the best paths share one score
            return SubsetRun(0.0, levels, evaluations, float(scores.max()))
        share *= above.size / count
        u, scores = u[:, above], scores[above]
        samples, kept_scores = [u], [scores]
        while sum(len(one) for one in kept_scores) < count:
            moved = STAYS * u + math.sqrt(1.0 - STAYS**2) * rng.standard_normal(u.shape)
            tried = score(moved)
            evaluations += len(tried)
            is_accepted = tried > level
            u, scores = np.where(is_accepted, moved, u), np.where(is_accepted, tried, scores)
            samples.append(u)
            kept_scores.append(scores)
        u, scores = np.concatenate(samples, axis=1)[:, :count], np.concatenate(kept_scores)[:count]
    return SubsetRun(0.0, MOST_LEVELS, evaluations, float(scores.max()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subsets(Outcomes):
    """The outcomes of runs of subset simulation."""


def subset_run(question: Question, method: Any, effort: Effort, executor: str) -> Run:
    """The runs of subset simulation that answer a question."""
    problem, event, end = question.problem, question.event, question.end
    if end is None:
        raise ValueError('before: by="subset" takes a time, alone or in a list with a level')
    if problem.has_random_start:
        raise ValueError('start: by="subset" takes one start for all paths; let a random parameter stand for it')
    stop = Stop(event, *question.others)
    spec = describe(problem, method, (question.t0, end), question.dt, None, "float64", stop)
    spec = dataclasses.replace(
        spec,
        statistics=(Subsets(replicas=effort.replicas, kill=SEEDS),),
        saves=spec.saves[-1:],
        record={**spec.record, "by": "subset simulation", "event": str(event)},
    )
    return run_of(BySubset(spec, executor), effort)


class BySubset(OneByOne):
    """Blocks of subset simulation, whose paths are functions of normals: those of random parameters, then those of all
    steps."""

    normals = "of the selection"

    def __init__(self, spec: Spec, executor: str):
        self.spec = spec
        ends = Stopped(levels=tuple(str(gauge.level) for gauge in spec.method.gauges), n=spec.problem.n)
        self.program: Any = executors.get(dataclasses.replace(spec, statistics=(ends,)), executor)
        self.name, self.reason = self.program.name, self.program.reason
        self.streams = spec.traced.streams  # type: ignore[union-attr]
        self.random_params: list[Any] = [source for source in spec.problem.param_sources if source.is_random]
        for source, leaf, example in zip(spec.problem.param_sources, spec.param_leaves, spec.examples, strict=True):
            if source.is_random and (source.ppf is None or example.shape):
                raise ValueError(
                    'params: by="subset" takes numbers with a frozen scipy.stats distribution of one variable, got '
                    f"{leaf!r}"
                )
        self.size = len(self.random_params) + spec.steps * sum(count for _, count in self.streams)
        self.start = np.asarray(spec.problem.example_start(), float)

    @property
    def recipe(self) -> Callable[[Spec], executors.Executor]:
        return functools.partial(BySubset, executor=self.name)

    def outcome(self, rng, tell):
        return subset(functools.partial(self.score, tell), self.size, self.collect.replicas, rng)

    def path_steps(self, outcomes):
        return self.spec.steps * sum(one.paths for one in outcomes)

    def doubts(self, outcomes, estimate):
        if estimate.mean == 0:
            nearest = -max(one.reached for one in outcomes)
            words = (
                f"no run reached {self.spec.record['event']}; the nearest path was {nearest:.4g} away from it. Is the "
                "level within reach, and does the distance from it tell paths apart?"
            )
            yield words, MissedWays

    def score(self, tell: executors.Tell, u: np.ndarray) -> np.ndarray:
        """How near each path came to the event: infinity if it reached it."""
        spec, paths = self.spec, u.shape[1]
        lanes = self.program.lanes(paths)
        u = np.ascontiguousarray(u[:, np.arange(lanes) % paths])
        place, normals = len(self.random_params), {}
        for name, count in self.streams:
            normals[name] = u[place : place + spec.steps * count].reshape(spec.steps, count, lanes)
            place += spec.steps * count
        values = iter(source.ppf(scipy.special.ndtr(row)) for source, row in zip(self.random_params, u, strict=False))
        params = [
            np.ascontiguousarray(next(values) if varies else leaf, example.dtype)
            for leaf, example, varies in zip(spec.param_leaves, spec.examples, spec.varies, strict=True)
        ]
        begun = np.repeat(self.start[:, None], lanes, axis=1)
        members = Members(np.arange(lanes) < paths, np.ones(lanes), begun, params)
        went = self.program.paths(members, 0, GivenNormals(normals), lambda steps: tell(steps * paths))
        _, by, closest = went.observed[0][0][0][:3, :paths]
        return np.where(by == 1, np.inf, np.where(np.isfinite(closest), -closest, -np.inf))
