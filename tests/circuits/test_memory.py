"""Switches with hysteresis change where their control leaves VT ± VH, at that moment within a step."""

import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.cycle.periodic import periodic
from stodyn.circuits import NetlistError, read

pytestmark = pytest.mark.usefixtures("quick_compiling")

# R charges C towards 1 V until S, at 0.75 V, discharges it through RON, until 0.25 V.
RELAXATION = """A relaxation oscillator
V1 a 0 1
R1 a c 1k
C1 c 0 1n ic=0
S1 c 0 c 0 s
.model s SW(VT=0.5 VH=0.25 RON=100 ROFF=1e15)
.tran 0.1u 3u uic
"""


def relaxation(times):
    """The voltage in closed form."""
    level, volts, is_on, begin = 0.75, 0.0, False, 0.0
    result = np.empty(len(times))
    for _ in range(100):
        end, tau = (100 / 1100, 1e-6 / 11) if is_on else (1.0, 1e-6)
        length = tau * np.log((volts - end) / (level - end))
        inside = (times >= begin) & (times <= begin + length)
        result[inside] = end + (volts - end) * np.exp((begin - times[inside]) / tau)
        begin, volts, is_on, level = begin + length, level, not is_on, 1.0 - level
    return result


def test_a_relaxation_oscillator_without_noise():
    circuit = read(RELAXATION)
    states = circuit.noiseless(1e-6)
    np.testing.assert_allclose(states[:, circuit.names.index("c")], relaxation(circuit.times), atol=1e-5)
    on = states[:, circuit.names.index("on(s1)")]
    assert set(on) == {0.0, 1.0} and len(circuit.time_steps()) > len(on)


def test_changes_are_located_within_steps():
    """The trapezoidal rule alone makes errors of 2e-3 here; a switch that changes a step late makes 0.05."""
    circuit = read(RELAXATION)
    run = sd.simulate(circuit, t=(0.0, 2e-6), dt=1e-8, paths=1, seed=1, collect=sd.statistics.Paths(1, every=1))
    volts = run["path"].values[0, :, circuit.names.index("c")]
    np.testing.assert_allclose(volts, relaxation(np.arange(len(volts)) * 1e-8), atol=4e-3)


def test_steps_that_are_cut_have_the_noise_of_whole_ones():
    """With RON = ROFF a change changes nothing, and the variance is kT/C however often the noise makes one."""
    circuit = read("title\nR1 a 0 2k\nC1 a 0 1n\nS1 a 0 a 0 s\n.model s SW(VH=0.6u RON=2k ROFF=2k)\n")
    run = sd.simulate(circuit, t=(0.0, 1e-5), dt=2e-7, paths=4000, seed=3, collect=sd.statistics.Moments(at=[1e-5]))
    exact = 1.380649e-23 * 300.15 / 1e-9
    variance, on = run["variance"].values[-1, 0], run["mean"].values[-1, circuit.names.index("on(s1)")]
    assert variance == pytest.approx(exact, rel=5.0 * np.sqrt(2.0 / 4000))
    assert on == pytest.approx(0.5, abs=5.0 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize(
    ("control", "word", "volts"),
    [(0.5, "", 1e-3), (0.5, "off", 1e-3), (0.5, "on", 0.5), (0.7, "off", 0.5), (0.3, "on", 1e-3)],
)
def test_operating_points_as_in_spice(control, word, volts):
    """Between VT - VH and VT + VH a switch is what its line says, and elsewhere what its control says."""
    for line in (f"S1 a o b 0 s {word}", f"W1 a o V2 w {word}"):
        circuit = read(
            f"title\nV1 a 0 1\n{line}\nR1 o 0 1k\nC1 o 0 1p\nV2 b 0 {control}\nR2 0 b 1\n"
            ".model s SW(VT=0.5 VH=0.1 RON=1k ROFF=999k)\n.model w CSW(IT=-0.5 IH=0.1 RON=1k ROFF=999k)\n"
        )
        point = circuit.operating_point.x[circuit.names.index("o")]
        is_on = (volts == 0.5) if line[0] == "S" else {0.5: word == "on", 0.7: False, 0.3: True}[control]
        assert point == pytest.approx(0.5 if is_on else 1e-3, rel=1e-9)


def test_negative_hysteresis_is_a_transition():
    """As in LTspice, of half-width |VH|, in the middle of which R = √(RON ROFF)."""
    circuit = read("t\nV1 a 0 1\nV2 b 0 0.5\nS1 a o b 0 s\nR1 o 0 1k\n.model s SW(VT=0.5 VH=-0.4 RON=10 ROFF=1e5)\n")
    assert circuit.operating_point.x[circuit.names.index("o")] == pytest.approx(0.5, rel=1e-9)


AT_VT = """A switch whose control rests at VT
V1 a 0 1
V2 c 0 PULSE(0 5 1u 10n 10n 1u)
S1 a o c 0 s
R1 o 0 1k
C1 o 0 10p
.model s SW(RON=1 ROFF=1e6)
.tran 0.1u 4u
"""
ON, OFF = 1000 / 1001, 1e3 / 1.001e6


@pytest.mark.parametrize(
    ("levels", "threshold", "volts"),
    [("0 5", 0, (ON, ON, OFF)), ("-5 0", 0, (OFF, ON, OFF)), ("5 0", 0, (ON, OFF, ON)), ("0 -5", 0, (ON, OFF, ON)),
     ("2 5", 5, (OFF, ON, OFF)), ("1.1 1", 1.1, (ON, OFF, ON))],
)  # fmt: skip
def test_controls_that_rest_at_the_threshold_as_in_spice(levels, threshold, volts):
    """RON at the operating point and after a lower control, ROFF after a higher one: ngspice 39 gives the same."""
    circuit = read(AT_VT.replace("0 5", levels).replace("SW(", f"SW(VT={threshold} "))
    out = circuit.names.index("o")
    assert circuit.operating_point.x[out] == pytest.approx(volts[0], rel=1e-9)
    assert any("s1: its control rests at VT" in note for note in circuit.notes)
    seen = circuit.noiseless()[[5, 19, 38], out]
    np.testing.assert_allclose(seen, volts, rtol=1e-4)


def test_paths_follow_controls_that_rest_at_the_threshold():
    circuit = read(AT_VT)
    run = sd.simulate(circuit, t=circuit.span, dt=1e-8, paths=2, seed=1, collect=sd.statistics.Paths(2, every=1))
    volts = run["path"].values[:, :, circuit.names.index("o")]
    np.testing.assert_allclose(volts[:, [50, 190, 380]], [[ON, ON, OFF]] * 2, atol=3e-4)  # the noise is 2e-5
    assert not any("rests at VT" in note for note in read(AT_VT.replace("SW(", "SW(VT=2.5 ")).notes)


def test_a_switch_that_is_half_closed_at_rest_is_told():
    divider = AT_VT.replace("V2 c 0 PULSE(0 5 1u 10n 10n 1u)", "V2 d 0 5\nR2 d c 1k\nR3 c 0 1k")
    with pytest.warns(UserWarning, match=r"s1: at the operating point its control, 2.5 V, is within 0.025 V of"):
        _ = read(divider.replace("SW(", "SW(VT=2.5 ")).operating_point


def test_refusals():
    circuit = read(RELAXATION)
    with pytest.raises(ValueError, match=r"s1 has a memory \(VH > 0, or a control at VT\), which periodic does not"):
        periodic(circuit)
    with pytest.raises(ValueError, match="cannot begin anew within a step, but s1 is a switch with memory"):
        sd.simulate(circuit, "BDF2Maruyama", t=(0.0, 1e-6), dt=1e-8, paths=1, seed=1)
    with pytest.raises(NetlistError, match="s1 goes on where it is off, and off where it is on"):
        _ = read(RELAXATION.replace(" uic", "")).operating_point
