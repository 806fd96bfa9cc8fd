"""A method for a measured problem: after every step of the method a sample of the measurements."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.methods.accounted import accounting
from stodyn.methods.contract import Method, Solver
from stodyn.methods.looping import looping
from stodyn.methods.striking import striking
from stodyn.methods.switching import switching
from stodyn.methods.tangent import following
from stodyn.methods.walled import walling
from stodyn.methods.wrapping import AndNormals, StepsBeside, Wrapping, without
from stodyn.problems.accounted import Accounted
from stodyn.problems.impact import Struck
from stodyn.problems.looped import Looped
from stodyn.problems.measured import Measured
from stodyn.problems.tangents import WithTangents
from stodyn.problems.walls import Walled

STREAM = "measurement"


def measuring(method: Any, problem: Any, t: float, h: float | np.ndarray) -> Any:
    """The method for a problem and steps from t on, of length h or of these lengths, with its measurements, loop, walls
    or switches."""
    if not isinstance(problem, Measured):
        return switching(method, problem)
    if isinstance(problem, Looped):
        return looping(measuring(method, problem.problem, t, h), problem, t, h)
    if isinstance(problem, WithTangents):
        return following(measuring(method, problem.problem, t, h), problem)
    method = switching(method, problem.problem)
    if isinstance(problem, Walled):
        return walling(method, problem)
    if isinstance(problem, Struck):
        return striking(method, problem)
    if isinstance(problem, Accounted):
        return accounting(method, problem)
    return _Steps(method, len(problem.H)) if isinstance(method, Method) else _Solves(method)


@dataclasses.dataclass(frozen=True)
class _Steps(StepsBeside):
    """A step of the method, then z = H x + √(R/h) ξ; its state is that of the method and z."""

    count: int
    accepts = Measured

    @property
    def needs(self):
        return AndNormals(self.method.needs, STREAM, self.count)

    def start(self, problem, t, x, params):
        return self.method.start(problem.problem, t, x[: problem.problem.n], params), x[problem.problem.n :]

    def step(self, problem, t, state, noise, params):
        return self._measured(
            problem, self.method.step(problem.problem, t, state[0], without(noise, STREAM), params), noise
        )

    def starting_step(self, k, problem, t, state, noise, params):
        after = self.method.starting_step(k, problem.problem, t, state[0], without(noise, STREAM), params)
        return self._measured(problem, after, noise)

    def _measured(self, problem, result, noise):
        after, report = result
        v = np.linalg.cholesky(problem.R) @ noise.aux[STREAM] / jnp.sqrt(noise.h)
        return (after, problem.H @ self.method.read(after) + v), report


@dataclasses.dataclass(frozen=True)
class _Solves(Wrapping, Solver):
    """The states of a solver, with their measurements."""

    accepts = Measured

    def solve(self, problem, grid, start, params, streams):
        n, root = problem.problem.n, np.linalg.cholesky(problem.R)
        x = self.method.solve(problem.problem, grid, start[:, :n], params, streams)
        v = streams[STREAM].standard_normal((*x.shape[:2], len(root))) @ root.T
        v[0] = 0.0
        v[1:] /= np.sqrt(np.diff(grid))[:, None, None]
        return np.concatenate([x, x @ problem.H.T + v], axis=2)
