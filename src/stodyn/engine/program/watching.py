"""The numbers that the statistics of a run need from one path, as traces: gathered at every step, and saved."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.engine import kept_traces
from stodyn.engine.spec import Spec
from stodyn.numerics.printing.fingerprints import fingerprint
from stodyn.statistics.contract import Move, Snapshot, Statistic, parted
from stodyn.statistics.histogram import Histogram
from stodyn.statistics.moments import Averaged, Valued
from stodyn.statistics.observable import Observable


@dataclasses.dataclass(frozen=True)
class Watched:
    """Traces over arrays with one lane, flat in and out.

    begin       (t, x, *params) -> the numbers gathered at the start
    track       (t, h, before, after, *gathered, *params) -> those gathered after a step
    see         (t, x, iterations, *gathered, *params) -> the numbers of one path at a save: of each statistic its own
    trees       the structure of the numbers that each statistic gathers
    row_counts  how many of the results of `see` belong to each statistic
    apart       whether the values of each statistic are left to JAX, since they cannot be printed
    """

    begin: Any
    track: Any
    see: Any
    trees: tuple[Any, ...]
    row_counts: tuple[int, ...]
    counts_iterations: bool
    apart: tuple[bool, ...]

    @functools.cached_property
    def fingerprints(self) -> tuple[str, ...]:
        return tuple(map(fingerprint, (self.begin, self.track, self.see)))


def averages_itself(statistic: Statistic) -> bool:
    """Whether the sums of a statistic are those of numbers of single paths, so that a program may add them up."""
    return isinstance(statistic, Averaged) and type(statistic).observe is Averaged.observe


def is_added_up_by_kernels(statistic: Statistic) -> bool:
    """Whether kernels add up all its sums: those of pairs beyond the second are left to JAX."""
    return averages_itself(statistic) and not statistic.crosses  # type: ignore[attr-defined]


def gives_values(statistic: Statistic) -> bool:
    """Whether a statistic looks only at numbers of single paths, so that a program may write them down."""
    return averages_itself(statistic) or (isinstance(statistic, Valued) and type(statistic).observe is Valued.observe)


def counts_below(statistic: Statistic) -> bool:
    """Whether a statistic counts the paths whose components lie below its edges, so that a program may do it."""
    return isinstance(statistic, Histogram) and type(statistic).observe is Histogram.observe


def moved(t: Any, h: Any, before: Any, after: Any, params: Any, axes: Any, n: int, levels: int) -> tuple[Move, Any]:
    """A step of a block from what its method shows before and after, and which paths it moves; None: all of them."""
    (x, was), (y, now) = parted(before, n, levels), parted(after, n, levels)
    if was is None or now is None:
        return Move(t, h, x, y, params, axes), None
    return Move(t, jnp.where(now.by > 0, now.time - t, h), x, y, params, axes), was.by == 0


def frozen(goes_on: Any, after: list[Any], before: list[Any]) -> list[Any]:
    """The numbers gathered after a step; for a path that was stopped before it, those gathered until then."""
    return [jnp.where(goes_on, a, b) for a, b in zip(after, before, strict=True)]


def has_function(statistic: Statistic) -> bool:
    """Whether a statistic looks at numbers that a user's function makes of a path."""
    return averages_itself(statistic) and isinstance(statistic, Observable)


def watched(spec: Spec, values_apart: bool = False) -> Watched:
    """The traces of a run's statistics, in the precision of the run whatever the session's is; on request without the
    values of users' functions."""
    assert spec.traced is not None
    shown = spec.traced.read.out_avals[0].shape[0]
    params = [(e.shape, e.dtype.str, v) for e, v in zip(spec.examples, spec.varies, strict=True)]
    made_of = (
        spec.statistics, spec.problem.n, shown, spec.dtype.str, spec.levels, params, str(spec.params_tree),
        values_apart,
    )  # fmt: skip

    def make() -> Watched:
        with jax.enable_x64(True):
            return _watched(spec, shown, values_apart)

    return kept_traces.of_values(made_of, make)


def _watched(spec: Spec, shown: int, values_apart: bool) -> Watched:
    n, dtype, statistics, levels = spec.problem.n, spec.dtype, spec.statistics, spec.levels
    apart = tuple(values_apart and has_function(statistic) for statistic in statistics)
    number, x = jax.ShapeDtypeStruct((), dtype), jax.ShapeDtypeStruct((shown, 1), dtype)
    params = [jax.ShapeDtypeStruct((*e.shape, 1) if v else e.shape, e.dtype)
              for e, v in zip(spec.examples, spec.varies, strict=True)]  # fmt: skip
    count = jax.ShapeDtypeStruct((1,), np.int32)

    def begun(t: Array, x: Array, *flat: Array) -> list[Any]:
        tree = jax.tree.unflatten(spec.params_tree, flat)
        return [s.track_start(t, parted(x, n, levels)[0], tree) for s in statistics]

    begin, shapes = jax.make_jaxpr(begun, return_shape=True)(number, x, *params)
    trees: tuple[Any, ...] = tuple(jax.tree.structure(shape) for shape in shapes)
    leaves = jax.tree.leaves(shapes)

    def sorted_out(flat: Sequence[Array]) -> tuple[list[Any], Any]:
        """The numbers that each statistic gathers, and the parameters."""
        gathered, rest = [], list(flat)
        for tree in trees:
            gathered.append(jax.tree.unflatten(tree, rest[: tree.num_leaves]))
            rest = rest[tree.num_leaves :]
        return gathered, jax.tree.unflatten(spec.params_tree, rest)

    def track(t: Array, h: Array, before: Array, after: Array, *flat: Array) -> list[Array]:
        gathered, tree = sorted_out(flat)
        move, goes_on = moved(t, h, before, after, tree, spec.axes, n, levels)
        tracked = [s.track(g, move) for s, g in zip(statistics, gathered, strict=True)]
        numbers = [jax.numpy.asarray(a, b.dtype) for a, b in zip(jax.tree.leaves(tracked), leaves, strict=True)]
        return numbers if goes_on is None else frozen(goes_on, numbers, jax.tree.leaves(gathered))

    row_counts: list[int] = []

    def see(t: Array, x: Array, iterations: Array, *flat: Array) -> list[Array]:
        gathered, tree = sorted_out(flat)
        sound, weight = np.ones(1, bool), np.ones(1)
        x, stops = parted(x, n, levels)
        snapshot = Snapshot(t, x, sound, weight, tree, spec.axes, iterations, None, stops)
        rows = []
        for statistic, own, is_apart in zip(statistics, gathered, apart, strict=True):
            wanted = jax.tree.leaves(own)
            if gives_values(statistic) and not is_apart:
                values = statistic.values(snapshot._replace(track=own))  # type: ignore[attr-defined]
                wanted = [jax.numpy.asarray(values, float)]
            elif statistic.counts_iterations:
                wanted = [iterations, *wanted]
            row_counts.append(len(wanted))
            rows.append(wanted)
        return jax.tree.leaves(rows)

    return Watched(
        begin,
        jax.make_jaxpr(track)(number, number, x, x, *leaves, *params),
        jax.make_jaxpr(see)(number, x, count, *leaves, *params),
        trees,
        tuple(row_counts),
        any(s.counts_iterations for s in statistics),
        apart,
    )
