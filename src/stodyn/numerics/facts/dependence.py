"""Which numbers of a function's result depend on which numbers of its arguments: a proof from the trace.

    y_i = x_i² + 0 x_j + p      depends on x_i and p

The trace of a function of few numbers is taken apart scalar by scalar, that of one of many followed a whole array at a
time, and scalar by scalar only where that does not tell: a proof costs as much as the function.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import scipy
from jax.extend import core

from stodyn.numerics.facts.entries import Entries, Fact, fact_about, follow
from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.nodes import Entry, Graph, Node, is_known, reachable
from stodyn.numerics.printing.operations import Operation
from stodyn.numerics.printing.scalars import inputs_of, scalarised
from stodyn.numerics.printing.trace import interpret, owners
from stodyn.numerics.printing.unprintable import Unprintable, or_else, or_unprintable

FOLLOWED = 64  # numbers in the arguments up to which each scalar of a trace is followed by itself


@dataclasses.dataclass(frozen=True, eq=False)
class Dependence:
    """What a result depends on.

    zero   of its shape: which of its entries are known to be zero
    rows   (entries, numbers of all arguments), true where an entry may depend on a number
    owner  (numbers,) the argument that each of them belongs to
    """

    zero: np.ndarray
    rows: scipy.sparse.csr_array
    owner: np.ndarray

    @property
    @or_else(lambda self: set(self.owner.tolist()))
    def arguments(self) -> set[int]:
        """The numbers of the arguments on which an entry depends."""
        return set(self.owner[self.rows.indices].tolist())

    @or_else(lambda self, argument: _everywhere(self.zero.size, int(np.sum(self.owner == argument))))
    def on(self, argument: int) -> scipy.sparse.csr_array:
        """(entries, numbers of that argument): where one depends on the other."""
        return self.rows[:, np.flatnonzero(self.owner == argument)]

    @or_else(lambda self, arguments: np.ones(self.zero.shape, bool))
    def varies(self, arguments: Iterable[int]) -> np.ndarray:
        """Which entries depend on one of these arguments, in the shape of the result."""
        moves = np.isin(self.owner, list(arguments))
        return (self.rows @ moves).reshape(self.zero.shape)


def _everywhere(rows: int, columns: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array(np.ones((rows, columns), bool))


def dependence(function: Callable, *arguments: Any) -> Dependence:
    """What the array function(*arguments) depends on; raises Unprintable where its trace does not tell.

    A zero of a Jacobian or of a diagonal matrix is known to be one, and so is 0·x. The trace is in double precision:
    single precision has zeros where the function has numbers below 1e-45.
    """
    with jax.enable_x64(True):
        return dependence_of(jax.make_jaxpr(function)(*arguments), arguments)


def arguments_of(function: Callable, *arguments: Any) -> set[int]:
    """The numbers of the arguments that function(*arguments) depends on; raises Unprintable likewise."""
    return dependence(function, *arguments).arguments


@or_unprintable()
def dependence_of(trace: core.ClosedJaxpr, arguments: Sequence[Any]) -> Dependence:
    """What the result of a trace of a function of `arguments` depends on; raises Unprintable likewise."""
    if sum(v.aval.size for v in trace.jaxpr.invars) > FOLLOWED:
        with contextlib.suppress(Unprintable):
            return dependence_by_arrays(trace, arguments)
    return Dependence(*_by_scalars(trace), _owners(trace, arguments))


@or_unprintable()
def dependence_by_arrays(trace: core.ClosedJaxpr, arguments: Sequence[Any]) -> Dependence:
    """What the result of a trace depends on, found a whole array at a time alone; numbers that are captured from a
    trace in the making may be any."""
    every = scipy.sparse.eye_array(sum(v.aval.size for v in trace.jaxpr.invars), dtype=bool, format="csr")
    return Dependence(*_by_arrays(trace, every), _owners(trace, arguments))


@or_unprintable()
def varies_by_arrays(trace: core.ClosedJaxpr, arguments: Sequence[Any], moving: Sequence[int]) -> np.ndarray:
    """Which entries of the result of a trace depend on one of the `moving` arguments, in its shape, found likewise: all
    numbers of an argument are followed as one, so that a proof costs as much as the function."""
    owner = _owners(trace, arguments)
    zero, on = _by_arrays(trace, scipy.sparse.csr_array(np.isin(owner, moving)[:, None]))
    return on.toarray().reshape(zero.shape)


def _owners(trace: core.ClosedJaxpr, arguments: Sequence[Any]) -> np.ndarray:
    """The argument that each number of a trace's inputs belongs to."""
    return np.repeat(np.array(owners(arguments), int), [v.aval.size for v in trace.jaxpr.invars])


# --- a whole array at a time ------------------------------------------------------------------------------------------


def _by_arrays(trace: core.ClosedJaxpr, parts: scipy.sparse.csr_array) -> tuple[np.ndarray, scipy.sparse.csr_array]:
    """Where the result is zero, and on which parts of the inputs' numbers it depends: `parts` (numbers, parts) is true
    where a number belongs to one."""
    (out,), inputs = trace.out_avals, [v.aval for v in trace.jaxpr.invars]
    ends = np.cumsum([0, *(like.size for like in inputs)])
    facts: list[Fact] = []
    for like, first, last in zip(inputs, ends, ends[1:], strict=False):
        facts.append(Entries(np.zeros(like.shape, bool), np.zeros(like.shape, bool), parts[first:last]))
    (fact,) = interpret(trace, facts, _applied, _constant)
    none = scipy.sparse.csr_array((out.size, parts.shape[1]), dtype=bool)
    if fact is None:
        return np.zeros(out.shape, bool), none
    return fact.zero, none if fact.on is None else fact.on


def _applied(operation: Operation, facts: list[Fact]) -> list[Fact]:
    results = follow(operation, facts)
    if None in results and any(fact is not None and fact.on is not None for fact in facts):
        raise Unprintable(f"primitive {operation.name} is not among the operations that are followed in such a place")
    return results


def _constant(numbers: Any) -> Fact:
    """A number that is written by itself counts as one in an array: a written zero times x does not depend on x."""
    fact = fact_about(numbers)
    return fact and dataclasses.replace(fact, is_written=False)


# --- scalar by scalar -------------------------------------------------------------------------------------------------


def _by_scalars(trace: core.ClosedJaxpr) -> tuple[np.ndarray, scipy.sparse.csr_array]:
    graph, avals = _Structure(), [v.aval for v in trace.jaxpr.invars]
    inputs = [inputs_of(graph, name, like.shape, like.dtype) for name, like in enumerate(avals)]
    (output,) = scalarised(trace, inputs, graph)
    entries = output.reshape(-1).tolist()
    names = [(name, index) for name, like in enumerate(avals) for index in range(like.size)]
    reached = _reached(entries, names)
    masks = [reached.get(id(entry), 0) for entry in entries]
    places = {mask: _ones(mask) for mask in set(masks)}
    columns = np.array([column for mask in masks for column in places[mask]], np.intp)
    ends = np.cumsum([0, *(len(places[mask]) for mask in masks)])
    rows = scipy.sparse.csr_array((np.ones(len(columns), bool), columns, ends), (len(entries), len(names)))
    zero = np.array([is_known(entry) and bool(entry == 0) for entry in entries], bool)
    return zero.reshape(output.shape), rows


class _Structure(Graph):
    """A graph in which every number is known, those written in the function as well, and functions of known numbers."""

    def literal(self, number: np.generic) -> Any:
        return number

    def make(self, op: str, dtype: Any, *args: Entry, attr: Any = None) -> Entry:
        row = TABLE.get(op)
        compute = row.numpy if row is not None and row.real and np.dtype(dtype).kind == "f" else None
        if compute is not None and all(map(is_known, args)):
            with np.errstate(all="ignore"):
                return np.asarray(compute(*args), dtype)[()]
        return super().make(op, dtype, *args, attr=attr)


def _reached(results: Sequence[Entry], names: Sequence[Any]) -> dict[int, int]:
    """The inputs each node depends on, as the bits of a number; results of a loop depend on every input it uses."""
    place = {name: 1 << k for k, name in enumerate(names)}
    bits: dict[int, int] = {}
    for node in reachable(results):
        mask = place[node.attr] if node.op == "input" else 0
        for argument in node.args:
            if isinstance(argument, Node):
                mask |= bits[id(argument)]
        bits[id(node)] = mask
    return bits


def _ones(number: int) -> list[int]:
    """The places of the ones of a whole number in binary."""
    return [k for k, bit in enumerate(reversed(f"{number:b}")) if bit == "1"]
