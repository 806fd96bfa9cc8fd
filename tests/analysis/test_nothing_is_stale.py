"""Answers follow what a problem's functions read: a closure, a global or an array that has changed since is seen."""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis import conservation, covariance, linear, order, small_noise
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.variational import Midpoint
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

ARRAY = np.array([1.0])
RATE = 1.0


def decaying():
    """dx = -rate x dt + 0.3 dW with three ways to the rate, each 1, and what makes it 3."""
    rate = 1.0

    def closure(t, x):
        return -rate * x

    def change():
        nonlocal rate
        rate = 3.0

    return {"closure": (closure, change),
            "global": (lambda t, x: -RATE * x, lambda: globals().update(RATE=3.0)),
            "array": (lambda t, x: -ARRAY[0] * x, lambda: ARRAY.__setitem__(0, 3.0))}  # fmt: skip


def asked(problem):
    """What several questions answer, each a function of the rate."""
    study = order.strong_order(problem, EulerMaruyama, steps=(4, 8, 16), paths=40, seed=1, refine=2)
    return {
        "step_map": linear.step_map(problem, EulerMaruyama, 0.1).M[0, 0],
        "coefficients": linear.coefficients(problem).A[0, 0],
        "delivered": covariance.delivered(problem, EulerMaruyama, 0.1, steps=3).covariance[-1, 0, 0],
        "strong_order": float(study["error"][0]),
        "small_noise": small_noise.delivered_small_noise(problem, EulerMaruyama, (0.0, 0.3), 3).covariance[-1, 0, 0],
    }


@pytest.mark.brief("array")
@pytest.mark.parametrize("way", ["closure", "global", "array"])
def test_answers_follow_what_functions_read(way):
    function, change = decaying()[way]
    problem = SDE(function, lambda t, x: jnp.full((1, 1), 0.3), [1.0])
    before = asked(problem)
    again = asked(problem)
    change()
    try:
        after = asked(problem)
    finally:
        globals().update(RATE=1.0)
        ARRAY[0] = 1.0
    fresh = {"step_map": 0.7, "coefficients": -3.0, "delivered": 0.3**2 * 0.1 * (1 + 0.7**2 + 0.7**4)}
    assert before == again
    assert {name: after[name] for name in fresh} == pytest.approx(fresh, rel=1e-12)
    assert after["small_noise"] == pytest.approx(fresh["delivered"], rel=1e-12)
    assert after["strong_order"] != before["strong_order"]


def test_a_diagnosis_follows_the_constraint():
    """0 = x - c y: y is determined while c is not zero."""
    coefficient = np.array([2.0])
    problem = SDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.stack([-x[0], x[0] - coefficient[0] * x[1]]),
                   lambda t, x: jnp.array([[0.1], [0.0]]), [2.0, 1.0])  # fmt: skip
    assert problem.diagnose().index == 1
    coefficient[0] = 0.0
    assert problem.diagnose().index is None


def test_jacobians_follow_the_potential():
    """One midpoint step of H = p²/2 + k q²/2 has the trace 2 (4 - k h²)/(4 + k h²)."""
    stiffness = np.array([1.0])
    problem = Hamiltonian(lambda t, q, p: 0.5 * p @ p + 0.5 * stiffness[0] * q @ q, lambda t, q, p: 0.0 * q[0],
                          start=([0.5], [0.2]))  # fmt: skip
    noise = conservation.draw_increment(Midpoint, 1, 0.1)
    for k in (1.0, 9.0):
        stiffness[0] = k
        trace = np.trace(conservation.jacobian(problem, Midpoint, [0.5, 0.2], noise))
        assert trace == pytest.approx(2 * (4 - k * 0.01) / (4 + k * 0.01), rel=1e-12)


def test_structures_follow_the_noise():
    """Noise that was additive and no longer is: Heun on the Ito form has another drift."""
    exponent = np.array([0])
    problem = SDE(lambda t, x: -x, lambda t, x: 0.3 * x[:, None] ** int(exponent[0]), [1.0])
    assert linear.step_map(problem, Heun, 0.1, nodes=3).M[0, 0] == pytest.approx(0.905, rel=1e-12)
    exponent[0] = 1
    a = -1.0 - 0.5 * 0.09
    mean = 1 + 0.1 * a + 0.5 * (0.1 * a) ** 2 + 0.5 * 0.1 * 0.09
    assert linear.step_map(problem, Heun, 0.1, nodes=3).M[0, 0] == pytest.approx(mean, rel=1e-12)
