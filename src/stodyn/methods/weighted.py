"""Paths with the scores of their law: the derivatives of its logarithm with respect to parameters of the drift.

By Girsanov's theorem a change of the drift by g η has the score ∫ η · dW. So E f has the derivative E f ∫ η · dW with
g η = ∂(drift)/∂(parameter), whatever f is: it need not be continuous. Over a step of a method of weak order 2 the
integral is, to the same order where noise commutes,

    η·W + h/2 (L η)·W + 1/2 Σ (g_i·∇) η_j (W_i W_j - δ_ij h),    L = ∂_t + f·∇ + 1/2 Σ g_i g_i : ∇∇,

each term of mean 0. Derivatives are differences over the spread of the step, so that η may have kinks and jumps.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.wrapping import FurtherState, StepsBeside
from stodyn.numerics.elimination import solve
from stodyn.numerics.facts.dependence import arguments_of
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.problems.tangents import WithTangents

RIDGE = 1e-10  # of the square of each channel, added where channels act alike: by as much scores are too small
UNREACHED = 1e-6  # of a slope of the drift, a choice far above RIDGE: a share of it that noise does not reach is none


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
        return self.problem.n + 2 * len(self.followed.directions)

    @property
    def components(self) -> tuple[str, ...]:
        names = [one.name for one in self.followed.directions]
        scores = (f"{what} of {name}" for what in ("score", "steps without a score") for name in names)
        return (*self.problem.components, *scores)

    def draw_start(self, rng, paths):
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, np.zeros((len(x), self.n - self.problem.n))], axis=1)

    @functools.cached_property
    def varies(self) -> bool:
        """Whether η may differ from place to place or from time to time."""
        x, params = np.asarray(self.sde.example_start(), float), self.sde.example_params()
        try:
            return not arguments_of(lambda t, x, params: self.rates(t, x, params)[0], 0.0, x, params).isdisjoint({0, 1})
        except Unprintable:
            return True

    def rates(self, t, x, params) -> tuple[jax.Array, jax.Array]:
        """η of each direction, (directions, m), and whether some of ∂(drift) is such that no noise reaches it."""

        def drift(values):
            return self.sde.f(t, x, self.followed.with_values(params, values))

        slopes = jax.jacfwd(drift)(self.followed.values(params)).T
        g = self.sde.g(t, x, params)
        sizes = jnp.sqrt(jnp.sum(g**2, axis=0))
        units = g / jnp.where(sizes > 0, sizes, 1.0)
        matrix = units.T @ units + RIDGE * jnp.eye(g.shape[1], dtype=g.dtype)
        parts = jnp.stack([solve(matrix, units.T @ slope) for slope in slopes])
        rest = jnp.max(jnp.abs(slopes - parts @ units.T), axis=1)
        return parts / jnp.where(sizes > 0, sizes, 1.0), rest > UNREACHED * jnp.max(jnp.abs(slopes), axis=1)

    def score(self, t, h, x, W, params) -> tuple[jax.Array, jax.Array]:
        """The scores of a step with the increment W, and whether no noise reaches some of ∂(drift) where it begins."""
        η, is_unreached = self.rates(t, x, params)
        if not self.varies:
            return η @ W, is_unreached
        ahead, g = x + h * self.sde.f(t, x, params), self.sde.g(t, x, params)
        middle = self.rates(t + h, ahead, params)[0]
        further = jnp.sqrt(h) * g.T
        sides = [
            (self.rates(t + h, ahead + one, params)[0], self.rates(t + h, ahead - one, params)[0]) for one in further
        ]
        change = sum((0.5 * (above + below) - middle for above, below in sides), middle - η)
        slopes = jnp.stack([(above - below) / (2.0 * jnp.sqrt(h)) for above, below in sides])  # (m, directions, m)
        squares = jnp.outer(W, W) - h * jnp.eye(len(W), dtype=W.dtype)
        return (η + 0.5 * change) @ W + 0.5 * jnp.einsum("idj,ij->d", slopes, squares), is_unreached


@dataclasses.dataclass(frozen=True)
class Weighting(StepsBeside):
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
        after, report = self.method.step(problem.problem, t, own, noise, params)
        W = noise.whole.W if hasattr(noise, "whole") else noise.W
        score, is_unreached = problem.score(t, noise.h, before[: problem.sde.n], W, params)
        further = jnp.concatenate([score, is_unreached.astype(scores.dtype)])
        if problem.stopped is not None:  # the step of the stop counts: its law is that of W
            further = jnp.where(before[problem.stopped] > 0, 0.0, further)
        return (after, scores + further), report

    def leading(self, state):
        return self.method.leading(state[0])
