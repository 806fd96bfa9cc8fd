"""Tables of the instruction z = (base - Σ left right)/divisor, executed one after another: the steps of an elimination.

    numbers  0, 1, -1, then the inputs, then the results in their order

An instruction names its operands by their numbers; it reads inputs and results before its own. `left` and
`divisor` may be taken from another array, that of a program executed before: then they are numbers of its operands. As
data a program is as long as the work; as text it is one loop, in machine code (printing/turns.py) and in XLA, where
instructions that do not wait for each other are executed together, for all paths at once.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from stodyn.numerics.printing.operations import EXECUTED

ZERO, ONE, MINUS_ONE, LED = 0, 1, 2, 3  # the constants in front of the numbers of a program
SLOTS = 32  # instructions that XLA executes together
WIDEST = 8  # sums of up to this many products are written out there


@dataclasses.dataclass(frozen=True, eq=False)
class Instructions:
    """A program for `inputs` numbers.

    base, divisor  (count,) operands of each instruction
    ends           (count + 1,) where its products begin and end in left, right
    fixed          how many numbers the array has from which left and divisor are taken; None: from the program's own
    """

    inputs: int
    base: np.ndarray
    divisor: np.ndarray
    ends: np.ndarray
    left: np.ndarray
    right: np.ndarray
    fixed: int | None = None

    led, one = LED, ONE
    constants = (0.0, 1.0, -1.0)

    @property
    def count(self) -> int:
        return len(self.base)

    @property
    def size(self) -> int:
        """How many numbers there are: constants, inputs and results."""
        return LED + self.inputs + self.count

    @property
    def operations(self) -> int:
        return 2 * len(self.left) + int(np.count_nonzero(self.divisor != ONE))

    @functools.cached_property
    def packed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """base + 2^32 divisor, ends, left + 2^32 right."""
        base, divisor, left, right = (x.astype(np.int64) for x in (self.base, self.divisor, self.left, self.right))
        return base + (divisor << 32), self.ends.astype(np.int64), left + (right << 32)

    @functools.cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        for table in self.packed:
            digest.update(table.data)
        return digest.hexdigest()

    def __repr__(self) -> str:  # which distinguishes traces
        return f"Instructions(given={self.inputs}, fixed={self.fixed}, {self._digest})"

    @functools.cached_property
    def grouped(self) -> _Grouped:
        return _grouped(self)


def execute(program: Instructions, data: Array, fixed: Array | None = None) -> Array:
    """The numbers of a program: the constants, the inputs, and the results."""
    return execute_p.bind(data, *(() if fixed is None else (fixed,)), program=program)


execute_p = Primitive(EXECUTED)


@execute_p.def_abstract_eval
def _shape(data, *fixed, program):
    return data.update(shape=(program.size,))


def _for_paths(data: Array, *fixed: Array, program: Instructions) -> Array:
    """The numbers of a program for arrays (numbers, paths)."""
    paths = max(x.shape[1] for x in (data, *fixed))
    numbers = led(jnp.broadcast_to(data, (len(data), paths)))
    return _executed(program.grouped, numbers, *fixed)


def _of_one(data: Array, *fixed: Array, program: Instructions) -> Array:
    return _for_paths(*(x[:, None] for x in (data, *fixed)), program=program)[:, 0]


def _batched(arguments: Any, axes: Any, *, program: Instructions) -> tuple[Array, int]:
    columns = [x[:, None] if axis is None else jnp.moveaxis(x, axis, -1)
               for x, axis in zip(arguments, axes, strict=True)]  # fmt: skip
    return _for_paths(*columns, program=program), 1


execute_p.def_impl(_of_one)
mlir.register_lowering(execute_p, mlir.lower_fun(_of_one, multiple_results=False))
batching.primitive_batchers[execute_p] = _batched


# --- in XLA -----------------------------------------------------------------------------------------------------------


class _Grouped(NamedTuple):
    """Groups of SLOTS instructions that read only results of groups before them; where each result of the program is.

    base and divisor (groups, SLOTS), left and right (groups, width, SLOTS)
    """

    base: np.ndarray
    left: np.ndarray
    right: np.ndarray
    divisor: np.ndarray
    places: np.ndarray


def _grouped(program: Instructions) -> _Grouped:
    first, is_fixed = LED + program.inputs, program.fixed is not None
    mean = len(program.left) / max(program.count, 1)
    width = min(1 << max(round(math.log2(mean + 1.0)), 1), WIDEST)  # two at the least, to add results up
    groups: list[list[tuple[int, list[tuple[int, int]], int]]] = []

    def write(base: int, products: list[tuple[int, int]], divisor: int) -> int:
        """Where the result will be; longer sums are made of several."""
        while len(products) > width:
            parts = [products[k : k + width] for k in range(0, len(products), width)]
            products = [(MINUS_ONE, write(ZERO, part, ONE)) for part in parts]
        read = [base, *(right for _, right in products)]
        if not is_fixed:
            read += [divisor, *(left for left, _ in products)]
        group = max((at - first) // SLOTS + 1 if at >= first else 0 for at in read)
        while group < len(groups) and len(groups[group]) == SLOTS:
            group += 1
        if group == len(groups):
            groups.append([])
        groups[group].append((base, products, divisor))
        return first + group * SLOTS + len(groups[group]) - 1

    places = list(range(first))
    ends, left, right = (x.tolist() for x in (program.ends, program.left, program.right))
    for k, (base, divisor) in enumerate(zip(program.base.tolist(), program.divisor.tolist(), strict=True)):
        those = range(ends[k], ends[k + 1])
        own = [(left[p] if is_fixed else places[left[p]], places[right[p]]) for p in those]
        places.append(write(places[base], own, divisor if is_fixed else places[divisor]))
    shape = (len(groups), SLOTS)
    bases, divisors = np.full(shape, ZERO, np.int32), np.full(shape, ONE, np.int32)
    lefts, rights = np.full((2, len(groups), width, SLOTS), ZERO, np.int32)
    for g, group in enumerate(groups):
        for s, (of, products, by) in enumerate(group):
            bases[g, s], divisors[g, s] = of, by
            for q, (a, b) in enumerate(products):
                lefts[g, q, s], rights[g, q, s] = a, b
    return _Grouped(bases, lefts, rights, divisors, np.array(places, np.int32))


def _executed(groups: _Grouped, numbers: Array, fixed: Array | None = None) -> Array:
    """The numbers (numbers, paths) of a program, from those before its results."""
    *tables, places = groups
    count, first = len(groups.base), len(numbers)
    if not count:
        return numbers
    state = jnp.concatenate([numbers, jnp.zeros((count * SLOTS, numbers.shape[1]), numbers.dtype)])

    def group(k, state):
        base, left, right, divisor = lax.optimization_barrier(tuple(jnp.asarray(table)[k] for table in tables))
        other = state if fixed is None else fixed
        z = rows_of(state, base)
        for q in range(len(left)):
            z = z - rows_of(other, left[q]) * rows_of(state, right[q])
        z = lax.optimization_barrier(z / rows_of(other, divisor))  # else the state would be copied for every group
        return lax.dynamic_update_slice(state, z, (first + k * SLOTS, 0))

    return rows_of(lax.fori_loop(0, count, group, state), places)


def rows_of(a: Array, at: Any) -> Array:
    """The rows of a (entries, paths) at these places, which must exist."""
    return jnp.asarray(a).at[at].get(mode="promise_in_bounds")


def led(values: Array) -> Array:
    """Values (entries, paths) after the constants 0, 1, -1."""
    constants = np.array(Instructions.constants)[:, None]
    return jnp.concatenate([jnp.broadcast_to(jnp.asarray(constants, values.dtype), (LED, values.shape[1])), values])
