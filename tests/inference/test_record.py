"""Data in all their forms, and what is refused of them."""

import datetime

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from inference.records import TIMES, VALUES, K, ornstein_uhlenbeck, oscillator, sensor

import stodyn as sd


class Index:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class Column:
    """What pandas has of a Series, as far as a record looks."""

    def __init__(self, index, values, name=None):
        self.index, self.values, self.name = Index(index), values, name

    def to_numpy(self):
        return self.values


class Table:
    """What pandas has of a DataFrame, as far as a record looks."""

    def __init__(self, index, attrs=None, **columns):
        self.index, self.data, self.columns, self.attrs = Index(index), columns, list(columns), attrs or {}

    def __getitem__(self, name):
        return Column(self.index.values, self.data[name], name)

    def to_numpy(self):
        return np.stack(list(self.data.values()), axis=1)


def test_all_forms_give_the_same_record():
    times, values = np.array([0.0, 0.5, 2.0]), np.array([1.1, np.nan, 0.9])
    forms = [
        {"y": (times, [1.1, None, 0.9])},
        {"y": (times, np.ma.masked_invalid(values))},
        (times, values),
        Table(times, y=values),
        Column(times, values, "y"),
        xr.Dataset({"y": ("time", values)}, {"time": times}),
        xr.DataArray(values[None], {"number": [0], "time": times}, ("number", "time"), name="y"),
    ]
    for data in forms:
        record = sd.Record(data, sensor(noise=0.1))
        np.testing.assert_array_equal(record.times, times)
        np.testing.assert_array_equal(record.values[:, 0], values)


def test_sensors_have_times_of_their_own():
    data = {"a": ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), "b": ([0.5, 1.0 + 1e-13], [[4.0, 5.0], [6.0, 7.0]])}
    record = sd.Record(data, [sensor("a", noise=0.1), sensor("b", of=["x", "v"], noise=0.1)])
    np.testing.assert_array_equal(record.times, [0.0, 0.5, 1.0, 2.0])
    assert record.columns == ("a", "b.0", "b.1")
    np.testing.assert_array_equal(record.values[2], [2.0, 6.0, 7.0])
    assert repr(record).splitlines()[0].split() == ["time", "a", "b.0", "b.1"]
    table = Table(record.times, **dict(zip(record.columns, record.values.T, strict=True)))
    np.testing.assert_array_equal(sd.Record(table, record.sensors).values, record.values)


def test_dates_become_seconds():
    dates = np.array(["2024-01-01T00:00", "2024-01-01T00:02"], "datetime64[m]")
    np.testing.assert_array_equal(sd.Record((dates, [1.0, 2.0]), sensor(noise=0.1)).times, [0.0, 120.0])
    epoch = datetime.datetime(2023, 12, 31, 23, 59)
    np.testing.assert_array_equal(sd.Record((dates, [1.0, 2.0]), sensor(noise=0.1), epoch=epoch).times, [60.0, 180.0])


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (([0.0, 2.0, 1.0], [1.0, 2.0, 3.0]), {}, "times have to increase, but time 1 follows 2"),
        (([0.0, 1.0, 1.0], [1.0, 2.0, 3.0]), {}, "times have to increase"),
        (([0.0, 1.0], [np.nan, np.nan]), {}, "all values are missing"),
        (([0.0, 1.0], [1.0, np.inf]), {}, "at time 1 is infinite"),
        (([0.0, np.nan], [1.0, 2.0]), {}, "time 1 is not finite"),
        (([0.0, 1.0], [1.0]), {}, "2 times and 1 values"),
        ({"level": ([0.0], [1.0])}, {}, "no sensor 'level'"),
        (
            Table([0.0], {"units": {"y": "m"}}, y=np.array([1.0])),
            {"unit": "mm"},
            "their unit is 'm', that of the sensor 'mm'",
        ),
        (([0.0, 1.0], [1j, 0.0]), {}, "expected numbers"),
        (xr.DataArray([1.0, 2.0], dims="time", name="y"), {}, "'time' has no times"),
        (([0.0, 1.0, 1.0 + 3e-16], [0.0, 1.0, 9.0]), {}, "times 1 and 1.0000000000000002 are one"),
        (xr.DataArray(np.ones((2, 1)), {"time": [0.0]}, ("number", "time"), name="y"), {}, "expected one path, got 2"),
    ],
)
def test_wrong_data_are_refused(data, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        sd.Record(data, sensor(noise=0.1, **options))


def refused(words, problem=None, data=(TIMES, VALUES), sensors=None, **options):
    with pytest.raises((ValueError, TypeError), match=words):
        sd.filtered(problem or oscillator(), data=data, sensors=sensors or sensor(), **options)


def test_wrong_questions_are_refused():
    refused("there is no component 'z'", sensors=sensor(of="z"))
    refused(
        "by='ekf'.*by='statistical'",
        sd.SDE(lambda t, x: -(x**3), lambda t, x: 1.0, start=0.0),
        sensors=sensor(noise=1.0),
    )
    refused("has to be additive", sd.SDE(lambda t, x: -x, lambda t, x: x, start=1.0), sensors=sensor(noise=1.0))
    refused("not proved to be linear", sensors=sensor(of=lambda t, x: x[0] ** 2))
    refused("expected 'kalman', 'ekf', 'statistical', got 'particles'", by="particles")
    circuit = sd.SDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.array([x[1] - x[0], x[1] - jnp.sin(t)]), None, [0.0, 0.0])
    refused("has no law of a step", circuit, sensors=sensor(of=0, noise=1.0), law="ImplicitEuler", dt=0.1)
    refused("neither the problem nor a sensor has 'zeta'", params={"zeta": 0.1})
    refused("params: q is nan, not finite", params={"q": np.nan})
    refused("first reading is at 0.2.*before the start at 1", t0=1.0)
    refused("no stationary covariance", ornstein_uhlenbeck(a=-1.0), initial="stationary")
    refused("there is no state 'y'", initial={"y": "diffuse"})
    refused("no 'noise' in params", sensors=sensor(noise="noise"))
    refused("density needs the time", sensors=sd.Sensor("y", of="x", noise=sd.density(1.0, sides=2)))
    refused("known before it is read", data=([0.0, 1.0], [0.0, 1.0]), sensors=sensor(noise=None))
    refused("window of the first reading begins", sensors=sensor(average=3.0))
    refused("is not normal", sensors=sd.Sensor("y", of="x", noise=sd.noise.Uniform(-1, 1)))
    refused("lie at or beyond its limits", sensors=sensor(range=(-0.5, 0.5)))
    with pytest.raises(TypeError, match="expected the sensors that made the readings"):
        sd.filtered(oscillator(), data=(TIMES, VALUES))
    with pytest.raises(ValueError, match=r"no parameter 'k'.*q, r, ζ, ω"):
        sd.likelihood(oscillator(), data=(TIMES, VALUES), sensors=sensor(), free=["k"])
    with pytest.raises(ValueError, match="at least one parameter, of q, r, ζ, ω"):
        sd.fit(oscillator(), data=(TIMES, VALUES), sensors=sensor(), free=[])
    with pytest.raises(ValueError, match="predictive: expected a number of records"):
        sd.fit(oscillator(), data=(TIMES, VALUES), sensors=sensor(), free=["q"], predictive=-1)
    with pytest.raises(ValueError, match="do not determine everything that is diffuse: 1 of 2"):
        sd.smoothed(oscillator(), data=([1.0], [0.0]), sensors=sensor(), initial="diffuse")


def test_columns_of_tables_may_have_units():
    pandas = pytest.importorskip("pandas")
    gauge, pair = sd.Sensor("gauge", of="x", unit="m"), sd.Sensor("pair", of=("x", "x"), unit="V")
    table = pandas.DataFrame({"pair.0 [V]": [1.0, 2.0], "gauge [m]": [3.0, 4.0], "pair.1 [V]": [5.0, 6.0]}, [0.0, 1.0])
    record = sd.Record(table, [gauge, pair])
    assert record.columns == ("gauge", "pair.0", "pair.1")
    np.testing.assert_array_equal(record.values, [[3.0, 1.0, 5.0], [4.0, 2.0, 6.0]])
    np.testing.assert_array_equal(sd.Record(table["gauge [m]"], gauge).values, [[3.0], [4.0]])
    with pytest.raises(ValueError, match=r"data \(gauge\): their unit is 'mm', that of the sensor 'm'"):
        sd.Record(table.drop(columns=["pair.0 [V]", "pair.1 [V]"]).rename(columns={"gauge [m]": "gauge [mm]"}), gauge)
    with pytest.raises(ValueError, match=r"expected different columns, got gauge \[m\], gauge"):
        sd.Record(pandas.DataFrame({"gauge [m]": [1.0], "gauge": [1.0]}, [0.0]), gauge)
    with pytest.raises(ValueError, match=r"data \(pair\): its columns have the units 'V' and 'mV'; give one"):
        sd.Record(table.rename(columns={"pair.1 [V]": "pair.1 [mV]"}), [gauge, pair])
    named = sd.Sensor("gauge [m]", of="x")
    np.testing.assert_array_equal(sd.Record(table[["gauge [m]"]], named).values, [[3.0], [4.0]])


def test_tables_of_pandas_itself():
    """pandas comes with xarray; the package does not import it."""
    pandas = pytest.importorskip("pandas")
    gauge = sd.Sensor("gauge", of="x", noise=sd.per_sample(0.1), unit="m")
    dates = pandas.date_range("2024-03-31 00:30", periods=3, freq="30min")  # Berlin's clocks go forward after an hour
    values = pandas.array([1, None, 3], dtype="Int64")
    zoned = dates.tz_localize("UTC").tz_convert("Europe/Berlin")
    for index in (dates, zoned, dates - dates[0], [0.0, 1800.0, 3600.0]):
        for table in (
            pandas.DataFrame({"gauge": values}, index=index),
            pandas.Series(values, index=index, name="gauge"),
        ):
            record = sd.Record(table, gauge)
            np.testing.assert_array_equal(record.times, [0.0, 1800.0, 3600.0])
            np.testing.assert_array_equal(record.values.ravel(), [1.0, np.nan, 3.0])
    months = pandas.DataFrame({"gauge": values}, index=pandas.period_range("2023-01", periods=3, freq="M"))
    np.testing.assert_array_equal(sd.Record(months, gauge).times, 86400.0 * np.array([0, 31, 59]))
    epoch = pandas.Timestamp("2024-03-31", tz="UTC")
    frame = pandas.DataFrame({"gauge": values}, index=zoned)
    np.testing.assert_array_equal(sd.Record(frame, gauge, epoch=epoch).times, [1800.0, 3600.0, 5400.0])
    with pytest.raises(ValueError, match=r"data\.set_index\('time'\)"):
        sd.Record(frame.reset_index(names="time"), gauge)
    with pytest.raises(ValueError, match="index of this table is the numbers of its rows"):
        sd.Record(pandas.Series([1.0, 2.0]), gauge)
    missing = frame.set_index(pandas.DatetimeIndex([dates[0], pandas.NaT, dates[2]]))
    with pytest.raises(ValueError, match="time 1 is not finite"):
        sd.Record(missing, gauge)
    frame.attrs["units"] = {"gauge": "km"}
    with pytest.raises(ValueError, match="their unit is 'km', that of the sensor 'm'"):
        sd.Record(frame, gauge)


def test_a_start_long_before_the_record():
    """Readings of two times that are one at this distance were taken for one, and the first left out."""
    data, process = (1.7e9 + 1e-3 * np.arange(4), np.arange(4.0)), ornstein_uhlenbeck()
    refused("a start t0 close to the first one", process, data)
    refused("more than 2e.07; .* closer to the first reading", process, (1e8 + K, VALUES), by="ekf", dt=0.1)
    result = sd.filtered(process, data=(1e8 + K, VALUES), sensors=sensor())
    assert "the start is at 0, long before the first reading at 100000001; give t0" in result.attrs["reasons"]
    near = sd.filtered(process, data=(1e8 + K, VALUES), sensors=sensor(), t0=1e8)
    assert "the start" not in near.attrs["reasons"]


def test_dates_of_python():
    times = [datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.UTC) for hour in (0, 1)]
    np.testing.assert_array_equal(sd.Record((times, [1.0, 2.0]), sd.Sensor("y", of="x")).times, [0.0, 3600.0])
