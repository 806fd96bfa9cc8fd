"""stodyn region prints what analysis.stability finds, draws it, and writes it."""

import json

import pytest
from typer.testing import CliRunner

from stodyn.cli import application


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(application(), ["region", *map(str, arguments)])


def test_table_picture_and_json(invoke, tmp_path):
    """Implicit Euler bears k² < (1 - h)² - 1, more than the equation."""
    result = invoke("ImplicitEuler", "--out", tmp_path / "region.png")
    assert result.exit_code == 0, result.output
    record = json.loads(invoke("ImplicitEuler", "--json").stdout)
    assert record["a_stable"] and record["method"] == "ImplicitEuler"
    for sign in ("1", "-1"):
        assert record["largest_k_squared"][sign] == pytest.approx([(1 - h) ** 2 - 1 for h in record["h"]], rel=1e-8)
    assert "A-stable" in result.output and "440" in result.output
    assert (tmp_path / "region.png").stat().st_size > 10_000


def test_verdicts_are_said(invoke):
    said = invoke("RK1W5").output
    assert "real λ and μ: not A-stable: origin" in said and "h = -2, k = 2, on the boundary" in said
    assert "complex λ and μ: A-stable: R̂ <= 1 on the whole boundary" in invoke("RK1A4").output
    assert "undecided: sampled: R̂ <= 1 at all" in invoke("SplitStepEuler").output


def test_mistakes_are_answered_with_a_way_out(invoke, tmp_path):
    assert "Near it: ImplicitEuler" in invoke("implicit-eular").output
    assert "needs a history" in " ".join(invoke("BDF2Maruyama").output.split())
    assert "does not exist" in " ".join(invoke("ImplicitEuler", "--out", tmp_path / "no" / "x.png").output.split())
