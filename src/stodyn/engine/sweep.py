"""One run over a grid or a list of parameters, all points on the same Brownian paths, and differences between them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import xarray as xr
from jax import Array
from numpy.typing import ArrayLike

from stodyn import results
from stodyn.arguments import checks_arguments, suggestion
from stodyn.engine.door import front_door
from stodyn.engine.failure import PathsFailed
from stodyn.engine.places.contract import Place
from stodyn.engine.progress import Progress
from stodyn.engine.record import identity
from stodyn.engine.record.job import Job, Tell
from stodyn.engine.record.ledger import Ledger
from stodyn.engine.run import Run, Tally
from stodyn.engine.simulate import check_needed, check_options, run_of, simulate
from stodyn.engine.spec import (
    MEMORY_SHARE,
    Spec,
    as_it_is_now,
    check_paths,
    checked_functions,
    chosen_method,
    describe,
    statistics_of,
)
from stodyn.engine.stability import examined
from stodyn.engine.where import refuse_blocks, where_of
from stodyn.hints import Count, Integer, Reals
from stodyn.methods.contract import Catalogued, Expansion
from stodyn.methods.stopping import Stop
from stodyn.models.catalogue import Model
from stodyn.noise.source import differs
from stodyn.problems import describing
from stodyn.problems.contract import Problem, as_snapshot, machine_memory, param_units, sharing_traces
from stodyn.statistics import comparison
from stodyn.statistics.comparison import Comparison
from stodyn.statistics.contract import Move, Snapshot, Statistic
from stodyn.statistics.moments import Averaged, Moments, Valued
from stodyn.statistics.stopping import Alive
from stodyn.telling import overheard, tell

T = TypeVar("T")


@front_door
def sweep(
    problem: Any,
    method: Catalogued | str | None = None,
    *,
    over: Mapping[Any, Any],
    t: Reals,
    dt: ArrayLike | Callable[..., Any],
    paths: Count | None = None,
    seed: Integer | None = None,
    collect: Statistic | Sequence[Statistic] | None = None,
    common: bool = True,
    differences: bool = True,
    on_failure: str = "raise",
    dtype: str = "float64",
    device: Any = "cpu",
    executor: str = "auto",
    block: Count | None = None,
    threads: Integer | None = None,
    place: Place | None = None,
    ledger: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    stop: Stop | None = None,
) -> xr.Dataset:
    """Run a problem at every point of a grid of parameters and return one Dataset with a dimension for each of them.

    Expansions in random parameters have no paths here either. A block of a ledger holds all points.

    Parameters
    ----------
    problem : problem, model or function
        A problem, whose `params` are changed; or a model or a function of the swept names that returns a problem.
    over : mapping
        {"rate": [1, 2, 4], "sigma": [0.1, 0.2]} takes every pair of values. A name inside params is written with dots
        ("spring.k"), and params that are one number as "params". {("rate", "sigma"): [(1, 0.1), (2, 0.2)]} goes through
        a list of points along one dimension, rate_sigma.
    common : bool
        Whether all points have the same Brownian paths, starts and random parameters (common random numbers), which
        makes differences between points far more exact than the points themselves. Otherwise each has its own.
    differences : bool
        Whether to store the numbers that stodyn.difference needs: for Moments and Observables the covariance, from
        point to point, of the errors of mean and variance, for a Passage those of survival and restricted mean, with
        stop= that of the number of paths alive, as NAME_error_covariance_DIMENSION. It is taken over pairs
        of single paths, not over batches. Along a dimension of up to 256 points all pairs are stored, which costs 3 P
        operations per path, time, component and point; along longer ones each point and the one before it. One block
        needs memory for its values at all times and points.
    method, t, dt, paths, seed, collect, on_failure, dtype, device, executor, block, threads
        As in `simulate`.
    place, ledger, progress, stop
        As in `simulate`.

    Returns
    -------
    xarray.Dataset
        The result of simulate with the swept dimensions in front. With on_failure="record", `failures` counts the
        failed paths of each point.

    Raises
    ------
    ValueError
        If a swept name is unknown, values have the wrong form, or an argument of `simulate` is impossible.
    """
    began = time.perf_counter()
    axes, problems = points(problem, over)
    method = chosen_method(problems[0], method)
    if isinstance(method, Expansion):
        refuse_blocks(method, place=place, ledger=ledger)
        return _expansions(axes, problems, method, began, t=t, dt=dt, paths=paths, seed=seed, collect=collect)
    check_needed(sweep, paths=paths, seed=seed)
    check_options(paths, seed, on_failure)
    assert paths is not None and seed is not None
    where = where_of(threads=threads, place=place, device=device, executor=executor, block=block, ledger=ledger,
                     progress=progress)  # fmt: skip
    statistics = statistics_of(collect)
    watched = [s for s in (*statistics, *[Alive()] * (stop is not None)) if isinstance(s, Averaged) and _is_compared(s)]
    watched = watched if differences and common else []
    seeds = [int(seed)] * len(problems)
    if not common:
        seeds = [int(np.random.SeedSequence([int(seed), k]).generate_state(1)[0]) for k in range(len(problems))]
    kinds = [WrittenValues if isinstance(s, Alive) or type(s) is Moments else Values for s in watched]
    collected = [*statistics, *(kind(s, every=s.every, at=s.at) for kind, s in zip(kinds, watched, strict=True))]
    corners = {int(np.ravel_multi_index(ends, [len(axis.points) for axis in axes]))
               for ends in itertools.product(*({0, len(axis.points) - 1} for axis in axes))}  # fmt: skip
    count = int(paths)

    def prepared(k: int) -> Run:
        spec = _with_values_last(describe(problems[k], method, t, dt, collected, dtype, stop))
        check_paths(spec, count)
        run = run_of(spec, count, seeds[k], where)
        if k == 0:  # before the other points are described, which may take minutes
            check_memory(run, len(watched), len(problems))
        return examined(run, problems[k], method, judges_laws=k in corners)

    with sharing_traces():
        runs = list(told_by_point(axes, prepared, range(len(problems))))
    job = Sweep(runs, tuple(len(axis.points) for axis in axes), len(watched), _spelled(axes))
    job.check()
    with jax.enable_x64(True):
        kept_in = None if where.ledger is None else Ledger(where.ledger, job)
        total = sum(map(job.path_steps, range(job.blocks)))
        with Progress(total, where.progress, "sweeping", where.place.link) as bar:
            tallies, compared = job.run(where.place, bar.advance, on_failure, kept_in)
    record = {
        **runs[0].spec.record,
        **runs[0].record(),
        "seed": int(seed),
        "sweep": _spelled(axes),
        "common_random_numbers": bool(common),
        **where.record,
        **({} if kept_in is None else {"blocks_read": kept_in.read_blocks}),
        **_versions_and_seconds(began),
    }
    result = _dataset(axes, tallies, watched, compared, on_failure == "record", record)
    if kept_in is not None:
        kept_in.finish(result)
    return result


def _is_compared(statistic: Averaged) -> bool:
    """Whether a statistic has variables whose errors at two points can be compared."""
    nothing = np.zeros((1, 1))
    return bool(statistic.error_covariances(nothing, nothing, nothing[0]))


def _expansions(
    axes: Sequence[_Axis], problems: Sequence[Any], method: Expansion, began: float, **options: Any
) -> xr.Dataset:
    """The expansions in random parameters at all points, which have no paths to be compared."""
    runs = list(told_by_point(axes, lambda point: simulate(point, method, **options), problems))
    variables, coords = _stacked(axes, runs[0], runs)
    first = results.provenance(runs[0])
    record = {**first, "sweep": _spelled(axes), "common_random_numbers": False, **_versions_and_seconds(began)}
    return results.answering(xr.Dataset(variables, coords, results.attributes(record)))


def _versions_and_seconds(began: float) -> dict[str, Any]:
    """The versions that made a sweep, and the seconds it took."""
    return {"versions": identity.versions(), "seconds": round(time.perf_counter() - began, 3)}


def _with_values_last(spec: Spec) -> Spec:
    """The spec with the Values, which serve the comparison alone, behind all other statistics."""
    order = sorted(range(len(spec.statistics)), key=lambda k: isinstance(spec.statistics[k], Values))
    return dataclasses.replace(
        spec, statistics=tuple(spec.statistics[k] for k in order), saves=tuple(spec.saves[k] for k in order)
    )


@checks_arguments
def difference(run: xr.Dataset, along: str, reference: Any = None) -> xr.Dataset:
    """Compute differences between the points of a sweep along one of its dimensions, with their standard errors.

    On common random numbers the error of a difference is √(C_pp + C_qq - 2 C_pq), C being the covariance of the errors,
    which the sweep has stored; on separate random numbers it is √(C_pp + C_qq).

    Parameters
    ----------
    run : xarray.Dataset
        The result of `sweep`.
    along : str
        A swept dimension.
    reference : optional
        A value of that dimension: each other point minus this one. By default each point minus the one before it; the
        coordinate is then that of the later point, and ALONG_before that of the earlier one.

    Returns
    -------
    xarray.Dataset
        mean and variance, NAME and NAME_variance of every Observable, NAME_survival and NAME_restricted_mean of every
        Passage, and alive, the number of paths, of a sweep with stop=, each with its _stderr.

    Raises
    ------
    ValueError
        If `run` is not a sweep or has not stored these covariances, or `along` or `reference` is unknown.
    """
    record = results.provenance(run)
    if "sweep" not in record:
        raise ValueError("run: not a sweep; make one with stodyn.sweep(problem, over={...}, ...)")
    if along not in run.dims or along not in record["sweep"]["dimensions"]:
        raise ValueError(f"along: expected one of {', '.join(record['sweep']['dimensions'])}, got {along!r}")
    size = run.sizes[along]
    if reference is None:
        later, earlier = np.arange(1, size), np.arange(size - 1)
    else:
        places = np.flatnonzero(run[along].values == reference)
        if not places.size:
            raise ValueError(f"reference: {along} has no {reference!r}; it has {run[along].values.tolist()}")
        later = np.delete(np.arange(size), places[0])
        earlier = np.full(len(later), places[0])
    if not len(later):
        raise ValueError(f"along: {along} has a single point; there is nothing to compare it with")
    variables: dict[str, Any] = {}
    for name in map(str, run.data_vars):
        stderr, joint = f"{name}_stderr", f"{name}_error_covariance_{along}"
        if along not in run[name].dims or (stderr not in run and joint not in run):
            continue
        values = run[name].transpose(..., along)
        if record["common_random_numbers"]:
            if joint not in run:
                continue
            own, shared = _errors_of_pairs(run[joint], values.dims, later, earlier, reference)
            squared = own[..., later] + own[..., earlier] - 2 * shared
        else:
            own = run[stderr].transpose(..., along).values ** 2
            squared = own[..., later] + own[..., earlier]
        moved = values.values[..., later] - values.values[..., earlier]
        for label, array in ((name, moved), (stderr, np.sqrt(np.maximum(squared, 0.0)))):
            variables[label] = xr.DataArray(array, dims=values.dims).transpose(*run[name].dims)
    if not variables:
        raise ValueError(
            "run: nothing to compare: the errors of differences on common random numbers are kept for Moments, "
            "Observables, Passages and stops, by sweep(..., differences=True)"
        )
    coords: dict[str, Any] = {str(d): run[d] for d in run.dims if d in run.coords and d != along}
    coords = {d: c for d, c in coords.items() if any(d in v.dims for v in variables.values())}
    at = run[along].values
    coords |= {along: (along, at[later]), f"{along}_before": (along, at[earlier])}
    return xr.Dataset(variables, coords, {"provenance": run.attrs["provenance"]})


def _errors_of_pairs(
    joint: xr.DataArray, dims: Sequence[Any], later: np.ndarray, earlier: np.ndarray, reference: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The covariances of the errors of each point with itself, and of these pairs of points."""
    covariance = joint.transpose(*dims, ...).values
    if "itself_or_before" not in joint.dims:
        return np.diagonal(covariance, axis1=-2, axis2=-1), covariance[..., later, earlier]
    if reference is not None:
        raise ValueError(
            f"reference: along more than {comparison.ALL_PAIRS} points a sweep keeps the errors of each point and the "
            "one before it alone. Leave reference out, or sweep fewer points at a time"
        )
    return covariance[..., 0], covariance[..., later, 1]


# --- the points -------------------------------------------------------------------------------------------------------


class _Axis(NamedTuple):
    """A dimension of the grid: its name, and at each of its points the swept names with their values."""

    name: str
    points: list[list[tuple[str, Any]]]
    units: Mapping[str, str] = {}

    def coords(self) -> dict[str, tuple[str, np.ndarray, dict[str, str]]]:
        named = {key: [dict(point)[key] for point in self.points] for key in dict(self.points[0])}
        units = {key: {"units": self.units[key]} if key in self.units else {} for key in named}
        coords = {key: (self.name, _coordinate(values), units[key]) for key, values in named.items()}
        return coords if self.name in coords else {self.name: (self.name, np.arange(len(self.points)), {}), **coords}


def _coordinate(values: Sequence[Any]) -> np.ndarray:
    """Numbers and words as they are, any other value by its place in the list."""
    plain = all(isinstance(value, (bool, int, float, str, np.generic)) for value in values)
    return np.array(values) if plain else np.arange(len(values))


def _axes(over: Any) -> list[_Axis]:
    if not isinstance(over, Mapping) or not over:
        raise ValueError(f'over: expected names and their values, such as {{"rate": [1.0, 2.0]}}, got {over!r}')
    axes = []
    for key, values in over.items():
        names = key if isinstance(key, tuple) else (key,)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"over: expected a name, or a tuple of names, got {key!r}")
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__") or len(values) == 0:
            raise ValueError(f"over: {key!r} needs a list of values, got {values!r}")
        listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
        rows = listed if isinstance(key, tuple) else [(value,) for value in listed]
        for row in rows:
            if not hasattr(row, "__len__") or len(row) != len(names):
                raise ValueError(f"over: {key!r} needs a value for each name at every point, got {row!r}")
        axes.append(_Axis("_".join(names), [list(zip(names, row, strict=True)) for row in rows]))
    swept = [name for axis in axes for name, _ in axis.points[0]]
    twice = [name for name in swept if swept.count(name) > 1]
    if twice:
        raise ValueError(f"over: {twice[0]!r} is swept twice")
    return axes


def _spelled(axes: Sequence[_Axis]) -> dict[str, Any]:
    """The grid in plain words, for records."""
    values = {axis.name: [{name: _plainly(value) for name, value in point} for point in axis.points] for axis in axes}
    return {"dimensions": [axis.name for axis in axes], "points": values}


def _words(spelled: Mapping[str, Any], grid: tuple[int, ...], point: int) -> str:
    """A point in words: 'rate = 2, sigma = 0.1'."""
    names = zip(spelled["dimensions"], np.unravel_index(point, grid), strict=True)
    values = [spelled["points"][name][int(k)] for name, k in names]
    return ", ".join(f"{name} = {value}" for entry in values for name, value in entry.items())


def told_by_point(axes: Sequence[_Axis], make: Callable[[Any], T], each: Iterable[Any]) -> Iterator[T]:
    """Yield what `make` makes of each point of the grid, and then tell the warnings of all, which name their points."""
    spelled, grid, messages = _spelled(axes), tuple(len(axis.points) for axis in axes), []
    for k, one in enumerate(each):
        with overheard() as own:
            result = make(one)
        messages += [(_words(spelled, grid, k), warning) for warning in own]
        yield result
    warn_of_points(messages)


def warn_of_points(messages: Sequence[tuple[str, warnings.WarningMessage]]) -> None:
    """Give each kind of warning once, that of the first point that has it, and say how many others have it too.

    Warnings of one class are of two kinds where they are about different things, named before their first colon.
    """
    by_kind: dict[tuple[type, str], dict[str, str]] = {}
    for point, warning in messages:
        words = str(warning.message)
        by_kind.setdefault((warning.category, words.partition(":")[0]), {}).setdefault(point, words)
    for (kind, _), by_point in by_kind.items():
        point, message = next(iter(by_point.items()))
        more = len(by_point) - 1
        others = f" (and at {more} other point{'s' * (more > 1)})" if more else ""
        tell(f"at {point}{others}: {message}", kind)


def _plainly(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    try:
        return identity.in_brief(np.asarray(value, float))
    except (TypeError, ValueError):
        return describing.short(value)


def points(problem: Any, over: Mapping[Any, Sequence[Any]]) -> tuple[list[_Axis], list[Any]]:
    """The dimensions of a grid, and the problem at each of its points."""
    axes = _axes(over)
    grid = itertools.product(*(axis.points for axis in axes))
    with sharing_traces():
        if isinstance(problem, Problem):
            now = as_it_is_now(problem)
            checked_functions(now)  # once, since its points share the traces
            problems = [as_snapshot(_at(now, dict(itertools.chain(*point))), now) for point in grid]
        else:
            problems = [as_it_is_now(_at(problem, dict(itertools.chain(*point)))) for point in grid]
    return [axis._replace(units=param_units(problems[0])) for axis in axes], problems


def _at(problem: Any, values: Mapping[str, Any]) -> Any:
    """The problem at a point."""
    if isinstance(problem, Model):
        return problem(**values).problem
    if isinstance(problem, Problem):
        return problem.changed(params=_changed(problem.params, values))
    if callable(problem):
        _expect_arguments(problem, values)
        result = problem(**values)
        if not isinstance(result, Problem):
            raise TypeError(f"problem: expected a function that returns a problem such as stodyn.SDE, got {result!r}")
        return result
    raise TypeError(f"problem: expected a problem, a model, or a function that returns a problem, got {problem!r}")


def _expect_arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Refuse names that a function of the swept values does not take, and values that it needs and are not swept."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        return
    try:
        signature.bind(**values)
    except TypeError as error:
        raise TypeError(
            f"over: the function that makes the problem is called with {', '.join(f'{name}=...' for name in values)}, "
            f"but it is function{signature} ({error}). Give its arguments the names in over."
        ) from None


def _changed(params: Any, values: Mapping[str, Any]) -> Any:
    """Params with other values in some places."""
    places, tree = jax.tree_util.tree_flatten_with_path(params)
    names = [jax.tree_util.keystr(place, simple=True, separator=".") or "params" for place, _ in places]
    unknown = [name for name in values if name not in names]
    if unknown:
        have = f"they are {', '.join(names)}" if names else "it has none"
        raise ValueError(
            f"over: {unknown[0]!r} is not among the problem's params; {have}{suggestion(unknown[0], names)}"
        )
    leaves = [values.get(name, leaf) for name, (_, leaf) in zip(names, places, strict=True)]
    for name, leaf, (_, before) in zip(names, leaves, places, strict=True):
        if name in values and not differs((leaf, before)) and np.shape(leaf) != np.shape(before):
            raise ValueError(
                f"over: {name} has shape {np.shape(before)} in params, but a swept value has shape {np.shape(leaf)}"
            )
    return jax.tree.unflatten(tree, leaves)


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Values(Statistic):
    """The numbers that another statistic averages, path by path, for the comparison of one block."""

    of: Any = dataclasses.field(kw_only=False, repr=False)

    def prepared(self, problem: Any, times: np.ndarray) -> Values:
        return dataclasses.replace(self, of=self.of.prepared(problem, times))

    def stepped_by(self, method: Any, times: np.ndarray) -> Values:
        return dataclasses.replace(self, of=self.of.stepped_by(method, times))

    @property
    def counts_failed(self) -> bool:  # type: ignore[override]
        return self.of.counts_failed

    def track_start(self, t: Array, x: Array, params: Any) -> Any:
        return self.of.track_start(t, x, params)

    def track(self, gathered: Any, move: Move) -> Any:
        return self.of.track(gathered, move)

    def observe(self, snapshot: Snapshot) -> tuple[Any, Array]:
        return self.of.values(snapshot), snapshot.sound

    def merge(self, a: Any, b: Any) -> Any:
        raise AssertionError("values belong to one block")

    label = merge  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenValues(Values, Valued):
    """The values of stops, which are known only where they are printed with the step, and the components, which every
    program writes down."""

    observe = Valued.observe

    def values(self, snapshot: Snapshot) -> Any:
        return self.of.values(snapshot)


def check_memory(first: Run, watched: int, points: int) -> None:
    """Refuse values that do not fit into memory: those of `watched` statistics, the last ones of the first point's run,
    whose other points have as many."""
    saves = first.spec.saves[len(first.spec.saves) - watched :]
    needed = sum(8 * 4 * len(g) * first.spec.problem.n * first.paths_in(0) for g in saves) * points
    there = machine_memory()
    if needed > MEMORY_SHARE * there:
        raise MemoryError(
            f"differences: the values of one block at all points take {needed / 1e9:.1f} GB, but this machine has "
            f"{there / 1e9:.1f} GB. Keep fewer times with every= or at=, give a smaller block=, or pass "
            "differences=False."
        )


@dataclasses.dataclass
class Sweep(Job):
    """A block of a sweep is the same block of every point, and the comparison of its paths from point to point.

    watched  how many of the last statistics are Values
    """

    runs: list[Run]
    grid: tuple[int, ...]
    watched: int
    spelled: dict[str, Any]

    @property
    def paths(self) -> int:  # type: ignore[override]
        return self.runs[0].paths

    @property
    def blocks(self) -> int:
        return self.runs[0].blocks

    def check(self) -> None:
        """Refuse points that cannot stand in one result."""
        first = self.runs[0]
        words = {"layout.width": "block", "spec.problem.n": "components", "spec.problem.components": "names"}
        for run in self.runs[1:]:
            for name, what in words.items():
                ours, theirs = (functools.reduce(getattr, name.split("."), one) for one in (first, run))
                if ours != theirs:
                    raise ValueError(f"problem: {what} must be the same at every point, got {ours} and {theirs}")

    def paths_in(self, block: int) -> int:
        return self.runs[0].paths_in(block)

    def path_steps(self, block: int) -> int:
        return sum(run.path_steps(block) for run in self.runs)

    def compute(self, block: int, tell: Tell) -> tuple[list[Any], list[Comparison]]:
        parts, observed = [], []
        for run in self.runs:
            part = run.compute(block, tell)
            if self.blocks == 1:  # no later one has use for it
                run.let_go()
            folded, plain = part.folded, len(part.folded) - self.watched
            parts.append(part._replace(folded=folded[:plain]))
            count = self.paths_in(block)
            observed.append([(x[..., :count], sound[..., :count]) for x, sound in folded[plain:]])
        by_statistic = [zip(*entries, strict=True) for entries in zip(*observed, strict=True)]
        return parts, [comparison.compared(x, sound, self.grid) for x, sound in by_statistic]

    def run(
        self, place: Place, tell: Tell, on_failure: str, ledger: Ledger | None
    ) -> tuple[list[Tally], list[Comparison]]:
        """The tally of every point, and the comparison of each watched statistic."""
        tallies = [Tally(self._reported(run), on_failure) for run in self.runs]
        compared: list[Comparison] = []
        closing = contextlib.closing(place.parts(self, ledger, tell))  # type: ignore[type-var]
        with ledger or contextlib.nullcontext(), closing as parts:
            for block, part in enumerate(parts):
                with contextlib.nullcontext() if ledger is None else ledger.fitting(block):
                    compared = self._with_block(block, part, tallies, compared)
        return tallies, compared

    def _with_block(self, block: int, part: Any, tallies: list[Tally], compared: list[Comparison]) -> list[Comparison]:
        """Give the part of a block to every tally; returns the comparisons with it."""
        points, block_sums = part
        for k, (tally, one) in enumerate(zip(tallies, points, strict=True)):
            try:
                tally.take(block, one)
            except PathsFailed as error:
                raise PathsFailed(f"at {self.words(k)}: {error}", error.paths, error.times) from None
        if not block:
            return block_sums
        return [comparison.merged(a, b) for a, b in zip(compared, block_sums, strict=True)]

    def _reported(self, run: Run) -> Run:
        """The run without the statistics that serve the comparison alone."""
        spec = run.spec
        shown = len(spec.statistics) - self.watched
        return dataclasses.replace(
            run, spec=dataclasses.replace(spec, statistics=spec.statistics[:shown], saves=spec.saves[:shown])
        )

    def words(self, point: int) -> str:
        """A point in words: 'rate = 2, sigma = 0.1'."""
        return _words(self.spelled, self.grid, point)

    def describe(self) -> dict[str, Any]:
        first, *others = (run.describe() for run in self.runs)
        changed = [{name: value for name, value in other.items() if value != first[name]} for other in others]
        return {**first, "sweep": self.spelled, "points": identity.digest(repr(changed)), "watched": self.watched}

    def members_digest(self, block: int) -> str:
        return identity.digest(*(run.members_digest(block) for run in self.runs))

    def owners(self) -> Iterable[type]:
        return (*self.runs[0].owners(), Comparison)


# --- the result -------------------------------------------------------------------------------------------------------


def _dataset(
    axes: Sequence[_Axis],
    tallies: Sequence[Tally],
    watched: Sequence[Any],
    compared: Sequence[Any],
    recorded: bool,
    record: dict[str, Any],
) -> xr.Dataset:

    def labelled(k: int) -> Any:
        named = tallies[k].labelled()
        return results.variables(named) if k else results.dataset(named, {}, {})

    first, *later = told_by_point(axes, labelled, range(len(tallies)))
    variables, coords = _stacked(axes, first, [first, *later])
    dims, grid = tuple(axis.name for axis in axes), tuple(len(axis.points) for axis in axes)
    if recorded:
        counts = np.array([len(tally.log.all()[0]) for tally in tallies])
        variables["failures"] = (dims, counts.reshape(grid))
    for statistic, sums in zip(watched, compared, strict=True):
        for k, dim in enumerate(dims):
            others = tuple(d for d in dims if d != dim)
            covariances = statistic.error_covariances(*comparison.error_covariances(sums, k), sums.paths)
            for name, joint_errors in covariances.items():
                time, *entries = first[name].dims
                covariance = joint_errors if entries else joint_errors[:, 0]
                whole = covariance.shape[-2] <= comparison.ALL_PAIRS
                joint = (time, *entries, *others, dim, f"{dim}_other" if whole else "itself_or_before")
                variables[f"{name}_error_covariance_{dim}"] = (joint, covariance)
    return results.answering(xr.Dataset(variables, coords, results.attributes(record)))


def _stacked(
    axes: Sequence[_Axis], first: xr.Dataset, points: Sequence[Mapping[Any, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables of all points with the swept dimensions in front, and the coordinates."""
    dims, grid = tuple(axis.name for axis in axes), tuple(len(axis.points) for axis in axes)
    coords = {str(name): c.variable for name, c in first.coords.items()}
    for axis in axes:
        for name, coordinate in axis.coords().items():
            if name in first.variables or name in first.dims:
                raise ValueError(f"over: {name!r} is already a name in the result; sweep a parameter with another name")
            coords[name] = coordinate
    variables: dict[str, Any] = {}
    for name in map(str, first.data_vars):
        shapes = {np.shape(point[name].values) for point in points}
        if len(shapes) > 1:
            raise ValueError(f"collect: {name!r} must have the same shape at every point, got {sorted(shapes)}")
        values = np.stack([point[name].values for point in points])
        variables[name] = ((*dims, *first[name].dims), values.reshape(*grid, *values.shape[1:]), first[name].attrs)
    return variables, coords
