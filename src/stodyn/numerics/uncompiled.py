"""A traced function computed by NumPy, operation by operation: what is asked for once is not worth compiling."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend import core

from stodyn.numerics import lanes


class Compile(Exception):
    """The trace holds an operation that has no word in NumPy here: let JAX compile it."""


def run(closed: core.ClosedJaxpr, *arguments: Any) -> list[np.ndarray]:
    """The outputs of a trace for arguments of its input shapes; raises Compile where NumPy does not know how."""
    return _run(closed.jaxpr, closed.consts, [np.asarray(a) for a in arguments])


def _run(jaxpr: Any, consts: Any, arguments: Any) -> list[np.ndarray]:
    values: dict[Any, np.ndarray] = dict(zip(jaxpr.invars, arguments, strict=True))
    values.update(zip(jaxpr.constvars, map(np.asarray, consts), strict=True))

    def read(variable: Any) -> np.ndarray:
        return lanes.literal_value(variable) if isinstance(variable, core.Literal) else values[variable]

    with np.errstate(all="ignore"):
        for equation in jaxpr.eqns:
            inputs = [read(variable) for variable in equation.invars]
            for variable, output in zip(equation.outvars, _apply(equation, inputs), strict=True):
                values[variable] = np.asarray(output, variable.aval.dtype)
    return [read(variable) for variable in jaxpr.outvars]


def _apply(equation: Any, inputs: list[np.ndarray]) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name in lanes.INLINED:
        inner = next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
        closed = isinstance(inner, core.ClosedJaxpr)
        return _run(inner.jaxpr, inner.consts, inputs) if closed else _run(inner, (), inputs)
    if name in lanes.NUMPY_FOLDS:
        return [lanes.NUMPY_FOLDS[name](*inputs)]
    if name in lanes.NUMPY_MOVES:
        moved = lanes.NUMPY_MOVES[name](*inputs, **params)
        if moved is not None:
            return moved if isinstance(moved, list) else [moved]
    if name in REAL and all(np.issubdtype(x.dtype, np.floating) for x in inputs):
        return [REAL[name](*inputs)]
    if name in OTHERS:
        return [OTHERS[name](*inputs, **params)]
    raise Compile(name)


def _dot_general(a: np.ndarray, b: np.ndarray, *, dimension_numbers: Any, **_: Any) -> np.ndarray:
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    letters = iter(string.ascii_letters)
    axes_a, axes_b = [""] * a.ndim, [""] * b.ndim
    batch = []
    for i, j in zip(batch_a, batch_b, strict=True):
        axes_a[i] = axes_b[j] = next(letters)
        batch.append(axes_a[i])
    for i, j in zip(contract_a, contract_b, strict=True):
        axes_a[i] = axes_b[j] = next(letters)
    axes_a, axes_b = ([axis or next(letters) for axis in axes] for axes in (axes_a, axes_b))
    free = [x for x in axes_a if x not in axes_b] + [x for x in axes_b if x not in axes_a]
    return np.einsum(f"{''.join(axes_a)},{''.join(axes_b)}->{''.join(batch + free)}", a, b)


REAL: dict[str, Callable] = {
    "div": np.divide, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "atan2": np.arctan2, "sign": np.sign,
    "pow": np.power, "rsqrt": lambda x: 1.0 / np.sqrt(x),
}  # fmt: skip
OTHERS: dict[str, Callable] = {
    "dot_general": _dot_general,
    "convert_element_type": lambda x, *, new_dtype, **_: np.asarray(x, new_dtype),
    "integer_pow": lambda x, *, y: x**y,
    "reduce_sum": lambda x, *, axes, **_: np.sum(x, tuple(axes)),
    "reduce_max": lambda x, *, axes, **_: np.max(x, tuple(axes)),
    "stack": lambda *xs, axis, **_: np.stack(xs, axis),
    "stop_gradient": lambda x, **_: x,
}
