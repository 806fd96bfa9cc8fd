"""A step of Platen's weak scheme of order 2 by its formula: Kloeden & Platen (1992), (15.1.1) and (15.1.3)."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.methods.platen import PlatenWeak2, PlatenWeak2Pairs
from stodyn.noise.increment import Increment
from stodyn.numerics import uncompiled

START, T, H, W = np.array([0.7, -0.4]), 0.2, 0.1, np.array([0.25, -0.15])


def drift(t, x):
    return (np.array([0.5, 1.5]) - t) * x**2


def strength(t, x):
    return (1.0 + t) * (0.3 * x + 0.2 * x**2)


@pytest.mark.parametrize("channels", ["diagonal", "one"])
def test_a_step_is_the_formula(channels):
    """Of two equations beside each other, each with noise of its own, and of two with the same noise."""
    of = {"diagonal": sd.diagonal, "one": lambda v: v[:, None]}[channels]
    dW = W if channels == "diagonal" else W[:1]
    problem = sd.SDE(drift, lambda t, x: of(strength(t, x)), START)
    f, b = drift(T, START), strength(T, START)
    above, below = (strength(T + H, START + H * f + sign * np.sqrt(H) * b) for sign in (1.0, -1.0))
    exact = START + 0.5 * H * (f + drift(T + H, START + H * f + b * dW))
    exact += 0.25 * (above + below + 2.0 * b) * dW + 0.25 * (above - below) * (dW**2 - H) / np.sqrt(H)
    found = uncompiled.value(lambda x: PlatenWeak2.step(problem, T, x, Increment(H, W=dW), None)[0], START)
    np.testing.assert_allclose(found, exact, rtol=1e-14)


def test_a_step_with_additive_noise_takes_the_mean_of_its_ends():
    problem = sd.SDE(drift, lambda t, x: sd.diagonal((1.0 + t) * np.array([0.3, 0.2])), START)
    f, b, b_end = drift(T, START), (1.0 + T) * np.array([0.3, 0.2]), (1.0 + T + H) * np.array([0.3, 0.2])
    exact = START + 0.5 * H * (f + drift(T + H, START + H * f + b * W)) + 0.5 * (b + b_end) * W
    found = uncompiled.value(lambda x: PlatenWeak2.step(problem, T, x, Increment(H, W=W), None)[0], START)
    np.testing.assert_allclose(found, exact, rtol=1e-14)


@pytest.mark.parametrize("method", [PlatenWeak2Pairs, PlatenWeak2])
def test_a_step_with_two_channels_is_the_formula(method):
    """The columns do not commute, and the draws of their pair are given; or one is twice the other, without draws."""
    A = np.array([[[0.3, 0.1], [-0.2, 0.4]], [[0.2, -0.5], [0.1, 0.3]]])
    V = np.array([[-H, 0.07], [-0.07, -H]])
    if not method.pairs:
        A[1], V = 2.0 * A[0], np.zeros((2, 2))

    def columns(x):
        return [A[j] @ (x + 0.5 * x**2) for j in (0, 1)]

    problem = sd.SDE(drift, lambda t, x: jnp.stack(columns(x), axis=1), START)
    f, b, root = drift(T, START), columns(START), np.sqrt(H)
    exact = START + 0.5 * H * (f + drift(T + H, START + H * f + b[0] * W[0] + b[1] * W[1]))
    for j, r in ((0, 1), (1, 0)):
        above, below = (columns(START + H * f + sign * root * b[j])[j] for sign in (1.0, -1.0))
        beside_above, beside_below = (columns(START + sign * root * b[r])[j] for sign in (1.0, -1.0))
        exact += 0.25 * (above + below + 2.0 * b[j] + beside_above + beside_below - 2.0 * b[j]) * W[j]
        exact += 0.25 * (above - below) * (W[j] ** 2 - H) / root
        exact += 0.25 * (beside_above - beside_below) * (W[j] * W[r] + V[r, j]) / root
    noise = Increment(H, W=W, aux={"pairs": V} if method.pairs else None)
    found = uncompiled.value(lambda x: method.step(problem, T, x, noise, None)[0], START)
    np.testing.assert_allclose(found, exact, rtol=1e-14)
