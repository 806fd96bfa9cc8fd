"""Noisy mechanics: M x'' = force(t, x, v) + noise(t, x, v) ξ, with any mass matrix, and joints g(t, x) = 0."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.arguments import checks_arguments
from stodyn.noise.source import Source
from stodyn.numerics import elimination, uncompiled
from stodyn.numerics.affine import has_jumps
from stodyn.numerics.banded import Band, find_band
from stodyn.numerics.dependence import dependence
from stodyn.numerics.printing.points import at_one, at_points
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.problems import paired_start
from stodyn.problems.calling import call
from stodyn.problems.contract import (
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    component_names,
    noise_hint,
    returned_shape,
)
from stodyn.problems.index import combination
from stodyn.problems.inertia import ASYMMETRIC, Inertia, is_positive_definite
from stodyn.problems.joints import Joints, JointsDiagnosis, drifting, joints_of
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.stops import Contacts, parted
from stodyn.problems.structure import CHECKED_STATES, find_structure

CONSTANT_UNDAMPED = "constant noise, undamped"
ADDITIVE_LINEAR = "additive noise, linear damping"
CORRECTIONS = 2  # Newton steps after which a constraint's solution has its first three derivatives right


class Facts(NamedTuple):
    """The arguments on which the acceleration M⁻¹ force and the kicks M⁻¹ noise depend, proved from their traces."""

    noise_on_t: bool
    noise_on_x: bool
    noise_on_v: bool
    force_on_v: bool
    linear_damping: bool  # a is affine in v

    @property
    def additive(self) -> bool:
        return not (self.noise_on_x or self.noise_on_v)

    @property
    def is_constant_noise(self) -> bool:
        return self.additive and not self.noise_on_t


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Mechanical(Problem):
    """M x'' = force(t, x, v) + noise(t, x, v) ξ in Ito's sense: dx = v dt, M dv = force dt + noise dW.

    The arguments on which the functions depend are proved from their traces: they decide which random numbers a step
    needs.

    Parameters
    ----------
    force : function force(t, x, v[, params]) -> (N,)
        All forces without noise, including those of springs and dampers.
    noise : function noise(t, x, v[, params]) -> (N, m), or None
        The forces that white noise multiplies, column k by channel k.
    start : (x0, v0)
        Two numbers make x, v and noise numbers; two vectors make x and v vectors. Either may be random (a frozen
        scipy.stats distribution, PerPath, draw(rng, size)). A single sampler of whole states (2N,) serves as well.
    mass : array (N,) or (N, N), or function mass(t, x, v[, params]) -> (N, N), optional
        The diagonal or the matrix; 1 by default. It is never inverted. A constant mass may be singular: coordinates
        without inertia are then determined by the equations without inertia, 0 = N force with N M = 0, which noise must
        not enter (index 1). Their start is a guess, their v is the difference quotient of the last step (0 at the
        start), and their acceleration is 0; force and noise must not depend on their v.
    params : pytree, optional
        Passed to the functions that have an argument for it after the others; as for SDE.
    names : sequence of str, optional
        One per coordinate, in the order of start; the velocities are then called "d" + name. Or 2N names, one per
        component.
    units : sequence or mapping, optional
        One per component, or component -> unit.
    accelerations : bool
        Whether a run also shows the acceleration φ of the integrator, as "dd" + names; with constraints, the
        acceleration along them without its noise.
    constraints : function constraints(t, x[, params]) -> (c,), optional
        Holonomic constraints: g(t, x) = 0 holds along every path, with reactions -Gᵀ dΛ, G = ∂g/∂x, besides the forces.
        A start off the constraints is moved onto them, with a warning.
    constraint_names : sequence of str, optional
        One per constraint; "g0", "g1", ... by default.
    redundant : "refuse" or "drop"
        What to do with constraints that follow from others.
    impulses : bool
        Whether a run also shows the impulses Λ of the reactions since the start, as "Λ_" + constraint_names.

    Raises
    ------
    ValueError
        If shapes do not fit, the mass is not symmetric or has a negative direction, or constraints are redundant.

    Examples
    --------
    >>> import stodyn as sd
    >>> oscillator = sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 0.3, start=(1.0, 0.0))
    >>> oscillator.components
    ('x', 'dx')
    """

    force: Callable
    noise: Callable | None
    start: Any
    mass: Any = None
    params: Any = None
    names: Sequence[str] | None = None
    units: Sequence[str] | Mapping[str, str] | None = None
    accelerations: bool = False
    constraints: Callable | None = None
    constraint_names: Sequence[str] | None = None
    redundant: str = "refuse"
    impulses: bool = False

    calculus = "ito"
    further_structures = (CONSTANT_UNDAMPED, ADDITIVE_LINEAR)

    @property
    def failure_suspect(self) -> str:  # type: ignore[override]
        """The mass, where it depends on time or state."""
        if not callable(self.mass):
            return ""
        return (
            "The mass, which depends on time or state, may have become singular, negative or unsymmetric there: such "
            "paths end, whatever the step and the method."
        )

    @property
    def failure_advice(self) -> str:  # type: ignore[override]
        """Further reasons why paths may fail."""
        rounded = "A force of stiffness k is rounded to 1e-16 k |x|: where that is above Newton's tol, raise tol."
        return rounded + ("" if self.joints is None else f" {self.joints.failure_advice}")

    def __post_init__(self):
        check_params(self.params)
        with jax.enable_x64(True):
            shape = self.example_pair[0].shape
            returned = returned_shape(self, "force", self.force, *self._arguments).shape
            if returned != shape:
                raise ValueError(f"force: returned shape {returned}, expected {shape}, the shape of x0")
            self.derive("m", "mass_matrix", "joints", "component_units")

    @functools.cached_property
    def example_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """x and v of one path, as the functions see them."""
        return paired_start.example(self.start, "xv")

    @property
    def _arguments(self) -> tuple[tuple[str, Any], ...]:
        x, v = self.example_pair
        return ("t", 0.0), ("x", x), ("v", v)

    @property
    def scalar(self) -> bool:
        """Whether x and v are numbers."""
        return self.example_pair[0].ndim == 0

    @property
    def N(self) -> int:
        """How many coordinates there are."""
        return self.example_pair[0].size

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.components)

    @functools.cached_property
    def m(self) -> int:  # type: ignore[override]
        return 0 if self.noise is None else self._channels()

    @functools.cached_property
    def _pair_names(self) -> tuple[str, ...]:
        coordinates = ["x"] if self.scalar else [f"x{i}" for i in range(self.N)]
        return paired_start.pair_names(self.names, [*coordinates, *(f"d{name}" for name in coordinates)], "d")

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        return self._pair_names[: self.N]

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        names = self._pair_names
        names += tuple(f"dd{name}" for name in self.coordinates) if self.accelerations else ()
        if self.impulses and self.joints is not None:
            names += tuple(f"Λ_{name}" for name in self.joints.names)
        return component_names(names, names)

    @functools.cached_property
    def joints(self) -> Joints | None:
        """Its constraints."""
        return joints_of(self)

    def _channels(self) -> int:
        with jax.enable_x64(True):
            returned = returned_shape(self, "noise", self.noise, *self._arguments).shape  # type: ignore[arg-type]
        if self.scalar:
            if returned != ():
                raise ValueError(
                    f"noise: returned shape {returned} for scalar x and v; expected a number. For several channels "
                    "give start as vectors: start=([x0], [v0])."
                )
            return 1
        if len(returned) != 2 or returned[0] != self.N or returned[1] == 0:
            raise ValueError(
                f"noise: returned shape {returned}, expected ({self.N}, channels), one row per coordinate and "
                f"one column per channel{noise_hint(returned, self.N, 'jnp.diag', 'start=(1.0, 0.0)')}."
            )
        return returned[1]

    @functools.cached_property
    def mass_matrix(self) -> np.ndarray | None:
        """A constant mass, (N, N); None where it is 1 or depends on the state."""
        if self.mass is None:
            return None
        if callable(self.mass):
            with jax.enable_x64(True):
                returned = returned_shape(self, "mass", self.mass, *self._arguments).shape
            if returned not in [(self.N, self.N)] + [()] * self.scalar:
                raise ValueError(f"mass: returned shape {returned}, expected ({self.N}, {self.N})")
            return None
        try:
            M = np.asarray(self.mass, float)
        except (TypeError, ValueError):
            M = np.empty(0)
        if M.ndim < 2:
            M = np.diag(M.reshape(-1))
        if M.shape != (self.N, self.N) or not np.isfinite(M).all():
            raise ValueError(
                f"mass: expected {self.N} finite numbers (a diagonal), a finite ({self.N}, {self.N}) matrix or a "
                f"function, got {self.mass!r}"
            )
        if not M.any():
            raise ValueError("mass: is zero, so nothing has inertia; write the equations as stodyn.SDE or SDAE")
        _check_mass(M, "is")
        return M

    @classmethod
    def from_matrices(cls, M: Any, C: Any, K: Any, **options: Any) -> Mechanical:
        """The structure M x'' + C x' + K x = load(t) + noise ξ from its matrices, as finite-element programs give them.

        Parameters
        ----------
        M, C, K : array (N, N) or (N,), scipy.sparse array, or path
            Mass, damping and stiffness: dense, a diagonal, any sparse format (banded ones too), or the name of a Matrix
            Market file. Symmetric, and not negative in any direction. C is None where `damping` is given.
        damping : tuple, optional
            ("rayleigh", (ω1, ζ1), (ω2, ζ2)) for the ratios ζ at two frequencies in radians per unit of time, or
            ("modal", ζ) with one ratio or one per mode, which makes C a full matrix.
        load : array (N,) or function load(t[, params]), optional
            Forces besides the noise.
        noise : array (N, channels), (N,) or function noise(t, x, v[, params]), optional
            White noise. Coloured loads are added by `with_noise` or `base_excited`.
        start : (x0, v0), optional
            At rest by default.
        params, names, units, accelerations : optional
            As for Mechanical.
        modes : int, optional
            Reduce the structure to this number of modes, those of the lowest frequencies: the coordinates are then
            "mode1", "mode2", ...; `problem.reduction.coordinates` converts them to those of the structure, and
            `stodyn.analysis.structures.reduction_error` gives the error.

        Returns
        -------
        Mechanical
            A structure with known matrices, as `stodyn.analysis.structures` takes it. A step of a large linear one
            costs one sparse solve.

        Raises
        ------
        ValueError
            If a matrix is not symmetric, has a negative direction or does not fit M.

        Examples
        --------
        >>> import stodyn as sd
        >>> frame = sd.Mechanical.from_matrices([2.0, 1.0], None, [[3.0, -1.0], [-1.0, 1.0]],
        ...                                     damping=("rayleigh", (0.5, 0.05), (1.5, 0.05)), noise=[0.0, 1.0])
        >>> frame.coordinates
        ('x0', 'x1')
        """
        from stodyn.problems.structural import structure  # a kind of Mechanical

        return structure(M, C, K, **options)

    @classmethod
    def from_lagrangian(cls, T: Any, V: Any, q: Any, v: Any = None, **options: Any) -> Mechanical:
        """The system of a kinetic energy T(t, q, v) and a potential energy V(t, q), by SymPy (the extra `sympy`).

        Parameters
        ----------
        T, V : expressions
            Functions of the symbols below; T is quadratic in the velocities.
        q, v : sequences of symbols
            Coordinates and velocities. Where q are dynamicsymbols, v may be left out; their first derivatives are then
            the velocities.
        start : (q0, v0)
            As for Mechanical.
        t : symbol, optional
            Time, where T, V, forces or constraints depend on it.
        forces : sequence of expressions, optional
            Generalised forces besides those of V.
        dissipation : expression, optional
            Rayleigh's function R: the force is -∂R/∂v.
        constraints : sequence of expressions, optional
            g(t, q) = 0.
        noise : sequence of expressions, or matrix (N, channels), optional
            In M dv = ... dt + noise dW.
        params : mapping, optional
            Symbol -> value. Numbers are substituted; values that differ between paths (PerPath,
            distributions) become params.
        names, units, accelerations, constraint_names, redundant, impulses : optional
            As for Mechanical.

        Returns
        -------
        Mechanical

        Raises
        ------
        ValueError
            If T is not quadratic in the velocities, V depends on them, or a symbol is unknown.

        Examples
        --------
        >>> import stodyn as sd
        >>> import sympy
        >>> θ, ω, l, g = sympy.symbols("θ ω l g")
        >>> pendulum = sd.Mechanical.from_lagrangian(l**2 * ω**2 / 2, -g * l * sympy.cos(θ), [θ], [ω],
        ...                                          params={l: 2.0, g: 9.81}, start=([0.1], [0.0]))
        >>> pendulum.coordinates
        ('θ',)
        """
        from stodyn.problems.lagrangian import from_energies  # a maker of Mechanical

        return from_energies(T, V, q, v, **options)

    @functools.cached_property
    def without_stops(self) -> Mechanical:
        """The system without the stops among its elements."""
        return dataclasses.replace(self, force=parted(self.force)[0])

    # --- coordinates: those with inertia (y) and those without (z) ----------------------------------------------------

    @functools.cached_property
    def inertia(self) -> Inertia | None:
        """The constant mass matrix; None where it is 1 or depends on the state, and where joints work with it."""
        return None if self.mass_matrix is None or self.joints is not None else Inertia(self.mass_matrix)

    @property
    def is_regular(self) -> bool:
        """Whether every coordinate has inertia."""
        return self.inertia is None or self.inertia.is_regular

    @property
    def r(self) -> int:
        """How many coordinates have inertia."""
        return self.N if self.inertia is None else self.inertia.r

    def split(self, x: Array) -> tuple[Array, Array]:
        """y (r,) and z (N - r,) of x (N,)."""
        return (x, x[:0]) if self.inertia is None else self.inertia.split(x)

    def joined(self, y: Array, z: Array) -> Array:
        """x of y and z; v of their rates."""
        return y if self.inertia is None else self.inertia.joined(y, z)

    # --- the equations, for one path; y, v (r,) and z (N - r,) --------------------------------------------------------

    def balance(self, t, y: Array, v: Array, z: Array, params) -> tuple[Array, Array]:
        """The force in the equations with inertia (r,), and in those without (N - r,), where it must vanish."""
        f = jnp.reshape(
            jnp.asarray(call(self.force, t, *self._in_users_form(y, v, z), params=params), y.dtype), (self.N,)
        )
        return (f, f[:0]) if self.inertia is None else (self.inertia.with_inertia(f), self.inertia.without(f))

    def mass_times(self, a: Array, t, y: Array, v: Array, z: Array, params) -> Array:
        """M a, the left side of the equations with inertia, for an acceleration a (r,)."""
        if self.inertia is not None:
            return self.inertia.times(a)
        return a if self.mass is None else self._mass(t, y, v, z, params) @ a

    def acceleration(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """a with M a = force, (r,); with joints that of the paths, tangent to the constraints."""
        if self.joints is not None:
            return self.joints.acceleration(t, y, v, params)
        a = self._solved(t, y, v, z, params, self.balance(t, y, v, z, params)[0])
        if not callable(self.mass):
            return a
        # A path fails where its mass is no mass: every step of every method begins with an acceleration.
        return jnp.where(is_positive_definite(lax.stop_gradient(self._mass(t, y, v, z, params))), a, jnp.nan)

    def kicks(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """b with M b = noise, (r, m): the change of v per unit of each channel; with joints, the part along them."""
        if self.joints is not None:
            return self.joints.kicks(t, y, v, params)
        if self.noise is None:
            return jnp.zeros((self.r, 0), y.dtype)
        B = jnp.asarray(call(self.noise, t, *self._in_users_form(y, v, z), params=params), y.dtype)
        B = jnp.reshape(B, (self.N, self.m))
        return self._solved(t, y, v, z, params, B if self.inertia is None else self.inertia.with_inertia(B))

    def mobility(self, t, x: Array, params, force: Array) -> Array:
        """M⁻¹ force, (N,), at a state (2N,) of a system all of whose coordinates have inertia and are free."""
        return self._solved(t, x[: self.N], x[self.N : 2 * self.N], x[:0], params, force)

    def settled(self, t, y: Array, v: Array, z: Array, params, rounds: int = CORRECTIONS) -> Array:
        """z after some Newton steps on the constraints from a z that is near: smooth in t, y and v."""

        def residual(z):
            return self.balance(t, y, v, z, params)[1]

        for _ in range(0 if self.is_regular else rounds):
            z = z - elimination.solve(jax.jacfwd(residual)(z), residual(z), self.constraint_order)
        return z

    def _in_users_form(self, y: Array, v: Array, z: Array) -> tuple[Array, Array]:
        x, v = self.joined(y, z), self.joined(v, jnp.zeros_like(z))
        return (x[0], v[0]) if self.scalar else (x, v)

    def _mass(self, t, y, v, z, params) -> Array:
        """A mass that depends on the state, (N, N)."""
        return jnp.reshape(
            jnp.asarray(call(self.mass, t, *self._in_users_form(y, v, z), params=params), y.dtype), (self.N, self.N)
        )

    def _solved(self, t, y, v, z, params, right: Array) -> Array:
        """M⁻¹ right for a vector (r,) or a matrix (r, m)."""
        if self.inertia is not None:
            return self.inertia.solve(right)
        if self.mass is None:
            return right
        M = self._mass(t, y, v, z, params)
        if right.ndim == 1:
            return elimination.solve(M, right)
        return jnp.stack([elimination.solve(M, right[:, k]) for k in range(right.shape[1])], axis=1)

    @functools.cached_property
    def band(self) -> Band | None:
        """The order in which the equations of an implicit step are banded, if there is one.

        The mean forces of stops enter such a step by y and v.
        """
        has_stops = bool(parted(self.force)[1]) and self.is_regular

        def residual(u, t, params):
            y, z = u[: self.r], u[self.r :]
            y = y + Contacts(self, t, y, y, params).acceleration(y) if has_stops else y
            force, vanishing = self.balance(t, y, y, z, params)
            return jnp.concatenate([self.mass_times(y, t, y, y, z, params) - force, vanishing])

        with jax.enable_x64(True):
            y, _, z = self.example_coordinates()
            return find_band(residual, np.concatenate([y, z]), np.zeros(()), self.example_params())

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
        G = self._constraint_jacobian
        return elimination.row_order(G) if len(G) > elimination.PIVOTED and np.linalg.matrix_rank(G) == len(G) else None

    @functools.cached_property
    def _constraint_jacobian(self) -> np.ndarray:
        y, v, z = self.example_coordinates()
        slope = jax.jacfwd(lambda z: self.balance(0.0, y, v, z, self.example_params())[1])
        return at_points(slope, np.asarray(z)[None])[0]

    # --- what is known about them -------------------------------------------------------------------------------------

    def example_coordinates(self) -> tuple[Array, Array, Array]:
        """y, v and z of one start, as numbers even while a step is being traced."""
        start: Any = np.asarray(self.example_start(), float)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            (y, z), (v, _) = self.split(start[: self.N]), self.split(start[self.N : 2 * self.N])
            return jax.device_put((y, v, z))

    @functools.cached_property
    def facts(self) -> Facts:
        """The arguments on which acceleration and kicks depend; all, where their traces cannot be taken apart."""
        with jax.enable_x64(True):
            y, v, z = self.example_coordinates()
            t, params = np.zeros(()), self.example_params()
            try:
                noise, force = self._reached(self.kicks), self._reached(self.acceleration)
                bent = _arguments(
                    lambda t, y, v, z, p, d: jax.jvp(lambda v: self.acceleration(t, y, v, z, p), (v,), (d,))[1],
                    t, y, v, z, params, v,
                )  # fmt: skip
            except Unprintable:
                return Facts(self.m > 0, self.m > 0, self.m > 0, True, False)
        if 3 in bent:
            bent |= self._reached(lambda *args: self.balance(*args)[1])
        return Facts(0 in noise, 1 in noise, 2 in noise, 2 in force, 2 not in bent)

    @functools.cached_property
    def has_constant_slopes(self) -> bool:
        """Whether the acceleration is affine in x and v with slopes that do not depend on time, proved from its trace;
        for systems all of whose coordinates have inertia and are free."""
        if not self.facts.linear_damping:
            return False
        with jax.enable_x64(True):
            arguments = np.zeros(()), np.asarray(self.example_start()[: 2 * self.N], float), self.example_params()
            try:
                return not has_jumps(self.f, arguments, (1,)) and not {0, 1} & _arguments(
                    lambda t, s, params: jax.jvp(lambda s: self.f(t, s, params), (s,), (jnp.ones_like(s),))[1],
                    *arguments,
                )
            except (Unprintable, NotImplementedError):  # JAX differentiates most operations, but not all
                return False

    @functools.cached_property
    def slopes_at_the_start(self) -> tuple[np.ndarray, np.ndarray]:
        """A and b of d(x, v) = A (x, v) dt + b dW, the equations linearised about the start."""
        start, params = np.asarray(self.example_start()[: 2 * self.N], float), self.example_params()
        with jax.enable_x64(True):
            A = uncompiled.value(jax.jacfwd(lambda s: self.f(0.0, s, params)), start)
            b = uncompiled.value(lambda s: self.g(0.0, s, params), start)
        return A, b

    @functools.cached_property
    def noise_follows_constraints(self) -> bool:
        """Whether noise depends on a z that depends on v, so that its derivative in v is one along the constraints."""
        if self.is_regular:
            return False
        with jax.enable_x64(True):
            arguments = (np.zeros(()), *self.example_coordinates(), self.example_params())
            try:
                constraints = _arguments(lambda *args: self.balance(*args)[1], *arguments)
                return 3 in _arguments(self.kicks, *arguments) and 2 in constraints
            except Unprintable:
                return True

    def _reached(self, function: Callable) -> set[int]:
        """Which of t (0), y (1), v (2) a function depends on; through z on what the constraints do."""
        y, v, z = self.example_coordinates()
        reached = _arguments(function, np.zeros(()), y, v, z, self.example_params())
        if 3 in reached:
            constraint = _arguments(lambda *args: self.balance(*args)[1], np.zeros(()), y, v, z, self.example_params())
            reached |= constraint
        return reached - {3, 4}

    @property
    def recommended(self) -> Recommended:
        if self.joints is None:
            return Recommended("StochasticAlpha", "implicit, with the dissipation of fast modes chosen by rho")
        if self.joints.mass_is_regular:
            return Recommended("RattleAlpha", "keeps the joints and their velocities to rounding")
        return Recommended("ProjectedAlpha", "keeps the joints, and takes masses that are singular without them")

    @property
    def stable_methods(self) -> tuple[str, ...]:
        return (self.recommended.method,)

    def without_noise(self, calculus: str | None = None) -> Mechanical:
        return dataclasses.replace(self, noise=None)

    @functools.cached_property
    def noise_structure(self) -> NoiseStructure:
        """That of the SDE of (x, v), and two further kinds that methods.alpha distinguishes.

        constant noise, undamped         noise depends on nothing, the acceleration not on v
        additive noise, linear damping   noise depends on t alone, the acceleration is affine in v
        """
        if self.m == 0:
            structure = NoiseStructure(("additive", "commutative"), "there is none")
        elif not self.is_regular:
            structure = self._as_sdae.noise_structure
        else:
            with jax.enable_x64(True):
                start = np.asarray(self.example_start()[: 2 * self.N], float)
                structure = find_structure(self.g, start, self.example_params(), self.sample_params(CHECKED_STATES))
        facts, kinds = self.facts, structure.kinds
        if facts.additive and facts.linear_damping:
            kinds = (*kinds, ADDITIVE_LINEAR)
        if facts.additive and not (facts.noise_on_t or facts.force_on_v):
            kinds = (*kinds, CONSTANT_UNDAMPED)
        return NoiseStructure(kinds, structure.known)

    def diagnose(self, t: float = 0.0) -> JointsDiagnosis:
        """Diagnose the constraints at the start: their rank, the shift of the start, noise in reactions.

        Parameters
        ----------
        t : float
            The time of the start.

        Returns
        -------
        JointsDiagnosis

        Raises
        ------
        ValueError
            If the problem has no constraints.
        """
        if self.joints is None:
            raise ValueError("constraints: the problem has none, so there is nothing to diagnose; give constraints=g")
        return self.joints.diagnose(t)

    def multiplier(self, t, x: Array, params: Any = None) -> Array:
        """Return the multipliers λ of the reactions -Gᵀ λ at a state of a run: a function for Observable.

        Parameters
        ----------
        t : float
            The time.
        x : array
            A state of a run: positions, then velocities.
        params : object, optional
            The parameters of the path.

        Returns
        -------
        array (c,)

        Raises
        ------
        ValueError
            If the problem has no constraints, or noise has a part along a reaction, which then contains white noise and
            is not a function of time.
        """
        if self.joints is None:
            raise ValueError("multiplier: without constraints there are no reactions; give constraints=g")
        return self.joints.multiplier(t, x[: self.N], x[self.N : 2 * self.N], params)

    def before_run(self, t: float) -> tuple[str, ...]:
        if self.joints is not None:
            return self.joints.before_run(t)
        if callable(self.mass):
            with jax.enable_x64(True):
                y, v, z = self.example_coordinates()
                M = np.asarray(self._mass(t, y, v, z, self.example_params()))
            size = np.abs(np.linalg.eigvals(M)) if np.isfinite(M).all() else np.zeros(1)
            if not size.min() > 1e-12 * size.max():
                raise ValueError(
                    f"mass: at the start and t = {t:g} it is singular, {M.tolist()}, so that some coordinates have no "
                    "inertia. A mass that depends on the state must be regular: start elsewhere, or write the "
                    "equations as stodyn.SDAE"
                )
            _check_mass(M, f"at the start and t = {t:g} is")
        if self.is_regular:
            return ()
        with jax.enable_x64(True):
            y, v, z = self.example_coordinates()
            params = self.example_params()

            def of_hidden_rates(w):
                v_all = self.joined(v, w)
                state = (self.joined(y, z), v_all)
                f = call(self.force, t, *state, params=params)
                B = jnp.zeros(0) if self.noise is None else call(self.noise, t, *state, params=params)
                return jnp.concatenate([jnp.ravel(f), jnp.ravel(B)])

            if np.any(at_one(jax.jacfwd(of_hidden_rates), np.zeros(np.shape(z)))):
                raise ValueError(
                    f"mass: has rank {self.r} of {self.N}, but force or noise depends on the velocity of a coordinate "
                    "without inertia, which the constraints do not give. Leave its damping out, give it a mass, or "
                    "write the system as stodyn.SDAE."
                )
        try:
            return self._as_sdae.before_run(t)
        except ValueError as error:
            words = re.sub(r"\bf\[(\d+)\]", lambda match: self._equation(int(match[1])), str(error))
            raise ValueError(f"mass: has rank {self.r} of {self.N}. As an SDAE of (x, v): {words}") from error

    def _equation(self, row: int) -> str:
        """A row of the drift of the SDAE, in the terms of this problem."""
        names = [f"force[{i}]" for i in range(self.N)]
        if self.inertia is None or row < 2 * self.r:
            return f"row {row} of (v, force)"
        return combination(np.asarray(self.inertia.without(jnp.eye(self.N)))[row - 2 * self.r], names)

    # --- as other problems --------------------------------------------------------------------------------------------

    def f(self, t, x: Array, params) -> Array:
        """The drift of (x, v), (2N,), where every coordinate has inertia."""
        y, v = x[: self.N], x[self.N : 2 * self.N]
        return jnp.concatenate([v, self.acceleration(t, y, v, y[:0], params)])

    def g(self, t, x: Array, params) -> Array:
        """The diffusion of (x, v), (2N, m), where every coordinate has inertia."""
        y, v = x[: self.N], x[self.N : 2 * self.N]
        return jnp.concatenate([jnp.zeros((self.N, self.m), x.dtype), self.kicks(t, y, v, y[:0], params)])

    def noise_rows(self, t, x, params, components):
        """Nothing of the noise reaches positions at once; accelerations, massless coordinates, impulses have no row."""
        y, v, z = self._coordinates(x)
        b = self.kicks(t, y, v, z, params)
        return tuple(
            None if place is None else jnp.zeros(self.m, x.dtype) if order == 0 else b[place]
            for order, place in map(self._place, components)
        )

    def mean_rates(self, t, x, params, components):
        y, v, z = self._coordinates(x)
        a = self.acceleration(t, y, v, z, params)
        return tuple(
            None if place is None else v[place] if order == 0 else a[place]
            for order, place in map(self._place, components)
        )

    def _coordinates(self, x: Array) -> tuple[Array, Array, Array]:
        """y, v and z of a state as it is shown."""
        y, z = self.split(x[: self.N])
        return y, self.split(x[self.N : 2 * self.N])[0], z

    def _place(self, component: int) -> tuple[int, int | None]:
        """How often a component is differentiated, and its place among the coordinates with inertia; None where it
        is neither a position nor a velocity of these."""
        order, k = divmod(component, self.N)
        if order >= 2:
            return order, None
        if self.inertia is None or self.inertia.is_regular:
            return order, k
        columns = self.inertia.parts.columns
        is_pure = k in columns and not self.inertia.parts.K[k].any()
        return order, int(np.flatnonzero(columns == k)[0]) if is_pure else None

    def lower(self, kind: type) -> tuple[Problem, str] | None:
        if self.joints is not None:
            return drifting(self) if kind is SDE else None
        if kind is SDAE:
            return self._as_sdae, "Mechanical -> SDAE of (x, v)"
        if kind is not SDE:
            return None
        if self.is_regular:
            return self._as_sde, "Mechanical -> SDE of (x, v)"
        lowered = self._as_sdae.lower(SDE)
        return None if lowered is None else (lowered[0], f"Mechanical -> SDAE of (x, v); {lowered[1]}")

    @property
    def _start_and_names(self) -> tuple[Source, tuple[str, ...], Any]:
        names, units = self.components[: 2 * self.N], self.component_units
        units = None if units is None else {k: u for k, u in units.items() if k in (*names, "time")}
        return self.start_source, names, units

    @functools.cached_property
    def _as_sde(self) -> SDE:
        """A problem without noise gets a channel of zeros."""
        start, names, units = self._start_and_names
        return SDE(
            self.f,
            self.g if self.m else lambda t, x: jnp.zeros((2 * self.N, 1), x.dtype),
            start.argument, self.params, "ito", names, units,
        )  # fmt: skip

    @functools.cached_property
    def _as_sdae(self) -> SDAE:
        """Of x and the velocities of y: y' = v, R M E v' = R force + R noise ξ, 0 = N force."""
        start, names, units = self._start_and_names
        N, r = self.N, self.r
        M = np.eye(N + r)
        if self.inertia is not None:
            M = np.zeros((N + r, N + r))
            M[:r, :N] = np.linalg.inv(self.inertia.coordinates)[:r]
            M[r : 2 * r, N:] = self.inertia.matrix
            columns = [*range(N), *(N + self.inertia.parts.columns)]
            start, names = start.mapped(lambda rows: rows[:, columns]), tuple(names[i] for i in columns)
            units = None if units is None else {k: u for k, u in units.items() if k in (*names, "time")}
        solve = callable(self.mass)

        def parts(x):
            return *self.split(x[:N]), x[N:]

        def drift(t, x, params):
            y, z, v = parts(x)
            moved, vanishing = self.balance(t, y, v, z, params)
            return jnp.concatenate([v, self.acceleration(t, y, v, z, params) if solve else moved, vanishing])

        def diffusion(t, x, params):
            y, z, v = parts(x)
            if self.noise is None:
                return jnp.zeros((N + r, 1), x.dtype)
            if solve:
                B = self.kicks(t, y, v, z, params)
            else:
                B = jnp.asarray(call(self.noise, t, *self._in_users_form(y, v, z), params=params), x.dtype).reshape(
                    N, self.m
                )
            if self.inertia is not None:
                B = jnp.concatenate([self.inertia.with_inertia(B), self.inertia.without(B)])
            return jnp.concatenate([jnp.zeros((r, self.m), x.dtype), B])

        return SDAE(M, drift, diffusion, start.argument, self.params, names, units)

    @functools.cached_property
    def start_source(self) -> Source:
        return paired_start.source(self.start, "xv")

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        start = self.start_source.draw(rng, paths, "start").reshape(len(paths), 2 * self.N)
        return np.concatenate([start, np.zeros((len(paths), self.n - 2 * self.N))], axis=1)

    def flat_start(self, start: Any) -> Array:
        """x and v, and zeros for the accelerations where they are shown: the method computes them."""
        flat = jnp.ravel(jnp.asarray(start, float))
        return jnp.concatenate([flat, jnp.zeros(self.n - flat.size)])


def _check_mass(M: np.ndarray, which: str) -> None:
    """Refuse a mass that is not symmetric, or negative in some direction; `which` begins what is said of it."""
    size = np.abs(M).max()
    if np.abs(M - M.T).max() > ASYMMETRIC * size:
        i, j = np.unravel_index(np.argmax(np.abs(M - M.T)), M.shape)
        raise ValueError(
            f"mass: {which} not symmetric, entry ({i}, {j}) is {M[i, j]:g} and ({j}, {i}) is {M[j, i]:g}; a mass "
            "matrix is symmetric, since only its symmetric part enters the energy v'Mv/2. Equations "
            "multiplied by another matrix are written as stodyn.SDAE"
        )
    if (least := np.linalg.eigvalsh(M)[0]) < -ASYMMETRIC * size:
        raise ValueError(
            f"mass: {which} negative in some direction (its lowest eigenvalue is {least:g}), so that a body pushed one "
            "way is accelerated the other way, and paths run away. Give masses >= 0"
        )


def _arguments(function: Callable, *arguments: Any) -> set[int]:
    """The numbers of the arguments that the result of a function depends on."""
    (entries,) = dependence(function, *arguments)
    return {number for e in entries.ravel() if isinstance(e, frozenset) for number, _ in e}
