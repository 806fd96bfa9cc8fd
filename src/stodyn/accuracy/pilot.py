"""The pilots of an estimate: differences of levels 1 and 2 of each candidate, on the coarsest sufficient grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stodyn.accuracy import fast_modes
from stodyn.accuracy.candidates import MOST_FIRST, Candidate
from stodyn.accuracy.ladder import TINY, Diverged, Ladder, Unattainable, Work, in_words
from stodyn.accuracy.levels import CHEAP, PILOT, Question, pilot_points
from stodyn.engine.failure import PathsFailed
from stodyn.engine.progress import Progress
from stodyn.statistics.functional import Probability

PILOT_SHARE = 0.02  # of the predicted cost, which is up to twelve times too high, that pilots may take
MOST_STEPS = 2**22
MOST_DOUBLED = 64  # times the first number of steps of a method, beyond which it is given up
APART = 2.5  # times the variance of f, beyond which differences are not those of independent paths
RARE = 1e-3
TELLING = 3 / RARE  # points without an event, from which its probability is below RARE with 95 %


class Attempt(NamedTuple):
    """A method to be tried with a number of steps; `before`: how differences varied on a grid half as fine."""

    steps: int
    candidate: Candidate
    question: Question
    before: float = math.inf

    @property
    def name(self) -> str:
        return self.candidate.method.name

    @property
    def cost(self) -> int:
        """The path-steps of the pilot."""
        return PILOT * self.steps * pilot_points(self.steps)


class Pilots:
    """Pilots of the candidate methods, the coarsest grid first.

    A method whose grid is too coarse is tried again with twice the steps when its turn comes: after the others that
    need fewer. Methods whose pilot would cost more than CHEAP, and more than a small share of the whole, are left out,
    and so are those that wait for others to fail.

    ladders   the methods that can be used
    failures  the reasons why others cannot
    spare     attempts that were left out
    lost      path-steps of grids that were too coarse
    """

    def __init__(self, questions: Sequence[tuple[Candidate, Question]], work: Work, steps: int | None, bar: Progress):
        self.work, self.fixed, self.bar = work, steps is not None, bar
        self.ladders: list[Ladder] = []
        self.failures: list[str] = []
        self.spare: list[Attempt] = []
        self.lost = 0
        self._waiting: list[Attempt] = []
        self._has_run_away = False
        if steps is None and any(candidate.steps > max(MOST_FIRST, candidate.unit) for candidate, _ in questions):
            stops = max(candidate.stops for candidate, _ in questions)
            raise Unattainable(_unresolved_stops(stops) if stops > MOST_FIRST else _too_fast())
        for candidate, question in questions:
            if steps is None:
                candidate = candidate.following(work.error, work.relative)
                if candidate.fast is not None and candidate.steps > fast_modes.MOST_STEPS:
                    unseen = candidate.fast.unseen(fast_modes.MOST_STEPS)
                    self.failures.append(f"{candidate.method.name}: {_damped(unseen)}")
                    continue
            self._waiting.append(Attempt(steps or candidate.steps, candidate, question))
        self._run()

    @property
    def spent(self) -> int:
        """The path-steps of all pilots so far."""
        return self.lost + sum(ladder.spent for ladder in self.ladders)

    def further(self) -> list[Ladder]:
        """The next method that was left out, whatever its pilot costs."""
        before = len(self.ladders)
        while self.spare and len(self.ladders) == before:
            self._waiting = [self.spare.pop(0)]
            self._run(at_any_cost=True)
        return self.ladders[before:]

    def _run(self, at_any_cost: bool = False) -> None:
        """Try the methods that wait, one after the other."""
        while self._waiting:
            attempt = min(self._waiting, key=self._turn)
            self._waiting.remove(attempt)
            best = min((p.cost for ladder in self.ladders for p in ladder.predicted()), default=math.inf)
            reason = self._reason_to_leave_out(attempt, best)
            if reason and not at_any_cost:
                self.failures.append(f"{attempt.name}: {reason}")
                self.spare.append(attempt)
                continue
            try:
                self._try(attempt)
            except (PathsFailed, Unattainable) as reason:
                self.failures.append(f"{attempt.name}: {in_words(reason)}")

    def _turn(self, attempt: Attempt) -> tuple[bool, int, bool]:
        """The order of attempts: by their steps; those that wait come last until a path has run away, and then after
        others with twice the steps."""
        waits = attempt.candidate.waits
        return waits and not self._has_run_away, (4 if waits else 1) * attempt.steps, waits

    def _reason_to_leave_out(self, attempt: Attempt, best: float) -> str:
        """Why a method is not tried now, in words; empty where it is."""
        if attempt.candidate.waits and self.ladders:
            return f"not needed, since no path runs away by {self.ladders[0].candidate.method.name}"
        if self.spent + attempt.cost > max(PILOT_SHARE * best, CHEAP):
            return "its pilot would cost too much beside the estimate by another"
        return ""

    def _try(self, attempt: Attempt) -> None:
        """Levels 1 and 2 on a grid on which paths are finite and differences vary less than f itself. Where shorter
        steps do not achieve that, because fine and coarse paths lose each other, the coarsest grid on which they
        look independent is taken: its levels still measure the bias of plain Monte Carlo."""
        n, reason = attempt.steps, None
        ladder, ratio = Ladder(attempt.question, attempt.candidate, self.work, n), attempt.before
        try:
            for l in (1, 2):
                ladder.run("difference", l).grow(ladder.least, self.bar)
            ladder.check_far()
            serves, ratio = self._serves(ladder, attempt.before)
        except (PathsFailed, Diverged) as failed:
            serves, reason, self._has_run_away = False, failed, True
        if serves or (self.fixed and reason is None):
            ladder.look_below(self.bar)
            self.ladders.append(ladder)
            return
        self.lost += ladder.spent
        if self.fixed or 2 * n > MOST_STEPS or n >= MOST_DOUBLED * attempt.candidate.steps:
            differ = f"differences of {n} and {2 * n} steps vary more than f itself"
            raise Unattainable(stops_in_words(ladder) or (in_words(reason) if reason else differ))
        self._waiting.append(attempt._replace(steps=2 * n, before=ratio))

    def _serves(self, ladder: Ladder, before: float) -> tuple[bool, float]:
        """Whether the levels can be used, and how much more than f the differences of the coarser one vary."""
        fine = ladder.fine(2)
        is_small = np.any(ladder.is_of_f & (fine.mean + 5 * np.sqrt(fine.stderr2) < RARE)) and fine.points >= TELLING
        if isinstance(ladder.functional, Probability) and is_small:
            raise Unattainable(rare(float(np.min(fine.mean[ladder.is_of_f])), self.work.error))
        first, whole = ladder.known("difference", 1).variance, fine.variance
        if not (np.all(np.isfinite(first)) and np.all(np.isfinite(whole))):
            raise not_finite(ladder)
        if np.all(first <= whole) or not np.any(whole > 0):
            return True, 0.0
        ratio = float(np.max(first / np.maximum(whole, TINY)))
        return 0.5 * before < ratio <= APART, ratio


def not_finite(ladder: Ladder) -> ValueError:
    """The error of an f that is NaN or infinite."""
    if stops := stops_in_words(ladder):
        return Unattainable(stops)
    return ValueError("f: it is NaN or infinite on some paths; make it finite for every state that occurs")


def stops_in_words(ladder: Ladder) -> str:
    """What to say of stops that the coarsest level does not resolve, if anything."""
    return _unresolved_stops(ladder.candidate.stops) if ladder.steps < ladder.candidate.stops else ""


def _unresolved_stops(steps: int) -> str:
    """Say that stops are stiff, and how many steps they need."""
    return (
        f"problem: its stops (Gap) are stiff: the coarsest level needs about {steps} steps, for longer ones multiply "
        f"the energy of a body that meets a stop; unless steps= says otherwise it has {MOST_FIRST} at most. Give "
        f"steps={steps}, softer stops or a shorter t, or average over paths by a method that keeps their energy: "
        'simulate(problem, "StochasticAlpha", ..., paths=stodyn.until(...)), and compare two steps for the bias'
    )


def _too_fast() -> str:
    """Say that coefficients change in time faster than any coarsest level can follow."""
    return (
        f"problem: its coefficients, or the integrand, change in time faster than {MOST_FIRST} steps can follow: "
        "coarse levels would miss changes between their steps. Give steps= for a coarsest level that follows "
        "them, or a shorter t"
    )


def _damped(unseen: float) -> str:
    """Say that implicit steps damp out a part of E f, or noise that the sensors of a loop may read."""
    damped = (
        f"noise reaches modes that decay within one of {fast_modes.MOST_STEPS} steps, the finest first level; implicit "
        "steps damp it out, "
    )
    if math.isinf(unseen):
        return f"{damped}but the sensors of the loop may read it; replace the fast components by their stationary law"
    return (
        f"{damped}so that about {unseen:.2g} of E f would be missing on every level. Ask for a larger error, or "
        "replace the fast components by their stationary law"
    )


def rare(probability: float, error: float) -> str:
    """Say that a probability is too small for this kind of estimate."""
    return (
        f"f: a probability of about {probability:.1g}: an error of {error:g} says little about so small a number, and "
        "a relative error costs more than its inverse; rare events need splitting (stodyn.rare)"
    )
