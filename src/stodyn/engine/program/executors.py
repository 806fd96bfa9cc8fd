"""How a block is computed: by a printed program, under jax.vmap, by the host code of a Solver, or on a GPU.

A program takes blocks of a layout, program.block(layout, number, tell), and returns how each went: the observations of
the statistics over their times, and the failures. Only compiled code is kept, under a digest of its whole text.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from stodyn.engine.collector import without_collection
from stodyn.engine.failure import LEFT, UNFIT
from stodyn.engine.layout import Layout, Members
from stodyn.engine.program.as_loops import Loops
from stodyn.engine.program.as_scalars import Scalars
from stodyn.engine.program.observing import observe
from stodyn.engine.program.printed import Ends, Printed
from stodyn.engine.program.source import Source, UnprintableValues
from stodyn.engine.program.vmap import BlockRunner, StoppingVmapWork, Vmap, VmapWork, Windows
from stodyn.engine.program.vmap import Program as VmapProgram
from stodyn.engine.program.watching import Watched, watched
from stodyn.engine.program.work import Failures, Plan, Went, gone_through, until_still
from stodyn.engine.spec import Spec
from stodyn.methods.contract import Method
from stodyn.noise import stream
from stodyn.noise.supply import CountedNormals, DrawnNormals, GivenNormals, PathByPath, Supply
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.fingerprints import calls_host, holds, prints
from stodyn.numerics.printing.operations import EXECUTED
from stodyn.numerics.printing.unprintable import TooLarge, TooManySelections, Unprintable, or_unprintable
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.statistics.contract import Move, Snapshot, Statistic

EXECUTORS = ("auto", "printed", "vmap")
LANE_MULTIPLE = 32  # lanes come in multiples of it, which every processor's vectors divide
WIDEST, NARROWEST = 4096, 512  # paths of a block
BLOCK_OPERATIONS = 2.5e8  # scalar operations of a block, up to which it is made wider
VMAPPED, SMALLEST = 1024, 64  # paths of a block under vmap, and where its state is large
STATE_BYTES = 2_000_000  # of a block under vmap
MOST_OPERATIONS = 30_000  # of a printed step: beyond, text and code grow too long
LOOPED, SMALL = 4000, 16  # scalar operations beyond which a step is printed as loops; components up to which never
MOST_WRITTEN = 60_000  # likewise where most entries of matrices are zeros: loops take fifty times as long for a step
ZEROS = 4  # of five operations by the shapes of a step with joints: scalars leave out the zeros of matrices
MOSTLY_ZEROS = 16  # likewise where most entries are; a step of 79,000 took minutes to compile, and overran the stack
MOST_TRACED = 1_000_000  # operations by the shapes of a trace, beyond which it is not taken apart into scalars
LOOPED_BYTES, FEWEST = 8_000_000, 8  # of the states of a block of large systems; its paths, where they take long
SLAB_BYTES, LONGEST_SLAB = 2_000_000, 1024  # of normals given to a program under vmap

Tell = Callable[[int], None]
Step = Callable[[np.ndarray, float, float], np.ndarray]


class Executor(ABC):
    """A way to compute the blocks of a run.

    reason  why this one was taken, in words
    """

    name: str
    reason: str

    @property
    @abstractmethod
    def width(self) -> int:
        """Paths of a block: it depends on the spec alone, never on the number of paths or the machine."""

    @abstractmethod
    def block(self, layout: Layout, block: int, tell: Tell) -> Went:
        """How a block went; tell(path_steps) is called as work is done, and may raise."""

    def let_go(self) -> None:  # noqa: B027
        """Give up memory that is kept from block to block; some keep none."""

    @property
    @abstractmethod
    def normals(self) -> str | None:
        """Where the normals come from, in words."""

    @property
    def recipe(self) -> Callable[[Spec], Executor]:
        """A function that makes this executor again elsewhere, from the spec of its run."""
        return functools.partial(get, executor=self.name if self.name in EXECUTORS else "auto")


class Stepping(Executor):
    """A way that takes any paths step by step, with normals that are drawn, counted or given.

    supply         where the normals of a seed come from
    lane_multiple  the number of which the lanes of a block are a multiple
    """

    spec: Spec
    lane_multiple = LANE_MULTIPLE
    supply: type[DrawnNormals] | type[CountedNormals] = DrawnNormals

    @property
    def normals(self) -> str:
        return self.supply.name

    @abstractmethod
    def paths(self, members: Members, first_path: int, supply: Supply, tell: Tell = lambda steps: None) -> Went:
        """How the paths from first_path on went; tell(steps) is called as work is done, and may raise."""

    @abstractmethod
    def until_stopped(self, members: Members, supply: Supply) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Call by call, until every path stands still: the lanes that go on, and the components (steps, n, lanes) after
        each step, which the first statistic looks at and the next call overwrites; raises FloatingPointError where
        paths fail."""

    def lanes(self, paths: int) -> int:
        """The number of lanes for any number of paths."""
        return lanes_for(paths, self.lane_multiple)

    def block(self, layout: Layout, block: int, tell: Tell) -> Went:
        count, lanes = layout.paths_in(block), lanes_of(layout, block, self.lane_multiple)
        members, first = layout.members(block, lanes), layout.first_path(block)

        def path_steps_done(steps: int) -> None:
            tell(steps * count)

        if layout.points == "random":
            return self.paths(members, first, self.supply(layout.seed), path_steps_done)
        return self.paths(members, 0, GivenNormals(layout.net.normals(first, count, lanes)), path_steps_done)


class SingleSteps(ABC):
    """A way that takes single steps from any states of the method; its lanes come in multiples of `lane_multiple`."""

    spec: Spec
    lane_multiple: int

    @abstractmethod
    def states_after(self, layout: Layout, paths: int, steps: int) -> np.ndarray:
        """The method's states (scalars, paths) of the first paths after that many steps."""

    @abstractmethod
    def stepper(self, layout: Layout, normals: Mapping[str, np.ndarray], count: int) -> Step:
        """step(states, t, h) gives the states (scalars, count) after one step from any; not one of the starting steps.

        All have the parameters of the first path of the run. normals: of each stream (how many, count).
        """

    @property
    def real_rows(self) -> np.ndarray:
        """Which scalars of the method's state are real numbers."""
        traced: Any = self.spec.traced
        kinds = [np.dtype(d).kind for d, shape in zip(traced.state_dtypes, traced.state_shapes, strict=True)
                 for _ in range(int(np.prod(shape)))]  # fmt: skip
        return np.flatnonzero(np.array(kinds) == "f")


def lanes_of(layout: Layout, block: int, multiple: int = LANE_MULTIPLE) -> int:
    """Lanes of a block: those of a run that is smaller than a block are fewer."""
    paths = min(layout.width, layout.paths) if layout.least is None else layout.paths_in(block)
    return -(-paths // multiple) * multiple


def lanes_for(paths: int, multiple: int = LANE_MULTIPLE) -> int:
    """The number of lanes for that many paths."""
    return -(-paths // multiple) * multiple


def plan_of(spec: Spec) -> Plan:
    observed = np.zeros((len(spec.saves), spec.steps + 1), bool)  # sorting a million saves takes longer than the steps
    for row, saves in zip(observed, spec.saves, strict=True):
        row[saves] = True
    saves = np.flatnonzero(observed.any(axis=0))
    return Plan(spec.times, spec.lengths, saves, tuple(observed[:, saves]))


@without_collection
def get(
    spec: Spec, executor: str = "auto", supply: type[DrawnNormals] | type[CountedNormals] = DrawnNormals
) -> Executor:
    """The way to compute a run on processors."""
    if not isinstance(spec.method, Method):
        return Hosted(spec)
    return printed_or_vmapped(lambda: ByPrint(spec, supply), lambda reason: Vmapped(spec, reason, supply), executor)


def printed_or_vmapped(printed: Callable[[], Executor], vmapped: Callable[[str], Executor], executor: str) -> Executor:
    """The requested way; "auto" prints every step that can be printed."""
    if executor == "vmap":
        return vmapped("asked for")
    try:
        return printed()
    except Unprintable as error:
        if executor == "printed":
            raise ValueError(f'executor="printed" is not possible for this problem and method: {error}') from error
        return vmapped(str(error))


# --- printed ----------------------------------------------------------------------------------------------------------

_programs: Bounded[str, Any] = Bounded(128)
_making: dict[str, threading.Lock] = {}
_changing = threading.Lock()


def cached_digests() -> tuple[str, ...]:
    """The digests of the programs that are kept."""
    return tuple(_programs)


def forget() -> None:
    """Drop all programs that are kept."""
    with _changing:
        _programs.clear()


class ByPrint(Stepping, SingleSteps):
    """A block computed by a program that is printed for processors."""

    name = "printed"

    def __init__(self, spec: Spec, supply: type[DrawnNormals] | type[CountedNormals] = DrawnNormals):
        self.spec, self.plan, self.supply = spec, plan_of(spec), supply
        self._of_thread = threading.local()
        reason = compiling.unavailable()
        if reason is not None:
            raise Unprintable(reason)
        target, left_out = str(compiling.processor()), ""
        try:
            self.program: Printed = kept_program(spec, target, _printed)
        except UnprintableValues as error:
            self.program = kept_program(spec, target, _printed, values_apart=True)
            left_out = f"; functions of Observables by XLA: {error}"
        self.reason = self.program.source.description + left_out
        self.lane_multiple = FEWEST if self.program.looped else LANE_MULTIPLE

    def let_go(self) -> None:
        self._of_thread = threading.local()

    def on_grid(self, spec: Spec) -> ByPrint:
        """The same program for a run that differs only in its times, without tracing it again."""
        program = copy.copy(self)
        program.spec, program.plan, program._of_thread = spec, plan_of(spec), threading.local()
        return program

    @property
    def width(self) -> int:
        width, narrowest = WIDEST, FEWEST if self.program.looped else NARROWEST
        while width > narrowest and width * self.spec.steps * self.program.operations > BLOCK_OPERATIONS:
            width //= 2
        if self.program.looped:
            while width > FEWEST and 8 * width * len(self.program.source.layout.dtypes) > LOOPED_BYTES:
                width //= 2
        return width

    def paths(self, members: Members, first_path: int, supply: Supply, tell: Tell = lambda steps: None) -> Went:
        kind = members.start.shape[1], self.spec.method.stops and not isinstance(supply, GivenNormals)
        if kind not in self._works:
            self._works[kind] = self.program.work(self.spec, self.plan, *kind)
        work = self._works[kind]
        work.take(members, first_path, supply)
        return gone_through(work, self.plan, tell)

    def at_end(self, members: Members, first_path: int, supply: Supply) -> np.ndarray:
        """The components (n, lanes) after the last step, in memory that the next call overwrites."""
        kind = members.start.shape[1], "end"
        ends = self._works.get(kind)
        if ends is None:
            plan = Plan(self.plan.t, self.plan.h, np.array([self.spec.steps]), ())
            ends = self._works[kind] = Ends(self.program, self.spec, plan, kind[0], supply)
        return ends.components(members, first_path, supply)

    @property
    def _works(self) -> dict[tuple[int, Any], Any]:
        """The memory of this thread by its number of lanes, and by whether they are packed or seen at the end alone."""
        return self._of_thread.__dict__.setdefault("works", {})

    def until_stopped(self, members: Members, supply: Supply) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        work: Any = self.program.work(self.spec, self.plan, members.start.shape[1], packs=True)
        work.take(members, 0, supply)
        return until_still(work, self.plan)

    def states_after(self, layout: Layout, paths: int, steps: int) -> np.ndarray:
        members = layout.members_from(0, paths, lanes_for(paths, self.lane_multiple))
        return self.states_along(members, layout.seed, [steps])[0, :, :paths]

    def states_along(self, members: Members, seed: int, steps: Sequence[int] | np.ndarray) -> np.ndarray:
        """The method's states (times, scalars, lanes) of paths after increasing numbers of steps."""
        return self.program.states_along(self.spec, self.plan, members, DrawnNormals(seed), steps)

    def stepper(self, layout: Layout, normals: Mapping[str, np.ndarray], count: int) -> Step:
        lanes = lanes_for(count, self.lane_multiple)
        fill = np.arange(lanes) % count if lanes > count else slice(None)
        members = layout.members_from(0, 1, lanes)._replace(member=np.ones(lanes, bool))
        supply = GivenNormals({name: z[None, :, fill] for name, z in normals.items()})
        step = self.program.stepper(self.spec, members, supply)
        return lambda states, t, h: step(states[:, fill], t, h)[:, :count]


def kept_program(spec: Spec, target: str, make: Callable[[Spec, Watched], Any], values_apart: bool = False) -> Any:
    """The program of a run for a kind of machine, made if it does not exist yet; raises Unprintable."""
    traced: Any = spec.traced
    if traced.unprintable is not None:
        raise Unprintable(traced.unprintable)
    watch = watched(spec, values_apart)
    key = _key(spec, watch, target)
    with _changing:
        making = _making.setdefault(key, threading.Lock())
    with making:
        if key not in _programs:
            with or_unprintable():
                program = make(spec, watch)
            with _changing:
                _programs[key] = program
        return _programs[key]


def _printed(spec: Spec, watch: Watched) -> Printed:
    return Printed(source_of(spec, watch, LOOPED))


def source_of(spec: Spec, watch: Watched, most: int) -> Source:
    """A step of more than `most` operations as loops over arrays, one of fewer as scalars."""
    traced: Any = spec.traced
    is_large = spec.problem.n > SMALL and not spec.problem.writes_out
    if traced.operations > most and (is_large or eliminates(spec)):
        zeros = MOSTLY_ZEROS if spec.problem.mostly_zeros else ZEROS
        if spec.problem.joints is not None and traced.operations <= zeros * MOST_OPERATIONS:
            with contextlib.suppress(Unprintable):
                return scalar_source(spec, watch)
        try:
            with or_unprintable():
                return Loops(spec, watch)
        except UnprintableValues:
            raise
        except Unprintable as error:
            return scalar_source(spec, watch, f" ({error})")
    try:
        return scalar_source(spec, watch)
    except TooManySelections:
        if not is_large:
            raise
        return Loops(spec, watch)


def eliminates(spec: Spec) -> bool:
    """Whether a step eliminates a sparse system. As scalars it would be written out whole, along with the dense
    elimination of paths whose pivots are too small."""
    return holds(spec.traced.step, EXECUTED)  # type: ignore[union-attr]


def scalar_source(spec: Spec, watch: Watched, no_loops: str = "") -> Source:
    """A step as scalars, where they are not too many; `no_loops` says why it is not printed as loops."""
    traced: Any = spec.traced
    count = traced.operations
    if count > MOST_TRACED:
        raise TooLarge(
            f"about {count} scalar operations per step, more than {MOST_TRACED}, and it has no loops{no_loops}"
        )
    source = Scalars(spec, watch)
    most = MOST_WRITTEN if spec.problem.mostly_zeros else MOST_OPERATIONS
    if source.operations() > most:
        raise TooLarge(f"{source.operations()} scalar operations per step, more than {most}{no_loops}")
    return source


def _key(spec: Spec, watch: Watched, target: str) -> str:
    """A digest of everything that the text of a program depends on."""
    assert spec.traced is not None
    inside = (*spec.traced.fingerprints, *watch.fingerprints)
    shapes = [(e.shape, e.dtype.str, v) for e, v in zip(spec.examples, spec.varies, strict=True)]
    words = (inside, watch.apart, shapes, spec.dtype.str, spec.has_equal_steps, watch.row_counts,
             watch.counts_iterations, list(map(str, watch.trees)), spec.traced.streams, target)  # fmt: skip
    return hashlib.sha256(repr(words).encode()).hexdigest()


# --- under vmap -------------------------------------------------------------------------------------------------------


class Vmapped(Stepping, SingleSteps):
    """The step by jax.vmap, compiled by XLA, with the normals of printed programs."""

    name = "vmap"

    def __init__(self, spec: Spec, reason: str, supply: type[DrawnNormals] | type[CountedNormals] = DrawnNormals):
        self.spec, self.reason, self.supply = spec, reason, supply
        if spec.traced is not None and prints(spec.traced.step):
            self.lane_multiple = 1  # idle lanes would print too
        self._runners: dict[Any, BlockRunner] = {}
        self._making = threading.Lock()

    @property
    def width(self) -> int:
        traced: Any = self.spec.traced
        scalars, width = self.spec.problem.n + sum(count for _, count in traced.streams), VMAPPED
        while width > SMALLEST and 8 * scalars * width > STATE_BYTES:
            width //= 2
        return width

    def paths(self, members: Members, first_path: int, supply: Supply, tell: Tell = lambda steps: None) -> Went:
        traced: Any = self.spec.traced
        lanes = members.start.shape[1]
        feed = supply.feed(traced.streams, first_path, lanes)
        with self._in_float64():
            runner = self._runner(members, lanes)
            return gone_through(VmapWork(runner, feed, members), runner.plan, tell)

    def states_after(self, layout: Layout, paths: int, steps: int) -> np.ndarray:
        traced: Any = self.spec.traced
        members = layout.members(0, lanes_of(layout, 0))
        lanes = members.start.shape[1]
        runner, feed = self._runner(members, lanes), DrawnNormals(layout.seed).feed(traced.streams, 0, lanes)
        with self._in_float64(), jax.enable_x64(True):
            return _rows(runner.state_after(members, feed, steps))[:, :paths]

    def stepper(self, layout: Layout, normals: Mapping[str, np.ndarray], count: int) -> Step:
        traced: Any = self.spec.traced
        lanes = lanes_of(layout, 0)
        members = layout.members_from(0, 1, lanes)
        runner = self._runner(members, lanes)
        fills = [np.minimum(first + np.arange(lanes), count - 1) for first in range(0, count, lanes)]
        padded = [[runner.padded(normals[name][None, :, fill]) for name, _ in traced.streams] for fill in fills]
        with jax.enable_x64(True):
            one = runner.stepper(members)

        def step(states: np.ndarray, t: float, h: float) -> np.ndarray:
            with self._in_float64(), jax.enable_x64(True):
                parts = [
                    _rows(one(traced.leaves(states[:, fill]), t, h, z)) for fill, z in zip(fills, padded, strict=True)
                ]
            return np.concatenate(parts, axis=1)[:, :count]

        return step

    def until_stopped(self, members: Members, supply: Supply) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        traced: Any = self.spec.traced
        lanes = members.start.shape[1]
        with self._in_float64():
            runner = self._runner(members, lanes)
            feed = supply.feed(traced.streams, 0, lanes)
            yield from until_still(StoppingVmapWork(runner, feed, members), runner.plan)

    def lanes(self, paths: int) -> int:
        """A power of two, since every number of lanes has a program of its own."""
        return max(1 << (paths - 1).bit_length(), self.lane_multiple) if self.lane_multiple > 1 else paths

    def _in_float64(self) -> contextlib.AbstractContextManager[None]:
        """float64 in the threads of functions of the host too, where the step calls any."""
        traced: Any = self.spec.traced
        shows = calls_host(traced.step) or prints(traced.step)
        return _in_float64_everywhere() if shows else contextlib.nullcontext()

    def _runner(self, members: Members, lanes: int) -> BlockRunner:
        traced: Any = self.spec.traced
        key = lanes, str(jax.config.jax_default_device)  # type: ignore[attr-defined, unused-ignore]
        with self._making:
            if key not in self._runners:
                normals = sum(count for _, count in traced.streams)
                longest = int(np.clip(SLAB_BYTES // (8 * max(normals, 1) * lanes), 8, LONGEST_SLAB))
                plan = plan_of(self.spec)
                windows = Windows(plan.t, plan.h, plan.saves, plan.observes, min(longest, self.spec.steps))
                program = VmapProgram(Vmap(traced, lanes), self.spec.statistics, windows.intervals,
                                      self.spec.varies, windows.always, self.spec.levels)  # fmt: skip
                with jax.enable_x64(True):
                    self._runners[key] = BlockRunner(program, windows, members)
            return self._runners[key]


def _rows(leaves: Any) -> np.ndarray:
    """The leaves of a state, each with a last axis of paths, as rows of scalars."""
    return np.concatenate([np.asarray(leaf, float).reshape(-1, np.shape(leaf)[-1]) for leaf in leaves])


_in_float64: list[bool] = []


@contextlib.contextmanager
def _in_float64_everywhere() -> Iterator[None]:
    """float64 in all threads: XLA calls functions of the host from threads of its own, which follow the session."""
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(jax.config.jax_enable_x64))  # type: ignore[attr-defined, unused-ignore]
    with _changing:
        asking.start()  # a new thread has the session's setting, not that of the thread we are in
        asking.join()
        _in_float64.append(answers[0])
        jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        with _changing:
            before = _in_float64[0]
            _in_float64.pop()
            if not _in_float64:
                jax.config.update("jax_enable_x64", before)


# --- Solvers ----------------------------------------------------------------------------------------------------------


Observer = tuple[Callable[..., Any], Callable[..., Any]]


class Hosted(Executor):
    """Host code that takes a block over the whole grid at once; the statistics then look at the states it returns."""

    name = "host"
    reason = "a Solver makes whole paths at once"
    width = VMAPPED
    normals = None

    def __init__(self, spec: Spec):
        self.spec = spec
        self.observers = [self._observer(statistic) for statistic in spec.statistics]

    def _observer(self, statistic: Statistic) -> Observer:
        """What the statistic gathers along a step, and what it observes at a time."""
        axes = self.spec.axes

        def track(track: Any, t: Array, h: Array, before: Array, after: Array, params: Any) -> Any:
            return statistic.track(track, Move(t, h, before, after, params, axes))

        def observation(t: Array, x: Array, sound: Array, weight: Array, params: Any, idle: Array, track: Any) -> Any:
            return observe(
                statistic, Snapshot(t, x, sound, weight, params, axes, idle, track), np.ones(sound.shape, bool)
            )

        return jax.jit(track), Uncompiled(observation)

    def block(self, layout: Layout, block: int, tell: Tell) -> Went:
        tell(0)
        spec, times = self.spec, self.spec.times
        members = layout.members(block, layout.paths_in(block))
        width = layout.paths_in(block)
        leaves = [
            np.moveaxis(p, -1, 0) if v else np.broadcast_to(p, (width, *p.shape))
            for p, v in zip(members.params, spec.varies, strict=True)
        ]
        tree = spec.params_tree
        streams: dict[str, Any] = {name: stream.generator(layout.seed, block, name) for name in stream.STREAMS}
        if spec.method.follows_paths:
            streams["W"] = PathByPath(layout.seed, "W", layout.first_path(block), width)
        solved = spec.method.solve(spec.problem, times, members.start.T, tree.unflatten(leaves), streams)
        states, expected = np.asarray(solved, spec.dtype), (len(times), width, spec.problem.n)
        if states.shape != expected:
            raise ValueError(f"method: {spec.method.name}.solve gave shape {states.shape}, expected {expected}")
        unfit = self._unfit(states, tree.unflatten(leaves))
        states = np.where(np.logical_or.accumulate(unfit)[..., None], np.nan, states) if unfit.any() else states
        finite, params = np.isfinite(states).all(axis=2), tree.unflatten(members.params)

        def look(statistic: Statistic, follows: Observer, saves: np.ndarray) -> Any:
            tracked, observed = follows
            observations, wanted = [], set(saves.tolist())
            track = statistic.track_start(times[0], states[0].T, params)
            for k, t in enumerate(times):
                if k and track is not None:
                    track = tracked(track, times[k - 1], spec.lengths[k - 1], states[k - 1].T, states[k].T, params)
                if k in wanted:
                    idle = np.zeros(width, np.int32)
                    observations.append(observed(t, states[k].T, finite[k], members.weight, params, idle, track))
            return jax.tree.map(lambda *xs: np.stack(xs), *observations)

        observed = [look(*each) for each in zip(spec.statistics, self.observers, spec.saves, strict=True)]
        lanes = np.flatnonzero(~finite.all(axis=0))
        tell(spec.steps * width)
        steps = np.argmin(finite[:, lanes], axis=0)
        return Went(observed, Failures(lanes, steps, np.where(unfit[steps, lanes], UNFIT, LEFT)), 0)

    def _unfit(self, states: np.ndarray, params: Any) -> np.ndarray:
        """Which states (times, paths, n) the problem does not allow, (times, paths)."""
        if self.spec.fit is None:
            return np.zeros(states.shape[:2], bool)
        of_paths = jax.vmap(self.spec.fit.fails, (None, 0, 0))
        return Uncompiled(jax.vmap(of_paths, (0, 0, None)))(self.spec.times, states, params)
