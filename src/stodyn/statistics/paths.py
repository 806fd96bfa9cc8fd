"""The first few paths themselves."""

from __future__ import annotations

import dataclasses

import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.hints import Count, is_whole
from stodyn.statistics.contract import Labelled, Statistic, Variable


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths(Statistic):
    """The first paths themselves, component by component.

    Parameters
    ----------
    count : int
        How many paths: numbers 0 to count - 1.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times. With neither, every step is stored, or about
        1000 of them if the run has more than 2000: a grid fine enough for drawing, whatever the other statistics use.

    Notes
    -----
    Variable: path (number, time, component), where `number` is that of the path. Its size is checked against the
    machine's memory before anything runs.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> first_five = st.Paths(5, every=2)
    """

    own_times = 1000

    count: Count = dataclasses.field(kw_only=False, default=1)

    def __post_init__(self):
        super().__post_init__()
        if not is_whole(self.count):
            raise ValueError(f"Paths: count must be a whole number >= 1, got {self.count!r}")
        object.__setattr__(self, "count", int(self.count))

    def observe(self, snapshot):
        return snapshot.x[:, : self.count]

    def fold(self, observed, block):
        wanted = int(np.clip(self.count - block.first, 0, block.paths))
        return [observed[:, :, :wanted].transpose(2, 0, 1).copy()]

    def merge(self, a, b):
        return a + b

    def label(self, result, labels):
        paths = np.concatenate(result)
        return Labelled(
            {"path": Variable(("number", "time", "component"), paths)},
            {"number": Variable(("number",), np.arange(len(paths)))},
        )

    def memory(self, times, paths, n):
        return 8 * times * min(self.count, paths) * n
