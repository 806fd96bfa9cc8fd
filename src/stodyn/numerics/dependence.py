"""Which scalars of a function's result depend on which scalars of its arguments: a proof from the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics.printing.entrywise import TABLE
from stodyn.numerics.printing.nodes import Entry, Graph, Node, is_known, reachable
from stodyn.numerics.printing.scalars import inputs_of, scalarised


def dependence(function: Callable, *arguments: Any) -> list[np.ndarray]:
    """For each output array of `function`, an object array whose entries are the number itself where it is a constant,
    or else the frozenset of (argument, flat index) pairs it may depend on.

    The trace is taken apart scalar by scalar, so that a zero of a Jacobian or of a diagonal matrix is known to be one,
    and so is 0·x. Raises printing.unprintable.Unprintable where the trace cannot be taken apart.

    The trace is in double precision: single precision has zeros where the function has numbers below 1e-45.
    """
    with jax.enable_x64(True):
        return dependence_of(jax.make_jaxpr(function)(*arguments), arguments)


def dependence_of(closed: core.ClosedJaxpr, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The same for a trace of a function of `arguments`."""
    graph, inputs, labels = _Structure(), [], []
    places = [(number, leaf) for number, argument in enumerate(arguments) for leaf in jax.tree.leaves(argument)]
    for name, ((number, leaf), variable) in enumerate(zip(places, closed.jaxpr.invars, strict=True)):
        inputs.append(inputs_of(graph, name, np.shape(leaf), variable.aval.dtype))
        labels += [((name, index), (number, index)) for index in range(np.size(leaf))]
    outputs = scalarised(closed, inputs, graph)
    bits = _reached([entry for output in outputs for entry in output.reshape(-1)], [name for name, _ in labels])
    sets = {mask: frozenset(labels[k][1] for k in _ones(mask)) for mask in {0, *bits.values()}}
    result = []
    for output in outputs:
        labels_of_entries = np.empty(output.shape, object)
        for index, entry in np.ndenumerate(output):
            labels_of_entries[index] = entry if is_known(entry) else sets[bits[id(entry)]]
        result.append(labels_of_entries)
    return result


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
