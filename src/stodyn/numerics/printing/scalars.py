"""The trace of a function of small arrays -> the graph of its scalars.

The trace is evaluated on NumPy object arrays whose entries are numbers known from its structure or nodes of a graph.
Every array operation falls apart into operations between scalars, known zeros and ones vanish, so that a Jacobian from
jax.jacfwd arrives sparse; data are moved by moving the entries. Nothing here is compiled.

Nothing is guessed. A primitive is on one of the lists below (element-wise, data movement, reduction, control), or the
evaluation stops with Unprintable and the reason, and the caller falls back to jax.vmap.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn.arguments import stacklevel_of_user
from stodyn.numerics.printing import elementary
from stodyn.numerics.printing.nodes import BOOL, INT32, Entry, Graph, as_number, is_known, value_of
from stodyn.numerics.printing.operations import Counted, Gather, Operation, Scatter, Sliced, Spread
from stodyn.numerics.printing.trace import count_operations, interpret

TYPES = {np.dtype(t) for t in ("float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                               "uint64", "bool")}  # fmt: skip
UNROLLED = 4000  # equations of a scan, all turns together, up to which it is written out
SELECTED_POSITIONS = 256  # an index that differs between paths is resolved by at most this many selections


class Unprintable(Exception):
    """Raised with the reason why a trace cannot be taken apart into scalars."""


class PrinterFault(UserWarning):
    """Printing a program ended in an error that the printer does not know: another way computes the same numbers."""


@contextlib.contextmanager
def or_unprintable() -> Iterator[None]:
    """Any error while a program is printed means that it cannot be printed, and becomes the reason.

    The traces are made before, so that no error of a user's function passes here: an unforeseen one is a fault of the
    printer. Nobody's run has to end because of it, but it is reported.
    """
    try:
        yield
    except Unprintable:
        raise
    except Exception as error:
        reason = f"the printer failed with {type(error).__name__}" + (f": {error}" if str(error) else "")
        warnings.warn(
            f"{reason}. The run goes on without a printed program, with the same results but more slowly. This is a "
            "fault of stodyn: please report it with the functions of the problem.",
            PrinterFault,
            stacklevel=stacklevel_of_user(),
        )
        raise Unprintable(reason) from error


@or_unprintable()
def scalarised(closed: core.ClosedJaxpr, arguments: Sequence[np.ndarray], graph: Graph) -> list[np.ndarray]:
    """The outputs of a traced function as object arrays of entries, from such arrays of its input shapes."""
    return _Scalars(graph).run(closed, list(arguments))


def known_entries(x: Any) -> np.ndarray:
    """An array of numbers as an object array of entries known from the structure."""
    x = np.asarray(x)
    if x.dtype == jax.dtypes.float0:  # JAX's type for the derivative of a whole number, which does not exist
        x = np.zeros(x.shape, bool)
    if x.dtype not in TYPES:
        raise Unprintable(f"numbers of type {x.dtype}")
    result = np.empty(x.shape, object)
    flat, source = result.reshape(-1), x.reshape(-1)
    for k in range(x.size):
        flat[k] = source[k]
    return result


def inputs_of(graph: Graph, name: Any, shape: tuple[int, ...], dtype: Any, **how: bool) -> np.ndarray:
    """An object array of inputs named (name, 0), (name, 1), ... in the order of its entries."""
    result = np.empty(shape, object)
    flat = result.reshape(-1)
    for k in range(flat.size):
        flat[k] = graph.input((name, k), dtype, **how)
    return result if shape else _scalar(flat[0])


def _scalar(entry: Entry) -> np.ndarray:
    result = np.empty((), object)
    result[()] = entry
    return result


def all_known(x: np.ndarray) -> bool:
    """Whether every entry is a number, known or literal."""
    return all(value_of(entry) is not None for entry in x.reshape(-1))


def numbers_of(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The numbers of an object array whose entries are all known."""
    return np.array([value_of(entry) for entry in x.reshape(-1)], dtype).reshape(x.shape)


class _Scalars:
    def __init__(self, graph: Graph):
        self.graph = graph

    def run(self, trace: Any, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        return interpret(trace, arguments, self.apply, self.literal)

    def literal(self, numbers: Any) -> np.ndarray:
        """Numbers written in the trace: a single one as a literal, those of an array as its structure."""
        x = np.asarray(numbers)
        if x.ndim == 0 and x.dtype.kind == "f" and x.dtype in TYPES:
            return _scalar(self.graph.literal(as_number(x, x.dtype)))
        return known_entries(x)

    def apply(self, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
        name = operation.name
        if name in CONTROL:
            return CONTROL[name](self, operation, inputs)
        if operation.has_effects:
            raise Unprintable(f"{name} has a side effect")
        for out in operation.outs:
            if out.dtype not in TYPES and out.dtype != jax.dtypes.float0:
                raise Unprintable(f"{name} gives numbers of type {out.dtype}")
        if name in MOVES:
            moved = MOVES[name](operation.how, *inputs)
            return moved if isinstance(moved, list) else [moved]
        if name in SPECIAL:
            return [SPECIAL[name](self, operation, inputs)]
        if name in ELEMENTWISE:
            return [self.elementwise(operation, inputs)]
        if all(map(all_known, inputs)) and name not in RANDOM:
            return self.computed(operation, inputs)
        raise Unprintable(f"primitive {name} is not among the printed operations")

    def elementwise(self, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
        rule, (out,) = ELEMENTWISE[operation.name], operation.outs
        for operand in operation.ins:
            if operand.dtype not in TYPES:
                raise Unprintable(f"{operation.name} of numbers of type {operand.dtype}")
        graph, dtype, how = self.graph, out.dtype, operation.how
        return each(lambda *operands: rule(graph, dtype, how, *operands), *inputs, shape=out.shape)

    def computed(self, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Everything is known while tracing: compute it now."""
        with jax.ensure_compile_time_eval():
            arrays = [jnp.asarray(numbers_of(x, like.dtype)) for x, like in zip(inputs, operation.ins, strict=True)]
            return [known_entries(result) for result in operation.bind(*arrays)]

    # --- between entries ----------------------------------------------------------------------------------------------

    def add(self, a: Entry, b: Entry, dtype: Any) -> Entry:
        return self.graph.make("add", dtype, a, b)

    def mul(self, a: Entry, b: Entry, dtype: Any) -> Entry:
        return self.graph.make("mul", dtype, a, b)

    def choose(self, which: Entry, yes: np.ndarray, no: np.ndarray, dtype: Any) -> np.ndarray:
        return each(lambda a, b: self.graph.select(which, a, b, dtype), yes, no)

    def pick(self, start: Entry, positions: int, at: Callable[[int], np.ndarray], dtype: Any) -> np.ndarray:
        """at(start), start an index from 0 to positions - 1 that may differ from path to path."""
        value = value_of(start)
        if value is not None:
            return at(int(np.clip(int(value), 0, positions - 1)))
        if positions > SELECTED_POSITIONS:
            raise Unprintable(f"an index that differs between paths, over more than {SELECTED_POSITIONS} positions")
        result = at(0)
        for p in range(1, positions):
            beyond = self.graph.make("ge", BOOL, start, start.dtype.type(p))
            result = self.choose(beyond, at(p), result, dtype)
        return result

    def resolve(self, starts: Sequence[Entry], positions: Sequence[int], at: Callable, dtype: Any) -> np.ndarray:
        """at(*starts), each start an index below its number of positions."""
        unknown = math.prod(p for s, p in zip(starts, positions, strict=True) if value_of(s) is None)
        if unknown > SELECTED_POSITIONS:
            raise Unprintable(f"an index that differs between paths, over more than {SELECTED_POSITIONS} positions")

        def deeper(indices: tuple[int, ...]) -> np.ndarray:
            if len(indices) == len(starts):
                return at(*indices)
            place = len(indices)
            return self.pick(starts[place], positions[place], lambda p: deeper((*indices, p)), dtype)

        return deeper(())


def each(scalar: Callable, *inputs: np.ndarray, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """scalar(...) of the entries of object arrays, broadcast together."""
    shape = np.broadcast_shapes(*(x.shape for x in inputs)) if shape is None else shape
    if not shape:
        return _scalar(scalar(*(x[()] for x in inputs)))
    result = np.empty(shape, object)
    flat = result.reshape(-1)
    rows = [(x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1).tolist() for x in inputs]
    for k, entries in enumerate(zip(*rows, strict=True)):
        flat[k] = scalar(*entries)
    return result


def unflatten(flat: Sequence[Entry], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
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


def flatten(arrays: Sequence[np.ndarray]) -> list[Entry]:
    return [entry for x in arrays for entry in x.reshape(-1)]


def _parts(x: np.ndarray, axis: int) -> list[np.ndarray]:
    """The object arrays along an axis (plain iteration would hand out bare entries for a vector)."""
    moved = np.moveaxis(x, axis, 0)
    return [moved[k : k + 1].reshape(moved.shape[1:]) for k in range(moved.shape[0])]


# --- element-wise -----------------------------------------------------------------------------------------------------


def _plain(op: str) -> Callable:
    return lambda graph, dtype, how, *operands: graph.make(op, dtype, *operands)


def _compared(op: str) -> Callable:
    return lambda graph, dtype, how, a, b: graph.make(op, BOOL, a, b)


def _integer_pow(graph, dtype, y, x):
    """By squaring; a negative power is one over the positive one."""
    if y == 0:
        return dtype.type(1)
    result, power, left = None, x, abs(y)
    while True:
        if left & 1:
            result = power if result is None else graph.make("mul", dtype, result, power)
        left >>= 1
        if not left:
            break
        power = graph.make("mul", dtype, power, power)
    return result if y > 0 else graph.make("div", dtype, dtype.type(1), result)


def _one_minus_square(graph, dtype, how, x):
    """1 - x² near x = ±1 too, from JAX 0.11 on: the derivative of tanh at artanh x."""
    one = dtype.type(1)
    return graph.make("mul", dtype, graph.make("add", dtype, one, x), graph.make("sub", dtype, one, x))


def _polynomial(graph, dtype, how, x, *coefficients):
    """Σ c_k x^k by Horner's rule, from JAX 0.12 on; before, polyval was written out, or a scan."""
    *others, value = coefficients
    for coefficient in reversed(others):
        value = graph.make("add", dtype, graph.make("mul", dtype, value, x), coefficient)
    return value


def _pow(graph, dtype, how, x, y):
    if y.dtype.kind != "f":
        value = value_of(y)
        if value is None:
            raise Unprintable("pow with a whole exponent that is not known")
        return _integer_pow(graph, dtype, int(value), x)
    return _function("pow")(graph, dtype, how, x, y)


def _function(name: str) -> Callable:
    """An elementary function, in double precision whatever the numbers are."""

    def rule(graph, dtype, how, *operands):
        if name not in elementary.NAMES:
            raise Unprintable(f"primitive {name} is not among the printed operations")
        wide = [graph.convert(x, np.float64) for x in operands]
        return graph.convert(graph.make(name, np.float64, *wide), dtype)

    return rule


def _log2(graph, dtype, how, x):
    """From JAX 0.11 on; before, it was written as this quotient."""
    logarithm = graph.make("log", np.float64, graph.convert(x, np.float64))
    return graph.convert(graph.make("div", np.float64, logarithm, np.float64(math.log(2.0))), dtype)


def _select_n(graph, dtype, how, which, *cases):
    if which.dtype == BOOL:
        return graph.select(which, cases[1], cases[0], dtype)
    chosen = cases[0]
    for k, case in enumerate(cases[1:], start=1):
        chosen = graph.select(graph.make("ge", BOOL, which, which.dtype.type(k)), case, chosen, dtype)
    return chosen


def _is_finite(graph, dtype, how, x):
    return graph.make("lt", BOOL, graph.make("abs", x.dtype, x), x.dtype.type(np.inf))


def _clamp(graph, dtype, how, low, x, high):
    return graph.make("min", dtype, graph.make("max", dtype, low, x), high)


def _round(graph, dtype, is_away, x):
    return graph.make("round_away" if is_away else "round_even", dtype, x)


def _in_total_order(op: str) -> Callable:
    """Comparisons in which -0 < +0 and every NaN has its place: of the words, those of negative numbers turned over."""

    def rule(graph, dtype, how, a, b):
        if a.dtype.kind != "f":
            return graph.make(op, BOOL, a, b)
        word = np.dtype(f"int{8 * a.dtype.itemsize}")

        def place(x):
            bits = _bitcast(graph, word, how, x)
            below = graph.make("lt", BOOL, bits, word.type(0))
            turned = graph.make("xor", word, bits, word.type(np.iinfo(word).max))
            return graph.select(below, turned, bits, word)

        return graph.make(op, BOOL, place(a), place(b))

    return rule


def _reduce_precision(graph, dtype, bits, x):
    held = np.finfo(dtype)
    if bits.exponent < held.nexp or bits.mantissa < held.nmant:
        raise Unprintable("reduce_precision to fewer bits")
    return x


def _shift(op: str) -> Callable:
    def rule(graph, dtype, how, x, by):
        bits = 8 * dtype.itemsize
        inside = graph.make("lt", BOOL, graph.convert(by, f"uint{bits}"), np.dtype(f"uint{bits}").type(bits))
        safe = graph.select(inside, by, dtype.type(0 if op != "ashr" else bits - 1), dtype)
        shifted = graph.make(op, dtype, x, safe)
        return shifted if op == "ashr" else graph.select(inside, shifted, dtype.type(0), dtype)

    return rule


def _bitcast(graph, dtype, how, x):
    if x.dtype.itemsize != np.dtype(dtype).itemsize or BOOL in (x.dtype, dtype):
        raise Unprintable("bitcast_convert_type between types of different sizes")
    value = value_of(x)
    if value is not None:
        return np.asarray(value).view(dtype)[()]
    return graph.make("bitcast", dtype, x)


ELEMENTWISE: dict[str, Callable] = {
    **{name: _plain(name) for name in ("add", "sub", "mul", "div", "rem", "neg", "abs", "max", "min", "sign", "floor",
                                       "ceil", "sqrt", "and", "or", "xor", "not", "population_count", "clz")},
    **{name: _compared(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _function(name) for name in (
        "cbrt", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "asin", "acos", "atan",
        "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "lgamma", "digamma")},
    **{f"{name}_to": _in_total_order(name) for name in ("eq", "lt", "le")},
    "reduce_precision": _reduce_precision,
    "add_any": _plain("add"),
    "pow": _pow,
    "integer_pow": _integer_pow,
    "square": lambda graph, dtype, how, x: graph.make("mul", dtype, x, x),
    "one_minus_square": _one_minus_square,
    "polynomial": _polynomial,
    "log2": _log2,
    "rsqrt": lambda graph, dtype, how, x: graph.make("div", dtype, dtype.type(1), graph.make("sqrt", dtype, x)),
    "select_n": _select_n,
    "is_finite": _is_finite,
    "clamp": _clamp,
    "round": _round,
    "shift_left": _shift("shl"),
    "shift_right_logical": _shift("lshr"),
    "shift_right_arithmetic": _shift("ashr"),
    "convert_element_type": lambda graph, dtype, how, x: graph.convert(x, dtype),
    "bitcast_convert_type": _bitcast,
    **{name: lambda graph, dtype, how, x: x for name in ("copy", "copy_p", "stop_gradient")},
    "real": lambda graph, dtype, how, x: x,
}  # fmt: skip


# --- reductions and products ------------------------------------------------------------------------------------------


NEUTRAL = {"add": 0, "mul": 1, "and": True, "or": False, "xor": 0}  # the result of a reduction over no entries


def _reduction(op: str):
    def reduce(self: _Scalars, operation, inputs):
        (x,), dtype = inputs, operation.outs[0].dtype
        for axis in sorted(operation.how, reverse=True):
            if x.shape[axis] == 0:
                if op not in NEUTRAL:
                    raise Unprintable(f"{operation.name} of nothing")
                x = known_entries(np.full(np.delete(x.shape, axis), NEUTRAL[op], dtype))
                continue
            total, *parts = _parts(x, axis)
            for part in parts:
                total = each(lambda a, b: self.graph.make(op, dtype, a, b), total, part)
            x = total
        return x

    return reduce


def _cumulative(op: str):
    def accumulate(self: _Scalars, operation, inputs):
        (x,), dtype, (axis, backwards) = inputs, operation.outs[0].dtype, operation.how
        parts = _parts(x, axis)
        if not parts:
            return x
        sums = parts[-1:] if backwards else parts[:1]
        for part in parts[-2::-1] if backwards else parts[1:]:
            sums.append(each(lambda a, b: self.graph.make(op, dtype, a, b), sums[-1], part))
        return np.stack(sums[::-1] if backwards else sums, axis)

    return accumulate


def _arg(better: str):
    def argument(self: _Scalars, operation, inputs):
        (x,), (axis,), graph = inputs, operation.how, self.graph
        index = operation.outs[0].dtype
        best, *parts = _parts(x, axis)
        where = each(lambda _: index.type(0), best)

        def beats(candidate, champion):
            wins = graph.make(better, BOOL, candidate, champion)
            if candidate.dtype.kind != "f":
                return wins
            is_nan = graph.make("ne", BOOL, candidate, candidate)
            first_nan = graph.make("and", BOOL, is_nan, graph.make("eq", BOOL, champion, champion))
            return graph.make("or", BOOL, wins, first_nan)

        for k, part in enumerate(parts, start=1):
            wins = each(beats, part, best)
            best = each(lambda w, a, b: graph.select(w, a, b, a.dtype), wins, part, best)
            where = each(lambda w, old: graph.select(w, index.type(k), old, index), wins, where)
        return where

    return argument


def _dot_general(self: _Scalars, operation, inputs):
    (contract_a, contract_b), (batch_a, batch_b) = operation.how
    dtype = np.dtype(operation.outs[0].dtype)
    if any(operand.dtype != dtype and operand.dtype.kind != "f" for operand in operation.ins):
        raise Unprintable("dot_general between numbers of different kinds")
    a, b = (each(lambda entry: self.graph.convert(entry, dtype), x) if operand.dtype != dtype else x
            for x, operand in zip(inputs, operation.ins, strict=True))  # fmt: skip
    free_a = [k for k in range(a.ndim) if k not in (*contract_a, *batch_a)]
    free_b = [k for k in range(b.ndim) if k not in (*contract_b, *batch_b)]
    batch, rows, columns = ([x.shape[k] for k in axes] for x, axes in ((a, batch_a), (a, free_a), (b, free_b)))
    length = math.prod(a.shape[k] for k in contract_a)
    a = a.transpose([*batch_a, *free_a, *contract_a]).reshape(math.prod(batch), math.prod(rows), length)
    b = b.transpose([*batch_b, *free_b, *contract_b]).reshape(math.prod(batch), math.prod(columns), length)
    result = np.empty((math.prod(batch), math.prod(rows), math.prod(columns)), object)
    for s, i, j in np.ndindex(result.shape):
        total = dtype.type(0)
        for k in range(length):
            left, right = a[s, i, k], b[s, j, k]
            if not ((is_known(left) and left == 0) or (is_known(right) and right == 0)):
                total = self.add(total, self.mul(left, right, dtype), dtype)
        result[s, i, j] = total
    return result.reshape((*batch, *rows, *columns))


# --- data movement ----------------------------------------------------------------------------------------------------


def _slice(how: Sliced, x):
    return x[tuple(map(slice, how.starts, how.limits, how.steps or (1,) * x.ndim))]


def _broadcast_in_dim(how: Spread, x, *_sizes):
    shape = how.shape
    new_shape = [1] * len(shape)
    for axis, dimension in enumerate(how.axes):
        new_shape[dimension] = x.shape[axis]
    if x.ndim == 0 and shape and x.dtype == object:  # a number spread over an array is the array's structure
        value = value_of(x[()])
        if value is not None:
            x = _scalar(value)
    return np.broadcast_to(x.reshape(new_shape), shape)


def _structural(x: np.ndarray) -> Entry:
    value = value_of(x[()])
    return x[()] if value is None else value


def _pad(padding_config, x, value):
    def place(n: int, low: int, gap: int) -> np.ndarray:
        return low + (gap + 1) * np.arange(n)

    shape = [low + high + max(0, (n - 1) * (gap + 1) + 1)
             for n, (low, high, gap) in zip(x.shape, padding_config, strict=True)]  # fmt: skip
    result = np.empty(shape, x.dtype)
    result.fill(_structural(value))
    at = [place(n, low, gap) for n, (low, _, gap) in zip(x.shape, padding_config, strict=True)]
    is_inside = [(p >= 0) & (p < size) for p, size in zip(at, shape, strict=True)]
    result[np.ix_(*(p[k] for p, k in zip(at, is_inside, strict=True)))] = x[np.ix_(*is_inside)] if x.ndim else x
    return result


def _iota(how: Counted):
    along = known_entries(np.arange(how.shape[how.axis]).astype(how.dtype))
    return np.broadcast_to(along.reshape([-1 if k == how.axis else 1 for k in range(len(how.shape))]), how.shape)


MOVES: dict[str, Callable] = {
    "reshape": lambda shape, x, *_sizes: x.reshape(shape),
    "squeeze": lambda axes, x: np.squeeze(x, tuple(axes)),
    "expand_dims": lambda axes, x: np.expand_dims(x, tuple(axes)),
    "transpose": lambda order, x: x.transpose(order),
    "rev": lambda axes, x: np.flip(x, tuple(axes)),
    "concatenate": lambda axis, *xs: np.concatenate(xs, axis),
    "split": lambda how, x: np.split(x, np.cumsum(how.sizes)[:-1], how.axis),
    "stack": lambda axis, *xs: np.stack(xs, axis),
    "unstack": lambda axis, x: _parts(x, axis),
    "tile": lambda times, x: np.tile(x, times),
    "slice": _slice,
    "broadcast_in_dim": _broadcast_in_dim,
    "pad": _pad,
    "iota": _iota,
    "empty": lambda how: known_entries(np.zeros(*how)),  # as XLA makes it on processors
}


def _dynamic_slice(self: _Scalars, operation, inputs):
    x, starts, sizes = inputs[0], [s[()] for s in inputs[1:]], operation.how

    def at(*first):
        return x[tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))]

    positions = [full - size + 1 for full, size in zip(x.shape, sizes, strict=True)]
    return self.resolve(starts, positions, at, operation.outs[0].dtype)


def _dynamic_update_slice(self: _Scalars, operation, inputs):
    x, update, starts = inputs[0], inputs[1], [s[()] for s in inputs[2:]]

    def at(*first):
        changed = x.copy()
        changed[tuple(slice(p, p + size) for p, size in zip(first, update.shape, strict=True))] = update
        return changed

    positions = [full - size + 1 for full, size in zip(x.shape, update.shape, strict=True)]
    return self.resolve(starts, positions, at, operation.outs[0].dtype)


def filling(dtype: Any) -> Any:
    """The value that JAX puts where an index is outside: NaN, the least signed or the largest unsigned number."""
    if dtype.kind == "f":
        return np.nan
    return True if dtype == BOOL else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _starts(how: Gather | Scatter, ndim: int, indices: np.ndarray, batch: tuple[int, ...]) -> list[Entry]:
    """Where a slice begins on each axis: as its row of indices says, along a batch by its number, else at 0."""
    starts: list[Entry] = [np.int32(0)] * ndim
    for axis, start in zip(how.axes, indices[batch], strict=True):
        starts[axis] = start
    for axis, of in how.along.items():
        starts[axis] = np.int32(batch[of])
    return starts


def _inside(graph: Graph, starts: Sequence[Entry], limits: Sequence[int]) -> Entry:
    """Whether each start is from 0 to its limit."""
    inside: Entry = np.True_
    for start, limit in zip(starts, limits, strict=True):
        if start.dtype.kind == "i":
            inside = graph.make("and", BOOL, inside, graph.make("ge", BOOL, start, start.dtype.type(0)))
        below = graph.make("le", BOOL, start, start.dtype.type(limit)) if limit >= 0 else np.False_
        inside = graph.make("and", BOOL, inside, below)
    return inside


def _gather(self: _Scalars, operation, inputs):
    """Slices of x that begin at the rows of `indices`, laid out as XLA defines it."""
    (x, indices), how, graph = inputs, operation.how, self.graph
    sizes, (out,) = how.sizes, operation.outs
    dtype, shape = out.dtype, out.shape
    limits = [full - size for full, size in zip(x.shape, sizes, strict=True)]
    fill = np.asarray(filling(dtype) if how.fill is None else how.fill, dtype)[()]
    batch_shape = indices.shape[:-1]
    slices = np.empty(batch_shape, object)
    for batch in np.ndindex(batch_shape):
        starts = _starts(how, x.ndim, indices, batch)

        def at(*first, sizes=sizes):
            return x[tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))]

        entry = self.resolve(starts, [limit + 1 for limit in limits], at, dtype)
        if how.fills:
            inside = _inside(graph, starts, limits)
            entry = each(lambda e: graph.select(inside, e, fill, dtype), entry)
        slices[batch] = entry.reshape([sizes[axis] for axis in how.inside])
    return _laid_out(slices, batch_shape, tuple(how.inside.values()), shape)


def _laid_out(slices: np.ndarray, batch_shape: tuple[int, ...], offset_dims: Sequence[int], shape) -> np.ndarray:
    result = np.empty(shape, object)
    batch_axes = [axis for axis in range(len(shape)) if axis not in offset_dims]
    for batch in np.ndindex(batch_shape):
        where: list[Any] = [slice(None)] * len(shape)
        for axis, index in zip(batch_axes, batch, strict=True):
            where[axis] = index
        if any(isinstance(w, slice) for w in where):
            result[tuple(where)] = slices[batch]
        else:
            result[tuple(where)] = slices[batch][()]
    return result


def _scatter(combine: str | None):
    """x with updates written to, or combined with, the entries they land on, in order; those outside are dropped."""

    def scatter(self: _Scalars, operation, inputs):
        (x, indices, updates), how = inputs, operation.how
        dtype, graph = operation.outs[0].dtype, self.graph
        sizes = [updates.shape[how.inside[axis]] if axis in how.inside else 1 for axis in range(x.ndim)]
        batch_dims = [d for d in range(updates.ndim) if d not in how.inside.values()]
        result = x.copy()

        def joined(old: Entry, new: Entry) -> Entry:
            if combine is not None:
                return graph.make(combine, dtype, old, new)
            if how.function is None:
                return new
            (result,) = self.run(how.function, [_scalar(old), _scalar(new)])
            return result[()]

        for batch in np.ndindex(indices.shape[:-1]):
            starts = _starts(how, x.ndim, indices, batch)
            where: list[Any] = [slice(None)] * updates.ndim
            for d, index in zip(batch_dims, batch, strict=True):
                where[d] = index
            update = updates[tuple(where)]
            update = update if isinstance(update, np.ndarray) else _scalar(update)
            before, limits = result, [full - size for full, size in zip(x.shape, sizes, strict=True)]
            inside = np.True_ if how.clips else _inside(graph, starts, limits)
            if min(limits, default=0) < 0 or (is_known(inside) and not inside):
                continue
            is_fixed = is_known(inside) and all(value_of(start) is not None for start in starts)

            def at(*first):
                place = tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))
                changed = before if is_fixed else before.copy()
                changed[place] = each(joined, before[place], update.reshape(before[place].shape))
                return changed

            changed = self.resolve(starts, [limit + 1 for limit in limits], at, dtype)
            result = changed if is_known(inside) else self.choose(inside, changed, before, dtype)
        return result

    return scatter


def _execute(self: _Scalars, operation, inputs):
    """Instructions (numerics.instructions), written out."""
    program, data = operation.how, inputs[0]
    dtype, graph = operation.outs[0].dtype, self.graph
    numbers = [*(as_number(c, dtype) for c in program.constants), *data]
    fixed = inputs[1] if len(inputs) > 1 else numbers
    ends = program.ends.tolist()
    for k, (base, divisor) in enumerate(zip(program.base.tolist(), program.divisor.tolist(), strict=True)):
        z = numbers[base]
        for p in range(ends[k], ends[k + 1]):
            z = graph.make("sub", dtype, z, self.mul(fixed[program.left[p]], numbers[program.right[p]], dtype))
        numbers.append(z if divisor == program.one else graph.make("div", dtype, z, fixed[divisor]))
    results = np.empty(len(numbers), object)
    results[:] = numbers
    return results


SPECIAL: dict[str, Callable] = {
    "reduce_sum": _reduction("add"),
    "reduce_prod": _reduction("mul"),
    "reduce_max": _reduction("max"),
    "reduce_min": _reduction("min"),
    "reduce_and": _reduction("and"),
    "reduce_or": _reduction("or"),
    "reduce_xor": _reduction("xor"),
    "argmax": _arg("gt"),
    "argmin": _arg("lt"),
    "cumsum": _cumulative("add"),
    "cumprod": _cumulative("mul"),
    "cummax": _cumulative("max"),
    "cummin": _cumulative("min"),
    "dot_general": _dot_general,
    "execute_instructions": _execute,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter(None),
    "scatter-add": _scatter("add"),
    "scatter-sub": _scatter("sub"),
    "scatter-mul": _scatter("mul"),
    "scatter-min": _scatter("min"),
    "scatter-max": _scatter("max"),
}


# --- control ----------------------------------------------------------------------------------------------------------


def _cond(self: _Scalars, operation, inputs):
    """Every branch is computed and one selected, as under vmap; a known index takes its branch alone."""
    which, operands = inputs[0][()], inputs[1:]
    branches = operation.how.branches
    value = value_of(which)
    if value is not None:
        return self.run(branches[int(np.clip(int(value), 0, len(branches) - 1))], operands)
    results = [self.run(branch, operands) for branch in branches]
    chosen = results[0]
    for k, result in enumerate(results[1:], start=1):
        beyond = which if which.dtype == BOOL else self.graph.make("ge", BOOL, which, which.dtype.type(k))
        chosen = [
            self.choose(beyond, there, before, out.dtype)
            for there, before, out in zip(result, chosen, operation.outs, strict=True)
        ]
    return chosen


def _while(self: _Scalars, operation, inputs):
    how = operation.how
    cond_consts, body_consts, start = inputs[: how.tested], inputs[how.tested : how.fixed], inputs[how.fixed :]
    shapes = [x.shape for x in start]
    dtypes = [out.dtype for out, x in zip(operation.outs, start, strict=True) for _ in range(x.size)]

    def conditions(entries):
        (result,) = self.run(how.condition, [*cond_consts, *unflatten(entries, shapes)])
        return result

    def turn(entries):
        new = self.run(how.body, [*body_consts, *unflatten(entries, shapes)])
        which = conditions(entries) if several else None
        if which is not None:  # a loop under jax.vmap: each of its members ends by itself
            old = unflatten(entries, shapes)
            spread = [which.reshape(which.shape + (1,) * (x.ndim - which.ndim)) for x in old]
            new = [each(lambda w, a, b: self.graph.select(w, a, b, a.dtype), *three)
                   for three in zip(spread, new, old, strict=True)]  # fmt: skip
        return flatten(new)

    def goes_on(entries):
        return functools.reduce(lambda a, b: self.graph.make("or", BOOL, a, b), flatten([conditions(entries)]))

    several = how.condition.out_avals[0].ndim > 0
    body = how.body.jaxpr
    handed_on = [new is old for new, old in zip(body.outvars, body.invars[how.consts :], strict=True)]
    guess = [moves for same, x in zip(handed_on, start, strict=True) for moves in _guessed(x, same)]
    return unflatten(self.graph.loop(flatten(start), dtypes, turn, goes_on, guess), shapes)


def _guessed(begun: np.ndarray, is_handed_on: bool) -> list[bool]:
    """Which entries of an array the turns of a loop probably change: unknown entries, counters, flags and sums; not
    the known entries of other arrays, whose zeros may stay."""
    entries = list(begun.flat)
    is_begun_alike = begun.ndim <= 1 and all(map(is_known, entries)) and len({e.tobytes() for e in entries}) == 1
    return [not is_handed_on and (is_begun_alike or not is_known(entry)) for entry in entries]


def _scan(self: _Scalars, operation, inputs):
    """Written out; a long one without series in or out is a loop that counts."""
    n_consts, n_carry, length, is_reverse, _, closed = operation.how
    consts, carry, xs = inputs[:n_consts], inputs[n_consts : n_consts + n_carry], inputs[n_consts + n_carry :]
    order = range(length - 1, -1, -1) if is_reverse else range(length)
    ys_of = operation.outs[n_carry:]

    def body(carry, x):
        result = self.run(closed, [*consts, *carry, *x])
        return result[:n_carry], result[n_carry:]

    if length * count_operations(closed.jaxpr) > UNROLLED:
        if xs or ys_of:
            raise Unprintable(f"a scan of {length} turns over series")
        shapes = [x.shape for x in carry]
        dtypes = [out.dtype for out, x in zip(operation.outs, carry, strict=True) for _ in range(x.size)]

        def turn(entries):
            moved = flatten(body(unflatten(entries[1:], shapes), [])[0])
            return [self.graph.make("add", INT32, entries[0], np.int32(1)), *moved]

        def goes_on(entries):
            return self.graph.make("lt", BOOL, entries[0], np.int32(length))

        begun = [np.int32(0), *flatten(carry)]
        guess = [True, *(not is_known(entry) for entry in begun[1:])]
        results = self.graph.loop(begun, [INT32, *dtypes], turn, goes_on, guess)
        return unflatten(results[1:], shapes)
    ys = [np.empty(out.shape, object) for out in ys_of]
    for k in order:
        carry, outputs = body(carry, [x[k : k + 1].reshape(x.shape[1:]) for x in xs])
        for y, output in zip(ys, outputs, strict=True):
            y[k] = output if output.ndim else output[()]
    return [*carry, *ys]


def _linear_solve(self: _Scalars, operation, inputs):
    """The solution alone: how to multiply and how to transpose are for derivatives."""
    how = operation.how
    return self.run(how.solve, [*inputs[how.of], *inputs[how.rest :]])


CONTROL: dict[str, Callable] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _linear_solve,
    "optimization_barrier": lambda self, operation, inputs: inputs,  # a node is computed only once anyway
}


# --- inside traces ----------------------------------------------------------------------------------------------------

RANDOM = {"random_bits", "random_seed", "random_wrap", "random_unwrap", "random_split", "random_fold_in"}
