"""Dry friction that sticks: a force F in f Sign(w), any value from -f to f where the rate w of a stretch is 0.

Over a step of length h the force has a mean p, in units of acceleration, with

    p = clip(p + w'/h, -f/m, f/m),        w' the rate at the end of the step,

so that w' = 0 where no more than f is needed for it, and p = ±f/m elsewhere: the implicit step of a set-valued law
(J. J. Moreau). For one body, w' is what the step would have without friction, moved towards 0 by h f/m at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

YIELDED = 1e-8  # of p beside other slips, whose forces at rest are otherwise not determined: w' = YIELDED p h
Place = tuple[Any, Any]  # the coordinates `at` and `to` (None: the ground), or the stretch as a function and None


def stretch_at(place: Place, x: Array, v: Array) -> tuple[Array, Array]:
    """The stretch of an element at a place, and its rate."""
    at, to = place
    if callable(at):
        return jax.jvp(at, (x,), (v,))
    return x[at] - (0.0 if to is None else x[to]), v[at] - (0.0 if to is None else v[to])


def pulled_at(force: Array, x: Array, place: Place, F: Any) -> Array:
    """The force with that of an element."""
    at, to = place
    if callable(at):
        return force - F * jax.grad(at)(x)
    force = force.at[at].add(-F)
    return force if to is None else force.at[to].add(F)


class Slip(NamedTuple):
    """Dry friction of the force `slip` at a place, against a belt of the rate `belt`, a number or a function of t."""

    slip: float
    belt: Any
    place: Place

    def rate(self, t: Any, x: Array, v: Array) -> Array:
        """w, relative to the belt."""
        belt = self.belt(t) if callable(self.belt) else self.belt
        return stretch_at(self.place, x, v)[1] - belt

    def pulled(self, force: Array, t: Any, x: Array, v: Array) -> Array:
        """The force with that of the friction at a point in time, where 0 stands for its values at rest."""
        return pulled_at(force, x, self.place, self.slip * jnp.sign(self.rate(t, x, v)))


class Drag:
    """The dry friction in a step from a place x.

    rows    ∂d/∂x of the stretches (slips, N)
    pushes  M⁻¹ rowsᵀ (N, slips)
    """

    def __init__(self, slips: tuple[Slip, ...], x: Array, solved: Callable[[Array], Array]):
        zero = jnp.zeros_like(x)
        self.slips, self.share = slips, YIELDED if len(slips) > 1 else 0.0
        rows = jnp.stack([pulled_at(zero, x, slip.place, -1.0) for slip in slips])
        pushes = jnp.stack([solved(row) for row in rows])
        yielding = jnp.sum(rows * pushes, axis=1)  # 1/m
        self.units = pushes / yielding[:, None]
        self.bounds = jnp.asarray([slip.slip for slip in slips], x.dtype) * yielding

    def acceleration(self, p: Array) -> Array:
        """What mean forces p take from the acceleration."""
        return p @ self.units

    def balance(self, p: Array, t: Any, x: Array, v: Array, h: Any) -> Array:
        """What vanishes where p is the friction in a step that ends at x with v."""
        w = jnp.stack([slip.rate(t, x, v) for slip in self.slips])
        return p - jnp.clip((1.0 - self.share) * p + w / h, -self.bounds, self.bounds)
