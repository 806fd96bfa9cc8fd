"""Tail indices from the largest of some numbers, on numbers whose law is known."""

import numpy as np
import pytest
import scipy.stats

from stodyn.numerics import tails

PROBABILITIES = (np.arange(2**18) + 0.5) / 2**18
NORMAL = scipy.stats.norm.isf(PROBABILITIES)


def found(values):
    """The tail of numbers that come in blocks."""
    blocks = [tails.extremes(block[None]) for block in np.array_split(values, 7)]
    whole = blocks[0]
    for block in blocks[1:]:
        whole = tails.most_extreme(whole, block)
    return tails.tail(whole, np.array([values.mean()]), len(values))


@pytest.mark.parametrize("index", [1.5, 2.5, 3.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_index_of_a_pareto_tail_is_found(index, sign):
    """At the quantiles of Pareto's law: Hill, far from the mean, to three of the errors of as many random numbers, and
    the shapes to one of their own."""
    values = sign * (1 - (np.arange(2**16) + 0.5) / 2**16) ** (-1 / index)
    tail = found(values)
    assert abs(tail.hill[0] * index - 1) < 3 / np.sqrt(np.sqrt(2**16) / 2) < 0.4
    assert abs(tail.near.value[0] - 1 / index) < tail.near.stderr[0] < 0.04
    assert abs(tail.far.value[0] - 1 / index) < tail.far.stderr[0] < 0.06


@pytest.mark.parametrize(
    "values",
    [np.exp(NORMAL**2 / 5), np.exp(NORMAL**2 / 6), np.exp(2.4 * NORMAL), scipy.stats.t.isf(PROBABILITIES, 3)],
    ids=["index 2.5", "index 3", "cube of a lognormal", "Student 3"],
)
def test_heavy_tails_are_called_heavy(values):
    """At the quantiles of each law, and from 16384 of them on nothing says the contrary."""
    assert found(values).is_heavy[0]
    assert found(values[::16]).may_be_heavy[0] and found(values[::64]).may_be_heavy[0]


@pytest.mark.parametrize(
    "values",
    [NORMAL**2, NORMAL**3, NORMAL**4, np.exp(0.8 * NORMAL), np.exp(NORMAL), np.log(scipy.stats.norm.sf(NORMAL)) ** 2],
    ids=["square", "cube", "fourth power", "lognormal", "wide lognormal", "square of an exponential"],
)
def test_light_tails_that_look_like_powers_are_not_called_heavy(values):
    """Hill's index of some of these is far below four: their shape is not."""
    assert not found(values).is_heavy[0]
    assert not found(values[::16]).is_heavy[0]


def test_moderate_lognormals_need_few_points_to_be_called_light():
    """At the 16384 quantiles: nothing is left to doubt of exp(0.8 W), and exp(W²/5), which has the index 2.5, would
    have to be 3.5 standard errors lighter for as much."""
    assert not found(np.exp(0.8 * NORMAL[::16])).may_be_heavy[0]
    near = found(np.exp(NORMAL[::16] ** 2 / 5)).near
    assert near.value[0] - 3.5 * near.stderr[0] > 1 / tails.LEAST_INDEX - tails.RATHER * near.stderr[0]


def test_shapes_have_the_errors_that_they_state():
    """Of 200 samples of 256 exceedances of Pareto's law each: their mean to six of its errors, and a deviation between
    0.7 and 1.3 of the stated one, which it misses once in 10⁶."""
    chances = np.random.default_rng(5).random((200, 256))
    for index in (2.5, 4.0):
        shapes = np.array([tails._shape(row) for row in index * (chances ** (-1 / index) - 1)])
        stated = (1 + 1 / index) / 16
        assert abs(shapes.mean() - 1 / index) < 6 * stated / np.sqrt(200) + 1 / 256
        assert 0.7 < shapes.std() / stated < 1.3


def test_few_numbers_leave_a_tail_open():
    """Of 100 numbers nobody knows, and equal ones have no tail; of 512 nothing is certain."""
    few = found(np.exp(2.4 * NORMAL[::512]))
    assert few.may_be_heavy[0] and not few.is_heavy[0]
    nothing = found(NORMAL[:100])
    assert not nothing.may_be_heavy[0] and not nothing.is_heavy[0]
    assert found(np.ones(4096)).hill[0] == 0.0 and not found(np.ones(4096)).may_be_heavy[0]
