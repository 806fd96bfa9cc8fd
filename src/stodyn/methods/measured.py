"""A method on a measured problem: the method itself, then a sample of the measurements after every step."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import Catalogued, Method, Solver
from stodyn.noise.increment import Recipe
from stodyn.problems.measured import Measured


def measuring(method: Any, problem: Any) -> Any:
    """The method as it runs on the problem: with its measurements where it has them."""
    if not isinstance(problem, Measured):
        return method
    return _Steps(method, len(problem.H)) if isinstance(method, Method) else _Solves(method)


@dataclasses.dataclass(frozen=True)
class _AndMeasurements(Recipe):
    """The increments of another recipe, with the normals of the measurements in aux["measurement"]."""

    recipe: Recipe
    count: int

    def normals(self, m):
        return {**self.recipe.normals(m), "measurement": self.count}

    def increment(self, h, normals, m):
        own = self.recipe.increment(h, {name: z for name, z in normals.items() if name != "measurement"}, m)
        return dataclasses.replace(own, aux={**(own.aux or {}), "measurement": normals["measurement"]})


@dataclasses.dataclass(frozen=True)
class _Named(Catalogued):
    """What the method underneath says of itself."""

    method: Any
    accepts = Measured

    @property
    def name(self):
        return self.method.name

    @property
    def calculus(self):
        return self.method.calculus

    @property
    def claims(self):
        return self.method.claims

    @property
    def citation(self):
        return self.method.citation

    @property
    def spelling(self):
        return self.method.spelling


@dataclasses.dataclass(frozen=True)
class _Steps(_Named, Method):
    """A step of the method, then z = H x + √(R/h) ξ; the state is that of the method and z."""

    count: int

    @property
    def needs(self):
        return _AndMeasurements(self.method.needs, self.count)

    @property
    def starting_steps(self):
        return self.method.starting_steps

    def start(self, problem, t, x, params):
        return self.method.start(problem.problem, t, x[: problem.problem.n], params), x[problem.problem.n :]

    def step(self, problem, t, state, noise, params):
        return self._measured(problem, self.method.step(problem.problem, t, state[0], _own(noise), params), noise)

    def starting_step(self, k, problem, t, state, noise, params):
        after = self.method.starting_step(k, problem.problem, t, state[0], _own(noise), params)
        return self._measured(problem, after, noise)

    def read(self, state):
        return jnp.concatenate([self.method.read(state[0]), state[1]])

    def _measured(self, problem, result, noise):
        after, report = result
        v = np.linalg.cholesky(problem.R) @ noise.aux["measurement"] / jnp.sqrt(noise.h)
        return (after, problem.H @ self.method.read(after) + v), report


@dataclasses.dataclass(frozen=True)
class _Solves(_Named, Solver):
    """The states of the solver with measurements of them."""

    def solve(self, problem, grid, start, params, streams):
        n, root = problem.problem.n, np.linalg.cholesky(problem.R)
        x = self.method.solve(problem.problem, grid, start[:, :n], params, streams)
        v = streams["measurement"].standard_normal((*x.shape[:2], len(root))) @ root.T
        v[0] = 0.0
        v[1:] /= np.sqrt(np.diff(grid))[:, None, None]
        return np.concatenate([x, x @ problem.H.T + v], axis=2)


def _own(noise):
    """The increment as the recipe underneath made it."""
    rest = {name: z for name, z in noise.aux.items() if name != "measurement"}
    return dataclasses.replace(noise, aux=rest or None)
