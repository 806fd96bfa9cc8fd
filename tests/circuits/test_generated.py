"""Netlists spoilt by rule: one line of every type, words of it left out, doubled or replaced by those of a table.

Whatever comes of it, `read` either takes the netlist or refuses it in the designer's terms with its line: no other
exception, and no netlist that it takes without numbers in its equations.
"""

import collections
import warnings

import numpy as np

from stodyn.circuits import NetlistError, read

BASE = (
    "title\nV1 in 0 1\nR1 in out 1k\nC1 out 0 1n\nL8 out m 1u\nL9 m 0 1u\nR9 m 0 1k\nC9 m 0 1p\n.model dm D(IS=1p)\n"
    ".model nm NMOS(KP=1m)\n.model qm NPN(BF=99)\n.model jm NJF(BETA=1m)\n.model sm SW(VT=1)\n.model wm CSW(IT=1m)\n"
    ".subckt amp a b gain=1\nR1 a b {gain}\n.ends\n"
)
LINE = BASE.count("\n") + 1
LINES = [
    "R2 out 0 {2*k} tc1=1m", "C2 out 0 2p ic=1", "L2 out 0 1u ic=0", "K1 L8 L9 0.5", "V2 x 0 DC 1 AC 1 SIN(0 1 1meg)",
    "I1 out 0 PULSE(0 1 0 1n 1n 5n 20n)", "I2 out 0 PWL(0 0 1n 1 2n 0)", "I3 out 0 EXP(0 1 1n 1n 2n 1n)",
    "D1 out 0 dm 2", "M1 out in 0 0 nm W=1u L=1u AD=1p", "Q1 out in 0 qm 2", "J1 out in 0 jm", "S1 out 0 in 0 sm",
    "W1 out 0 V1 wm", "E1 e 0 in 0 2", "F1 out 0 V1 2", "G1 out 0 in 0 1m", "H1 h 0 V1 50", "E2 e 0 POLY(1) in 0 1 2",
    "B1 out 0 I={V(in)*1m}", "X1 out 0 amp gain=5", ".tran 1n 1u uic", ".ac dec 5 1 1meg",
    ".noise v(out) V1 dec 5 1 1k",
    ".param p={k*2} q=3", ".func f(x) {x+1}", ".model m2 D(IS=1p N=1)", ".ic v(out)=1", ".nodeset v(out)=1", ".temp 50",
    ".step param k 1 3 1", ".measure tran a when v(out)=1 rise=1", ".options temp=30 noise=off", ".global out",
    ".subckt s a b", ".include a.cir", ".lib a.lib tt",
]  # fmt: skip
REPLACED = ["", "(", "}", "{1/0}", "{nothing}", "-1", "1e999", "=", "x=", "'", "v(", "\N{GREEK SMALL LETTER OMEGA}"]


def spoilt(line):
    """The line with a word given twice, or replaced by a third of the table in turn, and cut off at each word."""
    words = line.split(" ")
    for i in range(1, len(words)):
        yield " ".join(words[:i])
        yield " ".join([*words[: i + 1], *words[i:]])
        for other in REPLACED[(i + len(line)) % 3 :: 3]:
            yield " ".join([*words[:i], *([other] if other else []), *words[i + 1 :]])


def test_every_line_type_spoilt():
    refused = collections.Counter()
    for line in LINES:
        for text in dict.fromkeys(spoilt(line)):
            netlist = f"{BASE}{text}\n.param k=2\n"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    circuit = read(netlist)
            except NetlistError as error:
                refused[line] += 1
                said = str(error)
                assert error.at is None or said.startswith(f"line {error.at.line}: "), (text, said)
                assert error.at is None or error.at.line <= LINE + 1, (text, said)
                assert 10 < len(said) < 600, (text, said)
            else:
                assert np.isfinite(circuit.operating_point.x).all(), text
    assert sum(refused.values()) >= 500 and min(refused[line] for line in LINES) >= 1, refused
