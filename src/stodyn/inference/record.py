"""Data as a record: times, readings, and the sensors that made them."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stodyn.arguments import checks_arguments, suggestion
from stodyn.problems.sensor import Sensor

ONE_TIME = 1e-12  # of the span: times closer than this are one
UNIT = re.compile(r"(?P<name>.*?)\s*\[(?P<unit>[^\[\]]*)\]")  # the head of a column
SHOWN = 5  # rows of a record that are printed at either end


class Series(NamedTuple):
    """The readings of one sensor: its times (k,), and values (k, outputs) with NaN where one is missing."""

    times: np.ndarray
    values: np.ndarray
    unit: str | None


@checks_arguments
@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class Record:
    """Readings of sensors at their times.

    Parameters
    ----------
    data : mapping, table, or (times, values)
        {name of a sensor: (times, values)}, where each has times of its own; a pandas DataFrame or Series whose index
        is time, and whose columns may have units, "level [m]"; an xarray Dataset or DataArray with the dimension time;
        or arrays (times, values), a column for each output. A sensor with several outputs has values (times, outputs),
        or the columns "name.0", "name.1", ... Times are when a reading is taken, whatever its sensor's `delay`. Missing
        readings are NaN, None or masked.
    sensors : Sensor or sequence of Sensor
        What made the readings, by their names; of arrays and of a table with one column, in the order of the columns.
    epoch : datetime64, optional
        The time 0 where times are dates; by default the first one. They become seconds, in UTC where they have a zone.

    Attributes
    ----------
    times : array (times,)
        All times at which something was read, in order. Times closer than 1e-12 of the span are one.
    values : array (times, outputs)
        The readings, NaN where an output was not read.
    columns : tuple of str
        The names of the outputs.

    Raises
    ------
    TypeError, ValueError
        If names or units of data and sensors differ, times go back, a value is infinite, or everything is missing.

    Notes
    -----
    An increment is counted from the sensor's time before, whether a value is there or not. Where a table has several
    sensors, the times of a sensor are the rows in which it has a value.

    Examples
    --------
    >>> import stodyn as sd
    >>> level = sd.Sensor("level", of="x", noise=sd.per_sample(0.1))
    >>> sd.Record({"level": ([0.0, 0.5, 2.0], [1.1, None, 0.9])}, level).values.ravel()
    array([1.1, nan, 0.9])
    """

    sensors: tuple[Sensor, ...]
    series: tuple[Series, ...]
    times: np.ndarray
    values: np.ndarray

    def __init__(self, data: Any, sensors: Sensor | Sequence[Sensor], *, epoch: Any = None):
        chosen = _checked_sensors(sensors)
        series = tuple(
            _checked_series(sensor, own) for sensor, own in zip(chosen, _read(data, chosen, epoch), strict=True)
        )
        if not any(np.isfinite(own.values).any() for own in series):
            raise ValueError("data: all values are missing")
        times = distinct(np.concatenate([own.times for own in series]))
        values = np.full((len(times), sum(own.values.shape[1] for own in series)), np.nan)
        first = 0
        for sensor, own in zip(chosen, series, strict=True):
            values[places_of(sensor, own, times), first : first + own.values.shape[1]] = own.values
            first += own.values.shape[1]
        for name, value in (("sensors", chosen), ("series", series), ("times", times), ("values", values)):
            object.__setattr__(self, name, value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(
            name
            for sensor, own in zip(self.sensors, self.series, strict=True)
            for name in outputs_of(sensor.name, own.values.shape[1])
        )

    def __repr__(self) -> str:
        ends = range(len(self.times))
        chosen = [*ends[:SHOWN], *ends[max(SHOWN, len(ends) - SHOWN) :]]
        both = zip(self.sensors, self.series, strict=True)
        units = [f" [{sensor.unit}]" if sensor.unit else "" for sensor, own in both for _ in range(own.values.shape[1])]
        head = ["time", *(name + unit for name, unit in zip(self.columns, units, strict=True))]
        body = [[f"{self.times[k]:.6g}", *("" if np.isnan(v) else f"{v:.6g}" for v in self.values[k])] for k in chosen]
        widths = [max(len(row[j]) for row in [head, *body]) for j in range(len(head))]
        lines = ["  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)) for row in [head, *body]]
        if len(chosen) < len(self.times):
            lines.insert(1 + SHOWN, f"... {len(self.times) - len(chosen)} more")
        return "\n".join(line.rstrip() for line in lines)


def outputs_of(name: str, count: int) -> list[str]:
    """Return the names of a sensor's outputs."""
    return [name] if count == 1 else [f"{name}.{k}" for k in range(count)]


def as_record(data: Any, sensors: Any) -> Record:
    """Return data as a record, where they are not one already."""
    if isinstance(data, Record):
        if sensors is None:
            return data
        both = zip(data.sensors, data.series, strict=True)
        return Record({sensor.name: (own.times, own.values) for sensor, own in both}, sensors)
    if sensors is None:
        raise TypeError("sensors: expected the sensors that made the readings, or data=sd.Record(...), which has them")
    return Record(data, sensors)


def nearest(times: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the numbers of the times next to own ones."""
    right = np.clip(np.searchsorted(times, own), 1, max(len(times) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(times) - 1)
    return np.where(np.abs(times[left] - own) <= np.abs(times[right] - own), left, right)


def places_of(sensor: Sensor, own: Series, times: np.ndarray) -> np.ndarray:
    """Return the numbers of the times of a sensor's readings; refuses two readings at one time."""
    rows = nearest(times, own.times)
    same = np.flatnonzero(np.diff(rows) <= 0)
    if same.size:
        first, then = own.times[same[0]], own.times[same[0] + 1]
        raise ValueError(
            f"data ({sensor.name}): the times {first:.17g} and {then:.17g} are one to {ONE_TIME:g} of the time from "
            f"{times[0]:.12g} to {times[-1]:.12g}. Give one reading for each time, and a start t0 close to the first "
            "one"
        )
    return rows


def distinct(times: np.ndarray) -> np.ndarray:
    """Return times in order; of those that are closer than 1e-12 of the span, the first."""
    times = np.unique(times)
    return times[np.diff(times, prepend=-np.inf) > ONE_TIME * (times[-1] - times[0])]


def _checked_sensors(sensors: Any) -> tuple[Sensor, ...]:
    chosen = (sensors,) if isinstance(sensors, Sensor) else tuple(sensors) if isinstance(sensors, Sequence) else ()
    if not chosen or not all(isinstance(sensor, Sensor) for sensor in chosen):
        raise TypeError(f"sensors: expected sd.Sensor(...) or a list of them, got {sensors!r}")
    names = [sensor.name for sensor in chosen]
    if len(set(names)) < len(names):
        raise ValueError(f"sensors: expected different names, got {', '.join(names)}")
    return chosen


def _checked_series(sensor: Sensor, own: Series) -> Series:
    """The readings of a sensor after the checks that need nothing but them."""
    name = sensor.name
    if own.unit is not None and sensor.unit is not None and own.unit != sensor.unit:
        raise ValueError(f"data ({name}): their unit is {own.unit!r}, that of the sensor {sensor.unit!r}")
    if len(own.times) != len(own.values):
        raise ValueError(f"data ({name}): got {len(own.times)} times and {len(own.values)} values")
    if len(own.times) == 0:
        raise ValueError(f"data ({name}): there are no readings")
    if not np.isfinite(own.times).all():
        raise ValueError(f"data ({name}): time {int(np.argmin(np.isfinite(own.times)))} is not finite")
    back = np.flatnonzero(np.diff(own.times) <= 0)
    if back.size:
        k = int(back[0])
        raise ValueError(
            f"data ({name}): times have to increase, but time {own.times[k + 1]:.12g} follows {own.times[k]:.12g} "
            f"(rows {k} and {k + 1}). Sort them, and give one reading for each time."
        )
    if np.isinf(own.values).any():
        k = int(np.argmax(np.isinf(own.values).any(axis=1)))
        raise ValueError(
            f"data ({name}): the value at time {own.times[k]:.12g} is infinite; write NaN where it is missing"
        )
    return own


# --- the forms in which data come -------------------------------------------------------------------------------------


def _read(data: Any, sensors: Sequence[Sensor], epoch: Any) -> list[Series]:
    if isinstance(data, Mapping) and not hasattr(data, "data_vars"):
        return _of_mapping(data, sensors, epoch)
    if hasattr(data, "data_vars") or (hasattr(data, "dims") and hasattr(data, "coords")):
        return _of_xarray(data, sensors, epoch)
    if hasattr(data, "index") and hasattr(data, "to_numpy"):
        return _of_pandas(data, sensors, epoch)
    if isinstance(data, tuple | list) and len(data) == 2:
        times, values = _seconds(data[0], epoch), _numbers("data", data[1])
        return _of_columns(times, values, sensors)
    raise TypeError(
        "data: expected a dict {sensor: (times, values)}, a table of pandas or xarray, or (times, values), got "
        f"{type(data).__name__}; values alone do not say when they were read: write data=(dt * np.arange(len(values)), "
        "values)"
    )


def _of_mapping(data: Mapping, sensors: Sequence[Sensor], epoch: Any) -> list[Series]:
    _match_names(list(data), sensors)
    pairs = [data[sensor.name] for sensor in sensors]
    for sensor, pair in zip(sensors, pairs, strict=True):
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise TypeError(f"data ({sensor.name}): expected (times, values), got {type(pair).__name__}")
    if epoch is None:
        dates = [np.asarray(times)[0] for times, _ in pairs if np.asarray(times).dtype.kind == "M" and len(times)]
        epoch = min(dates) if dates else None
    return [Series(_seconds(times, epoch), _as_columns(sensor.name, _numbers(f"data ({sensor.name})", values)), None)
            for sensor, (times, values) in zip(sensors, pairs, strict=True)]  # fmt: skip


def _of_columns(times: np.ndarray, values: np.ndarray, sensors: Sequence[Sensor]) -> list[Series]:
    """Arrays: one sensor takes all columns, several take one each."""
    values = _as_columns("values", values)
    if len(sensors) == 1:
        return [Series(times, values, None)]
    if values.shape[1] != len(sensors):
        raise ValueError(
            f"data: got {values.shape[1]} columns for {len(sensors)} sensors; where a sensor has several outputs write "
            "{sensor: (times, values)}"
        )
    return [_thinned(times, values[:, [k]], None) for k in range(len(sensors))]


def _of_pandas(data: Any, sensors: Sequence[Sensor], epoch: Any) -> list[Series]:
    if type(data.index).__name__ == "RangeIndex":
        raise ValueError(
            "data: the index of this table is the numbers of its rows, and times are the index of a table: "
            "data.set_index('time'), or data.set_index(data.index * dt) for rows that are dt apart"
        )
    times = _seconds(_without_zone(data.index).to_numpy(), epoch)
    if not hasattr(data, "columns") and data.name is None:
        return _of_columns(times, _numbers("data", data.to_numpy()), sensors)
    own = {str(column): data[column] for column in data.columns} if hasattr(data, "columns") else {str(data.name): data}
    heads = [name_and_unit(head, sensors) for head in own]
    names = [name for name, _ in heads]
    owners = _owners(names, sensors)
    if len(set(names)) < len(names):
        raise ValueError(f"data: expected different columns, got {', '.join(own)}")
    values = [_numbers(f"data ({head})", column.to_numpy()) for head, column in own.items()]
    units = data.attrs.get("units", {}) if isinstance(getattr(data, "attrs", None), Mapping) else {}
    in_heads = _one_unit_each((owner, unit) for owner, (_, unit) in zip(owners, heads, strict=True) if unit)
    known = {**in_heads, **(units if isinstance(units, Mapping) else {})}
    return _of_table(times, dict(zip(names, values, strict=True)), known, sensors)


def _one_unit_each(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The units of sensors, from (sensor, unit) of their columns; refuses two units of one sensor."""
    units: dict[str, str] = {}
    for sensor, unit in pairs:
        if units.setdefault(sensor, unit) != unit:
            raise ValueError(f"data ({sensor}): its columns have the units {units[sensor]!r} and {unit!r}; give one")
    return units


def name_and_unit(head: str, sensors: Sequence[Sensor]) -> tuple[str, str | None]:
    """Return what the head of a column says: `gauge [m]` are readings of the sensor gauge in m."""
    match = UNIT.fullmatch(head)
    if match is None or head in {sensor.name for sensor in sensors}:
        return head, None
    return match["name"], match["unit"] or None


def _without_zone(index: Any) -> Any:
    """An index of pandas whose times of a zone are those of UTC, and whose periods are their beginnings."""
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    return index.tz_convert("UTC").tz_localize(None) if getattr(index, "tz", None) is not None else index


def _of_xarray(data: Any, sensors: Sequence[Sensor], epoch: Any) -> list[Series]:
    own = {sensor.name for sensor in sensors}
    grids = {dim for name in own & set(getattr(data, "data_vars", ())) for dim in data[name].dims
             if str(dim).startswith("time_")}  # fmt: skip
    if len(grids) == 1:  # of a run that has other times too
        data = data[[name for name in data.data_vars if grids <= set(data[name].dims)]].rename({grids.pop(): "time"})
    if "time" not in data.dims:
        raise ValueError(f"data: expected the dimension 'time', got {', '.join(map(str, data.dims))}")
    if "time" not in data.coords:
        raise ValueError("data: its dimension 'time' has no times; write data.assign_coords(time=...)")
    table = data.data_vars if hasattr(data, "data_vars") else {data.name or sensors[0].name: data}
    columns: dict[str, np.ndarray] = {}
    units: dict[str, Any] = {}
    for name, variable in table.items():
        if "time" not in variable.dims or (str(name) not in {s.name for s in sensors} and len(table) > len(sensors)):
            continue
        others = [dim for dim in variable.dims if dim != "time" and variable.sizes[dim] > 1]
        if "number" in others:
            raise ValueError(
                f"data ({name}): expected one path, got {variable.sizes['number']}; write data.sel(number=0)"
            )
        single = [dim for dim in variable.dims if dim != "time" and dim not in others]
        values = _numbers(f"data ({name})", variable.squeeze(single, drop=True).transpose("time", *others).values)
        columns |= dict(zip(outputs_of(str(name), _width(values)), _as_columns(str(name), values).T, strict=True))
        units[str(name)] = variable.attrs.get("units", variable.attrs.get("unit"))
    return _of_table(_seconds(data["time"].values, epoch), columns, units, sensors)


def _of_table(
    times: np.ndarray, columns: Mapping[str, np.ndarray], units: Mapping, sensors: Sequence[Sensor]
) -> list[Series]:
    owners, series = _owners(columns, sensors), []
    for sensor in sensors:
        own = np.stack([columns[c] for c, owner in zip(columns, owners, strict=True) if owner == sensor.name], axis=1)
        unit = units.get(sensor.name)
        series.append(Series(times, own, unit) if len(sensors) == 1 else _thinned(times, own, unit))
    return series


def _owners(columns: Iterable[str], sensors: Sequence[Sensor]) -> list[str]:
    """The sensor to which each column of a table belongs."""

    def belongs(column: str, name: str) -> bool:
        return column == name or column.rpartition(".")[0] == name

    owners = [next((s.name for s in sensors if belongs(column, s.name)), column) for column in columns]
    _match_names(list(dict.fromkeys(owners)), sensors)
    return owners


def _thinned(times: np.ndarray, values: np.ndarray, unit: str | None) -> Series:
    """The rows in which a sensor has a value, or all where it has none."""
    there = ~np.isnan(values).all(axis=1)
    return Series(times[there], values[there], unit) if there.any() else Series(times, values, unit)


def _match_names(there: Sequence[Any], sensors: Sequence[Sensor]) -> None:
    names = [sensor.name for sensor in sensors]
    for name in there:
        if name not in names:
            hint = ". Times are the index of a table: data.set_index('time')" if name == "time" else ""
            raise ValueError(f"data: there is no sensor {name!r}; the sensors are {', '.join(names)}"
                             f"{suggestion(str(name), names)}{hint}")  # fmt: skip
    for name in names:
        if name not in there:
            raise ValueError(f"data: nothing of the sensor {name!r}; there is {', '.join(map(str, there))}")


def _seconds(times: Any, epoch: Any) -> np.ndarray:
    """Times as numbers; dates as seconds since the epoch."""
    array = np.asarray(times)
    if array.dtype.kind == "O" and array.size and all(isinstance(time, datetime.datetime) for time in array.flat):
        array = np.array([_date(time) for time in array.flat])
    if array.dtype.kind == "M":
        known = array[~np.isnat(array)]
        begin = _date(epoch) if epoch is not None else known.min() if known.size else array
        return (array - begin) / np.timedelta64(1, "s")
    if array.dtype.kind == "m":
        return array / np.timedelta64(1, "s")
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise TypeError(
            f"data: expected times as a vector of numbers or dates, got {array.dtype} of shape {array.shape}"
        )
    return array.astype(float)


def _date(time: Any) -> np.datetime64:
    """A date of Python, pandas or NumPy, in UTC where it has a zone."""
    if getattr(time, "tzinfo", None) is not None:
        time = time.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(time)


def _numbers(name: str, values: Any) -> np.ndarray:
    """Values as numbers, NaN for those that are missing."""
    if np.ma.isMaskedArray(values):
        return np.ma.filled(values.astype(float), np.nan)
    try:
        if np.iscomplexobj(values):
            raise TypeError("complex numbers")
        return np.asarray(values, float)  # None becomes NaN
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected numbers, NaN where one is missing, got {values!r}") from error


def _width(values: np.ndarray) -> int:
    return 1 if values.ndim == 1 else values.shape[1]


def _as_columns(name: str, values: np.ndarray) -> np.ndarray:
    if values.ndim not in (1, 2):
        raise ValueError(f"data ({name}): expected values (times,) or (times, outputs), got shape {values.shape}")
    return values[:, None] if values.ndim == 1 else values
