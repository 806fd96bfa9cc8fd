"""The gate of a MOS transistor with TOX: Meyer's capacitances for small signals, and charges that are conserved."""

import numpy as np
import pytest

from stodyn.circuits import read
from stodyn.circuits.devices import BOLTZMANN, Numbers
from stodyn.circuits.elements import meyer
from stodyn.numerics import dual
from stodyn.numerics.printing.points import at_points

PHI, VTO = 0.65, 0.7


def numbers(gamma=0.0, sign=1.0):
    given = {"vto": sign * VTO, "gamma": gamma, "phi": PHI, "sign": sign, "unit": 1.0}
    return Numbers({key: np.array([value]) for key, value in given.items()}, 300.0)


def reads(gs, ds, bs=0.0):
    return tuple(np.array([v]) for v in (gs, ds, bs))


def slopes(law, read, p):
    """∂Q/∂v of gate, drain and bulk, the source at rest."""
    return np.array([slope[0] for slope in dual.slopes(lambda v, xp: law.value(v, p, xp), read)[1]])


# v_gs and v_ds, and @m1[cgs], @m1[cgd], @m1[cgb] of ngspice 39 over ε W L/TOX; GAMMA=0.5, v_bs = 0
SPICE = [
    ((-1.0, 0.4), (0.0, 0.0, 1.0)),
    ((0.2, 2.0), (0.0, 0.0, 0.7692308)),
    ((0.4, 0.01), (0.0440705, 0.03125, 0.4615385)),
    ((0.6, 0.0), (0.3461538, 0.3461538, 0.1538462)),
    ((0.6, -0.1), (0.0, 0.6666667, 0.0)),
]


@pytest.mark.parametrize("volts, wanted", SPICE)
def test_small_signals_see_the_capacitances_of_spice(volts, wanted):
    found = meyer.capacitances(reads(*volts), numbers(gamma=0.5))
    np.testing.assert_allclose(np.ravel(found), wanted, atol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("gs, ds", [(-1.0, 0.4), (0.2, 1.5), (0.5, 1.5), (1.5, 3.0)])
def test_charges_have_these_capacitances_in_saturation_and_below_threshold(gs, ds, sign):
    p, read = numbers(sign=sign), reads(sign * gs, sign * ds)
    c_gs, c_gd, c_gb = np.ravel(meyer.capacitances(read, p))
    np.testing.assert_allclose(slopes(meyer.SOURCE, read, p), [c_gs + meyer.LEAST, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(slopes(meyer.DRAIN, read, p), [c_gd + meyer.LEAST, -meyer.LEAST, 0.0], atol=1e-12)
    np.testing.assert_allclose(slopes(meyer.BULK, read, p), [c_gb, 0.0, -c_gb], atol=1e-12)


def test_drain_and_source_are_the_same_end():
    """Exchanged, they exchange their charges; at v_ds = 0 each has half of the channel."""
    p = numbers(gamma=0.5)
    one = meyer.source(reads(1.6, 0.3, -0.2), p, np), meyer.drain(reads(1.6, 0.3, -0.2), p, np)
    other = meyer.drain(reads(1.3, -0.3, -0.5), p, np), meyer.source(reads(1.3, -0.3, -0.5), p, np)
    np.testing.assert_allclose(one, other, rtol=1e-14)
    both = [law(reads(1.5, 0.0), p, np)[0] - meyer.LEAST * 1.5 for law in (meyer.source, meyer.drain)]
    np.testing.assert_allclose(both, (1.5 - VTO + PHI / 4.0) / 2.0, rtol=1e-14)


def test_the_gate_of_a_follower_sees_only_its_source_where_the_threshold_moves():
    """∂Q_g/∂v_b = 0 in saturation: what the channel loses to V_TH bulk takes."""
    p, read = numbers(gamma=0.5), reads(1.5, 3.0, -1.0)
    whole = sum(slopes(law, read, p) for law in (meyer.SOURCE, meyer.DRAIN, meyer.BULK))
    np.testing.assert_allclose(whole, [2.0 / 3.0 + 2 * meyer.LEAST, -meyer.LEAST, 0.0], atol=1e-12)


def test_a_gate_behind_a_resistor_has_thermal_noise_kt_over_its_capacitance():
    """In saturation, the drain held: C_gs + C_gd = (2/3 + 2/1000) C."""
    circuit = read(
        "title\nV1 i 0 1.5\nR1 i g 1k\nVD d 0 3\nM1 d g 0 0 n W=10u L=1u noise=off\n"
        ".model n NMOS(KP=1u VTO=0.7 TOX=20n)\n"
    )
    oxide = 3.9 * 8.854214871e-12 / 20e-9 * 10e-12
    variance = circuit.small_signal.covariance()[circuit.names.index("g"), circuit.names.index("g")]
    assert variance == pytest.approx(BOLTZMANN * 300.15 / ((2.0 / 3.0 + 2 * meyer.LEAST) * oxide), rel=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_without_body_effect_charges_couple_nodes_as_capacitors_do(sign):
    """∂q/∂v of gate, drain, source and bulk: columns add up to 0, and no entry off the diagonal is positive."""
    rng = np.random.default_rng(3)
    volts = np.concatenate([rng.uniform(-3.0, 3.0, (4000, 3)), rng.uniform(-0.5, 1.5, (4000, 3))])
    volts[::7, 1] = 0.0
    p = Numbers({key: np.full(len(volts), value[0]) for key, value in numbers(sign=sign).of.items()}, 300.0)
    assert all(law.couples(p) for law in (meyer.SOURCE, meyer.DRAIN, meyer.BULK))
    assert not meyer.SOURCE.couples(numbers(gamma=0.4))
    C = np.zeros((len(volts), 4, 4))
    for law, end in ((meyer.SOURCE, 2), (meyer.DRAIN, 1), (meyer.BULK, 3)):
        by_gs, by_ds, by_bs = dual.slopes(lambda v, xp, law=law: law.value(v, p, xp), tuple(volts.T))[1]
        slope = np.stack([by_gs, by_ds, -by_gs - by_ds - by_bs, by_bs], axis=1)
        C[:, 0] += slope
        C[:, end] -= slope
    off = C[:, ~np.eye(4, dtype=bool)]
    assert off.max() <= 1e-12 and np.all(C[:, range(3), range(3)] >= meyer.LEAST * 0.999)
    np.testing.assert_allclose(C.sum(axis=1), 0.0, atol=1e-12)


def test_the_orientation_of_a_circuit_of_such_transistors_is_known():
    text = ("stage\nVDD vdd 0 2\nVIN in 0 1\nRG in g 1k\nM1 d g s 0 n W=9u L=1u\nRL vdd d 5k\nRS s 0 1k\nCL d 0 1f\n"
            "{more}.model n NMOS(KP=99u VTO=0.5 TOX=9n {body})\n")  # fmt: skip
    plain = read(text.format(more="", body=""))
    assert plain.facts.has_constant_orientation
    assert not read(text.format(more="", body="GAMMA=0.4")).facts.has_constant_orientation
    assert not read(text.format(more="E1 e 0 d 0 2\nCE e g 1f\n", body="")).facts.has_constant_orientation
    rng = np.random.default_rng(5)
    states = rng.uniform(-3.0, 3.0, (400, plain.n))
    matrices = at_points(lambda x: plain.matrices.orientation(0.0, x, plain.example_params()), states)
    assert len(set(np.linalg.slogdet(matrices)[0])) == 1
