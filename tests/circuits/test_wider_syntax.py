"""Ways of writing that ngspice, LTspice and PSpice have: sources over time, polynomials, currents of any element, stray
resistances of parts, libraries that are not there, inductors that nothing else holds."""

import math

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read
from stodyn.circuits.elements.controlled import monomials

BODY = "title\nV1 in 0 5 AC 1\nR1 in a 1k\nR2 a 0 1k\n"


def point(text):
    circuit = read(text)
    return dict(zip(circuit.names, circuit.operating_point.x, strict=True)), circuit


def over_time(line, times, more=".tran 1u 100u\n"):
    circuit = read(f"title\n{line}\nR1 a 0 1\nC1 b 0 1n\nR2 b 0 1\n{more}")
    values = circuit.network.sources.at_times(np.asarray(times))[:, 0]
    for t, value in zip(times, values, strict=True):
        assert circuit.network.sources.values(t, np)[0] == value
    return values, circuit


def test_modulated_sources_follow_their_formulas():
    t = np.linspace(0.0, 1e-4, 50)
    w = 2.0 * math.pi
    fm, _ = over_time("V1 a 0 SFFM(0.5 1 20k 3 2k 30 40)", t)
    np.testing.assert_allclose(
        fm, 0.5 + np.sin(w * 2e4 * t + math.pi / 6 + 3.0 * np.sin(w * 2e3 * t + 4 * math.pi / 18)), atol=1e-12
    )
    am, circuit = over_time("V1 a 0 AM(0.5 2 4k 20k 10u)", t)
    late = np.maximum(t - 1e-5, 0.0)
    np.testing.assert_allclose(am, 0.5 * (2.0 + np.sin(w * 4e3 * late)) * np.sin(w * 2e4 * late), atol=1e-12)
    assert circuit.network.sources.period() == (pytest.approx(2.5e-4), pytest.approx(2.5e-4))


def test_pulses_longer_than_their_period_are_cut_as_by_ngspice():
    """Figures of ngspice 39 for PULSE(0 1 1u 2u 3u 4u 6u): up in 2 µs, then 1 until the period ends."""
    values, circuit = over_time("V1 a 0 PULSE(0 1 1u 2u 3u 4u 6u)", [0.5e-6, 2e-6, 5e-6, 6.9e-6, 7.5e-6, 8e-6, 12e-6])
    np.testing.assert_allclose(values, [0.0, 0.5, 1.0, 1.0, 0.25, 0.5, 1.0], atol=1e-9)
    assert any("jumps where it is repeated; here it takes 2e-09 s" in note for note in circuit.notes)
    np.testing.assert_allclose(
        circuit.network.sources.corners(0.0, 8e-6), [1e-6, 3e-6, 7e-6 - 2e-9, 7e-6], rtol=1e-9
    )  # fmt: skip
    assert circuit.network.sources.period()[0] == pytest.approx(6e-6)


def test_lines_may_begin_later_and_come_again():
    """PWL(0 0 1u 1 3u 0.5) td=2u r=1u as ngspice 39 has it."""
    times = [1e-6, 2.5e-6, 3e-6, 4e-6, 4.9e-6, 5.5e-6, 6e-6, 9.5e-6]
    values, circuit = over_time("V1 a 0 PWL(0 0 1u 1 3u 0.5) td=2u r=1u", times)
    np.testing.assert_allclose(values, [0.0, 0.5, 1.0, 0.75, 0.525, 0.875, 0.75, 0.875], atol=1e-9)
    assert circuit.network.sources.period() == (pytest.approx(2e-6), pytest.approx(4e-6))


def test_pulses_may_be_counted():
    """LTspice's eighth number: three pulses of 2 µs in periods of 4 µs."""
    values, circuit = over_time("V1 a 0 PULSE(0 1 1u 1n 1n 2u 4u 3)", [2e-6, 4e-6, 10e-6, 14e-6])
    assert values.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert circuit.network.sources.corners(0.0, 1e-4).max() < 14e-6 and circuit.network.sources.period()[0] is None


def test_a_period_of_zero_is_none():
    values, _ = over_time("V1 a 0 PULSE(0 1 1u 2u 3u 4u 0)", [50e-6])
    assert values[0] == 0.0


def test_the_terms_of_a_polynomial_come_in_the_order_of_spice():
    assert monomials(2, 8) == ((), (0,), (1,), (0, 0), (0, 1), (1, 1), (0, 0, 0), (0, 0, 1))


@pytest.mark.parametrize(("lines", "volts"), [
    ("E1 x 0 POLY(2) (in,0) (a,0) 0.5 2 3\n", 0.5 + 10 + 7.5),
    ("E1 x 0 POLY(2) in 0 a 0 0.5 2 3 0.1 0.2 0.3\n", 18.0 + 2.5 + 0.2 * 12.5 + 0.3 * 6.25),
    ("G1 0 x POLY(3) in 0 a 0 in a 0 1m 2m 4m\n", 1e3 * (5e-3 + 5e-3 + 10e-3)),
    ("F1 0 x POLY(2) V1 VM 0 1 2\nVM m 0 0\nI1 0 m 1m\n", 1e3 * (-2.5e-3 + 2e-3)),
    ("H1 x 0 POLY(1) V1 0 1k 1e6\n", -2.5 + 6.25),
    ("E1 x 0 TABLE {V(in)} = (0,0) (10,4)\n", 2.0),
    ("E1 (x 0) (in a) 3\n", 7.5),
    ("E1 x 0 VALUE {V(in)*2}\n", 10.0),
    ("B1 x 0 V=1000*I(R1)\n", 2.5),
    ("F1 0 x R2 2\n", 5.0),
    ("B1 0 x I=I(R1)+I(R2)\n", 5.0),
    ("B1 y 0 I=1m\nR5 y 0 1k\nB2 x 0 V=I(B1)*3k\n", 3.0),
    ("B1 x 0 V=2+1 Rpar=1k\n", 3.0),
    ("B1 x 0 V=V(in) > 3 & ~(V(a) > 3) ? 1 : 2\n", 1.0),
    ("B1 x 0 V=exp(V(in)/10) + exp(V(in)*1e3)*1e-87\n", math.exp(0.5) + math.exp(200.0) * 1e-87),
    ("B1 x 0 V=e + asin(V(in)/10) + atan2(V(in), 5) + max(1, 2, 3)\n", math.e + math.pi / 6 + math.pi / 4 + 3),
    ("R3 in x R='1k*(1+V(in)/5)'\n", 5.0 / 3.0),
    ("R3 in x rm\n.model rm r (r=3k)\n", 1.25),
    ("R3 in x 2k rm\n.model rm r (r=3k)\n", 5.0 / 3.0),
    ("R3 in x 4k7\n", 5.0 / 5.7),
    ("V2 x 0 3 Rser=500 Cpar=1n\n", 2.0),
    ("L1 in x 1m Rser=500 Rpar=1meg Ipk=3 Mfg=\"a b\"\n", 5e3 / (1e3 + 500.0 * 1e6 / (500.0 + 1e6))),
    ("I1 0 x AC 1 DC {1m}\n", 1.0),
    ("V2 y 0 AC {3}\nE1 x 0 y 0 1\n", 0.0),
    ("R in x 1k\n", 2.5),
    ("B1 x 0 V=time + V(in)\n", 5.0),
])  # fmt: skip
def test_every_form_gives_its_operating_point(lines, volts):
    voltages, _ = point(f"{BODY}RX x 0 1k\n{lines}")
    assert voltages["x"] == pytest.approx(volts, rel=1e-9, abs=1e-9)


def test_expressions_may_read_the_time():
    """A source that rises by 1 V/µs charges 1 pF through 1 kΩ: v = r (t - τ (1 - exp(-t/τ)))."""
    circuit = read("title\nB1 a 0 V=time*1e6\nR1 a b 1k\nC1 b 0 1p\n.tran 1n 10n\n")
    t, tau = circuit.times, 1e-9
    expected = 1e6 * (t + tau * np.expm1(-t / tau))
    np.testing.assert_allclose(circuit.noiseless()[:, circuit.names.index("b")], expected, atol=1e-9)


def test_three_inductors_are_coupled_in_pairs():
    """An ideal transformer of 1 to 2 to 1, whose loads are light."""
    circuit = read(
        "title\nV1 a 0 AC 1\nR1 a b 1m\nL1 b 0 1m\nL2 c 0 4m\nL3 d 0 1m\nK1 L1 L2 L3 1\nR2 c 0 1k\nR3 d 0 1k\n"
    )
    response = circuit.response([1e4])
    assert [abs(response[name][0]) for name in "cd"] == pytest.approx([2.0, 1.0], rel=1e-5)
    assert any("a coefficient of 1 is taken as 0.99999999" in note for note in circuit.notes)


def test_a_node_between_inductors_is_held():
    """Two inductors in series are one, in .ac and in a transient."""
    text = "title\nV1 in 0 SIN(0 1 1k) AC 1\nR1 in a 1\n{}\nR2 b 0 10\n.tran 100u 1m\n"
    two, one = read(text.format("L1 a t 1m\nL2 t b 2m")), read(text.format("L1 a b 3m"))
    assert any("t is joined to the rest by inductors" in note for note in two.notes)
    np.testing.assert_allclose(two.response([1e3, 1e9])["b"], one.response([1e3, 1e9])["b"], rtol=1e-8)
    columns = [circuit.names.index("b") for circuit in (two, one)]
    np.testing.assert_allclose(two.noiseless()[:, columns[0]], one.noiseless()[:, columns[1]], atol=1e-5)


def test_an_inductor_across_a_source_and_a_loose_winding_have_an_operating_point():
    voltages, circuit = point("title\nV1 a 0 SIN(0 1 1k)\nL1 a 0 1\nL2 s t 1\nK1 L1 L2 0.9\nR1 s t 1k\n")
    assert max(abs(value) for value in voltages.values()) == 0.0
    assert any("l1: in a loop of voltage sources and inductors" in note for note in circuit.notes)
    assert any("s is joined to ground by the coupling of inductors alone" in note for note in circuit.notes)


def test_libraries_that_are_not_there_matter_only_where_they_are_used(tmp_path):
    file = tmp_path / "a.cir"
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "d.lib").write_text(".model good d\n")
    start = "title\nV1 a 0 1\nR1 a b 1k\n.lib C:\\Program Files\\LTC\\lib\\cmp\\standard.dio\n"
    file.write_text(f"{start}.include my models/d.lib\nD1 b 0 good\n")
    circuit = read(file)
    assert any("standard.dio: there is no such file" in note and "left out" in note for note in circuit.notes)
    file.write_text(f"{start}D1 b 0 1n4148\n")
    with pytest.raises(
        NetlistError, match=r"line 5: d1: there is no \.model 1n4148: write .*\. a\.cir, line 4: \.lib .*standard"
    ):
        read(file)


def test_models_of_unknown_types_and_files_included_twice_do_no_harm(tmp_path):
    (tmp_path / "x.lib").write_text(".subckt s a b\nR1 a b 1k\n.ends\n.model vd vdmosx (vto=2)\n")
    (tmp_path / "a.cir").write_text("title\n.include x.lib\n.include x.lib\nV1 a 0 1\nX1 a b s\nR1 b 0 1k\n")
    assert dict(zip((c := read(tmp_path / "a.cir")).names, c.operating_point.x, strict=True))["b"] == pytest.approx(0.5)


def test_devices_may_have_a_temperature_of_their_own():
    """A device in a circuit at 80 °C and one with temp=80 or dtemp=53 in a circuit at 27 °C; so has their noise."""
    text = "title\nV1 in 0 5 AC 1\nR1 in a 1k tc1=1m {}\nD1 a 0 d {}\nC1 a 0 1n\n"
    text += "RB in b 100k {}\nCB b 0 1p\nQ1 a b 0 q {}\n.model d d is=1e-13\n.model q npn bf=50\n"
    warm = read(f"{text.format('', '', '', '')}.temp 80\n")
    alone = read(text.format("temp=80", "dtemp=53", "temp=80", "dtemp=53"))
    np.testing.assert_allclose(alone.operating_point.x, warm.operating_point.x, rtol=1e-12)
    np.testing.assert_allclose(
        alone.noise_spectrum("a", [1e3]).density, warm.noise_spectrum("a", [1e3]).density, rtol=1e-12
    )
    np.testing.assert_allclose(alone.small_signal.covariance()[1, 1], warm.small_signal.covariance()[1, 1], rtol=1e-9)


def test_op_amps_without_feedback_go_to_their_ends():
    """A gain of 200 000 into an expression: half a megavolt, in a few steps of Newton's method."""
    voltages, circuit = point("title\nV1 a 0 2.5\nE1 b 0 a 0 200k\nR1 b c 1k\nG1 0 c VALUE={limit(V(c)*1u, -1u, 1u)}\n")
    assert voltages["c"] == pytest.approx(5e5, rel=1e-6) and circuit.operating_point.rounds < 40


CONTROLS = [(4.0, 10.0), (3.0, 10.0), (1.0, 1e5), (0.0, 1e5), (2.0, 1e3), (2.5, 10.0 ** (3 - 11 / 8))]


@pytest.mark.parametrize(("control", "ohms"), CONTROLS)
def test_switches_of_pspice_go_from_voff_to_von(control, ohms):
    """log R = middle + (3 z - z³)/4 of the way, z from -1 at VOFF to 1 at VON; exchanged ends turn the sense."""
    lines = f"V1 a 0 1\nR1 a b 1k\nS1 b 0 c 0 sw\nV2 c 0 {control}\n"
    circuit = read(f"title\n{lines}.model sw vswitch(ron=10 roff=100k von=3 voff=1)\n")
    found = circuit.operating_point.x[circuit.names.index("b")]
    assert found == pytest.approx(ohms / (1e3 + ohms), rel=1e-9)
    other = read(f"title\n{lines}.model sw vswitch(ron=100k roff=10 von=1 voff=3)\n")
    assert other.operating_point.x[other.names.index("b")] == pytest.approx(found, rel=1e-9)


def test_a_switch_of_pspice_needs_two_voltages():
    with pytest.raises(NetlistError, match=r"line 4: \.model sw: von and voff are the same"):
        read("title\nR1 a 0 1k\nS1 a 0 a 0 sw\n.model sw vswitch(von=1 voff=1)\n")


def test_copies_of_a_subcircuit_stand_side_by_side():
    """m=4 of two resistors in a row, one of them twice; their noise is that of all eight."""
    deck = "t\nI1 0 a 1m\nX1 a 0 two m=4\n.subckt two a b\nR1 a c 1k m=2\nR2 c b 500\n.ends\n"
    circuit = read(deck)
    assert circuit.operating_point.x[0] == pytest.approx(0.25, rel=1e-12)
    assert circuit.names == ("a", "x1.c", "x1#2.c", "x1#3.c", "x1#4.c")
    assert circuit.noise_spectrum("a", 1.0).density[0] == pytest.approx(4.0 * 1.380649e-23 * 300.15 * 250.0, rel=1e-9)
    assert read(deck.replace("two a b", "two a b m=3")).n == 2
    with pytest.raises(NetlistError, match=r"line 3: x1: m=2.5 copies of a subcircuit; expected a whole number from 1"):
        read(deck.replace("m=4", "m=2.5"))


def test_what_designers_write_besides(tmp_path):
    """Subcircuits without nodes, a sine with LTspice's number of cycles, and the last character of files of DOS."""
    file = tmp_path / "a.cir"
    file.write_bytes(
        b"t\r\nV1 a 0 SIN(0 1 200 0 0 0 0) DC 2\r\nR1 a 0 1k\r\nX1 own\r\n.subckt own\r\nV2 b 0 3\r\nR2 b 0 1k\r\n"
        b".ends\r\n\x1a"
    )
    circuit = read(file)
    assert dict(zip(circuit.names, circuit.operating_point.x, strict=True))["x1.b"] == pytest.approx(3.0)
    with pytest.raises(NetlistError, match="got 7"):
        read("t\nV1 a 0 SIN(0 1 200 0 0 0 3)\nR1 a 0 1k\n")
