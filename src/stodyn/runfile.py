"""A run described as data: a TOML file with the model, the method, the grid, what to collect, where, and what to write.

    [model]
    name = "ornstein_uhlenbeck"          # of `stodyn.models`, or "module:name": a problem, or a function that makes one
    parameters = {rate = 2.0}

    [method]                             # left out: the recommended one
    name = "Heun"                        # or "ExactNoise(RK4)"
    options = {}

    [grid]
    t = [0, 5]
    dt = 0.01

    [run]
    paths = 100000                       # or {until = {error = 1e-3}}: as many as it takes, see stodyn.until
    seed = 1
    ledger = "runs/ou"                   # left out: nothing is kept until the end

    [[collect]]
    statistic = "Moments"                # any of stodyn.statistics, with its options
    every = 10

    [[collect]]
    statistic = "Observable"
    function = "my_module:energy"

    [[stop]]                             # stop each path where it first reaches one of these; left out: at the end
    level = 1.0                          # a number, or [-1.0, 1.0]
    of = "x"                             # a component, or module:function of (t, x[, params])
    direction = "up"

    [place]
    kind = "processes"                   # "threads" (the default), "processes", or "dask" with address = "tcp://..."
    workers = 2

    [output]
    netcdf = "ou.nc"                     # everything
    csv = "tables"                       # a folder: one table for each set of dimensions
    pictures = "pictures"                # a folder

`stodyn run` takes a table [rare] instead of [grid], [run], [[collect]] and [[stop]]:

    [rare]
    event = {level = 5.0, of = "x"}      # as a table of [[stop]]
    before = 10.0                        # or {level = -1.0, direction = "down"}, or a list of both
    dt = 0.01
    seed = 1                             # and any other option of stodyn.rare: t0, replicas, runs, kill, score, tol, by
    ledger = "runs/rare"

`stodyn estimate` takes a table [estimate] instead of [grid], [run] and [[collect]]:

    [estimate]
    t = [0, 5]
    error = 1e-3                         # and any other option of stodyn.estimate: level, relative, points, most, ...
    seed = 1
    function = "my_module:energy"        # of the state, (t, x[, params])
    functional = "TimeAverage"           # any of stodyn.statistics.functional; left out: End

Paths are relative to the folder of the file, and modules are looked for there first. Nothing in it is executed but what
module:name points to.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stodyn import plot, results
from stodyn.accuracy.estimate import estimate
from stodyn.accuracy.rare import rare
from stodyn.engine import place
from stodyn.engine.ledger import RUN_FILE, DescribedLedger
from stodyn.engine.place import Place
from stodyn.engine.simulate import simulate
from stodyn.engine.until import until
from stodyn.methods.catalogue import find as find_method
from stodyn.methods.stopping import Stop
from stodyn.models.catalogue import Model
from stodyn.models.catalogue import find as find_model
from stodyn.problems.contract import Problem
from stodyn.problems.level import Level
from stodyn.statistics import functional
from stodyn.statistics.catalogue import find as find_statistic
from stodyn.statistics.contract import Statistic

OBJECT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
HOME = "# from "  # the first line of the copy in a ledger: the folder of the run file
FUNCTIONALS = ("End", "TimeAverage", "Integral", "Maximum", "Minimum", "Probability")
ESTIMATE = ("t", "error", "seed", "function", "functional", "level", "relative", "steps", "points", "most", "device",
            "ledger")  # fmt: skip
SIMULATE = ("paths", "seed", "on_failure", "dtype", "device", "executor", "block", "ledger", "points", "stopped")
RARE = ("event", "before", "dt", "seed", "t0", "replicas", "runs", "kill", "score", "tol", "by", "ledger")
WORDS_FOR_SCORES = ("index", "distance", "amplitude")


class BadRunFile(ValueError):
    """A run file with an unknown key or an impossible value."""


class RunFile(NamedTuple):
    """The checked contents of a run file; `home` is the folder that its file names are relative to."""

    home: Path
    text: str
    problem: Any
    method: Any
    options: dict[str, Any]
    place: tuple[str, Any] | None
    outputs: dict[str, Path]
    door: Callable = simulate

    @property
    def ledger(self) -> Path | None:
        return self.options.get("ledger")


def read(file: str | Path) -> RunFile:
    """Read a run file and check every key.

    Parameters
    ----------
    file : str or Path
        A TOML file with the tables described above.

    Returns
    -------
    RunFile
        The problem, the method and the options that the file describes.

    Raises
    ------
    BadRunFile
        If the file cannot be read or a key is wrong; the error names the key.
    """
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRunFile(f"{path}: cannot be read ({error})") from error
    return parsed(text, path.resolve().parent)


def parsed(text: str, home: Path) -> RunFile:
    """Return the checked contents of a run file, given its text and the folder its file names are relative to."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRunFile(f"the file is not TOML: {error}") from error
    if "rare" in content:
        return _rare(content, text, home)
    _only(
        content,
        "",
        ("model", "method", "grid", "run", "collect", "stop", "place", "output"),
        needed=("model", "grid", "run"),
    )
    table = {name: content.get(name, {}) for name in ("model", "method", "grid", "run", "place", "output")}
    for name, value in table.items():
        if not isinstance(value, dict):
            named = f"; write {name} = {{name = {json.dumps(value)}}}" if isinstance(value, str) else ""
            named = named if name in ("model", "method") else ""
            raise BadRunFile(f"{name}: expected a table, [{name}], got {value!r}{named}")
    _only(table["grid"], "grid", ("t", "dt"), needed=("t", "dt"))
    _only(table["run"], "run", SIMULATE, needed=("paths", "seed"))
    options = {**table["grid"], **table["run"]}
    if isinstance(options["paths"], dict):
        _only(options["paths"], "run.paths", ("until",), needed=("until",))
        options["paths"] = _called(until, _table(options["paths"]["until"], "run.paths.until"), "run.paths.until")
    if "ledger" in options:
        options["ledger"] = home / _word(options["ledger"], "run.ledger")
    collect = content.get("collect", [])
    if not isinstance(collect, list) or not all(isinstance(entry, dict) for entry in collect):
        raise BadRunFile(f"collect: expected tables, [[collect]], got {collect!r}")
    with _modules_of(home):
        options["collect"] = [_statistic(entry, f"collect[{k}]") for k, entry in enumerate(collect)] or None
        options |= _stop(content.get("stop", []), options.pop("stopped", None))
        problem, method = _model(table["model"]), _method(table["method"])
    return RunFile(home, text, problem, method, options, _place(table["place"]), _outputs(table["output"], home))


def _rare(content: Mapping[str, Any], text: str, home: Path) -> RunFile:
    """Return the checked contents of a file with a table [rare]."""
    names = ("model", "method", "rare", "place", "output")
    _only(content, "", names, needed=("model", "rare"))
    table = {name: _table(content.get(name, {}), name) for name in names}
    options = dict(table["rare"])
    _only(options, "rare", RARE, needed=("event", "before", "dt", "seed"))
    if "ledger" in options:
        options["ledger"] = home / _word(options["ledger"], "rare.ledger")
    with _modules_of(home):
        options["event"] = _level(options["event"], "rare.event")
        ends = options["before"] if isinstance(options["before"], list) else [options["before"]]
        options["before"] = [_level(end, "rare.before") if isinstance(end, dict) else end for end in ends]
        if "score" in options and options["score"] not in WORDS_FOR_SCORES:
            options["score"] = _object(_word(options["score"], "rare.score"), "rare.score")
        problem, method = _model(table["model"]), _method(table["method"])
    return RunFile(home, text, problem, method, options, _place(table["place"]), _outputs(table["output"], home), rare)


def run(described: RunFile, progress: bool | None = None) -> tuple[xr.Dataset, list[Path]]:
    """Carry out the run that a file describes and write its outputs.

    Parameters
    ----------
    described : RunFile
        The contents of a run file, from `read`.
    progress : bool, optional
        As in `simulate`.

    Returns
    -------
    Dataset, list of Path
        The result, and the files that were written.
    """
    options = dict(described.options)
    if described.ledger is not None:
        options["ledger"] = DescribedLedger(described.ledger, f"{HOME}{described.home}\n{described.text}")
    with _modules_of(described.home), _opened(described.place) as where:
        result = described.door(described.problem, described.method, place=where, progress=progress, **options)
    return result, list(write_outputs(result, described.outputs))


class EstimateFile(NamedTuple):
    """The checked contents of a file for `stodyn estimate`."""

    home: Path
    problem: Any
    f: Any
    options: dict[str, Any]
    place: tuple[str, Any] | None
    outputs: dict[str, Path]


def read_estimate(file: str | Path) -> EstimateFile:
    """Read a file with a table [estimate] and check every key; raise BadRunFile, which names the wrong key."""
    path = Path(file)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRunFile(f"{path}: cannot be read ({error})") from error
    except tomllib.TOMLDecodeError as error:
        raise BadRunFile(f"the file is not TOML: {error}") from error
    home = path.resolve().parent
    _only(content, "", ("model", "method", "estimate", "place", "output"), needed=("model", "estimate"))
    table = {name: _table(content.get(name, {}), name) for name in ("model", "method", "estimate", "place", "output")}
    options = dict(table["estimate"])
    _only(options, "estimate", ESTIMATE, needed=("t", "error", "seed", "function"))
    if "ledger" in options:
        options["ledger"] = home / _word(options["ledger"], "estimate.ledger")
    name = _word(options.pop("functional", "End"), "estimate.functional")
    kind = getattr(functional, name, None) if name in FUNCTIONALS else None
    if kind is None:
        raise BadRunFile(f"estimate.functional: unknown functional {name!r}; expected one of {', '.join(FUNCTIONALS)}")
    with _modules_of(home):
        function = _object(_word(options.pop("function"), "estimate.function"), "estimate.function")
        problem, method = _model(table["model"]), _method(table["method"])
    options["method"] = method
    outputs = _outputs(table["output"], home)
    return EstimateFile(home, problem, kind(function), options, _place(table["place"]), outputs)


def estimated(described: EstimateFile, progress: bool | None = None) -> tuple[xr.Dataset, list[Path]]:
    """Estimate what a file describes and write its outputs; return the result and the files that were written."""
    with _modules_of(described.home), _opened(described.place) as where:
        result = estimate(described.problem, described.f, place=where, progress=progress, **described.options)
    files = list(write_outputs(result, {name: file for name, file in described.outputs.items() if name != "pictures"}))
    if "pictures" in described.outputs:
        described.outputs["pictures"].mkdir(parents=True, exist_ok=True)
        files.append(described.outputs["pictures"] / "levels.png")
        plot.save(plot.levels(result), files[-1])
    return result, files


def resumed(folder: str | Path) -> RunFile:
    """Return the run file that the ledger of a `stodyn run` was made from."""
    path = Path(folder)
    if not path.is_dir():
        raise BadRunFile(f"{path}: there is no such folder")
    if not (path / RUN_FILE).is_file():
        raise BadRunFile(
            f"{path}: holds no {RUN_FILE}, so it was not made by `stodyn run`. A run made by simulate goes on when the "
            "program calls simulate with the same arguments again."
        )
    first, _, text = (path / RUN_FILE).read_text(encoding="utf-8").partition("\n")
    if not first.startswith(HOME):
        raise BadRunFile(f"{path / RUN_FILE}: its first line, which names the folder of the run file, is missing")
    described = parsed(text, Path(first.removeprefix(HOME)))
    return described._replace(options=described.options | {"ledger": path})


# --- the keys ---------------------------------------------------------------------------------------------------------


def _only(table: Mapping[str, Any], name: str, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
    """Refuse unknown keys, and name those that are missing."""
    dot = f"{name}." if name else ""
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {dot}{near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise BadRunFile(f"{dot}{key}: there is no such key; {hint}")
    for key in needed:
        if key not in table:
            example = {"seed": ", such as seed = 1", "paths": ", such as paths = 1000"}.get(key, "")
            raise BadRunFile(f"{dot}{key}: missing; add it{f' to the table [{name}]' if name else ''}{example}")


def _word(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadRunFile(f"{key}: expected a word, got {value!r}")
    return value


def _table(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRunFile(f"{key}: expected a table, {{name = value}}, got {value!r}")
    return value


@contextlib.contextmanager
def _modules_of(home: Path) -> Iterator[None]:
    """Look for modules beside the run file first."""
    sys.path.insert(0, str(home))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(home))


def _object(name: str, key: str) -> Any:
    """Return the object that module:name points to."""
    if not OBJECT.fullmatch(name):
        raise BadRunFile(
            f"{key}: expected module:name, such as my_model:problem, got {name!r}. Expressions are not evaluated."
        )
    module, _, inside = name.partition(":")
    try:
        value = importlib.import_module(module)
        for attribute in inside.split("."):
            value = getattr(value, attribute)
    except Exception as error:  # a module may fail in any way while it is imported
        raise BadRunFile(f"{key}: {name} cannot be imported ({type(error).__name__}: {error})") from error
    return value


def _called(function: Callable, arguments: Mapping[str, Any], key: str) -> Any:
    try:
        return function(**arguments)
    except (TypeError, ValueError) as error:
        raise BadRunFile(f"{key}: {error}") from error


def _model(table: Mapping[str, Any]) -> Any:
    _only(table, "model", ("name", "parameters"), needed=("name",))
    name, parameters = _word(table["name"], "model.name"), _table(table.get("parameters", {}), "model.parameters")
    if ":" in name or not OBJECT.fullmatch(f"m:{name.replace('-', '_')}"):
        model = _object(name, "model.name")
    else:
        try:
            model = find_model(name)
        except ValueError as error:
            raise BadRunFile(f"model.name: {error} Or give module:name.") from error
    if isinstance(model, Problem):
        if parameters:
            raise BadRunFile(f"model.parameters: {name} is a problem, not a function that makes one; leave them out")
        return model
    if isinstance(model, Model):
        changed = _called(model, parameters, "model.parameters")
        return _called(lambda: changed.problem, {}, "model.parameters")
    if not callable(model):
        raise BadRunFile(
            f"model.name: {name} is a {type(model).__name__}; expected a problem or a function of parameters"
        )
    problem = _called(model, parameters, "model.parameters")
    if not isinstance(problem, Problem):
        raise BadRunFile(
            f"model.name: {name} returned a {type(problem).__name__}; expected a problem such as stodyn.SDE"
        )
    return problem


def _method(table: Mapping[str, Any]) -> Any:
    _only(table, "method", ("name", "options"), needed=("name",) if table else ())
    if not table:
        return None
    name = _word(table["name"], "method.name")
    try:
        method = _object(name, "method.name") if ":" in name else find_method(name)
    except BadRunFile:
        raise
    except (TypeError, ValueError) as error:
        raise BadRunFile(f"method.name: {error}") from error
    options = _table(table.get("options", {}), "method.options")
    return _called(method, options, "method.options") if options else method


def _statistic(table: Mapping[str, Any], key: str) -> Statistic:
    options = dict(table)
    name = _word(options.pop("statistic", None), f"{key}.statistic")
    try:
        kind = _object(name, f"{key}.statistic") if ":" in name else find_statistic(name)
    except BadRunFile:
        raise
    except ValueError as error:
        raise BadRunFile(f"{key}.{error}") from error  # it begins with "statistic: "
    if not (isinstance(kind, type) and issubclass(kind, Statistic)):
        raise BadRunFile(f"{key}.statistic: {name} is a {type(kind).__name__}; expected a class of statistics")
    known = inspect.signature(kind).parameters
    _only(options, key, tuple(known))
    if "function" in options:
        options["function"] = _object(_word(options["function"], f"{key}.function"), f"{key}.function")
    return _called(kind, options, key)


def _stop(tables: Any, stopped: Any) -> dict[str, Any]:
    """Return the option `stop` of simulate, if there are levels."""
    if not isinstance(tables, list):
        raise BadRunFile(f"stop: expected tables, [[stop]], got {tables!r}")
    if not tables:
        if stopped is not None:
            raise BadRunFile("run.stopped: there is no table [[stop]], so no path is stopped; leave it out")
        return {}
    levels = [_level(entry, f"stop[{k}]") for k, entry in enumerate(tables)]
    return {"stop": _called(lambda **kind: Stop(*levels, **kind), {} if stopped is None else {"stopped": stopped},
                            "run.stopped")}  # fmt: skip


def _level(value: Any, key: str) -> Level:
    table = dict(_table(value, key))
    _only(table, key, ("level", "of", "direction"), needed=("level",))
    if isinstance(table["level"], str):
        table["level"] = _object(table["level"], f"{key}.level")
    if isinstance(table.get("of"), str) and ":" in table["of"]:
        table["of"] = _object(table["of"], f"{key}.of")
    return _called(Level, table, key)


def _place(table: Mapping[str, Any]) -> tuple[str, Any] | None:
    if not table:
        return None
    _only(table, "place", ("kind", "workers", "address"), needed=("kind",))
    kinds = {"threads": "workers", "processes": "workers", "dask": "address"}
    kind = table["kind"]
    if kind not in kinds:
        raise BadRunFile(f"place.kind: expected one of {', '.join(kinds)}, got {kind!r}")
    _only({key: value for key, value in table.items() if key != "kind"}, "place", (kinds[kind],))
    if kind == "dask" and "address" not in table:
        raise BadRunFile("place.address: missing; give the address of a scheduler, such as tcp://host:8786")
    return kind, table.get(kinds[kind])


@contextlib.contextmanager
def _opened(chosen: tuple[str, Any] | None) -> Iterator[Place | None]:
    if chosen is None:
        yield None
        return
    kind, setting = chosen
    places: dict[str, Callable] = {"threads": place.threads, "processes": place.processes, "dask": place.dask}
    try:
        where = places[kind](setting)
    except (TypeError, ValueError) as error:
        raise BadRunFile(f"place: {error}") from error
    with where if hasattr(where, "__exit__") else contextlib.nullcontext(where) as opened:
        yield opened


# --- outputs ----------------------------------------------------------------------------------------------------------


def _outputs(table: Mapping[str, Any], home: Path) -> dict[str, Path]:
    _only(table, "output", ("netcdf", "csv", "pictures"))
    return {key: home / _word(value, f"output.{key}") for key, value in table.items()}


def write_outputs(result: xr.Dataset, outputs: Mapping[str, Path]) -> Iterator[Path]:
    """Write the requested outputs; yield each file."""
    if "netcdf" in outputs:
        outputs["netcdf"].parent.mkdir(parents=True, exist_ok=True)
        results.save(result, outputs["netcdf"])
        yield outputs["netcdf"]
    if "csv" in outputs:
        outputs["csv"].mkdir(parents=True, exist_ok=True)
        for dims in dict.fromkeys(result[name].dims for name in result.data_vars):
            names = [name for name in result.data_vars if result[name].dims == dims]
            file = outputs["csv"] / f"{'_'.join(map(str, dims)) or 'numbers'}.csv"
            table = result[names].reset_coords(drop=True)
            if dims:
                table.to_dataframe(dim_order=list(dims)).to_csv(file)
            else:
                file.write_text("".join(f"{name},{table[name].item()!r}\n" for name in names))
            yield file
    if "pictures" in outputs:
        outputs["pictures"].mkdir(parents=True, exist_ok=True)
        for name, axes in _pictures(result):
            file = outputs["pictures"] / f"{name}.png"
            plot.save(axes, file)
            yield file


def _pictures(result: xr.Dataset) -> Iterator[tuple[str, Any]]:
    """Yield the pictures of a run, one per component, each with its name."""
    drawings = {"mean": plot.band, "path": plot.paths, "density": plot.histogram, "spectrum": plot.spectrum}
    for variable, draw in drawings.items():
        if variable in result and (variable != "path" or "mean" not in result):
            for component in map(str, np.atleast_1d(result["component"].values)):
                yield f"{draw.__name__}_{component}", draw(result, component)
    for name in map(str, result.data_vars):
        if result[name].dims == ("time",) and f"{name}_stderr" in result and f"{name}_variance" in result:
            yield f"observable_{name}", plot.observable(result, name)
