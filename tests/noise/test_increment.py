"""Increments: Chen's relation and the algebra of words, against signatures in exact arithmetic."""

import dataclasses
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.noise import wiener
from stodyn.noise.increment import Increment, compose, compose_all
from stodyn.noise.words import express, product, up_to_weight, weight
from stodyn.numerics.printing.points import at_one

pytestmark = pytest.mark.usefixtures("quick_compiling")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def times(a, b, words):
    """Chen's relation in exact arithmetic."""
    return {w: sum(a[w[:i]] * b[w[i:]] for i in range(len(w) + 1)) for w in words}


def signature(h, W, weight_limit=4):
    """The Ito signature exp(h e0 - (h/2) sum e_j e_j + sum W_j e_j) of a straight piece, truncated."""
    words = up_to_weight(weight_limit, len(W))
    log = dict.fromkeys(words, Fraction(0))
    log[(0,)] = h
    for j, w in enumerate(W, start=1):
        log[(j,)], log[(j, j)] = w, -h / 2
    power = dict.fromkeys(words, Fraction(0)) | {(): Fraction(1)}
    total = dict(power)
    for n in range(1, weight_limit + 1):
        power = {w: c / n for w, c in times(power, log, words).items()}
        total = {w: total[w] + power[w] for w in words}
    return total


def random_pieces(m, count, seed):
    rng = np.random.default_rng(seed)
    draws = rng.integers(-9, 10, (count, m + 1))
    return [signature(Fraction(int(abs(d[0]) + 1), 10), [Fraction(int(x), 7) for x in d[1:]]) for d in draws]


def as_increment(S, m):
    """Every word the fields do not hold goes to words."""
    j = range(1, m + 1)
    fields = {(), (0,), *((a,) for a in j), *((a, 0) for a in j), *itertools.product(j, j)}
    number = {w: float(c) for w, c in S.items()}
    return Increment(
        jnp.asarray(number[(0,)]),
        jnp.array([number[(a,)] for a in j]),
        jnp.array([number[(a, 0)] for a in j]),
        jnp.array([[number[(a, b)] for b in j] for a in j]),
        {w: jnp.asarray(c) for w, c in number.items() if w not in fields},
    )


def stacked(increments):
    return jax.tree.map(lambda *a: jnp.stack(a), *increments)


def close(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), one, other)


@pytest.mark.parametrize("m", [1, 2])
def test_the_product_rule_holds_on_signatures_exactly(m):
    S = times(*random_pieces(m, 2, seed=3), up_to_weight(4, m))
    pairs = [(u, v) for u in S for v in S if weight(u + v) <= 4]
    assert len(pairs) > 20
    for u, v in pairs:
        assert S[u] * S[v] == sum(c * S[w] for w, c in product(u, v).items())


@pytest.mark.parametrize("m", [1, 2, 3])
def test_every_expression_is_an_identity_exactly(m):
    S = times(*random_pieces(m, 2, seed=4), up_to_weight(4, m))
    channels = range(1, m + 1)
    single = {(j,) for j in channels} | {(j, 0) for j in channels}
    areas = single | {p for p in itertools.product(channels, repeat=2) if p[0] < p[1]}
    both = areas | {(j, k, 0) for j in channels for k in channels}
    found = 0
    for held in map(frozenset, (single, areas, both, both | {(1, 1, 2), (1, 2, 2)} if m > 1 else both)):
        for w in S:
            polynomial = express(w, held)
            if polynomial is not None:
                found += 1
                assert S[w] == sum(c * math.prod(S[u] for u in monomial) for monomial, c in polynomial.items())
                assert all(u in held or u == (0,) for monomial in polynomial for u in monomial)
    assert found > 25


def test_what_follows_in_one_channel_and_what_does_not():
    """Weight 4 in one channel follows from W, I_(1,0) and I_(1,1,0); the last does not follow from the other two."""
    assert all(express(w, frozenset({(1,), (1, 0), (1, 1, 0)})) is not None for w in up_to_weight(4, 1))
    assert express((1, 1, 0), frozenset({(1,), (1, 0)})) is None
    assert express((1, 2), frozenset({(1,), (2,), (1, 0), (2, 0)})) is None
    assert express((2, 1), frozenset({(1,), (2,), (1, 2)})) is not None


def test_the_closed_forms_of_one_channel():
    W, Z, X, h = 0.7, 0.11, -0.03, 0.25
    step = Increment(h, jnp.array([W]), jnp.array([Z]), words={(1, 1, 0): jnp.asarray(X)})
    I01, I101 = h * W - Z, W * Z - 2 * X - h**2 / 2
    for word, value in {
        (): 1.0,
        (0, 0): h**2 / 2,
        (1, 1): (W**2 - h) / 2,
        (1, 1, 1): (W**3 - 3 * h * W) / 6,
        (1, 1, 1, 1): (W**4 - 6 * h * W**2 + 3 * h**2) / 24,
        (0, 1): I01,
        (1, 0, 1): I101,
        (0, 1, 1): (W * I01 - I101 - h**2 / 2) / 2,
    }.items():
        assert float(step.word(word)) == pytest.approx(value, rel=1e-14), word


@pytest.mark.parametrize("m", [1, 2])
def test_composition_is_the_product_of_signatures_for_every_word(m):
    first, second = random_pieces(m, 2, seed=5)
    exact = as_increment(times(first, second, up_to_weight(4, m)), m)
    joined = compose(as_increment(first, m), as_increment(second, m))
    assert joined.words.keys() == exact.words.keys()
    close(joined, exact)


@pytest.mark.brief("3")
@pytest.mark.parametrize("factor", [1, 2, 3, 6])
def test_coarsening_a_stack_is_composing_its_steps(factor):
    pieces = random_pieces(2, 6, seed=6)
    coarse = jax.jit(compose_all, static_argnums=1)(stacked([as_increment(p, 2) for p in pieces]), factor)
    assert coarse.W.shape == (6 // factor, 2)
    for i in range(6 // factor):
        exact = pieces[i * factor]
        for piece in pieces[i * factor + 1 : (i + 1) * factor]:
            exact = times(exact, piece, up_to_weight(4, 2))
        here = jax.tree.map(lambda a: a[i], coarse)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), here, as_increment(exact, 2)
        )


@pytest.mark.brief("1")
@pytest.mark.parametrize("m", [1, 2])
def test_coarsening_in_two_stages_and_to_one_step(m):
    fine = stacked([as_increment(p, m) for p in random_pieces(m, 8, seed=7)])
    one, two = at_one(lambda fine: (compose_all(fine), compose_all(compose_all(fine, 2), 4)), fine)
    close(one, jax.tree.map(lambda a: a[0], two))


def test_coarsening_keeps_axes_behind_the_steps_and_accepts_one_h_for_all():
    """(steps, paths, m) with a plain number as h is the same as each path on its own."""
    W, Z = (np.random.default_rng(seed).standard_normal((4, 3, 2)) for seed in (8, 9))

    def coarse(W, Z):
        return compose_all(Increment(0.5, W, Z), 2)

    together = at_one(coarse, W, Z)
    assert together.W.shape == (2, 3, 2)
    for path in range(3):
        alone = at_one(coarse, W[:, path], Z[:, path])
        np.testing.assert_allclose(together.Z[:, path], alone.Z, rtol=1e-14)
        np.testing.assert_allclose(alone.h, [1.0, 1.0])


def test_composed_Z_has_the_law_of_a_longer_step():
    """(W, Z) of two halves, linear in four normals: its exact covariance is that of one step."""
    h = 0.8

    def halves(x):
        first, second = (wiener.WZ.increment(h / 2, {"W": x[i : i + 1], "Z": x[i + 1 : i + 2]}, 1) for i in (0, 2))
        both = compose(first, second)
        return jnp.concatenate([both.W, both.Z])

    J = at_one(jax.jacfwd(halves), np.zeros(4))
    np.testing.assert_allclose(J @ J.T, [[h, h**2 / 2], [h**2 / 2, h**3 / 3]], rtol=1e-13)


def test_what_only_one_piece_holds_is_dropped_for_fields_and_refused_for_words():
    W, Z, II = jnp.ones(2), jnp.ones(2), jnp.ones((2, 2))
    assert compose(Increment(0.1, W, Z, II), Increment(0.1, W)).Z is None
    assert compose(Increment(0.1, W, Z, II), Increment(0.1, W)).II is None
    word = {(1, 2, 0): jnp.asarray(1.0)}
    with pytest.raises(ValueError, match=r"I_\(1, 2\) does not follow.*iterated\.MrongowiusRoessler"):
        compose(Increment(0.1, W, Z, words=word), Increment(0.1, W, Z, words=word))
    with pytest.raises(ValueError, match=r"I_\(2, 0\) does not follow.*wiener\.WZ"):
        compose(Increment(0.1, W, Z, II, word), Increment(0.1, W, words=word))


@pytest.mark.parametrize(
    ("word", "recipe"),
    [
        ((1, 0), "wiener.WZ"),
        ((0, 2), "wiener.WZ"),
        ((2, 1), "iterated.MrongowiusRoessler"),
        ((1, 1, 0), "iterated.SineSeries"),
        ((2, 0, 2), "iterated.SineSeries"),
        ((1, 2, 0), "iterated.Substeps"),
        ((1, 0, 2), "iterated.Substeps"),
        ((1, 1, 2), "iterated.Signature"),
        ((1, 2, 2, 1), "iterated.Signature"),
        ((1, 0, 0, 1), r"weight is 6 .*up to 4"),
    ],
)
def test_a_missing_word_names_the_recipe_that_gives_it(word, recipe):
    with pytest.raises(ValueError, match=recipe):
        Increment(0.1, jnp.ones(2)).word(word)


def test_a_letter_beyond_the_channels_is_refused():
    with pytest.raises(ValueError, match=r"\(1, 3\) has a letter outside 0\.\.2"):
        Increment(0.1, jnp.ones(2)).word((1, 3))


def test_a_factor_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="factor=4 does not divide the 6 steps"):
        compose_all(Increment(0.1, jnp.ones((6, 1))), 4)


def test_precision_and_batches_are_kept():
    step = Increment(0.5, jnp.ones((3, 2), jnp.float32), jnp.ones((3, 2), jnp.float32))
    assert step.word((0, 1)).shape == (3,) and step.word((0, 1)).dtype == jnp.float32
    assert dataclasses.replace(step, h=jnp.full(3, 0.5)).word((2, 2)).shape == (3,)


@pytest.mark.parametrize("order", [1, -1])
def test_words_of_either_piece_are_composed(order):
    """Of I_(1,0) one piece holds the word, the other Z, from which it is known."""
    h, W, Z = 0.5, jnp.array([0.3]), jnp.array([0.1])
    pieces = [Increment(h, W, Z), Increment(h, 2 * W, 3 * Z, words={(1, 0): 3 * Z[0]})][::order]
    joined = compose(*pieces)
    assert set(joined.words) == {(1, 0)}
    expected = 4 * 0.1 + h * float(pieces[0].W[0])
    assert (float(joined.words[1, 0]), float(joined.Z[0])) == pytest.approx((expected, expected))
