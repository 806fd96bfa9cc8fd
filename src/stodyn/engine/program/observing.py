"""How statistics observe the paths of a block: one function for all executors, and shorter ways where there are rows.

A program that writes rows has the numbers of single paths that a statistic needs; what only sums, counts or lists them
is taken off the rows, and any other statistic is given all paths together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from stodyn.engine.program.watching import Watched, averages_itself, counts_below, gives_values
from stodyn.statistics.contract import Snapshot, Statistic


def observe(statistic: Statistic, snapshot: Snapshot, member: Any) -> Any:
    """The observation of a statistic at one time; member: which lanes are paths, where it counts failed ones too."""
    return statistic.observe(snapshot._replace(sound=member) if statistic.counts_failed else snapshot)


def gathered(statistic: Statistic, tree: Any, numbers: Sequence[Any]) -> tuple[Any, Any]:
    """The iterations and the track of a statistic's snapshot, from the numbers of a save that are its own."""
    iterations, rest = (numbers[0], numbers[1:]) if statistic.counts_iterations else (None, numbers)
    return iterations, jax.tree.unflatten(tree, rest)


class Rows(ABC):
    """What a program has written down of its paths at some saves; `look` lists those at which a statistic looks."""

    @abstractmethod
    def whole(self, k: int, statistic: Statistic, look: np.ndarray) -> Any:
        """The observations of statistic number k, given all paths together."""

    @abstractmethod
    def sums(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        """The central sums of its numbers of single paths."""

    def below(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        """How many components lie below its edges."""
        return self.whole(k, statistic, look)

    def values(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        """Its numbers of single paths, and which paths count."""
        return self.whole(k, statistic, look)

    def observed(self, statistics: Sequence[Statistic], watched: Watched, observes: Sequence[np.ndarray]) -> list[Any]:
        """The observations of each statistic, a leading axis; None where it does not look at any of the saves."""
        observations = []
        for k, (statistic, is_observed) in enumerate(zip(statistics, observes, strict=True)):
            function = self.whole if watched.apart[k] else self._function_for(statistic)
            look = np.flatnonzero(is_observed)
            observations.append(function(k, statistic, look) if look.size else None)
        return observations

    def _function_for(self, statistic: Statistic) -> Any:
        if averages_itself(statistic):
            return self.sums
        if counts_below(statistic):
            return self.below
        return self.values if gives_values(statistic) else self.whole
