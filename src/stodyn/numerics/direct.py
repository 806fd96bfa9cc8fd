"""Systems a x = b in numpy, a dense or sparse: by LAPACK where it is dense or small, otherwise by SuperLU.

Rows are divided by their sizes before pivots are chosen, and the residual is solved for once more: the error in x is
then that of rounding each entry of a and b, however different their sizes are. In the nodal matrix of a circuit whose
supply feeds a diode of 1e10 S, digits of all other nodes were lost otherwise.

SuperLU may read memory that is not its own where a matrix is singular (github.com/xiaoyeli/superlu/issues/33) and end
the process, so that it only gets matrices that are not singular by their pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

SMALL = 200  # unknowns up to which LAPACK is at least as quick


def dense(a: Any) -> np.ndarray:
    """A matrix of either kind as an array."""
    return a if isinstance(a, np.ndarray) else a.toarray()


def handy(a: Any) -> Any:
    """A matrix as an array where it is small: each operation with a sparse one takes 0.2 ms."""
    return a if a.shape[0] > SMALL else dense(a)


def of_one_size(a: Any, b: np.ndarray) -> tuple[Any, np.ndarray]:
    """The rows of a x = b divided by their sizes, the powers of two next to their largest entries: without rounding."""
    largest = dense(abs(a).max(axis=1)).ravel()
    sized = np.isfinite(largest) & (largest > 0.0)
    scale = np.ldexp(1.0, np.where(sized, -np.frexp(np.where(sized, largest, 1.0))[1], 0))
    if isinstance(a, np.ndarray):
        return scale[:, None] * a, _along(scale, b) * b
    return scipy.sparse.diags_array(scale) @ a, _along(scale, b) * b


def _along(scale: np.ndarray, b: np.ndarray) -> np.ndarray:
    return scale.reshape(-1, *(1,) * (b.ndim - 1))


def solved(a: Any, b: np.ndarray) -> np.ndarray:
    """x of a x = b for b (n,) or (n, k); numpy.linalg.LinAlgError where a is exactly singular."""
    if not a.shape[0]:
        return b
    a, b = of_one_size(handy(a), b)
    solve = _lapack(a, b) if isinstance(a, np.ndarray) else factorised(a).solve
    x = solve(b)
    return x + solve(b - a @ x)


def _lapack(a: np.ndarray, b: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """b -> a⁻¹ b by the factors of a."""
    factor, substitute = scipy.linalg.get_lapack_funcs(("getrf", "getrs"), (a, b))
    factors, pivots, zero_pivot = factor(a)
    if zero_pivot > 0:
        raise np.linalg.LinAlgError("Singular matrix")
    return lambda right: substitute(factors, pivots, right)[0]


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
