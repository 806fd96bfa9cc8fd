"""Gradients of expectations by numbers of a netlist, which move the operating point at the start as well."""

import numpy as np
import pytest

import stodyn as sd

CERTAIN = 5.2  # standard errors, which a normal number exceeds twice in ten million
DIVIDER = """A divider with a capacitor
.param c=1n
V1 a 0 DC 1
R1 a b 1k
R2 b 0 2k
C1 b 0 {c}
.tran 50n 1u
"""


def gradients(f, of, paths):
    circuit = sd.circuits.read(DIVIDER)
    return sd.sensitivity(circuit, f, of=of, t=circuit.span, dt=circuit.step, paths=paths, seed=1)


def test_the_voltage_of_a_divider_goes_with_its_operating_point():
    """At rest v = V R2/(R1 + R2) at all times, also where it begins."""
    r1, r2 = 1e3, 2e3
    result = gradients(lambda t, x: x[1], ("R1.value", "v1.value"), 16)
    exact = [-r2 / (r1 + r2) ** 2, r2 / (r1 + r2)]
    assert np.all(np.abs(result["gradient"] - exact) < CERTAIN * result["gradient_stderr"] + 1e-9)


def test_thermal_noise_by_a_capacitance():
    """v has come from rest to the variance kT/C (1 - exp(-2 t/(R C)))."""
    R, c, t, kT = 2e3 / 3, 1e-9, 1e-6, 1.380649e-23 * 300.15
    result = gradients(lambda t, x: (1e6 * (x[1] - 2 / 3)) ** 2, "c", 4_000)
    left = np.exp(-2 * t / (R * c))
    exact = 1e12 * (-kT / c**2 * (1 - left) - kT / c * left * 2 * t / (R * c**2))
    assert abs(float(result["gradient"][0]) - exact) < CERTAIN * float(result["gradient_stderr"][0])


def test_unknown_numbers_are_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"'r3.value' is no number of the netlist; these are .*r1.value"):
        gradients(lambda t, x: x[1], "r3.value", 20)
