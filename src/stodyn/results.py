"""Results: statistics as an xarray.Dataset with names, units and provenance, saved and loaded without loss."""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from stodyn import deprecation
from stodyn.arguments import checks_arguments, expect_dataset, suggestion
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Labels, Statistic, Variable
from stodyn.telling import tell

LARGEST_KEPT = 100_000  # most numbers of a coordinate whose index is reused from result to result
EXPANSION, SMALL = 1000, 64 * 2**20  # times the bytes of a NetCDF file that are read from it, at least 64 MiB
RENAMED = {"sound": "paths_used", "sound_in_histogram": "paths_used_in_histogram"}  # variables, since version 0.4


class DataArray(xr.DataArray):
    """A variable of a run: where a component is asked for as if it were a coordinate, the error says how to choose it.

    It has the name of xarray's own class, which printing shows."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except KeyError:
            if isinstance(key, str) and "component" in self.coords:
                raise KeyError(_by_component(str(self.name), key, self["component"].values)) from None
            raise


class Dataset(xr.Dataset):
    """A run: old names of variables are answered, with a warning that names the new ones."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in RENAMED and key not in self.variables:
            deprecation.answer(f"run[{key!r}]", f"run[{RENAMED[key]!r}]", "0.4")
            key = RENAMED[key]
        try:
            value = super().__getitem__(key)
        except KeyError:
            if isinstance(key, str) and key in self.coords.get("component", ()):
                raise KeyError(_by_component("mean", key, [key])) from None
            raise
        if isinstance(value, xr.DataArray):
            value.__class__ = DataArray
        return value

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if not name.startswith("_") and name in self.coords.get("component", ()):
                raise AttributeError(_by_component("mean", name, [name])) from None
            raise


def _by_component(variable: str, key: str, components: Any) -> str:
    """How a component is chosen, for an error about `key`."""
    known = [str(name) for name in np.atleast_1d(components)]
    if key not in known:
        names = f"{', '.join(known)}{suggestion(key, known)}"
        return f"{key!r} is no coordinate of {variable!r}; its components are {names}"
    return f"{key!r} is a component: write run[{variable!r}].sel(component={key!r})"


def answering(run: xr.Dataset) -> xr.Dataset:
    """Return a Dataset as a run, which answers old names; those of files of older versions become the new ones."""
    old = {name: new for name, new in RENAMED.items() if name in run.variables}
    run = run.rename(old) if old else run
    run.__class__ = Dataset
    return run


def dataset(
    labelled: Sequence[tuple[Statistic, Labelled, Labels]], extra: Mapping[str, Any], provenance: Mapping[str, Any]
) -> xr.Dataset:
    """Return all collected statistics as one Dataset.

    The first grid of times is the dimension `time`; a statistic with another grid has its own, `time_` and its name
    in small letters.
    """
    variables, coords = _warned(labelled, extra)
    return answering(xr.Dataset(variables, _indexed(coords), attributes(provenance)))


def variables(labelled: Sequence[tuple[Statistic, Labelled, Labels]]) -> dict[str, Variable]:
    """Return the variables of a Dataset without making it, which takes longer than the steps of a few paths."""
    return {name: Variable(*variable) for name, variable in _warned(labelled, {})[0].items()}


def _warned(
    labelled: Sequence[tuple[Statistic, Labelled, Labels]], extra: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables and coordinates of the statistics, which may warn."""
    for warning in (warning for _, result, _ in labelled for warning in result.warnings):
        tell(str(warning), type(warning))
    return merged(labelled, extra)


def with_warnings(result: Any, messages: list[str]) -> Any:
    """Return a result; one with a provenance says there what the user was warned of while it was made."""
    if messages and isinstance(result, xr.Dataset) and "provenance" in result.attrs:
        result.attrs["provenance"] = json.dumps({**json.loads(result.attrs["provenance"]), "warnings": messages})
    return result


def attributes(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of a Dataset: how it was made in words a person reads, and the whole record as JSON.

    The words are those that `print` and a notebook show of a run: the problem, the structure of its noise and how that
    structure is known, the method with its steps and paths and, where no method was named, those of higher order.
    """
    words = {}
    if "problem" in record and "noise" in record:
        words["problem"] = f"{record['problem']}, noise: {record['noise']}"
    if "method" in record and "steps" in record:
        words["run"] = run_in_words(record)
    if record.get("advice"):
        words["advice"] = record["advice"]
    return {**words, "provenance": json.dumps(record)}


def run_in_words(record: Mapping[str, Any]) -> str:
    """Describe a run by its provenance: 100,000 paths by Heun, 800 steps of 0.01 from 0 to 8, seed 1."""
    paths = f"{record['paths']:,} paths by " if "paths" in record else ""
    swept = record["sweep"]["points"].values() if "sweep" in record else ()
    points = f"{' x '.join(str(len(points)) for points in swept)} points, " if swept else ""
    steps = f"{record['steps']:,} steps"
    steps += f" of {record['dt']:g}" if isinstance(record.get("dt"), float) else ""
    steps += f" from {record['t'][0]:g} to {record['t'][1]:g}" if "t" in record else ""
    seed = f", seed {record['seed']}" if record.get("seed") is not None else ""
    return f"{points}{paths}{record['method'].partition('(')[0]}, {steps}{seed}"


def merged(
    labelled: Sequence[tuple[Statistic, Labelled, Labels]], extra: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables and coordinates of all collected statistics; refuse those one Dataset cannot hold."""
    variables: dict[str, Any] = dict(extra)
    coords: dict[str, Any] = {}
    grids: list[tuple[str, np.ndarray]] = []
    for statistic, result, run in labelled:
        time, unit = "time", run.units.get("time")
        if any("time" in variable.dims for variable in (*result.variables.values(), *result.coords.values())):
            time = _time_dimension(statistic, run, grids)
            coords[time] = ((time,), run.times, {"units": unit} if unit else {})
        rename = {"time": time}
        for name, coordinate in result.coords.items():
            values = ((*coordinate.dims,), coordinate.values)
            if name in coords and not np.array_equal(coords[name][1], coordinate.values):
                raise ValueError(f"collect: two statistics disagree on {name!r}; run them apart")
            coords[name] = values
        for name, variable in result.variables.items():
            if name in variables:
                raise ValueError(f"collect: {name!r} is collected twice; leave one out, or give name= to an Observable")
            dims = tuple(rename.get(dim, dim) for dim in variable.dims)
            attrs = dict(variable.attrs)
            units = {name: unit for name, unit in run.units.items() if name != "time"}
            if "component" in dims and units:
                attrs["units"] = json.dumps(units)
            variables[name] = (dims, variable.values, attrs)
            if "component" in dims:
                coords["component"] = (("component",), np.array(run.names))
    clashes = set(variables) & (set(coords) | {dim for dims, *_ in variables.values() for dim in dims} - {"path"})
    if clashes:
        raise ValueError(
            f"collect: {sorted(clashes)[0]!r} is a dimension of the result; give the Observable another name="
        )
    return variables, coords


def _indexed(coords: dict[str, Any]) -> xr.Coordinates | dict[str, Any]:
    """Return the coordinates, with indexes for those of dimensions.

    Building an index takes longer than the rest of a Dataset, so the latest indexes are reused.
    """
    entries, others = [], {}
    for name, (dims, values, *attrs) in coords.items():
        array = np.asarray(values)
        if dims != (name,) or array.dtype == object or array.size > LARGEST_KEPT:
            others[name] = (dims, values, *attrs)
        else:
            entries.append((name, array.dtype.str, array.tobytes(), *(tuple(a.items()) for a in attrs)))
    try:
        indexed = _indexes(tuple(entries))
    except TypeError:  # attributes that cannot be compared
        return coords
    return indexed.assign(others) if others else indexed


@functools.lru_cache(maxsize=16)
def _indexes(entries: tuple) -> xr.Coordinates:
    """Build coordinates with indexes from their names, types, bytes and attributes."""
    coords = {name: ((name,), np.frombuffer(data, dtype), *map(dict, attrs)) for name, dtype, data, *attrs in entries}
    return xr.Coordinates(xr.Dataset(coords=coords).coords)


def _time_dimension(statistic: Statistic, labels: Labels, grids: list[tuple[str, np.ndarray]]) -> str:
    """The name of the dimension of a statistic's times; a grid that is new is added to the known ones."""
    for name, times in grids:
        if np.array_equal(times, labels.times):
            return name
    name = "time" if not grids else f"time_{type(statistic).__name__.lower()}"
    while name in (known for known, _ in grids):
        name += "_"
    grids.append((name, labels.times))
    return name


@checks_arguments
def provenance(run: xr.Dataset) -> dict[str, Any]:
    """Return how a run was made: seed, paths, steps, method, executor, versions, and conversions with their reasons.

    Parameters
    ----------
    run : Dataset
        A result of this library.

    Returns
    -------
    dict
        The record, with strings, numbers, lists and dicts as values.

    Raises
    ------
    ValueError
        If the Dataset was not made by this library.

    Examples
    --------
    >>> import stodyn as sd
    >>> from stodyn.models.kubo import kubo
    >>> run = sd.simulate(kubo(), t=(0, 1), dt=0.1, paths=8, seed=1)
    >>> sd.provenance(run)["paths"]
    8
    """
    expect_dataset(run, "run")
    try:
        return json.loads(run.attrs["provenance"])
    except KeyError:
        raise ValueError("run: this Dataset has no provenance; it was not made by simulate") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("run: the provenance of this Dataset is not the record that simulate writes") from error


@checks_arguments
def save(run: xr.Dataset, file: str | Path) -> None:
    """Write a run to a NetCDF file, from which `load` reads an equal one.

    The file is written whole or not at all: if the disk is full, a file that was there before is kept.

    Parameters
    ----------
    run : Dataset
        A result of this library.
    file : str or Path
        Where to write it, usually with the ending .nc.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    OSError
        If the file cannot be written.
    """
    expect_dataset(run, "run")
    file = Path(file).absolute()
    if not file.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {file.parent}; make it first")
    unfinished = file.parent / f".unfinished-{uuid.uuid4().hex}"
    try:
        run.to_netcdf(unfinished, engine="netcdf4")
        os.replace(unfinished, file)
    except (OSError, RuntimeError) as error:  # the library says "HDF error" where the disk is full
        raise OSError(
            f"save: {file} could not be written ({error}). Is there room for {run.nbytes / 1e6:.3g} MB, and permission "
            "to write there?"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def load(file: str | Path) -> xr.Dataset:
    """Read a run from a NetCDF file.

    Parameters
    ----------
    file : str or Path
        A file that `save` wrote.

    Returns
    -------
    Dataset
        The run.

    Raises
    ------
    ValueError
        If the file cannot be read as NetCDF, or holds more numbers than a file of its size can.
    """
    if not Path(file).is_file():  # a pipe would never end
        raise ValueError(f"load: {file} is not a NetCDF file that can be read (it is not a file)")
    most = max(EXPANSION * Path(file).stat().st_size, SMALL)
    try:
        with xr.open_dataset(file, engine="netcdf4", decode_times=False) as opened:  # times in seconds are not dates
            size = opened.nbytes
            if size <= most:
                return answering(opened.load())
    except Exception as error:  # the library and xarray refuse damaged files in many ways
        raise ValueError(f"load: {file} is not a NetCDF file that can be read ({error})") from error
    raise ValueError(f"load: {file} would take {size:.3g} bytes of memory, which a file of its size cannot hold")


@checks_arguments
def interval(run: xr.Dataset, name: str, confidence: float = 0.95) -> xr.Dataset:
    """Return a confidence interval of a variable that has a standard error, by the rule that fits what it estimates.

    For a variance or a probability from few paths, value ± 2 stderr is a poor interval: it lies too low, or leaves the
    range of possible values. The attributes of a variable name its rule and the number of paths: Student's
    for means, chi-square with the measured kurtosis for variances, that of Clopper and Pearson for probabilities
    and densities (see stodyn.statistics.intervals).

    Parameters
    ----------
    run : Dataset
        A result of `simulate`.
    name : str
        A variable such as "mean", "variance", "density" or "passage_survival".
    confidence : number
        The probability, between 0 and 1, with which the interval covers the truth.

    Returns
    -------
    Dataset
        The variables `low` and `high`, with the dimensions of the variable.

    Raises
    ------
    ValueError
        If the run has no such variable, or the variable has no rule.

    Examples
    --------
    >>> import stodyn as sd
    >>> from stodyn.models.kubo import kubo
    >>> run = sd.simulate(kubo(), t=(0, 1), dt=0.1, paths=8, seed=1)
    >>> bool((sd.interval(run, "variance").low <= run.variance).all())
    True
    """
    expect_dataset(run, "run")
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float, np.number)) or not 0 < confidence < 1:
        raise ValueError(f"confidence: expected a number between 0 and 1, got {confidence!r}; 95 % is 0.95")
    known = [v for v in run.data_vars if "interval" in run[v].attrs and f"{v}_stderr" in run]
    if name not in known:
        way_out = run[name].attrs.get("stderr", "") if name in run else ""
        raise ValueError(
            f"name: {name!r} has no interval in this run; these have: {', '.join(map(repr, known)) or 'none'}"
            + (f". It has no standard error: {way_out}" if way_out else suggestion(name, known))
        )
    if run[name].attrs["interval"] == intervals.COVARIANCE:
        _expect_all_pairs(run[name])
    variable, stderr = run[name], run[f"{name}_stderr"].values
    paths = variable.attrs["paths"]
    counted = dict(variable.attrs) | ({"paths": run[paths].values} if isinstance(paths, str) else {})
    low, high = intervals.limits(variable.values, stderr, counted, float(confidence))
    return xr.Dataset(
        {"low": (variable.dims, low), "high": (variable.dims, high)},
        {dim: run[dim] for dim in variable.dims if dim in run.coords},
        {"of": name, "confidence": float(confidence), "rule": variable.attrs["interval"]},
    )


def _expect_all_pairs(covariance: xr.DataArray) -> None:
    """Refuse some of the covariances without the variances on their diagonal."""
    names = [np.atleast_1d(covariance[dim].values).tolist() for dim in ("component", "other")]
    if covariance.dims[-2:] != ("component", "other") or names[0] != names[1]:
        raise ValueError(
            "run: an interval of a covariance takes both variances too, and this run is cut to some of its components. "
            "Take the interval of the whole run, and select from that"
        )


@checks_arguments
def quantile(run: xr.Dataset, q: float) -> xr.Dataset:
    """Return the q-quantile of every component from a run with a Histogram, its standard error and its resolution.

    Parameters
    ----------
    run : Dataset
        A run that collected statistics.Histogram.
    q : float
        The level of the quantile, between 0 and 1.

    Returns
    -------
    Dataset
        The variables quantile; quantile_stderr, the sampling error √(q(1-q)/N) over the density there; and
        quantile_resolution, the width of the bin it lies in, within which the distribution is taken as uniform. All
        are NaN where the quantile lies outside the edges.

    Raises
    ------
    ValueError
        If `q` is not between 0 and 1, or the run has no histogram.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> from stodyn import statistics as st
    >>> from stodyn.models.kubo import kubo
    >>> collect = st.Histogram(np.linspace(-4, 4, 81), at=[1.0])
    >>> run = sd.simulate(kubo(), t=(0, 1), dt=0.1, paths=64, seed=1, collect=collect)
    >>> median = sd.quantile(run, 0.5)["quantile"]
    """
    if not isinstance(q, (int, float, np.number)) or not 0 < q < 1:
        raise ValueError(f"q: expected a number between 0 and 1, got {q}; 50 % is 0.5")
    expect_dataset(run, "run")
    if "cumulative" not in run:
        ask = "Surrogate(quantiles=(...))" if "coefficient" in run else "Histogram(edges)"
        raise ValueError(f"run: no histogram was collected; add statistics.{ask} to collect=")
    edges, cumulative = run["edge"].values, run["cumulative"]
    count = run["paths_used_in_histogram"].values

    def at(values, number):
        k = np.searchsorted(values, q, side="right") - 1
        if not 0 <= k < len(edges) - 1:
            return np.full(3, np.nan)
        width, share = edges[k + 1] - edges[k], values[k + 1] - values[k]
        return np.array(
            [edges[k] + width * (q - values[k]) / share, np.sqrt(q * (1 - q) / number) * width / share, width]
        )

    quantiles = np.array([[at(v, c) for v in row] for row, c in zip(cumulative.values, count, strict=True)])
    dims = cumulative.dims[:2]
    names = ("quantile", "quantile_stderr", "quantile_resolution")
    coords = {dim: run[dim] for dim in dims}
    return xr.Dataset({name: (dims, quantiles[..., k]) for k, name in enumerate(names)}, coords, {"q": q})
