"""When the statistics of a run are observed, and the results of a block so far: observations, and failed paths."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from stodyn.engine.failure import LEFT


class Failures(NamedTuple):
    """The lanes that went bad, the step after which the state of each was first bad, and why (engine.failure)."""

    lane: np.ndarray
    step: np.ndarray
    cause: np.ndarray


NO_FAILURES = Failures(np.empty(0, int), np.empty(0, int), np.empty(0, int))


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps of a run, and when its statistics are observed: save k lies after step saves[k], and observes[s][k] is
    whether statistic s is observed there."""

    t: np.ndarray  # (steps + 1,)
    h: np.ndarray  # (steps,)
    saves: np.ndarray  # increasing; 0 is the start
    observes: tuple[np.ndarray, ...]

    def call_end(self, first: int, steps: int, saves: int, starting: int) -> int:
        """The last of `steps` steps from `first` on, or an earlier one: a call holds at most `saves` saves, and does
        not go on from the `starting` first steps of a method to others."""
        place = int(np.searchsorted(self.saves, first, side="right"))
        last = min(first + steps, len(self.h))
        if place + saves < len(self.saves):
            last = min(last, int(self.saves[place + saves]) - 1)
        return min(last, starting) if first < starting else last

    def saves_before(self, last: int) -> int:
        """How many saves lie not after step `last`."""
        return int(np.searchsorted(self.saves, last, side="right"))

    def saves_in(self, first: int, last: int) -> slice:
        """Which saves lie after step `first` and not after step `last`."""
        return slice(self.saves_before(first), self.saves_before(last))


class Went(NamedTuple):
    """The outcome of a block: the observations of each statistic over its times (a leading axis), the failures by lane,
    and how many steps were solved no better than rounding allows."""

    observed: list[Any]
    failures: Failures
    rounded: int


class Gathered:
    """The observations of a block's statistics so far, and the lanes that have gone bad."""

    def __init__(self, plan: Plan):
        self.observations: list[list[Any]] = [[] for _ in plan.observes]
        self.failures: list[Failures] = [NO_FAILURES]
        self.rounded = 0  # steps that were solved no better than rounding allows

    def keep(self, observed: Sequence[Any]) -> None:
        """Take in the observations of each statistic at the next saves, a leading axis; None where there are none."""
        for parts, one in zip(self.observations, observed, strict=True):
            if one is not None:
                parts.append(one)

    def begun_badly(self, bad: np.ndarray) -> None:
        """Note lanes that are bad before the first step."""
        lanes = np.flatnonzero(bad)
        self.failures.append(Failures(lanes, np.zeros(lanes.size, int), np.full(lanes.size, LEFT)))

    def gone_bad(self, first: int, bad: np.ndarray, diagnose: Callable[[], tuple[Any, Any]]) -> None:
        """Note lanes that are bad after a call from step `first` on; diagnose() gives the step after which each went
        bad."""
        fresh = np.setdiff1d(np.flatnonzero(bad), np.concatenate([f.lane for f in self.failures]))
        if fresh.size:
            step, cause = map(np.asarray, diagnose())
            self.failures.append(Failures(fresh, first + step[fresh] + 1, cause[fresh]))

    def result(self) -> Went:
        observations = [
            parts[0] if len(parts) == 1 else jax.tree.map(lambda *xs: np.concatenate(xs), *parts)
            for parts in self.observations
        ]
        failures = self.failures[0]
        if len(self.failures) > 1:
            failures = Failures(*map(np.concatenate, zip(*self.failures, strict=True)))
            order = np.argsort(failures.lane)
            failures = Failures(*(part[order] for part in failures))
        return Went(observations, failures, self.rounded)


class Work(ABC):
    """Paths on their way through printed programs, wherever these run."""

    observes_start_apart: bool  # whether the save at the start is observed before the first call, not with its saves

    @abstractmethod
    def begin(self) -> np.ndarray | None:
        """Make the state at the start; returns which lanes are bad, None where none is."""

    @abstractmethod
    def end(self, first: int) -> int:
        """The last step of a call that begins at step `first`."""

    @abstractmethod
    def advance(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        """Take the steps of a call, looking at the saves `inside`, of which the one at the start has been seen; returns
        which lanes are bad after it."""

    @abstractmethod
    def observed(self, inside: slice) -> list[Any]:
        """The observations of each statistic at these saves, a leading axis; None where it did not look."""

    @abstractmethod
    def snapshot(self) -> Any:
        """The numbers that `diagnose` needs to repeat a call from here."""

    @abstractmethod
    def diagnose(self, before: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Repeat a call: the step after which each lane was first bad (-1: none), and why."""

    @abstractmethod
    def rounded(self) -> int:
        """How many steps were solved no better than rounding allows."""


def gone_through(work: Work, plan: Plan, tell: Callable[[int], None]) -> Went:
    """The outcome of paths; tell(steps) is called after every call and may raise to end the run."""
    gathered, first, steps = Gathered(plan), 0, len(plan.h)
    bad, first_save = work.begin(), 0  # the first save that has not been observed
    if plan.saves[0] == 0 and work.observes_start_apart:
        gathered.keep(work.observed(slice(0, 1)))
        first_save = 1
    if bad is not None:
        gathered.begun_badly(bad)
    tell(0)
    while first < steps:
        last, before = work.end(first), work.snapshot()
        inside = slice(first_save, plan.saves_before(last))
        bad = work.advance(first, last, inside)
        if inside.start < inside.stop:
            gathered.keep(work.observed(inside))
            first_save = inside.stop
        if bad is not None:
            gathered.gone_bad(first, bad, functools.partial(work.diagnose, before, first, last))
        tell(last - first)
        first = last
    gathered.rounded = work.rounded()
    return gathered.result()


class Stopping(Protocol):
    """Work on paths that stand still one after the other; its first statistic looks at the components of all of them.

    going  the lanes of those that go on, as they were at the last `end`
    """

    members: Any
    going: np.ndarray

    def begin(self) -> np.ndarray | None: ...

    def end(self, first: int) -> int: ...

    def move(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        """Take the steps of a call, looking at the saves `inside` only where paths go on; which lanes are bad after."""

    def components(self, inside: slice) -> np.ndarray:
        """The components (saves, n, lanes) at the saves of the last call, which the next one overwrites."""


def until_still(work: Stopping, plan: Plan) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Call by call, until every path stands still: the lanes that go on, and the components of all lanes at each save;
    raises FloatingPointError where paths fail."""
    bad, first = work.begin(), 0
    while bad is None and first < len(plan.h):
        last = work.end(first)
        if not work.going.size:
            return
        inside = plan.saves_in(first, last)
        bad = work.move(first, last, inside)
        yield work.going, work.components(inside)
        first = last
    if bad is not None:
        raise FloatingPointError(f"{np.count_nonzero(bad)} of {np.count_nonzero(work.members.member)}")
