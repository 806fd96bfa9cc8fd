"""A method for a problem with walls: a step from x to y, then the action of the wall.

lifted    x' = y + max(0, low - m), m = (x + y - √((x - y)² + v χ²))/2 the minimum of a Brownian bridge from x to y
          of variance v, χ² = ξ₁² + ξ₂²                        D. Lépingle, Math. Comput. Simul. 38 (1995)
folded    x' = low + |y - low|                              M. Bossy, E. Gobet & D. Talay, J. Appl. Probab. 41 (2004)
mirrored  x' = low + e (low - y) and v' = -e v where y is below the wall; a method that keeps an acceleration from step
          to step begins anew from there
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from stodyn.methods.contract import Method
from stodyn.methods.wrapping import AndNormals, WrappedSteps, without
from stodyn.numerics.rarely import rarely
from stodyn.problems.walls import Walled

STREAM = "wall"
DRAWN = 2  # normals per wall


def walling(method: Any, problem: Walled) -> Method:
    """The method for a problem with walls; refuses methods that make whole paths or need earlier steps, and where walls
    reflect those that keep more than the state."""
    if not isinstance(method, Method):
        raise ValueError(f"method: {method.name} makes whole paths at once, but walls act on steps; take EulerMaruyama")
    kind: Any = type(method)
    keeps_more = kind.start is not Method.start or kind.read is not Method.read
    if method.starting_steps or (keeps_more and problem.walls.kind == "reflect"):
        raise ValueError(
            f"method: {method.name} keeps more than the state of the problem from step to step, which would no longer "
            "fit a state that a wall has moved; take a one-step method such as EulerMaruyama, Heun or SRA1"
        )
    draws = problem.walls.kind == "reflect" and problem.walls.draw
    sides = sum(map(math.isfinite, (b for place in problem.places for b in place[2:]))) if draws else 0
    return _Walled(method, sides, keeps_more)


@dataclasses.dataclass(frozen=True)
class _Walled(WrappedSteps):
    """A step of the method, then the walls; `sides` is the number of walls that need normals, and `begins_anew` whether
    the method begins anew from a state that a wall has moved."""

    sides: int
    begins_anew: bool
    accepts = Walled

    @property
    def needs(self):
        return AndNormals(self.method.needs, STREAM, DRAWN * self.sides) if self.sides else self.method.needs

    def start(self, problem, t, x, params):
        return self.method.start(problem.problem, t, x, params)

    def read(self, state):
        return self.method.read(state)

    def after_jump(self, problem, t, state, params):
        return self.method.after_jump(problem.problem, t, state, params)

    def step(self, problem, t, state, noise, params):
        own = without(noise, STREAM) if self.sides else noise
        reached, report = self.method.step(problem.problem, t, state, own, params)
        y = after = self.method.read(reached)
        normals = iter(noise.aux[STREAM]) if self.sides else iter(())
        for i, velocity, low, high in problem.places:
            if velocity >= 0:
                after = _mirrored(after, i, velocity, low, high, problem.walls.restitution)
                continue
            end = after[i]
            if self.sides:
                (row,) = problem.problem.noise_rows(t, state, params, (i,))
                end = _lifted(state[i], end, noise.h * jnp.sum(jnp.asarray(row, y.dtype) ** 2), low, high, normals)
            after = after.at[i].set(folded(end, low, high))
        if not self.begins_anew:
            return after, report
        is_moved = jnp.any(after != y)
        return rarely(
            is_moved, lambda _: self.method.start(problem.problem, t + noise.h, after, params), reached
        ), report


def _lifted(x: Any, y: Any, v: Any, low: float, high: float, normals: Iterator) -> Any:
    """y moved by the distance to which the bridge from x to y passes beyond the walls; `normals` gives the draws."""

    def largest(sign: float) -> Any:
        """The maximum of sign times the bridge."""
        square = next(normals) ** 2 + next(normals) ** 2
        return 0.5 * (sign * (x + y) + jnp.sqrt((x - y) ** 2 + v * square))

    up = jnp.maximum(low + largest(-1.0), 0.0) if math.isfinite(low) else 0.0
    down = jnp.maximum(largest(1.0) - high, 0.0) if math.isfinite(high) else 0.0
    return y + (up - down)


def _mirrored(after: Any, i: int, velocity: int, low: float, high: float, e: float) -> Any:
    """The state with x and v mirrored where x is beyond a wall; x is folded where it is then beyond the other wall."""
    y, v = after[i], after[velocity]
    is_out = (y < low) | (y > high)
    wall = jnp.clip(y, low, high)
    back = folded(wall - e * (y - wall), low, high)
    return after.at[i].set(jnp.where(is_out, back, y)).at[velocity].set(jnp.where(is_out, -e * v, v))


def folded(y: Any, low: float, high: float) -> Any:
    """y mirrored at the walls until it lies between them."""
    if not math.isfinite(high):
        return low + jnp.abs(y - low)
    if not math.isfinite(low):
        return high - jnp.abs(high - y)
    length = high - low
    u = y - low
    u = u - 2.0 * length * jnp.floor(u / (2.0 * length))
    return low + jnp.minimum(u, 2.0 * length - u)
