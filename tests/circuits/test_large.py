"""Circuits of any size have the same equations: sums by gathering and by scattering agree, and tracing stays small.

Sparse and dense matrices give the same runs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.circuits import assembly, read
from stodyn.circuits import circuit as circuits
from stodyn.circuits.devices import BOLTZMANN
from stodyn.numerics.printing.points import at_one
from stodyn.problems import facts
from stodyn.problems.operators import entries_at

LADDER = "ladder\nV1 n0 0 SIN(0 1 1meg)\n{}.model d D(IS=1p KF=1e-15)\n.model m NMOS(KP=1m VTO=0.5)\n.tran 1n 1u\n"


def ladder(sections):
    """Resistors, capacitors, diodes and transistors in a row."""
    parts = "R{0} n{0} n{1} 1k\nC{0} n{1} 0 1p\nD{0} n{1} 0 d\nM{0} n{1} n{0} 0 0 m\n"
    return LADDER.format("".join(parts.format(i, i + 1) for i in range(sections)))


@pytest.mark.parametrize(("filled", "few"), [(16, 64), (0, 0)])
def test_the_same_by_gathering_and_by_scattering(filled, few, monkeypatch):
    monkeypatch.setattr(assembly, "FILLED", filled)
    monkeypatch.setattr(circuits, "FOLLOWED", few)
    circuit = read(ladder(2))
    network, t = circuit.network, 0.3e-6
    x = 0.3 * np.random.default_rng(1).standard_normal(circuit.n)
    wanted = network.rates(x, network.sources.values(t, np), np)

    def at(function, x, t=t):
        return at_one(lambda x: function(t, x, circuit.params), x)

    np.testing.assert_allclose(at(circuit.f, x), wanted, rtol=1e-12, atol=1e-18)
    at_rest = x.copy()
    at_rest[list(network.flickers[0].states.ravel())] = 0.0  # the slopes of `network` are those of silent filters
    slopes = at(jax.jacfwd(circuit.f, 1), at_rest)
    np.testing.assert_allclose(slopes, network.slopes(at_rest).toarray(), rtol=1e-9, atol=1e-18)
    np.testing.assert_allclose(at(circuit.g, x, 0.0), circuit.noise_matrix(x), rtol=1e-12)


def test_a_trace_does_not_grow_with_the_circuit():
    def operations(sections):
        circuit = read(ladder(sections).replace(" KF=1e-15", ""))
        traced = jax.make_jaxpr(lambda t, x: (circuit.f(t, x, circuit.params), circuit.g(t, x, circuit.params)))
        return len(traced(0.0, jnp.zeros(circuit.n)).jaxpr.eqns)

    assert max(operations(700), operations(1000)) <= 300


@pytest.mark.parametrize("source", ["R0 n0 0 1k", "V1 n0 s 0.1\nR0 s 0 1k\nR00 s n1 2k"])
def test_a_net_with_sparse_matrices_runs_as_with_dense_ones(source, monkeypatch):
    """A source in series with a resistor makes constraints, and takes their noise up."""
    rows = "".join(f"R{i} n{i - 1} n{i} {1 + i % 3}k\nC{i} n{i} 0 {1 + i % 2}p\n" for i in range(1, 16))

    def end(few):
        for module in (circuits, facts):
            monkeypatch.setattr(module, "FOLLOWED", few)
        circuit = read(f"net\n{source}\nC0 n0 0 1p\n{rows}")
        assert circuit.facts.is_large == circuit.is_operator == (few < circuit.n)
        run = dict(t=(0, 4e-9), dt=1e-9, paths=2, seed=1, collect=sd.statistics.Paths(2, at=[4e-9]))
        return sd.simulate(circuit, "Trapezoidal", **run)["path"].values

    dense = end(64)
    np.testing.assert_allclose(end(12), dense, rtol=1e-9, atol=1e-9 * np.abs(dense).max())


def test_noise_of_a_large_ladder_balances_its_resistors():
    """The covariance of a passive net in equilibrium is kT C⁻¹, since g g' = -kT (f_x + f_x'), entry by entry."""
    rows = "".join(f"R{i} n{i - 1} n{i} {1 + i % 3}k\nC{i} n{i} 0 {1 + i % 2}p\n" for i in range(1, 2000))
    circuit = read(f"net\nR0 n0 0 1k\nC0 n0 0 1p\n{rows}")
    f_x, kT = circuit.network.slopes(circuit.start), BOLTZMANN * circuit.network.netlist.kelvin
    pattern = circuit.facts.noise_pattern
    g = pattern.csr(at_one(lambda x: entries_at(pattern, circuit.multiplier(0.0, x, circuit.params)), circuit.start))
    left = g @ g.T + kT * (f_x + f_x.T)
    assert abs(left).max() <= 1e-12 * kT * abs(f_x).max()
    assert circuit.diagnose().index == 0
