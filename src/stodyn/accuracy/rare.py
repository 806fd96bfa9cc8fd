"""Probabilities of rare events, by adaptive multilevel splitting (accuracy/splitting.py), or for linear systems by
importance sampling (accuracy/elementary.py), or where paths cannot be split by subset simulation (accuracy/subset.py).

R independent runs of N paths each give estimates p_1, ..., p_R, every one of them unbiased:

    p = their mean,   stderr = s/√R,   95 %:  p exp(± t_(R-1) stderr/p)

The interval is taken on the logarithmic scale, since estimates are skewed to the right; it is never taken from one run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import scipy
import xarray as xr

from stodyn.accuracy import scores, ways
from stodyn.accuracy.elementary import elementary, sampled_estimates
from stodyn.accuracy.splitting import Outcome, Segment, Splitting, records, run_together
from stodyn.accuracy.subset import subset
from stodyn.arguments import stacklevel_of_user
from stodyn.engine import grid
from stodyn.engine.door import front_door
from stodyn.engine.failure import PathsFailed
from stodyn.engine.layout import Members
from stodyn.engine.places.contract import Place
from stodyn.engine.program import executors
from stodyn.engine.program.work import Plan
from stodyn.engine.progress import Progress
from stodyn.engine.record import identity
from stodyn.engine.record.job import Job, Tell
from stodyn.engine.record.ledger import Ledger
from stodyn.engine.spec import Spec, as_it_is_now, chosen_method, describe
from stodyn.engine.where import where_of
from stodyn.hints import Count, Integer, check_seed
from stodyn.methods.branching import EVENT, GOES_ON, beginning, branching, carried
from stodyn.methods.contract import Catalogued
from stodyn.methods.stopping import Stop
from stodyn.methods.switching import refuse_switches
from stodyn.noise import stream
from stodyn.noise.supply import GivenNormals, Numbered
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.contract import written_as
from stodyn.problems.level import SIDES, Level
from stodyn.problems.sde import SDE
from stodyn.statistics.contract import is_whole
from stodyn.statistics.moments import Valued
from stodyn.warnings import MissedWays, Skewed

LONGEST = 200_000  # steps that a path may take where `before` has no time
RUNS_PER_BLOCK = 4  # runs per block, whose segments are made together
SKEWED = 0.7  # c.o.v. of single runs beyond which their mean is too low most of the time
FEW_ANCESTORS, FAR_FROM_IDEAL, DIFFERENT = 5, 2.0, 3.0  # limits beyond which a result is called doubtful
CLOCK = 3  # place of the number of steps in a carry, from its end
RETURNED_PATHS = 16  # paths with the event that are returned
MOST_RUNS = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class _WholeState(Valued):
    """Everything that the method shows of every path."""

    def values(self, snapshot):
        return snapshot.x

    def merge(self, a, b):
        raise AssertionError("observed call by call")

    label = merge


@front_door
def rare(
    problem: Any,
    method: Catalogued | str | None = None,
    *,
    event: Level,
    before: float | Level | Sequence[Any],
    dt: float,
    seed: Integer,
    t0: float = 0.0,
    replicas: Count = 128,
    runs: Count = 16,
    kill: float = 0.25,
    score: str | Callable | None = None,
    tol: float | None = None,
    by: str = "splitting",
    threads: Integer | None = None,
    place: Place | None = None,
    ledger: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Estimate the probability that an event happens before a time, or before another level is reached, however rare.

    Parameters
    ----------
    problem, method
        As in `simulate`; a method that makes steps.
    event : Level
        The event: a level reached from one side, or a pair of levels left on either side.
    before : number, Level or list of both
        The time up to which the event counts, another level that ends a path without it, or both.
    dt, t0 : float
        The length of the steps, and the time at which paths begin. Within steps the event is detected by bridges or
        cubics, as everywhere; long steps cost variance, but add no bias beyond that of the method.
    seed : int
        A whole number >= 0.
    replicas, runs : int
        The number of paths per run, and the initial number of independent runs. The error comes from the scatter of the
        runs.
    kill : float
        The share of the paths that is replaced per round; it hardly matters.
    score : None, "index", "distance", "amplitude" or callable
        How near a state is to the event; a function of (t, x[, params]) can be given. None: the reliability index of
        the remaining time where the problem is linear with additive noise and a time is given, otherwise the distance
        from the level. The better the score predicts which states lead to the event, the smaller the error; the mean is
        right with any score.
    tol : float, optional
        Add runs until the relative standard error is below this.
    by : "splitting", "elementary" or "subset"
        "splitting": splitting of paths, for every problem. "elementary": importance sampling from elementary events,
        for a linear function of a linear problem with additive noise and a fixed start, before a time: steps are exact
        and the relative error is about 1/√(replicas runs) however rare the event is, but the event is only looked for
        at the ends of steps. "subset": chains in the space of all normals, including those behind random parameters,
        before a time; biased by O(1/replicas), so give about 1000 replicas.
    threads, place, ledger, progress
        As in `simulate`. The result depends only on the seed and the options above; a ledger can be continued with more
        runs.

    Returns
    -------
    xarray.Dataset
        probability, probability_stderr, probability_low and probability_high (95 %, on the logarithmic scale); for each
        run (run): estimate, ancestors, iterations, path_steps; up to 16 of the paths that reached the event: event_path
        (number, time, component), NaN after the event, and event_time (number).

    Raises
    ------
    TypeError, ValueError
        If an argument is impossible, or `by` does not suit the problem; the error names the argument.

    Warns
    -----
    Skewed
        If the runs scatter so much that the estimate is probably low.
    MissedWays
        If there are signs that some ways to the event were missed.

    Notes
    -----
    Nothing reveals a way to the event that no run has ever taken, but some signs lead to a warning: all paths come from
    few first paths, runs went different ways, or runs scatter more than a good score would let them. Repeat with four
    times the replicas: if the estimate grows by more than two standard errors, it had missed a way.

    Examples
    --------
    >>> import stodyn as sd
    >>> problem = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 0.0)
    >>> result = sd.rare(problem, event=sd.Level(3.0), before=1.0, dt=0.1, seed=1, by="elementary", runs=4)
    >>> bool(result["probability_low"] < result["probability"] < result["probability_high"])
    True
    """
    began = time.perf_counter()
    refuse_switches(problem, "rare")
    problem = as_it_is_now(problem)
    _check(event, dt, t0, replicas, runs, kill, tol, seed)
    end, others = _ends(before, t0)
    _check_start(problem, event, others, float(t0))
    question = Question(problem, event, others, float(t0), end, float(dt))
    effort = Effort(int(replicas), int(runs), float(kill), int(seed), tol)
    if by == "elementary":
        _refuse(f'by="{by}" takes exact steps and draws whole paths at once; leave it out',
                method=method, score=score, place=place, ledger=ledger)  # fmt: skip
        return _by_elementary(question, effort, began)
    if by == "subset":
        _refuse(f'by="{by}" scores by the distance from the level, in one thread; leave it out',
                score=score, place=place, ledger=ledger)  # fmt: skip
        return _by_subset(question, method, effort, began)
    if by != "splitting":
        raise ValueError(f'by: expected "splitting", "elementary" or "subset", got {by!r}')
    where = where_of(threads=threads, place=place).place
    job = splitting_job(question, chosen_method(problem, method), score, effort)
    outcomes: list[Outcome] = []
    open_ledger = None
    with jax.enable_x64(True), Progress(0, progress, "splitting", where.link) as bar:
        while True:
            open_ledger = None if ledger is None else Ledger(ledger, job)
            for block, part in enumerate(where.parts(job, open_ledger, bar.advance), job.first_block):
                with contextlib.nullcontext() if open_ledger is None else open_ledger.fitting(block):
                    outcomes += [Outcome(*outcome) for outcome in part]
            estimate = Estimate.of(np.array([outcome.probability for outcome in outcomes]))
            enough = tol is None or estimate.relative <= tol or len(outcomes) >= MOST_RUNS
            if enough:
                break
            job = job.grown(_more(len(outcomes), estimate.relative, tol))
        result = _dataset(job, outcomes, estimate, began)
    _warn(job, outcomes, estimate)
    if open_ledger is not None:
        open_ledger.finish(result)
    return result


def _more(runs: int, relative: float, tol: float | None) -> int:
    """The total number of runs wanted next: as many as the scatter calls for, at most twice as many as now."""
    wanted = runs * (relative / float(tol or 1.0)) ** 2 if math.isfinite(relative) else 2 * runs
    return int(
        min(max(RUNS_PER_BLOCK * math.ceil(1.1 * wanted / RUNS_PER_BLOCK), runs + RUNS_PER_BLOCK), 2 * runs, MOST_RUNS)
    )


# --- the arguments ----------------------------------------------------------------------------------------------------


def _check(event: Any, dt: Any, t0: Any, replicas: Any, runs: Any, kill: Any, tol: Any, seed: Any) -> None:
    if not isinstance(event, Level):
        raise TypeError(f"event: expected stodyn.Level(...), got {event!r}")
    for name, value in (("dt", dt), ("t0", t0)):
        if not isinstance(value, (int, float, np.number)) or not math.isfinite(value) or (name == "dt" and value <= 0):
            raise ValueError(f"{name}: expected a {'positive ' * (name == 'dt')}number, got {value!r}")
    for name, value, least in (("replicas", replicas, 4), ("runs", runs, 2)):
        if not is_whole(value) or value < least:
            raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}")
    if not isinstance(kill, (int, float, np.number)) or not 0 < kill < 1:
        raise ValueError(f"kill: expected a share between 0 and 1, got {kill!r}")
    if tol is not None and (not isinstance(tol, (int, float, np.number)) or not 0 < tol < 1):
        raise ValueError(f"tol: expected a relative error between 0 and 1, such as 0.1, got {tol!r}")
    check_seed(seed)


def _ends(before: Any, t0: float) -> tuple[float | None, tuple[Level, ...]]:
    """The time and the levels that end paths without the event."""
    ends = list(before) if isinstance(before, (list, tuple)) else [before]
    levels = tuple(one for one in ends if isinstance(one, Level))
    times = [one for one in ends if not isinstance(one, Level)]
    if len(times) > 1 or not all(isinstance(one, (int, float, np.number)) for one in times) or not ends:
        raise TypeError(f"before: expected a time, a stodyn.Level or a list of both, got {before!r}")
    if times and not times[0] > t0:
        raise ValueError(f"before: expected a time after t0 = {t0:g}, got {times[0]!r}")
    return (float(times[0]) if times else None), levels


def _check_start(problem: Any, event: Level, others: tuple[Level, ...], t0: float) -> None:
    """Refuse levels that every path has reached when it begins."""
    for name, level in (("event", event), *(("before", other) for other in others)):
        reached = level.on(problem, t0).reached_at_start(t0)
        if reached is not None:
            raise ValueError(f"{name}: {reached}")


def _refuse(reason: str, **arguments: Any) -> None:
    """Refuse arguments that would not be used."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}: {reason}")


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


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many runs of how many paths answer the question, and from which seed."""

    replicas: int
    runs: int
    kill: float
    seed: int
    tol: float | None


def splitting_job(question: Question, method: Catalogued, score: str | Callable | None, effort: Effort) -> Splits:
    """Return the runs of splitting that answer the question."""
    dt, t0, steps = question.dt, question.t0, question.steps
    stop = Stop(question.event, *question.others)
    spec = describe(question.problem, method, (t0, t0 + 2 * dt), dt, _WholeState(every=1), "float64", stop)
    stopping: Any = spec.method
    gauge = stopping.gauges[0]
    function, words = _score(score, gauge, question)
    branched, branches = branching(stopping, spec.problem, function, t0, steps, spec.varies)
    branching_spec = dataclasses.replace(
        spec, problem=branched, method=branches, statistics=spec.statistics[:1], saves=spec.saves[:1], levels=0
    ).traced_anew()
    record = {**spec.record, "event": str(question.event), "score": words}
    watched = tuple(gauge.components)
    return Splits(branching_spec, steps, effort.replicas, effort.runs, effort.kill, effort.seed, dt, t0, record,
                  spec.problem.param_sources, watched)  # fmt: skip


def _score(score: Any, gauge: Any, question: Question) -> tuple[Callable, str]:
    if score is None or score == "index":
        has_time = question.end is not None
        index = scores.index(gauge, question.dt, question.steps, question.t0) if has_time else None
        if index is not None:
            return index, "index of the rest of a linear problem"
        if score == "index":
            reason = "the problem, its noise or the function is not linear, or moves with time" if has_time else \
                     "no time is given"  # fmt: skip
            raise ValueError(
                f'score: "index" does not apply: {reason}. Give "distance" or a function of (t, x[, params])'
            )
        return scores.distance, "distance from the level"
    if score == "distance":
        return scores.distance, "distance from the level"
    if score == "amplitude":
        return scores.amplitude(gauge), "amplitude of an oscillator"
    if not callable(score):
        raise ValueError(
            f'score: expected None, "index", "distance", "amplitude" or a function of (t, x[, params]), got {score!r}'
        )
    return scores.from_function(score, gauge.problem), "given"


# --- linear problems --------------------------------------------------------------------------------------------------


def _by_elementary(question: Question, effort: Effort, began: float) -> xr.Dataset:
    """`rare` by importance sampling."""
    if question.others or question.end is None:
        raise ValueError('before: by="elementary" takes a time; for another level take by="splitting"')
    problem, event, t0, steps = question.problem, question.event, question.t0, question.steps
    sde = written_as(problem, SDE)
    try:
        if sde is None:
            raise scores.NotLinear(f"{type(problem).__name__} cannot be written as an SDE here")
        if problem.has_random_start:
            raise scores.NotLinear("the start is random, as the stationary start of coloured noise is")
        parts = scores.linear_parts(event.on(sde, t0))
    except scores.NotLinear as error:
        raise ValueError(
            'by: "elementary" needs a linear problem with additive noise that does not depend on time, a fixed start, '
            f'and a level of a linear function of the state, but {error}. Take by="splitting"'
        ) from error
    bounds = tuple(zip(SIDES[str(event.direction)], event.bounds, strict=True))
    events = elementary(parts, np.asarray(sde.example_start(), float), question.dt, steps, bounds)
    if events.total == 0:
        raise ValueError(
            f"event: noise does not reach {event.on(sde, t0).words}, or {event} is so far off that its probability "
            "underflows to 0"
        )

    def estimate(number: int) -> float:
        return float(
            sampled_estimates(events, effort.replicas, stream.generator(effort.seed, number, "selection")).mean()
        )

    estimates = _repeated(estimate, effort)
    record = {
        "problem": type(problem).__name__,
        "method": "exact steps (van Loan), elementary events",
        **_record(question, effort, len(estimates)),
        "path_steps": len(estimates) * effort.replicas * steps,
        **_versions(began),
    }
    return _labelled(estimates, record)


def _repeated(estimate: Callable[[int], float], effort: Effort) -> list[float]:
    """The values of estimate(number) for as many runs as the tolerance takes."""
    estimates: list[float] = []
    runs, tol = effort.runs, effort.tol
    while True:
        estimates += [estimate(number) for number in range(len(estimates), runs)]
        relative = Estimate.of(np.array(estimates)).relative
        if tol is None or relative <= tol or runs >= MOST_RUNS:
            return estimates
        runs = _more(runs, relative, tol)


def _record(question: Question, effort: Effort, runs: int) -> dict[str, Any]:
    """The part of a result's provenance that describes its question and its effort."""
    return {"event": str(question.event), "runs": runs, "replicas": effort.replicas, "seed": effort.seed,
            "dt": question.dt, "t0": question.t0}  # fmt: skip


def _labelled(estimates: list[float], record: dict[str, Any]) -> xr.Dataset:
    """The result of runs of which only the estimates are stored."""
    variables = {**Estimate.of(np.array(estimates)).variables(), "estimate": (("run",), np.array(estimates))}
    return xr.Dataset(variables, attrs={"provenance": json.dumps(record)})


# --- black boxes ------------------------------------------------------------------------------------------------------


def _by_subset(question: Question, method: Any, effort: Effort, began: float) -> xr.Dataset:
    """`rare` by subset simulation."""
    problem, event, end = question.problem, question.event, question.end
    if end is None:
        raise ValueError('before: by="subset" takes a time, alone or in a list with a level')
    if problem.has_random_start:
        raise ValueError('start: by="subset" takes one start for all paths; let a random parameter stand for it')
    stop = Stop(event, *question.others)
    spec = describe(problem, method, (question.t0, end), question.dt, None, "float64", stop)
    box = _Box(dataclasses.replace(spec, statistics=spec.statistics[-1:], saves=spec.saves[-1:]))
    runs: list[Any] = []

    def estimate(number: int) -> float:
        runs.append(subset(box.score, box.size, effort.replicas, stream.generator(effort.seed, number, "selection")))
        return runs[-1].probability

    with jax.enable_x64(True):
        estimates = _repeated(estimate, effort)
    if not any(estimates):
        nearest = -max(run.reached for run in runs)
        warnings.warn(
            f"rare: no run reached {event}; the nearest path was {nearest:.4g} away from it. Is the level within "
            "reach, and does the distance from it tell paths apart?",
            MissedWays,
            stacklevel=stacklevel_of_user(),
        )
    record = {
        **spec.record,
        "by": "subset simulation",
        **_record(question, effort, len(estimates)),
        "path_steps": spec.steps * sum(run.paths for run in runs),
        **_versions(began),
    }
    return _labelled(estimates, record)


class _Box:
    """Paths as a function of normals: those of random parameters, then those of all steps."""

    def __init__(self, spec: Spec):
        self.spec, self.executor = spec, executors.get(spec)
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

    def score(self, u: np.ndarray) -> np.ndarray:
        """How near each path came to the event: infinity if it reached it."""
        spec, paths = self.spec, u.shape[1]
        lanes = executors.lanes_for(paths)
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
        executor: Any = self.executor
        went = executor.paths(
            Members(np.arange(lanes) < paths, np.ones(lanes), begun, params), 0, GivenNormals(normals)
        )
        _, by, closest = went.observed[0][0][0][:3, :paths]
        return np.where(by == 1, np.inf, np.where(np.isfinite(closest), -closest, -np.inf))


def _versions(began: float) -> dict[str, Any]:
    return {
        "versions": identity.versions(),
        "seconds": round(time.perf_counter() - began, 3),
    }


# --- the runs ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Splits(Job):
    """The runs of splitting as a job; a block holds RUNS_PER_BLOCK of them."""

    spec: Spec
    steps: int
    replicas: int
    runs: int
    kill: float
    seed: int
    dt: float
    t0: float
    record: dict[str, Any]
    drawn_from: tuple[Any, ...]  # the sources of the parameters, leaf by leaf
    watched: tuple[int, ...]  # the components that the event depends on
    first_block: int = 0

    @property
    def paths(self) -> int:  # type: ignore[override]
        return self.runs

    @property
    def blocks(self) -> int:
        return -(-self.runs // RUNS_PER_BLOCK)

    def paths_in(self, block: int) -> int:
        return min(RUNS_PER_BLOCK, self.runs - block * RUNS_PER_BLOCK)

    def path_steps(self, block: int) -> int:
        return 0

    def grown(self, runs: int) -> Splits:
        """The same job with more runs; those of its whole blocks are done."""
        return dataclasses.replace(self, runs=runs, first_block=self.blocks)

    @functools.cached_property
    def program(self) -> Any:
        try:
            return executors.ByPrint(self.spec).program
        except executors.Unprintable as error:
            raise ValueError(f"problem: paths that branch need a printed program, but there is none: {error}") from None

    @property
    def plan(self) -> Plan:
        times = self.t0 + self.dt * np.arange(self.steps + 1)
        return Plan(times, np.full(self.steps, self.dt), np.arange(1, self.steps + 1), ())

    def compute(self, block: int, tell: Tell) -> list[Outcome]:
        n, size = self.spec.problem.problem.n, self.spec.problem.n
        runs = [
            Splitting(
                r, self.starts(r), self.kill, stream.generator(self.seed, r, "selection"), slice(0, n), size - CLOCK
            )
            for r in range(block * RUNS_PER_BLOCK, block * RUNS_PER_BLOCK + self.paths_in(block))
        ]
        for steps in run_together(runs, self.simulate):
            tell(steps)
        return [run.outcome for run in runs]  # type: ignore[misc]

    def starts(self, number: int) -> np.ndarray:
        """The first carries of a run, by its number."""
        branched: Any = self.spec.problem
        paths = range(self.replicas)
        columns = [branched.problem.draw_start(stream.generator(self.seed, number, "start"), paths)]
        for k, source in enumerate(self.drawn_from):
            if source.is_random:
                values = source.draw(stream.generator(self.seed, number, "params", k), paths, "params")
                columns.append(values.reshape(len(paths), -1))
        distinct, where = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
        return self.begun(distinct)[where.ravel()]

    @functools.cached_property
    def begun(self) -> AtPoints:
        """The program from starts, each followed by its own parameters, to the first carries of paths."""
        branched: Any = self.spec.problem
        method: Any = self.spec.method
        n, examples = branched.problem.n, zip(self.spec.examples, method.varies, strict=True)
        shapes = [example.shape for example, is_own in examples if is_own]

        def carry(row):
            own, place = [], n
            for shape in shapes:
                size = int(np.prod(shape))
                own.append(row[place : place + size].reshape(shape))
                place += size
            state = beginning(method.method, branched.problem, self.t0, row[:n], tuple(own), method.varies)
            return carried(method.method, state)

        return AtPoints(carry)

    def simulate(self, carries: np.ndarray, numbers: np.ndarray) -> list[Segment]:
        """How segments go on from their carries, each with the normals of its number."""
        count, plan = len(carries), self.plan
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        best, last, step_counts = np.full(count, -np.inf), carries.copy(), np.zeros(count, int)
        for lanes, values in self.calls(carries, numbers, plan):
            score, end = values[:, -2], values[:, -1]
            is_record, best[lanes] = records(np.where(end == GOES_ON, score, -np.inf), best[lanes])
            step, lane = np.nonzero(is_record)
            parts.append((lanes[lane], score[step, lane], values[step, :, lane]))
            stays = end != GOES_ON
            final = np.where(stays.any(axis=0), stays.argmax(axis=0), len(values) - 1)
            last[lanes] = values[final, :, np.arange(lanes.size)]
            step_counts[lanes] += final + 1
        if np.any(last[:, -1] == GOES_ON):
            raise ValueError(
                f"before: after {self.steps} steps of dt = {self.dt:g} some paths had reached neither level; give a "
                "time too: before=[time, level]"
            )
        return _parted(parts, last, step_counts, count, carries.shape[1])

    def calls(self, carries: np.ndarray, numbers: np.ndarray, plan: Plan) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """The lanes that go on and their carries (steps, size, lanes) after each step, call by call."""
        lanes = executors.lanes_for(len(carries))
        fill = np.arange(lanes) % len(carries)
        params = [np.asarray(leaf, example.dtype)
                  for leaf, example in zip(self.spec.param_leaves, self.spec.examples, strict=True)]  # fmt: skip
        members = Members(fill == np.arange(lanes), np.ones(lanes), np.ascontiguousarray(carries[fill].T), params)
        rows = self.program.source.rows_of[0][0].ravel()
        try:
            for going, values in self.program.until_stopped(
                self.spec, plan, members, Numbered(self.seed, numbers[fill])
            ):
                paths = going < len(carries)
                yield going[paths], values[:, rows][:, :, paths]
        except FloatingPointError as error:
            raise PathsFailed(
                f"{error} paths became infinite, or their equations were not solved: take a smaller dt, or another "
                "method",
                np.empty(0, int),
                np.empty(0),
            ) from None

    def __reduce__(self) -> tuple:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "spec"}
        return _arrived, (self.spec.without_traces(), fields)

    def describe(self) -> dict[str, Any]:
        traced: Any = self.spec.traced
        return {
            **{name: str(value) for name, value in self.record.items()},
            "equations": identity.digest(*traced.fingerprints),
            "start": identity.digest(self.starts(0)),
            "params": identity.digest(*(np.asarray(leaf) for leaf in self.spec.param_leaves)),
            "rare": {name: getattr(self, name) for name in ("steps", "replicas", "kill", "seed", "dt", "t0")},
            "block": RUNS_PER_BLOCK,
            "software": identity.software(),
        }

    def members_digest(self, block: int) -> str:
        return identity.digest(self.starts(block * RUNS_PER_BLOCK))

    def owners(self) -> Iterable[type]:
        return (Outcome,)


def _arrived(spec: Spec, fields: dict[str, Any]) -> Splits:
    return Splits(spec.traced_anew(), **fields)


def _parted(parts: list, last: np.ndarray, step_counts: np.ndarray, count: int, size: int) -> list[Segment]:
    """The records of all lanes, in the order of the steps, lane by lane."""
    lane = np.concatenate([np.empty(0, int), *(part[0] for part in parts)])
    score = np.concatenate([np.empty(0), *(part[1] for part in parts)])
    carry = np.concatenate([np.empty((0, size)), *(part[2] for part in parts)])
    order = np.argsort(lane, kind="stable")
    bounds = np.searchsorted(lane[order], np.arange(count + 1))
    return [
        Segment(score[order[a:b]], carry[order[a:b]], last[k], int(step_counts[k]), bool(last[k, -1] == EVENT))
        for k, (a, b) in enumerate(itertools.pairwise(bounds))
    ]


# --- the result -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The mean of runs, its standard error, and 95 % bounds on the logarithmic scale."""

    mean: float
    stderr: float
    low: float
    high: float
    scatter: float  # c.o.v. of single runs

    @staticmethod
    def of(estimates: np.ndarray) -> Estimate:
        count, mean = len(estimates), float(np.mean(estimates))
        spread = float(np.std(estimates, ddof=1))
        if mean == 0:
            return Estimate(0.0, 0.0, 0.0, math.nan, math.nan)
        stderr = spread / math.sqrt(count)
        factor = math.exp(float(scipy.stats.t.ppf(0.975, count - 1)) * stderr / mean)
        return Estimate(mean, stderr, mean / factor, min(mean * factor, 1.0), spread / mean)

    def variables(self) -> dict[str, Any]:
        numbers = {"": self.mean, "_stderr": self.stderr, "_low": self.low, "_high": self.high}
        return {f"probability{name}": ((), value) for name, value in numbers.items()}

    @property
    def relative(self) -> float:
        return self.stderr / self.mean if self.mean > 0 else math.inf


def _dataset(job: Splits, outcomes: Sequence[Outcome], estimate: Estimate, began: float) -> xr.Dataset:
    variables: dict[str, Any] = {
        **estimate.variables(),
        "estimate": (("run",), np.array([one.probability for one in outcomes])),
        "ancestors": (("run",), np.array([one.ancestors for one in outcomes])),
        "iterations": (("run",), np.array([one.rounds for one in outcomes])),
        "path_steps": (("run",), np.array([one.steps for one in outcomes])),
    }
    coords: dict[str, Any] = {}
    states, times, steps = paths_with_event(job, outcomes, RETURNED_PATHS)
    if len(times):
        variables["event_path"] = (("number", "time", "component"), states)
        variables["event_time"] = (("number",), times)
        coords = {
            "time": job.t0 + job.dt * np.arange(steps + 1),
            "component": list(job.spec.problem.problem.components),
        }
    record = {
        **job.record,
        "runs": len(outcomes),
        **{name: getattr(job, name) for name in ("replicas", "kill", "seed", "dt", "t0")},
        "path_steps": int(sum(one.steps for one in outcomes)),
        **_versions(began),
    }
    return xr.Dataset(variables, coords, {"provenance": json.dumps(record)})


def paths_with_event(job: Splits, outcomes: Sequence[Outcome], most: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Some of the paths with the event, taken from all runs in turn and recomputed segment by segment: the states
    (paths, steps + 1, n), NaN after the event, the times of the events, and the number of steps of the longest path."""
    chosen = sorted((k, r) for r, one in enumerate(outcomes) for k in range(len(one.ends)))[:most]
    n, clock = job.spec.problem.problem.n, job.spec.problem.n - CLOCK
    if not chosen:
        return np.empty((0, 0, n)), np.empty(0), 0
    wanted: dict[tuple[int, int], np.ndarray] = {}
    for k, r in chosen:
        begins = {int(row[0]): row[1:] for row in outcomes[r].begins}
        for path, segment, _ in outcomes[r].lineage:
            if path == k:
                wanted[r, int(segment)] = begins[int(segment)]
    numbers = np.array([r * 2**32 + s for r, s in wanted], np.uint64)
    carries = np.array(list(wanted.values()))
    pieces = [[carry[None]] for carry in carries]
    for lanes, values in job.calls(carries, numbers, job.plan):
        for j, lane in enumerate(lanes):
            pieces[lane].append(values[:, :, j])
    whole = dict(zip(wanted, (np.concatenate(parts) for parts in pieces), strict=True))
    longest = max(int(outcomes[r].ends[k, clock]) for k, r in chosen)
    states, times = np.full((len(chosen), longest + 1, n), np.nan), np.empty(len(chosen))
    for number, (k, r) in enumerate(chosen):
        parts = [(int(s), int(first)) for path, s, first in outcomes[r].lineage if path == k]
        last = int(outcomes[r].ends[k, clock])
        for (segment, first), until in zip(parts, [f for _, f in parts[1:]] + [last], strict=True):
            states[number, first : until + 1] = whole[r, segment][: until - first + 1, :n]
        times[number] = outcomes[r].ends[k, n]
    return states, times, longest


def _warn(job: Splits, outcomes: Sequence[Outcome], estimate: Estimate) -> None:
    """Warn of doubtful results, and suggest a remedy."""
    extinct = sum(one.probability == 0 for one in outcomes)
    best = max(one.reached for one in outcomes)
    if extinct == len(outcomes):
        warnings.warn(
            f"rare: all {extinct} runs died out: no path reached {job.record['event']}. The best score was {best:.4g}, "
            f"after {max(one.rounds for one in outcomes)} rounds. Is the level within reach, and does the score grow "
            "on the way to it? A score that many paths share stops the search: give one that tells them apart.",
            MissedWays,
            stacklevel=stacklevel_of_user(),
        )
        return
    ideal = math.sqrt(-math.log(min(estimate.mean, 0.999)) / job.replicas)
    if estimate.scatter > SKEWED:
        warnings.warn(
            f"rare: single runs scatter by {estimate.scatter:.2g} of their mean, so that the estimate is too low more "
            "often than not, and so is its interval. Give a better score, more replicas or shorter steps.",
            Skewed,
            stacklevel=stacklevel_of_user(),
        )
    signs = []
    ancestors = float(np.mean([one.ancestors for one in outcomes]))
    if ancestors < FEW_ANCESTORS:
        signs.append(f"all paths of a run come from {ancestors:.2g} of its {job.replicas} first ones")
    if estimate.scatter > FAR_FROM_IDEAL * ideal:
        signs.append(f"runs scatter {estimate.scatter / ideal:.2g} times as much as with a perfect score")
    names, ratios = job.spec.problem.problem.components, _apart(outcomes, estimate.mean)
    signs += [
        f"runs went different ways: in {names[i]} they are {ratio:.2g} times as far apart, by variance, as the paths "
        "within them predict"
        for i, ratio in enumerate(ratios)
        if ratio > DIFFERENT
    ]
    group = ways.rarely_found(outcomes, estimate.mean, job.watched)
    if group is not None:
        signs.append(
            f"paths go two ways, with {names[group.component]} near {group.here:.2g} and near {group.others:.2g}, but "
            f"{group.missing} of {len(outcomes)} runs have none on the first, which holds "
            f"{100 * group.share:.2g} % of all"
        )
    if extinct:
        signs.append(f"{extinct} of {len(outcomes)} runs died out")
    if signs:
        warnings.warn(
            f"rare: ways to the event may have been missed: {'; '.join(signs)}. Repeat with {4 * job.replicas} "
            "replicas: an estimate that grows by more than two standard errors had missed one. Or give a score that "
            "tells the ways apart.",
            MissedWays,
            stacklevel=stacklevel_of_user(),
        )


def _apart(outcomes: Sequence[Outcome], probability: float) -> np.ndarray:
    """For each component, the variance between runs of the mean state half way to the event (by the logarithm of the
    probability), divided by the value that the variance within runs predicts; 1 if all runs go the same ways.

    Runs are half way at different levels, which moves the states of all of them alike: the part that follows the level
    along a straight line is left out.
    """
    means, expected, levels = [], [], []
    for one in outcomes:
        if len(one.shares):
            k = int(np.argmin(np.abs(np.log(one.shares) - 0.5 * math.log(probability))))
            means.append(one.means[k])
            levels.append(one.levels[k])
            expected.append(one.variances[k] / max(one.families[k] - 1.0, 1.0))
    if len(means) < 4:
        return np.ones(len(outcomes[0].means.T))
    off, deviations = np.array(levels) - np.mean(levels), np.array(means) - np.mean(means, axis=0)
    slope = off @ deviations / max(off @ off, np.finfo(float).tiny)
    left = np.sum((deviations - off[:, None] * slope) ** 2, axis=0) / (len(means) - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(left / np.mean(expected, axis=0), nan=1.0, posinf=1.0)
