"""Everyday constructs of users' functions: in lanes and under vmap they agree to 1e-12, or lanes say why not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics import lanes

N, PATHS = 4, 37

# These leave the lanes, and the run goes to vmap with the reason in its record.
FALL_BACK = {"linalg.solve", "linalg.inv", "cholesky", "sort", "median", "fft", "scatter at a path's index", "expm",
             "interp many", "add by the state", "subtract at", "apply at", "copysign", "while under vmap"}  # fmt: skip


def in_lanes(function, x, s):
    closed = jax.make_jaxpr(function)(jnp.zeros(N), jnp.zeros(()))
    dtypes = [v.aval.dtype for v in closed.jaxpr.outvars]

    @jax.jit
    def run(x, s):
        outputs = lanes.evaluate(closed, [lanes.unstack(x, 1), lanes.unstack(s, 0)], PATHS)
        return [lanes.stack(o, d, PATHS) for o, d in zip(outputs, dtypes, strict=True)]

    return run(x, s)


@pytest.fixture
def states():
    return np.random.default_rng(1).standard_normal((N, PATHS)) * 1.3


def test_there_are_enough_constructs(everyday):
    assert len(everyday) - len(FALL_BACK) >= 80


def test_lanes_agree_with_vmap_or_say_why_not(construct, everyday, states):
    function, s = everyday[construct], jnp.asarray(0.7)
    if construct in FALL_BACK:
        with pytest.raises(lanes.Unlaned, match=r"primitive|index|dtype"):
            in_lanes(function, states, s)
        return
    ours = in_lanes(function, states, s)
    batched = jax.jit(jax.vmap(function, in_axes=(-1, None), out_axes=-1, axis_size=PATHS))
    theirs = jax.tree.leaves(batched(states, s))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)


def test_known_zeros_vanish():
    closed = jax.make_jaxpr(jax.jacfwd(lambda x: jnp.array([x[1], -x[0], x[2] ** 2, 1.0])))(jnp.zeros(N))
    (jacobian,) = lanes.evaluate(closed, [lanes.entries(np.ones(N))], None)
    counted = jax.make_jaxpr(
        lambda *flat: [e for e in lanes.evaluate(closed, lanes.unflatten(flat, [(N,)]), None)[0].ravel()
                       if not lanes.is_known(e)]
    )(*jnp.ones(N))  # fmt: skip
    assert all(lanes.is_known(entry) for entry in jacobian.ravel())
    assert len(counted.jaxpr.outvars) == 1, "only d(x2²)/dx2 depends on the state"


def test_a_finished_path_keeps_its_value_bit_for_bit(everyday):
    """A path that converges early must not move while others iterate."""
    x = np.zeros((N, PATHS))
    x[0] = np.linspace(0, 1e6, PATHS)
    root, rounds = in_lanes(everyday["while_loop"], x, jnp.asarray(0.0))
    alone = [everyday["while_loop"](jnp.asarray(x[:, k]), 0.0) for k in range(PATHS)]
    np.testing.assert_array_equal(rounds, [k for _, k in alone])
    np.testing.assert_allclose(root, [r for r, _ in alone], rtol=1e-15)
    assert len(set(np.asarray(rounds).tolist())) > 5


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["powers", "norm", "cumsum", "where", "matvec"])
def test_bad_states_stay_in_their_lane(name, bad, everyday, states):
    states[:, 5] = bad
    ours = np.asarray(in_lanes(everyday[name], states, jnp.asarray(0.7))[0]).reshape(-1, PATHS)
    theirs = np.asarray(jax.vmap(everyday[name], in_axes=(-1, None), out_axes=-1)(states, 0.7)).reshape(-1, PATHS)
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
    np.testing.assert_allclose(np.delete(ours, 5, 1), np.delete(theirs, 5, 1), rtol=1e-12)
