"""The moves of an estimate: at every look the first of MOVES whose test holds is made, until one of them ends it.

stop         the error is reached, and no level is in doubt
give up      the points of a heavy level do not help, or a relative error has no meaning
look closer  the error is reached, but a level is in doubt: double its points
go plain     fine and coarse paths lose each other, and plain Monte Carlo costs less
shift        plain Monte Carlo is cheaper with another base and top
follow       plain Monte Carlo as planned
deepen       the bias is too large beyond doubt: add a level
sharpen      the bias may be too large: add points to the finest differences
grow         add points where they lower the error most
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stodyn.accuracy import cusps, doubts, rules
from stodyn.accuracy.controls import is_unexpected
from stodyn.accuracy.ladder import Diverged, Ladder, Result, Work
from stodyn.accuracy.pilot import MOST_STEPS, TELLING, not_finite
from stodyn.engine.progress import Progress

GROWTH = {"sobol": 2.0, "random": 1.25}
LEAP, NEARLY = 16, 0.9  # largest factor by which plain Monte Carlo next multiplies its points; share that suffices
WORTH = 1.5  # gain of Sobol points on a level below which the next levels take pseudo-random ones
RUNAWAY, NEVER_RUNAWAY = 300.0, 3e8  # times its prediction beyond which an estimate ends, and path-steps that never do
FURTHER_LOOKS = 4  # doublings of a level whose kurtosis is too large
CONFIRMATIONS = 2  # doublings of the points to confirm the stated expectation of a control
MENDS = 2**18  # points of a level after which a kurtosis that is still too large will stay so, or a value may be zero

Reasons = list[str]  # not to trust a result; there are none before an estimate has ended


@dataclasses.dataclass
class Course:
    """An estimate on its way: its budget, what it has done so far, and its last look."""

    ladder: Ladder
    work: Work
    bar: Progress
    elsewhere: int  # path-steps spent on other methods
    predicted: float
    most: float
    visits: Counter[tuple[str, int]] = dataclasses.field(default_factory=Counter)  # of levels in doubt
    confirmations: int = 0
    has_shifted: bool = False  # since points were last added
    widest: np.ndarray | float = 0.0  # half-width with which the error was reached before points were added for a tail
    look: Look = dataclasses.field(init=False)


@dataclasses.dataclass(frozen=True)
class Look:
    """The result of an estimate at one time, the error that its next move aims at, and the path-steps so far."""

    ladder: Ladder
    result: Result
    aim: np.ndarray
    spent: int

    @functools.cached_property
    def worst(self) -> int:
        """The entry that is furthest from its error."""
        return int(np.argmax(self.shares))

    @functools.cached_property
    def shares(self) -> np.ndarray:
        """The half-width of each entry as a multiple of the error asked for."""
        return self.result.interval.half / np.maximum(self.result.error, 1e-300)

    @property
    def share(self) -> float:
        """The half-width of the worst entry as a multiple of the error asked for."""
        return self.shares[self.worst]

    @property
    def base(self) -> rules.Level:
        """The level of single paths."""
        return self.result.levels[0]

    def difference(self, level: int) -> rules.Level:
        """The differences of a level."""
        return next(one for one in self.result.levels if (one.role, one.level) == ("difference", level))

    @functools.cached_property
    def heavy(self) -> list[rules.Level]:
        """The levels whose variances cannot be believed for their kurtosis."""
        return doubts.heavy(self.ladder)

    @functools.cached_property
    def route(self) -> rules.Prediction:
        """The cheapest way to go on with plain Monte Carlo."""
        return self.ladder.plain_route(self.aim)

    @property
    def leads_elsewhere(self) -> bool:
        """Whether that way has another base or top than the present one."""
        return (self.route.base, self.route.top) != (self.ladder.base, self.ladder.top)

    @property
    def reached(self) -> str:
        """How far the worst entry is from its error, in words."""
        half, error = self.result.interval.half[self.worst], self.result.error[self.worst]
        return f"{half:.2g} was reached, not {error:.2g}"


class Move(NamedTuple):
    """A test, and an act for the case that it holds: the reasons with which the estimate ends, or None to go on."""

    test: Callable[[Course], bool]
    act: Callable[[Course], Reasons | None]


def carried_out(ladder: Ladder, work: Work, bar: Progress, elsewhere: int) -> Reasons:
    """Add points and levels until the error is reached; return the reasons not to trust the result."""
    most = min(work.most, max(RUNAWAY * ladder.expected, NEVER_RUNAWAY))
    course = Course(ladder, work, bar, elsewhere, ladder.expected, most)
    reasons = None
    while reasons is None:
        course.look = _looked(course)
        move = next(move for move in MOVES if move.test(course))
        reasons = move.act(course)
    ladder.result = _no_narrower(ladder.result, np.inf if reasons else course.widest)
    return reasons


def _no_narrower(result: Result, widest: np.ndarray | float) -> Result:
    """The result with the half-width that reached the error, where points were added to judge a tail, or with the
    error itself, where it is not to be trusted: an interval from a spread that was not seen may be far too narrow.

    Points for a tail end when the largest values seen make the tail look light. These values also decide the mean: it
    comes out low, and what the further points seem to bring to the interval is not there."""
    half = np.maximum(result.interval.half, np.minimum(widest, result.error))
    return result._replace(interval=result.interval._replace(half=half))


def _looked(course: Course) -> Look:
    """Compute the interval and the bias from all points so far, and refuse values that are not finite or rare."""
    ladder, work = course.ladder, course.work
    for role, level in ladder.used:
        ladder.run(role, level).grow(ladder.least, course.bar)
    ladder.check_far()
    levels = ladder.levels()
    bias = ladder.bias(levels)
    weights = rules.weights(levels, ladder.base, ladder.top, ladder.order, bias.extrapolated)
    interval = rules.interval(levels, weights, bias.bound, work.level)
    if not np.all(np.isfinite(interval.value)):
        raise not_finite(ladder)
    ladder.result = Result(interval, bias, levels, weights, work.tolerance(interval.value, interval.half))
    look = Look(ladder, ladder.result, work.aim(interval.value, interval.half), ladder.spent + course.elsewhere)
    value, half = float(interval.value[look.worst]), float(interval.half[look.worst])
    work.history.append((float(look.spent), value, half))
    course.bar.expect(0, f"{value:.6g} ± {half:.2g}")
    if levels[0].known.points >= TELLING:
        doubts.refuse_rare(ladder, interval.value + 5 * interval.stderr)
    return look


# --- to end -----------------------------------------------------------------------------------------------------------


def _in_doubt(course: Course) -> rules.Level | None:
    """The level whose points should be doubled before the result is believed."""
    look, visits = course.look, course.visits
    still_open = [one for one in [*look.heavy, *doubts.may_hide_values(course.ladder)]
                  if visits[one.role, one.level] < FURTHER_LOOKS]  # fmt: skip
    if still_open:
        return still_open[0]
    return look.base if doubts.is_suspect(course.ladder) else None


def _is_done(course: Course) -> bool:
    """Whether the error is reached, and nothing is left to be confirmed."""
    if not course.look.share <= 1 or _in_doubt(course) is not None:
        return False
    return course.confirmations == CONFIRMATIONS or not is_unexpected(course.ladder)


def _stop(course: Course) -> Reasons:
    """End the estimate; the reasons not to trust it are those of its levels."""
    return doubts.reasons(course.ladder, course.look.heavy)


def _hopeless(course: Course) -> list[rules.Level]:
    """The heavy levels that more points do not mend."""
    return [one for one in course.look.heavy if one.known.points >= MENDS]


def _give_up(course: Course) -> Reasons:
    """End the estimate with the reason that more points do not help."""
    because = f"given up, because more points do not help: {course.look.reached}"
    return [*doubts.reasons(course.ladder, _hopeless(course)[:1]), because]


def _may_be_zero(course: Course) -> bool:
    """Whether a relative error is asked for of a value that cannot be told from zero."""
    look, interval = course.look, course.look.result.interval
    is_unclear = interval.half[look.worst] > abs(interval.value[look.worst])
    return course.work.relative and look.base.known.points >= MENDS and bool(is_unclear)


def _call_meaningless(course: Course) -> Reasons:
    """End the estimate with the reason that its value may be zero."""
    look, interval = course.look, course.look.result.interval
    return [
        *_stop(course),
        f"after {look.base.known.points} points the interval {interval.value[look.worst]:.2g} ± "
        f"{interval.half[look.worst]:.2g} still contains zero, so that a relative error has no meaning; ask for an "
        "absolute one (relative=False)",
    ]


def _run_out(course: Course) -> Reasons:
    """The reasons where the next points would cost more than the budget."""
    look, work = course.look, course.work
    if look.share <= 1:
        return _stop(course)
    end = f"the budget most = {work.most:g} path-steps is spent"
    if course.most < work.most:
        end = f"given up after {look.spent:.2g} path-steps, where the pilot had predicted {course.predicted:.2g}"
    return [*_stop(course), f"{end}: {look.reached}"]


# --- to add points ----------------------------------------------------------------------------------------------------


def _grow(course: Course, where: rules.Level, planned: int = 0) -> Reasons | None:
    """Add points to a level: as many as planned, otherwise a fixed factor of those it has."""
    look, ladder = course.look, course.ladder
    run = ladder.runs[where.role, where.level]
    growth = GROWTH[run.points] if look.share < 2 else max(GROWTH[run.points], 2.0)
    wanted = min(planned, LEAP * run.computed) if planned else int(growth * run.computed)
    wanted = ladder.rounded(run, max(wanted, run.computed + 1))
    if look.spent + (wanted - run.computed) * run.cost > course.most:
        return _run_out(course)
    ladder.grow(where.role, where.level, wanted, course.bar)
    course.has_shifted = False
    return None


def _look_closer(course: Course) -> Reasons | None:
    """Double the points of the level in doubt, or of the base where the mean of a control is unexpected."""
    doubted, look = _in_doubt(course), course.look
    if doubted is None:
        doubted, course.confirmations = look.base, course.confirmations + 1
    if look.heavy or doubts.is_suspect(course.ladder):
        course.widest = np.maximum(course.widest, look.result.interval.half)
    course.visits[doubted.role, doubted.level] += 1
    return _grow(course, doubted, 2 * doubted.known.points)


def _sharpen(course: Course) -> Reasons | None:
    """Add points to that one of the finest differences which lowers the error of the bias most: where the order is
    low, coarser ones tell more of it, as they fall by √2 at least."""
    look, ladder = course.look, course.ladder
    top, order = ladder.top, ladder.order
    low = {top - k: 2 ** (0.5 * k) for k in range(order.differences)}
    weights = low if order.is_low else {top: order.ratio, top - 1: 1.0}
    return _grow(course, max(map(look.difference, weights), key=lambda one: _helps(one, weights[one.level], look)))


def _grow_most_helpful(course: Course) -> Reasons | None:
    """Add points to the level on which they lower the error of the value most."""
    look = course.look
    parts = zip(look.result.levels, look.result.weights, strict=True)
    return _grow(course, max(parts, key=lambda part: _helps(part[0], float(part[1][look.worst]), look))[0])


def _helps(one: rules.Level, weight: float, look: Look) -> float:
    """How much one more path-step on a level lowers the variance of the estimate."""
    return weight**2 * float(one.known.stderr2[look.worst]) / (one.known.points * one.cost)


# --- plain Monte Carlo ------------------------------------------------------------------------------------------------


def _is_better_plain(course: Course) -> bool:
    """Whether paths turned out to lose each other, and plain Monte Carlo costs less than to go on with the levels,
    whose error falls with the root of their cost."""
    look, ladder = course.look, course.ladder
    if ladder.is_plain or look.share <= 1 or not ladder.loses_paths:
        return False
    so_far = sum(ladder.runs[one.role, one.level].spent for one in look.result.levels)
    return look.route.cost < so_far * (look.share**2 - 1)


def _go_plain(course: Course) -> None:
    """Leave the levels for plain Monte Carlo."""
    course.ladder.take(course.look.route)


def _should_shift(course: Course) -> bool:
    """Whether plain Monte Carlo should change its base or top, which it does once between two additions."""
    return course.ladder.is_plain and course.look.leads_elsewhere and not course.has_shifted


def _shift(course: Course) -> Reasons | None:
    """Change the base and the top of plain Monte Carlo, unless differences do not fall or steps are too many."""
    ladder, route = course.ladder, course.look.route
    if route.top > ladder.top:
        _refuse_divergence(course)
    if ladder.n(max(route.base, route.top)) > MOST_STEPS:
        return _too_deep(course)
    ladder.take(route)
    course.has_shifted = True
    return None


def _follow(course: Course) -> Reasons | None:
    """Add the points that the plan still lacks; beside another plan, those that the bias or the value needs."""
    look, route = course.look, course.look.route
    pair = look.difference(course.ladder.top)
    for one, planned in () if look.leads_elsewhere else ((pair, route.pairs), (look.base, route.paths)):
        if one.known.points < NEARLY * planned:
            return _grow(course, one, int(planned))
    return _grow(course, pair if np.any(look.result.bias.bound > rules.BIAS_SHARE * look.aim) else look.base)


# --- levels -----------------------------------------------------------------------------------------------------------


def _is_biased(course: Course) -> bool:
    """Whether the bias may take more than half of the error in some entry."""
    return bool(np.any(course.look.result.bias.bound > 0.5 * course.look.aim))


def _is_surely_biased(course: Course) -> bool:
    """Whether the bias takes more than half of the error in some entry, by two standard errors."""
    bias, aim = course.look.result.bias, course.look.aim
    return bool(np.any((bias.bound > 0.5 * aim) & (bias.bound > 2 * bias.stderr)))


def _deepen(course: Course) -> Reasons | None:
    """Add a level, of pseudo-random points where Sobol points bring little on the present top."""
    ladder = course.ladder
    _refuse_divergence(course)
    if ladder.n(ladder.top + 1) > MOST_STEPS:
        return _too_deep(course)
    gains = course.look.difference(ladder.top).known.gain
    if ladder.runs["difference", ladder.top].points == "sobol" and np.max(gains) < WORTH:
        ladder.random_from = min(ladder.random_from, ladder.top + 1)
    ladder.top += 1
    return None


def _too_deep(course: Course) -> Reasons:
    """End the estimate with the reason that the bias needs too many steps."""
    return [*_stop(course), f"the bias would need more than {MOST_STEPS} steps"]


def _refuse_divergence(course: Course) -> None:
    """Refuse a further level where three significant differences fall by less than a tenth each."""
    ladder, look = course.ladder, course.look
    if ladder.top < 3 or ("difference", ladder.top - 2) not in ladder.runs:
        return
    three = [ladder.known("difference", ladder.top - k) for k in range(3)]
    first, second = (rules.bias(a, b, ladder.order).ratio for a, b in itertools.pairwise(three))
    if np.any((first > rules.STEEPEST) & (second > rules.STEEPEST)):
        differences = look.result.levels[1:]
        listed = (f"{one.known.mean[look.worst]:.2g} at {ladder.n(one.level)} steps" for one in differences)
        raise Diverged(
            "f: its differences do not fall from level to level at a visible rate: "
            + ", ".join(listed)
            + (f". {cusps.WORDS}" if ladder.order.is_low else "")
        )


MOVES = (
    Move(_is_done, _stop),
    Move(lambda course: bool(_hopeless(course)), _give_up),
    Move(_may_be_zero, _call_meaningless),
    Move(lambda course: course.look.share <= 1, _look_closer),
    Move(_is_better_plain, _go_plain),
    Move(_should_shift, _shift),
    Move(lambda course: course.ladder.is_plain, _follow),
    Move(_is_surely_biased, _deepen),
    Move(_is_biased, _sharpen),
    Move(lambda course: True, _grow_most_helpful),
)
