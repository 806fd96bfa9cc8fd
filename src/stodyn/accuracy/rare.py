"""Probabilities of rare events, by adaptive multilevel splitting (accuracy/splitting.py), or for linear systems by
importance sampling (accuracy/elementary.py), or where paths cannot be split by subset simulation (accuracy/subset.py).
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

from stodyn.accuracy import scores, ways
from stodyn.accuracy.elementary import elementary, sampled_estimates
from stodyn.accuracy.rare_estimate import Effort, Estimate, Question, repeated
from stodyn.accuracy.rare_gradient import gradient
from stodyn.accuracy.splits import paths_with_event, splitting_run
from stodyn.accuracy.splitting import Outcome
from stodyn.accuracy.subset import PathsOfNormals, subset
from stodyn.engine.door import front_door
from stodyn.engine.places.contract import Place
from stodyn.engine.progress import Progress
from stodyn.engine.record import identity
from stodyn.engine.record.ledger import Ledger
from stodyn.engine.run import Run, Tally
from stodyn.engine.simulate import look_at_steps, merged
from stodyn.engine.spec import as_it_is_now, chosen_method, describe
from stodyn.engine.where import where_of
from stodyn.hints import Count, Integer, check_seed, is_whole
from stodyn.methods.contract import Catalogued
from stodyn.methods.stopping import Stop
from stodyn.methods.switching import refuse_switches
from stodyn.noise import stream
from stodyn.problems.contract import written_as
from stodyn.problems.level import SIDES, Level
from stodyn.problems.looped import Looped
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import MissedWays, Skewed

SKEWED = 0.7  # c.o.v. of single runs beyond which their mean is too low most of the time
RETURNED_PATHS = 16  # paths with the event that are returned


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
    threads, place, ledger, progress
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

    def answered(problem: Any, event: Level, effort: Effort, ledger: Any, progress: bool | None) -> xr.Dataset:
        _check_start(problem, event, others, float(t0))
        question = Question(problem, event, others, float(t0), end, float(dt))
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
        how = functools.partial(_score, score, question)
        run = splitting_run(question, chosen_method(problem, method), how, effort)
        return _by_splitting(run, effort, where_of(threads=threads, place=place).place, ledger, progress, began)

    if by in ("splitting", "subset"):
        _check_start(problem, event, others, float(t0))
        span = Question(problem, event, others, float(t0), end, float(dt)).span
        judges = dict(judges_laws=end is not None, judges_energies=False)  # paths go on only to the event
        look_at_steps(problem, method, span, dt, effort.replicas, effort.seed, **judges)
    result = answered(problem, event, effort, ledger, progress)
    if not of:
        return result
    same = dataclasses.replace(effort, runs=result.sizes["run"], tol=None)
    probability = float(result["probability"]), float(result["probability_stderr"])
    names, variables = gradient(
        problem, event, of, probability,
        lambda problem, event: answered(as_it_is_now(problem), event, same, None, False)["estimate"].values,
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


def _by_splitting(
    run: Run, effort: Effort, where: Place, folder: Any, progress: bool | None, began: float
) -> xr.Dataset:
    """`rare` by splitting: blocks of runs, until the tolerance is met."""
    tally = Tally(run, "raise")
    with jax.enable_x64(True), Progress(0, progress, "splitting", where.link) as bar:
        while True:
            ledger = None if folder is None else Ledger(folder, run)
            (outcomes,) = merged(run, where, bar, "raise", ledger, tally).merged
            estimate = Estimate.of(np.array([outcome.probability for outcome in outcomes]), effort.replicas)
            if effort.suffices(estimate, len(outcomes)):
                break
            tally.merged = [outcomes[: run.layout.first_path(run.layout.whole_blocks)]]  # the rest is computed again
            run = run.grown(effort.next_total(estimate, len(outcomes)))
        result = _dataset(run, tally, estimate, effort, began)
    _warn(run, outcomes, estimate, effort.replicas)
    if ledger is not None:
        ledger.finish(result)
    return result


def _dataset(run: Run, tally: Tally, estimate: Estimate, effort: Effort, began: float) -> xr.Dataset:
    """The result of runs of splitting, with some of their paths."""
    (outcomes,), ((_, labelled, _),) = tally.merged, tally.labelled()
    variables = {**estimate.variables(), **{name: one[:2] for name, one in labelled.variables.items()}}
    coords: dict[str, Any] = {}
    states, times = paths_with_event(run, outcomes, RETURNED_PATHS)
    if len(times):
        variables["event_path"] = (("number", "time", "component"), states)
        variables["event_time"] = (("number",), times)
        components = list(run.spec.problem.problem.components)
        coords = {"time": run.spec.times[: states.shape[1]], "component": components}
    t0, dt = float(run.spec.times[0]), float(run.spec.lengths[0])
    record = {
        **run.spec.record,
        "runs": len(outcomes),
        **{"replicas": effort.replicas, "kill": effort.kill, "seed": effort.seed, "dt": dt, "t0": t0},
        "path_steps": int(sum(one.steps for one in outcomes)),
        **_versions(began),
    }
    return xr.Dataset(variables, coords, {"provenance": json.dumps(record)})


def _warn(run: Run, outcomes: Sequence[Outcome], estimate: Estimate, replicas: int) -> None:
    """Warn of doubtful results, and suggest a remedy."""
    if all(one.probability == 0 for one in outcomes):
        best = max(one.reached for one in outcomes) + 0.0  # 0 and not -0, whichever of the two came first
        tell(
            f"rare: all {len(outcomes)} runs died out: no path reached {run.spec.record['event']}. The best score was "
            f"{best:.4g}, after {max(one.rounds for one in outcomes)} rounds. Is the level within reach, and does the "
            "score grow on the way to it? A score that many paths share stops the search: give one that tells them "
            "apart.",
            MissedWays,
        )
        return
    if estimate.scatter > SKEWED:
        tell(
            f"rare: single runs scatter by {estimate.scatter:.2g} of their mean, so that the estimate is too low more "
            "often than not, and so is its interval. Give a better score, more replicas or shorter steps.",
            Skewed,
        )
    signs = ways.signs(outcomes, estimate, replicas, run.spec)
    if signs:
        tell(
            f"rare: ways to the event may have been missed: {'; '.join(signs)}. Repeat with {4 * replicas} "
            "replicas: an estimate that grows by more than two standard errors had missed one. Or give a score that "
            "tells the ways apart.",
            MissedWays,
        )


# --- linear problems --------------------------------------------------------------------------------------------------


def _by_elementary(question: Question, effort: Effort, began: float) -> xr.Dataset:
    """Answer a question of `rare` by importance sampling."""
    if question.others or question.end is None:
        raise ValueError('before: by="elementary" takes a time; for another level take by="splitting"')
    problem, event, t0, steps = question.problem, question.event, question.t0, question.steps
    sde = written_as(problem, SDE)
    try:
        if sde is None:
            raise scores.NotLinear(f"{type(problem).__name__} cannot be written as an SDE here")
        start = sde.start_source.normal()
        if start is None:
            raise scores.NotLinear("the start is random, and its law is not known to be normal")
        parts = scores.linear_parts(event.on(sde, t0))
    except scores.NotLinear as error:
        raise ValueError(
            'by: "elementary" needs a linear problem with additive noise that does not depend on time, a fixed or '
            f'normal start, and a level of a linear function of the state, but {error}. Take by="splitting"'
        ) from None
    bounds = tuple(zip(SIDES[str(event.direction)], event.bounds, strict=True))
    events = elementary(parts, start, question.dt, steps, bounds)
    if events.total == 0:
        raise ValueError(
            f"event: noise does not reach {event.on(sde, t0).words}, or {event} is so far off that its probability "
            "underflows to 0"
        )

    def estimate(number: int) -> float:
        return float(
            sampled_estimates(events, effort.replicas, stream.generator(effort.seed, number, "selection")).mean()
        )

    estimates = repeated(estimate, effort)
    record = {
        "problem": type(problem).__name__,
        "method": "exact steps (van Loan), elementary events",
        **_record(question, effort, len(estimates)),
        "path_steps": len(estimates) * effort.replicas * steps,
        **_versions(began),
    }
    return _labelled(Estimate.of(np.array(estimates)), estimates, record)


# --- black boxes ------------------------------------------------------------------------------------------------------


def _by_subset(question: Question, method: Any, effort: Effort, began: float) -> xr.Dataset:
    """Answer a question of `rare` by subset simulation."""
    problem, event, end = question.problem, question.event, question.end
    if end is None:
        raise ValueError('before: by="subset" takes a time, alone or in a list with a level')
    if problem.has_random_start:
        raise ValueError('start: by="subset" takes one start for all paths; let a random parameter stand for it')
    stop = Stop(event, *question.others)
    spec = describe(problem, method, (question.t0, end), question.dt, None, "float64", stop)
    box = PathsOfNormals(dataclasses.replace(spec, statistics=spec.statistics[-1:], saves=spec.saves[-1:]))
    runs: list[Any] = []

    def estimate(number: int) -> float:
        runs.append(subset(box.score, box.size, effort.replicas, stream.generator(effort.seed, number, "selection")))
        return runs[-1].probability

    with jax.enable_x64(True):
        estimates = repeated(estimate, effort)
    if not any(estimates):
        nearest = -max(run.reached for run in runs)
        tell(
            f"rare: no run reached {event}; the nearest path was {nearest:.4g} away from it. Is the level within "
            "reach, and does the distance from it tell paths apart?",
            MissedWays,
        )
    record = {
        **spec.record,
        "by": "subset simulation",
        **_record(question, effort, len(estimates)),
        "path_steps": spec.steps * sum(run.paths for run in runs),
        **_versions(began),
    }
    return _labelled(Estimate.of(np.array(estimates), effort.replicas), estimates, record)


# --- records ----------------------------------------------------------------------------------------------------------


def _record(question: Question, effort: Effort, runs: int) -> dict[str, Any]:
    """The part of a result's provenance that describes its question and its effort."""
    return {"event": str(question.event), "runs": runs, "replicas": effort.replicas, "seed": effort.seed,
            "dt": question.dt, "t0": question.t0}  # fmt: skip


def _labelled(estimate: Estimate, of_runs: list[float], record: dict[str, Any]) -> xr.Dataset:
    """The result of runs of which only the estimates are stored."""
    variables = {**estimate.variables(), "estimate": (("run",), np.array(of_runs))}
    return xr.Dataset(variables, attrs={"provenance": json.dumps(record)})


def _versions(began: float) -> dict[str, Any]:
    """The versions and the seconds of a result's provenance."""
    return {
        "versions": identity.versions(),
        "seconds": round(time.perf_counter() - began, 3),
    }
