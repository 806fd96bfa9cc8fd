"""Iterated integrals: exact second moments by calculus (no sampling), errors on common paths, identities, resolution.

W and Z are linear and I_(j,k), I_(j,k,0) quadratic in the normals of a step, so derivatives at zero give their exact
joint covariance; words of weight up to 4 have degree 4, and Gauss-Hermite quadrature is exact for theirs.
"""

import dataclasses
import functools
import itertools
import math
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import zeta

from stodyn.noise import iterated, wiener
from stodyn.noise.increment import Increment, compose, compose_all
from stodyn.noise.iterated import (
    Fourier,
    MrongowiusRoessler,
    ResolutionWarning,
    SecondMoments,
    Signature,
    SineSeries,
    Substeps,
    check_resolution,
)
from stodyn.noise.words import product, up_to_weight, weight
from stodyn.numerics.printing.points import at_one, at_points

pytestmark = pytest.mark.usefixtures("quick_compiling")

RECIPES = [Substeps(1), Substeps(3), Fourier(2), MrongowiusRoessler(2), SineSeries(3), Signature(2)]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def total(recipe, m):
    return sum(recipe.normals(m).values())


@functools.partial(jax.jit, static_argnums=(0, 3))
def step(recipe, h, x, m):
    """The increment made of a flat vector of normals."""
    counts = recipe.normals(m)
    return recipe.increment(h, dict(zip(counts, jnp.split(x, np.cumsum([*counts.values()])[:-1]), strict=True)), m)


def draw(recipe, m, seed):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(total(recipe, m)))


def covariance(function, n):
    """Mean and covariance of a function of n normals whose components are at most quadratic: exact.

    The coefficients are read off at 0, ±e_i and e_i + e_j.
    """
    i, j = np.triu_indices(n, 1)
    e = np.eye(n)
    values = at_points(function, np.concatenate([np.zeros((1, n)), e, -e, e[i] + e[j]]))
    zero, plus, minus, both = np.split(values, np.cumsum([1, n, n]))
    J = (plus - minus).T / 2
    Q = np.zeros((values.shape[1], n, n))
    Q[:, range(n), range(n)] = (plus + minus - 2 * zero).T
    Q[:, i, j] = Q[:, j, i] = (both - plus[i] - plus[j] + zero).T
    return zero[0] + 0.5 * np.trace(Q, axis1=1, axis2=2), J @ J.T + 0.5 * np.einsum("aij,bij->ab", Q, Q)


def ito(u, v, h=1.0):
    """E[I_u I_v]: of the integrals in their product only those over time alone have a mean."""
    return float(sum(c * h ** len(w) / math.factorial(len(w)) for w, c in product(u, v).items() if not any(w)))


def expected(words, h):
    return np.array([[ito(u, v, h) for v in words] for u in words])


@pytest.mark.parametrize("s", [1.5, 2.0, 4.0, 7.0])
@pytest.mark.parametrize("a", [0.5, 1.0, 6.5, 13.0, 1000.5, 2.0**60])
def test_hurwitz_zeta(s, a):
    assert iterated.zeta(s, a) == pytest.approx(zeta(s, a), rel=1e-15)


def test_the_isometry_reproduces_the_known_list():
    """Kloeden & Platen (1992), section 5.7, in the form of ten second moments of words in time and channels."""
    for u, v, value in [
        ((1,), (1, 0), 1 / 2),
        ((1,), (1, 1), 0),
        ((1, 2), (1, 0), 0),
        ((1, 2), (1, 2, 0), 1 / 6),
        ((1, 0), (1, 1, 0), 0),
        ((1,), (1, 1, 0), 0),
        ((1, 0), (1, 0), 1 / 3),
        ((1, 2, 0), (1, 2, 0), 1 / 12),
        ((1,), (1,), 1),
        ((1, 2), (1, 2), 1 / 2),
        ((1, 2), (2, 1), 0),
    ]:
        assert ito(u, v) == pytest.approx(value, abs=1e-15)


@pytest.mark.brief("1-recipe0", "2-recipe3", "2-recipe4")
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("m", [1, 2])
def test_W_and_Z_are_those_of_wiener_WZ(recipe, m):
    x = draw(recipe, m, seed=1)
    here, plain = step(recipe, 0.3, x, m), step(wiener.WZ, 0.3, x[: 2 * m], m)
    np.testing.assert_array_equal(here.W, plain.W)
    np.testing.assert_allclose(here.Z, plain.Z, rtol=1e-15)
    assert list(recipe.normals(m))[:2] == ["W", "Z"] and here.aux is None


def mean_and_covariance(recipe, m, words, h):
    return covariance(lambda x: jnp.stack([step(recipe, h, x, m).word(w) for w in words]), total(recipe, m))


def pairs(m):
    channels = range(1, m + 1)
    return [(j,) for j in channels], [(j, 0) for j in channels], list(itertools.product(channels, repeat=2))


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("m", [1, 2])
def test_moments_of_substeps_are_the_exact_ones_less_the_stated_errors(K, m):
    h = 0.7
    W, Z, II = pairs(m)
    words = [*W, *Z, *II, *((*w, 0) for w in II)]
    mean, cov = mean_and_covariance(Substeps(K), m, words, h)
    # A conditional mean and its error are uncorrelated: covariance = exact - covariance of the errors. Over a substep d
    # those of I_(j,k) and I_(j,k,0), j != k, have Var e_2 = d²/12, Cov = d³/24, Var e_3 = 29 d⁴/900; e_2 changes sign
    # with (k, j), and the sum of e_3 over (j, k) and (k, j) has the variance 7 d⁴/1800.
    d = h / K
    left = np.arange(K)[::-1] * d
    area2, cross = K * d**2 / 12, np.sum(d**3 / 24 + left * d**2 / 12)
    area3 = np.sum(29 / 900 * d**4 + 2 * left * d**3 / 24 + left**2 * d**2 / 12)
    symmetric = 7 / 3600 * K * d**4
    lost = np.zeros_like(cov)
    for (a, u), (b, v) in itertools.product(enumerate(words), repeat=2):
        pair, sign = {u[:2], v[:2]}, 1 if u[:2] == v[:2] else -1
        if len(u) < 2 or len(v) < 2 or u[1] == 0 or v[1] == 0 or {frozenset(p) for p in pair} != {frozenset(u[:2])}:
            continue
        if u[0] == u[1]:
            lost[a, b] = symmetric if len(u) == len(v) == 3 else 0
        elif len(u) == len(v) == 3:
            lost[a, b] = area3 if sign == 1 else symmetric - area3
        else:
            lost[a, b] = sign * (area2 if len(u) == len(v) else cross)
    np.testing.assert_allclose(mean, 0, atol=1e-15)
    np.testing.assert_allclose(cov + lost, expected(words, h), atol=1e-15)
    assert Substeps(K).error(h, m) == pytest.approx(math.sqrt(area2 if m > 1 else symmetric))
    if m > 1:
        assert math.sqrt(area3) == pytest.approx(h**2 / (6 * math.sqrt(K)), rel=0.08)


@pytest.mark.parametrize("m", [1, 3])
def test_moments_of_the_series_for_areas(m):
    h, p = 0.7, 3
    W, Z, II = pairs(m)
    words = [*W, *Z, *II]
    exact = expected(words, h)
    for recipe in (Fourier(p), MrongowiusRoessler(p)):
        mean, cov = mean_and_covariance(recipe, m, words, h)
        lost = np.zeros_like(exact)
        if isinstance(recipe, Fourier):
            for (a, u), (b, v) in itertools.product(enumerate(words), repeat=2):
                if u in II and v in II and u[0] != u[1] and {*u} == {*v}:
                    lost[a, b] = recipe.error(h, m) ** 2 * (1 if u == v else -1)
        np.testing.assert_allclose(mean, 0, atol=1e-15)
        np.testing.assert_allclose(cov + lost, exact, atol=1e-14)


@pytest.mark.parametrize("p", [1, 4, 16])
def test_moments_of_the_sine_series(p):
    """Also with W², WH and H², where E[∫W² ds | W, H] = h (W²/3 + WH + 6H²/5 + h/15): beyond the list of words."""
    h, recipe = 0.7, SineSeries(p)

    def terms(x):
        i = step(recipe, h, x, 1)
        W, H = i.W[0], i.Z[0] / h - i.W[0] / 2
        conditional = h * (W**2 / 3 + W * H + 1.2 * H**2 + h / 15)
        integral = 2 * i.word((1, 1, 0)) + h**2 / 2
        return jnp.stack([W**2, W * H, H**2, integral - conditional, W, i.Z[0], integral])

    mean, cov = covariance(terms, total(recipe, 1))
    np.testing.assert_allclose(mean[3], 0, atol=1e-15)
    # The mean of the tail of the squares stands for it, so its covariance with H² is missing.
    np.testing.assert_allclose(cov[3, :3], [0, 0, -(h**3) / (4 * math.pi**6) * zeta(6, (p + 1) // 2 + 0.5)], atol=1e-15)
    np.testing.assert_allclose(cov[3, 4:6], 0, atol=1e-15)
    assert mean[6] == pytest.approx(h**2 / 2)
    assert cov[6, 6] / 4 == pytest.approx(h**4 / 12 - recipe.error(h) ** 2, rel=1e-12)
    stated = {1: 0.0205, 2: 0.0100, 4: 0.00429, 8: 0.00166, 16: 0.00061}
    assert recipe.error(1.0) == pytest.approx(stated[p], rel=0.02)
    assert SineSeries(200).error(1.0) == pytest.approx(0.0413 * 200**-1.5, rel=0.01)


def test_channels_of_the_sine_series_are_separate():
    h, recipe = 0.7, SineSeries(3)
    words = [(1,), (2,), (1, 0), (2, 0), (1, 1), (2, 2), (1, 1, 0), (2, 2, 0)]
    _, cov = mean_and_covariance(recipe, 2, words, h)
    lost = np.diag([0.0] * 6 + [recipe.error(h) ** 2] * 2)
    np.testing.assert_allclose(cov + lost, expected(words, h), atol=1e-15)


@pytest.mark.parametrize("K", [2])
def test_error_of_substeps_on_a_common_path(K):
    """Exact mean square of the difference between K and 4K substeps of the same path: the difference of the squares."""
    h, finer, m = 0.5, 4, 2
    n = K * finer
    words = [(1, 2), (1, 1, 0)]

    def difference(x):
        fine = jax.vmap(lambda y: step(Substeps(1), h / n, y, m))(x.reshape(n, 2 * m))
        both = compose_all(dataclasses.replace(fine, II=None, words=None), finer)

        def again(W, Z):
            U = W / math.sqrt(h / K)
            return step(Substeps(1), h / K, jnp.concatenate([U, math.sqrt(3) * (2 * Z / (h / K) ** 1.5 - U)]), m)

        one, other = compose_all(fine), compose_all(jax.vmap(again)(both.W, both.Z))
        return jnp.stack([one.word(w) - other.word(w) for w in words])

    mean, cov = covariance(difference, 2 * m * n)
    np.testing.assert_allclose(mean, 0, atol=1e-15)
    for i, channels in enumerate((2, 1)):
        square = Substeps(K).error(h, channels) ** 2 - Substeps(n).error(h, channels) ** 2
        assert cov[i, i] == pytest.approx(square, rel=1e-10)


@pytest.mark.parametrize("K", [5])
def test_substeps_are_the_composition_of_their_pieces(K):
    x = draw(Substeps(K), 2, seed=2)
    whole = step(Substeps(K), 0.3, x, 2)
    W, H = iterated._substeps(0.3, {"W": x[:2], "Z": x[2:4], "area": x[4:]}, K)
    d = 0.3 / K
    normals = jnp.concatenate([W, math.sqrt(12) * H], axis=1) / math.sqrt(d)
    joined = at_one(lambda x: compose_all(jax.vmap(lambda y: step(Substeps(1), d, y, 2))(x)), normals)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14), joined, whole)


def fewer_terms(x, p, finer):
    """The normals of MrongowiusRoessler(p) on the path that x makes by MrongowiusRoessler(finer), m = 2.

    The coefficients are the same, and the one normal of the tail is what makes the finer tail of it: given the ξ that
    is Gaussian, and it is divided by its standard deviation.
    """
    r, rest = np.arange(1, finer + 1), zeta(2, finer + 1)
    c = -np.append(1 / r, math.sqrt(rest))
    V, (others, eta), G = x[2:4], x[4:-1].reshape(2, 2, finer), x[-1]
    xi = iterated._conditioned(V, others, c)
    linear_tail = -xi[:, p:] @ (c[p:] / np.linalg.norm(c[p:]))
    # The reflection that conditions on Z is its own inverse.
    kept = jnp.concatenate([xi[:, 1:p], linear_tail[:, None]], axis=1)
    others = iterated._conditioned(xi[:, 0], kept, np.append(c[:p], -np.linalg.norm(c[p:])))[:, 1:]
    a, b = xi[:, p:-1] / r[p:], eta[:, p:] / (2 * math.pi)
    tail = a[0] @ b[1] - a[1] @ b[0] + math.sqrt(rest / 2) / math.pi * G
    deviation = jnp.sqrt(jnp.sum(a**2) / (4 * math.pi**2) + rest / (2 * math.pi**2))
    return jnp.concatenate([x[:4], others.ravel(), eta[:, :p].ravel(), (tail / deviation)[None]])


@pytest.mark.parametrize(("p", "finer"), [(1, 3), (4, 12)])
def test_error_of_the_fourier_series_on_a_common_path(p, finer):
    """Exact mean square of the difference between p and `finer` terms with the same coefficients."""

    def difference(x):
        coarse = step(Fourier(p), 0.5, fewer_terms(jnp.append(x, 0.0), p, finer)[:-1], 2)
        return (step(Fourier(finer), 0.5, x, 2).II - coarse.II)[0, 1][None]

    mean, cov = covariance(difference, total(Fourier(finer), 2))
    np.testing.assert_allclose(mean, 0, atol=1e-14)
    assert cov[0, 0] == pytest.approx(Fourier(p).error(0.5) ** 2 - Fourier(finer).error(0.5) ** 2, rel=1e-10)


def test_error_of_the_matched_tail_on_a_common_path():
    """4000 paths with 4 terms against 128: 5 standard errors, and 8 % for the leading order of what is stated."""
    p, finer, h = 4, 128, 0.5

    @jax.jit
    @jax.vmap
    def both(x):
        y = fewer_terms(x, p, finer)
        return y[-1], step(MrongowiusRoessler(p), h, y, 2).II[0, 1] - step(MrongowiusRoessler(finer), h, x, 2).II[0, 1]

    normal, error = both(np.random.default_rng(8).standard_normal((4000, total(MrongowiusRoessler(finer), 2))))
    squares, stated = np.asarray(error) ** 2, MrongowiusRoessler(p).error(h) ** 2
    assert abs(squares.mean() - stated) < 5 * squares.std() / math.sqrt(4000) + 0.08 * stated
    assert abs(np.mean(np.asarray(normal) ** 2) - 1) < 5 * math.sqrt(2 / 4000)


def matched_tail_error(p):
    """The exact rms error of MrongowiusRoessler(p) for m = 2, h = 1, by one integral.

    Given the ξ the tail is √S G, S = sum_{r>p} (ξ_1r² + ξ_2r²)/(4π²r²), and √(E S) G stands for it: the mean square of
    the difference is 2 E S - 2 √(E S) E √S, where E √S = ∫ (1 - E exp(-s²S))/s² ds/√π with E exp(-s²S) in closed form.
    """
    mean = zeta(2, p + 1) / (2 * math.pi**2)

    def integrand(s):
        x = s / (math.sqrt(2) * math.pi)
        transform = 2 * math.pi * x * math.exp(-math.pi * x) / -math.expm1(-2 * math.pi * x)
        return (1 - transform * math.prod(1 + (x / r) ** 2 for r in range(1, p + 1))) / s**2

    least, most = 1e-4, 60.0 * p
    middle, _ = quad(integrand, least, most, epsabs=1e-10, epsrel=1e-10, limit=500)
    return math.sqrt(2 * mean - 2 * math.sqrt(mean / math.pi) * (least * mean + middle + 1 / most))


def test_error_of_the_matched_tail_is_of_first_order_and_as_stated():
    errors = {p: matched_tail_error(p) for p in (1, 2, 4, 8, 16)}
    for p, error in errors.items():
        assert error == pytest.approx(MrongowiusRoessler(p).error(1.0), rel=0.3 / p + 0.01)
        assert error < math.sqrt(2) / (math.sqrt(12) * math.pi * p)
        assert error < 0.6 * Fourier(p).error(1.0)
    assert math.log2(errors[8] / errors[16]) == pytest.approx(1.0, abs=0.1)


def test_error_of_the_matched_tail_with_three_channels():
    """Row of √S - √(E S) over the pairs, S from 20000 draws of the ξ; 5 standard errors, 5 % for the leading order."""
    p, m, count = 8, 3, 20000
    r = np.arange(p + 1, p + 300)
    xi = np.random.default_rng(3).standard_normal((count, m, len(r)))
    ends = list(itertools.combinations(range(m), 2))
    # The tail of the pair (j, k) is sum (ξ_j η_k - ξ_k η_j)/(2πr): one row of coefficients of η a pair.
    L = np.zeros((count, len(ends), m, len(r)))
    for i, (j, k) in enumerate(ends):
        L[:, i, k], L[:, i, j] = xi[:, j] / (2 * math.pi * r), -xi[:, k] / (2 * math.pi * r)
    L = L.reshape(count, len(ends), -1)
    S = L @ L.swapaxes(1, 2) + np.eye(len(ends)) * zeta(2, p + 300) / (2 * math.pi**2)
    values, vectors = np.linalg.eigh(S)
    root = (vectors * np.sqrt(values)[:, None]) @ vectors.swapaxes(1, 2)
    squares = np.sum((root - np.eye(len(ends)) * math.sqrt(zeta(2, p + 1) / 2) / math.pi)[:, 0] ** 2, axis=1)
    stated = MrongowiusRoessler(p).error(1.0, m) ** 2
    assert abs(squares.mean() - stated) < 5 * squares.std() / math.sqrt(count) + 0.05 * stated


def coefficients(area, n):
    """Those of linear @ x + x @ Q @ x, which an area of n normals is."""
    e, pairs = np.eye(n), np.array(list(itertools.product(range(n), repeat=2)))
    single, both = at_points(area, e), at_points(area, e[pairs[:, 0]] + e[pairs[:, 1]]).reshape(n, n)
    Q = 0.5 * (both - single[:, None] - single)
    return single - np.diag(Q), Q


@pytest.mark.parametrize("recipe", [Fourier, MrongowiusRoessler])
def test_the_fourth_cumulant_of_the_area_is_that_of_levys_law(recipe):
    """Levy: E exp(iλA) = 1/cosh(hλ/2), fourth cumulant h⁴/8; what p terms of the series miss falls like p⁻³.

    A quadratic form x·Qx has the fourth cumulant 48 tr Q⁴; the Gaussian tail adds none.
    """
    h = 0.8

    def missing(p):
        def area(x):
            II = step(recipe(p), h, x, 2).II
            return 0.5 * (II[0, 1] - II[1, 0])

        _, Q = coefficients(area, total(recipe(p), 2))
        return h**4 / 8 - 48 * np.trace(np.linalg.matrix_power(Q, 4))

    coarse, fine = missing(4), missing(16)
    assert 0 < fine < coarse < 0.02 * h**4
    assert math.log(coarse / fine, 4) == pytest.approx(3.0, abs=0.25)


@pytest.mark.parametrize("m", [2])
def test_one_step_and_two_halves_have_the_same_second_moments(m):
    """The matched tail keeps them exact for every p, so they must survive Chen's relation."""
    h, recipe = 0.7, MrongowiusRoessler(2)
    W, Z, II = pairs(m)
    words, n = [*W, *Z, *II], total(MrongowiusRoessler(2), m)

    def halves(x):
        both = compose(step(recipe, h / 2, x[:n], m), step(recipe, h / 2, x[n:], m))
        return jnp.stack([both.word(w) for w in words])

    _, cov = covariance(halves, 2 * n)
    np.testing.assert_allclose(cov, expected(words, h), atol=1e-14)


def quadrature(recipe, m, words, h, nodes):
    """Mean and second moments of the words by Gauss-Hermite quadrature over all normals."""
    n = total(recipe, m)
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[x] * n, indexing="ij"), axis=-1).reshape(-1, n)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * n, indexing="ij"), axis=-1).reshape(-1, n), axis=1)
    values = at_points(lambda x: jnp.stack([step(recipe, h, x, m).word(w) for w in words]), grid)
    return weights @ values, (values * weights[:, None]).T @ values


@pytest.mark.parametrize("K", [1, 2])
def test_every_moment_of_every_word_in_one_channel(K):
    """Up to weight 4, exact but for the error of I_(1,1,0), which three words share."""
    h = 0.7
    words = [w for w in up_to_weight(4, 1) if any(w)]
    mean, moments = quadrature(Signature(K), 1, words, h, nodes=5)
    shares = np.array([{(1, 1, 0): 1, (1, 0, 1): -2, (0, 1, 1): 1}.get(w, 0) for w in words])
    lost = np.outer(shares, shares) * Signature(K).error(h, 1) ** 2
    np.testing.assert_allclose(mean, 0, atol=1e-14)
    np.testing.assert_allclose(moments + lost, expected(words, h), atol=1e-13)


def test_moments_of_words_in_two_channels_are_exact_but_for_brackets_of_three():
    """Means up to weight 4 and second moments up to weight 3, of which the bracket [e_1, [e_1, e_2]] loses 0.115²."""
    words = [w for w in up_to_weight(4, 2) if any(w)]
    light = [w for w in words if weight(w) < 4]
    mean, moments = quadrature(Signature(1), 2, words, 1.0, nodes=4)
    np.testing.assert_allclose(mean, 0, atol=1e-13)
    lost = expected(light, 1.0) - moments[: len(light), : len(light)]
    brackets = np.zeros((2, len(light)))
    for row, (j, k) in zip(brackets, [(1, 2), (2, 1)], strict=True):
        for word, share in {(j, j, k): 1, (j, k, j): -2, (k, j, j): 1}.items():
            row[light.index(word)] = share
    size = lost[light.index((1, 1, 2)), light.index((1, 1, 2))]
    np.testing.assert_allclose(lost, size * brackets.T @ brackets, atol=1e-13)
    assert math.sqrt(size) == pytest.approx(0.115, abs=5e-4)


def test_areas_of_the_signature_differ_from_true_ones_in_the_fourth_cumulant():
    """By h⁴/(200 K³), of which √6/24 over the cube of the standard deviation h/√(12K) is the error under coupling."""
    h, K = 0.8, 2
    recipe = Signature(K)

    def area(x):
        II = step(recipe, h, x, 2).II
        return 0.5 * (II[0, 1] - II[1, 0])

    linear, Q = coefficients(area, total(recipe, 2))
    assert 2 * np.trace(Q @ Q) + linear @ linear == pytest.approx(h**2 / 4, rel=1e-12)
    fourth = h**4 / 8 - 48 * np.trace(np.linalg.matrix_power(Q, 4)) - 48 * linear @ Q @ Q @ linear
    assert fourth == pytest.approx(h**4 / (200 * K**3), rel=1e-9)
    tiny = 1e-9  # where areas are the least exact words
    assert recipe.error(tiny) == pytest.approx(math.sqrt(6) / 24 * fourth / h**4 * (12 * K) ** 1.5 * tiny)


@pytest.mark.parametrize("m", [2])
def test_the_signature_obeys_every_product_rule_and_contains_substeps(m):
    """Without the part of the areas that is drawn within the substeps, pairs and their time integrals are theirs."""
    K, h = 3, 0.6
    x = draw(Signature(K), m, seed=4)
    shared = total(Substeps(K), m)
    full = at_one(lambda x: step(Signature(K), h, x, m), np.where(np.arange(x.size) < shared, x, 0.0))
    plain = at_one(lambda x: step(Substeps(K), h, x, m), x[:shared])
    np.testing.assert_allclose(full.II, plain.II, rtol=1e-12, atol=1e-14)
    for w, value in plain.words.items():
        np.testing.assert_allclose(full.words[w], value, rtol=1e-12, atol=1e-14)

    def composed(x, y):
        both = compose(step(Signature(K), h, x, m), step(Signature(K), h, y, m))
        return {w: both.word(w) for w in up_to_weight(4, m)}

    I = {w: float(value) for w, value in at_one(composed, x, draw(Signature(K), m, seed=5)).items()}
    for u, v in itertools.product(I, repeat=2):
        if weight(u + v) <= 4:
            assert I[u] * I[v] == pytest.approx(sum(c * I[w] for w, c in product(u, v).items()), abs=1e-13)


def test_the_signature_holds_every_word_up_to_weight_four():
    x = draw(Signature(2), 2, seed=6)
    made = jax.eval_shape(lambda x: step(Signature(2), 0.1, x, 2), x)
    fields = {(1,), (2,), (1, 0), (2, 0), (1, 1), (1, 2), (2, 1), (2, 2)}
    assert set(made.words) == {w for w in up_to_weight(4, 2) if any(w)} - fields


@pytest.mark.parametrize("recipe", [Substeps, Fourier, MrongowiusRoessler, Signature])
@pytest.mark.parametrize("order", [1.0, 1.5])
def test_for_order_is_the_smallest_that_reaches_it(recipe, order):
    for h in (0.1, 0.013, 1e-3):
        chosen = recipe.for_order(order, h)
        ((name, size),) = dataclasses.asdict(chosen).items()
        assert chosen.error(h) <= h ** (order + 0.5)
        assert size == 1 or dataclasses.replace(chosen, **{name: size - 1}).error(h) > h ** (order + 0.5)


def test_sizes_grow_with_the_rates_of_the_errors():
    """K ~ 1/(12h) and p ~ h^(-1/2) for order 1; the areas for order 1.5 need h⁻² and h⁻¹; the sine series h^(-1/3);
    the signature 1/h for order 2."""
    assert Substeps.for_order(1.0, 1e-3).K == 84
    assert Fourier.for_order(1.0, 1e-4).p / Fourier.for_order(1.0, 1e-3).p == pytest.approx(10, rel=0.03)
    assert MrongowiusRoessler.for_order(1.0, 1e-8).p / MrongowiusRoessler.for_order(1.0, 1e-6).p == pytest.approx(
        10, rel=0.03
    )
    assert MrongowiusRoessler.for_order(1.5, 1e-4).p / MrongowiusRoessler.for_order(1.5, 1e-3).p == pytest.approx(
        10, rel=0.03
    )
    assert [Signature.for_order(order, 0.01).K for order in (1.0, 1.5, 2.0)] == [1, 2, 12]
    many, few = (Signature.for_order(2.0, h).K for h in (1e-6, 1e-5))
    assert many / few == pytest.approx(10, rel=0.01)
    assert SineSeries.for_order(2.0, 1e-4, m=1).p <= 8
    assert SineSeries.for_order(2.0, 1e-9).p / SineSeries.for_order(2.0, 1e-6).p == pytest.approx(10, rel=0.1)


def test_sizes_that_do_not_help_are_not_looked_for():
    """SecondMoments leave an error h²/16 of I_(j,k,0) whatever their p: never enough for order 2, nor below h^(3/2) at
    h > 260 units, where no order is to be seen and none is asked for."""
    assert SecondMoments.for_order(1.0, 1e-2, m=2, unit=1e-5).p == 1
    check_resolution(SecondMoments(1), 1e-2, 1.0, 1, unit=1e-5)
    with pytest.raises(ValueError, match="order: no SecondMoments is enough for strong order 2 at h"):
        SecondMoments.for_order(2.0, 1e-3)


def test_too_few_terms_are_warned_of_with_the_number_that_would_do():
    with pytest.warns(ResolutionWarning, match=r"Substeps\(K=2\).*h = 0\.01.*order 1 .*h\^1\.5 = 0\.001.*K=9"):
        check_resolution(Substeps(2), 0.01, 1.0)
    with pytest.warns(ResolutionWarning, match=r"MrongowiusRoessler\(p=1\).*MrongowiusRoessler\(p=\d+\)"):
        check_resolution(MrongowiusRoessler(1), 1e-4, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for recipe in (Substeps.for_order(1.0, 0.01), MrongowiusRoessler.for_order(1.5, 0.01), wiener.W, wiener.WZ):
            check_resolution(recipe, 0.01, 1.0)
        check_resolution(Fourier(1), 1e-4, 1.0, m=1)


@pytest.mark.parametrize("recipe", [Substeps, Fourier, MrongowiusRoessler, SineSeries, Signature])
@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_size_that_is_no_positive_integer_is_refused(recipe, size):
    with pytest.raises(ValueError, match=f"{recipe.__name__}: [Kp] must be a positive integer, got {size}"):
        recipe(size)


@pytest.mark.brief("recipe0", "recipe3")
@pytest.mark.parametrize("recipe", RECIPES)
def test_precision_follows_the_normals_and_h_may_be_traced(recipe):
    x = draw(recipe, 2, seed=7)
    made = step(recipe, 0.3, x, 2)
    single = step(recipe, jnp.float32(0.3), x.astype(jnp.float32), 2)
    assert {a.dtype for a in jax.tree.leaves(single)} == {jnp.dtype(jnp.float32)}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), made, single)


def test_an_increment_without_areas_says_who_gives_them():
    plain: Increment = step(wiener.WZ, 0.1, jnp.ones(4), 2)
    with pytest.raises(ValueError, match=r"I_\(1, 2\) does not follow.*iterated\.MrongowiusRoessler"):
        plain.word((1, 2))


def test_exponentials_hold_the_patterns_up_to_weight_four():
    """Of W alone, exp(W) = Σ W^k/k!; no pattern beyond is computed."""
    W = jnp.array([0.3, -1.2])
    found = iterated._exp({(1,): W})
    assert set(found) == {(1,) * k for k in range(5)}
    for k in range(5):
        power = functools.reduce(lambda a, b: jnp.tensordot(a, b, 0), [W] * k, jnp.ones(()))
        np.testing.assert_allclose(found[(1,) * k], power / math.factorial(k), rtol=1e-6)
    both = iterated._exp({(0,): jnp.asarray(0.1), (1,): W})
    assert set(both) == {()} | set(up_to_weight(4, 1))


def test_a_single_channel_has_no_area_to_be_wrong_about():
    """Recipes of areas alone are exact for one channel; of others, I_(1,1,0) has an error."""
    for p in (1, 4):
        assert Fourier(p).error(0.5, 1) == MrongowiusRoessler(p).error(0.5, 1) == 0.0
        assert min(Fourier(p).error(0.5), MrongowiusRoessler(p).error(0.5), SineSeries(p).error(0.5, 1)) > 0.0
    assert MrongowiusRoessler.for_order(1.5, 1e-4, 1) == MrongowiusRoessler(1)


@pytest.mark.parametrize(("unit", "counted"), [(1.0, "h = 0.01"), (0.5, "h = 0.01, 0.02 of the time 0.5")])
def test_what_is_too_coarse_is_told_in_the_units_of_the_problem(unit, counted):
    """Fourier(1) at h/unit: its error against (h/unit)^1.5, and the recipe that is enough, which passes."""
    scaled = 0.01 / unit
    enough = Fourier.for_order(1.0, 0.01, 2, unit)
    words = (
        f"has an rms error of {Fourier(1).error(scaled):.2g} at {counted} with 2 channel(s); strong order 1 needs "
        f"at most h^1.5 = {scaled**1.5:.2g}. Take {enough}, or a longer step."
    )
    with pytest.warns(iterated.ResolutionWarning, match=re.escape(words)) as caught:
        iterated.check_resolution(Fourier(1), 0.01, 1.0, 2, unit)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iterated.check_resolution(enough, 0.01, 1.0, 2, unit)
        iterated.check_resolution(wiener.WZ, 0.01, 1.0, 2, unit)
