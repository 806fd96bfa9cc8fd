"""The front door: match problem and method, run the blocks, merge and label what was collected."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from importlib import metadata
from typing import Any

import jax
import numpy as np
import xarray as xr

from stodyn import results
from stodyn.engine import grid
from stodyn.engine.ensemble import BlockHalved, Ensemble, SinglePrecisionConstant, is_out_of_memory
from stodyn.engine.expansion import expanded
from stodyn.engine.kernel import GROUP
from stodyn.engine.ledger import Ledger
from stodyn.engine.place import Place, Threads, find_devices, on_processor
from stodyn.engine.progress import Progress
from stodyn.engine.sameness import Kept, judged, together
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Catalogued, Expansion, Method
from stodyn.methods.measured import measuring
from stodyn.methods.recommend import advice, best_fitting, recommend
from stodyn.noise import counter
from stodyn.noise.iterated import check_resolution
from stodyn.problems import lowering
from stodyn.problems.contract import Problem, check_problem
from stodyn.problems.measured import Measured
from stodyn.statistics.contract import Statistic
from stodyn.statistics.moments import Moments

BELIEVABLE = 1e100

_problems, _matches, _ensembles = Kept(), Kept(), Kept()


class Unbelievable(UserWarning):
    """A mean that is not finite, or so large that the steps must have been unstable."""


@functools.cache
def stodyn_version() -> str:
    return metadata.version("stodyn")


@on_processor
def simulate(
    problem,
    method: Catalogued | str | None = None,
    *,
    t: Sequence[float],
    dt: float | Sequence[float],
    paths: int | None = None,
    seed: int | None = None,
    collect: Statistic | Sequence[Statistic] | None = None,
    on_failure: str = "raise",
    dtype: str = "float64",
    device: Any = "cpu",
    executor: str = "auto",
    block: int | None = None,
    threads: int | None = None,
    place: Place | None = None,
    ledger: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Run `paths` paths of a problem and return their statistics, each with its standard error.

    problem     problems.SDE
    method      a method, its name, or None for the recommended one: the result's provenance says which, and under
                "advice" what has a higher order
    t, dt       the interval (start, end) and the step that divides it, the lengths of all steps, or stodyn.plan(...)
    paths       how many; expansions in random parameters (Quadrature, Sampling, Collocation, Galerkin) have none
    seed        a whole number; the same seed gives the same Brownian paths to every method (of as many paths, in blocks
                of the same width), and the same result on any number of threads; of the expansions only Sampling needs
                one
    collect     statistics (stodyn.statistics): Moments, Histogram, Paths, Observable, ...; default Moments(). Each
                looks every= so many steps or at= times; one that says neither looks where the first that does looks,
                or, where none does, at about 100 times
    on_failure  "raise": stop with PathsFailed; "record": go on without the failed paths and return failed_path,
                failure_time, failure_cause along the dimension `failure`; `sound` counts the paths that are left
    device      "cpu", "gpu" (all of the machine's), "auto" (a GPU where there is one) or a list from jax.devices(). A
                GPU draws other normals, a function of seed, path and step: other paths of the same law
    executor    "auto", "kernel" (one kernel from save to save; on a processor interpreted, to look into a GPU's run),
                "lanes" or "vmap"; block: lanes in a block; threads: workers, default one a core
    place       where the blocks run: stodyn.place.threads(n), processes(n) or dask(client); the same bits anywhere
    ledger      a folder that keeps every finished block: the same call goes on where an earlier one was ended, and with
                more paths it adds blocks to those that are there; stodyn.load(ledger) gives the result again
    progress    show a bar: None means on a terminal

    Returns an xarray.Dataset; stodyn.provenance(run) tells how it was made.
    """
    began = time.perf_counter()
    problem, seen = as_it_is_now(problem)
    chosen_by_user, method = method is not None, chosen_method(problem, method)
    where = chosen_place(place, threads)
    if isinstance(method, Expansion):
        for name, given in (("place", place), ("ledger", ledger)):
            if given is not None:
                raise ValueError(f"{name}: {method.name} makes no paths, so there are no blocks; leave it out")
        return _expand(problem, method, grid.step_times(t, dt)[0], paths, seed, collect, began)
    check_options(paths, seed, on_failure, dtype)
    devices, found = find_devices(device)
    if devices and not isinstance(where, Threads):
        raise ValueError("place: workers elsewhere run on their processors; leave device out, or place")
    if devices and place is None and threads is None:
        where = Threads(2 * len(devices))  # one to feed a device while another waits for it
    ensemble, said, keep = set_up(
        problem, seen, method, t, dt, paths, seed, collect, dtype, executor, block, devices, grows=ledger is not None
    )
    rounded = ensemble.rounded_numbers
    if rounded:
        warnings.warn(
            f"this float64 run uses numbers that are float32: {'; '.join(rounded[:4])}. They were made by jax.numpy "
            "outside a 64-bit context; make them with numpy, or inside the function.",
            SinglePrecisionConstant,
            stacklevel=3,
        )
    tally, kept = _run(ensemble, where, ledger, progress, on_failure)
    if tally.ensemble is ensemble:
        keep(ensemble)
    record = {
        **said,
        **({} if chosen_by_user else {"advice": advice(problem, method)}),
        **tally.ensemble.record(),
        **({} if found == "asked for" else {"device": f"{'GPU' if devices else 'processor'}: {found}"}),
        "place": where.words,
        **({} if kept is None else {"blocks_read": kept.read_blocks}),
        "versions": {"stodyn": stodyn_version(), "jax": jax.__version__, "numpy": np.__version__},
        "seconds": round(time.perf_counter() - began, 3),
    }
    extra = tally.log.variables() if on_failure == "record" else {}
    run = results.dataset(tally.labelled(), extra, record)
    if not tally.log.found:
        _warn_of_the_unbelievable(run, tally.ensemble)
    if kept is not None:
        kept.finish(run)
    return run


def _warn_of_the_unbelievable(run: xr.Dataset, ensemble: Ensemble) -> None:
    """Where a mean is not finite or beyond 1e100, although no path has failed."""
    for statistic in ensemble.statistics:
        name, *_ = getattr(statistic, "averages", ("",))
        if name not in run:
            continue
        mean = run[name]
        bad = ~(np.abs(mean.values) < BELIEVABLE).reshape(len(mean), -1).all(axis=1)
        if bad.any():
            first = float(mean[mean.dims[0]][int(np.argmax(bad))])
            why = "Its function gives NaN or such numbers on some paths: let it answer for every state that occurs"
            if type(statistic) is Moments:
                why = "The steps are probably unstable: take a smaller dt, or an implicit method (ThetaEuler)"
            warnings.warn(
                f"{name}: not finite or beyond 1e100 from t = {first:g} on. {why}.", Unbelievable, stacklevel=4
            )


def as_it_is_now(problem: Any) -> tuple[Any, Hashable]:
    """A copy that has found nothing out yet, or one made when everything its functions see was the same; and its token.

    A problem keeps what it finds out about its functions (the structure of its noise, for one), and they may read what
    has changed since.
    """
    check_problem(problem)
    seen = judged(problem)
    return _problems.get(seen, (problem,), lambda: _afresh(problem)), seen


def _afresh(problem: Any) -> Any:
    if not dataclasses.is_dataclass(problem):
        return problem
    fields = {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem) if field.init}
    kind: Any = type(problem)
    return kind(**{name: _afresh(v) if isinstance(v, Problem) else v for name, v in fields.items()})


def chosen_method(problem: Any, method: Catalogued | str | None) -> Catalogued:
    """The method itself, from its name, or the recommended one."""
    return recommend(problem) if method is None else named(method)


def chosen_place(place: Place | None, threads: int | None) -> Place:
    """The place of a run; `threads` is short for place.threads."""
    if place is None:
        return Threads(threads)
    if not isinstance(place, Place):
        raise TypeError(f"place: expected stodyn.place.threads(n), processes(n) or dask(client), got {place!r}")
    if threads is not None:
        raise ValueError("threads: give either threads= or place=, not both")
    return place


def set_up(
    problem, seen, method, t, dt, paths, seed, collect, dtype, executor, block, devices, grows: bool
) -> tuple[Ensemble, dict, Callable[[Ensemble], None]]:
    """The run made ready, what its record says of problem and method, and how to keep it for a call like this one.

    problem, seen  from as_it_is_now
    """
    times, lengths = grid.step_times(t, dt)
    asked = together(seen, judged(method))
    stepped, conversions = _matches.get(asked, (problem, method), lambda: matched(problem, method))
    changes = [*conversions, *problem.before_run(float(times[0]))]
    reason = method.step_refusal(float(lengths.max()))
    if reason is not None:
        raise ValueError(f"dt: {reason}")
    ready = _prepared(method, stepped, lengths)
    if isinstance(ready, Method):
        strong = max((float(c.order or 0) for c in ready.claims if c.kind == "strong" and not c.when), default=0.0)
        check_resolution(ready.needs, float(lengths.min()), strong, stepped.m)
    statistics = statistics_of(collect)
    options = (int(paths), dtype, executor, block, [str(device) for device in devices], grows)
    key = together(asked, judged((times, lengths, statistics, options)))
    held = (problem, method, *statistics)
    before = _ensembles.find(key, held)
    ensemble = before.again(int(seed)) if before is not None else Ensemble(
        stepped, measuring(ready, stepped), times, lengths, int(paths), int(seed), statistics, np.dtype(dtype),
        executor, block, devices, grows,
    )  # fmt: skip
    said = {
        "problem": type(problem).__name__,
        "method": method.spelling,
        "lowering": changes,
        "noise": str(problem.noise_structure),
    }
    return ensemble, said, lambda run: _ensembles.keep(key, run.again(run.seed), held)


def _run(ensemble: Ensemble, place: Place, folder: Any, progress: bool | None, on_failure: str):
    """What was merged, and the ledger if there is one; a device that is too small gets smaller blocks."""
    while True:
        try:
            with jax.enable_x64(True):
                ledger = None if folder is None else Ledger(folder, ensemble)
                with Progress(ensemble.paths * ensemble.steps, progress, link=place.link) as bar:
                    return ensemble.run(place, bar, on_failure, ledger), ledger
        except jax.errors.JaxRuntimeError as error:
            if not (ensemble.counted and is_out_of_memory(error) and ensemble.width > GROUP) or folder is not None:
                raise
            smaller = max(ensemble.width // 2 // GROUP, 1) * GROUP
            warnings.warn(
                f"a block of {ensemble.width} paths does not fit the device's memory: going on with {smaller} "
                f"(to begin so, give block={smaller})",
                BlockHalved,
                stacklevel=4,
            )
            ensemble = dataclasses.replace(ensemble, block=smaller)


def _expand(problem, method: Expansion, times, paths, seed, collect, began: float) -> xr.Dataset:
    """A run of a method that has no paths."""
    if paths is not None:
        raise ValueError(f"paths: {method.name} expands in the random parameters and makes no paths; leave it out")
    if seed is None and method.draws:
        raise ValueError(f"seed: {method.name} draws its points; give a whole number")
    check_options(1, 0 if seed is None else seed, "raise", "float64")
    expandable, _ = matched(problem, method)
    labelled, record = expanded(expandable, method, times, collect, 0 if seed is None else int(seed))
    record = {
        "problem": type(problem).__name__,
        "method": method.spelling,
        **record,
        "versions": {"stodyn": stodyn_version(), "numpy": np.__version__},
        "seconds": round(time.perf_counter() - began, 3),
    }
    return results.dataset(labelled, {}, record)


@on_processor
def replay(problem, method: Catalogued | str | None, run: xr.Dataset, path: int) -> xr.Dataset:
    """Path number `path` of an earlier run, at every step: its block is run again and one lane kept.

    Variable: path (time, component), the same bits that the run saw; for a run on a GPU, which is repeated by the
    processor, the same numbers but for rounding.
    """
    record = results.provenance(run)
    if "paths" not in record:
        raise ValueError(f"run: it was made by {record['method']}, which has no paths to replay")
    problem, _ = as_it_is_now(problem)
    if isinstance(path, bool) or not isinstance(path, (int, np.integer)) or not 0 <= path < record["paths"]:
        raise ValueError(f"path: expected a whole number from 0 to {record['paths'] - 1}, got {path!r}")
    method = chosen_method(problem, method)
    if method.spelling != record["method"]:
        raise ValueError(f"method: the run was made with {record['method']}, got {method.spelling}")
    times, lengths = grid.step_times(record["t"], record["dt"])
    stepped, _ = matched(problem, method)
    ready = _prepared(method, stepped, lengths)
    counted = record.get("normals") == counter.NAME
    if not counted and record.get("normals", "").startswith("Philox"):
        raise ValueError(
            f"run: its normals ({record['normals']}) are of another version of stodyn; replay it with that"
        )
    block, executor = (GROUP, "kernel") if counted else (record["block"], record.get("executor", "auto"))
    ensemble = Ensemble(stepped, measuring(ready, stepped), times, lengths, record["paths"], record["seed"],
                        (_Lane(every=1, lane=path % block),), np.dtype(record["dtype"]), executor, block)  # fmt: skip
    if "fingerprint" in record and ensemble.traced.fingerprint != record["fingerprint"]:
        raise ValueError("problem: not the one the run was made with (its equations or constants differ)")
    if not counted and ensemble.given != record["given"]:
        raise ValueError("problem: not the one the run was made with (its start or params differ)")
    with jax.enable_x64(True):
        values = ensemble.observe_block(path // block)[0]
    coords = {"time": times, "component": list(stepped.names)}
    attrs = {"path": int(path), "provenance": run.attrs["provenance"]}
    return xr.Dataset({"path": (("time", "component"), values)}, coords, attrs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Lane(Statistic):
    """One lane of one block, for replay."""

    lane: int

    def observe(self, snapshot):
        return snapshot.x[:, self.lane]

    def merge(self, a, b):
        raise AssertionError("a lane belongs to one block")

    label = merge


def matched(problem: Any, method: Any) -> tuple[Any, list[str]]:
    """The problem as the method takes it, and the exact conversions made for it; refuses what does not fit."""
    check_problem(problem)
    if not isinstance(method, Catalogued):
        raise TypeError(f"method: expected a method such as stodyn.methods.explicit.Heun, got {method!r}")
    if isinstance(problem, Measured):
        inner, changes = matched(problem.problem, method)
        return dataclasses.replace(problem, problem=inner), changes
    accepts: Any = method.accepts
    asked, changes = problem, []
    if not isinstance(problem, accepts):
        lowered = problem.lower(accepts)
        if lowered is None:
            kind = type(problem).__name__
            raise TypeError(
                f"method: {method.name} takes {accepts.__name__} problems, and this is a {kind}. {best_fitting(asked)}"
            )
        problem, said = lowered
        changes.append(said)
    reason = method.refusal(problem)
    if reason is not None:
        raise ValueError(f"method: {reason}. {best_fitting(asked, method.name)}")
    if method.calculus not in (None, problem.calculus):
        if problem.noise_structure.implies("additive"):
            changes.append(f"{problem.calculus} = {method.calculus} for additive noise")
        else:
            changes.append(f"{problem.calculus} -> {method.calculus} (drift corrected by half of sum (dg_k/dx) g_k)")
        problem = lowering.to_ito(problem) if method.calculus == "ito" else lowering.to_stratonovich(problem)
    return problem, changes


def _prepared(method: Catalogued, stepped: Any, lengths: np.ndarray) -> Catalogued:
    """The method made ready for the problem that it steps."""
    return method.prepared(stepped.problem if isinstance(stepped, Measured) else stepped, float(lengths.max()))


def check_options(paths, seed, on_failure, dtype) -> None:
    if isinstance(paths, bool) or not isinstance(paths, (int, np.integer)) or paths < 1:
        raise ValueError(f"paths: expected a whole number >= 1, got {paths!r}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed: expected a whole number >= 0, got {seed!r}")
    if on_failure not in ("raise", "record"):
        raise ValueError(f'on_failure: expected "raise" or "record", got {on_failure!r}')
    if dtype not in ("float64", "float32"):
        raise ValueError(f'dtype: expected "float64" or "float32", got {dtype!r}')


def statistics_of(collect: Statistic | Sequence[Statistic] | None) -> tuple[Statistic, ...]:
    statistics: tuple = (Moments(),)
    if collect is not None:
        statistics = tuple(collect) if isinstance(collect, (list, tuple)) else (collect,)
    for statistic in statistics:
        if not isinstance(statistic, Statistic):
            raise TypeError(f"collect: expected statistics such as statistics.Moments(every=10), got {statistic!r}")
    if not statistics:
        raise ValueError("collect: nothing to collect; leave it out for Moments()")
    return statistics
