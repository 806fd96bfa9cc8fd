"""Laws over many times, and their limit, against Van Loan's formula and Lyapunov's equation."""

import jax
import numpy as np

from stodyn.numerics import linear_flow, lyapunov, uncompiled, van_loan

A = np.array([[0.0, 1.0, 0.0], [-4.0, -0.4, 1.0], [0.0, 0.0, -30.0]])
S = np.diag([0.0, 0.49, 2.0])
a = np.array([0.1, 0.2, -3.0])


def test_laws_over_many_times():
    times = np.array([0.0, 1e-6, 0.1, 2.0, 50.0])
    halvings = linear_flow.doublings(A, 50.0)
    law = uncompiled.Uncompiled(lambda A: linear_flow.over(A, a, S, times, 50.0, halvings))(A)
    for k, time in enumerate(times):
        Phi, Q = van_loan.discretise(A, np.eye(3), S, time)
        np.testing.assert_allclose(np.eye(3) + law.E[k], Phi, atol=1e-14)
        np.testing.assert_allclose(law.Q[k], Q, rtol=1e-12, atol=1e-16 * Q.max())
    np.testing.assert_allclose(law.c[-1] + np.linalg.solve(A, a), 0.0, atol=1e-4)
    np.testing.assert_allclose(A @ law.c[3], law.E[3] @ a, rtol=1e-12)


def test_the_limit_is_the_stationary_law():
    mean, P = uncompiled.Uncompiled(linear_flow.stationary)(A, a, S)
    np.testing.assert_allclose(mean, -np.linalg.solve(A, a), rtol=1e-13)
    np.testing.assert_allclose(P, lyapunov.continuous(A, S), rtol=1e-12, atol=1e-15)
    slow = np.array([[-1e6, 1.0], [0.0, -1e-3]])
    P = uncompiled.Uncompiled(linear_flow.stationary)(slow, np.ones(2), np.eye(2))[1]
    np.testing.assert_allclose(P, lyapunov.continuous(slow, np.eye(2)), rtol=1e-12)


def test_derivatives():
    def variance(rate):
        return linear_flow.stationary(-rate[None, None], np.ones(1), np.eye(1))[1][0, 0]

    slope = uncompiled.value(jax.grad(variance), np.array(3.0))  # of 1/(2 rate)
    np.testing.assert_allclose(slope, -1 / 18, rtol=1e-13)


def test_rates_beyond_the_halvings_are_not_answered():
    law = uncompiled.Uncompiled(lambda A: linear_flow.over(A, np.zeros(1), np.eye(1), np.ones(1), 1.0, 3))(
        np.array([[-9.0]])
    )
    assert np.isnan(law.E).all()
