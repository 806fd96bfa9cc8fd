"""stodyn allan FILE: coefficients with intervals from a record in a file."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stodyn.cli import application


def run(*arguments):
    return CliRunner().invoke(application(), ["allan", *map(str, arguments)])


@pytest.fixture
def record(tmp_path):
    rates = 0.01 * np.random.default_rng(1).standard_normal(5000)
    np.savetxt(
        tmp_path / "rates.csv", np.column_stack([np.arange(5000), rates]), delimiter=",", header="n,rate", comments=""
    )
    np.save(tmp_path / "rates.npy", rates)
    return tmp_path


def test_both_kinds_of_files_give_the_coefficient(record):
    for file, column in (("rates.csv", 1), ("rates.npy", 0)):
        shown = json.loads(run(record / file, "--dt", 0.01, "--column", column, "--terms", "N", "--json").stdout)
        assert shown["coefficients"]["N"]["value"] == pytest.approx(1e-3, rel=0.05)


def test_columns_have_the_names_of_the_first_line(record):
    """Quotes and blanks around a name are no part of it."""
    rates = np.load(record / "rates.npy")
    np.savetxt(record / "named.csv", np.column_stack([rates, 2.0 * rates]), delimiter=",", header='"a", b', comments="")
    found = [run(record / "named.csv", "--dt", 0.01, "--column", column, "--json").stdout for column in ("b", 1, "a")]
    assert found[0] == found[1] != found[2]


def test_words_and_a_picture(record):
    result = run(record / "rates.npy", "--dt", 0.01, "--terms", "NK", "--picture", record / "a.png")
    assert result.exit_code == 0 and "angle random walk" in result.stdout
    assert (record / "a.png").stat().st_size > 1000


@pytest.mark.parametrize(("unit", "dt", "is_told"), [(1.0, 0.01, False), (1e3, 0.01, False), (1.0, 0.02, True)])
def test_times_in_the_file_that_contradict_dt_are_told(record, unit, dt, is_told):
    times = unit * 0.01 * np.arange(5000)
    np.savetxt(record / "timed.txt", np.column_stack([times, np.load(record / "rates.npy")]))
    result = run(record / "timed.txt", "--dt", dt, "--column", 1, "--terms", "N")
    assert result.exit_code == 0
    assert ("--dt: 0.02, but column 0 counts up in steps of 0.01" in result.output) == is_told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("none.csv", "--dt", 1), "does not exist"),
     (("rates.csv", "--dt", 1, "--column", "gyro"), "expected 0 to 1, or one of the names n, rate, got gyro"),
     (("rates.npy", "--dt", 1, "--column", 7), "expected 0 to 0, got 7"),
     (("rates.csv", "--dt", 1), "column 0 counts up in steps of 1, as times do"),
     (("rates.npy", "--dt", 0), "expected a positive time"), (("rates.npy", "--dt", 1, "--terms", "Z"),
      "different letters")],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_words(record, arguments, words):
    result = run(record / arguments[0], *arguments[1:])
    assert result.exit_code == 2 and words in " ".join(result.output.replace("│", " ").split())
