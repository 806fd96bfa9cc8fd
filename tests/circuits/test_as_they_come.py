"""Constructs of public netlists that are not faults there, and the excess phase PTF."""

import math

import numpy as np
import pytest

import stodyn as sd


def point(text, node):
    circuit = sd.circuits.read(f"title\n{text}")
    return circuit.operating_point.x[circuit.names.index(node)]


def test_a_tran_without_an_end_is_left_out():
    circuit = sd.circuits.read("title\nV1 a 0 1\nR1 a b 1k\nC1 b 0 1n\n.tran 0 0 0\n.ic\n")
    assert sum("left out" in note for note in circuit.notes) == 2
    with pytest.raises(sd.circuits.NetlistError, match="tran"):
        circuit.noiseless()


def test_a_step_longer_than_the_run_is_a_fiftieth_of_it():
    circuit = sd.circuits.read("title\nV1 a 0 1\nR1 a b 1k\nC1 b 0 1n\n.tran 1m 10u\n")
    assert circuit.step == pytest.approx(0.2e-6)
    assert any("longer than all of it" in note for note in circuit.notes)


def test_the_first_of_two_nodes_of_one_name_counts():
    text = "title\nV1 a 0 2\nX1 a b c sub\n.subckt sub p ? ?\nR1 p ? 1k\n.ends\nR2 b 0 1k\nR3 c 0 3k\n"
    circuit = sd.circuits.read(text)
    assert circuit.operating_point.x[circuit.names.index("b")] == pytest.approx(1.0)
    assert any("twice" in note for note in circuit.notes)


def test_letters_after_a_number_say_nothing():
    assert point("V1 a 0 10Vpeak\nR1 a b 1kOhms\nR2 b 0 4kilo\n", "b") == pytest.approx(8.0)


def test_two_points_of_a_pwl_at_one_time_are_a_jump():
    circuit = sd.circuits.read("title\nV1 a 0 PWL(0 0 1u 0 1u 0 1u 2 3u 2 3u 2)\nR1 a b 1k\nC1 b 0 1n\n.tran 0.1u 4u\n")
    values = circuit.noiseless(1e-6)[:, circuit.names.index("b")]
    np.testing.assert_allclose(
        values, 2.0 * (1.0 - np.exp(-np.maximum(circuit.times - 1.001e-6, 0.0) / 1e-6)), atol=5e-3
    )
    assert any("at one time" in note for note in circuit.notes)
    with pytest.raises(sd.circuits.NetlistError, match="must increase"):
        sd.circuits.read("title\nV1 a 0 PWL(0 0 2u 1 1u 0)\nR1 a 0 1k\n")


def test_a_mosfet_without_saturation_current_has_capacitances_alone():
    text = "title\nV1 d 0 DC 1 AC 1\nR1 d x 1k\nM1 x 0 0 0 m\n.model m nmos(vto=1 is=0 cbd=1n)\n"
    circuit = sd.circuits.read(text)
    assert circuit.operating_point.x[circuit.names.index("x")] == pytest.approx(1.0)
    same = sd.circuits.read(text.replace("is=0", "is=1e-30"))
    f = np.array([1e5])
    assert circuit.response(f)["x"] == pytest.approx(same.response(f)["x"], rel=1e-6)


def test_a_lateral_pnp_is_a_pnp():
    text = "V1 e 0 5\nR1 b 0 100k\nQ1 0 b e q\n.model q {}(is=1e-15 bf=50)\n"
    assert point(text.format("lpnp"), "b") == point(text.format("pnp"), "b")


def test_a_vswitch_with_a_threshold_is_the_switch_of_ltspice():
    text = "V1 c 0 {}\nV2 a 0 1\nR1 a b 1k\nS1 b 0 c 0 s\n.model s {}(vt=3 vh=0.5 ron=1k roff=1g)\n"
    for volts in (2.0, 4.0):
        assert point(text.format(volts, "vswitch"), "b") == point(text.format(volts, "sw"), "b")


def test_excess_phase_delays_the_collector():
    """At 1/(2π TF) the transconductance turns by PTF, without a loss; without capacitances nothing else turns it."""
    text = (
        "title\nV1 c 0 5\nV2 b 0 DC 0.65 AC 1\nR1 c d 100\nQ1 d b 0 q\n.model q npn(is=1e-15 tf=1n {})\n.tran 50p 10n\n"
    )
    f = np.array([1.0, 0.5e9 / np.pi])
    late, early = (sd.circuits.read(text.format(word)).response(f)["d"] for word in ("ptf=25", ""))
    assert late[0] == pytest.approx(early[0], rel=1e-6)
    assert late[1] / early[1] == pytest.approx(np.exp(-1j * np.radians(25.0)), rel=1e-9)


def test_excess_phase_in_time_is_a_bessel_filter():
    """A current that steps follows by H = 3/(3 + 3 s τ + s² τ²), whose mean delay is τ = PTF TF."""
    text = ("title\nV1 c 0 5\nV2 b 0 PULSE(0.6 0.61 1n 1f 1f 1 2)\nR1 c d 100\nC1 d 0 1f\nQ1 d b 0 q\n"
            ".model q npn(is=1e-15 tf=1n ptf=45)\n.tran 20p 12n\n")  # fmt: skip
    circuit = sd.circuits.read(text)
    values = circuit.noiseless(1e-7)[:, circuit.names.index("d")]
    share = (values - values[0]) / (values[-1] - values[0])
    mean = 1e-9 + np.trapezoid(1.0 - share[circuit.times >= 1e-9], circuit.times[circuit.times >= 1e-9])
    assert mean - 1e-9 == pytest.approx(np.radians(45.0) * 1e-9, rel=0.01)
    assert share.max() == pytest.approx(1.0043, abs=1e-3)


def test_an_analysis_of_an_included_file_gives_way(tmp_path):
    """The netlist's own counts, as does the last .param; the same line twice in one file is still an error."""
    (tmp_path / "part.net").write_text("* a part\n.param r=2k\nV1 a 0 1\nR1 a b {r}\nC1 b 0 1n\n.tran 1u 9m\n")
    (tmp_path / "all.cir").write_text("title\n.param r=1k\n.tran 1u 1m\n.include part.net\n")
    circuit = sd.circuits.read(tmp_path / "all.cir")
    assert circuit.span == (0.0, 1e-3)
    assert sum(words in note for note in circuit.notes for words in ("left out .tran of", "r replaces that of")) == 2
    assert circuit.network.netlist.elements[1].value == pytest.approx(2e3)


def test_an_ends_may_carry_another_name():
    text = ".subckt half p q\nR1 p q 1k\n.ends other\nV1 a 0 2\nX1 a b half\nR2 b 0 1k\n"
    assert point(text, "b") == pytest.approx(1.0)
    assert any(".ends other closes half" in note for note in sd.circuits.read(f"title\n{text}").notes)
    with pytest.raises(sd.circuits.NetlistError, match="open subcircuit is inner"):
        sd.circuits.read("title\n.subckt outer p q\n.subckt inner p q\nR1 p q 1\n.ends outer\nR2 a 0 1\n")


def test_the_ground_may_stand_among_the_nodes_of_a_subcircuit():
    circuit = sd.circuits.read("title\nV1 a 0 2\nX1 a b half\nR2 b 0 1k\n.subckt half p gnd\nR1 p gnd 1k\n.ends\n")
    assert circuit.operating_point.x[circuit.names.index("b")] == 0.0
    assert any("is the ground" in note for note in circuit.notes)
    same = sd.circuits.read("title\nV1 a 0 2\nX1 a 0 half\n.subckt half p 0\nR1 p 0 1k\n.ends\n")
    assert same.operating_point.x[-1] == pytest.approx(-2e-3) and not same.notes


def test_a_kind_of_another_model():
    text = "V1 b 0 0.7\nV2 c 0 1\nR1 c d 10\nQ1 d b 0 q\n"
    own = ".model q ako:first npn(bf=150)\n.model first npn(is=1e-15 bf=20 vaf=50)\n"
    assert point(text + own, "d") == point(text + ".model q npn(is=1e-15 bf=150 vaf=50)\n", "d")
    with pytest.raises(sd.circuits.NetlistError, match=r"no \.model first for AKO"):
        sd.circuits.read(f"title\n{text}.model q ako:first npn(bf=150)\n")


def test_numbers_of_models_without_braces_and_twice():
    text = "V1 a 0 1\nR1 a b 1k\nD1 b 0 d\n"
    card = ".model d d(is=1e-15 n=agauss(1.5, 0.1, 3) is=1e-12)\n"
    assert point(text + card, "b") == point(text + ".model d d(is=1e-12 n=1.5)\n", "b")
    assert any("is given twice" in note for note in sd.circuits.read(f"title\n{text}{card}").notes)
    assert list(sd.circuits.read(f"title\n{text}{card}").random) == ["agauss(d.n)"]


def test_models_that_are_not_here_say_what_to_take():
    for card, words in ((".model m numd level=1", "CIDER"), (".model m.1 d\n.model m.2 d", "name one of m.1, m.2")):
        with pytest.raises(sd.circuits.NetlistError, match=words):
            sd.circuits.read(f"title\nV1 a 0 1\nD1 a 0 m\n{card}\n")


def test_words_of_other_simulators():
    assert point("V1 a 0 {vt}\nR1 a 0 1k\n.temp = 27\n", "a") == pytest.approx(0.0258649, rel=1e-5)
    assert point("V1 a 0 2\nR1 a b 1k\nR2 b 0 R = (time<12m ? {1k} : {2k})\n", "b") == pytest.approx(1.0)
    notes = sd.circuits.read("title\nV1 a 0 2\nB1 b 0 v=limit(v(a), 0, 1)\nR1 b 0 1\n.temp 10 50\n").notes
    assert any("limit(x, a, b) is x within a and b" in note for note in notes)
    assert any(".temp has 2 values" in note for note in notes)


def test_nodes_that_only_leakage_holds_are_noted():
    """A gate behind a diode, with 1e-12 S to ground and without: 1 fA of saturation is less than that."""
    text = "title\nV1 a 0 {}\nD1 g a d\nC1 g 0 1p\nR1 a 0 1k\n.model d d(is=1e-15)\n"
    (note,) = (note for note in sd.circuits.read(text.format(2)).notes if "leakage" in note)
    assert "only leakage holds g:" in note and "2 V" in note
    assert not any("leakage" in note for note in sd.circuits.read(text.format(2) + "R2 g 0 1meg\n").notes)
    open_gate = text.format(2) + "M1 a g s 0 m\nC2 s 0 1p\n.model m nmos(vto=5)\n"
    assert any("only with 1e-12 S" in note and " s " in note for note in sd.circuits.read(open_gate).notes)


def test_what_gmin_across_junctions_would_move_is_noted():
    """A diode with 10 V backwards behind 10 MΩ: 1e-12 S take 0.1 mV; a junction transistor amplifies what they take."""
    text = "title\nV1 a 0 10\nR1 a b {}\nC1 b 0 1p\nD1 0 b d\n.model d d(is=1e-18)\n"
    (note,) = (note for note in sd.circuits.read(text.format("10meg")).notes if "GMIN" in note)
    assert "1e-12 S across junctions" in note and note.endswith("up to 0.0001 V")
    assert not sd.circuits.read(text.format("100k")).notes
    amplifier = "title\nV1 a 0 12\nR1 a d 10k\nRG g 0 {}\nRS s 0 1k\nJ1 d g s j\nC1 g 0 1p\n.model j njf(vto=-3)\n"
    (note,) = (note for note in sd.circuits.read(amplifier.format("1meg")).notes if "GMIN" in note)
    without = point(amplifier.format("1meg").removeprefix("title\n"), "d")
    with_it = point(amplifier.format("1meg").removeprefix("title\n") + "R2 g d 1e12\nR3 g s 1e12\n", "d")
    assert float(note.split()[-2]) == pytest.approx(abs(with_it - without), rel=0.1)


def test_leakage_is_noted_of_the_operating_point_of_a_circuit_that_starts_elsewhere():
    text = "title\nV1 a 0 2\nD1 g a d\nC1 g 0 1p\nR1 a 0 1k\n.model d d(is=1e-15)\n.tran 1n 1u uic\n"
    circuit = sd.circuits.read(text)
    assert not any("leakage" in note for note in circuit.notes)
    _ = circuit.operating_point
    assert sum("only leakage holds g:" in note for note in circuit.notes) == 1


@pytest.mark.parametrize(
    "netlist",
    [
        "Latch\nV1 v 0 5\nR1 v a 1k\nR2 v b 1k\nRA b x 10k\nRB a y 10k\nQ1 a x 0 q\nQ2 b y 0 q\n.model q npn\n",
        "Astable\nV1 v 0 5\nR1 v a 1k\nR2 v b 1k\nR3 v x 47k\nR4 v y 47k\nCA a y 10n\nCB b x 10n\nQ1 a x 0 q\n"
        "Q2 b y 0 q\n.model q npn(cje=2p cjc=1p tf=0.3n)\n",
        "Schmitt trigger and a slow feedback\nB1 o 0 V=5*tanh(200*(V(p)-V(c)))\nR1 o p 1k\n"
        "R2 p 0 1k\nC1 p 0 1p\nR3 o c 10k\nC2 c 0 10n\n",
    ],
    ids=["latch", "astable", "trigger"],
)
def test_operating_points_at_which_a_circuit_does_not_rest_are_noted(netlist):
    assert any("feedback drives the circuit away" in note for note in sd.circuits.read(netlist).notes)


def test_an_oscillator_whose_source_counts_its_charge_is_noted():
    """A ring as in ngspice's ro_11_vdmos, whose operating point ngspice takes from a transient: what its
    supply has delivered is an unknown that nothing reads."""
    models = "cgdmin=0.05p cgdmax=0.2p a=1.2 cgs=0.15p rg=10 kp=1e-5 rb=1e7 cjo=1n ksubthres=0.2"
    stages = "".join(f"MP{k} {b} {a} v p m=2\nMN{k} {b} {a} 0 n\nC{k} {b} 0 0.2p\n" for k, a, b in
                     ((1, "a", "b"), (2, "b", "c"), (3, "c", "a")))  # fmt: skip
    cards = f".model n vdmos vto=1 {models}\n.model p vdmos vto=-1 {models} pchan\n"
    circuit = sd.circuits.read(f"ring\nV1 v 0 5\n{stages}{cards}")
    assert any("feedback drives the circuit away" in note for note in circuit.notes)


@pytest.mark.parametrize(
    "netlist",
    [
        "Follower\nV1 i 0 1\nB1 o 0 V=5*tanh(200*(V(i)-V(n)))\nR1 o n 1k\nC1 n 0 1p\n",
        "Pair\nV1 v 0 10\nV2 x 0 1\nQ1 v x e q\nQ2 c 0 e q\nRC v c 5k\nRE e m 10k\nV3 m 0 -10\n"
        ".model q npn(cje=1p cjc=1p)\n",
        "Reset latch\nV1 v 0 5\nR1 v a 1k\nR2 v b 1k\nRA b x 10k\nRB a y 10k\nQ1 a x 0 q\nQ2 b y 0 q\n.model q npn\n"
        ".nodeset v(a)=0 v(b)=5 v(x)=0.8 v(y)=0\n",
    ],
    ids=["follower", "pair", "latch"],
)
def test_operating_points_at_which_a_circuit_rests_are_not_noted(netlist):
    assert not any("feedback" in note for note in sd.circuits.read(netlist).notes)


def test_a_saturated_transistor_with_an_area_is_noted():
    """ngspice 39 gives i(v1) = -2.52749e-04 for area=0.5, by an IS of the collector that goes with 0.5²."""
    text = "title\nV1 c 0 0.05\nV2 b 0 0.7\nQ1 c b 0 q {}\n.model q npn(is=1e-15 bf=100 br=2)\n"
    scale = 1.380649e-23 * 300.15 / 1.602176634e-19
    forward, reverse = (1e-15 * math.expm1(volts / scale) for volts in (0.7, 0.65))
    for words, noted in (("0.5", True), ("area=2", True), ("m=0.5", False), ("", False)):
        circuit = sd.circuits.read(text.format(words))
        times = float(words.rpartition("=")[2] or 1.0)
        current = circuit.operating_point.x[circuit.names.index("i(v1)")]
        assert current == pytest.approx(-times * (forward - 1.5 * reverse), rel=1e-9)
        assert any("q1: conducts from base to collector" in note for note in circuit.notes) is noted
    assert sd.circuits.read(text.replace("0.05", "5").format("0.5")).notes == ()


def test_initial_voltages_of_nodes_that_inductors_hold():
    """At rest 5 V drive 50 mA through the inductor; .ic says what holds anyway, or contradicts it."""
    text = "title\nV1 a 0 5\nR1 a b 100\nL1 b 0 500m\nC1 b 0 10u\nR2 b 0 50k\n.ic v(b)={}\n.tran 1u 1m\n"
    circuit = sd.circuits.read(text.format(0))
    assert circuit.start[circuit.names.index("i(l1)")] == pytest.approx(0.05)
    with pytest.raises(sd.circuits.NetlistError, match=r"\.ic v\(b\)=1: inductors and sources hold it at 0 V.*uic"):
        sd.circuits.read(text.format(1))
    assert sd.circuits.read(text.format(1).replace("1m\n", "1m uic\n")).start[0] in (0.0, 1.0)


def test_corners_of_tables_are_noted():
    """ngspice 39 rounds them over a tenth of the shorter line beside them: 1.0513 V at the corner."""
    text = "title\nV1 a 0 0\nG1 0 b TABLE {abs(V(a))} = (0, 1m) (4, 5m)\nR1 b 0 1k\n"
    circuit = sd.circuits.read(text)
    assert circuit.operating_point.x[circuit.names.index("b")] == pytest.approx(1.0, rel=1e-12)
    assert any("line 3: g1: the corners of its TABLE are sharp" in note for note in circuit.notes)


def test_random_values_are_noted():
    circuit = sd.circuits.read("title\n.param p=agauss(0, 1, 1)\nV1 a 0 {p}\nR1 a 0 {gauss(1k, 0.1)}\n")
    (note,) = circuit.notes
    assert "agauss(p), gauss(r1.value): nominal until they are drawn" in note
    assert circuit.operating_point.x[0] == 0.0


@pytest.mark.parametrize(("expression", "jumps"), [
    ("u(V(a))", True), ("5*u(V(b)-V(c))", True), ("V(b) > 1 ? 2 : V(b)", True), ("u(V(b))", False),
    ("abs(V(a))", False), ("tanh(1e6*V(a))", False), ("1e9*V(a)", False), ("V(b)*V(c)", False),
])  # fmt: skip
def test_expressions_that_jump_at_the_operating_point_are_noted(expression, jumps):
    circuit = sd.circuits.read(f"title\nV1 a 0 0\nV2 b 0 1\nR1 b c 1k\nC1 c 0 1p\nB1 d 0 V={expression}\nR2 d 0 1k\n")
    assert any("b1" in note and "u(0) is 0 here" in note for note in circuit.notes) == jumps


@pytest.mark.parametrize(("volts", "is_noted"), [(2.0, True), (1.0, False)])
def test_junctions_that_no_exponential_is_followed_through_are_noted(volts, is_noted):
    """A base at an ideal source of 2 V: ngspice's collector is at 0.007 V, by a current of 1e20 A."""
    model = ".model q npn(is=4.48501e-14 bf=122 br=3.28442 vaf=112.8)"
    circuit = sd.circuits.read(f"title\nV1 in 0 {volts}\nR1 in c 10k\nQ1 c in 0 q\n{model}\n")
    assert any("q1.c: a junction would carry more than 1e+09 A" in note for note in circuit.notes) == is_noted
