"""Probabilities of rare events, by adaptive multilevel splitting (accuracy/splitting.py), or for linear systems by
importance sampling (accuracy/elementary.py), or where paths cannot be split by subset simulation (accuracy/subset.py).

Each makes a run of the engine whose paths are whole runs with an estimate of their own (accuracy/repeated.py).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from stodyn.accuracy import scores
from stodyn.accuracy.elementary import elementary_run
from stodyn.accuracy.rare_estimate import Effort, Estimate, Question
from stodyn.accuracy.rare_gradient import gradient
from stodyn.accuracy.splits import splitting_run
from stodyn.accuracy.subset import subset_run
from stodyn.engine.door import front_door
from stodyn.engine.places.contract import Place
from stodyn.engine.progress import Progress
from stodyn.engine.record import identity
from stodyn.engine.record.ledger import Ledger
from stodyn.engine.run import Run, Tally
from stodyn.engine.simulate import look_at_steps, merged
from stodyn.engine.spec import as_it_is_now, chosen_method
from stodyn.engine.where import Where, where_of
from stodyn.hints import Count, Integer, check_seed, is_whole
from stodyn.methods.contract import Catalogued
from stodyn.methods.switching import refuse_switches
from stodyn.problems.level import Level
from stodyn.problems.looped import Looped
from stodyn.telling import tell

RECORDED = ("dt", "seed", "dtype", "executor", "executor_reason", "normals", "fingerprint")  # entries of a run's record


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
    of: str | Sequence[str] = (),
    threads: Integer | None = None,
    place: Place | None = None,
    executor: str = "auto",
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
        for a linear function of a linear problem with additive noise and a fixed or normal start, such as that of
        coloured noise, before a time: steps are exact and the relative error is about 1/√(replicas runs) however rare
        the event is, but the event is only looked for at the ends of steps: where noise of intensity s enters the
        function itself, too little is found, about as if the level were 0.58 s √dt further away; then take short steps,
        or splitting. "subset": chains in the space of all
        normals, including those behind random parameters, before a time; biased by O(1/replicas), so give about 1000
        replicas.
    of : str or sequence of str
        Names among the params, as for `sensitivity`, and "level" for that of the event, with respect to which the
        probability is differentiated: by differences over a fifth of each, which cost two more estimates for each name.
        Their errors say how they scatter, not how far such a difference is from the derivative: of
        ln p = -level²/(2 σ²) it is exact by the level and 0.7 % off by σ.
    threads, place, executor, ledger, progress
        As in `simulate`. The result depends only on the seed and the options above; a ledger can be continued with more
        runs.

    Returns
    -------
    xarray.Dataset
        probability, probability_stderr, probability_low and probability_high (95 %, on the logarithmic scale; where all
        paths had the event, from their number); for each
        run (run): estimate, ancestors, iterations, path_steps; up to 16 of the paths that reached the event: event_path
        (number, time, component), NaN after the event, and event_time (number). With `of`, over `parameter`: gradient
        and log_gradient, the derivative of the logarithm, each with _stderr.

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
    _refuse_sensors(problem)
    problem = as_it_is_now(problem)
    _check(event, dt, t0, replicas, runs, kill, tol, seed)
    end, others = _ends(before, t0)
    effort = Effort(int(replicas), int(runs), float(kill), int(seed), tol)
    where = where_of(threads=threads, place=place, executor=executor, ledger=ledger, progress=progress)

    def answered(problem: Any, event: Level, effort: Effort, where: Where) -> xr.Dataset:
        _check_start(problem, event, others, float(t0))
        question = Question(problem, event, others, float(t0), end, float(dt))
        if by == "elementary":
            _refuse(f'by="{by}" takes exact steps and draws whole paths at once; leave it out',
                    method=method, score=score, executor=None if executor == "auto" else executor)  # fmt: skip
            run = elementary_run(question, effort)
        elif by == "subset":
            _refuse(f'by="{by}" scores by the distance from the level; leave it out', score=score)
            run = subset_run(question, method, effort, executor)
        elif by == "splitting":
            how = functools.partial(_score, score, question)
            run = splitting_run(question, chosen_method(problem, method), how, effort, executor)
        else:
            raise ValueError(f'by: expected "splitting", "elementary" or "subset", got {by!r}')
        return _answered(run, effort, where, began)

    if by in ("splitting", "subset"):
        _check_start(problem, event, others, float(t0))
        span = Question(problem, event, others, float(t0), end, float(dt)).span
        judges = dict(judges_laws=end is not None, judges_energies=False)  # paths go on only to the event
        look_at_steps(problem, method, span, dt, effort.replicas, effort.seed, **judges)
    result = answered(problem, event, effort, where)
    if not of:
        return result
    same = dataclasses.replace(effort, runs=result.sizes["run"], tol=None)
    beside = dataclasses.replace(where, ledger=None, progress=False)
    probability = float(result["probability"]), float(result["probability_stderr"])
    names, variables = gradient(
        problem, event, of, probability,
        lambda problem, event: answered(as_it_is_now(problem), event, same, beside)["estimate"].values,
    )  # fmt: skip
    return result.assign(variables).assign_coords(parameter=names)


# --- the arguments ----------------------------------------------------------------------------------------------------


def _refuse_sensors(problem: Any) -> None:
    """Refuse a loop with noise in it: the noise of a sensor is that of its path, so that branches would not be free."""
    if isinstance(problem, Looped) and problem.draws:
        raise ValueError(
            "problem: the noise of sensors belongs to a path and its samples, so that branches of a path would share "
            "it; rare takes loops without noise, losses or jitter in them. Use simulate with a Stop"
        )


def _check(event: Any, dt: Any, t0: Any, replicas: Any, runs: Any, kill: Any, tol: Any, seed: Any) -> None:
    """Refuse arguments that mean nothing."""
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


# --- splitting --------------------------------------------------------------------------------------------------------


def _score(score: Any, question: Question, gauge: Any) -> tuple[Callable, str]:
    """The score that the user asked for as a function, and its name."""
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


def _answered(run: Run, effort: Effort, where: Where, began: float) -> xr.Dataset:
    """The result of runs, of which there are more until the tolerance is met."""
    executor: Any = run.executor
    tally, place = Tally(run, "raise"), where.place
    with jax.enable_x64(True), Progress(0, where.progress, "estimating", place.link) as bar:
        while True:
            ledger = None if where.ledger is None else Ledger(where.ledger, run)
            (outcomes,) = merged(run, place, bar, "raise", ledger, tally).merged
            estimates = np.array([one.probability for one in outcomes])
            estimate = Estimate.of(estimates, effort.replicas if executor.counts else 0)
            if effort.suffices(estimate, len(outcomes)):
                break
            tally.merged = [outcomes[: run.layout.first_path(run.layout.whole_blocks)]]  # the rest is computed again
            run = run.grown(effort.next_total(estimate, len(outcomes)))
        ((_, labelled, _),) = tally.labelled()
        variables, coords = executor.variables(run, outcomes)
    for words, kind in executor.doubts(outcomes, estimate):
        tell(f"rare: {words}", kind)
    of_run = run.record()
    record = {
        **run.spec.record,
        **{name: of_run[name] for name in RECORDED if name in of_run},
        **{"runs": len(outcomes), "replicas": effort.replicas, "t0": float(run.spec.times[0])},
        "path_steps": int(executor.path_steps(outcomes)),
        **where.record,
        "versions": identity.versions(),
        "seconds": round(time.perf_counter() - began, 3),
    }
    of_runs = {name: one[:2] for name, one in labelled.variables.items()}
    attrs = {"provenance": json.dumps(record)}
    result = xr.Dataset({**estimate.variables(), **of_runs, **variables}, coords, attrs)
    if ledger is not None:
        ledger.finish(result)
    return result
