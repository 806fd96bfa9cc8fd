"""Exact square roots against floats and against themselves."""

import math
from fractions import Fraction as Q

import pytest

from stodyn.numerics.surd import Surd, conjugate, primes, sign, sqrt


def test_square_of_a_square_root():
    for x in (2, 12, Q(38, 491), Q(1105, 991), Q(9, 4), 0):
        assert sqrt(x) * sqrt(x) == x
        assert float(sqrt(x)) == pytest.approx(math.sqrt(x), rel=1e-15)


def test_equal_numbers_written_differently():
    assert sqrt(Q(1105, 991)) == 5 * sqrt(Q(221, 4955))
    assert sqrt(6) * sqrt(10) == 2 * sqrt(15)
    assert sqrt(Q(9, 4)) == Q(3, 2)
    assert hash(sqrt(Q(9, 4))) == hash(Q(3, 2))
    assert hash(sqrt(8)) == hash(2 * sqrt(2))


def test_surds_obey_the_identities_of_a_field():
    a, b = 1 - sqrt(2) / 2, (3 + 2 * sqrt(6)) / 5
    assert (a + b) * (a - b) == a * a - b * b
    assert 2 * a * a == 4 * a - 1  # 1 - √2/2 is a root of 2x² - 4x + 1
    assert not a - a
    assert float(a * b) == pytest.approx(float(a) * float(b), rel=1e-15)


def test_different_numbers_differ():
    assert sqrt(2) != sqrt(3)
    assert sqrt(2) != Q(1414213562373095, 10**15)
    assert Surd({}) == 0


def test_negative_is_refused():
    with pytest.raises(ValueError, match="negative"):
        sqrt(-1)


def test_signs_and_order():
    """√2 + √3 - √(5 + 2√6) would be 0; rational neighbours of √2 that agree to 60 digits are told from it."""
    near = Q(math.isqrt(2 * 10**120), 10**60)
    assert sign(sqrt(2) - near) == 1 and sign(sqrt(2) - near - Q(1, 10**60)) == -1
    assert sign(sqrt(2) * sqrt(3) - sqrt(6)) == 0
    assert near < sqrt(2) <= sqrt(2) < near + Q(1, 10**60) and sqrt(3) > sqrt(2)
    assert sorted([sqrt(5), 2, sqrt(3)]) == [sqrt(3), 2, sqrt(5)]


def test_division_by_surds_is_exact():
    x = 1 - sqrt(2) / 2 + 3 * sqrt(15) - sqrt(Q(6, 7))
    assert x / x == 1 and 1 / x * x == 1 and (2 + x) / x == 1 + 2 / x
    assert float(1 / x) == pytest.approx(1 / float(x), rel=1e-14)
    assert primes(x) == [2, 3, 5, 7] and conjugate(x, 5) == x - 6 * sqrt(15)
    with pytest.raises(ZeroDivisionError):
        1 / (x - x)
