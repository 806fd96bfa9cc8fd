"""A function of one point at many points, as jax.jit(jax.vmap(function)) but compiled in milliseconds.

The function is traced, printed as a loop over vectors of points, and compiled; the code is kept under the
digest of the trace. It is meant for functions evaluated a few times: XLA compiles for seconds what then runs for
milliseconds.
"""

from __future__ import annotations

import functools
import hashlib
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend import core

from stodyn.numerics import uncompiled
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing import compiling, rows, scalars
from stodyn.numerics.printing.fingerprints import calls_host, fingerprint, holds, without_prints
from stodyn.numerics.printing.nodes import Entry, Graph, is_known, reachable
from stodyn.numerics.printing.operations import equations_of, has_loops
from stodyn.numerics.printing.unprintable import Unprintable, or_unprintable

FRAME = ("own", "common", "results", "first_lane", "last_lane", "stride")
MOST_OPERATIONS = 30_000  # of a function: beyond, text and code grow too long
MOST_COMPILED = 300  # operations on arrays that XLA compiles, in 6 ms for each; NumPy takes .02 ms, by 64 points
AT_ONCE = 2**26  # numbers that NumPy computes for some points before their results are put aside
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # where XLA must compile

Shape: TypeAlias = tuple[tuple[int, ...], Any]  # of an array at one point, and its dtype
Compiled: TypeAlias = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


class AtPoints:
    """The function at many points: it takes and returns NumPy arrays, traced at the first call with such shapes.

    in_axes  as those of jax.vmap: 0 or -1 where an argument, or a part of it, has the points first or last, None where
             all points share it. Results have the points first
    few      this many calls are computed by NumPy, where there are no loops: they cost less than compiling

    Hold it for as long as the function stays the same: values that it reads from outside are read when it is traced.
    It works in double precision. It computes at once where it is called within a trace; do not enter
    jax.ensure_compile_time_eval for it, in which JAX compiles every constant of the function by itself while it is
    traced.
    """

    def __init__(self, function: Callable[..., Any], in_axes: Any = 0, few: int = 0):
        self.function, self.in_axes, self.few = function, in_axes, few
        self._cache: dict[Any, tuple[Any, Any]] = {}
        self._axes: dict[Any, tuple[list[int | None], tuple[bool, ...]]] = {}

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        if tree not in self._axes:
            self._axes[tree] = self._axes_of(arguments)
        axes, differs = self._axes[tree]
        arrays = [np.moveaxis(np.asarray(leaf), axis, 0) if axis else np.asarray(leaf)
                  for leaf, axis in zip(leaves, axes, strict=True)]  # fmt: skip
        shapes = tuple([(a.shape[d:], a.dtype) for a, d in zip(arrays, differs, strict=True)])
        with jax.enable_x64(True):
            if self.few > 0:
                self.few -= 1
                try:
                    return self._uncompiled(tree, differs, shapes, arrays)
                except uncompiled.Compile:
                    self.few = 0
            key = (tree, differs, shapes)
            if key not in self._cache:
                self._cache[key] = self._compiled(tree, differs, shapes)
            compiled, shape = self._cache[key]
            return jax.tree.unflatten(shape, compiled(arrays))

    def numbers_made(self, *arguments: Any) -> int:
        """How many numbers the operations of the function make on the way, at one point like these."""
        leaves, tree = jax.tree.flatten(arguments)
        axes, differs = self._axes_of(arguments)
        shapes = tuple((np.moveaxis(np.asarray(leaf), axis or 0, 0).shape[own:], np.asarray(leaf).dtype)
                       for leaf, axis, own in zip(leaves, axes, differs, strict=True))  # fmt: skip
        with jax.enable_x64(True):
            return _numbers_made(self._traced(tree, shapes)[0])

    def _axes_of(self, arguments: tuple[Any, ...]) -> tuple[list[int | None], tuple[bool, ...]]:
        """The axis of the points in each leaf of the arguments, and whether it has one."""
        in_axes = self.in_axes if isinstance(self.in_axes, tuple) else (self.in_axes,) * len(arguments)
        axes: list[int | None] = []
        jax.tree.map(lambda axis, part: axes.extend([axis] * len(jax.tree.leaves(part))), in_axes, arguments,
                     is_leaf=lambda axis: axis is None)  # fmt: skip
        return axes, tuple(axis is not None for axis in axes)

    def _uncompiled(self, tree: Any, differs: Sequence[bool], shapes: Sequence[Shape], arrays: list[np.ndarray]) -> Any:
        """The results by NumPy; raises uncompiled.Compile."""
        points = next(len(a) for a, own in zip(arrays, differs, strict=True) if own)
        key = (tree, differs, shapes, points)
        if key not in self._cache:
            closed, shape = self._traced(tree, shapes)
            if has_loops(closed):
                raise uncompiled.Compile("a loop iterates often enough for compiling to pay")
            if points == 1:
                self._cache[key] = functools.partial(_at_the_point, closed, differs), shape
            else:
                trace = jax.make_jaxpr(_mapped(closed, differs))(*arrays)
                self._cache[key] = functools.partial(uncompiled.run, trace), shape
        function, shape = self._cache[key]
        with jax.ensure_compile_time_eval():
            return jax.tree.unflatten(shape, function(*arrays))

    def _traced(self, tree: Any, shapes: Sequence[Shape]) -> tuple[core.ClosedJaxpr, Any]:
        """The trace at one point, made once, and the structure of its results."""

        def flat(*leaves: Any) -> Any:
            return self.function(*jax.tree.unflatten(tree, leaves))

        key = (tree, shapes)
        if key not in self._cache:
            examples = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
            closed, out = jax.make_jaxpr(flat, return_shape=True)(*examples)
            self._cache[key] = without_prints(closed), jax.tree.structure(out)
        return self._cache[key]

    def _compiled(self, tree: Any, differs: Sequence[bool], shapes: Sequence[Shape]) -> tuple[Compiled, Any]:
        """The function from the arrays to the results, and the structure of these."""
        closed, shape = self._traced(tree, shapes)
        by_xla = _by_xla(closed, differs)
        try:
            loop = _printed(closed, differs)
        except Unprintable:
            return (_by_numpy(closed, differs, by_xla) if _is_long(closed) else by_xla), shape

        def by_print(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            try:
                with or_unprintable():
                    return loop(arrays)
            except Unprintable:
                return by_xla(arrays)

        return by_print, shape


def _mapped(closed: core.ClosedJaxpr, differs: Sequence[bool]) -> Callable[..., Any]:
    """The trace of one point, over many."""

    # JAX tells functions by where they are written, and would print the whole trace of others
    def at_a_point(*leaves: Any) -> Any:
        return core.jaxpr_as_fun(closed)(*leaves)

    return jax.vmap(at_a_point, in_axes=[0 if own else None for own in differs])


def _by_xla(closed: core.ClosedJaxpr, differs: Sequence[bool]) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The function from the arrays to the results by XLA, which computes at once within a trace too.

    ensure_compile_time_eval, which serves for that elsewhere, would make arrays of whatever is the same in all calls,
    for all points: gigabytes for the slopes of what is sorted.
    """
    many = jax.jit(_mapped(closed, differs), compiler_options=QUICK)
    programs: dict[tuple[tuple[int, ...], ...], Any] = {}  # by the shapes of the arrays

    def by_xla(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        shapes = tuple(array.shape for array in arrays)
        if shapes not in programs:
            programs[shapes] = many.lower(*arrays).compile()
        return list(map(np.asarray, programs[shapes](*arrays)))

    return by_xla


def _by_numpy(closed: core.ClosedJaxpr, differs: Sequence[bool], by_xla: Compiled) -> Compiled:
    """The function from the arrays to the results by NumPy, where it knows how: for as many points at a time as there
    would be room for if all that is computed on the way were kept."""
    traces: dict[int, core.ClosedJaxpr] = {}  # by the number of points
    most = max(1, AT_ONCE // _numbers_made(closed))

    def at_once(arrays: Sequence[np.ndarray], points: int) -> Sequence[np.ndarray]:
        if points not in traces:
            traces[points] = jax.make_jaxpr(_mapped(closed, differs))(*arrays)
        return uncompiled.run(traces[points], *arrays)

    def by_numpy(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        points = next(len(a) for a, own in zip(arrays, differs, strict=True) if own)
        parts = []
        try:
            for first in range(0, points, most):
                last = min(first + most, points)
                own = [a[first:last] if differ else a for a, differ in zip(arrays, differs, strict=True)]
                parts.append(at_once(own, last - first))
        except uncompiled.Compile:
            return by_xla(arrays)
        return parts[0] if len(parts) == 1 else [np.concatenate(results) for results in zip(*parts, strict=True)]

    return by_numpy


def _is_long(closed: core.ClosedJaxpr) -> bool:
    """Whether XLA would compile a trace for seconds, of which NumPy takes one operation after the other: a loop it
    would go through slowly."""
    return not has_loops(closed) and sum(1 for _ in equations_of(closed.jaxpr)) > MOST_COMPILED


def _numbers_made(closed: core.ClosedJaxpr) -> int:
    return sum(math.prod(v.aval.shape) for e in equations_of(closed.jaxpr) for v in e.outvars)


def _at_the_point(closed: core.ClosedJaxpr, differs: Sequence[bool], *arrays: np.ndarray) -> list[np.ndarray]:
    """The results at a single point: its trace need not be mapped over others."""
    results = uncompiled.run(closed, *(a[0] if own else a for a, own in zip(arrays, differs, strict=True)))
    return [np.asarray(value)[None] for value in results]


def at_points(function: Callable[..., Any], *arguments: Any, in_axes: Any = 0) -> Any:
    """The function at many points, once."""
    return AtPoints(function, in_axes)(*arguments)


def at_one(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments), once, as NumPy arrays: JAX would compile its operations one by one."""
    results = AtPoints(function, few=1)(*jax.tree.map(lambda a: np.asarray(a)[None], arguments))
    return jax.tree.map(lambda a: a[0], results)


_loops: Bounded[str, _Loop] = Bounded(256)
_keeping = threading.Lock()


@or_unprintable()
def _printed(closed: core.ClosedJaxpr, differs: Sequence[bool]) -> _Loop:
    """The compiled loop of a trace; raises Unprintable."""
    reason = compiling.unavailable()
    if reason is not None:
        raise Unprintable(reason)
    if calls_host(closed) or holds(closed, "custom_vmap_call"):
        raise Unprintable("it takes all points together, or calls back to Python")
    key = hashlib.sha256(repr((fingerprint(closed), differs, compiling.processor())).encode()).hexdigest()
    with _keeping:
        if key not in _loops:
            _loops[key] = _Loop(closed, differs)
        return _loops[key]


class _Loop:
    """arrays -> results, by a printed function over rows of points."""

    def __init__(self, closed: core.ClosedJaxpr, differs: Sequence[bool]):
        graph, places, inputs = Graph(), [0, 0], []
        self.arguments: list[tuple[bool, slice, np.dtype]] = []  # whether it has points, its rows, its type
        for variable, own in zip(closed.jaxpr.invars, differs, strict=True):
            first, shape, dtype = places[own], variable.aval.shape, variable.aval.dtype
            places[own] += int(np.prod(shape))
            nodes = [graph.input(("own" if own else "common", k), dtype, lane=bool(own))
                     for k in range(first, places[own])]  # fmt: skip
            inputs += scalars.unflatten(nodes, [shape])
            self.arguments.append((bool(own), slice(first, places[own]), dtype))
        self.common, self.own = places
        outputs = scalars.scalarised(closed, inputs, graph)
        ends = np.cumsum([0, *(int(np.prod(v.aval.shape)) for v in closed.jaxpr.outvars)])
        self.results = [(v.aval.shape, v.aval.dtype, slice(begin, end))
                        for v, begin, end in zip(closed.jaxpr.outvars, ends[:-1], ends[1:], strict=True)]  # fmt: skip
        entries = self._varying(scalars.flatten(outputs))
        operations = rows.operations(reachable(entries))
        if operations > MOST_OPERATIONS:
            raise Unprintable(f"{operations} scalar operations, more than {MOST_OPERATIONS}")
        self.width, self.count = 2 * compiling.processor().register, len(entries)
        function = rows.mapped("run", self.width, entries, [entry.dtype for entry in entries], FRAME)
        self.program = compiling.Program(rows.module([function]), ["run"], operations)

    def _varying(self, results: Sequence[Entry]) -> list[Entry]:
        """The entries of the results that are to be computed, each once: of large sparse matrices they are few.

        The others are known when the function is traced.
        """
        self.known, row_of, nodes = np.zeros(len(results)), dict[int, int](), list[Entry]()
        self.places = np.full(len(results), -1)
        for k, entry in enumerate(results):
            if is_known(entry):
                self.known[k : k + 1] = rows.words(np.asarray([entry]))
                continue
            self.places[k] = row_of.setdefault(id(entry), len(nodes))
            if self.places[k] == len(nodes):
                nodes.append(entry)
        self.is_known = np.flatnonzero(self.places < 0)
        return nodes

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        points = next(len(a) for a, (own, _, _) in zip(arrays, self.arguments, strict=True) if own)
        lanes = -(-points // self.width) * self.width
        own, common = np.empty((max(self.own, 1), lanes)), np.empty(max(self.common, 1))
        for array, (differs, place, dtype) in zip(arrays, self.arguments, strict=True):
            words = rows.words(np.asarray(array, dtype))
            if differs:
                own[place, :points] = words.reshape(points, place.stop - place.start).T
            else:
                common[place] = words.ravel()
        own[:, points:] = own[:, :1]  # more of the first point, up to whole vectors
        results = np.empty((max(self.count, 1), lanes))
        frame = rows.Frame(FRAME)
        frame.set(own=own, common=common, results=results, first_lane=0, last_lane=lanes, stride=lanes)
        self.program.machine(lanes)["run"](frame.address)
        results = results[self.places, :points]
        if self.is_known.size:
            results[self.is_known] = self.known[self.is_known, None]
        return [np.ascontiguousarray(rows.typed(results[place], dtype).T).reshape(points, *shape)
                for shape, dtype, place in self.results]  # fmt: skip
