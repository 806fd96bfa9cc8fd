"""What directives mean, against closed forms of RC circuits and against numbers worked out by hand."""

import warnings

import numpy as np
import pytest
import xarray as xr

from stodyn.circuits import NetlistError, read
from stodyn.circuits.blocks import LISTED
from stodyn.circuits.directive import Directive
from stodyn.circuits.measures import Waveforms, measured
from stodyn.circuits.netlist import laid_out, read_deck

RC = "title\n.param r=1k c=1n\nV1 in 0 DC 2 AC 1\nR1 in out {r}\nC1 out 0 {c}\n"
BOLTZMANN = 1.380649e-23


def resistance(line, expression):
    return read(f"title\n{line}\nV1 in 0 1\nR1 in out {{{expression}}}\nC1 out 0 1n\n").network.resistances[0]


@pytest.mark.parametrize(
    ("line", "expression", "value"),
    [
        (".func f(x, y) {x*y + 1}", "f(2, 3)", 7.0),
        (".param f(x)={x*2} a=3", "f(a) + f(1)", 8.0),
        (".func f(x) {x > 1 ? x*f(x-1) : 1}", "f(5)", 120.0),
        (".func f(x) {a*x}\n.func g(x) {f(x)+1}\n.param a={g0*2} g0=2", "g(10)", 41.0),
        (".param a={2 > 1 ? 5 : 1/0}", "a", 5.0),
        (".param a={1 > 2 || 3 > 2 && !(1 == 2) ? 7 : 8}", "a", 7.0),
        (".param a={temper}\n.temp 85", "a", 85.0),
        (".param a={limit(5, 1, 3)} b={limit(5, 1)}", "a+b", 8.0),
        (".param a={gauss(100, 0.1)+agauss(10, 1, 3)+unif(1, 0.1)+aunif(2, 1)}", "a", 113.0),
    ],
)
def test_functions_and_parameters_have_their_values(line, expression, value):
    """Random functions are at their nominal values unless they are given others."""
    assert resistance(line, expression) == pytest.approx(value, rel=1e-14)


def test_many_calls_of_functions_are_refused_before_they_take_time():
    chain = "\n".join(f".func f{k}(x) {{f{k + 1}(x)+f{k + 1}(x)}}" for k in range(15))
    with pytest.raises(NetlistError, match="more than 1000 calls"):
        resistance(f"{chain}\n.func f15(x) {{x}}", "f0(1)")


def test_chains_through_functions_may_be_of_any_length():
    chain = "\n".join(f".param a{i}={{f(a{i + 1})}}" for i in range(3000))
    assert resistance(f".func f(x) {{x+1}}\n{chain}\n.param a3000=1", "a0") == 3001.0


def test_many_continuations_are_read_in_linear_time():
    """In quadratic time this would take minutes."""
    points = "\n".join(f"+ {k}u {k % 2}" for k in range(1, 100_000))
    assert read(f"title\nV1 in 0 PWL(0 0\n{points})\nR1 in out 1k\nC1 out 0 1n\n").n == 3


def test_steps_give_a_circuit_for_each_combination():
    circuit = read(RC + ".step param c list 1n 3n\n.step dec param load 1k 100k 1\nR2 out 0 {load}\n.temp 0 100\n")
    found = list(circuit.steps())
    assert len(found) == 2 * 3 * 2 and len(circuit.notes) == 3
    assert [values["c"] for values, _ in found[:4]] == pytest.approx(
        [1e-9, 3e-9, 1e-9, 3e-9]
    )  # the first .step is innermost
    for values, one in found:
        total = 1.0 / (1e-3 + 1.0 / values["load"])
        assert one.operating_point.x[1] == pytest.approx(2.0 * total / 1e3, rel=1e-12)
        assert one.mass[1, 1] == pytest.approx(values["c"], rel=1e-15)
        assert one.network.netlist.kelvin == pytest.approx(values["temp"] + 273.15)
    assert circuit.network.resistances[1] == 1e3 and circuit.network.netlist.kelvin == 273.15  # the first values
    sources = [one.operating_point.x[0] for _, one in read(RC + ".step V1 1 2 0.25\n").steps()]
    assert sources == pytest.approx([1.0, 1.25, 1.5, 1.75, 2.0])


def test_values_from_outside():
    text = RC + ".subckt s a b r=1k\nR1 a b {r}\n.ends\nX1 out 0 s\nD1 out 0 d\n.model d D(IS=1p)\n"
    circuit = read(text, values={"R": 2e3, "x1.r": 3e3, "c1.value": 5e-9, "d.is": 2e-12, "temp": 50})
    assert list(circuit.network.resistances) == [2e3, 3e3] and circuit.mass[1, 1] == 5e-9
    assert circuit.network.netlist.kelvin == 323.15
    assert circuit.valued({"x1.r": 4e3}).network.resistances[1] == 4e3
    with pytest.raises(NetlistError, match=r"no value named x1\.q"):
        circuit.valued({"x1.q": 1.0})
    with pytest.raises(ValueError, match="expected a finite number"):
        circuit.valued({"r": "big"})


def test_ac_and_its_measures():
    circuit = read(RC + ".ac dec 50 100 100meg\n.measure ac corner when vdb(out)=-3.0102999566398 fall=1\n"
                   ".measure ac high find vm(out) at=1meg\n.measure ac ratio param='high/corner'\n")  # fmt: skip
    found = circuit.response()
    exact = 1.0 / (1.0 + 2j * np.pi * found.frequency * 1e-6)
    np.testing.assert_allclose(found["out"], exact, rtol=1e-12)
    got = circuit.measured("ac")
    assert got["corner"][0] == pytest.approx(1.0 / (2 * np.pi * 1e-6), rel=1e-3)  # straight lines between 50 per decade
    assert got["high"][0] == pytest.approx(1.0 / np.hypot(1.0, 2 * np.pi), rel=1e-3)
    assert got["ratio"][0] == pytest.approx(got["high"][0] / got["corner"][0], rel=1e-14)


@pytest.mark.parametrize("name", ["OUT", "v(out)", "V( Out )"])
def test_nodes_are_found_as_netlists_write_them(name):
    circuit = read("low pass\nV1 in 0 AC 1\nR1 in Out 1k\nC1 Out 0 1n\n.ac lin 1 1k 1k\n")
    assert circuit.response()[name] == circuit.response()["out"]
    assert circuit.noise_spectrum(name, 1e3).density == circuit.noise_spectrum("out", 1e3).density
    for absent in ("v(out, in)", "v(o)", "i(out)"):
        with pytest.raises(KeyError, match="there are in, out"):
            circuit.response()[absent]


def test_noise_referred_to_the_input_and_noise_figure():
    """A resistor of 2 kΩ behind a source of 1 kΩ: at the input 4kT(R + R²/R2), and F at 290 K is 1 + R/R2."""
    text = "title\nV1 in 0 0 AC 1\nRS in out 1k\nR2 out 0 2k\nC1 out 0 1p\n.noise v(out) V1 dec 5 1 1k\n"
    found = read(text + ".options temp=16.85\n.measure noise most max inoise\n").noise_spectrum()
    np.testing.assert_allclose(found.input_density, 4 * BOLTZMANN * 290.0 * (1e3 + 1e6 / 2e3), rtol=1e-6)
    np.testing.assert_allclose(found.noise_figure("RS"), 10 * np.log10(1.5), rtol=1e-6)
    warm = read(text + ".temp 100\n").noise_spectrum()
    np.testing.assert_allclose(warm.noise_figure("rs"), 10 * np.log10(1 + 0.5 * 373.15 / 290.0), rtol=1e-6)
    with pytest.raises(ValueError, match="r9 makes no noise at the output; expected one of rs, r2"):
        warm.noise_figure("r9")
    with pytest.raises(ValueError, match="no source was named"):
        _ = read(RC).noise_spectrum("out", [1.0]).input_density
    measured = read(text + ".measure noise most max inoise\n").measured("noise")["most"]
    assert measured[0] == pytest.approx(np.sqrt(4 * BOLTZMANN * 300.15 * 1500.0), rel=1e-6)


def test_nodeset_chooses_between_operating_points():
    """A latch of two inverters: Newton from nothing finds the unstable point in the middle."""
    latch = (
        "title\nVDD vdd 0 3\nRA vdd a 10k\nRB vdd b 10k\nMA a b 0 0 n\nMB b a 0 0 n\nCA a 0 1p\nCB b 0 1p\n"
        ".model n NMOS(KP=1m VTO=0.7)\n"
    )
    middle = read(latch).operating_point.x
    assert middle[1] == pytest.approx(middle[2], rel=1e-9)
    for node, other in (("a", "b"), ("b", "a")):
        circuit = read(latch + f".nodeset v({node})=3 v({other})=0\n")
        point = dict(zip(circuit.names, circuit.operating_point.x, strict=True))
        assert point[node] > 2.5 and point[other] < 0.5


def test_measures_on_waveforms():
    """sin and cos over three periods of 1 s, two paths of different size."""
    t = np.linspace(0.0, 3.0, 3001)
    states = {"a": np.stack([np.sin(2 * np.pi * t), 2.0 * np.sin(2 * np.pi * t)]), "b": np.cos(2 * np.pi * t)[None]}
    lines = {
        "second": ("when v(a)=0.5 rise=2", [1 + 1 / 12, 1 + np.arcsin(0.25) / (2 * np.pi)]),
        "last": ("when v(a)=0.5 fall=last", [2 + 5 / 12, 2.5 - np.arcsin(0.25) / (2 * np.pi)]),
        "equal": ("when v(a)=v(b) cross=1", [1 / 8, np.arctan(0.5) / (2 * np.pi)]),
        "late": ("when v(a)=0.5 rise=1 td=1", [1 + 1 / 12, 1 + np.arcsin(0.25) / (2 * np.pi)]),
        "never": ("when v(a)=1.5 rise=1", [np.nan, np.arcsin(0.75) / (2 * np.pi)]),
        "delay": ("trig v(b) val=0 fall=1 targ v(a) val=0 fall=1", [0.25, 0.25]),
        "from_at": ("trig at=0.1 targ v(b) val=0 rise=1", [0.65, 0.65]),
        "found": ("find v(a) at=0.25", [1.0, 2.0]),
        "found_when": ("find v(a) when v(b)=0 fall=1", [1.0, 2.0]),
        "slope": ("deriv v(a) at=1", [2 * np.pi, 4 * np.pi]),
        "most": ("max v(a)", [1.0, 2.0]),
        "least": ("min v(a) from=0 to=0.5", [0.0, 0.0]),
        "span": ("pp v(a)", [2.0, 4.0]),
        "mean": ("avg v(a) from=0 to=0.5", [2 / np.pi, 4 / np.pi]),
        "size": ("rms v(a,b) from=0 to=1", [1.0, np.sqrt(2.5)]),
        "area": ("integ 'v(a)*2' from=0 to=0.5", [2 / np.pi, 4 / np.pi]),
        "ratio": ("param='span/most + 1'", [3.0, 3.0]),
    }
    text = RC.replace("in", "a").replace("out", "b")
    text += "".join(f".measure tran {name} {line}\n" for name, (line, _) in lines.items())
    found = measured(laid_out(read_deck(text)).measures, Waveforms(t, states.__getitem__, ("a", "b")))
    for name, (_, wanted) in lines.items():
        np.testing.assert_allclose(np.broadcast_to(found[name], 2), wanted, rtol=2e-5, atol=1e-5, err_msg=name)
    bad = laid_out(read_deck(text + ".measure tran gone max v(c)\n")).measures
    with pytest.raises(NetlistError, match=r"line \d+: .measure gone: there is no node c"):
        measured(bad, Waveforms(t, states.__getitem__, ("a", "b")))


def test_measures_of_a_run():
    """Paths as simulate gives them: 1 - exp(-t/τ) is 0.5 at τ log 2."""
    circuit = read(RC + ".measure tran half when v(out)=0.5 rise=1\n")
    times, τ = np.linspace(0.0, 5.0, 5001), np.array([1.0, 2.0])
    out = 1.0 - np.exp(-times / τ[:, None])
    states = np.stack([np.ones_like(out), out, np.zeros_like(out)], axis=-1)
    run = xr.Dataset({"path": (("number", "time", "component"), states)}, {"time": times})
    np.testing.assert_allclose(circuit.measured("tran", run)["half"], τ * np.log(2.0), rtol=1e-6)
    with pytest.raises(ValueError, match="looks at paths"):
        circuit.measured("tran")


def test_every_directive_says_what_it_looks_like():
    assert {".param", ".func", ".model", ".step", ".temp", ".ic", ".nodeset", ".measure", ".ac", ".op", ".tran",
            ".noise", ".options", ".global"} <= set(LISTED)  # fmt: skip
    assert all(isinstance(d, Directive) and d.form.startswith(d.name) for d in LISTED.values())


BODY = "V1 in 0 1\nRA in out 1k\nC1 out 0 1n\n"


@pytest.mark.parametrize("title", ["RC low pass 1k", "Circuit for exercise 3", "Inverter chain rev 3", "Lab 2 3 4", ""])
def test_the_first_line_is_the_title(title):
    circuit = read(f"{title}\n{BODY}")
    assert len(circuit.network.netlist.elements) == 3 and not circuit.notes


@pytest.mark.parametrize("title", ["Rload in out 100", "Version out 0 3", ".param c=1n", "RB in 0 1k"])
def test_a_first_line_that_looks_like_a_part_of_the_circuit_is_a_title_too(title):
    """As in SPICE, and a warning shows it."""
    with pytest.warns(UserWarning, match=f"line 1: the first line is the title, .* not read: '{title}'.* put a title"):
        circuit = read(f"{title}\n{BODY}")
    assert [e.name for e in circuit.network.netlist.elements] == ["v1", "ra", "c1"]


EVERY = """V1 in 0 1
RA in out 1k
L1 out m 1u
L2 m 0 1u
C1 out 0 1n
C2 m 0 1p
.param r=1k
.model dm d
.model nm nmos
.model qm npn
.model sm sw vt=0.5
.subckt part a b
R1 a b 1k
.ends
"""


@pytest.mark.parametrize("title", ["R2 out 0 {r}", "R2 out 0 r", "R2 out 0 '2*r' ; load", "R2 out 0 R=1k",
    "R2 out 0 {q}",
    "C2 out 0 C={r*1p}", "D1 out 0 dm", "D1 out 0 dm 2", "M1 out in 0 0 nm", "M1 out in 0 0 nm W=2u L=1u",
    "M1 out in 0 bulk nm", "Q1 out in 0 qm", "S1 out 0 in 0 sm", "X1 in out part", "K1 L1 L2 0.9", "F1 out 0 V1 2",
    "E1 out 0 in 0 2", "B1 out 0 I=V(in)*1m", "I1 out 0 SIN(0 1 1k)", "I1 out 0 AC 1", "I1 out 0 DC {r}", ".tran 1n 1u",
    ".model dx d"])  # fmt: skip
def test_every_kind_of_part_in_the_first_line_is_warned_of(title):
    with pytest.warns(UserWarning, match="first line is the title"):
        circuit = read(f"{title}\n{EVERY}")
    assert len(circuit.network.netlist.elements) == 6


@pytest.mark.parametrize("title", ["RC low pass 1k", "Diode in the dm model", "Ring in out stage 3",
    "Mixer in out 0 0 3",
    "Don't read me", "X marks in out", "Lab 1 1k 3", "Q out", "K", "... dots", "Filter in {braces}", "x"])  # fmt: skip
def test_ordinary_titles_are_not_warned_of(title):
    assert not any("first line" in note for note in read(f"{title}\n{EVERY}").notes)


@pytest.mark.parametrize(("text", "words"), [
    (".param r=1k\nV1 in 0 1\nR1 in out {r}\nC1 out 0 1n\n", "line 3: .*"),
    (".subckt part a b\nR1 a b 1k\n.ends\nV1 in 0 1\nC1 in 0 1n\n", "line 3: .ends without .subckt"),
    (".model dm d\nV1 in 0 1\nR1 in out 1k\nD1 out 0 dm\nC1 out 0 1n\n", "line 4: .*dm"),
    ("V1 in 0 DC {v}\nR1 in out 1k\nC1 out 0 1n\nF1 out 0 V1 2\n.param v=1\n", "line 4: .*v1"),
])  # fmt: skip
def test_an_error_says_that_the_first_line_was_taken_as_the_title(text, words):
    lost = text.splitlines()[0].replace("{", r"\{")
    with warnings.catch_warnings(), pytest.raises(NetlistError, match=f"{words}.*line 1: the first line .*'{lost}'"):
        warnings.simplefilter("ignore")
        read(text)


def test_a_title_is_not_continued():
    with pytest.raises(
        NetlistError, match=r"line 2: .* begins with \+ .* but there is none; the first line is the title"
    ):
        read("V1 in 0 PWL(0 0\n+ 1 1)\nR1 in out 1k\nC1 out 0 1n\n")


def test_the_warning_of_a_lost_line_comes_before_the_error_it_causes():
    with pytest.warns(UserWarning, match="first line is the title"), pytest.raises(NetlistError):
        read("V1 in 0 1\nR1 in out 1k\nC1 out 0 1n\nF1 out 0 v1 1\n")


def test_a_response_to_nothing_is_refused():
    with pytest.raises(ValueError, match="no source has an AC amplitude; write one as in V1 in 0 DC 0 AC 1"):
        read("title\nV1 in 0 1\nRA in out 1k\nC1 out 0 1n\n").response([1e3])
