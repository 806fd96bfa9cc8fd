"""The equations in numpy, which the checks before a run look at, are those of the run."""

import jax
import numpy as np
import pytest

from stodyn.circuits import read
from stodyn.problems import index
from stodyn.problems.contract import sample_params
from stodyn.problems.sdae import SDAE

STAGE = (
    "title\nV1 in 0 1\nM1 out in 0 b n W=20u L=2u\nRD in out 2k\nCL out 0 1p\nRB b 0 1k\nCB b 0 1p\nD1 out b d\n"
    ".model d D(IS=1p CJO=1p)\n.model n NMOS(KP=50u VTO=0.7 LAMBDA=0.02 GAMMA=0.5)\n"
)


FLICKERING = (
    "title\nV1 in 0 1\nR1 in a 1k\nD1 a 0 d\n.model d D(IS=1p CJO=1p KF=1e-13 AF=1.2)\n.options flo=300meg fhi=1g\n"
)


def plain(circuit):
    """The same equations without what the elements show about them."""
    return SDAE(circuit.mass, circuit.drift, circuit.diffusion, circuit.example_start(), circuit.params)


@pytest.mark.parametrize("text", [STAGE, FLICKERING])
def test_coefficients_without_a_trace(text):
    circuit = read(text)
    rng = np.random.default_rng(1)
    t = rng.uniform(0.0, 1e-7, index.STATES)
    x = circuit.operating_point.x + 0.3 * rng.standard_normal((index.STATES, circuit.n))
    params = sample_params(circuit, index.STATES)[0]
    equations = plain(circuit)
    both = (problem.facts.coefficients_at(t, x, params) for problem in (circuit, equations))
    for ours, traced in zip(*both, strict=True):
        np.testing.assert_allclose(ours, traced, rtol=1e-11, atol=1e-14 * np.abs(traced).max())
    ours, traced = (index.noise_slopes(problem, t, x) for problem in (circuit, equations))
    np.testing.assert_allclose(ours, traced, rtol=1e-9, atol=1e-12 * np.abs(traced).max())


def test_a_proof_that_the_constraints_stay_regular():
    """The trace does not show that the charge of D1 grows with its voltage; nothing is known of a B source, which does
    not matter where no equation but its own contains its voltage."""
    circuit = read(STAGE)
    assert circuit.facts.has_constant_orientation and not plain(circuit).facts.has_constant_orientation
    assert read(STAGE + "B1 c 0 V={V(out)*V(b)}\nRC c 0 1k\n").facts.has_constant_orientation
    other = read(STAGE + "B1 c 0 I={V(c)*V(b)}\nRC c 0 1k noise=off\n")
    assert not other.facts.has_constant_orientation and not plain(other).facts.has_constant_orientation


def test_functions_of_a_circuit_may_be_called_in_any_precision():
    circuit = read("title\nR1 a 0 1k\nC1 a 0 1p\n")
    with jax.enable_x64(False):
        rates = [np.asarray(circuit.f(0.0, state, circuit.params)) for state in (np.array([0.1]), [0.1])]
        noise = np.asarray(circuit.g(0.0, np.array([0.1]), circuit.params))
    assert rates == pytest.approx([-1e-4, -1e-4], rel=1e-6)
    assert noise == pytest.approx(np.sqrt(2.0 * 1.380649e-23 * 300.15 / 1e3), rel=1e-6)
