"""The pair of Dormand and Prince: order, steps beside SciPy's, the solution between steps, and where it ends."""

import numpy as np
import scipy

from stodyn.numerics import dormand_prince


def pendulum(t, y):
    return np.array([y[1], -4.0 * np.sin(y[0]) - 0.1 * y[1]])


def test_weights_satisfy_the_conditions_of_order_five_and_the_error_those_of_order_four():
    """Of quadrature: Σ b_i c_i^k = 1/(k + 1); the polynomial between steps ends where the step does."""
    c = np.append(0.0, dormand_prince.TIMES)
    b = np.append(dormand_prince.ROWS[-1], 0.0)
    for k in range(5):
        np.testing.assert_allclose(b @ c**k, 1.0 / (k + 1), rtol=1e-14)
    for k in range(4):
        np.testing.assert_allclose(dormand_prince.ERROR @ c**k, 0.0, atol=1e-15)
    np.testing.assert_allclose(dormand_prince.BETWEEN.sum(axis=1), b, atol=1e-14)


def test_it_makes_the_steps_that_scipy_makes():
    theirs = scipy.integrate.solve_ivp(pendulum, (0.0, 10.0), [1.0, 0.0], rtol=1e-6, atol=1e-9, dense_output=True)
    ours = dormand_prince.solve(pendulum, 0.0, 10.0, np.array([1.0, 0.0]), 1e-6, 1e-9)
    np.testing.assert_allclose(ours.t, theirs.t, atol=1e-10)  # steps carry rounding on
    np.testing.assert_allclose(ours.y, theirs.y, atol=1e-10)
    between = np.linspace(0.0, 10.0, 37)
    np.testing.assert_allclose(np.transpose([ours.at(t) for t in between]), theirs.sol(between), atol=1e-10)


def test_a_solution_that_leaves_the_numbers_is_not_complete():
    """y' = y² from 1 is infinite at t = 1."""
    with np.errstate(all="ignore"):
        solution = dormand_prince.solve(lambda t, y: y**2, 0.0, 2.0, np.array([1.0]), 1e-6, 1e-9)
    assert not solution.is_complete
    np.testing.assert_allclose(solution.t[-1], 1.0, rtol=1e-4)
