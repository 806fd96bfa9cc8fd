"""Mean and variance of every block of paths by itself, for comparisons block by block."""

from __future__ import annotations

import dataclasses

import numpy as np

from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, Sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batches(Averaged):
    """Mean and variance of each block of paths: independent batches, the same in every run with one seed.

    Runs collect it for themselves, where results are compared block by block.

    Notes
    -----
    Variables: batch_mean, batch_variance (batch, time, component) and batch_paths (batch, time).
    """

    collected_by_users = False

    def values(self, snapshot):
        return snapshot.x

    def products(self, entries):
        return False

    def fold(self, observed, block):
        return Sums(*(np.asarray(part)[None] for part in observed))

    def merge(self, a, b):
        return Sums(*(np.concatenate(parts) for parts in zip(a, b, strict=True)))

    def memory(self, times, paths, n):
        return 8 * times * n * 5

    def label(self, result, labels):
        count = result.weight[..., None]
        second = result.second
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(count > 1, second / (count - 1.0), np.nan)
        by = ("batch", "time", "component")
        return Labelled(
            {
                "batch_mean": Variable(by, result.mean),
                "batch_variance": Variable(by, variance),
                "batch_paths": Variable(("batch", "time"), np.rint(result.weight).astype(int)),
            }
        )
