"""Paths that failed: which, when and why. They are never averaged away."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

SHOWN = 8
EXAMINE = (
    'To examine such paths pass on_failure="record": the run continues without them, their numbers and times are in '
    "its result, and stodyn.replay gives each of them step by step."
)
SLOPES = (
    "Where they are inside already, the method takes the slope of the root, which is infinite at 0: PlatenWeak2, SRIW1 "
    "and EulerMaruyama take none."
)
LEFT, UNSOLVED, UNFIT = range(3)  # why a path failed: by infinity or NaN, by a solve, by a state that is none
CAUSES = {LEFT: "its state left the floating-point numbers", UNSOLVED: "its equations were not solved"}


class PathsFailed(RuntimeError):
    """Paths whose state left the floating-point numbers or whose equations could not be solved.

    Attributes
    ----------
    paths, times
        The numbers of the failed paths and the times at which they failed, in the blocks that had run by then.
    facts
        What happened, without the advice for a run of stodyn.simulate.
    undefined
        Which functions of the problem are not defined everywhere, and what to do about it; "" where all are.
    """

    def __init__(self, message: str, paths: np.ndarray, times: np.ndarray, facts: str = "", undefined: str = ""):
        super().__init__(message, paths, times, facts, undefined)  # all of them, so that the error survives pickling
        self.paths, self.times, self.facts, self.undefined = paths, times, facts or message, undefined

    def __str__(self) -> str:
        return self.args[0]

    def located(self, path: int, where: str, undefined: str) -> PathsFailed:
        """The same error with the functions that are not finite where a path was last, which no smaller dt mends."""
        if not where:
            return self
        way_out = undefined or "Write it so that it is finite there, or keep the paths away by a sd.Stop."
        words = f"{self.facts} Before path {path} failed, {where}. {way_out} {EXAMINE}"
        return PathsFailed(words, self.paths, self.times, self.facts, self.undefined)


class StodynFault(RuntimeError):
    """An unforeseen error inside stodyn, which no argument has caused: the function in which it arose, and a way out.

    Faults that a run survives are told by a warning, stodyn.warnings.PrinterFault, and stand in its record.
    """


def fault_in_words(place: str, error: Exception) -> str:
    """An unforeseen error in a function of stodyn, and what to do about it."""
    reason = type(error).__name__ + (f": {error}" if str(error) else "")
    way_out = 'executor="vmap", which prints nothing, or another method'
    if place.startswith("stodyn.problems.structure."):
        way_out = 'stating the noise, as by structure="general", where the problem takes it'
    return (
        f"{place} failed with {reason}. This is a fault of stodyn: please report it with the functions of the problem. "
        f"Until it is mended, try {way_out}."
    )


class Stopped(Exception):
    """The run was ended from outside; a block in progress leaves after its next call."""


@dataclasses.dataclass
class FailureLog:
    """The failures of a run, block by block.

    unfit  what became of a problem's finite states that the equations do not allow, in words (Fitness.unfit)
    """

    times: np.ndarray
    unfit: str = ""
    failures: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = dataclasses.field(default_factory=list)

    def add(self, paths: np.ndarray, steps: np.ndarray, causes: np.ndarray) -> None:
        """Take in paths by their numbers, the steps after which they failed, and why."""
        if len(paths):
            self.failures.append((paths, self.times[steps], causes))

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self.failures:
            return np.empty(0, int), np.empty(0), np.empty(0, int)
        paths, times, causes = (np.concatenate(parts) for parts in zip(*self.failures, strict=True))
        return paths, times, causes.astype(int)

    def variables(self) -> dict[str, Any]:
        paths, times, causes = self.all()
        return {
            "failed_path": (("failure",), paths),
            "failure_time": (("failure",), times),
            "failure_cause": (("failure",), np.array([self._in_words(cause) for cause in causes], str)),
        }

    def _in_words(self, cause: int) -> str:
        """A cause; states within a step, which may have been unfit, are not told apart from others."""
        if cause == UNFIT:
            return f"its {self.unfit}"
        return CAUSES[cause] + (f", maybe since its {self.unfit} within the step" if self.unfit else "")

    def error(
        self,
        looked_at: int,
        advice: str = "",
        unsolved_words: str = "whose implicit equations Newton did not solve",
        implicit: tuple[str, ...] = ("ThetaEuler", "ImplicitMidpoint"),
        suspect: str = "",
        undefined: str = "",
    ) -> PathsFailed:
        paths, times, causes = self.all()
        order = np.argsort(times, kind="stable")
        paths, times, causes = paths[order], times[order], causes[order]
        shown = ", ".join(f"path {p} at t = {t:.6g}" for p, t in zip(paths[:SHOWN], times[:SHOWN], strict=True))
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        words = {
            UNFIT: f"whose {self.unfit}",
            UNSOLVED: unsolved_words,
            LEFT: "whose state became infinite or NaN",
        }
        counts = {cause: np.count_nonzero(causes == cause) for cause in words}
        why = [f"{count} {words[cause]}" for cause, count in counts.items() if count]
        if counts[UNSOLVED]:
            other_way = "a larger Newton limit or tol (options of the method)"
        else:
            named = f" ({', '.join(implicit)})" if implicit else ""
            other_way = f"where the system is stiff an implicit method{named}"
        facts = f"{len(paths)} of the {looked_at} paths run so far failed ({'; '.join(why)}). First: {shown}{more}."
        slopes = SLOPES if "the diffusion takes a square root" in undefined else ""
        advice = " ".join(filter(None, (EXAMINE, advice, undefined, slopes)))
        return PathsFailed(
            f"{facts} {suspect}{suspect and ' '}Try a smaller dt, or {other_way}. {advice}",
            paths,
            times,
            facts,
            undefined,
        )
