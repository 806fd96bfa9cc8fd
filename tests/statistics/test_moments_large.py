"""Moments of many components: the variances alone, as the result says, and equal to those with the covariance."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd


def test_variances_are_the_same_with_and_without_covariance():
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.3 * jnp.eye(3), [1.0, 2.0, 3.0])
    found = [
        sd.simulate(problem, "EulerMaruyama", t=(0, 0.2), dt=0.1, paths=700, seed=2, executor=executor,
                    collect=sd.statistics.Moments(every=1, covariance=kept))
        for executor, kept in (("printed", True), ("printed", False), ("vmap", False))
    ]  # fmt: skip
    with_it = found[0]
    assert "covariance" in with_it
    for without in found[1:]:
        assert "covariance" not in without
        assert without.variance.attrs["covariance"].startswith("left out, as there are 3 components")
        for name in ("mean", "mean_stderr", "variance", "variance_stderr"):
            np.testing.assert_allclose(without[name], with_it[name], rtol=1e-12, atol=1e-15)


def test_many_components_have_their_moments_by_default():
    n = 20_000
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: sd.diagonal(jnp.full(n, 0.5)), np.arange(n) / n)
    found = sd.simulate(problem, "EulerMaruyama", t=(0, 0.02), dt=0.01, paths=24, seed=4)
    assert "covariance" not in found
    z = (found["mean"][-1] - np.arange(n) / n) / (0.5 * np.sqrt(0.02 / 24))
    assert abs(float(np.mean(z))) < 5 / np.sqrt(n)  # false alarm: 6e-7
    ratio = float(np.mean(found.variance[-1])) / (0.25 * 0.02)
    assert abs(ratio - 1) < 5 * np.sqrt(2 / 23 / n)


def test_bad_covariance_is_refused():
    with pytest.raises(ValueError, match="Moments: covariance must be True, False or None, got 2"):
        sd.statistics.Moments(covariance=2)
