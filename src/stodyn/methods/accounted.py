"""An α method that keeps an account of a structure's energies along with its steps."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from stodyn.methods.contract import Method
from stodyn.methods.excited import Excited
from stodyn.methods.wrapping import WrappedSteps
from stodyn.problems.accounted import Accounted
from stodyn.problems.calling import call
from stodyn.problems.mechanical import Mechanical


@dataclasses.dataclass(frozen=True)
class Accounting(WrappedSteps):
    """A step of the method, then the energies; its state is that of the method, the energies, and the first energy."""

    accepts = Accounted

    def start(self, problem, t, x, params):
        inner = problem.problem
        state = self.method.start(inner, t, x[: inner.n], params)
        kinetic, strain = problem.held(*self._positions_and_velocities(problem, state))
        nothing = jnp.zeros_like(kinetic)
        return state, jnp.stack([kinetic, strain, nothing, nothing, kinetic + strain])

    def step(self, problem, t, state, noise, params):
        before, account = state
        inner, own, h = problem.problem, problem.structure, noise.h
        after, report = self.method.step(inner, t, before, noise, params)
        (_, v), (x_after, v_after) = (
            self._positions_and_velocities(problem, before),
            self._positions_and_velocities(problem, after),
        )
        kinetic, strain = problem.held(x_after, v_after)
        dissipated = account[2] + 0.5 * h * (problem.losses(v) + problem.losses(v_after))
        mean = 0.5 * (v + v_after)
        fed = jnp.zeros((), v.dtype)
        if own.m:
            B = jnp.reshape(call(own.noise, t, *self._user(own, before), params=params), (own.N, own.m))
            fed = fed + mean @ (B @ noise.W)
        if inner.coloured is not None and isinstance(self.method, Excited):
            impulse = self.method.draw(before, noise)[1]
            gamma = 0.5 * (inner.gamma(t, v, v, params) + inner.gamma(t + h, v, v, params))
            fed = fed + mean @ (gamma @ impulse)
        if own.load is not None:
            first, last = (call(own.load, time, params=params) for time in (t, t + h))
            fed = fed + 0.5 * h * (v @ first + v_after @ last)
        entered = account[3] + fed
        return (after, jnp.stack([kinetic, strain, dissipated, entered, account[4]])), report

    def read(self, state):
        kinetic, strain, dissipated, entered, first = state[1]
        residual = entered - dissipated - (kinetic + strain - first)
        return jnp.concatenate(
            [self.method.read(state[0]), jnp.stack([kinetic, strain, dissipated, entered, residual])]
        )

    def _positions_and_velocities(self, problem, state):
        shown, N = self.method.read(state), problem.structure.N
        return shown[:N], shown[N : 2 * N]

    def _user(self, own, state):
        shown = self.method.read(state)
        x, v = shown[: own.N], shown[own.N : 2 * own.N]
        return (x[0], v[0]) if own.scalar else (x, v)


def accounting(method: Method, problem: Accounted) -> Method:
    """The method for a structure with an account of its energies."""
    if not isinstance(problem.problem, Mechanical):
        raise TypeError(
            f"method: {method.name} does not keep the account of energies; take a method of the α family, such as "
            "StochasticAlpha or Newmark"
        )
    return Accounting(method)
