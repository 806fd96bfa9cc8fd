"""Paths beside their neighbours: the same noise with parameters and starts a little larger and a little smaller.

Differences of such paths estimate derivatives where tangents do not: of functions that jump.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import Report
from stodyn.methods.wrapping import FurtherState, WrappedSteps
from stodyn.problems.tangents import WithTangents


@dataclasses.dataclass(frozen=True, eq=False)
class Neighbouring(FurtherState):
    """A problem with 1 + 2 p paths on the same noise: its own, and for each of p directions one on either side.

    followed   the problem with its directions; spacings: how far a neighbour is away in each direction
    """

    followed: WithTangents
    spacings: tuple[float, ...]

    @property
    def copies(self) -> int:
        return 1 + 2 * len(self.spacings)

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.problem.n * self.copies

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(f"{name}.{copy}" for copy in range(self.copies) for name in self.problem.components)

    def shifts(self) -> list[tuple[int, float]]:
        """For each neighbour, its direction and how far it is away."""
        return [(j, side * spacing) for j, spacing in enumerate(self.spacings) for side in (1.0, -1.0)]

    def draw_start(self, rng, paths):
        x = self.problem.draw_start(rng, paths)
        moves = [np.zeros(self.problem.n), *(by * self.followed.first_tangents[j] for j, by in self.shifts())]
        return np.concatenate([x + move for move in moves], axis=1)

    def params_of(self, params: Any) -> list[Any]:
        """The params of each path."""
        own, rows = self.followed.values(params), self.followed.value_tangents
        moved = [self.followed.with_values(params, own + by * rows[j]) for j, by in self.shifts()]
        return [params, *moved]

    def parted(self, x: Any) -> list[Any]:
        """The states of all paths."""
        return [x[k * self.problem.n : (k + 1) * self.problem.n] for k in range(self.copies)]


@dataclasses.dataclass(frozen=True)
class Neighbours(WrappedSteps):
    """A step of the method on every path; its state: those of all paths."""

    accepts = Neighbouring

    def prepared(self, problem, h):
        return dataclasses.replace(self, method=self.method.prepared(problem.problem, h))

    def start(self, problem, t, x, params):
        paths = zip(problem.parted(x), problem.params_of(params), strict=True)
        return tuple(self.method.start(problem.problem, t, own, its) for own, its in paths)

    def step(self, problem, t, state, noise, params):
        return self._stepped(problem, self.method.step, t, state, noise, params)

    def starting_step(self, k, problem, t, state, noise, params):
        step = functools.partial(self.method.starting_step, k)
        return self._stepped(problem, step, t, state, noise, params)

    def read(self, state):
        return jnp.concatenate([self.method.read(own) for own in state])

    def _stepped(self, problem, step, t, state, noise, params):
        paths = zip(state, problem.params_of(params), strict=True)
        outcomes = [step(problem.problem, t, own, noise, its) for own, its in paths]
        report = functools.reduce(Report.joined, [report for _, report in outcomes])
        return tuple(after for after, _ in outcomes), report
