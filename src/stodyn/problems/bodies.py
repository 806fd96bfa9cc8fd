"""Rigid bodies with joints between them: a Mechanical whose constraints nobody has to write.

A body has twelve coordinates, its centre of mass r and its directors d1, d2, d3, the unit vectors along its axes. A
point X of the body is r + X1 d1 + X2 d2 + X3 d3, so that

    T = ½ m |r'|² + ½ Σ_ij E_ij d_i'·d_j',        E = ½ tr J - J,

and the mass is constant; six constraints d_i·d_j = δ_ij keep the body rigid. A torque τ is the force ½ τ×d_i on d_i.
Joints are constraints of no more than the second degree in these coordinates. All places and directions are given in
space, as the bodies are at the start; they then move with their bodies.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn import listing
from stodyn.arguments import checks_arguments, suggestion
from stodyn.numerics.printing.points import at_points
from stodyn.problems.links import LinkedForce
from stodyn.problems.mechanical import Mechanical

__all__ = [
    "Body", "Cylindrical", "Fixed", "Force", "Mechanism", "Prismatic", "Revolute", "Rod", "Spherical", "Spring",
    "Torque", "Universal", "mechanism",
]  # fmt: skip
__dir__ = listing.names_of(__name__)

SIZE = 12  # coordinates of a body
PAIRS = ((0, 0), (1, 1), (2, 2), (1, 2), (2, 0), (0, 1))  # of directors whose products are constant
ROUNDING = 1e-9  # relative tolerance of what the user gives


class Pose(NamedTuple):
    """Where a body is, or how fast these change: r and its directors, the rows of D."""

    r: Any
    D: Any

    def point(self, X: Any) -> Any:
        return self.r + X @ self.D

    def along(self, e: Any) -> Any:
        return e @ self.D


STILL = Pose(np.zeros(3), np.zeros((3, 3)))
GROUND = Pose(np.zeros(3), np.eye(3))


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """A rigid body.

    Parameters
    ----------
    name : str
        Its name; its coordinates are called name_x, name_y, name_z, name_1x, ..., name_3z.
    mass : float
        Its mass, > 0.
    inertia : sequence of 3 numbers, or matrix (3, 3)
        The moments of inertia about its centre of mass, along its axes. Of a flat body, one of them is the sum of the
        others: its mass matrix is then singular, and ProjectedAlpha is the method that takes it. A small thickness
        makes it regular, and RattleAlpha has its first result in a quarter of the time.
    at : sequence of 3 numbers
        The centre of mass at the start.
    turned : sequence of 3 numbers, or matrix (3, 3)
        How its axes are turned at the start: a rotation vector, or the axes as columns; as those of space by default.
    velocity, rates : sequence of 3 numbers
        The velocity of the centre of mass, and the angular velocity, in space.
    """

    name: str
    mass: float
    inertia: Any
    at: Any = (0.0, 0.0, 0.0)
    turned: Any = (0.0, 0.0, 0.0)
    velocity: Any = (0.0, 0.0, 0.0)
    rates: Any = (0.0, 0.0, 0.0)

    def __post_init__(self):
        if not (isinstance(self.mass, (int, float, np.number)) and math.isfinite(self.mass) and self.mass > 0):
            raise ValueError(f"Body {self.name!r}: mass: expected a number > 0, got {self.mass!r}")
        for name in ("at", "velocity", "rates"):
            vector(f"Body {self.name!r}: {name}", getattr(self, name))
        self._check(self.tensor, self.start.D)

    def _check(self, E: np.ndarray, D: np.ndarray) -> None:
        least = np.linalg.eigvalsh(E).min()
        if least < -ROUNDING * np.abs(E).max() or np.trace(E) <= 0:
            raise ValueError(
                f"Body {self.name!r}: inertia: no body has it: one moment is larger than the sum of the others, or "
                f"negative, in {np.asarray(self.inertia).tolist()}"
            )
        if np.abs(D @ D.T - np.eye(3)).max() > ROUNDING or np.linalg.det(D) < 0:
            raise ValueError(f"Body {self.name!r}: turned: expected a rotation, got {np.asarray(self.turned).tolist()}")

    @functools.cached_property
    def tensor(self) -> np.ndarray:
        """E, (3, 3)."""
        J = np.asarray(self.inertia, float)
        J = np.diag(J) if J.shape == (3,) else J
        if (
            J.shape != (3, 3)
            or not np.isfinite(J).all()
            or not np.allclose(J, J.T, rtol=0, atol=ROUNDING * abs(J).max())
        ):
            raise ValueError(
                f"Body {self.name!r}: inertia: expected three moments or a symmetric matrix, got {self.inertia!r}"
            )
        E = 0.5 * np.trace(J) * np.eye(3) - J
        return np.where(np.abs(E) > ROUNDING * np.abs(J).max(), E, 0.0)

    @functools.cached_property
    def start(self) -> Pose:
        turned = np.asarray(self.turned, float)
        if turned.shape not in ((3,), (3, 3)):
            raise ValueError(f"Body {self.name!r}: turned: expected a rotation vector or a matrix, got {self.turned!r}")
        R = scipy.spatial.transform.Rotation.from_rotvec(turned).as_matrix() if turned.ndim == 1 else turned
        return Pose(np.asarray(self.at, float), R.T)

    @property
    def start_velocity(self) -> Pose:
        return Pose(np.asarray(self.velocity, float), np.cross(np.asarray(self.rates, float), self.start.D))

    def fixed(self, place: np.ndarray) -> np.ndarray:
        """X of a place in space at the start."""
        return self.start.D @ (place - self.start.r)


def vector(what: str, value: Any) -> np.ndarray:
    """Three finite numbers."""
    array = np.asarray(value, float)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise ValueError(f"{what}: expected three numbers, got {value!r}")
    return array


def direction(what: str, value: Any) -> np.ndarray:
    """A direction with the length 1."""
    array = vector(what, value)
    if not np.linalg.norm(array) > 0:
        raise ValueError(f"{what}: expected a direction, got {value!r}")
    return array / np.linalg.norm(array)


def across(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two directions that are perpendicular to an axis and to each other."""
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first = first / np.linalg.norm(first)
    return first, np.cross(axis, first)


class Side(NamedTuple):
    """One of the two bodies of a joint: its number (None: the ground), and the body, whose start says what is fixed."""

    number: int | None
    body: Body | None

    def point(self, place: np.ndarray) -> np.ndarray:
        return place if self.body is None else self.body.fixed(place)

    def along(self, e: np.ndarray) -> np.ndarray:
        return e if self.body is None else self.body.start.D @ e

    def pose(self, q: Array, still: Pose = GROUND) -> Pose:
        """Where it is in coordinates q, or how it moves in velocities q with still=STILL."""
        if self.number is None:
            return still
        own = q[SIZE * self.number : SIZE * (self.number + 1)]
        return Pose(own[:3], own[3:].reshape(3, 3))

    def pushed(self, total: Array, r: Any, D: Any) -> Array:
        """The total with a force on r and on the directors."""
        if self.number is None:
            return total
        i = SIZE * self.number
        return total.at[i : i + SIZE].add(jnp.concatenate([r, D.ravel()]).astype(total.dtype))

    def forced(self, total: Array, X: np.ndarray, F: Any) -> Array:
        """The total with a force F at the point X added to it."""
        return self.pushed(total, F, jnp.outer(X, F))

    def turned(self, total: Array, q: Array, τ: Any) -> Array:
        """The total with a torque τ added to it."""
        return self.pushed(total, jnp.zeros(3), 0.5 * jnp.cross(τ, self.pose(q).D))

    def rates(self, q: Array, v: Array) -> Any:
        """The angular velocity in space."""
        return 0.5 * jnp.sum(jnp.cross(self.pose(q).D, self.pose(v, STILL).D), axis=0)


@dataclasses.dataclass(frozen=True, eq=False)
class Joint:
    """A joint between two bodies, named; None is the ground.

    Parameters
    ----------
    a, b : str or None
        The names of the bodies.
    at : sequence of 3 numbers
        Where it is at the start, in space.
    """

    a: str | None
    b: str | None
    at: Any = (0.0, 0.0, 0.0)

    def rows(self, sides: tuple[Side, Side]) -> tuple[tuple[str, ...], Callable[[Array], list[Any]]]:
        """The names of its constraints, and what must vanish."""
        raise NotImplementedError

    is_linked: ClassVar[bool] = False

    def link(self, sides: tuple[Side, Side], q: Array, v: Array) -> Array:
        """The force or torque (3,) of its spring and damper on b; only where it `is_linked`."""
        raise NotImplementedError

    def linked(self, sides: tuple[Side, Side], total: Array, q: Array, s: Array) -> Array:
        """The forces with such a force on b, and back on a."""
        raise NotImplementedError

    def channels(self, sides: tuple[Side, Side]) -> list[Callable[[Array], Array]]:
        """The forces of its noise, one per channel."""
        return []

    def _points(self, sides: tuple[Side, Side]) -> Callable[[Array], Any]:
        """What is between its points on the two bodies."""
        place = vector(f"{type(self).__name__}: at", self.at)
        X, Y = (side.point(place) for side in sides)
        return lambda q: sides[1].pose(q).point(Y) - sides[0].pose(q).point(X)

    def _products(self, sides: tuple[Side, Side], pairs: Sequence[tuple[Any, Any]]) -> Callable[[Array], list[Any]]:
        """The products of directions of the one body with directions of the other."""
        fixed = [(sides[0].along(e), sides[1].along(f)) for e, f in pairs]
        return lambda q: [sides[0].pose(q).along(e) @ sides[1].pose(q).along(f) for e, f in fixed]


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Spherical(Joint):
    """A ball joint: one point of both bodies is the same."""

    def rows(self, sides):
        between = self._points(sides)
        return ("x", "y", "z"), lambda q: list(between(q))


@dataclasses.dataclass(frozen=True, eq=False)
class _About(Joint):
    """A joint about an axis, with a spring, a damper and a white torque about it.

    Parameters
    ----------
    a, b, at
        As for every joint.
    axis : sequence of 3 numbers
        Its direction at the start.
    stiffness, damping : float
        Of a spring that is at rest at the start, and of a damper, about the axis.
    noise : float
        The strength of a white torque about the axis, on b and back on a.
    """

    axis: Any = (0.0, 0.0, 1.0)
    stiffness: float = 0.0
    damping: float = 0.0
    noise: float = 0.0

    def _axis(self) -> np.ndarray:
        return direction(f"{type(self).__name__}: axis", self.axis)

    def _aligned(self, sides: tuple[Side, Side]) -> Callable[[Array], list[Any]]:
        axis = self._axis()
        return self._products(sides, [(axis, first) for first in across(axis)])

    def angle(self, sides: tuple[Side, Side], q: Array) -> Array:
        """By how much b is turned about the axis since the start, between -π and π."""
        first, second = across(self._axis())
        e, f, g = (
            side.along(u) for side, u in zip((sides[0], sides[0], sides[1]), (first, second, first), strict=True)
        )
        turned = sides[1].pose(q).along(g)
        return jnp.arctan2(sides[0].pose(q).along(f) @ turned, sides[0].pose(q).along(e) @ turned)

    @property
    def is_linked(self) -> bool:  # type: ignore[override]
        return bool(self.stiffness or self.damping)

    def link(self, sides, q, v):
        axis = sides[0].pose(q).along(sides[0].along(self._axis()))
        torque = -self.damping * axis @ (sides[1].rates(q, v) - sides[0].rates(q, v))
        if self.stiffness:
            torque = torque - self.stiffness * self.angle(sides, q)
        return torque * axis

    def linked(self, sides, total, q, s):
        return sides[0].turned(sides[1].turned(total, q, s), q, -s)

    def channels(self, sides):
        if not self.noise:
            return []

        def push(q):
            torque = self.noise * sides[0].pose(q).along(sides[0].along(self._axis()))
            return self.linked(sides, jnp.zeros_like(q), q, torque)

        return [push]


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Revolute(_About):
    __doc__ = (_About.__doc__ or "").replace("A joint about an axis", "A hinge: the bodies turn about a common axis", 1)

    def rows(self, sides):
        between, aligned = self._points(sides), self._aligned(sides)
        return ("x", "y", "z", "turn1", "turn2"), lambda q: [*between(q), *aligned(q)]


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Cylindrical(_About):
    __doc__ = (_About.__doc__ or "").replace(
        "A joint about an axis", "A pin: b turns about an axis and slides along it", 1
    )

    def rows(self, sides):
        between, aligned = self._points(sides), self._aligned(sides)
        fixed = [sides[0].along(u) for u in across(self._axis())]
        return ("side1", "side2", "turn1", "turn2"), lambda q: [
            *(between(q) @ sides[0].pose(q).along(u) for u in fixed), *aligned(q)]  # fmt: skip


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Fixed(Joint):
    """A weld: the bodies move as one."""

    def rows(self, sides):
        between, square = self._points(sides), self._products(sides, TURNS)
        return ("x", "y", "z", "turn1", "turn2", "turn3"), lambda q: [*between(q), *square(q)]


TURNS = tuple((np.eye(3)[i], np.eye(3)[j]) for i, j in ((0, 1), (1, 2), (2, 0)))


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Prismatic(Joint):
    """A slide: b moves along an axis of a, and does not turn against it.

    Parameters
    ----------
    a, b, at
        As for every joint.
    axis : sequence of 3 numbers
        Its direction at the start.
    """

    axis: Any = (1.0, 0.0, 0.0)

    def rows(self, sides):
        between, square = self._points(sides), self._products(sides, TURNS)
        fixed = [sides[0].along(u) for u in across(direction("Prismatic: axis", self.axis))]
        return ("side1", "side2", "turn1", "turn2", "turn3"), lambda q: [
            *(between(q) @ sides[0].pose(q).along(u) for u in fixed), *square(q)]  # fmt: skip


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Universal(Joint):
    """A cross (Cardan's joint): an axis of a and an axis of b meet at a right angle.

    Parameters
    ----------
    a, b, at
        As for every joint.
    axes : two sequences of 3 numbers
        The axis of a and the axis of b at the start.
    """

    axes: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))

    def rows(self, sides):
        e, f = (direction("Universal: axes", axis) for axis in self.axes)
        if abs(e @ f) > ROUNDING:
            raise ValueError(f"Universal: axes: expected two at a right angle, got {self.axes!r}")
        between, product = self._points(sides), self._products(sides, [(e, f)])
        return ("x", "y", "z", "cross"), lambda q: [*between(q), *product(q)]


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Rod(Joint):
    """A massless rod between two points, of the length that they are apart at the start.

    Parameters
    ----------
    a, b : str or None
        The names of the bodies.
    at : two sequences of 3 numbers
        The point of a and the point of b at the start.
    """

    at: Any = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))

    def rows(self, sides):
        between, length = ends(self, sides)
        return ("length",), lambda q: [0.5 * (jnp.sum(between(q)[0] ** 2) - length**2)]


def ends(joint: Any, sides: tuple[Side, Side]) -> tuple[Callable[[Array], tuple[Any, Any, Any]], float]:
    """What is between the two points of a rod or spring, with both points as their bodies see them; the length at the
    start."""
    kind = type(joint).__name__
    places = [vector(f"{kind}: at", place) for place in joint.at]
    if len(places) != 2:
        raise ValueError(f"{kind}: at: expected two places, of a and of b, got {joint.at!r}")
    length = float(np.linalg.norm(places[1] - places[0]))
    if not length > 0:
        raise ValueError(f"{kind}: at: expected two places apart from each other, got {joint.at!r}")
    X, Y = (side.point(place) for side, place in zip(sides, places, strict=True))
    return lambda q: (sides[1].pose(q).point(Y) - sides[0].pose(q).point(X), X, Y), length


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Spring(Joint):
    """A spring with a damper between two points.

    Parameters
    ----------
    a, b : str or None
        The names of the bodies.
    at : two sequences of 3 numbers
        The point of a and the point of b at the start.
    stiffness, damping : float
        Of the spring, and of the damper along it.
    length : float, optional
        Its length without force; that at the start by default.
    noise : float
        The strength of a white force along it.
    """

    at: Any = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    stiffness: float = 0.0
    damping: float = 0.0
    length: float | None = None
    noise: float = 0.0

    def rows(self, sides):
        return (), lambda q: []

    def energy(self, sides: tuple[Side, Side], q: Array) -> Any:
        between, length = ends(self, sides)
        d = between(q)[0]
        return 0.5 * self.stiffness * (jnp.sqrt(d @ d) - (length if self.length is None else self.length)) ** 2

    @property
    def is_linked(self) -> bool:  # type: ignore[override]
        return bool(self.stiffness or self.damping)

    def link(self, sides, q, v):
        between, length = ends(self, sides)
        d, X, Y = between(q)
        size = jnp.sqrt(d @ d)
        along = d / size
        rate = along @ (sides[1].pose(v, STILL).point(Y) - sides[0].pose(v, STILL).point(X))
        F = self.stiffness * (size - (length if self.length is None else self.length)) + self.damping * rate
        return -F * along

    def linked(self, sides, total, q, s):
        _, X, Y = ends(self, sides)[0](q)
        return sides[0].forced(sides[1].forced(total, Y, s), X, -s)

    def channels(self, sides):
        if not self.noise:
            return []
        between, _ = ends(self, sides)

        def push(q):
            d = between(q)[0]
            return self.linked(sides, jnp.zeros_like(q), q, self.noise * d / jnp.sqrt(d @ d))

        return [push]


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Force:
    """A force at a point of a body, with white noise: (force + noise ξ).

    Parameters
    ----------
    body : str
        The name of the body.
    at : sequence of 3 numbers
        The point at the start, in space.
    force, noise : sequence of 3 numbers
        The steady force and the strength of the noise, of one channel.
    follows : bool
        Whether their directions turn with the body.
    """

    body: str
    at: Any = (0.0, 0.0, 0.0)
    force: Any = (0.0, 0.0, 0.0)
    noise: Any = (0.0, 0.0, 0.0)
    follows: bool = False

    def acting(self, side: Side, q: Array, total: Array, F: np.ndarray) -> Array:
        X = side.point(vector("Force: at", self.at))
        return side.forced(total, X, side.pose(q).along(side.along(F)) if self.follows else jnp.asarray(F))


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Torque:
    """A torque on a body, with white noise: (torque + noise ξ).

    Parameters
    ----------
    body : str
        The name of the body.
    torque, noise : sequence of 3 numbers
        The steady torque and the strength of the noise, of one channel.
    follows : bool
        Whether their directions turn with the body.
    """

    body: str
    torque: Any = (0.0, 0.0, 0.0)
    noise: Any = (0.0, 0.0, 0.0)
    follows: bool = False

    @property
    def force(self) -> Any:
        return self.torque

    def acting(self, side: Side, q: Array, total: Array, τ: np.ndarray) -> Array:
        return side.turned(total, q, side.pose(q).along(side.along(τ)) if self.follows else jnp.asarray(τ))


@dataclasses.dataclass(frozen=True, eq=False)
class Mechanism(Mechanical):
    """Rigid bodies with joints between them, made by `mechanism`: a Mechanical of their centres and directors."""

    bodies: tuple[Body, ...] = ()
    parts: tuple[tuple[Any, tuple[Side, ...]], ...] = ()
    gravity: Any = None

    mostly_zeros: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def dropped(self) -> tuple[str, ...]:
        """The constraints that follow from others and were left out."""
        joints: Any = self.joints
        return tuple(name for name in self.constraint_names or () if name not in joints.names)

    def side(self, body: str) -> Side:
        return side_of("body", body, self.bodies)

    def point(self, body: str, at: Any) -> Callable[[Any, Array], Array]:
        """A function (t, x) for Observable: where a point of a body is, given by its place at the start."""
        side = self.side(body)
        X = side.point(vector("at", at))
        return lambda t, x: side.pose(x).point(X)

    def rates(self, body: str) -> Callable[[Any, Array], Array]:
        """A function (t, x) for Observable: the angular velocity of a body about its own axes."""
        side = self.side(body)
        return lambda t, x: side.pose(x).D @ side.rates(x[: self.N], x[self.N : 2 * self.N])

    def momentum(self, t: Any, x: Array) -> Array:
        """The angular momentum of all bodies about the origin, in space: a function for Observable."""
        total = jnp.zeros(3)
        for i, body in enumerate(self.bodies):
            side = Side(i, body)
            (r, D), (v, W) = side.pose(x[: self.N]), side.pose(x[self.N : 2 * self.N], STILL)
            total = total + body.mass * jnp.cross(r, v) + jnp.sum(jnp.cross(D, body.tensor @ W), axis=0)
        return total

    def energy(self, t: Any, x: Array) -> Array:
        """Kinetic and potential energy, of gravity and springs: a function for Observable."""
        q, v = x[: self.N], x[self.N : 2 * self.N]
        mass = jnp.asarray(self.mass_matrix)
        total = 0.5 * v @ (mass @ v)
        for i, body in enumerate(self.bodies):
            total = total - body.mass * jnp.asarray(self.gravity) @ Side(i, body).pose(q).r
        for part, sides in self.parts:
            if isinstance(part, Spring):
                total = total + part.energy(sides, q)  # type: ignore[arg-type]
            elif isinstance(part, _About):
                total = total + 0.5 * part.stiffness * part.angle(sides, q) ** 2  # type: ignore[arg-type]
        return total

    def force_at(self, body: str, at: Any, along: Any) -> Callable[[Any, Array, Array], Array]:
        """Γ of a force along a direction in space at a point of a body: `into` of with_noise, for coloured noise."""
        side, F = self.side(body), vector("along", along)
        X = side.point(vector("at", at))
        return lambda t, x, v: side.forced(jnp.zeros_like(x), X, jnp.asarray(F))[:, None]

    def torque_on(self, body: str, along: Any) -> Callable[[Any, Array, Array], Array]:
        """Γ of a torque along a direction in space on a body: `into` of with_noise, for coloured noise."""
        side, τ = self.side(body), vector("along", along)
        return lambda t, x, v: side.turned(jnp.zeros_like(x), x, jnp.asarray(τ))[:, None]


def side_of(what: str, name: str | None, bodies: Sequence[Body]) -> Side:
    """The side of a joint that is a body, by its name, or the ground."""
    if name is None:
        return Side(None, None)
    names = [body.name for body in bodies]
    if name not in names:
        raise ValueError(
            f"{what}: there is no body {name!r}; the bodies are {', '.join(names)}{suggestion(name, names)}; None is "
            "the ground"
        )
    return Side(names.index(name), bodies[names.index(name)])


@checks_arguments
def mechanism(
    bodies: Sequence[Body], joints: Sequence[Joint] = (), forces: Sequence[Force | Torque] = (), *,
    gravity: Any = (0.0, 0.0, 0.0), redundant: str = "drop", impulses: bool = False,
) -> Mechanism:  # fmt: skip
    """Put rigid bodies together to a mechanical system, which the methods for joints step.

    Parameters
    ----------
    bodies : sequence of Body
        The bodies, as they are at the start.
    joints : sequence of Revolute, Spherical, Prismatic, Cylindrical, Universal, Fixed, Rod, Spring
        What is between two bodies, or a body and the ground.
    forces : sequence of Force, Torque
        Forces and torques on bodies, steady and with white noise.
    gravity : sequence of 3 numbers
        The acceleration of gravity.
    redundant : "drop" or "refuse"
        What to do with constraints that follow from others, as in closed loops of parallel hinges: leave them out
        (`problem.dropped` names them), or refuse.
    impulses : bool
        Whether a run also shows the impulses of the constraints.

    Returns
    -------
    Mechanism
        A Mechanical; `problem.diagnose()` counts its degrees of freedom.

    Raises
    ------
    ValueError
        If there is no such body, or a joint does not fit.

    Examples
    --------
    >>> import stodyn as sd
    >>> arm = sd.bodies.Body(name="arm", mass=1.0, inertia=(0.1, 0.1, 0.02), at=(0.0, 0.0, -0.5))
    >>> pendulum = sd.bodies.mechanism([arm], [sd.bodies.Revolute(None, "arm", axis=(0.0, 1.0, 0.0))],
    ...                                gravity=(0.0, 0.0, -9.81))
    >>> pendulum.diagnose().degrees
    1
    """
    bodies = tuple(bodies)
    names = [body.name for body in bodies]
    if not bodies or len(set(names)) < len(names):
        raise ValueError(f"bodies: expected one or more with different names, got {names}")
    g = vector("gravity", gravity)
    parts = tuple((joint, _sides(joint, bodies)) for joint in joints)
    acting = tuple((force, side_of(type(force).__name__, force.body, bodies)) for force in forces)
    labels, rows = _constraints(bodies, parts)
    weight = np.concatenate([np.concatenate([body.mass * g, np.zeros(9)]) for body in bodies])

    linked = [(part, sides) for part, sides in parts if part.is_linked]

    def links(t, x, v):
        return jnp.concatenate([part.link(sides, x, v) for part, sides in linked])

    def total(t, x, v, s=()):
        force = jnp.asarray(weight, x.dtype)
        for k, (part, sides) in enumerate(linked):
            force = part.linked(sides, force, x, s[3 * k : 3 * k + 3])
        for push, side in acting:
            if np.any(push.force):
                force = push.acting(side, x, force, vector("force", push.force))
        return force

    channels = [channel for part, sides in parts for channel in part.channels(sides)]
    for push, side in acting:
        if np.any(push.noise):
            strength = vector("noise", push.noise)
            channels.append(functools.partial(_noise_of, push, side, strength))

    def noise(t, x, v):
        return jnp.stack([channel(x) for channel in channels], axis=1)

    places, speeds = ([getattr(body, name) for body in bodies] for name in ("start", "start_velocity"))
    start = tuple(np.concatenate([np.concatenate([p.r, p.D.ravel()]) for p in poses]) for poses in (places, speeds))
    blocks = [np.kron(body.tensor, np.eye(3)) for body in bodies]
    mass = scipy.linalg.block_diag(*(part for body, E in zip(bodies, blocks, strict=True)
                                     for part in (body.mass * np.eye(3), E)))  # fmt: skip
    diagonal = np.diagonal(mass)
    force = LinkedForce(links, total) if linked else lambda t, x, v: total(t, x, v)
    return Mechanism(
        force, noise if channels else None, start, diagonal if np.array_equal(mass, np.diag(diagonal)) else mass,
        names=[f"{name}_{i}{c}" for name in names for i in ("", "1", "2", "3") for c in "xyz"],
        constraints=_polynomial(rows, len(start[0])), constraint_names=labels,
        redundant=redundant, impulses=impulses, bodies=bodies, parts=parts, gravity=tuple(g),
    )  # fmt: skip


def _noise_of(push: Any, side: Side, strength: np.ndarray, q: Array) -> Array:
    return push.acting(side, q, jnp.zeros_like(q), strength)


def _sides(joint: Any, bodies: tuple[Body, ...]) -> tuple[Side, Side]:
    kind = type(joint).__name__
    if joint.a == joint.b:
        raise ValueError(f"{kind}: a, b: both are {joint.a!r}; expected two bodies, or a body and None, the ground")
    return side_of(f"{kind}: a", joint.a, bodies), side_of(f"{kind}: b", joint.b, bodies)


def _constraints(bodies: tuple[Body, ...], parts: Any) -> tuple[list[str], list[Callable[[Array], list[Any]]]]:
    """The names of all constraints, and the functions that give what must vanish."""
    labels: list[str] = []
    rows: list[Callable[[Array], list[Any]]] = []
    for number, body in enumerate(bodies):
        labels += [f"{body.name}_d{i + 1}d{j + 1}" for i, j in PAIRS]
        rows.append(functools.partial(_rigid, Side(number, body)))
    for joint, sides in parts:
        own, row = joint.rows(sides)
        name = f"{type(joint).__name__.lower()}_{joint.a or 'ground'}_{joint.b or 'ground'}"
        count = sum(label.startswith(f"{name}_") for label in labels)
        labels += [f"{name}_{label}{count or ''}" for label in own]
        rows.append(row)
    return labels, rows


def _polynomial(rows: list[Callable[[Array], list[Any]]], N: int) -> Callable[[Any, Array], Array]:
    """All constraints as one polynomial of the second degree, whose trace is short: its coefficients are read off."""
    units = np.eye(N)
    pairs = np.array([(i, j) for i in range(N) for j in range(i + 1, N)])
    points = np.concatenate([np.zeros((1, N)), units, -units, units[pairs[:, 0]] + units[pairs[:, 1]]])
    with jax.enable_x64(True):
        values = at_points(lambda q: jnp.stack([value for row in rows for value in row(q)]), points)
    zero, ahead, behind, both = np.split(values, (1, 1 + N, 1 + 2 * N))
    squares, slopes = 0.5 * (ahead + behind) - zero, 0.5 * (ahead - behind)
    mixed = both - ahead[pairs[:, 0]] - ahead[pairs[:, 1]] + zero
    terms = np.concatenate([zero, slopes, squares, mixed])  # of 1, q_i, q_i², q_i q_j, for q_N = 1
    own = np.arange(N)
    left, right = np.concatenate([[[N, N]], np.stack([own, np.full(N, N)], 1), np.stack([own, own], 1), pairs]).T
    terms = np.where(np.abs(terms) > ROUNDING * np.abs(terms).max(axis=0), terms, 0.0)
    places, row = np.nonzero(terms)
    left, right, terms, c = left[places], right[places], terms[places, row], terms.shape[1]

    def constraints(t, x):
        q = jnp.concatenate([x, jnp.ones(1, x.dtype)])
        return jnp.zeros(c, x.dtype).at[row].add(jnp.asarray(terms, x.dtype) * q[left] * q[right])

    return constraints


def _rigid(side: Side, q: Array) -> list[Any]:
    D = side.pose(q).D
    return [0.5 * (D[i] @ D[i] - 1.0) if i == j else D[i] @ D[j] for i, j in PAIRS]
