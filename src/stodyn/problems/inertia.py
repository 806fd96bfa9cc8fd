"""A constant mass matrix M: solving with it, and the coordinates that it leaves without inertia."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy
from jax import Array

from stodyn.numerics import elimination
from stodyn.problems.index import is_diagonal, split

MOST_ROWS = 240  # of a mass whose factors are written out because few of their entries are not zero: twenty bodies
ASYMMETRIC = 1e-9  # relative, a choice: the asymmetry and the negative part that a mass may have; files have ten digits


@dataclasses.dataclass(frozen=True, eq=False)
class Inertia:
    """M x'' = f as R M E y'' = R f and 0 = N f, where x = E y + K z and M K = 0, N M = 0.

    y (r,) has inertia, z (N - r,) has none. R picks rows of equations, E puts y among the coordinates. Of a regular M
    there is no z, and R and E are 1.
    """

    M: np.ndarray

    @functools.cached_property
    def parts(self):
        """rows (those that R picks), N, K and columns (the coordinates that are y)."""
        return split(self.M)

    @property
    def r(self) -> int:
        return len(self.parts.rows)

    @property
    def is_regular(self) -> bool:
        return self.r == len(self.M)

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """The regular matrix R M E."""
        return self.M if self.is_regular else self.M[np.ix_(self.parts.rows, self.parts.columns)]

    @functools.cached_property
    def coordinates(self) -> np.ndarray:
        """The basis [E K] of the coordinates (y, z)."""
        return np.concatenate([np.eye(len(self.M))[:, self.parts.columns], self.parts.K], axis=1)

    def split(self, x: Array) -> tuple[Array, Array]:
        """The coordinates y and z of x."""
        if self.is_regular:
            return x, x[:0]
        both = _times(np.linalg.inv(self.coordinates), x)
        return both[: self.r], both[self.r :]

    def joined(self, y: Array, z: Array) -> Array:
        """The x that has the coordinates y and z."""
        return y if self.is_regular else _times(self.coordinates, jnp.concatenate([y, z]))

    def with_inertia(self, values: Array) -> Array:
        """R values, for values (N,) or (N, m)."""
        return values if self.is_regular else _times(np.eye(len(self.M))[self.parts.rows], values)

    def without(self, values: Array) -> Array:
        """N v, the combinations of rows of v without mass."""
        return values[:0] if self.is_regular else _times(self.parts.N, values)

    @functools.cached_property
    def diagonal(self) -> np.ndarray | None:
        """The diagonal of R M E where there is nothing else in it."""
        return np.diagonal(self.matrix) if is_diagonal(self.matrix) else None

    def times(self, a: Array) -> Array:
        """R M E a, for a (r,)."""
        if self.diagonal is None:
            return jnp.asarray(self.matrix, a.dtype) @ a
        return jnp.asarray(self.diagonal, a.dtype) * a

    @functools.cached_property
    def _factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P, L and U of R M E: of blocks, as of bodies that follow each other, they have few entries."""
        return scipy.linalg.lu(self.matrix)

    def solve(self, right: Array) -> Array:
        """(R M E)⁻¹ right, for right (r,) or (r, m), by factors computed once; written out where these are few."""
        A, dtype = self.matrix, right.dtype
        if self.diagonal is not None:
            diagonal = jnp.asarray(self.diagonal, dtype)
            return right / (diagonal if right.ndim == 1 else diagonal[:, None])
        P, L, U = self._factors
        entries, few = np.count_nonzero(L) + np.count_nonzero(U), elimination.WRITTEN_OUT
        if len(A) > few and (len(A) > MOST_ROWS or entries > few * len(A)):
            lu, pivots = scipy.linalg.lu_factor(A)
            return jax.scipy.linalg.lu_solve((jnp.asarray(lu, dtype), jnp.asarray(pivots)), right)
        rows = [right[i] for i in np.argmax(P, axis=0)]
        for i in range(len(A)):
            rows[i] = sum((-float(L[i, j]) * rows[j] for j in range(i) if L[i, j]), rows[i])
        for i in reversed(range(len(A))):
            known = (-float(U[i, j]) * rows[j] for j in range(i + 1, len(A)) if U[i, j])
            rows[i] = sum(known, rows[i]) / float(U[i, i])
        return jnp.stack(rows)


def is_positive_definite(M: Array) -> Array:
    """Whether a mass (N, N) is symmetric and all its pivots are above 0, as those of a positive definite matrix are."""
    asymmetric = max(ASYMMETRIC, 100.0 * float(jnp.finfo(M.dtype).eps))
    is_symmetric = jnp.max(jnp.abs(M - M.T)) <= asymmetric * jnp.max(jnp.abs(M))
    if len(M) > elimination.WRITTEN_OUT:
        return is_symmetric & jnp.all(jnp.isfinite(jnp.linalg.cholesky(M, symmetrize_input=False)))
    is_positive = M[0, 0] > 0.0
    while len(M) > 1:
        M = M[1:, 1:] - M[1:, :1] * M[:1, 1:] / M[0, 0]
        is_positive = is_positive & (M[0, 0] > 0.0)
    return is_symmetric & is_positive


def constant_mass(mass: Any, N: int) -> np.ndarray:
    """Return the matrix (N, N) of a mass that does not depend on the state; refuse what cannot be one."""
    try:
        M = np.asarray(mass, float)
    except (TypeError, ValueError):
        M = np.empty(0)
    if M.ndim < 2:
        M = np.diag(M.reshape(-1))
    if M.shape != (N, N) or not np.isfinite(M).all():
        raise ValueError(
            f"mass: expected {N} finite numbers (a diagonal), a finite ({N}, {N}) matrix or a function, got {mass!r}"
        )
    if not M.any():
        raise ValueError("mass: is zero, so nothing has inertia; write the equations as stodyn.SDE or SDAE")
    check_mass(M, "is")
    return M


def check_mass(M: np.ndarray, which: str) -> None:
    """Refuse a mass that is not symmetric, or negative in some direction; `which` begins what is said of it."""
    size = np.abs(M).max()
    if np.abs(M - M.T).max() > ASYMMETRIC * size:
        i, j = np.unravel_index(np.argmax(np.abs(M - M.T)), M.shape)
        raise ValueError(
            f"mass: {which} not symmetric, entry ({i}, {j}) is {M[i, j]:g} and ({j}, {i}) is {M[j, i]:g}; a mass "
            "matrix is symmetric, since only its symmetric part enters the energy v'Mv/2. Equations "
            "multiplied by another matrix are written as stodyn.SDAE"
        )
    if (least := (np.diagonal(M).min() if is_diagonal(M) else np.linalg.eigvalsh(M)[0])) < -ASYMMETRIC * size:
        raise ValueError(
            f"mass: {which} negative in some direction (its lowest eigenvalue is {least:g}), so that a body pushed one "
            "way is accelerated the other way, and paths run away. Give masses >= 0"
        )


def _times(matrix: np.ndarray, values: Array) -> Array:
    """matrix @ values; rows that only pick entries cost nothing."""
    if not (np.all((matrix == 0.0) | (matrix == 1.0)) and np.all(matrix.sum(axis=1) == 1.0)):
        return jnp.asarray(matrix, values.dtype) @ values
    picked = np.argmax(matrix, axis=1)
    first, last = int(picked[0]), int(picked[-1]) + 1
    return values[first:last] if np.array_equal(picked, np.arange(first, last)) else values[picked]
