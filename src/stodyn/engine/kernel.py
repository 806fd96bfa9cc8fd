"""Blocks on a GPU: normals by counter, and all steps of a call as one kernel that keeps its paths in registers.

A step launched operation by operation moves its state through the card's memory and pays for every launch; a kernel of
the same lanes writes the state once a save, and the statistics then look at all the saves together. Newton's loops run
inside it, each group of paths by itself.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from stodyn.engine.batch import Lanes, lane_operations
from stodyn.engine.block import Program, State, Window
from stodyn.engine.layout import Members
from stodyn.noise import counter
from stodyn.noise.counter import Normals

GROUP = 128  # paths of a group
NEIGHBOURS = 700  # scalar operations of a step, up to which a thread takes two paths that share their pairs of normals


@dataclasses.dataclass(frozen=True)
class CountedProgram(Program):
    """A program whose normals are counted (noise.counter), its steps a kernel where `kernel` is "gpu" or "interpreted".

    Its members come without what the device can make itself: `member` is how many lanes are paths of the run, and a
    start or weight common to all has one lane. Where all steps are of one length the kernel reads it once, and what a
    step computes of it alone is computed once.
    """

    kernel: str | None = None
    equal_steps: bool = False

    @property
    def is_fed(self) -> bool:
        return False

    @property
    def way(self) -> str:
        steps = "equal" if self.equal_steps else "any"
        return f"counted {self.run.name if self.kernel is None else self.kernel} {steps}"

    @property
    def is_kernel(self) -> bool:
        return self.kernel is not None

    @property
    def is_made_at_once(self) -> bool:
        return True

    def begin(self, t, members: Members, generators):
        return super().begin(t, self.everyone(members), generators)

    def advance(self, state: State, normals, window: Window, members: Members):
        members = self.everyone(members)
        if not self.is_kernel:
            return super().advance(state, normals, window, members)
        saved = self._launch(state, window, members)
        last = jax.tree.map(lambda values: values[window.intervals - 1], saved)
        after = last._replace(generators=state.generators, rounded=state.rounded)
        bad = self.bad(after, members)
        return after, self.observe_saved(saved, window, members), jnp.any(bad), bad

    def observe_saved(self, saved: State, window: Window, members: Members):
        """What the statistics see at the end of every interval: all at once, or one by one where some do not look."""

        def one(end):
            state, t, looks = end
            return self.observe(state, t, looks, members)

        ends = (saved, window.t[window.bounds[1:]], window.looks)
        return jax.vmap(one)(ends) if all(self.always) else lax.map(one, ends)

    def diagnose(self, state: State, normals, window: Window, members: Members):
        return super().diagnose(state, normals, window, self.everyone(members))

    def everyone(self, members: Members) -> Members:
        lanes = self.run.paths
        start = jnp.broadcast_to(members.start, (members.start.shape[0], lanes))
        return Members(jnp.arange(lanes) < members.member, jnp.broadcast_to(members.weight, lanes), start,
                       members.params)  # fmt: skip

    def passes(self, window: Window) -> int:
        """All intervals, empty ones too: a loop whose length is known needs no word from the host in between."""
        return self.intervals

    def generators(self, seed: int, block: int) -> tuple[np.ndarray, ...]:
        """The key of the run and the number of the block's first pair of paths, two words of 32 bits each."""
        first = np.asarray([block * (self.run.paths // 2)], "<u8")
        return (np.concatenate([counter.key_of(seed), first.view("<u4")]),)

    def normals(self, state: State) -> Normals:
        return self._normals(state.generators[0], jnp.arange(self.run.paths // 2, dtype=np.uint64))

    def _normals(self, words: Any, pairs: Array) -> Normals:
        """Of pairs of paths that are counted from the block's first."""
        first = words[2].astype(np.uint64) | (words[3].astype(np.uint64) << np.uint64(32))
        return Normals((words[0], words[1]), self.run.traced.streams, first + pairs)

    def draw_one(self, i, state: State, normals, window: Window) -> tuple[State, list[Array]]:
        return state, [jnp.stack(z) for z in self.normals(state).step(window.first + i)]

    def steps(self, first, last, state: State, normals, window: Window, members: Members, starting=False) -> State:
        def one(i, state):
            _, drawn = self.draw_one(i, state, normals, window)
            k = window.first + i if starting else None
            return self.step(state, window.t[i], window.h[i], drawn, members, k)[0]

        return lax.fori_loop(first, last, one, state)

    @property
    def paths_of_a_thread(self) -> int:
        """Two where they fit its registers: on an H200 level with one at 681 operations, half as fast at 1333."""
        return 2 if lane_operations(self.run.traced) <= NEIGHBOURS else 1

    def _launch(self, state: State, window: Window, members: Members) -> State:
        """The kernel: the states at the ends of the window's intervals, a leading axis."""
        traced, counts = self.run.traced, state.iterations is not None
        group = min(GROUP, self.run.paths)
        run = Lanes(traced, group, on_gpu=True)
        scalars = jnp.stack([window.first, window.intervals])
        uniform: list[Any] = [scalars, window.bounds, *state.generators, window.t, window.h]
        uniform += [p.reshape(-1) for p, varies in zip(members.params, self.varies, strict=True) if not varies]
        spread = [p.reshape(-1, p.shape[-1]) for p, varies in zip(members.params, self.varies, strict=True) if varies]
        own = [lane for p in spread for lane in p]
        carried: list[Any] = [*state.method, *([state.iterations] if counts else [])]

        def kernel(*refs):
            given, saved = refs[: -len(carried)], refs[-len(carried) :]
            scalars, bounds, words, t, h, *common = given[: len(uniform)]
            lanes_of_params = iter(ref[...] for ref in given[len(uniform) : len(uniform) + len(own)])
            begun = tuple(ref[...] for ref in given[len(uniform) + len(own) :])
            params = self._params(members, common, lanes_of_params)
            pairs = pl.program_id(0).astype(np.uint64) * np.uint64(group // 2) + jnp.arange(group // 2, dtype=np.uint64)
            source = self._normals(words, pairs)
            offset, only_length = scalars[0], h[0]

            def one(i, values, starting=False):
                drawn = source.step(offset + i)
                normals = [_entries([z.astype(self.dtype) for z in stream], (len(stream),)) for stream in drawn]
                k = offset + i if starting else None
                method, count = (values[:-1], values[-1]) if counts else (values, None)
                length = only_length if self.equal_steps else h[i]
                after, _, iterations, _ = run.step_of_entries(method, t[i], length, normals, params, k)
                return after if count is None else (*after, count + jnp.asarray(iterations, np.int32))

            def interval(k, values):
                first, last = bounds[k], bounds[k + 1]
                if traced.starting_steps:
                    begun = jnp.clip(traced.starting_steps - offset, first, last)
                    values, first = lax.fori_loop(first, begun, functools.partial(one, starting=True), values), begun
                values = lax.fori_loop(first, last, one, values)
                for ref, value in zip(saved, values, strict=True):
                    ref[k, :] = value
                return values

            lax.fori_loop(0, scalars[1], interval, begun)

        lane, arguments = pl.BlockSpec((group,), lambda g: (g,)), [*uniform, *own, *carried]
        found = pl.pallas_call(
            kernel,
            grid=(self.run.paths // group,),
            in_specs=[pl.BlockSpec(a.shape, lambda g: (0,)) for a in uniform] + [lane] * (len(own) + len(carried)),
            out_specs=[pl.BlockSpec((self.intervals, group), lambda g: (0, g))] * len(carried),
            out_shape=[jax.ShapeDtypeStruct((self.intervals, *c.shape), c.dtype) for c in carried],
            interpret=self.kernel == "interpreted",
            compiler_params=triton.CompilerParams(num_warps=max(group // (32 * self.paths_of_a_thread), 1)),
        )(*arguments)
        method, iterations = (found[:-1], found[-1]) if counts else (found, None)
        return State(tuple(method), iterations, None, state.tracks, ())

    def _params(self, members: Members, common: list[Any], own: Any) -> list[np.ndarray]:
        """The parameters as object arrays of scalars read from `common` and of the lanes of `own`."""
        shared, result = iter(common), []
        for p, varies in zip(members.params, self.varies, strict=True):
            shape = p.shape[:-1] if varies else p.shape
            ref = None if varies else next(shared)
            size = int(np.prod(shape))
            result.append(_entries([next(own) if ref is None else ref[k] for k in range(size)], shape))
        return result


def _entries(values: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Lanes or scalars as an object array."""
    result = np.empty(len(values), object)
    for k, value in enumerate(values):
        result[k] = value
    return result.reshape(shape)
