"""Entries on which a determinant depends: all others may be anything."""

import numpy as np
import pytest

from stodyn.numerics.block_triangular import determining


@pytest.mark.parametrize("seed", range(20))
def test_against_the_determinant_itself(seed):
    """Random patterns: an entry counts if and only if changing it changes the determinant of random numbers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    holds = (rng.random((n, n)) < rng.uniform(0.2, 0.7)) | np.eye(n, dtype=bool)[rng.permutation(n)]
    matrix = np.where(holds, rng.integers(1, 1000, (n, n)), 0).astype(float)
    rows, columns = np.nonzero(holds)
    for row, column, counts in zip(rows, columns, determining(rows, columns, n), strict=True):
        minor = np.linalg.det(np.delete(np.delete(matrix, row, 0), column, 1)) if n > 1 else 1.0
        assert counts == (abs(minor) > 0.5)  # the minors of whole numbers are whole


def test_a_matrix_that_is_always_singular():
    assert determining([0, 0, 1], [0, 1, 0], 3).tolist() == [True, True, True]
