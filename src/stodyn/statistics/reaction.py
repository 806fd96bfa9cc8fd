"""Mean reactions of joints over a time, which exist even where a force contains white noise."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, summarise

EARLY = 1e-9  # a step that ends this share of the window early still ends the window


class Window(NamedTuple):
    """When the window began and the impulses then, and the mean reactions over the last whole one, NaN before it."""

    begun: Array
    impulses: Array
    mean: Array


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Reaction(Averaged):
    """Mean and variance over the paths of the mean reactions ΔΛ/Δ of all constraints over windows of length Δ.

    With white noise in a reaction Λ', the variance of its mean grows like 1/Δ as Δ falls. So a reaction without an
    averaging time has no variance, and its peaks mean nothing. Needs Mechanical(..., constraints=..., impulses=True).

    Parameters
    ----------
    time : float
        The length Δ of the windows, over which reactions are averaged.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Windows follow each other from the start of the run, each ending with the first step at or after its length is over.
    An observation sees the last window that has ended.

    Variables: reaction, reaction_stderr, reaction_variance, reaction_variance_stderr (time, constraint); NaN before the
    first window has ended.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> reactions = st.Reaction(0.1, every=50)
    """

    time: float = dataclasses.field(kw_only=False)
    rows: tuple[int, ...] = dataclasses.field(default=(), init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        if (
            isinstance(self.time, bool)
            or not isinstance(self.time, (int, float, np.number))
            or not 0 < self.time < np.inf
        ):
            raise ValueError(
                f"Reaction: time must be a positive number (reactions are averaged over it), got {self.time!r}"
            )

    def prepared(self, problem, times):
        rows = tuple(i for i, name in enumerate(problem.components) if name.startswith("Λ_"))
        if not rows:
            raise ValueError("Reaction: this run shows no impulses; give Mechanical(..., constraints=g, impulses=True)")
        if np.max(times) - np.min(times) < self.time * (1.0 - EARLY) and len(times) > 1:
            raise ValueError(f"Reaction: time {self.time:g} is longer than the run; no window would end")
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "rows", rows)
        return ready

    def track_start(self, t, x, params):
        impulses = x[np.asarray(self.rows)]
        return Window(jnp.zeros_like(impulses[0]) + t, impulses, jnp.full_like(impulses, jnp.nan))

    def track(self, gathered, move):
        end, impulses = move.t + move.h, move.after[np.asarray(self.rows)]
        passed = end - gathered.begun
        over = passed >= self.time * (1.0 - EARLY)
        return Window(
            jnp.where(over, end, gathered.begun),
            jnp.where(over, impulses, gathered.impulses),
            jnp.where(over, (impulses - gathered.impulses) / passed, gathered.mean),
        )

    def values(self, snapshot):
        return snapshot.track.mean

    def label(self, result, labels):
        s = summarise(result)
        values = {
            "reaction": s.mean,
            "reaction_stderr": s.mean_stderr,
            "reaction_variance": s.variance,
            "reaction_variance_stderr": s.variance_stderr,
        }
        names = np.array([labels.names[i].removeprefix("Λ_") for i in self.rows])
        attrs = {"averaged over": float(self.time)}
        return Labelled(
            {name: Variable(("time", "constraint"), value, attrs) for name, value in values.items()},
            {"constraint": Variable(("constraint",), names)},
        )
