"""A function that never changes, traced once for each form of its arguments and then read off its trace.

Within another trace this costs a tenth of tracing it again, where it is written with many small operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core


class TracedOnce:
    """function(*trees of arrays), the same in every respect; it may read nothing that changes."""

    def __init__(self, function: Callable):
        self.function = function
        self._cache: dict[Any, tuple[core.ClosedJaxpr, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TracedOnce, (self.function,)  # traces are made again on arrival

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        forms = [jax.typeof(leaf) for leaf in leaves]
        key = tree, tuple((form.shape, form.dtype, form.weak_type) for form in forms), jnp.result_type(float)
        if key not in self._cache:
            self._cache[key] = self._traced(tree, forms)
        trace, shape = self._cache[key]
        return jax.tree.unflatten(shape, core.jaxpr_as_fun(trace)(*leaves))

    def _traced(self, tree: Any, forms: list[Any]) -> tuple[core.ClosedJaxpr, Any]:
        def flat(*leaves):
            return self.function(*jax.tree.unflatten(tree, leaves))

        examples = [jax.ShapeDtypeStruct(form.shape, form.dtype, weak_type=form.weak_type) for form in forms]
        trace, out = jax.make_jaxpr(flat, return_shape=True)(*examples)
        return trace, jax.tree.structure(out)
