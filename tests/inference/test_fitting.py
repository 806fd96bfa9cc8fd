"""Fits to records, against closed forms and the conditions of a maximum."""

import numpy as np
import pytest
from inference.records import TIMES, VALUES, ornstein_uhlenbeck, oscillator, sensor

import stodyn as sd
from stodyn.warnings import NotIdentified

WALK = sd.SDE(lambda t, x, p: 0.0 * x + p["m"], lambda t, x, p: p["s"], 0.0, params={"m": 0.0, "s": 2.0})
STEPS = np.array([0.3, -1.2, 0.7, 2.0, -0.4, 0.1, 1.1, -0.9, 0.5, 0.2, -1.4, 0.8])
RECORD = np.arange(1.0, 13.0), np.cumsum(STEPS)


def test_a_walk_has_closed_estimates():
    result = sd.fit(WALK, data=RECORD, sensors=sensor(noise=None), free={"m": None, "s": (0, None)})
    spread = STEPS.std()
    np.testing.assert_allclose(result.estimate, [STEPS.mean(), spread], rtol=1e-7)
    np.testing.assert_allclose(result.stderr, spread / np.sqrt([12, 24]), rtol=1e-6)
    # the profile of m is -6 ln(1 + (m - mean)²/s²), that of s is -12 ln(s/ŝ) + 6 - 6 ŝ²/s²
    reach = spread * np.sqrt(np.expm1(1.959963985**2 / 12))
    np.testing.assert_allclose([result.low[0], result.high[0]], STEPS.mean() + reach * np.array([-1, 1]), rtol=2e-3)
    values = result.profile_value[1] / spread
    np.testing.assert_allclose(result.profile[1], -12 * np.log(values) + 6 - 6 / values**2, atol=1e-6)
    assert result.attrs["converged"] == "yes" and result.attrs["calculus"] == "ito"
    assert sd.fitted(WALK, result).params == dict(zip(("m", "s"), result.estimate.values, strict=True))


def test_the_gradient_is_zero_at_the_maximum():
    options = {"data": (TIMES, VALUES), "sensors": sensor(), "initial": "stationary"}
    ranges = {"a": (0, 50), "mu": None, "s": (0, None)}
    result = sd.fit(ornstein_uhlenbeck(), free=ranges, profile=False, **options)
    like = sd.likelihood(ornstein_uhlenbeck(), free=list(ranges), **options)
    gradient = like.gradient(result.estimate.values)
    assert np.abs(gradient * result.stderr.values).max() < 1e-4
    np.testing.assert_allclose(like(result.estimate.values), result.loglik, rtol=1e-12)


def test_what_cannot_be_fitted_is_said():
    options = {"data": RECORD, "sensors": sensor(noise=None)}
    with pytest.raises(ValueError, match="nothing that is read depends on 'k'"):
        sd.fit(WALK, free=["s", "k"], params={"k": 1.0}, **options)
    with pytest.raises(ValueError, match=r"start \(s\): -1 lies outside its range from 0 to inf"):
        sd.fit(WALK, free={"s": (0, None)}, start={"s": -1.0}, **options)
    both = sd.SDE(lambda t, x, p: 0.0 * x, lambda t, x, p: p["a"] * p["b"], 0.0, params={"a": 1.0, "b": 1.0})
    with pytest.warns(NotIdentified, match=r"does not determine .*a .*b"):
        sd.fit(both, free={"a": (0, None), "b": (0, None)}, profile=False, **options)
    with pytest.raises(ValueError, match="likelihood is zero at the start"):
        sd.fit(
            oscillator(ζ=0.1),
            data=(TIMES, VALUES),
            sensors=sensor(),
            free=["ζ"],
            start={"ζ": -0.5},
            initial="stationary",
        )
