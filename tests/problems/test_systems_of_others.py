"""Systems of python-control and scipy.signal, taken by what they have, and given back as plain matrices."""

import types

import numpy as np
import pytest
import scipy.signal

import stodyn as sd
from stodyn.methods.exact import linear_coefficients
from stodyn.numerics import lyapunov

NUM, DEN = [0.5, 2.0], [1.0, 3.0, 5.0]
F = np.array([0.01, 0.3, 2.0])


def of_control(num=NUM, den=DEN, dt=0):
    """A transfer function as python-control has it: lists of lists of polynomials, one for each output and input."""
    return types.SimpleNamespace(num=[[np.array(num)]], den=[[np.array(den)]], dt=dt)


STATES = scipy.signal.StateSpace(*scipy.signal.tf2ss(NUM, DEN))
SYSTEMS = {
    "scipy transfer function": scipy.signal.TransferFunction(NUM, DEN),
    "scipy state space": STATES,
    "control transfer function": of_control(),
    "control state space": types.SimpleNamespace(A=STATES.A, B=STATES.B, C=STATES.C, D=STATES.D, dt=0),
    "plain matrices": sd.noise.coloured.through((NUM, DEN)).to_control(),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_white_noise_through_a_system_has_its_spectrum(name):
    _, response = scipy.signal.freqs(NUM, DEN, 2 * np.pi * F)
    noise = sd.noise.coloured.through(SYSTEMS[name])
    np.testing.assert_allclose(noise.spectrum(F)[:, 0, 0].real, np.abs(response) ** 2, rtol=1e-12)


@pytest.mark.parametrize("name", ["scipy transfer function", "control state space", "plain matrices"])
def test_a_system_is_a_linear_problem_with_noise_as_its_input(name):
    coefficients = linear_coefficients(sd.linear(SYSTEMS[name], Q=2.0))
    P = lyapunov.continuous(coefficients.A, coefficients.B @ coefficients.B.T)
    c = sd.noise.coloured.through((NUM, DEN), intensity=2.0)
    own = SYSTEMS[name] if hasattr(SYSTEMS[name], "A") else SYSTEMS[name].to_ss()
    np.testing.assert_allclose(own.C @ P @ own.C.T, c.covariance, rtol=1e-12)


def test_a_system_may_have_its_input_and_noise_besides():
    problem = sd.linear(STATES, B=[[1.0], [0.0]], u=3.0)
    coefficients = linear_coefficients(problem)
    np.testing.assert_array_equal(coefficients.A, STATES.A)
    np.testing.assert_array_equal(coefficients.B, [[1.0], [0.0]])
    np.testing.assert_array_equal(coefficients.a, STATES.B @ [3.0])


def test_discrete_systems_are_refused_where_time_is_continuous():
    discrete = STATES.to_discrete(0.1)
    with pytest.raises(ValueError, match=r"A: the system is discrete in time \(dt=0.1\), .*stodyn.parts.linear"):
        sd.linear(discrete)
    for system in (discrete, of_control(dt=True)):
        with pytest.raises(TypeError, match="discrete time"):
            sd.noise.coloured.through(system)
    with pytest.raises(ValueError, match="B: expected the noise input matrix, since the system's own input is u"):
        sd.linear(STATES, u=1.0)
    with pytest.raises(ValueError, match="B: expected the noise input matrix"):
        sd.linear([[1.0]])
    with pytest.raises(TypeError, match=r"A: expected a system in state space, .* control.ss\(system\)"):
        sd.linear(of_control())


def test_noise_goes_out_as_plain_matrices_exact_at_samples():
    noise = sd.noise.coloured.gauss_markov2(2.0, 3.0, 0.2)
    A, B, C, D, dt = noise.to_control()
    np.testing.assert_allclose(C @ lyapunov.continuous(A, B @ B.T) @ C.T, [[4.0]], rtol=1e-12)
    assert dt == 0 and not D.any()
    A, B, C, D, dt = noise.to_control(0.1)
    np.testing.assert_allclose(C @ lyapunov.discrete(A, B @ B.T) @ C.T, [[4.0]], rtol=1e-12)
    assert dt == 0.1 and D.shape == (1, 2)
    part = sd.parts.linear("noise", noise.to_control(0.1), every=0.1, reads=("a", "b"))
    assert part.state.shape == (2,)


def test_a_loop_goes_out_as_the_system_of_its_period():
    plant = sd.SDE(
        lambda t, x, p: p["u"] + 0 * x, lambda t, x: 1.0 + 0 * x[:, None], start=[0.0], params={"u": 0.0}, names=("x",)
    )
    loop = sd.with_loop(
        plant,
        sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1)),
        sd.Part(
            "law", every=0.1, delay=0.02, reads="y", writes="u", update=lambda t, own, seen, p: (own, -5 * seen["y"])
        ),
    )
    exact = sd.analysis.sampled(loop)
    A, B, C, _, dt = exact.system
    P = C @ lyapunov.discrete(A, B @ B.T) @ C.T
    np.testing.assert_allclose(P, exact.covariance(0.0, before=True), rtol=1e-10, atol=1e-14)
    assert dt == 0.1 and np.abs(np.linalg.eigvals(A)).max() == pytest.approx(exact.radius)
    lossy = sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, loss=0.1), *loop.parts)
    with pytest.raises(ValueError, match="system: readings are lost or late at random"):
        _ = sd.analysis.sampled(lossy).system
