"""A traced function computed by NumPy, operation by operation, for values needed too rarely to compile it."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.places import read_places, written_places
from stodyn.numerics.printing.scalars import MOVES, filling
from stodyn.numerics.printing.trace import applies_a_function, interpret, scan_sizes


class Compile(Exception):
    """The trace holds an operation without a counterpart in NumPy here: let JAX compile it."""


def run(closed: core.ClosedJaxpr, *arguments: Any) -> list[np.ndarray]:
    """The outputs of a trace for arguments of its input shapes; raises Compile where NumPy does not know how."""
    with np.errstate(all="ignore"):
        return interpret(closed, [np.asarray(a) for a in arguments], apply, np.asarray)


def value(function: Callable, *arguments: Any) -> np.ndarray:
    """function(*arguments), one array, of arrays, in double precision: by NumPy where it knows how, else compiled."""
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(function)(*arguments)
        try:
            return run(trace, *arguments)[0]
        except Compile:
            return np.asarray(jax.jit(function)(*arguments))


class Uncompiled:
    """function(*trees of arrays) with arrays of NumPy as its results: by NumPy where it knows how, else compiled.

    It is traced in double precision, at the first call with such shapes; hold it for as long as it stays the same.
    """

    def __init__(self, function: Callable):
        self.function = function
        self._cache: dict[Any, tuple[core.ClosedJaxpr, Any, Callable | None]] = {}

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        arrays = [np.asarray(leaf) for leaf in leaves]
        key = tree, tuple((a.shape, a.dtype) for a in arrays)
        with jax.enable_x64(True):
            if key not in self._cache:
                self._cache[key] = self._traced(tree, arrays)
            trace, results, by_xla = self._cache[key]
            if by_xla is None:
                try:
                    return jax.tree.unflatten(results, run(trace, *arrays))
                except Compile:
                    by_xla = jax.jit(core.jaxpr_as_fun(trace))
                    self._cache[key] = trace, results, by_xla
            return jax.tree.unflatten(results, map(np.asarray, by_xla(*arrays)))

    def _traced(self, tree: Any, arrays: list[np.ndarray]) -> tuple[core.ClosedJaxpr, Any, None]:
        """The trace for such arguments, the structure of its results, and nothing compiled yet."""

        def flat(*leaves):
            return self.function(*jax.tree.unflatten(tree, leaves))

        trace, shape = jax.make_jaxpr(flat, return_shape=True)(*arrays)
        return trace, jax.tree.structure(shape), None


def apply(equation: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of one operation of a trace."""
    results = _results(equation, inputs)
    return [np.asarray(r, v.aval.dtype) for r, v in zip(results, equation.outvars, strict=True)]


def _results(equation: Any, inputs: list[np.ndarray]) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name == "optimization_barrier":
        return inputs
    if name in CONTROL:
        return CONTROL[name](params, inputs)
    if name in EXACT:
        return [EXACT[name](*inputs)]
    if name in MOVES:
        moved = MOVES[name](*inputs, **params)
        return moved if isinstance(moved, list) else [moved]
    if name in REAL and all(np.issubdtype(x.dtype, np.floating) for x in inputs):
        return [REAL[name](*inputs)]
    if name in OTHERS:
        return [OTHERS[name](*inputs, **params)]
    if name == "gather":
        return [_gather(inputs[0], inputs[1], equation.outvars[0].aval.shape, params)]
    if (name in LANDING and not applies_a_function(name, params)) or name in ("dynamic_slice", "dynamic_update_slice"):
        return [placed(name, inputs, params)]
    raise Compile(name)


def placed(name: str, inputs: Sequence[np.ndarray], params: Any) -> np.ndarray:
    """The result of a scatter or of a slice by indices, whatever its entries are."""
    if name == "dynamic_slice":
        x, *starts = inputs
        return _slice_at(x, starts, params["slice_sizes"])
    if name == "dynamic_update_slice":
        x, update, *starts = inputs
        changed = np.array(x)
        _slice_at(changed, starts, update.shape)[...] = update
        return changed
    x, indices, updates = inputs
    return _scatter(LANDING[name], x, indices, updates, params)


def _while(params: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    tested, turned = params["cond_nconsts"], params["body_nconsts"]
    test, body, carry = inputs[:tested], inputs[tested : tested + turned], inputs[tested + turned :]
    while (goes_on := run(params["cond_jaxpr"], *test, *carry)[0]).any():
        turn = run(params["body_jaxpr"], *body, *carry)
        if goes_on.ndim:  # under vmap each path keeps its values once it is done
            wide = [goes_on.reshape(goes_on.shape + (1,) * (new.ndim - goes_on.ndim)) for new in turn]
            turn = [np.where(on, new, old) for on, new, old in zip(wide, turn, carry, strict=True)]
        carry = turn
    return carry


def _cond(params: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    branches = params["branches"]
    return run(branches[int(np.clip(inputs[0], 0, len(branches) - 1))], *inputs[1:])


def _scan(params: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    length, (fixed, carried) = params["length"], scan_sizes(params, len(inputs))
    consts, carry, xs = inputs[:fixed], inputs[fixed : fixed + carried], inputs[fixed + carried :]
    ys: list[Any] = [np.empty((length, *aval.shape), aval.dtype) for aval in params["jaxpr"].out_avals[carried:]]
    for k in reversed(range(length)) if params["reverse"] else range(length):
        results = run(params["jaxpr"], *consts, *carry, *(x[k] for x in xs))
        carry = results[:carried]
        for y, value in zip(ys, results[carried:], strict=True):
            y[k] = value
    return [*carry, *ys]


CONTROL: dict[str, Callable] = {
    "while": _while, "cond": _cond, "scan": _scan, "optimization_barrier": lambda params, inputs: inputs,
}  # fmt: skip


def _slice_at(x: np.ndarray, starts: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    first = [int(np.clip(start, 0, full - size)) for start, full, size in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))]


def _gather(x: np.ndarray, indices: np.ndarray, shape: tuple[int, ...], params: Any) -> np.ndarray:
    place, inside = read_places(x.shape, indices, shape, params)
    entries = x.ravel()[place]
    if "FILL" not in str(params["mode"]) or inside.all():
        return entries
    fill = filling(x.dtype) if params.get("fill_value") is None else params["fill_value"]
    return np.where(inside, entries, np.asarray(fill, x.dtype))


def _scatter(join: np.ufunc | None, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, params: Any) -> np.ndarray:
    place, lands = written_places(x.shape, indices, updates.shape, params)
    changed = np.array(x).ravel()
    if join is None:
        changed[place[lands]] = updates[lands]
    else:
        join.at(changed, place[lands], updates[lands])
    return changed.reshape(x.shape)


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


def _polynomial(x: np.ndarray, *coefficients: np.ndarray, **_: Any) -> np.ndarray:
    *others, value = coefficients
    for coefficient in reversed(others):
        value = value * x + coefficient
    return value


def _chosen(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    """Of each entry the case that `which` numbers; np.choose takes few cases alone."""
    chosen = cases[0]
    for k, case in enumerate(cases[1:], 1):
        chosen = np.where(which == k, case, chosen)
    return chosen


def _converted(x: np.ndarray, *, new_dtype: Any, **_: Any) -> np.ndarray:
    """As XLA converts: NaN becomes the whole number 0, and what is too large for a type its largest number."""
    if x.dtype.kind != "f" or np.dtype(new_dtype).kind not in "iu":
        return np.asarray(x, new_dtype)
    limits = np.iinfo(new_dtype)
    with np.errstate(invalid="ignore"):
        whole = x.astype(new_dtype)
    whole = np.where(x >= float(limits.max), limits.max, np.where(x <= float(limits.min), limits.min, whole))
    return np.where(np.isnan(x), 0, whole).astype(new_dtype)


def _round(x: np.ndarray, *, rounding_method: Any) -> np.ndarray:
    """To the nearest whole number, halves to the even one or away from zero."""
    if int(rounding_method):
        return np.rint(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _execute(data: np.ndarray, *fixed: np.ndarray, program: Any) -> np.ndarray:
    numbers = [*program.constants, *data]
    others = fixed[0] if fixed else numbers
    for k, (base, divisor) in enumerate(zip(program.base, program.divisor, strict=True)):
        those = slice(program.ends[k], program.ends[k + 1])
        z = numbers[base]
        for left, right in zip(program.left[those], program.right[those], strict=True):
            z = z - others[left] * numbers[right]
        numbers.append(z if divisor == program.one else z / others[divisor])
    return np.array(numbers)


LANDING: dict[str, np.ufunc | None] = {
    "scatter": None, "scatter-add": np.add, "scatter-sub": np.subtract, "scatter-mul": np.multiply,
    "scatter-min": np.minimum, "scatter-max": np.maximum,
}  # fmt: skip
EXACT: dict[str, Callable] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "max": np.maximum, "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "square": np.square, "sqrt": np.sqrt, "is_finite": np.isfinite, "copy": np.array,
    "floor": np.floor, "ceil": np.ceil, "select_n": _chosen, "one_minus_square": lambda x: (1 + x) * (1 - x),
}  # fmt: skip
REAL: dict[str, Callable] = {
    "div": np.divide, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "atan2": np.arctan2,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),  # which keeps the sign of a zero
    "pow": np.power, "rsqrt": lambda x: 1.0 / np.sqrt(x), "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "cbrt": np.cbrt, "logistic": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "log2": lambda x: np.log(x) / math.log(2.0),
}  # fmt: skip
OTHERS: dict[str, Callable] = {
    "dot_general": _dot_general,
    "execute_instructions": _execute,
    "polynomial": _polynomial,
    "round": _round,
    "convert_element_type": _converted,
    "integer_pow": lambda x, *, y: x**y,
    "reduce_sum": lambda x, *, axes, **_: np.sum(x, tuple(axes)),
    "reduce_max": lambda x, *, axes, **_: np.max(x, tuple(axes)),
    "reduce_min": lambda x, *, axes, **_: np.min(x, tuple(axes)),
    "reduce_prod": lambda x, *, axes, **_: np.prod(x, tuple(axes)),
    "reduce_or": lambda x, *, axes, **_: np.any(x, tuple(axes)),
    "reduce_and": lambda x, *, axes, **_: np.all(x, tuple(axes)),
    "argmax": lambda x, *, axes, **_: np.argmax(x, *axes),
    "cumsum": lambda x, *, axis, reverse: (
        np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    ),
    "stop_gradient": lambda x, **_: x,
    "clamp": lambda low, x, high: np.minimum(np.maximum(low, x), high),
    "rem": lambda a, b: (
        np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b))) if a.dtype.kind in "iu" else np.fmod(a, b)
    ),
}
