"""stodyn circuit prints the statistics of every node and draws what is probed."""

import pytest
from typer.testing import CliRunner

from stodyn import load
from stodyn.circuits import examples, read
from stodyn.cli import application
from stodyn.cli.circuit import amount, between


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(application(), list(map(str, arguments)))


def test_an_example(invoke, tmp_path):
    result = invoke("circuit", "rc_lowpass", "--paths", 200, "--probe", "out,IN", "--out", tmp_path / "rc")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "3 elements, 2 nodes, 1 channel(s) of noise; 200 paths of 400 steps of 50.0 ns by Trapezoidal" in said
    assert "6.44 µV" in said and "from r1 100 %" in said
    names = {path.name for path in (tmp_path / "rc").iterdir()}
    assert names == {"out.png", "out_noise.png", "in.png", "in_noise.png", "run.nc"}
    run = load(tmp_path / "rc" / "run.nc")
    assert float(run["variance"].sel(component="out")[-1]) == pytest.approx(4.144e-11, rel=0.4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.cir",), "there is no file"),
        (("rc_lowpass", "--probe", "nothing"), "there is no nothing"),
        (("rc_lowpass", "--method", "Heunn"), "Heun"),
        (("rc_lowpass", "--paths", 1), "2"),
    ],
)
def test_bad_arguments(invoke, arguments, message):
    result = invoke("circuit", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [("title\nR1 a\n", "bad.cir, line 2: r1"), ("title\nR1 a 0 1k\nC1 a 0 1n\n", "there is no .tran")],
)
def test_bad_netlists(invoke, tmp_path, text, message):
    (tmp_path / "bad.cir").write_text(text)
    result = invoke("circuit", tmp_path / "bad.cir")
    assert result.exit_code == 2 and message in " ".join(result.output.replace("│", " ").split())


def test_every_example_can_be_read():
    found = examples()
    assert len(found) == 9
    for path in found.values():
        circuit = read(path)
        assert circuit.title and not circuit.notes and circuit.step > 0.0
        assert circuit.operating_point.x.size == circuit.n


def test_amounts():
    assert [amount(x, "V") for x in (6.4374e-6, -1.25e-3, 0.0, 999.9, 1e-18)] == [
        "6.44 µV", "-1.25 mV", "0 V", "1.00 kV", "1.00 aV",
    ]  # fmt: skip
    assert amount(2e6, "Hz", 1) == "2 MHz"
    assert between(0.450493, 2.1e-7) == "450.49300 mV ± 210 nV"
