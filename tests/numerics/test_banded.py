"""Banded systems: found in the trace, factorised and solved like dense ones, refused where growth spoils them."""

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.numerics.banded import Band, find_band
from stodyn.numerics.printing.points import at_one

SHUFFLE = np.random.default_rng(3).permutation(24)


def chain(x, stiffness):
    """A nonlinear chain of next neighbours whose unknowns stand in any order."""
    y = x[np.argsort(SHUFFLE)]
    left, right = jnp.concatenate([jnp.zeros(1), y[:-1]]), jnp.concatenate([y[1:], jnp.zeros(1)])
    return (stiffness * (2.0 * y - left - right) + y**3 + 1.0)[SHUFFLE]


def test_the_band_is_found_whatever_the_order():
    band = find_band(chain, jnp.ones(24), jnp.ones(()))
    assert band.width == 1
    assert find_band(lambda x: jnp.sum(x) + x, jnp.ones(24)) is None
    assert find_band(lambda x: jnp.linalg.solve(jnp.eye(24), x), jnp.ones(24)) is None  # cannot be taken apart


def test_its_jacobian_and_solves_are_those_of_the_dense_matrix():
    x = np.random.default_rng(1).standard_normal(24)

    def residual(x):
        return chain(x, 2.0)

    J = at_one(jax.jacfwd(residual), x)
    for band in (find_band(chain, x, jnp.ones(())), Band(np.argsort(SHUFFLE), 3)):
        diagonals, w = at_one(lambda x, band=band: band.jacobian(residual, x), x), band.width
        ordered = J[np.ix_(band.order, band.order)]
        for i in range(24):
            for k in range(2 * w + 1):
                assert diagonals[k, i] == (ordered[i, i - w + k] if 0 <= i - w + k < 24 else 0.0)
        right = np.random.default_rng(2).standard_normal(24)
        found = at_one(lambda diagonals, right, band=band: band.factorised(diagonals)(right), diagonals, right)
        np.testing.assert_allclose(found, np.linalg.solve(J, right), rtol=1e-12)


def test_a_pivot_that_vanishes_gives_nan():
    band = Band(np.arange(8), 1)
    diagonals = np.ones((3, 8)) * np.array([[1.0], [0.0], [1.0]])
    assert np.all(np.isnan(at_one(lambda diagonals: band.factorised(diagonals)(jnp.ones(8)), diagonals)))


def test_unknowns_that_do_not_touch_each_other_are_divided():
    band = find_band(lambda x, a: a * x, jnp.ones(24), jnp.ones(24))
    assert band.width == 0
    a, right = np.random.default_rng(4).standard_normal((2, 24))
    diagonals = at_one(lambda x, a: band.jacobian(lambda x: a * x, x), np.ones(24), a)
    np.testing.assert_array_equal(diagonals, a[None, band.order])
    solution = at_one(lambda diagonals, right: band.factorised(diagonals)(right), diagonals, right)
    np.testing.assert_allclose(solution, right / a, rtol=1e-15)
