"""A sparse system a x = b solved once: by LAPACK where it is small, otherwise by SuperLU.

SuperLU may read memory that is not its own where a matrix is singular (github.com/xiaoyeli/superlu/issues/33) and end
the process, so that it only gets matrices that are not singular by their pattern.
"""

from __future__ import annotations

import numpy as np
import scipy

SMALL = 200  # unknowns up to which LAPACK is at least as quick


def solved(a: scipy.sparse.sparray, b: np.ndarray) -> np.ndarray:
    """x of a x = b for b (n,) or (n, k); numpy.linalg.LinAlgError where a is exactly singular."""
    n = a.shape[0]
    if n <= SMALL:
        return np.linalg.solve(a.toarray(), b)
    a = a.tocsc()
    a.eliminate_zeros()
    if scipy.sparse.csgraph.structural_rank(a) < n:
        raise np.linalg.LinAlgError("Singular matrix")
    try:
        return scipy.sparse.linalg.splu(a).solve(b)
    except RuntimeError as error:
        raise np.linalg.LinAlgError("Singular matrix") from error
