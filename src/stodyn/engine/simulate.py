"""The front door: the arguments are checked, and the blocks of the run computed, merged and labelled."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn import results
from stodyn.engine import grid, kept_faults, self_test
from stodyn.engine.door import call_form, front_door
from stodyn.engine.expansion import expanded
from stodyn.engine.failure import PathsFailed
from stodyn.engine.follow import States
from stodyn.engine.layout import Layout
from stodyn.engine.looking import one_path, unfit_start, where_it_failed
from stodyn.engine.places.contract import Place
from stodyn.engine.precision import warn_of_rounded
from stodyn.engine.program import cards, executors
from stodyn.engine.program.cards import block_width, is_out_of_memory
from stodyn.engine.program.kernel import GROUP
from stodyn.engine.progress import Progress
from stodyn.engine.record import identity
from stodyn.engine.record.ledger import Ledger
from stodyn.engine.run import Run, Tally
from stodyn.engine.spec import (
    Spec,
    as_it_is_now,
    check_block,
    check_listed,
    check_paths,
    chosen_method,
    describe,
    matched,
    statistics_of,
    values_given,
)
from stodyn.engine.stability import examined
from stodyn.engine.until import Until, Watch, of_randomisations
from stodyn.engine.where import Where, refuse_blocks, where_of
from stodyn.hints import Count, Integer, Reals, check_seed, is_whole
from stodyn.methods.contract import Catalogued, Expansion, Method
from stodyn.methods.recommend import advice, tell_of_order_one
from stodyn.methods.stopping import Stop
from stodyn.noise.sobol import RANDOMISATIONS
from stodyn.noise.supply import CountedNormals, DrawnNormals
from stodyn.numerics.printing.unprintable import fault_in, noting_faults, report_fault
from stodyn.statistics.contract import Statistic
from stodyn.statistics.moments import Moments
from stodyn.statistics.randomised import randomised
from stodyn.statistics.stopping import Stopped
from stodyn.telling import tell
from stodyn.warnings import BlockHalved, Unbelievable, Unmet

MOST_PATHS = 2**62  # numbers of paths and of their blocks fit into 64 bits
BELIEVABLE = 1e100
FINITE = "Start elsewhere, or write the function so that it is finite there, as by jnp.maximum(x, 1e-9)"
FIRST_PATHS = 2**16  # for which a run that is to go on `until` takes the width of its blocks on a GPU


@front_door
def simulate(
    problem: Any,
    method: Catalogued | str | None = None,
    *,
    t: Reals,
    dt: ArrayLike | Callable[..., Any],
    paths: Count | Until | None = None,
    seed: Integer | None = None,
    collect: Statistic | Sequence[Statistic] | None = None,
    on_failure: str = "raise",
    dtype: str = "float64",
    device: Any = "cpu",
    executor: str = "auto",
    block: Count | None = None,
    threads: Integer | None = None,
    place: Place | None = None,
    ledger: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    points: str = "random",
    stop: Stop | None = None,
) -> xr.Dataset:
    """Run `paths` paths of a problem and return their statistics, each with its standard error.

    Parameters
    ----------
    problem : problem or model
        The equations: stodyn.SDE, SDAE, Mechanical, Hamiltonian, ...
    method : method or str, optional
        A method or its name. Left out, the recommended one is taken: the provenance of the result says which, and under
        "advice" which methods have a higher order.
    t : (start, end)
        The interval of time.
    dt : number, sequence or function
        The step, which divides the interval; the lengths of all steps; or a function of the interval (start, end) that
        gives them, such as stodyn.plan(...).
    paths : int or stodyn.until(...)
        How many; or, with stodyn.until(error=...), as many as the tolerance of the collected numbers takes. Expansions
        in random parameters (Quadrature, Sampling, Collocation, Galerkin) have no paths.
    seed : int
        Path k has the same noise, start and parameters whatever the method and the number of paths, and the result is
        the same on any number of threads. Of the expansions only Sampling needs a seed.
    collect : statistic or sequence of them, optional
        From stodyn.statistics: Moments (the default), Histogram, Paths, Observable, ... Each is observed after every
        `every` steps, or `at` listed times. One with neither is observed when the first one that has either is or, if
        none has, at about 100 times.
    on_failure : "raise" or "record"
        "raise" stops with PathsFailed. "record" continues without the failed paths and returns failed_path,
        failure_time and failure_cause along the dimension `failure`; `paths_used` counts the paths that are left.
    dtype : "float64" or "float32"
        The precision of the steps.
    device : "cpu", "gpu", "auto" or sequence of jax devices
        "gpu" takes all GPUs of the machine, "auto" takes them if there are any. A GPU draws other normals, a function
        of seed, path and step: other paths of the same law. A list of processors draws these too, and computes the
        paths of a GPU.
    executor : "auto", "printed" or "vmap"
        "printed" is a program printed from the traces (on a GPU, its kernels), "vmap" is jax.vmap compiled by XLA.
    block : int, optional
        How many paths are computed together.
    threads : int, optional
        How many threads work; by default one per core. They share the paths of a run, in blocks of eight paths or more:
        one path is computed by one thread, however large its system is.
    place : place, optional
        Where blocks run: stodyn.place.threads(n), processes(n) or dask(client). The bits are the same anywhere.
    ledger : path, optional
        A folder that stores every finished block. The same call continues where an earlier one ended, and with more
        paths it adds blocks to those already there; stodyn.load(ledger) returns the result again.
    progress : bool, optional
        Whether to show a bar; by default on a terminal and in a notebook.
    points : "random" or "sobol"
        "sobol" takes 16 independent randomisations of a Sobol net, whose first coordinates decide most of each Brownian
        path. The errors of averages of smooth functions of the noise, such as end states, then fall faster than
        1/√paths; they come from the 16 means. `paths` must be 16 times a power of two.
    stop : stodyn.Stop, optional
        Stops each path where it first reaches a level, also between two steps; on a processor the path costs nothing
        from then on.
        The result has stop_time, stopped_by and stop_state of every path, and alive (time). Other statistics are those
        of the stopped process or, with Stop(..., stopped="alive"), of the paths that go on.

    Returns
    -------
    xarray.Dataset
        Every statistic by name, with NAME_stderr beside it; stodyn.provenance(run) says how it was made.

    Raises
    ------
    PathsFailed
        Where paths fail and on_failure is "raise".

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 0.5, start=1.0)
    >>> run = sd.simulate(decay, "EulerMaruyama", t=(0, 1), dt=0.01, paths=1000, seed=1)
    >>> abs(float(run["mean"][-1, 0]) - 0.99**100) < 5 * float(run["mean_stderr"][-1, 0])
    True
    """
    began = time.perf_counter()
    problem = as_it_is_now(problem)
    chosen = chosen_method(problem, method)
    if isinstance(chosen, Expansion):
        refuse_blocks(chosen, place=place, ledger=ledger)
        return _expand(problem, chosen, grid.step_times(t, dt)[0], paths, seed, collect, began)
    if points != "random":
        if stop is not None:
            raise ValueError(
                'stop: the points of a Sobol net are for whole paths; give points="random", or leave stop out'
            )
        collect = check_points(points, chosen, paths, device, collect)
    rule = paths if isinstance(paths, Until) else None
    first = FIRST_PATHS if rule is not None else paths
    if paths is None and method is None:
        _expect_paths_of(problem)
    check_needed(simulate, paths=paths, seed=seed)
    check_options(first, seed, on_failure)
    where = where_of(threads=threads, place=place, device=device, executor=executor, block=block, ledger=ledger,
                     progress=progress)  # fmt: skip
    with noting_faults() as faults:
        spec = described(problem, chosen, t, dt, collect, dtype, 1 if rule is not None else paths, stop)
        of_problem = [*faults]
        run = run_of(spec, int(first), int(seed), where)  # type: ignore[arg-type]
        if points != "random":
            run = dataclasses.replace(run, layout=dataclasses.replace(run.layout, points=points))
        run = examined(run, problem, chosen)
        unfit = unfit_start(problem, spec)
        kept_faults.tell_again(problem, spec.traced, faults)
    if method is None and stop is None:
        tell_of_order_one(problem, chosen)
    if unfit and on_failure == "raise":
        raise ValueError(f"start: {unfit}, so that every path would fail. {spec.undefined or FINITE}")
    carry_out = _carry_out if rule is None else functools.partial(_carry_out_until, rule, began)
    try:
        with noting_faults(faults):
            try:
                tally, open_ledger, reached = carry_out(run, where, on_failure)
            except Exception as error:
                tally, open_ledger, reached = carry_out(*without_printing(run, where, error), on_failure)
    except PathsFailed as error:
        path, at = int(error.paths[0]), float(error.times[0])
        raise error.located(path, where_it_failed(run, problem, chosen, stop, path, at), spec.undefined) from None
    kept_faults.keep(problem, spec.traced, of_problem, faults)
    if points != "random":
        reached |= of_randomisations(spec.statistics, tally.merged, run.labels())
    further = {
        **reached,
        **({"faults": faults} if faults else {}),
        **({} if method is not None else {"advice": advice(problem, chosen)}),
        **({} if open_ledger is None else {"blocks_read": open_ledger.read_blocks}),
    }
    with contextlib.nullcontext() if open_ledger is None else open_ledger.fitting(0):
        result = dataset(tally, where, further, began)
    if open_ledger is not None:
        open_ledger.finish(result)
    return result


def described(
    problem: Any, method: Catalogued, t: Any, dt: Any, collect: Any, dtype: str, paths: Any, stop: Stop | None = None
) -> Spec:
    """The checked spec of a run with that many paths; warns of numbers that were rounded before it."""
    check_listed(problem, int(paths))
    spec = describe(problem, method, t, dt, collect, dtype, stop)
    check_paths(spec, int(paths))
    if spec.dtype == np.float64:
        warn_of_rounded(problem, "this float64 run", [] if spec.traced is None else spec.traced.rounded_constants)
    return spec


def dataset(tally: Tally, where: Where, further: dict[str, Any], began: float) -> xr.Dataset:
    """The result of a run, with its record."""
    record = {
        **tally.run.spec.record,
        **tally.run.record(),
        **further,
        **({"rounded_steps": tally.rounded} if tally.rounded else {}),
        **where.record,
        "versions": identity.versions(),
        "seconds": round(time.perf_counter() - began, 3),
    }
    extra = tally.log.variables() if tally.on_failure == "record" else {}
    result = results.dataset(tally.labelled(), extra, record)
    if not tally.log.failures:
        _warn_of_the_unbelievable(result, tally.run.spec)
    _warn_of_unmet_stops(tally)
    return result


def run_of(spec: Spec, paths: int, seed: int, where: Where) -> Run:
    """A run of that many paths: its blocks, and how they are computed."""
    block, devices = where.block, where.devices
    check_block(spec, min(block or 1, paths))
    if devices and not isinstance(spec.method, Method):
        raise ValueError(f'device: {spec.method.name} is host code and has no kernel; use device="cpu"')
    if devices:
        self_test.check(tuple(device for device in devices if device.platform != "cpu"))
        scalars = spec.problem.n + sum(spec.method.needs.normals(spec.problem.m).values())
        width = int(block or block_width(paths, scalars))
        return Run(spec, Layout(spec, paths, seed, width), cards.get(spec, where.executor, devices, width))
    chosen = executors.get(spec, where.executor)
    width = block or chosen.width
    return Run(spec, Layout(spec, paths, seed, width), chosen)


def look_at_steps(problem: Any, method: Any, t: Any, dt: Any, paths: int, seed: int, **judges: bool) -> None:
    """Warn, as before a run of that many paths, of steps that are unstable, or make variances or energies wrong."""
    chosen = chosen_method(problem, method)
    spec = describe(problem, chosen, t, dt, None, "float64")
    examined(run_of(spec, paths, seed, where_of()), problem, chosen, **judges)


def _warn_of_unmet_stops(tally: Tally) -> None:
    """Warn where a level has stopped no path."""
    for statistic, merged in zip(tally.run.spec.statistics, tally.merged, strict=True):
        for words in statistic.unmet(merged) if isinstance(statistic, Stopped) else ():
            tell(
                f"stop: {words} before t = {tally.run.spec.times[-1]:g}. Run longer, lower the level, or see "
                "stodyn.rare for events that are rare.",
                Unmet,
            )


def _warn_of_the_unbelievable(result: xr.Dataset, spec: Spec) -> None:
    """Warn where a mean is not finite or beyond 1e100, although no path has failed."""
    for statistic in spec.statistics:
        name, *_ = getattr(statistic, "averages", ("",))
        if name not in result:
            continue
        mean = result[name]
        bad = ~(np.abs(mean.values) < BELIEVABLE).reshape(len(mean), -1).all(axis=1)
        if bad.any():
            first = float(mean[mean.dims[0]][int(np.argmax(bad))])
            why = "Its function gives NaN or such numbers on some paths: make it finite for every state that occurs"
            if type(statistic) is Moments:
                named = f" ({', '.join(spec.implicit)})" if spec.implicit else ""
                why = f"The steps are probably unstable: take a smaller dt, or an implicit method{named}"
            tell(f"{name}: not finite or beyond 1e100 from t = {first:g} on. {why}.", Unbelievable)


def without_printing(run: Run, where: Where, error: Exception) -> tuple[Run, Where]:
    """The run under vmap, from the beginning, where its printed program broke that was not asked for; any other error
    is raised."""
    may_change = run.executor.name == "printed" and where.executor == "auto" and where.ledger is None
    place = fault_in(error) if may_change and not where.devices else None
    if place is None:
        raise error
    reason = report_fault(f"the printed program ({place})", error, 'by executor="vmap", with the same results')
    there = dataclasses.replace(where, executor="vmap")
    compiled = run_of(run.spec, run.paths, run.layout.seed, there)
    compiled.executor.reason = reason
    return dataclasses.replace(compiled, layout=dataclasses.replace(compiled.layout, points=run.layout.points)), there


def _carry_out(run: Run, where: Where, on_failure: str) -> tuple[Tally, Ledger | None, dict[str, Any]]:
    """The merged blocks, the ledger if there is one, and nothing for the record; a device that is too small gets
    smaller blocks."""
    while True:
        try:
            with jax.enable_x64(True):
                ledger = None if where.ledger is None else Ledger(where.ledger, run)
                with Progress(run.paths * run.spec.steps, where.progress, link=where.place.link) as bar:
                    return merged(run, where.place, bar, on_failure, ledger), ledger, {}
        except RuntimeError as error:
            if where.ledger is not None:
                raise
            run = halved(run, where, error)


def halved(run: Run, where: Where, error: RuntimeError) -> Run:
    """The run in blocks of half as many paths, where a device ran out of memory; any other error is raised."""
    width = run.layout.width
    if not (where.devices and is_out_of_memory(error) and width > GROUP):
        raise error
    smaller = max(width // 2 // GROUP, 1) * GROUP
    tell(
        f"a block of {width} paths does not fit into the device's memory: continuing with {smaller} "
        f"(to start that way, give block={smaller})",
        BlockHalved,
    )
    there = dataclasses.replace(where, executor=run.executor.name, block=smaller)
    return run_of(run.spec, run.paths, run.layout.seed, there)


def merged(
    run: Run,
    place: Place,
    bar: Progress,
    on_failure: str,
    ledger: Ledger | None = None,
    tally: Tally | None = None,
    watch: Watch | None = None,
) -> Tally:
    """The blocks of a run merged in order, after those that `tally` already has; `watch` is called with each."""
    tally = Tally(run, on_failure) if tally is None else tally
    tally.run = run
    closing = contextlib.closing(place.parts(run, ledger, bar.advance))  # type: ignore[type-var]
    with ledger or contextlib.nullcontext(), closing as parts:
        for block, part in enumerate(parts, run.first_block):
            with contextlib.nullcontext() if ledger is None else ledger.fitting(block):
                tally.take(block, part)
                if watch is not None and run.paths_in(block) == run.layout.width:
                    watch.take(part.folded)
    return tally


def _carry_out_until(
    rule: Until, began: float, run: Run, where: Where, on_failure: str
) -> tuple[Tally, Ledger | None, dict[str, Any]]:
    """Run blocks until the merged numbers meet the tolerance; also returns how it ended, for the record."""
    spec, width = run.spec, run.layout.width
    rule = dataclasses.replace(rule, most=int(min(rule.most, values_given(spec))))
    watch, paths, read_blocks, ledger = Watch(rule, spec.statistics, run.labels()), rule.first_look(width), 0, None
    check_paths(spec, paths)
    run = dataclasses.replace(run, layout=dataclasses.replace(run.layout, paths=paths))
    tally = Tally(run, on_failure)
    with jax.enable_x64(True), Progress(paths * spec.steps, where.progress, link=where.place.link) as bar:
        while True:
            ledger = None if where.ledger is None else Ledger(where.ledger, run)
            merged(run, where.place, bar, on_failure, ledger, tally, watch)
            read_blocks += 0 if ledger is None else ledger.read_blocks
            verdict = watch.look(tally.merged, paths)
            following = rule.next_look(paths, width, time.perf_counter() - began)
            if verdict.share <= 1 or following == paths:
                limit = "most" if paths == rule.most else "seconds"
                ended_by = "tolerance" if verdict.share <= 1 else limit
                break
            try:
                check_paths(spec, following)
            except MemoryError as error:
                ended_by = f"memory: {error}"
                break
            wanted = paths * min(verdict.share**2, rule.most / paths)
            bar.expect(int(wanted) * spec.steps, f"half-width {verdict.half:.2g} of {verdict.where}")
            run, paths = run.grown(following), following
    if ledger is not None:
        ledger.read_blocks = read_blocks
    return tally, ledger, {"until": watch.report(verdict, ended_by)}


def _expand(
    problem: Any,
    method: Expansion,
    times: np.ndarray,
    paths: Any,
    seed: Integer | None,
    collect: Statistic | Sequence[Statistic] | None,
    began: float,
) -> xr.Dataset:
    """Run a method that has no paths."""
    expandable, _ = matched(problem, method)
    if paths is not None:
        raise ValueError(f"paths: {method.name} expands in the random parameters and makes no paths; leave it out")
    if seed is None and method.draws:
        raise ValueError(f"seed: {method.name} draws its points; give a whole number")
    check_options(1, 0 if seed is None else seed, "raise")
    warn_of_rounded(problem, "this float64 run")
    labelled, record = expanded(expandable, method, times, collect, 0 if seed is None else int(seed))
    record = {
        "problem": type(problem).__name__,
        "method": method.spelling,
        **record,
        "versions": identity.versions(),
        "seconds": round(time.perf_counter() - began, 3),
    }
    return results.dataset(labelled, {}, record)


@front_door
def replay(
    problem: Any, method: Catalogued | str | None, run: xr.Dataset, path: Integer, *, stop: Stop | None = None
) -> xr.Dataset:
    """Run one path of an earlier run again, and store it at every step.

    Parameters
    ----------
    problem, method : Problem, and Method or str
        Those that the run was made with.
    run : xarray.Dataset
        The result of simulate.
    path : int
        The number of the path. It is run with a few of its neighbours.
    stop : stodyn.Stop, optional
        The stop= of the run, if it had one.

    Returns
    -------
    xarray.Dataset
        path (time, component), with the same bits as in the run. A run on a GPU is repeated by the processor, bit for
        bit where it ran as a kernel.

    Raises
    ------
    ValueError
        If the run was made with another problem, method or stop, or has no such path.
    """
    record = results.provenance(run)
    if "paths" not in record:
        raise ValueError(f"run: it was made by {record['method']}, which has no paths to replay")
    problem = as_it_is_now(problem)
    if isinstance(path, bool) or not isinstance(path, (int, np.integer)) or not 0 <= path < record["paths"]:
        raise ValueError(f"path: expected a whole number from 0 to {record['paths'] - 1}, got {path!r}")
    method = chosen_method(problem, method)
    if method.spelling != record["method"]:
        raise ValueError(f"method: the run was made with {record['method']}, got {method.spelling}")
    if ("stop" in record) != (stop is not None):
        fault = "stopped its paths; give the same stop=" if stop is None else "did not stop its paths; leave stop out"
        raise ValueError(f"stop: the run {fault}")
    spec = describe(problem, method, record["t"], record["dt"], States(every=1), record["dtype"], stop)
    if str(record.get("normals", "")).startswith("Sobol"):
        raise ValueError(
            'run: its points are those of a Sobol net, which cannot be replayed; run it with points="random"'
        )
    counted = str(record.get("normals", "")).startswith("Philox")
    executor = record["executor"] if record["executor"] in executors.EXECUTORS else "auto"
    chosen = executors.get(spec, executor, CountedNormals if counted else DrawnNormals)
    repeated = Run(spec, Layout(spec, record["paths"], record["seed"], record["block"]), chosen)
    if record.get("normals") != repeated.executor.normals:
        raise ValueError(
            f"run: its normals ({record.get('normals')}) are from another version of stodyn; replay it with that one"
        )
    if spec.traced is not None and spec.traced.fingerprint != record["fingerprint"]:
        raise ValueError("problem: this is not the one the run was made with (its equations or constants differ)")
    if repeated.record()["given"] != record["given"]:
        raise ValueError("problem: this is not the one the run was made with (its start or params differ)")
    with jax.enable_x64(True):
        values = one_path(repeated, int(path))
    coords = {"time": spec.times, "component": list(spec.problem.components)}
    attrs = {"path": int(path), "provenance": run.attrs["provenance"]}
    return results.answering(xr.Dataset({"path": (("time", "component"), values)}, coords, attrs))


def check_points(points: Any, method: Catalogued, paths: Any, device: Any, collect: Any) -> list[Statistic]:
    """The statistics of a run with Sobol points; refuses runs for which there are no such points."""
    if points != "sobol":
        raise ValueError(f'points: expected "random" or "sobol", got {points!r}')
    if not isinstance(method, Method):
        raise ValueError(
            f'points: {method.name} draws by itself; Sobol points need a method that takes steps; give points="random"'
        )
    if not (isinstance(device, str) and device == "cpu"):
        raise ValueError('points: Sobol points are made on the processor; give device="cpu", or points="random"')
    each, rest = divmod(int(paths), RANDOMISATIONS) if is_whole(paths) else (0, 1)
    if rest or each & (each - 1):
        raise ValueError(
            f"paths: Sobol points come in {RANDOMISATIONS} randomisations, each a power of two; expected a number such "
            f"as {RANDOMISATIONS * 256}, got {paths!r}"
        )
    return [randomised(statistic) for statistic in statistics_of(collect)]


def _expect_paths_of(problem: Any) -> None:
    """Refuse a RandomDAE without random parameters, which would otherwise be expanded without paths."""
    from stodyn.problems.random_dae import RandomDAE

    if isinstance(problem, RandomDAE) and not problem.parameters:
        raise TypeError(
            "params: none of them is random, so there is nothing to expand. Give distributions in params, or paths=1 "
            "and seed=1 for the one solution"
        )


def check_needed(function: Callable[..., Any], **values: Any) -> None:
    """Refuse a run of paths without paths or seed, which only expansions do without."""
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise TypeError(f"{function.__name__}() needs {' and '.join(missing)}; call it as {call_form(function)}")


def check_options(paths: Any, seed: Any, on_failure: str) -> None:
    if not is_whole(paths):
        raise ValueError(f"paths: expected a whole number >= 1, got {paths!r}")
    if paths > MOST_PATHS:
        raise ValueError(f"paths: paths are numbered up to {MOST_PATHS:.3g}, got {paths:.3g}; take fewer")
    check_seed(seed)
    if on_failure not in ("raise", "record"):
        raise ValueError(f'on_failure: expected "raise" or "record", got {on_failure!r}')
