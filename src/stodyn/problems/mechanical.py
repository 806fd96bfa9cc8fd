"""Noisy mechanics: M x'' = force(t, x, v) + noise(t, x, v) ξ, with any mass matrix, and joints g(t, x) = 0."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.noise.from_normals import FromNormals
from stodyn.numerics import elimination
from stodyn.problems.calling import takes_params
from stodyn.problems.changing_matrices import Changing
from stodyn.problems.contract import (
    AsNow,
    Fitness,
    NoiseStructure,
    Recommended,
    check_params,
    component_names,
    derive,
    noise_hint,
    returned_shape,
)
from stodyn.problems.inertia import constant_mass, is_positive_definite
from stodyn.problems.joints import Joints, JointsDiagnosis, joints_of
from stodyn.problems.lagrangian import from_energies
from stodyn.problems.massless import check_mass_at_start, remarks_on_constraints
from stodyn.problems.mechanical_facts import ADDITIVE_LINEAR, CONSTANT_UNDAMPED, Facts, facts_of, noise_structure_of
from stodyn.problems.modal import in_words
from stodyn.problems.motion import Motion, motion_of
from stodyn.problems.paired_start import Paired, pair_names
from stodyn.problems.structural import changing_structure, structure


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Mechanical(Paired):
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
        scipy.stats distribution, PerPath, draw(rng, size)). A single sampler of whole states (2N,) serves as well, such
        as from_normals(function, normals), which exported models and GPUs draw themselves.
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

    letters = "xv"
    calculus = "ito"
    further_structures = (CONSTANT_UNDAMPED, ADDITIVE_LINEAR)
    # what kinds of systems have besides; see Structure, problems.driven_mechanical and problems.elements
    matrices: ClassVar[Any] = None
    reduction: ClassVar[Any] = None
    is_linear: ClassVar[bool] = False
    coloured: ClassVar[Any] = None
    hysteresis: ClassVar[tuple] = ()

    @property
    def fitness(self) -> Fitness | None:  # type: ignore[override]
        """The states at which a mass that depends on time or state is one."""
        if not callable(self.mass):
            return None
        words = "mass became singular, negative or unsymmetric"
        return Fitness(functools.partial(_has_mass, self), words, takes_params(self.mass, 3, self.params))

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
        words = [rounded] if self.joints is None else [rounded, self.joints.failure_advice]
        if self.facts.force_on_v and not self.facts.linear_damping and not self.motion.slips:
            words.append("Dry friction that is steep in v is solved whatever the step as stodyn.elements.Coulomb.")
        return " ".join(words)

    def __post_init__(self):
        check_params(self.params)
        with jax.enable_x64(True):
            shape = self.example_pair[0].shape
            if isinstance(self.force, Changing):
                self.force.check(self)
            returned = returned_shape(self, "force", self.force, *_arguments(self)).shape
            if returned != shape:
                raise ValueError(f"force: returned shape {returned}, expected {shape}, the shape of x0")
            derive(self, "m", "mass_matrix", "joints", "component_units")

    # --- its arguments ------------------------------------------------------------------------------------------------

    @property
    def N(self) -> int:
        """How many coordinates there are."""
        return self.example_pair[0].size

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.components)

    @functools.cached_property
    def m(self) -> int:  # type: ignore[override]
        return 0 if self.noise is None else _channels(self)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        return self.components[: self.N]

    @functools.cached_property
    def components(self) -> tuple[str, ...]:
        letters = ["x"] if self.scalar else [f"x{i}" for i in range(self.N)]
        names = pair_names(self.names, [*letters, *(f"d{name}" for name in letters)], "d")
        names += tuple(f"dd{name}" for name in names[: self.N]) if self.accelerations else ()
        if self.impulses and self.joints is not None:
            names += tuple(f"Λ_{name}" for name in self.joints.names)
        return component_names(names, names)

    @functools.cached_property
    def joints(self) -> Joints | None:
        """The joints, where there are constraints."""
        return joints_of(self)

    @functools.cached_property
    def mass_matrix(self) -> np.ndarray | None:
        """A constant mass, (N, N); None where it is 1 or depends on the state."""
        if self.mass is None or callable(self.mass):
            _check_mass_function(self)
            return None
        return constant_mass(self.mass, self.N)

    @property
    def own(self) -> Mechanical:
        """The system without coloured noise."""
        return self

    @property
    def further_lines(self):
        """The first frequencies of a structure, by which a stiffness in kN, or a mass in tonnes, is noticed."""
        matrices, unit = self.own.matrices, (self.component_units or {}).get("time", "")
        words = "" if matrices is None else in_words(matrices.M, matrices.K, unit)
        return [("frequencies", words)] if words else []

    @classmethod
    def from_matrices(cls, M: Any, C: Any, K: Any, **options: Any) -> Mechanical:
        """The structure M x'' + C x' + K x = load(t) + noise ξ from its matrices, as finite-element programs give them.

        Parameters
        ----------
        M, C, K : array (N, N) or (N,), scipy.sparse array, or path
            Mass, damping and stiffness: dense, a diagonal, any sparse format (banded ones too), or the name of a Matrix
            Market file. Symmetric, and not negative in any direction. C is None where `damping` is given. Or functions
            of (t[, params]) -> (N, N), as of rotating frames and of random stiffness: such a structure is stepped like
            any other mechanical system, and analyses that need known matrices refuse it. Where random parameters make
            C or K of some paths negative, a run warns.
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
        interface : sequence of names or numbers, optional
            Coordinates that stay as they are in a reduction, such as those at which loads act or parts are joined. The
            others follow them, by static shapes and by `modes` modes with the interface held (Craig & Bampton).
        symmetric : bool
            False: C and K may be any matrices, with gyroscopic (skew C) and circulatory (skew K) forces, as of rotors.

        Returns
        -------
        Mechanical
            A structure with known matrices, as `stodyn.analysis.structures` takes it. A step of a large linear one
            costs one sparse solve.

        Raises
        ------
        ValueError
            If a matrix is not symmetric and symmetric=False is not given, has a negative direction or does not fit M.

        Examples
        --------
        >>> import stodyn as sd
        >>> frame = sd.Mechanical.from_matrices([2.0, 1.0], None, [[3.0, -1.0], [-1.0, 1.0]],
        ...                                     damping=("rayleigh", (0.5, 0.05), (1.5, 0.05)), noise=[0.0, 1.0])
        >>> frame.coordinates
        ('x0', 'x1')
        """
        if any(map(callable, (M, C, K))):
            return changing_structure(Mechanical, M, C, K, **options)
        return structure(Structure, M, C, K, **options)

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
        return from_energies(Mechanical, T, V, q, v, **options)

    # --- its equations, and what is known about them ------------------------------------------------------------------

    @functools.cached_property
    def motion(self) -> Motion:
        """The equations as methods step them."""
        return motion_of(self)

    @functools.cached_property
    def facts(self) -> Facts:
        """The arguments on which acceleration and kicks depend; all, where their traces cannot be taken apart."""
        return facts_of(self.motion)

    @AsNow
    def noise_structure(self) -> NoiseStructure:
        """The structure of the noise of (x, v)."""
        return noise_structure_of(self)

    def split(self, x: Array) -> tuple[Array, Array]:
        """y (r,) and z (N - r,) of x (N,)."""
        return self.motion.split(x)

    def acceleration(self, t, y: Array, v: Array, z: Array, params) -> Array:
        """a with M a = force, (r,); with joints that of the paths, tangent to the constraints."""
        return self.motion.acceleration(t, y, v, z, params)

    def f(self, t, x: Array, params) -> Array:
        """The drift of (x, v), (2N,), where every coordinate has inertia."""
        y, v = x[: self.N], x[self.N : 2 * self.N]
        return jnp.concatenate([v, self.motion.acceleration(t, y, v, y[:0], params)])

    def g(self, t, x: Array, params) -> Array:
        """The diffusion of (x, v), (2N, m), where every coordinate has inertia."""
        y, v = x[: self.N], x[self.N : 2 * self.N]
        return jnp.concatenate([jnp.zeros((self.N, self.m), x.dtype), self.motion.kicks(t, y, v, y[:0], params)])

    def noise_rows(self, t, x, params, components):
        """Nothing of the noise reaches positions at once; accelerations, massless coordinates, impulses have no row."""
        b = self.motion.kicks(t, *self.motion.coordinates(x), params)
        return tuple(
            None if place is None else jnp.zeros(self.m, x.dtype) if order == 0 else b[place]
            for order, place in map(self.motion.place, components)
        )

    def mean_rates(self, t, x, params, components):
        y, v, z = self.motion.coordinates(x)
        a = self.motion.acceleration(t, y, v, z, params)
        return tuple(
            None if place is None else v[place] if order == 0 else a[place]
            for order, place in map(self.motion.place, components)
        )

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

    # --- runs ---------------------------------------------------------------------------------------------------------

    @property
    def recommended(self) -> Recommended:
        if self.joints is None:
            return Recommended("StochasticAlpha", "implicit, with the dissipation of fast modes chosen by rho")
        if self.joints.mass_is_regular:
            return Recommended("RattleAlpha", "keeps the joints and their velocities to rounding")
        reason = "keeps the joints, and takes masses that are singular without them"
        if self.N + self.joints.c <= elimination.WRITTEN_OUT:
            return Recommended("ProjectedAlpha", reason)
        # Of a flat body on a ball joint, a step of order 2 costs 22 times as much: one of order 1 has its error, of
        # 2.5e-4 in the velocities, at a third of the cost.
        return Recommended("ProjectedAlpha", f"{reason}; terms of higher order cost much", {"order": 1.0})

    @property
    def stable_methods(self) -> tuple[str, ...]:
        return (self.recommended.method,)

    def without_noise(self, calculus: str | None = None) -> Mechanical:
        return dataclasses.replace(self, noise=None)

    def before_run(self, t: float) -> tuple[str, ...]:
        if isinstance(self.own.force, Changing):
            self.own.force.warn_of_negative(self, t)
        if self.joints is not None:
            return self.joints.before_run(t)
        if callable(self.mass):
            check_mass_at_start(self.motion, t)
        return () if self.motion.is_regular else remarks_on_constraints(self, t)

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        start = self.start_source.draw(rng, paths, "start").reshape(len(paths), 2 * self.N)
        return np.concatenate([start, np.zeros((len(paths), self.n - 2 * self.N))], axis=1)

    @functools.cached_property
    def start_from_normals(self) -> FromNormals | None:
        if not isinstance(self.start, FromNormals):
            return None
        return self.start.followed_by(np.zeros((self.n - 2 * self.N, 0)))

    def flat_start(self, start: Any) -> Array:
        """x and v, and zeros for what is shown besides, such as accelerations: the method computes these."""
        flat = jnp.ravel(jnp.asarray(start, float))
        return jnp.concatenate([flat, jnp.zeros(self.n - flat.size)])


@dataclasses.dataclass(frozen=True, eq=False)
class Structure(Mechanical):
    """A mechanical system whose matrices are known; made by `Mechanical.from_matrices`.

    matrices   M, C, K of the coordinates of this problem
    linear_force  the force load(t) - K x - C v: where `force` is exactly that, a step is one linear system
    reduction  the modal reduction that made it; None where it is not reduced
    load       the right-hand side besides noise: a function of (t[, params]), or None
    """

    matrices: Any = None  # type: ignore[misc]
    linear_force: Any = None
    reduction: Any = None  # type: ignore[misc]
    load: Any = None

    def __post_init__(self):
        super().__post_init__()
        if not np.array_equal(self.matrices.M.toarray(), self.mass_matrix):
            raise ValueError("mass: differs from the given M; make a new structure with Mechanical.from_matrices")

    @property
    def is_linear(self) -> bool:  # type: ignore[override]
        """Whether nothing but load(t) - K x - C v acts."""
        return self.force is self.linear_force

    @property
    def mass_matrix(self):
        return self.mass  # from_matrices has checked it


def _has_mass(problem: Mechanical, t, x: Array, params) -> Array:
    """Whether the mass at a state is one: symmetric, and positive in every direction that joints leave free."""
    N = problem.N
    return is_positive_definite(problem.motion.mass_of_motion(t, x[:N], x[N : 2 * N], params))


def _arguments(problem: Mechanical) -> tuple[tuple[str, Any], ...]:
    """Return examples of t, x and v, with which the functions of a problem are traced."""
    x, v = problem.example_pair
    return ("t", 0.0), ("x", x), ("v", v)


def _channels(problem: Mechanical) -> int:
    """Return how many columns the noise has; refuse noise of another shape."""
    with jax.enable_x64(True):
        returned = returned_shape(problem, "noise", problem.noise, *_arguments(problem)).shape  # type: ignore[arg-type]
    if problem.scalar:
        if returned != ():
            raise ValueError(
                f"noise: returned shape {returned} for scalar x and v; expected a number. For several channels "
                "give start as vectors: start=([x0], [v0])."
            )
        return 1
    N = problem.N
    if len(returned) != 2 or returned[0] != N or returned[1] == 0:
        raise ValueError(
            f"noise: returned shape {returned}, expected ({N}, channels), one row per coordinate and "
            f"one column per channel{noise_hint(returned, N, 'jnp.diag', 'start=(1.0, 0.0)')}."
        )
    return returned[1]


def _check_mass_function(problem: Mechanical) -> None:
    """Refuse a function that returns a mass of another shape."""
    if problem.mass is None:
        return
    with jax.enable_x64(True):
        returned = returned_shape(problem, "mass", problem.mass, *_arguments(problem)).shape
    if returned not in [(problem.N, problem.N)] + [()] * problem.scalar:
        raise ValueError(f"mass: returned shape {returned}, expected ({problem.N}, {problem.N})")
