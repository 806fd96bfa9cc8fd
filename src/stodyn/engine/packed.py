"""Many small arrays as one: a device hands back a single transfer, whatever the statistics saw."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


@jax.tree_util.register_pytree_node_class
class Packed:
    """A tree of arrays as a vector of bytes, and what they were: for JAX a tree of that one array."""

    def __init__(self, data: Any, what: tuple[Any, tuple[tuple[int, tuple[int, ...], np.dtype], ...]]):
        self.data, self.what = data, what  # what: the tree, and of each leaf its bytes, shape and dtype

    @classmethod
    def of(cls, tree: Any) -> Packed:
        """Inside a compiled program."""
        leaves: list[Array]
        leaves, form = jax.tree.flatten(tree)
        kinds = tuple((x.size * x.dtype.itemsize, x.shape, x.dtype) for x in leaves)
        return cls(jnp.concatenate(list(map(_bytes, leaves))), (form, kinds))

    def unpacked(self) -> Any:
        """The tree on the host: views of one array."""
        data, (form, kinds) = np.asarray(self.data), self.what
        leaves, first = [], 0
        for size, shape, dtype in kinds:
            leaves.append(data[first : first + size].view(dtype).reshape(shape))
            first += size
        return form.unflatten(leaves)

    def tree_flatten(self):
        return (self.data,), self.what

    @classmethod
    def tree_unflatten(cls, what, children):
        return cls(children[0], what)


def _bytes(x: Array) -> Array:
    if x.dtype == np.bool_ or x.dtype.itemsize == 1:
        return x.astype(np.uint8).ravel()
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag], axis=-1)
    return lax.bitcast_convert_type(x, np.uint8).ravel()
