"""Doubts about an estimate: variances that cannot be believed, tails, values that were never seen, and rare events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stodyn.accuracy import rules
from stodyn.accuracy.ladder import Ladder, Unattainable
from stodyn.accuracy.pilot import RARE, rare
from stodyn.numerics import tails
from stodyn.statistics.functional import Probability

SURE = 4096  # points needed before f counts as constant, and before an f with jumps or corners is believed
DEAR_STEPS = 1e6  # path-steps of the points that show the shape of a tail, above which they are not taken lightly
TAIL_STEPS = 2e7  # path-steps of a level up to which points are added to judge its tail


def heavy(ladder: Ladder) -> list[rules.Level]:
    """The levels whose variances cannot be believed for their kurtosis, the worst first, where they matter."""
    spread = _is_spread(ladder)

    def looseness(one: rules.Level) -> float:
        loose = np.atleast_1d((one.known.kurtosis - 1) / one.known.points)
        return float(np.max(loose, where=spread, initial=0.0))

    loose = [one for one in ladder.result.levels if looseness(one) > rules.LOOSE]
    return sorted(_mattering(loose, ladder), key=looseness, reverse=True)


def may_hide_values(ladder: Ladder) -> list[rules.Level]:
    """The base, where it has few points and f was constant on them, or has jumps or corners; otherwise nothing."""
    base = ladder.result.levels[0]
    is_doubtful = _is_constant(ladder) or ladder.question.has_corners
    return [base] if is_doubtful and base.known.points < SURE else []


def _is_constant(ladder: Ladder) -> bool:
    """Whether f had one value on all paths of the base, and no control explains it."""
    return bool(np.any(ladder.is_of_f & (ladder.result.levels[0].known.variance == 0))) and not ladder.is_controlled


def is_suspect(ladder: Ladder) -> bool:
    """Whether the tail of the base may be heavy, and twice the points may tell.

    Where few points of many steps each are enough for the error, and as many as show a shape would cost much more, only
    a clear suspicion counts. Differences take no points for theirs: they are at most twice as large as the values that
    they compare, and no heavier in their tails.
    """
    base = ladder.result.levels[0]
    telling, known = min(tails.TELLING_POINTS, TAIL_STEPS / base.cost), base.known
    is_dear = known.points < tails.SHOWING and tails.SHOWING * base.cost > DEAR_STEPS
    suspected = known.tail.looks_heavy if is_dear else known.tail.may_be_heavy
    return 2 * known.points <= telling and bool(np.any(_has_tails(ladder) & suspected))


def _heavy_tailed(ladder: Ladder) -> list[rules.Level]:
    """The levels whose tails are heavy, the heaviest first, where they matter."""
    has_tails = _has_tails(ladder)
    heavy = [one for one in ladder.result.levels if np.any(has_tails & one.known.tail.is_heavy)]
    return sorted(_mattering(heavy, ladder), key=lambda one: float(np.max(one.known.tail.far.value)), reverse=True)


def _has_tails(ladder: Ladder) -> np.ndarray:
    """The entries whose tails are judged: neither what a control leaves of f, nor what is bounded."""
    is_judged = not (ladder.is_controlled or isinstance(ladder.functional, Probability))
    return is_judged & _is_spread(ladder)


def _is_spread(ladder: Ladder) -> np.ndarray:
    """The entries with more than two values: the mean of a two-valued one gives its variance."""
    return np.atleast_1d(ladder.fine(1).span <= 0)


def _mattering(doubted: Sequence[rules.Level], ladder: Ladder) -> list[rules.Level]:
    """The doubted levels that matter: their variance, three standard errors larger, would be too large beside the
    others for the error."""
    result = ladder.result

    def matters(one: rules.Level) -> bool:
        if one.role == "base" or not np.all(np.isfinite(one.known.kurtosis)):
            return True
        larger = one.known.stderr2 * (1 + 3 * np.sqrt((one.known.kurtosis - 1) / one.known.points))
        raised = [other._replace(known=other.known._replace(stderr2=larger)) if other is one else other
                  for other in result.levels]  # fmt: skip
        interval = rules.interval(raised, result.weights, result.bias.bound, ladder.work.level)
        return bool(np.any(interval.half > result.error))

    return [one for one in doubted if matters(one)]


def reasons(ladder: Ladder, heavy: Sequence[rules.Level]) -> list[str]:
    """The reasons not to trust the result, of which the first of some heavy levels is one; refuses rare events."""
    levels = ladder.result.levels
    distrust = []
    if ladder.candidate.leaves:
        distrust.append(
            f"{ladder.candidate.method.name} is explicit and the drift grows faster than linearly: coarse paths run "
            "away with a small probability, and the expectations of its levels are infinite. Leave method out, or use "
            "TamedEuler"
        )
    if _is_constant(ladder):
        points = sum(one.known.points for one in levels)
        distrust.append(
            f"f had one value on all {points} paths: if it has others, their probability is below {3 / points:.1g}"
        )
        if ladder.work.relative and not ladder.result.interval.value.all():
            distrust.append("no error is a share of a value of 0: ask for an absolute one (relative=False)")
    for one in heavy[:1]:
        worst = float(np.max(one.known.kurtosis))
        distrust.append(
            f"kurtosis {worst:.3g} at {ladder.n(one.level)} steps with {one.known.points} points: neither the "
            "variance nor the interval can be believed"
        )
    if not distrust:
        distrust = [_tail_in_words(one, ladder.n(one.level)) for one in _heavy_tailed(ladder)[:1]]
    refuse_rare(ladder, ladder.result.interval.value)
    return distrust


def _tail_in_words(one: rules.Level, steps: int) -> str:
    """Say that the tail of a level is too heavy for its interval, and what to do."""
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


def refuse_rare(ladder: Ladder, most: np.ndarray) -> None:
    """Refuse probabilities that are at most `most`, where that is below RARE."""
    result = ladder.result
    is_probability = ladder.is_of_f & (isinstance(ladder.functional, Probability) | ladder.fine(1).is_indicator)
    if np.any(is_probability & (most < RARE) & (result.levels[0].known.variance > 0)):
        raise Unattainable(rare(float(np.min(result.interval.value[ladder.is_of_f])), ladder.work.error))
