"""Stochastic differential-algebraic equations M dX = f(t, X) dt + g(t, X) dW of index 1 (Ito)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.arguments import checks_arguments
from stodyn.problems.calling import call
from stodyn.problems.consistent import consistent
from stodyn.problems.contract import (
    STATED,
    AsNow,
    NoiseStructure,
    Problem,
    Recommended,
    check_params,
    conversions,
    derive,
    kind_named,
    noise_hint,
    returned_shape,
)
from stodyn.problems.facts import Facts, Known, facts_of
from stodyn.problems.index import Diagnosis
from stodyn.problems.operators import Operator, check_memory, returned_noise, silent
from stodyn.problems.state_space import StateSpace, find_noise_structure
from stodyn.problems.step_matrices import StepMatrices
from stodyn.telling import tell
from stodyn.warnings import StartMoved

if TYPE_CHECKING:
    from stodyn.problems.sde import SDE

FAR = 0.1  # of the largest component of a start: a component that is moved by more to be consistent causes a warning


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
        part is computed from the differential one. `diagnose` reports how far it moved, and a run warns where a
        component that is not 0 moves by more than a tenth of the largest.
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
    records = ("facts", "matrices", "state_space")
    known: ClassVar[Known] = Known()  # what a kind of SDAE knows about its equations by itself

    @property
    def unsolved(self) -> str:  # type: ignore[override]
        """Why the step of a path did not succeed, in words."""
        if self.facts.has_constant_orientation:
            return Problem.unsolved
        return (
            "whose step Newton did not solve, or on which the Jacobian of the constraints became singular, so that the "
            "index is not 1 there"
        )

    @property
    def failure_advice(self) -> str:  # type: ignore[override]
        """Further reasons why paths may fail."""
        if self.facts.has_constant_orientation:
            return ""
        return "No step helps where the index changes: state the equations so that their constraints stay solvable."

    def __post_init__(self):
        if self.structure is not None and self.structure not in STATED:
            raise ValueError(f"structure: expected one of {STATED}, got {self.structure!r}")
        if not callable(self.drift):
            raise TypeError(
                f"drift: expected a function drift(t, x[, params]), got {self.drift!r}; the order of the arguments is "
                "SDAE(mass, drift, diffusion, start)"
            )
        check_params(self.params)
        derive(self, "sparse_mass", "_noise_shape", "component_units")
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
        return _constant(self.mass, self.n, self.known.is_static)

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

    # --- what is known about them -----------------------------------------------------------------------------------

    @functools.cached_property
    def facts(self) -> Facts:
        """What is proved about the equations: constraints, index, zeros, what is constant."""
        return facts_of(self)

    @functools.cached_property
    def matrices(self) -> StepMatrices:
        """The matrices, and products with them, that a step takes."""
        return StepMatrices(self, self.facts)

    @functools.cached_property
    def state_space(self) -> StateSpace:
        """The equations of the differential components."""
        return StateSpace(self, self.facts)

    @property
    def writes_out(self) -> bool:  # type: ignore[override]
        """Whether the unknowns that are not explicit are eliminated in an order that keeps most zeros."""
        rest = self.facts.rest
        return rest is not None and rest.row_order is not None

    @property
    def r(self) -> int:
        """The rank of M: how many differential components there are."""
        return self.facts.split.r

    def constraints(self, values: Array) -> Array:
        """N v, the combinations of rows of v (n, ...) that belong to constraints."""
        return self.facts.split.constraints(values)

    def push(self, g: Any, w: Array) -> Array:
        """R g w (r,), g as `multiplier` gives it and w (m,)."""
        return self.matrices.push(g, w)

    def consistent(self, t, x: Array, params) -> Array:
        """The state with the same M x that satisfies the constraints at time t; NaN where Newton finds none."""
        return consistent(self, t, x, params)

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
        return dataclasses.replace(self).facts.diagnosed(float(t))

    def before_run(self, t: float, may_move: bool = False) -> tuple[str, ...]:
        """What is done to the start; it may move far without a warning where only its M x is meant."""
        diagnosis = self.facts.diagnosed(t)
        if diagnosis.index is None:
            raise ValueError(f"problem: this SDAE cannot be run: {diagnosis.reason}.")
        start, moved = self.example_start(), np.abs(list(diagnosis.moved.values()))
        is_far = np.any(moved[start != 0.0] > FAR * np.abs(start).max())  # 0 is written where it is not known
        # With random params the constraints of each path have places of their own.
        if is_far and not self.has_random_params and not may_move:
            tell(f"start: {diagnosis.move}", StartMoved)
        return (diagnosis.move,) if diagnosis.move else ()

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
    def examined_structure(self) -> NoiseStructure:
        """The structure of the noise by its functions, whatever is stated of it."""
        return dataclasses.replace(self, structure=None).noise_structure

    @AsNow
    def noise_structure(self) -> NoiseStructure:
        """The structure of the noise in the state-space form, and how it is known."""
        return find_noise_structure(self)

    def to_sde(self) -> SDE:
        """The state-space form dY = S f dt + S g dW of the differential components, an SDE with x from y by Newton."""
        lowered: Any = conversions[SDAE, kind_named("SDE")](self)
        if lowered is None:
            raise ValueError("mass: is zero, so that nothing evolves; expected at least one nonzero entry")
        return lowered[0]

    # --- how the components move ------------------------------------------------------------------------------------

    def noise_rows(self, t, x, params, components):
        """Rows of the differential components; constraints may bring noise to the others in other ways."""
        form = self.state_space
        return form.picked(form.solved_noise(self.multiplier(t, x, params)), components)

    def mean_rates(self, t, x, params, components):
        return self.state_space.picked(self.state_space.solved(self.f(t, x, params)), components)

    def noise_along(self, t, x, params, weights, components):
        if not self.is_operator:
            return super().noise_along(t, x, params, weights, components)
        return jax.grad(lambda W: weights @ self.noise_push(t, x, params, W))(jnp.zeros(self.m, x.dtype))

    def noise_push(self, t, x, params, W):
        if not self.is_operator:
            return super().noise_push(t, x, params, W)
        return self.state_space.spread(self.state_space.solved_noise(self.multiplier(t, x, params)) @ W)


def _constant(mass: Any, n: int, may_be_zero: bool) -> np.ndarray:
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
    if not numbers.any() and not may_be_zero:
        raise ValueError("mass: is zero, so that nothing evolves; expected at least one nonzero entry")
    return matrix
