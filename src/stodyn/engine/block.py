"""A block of paths -> its statistics: compiled once for a problem, a method and what is collected."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import jaxpr_as_fun

from stodyn.engine.batch import Lanes, Vmap, fingerprint
from stodyn.engine.feed import Feed
from stodyn.engine.place import available_cores
from stodyn.numerics import lanes
from stodyn.statistics.contract import Move, Snapshot, Statistic

COMPILED_LIMIT = 128


class State(NamedTuple):
    """What a block carries from step to step."""

    method: tuple[Array, ...]
    iterations: Array | None  # (lanes,) where they are counted
    tracks: tuple[Any, ...]  # what each statistic gathers at every step


class Members(NamedTuple):
    """The paths of a block: which lanes are paths of the run, their weights, starts (n, lanes) and parameters."""

    member: np.ndarray
    weight: np.ndarray
    start: np.ndarray
    params: list[np.ndarray]


class Slab(NamedTuple):
    """The times and lengths of a slab's steps, the bounds of its intervals, and which statistics look at each end.

    first is the number of its first step, counted from the start of the run.
    """

    t: np.ndarray
    h: np.ndarray
    bounds: np.ndarray
    looks: np.ndarray
    first: np.ndarray


class Failures(NamedTuple):
    """For each lane the step after which its state was first bad (-1: never), and whether its solve failed there."""

    step: np.ndarray
    unsolved: np.ndarray


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps of a run, and where its statistics look: save k lies after step saves[k], looks[s][k]: does s look?"""

    t: np.ndarray  # (steps + 1,)
    h: np.ndarray  # (steps,)
    saves: np.ndarray  # increasing; 0 is the start
    looks: tuple[np.ndarray, ...]
    slab: int

    def windows(self) -> list[tuple[int, int]]:
        """(first, last) step of each slab."""
        return [(a, min(a + self.slab, len(self.h))) for a in range(0, len(self.h), self.slab)]

    def saves_in(self, first: int, last: int) -> np.ndarray:
        return np.flatnonzero((self.saves > first) & (self.saves <= last))

    @property
    def ends_on_saves(self) -> bool:
        """Whether every slab ends where the statistics look, so that no interval of it goes unlooked at."""
        return all(b in self.saves for _, b in self.windows())

    @property
    def intervals(self) -> int:
        """Into how many intervals a slab is cut at the most: one a save, and one to its end where no save lies."""
        most = max((len(self.saves_in(a, b)) for a, b in self.windows()), default=0)
        return most if self.ends_on_saves else most + 1

    def slab_of(self, first: int, last: int, intervals: int, dtype: Any) -> Slab:
        """The slab's arrays, padded to one size: after the last save come the rest of the slab and empty intervals."""
        t, h = np.zeros(self.slab + 1, dtype), np.zeros(self.slab, dtype)
        t[: last - first + 1], h[: last - first] = self.t[first : last + 1], self.h[first:last]
        inside = self.saves_in(first, last)
        bounds = np.full(intervals + 1, last - first, np.int32)
        bounds[0] = 0
        bounds[1 : 1 + len(inside)] = self.saves[inside] - first
        looks = np.zeros((intervals, len(self.looks)), bool)
        for s, look in enumerate(self.looks):
            looks[: len(inside), s] = look[inside]
        return Slab(t, h, bounds, looks, np.asarray(first, np.int32))


@dataclasses.dataclass(frozen=True)
class Program:
    """What is computed, as JAX functions of a whole block: `begin`, `advance` over a slab, `diagnose` a bad slab.

    varies  for each leaf of the parameters 1 where every path has its own, 0 where it is common to all
    always  for each statistic whether it looks at the end of every interval
    """

    run: Lanes | Vmap
    statistics: tuple[Statistic, ...]
    intervals: int
    varies: tuple[int, ...]
    always: tuple[bool, ...]

    @property
    def dtype(self) -> Any:
        return self.run.traced.read.out_avals[0].dtype

    def begin(self, t, members: Members):
        """The state at the start, what the statistics see there, and which lanes are bad already."""
        axes = (None, -1, *(-1 if v else None for v in self.varies))
        start = jax.vmap(jaxpr_as_fun(self.run.traced.start), in_axes=axes, out_axes=-1, axis_size=self.run.paths)
        carry = self.run.pack(start(t, members.start, *members.params))
        here, params = self.run.read(carry), self.params(members)
        tracks = tuple(s.track_start(t, here, params) for s in self.statistics)
        counts = any(s.counts_iterations for s in self.statistics)
        state = State(carry, jnp.zeros(self.run.paths, np.int32) if counts else None, tracks)
        everyone = jnp.ones(len(self.statistics), bool)
        return state, self.observe(state, t, everyone, members), self.bad(state, members)

    def advance(self, state: State, normals, slab: Slab, members: Members):
        """From bound to bound, the statistics looking at the end of each interval; then which lanes have gone bad."""

        def steps(first, last, state):
            def one(i, state):
                return self.step(state, slab.t[i], slab.h[i], [z[i] for z in normals], members)[0]

            def starting(i, state):
                k = slab.first + i
                return self.step(state, slab.t[i], slab.h[i], [z[i] for z in normals], members, k)[0]

            if self.run.traced.starting_steps:
                begun = jnp.clip(self.run.traced.starting_steps - slab.first, first, last)
                state = lax.fori_loop(first, begun, starting, state)
                first = begun
            return lax.fori_loop(first, last, one, state)

        def interval(state, window):
            first, last, looks = window
            state = steps(first, last, state)
            return state, self.observe(state, slab.t[last], looks, members)

        state, seen = lax.scan(interval, state, (slab.bounds[:-1], slab.bounds[1:], slab.looks))
        return state, seen, self.bad(state, members)

    def diagnose(self, state: State, normals, slab: Slab, members: Members):
        """The slab once more, looking at every step: the step at which each lane went bad first (-1: none) and why."""

        def one(i, carry):
            state, step, unsolved = carry

            def now(k=None):
                after, ok = self.step(state, slab.t[i], slab.h[i], [z[i] for z in normals], members, k)
                return after, lanes.spread(ok, (self.run.paths,), np.bool_)

            number = slab.first + i
            starting = self.run.traced.starting_steps
            after, ok = lax.cond(number < starting, lambda: now(number), now) if starting else now()
            fresh = self.bad(after, members) & (step < 0)
            return after, jnp.where(fresh, i, step), jnp.where(fresh, ~ok, unsolved)

        nowhere = jnp.full(self.run.paths, -1, np.int32)
        start = (state, nowhere, jnp.zeros(self.run.paths, bool))
        return lax.fori_loop(0, slab.bounds[-1], one, start)[1:]

    def step(self, state: State, t, h, normals, members: Members, k: Any = None):
        normals = [z.astype(self.dtype) for z in normals]
        after, ok, iterations = self.run.step(state.method, t, h, normals, members.params, self.varies, k)
        count = None if state.iterations is None else state.iterations + jnp.asarray(iterations, np.int32)
        tracks = state.tracks
        if jax.tree.leaves(tracks):
            move = Move(t, h, self.run.read(state.method), self.run.read(after), self.params(members), self.axes)
            tracks = tuple(s.track(track, move) for s, track in zip(self.statistics, tracks, strict=True))
        return State(after, count, tracks), ok

    def observe(self, state: State, t, looks, members: Members):
        x = self.run.read(state.method)
        sound = members.member & jnp.all(jnp.isfinite(x), axis=0)
        snapshot = Snapshot(t, x, sound, members.weight, self.params(members), self.axes, state.iterations, None)

        def look(k, statistic):
            def seen(track):
                return statistic.observe(snapshot._replace(track=track))

            if self.always[k]:
                return seen(state.tracks[k])
            shapes = jax.eval_shape(seen, state.tracks[k])
            nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
            return lax.cond(looks[k], seen, lambda track: nothing, state.tracks[k])

        return tuple(look(k, statistic) for k, statistic in enumerate(self.statistics))

    def bad(self, state: State, members: Members):
        sound = jnp.ones(self.run.paths, bool)
        for x in state.method:
            if jnp.issubdtype(x.dtype, jnp.inexact):
                sound &= jnp.all(jnp.isfinite(x), axis=tuple(range(x.ndim - 1)))
        return members.member & ~sound

    def key(self, slab: int, members: Members) -> str:
        """A name for the computation itself: equal for functions that say the same, wherever they were written."""
        lanes_of = (self.run.paths,)

        def watch(t, h, x, sound, weight, iterations, flat_params):
            params = self.run.traced.params_tree.unflatten(flat_params)
            move = Move(t, h, x, x, params, self.axes)
            results = []
            for statistic in self.statistics:
                begun = statistic.track_start(t, x, params)
                track = statistic.track(begun, move)
                seen = statistic.observe(Snapshot(t, x, sound, weight, params, self.axes, iterations, track))
                results.append((begun, track, seen))
            return results

        t = jax.ShapeDtypeStruct((), self.dtype)
        x = jax.ShapeDtypeStruct(members.start.shape, self.dtype)
        watched = jax.make_jaxpr(watch)(
            t, t, x, jax.ShapeDtypeStruct(lanes_of, bool), jax.ShapeDtypeStruct(lanes_of, self.dtype),
            jax.ShapeDtypeStruct(lanes_of, np.int32), members.params,
        )  # fmt: skip
        traced = self.run.traced
        parts = [traced.fingerprint, *(fingerprint(trace) for trace in (traced.start, traced.read, watched))]
        parts += [type(s).__name__ for s in self.statistics]
        return repr((self.run.name, self.run.paths, slab, self.intervals, self.varies, self.always, *parts))

    def params(self, members: Members) -> Any:
        return self.run.traced.params_tree.unflatten(members.params)

    @property
    def axes(self) -> Any:
        return self.run.traced.params_tree.unflatten([-1 if v else None for v in self.varies])


_compiled: dict[tuple[str, str], Callable] = {}
_compiling = threading.Lock()
_in_library = threading.Semaphore(max(available_cores() - 1, 1))


def compiled(key: str, function: Callable, *arguments: Any) -> Callable:
    """`function` compiled for arguments of these shapes, or what was compiled under the same key before."""
    with _compiling:
        name = (key, function.__name__)
        if name not in _compiled:
            while len(_compiled) >= COMPILED_LIMIT:
                del _compiled[next(iter(_compiled))]
            lowered = jax.jit(function).lower(*arguments)
            run = lowered.compile()
            _compiled[name] = _leaving_a_thread(run) if "lapack" in lowered.as_text() else run
        return _compiled[name]


def _leaving_a_thread(run: Callable) -> Callable:
    """`run`, which calls LAPACK, such that one thread of XLA's pool stays free.

    A LAPACK call on a batch occupies a thread of the pool and waits for others to work on parts of the batch: once
    every thread waits so, none is left to do the work, and the computations never end (seen with jaxlib 0.10.2).
    """

    def one(*arguments):
        with _in_library:
            return jax.block_until_ready(run(*arguments))

    return one


class BlockRunner:
    """Takes any block of a run through its plan: `members` is an example of the blocks to come."""

    def __init__(self, program: Program, plan: Plan, members: Members):
        self.program, self.plan = program, plan
        width = program.run.paths
        t = np.zeros((), program.dtype)
        self.key = program.key(plan.slab, members)
        self.begin = compiled(self.key, program.begin, t, members)
        state = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), self.begin(t, members)[0])
        normals = [jax.ShapeDtypeStruct((plan.slab, k, width), np.float64) for _, k in program.run.traced.streams]
        self.shapes = (state, normals, plan.slab_of(0, 0, program.intervals, program.dtype), members)
        self.advance = compiled(self.key, program.advance, *self.shapes)
        self.worker = threading.local()

    def run(self, seed: int, block: int, members: Members, on_slab: Callable[[int, Failures], None]):
        """What each statistic saw over its times (a leading axis), and the block's failures.

        `on_slab(steps, failures)` is told of every slab and may raise to end the run.
        """
        program, plan, width = self.program, self.plan, self.program.run.paths
        state, observed, bad = self.begin(np.asarray(plan.t[0], program.dtype), members)
        failures = Failures(np.where(bad, 0, -1), np.zeros(width, bool))
        seen: list[list[Any]] = [[] for _ in program.statistics]
        if plan.saves[0] == 0:
            at_start = [jax.tree.map(lambda x: np.asarray(x)[None], o) for o in observed]
            _keep(seen, at_start, [look[:1] for look in plan.looks])
        on_slab(0, failures)
        feed = self.feed(seed, block)
        for first, last in plan.windows():
            slab = plan.slab_of(first, last, program.intervals, program.dtype)
            normals = feed.slab(last - first)
            after, observed, bad = jax.block_until_ready(self.advance(state, normals, slab, members))
            inside = plan.saves_in(first, last)
            if len(inside):
                _keep(seen, [jax.tree.map(np.asarray, o) for o in observed], [look[inside] for look in plan.looks])
            if np.any(np.asarray(bad) & (failures.step < 0)):
                step, unsolved = map(np.asarray, self.diagnose(state, normals, slab, members))
                fresh = (step >= 0) & (failures.step < 0)
                failures.step[fresh] = first + step[fresh] + 1
                failures.unsolved[fresh] = unsolved[fresh]
            state = after
            on_slab(last - first, failures)
        return [jax.tree.map(lambda *xs: np.concatenate(xs), *parts) for parts in seen], failures

    def feed(self, seed: int, block: int) -> Feed:
        """The block's normals, in memory that the thread keeps from block to block: fresh pages cost time."""
        if hasattr(self.worker, "feed"):
            self.worker.feed.begin(seed, block)
        else:
            streams = self.program.run.traced.streams
            self.worker.feed = Feed(seed, block, streams, self.program.run.paths, self.plan.slab)
        return self.worker.feed

    def diagnose(self, *arguments):
        return compiled(self.key, self.program.diagnose, *self.shapes)(*arguments)


def _keep(seen: list[list[Any]], observed: Sequence[Any], looks: Sequence[np.ndarray]) -> None:
    """Append, for each statistic, the saves it looks at."""
    for parts, one, look in zip(seen, observed, looks, strict=True):
        if np.any(look):
            parts.append(jax.tree.map(lambda x: x[: len(look)][look], one))
