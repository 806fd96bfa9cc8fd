"""E f of a path to a stated error: the method, the steps and the points are chosen, and the error is checked.

pilot    differences of levels 1 and 2 of each candidate method, 256 points each, fewer where there are many steps
predict  the cost of every base and top, from the pilot's variances and bias (rules.predicted)
loop     half = q s + D; stop when it is small enough. Add a level where D is too large and significant; otherwise add
         points where they help most
check    kurtosis, order, finite paths; whatever fails is given as a reason not to trust the result
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn.accuracy import fast_modes, rules
from stodyn.accuracy.candidates import MOST_FIRST, Candidate, candidates
from stodyn.accuracy.levels import CHEAP, PILOT, LevelRun, Question, pilot_points
from stodyn.accuracy.linear_control import Linearised, NoControl, linearised
from stodyn.accuracy.report import dataset
from stodyn.engine.failure import PathsFailed
from stodyn.engine.place import Place, front_door
from stodyn.engine.progress import Progress
from stodyn.engine.simulate import whereabouts
from stodyn.engine.spec import as_it_is_now
from stodyn.problems.calling import call
from stodyn.problems.contract import returned_shape
from stodyn.statistics.functional import Both, Controlled, End, Functional, Probability, Watching

POINTS = ("auto", "sobol", "random")
MOST_STEPS = 2**22
RARE = 1e-3
GROWTH = {"sobol": 2.0, "random": 1.25}
WORTH = 1.5  # gain of Sobol points on a level below which the next levels take pseudo-random ones
PILOT_SHARE = 0.05  # of the predicted cost, which is up to a few times too high, that pilots may take
HOPELESS = 100.0  # times the budget, beyond which an estimate is refused: predictions are up to twelve times too high
MOST_DOUBLED = 64  # times the first number of steps of a method, beyond which it is given up
FURTHER_LOOKS = 4  # doublings of a level whose kurtosis is too large
SLOPE_POINTS = 512  # paths that determine the slope of a control
DOUBTED, REFUTED, FINER = 2.5, 6.0, 8  # standard errors of a control's mean; factor of the steps and paths that decide
PAYS = 2.5  # reduction of the variance that pays for a second path beside each
TINY = 1e-140  # used for a tolerance of zero; its square is not zero
MENDS = 2**18  # points of a level after which a kurtosis that is still too large will stay so, or a value may be zero
APART = 2.5  # times the variance of f, beyond which differences are not those of independent paths
SURE = 4096  # points needed before f counts as constant, and before an f with jumps or corners is believed
FAR = 10.0  # times the reach of the finest paths, beyond which a path has run away


class NotToBeHad(ValueError):
    """Raised where an expectation cannot be estimated as asked; the message says why."""


class Diverged(NotToBeHad):
    """Raised where the levels of a method are of no use: paths run away because the drift grows faster than linearly,
    or differences do not fall."""


@front_door
def estimate(
    problem,
    f: Callable | Functional,
    *,
    t: Sequence[float],
    error: float,
    seed: int,
    level: float = 0.95,
    relative: bool = False,
    method: Any = None,
    steps: int | None = None,
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
    problem
        An SDE, a problem that has an SDE with the same law (Hamiltonian, Mechanical, coloured noise), or an SDAE.
        Starts and parameters may be random.
    f
        A function (t, x[, params]) of the end state that returns a number or a vector, or one of
        stodyn.statistics.functional: End, TimeAverage, Integral, Maximum, Minimum, Probability.
    t
        (start, end).
    error
        The half-width of the interval, for every entry of f; with relative=True as a share of |E f|.
    seed
        A whole number; the same seed gives the same result.
    level
        The confidence level of the interval of each entry by itself.
    relative
        Whether `error` is a share of |E f|.
    method, steps
        Fix the method, and the number of steps of the coarsest level.
    points
        "sobol", "random", or "auto": Sobol points where they pay.
    control
        (c, E c): a function or functional of the same paths that is correlated with f, and its exact expectation. The
        estimate is then that of f - β (c - E c), with β from a pilot of its own. "linear": f on the problem linearised
        along its own Gaussian law, beside each path; for additive noise, up to four components and End, Integral or
        TimeAverage. "auto": the same where it lowers the variance by at least 2.5, which is what the second path costs.
    most
        The largest number of path-steps.
    ledger
        A folder that keeps the blocks of every level, so that a further call continues from them.
    place, device
        Where blocks run, as for stodyn.simulate.
    progress
        Whether to show the error as it falls; None: on a terminal or in a notebook.

    Returns
    -------
    xarray.Dataset
        value, error (the half-width reached), low, high, bias, stderr; for every level steps, points, level_mean,
        level_stderr, level_variance, kurtosis, gain (of Sobol points), path_steps, sampled, role. attrs: route, why,
        trusted, reasons, path_steps, pilot_path_steps, predicted, plain_path_steps.

    Raises
    ------
    NotToBeHad
        If the expectation cannot be estimated as asked: too few path-steps, a rare event, levels that do not converge.

    Notes
    -----
    The interval relies on a variance that can be estimated and on a bias that shrinks from level to level as observed;
    both are checked. A bias that is zero on the measured levels but not on finer ones cannot be seen by anyone.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 0.1, start=2.0)
    >>> found = sd.estimate(decay, lambda t, x: x[0], t=(0, 1), error=0.01, seed=1)
    >>> bool(abs(found["value"] - 0.7358) < 0.02), found.attrs["trusted"]
    (True, 1)
    """
    _check_wishes(error, level, most, seed)
    asked = Asked(problem, f, t, method=method, steps=steps, points=points, control=control, place=place, device=device)
    return asked.answered(error, seed, level=level, relative=relative, most=most, ledger=ledger, progress=progress)


class Asked:
    """A question, described and traced once, that can be answered many times; the options are those of estimate."""

    def __init__(
        self, problem, f, t, *, method=None, steps=None, points="auto", control=None, place=None, device="cpu"
    ):
        self.span, self.functional = _checked_span(t), _functional(f)
        _check_choices(points, steps)
        self.problem, self.method, self.steps, self.control = as_it_is_now(problem), method, steps, control
        _check_lists(self.problem)
        self.where, self.devices, _ = whereabouts(place, None, device)
        if self.devices and points == "sobol":
            raise ValueError('points: Sobol points are made on the processor; give points="random", or device="cpu"')
        self.kind = "random" if self.devices or points == "random" else "sobol"
        self.chooses = points == "auto"
        self.found = self._questions(self.problem, self.functional)
        _check_values(self.functional, self.found[0][0].problem, self.span[0])

    def _questions(self, problem, functional, beside: Functional | None = None) -> list[tuple[Candidate, Question]]:
        """The candidate methods, the coarsest first; `beside` replaces the functional where it is given."""
        found = candidates(problem, functional, self.method, self.span)
        return [(one, self._question(one, beside or functional)) for one in sorted(found, key=lambda one: one.steps)]

    def _question(self, candidate: Candidate, functional: Functional) -> Question:
        watched = Watching(functional) if candidate.watched else functional
        return Question(candidate.problem, candidate.method, watched, self.span, self.where, self.devices)

    def _controlled(self, error: float, seed: int) -> tuple[list[tuple[Candidate, Question]], WithControl]:
        """The questions with the control that was given, and what is known of that control."""
        none = WithControl(None, 0, 1.0, None)
        if self.control is None:
            return self.found, none
        problem, functional, control = self.problem, self.functional, self.control
        if isinstance(control, str):
            linear = _linearised(problem, functional, self.span, error, control)
            if linear is None:
                return self.found, none
            problem, functional, known = linear.problem, linear.functional, (linear.control, linear.known)
        else:
            known = control
        first = candidates(problem, functional, self.method, self.span)[0]
        with_control = _with_control(
            functional, known, self._question(first, functional), first, seed, is_own=isinstance(control, str)
        )
        if control == "auto" and with_control.factor < PAYS:
            return self.found, none._replace(spent=with_control.spent)
        return self._questions(problem, functional, with_control.functional), with_control

    def answered(self, error, seed, *, level=0.95, relative=False, most=1e10, ledger=None, progress=None) -> xr.Dataset:
        """Estimate E f to an error."""
        began = time.perf_counter()
        work = _Work(level, float(error), relative, float(most), int(seed), self.kind, self.chooses, ledger)
        found, control = self._controlled(float(error), int(seed))
        before = control.spent
        with Progress(0, progress, label="estimating", link=self.where.link) as bar:
            ladders, failures, spare = _pilots(found, work, self.steps, bar)
            if not ladders:
                raise NotToBeHad(f"f: no method gives levels that converge. {' | '.join(failures)}")
            pilot = before + sum(ladder.spent for ladder in ladders)
            left, reasons = list(ladders), None
            while reasons is None:
                choices = [(prediction, ladder) for ladder in left for prediction in ladder.predicted()]
                best, ladder = min(choices, key=lambda choice: choice[0].cost)
                if best.cost > HOPELESS * work.most:
                    raise NotToBeHad(_too_dear(best, ladder, work))
                ladder.base, ladder.top, ladder.expected = best.base, max(best.top - 1, best.base, 2), best.cost
                try:
                    reasons = _loop(ladder, work, bar, sum(other.spent for other in ladders if other is not ladder))
                except (PathsFailed, Diverged) as reason:
                    left.remove(ladder)
                    failures.append(f"{ladder.candidate.method.name}: {reason}")
                    if not left and spare:  # a method whose pilot was too dear beside others
                        left, further, _ = _pilots(spare[:1], work, self.steps, bar)
                        ladders, failures, spare = ladders + left, failures + further, spare[1:]
                    if not left:
                        raise
        others = {id(l): math.inf for l in left if l is not ladder}
        for prediction, other in choices:
            if other is not ladder:
                others[id(other)] = min(others[id(other)], prediction.cost)
        spent = before + sum(other.spent for other in ladders)
        seconds = time.perf_counter() - began
        return dataset(ladder, work, reasons, sorted(others.values()), failures, pilot, spent, seconds, control)


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


def _with_control(f, control, asked: Question, candidate: Candidate, seed: int, is_own: bool) -> WithControl:
    """f with its control, whose slope a pilot of its own determines."""
    try:
        c, known = control
        known = float(known)
    except (TypeError, ValueError) as wrong:
        raise TypeError(f"control: expected (function, its exact expectation), got {control!r}") from wrong
    if not math.isfinite(known):
        raise ValueError(f"control: expected a finite expectation, got {known!r}")
    both = Both(f, _functional(c), 0.0, known)
    streams = np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(2, np.uint64) >> np.uint64(1)
    stream = int(streams[0])
    question, steps, spent = dataclasses.replace(asked, functional=both), 2 * candidate.steps, 0
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
                f"{off:.0f} standard errors from the expectation given, {known:.4g}. Give its exact expectation."
            )
    slope = second[:-1, -1] / second[-1, -1]
    own = np.diagonal(second)[:-1]
    left = own - slope * second[:-1, -1]
    factor = float(np.min(own / np.maximum(left, 1e-300)))
    return WithControl(Controlled(f, both.control, slope, known), spent, factor, own / (SLOPE_POINTS - 1))


def _off(run: LevelRun, known: float) -> tuple[float, float]:
    """The mean of the control, and its distance from the given expectation in standard errors."""
    sums = run.sums[1]
    count, mean = float(np.asarray(sums.weight).ravel()[0]), float(np.asarray(sums.mean)[0, -1])
    variance = float(np.asarray(sums.second)[0, -1, -1]) / (count - 1)
    return mean, abs(mean - known) / math.sqrt(variance / count)


def _pilots(found, work, steps, bar) -> tuple[list[Ladder], list[str], list[tuple[Candidate, Question]]]:
    """Pilots of the candidate methods, the cheapest first; why some failed; and the methods left out because their
    pilots would cost more than CHEAP and more than a small share of the whole."""
    ladders: list[Ladder] = []
    failures, spare = [], []
    for candidate, _ in found:
        if steps is None and candidate.steps > MOST_FIRST:
            raise NotToBeHad(_too_fast())
    if steps is None:
        found = [(candidate.following(work.error, work.relative), question) for candidate, question in found]
    for candidate, question in sorted(found, key=lambda one: one[0].steps):
        if steps is None and candidate.fast is not None and candidate.steps > fast_modes.MOST_STEPS:
            failures.append(f"{candidate.method.name}: {_damped(candidate.fast.unseen(fast_modes.MOST_STEPS))}")
            continue
        best = min((p.cost for ladder in ladders for p in ladder.predicted()), default=math.inf)
        so_far = sum(ladder.spent for ladder in ladders)
        if so_far + PILOT * candidate.steps * pilot_points(candidate.steps) > max(PILOT_SHARE * best, CHEAP):
            failures.append(f"{candidate.method.name}: its pilot would cost too much beside the estimate by another")
            spare.append((candidate, question))
            continue
        try:
            ladders.append(_pilot(question, candidate, work, steps, bar))
        except (PathsFailed, NotToBeHad) as reason:
            failures.append(f"{candidate.method.name}: {reason}")
    return ladders, failures, spare


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
            found = jax.eval_shape(lambda x: call(functional.function, t, x, params=params), x)
        except Exception:
            found = None
        if not isinstance(found, jax.ShapeDtypeStruct):
            found = returned_shape(problem, "f", functional.function, ("t", t), ("x", x))  # says what is wrong with it
    shape, kind = found.shape, found.dtype.kind
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
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed: expected a whole number >= 0, got {seed!r}")


def _functional(f: Any) -> Functional:
    if isinstance(f, Functional):
        return f
    if not callable(f):
        raise TypeError(
            f"f: expected a function (t, x[, params]) of the end state, or one of stodyn.statistics.functional (End, "
            f"TimeAverage, Integral, Maximum, Minimum, Probability), got {f!r}"
        )
    return End(f)


@dataclasses.dataclass
class _Work:
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
        """The error asked for, by entry."""
        if not self.relative:
            return np.full(value.shape, self.error)
        return self.error * np.maximum(np.abs(value) - half, 0.0)

    def aim(self, value: np.ndarray, half: np.ndarray) -> np.ndarray:
        """The error by which the next level is chosen: of a value that may still be zero, that of half of it."""
        if not self.relative:
            return np.full(value.shape, self.error)
        return self.error * np.maximum(np.abs(value) - half, 0.5 * np.abs(value))


class Ladder:
    """The levels of one method, single paths and pairs; each run begins when it is first needed."""

    def __init__(self, question: Question, candidate: Candidate, work: _Work, steps: int):
        self.question, self.candidate, self.work, self.steps = question, candidate, work, steps
        self.least = pilot_points(steps)
        self.runs: dict[tuple[str, int], LevelRun] = {}
        self.base, self.top, self.expected = 0, 2, math.inf
        self.random_from = math.inf  # the first level that takes pseudo-random points
        self.dropped = 0  # path-steps spent on levels that were too coarse
        self.result: Any = None  # interval, bias, levels, weights and error at the last look

    @property
    def functional(self) -> Functional:
        """f itself, without its control and without watching."""
        f: Any = self.question.functional
        while isinstance(f, (Watching, Controlled)):
            f = f.function
        return f

    @property
    def is_controlled(self) -> bool:
        """Whether f has a control, which may leave no variance."""
        f: Any = self.question.functional
        return isinstance(f.function if isinstance(f, Watching) else f, Controlled)

    @property
    def order(self) -> rules.Order:
        return self.candidate.order

    @property
    def unseen(self) -> float:
        """The part of E f that implicit steps damp out on every level so far."""
        fast = self.candidate.fast
        return 0.0 if fast is None else fast.unseen(self.n(self.top))

    @property
    def spent(self) -> int:
        return self.dropped + sum(run.spent for run in self.runs.values())

    def n(self, level: int) -> int:
        return self.steps * 2**level

    def run(self, role: str, level: int) -> LevelRun:
        if (role, level) not in self.runs:
            kind = "single" if role == "base" else self.candidate.kind
            key = np.random.SeedSequence(self.work.seed, spawn_key=(1 + level, int(role != "base")))
            seed = int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))
            points = self.work.points
            if points == "sobol" and self.work.chooses and role != "base" and level >= self.random_from:
                points = "random"
            folder = None
            if self.work.ledger is not None:
                folder = f"{self.work.ledger}/{self.candidate.method.name}-{role}-{level}-n{self.n(level)}"
            run = LevelRun(self.question, kind, self.n(level), seed, points, folder, self.least)
            self.runs[role, level] = run
        return self.runs[role, level]

    @property
    def question_entries(self) -> int:
        return next(iter(self.runs.values())).entries

    def check_far(self) -> None:
        """Refuse levels on which a path went ten times as far as the finest paths."""
        if self.candidate.watched:
            finest = max(l for role, l in self.runs if role == "difference")
            fine = float(self.runs["difference", finest].largest[0])
            far = max(float(run.largest.max()) for run in self.runs.values() if run.computed)
            if not far <= FAR * fine:
                raise Diverged(f"a path went to |x| = {far:.2g}, and paths of {self.n(finest)} steps to {fine:.2g}")

    def known(self, role: str, level: int) -> Any:
        return self.runs[role, level].known(slice(0, self.question_entries))

    def fine(self, level: int) -> Any:
        """P of the fine path of a difference."""
        k = self.question_entries
        return self.runs["difference", level].known(slice(k, 2 * k))

    @property
    def used(self) -> list[tuple[str, int]]:
        """The means of the estimate and of its bias."""
        differences = range(min(self.base + 1, self.top - 1), self.top + 1)
        return [("base", self.base), *(("difference", l) for l in differences if l >= 1)]

    def levels(self) -> list[rules.Level]:
        found = [rules.Level(role, l, self.known(role, l), self.runs[role, l].cost) for role, l in self.used]
        span = np.max([one.known.span if one.role == "base" else self.fine(one.level).span for one in found], axis=0)
        return rules.guarded(found, self.order, span)

    def predicted(self) -> list[rules.Prediction]:
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
        return rules.predicted(singles, pairs, b.bound, self.order, np.maximum(tolerance, TINY), self.work.level)


def _pilot(question: Question, candidate: Candidate, work: _Work, steps: int | None, bar: Progress) -> Ladder:
    """Levels 1 and 2 on the coarsest grid on which paths are finite and differences vary less than f itself. Where
    shorter steps do not achieve that, because fine and coarse paths lose each other, the coarsest grid on which they
    look independent is taken: its levels still measure the bias of plain Monte Carlo."""
    n, dropped, before = steps or candidate.steps, 0, math.inf
    while True:
        ladder = Ladder(question, candidate, work, n)
        ladder.dropped = dropped
        reason: Exception | str = ""
        try:
            for l in (1, 2):
                ladder.run("difference", l).grow(ladder.least, bar)
            ladder.check_far()
            variance, whole = ladder.known("difference", 1).variance, ladder.fine(2).variance
            fine = ladder.fine(2)
            if isinstance(ladder.functional, Probability) and np.any(fine.mean + 5 * np.sqrt(fine.stderr2) < RARE):
                raise NotToBeHad(_rare(float(np.min(fine.mean)), work.error))
            bad = ~np.isfinite(variance) | ~np.isfinite(whole)
            if bad.any():
                raise ValueError("f: it is NaN or infinite on some paths; make it finite for every state that occurs")
            if np.all(variance <= whole) or not np.any(whole > 0):
                break
            reason = f"differences of {n} and {2 * n} steps vary more than f itself"
            ratio = float(np.max(variance / np.maximum(whole, TINY)))
            if ratio <= APART and ratio > 0.5 * before:
                break
            before = ratio
        except (PathsFailed, Diverged) as failed:
            if steps is not None:
                raise
            reason = failed
        if steps is not None or 2 * n > MOST_STEPS or n >= MOST_DOUBLED * candidate.steps:
            if steps is not None and not isinstance(reason, Exception):
                break
            raise NotToBeHad(str(reason))
        n, dropped = 2 * n, ladder.spent
    return ladder


def _too_fast() -> str:
    return (
        f"problem: its coefficients, or the integrand, change in time faster than {MOST_FIRST} steps can follow: "
        "coarse levels would not see what happens between their steps. Give steps= for a coarsest level that follows "
        "them, or a shorter t"
    )


def _may_be_zero(found: rules.Interval, entry: int, points: int) -> str:
    return (
        f"after {points} points the interval {found.value[entry]:.2g} ± {found.half[entry]:.2g} still contains zero, "
        "so that a relative error has no meaning; ask for an absolute one (relative=False)"
    )


def _damped(unseen: float) -> str:
    return (
        f"noise reaches modes that decay within one of {fast_modes.MOST_STEPS} steps, the finest first level; implicit "
        f"steps damp it out, so that about {unseen:.2g} of E f would be missing on every level. Ask for a larger "
        "error, or replace the fast components by their stationary law"
    )


def _too_dear(best: rules.Prediction, ladder: Ladder, work: _Work) -> str:
    finest = max(l for role, l in ladder.runs if role == "difference")
    variance = float(np.max(ladder.fine(finest).variance))
    reach = work.error * math.sqrt(best.cost / work.most)
    return (
        f"error: {work.error:g} needs about {best.cost:.0e} path-steps (pilot: variance {variance:.2g} at "
        f"{ladder.n(finest)} steps); most={work.most:g} reaches about {reach:.1g}. Raise most, or ask for that"
    )


def _loop(ladder: Ladder, work: _Work, bar: Progress, elsewhere: int) -> list[str]:
    """Add points and levels until the error is reached; return the reasons not to trust the result."""
    looks: Counter[tuple[str, int]] = Counter()
    while True:
        for role, l in ladder.used:
            ladder.run(role, l).grow(ladder.least, bar)
        ladder.check_far()
        levels = ladder.levels()
        by = {(one.role, one.level): one for one in levels}
        top, below = by["difference", ladder.top].known, by["difference", ladder.top - 1].known
        b = rules.bias(top, below, ladder.order)
        b = b._replace(bound=b.bound + ladder.unseen)
        counted = rules.weights(levels, ladder.base, ladder.top, ladder.order, b.extrapolated)
        found = rules.interval(levels, counted, b.bound, work.level)
        if not np.all(np.isfinite(found.value)):
            raise ValueError("f: it is NaN or infinite on some paths; make it finite for every state that occurs")
        error, aim = work.tolerance(found.value, found.half), work.aim(found.value, found.half)
        share = found.half / np.maximum(error, 1e-300)
        worst = int(np.argmax(share))
        spent = ladder.spent + elsewhere
        work.history.append((float(spent), float(found.value[worst]), float(found.half[worst])))
        bar.expect(0, f"{found.value[worst]:.6g} ± {found.half[worst]:.2g}")
        ladder.result = (found, b, levels, counted, error)
        _check_rare(ladder, found.value + 5 * found.stderr)
        heavy = _heavy(levels, ladder)
        constant = levels[0] if np.any(levels[0].known.variance == 0) and not ladder.is_controlled else None
        hidden = levels[0] if constant is not None or ladder.question.has_corners else None
        doubted = [*heavy, *([hidden] if hidden is not None and hidden.known.points < SURE else [])]
        unsure = next((one for one in doubted if looks[one.role, one.level] < FURTHER_LOOKS), None)
        if share[worst] <= 1 and unsure is None:
            return _reasons(ladder, heavy)
        for hopeless in (one for one in heavy if one.known.points >= MENDS):
            reached = f"{found.half[worst]:.2g} was reached, not {error[worst]:.2g}"
            return [*_reasons(ladder, [hopeless]), f"given up, because more points do not help: {reached}"]
        if work.relative and levels[0].known.points >= MENDS and found.half[worst] > abs(found.value[worst]):
            return [*_reasons(ladder, heavy), _may_be_zero(found, worst, levels[0].known.points)]
        where: Any
        if unsure is not None and share[worst] <= 1:
            looks[unsure.role, unsure.level] += 1
            where = unsure
        elif np.any((b.bound > 0.5 * aim) & (b.bound > 2 * b.stderr)):
            if _does_not_converge(ladder):
                raise Diverged(
                    "f: its differences do not fall from level to level at a visible rate: "
                    + ", ".join(f"{one.known.mean[worst]:.2g} at {ladder.n(one.level)} steps" for one in levels[1:])
                )
            if 2 * ladder.n(ladder.top) > MOST_STEPS:
                return [*_reasons(ladder, heavy), f"the bias would need more than {MOST_STEPS} steps"]
            gains = by["difference", ladder.top].known.gain
            if ladder.runs["difference", ladder.top].points == "sobol" and np.max(gains) < WORTH:
                ladder.random_from = min(ladder.random_from, ladder.top + 1)
            ladder.top += 1
            continue
        elif np.any(b.bound > 0.5 * aim):
            g = ladder.order.ratio
            pair = [by["difference", ladder.top], by["difference", ladder.top - 1]]
            where = max(pair, key=lambda one: _helps(one, g if one.level == ladder.top else 1.0, worst))
        else:
            where = max(
                zip(levels, counted, strict=True), key=lambda part: _helps(part[0], float(part[1][worst]), worst)
            )[0]
        run = ladder.runs[where.role, where.level]
        growth = GROWTH[run.points] if share[worst] < 2 else max(GROWTH[run.points], 2.0)
        wanted = max(int(growth * run.computed), run.computed + 1)
        if run.points == "sobol" or wanted < run.run.layout.width:
            wanted = ladder.least * 2 ** math.ceil(math.log2(wanted / ladder.least))
        if spent + (wanted - run.computed) * run.cost > work.most:
            reached = f"{found.half[worst]:.2g} was reached, not {error[worst]:.2g}"
            return [*_reasons(ladder, heavy), f"the budget most = {work.most:g} path-steps is spent: {reached}"]
        run.grow(wanted, bar)


def _helps(one: rules.Level, weight: float, entry: int) -> float:
    """How much one more path-step on a level lowers the variance of the estimate."""
    return weight**2 * float(one.known.stderr2[entry]) / (one.known.points * one.cost)


def _heavy(levels: Sequence[rules.Level], ladder: Ladder) -> list[rules.Level]:
    """The levels whose variances cannot be believed, the worst first."""
    spread = np.atleast_1d(ladder.fine(1).span <= 0)  # the mean of a two-valued entry gives its variance

    def looseness(one: rules.Level) -> float:
        loose = np.atleast_1d((one.known.kurtosis - 1) / one.known.points)
        return float(np.max(loose, where=spread, initial=0.0))

    return sorted((one for one in levels if looseness(one) > rules.LOOSE), key=looseness, reverse=True)


def _does_not_converge(ladder: Ladder) -> bool:
    """Whether three significant differences fall by less than a tenth each."""
    if ladder.top < 3 or ("difference", ladder.top - 2) not in ladder.runs:
        return False
    three = [ladder.known("difference", ladder.top - k) for k in range(3)]
    ratios = [rules.bias(a, b, ladder.order).ratio for a, b in itertools.pairwise(three)]
    return bool(np.any((ratios[0] > rules.STEEPEST) & (ratios[1] > rules.STEEPEST)))


def _rare(probability: float, error: float) -> str:
    return (
        f"f: a probability of about {probability:.1g}: an error of {error:g} says little about so small a number, and "
        "a relative error costs more than its inverse; rare events need splitting (stodyn.rare)"
    )


def _reasons(ladder: Ladder, heavy: Sequence[rules.Level]) -> list[str]:
    found, _, levels, *_ = ladder.result
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
    _check_rare(ladder, found.value)
    return reasons


def _check_rare(ladder: Ladder, most: np.ndarray) -> None:
    """Refuse probabilities that are at most `most`, where that is below RARE."""
    found, _, levels, *_ = ladder.result
    is_probability = isinstance(ladder.functional, Probability) | (np.abs(ladder.fine(1).span - 1) < 1e-9)
    if np.any(is_probability & (most < RARE) & (levels[0].known.variance > 0)):
        raise NotToBeHad(_rare(float(np.min(found.value)), ladder.work.error))
