"""Fits to records, against closed forms and the conditions of a maximum."""

import types
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from inference.records import TIMES, VALUES, ornstein_uhlenbeck, oscillator, sensor

import stodyn as sd
from stodyn.inference import climbing, fitting, predictive
from stodyn.inference.priors import SHAPES, prior_of
from stodyn.inference.question import question_of
from stodyn.numerics import uncompiled
from stodyn.warnings import NotGaussian, NotIdentified, StepTooLong

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
        sd.fit(WALK.changed(params={**WALK.params, "k": 1.0}), free=["s", "k"], **options)
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


def test_a_prior_moves_the_maximum_to_that_of_the_posterior():
    options = {"data": RECORD, "sensors": sensor(noise=None), "params": {"s": 0.5}, "predictive": 0}
    result = sd.fit(WALK, free={"m": sd.noise.Normal(1.0, 0.2)}, **options)
    # readings say N(mean, s²/12), the prior N(1, .04)
    precisions = np.array([12 / 0.25, 1 / 0.04])
    mean = precisions @ [STEPS.mean(), 1.0] / precisions.sum()
    np.testing.assert_allclose([result.estimate[0], result.stderr[0]], [mean, precisions.sum() ** -0.5], rtol=1e-7)
    np.testing.assert_allclose(
        [result.low[0], result.high[0]], mean + 1.959964 * result.stderr.values * [-1, 1], rtol=1e-5
    )
    assert result.attrs["maximum"] == "of the posterior density"


LAWS = {
    "uniform": (1.0, 2.0), "norm": (1.0, 2.0), "halfnorm": (0.0, 2.0), "lognorm": (0.7, 0.0, 2.0),
    "gamma": (2.5, 0.0, 2.0), "invgamma": (2.5, 0.0, 2.0), "expon": (0.0, 2.0), "beta": (2.0, 3.0, -1.0, 4.0),
    "t": (4.0, 1.0, 2.0), "cauchy": (1.0, 2.0), "halfcauchy": (0.0, 2.0), "logistic": (1.0, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_priors_have_the_densities_of_scipy(name):
    law = getattr(scipy.stats, name)(*LAWS[name])
    at = law.ppf([0.1, 0.4, 0.8])
    np.testing.assert_allclose(uncompiled.value(prior_of("a", law).log_density, at), law.logpdf(at), rtol=1e-10)


def test_truncated_priors_and_those_of_a_sampler():
    law = sd.noise.Truncated(sd.noise.LogNormal(0.0, 1.0), 0.2, 2.0)
    like = sd.likelihood(WALK, data=RECORD, sensors=sensor(noise=None), free={"s": law})
    u = np.array([0.3])
    s = 0.2 + 1.8 / (1 + np.exp(-0.3))
    slope = (s - 0.2) * (2.0 - s) / 1.8
    expected = like({"s": s}) + np.log(law.pdf(s)) + np.log(slope)
    np.testing.assert_allclose(uncompiled.value(like.log_density, u), expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"free \(s\): .*whose derivatives are known"):
        sd.likelihood(WALK, data=RECORD, sensors=sensor(noise=None), free={"s": scipy.stats.gumbel_r(1.0, 0.1)})


def test_a_start_may_be_free():
    level = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 0.0 * x, 0.0)
    options = {"data": RECORD, "sensors": sensor(noise=0.5)}
    result = sd.fit(level, free={"start.x": None}, **options)
    np.testing.assert_allclose(result.estimate, RECORD[1].mean(), rtol=1e-7)
    np.testing.assert_allclose(result.stderr, 0.5 / np.sqrt(12), rtol=1e-9)
    assert sd.fitted(level, result).start == result.estimate.values
    with pytest.raises(ValueError, match=r"start\.v: there is no state 'v'; there are x"):
        sd.fit(level, free=["start.v"], **options)
    with pytest.raises(ValueError, match=r"start\.x: .*`initial` says 'diffuse'"):
        sd.fit(level, free=["start.x"], initial="diffuse", **options)


def test_a_start_by_the_steps_of_a_method_may_be_free():
    decay = sd.SDE(lambda t, x: -x, lambda t, x: 0.0 * x, 0.0)
    data = np.array([0.5, 1.0, 1.5]), np.array([0.7, 0.2, 0.3])
    like = sd.likelihood(decay, data=data, sensors=sensor(noise=0.5), free=["start.x"], law="Euler", dt=0.5)
    powers = 0.5 ** np.arange(1, 4)  # of 1 - dt
    np.testing.assert_allclose(like.gradient([2.0]), powers @ (data[1] - 2.0 * powers) / 0.25, rtol=1e-10)


def test_a_search_from_far_away_ends_at_the_same_place():
    options = {"data": RECORD, "sensors": sensor(), "params": {"r": 0.3}, "profile": False, "predictive": 0}
    near = sd.fit(WALK, free={"s": (0, None)}, **options)
    far = sd.fit(WALK, free={"s": (0, None)}, start={"s": 1e-3}, **options)
    np.testing.assert_allclose(far.estimate, near.estimate, rtol=1e-6)
    mirrored = sd.fit(WALK, free=["s"], **options)  # s and -s are one noise: no Multimodal, and the user's sign
    np.testing.assert_allclose(mirrored.estimate, near.estimate, rtol=1e-6)


def test_a_step_whose_half_gives_another_likelihood_is_reported():
    options = {"sensors": sensor(), "law": "Euler", "predictive": 0, "profile": False, "free": ["q"]}
    data = np.arange(1, 26) * 0.2, VALUES
    with pytest.warns(StepTooLong, match=r"dt: with steps of half the length .* steps of 0.2"):
        result = sd.fit(oscillator(), data=data, dt=0.2, **options)
    halved = sd.likelihood(oscillator(), data=data, sensors=sensor(), law="Euler", dt=0.1, free=["q"])
    np.testing.assert_allclose(result.loglik_halved, halved(result.estimate.values), rtol=1e-12)


def test_simulated_records_have_the_law_of_the_model():
    def exponential(a, b):
        return 1.1**2 / 1.6 * np.exp(-0.8 * np.abs(a[:, None] - b))

    question = question_of(ornstein_uhlenbeck(), None, data=(TIMES, VALUES), sensors=sensor(), initial="stationary",
                           t0=None, by=None, law=None, params=None)  # fmt: skip
    records = predictive.simulated(question, question.values, 400, np.random.default_rng(1))[:, 1:, 0]
    root = np.linalg.cholesky(exponential(TIMES, TIMES) + 0.09 * np.eye(25))
    e = np.linalg.solve(root, (records - 0.5).T)
    assert abs(np.sum(e**2) - e.size) < 5 * np.sqrt(2 * e.size)
    assert np.abs(e @ e.T / 400 - np.eye(25)).max() < 6 * np.sqrt(2 / 400)


def test_predictive_bands_hold_a_record_of_the_model_and_not_one_of_another():
    options = {"sensors": sensor(), "initial": "stationary", "free": {"s": (0, None)}, "profile": False}
    result = sd.fit(ornstein_uhlenbeck(), data=(TIMES, VALUES), **options)
    inside = (result.reading_low < result.reading_observed) & (result.reading_observed < result.reading_high)
    assert inside.mean() > 0.8 and list(result.summary.values) == ["mean", "deviation", "lag 1", "least", "greatest"]
    np.testing.assert_allclose(result.summary_observed[0, 0], VALUES.mean())
    power = 2 * np.sum(result.spectrum_observed[0].values) * np.diff(result.frequency[0].values)[0]
    np.testing.assert_allclose(power, VALUES.var(), rtol=0.05)  # the integral of a two-sided density
    wrong = sd.fit(WALK, data=RECORD, sensors=sensor(noise=None), free=["m"], params={"s": 0.05}, profile=False)
    assert "the least of y, -0.9, lies outside those of 200 simulated records" in wrong.attrs["reasons"]


def test_a_diffuse_level_is_simulated_from_where_the_record_begins():
    walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    data = RECORD[0], RECORD[1] + 1000.0
    result = sd.fit(walk, data=data, sensors=sensor(noise=0.5), free={"s": (0, None)}, initial="diffuse", profile=False)
    assert ((result.reading_low > 980) & (result.reading_high < 1020)).all()


def test_of_equal_maxima_that_is_taken_at_which_the_search_has_ended():
    unfinished, ended = np.array([1.0]), np.array([1.0 + 1e-6])
    lanes = climbing.Climbed(
        np.array([unfinished, ended]), np.array([-3.0, -3.0 + 1e-9]), np.zeros((2, 1)), -np.ones((2, 1, 1)),
        np.array([False, True]),
    )  # fmt: skip
    line = types.SimpleNamespace(start=np.array([0.5]))
    assert fitting._highest(line, lanes) == 1


def test_a_lane_whose_derivatives_overflow_does_not_stop_the_others():
    def function(u):
        curvature = np.where(np.abs(u) > 5.0, np.nan, -2.0)[:, :, None]
        return -((u[:, 0] - 1.0) ** 2), -2.0 * (u - 1.0), curvature

    ends = climbing.climb(function, np.array([[0.0], [9.0]]), np.ones((2, 1), bool), lambda k: None, for_all=True)
    np.testing.assert_allclose(ends.u[0], 1.0, atol=1e-6)
    assert list(ends.converged) == [True, False] and ends.value[1] == -np.inf


def test_a_profile_leaves_the_plain_of_a_noise_that_is_nearly_zero():
    """The noise of readings is estimated as almost nothing: a quadratic then leads the search far off along it."""
    rng = np.random.default_rng([1, 82])
    a, s, h = 0.8, 1.1, 0.25
    x, values = s / np.sqrt(2 * a) * rng.normal(), []
    for _ in range(150):
        x = x * np.exp(-a * h) + s * np.sqrt((1 - np.exp(-2 * a * h)) / (2 * a)) * rng.normal()
        values.append(0.5 + x + 0.3 * rng.normal())
    result = sd.fit(
        ornstein_uhlenbeck(), data=(h * np.arange(1, 151), np.array(values)), sensors=sensor(), initial="stationary",
        free={"a": (0, None), "s": (0, None), "r": (0, None), "mu": None}, predictive=0,
    )  # fmt: skip
    assert result.estimate[2] < 0.1
    for drops in result.profile.values:
        low, high = np.split(drops, 2)
        assert (np.diff(low) > -1e-6).all() and (np.diff(high) < 1e-6).all()
    np.testing.assert_allclose([result.low[1], result.high[1]], [0.99987, 1.59839], atol=2e-4)


def test_a_noise_whose_estimate_is_zero_has_an_upper_end():
    """Half of all records of a system without noise have their maximum there."""
    noise = np.random.default_rng(1).standard_normal(100)
    times = 0.3 * np.arange(1, 101)
    data = times, 1.0 + 2.0 * np.exp(-times / 9.0) + 0.1 * noise
    names = ["tau", "mu", "q", "r"]
    cooling = sd.SDE(
        lambda t, x, p: (p["mu"] - x) / p["tau"], lambda t, x, p: p["q"], 3.0,
        params=dict(zip(names, (5.0, 0.5, 0.1, 0.1), strict=True)),
    )  # fmt: skip
    options = {"data": data, "sensors": sensor(), "free": dict.fromkeys(names, (0, None))}
    result = sd.fit(cooling, predictive=0, **options)
    estimate = dict(zip(names, result.estimate.values, strict=True))
    low, high = (dict(zip(names, result[word].values, strict=True)) for word in ("low", "high"))
    assert low["q"] == 0.0 < 1e-4 < high["q"] and "q may be 0, where its range begins" in result.attrs["reasons"]
    like, rest = sd.likelihood(cooling, **options), [name for name in names if name != "q"]

    def held(ratios):
        others = {name: estimate[name] * ratio for name, ratio in zip(rest, ratios, strict=True)}
        return -like(others | {"q": high["q"]})

    best = scipy.optimize.minimize(held, np.ones(3), method="Nelder-Mead", options={"fatol": 1e-6, "xatol": 1e-5})
    np.testing.assert_allclose(float(result.loglik) + best.fun, scipy.stats.chi2(1).ppf(0.95) / 2, rtol=0.02)
    assert np.isfinite(result.high).all() and np.isfinite(result.stderr).all()


@pytest.mark.parametrize(("level", "is_wrong"), [(0.6, False), (1.2, True)])
def test_intervals_that_a_grid_contradicts_are_not_to_be_trusted(level, is_wrong):
    """A sine read near its top: the filter's log L is within 2 of that on the grid, but not the interval."""
    k = np.arange(1, 41)
    reading = np.sin(level + 0.3 * np.sin(0.4 * k) + 0.2 * np.cos(1.7 * k)) + 0.05 * np.sin(k**2)
    wanders = sd.SDE(lambda t, x, p: p["mu"] - x, lambda t, x: 0.5, start=level, params={"mu": level})
    sine = sd.Sensor("y", of=lambda t, x: jnp.sin(x[0]), noise=sd.per_sample(0.1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = sd.fit(wanders, data=(0.25 * k, reading), sensors=sine, free=["mu"], by="ekf", dt=0.125, predictive=0)
    assert abs(result.loglik - result.loglik_grid) < 2 and result.attrs["exact"] == "no"
    assert any(issubclass(own.category, NotGaussian) for own in caught) is is_wrong
    assert ("intervals are not to be trusted" in result.attrs["reasons"]) is is_wrong


def test_intervals_of_profiles_cover():
    """Of twenty records the rate and the noise of an exactly read process; of intervals that cover .95, fewer than 12
    of 20 would less than one time in a million."""
    process = sd.SDE(lambda t, x, p: -p["a"] * x, lambda t, x, p: p["s"], 0.0, params={"a": 0.8, "s": 1.1})
    exact, k = sd.Sensor("y", of="x"), np.arange(1, 51)
    decay = np.exp(-0.8 * 0.4)
    kicks = 1.1 * np.sqrt((1 - decay**2) / 1.6) * np.random.default_rng(4).standard_normal((20, len(k)))
    inside = np.zeros(2, int)
    for row in kicks:
        data = 0.4 * k, np.convolve(row, decay ** (k - 1.0))[: len(k)]
        result = sd.fit(process, data=data, sensors=exact, free={"a": (0, None), "s": (0, None)}, predictive=0)
        inside += (result.low.values < [0.8, 1.1]) & (result.high.values > [0.8, 1.1])
    assert inside.min() >= 12
