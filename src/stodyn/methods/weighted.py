"""Paths with the scores of their law: the derivatives of its logarithm with respect to parameters of the drift.

By Girsanov's theorem a change of the drift by g η has the score ∫ η · dW. So E f has the derivative E f ∫ η · dW with
g η = ∂(drift)/∂(parameter), whatever f is: it need not be continuous.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.wrapping import FurtherState, WrappedSteps
from stodyn.numerics.elimination import solve
from stodyn.problems.tangents import WithTangents


@dataclasses.dataclass(frozen=True, eq=False)
class Weighted(FurtherState):
    """A problem whose state is followed by a score for each direction.

    sde      its drift and noise
    stopped  the component of the problem that is > 0 for a path that a level has stopped; None where there is no stop
    """

    followed: WithTangents
    sde: Any
    stopped: int | None = None

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.problem.n + len(self.followed.directions)

    @property
    def components(self) -> tuple[str, ...]:
        return (*self.problem.components, *(f"score of {one.name}" for one in self.followed.directions))

    def draw_start(self, rng, paths):
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, np.zeros((len(x), len(self.followed.directions)))], axis=1)

    def rates(self, t, x, params) -> tuple[jax.Array, jax.Array]:
        """η of each direction, (directions, m), and the part of ∂(drift) that no noise reaches, (directions, n)."""

        def drift(values):
            return self.sde.f(t, x, self.followed.with_values(params, values))

        slopes = jax.jacfwd(drift)(self.followed.values(params)).T
        g = self.sde.g(t, x, params)
        η = jnp.stack([solve(g.T @ g, g.T @ slope) for slope in slopes])
        return η, slopes - η @ g.T


@dataclasses.dataclass(frozen=True)
class Weighting(WrappedSteps):
    """A step of the method, and η · W added to each score; its state: that of the method, and the scores."""

    accepts = Weighted

    def prepared(self, problem, h):
        return dataclasses.replace(self, method=self.method.prepared(problem.problem, h))

    def start(self, problem, t, x, params):
        n = problem.problem.n
        return self.method.start(problem.problem, t, x[:n], params), x[n:]

    def step(self, problem, t, state, noise, params):
        own, scores = state
        before = self.method.read(own)
        x = before[: problem.sde.n]
        after, report = self.method.step(problem.problem, t, own, noise, params)
        W = noise.whole.W if hasattr(noise, "whole") else noise.W
        if problem.stopped is not None:
            W = jnp.where(before[problem.stopped] > 0, 0.0, W)  # the step of the stop counts: its law is that of W
        return (after, scores + problem.rates(t, x, params)[0] @ W), report

    def leading(self, state):
        return self.method.leading(state[0])

    def read(self, state):
        return jnp.concatenate([self.method.read(state[0]), state[1]])
