"""Transient noise as a method delivers it, against covariance analysis and the continuous process."""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis.covariance import delivered
from stodyn.analysis.small_noise import delivered_small_noise
from stodyn.methods import stiff
from stodyn.methods.srk import DRI1, SRA1
from stodyn.models.circuits import RC_LADDER, TWO_DIODES
from stodyn.problems.sde import SDE

pytestmark = pytest.mark.usefixtures("quick_compiling")


@pytest.mark.brief("RK1A4M")
@pytest.mark.parametrize("method", [stiff.Trapezoidal, stiff.RK1A4M], ids=lambda method: method.name)
def test_linear_circuits_with_additive_noise(method):
    """There the limit of small noise is the whole truth."""
    problem = RC_LADDER(nodes=2).problem
    found = delivered_small_noise(problem, method, (0.0, 1.0), 10)
    exact = delivered(problem, method, 0.1, 10)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-9, atol=1e-9 * exact.covariance.max())


def test_a_nonlinear_circuit():
    """σ of two diodes tends to that of the continuous process, with the order 1 of the noise."""
    problem = TWO_DIODES.problem
    true = 4.453657e-6  # as in tests/models/test_circuits.py
    found = delivered_small_noise(problem, stiff.RK1A4M, (0.0, 0.125), (20, 40))
    assert [len(moments.mean) for moments in found] == [21, 41]
    errors = [np.sqrt(moments.covariance[-1, 0, 0]) / true - 1.0 for moments in found]
    assert abs(errors[0]) < 0.02 and errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)


def test_all_normals_count():
    """A method of order 3/2 draws Z too: dq = p dt, dp = -q dt + dW, by covariance analysis."""
    problem = SDE(lambda t, x: jnp.array([x[1], -x[0]]), lambda t, x: jnp.array([[0.0], [1.0]]), [1.0, 0.0])
    found = delivered_small_noise(problem, SRA1, (0.0, 1.0), 4)
    np.testing.assert_allclose(found.covariance, delivered(problem, SRA1, 0.25, 4).covariance, atol=1e-12)


def test_steps_that_cannot_be_solved_are_named():
    """x' = 1 + h x'² has a real solution for h <= 1/4 alone."""
    problem = SDE(lambda t, x: x**2, lambda t, x: jnp.ones((1, 1)), [1.0])
    with pytest.raises(RuntimeError, match="steps: with 1 of them ImplicitEuler fails at t = 0"):
        delivered_small_noise(problem, stiff.ImplicitEuler, (0.0, 0.5), (10, 1))


def test_methods_and_times_that_cannot_be_analysed_are_refused():
    problem = RC_LADDER(nodes=2).problem
    for t in ((1.0, 0.0), (0.0, np.inf), (0.0, np.nan), 1.0):
        with pytest.raises(ValueError, match=r"t: expected \(begin, end\), begin before end"):
            delivered_small_noise(problem, stiff.Trapezoidal, t, 10)
    with pytest.raises(ValueError, match="method: DRI1 draws from a few points"):
        delivered_small_noise(SDE(lambda t, x: -x, lambda t, x: x, 1.0), DRI1, (0.0, 1.0), 10)
    with pytest.raises(TypeError, match=r"method: expected a method that makes steps, or its name, .* got VanLoan"):
        delivered_small_noise(problem, "VanLoan", (0.0, 1.0), 10)
    with pytest.raises(TypeError, match="The problem comes first, then the method"):
        delivered_small_noise("Trapezoidal", problem, (0.0, 1.0), 10)  # type: ignore[call-overload]
    for steps in (0, (), (10, -1), 2.5, "10"):
        with pytest.raises(ValueError, match="steps: expected a whole number >= 1, or several, got"):
            delivered_small_noise(problem, stiff.Trapezoidal, (0.0, 1.0), steps)
    with pytest.raises(ValueError, match="method: BDF2Maruyama needs a history"):
        delivered_small_noise(problem, stiff.BDF2Maruyama, (0.0, 1.0), 10)
