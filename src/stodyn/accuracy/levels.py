"""One level of an estimate as a run: paths with n steps, or pairs with n and n/2 on the same noise.

A level is described, laid out and computed like any run, and grows as ledgers do: more points are further blocks.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine import grid
from stodyn.engine.layout import Layout
from stodyn.engine.places.contract import Place
from stodyn.engine.program import executors
from stodyn.engine.progress import Progress
from stodyn.engine.record.ledger import Ledger
from stodyn.engine.run import Run, Tally
from stodyn.engine.simulate import merged, run_of
from stodyn.engine.spec import Spec, describe
from stodyn.engine.where import Where
from stodyn.methods.coupled import FINE, PATHS, Level, Levelled
from stodyn.noise.sobol import RANDOMISATIONS
from stodyn.numerics import tails
from stodyn.numerics.facts.degree import corners
from stodyn.problems.tangents import Direction, WithTangents, followed
from stodyn.statistics.functional import Functional
from stodyn.statistics.moments import Sums, merge_sums, variances
from stodyn.statistics.observable import Observable
from stodyn.statistics.randomised import Randomised

LEAST = 16 * RANDOMISATIONS  # points of a pilot, and where it has many steps:
FEWEST = RANDOMISATIONS
CHEAP = 1e5  # path-steps that pilots may always cost
SHORT = 64  # steps of the coarsest level, beyond which a pilot should leave room for another with twice the steps
PILOT = 9  # path-steps of the differences of levels 1 and 2, per point and step of level 0
DEVICE_PATHS = 2**18  # for which the width of a block on a GPU is taken
BLOCK, NARROWEST = 2**19, 64  # path-steps of a block of pseudo-random paths, and the fewest paths of a block
UNPRINTED = 256  # paths of a block that is not printed


def pilot_points(steps: int) -> int:
    """The number of points of a pilot whose coarsest level has `steps` steps: R times a power of two."""
    wanted = min(max((CHEAP if steps <= SHORT else 0.5 * CHEAP) / (PILOT * steps), FEWEST), LEAST)
    return RANDOMISATIONS * 2 ** int(math.log2(wanted / RANDOMISATIONS))


class LevelEstimate(NamedTuple):
    """A mean over the points of a level and its error; arrays over the entries of f.

    mean, stderr2  the mean and the square of its standard error; freedom: degrees of freedom of stderr2
    variance, kurtosis  of a single point; span: the distance of its values where there are only two, else 0
    different      how many of the means of the randomisations differ
    tail           how heavy the tails of a point are
    """

    points: int
    mean: np.ndarray
    stderr2: np.ndarray
    freedom: float
    variance: np.ndarray
    kurtosis: np.ndarray
    span: np.ndarray
    different: int
    tail: tails.Tail = tails.UNKNOWN

    @property
    def gain(self) -> np.ndarray:
        """The factor by which as many pseudo-random points would have a larger variance of the mean."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.variance / (self.points * self.stderr2)

    @property
    def is_indicator(self) -> np.ndarray:
        """Where the two values are 0 and 1, so that the mean of f (1 - f) is zero: it has three terms of at most the
        size of the mean, the square right to 2 N ε and the others to N ε."""
        mean_of_product = self.mean * (1 - self.mean) - self.variance * (1 - 1 / self.points)
        rounding = 4 * np.finfo(float).eps * self.points * np.abs(self.mean)
        return (self.span > 0) & (np.abs(mean_of_product) <= rounding)


class LevelTotals(NamedTuple):
    """Sums over the paths of a level for each randomisation, the largest size of each number, and its extremes."""

    sums: Sums
    largest: np.ndarray
    extremes: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class LevelSums(Randomised):
    """The statistic that a level collects: the sums of its paths, for each randomisation by itself."""

    def fold(self, observed, block):
        values = np.asarray(observed[0])[0, :, : block.paths]
        with np.errstate(over="ignore", invalid="ignore"):
            return LevelTotals(super().fold(observed, block), np.abs(values).max(axis=1), tails.extremes(values))

    def merge(self, a, b):
        extremes = tails.most_extreme(a.extremes, b.extremes)
        return LevelTotals(super().merge(a.sums, b.sums), np.maximum(a.largest, b.largest), extremes)

    def label(self, result, run):
        return super().label(result.sums, run)


class _LevelledWithTangents(WithTangents):
    """The paths of a level with their derivatives; all of them begin at the same start."""

    @property
    def first_tangents(self):
        copies = self.problem.copies
        return np.tile(super().first_tangents[:, : self.problem.n // copies], (1, copies))


def differentiated(levelled: Levelled, directions: tuple[Direction, ...]) -> tuple[Any, Callable]:
    """The paths of a level with their derivatives, and the numbers that it averages as a function (t, x, params).

    They are P of a single path and its derivatives, or Y of a pair and its derivatives, then P and those of P.
    """
    if not directions:
        return levelled, levelled.values
    problem = followed(levelled, directions, _LevelledWithTangents)

    def values(t, x, params):
        parts = derivatives(problem, levelled.values, t, x, params)
        averaged = parts[0].size - (levelled.copies if levelled.functional.watches else 0)
        size = averaged if levelled.kind == "single" else averaged // 2
        groups = [part[k : k + size] for k in range(0, averaged, size) for part in parts]
        return jnp.concatenate([*groups, parts[0][averaged:]])

    return problem, values


def derivatives(problem: WithTangents, function: Callable, t: Any, x: Any, params: Any) -> list[Any]:
    """A function (t, x, params) of the state without tangents, and its derivatives in each direction."""
    n, count = problem.problem.n, len(problem.directions)

    def f(own, values):
        return function(t, own, problem.with_values(params, values))

    value, push = jax.linearize(f, x[:n], problem.values(params))
    tangents = jnp.asarray(problem.value_tangents, x.dtype)
    return [value, *(push(row, along) for row, along in zip(x[n:].reshape(count, n), tangents, strict=True))]


def _is_prepared(spec: Spec, step: float) -> bool:
    """Whether a level that is described already serves steps of another length too."""
    method, problem = spec.method, spec.problem
    if isinstance(problem, WithTangents):
        method, problem = method.method, problem.problem
    return bool(method.prepared(problem, step) == method)


@dataclasses.dataclass(frozen=True)
class Question:
    """The question that all levels share: the problem as the method takes it, the functional, where it runs, and the
    directions in which its paths are differentiated."""

    problem: Any
    method: Any
    functional: Any
    t: tuple[float, float]
    place: Place
    devices: tuple[Any, ...] = ()
    directions: tuple[Direction, ...] = ()

    @functools.cached_property
    def gathered(self) -> int:
        """How many numbers the functional gathers along a path."""
        problem = self.problem
        with jax.enable_x64(True):
            shapes = jax.eval_shape(
                lambda x: self.functional.begin(problem, jnp.asarray(self.t[0]), x, problem.example_params()),
                jax.ShapeDtypeStruct((problem.n,), np.float64),
            )
        return shapes.shape[0]

    @functools.cached_property
    def has_corners(self) -> bool:
        """Whether the function compares, clips or rounds, so that it may have a part that few points show."""
        functional, problem = self.functional, self.problem
        while isinstance(functional.function, Functional):
            functional = functional.function
        with jax.enable_x64(True):
            x, params = jnp.asarray(problem.example_start(), float), problem.example_params()
            return bool(corners(lambda x: functional.value(problem, self.t[1], x, params), (x,), 0))

    def spec(self, kind: str, steps: int) -> Spec:
        """A level with `steps` (coarse) steps; described once for each kind, as long as the method stays the same."""
        start, end = self.t
        step = (end - start) / steps
        known = self._described.get(kind)
        if known is not None and _is_prepared(known, step):
            times, lengths = grid.step_times(self.t, step)
            return dataclasses.replace(known, times=times, lengths=lengths, saves=(np.array([steps]),))
        levelled = Levelled(self.problem, self.functional, kind, self.gathered, start)

        problem, numbers = differentiated(levelled, self.directions)

        def values(t, x, params=None):
            return numbers(t, x, params)

        collect = LevelSums(Observable(values, name="f", at=[end]), at=[end])
        spec = describe(problem, Level(self.method, kind, self.functional), self.t, step, collect, "float64")
        self._described[kind] = spec
        return spec

    def executor(self, kind: str, spec: Spec) -> executors.Executor:
        """How a level is computed; levels of one kind share their program while only their times differ."""
        known = self._executors.get(kind)
        if (
            known is not None
            and known.spec.traced is spec.traced
            and known.spec.has_equal_steps == spec.has_equal_steps
        ):
            return known.on_grid(spec)
        program = executors.get(spec)
        if isinstance(program, executors.ByPrint):
            self._executors[kind] = program
        return program

    @functools.cached_property
    def _described(self) -> dict[str, Spec]:
        return {}

    @functools.cached_property
    def _executors(self) -> dict[str, executors.ByPrint]:
        return {}


class LevelRun:
    """A level that grows: "single" with `steps` steps, or "pair" and "antithetic" with `steps` and half as many."""

    def __init__(
        self,
        question: Question,
        kind: str,
        steps: int,
        seed: int,
        points: str,
        ledger: Any = None,
        least: int = LEAST,
    ):
        self.kind, self.steps, self.points = kind, steps, points
        self.place, self.ledger, self.spent = question.place, ledger, 0
        self.copies, self.functional = PATHS[kind], question.functional
        spec = question.spec(kind, steps if kind == "single" else steps // 2)
        if question.devices:
            run = run_of(spec, DEVICE_PATHS, seed, Where(question.place, question.devices))
            self.run = dataclasses.replace(run, layout=dataclasses.replace(run.layout, shuffles=True))
        else:
            executor = question.executor(kind, spec)
            is_printed = isinstance(executor, executors.ByPrint)
            width = 2 ** int(math.log2(executor.width)) if is_printed else UNPRINTED
            if points == "random":  # whole blocks of long paths would be far more than is wanted
                width = min(width, max(2 ** int(math.log2(BLOCK / steps)), NARROWEST))
            layout = Layout(spec, least, seed, width, least if is_printed else None, points, shuffles=True)
            self.run = Run(spec, layout, executor)
        self.tally = Tally(self.run, "raise")
        self.computed = 0
        self._sums: tuple[int, Sums, Sums] | None = None
        self._known: dict[tuple[int, int, int], LevelEstimate] = {}

    @property
    def cost(self) -> int:
        """The number of path-steps that one point takes."""
        return self.steps if self.kind == "single" else FINE[self.kind] * self.steps + self.steps // 2

    def grow(self, points: int, bar: Progress) -> None:
        """Compute until there are `points` points in all; whole blocks beyond the first few."""
        layout = self.run.layout
        if points > layout.width:
            points = -(-points // layout.width) * layout.width
        if points <= self.computed:
            return
        before = self.run.layout
        if self.computed and before.first_path(before.whole_blocks) == before.paths:
            self.run, further = self.run.grown(points), points - self.computed
        else:  # the beginning of an unfinished block is computed again
            layout, further = dataclasses.replace(layout, paths=points), points
            self.run = dataclasses.replace(self.run, layout=layout, first_block=0)
            self.tally = Tally(self.run, "raise")
        with jax.enable_x64(True):
            ledger = None if self.ledger is None else Ledger(self.ledger, self.run)
            merged(self.run, self.place, bar, "raise", ledger, self.tally)
        self.spent += further * self.cost
        self.computed = points

    @property
    def entries(self) -> int:
        """The number of entries of f."""
        watched = self.copies if self.functional.watches else 0
        each = (self.tally.merged[0].largest.size - watched) // (1 if self.kind == "single" else 2)
        return each - self.functional.tells

    @property
    def largest(self) -> np.ndarray:
        """The reach of the paths, the fine ones first; only where they are watched."""
        return self.tally.merged[0].largest[-self.copies :]

    @property
    def sums(self) -> tuple[Sums, Sums]:
        """The sums of each randomisation, and of all points."""
        if self._sums is None or self._sums[0] != self.computed:
            parts = whole = self.tally.merged[0].sums
            for half in (2**k for k in reversed(range(RANDOMISATIONS.bit_length() - 1))):
                whole = merge_sums(Sums(*(part[:half] for part in whole)), Sums(*(part[half:] for part in whole)))
            self._sums = self.computed, parts, whole
        return self._sums[1:]

    def known(self, entries: slice) -> LevelEstimate:
        """Means and errors of some of the numbers of a level: for pairs Y comes first, then P of the fine path."""
        key = (self.computed, entries.start, entries.stop)
        if key not in self._known:
            self._known = {k: v for k, v in self._known.items() if k[0] == self.computed} | {key: self._find(entries)}
        return self._known[key]

    def _find(self, entries: slice) -> LevelEstimate:
        """Compute what `known` returns from the sums of all points."""
        parts, whole = self.sums
        means = parts.mean[:, entries]
        N = float(whole.weight[0])
        m2, m4 = variances(whole)[0][entries] / N, whole.fourth[0][entries] / N
        variance = m2 * N / (N - 1)
        with np.errstate(all="ignore"):
            kurtosis = np.where(m2 > 0, m4 / m2 / m2, 3.0)
            kurtosis = np.where(
                kurtosis >= 0.99, kurtosis, np.inf
            )  # less where powers underflow, NaN where they overflow
        if self.points == "sobol":
            stderr2, freedom = means.var(axis=0, ddof=1) / RANDOMISATIONS, RANDOMISATIONS - 1.0
        else:
            stderr2, freedom = variance / N, N - 1
        different = min(len(np.unique(column)) for column in means.T)
        span = self._span(whole, entries)
        mean, extremes = means.mean(axis=0), self.tally.merged[0].extremes[:, entries]
        tail = tails.tail(extremes, mean, int(N))
        return LevelEstimate(int(N), mean, stderr2, freedom, variance, kurtosis, span, different, tail)

    @staticmethod
    def _span(whole: Sums, entries: slice) -> np.ndarray:
        """The distance of the two values of what has only two, √(4 μ2 + (μ3/μ2)²); 0 for anything else.

        A law has two values where μ4 μ2 = μ3² + μ2³: here in units of its deviation σ, for f may be tiny. Sums of N
        terms are right to N ε, and terms of distances from a mean that is off by ε |mean| to ε |mean|/σ times the power
        that they are raised to; kurtosis and skewness² consist of ten such factors."""
        N = whole.weight[0]
        m2, m3, m4 = (s / N for s in (variances(whole)[0], whole.third[0], whole.fourth[0]))
        with np.errstate(all="ignore"):
            kurtosis, skewness = m4 / m2 / m2, m3 / m2 / np.sqrt(m2)
            off = np.abs(kurtosis - skewness**2 - 1.0) / kurtosis
            rounding = 10.0 * np.finfo(float).eps * (N + np.abs(whole.mean[0]) / np.sqrt(m2))
            return np.where((off <= rounding) & (m2 > 0), np.sqrt(m2 * (4 + skewness**2)), 0.0)[entries]
