"""An α method for a structure with hysteretic elements: z' = z + h (r(v, z) + r(v', z'))/2, solved with the step."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from stodyn.methods.wrapping import StepsBeside
from stodyn.problems.elements import Hysteretic

BEYOND = 1.5  # times its bound: a z farther out comes from a step that is too long


@dataclasses.dataclass(frozen=True)
class Hysteresis(StepsBeside):
    """The method for the system whose force contains z at the end of the step; its state is the method's and z."""

    accepts = Hysteretic

    @property
    def order(self):
        return self.method.order

    def coefficients(self, h):
        return self.method.coefficients(h)

    @property
    def kicks_before_impulses(self):
        return self.method.kicks_before_impulses

    def start(self, problem, t, x, params):
        n = problem.elastic.n
        inner_params = self._inner_params(params, x[n:], jnp.zeros_like(x[n:]), 0.0)
        return self.method.start(problem.given_z, t, x[:n], inner_params), x[n:]

    def after_jump(self, problem, t, state, params):
        return self.start(problem, t, self.read(state), params)

    def step(self, problem, t, state, noise, params, *, later=None, push=None):
        before, z = state
        N, h = problem.N, noise.h
        x, v = jnp.split(self.method.read(before)[: 2 * N], 2)
        r = problem.rates(x, v, z)
        inner_params = self._inner_params(params, z, r, jnp.zeros_like(h))
        at_end = self._inner_params(params if later is None else later, z, r, h)
        after, report = self.method.step(problem.given_z, t, before, noise, inner_params, later=at_end, push=push)
        x, v = jnp.split(self.method.read(after)[: 2 * N], 2)
        z_after = problem.after(z, r, x, v, h)
        off = jnp.abs(z_after - z - 0.5 * h * (r + problem.rates(x, v, z_after)))
        bounds = jnp.asarray([element.bound for element, _ in problem.hysteresis], z.dtype)
        solved = jnp.all(off <= 1e-6 * (bounds + jnp.abs(z_after)))
        inside = jnp.all(jnp.abs(z_after) <= BEYOND * jnp.maximum(bounds, jnp.abs(z)))
        return (after, z_after), report._replace(ok=jnp.asarray(report.ok) & solved & inside)

    def _inner_params(self, params, z, r, h):
        return {"own": params, "z": z, "r": r, "h": jnp.asarray(h, z.dtype)}
