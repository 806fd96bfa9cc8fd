"""Blocks on GPUs: kernels printed from a run's traces, one thread for each path, blocks going round the cards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.engine.collector import without_collection
from stodyn.engine.layout import Layout
from stodyn.engine.program import card_starts, executors, on_card, wide_sums
from stodyn.engine.program.as_loops import Loops
from stodyn.engine.program.card import Card, Launch, Memory, card_of, unavailable
from stodyn.engine.program.executors import Executor, Tell, Vmapped, plan_of, printed_or_vmapped
from stodyn.engine.program.kernel import FRAME, GROUP, LaunchResults
from stodyn.engine.program.observing import Rows, gathered, observe
from stodyn.engine.program.source import Source
from stodyn.engine.program.vmap import compiled
from stodyn.engine.program.watching import Watched, averages_itself, gives_values, is_added_up_by_kernels
from stodyn.engine.program.work import Went, Work, gone_through
from stodyn.engine.spec import Spec
from stodyn.noise import counter
from stodyn.noise.supply import CountedNormals
from stodyn.numerics.printing import compiling
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.numerics.printing.loops import has_loops_alone
from stodyn.numerics.printing.rows import Frame, words
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.statistics.contract import Snapshot, Statistic
from stodyn.statistics.moments import Sums, central_sums

WIDEST_BLOCK = 2**23
BLOCK_BYTES = 2**30
SEEN_BYTES = 2**31  # of the rows seen in one call
LOOPED = 2000  # scalar operations beyond which a step is printed as loops
READ_BYTES = 2**26  # of states that are read at a time
SECONDS = 0.2  # the time of a call, so that Ctrl-C is noticed
OPERATIONS = 1e12  # per second, assumed for the first call
WORDS = 2  # before the totals of a call: whether a path is bad, and how many steps ended at rounding


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that a device ran out of memory."""
    return "Out of memory" in str(error) or "out of memory" in str(error)


def block_width(paths: int, scalars: int) -> int:
    """Lanes of a block: as few blocks as a GPU's memory allows, with few idle lanes.

    The numbers come in sixteenths of a power of two, so that runs of about the same size share their memory.
    """
    most = min(WIDEST_BLOCK, max(BLOCK_BYTES // (8 * scalars), GROUP))
    share = -(-paths // -(-paths // most))
    unit = max(2 ** (share.bit_length() - 5), GROUP)
    return min(-(-share // unit) * unit, most // GROUP * GROUP)


class Program:
    """The kernels of a run, loaded on each card that asks.

    looped  whether they are loops over the entries of arrays
    """

    def __init__(self, source: Source, statistics: Sequence[Statistic]):
        self.source, self.launch = source, LaunchResults(source, statistics)
        self.looped = isinstance(source, Loops)
        self.operations = source.operations()
        self._loaded: dict[tuple[Card, bool], Launch] = {}
        self._loading = threading.Lock()
        normals = sum(count for _, count in source.traced.streams)
        self.rate = OPERATIONS / (self.operations + 100 * normals)  # path-steps per second

    def on(self, card: Card, diagnosing: bool = False) -> Launch:
        """The kernels, as launch(name, blocks, threads, frame)."""
        with self._loading:
            if (card, diagnosing) not in self._loaded:
                text = on_card.text(self.source, self.launch, diagnosing, card.group, card.joining)
                self._loaded[card, diagnosing] = card.loaded(text, on_card.names(self.source, self.launch, diagnosing))
            return self._loaded[card, diagnosing]

    @property
    def description(self) -> str:
        if self.looped:
            threads = on_card.threads_of_a_block(self.source)
            return f"{self.source.description.split(',')[0]}, {threads} threads for some paths together"
        return f"{self.operations} scalar operations per step, one thread for each path"


def _source(spec: Spec, watch: Watched) -> Source:
    """The source from which the kernels of a run are printed; raises Unprintable."""
    source = executors.source_of(spec, watch, LOOPED)
    if not isinstance(source, Loops) or all(map(has_loops_alone, source.programs)):
        return source
    reason = "kernels have loops over arrays, but no iterations such as Newton's"
    if executors.eliminates(spec):
        raise Unprintable(f"a large sparse system is eliminated in every step, and {reason}")
    return executors.scalar_source(spec, watch, f" ({reason})")


class OnCards(Executor):
    """A block computed by kernels that are printed for GPUs."""

    name = "printed"
    normals = counter.NAME

    def __init__(self, spec: Spec, devices: tuple[Any, ...], width: int):
        reason = compiling.unavailable() if devices[0].platform == "cpu" else unavailable()
        if reason is not None:
            raise Unprintable(reason)
        self.spec, self.plan, self.devices, self._width = spec, plan_of(spec), devices, width
        target = f"kernels {list(map(is_added_up_by_kernels, spec.statistics))}"
        self.program: Program = executors.kept_program(
            spec, target, lambda spec, watch: Program(_source(spec, watch), spec.statistics)
        )
        self.reason = self.program.description
        # Of statistics that look at all paths of a block together: for each, its device, lanes and slots.
        self.observing: dict[tuple[int, Any, int, int], Callable[..., Any]] = {}

    @property
    def width(self) -> int:
        return self._width

    def block(self, layout: Layout, block: int, tell: Tell) -> Went:
        count, card = layout.paths_in(block), card_of(self.devices[block % len(self.devices)])
        with card:
            work = _Work(self, layout, block, card)
            return gone_through(work, self.plan, lambda steps: tell(steps * count))


class VmappedOnCards(Executor):
    """Steps under jax.vmap on GPUs, where they cannot be printed."""

    name = "vmap"
    normals = counter.NAME

    def __init__(self, spec: Spec, devices: tuple[Any, ...], width: int, reason: str):
        self.devices, self.reason, self._width = devices, reason, width
        self._vmapped = Vmapped(spec, reason, CountedNormals)

    @property
    def width(self) -> int:
        return self._width

    def block(self, layout: Layout, block: int, tell: Tell) -> Went:
        with jax.default_device(self.devices[block % len(self.devices)]):
            return self._vmapped.block(layout, block, tell)


@without_collection
def get(spec: Spec, executor: str, devices: tuple[Any, ...], width: int) -> Executor:
    """The way to compute a run on GPUs."""
    return printed_or_vmapped(
        lambda: OnCards(spec, devices, width), lambda reason: VmappedOnCards(spec, devices, width, reason), executor
    )


class _Work(Work):
    """The paths of a block on a card."""

    observes_start_apart = True

    def __init__(self, executor: OnCards, layout: Layout, block: int, card: Card):
        self.program, self.spec, self.plan, self.card = executor.program, executor.spec, executor.plan, card
        self.launch, self.paths = self.program.on(card), layout.paths_in(block)
        source, results = self.program.source, self.program.launch
        self.lanes = -(-min(layout.width, layout.paths) // GROUP) * GROUP
        self.threads = on_card.threads_of_a_block(source, card.group)
        paths = on_card.paths_of_a_block(source, card.group, self.lanes)
        self.blocks = self.lanes // paths
        bytes_of_a_save = 8 * (self.lanes * results.rows + results.values * self.blocks)
        self.slots = int(np.clip(SEEN_BYTES // max(bytes_of_a_save, 1), 1, len(self.plan.saves)))
        self.state, self.after = (card.memory(name, len(source.layout.dtypes), self.lanes) for name in ("one", "other"))
        self.saved = card.memory("seen", self.slots, results.rows, self.lanes) if results.rows else None
        partials = card.memory("partials", self.slots, results.values, self.blocks) if results.summed else None
        self.totals = card.memory("totals", WORDS + self.slots * results.values)
        self.last_totals, self._rounded = np.empty(0), 0  # the totals of the last call
        self.observing = executor.observing
        self.frame = Frame(FRAME)
        self.frame.set(shift=paths.bit_length() - 1)
        if isinstance(source, Loops):
            self._give_rows(source)
        first = layout.first_path(block)
        self.frame.set(
            partials=partials.address if partials else 0, seen=self.saved.address if self.saved else 0,
            totals=self.totals.at(WORDS), flag=self.totals.at(0), rounded=self.totals.at(1), blocks=self.blocks,
            stride=self.lanes, paths=self.paths, first_path=first,
        )  # fmt: skip
        with np.errstate(over="ignore"):  # the words of a schedule wrap around
            words = np.array(counter.schedule(*counter.key_of(layout.seed))).view(np.int64)
        self.frame.set(**{f"key{k}": word for k, word in enumerate(words.tolist())})
        start = None if layout.has_common_start else self.spec.problem.start_from_normals
        starts = layout.starts(first, first + self.paths) if start is None else np.zeros((0, self.spec.problem.n))
        self._give_numbers(starts, layout.own_params(first, first + self.paths))
        if start is not None:
            card_starts.loaded(card, start)("starts", self.lanes // card.group, card.group, self.frame)

    def _give_rows(self, source: Loops) -> None:
        """Allocate the rows that the loops of a large system need besides its state before and after a call."""
        card = self.card
        self.between = card.memory("between", *self.state.shape)
        entries = card.memory("entries", max(on_card.rows_of_scratch(source), 1), self.lanes)
        normals = card.memory("normals", max(on_card.rows_of_normals(source.traced.streams), 1), self.lanes)
        tables = np.concatenate([*source.tables, np.zeros(1, np.int64)])
        known = card.memory("tables", len(tables))
        known.put(tables)
        self.frame.set(entries=entries.address, normals=normals.address, tables=known.address)

    def _give_numbers(self, starts: np.ndarray, own_values: Sequence[np.ndarray]) -> None:
        """Copy times, parameters and starts: numbers that all paths share in one piece, those of single paths in rows.

        Where no starts are given, their rows are left to be written on the card."""
        spec, plan, card = self.spec, self.plan, self.card
        with np.errstate(over="ignore"):  # a start beyond float32 is a failure at the first time
            starts = starts.astype(spec.dtype).astype(float)
        rest = iter(own_values)
        own, common = [], []
        for leaf, example, varies in zip(spec.param_leaves, spec.examples, spec.varies, strict=True):
            if varies:
                own.append(words(np.moveaxis(next(rest), 0, -1).astype(example.dtype)).reshape(-1, self.paths))
            else:
                common.append(words(np.asarray(leaf, example.dtype)).ravel())
        is_common = len(starts) == 1
        pieces = {
            "t": np.asarray(plan.t, float), "h": np.asarray(plan.h, float),
            "common_params": np.concatenate([np.zeros(0), *common]),
            "start": starts[0] if is_common else np.zeros(0),
            "saves": np.append(plan.saves, -1).astype(np.int64).view(float),
        }  # fmt: skip
        shared, place = card.memory("shared", sum(map(len, pieces.values()))), 0
        shared.put(np.concatenate(list(pieces.values())))
        for name, values in pieces.items():
            self.frame.set(**{name: shared.at(place)})
            place += len(values)
        self.frame.set(start_row=8, start_lane=0)
        if not is_common:
            rows = self._rows("start", starts.T) if len(starts) else card.memory("start", spec.problem.n, self.lanes)
            self.frame.set(start=rows.address, start_row=8 * self.lanes, start_lane=8)
        self.own = self._rows("own_params", np.concatenate(own)) if own else None
        self.frame.set(own_params=self.own.address if self.own else 0)

    def _rows(self, name: str, values: np.ndarray) -> Memory:
        """Rows over the paths of the block, those beyond the last repeating the first."""
        memory = self.card.memory(name, len(values), self.lanes)
        memory.put(values[:, np.arange(self.lanes) % self.paths] if self.lanes > self.paths else values)
        return memory

    # --- the flow of a block ------------------------------------------------------------------------------------------

    def begin(self) -> np.ndarray | None:
        self.frame.set(after=self.state.address)
        return self._launched("begin", self.state, int(self.plan.saves[0] == 0))

    def end(self, first: int) -> int:
        steps = max(int(SECONDS * self.program.rate / self.lanes), 1)
        return self.plan.call_end(first, steps, self.slots, self.program.source.traced.starting_steps)

    def advance(self, first: int, last: int, inside: slice) -> np.ndarray | None:
        began = time.perf_counter()
        self._set_steps(first, last, self.state, self.after, inside.start)
        bad = self._launched(self._name(first), self.after, inside.stop - inside.start)
        self.state, self.after = self.after, self.state
        self.program.rate = self.lanes * (last - first) / max(time.perf_counter() - began, 1e-9)
        return bad

    def _name(self, first: int) -> str:
        return "starting" if first < self.program.source.traced.starting_steps else "run"

    def _set_steps(self, first: int, last: int, before: Memory, after: Memory, first_save: int) -> None:
        self.frame.set(first=first, last=last, first_save=first_save, state=before.address, after=after.address)
        if self.program.looped:  # the last of the steps writes to `after`
            one, other = (after, self.between) if (last - first) % 2 else (self.between, after)
            self.frame.set(one=one.address, other=other.address)

    def _launched(self, name: str, after: Memory, saves: int) -> np.ndarray | None:
        """Launch a kernel and those that join its sums; returns which lanes are bad after it."""
        results, paths = self.program.launch, self.paths
        self.totals.clear(WORDS)
        self.launch(name, self.blocks, self.threads, self.frame)
        for k in results.summed if saves else ():
            self.launch(f"join{k}", saves, self.card.joining, self.frame)
        self.last_totals = self.totals.got(WORDS + saves * results.values)
        is_bad, self._rounded = self.last_totals[:WORDS].view(np.int64).tolist()
        if not is_bad:
            return None
        real, lanes = self.program.source.layout.real, self.lanes
        sound, at_a_time = np.arange(lanes) < paths, max(READ_BYTES // (8 * lanes), 1)
        for first in range(0, len(real), at_a_time):
            own = real[first : first + at_a_time]
            rows = after.got(len(own) * lanes, first * lanes).reshape(-1, lanes)
            sound &= np.isfinite(rows[own]).all(axis=0)
        return ~sound & (np.arange(lanes) < paths)

    def snapshot(self) -> Memory:
        return self.state

    def diagnose(self, before: Memory, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        card = self.card
        scratch = card.memory("scratch", *before.shape)
        failed, causes = (card.memory(name, self.lanes) for name in ("failed", "causes"))
        failed.put(np.full(self.lanes, -1))
        causes.clear(self.lanes)
        self._set_steps(first, last, before, scratch, len(self.plan.saves))
        self.frame.set(failed=failed.address, causes=causes.address)
        self.program.on(card, diagnosing=True)(self._name(first), self.blocks, self.threads, self.frame)
        step, cause = (memory.got(self.lanes, dtype=np.int64) for memory in (failed, causes))
        return np.where(step >= 0, step - 1 - first, -1), cause

    def rounded(self) -> int:
        return self._rounded

    def params_of(self, own: Array, common: Sequence[Any]) -> list[Any]:
        """The parameters of the paths, from their rows and from the numbers that all have in common."""
        params, row, shared = [], 0, iter(common)
        for example, varies in zip(self.spec.examples, self.spec.varies, strict=True):
            if varies:
                size = int(np.prod(example.shape))
                params.append(_typed(own[row : row + size], example.dtype).reshape(*example.shape, self.lanes))
                row += size
            else:
                params.append(next(shared))
        return params

    def observed(self, inside: slice) -> list[Any]:
        is_observed = [look[inside] for look in self.plan.observes]
        return _RowsOfCard(self, inside).observed(self.spec.statistics, self.program.source.watched, is_observed)


class _RowsOfCard(Rows):
    """The sums and the rows that a launch has left."""

    def __init__(self, work: _Work, inside: slice):
        self.work, self.saves = work, inside.stop - inside.start
        self.times = work.plan.t[work.plan.saves[inside]]

    def sums(self, k: int, statistic: Any, look: np.ndarray) -> Any:
        work, results = self.work, self.work.program.launch
        numbers = work.program.source.rows_of[k][0].ravel()
        n, products = len(numbers), statistic.products(len(numbers))
        if k in results.summed:
            totals = work.last_totals[WORDS:].reshape(self.saves, results.values)
            return _sums(totals[look, results.places[k] :], n, products, True)
        if statistic.counts_failed or not is_added_up_by_kernels(statistic):
            return self.whole(k, statistic, look)
        return _sums(self._wide_sums(numbers, products)[look], n, products, products)

    def whole(self, k: int, statistic: Statistic, look: np.ndarray) -> Any:
        parts = [self._by_jax(k, statistic, int(j), self.times[j]) for j in look]
        return jax.tree.map(lambda *xs: np.stack(xs), *jax.device_get(parts))

    def _wide_sums(self, numbers: np.ndarray, products: bool) -> np.ndarray:
        """The sums of rows at the saves."""
        work, saves = self.work, self.saves
        assert work.saved is not None
        card, count = work.card, len(numbers)
        seconds = count * (count + 1) // 2 if products else count
        size = 1 + 3 * count + seconds
        rows, totals = card.memory("wide rows", count), card.memory("wide totals", work.slots * size)
        rows.put(numbers.astype(np.int64))
        frame = Frame(FRAME)
        frame.set(seen=work.saved.address, rows=rows.address, count=count, totals=totals.address, stride=work.lanes,
                  blocks=work.program.launch.rows, paths=work.paths, seconds=seconds)  # fmt: skip
        launch = wide_sums.loaded(card)
        launch("means", saves * count, card.joining, frame)
        launch("powers", saves * count, card.joining, frame)
        if products:
            launch("products", saves * wide_sums.tiles(count) ** 2, card.joining, frame)
        return totals.got(saves * size).reshape(saves, size)

    def _by_jax(self, k: int, statistic: Statistic, slot: int, t: float) -> Any:
        """The observation of a statistic at a save, computed by JAX on the card."""
        work, spec, source, lanes = self.work, self.work.spec, self.work.program.source, self.work.lanes

        def observation(saved: Any, slot: Any, t: Any, paths: Any, own: Any, common: Any) -> Any:
            rows, member = saved[slot], jnp.arange(lanes) < paths
            sound, weight = rows[-1] > 0, jnp.ones(lanes, spec.dtype)
            columns = [_typed(rows[numbers], source.saved_dtypes[numbers.flat[0]]) for numbers in source.rows_of[k]]
            if gives_values(statistic):
                values, counted = columns[0].reshape(-1, lanes), member if statistic.counts_failed else sound
                if not averages_itself(statistic):
                    return values, counted
                averaged: Any = statistic
                return central_sums(values, counted, weight, averaged.products(len(values)), averaged.crosses)
            params = jax.tree.unflatten(spec.params_tree, work.params_of(own, common))
            x, more = rows[: spec.problem.n].astype(spec.dtype), gathered(statistic, source.watched.trees[k], columns)
            return observe(statistic, Snapshot(t, x, sound, weight, params, spec.axes, *more), member)

        common = [
            np.asarray(leaf, example.dtype)
            for leaf, example, varies in zip(spec.param_leaves, spec.examples, spec.varies, strict=True)
            if not varies
        ]
        own = work.own.array if work.own is not None else np.zeros(1)
        inputs = (work.saved.array, np.int32(slot), spec.dtype.type(t), np.int32(work.paths), own, common)  # type: ignore[union-attr]
        with jax.enable_x64(True), jax.default_device(work.card.device):
            kind = (k, work.card.device, lanes, work.slots)
            if kind not in work.observing:
                key = fingerprint(jax.make_jaxpr(observation)(*inputs)) + type(statistic).__name__
                work.observing[kind] = compiled(key, observation, *inputs).call
            return work.observing[kind](*inputs)


def _typed(rows: Array, dtype: np.dtype) -> Array:
    """Numbers of rows in their own type."""
    return rows.astype(dtype) if dtype.kind == "f" else lax.bitcast_convert_type(rows, np.int64).astype(dtype)


def _sums(totals: np.ndarray, n: int, products: bool, are_there: bool) -> Sums:
    """The joined sums of a statistic (saves, ...) in their places; products of different numbers only where they are
    wanted, and `are_there`."""
    places = np.arange(n)
    behind = 1 + n + (n * (n + 1) // 2 if are_there else n)
    if products:
        row, column = np.tril_indices(n)
        second = np.empty((len(totals), n, n))
        second[:, row, column] = second[:, column, row] = totals[:, 1 + n : behind]
    else:
        second = totals[:, 1 + n + (places * (places + 3) // 2 if are_there else places)]
    third, fourth = totals[:, behind : behind + n], totals[:, behind + n : behind + 2 * n]
    return Sums(totals[:, 0].copy(), totals[:, 1 : 1 + n].copy(), second, third.copy(), fourth.copy())
