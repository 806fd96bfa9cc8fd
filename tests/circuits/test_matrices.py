"""Small netlists against matrices assembled by hand: M x' = J x + b, and the columns of the noise."""

import numpy as np
import pytest

from stodyn.circuits import points, read
from stodyn.circuits.devices import BOLTZMANN

KT2 = 2.0 * BOLTZMANN * 300.15
DIODE, V_T = 1e-12 * np.exp(0.5 / (BOLTZMANN * 300.15 / 1.602176634e-19)), BOLTZMANN * 300.15 / 1.602176634e-19

# netlist, names, M (diagonal, or a matrix), J, b (at t = 0), columns of g / √(2kT) at x = 0; volts, siemens, farads
CASES = {
    "RC": (
        "V1 in 0 3\nR1 in out 2\nC1 out 0 5",
        ("in", "out", "i(v1)"),
        (0, 5, 0),
        [[-0.5, 0.5, -1], [0.5, -0.5, 0], [1, 0, 0]],
        (0, 0, -3),
        [[0, 0.5**0.5, 0]],  # Norton: the source takes up the noise at its own node
    ),
    "current source and two resistors merged": (
        "I1 0 a 2\nR1 a 0 2\nR2 0 a 4\nC1 a 0 3",
        ("a",),
        (3,),
        [[-0.75]],
        (2,),
        [[0.75**0.5]],
    ),
    "RLC in series": (
        "V1 in 0 1\nR1 in m 2\nL1 m out 7\nC1 out 0 3",
        ("in", "m", "out", "i(v1)", "i(l1)"),
        (0, 0, 3, 0, 7),
        [[-0.5, 0.5, 0, -1, 0], [0.5, -0.5, 0, 0, -1], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 1, -1, 0, 0]],
        (0, 0, 0, -1, 0),
        [[0, 0, 0, 0, 2**0.5]],  # Thévenin: a voltage √(2kTR) in the inductor's equation
    ),
    "L and R in parallel": (
        "I1 0 a 1\nL1 a 0 2\nR1 a 0 4\nC1 a 0 3",
        ("a", "i(l1)"),
        (3, 2),
        [[-0.25, -1], [1, 0]],
        (1, 0),
        [[0.5, 0]],
    ),
    "floating voltage source": (
        "R1 a 0 1 noise=off\nV1 a b 2\nR2 b 0 4 noise=off\nC1 a 0 3",
        ("a", "b", "i(v1)"),
        (3, 0, 0),
        [[-1, 0, -1], [0, -0.25, 1], [1, -1, 0]],
        (0, 0, -2),
        [],
    ),
    "divider without a capacitor in its middle": (
        "V1 in 0 1\nR1 in m 1\nR2 m out 3\nC1 out 0 2",
        ("in", "m", "out", "i(v1)"),
        (0, 0, 2, 0),
        [[-1, 1, 0, -1], [1, -4 / 3, 1 / 3, 0], [0, 1 / 3, -1 / 3, 0], [1, 0, 0, 0]],
        (0, 0, 0, -1),
        [[0, 0, 0.25**0.5, 0]],  # both in one channel: 2kT over the sum of the resistances
    ),
    "E": (
        "I1 0 a 1\nR1 a 0 1 noise=off\nC1 a 0 1\nE1 b 0 a 0 5\nR2 b 0 2 noise=off",
        ("a", "b", "i(e1)"),
        (1, 0, 0),
        [[-1, 0, 0], [0, -0.5, -1], [-5, 1, 0]],
        (1, 0, 0),
        [],
    ),
    "G": (
        "C1 a 0 1\nR1 a 0 1\nG1 b 0 a 0 0.5\nR2 b 0 2 noise=off\nC2 b 0 4",
        ("a", "b"),
        (1, 4),
        [[-1, 0], [-0.5, -0.5]],
        (0, 0),
        [[1, 0]],
    ),
    "F copies the noise that its source takes up": (
        "V1 in 0 1\nR1 in a 1\nVM a 0 0\nF1 0 out VM 3\nR2 out 0 2 noise=off\nC1 out 0 1",
        ("in", "a", "out", "i(v1)", "i(vm)"),
        (0, 0, 1, 0, 0),
        [[-1, 1, 0, -1, 0], [1, -1, 0, 0, -1], [0, 0, -0.5, 0, 3], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]],
        (0, 0, 0, -1, 0),
        [[0, 0, 3, 0, 0]],
    ),
    "H": (
        "V1 in 0 1\nR1 in 0 1 noise=off\nH1 b 0 V1 4\nR2 b c 2 noise=off\nC1 c 0 1",
        ("in", "b", "c", "i(v1)", "i(h1)"),
        (0, 0, 1, 0, 0),
        [[-1, 0, 0, -1, 0], [0, -0.5, 0.5, 0, -1], [0, 0.5, -0.5, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, -4, 0]],
        (0, 0, 0, -1, 0),
        [],
    ),
    "coupling capacitor": (
        "V1 in 0 1\nC1 in out 2\nR1 out 0 4",
        ("in", "out", "i(v1)"),
        [[2, -2, 0], [-2, 2, 0], [0, 0, 0]],
        [[0, 0, -1], [0, -0.25, 0], [1, 0, 0]],
        (0, 0, -1),
        [[-0.5, 0.5, 0]],  # through the capacitor and the source
    ),
    "capacitor across a voltage source": (
        "V1 in 0 1\nC1 in 0 2\nR1 in out 4\nC2 out 0 3",
        ("in", "out", "q(v1)"),
        [[2, 0, 1], [0, 3, 0], [0, 0, 0]],
        [[-0.25, 0.25, 0], [0.25, -0.25, 0], [1, 0, 0]],
        (0, 0, -1),
        [[-0.5, 0.5, 0]],  # the charge of the source takes the noise
    ),
    "subcircuits and parameters": (
        ".param r=2\n.subckt half a b c={1/r}\nR1 a m {r/2}\nR2 m b {r/2}\nC1 b 0 {c}\n.ends\n"
        "V1 in 0 1\nX1 in out half c=3\nX2 out end half",
        ("in", "out", "x1.m", "end", "x2.m", "i(v1)"),
        (0, 3, 0, 0.5, 0, 0),
        None,
        (0, 0, 0, 0, 0, -1),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_element_stamps_the_matrices_written_by_hand(name):
    text, names, M, J, b, g = CASES[name]
    circuit = read(f"title\n{text}\n")
    network = circuit.network
    order = [circuit.names.index(n) for n in names]
    assert sorted(order) == list(range(circuit.n))
    mass = np.diag(M) if np.ndim(M) == 1 else np.array(M)
    np.testing.assert_allclose(circuit.mass[np.ix_(order, order)], mass, rtol=1e-15)
    np.testing.assert_array_equal(network.rates(np.zeros(circuit.n), network.sources.values(0.0, np), np)[order], b)
    if J is not None:
        np.testing.assert_allclose(network.slopes(np.zeros(circuit.n)).toarray()[np.ix_(order, order)], J, rtol=1e-14)
        found = circuit.noise_matrix(np.zeros(circuit.n))[order] / np.sqrt(KT2)
        np.testing.assert_allclose(
            found @ found.T, np.array(g).T @ np.array(g) if g else 0.0 * found @ found.T, atol=1e-14
        )
        assert circuit.m == max(len(g), 1)
    _, N, K, _ = circuit.facts.split  # index 1, and no noise in the constraints
    jacobian = N @ network.slopes(np.zeros(circuit.n)).toarray() @ K
    assert np.linalg.matrix_rank(jacobian) == len(N)
    assert np.abs(N @ circuit.noise_matrix(np.zeros(circuit.n))).max(initial=0.0) < 1e-20


def test_elements_of_subcircuits_are_named_by_their_path():
    circuit = read(f"title\n{CASES['subcircuits and parameters'][0]}\n")
    assert [e.name for e in circuit.network.netlist.elements][1:4] == ["x1.r1", "x1.r2", "x1.c1"]
    slopes = circuit.network.slopes(np.zeros(circuit.n)).toarray()
    i = {name: k for k, name in enumerate(circuit.names)}
    assert slopes[i["x1.m"], i["x1.m"]] == -2.0 and slopes[i["out"], i["x2.m"]] == 1.0


def slopes_by_differences(circuit, x, h=1e-6):
    network, sources = circuit.network, circuit.network.sources.values(0.0, np)
    columns = [(network.rates(x + h * e, sources, np) - network.rates(x - h * e, sources, np)) / (2 * h)
               for e in np.eye(len(x))]  # fmt: skip
    return np.array(columns).T


def test_a_diode_has_its_current_conductance_and_shot_noise():
    circuit = read("title\nI1 0 a 1m\nD1 a 0 d 2\nC1 a 0 1n\n.model d D(IS=0.5p CJO=1p M=0)\n")
    x = np.array([0.5])
    assert circuit.mass[0, 0] == pytest.approx(1e-9 + 2e-12, rel=1e-14)  # the area multiplies IS and CJO
    rate = circuit.network.rates(x, np.array([1e-3]), np)
    assert rate[0] == pytest.approx(1e-3 - (DIODE - 1e-12), rel=1e-13)
    assert circuit.network.slopes(x).toarray()[0, 0] == pytest.approx(-DIODE / V_T, rel=1e-12)
    assert circuit.noise_matrix(x)[0, 0] ** 2 == pytest.approx(1.602176634e-19 * (DIODE + 1e-12), rel=1e-12)


def test_transistors_in_all_regions():
    """Currents by the square law written out, slopes by differences, for N and P and for drain and source exchanged."""
    text = "title\nM1 d g s 0 n W=4u L=2u\nM2 d g s 0 p\nM3 d g s 0 c\nR1 d 0 1k\nR2 g 0 1k\nR3 s 0 1k\nC1 d 0 1p\n"
    text += "C2 g 0 1p\nC3 s 0 1p\n.model n NMOS(KP=1m VTO=0.7 LAMBDA=0.05)\n"
    text += ".model p PMOS(KP=2m VTO=-0.6 LAMBDA=0.1 NLEV=3)\n"
    circuit = read(text + ".model c PMOS(KP=1m VTO=-1 ALPHA=2 LAMBDA=0.02)\n")
    names = circuit.names

    def square(gs, ds, beta, vto, lam):
        if ds < 0:
            return -square(gs - ds, -ds, beta, vto, lam)
        o = max(gs - vto, 0.0)
        return beta * ((o - ds / 2) * ds if ds < o else o * o / 2) * (1 + lam * ds)

    for d, g, s in ((2, 1.5, 0), (0.3, 2, 0.1), (0, 2, 1), (1, 0.2, 0), (-2, -2, 0.1), (-0.2, -3, 0), (1, -1, -1.5)):
        at = {"d": d, "g": g, "s": s}
        x = np.array([float(at[n]) for n in names])
        y = np.append(x, 0.0)
        n_and_p, curtice = circuit.network.groups
        n, p = n_and_p.current(y).i
        assert n == pytest.approx(square(g - s, d - s, 2e-3, 0.7, 0.05), rel=1e-12, abs=1e-18)
        assert p == pytest.approx(-square(s - g, s - d, 2e-3, 0.6, 0.1), rel=1e-12, abs=1e-18)
        o = 0.02 * np.log1p(np.exp((s - g - 1.0) / 0.02))
        wanted = -0.5e-3 * o**2 * np.tanh(2 * (s - d)) * (1 + 0.02 * abs(s - d))
        assert curtice.current(y).i[0] == pytest.approx(wanted, rel=1e-12, abs=1e-25)
        np.testing.assert_allclose(circuit.network.slopes(x).toarray(), slopes_by_differences(circuit, x), atol=1e-8)
    assert names == ("d", "g", "s")
    on = n_and_p.noise(np.array([0.0, -3.0, 0.0, 0.0]), np)
    assert on[1] == pytest.approx(KT2 * (2e-3 * 2.4 + 2e-12 / 3), rel=1e-9)  # NLEV=3, on: 2kT g_ds


def test_many_states_at_once():
    """points.rates, slopes and intensities are those of the network, state by state."""
    text = (
        "title\nV1 in 0 SIN(1 1 1k)\nR1 in b 1k\nC1 b 0 1n\nQ1 c b 0 q\nR2 c 0 1k\nC2 c 0 1p\nD1 c in d\nM1 c b 0 0 n\n"
    )
    text += ".model q NPN(CJE=1p TF=1n VAF=10)\n.model d D(CJO=1p)\n.model n NMOS(GAMMA=0.4)\n"
    network = read(text).network
    x = np.random.default_rng(2).normal(0.0, 0.4, (5, network.n))
    t = np.linspace(0.0, 1e-3, 5)
    values = [network.sources.values(time, np) for time in t]
    f = [network.rates(state, at, np) for state, at in zip(x, values, strict=True)]
    S = [network.intensity(state, at, np) for state, at in zip(x, values, strict=True)]
    np.testing.assert_allclose(points.rates(network, t, x), f, rtol=1e-12, atol=1e-20)
    np.testing.assert_allclose(
        points.slopes(network, x), [network.slopes(s).toarray() for s in x], rtol=1e-12, atol=1e-20
    )
    np.testing.assert_allclose(points.intensities(network, t, x), S, rtol=1e-12)


def test_waveforms_of_sources_have_the_values_of_their_formulas():
    text = "title\nR1 a 0 1\nC1 a 0 1\nI1 0 a SIN(1 2 1k 1m 100 30)\nI2 0 a PULSE(0 5 1m 1m 2m 3m 10m)\n"
    text += "I3 0 a EXP(1 3 1m 2m 5m 1m)\nI4 0 a PWL(1m 0 2m 4 3m 4 5m -2)\nI5 0 a 7\nI6 0 a PULSE(0 1)\n.tran 1m 20m\n"
    network = read(text).network
    order = np.argsort(network.sources.order)

    def at(t):
        return network.sources.values(t, np)[order]

    ms, s = 1e-3, np.sin
    sin = [1 + 2 * s(np.pi / 6), 1 + 2 * np.exp(-0.1) * s(2 * np.pi + np.pi / 6)]
    np.testing.assert_allclose([at(t)[0] for t in (0.5 * ms, 2 * ms)], sin, rtol=1e-12)
    times = (0, 1.5, 3, 6, 8, 11.5, 13)
    np.testing.assert_allclose([at(t * ms)[1] for t in times], (0, 2.5, 5, 2.5, 0, 2.5, 5), atol=1e-9)
    rise = 1 + 2 * (1 - np.exp(-1.0))
    np.testing.assert_allclose([at(t * ms)[2] for t in (0, 3)], (1, rise), rtol=1e-12)
    assert at(7 * ms)[2] == pytest.approx(1 + 2 * (1 - np.exp(-3.0)) - 2 * (1 - np.exp(-2.0)), rel=1e-12)
    np.testing.assert_allclose([at(t * ms)[3] for t in (0, 1.5, 2.5, 4, 9)], (0, 2, 4, 1, -2), atol=1e-12)
    assert at(3.0)[4] == 7.0
    np.testing.assert_allclose([at(t * ms)[5] for t in (0, 0.5, 2, 19)], (0, 0.5, 1, 1), atol=1e-12)


def test_charges_that_grow_with_their_voltage_keep_the_sign_of_the_constraints():
    """Told from the stamps, and true at states far apart; a controlled source, or a charge that reads a third node, may
    turn it."""
    text = "title\nV1 i 0 1\nR1 i a 1k\nD1 a b j\nD2 b 0 j\nC1 b 0 1p\nQ1 b a 0 q\n.model j D(CJO=1p TT=1n)\n"
    circuit = read(text + ".model q NPN(CJC=1p TR=1n)\n")
    assert circuit.facts.has_constant_orientation
    split, rng = circuit.facts.split, np.random.default_rng(1)
    J = points.slopes(circuit.network, rng.uniform(-2.0, 2.0, (200, circuit.n)))
    RM = np.broadcast_to(1e12 * circuit.mass_matrix[split.rows], (200, len(split.rows), circuit.n))
    assert len(set(np.linalg.slogdet(np.concatenate([RM, split.N @ J], axis=1))[0])) == 1
    assert not read(text + "E1 c 0 b a 2\nR2 c 0 1k\n.model q NPN(CJC=1p)\n").facts.has_constant_orientation
    assert not read(text + ".model q NPN(CJC=1p TF=1n)\n").facts.has_constant_orientation
