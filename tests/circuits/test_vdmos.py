"""Power transistors (VDMOS); the references are those of ngspice 39, with benchmarks/cards.py for random cards."""

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read

STAGES = """Power transistors
VP pos 0 12 AC 1
VN neg 0 -12 AC 1
VG gp 0 2.5 AC 1
VH gn 0 -2.5 AC 1
RG1 gp g1 50
RG2 gn g2 50
RD1 pos a 20
M1 a g1 0 n1
RD2 neg b 20
M2 b g2 0 0 p1
RD3 neg c 20
M3 c g1 0 n2
RD4 pos d 2
M4 d g1 0 n3
.model n1 vdmos(nchan kp=10 vto=1.9 lambda=0.02 theta=0.05 mtriode=0.8 ksubthres=0.15 rd=0.3 rs=0.05 rg=4 cgs=1n
+ cgdmin=50p cgdmax=1n a=0.4 cjo=0.8n tnom=50 tcvth=2m texp0=1.2 mu=-1.4)
.model p1 vdmos pchan kp=3 vto=-2.2 theta=0.1 rd=0.1 cgs=0.5n cgdmin=30p cgdmax=0.6n cjo=0.4n vj=0.7 m=0.4 trs1=3m
+ rs=0.1 tnom=0
.model n2 vdmos nchan vto=3 is=1e-12 n=1.3 rb=0.05 tt=20n cjo=1n
.model n3 vdmos nchan vto=3 bv=8 ibv=1m is=1e-10 cgs=1n cjo=1n
.options noise=off
"""
POINT = {"a": 0.3468913372748, "b": -10.17912232023, "c": -0.9262424574863, "d": 8.195302719725}
AT_10_MHZ = {"a": 0.04741036433866963, "b": 2.522493255014179, "c": 0.00684095398399805, "d": 0.006752248305747093}


def test_operating_points_and_responses():
    circuit = read(STAGES)
    for name, volts in POINT.items():
        # ngspice has GMIN across the body diode, and finds the breakdown voltage to its reltol
        loose = 1e-6 if name in "cd" else 1e-10
        assert circuit.operating_point.x[circuit.names.index(name)] == pytest.approx(volts, rel=loose)
        assert abs(circuit.response([1e7])[name][0]) == pytest.approx(
            AT_10_MHZ[name], rel=3e-4 if name == "b" else 2e-6
        )


def test_the_charge_of_the_gate_has_its_capacitance():
    """S f(A v) + CGDMAX - S, tanh above 0 and arctan below."""
    circuit = read(
        "t\nV1 d 0 1\nV2 g 0 2\nM1 d g 0 n\n.model n vdmos vto=3 cgdmax=1n cgdmin=0.1n a=0.7\n.options noise=off\n"
    )
    group = next(group for group in circuit.network.charges if "power" in group.law.name)
    v = np.linspace(-8.0, 5.0, 27)
    for number in v:
        x = np.zeros(circuit.n + 1)
        x[circuit.names.index("g")] = number
        s = (1e-9 - 0.1e-9) / (1.0 + np.pi / 2)
        capacitance = s * (np.tanh(0.7 * number) if number > 0.0 else np.arctan(0.7 * number)) + 1e-9 - s
        assert group.current(x).slopes[0][0] * 1e-9 == pytest.approx(capacitance, rel=1e-9)


def test_channel_noise_is_that_of_its_transconductance():
    """4kT (2/3) g_m, one-sided, g_m = √(2 KP i) in saturation far above the threshold."""
    circuit = read(
        "t\nV1 d 0 10\nRD d o 1\nV2 g 0 5\nM1 o g 0 n\nC1 o 0 1p\n.model n vdmos kp=0.5 vto=3 ksubthres=0.01\n"
    )
    spectrum = circuit.noise_spectrum("o", 1e3)
    kT = 1.380649e-23 * 300.15
    assert spectrum.density[0] == pytest.approx(4.0 * kT * (2.0 / 3.0 * 0.5 * 2.0 + 1.0), rel=1e-6)


def test_what_would_change_the_answer_is_refused():
    with pytest.raises(NetlistError, match=r"rq = 0\.1 would change the answer"):
        read("t\nV1 d 0 1\nM1 d d 0 n\n.model n vdmos rq=0.1 vq=5\n")
