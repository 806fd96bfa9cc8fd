"""Fragility curves against the reflection principle."""

import numpy as np
import pytest
from scipy.stats import norm

import stodyn as sd

SWEPT = sd.SDE(lambda t, x, p: 0.0 * x, lambda t, x, p: p["strength"], 0.0, params={"strength": 1.0})
OPTIONS = dict(event=sd.Level(2.0), before=1.0, dt=0.25, seed=1, replicas=32, runs=8, score="distance", threads=1)


@pytest.mark.filterwarnings("ignore:rare:UserWarning")
def test_probabilities_over_the_strength_of_the_noise():
    """P(max of s W over [0, 1] >= 2) = 2 Φ(-2/s). |z| < 5 at three points: one in 10⁶. The curve through them has its
    median near the strength at which the probability is a half, 2/0.6745."""
    strengths = np.array([0.8, 1.5, 4.0])
    found = sd.fragility(SWEPT, "EulerMaruyama", over={"strength": strengths}, **OPTIONS)
    exact = 2 * norm.sf(2.0 / strengths)
    assert np.all(np.abs(found["probability"] - exact) < 5 * found["probability_stderr"])
    assert float(found["median"]) == pytest.approx(2.965, rel=0.25)
    assert found["strength"].values.tolist() == strengths.tolist()


def test_a_curve_has_one_parameter():
    with pytest.raises(ValueError, match="over: a curve has one parameter, got 2"):
        two = sd.SDE(lambda t, x, p: p["a"] + 0.0 * x, lambda t, x, p: p["b"], 0.0, params={"a": 0.0, "b": 1.0})
        sd.fragility(two, over={"a": [0.0], "b": [1.0]}, **OPTIONS)
