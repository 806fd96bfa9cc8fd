"""Hill's estimate of tail indices, on numbers whose law is known."""

import numpy as np
import pytest

from stodyn.accuracy import tails


def found(values):
    """1/α and its relative error from numbers that come in blocks."""
    blocks = [tails.extremes(block[None]) for block in np.array_split(values, 7)]
    whole = blocks[0]
    for block in blocks[1:]:
        whole = tails.most_extreme(whole, block)
    return tails.heaviness(whole, np.array([values.mean()]), len(values))


@pytest.mark.parametrize("index", [1.5, 2.5, 3.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_index_of_a_pareto_tail_is_found(index, sign):
    """At the quantiles of Pareto's law, far from the mean: to three of the errors of as many random numbers."""
    values = sign * (1 - (np.arange(2**16) + 0.5) / 2**16) ** (-1 / index)
    heaviness, stderr = found(values)
    assert abs(heaviness[0] * index - 1) < 3 * stderr < 0.4


def test_light_tails_and_few_numbers():
    """Squares of 16384 normal numbers are not heavy beyond doubt; cubes of lognormal ones are; of 100 nobody knows."""
    normal = np.random.default_rng(1).standard_normal(2**14)
    heaviness, stderr = found(normal**2)
    assert not tails.is_heavy(heaviness, stderr, 2**14, tails.SURE)[0]
    heaviness, stderr = found(np.exp(2.4 * normal))
    assert tails.is_heavy(heaviness, stderr, 2**14, tails.SURE)[0]
    assert (
        not tails.is_heavy(heaviness, stderr, 512, tails.SURE)[0]
        and tails.is_heavy(heaviness, stderr, 512, tails.MAYBE)[0]
    )
    assert found(normal[:100])[1] == np.inf and found(np.ones(4096))[0][0] == 0.0
