"""Random values of netlists: what is drawn, that one program serves all values, and the variance split."""

import numpy as np
import pytest

import stodyn
from stodyn import statistics as st
from stodyn.analysis.tolerance import split_variance
from stodyn.circuits import NetlistError, read
from stodyn.noise.distribution import Normal, Uniform
from stodyn.warnings import NominalValues

EVERYTHING = """every kind of part
.param r1={gauss(1k,0.05)} w={aunif(10u,1u)}
.func twice(x) {2*x}
V1 in 0 {agauss(2,0.03,3)}
R1 in out {r1}
C1 out 0 {gauss(1n,0.1)}
L1 out m {unif(1u,0.2)}
C3 m 0 1p
R3 m 0 {limit(10k,100)}
D1 out 0 d
Q1 c b 0 q
RB m b 100k
CB b 0 1p
RC vdd c 1k
CC c 0 1p
VDD vdd 0 3
M1 c m 0 0 n W={w} L=1u
G1 0 c out 0 {gauss(1m,0.1)}
E1 e 0 out 0 {gauss(2,0.1)}
RE e f 1k
CE f 0 1p
VS f g 0
RG g 0 1k noise=off
F1 0 h VS {gauss(0.5,0.1)}
RH h 0 1k
CH h 0 1p
H1 k 0 VS {gauss(100,0.1)}
RK k l 1k
CK l 0 1p
I1 0 l {gauss(1u,0.1)}
B1 l 0 I={twice(v(l))*1u*gb*r1/1k}
.param gb={gauss(1,0.2)}
.model d D(IS={gauss(1e-14,0.2)} CJO={gauss(1p,0.1)})
.model q NPN(IS=1e-15 BF={gauss(100,0.2)} CJE={gauss(1p,0.1)} TF=0.1n)
.model n NMOS(KP=100u VTO={agauss(0.7,0.02)} CGSO=0.3n)
.tran 1n 1u
"""


@pytest.fixture(scope="module")
def everything():
    return read(EVERYTHING)


def test_one_program_serves_all_values(everything):
    """The equations with numbers as data are those of the netlist laid out anew, at rest, in its slopes and noise."""
    drawn = everything.sampled_values(3, seed=5)
    assert set(drawn) == set(everything.random) and len(drawn) == 17
    sampled = everything.sampled(3, seed=5)
    for k in range(3):
        values = {name: float(some[k]) for name, some in drawn.items()}
        anew, same = everything.valued(values), everything.at(values)
        wanted = dict(zip(anew.names, anew.operating_point.x, strict=True))
        for name, x, start in zip(same.names, same.operating_point.x, sampled.start.values[k], strict=True):
            if name in anew.nodes or name.startswith("i("):  # charges are counted in other units
                assert x == pytest.approx(wanted[name], rel=1e-9, abs=1e-15), name
                assert start == pytest.approx(wanted[name], rel=1e-8, abs=1e-12), name
        f = [1e3, 1e7]
        np.testing.assert_allclose(same.noise_spectrum("c", f).density, anew.noise_spectrum("c", f).density, rtol=1e-9)
    far = everything.sampled_values(2000, seed=5)
    assert all(np.array_equal(far[name][:3], drawn[name]) for name in drawn)  # a path's values are its own


def test_laws_of_the_random_functions():
    """Mean and deviation of what each function gives, over 4000 draws: six standard errors, 2e-9."""
    text = "title\nV1 in 0 1\nR1 in out {{{}}}\nC1 out 0 1n\n"
    calls = (
        ("gauss(100,0.1,2)", 100.0, 5.0),
        ("agauss(100,10)", 100.0, 10.0),
        ("unif(100,0.3)", 100.0, 30.0 / np.sqrt(3.0)),
        ("aunif(100,6)", 100.0, 6.0 / np.sqrt(3.0)),
        ("limit(100,7)", 100.0, 7.0),
    )
    for call, mean, deviation in calls:
        circuit = read(text.format(call))
        (ξ,) = circuit.sampled_values(4000, seed=1).values()
        pair = [circuit.valued({next(iter(circuit.random)): one}).network.resistances[0] for one in (0.5, 1.0)]
        slope = pair[1] - mean
        values = mean + slope * (np.sign(ξ) if call.startswith("limit") else ξ)
        assert values.mean() == pytest.approx(mean, abs=6 * deviation / np.sqrt(4000))
        assert values.std() == pytest.approx(deviation, rel=0.1)
        assert pair[0] == pytest.approx(mean + slope * (1.0 if call.startswith("limit") else 0.5))


def test_mismatch_and_lot():
    """A value in a subcircuit is drawn for each instance, one of a model or of the top once."""
    text = ("title\n.param lot={gauss(1,0.1)}\n.subckt s a b\n.param r={gauss(1k,0.01)*lot}\nR1 a b {r}\n.ends\n"
            "V1 in 0 1\nX1 in out s\nX2 out 0 s\nC1 out 0 1n\n")  # fmt: skip
    assert set(read(text).random) == {"gauss(lot)", "gauss(x1.r)", "gauss(x2.r)"}


def test_random_from_python_and_corners():
    text = "title\n.param r=1k\nV1 in 0 1\nR1 in out {r}\nR2 out 0 1k\nC1 out 0 1n\n"
    circuit = read(text, random={"r": Normal(1000.0, 50.0), "R2.value": Uniform(900.0, 1100.0)})
    found = {tuple(values.values()): one.operating_point.x[1] for values, one in circuit.corners()}
    assert set(found) == {(850.0, 900.0), (850.0, 1100.0), (1150.0, 900.0), (1150.0, 1100.0)}
    assert all(x == pytest.approx(r2 / (r + r2), rel=1e-12) for (r, r2), x in found.items())
    assert len(list(circuit.corners(of=["r"]))) == 2
    with pytest.raises(NetlistError, match="no value named q"):
        read(text, random={"q": Normal(1.0, 0.1)})
    with pytest.raises(ValueError, match="nothing in this circuit is random"):
        read(text).sampled(10, 1)
    with pytest.raises(ValueError, match=r"'x' is not random; the random values are r, r2\.value"):
        circuit.at({"x": 1.0})


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("R2 out 0 1k\nV2 a 0 SIN(0 {gauss(1,0.1)} 1k)\nRA a 0 1k\n", "v2: a waveform may not be random"),
        ("L1 out 0 {gauss(1u,0.1)}\nL2 b 0 1u\nRB b 0 1\nK1 L1 L2 0.5\n", "l1: is coupled by K"),
        ("R2 out 0 1k\nD1 out 0 d\n.model d D(RS={max(agauss(0,1),0)})\n", "other parts than at its nominal values"),
    ],
)
def test_what_may_not_be_random(lines, said):
    circuit = read("title\nV1 in 0 1\nR1 in out 1k\nC1 out 0 1n\n" + lines)
    with pytest.raises(NetlistError, match=said):
        circuit.sampled(20, 1)


def test_the_variance_of_a_divider_is_split():
    """out = V R2/(R1 + R2) over R1, and kT/C: both known; hot, so that both count."""
    text = "title\nV1 in 0 1\nR1 in out {gauss(1k,0.05)}\nR2 out 0 1k\nC1 out 0 10p\n.temp 1meg\n.tran 1n 100n\n"
    circuit = read(text)
    found = split_variance(circuit, t=circuit.span, dt=circuit.step, paths=2048, seed=2, degree=3, at=[100e-9])
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    out = 1.0 / (2.0 + 0.05 * nodes)
    weights = weights / weights.sum()
    spread = weights @ out**2 - (weights @ out) ** 2
    noise = 1.380649e-23 * 1000273.15 / 10e-12
    one = found.sel(component="out").isel(time=-1)
    for name, wanted in (("variance_parameters", spread), ("variance_noise", noise)):
        error = float(one[f"{name}_stderr"])
        assert float(one[name]) == pytest.approx(wanted, abs=6 * error + 2e-3 * wanted), name
        assert error < 0.1 * wanted
    assert list(found["parameter"].values) == ["gauss(r1.value)"]


def test_a_run_has_the_values_of_its_paths():
    """Without noise every path stays at its own operating point."""
    text = "title\nV1 in 0 1\nR1 in out {gauss(1k,0.05)}\nR2 out 0 1k\nC1 out 0 {gauss(10p,0.1)}\n.tran 1n 10n\n"
    circuit = read(text + ".options noise=off\n")
    run = stodyn.simulate(circuit.sampled(50, 3), "Trapezoidal", t=circuit.span, dt=circuit.step, paths=50, seed=3,
                          collect=st.Paths(50, every=10))  # fmt: skip
    r = 1e3 * (1.0 + 0.05 * circuit.sampled_values(50, 3)["gauss(r1.value)"])
    np.testing.assert_allclose(run["path"].sel(component="out").values[:, -1], 1e3 / (1e3 + r), rtol=1e-9)


def test_a_run_at_nominal_values_says_so():
    circuit = read("title\nV1 in 0 1\nR1 in out {unif(1k, 0.1)}\nC1 out 0 1n\n.tran 10n 100n\n")
    run = dict(t=circuit.span, dt=circuit.step, paths=4, seed=1)
    with pytest.warns(NominalValues, match=r"circuit.sampled\(paths, seed\)"):
        stodyn.simulate(circuit, **run)
    stodyn.simulate(circuit.at({}), **run)
    stodyn.simulate(circuit.sampled(4, 1), **run)


def test_a_value_that_replaces_a_random_one_is_no_longer_random():
    text = "title\nV1 in 0 1\nR1 in out {unif(10k, 0.1)}\nR2 out 0 {gauss(20k, 0.05)}\nC1 out 0 1n\n.tran 1n 10u\n"
    changed = read(text).valued({"r1.value": 2e4})
    assert list(changed.random) == ["gauss(r2.value)"]
    changed.sampled(2, 1)
    assert list(read(text).valued({"temp": 50.0}).random) == ["unif(r1.value)", "gauss(r2.value)"]
