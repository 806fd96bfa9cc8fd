"""Strong errors of stiff methods on the examples of Küpper, Kværnø and Rößler, and what areas are for."""

import dataclasses

import numpy as np
import pytest

from stodyn.analysis.order import strong_order
from stodyn.methods import stiff
from stodyn.models.differential_algebraic import AMPLIFIED_NOISE, LINEAR_DAE, NONLINEAR_DAE
from stodyn.studies.sdae_linear import increments, slope, strong_errors

LINEAR = """
ImplicitEuler 1.2466e-2 8.4403e-3 5.6205e-3 3.7369e-3 2.6938e-3 1.8991e-3 1.3280e-3 9.3683e-4 6.6826e-4 4.6276e-4
Trapezoidal 1.1958e-2 8.3129e-3 5.6221e-3 3.7273e-3 2.6997e-3 1.9068e-3 1.3316e-3 9.3748e-4 6.6751e-4 4.6230e-4
RK1W1 8.1056e-3 4.2309e-3 2.1490e-3 1.0569e-3 5.4351e-4 2.7498e-4 1.3731e-4 6.8436e-5 3.4159e-5 1.6906e-5
RK1W2 5.5676e-3 2.9312e-3 1.4874e-3 7.4303e-4 3.7483e-4 1.8646e-4 9.3647e-5 4.6792e-5 2.3475e-5 1.1687e-5
RK1W3 5.5676e-3 2.9312e-3 1.4874e-3 7.4303e-4 3.7483e-4 1.8646e-4 9.3647e-5 4.6792e-5 2.3475e-5 1.1687e-5
RK1W4 3.8720e-3 2.0511e-3 1.0355e-3 5.1371e-4 2.5965e-4 1.2848e-4 6.4642e-5 3.2219e-5 1.6195e-5 8.0461e-6
RK1W5 1.2185e-2 6.0894e-3 3.0400e-3 1.5095e-3 7.5995e-4 3.8271e-4 1.9092e-4 9.5149e-5 4.7241e-5 2.3574e-5
RK1A3 5.5155e-3 2.6897e-3 1.3202e-3 6.5596e-4 3.2628e-4 1.6260e-4 8.1212e-5
RK1A4 8.3635e-4 4.7545e-4 2.1464e-4 9.6678e-5 5.1488e-5 2.4647e-5 1.2726e-5
RK1A4L 8.4709e-4 4.8067e-4 2.1660e-4 9.8380e-5 5.1946e-5 2.5018e-5 1.2866e-5
RK1A4M 8.8957e-4 5.1189e-4 2.2821e-4 1.0156e-4 5.2043e-5 2.4830e-5 1.2693e-5
"""
NONLINEAR = """
ImplicitEuler 6.5780e-3 5.7867e-3 4.5168e-3 3.2822e-3 2.4241e-3 1.8151e-3 1.3074e-3 8.9040e-4 6.1737e-4 4.8028e-4
Trapezoidal 8.1492e-3 6.3475e-3 4.7440e-3 3.3666e-3 2.4665e-3 1.8407e-3 1.3191e-3 8.9595e-4 6.1831e-4 4.8135e-4
RK1W1 1.0690e-2 6.2103e-3 2.8924e-3 1.3217e-3 7.0639e-4 3.4217e-4 1.7535e-4 8.7554e-5 4.3101e-5 2.1190e-5
RK1W2 1.1613e-2 6.6778e-3 3.1514e-3 1.4473e-3 7.6905e-4 3.7092e-4 1.8996e-4 9.4748e-5 4.6977e-5 2.3001e-5
RK1W3 3.9982e-3 2.4117e-3 1.1943e-3 5.7611e-4 2.8706e-4 1.3742e-4 7.0110e-5 3.5195e-5 1.7744e-5 8.7693e-6
RK1W4 7.9418e-3 4.9417e-3 2.2392e-3 1.0752e-3 5.4458e-4 2.7089e-4 1.3995e-4 6.7856e-5 3.3007e-5 1.6731e-5
RK1W5 1.1068e-2 6.1975e-3 2.8105e-3 1.2685e-3 6.7756e-4 3.2919e-4 1.6927e-4 8.3258e-5 4.0981e-5 2.0144e-5
RK1A3 3.5634e-3 2.1199e-3 1.0305e-3 5.0576e-4 2.5068e-4 1.2539e-4 6.4445e-5
RK1A4 6.4309e-4 4.0504e-4 2.2306e-4 9.7493e-5 4.3407e-5 2.2675e-5 1.3614e-5
RK1A4L 1.6823e-3 9.1121e-4 4.7719e-4 2.2455e-4 1.1147e-4 5.2755e-5 2.7459e-5
RK1A4M 9.1840e-3 5.6519e-3 2.6399e-3 1.2026e-3 6.2934e-4 2.9676e-4 1.5324e-4
"""
ERRORS = [
    (model, words.split()[0], [float(word) for word in words.split()[1:]])
    for model, table in ((LINEAR_DAE, LINEAR), (NONLINEAR_DAE, NONLINEAR))
    for words in table.strip().splitlines()
]


@pytest.mark.brief(  # a half order, an implicit first stage, a table for many channels
    "linear_dae-Trapezoidal", "nonlinear_dae-RK1A4", "nonlinear_dae-RK1A4M"
)
@pytest.mark.parametrize(("model", "name", "expected"), ERRORS, ids=[f"{m.name}-{name}" for m, name, _ in ERRORS])
def test_strong_errors_on_the_examples_of_the_paper(model, name, expected):
    """The errors on 2000 given paths to the digits printed here, computed independently; and the slopes.

    Over the last four of ten step sizes the slope is the order to 0.03, which is more than its sampling error; over all
    of seven to 0.05.
    """
    errors = strong_errors(getattr(stiff, name), model, increments(), range(len(expected)))
    np.testing.assert_allclose(errors, expected, rtol=1.01e-4)
    order = 1.0 if name.startswith("RK1") else 0.5
    assert abs(slope(errors, 4 if len(errors) == 10 else 7) - order) < (0.03 if len(errors) == 10 else 0.05)


def test_areas_are_what_many_channels_need_where_they_do_not_commute():
    """With areas the order is 1 (tests/claims); the same step with W_j W_k/2 for I_(j,k) has order 1/2."""
    forced = dataclasses.replace(AMPLIFIED_NOISE.problem, structure="without areas")
    without = strong_order(forced, stiff.RK1W2M, reference=stiff.StiffMilsteinLevy, steps=(16, 32, 64, 128), seed=1)
    assert without.attrs["order_low"] <= 0.5 <= without.attrs["order_high"] < 1.0, without
