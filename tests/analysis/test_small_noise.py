"""Transient noise as a method delivers it, against covariance analysis and the continuous process."""

import numpy as np
import pytest

from stodyn.analysis.covariance import delivered
from stodyn.analysis.small_noise import delivered_small_noise, small_noise
from stodyn.methods import stiff
from stodyn.models.circuits import RC_LADDER, TWO_DIODES

pytestmark = pytest.mark.usefixtures("quick_compiling")


@pytest.mark.parametrize("method", [stiff.Trapezoidal, stiff.RK1A4M], ids=lambda method: method.name)
def test_linear_circuits_with_additive_noise(method):
    """There the limit of small noise is the whole truth."""
    problem = RC_LADDER(nodes=2).problem
    found = delivered_small_noise(method, problem, (0.0, 1.0), 10)
    exact = delivered(method, problem, 0.1, 10)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-9, atol=1e-9 * exact.covariance.max())


def test_a_nonlinear_circuit():
    """σ of two diodes tends to that of the continuous process, with the order 1 of the noise."""
    problem = TWO_DIODES.problem
    true = np.sqrt(small_noise(problem, [0.0, 0.125], rtol=1e-9).covariance[-1, 0, 0])
    found = delivered_small_noise(stiff.RK1A4M, problem, (0.0, 0.125), (20, 40))
    assert [len(moments.mean) for moments in found] == [21, 41]
    errors = [np.sqrt(moments.covariance[-1, 0, 0]) / true - 1.0 for moments in found]
    assert true == pytest.approx(4.453657e-6, rel=1e-5)
    assert abs(errors[0]) < 0.02 and errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)


def test_refusals():
    problem = RC_LADDER(nodes=2).problem
    for steps in (0, (), (10, -1), 2.5, "10"):
        with pytest.raises(ValueError, match="steps: expected a whole number >= 1, or several, got"):
            delivered_small_noise(stiff.Trapezoidal, problem, (0.0, 1.0), steps)
    with pytest.raises(ValueError, match="method: BDF2Maruyama needs a history"):
        delivered_small_noise(stiff.BDF2Maruyama, problem, (0.0, 1.0), 10)
