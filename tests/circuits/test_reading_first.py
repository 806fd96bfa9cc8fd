"""A circuit is read and analysed without noise before its noise is placed in time; what cannot be placed is named."""

import warnings

import numpy as np
import pytest

import stodyn as sd
from stodyn.circuits import NetlistError, read

BARE = """Two diodes at nodes without capacitors
V1 a 0 1 AC 1
R1 a b 1k
D1 b 0 d
R2 b c 1k
D2 c 0 d
C1 a 0 1p
.model d d
.tran 1n 10n
"""
NAMED = "r1, d1, r2, d2: their thermal and shot noise is white but there is no capacitor from b, c to ground"


def test_noise_that_cannot_be_placed_leaves_the_other_analyses():
    """.op, .ac, .noise and the transient without noise are those of the same circuit with its noise off, or with
    capacitors so small that they do not matter.
    """
    circuit, quiet = read(BARE), read(f"{BARE}.options noise=off\n")
    with_capacitors = read(f"{BARE}CB b 0 1e-18\nCC c 0 1e-18\n")
    np.testing.assert_allclose(circuit.operating_point.x, quiet.operating_point.x, rtol=1e-12)
    np.testing.assert_allclose(circuit.response([1e3])["c"], quiet.response([1e3])["c"], rtol=1e-12)
    np.testing.assert_allclose(circuit.noiseless()[-1], quiet.noiseless()[-1], rtol=1e-12)
    np.testing.assert_allclose(
        circuit.noise_spectrum("c", [1e3]).density, with_capacitors.noise_spectrum("c", [1e3]).density, rtol=1e-9
    )


@pytest.mark.parametrize("ask", [
    lambda circuit: sd.simulate(circuit, t=(0, 1e-9), dt=1e-10, paths=2, seed=1),
    lambda circuit: circuit.small_signal.covariance(),
    lambda circuit: circuit.noise_structure,
    lambda circuit: circuit.channels.labels,
], ids=["simulate", "covariance", "structure", "channels"])  # fmt: skip
def test_whatever_asks_for_that_noise_in_time_is_refused_with_all_elements(ask):
    with pytest.raises(NetlistError, match=f"line 3: {NAMED}, so that in time they .*noise=off on the lines"):
        ask(read(BARE))


def test_circuits_without_capacitors_and_inductors():
    """A divider: its gain, and the thermal noise 4kT R of its two resistors in parallel."""
    circuit = read("title\nV1 a 0 2 AC 1\nR1 a b 1k\nR2 b 0 3k\n.tran 1n 10n\n")
    assert dict(zip(circuit.names, circuit.operating_point.x, strict=True))["b"] == pytest.approx(1.5)
    assert circuit.response([1e3])["b"][0] == pytest.approx(0.75)
    expected = 4.0 * 1.380649e-23 * 300.15 * 750.0
    assert circuit.noise_spectrum("b", [1e3]).density[0] == pytest.approx(expected, rel=1e-12)
    for ask in (circuit.noiseless, circuit.time_steps):
        with pytest.raises(NetlistError, match=r"neither a capacitor nor an inductor.*\.op, \.ac and \.noise work"):
            ask()
    with pytest.raises(NetlistError, match="neither a capacitor nor an inductor"):
        sd.simulate(circuit, t=(0, 1e-9), dt=1e-10, paths=2, seed=1)


FLICKER = "title\nV1 a 0 1 AC 1\nR1 a b 1k\nD1 b 0 d\nC1 b 0 1p\n.model d d kf=1e-14\n"


def test_flicker_noise_needs_a_band_only_in_time():
    circuit, banded = read(FLICKER), read(f"{FLICKER}.options flo=1 fhi=1k\n")
    f = [1.0, 100.0]
    np.testing.assert_allclose(circuit.noise_spectrum("b", f).density, banded.noise_spectrum("b", f).density, rtol=1e-9)
    with pytest.raises(NetlistError, match=r"line 4: d1: flicker noise in time needs a band, from \.tran or \.options"):
        sd.simulate(circuit, t=(0, 1e-9), dt=1e-10, paths=2, seed=1)
    with pytest.raises(NetlistError, match="runs from 1000 to 1 Hz; expected flo < fhi"):
        read(f"{FLICKER}.options flo=1k fhi=1\n")


@pytest.mark.parametrize(("expression", "volts"), [
    ("log(V(a))", np.log(2.0)), ("log(V(a)-V(c))", 0.0), ("1/V(a)", 0.5), ("log10(V(a)/V(c))", np.log10(2.0)),
    ("sqrt(V(c)) + ln(V(c)*V(c))", 1.0),
])  # fmt: skip
def test_expressions_without_a_value_at_the_first_guess(expression, volts):
    circuit = read(f"title\nV1 a 0 2\nR2 a c 1k\nR3 c 0 1k\nC1 c 0 1p\nB1 b 0 V={expression}\nR1 b 0 1k\n")
    assert dict(zip(circuit.names, circuit.operating_point.x, strict=True))["b"] == pytest.approx(volts, abs=1e-9)


@pytest.mark.parametrize("expression", ["log(-V(a))", "log10(V(c)-V(a))"])
def test_an_expression_without_a_value_where_the_circuit_is_names_the_reason(expression):
    words = r"no DC operating point was found .* \(an expression at i\(b1\) has no value where the search leads"
    with pytest.raises(NetlistError, match=words):
        read(f"title\nV1 a 0 2\nC1 a 0 1p\nR2 a c 1k\nR3 c 0 1k\nB1 b 0 V={expression}\nR1 b 0 1k\n")


@pytest.mark.parametrize(("line", "words"), [
    ("B1 b 0 V=V(a)^3", "line 2: b1: an odd power of a negative number is negative; ngspice has"),
    ("B1 b 0 V=pow(V(a), 5)", "line 2: b1: an odd power"),
    ("B1 b 0 V=V(a)**2", None),
    ("RM a b 1M", "line 2: rm: 1M is 1 milliohm, as in SPICE; write 1MEG for megohms"),
    ("RM a b 5m", None),
    ("RM a b 2MOhm", "line 2: rm: 2M is 2 milliohm"),
    ("CF b 0 1F", "line 2: cf: 1F is 1 femtofarad, as in SPICE; write 1 for farads"),
    ("CF b 0 1f", None),
    ("CF b 0 1uF", None),
    ("VM b 0 SIN(0 1 10M)", "line 2: vm: 10M is 10 millihertz, as in SPICE; write 10MEG for megahertz"),
    ("VM b 0 SIN(0 1 10MEG)", None),
    (".ac dec 10 1M 2M", "line 2: 1M is 1 millihertz"),
])  # fmt: skip
def test_values_that_other_programs_read_differently_are_noted(line, words):
    notes = read(f"title\n{line}\nV1 a 0 1\nR1 b 0 1k\nR2 a c 1k\nC1 c 0 1p\n").notes
    assert notes == () if words is None else any(note.startswith(words) for note in notes)


def test_a_frequency_in_milli_is_shown_where_it_makes_no_sense():
    with pytest.raises(NetlistError, match=r"line 3: \.ac: expected f1 <= f2 .*; M is milli, MEG is mega"):
        read("title\nR1 a 0 1k\n.ac dec 10 1k 10M\n")


@pytest.mark.parametrize(("card", "bulk", "is_warned"), [
    ("vto=1", "0", True), ("vto=1 is=1e-14", "0", False), ("vto=1", "x", False), ("vto=1 cj=1m", "0", False),
])  # fmt: skip
@pytest.mark.parametrize("uic", [False, True])
def test_a_body_that_would_conduct_has_a_junction_with_a_note(card, bulk, is_warned, uic):
    """A drain 1 V below its body: a diode, unless the body is at the drain; with uic a warning comes later."""
    end = "C1 x 0 1p\n.tran 1n 9n uic\n" if uic else ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        circuit = read(f"title\nV1 d 0 -1\nR1 d x 1k\nM1 x 0 x {bulk} nch\n.model nch nmos({card})\n{end}")
        volts = circuit.operating_point.x[circuit.names.index("x")]
    words = "line 4: m1: at the operating point the junction between its body and its drain would be 1 V forward"
    told = [str(w.message) for w in caught] if uic else circuit.notes
    assert any(words in message for message in told) is is_warned
    conducts = bulk == "0" and (card != "vto=1" or not uic)
    current = 1e-14 * np.expm1(-volts / (1.380649e-23 * 300.15 / 1.602176634e-19))
    assert (-1.0 - volts) / 1e3 == pytest.approx(-2.0 * current if conducts else 0.0, rel=1e-6, abs=1e-15)


def test_capacitors_of_cmin_give_the_noise_a_place_and_state_their_effect():
    """At b, 1 kΩ beside the diode: kT/C of 1 fF up to the shot noise; the note gives 1/(2π R C)."""
    circuit = read("title\nV1 a 0 0 AC 1\nR1 a b 1k\nD1 b 0 d\n.model d d is=1e-20\n.options cmin=1f\n.tran 1n 10n\n")
    variance = circuit.small_signal.covariance()[circuit.names.index("b"), circuit.names.index("b")]
    assert variance == pytest.approx(1.380649e-23 * 300.15 / 1e-15, rel=1e-6)
    assert any(
        ".options cmin=1e-15: added from b to ground. Alone they act from 1.59e+11 Hz on" in n for n in circuit.notes
    )
    full = read("title\nV1 a 0 1\nR1 a b 1k\nC1 b 0 1n\n.options cmin=1f\n")
    assert any("every node has a capacitor already" in note for note in full.notes)
