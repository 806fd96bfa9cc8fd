"""Which entries of a sparse matrix its determinant depends on.

Rows and columns can be put in an order in which the matrix is block triangular (A. L. Dulmage & N. S. Mendelsohn,
Canad. J. Math. 10, 1958): its determinant is the product of those of the blocks on the diagonal, and no entry outside
them changes it. A supply's current, for example, follows from all voltages but acts on none of them.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike


def determining(rows: ArrayLike, columns: ArrayLike, n: int) -> np.ndarray:
    """Return, for each place (row, column) of an n x n matrix that is zero elsewhere, whether the determinant may
    depend on its entry. Where the matrix is singular whatever its entries are, it may depend on all."""
    rows, columns = np.asarray(rows, int), np.asarray(columns, int)
    pattern = scipy.sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), (n, n))
    pivot_column = scipy.sparse.csgraph.maximum_bipartite_matching(pattern, perm_type="column")
    if np.any(pivot_column < 0):
        return np.ones(len(rows), bool)
    row_of_pivot = np.argsort(pivot_column)
    edges = scipy.sparse.csr_array((np.ones(len(rows), bool), (rows, row_of_pivot[columns])), (n, n))
    _, block = scipy.sparse.csgraph.connected_components(edges, directed=True, connection="strong")
    return block[rows] == block[row_of_pivot[columns]]
