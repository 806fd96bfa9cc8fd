"""sin and cos written out: against 60 digits, and where they are used."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from stodyn.numerics import lanes, trigonometry


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_units_of_the_last_place(name):
    """Random arguments of every size up to 2³¹, and the doubles next to multiples of π/2, where digits cancel."""
    rng = np.random.default_rng(1)
    sizes = (1.0, 10.0, 1e3, 1e6, 2.0**31)
    random = [rng.uniform(-size, size, 300) for size in sizes]
    near = [np.round(rng.uniform(-size, size, 100)) * (np.pi / 2) for size in (10.0, 1e4, 1e9)]
    x = np.concatenate([[0.0, 0.25 * np.pi, np.pi], *random, *near])
    found = np.asarray(jax.jit(getattr(trigonometry, name))(x))
    with mpmath.workdps(60):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(value))) for value in x]
        errors = [abs((float_ - true) / np.spacing(max(abs(float(true)), 1e-300)))
                  for float_, true in zip(map(mpmath.mpf, found.tolist()), exact, strict=True)]  # fmt: skip
    assert max(errors) < 2.5


def test_what_is_not_a_reasonable_angle():
    x = np.array([1.0, 1e22, -4e9])
    for name in ("sin", "cos"):
        ours = jax.jit(getattr(trigonometry, name))
        np.testing.assert_array_equal(ours(x), jax.jit(getattr(jnp, name))(x))
        assert np.isnan(ours(np.array([0.5, np.inf, np.nan]))[1:]).all()
        found = ours(np.array([0.5, np.nan]))  # a path that failed sends nobody to the library
        assert np.isnan(found[1]) and found[0] == ours(np.array([0.5]))[0]


def test_long_lanes_use_it():
    x = np.random.default_rng(0).uniform(-9.0, 9.0, lanes.LONG_LANE)
    for function, ours in ((jnp.sin, trigonometry.sin), (jnp.cos, trigonometry.cos)):
        traced = jax.make_jaxpr(function)(0.0)
        laned = jax.jit(lambda x: lanes.evaluate(traced, [lanes.unstack(x, 0)], len(x))[0][()])
        np.testing.assert_array_equal(laned(x), jax.jit(ours)(x))
        np.testing.assert_array_equal(laned(x[:3]), jax.jit(function)(x[:3]))
