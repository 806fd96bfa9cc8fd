"""Ideal transmission lines at DC and at frequencies, in closed form, and where they are refused."""

import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.cycle.periodic import periodic
from stodyn.circuits import NetlistError, read

LINE = """A line between resistors
V1 s 0 DC 1 AC 1
RS s a 30
T1 a 0 b 0 Z0=50 TD=3n
RL b 0 120
CL b 0 2p
"""
F = np.array([1e3, 1e6, 37e6, 250e6 / 3, 500e6])


def through(Z0, delay, Z):
    """The impedance at the other end of a line that ends in Z."""
    z = np.exp(-2j * np.pi * F * delay)
    reflected = (Z - Z0) / (Z + Z0) * z * z
    return Z0 * (1.0 + reflected) / (1.0 - reflected)


def test_operating_point():
    point = dict(zip((circuit := read(LINE)).names, circuit.operating_point.x, strict=True))
    assert point["a"] == pytest.approx(0.8, rel=1e-12) and point["b"] == pytest.approx(0.8, rel=1e-12)


def test_response():
    load = 1.0 / (1.0 / 120 + 2j * np.pi * F * 2e-12)
    seen = through(50.0, 3e-9, load)
    z, reflected = np.exp(-2j * np.pi * F * 3e-9), (load - 50.0) / (load + 50.0)
    at_a = seen / (seen + 30.0)
    response = read(LINE).response(F)
    np.testing.assert_allclose(response["a"], at_a, rtol=1e-10)
    np.testing.assert_allclose(response["b"], at_a * z * (1.0 + reflected) / (1.0 + reflected * z * z), rtol=1e-10)


def test_noise_is_that_of_the_impedance():
    """Nyquist: the noise of a circuit in equilibrium is 4kT Re Z, whatever is in it."""
    Z = 1.0 / (1.0 / through(50.0, 3e-9, 30.0) + 1.0 / 120 + 2j * np.pi * F * 2e-12)
    density = read(LINE).noise_spectrum("b", F).density
    np.testing.assert_allclose(density, 4.0 * 1.380649e-23 * 300.15 * Z.real, rtol=1e-9)


def test_a_length_in_wavelengths_is_a_delay():
    by_length = read(LINE.replace("TD=3n", "F=100meg NL=0.3")).response(F)
    np.testing.assert_allclose(by_length["b"], read(LINE).response(F)["b"], rtol=1e-10)


def test_refusals():
    circuit = read(LINE + ".tran 1n 10n\n")
    for computation in (
        circuit.noiseless,
        circuit.time_steps,
        lambda: sd.simulate(circuit, dt=1e-9, t=(0, 1e-8), paths=2, seed=1),
    ):
        with pytest.raises(
            NetlistError, match="t1: an ideal line delays signals, which the methods for transients cannot"
        ):
            computation()
    with pytest.raises(ValueError, match="t1 is an ideal line, a delay, which periodic does not follow"):
        periodic(circuit)
    with pytest.raises(NetlistError, match="lines with losses"):
        read("t\nV1 a 0 1\nO1 a 0 b 0 m\nR1 b 0 1k\n.model m ltra r=1 l=1u c=1n len=1\n")
    with pytest.raises(NetlistError, match="its delay is missing: TD=, or F= and NL="):
        read("t\nV1 a 0 1\nT1 a 0 b 0 Z0=50\nR1 b 0 1k\n")
