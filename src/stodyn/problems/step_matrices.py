"""The matrices of an SDAE and the products with them that the steps of methods are made of."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.numerics.elimination import WRITTEN_OUT, Order, row_order
from stodyn.problems.explicit import rest_samples, slopes_at_the_start
from stodyn.problems.facts import Facts, orientation
from stodyn.problems.operators import Operator, entries_at

ORDINARY = 200.0  # determinants of e^±200 are far from the ends of the range of floats


@dataclasses.dataclass(frozen=True, eq=False)
class StepMatrices:
    """What a step takes from an SDAE, beside f and g: R M, N, f_x and products with them, and how they are eliminated.

    M dX = f dt + g dW falls into R M dX = R f dt + R g dW and the constraints 0 = N f (problems.index.Split).
    """

    problem: Any
    facts: Facts

    def equations(self, values: Array) -> Array:
        """R v, the rows of v (n, ...) that belong to equations with a derivative."""
        return self.facts.split.equations(values)

    def constraints(self, values: Array) -> Array:
        """N v, the combinations of rows of v (n, ...) that belong to constraints."""
        return self.facts.split.constraints(values)

    def momentum(self, x: Array) -> Array:
        """R M x (r,): the quantities that the equations with a derivative change."""
        sparsity = self.facts.sparsity
        if sparsity is not None:
            return sparsity.mass.times(jnp.asarray(sparsity.mass_values, x.dtype), x)
        return jnp.asarray(self.problem.mass_matrix[self.facts.split.rows], x.dtype) @ x

    def rates(self, params, dtype) -> Callable[[Any, Array], Array]:
        """(t, x) -> f. Where f is affine and sparse it is f(t, 0) + f_x x, where only the product is per path."""
        problem, slopes = self.problem, self.constant_slopes(params, dtype)
        if slopes is None:
            return lambda t, x: problem.f(t, x, params)
        nothing = jnp.zeros(problem.n, dtype)
        return lambda t, x: problem.f(t, nothing, params) + slopes(x)

    def constant_slopes(self, params, dtype) -> Callable[[Array], Array] | None:
        """x -> f_x x where f is affine and sparse, else None."""
        if self.facts.sparsity is None or not self.facts.is_affine:
            return None
        pattern, nothing = self.facts.sparsity.drift, jnp.zeros(self.problem.n, dtype)
        values = pattern.jacobian(lambda x: self.problem.f(jnp.zeros((), dtype), x, params), nothing)
        return lambda x: pattern.times(values, x)

    def push(self, g: Any, w: Array) -> Array:
        """R g w (r,), g as `SDAE.multiplier` gives it and w (m,)."""
        pattern = self.facts.noise_pattern
        if pattern is None:
            return self.equations(g @ w) if isinstance(g, Operator) else self.equations(g) @ w
        return self.equations(pattern.times(entries_at(pattern, g), w))

    def kicks(self, g: Any) -> Array:
        """(R g)' (m, r): a row for each channel."""
        return self.equations(g.dense() if isinstance(g, Operator) else g).T

    def orientation(self, t, x: Array, params) -> Array:
        """N f_x K (n - r, n - r), the Jacobian of the constraints in the algebraic directions."""
        return orientation(self.problem, t, x, params)

    @functools.cached_property
    def of_rest(self) -> Any:
        """(x, a, params) -> the Jacobian of [R M Z - a R f; N f] in the unknowns that are not explicit; a may be None.

        A kind of problem with explicit unknowns brings it.
        """
        return self.problem.known.rest_matrix(self.facts.split, self.facts.rest)

    @functools.cached_property
    def row_orders(self) -> tuple[Order, Order]:
        """The order of rows in which the matrices of a step, and the constraint Jacobian, are eliminated.

        Taken once at the start, from the matrix [R M; N f_x] of an infinitely short step: circuits have zeros on their
        diagonals. At t = 0 or, where it is singular there, at a later time. Large matrices are eliminated
        in another way and have no such order. Where unknowns are explicit both are the order of the others.
        """
        facts, n, r = self.facts, self.problem.n, self.facts.split.r
        if facts.rest is not None:
            return (facts.rest.row_order,) * 2
        if n - r > WRITTEN_OUT or (facts.is_large and facts.sparsity is not None):
            return None, None
        RM, K = self.problem.mass_matrix[facts.split.rows], facts.split.directions
        if r == n:
            return None if n > WRITTEN_OUT else _row_order(RM), ()
        for C in self._constraint_slopes:
            with contextlib.suppress(ValueError):
                whole = None if n > WRITTEN_OUT else row_order(np.concatenate([RM, C]))
                return whole, row_order(C @ K)
        return None, None

    @property
    def _constraint_slopes(self) -> np.ndarray:
        """N f_x at the start, at t = 0 and at later times; N is sparse in large systems."""
        N = self.facts.split.N
        return (N.toarray() if scipy.sparse.issparse(N) else N) @ slopes_at_the_start(self.problem)

    @functools.cached_property
    def determinant_units(self) -> tuple[float, float]:
        """Units in which the determinants of the same two matrices are within the range of floats: 1 where they are
        anyway, else such that they are about 1 at the start. A determinant has the n-th power of a unit of its entries.
        """
        rest, split = self.facts.rest, self.facts.split
        if rest is not None:
            return (_determinant_unit(rest_samples(self.problem, rest)[0]),) * 2
        RM = self.problem.mass_matrix[split.rows]
        if split.r == self.problem.n:
            return _determinant_unit(RM), 1.0
        C = self._constraint_slopes[0]
        return _determinant_unit(np.concatenate([RM, C])), _determinant_unit(C @ split.directions)


def _row_order(matrix: np.ndarray) -> tuple[int, ...]:
    try:
        return row_order(matrix)
    except ValueError:
        return tuple(range(len(matrix)))


def _determinant_unit(matrix: np.ndarray) -> float:
    size = np.linalg.slogdet(matrix)[1]
    return 1.0 if abs(size) < ORDINARY or not np.isfinite(size) else float(np.exp(size / len(matrix)))
