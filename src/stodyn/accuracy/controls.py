"""A control of f, a quantity of the same paths with a known expectation: its slope, and what contradicts its statement.

The estimate is that of f - β (c - E c) with β from a pilot of its own. The points of the estimate check E c; where they
tell too little of it, since f - β c needs few points and long steps, c is estimated by itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stodyn.accuracy import rules
from stodyn.accuracy.candidates import Candidate
from stodyn.accuracy.ladder import Ladder
from stodyn.accuracy.levels import LevelRun, Question
from stodyn.accuracy.linear_control import Linearised, NoControl, linearised
from stodyn.accuracy.pilot import MOST_DOUBLED
from stodyn.engine.failure import PathsFailed
from stodyn.engine.progress import Progress
from stodyn.problems.calling import call
from stodyn.problems.contract import traced_twice
from stodyn.statistics.functional import Controlled, End, Functional, PairWithControl

SURELY, LIKELY = 1 - 1e-6, 0.995  # confidence with which a control is refused, and not trusted
UNEXPECTED = 1.5  # standard errors of a control's mean for which points are doubled
SLOPE_POINTS = 512  # paths that determine the slope of a control
DOUBTED, REFUTED, FINER = 2.5, 6.0, 8  # standard errors of a control's mean; factor of the steps and paths that decide
PROOF, MOST_PROOF = 0.25, 3e5  # a check of E c may cost this share of plain Monte Carlo, up to so many path-steps


class WithControl(NamedTuple):
    """f with its control, the path-steps of the pilot that found its slope, the factor by which the variance falls, the
    variance of f by itself, per entry, and in the end the expectation of the control as the points tell it."""

    functional: Controlled | None
    spent: int
    factor: float
    variance: np.ndarray | None
    expectation: Expectation | None = None


class Expectation:
    """E c as the points of the estimate tell it, or those of an estimate of c by itself where they tell it better."""

    def __init__(self, ladder: Ladder, alone: Sequence[Ladder]):
        self.ladder, self.alone = ladder, alone

    def interval(self, level: float) -> rules.Interval:
        """The narrowest interval. That of c by itself has the bound on its bias twice, for it must hold for sure."""
        measured = [self.ladder.of_control(level)]
        for one in self.alone:
            result = one.result
            own = rules.interval(result.levels, result.weights, result.bias.bound, level)
            measured.append(own._replace(half=own.half + own.bias))
        best = min(measured, key=lambda interval: float(interval.half[0]))
        return best._replace(half=best.half + _rounding([self.ladder, *self.alone]) * np.abs(best.value))

    def contradicts(self, known: float, confidence: float) -> bool:
        """Whether the stated expectation lies outside the interval."""
        measured = self.interval(confidence)
        return bool(abs(measured.value[0] - known) > measured.half[0])


def functional_of(f: Any) -> Functional:
    """A functional as it is, or a function of the end state as one."""
    if isinstance(f, Functional):
        return f
    if not callable(f):
        raise TypeError(
            f"f: expected a function (t, x[, params]) of the end state, or one of stodyn.statistics.functional (End, "
            f"TimeAverage, Integral, Maximum, Minimum, Probability), got {f!r}"
        )
    return End(f)


def refuse_draws(name: str, functional: Functional, problem: Any, t: float) -> None:
    """Refuse a function that draws a number, counts or reads a clock: it would be the same on all paths of a level."""
    params = problem.example_params()
    traced_twice(
        name, lambda x: call(functional.function, t, x, params=params), np.asarray(problem.example_start(), float)
    )


def named_control(problem, functional, span, error, control) -> Linearised | None:
    """The control asked for by name, or None where "auto" finds none."""
    if control not in ("linear", "auto"):
        raise ValueError(f'control: expected (function, its exact expectation), "linear" or "auto", got {control!r}')
    try:
        return linearised(problem, functional, span, error)
    except NoControl:
        if control == "linear":
            raise
        return None


def with_control(f, control, original: Question, candidate: Candidate, seed: int, is_own: bool) -> WithControl:
    """f with its control, whose slope a pilot of its own determines."""
    both = _both(f, control)
    if not is_own:
        refuse_draws("control", both.control, original.problem, original.t[0])
    streams = np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(2, np.uint64) >> np.uint64(1)
    question = dataclasses.replace(original, functional=both)
    run, spent = _slope_pilot(question, candidate, int(streams[0]))
    second = np.asarray(run.sums[1].second)[0]
    if not second[-1, -1] > 0:
        raise ValueError("control: it is the same on every path; leave it out")
    if not is_own and _off(run, both.known)[1] > DOUBTED:  # chance, coarse steps, or a wrong expectation
        spent += _decided(question, FINER * run.steps, int(streams[1]))
    slope = second[:-1, -1] / second[-1, -1]
    own = np.diagonal(second)[:-1]
    left = own - slope * second[:-1, -1]
    factor = float(np.min(own / np.maximum(left, 1e-300)))
    controlled = Controlled(f, both.control, slope, both.known, is_stated=not is_own)
    return WithControl(controlled, spent, factor, own / (SLOPE_POINTS - 1))


def _both(f: Functional, control: Any) -> PairWithControl:
    """f beside a control that the user stated."""
    try:
        c, known = control
        known = float(known)
    except (TypeError, ValueError) as wrong:
        raise TypeError(f"control: expected (function, its exact expectation), got {control!r}") from wrong
    if not math.isfinite(known):
        raise ValueError(f"control: expected a finite expectation, got {known!r}")
    return PairWithControl(f, functional_of(c), 0.0, known)


def _slope_pilot(question: Question, candidate: Candidate, stream: int) -> tuple[LevelRun, int]:
    """A run on the coarsest grid on which no path fails, and the path-steps that it took to find it."""
    steps, spent = 2 * candidate.steps, 0
    while True:
        run = LevelRun(question, "single", steps, stream, "random")
        spent += SLOPE_POINTS * run.cost
        try:
            run.grow(SLOPE_POINTS, Progress(0, False))
            return run, spent
        except PathsFailed:
            if steps >= MOST_DOUBLED * candidate.steps:
                raise
            steps *= 2


def _decided(question: Question, steps: int, stream: int) -> int:
    """Refuse a stated expectation that more paths of shorter steps contradict; returns their path-steps."""
    known, finer = question.functional.known, LevelRun(question, "single", steps, stream, "random")
    finer.grow(FINER * SLOPE_POINTS, Progress(0, False))
    mean, off = _off(finer, known)
    if off > REFUTED:
        raise ValueError(
            f"control: its mean over {FINER * SLOPE_POINTS} paths of {steps} steps is {mean:.4g}, "
            f"{off:.0f} standard errors from the stated expectation, {known:.4g}. Give its exact expectation."
        )
    return FINER * SLOPE_POINTS * finer.cost


def _off(run: LevelRun, known: float) -> tuple[float, float]:
    """The mean of the control, and its distance from the stated expectation in standard errors."""
    sums = run.sums[1]
    count, mean = float(np.asarray(sums.weight).ravel()[0]), float(np.asarray(sums.mean)[0, -1])
    variance = float(np.asarray(sums.second)[0, -1, -1]) / (count - 1)
    return mean, abs(mean - known) / math.sqrt(variance / count)


def doubts_of_control(expectation: Expectation) -> list[str]:
    """Refuse a stated expectation that the points contradict, once in a million where it is right, and do not trust one
    that they doubt, once in two hundred."""
    control = expectation.ladder.control
    known = control.known
    if not expectation.contradicts(known, LIKELY):
        return []
    is_sure = expectation.contradicts(known, SURELY)
    confidence = SURELY if is_sure else LIKELY
    measured = expectation.interval(confidence)
    mean, half = float(measured.value[0]), float(measured.half[0])
    shift = np.max(np.abs(control.slope)) * abs(mean - known)
    words = (
        f"control: its expectation is {mean:.6g} ± {half:.2g} by the paths "
        f"(bias and sampling, at {confidence:g}), but {known:.6g} was stated, which moves the value by {shift:.2g}. "
        "Give its exact expectation, or leave it out"
    )
    if is_sure:
        raise ValueError(words)
    return [words]


def needed_error(ladder: Ladder) -> float:
    """The error of E c that moves the value by the error asked for; infinite where the estimate shows E c as well."""
    slope, error = np.abs(ladder.control.slope), ladder.result.error
    enough = np.min(error[slope > 0] / slope[slope > 0], initial=np.inf)
    return float(enough) if ladder.of_control(LIKELY).half[0] > enough else math.inf


def is_unexpected(ladder: Ladder) -> bool:
    """Whether the control's mean is so far from its stated expectation that more points should confirm it."""
    if not ladder.is_controlled or not ladder.control.is_stated:
        return False
    known, measured = ladder.control.known, ladder.of_control(LIKELY)
    allowed = UNEXPECTED * measured.stderr[0] + measured.bias[0] + _rounding([ladder]) * abs(known)
    return bool(abs(measured.value[0] - known) > allowed)


def _rounding(ladders: Sequence[Ladder]) -> float:
    """The share of the mean of a control that may be rounding: N ε for a sum of N values, n ε for values after n
    steps."""
    points = sum(one.runs[place].computed for one in ladders for place in one.used)
    return float(np.finfo(float).eps) * (points + max(one.n(max(one.base, one.top)) for one in ladders))
