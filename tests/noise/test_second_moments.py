"""SecondMoments: every mean and second moment of W, Z, I_(j,k) and I_(j,k,0) is that of the integrals, by calculus.

The integrals are at most quadratic in the normals, so a few values give their exact joint covariance.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.noise.iterated import SecondMoments, SineSeries, Words
from stodyn.noise.words import product


def ito(u, v, h):
    """E[I_u I_v]: of the integrals in their product only those over time alone have a mean."""
    return float(sum(c * h ** len(w) / math.factorial(len(w)) for w, c in product(u, v).items() if not any(w)))


def moments(recipe, m, words, h):
    """Mean and covariance of words that are at most quadratic in n normals, read off at 0, ±e_i and e_i + e_j."""
    counts = recipe.normals(m)
    n, ends = sum(counts.values()), np.cumsum([*counts.values()])[:-1]
    channels = range(1, m + 1)

    def every(x):
        noise = recipe.increment(h, dict(zip(counts, jnp.split(x, ends), strict=True)), m)
        return noise.W, noise.Z, noise.II, {(j, k, 0): noise.words[j, k, 0] for j in channels for k in channels}

    i, j = np.triu_indices(n, 1)
    e = np.eye(n)
    W, Z, II, others = jax.jit(jax.vmap(every))(np.concatenate([np.zeros((1, n)), e, -e, e[i] + e[j]]))
    held = {(a,): W[:, a - 1] for a in channels} | {(a, 0): Z[:, a - 1] for a in channels} | others
    held |= {(a, b): II[:, a - 1, b - 1] for a in channels for b in channels}
    zero, plus, minus, both = np.split(np.stack([held[w] for w in words], axis=1), np.cumsum([1, n, n]))
    J, Q = (plus - minus).T / 2, np.zeros((len(words), n, n))
    Q[:, range(n), range(n)] = (plus + minus - 2 * zero).T
    Q[:, i, j] = Q[:, j, i] = (both - plus[i] - plus[j] + zero).T
    return zero[0] + 0.5 * np.trace(Q, axis1=1, axis2=2), J @ J.T + 0.5 * np.einsum("aij,bij->ab", Q, Q)


@pytest.mark.brief("1-0", "3-2")
@pytest.mark.parametrize(("m", "p"), [(1, 0), (2, 1), (3, 2)])
def test_all_second_moments_are_exact(m, p):
    """These are the ten expectations (17) of Rajan & Raha, for any number of channels."""
    h, channels = 0.7, range(1, m + 1)
    pairs = list(itertools.product(channels, repeat=2))
    words = [(j,) for j in channels] + [(j, 0) for j in channels] + pairs + [(*pair, 0) for pair in pairs]
    mean, covariance = moments(SecondMoments(p), m, words, h)
    np.testing.assert_allclose(mean, 0.0, atol=1e-14)
    np.testing.assert_allclose(covariance, [[ito(u, v, h) for v in words] for u in words], atol=1e-14)


def test_without_areas_what_commuting_channels_need_is_exact():
    """I_(j,k) + I_(k,j) and I_(j,k,0) + I_(k,j,0) from fewer normals."""
    h, words = 0.7, [(1, 2), (2, 1), (1, 2, 0), (2, 1, 0), (1, 1, 0)]
    _, covariance = moments(SecondMoments(0), 2, words, h)
    both = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]])
    expected = np.array([[ito(u, v, h) for v in words] for u in words])
    np.testing.assert_allclose(both @ covariance @ both.T, both @ expected @ both.T, atol=1e-14)
    assert sum(SecondMoments(0).normals(2).values()) == 7 and sum(SecondMoments(0).normals(1).values()) == 3


def test_errors_and_bad_sizes():
    assert SecondMoments(0).error(0.1) == pytest.approx(0.0624 * 0.01, rel=1e-2)
    assert SecondMoments(4).error(0.1, 2) > SecondMoments(8).error(0.1, 2)
    with pytest.raises(ValueError, match="SecondMoments: p must be a positive integer, got -1"):
        SecondMoments(-1)


def test_words_takes_what_the_channels_need():
    assert Words().normals(1) == SineSeries(8).normals(1) and Words().normals(0) == {"W": 0, "Z": 0}
