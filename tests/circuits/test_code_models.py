"""XSPICE's code models: operating points and .ac as ngspice 39 has them, or by hand."""

import shutil
import subprocess

import numpy as np
import pytest

from stodyn.circuits import NetlistError, read
from stodyn.circuits.devices import Numbers
from stodyn.circuits.elements.code_model import ANALOGUE_SWITCH

SOURCES = "V1 in 0 {v} AC 1\nV2 xx 0 0.8 AC 0.5 30\nVX xx x 0\nRX x 0 1k\n"
# The line and the model, the value of V1, and V(out) of ngspice 39 there, to the digits that it printed.
POINTS = [
    ("a1 in out g\n.model g gain(in_offset=0.1 gain=5.0 out_offset=-0.01)", 1.33, 7.14),
    ("a1 %vd(in x) %i(out) g\n.model g gain(gain=2m)", 1.33, -1.06),
    ("RY in y 1k\na1 %id(y 0) %vd(out x) g\n.model g gain(gain=2k)", 1.33, 3.46),
    ("RY in y 1k\na1 %i(y) %id(out x) g\n.model g gain(gain=2)", 1.33, -2.66),
    ("a1 %vnam(vx) %v out g\n.model g gain(gain=2k)\nRZ x 0 3k", 1.33, 2.13333333333333),
    ("a1 [in x 0] out s\n.model s summer(in_offset=[0.1 -0.2 1] in_gain=[2 1 3]\n+ out_gain=5 out_offset=-0.01)", 1.33,
     32.29),
    ("a1 [%vd(in x) %v x] out s\n.model s mult(in_offset=[0.1 -0.2] in_gain=[2 1]\n+ out_gain=5 out_offset=-.01)", 1.33,
     3.77),
    ("a1 in x out s\n.model s divide(num_offset=0.1 num_gain=2.5 den_offset=-0.1 den_gain=5 den_lower_limit=1e-5\n"
     "+ den_domain=1e-6 fraction=FALSE)", 1.33, 1.02142857142857),
    ("a1 in out s\n.model s limit(in_offset=0.1 gain=2.5 out_lower_limit=-3 out_upper_limit=3.6 limit_range=0.1\n"
     "+ fraction=TRUE)", 1.33, 3.42226325757576),
    ("a1 in out s\n.model s limit(gain=2e5 out_lower_limit=-3 out_upper_limit=3.6)", -0.7, -3.0),
    ("VU u 0 3\nVL l 0 -2\na1 in u l out s\n.model s climit(in_offset=0.1 gain=1.8 upper_delta=.1 lower_delta=.2\n"
     "+ limit_range=0.3 fraction=FALSE)", 1.33, 2.574),
    ("a1 in out s\n.model s pwl(x_array=[-2 -1 1.31 4 5] y_array=[-0.2 -0.2 0.1 2 10] input_domain=0.05)", 1.33,
     0.125505970276525),
    ("a1 in out s\n.model s pwl(x_array=[-2 -1 0 0.5] y_array=[-0.2 -0.2 0.1 2] fraction=FALSE limit=TRUE)", 1.33, 2.0),
    ("a1 in out s\n.model s int(gain=3 out_lower_limit=-1e12 out_upper_limit=1e12 out_ic=0.5)", 1.33, 0.5),
    ("a1 in out s\n.model s s_xfer(gain=3 num_coeff=[1.0] den_coeff=[2 3 1] int_ic=[0 0])", 1.33, 0.0),
    ("a1 in out s\n.model s d_dt(gain=1m)", 1.33, 0.0),
    ("RY in out 100\na1 out 0 s\n.model s zener(v_breakdown=10)", 1.33, 0.59081454890778),
    ("VB b 0 -15\nRY b out 100\na1 out 0 s\n.model s zener(v_breakdown=10)", 1.33, -10.018252269772),
    ("VB b 0 -1\nRY b out 100\na1 out 0 s\n.model s zener(v_breakdown=0.5 r_breakdown=10)", 1.33, -0.31496336436886),
    ("RY in out 100\na1 x %gd(out 0) s\n.model s aswitch(cntl_on=1.3 r_off=1e6 r_on=10)", 1.33, 1.1881602095254),
    ("RY in out 100\na1 x %gd(out 0) s\n.model s aswitch(cntl_on=1.3 r_off=1e6 r_on=10 log=FALSE limit=TRUE)", 1.33,
     1.32965429541447),
]  # fmt: skip
LOGIC = """a1 [in x] [d1 d2] ad
a2 [{inputs}] d3 gate
a3 [d3] [out] da
.model ad adc_bridge(in_low=0.5 in_high=1)
.model gate {gate}(rise_delay=1n)
.model da dac_bridge(out_low=0.2 out_high=4.8)
"""
LOW, UNKNOWN, HIGH = 0.2, 2.5, 4.8
# The output where V1 makes d1 1 and where it makes it 0; V(x) leaves d2 unknown.
GATES = [
    ("d_and", "d1 d1", (HIGH, LOW)), ("d_nand", "d1 d1", (LOW, HIGH)), ("d_or", "d1 ~d1", (HIGH, HIGH)),
    ("d_nor", "d1 d1", (LOW, HIGH)), ("d_xor", "d1 d1 d1", (HIGH, LOW)), ("d_xnor", "d1 ~d1", (LOW, LOW)),
    ("d_and", "d1 d2", (UNKNOWN, LOW)), ("d_or", "d1 d2", (HIGH, UNKNOWN)), ("d_xor", "d1 d2", (UNKNOWN, UNKNOWN)),
    ("d_nand", "d1 ~d2", (UNKNOWN, HIGH)),
]  # fmt: skip


def circuit(lines: str, v: float):
    load = "" if any(f" {word}(" in lines for word in ("zener", "aswitch")) else "\nRL out 0 1k"
    return read(f"title\n{SOURCES.format(v=v)}{lines}{load}\n")


def out(lines: str, v: float) -> float:
    own = circuit(lines, v)
    return float(own.operating_point.x[own.names.index("out")])


@pytest.mark.parametrize("k", range(len(POINTS)))
def test_operating_points_are_those_of_ngspice(k):
    lines, v, expected = POINTS[k]
    assert out(lines, v) == pytest.approx(expected, rel=1e-11, abs=1e-6 if "d_dt" in lines else 1e-12)


def test_transfer_functions_of_blocks_with_states():
    f = np.array([10.0, 100.0, 1e3])
    s = 2j * np.pi * f
    cases = {
        "int(gain=3)": 3.0 / s,
        "s_xfer(gain=3 num_coeff=[1 2] den_coeff=[2 3 1] int_ic=[0 0] denormalized_freq=1500)": (
            3.0 * (s / 1500 + 2) / (2 * (s / 1500) ** 2 + 3 * s / 1500 + 1)
        ),
        "d_dt(gain=1m)": 1e-3 * s,
    }
    for model, expected in cases.items():
        response = circuit(f"a1 in out m\n.model m {model}", 1.0).response(f)["out"]
        np.testing.assert_allclose(response, expected, rtol=1e-7, err_msg=model)


@pytest.mark.parametrize("k", range(len(GATES)))
def test_gates_have_three_values(k):
    gate, inputs, expected = GATES[k]
    assert tuple(out(LOGIC.format(gate=gate, inputs=inputs), v) for v in (1.3, 0.2)) == pytest.approx(expected)


FLIP_FLOPS = """a1 [in x] [d1 d2] ad
a2 {ports} q nq f
a3 [q nq] [out o2] da
R2 o2 0 1k
.model ad adc_bridge(in_low=0.5 in_high=0.7)
.model f {model}
.model da dac_bridge(out_low=0.2 out_high=4.8)
"""


@pytest.mark.parametrize(
    ("ports", "model", "expected"),  # V(out) of ngspice 39 where d1 is 1 and where it is 0; d2 is 1
    [
        ("d1 d2 d1 d2", "d_dff", (UNKNOWN, LOW)), ("d1 d2 null null", "d_dff(ic=1)", (HIGH, HIGH)),
        ("d1 d2 d1 null", "d_dff", (HIGH, LOW)), ("d1 d2 null d1", "d_tff(ic=1)", (LOW, HIGH)),
        ("d1 d2 d1 null d1", "d_jkff(ic=1)", (LOW, HIGH)), ("d1 d2 null null", "d_dlatch", (HIGH, LOW)),
        ("d2 d1 null null", "d_dlatch", (HIGH, LOW)),
    ],
)  # fmt: skip
def test_flip_flops_at_rest(ports, model, expected):
    text = FLIP_FLOPS.format(ports=ports, model=model)
    assert tuple(out(text, v) for v in (1.3, 0.2)) == pytest.approx(expected)
    own = circuit(text, 0.2)
    point = dict(zip(own.names, own.operating_point.x, strict=True))
    assert point["out"] + point["o2"] == pytest.approx(5.0)


def test_what_is_not_built_is_refused_by_name():
    for model, way_out in (("d_tristate", r"switches \(S\)"), ("ilimit", r"I=\{limit\("), ("oneshot", "B source"),
                           ("multi_input_pwl", r"pwl\(min\(")):  # fmt: skip
        with pytest.raises(NetlistError, match=rf"line \d+: .model ff: .*not implemented.*{way_out}.*a1"):
            circuit(f"a1 d1 d2 d3 ff\n.model ff {model}", 1.0)
    with pytest.raises(NetlistError, match="make a loop, as a latch"):
        circuit("a1 [in] [d1] ad\n.model ad adc_bridge\na2 [d1 q2] q1 n\na3 [q1 d1] q2 n\n.model n d_nand", 1.0)
    for model in ("int(out_lower_limit=-5 out_ic=1)", "triangle(out_low=1)"):
        own = circuit(f"a1 in out s\n.model s {model}\n.tran 1u 1m\nC1 out 0 1n", 1.0)
        assert own.operating_point.x[own.names.index("out")] == pytest.approx(1.0)
        with pytest.raises(NetlistError, match="a1: is known at rest alone"):
            own.noiseless()
    with pytest.raises(NetlistError, match=r"has 2 number\(s\) for 1 input\(s\)"):
        circuit("a1 [in] out s\n.model s summer(in_gain=[1 2])", 1.0)
    with pytest.raises(NetlistError, match="x_array rising"):
        circuit("a1 in out s\n.model s pwl(x_array=[1 0] y_array=[1 2])", 1.0)
    with pytest.raises(NetlistError, match="did not expect 'out': s has the ports in, out"):
        circuit("a1 in x out s\n.model s gain", 1.0)


IN_TIME = """blocks in time
V1 in 0 SIN(0 2 1k)
V2 x 0 PULSE(0 1 0.2m 10u 10u 0.4m 1m)
a1 in lim l
.model l limit(gain=2 out_lower_limit=-1.5 out_upper_limit=3 limit_range=0.2)
RZ lim z 100
a7 z 0 zz
.model zz zener(v_breakdown=1.2)
CZ z 0 1u
a9 [in x] [d1 d2] ad
.model ad adc_bridge(in_low=0.5 in_high=0.5)
a10 [d1 d2] d3 nd
.model nd d_nand
a11 [d3] [lo] da
.model da dac_bridge(out_low=0 out_high=5)
RL lo lf 1k
CL lf 0 100n
.tran 10u 1m
"""


@pytest.mark.skipif(shutil.which("ngspice") is None, reason="ngspice is not installed")
def test_waveforms_are_those_of_ngspice(tmp_path):
    own = read(IN_TIME)
    states, nodes = own.noiseless(1e-5), {"z": 1e-4, "lf": 0.01}  # gates have delays there
    asked = "\n".join([".control", "set wr_singlescale", "run", "wrdata a.data " + " ".join(f"v({n})" for n in nodes),
                       "quit", ".endc", ".end"])  # fmt: skip
    text = IN_TIME.replace(".tran 10u 1m", ".options reltol=1e-6 abstol=1e-14\n.tran 10u 1m 0 0.2u")
    (tmp_path / "a.cir").write_text(f"{text}{asked}\n")
    subprocess.run(["ngspice", "-b", "a.cir"], cwd=tmp_path, capture_output=True, check=False)
    t, *theirs = np.loadtxt(tmp_path / "a.data").T
    for (node, allowed), wave in zip(nodes.items(), theirs, strict=True):
        mine = states[:, own.names.index(node)]
        assert np.abs(mine - np.interp(own.times, t, wave)).max() < allowed * np.ptp(wave), node


def test_an_integrator_in_time():
    own = read("title\nV1 in 0 SIN(0 2 1k)\na1 in i s\n.model s int(gain=3k in_offset=0.1 out_ic=0.5)\n.tran 20u 1m\n")
    t, states = own.times, own.noiseless(1e-8)
    exact = 0.5 + 3000 * (2 * (1 - np.cos(2e3 * np.pi * t)) / (2e3 * np.pi) + 0.1 * t)
    np.testing.assert_allclose(states[:, own.names.index("i")], exact, atol=1e-7)


def test_what_else_public_files_write():
    """An analysis or a measure of another dialect takes nothing from the circuit, nor does a node that floats."""
    own = read(
        "title\nV1 in 0 2\nR1 in out 1k\nR2 out 0 1k\nC1 out f 1n\nC2 f 0 -0.5n\nX1 out 0 sub\n.subckt sub a b\n"
        ".title x\nR1 a b 1k\n.ends\n"
        + ".tran 1u 2m start=1m\n.four 1k\tv(out)\n.measure po avg p(r1) from=0 to=1m\n.measure ac x mag(v(out)) at=1\n"
        + "D1 0 out dz\n.model dz D(level=2 ibv=1e-4+ bv=5)\nS1 out 0 in 0 sw\n.model sw SW( RON 1k VT 5 )\n"
        + "B1 p 0 V=pwl(v(in), 0, 0, 1, 3)\n"
    )
    untimed = read("title\nV1 a 0 PULSE(0 1 0)\nR1 a 0 1k\n")
    assert "without .tran, times that are missing in pulse are 1e-09 s" in " ".join(untimed.notes)
    voltages = dict(zip(own.names, own.operating_point.x, strict=True))
    assert voltages["out"] == pytest.approx(2.0 / 3.0, rel=1e-8)
    assert voltages["f"] == 0.0
    assert voltages["p"] == pytest.approx(3.0)
    assert own.network.netlist.transient.start == 1e-3
    said = " ".join(own.notes)
    for part in ("is joined to the rest by capacitors alone", "c2 is negative", "left out .measure po avg",
                 "left out .measure ac x", "level = 2 is read as 1"):  # fmt: skip
        assert part in said


def test_a_breakdown_adds_nothing_to_the_saturation_current():
    """SPICE's current beyond BV is IS exp(...), which is IS at BV: not IS more than before it."""
    own = read("title\nV1 a 0 -15\nR1 a k 5k\nD1 k 0 z\n.model z D(IS=5u RS=14 BV=2.81 IBV=5u)\n")
    v = float(own.operating_point.x[own.names.index("k")])
    current = (-15.0 - v) / 5e3
    inside = v - 14.0 * current
    assert current == pytest.approx(-5e-6 * np.exp(-(inside + 2.81) / (8.617333262145179e-05 * 300.15)), rel=1e-9)


def test_an_oscillator_whose_frequency_follows_a_voltage():
    """1.7 kHz for 1 ms, then, beyond the last point, 3.5 kHz: the phase goes on where it was."""
    own = read(
        "title\nV1 a 0 PWL(0 0.7 1m 0.7 1.000001m 1.5)\na1 a o s\nR1 o 0 1k\nC1 o 0 1p\n"
        ".model s sine(cntl_array=[0 1 2] freq_array=[1k 2k 5k] out_low=-1 out_high=2)\n.tran 5u 2m\n"
    )
    voltage = own.noiseless(1e-8)[:, own.names.index("o")]
    cycles = 1.7e3 * np.minimum(own.times, 1e-3) + 3.5e3 * np.maximum(own.times - 1e-3, 0.0)
    np.testing.assert_allclose(voltage, 0.5 + 1.5 * np.sin(2.0 * np.pi * cycles), atol=2e-5)
    assert voltage[0] == 0.5  # also at the operating point, as in ngspice


def test_what_rests_where_ngspice_has_it():
    """Hysteresis on the branch of rising inputs, a corner of it included; a slew limiter at its input."""
    kinds = [("a", "h"), ("b", "h"), ("a", "sl"), ("a", "sq")]
    lines = [
        *(f"a{k} {node} o{k} {model}\nR{k} o{k} 0 1k" for k, (node, model) in enumerate(kinds)),
        ".model h hyst(in_low=0.2 in_high=0.9 hyst=0.1 out_upper_limit=5)",
        ".model sl slew(rise_slope=1e6)",
        ".model sq square(cntl_array=[0 1] freq_array=[1k 2k] out_low=-1)",
    ]
    own = read("\n".join(["title", "V1 a 0 0.7", "V2 b 0 0.3", *lines, ".tran 1u 1m"]))
    voltages = dict(zip(own.names, own.operating_point.x, strict=True))
    for node, theirs in {"o0": 20.0 / 7.0, "o1": 0.0125, "o2": 0.7, "o3": -1.0}.items():
        assert voltages[node] == pytest.approx(theirs, rel=1e-9)
    with pytest.raises(NetlistError, match="at rest alone"):
        own.noiseless()


def test_a_switch_without_a_limit_stays_within_numbers():
    """Its resistance R_ON (R_OFF/R_ON)^share goes up to R_ON e^600, so that a current is left, and not 0."""
    numbers = {"r_on": 1.0, "r_off": 1e6, "cntl_on": 1.0, "cntl_off": 0.0, "log": 1.0, "limit": 0.0}
    p = Numbers({key: np.array([value]) for key, value in numbers.items()}, 300.15)
    for control, factor in ((-0.5, 1e9), (-50.0, np.exp(600.0)), (-60.0, np.exp(600.0))):
        found = ANALOGUE_SWITCH.value((np.array([2.0]), np.array([control])), p, np)
        np.testing.assert_allclose(found, 2.0 / factor, rtol=1e-12)
