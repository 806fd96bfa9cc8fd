"""Small circuits of every device, and circuits of text books, in ngspice: operating point, .ac, .noise and .tran; and
a transient of devices with charges.

Where ngspice is not to be followed is said at the circuit: it takes the thermal noise of RS of a diode AREA times, and
noise behind POLY sources depends on the frequencies asked for before.
"""

import re
import shutil
import subprocess

import numpy as np
import pytest

import stodyn
from stodyn import statistics as st
from stodyn.analysis.cycle.periodic_start import followed
from stodyn.analysis.cycle.periodic_system import system_of
from stodyn.circuits import read
from stodyn.circuits.element import ElementType
from stodyn.circuits.netlist import TYPES

pytestmark = pytest.mark.skipif(shutil.which("ngspice") is None, reason="ngspice is not installed")
OPTIONS = ".options reltol=1e-9 abstol=1e-16 vntol=1e-12 gmin=1e-15\n"
DIODE = "V1 in 0 {0} AC 1\nR1 in d 1k\nD1 d 0 j\nC1 d 0 1p\n.model j D(IS=1e-14 {1})\n"
SOURCE = (
    "V1 in 0 2 AC 1\nVDD vdd 0 5\nRD vdd out 2k\nM1 out in s 0 n W=20u L=2u\nRS s 0 500\nCS s 0 1p\nCL out 0 1p\n"
    ".model n NMOS(LEVEL=1 KP=50u VTO=0.7 LAMBDA=0.02 GAMMA=0.5 PHI=0.65 {0})\n"
)
PNP = (
    "V1 in 0 4.2 AC 1\nRB in b 1k\nVCC vcc 0 5\nQ1 c b vcc q\nRC c 0 1k\nCC c 0 1p\nCB b 0 0.1p\n"
    ".model q PNP(IS=1e-15 BF=50 VAF=30 CJE=1p CJC=0.5p TF=0.1n)\n"
)

# name: netlist, node, whether ngspice's noise is to be followed
CIRCUITS = {
    "diode": (DIODE.format(1, "RS=5 CJO=10p VJ=0.8 M=0.4 TT=5n KF=1e-14 AF=1.1 N=1.05"), "d", True),
    "diode in reverse": (DIODE.format(-3, "CJO=10p VJ=0.8 M=0.4"), "d", True),
    "diode in breakdown": (DIODE.format(-12, "BV=5.1 IBV=5m RS=2"), "d", True),
    "hot diode": (DIODE.format(1, "CJO=10p VJ=0.8") + ".temp 85\n", "d", True),
    "diode, two areas": (DIODE.format(1, "CJO=10p").replace("0 j\n", "0 j area=2\n"), "d", True),
    "NMOS with body, overlaps, flicker": (
        SOURCE.format("CGSO=0.3n CGDO=0.3n CGBO=0.2n KF=1e-26 AF=1.1"), "out", True),
    "hot NMOS": (SOURCE.format("") + ".temp 125\n", "out", True),
    "PMOS with junctions": (
        "V1 in 0 3 AC 1\nVDD vdd 0 5\nM1 out in vdd vdd p W=40u L=2u AD=100p AS=100p PD=30u PS=30u M=2\nRL out 0 1k\n"
        "CL out 0 0.1p\n.model p PMOS(LEVEL=1 KP=20u VTO=-0.8 LAMBDA=0.05 CJ=0.3m CJSW=0.5n MJ=0.5 MJSW=0.33 PB=0.8 "
        "JS=1e-8 RD=10 RS=10)\n", "out", True),
    "NPN": (
        "V1 in 0 0.75 AC 1\nRB in b 1k\nVCC vcc 0 5\nRC vcc c 1k\nQ1 c b e q\nRE e 0 50\nCE e 0 1p\nCC c 0 1p\n"
        "CB b 0 0.1p\n"
        ".model q NPN(IS=1e-15 BF=150 BR=3 VAF=50 IKF=10m ISE=1e-14 NE=1.6 RB=100 RC=10 RE=1 CJE=1p CJC=0.5p TF=0.1n "
        "TR=5n KF=1e-15 AF=1 CJS=0.3p XCJC=0.6)\n", "c", True),
    "hot PNP": (PNP + ".temp 60\n", "c", True),
    "PNP, two areas": (PNP.replace("vcc q\n", "vcc q area=2\n"), "c", True),
    "NJF": (
        "V1 in 0 -0.5 AC 1\nVDD vdd 0 10\nRD vdd d 1k\nJ1 d in s j\nRS s 0 100\nCS s 0 1p\nCD d 0 1p\n"
        ".model j NJF(VTO=-2 BETA=1m LAMBDA=0.01 CGS=2p CGD=1p RD=10 RS=5 KF=1e-16)\n", "d", True),
    "E with POLY": (
        "V1 in 0 0.5 AC 1\nR1 in a 1k\nC1 a 0 1n\nE1 b 0 POLY(1) a 0 0.1 2 0.5\nR2 b c 1k\nC2 c 0 10p\n", "c", False),
    "F with POLY": (
        "V1 in 0 0.5 AC 1\nR1 in m 1k\nC1 m 0 1n\nL1 m n 1u\nR3 n a 1k\nVM a 0 0\nF1 0 c POLY(1) VM 0 3 100\n"
        "R2 c 0 1k\nC2 c 0 10p\n", "c", False),
    "B": (
        "V1 in 0 0.5 AC 1\nR1 in a 1k\nC1 a 0 1n\nB1 b 0 V={tanh(2*V(a))+V(a)^2}\nR2 b c 1k\nC2 c 0 10p\n"
        "B2 c 0 I={1m*V(c)*V(a)}\n", "c", True),
    "K": ("V1 in 0 1 AC 1\nR1 in a 50\nL1 a 0 1u\nL2 b 0 4u\nK1 L1 L2 0.8\nR2 b 0 1k\nC2 b 0 10p\n", "b", True),
    "R with temperature coefficients": (
        "V1 in 0 1 AC 1\nR1 in a 1k TC1=2m TC2=5u\nR2 a 0 rm L=10u W=1u\nC1 a 0 1n\n.model rm R(RSH=100 TC1=1m)\n"
        ".temp 77\n", "a", True),
}  # fmt: skip

# Circuits of text books, with the capacitance that every node has: name: netlist, node
NPN_MODEL = ".model q NPN(IS=1e-16 BF=120 VAF=80 RB=50 RE=0.5 CJE=1p CJC=0.6p TF=0.2n TR=5n)\n"
CMOS = (
    ".model n NMOS(LEVEL=1 KP=120u VTO=0.6 LAMBDA=0.05 GAMMA=0.4 PHI=0.7 CGSO=0.3n CGDO=0.3n)\n"
    ".model p PMOS(LEVEL=1 KP=40u VTO=-0.7 LAMBDA=0.06 GAMMA=0.5 PHI=0.7 CGSO=0.3n CGDO=0.3n)\n"
)
OXIDE = CMOS.replace("CGSO=0.3n", "TOX=15n CGSO=0.1n").replace("CGDO=0.3n", "CGDO=0.1n")
TEXTBOOK = {
    "common emitter, bypassed": (
        "V1 s 0 0 AC 1\nRS s i 600\nCI i 0 1p\nC1 i b 10u\nRA vcc b 47k\nRB b 0 10k\nCB b 0 0.1p\nVCC vcc 0 12\n"
        "RC vcc c 3.3k\nCC c 0 1p\nQ1 c b e q\nRE e 0 1k\nCE e 0 47u\n" + NPN_MODEL, "c"),
    "emitter follower": (
        "V1 i 0 3 AC 1\nRS i b 1k\nCB b 0 0.1p\nVCC vcc 0 9\nQ1 vcc b e q\nRE e 0 2.2k\nCE e 0 10p\n" + NPN_MODEL, "e"),
    "bipolar cascode": (
        "V1 i 0 0.72 AC 1\nRS i b 200\nCB b 0 0.1p\nVCC vcc 0 9\nVB d 0 2.5\nQ1 m b 0 q\nQ2 c d m q\nCM m 0 0.2p\n"
        "RC vcc c 1k\nCC c 0 1p\n" + NPN_MODEL, "c"),
    "bipolar differential pair with mirror": (
        "V1 i 0 0 AC 1\nVCC vcc 0 5\nVEE vee 0 -5\nRS i b1 100\nCB1 b1 0 0.1p\nRS2 b2 0 100\nCB2 b2 0 0.1p\n"
        "Q1 c1 b1 t q\nQ2 c2 b2 t q\nRC1 vcc c1 5k\nRC2 vcc c2 5k\nCC1 c1 0 1p\nCC2 c2 0 1p\nCT t 0 0.5p\n"
        "Q3 t r vee q\nQ4 r r vee q\nRR 0 r 4.3k\nCR r 0 0.5p\n" + NPN_MODEL, "c2"),
    "Widlar current source": (
        "VCC vcc 0 10\nV1 o 0 5 AC 1\nRR vcc r 10k\nCR r 0 0.5p\nQ1 r r 0 q\nQ2 d r e q\nRE e 0 2k\nCE e 0 0.2p\n"
        "RO o d 10k\nCO d 0 1p\n" + NPN_MODEL, "d"),
    "Darlington": (
        "V1 i 0 4 AC 1\nRS i b 10k\nCB b 0 0.1p\nVCC vcc 0 9\nQ1 vcc b m q\nQ2 vcc m e q\nCM m 0 0.2p\nRM m 0 100k\n"
        "RE e 0 470\nCE e 0 10p\n" + NPN_MODEL, "e"),
    "Gilbert cell": (
        "VCC vcc 0 5\nV1 lp lm 0.02 AC 1\nVL lm 0 3\nVR rp rm 0.01\nVM rm 0 2\nIT t 0 1m\nCT t 0 0.5p\n"
        "Q1 a rp t q\nQ2 b rm t q\nCA a 0 0.2p\nCBB b 0 0.2p\nQ3 o1 lp a q\nQ4 o2 lm a q\nQ5 o1 lm b q\nQ6 o2 lp b q\n"
        "R1 vcc o1 1k\nR2 vcc o2 1k\nC1 o1 0 1p\nC2 o2 0 1p\n" + NPN_MODEL, "o1"),
    "CMOS common source with mirror load": (
        "VDD vdd 0 3\nV1 i 0 0.85 AC 1\nRS i g 1k\nCG g 0 1f\nM1 o g 0 0 n W=20u L=1u\nM2 o r vdd vdd p W=30u L=1u\n"
        "M3 r r vdd vdd p W=30u L=1u\nIR r 0 50u\nCR r 0 0.1p\nCO o 0 1p\n" + CMOS, "o"),
    "CMOS pair with mirror": (
        "VDD vdd 0 3\nV1 ip 0 1.5 AC 1\nV2 im 0 1.5\nIT t 0 100u\nCT t 0 0.1p\nM1 a ip t 0 n W=20u L=1u\n"
        "M2 o im t 0 n W=20u L=1u\nM3 a a vdd vdd p W=20u L=1u\nM4 o a vdd vdd p W=20u L=1u\nCA a 0 0.1p\nCO o 0 1p\n"
        + CMOS, "o"),
    "MOS cascode": (
        "VDD vdd 0 3\nV1 i 0 0.9 AC 1\nVB b 0 1.8\nM1 m i 0 0 n W=20u L=1u\nM2 o b m 0 n W=20u L=1u\nRD vdd o 5k\n"
        "CM m 0 0.1p\nCO o 0 1p\n" + CMOS, "o"),
    "two-stage Miller amplifier as buffer": (
        "VDD vdd 0 3.3\nIB vdd nb 20u\nM1 nb nb 0 0 n W=10u L=1u\nM2 t nb 0 0 n W=20u L=1u\nM3 a o t 0 n W=20u L=1u\n"
        "M4 b i t 0 n W=20u L=1u\nM5 a a vdd vdd p W=20u L=1u\nM6 b a vdd vdd p W=20u L=1u\n"
        "M7 o b vdd vdd p W=80u L=1u\nM8 o nb 0 0 n W=40u L=1u\nRZ b z 1k\nCC z o 1p\nCZ z 0 1f\n"
        "CL o 0 2p\nCB nb 0 0.1p\nCT t 0 0.1p\nCA a 0 0.1p\nCBB b 0 0.1p\nV1 i 0 1.5 AC 1\n" + CMOS, "o"),
    "CMOS inverter": (
        "VDD vdd 0 3\nV1 i 0 1.4 AC 1\nM1 o i 0 0 n W=2u L=1u\nM2 o i vdd vdd p W=6u L=1u\nCO o 0 20f\n" + CMOS, "o"),
    "common source with the gate's oxide": (
        "VDD vdd 0 3\nV1 i 0 0.8 AC 1\nRS i g 10k\nM1 o g 0 0 n W=20u L=1u\nRD vdd o 20k\nCO o 0 0.1p\n" + OXIDE, "o"),
    "source follower with the gate's oxide": (
        "VDD vdd 0 3\nV1 i 0 2 AC 1\nRS i g 10k\nM1 vdd g s 0 n W=20u L=1u\nRL s 0 5k\nCS s 0 0.1p\n" + OXIDE, "s"),
    "MOS switch with the gate's oxide": (
        "V1 i 0 0.3 AC 1\nVG h 0 2\nRG h g 10k\nRS i a 1k\nM1 a g o 0 n W=20u L=1u\nRO o 0 50k\nCO o 0 0.2p\n"
        "CA a 0 50f\n" + OXIDE, "o"),
    "self-biased JFET stage": (
        "V1 i 0 0 AC 1\nCI i g 1u\nRG g 0 1meg\nCG g 0 1p\nVDD vdd 0 15\nRD vdd d 2.2k\nCD d 0 1p\nJ1 d g s j\n"
        "RS s 0 470\nCS s 0 10u\n.model j NJF(VTO=-3 BETA=0.8m LAMBDA=0.01 CGS=3p CGD=1p)\n", "d"),
    "Sallen-Key low-pass": (
        "V1 i 0 0 AC 1\nR1 i a 10k\nR2 a b 10k\nC1 a o 2.2n\nC2 b 0 1n\nE1 e 0 b o 1e5\nRO e o 100\nCO o 0 10p\n", "o"),
    "twin-T notch": (
        "V1 i 0 0 AC 1\nR1 i a 10k\nR2 a o 10k\nC3 a 0 2n\nC1 i b 1n\nC2 b o 1n\nR3 b 0 5k\n"
        "RL o 0 100k\nCL o 0 1p\n", "o"),
    "fifth-order Butterworth ladder": (
        "V1 i 0 0 AC 1\nRS i a 50\nC1 a 0 1.97n\nL2 a b 12.9u\nC3 b 0 6.37n\nL4 b c 12.9u\n"
        "C5 c 0 1.97n\nRL c 0 50\n", "c"),
    "photodiode amplifier": (
        "I1 0 d 1u AC 1\nD1 d 0 pd\nE1 e 0 0 d 1e4\nRO e o 50\nRF o d 100k\nCF o d 0.5p\nCO o 0 1p\n"
        ".model pd D(IS=1e-12 CJO=20p)\n", "o"),
    "diode bridge, biased": (
        "V1 i 0 0.5 AC 1\nRS i a 50\nCA a 0 1p\nD1 a p d\nD2 m a d\nD3 0 p d\nD4 m 0 d\nRL p m 1k\nCP p 0 1n\n"
        "CM m 0 1n\n"
        ".model d D(IS=1e-12 RS=1 CJO=4p TT=5n)\n", "p"),
}  # fmt: skip


def peer(folder, text, commands):
    """What ngspice's wrdata writes after each (commands, vector), as columns."""
    file = folder / "peer.cir"
    lines = [f"{command}\nwrdata {folder}/part{k}.data {vector}" for k, (command, vector) in enumerate(commands)]
    file.write_text(f"{text}.control\nset wr_singlescale\n" + "\n".join(lines) + "\nquit\n.endc\n.end\n")
    done = subprocess.run(["ngspice", "-b", str(file)], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (folder / f"part{len(commands) - 1}.data").exists(), done.stdout[-2000:] + done.stderr[-2000:]
    return [np.loadtxt(folder / f"part{k}.data") for k in range(len(commands))]


@pytest.mark.brief(*CIRCUITS, "two-stage Miller amplifier as buffer", "bipolar differential pair with mirror")
@pytest.mark.parametrize("name", [*CIRCUITS, *TEXTBOOK])
def test_small_signals_and_noise_are_those_of_ngspice(name, tmp_path):
    text, node, is_noise_right = CIRCUITS[name] if name in CIRCUITS else (*TEXTBOOK[name], True)
    source = "I1" if text.startswith("I1") else "V1"
    circuit = read(f"title\n{text}.options flo=1 fhi=1g\n.noise v({node}) {source} dec 2 100 1g\n")
    sweep = "dec 2 100 1g"
    op, ac, noise = peer(tmp_path, f"title\n{text}{OPTIONS}", [
        ("op", f"v({node})"), (f"ac {sweep}", f"v({node})"),
        (f"noise v({node}) {source} {sweep}\nsetplot noise1", "onoise_spectrum inoise_spectrum"),
    ])  # fmt: skip
    place = circuit.names.index(node)
    assert circuit.operating_point.x[place] == pytest.approx(np.ravel(op)[-1], rel=1e-5, abs=1e-9)
    theirs = ac[:, 1] + 1j * ac[:, 2]
    ours = circuit.small_signal.response(ac[:, 0])[:, place]
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())
    if is_noise_right:
        found = circuit.noise_spectrum()
        np.testing.assert_allclose(np.sqrt(found.density), noise[:, 1], rtol=1e-4)
        seen = found.gain > 1e-19  # ngspice counts a smaller gain as 1e-20
        np.testing.assert_allclose(np.sqrt(found.input_density[seen]), noise[seen, 2], rtol=1e-4)


@pytest.mark.brief("diode", "hot PNP", "CMOS inverter", "twin-T notch")
@pytest.mark.parametrize("name", [*CIRCUITS, *TEXTBOOK])
def test_transients_are_those_of_ngspice(name, tmp_path):
    """The source steps by 0.1 V (or a tenth of its current) in 10 ns, and back: without noise, beside ngspice's .tran
    with steps of at most 0.5 ns."""
    text, node = (CIRCUITS[name] if name in CIRCUITS else TEXTBOOK[name])[:2]
    line, source, plus, minus, rest = next(
        re.finditer(r"^((V1|I1) (\S+) (\S+) (\S+) AC 1)$", text, re.MULTILINE)
    ).groups()
    rest = float(rest.replace("u", "e-6"))
    step = 0.1 if source == "V1" else 0.1 * rest
    driven = f"title\n{text}".replace(line, f"{source} {plus} {minus} PULSE({rest!r} {rest + step!r} 50n 10n 10n 400n)")
    precise = ".options reltol=1e-5 abstol=1e-14 vntol=1e-9 gmin=1e-15\n.tran 2n 1u 0 0.5n\n"
    (theirs,) = peer(tmp_path, driven + precise, [("run", f"v({node})")])
    circuit = read(driven + ".options noise=off\n.tran 2n 1u\n")
    wanted = np.interp(circuit.times, theirs[:, 0], theirs[:, 1])
    ours = circuit.noiseless(1e-5)[:, circuit.names.index(node)]
    assert np.abs(ours - wanted).max() <= 3e-3 * np.ptp(wanted)


@pytest.mark.long(
    "test_small_signals_and_noise_are_those_of_ngspice has their charges, tests/circuits/test_ngspice.py waveforms"
)
def test_waveforms_of_devices_with_charges(tmp_path):
    """A rectifying diode that stores charge, a bipolar and a MOS inverter with their capacitances, a transformer."""
    text = (
        "title\nV1 in 0 SIN(0 3 2meg)\nR1 in d 200\nD1 d o j\nRL o 0 1k\nCL o 0 50p\n"
        "V2 p 0 PULSE(0 3 0.1u 20n 20n 0.2u 0.5u)\nRB p b 2k\nQ1 c b 0 q\nVCC vcc 0 5\nRC vcc c 1k\nCC c 0 1p\n"
        "M1 m g 0 0 n W=10u L=1u AD=20p AS=20p\nRG p g 1k\nRM vcc m 5k\nCM m 0 0.1p\n"
        "L1 p1 0 10u\nL2 s 0 40u\nK1 L1 L2 0.9\nRP in p1 100\nRS s 0 1k\nCS s 0 20p\n"
        ".model j D(IS=1e-14 CJO=20p TT=20n RS=2)\n.model q NPN(IS=1e-15 BF=80 CJE=2p CJC=1p TF=0.3n TR=10n VAF=40)\n"
        ".model n NMOS(KP=100u VTO=0.8 GAMMA=0.4 CGSO=0.5n CGDO=0.5n CJ=0.4m)\n.tran 1n 1u\n"
    )
    seen = ("d", "o", "c", "m", "s")
    precise = ".options reltol=1e-6 abstol=1e-14 vntol=1e-9 chgtol=1e-18 gmin=1e-15\n"
    (theirs,) = peer(tmp_path, text.replace(".tran 1n 1u", ".tran 1n 1u 0 0.2n") + precise,
                     [("run", " ".join(f"v({node})" for node in seen))])  # fmt: skip
    circuit = read(text + ".options noise=off\n")
    times, system = np.linspace(0.0, 1e-6, 251), system_of(circuit)
    states = followed(system, times, system.start, 1e-5)
    for k, node in enumerate(seen):
        wanted = np.interp(times, theirs[:, 0], theirs[:, 1 + k])
        assert np.abs(states[:, system.names.index(node)] - wanted).max() <= 1e-3 * np.ptp(wanted), node


@pytest.mark.usefixtures("quick_compiling")
def test_a_run_with_a_stored_charge(tmp_path):
    """The engine steps a circuit whose diode stores charge, as ngspice does."""
    text = "title\nV1 in 0 SIN(0 3 2meg)\nR1 in d 200\nD1 d 0 j\n.model j D(IS=1e-14 CJO=20p TT=20n)\n.tran 1n 1u\n"
    precise = ".options reltol=1e-6 abstol=1e-14 vntol=1e-9 chgtol=1e-18 gmin=1e-15\n"
    (theirs,) = peer(tmp_path, text.replace(".tran 1n 1u", ".tran 1n 1u 0 0.2n") + precise, [("run", "v(d)")])
    circuit = read(text + ".options noise=off\n")
    run = stodyn.simulate(
        circuit, "Trapezoidal", t=circuit.span, dt=1e-9, paths=1, seed=1, collect=st.Paths(1, every=8)
    )
    wanted = np.interp(run["time"].values, theirs[:, 0], theirs[:, 1])
    assert np.abs(run["path"].sel(component="d").values[0] - wanted).max() <= 3e-3 * np.ptp(wanted)


def test_unknown_parameters_are_left_out_with_one_warning():
    text = "title\nV1 in 0 1\nR1 in a 1k\nC1 a 0 1n\nD1 a 0 d1\nD2 a 0 d2\n.model d1 D(IS=1p MFG=3 ISS=2)\n"
    with pytest.warns(UserWarning, match="d1: mfg, iss; did you mean is.; d2: vendor") as caught:
        circuit = read(text + ".model d2 D(IS=1p VENDOR=1)\n")
    assert len(caught) == 1 and any("mfg" in note for note in circuit.notes)


def test_an_oxide_gives_kp_and_flicker():
    """KP = UO ε/TOX, and KF over W L Cox²."""
    text = "title\nV1 g 0 2\nM1 d g 0 0 n W=10u L=2u\nR1 d 0 1k\nC1 d 0 1p\n.model n NMOS(TOX=20n UO=500 KF=1e-27)\n"
    group = read(text + ".options flo=1 fhi=1k\n").network.groups[0]
    oxide = 3.9 * 8.854214871e-12 / 20e-9
    assert group.numbers["beta"][0] == pytest.approx(500e-4 * oxide * 5.0, rel=1e-12)
    assert group.numbers["kf"][0] == pytest.approx(1e-27 / (20e-12 * oxide**2), rel=1e-12)


def test_every_letter_has_one_file():
    assert set(TYPES) == set("arclkvidmqjswegfhbtn")
    assert all(isinstance(kind, ElementType) and kind.form.lower().startswith(kind.name) for kind in TYPES.values())
