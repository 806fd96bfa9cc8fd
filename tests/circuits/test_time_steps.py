"""Steps of a transient that are planned before it: corners are met, and edges are right."""

import numpy as np
import pytest
import scipy

from stodyn.analysis.plan import plan
from stodyn.circuits import points, read
from stodyn.circuits.time_steps import corners_apart
from stodyn.circuits.waveforms import Sources, Waveform, completed

EVERY_WAVEFORM = """corners
V1 a 0 PULSE(0 1 2.3n 1n 2n 3n 20n)
V2 b 0 SIN(0 1 1meg 4.4n)
V3 c 0 EXP(0 1 5.5n 1n 6.6n 1n)
V4 d 0 PWL(0 0 7.7n 1 8.8n 0)
R1 a e 1k
R2 b e 1k
R3 c e 1k
R4 d e 1k
C1 e 0 1p
.tran 1n 30n
"""
SWITCHED = """A switched capacitor with two clocks
VIN in 0 1
VP1 p1 0 PULSE(0 3 2n 1n 1n 23n 100n)
VP2 p2 0 PULSE(0 3 32n 1n 1n 23n 100n)
M1 in p1 a 0 n W=10u L=1u
M2 a p2 out 0 n W=10u L=1u
C1 a 0 1p
C2 out 0 2p
.model n NMOS(KP=100u VTO=0.6 NLEV=3 CGSO=0.3n CGDO=0.3n)
.tran 1n 50n
"""


def test_corners_and_times_of_tran_are_met():
    circuit = read(EVERY_WAVEFORM)
    ends = np.append(0.0, np.cumsum(circuit.time_steps()))
    corners = [2.3, 3.3, 6.3, 8.3, 22.3, 23.3, 26.3, 28.3, 4.4, 5.5, 6.6, 7.7, 8.8]
    for time in (*np.array(corners) * 1e-9, *circuit.times):
        assert np.abs(ends - time).min() < 1e-18
    assert ends[-1] == pytest.approx(30e-9, rel=1e-12)


def by_the_trapezoidal_rule(circuit, lengths):
    """The trapezoidal rule on the noiseless circuit, states after every step."""
    network, x, t = circuit.network, np.asarray(circuit.start, float), 0.0
    M = network.mass.matrix(circuit.n).toarray()
    held, states = ~M.any(axis=1), [x]
    for h in lengths:
        before, y = points.rates(network, np.array([t]), x[None])[0], x
        for _ in range(20):
            f, J = points.rates(network, np.array([t + h]), y[None])[0], points.slopes(network, y[None])[0]
            defect = np.where(held, f, M @ (y - x) - 0.5 * h * (f + before))
            matrix = np.where(held[:, None], J, M - 0.5 * h * J)
            size = np.abs(matrix).max(axis=1)
            move = np.linalg.solve(matrix / size[:, None], defect / size)
            y = y - move
            if np.abs(move).max() < 1e-8:
                break
        x, t = y, t + h
        states.append(x)
    return np.array(states)


def test_edges_of_a_switched_capacitor_are_right():
    """Equal steps are 3 % of the range off where the clock's edges are."""
    circuit = read(SWITCHED)
    true, out = circuit.noiseless(1e-5), [circuit.names.index(name) for name in ("a", "out")]

    def error(lengths):
        ends = np.append(0.0, np.cumsum(lengths))
        seen = by_the_trapezoidal_rule(circuit, lengths)[np.abs(ends[:, None] - circuit.times).argmin(axis=0)]
        return np.max(np.abs(seen - true)[:, out] / np.ptp(true[:, out], axis=0))

    assert error(np.diff(circuit.times)) > 0.02
    assert error(circuit.time_steps()) < 5e-4


def test_what_is_not_an_error_is_refused():
    with pytest.raises(ValueError, match="tol: expected an error relative to the range"):
        read(SWITCHED).time_steps(tol=2.0)
    with pytest.raises(TypeError, match=r"give a circuit dt=circuit\.time_steps\(\)"):
        plan(read(SWITCHED), "Trapezoidal")


def clock(rng, period):
    """A clock whose edges are round parts of the period, as designers write them."""
    edge = period * rng.choice([0.01, 0.05, 0.1])
    width = period * rng.choice([0.25, 0.4, 0.5]) - edge
    delay = period * rng.choice([0.0, 0.25, 1 / 3, 0.5])
    numbers = [float(f"{x:.10g}") for x in (0.0, 1.0, delay, edge, edge, width, period)]
    return Waveform(None, "pulse", completed("pulse", numbers, None, None))


def test_corners_of_clocks_that_coincide_are_one():
    """200 pairs of clocks: no step of rounding size, and no corner lost."""
    rng, repeated = np.random.default_rng(1), 0
    for _ in range(200):
        period = 1e-9 * rng.integers(1, 40) * rng.choice([10.0, 25.0, 33.3])
        sources = Sources([clock(rng, period), clock(rng, period * rng.choice([0.5, 1.0, 2.0]))])
        stop = period * rng.choice([5.0, 6.0, 7.0, 11.0])
        times = np.linspace(0.0, stop, rng.choice([51, 65, 101]))
        corners = sources.corners(0.0, stop)
        apart = corners_apart(corners, times)
        stops = np.concatenate([[0.0], apart, [stop]])
        repeated += len(corners) - len(apart)
        assert np.diff(stops).min() > 1e-3 * period
        assert np.diff(np.unique(np.concatenate([times, apart]))).min() > 1e-9 * period
        assert all(np.abs(stops - corner).min() <= 1e-13 * stop for corner in corners)
    assert repeated > 50


def test_switches_at_corners_that_coincide_are_followed():
    """Corners of the clocks at 6 µs are 8.5e-22 s apart. In each period half of what is missing to 1 V goes over."""
    circuit = read("""Charge is shared
V1 in 0 1
VP p 0 PULSE(0 1 0 10n 10n 0.48u 1u)
VQ q 0 PULSE(0 1 0.5u 10n 10n 0.48u 1u)
S1 in a p 0 s
S2 a out q 0 s
C1 a 0 1p
C2 out 0 1p
.model s SW(VT=0.5 RON=1k ROFF=1e15 SMOOTH=0.5)
.tran 0.5u 6u uic
""")
    assert circuit.noiseless(1e-3)[-1, circuit.names.index("out")] == pytest.approx(1.0 - 2.0**-6, abs=1e-4)


def test_noiseless_voltages_behind_kinks_between_steps():
    """The voltage of diodes behind a resistor follows the source at once; a polynomial through a step is 3 mV off."""
    circuit = read(
        "clipper\nV1 in 0 SIN(0 5 1k)\nR1 in a 1k\nD1 a 0 d\nD2 0 a d\nR2 in b 1k\nC2 b 0 10n\n.model d D(IS=1e-14)\n"
        ".tran 5u 3m\n"
    )
    volts = 5.0 * np.sin(2e3 * np.pi * circuit.times)
    thermal = 1.380649e-23 * 300.15 / 1.602176634e-19

    def clipped(v):
        return scipy.optimize.brentq(lambda a: (v - a) / 1e3 - 2e-14 * np.sinh(a / thermal), -1.0, 1.0, xtol=1e-15)

    exact = np.array([clipped(v) for v in volts])
    for rtol in (1e-4, 1e-6):
        seen = circuit.noiseless(rtol)[:, circuit.names.index("a")]
        np.testing.assert_allclose(seen, exact, atol=5.0 * rtol)


def test_waveforms_are_followed_between_the_steps_too():
    """10 mV of a sine on 5 V behind a quick RC, whose response is known: it is exact at the stages of a step of any
    length, so that only what lies between them limits the steps."""
    circuit = read("A bias\nV1 in 0 SIN(5 10m 1meg)\nR1 in out 1k\nC1 out 0 1p\n.tran 20n 10u\n")
    t, omega = circuit.times, 2e6 * np.pi
    gain = 1.0 / (1.0 + 1j * omega * 1e-9)
    exact = 5.0 + 10e-3 * np.imag(gain * (np.exp(1j * omega * t) - np.exp(-t / 1e-9)))
    np.testing.assert_allclose(circuit.noiseless()[:, circuit.names.index("out")], exact, rtol=0, atol=2e-5)
