"""LAPLACE sources: their response is the function of s itself, in time that of its states; what is no such function."""

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read

BASE = """title
.param tau=1u w=1e5
.func lp(x) {1/(1+x)}
V1 a 0 1 AC 1
RA a b 1k
CB b 0 1n
RC c 0 1k
"""
F = np.geomspace(1.0, 1e9, 25)
S = 2j * np.pi * F
FAR = 1e5 * (1 + S / 1e3) / ((1 + S / 10) * (1 + S / 1e6) * (1 + S / 1e8) * (1 + S / 3e9))
LINES = {
    "E1 c 0 LAPLACE {V(a)} {1/(1+s*tau)}": 1 / (1 + S * 1e-6),
    "E1 c 0 LAPLACE {V(a)} = {1/(1+s*tau)}": 1 / (1 + S * 1e-6),
    "E1 c 0 a 0 laplace=1/(1 + s*tau) mtol=1": 1 / (1 + S * 1e-6),
    "E1 c 0 a 0 Laplace = w^2/(s^2+0.1*w*s+{w}^2)": 1e10 / (S**2 + 1e4 * S + 1e10),
    "G1 0 c LAPLACE {2*V(a)} {lp(s/w)}": 2e3 / (1 + S / 1e5),
    "B1 c 0 V=V(a)*3 laplace=s/(s+w)": 3 * S / (S + 1e5),
    "F1 0 c V1 laplace=1/(1+s*tau)": -1e3 / (1e3 + 1e9 / S) / (1 + S * 1e-6),
    "E1 c 0 LAPLACE {V(a)} {1e5*(1+s/1e3)/((1+s/10)*(1+s/1e6)*(1+s/1e8)*(1+s/3e9))}": FAR,
    "E1 c 0 LAPLACE {V(a)} {5}": 5.0 + 0 * S,
    "E1 c 0 LAPLACE {V(a)} {-1/(s*tau+1)-1}": -1 / (1 + S * 1e-6) - 1,
}


@pytest.mark.parametrize(("line", "expected"), LINES.items(), ids=range(len(LINES)))
def test_the_response_is_the_function(line, expected):
    circuit = read(f"{BASE}{line}\n")
    found = circuit.small_signal.response(F)[:, circuit.names.index("c")]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_at_rest_and_in_modes_it_is_the_function_as_well():
    """The DC gain, and the poles: a resonance of ω = 1e5 and Q = 10 beside the RC."""
    circuit = read(BASE.replace("V1 a 0 1", "V1 a 0 2") + "E1 c 0 a 0 laplace=3*w^2/(s^2+0.1*w*s+w^2)\n")
    assert circuit.operating_point.x[circuit.names.index("c")] == pytest.approx(6.0, rel=1e-12)
    poles = 1e5 * (-0.05 + 1j * np.sqrt(1 - 0.05**2))
    expected = sorted([-1e6, poles, np.conj(poles)], key=lambda z: (z.real, z.imag))
    np.testing.assert_allclose(sorted(circuit.small_signal.rates, key=lambda z: (z.real, z.imag)), expected, rtol=1e-9)


def test_noise_goes_through_it():
    """White noise of a resistor behind a pole, V²: 4kTR over 4 tau."""
    circuit = read(BASE.replace("CB b 0 1n", "RB b 0 1k") + "E1 c 0 b 0 laplace=1/(1+s*tau)\n")
    k = circuit.names.index("e1.s0")
    assert circuit.small_signal.covariance()[k, k] == pytest.approx(1.380649e-23 * 300.15 * 500 / 1e-6, rel=1e-9)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("exp(-s*1u)", "expected a rational function of s"),
        ("1/sqrt(s)", "expected a rational function of s"),
        ("s^0.5", "expected a rational function of s"),
        ("s*tau", "grows without bound"),
        ("1/(s*q)", "there is no parameter q"),
        ("1/(s-s)", "divides by zero"),
        ("1/(1+s)^99", "at most 40"),
    ],
)
def test_other_functions_are_refused_by_name(function, message):
    with pytest.raises(NetlistError, match=f"line 8: e1: laplace: .*{message}"):
        read(f"{BASE}E1 c 0 LAPLACE {{V(a)}} {{{function}}}\n")


def test_incomplete_lines_are_refused():
    for line in ("E1 c 0 LAPLACE {V(a)}", "E1 c 0 a laplace=1/(1+s)"):
        with pytest.raises(NetlistError, match=r"line 8: e1: .*LAPLACE"):
            read(f"{BASE}{line}\n")
