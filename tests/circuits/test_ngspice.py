"""The same netlists in ngspice: waveforms without noise to 1e-4 of their range, .noise spectra to 1 %."""

import shutil
import subprocess

import numpy as np
import pytest

import stodyn
from stodyn import statistics as st
from stodyn.circuits import read

pytestmark = pytest.mark.skipif(shutil.which("ngspice") is None, reason="ngspice is not installed")
PRECISE = ".options reltol=1e-7 abstol=1e-15 vntol=1e-10 chgtol=1e-18 method=gear maxord=3\n"

# Every element and every waveform, in circuits small enough for their steps to be compiled at once, and what is seen.
TRANSIENT = {
    "passive": (
        """.param c=1n
.subckt lowpass a b r=1k
R1 a b {r}
C1 b 0 c
.ends
V1 in 0 SIN(0.2 1 300k 0.3u 200k)
X1 in rc lowpass r=2k
V2 p 0 PULSE(0 1 0.5u 0.1u 0.2u 1u 3u)
RL p m 50
L1 m lc 20u
C2 lc 0 200p
""",
        ("rc", "lc"),
    ),
    "devices": (
        """V3 s 0 SIN(0 2 500k)
RS s t 500
D1 t u dio
RD u 0 5k
C3 u 0 400p
V4 gate 0 PWL(0 0 1u 3 2u 3 3u 0.5)
VDD vdd 0 3
MN o gate 0 0 n W=2u L=1u
MP o gate vdd vdd p W=4u L=1u
CO o 0 1n
.model dio D(IS=1e-13 N=1.2 CJO=0)
.model n NMOS(LEVEL=1 KP=100u VTO=0.7 LAMBDA=0.03)
.model p PMOS(LEVEL=1 KP=50u VTO=-0.8 LAMBDA=0.05)
""",
        ("u", "o"),
    ),
    "controlled": (
        """I1 0 w EXP(0 1m 0.2u 0.3u 2u 0.5u)
RW w 0 1k
CW w 0 100p
E1 e 0 w 0 2.5
RE e f 1k
CE f 0 150p
VM f g 0
RG g 0 2k
F1 0 h VM 0.5
RH h 0 1k
CH h 0 200p
H1 k 0 VM 300
RK k l 1k
CK l 0 100p
G1 l 0 w 0 0.2m
""",
        ("w", "f", "h", "l"),
    ),
}

NOISE = {
    "thermal": ("R1 in out 10k\nC1 out 0 100p\nV1 in 0 1 AC 1\nR2 out x 5k\nC2 x 0 20p\n", "x"),
    "series RLC": ("V1 in 0 1 AC 1\nR1 in m 50\nL1 m out 1u\nC1 out 0 1n\n", "out"),
    "diode with flicker": (
        "V1 in 0 2 AC 1\nR1 in d 10k\nD1 d 0 j\nC1 d 0 100p\n.model j D(IS=1e-14 KF=1e-13 AF=1)\n"
        ".options flo=1 fhi=1g\n",
        "d",
    ),
    "common source": (
        "V1 in 0 1.5 AC 1\nVDD vdd 0 5\nRD vdd out 10k\nM1 out in s 0 n\nRS s 0 500\nCS s 0 1p\nCL out 0 1p\n"
        ".model n NMOS(LEVEL=1 KP=1m VTO=0.7 LAMBDA=0.02)\n",
        "out",
    ),
    "controlled sources": (
        "V1 in 0 1 AC 1\nR1 in a 1k\nC1 a 0 1n\nE1 b 0 a 0 10\nR2 b c 2k\nC2 c 0 10p\nG1 0 d c 0 1m\nR3 d 0 3k\n"
        "C3 d 0 5p\n",
        "d",
    ),
}


def peer(folder, text, commands, vectors):
    """What ngspice's wrdata writes after the commands, as columns."""
    file = folder / "peer.cir"
    data = folder / "peer.data"
    file.write_text(f"{text}.control\nset wr_singlescale\n{commands}\nwrdata {data} {vectors}\nquit\n.endc\n.end\n")
    done = subprocess.run(["ngspice", "-b", str(file)], cwd=folder, capture_output=True, text=True, timeout=120)
    assert data.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    return np.loadtxt(data)


@pytest.mark.brief("controlled", "devices")
@pytest.mark.parametrize("name", TRANSIENT)
def test_waveforms_without_noise(name, tmp_path):
    text, seen = TRANSIENT[name]
    circuit = read(f"title\n{text}.tran 2n 4u\n.options noise=off\n")
    theirs = peer(tmp_path, f"title\n{text}.tran 2n 4u 0 0.5n\n" + PRECISE, "run",
                  " ".join(f"v({node})" for node in seen))  # fmt: skip
    run = stodyn.simulate(
        circuit, "Trapezoidal", t=circuit.span, dt=1e-9, paths=1, seed=1, collect=st.Paths(1, every=8)
    )
    times = run["time"].values
    for k, node in enumerate(seen):
        ours = run["path"].sel(component=node).values[0]
        wanted = np.interp(times, theirs[:, 0], theirs[:, 1 + k])
        assert np.abs(ours - wanted).max() <= 1e-4 * np.ptp(wanted), node


@pytest.mark.parametrize("name", NOISE)
def test_noise_spectra_are_those_of_ngspice(name, tmp_path):
    text, node = NOISE[name]
    asked = f"title\n{text}.noise v({node}) V1 dec 5 100 100meg\n"
    ours = read(asked).noise_spectrum()
    theirs = peer(tmp_path, asked, "run\nsetplot noise1", "onoise_spectrum")
    np.testing.assert_allclose(theirs[:, 0], ours.frequency, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(ours.density), theirs[:, 1], rtol=0.005)  # 1 % of the density


def test_operating_points_are_those_of_ngspice(tmp_path):
    for text, node in (NOISE["diode with flicker"], NOISE["common source"]):
        circuit = read(f"title\n{text}")
        found = dict(zip(circuit.names, circuit.operating_point.x, strict=True))
        theirs = peer(tmp_path, f"title\n{text}" + ".options reltol=1e-8\n", "op", f"v({node})")
        assert found[node] == pytest.approx(np.ravel(theirs)[-1], rel=1e-5)
