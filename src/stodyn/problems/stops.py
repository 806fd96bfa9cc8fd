"""Stops: springs that act only where two parts meet, with forces that keep the energy of a step.

A spring of stiffness k that acts beyond a gap g stores U(d) = k max(d - g, 0)²/2 at a stretch d. Over a step from d to
d' its mean force

    F = (U(d') - U(d)) / (d' - d)

does exactly the work that U loses, however short the contact: a step invents no energy, while k max(d' - g, 0), the
force at its end, may multiply that of a body which meets a stiff stop (O. Gonzalez, Time integration and discrete
Hamiltonian systems, J. Nonlinear Sci. 6 (1996)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.numerics import uncompiled
from stodyn.problems.calling import call
from stodyn.problems.slips import Slip


class Stop(NamedTuple):
    """A stop between the coordinates `at` and `to` (None: the ground); `both` is whether it also acts below -gap."""

    stiffness: float
    gap: float
    both: bool
    at: int
    to: int | None

    def pulled(self, force: Array, t: Any, x: Array, v: Array) -> Array:
        """The force with that of the stop."""
        F = self.force(self.stretch(x))
        force = force.at[self.at].add(-F)
        return force if self.to is None else force.at[self.to].add(F)

    def stretch(self, x: Array) -> Array:
        return x[self.at] - (0.0 if self.to is None else x[self.to])

    def row(self, N: int) -> np.ndarray:
        """The derivative of the stretch by the coordinates."""
        row = np.zeros(N)
        row[self.at] = 1.0
        if self.to is not None:
            row[self.to] = -1.0
        return row

    def sides(self, d: Any) -> list[Any]:
        """How far each of its springs is pressed at a stretch d, below 0 where it is not."""
        return [d - self.gap, -d - self.gap] if self.both else [d - self.gap]

    def side(self, d: Array) -> Any:
        """1 where it is at stretches above d or at d, -1 where it is below."""
        return jnp.where(d < 0, -1.0, 1.0).astype(d.dtype) if self.both else 1.0

    def reaches(self, d: Array) -> Array:
        """Whether it acts at a stretch d."""
        pressed = jnp.abs(d) if self.both else d
        return pressed > self.gap

    def force(self, d: Any) -> Any:
        """The force at a stretch d."""
        near, *far = (jnp.maximum(side, 0.0) for side in self.sides(d))
        return self.stiffness * (near - far[0] if far else near)

    def mean_force(self, before: Array, after: Array) -> Array:
        """The mean force over a step between two stretches: the loss of U divided by the way."""
        near, *far = map(_mean_pressed, self.sides(before), self.sides(after))
        return self.stiffness * (near - far[0] if far else near)


def _mean_pressed(a: Array, b: Array) -> Array:
    """(max(b, 0)² - max(a, 0)²) / (2 (b - a)), without cancellation."""
    is_crossed = (a > 0) != (b > 0)
    inside, outside = jnp.maximum(a, b), jnp.minimum(a, b)
    distance = jnp.where(is_crossed, inside - outside, 1.0)
    return jnp.where(is_crossed, 0.5 * inside**2 / distance, 0.5 * (jnp.maximum(a, 0.0) + jnp.maximum(b, 0.0)))


def with_stops(rest: Callable, stops: Sequence[Stop | Slip]) -> Callable:
    """The force of a structure with stops and dry friction: that of the rest and, at every state, theirs."""
    if not stops:
        return rest

    def force(t, x, v, params=None):
        total, xs, vs = jnp.atleast_1d(call(rest, t, x, v, params=params)), jnp.atleast_1d(x), jnp.atleast_1d(v)
        for stop in stops:
            total = stop.pulled(total, t, xs, vs)
        return jnp.reshape(total, jnp.shape(x))

    force.rest, force.stops = rest, tuple(stops)  # type: ignore[attr-defined]
    return force


def parted(force: Callable) -> tuple[Callable, tuple[Stop | Slip, ...]]:
    """The force of the rest, and the stops and slips."""
    return getattr(force, "rest", force), getattr(force, "stops", ())


class Outlook(NamedTuple):
    """Whether a contact begins or ends in a step, and for each stop whether a body rests on it meanwhile."""

    changes: Array
    rests: list[Array]


class Contacts:
    """The stops of a system all of whose coordinates have inertia and are free, at a state.

    pushes   M⁻¹ ∂d/∂x (N, stops): an array of NumPy, whose zeros show, where the mass is constant
    squares  k/m (stops, stops): of each stop by the forces of all
    """

    def __init__(self, stops: tuple[Stop, ...], pushes: Any, dtype: Any):
        self.stops, self.pushes = stops, pushes
        stiffness = np.array([[stop.stiffness] for stop in stops])
        self.squares = jnp.asarray(stiffness * _rows(stops, len(pushes)) @ pushes, dtype)

    @property
    def rate(self) -> Array:
        """√(k/m) of the stiffest stop: an upper bound where several act together."""
        return jnp.sqrt(jnp.max(jnp.sum(jnp.abs(self.squares), axis=1)))

    def outlook(self, h: Any, y: Array, v: Array, ahead: Array, a: Array, short: float) -> Outlook:
        """What becomes of the contacts in a step, by what is known at its start: its noise has no part in the choice.

        A body at y with the velocity v and the acceleration a rests on a stop if it would swing there for ever without
        leaving it. One that swings further stays for this step if its way is resolved, h √(k/m) <= short, and ends in
        the stop. A stop that does not act is not met if it does not act at the place `ahead` either.
        """
        changes, rests = [], []
        for i, stop in enumerate(self.stops):
            square = self.squares[i, i]
            side = stop.side(stop.stretch(y))
            depth, speed, pull = (side * stop.stretch(u) for u in (y, v, a))
            depth = depth - stop.gap
            middle = depth + pull / square
            is_resting = (depth > 0) & (middle > 0) & ((pull / square) ** 2 + speed**2 / square < middle**2)
            is_staying = (h**2 * square <= short**2) & (depth + h * speed + 0.5 * h**2 * pull > 0)
            is_missed = ~stop.reaches(stop.stretch(ahead))
            changes.append(jnp.where(depth > 0, ~(is_resting | is_staying), ~is_missed))
            rests.append(is_resting)
        begin_or_end = jnp.any(jnp.stack(changes))
        return Outlook(begin_or_end, [is_resting & ~begin_or_end for is_resting in rests])

    def acceleration(self, y: Array, of: Sequence[Array] | None = None) -> Array:
        """The acceleration by the stops' forces at y; `of` picks stops."""
        return self._pushed([stop.force(stop.stretch(y)) for stop in self.stops], y, of)

    def mean_acceleration(self, y: Array, after: Array, of: Sequence[Array] | None = None) -> Array:
        """The acceleration by the stops' mean forces over a step between two places; `of` picks stops."""
        return self._pushed([stop.mean_force(stop.stretch(y), stop.stretch(after)) for stop in self.stops], y, of)

    def _pushed(self, forces: list[Array], y: Array, of: Sequence[Array] | None) -> Array:
        """-M⁻¹ ∂d/∂x forces; nothing is added where a push is known to be zero, so that Jacobians stay sparse."""
        if of is not None:
            forces = [jnp.where(is_picked, force, 0.0) for is_picked, force in zip(of, forces, strict=True)]
        if not isinstance(self.pushes, np.ndarray):
            return -self.pushes @ jnp.stack(forces)
        total = jnp.zeros_like(y)
        for force, push in zip(forces, self.pushes.T, strict=True):
            for i in np.flatnonzero(push):
                total = total.at[i].add(-float(push[i]) * force)
        return total


class Stiffest(NamedTuple):
    """√(k/m) of the stiffest stop of a system, and the rate c/m at which the rest damps the motion towards it."""

    rate: float
    damping: float


def _rows(stops: Sequence[Stop], N: int) -> np.ndarray:
    """Return the derivatives ∂d/∂x of the stretches of stops, (stops, N)."""
    return np.stack([stop.row(N) for stop in stops])


def pushes_of(motion: Any, t: Any = None, y: Any = None, v: Any = None, params: Any = None) -> Any:
    """Return M⁻¹ ∂d/∂x (N, stops) for the stops of a system; a state is needed only where the mass depends on it.

    Of a singular constant mass it is the pseudo-inverse: a stop moves only what has inertia.
    """
    rows = _rows(motion.stops, motion.N)
    if callable(motion.mass):
        return motion.solved(t, y, v, y[:0], params, jnp.asarray(rows.T, y.dtype))
    if motion.inertia is None:
        return rows.T
    if not motion.is_regular:
        return (rows @ np.linalg.pinv(motion.inertia.M)).T
    diagonal = motion.inertia.diagonal
    return np.linalg.solve(motion.inertia.M, rows.T) if diagonal is None else rows.T / diagonal[:, None]


def stiffest_stop(problem: Any) -> Stiffest | None:
    """Return the stiffest stop at the start; None where there is no stop, or where stops act on no inertia.

    Beside coordinates without inertia its damping is not looked for.
    """
    motion = problem.motion
    if not motion.stops:
        return None
    rows = _rows(motion.stops, motion.N)
    with jax.enable_x64(True):
        y, v, z = motion.example_coordinates()
        pushes = np.asarray(pushes_of(motion, 0.0, y, v, motion.params))
        yielding = np.sum(rows * pushes.T, axis=1)  # 1/m
        yielding = yielding if motion.is_regular else np.maximum(yielding, 0.0)  # but for rounding it is not negative
        rates = np.sqrt([stop.stiffness * share for stop, share in zip(motion.stops, yielding, strict=True)])
        i = int(np.argmax(rates))
        if not motion.is_regular:
            return Stiffest(float(rates[i]), 0.0) if rates[i] > 0.0 else None

        def slowed(v):
            push = jnp.asarray(pushes[:, i])
            return jax.jvp(lambda v: motion.acceleration(0.0, y, v, z, motion.params), (v,), (push,))[1]

        damping = -rows[i] @ uncompiled.value(slowed, np.asarray(v)) / yielding[i]
    return Stiffest(float(rates[i]), float(damping))
