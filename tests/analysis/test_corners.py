"""Cycles whose equations have corners: c of rings of transistors and switches, against another integration.

The reference integrates x' = f(x) by DOP853 from one change of region to the next, and the adjoint equation backwards:
nothing of the library is in it.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import stodyn as sd
from stodyn.analysis import cyclostationary
from stodyn.analysis.cycle.periodic import periodic
from stodyn.analysis.cycle.periodic_corners import corners_of
from stodyn.analysis.cycle.periodic_mesh import mesh
from stodyn.analysis.cycle.periodic_system import system_of
from stodyn.analysis.cycle.phase_noise import phase_noise, response
from stodyn.circuits import examples, points, read
from stodyn.numerics.regions import region

NUMBERS = np.random.default_rng
BOLTZMANN, KELVIN = 1.380649e-23, 300.15


def reference(inverter, signs, n, unit, start, guess):
    """T and c of u_{k+1}' = unit i(u_k, u_{k+1}): inverter(u_k, u_{k+1}) -> i, its slopes, S; signs -> what has
    another sign beyond a corner."""

    def parts(u):
        u = u.tolist()
        return [inverter(u[k - 1], u[k]) for k in range(n)]  # into node k

    def f(t, u):
        return unit * np.array([part[0] for part in parts(u)])

    def adjoint(t, z, at):
        v, back = z.tolist(), [0.0] * (n + 1)
        for k, (_, by_gate, by_drain, S) in enumerate(parts(at(t))):
            back[k - 1 if k else n - 1] -= unit * by_gate * v[k]
            back[k] -= unit * by_drain * v[k]
            back[n] -= unit**2 * S * v[k] ** 2
        return np.array(back)

    def decisions(u):  # (decisions, ...) of states (n, ...)
        return np.concatenate([signs(u[k - 1], u[k]) for k in range(n)])

    options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-14}
    x = solve_ivp(f, (0.0, 5.0 * guess), start, **options).y[:, -1]
    way, corners = np.sign(f(0.0, x)[0]), np.zeros(0)
    grid = np.linspace(0.0, 1.2 * guess, 2001)
    for _ in range(2):
        cuts, y, pieces = np.concatenate([[0.0], corners, [1.2 * guess]]), x, []
        for a, b in itertools.pairwise(cuts):
            pieces.append(solve_ivp(f, (a, b), y, dense_output=True, max_step=guess / 40.0, **options))
            y = pieces[-1].y[:, -1]

        def at(t, cuts=cuts, pieces=pieces):
            return pieces[min(np.searchsorted(cuts, t, side="right"), len(pieces)) - 1].sol(t)

        which = np.minimum(np.searchsorted(cuts, grid, side="right"), len(pieces)) - 1
        states = np.concatenate([piece.sol(grid[which == k]) for k, piece in enumerate(pieces)], axis=1)
        gone = way * (states[0] - x[0])
        k = max(k for k in range(1, 2000) if gone[k] < 0.0 <= gone[k + 1])
        T = brentq(lambda t, at=at: at(t)[0] - x[0], grid[k], grid[k + 1], xtol=1e-15 * guess)
        is_above = decisions(states) > 0.0
        corners = np.unique([
            brentq(lambda t, at=at, j=j: decisions(at(t))[j], grid[k], grid[k + 1], xtol=1e-15 * guess)
            for j, k in zip(*np.nonzero(is_above[:, 1:] != is_above[:, :-1]), strict=True)
        ])  # fmt: skip
        corners = corners[np.diff(corners, prepend=-1.0) > 1e-9 * guess]
    np.testing.assert_allclose(at(T), x, atol=1e-10)
    cuts, v, speed = np.concatenate([[0.0], corners[corners < T], [T]]), np.ones(n), f(0.0, x)
    for _ in range(6):
        before = v / (v @ speed)
        z = np.append(before, 0.0)
        for a, b in itertools.pairwise(cuts[::-1]):
            z = solve_ivp(adjoint, (a, b), z, args=(at,), max_step=guess / 40.0, **options).y[:, -1]
        v = z[:n]
        if np.abs(v - before).max() < 1e-11 * np.abs(v).max():
            break
    return T, z[n] / T / (v @ speed) ** 2


def square(gs, ds, beta, threshold, slope):
    """The current of the square law, its slopes in v_gs and v_ds, and the g_m that makes its noise."""
    if ds < 0.0:  # drain and source are exchanged
        i, by_gate, by_drain, gm = square(gs - ds, -ds, beta, threshold, slope)
        return -i, -by_gate, by_gate + by_drain, gm
    o = max(gs - threshold, 0.0)
    u, longer = min(ds, o), 1.0 + slope * ds
    by_drain = beta * ((o - ds) * longer if ds < o else 0.0) + beta * (o - 0.5 * u) * u * slope
    return beta * (o - 0.5 * u) * u * longer, beta * u * longer, by_drain, beta * u * longer


def regions(gs, ds, threshold):
    return np.array([gs - threshold, gs - ds - threshold, ds])


def inverter(gate, drain):
    n = square(gate, drain, 200e-6 / 0.18, 0.45, 0.1)
    p = square(1.8 - gate, 1.8 - drain, 160e-6 / 0.18, 0.45, 0.1)
    S = 2.0 * BOLTZMANN * KELVIN * (2.0 / 3.0) * (n[3] + p[3] + 2e-12)
    return p[0] - n[0], -p[1] - n[1], -p[2] - n[2], S


def inverter_regions(gate, drain):
    return np.concatenate([regions(gate, drain, 0.45), regions(1.8 - gate, 1.8 - drain, 0.45)])


def cmos(n, more=""):
    return f"ring of {n}\nVDD vdd 0 1.8\n" + "".join(
        f"MN{k} o{k} o{(k - 1) % n} 0 0 nn W=1u L=0.18u\nMP{k} o{k} o{(k - 1) % n} vdd vdd pp W=2u L=0.18u\n"
        f"C{k} o{k} 0 10f\n" for k in range(n)
    ) + (f".model nn NMOS(KP=200u VTO=0.45 LAMBDA=0.1 {more})\n.model pp PMOS(KP=80u VTO=-0.45 LAMBDA=0.1 {more})\n"
         ".ic v(o0)=1.8 v(o1)=0.3 v(o2)=1.2\n.tran 5p 10n uic\n")  # fmt: skip


def junction_inverter(gate, drain):
    i, by_gate, by_drain, gm = square(gate - 3.2, drain, 2e-3, -2.0, 0.02)
    S = 2.0 * BOLTZMANN * KELVIN * (1.0 / 2000.0 + (2.0 / 3.0) * gm)  # its junctions conduct nothing
    return (5.0 - drain) / 2000.0 - i, -by_gate, -1.0 / 2000.0 - by_drain, S


def junction_regions(gate, drain):
    return regions(gate - 3.2, drain, -2.0)


JUNCTION_RING = "ring of JFETs with batteries\nVDD vdd 0 5\n" + "".join(
    f"R{k} vdd o{k} 2k\nC{k} o{k} 0 1p\nVB{k} o{k} g{k} 3.2\nJ{k} o{(k + 1) % 3} g{k} 0 nj\n" for k in range(3)
) + (".model nj NJF(VTO=-2 BETA=1m LAMBDA=0.02 IS=1e-26)\n.ic v(o0)=5 v(o1)=0.5 v(o2)=3 v(g0)=1.8 v(g1)=-2.7 "
     "v(g2)=-0.2 v(vdd)=5\n.tran 10p 100n uic\n")  # fmt: skip


def switch_inverter(gate, drain):
    z = min(max((gate - 2.5) / 1.5, -1.0), 1.0)
    share, rise = 0.5 + 0.25 * z * (3.0 - z * z), 0.75 * (1.0 - z * z) / 1.5
    G = math.exp(-(math.log(1e6) + share * math.log(1e-4)))
    by_gate = -drain * G * -math.log(1e-4) * rise
    return (5.0 - drain) / 1000.0 - drain * G, by_gate, -1e-3 - G, 2.0 * BOLTZMANN * KELVIN * (1e-3 + G)


def switch_regions(gate, drain):
    return np.array([gate - 1.0, gate - 4.0])


SWITCH_RING = "ring of switches\nVDD vdd 0 5\n" + "".join(
    f"R{k} vdd o{k} 1k\nC{k} o{k} 0 1p\nS{k} o{(k + 1) % 3} 0 o{k} 0 sw\n" for k in range(3)
) + (".model sw SW(VT=2.5 SMOOTH=1.5 RON=100 ROFF=1meg)\n.ic v(o0)=5 v(o1)=0.5 v(o2)=3 v(vdd)=5\n"
     ".tran 10p 100n uic\n")  # fmt: skip


@pytest.mark.brief("transistors-3", "switches")
@pytest.mark.parametrize(
    ("text", "law", "signs", "n", "capacitance", "guess", "corners"),
    [
        pytest.param(cmos(3), inverter, inverter_regions, 3, 10e-15, 0.10283595, 24, id="transistors-3"),
        pytest.param(cmos(5), inverter, inverter_regions, 5, 10e-15, 0.17382627, 40, id="transistors-5"),
        pytest.param(JUNCTION_RING, junction_inverter, junction_regions, 3, 1e-12, 5.174673, 12, id="junctions"),
        pytest.param(SWITCH_RING, switch_inverter, switch_regions, 3, 1e-12, 2.8114747, 12, id="switches"),
    ],
)
def test_c_where_devices_have_corners(text, law, signs, n, capacitance, guess, corners):
    """c to 1e-9 of the reference with 128 steps and those that corners add, and its own error within 5e-7."""
    top = 1.8 if law is inverter else 5.0
    T, c = reference(law, signs, n, 1e-9 / capacitance, top * np.where(np.arange(n) % 2, 0.2, 0.9), guess)
    cycle = periodic(read(text), steps=128)
    assert cycle.mesh.at_corner.sum() == corners and cycle.steps < 128 + corners
    assert cycle.period == pytest.approx(1e-9 * T, rel=1e-10)
    assert response(cycle).c == pytest.approx(c, rel=1e-9)
    found = phase_noise(read(text))
    assert float(found["c"]) == pytest.approx(c, rel=1e-9) and found["c"].attrs["error"] < 5e-7
    assert found.attrs["corners"] == corners
    R = found["autocovariance"].values
    assert R[0] + 2.0 * R[1:].sum() == pytest.approx(float(found["c"] * found["period"]), rel=1e-9)
    near = found["density"].values[20] / found["L"].values[20]  # at 1e-6 of the carrier, where only its line is seen
    X = np.fft.fft(cycle.on(np.arange(128) / 128)[:, cycle.names.index(found.attrs["node"])]) / 128
    assert near == pytest.approx(2.0 * abs(X[1]) ** 2, rel=1e-4)


def biased(x):
    """Straight lines, as a table."""
    return jnp.interp(x, jnp.array([-3.0, -1.0, 0.0, 1.0, 3.0]), jnp.array([-2.0, 1.0, 0.0, -1.0, 2.0]))


@pytest.mark.parametrize(
    "drift",
    [
        lambda t, x: jnp.array([x[1], 2.0 * (1.0 - jnp.abs(x[0])) * x[1] - x[0]]),
        lambda t, x: jnp.array([x[1], -x[0] - 2.0 * biased(x[1])]),
    ],
    ids=["abs", "table"],
)
def test_slopes_that_jump(drift):
    """Of users' SDEs: c of 64 steps is that of 512 to 1e-9, and the multiplier of the phase is 1."""
    problem = sd.SDE(drift, lambda t, x: jnp.array([[0.0], [0.1]]), [1.0, 0.0])
    few, many = (periodic(problem, steps=steps) for steps in (64, 512))
    assert few.mesh.at_corner.any() and few.steps < 80
    assert few.period == pytest.approx(many.period, rel=1e-11)
    assert response(few).c == pytest.approx(response(many).c, rel=1e-9)
    assert np.abs(few.multipliers - 1.0).min() < 1e-9


def test_a_constraint_with_a_corner():
    """0 = z - |x| in place of |x|: the same c."""
    noise = jnp.array([[0.0], [0.1]])
    plain = sd.SDE(lambda t, x: jnp.array([x[1], 2.0 * (1.0 - jnp.abs(x[0])) * x[1] - x[0]]), lambda t, x: noise,
                   [1.0, 0.0])  # fmt: skip
    other = sd.SDAE(
        np.diag([1.0, 1.0, 0.0]),
        lambda t, x: jnp.array([x[1], 2.0 * (1.0 - x[2]) * x[1] - x[0], x[2] - jnp.abs(x[0])]),
        lambda t, x: jnp.concatenate([noise, jnp.zeros((1, 1))]), [1.0, 0.0, 1.0])  # fmt: skip
    c = [response(periodic(problem, steps=64)).c for problem in (plain, other)]
    assert c[1] == pytest.approx(c[0], rel=1e-10)


def test_cycles_with_behavioural_sources_converge_with_few_steps():
    """Newton does not converge with equal steps: slopes jump within them."""
    text = "ring\nVDD vdd 0 5\n" + "".join(
        f"R{k} vdd o{k} 1k\nC{k} o{k} 0 1p\nB{k} o{j} 0 I={{4m*max(0,min(V(o{k})-1,2))*min(abs(V(o{j}))/0.5,1)}}\n"
        for k, j in ((0, 1), (1, 2), (2, 0))
    )
    circuit = read(text + ".ic v(o0)=5 v(o1)=0.5 v(o2)=3 v(vdd)=5\n.tran 10p 100n uic\n")
    few, many = (response(periodic(circuit, steps=steps)).c for steps in (64, 128))
    assert few == pytest.approx(many, rel=1e-9)


def test_smooth_laws_keep_equal_steps():
    """Laws that are written with max and abs but have no corner there."""
    cycle = periodic(read(examples()["ring_oscillator"]), steps=64)
    assert not cycle.mesh.at_corner.any() and np.ptp(cycle.h) < 1e-12 * cycle.period
    cycle = periodic(sd.SDE(
        lambda t, x: jnp.array([x[1], (1.0 - jnp.maximum(x[0], 0.0) ** 2 - jnp.minimum(x[0], 0.0) ** 2) * x[1] - x[0]]),
        lambda t, x: jnp.array([[0.0], [1.0]]), [2.0, 0.0]), steps=128)  # fmt: skip
    assert not cycle.mesh.at_corner.any()
    assert response(cycle).c == pytest.approx(0.163071746801840454, rel=1e-9)


def test_another_library_of_linear_algebra_finds_no_corners(monkeypatch):
    """Its inverses are those of matrices a few units in the last place away: an extrapolation by the inverse of
    Vandermonde's matrix sees jumps of 1e-13 in a constant."""
    cycle, inverse, rng = periodic(read(examples()["ring_oscillator"]), steps=64), np.linalg.inv, NUMBERS(1)
    monkeypatch.setattr(np.linalg, "inv", lambda a: inverse(a * (1.0 + 2.0**-52 * rng.integers(-4, 5, np.shape(a)))))
    for _ in range(5):
        assert not len(corners_of(cycle))


def test_corners_of_terms_far_above_the_state():
    """1e4 (cos(x/1000) - 1) is -x²/200 with the rounding of 1e4: they make no corners, and |x| does."""

    def found(force):
        def f(t, x):
            return jnp.array([x[1], (1.0 - x[0] ** 2) * x[1] - x[0] + force(x[0])])

        return periodic(sd.SDE(f, lambda t, x: jnp.array([[0.0], [1.0]]), [2.0, 0.0]), steps=64).mesh.at_corner.sum()

    def cancelling(x):
        return 1e4 * (jnp.cos(1e-3 * jnp.maximum(x, 0.0)) + jnp.cos(1e-3 * jnp.minimum(x, 0.0)) - 2.0)

    assert found(cancelling) == 0
    assert found(lambda x: cancelling(x) + 1e-3 * jnp.abs(x)) == 2


def test_equations_that_jump_are_refused():
    relay = sd.SDE(lambda t, x: jnp.array([x[1], -x[0] - 0.2 * x[1] + jnp.where(x[1] > 0.1, 0.5, -0.5)]),
                   lambda t, x: jnp.array([[0.0], [0.01]]), [2.0, 0.0])  # fmt: skip
    with pytest.raises(ValueError, match="its equations jump"):
        phase_noise(relay, steps=64)


def test_driven_by_a_square_wave():
    """u' = -u + s(t) + ξ with s a pulse of straight edges: its mean and variance at every phase are known."""
    circuit = read("low-pass\nV1 in 0 PULSE(0 1 0.3u 0.1u 0.2u 0.4u 1.5u)\nR1 in out 1k\nC1 out 0 1n\n.tran 10n 3u\n")
    cycle = periodic(circuit, steps=32)
    assert cycle.mesh.at_corner.sum() == 4 and cycle.steps < 40
    phases = np.mod(cycle.t[0] + cycle.period * cycle.mesh.corners, 1.5e-6)
    np.testing.assert_allclose(np.sort(phases), [0.3e-6, 0.4e-6, 0.8e-6, 1.0e-6], atol=1e-16)
    k = cycle.names.index("out")

    def particular(t, slope, value):  # of a straight line, in µs
        return value + slope * (t - 1.0)

    pieces = [(0.1, 10.0, 0.0), (0.4, 0.0, 1.0), (0.2, -5.0, 1.0), (0.8, 0.0, 0.0)]
    gain, value = 1.0, 0.0
    for length, slope, begin in pieces:
        value = (value - particular(0.0, slope, begin)) * np.exp(-length) + particular(length, slope, begin)
        gain *= np.exp(-length)
    at_rise = value / (1.0 - gain)
    assert cycle.at(np.array([1.8e-6]))[0, k] == pytest.approx(at_rise, rel=1e-10)
    deviation = cyclostationary.covariance(cycle)["deviation"].sel(component="out").values
    np.testing.assert_allclose(deviation**2, BOLTZMANN * KELVIN / 1e-9, rtol=1e-10)


def test_meshes_meet_their_corners_and_integrate_kinks():
    even = mesh(8)
    np.testing.assert_allclose(even.shares, np.arange(9) / 8)
    np.testing.assert_allclose(even.weights(), 1.0 / 8.0)
    uneven = mesh(40, np.array([0.31, 1.62, -0.05, 0.31 + 1e-12, 1.0 - 1e-12]))
    np.testing.assert_allclose(uneven.corners, [0.31, 0.62, 0.95, 1.0])
    assert uneven.lengths.max() <= 1.0 / 40.0 + 1e-15
    moved = uneven.shifted(0.31)
    np.testing.assert_allclose(moved.corners, [0.31, 0.64, 0.69, 1.0])

    def kinked(s):
        return np.exp(np.sin(2.0 * np.pi * s)) + np.abs(np.sin(np.pi * (s - 0.31)) * np.sin(np.pi * (s - 0.62)))

    exact = np.mean([np.polynomial.legendre.leggauss(40)[1] / 2.0 @ kinked(a + (b - a) * (0.5 + 0.5 * NODES)) * (b - a)
                     for a, b in itertools.pairwise([0.0, 0.31, 0.62, 1.0])]) * 3.0  # fmt: skip
    assert uneven.weights() @ kinked(uneven.shares[:-1]) == pytest.approx(exact, rel=2e-7)


NODES = np.polynomial.legendre.leggauss(40)[0]


def test_regions_of_traces():
    """Every operation that decides something, through branches, searches and whole arrays."""

    def function(x):
        inside = jax.lax.cond(x[0] > 2.0, lambda: jnp.abs(x[1]), lambda: x[1])
        return (inside + jnp.floor(x[2]) + jnp.clip(x[3], 0.0, 1.0) + jnp.max(x[4:6]) + x[6] % 1.0 + jnp.round(x[7])
                + jnp.interp(x[8], jnp.arange(4.0), jnp.arange(4.0) ** 2) + jnp.where(x[9] > 0.0, x[9] ** 2, 0.0)
                + jax.nn.relu(x[10]) + x[11].astype(int))  # fmt: skip

    decided = jax.jit(region(function))
    base = np.array([3.0, 0.5, 0.5, 0.5, 1.0, 2.0, 0.5, 0.3, 1.5, 1.0, 1.0, 0.5])
    other = {0: 1.0, 1: -0.5, 2: 1.5, 3: 1.5, 4: 3.0, 6: 1.5, 7: 0.7, 8: 2.5, 9: -1.0, 10: -1.0, 11: 1.5}
    with jax.enable_x64(True):
        there = np.asarray(decided(base))
        for k, value in other.items():
            assert np.any(np.asarray(decided(np.where(np.arange(12) == k, value, base))) != there), k
        np.testing.assert_array_equal(decided(base + 1e-3), there)


def test_decisions_of_netlists_are_those_of_their_traces():
    rng = np.random.default_rng(4)
    for text in (cmos(3, "TOX=4n GAMMA=0.4"), JUNCTION_RING, SWITCH_RING):
        system = system_of(read(text))
        x, t = rng.uniform(-1.0, 5.0, (200, system.n)), np.zeros(200)
        ours, traced = points.decisions(system.network, t, x), system._region(t, x)
        labels = [np.unique(table, axis=0, return_inverse=True)[1].ravel() for table in (ours, traced)]
        assert len(np.unique(np.stack(labels), axis=1).T) == labels[0].max() + 1 == labels[1].max() + 1
