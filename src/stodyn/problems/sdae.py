"""Stochastic differential-algebraic equations M dX = f(t, X) dt + g(t, X) dW of index 1 (Ito)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.numerics.affine import has_jumps
from stodyn.numerics.block_triangular import determining
from stodyn.numerics.dependence import dependence
from stodyn.numerics.elimination import ORDERED, WRITTEN_OUT, Order, row_order
from stodyn.numerics.elimination import solve as eliminate
from stodyn.numerics.newton import derived, newton
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.rounding import of_solution
from stodyn.numerics.sparse import FOLLOWED, Elimination, Pattern
from stodyn.problems import sparse_index
from stodyn.problems.calling import call
from stodyn.problems.contract import (
    STRUCTURES,
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    noise_hint,
    returned_shape,
)
from stodyn.problems.explicit import Explicit, Rest
from stodyn.problems.index import (
    CANCELLED,
    START_LIMIT,
    START_TOLERANCE,
    STATES,
    Diagnosis,
    Split,
    coefficients_at,
    components,
    consistent_states,
    diagnose,
    look,
    noise_slopes,
    split,
)
from stodyn.problems.operators import Diagonal, Operator, Sparse, check_memory, returned_noise
from stodyn.problems.sde import SDE, silent
from stodyn.problems.sparsity import (
    Sparsity,
    find_drift_pattern,
    find_sparsity,
    is_constant,
    noise_pattern,
    step_lengths,
)
from stodyn.problems.structure import PROVED, checked_kinds, commutes, kinds_of_operator, proved_kinds, trace_of

ORDINARY = 200.0  # determinants of e^±200 are far from the ends of the range of floats
CHECKED = f"checked at {STATES} random states"
CHECKED_IN_DIRECTIONS = f"checked in random directions at {sparse_index.DIRECTIONS} random states"


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class SDAE(Problem):
    """M dX = drift(t, X) dt + diffusion(t, X) dW (Ito) with a constant, possibly singular M: circuits, mechanisms.

    The index is 1 where the constraints determine the algebraic components. `diagnose(t)` tells whether they do and, if
    not, why; `simulate` asks before a run, and every step watches the Jacobian of the constraints, whose determinant
    must not vanish along a path. The state-space form, an SDE of the differential components alone, is lower(SDE).

    Parameters
    ----------
    mass : array (n, n), or a sparse array of SciPy
        M. Every combination of rows that cancels M is a constraint, even where no row of M is zero.
    drift : function drift(t, x[, params]) -> (n,)
        The right-hand side without noise, written with jax.numpy.
    diffusion : function diffusion(t, x[, params]) -> (n, m) or an operator, or None
        Column k belongs to channel k; None means no noise. Noise must not enter a constraint. Where it would be mostly
        zeros, return `sd.diagonal(vector)` or `sd.sparse(rows, columns, values, shape)`, which are never written out.
    start : array (n,) or random values
        The initial value, or one draw per path as for SDE. Where it does not satisfy the constraints, the algebraic
        part is computed from the differential one; `diagnose` reports how far it moved.
    params, names, units : optional
        As for SDE.
    structure : str, optional
        As for SDE; it describes the noise of the state-space form.

    Raises
    ------
    ValueError
        If shapes do not fit, or M is zero. A run raises it where the index is not 1.

    Examples
    --------
    A capacitor in series with a resistor: the second equation, 0 = 1 - x[0] - x[1], is a constraint.

    >>> import jax.numpy as jnp
    >>> import stodyn as sd
    >>> rc = sd.SDAE([[1.0, 0.0], [0.0, 0.0]], lambda t, x: jnp.array([x[1], 1.0 - x[0] - x[1]]),
    ...              lambda t, x: jnp.array([[0.1], [0.0]]), start=[0.0, 1.0], names=["u", "i"])
    >>> rc.diagnose().index
    1
    """

    mass: Any
    drift: Callable
    diffusion: Any
    start: Any
    params: Any = None
    names: Sequence[str] | None = None
    units: Sequence[str] | Mapping[str, str] | None = None
    structure: str | None = None

    calculus = "ito"
    structure_source: ClassVar[str] = "stated by the user"  # how `structure` is known, where it is
    explicit: ClassVar[Explicit | None] = None  # unknowns that steps need not eliminate, where a problem knows of any

    @property
    def unsolved(self) -> str:  # type: ignore[override]
        """Why the step of a path did not succeed, in words."""
        if self.has_constant_orientation:
            return Problem.unsolved
        return (
            "whose step Newton did not solve, or on which the Jacobian of the constraints became singular, so that the "
            "index is not 1 there"
        )

    @property
    def failure_advice(self) -> str:  # type: ignore[override]
        """Further reasons why paths may fail."""
        if self.has_constant_orientation:
            return ""
        return "No step helps where the index changes: state the equations so that their constraints stay solvable."

    def __post_init__(self):
        if self.structure is not None and self.structure not in STRUCTURES:
            raise ValueError(f"structure: expected one of {STRUCTURES}, got {self.structure!r}")
        if not callable(self.drift):
            raise TypeError(
                f"drift: expected a function drift(t, x[, params]), got {self.drift!r}; the order of the arguments is "
                "SDAE(mass, drift, diffusion, start)"
            )
        check_params(self.params)
        self.derive("sparse_mass", "_noise_shape", "component_units")
        if not self.is_operator:
            check_memory(self.n, self.m)
        if (self.structure == "scalar" and self.m > 1) or (self.structure == "diagonal" and self.r != self.m):
            raise ValueError(
                f"structure: {self.structure!r} is impossible: {self.r} differential component(s), {self.m} channel(s)"
            )

    @functools.cached_property
    def n(self) -> int:  # type: ignore[override]
        example = np.asarray(self.start_source.example("start"))
        if example.ndim != 1 or example.size == 0:
            raise ValueError(f"start: expected a vector per path, got shape {example.shape}")
        return example.size

    @functools.cached_property
    def _given_mass(self) -> Any:
        return _constant(self.mass, self.n)

    @property
    def mass_matrix(self) -> np.ndarray:
        """M (n, n)."""
        return self._given_mass.toarray() if scipy.sparse.issparse(self._given_mass) else self._given_mass

    @functools.cached_property
    def sparse_mass(self) -> scipy.sparse.csr_array:
        """M as a sparse matrix."""
        return scipy.sparse.csr_array(self._given_mass)

    @functools.cached_property
    def _noise_shape(self) -> tuple[int, bool]:
        """The number of channels, and whether the diffusion is never a matrix, after its shape has been checked."""
        arguments = ("t", 0.0), ("x", self.start_source.example("start"))
        with jax.enable_x64(True):
            drift = returned_shape(self, "drift", self.drift, *arguments)
            shape, is_operator = returned_noise(self, self._noise, *arguments)
        if drift.shape != (self.n,):
            raise ValueError(f"drift: returned shape {drift.shape}, expected ({self.n},), the shape of start")
        if len(shape) != 2 or shape[0] != self.n or shape[1] == 0:
            raise ValueError(
                f"diffusion: returned shape {shape}, expected ({self.n}, channels), one row per equation and "
                f"one column per channel{noise_hint(shape, self.n, number='')}."
            )
        return shape[1], is_operator

    @property
    def m(self) -> int:  # type: ignore[override]
        return self._noise_shape[0]

    @property
    def is_operator(self) -> bool:
        """Whether the noise is never a matrix: a diagonal, a sparse one, or known by its products alone."""
        return self._noise_shape[1]

    @property
    def is_large(self) -> bool:
        """Whether the questions before a run are asked of sparse matrices."""
        return self.unknowns > FOLLOWED and self.drift_pattern is not None

    @property
    def unknowns(self) -> int:
        """How many unknowns a step has to eliminate."""
        return self.n if self.explicit is None else self.n - len(self.explicit.stored) - len(self.explicit.filtered)

    @functools.cached_property
    def rest(self) -> Rest | None:
        """The unknowns that are not explicit; None where all have to be eliminated."""
        if self.explicit is None:
            return None
        unordered = Rest(self.explicit, self.split, self.n)
        return unordered.sorted(self._rest_matrices(unordered)) if self.unknowns <= ORDERED else unordered

    @property
    def _noise(self) -> Callable:
        return silent if self.diffusion is None else self.diffusion

    # --- the equations ----------------------------------------------------------------------------------------------

    def f(self, t, x: Array, params) -> Array:
        """The drift (n,)."""
        x = jnp.asarray(x)
        return jnp.asarray(call(self.drift, t, x, params=params), x.dtype)

    def g(self, t, x: Array, params) -> Array:
        """The diffusion (n, m)."""
        multiplier = self.multiplier(t, x, params)
        return multiplier.dense() if isinstance(multiplier, Operator) else multiplier

    def multiplier(self, t, x: Array, params) -> Any:
        """The factor of an increment as `push` takes it: an operator, or the matrix (n, m)."""
        x = jnp.asarray(x)
        noise = call(self._noise, t, x, params=params)
        return noise if isinstance(noise, Operator) else jnp.asarray(noise, x.dtype)

    def row_sums(self, t, x: Array, params) -> Array:
        """g·1 (n,), which depends on a component wherever g does."""
        multiplier = self.multiplier(t, x, params)
        return multiplier @ jnp.ones(self.m, x.dtype) if isinstance(multiplier, Operator) else multiplier.sum(1)

    def noise_entries(self, t, x: Array, params) -> Array:
        """The entries of g at the places of `noise_pattern`, or g itself where there is none."""
        return self._entries(self.multiplier(t, x, params))

    def _entries(self, g: Any) -> Array:
        pattern = self.noise_pattern
        if isinstance(g, Operator):
            return g.dense() if pattern is None else g.sorted_entries
        return g if pattern is None else g[pattern.rows, pattern.columns]

    @functools.cached_property
    def split(self) -> Split:
        """The equations with a derivative, the constraints and the algebraic directions."""
        return sparse_index.split(self.sparse_mass) if self.is_large else split(self.mass_matrix)

    @property
    def r(self) -> int:
        """The rank of M: how many differential components there are."""
        return len(self.split.rows)

    def equations(self, values: Array) -> Array:
        """R v, the rows of v (n, ...) that belong to equations with a derivative."""
        return values if self.r == self.n else values[self.split.rows]

    def constraints(self, values: Array) -> Array:
        """N v, the combinations of rows of v (n, ...) that belong to constraints."""
        N = self.split.N
        if self.is_large:
            if np.all(N.data == 1.0) and N.nnz == N.shape[0]:
                return values[N.indices]
            return self._constraint_pattern.times(jnp.asarray(N.data, values.dtype), values)
        if np.all((N == 0.0) | (N == 1.0)) and np.all(N.sum(axis=1) == 1.0):
            return values[np.argmax(N, axis=1)]
        return jnp.asarray(N, values.dtype) @ values

    @functools.cached_property
    def _constraint_pattern(self) -> Pattern:
        return Pattern.of_csr(self.split.N)

    @property
    def _directions(self) -> np.ndarray:
        """K as a matrix (n, n - r)."""
        return self.split.K.toarray() if self.is_large else self.split.K

    def momentum(self, x: Array) -> Array:
        """R M x (r,): the quantities that the equations with a derivative change."""
        if self.sparsity is not None:
            return self.sparsity.mass.times(jnp.asarray(self.sparsity.mass_values, x.dtype), x)
        return jnp.asarray(self.mass_matrix[self.split.rows], x.dtype) @ x

    def rates(self, params, dtype) -> Callable[[Any, Array], Array]:
        """(t, x) -> f. Where f is affine and sparse it is f(t, 0) + f_x x, where only the product is per path."""
        slopes = self.constant_slopes(params, dtype)
        if slopes is None:
            return lambda t, x: self.f(t, x, params)
        nothing = jnp.zeros(self.n, dtype)
        return lambda t, x: self.f(t, nothing, params) + slopes(x)

    def constant_slopes(self, params, dtype) -> Callable[[Array], Array] | None:
        """x -> f_x x where f is affine and sparse, else None."""
        if self.sparsity is None or not self.is_affine:
            return None
        pattern, nothing = self.sparsity.drift, jnp.zeros(self.n, dtype)
        values = pattern.jacobian(lambda x: self.f(jnp.zeros((), dtype), x, params), nothing)
        return lambda x: pattern.times(values, x)

    def push(self, g: Any, w: Array) -> Array:
        """R g w (r,), g as `multiplier` gives it and w (m,)."""
        pattern = self.noise_pattern
        if pattern is None:
            return self.equations(g @ w) if isinstance(g, Operator) else self.equations(g) @ w
        return self.equations(pattern.times(self._entries(g), w))

    def kicks(self, g: Any) -> Array:
        """(R g)' (m, r): a row for each channel."""
        return self.equations(g.dense() if isinstance(g, Operator) else g).T

    def consistent(self, t, x: Array, params) -> Array:
        """The state with the same M x that satisfies the constraints at time t; NaN where Newton finds none."""
        if self.r == self.n:
            return x
        if self.rest is not None:
            return self._consistent_rest(self.rest, t, x, params)
        if (self.is_large or self.n - self.r > WRITTEN_OUT) and self.sparsity is not None:
            return self._consistent_by(self.sparsity.matrix, t, x, params)
        K = jnp.asarray(self._directions, x.dtype)
        if self.is_affine:
            defect = self.constraints(self.f(t, x, params))
            return x - K @ eliminate(self.orientation(t, x, params), defect, self.row_orders[1])
        root = newton(
            lambda w: self.constraints(self.f(t, x + K @ w, params)),
            jnp.zeros(self.n - self.r, x.dtype),
            tol=START_TOLERANCE,
            limit=START_LIMIT,
            solve=lambda residual, w, r: eliminate(jax.jacfwd(residual)(w), r, self.row_orders[1]),
        )
        return jnp.where(root.ok, x + K @ root.x, jnp.nan)

    def _consistent_by(self, matrix: Elimination, t, x: Array, params) -> Array:
        """The same by the elimination of [R M; N f_x], the matrix of a step of no length."""

        def residual(Z):
            return jnp.concatenate([self.momentum(Z), self.constraints(self.f(t, x + Z, params))])

        nothing = jnp.zeros_like(x)
        if self.is_affine:
            return x - matrix.solve_at(residual, nothing, residual(nothing))
        root = newton(residual, nothing, tol=START_TOLERANCE, limit=START_LIMIT, solve=matrix.solve_at)
        return jnp.where(root.ok, x + root.x, jnp.nan)

    def _consistent_rest(self, rest: Rest, t, x: Array, params) -> Array:
        """The same for the unknowns that are not explicit."""
        filtered = jnp.zeros(len(rest.explicit.filtered), x.dtype)

        def whole(z):
            return rest.completed(lambda x: self.f(t, x, params), x, z, filtered)

        def residual(z):
            Z, drift = whole(z)
            return jnp.concatenate([self.momentum(Z), self.constraints(drift)])[rest.rows]

        stored = jnp.zeros(len(rest.explicit.stored), x.dtype)

        def solve(residual, z, r):
            if self.sparsity is not None:
                return self.sparsity.matrix.solve_at(residual, z, r)
            jacobian = self.rest_matrix(t, x + rest.whole(z, stored, filtered), None, params)
            return eliminate(jacobian, r, self.row_orders[0])

        nothing = jnp.zeros(len(rest.unknowns), x.dtype)
        root = newton(residual, nothing, tol=START_TOLERANCE, limit=START_LIMIT, solve=solve)
        return jnp.where(root.ok, x + whole(root.x)[0], jnp.nan)

    def rest_matrix(self, t, x: Array, a: Any, params) -> Array:
        """The Jacobian of [R M Z - a R f; N f] in the unknowns that are not explicit, at the state x; a may be None."""
        rest = self.rest
        assert rest is not None
        f_x = jax.jacfwd(lambda x: self.f(t, x, params))(x)
        top = jnp.asarray(self.mass_matrix[self.split.rows], x.dtype)
        top = top if a is None else top - a * self.equations(f_x)
        return rest.matrix(jnp.concatenate([top, self.constraints(f_x)]), f_x)

    def orientation(self, t, x: Array, params) -> Array:
        """N f_x K (n - r, n - r), the Jacobian of the constraints in the algebraic directions."""
        K = jnp.asarray(self._directions, x.dtype)
        return jax.jacfwd(lambda w: self.constraints(self.f(t, x + K @ w, params)))(jnp.zeros(K.shape[1], x.dtype))

    # --- before a run -----------------------------------------------------------------------------------------------

    def diagnose(self, t: float = 0.0) -> Diagnosis:
        """Diagnose whether the system is of index 1 at its start and, if not, why.

        Parameters
        ----------
        t : float
            The time of the start.

        Returns
        -------
        problems.index.Diagnosis
        """
        return dataclasses.replace(self).diagnosed(float(t))

    def diagnosed(self, t: float = 0.0) -> Diagnosis:
        """The diagnosis at time t, computed once."""
        if t not in self._diagnoses:
            self._diagnoses[t] = sparse_index.diagnose(self, t) if self.is_large else diagnose(self, t)
        return self._diagnoses[t]

    @functools.cached_property
    def _diagnoses(self) -> dict[float, Diagnosis]:
        return {}

    @functools.cached_property
    def coefficients_at(self) -> Callable:
        """(times, states, params) -> f, ∂f/∂x and g in index.STATES states."""
        return coefficients_at(self)

    def noise_slopes(self, times: np.ndarray, states: np.ndarray) -> np.ndarray:
        """∂g/∂x (S, n, m, n) in index.STATES states."""
        return noise_slopes(self, times, states)

    def before_run(self, t: float) -> tuple[str, ...]:
        diagnosis = self.diagnosed(t)
        if diagnosis.index is None:
            raise ValueError(f"problem: this SDAE cannot be run: {diagnosis.reason}.")
        return (diagnosis.move,) if diagnosis.move else ()

    @functools.cached_property
    def has_constant_orientation(self) -> bool:
        """Whether the determinant of the constraints' Jacobian depends on neither time nor state: proved from the
        trace, entry by entry of those that it depends on."""
        if self.r == self.n:
            return True
        if not self.is_large:
            return self._has_constant_determinant(self.orientation)
        pattern: Any = self.drift_pattern
        _, N, K, _ = self.split
        acting, moving = ((scipy.sparse.csr_array(part) != 0).astype(int) for part in (N, K))
        of_drift = scipy.sparse.csr_array(
            (np.ones(len(pattern.rows), int), (pattern.rows, pattern.columns)), [self.n] * 2
        )
        of_constraints = scipy.sparse.coo_array(acting @ of_drift @ moving)
        counts = determining(of_constraints.row, of_constraints.col, self.n - self.r)
        decisive = scipy.sparse.csr_array((counts.astype(int), of_constraints.coords), of_constraints.shape)
        reached = scipy.sparse.csr_array(acting.T @ decisive @ moving.T)
        return self._has_constant_slopes(np.flatnonzero(reached[pattern.rows, pattern.columns]))

    @functools.cached_property
    def is_affine(self) -> bool:
        """Whether f is affine in x and ∂f/∂x does not depend on time, so that a step is linear: proved by traces."""
        return self._has_constant_derivative(self.f)

    def _has_constant_slopes(self, chosen: Any) -> bool:
        """Whether the entries of ∂f/∂x at chosen places of its pattern depend on neither time nor state."""
        pattern: Any = self.drift_pattern
        return is_constant(
            lambda t, x, p: pattern.jacobian(lambda x: self.f(t, x, p), x)[chosen],
            self.example_start(),
            self.example_params(),
        )

    @functools.cached_property
    def has_affine_noise(self) -> bool:
        """The same for g."""
        if self.noise_structure.implies("additive"):
            return True
        return not (self.is_operator and self.is_large) and self._has_constant_derivative(self.g)

    @functools.cached_property
    def drift_pattern(self) -> Pattern | None:
        """Where ∂f/∂x of many unknowns may differ from zero; None where they are few, or f cannot be taken apart."""
        return find_drift_pattern(self)

    @functools.cached_property
    def sparsity(self) -> Sparsity | None:
        """Which of many unknowns stand in which equation; None where they are few, or the equations full. Its matrix is
        that of the unknowns that are not explicit."""
        return find_sparsity(self)

    @functools.cached_property
    def noisy_sparsity(self) -> Sparsity | None:
        """The same for stages that are implicit in the noise."""
        return find_sparsity(self, implicit_noise=True)

    @functools.cached_property
    def noise_pattern(self) -> Pattern | None:
        """Where g of many unknowns is not zero; None where that is everywhere."""
        return noise_pattern(self)

    def _has_constant_derivative(self, function: Callable) -> bool:
        """Whether a function of (t, x, params) is affine in x with a slope that does not depend on time either."""
        with jax.enable_x64(True):
            if has_jumps(function, self._example(), moving=(1,)):
                return False
        if self.is_large and function == self.f:
            return self._has_constant_slopes(slice(None))
        return self._is_constant(jax.jacfwd(function, argnums=1))

    def _varying(self, function: Callable) -> tuple[np.ndarray, np.ndarray] | None:
        """Which entries of a function's result may differ from zero, and which of them may depend on time or state;
        None where the trace does not show it."""
        with jax.enable_x64(True):
            try:
                (entries,) = dependence(function, *self._example())
            except Unprintable:
                return None
        holds = np.array([isinstance(e, frozenset) or e != 0 for e in entries.ravel()], bool)
        varies = [isinstance(e, frozenset) and any(a in (0, 1) for a, _ in e) for e in entries.ravel()]
        return holds.reshape(entries.shape), np.array(varies, bool).reshape(entries.shape)

    def _is_constant(self, function: Callable) -> bool:
        entries = self._varying(function)
        return entries is not None and not entries[1].any()

    def _has_constant_determinant(self, matrix: Callable) -> bool:
        entries = self._varying(matrix)
        if entries is None:
            return False
        holds, varies = entries
        places = np.nonzero(holds)
        return not np.any(varies[places] & determining(places[0], places[1], len(holds)))

    def _example(self) -> tuple[np.ndarray, np.ndarray, Any]:
        """t, x and params to trace functions with."""
        return np.zeros(()), np.asarray(self.example_start(), float), self.example_params()

    @functools.cached_property
    def row_orders(self) -> tuple[Order, Order]:
        """The order of rows in which the matrices of a step, and the constraint Jacobian, are eliminated.

        Taken once at the start, from the matrix [R M; N f_x] of an infinitely short step: circuits have zeros on their
        diagonals. At t = 0 or, where it is singular there, at a later time. Large matrices are eliminated
        in another way and have no such order. Where unknowns are explicit both are the order of the others.
        """
        if self.rest is not None:
            return (self.rest.row_order,) * 2
        if self.n - self.r > WRITTEN_OUT or (self.is_large and self.sparsity is not None):
            return None, None
        RM, K = self.mass_matrix[self.split.rows], self._directions
        if self.r == self.n:
            return None if self.n > WRITTEN_OUT else _row_order(RM), ()
        for C in self._constraint_slopes():
            with contextlib.suppress(ValueError):
                whole = None if self.n > WRITTEN_OUT else row_order(np.concatenate([RM, C]))
                return whole, row_order(C @ K)
        return None, None

    @property
    def recommended(self) -> Recommended:
        noise = self.noise_structure  # errors at equal cost: benchmarks/sdae_error_at_cost.py
        if noise.implies("scalar") and not noise.implies("additive"):
            return Recommended("RK1A4", "strong order 1 for one channel, at the least error for its cost")
        if noise.implies("commutative"):
            return Recommended("RK1A4M", "strong order 1 for noise that commutes, at the least error for its cost")
        return Recommended("RK1A4MLevy", "strong order 1 with Lévy areas, since the noise does not commute")

    @property
    def stable_methods(self) -> tuple[str, ...]:
        return "Trapezoidal", "ImplicitEuler"

    def without_noise(self, calculus: str | None = None) -> SDAE:
        shape = (self.n, self.m)
        return dataclasses.replace(self, diffusion=lambda t, x: jnp.zeros(shape), structure=None)

    @functools.cached_property
    def determinant_units(self) -> tuple[float, float]:
        """Units in which the determinants of the same two matrices are within the range of floats: 1 where they are
        anyway, else such that they are about 1 at the start. A determinant has the n-th power of a unit of its entries.
        """
        if self.rest is not None:
            return (_determinant_unit(self._rest_matrices(self.rest)[0]),) * 2
        RM = self.mass_matrix[self.split.rows]
        if self.r == self.n:
            return _determinant_unit(RM), 1.0
        C = self._constraint_slopes()[0]
        return _determinant_unit(np.concatenate([RM, C])), _determinant_unit(C @ self._directions)

    def _constraint_slopes(self) -> np.ndarray:
        """N f_x at the start, at t = 0 and at later times."""
        return self.split.N @ self._slopes_at_the_start()

    def _slopes_at_the_start(self) -> np.ndarray:
        times = np.append(0.0, np.geomspace(1e-3, 1e3, STATES - 1))
        return look(self, times, np.tile(self.diagnosed().start, (STATES, 1))).f_x

    def _rest_matrices(self, rest: Rest) -> np.ndarray:
        """Matrices in the unknowns that are not explicit: of infinitely short steps at the same times, then of longer
        ones."""
        rows, N, *_ = self.split
        RM, slopes = self.mass_matrix[rows], self._slopes_at_the_start()
        lengths = np.append(np.zeros(len(slopes)), step_lengths(RM, slopes[0][rows])[1:])
        slopes = np.concatenate([slopes, np.broadcast_to(slopes[0], (len(lengths) - len(slopes), *slopes[0].shape))])
        return np.array([rest.matrix(np.concatenate([RM - a * f_x[rows], N @ f_x]), f_x)
                         for a, f_x in zip(lengths, slopes, strict=True)])  # fmt: skip

    @functools.cached_property
    def noise_structure(self) -> NoiseStructure:
        """The structure of the noise in the state-space form, and how it is known."""
        if self.structure is not None:
            kinds = () if self.structure == "general" else tuple(dict.fromkeys((self.structure, "commutative")))
            return NoiseStructure(kinds, self.structure_source)
        scalar = ("scalar",) if self.m == 1 else ()
        example = self.example_start(), self.example_params()
        with jax.enable_x64(True):
            proved, _ = (
                kinds_of_operator(self.multiplier, *example)
                if self.is_operator
                else proved_kinds(trace_of(self.g, *example))
            )
        if "additive" in proved:
            return NoiseStructure(("additive", *scalar, "commutative"), PROVED)
        if scalar:
            return NoiseStructure(("scalar", "commutative"), PROVED)
        if self.is_large:
            return NoiseStructure(("commutative",) if sparse_index.commutes(self) else (), CHECKED_IN_DIRECTIONS)
        values, slopes = self._sampled_noise()
        special = checked_kinds(values, slopes)
        if special or commutes(values, slopes):
            return NoiseStructure((*special, "commutative"), CHECKED)
        return NoiseStructure((), CHECKED)

    def _sampled_noise(self) -> tuple[np.ndarray, np.ndarray]:
        """R g (states, r, m) and its derivative (states, r, m, r) in R M x, in consistent states around the start."""
        rng = np.random.default_rng(2024)
        x = self.diagnosed().start
        reach = 10.0 ** rng.uniform(-2, 0, (STATES, 1)) * (1.0 + np.abs(x))
        times = 10.0 ** rng.uniform(-2, 2, STATES)
        states = consistent_states(self, times, x + reach * rng.standard_normal((STATES, self.n)))
        looked = look(self, times, states)
        rows, N, *_ = self.split
        matrices = np.concatenate(
            [np.broadcast_to(self.mass_matrix[rows], (STATES, self.r, self.n)), N @ looked.f_x], axis=1
        )
        sound = np.isfinite(matrices).all((1, 2)) & (np.linalg.cond(np.nan_to_num(matrices)) < 1e14)
        matrices = np.where(sound[:, None, None], matrices, np.eye(self.n))
        size = np.abs(matrices).max(axis=2, keepdims=True)
        inverse = np.linalg.inv(matrices / size) / size.mT
        along = inverse[..., : self.r]
        # elimination gives the inverse of a matrix A + δA, |δA| <= 3 n ε |A|, which differs by A⁻¹ δA A⁻¹
        doubt = 3.0 * self.n * np.finfo(float).eps * np.abs(inverse) @ np.abs(matrices) @ np.abs(along)
        g_x = self.noise_slopes(times, states)[:, rows]
        values, slopes = looked.g[:, rows], np.einsum("skmn,snr->skmr", g_x, along)
        rounding = np.einsum("skmn,snr->skmr", np.abs(g_x), CANCELLED * np.abs(along) + doubt)
        slopes = np.where(np.abs(slopes) > rounding, slopes, 0.0)
        values[~sound] = np.nan
        finite = np.isfinite(values).all((1, 2)) & np.isfinite(slopes).all((1, 2, 3))
        return values[finite], slopes[finite]

    # --- the state-space form -----------------------------------------------------------------------------------------

    @functools.cached_property
    def evolving(self) -> Any:
        """(r, n), sparse where the system is large: y = evolving x are the differential components; a component itself
        where that is possible."""
        if self.is_large:
            return sparse_index.evolving(self.sparse_mass, self.split)
        RM = self.mass_matrix[self.split.rows]
        directions = np.linalg.solve(RM[:, self.split.columns], RM) if self.r else RM
        if self.r:
            directions[np.abs(directions) <= of_solution(RM[:, self.split.columns], directions)] = 0.0
        directions[:, self.split.columns] = np.eye(self.r)
        return directions

    @functools.cached_property
    def _evolving_places(self) -> dict[int, int]:
        """Component -> its place among the differential components, of those that are one by themselves."""
        alone = np.flatnonzero(np.diff(scipy.sparse.csr_array(self.evolving).indptr) == 1)
        return {int(self.split.columns[k]): int(k) for k in alone}

    @functools.cached_property
    def _solved_mass(self) -> np.ndarray:
        """S = (R M E)⁻¹, E the columns of the differential components: dY = S R f dt + S R g dW; its diagonal (r,)
        where the system is large and S has no more."""
        block = scipy.sparse.csr_array(self.sparse_mass[self.split.rows][:, self.split.columns])
        if self.is_large and block.nnz == np.count_nonzero(block.diagonal()):
            return 1.0 / block.diagonal()
        return np.linalg.inv(block.toarray())

    def _solved(self, values: Array) -> Array:
        """S R v of v (n, ...)."""
        S, values = jnp.asarray(self._solved_mass, values.dtype), self.equations(values)
        return (values.T * S).T if S.ndim == 1 else S @ values

    def _solved_noise(self, g: Any) -> Any:
        """S R g, an operator where g and S allow it."""
        if self._solved_mass.ndim != 1 or not isinstance(g, Diagonal | Sparse):
            return self._solved(g.dense() if isinstance(g, Operator) else g)
        own = np.arange(self.n)
        rows, columns = (own, own) if isinstance(g, Diagonal) else (g.rows, g.columns)
        place = np.full(self.n, -1)
        place[self.split.rows] = np.arange(self.r)
        solved = np.flatnonzero(place[rows] >= 0)
        values = g.entries[solved] * jnp.asarray(self._solved_mass[place[rows[solved]]], g.entries.dtype)
        if isinstance(g, Diagonal) and self.r == self.n:
            return Diagonal(values)
        return Sparse(place[rows[solved]], columns[solved], values, (self.r, self.m))

    def noise_rows(self, t, x, params, components):
        """Rows of the differential components; constraints may bring noise to the others in other ways."""
        return self._picked(self._solved_noise(self.multiplier(t, x, params)), components)

    def mean_rates(self, t, x, params, components):
        return self._picked(self._solved(self.f(t, x, params)), components)

    def _picked(self, rows: Any, components: Sequence[int]) -> tuple[Array | None, ...]:
        places = self._evolving_places
        row = rows.row if isinstance(rows, Operator) else rows.__getitem__
        return tuple(row(places[i]) if i in places else None for i in components)

    def noise_along(self, t, x, params, weights, components):
        if not self.is_operator:
            return super().noise_along(t, x, params, weights, components)
        return jax.grad(lambda W: weights @ self.noise_push(t, x, params, W))(jnp.zeros(self.m, x.dtype))

    def noise_push(self, t, x, params, W):
        if not self.is_operator:
            return super().noise_push(t, x, params, W)
        moved, places = self._solved_noise(self.multiplier(t, x, params)) @ W, self._evolving_places
        return jnp.zeros(self.n, x.dtype).at[np.array([*places], int)].set(moved[np.array([*places.values()], int)])

    def state(self, t, y: Array, params) -> Array:
        """The state x (n,) at time t whose differential components are y (r,): (y, F(t, y)) of the state-space form."""
        near = self.diagnosed().start
        change = y - jnp.asarray(self.evolving @ near, y.dtype)
        known = jnp.asarray(near, y.dtype).at[self.split.columns].add(change)
        return self.consistent(t, known, params)

    def to_sde(self) -> SDE:
        """The state-space form dY = S f dt + S g dW of the differential components, x from y by Newton."""

        # Drift, noise and each of their derivatives solve for the same x. Traced once, the solution is the same loop in
        # all of them, and a printed program has it once (numerics.printing).
        @jax.jit
        def state(t, y, params):
            with derived():
                return self.state(t, y, params)

        def drift(t, y, params):
            return self._solved(self.f(t, state(t, y, params), params))

        def diffusion(t, y, params):
            return self._solved_noise(self.multiplier(t, state(t, y, params), params))

        names = components(self)[0]
        all_units: Any = self.component_units or {}
        units = {name: all_units[name] for name in names if name in all_units} or None
        start = self.start_source.mapped(lambda rows: (self.evolving @ rows.T).T).argument
        sde = SDE(drift, diffusion, start, self.params, names=names, units=units, structure=self.structure)
        if self.structure is None:  # known already: do not determine it again through every Newton solve
            S, structure = self._solved_mass, self.noise_structure
            mixed = S.ndim == 2 and np.any(np.diag(np.diagonal(S)) != S)
            kinds = tuple(kind for kind in structure.kinds if kind != "diagonal" or not mixed)
            vars(sde)["noise_structure"] = NoiseStructure(kinds, structure.known)
        return sde


def _constant(mass: Any, n: int) -> np.ndarray:
    if callable(mass):
        raise TypeError(
            "mass: expected a constant matrix, got a function. A mass that varies with time or state, M(t, x) dX, is "
            "not of this class: divide by it where it is regular, or take the charge q = q(x) as a component of its "
            "own with the constraint 0 = q - q(x)."
        )
    try:
        is_sparse = scipy.sparse.issparse(mass)
        fixed = isinstance(mass, np.ndarray) and not mass.flags.writeable  # a large one need not be copied
        matrix: Any = (
            scipy.sparse.csr_array(mass, dtype=float, copy=True)
            if is_sparse
            else np.asarray(mass, float)
            if fixed
            else np.array(mass, float)
        )
    except (TypeError, ValueError):
        raise TypeError(f"mass: expected a matrix of numbers of shape ({n}, {n}), got {mass!r}") from None
    if matrix.shape != (n, n):
        raise ValueError(f"mass: expected shape ({n}, {n}), as start has {n} components, got shape {matrix.shape}")
    if is_sparse:
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    numbers = matrix.data if is_sparse else matrix
    if not np.isfinite(numbers).all():
        raise ValueError(f"mass: expected finite numbers, got\n{matrix}")
    if not numbers.any():
        raise ValueError("mass: is zero, so that nothing evolves; expected at least one nonzero entry")
    return matrix


def _row_order(matrix: np.ndarray) -> tuple[int, ...]:
    try:
        return row_order(matrix)
    except ValueError:
        return tuple(range(len(matrix)))


def _determinant_unit(matrix: np.ndarray) -> float:
    size = np.linalg.slogdet(matrix)[1]
    return 1.0 if abs(size) < ORDINARY or not np.isfinite(size) else float(np.exp(size / len(matrix)))
