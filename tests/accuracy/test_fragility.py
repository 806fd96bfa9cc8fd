"""Fragility curves against the reflection principle."""

import numpy as np
import pytest
from scipy.stats import norm

import stodyn as sd
from stodyn.accuracy import fragility as fragility_curves

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


def test_the_fitted_curve_is_lognormal():
    """Of probabilities Φ(ln(v/1.3)/0.4) the median is 1.3 and the dispersion 0.4, whatever their errors are; of fewer
    than three between 0 and 1, or values that are not positive, none is fitted."""
    values = np.array([0.5, 0.8, 1.3, 2.0, 40.0])
    exact = norm.cdf(np.log(values / 1.3) / 0.4)
    exact[-1] = 1.0
    for errors in (np.full(5, 0.01), np.array([1e-4, 2e-3, 0.02, 0.01, 0.0])):
        np.testing.assert_allclose(fragility_curves._lognormal(values, exact, errors), (1.3, 0.4), rtol=1e-12)
    assert fragility_curves._lognormal(values[2:], exact[2:], np.full(3, 0.01)) is None
    assert fragility_curves._lognormal(values - 0.5, exact, np.full(5, 0.01)) is None
