"""Spectrum and autocorrelation of the Ornstein-Uhlenbeck process against closed forms."""

import functools

import numpy as np
import pytest
import scipy.signal
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from stodyn.statistics.contract import Block, Labels

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
    # 512 paths of 160 relaxation times each: the relative standard deviation of the variance is 0.5 %.
    assert abs(variance / (SIGMA**2 / (2 * RATE)) - 1) < 0.025


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


def stationary_series(paths, times, seed, mean=0.0, decay=0.9):
    """Series (paths, 1, times) of unit variance and autocorrelation decay^lag, in its stationary law."""
    rng = np.random.default_rng(seed)
    x = np.empty((times, paths))
    x[0] = rng.standard_normal(paths)
    for k in range(1, times):
        x[k] = decay * x[k - 1] + np.sqrt(1 - decay**2) * rng.standard_normal(paths)
    return mean + x.T[:, None, :]


def folded(statistic, series, times=None):
    """The labelled variables of a statistic that saw the series in blocks of 16 paths."""
    times = np.arange(float(series.shape[-1])) if times is None else times
    ready = statistic.prepared(None, times)
    parts = [
        ready.fold(np.moveaxis(series[i : i + 16], 0, 2).transpose(1, 0, 2), Block(i, len(series[i : i + 16])))
        for i in range(0, len(series), 16)
    ]
    whole = functools.reduce(ready.merge, parts)
    labelled = ready.label(whole, Labels(times, ("x",), {}, np.arange(len(times))))
    return {name: variable.values for name, variable in labelled.variables.items()}


STATISTICS = [
    st.Autocorrelation(lags=20),
    st.Spectrum(segment=32),
    st.Spectrum(segment=33),
    st.Spectrum(segment=32, mean="segment"),
]


@pytest.mark.parametrize("statistic", STATISTICS, ids=repr)
def test_a_large_mean_changes_nothing(statistic):
    """x and x + 1e9 have one spectrum and one autocorrelation: to the seven digits that x + 1e9 keeps of x."""
    series = stationary_series(48, 200, seed=5)
    plain, shifted = folded(statistic, series), folded(statistic, series + 1e9)
    for name, values in plain.items():
        np.testing.assert_allclose(shifted[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("statistic", STATISTICS, ids=repr)
def test_blocks_far_apart_merge_as_one(statistic):
    """A level of its own in every block, as random parameters make it: the same as all the paths in one block."""
    series = stationary_series(48, 100, seed=6) + np.repeat([1e3, -2e3, 5.0], 16)[:, None, None]
    ready = statistic.prepared(None, np.arange(100.0))
    whole = ready.fold(np.moveaxis(series, 0, 2).transpose(1, 0, 2), Block(0, 48))
    expected = ready.label(whole, Labels(np.arange(100.0), ("x",), {}, np.arange(100)))
    for name, values in folded(statistic, series).items():
        np.testing.assert_allclose(values, expected.variables[name].values, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("statistic", STATISTICS, ids=repr)
def test_a_shorter_last_piece_is_left_out(statistic):
    """Where every= does not divide the steps the last time stands nearer than the others: it is no sample."""
    series, odd = stationary_series(32, 100, seed=7), np.full((32, 1, 1), 50.0)
    times = np.append(np.arange(100.0), 99.25)
    expected, found = folded(statistic, series), folded(statistic, np.append(series, odd, axis=-1), times)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_the_spectrum_near_zero_is_what_the_window_makes_of_the_covariance():
    """E S(f) = Σ w_i w_j R(i - j) cos 2πf(i - j)/Σ w², at 0 and the next frequency too: freed of one mean for all of
    4096 series nothing is missing. 5 standard errors at 9 frequencies: a false alarm in 2e5. Freed of its own mean each
    segment loses most of the first; both of the lowest are marked."""
    L, series = 16, stationary_series(4096, 64, seed=8, mean=3.0)
    w = scipy.signal.get_window("hann", L)
    i, j = np.meshgrid(np.arange(L), np.arange(L), indexing="ij")
    angle = 2 * np.pi * np.arange(L // 2 + 1)[:, None, None] / L * (i - j)
    exact = np.sum(np.outer(w, w) * 0.9 ** np.abs(i - j) * np.cos(angle), axis=(1, 2)) / np.sum(w**2)
    found = folded(st.Spectrum(segment=L, paths=4096, confidence=1 - 5.7e-7), series)
    assert np.all(found["spectrum_low"][:, 0] < exact) and np.all(exact < found["spectrum_high"][:, 0])
    assert not found["spectrum_too_low"].any()
    own = folded(st.Spectrum(segment=L, paths=4096, mean="segment"), series)
    assert own["spectrum"][0, 0] < 0.2 * exact[0] and list(np.flatnonzero(own["spectrum_too_low"])) == [0, 1]
    np.testing.assert_allclose(own["spectrum"][2:], found["spectrum"][2:], rtol=1e-9)
    assert list(np.flatnonzero(folded(st.Spectrum(segment=L), series[:1])["spectrum_too_low"])) == [0, 1]


def test_autocorrelation_of_small_noise_about_a_large_level():
    """dX = -(X - 1000) dt + 1e-3 dW: rho(lag) = exp(-lag) within 5 standard errors (21 lags: once in 8e4)."""
    problem = sd.SDE(lambda t, x: -(x - 1000.0), lambda t, x: 1e-3, scipy.stats.norm(1000.0, 1e-3 / np.sqrt(2)))
    collect = st.Autocorrelation(every=5, lags=20, paths=512)
    run = sd.simulate(problem, "SRA1", t=(0, 20), dt=0.1, paths=512, seed=2, collect=collect)
    found, stderr = (run[name].values[1:, 0] for name in ("autocorrelation", "autocorrelation_stderr"))
    assert np.all(np.abs(found - np.exp(-run["lag"].values[1:])) < 5 * stderr) and np.all(stderr < 0.05)


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        (st.Spectrum(every=1, segment=1000), "segment=1000"),
        (st.Spectrum(every=1, segment=16, confidence=2), "confidence"),
        (st.Autocorrelation(every=1, lags=1000), "lags=1000"),
        (st.Autocorrelation(at=[0.1, 0.2, 0.5], lags=1), "equally spaced"),
        (st.Autocorrelation(at=[0.2, 0.4, 0.5, 0.6], lags=1), "equally spaced"),
    ],
)
def test_what_cannot_be_estimated_is_refused(statistic, words):
    with pytest.raises(ValueError, match=words):
        sd.simulate(ORNSTEIN_UHLENBECK.problem, "Heun", t=(0, 1), dt=0.1, paths=4, seed=0, collect=statistic)


@pytest.mark.parametrize(
    ("options", "words"),
    [(dict(paths=2.5), "paths must be a whole number >= 1, got 2.5"), (dict(paths=0), "paths must be a whole number"),
     (dict(lags=True), "lags must be a whole number"), (dict(after="x"), "after must be a finite number, got 'x'")],
)  # fmt: skip
def test_options_that_are_no_numbers_are_refused_where_they_are_given(options, words):
    with pytest.raises(ValueError, match=f"Autocorrelation: {words}"):
        st.Autocorrelation(**options)


def test_what_the_spectrum_may_be_freed_of():
    with pytest.raises(ValueError, match='mean must be "paths" or "segment"'):
        st.Spectrum(mean="none")


def groups(paths, times, count, seed):
    """So many independent sets of series."""
    return stationary_series(paths * count, times, seed).reshape(count, paths, 1, times)


def test_bands_of_eight_paths_cover_as_often_as_they_say():
    """E S as the window makes it of R, 300 sets of 8 series. The sets are independent: coverage averaged over nine
    frequencies is known to .013 at the worst, and .90 is what it was without Student's quantile (.89 at 0)."""
    L = 16
    w = scipy.signal.get_window("hann", L)
    i, j = np.meshgrid(np.arange(L), np.arange(L), indexing="ij")
    angle = 2 * np.pi * np.arange(L // 2 + 1)[:, None, None] / L * (i - j)
    exact = np.sum(np.outer(w, w) * 0.9 ** np.abs(i - j) * np.cos(angle), axis=(1, 2)) / np.sum(w**2)
    found = [folded(st.Spectrum(segment=L), series) for series in groups(8, 256, 300, seed=11)]
    low, high = (np.stack([one[name][:, 0] for one in found]) for name in ("spectrum_low", "spectrum_high"))
    covered = ((low < exact) & (exact < high))[:, 1:]  # at 0 the mean that was taken out is missing
    assert 0.925 < covered.mean() < 0.975


@pytest.mark.parametrize("times", [320, 350])
def test_the_band_of_one_path_counts_segments_that_overlap_by_half(times):
    """Half overlapping Hann windows share (Σ w_i w_(i+L/2)/Σ w²)² = 1/36 of the variance of their periodograms."""
    L = 64
    w = scipy.signal.get_window("hann", L)
    share = (np.sum(w[: L // 2] * w[L // 2 :]) / np.sum(w**2)) ** 2
    K = (times - L // 2) // (L // 2)
    lags = (1 - np.arange(1, K) / K) * np.where(np.arange(1, K) == 1, share, 0.0)
    freedom = 2 * K / (1 + 2 * lags.sum())
    found = folded(st.Spectrum(segment=L), stationary_series(1, times, seed=12))
    width = found["spectrum_high"] / found["spectrum_low"]
    law = scipy.stats.chi2(freedom)
    np.testing.assert_allclose(width, law.ppf(0.975) / law.ppf(0.025), rtol=1e-9)


def test_autocovariance_of_few_paths_is_not_biased_by_their_mean():
    """R(lag) = .9^lag on average over 2000 sets of 3 series of 40: the variance of their mean, .25, is not missing.
    Five standard errors of the average at five lags: a false alarm in 3e5."""
    found = np.stack([folded(st.Autocorrelation(lags=4), series)["autocovariance"][:, 0]
                      for series in groups(3, 40, 2000, seed=13)])  # fmt: skip
    stderr = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - 0.9 ** np.arange(5)) < 5 * stderr) and np.all(stderr < 0.02)


def test_the_band_of_one_segment_has_two_degrees_of_freedom():
    found = folded(st.Spectrum(segment=32), stationary_series(1, 40, seed=14))
    law = scipy.stats.chi2(2)
    np.testing.assert_allclose(
        found["spectrum_high"] / found["spectrum_low"], law.ppf(0.975) / law.ppf(0.025), rtol=1e-9
    )


@pytest.mark.parametrize("paths", [2, 3, 40])
def test_autocovariance_of_constants_is_their_unbiased_variance(paths):
    x = np.random.default_rng(15).normal(size=paths)
    found = folded(st.Autocorrelation(lags=3), np.broadcast_to(x[:, None, None], (paths, 1, 20)))
    np.testing.assert_allclose(found["autocovariance"], x.var(ddof=1), rtol=1e-12)


def test_merging_with_nothing_gives_what_there_is():
    one, some = st.Autocorrelation(lags=1), object()
    assert one.merge(None, some) is some and one.merge(some, None) is some and one.merge(None, None) is None


def jackknifed(statistic, series):
    """Standard errors of autocorrelations from leaving out one path after another."""
    ways = range(len(series))
    without = [folded(statistic, np.delete(series, i, axis=0))["autocorrelation"][:, 0] for i in ways]
    return np.sqrt((len(series) - 1) * np.var(without, axis=0))[1:]


def test_errors_of_autocorrelations_are_those_of_leaving_out_one_path_after_another():
    """Up to 24 paths; of more to first order in their scatter, with correlations of either sign: within a fifth."""
    rng, times = np.random.default_rng(16), np.arange(40)
    x = rng.normal(size=(60, 1, 1)) + 0.5 * np.cos(0.9 * times + rng.uniform(0, 2 * np.pi, (60, 1, 1)))
    x += 0.3 * rng.normal(size=(60, 1, 40))
    one = st.Autocorrelation(lags=4)
    for paths, rtol in ((3, 1e-9), (24, 1e-9), (60, 0.2)):
        found = folded(one, x[:paths])["autocorrelation_stderr"][1:, 0]
        np.testing.assert_allclose(found, jackknifed(one, x[:paths]), rtol=rtol)
    of_25 = folded(one, x[:25])["autocorrelation_stderr"][1:, 0]
    assert np.all(np.abs(of_25 / jackknifed(one, x[:25]) - 1) > 1e-4)


@pytest.mark.parametrize("statistic", [st.Autocorrelation(lags=3), st.Spectrum(segment=8)], ids=["R", "S"])
def test_series_of_which_every_path_failed_have_no_estimate(statistic):
    found = folded(statistic, np.full((3, 1, 20), np.nan))
    shape = (4, 1) if isinstance(statistic, st.Autocorrelation) else (5, 1)
    numbers = [values for values in found.values() if values.dtype == float]
    assert len(numbers) >= 3 and all(values.shape == shape and np.isnan(values).all() for values in numbers)


def test_one_path_alone_has_an_autocovariance_without_an_error():
    found = folded(st.Autocorrelation(lags=3), stationary_series(1, 40, seed=17))
    assert np.isfinite(found["autocovariance"]).all() and np.isnan(found["autocovariance_stderr"]).all()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_equal_spacing_is_checked_up_to_rounding_in_any_unit(unit):
    """`after` is reached by a time that is as late up to rounding; a last step that is shorter is left out."""
    times = unit * 0.1 * np.arange(21)
    one = st.Autocorrelation(lags=2, after=unit * 0.5)
    ready = one.prepared(None, times * (1.0 - 1e-13))
    assert (ready.first, ready.length, ready.spacing) == (5, 16, pytest.approx(0.1 * unit))
    assert one.prepared(None, np.append(times, times[-1] + 0.05 * unit)).length == 16
    assert st.Autocorrelation(lags=1).prepared(None, unit * np.array([0.0, 0.1, 0.15])).length == 2
    jitter = np.where(np.arange(21) == 9, 0.1 * unit, 0.0)
    assert one.prepared(None, times + 1e-8 * jitter).length == 16
    with pytest.raises(ValueError, match="equally spaced"):
        one.prepared(None, times + 1e-5 * jitter)
    with pytest.raises(ValueError, match="at least two"):
        one.prepared(None, times[:6])


def test_allan_variance_of_a_random_walk_is_that_of_its_samples():
    """Within five standard errors at every averaging time (false alarms below 1e-4 by Student's law, seed fixed)."""
    walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: np.array([[0.5]]), start=[0.0])
    run = sd.simulate(walk, t=(0, 64), dt=0.5, paths=256, seed=1, progress=False, collect=[st.Allan(paths=256)])
    exact = sd.analysis.allan_variance(sd.noise.gyro(rate_random_walk=0.5), run["tau"].values, every=0.5)
    z = (run["allan_variance"][:, 0] - exact) / run["allan_variance_stderr"][:, 0]
    assert np.abs(z).max() < 5 and len(z) == 6
