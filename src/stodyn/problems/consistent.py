"""Consistent states of an SDAE within a trace: the state with the same M x that satisfies the constraints."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.elimination import solve as eliminate
from stodyn.numerics.newton import newton
from stodyn.numerics.sparse import Elimination
from stodyn.problems.explicit import Rest
from stodyn.problems.index import START_LIMIT, START_TOLERANCE


def consistent(problem: Any, t, x: Array, params) -> Array:
    """The state with the same M x that satisfies the constraints at time t; NaN where Newton finds none."""
    facts, matrices = problem.facts, problem.matrices
    free = problem.n - facts.split.r
    if not free:
        return x
    if facts.rest is not None:
        return _of_the_rest(problem, facts.rest, t, x, params)
    if (facts.is_large or free > WRITTEN_OUT) and facts.sparsity is not None:
        return _by_sparse_elimination(problem, facts.sparsity.matrix, t, x, params)
    K = jnp.asarray(facts.split.directions, x.dtype)
    if facts.is_affine:
        defect = matrices.constraints(problem.f(t, x, params))
        return x - K @ eliminate(matrices.orientation(t, x, params), defect, matrices.row_orders[1])
    root = newton(
        lambda w: matrices.constraints(problem.f(t, x + K @ w, params)),
        jnp.zeros(free, x.dtype),
        tol=START_TOLERANCE,
        limit=START_LIMIT,
        solve=lambda residual, w, r: eliminate(jax.jacfwd(residual)(w), r, matrices.row_orders[1]),
    )
    return jnp.where(root.ok, x + K @ root.x, jnp.nan)


def _by_sparse_elimination(problem: Any, matrix: Elimination, t, x: Array, params) -> Array:
    """The consistent state by the elimination of [R M; N f_x], the matrix of a step of no length."""
    matrices = problem.matrices

    def residual(Z):
        return jnp.concatenate([matrices.momentum(Z), matrices.constraints(problem.f(t, x + Z, params))])

    nothing = jnp.zeros_like(x)
    if problem.facts.is_affine:
        return x - matrix.solve_at(residual, nothing, residual(nothing))
    root = newton(residual, nothing, tol=START_TOLERANCE, limit=START_LIMIT, solve=matrix.solve_at)
    return jnp.where(root.ok, x + root.x, jnp.nan)


def _of_the_rest(problem: Any, rest: Rest, t, x: Array, params) -> Array:
    """The consistent state by the elimination of the unknowns that are not explicit."""
    matrices, sparsity = problem.matrices, problem.facts.sparsity
    filtered = jnp.zeros(len(rest.explicit.filtered), x.dtype)

    def whole(z):
        return rest.completed(lambda x: problem.f(t, x, params), x, z, filtered)

    def residual(z):
        Z, drift = whole(z)
        return jnp.concatenate([matrices.momentum(Z), matrices.constraints(drift)])[rest.rows]

    stored = jnp.zeros(len(rest.explicit.stored), x.dtype)

    def solve(residual, z, r):
        if sparsity is not None:
            return sparsity.matrix.solve_at(residual, z, r)
        jacobian = matrices.of_rest(x + rest.whole(z, stored, filtered), None, params)
        return eliminate(jacobian, r, matrices.row_orders[0])

    nothing = jnp.zeros(len(rest.unknowns), x.dtype)
    root = newton(residual, nothing, tol=START_TOLERANCE, limit=START_LIMIT, solve=solve)
    return jnp.where(root.ok, x + whole(root.x)[0], jnp.nan)
