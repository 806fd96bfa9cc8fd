"""The first few paths themselves."""

from __future__ import annotations

import dataclasses

import numpy as np

from stodyn.statistics.contract import Labelled, Statistic, Variable, is_count


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths(Statistic):
    """The components of the first paths.

    Variable: path (number, time, component), number being that of the path. Its size is checked against the machine's
    memory before anything runs.

    Parameters
    ----------
    count
        How many paths: those of the numbers 0 to count - 1.
    every, at
        Every so many steps, or at these times. Where neither is given every step is kept, of runs of more than 2000
        steps about 1000 of them: a path has a grid fine enough to be drawn, whatever the other statistics take.
    """

    own_times = 1000

    count: int = dataclasses.field(kw_only=False, default=1)

    def __post_init__(self):
        super().__post_init__()
        if not is_count(self.count):
            raise ValueError(f"Paths: count must be a whole number >= 1, got {self.count!r}")

    def observe(self, snapshot):
        return snapshot.x[:, : self.count]

    def fold(self, observed, block):
        wanted = int(np.clip(self.count - block.first, 0, block.paths))
        return [observed[:, :, :wanted].transpose(2, 0, 1).copy()]

    def merge(self, a, b):
        return a + b

    def label(self, result, run):
        paths = np.concatenate(result)
        return Labelled(
            {"path": Variable(("number", "time", "component"), paths)},
            {"number": Variable(("number",), np.arange(len(paths)))},
        )

    def memory(self, times, paths, n):
        return 8 * times * min(self.count, paths) * n
