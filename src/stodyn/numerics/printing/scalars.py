"""The trace of a function of small arrays -> the graph of its scalars.

The trace is evaluated on NumPy object arrays whose entries are numbers known from its structure or nodes of a graph.
Every array operation falls apart into operations between scalars, known zeros and ones vanish, so that a Jacobian from
jax.jacfwd arrives sparse; data are moved by moving the entries. Nothing here is compiled.

Nothing is guessed. A primitive is on one of the lists below (element-wise, data movement, reduction, control), or the
evaluation stops with Unprintable and the reason, and the caller falls back to jax.vmap.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.entrywise import PRINTED, TABLE
from stodyn.numerics.printing.fingerprints import digest_of
from stodyn.numerics.printing.nodes import BOOL, INT32, Entry, Graph, as_number, identity_of, is_known, value_of
from stodyn.numerics.printing.operations import Gather, Operation, Scatter
from stodyn.numerics.printing.table import filling, parts_of, row_of
from stodyn.numerics.printing.trace import count_operations, interpret
from stodyn.numerics.printing.unprintable import LongTable, TooManySelections, Unprintable, or_unprintable

TYPES = {np.dtype(t) for t in ("float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                               "uint64", "bool")}  # fmt: skip
UNROLLED = 4000  # equations of a scan, all turns together, up to which it is written out
SELECTED_POSITIONS = 256  # an index that differs between paths is resolved by at most this many selections
MOST_SELECTED = 100_000  # selections of one trace: making them takes about a second, and programs are smaller


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


class _Made(NamedTuple):
    """A loop that has been traced; its operands are kept, since they are known by their places in memory."""

    operation: Operation
    operands: list[np.ndarray]
    results: list[np.ndarray]


class _Scalars:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.loops: dict[Any, list[_Made]] = {}  # by their operands
        self.selected = 0

    def run(self, trace: Any, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        return interpret(trace, arguments, self.apply, self.literal)

    def literal(self, numbers: Any) -> np.ndarray:
        """Numbers written in the trace: a single one as a literal, those of an array as its structure."""
        x = np.asarray(numbers)
        if x.ndim == 0 and x.dtype.kind == "f" and x.dtype in TYPES:
            return _scalar(self.graph.literal(as_number(x, x.dtype)))
        return known_entries(x)

    def apply(self, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
        name, kind = operation.name, operation.kind
        if kind in CONTROL:
            return CONTROL[kind](self, operation, inputs)
        if operation.has_effects:
            raise Unprintable(f"{name} has a side effect")
        for out in operation.outs:
            if out.dtype not in TYPES and out.dtype != jax.dtypes.float0:
                raise Unprintable(f"{name} gives numbers of type {out.dtype}")
        if kind in SPECIAL:
            return [SPECIAL[kind](self, operation, inputs)]
        row = row_of(operation)
        if row.data:
            moved = row.numpy(operation.how, *inputs) if inputs else known_entries(row.numpy(operation.how))
            return moved if isinstance(moved, list) else [moved]
        if name in PRINTED:
            return [self.elementwise(operation, inputs)]
        if all(map(all_known, inputs)) and name not in RANDOM:
            return self.computed(operation, inputs)
        raise Unprintable(f"primitive {name} is not among the printed operations")

    def elementwise(self, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
        rule, (out,) = PRINTED[operation.name], operation.outs
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
        self.selected += yes.size
        if self.selected > MOST_SELECTED:
            raise TooManySelections(
                f"indices that differ between paths, resolved by more than {MOST_SELECTED} selections"
            )
        return each(lambda a, b: self.graph.select(which, a, b, dtype), yes, no)

    def joined_at(self, start: Entry, inside: Entry, x: np.ndarray, changed: np.ndarray, dtype: Any) -> np.ndarray:
        """x (n,) with the entry `start` from `changed`, if it is inside."""
        result = x.copy()
        for p in range(min(len(x), np.iinfo(start.dtype).max + 1)):
            here = self.graph.make("eq", BOOL, start, start.dtype.type(p))
            here = self.graph.make("and", BOOL, inside, here)
            result[p : p + 1] = self.choose(here, changed[p : p + 1], x[p : p + 1], dtype)
        return result

    def pick(self, start: Entry, positions: int, at: Callable[[int], np.ndarray], dtype: Any) -> np.ndarray:
        """at(start), start an index from 0 to positions - 1 that may differ from path to path."""
        value = value_of(start)
        if value is not None:
            return at(int(np.clip(int(value), 0, positions - 1)))
        if positions > SELECTED_POSITIONS:
            raise LongTable(f"an index that differs between paths, over more than {SELECTED_POSITIONS} positions")
        result = at(0)
        for p in range(1, min(positions, np.iinfo(start.dtype).max + 1)):  # further ones are beyond what an int8 counts
            beyond = self.graph.make("ge", BOOL, start, start.dtype.type(p))
            result = self.choose(beyond, at(p), result, dtype)
        return result

    def resolve(
        self, starts: Sequence[Entry], positions: Sequence[int], at: Callable[..., np.ndarray], dtype: Any
    ) -> np.ndarray:
        """at(*starts), each start an index below its number of positions."""
        unknown = math.prod(p for s, p in zip(starts, positions, strict=True) if value_of(s) is None)
        if unknown > SELECTED_POSITIONS:
            raise LongTable(f"an index that differs between paths, over more than {SELECTED_POSITIONS} positions")

        def deeper(indices: tuple[int, ...]) -> np.ndarray:
            if len(indices) == len(starts):
                return at(*indices)
            place = len(indices)
            return self.pick(starts[place], positions[place], lambda p: deeper((*indices, p)), dtype)

        return deeper(())


def each(scalar: Callable[..., Entry], *inputs: np.ndarray, shape: tuple[int, ...] | None = None) -> np.ndarray:
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


# --- reductions and products ------------------------------------------------------------------------------------------


def _reduction(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    (x,), dtype, (axes, fold) = inputs, operation.outs[0].dtype, operation.how
    for axis in sorted(axes, reverse=True):
        if x.shape[axis] == 0:
            x = known_entries(np.full(np.delete(x.shape, axis), TABLE[fold].neutral(dtype), dtype))
            continue
        total, *parts = parts_of(x, axis)
        for part in parts:
            total = each(lambda a, b: self.graph.make(fold, dtype, a, b), total, part)
        x = total
    return x


def _cumulative(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    (x,), dtype, (axis, backwards, fold) = inputs, operation.outs[0].dtype, operation.how
    parts = parts_of(x, axis)
    if not parts:
        return x
    sums = parts[-1:] if backwards else parts[:1]
    for part in parts[-2::-1] if backwards else parts[1:]:
        sums.append(each(lambda a, b: self.graph.make(fold, dtype, a, b), sums[-1], part))
    return np.stack(sums[::-1] if backwards else sums, axis)


def _extreme_place(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    (x,), ((axis,), fold), graph = inputs, operation.how, self.graph
    index, better = operation.outs[0].dtype, "gt" if fold == "max" else "lt"
    best, *parts = parts_of(x, axis)
    where = each(lambda _: index.type(0), best)

    def beats(candidate: Entry, champion: Entry) -> Entry:
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


def _dot_general(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    (out,) = operation.outs
    dtype = np.dtype(out.dtype)
    if any(operand.dtype != dtype and operand.dtype.kind != "f" for operand in operation.ins):
        raise Unprintable("dot_general between numbers of different kinds")
    a, b = operation.how.arranged(
        *(each(lambda entry: self.graph.convert(entry, dtype), x) if operand.dtype != dtype else x
          for x, operand in zip(inputs, operation.ins, strict=True))
    )  # fmt: skip
    result = np.empty((*a.shape[:2], b.shape[1]), object)
    for s, i, j in np.ndindex(result.shape):
        total = dtype.type(0)
        for left, right in zip(a[s, i], b[s, j], strict=True):
            if not ((is_known(left) and left == 0) or (is_known(right) and right == 0)):
                total = self.add(total, self.mul(left, right, dtype), dtype)
        result[s, i, j] = total
    return result.reshape(out.shape)


# --- moved from or to where other operands say -----------------------------------------------------------------------


def _dynamic_slice(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    x, starts, sizes = inputs[0], [s[()] for s in inputs[1:]], operation.how.sizes

    positions = [full - size + 1 for full, size in zip(x.shape, sizes, strict=True)]
    return self.resolve(starts, positions, _slices(x, sizes), operation.outs[0].dtype)


def _slices(x: np.ndarray, sizes: Sequence[int]) -> Callable[..., np.ndarray]:
    """The slice of x with these sizes, as a function of where it begins along each axis."""
    return lambda *first: x[tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))]


def _dynamic_update_slice(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    x, update, starts = inputs[0], inputs[1], [s[()] for s in inputs[2:]]

    def at(*first: int) -> np.ndarray:
        changed = x.copy()
        changed[tuple(slice(p, p + size) for p, size in zip(first, update.shape, strict=True))] = update
        return changed

    positions = [full - size + 1 for full, size in zip(x.shape, update.shape, strict=True)]
    return self.resolve(starts, positions, at, operation.outs[0].dtype)


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
        highest = min(limit, np.iinfo(start.dtype).max)
        below = graph.make("le", BOOL, start, start.dtype.type(highest)) if limit >= 0 else np.False_
        inside = graph.make("and", BOOL, inside, below)
    return inside


def _moved_inside(graph: Graph, start: Entry, limit: int) -> Entry:
    """The start from 0 to its limit that is nearest."""
    lowest, highest = start.dtype.type(0), start.dtype.type(min(limit, np.iinfo(start.dtype).max))
    return graph.make("min", start.dtype, graph.make("max", start.dtype, start, lowest), highest)


def _gather(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
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
        entry = self.resolve(starts, [limit + 1 for limit in limits], _slices(x, sizes), dtype)
        if how.fills:
            inside = _inside(graph, starts, limits)
            entry = each(lambda e: graph.select(inside, e, fill, dtype), entry)
        slices[batch] = entry.reshape([sizes[axis] for axis in how.inside])
    return _laid_out(slices, batch_shape, tuple(how.inside.values()), shape)


def _laid_out(
    slices: np.ndarray, batch_shape: tuple[int, ...], offset_dims: Sequence[int], shape: Sequence[int]
) -> np.ndarray:
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


def _scatter(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    """x with updates written to, or combined with, the entries they land on, in order; those outside are dropped."""
    (x, indices, updates), how = inputs, operation.how
    dtype, graph = operation.outs[0].dtype, self.graph
    sizes = [updates.shape[how.inside[axis]] if axis in how.inside else 1 for axis in range(x.ndim)]
    batch_dims = [d for d in range(updates.ndim) if d not in how.inside.values()]
    result = x.copy()

    def joined(old: Entry, new: Entry) -> Entry:
        if how.fold is not None:
            return graph.make(how.fold, dtype, old, new)
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
        if before.ndim == 1 and not is_fixed and sizes == [1]:
            start = _moved_inside(graph, starts[0], limits[0]) if how.clips else starts[0]
            result = self.joined_at(start, inside, before, each(joined, before, update.reshape(1)), dtype)
            continue

        def at(*first: int) -> np.ndarray:
            place = tuple(slice(p, p + size) for p, size in zip(first, sizes, strict=True))
            changed = before if is_fixed else before.copy()
            changed[place] = each(joined, before[place], update.reshape(before[place].shape))
            return changed

        changed = self.resolve(starts, [limit + 1 for limit in limits], at, dtype)
        result = changed if is_known(inside) else self.choose(inside, changed, before, dtype)
    return result


def _execute(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    """Instructions (numerics.instructions), written out."""
    program, data = operation.how.program, inputs[0]
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


SPECIAL: dict[type, Callable[[_Scalars, Operation, list[np.ndarray]], np.ndarray]] = {
    kinds.Reduced: _reduction,
    kinds.Extreme: _extreme_place,
    kinds.Cumulated: _cumulative,
    kinds.Dot: _dot_general,
    kinds.Executed: _execute,
    kinds.SliceAt: _dynamic_slice,
    kinds.UpdateAt: _dynamic_update_slice,
    kinds.Gather: _gather,
    kinds.Scatter: _scatter,
}


# --- control ----------------------------------------------------------------------------------------------------------


def _cond(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
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


def _while(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """A loop; one that repeats another, of the same operands, is that one."""
    alike = self.loops.setdefault(tuple(map(identity_of, flatten(inputs))), [])
    for earlier in alike:
        if digest_of(earlier.operation) == digest_of(operation):
            return earlier.results
    alike.append(_Made(operation, inputs, _turned(self, operation, inputs)))
    return alike[-1].results


def _turned(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
    how = operation.how
    cond_consts, body_consts, start = inputs[: how.tested], inputs[how.tested : how.fixed], inputs[how.fixed :]
    shapes = [x.shape for x in start]
    dtypes = [out.dtype for out, x in zip(operation.outs, start, strict=True) for _ in range(x.size)]

    def conditions(entries: list[Entry]) -> np.ndarray:
        (result,) = self.run(how.condition, [*cond_consts, *unflatten(entries, shapes)])
        return result

    def turn(entries: list[Entry]) -> list[Entry]:
        new = self.run(how.body, [*body_consts, *unflatten(entries, shapes)])
        which = conditions(entries) if several else None
        if which is not None:  # a loop under jax.vmap: each of its members ends by itself
            old = unflatten(entries, shapes)
            spread = [which.reshape(which.shape + (1,) * (x.ndim - which.ndim)) for x in old]
            new = [each(lambda w, a, b: self.graph.select(w, a, b, a.dtype), *three)
                   for three in zip(spread, new, old, strict=True)]  # fmt: skip
        return flatten(new)

    def goes_on(entries: list[Entry]) -> Entry:
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


def _scan(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Written out; a long one without series in or out is a loop that counts."""
    n_consts, n_carry, length, is_reverse, _, closed = operation.how
    consts, carry, xs = inputs[:n_consts], inputs[n_consts : n_consts + n_carry], inputs[n_consts + n_carry :]
    order = range(length - 1, -1, -1) if is_reverse else range(length)
    ys_of = operation.outs[n_carry:]

    def body(carry: list[np.ndarray], x: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        result = self.run(closed, [*consts, *carry, *x])
        return result[:n_carry], result[n_carry:]

    if length * count_operations(closed.jaxpr) > UNROLLED:
        if xs or ys_of:
            raise Unprintable(f"a scan of {length} turns over series")
        shapes = [x.shape for x in carry]
        dtypes = [out.dtype for out, x in zip(operation.outs, carry, strict=True) for _ in range(x.size)]

        def turn(entries: list[Entry]) -> list[Entry]:
            moved = flatten(body(unflatten(entries[1:], shapes), [])[0])
            return [self.graph.make("add", INT32, entries[0], np.int32(1)), *moved]

        def goes_on(entries: list[Entry]) -> Entry:
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


def _linear_solve(self: _Scalars, operation: Operation, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The solution alone: how to multiply and how to transpose are for derivatives."""
    how = operation.how
    return self.run(how.solve, [*inputs[how.of], *inputs[how.rest :]])


CONTROL: dict[type, Callable[[_Scalars, Operation, list[np.ndarray]], list[np.ndarray]]] = {
    kinds.Cond: _cond,
    kinds.While: _while,
    kinds.Scan: _scan,
    kinds.LinearSolve: _linear_solve,
    kinds.Barrier: lambda self, operation, inputs: inputs,  # a node is computed only once anyway
}


# --- inside traces ----------------------------------------------------------------------------------------------------

RANDOM = {"random_bits", "random_seed", "random_wrap", "random_unwrap", "random_split", "random_fold_in"}
