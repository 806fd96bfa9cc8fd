"""Ways of writing that netlists of ngspice, LTspice and KiCad have."""

import numpy as np
import pytest

import stodyn as sd
from stodyn.circuits import read

BODY = "V1 a 0 2 AC 1\nR1 a b 1k\nC1 b 0 1n\nR2 b 0 1k\n"


def at(text, node="b"):
    circuit = read(f"title\n{text}.options noise=off\n")
    return dict(zip(circuit.names, circuit.operating_point.x.tolist(), strict=True))[node], circuit


@pytest.mark.parametrize(("lines", "volts"), [
    ("", 1.0),
    (".csparam x=1\n.measure dc x find v(b) at=1\n.dc V1 0 1 .1\n", 1.0),
    ("R3 b 0 1k // in parallel\n", 2.0 / 3.0),
    ("R3 b 0 -2k\n", 2.0 / 1.5),
    ("VM b c\nR3 c 0 1k\n", 2.0 / 3.0),
    ("R3 b c 0\nR4 c 0 1k\n", 2.0 / 3.0),
    ("R3 b 0 {if(1 > 2, 1, 1k)}\n", 2.0 / 3.0),
    ("B1 b 0 I=if(V(a) > 1, 1m, 0)\n", 0.5),
    ("V2 d 0 DC=3 AC=1\nR3 d b 1k\n", 5.0 / 3.0),
    ("R3 b 0 {mc(1k, 0.1)}\n", 2.0 / 3.0),
])  # fmt: skip
def test_every_form_of_a_line_gives_its_operating_point(lines, volts):
    assert at(BODY + lines)[0] == pytest.approx(volts, rel=3e-6)


def test_a_parenthesis_alone_closes_a_model_and_off_is_a_guess():
    one, _ = at(BODY + "D1 b 0 d\n.model d d (is=1p\n+ n=1.2\n)\n")
    other, _ = at(BODY + "D1 b 0 d off\n.model d d is=1p n=1.2\n")
    assert one == other < 1.0


@pytest.mark.parametrize("tran", [".tran 1m", ".tran 0 1m", ".tran 0 1m uic"])
def test_transients_without_a_step(tran):
    _, circuit = at(f"{BODY}{tran}\n")
    assert circuit.span == (0.0, 1e-3) and circuit.step == pytest.approx(2e-5)
    assert any("without a step" in note for note in circuit.notes)


def test_startup_raises_all_sources_from_zero_in_20_microseconds():
    circuit = read("title\nV1 a 0 2\nR1 a b 1\nC1 b 0 1n\n.tran 1u 40u startup\n")
    states = dict(zip(circuit.names, circuit.noiseless().T, strict=True))
    np.testing.assert_allclose(states["a"], np.minimum(circuit.times / 20e-6, 1.0) * 2.0, atol=1e-12)
    np.testing.assert_allclose(circuit.operating_point.x[0], 2.0)
    assert 20e-6 in circuit.network.sources.corners(*circuit.span)


def test_a_negative_resistor_has_no_noise():
    """1 kΩ beside -2 kΩ are 2 kΩ, with the noise current of 1 kΩ: twice kT/C."""
    circuit = read("title\nR1 b 0 1k\nR2 b 0 -2k\nC1 b 0 1n\n")
    density = circuit.noise_spectrum("b", [1.0]).density[0]
    assert density == pytest.approx(4.0 * 1.380649e-23 * 300.15 / 1e3 * 2e3**2, rel=1e-6)
    variance = circuit.small_signal.covariance()[0, 0]
    assert variance == pytest.approx(1.380649e-23 * 300.15 / 1e-9 * 2.0, rel=1e-6)
    run = sd.simulate(circuit, t=(0, 1e-6), dt=1e-7, paths=2, seed=1)
    assert np.isfinite(run["mean"].values).all()


def test_mc_is_uniform():
    circuit = read(f"title\n{BODY}R3 b 0 {{mc(1k, 0.1)}}\n")
    assert list(circuit.random) == ["mc(r3.value)"] and circuit.random["mc(r3.value)"].variance == pytest.approx(1 / 3)
