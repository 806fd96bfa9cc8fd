"""stodyn circuit prints the statistics of every node and draws what is probed."""

import json
import re

import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

from stodyn import load
from stodyn.analysis.transient_noise import cautions, probes
from stodyn.circuits import examples, read
from stodyn.cli import application
from stodyn.numerics.amounts import amount, with_error


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(application(), list(map(str, arguments)))


@pytest.mark.usefixtures("quick_compiling", "coarse_pictures")
def test_an_example_is_simulated_and_its_files_written(invoke, tmp_path):
    result = invoke("circuit", "rc_lowpass", "--paths", 200, "--probe", "V(out),IN,i(v1)", "--out", tmp_path / "rc")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "3 elements, 2 nodes, 1 channel of noise; 200 paths of 400 steps of 50.0 ns by Trapezoidal" in said
    assert "6.44 µV" in said and "from r1 100 %" in said
    names = {path.name for path in (tmp_path / "rc").iterdir()}
    pictures = {f"{part}{kind}.png" for part in ("out", "in", "i_v1_") for kind in ("", "_noise")}
    assert names == pictures | {"run.nc", "noise.nc"}
    assert any(line.startswith("i(v1)") and " µA" in line for line in result.output.splitlines())
    run = load(tmp_path / "rc" / "run.nc")
    assert float(run["variance"].sel(component="out")[-1]) == pytest.approx(4.144e-11, rel=0.4)


@pytest.mark.usefixtures("quick_compiling", "coarse_pictures")
def test_phase_noise_prints_period_and_jitter_and_writes_pictures(invoke, tmp_path):
    result = invoke("circuit", "ring_oscillator", "--phase-noise", "V(u1)", "--offsets", "1,100meg", "--level", 2,
                    "--out", tmp_path)  # fmt: skip
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "period 3.34338926 ns" in said and "-120.40 dBc/Hz" in said and "period 178 fs" in said
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"u1_cycle.png", "u1_phase_noise.png", "u1_jitter.png", "pnoise.nc"}
    assert float(load(tmp_path / "pnoise.nc")["c"]) == pytest.approx(1.02029e-17, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ring_oscillator", "--phase-noise", "u1", "--offsets", "5"), "--offsets: expected two frequencies"),
        (("nowhere.cir",), "there is no file"),
        (("rc_lowpas",), "did you mean the example rc_lowpass?"),
        ((".",), "is a folder"),
        (("rc_lowpass", "--method", "Heun"), "Heun is not for circuits; these are: BDF2Maruyama"),
        (("rc_lowpass", "--out", f"{__file__}/below"), "(Not a directory); name another folder"),
        (("rc_lowpass", "--probe", "nothing"), "--probe: unknown node nothing; there are in, out"),
        (("rc_lowpass", "--method", "Heunn"), "Heun"),
        (("rc_lowpass", "--paths", 1), "2"),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_there(invoke, arguments, message):
    result = invoke("circuit", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [("title\nR1 a\n", "bad.cir, line 2: r1"), ("title\nR1 a 0 1k\nC1 a 0 1n\n", "there is no .tran")],
)
def test_mistakes_in_netlists_are_told_with_their_line(invoke, tmp_path, text, message):
    (tmp_path / "bad.cir").write_text(text)
    result = invoke("circuit", tmp_path / "bad.cir")
    assert result.exit_code == 2 and message in " ".join(result.output.replace("│", " ").split())


STEPPED = """A divider that is stepped
.param r=1k
V1 in 0 1 AC 1
R1 in out {r}
R2 out 0 1k
C1 out 0 1n
.op
.ac dec 2 1k 1g
.noise v(out) V1 dec 5 1k 1g
.measure ac low find vdb(out) at=1k
.step param r list 1k 3k
"""


def test_analyses_at_rest(invoke, tmp_path):
    """R1 against R2: a half and a quarter; 20 log10 of them; the low-pass of both resistors side by side."""
    file = tmp_path / "stepped.cir"
    file.write_text(STEPPED)
    result = invoke("circuit", file, "--probe", "out", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "out 500.000 mV" in said and "1.00 kHz -6.02 dB -0.2°" in said and "noise of out from 1.00 kHz" in said
    assert "r=1000: out 0.5, low -6.02" in said and "r=3000: out 0.25, low -12.04" in said
    assert {path.name for path in tmp_path.iterdir()} == {"stepped.cir", "ac.nc", "noise.nc"}
    response = load(tmp_path / "ac.nc")
    gain = 0.5 / (1.0 + 2j * np.pi * response["frequency"].values * 500.0 * 1e-9)
    np.testing.assert_allclose(response["decibels"].values[:, 0], 20.0 * np.log10(np.abs(gain)), atol=1e-6)
    found = json.loads(invoke("circuit", file, "--json", "--out", tmp_path).stdout)
    assert found["operating_point"]["out"] == pytest.approx(0.5) and len(found["steps"]) == 2


def test_every_example_can_be_read():
    found = examples()
    assert len(found) == 9
    for path in found.values():
        circuit = read(path)
        assert circuit.title and not circuit.notes and not circuit.too_quiet
        assert circuit.step * abs(circuit.small_signal.rates[0]) < 2.0
        assert circuit.operating_point.x.size == circuit.n


def test_probes_are_the_free_nodes_or_those_asked_for():
    """Nodes that no source holds, those of the designer before those of subcircuits; and what .noise asks for."""
    text = "title\n.subckt rc a b\nR1 a m 1k\nC1 m 0 1n\nR2 m b 1k\nC2 b 0 1n\n.ends\nV1 in 0 1\nX1 in out rc\n"
    assert probes(read(text)) == ["out", "x1.m"]
    assert probes(read(text + ".noise v(x1.m) V1 dec 10 1 1k\n")) == ["x1.m"]
    assert probes(read(text), ["V(OUT),i(v1)", "x1.m"]) == ["out", "i(v1)", "x1.m"]


def test_amounts_are_written_with_prefixes_and_the_digits_that_count():
    assert [amount(x, "V") for x in (6.4374e-6, -1.25e-3, 0.0, 999.9, 1e-18)] == [
        "6.44 µV", "-1.25 mV", "0 V", "1.00 kV", "1.00 aV",
    ]  # fmt: skip
    assert amount(2e6, "Hz", 1) == "2 MHz"
    assert with_error(0.450493, 2.1e-7, "V") == "450.49300 mV ± 210 nV"


def test_steps_that_are_too_long_and_switches_without_noise_are_cautioned():
    """A step far beyond R C, where devices switch and where nothing does; and a switch whose noise by g_m is none."""
    switch = "title\nV1 in 0 1\nVG g 0 5\nM1 in g out 0 n\nR1 out 0 1meg\nC1 out 0 1p\n.model n NMOS(KP=1m {})\n"
    linear = "title\nV1 in 0 1\nR1 in out 1\nC1 out 0 1p\n.tran 1n 1u\n"
    for text, method, said in (
        (switch.format("NLEV=3") + ".tran 2n 1u\n", "Trapezoidal", ["σ is not to be trusted"]),
        (switch.format("") + ".tran 0.1n 1u\n", "Trapezoidal", ["in the triode region at the operating point: m1"]),
        (switch.format("NLEV=3") + ".tran 0.1n 1u\n", "Trapezoidal", []),
        (linear, "Trapezoidal", ["1.00 ns, is 1e+03 times the shortest time constant, 1.00 ps at 0 s: waveforms ring"]),
        (linear, "BDF2Maruyama", []),
    ):  # fmt: skip
        circuit = read(text)
        run = xarray.Dataset(
            {"mean": (("time", "component"), circuit.operating_point.x[None, :])}, {"time": np.zeros(1)}
        )
        found = cautions(circuit, run, method)
        assert len(found) == len(said) and all(part in line for part, line in zip(said, found, strict=True)), found


@pytest.mark.usefixtures("quick_compiling", "coarse_pictures")
def test_random_values_and_measures(invoke, tmp_path):
    """A level is met R C log 2 after the edge, which R with 5 % spreads by as much."""
    file = tmp_path / "measured.cir"
    file.write_text(
        "title\nV1 in 0 PULSE(0 1 10n 1n 1n 1u)\nR1 in out {gauss(1k,0.05)}\nC1 out 0 10p\n.tran 1n 40n\n"
        ".measure tran half when v(out)=0.5 rise=1\n"
    )
    result = invoke("circuit", file, "--paths", 50, "--probe", "out", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    found = re.search(r"half: (\S+), σ (\S+)", result.output)
    assert "1 random value, drawn for each path" in result.output and found
    assert float(found[1]) == pytest.approx(10.5e-9 + 10e-9 * np.log(2.0), rel=0.02)
    assert float(found[2]) == pytest.approx(0.05 * 10e-9 * np.log(2.0), rel=0.5)
