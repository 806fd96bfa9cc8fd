"""Blocks of paths by jax.vmap: a program of XLA's, compiled once per problem, method and set of statistics."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import jaxpr_as_fun

from stodyn.engine.door import available_cores
from stodyn.engine.failure import LEFT, UNSOLVED
from stodyn.engine.forked import require_threads
from stodyn.engine.layout import Members
from stodyn.engine.program.observing import observe
from stodyn.engine.program.watching import frozen, moved
from stodyn.engine.program.work import Plan, Work
from stodyn.engine.traces import Traced
from stodyn.numerics.as_written import as_written
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.facts.exact_zeros import exact_zeros
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.numerics.printing.operations import library_calls
from stodyn.statistics.contract import Move, Snapshot, Statistic, parted

Numbers: TypeAlias = Array | np.ndarray


@dataclasses.dataclass(frozen=True)
class Vmap:
    """jax.vmap over the last axis: a block's carry is the tuple of its state's leaves."""

    traced: Traced
    paths: int

    def step(
        self,
        carry: Sequence[Array],
        t: Numbers,
        h: Numbers,
        normals: Sequence[Numbers],
        params: Sequence[Numbers],
        varies: Sequence[int],
        k: Numbers | None = None,
    ) -> tuple[tuple[Array, ...], Array, Array, Array]:
        """(carry, cause, iterations, rounded) after a step, or starting step k; see engine.failure."""
        common, traced = ((t, h), self.traced.step) if k is None else ((k, t, h), self.traced.starting)
        assert traced is not None  # only steps that start a method are numbered
        axes = (*(None for _ in common), *(-1 for _ in (*carry, *normals)), *(-1 if v else None for v in varies))
        one = jaxpr_as_fun(as_written(exact_zeros(traced)))
        function = _over_paths(one, axes, self.paths, library_calls(traced))
        *after, ok, iterations, rounded = function(*common, *carry, *normals, *params)
        cause = after.pop() if self.traced.names_causes else jnp.where(ok, LEFT, UNSOLVED).astype(np.int32)
        return tuple(after), cause, iterations, rounded

    def read(self, carry: Sequence[Array]) -> Array:
        return jax.vmap(jaxpr_as_fun(self.traced.read), in_axes=-1, out_axes=-1, axis_size=self.paths)(*carry)[0]


def _over_paths(one: Callable[..., Any], axes: Sequence[int | None], paths: int, calls: int) -> Callable[..., Any]:
    """`one` for all paths, which some arguments have as their last axis: by vmap.

    On a processor with no more threads than such calls to LAPACK it is by a loop: a call for all paths occupies a
    thread of XLA's pool and waits for others to do parts of it. Two at once, on two cores, waited for ever.
    """
    by_vmap = jax.vmap(one, in_axes=axes, out_axes=-1, axis_size=paths)
    if calls < max(2, available_cores()):
        return by_vmap

    def by_loop(*arguments: Array) -> Any:
        own = [jnp.moveaxis(x, -1, 0) for x, axis in zip(arguments, axes, strict=True) if axis is not None]

        def at(rows: list[Array]) -> Any:
            row = iter(rows)
            return one(*(x if axis is None else next(row) for x, axis in zip(arguments, axes, strict=True)))

        return [jnp.moveaxis(x, 0, -1) for x in lax.map(at, own)]

    return lambda *arguments: lax.platform_dependent(*arguments, cpu=by_loop, default=by_vmap)


class State(NamedTuple):
    """The numbers that a block carries from step to step."""

    method: tuple[Array, ...]
    iterations: Array | None  # (lanes,) where they are counted
    rounded: Array | None  # (lanes,): steps solved no better than rounding allows, where there may be any
    tracks: tuple[Any, ...]  # what each statistic gathers at every step


Observed: TypeAlias = tuple[Any, ...]  # of each statistic what it makes of a block
Advanced: TypeAlias = tuple[State, Observed, Array, Array]  # then whether a lane has gone bad, and which


class Window(NamedTuple):
    """The times and lengths of the steps of one call, the bounds of its intervals, and which statistics look at the end
    of each.

    first is the number of its first step, counted from the start of the run; the arrays are as long for every call, and
    only the first `intervals` intervals are run.
    """

    t: np.ndarray
    h: np.ndarray
    bounds: np.ndarray
    observes: np.ndarray
    intervals: np.ndarray
    first: np.ndarray


@dataclasses.dataclass(frozen=True)
class Windows(Plan):
    """A plan cut into calls of at most `longest` steps."""

    longest: int

    @functools.cached_property
    def every(self) -> int | None:
        """Steps from save to save, where they are equal and a call can hold them: then every call ends on a save."""
        apart = np.diff(self.saves)
        regular = len(apart) > 0 and self.saves[0] == 0 and self.saves[-1] == len(self.h) and np.ptp(apart) == 0
        return int(apart[0]) if regular and apart[0] <= self.longest else None

    @property
    def always(self) -> tuple[bool, ...]:
        """Whether each statistic looks at the end of every interval."""
        return tuple(self.every is not None and bool(np.all(look)) for look in self.observes)

    def end(self, first: int, pace: int) -> int:
        """The last step of a call that begins at step `first` and should take about `pace` steps."""
        steps = max(pace // self.every, 1) * self.every if self.every else max(pace, 1)
        most = self.longest - self.longest % self.every if self.every else self.longest
        return min(first + min(steps, most), len(self.h))

    @functools.cached_property
    def intervals(self) -> int:
        """The largest number of intervals of a call: one per save, and one to its end where no save lies."""
        most = np.searchsorted(self.saves, self.saves + self.longest) - np.arange(len(self.saves))
        return int(most.max(initial=0)) + (self.every is None)

    def window(self, first: int, last: int, dtype: Any) -> Window:
        """The arrays of a call; after its last save comes the rest of its steps, where there are any."""
        t, h = np.zeros(self.longest + 1, dtype), np.zeros(self.longest, dtype)
        t[: last - first + 1], h[: last - first] = self.t[first : last + 1], self.h[first:last]
        inside = self.saves_in(first, last)
        ends = self.saves[inside] - first
        bounds = np.full(self.intervals + 1, last - first, np.int32)
        bounds[0] = 0
        bounds[1 : 1 + len(ends)] = ends
        is_observed = np.zeros((self.intervals, len(self.observes)), bool)
        for s, look in enumerate(self.observes):
            is_observed[: len(ends), s] = look[inside]
        intervals = len(ends) + (len(ends) == 0 or ends[-1] < last - first)
        return Window(t, h, bounds, is_observed, np.asarray(intervals, np.int32), np.asarray(first, np.int32))


@dataclasses.dataclass(frozen=True)
class Program:
    """The computation as JAX functions of a whole block: `begin`, `advance` over a window, `diagnose` a bad one.

    varies  for each leaf of the parameters 1 where every path has its own, 0 where it is common to all
    always  for each statistic whether it looks at the end of every interval
    levels  how many levels stop a path
    """

    batch: Vmap
    statistics: tuple[Statistic, ...]
    intervals: int
    varies: tuple[int, ...]
    always: tuple[bool, ...]
    levels: int = 0

    @property
    def dtype(self) -> Any:
        return self.batch.traced.read.out_avals[0].dtype

    def begin(self, t: Array, members: Members) -> Advanced:
        """The state at the start, the observations of the statistics there, whether a lane is already bad, and
        which."""
        axes = (None, -1, *(-1 if v else None for v in self.varies))
        traced = self.batch.traced.start
        start = _over_paths(jaxpr_as_fun(traced), axes, self.batch.paths, library_calls(traced))
        carry = tuple(start(t, members.start, *members.params))
        here, params = parted(self.batch.read(carry), len(members.start), self.levels)[0], self.params(members)
        tracks = tuple(s.track_start(t, here, params) for s in self.statistics)
        counts = any(s.counts_iterations for s in self.statistics)
        none = jnp.zeros(self.batch.paths, np.int32)
        rounded = none if self.batch.traced.may_round else None
        state = State(carry, none if counts else None, rounded, tracks)
        everyone = jnp.ones(len(self.statistics), bool)
        bad = self.bad(state, members)
        return state, self.observe(state, t, everyone, members), jnp.any(bad), bad

    def advance(self, state: State, normals: Sequence[Array], window: Window, members: Members) -> Advanced:
        """Advance a block from bound to bound, while the statistics look at the end of each interval, and find which
        lanes have gone bad."""
        starting_steps = self.batch.traced.starting_steps

        def interval(k: Array, carry: tuple[State, Observed]) -> tuple[State, Observed]:
            state, observations = carry
            first, last = window.bounds[k], window.bounds[k + 1]
            if starting_steps:
                begun = jnp.clip(starting_steps - window.first, first, last)
                state, first = self.steps(first, begun, state, normals, window, members, starting=True), begun
            state = self.steps(first, last, state, normals, window, members)
            now = self.observe(state, window.t[last], window.observes[k], members)
            return state, jax.tree.map(lambda rows, new: rows.at[k].set(new), observations, now)

        shapes = jax.eval_shape(self.observe, state, window.t[0], window.observes[0], members)
        observations = jax.tree.map(lambda s: jnp.zeros((self.intervals, *s.shape), s.dtype), shapes)
        state, observations = lax.fori_loop(0, window.intervals, interval, (state, observations))
        bad = self.bad(state, members)
        return state, observations, jnp.any(bad), bad

    def steps(
        self,
        first: Array,
        last: Array,
        state: State,
        normals: Sequence[Array],
        window: Window,
        members: Members,
        starting: bool = False,
    ) -> State:
        """The state after the steps of a window from `first` to `last`, as starting steps where they are."""

        def one(i: Array, step_normals: list[Array], state: State) -> State:
            return self.step(
                state, window.t[i], window.h[i], step_normals, members, window.first + i if starting else None
            )[0]

        return lax.fori_loop(first, last, lambda i, state: one(i, [z[i] for z in normals], state), state)

    def diagnose(self, state: State, normals: Sequence[Array], window: Window, members: Members) -> tuple[Array, Array]:
        """The call once more, looking at every step: the step at which each lane went bad first (-1: none) and why."""

        def one(i: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
            state, step, causes = carry
            step_normals = [z[i] for z in normals]

            def now(k: Numbers | None = None) -> tuple[State, Array]:
                return self.step(state, window.t[i], window.h[i], step_normals, members, k)

            number = window.first + i
            starting = self.batch.traced.starting_steps
            after, cause = lax.cond(number < starting, lambda: now(number), now) if starting else now()
            fresh = self.bad(after, members) & (step < 0)
            return after, jnp.where(fresh, i, step), jnp.where(fresh, cause, causes)

        nowhere = jnp.full(self.batch.paths, -1, np.int32)
        start = (state, nowhere, jnp.full(self.batch.paths, LEFT, np.int32))
        return lax.fori_loop(0, window.bounds[-1], one, start)[1:]

    def step(
        self, state: State, t: Numbers, h: Numbers, normals: Sequence[Array], members: Members, k: Numbers | None = None
    ) -> tuple[State, Array]:
        normals = [z.astype(self.dtype) for z in normals]
        after, cause, iterations, edge = self.batch.step(state.method, t, h, normals, members.params, self.varies, k)
        count = None if state.iterations is None else state.iterations + jnp.asarray(iterations, np.int32)
        rounded = None if state.rounded is None else state.rounded + jnp.asarray(edge, np.int32)
        tracks = state.tracks
        if jax.tree.leaves(tracks):
            shown = self.batch.read(state.method), self.batch.read(after)
            move, goes_on = moved(t, h, *shown, self.params(members), self.axes, len(members.start), self.levels)
            before, tracks = (
                tracks,
                tuple(s.track(track, move) for s, track in zip(self.statistics, tracks, strict=True)),
            )
            if goes_on is not None:
                tracks = jax.tree.unflatten(
                    jax.tree.structure(tracks), frozen(goes_on, jax.tree.leaves(tracks), jax.tree.leaves(before))
                )
        return State(after, count, rounded, tracks), cause

    def observe(self, state: State, t: Array, is_observed: Array, members: Members) -> Observed:
        x, stops = parted(self.batch.read(state.method), len(members.start), self.levels)
        sound = members.member & jnp.all(jnp.isfinite(x), axis=0)
        snapshot = Snapshot(t, x, sound, members.weight, self.params(members), self.axes, state.iterations, None, stops)

        def look(k: int, statistic: Statistic) -> Any:
            def observation(track: Any) -> Any:
                return observe(statistic, snapshot._replace(track=track), members.member)

            if self.always[k]:
                return observation(state.tracks[k])
            shapes = jax.eval_shape(observation, state.tracks[k])
            nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
            return lax.cond(is_observed[k], observation, lambda track: nothing, state.tracks[k])

        return tuple(look(k, statistic) for k, statistic in enumerate(self.statistics))

    def bad(self, state: State, members: Members) -> Array:
        sound = jnp.ones(self.batch.paths, bool)
        for x in state.method:
            if jnp.issubdtype(x.dtype, jnp.inexact):
                sound &= jnp.all(jnp.isfinite(x), axis=tuple(range(x.ndim - 1)))
        return members.member & ~sound

    def key(self, longest: int, members: Members) -> str:
        """A name for the computation itself: equal for functions that compute the same, wherever they were written."""
        parts = list(self.batch.traced.fingerprints)
        parts += [self.says(s, members) for s in self.statistics]
        parts += [type(s).__name__ for s in self.statistics]
        sizes = (members.start.shape, *((p.shape, p.dtype) for p in members.params))
        return repr((self.batch.paths, longest, self.intervals, self.varies, self.always, sizes, *parts))

    def says(self, statistic: Statistic, members: Members) -> str:
        """A description of a statistic: its fields, or a digest of its trace where it holds functions or is not
        ours."""
        return _fields(statistic) or fingerprint(self._watched(statistic, members))

    def _watched(self, statistic: Statistic, members: Members) -> Any:
        """Everything that a statistic computes, as a trace."""

        def watch(
            t: Array, h: Array, x: Array, sound: Array, weight: Array, iterations: Array, flat_params: Sequence[Array]
        ) -> tuple[Any, Any, Any]:
            params = self.batch.traced.params_tree.unflatten(flat_params)
            begun = statistic.track_start(t, x, params)
            track = statistic.track(begun, Move(t, h, x, x, params, self.axes))
            observation = statistic.observe(Snapshot(t, x, sound, weight, params, self.axes, iterations, track))
            return begun, track, observation

        number, lanes_of = jax.ShapeDtypeStruct((), self.dtype), (self.batch.paths,)
        return jax.make_jaxpr(watch)(
            number, number, jax.ShapeDtypeStruct((members.start.shape[0], *lanes_of), self.dtype),
            jax.ShapeDtypeStruct(lanes_of, bool), jax.ShapeDtypeStruct(lanes_of, self.dtype),
            jax.ShapeDtypeStruct(lanes_of, np.int32), members.params,
        )  # fmt: skip

    def params(self, members: Members) -> Any:
        return self.batch.traced.params_tree.unflatten(members.params)

    @property
    def axes(self) -> Any:
        return self.batch.traced.params_tree.unflatten([-1 if v else None for v in self.varies])


def _fields(statistic: Statistic) -> str | None:
    """The fields of a statistic of ours that holds no function, which determine it; None for any other."""
    values = [getattr(statistic, field.name) for field in dataclasses.fields(statistic)]
    if not type(statistic).__module__.startswith("stodyn.statistics") or any(map(callable, values)):
        return None
    return repr([value.tolist() if isinstance(value, np.ndarray) else value for value in values])


_compiled: Bounded[tuple[str, str, str], Compiled] = Bounded(128)
_compiling = threading.Lock()
_in_library = threading.Semaphore(max(available_cores() - 1, 1))


class Compiled(NamedTuple):
    """A compiled function, and the shapes of its results."""

    call: Callable[..., Any]
    shapes: Any


def compiled(key: str, function: Callable[..., Any], *arguments: Any) -> Compiled:
    """`function` compiled for arguments of these shapes, or the function compiled earlier under the same key."""
    require_threads()
    if jax.config.jax_disable_jit:  # type: ignore[attr-defined, unused-ignore]
        raise ValueError(
            "executor: this run is compiled by JAX, which jax.disable_jit() forbids. Run it outside of that context, "
            'or by executor="printed", which does without JAX\'s compiler'
        )
    with _compiling:
        name = (key, function.__name__, str(jax.config.jax_default_device))  # type: ignore[attr-defined, unused-ignore]
        if name not in _compiled:
            lowered = jax.jit(function).lower(*arguments)
            call: Any = lowered.compile()
            call = _leaving_a_thread(call) if "lapack" in lowered.as_text() else call
            _compiled[name] = Compiled(call, lowered.out_info)
        return _compiled[name]


def _leaving_a_thread(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which uses LAPACK, such that one thread of XLA's pool stays free.

    A LAPACK call on a batch occupies a thread of the pool and waits for others to work on parts of the batch: once
    all threads wait in this way, none is left to do the work, and the computation never ends (seen with jaxlib 0.10.2).
    """

    def one(*arguments: Any) -> Any:
        with _in_library:
            return jax.block_until_ready(call(*arguments))

    return one


class BlockRunner:
    """Takes any block of a run through its plan: `members` is an example of the blocks to come."""

    def __init__(self, program: Program, plan: Windows, members: Members):
        self.program, self.plan = program, plan
        self.key = program.key(plan.longest, members)
        self.example = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), members)
        _ = self.advance

    @functools.cached_property
    def beginning(self) -> Compiled:
        return compiled(self.key, self.program.begin, np.zeros((), self.program.dtype), self.example)

    @functools.cached_property
    def shapes(self) -> tuple[Any, ...]:
        """The shapes of the arguments of a call: state, normals, window and members."""
        program, plan = self.program, self.plan
        normals = [
            jax.ShapeDtypeStruct((plan.longest, k, program.batch.paths), np.float64)
            for _, k in program.batch.traced.streams
        ]
        return self.beginning.shapes[0], normals, plan.window(0, 0, program.dtype), self.example

    @functools.cached_property
    def advance(self) -> Callable[..., Advanced]:
        return compiled(self.key, self.program.advance, *self.shapes).call

    def state_after(self, members: Members, feed: Callable[[int], Any], steps: int) -> tuple[Array, ...]:
        """The method's state after that many steps."""
        state, first = self.begin(members)[0], 0
        while first < steps:
            last = min(self.plan.end(first, self.plan.longest), steps)
            normals = [self.padded(z) for z in feed(last - first)]
            state, *_ = self.advance(state, normals, self.plan.window(first, last, self.program.dtype), members)
            first = last
        return state.method

    def stepper(self, members: Members) -> Callable[..., tuple[Array, ...]]:
        """step(leaves, t, h, normals) gives the method's state after one step, not a starting one, from any state."""
        plan, dtype = self.plan, self.program.dtype
        bounds = np.ones(plan.intervals + 1, np.int32)
        bounds[0] = 0
        is_observed = np.zeros((plan.intervals, len(plan.observes)), bool)
        begun = np.asarray(self.program.batch.traced.starting_steps, np.int32)
        state = self.begin(members)[0]

        def step(leaves: list[Array], t: float, h: float, normals: list[np.ndarray]) -> tuple[Array, ...]:
            times, lengths = np.full(plan.longest + 1, t, dtype), np.full(plan.longest, h, dtype)
            window = Window(times, lengths, bounds, is_observed, np.asarray(1, np.int32), begun)
            return self.advance(state._replace(method=tuple(leaves)), normals, window, members)[0].method

        return step

    def padded(self, z: Any) -> Any:
        """Normals of fewer steps than a call may take, with zeros behind them."""
        missing = self.plan.longest - len(z)
        if not missing:
            return z
        return (np if isinstance(z, np.ndarray) else jnp).concatenate([z, np.zeros((missing, *z.shape[1:]))])

    def begin(self, members: Members) -> Advanced:
        return self.beginning.call(np.asarray(self.plan.t[0], self.program.dtype), members)

    def diagnose(self, *arguments: Any) -> tuple[Array, Array]:
        return compiled(self.key, self.program.diagnose, *self.shapes).call(*arguments)


class VmapWork(Work):
    """The paths of a block on their way through a program of XLA's.

    feed  feed(steps) gives the next normals: of each stream (steps, count, lanes)
    """

    observes_start_apart = True

    def __init__(self, runner: BlockRunner, feed: Callable[[int], Any], members: Members):
        self.runner, self.plan, self.feed, self.members = runner, runner.plan, feed, members
        self.state: Any = None
        self.observations: Any = None  # of all statistics at the saves of the last call, and behind them idle rows
        self.call: tuple[Any, ...] = ()  # the normals and the window of the last call

    def begin(self) -> np.ndarray | None:
        self.state, observations, any_bad, bad = self.runner.begin(self.members)
        self.observations = jax.tree.map(lambda x: x[None], jax.device_get(observations))
        return np.asarray(bad) if any_bad else None

    def end(self, first: int) -> int:
        return self.plan.end(first, self.plan.longest)

    def advance(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        lanes = self.members.start.shape[-1]
        normals = [self.runner.padded(z[..., :lanes]) for z in self.feed(last - first)]
        self.call = normals, self.plan.window(first, last, self.runner.program.dtype)
        self.state, observations, any_bad, bad = self.runner.advance(self.state, *self.call, self.members)
        self.observations = jax.device_get(observations)
        return np.asarray(bad) if any_bad else None

    def observed(self, inside: slice) -> list[Any]:
        is_observed = [look[inside] for look in self.plan.observes]
        return [jax.tree.map(lambda x, look=look: x[: len(look)][look], one) if look.any() else None
                for one, look in zip(self.observations, is_observed, strict=True)]  # fmt: skip

    def snapshot(self) -> Any:
        return self.state

    def diagnose(self, before: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        step, causes = self.runner.diagnose(before, *self.call, self.members)
        return np.asarray(step), np.asarray(causes)

    def rounded(self) -> int:
        if self.state.rounded is None:
            return 0
        return int(np.sum(np.asarray(self.state.rounded)[np.asarray(self.members.member)]))


class StoppingVmapWork(VmapWork):
    """The same of paths that stand still one after the other: the last number of a state is 0 while its path goes
    on."""

    going: np.ndarray
    move = VmapWork.advance

    def end(self, first: int) -> int:
        self.going = np.flatnonzero((np.asarray(self.state.method[-1]) == 0) & np.asarray(self.members.member))
        return super().end(first)

    def components(self, inside: slice) -> np.ndarray:
        """What the first statistic has seen at the saves of the last call."""
        return self.observations[0][: inside.stop - inside.start]
