"""E f of a path to a stated error: the method, the steps and the points are chosen, and the error is checked.

pilot    differences of levels 1 and 2 of each candidate method, 256 points each, fewer where there are many steps
predict  the cost of every base and top, from the pilot's variances and bias (rules.predicted)
loop     half = q s + D; stop when it is small enough. Add a level where D is too large and significant; otherwise add
         points where they help most
check    kurtosis, order, finite paths; every check that fails is reported as a reason not to trust the result
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn.accuracy import rules, tails
from stodyn.accuracy.candidates import Candidate, candidates
from stodyn.accuracy.ladder import Diverged, Ladder, Unattainable, Untrusted, Work
from stodyn.accuracy.levels import LevelRun, Question
from stodyn.accuracy.linear_control import Linearised, NoControl, linearised
from stodyn.accuracy.pilot import (
    MOST_DOUBLED,
    MOST_STEPS,
    RARE,
    TELLING,
    Pilots,
    in_words,
    not_finite,
    rare,
    stops_in_words,
)
from stodyn.accuracy.report import Account, dataset
from stodyn.arguments import stacklevel_of_user
from stodyn.engine.failure import PathsFailed
from stodyn.engine.place import Place, front_door
from stodyn.engine.progress import Progress
from stodyn.engine.simulate import whereabouts
from stodyn.engine.spec import as_it_is_now
from stodyn.hints import Integer, Reals, check_seed
from stodyn.methods.switching import refuse_switches
from stodyn.problems.calling import call
from stodyn.problems.contract import returned_shape
from stodyn.statistics.functional import Controlled, End, Functional, PairWithControl, Probability, Watching

POINTS = ("auto", "sobol", "random")
GROWTH = {"sobol": 2.0, "random": 1.25}
LEAP, NEARLY = 16, 0.9  # largest factor by which plain Monte Carlo next multiplies its points; share that suffices
WORTH = 1.5  # gain of Sobol points on a level below which the next levels take pseudo-random ones
RUNAWAY, NEVER_RUNAWAY = 300.0, 3e8  # times its prediction beyond which an estimate ends, and path-steps that never do
HOPELESS = 100.0  # times the budget, beyond which an estimate is refused: predictions are up to twelve times too high
FURTHER_LOOKS = 4  # doublings of a level whose kurtosis is too large
SURELY, LIKELY = 1 - 1e-6, 0.995  # confidence with which a control is refused, and not trusted
UNEXPECTED, CONFIRMATIONS = 1.5, 2  # standard errors of a control's mean for which points are doubled, and how often
SLOPE_POINTS = 512  # paths that determine the slope of a control
DOUBTED, REFUTED, FINER = 2.5, 6.0, 8  # standard errors of a control's mean; factor of the steps and paths that decide
PAYS = 2.5  # reduction of the variance that pays for a second path beside each
MENDS = 2**18  # points of a level after which a kurtosis that is still too large will stay so, or a value may be zero
SURE = 4096  # points needed before f counts as constant, and before an f with jumps or corners is believed
DEAR_STEPS = 1e6  # path-steps of the points that show the shape of a tail, above which they are not taken lightly
TAIL_STEPS = 2e7  # path-steps of a level up to which points are added to judge its tail


@front_door
def estimate(
    problem,
    f: Callable | Functional,
    *,
    t: Reals,
    error: float,
    seed: Integer,
    level: float = 0.95,
    relative: bool = False,
    method: Any = None,
    steps: Integer | None = None,
    points: str = "auto",
    control: tuple[Callable | Functional, float] | str | None = None,
    most: float = 1e10,
    ledger: Any = None,
    place: Place | None = None,
    device: Any = "cpu",
    progress: bool | None = None,
) -> xr.Dataset:
    """Estimate E f to a total error (bias and sampling) with a confidence interval, by the cheapest route.

    Parameters
    ----------
    problem : Problem
        An SDE, a problem that has an SDE with the same law (Hamiltonian, Mechanical, coloured noise), or an SDAE.
        Starts and parameters may be random.
    f : function or Functional
        A function (t, x[, params]) of the end state that returns a number or a vector, or one of
        stodyn.statistics.functional: End, TimeAverage, Integral, Maximum, Minimum, Probability.
    t : (start, end)
        The interval.
    error : float
        The half-width of the interval, for every entry of f; with relative=True as a share of |E f|.
    seed : int
        A whole number; the same seed gives the same result.
    level : float
        The confidence level of the interval of each entry by itself.
    relative : bool
        Whether `error` is a share of |E f|.
    method, steps : Method or str, and int, optional
        Fix the method, and the number of steps of the coarsest level.
    points : {"auto", "sobol", "random"}
        "auto" takes Sobol points where they pay.
    control : (c, E c), "linear" or "auto", optional
        (c, E c): a function or functional of the same paths that is correlated with f, and its exact expectation. The
        estimate is then that of f - β (c - E c), with β from a pilot of its own. "linear": f on the problem linearised
        along its own Gaussian law, beside each path; for additive noise, up to four components and End, Integral or
        TimeAverage. "auto": the same where it lowers the variance by a factor of at least 2.5, the cost of the second
        path.
    most : float
        The largest number of path-steps.
    ledger : str or Path, optional
        A folder that stores the blocks of every level, so that a further call continues from them.
    place, device
        As for stodyn.simulate: where blocks run.
    progress : bool, optional
        Whether to show the error as it falls; by default on a terminal or in a notebook.

    Returns
    -------
    xarray.Dataset
        value, error (the half-width reached), low, high, bias, stderr; for every level steps, points, level_mean,
        level_stderr, level_variance, kurtosis, gain (of Sobol points), path_steps, sampled, role. attrs: route, why,
        trusted, reasons, path_steps, pilot_path_steps, predicted, plain_path_steps.

    Raises
    ------
    Unattainable
        If the expectation cannot be estimated as asked: too few path-steps, a rare event, levels that do not converge.

    Notes
    -----
    The interval relies on a variance that can be estimated and on a bias that shrinks from level to level as observed;
    both are checked, and `trusted` is 1 where no check failed; where one did, there is a warning too. A bias that is
    zero on the measured levels but not on finer ones cannot be detected, and neither can values rarer than one in the
    number of points.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 0.1, start=2.0)
    >>> result = sd.estimate(decay, lambda t, x: x[0], t=(0, 1), error=0.01, seed=1)
    >>> bool(abs(result["value"] - 0.7358) < 0.02), result.attrs["trusted"]
    (True, 1)
    """
    _check_wishes(error, level, most, seed)
    where = whereabouts(place, None, device)
    estimator = Estimator(problem, f, t, method=method, steps=steps, points=points, control=control, where=where)
    result = estimator.answer(error, seed, level=level, relative=relative, most=most, ledger=ledger, progress=progress)
    if not result.attrs["trusted"]:
        warnings.warn(
            f"estimate: do not trust this interval: {result.attrs['reasons']}",
            Untrusted,
            stacklevel=stacklevel_of_user(),
        )
    return result


class Estimator:
    """A question, described and traced once, that can be answered many times; the options are those of estimate, with
    `where` from engine.simulate.whereabouts."""

    def __init__(self, problem, f, t, *, method=None, steps=None, points="auto", control=None, where: Any = None):
        self.span, self.functional = _checked_span(t), _functional(f)
        _check_choices(points, steps)
        refuse_switches(problem, "estimate")
        self.problem, self.method, self.steps, self.control = as_it_is_now(problem), method, steps, control
        _check_lists(self.problem)
        _check_values(self.functional, self.problem, self.span[0])
        self.functional = self.functional.along(self.problem, self.span)
        self.where: Place
        self.devices: tuple[Any, ...]
        self.where, self.devices, _ = where or whereabouts(None, None, "cpu")
        if self.devices and points == "sobol":
            raise ValueError('points: Sobol points are made on the processor; give points="random", or device="cpu"')
        self.kind = "random" if self.devices or points == "random" else "sobol"
        self.chooses = points == "auto"
        self.questions = self._questions(self.problem, self.functional)

    def _questions(self, problem, functional, beside: Functional | None = None) -> list[tuple[Candidate, Question]]:
        """The candidate methods, the coarsest first; `beside`, if any, replaces the functional."""
        methods = sorted(candidates(problem, functional, self.method, self.span), key=lambda method: method.steps)
        return [(method, self._question(method, beside or functional)) for method in methods]

    def _question(self, candidate: Candidate, functional: Functional) -> Question:
        watched = Watching(functional) if candidate.watched else functional
        return Question(candidate.problem, candidate.method, watched, self.span, self.where, self.devices)

    def _controlled(self, error: float, seed: int) -> tuple[list[tuple[Candidate, Question]], WithControl]:
        """The questions with the user's control, and the facts known about that control."""
        none = WithControl(None, 0, 1.0, None)
        if self.control is None:
            return self.questions, none
        problem, functional, control = self.problem, self.functional, self.control
        if isinstance(control, str):
            linear = _linearised(problem, functional, self.span, error, control)
            if linear is None:
                return self.questions, none
            problem, functional, known = linear.problem, linear.functional, (linear.control, linear.known)
        else:
            known = control
        first = candidates(problem, functional, self.method, self.span)[0]
        with_control = _with_control(
            functional, known, self._question(first, functional), first, seed, is_own=isinstance(control, str)
        )
        if control == "auto" and with_control.factor < PAYS:
            return self.questions, none._replace(spent=with_control.spent)
        return self._questions(problem, functional, with_control.functional), with_control

    def answer(self, error, seed, *, level=0.95, relative=False, most=1e10, ledger=None, progress=None) -> xr.Dataset:
        """Estimate E f to an error."""
        began = time.perf_counter()
        work = Work(level, float(error), relative, float(most), int(seed), self.kind, self.chooses, ledger)
        questions, control = self._controlled(float(error), int(seed))
        with Progress(0, progress, label="estimating", link=self.where.link) as bar:
            pilots = Pilots(questions, work, self.steps, bar)
            failures = pilots.failures
            if not pilots.ladders:
                raise Unattainable(_without_method(failures))
            pilot = control.spent + pilots.spent
            left, reasons = list(pilots.ladders), None
            while reasons is None:
                choices = [(prediction, ladder) for ladder in left for prediction in ladder.predicted()]
                best, ladder = min(choices, key=lambda choice: choice[0].cost)
                if best.cost > HOPELESS * work.most:
                    raise Unattainable(_too_dear(best, ladder, work))
                ladder.take(best)
                try:
                    reasons = _loop(ladder, work, bar, pilots.spent - ladder.spent)
                except (PathsFailed, Diverged) as reason:
                    left.remove(ladder)
                    failures.append(f"{ladder.candidate.method.name}: {in_words(reason)}")
                    left = left or pilots.further()
                    if not left and isinstance(reason, Diverged):
                        raise
                    if not left:
                        raise Unattainable(_without_method(failures)) from reason
        reasons = [*reasons, *_check_control(ladder, control)]
        costs = {id(other): math.inf for other in left if other is not ladder}
        for prediction, other in choices:
            if other is not ladder:
                costs[id(other)] = min(costs[id(other)], prediction.cost)
        spent, seconds = control.spent + pilots.spent, time.perf_counter() - began
        account = Account(reasons, best.cost, sorted(costs.values()), failures, pilot, spent, seconds)
        return dataset(ladder, work, control, account)


def _check_control(ladder: Ladder, control: WithControl) -> list[str]:
    """Refuse a stated expectation that the points of the estimate contradict, once in a million where it is right, and
    do not trust one that they doubt, once in two hundred."""
    if control.functional is None or not _is_contradicted(ladder, LIKELY):
        return []
    known, is_sure = control.functional.known, _is_contradicted(ladder, SURELY)
    confidence = SURELY if is_sure else LIKELY
    measured = ladder.of_control(confidence)
    mean, half = float(measured.value[0]), float(measured.half[0])
    shift = np.max(np.abs(control.functional.slope)) * abs(mean - known)
    words = (
        f"control: its expectation is {mean:.6g} ± {half:.2g} on the paths of the estimate "
        f"(bias and sampling, at {confidence:g}), but {known:.6g} was stated, which moves the value by {shift:.2g}. "
        "Give its exact expectation, or leave it out"
    )
    if is_sure:
        raise ValueError(words)
    return [words]


def _is_contradicted(ladder: Ladder, confidence: float) -> bool:
    """Whether the stated expectation of the control lies outside its interval on the points of the estimate."""
    known, measured = ladder.control.known, ladder.of_control(confidence)
    return bool(abs(measured.value[0] - known) > measured.half[0] + _rounding(ladder) * abs(known))


def _is_unexpected(ladder: Ladder) -> bool:
    """Whether the control's mean is so far from its stated expectation that more points should confirm it."""
    if not ladder.is_controlled or not ladder.control.is_stated:
        return False
    known, measured = ladder.control.known, ladder.of_control(LIKELY)
    allowed = UNEXPECTED * measured.stderr[0] + measured.bias[0] + _rounding(ladder) * abs(known)
    return bool(abs(measured.value[0] - known) > allowed)


def _rounding(ladder: Ladder) -> float:
    """The share of the mean of a control that may be rounding: N ε for a sum of N values, n ε for values after n
    steps."""
    points = sum(ladder.runs[one].computed for one in ladder.used)
    return float(np.finfo(float).eps) * (points + ladder.n(max(ladder.base, ladder.top)))


class WithControl(NamedTuple):
    """f with its control, the path-steps of the pilot that found its slope, the factor by which the variance falls, and
    the variance of f by itself, per entry."""

    functional: Controlled | None
    spent: int
    factor: float
    variance: np.ndarray | None


def _linearised(problem, functional, span, error, control) -> Linearised | None:
    """The control asked for by name, or None where "auto" finds none."""
    if control not in ("linear", "auto"):
        raise ValueError(f'control: expected (function, its exact expectation), "linear" or "auto", got {control!r}')
    try:
        return linearised(problem, functional, span, error)
    except NoControl:
        if control == "linear":
            raise
        return None


def _with_control(f, control, original: Question, candidate: Candidate, seed: int, is_own: bool) -> WithControl:
    """f with its control, whose slope a pilot of its own determines."""
    try:
        c, known = control
        known = float(known)
    except (TypeError, ValueError) as wrong:
        raise TypeError(f"control: expected (function, its exact expectation), got {control!r}") from wrong
    if not math.isfinite(known):
        raise ValueError(f"control: expected a finite expectation, got {known!r}")
    both = PairWithControl(f, _functional(c), 0.0, known)
    streams = np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(2, np.uint64) >> np.uint64(1)
    stream = int(streams[0])
    question, steps, spent = dataclasses.replace(original, functional=both), 2 * candidate.steps, 0
    while True:
        run = LevelRun(question, "single", steps, stream, "random")
        spent += SLOPE_POINTS * run.cost
        try:
            run.grow(SLOPE_POINTS, Progress(0, False))
            break
        except PathsFailed:
            if steps >= MOST_DOUBLED * candidate.steps:
                raise
            steps *= 2
    second = np.asarray(run.sums[1].second)[0]
    if not second[-1, -1] > 0:
        raise ValueError("control: it is the same on every path; leave it out")
    if not is_own and _off(run, known)[1] > DOUBTED:  # chance, coarse steps, or a wrong expectation: more paths decide
        finer = LevelRun(question, "single", FINER * steps, int(streams[1]), "random")
        finer.grow(FINER * SLOPE_POINTS, Progress(0, False))
        spent += FINER * SLOPE_POINTS * finer.cost
        mean, off = _off(finer, known)
        if off > REFUTED:
            raise ValueError(
                f"control: its mean over {FINER * SLOPE_POINTS} paths of {FINER * steps} steps is {mean:.4g}, "
                f"{off:.0f} standard errors from the stated expectation, {known:.4g}. Give its exact expectation."
            )
    slope = second[:-1, -1] / second[-1, -1]
    own = np.diagonal(second)[:-1]
    left = own - slope * second[:-1, -1]
    factor = float(np.min(own / np.maximum(left, 1e-300)))
    controlled = Controlled(f, both.control, slope, known, is_stated=not is_own)
    return WithControl(controlled, spent, factor, own / (SLOPE_POINTS - 1))


def _off(run: LevelRun, known: float) -> tuple[float, float]:
    """The mean of the control, and its distance from the stated expectation in standard errors."""
    sums = run.sums[1]
    count, mean = float(np.asarray(sums.weight).ravel()[0]), float(np.asarray(sums.mean)[0, -1])
    variance = float(np.asarray(sums.second)[0, -1, -1]) / (count - 1)
    return mean, abs(mean - known) / math.sqrt(variance / count)


def _checked_span(t) -> tuple[float, float]:
    try:
        start, end = (float(x) for x in t)
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"t: expected (start, end), got {t!r}") from wrong
    if not (math.isfinite(start) and math.isfinite(end) and start < end):
        raise ValueError(f"t: expected (start, end) with start < end, got {t!r}")
    return start, end


def _check_lists(problem: Any) -> None:
    """Refuse lists of different lengths: a path takes one place in all of them."""
    sources = (*problem.start_parts, *problem.param_sources)
    lengths = sorted({int(source.count) for source in sources if source.is_listed})
    if len(lengths) > 1:
        raise ValueError(
            f"problem: its lists of values (PerPath) hold {lengths[0]} and {lengths[-1]} values; an estimate draws one "
            "place for all of them at random. Give lists of one length"
        )


def _check_choices(points, steps) -> None:
    if points not in POINTS:
        raise ValueError(f"points: expected one of {', '.join(map(repr, POINTS))}, got {points!r}")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1):
        raise ValueError(f"steps: expected a whole number >= 1 of steps of the coarsest level, got {steps!r}")
    if steps is not None and 4 * steps > MOST_STEPS:
        raise ValueError(f"steps: expected at most {MOST_STEPS // 4} of the coarsest level, got {steps}")


def _check_values(functional: Functional, problem: Any, t: float) -> None:
    """Refuse functions whose values cannot be averaged."""
    with jax.enable_x64(True):
        x, params = jnp.asarray(problem.example_start(), float), problem.example_params()
        try:
            value = jax.eval_shape(lambda x: call(functional.function, t, x, params=params), x)
        except Exception:
            value = None
        if not isinstance(value, jax.ShapeDtypeStruct):
            value = returned_shape(problem, "f", functional.function, ("t", t), ("x", x))  # says what is wrong with it
    shape, kind = value.shape, value.dtype.kind
    if kind == "b" and isinstance(functional, Probability):
        raise ValueError(
            "f: the function of Probability is True or False; give a number that is above 0 where the event happens, "
            "such as x[0] - 1.5 for x[0] > 1.5, from which the chance within the last step is known"
        )
    wanted = "a number" if functional.of_numbers else "a number or a vector"
    most = 0 if functional.of_numbers else 1
    if kind not in "fiub" or (len(shape) > most and shape != (1,)):
        name = "complex numbers" if kind == "c" else f"an array of shape {shape}"
        raise ValueError(
            f"f: expected {wanted} for each path, got {name} from the function of {type(functional).__name__}"
        )


def _check_wishes(error, level, most, seed) -> None:
    if isinstance(error, bool) or not isinstance(error, (int, float, np.number)) or not 0 < error < math.inf:
        raise ValueError(f"error: expected a number > 0, got {error!r}; no number of paths gives an error of zero")
    if not isinstance(level, (int, float)) or not 0.5 <= level < 1:
        raise ValueError(f"level: expected a number from 0.5 to 1, such as 0.95, got {level!r}")
    if not isinstance(most, (int, float, np.number)) or not most >= 1:
        raise ValueError(f"most: expected a number of path-steps, got {most!r}")
    check_seed(seed)


def _functional(f: Any) -> Functional:
    if isinstance(f, Functional):
        return f
    if not callable(f):
        raise TypeError(
            f"f: expected a function (t, x[, params]) of the end state, or one of stodyn.statistics.functional (End, "
            f"TimeAverage, Integral, Maximum, Minimum, Probability), got {f!r}"
        )
    return End(f)


def _may_be_zero(interval: rules.Interval, entry: int, points: int) -> str:
    return (
        f"after {points} points the interval {interval.value[entry]:.2g} ± {interval.half[entry]:.2g} still contains "
        "zero, so that a relative error has no meaning; ask for an absolute one (relative=False)"
    )


def _without_method(failures: Sequence[str]) -> str:
    return (
        f"f: no method gives levels that converge. {' | '.join(failures)} | Give steps= for a finer coarsest level, "
        "another method=, or a shorter t; where paths explode or leave the domain of the coefficients, E f does not "
        "exist"
    )


def _too_dear(best: rules.Prediction, ladder: Ladder, work: Work) -> str:
    if stops := stops_in_words(ladder):
        return stops
    finest = max(l for role, l in ladder.runs if role == "difference")
    variance = float(np.max(ladder.fine(finest).variance))
    reach = work.error * math.sqrt(best.cost / work.most)
    return (
        f"error: {work.error:g} needs about {best.cost:.0e} path-steps (pilot: variance {variance:.2g} at "
        f"{ladder.n(finest)} steps); most={work.most:g} reaches about {reach:.1g}. Raise most, or ask for that"
    )


def _loop(ladder: Ladder, work: Work, bar: Progress, elsewhere: int) -> list[str]:
    """Add points and levels until the error is reached; return the reasons not to trust the result."""
    visits: Counter[tuple[str, int]] = Counter()
    has_moved = False  # to another base since points were last added
    confirmations = 0  # doublings of the base to confirm the expectation of a control
    predicted = ladder.expected
    most = min(work.most, max(RUNAWAY * predicted, NEVER_RUNAWAY))
    while True:
        for role, l in ladder.used:
            ladder.run(role, l).grow(ladder.least, bar)
        ladder.check_far()
        levels = ladder.levels()
        by = {(one.role, one.level): one for one in levels}
        b = ladder.bias(levels)
        counted = rules.weights(levels, ladder.base, ladder.top, ladder.order, b.extrapolated)
        interval = rules.interval(levels, counted, b.bound, work.level)
        if not np.all(np.isfinite(interval.value)):
            raise not_finite(ladder)
        error, aim = work.tolerance(interval.value, interval.half), work.aim(interval.value, interval.half)
        share = interval.half / np.maximum(error, 1e-300)
        worst = int(np.argmax(share))
        spent = ladder.spent + elsewhere
        work.history.append((float(spent), float(interval.value[worst]), float(interval.half[worst])))
        bar.expect(0, f"{interval.value[worst]:.6g} ± {interval.half[worst]:.2g}")
        ladder.result = (interval, b, levels, counted, error)
        if levels[0].known.points >= TELLING:
            _check_rare(ladder, interval.value + 5 * interval.stderr)
        heavy = _heavy(levels, ladder, counted, error, work.level)
        constant = levels[0] if np.any(levels[0].known.variance == 0) and not ladder.is_controlled else None
        hidden = levels[0] if constant is not None or ladder.question.has_corners else None
        doubted = [*heavy, *([hidden] if hidden is not None and hidden.known.points < SURE else [])]
        still_open = [one for one in doubted if visits[one.role, one.level] < FURTHER_LOOKS]
        unsure = next(iter([*still_open, *([levels[0]] if _is_suspect(levels[0], ladder) else [])]), None)
        if share[worst] <= 1 and unsure is None:
            if confirmations == CONFIRMATIONS or not _is_unexpected(ladder):
                return _reasons(ladder, heavy)
            unsure, confirmations = levels[0], confirmations + 1
        for hopeless in (one for one in heavy if one.known.points >= MENDS):
            reached = f"{interval.half[worst]:.2g} was reached, not {error[worst]:.2g}"
            return [*_reasons(ladder, [hopeless]), f"given up, because more points do not help: {reached}"]
        if work.relative and levels[0].known.points >= MENDS and interval.half[worst] > abs(interval.value[worst]):
            return [*_reasons(ladder, heavy), _may_be_zero(interval, worst, levels[0].known.points)]
        where: Any
        planned = 0
        if unsure is not None and share[worst] <= 1:
            visits[unsure.role, unsure.level] += 1
            where, planned = unsure, 2 * unsure.known.points
        elif ladder.is_plain or _is_better_plain(ladder, levels, aim, share[worst]):
            route = ladder.plain_route(aim)
            if not ladder.is_plain:
                ladder.take(route)
                continue
            moves = (route.base, route.top) != (ladder.base, ladder.top)
            if moves and not has_moved:
                if route.top > ladder.top and _does_not_converge(ladder):
                    raise _not_falling(ladder, levels, worst)
                if ladder.n(max(route.base, route.top)) > MOST_STEPS:
                    return [*_reasons(ladder, heavy), f"the bias would need more than {MOST_STEPS} steps"]
                ladder.take(route)
                has_moved = True
                continue
            base, pair = levels[0], by["difference", ladder.top]
            if not moves and pair.known.points < NEARLY * route.pairs:
                where, planned = pair, int(route.pairs)
            elif not moves and base.known.points < NEARLY * route.paths:
                where, planned = base, int(route.paths)
            else:
                where = pair if np.any(b.bound > rules.BIAS_SHARE * aim) else base
        elif np.any((b.bound > 0.5 * aim) & (b.bound > 2 * b.stderr)):
            if _does_not_converge(ladder):
                raise _not_falling(ladder, levels, worst)
            if 2 * ladder.n(ladder.top) > MOST_STEPS:
                return [*_reasons(ladder, heavy), f"the bias would need more than {MOST_STEPS} steps"]
            gains = by["difference", ladder.top].known.gain
            if ladder.runs["difference", ladder.top].points == "sobol" and np.max(gains) < WORTH:
                ladder.random_from = min(ladder.random_from, ladder.top + 1)
            ladder.top += 1
            continue
        elif np.any(b.bound > 0.5 * aim):
            g = ladder.order.ratio
            finest_two = [by["difference", ladder.top], by["difference", ladder.top - 1]]
            where = max(finest_two, key=lambda one: _helps(one, g if one.level == ladder.top else 1.0, worst))
        else:
            where = max(
                zip(levels, counted, strict=True), key=lambda part: _helps(part[0], float(part[1][worst]), worst)
            )[0]
        run = ladder.runs[where.role, where.level]
        growth = GROWTH[run.points] if share[worst] < 2 else max(GROWTH[run.points], 2.0)
        wanted = min(planned, LEAP * run.computed) if planned else int(growth * run.computed)
        wanted = ladder.rounded(run, max(wanted, run.computed + 1))
        if spent + (wanted - run.computed) * run.cost > most:
            if share[worst] <= 1:
                return _reasons(ladder, heavy)
            reached = f"{interval.half[worst]:.2g} was reached, not {error[worst]:.2g}"
            end = f"the budget most = {work.most:g} path-steps is spent"
            if most < work.most:
                end = f"given up after {spent:.2g} path-steps, where the pilot had predicted {predicted:.2g}"
            return [*_reasons(ladder, heavy), f"{end}: {reached}"]
        ladder.grow(where.role, where.level, wanted, bar)
        has_moved = False


def _helps(one: rules.Level, weight: float, entry: int) -> float:
    """How much one more path-step on a level lowers the variance of the estimate."""
    return weight**2 * float(one.known.stderr2[entry]) / (one.known.points * one.cost)


def _heavy(
    levels: Sequence[rules.Level], ladder: Ladder, counted: Sequence[np.ndarray], error: np.ndarray, level: float
) -> list[rules.Level]:
    """The levels whose variances cannot be believed for their kurtosis, the worst first, where they matter."""
    spread = _is_spread(ladder)

    def looseness(one: rules.Level) -> float:
        loose = np.atleast_1d((one.known.kurtosis - 1) / one.known.points)
        return float(np.max(loose, where=spread, initial=0.0))

    heavy = [one for one in levels if looseness(one) > rules.LOOSE]
    return sorted(_mattering(heavy, levels, ladder, counted, error, level), key=looseness, reverse=True)


def _is_suspect(base: rules.Level, ladder: Ladder) -> bool:
    """Whether the tail of the base may be heavy, and twice the points may tell.

    Where few points of many steps each are enough for the error, and as many as show a shape would cost much more, only
    a clear suspicion counts. Differences take no points for theirs: they are at most twice as large as the values that
    they compare, and no heavier in their tails.
    """
    telling, known = min(tails.TELLING_POINTS, TAIL_STEPS / base.cost), base.known
    is_dear = known.points < tails.SHOWING and tails.SHOWING * base.cost > DEAR_STEPS
    suspected = known.tail.looks_heavy if is_dear else known.tail.may_be_heavy
    return 2 * known.points <= telling and bool(np.any(_has_tails(ladder) & suspected))


def _heavy_tailed(
    levels: Sequence[rules.Level], ladder: Ladder, counted: Sequence[np.ndarray], error: np.ndarray, level: float
) -> list[rules.Level]:
    """The levels whose tails are heavy, the heaviest first, where they matter."""
    has_tails = _has_tails(ladder)
    heavy = [one for one in levels if np.any(has_tails & one.known.tail.is_heavy)]
    heavy = _mattering(heavy, levels, ladder, counted, error, level)
    return sorted(heavy, key=lambda one: float(np.max(one.known.tail.far.value)), reverse=True)


def _has_tails(ladder: Ladder) -> np.ndarray:
    """The entries whose tails are judged: neither what a control leaves of f, nor what is bounded."""
    is_judged = not (ladder.is_controlled or isinstance(ladder.functional, Probability))
    return is_judged & _is_spread(ladder)


def _is_spread(ladder: Ladder) -> np.ndarray:
    """The entries with more than two values: the mean of a two-valued one gives its variance."""
    return np.atleast_1d(ladder.fine(1).span <= 0)


def _mattering(
    doubted: Sequence[rules.Level],
    levels: Sequence[rules.Level],
    ladder: Ladder,
    counted: Sequence[np.ndarray],
    error: np.ndarray,
    level: float,
) -> list[rules.Level]:
    """Those of some levels whose variance, three standard errors larger, would be too large beside the others for the
    error."""
    bound = ladder.bias(levels).bound

    def matters(one: rules.Level) -> bool:
        if one.role == "base" or not np.all(np.isfinite(one.known.kurtosis)):
            return True
        larger = one.known.stderr2 * (1 + 3 * np.sqrt((one.known.kurtosis - 1) / one.known.points))
        raised = [
            other._replace(known=other.known._replace(stderr2=larger)) if other is one else other for other in levels
        ]
        return bool(np.any(rules.interval(raised, counted, bound, level).half > error))

    return [one for one in doubted if matters(one)]


def _is_better_plain(ladder: Ladder, levels: Sequence[rules.Level], aim: np.ndarray, share: float) -> bool:
    """Whether paths turned out to lose each other, and plain Monte Carlo costs less than to go on with the levels,
    whose error falls with the root of their cost."""
    if share <= 1 or not ladder.loses_paths:
        return False
    so_far = sum(ladder.runs[one.role, one.level].spent for one in levels)
    return ladder.plain_route(aim).cost < so_far * (share**2 - 1)


def _not_falling(ladder: Ladder, levels: Sequence[rules.Level], entry: int) -> Diverged:
    return Diverged(
        "f: its differences do not fall from level to level at a visible rate: "
        + ", ".join(f"{one.known.mean[entry]:.2g} at {ladder.n(one.level)} steps" for one in levels[1:])
    )


def _does_not_converge(ladder: Ladder) -> bool:
    """Whether three significant differences fall by less than a tenth each."""
    if ladder.top < 3 or ("difference", ladder.top - 2) not in ladder.runs:
        return False
    three = [ladder.known("difference", ladder.top - k) for k in range(3)]
    ratios = [rules.bias(a, b, ladder.order).ratio for a, b in itertools.pairwise(three)]
    return bool(np.any((ratios[0] > rules.STEEPEST) & (ratios[1] > rules.STEEPEST)))


def _reasons(ladder: Ladder, heavy: Sequence[rules.Level]) -> list[str]:
    interval, _, levels, counted, error = ladder.result
    reasons = []
    if ladder.candidate.leaves:
        reasons.append(
            f"{ladder.candidate.method.name} is explicit and the drift grows faster than linearly: coarse paths run "
            "away with a small probability, and the expectations of its levels are infinite. Leave method out, or use "
            "TamedEuler"
        )
    points = sum(one.known.points for one in levels)
    if np.any(levels[0].known.variance == 0) and not ladder.is_controlled:
        reasons.append(
            f"f had one value on all {points} paths: if it has others, their probability is below {3 / points:.1g}"
        )
    for one in heavy[:1]:
        worst = float(np.max(one.known.kurtosis))
        reasons.append(
            f"kurtosis {worst:.3g} at {ladder.n(one.level)} steps with {one.known.points} points: neither the "
            "variance nor the interval can be believed"
        )
    if not reasons:
        for one in _heavy_tailed(levels, ladder, counted, error, ladder.work.level)[:1]:
            reasons.append(_tail_in_words(one, ladder.n(one.level)))
    _check_rare(ladder, interval.value)
    return reasons


def _tail_in_words(one: rules.Level, steps: int) -> str:
    far = one.known.tail.far
    entry = int(np.argmax(far.value))
    index = 1 / float(far.value[entry])
    error = index**2 * float(far.stderr[entry])
    return (
        f"the tail index of what is averaged at {steps} steps is {index:.2g} ± {error:.1g} "
        f"(from the largest of {one.known.points} values): below {tails.LEAST_INDEX:g}, rare large values that may not "
        "have occurred decide the variance, and the interval covers too seldom. Average the logarithm or a bounded "
        "function, or sample the large values more often (stodyn.rare)"
    )


def _check_rare(ladder: Ladder, most: np.ndarray) -> None:
    """Refuse probabilities that are at most `most`, where that is below RARE."""
    interval, _, levels, *_ = ladder.result
    is_probability = isinstance(ladder.functional, Probability) | ladder.fine(1).is_indicator
    if np.any(is_probability & (most < RARE) & (levels[0].known.variance > 0)):
        raise Unattainable(rare(float(np.min(interval.value)), ladder.work.error))
