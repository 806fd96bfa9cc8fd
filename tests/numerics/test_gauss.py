"""Gauss rules against exact moments, closed forms and nodes in 40 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from stodyn.numerics import gauss

ORDERS = (1, 2, 3, 8, 20)


def beta_moment(a, b):
    """E((1 + x)/2)^k of the density proportional to (1-x)^a (1+x)^b."""
    return lambda k: math.prod((b + 1 + i) / (a + b + 2 + i) for i in range(k))


RULES = {
    "legendre": (gauss.legendre, lambda k: Fraction(1, k + 1) if k % 2 == 0 else 0, lambda x: x),
    "hermite": (gauss.hermite, lambda k: math.prod(range(1, k, 2)) if k % 2 == 0 else 0, lambda x: x),
    "laguerre": (gauss.laguerre, lambda k: math.factorial(k), lambda x: x),
    "jacobi": (lambda n: gauss.jacobi(n, 0.3, 2.5), beta_moment(0.3, 2.5), lambda x: (1 + x) / 2),
    "chebyshev": (lambda n: gauss.jacobi(n, -0.5, -0.5), beta_moment(-0.5, -0.5), lambda x: (1 + x) / 2),
    "gegenbauer": (lambda n: gauss.jacobi(n, 0.0, 0.0), beta_moment(0.0, 0.0), lambda x: (1 + x) / 2),
    "near the edge": (lambda n: gauss.jacobi(n, -0.9, 4.0), beta_moment(-0.9, 4.0), lambda x: (1 + x) / 2),
}


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("name", RULES)
def test_exact_up_to_degree_2n_minus_1_and_no_further(name, n):
    build, moment, variable = RULES[name]
    x, w = build(n)
    assert (w > 0).all() and (np.diff(x) > 0).all()
    y = variable(x)
    for k in range(2 * n):
        exact = float(moment(k))
        assert abs(math.fsum(w * y**k) - exact) <= 1e-13 * max(math.fsum(w * np.abs(y) ** k), 1e-300), k
    if n <= 3:  # degree 2n is missed by the squared norm of the monic polynomial, which is soon small
        assert abs(math.fsum(w * y ** (2 * n)) - float(moment(2 * n))) > 1e-6 * float(moment(2 * n))


def test_rules_of_few_nodes_are_the_closed_forms():
    x, w = gauss.legendre(2)
    np.testing.assert_allclose(x, [-1 / math.sqrt(3), 1 / math.sqrt(3)], rtol=1e-15)
    np.testing.assert_allclose(w, [0.5, 0.5], rtol=1e-15)
    x, w = gauss.hermite(3)
    np.testing.assert_allclose(x, [-math.sqrt(3), 0, math.sqrt(3)], atol=1e-15)
    np.testing.assert_allclose(w, [1 / 6, 2 / 3, 1 / 6], rtol=2e-15)
    x, w = gauss.laguerre(2)
    np.testing.assert_allclose(x, [2 - math.sqrt(2), 2 + math.sqrt(2)], rtol=1e-15)
    np.testing.assert_allclose(w, [(2 + math.sqrt(2)) / 4, (2 - math.sqrt(2)) / 4], rtol=2e-15)
    n = 30
    x, w = gauss.jacobi(n, -0.5, -0.5)
    np.testing.assert_allclose(x, -np.cos(np.pi * (2 * np.arange(1, n + 1) - 1) / (2 * n)), atol=1e-15)
    np.testing.assert_allclose(w, 1 / n, rtol=1e-13)
    x, w = gauss.jacobi(n, 0.5, 0.5)
    angle = np.pi * np.arange(n, 0, -1) / (n + 1)
    np.testing.assert_allclose(x, np.cos(angle), atol=1e-15)
    np.testing.assert_allclose(w, 2 / (n + 1) * np.sin(angle) ** 2, rtol=1e-12)


@pytest.mark.parametrize("n", [5, 12, 40])
def test_nodes_and_smallest_weights_in_40_digits(n):
    """Roots of He_n, and the weight n!/(n He_(n-1))², to relative accuracy also where it is 1e-30."""
    x, w = gauss.hermite(n)
    with mpmath.workdps(40):

        def he(k, z):
            before, p = mpmath.mpf(0), mpmath.mpf(1)
            for j in range(k):
                before, p = p, z * p - j * before
            return p

        for i in range(n):
            z = mpmath.mpf(x[i])
            for _ in range(3):
                z -= he(n, z) / (n * he(n - 1, z))
            weight = mpmath.factorial(n) / (n * he(n - 1, z)) ** 2
            assert abs(x[i] - z) <= 4e-16 * max(1, abs(z))
            assert abs(w[i] / weight - 1) < 2e-13


def test_large_rules_neither_overflow_nor_lose_mass():
    for x, w in (gauss.hermite(1000), gauss.laguerre(300), gauss.legendre(1000)):
        assert np.isfinite(x).all() and (w >= 0).all()
        assert abs(w.sum() - 1) < 1e-12
    x, w = gauss.hermite(1000)
    np.testing.assert_allclose([w @ x**2, w @ np.cos(3 * x)], [1.0, math.exp(-4.5)], rtol=1e-12)


def test_symmetric_measures_have_symmetric_rules():
    for n in ORDERS:
        x, w = gauss.hermite(n)
        np.testing.assert_array_equal(x, -x[::-1])
        np.testing.assert_allclose(w, w[::-1], rtol=1e-13)


def test_total_mass_and_shift_of_a_given_recurrence():
    """Hermite moved to mean 5 and with mass 3."""
    k = np.arange(6.0)
    x, w = gauss.rule(5.0 + 0 * k, np.append(3.0, k[1:]))
    nodes, weights = gauss.hermite(6)
    np.testing.assert_allclose(x, 5.0 + nodes, rtol=1e-14)
    np.testing.assert_allclose(w, 3.0 * weights, rtol=1e-13)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="n: expected a number of nodes >= 1, got 0"):
        gauss.hermite(0)
    with pytest.raises(ValueError, match=r"n: expected a number of nodes >= 1, got 2\.5"):
        gauss.legendre(2.5)
    with pytest.raises(ValueError, match="got a = -1, b = 0"):
        gauss.jacobi(3, -1, 0)
    with pytest.raises(ValueError, match="two sequences of one length"):
        gauss.rule([0.0, 0.0], [1.0])
    with pytest.raises(ValueError, match="positive beta"):
        gauss.rule([0.0, 0.0], [1.0, -1.0])


@pytest.mark.parametrize("n", [2, 3, 7])
def test_rules_with_ends_are_exact_to_degree_2n_3(n):
    nodes, weights = gauss.lobatto(n)
    assert nodes[0] == -1.0 and nodes[-1] == 1.0
    for degree in range(2 * n - 2):
        np.testing.assert_allclose(weights @ nodes**degree, (1 - degree % 2) / (degree + 1), atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_many_normals_together_have_a_rule_of_degree_5(count):
    """Moments of independent normals, also along directions that no node lies on."""
    nodes, weights = gauss.of_degree_5(count)
    assert nodes.shape == (2 * count**2 + 1, count)
    direction = np.arange(1.0, count + 1.0) / np.linalg.norm(np.arange(1.0, count + 1.0))
    moments = [weights @ (nodes @ direction) ** k for k in range(6)]
    np.testing.assert_allclose(moments, [1.0, 0.0, 1.0, 0.0, 3.0, 0.0], atol=1e-13)
