"""Fragility curves against the reflection principle."""

import numpy as np
import pytest
from scipy.stats import beta, norm

import stodyn as sd
from stodyn.accuracy import fragility as fragility_curves
from stodyn.warnings import MissedWays, NotIdentified

SWEPT = sd.SDE(lambda t, x, p: 0.0 * x, lambda t, x, p: p["strength"], 0.0, params={"strength": 1.0})
OPTIONS = dict(event=sd.Level(2.0), before=1.0, dt=0.25, seed=1, replicas=32, runs=8, score="distance", threads=1)


@pytest.mark.filterwarnings("ignore:.*rare:UserWarning")
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


def test_a_certain_point_has_the_interval_of_its_paths_and_warnings_name_theirs():
    """A drift of 60 takes all of 8 x 32 paths beyond 2: Clopper and Pearson's bound for 256 of 256. A drift of -60
    takes none there, which is told with the point."""
    drifting = sd.SDE(lambda t, x, p: p["drift"] + 0.0 * x, lambda t, x: 1.0, 0.0, {"drift": 1.0})
    with pytest.warns(MissedWays, match="^at drift = -60.0: rare: ") as told:
        found = sd.fragility(drifting, "EulerMaruyama", over={"drift": [-60.0, 60.0]}, **OPTIONS)
    assert len(told) == 1
    certain = found.isel(drift=1)
    assert (float(certain["probability"]), float(certain["probability_high"])) == (1.0, 1.0)
    assert float(certain["probability_low"]) == pytest.approx(beta.ppf(0.025, 256, 1), rel=1e-12)


@pytest.mark.parametrize("by", ["splitting", "subset"])
def test_a_certain_event_has_the_interval_of_its_paths(by):
    drifting = sd.SDE(lambda t, x: 60.0 + 0.0 * x, lambda t, x: 1.0, 0.0)
    found = sd.rare(drifting, "EulerMaruyama", by=by, event=sd.Level(2.0), before=1.0, dt=0.25, seed=1, runs=8,
                    replicas=32)  # fmt: skip
    assert float(found["probability_low"]) == pytest.approx(beta.ppf(0.025, 256, 1), rel=1e-12)


def test_a_curve_that_is_not_fitted_is_told_with_its_reason():
    """A drift of 60 or 90 takes all paths beyond 2, so that no probability lies between 0 and 1."""
    drifting = sd.SDE(lambda t, x, p: p["drift"] + 0.0 * x, lambda t, x: 1.0, 0.0, {"drift": 1.0})
    with pytest.warns(NotIdentified, match="of which there are 0 among 2 .*no median"):
        found = sd.fragility(drifting, "EulerMaruyama", over={"drift": [60.0, 90.0]}, **OPTIONS)
    assert "median" not in found
    falling = fragility_curves._without_curve(np.arange(1.0, 5.0), np.array([0.9, 0.6, 0.3, 0.1]), np.full(4, 0.01))
    assert falling.startswith("the probabilities fall")
