"""Impacts: mechanics whose state jumps where a function of the position reaches a level.

    Impact(Level(0.0, of="x", direction="down"), Restitution(0.7))        a floor at 0 that gives back 0.7 of the speed
    Impact(Level(lambda t: 0.1 * jnp.sin(t), of="x", direction="down"))   a floor that moves
    Impact(Level(1.0, of=lambda t, x: jnp.hypot(x[0], x[1])), then=...)   a curved wall, and any map of the state

With f the function that reaches the level l, and ν = ∇f·v - dl/dt the speed at which it does, restitution is

    v -> v - (1 + e) ν M⁻¹∇f / (∇f·M⁻¹∇f),

so that ν -> -e ν, and the momentum along the wall is kept. With joints P M⁻¹∇f takes the place of M⁻¹∇f, its part along
them: the impulse is shared with the joints, which hold before and after it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.problems.calling import call
from stodyn.problems.contract import component_names, returned_shape
from stodyn.problems.level import CUBIC, Gauge, Level
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical

COUNTED = ("impacts", "rests")


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Restitution:
    """A wall that gives back the share e of the speed at which it is struck, and leaves the motion along it unchanged.

    Parameters
    ----------
    e : number
        From 0 (a body that stays at the wall) to 1 (no energy is lost).

    Examples
    --------
    >>> import stodyn as sd
    >>> floor = sd.Impact(sd.Level(0.0, of="x", direction="down"), sd.Restitution(0.7))
    """

    e: float = 1.0

    def __post_init__(self):
        check_restitution(self.e)


def check_restitution(e: Any) -> None:
    """Refuse a restitution that is not a number from 0 to 1."""
    if isinstance(e, bool) or not isinstance(e, (int, float, np.number)) or not 0 <= e <= 1:
        raise ValueError(
            f"restitution: expected a number from 0 (all speed is lost) to 1 (none is lost), got {e!r}: an "
            "impact gives back no more than it was given"
        )


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Impact:
    """A change of the state where a mechanical system reaches a level, at that moment within the step.

    Parameters
    ----------
    level : Level
        A level of a position, or of a function of positions and time; `direction` gives the side on which paths are.
        The level may move.
    then : Restitution or function
        The change of the velocity; or then(t, x[, params]) -> x, the whole state (positions, then velocities) after
        the impact from that before it, written for one path with jax.numpy.

    Examples
    --------
    >>> import stodyn as sd
    >>> ball = sd.Mechanical(lambda t, x, v: -9.81, None, (1.0, 0.0))
    >>> bouncing = sd.with_walls(ball, sd.Impact(sd.Level(0.0, of="x", direction="down"), sd.Restitution(0.8)))
    """

    level: Level
    then: Restitution | Callable = dataclasses.field(default_factory=Restitution)

    def __post_init__(self):
        if not isinstance(self.level, Level):
            raise TypeError(f"Impact: expected stodyn.Level(...) first, got {self.level!r}")
        if self.level.direction == "out":
            raise ValueError(f"Impact: {self.level} has two sides; give an Impact for each of them")
        if not isinstance(self.then, Restitution) and not callable(self.then):
            raise TypeError(
                f"then: expected stodyn.Restitution(e) or a function then(t, x[, params]) -> x, got {self.then!r}"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class Struck(Measured):
    """A mechanical system with impacts; made by `with_walls`. Besides its components it shows how many impacts a path
    has had, and in how many steps it was at rest at a wall.

    own  the system itself, where a method takes it in another form
    """

    own: Mechanical
    impacts: tuple[Impact, ...]

    made_by = "with_walls"

    @functools.cached_property
    def gauges(self) -> tuple[Gauge, ...]:
        return tuple(impact.level.on(self.own) for impact in self.impacts)

    def changed(self, **changes: Any) -> Struck:
        own: Any = self.own.changed(**changes)
        return dataclasses.replace(self, problem=own, own=own)

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        x = super().draw_start(rng, paths)
        self._check_start(x, paths)
        return x

    def _check_start(self, x: np.ndarray, paths: range) -> None:
        """Refuse a start beyond a level that does not move; for those that move, before_run checks an example."""
        for gauge in self.gauges:
            if callable(gauge.level.level) or callable(gauge.of):
                continue
            sign = 1.0 if gauge.level.direction == "up" else -1.0
            outside = np.flatnonzero(sign * (gauge.level.level - x[:, gauge.of]) < 0)
            if outside.size:
                raise ValueError(
                    f"start: {self.components[gauge.of]} = {x[outside[0], gauge.of]:g} of path {paths[outside[0]]} is "
                    f"beyond the wall, {gauge.level}. Start all paths on this side of it."
                )

    def before_run(self, t: float) -> tuple[str, ...]:
        with jax.enable_x64(True):
            x, params = jnp.asarray(self.own.example_start(), float), self.own.example_params()
            for gauge in self.gauges:
                beyond = -float(gauge.distances(jnp.asarray(t, float), x, params)[0])
                if beyond > 1e-12 * (1.0 + float(jnp.abs(x).max())):
                    raise ValueError(
                        f"start: at t = {t:g} {gauge.words} is beyond the wall, {gauge.level}, by {beyond:g}. Start on "
                        "this side of it."
                    )
        listed = "; ".join(f"{impact.level}, {_words(impact.then)}" for impact in self.impacts)
        return (
            *self.problem.before_run(t),
            f"impacts: {listed}; located within the step, weak order 1; {COUNTED[1]} counts steps at a wall",
        )

    def is_broken(self, x: Array, y: Array) -> Array | None:
        """Where there was an impact between two states, or a path was at rest at a wall."""
        return jnp.any(x[-len(COUNTED) :] != y[-len(COUNTED) :])

    def reach(self, component: int) -> tuple[float, float]:
        low, high = super().reach(component)
        for gauge in self.gauges:
            wall = gauge.level.level
            if gauge.of == component and not callable(wall):
                low, high = (wall, high) if gauge.level.direction == "down" else (low, wall)
        return low, high

    def after(self, number: int, gauge: Gauge, t, x: Array, params) -> Array:
        """The state after impact `number` at a state on the level, whatever the sign of the speed; what follows
        positions and velocities in it, of elements and filters, does not jump."""
        then = self.impacts[number].then
        if isinstance(then, Restitution):
            return self.moved(gauge, t, x, params, lambda speed: then.e * jnp.abs(speed))
        inward, moving = self.moved(gauge, t, x, params, lambda speed: -jnp.abs(speed)), 2 * self.own.N
        after = jnp.asarray(call(then, t, inward[:moving], params=params), x.dtype)
        return x.at[:moving].set(jnp.reshape(after, (moving,)))

    def moved(self, gauge: Gauge, t, x: Array, params, to: Callable[[Array], Array]) -> Array:
        """The state with the rate of the distance from a level changed by an impulse along the wall's normal."""
        N = self.own.N
        (rate,) = gauge.distance_rates(t, x, params)
        normal, push = self._normal(gauge, t, x, params)
        off = (to(rate) - rate) / jnp.where(normal @ push > 0, normal @ push, 1.0)
        return x.at[N : 2 * N].add(off * push)

    def onto(self, gauge: Gauge, t, x: Array, params) -> Array:
        """The state moved onto a level along the wall's normal."""
        N = self.own.N
        (distance,) = gauge.distances(t, x, params)
        normal, push = self._normal(gauge, t, x, params)
        return x.at[:N].add(-distance / jnp.where(normal @ push > 0, normal @ push, 1.0) * push)

    def _normal(self, gauge: Gauge, t, x: Array, params) -> tuple[Array, Array]:
        """The gradient of the distance by the positions, and M⁻¹ times it, with joints its part along them."""
        N = self.own.N
        normal, joints = -gauge.signs(x)[0] * gauge.gradient(t, x, params)[:N], self.own.joints
        if joints is None:
            return normal, self.own.motion.solved(t, x[:N], x[N : 2 * N], x[:0], params, normal)
        frame = joints.frame(t, x[:N], params)
        return normal, frame.held(frame.inverse(normal))[0]


def struck(problem: Any, impacts: Sequence[Impact]) -> Struck:
    """The system with impacts; refuses systems that cannot be struck."""
    for impact in impacts:
        if not isinstance(impact, Impact):
            raise TypeError(f"walls: expected stodyn.Walls(...) or stodyn.Impact(...), got {impact!r}")
    check_strikable(problem)
    for impact in impacts:
        gauge = impact.level.on(problem)
        if gauge.known[0] != CUBIC:
            raise ValueError(
                f"Impact: {impact.level} does not depend on positions alone ({gauge.known[1]}), but walls "
                f"bound positions; give a function of {', '.join(problem.components[: problem.N])}"
            )
        velocities = [problem.components[i] for i in gauge.components if i >= problem.N]
        if velocities:
            raise ValueError(f"Impact: {impact.level} depends on {', '.join(velocities)}; walls bound positions")
        if not isinstance(impact.then, Restitution):
            moving = 2 * problem.N
            start = ("x", np.asarray(problem.example_start())[:moving])
            returned = returned_shape(problem, "then", impact.then, ("t", 0.0), start).shape
            if returned != (moving,):
                raise ValueError(
                    f"then: returned shape {returned}, expected ({moving},), the state "
                    f"({', '.join(problem.components[:moving])})"
                )
    _check_crossing(problem, impacts)
    names = component_names((*problem.components, *COUNTED), (*problem.components, *COUNTED))
    zeros = np.zeros((len(COUNTED), problem.n)), np.zeros((len(COUNTED), len(COUNTED)))
    return Struck(problem, *zeros, names, problem.component_units, problem, tuple(impacts))


def check_strikable(problem: Any) -> None:
    """Refuse problems whose positions cannot be struck by walls."""
    if not isinstance(problem, Mechanical) or not problem.motion.is_regular:
        raise TypeError(
            f"problem: impacts take a Mechanical all of whose coordinates have inertia, got a {type(problem).__name__}"
        )
    if problem.accelerations or problem.impulses:
        raise TypeError(
            "problem: impacts take a Mechanical that shows no accelerations and no impulses of joints, which have no "
            "values at an impact; leave out accelerations= and impulses="
        )
    if problem.joints is not None and not problem.joints.mass_is_regular:
        raise TypeError("problem: impacts beside joints take a regular mass; add s G'G to it, which changes no motion")


def _check_crossing(problem: Mechanical, impacts: Sequence[Impact]) -> None:
    """Refuse two fixed walls of one position that leave no room between them."""
    names: Any = problem.components
    sides: dict[int, dict[str, float]] = {}
    for impact in impacts:
        gauge = impact.level.on(problem)
        if not callable(gauge.of) and not callable(impact.level.level):
            sides.setdefault(gauge.of, {})[str(impact.level.direction)] = impact.level.level
    for component, reached in sides.items():
        if len(reached) == 2 and not reached["down"] < reached["up"]:
            raise ValueError(
                f"walls: of {names[component]!r} they cross: low = {reached['down']:g} is not below high = "
                f"{reached['up']:g}"
            )


def _words(then: Any) -> str:
    return str(then) if isinstance(then, Restitution) else getattr(then, "__name__", "function").strip("<>")
