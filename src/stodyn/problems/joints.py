"""Joints: holonomic constraints g(t, q) = 0 of M dv = f dt + B dW - Gᵀ dΛ, dq = v dt, with G = ∂g/∂q.

q has a derivative, so that d(G v + g_t) = G dv + γ dt without a further term, γ the second derivative of g along
q' = v, q'' = 0. In either calculus, then,

    [M Gᵀ; G 0] (a, λ) = (f, -γ),    [M Gᵀ; G 0] (b, μ) = (B, 0),    dv = a dt + b dW,    dΛ = λ dt + μ dW,

which has a solution where G has full row rank and M is positive definite along the constraints; M itself may be
singular: M + s GᵀG gives the same a and b, and λ + s γ for λ. Λ(t) is a process without a derivative where μ is not
zero: the reaction at a time is then white noise, and only its impulses, or its means over a time, are numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.numerics import elimination
from stodyn.numerics.banded import Band, find_band
from stodyn.numerics.facts.dependence import arguments_of
from stodyn.numerics.newton import TABLED, newton
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.sparse import MOST_FULL, Elimination, Pattern, find_pattern, full_order, order_of
from stodyn.problems import joints_diagnosis
from stodyn.problems.calling import call, needed_names
from stodyn.problems.contract import MEANT, returned_shape
from stodyn.problems.inertia import Inertia
from stodyn.problems.joints_diagnosis import FAR, JointsDiagnosis

START_LIMIT = 50  # rounds of Newton onto the constraints from a start
SINGULAR = 1e-6  # the lowest singular value of the constraints, rows of length 1, at which a path has lost one of them


class Slopes:
    """The slopes of the constraints at one (t, q): G and C = M⁻¹ Gᵀ, and products with them.

    Where few coordinates enter each of many constraints, products are sums over the entries of G, and neither matrix
    is made unless it is asked for.
    """

    def __init__(self, joints: Joints, t: Any, q: Array, params: Any):
        self.joints = joints
        self.pattern = pattern = joints.pattern
        if pattern is None:
            self._G = joints.jacobian(t, q, params)
        else:
            self._entries = pattern.jacobian(lambda q: joints.value(t, q, params), q)
        self.inverse = joints.mass_inverse(t, q, params, lambda: self.G)
        if pattern is None:
            self._C = self.inverse(self._G.T)

    @property
    def G(self) -> Array:
        return self._G if self.pattern is None else self.pattern.dense(self._entries)

    @property
    def C(self) -> Array:
        return self._C if self.pattern is None else self.inverse(self.G.T)

    def across(self, w: Array) -> Array:
        """The product G w."""
        return self._G @ w if self.pattern is None else self.pattern.sums(self._entries, w)

    def pushed(self, λ: Array) -> Array:
        """The product C λ."""
        return self._C @ λ if self.pattern is None else self.inverse(self.pattern.transposed_sums(self._entries, λ))

    def times(self, other: Slopes) -> Array:
        """G C, (c, c), with C of other slopes."""
        if self.pattern is None:
            return self._G @ other._C
        return jax.jacfwd(lambda λ: self.across(other.pushed(λ)))(jnp.zeros(self.joints.c, self._entries.dtype))


class Frame(Slopes):
    """Slopes with A = G C factorised: what holds velocities and accelerations along the constraints."""

    def __init__(self, joints: Joints, t: Any, q: Array, params: Any):
        super().__init__(joints, t, q, params)
        order = joints.order
        self.solve: Callable[[Array], Array]
        if order is None:
            A = self.times(self)
            self.solve, self._squares = elimination.factorised(A, is_definite=True), jnp.diagonal(A)
        else:
            values = order.jacobian(lambda λ: self.across(self.pushed(λ)), jnp.zeros(joints.c, q.dtype))
            self.solve = order.factorised(values)
            if isinstance(order, Band):
                self._squares = values[order.width][np.argsort(order.order)]
            else:
                self._squares = values[np.flatnonzero(order.pattern.rows == order.pattern.columns)]

    def held(self, w: Array, rate: Array | float = 0.0) -> tuple[Array, Array]:
        """w - C λ with G (w - C λ) = -rate, and λ: of a velocity rate is g_t, of an acceleration γ."""
        λ = self.solve(self.across(w) + rate)
        return w - self.pushed(λ), λ

    def tangent(self, b: Array) -> Array:
        """The part of each column of b (N, m) along the constraints."""
        return jnp.stack([self.held(b[:, k])[0] for k in range(b.shape[1])], axis=1) if b.shape[1] else b

    @property
    def is_regular(self) -> Array | bool:
        """Whether the constraints are independent here, the rows of G M^(-1/2) taken with length 1: an inverse
        iteration from a fixed vector estimates their lowest singular value."""
        c = self.joints.c
        if c == 1:
            return True
        length = jnp.sqrt(self._squares)
        r = jnp.asarray(np.cos(1.0 + 2.4 * np.arange(c)), length.dtype)
        return jnp.max(jnp.abs(length * self.solve(length * r))) <= SINGULAR**-2


@dataclasses.dataclass(frozen=True, eq=False)
class Joints:
    """The constraints of a mechanical problem, and its equations with them; for one path.

    names   of the constraints that are kept; rows: their numbers among the values of the user's function
    """

    problem: Any
    names: tuple[str, ...]
    rows: tuple[int, ...]

    failure_advice: ClassVar[str] = (
        "With constraints a step finds no solution where it is longer than the joints bend, h |v| > R on a circle of "
        "radius R (take shorter steps); where the mechanism reaches a singular configuration, in which constraints "
        f"become dependent and the motion may branch; and where a start is farther than {FAR:.0%} of |x| from the "
        "constraints."
    )

    @property
    def c(self) -> int:
        return len(self.rows)

    @functools.cached_property
    def free(self) -> Any:
        """The problem without constraints."""
        return dataclasses.replace(
            self.problem, constraints=None, constraint_names=None, redundant="refuse", impulses=False, units=None
        )

    # --- the constraints ----------------------------------------------------------------------------------------------

    def value(self, t: Any, q: Array, params: Any) -> Array:
        """The constraints g, (c,)."""
        values = jnp.ravel(jnp.asarray(call(self.problem.constraints, t, q, params=params), q.dtype))
        return values if len(values) == self.c else values[np.asarray(self.rows)]

    def jacobian(self, t: Any, q: Array, params: Any) -> Array:
        """Their Jacobian G, (c, N)."""
        return jax.jacfwd(lambda q: self.value(t, q, params))(q)

    def rate(self, t: Any, q: Array, params: Any) -> Array:
        """Their partial derivative g_t by time, (c,)."""
        if not self.moves:
            return jnp.zeros(self.c, q.dtype)
        t = jnp.asarray(t, q.dtype)
        return jax.jvp(lambda t: self.value(t, q, params), (t,), (jnp.ones_like(t),))[1]

    def bend(self, t: Any, q: Array, v: Array, params: Any) -> Array:
        """γ, the second derivative of g along q' = v, q'' = 0, (c,)."""
        t = jnp.asarray(t, q.dtype)
        along = (jnp.ones_like(t), v) if self.moves else (jnp.zeros_like(t), v)

        def slope(t, q):
            return jax.jvp(lambda t, q: self.value(t, q, params), (t, q), along)[1]

        return jax.jvp(slope, (t, q), along)[1]

    @functools.cached_property
    def moves(self) -> bool:
        """Whether a constraint depends on time."""
        return 0 in self.reached(lambda t, q, v, p: self.value(t, q, p))

    # --- the mass -----------------------------------------------------------------------------------------------------

    def mass(self, t: Any, q: Array, params: Any) -> Array:
        """The mass M, (N, N)."""
        matrix, N = self.problem.mass_matrix, self.problem.N
        if callable(self.problem.mass):
            matrix = call(self.problem.mass, t, q, jnp.zeros_like(q), params=params)
        return jnp.eye(N, dtype=q.dtype) if matrix is None else jnp.reshape(jnp.asarray(matrix, q.dtype), (N, N))

    def mass_inverse(self, t: Any, q: Array, params: Any, slopes: Callable[[], Array]) -> Callable[[Array], Array]:
        """right (N,) or (N, k) -> M⁻¹ right; of a singular mass (M + s GᵀG)⁻¹ right, with G from slopes()."""
        if self.problem.mass is None:
            return lambda right: right
        if self.inertia is not None and self.inertia.is_regular:
            return self.inertia.solve
        solve = elimination.factorised(completed_mass(self, t, q, params, slopes), is_definite=True)
        return lambda right: (
            solve(right) if right.ndim == 1 else jnp.stack([solve(right[:, k]) for k in range(right.shape[1])], axis=1)
        )

    @functools.cached_property
    def inertia(self) -> Inertia | None:
        """A constant mass; None where it is 1 or depends on the state."""
        mass = self.problem.mass_matrix
        return None if mass is None else Inertia(mass)

    @functools.cached_property
    def mass_is_regular(self) -> bool:
        """Whether M can be solved with at the start."""
        if not callable(self.problem.mass):
            return self.inertia is None or self.inertia.is_regular
        M = self._look_at_start.M
        return bool(np.isfinite(M).all()) and Inertia(M).is_regular

    @functools.cached_property
    def stiffening(self) -> float:
        """s of M + s GᵀG, which makes both parts of one size at the start; 0 for a regular mass."""
        look = self._look_at_start
        return 0.0 if self.mass_is_regular else float(np.trace(look.M) / np.trace(look.G.T @ look.G))

    @functools.cached_property
    def _look_at_start(self) -> joints_diagnosis.JointValues:
        return joints_diagnosis.JointValues(*(part[0] for part in self.look(np.zeros(1), self._start[None])))

    @functools.cached_property
    def look(self) -> Callable[[np.ndarray, np.ndarray], joints_diagnosis.JointValues]:
        """(times (S,), coordinates (S, N)) -> the values there, with the parameters of one path."""
        return joints_diagnosis.values_at(self, self.problem.example_params())

    @property
    def _start(self) -> np.ndarray:
        return np.asarray(self.problem.start_source.example("start"), float)[: self.problem.N]

    @functools.cached_property
    def rounding_at_zero(self) -> float:
        """How far rounding may put a start at q = 0, which has no size of its own, from its constraints."""
        many = joints_diagnosis.STATES
        looked = joints_diagnosis.JointValues(*(np.stack([part] * many) for part in self._look_at_start))
        places = np.tile(self._start, (many, 1))
        return float(joints_diagnosis.rounding_of_distance(self, looked, np.zeros(many), places).max())

    def slopes(self, t: Any, q: Array, params: Any) -> Slopes:
        return Slopes(self, t, q, params)

    def frame(self, t: Any, q: Array, params: Any) -> Frame:
        return Frame(self, t, q, params)

    # --- the equations ------------------------------------------------------------------------------------------------

    def forces(self, t: Any, q: Array, v: Array, params: Any) -> Array:
        return jnp.reshape(jnp.asarray(call(self.problem.force, t, q, v, params=params), q.dtype), (self.problem.N,))

    def pushes(self, t: Any, q: Array, v: Array, params: Any) -> Array:
        """The noise matrix B, (N, m)."""
        shape = (self.problem.N, self.problem.m)
        if self.problem.noise is None:
            return jnp.zeros(shape, q.dtype)
        return jnp.reshape(jnp.asarray(call(self.problem.noise, t, q, v, params=params), q.dtype), shape)

    def accelerated(self, t: Any, q: Array, v: Array, params: Any) -> tuple[Array, Array]:
        """The accelerations a and the reactions λ."""
        frame, γ = self.frame(t, q, params), self.bend(t, q, v, params)
        a, λ = frame.held(frame.inverse(self.forces(t, q, v, params)), γ)
        return a, λ - self.stiffening * γ

    def acceleration(self, t: Any, q: Array, v: Array, params: Any) -> Array:
        return self.accelerated(t, q, v, params)[0]

    def kicked(self, t: Any, q: Array, v: Array, params: Any) -> tuple[Array, Array]:
        """b (N, m) and μ (c, m)."""
        frame, B = self.frame(t, q, params), self.pushes(t, q, v, params)
        if not self.problem.m:
            return B, jnp.zeros((self.c, 0), q.dtype)
        free = frame.inverse(B)
        pairs = [frame.held(free[:, k]) for k in range(self.problem.m)]
        return jnp.stack([b for b, _ in pairs], axis=1), jnp.stack([μ for _, μ in pairs], axis=1)

    def kicks(self, t: Any, q: Array, v: Array, params: Any) -> Array:
        return self.kicked(t, q, v, params)[0]

    def moved_onto(self, t: Any, q: Array, params: Any, tol: float, limit: int) -> tuple[Array, Any]:
        """q moved along M⁻¹Gᵀ to g(t, q) = 0, and Newton's report: a round with C at q, the others with C where it
        ends, which is as near as each with its own C but for the third power of the way."""
        frame = self.frame(t, q, params)
        q = q - frame.pushed(frame.solve(self.value(t, q, params)))
        there = self.slopes(t, q, params)
        zero = jnp.zeros(self.c, q.dtype)
        root = newton(lambda μ: self.value(t, q - there.pushed(μ), params), zero, tol=tol, limit=limit, **self.solver)
        return q - there.pushed(root.x), root

    def consistent(self, t: Any, q: Array, v: Array, params: Any) -> tuple[Array, Array]:
        """A start moved onto the constraints, the velocity onto their tangent; NaN where q moves more than FAR |q|."""
        on, root = self.moved_onto(t, q, params, 1e-14, START_LIMIT)
        reach = FAR * jnp.sqrt(jnp.sum(on**2))
        near = jnp.sqrt(jnp.sum((on - q) ** 2)) <= (reach if self._start.any() else reach + self.rounding_at_zero)
        on = jnp.where(root.ok & near, on, jnp.nan)
        return on, self.frame(t, on, params).held(v, self.rate(t, on, params))[0]

    def multiplier(self, t: Any, q: Array, v: Array, params: Any) -> Array:
        if self.noisy_reactions:
            raise ValueError(
                f"multiplier: the reaction of {', '.join(map(repr, self.noisy_reactions))} contains white noise, so "
                "that it has no value at a time: whatever is printed for it grows as the step falls. Ask for impulses "
                "with Mechanical(..., impulses=True), and for means over a time with statistics.Reaction(time)"
            )
        return self.accelerated(t, q, v, params)[1]

    @functools.cached_property
    def force_is_free_of_state(self) -> bool:
        """Whether M⁻¹ f depends on t and params alone."""
        return not self.reached(lambda t, q, v, p: self.free.acceleration(t, q, v, q[:0], p)) & {1, 2}

    # --- solving ------------------------------------------------------------------------------------------------------

    @property
    def solver(self) -> dict[str, Any]:
        """How Newton's systems for the multipliers of positions are solved, as options of newton."""
        if self.order is None:
            return {}
        order = self.order

        def solve(residual: Callable, u: jax.Array, right: jax.Array) -> jax.Array:
            return order.factorised(order.jacobian(residual, u))(right)

        return {"solve": solve, "linear": solve}

    @functools.cached_property
    def order(self) -> Band | Elimination | None:
        """The order in which G M⁻¹ Gᵀ of many constraints is eliminated: banded as that of a chain, or with few entries
        as that of a tree of bodies, or up to TABLED constraints as it is. None where they are few, or many more."""
        if self.c <= elimination.WRITTEN_OUT:
            return None

        def residual(x, q, t, params):
            slopes = self.slopes(t, q, params)
            return slopes.across(slopes.pushed(x))

        zero = np.zeros(self.c)
        with jax.enable_x64(True):
            band = find_band(residual, zero, *_example(self))
            if band is not None:
                return band
            try:
                sparse = order_of(residual, zero, *_example(self))
            except Unprintable:
                return None
        order = sparse or (full_order(self.c) if self.c <= TABLED else None)
        # Pivots on the diagonal are zero where the constraints depend on each other, and nowhere else.
        return None if order is None else dataclasses.replace(order, is_mended=False)

    @functools.cached_property
    def pattern(self) -> Pattern | None:
        """The places of G of a larger system where few are not zero; None otherwise."""
        N, c = self.problem.N, self.c
        if N + c <= elimination.WRITTEN_OUT:
            return None
        try:
            pattern = find_pattern(lambda q, t, p: self.value(t, q, p), *_example(self))
        except Unprintable:
            return None
        return pattern if len(pattern.rows) <= MOST_FULL * c * N else None

    # --- before a run -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def noisy_reactions(self) -> tuple[str, ...]:
        """The constraints whose reactions contain white noise: μ is not zero."""
        return self.diagnose(0.0).noisy

    def diagnose(self, t: float) -> JointsDiagnosis:
        return joints_diagnosis.diagnose(self, float(t))

    def before_run(self, t: float) -> tuple[str, ...]:
        return joints_diagnosis.checked(self, self.diagnose(t), t)

    def reached(self, function: Callable) -> set[int]:
        """Which of t (0), q (1), v (2), params (3) a function depends on; all where its trace cannot be taken apart."""
        q, t, params = _example(self)
        try:
            return arguments_of(function, t, q, np.zeros_like(q), params)
        except Unprintable:
            return {0, 1, 2, 3}


def _example(joints: Joints) -> tuple[np.ndarray, np.ndarray, Any]:
    """The coordinates, time and parameters of one start, for traces."""
    return joints._start, np.zeros(()), joints.problem.example_params()


def factorised(joints: Joints, A: Array) -> Callable[[Array], Array]:
    """r -> A⁻¹ r for a matrix with the pattern of G M⁻¹ Gᵀ."""
    if joints.order is not None:
        return joints.order.factorised(joints.order.jacobian(lambda x: A @ x, jnp.zeros(joints.c, A.dtype)))
    return elimination.factorised(A)


def completed_mass(joints: Joints, t: Any, q: Array, params: Any, slopes: Callable[[], Array]) -> Array:
    """M, of a singular mass M + s GᵀG, with G from slopes()."""
    M = joints.mass(t, q, params)
    if joints.mass_is_regular:
        return M
    G = slopes()
    return M + joints.stiffening * (G.T @ G)


NOT_OF_VELOCITIES = (
    "constraints are functions of (t, x[, params]). Those of velocities, as of wheels that roll and of blades, are not "
    "offered: a step is not known here that keeps them as well as the law of the noise. Where they are the rate of a "
    "g(t, x), as of a wheel that rolls straight on, give g; otherwise write the reduced equations x' = S(x) u, with "
    "fewer velocities u, as an SDE"
)


def joints_of(problem: Any) -> Joints | None:
    """The joints of a mechanical problem; refuses arguments that do not define any."""
    if problem.constraints is None:
        for option, value in {"constraint_names": None, "redundant": "refuse", "impulses": False}.items():
            if getattr(problem, option) != value:
                raise ValueError(f"{option}: belongs to constraints=, but none are given")
        return None
    if problem.redundant not in ("refuse", "drop"):
        raise ValueError(f'redundant: expected "refuse" or "drop", got {problem.redundant!r}')
    if problem.scalar:
        raise ValueError(
            "constraints: x is a number, so nothing could move; give start as vectors, ([x0, y0], [vx0, vy0])"
        )
    _refuse_velocities(problem.constraints)
    x = problem.example_pair[0]
    with jax.enable_x64(True):
        returned = returned_shape(problem, "constraints", problem.constraints, ("t", 0.0), ("x", x)).shape
    if len(returned) > 1 or returned == (0,):
        raise ValueError(f"constraints: returned shape {returned}, expected (c,), one number for each constraint")
    count = returned[0] if returned else 1
    names = tuple(problem.constraint_names or (f"g{i}" for i in range(count)))
    if len(names) != count or len(set(names)) != count or not all(isinstance(name, str) for name in names):
        raise ValueError(f"constraint_names: expected {count} different names, one for each constraint, got {names}")
    joints = Joints(problem, names, tuple(range(count)))
    if callable(problem.mass) and 2 in joints.reached(lambda t, q, v, p: call(problem.mass, t, q, v, params=p)):
        raise ValueError("mass: depends on v; with constraints it may depend on t, x and params alone")
    if problem.redundant == "drop":
        rows = joints_diagnosis.independent_rows(joints)
        joints = Joints(problem, tuple(names[i] for i in rows), rows)
    return joints


VELOCITIES = (*MEANT["v"], "velocities", "dq", "qdot")  # names that say that an argument is a velocity


def _refuse_velocities(constraints: Any) -> None:
    """Refuse constraints that ask for the velocity, by the name of their third argument."""
    for name in needed_names(constraints)[2:3]:
        if name.lower() in VELOCITIES:
            raise TypeError(
                f"constraints: {name!r} is a velocity by its name, but {NOT_OF_VELOCITIES}. (If it stands for the "
                "params, name it params.)"
            )
