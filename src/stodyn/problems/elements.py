"""Nonlinear elements between two coordinates of a structure, or a coordinate and the ground.

With the stretch d = x_at - x_to and its rate w, an element pulls `at` back by F and `to` forwards by F:

    Gap         F = k max(d - gap, 0), on both sides where asked
    PowerDamper F = c w (w² + s²)^((a-1)/2), that is c |w|^a sign w but for rates below s
    Friction    F = f tanh(w/s)
    Coulomb     F in f Sign(w), any value from -f to f where w = 0
    BoucWen     F = α k d + (1 - α) k z,   z' = A w - β |w| |z|^(n-1) z - γ w |z|^n

z is a state of its own: a structure with such elements is a Hysteretic problem, of (x, v, z). Where d is a function of
the coordinates, such as the angle of a hinge, an element pulls with -F ∂d/∂x.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn import listing
from stodyn.arguments import checks_arguments, suggestion
from stodyn.problems.calling import call
from stodyn.problems.contract import component_names, conversions, returned_shape
from stodyn.problems.driven_mechanical import fields_of, synchronised, with_own_params
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.slips import Slip, pulled_at, stretch_at
from stodyn.problems.stops import Stop, parted, with_stops

__all__ = ["BoucWen", "Coulomb", "Element", "Friction", "Gap", "PowerDamper", "with_elements"]
__dir__ = listing.names_of(__name__)

ROUNDS = 6  # of Newton's method for z at the end of a step: it is piecewise linear for n = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Element:
    """An element between the coordinates `at` and `to`, by name or number; to=None is the ground.

    at may also be a function d(x) of all coordinates, the stretch itself, written with jax.numpy.
    """

    at: str | int | Callable
    to: str | int | None = None

    def force(self, d: Any, w: Any) -> Any:
        """F at a stretch d and its rate w; for BoucWen, without z."""
        raise NotImplementedError

    def _check(self, **positive: float) -> None:
        for name, value in positive.items():
            if not (isinstance(value, (int, float, np.number)) and math.isfinite(value) and value > 0):
                raise ValueError(f"{type(self).__name__}: {name}: expected a number > 0, got {value!r}")


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Gap(Element):
    """A stop: a spring that acts where the stretch d = x_at - x_to exceeds a gap.

    Methods of the α family with order=1.0 keep the energy of a body that meets it, however stiff it is. They warn where
    a body crosses the way between two stops too often in a step. Others warn where their steps are too long for it, and
    are refused where they would multiply the energy.

    Parameters
    ----------
    at, to : str, int or None
        The coordinates, by name or number; to=None is the ground.
    stiffness : float
        The stiffness of the spring, > 0.
    gap : float
        The stretch at which it begins to act.
    both : bool
        Whether it also acts below -gap.
    """

    stiffness: float
    gap: float = 0.0
    both: bool = False

    def __post_init__(self):
        self._check(stiffness=self.stiffness)
        if not (math.isfinite(self.gap) and (self.gap >= 0 or not self.both)):
            raise ValueError(
                f"Gap: gap: expected a finite number, not negative where it is on both sides, got {self.gap!r}"
            )

    def force(self, d, w):
        return self._between(0, None).force(d)

    def _between(self, at: Any, to: int | None) -> Stop:
        if callable(at):
            raise ValueError(
                "Gap: at: a stop acts between coordinates; give their names, or write the force of a stop on a "
                "function of them into force"
            )
        return Stop(self.stiffness, self.gap, self.both, at, to)


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class PowerDamper(Element):
    """A damper of the force c |w|^exponent sign w, w the rate of the stretch.

    Parameters
    ----------
    at, to : str, int, function or None
        The coordinates, by name or number; to=None is the ground. Or the stretch as a function at(x).
    c, exponent : float
        Both > 0.
    smooth : float
        The rate below which the damper is linear; exponents below 1 need it.
    """

    c: float
    exponent: float
    smooth: float = 0.0

    def __post_init__(self):
        self._check(c=self.c, exponent=self.exponent)
        if not (math.isfinite(self.smooth) and self.smooth >= 0):
            raise ValueError(f"PowerDamper: smooth: expected a rate >= 0, got {self.smooth!r}")
        if self.exponent < 1 and self.smooth == 0:
            raise ValueError(
                f"PowerDamper: smooth: with the exponent {self.exponent:g} the slope at rest is infinite; give the "
                "rate below which the damper is linear, small against those of the motion"
            )

    def force(self, d, w):
        if self.smooth == 0:
            return self.c * w if self.exponent == 1 else self.c * w * jnp.abs(w) ** (self.exponent - 1.0)
        return self.c * w * (w**2 + self.smooth**2) ** (0.5 * (self.exponent - 1.0))


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Friction(Element):
    """Dry friction, regularised: slip tanh(w/speed), w the rate of the stretch.

    Parameters
    ----------
    at, to : str, int, function or None
        The coordinates, by name or number; to=None is the ground. Or the stretch as a function at(x).
    slip : float
        The force at which it slips, > 0.
    speed : float
        The rate below which it creeps instead of sticking, > 0.
    """

    slip: float
    speed: float

    def __post_init__(self):
        self._check(slip=self.slip, speed=self.speed)

    def force(self, d, w):
        return self.slip * jnp.tanh(w / self.speed)


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Coulomb(Element):
    """Dry friction that sticks: the force `slip` against the motion, and at rest any force up to it that keeps it.

    Methods of the α family with order=1.0, and RattleAlpha beside joints, solve for the force with the step: a body
    that rests does not creep. Other methods refuse it.

    Parameters
    ----------
    at, to : str, int, function or None
        The coordinates, by name or number; to=None is the ground. Or the stretch as a function at(x).
    slip : float
        The force at which it slips, > 0.
    belt : float or function belt(t)
        The rate of the ground (or of `to`) itself, as of a belt under a block.
    """

    slip: float
    belt: Any = 0.0

    def __post_init__(self):
        self._check(slip=self.slip)
        if not callable(self.belt) and not (
            isinstance(self.belt, (int, float, np.number)) and math.isfinite(self.belt)
        ):
            raise ValueError(f"Coulomb: belt: expected a rate or a function of t, got {self.belt!r}")

    def force(self, d, w):
        return self.slip * jnp.sign(w)


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class BoucWen(Element):
    """A hysteretic spring: F = α k d + (1 - α) k z, z' = A w - β |w| |z|^(n-1) z - γ w |z|^n; |z| <= (A/(β+γ))^(1/n).

    Parameters
    ----------
    at, to : str, int, function or None
        The coordinates, by name or number; to=None is the ground. Or the stretch as a function at(x).
    stiffness : float
        k, the stiffness before yielding, > 0.
    alpha : float
        The ratio of the stiffness after yielding to k, from 0 to 1.
    beta, gamma, n, A : float
        The shape of the loop, with -beta < gamma <= beta and n >= 1.
    """

    stiffness: float
    alpha: float
    A: float = 1.0
    beta: float = 0.5
    gamma: float = 0.5
    n: float = 1.0

    def __post_init__(self):
        self._check(stiffness=self.stiffness, A=self.A, beta=self.beta)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"BoucWen: alpha: expected the ratio of stiffnesses, from 0 to 1, got {self.alpha!r}")
        if not (math.isfinite(self.gamma) and -self.beta < self.gamma <= self.beta):
            raise ValueError(
                f"BoucWen: gamma: expected -beta < gamma <= beta (here beta is {self.beta!r}), so that z stays bounded "
                f"and the element takes up energy, got {self.gamma!r}"
            )
        if not (math.isfinite(self.n) and self.n >= 1):
            raise ValueError(f"BoucWen: n: expected a number >= 1, got {self.n!r}")

    @property
    def bound(self) -> float:
        """The largest |z| that a motion reaches from z = 0."""
        return (self.A / (self.beta + self.gamma)) ** (1.0 / self.n)

    def force(self, d, w):
        return self.alpha * self.stiffness * d

    def rate(self, w, z):
        size = jnp.abs(z)
        return self.A * w - self.beta * jnp.abs(w) * _power(size, self.n - 1.0) * z - self.gamma * w * size**self.n

    def slope(self, w, z):
        """The derivative ∂rate/∂z."""
        size = _power(jnp.abs(z), self.n - 1.0)
        return -self.n * size * (self.beta * jnp.abs(w) + self.gamma * w * jnp.sign(z))

    def after(self, z, r, w, h):
        """z' = z + h (r + rate(w, z'))/2 at the end of a step, by Newton's method from z."""
        root = z
        for _ in range(ROUNDS):
            off = root - z - 0.5 * h * (r + self.rate(w, root))
            root = root - off / (1.0 - 0.5 * h * self.slope(w, root))
        return root


def _power(size: Any, exponent: float) -> Any:
    """size**exponent for size >= 0 and exponent >= 0; its derivative at 0 is 0 where the true one is infinite."""
    if exponent == 0:
        return 1.0
    if exponent >= 1:
        return size**exponent
    away = size > 0
    return jnp.where(away, jnp.where(away, size, 1.0) ** exponent, 0.0)


@checks_arguments
def with_elements(problem: Mechanical, *elements: Element, names: Sequence[str] | None = None) -> Mechanical:
    """Put nonlinear elements between the coordinates of a structure.

    Parameters
    ----------
    problem : Mechanical
        With or without constraints.
    elements : Gap, PowerDamper, Friction, Coulomb, BoucWen
        The elements; `at` and `to` of each name the coordinates it connects. A linear spring belongs to the force or
        the stiffness matrix of the problem.
    names : sequence of str, optional
        The names of the hysteretic variables of BoucWen elements, which are components of a run; "z0", "z1", ... by
        default.

    Returns
    -------
    Mechanical
        With BoucWen elements a Hysteretic one: methods of the α family step it with their order 1.0, all others take it
        as an SDE of (x, v, z). Its forces are not smooth: expect strong order 1.

    Raises
    ------
    ValueError
        If an element names an unknown coordinate, or connects one with itself.

    Examples
    --------
    >>> import stodyn as sd
    >>> from stodyn.problems.elements import Gap
    >>> free = sd.Mechanical(lambda t, x, v: -x, None, start=([0.0], [1.0]))
    >>> stopped = sd.with_elements(free, Gap(at=0, stiffness=100.0, gap=0.5))
    """
    if isinstance(problem, Measured):
        around = problem.made_by
        raise TypeError(f"problem: add elements before {around}: {around}(with_elements(problem, ...), ...)")
    if not isinstance(problem, Mechanical) or problem.coloured is not None:
        raise TypeError("problem: expected a mechanical system; give it elements before it is driven by coloured noise")
    if not elements or not all(isinstance(element, Element) for element in elements):
        raise TypeError(
            f"elements: expected one or more of Gap, PowerDamper, Friction, Coulomb, BoucWen; got {elements!r}"
        )
    if problem.reduction is not None:
        raise ValueError(
            "problem: its coordinates are modes, but elements act at nodes; take the structure without modes="
        )
    placed = [(element, _place(problem, element)) for element in elements]
    own, stops = parted(problem.force)
    stops += tuple(element._between(*place) for element, place in placed if isinstance(element, Gap))
    dry = [(element, place) for element, place in placed if isinstance(element, Coulomb)]
    if dry:
        _check_slipping(problem)
    stops += tuple(Slip(element.slip, element.belt, place) for element, place in dry)
    smooth = [(element, place) for element, place in placed if not isinstance(element, (Gap, Coulomb))]

    def rest(t, x, v, params=None):
        total = jnp.atleast_1d(call(own, t, x, v, params=params))
        xs, vs = jnp.atleast_1d(x), jnp.atleast_1d(v)
        for element, place in smooth:
            total = pulled_at(total, xs, place, element.force(*stretch_at(place, xs, vs)))
        return jnp.reshape(total, jnp.shape(x))

    system = dataclasses.replace(problem, force=with_stops(rest if smooth else own, stops))
    hysteretic = [(element, place) for element, place in placed if isinstance(element, BoucWen)]
    if not hysteretic:
        return system
    default = ("z",) if len(hysteretic) == 1 else tuple(f"z{i}" for i in range(len(hysteretic)))
    return Hysteretic(**fields_of(system), system=system, hysteresis=tuple(hysteretic),
                      internal_names=component_names(names, default))  # fmt: skip


def _check_slipping(problem: Mechanical) -> None:
    """Refuse systems in which dry friction has no inertia to act on, or no acceleration to be shown."""
    if problem.accelerations:
        raise ValueError("accelerations: not available beside Coulomb, whose force is a mean over a step; leave it out")
    if not (problem.motion.is_regular if problem.joints is None else problem.joints.mass_is_regular):
        raise ValueError("mass: Coulomb needs inertia in every coordinate, but this mass is singular")


def _place(problem: Mechanical, element: Element) -> tuple[Any, int | None]:
    coordinates = problem.coordinates
    if callable(element.at):
        if element.to is not None:
            raise ValueError(f"{type(element).__name__}: to: at is the stretch itself; leave `to` out")
        x = np.atleast_1d(problem.example_pair[0])
        with jax.enable_x64(True):
            shape = returned_shape(problem, "at", element.at, ("x", x)).shape
        if shape != ():
            raise ValueError(f"{type(element).__name__}: at: returned shape {shape}, expected a number, the stretch")
        return element.at, None

    def number(name: str, place: Any) -> int:
        if isinstance(place, str):
            if place not in coordinates:
                kind = type(element).__name__
                raise ValueError(
                    f"{kind}: {name}: there is no coordinate {place!r}; the coordinates are {', '.join(coordinates)}"
                    f"{suggestion(place, coordinates)}"
                )
            return coordinates.index(place)
        if isinstance(place, bool) or not isinstance(place, (int, np.integer)) or not 0 <= place < problem.N:
            raise ValueError(
                f"{type(element).__name__}: {name}: expected a coordinate, 0 to {problem.N - 1}, got {place!r}"
            )
        return int(place)

    at, to = number("at", element.at), None if element.to is None else number("to", element.to)
    if at == to:
        raise ValueError(
            f"{type(element).__name__}: at, to: both are coordinate {at}; expected two, or to=None for the ground"
        )
    return at, to


@dataclasses.dataclass(frozen=True, eq=False)
class Hysteretic(Mechanical):
    """A mechanical system with hysteretic elements, made by `with_elements`; its state is (x, v, z).

    system          the same system with only the elastic parts of these elements
    hysteresis      the BoucWen elements and where they are
    internal_names  the names of z
    """

    system: Any = None
    hysteresis: tuple = ()  # type: ignore[misc]
    internal_names: tuple[str, ...] = ()

    def __post_init__(self):
        super().__post_init__()
        if self.accelerations:
            raise ValueError("accelerations: not available for systems with hysteretic elements; leave it out")
        if not (self.motion.is_regular if self.joints is None else self.joints.mass_is_regular):
            raise ValueError("mass: hysteretic elements need inertia in every coordinate, but this mass is singular")

    @functools.cached_property
    def elastic(self) -> Mechanical:
        """The system without the hysteretic parts of its elements."""
        return synchronised(self)

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        names = (*super().components, *self.internal_names)
        return component_names(names, names)

    @property
    def component_units(self):
        return self.elastic.component_units

    @property
    def failure_advice(self) -> str:  # type: ignore[override]
        return (
            "It may be that a hysteretic variable left its bound (A/(β+γ))^(1/n) in a step that was too long for it: "
            "take shorter ones."
        )

    @property
    def facts(self):
        return self.elastic.facts._replace(force_on_v=True, linear_damping=False)

    def rates(self, x: Array, v: Array, z: Array) -> Array:
        """z' of each hysteretic element."""
        pairs = zip(self.hysteresis, z, strict=True)
        return jnp.stack([element.rate(stretch_at(place, x, v)[1], own) for (element, place), own in pairs])

    def after(self, z: Array, r: Array, x: Array, v: Array, h: Any) -> Array:
        """z at the end of a step from z with the rate r, where x and v are the position and velocity there."""
        each = zip(self.hysteresis, z, r, strict=True)
        return jnp.stack([element.after(own, at, stretch_at(place, x, v)[1], h) for (element, place), own, at in each])

    @functools.cached_property
    def given_z(self) -> Mechanical:
        """The system whose params are {"own": its params, "z", "r", "h"}: z at the start of a step of length h, and its
        rate there; the force is that at the end of such a step, or at its start where h is 0 or None."""

        own, stops = parted(self.force)

        def rest(t, x, v, inner_params):
            total, xs = jnp.atleast_1d(call(own, t, x, v, params=inner_params["own"])), jnp.atleast_1d(x)
            z, h = inner_params["z"], inner_params["h"]
            z = z if h is None else self.after(z, inner_params["r"], xs, jnp.atleast_1d(v), h)
            return jnp.reshape(self.pulled(total, xs, z), jnp.shape(x))

        nothing = np.zeros(len(self.hysteresis))
        inner_params = {"own": self.params, "z": nothing, "r": nothing, "h": 0.0}
        force, noise, mass = with_stops(rest, stops), with_own_params(self.noise), with_own_params(self.mass)
        changed = {"force": force, "noise": noise, "mass": mass, "params": inner_params}
        if self.constraints is not None:
            changed["constraints"] = lambda t, x, inner_params: call(self.constraints, t, x, params=inner_params["own"])
        return Mechanical(**fields_of(self) | changed)

    def pulled(self, force: Array, x: Array, z: Array) -> Array:
        """The force plus the force of z."""
        for i, (element, place) in enumerate(self.hysteresis):
            force = pulled_at(force, x, place, (1.0 - element.alpha) * element.stiffness * z[i])
        return force

    # --- of first order -----------------------------------------------------------------------------------------------

    def f(self, t, x, params):
        """The drift of (x, v, z)."""
        N, z = self.N, x[self.elastic.n :]
        own = self.given_z.f(t, x, {"own": params, "z": z, "r": None, "h": None})
        return jnp.concatenate([own, jnp.zeros(self.elastic.n - 2 * N, x.dtype), self.rates(x[:N], x[N : 2 * N], z)])

    def g(self, t, x, params):
        own = super().g(t, x, params)
        return jnp.concatenate([own, jnp.zeros((self.n - 2 * self.N, self.m), x.dtype)])

    def noise_rows(self, t, x, params, components):
        rows = self.g(t, x, params)
        return tuple(rows[i] for i in components)

    def mean_rates(self, t, x, params, components):
        rates = self.f(t, x, params)
        return tuple(rates[i] for i in components)


def _to_sde(problem: Hysteretic) -> tuple[SDE, str] | None:
    """Return a system with hysteretic elements as an SDE of (x, v, z), None with joints; without noise it gets a
    channel of zeros."""
    if problem.joints is not None:
        return None
    q = len(problem.hysteresis)
    sde = SDE(
        problem.f,
        problem.g if problem.m else lambda t, x: jnp.zeros((2 * problem.N + q, 1), x.dtype),
        problem.start_source.mapped(lambda rows: np.pad(rows, ((0, 0), (0, q)))).argument,
        problem.params, "ito", problem.components, problem.component_units,
    )  # fmt: skip
    return sde, "Mechanical -> SDE of (x, v, z)"


conversions.update({(Hysteretic, SDE): _to_sde, (Hysteretic, SDAE): lambda problem: None})
