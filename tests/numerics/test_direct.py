"""Systems whose rows and columns differ by many orders against exact arithmetic, and those without a solution."""

import mpmath
import numpy as np
import pytest
import scipy

from stodyn.numerics import direct


def exact(a, b):
    with mpmath.workdps(80):
        return np.array([complex(v) for v in mpmath.lu_solve(mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist()))])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("side", ["rows", "columns"])
def test_entries_of_all_sizes_cost_no_digits(sparse, side):
    """Units of equations and of unknowns may be anything: x has the digits that it has in units of one size."""
    rng = np.random.default_rng(5)
    n = 230 if sparse else 24
    a = np.eye(n) * 4.0 + np.where(rng.random((n, n)) < 3.0 / n, rng.normal(size=(n, n)), 0.0)
    sizes = 10.0 ** rng.uniform(-12.0, 12.0, n)
    a = sizes[:, None] * a if side == "rows" else a * sizes
    b = a @ (np.ones(n) / (sizes if side == "columns" else 1.0))
    x = direct.solved(scipy.sparse.csr_array(a) if sparse else a, b)
    np.testing.assert_allclose(x, 1.0 / (sizes if side == "columns" else 1.0), rtol=1e-12)


def test_a_conductance_across_a_source_costs_no_digits():
    """A supply feeds 1e13 S to ground beside a divider of 1e-4 S: its voltages come from the small entries."""
    g = 1e13
    a = np.array([[g + 1e-4, -1e-4, 1.0], [-1e-4, 3e-4, 0.0], [1.0, 0.0, 0.0]], complex)
    b = np.array([0.0, 0.0, 1.0], complex)
    for matrix in (a, a.T):
        np.testing.assert_allclose(direct.solved(matrix, b), exact(matrix, b), rtol=1e-14)


def test_several_right_hand_sides_and_none():
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(a @ direct.solved(a, b), b, atol=1e-15)
    assert direct.solved(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("size", [3, 230])
def test_singular_systems_are_refused(size):
    a = scipy.sparse.diags_array(np.append(np.ones(size - 1), 0.0)).tocsr()
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        direct.solved(a, np.ones(size))
