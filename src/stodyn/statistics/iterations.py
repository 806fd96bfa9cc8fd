"""How many Newton iterations the steps took."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.statistics.contract import Labelled, Statistic, Variable
from stodyn.statistics.moments import Sums, merge_sums, summarise


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Iterations(Statistic):
    """Newton iterations per step, averaged over the paths and over the steps since the previous observation.

    Parameters
    ----------
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables: iterations, iterations_stderr (time); zero for explicit methods, NaN at the start.
    """

    counts_iterations = True

    def observe(self, snapshot):
        return jnp.asarray(snapshot.iterations), jnp.where(snapshot.sound, snapshot.weight, 0.0)

    def fold(self, observed, block):
        since_start, w = (np.asarray(part, float) for part in observed)  # (times, lanes)
        count = np.diff(since_start, axis=0, prepend=0)
        total = w.sum(axis=1, keepdims=True)
        mean = (w * count).sum(axis=1, keepdims=True) / np.maximum(total, 1)
        second, third, fourth = ((w * (count - mean) ** k).sum(axis=1, keepdims=True) for k in (2, 3, 4))
        return Sums(total[:, 0], mean, second[:, :, None], third, fourth)

    def merge(self, a, b):
        return merge_sums(a, b)

    def label(self, result, labels):
        s = summarise(result)
        steps = np.diff(labels.steps, prepend=0)
        with np.errstate(invalid="ignore"):
            mean, stderr = s.mean[:, 0] / steps, s.mean_stderr[:, 0] / steps
        return Labelled({"iterations": Variable(("time",), mean), "iterations_stderr": Variable(("time",), stderr)})
