"""A step of Platen's weak scheme of order 2 by its formula: Kloeden & Platen (1992), (15.1.1) and (15.1.3)."""

import numpy as np
import pytest

import stodyn as sd
from stodyn.methods.platen import PlatenWeak2
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
