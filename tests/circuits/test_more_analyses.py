""".dc, .tf, .sens, .four and .sp against closed forms, and against one another."""

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read

DIVIDER = "title\nV1 a 0 2\nR1 a b 1k\nR2 b 0 3k\n"
AMPLIFIER = """title
V1 in 0 1
.param load=1k
R1 in b 10k
Q1 c b e q
RC vcc c {load}
RE e 0 100
VCC vcc 0 5
.model q npn bf=100 is=1e-15 vaf=50
"""


def test_sweeps_go_through_one_source_or_two():
    curves = read(f"{DIVIDER}I1 0 b 0\n.dc V1 0 4 2 I1 -1m 1m 1m\n").dc()
    assert {name: values.tolist() for name, values in curves.values.items()} == {
        "v1": [0, 2, 4],
        "i1": [-1e-3, 0, 1e-3],
    }
    expected = 0.75 * curves.values["v1"] + 750.0 * curves.values["i1"][:, None]
    np.testing.assert_allclose(curves["b"], expected, rtol=1e-12, atol=1e-15)


def test_sweeps_of_a_parameter_a_resistor_and_the_temperature():
    np.testing.assert_allclose(read(f"{DIVIDER}.dc R2 1k 3k 1k\n").dc()["b"], [1.0, 4.0 / 3.0, 1.5])
    text = "title\n.param v=1\nV1 a 0 {v}\nR1 a b 1k tc1=1m\nR2 b 0 1k\n"
    np.testing.assert_allclose(read(f"{text}.dc v 1 3 1\n").dc()["b"], [0.5, 1.0, 1.5])
    np.testing.assert_allclose(read(f"{text}.dc temp 27 127 100\n").dc()["b"], [0.5, 1.0 / 2.1])


def test_sweeps_follow_their_branch():
    """A Schmitt trigger without memory: up and down it switches at different voltages."""
    text = "title\nV1 in 0 0\nE1 o 0 VALUE={{5*tanh(20*(V(in) + 0.2*V(o)))}}\nR1 o 0 1k\n.nodeset v(o)={}\n.dc V1 {}\n"
    up = read(text.format(-5, "-2 2 0.1")).dc()["o"]
    down = read(text.format(5, "2 -2 -0.1")).dc()["o"][::-1]
    assert up[20] < -4.0 and down[20] > 4.0


def test_gain_and_resistances():
    transfer = read(f"{DIVIDER}.tf v(b) V1\n").transfer()
    assert tuple(transfer) == pytest.approx((0.75, 4000.0, 750.0), rel=1e-12)
    current = read(f"{DIVIDER}.tf i(V1) V1\n").transfer()
    assert current.gain == pytest.approx(-1.0 / 4000.0) and np.isnan(current.output_resistance)
    assert read(f"{DIVIDER}I1 0 b 0\n").transfer("b", "i1")[:2] == pytest.approx((750.0, 750.0))


def test_sensitivities_are_those_of_the_moved_operating_point():
    circuit = read(f"{AMPLIFIER}.sens v(c)\n")
    sensitivities, row = circuit.sensitivities(), circuit.names.index("c")
    assert {"r1.value", "q.bf", "q.is", "load", "vcc.value"} <= sensitivities.keys()
    for place in ("r1.value", "q.vaf", "load", "v1.value"):
        value = circuit.network.netlist.overrides.met[place]
        ends = [circuit.valued({place: value * (1.0 + h)}).operating_point.x[row] for h in (1e-4, -1e-4)]
        assert sensitivities[place] == pytest.approx((ends[0] - ends[1]) / (2e-4 * value), rel=1e-6)


def test_harmonics_of_a_square():
    """(1 + sin)² = 3/2 + 2 sin - cos(2·)/2."""
    circuit = read("title\nV1 a 0 SIN(1 1 1k)\nB1 b 0 V=V(a)^2\nR1 b c 1\nC1 c 0 1p\n.four 1k v(b)\n.tran 10u 3m\n")
    result = circuit.harmonics()
    np.testing.assert_allclose(result.size[:4], [1.5, 2.0, 0.5, 0.0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result.phase[1:3], [0.0, -90.0], atol=1e-4)
    assert result.distortion == pytest.approx(0.25, rel=1e-5)
    with pytest.raises(NetlistError, match="before a period is over"):
        circuit.harmonics("b", 10.0)


def test_a_pad_of_resistors_scatters_as_computed():
    """The matched pad of 6 dB between 50 Ω: no reflection, half the wave, noise factor 1 + 3 T/T0."""
    a, b = 50.0 / 3.0, 200.0 / 3.0
    text = f"title\nV1 in 0 portnum 1 z0 50\nV2 out 0 portnum=2 z0=50\nR1 in m {a}\nR2 m out {a}\nR3 m 0 {b}\n"
    result = read(f"{text}.sp lin 2 1meg 2meg 1\n").scattering()
    np.testing.assert_allclose(result[1, 1], 0.0, atol=1e-12)
    np.testing.assert_allclose(result[2, 1], 0.5, rtol=1e-12)
    np.testing.assert_allclose(result.noise.factor(1 / 50), 1.0 + 3.0 * 300.15 / 290.0, rtol=1e-9)


def test_noise_parameters_of_an_amplifier_are_those_of_noise_figures():
    """With three resistive sources and a reactive one, Fmin + Rn/Gs |Ys - Yopt|² is the factor that .noise gives."""
    body = """RB vcc b 200k
CB in b 1u
Q1 c b 0 q
RC vcc c 1k
CC c out 1u
VCC vcc 0 5
.model q npn bf=100 is=1e-15 rb=50 cje=1p cjc=1p
"""
    two_port = read(f"title\nV1 in 0 portnum=1 z0=50\nV2 out 0 portnum=2 z0=50\n{body}")
    noise = two_port.scattering([1e7]).noise
    for ohms in (50.0, 200.0, 3000.0):
        plain = read(f"title\nVS s 0 AC 1\nRS s in {ohms}\nRL out 0 50 noise=off\n{body}")
        figure = plain.noise_spectrum("out", [1e7]).noise_figure("rs")
        np.testing.assert_allclose(10.0 * np.log10(noise.factor(1.0 / ohms)), figure, rtol=1e-9)
    shunted = read(f"title\nVS s 0 AC 1\nRS s in 200\nCS in 0 200p\nRL out 0 50 noise=off\n{body}")
    figure = shunted.noise_spectrum("out", [1e7]).noise_figure("rs")
    source = 1.0 / 200.0 + 2j * np.pi * 1e7 * 200e-12
    np.testing.assert_allclose(10.0 * np.log10(noise.factor(source)), figure, rtol=1e-9)
    assert np.abs(noise.optimum)[0] < 1.0 and noise.minimum[0] > 1.0


@pytest.mark.parametrize(("line", "said"), [
    (".dc V1 0 1", "expected .dc SOURCE"),
    (".tf v(b) R1", "there is no source r1"), (".sens v(nope)", "there is no node nope"),
    (".four 1k x", "expected .four"), (".sp dec 10 1 1g", "there are no ports"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(line, said):
    with pytest.raises(NetlistError, match="line 5") as caught:
        read(f"{DIVIDER}{line}\n")
    assert said in str(caught.value)


@pytest.mark.parametrize("ask", ["dc", "transfer", "sensitivities", "harmonics", "scattering"])
def test_what_is_missing_is_said(ask):
    with pytest.raises(ValueError, match=r"there (is|are) no"):
        getattr(read(DIVIDER), ask)()


def test_diodes_across_an_ideal_source_change_no_response():
    """They conduct 1e10 S, and only the source feels it: .ac lost 3e-4 of a gain beside them."""
    alone = """title
V1 in 0 1.36339 AC 1
RT1 n0 in 3647.6
RG1 n0 0 138813
RT2 n1 in 29545.9
RG2 n1 0 23886
RT3 n2 n1 26521.3
RG3 n2 0 380759
RT4 n3 n1 82198.3
RG4 n3 0 12994.2
RM n0 0 14946.5
R4 n3 0 10k
R9 n3 0 10k
R10 in 0 10k
R11 n0 0 10k
RL14 n2 in 1637.4
Q3 n1 in n2 c3
Q13 n2 n0 n3 c13
.model c3 npn (br=4.84279 vaf=69.4313 ikf=0.265505 ise=5.64654e-16 ne=1.59321 rb=3.0072 re=0.404321 cjc=8.3p)
.model c13 npn (is=2.33322e-14 bf=107.192 ne=1.31736 rc=4.29156 cjc=1.07p)
"""
    diodes = "D2 in 0 c2\nD15 in 0 c15\n.model c2 d (cjo=.8p m=.3)\n.model c15 d (is=5.13241e-13 n=1.11105 tt=2.7n)\n"
    f = np.array([1e3, 1e7])
    beside, expected = read(alone + diodes).response(f), read(alone).response(f)
    for node in ("n0", "n1", "n2", "n3"):
        np.testing.assert_allclose(beside[node], expected[node], rtol=1e-8)
