"""stodyn fit: what a file describes, its record and outputs, and what cannot be."""

import json
import re

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from typer.testing import CliRunner

import stodyn as sd
from stodyn import runfile
from stodyn.cli import application
from stodyn.cli.fit import command

TEXT = """
[model]
name = "ornstein_uhlenbeck"
parameters = {rate = 1.0, sigma = 1.0, start = 0.0}

[data]
file = "record.csv"

[sensors.gauge]
of = "x"
noise = "r"
unit = "m"

[free]
sigma = [0, inf]

[fit]
params = {r = 0.1}
predictive = 20

[output]
netcdf = "fit.nc"
csv = "tables"
pictures = "pictures"
"""
TIMES = 0.5 * np.arange(1, 13)
VALUES = np.sin(1.3 * np.arange(1, 13))
RECORD = "time,gauge [m],note\n" + "".join(f"{t},{y},ok\n" for t, y in zip(TIMES, VALUES, strict=True))


@pytest.fixture
def invoke(tmp_path):
    def call(text=TEXT, record=RECORD, *options):
        (tmp_path / "record.csv").write_text(record)
        (tmp_path / "file.toml").write_text(text)
        return CliRunner().invoke(application(), ["fit", str(tmp_path / "file.toml"), *options])

    return call


def test_it_prints_and_writes(invoke, tmp_path):
    result = invoke(TEXT, RECORD, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    problem = runfile.read_fit(tmp_path / "file.toml").problem
    gauge = sd.Sensor("gauge", of="x", noise=sd.per_sample("r"))
    like = sd.likelihood(problem, data=(TIMES, VALUES), sensors=gauge, params={"r": 0.1}, free=["sigma"])
    own = answer["parameters"]["sigma"]
    assert abs(like.gradient([own["estimate"]])[0] * own["stderr"]) < 1e-4
    np.testing.assert_allclose(answer["loglik"], like([own["estimate"]]))
    saved = sd.load(tmp_path / "fit.nc")
    assert saved.profile.shape == (1, 16) and saved.attrs["law"] == "exact"
    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {"profile.png", "predictive_gauge.png"}
    assert "estimate" in (tmp_path / "tables" / "parameter.csv").read_text()


def test_the_example_of_the_command_is_read(tmp_path):
    text = re.search(r"\\b\n(.*?)\n\n", command.__doc__.replace("\b", "\\b"), re.DOTALL)[1]
    (tmp_path / "file.toml").write_text(text)
    (tmp_path / "record.csv").write_text("time,gauge\n2024-05-01T12:00:00Z,0.1\n2024-05-01T12:00:01Z,\n")
    record = runfile.read_fit(tmp_path / "file.toml").options["data"]
    np.testing.assert_array_equal(record.times, [0.0, 1.0])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[free]\nsigma = [0, inf]", "[free]", "free: expected at least one parameter"),
        ("sigma = [0, inf]", "sigmas = [0, inf]", "there is no parameter 'sigmas'"),
        ("sigma = [0, inf]", 'sigma = {prior = "Gumbel"}', "free.sigma.prior: expected one of Beta"),
        ("sigma = [0, inf]", 'sigma = {prior = "Normal", mean = 1.0}', "free.sigma: Normal() needs std"),
        ('unit = "m"', 'unit = "km"', "their unit is 'm', that of the sensor 'km'"),
        ('of = "x"', 'of = "y"', "there is no component 'y'"),
        ('noise = "r"', "noise = {density = 0.1}", "sensors.gauge.noise.sides: missing"),
        ('file = "record.csv"', 'file = "records.csv"', "data.file: "),
        ('file = "record.csv"', 'file = "record.csv"\ntime = "t"', "no column 't'; there are time, gauge [m], note"),
        ("predictive = 20", "predicted = 20", "did you mean fit.predictive?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(old, new, words, invoke):
    assert old in TEXT
    result = invoke(TEXT.replace(old, new))
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", "").split()), result.output


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("time,gauge\n1,0.2\n2,what\n", "gauge: expected a number in row 3, got 'what'"),
        ("time,gauge\n1,0.2\n2\n", "row 3 has 1 entries, the first line has 2 names"),
        ("time,gauge\n2,0.2\n1,0.1\n", "times have to increase"),
        ("time,gauge\nnoon,0.2\n", "expected numbers or dates such as 2024-05-01T12:00:00"),
        ("time,gauge\n", "there are no readings"),
        ("", "there is no column 'time'"),
    ],
)
def test_records_that_cannot_be_read(record, words, invoke):
    result = invoke(TEXT, record)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", "").split()), result.output
