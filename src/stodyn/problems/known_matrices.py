"""What a step needs of a structure whose M, C and K are known: products, solves, and how their sum is eliminated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.numerics.sparse import Elimination, Pattern, find_order
from stodyn.problems.inertia import Inertia

FULL = 0.25  # of the places of a matrix: a fuller one is multiplied as a dense one
SYMMETRIC = 1e-10  # relative: asymmetry that the rounding of a finite-element program may leave
UNEVEN = 4  # rows that are this many times longer than the mean are not filled up with zeros
ITERATIONS = 4  # for a lowest eigenvalue: of one that is zero but for rounding they show the size


class Product:
    """x -> A x in JAX, for a constant matrix: dense, by rows filled up to one length, or entry by entry."""

    def __init__(self, matrix: scipy.sparse.csr_array):
        n = matrix.shape[0]
        lengths = np.diff(matrix.indptr)
        width = int(lengths.max(initial=0))
        self.dense = self.columns = None
        if n <= WRITTEN_OUT or matrix.nnz > FULL * n * n:
            self.dense = matrix.toarray()
        elif width <= UNEVEN * max(matrix.nnz / n, 1.0):
            self.columns, self.values = np.zeros((width, n), np.int32), np.zeros((width, n))
            rows = np.repeat(np.arange(n), lengths)
            place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
            self.columns[place, rows], self.values[place, rows] = matrix.indices, matrix.data
        else:
            self.entries = scipy.sparse.coo_array(matrix)

    def __call__(self, x: Array) -> Array:
        if self.dense is not None:
            return jnp.asarray(self.dense, x.dtype) @ x
        if self.columns is not None:
            parts = (jnp.asarray(v, x.dtype) * x[c] for v, c in zip(self.values, self.columns, strict=True))
            return sum(parts, jnp.zeros_like(x))
        entries = self.entries
        products = jnp.asarray(entries.data, x.dtype) * x[entries.col]
        return jnp.zeros_like(x).at[entries.row].add(products)


class Matrices(NamedTuple):
    """M, C and K (N, N) of a structure in SciPy's compressed rows: M symmetric, C and K where the user did not say that
    they are not."""

    M: Any
    C: Any
    K: Any


class Reduction(NamedTuple):
    """A reduction x ≈ Φ z: shapes Φ (N, r), frequencies ω of its modes, and the structure that was reduced.

    Of modes alone Φ' M Φ = 1. With an interface the first coordinates of z are those at it, as many as `held`.
    """

    shapes: np.ndarray
    frequencies: np.ndarray
    whole: Any
    held: int = 0

    def coordinates(self, z: Any) -> Any:
        """x ≈ Φ z of modal coordinates (..., r)."""
        return z @ self.shapes.T


class ConstantNoise:
    """noise(t, x, v) -> a constant matrix."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    def __call__(self, t, x, v):
        return jnp.asarray(self.matrix, jnp.asarray(x).dtype)


def is_symmetric(matrix: scipy.sparse.csr_array) -> bool:
    """Whether a matrix is symmetric but for the rounding that a finite-element program may leave."""
    off = abs(matrix - matrix.T)
    return not off.nnz or bool(off.max() <= SYMMETRIC * abs(matrix).max())


class StepMatrices(NamedTuple):
    """How a M + b C + c K is eliminated for any a, b, c > 0, and the entries of M, C and K at its places."""

    order: Elimination
    M: np.ndarray
    C: np.ndarray
    K: np.ndarray


def step_matrices(matrices: Matrices) -> StepMatrices | None:
    """Return the matrices of a step of a linear structure; None where elimination fills their sum up."""
    N = matrices.M.shape[0]
    M, C, K = (scipy.sparse.csr_array(abs(matrix)) for matrix in matrices)
    coo = scipy.sparse.coo_array(M + C + K + scipy.sparse.eye_array(N))
    order = np.lexsort((coo.col, coo.row))
    rows, columns = coo.row[order], coo.col[order]
    entries = [np.asarray(A[rows, columns]).ravel() for A in matrices]
    stiff = abs(entries[0]).max() / max(abs(entries[2]).max(), 1e-300)
    samples = np.array([entries[0] + a * stiff * entries[2] for a in (1e-3, 1.0, 1e3)])
    elimination = find_order(Pattern(rows, columns, (N, N)), samples)
    return None if elimination is None else StepMatrices(elimination, *entries)


class SparseInertia(Inertia):
    """A regular mass whose entries are few."""

    def __init__(self, M: np.ndarray, sparse: Any):
        super().__init__(M)
        object.__setattr__(self, "sparse", sparse)
        object.__setattr__(self, "product", Product(sparse))

    @property
    def r(self) -> int:
        return len(self.M)

    @property
    def is_regular(self) -> bool:
        return True

    def times(self, a: Array) -> Array:
        return super().times(a) if self.diagonal is not None else self.product(a)  # type: ignore[attr-defined]

    def solve(self, right: Array) -> Array:
        if self.diagonal is not None or len(self.M) <= WRITTEN_OUT or self._sparse_solve is None:
            return super().solve(right)
        solve = self._sparse_solve
        return solve(right) if right.ndim == 1 else jnp.stack([solve(column) for column in right.T], axis=1)

    @functools.cached_property
    def _sparse_solve(self) -> Callable[[Array], Array] | None:
        sparse = self.sparse  # type: ignore[attr-defined]
        rows = np.repeat(np.arange(len(self.M)), np.diff(sparse.indptr))
        elimination = find_order(Pattern(rows, sparse.indices, sparse.shape), sparse.data[None])
        return None if elimination is None else elimination.factorised_once(sparse.data)


def is_positive(matrix: scipy.sparse.csr_array, shift: float = 0.0) -> bool:
    """Whether a symmetric matrix + shift is positive definite, by Cholesky in an order that makes it narrow.

    With a diagonal of 1 and w entries beside it, Cholesky factors a matrix that differs by (w + 2) ε in each of these
    entries: a lowest eigenvalue of the factored matrix, found by inverse iteration, that is no larger may be 0.
    """
    shifted = scipy.sparse.csr_array(matrix + shift * scipy.sparse.eye_array(matrix.shape[0]))
    diagonal = shifted.diagonal()
    if diagonal.min() <= 0.0:
        return False
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(shifted, symmetric_mode=True)
    scale = 1.0 / np.sqrt(diagonal)
    narrow = scipy.sparse.coo_array((shifted * scale * scale[:, None])[order][:, order])
    width = int(abs(narrow.row - narrow.col).max(initial=0))
    band = np.zeros((width + 1, len(diagonal)))
    lower = narrow.row >= narrow.col
    band[(narrow.row - narrow.col)[lower], narrow.col[lower]] = narrow.data[lower]
    try:
        factor = scipy.linalg.cholesky_banded(band, lower=True)
    except np.linalg.LinAlgError:
        return False
    shape, least = np.random.default_rng(0).standard_normal(len(diagonal)), 0.0
    for _ in range(ITERATIONS):
        shape = scipy.linalg.cho_solve_banded((factor, True), shape / np.linalg.norm(shape))
        least = 1.0 / float(np.linalg.norm(shape))
    return bool(least > min(len(diagonal), 2 * width + 1) * (width + 2) * np.finfo(float).eps)
