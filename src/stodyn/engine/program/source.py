"""What a program is printed from: the beginning, the step and the numbers seen of one path, in the terms of a form."""

from __future__ import annotations

import contextlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from stodyn.engine.program.watching import Watched
from stodyn.engine.spec import Spec
from stodyn.numerics.printing.nodes import INT32, STEP_LENGTH, Entry, Graph
from stodyn.numerics.printing.rows import Function
from stodyn.numerics.printing.unprintable import Unprintable, or_unprintable


class UnprintableValues(Unprintable):
    """Raised where the values that statistics compute of a path cannot be taken apart: the step may be."""


@contextlib.contextmanager
def of_statistics() -> Iterator[None]:
    """While the values of statistics are taken apart."""
    try:
        with or_unprintable():
            yield
    except Unprintable as error:
        raise UnprintableValues(str(error)) from error


class Leaf(NamedTuple):
    """An array of a path's state: its first number there, its shape and its type."""

    first: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def last(self) -> int:
        return self.first + math.prod(self.shape)


class State:
    """Where the scalars of a path lie in the rows of its state: the method's, those gathered, and those counted.

    counted  whether Newton's iterations are counted, and the steps that it solves no better than rounding allows
    leading  how many scalars of the method do not depend on the others, and keep their bits with or without them
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any], gathered: Sequence[Any],
                 counted: Sequence[bool], leading: int | None = None):  # fmt: skip
        counts = sum(counted)
        all_shapes = [*shapes, *(g.shape for g in gathered), *[()] * counts]
        all_dtypes = [np.dtype(d) for d in (*dtypes, *(g.dtype for g in gathered), *[INT32] * counts)]
        firsts = itertools.accumulate(map(math.prod, all_shapes), initial=0)
        self.leaves = [Leaf(*leaf) for leaf in zip(firsts, all_shapes, all_dtypes, strict=False)]
        self.method, self.gathered, (self.iterations, self.rounded) = len(shapes), len(gathered), counted
        self.dtypes = [leaf.dtype for leaf in self.leaves for _ in range(leaf.first, leaf.last)]
        self.of_method = sum(map(math.prod, shapes))
        self.leading = sum(map(math.prod, shapes[:leading]))
        self.real = np.array([dtype.kind == "f" for dtype in self.dtypes[: self.of_method]], bool)

    def parted(self, leaves: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """One value for each leaf as three lists: the method's, those gathered, and those counted."""
        gathered = self.method + self.gathered
        return leaves[: self.method], leaves[self.method : gathered], leaves[gathered:]

    def reals(self) -> list[Leaf]:
        """The arrays of reals in the method's state."""
        return [leaf for leaf in self.leaves[: self.method] if leaf.dtype.kind == "f"]


class Terms(ABC):
    """A function of one path being made in the terms of a form, in which a value stands for an array.

    graph  of the scalars of which it is made
    """

    graph: Graph

    @abstractmethod
    def one(self, entry: Entry) -> Any:
        """An array without axes."""

    @abstractmethod
    def entry(self, x: Any) -> Entry:
        """The only entry of an array without axes."""

    @abstractmethod
    def constant(self, numbers: np.ndarray) -> Any:
        """An array of known numbers."""

    @abstractmethod
    def inputs(self, name: str, leaf: Leaf, lane: bool = True, moves: bool = True) -> Any:
        """An array in the memory `name`; lane: whether each path has its own; moves: whether it changes over steps."""

    @abstractmethod
    def normals(self, stream: int, first: int, count: int, dtype: np.dtype) -> Any:
        """The normals of a step from one of the streams, the first being number `first` of all."""

    @abstractmethod
    def with_path_axis(self, x: Any) -> Any:
        """A value with a last axis of one path."""

    @abstractmethod
    def run(self, trace: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a trace."""

    @abstractmethod
    def keep(self, x: Any, name: str = "", leaf: Leaf | None = None) -> Any:
        """An array that is written to the memory `name`, or computed before what follows where none is named."""

    @abstractmethod
    def keep_rows(self, x: Any, n: int, values: Sequence[Any]) -> tuple[list[np.ndarray], list[np.dtype]]:
        """Write the rows of a save, none twice: those of x, of which n are the components, and of `values`; returns the
        rows of each of these, and the types of all rows."""

    @abstractmethod
    def program(self, results: Sequence[Entry] = ()) -> Any:
        """The function made so far: what it writes, and `results`."""

    def number(self, name: str, dtype: Any, moves: bool = True) -> Any:
        """A number that all paths have in common."""
        return self.one(self.graph.input((name, 0), dtype, lane=False, moves=moves))

    def counted(self, count: Any, more: Any) -> Any:
        """count + more, as a whole number."""
        return self.one(self.graph.make("add", INT32, self.entry(count), self.graph.convert(self.entry(more), INT32)))


class Step(NamedTuple):
    """A step: the program that makes it, whether it succeeded, and why it failed, `ok` where that says all."""

    program: Any
    ok: Entry
    cause: Entry


class Source(ABC):
    """The functions of one path that a program is printed from, in a form.

    begun     from its start to its state
    stepped   from its state to the one after a step; starting: the same for the first steps of a multistep method
    see       from its state to the rows of a save; saved_dtypes: their types; rows_of: those of each statistic
    scratch   numbers that a vector of paths needs besides its state; tables: words that the program reads
    has_registers  whether the numbers of a path are in registers, where a kernel may sum them
    """

    has_registers: bool
    scratch = 0
    tables: Sequence[np.ndarray] = ()

    def __init__(self, spec: Spec, watched: Watched):
        traced: Any = spec.traced
        self.traced, self.watched, self.equal_steps = traced, watched, spec.has_equal_steps
        self.varies, self.examples, self.dtype = spec.varies, spec.examples, spec.dtype
        gathered = [v.aval for v in watched.begin.jaxpr.outvars]
        counted = [watched.counts_iterations, traced.may_round]
        self.layout = State(traced.state_shapes, traced.state_dtypes, gathered, counted, traced.leading)
        self.n = traced.start.jaxpr.invars[1].aval.shape[0]
        with of_statistics():
            self.see, self.saved_dtypes, self.rows_of = self._saved()
        self.begun = self._begun()
        self.stepped = self._stepped(traced.step)
        self.starting = None if traced.starting is None else self._stepped(traced.starting, is_numbered=True)

    @abstractmethod
    def terms(self) -> Terms:
        """A function of one path to be made."""

    @abstractmethod
    def form(self, target: Any, program: Any, cause: Entry | None = None) -> Any:
        """One of its programs, to be printed for a target; with `cause` it notes when each path failed, and why."""

    @abstractmethod
    def operations(self) -> int:
        """Scalar operations of a step for each path."""

    @abstractmethod
    def width(self) -> int:
        """Paths that a processor takes together."""

    @abstractmethod
    def mapped(self, name: str, width: int, frame: Sequence[str]) -> Function:
        """The function "begin" or "look" of all paths of a processor, from rows to rows."""

    @property
    @abstractmethod
    def description(self) -> str:
        """How it is printed, in words."""

    @property
    def steps(self) -> dict[str, Step]:
        """The steps by the names of their functions."""
        return {"run": self.stepped, **({"starting": self.starting} if self.starting is not None else {})}

    # --- the three functions ------------------------------------------------------------------------------------------

    def _params(self, terms: Terms, lane_axis: bool = False) -> list[Any]:
        """The parameters: rows of own_params for those that differ between paths, else numbers of common_params."""
        inputs, own, common = [], 0, 0
        for example, differs in zip(self.examples, self.varies, strict=True):
            name, first = ("own_params", own) if differs else ("common_params", common)
            leaf = Leaf(first, np.shape(example), np.asarray(example).dtype)
            array = terms.inputs(name, leaf, lane=bool(differs), moves=False)
            inputs.append(terms.with_path_axis(array) if lane_axis and differs else array)
            own, common = (leaf.last, common) if differs else (own, leaf.last)
        return inputs

    def _leaves(self, terms: Terms, name: str) -> list[Any]:
        return [terms.inputs(name, leaf) for leaf in self.layout.leaves]

    def _shown(self, terms: Terms, state: Sequence[Any]) -> Any:
        """What a method shows of its state: the components, and which level has stopped the path."""
        return terms.run(self.traced.read, state)[0]

    def _begun(self) -> Any:
        terms = self.terms()
        t, x = terms.number("t", self.dtype), terms.inputs("start", Leaf(0, (self.n,), self.dtype))
        state = terms.run(self.traced.start, [t, x, *self._params(terms)])
        here = terms.with_path_axis(self._shown(terms, state))
        gathered = terms.run(self.watched.begin, [t, here, *self._params(terms, True)])
        counts = [terms.one(INT32.type(0))] * (self.layout.iterations + self.layout.rounded)
        for array, leaf in zip([*state, *gathered, *counts], self.layout.leaves, strict=True):
            terms.keep(array, "state", leaf)
        return terms.program()

    def jumped(self, trace: Any) -> Any:
        """The state after a jump of an input, by its trace: what is gathered and counted stays as it is."""
        terms = self.terms()
        method, gathered, counts = self.layout.parted(self._leaves(terms, "now"))
        after = terms.run(trace, [terms.number("t", self.dtype), *method, *self._params(terms)])
        for array, leaf in zip([*after, *gathered, *counts], self.layout.leaves, strict=True):
            terms.keep(array, "then", leaf)
        return terms.program()

    def _stepped(self, trace: Any, is_numbered: bool = False) -> Step:
        terms, layout = self.terms(), self.layout
        t, h = terms.number("t", self.dtype), terms.number(STEP_LENGTH[0], self.dtype, not self.equal_steps)
        method, gathered, counts = layout.parted(self._leaves(terms, "now"))
        normals, first = [], 0
        for stream, (_, count) in enumerate(self.traced.streams):
            normals.append(terms.normals(stream, first, count, self.dtype))
            first += count
        common = [terms.number("k", INT32), t, h] if is_numbered else [t, h]
        *after, ok, iterations, rounded = terms.run(trace, [*common, *method, *normals, *self._params(terms)])
        ok, iterations, rounded = map(terms.keep, (ok, iterations, rounded))
        cause = terms.keep(after.pop()) if self.traced.names_causes else ok
        into = iter(layout.leaves)
        after = [terms.keep(array, "then", next(into)) for array in after]
        if layout.gathered:
            moved = [terms.with_path_axis(self._shown(terms, x)) for x in (method, after)]
            for array in terms.run(self.watched.track, [t, h, *moved, *gathered, *self._params(terms, True)]):
                terms.keep(array, "then", next(into))
        wanted = [*([iterations] if layout.iterations else []), *([rounded] if layout.rounded else [])]
        for count, more in zip(counts, wanted, strict=True):
            terms.keep(terms.counted(count, more), "then", next(into))
        results = [terms.entry(ok), terms.entry(cause)]
        return Step(terms.program(results if self.traced.names_causes else results[:1]), *results)

    def _saved(self) -> tuple[Any, list[np.dtype], list[list[np.ndarray]]]:
        """What is written at a save, the types of its rows, and of each statistic the numbers of those that are its
        own. The first rows are the components."""
        terms, layout, watched = self.terms(), self.layout, self.watched
        t = terms.number("t", self.dtype)
        method, gathered, counts = layout.parted(self._leaves(terms, "state"))
        x = self._shown(terms, method)
        count = terms.with_path_axis(counts[0]) if layout.iterations else terms.constant(np.zeros(1, np.int32))
        values = terms.run(watched.see, [t, terms.with_path_axis(x), count, *gathered, *self._params(terms, True)])
        numbers, dtypes = terms.keep_rows(x, self.n, values)
        rest = iter(numbers)
        rows_of = [[next(rest) for _ in range(count)] for count in watched.row_counts]
        return terms.program(), dtypes, rows_of
