"""Exact discretisation and stationary covariances against closed forms and 50-digit quadrature."""

import math

import mpmath
import numpy as np
import pytest

from stodyn.numerics.lyapunov import continuous
from stodyn.numerics.van_loan import covariance, discretise, root, rough_root

rng = np.random.default_rng(11)
MATRIX = rng.normal(size=(4, 4)) - 1.5 * np.eye(4)
SPREAD = rng.normal(size=(4, 2))
COLOUR = np.array([[1.0, 0.3], [0.3, 0.5]])


def exact(A, B, Q, h, digits=60):
    """Phi and Qd in many digits: the block exponential by Taylor series at h/2^s, doubled."""
    with mpmath.workdps(digits):
        A, B, Q, h = mpmath.matrix(A.tolist()), mpmath.matrix(B.tolist()), mpmath.matrix(Q.tolist()), mpmath.mpf(h)
        halvings = max(0, int(mpmath.ceil(mpmath.log(1 + mpmath.mnorm(A, 1) * h, 2))) + 2)
        step, n = h / 2**halvings, A.rows
        phi_term, q_term = mpmath.eye(n), B * Q * B.T * step
        Phi, Qd = mpmath.eye(n), q_term
        for k in range(1, 45):
            phi_term = phi_term * A * step / k
            q_term = (A * q_term + q_term * A.T) * step / (k + 1)
            Phi, Qd = Phi + phi_term, Qd + q_term
        for _ in range(halvings):
            Qd = Phi * Qd * Phi.T + Qd
            Phi = Phi * Phi
        return (np.array(m.tolist(), dtype=float) for m in (Phi, Qd))


@pytest.mark.parametrize("h", [1e-6, 0.01, 0.3, 1.0, 5.0, 40.0, 300.0])
def test_dense_system_at_every_step_size(h):
    Phi, Qd = discretise(MATRIX, SPREAD, COLOUR, h)
    Phi_exact, Qd_exact = exact(MATRIX, SPREAD, COLOUR, h)
    assert np.abs(Qd - Qd_exact).max() <= 1e-13 * np.abs(Qd_exact).max()
    assert np.abs(Phi - Phi_exact).max() <= 1e-13 * max(np.abs(Phi_exact).max(), 1.0)
    np.testing.assert_array_equal(Qd, Qd.T)


@pytest.mark.parametrize("h", [1e-9, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("a", [1e-8, 1.0, 1e6])
def test_an_ornstein_uhlenbeck_process_is_discretised_exactly(a, h):
    Phi, Qd = discretise([[-a]], [[0.7]], [[2.0]], h)
    assert math.isclose(Phi[0, 0], math.exp(-a * h), rel_tol=1e-14, abs_tol=1e-15)
    assert math.isclose(Qd[0, 0], -(0.7**2) * math.expm1(-2 * a * h) / a, rel_tol=1e-13)


@pytest.mark.parametrize("h", [1e-7, 1e-2, 3.0, 1e4])
def test_integrated_brownian_motion_keeps_every_digit_of_every_entry(h):
    Phi, Qd = discretise([[0, 1, 0], [0, 0, 1], [0, 0, 0]], [[0], [0], [1]], [[1]], h)
    np.testing.assert_allclose(Phi, [[1, h, h**2 / 2], [0, 1, h], [0, 0, 1]], rtol=1e-13)
    third = [[h**5 / 20, h**4 / 8, h**3 / 6], [h**4 / 8, h**3 / 3, h**2 / 2], [h**3 / 6, h**2 / 2, h]]
    np.testing.assert_allclose(Qd, third, rtol=1e-13)


@pytest.mark.parametrize("h", [0.1, 10.0, 1000.0])
def test_slow_components_of_a_stiff_system_keep_their_digits(h):
    fast, slow = 1e7, 1e-3
    Phi, Qd = discretise(np.diag([-fast, -slow]), np.eye(2), np.eye(2), h)
    assert math.isclose(Phi[1, 1], math.exp(-slow * h), rel_tol=1e-13)
    np.testing.assert_allclose(np.diag(Qd), [0.5 / fast, -math.expm1(-2 * slow * h) / (2 * slow)], rtol=1e-13)


def test_stiff_oscillator_over_many_relaxation_times():
    """Where the block exponential would hold exp(+1000): the stationary state, energy shared equally."""
    omega, damping, T = 30.0, 25.0, 0.4
    A, B = np.array([[0, 1], [-(omega**2), -2 * damping]]), np.array([[0.0], [1.0]])
    for h in (1.0, 40.0, 1e4):
        _, Qd = discretise(A, B, [[4 * damping * T]], h)
        if h > 1:
            np.testing.assert_allclose(Qd, np.diag([T / omega**2, T]), rtol=1e-13, atol=1e-15)
        assert (np.linalg.eigvalsh(Qd) > 0).all()


def test_units_of_the_noise_do_not_matter():
    Phi, Qd = discretise(MATRIX, SPREAD, COLOUR, 0.7)
    for scale in (2.0**-300, 2.0**200):
        Phi_scaled, Qd_scaled = discretise(MATRIX, SPREAD, scale * COLOUR, 0.7)
        np.testing.assert_array_equal(Phi_scaled, Phi)
        np.testing.assert_allclose(Qd_scaled / scale, Qd, rtol=1e-14)
    np.testing.assert_array_equal(discretise(MATRIX, SPREAD, 0 * COLOUR, 0.7)[1], 0.0)
    np.testing.assert_array_equal(discretise(MATRIX, SPREAD, COLOUR, 0.0)[0], np.eye(4))


def test_covariance_joins_start_and_stationary_state():
    A, B, Q = np.array([[0.0, 1.0], [-1.0, -0.1]]), np.array([[0.0], [0.5]]), np.eye(1)
    P0 = np.array([[4.0, 0.5], [0.5, 1.0]])
    P = covariance(A, B, Q, P0, np.array([0.0, 0.4, 0.8, 1e3]))
    np.testing.assert_array_equal(P[0], P0)
    Phi, Qd = discretise(A, B, Q, 0.4)
    np.testing.assert_allclose(P[2], Phi @ P[1] @ Phi.T + Qd, rtol=1e-14)
    np.testing.assert_allclose(P[3], 1.25 * np.eye(2), rtol=1e-13, atol=1e-14)
    assert covariance(A, B, Q, P0, 0.4).shape == (2, 2)
    np.testing.assert_array_equal(covariance(A, B, Q, P0, 0.4), P[1])
    slope = (covariance(A, B, Q, P0, 1e-6) - P0) / 1e-6
    np.testing.assert_allclose(slope, A @ P0 + P0 @ A.T + 0.25 * np.diag([0, 1]), atol=1e-5)


@pytest.mark.parametrize("factor", [root, rough_root])
def test_roots_of_singular_covariances_give_them_back(factor):
    P = np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5]) + np.diag([0.0, 3.0, 0.0])
    np.testing.assert_allclose(factor(P) @ factor(P).T, P, atol=1e-15 * np.trace(P))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="A: expected a finite square matrix, not empty, got shape"):
        discretise(np.ones((2, 3)), np.eye(2), np.eye(2), 1.0)
    with pytest.raises(ValueError, match=r"B: expected a finite matrix of shape \(2, channels\)"):
        discretise(np.eye(2), np.ones(2), np.eye(2), 1.0)
    with pytest.raises(ValueError, match=r"Q: expected a finite matrix of shape \(1, 1\)"):
        discretise(np.eye(2), np.ones((2, 1)), np.eye(2), 1.0)
    with pytest.raises(ValueError, match="h: expected a finite length of time"):
        discretise(np.eye(2), np.ones((2, 1)), np.eye(1), -1.0)
    with pytest.raises(ValueError, match="P0: expected"):
        covariance(np.eye(2), np.ones((2, 1)), np.eye(1), np.eye(3), 1.0)
    with pytest.raises(ValueError, match="A: expected a finite square matrix"):
        continuous(np.full((2, 2), np.nan), np.eye(2))
