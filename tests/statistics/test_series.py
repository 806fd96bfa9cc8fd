"""Spectrum and autocorrelation of the Ornstein-Uhlenbeck process against closed forms."""

import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK

RATE, SIGMA, DT = 1.0, 0.5, 0.02


@pytest.fixture(scope="module")
def run():
    """Started in its stationary law, stepped by SRA1, whose discrete covariance differs from the exact by O(h²)."""
    stationary = scipy.stats.norm(0, SIGMA / np.sqrt(2 * RATE))
    model = ORNSTEIN_UHLENBECK(rate=RATE, sigma=SIGMA, start=stationary)
    collect = [st.Spectrum(every=5, segment=256, paths=512), st.Autocorrelation(lags=30, paths=512)]
    return sd.simulate(model.problem, "SRA1", t=(0, 160), dt=DT, paths=1024, seed=3, collect=collect)


def test_spectrum_lies_in_its_band(run):
    """Away from the folding frequency and from zero the 95 % band holds the exact density about 95 % of the time.

    Neighbouring frequencies are correlated by the window; every third one is nearly independent. Fewer than 70 % of
    about 25 inside a 95 % band has a probability below 1e-6.
    """
    frequency = run["frequency"].values
    exact = SIGMA**2 / (RATE**2 + (2 * np.pi * frequency) ** 2)
    low, high = (run[name].sel(component="x").values for name in ("spectrum_low", "spectrum_high"))
    chosen = np.flatnonzero((frequency > 0.3) & (frequency < 0.15 / (5 * DT)))[::3]
    assert len(chosen) > 10
    inside = (low[chosen] * 0.97 <= exact[chosen]) & (exact[chosen] <= high[chosen] * 1.03)
    assert inside.mean() > 0.7


def test_spectrum_integrates_to_the_variance(run):
    frequency, power = run["frequency"].values, run["spectrum"].sel(component="x").values
    variance = 2 * np.sum(power[1:-1]) * frequency[1] + (power[0] + power[-1]) * frequency[1]
    # Each segment is freed of its mean, which takes about 2/(rate · length) = 8 % of the variance away.
    assert 0.85 < variance / (SIGMA**2 / (2 * RATE)) < 1.0


def test_autocovariance_within_five_standard_errors(run):
    """5 standard errors at 31 correlated lags: false alarm below 2e-5 · ... < 1e-6 a lag."""
    lag = run["lag"].values
    exact = SIGMA**2 / (2 * RATE) * np.exp(-RATE * lag)
    found, stderr = run["autocovariance"].sel(component="x"), run["autocovariance_stderr"].sel(component="x")
    assert np.max(np.abs(found.values - exact) / stderr.values) < 5
    ratio, stderr = run["autocorrelation"].sel(component="x"), run["autocorrelation_stderr"].sel(component="x")
    assert ratio.values[0] == 1 and stderr.values[0] == pytest.approx(0, abs=1e-12)
    assert np.max(np.abs(ratio.values - exact / exact[0])[1:] / stderr.values[1:]) < 5


def test_standard_errors_tell_the_scatter_between_runs():
    """The mean square of (found - exact)/stderr over 40 independent runs is 1 within 6 of its standard deviations."""
    stationary = scipy.stats.norm(0, SIGMA / np.sqrt(2 * RATE))
    problem = ORNSTEIN_UHLENBECK(rate=RATE, sigma=SIGMA, start=stationary).problem
    collect = [st.Autocorrelation(every=5, lags=4, paths=64)]
    squares = []
    for seed in range(40):
        run = sd.simulate(problem, "SRA1", t=(0, 10), dt=DT, paths=64, seed=seed, collect=collect)
        exact = SIGMA**2 / (2 * RATE) * np.exp(-RATE * run["lag"].values)
        z = (run["autocovariance"].values[:, 0] - exact) / run["autocovariance_stderr"].values[:, 0]
        squares.append(z[4] ** 2)
    assert abs(np.mean(squares) - 1) < 6 * np.sqrt(2 / 40) + 0.1


def test_a_spectrum_looks_at_every_step_unless_told_otherwise():
    assert st.Spectrum().every == 1 and st.Spectrum(every=3).every == 3 and st.Spectrum(at=[0.0, 1.0]).every is None


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        (st.Spectrum(every=1, segment=1000), "segment=1000"),
        (st.Spectrum(every=1, segment=16, confidence=2), "confidence"),
        (st.Autocorrelation(every=1, lags=1000), "lags=1000"),
        (st.Autocorrelation(at=[0.1, 0.2, 0.5], lags=1), "equally spaced"),
    ],
)
def test_what_cannot_be_estimated_is_refused(statistic, words):
    with pytest.raises(ValueError, match=words):
        sd.simulate(ORNSTEIN_UHLENBECK.problem, "Heun", t=(0, 1), dt=0.1, paths=4, seed=0, collect=statistic)
