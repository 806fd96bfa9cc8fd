"""Paths that a level stops, with the time of the stop and the level beside the state in which it left them."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from stodyn.methods.wrapping import FurtherState, WrappedSteps


@dataclasses.dataclass(frozen=True, eq=False)
class Halted(FurtherState):
    """A problem whose state is followed by the time of the stop and the number of the level, 0 while a path goes on."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.problem.n + 2

    @property
    def components(self) -> tuple[str, ...]:
        return (*self.problem.components, "stop time", "stopped by")

    def draw_start(self, rng, paths):
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, np.zeros((len(x), 2))], axis=1)


@dataclasses.dataclass(frozen=True)
class Halting(WrappedSteps):
    """A step of a method that stops paths (methods.stopping); its state is that of this method."""

    accepts = Halted

    def prepared(self, problem, h):
        inside = self.method.method.prepared(problem.problem, h)
        return dataclasses.replace(self, method=dataclasses.replace(self.method, method=inside))

    def start(self, problem, t, x, params):
        return self.method.start(problem.problem, t, x[: problem.problem.n], params)

    def step(self, problem, t, state, noise, params):
        return self.method.step(problem.problem, t, state, noise, params)

    def starting_step(self, k, problem, t, state, noise, params):
        return self.method.starting_step(k, problem.problem, t, state, noise, params)

    def read(self, state):
        everything, n = self.method.read(state), self.method.n
        return jnp.concatenate([everything[-1 - n : -1], everything[n : n + 1], everything[-1:]])
