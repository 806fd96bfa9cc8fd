"""Derivatives of noise by every number of a netlist: closed forms, and differences of whole analyses."""

import numpy as np
import pytest

from stodyn.circuits import read
from stodyn.circuits.devices import BOLTZMANN

LOW_PASS = "title\nR1 a 0 {r}\nC1 a 0 {c}\n.noise v(a) V1 lin 3 1k 9k\nV1 b 0 1\nR2 b 0 1k\n"
AMPLIFIER = """title
V1 in 0 1
.param load=1k
R1 in b 10k
Q1 c b e q
RC vcc c {load}
CC c 0 100p
RE e 0 100
VCC vcc 0 5
.model q npn bf=100 is=1e-15 vaf=50 kf=1e-14 af=1.2 cjc=2p
"""
FREQUENCY = np.array([10.0, 1e4, 3e6])


def test_a_low_pass():
    """S = 4kTR/(1 + (ωRC)²)."""
    R, C = 1e3, 1e-8
    circuit = read(LOW_PASS.format(r=R, c=C))
    slopes, spectrum = circuit.noise_sensitivities(), circuit.noise_spectrum()
    z = (2 * np.pi * spectrum.frequency * R * C) ** 2
    unit = 4 * BOLTZMANN * spectrum.kelvin / (1 + z) ** 2
    np.testing.assert_allclose(slopes["r1.value"], unit * (1 - z), rtol=1e-8)
    np.testing.assert_allclose(slopes["c1.value"], -unit * R * 2 * z / C, rtol=1e-8)
    np.testing.assert_allclose(slopes["r2.value"], 0.0, atol=1e-30)


def test_a_transistor_whose_operating_point_moves():
    circuit = read(AMPLIFIER)
    slopes, density = circuit.noise_sensitivities("c", FREQUENCY), circuit.noise_spectrum("c", FREQUENCY).density
    for place in ("r1.value", "q.bf", "q.is", "q.vaf", "q.kf", "load", "v1.value", "cc.value"):
        value = circuit.network.netlist.overrides.met[place]
        ends = [circuit.valued({place: value * (1 + h)}).noise_spectrum("c", FREQUENCY) for h in (1e-4, -1e-4)]
        shares = (ends[0].density - ends[1].density) / (2e-4 * density)
        np.testing.assert_allclose(slopes[place] * value / density, shares, rtol=1e-5, atol=1e-7)


def test_without_a_node_or_a_directive_it_is_said_what_is_missing():
    with pytest.raises(ValueError, match=r"there is no \.noise in the netlist"):
        read(AMPLIFIER).noise_sensitivities("c")
