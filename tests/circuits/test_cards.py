"""Numbers that a model card leaves out follow from others as in SPICE; the references are those of ngspice 39.

benchmarks/cards.py compares random cards with ngspice itself.
"""

import math

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read

THERMAL = 8.617333262145179e-05 * 300.15  # V


def point(text):
    circuit = read(f"title\n{text}CX far 0 1p\nRX far 0 1k\n.options noise=off\n")
    return dict(zip(circuit.names, circuit.operating_point.x.tolist(), strict=True))


TRANSISTORS = [
    ("nmos", "nsub=1e16", 1.5),  # without TOX nothing follows
    ("nmos", "nsub=1e16 tox=50n", 0.84584260956),
    ("nmos", "nsub=1e16 tox=50n vto=.5", 0.85523828387),
    ("nmos", "nsub=1e16 tox=50n nss=1e11", 0.72187683064),
    ("nmos", "nsub=1e16 tox=50n tpg=-1", 8.6508434462),
    ("nmos", "nsub=1e16 tox=50n tpg=0", 0.81462011107),
    ("nmos", "nsub=1e16 tox=50n phi=.5", 0.73463390536),
    ("nmos", "nsub=1e16 tox=50n gamma=.2", 0.61446190024),
    ("pmos", "nsub=1e16 tox=50n nss=1e11", -1.051506119),
    ("pmos", "nsub=2e15 tox=20n tpg=-1 nss=3e10 uo=450", -0.6196333566),
    ("pmos", "nsub=5e15 tox=40n gamma=.3 tpg=0", -2.988381476),
    ("nmos", "kp=1e-4 rsh=50", 0.39874749722),
    ("nmos", "kp=1e-4 rsh=50 rd=10", 0.34816301323),
]


@pytest.mark.parametrize(("kind", "card", "volts"), TRANSISTORS, ids=[f"{k} {c}" for k, c, _ in TRANSISTORS])
def test_model_cards_of_transistors_give_the_reference_voltages(kind, card, volts):
    sign = 1.0 if kind == "nmos" else -1.0
    found = point(f"VP pos 0 {12 * sign}\nVG g 0 {2.5 * sign}\nRD pos o 20k\nM1 o g 0 0 c W=20u L=2u NRD=2 NRS=3\n"
                  f".model c {kind} {card}\n")  # fmt: skip
    assert found["o"] == pytest.approx(volts, rel=1e-6)


def test_vto_in_closed_form():
    """The textbook: flat band voltage, twice the Fermi potential and the charge of the depletion layer over C."""
    circuit = read("title\nVG g 0 1\nM1 g g 0 0 c\nC1 g 0 1p\n.model c nmos nsub=1e16 tox=50n nss=1e11\n")
    found = next(e.value for e in circuit.network.netlist.elements if e.name == "m1")
    q, oxide = 1.602176634e-19, 3.9 * 8.854214871e-12 / 50e-9
    fermi = THERMAL * math.log(1e22 / 1.45e16)
    gap = 1.16 - 7.02e-4 * 300.15**2 / (300.15 + 1108.0)
    depleted = math.sqrt(2.0 * 11.7 * 8.854214871e-12 * q * 1e22 * 2.0 * fermi) / oxide
    assert found["vto"] == pytest.approx(-0.5 * gap - fermi - 1e15 * q / oxide + 2.0 * fermi + depleted, rel=1e-12)
    assert found["phi"] == pytest.approx(2.0 * fermi) and found["gamma"] == pytest.approx(depleted / (2 * fermi) ** 0.5)


@pytest.mark.parametrize(("card", "words"), [("tpg=2", "tpg = 2, expected -1, 0 or 1"), ("nsub=1e8", "nsub = 1e.08")])
def test_values_that_no_transistor_has_are_refused(card, words):
    with pytest.raises(NetlistError, match=words):
        point(f"VG g 0 1\nM1 g g 0 0 c\n.model c nmos tox=50n {card}\n")


@pytest.mark.parametrize(("card", "amperes", "volts"), [
    ("bv=5 ibv=1u n=2", "1m", 5.3573368373), ("bv=5 ibv=1u n=2 nbv=1.2", "1m", 5.2144021114),
    ("bv=7 is=1e-12 rs=3 area=4", "2m", 7.0194281242),
])  # fmt: skip
def test_diodes_break_down_at_the_reference_voltages(card, amperes, volts):
    """NBV is N where it is left out; IBV flows at BV whatever the area is."""
    *card, last = card.split()
    area = last if last.startswith("area") else ""
    found = point(f"I1 0 a {amperes}\nRA a 0 1g\nD1 0 a d {area}\n.model d d {' '.join(card)} {'' if area else last}\n")
    assert found["a"] == pytest.approx(volts, rel=1e-6)


def test_gates_of_junction_transistors_warm_up():
    """Both gate junctions carry IS(T) = IS exp((T/TNOM - 1) 1.11 eV/(k T)), with TNOM = 27 °C."""
    found = point("I1 0 g 1m\nJ1 0 g 0 j\n.model j njf is=1e-14\n.temp 77\n")
    volt = 8.617333262145179e-05 * 350.15
    saturation = 1e-14 * math.exp((350.15 / 300.15 - 1.0) * 1.11 / volt)
    assert found["g"] == pytest.approx(volt * math.log(0.5e-3 / saturation + 1.0), rel=1e-6)


def test_breakdown_grows_with_n():
    """From 1 mA to 10 mA by N V_T log 10."""
    text = "I1 0 a 1m\nD1 0 a d\nI2 0 b 10m\nD2 0 b d\n.model d d bv=6 n=1.7\n"
    found = point(text)
    assert found["b"] - found["a"] == pytest.approx(1.7 * THERMAL * math.log(10.0), rel=1e-6)


def test_the_transit_time_counts_in_breakdown():
    """At 1 mA the junction has the capacitance TT i/(NBV V_T), and the response falls accordingly."""
    circuit = read("title\nI1 0 a 1m AC 1\nD1 0 a d\n.model d d bv=6 tt=10n\n.options noise=off\n")
    g, f = 1e-3 / THERMAL, 20e6
    expected = 1.0 / abs(g * (1.0 + 2j * np.pi * f * 10e-9))
    assert abs(circuit.response([f])["a"][0]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("card", "amplitude"), [("", -157.6372539 + 18.224698711j), ("subs=1", -14.69727609 + 46.17081877j)]
)
def test_the_substrate_of_pnp_is_at_the_base(card, amplitude):
    """A lateral transistor, the default of PNP, has CJS at its base; a vertical one at its collector."""
    circuit = read("title\nVP pos 0 -12\nVI in 0 0 AC 1\nCB in b 1u\nRB pos b 1meg\nRC pos o 5k\nQ1 o b 0 q\n"
                   f".model q pnp bf=80 cjs=20p rb=200 {card}\n.options noise=off\n")  # fmt: skip
    assert circuit.response([5e6])["o"][0] == pytest.approx(amplitude, rel=2e-5)


def test_an_operating_point_between_small_and_large_resistances():
    """0.16 Ω beside 34 kΩ: rounding alone moves the node by more than 1e-12 V."""
    found = point("VN neg 0 -12\nR1 neg o 34430.5\nD1 o 0 d area=2.5\n.model d d is=6.2e-13 n=1.38 rs=0.409 bv=14.5\n")
    assert found["o"] == pytest.approx(-12.0, abs=1e-6)


DIODES = [
    ("is=2.682n n=1.836 rs=.5664 ikf=44.17m isr=1.565n nr=2 cjo=4p", 0.79460661044),
    ("is=1e-14 ikf=1m", 0.814740214626),
    ("is=1e-14 isr=1e-9 nr=2.1 vj=0.7 m=0.4", 0.7339306002135),
    ("is=1e-14 isr=1e-9 nr=1.8 ikf=10m rs=5 trs1=4m tnom=60", 0.882347258873),
    ("is=1e-14 isr=1e-10", 0.5063825439453),
]


@pytest.mark.parametrize(("card", "volts"), DIODES)
def test_recombination_and_high_injection_of_diodes(card, volts):
    area = "2.5" if "tnom" in card else ""
    assert point(f"VP p 0 5\nR1 p o 200\nD1 o 0 c {area}\n.model c d {card}\n")["o"] == pytest.approx(volts, rel=1e-6)


def test_slopes_of_diodes_are_those_of_their_currents():
    """Those of ngspice 39 are not where ISR is given."""
    circuit = read("t\nV1 a 0 0.5\nD1 a 0 c\nC1 a 0 1p\n.model c d isr=1e-9 nr=1.7 ikf=1m bv=5\n.options noise=off\n")
    group = circuit.network.groups[0]
    for v in (-6.0, -1.0, 0.0, 0.3, 0.7, 0.9):
        x = np.array([v + 1e-6, v - 1e-6])
        high, low = (group.of((np.array([value]),), np) for value in x)
        slope = group.current(np.append(np.full(circuit.n, v), 0.0)).slopes[0]
        assert slope == pytest.approx((high - low) / 2e-6, rel=1e-5, abs=1e-15)


def test_nr_that_is_left_out_is_noted():
    circuit = read("t\nV1 a 0 0.5\nD1 a 0 c\nD2 a 0 c\n.model c d isr=1e-9\n")
    assert [note.partition(" has ")[2] for note in circuit.notes] == [
        "ISR without NR, which is then 1, as in ngspice; in LTspice it is 2"
    ]


def test_ideal_diodes_of_ltspice_are_refused():
    with pytest.raises(NetlistError, match=r"ron = 0\.1 would change the answer"):
        read("t\nV1 a 0 0.5\nD1 a 0 c\n.model c d ron=0.1 roff=1meg vfwd=0.4\n")


STAGE = "VP p 0 {v}\nVI in 0 AC 1\nRB p b 43k\nCB in b 1u\nRC p o 200\nQ1 o b 0 c\n.model c {card}\n"
BIPOLAR = [
    ("npn is=1e-15 bf=200 rb=200 rbm=20 ikf=5m", 3.461230411376),
    ("npn is=1e-15 bf=100 rb=300 rbm=30 irb=20u", 3.039176247385),
    ("npn is=1e-15 bf=150 cje=2p cjc=1p tf=0.3n xtf=5 itf=20m vtf=3 cjs=2p mjs=0.4 vjs=0.6", 2.058748392372),
]


@pytest.mark.parametrize(("card", "volts"), BIPOLAR)
def test_base_resistances_that_fall_with_the_current(card, volts):
    assert point(STAGE.format(v=5, card=card))["o"] == pytest.approx(volts, rel=1e-6)


@pytest.mark.parametrize(
    ("volts", "card", "gain"),
    [
        (5, BIPOLAR[2][0], 113.6201074595814),
        (
            -5,
            "pnp is=1e-15 bf=150 cje=2p cjc=1p tf=0.3n xtf=5 itf=20m cjs=2p mjs=0.4 subs=1 tnom=60",
            110.45897626601452,
        ),
    ],
)
def test_transit_times_that_rise_with_the_current(volts, card, gain):
    circuit = read(f"title\n{STAGE.format(v=volts, card=card)}.options noise=off\n")
    assert abs(circuit.response([1e7])["o"][0]) == pytest.approx(gain, rel=1e-6)


@pytest.mark.parametrize("card", [BIPOLAR[0][0], BIPOLAR[1][0]])
def test_small_signals_see_the_base_resistance_change(card):
    """The gain at DC is the slope of the operating point; ngspice 39 holds the resistance in .ac."""
    text = "VP p 0 5\nVI in 0 {v} AC 1\nRC p o 200\nRS in b 100\nQ1 o b 0 c\n.model c {card}\n"
    gain = read(f"title\n{text.format(v=0.75, card=card)}.options noise=off\n").response([0.0])["o"][0].real
    high, low = (point(text.format(v=v, card=card))["o"] for v in (0.7501, 0.7499))
    assert gain == pytest.approx((high - low) / 2e-4, rel=1e-4)


def test_excess_phase_and_quasi_saturation_are_refused():
    for name in ("rco", "vo", "gamma"):
        with pytest.raises(NetlistError, match=f"{name} = 2 would change the answer"):
            read(f"title\n{STAGE.format(v=5, card=f'npn {name}=2')}")
