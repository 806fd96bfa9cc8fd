"""Circuits of any size have the same equations: sums by gathering and by scattering agree, and tracing stays small."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.circuits import assembly, channels, read
from stodyn.numerics.printing.points import at_one

LADDER = "ladder\nV1 n0 0 SIN(0 1 1meg)\n{}.model d D(IS=1p KF=1e-15)\n.model m NMOS(KP=1m VTO=0.5)\n.tran 1n 1u\n"


def ladder(sections):
    """Resistors, capacitors, diodes and transistors in a row."""
    parts = "R{0} n{0} n{1} 1k\nC{0} n{1} 0 1p\nD{0} n{1} 0 d\nM{0} n{1} n{0} 0 0 m\n"
    return LADDER.format("".join(parts.format(i, i + 1) for i in range(sections)))


@pytest.mark.parametrize(("filled", "large"), [(16, 1_000_000), (0, 0)])
def test_the_same_by_gathering_and_by_scattering(filled, large, monkeypatch):
    monkeypatch.setattr(assembly, "FILLED", filled)
    monkeypatch.setattr(channels, "LARGE", large)
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
