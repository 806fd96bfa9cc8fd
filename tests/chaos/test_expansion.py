"""Sobol indices, quantiles and densities against closed forms; nonlinear systems; sources and starts with p."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from stodyn import provenance, simulate
from stodyn import statistics as st
from stodyn.chaos import basis, nodes, sampled
from stodyn.chaos.expansion import Series
from stodyn.methods.expansions import Collocation, Galerkin, Quadrature, Sampling
from stodyn.noise.distribution import Density, Gamma, Normal, Truncated, Uniform
from stodyn.problems.random_dae import RandomDAE

AT_ONE = st.Surrogate(at=[1.0])
SQUARE = {name: Uniform(-np.pi, np.pi) for name in ("x1", "x2", "x3")}


def ishigami(t, p):
    return [np.sin(p["x1"]) + 7.0 * np.sin(p["x2"]) ** 2 + 0.1 * p["x3"] ** 4 * np.sin(p["x1"])]


def linear(mass, matrix, source, params, start):
    return RandomDAE(mass, matrix=matrix, source=source, params=params, start=start)


def algebraic(function, params):
    """0 = -x + function(p)."""
    return linear([[0.0]], [[-1.0]], function, params, [0.0])


def test_variance_and_sobol_indices_of_the_ishigami_function_are_the_known_ones():
    """Its variance and Sobol indices are known; degree 14 leaves out about 1e-5."""
    found = simulate(algebraic(ishigami, SQUARE), Quadrature(degree=14, nodes=15, diagnose=False), t=(0, 1), dt=1.0,
                     collect=st.Surrogate(at=[1.0])).isel(time=0, component=0)  # fmt: skip
    pi4 = np.pi**4
    total = 49 / 8 + 0.1 * pi4 / 5 + 0.01 * pi4**2 / 18 + 0.5
    V1, V2, V13 = 0.5 * (1 + 0.1 * pi4 / 5) ** 2, 49 / 8, 8 * 0.01 * pi4**2 / 225
    assert float(found["mean"]) == pytest.approx(3.5, abs=1e-6)
    assert float(found["variance"]) == pytest.approx(total, rel=1e-4)
    np.testing.assert_allclose(found["sobol_first"], [V1 / total, V2 / total, 0.0], atol=1e-4)
    np.testing.assert_allclose(found["sobol_total"], [(V1 + V13) / total, V2 / total, V13 / total], atol=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")  # chaospy's own
def test_ishigami_is_that_of_chaospy():
    """The same coefficients up to their signs, term by term, and so the same Sobol indices."""
    chaospy, numpoly = pytest.importorskip("chaospy"), pytest.importorskip("numpoly")
    joint = chaospy.J(*(chaospy.Uniform(-np.pi, np.pi) for _ in range(3)))
    points, weights = chaospy.generate_quadrature(7, joint, rule="gaussian")
    terms = chaospy.generate_expansion(6, joint, normed=True)
    values = np.array([ishigami(0.0, dict(zip(SQUARE, p, strict=True)))[0] for p in points.T])
    theirs = chaospy.fit_quadrature(terms, points, weights, values, retall=1)[1]
    found = simulate(algebraic(ishigami, SQUARE), Quadrature(degree=6, nodes=8, diagnose=False), t=(0, 1), dt=1.0,
                     collect=AT_ONE).isel(time=0, component=0)  # fmt: skip
    ours = dict(zip(map(tuple, found["degree_in"].values.tolist()), found["coefficient"].values, strict=True))
    degrees = numpoly.lead_exponent(terms, graded=True)
    assert len(degrees) == len(ours)
    for index, value in zip(map(tuple, degrees.tolist()), theirs, strict=True):
        assert abs(ours[index]) == pytest.approx(abs(value), abs=1e-10)
    shares = (degrees > 0).T @ theirs**2 / np.sum(theirs[1:] ** 2)
    np.testing.assert_allclose(found["sobol_total"], shares, atol=1e-10)


def test_rc_filter_quantiles_and_density():
    """u' = (1 - u)/τ, τ uniform on [1/2, 3/2]: u(t) = 1 - exp(-t/τ) decreases with τ. Quantiles to 5 standard errors
    and 1e-5; the density between edges is the difference of the distribution function.
    """
    problem = linear(lambda p: [[p["tau"]]], [[-1.0]], [1.0], {"tau": Uniform(0.5, 1.5)}, [0.0])
    levels = (0.01, 0.25, 0.5, 0.9)
    found = simulate(problem, Galerkin(degree=12), t=(0.0, 2.0), dt=0.02,
                     collect=st.Surrogate(at=[0.5, 2.0], quantiles=levels, density=20))  # fmt: skip
    for k, t in enumerate((0.5, 2.0)):
        exact = 1.0 - np.exp(-t / (1.5 - np.array(levels)))
        off = np.abs(found["quantile"].values[k, 0] - exact)
        assert np.all(off < 5.0 * found["quantile_stderr"].values[k, 0] + 1e-5)
        edges = found["density_edge"].values[k, 0]
        inner = np.clip(edges, 1.0 - np.exp(-t / 1.5), 1.0 - np.exp(-t / 0.5))
        below = 1.5 + t / np.log1p(-inner)
        np.testing.assert_allclose(found["density"].values[k, 0] * np.diff(edges), np.diff(below), atol=1e-3)
        assert np.sum(found["density"].values[k, 0] * np.diff(edges)) == pytest.approx(1.0)
    assert float(found["truncation"].values.max()) < 1e-6


def test_errors_of_quantiles_hold_what_a_short_expansion_leaves_out():
    """The same with a degree of 2, whose quantiles are off by far more than the scatter of the points."""
    problem = linear(lambda p: [[p["tau"]]], [[-1.0]], [1.0], {"tau": Uniform(0.5, 1.5)}, [0.0])
    found = simulate(problem, Galerkin(degree=2), t=(0.0, 0.5), dt=0.02,
                     collect=st.Surrogate(at=[0.5], quantiles=(0.01, 0.25, 0.5, 0.9)))  # fmt: skip
    exact = 1.0 - np.exp(-0.5 / (1.5 - np.array((0.01, 0.25, 0.5, 0.9))))
    off, stderr = np.abs(found["quantile"].values[0, 0] - exact), found["quantile_stderr"].values[0, 0]
    assert off.max() > 1e-3 and np.all(off < 3.0 * stderr) and np.all(stderr < 0.05)


def test_rc_filter_sobol_indices():
    """R and C uniform: the indices from the closed form by a fine rule."""
    laws = {"R": Uniform(0.8, 1.2), "C": Uniform(0.5, 1.5)}
    problem = linear(lambda p: [[p["C"]]], lambda p: [[-1.0 / p["R"]]], lambda t, p: [1.0 / p["R"]], laws, [0.0])
    assert problem.structure == {"mass": "affine", "matrix": "general"}
    x, w = np.polynomial.legendre.leggauss(40)
    R, C = 1.0 + 0.2 * x, 1.0 + 0.5 * x
    u, w = 1.0 - np.exp(-1.0 / np.multiply.outer(R, C)), w / 2.0
    mean, over_C, over_R = w @ u @ w, u @ w, w @ u
    variance = w @ (u - mean) ** 2 @ w
    first = np.array([w @ (over_C - mean) ** 2, w @ (over_R - mean) ** 2]) / variance
    for method, slack in ((Quadrature(degree=8), 1e-7), (Galerkin(degree=8), 1e-6), (Collocation(degree=6), 1e-5)):
        found = simulate(problem, method, t=(0.0, 1.0), dt=0.02, collect=st.Surrogate(at=[1.0])).isel(
            time=0, component=0
        )
        assert float(found["variance"]) == pytest.approx(variance, rel=slack * 10)
        np.testing.assert_allclose(found["sobol_first"], first, atol=slack)
        np.testing.assert_allclose(found["sobol_total"], 1.0 - first[::-1], atol=slack)
    told = provenance(simulate(problem, Galerkin(degree=8), t=(0.0, 1.0), dt=0.5))
    assert 0.0 < told["projection_error"] < 1e-9
    many = simulate(problem, Sampling(degree=6, samples=200, fit="regression"), t=(0.0, 1.0), dt=0.02, seed=3,
                    collect=st.Surrogate(at=[1.0])).isel(time=0, component=0)  # fmt: skip
    np.testing.assert_allclose(many["sobol_first"], first, atol=1e-3)
    assert 1e-9 < float(many["left_out"]) < 1e-3


def test_moments_of_a_nonlinear_dae_are_those_of_its_closed_form():
    """x' = -z, 0 = z - p x³: x = 1/√(1 + 2pt); moments from the closed form."""
    problem = RandomDAE(np.diag([1.0, 0.0]), lambda t, x, p: jnp.stack([-x[1], x[1] - p["p"] * x[0] ** 3]),
                        lambda p: [1.0, p["p"]], {"p": Uniform(0.5, 1.5)})  # fmt: skip
    p, w = Uniform(0.5, 1.5).rule(30)
    x = (1.0 + 2.0 * p) ** -0.5
    mean, std = w @ x, np.sqrt(w @ x**2 - (w @ x) ** 2)
    for method in (Quadrature(degree=6), Collocation(degree=6), Galerkin(degree=6)):
        found = simulate(problem, method, t=(0.0, 1.0), dt=0.05, collect=st.Surrogate(at=[1.0])).isel(
            time=0, component=0
        )
        assert float(found["mean"]) == pytest.approx(mean, rel=1e-8)
        assert float(found["std"]) == pytest.approx(std, rel=1e-6)
    assert provenance(found)["structure"] == {"drift": "nonlinear"}


def test_sources_and_starts_that_depend_on_parameters():
    """x' = -x + p q + q sin(p t), x(0) = p²: Galerkin's projections of what is no polynomial of degree one."""
    laws = {"p": Normal(1.0, 0.1), "q": Uniform(0.0, 1.0)}
    problem = linear([[1.0]], [[-1.0]], lambda t, p: [p["p"] * p["q"] + p["q"] * np.sin(p["p"] * t)], laws,
                     lambda p: [p["p"] ** 2])  # fmt: skip
    rule = nodes.tensor(problem.distributions, 12)
    p, q = rule.points.T
    # ∫ exp(s - t) sin(ps) ds = (sin pt - p cos pt + p exp(-t)) / (1 + p²)
    x = (
        p**2 * np.exp(-1.0)
        + p * q * (1 - np.exp(-1.0))
        + q * (np.sin(p) - p * np.cos(p) + p * np.exp(-1.0)) / (1 + p**2)
    )
    mean = rule.weights @ x
    variance = rule.weights @ (x - mean) ** 2
    for method in (
        Galerkin(degree=5),
        Galerkin(degree=5, basis="tensor"),
        Quadrature(degree=5, basis="cross", nodes=8),
    ):
        found = simulate(problem, method, t=(0.0, 1.0), dt=0.05, collect=st.Surrogate(at=[1.0])).isel(
            time=0, component=0
        )
        assert float(found["mean"]) == pytest.approx(mean, rel=1e-8)
        assert float(found["variance"]) == pytest.approx(variance, rel=1e-4 if method.basis == "cross" else 1e-7)


def test_levels_and_numbers_of_bins_that_cannot_be_are_refused():
    for levels in ((0.5, 1.0), (0.0, 0.5)):
        with pytest.raises(ValueError, match="quantiles are levels between 0 and 1"):
            st.Surrogate(quantiles=levels)
    with pytest.raises(ValueError, match="density is a number of bins"):
        st.Surrogate(density=-3)


@pytest.mark.parametrize(("function", "degrees"), [(np.sin, (5, 6, 7)), (lambda u: np.cos(2 * u), (7, 8, 9))])
def test_truncation_where_even_or_odd_terms_vanish(function, degrees):
    """sin u and cos 2u, u uniform on (-π, π), whose coefficients fall faster than a geometric series: the estimate is
    at least a third of what is left out, and at most ten times as much; infinite where the terms of a kind still grow.
    """
    x, w = np.polynomial.legendre.leggauss(60)
    values, laws = function(np.pi * x), [Uniform(-1.0, 1.0)]
    exact = [np.sqrt(2 * k + 1) * np.sum(0.5 * w * values * np.polynomial.Legendre.basis(k)(x)) for k in range(40)]
    for degree in degrees:
        series = Series(basis.make("total", laws, degree), np.array(exact[: degree + 1])[None, None])
        left = np.sqrt(np.sum(np.square(exact[degree + 1 :])))
        assert left / 3.0 < series.truncation()[0, 0] < 10.0 * left
    growing = Series(basis.make("total", laws, 4), np.array([[[0.0, 0.0, 0.1, 0.0, 0.2]]]))
    assert np.isinf(growing.truncation()[0, 0])


@pytest.mark.parametrize(("law", "mean"), [
    (Uniform(-1.0, 1.0), 0.545),
    (Normal(0.0, 1.0), 0.3 * (2.0 * scipy.stats.norm.cdf(0.3) - 1.0) + 2.0 * scipy.stats.norm.pdf(0.3)),
    (Truncated(Normal(0.0, 1.0), -0.5, 1.5), None),
    (Density(lambda x: 1.0 + x, -1.0, 1.0), None),
], ids=repr)  # fmt: skip
def test_kinks_split_the_integrals(law, mean):
    """|p - 0.3|: with its kink named, the mean of Quadrature and Galerkin is exact, and both are the same."""
    if mean is None:
        mean = scipy.integrate.quad(lambda x: abs(x - 0.3) * law.pdf(x), law.low, law.high, points=[0.3])[0]
    kinked = RandomDAE([[0.0]], matrix=[[-1.0]], source=lambda t, p: [abs(p["p"] - 0.3)], start=[0.0],
                       params={"p": law}, kinks={"p": [0.3]})  # fmt: skip
    for method in (Quadrature, Quadrature(grid="smolyak"), Galerkin):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the slow decay of the terms
            found = simulate(kinked, method(degree=2, diagnose=False), t=(0, 1), dt=1.0, collect=AT_ONE)
        assert float(found["mean"][0, 0]) == pytest.approx(mean, rel=1e-12)


def test_kinks_in_a_nonlinear_drift():
    """0 = |p| - x by its drift: Galerkin's integrals are split as well."""
    problem = RandomDAE([[0.0]], lambda t, x, p: jnp.abs(p["p"]) - x, lambda p: [abs(p["p"])],
                        {"p": Uniform(-0.5, 1.0)}, kinks={"p": [0.0]})  # fmt: skip
    found = simulate(problem, Galerkin(degree=4), t=(0, 1), dt=1.0, collect=AT_ONE)
    assert float(found["mean"][0, 0]) == pytest.approx((0.125 + 0.5) / 1.5, rel=1e-12)


@pytest.mark.parametrize("method", [Collocation(degree=1), Sampling(degree=1, samples=16)], ids=lambda m: m.name)
def test_methods_without_integrals_say_that_kinks_change_nothing(method):
    problem = RandomDAE([[0.0]], matrix=[[-1.0]], source=lambda t, p: [p["p"]], start=[0.0],
                        params={"p": Uniform(-1.0, 1.0)}, kinks={"p": [0.3]})  # fmt: skip
    with pytest.warns(UserWarning, match=f"kinks: {method.name} takes no integrals .* Quadrature and Galerkin split"):
        simulate(problem, method, t=(0, 1), dt=1.0, seed=1)


def test_a_kink_near_an_end_is_not_taken_for_affine():
    """Between its kinks a matrix is affine; no test point of the whole domain lies beyond the last one."""
    problem = RandomDAE([[1.0]], matrix=lambda p: [[-max(p["p"], 0.999)]], start=[1.0],
                        params={"p": Uniform(0.0, 1.0)}, kinks={"p": [0.999]})  # fmt: skip
    assert problem.structure["matrix"] == "general"


@pytest.mark.parametrize("apart", [1e-16, 1e-9])
def test_kinks_that_are_nearly_the_same_are_named(apart):
    kinks = {"p": [0.3, 0.3 + apart]}
    with pytest.raises(ValueError, match=r"kinks\['p'\].* 0.3.* 0.3000.*nearly the same name only one"):
        problem = RandomDAE([[0.0]], matrix=[[-1.0]], source=lambda t, p: [abs(p["p"] - 0.3)], start=[0.0],
                            params={"p": Normal(0.0, 1.0)}, kinks=kinks)  # fmt: skip
        simulate(problem, Quadrature(degree=2, diagnose=False), t=(0, 1), dt=1.0, collect=AT_ONE)


def sum_of(function):
    """x = function(a + b), by equations that need no step."""
    return RandomDAE([[0.0]], matrix=[[-1.0]], source=lambda t, p: [function(p["a"] + p["b"])],
                     start=lambda p: [function(p["a"] + p["b"])],
                     params={"a": Uniform(0.0, 1.0), "b": Uniform(0.0, 1.0)})  # fmt: skip


@pytest.mark.parametrize("method", [Quadrature, Galerkin, Collocation], ids=lambda m: m.name)
def test_jumps_in_a_combination_of_parameters_warn(method):
    """1 where a + b > 1: the mean is off by up to 27 %, and no parameter has a kink that could be named."""
    misses, decays = "misses the solution at t = .* by 0", "at t = 0 has terms that do not decay"
    for jump in (0.4, 1.0):
        with pytest.warns(UserWarning, match=f"the expansion of degree 3 of x0 ({misses}|{decays})"):
            simulate(sum_of(lambda s, jump=jump: float(s > jump)), method, t=(0, 1), dt=1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", [Quadrature, Galerkin, Collocation], ids=lambda m: m.name)
def test_smooth_functions_of_a_combination_do_not_warn(method):
    for function in (np.exp, lambda s: np.sin(3.0 * s), lambda s: 1.0 / (0.2 + s), lambda s: 1.0):
        simulate(sum_of(function), method, t=(0, 1), dt=1.0)


@pytest.mark.parametrize("method", [Quadrature, Galerkin, Collocation], ids=lambda m: m.name)
def test_bends_along_a_parameter_are_named(method):
    """Means of (a - 0.3)⁺ were up to a tenth off without a word. A bend in a + b moves with b and has no name."""
    with pytest.warns(UserWarning, match=r"bend or jump at a = 0\.3: name that, kinks={'a': \[0\.3\]}, and take Quad"):
        simulate(of_one(lambda a: max(a - 0.3, 0.0), Uniform(-1.0, 1.0)), method, t=(0, 1), dt=1.0)
    with pytest.warns(UserWarning, match="expansion of degree 3") as words:
        simulate(sum_of(lambda s: abs(s - 1.0)), method, t=(0, 1), dt=1.0)
    assert not any("kinks={" in str(word.message) for word in words)


def test_a_bend_beyond_the_nodes_is_named():
    """(a - 0.97)⁺ was taken for zero, as it is at all nodes, and the mean 0 ± 0 for 0.00045."""
    problem = of_one(lambda a: max(a - 0.97, 0.0), Uniform(0.0, 1.0))
    with pytest.warns(UserWarning, match=r"bend or jump at a = 0\.97: name that"):
        simulate(problem, Quadrature, t=(0, 1), dt=1.0)


def test_bends_of_matrices_and_drifts_are_named():
    decay = linear([[1.0]], lambda p: [[-max(p["a"], 0.1)]], None, {"a": Uniform(-0.5, 1.0)}, [1.0])
    drift = RandomDAE([[1.0]], lambda t, x, p: -jnp.maximum(p["a"], 0.1) * x, [1.0], {"a": Uniform(-0.5, 1.0)})
    for problem in (decay, drift):
        with pytest.warns(UserWarning, match=r"bend or jump at a = 0\.1: name that"):
            simulate(problem, Quadrature, t=(0, 1), dt=0.5)


@pytest.mark.parametrize("method", [Quadrature, Galerkin, Collocation], ids=lambda m: m.name)
def test_bends_in_a_combination_of_parameters_are_told(method):
    """exp(-5 (a + b - 0.3)⁺): degree 3 of Collocation has the mean 0.6913 of 0.7138, which it did not tell, and misses
    a quarter of the standard deviation, as far as smooth functions are missed."""
    drift = RandomDAE([[1.0]], lambda t, x, p: -5.0 * jnp.maximum(p["a"] + p["b"] - 0.3, 0.0) * x, [1.0],
                      {"a": Uniform(-1.0, 1.0), "b": Uniform(-1.0, 1.0)})  # fmt: skip
    with pytest.warns(UserWarning, match=r"bend or jump where a combination .* as at a = 0\.15, b = 0\.15, and kinks"):
        found = simulate(drift, method, t=(0, 1), dt=0.1, collect=AT_ONE)
    assert abs(float(found["mean"][0, 0]) - 0.71375) < float(found["mean_error"][0, 0])
    kinked = sum_of(lambda s: max(s - 1.2, 0.0))
    with pytest.warns(UserWarning, match="bend or jump where a combination of parameters reaches a value"):
        simulate(kinked, method, t=(0, 1), dt=1.0)


ON_GAMMA = {"R": scipy.stats.gamma(0.5)}  # exp(-1/R) has the mean exp(-2), and that of exp(-2/R) is exp(-2√2)


@pytest.mark.parametrize("method", [Quadrature, Galerkin, Collocation], ids=lambda m: m.name)
@pytest.mark.parametrize("problem", [
    RandomDAE(lambda p: [[p["R"]]], matrix=[[-1.0]], start=[1.0], params=ON_GAMMA),
    RandomDAE([[1.0]], matrix=lambda p: [[-1.0 / p["R"]]], start=[1.0], params=ON_GAMMA),
], ids=["mass", "matrix"])  # fmt: skip
def test_moments_that_other_parameters_deny_are_told(problem, method):
    """The standard deviation of exp(-1/R), 0.2020, was 0.2197 without a word; a pole at the end of the law is no bend,
    for which it was taken."""
    with pytest.warns(UserWarning, match="expansion of degree 3") as words:
        found = simulate(problem, method, t=(0, 1), dt=0.05, collect=AT_ONE)
    assert any("singular at R = 0, where the law ends" in str(word.message) for word in words)
    assert not any("kinks={" in str(word.message) for word in words)
    mean, std = np.exp(-2.0), np.sqrt(np.exp(-2.0 * np.sqrt(2.0)) - np.exp(-4.0))
    for name, right in (("mean", mean), ("std", std)):
        assert abs(float(found[name][0, 0]) - right) < float(found[f"{name}_error"][0, 0]) < 0.2 * std


@pytest.mark.filterwarnings("ignore:degree")
@pytest.mark.parametrize("fit", ["projection", "regression"])
def test_samples_of_an_infinite_mean_are_told(fit):
    """E exp(1/R), R lognormal or of a gamma distribution, is infinite: samples gave 4.08 and 2.49."""
    for law in (scipy.stats.lognorm(0.5), scipy.stats.gamma(6.0, scale=0.25)):
        problem = of_one(lambda R: np.exp(1.0 / R), law)
        with pytest.warns(UserWarning, match="samples: the largest values of x0 .* a power of about 1.*rare"):
            simulate(problem, Sampling(fit=fit), t=(0, 1), dt=1.0, seed=1)


@pytest.mark.filterwarnings("ignore:degree")
@pytest.mark.parametrize(("function", "samples", "power"), [
    (lambda u: u**-0.5, 256, "1"),  # no variance; 1000 samples had no word
    (lambda u: 1.0 / u, 256, "0|1"),  # no mean
    (lambda u: np.exp(np.exp(scipy.special.ndtri(u))), 4096, "0"),  # no power: the mean of samples is beyond them
], ids=["variance", "mean", "nothing"])  # fmt: skip
def test_samples_of_few_parameters_tell_their_tails(function, samples, power):
    with pytest.warns(UserWarning, match=f"samples: the largest values of x0 .* a power of about ({power})"):
        simulate(of_one(function, Uniform(0.0, 1.0)), Sampling(samples=samples), t=(0, 1), dt=1.0, seed=1)


@pytest.mark.parametrize("count", [256, 1024, 4096])
def test_light_tails_are_not_taken_for_heavy(count):
    """At the quantiles of the laws, which Sobol points come near."""
    u = (np.arange(count) + 0.5) / count
    laws = (scipy.stats.norm(), scipy.stats.uniform(), scipy.stats.expon(), scipy.stats.lognorm(0.4))
    assert sampled.heaviest(np.stack([law.ppf(u) for law in laws], axis=1)[:, None]) == ()


def of_one(function, law, **options):
    """x = function(a), by equations that need no step."""
    return RandomDAE([[0.0]], matrix=[[-1.0]], source=lambda t, p: [function(p["a"])],
                     start=lambda p: [function(p["a"])], params={"a": law}, **options)  # fmt: skip


@pytest.mark.parametrize("law", [scipy.stats.gamma(0.4), scipy.stats.gamma(2.0), scipy.stats.beta(0.3, 2.0),
                                 scipy.stats.lognorm(0.6)], ids=["gamma.4", "gamma2", "beta", "lognormal"])  # fmt: skip
def test_what_is_left_out_is_no_more_than_stated(law):
    """The root mean square of what the expansion misses, by 20 001 quantiles; only the decay of the coefficients stated
    as little as a sixth of it. What happens with less than a hundredth may be missed."""
    u = (np.arange(20_001) + 0.5) / 20_001
    points = law.ppf(u)
    for function in (lambda a: np.exp(-a), lambda a: 1.0 / (1.0 + a * a), lambda a: abs(a - 0.4)):
        problem, times = of_one(function, law), np.array([0.0, 1.0])
        series = Quadrature.expand(problem, times, np.array([0, 1]), 0).series
        values = function(points)
        off = series.evaluate(points[:, None])[:, 1, 0] - values
        assert series.truncation()[1, 0] > 0.8 * np.sqrt(np.mean(off**2))
        moments = np.array([series.mean, np.sqrt(series.variance)])[:, 1, 0]
        assert np.all(series.compared.bounds[:, 1, 0] > 0.8 * np.abs(moments - (values.mean(), values.std())) - 1e-6)


@pytest.mark.filterwarnings("ignore:degree")  # a line through two samples leaves out much
def test_two_samples_tell_nothing_about_the_error_of_their_variance():
    """They deviate from their mean by the same amount: their squares had the scatter of rounding, 1.8e-17."""
    found = simulate(sum_of(np.exp), Sampling(degree=1, samples=2), t=(0, 1), dt=1.0, seed=1, collect=AT_ONE)
    assert np.isnan(found["std_stderr"]).all() and np.isfinite(found["mean_stderr"]).all()
    found = simulate(sum_of(np.exp), Sampling(degree=1, samples=3), t=(0, 1), dt=1.0, seed=1, collect=AT_ONE)
    assert (found["std_stderr"] > 0.0).all()


def growth(spread):
    return linear([[1.0]], lambda p: [[p["a"]]], None, {"a": Normal(0.0, spread)}, [1.0])


@pytest.mark.parametrize(("method", "spread", "words"), [
    (Quadrature(degree=3), 2.4, "of x0 at t = .* has terms that do not decay"),
    (Galerkin(degree=3), 2.4, "do not decay with their degree.*moments are not to be trusted"),
    (Quadrature(degree=4, nodes=14), 1.5, "leaves out about 10.*, more than the standard deviation of 8.5.* that it"),
    (Sampling(degree=1, samples=64), 2.4, "leaves out about .*quantiles, densities and Sobol indices"),
], ids=lambda value: getattr(value, "name", None))  # fmt: skip
def test_expansions_that_leave_out_more_than_they_hold_warn(method, spread, words):
    """x' = a x, a normal: E x(1) = exp(spread²/2), which is 17.8 where degree 3 gives 2.4."""
    with pytest.warns(UserWarning, match=f"degree: the expansion of degree .*{words}"):
        simulate(growth(spread), method, t=(0, 1), dt=0.1, seed=1)


@pytest.mark.filterwarnings("error")
def test_expansions_that_decay_do_not_warn():
    for method in (Quadrature(degree=3), Galerkin(degree=3), Sampling(degree=3), Quadrature(degree=1)):
        simulate(growth(0.5), method, t=(0, 1), dt=0.1, seed=1)


@pytest.mark.parametrize("points", ["sobol", "random"])
@pytest.mark.parametrize("fit", ["projection", "regression"])
def test_sampling_has_the_standard_deviation_of_the_samples(fit, points):
    """p³, p uniform on (-1, 1): 1/√7, of which a line holds √(3/25). Within 5 standard errors (6e-7)."""
    problem = algebraic(lambda t, p: [p["p"] ** 3], {"p": Uniform(-1.0, 1.0)})
    found = simulate(problem, Sampling(degree=1, samples=4096, fit=fit, points=points), t=(0, 1), dt=1.0, seed=2,
                     collect=AT_ONE).isel(time=0, component=0)  # fmt: skip
    std, stderr = float(found["std"]), float(found["std_stderr"])
    assert abs(std - 7.0**-0.5) < 5.0 * stderr < 0.03
    assert abs(float(found["mean"])) < 5.0 * float(found["mean_stderr"]) < 0.03
    assert float(found["variance_stderr"]) == pytest.approx(2.0 * std * stderr)
    assert float(found["truncation"]) == float(found["left_out"]) == pytest.approx((1 / 7 - 3 / 25) ** 0.5, rel=0.05)


def test_moments_of_a_good_fit_are_better_than_those_of_its_samples():
    """exp p, p uniform on (0, 1), from 32 random samples: their mean is off by 1 %."""
    problem = algebraic(lambda t, p: [np.exp(p["p"])], {"p": Uniform(0.0, 1.0)})
    found = simulate(problem, Sampling(degree=6, samples=32, fit="regression", points="random"), t=(0, 1), dt=1.0,
                     seed=2, collect=AT_ONE).isel(time=0, component=0)  # fmt: skip
    mean, square = np.e - 1.0, 0.5 * (np.e**2 - 1.0)
    assert float(found["mean"]) == pytest.approx(mean, abs=1e-6)
    assert float(found["variance"]) == pytest.approx(square - mean**2, abs=1e-6)
    assert 0.0 < float(found["mean_stderr"]) < 1e-6


@pytest.mark.parametrize(("mass", "matrix", "params"), [
    (lambda p: [[p["R"]]], [[-1.0]], {"R": Gamma(3.0, 1.0)}),
    ([[1.0]], lambda p: [[-1.0 / p["R"]]], {"R": Gamma(3.0, 1.0)}),
    (lambda p: [[p["R"] + p["C"]]], [[-1.0]], {"R": Gamma(1.5, 1.0), "C": Gamma(1.5, 1.0)}),
    ([[1.0]], lambda p: [[-1.0 / (p["R"] + p["C"])]], {"R": Gamma(1.5, 1.0), "C": Gamma(1.5, 1.0)}),
])  # fmt: skip
def test_laws_that_reach_zero_only_with_probability_zero(mass, matrix, params):
    """x(1) = exp(-1/R) with R, or a sum, of the gamma distribution of shape 3: E x is K₃(2), a Bessel function."""
    found = simulate(RandomDAE(mass, matrix=matrix, start=[1.0], params=params), Quadrature(degree=6), t=(0, 1),
                     dt=0.05, collect=AT_ONE)  # fmt: skip
    assert float(found["mean"][0, 0]) == pytest.approx(scipy.special.kv(3, 2.0), rel=2e-3)


def test_a_mass_that_vanishes_inside_is_still_refused():
    problem = RandomDAE(lambda p: [[p["m"]]], matrix=[[-1.0]], start=[1.0], params={"m": Uniform(-1e-5, 1.0)})
    with pytest.raises(ValueError, match="the index of the system changes inside the domain"):
        simulate(problem, Quadrature(degree=2), t=(0, 1), dt=0.1)
