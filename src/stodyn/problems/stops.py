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


class Stop(NamedTuple):
    """A stop between the coordinates `at` and `to` (None: the ground); `both` is whether it also acts below -gap."""

    stiffness: float
    gap: float
    both: bool
    at: int
    to: int | None

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


def with_stops(rest: Callable, stops: Sequence[Stop]) -> Callable:
    """The force of a structure with stops: that of the rest and, at every state, that of the stops."""
    if not stops:
        return rest

    def force(t, x, v, params=None):
        total, xs = jnp.atleast_1d(call(rest, t, x, v, params=params)), jnp.atleast_1d(x)
        for stop in stops:
            F = stop.force(stop.stretch(xs))
            total = total.at[stop.at].add(-F)
            total = total if stop.to is None else total.at[stop.to].add(F)
        return jnp.reshape(total, jnp.shape(x))

    force.rest, force.stops = rest, tuple(stops)  # type: ignore[attr-defined]
    return force


def parted(force: Callable) -> tuple[Callable, tuple[Stop, ...]]:
    """The force of the rest, and the stops."""
    return getattr(force, "rest", force), getattr(force, "stops", ())


class Outlook(NamedTuple):
    """Whether a contact begins or ends in a step, and for each stop whether a body rests on it meanwhile."""

    changes: Array
    rests: list[Array]


class Contacts:
    """The stops of a system all of whose coordinates have inertia and are free, at a state (t, y, v)."""

    def __init__(self, problem: Any, t: Any, y: Array, v: Array, params: Any):
        self.problem, self.stops = problem, parted(problem.force)[1]
        self.rows = np.stack([stop.row(problem.N) for stop in self.stops])
        self.pushes: Any = self.rows.T  # M⁻¹ ∂d/∂x: an array of NumPy, whose zeros show, where the mass is constant
        if callable(problem.mass):
            self.pushes = problem._solved(t, y, v, y[:0], params, jnp.asarray(self.rows.T, y.dtype))
        elif problem.inertia is not None:
            diagonal = problem.inertia.diagonal
            self.pushes = (
                np.linalg.solve(problem.mass_matrix, self.rows.T)
                if diagonal is None
                else self.rows.T / diagonal[:, None]
            )

        stiffness = np.array([[stop.stiffness] for stop in self.stops])
        self.squares = jnp.asarray(
            stiffness * self.rows @ self.pushes, y.dtype
        )  # k/m: of each stop by the forces of all

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
        """Of the stops' forces at y; `of` picks stops."""
        return self._pushed([stop.force(stop.stretch(y)) for stop in self.stops], y, of)

    def mean_acceleration(self, y: Array, after: Array, of: Sequence[Array] | None = None) -> Array:
        """Of the stops' mean forces over a step between two places; `of` picks stops."""
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
    """Of the stiffest stop of a system √(k/m), and the rate c/m at which the rest damps the motion towards it."""

    rate: float
    damping: float


def stiffest_stop(problem: Any) -> Stiffest | None:
    """At the start; None where there is no stop, or where stops act on no inertia.

    Beside coordinates without inertia its damping is not looked for, and a mass that is a function is not asked.
    """
    stops = parted(problem.force)[1]
    if not stops or (not problem.is_regular and callable(problem.mass)):
        return None
    if not problem.is_regular:
        rows = np.stack([stop.row(problem.N) for stop in stops])
        yielding = np.sum(rows * (rows @ np.linalg.pinv(problem.mass_matrix)), axis=1)
        rate = float(np.sqrt(np.max([stop.stiffness for stop in stops] * yielding)))
        return Stiffest(rate, 0.0) if rate > 0.0 else None
    with jax.enable_x64(True):
        y, v, z = problem.example_coordinates()
        params = problem.example_params()
        contacts = Contacts(problem, 0.0, y, v, params)
        pushes = np.asarray(contacts.pushes)
        yielding = np.sum(contacts.rows * pushes.T, axis=1)  # 1/m
        rates = np.sqrt([stop.stiffness * share for stop, share in zip(stops, yielding, strict=True)])
        i = int(np.argmax(rates))

        def slowed(v):
            push = jnp.asarray(pushes[:, i])
            return jax.jvp(lambda v: problem.acceleration(0.0, y, v, z, params), (v,), (push,))[1]

        damping = -contacts.rows[i] @ uncompiled.value(slowed, np.asarray(v)) / yielding[i]
    return Stiffest(float(rates[i]), float(damping))
