"""How many Newton iterations the steps took."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from stodyn.statistics.contract import Labelled, Statistic, Variable
from stodyn.statistics.moments import central_sums, merge_sums, summarise


@dataclasses.dataclass(frozen=True, kw_only=True)
class Iterations(Statistic):
    """Newton iterations a step, averaged over the paths and over the steps since the last time looked at.

    Variables: iterations, iterations_stderr (time); zero for explicit methods, NaN at the start.
    """

    counts_iterations = True

    def observe(self, snapshot):
        count = jnp.asarray(snapshot.iterations, snapshot.x.dtype)
        return central_sums(count[None, :], snapshot.sound, snapshot.weight)

    def merge(self, a, b):
        return merge_sums(a, b)

    def label(self, result, run):
        s = summarise(result)
        steps = np.diff(run.steps, prepend=np.nan)
        mean = np.diff(s.mean[:, 0], prepend=np.nan) / steps
        # Counts of different intervals of a path are nearly independent, so their variances add.
        between = np.diff(s.mean_stderr[:, 0] ** 2, prepend=np.nan)
        return Labelled(
            {
                "iterations": Variable(("time",), mean),
                "iterations_stderr": Variable(("time",), np.sqrt(np.maximum(between, 0)) / steps),
            }
        )
