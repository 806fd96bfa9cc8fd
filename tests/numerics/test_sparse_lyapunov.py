"""Covariances of large structures from sparse matrices, against dense ones and closed forms."""

import numpy as np
import pytest
import scipy.sparse

from stodyn.numerics.lyapunov import NotStable, continuous
from stodyn.numerics.sparse_lyapunov import LargeStructure, root


def chain(N, damping=0.05, at_mass=0.02, held=True):
    """Masses of several sizes between springs, Rayleigh damping about the slow modes."""
    M = scipy.sparse.diags_array(1.0 + 0.3 * np.cos(np.arange(N)))
    springs = np.append(np.full(N - 1, 1.0), 0.0)
    first = np.append(float(held), springs[:-1])
    K = scipy.sparse.diags_array([-springs[:-1], first + springs, -springs[:-1]], offsets=[-1, 0, 1])
    return [scipy.sparse.csr_array(matrix) for matrix in (M, at_mass * M + damping * K, K)]


def large(M, C, K, loads, G=None, A=None, B=None):
    """Noise in the forces, and a filter's."""
    N, A = M.shape[0], np.zeros((0, 0)) if A is None else A
    B = np.zeros((0, 0)) if B is None else B
    noise = np.concatenate([np.zeros((N, loads.shape[1] + B.shape[1])), scipy.linalg.block_diag(loads, B)])
    return LargeStructure(M, C, K, np.zeros((N, len(A))) if G is None else G, A, noise)


def dense(structure):
    """A and the intensity of z."""
    M, C, K = (matrix.toarray() for matrix in (structure.M, structure.C, structure.K))
    N, k = len(M), len(structure.A)
    masses = scipy.linalg.block_diag(np.eye(N), M, np.eye(k))
    slopes = np.block(
        [
            [np.zeros((N, N)), np.eye(N), np.zeros((N, k))],
            [-K, -C, structure.G],
            [np.zeros((k, 2 * N)), structure.A],
        ]
    )
    B = np.linalg.solve(masses, structure.noise)
    return np.linalg.solve(masses, slopes), B @ B.T


FILTER = np.array([[0.0, 1.0], [-0.04, -0.24]]), np.array([[0.0], [0.3]])
LOADS = {"one end": np.eye(40, 1), "everywhere": np.ones((40, 1)), "two": np.eye(40)[:, [3, 17]]}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("damping", [(0.05, 0.02), (0.001, 0.001), (3.0, 0.0)], ids=["usual", "light", "heavy"])
def test_every_variance_is_that_of_dense_matrices(load, damping):
    structure = large(*chain(40, *damping), LOADS[load])
    Z = root(structure)
    np.testing.assert_allclose(np.sum(Z**2, axis=1), continuous(*dense(structure)).diagonal(), rtol=1e-10)


def test_a_filter_and_white_noise_together():
    A, B = FILTER
    G = np.outer(np.linspace(1.0, 2.0, 40), [1.0, 0.5])
    structure = large(*chain(40), np.eye(40, 1), G, A, B)
    P = continuous(*dense(structure))
    Z = root(structure)
    np.testing.assert_allclose(np.sum(Z**2, axis=1), P.diagonal(), rtol=1e-10)
    np.testing.assert_allclose(Z @ Z.T, P, rtol=0, atol=1e-10 * P.max())
    rows = np.random.default_rng(1).normal(size=(3, 80))
    F = root(structure, rows)
    np.testing.assert_allclose(F @ F.T, rows @ P[:80, :80] @ rows.T, rtol=1e-9, atol=1e-9 * P.max())


def test_the_residual_of_a_long_chain_is_small():
    """Along random directions u: u' (A P E' + E P A' + B B') u from the factor."""
    structure = large(*chain(800), np.eye(800, 1))
    Z, (x, v, _) = root(structure), structure.parts(u := np.random.default_rng(2).normal(size=(1600, 4)))
    masses = np.concatenate([x, structure.M @ v])
    slopes = np.concatenate([-(structure.K @ v), x - structure.C @ v])
    residual = 2.0 * np.sum((Z.T @ masses) * (Z.T @ slopes), axis=0) + np.sum((structure.noise.T @ u) ** 2, axis=0)
    assert np.abs(residual).max() < 1e-10 * np.sum((Z.T @ masses) ** 2, axis=0).max()


def test_what_has_no_stationary_law_is_refused_in_words():
    with pytest.raises((NotStable, ValueError), match=r"K is singular|not known after"):
        root(large(*chain(30, held=False), np.eye(30, 1)))
    with pytest.raises(ValueError, match=r"not known after .* shifts.*A mode that is not damped has no stationary law"):
        root(large(*chain(30, 0.0, 0.0), np.eye(30, 1)))
