"""C and L whose values are expressions, ddt and idt: beside the ordinary differential equations they stand for."""

import numpy as np
import pytest
import scipy.integrate

import stodyn as sd

STEP = "V1 a 0 PULSE(0 1 0 1n 1n 1 2)\nR1 a b 1k\n"
TRAN = ".tran 100n 2u\n"


def waveform(elements, name="b", tran=TRAN):
    circuit = sd.circuits.read(f"title\n{elements}\n{tran}")
    return circuit.times, circuit.noiseless(1e-6)[:, circuit.names.index(name)]


def source(t):
    return np.clip(t / 1e-9, 0.0, 1.0)


def solved(rate, times, start=0.0):
    solution = scipy.integrate.solve_ivp(rate, (0.0, times[-1]), [start], "LSODA", times, rtol=1e-10, atol=1e-14,
                                         max_step=5e-8)  # fmt: skip
    return solution.y[0]


@pytest.mark.parametrize(
    "line",
    [
        "C1 b 0 C='1n*(1 + 0.5*v(b))'",
        "C1 0 b C={1n*(1 + 0.5*v(b))}",
        "C1 b 0 Q='1n*v(b) + 0.25n*v(b)*v(b)'",
        "C1 b 0 Q=1n*x + 0.25n*x**2",
        "C1 b 0 Q=0.5n*x + 0.125n*x**2 m=2",
        "C1 b 0 C={1n*(1 + 0.5*abs(v(b)))}",
        "B1 b 0 I=ddt(1n*v(b) + 0.25n*v(b)**2)",
        "B1 b 0 I={1n*ddt(v(b) + 0.25*v(b)**2)}",
        "X1 b sub\n.subckt sub p\nC1 p 0 Q=1n*x + 0.25n*x**2\n.ends",
    ],
)
def test_a_capacitance_that_depends_on_its_voltage(line):
    times, out = waveform(STEP + line)
    expected = solved(lambda t, v: (source(t) - v) / (1e3 * 1e-9 * (1.0 + 0.5 * np.abs(v))), times)
    np.testing.assert_allclose(out, expected, atol=2e-6)


def test_a_capacitance_that_another_voltage_controls():
    """i = C dv/dt, as in ngspice; where C falls, the voltage does not rise by itself."""
    times, out = waveform(f"{STEP}V2 k 0 PWL(0 0 2u 2)\nC1 b 0 C='1n*(1 + v(k))'")
    expected = solved(lambda t, v: (source(t) - v) / (1e3 * 1e-9 * (1.0 + t / 1e-6)), times)
    np.testing.assert_allclose(out, expected, atol=2e-6)


@pytest.mark.parametrize(
    "line",
    [
        "L1 b 0 L='1m/(1 + 4e6*i(l1)*i(l1))'",
        "L1 b 0 L='1m/(1 + 4e6*i(v1)*i(v1))'",
        "L1 b 0 Flux=1m*atan(2k*x)/2k",
        "X1 b sub\n.subckt sub p\nL1 p 0 Flux={1m*atan(2k*x)/2k}\n.ends",
    ],
)
def test_an_inductance_that_depends_on_its_current(line):
    times, out = waveform(STEP + line, tran=".tran 100n 2u\n")
    current = solved(lambda t, i: (source(t) - 1e3 * i) * (1.0 + 4e6 * i * i) / 1e-3, times)
    np.testing.assert_allclose(out, source(times) - 1e3 * current, atol=2e-6)


def test_small_signals_see_the_slope_of_charge_and_flux():
    text = "title\nV1 a 0 DC 1 AC 1\nR1 a b 1k\n{}\n"
    f = np.array([1e4, 1e6])
    for line, same in (
        ("C1 b 0 Q=1n*x + 0.25n*x**2", "C1 b 0 1.5n"),
        ("C1 b 0 C={1n*(1 + 0.5*v(b))}", "C1 b 0 1.5n"),
        ("L1 b 0 Flux=1m*atan(2k*x)/2k", "L1 b 0 0.2m"),
    ):
        ours, theirs = (sd.circuits.read(text.format(part)).response(f)["b"] for part in (line, same))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_noise_charges_a_capacitor_that_varies():
    """kT over the slope of the charge, in the linearised circuit."""
    circuit = sd.circuits.read("title\nV1 a 0 1\nR1 a b 1k\nC1 b 0 Q=1n*x + 0.25n*x**2\n.tran 1n 1u\n")
    place = circuit.names.index("b")
    assert circuit.small_signal.covariance()[place, place] == pytest.approx(1.380649e-23 * 300.15 / 1.5e-9, rel=1e-9)


def test_integrals_begin_at_their_initial_values():
    times, out = waveform("V1 a 0 SIN(0 1 1k)\nB1 b 0 V=idt(2k*v(a)) + sdt(1k, 3)\nR1 b 0 1k", tran=".tran 10u 2m\n")
    expected = 2e3 * (1.0 - np.cos(2e3 * np.pi * times)) / (2e3 * np.pi) + 3.0 + 1e3 * times
    np.testing.assert_allclose(out, expected, atol=1e-7)
    circuit = sd.circuits.read("title\nV1 a 0 1 AC 1\nB1 b 0 V=idt(v(a), 2)\nR1 b 0 1k\n")
    assert circuit.operating_point.x[circuit.names.index("b")] == pytest.approx(2.0)
    assert circuit.response(np.array([10.0]))["b"][0] == pytest.approx(1.0 / (20j * np.pi))


def test_an_integral_does_not_move_at_rest():
    text = "title\nV1 a 0 1\nB1 b 0 V=idt(v(a), 2) + 3*v(a)\nR1 b c 1k\nR2 c 0 1k\n.tf v(c) v1\n.sens v(c)\n"
    circuit = sd.circuits.read(text)
    assert circuit.transfer().gain == pytest.approx(1.5)
    assert circuit.sensitivities()["v1.value"] == pytest.approx(1.5, rel=1e-6)
    assert circuit.sensitivities()["r2.value"] == pytest.approx(5.0 / 4e3, rel=1e-6)


def test_a_derivative_is_a_difference_over_a_step():
    circuit = sd.circuits.read("title\nV1 a 0 SIN(0 1 10k)\nB1 b 0 V=100u*ddt(v(a))\nR1 b 0 1k\nC1 b c 1n\nR2 c 0 1k\n"
                               ".tran 1u 100u\n")  # fmt: skip
    assert any("half the step" in note for note in circuit.notes)
    times, out = circuit.times, circuit.noiseless(1e-5)[:, circuit.names.index("b")]
    np.testing.assert_allclose(out[20:], (2 * np.pi * np.cos(2e4 * np.pi * times))[20:], atol=0.3)


def test_a_resistor_of_an_expression_inside_a_subcircuit():
    text = "title\nV1 a 0 2\nR1 a b 1k\nX1 b sub\n.subckt sub p\nR1 p 0 R={1k*(1 + v(p))}\n.ends\n"
    circuit = sd.circuits.read(text)
    v = circuit.operating_point.x[circuit.names.index("b")]
    assert (2.0 - v) * (1.0 + v) == pytest.approx(v)


def test_capacitors_by_their_area_and_rim():
    text = "title\nV1 a 0 AC 1\nR1 a b 1meg\n{}\n.model cm c(cj=1m cjsw=1n narrow=1u short=0.5u)\n"
    of, same = (sd.circuits.read(text.format(line)) for line in ("C1 b 0 cm l=10u w=20u", "C1 b 0 237.5f"))
    f = np.array([1e6])
    assert of.response(f)["b"] == pytest.approx(same.response(f)["b"])


def test_what_cannot_be_read_says_what_to_write():
    for line, words in (
        ("C1 a 0 Q=1n", "reads no voltage"),
        ("B1 a 0 V=idt(v(b), 1, 2)", "an initial value"),
        ("B1 a 0 V=ddt(v(b), 1)", "takes one expression"),
        ("B1 a 0 V=idtmod(v(b))", "by a switch"),
        ("L1 a 0 Hc=16 Bs=0.4 Br=0.1", "Flux="),
    ):
        with pytest.raises(sd.circuits.NetlistError, match=words):
            sd.circuits.read(f"title\nV1 b 0 1\nR1 b a 1k\n{line}\n")
