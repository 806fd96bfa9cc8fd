"""Arrays of any kind come back from one vector of bytes as they were."""

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine.packed import Packed

TREE = {
    "flag": np.asarray(True),
    "flags": np.array([[True, False, True]]),
    "counts": np.arange(3, dtype=np.int32),
    "numbers": (np.linspace(-1.0, 1.0, 6).reshape(2, 3), np.array([np.nan, -np.inf, 5e-324])),
    "single": np.float32(0.1),
    "complex": np.array([1.0 - 2.0j, np.inf]),
    "words": np.array([0, 2**64 - 1], np.uint64),
    "nothing": np.zeros((0, 4)),
    "small": np.array([-1, 1], np.int8),
}


def test_every_kind_survives_a_compiled_program():
    with jax.enable_x64(True):
        packed = jax.jit(Packed.of)(jax.tree.map(jnp.asarray, TREE))
    back = packed.unpacked()
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    for before, after in zip(jax.tree.leaves(TREE), jax.tree.leaves(back), strict=True):
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        np.testing.assert_array_equal(after, before)
