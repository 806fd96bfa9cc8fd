"""Relaxation oscillators: steps that are short where they switch, beside runs and adjoints of other methods."""

import itertools
import types

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.cycle import periodic_start
from stodyn.analysis.cycle.periodic import periodic
from stodyn.analysis.cycle.periodic_mesh import mesh, pace_of
from stodyn.analysis.cycle.phase_noise import _felt, phase_noise, response

pytestmark = pytest.mark.usefixtures("quick_compiling")


def van_der_pol(mu):
    def drift(t, x):
        return jnp.array([x[1], mu * (1 - x[0] ** 2) * x[1] - x[0]])

    return sd.SDE(drift, lambda t, x: jnp.array([[0.0], [0.01]]), [2.0, 0.0])


@pytest.fixture(scope="module")
def fifty():
    return periodic(van_der_pol(50.0))


def test_van_der_pol_switches_fast(fifty):
    """Period and c of scipy's DOP853 with rtol 1e-13, c from the adjoint backwards along its run."""
    assert fifty.mesh.pace is not None and fifty.stable
    assert fifty.period == pytest.approx(82.50833389323, rel=3e-12)
    assert response(fifty).c == pytest.approx(3.88875549498e-5, rel=2e-8)


@pytest.mark.long(instead="test_van_der_pol_switches_fast")
def test_van_der_pol_switches_within_a_millionth_of_its_period():
    """The period of scipy's Radau with rtol 1e-11."""
    found = phase_noise(van_der_pol(1000.0))
    assert float(found["period"]) == pytest.approx(1614.401125807, rel=3e-12)
    assert found["c"].attrs["error"] < 5e-7


def test_jitter_of_a_relaxation_oscillator_adds_up_to_c(fifty):
    """Counted where x rises slowly, with a slope of 1/3000 of its steepest."""
    found = phase_noise(fifty, "x0", level=-1.5)
    accumulated = found["accumulated"].values
    assert np.diff(accumulated)[-1] == pytest.approx(float(found["c"]) * fifty.period, rel=1e-7)


def test_cycles_move_to_other_meshes(fifty):
    """x'' = μ(1 - x²)x' - x, times x, in the mean: that of x² is that of x'²."""
    same = (fifty.refined, fifty.halved, fifty.averaging, fifty.shifted(10.0), fifty.with_node_at(33.0))
    for other in same:
        assert other.mesh.pace is not None
        assert other.period == pytest.approx(fifty.period, rel=1e-8)
        position, rate = other.weights @ other.x[:-1] ** 2
        assert rate == pytest.approx(position, rel=1e-6 if other.steps > 400 else 3e-5 if other.steps > 200 else 3e-4)
    nested = np.abs(np.subtract.outer(fifty.mesh.shares, fifty.refined.mesh.shares)).min(axis=1)
    assert nested.max() < 1e-15


def test_lines_of_uneven_steps(fifty):
    orders = np.array([0, 1, 3, 40])
    even = np.fft.fft(fifty.on(np.arange(2**17) / 2**17), axis=0)[orders] / 2**17
    np.testing.assert_allclose(fifty.harmonics(orders), even, atol=1e-6 * np.abs(even).max())


def test_paces_follow_steps_and_grow_slowly():
    ends = np.concatenate([np.linspace(0.0, 0.4, 5), 0.4 + np.geomspace(1e-9, 0.6, 30)])
    pace = pace_of(ends)
    nodes = mesh(256, pace=pace)
    ratios = nodes.lengths[1:] / nodes.lengths[:-1]
    assert nodes.lengths.min() < 3e-9 and max(ratios.max(), 1.0 / ratios.min()) < 2.5
    assert len(nodes.lengths) == 256 and nodes.shares[-1] == 1.0
    moved = nodes.shifted(0.4)
    assert moved.lengths.min() == pytest.approx(nodes.lengths.min(), rel=0.2)
    np.testing.assert_allclose(moved.shifted(0.6).pace.before(ends), pace.before(ends), atol=1e-6)
    middles = nodes.shares[:-1] + 0.5 * nodes.lengths
    assert np.abs(np.log(nodes.mean_step(middles) / nodes.lengths)).max() < np.log(2.0)


def test_uneven_meshes_meet_their_corners_and_integrate_kinks():
    """Means are of order three."""
    pace = pace_of(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 40)]))
    points, weights = np.polynomial.legendre.leggauss(40)

    def kinked(s):
        return np.exp(np.sin(2.0 * np.pi * s)) + np.abs(np.sin(np.pi * (s - 0.31)) * np.sin(np.pi * (s - 0.62)))

    pieces = itertools.pairwise([0.0, 0.31, 0.62, 1.0])
    exact = sum(0.5 * (b - a) * weights @ kinked(a + (b - a) * (0.5 + 0.5 * points)) for a, b in pieces)
    meshes = [mesh(steps, np.array([0.31, 0.62]), pace=pace) for steps in (128, 512)]
    np.testing.assert_allclose([nodes.corners for nodes in meshes], [[0.31, 0.62]] * 2)
    coarse, fine = (abs(nodes.weights() @ kinked(nodes.shares[:-1]) / exact - 1.0) for nodes in meshes)
    assert coarse < 1e-4 and fine < coarse / 4.0**2.5


def test_a_covariance_on_a_steep_edge_is_one():
    """Q is that of the phase along x', of which the projection leaves a millionth: rounding made it none."""
    speed, across = np.array([1e9, 3e8, -7e8, 2e8]), np.diag([0.0, 1e-9, 2e-9, 0.0])
    Q = 1e-17 * np.outer(speed, speed) + across
    section = np.array([1.0, 0.0, 0.0, 0.0])
    projected = np.eye(4) - np.outer(speed, section) / speed[0]
    felt = _felt(projected, Q)
    np.testing.assert_allclose(felt, across, atol=1e-3)
    assert np.linalg.eigvalsh(felt)[0] >= -1e-13 * felt.max() and np.abs(felt - felt.T).max() <= 1e-12 * felt.max()


ASTABLE = """astable multivibrator
VCC vcc 0 5
RC1 vcc c1 1k
RC2 vcc c2 1k
RB1 vcc b1 47k
RB2 vcc b2 47k
CA c1 b2 10n
CB c2 b1 10n
Q1 c1 b1 0 n
Q2 c2 b2 0 n
.model n NPN(IS=1e-15 BF=100 CJE=4p CJC=3p TF=0.3n)
"""


@pytest.mark.long(instead="test_van_der_pol_switches_fast")
def test_an_astable_multivibrator():
    """ngspice 39, trapezoidal with steps of 2 ns and gmin=1e-18: 684.34801 µs."""
    found = phase_noise(sd.circuits.read(ASTABLE), "c1")
    assert float(found["period"]) == pytest.approx(684.34801e-6, rel=1e-6)
    assert found["c"].attrs["error"] < 1e-5
    shares = found["c_by_source"].groupby("source").sum()
    assert float(shares.sel(source="q1")) == pytest.approx(float(shares.sel(source="q2")), rel=1e-4)


TIMER = """a timer with comparators of 2 mV and a latch
VCC vcc 0 5
RA vcc dis 10k
RB dis c 10k
C1 c 0 10n
B1 qd 0 V=5/(1+exp(-(V(q)-2.5)*4-40*(1/(1+exp((V(c)-1.6667)/2m))-1/(1+exp((3.3333-V(c))/2m)))))
R1 qd q 1k
CQ q 0 100p
B2 dis 0 I=V(dis)*(1e-9+0.1/(1+exp((V(q)-2.5)*4)))
CD dis 0 10p
.ic v(c)=2 v(q)=5 v(dis)=5
"""


@pytest.mark.long(instead="test_peaks_and_unequal_periods_are_known")
def test_a_timer_of_sharp_thresholds():
    """At the errors of the first windows its periods differ by a third. ngspice 39, reltol=1e-6: 219.01 µs."""
    assert periodic(sd.circuits.read(TIMER)).period == pytest.approx(219.01e-6, rel=1e-4)


def test_peaks_and_unequal_periods_are_known():
    """Between the times of a window most peaks of a current are missed, and the turns of others count."""
    times = np.linspace(0.0, 24.0, 801)
    peaks = np.zeros(801)
    peaks[[100, 400]] = 1.0
    states = np.stack([np.sin(2.0 * np.pi * times), peaks], axis=1)
    system = types.SimpleNamespace(n=2, wandering=np.zeros(0, int))
    assert len(periodic_start._rises(system, times, states)[0]) == 23
    assert periodic_start._is_irregular(np.array([0.0, 1.0, 2.02]))
    assert not periodic_start._is_irregular(np.array([0.0, 1.0, 2.005]))
