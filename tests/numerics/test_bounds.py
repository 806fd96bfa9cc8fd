"""Indices that JAX would move inside in silence are found, and none that are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.numerics.bounds import out_of_bounds

WRONG = {
    "one beyond": lambda x: jnp.array([x[1], -x[2]]),
    "far": lambda x: x * x[7],
    "before the first": lambda x: x[-3],
    "a list": lambda x: x[jnp.array([0, 3])],
    "written": lambda x: x.at[4].set(1.0),
    "added": lambda x: x.at[np.array([0, 2])].add(1.0),
    "subtracted": lambda x: x.at[np.array([[0, 1], [1, 2]])].subtract(1.0),
    "of many": lambda x: jnp.zeros(20_000).at[np.arange(1, 20_001)].add(x[0]),
    "read from many": lambda x: x[0] * jnp.zeros(20_000)[np.arange(1, 20_001)],
    "a matrix": lambda x: jnp.outer(x, x)[1, 2],
    "under jit": jax.jit(lambda x: x[2]),
    "within jit": lambda x: jax.jit(lambda y: y[5])(x) + x[0],
}
RIGHT = {
    "last": lambda x: x[-1] + x[1],
    "before": lambda x: x[-2],
    "a list": lambda x: x[np.array([0, 1, -1])],
    "slices": lambda x: x[5:7].sum() + x[::-1] + x[:1],
    "written": lambda x: x.at[-1].add(1.0),
    "summed": lambda x: jax.ops.segment_sum(x[np.array([0, 1, 1])], np.array([2, 0, 1]), 3),
    "of many": lambda x: x[0] * jnp.zeros(20_000)[np.arange(20_000) - 20_000],
    "traced": lambda x: x[jnp.argmax(x)],
    "rolled": lambda x: jnp.roll(x, 3) + jnp.interp(x, jnp.arange(3.0), jnp.ones(3)),
    "loop": lambda x: jax.lax.fori_loop(0, 5, lambda k, y: y + x[k % 2], x),
    "column": lambda x: jnp.outer(x, x)[:, 1] + jnp.diag(jnp.outer(x, x)),
    "clipped": lambda x: x.at[np.array([0, 3])].get(mode="clip"),
    "filled": lambda x: x.at[np.array([0, 3])].get(mode="fill", fill_value=0.0),
    "filled by take": lambda x: jnp.take(x, np.array([0, 3]), mode="fill", fill_value=0.0),
    "wrapped": lambda x: jnp.take(x, np.array([0, 3]), mode="wrap"),
    "dropped": lambda x: x.at[np.array([0, 3])].add(
        1.0,
        mode="drop",
    ),
    "dropped in a jit": lambda x: jax.jit(lambda y: y.at[np.array([0, 3])].set(1.0, mode="drop"))(x),
    "a bin that is thrown away": lambda x: jax.ops.segment_sum(x, np.array([0, 7]), 2),
}


@pytest.mark.parametrize("name", WRONG)
def test_indices_that_may_lie_outside_are_found(name):
    assert "index" in out_of_bounds(jax.make_jaxpr(WRONG[name])(jnp.zeros(2)))


@pytest.mark.parametrize("name", RIGHT)
def test_indices_that_lie_inside_are_not_suspected(name):
    assert out_of_bounds(jax.make_jaxpr(RIGHT[name])(jnp.zeros(2))) is None


def test_drift_diffusion_and_observable_refuse_them():
    with pytest.raises(
        IndexError, match=r"drift: drift\(t, x\) reads index 2 into a vector of 2, which goes from 0 to 1"
    ):
        sd.SDE(lambda t, x: jnp.array([x[1], -x[2]]), lambda t, x: 0.1 * jnp.eye(2), [1.0, 2.0])
    with pytest.raises(
        IndexError, match=r"drift: drift\(t, x\) writes to index 2 .* JAX would silently leave that out"
    ):
        sd.SDE(lambda t, x: x.at[np.array([1, 2])].add(x), lambda t, x: 0.1 * jnp.eye(2), [1.0, 2.0])
    with pytest.raises(IndexError, match=r"diffusion: .* index 7"):
        sd.SDE(lambda t, x: -x, lambda t, x: jnp.diag(x[7] * jnp.ones(2)), [1.0, 2.0])
    problem = sd.SDE(lambda t, x: -x, lambda t, x: jnp.diag(x), [1.0, 2.0])
    with pytest.raises(IndexError, match="Observable third: reads index 2"):
        third = sd.statistics.Observable(lambda t, x: x[2], name="third")
        sd.simulate(problem, "EulerMaruyama", t=(0, 1), dt=0.5, paths=2, seed=1, collect=third)
