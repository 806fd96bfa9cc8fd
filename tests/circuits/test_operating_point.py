"""DC operating points: against closed forms, with every way of finding them, and .ic."""

import numpy as np
import pytest
import scipy.special

from stodyn.circuits import read
from stodyn.circuits.operating_point import _by_settling, _by_source_stepping, _Solver

DIODE = "title\nV1 in 0 5\nR1 in a 1k\nD1 a 0 d\nC1 a 0 1n\n.model d D(IS=1e-14)\n"
LATCH = (
    "title\nVDD vdd 0 5\nR1 vdd a 10k\nR2 vdd b 10k\nM1 a b 0 0 n\nM2 b a 0 0 n\nC1 a 0 1p\nC2 b 0 1p\n"
    ".model n NMOS(KP=1m VTO=1)\n"
)


def test_diode_and_resistor():
    """R I_S e^(v/V_T) + v = V + R I_S: Lambert's function."""
    circuit = read(DIODE)
    V_T = 1.380649e-23 * 300.15 / 1.602176634e-19
    r = 1e3 * 1e-14
    wanted = 5 + r - V_T * scipy.special.lambertw(r / V_T * np.exp((5 + r) / V_T)).real
    found = dict(zip(circuit.names, circuit.operating_point.x, strict=True))
    assert found["a"] == pytest.approx(wanted, rel=1e-12)
    assert found["i(v1)"] == pytest.approx(-(5 - wanted) / 1e3, rel=1e-11)
    assert circuit.operating_point["V(A)"] == found["a"]
    with pytest.raises(KeyError, match="there is no 'b'; there are in, a"):
        circuit.operating_point["b"]
    network = circuit.network
    stepped = _by_source_stepping(_Solver(network, network.sources.at_rest(), {}), np.zeros(network.n))
    np.testing.assert_allclose(stepped, circuit.operating_point.x, rtol=1e-10)


def test_a_switch_needs_gmin_stepping():
    """Nothing conducts at 0 V, where Newton begins; and a switch that is off leaves its node to itself."""
    switch = "title\nVIN in 0 {}\nVG g 0 {}\nM1 in g out 0 n\nC1 out 0 1p\n.model n NMOS(KP=1m VTO=1)\n"
    on = read(switch.format(1, 5))
    assert on.operating_point.how == "gmin stepping" and on.operating_point.x[2] == pytest.approx(1.0, abs=1e-9)
    off = read(switch.format(1, 0)).operating_point
    assert "to ground" in off.how and off.x[2] == pytest.approx(0.0, abs=1e-9)


def test_ic_chooses_a_side():
    """A latch has three operating points; a node held by .ic chooses one, and the start has it exactly."""
    assert read(LATCH).operating_point.x[1] == pytest.approx(read(LATCH).operating_point.x[2], rel=1e-9)
    for node, other in (("a", "b"), ("b", "a")):
        circuit = read(LATCH + f".ic v({node})=5\n")
        start = dict(zip(circuit.names, circuit.start, strict=True))
        assert start[node] == 5.0 and start[other] < 0.2
    circuit = read(LATCH + ".ic v(a)=3\n.tran 1n 1u uic\n")
    np.testing.assert_array_equal(circuit.start[1:3], (3.0, 0.0))


def test_capacitors_and_inductors_with_ic():
    """With uic: v(n+) - v(n-) = ic, found along chains from ground, from .ic and from nothing; without it, left out."""
    text = (
        "title\nC2 a b 1n ic=0.5\nC1 b 0 1n ic=2\nC3 c d 1n ic=-1\nC4 in e 1n ic=3\nC5 f b 1n ic=0\nL1 b 0 1m ic=4m\n"
    )
    text += "V1 in 0 9\n" + "".join(f"R{node} {node} 0 1k\n" for node in "abcdef") + ".ic v(d)=7\n"
    circuit = read(text + ".tran 1n 1u uic\n")
    found = dict(zip(circuit.names, circuit.start, strict=True))
    assert [found[node] for node in "abcdf"] == [2.5, 2.0, 6.0, 7.0, 2.0] and found["i(l1)"] == 4e-3
    assert found["in"] - found["e"] == 3.0  # only this counts: v1 moves both
    assert not circuit.notes and len(read(text + ".tran 1n 1u\n").notes) == 6


def test_dc_and_the_start_of_a_waveform():
    """The operating point takes the DC value, the start of a run the waveform at t = 0."""
    circuit = read("title\nV1 in 0 DC 2 SIN(1 1 1k)\nR1 in a 1\nC1 a 0 1\nL1 a b 1\nR2 b 0 1\n.tran 1u 1m\n")
    assert circuit.operating_point.x[1] == pytest.approx(1.0) and circuit.start[1] == pytest.approx(0.5)
    assert dict(zip(circuit.names, circuit.start, strict=True))["i(l1)"] == pytest.approx(0.5)
    assert circuit.span == (0.0, 1e-3) and circuit.step == pytest.approx(1e-6)
    assert read("title\nI1 0 a AC 1\nR1 a 0 1k\nC1 a 0 1n\n").operating_point.x[0] == 0.0  # AC alone: DC 0, as in SPICE
    with pytest.raises(ValueError, match=r"there is no \.tran"):
        _ = read(DIODE).step


def test_a_chain_of_gates_needs_steps_of_less_than_a_decade():
    """The gains of fifty inverters multiply: from 1e-3 S to 1e-4 S to ground Newton's method finds no way."""
    lines = ["title", "V1 vdd 0 1.2", "V2 n0 0 0", ".model n nmos(vto=0.4 kp=200u lambda=0.05)"]
    lines.append(".model p pmos(vto=-0.4 kp=80u lambda=0.05)")
    for k in range(50):
        lines += [f"MP{k} n{k + 1} n{k} vdd vdd p W=2u L=0.1u", f"MN{k} n{k + 1} n{k} 0 0 n W=1u L=0.1u"]
    circuit = read("\n".join([*lines, ""]))
    point = dict(zip(circuit.names, circuit.operating_point.x, strict=True))
    assert [round(point[f"n{k}"], 9) for k in range(51)] == [1.2 * (k % 2) for k in range(51)]


def test_settling_finds_what_newton_finds():
    """The last resort but one, by steps of the circuit with a capacitor at every node; from 0 V a latch keeps between
    its sides."""
    circuit = read(LATCH)
    solver = _Solver(circuit.network, circuit.network.sources.at_rest(), {})
    point = _by_settling(solver, np.zeros(circuit.n))
    np.testing.assert_allclose(point, circuit.operating_point.x, rtol=1e-9, atol=1e-12)
