"""A step for one path -> the same step on a block of paths, by jax.vmap."""

from __future__ import annotations

import dataclasses

import jax
from jax import Array
from jax.extend import core

from stodyn.engine.traces import Traced
from stodyn.numerics.as_written import as_written
from stodyn.numerics.exact_zeros import exact_zeros


@dataclasses.dataclass(frozen=True)
class Vmap:
    """jax.vmap over the last axis: a block's carry is the tuple of its state's leaves."""

    traced: Traced
    paths: int

    def step(self, carry, t, h, normals, params, varies, k=None):
        """(carry, ok, iterations, rounded) after a step, or starting step k."""
        common, traced = ((t, h), self.traced.step) if k is None else ((k, t, h), self.traced.starting)
        assert traced is not None  # only steps that start a method are numbered
        axes = (*(None for _ in common), *(-1 for _ in (*carry, *normals)), *(-1 if v else None for v in varies))
        one = core.jaxpr_as_fun(as_written(exact_zeros(traced)))
        function = jax.vmap(one, in_axes=axes, out_axes=-1, axis_size=self.paths)
        *after, ok, iterations, rounded = function(*common, *carry, *normals, *params)
        return tuple(after), ok, iterations, rounded

    def read(self, carry) -> Array:
        return jax.vmap(core.jaxpr_as_fun(self.traced.read), in_axes=-1, out_axes=-1, axis_size=self.paths)(*carry)[0]
