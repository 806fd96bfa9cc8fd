"""Allan variances beside published ones and closed forms, and fits whose intervals cover."""

import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.analysis.system import allan_terms
from stodyn.noise import coloured
from stodyn.warnings import DoesNotFit

NINE = (892, 809, 823, 798, 671, 644, 883, 903, 677)


def thousand():
    """The 1000 pseudo-random numbers of NIST's Special Publication 1065."""
    n = [1234567890]
    while len(n) < 1000:
        n.append(16807 * n[-1] % (2**31 - 1))
    return np.array(n) / (2**31 - 1)


@pytest.mark.parametrize(
    ("record", "taus", "kind", "printed"),
    [
        (NINE, [1, 2], "overlapping", [91.22945, 85.95287]),
        (NINE, [1, 2], "plain", [91.22945, 115.8082]),
        (thousand(), [1, 10, 100], "overlapping", [0.2922319, 0.09159953, 0.03241343]),
        (thousand(), [1, 10, 100], "plain", [0.2922319, 0.09965736, 0.03897804]),
    ],
)
def test_published_deviations_are_reproduced(record, taus, kind, printed):
    assert sd.analysis.allan(record, 1.0, taus, kind=kind).deviation == pytest.approx(printed, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        (
            "overlapping",
            [0.20409788784998473, 0.37287295517073754, 0.7306305760514207, 1.4277781942652916, 2.32235853008403],
        ),
        ("plain", [0.20409788784998473, 0.3725125391564365, 0.7346226518064956, 1.405024671570704, 1.9341437112262165]),
    ],
)
def test_deviations_of_another_program_are_reproduced(kind, printed):
    """Those of a walk by allantools 2024.6, to all digits."""
    walk = np.cumsum(thousand() - 0.5)
    curve = sd.analysis.allan(walk, 0.01, [0.01, 0.05, 0.21, 1.0, 3.33], kind=kind)
    assert curve.deviation == pytest.approx(printed, rel=1e-12)


def test_the_estimator_is_its_definition():
    y = np.random.default_rng(1).standard_normal(50) + 1e6
    for m in (1, 3, 7):
        means = np.convolve(y, np.ones(m) / m, "valid")
        expected = np.mean((means[m:] - means[:-m]) ** 2) / 2
        assert sd.analysis.allan(y, 0.1, [0.1 * m]).variance[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("letter", "QNBK")
def test_terms_have_their_closed_forms(letter):
    m = np.array([1, 2, 5, 100])
    exact = {"Q": 3.0 / m**2, "N": 1.0 / m, "B": 2 * np.log(2) / np.pi + 0.0 * m, "K": m / 3.0}[letter]
    assert allan_terms.variances(allan_terms.differences_of(letter, True), m) == pytest.approx(exact, rel=1e-12)


def test_a_sampled_walk_is_half_as_large_again_at_the_shortest_time():
    m = np.array([1, 2, 3, 10])
    ratio = allan_terms.variances(allan_terms.differences_of("K", False), m) / (m / 3.0)
    assert ratio == pytest.approx([1.5, 1.125, 1.0 + 1 / 18, 1.005], rel=1e-12)


@pytest.mark.parametrize("letter", "QNBK")
def test_the_law_of_the_estimator_is_that_of_the_quadratic_form(letter):
    """cov(V_m, V_k) = 2 tr(F_m Σ F_k Σ), with Σ the covariance of second differences of θ at distance 1."""
    n, stretches = 40, np.array([1, 2, 5])
    differences = allan_terms.differences_of(letter, False)
    lags = np.subtract.outer(np.arange(n - 1), np.arange(n - 1)).astype(float)
    cov = allan_terms.covariances(differences, lags, 1, 1)  # of d_1; all d_m are sums of them
    forms = []
    for m in stretches:
        triangle = np.convolve(np.ones(m), np.ones(m))
        rows = scipy.linalg.toeplitz(np.r_[triangle[0], np.zeros(n - 2 * m)], np.r_[triangle, np.zeros(n - 2 * m)])
        forms.append(rows.T @ rows / (2.0 * m**2 * len(rows)))
    exact = [[2.0 * np.trace(a @ cov @ b @ cov) for b in forms] for a in forms]
    H, _ = allan_terms.laws([differences], stretches, n)
    assert H[:, :, 0, 0] == pytest.approx(np.array(exact), rel=1e-9)


def test_fewer_lags_give_the_same_law(monkeypatch):
    terms = [allan_terms.differences_of(letter, False) for letter in "NBK"] + [allan_terms.gauss_markov(50.0)]
    stretches, n = np.array([1, 7, 64, 1000]), 11_000
    fewer = allan_terms.laws(terms, stretches, n)[0]
    monkeypatch.setattr(allan_terms, "ALL", 10 * n)
    allan_terms._lags.cache_clear()
    every = allan_terms.laws(terms, stretches, n)[0]
    allan_terms._lags.cache_clear()
    size = np.sqrt(np.einsum("iiaa,jjbb->ijab", every, every))
    assert np.max(np.abs(fewer - every) / size) < 5e-4


@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 5)])
def test_lags_thin_out_by_a_factor(m, k):
    """All near the kinks, and beyond them none further from the next than 6 % of its distance, to the last one."""
    lags, _ = allan_terms._lags(m, k, 1_000_000)
    assert lags[0] == -(1_000_000 - 2 * k) and lags[-1] == 1_000_000 - 2 * m and len(lags) < 4000
    assert np.all(np.diff(lags) <= 1.0 + 0.06 * (np.minimum(np.abs(lags[1:]), np.abs(lags[:-1])) + 20.0))


def test_degrees_of_freedom_of_white_noise_are_those_of_howe_allan_and_barnes():
    y = np.random.default_rng(1).standard_normal(16_384)
    curve = sd.analysis.allan(y, 1.0, [1, 4, 16, 64, 256, 1024, 4096])
    theirs = [10921.8, 5696.9, 1526.6, 381.9, 94.0, 22.0, 4.0]
    assert curve.freedom(curve.fit("N")) == pytest.approx(theirs, rel=0.011)


def test_white_noise_and_a_walk_are_found_with_their_errors():
    """Sixteen records: the mean of an estimate within five of its own standard errors (false alarms 1e-6 each)."""
    rng, n, T, N, K = np.random.default_rng(2), 4096, 0.01, 0.01, 0.02
    fits = []
    for _ in range(16):
        y = N / np.sqrt(T) * rng.standard_normal(n) + K * np.sqrt(T) * np.cumsum(rng.standard_normal(n))
        fits.append(sd.analysis.allan(y, T).fit("NK"))
    for k, size in enumerate((N, K)):
        error = np.sqrt(np.mean([fit.covariance[k, k] for fit in fits]) / len(fits))
        assert abs(np.mean([fit.squares[k] for fit in fits]) - size**2) < 5 * error
        assert error * 4 < 0.35 * size**2


def test_records_are_averaged_and_sharpen_the_fit():
    y = np.random.default_rng(3).standard_normal((9, 1000))
    one, nine = sd.analysis.allan(y[0], 1.0).fit("N"), sd.analysis.allan(y, 1.0).fit("N")
    assert nine.covariance[0, 0] == pytest.approx(one.covariance[0, 0] / 9, rel=0.3)


def test_a_term_that_is_not_there_is_said_to_be_below_a_limit():
    fit = sd.analysis.allan(np.random.default_rng(4).standard_normal(2000), 0.01).fit("NBKR")
    assert any("not seen, below" in line for line in str(fit).splitlines())


def test_a_sine_does_not_fit():
    t = 0.01 * np.arange(20_000)
    y = 0.1 * np.random.default_rng(5).standard_normal(len(t)) + 0.1 * np.sin(2 * np.pi * t / 3.0)
    with pytest.warns(DoesNotFit, match="errors above the fit"):
        sd.analysis.allan(y, 0.01).fit("NBK")


def test_a_ramp_is_found():
    t = 0.1 * np.arange(5000)
    fit = sd.analysis.allan(1e-3 * t + 0.01 * np.random.default_rng(6).standard_normal(len(t)), 0.1).fit("NR")
    assert fit["R"].low < 1e-3 < fit["R"].high and fit["R"].value == pytest.approx(1e-3, rel=0.01)


def test_intervals_of_points_are_those_of_chi_squared():
    curve = sd.analysis.allan(np.random.default_rng(7).standard_normal(1000), 1.0)
    fit = curve.fit("N")
    low, high = curve.interval(fit, 0.9)
    freedom = curve.freedom(fit)
    assert curve.variance * freedom / low == pytest.approx(scipy.stats.chi2.isf(0.05, freedom))
    assert (low < curve.variance).all() and (curve.variance < high).all()


def test_exact_variances_of_models():
    one = coloured.gauss_markov(1.0, 1.0)
    exact = sd.analysis.allan_variance(one, [0.1, 1, 10])
    assert exact == pytest.approx([0.0618919065856, 0.3361824814492, 0.1700018159766], abs=1e-12)
    sampled = sd.analysis.allan_variance(one, [0.1, 1, 10], every=0.1)
    assert sampled == pytest.approx([0.0951625819640, 0.3392346920207, 0.1701934408645], abs=1e-12)
    gyro = sd.noise.gyro(arw=0.01, gauss_markov=(0.05, 100.0), rate_random_walk=1e-4)
    deviations = np.sqrt(sd.analysis.allan_variance(gyro, [0.1, 1, 10, 100, 1000]))
    printed = [0.03164910347, 0.01079562788, 0.01283600794, 0.02901360951, 0.02069874086]
    assert deviations == pytest.approx(printed, rel=1e-9)


def test_exact_variances_add_up():
    parts = [sd.density(0.1, sides=1), sd.density(0.2, sides=2, bandwidth=3.0), coloured.gauss_markov(0.3, 2.0)]
    each = sum(sd.analysis.allan_variance(part, [0.5, 2.0]) for part in parts)
    assert sd.analysis.allan_variance(parts, [0.5, 2.0]) == pytest.approx(each, rel=1e-12)
    assert sd.analysis.allan_variance(sd.per_sample(0.1), 2.0, every=0.5) == pytest.approx(0.0025)


def test_runs_give_records():
    problem = sd.SDE(lambda t, x: -x, lambda t, x: jnp.ones((1, 1)), start=[0.0], names=("x",))
    run = sd.simulate(
        problem, t=(0, 5), dt=0.1, paths=4, seed=1, progress=False, collect=[sd.statistics.Paths(4, every=1)]
    )
    curve = sd.analysis.allan(run)
    assert (curve.records, curve.samples, curve.dt) == (4, 51, pytest.approx(0.1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0, np.nan, 2.0, 3.0], 1.0), "sample 1 is missing"),
        (([1.0, 2.0], 1.0), "at least three samples"),
        ((np.zeros((9, 2)), 1.0), r"channels in columns: give one of them, y\[:, 0\]"),
        ((np.zeros(9), None), "dt: expected the time between samples"),
        ((np.zeros(9), -1.0), "dt: expected a positive time"),
        ((np.zeros(9), 0.1, [0.25]), "no whole multiple of dt = 0.1; the nearest one is 0.2"),
        ((np.zeros(9), 0.1, [0.5]), "more than half the record"),
        ((np.zeros(9), 0.1, "decades"), "taus: expected"),
    ],
)
def test_records_that_have_no_allan_variance_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        sd.analysis.allan(*arguments)


@pytest.mark.parametrize(
    ("record", "terms", "words"),
    [(np.ones(99), "NBK", "at tau = 0.1 is 0"), (np.arange(99.0), "R", "none but a ramp is seen")],
)
def test_records_without_noise_are_not_fitted(record, terms, words):
    """They ended in errors of SciPy."""
    with pytest.raises(ValueError, match=words):
        sd.analysis.allan(record, 0.1).fit(terms)


def test_times_in_place_of_a_time_are_refused():
    with pytest.raises(TypeError, match=r"dt: .* one number, got an array of shape \(9,\)"):
        sd.analysis.allan(np.ones(9), np.arange(9.0))


def test_terms_and_kinds_are_checked():
    curve = sd.analysis.allan(np.random.default_rng(8).standard_normal(100), 1.0)
    with pytest.raises(ValueError, match="different letters of QNBKR"):
        curve.fit("NX")
    with pytest.raises(ValueError, match="kind: expected one of overlapping, plain"):
        sd.analysis.allan([1.0, 2.0, 3.0, 4.0], 1.0, kind="modified")
    with pytest.raises(ValueError, match="overlapping ones"):
        sd.analysis.allan([1.0, 2.0, 3.0, 4.0], 1.0, [1], kind="plain").fit("N")


def test_a_fit_makes_a_sensor():
    curve = sd.analysis.allan(np.random.default_rng(9).standard_normal(4000), 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sensor = curve.fit("N").noise()
    assert pytest.approx(0.1, rel=0.05) == sensor.N
    assert sensor.every == 0.01


def test_flicker_of_readings_has_a_flat_allan_variance_from_the_first_reading_on():
    """Processes that are faster than the readings would be white noise on top of N."""
    every, stretches = 0.01, np.array([1, 2, 3, 4, 8, 64])
    gyro = sd.noise.gyro(bias_instability=0.5, every=every)
    seen = sd.analysis.allan_variance(gyro, stretches * every, every=every)
    assert seen == pytest.approx(2 * np.log(2) / np.pi * 0.25, rel=0.012)


def test_samples_of_gauss_markov_processes_have_their_closed_forms():
    exact = [0.0951625819640, 0.3392346920207, 0.1701934408645]
    unit = allan_terms.variances(allan_terms.gauss_markov(10.0, is_averaging=False), np.array([1, 10, 100]))
    assert unit == pytest.approx(exact, abs=1e-12)
    averaged = allan_terms.variances(allan_terms.gauss_markov(10.0), np.array([1, 10, 100]))
    assert averaged == pytest.approx([0.0618919065856, 0.3361824814492, 0.1700018159766], abs=1e-12)


def test_a_gauss_markov_process_is_fitted_with_its_correlation_time():
    """From the curve that it has on average, exactly; from a record within its intervals of 1e-6."""
    gyro = sd.noise.gyro(arw=0.01, gauss_markov=(0.05, 2.0), every=0.1)
    curve = sd.analysis.allan(gyro.sample(1024, seed=1)[0, :, 0], dt=0.1)
    fit = curve.fit("NG", confidence=1 - 1e-6)
    assert fit["N"].low < 0.01 < fit["N"].high and fit["G"].low < 0.05 < fit["G"].high
    assert fit.correlation_time.low < 2.0 < fit.correlation_time.high and fit.correlation_time.high < 40.0
    mean = dataclasses.replace(curve, variance=sd.analysis.allan_variance(gyro, curve.tau, every=0.1))
    exact = mean.fit("NG")
    assert [exact["N"].value, exact["G"].value] == pytest.approx([0.01, 0.05], rel=1e-4)
    assert exact.correlation_time.value == pytest.approx(2.0, rel=1e-3)
    assert exact.noise().gauss_markov == ((exact["G"].value, exact.correlation_time.value),)
    assert "of correlation time" in str(exact)
