"""Loads that jump in time where a step ends: what the page on the choice of steps says of their orders."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn import statistics as st
from stodyn.warnings import JumpsInTime

JUMP = 0.5


def error(method, steps, at_the_jump):
    """Of x at t = 1, x' = -x + load, or of an oscillator under the load."""

    def load(t):
        return jnp.where(t > JUMP, 1.0, jnp.where(t == JUMP, at_the_jump, 0.0))

    problem: sd.SDE | sd.Mechanical = sd.SDE(lambda t, x: -x + load(t), lambda t, x: 0.0 * x, 1.0)
    exact = np.exp(-1.0) + 1.0 - np.exp(-0.5)
    if method == "StochasticAlpha":
        problem = sd.Mechanical(lambda t, x, v: -4.0 * x - 0.2 * v + load(t), None, ([1.0], [0.0]))
        moved = scipy.linalg.expm(0.5 * np.array([[0.0, 1.0], [-4.0, -0.2]]))
        shift = np.array([0.25, 0.0])  # where the load holds the oscillator
        exact = (shift + moved @ (moved @ [1.0, 0.0] - shift))[0]
    run = sd.simulate(problem, method, t=(0.0, 1.0), dt=1.0 / steps, paths=1, seed=1, collect=st.Moments(at=[1.0]))
    return abs(float(run["mean"].values[0, 0]) - exact)


@pytest.mark.filterwarnings("ignore::stodyn.warnings.JumpsInTime")
@pytest.mark.parametrize(("method", "order"), [("Heun", 2), ("RK4", 4), ("AB2", 2), ("StochasticAlpha", 2)])
def test_the_mean_of_both_sides_keeps_the_order(method, order):
    side, mean = ([error(method, steps, value) for steps in (16, 32)] for value in (1.0, 0.5))
    assert np.log2(side[0] / side[1]) < 1.2
    assert np.log2(mean[0] / mean[1]) == pytest.approx(order, abs=0.3)


@pytest.mark.parametrize("method", ["AB2", "BDF2Maruyama", "StochasticAlpha"])
def test_a_jump_across_which_derivatives_are_carried_is_told(method):
    """Of one side, not of the mean of both; nor by a method that carries nothing."""
    with pytest.warns(JumpsInTime, match=rf"(drift|force): jumps at t = 0.5, where a step ends. {method} carries"):
        error(method, 16, 1.0)
    error(method, 16, 0.5)
    error("Heun", 16, 1.0)
