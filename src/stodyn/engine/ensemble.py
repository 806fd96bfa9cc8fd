"""A run: its blocks, their members, the map over them and the ordered merge."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import threading
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from stodyn import results
from stodyn.engine import batch, grid
from stodyn.engine.block import LONGEST_WINDOW, MOST_SAVES, BlockRunner, Members, Plan, Program
from stodyn.engine.failure import FailureLog, Stopped
from stodyn.engine.feed import slab_steps
from stodyn.engine.place import Threads
from stodyn.engine.progress import Progress
from stodyn.methods.contract import Method, Solver
from stodyn.noise import in_program, normals, stream
from stodyn.noise.distribution import PerPath, draw, is_random
from stodyn.numerics import elimination
from stodyn.problems.contract import is_drawn
from stodyn.statistics.contract import Block, Labelled, Move, Run, Snapshot, Statistic, is_count

WIDEST_BLOCK = 4096
NARROWEST_SHARED_BLOCK = 1024
BLOCK_BYTES = 2_000_000
MEMORY_SHARE = 0.5  # of the machine's memory that a result may take


class SinglePrecisionConstant(UserWarning):
    """A float64 run uses numbers that were rounded to float32 before it began."""


def block_width(paths: int, scalars: int) -> int:
    """Lanes in a block: a function of the problem and the number of paths, never of the machine.

    4096, halved down to 1024 while there would be fewer than four blocks; further while half of it would hold all
    the paths; and for states so large that a block would leave a core's cache.
    """
    width = WIDEST_BLOCK
    while (
        (width > NARROWEST_SHARED_BLOCK and paths < 4 * width)
        or paths <= width // 2
        or (width > 64 and 8 * scalars * width > BLOCK_BYTES)
    ):
        width //= 2
    return width


@dataclasses.dataclass
class Ensemble:
    """Everything a run needs, made ready once; blocks are numbered, and block b holds paths b·width, ..."""

    problem: Any
    method: Any  # a Method or a Solver
    times: np.ndarray
    lengths: np.ndarray
    paths: int
    seed: int
    statistics: tuple[Statistic, ...]
    dtype: np.dtype
    executor: str
    block: int | None

    def __post_init__(self):
        if self.executor not in ("auto", "lanes", "vmap"):
            raise ValueError(f'executor: expected "auto", "lanes" or "vmap", got {self.executor!r}')
        if self.block is not None and not is_count(self.block):
            raise ValueError(f"block: expected a whole number of lanes >= 1, got {self.block!r}")
        if getattr(self.method, "starting_steps", 0) and np.ptp(self.lengths) > grid.TOLERANCE * self.lengths[0]:
            raise ValueError(
                f"dt: {self.method.name} takes its history at equal steps, and the steps given differ. "
                "Give one number, or a one-step method such as RK4."
            )
        explicit = [s for s in self.statistics if s.every is not None or s.at is not None]
        fallback = grid.save_steps(explicit[0], self.times, None) if explicit else None
        self.save_grids = [grid.save_steps(s, self.times, fallback) for s in self.statistics]
        self.statistics = tuple(
            s.prepared(self.problem, self.times[g]) for s, g in zip(self.statistics, self.save_grids, strict=True)
        )
        self._check_memory()
        last, rng = range(self.paths - 1, self.paths), np.random.default_rng(0)
        self.problem.draw_start(rng, last)  # values given path by path must reach to the last one
        for leaf, varies in zip(self._param_leaves, self.varies, strict=True):
            if varies:
                draw(leaf, rng, last, "params")

    @property
    def steps(self) -> int:
        return len(self.lengths)

    @functools.cached_property
    def width(self) -> int:
        if self.block is not None:
            return int(self.block)
        counts = sum(self.method.needs.normals(self.problem.m).values()) if isinstance(self.method, Method) else 0
        return block_width(self.paths, self.problem.n + counts)

    @property
    def blocks(self) -> int:
        return -(-self.paths // self.width)

    def first_path(self, block: int) -> int:
        return block * self.width

    def paths_in(self, block: int) -> int:
        return min(self.width, self.paths - self.first_path(block))

    def _check_memory(self) -> None:
        for statistic, saves in zip(self.statistics, self.save_grids, strict=True):
            needed = statistic.memory(len(saves), self.paths, self.problem.n)
            if not hasattr(os, "sysconf"):
                continue
            there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            if needed > MEMORY_SHARE * there:
                raise MemoryError(
                    f"{type(statistic).__name__}: would keep {needed / 1e9:.1f} GB, and this machine has "
                    f"{there / 1e9:.1f} GB. Keep fewer paths, or fewer times with every= or at=."
                )

    # --- members --------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _param_leaves(self) -> list[Any]:
        return jax.tree.leaves(self.problem.params, is_leaf=is_drawn)

    @functools.cached_property
    def varies(self) -> tuple[int, ...]:
        """For each leaf of the parameters 1 where every path has its own."""
        return tuple(int(is_random(leaf)) for leaf in self._param_leaves)

    def members(self, block: int) -> Members:
        """The starts and parameters of a block; lanes beyond the last path repeat its first and are no members."""
        count, first = self.paths_in(block), self.first_path(block)
        numbers = range(first, first + count)
        fill = np.arange(self.width) % count if count < self.width else slice(None)
        start = self.problem.draw_start(stream.generator(self.seed, block, "start"), numbers)[fill].T
        rng = stream.generator(self.seed, block, "params")
        params = []
        for leaf, example, varies in zip(
            self._param_leaves, jax.tree.leaves(self.problem.example_params()), self.varies, strict=True
        ):
            kind = batch.number_type(example, self.dtype)
            if varies:
                values = draw(leaf, rng, numbers, "params")[fill]
                params.append(np.ascontiguousarray(np.moveaxis(values, 0, -1), kind))
            else:
                params.append(np.asarray(leaf, kind))
        member = np.arange(self.width) < count
        with np.errstate(over="ignore"):  # a start beyond float32 is a failure at the first time
            start = np.ascontiguousarray(start, self.dtype)
        return Members(member, np.ones(self.width, self.dtype), start, params)

    @functools.cached_property
    def given(self) -> str:
        """A digest of the starts and parameters: those of the first block, and all that is given path by path."""
        first, digest = self.members(0), hashlib.sha256()
        leaves = jax.tree.leaves((getattr(self.problem, "start", None), self.problem.params), is_leaf=is_drawn)
        for array in (first.start, *first.params, *(leaf.values for leaf in leaves if isinstance(leaf, PerPath))):
            digest.update(repr(array.shape).encode() + array.tobytes())
        return digest.hexdigest()

    def rounded_numbers(self) -> list[str]:
        """The numbers of a float64 run that were rounded to float32 before it began, in words."""
        if self.dtype != np.float64:
            return []
        found = batch.single_precision_constants(self.traced.step) if isinstance(self.method, Method) else []
        named = {"start": getattr(self.problem, "start", None), "params": self.problem.params}
        for name, tree in named.items():
            for place, leaf in jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_drawn)[0]:
                found += [f"{name}{jax.tree_util.keystr(place)} = {leaf}"] if batch.was_rounded(leaf) else []
        return found

    # --- blocks of a stepping method ------------------------------------------------------------------------------

    @functools.cached_property
    def traced(self) -> batch.Traced:
        with jax.enable_x64(True):
            return batch.trace(self.problem, self.method, self.dtype)

    @functools.cached_property
    def slab(self) -> int:
        """Steps whose normals are drawn together."""
        return slab_steps(sum(count for _, count in self.traced.streams), self.width)

    @functools.cached_property
    def plan(self) -> Plan:
        saves = functools.reduce(np.union1d, self.save_grids)
        looks = tuple(np.isin(saves, g) for g in self.save_grids)
        apart = int(np.diff(saves).min(initial=self.steps))
        longest = min(LONGEST_WINDOW, MOST_SAVES * apart) if in_program.available() else self.slab
        return Plan(self.times, self.lengths, saves, looks, min(longest, self.steps))

    @functools.cached_property
    def chosen(self) -> tuple[batch.Lanes | batch.Vmap, str]:
        with jax.enable_x64(True):
            run, reason = batch.executor(self.traced, self.width, self.executor)
            if isinstance(run, batch.Vmap):
                with elimination.written_out(elimination.PIVOTED):
                    other = batch.trace(self.problem, self.method, self.dtype)
                if self.executor == "auto" and batch.calls_library(other.step):
                    run, reason = batch.executor(self.traced, self.width, most=batch.BESIDE_LIBRARY)
                run = batch.Vmap(other, self.width) if isinstance(run, batch.Vmap) else run
            return run, reason

    @functools.cached_property
    def runner(self) -> BlockRunner:
        always = tuple(self.plan.every is not None and bool(np.all(look)) for look in self.plan.looks)
        slab = self.slab if in_program.available() else None
        program = Program(self.chosen[0], self.statistics, self.plan.intervals, self.varies, always, slab)
        return BlockRunner(program, self.plan, self.members(0))

    def observe_block(self, block: int) -> list[Any]:
        """What each statistic saw of one block."""
        if isinstance(self.method, Solver):
            return self._solve(block)[0]
        return self.runner.run(self.seed, block, self.members(block), lambda steps, failures: None)[0]

    # --- the run --------------------------------------------------------------------------------------------------

    def run(self, place: Threads, bar: Progress, on_failure: str) -> tuple[list[Any], FailureLog]:
        """The merged result of every statistic, and the failures."""
        log, ending = FailureLog(self.times), threading.Event()
        one = self._solver_block if isinstance(self.method, Solver) else self._stepped_block
        if isinstance(self.method, Method):
            _ = self.runner  # compile before the workers start
        merged: list[Any] | None = None
        for block, (parts, step, unsolved) in enumerate(
            place.map(lambda block: one(block, bar, ending), self.blocks, ending.set)
        ):
            log.add(self.first_path(block), step, unsolved)
            if log.found and on_failure == "raise":
                ending.set()
                raise log.error(self.first_path(block) + self.paths_in(block), self.problem.failure_advice)
            if merged is None:
                merged = parts
                results.dataset(self.label(parts), {}, {})  # what cannot stand together is refused here, not at the end
            else:
                merged = [s.merge(a, b) for s, a, b in zip(self.statistics, merged, parts, strict=True)]
        assert merged is not None
        return merged, log

    def _stepped_block(self, block: int, bar: Progress, ending: threading.Event):
        count = self.paths_in(block)

        def on_call(steps, failures):
            bar.advance(steps * count)
            if ending.is_set():
                raise Stopped

        observed, failures = self.runner.run(self.seed, block, self.members(block), on_call)
        return self._fold(observed, block), failures.step, failures.unsolved

    def _fold(self, observed: Sequence[Any], block: int) -> list[Any]:
        where = Block(self.first_path(block), self.paths_in(block))
        return [s.fold(o, where) for s, o in zip(self.statistics, observed, strict=True)]

    def _solver_block(self, block: int, bar: Progress, ending: threading.Event):
        if ending.is_set():
            raise Stopped
        observed, step = self._solve(block)
        bar.advance(self.steps * self.paths_in(block))
        return self._fold(observed, block), step, np.zeros(self.width, bool)

    def _solve(self, block: int) -> tuple[list[Any], np.ndarray]:
        """A Solver takes its block over the whole grid at once; the statistics then look at what it gives back."""
        members = self.members(block)
        leaves = [
            np.moveaxis(p, -1, 0) if v else np.broadcast_to(p, (self.width, *p.shape))
            for p, v in zip(members.params, self.varies, strict=True)
        ]
        tree: Any = jax.tree.structure(self.problem.example_params())
        streams = {name: stream.generator(self.seed, block, name) for name in stream.STREAMS}
        found = self.method.solve(self.problem, self.times, members.start.T, tree.unflatten(leaves), streams)
        states, expected = np.asarray(found, self.dtype), (len(self.times), self.width, self.problem.n)
        if states.shape != expected:
            raise ValueError(f"method: {self.method.name}.solve gave shape {states.shape}, expected {expected}")
        finite = np.isfinite(states).all(axis=2)
        params, axes = tree.unflatten(members.params), tree.unflatten([-1 if v else None for v in self.varies])

        def look(statistic: Statistic, saves: np.ndarray) -> Any:
            seen, wanted = [], set(saves.tolist())
            track = statistic.track_start(self.times[0], states[0].T, params)
            for k, t in enumerate(self.times):
                if k and track is not None:
                    move = Move(self.times[k - 1], self.lengths[k - 1], states[k - 1].T, states[k].T, params, axes)
                    track = statistic.track(track, move)
                if k in wanted:
                    sound, idle = members.member & finite[k], np.zeros(self.width, np.int32)
                    snapshot = Snapshot(t, states[k].T, sound, members.weight, params, axes, idle, track)
                    seen.append(jax.tree.map(np.asarray, statistic.observe(snapshot)))
            return jax.tree.map(lambda *xs: np.stack(xs), *seen)

        bad = ~finite & members.member
        observed = [look(s, saves) for s, saves in zip(self.statistics, self.save_grids, strict=True)]
        return observed, np.where(bad.any(axis=0), bad.argmax(axis=0), -1)

    def label(self, merged: Sequence[Any]) -> list[tuple[Statistic, Labelled, Run]]:
        labelled = []
        for statistic, result, steps in zip(self.statistics, merged, self.save_grids, strict=True):
            run = Run(self.times[steps], tuple(self.problem.names), self.problem.units or {}, steps)
            labelled.append((statistic, statistic.label(result, run), run))
        return labelled

    def record(self) -> dict[str, Any]:
        """How the run was made."""
        equal = np.ptp(self.lengths) == 0
        record = {
            "t": [float(self.times[0]), float(self.times[-1])],
            "dt": float(self.lengths[0]) if equal else self.lengths.tolist(),
            "steps": self.steps,
            "paths": self.paths,
            "seed": self.seed,
            "dtype": str(self.dtype),
            "block": self.width,
            "given": self.given,
        }
        if isinstance(self.method, Method):
            record |= {
                "executor": self.chosen[0].name,
                "executor_reason": self.chosen[1],
                "normals": normals.IMPLEMENTATION,
                "fingerprint": self.traced.fingerprint,
            }
        return record
