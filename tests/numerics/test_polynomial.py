"""Exact polynomials: arithmetic, roots by Sturm's theorem, and nonnegativity where the variables are nonnegative."""

from fractions import Fraction as Q

import numpy as np
import pytest

from stodyn.numerics.polynomial import (
    Polynomial,
    between_roots,
    negative_on_half_line,
    negative_on_quadrant,
    rational_multiple,
    variables,
)
from stodyn.numerics.surd import sqrt

x, y = variables(2)


def test_polynomials_are_added_multiplied_and_evaluated_exactly():
    p = (x + 2 * y - 1) ** 2
    assert p == x * x + 4 * x * y + 4 * y * y - 2 * x - 4 * y + 1
    assert p(Q(1, 2), Q(1, 3)) == Q(1, 36) and p - p == 0 and not p - p
    assert p.degree(0) == 2 and (p - p).degree(1) == -1
    assert p.collected(1)[1] == 4 * x - 4
    assert p.along(0) == [1, -2, 1]
    assert repr(x * y * sqrt(2) - 3) == "(1√2) x1 x2 + -3"
    np.testing.assert_allclose(p.floats()(np.array([0.5, 1.0]), 0.25), [0.0, 0.25])
    with pytest.raises(ValueError, match="argument"):
        p(1)


def test_one_point_between_any_two_roots():
    """Of (t - 1)² (t - 2) (t - 5/2)³ (t + 4): 0 | 1 | 2 | 5/2 | ∞, multiple roots counted once."""
    t = np.polynomial.Polynomial([0, 1])
    p = (t - 1) ** 2 * (t - 2) * (2 * t - 5) ** 3 * (t + 4)
    points = list(between_roots([Q(int(c)) for c in p.coef]))
    assert [sum(a > root for root in (1, 2, Q(5, 2))) for a in points] == [0, 1, 2, 3]
    assert len(list(between_roots([Q(3)]))) == 1
    assert len(list(between_roots([Q(0), Q(0), Q(1)]))) == 1  # a root at 0 is none between


def test_signs_on_the_half_line_are_decided_exactly():
    assert negative_on_half_line([4, -4, 1]) is None  # (t - 2)²
    assert negative_on_half_line([0, 0, 4, -4, 1]) is None
    just = negative_on_half_line([4 - Q(1, 10**20), -4, 1])
    assert just is not None and abs(just - 2) < Q(1, 10**9)
    root = sqrt(2) + sqrt(3)
    assert negative_on_half_line([root * root, -2 * root, 1]) is None
    assert negative_on_half_line([root * root - Q(1, 10**12), -2 * root, 1]) is not None
    assert negative_on_half_line([-1, 0, 0]) is not None


def test_rational_multiples_have_the_conjugates_as_roots():
    """√2 is a root of t² - 2, √2 + √3 of t⁴ - 10 t² + 1."""
    assert rational_multiple([-sqrt(2), 1]) == [-2, 0, 1]
    assert rational_multiple([-sqrt(2) - sqrt(3), 1]) == [1, 0, -10, 0, 1]


TOUCHING = {
    "point": (x - 1) ** 2 + (y - 2) ** 2,
    "surd point": (x - sqrt(2)) ** 2 + (y - 3 * sqrt(2)) ** 2,
    "hyperbola": (x * y - 3) ** 2 * (x + y + 1),
    "surd line": (x - sqrt(2) * y) ** 2 * y,
    "crossing curves": (y - x * x) ** 2 * (y - x) ** 2,
    "only in x": (x - 3) ** 2 + 0 * y,
    "Motzkin": x * x * y + x * y * y + 1 - 3 * x * y,  # nonnegative, no sum of squares in √x, √y
}


@pytest.mark.parametrize("name", TOUCHING)
def test_signs_on_the_quadrant_are_decided_where_zero_is_touched(name):
    """Polynomials that touch 0 are told from those that pass it by 1e-12 or less."""
    F = TOUCHING[name]
    assert negative_on_quadrant(F) is None
    found = negative_on_quadrant(F - Q(1, 10**12) * (1 + x))
    assert found is not None and (F - Q(1, 10**12) * (1 + x))(*found) < 0 < min(found)


def test_quadrant_where_nothing_is_negative_or_all_is():
    assert negative_on_quadrant(Polynomial({}, 2)) is None
    assert negative_on_quadrant(x + sqrt(2) * y) is None
    assert negative_on_quadrant(-x * y) is not None
