"""The trace of a function of large arrays -> loops over their entries, whose bodies are graphs of scalars.

Chains of element-wise equations are fused because rules compose. The arrays kept in memory are those that are costly
and read more than once. The text is as long as the trace, whatever the sizes of the arrays are. An operation outside
the lists stops the evaluation with Unprintable and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core

from stodyn.numerics.facts.exact_zeros import follow
from stodyn.numerics.printing import elementary
from stodyn.numerics.printing import operations as kinds
from stodyn.numerics.printing.arrays import FEW, Array, Arrays, Index, Stored, broadcast
from stodyn.numerics.printing.entrywise import PRINTED, TABLE, Row, Zeros
from stodyn.numerics.printing.flat import Equation, Value, flattened
from stodyn.numerics.printing.nodes import BOOL, Entry
from stodyn.numerics.printing.scalars import TYPES
from stodyn.numerics.printing.table import EVERY, counted, row_of
from stodyn.numerics.printing.turns import TURNS
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.printing.views import VIEWS

CHEAP = 3  # operations of an entry below which it is computed again wherever it is read
FUNCTION = 10  # operations that an elementary function counts for
AT_ONCE = 4_000_000  # entries of a known array that is computed beforehand
DEEP = 120  # rules, one inside another, up to which they are followed: they call each other
ROOM = 4  # times the entries of the inputs: larger arrays (of pairs) are not kept


class ArrayTraces(Arrays):
    """Arrays from traces."""

    room = 0  # entries of the largest array that is kept

    def run(self, closed: core.ClosedJaxpr, arguments: Sequence[Array]) -> list[Array]:
        """The outputs of a traced function, from arrays of its input shapes."""
        inputs, equations, results = flattened(closed)
        self.room = max(self.room, ROOM * sum(a.size for a in arguments))
        values: dict[int, Array] = {id(v): a for v, a in zip(inputs, arguments, strict=True)}

        def read(value: Value) -> Array:
            if id(value) not in values:
                assert value.number is not None
                values[id(value)] = self.constant(value.number)
            return values[id(value)]

        for equation in equations:
            operands = [read(v) for v in equation.inputs]
            outputs = self.apply(equation, operands)
            facts = follow(equation.operation, [x.fact for x in operands])
            for value, array, fact in zip(equation.outputs, outputs, facts, strict=True):
                if array.known is None and not isinstance(array, Stored):
                    array.depth = max(array.depth, 1 + max((x.depth for x in operands), default=0))
                values[id(value)] = self.in_memory(array) if self._is_kept(value, array) else array
                values[id(value)].fact = fact
        return [read(v) for v in results]

    def _is_kept(self, value: Value, x: Array) -> bool:
        if x.known is not None or not x.shape:
            return not x.shape and x.cost > 0
        times, spread = _read(value)
        if x.size > self.room:
            return False
        return (x.cost >= CHEAP and times > 1) or (x.cost > 1 and spread) or x.depth > DEEP

    def apply(self, equation: Equation, inputs: list[Array]) -> list[Array]:
        name = equation.name
        for value in (*equation.inputs, *equation.outputs):
            if value.aval.dtype not in TYPES:
                raise Unprintable(f"{name} of numbers of type {value.aval.dtype}")
        known = self._computed(equation, inputs)
        if known is not None:
            return [known]
        kind = equation.operation.kind
        rule = VIEWS.get(kind) or TURNS.get(kind)
        if rule is not None:
            results = rule(self, equation, inputs)
            return results if isinstance(results, list) else [results]
        if name in PRINTED:
            return [self.elementwise(equation, inputs)]
        raise Unprintable(f"primitive {name} is not among the operations that are printed as loops")

    def _computed(self, equation: Equation, inputs: Sequence[Array]) -> Array | None:
        """The result where all inputs are known and it is not too large."""
        how, out = equation.how, equation.outputs[0].aval
        if not all(x.known is not None for x in inputs) or len(equation.outputs) > 1 or out.size > AT_ONCE:
            return None
        arrays: list[Any] = [x.known for x in inputs]
        if isinstance(how, kinds.Counted):
            return self.constant(counted(how))
        if not out.shape or not inputs:
            return None
        row = row_of(equation.operation)
        if row.data is EVERY:
            moved = row.numpy(how, *arrays)
            return self.constant(np.asarray(moved[0] if isinstance(moved, list) else moved, out.dtype))
        if row.zeros is Zeros.COPIED and out.dtype.kind in "iub" and arrays[0].dtype.kind in "iub":
            return self.constant(arrays[0].astype(out.dtype))
        if row.zeros is Zeros.CHOSEN and arrays[0].dtype == BOOL:
            return self.constant(np.where(arrays[0], arrays[2], arrays[1]).astype(out.dtype))
        if row.is_exact:
            with np.errstate(all="ignore"):
                return self.constant(np.asarray(row.numpy(*arrays), out.dtype))
        return None

    def elementwise(self, equation: Equation, inputs: list[Array]) -> Array:
        row, out, graph, how = TABLE[equation.name], equation.outputs[0].aval, self.graph, equation.how
        rule = PRINTED[equation.name]
        price = FUNCTION if equation.name in elementary.NAMES else not row.is_free
        factors = inputs[: row.factors]
        zeros = [(x, is_zero) for x, is_zero in zip(factors, self.zeros_of(inputs), strict=False) if is_zero]
        is_choice = row.zeros is Zeros.FACTOR and len(zeros) == 1 and _is_of_truths(zeros[0][0])

        def at(index: Index) -> Entry:
            entries = [x.at(broadcast(x.shape, index)) for x in inputs]
            if is_choice:  # a product with zeros and ones
                (entry,) = [e for e, x in zip(entries, inputs, strict=True) if x is not zeros[0][0]]
            else:
                entry = rule(graph, out.dtype, how, *entries)
            for x, is_zero in zeros:
                entry = graph.select(is_zero(broadcast(x.shape, index)), out.dtype.type(0), entry, out.dtype)
            return entry

        return Array(out.shape, out.dtype, at, price + sum(x.cost for x in inputs))


def _is_of_truths(x: Array) -> bool:
    """Whether all entries are known to be 0 or 1."""
    return x.known is not None and bool(((x.known == 0) | (x.known == 1)).all())


def _read(value: Value) -> tuple[int, bool]:
    """How often an array is read, and whether one of its entries is needed for many entries of a result."""
    times, spread = int(value.is_result), False
    for reader in value.readers:
        out, how = reader.outputs[0], reader.how
        row = TABLE.get(reader.name)
        is_wider = out.aval.size > FEW * value.aval.size
        if isinstance(how, kinds.Reshaped | kinds.Squeezed | kinds.Expanded | kinds.Spread) or _is_copy(row):
            more, wide = _read(out)
            times, spread = times + more, spread or wide or (isinstance(how, kinds.Spread) and is_wider)
        elif isinstance(how, kinds.Dot):
            times, spread = times + 1, spread or out.aval.size > FEW
        elif isinstance(how, kinds.Gather):
            times, spread = times + 1, spread or is_wider
        else:
            times, spread = times + 1, spread or (row is not None and is_wider and value.aval.size > 1)
    return times, spread


def _is_copy(row: Row | None) -> bool:
    return row is not None and row.zeros is Zeros.COPIED
