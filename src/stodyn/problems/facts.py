"""What is proved about an SDAE before it is stepped: its constraints, its index, its zeros, and what is constant."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy

from stodyn.numerics.block_triangular import determining
from stodyn.numerics.facts.degree import has_jumps
from stodyn.numerics.facts.dependence import FOLLOWED, arguments_of, dependence
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.sparse import Pattern
from stodyn.problems import index
from stodyn.problems.contract import example_arguments
from stodyn.problems.explicit import Explicit, Rest, find_rest
from stodyn.problems.index import Diagnosis, Split
from stodyn.problems.sparsity import Sparsity, find_drift_pattern, find_sparsity, find_varying, noise_pattern


@dataclasses.dataclass(frozen=True)
class Known:
    """What a kind of SDAE knows about its equations by itself; None where traces have to show it.

    is_static      whether nothing evolves, so that M may be zero
    is_affine      whether f is affine in x, with a slope that does not depend on time
    orientation    (split) -> whether the determinant of the constraints' Jacobian keeps its sign
    explicit       the unknowns that steps need not eliminate
    coefficients   (times, states, params) -> f, ∂f/∂x and g in index.STATES states
    noise_slopes   (times, states, params) -> ∂g/∂x in index.STATES states
    rest_matrix    (split, rest) -> a function (x, a, params) for the matrix of a step in the unknowns of the rest
    noise          how the stated structure of the noise is known
    memories       the switches that change within a step, by what they remember
    lines          the names of its ideal lines, which delay signals
    """

    is_static: bool = False
    is_affine: bool | None = None
    orientation: Callable[[Split], bool] | None = None
    explicit: Explicit | None = None
    coefficients: Callable | None = None
    noise_slopes: Callable | None = None
    rest_matrix: Callable[[Split, Rest], Callable] | None = None
    noise: str = "stated by the user"
    memories: Any = None
    lines: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """The facts about an SDAE, each found out when it is first asked for and never again."""

    problem: Any

    @property
    def unknowns(self) -> int:
        """How many unknowns a step has to eliminate."""
        explicit = self.problem.known.explicit
        return self.problem.n if explicit is None else self.problem.n - len(explicit.stored) - len(explicit.filtered)

    @property
    def is_large(self) -> bool:
        """Whether the questions before a run are asked of sparse matrices."""
        return self.unknowns > FOLLOWED and self.drift_pattern is not None

    @property
    def _mass(self) -> Any:
        return self.problem.sparse_mass if self.is_large else self.problem.mass_matrix

    @functools.cached_property
    def split(self) -> Split:
        """The equations with a derivative, the constraints and the algebraic directions."""
        return index.split(self._mass)

    @functools.cached_property
    def evolving(self) -> Any:
        """(r, n), sparse where the system is large: y = evolving x are the differential components."""
        return index.evolving(self._mass, self.split)

    @functools.cached_property
    def diagnoses(self) -> dict[float, Diagnosis]:
        """The diagnoses made so far, by the time of the start."""
        return {}

    def diagnosed(self, t: float = 0.0) -> Diagnosis:
        """The diagnosis at time t, made once."""
        if t not in self.diagnoses:
            self.diagnoses[t] = index.diagnose(self.problem, t)
        return self.diagnoses[t]

    @functools.cached_property
    def coefficients_at(self) -> Callable:
        """(times, states, params) -> f, ∂f/∂x and g in index.STATES states."""
        return self.problem.known.coefficients or index.coefficients_at(self.problem)

    @functools.cached_property
    def rest(self) -> Rest | None:
        """The unknowns that are not explicit; None where all have to be eliminated."""
        return find_rest(self.problem)

    # --- zeros --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def drift_pattern(self) -> Pattern | None:
        """Where ∂f/∂x of many unknowns may differ from zero; None where they are few, or f cannot be taken apart."""
        return find_drift_pattern(self.problem)

    @functools.cached_property
    def noise_pattern(self) -> Pattern | None:
        """Where g of many unknowns is not zero; None where that is everywhere."""
        return noise_pattern(self.problem)

    @functools.cached_property
    def sparsity(self) -> Sparsity | None:
        """Which of many unknowns stand in which equation; None where they are few, or the equations full. Its matrix is
        that of the unknowns that are not explicit."""
        return find_sparsity(self.problem)

    @functools.cached_property
    def noisy_sparsity(self) -> Sparsity | None:
        """The sparsity of stages that are implicit in the noise."""
        return find_sparsity(self.problem, implicit_noise=True)

    # --- what is constant ---------------------------------------------------------------------------------------------

    @functools.cached_property
    def is_affine(self) -> bool:
        """Whether f is affine in x and ∂f/∂x does not depend on time, so that a step is linear."""
        if self.problem.known.is_affine is not None:
            return self.problem.known.is_affine
        if _jumps(self.problem, self.problem.f):
            return False
        return (
            self._has_constant_slopes(slice(None))
            if self.is_large
            else _has_constant_derivative(self.problem, self.problem.f)
        )

    @functools.cached_property
    def has_affine_noise(self) -> bool:
        """Whether g is affine in x and ∂g/∂x does not depend on time."""
        if self.problem.noise_structure.implies("additive"):
            return True
        if self.problem.is_operator and self.is_large:
            return False
        g = self.problem.g
        return not _jumps(self.problem, g) and _has_constant_derivative(self.problem, g)

    @functools.cached_property
    def has_differential_noise(self) -> bool:
        """Whether g is proved not to depend on the algebraic components, so that it needs no solution for them."""
        if self.is_large or self.split.r == self.problem.n:
            return False
        K, (t, x, params) = self.split.directions, example_arguments(self.problem)
        try:
            free = np.zeros(K.shape[1])
            return 0 not in arguments_of(lambda w, t, x, p: self.problem.g(t, x + K @ w, p), free, t, x, params)
        except Unprintable:
            return False

    @functools.cached_property
    def has_constant_orientation(self) -> bool:
        """Whether the determinant of the constraints' Jacobian depends on neither time nor state, by the entries that
        it depends on."""
        if self.problem.known.orientation is not None:
            return self.problem.known.orientation(self.split)
        if self.split.r == self.problem.n:
            return True
        if self.is_large:
            return self._has_constant_slopes(_decisive_slopes(self.split, self.drift_pattern))
        return _has_constant_determinant(self.problem, functools.partial(orientation, self.problem))

    @functools.cached_property
    def varying_slopes(self) -> np.ndarray | None:
        """Which entries of ∂f/∂x, at the places of its pattern, depend on time or state; None where that is unknown."""
        pattern: Any = self.drift_pattern
        return find_varying(
            lambda t, x, p: pattern.jacobian(lambda x: self.problem.f(t, x, p), x),
            self.problem.example_start(),
            self.problem.example_params(),
        )

    def _has_constant_slopes(self, chosen: Any) -> bool:
        """Whether the entries of ∂f/∂x at chosen places of its pattern depend on neither time nor state."""
        return self.varying_slopes is not None and not self.varying_slopes[chosen].any()


def facts_of(problem: Any) -> Facts:
    """Return the record of what is proved about an SDAE."""
    return Facts(problem)


def orientation(problem: Any, t, x: jax.Array, params) -> jax.Array:
    """N f_x K (n - r, n - r), the Jacobian of the constraints in the algebraic directions."""
    split = problem.facts.split
    K = jax.numpy.asarray(split.directions, x.dtype)
    return jax.jacfwd(lambda w: split.constraints(problem.f(t, x + K @ w, params)))(
        jax.numpy.zeros(K.shape[1], x.dtype)
    )


def _jumps(problem: Any, function: Callable) -> bool:
    with jax.enable_x64(True):
        return has_jumps(function, example_arguments(problem), moving=(1,))


def _varying(problem: Any, function: Callable) -> tuple[np.ndarray, np.ndarray] | None:
    """Which entries of a function's result may differ from zero, and which of them may depend on time or state; None
    where the trace does not show it."""
    with jax.enable_x64(True):
        try:
            entries = dependence(function, *example_arguments(problem))
        except Unprintable:
            return None
    return ~entries.zero, entries.varies((0, 1))


def _has_constant_derivative(problem: Any, function: Callable) -> bool:
    entries = _varying(problem, jax.jacfwd(function, argnums=1))
    return entries is not None and not entries[1].any()


def _has_constant_determinant(problem: Any, matrix: Callable) -> bool:
    entries = _varying(problem, matrix)
    if entries is None:
        return False
    holds, varies = entries
    places = np.nonzero(holds)
    return not np.any(varies[places] & determining(places[0], places[1], len(holds)))


def _decisive_slopes(split: Split, pattern: Any) -> np.ndarray:
    """The places in the pattern of ∂f/∂x on which the determinant of the constraints' Jacobian depends."""
    n = pattern.shape[0]
    acting, moving = ((scipy.sparse.csr_array(part) != 0).astype(int) for part in (split.N, split.K))
    of_drift = scipy.sparse.csr_array((np.ones(len(pattern.rows), int), (pattern.rows, pattern.columns)), (n, n))
    of_constraints = scipy.sparse.coo_array(acting @ of_drift @ moving)
    counts = determining(of_constraints.row, of_constraints.col, n - split.r)
    decisive = scipy.sparse.csr_array((counts.astype(int), of_constraints.coords), of_constraints.shape)
    reached = scipy.sparse.csr_array(acting.T @ decisive @ moving.T)
    return np.flatnonzero(reached[pattern.rows, pattern.columns])
