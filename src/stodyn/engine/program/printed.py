"""Blocks of paths by a printed program: the calls of a block, its statistics and its failures."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from stodyn.engine.layout import Members
from stodyn.engine.program import counts, on_lanes, sums
from stodyn.engine.program.as_loops import Loops
from stodyn.engine.program.observing import Rows, gathered, observe
from stodyn.engine.program.on_lanes import FRAME, GROUP
from stodyn.engine.program.source import Source
from stodyn.engine.program.vmap import compiled
from stodyn.engine.program.work import Plan, Work
from stodyn.engine.spec import Spec
from stodyn.noise.supply import Supply
from stodyn.numerics import uncompiled
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.numerics.printing.operations import operation_of
from stodyn.numerics.printing.rows import Frame, typed, words
from stodyn.numerics.printing.table import EVERY, row_of
from stodyn.statistics.contract import Snapshot, Statistic

SECONDS = 0.05  # the time of a call, so that Ctrl-C is noticed
LONGER = 0.25  # the same for large systems, whose states take time to keep and to examine
FIRST_STEPS = 64  # of the first call of all
SLAB_BYTES = 24_000  # of normals drawn together: they stay in the cache nearest to the processor
SEEN_BYTES = 2_000_000  # of the rows seen in one call
PACKED_AT = 0.5  # share of active lanes at which these are packed together
STOPPING = 65_536  # path-steps of a call that may stop paths: after it the active paths are counted


class Printed:
    """A compiled program and how blocks of paths go through it; it serves every run with the same traces."""

    name = "printed"

    def __init__(self, source: Source, width: int | None = None):
        self.source = source
        self.width = source.width() if width is None else width
        self.chunk = max(self.width, GROUP)
        self.operations = source.operations()
        self.code = on_lanes.printed(source, self.width)
        self.streams = source.traced.streams
        real = source.layout.real
        self.real_rows: Any = slice(0, len(real)) if real.all() else np.flatnonzero(real)
        self.normals_per_step = sum(count for _, count in self.streams)
        self.looped = isinstance(source, Loops)
        self.slab = max(SLAB_BYTES // (8 * max(self.normals_per_step, 1) * self.chunk), 1 if self.looped else 8)
        self.scratch = (2 * len(source.layout.dtypes) + source.scratch) * self.chunk if self.looped else 1
        tables = [np.zeros(1, np.int64), *source.tables]
        self.tables = np.concatenate(tables[1:] or tables)
        self.rate = 0.0  # path-steps per second, once it is known

    @functools.cached_property
    def diagnosing(self) -> compiling.Program:
        return on_lanes.printed(self.source, self.width, diagnosing=True)

    def work(self, spec: Spec, plan: Plan, lanes: int, packs: bool) -> _Work:
        """Memory for paths on their way through the program; `packs` where some may be stopped before others."""
        return (_Packing if packs else _Work)(self, spec, plan, lanes)

    def states_along(
        self, spec: Spec, plan: Plan, members: Members, supply: Supply, steps: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        """The method's states (times, scalars, lanes) after increasing numbers of steps."""
        work, first, starting = _Work(self, spec, plan, members.start.shape[1]), 0, self.source.traced.starting_steps
        work.take(members, 0, supply)
        work.begin()
        along = np.empty((len(steps), self.source.layout.of_method, work.lanes))
        for states, step in zip(along, steps, strict=True):
            middle = min(max(starting, first), step)
            for begin, end in ((first, middle), (middle, step)):
                if begin < end:
                    work.step(work.machine, begin, end, np.empty(0, int))
            states[:], first = work.state[: len(states)], step
        return along

    def stepper(
        self, spec: Spec, members: Members, normals: Supply
    ) -> Callable[[np.ndarray, float, float], np.ndarray]:
        """step(states, t, h) gives the states after one step, which is not one of the starting ones, from any."""
        plan = Plan(np.zeros(2), np.zeros(1), np.ones(1, int), ())
        work = _Work(self, spec, plan, members.start.shape[1])
        work.take(members, 0, normals)
        begun, of_method = work.generators.copy(), self.source.layout.of_method
        work.frame.set(steps=1, first_step=self.source.traced.starting_steps, saves=np.array([-1]))

        def step(states: np.ndarray, t: float, h: float) -> np.ndarray:
            work.state[:of_method], work.generators[:] = states, begun
            work.t[:], work.h[:] = (t, t + h), h
            self.code.machine(work.lanes)["run"](work.frame.address)
            return work.state[:of_method].copy()

        return step


_own = threading.local()


def _memory(name: str, *shape: int) -> np.ndarray:
    """An array that the thread keeps from block to block and from run to run: fresh pages cost time."""
    size = math.prod(shape)
    if getattr(_own, name, np.empty(0)).size < size:
        setattr(_own, name, np.empty(size))
    return getattr(_own, name)[:size].reshape(shape)


class _Work(Work):
    """The memory that the program works on; it takes paths, block after block, and moves them."""

    observes_start_apart = False

    def __init__(self, program: Printed, spec: Spec, plan: Plan, lanes: int):
        self.program, self.spec, self.plan, self.lanes = program, spec, plan, lanes
        self.observing: dict[int, Callable[..., Any]] = {}  # of statistics that look at all paths together
        self.members: Any = None
        source = program.source
        self.most_saves = max(SEEN_BYTES // (8 * lanes * len(source.saved_dtypes)), 1)  # of a call, beside the start
        self.state = _memory("state", len(source.layout.dtypes), lanes)
        self.saved = _memory("seen", min(self.most_saves + 1, len(plan.saves)), len(source.saved_dtypes), lanes)
        self.t, self.h = (np.ascontiguousarray(x, float) for x in (plan.t, plan.h))
        self.failed, self.causes = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self.frame = Frame(FRAME)
        self.frame.set(
            h=self.h, state=self.state, stride=lanes, first_lane=0, slab=program.slab, groups=lanes // GROUP,
            normals=_memory("normals", program.normals_per_step * program.slab * program.chunk + 1),
            failed=self.failed, causes=self.causes, tables=program.tables,
            scratch=_memory("scratch", max(program.scratch, len(plan.h))),
        )  # fmt: skip

    def take(self, members: Members, first_path: int, supply: Supply) -> None:
        """The paths to move, from first_path on."""
        program, lanes = self.program, self.lanes
        if members is not self.members:
            self._take_members(members)
        self.machine = program.code.machine(lanes * len(self.plan.h))
        self.supply = supply  # which the generators point into
        states = [supply.states(name, first_path, lanes) for name, _ in program.streams]
        self.generators = np.concatenate(states) if states else np.zeros((1, 4, GROUP), np.uint64)
        self.moving, self.saved_rows = (self.state, self.generators), self.saved  # the memory that a call changes
        self.frame.set(t=self.t, seen=self.saved, generators=self.generators, fill=supply.address)

    def _take_members(self, members: Members) -> None:
        old, self.members, lanes, width = self.members, members, self.lanes, self.program.width
        if old is None or members.member is not old.member or members.weight is not old.weight:
            self.is_full = bool(members.member.all() and (members.weight == 1.0).all())
            self.used = -(-int(np.count_nonzero(members.member)) // width) * width
        own: list[np.ndarray] = []
        common: list[np.ndarray] = []
        for values, varies in zip(members.params, self.spec.varies, strict=True):
            leaves = own if varies else common
            leaves.append(words(values).reshape(-1, lanes) if varies else words(values).ravel())
        self.frame.set(
            start=np.ascontiguousarray(members.start, float), last_lane=self.used,
            common_params=np.concatenate(common) if common else np.zeros(1),
        )  # fmt: skip
        if own or old is None:
            self.own_params = np.concatenate(own) if own else np.empty((0, lanes))
            self.frame.set(own_params=self.own_params)

    def begin(self) -> np.ndarray | None:
        with np.errstate(all="ignore"):
            self.machine["begin"](self.frame.address)
            self.machine["look"](self.frame.address)
        return self.bad()

    def end(self, first: int) -> int:
        """The last step of a call that takes about SECONDS and has not too many saves."""
        program = self.program
        seconds, unknown = (LONGER, 1) if program.looped else (SECONDS, FIRST_STEPS)
        steps = max(int(seconds * program.rate / self.lanes), 1) if program.rate else unknown
        return self.plan.call_end(first, steps, self.most_saves, program.source.traced.starting_steps)

    def advance(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        began = time.perf_counter()
        self.step(self.machine, first, last, self.plan.saves[inside])
        self.program.rate = self.lanes * (last - first) / max(time.perf_counter() - began, 1e-9)
        return self.bad()

    def step(self, machine: compiling.Machine, first: int, last: int, saves: np.ndarray) -> None:
        self.aim(first, last, saves)
        machine["starting" if first < self.program.source.traced.starting_steps else "run"](self.frame.address)

    def aim(self, first: int, last: int, saves: np.ndarray) -> None:
        """Point the frame at these steps."""
        begun = _begun(first, saves)
        listed = np.append(saves[begun:] - first, -1)
        self.frame.set(
            t=self.t[first:], h=self.h[first:], steps=last - first, first_step=first, saves=listed,
            seen=self.saved_rows[begun:],
        )  # fmt: skip

    def bad(self) -> np.ndarray | None:
        finite = np.isfinite(self.state[self.program.real_rows])
        if finite[:, : self.used].all():
            return None
        bad = ~finite.all(axis=0) & self.members.member
        return bad if bad.any() else None

    def rounded(self) -> int:
        if not self.program.source.layout.rounded:
            return 0
        return int(self.state[-1].view(np.int64)[self.members.member].sum())

    def snapshot(self) -> tuple[np.ndarray, np.ndarray]:
        state, generators = self.moving
        return state.copy(), generators.copy()

    def diagnose(self, before: tuple[np.ndarray, np.ndarray], first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        after, (state, generators) = self.snapshot(), self.moving
        state[:], generators[:] = before
        self.failed[:], self.causes[:] = -1, 0
        self.step(self.program.diagnosing.machine(self.lanes * (last - first)), first, last, np.empty(0, int))
        state[:], generators[:] = after
        return np.where(self.failed >= 0, self.failed - 1, -1), self.causes.copy()

    def observed(self, inside: slice) -> list[Any]:
        is_observed = [look[inside] for look in self.plan.observes]
        return _RowsOfLanes(self, inside).observed(self.spec.statistics, self.program.source.watched, is_observed)


class Ends(_Work):
    """Blocks of paths that go to the end again and again, by a plan that saves the last step alone: what does not
    depend on the seed is done once, since for few paths a call of Python takes longer than the steps."""

    def __init__(self, program: Printed, spec: Spec, plan: Plan, lanes: int, supply: Supply):
        super().__init__(program, spec, plan, lanes)
        self.generators = np.zeros((max(len(program.streams), 1), lanes // GROUP, 4, GROUP), np.uint64)
        self.saved_rows, self.aimed = self.saved, (0, 0)
        self.frame.set(t=self.t, generators=self.generators, fill=supply.address)

    def components(self, members: Members, first_path: int, supply: Supply) -> np.ndarray:
        """The components (n, lanes) after all steps, in memory that the next call overwrites."""
        if members is not self.members:
            self._take_members(members)
        steps, program, is_last = len(self.plan.h), self.program, self.plan.saves
        for k, (name, _) in enumerate(program.streams):
            self.generators[k] = supply.states(name, first_path, self.lanes)
        machine, starting, first = program.code.machine(self.lanes * steps), program.source.traced.starting_steps, 0
        if self.aimed[0]:  # the frame still points at the last of several calls
            self.frame.set(t=self.t)
            self.aimed = 0, 0
        machine["begin"](self.frame.address)
        while first < steps:
            limit = min(starting, steps) if first < starting else steps
            allowed = max(int(SECONDS * program.rate / self.lanes), 1) if program.rate else FIRST_STEPS
            last, began = min(limit, first + allowed), time.perf_counter()
            if (first, last) != self.aimed:
                self.aim(first, last, is_last if last == steps else is_last[:0])
                self.aimed = first, last
            machine["starting" if first < starting else "run"](self.frame.address)
            program.rate = self.lanes * (last - first) / max(time.perf_counter() - began, 1e-9)
            first = last
        return self.saved[0, : self.spec.problem.n]


class _RowsOfLanes(Rows):
    """The rows that a call has written."""

    def __init__(self, work: _Work, inside: slice):
        self.work, self.source, members = work, work.program.source, work.members
        self.times = work.plan.t[work.plan.saves[inside]]
        self.saved = work.saved[: len(self.times)]
        finite = np.isfinite(self.saved[:, : work.spec.problem.n])
        self.all_count = work.is_full and bool(finite.all())
        shape = len(self.times), work.lanes
        self.member = np.broadcast_to(members.member, shape)
        self.finite = np.ones(shape, bool) if self.all_count else finite.all(axis=1) & members.member

    def _counted(self, statistic: Statistic) -> np.ndarray:
        return self.member if statistic.counts_failed else self.finite

    def sums(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        numbers = self.source.rows_of[k][0].ravel()
        weight = None  # no weights: all are one
        if not self.all_count:
            weight = np.where(self._counted(statistic), self.work.members.weight, 0.0)
        products = statistic.products(len(numbers))
        return sums.central_sums(self.saved, numbers, weight, look, products, statistic.crosses)

    def below(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        spec = self.work.spec
        edges = np.asarray(statistic.edges, spec.dtype).astype(float)
        return counts.below(self.saved, spec.problem.n, self._counted(statistic), look, edges)

    def values(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        numbers = self.source.rows_of[k][0].ravel()
        return self._filled[look][:, numbers], self._counted(statistic)[look]

    @functools.cached_property
    def _filled(self) -> np.ndarray:
        """The rows with the first path in the lanes that are none, for statistics that see every lane."""
        member = self.work.members.member
        if not member.all():
            self.saved[:, :, ~member] = self.saved[:, :, [np.argmax(member)]]
        return self.saved

    def whole(self, k: int, statistic: Statistic, look: np.ndarray) -> Any:
        if k not in self.work.observing:
            example = self._inputs(k, look[0])
            self.work.observing[k] = _observing(self._observation(k, statistic), example, type(statistic).__name__)
        observing = self.work.observing[k]
        if isinstance(observing, _Picking):
            return observing(*self._inputs(k, look))
        observed = [jax.tree.map(np.asarray, observing(*self._inputs(k, j))) for j in look]
        return jax.tree.map(lambda *parts: np.stack(parts), *observed)

    def _observation(self, k: int, statistic: Statistic) -> Callable[..., Any]:
        """What the statistic observes at one save, as a function of the inputs below."""
        spec, source = self.work.spec, self.source

        def observation(
            t: Array, x: Array, sound: Array, own: list[Array], member: Array, weight: Array, params: Sequence[Array]
        ) -> Any:
            tree = jax.tree.unflatten(spec.params_tree, params)
            more = gathered(statistic, source.watched.trees[k], own)
            return observe(statistic, Snapshot(t, x, sound, weight, tree, spec.axes, *more), member)

        return observation

    def _inputs(self, k: int, look: Any) -> tuple[Any, ...]:
        """Time, states, soundness and own numbers at one save, or at several: a leading axis; and what all share."""
        spec, source, members, saved = self.work.spec, self.source, self.work.members, self._filled[look]
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of failed paths
            own = [typed(saved[..., rows, :], source.saved_dtypes[rows.flat[0]]) for rows in source.rows_of[k]]
            x = saved[..., : spec.problem.n, :].astype(spec.dtype)
        t, weight = self.times[look].astype(spec.dtype), members.weight.astype(spec.dtype)
        return t, x, self.finite[look], own, members.member, weight, members.params


class _Packing(_Work):
    """The work on a block whose paths may be stopped: active paths are packed together, so that a step costs only
    those.

    The last number of a path's state says by which level it was stopped, 0 while it goes on. `state`, `seen` and the
    frame `everyone` hold all paths in their places, `few` those that go on and what they need, `going` says which they
    are. A path has a generator of its own, so its numbers do not depend on the lane it stands in, and sums over the
    paths are taken in their places: packing changes no bit.
    """

    def __init__(self, program: Printed, spec: Spec, plan: Plan, lanes: int):
        super().__init__(program, spec, plan, lanes)
        self.everyone = self.frame
        self.stopped_by = self.state[program.source.layout.of_method - 1].view(np.int64)

    def take(self, members: Members, first_path: int, supply: Supply) -> None:
        self.frame = self.everyone
        super().take(members, first_path, supply)
        self.going = np.arange(self.used)
        self.few = {
            "state": self.state, "generators": self.generators, "own_params": self.own_params, "seen": self.saved
        }  # fmt: skip

    @property
    def is_packed(self) -> bool:
        return self.frame is not self.everyone

    def end(self, first: int) -> int:
        goes_on = (self.stopped_by[self.going] == 0) & self.members.member[self.going]
        if np.count_nonzero(goes_on) <= PACKED_AT * self.going.size:
            self._pack(np.flatnonzero(goes_on))
        return min(super().end(first), first + max(STOPPING // max(self.going.size, 1), 1))

    def _pack(self, going: np.ndarray) -> None:
        """Continue with only these lanes."""
        self.going = self.going[going]
        if not going.size:
            return
        lanes = np.append(going, np.repeat(going[:1], -going.size % self.program.chunk))
        self.few = {
            **{name: np.ascontiguousarray(self.few[name][:, lanes]) for name in ("state", "own_params")},
            "generators": _of_lanes(self.few["generators"], len(self.program.streams), lanes),
            "seen": np.empty((*self.saved.shape[:2], lanes.size)),
        }
        self.moving, self.saved_rows = (self.few["state"], self.few["generators"]), self.few["seen"]
        self.frame = self.everyone.copy()
        self.frame.set(**self.few, stride=lanes.size, last_lane=lanes.size, groups=lanes.size // GROUP)

    def advance(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        if not self.going.size or self.is_packed:
            for k, save in enumerate(self.plan.saves[inside]):  # of those that stand still
                self.everyone.set(t=self.t[save:], seen=self.saved[k])
                self.machine["look"](self.everyone.address)
        return self.move(first, last, inside)

    def move(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        """Move the paths that go on, and look only at them."""
        if not self.is_packed and self.going.size:
            return super().advance(first, last, inside)
        if self.going.size:
            saves = self.plan.saves[inside]
            self.step(self.machine, first, last, saves)
            count, fresh = self.going.size, slice(_begun(first, saves), saves.size)
            self.saved[fresh, :, self.going] = self.few["seen"][fresh, :, :count]
            self.state[:, self.going] = self.few["state"][:, :count]
        return self.bad()

    def components(self, inside: slice) -> np.ndarray:
        """The components (saves, n, lanes) at the saves of the last call."""
        return self.saved[: inside.stop - inside.start, : self.spec.problem.n]

    def diagnose(self, before: tuple[np.ndarray, np.ndarray], first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        diagnosis = super().diagnose(before, first, last)
        step, cause = np.full(self.lanes, -1), np.zeros(self.lanes, int)
        step[self.going], cause[self.going] = (part[: self.going.size] for part in diagnosis)
        return step, cause


def _begun(first: int, saves: np.ndarray) -> int:
    """How many of the saves of a call are the start, whose rows are there before the first step."""
    return int(saves.size > 0 and saves[0] == first)


def _of_lanes(generators: np.ndarray, streams: int, lanes: np.ndarray) -> np.ndarray:
    """The generators of some lanes, of each stream in groups of eight."""
    by_lane = generators.reshape(streams, -1, 4, GROUP).swapaxes(1, 2).reshape(streams, 4, -1)[:, :, lanes]
    return np.ascontiguousarray(by_lane.reshape(streams, 4, -1, GROUP).swapaxes(1, 2)).reshape(-1, 4, GROUP)


class _Picking:
    """An observation that only picks numbers out, at many saves at once by NumPy; traced anew for another number."""

    def __init__(self, observe: Callable[..., Any]):
        self.at_saves = jax.vmap(observe, in_axes=(0, 0, 0, 0, None, None, None))
        self.traces: dict[int, tuple[Any, Any]] = {}

    def __call__(self, t: np.ndarray, *inputs: Any) -> Any:
        if len(t) not in self.traces:
            with jax.enable_x64(True):
                trace, shape = jax.make_jaxpr(self.at_saves, return_shape=True)(t, *inputs)
            self.traces[len(t)] = trace, jax.tree.structure(shape)
        trace, tree = self.traces[len(t)]
        return jax.tree.unflatten(tree, map(np.asarray, uncompiled.run(trace, *jax.tree.leaves((t, *inputs)))))


def _observing(observe: Callable[..., Any], inputs: tuple[Any, ...], name: str) -> Callable[..., Any]:
    """The observation of a statistic, compiled; by NumPy where it only picks numbers out."""
    with jax.enable_x64(True):
        trace = jax.make_jaxpr(observe)(*inputs)
        if all(row_of(operation_of(equation)).data is EVERY for equation in trace.eqns):
            return _Picking(observe)
        return compiled(fingerprint(trace) + name, observe, *inputs).call
