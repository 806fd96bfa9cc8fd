"""The levels of one method in an estimate: their runs, costs and results.

A ladder is used in one of two ways. With levels: a base, differences up to the top, and the top extrapolated. Plainly,
where fine and coarse paths lose each other: a base alone, which may lie above the top, the level on which its bias is
measured (rules.plain_routes).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stodyn.accuracy import rules
from stodyn.accuracy.candidates import Candidate
from stodyn.accuracy.levels import LevelRun, Question, pilot_points
from stodyn.engine.failure import PathsFailed
from stodyn.engine.progress import Progress
from stodyn.statistics.functional import Controlled, Functional, Probability, Watching

TINY = 1e-140  # used for a tolerance of zero; its square is not zero
FAR = 10.0  # times the reach of the finest paths, beyond which a path has run away
NEAR = 0.05  # of the size of f, above which the difference of two levels is large
LOST = 0.125  # share of the variance of f beyond which differences are of little use


class Unattainable(ValueError):
    """Raised where an expectation cannot be estimated as asked; the message says why."""


class Diverged(Unattainable):
    """Raised where the levels of a method are of no use: paths run away because the drift grows faster than linearly,
    or differences do not fall."""


def in_words(reason: Exception) -> str:
    """Why steps or a method failed: what a run of simulate would be advised to do is left out, but for functions that
    are not defined where its paths may have been."""
    return f"{reason.facts} {reason.undefined}".rstrip() if isinstance(reason, PathsFailed) else str(reason)


@dataclasses.dataclass
class Work:
    """A request for one answer, and the history of its error."""

    level: float
    error: float
    relative: bool
    most: float
    seed: int
    points: str
    chooses: bool
    ledger: Any
    history: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)  # path-steps, value, half

    def tolerance(self, value: np.ndarray, half: np.ndarray) -> np.ndarray:
        """The error that the user asks for, for each entry of f."""
        if not self.relative:
            return np.full(value.shape, self.error)
        return self.error * np.maximum(np.abs(value) - half, 0.0)

    def aim(self, value: np.ndarray, half: np.ndarray) -> np.ndarray:
        """The error that the next move aims at; a value that may still be zero counts as half of what it is."""
        if not self.relative:
            return np.full(value.shape, self.error)
        return self.error * np.maximum(np.abs(value) - half, 0.5 * np.abs(value))


class Result(NamedTuple):
    """The interval of an estimate at a look, its bias, its levels with their weights, and the error asked for."""

    interval: rules.Interval
    bias: rules.Bias
    levels: list[rules.Level]
    weights: list[np.ndarray]
    error: np.ndarray


class Ladder:
    """The levels of one method, single paths and pairs; each run begins when it is first needed."""

    def __init__(self, question: Question, candidate: Candidate, work: Work, steps: int):
        self.question, self.candidate, self.work, self.steps = question, candidate, work, steps
        self.least = pilot_points(steps)
        self.runs: dict[tuple[str, int], LevelRun] = {}
        self.base, self.top, self.expected = 0, 2, math.inf
        self.is_plain = False  # whether the base stands alone, the differences telling only its bias
        self.random_from = math.inf  # the first level that takes pseudo-random points
        self.below: Any = None  # the difference below the first one, where it is known
        self.no_below = ""  # why it is not, though it was wanted
        self.dropped = 0  # path-steps of runs that were replaced
        self.result: Any = None  # the Result at the last look

    @property
    def functional(self) -> Functional:
        """The functional by itself, without its control and without the watching of its paths."""
        f: Any = self.question.functional
        while isinstance(f, (Watching, Controlled)):
            f = f.function
        return f

    @property
    def control(self) -> Any:
        """The functional with its control, if it has one, but without the watching of its paths."""
        f: Any = self.question.functional
        return f.function if isinstance(f, Watching) else f

    @property
    def is_controlled(self) -> bool:
        """Whether f has a control, which may leave no variance."""
        return isinstance(self.control, Controlled)

    @property
    def order(self) -> rules.Order:
        return self.candidate.order

    @property
    def unseen(self) -> float:
        """The part of E f that implicit steps damp out on every level so far."""
        fast = self.candidate.fast
        return 0.0 if fast is None else fast.unseen(self.n(max(self.base, self.top)))

    @property
    def spent(self) -> int:
        """The path-steps of all runs so far, of those that were replaced too."""
        return self.dropped + sum(run.spent for run in self.runs.values())

    def n(self, level: int) -> int:
        """The number of steps of a level."""
        return self.steps * 2**level

    def run(self, role: str, level: int) -> LevelRun:
        """The run of single paths (role "base") or of pairs on a level, begun when it is first asked for."""
        if (role, level) not in self.runs:
            kind = "single" if role == "base" else self.candidate.kind
            key = np.random.SeedSequence(self.work.seed, spawn_key=(1 + level, int(role != "base")))
            seed = int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))
            points = self.work.points
            if points == "sobol" and (self.is_plain or (role != "base" and level >= self.random_from)):
                points = "random" if self.work.chooses else points
            folder = None
            if self.work.ledger is not None:
                plain = "-plain" if self.is_plain else ""
                folder = f"{self.work.ledger}/{self.candidate.method.name}-{role}-{level}-n{self.n(level)}{plain}"
            run = LevelRun(self.question, kind, self.n(level), seed, points, folder, self.least)
            self.runs[role, level] = run
        return self.runs[role, level]

    @property
    def question_entries(self) -> int:
        """The number of entries of f."""
        return next(iter(self.runs.values())).entries

    @property
    def is_of_f(self) -> np.ndarray:
        """Which of the entries are those of f, and not derivatives of it."""
        return np.arange(self.question_entries) < self.question_entries // (1 + len(self.question.directions))

    def check_far(self) -> None:
        """Refuse levels on which a path went ten times as far as the finest paths."""
        if self.candidate.watched:
            finest = max(l for role, l in self.runs if role == "difference")
            fine = float(self.runs["difference", finest].largest[0])
            far = max(float(run.largest.max()) for run in self.runs.values() if run.computed)
            if not far <= FAR * fine:
                raise Diverged(f"a path went to |x| = {far:.2g}, and paths of {self.n(finest)} steps to {fine:.2g}")

    def known(self, role: str, level: int) -> Any:
        """The mean of f, or of its differences, on a level, as far as its points tell."""
        return self.runs[role, level].known(slice(0, self.question_entries))

    def fine(self, level: int) -> Any:
        """The estimate of f itself from the fine paths of the differences of a level."""
        k, tells = self.question_entries, self.question.functional.tells
        return self.runs["difference", level].known(slice(k + tells, 2 * k + tells))

    @property
    def used(self) -> list[tuple[str, int]]:
        """The role and the level of every mean that the estimate or the bound on its bias consists of."""
        needed = self.top + 1 - (1 if self.is_plain and not self.order.is_rough else self.order.differences)
        differences = range(needed if self.is_plain else min(self.base + 1, needed), self.top + 1)
        return [("base", self.base), *(("difference", l) for l in differences if l >= 1)]

    def levels(self) -> list[rules.Level]:
        """The means that are used, with standard errors no smaller than is plausible."""
        levels = [rules.Level(role, l, self.known(role, l), self.runs[role, l].cost) for role, l in self.used]
        span = np.max([one.known.span if one.role == "base" else self.fine(one.level).span for one in levels], axis=0)
        return rules.guarded(levels, self.order, span)

    def take(self, route: rules.Prediction) -> None:
        """Take the route of a prediction. Its top is taken one lower, since the bias of a pilot is mostly noise."""
        self.expected, self.is_plain, least = route.cost, route.is_plain, self.order.differences
        self.base, self.top = route.base, route.top if route.is_plain else max(route.top - 1, route.base, least)

    def of_control(self, level: float) -> rules.Interval:
        """The expectation of the control from the points of the estimate, and its interval."""
        k = self.question_entries
        levels = [one._replace(known=self.runs[one.role, one.level].known(slice(k, k + 1))) for one in self.levels()]
        b = self.bias(levels, of_f=False)
        counted = rules.weights(levels, self.base, self.top, self.order, b.extrapolated)
        return rules.interval(levels, counted, b.bound, level)

    def bias(self, levels: Sequence[rules.Level], of_f: bool = True) -> rules.Bias:
        """A bound on the bias, including the part of E f that implicit steps damp out."""
        by = {one.level: one.known for one in levels if one.role != "base"}
        finest = [by[self.top - k] for k in range(self.order.differences)] if self.order.is_rough else []
        if finest and self.is_plain:
            bias = rules.bias_seen_above(finest, self.order, self.base - self.top)
        elif self.is_plain:
            others = {l: self.known("difference", l) for role, l in self.runs if role != "base" and of_f}
            bias = rules.bias_above(others | by, self.top, self.order, self.base)
        elif self.order.is_rough:
            bias = rules.bias_seen(finest, self.order)
        else:
            bias = rules.bias(by[self.top], by[self.top - 1], self.order, self._third() if of_f else None)
        return bias._replace(bound=bias.bound + self.unseen)

    def _third(self) -> Any:
        """The difference below the two finest ones, if it is known."""
        level = self.top - 2
        return (
            self.known("difference", level) if ("difference", level) in self.runs else self.below if not level else None
        )

    def look_below(self, bar: Progress) -> None:
        """Look at the difference below the first one, where level 2 is still so far from level 1 that it is not clear
        how differences fall."""
        Y, P = self.known("difference", 2), self.fine(2)
        size = np.maximum(np.abs(P.mean), np.sqrt(P.variance))
        is_coarsest = self.steps % (2 * self.candidate.unit) != 0
        if self.order.is_rough or is_coarsest or not np.any(np.abs(Y.mean) - 3 * np.sqrt(Y.stderr2) > NEAR * size):
            return
        try:
            self.run("difference", 0).grow(self.least, bar)
            self.below = self.known("difference", 0)
        except (PathsFailed, ValueError) as reason:  # of steps that are longer than those that serve
            self.no_below = f"steps of {self.n(0) // 2} and {self.n(0)} were not compared: {in_words(reason)}"
        finally:
            run = self.runs.pop(("difference", 0), None)
            self.dropped += 0 if run is None else run.spent

    def grow(self, role: str, level: int, points: int, bar: Progress) -> None:
        """Add points to a level, and to the differences that are compared with it."""
        for l in range(level, level - self.order.differences, -1) if self._compares(role, level) else (level,):
            self._grow_one(role, l, points, bar)

    def _compares(self, role: str, level: int) -> bool:
        """Whether a level is the top of a plain route whose bias takes several differences to bound."""
        return self.is_plain and self.order.is_rough and (role, level) == ("difference", self.top)

    def _grow_one(self, role: str, level: int, points: int, bar: Progress) -> None:
        """Add points to a level. A pilot's Sobol points make way for pseudo-random ones on the plain route."""
        run = self.run(role, level)
        points = self.rounded(run, points)
        if self.is_plain and run.points == "sobol" and self.work.chooses and points > run.computed:
            self.dropped += run.spent
            del self.runs[role, level]
            run = self.run(role, level)
        run.grow(points, bar)

    def rounded(self, run: LevelRun, points: int) -> int:
        """Round a number of points up to one that a run can have: Sobol points, and pseudo-random ones up to a block,
        come as a power of two times those of the pilot."""
        if run.points == "sobol" or points < run.run.layout.width:
            return self.least * 2 ** math.ceil(math.log2(points / self.least))
        return points

    def predicted(self) -> list[rules.Prediction]:
        """The costs of all routes to the error, as the pilot predicts them."""
        finest = max(l for role, l in self.runs if role == "difference")
        pairs, singles = {}, {}
        for l in range(1, finest + 1):
            Y, P, run = self.known("difference", l), self.fine(l), self.runs["difference", l]
            pairs[l] = (Y.points * Y.stderr2, run.cost)
            singles[l] = (P.points * P.stderr2, run.steps)
        singles[0] = (singles[1][0], self.n(0))
        b = rules.bias(self.known("difference", finest), self.known("difference", finest - 1), self.order)
        fine = self.fine(finest)
        tolerance = self.work.tolerance(np.maximum(np.abs(fine.mean), np.sqrt(fine.stderr2)), np.zeros(1))
        tolerance = np.maximum(tolerance, TINY)
        lost = self.loses_paths
        routes = rules.predicted(singles, pairs, b.bound, self.order, tolerance, self.work.level, loses_paths=lost)
        return [*routes, *self.plain_routes(tolerance)] if lost else routes

    @property
    def loses_paths(self) -> bool:
        """Whether fine and coarse paths lose each other, so that plain Monte Carlo of weak order 2 is considered."""
        may = self.work.chooses or self.work.points == "random"
        if not may or self.candidate.kind != "pair" or self.order.weak < 2 or isinstance(self.functional, Probability):
            return False
        finest = max(l for role, l in self.runs if role == "difference")
        return bool(np.any(self.known("difference", finest).variance > LOST * self.fine(finest).variance))

    def plain_route(self, error: np.ndarray) -> rules.Prediction:
        """The cheapest plain route from here; the next finer difference where no base is fine enough."""
        routes = self.plain_routes(np.maximum(error, TINY))
        top = max(self.top + 1, self.order.differences)
        further = rules.Prediction(max(self.base + 1, top), top, math.inf, 1.0)
        return min(routes, key=lambda route: route.cost, default=further)

    def plain_routes(self, error: np.ndarray) -> list[rules.Prediction]:
        """The remaining costs of plain Monte Carlo, for each of the differences."""
        levels = sorted(l for role, l in self.runs if role == "difference")
        pairs = {l: (self.known("difference", l), self.runs["difference", l].cost) for l in levels}
        paths = {l: run.computed for (role, l), run in self.runs.items() if role == "base"}
        samples = [self.fine(l) for l in levels] + [self.known("base", l) for l in paths]
        variance = max(samples, key=lambda one: one.points).variance
        return rules.plain_routes(variance, self.n(0), pairs, paths, self.order.planned, error, self.work.level)
