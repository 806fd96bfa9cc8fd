"""N, the noise of an amplifier as its data sheet states it: closed forms, ngspice's way to write it, and refusals."""

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read
from stodyn.circuits.devices import BOLTZMANN

KT = BOLTZMANN * 300.15
AMPLIFIER = """a gain of 10, whose resistors are quiet
V1 in 0 0 AC 1
N1 in p m {}
E1 out 0 p m 1e9
R1 m 0 1k noise=off
R2 out m 9k noise=off
RL out x 1k noise=off
CL x 0 1n
"""


def shown(more, node="out"):
    circuit = read(AMPLIFIER.format(more))
    spectrum = circuit.noise_spectrum(node, np.geomspace(1.0, 1e7, 15))
    return spectrum.frequency, spectrum.density


def test_the_spectrum_is_that_of_the_data_sheet():
    """4 nV/√Hz times the gain, and 2 pA/√Hz in the resistor that carries it back, with their corners."""
    f, density = shown("en=4n")
    np.testing.assert_allclose(density, 1600e-18, rtol=1e-7)
    f, density = shown("en=4n enk=10 in=2p ink=100")
    expected = 100 * 16e-18 * (1 + 10 / f) + 9e3**2 * 4e-24 * (1 + 100 / f)
    np.testing.assert_allclose(density, expected, rtol=1e-7)
    f, density = shown("in=2p bw=1meg")
    np.testing.assert_allclose(density, 9e3**2 * 4e-24 / (1 + (f / 1e6) ** 2), rtol=1e-7)


def test_the_density_does_not_depend_on_the_temperature_of_the_circuit():
    hot = read(AMPLIFIER.format("en=4n") + ".temp 125\n").noise_spectrum("out", [1e3])
    assert hot.density[0] == pytest.approx(1600e-18, rel=1e-7)


def test_the_current_flows_into_both_pins():
    source = AMPLIFIER.replace("V1 in 0 0 AC 1", "RS in 0 50k noise=off")
    spectrum = read(source.format("in=2p")).noise_spectrum("out", [1e3])
    assert spectrum.parts["n1.in"][0] == pytest.approx((2e-12 * 50e3 * 10) ** 2, rel=1e-6)
    assert spectrum.parts["n1.inn"][0] == pytest.approx((2e-12 * 9e3) ** 2, rel=1e-6)


def test_in_time_the_noise_is_what_the_spectrum_says():
    """The variance behind R and C is the density over 4 R C; a bandwidth adds its pole."""
    for more, expected in (("en=4n in=2p", (100 * 16e-18 + 81e6 * 4e-24) / 4e-6),
                           ("en=4n bw=1meg", 1600e-18 / 4 / (1e-6 + 1 / (2e6 * np.pi)))):  # fmt: skip
        circuit = read(AMPLIFIER.format(more))
        k = circuit.names.index("x")
        assert circuit.small_signal.covariance()[k, k] == pytest.approx(expected, rel=1e-7)


def test_the_gain_of_an_ideal_amplifier_does_not_decide_whether_its_noise_has_a_place():
    """Its equation is multiplied by the gain, and so is what rounding leaves of the noise in it."""
    for gain in ("1e8", "1e10", "3e11", "1e12"):
        circuit = read(AMPLIFIER.replace("1e9", gain).format("en=4n in=2p"))
        k = circuit.names.index("x")
        expected = (100 * 16e-18 + 81e6 * 4e-24) / 4e-6
        assert circuit.small_signal.covariance()[k, k] == pytest.approx(expected, rel=1e-6)


def test_flicker_noise_in_time_comes_from_the_filters_of_the_band():
    """They have the density 1/f of size 1, times ENK EN² and the square of the gain."""
    circuit = read(AMPLIFIER.format("en=4n enk=1k") + ".options flo=10 fhi=100k\n")
    filters, k = circuit.network.filters, circuit.names.index("out")
    of_size_one = (np.sum(filters.B**2, axis=1) / (-2.0 * np.diagonal(filters.A))).sum()
    assert circuit.small_signal.covariance()[k, k] == pytest.approx(1600e-18 * 1e3 * of_size_one, rel=1e-6)
    assert "out" in circuit.channels.without_white


@pytest.mark.parametrize("load", ["D1 p 0 d\n.model d D\n", "CP p 0 1p\n"])
def test_where_white_noise_has_no_place_the_bandwidth_is_asked_for(load):
    """A diode or a capacitor at the node that EN drives: frequencies work, time needs BW."""
    text = AMPLIFIER + load
    circuit = read(text.format("en=4n"))
    assert circuit.noise_spectrum("out", [1e3]).density[0] == pytest.approx(1600e-18, rel=1e-6)
    with pytest.raises(NetlistError, match=r"line 3: n1\.en: this noise is white.*bw="):
        _ = circuit.channels.labels
    k = circuit.names.index("x")
    limited = read(text.format("en=4n bw=1meg")).small_signal.covariance()[k, k]
    assert limited == pytest.approx(1600e-18 / 4 / (1e-6 + 1 / (2e6 * np.pi)), rel=1e-5)


def test_noise_can_be_switched_off():
    assert not shown("en=4n enk=10 in=1p noise=off")[1].any()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("N1 in p m mymodel", "compiled Verilog-A"),
        ("N1 in p m", "en= and in= are missing"),
        ("N1 in in m en=4n", "are the same"),
        ("N1 in p m en=-4n", "at least 0"),
        ("N1 in p m en=4n fc=3", "did not expect fc="),
    ],
)
def test_lines_that_cannot_be_read(line, message):
    with pytest.raises(NetlistError, match=f"line 2: .*{message}"):
        read(f"title\n{line}\nR1 in 0 1k\nR2 p 0 1k\nR3 m 0 1k\n")


# --- TRNOISE ----------------------------------------------------------------------------------------------------------


def test_trnoise_has_the_density_and_the_variance_of_straight_lines():
    """2 NA² NT one-sided at low frequencies, 2/3 NA² in all; and the source keeps its value."""
    for line in ("V1 a 0 DC 2 TRNOISE(20m 1n 0 0)", "I1 0 a DC 2 TRNOISE 20m 1n"):
        circuit = read(f"title\n{line}\nRA a 0 1 noise=off\nRB a b 1 noise=off\nCB b 0 1p\n")
        assert circuit.operating_point.x[circuit.names.index("a")] == pytest.approx(2.0)
        assert circuit.noise_spectrum("a", [1.0]).density[0] == pytest.approx(2 * 4e-4 * 1e-9, rel=1e-6)
        k = circuit.names.index("a")
        assert circuit.small_signal.covariance()[k, k] == pytest.approx(4e-4 * 2 / 3, rel=3e-3)
        assert any("TRNOISE" in note and "ngspice" in note for note in circuit.notes)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [("1m 1n 1 1m", "NAMP"), ("1m 1n 0 0 1m 1n 1n", "RTSAM"), ("1m", "expected TRNOISE"), ("1m 0", "expected TRNOISE")],
)
def test_other_trnoise_is_refused_by_name(numbers, message):
    with pytest.raises(NetlistError, match=f"line 2: v1: .*{message}"):
        read(f"title\nV1 a 0 TRNOISE({numbers})\nR1 a 0 1k\n")
