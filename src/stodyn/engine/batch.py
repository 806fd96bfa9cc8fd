"""A step for one path -> the same step on a block of paths, in lanes or by jax.vmap."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.extend import core

from stodyn.engine.traces import Traced, holds
from stodyn.numerics import lanes
from stodyn.numerics.elimination import ELIMINATION

LANE_OPERATIONS = 1500  # beyond this many scalar operations a step compiles slowly and runs faster under vmap
ELIMINATING_OPERATIONS = 6000  # the same for steps that eliminate small systems, which run faster in lanes


@dataclasses.dataclass(frozen=True)
class Lanes:
    """One array over the paths for each scalar: a block's carry is the flat tuple of its state's scalars."""

    traced: Traced
    paths: int
    on_gpu: bool = False
    name = "lanes"

    def pack(self, leaves: Sequence[Array]) -> tuple[Array, ...]:
        """State leaves with a last axis of paths -> carry."""
        return tuple(entry for x in leaves for entry in lanes.unstack(x, x.ndim - 1).ravel())

    def step(self, carry, t, h, normals, params, varies, k=None):
        """(carry, ok, iterations, rounded) after a step, or starting step k; all but the first may be known already."""
        params = [lanes.unstack(p, p.ndim - v) for p, v in zip(params, varies, strict=True)]
        return self.step_of_entries(carry, t, h, [lanes.unstack(z, 1) for z in normals], params, k)

    def step_of_entries(self, carry, t, h, normals: Sequence[np.ndarray], params: Sequence[np.ndarray], k=None):
        """The same from normals and parameters that are object arrays of a path's own shape already."""
        state = lanes.unflatten(carry, self.traced.state_shapes)
        common = (t, h) if k is None else (k, t, h)
        arguments = [*(lanes.unstack(c, 0) for c in common), *state, *normals, *params]
        traced: Any = self.traced.step if k is None else self.traced.starting
        *after, ok, iterations, rounded = lanes.evaluate(traced, arguments, self.paths, self.on_gpu)
        full = tuple(
            lanes.spread(entry, (self.paths,), dtype)
            for x, dtype in zip(after, self.traced.state_dtypes, strict=True)
            for entry in x.ravel()
        )
        return full, ok[()], iterations[()], rounded[()]

    def read(self, carry) -> Array:
        """The components (n, paths)."""
        state = lanes.unflatten(carry, self.traced.state_shapes)
        (x,) = lanes.evaluate(self.traced.read, state, self.paths, self.on_gpu)
        return lanes.stack(x, self.traced.read.out_avals[0].dtype, self.paths)


@dataclasses.dataclass(frozen=True)
class Vmap:
    """jax.vmap over the last axis: a block's carry is the tuple of its state's leaves."""

    traced: Traced
    paths: int
    name = "vmap"

    def pack(self, leaves: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(leaves)

    def step(self, carry, t, h, normals, params, varies, k=None):
        common, traced = ((t, h), self.traced.step) if k is None else ((k, t, h), self.traced.starting)
        axes = (*(None for _ in common), *(-1 for _ in (*carry, *normals)), *(-1 if v else None for v in varies))
        function = jax.vmap(core.jaxpr_as_fun(traced), in_axes=axes, out_axes=-1, axis_size=self.paths)
        *after, ok, iterations, rounded = function(*common, *carry, *normals, *params)
        return tuple(after), ok, iterations, rounded

    def read(self, carry) -> Array:
        return jax.vmap(core.jaxpr_as_fun(self.traced.read), in_axes=-1, out_axes=-1, axis_size=self.paths)(*carry)[0]


def executor(traced: Traced, paths: int, wanted: str = "auto") -> tuple[Lanes | Vmap, str]:
    """The way to run a block on a GPU outside a kernel, and the reason for it: "auto", "lanes" or "vmap"."""
    if wanted == "vmap":
        return Vmap(traced, paths), "asked for"
    try:
        _check_laned(traced)
        operations = lane_operations(traced)
    except lanes.Unlaned as reason:
        if wanted == "lanes":
            raise ValueError(f'executor="lanes" is not possible for this problem and method: {reason}') from reason
        return Vmap(traced, paths), str(reason)
    if wanted == "lanes":
        return Lanes(traced, paths), "asked for"
    most = ELIMINATING_OPERATIONS if holds(traced.step, ELIMINATION) else LANE_OPERATIONS
    if operations > most:
        return Vmap(traced, paths), f"{operations} scalar operations a step, more than {most}"
    return Lanes(traced, paths), f"{operations} scalar operations a step"


def _check_laned(traced: Traced) -> None:
    """Refuse what lanes cannot do, and would find out only after all that stands before it."""
    if holds(traced.step, "lu"):
        raise lanes.Unlaned("primitive lu: a linear solve that is not written out goes to LAPACK")
    if holds(traced.step, "custom_vmap_call"):
        raise lanes.Unlaned("sparse elimination takes the numbers of all paths row by row")


_operations: dict[str, int] = {}


def lane_operations(traced: Traced) -> int:
    """How many scalar operations a step takes in lanes."""
    key = traced.fingerprint
    if key not in _operations:
        _operations[key] = _count_lane_operations(traced)
    return _operations[key]


def _count_lane_operations(traced: Traced) -> int:
    if traced.starting is not None:
        _laned(traced.starting, common=3)  # raises Unlaned where it must
    return lanes.count_equations(_laned(traced.step, common=2))


def _laned(trace: core.ClosedJaxpr, common: int) -> Any:
    """The scalar operations of a step; its first inputs (t and h) are scalars common to all paths."""

    def scalars(*flat):
        inputs = lanes.unflatten(flat, [v.aval.shape for v in trace.jaxpr.invars])
        outputs = lanes.evaluate(trace, inputs, 1)
        return [entry for x in outputs for entry in x.ravel() if not lanes.is_known(entry)]

    examples = [
        jax.ShapeDtypeStruct(() if k < common else (1,), variable.aval.dtype)
        for k, variable in enumerate(trace.jaxpr.invars)
        for _ in range(int(np.prod(variable.aval.shape)))
    ]
    return jax.make_jaxpr(scalars)(*examples).jaxpr
