"""The one loop over steps, printed for every form of a step and every target:

    for each step from `first` to `last`:  the step;  where it is the next of `saves`:  what is seen

A form (as_scalars, as_loops) says what a path hands on from step to step, how a step is made of it and what is seen; a
target (on_lanes, on_card) says where a path's numbers lie, where its normals come from and where a save goes.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from stodyn.engine.program.source import Source
from stodyn.numerics.printing.llvm import Printer
from stodyn.numerics.printing.loops import LoopPrinter, Program
from stodyn.numerics.printing.nodes import Entry, Node
from stodyn.numerics.printing.rows import Function


def finite(w: Function, numbers: Iterable[tuple[str, np.dtype]], so_far: str | None = None) -> str:
    """Whether all reals among these numbers, with their types, are finite: x - x is 0 or NaN."""
    mask = w.type("bool")
    sound = so_far or ("true" if w.width == 1 else "splat (i1 true)")
    for x, dtype in numbers:
        if dtype.kind == "f":
            kind = w.type(dtype)
            apart = w.value(f"fsub {kind} {x}, {x}")
            sound = w.value(f"and {mask} {sound}, {w.value(f'fcmp oeq {kind} {apart}, zeroinitializer')}")
    return sound


class Carried(NamedTuple):
    """A value that steps hand on: the word that names it, its type, and the value before the first step."""

    word: str
    type: str
    start: str


class Change(NamedTuple):
    """A value that is changed where something happens: its type, and the value before and after."""

    type: str
    before: str
    after: str


class Call(NamedTuple):
    """The steps of a call: the first, the last, the number of the first save, and where the list of saves begins."""

    first: str
    last: str
    save: str = "0"
    listed: str = ""


class Target(ABC):
    """Where the paths of a function being printed are: vectors of a processor, or the threads of a card.

    lane      the number of the path, or of the first one of a vector, within a row
    in_place  whether the state after a call replaces that before it
    room      numbers of a state that registers hold
    """

    in_place: bool
    room: float

    def __init__(self, source: Source, w: Function):
        self.source, self.w, self.lane = source, w, ""

    @abstractmethod
    def row(self, array: str, k: int | str) -> str:
        """The address of the path's number in row k of an array."""

    @abstractmethod
    def number_of(self, step: str) -> str:
        """The number of a step of the call in the whole run."""

    def common(self, node: Node, step: str) -> str:
        """A number that all paths have in common at a step: its time, its length, its number, or a parameter."""
        w, (name, k) = self.w, node.attr
        if name == "k":
            return w.value(f"trunc i64 {self.number_of(step)} to i32")
        index = k if name == "common_params" or (name == "h" and self.source.equal_steps) else step
        return w.load_row(w.at(w.address(name), index, 8), node.dtype, False)

    def acts(self, form: Form) -> str:
        """Whether all paths do something together after the step that a form has printed."""
        return form.acts()

    @abstractmethod
    def fail(self, sound: str, cause: str, following: str) -> None:
        """Note which paths are not sound for the first time after a step, and why."""

    # --- for scalars --------------------------------------------------------------------------------------------------

    @abstractmethod
    def spares(self) -> list[Carried]:
        """The normals that a step leaves for the next one."""

    @abstractmethod
    def draw(self, step: str, spares: Sequence[str]) -> tuple[list[str], list[str]]:
        """The normals of a step that are made before it, and the spares after it; `normal` gives the others."""

    @abstractmethod
    def normal(self, place: int) -> str:
        """Normal number `place` of a step, counted through the streams."""

    @abstractmethod
    def save(self, values: Iterable[str], slot: str) -> None:
        """Write what is seen of the path as save number `slot` of the call."""

    # --- for loops ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def states(self) -> list[str]:
        """The addresses of the state before the steps, of that after the first one, and of that after the second where
        the first of them is not to be written."""

    @abstractmethod
    def scratch(self, behind: Program | None = None) -> str:
        """The address of the path's scratch memory, or of what lies behind that of a program."""

    @abstractmethod
    def normals_in_memory(self, step: str) -> dict[str, str]:
        """The normals of a step, written to memory: the address of those of each stream."""

    @abstractmethod
    def printer(self, program: Program, inputs: Callable[[Node], str], bases: dict[str, str]) -> LoopPrinter:
        """A printer of loops over arrays in memory; bases: addresses by the names of its parts."""

    @abstractmethod
    def rows_of_save(self, slot: str) -> AbstractContextManager[str]:
        """The address of the rows of a save, while they are written."""

    @abstractmethod
    def take_back(self, state: str) -> None:
        """Bring the state after the steps to where a call leaves it."""

    @abstractmethod
    def entry(self, base: str, k: str) -> str:
        """The address of entry k of a state at `base`."""

    @abstractmethod
    def shared(self, first: int, last: int) -> AbstractContextManager[str]:
        """for each number from `first` to `last` that is this thread's share."""

    def are_finite(self, base: str, spans: Iterable[tuple[int, int]]) -> str:
        """Whether all entries in these spans of a state, in this thread's share, are finite."""
        w, kind = self.w, self.w.type("float64")
        total = f"%{w.fresh('apart')}"
        w.head.append(f"  {total} = alloca {kind}, align 64")
        w.store("zeroinitializer", total, kind)
        for span in spans:
            with self.shared(*span) as k:
                x = w.load(self.entry(base, k), kind)
                apart = w.value(f"fsub {kind} {x}, {x}")
                w.store(w.value(f"fadd {kind} {w.load(total, kind)}, {apart}"), total, kind)
        return w.value(f"fcmp oeq {kind} {w.load(total, kind)}, zeroinitializer")


class Form(ABC):
    """A function of the state of a path being printed for a target, in the terms of a form.

    number  of the step that is printed
    acts_together  whether all paths do something together after some steps
    cause   why it failed, where the function notes when each path failed, and why; else it sees
    """

    printer: Printer
    acts_together = False

    def __init__(self, target: Target, cause: Entry | None):
        self.target, self.source, self.w = target, target.source, target.w
        self.number, self.cause = "0", cause

    @abstractmethod
    def begin(self) -> None:
        """Print the state at the start."""

    @abstractmethod
    def carried(self) -> list[Carried]:
        """Print everything that is the same in all steps; returns what they hand on."""

    @abstractmethod
    def step(self, names: Sequence[str]) -> list[str]:
        """Print a step from what it is handed under these names; returns what it hands on."""

    def acts(self) -> str:
        """Whether they do so after this step."""
        raise AssertionError("nothing is done after a step")

    def act(self) -> list[str]:
        """Print what they do; returns what is handed on then."""
        raise AssertionError("nothing is done after a step")

    def joined(self, after: Sequence[str]) -> list[str]:
        """What is handed on, now that these are its values, whether something was done or not."""
        return list(after)

    @abstractmethod
    def sound(self) -> str:
        """Whether all reals of the state are finite."""

    @abstractmethod
    def rounded(self) -> str:
        """How many steps so far were solved no better than rounding allows."""

    @abstractmethod
    def see(self, step: str, slot: str) -> None:
        """Print what is seen of the state after so many steps, as save number `slot` of the call."""

    @abstractmethod
    def end(self) -> None:
        """Print the state's way to where a call leaves it."""


def over_steps(form: Form, call: Call) -> str:
    """Print the steps of a call; returns the number of the first save after it.

    An inner loop takes the steps up to one after which something happens, so that what happens rarely takes no
    registers from them.
    """
    w, carried = form.w, form.carried()
    listed = w.load(w.at(w.address("saves"), w.count(call.listed) if call.listed else call.save, 8), "i64")
    before, head, step, left, done = w.block, *map(w.fresh, ("head", "step", "left", "done"))
    words = ("i", *(c.word for c in carried))
    q, due, *begun = (f"%{w.fresh(word)}" for word in ("q", "due", *words))
    i, *names = (f"%{w.fresh(word)}" for word in words)
    types = ["i64", *(c.type for c in carried)]
    w.jump(head)
    w.open(head)
    outer = len(w.lines)
    w.lines += [""] * (2 + len(begun))
    w.jump(step)
    w.open(step)
    inner = len(w.lines)
    w.lines += [""] * len(begun)
    form.number = i
    with form.printer.scope():
        after = form.step(names)
        following = w.value(f"add nsw i64 {i}, 1")
        if form.cause is not None:
            form.target.fail(form.sound(), _numbered(form, form.cause), following)
        stop, save = w.value(f"icmp eq i64 {following}, {due}"), functools.partial(_save, form, call, following, q, due)
        if form.acts_together:
            save = functools.partial(_act, form, carried, after, stop, save)
            stop = w.value(f"or i1 {stop}, {form.target.acts(form)}")
        goes_on = w.value(f"icmp slt i64 {following}, {call.last}")
        w.carry(inner, head, zip((i, *names), types, begun, (following, *after), strict=True))
        w.branch(w.value(f"or i1 {stop}, {w.value(f'xor i1 {goes_on}, true')}"), left, step)
        w.open(left)
        after_q, after_due, *changed = _where(w, stop, save)
        after = form.joined(changed) if form.acts_together else after
    w.branch(goes_on, head, done)
    firsts, lasts = (
        (call.save, listed, call.first, *(c.start for c in carried)),
        (after_q, after_due, following, *after),
    )
    w.carry(outer, before, zip((q, due, *begun), ("i64", "i64", *types), firsts, lasts, strict=True))
    w.open(done)
    form.end()
    return after_q


def _numbered(form: Form, cause: Entry) -> str:
    """Why a step failed, by its number; of steps that say only whether they were solved, UNSOLVED is the one number."""
    w, word = form.w, form.w.type("int64")
    value, kind = form.printer.read(cause), w.type(cause.dtype)
    if np.dtype(cause.dtype) != bool:
        return w.value(f"sext {kind} {value} to {word}")
    is_failed = w.value(f"xor {kind} {value}, {'true' if w.width == 1 else 'splat (i1 true)'}")
    return w.value(f"zext {kind} {is_failed} to {word}")


def _save(form: Form, call: Call, following: str, q: str, due: str) -> list[Change]:
    """What is seen after a step, as save number q; then the next one is due."""
    w = form.w
    if form.cause is None:
        form.see(following, q)
    next_q = w.value(f"add nsw i64 {q}, 1")
    next_place = w.whole("add", next_q, w.count(call.listed)) if call.listed else next_q
    next_due = w.load(w.at(w.address("saves"), next_place, 8), "i64")
    return [Change("i64", q, next_q), Change("i64", due, next_due)]


def _act(
    form: Form, carried: Sequence[Carried], after: Sequence[str], is_save: str, save: Callable[[], list[Change]]
) -> list[Change]:
    """What all paths do together after a step, and then the save, where there is one."""
    acted = form.act()
    changes: list[Change] = []

    def noted() -> list[Change]:
        changes.extend(save())
        return changes

    saved = _where(form.w, is_save, noted)
    return [
        *(Change(change.type, change.before, new) for change, new in zip(changes, saved, strict=True)),
        *(Change(c.type, old, new) for c, old, new in zip(carried, after, acted, strict=True)),
    ]


def _where(w: Function, which: str, happens: Callable[[], list[Change]]) -> list[str]:
    """Print what happens where `which` is true; returns the values that it changes as they are after it."""
    inside, end, before = w.fresh("where"), w.fresh("on"), w.block
    w.branch(which, inside, end, rarely=True)
    w.open(inside)
    changes, reached = happens(), w.block
    w.jump(end)
    w.open(end)
    return [w.value(f"phi {c.type} [ {c.before}, %{before} ], [ {c.after}, %{reached} ]") for c in changes]
