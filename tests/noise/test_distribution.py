"""Distributions: recurrences against exact moments in high precision, rules, draws, and bad ones."""

import math

import mpmath
import numpy as np
import pytest
import scipy.stats

from stodyn.noise import distribution as d
from stodyn.numerics import orthogonal

N = 6


def from_moments(moment, n, digits=200):
    """alpha and beta by Gram-Schmidt in exact moments: π_(k+1) = (x - alpha_k) π_k - beta_k π_(k-1)."""
    with mpmath.workdps(digits):
        m = [moment(k) for k in range(2 * n + 1)]

        def inner(p, q, shift=0):
            return mpmath.fsum(a * b * m[i + j + shift] for i, a in enumerate(p) for j, b in enumerate(q))

        alpha, beta, before, p = [], [], [mpmath.mpf(0)], [mpmath.mpf(1)]
        for k in range(n):
            alpha.append(inner(p, p, 1) / inner(p, p))
            beta.append(inner(p, p) / inner(before, before) if k else inner(p, p))
            following = [mpmath.mpf(0), *p]
            for i, a in enumerate(p):
                following[i] -= alpha[-1] * a
            for i, a in enumerate(before):
                following[i] -= beta[-1] * a * (k > 0)
            before, p = p, following
        return np.array(alpha, float), np.array(beta, float)


mp = mpmath.mp
CASES = {
    "uniform": (d.Uniform(1.8, 2.2),
                lambda k: (mp.mpf("2.2") ** (k + 1) - mp.mpf("1.8") ** (k + 1)) / (k + 1) * mp.mpf("2.5")),
    "normal": (d.Normal(1.0, 2.0), lambda k: mpmath.fsum(
        mpmath.binomial(k, j) * mp.mpf(2) ** j * mpmath.fac2(j - 1) for j in range(0, k + 1, 2))),
    "beta": (d.Beta(2.0, 3.5), lambda k: mpmath.beta(2 + k, 3.5) / mpmath.beta(2, 3.5)),
    "gamma": (d.Gamma(2.5, 2.0), lambda k: mp.mpf(2) ** k * mpmath.gamma(2.5 + k) / mpmath.gamma(2.5)),
    "exponential": (d.Exponential(0.5), lambda k: mp.mpf(0.5) ** k * mpmath.factorial(k)),
    "lognormal": (d.LogNormal(0.2, 0.4), lambda k: mpmath.exp(mp.mpf("0.2") * k + mp.mpf("0.08") * k * k)),
    "triangle": (d.Density(lambda x: 3.0 * np.minimum(x, 2.0 - x), 0.0, 2.0, (1.0,)),
                 lambda k: (mp.mpf(2) ** (k + 2) - 2) / (k + 1) / (k + 2)),
    "sech": (d.Density(lambda x: 1.0 / np.cosh(np.clip(x, -700, 700)), -np.inf, np.inf),
             lambda k: abs(mpmath.eulernum(k)) * (mpmath.pi / 2) ** k),
    "logistic": (scipy.stats.logistic(0.0, 1.0), lambda k: mp.mpf(k == 0) if k == 0 or k % 2 else
                 2 * (1 - mp.mpf(2) ** (1 - k)) * mpmath.factorial(k) * mpmath.zeta(k)),
    "arcsine": (scipy.stats.arcsine(), lambda k: mpmath.binomial(2 * k, k) / mp.mpf(4) ** k),
    "weibull": (scipy.stats.weibull_min(1.5), lambda k: mpmath.gamma(1 + k / mp.mpf("1.5"))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_recurrences_and_rules_against_exact_moments(name):
    source, moment = CASES[name]
    law = d.distribution(source, name)
    alpha, beta = from_moments(moment, N)
    found = law.recurrence(N)
    scale = np.sqrt(beta[1])
    np.testing.assert_allclose(found.alpha, alpha, rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(found.beta, beta, rtol=1e-10)
    x, w = law.rule(N)
    for k in range(2 * N):
        assert math.fsum(w * x**k) == pytest.approx(
            float(moment(k)), rel=1e-9, abs=1e-9 * math.fsum(w * np.abs(x) ** k)
        )
    p = orthogonal.evaluate(found, x)
    np.testing.assert_allclose(p.T @ (w[:, None] * p), np.eye(N), atol=1e-10)
    assert law.mean == pytest.approx(float(moment(1)), abs=1e-10 * scale)
    assert law.variance == pytest.approx(float(moment(2) - moment(1) ** 2), rel=1e-9)
    assert law.moment(3) == pytest.approx(float(moment(3)), rel=1e-9, abs=1e-9)


def test_heavy_tails_have_the_moments_that_exist():
    """Student's law with 4 degrees of freedom: two polynomials need its third moment, and it has no fourth."""
    found = d.distribution(scipy.stats.t(4), "p").recurrence(2)
    np.testing.assert_allclose([found.alpha, found.beta], [[0.0, 0.0], [1.0, 2.0]], atol=1e-12)


def test_truncated_normal_is_scipys():
    law = d.Truncated(scipy.stats.norm(1.0, 2.0), 0.0, 4.0)
    exact = scipy.stats.truncnorm(-0.5, 1.5, 1.0, 2.0)
    assert [law.moment(k) for k in range(1, 5)] == pytest.approx([exact.moment(k) for k in range(1, 5)], rel=1e-11)
    u = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    np.testing.assert_allclose(law.ppf(u), exact.ppf(u), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(law.pdf(u), exact.pdf(u), rtol=1e-12)


@pytest.mark.parametrize("name", ["normal", "triangle", "sech", "lognormal"])
def test_draws_follow_the_law(name):
    """Means of polynomials over 4000 draws within 5 standard errors: a false alarm in 6e7 each."""
    law = d.distribution(CASES[name][0], name)
    x = law.rvs(size=4000, random_state=np.random.default_rng(5))
    p = orthogonal.evaluate(law.recurrence(4), x)[:, 1:]
    z = p.mean(axis=0) / (p.std(axis=0) / np.sqrt(len(x)))
    assert np.all(np.abs(z) < 5.0)
    again = law.rvs(size=4000, random_state=np.random.default_rng(5))
    np.testing.assert_array_equal(again, x)


def test_frozen_distributions_of_scipy_are_recognised():
    for frozen, own in [
        (scipy.stats.uniform(1.0, 2.0), d.Uniform(1.0, 3.0)),
        (scipy.stats.norm(loc=1.0, scale=2.0), d.Normal(1.0, 2.0)),
        (scipy.stats.beta(2.0, 3.0, loc=-1.0, scale=4.0), d.Beta(2.0, 3.0, -1.0, 3.0)),
        (scipy.stats.gamma(2.0, scale=3.0), d.Gamma(2.0, 3.0)),
        (scipy.stats.expon(1.0, 2.0), d.Exponential(2.0, 1.0)),
        (scipy.stats.lognorm(0.3, scale=np.exp(0.1)), d.LogNormal(0.1, 0.3)),
    ]:
        assert repr(d.distribution(frozen, "p")) == repr(own)
        np.testing.assert_allclose(d.distribution(frozen, "p").recurrence(4), own.recurrence(4), rtol=1e-12)
    assert (d.Uniform(1.0, 3.0).low, d.Uniform(1.0, 3.0).high) == (1.0, 3.0)


BAD = [
    (lambda: d.distribution(scipy.stats.t(3), "p").recurrence(4), "no moment of order 7, which 4 orthogonal"),
    (lambda: d.distribution(scipy.stats.cauchy(), "p").recurrence(1), "no moment of order 1"),
    (lambda: d.Density(lambda x: 1 / (1 + x**4), -np.inf, np.inf).recurrence(3), "no moment of order 5"),
    (lambda: d.distribution(scipy.stats.multivariate_normal([0, 0]), "p"), "dependent ones as functions of"),
    (lambda: d.distribution(scipy.stats.poisson(3), "p"), "not a distribution of one continuous number"),
    (lambda: d.distribution(scipy.stats.norm, "p"), r"give its parameters: scipy.stats.norm\(...\)"),
    (lambda: d.distribution(scipy.stats.norm([0, 1], 1), "p"), "a distribution of vectors"),
    (lambda: d.distribution(3.0, "p"), r"p: expected a distribution such as Uniform"),
    (lambda: d.Uniform(2.0, 1.0), "low < high, got 2.0 and 1.0"),
    (lambda: d.Normal(0.0, 0.0), "std > 0"),
    (lambda: d.Normal([0.0, 0.0], np.eye(2)), r"Normal: expected finite numbers, got \[0.0, 0.0\]. .* a law each"),
    (lambda: d.Gamma(2.0, "1"), "Gamma: expected finite numbers, got '1'"),
    (lambda: d.LogNormal(np.nan, 1.0), "LogNormal: expected finite numbers, got nan"),
    (lambda: d.Uniform(1.0, 1.0), "low < high, got 1.0 and 1.0"),
    (lambda: d.Density(lambda x: 1.0 + 0.0 * x, 1.0, 1.0), "low < high, got 1.0 and 1.0"),
    (lambda: d.Truncated(d.Normal(0.0, 1.0), 1.0, 1.0), "expected low < high"),
    (lambda: d.Beta(0.0, 1.0), "a, b > 0 and low < high"),
    (lambda: d.Beta(1.0, 0.0), "a, b > 0 and low < high"),
    (lambda: d.Beta(1.0, 1.0, 2.0, 2.0), "a, b > 0 and low < high"),
    (lambda: d.Gamma(0.0), "shape, scale > 0"),
    (lambda: d.Gamma(1.0, 0.0), "shape, scale > 0"),
    (lambda: d.Exponential(0.0), "scale > 0"),
    (lambda: d.LogNormal(0.0, 0.0), "sigma > 0"),
    (lambda: d.Truncated(scipy.stats.norm(), 50.0, 60.0), "no mass in"),
    (lambda: d.Density(lambda x: np.exp(-0.5 * ((x - 1e-10) / 1e-16) ** 2), -np.inf, np.inf), "integrates to"),
    (lambda: d.Density(lambda x: x, -1.0, 1.0), "one finite number >= 0"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), BAD, ids=[f"{k} {words}" for k, (_, words) in enumerate(BAD)])
def test_what_is_no_distribution_is_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_densities_over_half_a_line(sign):
    """2 exp(-3|x - sign|) beyond sign: 1/3 wide, and twice as many as it should be is divided out."""
    low, high = (1.0, np.inf) if sign > 0 else (-np.inf, -1.0)
    law = d.Density(lambda x: 2.0 * np.exp(-3.0 * np.abs(x - sign)), low, high)
    assert law.mean == pytest.approx(sign * 4 / 3, rel=1e-10)
    assert law.variance == pytest.approx(1 / 9, rel=1e-9)
    x = sign * np.array([1.0, 1.5, 3.0])
    np.testing.assert_allclose(law.pdf(x), 3.0 * np.exp(-3.0 * np.abs(x - sign)), rtol=1e-9)
    u = np.array([0.01, 0.3, 0.9])
    expected = 1.0 - np.log1p(-u) / 3.0 if sign > 0 else -1.0 + np.log(u) / 3.0
    np.testing.assert_allclose(law.ppf(u), expected, rtol=1e-8)


def test_a_density_of_infinite_mass_is_refused():
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"integrates to inf over \(0, 3\)"):
        d.Density(lambda x: np.full_like(x, 1.2e308), 0.0, 3.0)


LAWS = {
    "Uniform": (d.Uniform(-1.0, 3.0), scipy.stats.uniform(-1.0, 4.0)),
    "Normal": (d.Normal(2.0, 0.5), scipy.stats.norm(2.0, 0.5)),
    "Beta": (d.Beta(2.0, 3.5, -1.0, 4.0), scipy.stats.beta(2.0, 3.5, -1.0, 5.0)),
    "Gamma": (d.Gamma(2.5, 0.7, 1.0), scipy.stats.gamma(2.5, 1.0, 0.7)),
    "Exponential": (d.Exponential(0.4, -2.0), scipy.stats.expon(-2.0, 0.4)),
    "LogNormal": (d.LogNormal(0.3, 0.6), scipy.stats.lognorm(0.6, 0.0, math.exp(0.3))),
    "Truncated": (d.Truncated(d.Normal(1.0, 2.0), -1.0, 2.0), scipy.stats.truncnorm(-1.0, 0.5, 1.0, 2.0)),
    "Truncated tail": (d.Truncated(d.Exponential(2.0), 1.0, np.inf), scipy.stats.expon(1.0, 2.0)),
    "Density": (d.Density(lambda x: 3.0 * (1.0 - x**2), -1.0, 1.0), scipy.stats.beta(2.0, 2.0, -1.0, 2.0)),
    "Truncated below": (d.Truncated(d.Normal(1.0, 2.0), -np.inf, 0.5), scipy.stats.truncnorm(-np.inf, -0.25, 1.0, 2.0)),
    "far tail": (d.Truncated(d.Normal(0.0, 1.0), 8.0, np.inf), scipy.stats.truncnorm(8.0, np.inf)),
    "far left tail": (d.Truncated(d.Normal(0.0, 1.0), -np.inf, -8.0), scipy.stats.truncnorm(-np.inf, -8.0)),
    "line": (d.Density(lambda x: np.exp(-0.5 * (x - 3.0) ** 2), -np.inf, np.inf), scipy.stats.norm(3.0, 1.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_every_law_is_that_of_scipy(name):
    law, exact = LAWS[name]
    u = np.array([1e-6, 0.03, 0.5, 0.9, 1.0 - 1e-6])
    np.testing.assert_allclose(law.ppf(u), exact.ppf(u), rtol=1e-8, atol=1e-9)
    x = np.concatenate([exact.ppf([0.02, 0.5, 0.97]), [exact.ppf(0.0) - 0.5, exact.ppf(1.0) + 0.5]])
    inside = x[:3] if isinstance(law, d.Density) else x[np.isfinite(x)]
    np.testing.assert_allclose(law.pdf(inside), exact.pdf(inside), rtol=1e-8)
    assert (law.mean, law.variance) == (pytest.approx(exact.mean(), abs=1e-9), pytest.approx(exact.var(), rel=1e-8))
    rule, z = law.rule(4), (law.rule(4).nodes - exact.mean()) / exact.std()
    skewness, kurtosis = exact.stats("sk")
    assert [rule.weights @ z**k for k in (3, 4)] == pytest.approx([skewness, kurtosis + 3.0], rel=1e-6, abs=1e-7)
    drawn = law.rvs(size=(2, 3), random_state=np.random.default_rng(4))
    assert drawn.shape == (2, 3) and np.all(np.abs(drawn - exact.mean()) < 9 * exact.std())
