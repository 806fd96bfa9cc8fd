"""Systems a x = b in numpy, a dense or sparse: by LAPACK where it is dense or small, otherwise by SuperLU.

SuperLU may read memory that is not its own where a matrix is singular (github.com/xiaoyeli/superlu/issues/33) and end
the process, so that it only gets matrices that are not singular by their pattern.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

SMALL = 200  # unknowns up to which LAPACK is at least as quick


def dense(a: Any) -> np.ndarray:
    """A matrix of either kind as an array."""
    return a if isinstance(a, np.ndarray) else a.toarray()


def of_one_size(a: Any, b: np.ndarray) -> tuple[Any, np.ndarray]:
    """The rows of a x = b divided by their largest entries."""
    largest = dense(abs(a).max(axis=1)).ravel()
    scale = 1.0 / np.where(largest > 0.0, largest, 1.0)
    scaled = scale[:, None] * a if isinstance(a, np.ndarray) else scipy.sparse.diags_array(scale) @ a
    return scaled, scale * b


def solved(a: Any, b: np.ndarray) -> np.ndarray:
    """x of a x = b for b (n,) or (n, k); numpy.linalg.LinAlgError where a is exactly singular."""
    if a.shape[0] <= SMALL or isinstance(a, np.ndarray):
        return np.linalg.solve(dense(a), b)
    return factorised(a).solve(b)


def factorised(a: Any, **options: Any) -> Any:
    """SuperLU's factors of a sparse matrix, with its options; numpy.linalg.LinAlgError where a is exactly singular."""
    a = scipy.sparse.csc_array(a)
    a.eliminate_zeros()
    if scipy.sparse.csgraph.structural_rank(a) < a.shape[0]:
        raise np.linalg.LinAlgError("Singular matrix")
    try:
        return scipy.sparse.linalg.splu(a, **options)
    except RuntimeError as error:
        raise np.linalg.LinAlgError("Singular matrix") from error
