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
    ledger = "ou"                        # left out: nothing is kept until the end

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
    ledger = "rare"

`stodyn estimate` takes a table [estimate] instead of [grid], [run] and [[collect]]:

    [estimate]
    t = [0, 5]
    error = 1e-3                         # and any other option of stodyn.estimate: level, relative, points, most, ...
    seed = 1
    function = "my_module:energy"        # of the state, (t, x[, params])
    functional = "TimeAverage"           # any of stodyn.statistics.functional; left out: End

`stodyn fit` takes a record and its sensors instead:

    [data]
    file = "record.csv"                  # a line of names, such as time,gauge [m]; empty where nothing was read
    time = "time"                        # the name of its column of times: numbers, or dates, which become seconds

    [sensors.gauge]                      # of the column "gauge", or of "gauge.0", "gauge.1", ...
    of = "x"                             # a component, or module:function of (t, x[, params])
    noise = "r"                          # its deviation, a number or a name in params; or {density = 0.1, sides = 2}
    unit = "m"                           # and any of every, average, increment, resolution, range

    [free]
    rate = [0, inf]                      # a range, a number to begin at, or {prior = "LogNormal", mu = 0, sigma = 1}
    r = [0, inf]

    [fit]                                # left out: all as in stodyn.fit
    params = {r = 0.1}                   # and t0, dt, by, law, initial, start, profile, predictive, seed

`stodyn export` takes a run file, or a noise by itself:

    [noise]
    name = "gyro"                        # of stodyn.noise, coloured.dryden among them, per_sample, density, module:name
    parameters = {arw = "0.3 deg/sqrt(h)"}  # or {density = "8 mdeg/s/sqrt(Hz)", sides = 1}; of an imu two such tables

    [export]
    dt = 0.01                            # and t0, seed

Paths are relative to the folder of the file. A run file may come from somebody else: what module:name points to runs
only if it is admitted by --allow, or by an entry point of an installed package (stodyn.admission), and so it is with
files outside that folder and with the address of a scheduler. The folder of the file is not searched for modules, and
nothing else in it is executed.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import inspect
import json
import os
import re
import shlex
import stat
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stodyn import plot, results
from stodyn.accuracy.estimate import estimate
from stodyn.accuracy.rare import rare
from stodyn.admission import MODULE, OBJECT, Admission, BadRunFile, Wanted
from stodyn.engine import place
from stodyn.engine.door import available_cores
from stodyn.engine.places.contract import Place
from stodyn.engine.record.ledger import RUN_FILE, DescribedLedger
from stodyn.engine.simulate import simulate
from stodyn.engine.until import until
from stodyn.exporting.noises import is_noise
from stodyn.inference.fitting import fit
from stodyn.inference.record import Record, name_and_unit
from stodyn.methods.catalogue import find as find_method
from stodyn.methods.stopping import Stop
from stodyn.models.catalogue import Model
from stodyn.models.catalogue import find as find_model
from stodyn.noise import coloured, distribution
from stodyn.noise.hosts import white
from stodyn.noise.inertial import Imu, accelerometer, gyro, imu
from stodyn.noise.readings import density, per_sample
from stodyn.problems.contract import Problem
from stodyn.problems.level import Level
from stodyn.problems.sensor import Sensor
from stodyn.statistics import functional
from stodyn.statistics.catalogue import find as find_statistic
from stodyn.statistics.contract import Statistic

HOME = "# from "  # the first line of the copy in a ledger: the folder of the run file
FUNCTIONALS = ("End", "TimeAverage", "Integral", "Maximum", "Minimum", "Probability")
ESTIMATE = ("t", "error", "seed", "function", "functional", "level", "relative", "steps", "points", "most", "device",
            "ledger")  # fmt: skip
SIMULATE = ("paths", "seed", "on_failure", "dtype", "device", "executor", "block", "ledger", "points", "stopped")
RARE = ("event", "before", "dt", "seed", "t0", "replicas", "runs", "kill", "score", "tol", "by", "ledger")
WORDS_FOR_SCORES = ("index", "distance", "amplitude")
LOOKED_UP = ("statistic", "function", "level", "of", "score")  # keys that may say module:name, beside those below
NAMES_LOOKED_UP = ("model.name", "method.name", "noise.name")
FREE = (
    "model.parameters",
    "method.options",
    "noise.parameters",
    "fit.params",
    "fit.start",
    "free",
)  # whose keys are somebody else's
DOORS = ("run", "rare", "estimate")  # tables that may name a ledger
FIT = ("t0", "dt", "by", "law", "params", "initial", "start", "profile", "predictive", "seed")
SENSOR = ("of", "noise", "every", "average", "increment", "resolution", "range", "unit")
EXPORT = ("dt", "t0", "seed")
PRIORS = ("Beta", "Exponential", "Gamma", "LogNormal", "Normal", "Uniform")
MOST_BYTES = 1_000_000  # of a run file
MOST_DATA = 200_000_000  # bytes of a record
MOST_WORKERS_PER_CORE = 16


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


def read(file: str | Path, allow: Iterable[str | Path] = ()) -> RunFile:
    """Read a run file and check every key.

    Parameters
    ----------
    file : str or Path
        A TOML file with the tables described above.
    allow : iterable of str or Path
        What the file may use beside the names of stodyn: Python files, modules, folders to write into, addresses, as
        `stodyn run --allow` takes them (see stodyn.admission).

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
    return parsed(_text(path), path.resolve().parent, allow, _command("run", path))


def _opened_file(command: str, file: str | Path, allow: Iterable[str | Path]) -> tuple[Path, dict[str, Any], Admission]:
    """The folder of a file, its tables, and what may be used of the things that it names."""
    path = Path(file)
    home = path.resolve().parent
    return home, _content(_text(path)), Admission(allow, _command(command, path), [home])


def _command(name: str, path: Path) -> str:
    return f"stodyn {name} {shlex.quote(str(path))}"


def _text(path: Path) -> str:
    """The text of a file of reasonable size."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would never end
            raise BadRunFile(f"{path}: cannot be read (it is not a file)")
        if path.stat().st_size > MOST_BYTES:
            raise BadRunFile(f"{path}: has {path.stat().st_size:,} bytes; a run file has at most {MOST_BYTES:,}")
        return path.read_text(encoding="utf-8")
    except BadRunFile:
        raise
    except (OSError, ValueError) as error:  # also a zero byte in the name, and what is not UTF-8
        raise BadRunFile(f"{path}: cannot be read ({error})") from error


def parsed(text: str, home: Path, allow: Iterable[str | Path] = (), command: str = "stodyn run FILE.toml") -> RunFile:
    """Return the checked contents of a run file, given its text and the folder its file names are relative to.

    `allow` is as in `read`; `command` is what errors repeat where something is not admitted.
    """
    return _described(_content(text), text, home, Admission(allow, command, [home]))


def _content(text: str) -> dict[str, Any]:
    """The tables of a file."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, brackets within brackets
        raise BadRunFile(f"the file is not TOML: {error}") from error


def _described(content: dict[str, Any], text: str, home: Path, admission: Admission) -> RunFile:
    """The checked contents of a run file; first of all, everything it names outside itself must be admitted."""
    _check_admitted(content, home, admission)
    if "rare" in content:
        return _rare(content, text, home, admission)
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
    options = _with_ledger(options, "run", home)
    collect = content.get("collect", [])
    if not isinstance(collect, list) or not all(isinstance(entry, dict) for entry in collect):
        raise BadRunFile(f"collect: expected tables, [[collect]], got {collect!r}")
    options["collect"] = [_statistic(entry, f"collect[{k}]", admission) for k, entry in enumerate(collect)] or None
    options |= _stop(content.get("stop", []), options.pop("stopped", None), admission)
    problem, method = _model(table["model"], admission), _method(table["method"], admission)
    return RunFile(home, text, problem, method, options, _place(table["place"]), _outputs(table["output"], home))


def _rare(content: Mapping[str, Any], text: str, home: Path, admission: Admission) -> RunFile:
    """Return the checked contents of a file with a table [rare]."""
    table = _tables(content, ("model", "method", "rare", "place", "output"), needed=("model", "rare"))
    _only(table["rare"], "rare", RARE, needed=("event", "before", "dt", "seed"))
    options = _with_ledger(table["rare"], "rare", home)
    options["event"] = _level(options["event"], "rare.event", admission)
    ends = options["before"] if isinstance(options["before"], list) else [options["before"]]
    options["before"] = [_level(end, "rare.before", admission) if isinstance(end, dict) else end for end in ends]
    if "score" in options and options["score"] not in WORDS_FOR_SCORES:
        options["score"] = _object(_word(options["score"], "rare.score"), "rare.score", admission)
    problem, method = _model(table["model"], admission), _method(table["method"], admission)
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
    with _opened(described.place) as where:
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


def read_estimate(file: str | Path, allow: Iterable[str | Path] = ()) -> EstimateFile:
    """Read a file with a table [estimate] and check every key; raise BadRunFile, which names the wrong key.

    `allow` is as in `read`.
    """
    home, content, admission = _opened_file("estimate", file, allow)
    _check_admitted(content, home, admission)
    table = _tables(content, ("model", "method", "estimate", "place", "output"), needed=("model", "estimate"))
    _only(table["estimate"], "estimate", ESTIMATE, needed=("t", "error", "seed", "function"))
    options = _with_ledger(table["estimate"], "estimate", home)
    name = _word(options.pop("functional", "End"), "estimate.functional")
    kind = getattr(functional, name, None) if name in FUNCTIONALS else None
    if kind is None:
        raise BadRunFile(f"estimate.functional: unknown functional {name!r}; expected one of {', '.join(FUNCTIONALS)}")
    function = _object(_word(options.pop("function"), "estimate.function"), "estimate.function", admission)
    problem, method = _model(table["model"], admission), _method(table["method"], admission)
    options["method"] = method
    outputs = _outputs(table["output"], home)
    return EstimateFile(home, problem, kind(function), options, _place(table["place"]), outputs)


def estimated(described: EstimateFile, progress: bool | None = None) -> tuple[xr.Dataset, list[Path]]:
    """Estimate what a file describes and write its outputs; return the result and the files that were written."""
    with _opened(described.place) as where:
        result = estimate(described.problem, described.f, place=where, progress=progress, **described.options)
    return result, list(write_outputs(result, described.outputs, _pictures_of_estimate))


class FitFile(NamedTuple):
    """The checked contents of a file for `stodyn fit`."""

    problem: Any
    method: Any
    options: dict[str, Any]
    outputs: dict[str, Path]


def read_fit(file: str | Path, allow: Iterable[str | Path] = ()) -> FitFile:
    """Read a file with a record, its sensors and a table [free], and the record; raise BadRunFile for a wrong key.

    `allow` is as in `read`.
    """
    home, content, admission = _opened_file("fit", file, allow)
    _check_admitted(content, home, admission)
    names = ("model", "method", "data", "sensors", "free", "fit", "output")
    table = _tables(content, names, needed=("model", "data", "sensors", "free"))
    _only(table["fit"], "fit", FIT)
    _only(table["data"], "data", ("file", "time"), needed=("file",))
    sensors = [_sensor(name, own, admission) for name, own in table["sensors"].items()]
    options = {
        **table["fit"],
        "sensors": sensors,
        "free": {name: _free(name, own) for name, own in table["free"].items()},
    }
    problem, method = _model(table["model"], admission), _method(table["method"], admission)
    columns = _columns(home / _word(table["data"]["file"], "data.file"))
    time = _word(table["data"].get("time", "time"), "data.time")
    options["data"] = _called(lambda: _record(columns, time, sensors), {}, "data")
    return FitFile(problem, method, options, _outputs(table["output"], home))


def fitted(described: FitFile, progress: bool | None = None) -> tuple[xr.Dataset, list[Path]]:
    """Fit what a file describes and write its outputs; return the result and the files that were written."""
    result = fit(described.problem, described.method, progress=progress, **described.options)
    return result, list(write_outputs(result, described.outputs, _pictures_of_fit))


class ExportFile(NamedTuple):
    """The checked contents of a file for `stodyn export`: a problem or a noise, and what the file says of its steps."""

    problem: Any
    method: Any
    options: dict[str, Any]


def read_export(file: str | Path, allow: Iterable[str | Path] = ()) -> ExportFile:
    """Read a run file, or a file with a table [noise]; raise BadRunFile, which names the wrong key.

    `allow` is as in `read`.
    """
    path = Path(file)
    text, home = _text(path), path.resolve().parent
    content, admission = _content(text), Admission(allow, _command("export", path), [home])
    if "noise" not in content:
        described = _described(content, text, home, admission)
        own = described.options
        begin = own["t"][0] if "t" in own else own.get("t0", 0.0)
        return ExportFile(
            described.problem, described.method, {"dt": own["dt"], "t0": float(begin), "seed": int(own["seed"])}
        )
    _check_admitted(content, home, admission)
    _only(content, "", ("noise", "export"), needed=("export",))
    options = _table(content["export"], "export")
    _only(options, "export", EXPORT, needed=("dt",))
    return ExportFile(_noise(_table(content["noise"], "noise"), admission), None, options)


def _noise(table: Mapping[str, Any], admission: Admission) -> Any:
    """A noise by its name in stodyn.noise, or by module:name."""
    _only(table, "noise", ("name", "parameters"), needed=("name",))
    name, parameters = _word(table["name"], "noise.name"), _table(table.get("parameters", {}), "noise.parameters")
    if ":" in name:
        noise = _object(name, "noise.name", admission)
    elif name in NOISES:
        noise = NOISES[name]
    else:
        raise BadRunFile(f"noise.name: there is no noise {name!r}; expected one of {', '.join(NOISES)}, or module:name")
    if callable(noise):
        noise = _called(noise, _with_densities(parameters, "noise.parameters"), "noise.parameters")
    if not is_noise(noise):
        raise BadRunFile(f"noise.name: {name} is a {type(noise).__name__}; expected a noise, or a function of one")
    return noise


def _with_densities(parameters: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Parameters, or tables of them, in which {density = ..., sides = ...} is a density."""
    return {
        name: value
        if not isinstance(value, dict)
        else _density(value, f"{key}.{name}")
        if "density" in value
        else _with_densities(value, f"{key}.{name}")
        for name, value in parameters.items()
    }


def _density(table: Mapping[str, Any], key: str) -> Any:
    """A density by its table."""
    _only(table, key, ("density", "sides"), needed=("density", "sides"))
    return _called(density, {"root": table["density"], "sides": table["sides"]}, key)


def _imu(gyro: Mapping[str, Any], accelerometer: Mapping[str, Any]) -> Imu:
    """An IMU by the tables of its sensors."""
    return imu(NOISES["gyro"](**gyro), NOISES["accelerometer"](**accelerometer))


def _named_shapes() -> dict[str, Callable[..., Any]]:
    """The functions of noise.coloured that give a noise."""
    functions = {f"coloured.{name}": getattr(coloured, name) for name in coloured.__all__ if name.islower()}
    return {
        name: function
        for name, function in functions.items()
        if callable(function) and inspect.signature(function).return_annotation in ("Coloured", coloured.Coloured)
    }


NOISES: dict[str, Callable[..., Any]] = {
    "white": white,
    "gyro": gyro,
    "accelerometer": accelerometer,
    "imu": _imu,
    "per_sample": per_sample,
    "density": density,
    **_named_shapes(),
}


def _pictures_of_estimate(result: xr.Dataset) -> Iterator[tuple[str, Any]]:
    yield "levels", plot.levels(result)


def _pictures_of_fit(result: xr.Dataset) -> Iterator[tuple[str, Any]]:
    if "profile" in result:
        yield "profile", plot.profile(result)
    for output in map(str, result["output"].values if "output" in result.coords else ()):
        yield f"predictive_{output}", plot.predictive(result, output)


def _sensor(name: str, value: Any, admission: Admission) -> Sensor:
    key = f"sensors.{name}"
    options = dict(_table(value, key))
    _only(options, key, SENSOR, needed=("of",))
    parts = options["of"] if isinstance(options["of"], list) else [options["of"]]
    parts = [_object(part, f"{key}.of", admission) if isinstance(part, str) and ":" in part else part for part in parts]
    options["of"] = parts if isinstance(options["of"], list) else parts[0]
    noise = options.pop("noise", None)
    if isinstance(noise, dict):
        options["noise"] = _density(noise, f"{key}.noise")
    elif noise is not None:
        options["noise"] = _called(per_sample, {"size": noise}, f"{key}.noise")
    if "range" in options and isinstance(options["range"], list):
        options["range"] = tuple(options["range"])
    return _called(Sensor, {"name": name, **options}, key)


def _free(name: str, value: Any) -> Any:
    """A range, a number, or a prior by its name in stodyn.noise."""
    if not isinstance(value, dict):
        return value
    options = dict(value)
    kind = options.pop("prior", None)
    if kind not in PRIORS:
        raise BadRunFile(f"free.{name}.prior: expected one of {', '.join(PRIORS)}, got {kind!r}")
    return _called(getattr(distribution, kind), options, f"free.{name}")


def _columns(file: Path) -> dict[str, list[str]]:
    """The columns of a table in a text file, as words, by the names in its first line."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise BadRunFile(f"data.file: {file} is not a file")
        if file.stat().st_size > MOST_DATA:
            raise BadRunFile(f"data.file: {file} has {file.stat().st_size:,} bytes; a record has at most {MOST_DATA:,}")
        with file.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except BadRunFile:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise BadRunFile(f"data.file: {file} cannot be read ({error})") from error
    names = [name.strip() for name in rows[0]] if rows else []
    for k, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise BadRunFile(f"data.file: row {k} has {len(row)} entries, the first line has {len(names)} names")
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(names)}


def _record(columns: Mapping[str, list[str]], time: str, sensors: list[Sensor]) -> Record:
    """The columns of a table as a record; columns that belong to no sensor are left out."""
    if time not in columns:
        raise ValueError(f"time: there is no column {time!r}; there are {', '.join(columns)}")
    owners = {sensor.name for sensor in sensors}
    variables = {}
    for head, words in columns.items():
        name, unit = name_and_unit(head, sensors)
        if name in owners or name.rpartition(".")[0] in owners:
            values = np.array([_number(word, head, k) for k, word in enumerate(words, start=2)])
            variables[name] = ("time", values, {"units": unit} if unit else {})
    return Record(xr.Dataset(variables, {"time": _times(columns[time])}), sensors)


def _number(word: str, column: str, row: int) -> float:
    try:
        return float(word) if word.strip() else np.nan
    except ValueError as error:
        raise ValueError(f"{column}: expected a number in row {row}, got {word!r}") from error


def _times(words: list[str]) -> np.ndarray:
    """Numbers, or dates such as 2024-05-01T12:00:00, those with a zone in UTC."""
    for kind in (float, "datetime64[ns]"):
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "no explicit representation of timezones")
            return np.array([word.strip().removesuffix("Z") for word in words]).astype(kind)
    raise ValueError("time: expected numbers or dates such as 2024-05-01T12:00:00")


def resumed(folder: str | Path, allow: Iterable[str | Path] = ()) -> RunFile:
    """Return the run file that the ledger of a `stodyn run` was made from; `allow` is as in `read`.

    Where that file stood is the word of the ledger, which may be a stranger's and may say "/". Outputs are written in
    the folder that holds the ledger, or below, where the ledger lies just where the file says; in a ledger that was
    moved, only inside the ledger. Others have to be admitted.
    """
    path = Path(folder)
    if not path.is_dir():
        raise BadRunFile(f"{path}: there is no such folder")
    if not (path / RUN_FILE).is_file():
        raise BadRunFile(
            f"{path}: holds no {RUN_FILE}, so it was not made by `stodyn run`. A run made by simulate goes on when the "
            "program calls simulate with the same arguments again."
        )
    first, _, text = _text(path / RUN_FILE).partition("\n")
    if not first.startswith(HOME):
        raise BadRunFile(f"{path / RUN_FILE}: its first line, which names the folder of the run file, is missing")
    if not first.isprintable():
        raise BadRunFile(f"{path / RUN_FILE}: its first line is not the name of a folder: {first[:100]!r}")
    content, home = _content(text), Path(first.removeprefix(HOME))
    folders = [path.resolve().parent if _is_in_place(path, content, home) else path]
    for name in DOORS:
        if isinstance(content.get(name), dict):
            content[name]["ledger"] = str(path.resolve())
    described = _described(content, text, home, Admission(allow, _command("resume", path), folders))
    return described._replace(options=described.options | {"ledger": path})


def _is_in_place(folder: Path, content: Mapping[str, Any], home: Path) -> bool:
    """Whether a ledger lies where its run file says, which one that was sent here cannot know beforehand.

    The folder of the run file is written without links: /proc/self/cwd would fit everywhere.
    """
    places = [home / wanted.text for wanted in _folders(content, home) if wanted.key.endswith(".ledger")]
    return home.is_absolute() and home == home.resolve() and [each.resolve() for each in places] == [folder.resolve()]


# --- what a file names outside itself ---------------------------------------------------------------------------------


def _check_admitted(content: Mapping[str, Any], home: Path, admission: Admission) -> None:
    """Refuse all that is not admitted at once, before anything is imported."""
    try:
        names = [_wanted(text, key, home) for key, text in _names(content, "")]
    except RecursionError as error:
        raise BadRunFile("the file has tables within tables, too many to follow") from error
    admission.check([*names, *_folders(content, home), *_addresses(content)])


def _wanted(text: str, key: str, home: Path) -> Wanted:
    """module:name; what admits it is the file of that name beside the run file, if there is one, or else the module."""
    module = text.partition(":")[0]
    beside = home / f"{module}.py"
    return Wanted(key, text, str(beside) if "." not in module and os.path.isfile(beside) else module)


def _names(table: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield key and value wherever module:name stands for something that is looked up."""
    if isinstance(table, list):
        for k, entry in enumerate(table):
            yield from _names(entry, f"{key}[{k}]")
    for name, value in table.items() if isinstance(table, dict) else ():
        inner = f"{key}.{name}" if key else name
        words = [word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str)]
        is_looked_up = name in LOOKED_UP or inner in NAMES_LOOKED_UP
        yield from ((inner, word) for word in words if is_looked_up and OBJECT.fullmatch(word))
        if inner not in FREE:
            yield from _names(value, inner)


def _folders(content: Mapping[str, Any], home: Path) -> Iterator[Wanted]:
    """Yield the folders that would be written into, and that of a record, links followed."""
    tables = {name: table for name, table in content.items() if isinstance(table, dict)}
    named = {f"{door}.ledger": tables.get(door, {}).get("ledger") for door in DOORS}
    named |= {f"output.{key}": value for key, value in tables.get("output", {}).items()}
    named["data.file"] = tables.get("data", {}).get("file")
    for key, value in named.items():
        if isinstance(value, str) and value:
            try:
                file = home / value
                ends = {"output.netcdf": file.parent, "data.file": file.resolve().parent}  # a link is read, not written
                folder = ends.get(key, file).resolve()
            except (OSError, ValueError, RuntimeError) as error:  # a zero byte, a circle of links
                raise BadRunFile(f"{key}: {value!r} cannot be the name of a file ({error})") from error
            yield Wanted(key, value, os.path.join(folder, ""))


def _addresses(content: Mapping[str, Any]) -> Iterator[Wanted]:
    """Yield the address of a scheduler, which may send code to those who call it."""
    table = content.get("place")
    address = table.get("address") if isinstance(table, dict) and table.get("kind") == "dask" else None
    if isinstance(address, str):
        yield Wanted("place.address", address, address if "://" in address else f"tcp://{address}")


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


def _tables(content: Mapping[str, Any], names: tuple[str, ...], needed: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The tables of a file that may have these; empty ones where it has none."""
    _only(content, "", names, needed)
    return {name: _table(content.get(name, {}), name) for name in names}


def _with_ledger(options: Mapping[str, Any], door: str, home: Path) -> dict[str, Any]:
    """The options of a door, with the file of the ledger where it is named."""
    named = {"ledger": home / _word(options["ledger"], f"{door}.ledger")} if "ledger" in options else {}
    return {**options, **named}


def _table(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRunFile(f"{key}: expected a table, {{name = value}}, got {value!r}")
    return value


def _object(text: str, key: str, admission: Admission) -> Any:
    """Return the object that module:name points to."""
    return admission.value_of(Wanted(key, text, text.partition(":")[0]))


def _called(function: Callable, arguments: Mapping[str, Any], key: str) -> Any:
    try:
        return function(**arguments)
    except (TypeError, ValueError) as error:
        raise BadRunFile(f"{key}: {error}") from error


def _model(table: Mapping[str, Any], admission: Admission) -> Any:
    _only(table, "model", ("name", "parameters"), needed=("name",))
    name, parameters = _word(table["name"], "model.name"), _table(table.get("parameters", {}), "model.parameters")
    if ":" in name or not MODULE.fullmatch(name.replace("-", "_")):
        model = _object(name, "model.name", admission)
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


def _method(table: Mapping[str, Any], admission: Admission) -> Any:
    _only(table, "method", ("name", "options"), needed=("name",) if table else ())
    if not table:
        return None
    name = _word(table["name"], "method.name")
    try:
        method = _object(name, "method.name", admission) if ":" in name else find_method(name)
    except BadRunFile:
        raise
    except (TypeError, ValueError) as error:
        raise BadRunFile(f"method.name: {error}") from error
    options = _table(table.get("options", {}), "method.options")
    return _called(method, options, "method.options") if options else method


def _statistic(table: Mapping[str, Any], key: str, admission: Admission) -> Statistic:
    options = dict(table)
    name = _word(options.pop("statistic", None), f"{key}.statistic")
    try:
        kind = _object(name, f"{key}.statistic", admission) if ":" in name else find_statistic(name)
    except BadRunFile:
        raise
    except ValueError as error:
        raise BadRunFile(f"{key}.{error}") from error  # it begins with "statistic: "
    if not (isinstance(kind, type) and issubclass(kind, Statistic)):
        raise BadRunFile(f"{key}.statistic: {name} is a {type(kind).__name__}; expected a class of statistics")
    known = inspect.signature(kind).parameters
    _only(options, key, tuple(known))
    if "function" in options:
        options["function"] = _object(_word(options["function"], f"{key}.function"), f"{key}.function", admission)
    return _called(kind, options, key)


def _stop(tables: Any, stopped: Any, admission: Admission) -> dict[str, Any]:
    """Return the option `stop` of simulate, if there are levels."""
    if not isinstance(tables, list):
        raise BadRunFile(f"stop: expected tables, [[stop]], got {tables!r}")
    if not tables:
        if stopped is not None:
            raise BadRunFile("run.stopped: there is no table [[stop]], so no path is stopped; leave it out")
        return {}
    levels = [_level(entry, f"stop[{k}]", admission) for k, entry in enumerate(tables)]
    return {"stop": _called(lambda **kind: Stop(*levels, **kind), {} if stopped is None else {"stopped": stopped},
                            "run.stopped")}  # fmt: skip


def _level(value: Any, key: str, admission: Admission) -> Level:
    table = dict(_table(value, key))
    _only(table, key, ("level", "of", "direction"), needed=("level",))
    if isinstance(table["level"], str):
        table["level"] = _object(table["level"], f"{key}.level", admission)
    if isinstance(table.get("of"), str) and ":" in table["of"]:
        table["of"] = _object(table["of"], f"{key}.of", admission)
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
    most, workers = MOST_WORKERS_PER_CORE * available_cores(), table.get("workers")
    if isinstance(workers, int) and workers > most:
        raise BadRunFile(f"place.workers: {workers} are more than a file may ask for here, {most}")
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
    if "netcdf" in table and not _word(table["netcdf"], "output.netcdf").endswith(".nc"):
        raise BadRunFile(f"output.netcdf: expected a name that ends in .nc, got {table['netcdf']!r}")
    return {key: home / _word(value, f"output.{key}") for key, value in table.items()}


def write_outputs(
    result: xr.Dataset, outputs: Mapping[str, Path], pictures_of: Callable | None = None
) -> Iterator[Path]:
    """Write the requested outputs; yield each file. The pictures are those of a run unless another function draws."""
    if "netcdf" in outputs:
        outputs["netcdf"].parent.mkdir(parents=True, exist_ok=True)
        results.save(result, outputs["netcdf"])
        yield outputs["netcdf"]
    if "csv" in outputs:
        outputs["csv"].mkdir(parents=True, exist_ok=True)
        for dims in dict.fromkeys(result[name].dims for name in result.data_vars):
            names = [name for name in result.data_vars if result[name].dims == dims]
            file = _fresh(outputs["csv"], f"{'_'.join(map(str, dims)) or 'numbers'}.csv")
            table = result[names].reset_coords(drop=True)
            if dims:
                table.to_dataframe(dim_order=list(dims)).to_csv(file)
            else:
                file.write_text("".join(f"{name},{table[name].item()!r}\n" for name in names), encoding="utf-8")
            yield file
    if "pictures" in outputs:
        outputs["pictures"].mkdir(parents=True, exist_ok=True)
        for name, axes in (pictures_of or _pictures)(result):
            file = _fresh(outputs["pictures"], f"{name}.png")
            plot.save(axes, file)
            yield file


def _fresh(folder: Path, name: str) -> Path:
    """A file in the folder: names in a run may hold slashes, and a link left there would lead elsewhere."""
    file = folder / re.sub(r"[^\w.+ -]", "_", name)
    if file.is_symlink():
        file.unlink()
    return file


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
