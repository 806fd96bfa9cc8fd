"""stodyn order prints what analysis.order finds, draws it, and writes it."""

import json

import pytest
from typer.testing import CliRunner

from stodyn.analysis.order import strong_order
from stodyn.cli import application
from stodyn.methods.explicit import Heun
from stodyn.models.kubo import KUBO


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(application(), ["order", *map(str, arguments)])


def words(text):
    return " ".join(text.replace("│", " ").split())


SMALL = ("--steps", "4,8,16", "--paths", 50, "--seed", 3)


def test_table_picture_and_json(invoke, tmp_path):
    result = invoke("heun", "kubo", *SMALL, "--out", tmp_path / "order.png")
    assert result.exit_code == 0, result.output
    study = strong_order(KUBO, Heun, steps=(4, 8, 16), paths=50, seed=3)
    lines = [words(line) for line in result.output.splitlines()]
    for h, error, stderr in zip(*(study[n].values for n in ("step", "error", "error_stderr")), strict=True):
        assert f"{h:.6g} {error:.4g} {stderr:.2g} yes" in lines
    a = study.attrs
    assert f"strong order {a['order']:.3f}, 99% interval [{a['order_low']:.3f}, {a['order_high']:.3f}]:" in lines
    assert "Heun on kubo against exact solution" in lines
    assert (tmp_path / "order.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads(invoke("heun", "kubo", *SMALL, "--json").stdout)
    assert (written["method"], written["model"], written["order"]) == ("Heun", "kubo", a["order"])
    assert [point["error"] for point in written["points"]] == study["error"].values.tolist()
    assert [point["used"] for point in written["points"]] == [True] * 3


def test_weak_orders_of_linear_models_are_not_sampled(invoke):
    result = invoke("EulerMaruyama", "ornstein_uhlenbeck", "--kind", "weak", "--steps", "8,16,32", "--end", 2.0)
    assert result.exit_code == 0, result.output
    assert "EulerMaruyama on ornstein_uhlenbeck against exact moments" in words(result.output)
    assert "0.25" in result.output  # T/8


def test_the_deterministic_order_is_printed_with_its_reference(invoke):
    result = invoke("Heun", "diagonal_noise", "--kind", "deterministic", "--steps", "16,32,64")
    assert result.exit_code == 0, result.output
    assert "deterministic order 2.0" in words(result.output)
    assert "Heun on diagonal_noise against scipy DOP853" in words(result.output)


def test_what_cannot_be_told_apart_from_rounding_is_an_error(invoke):
    result = invoke("Heun", "double_well", "--kind", "deterministic")  # it starts in a well and stays there
    assert result.exit_code == 2
    assert "steps: 0 of 5 errors can be used, but a slope needs 3" in words(result.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Heum", "kubo"), "method: there is no 'Heum'. Near it: Heun"),
        (("Heun", "kobu"), "model: there is no 'kobu'. Near it: kubo"),
        (("DRI1", "kubo"), "there is no strong order to measure. Ask for weak_order"),
        (("SRA1", "kubo"), "SRA1 is made for additive noise"),
        (("Heun", "kubo", "--steps", "8,x"), "--steps: expected whole numbers such as 8,16,32, got '8,x'"),
        (("Heun", "kubo", "--steps", "8,12,16"), "steps: 12 does not divide 16"),
        (("Heun", "kubo", "--paths", 0), "paths: expected a whole number >= 1, got 0"),
        (("Heun", "kubo", "--out", "nowhere/order.png"), "--out: the folder nowhere does not exist"),
    ],
)
def test_mistakes_are_told_before_anything_runs(invoke, arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in words(result.output)
