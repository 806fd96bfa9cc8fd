"""stodyn covariance prints the practical table for the user's own system."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stodyn.analysis import covariance
from stodyn.cli import application
from stodyn.cli.covariance import percent


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(application(), list(map(str, arguments)))


def test_table_of_one_pole(invoke):
    result = invoke("covariance", "--pole", -2, "--dt", 0.1)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[2].startswith("VanLoan 0 exact at any step")
    assert "RK4 fresh, 3.6 Q/h -0.247" in lines
    assert "RK4 held, Q/h -0.334" in lines
    assert "AB4, noise in the history, Q/h +447" in lines


def test_matrices_from_files_as_json(invoke, tmp_path, monkeypatch):
    few = [row for row in covariance.candidates() if row[0] == "RK4 held, Q/h"]
    monkeypatch.setattr(covariance, "candidates", lambda: iter(few))
    system = {"A": [[0, 1], [-1, -0.4]], "B": [[0], [1]]}
    (tmp_path / "system.json").write_text(json.dumps(system))
    np.savez(tmp_path / "system.npz", **{k: np.array(v, float) for k, v in system.items()}, Q=np.array([[2.0]]))
    outputs = [
        json.loads(invoke("covariance", "--file", tmp_path / name, "--dt", 0.2, "--json").output)
        for name in ("system.json", "system.npz")
    ]
    rows = [{row["method"]: row["error_percent"] for row in output} for output in outputs]
    assert rows[0]["RK4 held, Q/h"] == pytest.approx([-0.33, -0.38], abs=0.005)
    assert rows[1]["RK4 held, Q/h"] == pytest.approx(rows[0]["RK4 held, Q/h"], rel=1e-9)  # the intensity cancels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --pole"),
        (("--pole", 0.5), "does not have a negative real part"),
        (("--pole", -1, "--dt", -1), "dt: expected a step > 0"),
        (("--file", "nowhere.json"), "does not exist"),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_expected(invoke, arguments, message):
    result = invoke("covariance", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_files_without_the_matrices_are_refused(invoke, tmp_path):
    for name, text in (("a.json", "{"), ("b.json", '{"A": [[1]]}')):
        (tmp_path / name).write_text(text)
        assert invoke("covariance", "--file", tmp_path / name).exit_code == 2


def test_percent_has_a_sign_and_three_digits():
    assert [percent(x) for x in (0.0, 0.0138, -2.579, 446.6)] == ["0", "+0.0138", "-2.58", "+447"]
