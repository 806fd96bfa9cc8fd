""".if, .elseif, .else, .endif: the lines that belong to the circuit, by parameters of the top and of an instance."""

import pytest

from stodyn.circuits import NetlistError, read

CHOICE = """title
.param sel=1
V1 a 0 1
.if (sel == 1)
R1 a b 1k
.model dd D(is=1p)
.elseif (sel==2)
R1 a b 2k
.model dd D(is=2p)
.else
R1 a b 3k
.if (sel>5)
R9 b 0 1k
.endif
.model dd D(is=3p)
.endif
D1 b 0 dd
X1 a c part k=2
X2 a c part
.subckt part p q k=1
.if (k > 1.5)
R1 p q 1k
.else
R1 p q 5k
.endif
.ends
R2 c 0 1k
"""


def values(circuit):
    parts = {e.name: e.value for e in circuit.network.netlist.elements}
    return {name: value["is"] if isinstance(value, dict) else value for name, value in parts.items() if name != "v1"}


@pytest.mark.parametrize(("choice", "ohms", "saturation"), [(1, 1e3, 1e-12), (2, 2e3, 2e-12), (3, 3e3, 3e-12)])
def test_a_parameter_chooses(choice, ohms, saturation):
    """The first branch that holds is taken, and again where the value is given later."""
    expected = {"r1": ohms, "d1": saturation, "x1.r1": 1e3, "x2.r1": 5e3, "r2": 1e3}
    assert values(read(CHOICE).valued({"sel": choice})) == expected
    assert values(read(CHOICE.replace("sel=1", f"sel={choice}"))) == expected


def test_conditions_lie_within_conditions():
    assert values(read(CHOICE).valued({"sel": 7}))["r9"] == 1e3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (".if (1)\nR2 a 0 1", "line 3: .if is not closed by .endif"),
        (".endif", "line 3: .endif without .if"),
        (".if (q>1)\nR2 a 0 1\n.endif", "line 3: .if: there is no parameter q"),
        (".if (1)\n.param x=2\n.endif", "line 4: .param stands within .if .line 3."),
        (".if (1)\n.else\n.else\n.endif", "line 5: .else after the .else of the .if at line 3"),
        (".subckt s b c\n.if (1)\nR1 b c 1\n.ends\n.endif", "line 4: .if is not closed"),
        (".if\nR2 a 0 1\n.endif", "line 3: the condition is missing"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(lines, message):
    with pytest.raises(NetlistError, match=message):
        read(f"title\nR1 a 0 1\n{lines}\n")
