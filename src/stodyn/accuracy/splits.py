"""Splitting as a run of the engine: how its blocks are computed, its paths made again, and what makes it doubtful."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from stodyn.accuracy import ways
from stodyn.accuracy.rare_estimate import Effort, Question
from stodyn.accuracy.repeated import Outcomes, Repeated, run_of
from stodyn.accuracy.splitting import Outcome, Segments, Splitting, records, run_together
from stodyn.engine import branches
from stodyn.engine.failure import PathsFailed
from stodyn.engine.follow import States
from stodyn.engine.program import executors
from stodyn.engine.record import identity
from stodyn.engine.run import Run
from stodyn.engine.spec import Spec, describe
from stodyn.methods.branching import EVENT, GOES_ON, beginning, branching, carried
from stodyn.methods.contract import Catalogued
from stodyn.methods.stopping import Stop
from stodyn.noise import stream
from stodyn.noise.supply import DrawnNormals
from stodyn.numerics.printing.points import AtPoints
from stodyn.telling import unheard
from stodyn.warnings import MissedWays, Skewed

RUNS_PER_BLOCK = 4  # runs per block, whose segments are made together
CLOCK = 3  # place of the number of steps in a carry, from its end
SKEWED = 0.7  # c.o.v. of single runs beyond which their mean is too low most of the time
RETURNED_PATHS = 16  # paths with the event that are returned


@dataclasses.dataclass(frozen=True, kw_only=True)
class Splits(Outcomes):
    """The outcomes of runs of splitting; they rest on the starts of the first run."""

    columns: ClassVar[dict[str, str]] = {
        "estimate": "probability",
        "ancestors": "ancestors",
        "iterations": "rounds",
        "path_steps": "steps",
    }


def splitting_run(
    question: Question, method: Catalogued, score: Callable, effort: Effort, executor: str = "auto"
) -> Run:
    """The runs of splitting that answer a question; score(gauge of the event) gives the score and its name."""
    dt, t0, steps = question.dt, question.t0, question.steps
    stop = Stop(question.event, *question.others)
    with unheard():  # the whole span was looked at
        spec = describe(question.problem, method, (t0, t0 + 2 * dt), dt, States(every=1), "float64", stop)
    stopping: Any = spec.method
    function, words = score(stopping.gauges[0])
    branched, branches = branching(stopping, spec.problem, function, t0, steps, spec.varies)
    starts = identity.digest(_starts(branched.problem, effort.replicas, effort.seed, 0))
    spec = dataclasses.replace(
        spec,
        problem=branched,
        method=branches,
        times=t0 + dt * np.arange(steps + 1),
        lengths=np.full(steps, dt),
        statistics=(Splits(replicas=effort.replicas, kill=effort.kill, rests_on=starts),),
        saves=(np.arange(1, steps + 1),),
        levels=0,
        record={**spec.record, "event": str(question.event), "score": words, "kill": effort.kill},
    ).traced_anew()
    return run_of(BySplitting(spec, executor), effort)


def _starts(problem: Any, replicas: int, seed: int, number: int) -> np.ndarray:
    """The starts of a run's first paths, each followed by its own parameters."""
    paths = range(replicas)
    columns = [problem.draw_start(stream.generator(seed, number, "start"), paths)]
    for k, source in enumerate(problem.param_sources):
        if source.is_random:
            values = source.draw(stream.generator(seed, number, "params", k), paths, "params")
            columns.append(values.reshape(len(paths), -1))
    return np.concatenate(columns, axis=1)


class BySplitting(Repeated):
    """Blocks of splitting, whose segments go through the program of a step."""

    width = RUNS_PER_BLOCK
    normals = DrawnNormals.name

    def __init__(self, spec: Spec, executor: str):
        self.spec, self.n, self.clock = spec, spec.problem.problem.n, spec.problem.n - CLOCK
        self.program: Any = executors.get(dataclasses.replace(spec, statistics=(States(every=1),)), executor)
        self.name, self.reason = self.program.name, self.program.reason

    @property
    def recipe(self) -> Callable[[Spec], executors.Executor]:
        return functools.partial(BySplitting, executor=self.name)

    def outcomes(self, seed, runs, tell):
        starts = np.stack([self.first_carries(seed, run) for run in runs])
        rngs = [stream.generator(seed, run, "selection") for run in runs]
        splitting = Splitting(runs, starts, self.collect.kill, rngs, self.n, self.clock)
        for steps in run_together(splitting, functools.partial(self.segments, seed)):
            tell(steps)
        return splitting.outcomes

    def path_steps(self, outcomes):
        return sum(one.steps for one in outcomes)

    def variables(self, run, outcomes):
        states, times = paths_with_event(run, outcomes, RETURNED_PATHS)
        if not len(times):
            return {}, {}
        variables = {"event_path": (("number", "time", "component"), states), "event_time": (("number",), times)}
        components = list(self.spec.problem.problem.components)
        return variables, {"time": self.spec.times[: states.shape[1]], "component": components}

    def doubts(self, outcomes, estimate):
        count, replicas = len(outcomes), self.collect.replicas
        if estimate.mean == 0:
            best = max(one.reached for one in outcomes) + 0.0  # 0 and not -0, whichever of the two came first
            words = (
                f"all {count} runs died out: no path reached {self.spec.record['event']}. The best score was "
                f"{best:.4g}, after {max(one.rounds for one in outcomes)} rounds. Is the level within reach, and does "
                "the score grow on the way to it? A score that many paths share stops the search: give one that tells "
                "them apart."
            )
            yield words, MissedWays
            return
        if estimate.scatter > SKEWED:
            words = (
                f"single runs scatter by {estimate.scatter:.2g} of their mean, so that the estimate is too low more "
                "often than not, and so is its interval. Give a better score, more replicas or shorter steps."
            )
            yield words, Skewed
        if signs := ways.signs(outcomes, estimate, replicas, self.spec):
            words = (
                f"ways to the event may have been missed: {'; '.join(signs)}. Repeat with {4 * replicas} replicas: an "
                "estimate that grows by more than two standard errors had missed one. Or give a score that tells the "
                "ways apart."
            )
            yield words, MissedWays

    def first_carries(self, seed: int, run: int) -> np.ndarray:
        """The carries with which the paths of a run begin."""
        starts = _starts(self.spec.problem.problem, self.collect.replicas, seed, run)
        distinct, where = np.unique(starts, axis=0, return_inverse=True)
        return self._begun(distinct)[where.ravel()]

    @functools.cached_property
    def _begun(self) -> AtPoints:
        """The program from starts, each followed by its own parameters, to the first carries of paths."""
        spec, method, problem = self.spec, self.spec.method, self.spec.problem.problem
        shapes = [e.shape for e, is_own in zip(spec.examples, method.varies, strict=True) if is_own]
        ends = np.cumsum([self.n, *(int(np.prod(shape)) for shape in shapes)])

        def carry(row):
            parts = zip(itertools.pairwise(ends), shapes, strict=True)
            own = tuple(row[a:b].reshape(shape) for (a, b), shape in parts)
            t0 = float(spec.times[0])
            return carried(method.method, beginning(method.method, problem, t0, row[: self.n], own, method.varies))

        return AtPoints(carry)

    def segments(self, seed: int, carries: np.ndarray, paths: np.ndarray, best: np.ndarray) -> Segments:
        """How segments go on from their carries with the normals of these paths, and which of their steps beat their
        best scores so far."""
        parts = [(np.empty(0, int), np.empty(0), np.empty((0, carries.shape[1])))]
        best, last = best.copy(), carries.copy()
        for going, values in self.calls(seed, carries, paths):
            scores, ends = values[:, -2, going], values[:, -1, going]
            is_record, best[going] = records(np.where(ends == GOES_ON, scores, -np.inf), best[going])
            step, k = np.nonzero(is_record)
            parts.append((going[k], scores[step, k], values[step, :, going[k]]))
            stands = ends != GOES_ON
            final = np.where(stands.any(axis=0), stands.argmax(axis=0), len(values) - 1)
            last[going] = values[final, :, going]
        if np.any(last[:, -1] == GOES_ON):
            raise ValueError(
                f"before: after {self.spec.steps} steps of dt = {self.spec.lengths[0]:g} some paths had reached "
                "neither level; give a time too: before=[time, level]"
            )
        segment, score, carry = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(segment, kind="stable")
        best = np.where(last[:, -1] == EVENT, np.inf, best)
        return Segments(segment[order], score[order], carry[order], last, best)

    def calls(self, seed: int, carries: np.ndarray, paths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Segments on their way, as branches.continued gives them; failed ones end the run."""
        try:
            yield from branches.continued(self.program, seed, carries, paths)
        except FloatingPointError as error:
            raise PathsFailed(
                f"{error} paths became infinite, or their equations were not solved: take a smaller dt, or another "
                "method",
                np.empty(0, int),
                np.empty(0),
            ) from None


def paths_with_event(run: Run, outcomes: Sequence[Outcome], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Some of the paths with the event, taken from all runs in turn and made again segment by segment: the states
    (paths, steps + 1, n), NaN after the event, and the times of the events."""
    by: Any = run.executor
    chosen = list(itertools.islice(_in_turn(outcomes, most), most))
    ends = np.array([outcomes[r].ends[k] for k, r in chosen]).reshape(-1, run.spec.problem.n)
    if not chosen:
        return np.empty((0, 0, by.n)), np.empty(0)
    last_steps = ends[:, by.clock].astype(int)
    pieces = [_pieces(path, outcomes[r], k, r, step)
              for path, ((k, r), step) in enumerate(zip(chosen, last_steps, strict=True))]  # fmt: skip
    path, number, first, until, begins = (np.concatenate(part) for part in zip(*pieces, strict=True))
    paths, where, segment = np.unique(number, return_index=True, return_inverse=True)
    states, done = np.full((len(chosen), last_steps.max() + 1, by.n), np.nan), 0
    states[path, first] = begins[:, : by.n]
    for _, values in by.calls(run.layout.seed, begins[where], paths):
        steps = done + 1 + np.arange(len(values))  # since the segment began
        piece, k = np.nonzero(steps <= (until - first)[:, None])
        states[path[piece], first[piece] + steps[k]] = values[k, : by.n, segment[piece]]
        done += len(values)
    return states, ends[:, by.n]


def _in_turn(outcomes: Sequence[Outcome], most: int) -> Iterator[tuple[int, int]]:
    """The first path with the event of every run, then the second of every run, ...: (path, run)."""
    return ((k, r) for k in range(most) for r, one in enumerate(outcomes) if k < len(one.ends))


def _pieces(path: int, outcome: Outcome, k: int, run: int, last: int) -> tuple[np.ndarray, ...]:
    """The segments of path k of a run as columns: the number that the path gets in the result, the paths whose normals
    they take, the steps from which and up to which they belong to it, and the carries with which they begin."""
    _, segment, first = outcome.lineage[outcome.lineage[:, 0] == k].T
    begins = outcome.begins[np.searchsorted(outcome.begins[:, 0], segment), 1:]
    until = np.append(first[1:], last)
    return np.full(len(segment), path), branches.path_numbers(np.full(len(segment), run), segment), first, until, begins
