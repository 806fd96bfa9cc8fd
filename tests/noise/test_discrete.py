"""Weak draws: their moments in exact arithmetic, their link to W, and the refusal to compose."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.noise import discrete, wiener
from stodyn.noise.discrete import ThreePoint, WeakPairs
from stodyn.noise.increment import compose
from stodyn.numerics.printing.points import at_one, at_points


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def outcomes(recipe, m, h):
    """Every increment a step can make, with its exact probability."""
    names = [name for name, count in recipe.normals(m).items() for _ in range(count)]
    for choice in itertools.product(*(zip(*node, strict=True) for node in recipe.nodes(m))):
        normals = {name: jnp.array([v for (v, _), n in zip(choice, names, strict=True) if n == name]) for name in names}
        yield recipe.increment(h, normals, m), math.prod((p for _, p in choice), start=Fraction(1))


def gaussian_moment(power):
    return 0 if power % 2 else math.prod(range(1, power, 2))


def test_the_cut_is_the_quantile_five_sixths():
    assert 0.5 * math.erfc(discrete.THIRD / math.sqrt(2)) == pytest.approx(1 / 6, rel=1e-14)


@pytest.mark.parametrize("recipe", [ThreePoint(), WeakPairs()])
@pytest.mark.parametrize("m", [1, 2])
def test_joint_moments_of_W_up_to_the_fifth_are_gaussian(recipe, m):
    h = 0.25
    rows = [(np.asarray(i.W), float(p)) for i, p in outcomes(recipe, m, h)]
    assert math.fsum(p for _, p in rows) == pytest.approx(1.0)
    for powers in itertools.product(range(6), repeat=m):
        if sum(powers) > 5:
            continue
        moment = math.fsum(p * np.prod(W ** np.array(powers)) for W, p in rows)
        exact = h ** (sum(powers) / 2) * math.prod(gaussian_moment(k) for k in powers)
        assert moment == pytest.approx(exact, abs=1e-15)


def test_the_sixth_moment_is_not_gaussian():
    """Otherwise the enumeration would not see the difference between the draw and a normal: 9 h³, not 15 h³."""
    assert math.fsum(float(p) * float(i.W[0]) ** 6 for i, p in outcomes(ThreePoint(), 1, 1.0)) == pytest.approx(9.0)


def test_two_point_draws_are_independent_of_W_with_unit_even_moments():
    h, m = 0.25, 2
    rows = [(np.asarray(i.W), np.asarray(i.aux["two"]), float(p)) for i, p in outcomes(WeakPairs(), m, h)]
    for a, b, c, d in itertools.product(range(3), repeat=4):
        moment = math.fsum(p * W[0] ** a * W[1] ** b * V[0] ** c * V[1] ** d for W, V, p in rows)
        exact = math.prod(0.0 if k % 2 else h ** (k / 2) for k in (a, b, c, d))
        assert moment == pytest.approx(exact, abs=1e-16)


def test_probabilities_of_drawn_normals():
    """2^18 draws; each frequency within 5.5 standard errors of its probability (false alarm below 1e-6 in all)."""
    count = 2**18
    U = np.random.default_rng(1).standard_normal((2, count))
    draw = at_points(lambda u, v: WeakPairs().increment(1.0, {"W": u[None], "aux": v[None]}, 1), *U)
    W, two = draw.W[:, 0], draw.aux["two"][:, 0]
    for hit, p in [(W > 1, 1 / 6), (W < -1, 1 / 6), (W == 0, 2 / 3), (two == 1, 1 / 2), (two == -1, 1 / 2)]:
        assert abs(hit.mean() - p) < 5.5 * math.sqrt(p * (1 - p) / count)
    np.testing.assert_allclose(np.unique(np.round(W, 12)), np.round([-math.sqrt(3), 0, math.sqrt(3)], 12))


def test_the_sign_is_that_of_the_W_of_the_same_normals():
    U = np.random.default_rng(2).standard_normal(100)
    weak, strong = (at_one(lambda u: kind.increment(0.1, {"W": u}, 100).W, U) for kind in (ThreePoint(), wiener.W))
    assert np.all(weak * strong >= 0) and np.mean(weak * strong) > 0


@pytest.mark.parametrize("recipe", [ThreePoint(), WeakPairs()])
def test_composition_is_refused_with_the_way_out(recipe):
    normals = {name: jnp.ones(count) for name, count in recipe.normals(2).items()}
    step = recipe.increment(0.1, normals, 2)
    gauss = wiener.W.increment(0.1, {"W": jnp.ones(2)}, 2)
    for pair in [(step, step), (step, gauss), (gauss, step)]:
        with pytest.raises(ValueError, match=r"weak .* do not add up.*wiener\.W"):
            compose(*pair)


def test_float32_stays_float32():
    with jax.enable_x64(False):
        normals = {"W": jnp.ones(2), "aux": jnp.ones(2)}
        step = jax.eval_shape(lambda normals: WeakPairs().increment(0.1, normals, 2), normals)
        assert step.W.dtype == step.aux["two"].dtype == jnp.float32
