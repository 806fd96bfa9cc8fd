"""The distribution of every component on fixed bins."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from stodyn.arguments import checks_arguments
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Statistic, Variable


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram(Statistic):
    """The density of every component on fixed bins.

    Parameters
    ----------
    edges : sequence of numbers
        The edges of the bins, increasing; the same for every component.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables: density, density_stderr (time, component, bin); cumulative, cumulative_stderr (time, component, edge),
    the fraction of the paths below each edge; and paths_used_in_histogram (time), the number of paths. Paths outside
    the edges are not lost: their fraction is `cumulative` at the first edge and one minus `cumulative` at the last.
    `results.quantile` reads quantiles off a histogram. Each observation costs one comparison per edge, component and
    path.

    Examples
    --------
    >>> import numpy as np
    >>> from stodyn import statistics as st
    >>> density = st.Histogram(np.linspace(-3, 3, 61), at=[1.0, 5.0])
    """

    edges: Any = dataclasses.field(kw_only=False)

    def __post_init__(self):
        super().__post_init__()
        edges = np.asarray(self.edges, float)
        if edges.ndim != 1 or edges.size < 2 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
            raise ValueError(
                f"Histogram: edges must be at least two increasing finite numbers, got {self.edges!r}. "
                "For example np.linspace(-3, 3, 61)."
            )
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    def observe(self, snapshot):
        def below(edge):
            return jnp.sum(snapshot.sound & (snapshot.x < edge), axis=-1)

        # One after another, as a loop: side by side they would compile for as long as there are edges.
        counts = lax.map(below, jnp.asarray(self.edges, snapshot.x.dtype))
        return counts.T, jnp.sum(snapshot.sound)

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]

    def label(self, result, labels):
        below, count = result[0], np.asarray(result[1], float)[:, None, None]
        edges = np.array(self.edges)
        width = np.diff(edges)
        with np.errstate(divide="ignore", invalid="ignore"):
            cumulative = below / count
            share = np.diff(cumulative, axis=-1)
            stderr, below_stderr = (
                np.sqrt(np.where(count > 1, p * (1 - p) / (count - 1), np.nan)) for p in (share, cumulative)
            )
        by_bin, by_edge = ("time", "component", "bin"), ("time", "component", "edge")
        return Labelled(
            {
                "density": Variable(by_bin, share / width, intervals.attributes(intervals.BINOMIAL, result[1], width)),
                "density_stderr": Variable(by_bin, stderr / width),
                "cumulative": Variable(by_edge, cumulative, intervals.attributes(intervals.BINOMIAL, result[1])),
                "cumulative_stderr": Variable(by_edge, below_stderr),
                "paths_used_in_histogram": Variable(("time",), np.asarray(result[1])),
            },
            {
                "bin": Variable(("bin",), 0.5 * (edges[1:] + edges[:-1])),
                "bin_left": Variable(("bin",), edges[:-1]),
                "bin_right": Variable(("bin",), edges[1:]),
                "edge": Variable(("edge",), edges),
            },
        )

    def memory(self, times, paths, n):
        return 24 * times * n * len(self.edges)
