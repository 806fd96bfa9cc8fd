"""The equations of a mechanical system as methods step them, for one path: M a = force, M b = noise.

y (r,) are the coordinates with inertia and v their velocities; z (N - r,) are those without, which the equations
without inertia determine (problems.inertia). Where every coordinate has inertia, y is x and z is empty.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.numerics import elimination
from stodyn.numerics.banded import Band, find_band
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.printing.points import at_points
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems.calling import call
from stodyn.problems.inertia import Inertia, is_positive_definite
from stodyn.problems.joints import Joints, completed_mass
from stodyn.problems.known_matrices import Matrices, SparseInertia, StepMatrices, is_positive, step_matrices
from stodyn.problems.slips import Drag, Slip
from stodyn.problems.stops import Contacts, Stop, parted, pushes_of, with_stops

CORRECTIONS = 2  # Newton steps after which a constraint's solution has its first three derivatives right


@dataclasses.dataclass(frozen=True, eq=False)
class Motion:
    """The functions and matrices of a mechanical system, and the products that a step takes of them.

    force, noise, mass  the arguments of the problem
    N, m                how many coordinates and channels there are
    scalar              whether the functions take x and v as numbers
    inertia             the constant mass; None where it is 1 or depends on the state, and where joints work with it
    joints              the constraints, along which accelerations and kicks are then taken
    linear              M, C and K, where nothing but load(t) - K x - C v acts; None else
    start, params       a state (2N,) and the parameters of one path, for what is read off at the start
    """

    force: Callable
    noise: Callable | None
    mass: Any
    N: int
    m: int
    scalar: bool
    inertia: Inertia | None
    joints: Joints | None
    linear: Matrices | None
    start: np.ndarray
    params: Any

    # --- coordinates --------------------------------------------------------------------------------------------------

    @property
    def is_regular(self) -> bool:
        """Whether every coordinate has inertia."""
        return self.inertia is None or self.inertia.is_regular

    @property
    def r(self) -> int:
        """How many coordinates have inertia."""
        return self.N if self.inertia is None else self.inertia.r

    def split(self, x: Array) -> tuple[Array, Array]:
        """Return y (r,) and z (N - r,) of x (N,)."""
        return (x, x[:0]) if self.inertia is None else self.inertia.split(x)

    def joined(self, y: Array, z: Array) -> Array:
        """Return x of y and z, or their velocities of those of y and z."""
        return y if self.inertia is None else self.inertia.joined(y, z)

    def coordinates(self, x: Array) -> tuple[Array, Array, Array]:
        """Return y, v and z of a state as a run shows it, positions first, then velocities."""
        y, z = self.split(x[: self.N])
        return y, self.split(x[self.N : 2 * self.N])[0], z

    def place(self, component: int) -> tuple[int, int | None]:
        """Return how often a component is differentiated, and its place among the coordinates with inertia; None where
        it is neither a position nor a velocity of these."""
        order, k = divmod(component, self.N)
        if order >= 2:
            return order, None
        if self.inertia is None or self.inertia.is_regular:
            return order, k
        columns = self.inertia.parts.columns
        is_pure = k in columns and not self.inertia.parts.K[k].any()
        return order, int(np.flatnonzero(columns == k)[0]) if is_pure else None

    def example_coordinates(self) -> tuple[Array, Array, Array]:
        """Return y, v and z of one start, as numbers even while a step is being traced."""
        coordinates = Uncompiled(self.coordinates)(self.start)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return jax.device_put(coordinates)

    def in_users_form(self, y: Array, v: Array, z: Array) -> tuple[Array, Array]:
        """Return x and v as the functions of the problem take them."""
        x, v = self.joined(y, z), self.joined(v, jnp.zeros_like(z))
        return (x[0], v[0]) if self.scalar else (x, v)

    # --- the equations ------------------------------------------------------------------------------------------------

    def balance(self, t, y: Array, v: Array, z: Array, params) -> tuple[Array, Array]:
        """Return the force in the equations with inertia (r,), and in those without (N - r,), where it must vanish."""
        f = jnp.reshape(
            jnp.asarray(call(self.force, t, *self.in_users_form(y, v, z), params=params), y.dtype), (self.N,)
        )
        return (f, f[:0]) if self.inertia is None else (self.inertia.with_inertia(f), self.inertia.without(f))

    def pushes(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """Return the noise matrix (N, m) of the forces."""
        assert self.noise is not None
        B = jnp.asarray(call(self.noise, t, *self.in_users_form(y, v, z), params=params), y.dtype)
        return jnp.reshape(B, (self.N, self.m))

    def mass_at(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """Return the matrix (N, N) of a mass that depends on the state."""
        return jnp.reshape(
            jnp.asarray(call(self.mass, t, *self.in_users_form(y, v, z), params=params), y.dtype), (self.N, self.N)
        )

    def mass_of_motion(self, t, x: Array, v: Array, params) -> Array:
        """Return the mass (N, N) that a path must have; a singular one with what joints add along themselves."""
        joints = self.joints
        if joints is None:
            return self.mass_at(t, x, v, x[:0], params)
        return completed_mass(joints, t, x, params, lambda: joints.jacobian(t, x, params))

    def mass_times(self, a: Array, t, y: Array, v: Array, z: Array, params) -> Array:
        """Return M a, the left side of the equations with inertia, for an acceleration a (r,)."""
        if self.inertia is not None:
            return self.inertia.times(a)
        return a if self.mass is None else self.mass_at(t, y, v, z, params) @ a

    def solved(self, t, y: Array, v: Array, z: Array, params, right: Array) -> Array:
        """Return M⁻¹ right for a vector (r,) or a matrix (r, m)."""
        if self.inertia is not None:
            return self.inertia.solve(right)
        if self.mass is None:
            return right
        M = self.mass_at(t, y, v, z, params)
        if right.ndim == 1:
            return elimination.solve(M, right)
        return jnp.stack([elimination.solve(M, right[:, k]) for k in range(right.shape[1])], axis=1)

    def acceleration(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """Return a with M a = force, (r,); with joints that of the paths, tangent to the constraints."""
        if self.joints is not None:
            return self.joints.acceleration(t, y, v, params)
        a = self.solved(t, y, v, z, params, self.balance(t, y, v, z, params)[0])
        if not callable(self.mass):
            return a
        # A path fails where its mass is no mass: every step of every method begins with an acceleration.
        return jnp.where(is_positive_definite(lax.stop_gradient(self.mass_at(t, y, v, z, params))), a, jnp.nan)

    def kicks(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """Return b with M b = noise, (r, m), the change of v per unit of each channel; with joints its part along
        them."""
        if self.joints is not None:
            return self.joints.kicks(t, y, v, params)
        if self.noise is None:
            return jnp.zeros((self.r, 0), y.dtype)
        B = self.pushes(t, y, v, z, params)
        return self.solved(t, y, v, z, params, B if self.inertia is None else self.inertia.with_inertia(B))

    def settled(self, t, y: Array, v: Array, z: Array, params, rounds: int = CORRECTIONS) -> Array:
        """Return z after some Newton steps on the constraints from a z that is near: smooth in t, y and v."""

        def residual(z):
            return self.balance(t, y, v, z, params)[1]

        for _ in range(0 if self.is_regular else rounds):
            z = z - elimination.solve(jax.jacfwd(residual)(z), residual(z), self.constraint_order)
        return z

    # --- stops --------------------------------------------------------------------------------------------------------

    @property
    def stops(self) -> tuple[Stop, ...]:
        """The stops among the elements of the system."""
        return tuple(part for part in parted(self.force)[1] if isinstance(part, Stop))

    @property
    def slips(self) -> tuple[Slip, ...]:
        """The dry friction among the elements of the system."""
        return tuple(part for part in parted(self.force)[1] if isinstance(part, Slip))

    @functools.cached_property
    def without_slips(self) -> Motion:
        """The same system without its dry friction."""
        if not self.slips:
            return self
        return dataclasses.replace(self, force=with_stops(parted(self.force)[0], self.stops))

    def drag(self, t, y: Array, v: Array, params) -> Drag:
        """Return the dry friction in a step from a state."""
        return Drag(self.slips, y, lambda row: self.solved(t, y, v, y[:0], params, row))

    @functools.cached_property
    def without_stops(self) -> Motion:
        """The same system without its stops and its dry friction."""
        return dataclasses.replace(self, force=parted(self.force)[0])

    def contacts(self, t, y: Array, v: Array, params) -> Contacts:
        """Return the stops of a system all of whose coordinates have inertia and are free, at a state."""
        pushes = pushes_of(self, t, y, v, params) if callable(self.mass) else self._constant_pushes
        return Contacts(self.stops, pushes, y.dtype)

    @functools.cached_property
    def _constant_pushes(self) -> np.ndarray:
        return pushes_of(self)

    # --- how the matrices of implicit steps are solved with -----------------------------------------------------------

    @functools.cached_property
    def step_matrices(self) -> StepMatrices | None:
        """The matrices of a step of a large linear structure; None where it is small, not linear or without inertia
        somewhere, and where elimination fills its matrix up."""
        if self.linear is None or self.N <= WRITTEN_OUT or not self.is_regular:
            return None
        return step_matrices(self.linear)

    @functools.cached_property
    def band(self) -> Band | None:
        """The order in which the equations of an implicit step are banded, if there is one.

        The mean forces of stops enter such a step by y and v.
        """
        has_stops = bool(self.stops) and self.is_regular

        def residual(u, t, params):
            y, z = u[: self.r], u[self.r :]
            y = y + self.contacts(t, y, y, params).acceleration(y) if has_stops else y
            force, vanishing = self.balance(t, y, y, z, params)
            return jnp.concatenate([self.mass_times(y, t, y, y, z, params) - force, vanishing])

        with jax.enable_x64(True):
            y, _, z = self.example_coordinates()
            return find_band(residual, np.concatenate([y, z]), np.zeros(()), self.params)

    @functools.cached_property
    def row_order(self) -> tuple[int, ...] | None:
        """The order of rows in which the matrix of an implicit step is eliminated, from a short step at the start."""
        if self.inertia is None:
            return None
        M = self.inertia.matrix
        inertial = elimination.row_order(M) if len(M) > elimination.PIVOTED else tuple(range(len(M)))
        constraints = self.constraint_order or tuple(range(self.N - self.r))
        return (*inertial, *(self.r + i for i in constraints))

    @functools.cached_property
    def constraint_order(self) -> tuple[int, ...] | None:
        """The order of rows in which the constraints' Jacobian in z is eliminated, from its value at the start."""
        if self.is_regular:
            return None
        y, v, z = self.example_coordinates()
        slope = jax.jacfwd(lambda z: self.balance(0.0, y, v, z, self.params)[1])
        G = at_points(slope, np.asarray(z)[None])[0]
        return elimination.row_order(G) if len(G) > elimination.PIVOTED and np.linalg.matrix_rank(G) == len(G) else None


def motion_of(problem: Any) -> Motion:
    """Return the equations of a Mechanical."""
    return Motion(
        problem.force, problem.noise, problem.mass, problem.N, problem.m, problem.scalar, _inertia(problem),
        problem.joints, problem.matrices if problem.is_linear else None,
        np.asarray(problem.example_start()[: 2 * problem.N], float), problem.example_params(),
    )  # fmt: skip


def _inertia(problem: Any) -> Inertia | None:
    """Return the constant mass that a step solves with; None where there is none, and where joints work with it."""
    if problem.matrices is not None and is_positive(problem.matrices.M):
        return SparseInertia(problem.mass_matrix, problem.matrices.M)
    return None if problem.mass_matrix is None or problem.joints is not None else Inertia(problem.mass_matrix)
