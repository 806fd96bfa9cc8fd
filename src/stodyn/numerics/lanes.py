"""Run a function written for one path on many: one array over the paths (a lane) for each scalar of its trace.

The trace of a function of small arrays is evaluated on NumPy object arrays whose entries are either numbers known
while tracing, scalars common to all paths (shape ()), or lanes (shape (paths,)). Every array operation becomes
element-wise arithmetic between lanes, which XLA turns into one SIMD loop over the paths; known zeros and ones vanish,
so a Jacobian from jax.jacfwd arrives sparse.

Nothing is guessed. A primitive is on one of the lists below (element-wise, data movement, reduction, control), or the
evaluation stops with Unlaned and the reason, and the caller goes back to jax.vmap.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from stodyn.numerics import trigonometry

Equation = Any  # jax.extend.core.JaxprEqn, whose variables' shapes and dtypes JAX does not declare to type checkers

UNROLLED_EQUATIONS = 256  # a scan of at most this many equations in all is written out
UNROLLED_ON_GPU = 4096  # the same on a GPU, whose kernels know no scan over arrays
SELECTED_POSITIONS = 64  # an index that differs between paths is resolved by at most this many selections
LONG_LANE = 64  # from this many paths on sin and cos are written out


class Unlaned(Exception):
    """Why a trace cannot run in lanes."""


def evaluate(
    closed: core.ClosedJaxpr, arguments: Sequence[np.ndarray], paths: int | None, on_gpu: bool = False
) -> list[np.ndarray]:
    """The outputs of a traced function as object arrays; `arguments` are object arrays of the trace's input shapes.

    `paths` is the length of a lane; None means that every entry is a plain scalar. On a GPU sin and cos are written
    out by its own compiler, and inside a kernel whether any path is active must be asked by a maximum.
    """
    return _Evaluation(paths, on_gpu).run(closed.jaxpr, closed.consts, list(arguments))


def literal_value(literal: Any) -> np.ndarray:
    """The number that stands in a trace in place of a variable, in its own dtype."""
    return np.asarray(literal.val, literal.aval.dtype)


def entries(x: Any) -> np.ndarray:
    """An array of known numbers as an object array."""
    x = np.asarray(x)
    result = np.empty(x.shape, object)
    for index in np.ndindex(x.shape):
        result[index] = x[index]
    return result


def unstack(x: Any, ndim: int) -> np.ndarray:
    """A JAX array whose first `ndim` axes are a path's own, and whose last, if any, is the lane, as an object array."""
    result = np.empty(x.shape[:ndim], object)
    for index in np.ndindex(result.shape):
        result[index] = x[index]
    return result


def stack(x: np.ndarray, dtype: Any, paths: int | None) -> jax.Array:
    """The inverse of unstack: known and common entries are spread over the lane."""
    shape = () if paths is None else (paths,)
    filled = [spread(entry, shape, dtype) for entry in x.ravel()]
    if x.ndim == 0:
        return filled[0]
    return jnp.stack(filled).reshape(x.shape + shape) if filled else jnp.zeros(x.shape + shape, dtype)


def is_known(entry: Any) -> bool:
    return isinstance(entry, np.generic)


def spread(entry: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """An entry as an array of the given shape: known numbers and common scalars are repeated along the lane."""
    if is_known(entry):
        return lax.full(shape, entry, dtype)
    return entry if entry.shape == shape else lax.broadcast(entry, shape)


def _all_known(x: np.ndarray) -> bool:
    return all(is_known(entry) for entry in x.ravel())


def _known(x: np.ndarray, dtype: Any) -> np.ndarray:
    return np.array(x.tolist(), dtype).reshape(x.shape)


class _Evaluation:
    def __init__(self, paths: int | None, on_gpu: bool):
        self.paths, self.on_gpu = paths, on_gpu

    def run(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: dict[Any, np.ndarray] = {}

        def read(variable: Any) -> np.ndarray:
            if isinstance(variable, core.Literal):
                return entries(literal_value(variable))
            return values[variable]

        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            known = not isinstance(const, jax.core.Tracer)
            values[variable] = entries(np.asarray(const)) if known else unstack(const, variable.aval.ndim)
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            inputs = [read(variable) for variable in equation.invars]
            outputs = self.apply(equation, inputs)
            for variable, output in zip(equation.outvars, outputs, strict=True):
                values[variable] = output
        return [read(variable) for variable in jaxpr.outvars]

    def run_closed(self, closed: Any, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        if isinstance(closed, core.ClosedJaxpr):
            return self.run(closed.jaxpr, closed.consts, arguments)
        return self.run(closed, (), arguments)

    def apply(self, equation: Equation, inputs: list[np.ndarray]) -> list[np.ndarray]:
        name = equation.primitive.name
        if name in INLINED or name == WHOLE:
            return self.run_closed(_inner(equation), inputs)
        if name in CONTROL:
            return CONTROL[name](self, equation, inputs)
        if equation.effects:
            raise Unlaned(f"{name} has a side effect")
        if name in MOVED or name in ELEMENTWISE or name in SPECIAL:
            if all(_all_known(x) for x in inputs):
                return _fold(equation, inputs)
            if name in MOVED:
                return self.move(equation, inputs)
            if name in SPECIAL:
                return [SPECIAL[name](self, equation, inputs)]
            return [self.elementwise(equation, inputs)]
        if all(_all_known(x) for x in inputs) and name not in RANDOM:
            return _fold(equation, inputs)
        raise Unlaned(f"primitive {name} is on no list of the lane interpreter")

    # --- element-wise ---------------------------------------------------------------------------------------------

    def bind(self, equation: Equation, *operands: Any) -> Any:
        """One scalar of an element-wise equation."""
        dtypes = [variable.aval.dtype for variable in equation.invars]
        shape = max((x.shape for x in operands), key=len)
        if all(is_known(x) for x in operands):
            return _fold_scalar(equation, operands)
        aligned = [spread(x, shape, dtype) for x, dtype in zip(operands, dtypes, strict=True)]
        long = math.prod(shape) >= LONG_LANE and not self.on_gpu
        if long and equation.primitive.name in LIBRARY and dtypes[0] == np.float64:
            return LIBRARY[equation.primitive.name](*aligned)
        return equation.primitive.bind(*aligned, **equation.params)

    def elementwise(self, equation: Equation, inputs: list[np.ndarray]) -> np.ndarray:
        simplified = SIMPLIFIED.get(equation.primitive.name)
        dtype = equation.outvars[0].aval.dtype

        def scalar(*operands):
            if simplified is not None:
                result = simplified(equation, dtype, *operands)
                if result is not None:
                    return result
            return self.bind(equation, *operands)

        return _each(scalar, *inputs)

    def binary(self, operation: Callable, a: Any, b: Any, dtype: Any) -> Any:
        """operation(a, b) between two entries of one dtype."""
        if is_known(a) and is_known(b):
            with jax.ensure_compile_time_eval():
                return np.asarray(operation(jnp.asarray(a), jnp.asarray(b)))[()]
        shape = max(a.shape, b.shape, key=len)
        return operation(spread(a, shape, dtype), spread(b, shape, dtype))

    def add(self, a: Any, b: Any, dtype: Any) -> Any:
        return b if _is(a, 0) else a if _is(b, 0) else self.binary(lax.add, a, b, dtype)

    def mul(self, a: Any, b: Any, dtype: Any) -> Any:
        if _is(a, 0) or _is(b, 0):
            return np.zeros((), dtype)[()]
        return b if _is(a, 1) else a if _is(b, 1) else self.binary(lax.mul, a, b, dtype)

    def choose(self, predicate: Any, yes: Any, no: Any, dtype: Any) -> Any:
        if is_known(predicate):
            return yes if predicate else no
        if yes is no or (is_known(yes) and is_known(no) and yes == no):
            return yes
        shape = max(predicate.shape, yes.shape, no.shape, key=len)
        predicate = spread(predicate, shape, np.bool_)
        return lax.select(predicate, spread(yes, shape, dtype), spread(no, shape, dtype))

    # --- data movement --------------------------------------------------------------------------------------------

    def move(self, equation: Equation, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Object arrays move like any other. What NumPy has no word for is found by moving the entries' numbers."""
        if equation.primitive.name in NUMPY_MOVES:
            moved = NUMPY_MOVES[equation.primitive.name](*inputs, **equation.params)
            if moved is not None:
                return moved if isinstance(moved, list) else [moved]
        if equation.params.get("update_jaxpr") is not None:
            raise Unlaned(f"primitive {equation.primitive.name} with a function of its own")
        data, indices = MOVED[equation.primitive.name](inputs)
        if not all(_all_known(inputs[k]) for k in indices):
            return [self.move_by_selection(equation, inputs)]
        flat = np.concatenate([inputs[k].ravel() for k in data])
        params, fill = dict(equation.params), None
        if params.get("fill_value") is not None:
            fill, params["fill_value"] = params["fill_value"], -1
        operands, used = [], 0
        with jax.ensure_compile_time_eval():
            for k, x in enumerate(inputs):
                if k in data:
                    operands.append(jnp.arange(used, used + x.size, dtype=np.int32).reshape(x.shape))
                    used += x.size
                else:
                    operands.append(jnp.asarray(_known(x, equation.invars[k].aval.dtype)))
            results = equation.primitive.bind(*operands, **params)
        results = results if equation.primitive.multiple_results else [results]
        return [
            self.pick(flat, np.asarray(ids), variable.aval.dtype, fill)
            for ids, variable in zip(results, equation.outvars, strict=True)
        ]

    def pick(self, flat: np.ndarray, ids: np.ndarray, dtype: Any, fill: Any) -> np.ndarray:
        result = np.empty(ids.shape, object)
        for index in np.ndindex(ids.shape):
            if 0 <= ids[index] < flat.size:
                result[index] = flat[ids[index]]
            elif fill is not None or np.issubdtype(dtype, np.inexact):
                result[index] = np.asarray(np.nan if fill is None else fill, dtype)[()]
            else:
                raise Unlaned("an out-of-range index into integers")
        return result

    def move_by_selection(self, equation: Equation, inputs: list[np.ndarray]) -> np.ndarray:
        """dynamic_slice and dynamic_update_slice with an index that is not known: select among the positions."""
        name = equation.primitive.name
        if name not in ("dynamic_slice", "dynamic_update_slice"):
            raise Unlaned(f"{name} with an index that differs between paths")
        x, update, starts = (
            (inputs[0], None, inputs[1:]) if name == "dynamic_slice" else (inputs[0], inputs[1], inputs[2:])
        )
        sizes = equation.params["slice_sizes"] if update is None else update.shape
        dtype = equation.outvars[0].aval.dtype
        last = [full - size for full, size in zip(x.shape, sizes, strict=True)]
        if math.prod(p + 1 for p in last) > SELECTED_POSITIONS:
            raise Unlaned(f"{name} over more than {SELECTED_POSITIONS} positions")

        def at(position: tuple[int, ...]) -> np.ndarray:
            window = tuple(slice(p, p + size) for p, size in zip(position, sizes, strict=True))
            if update is None:
                return x[window]
            changed = x.copy()
            changed[window] = update
            return changed

        def resolve(axis: int, position: tuple[int, ...]) -> np.ndarray:
            if axis == x.ndim:
                return at(position)
            start = starts[axis][()]
            if is_known(start):
                return resolve(axis + 1, (*position, int(np.clip(start, 0, last[axis]))))
            result = resolve(axis + 1, (*position, 0))
            for p in range(1, last[axis] + 1):
                beyond = lax.ge(start, lax.full(start.shape, p, start.dtype))
                there = resolve(axis + 1, (*position, p))
                result = _each(lambda yes, no: self.choose(beyond, yes, no, dtype), there, result)
            return result

        return resolve(0, ())


class _Moved(Exception):
    """A loop changes entries that were taken to stay."""


class _Carry:
    """The entries a loop carries: those it changes, each with the shape it needs, and those it leaves alone."""

    def __init__(self, initial: list[Any], dtypes: list[Any]):
        self.initial, self.dtypes = initial, dtypes
        self.shapes: list[tuple[int, ...] | None] = [None] * len(initial)

    def settle(self, loop: Callable[[tuple[jax.Array, ...]], Any]) -> Any:
        """loop(what moves at the start), traced again until its turns move only what they were said to move."""
        while True:
            try:
                return loop(self.moving(self.initial))
            except _Moved:
                continue

    def watch(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        """See what a turn has changed."""
        found = list(self.shapes)
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if not (old is new or (is_known(old) and is_known(new) and old == new)):
                found[i] = max(old.shape, new.shape, key=len)
        if found != self.shapes:
            self.shapes = found
            raise _Moved

    def complete(self, moving: Sequence[Any]) -> list[Any]:
        """All the entries, from those that move."""
        rest = iter(moving)
        return [old if shape is None else next(rest) for old, shape in zip(self.initial, self.shapes, strict=True)]

    def moving(self, flat: Sequence[Any]) -> tuple[jax.Array, ...]:
        """Those that move, from all the entries."""
        return tuple(
            spread(entry, shape, dtype)
            for entry, shape, dtype in zip(flat, self.shapes, self.dtypes, strict=True)
            if shape is not None
        )


def _flatten(arrays: Sequence[np.ndarray]) -> list[Any]:
    return [entry for x in arrays for entry in x.ravel()]


def unflatten(flat: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Object arrays of the given shapes from a flat list of entries."""
    result, used = [], 0
    for shape in shapes:
        size = math.prod(shape)
        x = np.empty(size, object)
        for i in range(size):
            x[i] = flat[used + i]
        result.append(x.reshape(shape))
        used += size
    return result


def _each(scalar: Callable, *inputs: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    inputs = tuple(np.broadcast_to(x, shape) for x in inputs)
    result = np.empty(shape, object)
    for index in np.ndindex(shape):
        result[index] = scalar(*(x[index] for x in inputs))
    return result


def _parts(x: np.ndarray, axis: int) -> list[np.ndarray]:
    """The object arrays along an axis (plain iteration would hand out bare entries for a vector)."""
    moved = np.moveaxis(x, axis, 0)
    return [moved[k : k + 1].reshape(moved.shape[1:]) for k in range(moved.shape[0])]


def _inner(equation: Equation) -> Any:
    if equation.primitive.name == WHOLE:
        return opened(equation)
    return next(equation.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call") if key in equation.params)


def opened(equation: Equation) -> core.ClosedJaxpr:
    """What an operation that a trace holds as a whole does, as a trace."""
    return _opened(equation.params["_prim"])


@functools.lru_cache(maxsize=256)
def _opened(operation: Any) -> core.ClosedJaxpr:
    def flat(*arguments):
        return jax.tree.leaves(operation.expand(*jax.tree.unflatten(operation.in_tree, arguments)))

    with jax.enable_x64(True):  # the trace has the dtypes it has, whatever the caller's are
        given = (jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in operation.in_avals_flat)
        return jax.make_jaxpr(flat)(*given)


def _fold(equation: Equation, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Everything is known while tracing: compute it now, plain arithmetic in NumPy, the rest by JAX."""
    name = equation.primitive.name
    if name in NUMPY_FOLDS and all(v.aval.dtype in NUMPY_TYPES for v in (*equation.invars, *equation.outvars)):
        known = [_known(x, v.aval.dtype) for x, v in zip(inputs, equation.invars, strict=True)]
        with np.errstate(all="ignore"):
            folded = NUMPY_FOLDS[name](*known)
        (variable,) = equation.outvars
        return [entries(np.broadcast_to(np.asarray(folded, variable.aval.dtype), variable.aval.shape))]
    with jax.ensure_compile_time_eval():
        arrays = [jnp.asarray(_known(x, v.aval.dtype)) for x, v in zip(inputs, equation.invars, strict=True)]
        result = equation.primitive.bind(*arrays, **equation.params)
        results = result if equation.primitive.multiple_results else [result]
        return [entries(np.asarray(r)) for r in results]


def _fold_scalar(equation: Equation, operands: Sequence[Any]) -> Any:
    if equation.primitive.name in NUMPY_FOLDS and equation.outvars[0].aval.dtype in NUMPY_TYPES:
        with np.errstate(all="ignore"):
            return np.asarray(NUMPY_FOLDS[equation.primitive.name](*operands), equation.outvars[0].aval.dtype)[()]
    with jax.ensure_compile_time_eval():
        known = [jnp.asarray(x, v.aval.dtype) for x, v in zip(operands, equation.invars, strict=True)]
        return np.asarray(equation.primitive.bind(*known, **equation.params))[()]


def _is(entry: Any, number: float) -> bool:
    return is_known(entry) and entry == number


# --- simplifications: a known zero or one is worth more than an operation; None means "compute it" -------------------


def _add(equation, dtype, a, b):
    return b if _is(a, 0) else a if _is(b, 0) else None


def _sub(equation, dtype, a, b):
    return a if _is(b, 0) else None


def _mul(equation, dtype, a, b):
    if _is(a, 0) or _is(b, 0):
        return np.zeros((), dtype)[()]
    return b if _is(a, 1) else a if _is(b, 1) else None


def _div(equation, dtype, a, b):
    if _is(b, 1):
        return a
    return np.zeros((), dtype)[()] if _is(a, 0) and not is_known(b) else None


def _convert(equation, dtype, a):
    return a if equation.invars[0].aval.dtype == dtype else None


def _select(equation, dtype, which, *cases):
    if is_known(which):
        return cases[int(which)]
    first = cases[0]
    return first if all(case is first for case in cases) else None


def _integer_pow(equation, dtype, a):
    return a if equation.params["y"] == 1 else None


SIMPLIFIED: dict[str, Callable] = {
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "convert_element_type": _convert,
    "select_n": _select,
    "integer_pow": _integer_pow,
    "copy": lambda equation, dtype, a: a,
    "stop_gradient": lambda equation, dtype, a: a,
}

# --- reductions and products ------------------------------------------------------------------------------------------


def _reduction(operation: Callable):
    def reduce(self: _Evaluation, equation, inputs):
        (x,), dtype = inputs, equation.outvars[0].aval.dtype
        for axis in sorted(equation.params["axes"], reverse=True):
            if x.shape[axis] == 0:
                raise Unlaned("a reduction over nothing")
            total, *parts = _parts(x, axis)
            for part in parts:
                total = _each(lambda a, b: operation(self, a, b, dtype), total, part)
            x = total
        return x

    return reduce


def _cumulative(operation: Callable):
    def accumulate(self: _Evaluation, equation, inputs):
        (x,), dtype, axis = inputs, equation.outvars[0].aval.dtype, equation.params["axis"]
        parts = _parts(x, axis)
        sums = parts[-1:] if equation.params["reverse"] else parts[:1]
        for part in parts[-2::-1] if equation.params["reverse"] else parts[1:]:
            sums.append(_each(lambda a, b: operation(self, a, b, dtype), sums[-1], part))
        return np.stack(sums[::-1] if equation.params["reverse"] else sums, axis)

    return accumulate


def _lax(operation: Callable):
    return lambda self, a, b, dtype: self.binary(operation, a, b, dtype)


def _arg(better: Callable):
    def argument(self: _Evaluation, equation, inputs):
        (x,), (axis,) = inputs, equation.params["axes"]
        dtype, index_dtype = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        best, *parts = _parts(x, axis)
        where = _each(lambda _: np.zeros((), index_dtype)[()], best)

        def beats(candidate, champion):
            wins = self.binary(better, candidate, champion, dtype)
            if not np.issubdtype(dtype, np.inexact):
                return wins
            first_nan = self.binary(lambda a, b: (a != a) & (b == b), candidate, champion, dtype)
            return self.binary(lax.bitwise_or, wins, first_nan, np.bool_)

        for k, part in enumerate(parts, start=1):
            wins = _each(beats, part, best)
            best = _each(lambda w, a, b: self.choose(w, a, b, dtype), wins, part, best)
            here = np.asarray(k, index_dtype)[()]
            where = _each(lambda w, old: self.choose(w, here, old, index_dtype), wins, where)
        return where

    return argument


def _dot_general(self: _Evaluation, equation, inputs):
    a, b = inputs
    (contract_a, contract_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    dtype = equation.outvars[0].aval.dtype
    if any(variable.aval.dtype != dtype for variable in equation.invars):
        raise Unlaned("dot_general between different dtypes")
    free_a = [k for k in range(a.ndim) if k not in (*contract_a, *batch_a)]
    free_b = [k for k in range(b.ndim) if k not in (*contract_b, *batch_b)]
    batch, rows, columns = ([x.shape[k] for k in axes] for x, axes in ((a, batch_a), (a, free_a), (b, free_b)))
    length = math.prod(a.shape[k] for k in contract_a)
    a = a.transpose([*batch_a, *free_a, *contract_a]).reshape(math.prod(batch), math.prod(rows), length)
    b = b.transpose([*batch_b, *free_b, *contract_b]).reshape(math.prod(batch), math.prod(columns), length)
    result = np.empty((math.prod(batch), math.prod(rows), math.prod(columns)), object)
    for s, i, j in np.ndindex(result.shape):
        total = np.zeros((), dtype)[()]
        for k in range(length):
            total = self.add(total, self.mul(a[s, i, k], b[s, j, k], dtype), dtype)
        result[s, i, j] = total
    return result.reshape((*batch, *rows, *columns))


def _scatter_combine(operation: Callable):
    """scatter-add and its kin: each update is sent alone to see where it lands."""

    def scatter(self: _Evaluation, equation, inputs):
        x, indices, updates = inputs
        if not _all_known(indices):
            raise Unlaned(f"{equation.primitive.name} with an index that differs between paths")
        dtype = equation.outvars[0].aval.dtype
        result = x.copy()
        params = equation.params
        with jax.ensure_compile_time_eval():
            where = jnp.asarray(_known(indices, equation.invars[1].aval.dtype))
            for k, entry in enumerate(updates.ravel()):
                one = jnp.zeros(updates.size, np.int32).at[k].set(1).reshape(updates.shape)
                landed = lax.scatter_add(
                    jnp.zeros(x.shape, np.int32), where, one, params["dimension_numbers"], mode=params["mode"]
                )
                for index in zip(*np.nonzero(np.asarray(landed)), strict=True):
                    result[index] = operation(self, result[index], entry, dtype)
        return result

    return scatter


def _cond(self: _Evaluation, equation, inputs):
    """Every branch is computed and one selected, as under vmap; a known index takes its branch alone."""
    which, operands = inputs[0][()], inputs[1:]
    branches = equation.params["branches"]
    if is_known(which):
        return self.run_closed(branches[int(np.clip(which, 0, len(branches) - 1))], operands)
    results = [self.run_closed(branch, operands) for branch in branches]
    chosen = results[0]
    for k, result in enumerate(results[1:], start=1):
        beyond = which if which.dtype == np.bool_ else lax.ge(which, lax.full(which.shape, k, which.dtype))
        chosen = [
            _each(lambda yes, no: self.choose(beyond, yes, no, variable.aval.dtype), there, before)
            for there, before, variable in zip(result, chosen, equation.outvars, strict=True)
        ]
    return chosen


def _while(self: _Evaluation, equation, inputs):
    """A loop while any path is active; a path that is done keeps its values behind a mask.

    None where it is known not to begin, and no mask where all paths end together.
    """
    params = equation.params
    if params["cond_jaxpr"].out_avals[0].ndim:
        raise Unlaned("primitive while under jax.vmap")
    of_cond, of_body = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    cond_consts, body_consts, start = inputs[:of_cond], inputs[of_cond:of_body], inputs[of_body:]
    shapes = [x.shape for x in start]
    dtypes = [v.aval.dtype for v, x in zip(equation.outvars, start, strict=True) for _ in range(x.size)]
    initial = _flatten(start)

    def body(flat):
        return _flatten(self.run_closed(params["body_jaxpr"], [*body_consts, *unflatten(flat, shapes)]))

    def goes_on(flat):
        (result,) = self.run_closed(params["cond_jaxpr"], [*cond_consts, *unflatten(flat, shapes)])
        return result[()]

    def turn(flat, active):
        if self.paths is not None and active.shape == ():
            return body(flat)
        return [
            old if old is new else self.choose(active, new, old, dtype)
            for old, new, dtype in zip(flat, body(flat), dtypes, strict=True)
        ]

    if _is(goes_on(initial), 0):
        return start
    carry = _Carry(initial, dtypes)

    def still_active(flat, shape):
        active = goes_on(flat)
        return spread(active, max(shape, active.shape, key=len), np.bool_)

    def advance(state):
        active, moving = state
        before = carry.complete(moving)
        flat = turn(before, active)
        carry.watch(before, flat)
        return still_active(flat, active.shape) & active, carry.moving(flat)

    def any_active(state):
        return jnp.max(state[0].astype(np.int32)) > 0 if self.on_gpu else jnp.any(state[0])

    def loop(first):
        return lax.while_loop(any_active, advance, (still_active(carry.complete(first), ()), first))[1]

    final = carry.settle(loop)
    return unflatten(carry.complete(final), shapes)


def _linear_solve(self: _Evaluation, equation, inputs):
    """The solution alone: how to multiply and how to transpose are for derivatives."""
    lengths, functions = equation.params["const_lengths"], equation.params["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    return self.run_closed(functions.solve, [*inputs[before : before + lengths.solve], *inputs[sum(lengths) :]])


def _barrier(self: _Evaluation, equation, inputs):
    """What is computed here once may not be computed again; on a GPU it is not, anyway."""
    flat = _flatten(inputs)
    moving = [k for k, entry in enumerate(flat) if not (is_known(entry) or self.on_gpu)]
    for k, entry in zip(moving, lax.optimization_barrier([flat[k] for k in moving]), strict=True):
        flat[k] = entry
    return unflatten(flat, [x.shape for x in inputs])


def _scan_sizes(params: dict[str, Any], inputs: int) -> tuple[int, int]:
    """How many of a scan's inputs are constants, and how many it carries."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].update(range(inputs)).unpack()  # JAX 0.11
    return len(list(consts)), len(list(carry))


def _scan(self: _Evaluation, equation, inputs):
    params, length = equation.params, equation.params["length"]
    n_consts, n_carry = _scan_sizes(params, len(inputs))
    consts, carry, xs = inputs[:n_consts], inputs[n_consts : n_consts + n_carry], inputs[n_consts + n_carry :]
    closed = params["jaxpr"]
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    ys_of = equation.outvars[n_carry:]

    def body(carry, x):
        result = self.run_closed(closed, [*consts, *carry, *x])
        return result[:n_carry], result[n_carry:]

    if length * count_equations(closed.jaxpr) <= (UNROLLED_ON_GPU if self.on_gpu else UNROLLED_EQUATIONS):
        ys = [np.empty(variable.aval.shape, object) for variable in ys_of]
        for k in order:
            carry, outputs = body(carry, [x[k : k + 1].reshape(x.shape[1:]) for x in xs])
            for y, output in zip(ys, outputs, strict=True):
                y[k] = output[()]
        return [*carry, *ys]

    shapes = [x.shape for x in carry]
    dtypes = [v.aval.dtype for v, x in zip(equation.outvars, carry, strict=False) for _ in range(x.size)]
    x_shapes = [x.shape[1:] for x in xs]
    series_in = [
        _series(list(x.reshape(length, -1)[:, i]), variable.aval.dtype)
        for x, variable in zip(xs, equation.invars[n_consts + n_carry :], strict=True)
        for i in range(math.prod(x.shape[1:]))
    ]

    def one(flat, x_flat):
        return body(unflatten(flat, shapes), unflatten(x_flat, x_shapes))

    kept = _Carry(_flatten(carry), dtypes)
    lane = () if self.paths is None else (self.paths,)

    def turn(moving, x_flat):
        before = kept.complete(moving)
        new, outputs = one(before, x_flat)
        kept.watch(before, _flatten(new))
        y = tuple(
            spread(entry, lane, variable.aval.dtype)
            for output, variable in zip(outputs, ys_of, strict=True)
            for entry in output.ravel()
        )
        return kept.moving(_flatten(new)), y

    final, series = kept.settle(
        lambda first: lax.scan(turn, first, series_in, length=length, reverse=params["reverse"])
    )
    ys, used = [], 0
    for variable in ys_of:
        shape = variable.aval.shape[1:]
        y = np.empty((length, math.prod(shape)), object)
        for i in range(y.shape[1]):
            for k in range(length):
                y[k, i] = series[used + i][k]
        ys.append(y.reshape(variable.aval.shape))
        used += y.shape[1]
    return [*unflatten(kept.complete(final), shapes), *ys]


def _series(values: list[Any], dtype: Any) -> jax.Array:
    shape = max((value.shape for value in values), key=len)
    return jnp.stack([spread(value, shape, dtype) for value in values])


def inner_traces(jaxpr: core.Jaxpr) -> list[core.ClosedJaxpr]:
    """The functions, branches and loop bodies inside a trace's equations."""
    found = []
    for equation in jaxpr.eqns:
        found += _traces_of(equation)
    return found


def _traces_of(equation: Equation) -> list[core.ClosedJaxpr]:
    if equation.primitive.name == WHOLE:
        return [opened(equation)]
    return [
        value if isinstance(value, core.ClosedJaxpr) else core.ClosedJaxpr(value, ())
        for parameter in equation.params.values()
        for value in (parameter if isinstance(parameter, (tuple, list)) else (parameter,))
        if isinstance(value, (core.ClosedJaxpr, core.Jaxpr))
    ]


def count_equations(jaxpr: core.Jaxpr) -> int:
    """The equations of a trace, those of its inner functions and loop bodies included (a loop body once)."""
    return sum(
        sum(count_equations(inner.jaxpr) for inner in inside) if (inside := _traces_of(equation)) else 1
        for equation in jaxpr.eqns
    )


def count_entries(jaxpr: core.Jaxpr) -> int:
    """The numbers that a trace computes (a loop body once), less those that are only moved: about as many scalar
    operations as it has in lanes, where none of them is known beforehand."""
    total = 0
    for equation in jaxpr.eqns:
        inside = _traces_of(equation)
        results: list[Any] = [variable.aval for variable in equation.outvars]
        if inside:
            total += sum(count_entries(inner.jaxpr) for inner in inside)
        elif equation.primitive.name not in MOVED:
            total += sum(math.prod(result.shape) for result in results)
    return total


# --- what NumPy does without JAX, whose every first call of a kind compiles a program --------------------------------


def _slice(x, *, start_indices, limit_indices, strides, **_):
    return x[tuple(map(slice, start_indices, limit_indices, strides or (1,) * x.ndim))]


def _broadcast_in_dim(x, *_dynamic, shape, broadcast_dimensions, **_):
    kept = [1] * len(shape)
    for axis, dimension in enumerate(broadcast_dimensions):
        kept[dimension] = x.shape[axis]
    return np.broadcast_to(x.reshape(kept), shape)


def _pad(x, value, *, padding_config, **_):
    if any(low < 0 or high < 0 for low, high, _ in padding_config):
        return None
    shape = [
        low + high + max(0, (n - 1) * (gap + 1) + 1)
        for n, (low, high, gap) in zip(x.shape, padding_config, strict=True)
    ]
    result = np.empty(shape, object)
    result.fill(value[()])
    result[
        tuple(
            slice(low, low + max(0, (n - 1) * (gap + 1) + 1), gap + 1)
            for n, (low, _, gap) in zip(x.shape, padding_config, strict=True)
        )
    ] = x
    return result


def _dynamic_slice(x, *starts, slice_sizes, **_):
    if not all(is_known(start[()]) for start in starts):
        return None
    first = [int(np.clip(s[()], 0, n - size)) for s, n, size in zip(starts, x.shape, slice_sizes, strict=True)]
    return x[tuple(slice(a, a + size) for a, size in zip(first, slice_sizes, strict=True))]


NUMPY_MOVES: dict[str, Callable] = {
    "reshape": lambda x, *_, new_sizes, dimensions=None, **__: x.reshape(new_sizes) if dimensions is None else None,
    "squeeze": lambda x, *, dimensions, **_: np.squeeze(x, tuple(dimensions)),
    "expand_dims": lambda x, *, dimensions, **_: np.expand_dims(x, tuple(dimensions)),
    "transpose": lambda x, *, permutation, **_: x.transpose(permutation),
    "rev": lambda x, *, dimensions, **_: np.flip(x, tuple(dimensions)),
    "concatenate": lambda *xs, dimension, **_: np.concatenate(xs, dimension),
    "split": lambda x, *, sizes, axis, **_: np.split(x, np.cumsum(sizes)[:-1], axis),
    "slice": _slice,
    "broadcast_in_dim": _broadcast_in_dim,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
}

NUMPY_TYPES = (np.float64, np.float32, np.int32, np.int64, np.bool_)
NUMPY_FOLDS: dict[str, Callable] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "max": np.maximum, "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "square": np.square, "sqrt": np.sqrt, "is_finite": np.isfinite, "copy": np.array,
    "select_n": lambda which, *cases: np.choose(np.asarray(which, np.intp), cases),
}  # fmt: skip

# --- the lists -----------------------------------------------------------------------------------------------------

WHOLE = "call_hi_primitive"  # of JAX 0.11, which so keeps custom_root in a trace

INLINED = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
    "custom_vmap_call", "checkpoint", "remat2", "eval_jaxpr",
}  # fmt: skip

ELEMENTWISE = {
    "add", "add_any", "sub", "mul", "div", "rem", "neg", "sign", "abs", "max", "min", "pow", "integer_pow", "square",
    "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "lgamma", "digamma",
    "bessel_i0e", "bessel_i1e", "floor", "ceil", "round", "is_finite", "nextafter", "clamp", "select_n", "eq", "ne",
    "lt", "le", "gt", "ge", "lt_to", "le_to", "eq_to", "and", "or", "not", "xor", "shift_left",
    "shift_right_logical", "shift_right_arithmetic", "population_count", "clz", "convert_element_type",
    "reduce_precision", "copy", "copy_p", "stop_gradient", "one_minus_square", "real", "imag", "complex", "conj",
}  # fmt: skip

# What XLA would call the library for, path by path.
LIBRARY: dict[str, Callable] = {"sin": trigonometry.sin, "cos": trigonometry.cos}

MOVED: dict[str, Callable[[list[np.ndarray]], tuple[range | list[int], range | list[int]]]] = {
    **{
        name: lambda inputs: (range(len(inputs)), range(0))
        for name in ("reshape", "squeeze", "expand_dims", "transpose", "rev", "slice", "concatenate", "pad", "split",
                     "broadcast_in_dim", "stack", "unstack", "tile")
    },
    "gather": lambda inputs: ([0], [1]),
    "scatter": lambda inputs: ([0, 2], [1]),
    "dynamic_slice": lambda inputs: ([0], range(1, len(inputs))),
    "dynamic_update_slice": lambda inputs: ([0, 1], range(2, len(inputs))),
}  # fmt: skip

SPECIAL: dict[str, Callable] = {
    "reduce_sum": _reduction(lambda self, a, b, dtype: self.add(a, b, dtype)),
    "reduce_prod": _reduction(lambda self, a, b, dtype: self.mul(a, b, dtype)),
    "reduce_max": _reduction(_lax(lax.max)),
    "reduce_min": _reduction(_lax(lax.min)),
    "reduce_and": _reduction(_lax(lax.bitwise_and)),
    "reduce_or": _reduction(_lax(lax.bitwise_or)),
    "reduce_xor": _reduction(_lax(lax.bitwise_xor)),
    "argmax": _arg(lax.gt),
    "argmin": _arg(lax.lt),
    "cumsum": _cumulative(lambda self, a, b, dtype: self.add(a, b, dtype)),
    "cumprod": _cumulative(lambda self, a, b, dtype: self.mul(a, b, dtype)),
    "cummax": _cumulative(_lax(lax.max)),
    "cummin": _cumulative(_lax(lax.min)),
    "dot_general": _dot_general,
    "scatter-add": _scatter_combine(lambda self, a, b, dtype: self.add(a, b, dtype)),
    "scatter-mul": _scatter_combine(lambda self, a, b, dtype: self.mul(a, b, dtype)),
    "scatter-min": _scatter_combine(_lax(lax.min)),
    "scatter-max": _scatter_combine(_lax(lax.max)),
}

CONTROL: dict[str, Callable] = {
    "cond": _cond, "while": _while, "scan": _scan, "custom_linear_solve": _linear_solve,
    "optimization_barrier": _barrier,
}  # fmt: skip

RANDOM = {"random_bits", "random_seed", "random_wrap", "random_unwrap", "random_split", "random_fold_in"}
