"""A run: its blocks, their members, the map over them and the ordered merge."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from stodyn import results
from stodyn.engine import batch, grid, identity
from stodyn.engine.block import LONGEST_WINDOW, MOST_SAVES, BlockRunner, Failures, Members, Plan, Program
from stodyn.engine.failure import FailureLog
from stodyn.engine.feed import slab_steps
from stodyn.engine.job import Job, Tell
from stodyn.engine.kernel import GROUP, CountedProgram
from stodyn.engine.ledger import Ledger
from stodyn.engine.place import Place
from stodyn.engine.progress import Progress
from stodyn.engine.sameness import Kept, judged
from stodyn.methods.contract import Method, Solver
from stodyn.noise import counter, in_program, normals, stream
from stodyn.noise.distribution import PerPath, draw, is_random
from stodyn.problems.contract import first_line, is_drawn
from stodyn.statistics.contract import Block, Labelled, Move, Run, Snapshot, Statistic, is_count

WIDEST_BLOCK = 4096
NARROWEST_SHARED_BLOCK = 1024
BLOCK_BYTES = 2_000_000
WIDEST_COUNTED_BLOCK = 2**23
COUNTED_BLOCK_BYTES = 2**30
SAVED_BYTES = 2**31
KERNEL_OPERATIONS = 1500  # beyond this many scalar operations a step a kernel takes half a minute to compile
EXECUTORS = ("auto", "kernel", "lanes", "vmap")
MEMORY_SHARE = 0.5  # of the machine's memory that a result may take

_traces = Kept()


class SinglePrecisionConstant(UserWarning):
    """A float64 run uses numbers that were rounded to float32 before it began."""


class BlockHalved(UserWarning):
    """A block did not fit the device's memory."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is a device's want of memory."""
    return "Out of memory" in str(error) or "out of memory" in str(error)


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


def counted_block_width(paths: int, scalars: int) -> int:
    """Lanes in a block whose normals are counted: as few blocks as a GPU's memory allows, with few idle lanes.

    The numbers come in sixteenths of a power of two, so that runs of about the same size share a program.
    """
    most = min(WIDEST_COUNTED_BLOCK, max(COUNTED_BLOCK_BYTES // (8 * scalars), GROUP))
    share = -(-paths // -(-paths // most))
    unit = max(2 ** (share.bit_length() - 5), GROUP)
    return min(-(-share // unit) * unit, most // GROUP * GROUP)


@dataclasses.dataclass
class Ensemble(Job):
    """Everything a run needs, made ready once; blocks are numbered, and block b holds paths b·width, ...

    With `devices` the blocks go round them and their normals are counted; without, the processor runs them. A run that
    `grows` may get more paths later (a ledger keeps it): how it is run does not depend on how many there are.
    """

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
    devices: tuple[Any, ...] = ()
    grows: bool = False

    def __post_init__(self):
        if self.executor not in EXECUTORS:
            raise ValueError(f"executor: expected one of {', '.join(map(repr, EXECUTORS))}, got {self.executor!r}")
        if self.block is not None and not is_count(self.block):
            raise ValueError(f"block: expected a whole number of lanes >= 1, got {self.block!r}")
        if self.block is not None and self.counted and self.block % GROUP:
            raise ValueError(f"block: a kernel takes groups of {GROUP} paths; expected a multiple, got {self.block}")
        if isinstance(self.method, Solver) and self.counted:
            raise ValueError(f'device: {self.method.name} is host code and makes no kernel; use device="cpu"')
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

    def again(self, seed: int) -> Ensemble:
        """The same with another seed: all that was made ready serves it too, but for what is drawn."""
        other = object.__new__(Ensemble)
        drawn = ("identity", "key", *(() if self.has_common_members else ("_first_members", "given")))
        other.__dict__ |= {name: value for name, value in self.__dict__.items() if name not in drawn} | {"seed": seed}
        return other

    @property
    def steps(self) -> int:
        return len(self.lengths)

    @property
    def has_equal_steps(self) -> bool:
        return bool(np.ptp(self.lengths) == 0)

    @functools.cached_property
    def width(self) -> int:
        if self.block is not None:
            return int(self.block)
        counts = sum(self.method.needs.normals(self.problem.m).values()) if isinstance(self.method, Method) else 0
        widths = counted_block_width if self.counted else block_width
        return widths(self.paths, self.problem.n + counts)

    @property
    def counted(self) -> bool:
        """Whether the normals are a function of path and step (noise.counter), not a stream for each block."""
        return bool(self.devices) or self.executor == "kernel"

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

    @functools.cached_property
    def has_common_start(self) -> bool:
        return not any(map(is_random, jax.tree.leaves(self.problem.start, is_leaf=is_drawn)))

    @property
    def has_common_members(self) -> bool:
        """Whether all paths have their start and parameters in common."""
        return self.has_common_start and not any(self.varies)

    def members(self, block: int) -> Members:
        """The starts and parameters of a block; lanes beyond the last path repeat its first and are no members."""
        return self._first_members if block == 0 else self._members(block)

    @functools.cached_property
    def _first_members(self) -> Members:
        return self._members(0)

    def _members(self, block: int) -> Members:
        count = self.paths_in(block)
        fill = np.arange(self.width) % count if count < self.width else slice(None)
        start, *drawn = self._drawn(block)
        rest, params = iter(drawn), []
        examples = jax.tree.leaves(self.problem.example_params())
        for leaf, example, varies in zip(self._param_leaves, examples, self.varies, strict=True):
            kind = batch.number_type(example, self.dtype)
            own = np.moveaxis(next(rest)[fill], 0, -1) if varies else leaf
            params.append(np.ascontiguousarray(own, kind) if varies else np.asarray(own, kind))
        with np.errstate(over="ignore"):  # a start beyond float32 is a failure at the first time
            start = np.ascontiguousarray((start if self.counted and len(start) == 1 else start[fill]).T, self.dtype)
        if self.counted:
            return Members(np.asarray(count), np.ones(1, self.dtype), start, params)
        return Members(np.arange(self.width) < count, np.ones(self.width, self.dtype), start, params)

    def _drawn(self, block: int) -> list[np.ndarray]:
        """The starts of a block's paths, and their values of each parameter that varies: a leading axis of paths.

        A counted block takes them from the streams of its parts, so that it may be cut; and one start, where all paths
        have it in common.
        """
        first, last = self.first_path(block), self.first_path(block) + self.paths_in(block)
        part = WIDEST_BLOCK if self.counted else self.width
        alike = self.counted and self.has_common_start
        leaves = [leaf for leaf, varies in zip(self._param_leaves, self.varies, strict=True) if varies]
        drawn = []
        for number in range(first // part, -(-last // part)):
            numbers = range(number * part, min((number + 1) * part, self.paths))
            rng = stream.generator(self.seed, number, "start")
            starts = self.problem.draw_start(rng, numbers[:1] if alike else numbers)
            rng = stream.generator(self.seed, number, "params")
            drawn.append([starts, *(draw(leaf, rng, numbers, "params") for leaf in leaves)])
            if alike and not leaves:
                break
        starts, *params = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        here = slice(first % part, first % part + last - first)
        return [starts[:1] if alike else starts[here], *(values[here] for values in params)]

    @functools.cached_property
    def given(self) -> str:
        """A digest of the starts and parameters: those of the first block, and all that is given path by path."""
        first, digest = self.members(0), hashlib.sha256()
        leaves = jax.tree.leaves((getattr(self.problem, "start", None), self.problem.params), is_leaf=is_drawn)
        for array in (first.start, *first.params, *(leaf.values for leaf in leaves if isinstance(leaf, PerPath))):
            digest.update(repr(array.shape).encode() + array.tobytes())
        return digest.hexdigest()

    @functools.cached_property
    def rounded_numbers(self) -> list[str]:
        """The numbers of a float64 run that were rounded to float32 before it began, in words."""
        if self.dtype != np.float64:
            return []
        found = list(self.traced.rounded_constants) if isinstance(self.method, Method) else []
        named = {"start": getattr(self.problem, "start", None), "params": self.problem.params}
        for name, tree in named.items():
            for place, leaf in jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_drawn)[0]:
                found += [f"{name}{jax.tree_util.keystr(place)} = {leaf}"] if batch.was_rounded(leaf) else []
        return found

    # --- blocks of a stepping method ------------------------------------------------------------------------------

    @functools.cached_property
    def traced(self) -> batch.Traced:
        """The trace, from an earlier run of the same where there was one."""
        with jax.enable_x64(True):
            what = (self.problem, self.method, self.dtype)
            return _traces.get(judged(what), what, lambda: batch.trace(*what))

    @functools.cached_property
    def slab(self) -> int:
        """Steps whose normals are drawn together."""
        return slab_steps(sum(count for _, count in self.traced.streams), self.width)

    @functools.cached_property
    def plan(self) -> Plan:
        saves = functools.reduce(np.union1d, self.save_grids)
        looks = tuple(np.isin(saves, g) for g in self.save_grids)
        apart = int(np.diff(saves).min(initial=self.steps))
        draws_itself = self.counted or in_program.available()
        longest = min(LONGEST_WINDOW, self._most_saves * apart) if draws_itself else self.slab
        return Plan(self.times, self.lengths, saves, looks, min(longest, self.steps))

    @property
    def _most_saves(self) -> int:
        """Saves of a call: a kernel keeps the states at all of them until the statistics have looked."""
        scalars = sum(int(np.prod(shape)) for shape in self.traced.state_shapes)
        return min(MOST_SAVES, max(SAVED_BYTES // (8 * scalars * self.width), 1)) if self.counted else MOST_SAVES

    @functools.cached_property
    def chosen(self) -> tuple[batch.Lanes | batch.Vmap, str]:
        """How a block is run outside a kernel, and why so."""
        wanted = "auto" if self.executor == "kernel" else self.executor
        with jax.enable_x64(True):
            path_steps = math.inf if self.counted or self.grows else self.paths * self.steps
            run, reason = batch.executor(self.traced, self.width, wanted, path_steps)
            if self.counted and isinstance(run, batch.Lanes):
                run = dataclasses.replace(run, on_gpu=True)
            return run, reason

    @functools.cached_property
    def always(self) -> tuple[bool, ...]:
        """For each statistic whether it looks at the end of every interval."""
        return tuple(self.plan.every is not None and bool(np.all(look)) for look in self.plan.looks)

    @functools.cached_property
    def program(self) -> Program:
        """What is computed of a block."""
        if self.counted:
            return self.runners[0].program
        slab = self.slab if in_program.available() else None
        return Program(self.chosen[0], self.statistics, self.plan.intervals, self.varies, self.always, slab)

    @functools.cached_property
    def runners(self) -> list[BlockRunner]:
        """One for each device, or the one for the processor."""
        if not self.counted:
            return [BlockRunner(self.program, self.plan, self.members(0))]
        first, *others = self.devices or jax.devices("cpu")[:1]
        program, runner, self.kernel_reason = self._counted_program(first)
        return [runner, *(self._runner_on(device, program) for device in others)]

    def _counted_program(self, device: Any) -> tuple[CountedProgram, BlockRunner, str]:
        """A kernel where it can be one, else lanes or vmap on the device; and why not a kernel."""
        run, _ = self.chosen
        program = CountedProgram(run, self.statistics, self.plan.intervals, self.varies, self.always, None,
                                 equal_steps=self.has_equal_steps)  # fmt: skip
        refused = self._no_kernel()
        if refused is None:
            kernel = "interpreted" if device.platform == "cpu" else "gpu"
            try:
                fused = dataclasses.replace(program, kernel=kernel)
                return fused, self._runner_on(device, fused), ""
            except Exception as error:  # a compiler's refusal has no class of its own: Triton, LLVM, ptxas, XLA
                if is_out_of_memory(error):
                    raise
                refused = f"no kernel: {first_line(error)[:200]}"
        if self.executor == "kernel":
            raise ValueError(f'executor="kernel" is not possible for this problem and method: {refused}')
        return program, self._runner_on(device, program), refused

    def _no_kernel(self) -> str | None:
        """Why the run is not tried as a kernel."""
        run, reason = self.chosen
        if self.executor in ("lanes", "vmap"):
            return "asked for"
        if isinstance(run, batch.Vmap):
            return reason
        tracking = [type(s).__name__ for s in self.statistics if type(s).track is not Statistic.track]
        if tracking:
            return f"{tracking[0]} looks at every step"
        operations = batch.lane_operations(self.traced)
        if operations > KERNEL_OPERATIONS and self.executor == "auto":
            return f"{operations} scalar operations a step, more than {KERNEL_OPERATIONS}"
        return None

    def _runner_on(self, device: Any, program: CountedProgram) -> BlockRunner:
        with jax.default_device(device):
            return BlockRunner(program, self.plan, self.members(0))

    def observe_block(self, block: int) -> list[Any]:
        """What each statistic saw of one block."""
        if isinstance(self.method, Solver):
            return self._solve(block)[0]
        return self._run_block(block, lambda steps: None)[0]

    def _run_block(self, block: int, on_call: Callable[[int], None]):
        number = block % len(self.runners)
        with jax.default_device(self.devices[number] if self.devices else jax.devices("cpu")[0]):
            return self.runners[number].run(self.seed, block, self.members(block), on_call)

    # --- the run --------------------------------------------------------------------------------------------------

    def run(self, place: Place, bar: Progress, on_failure: str, ledger: Ledger | None = None) -> Tally:
        """The merged result of every statistic, and the failures."""
        tally = Tally(self, on_failure)
        closing = contextlib.closing(place.parts(self, ledger, bar.advance))  # type: ignore[type-var]
        with ledger or contextlib.nullcontext(), closing as parts:
            for block, part in enumerate(parts):
                tally.take(block, part)
        return tally

    def prepare(self) -> None:
        if isinstance(self.method, Method):
            _ = self.runners

    def path_steps(self, block: int) -> int:
        return self.steps * self.paths_in(block)

    def compute(self, block: int, tell: Tell) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
        """What the statistics keep of a block; its failed lanes, after which step, and whether a solve failed there."""
        count = self.paths_in(block)
        if isinstance(self.method, Solver):
            tell(0)
            observed, step = self._solve(block)
            lanes = np.flatnonzero(step >= 0)
            failures = Failures(lanes, step[lanes], np.zeros(lanes.size, bool))
            tell(self.path_steps(block))
        else:
            observed, failures = self._run_block(block, lambda steps: tell(steps * count))
        return self._fold(observed, block), *failures

    def _fold(self, observed: Sequence[Any], block: int) -> list[Any]:
        """Laid out in memory as they are when read from a record, so that later sums add in the same order."""
        where = Block(self.first_path(block), self.paths_in(block))
        folded = [s.fold(o, where) for s, o in zip(self.statistics, observed, strict=True)]
        return jax.tree.map(lambda x: np.asarray(x, order="C") if isinstance(x, (np.ndarray, jax.Array)) else x, folded)

    def describe(self) -> dict[str, Any]:
        return identity.of_ensemble(self)

    def members_digest(self, block: int) -> str:
        members = self.members(block)
        return identity.digest(members.start, *members.params)

    def owners(self) -> Iterable[type]:
        return map(type, self.statistics)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is found anew where it is needed: traces and compiled programs do not travel."""
        names = (*(field.name for field in dataclasses.fields(self)), "save_grids")
        return {name: self.__dict__[name] for name in names}

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
        record = {
            "t": [float(self.times[0]), float(self.times[-1])],
            "dt": float(self.lengths[0]) if self.has_equal_steps else self.lengths.tolist(),
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
        if self.counted:
            fused = self.runners[0].program.is_kernel
            record |= {
                "executor": "kernel" if fused else record["executor"],
                "executor_reason": record["executor_reason"] if fused else self.kernel_reason,
                "normals": counter.NAME,
                "devices": [device.device_kind for device in self.devices],
            }
        return record


class Tally:
    """The blocks of an ensemble merged so far, in their order, and the failures; on_failure="raise" stops at the first.

    merged  the partial result of every statistic
    """

    def __init__(self, ensemble: Ensemble, on_failure: str):
        self.ensemble, self.on_failure = ensemble, on_failure
        self.log = FailureLog(ensemble.times)
        self.merged: list[Any] = []

    def take(self, block: int, part: tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]) -> None:
        """The next block."""
        ensemble, (kept, lanes, steps, unsolved) = self.ensemble, part
        first = ensemble.first_path(block)
        self.log.add(first + lanes, steps, unsolved)
        if self.log.found and self.on_failure == "raise":
            raise self.log.error(first + ensemble.paths_in(block), ensemble.problem.failure_advice)
        if not self.merged:
            self.merged = kept
            if ensemble.blocks > 1:  # what cannot stand together is refused here, not at the end
                results.together(self.labelled(), {})
        else:
            pairs = zip(ensemble.statistics, self.merged, kept, strict=True)
            self.merged = [statistic.merge(a, b) for statistic, a, b in pairs]

    def labelled(self) -> list[tuple[Statistic, Labelled, Run]]:
        return self.ensemble.label(self.merged)
