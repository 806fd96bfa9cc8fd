"""Likelihoods with their derivatives, against values by the dense joint normal law and against each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from inference.records import TIMES, VALUES, K, ornstein_uhlenbeck, oscillator, sensor

import stodyn as sd
from stodyn.inference import evaluating
from stodyn.numerics.uncompiled import Uncompiled, value

TIGHT = {"rtol": 1e-9, "atol": 1e-9}


def test_ornstein_uhlenbeck():
    like = sd.likelihood(
        ornstein_uhlenbeck(), data=(TIMES, VALUES), sensors=sensor(), free=["a", "mu", "s", "r"], initial="stationary"
    )
    value, gradient, hessian = like.derivatives()
    np.testing.assert_allclose(value, -30.611027044616, rtol=1e-12)
    np.testing.assert_allclose(like(), value, rtol=1e-14)
    np.testing.assert_allclose(gradient, [1.8441052774, -0.5790429566, 8.2563569364, 23.6849389821], **TIGHT)
    np.testing.assert_allclose(np.diag(hessian), [-1.96274966, -3.73244874, -25.59966354, -128.30867987], rtol=1e-8)
    np.testing.assert_allclose(like.gradient(), gradient, rtol=1e-12)
    np.testing.assert_array_equal(like.information(), -hessian)


def test_oscillator():
    like = sd.likelihood(oscillator(), data=(TIMES, VALUES), sensors=sensor(), free=["ω", "ζ", "q", "r"])
    np.testing.assert_allclose(like(), -112.408364917822, rtol=1e-13)
    np.testing.assert_allclose(like.gradient(), [0.86113177870, 6.6601061345, 6.4672836786, 1087.1836959], rtol=1e-10)
    h = 1e-4
    ends = [like.gradient({"ζ": 0.1 + sign * h}) for sign in (-1, 1)]
    np.testing.assert_allclose(like.hessian()[1], (ends[1] - ends[0]) / (2 * h), rtol=1e-5, atol=1e-5)


def test_rates_may_grow_far_beyond_those_of_the_problem():
    like = sd.likelihood(oscillator(), data=(TIMES, VALUES), sensors=sensor(), free=["ω"])
    direct = sd.filtered(oscillator(ω=300.0), data=(TIMES, VALUES), sensors=sensor())
    np.testing.assert_allclose(like({"ω": 300.0}), direct.loglik, rtol=1e-12)


def test_parameters_without_a_stationary_law_have_no_likelihood():
    like = sd.likelihood(ornstein_uhlenbeck(), data=(TIMES, VALUES), sensors=sensor(), free=["a"], initial="stationary")
    assert like({"a": -0.5}) == -np.inf


def test_the_functions_of_jax_are_the_same():
    like = sd.likelihood(
        ornstein_uhlenbeck(),
        data=(0.5 * K[:6], VALUES[:6]),
        sensors=sensor(average=0.4),
        free={"a": (0, None), "mu": None, "s": (0.1, 5.0), "r": (None, 2.0)},
        initial="stationary",
    )
    np.testing.assert_allclose(value(like.jax, like.start), like(), rtol=1e-12)
    np.testing.assert_allclose(value(jax.grad(like.jax), like.start), like.gradient(), rtol=1e-10)
    u = value(like.unconstrain, like.start)
    np.testing.assert_allclose(value(like.constrain, u), like.start, rtol=1e-14)
    slopes = value(jax.jacfwd(like.constrain), u)
    np.testing.assert_allclose(value(like.log_density, u), like() + np.linalg.slogdet(slopes)[1], rtol=1e-12)


def test_a_million_readings_take_little_memory():
    rng = np.random.default_rng(1)
    values = rng.normal(size=1_000_000)
    like = sd.likelihood(
        ornstein_uhlenbeck(a=1e3, s=1e-9),
        data=(0.5 * np.arange(1, 1_000_001), values),
        sensors=sensor(),
        free=["mu", "r"],
    )
    # readings are then independent, N(mu, r²), but for the first, on the way from 0
    rest = values - 0.5
    expected = -0.5 * np.sum(rest**2) / 0.09 - 500_000 * np.log(2 * np.pi * 0.09)
    np.testing.assert_allclose(like(), expected, rtol=1e-11)


def test_derivatives_of_the_law_of_a_method():
    like = sd.likelihood(oscillator(), data=(0.25 * K, VALUES), sensors=sensor(), law="ImplicitMidpoint", dt=0.125)
    h = 1e-5
    for k, name in enumerate(like.names):
        ends = [like({name: like.start[k] + sign * h}) for sign in (-1, 1)]
        np.testing.assert_allclose(like.gradient()[k], (ends[1] - ends[0]) / (2 * h), rtol=1e-5)


def test_transitions_of_a_square_root_process():
    process = sd.SDE(
        lambda t, x, p: p["rate"] * (p["level"] - x),
        lambda t, x, p: p["s"] * jnp.sqrt(x),
        start=1.2,
        params={"rate": 0.9, "level": 1.2, "s": 0.5},
    )
    data = TIMES, 1.2 * (1 + 0.4 * np.sin(1.3 * K) + 0.2 * np.cos(0.7 * K**2))
    options = {"data": data, "sensors": sensor(noise=None), "initial": "diffuse"}
    like = sd.likelihood(process, **options)
    np.testing.assert_allclose(like(), -15.4536260203, rtol=1e-11)
    np.testing.assert_allclose(value(like.jax, like.start), like(), rtol=1e-12)
    h, gradient, hessian = 1e-5, like.gradient(), like.hessian()
    for k, name in enumerate(like.names):
        ends = [{name: like.start[k] + sign * h} for sign in (-1, 1)]
        np.testing.assert_allclose(gradient[k], (like(ends[1]) - like(ends[0])) / (2 * h), rtol=1e-6)
        slopes = (like.gradient(ends[1]) - like.gradient(ends[0])) / (2 * h)
        np.testing.assert_allclose(hessian[k], slopes, rtol=1e-6)
    result = sd.filtered(process, **options)
    np.testing.assert_allclose(result.loglik, like(), rtol=1e-12)
    np.testing.assert_allclose(result["mean"][:, 0], data[1])
    assert result.attrs["by"] == "transition" and result.attrs["exact"] == "yes"


def test_transitions_are_normal_where_the_state_is_large():
    process = sd.SDE(lambda t, x: -(x - 1e6), lambda t, x: jnp.sqrt(x), start=1e6)
    data = [0.5, 1.0], [1e6 + 300.0, 1e6 - 200.0]
    normal = sd.SDE(lambda t, x: -(x - 1e6), lambda t, x: 1e3, start=1e6)
    exact, near = (sd.filtered(own, data=data, sensors=sensor(noise=None)).loglik for own in (process, normal))
    np.testing.assert_allclose(exact, near, atol=1e-3)


def test_a_sampler_on_the_log_density_finds_the_posterior():
    like = sd.likelihood(
        ornstein_uhlenbeck(), data=(0.5 * K[:5], VALUES[:5]), sensors=sensor(), free={"s": (0.2, 4.0)},
        initial="stationary",
    )  # fmt: skip
    places = np.linspace(-12.0, 12.0, 401)
    density = Uncompiled(jax.vmap(lambda u: like.log_density(u[None])))
    weights = np.exp(density(places) - density(places).max())
    s = np.linspace(0.2, 4.0, 400)[1:-1]  # and on the scale of s, with a flat prior
    likelihoods = np.exp([like([own]) for own in s[::4]])
    sizes = 0.2 + 3.8 / (1.0 + np.exp(-places))
    mean = weights @ sizes / weights.sum()
    np.testing.assert_allclose(mean, likelihoods @ s[::4] / likelihoods.sum(), rtol=2e-3)
    rng, chains = np.random.default_rng(8), 400
    u = rng.choice(places, size=chains, p=weights / weights.sum())
    now = density(u)
    for _ in range(12):  # Metropolis, from the posterior, in which it stays
        trial = u + 1.5 * rng.standard_normal(chains)
        new = density(trial)
        takes = np.log(rng.random(chains)) < new - now
        u, now = np.where(takes, trial, u), np.where(takes, new, now)
    sizes = 0.2 + 3.8 / (1.0 + np.exp(-u))
    assert abs(sizes.mean() - mean) < 5 * sizes.std() / chains**0.5


def test_second_derivatives_of_the_law_of_no_time_are_zero():
    """Powers of the first gap, of length 0, must not be derived: XLA, which compiles long programs, gives NaN."""
    evaluated = sd.likelihood(oscillator(), data=(TIMES, VALUES), sensors=sensor()).question.evaluated
    law = functools.partial(evaluating.of_gap, evaluated.model, evaluated.params_of, False)
    at, along = np.array([2.0, 0.1, 0.7, 0.2, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])

    def slope(theta):
        return jax.jvp(lambda theta: law(theta).E, (theta,), (along,))[1]

    second = value(lambda theta: jax.jvp(slope, (theta,), (along,))[1], at)
    np.testing.assert_array_equal(second, 0.0)


def test_a_filter_that_has_settled_is_the_same_to_rounding(monkeypatch):
    """Regular readings with two gaps: value and derivatives with the covariance of every row computed."""
    k = np.arange(1, 301)
    values = np.where((k == 150) | (k == 151), np.nan, np.sin(1.3 * k) + 0.5 * np.cos(0.7 * k**2))
    like = sd.likelihood(oscillator(), data=(0.2 * k, values), sensors=sensor())
    settled = like.derivatives()
    rows = like.question.evaluated.data
    assert rows.repeats is not None and rows.repeats.sum() == 301 - 4  # the start, and where rows change
    never = rows._replace(repeats=np.zeros_like(rows.repeats))
    monkeypatch.setitem(like.question.evaluated.__dict__, "data", never)
    for own, whole in zip(settled, like.derivatives(), strict=True):
        np.testing.assert_allclose(own, whole, rtol=3e-13, atol=1e-11)
