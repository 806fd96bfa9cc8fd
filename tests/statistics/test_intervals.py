"""Intervals of estimates from few paths, against the exact laws of what they estimate."""

import numpy as np
import pytest
import scipy
from scipy import stats as laws

import stodyn as sd
from stodyn import results
from stodyn import statistics as st
from stodyn.statistics import intervals

PATHS, SETS = 8, 20_000
BROWNIAN = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)


def held(value, stderr, attrs, truth, confidence=0.95):
    low, high = intervals.limits(value, stderr, attrs, confidence)
    return np.mean((low <= truth) & (truth <= high))


def test_variances_of_eight_normal_numbers():
    """At least as often as they say: χ² with 7 degrees of freedom is exact, and the measured kurtosis takes some away.
    20 000 sets: five standard errors of a share of 95 % are .008."""
    x = np.random.default_rng(1).normal(size=(SETS, PATHS))
    d = x - x.mean(axis=1, keepdims=True)
    sums = st.moments.Sums(
        np.full(SETS, PATHS), x.mean(axis=1)[:, None], *((d**k).sum(axis=1)[:, None] for k in (2, 3, 4))
    )
    s = st.moments.summarise(sums)
    share = held(s.variance[:, 0], s.variance_stderr[:, 0], intervals.attributes("chi-square", PATHS), 1.0)
    assert 0.942 < share < 0.98
    by_student = held(s.variance[:, 0], s.variance_stderr[:, 0], intervals.attributes("Student", PATHS), 1.0)
    assert by_student < 0.85
    share = held(s.std[:, 0], s.std_stderr[:, 0], intervals.attributes("deviation", PATHS), 1.0)
    assert 0.942 < share < 0.98
    exact = 1.0 - 2.0 / 7.0 * (scipy.special.gamma(4.0) / scipy.special.gamma(3.5)) ** 2  # of normal numbers
    assert np.mean(s.std_stderr**2) == pytest.approx(exact, rel=0.03)


def test_student_lies_about_the_mean():
    low, high = intervals.limits(np.array([2.0]), np.array([0.5]), intervals.attributes("Student", PATHS), 0.9)
    np.testing.assert_allclose([low, high], 2.0 + 0.5 * laws.t(PATHS - 1).ppf([[0.05], [0.95]]), rtol=1e-12)


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_probabilities_from_eight_counts(p):
    """Summed over all counts, no sampling: never below what is said, and within [0, 1]."""
    hits = np.arange(PATHS + 1)
    share = hits / PATHS
    attrs = intervals.attributes("binomial", PATHS)
    low, high = intervals.limits(share, np.sqrt(share * (1 - share) / (PATHS - 1)), attrs)
    chance = laws.binom.pmf(hits, PATHS, p)
    assert chance[(low <= p) & (p <= high)].sum() >= 0.95
    exact = laws.binomtest(3, PATHS).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose([low[3], high[3]], exact, rtol=1e-9)
    assert low.min() == 0.0 and high.max() == 1.0


def survivals(level, drift, paths):
    """What paths of a Brownian motion with drift carry after one step of the whole run, in 2000 runs: mean, standard
    error, and the probability behind them (reflection)."""
    end = drift + np.random.default_rng(3).normal(size=(2000, paths))
    alive = -np.expm1(-2.0 * level * np.maximum(level - end, 0.0))
    truth = laws.norm.cdf(level - drift) - np.exp(2.0 * drift * level) * laws.norm.cdf(-level - drift)
    return alive.mean(axis=1), alive.std(axis=1, ddof=1) / np.sqrt(paths), truth


@pytest.mark.parametrize(("level", "drift"), [(0.1, 0.0), (1.0, 0.0), (2.0, 0.0), (1.0, -2.0)])
@pytest.mark.parametrize("paths", [PATHS, 128])
def test_probabilities_that_few_paths_carry(level, drift, paths):
    """The few paths that come near the level may all be missing. At least .96 are covered, five standard errors of a
    share of 2000 above .935; where p(1 - p)/stderr² trials were taken, down to .53 were."""
    value, stderr, truth = survivals(level, drift, paths)
    assert held(value, stderr, intervals.attributes("binomial", paths), truth) > 0.935


@pytest.mark.parametrize("level", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("paths", [PATHS, 128])
def test_restricted_means_from_few_paths(level, paths):
    """min(τ, 1) of a Brownian motion, τ = (level/Z)²; for most paths it may be 1. At least .95 are covered, four
    standard errors of a share of 2000 above .93; of Student's intervals from 8 paths .30 to .86 are."""
    stopped = np.minimum((level / np.random.default_rng(4).normal(size=(2000, paths))) ** 2, 1.0)
    value, stderr = stopped.mean(axis=1), stopped.std(axis=1, ddof=1) / np.sqrt(paths)
    truth, _ = scipy.integrate.quad(lambda t: scipy.special.erf(level / np.sqrt(2.0 * t)), 0.0, 1.0)
    assert held(3.0 * value, 3.0 * stderr, intervals.attributes("bounded", paths, 3.0), 3.0 * truth) > 0.93
    by_student = held(value, stderr, intervals.attributes("Student", paths), truth)
    assert by_student < 0.93 or paths > PATHS


def test_many_paths_that_carry_probabilities_have_narrower_intervals_than_counts():
    value, stderr, _ = survivals(0.3, 0.0, 1000)
    carried, counted = (
        np.subtract(*intervals.limits(value, s, intervals.attributes("binomial", 1000))) for s in (stderr, np.nan)
    )
    np.testing.assert_allclose(carried / counted, np.sqrt(1000 / (value * (1 - value))) * stderr, rtol=0.03)


def test_root_mean_squares_of_eight_normal_numbers():
    square = np.random.default_rng(2).normal(size=(SETS, PATHS)) ** 2
    rms = np.sqrt(square.mean(axis=1))
    stderr = 0.5 * square.std(axis=1, ddof=1) / np.sqrt(PATHS) / rms
    assert 0.93 < held(rms, stderr, intervals.attributes("rms", PATHS), 1.0) < 0.99


def test_a_run_gives_the_interval_of_each_of_its_variables(tmp_path):
    """A density is a probability over the width of its bin; intervals survive a file."""
    edges = np.array([-1.0, 0.0, 2.0])
    collect = [st.Moments(), st.Histogram(edges), st.Passage(1.0, mean=False)]
    run = sd.simulate(BROWNIAN, "EulerMaruyama", t=(0, 1), dt=0.25, paths=PATHS, seed=1, collect=collect)
    results.save(run, tmp_path / "run.nc")
    for given in (run, results.load(tmp_path / "run.nc")):
        for name in ("mean", "variance", "density", "passage_survival", "passage_density"):
            found = results.interval(given, name)
            inside = (found.low <= given[name]) & (given[name] <= found.high)
            assert bool(inside.all()), name
        density = results.interval(given, "density")
        shares = given["density"].values[-1, 0] * np.diff(edges)
        exact = [laws.binomtest(round(8 * p), PATHS).proportion_ci(0.95, method="exact") for p in shares]
        np.testing.assert_allclose(density.low[-1, 0] * np.diff(edges), [e.low for e in exact], rtol=1e-9)
        assert float(results.interval(given, "passage_survival").low.min()) >= 0.0
        restricted = results.interval(given, "passage_restricted_mean")
        assert bool((restricted.low <= given["passage_restricted_mean"]).all())
        assert bool((restricted.high <= given["time"]).all())
    assert results.interval(run, "variance").attrs["rule"] == "chi-square"
    start = results.interval(run, "variance").isel(time=0)
    assert float(start.low.item()) == float(start.high.item()) == 0.0  # a fixed start has no scatter


def test_intervals_that_a_run_does_not_have_are_refused():
    run = sd.simulate(BROWNIAN, "EulerMaruyama", t=(0, 1), dt=0.5, paths=PATHS, seed=1)
    with pytest.raises(ValueError, match="name: 'covariance' has no interval in this run; these have: 'mean', 'var"):
        results.interval(run, "covariance")
    with pytest.raises(ValueError, match="confidence: expected a number between 0 and 1, got 95"):
        results.interval(run, "mean", 95)


def test_hazards_have_the_limits_of_their_probabilities():
    """p = 1 - exp(-λ w) of a bin of width w, and dp/dλ = w (1 - p)."""
    p, stderr, width = 0.3, 0.05, 0.4
    of_p = np.array(intervals.limits(p, stderr, {"interval": "binomial", "paths": 80}))
    hazard = {"interval": "hazard", "paths": 80, "width": width}
    found = intervals.limits(-np.log1p(-p) / width, stderr / (width * (1.0 - p)), hazard)
    np.testing.assert_allclose(found, -np.log1p(-of_p) / width, rtol=1e-13)


@pytest.mark.parametrize("kind", ["Student", "chi-square", "rms", "binomial"])
def test_limits_at_many_times_are_those_at_each(kind):
    """Paths that differ from time to time, of values with a further axis."""
    value, stderr = np.array([[0.2, 0.3], [0.4, 0.25], [0.1, 0.6]]), np.full((3, 2), 0.02)
    paths = np.array([5, 40, 3000])
    low, high = intervals.limits(value, stderr, {"interval": kind, "paths": paths}, 0.9)
    for k, count in enumerate(paths):
        each = intervals.limits(value[k], stderr[k], {"interval": kind, "paths": count}, 0.9)
        np.testing.assert_array_equal((low[k], high[k]), each)
    assert np.all(low < value) and np.all(value < high)


@pytest.mark.parametrize("freedom", [3, 20, 200])
def test_a_root_mean_square_of_normals_has_the_interval_of_chi_square(freedom):
    """Its standard error says how many normals are behind it: value²/(2 stderr²)."""
    value = np.array([0.5, 2.0])
    found = intervals.limits(value, value / np.sqrt(2 * freedom), {"interval": "rms", "paths": 1000}, 0.9)
    for limit, level in zip(found, (0.95, 0.05), strict=True):
        np.testing.assert_allclose(limit, value * np.sqrt(freedom / laws.chi2.ppf(level, freedom)), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_scatter_that_leaves_nothing_known_counts_as_one_degree_of_freedom(scale):
    """A few paths of a heavy tail decide the estimate: its error is as large as itself."""
    law = laws.chi2(1)
    low, high = 1.0 / law.ppf(0.975), 1.0 / law.ppf(0.025)
    of_variance = intervals.limits(scale, 2.0 * scale, {"interval": "chi-square", "paths": 50})
    np.testing.assert_allclose(of_variance, (scale * low, scale * high), rtol=1e-9)
    of_rms = intervals.limits(scale, 2.0 * scale, {"interval": "rms", "paths": 50})
    np.testing.assert_allclose(of_rms, scale * np.sqrt([low, high]), rtol=1e-9)
