"""Coloured noise that arrives later elsewhere: its law, its paths, the response of structures, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.step.one_step import OneStep
from stodyn.methods.alpha import StochasticAlpha
from stodyn.methods.excited import linear_step
from stodyn.noise import coloured as co
from stodyn.numerics import lyapunov

h = 0.02
GROUND = co.kanai_tajimi(15.6, 0.6, sigma=1.0, name="ground")
SUPPORTS = co.delayed(GROUND, [0.0, 0.06, 0.02], dt=h)
m, C, K = np.array([2.0, 1.5]), np.diag([1.2, 0.8]), np.array([[300.0, -100.0], [-100.0, 250.0]])
FRAME = sd.Mechanical.from_matrices(m, C, K)
FOLLOWS = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])  # the supports, column by column
SHAKEN = sd.base_excited(FRAME, SUPPORTS, FOLLOWS)


def a_step(noise):
    """T and R of (states, ∫y, ∫∫y) = T states + R ξ, from the step itself."""
    law = tuple(map(jnp.asarray, noise.integrals(noise.dt)))
    n, normals = noise.states, law[1].shape[1]
    with jax.enable_x64(True):
        points = jnp.eye(n + normals)
        rows = [jnp.concatenate(noise.advanced(law, each[:n], each[n:])) for each in points]
    both = np.array(rows).T
    return both[:, :n], both[:, n:]


def test_a_noise_and_its_past_are_stationary_together():
    pair = co.correlated(co.gauss_markov(1.0, 0.3, "wind"), [[1.0, 0.4], [0.4, 2.0]])
    for noise in (SUPPORTS, co.delayed(pair, [0.0, 0.1], dt=0.05)):
        T, R = a_step(noise)
        n, P = noise.states, noise.state_covariance
        np.testing.assert_allclose(T[:n] @ P @ T[:n].T + R[:n] @ R[:n].T, P, rtol=0, atol=1e-14)
        lags = noise.delays[:, None] - noise.delays  # E y(t - a) y(t - b)' is the autocovariance at b - a
        outputs = [output for output, _ in noise.late]
        expected = [[noise.noise.autocovariance(-lags[i, j])[outputs[i], outputs[j]] for j in range(len(outputs))]
                    for i in range(len(outputs))]  # fmt: skip
        np.testing.assert_allclose(noise.C @ P @ noise.C.T, expected, rtol=1e-12)


def test_a_path_of_a_delayed_noise_is_that_of_the_noise_later():
    road = co.gauss_markov(1.0, 0.2, "road")
    car = sd.with_noise(FRAME, co.delayed(road, [0.0, 0.06], dt=h, names=("front", "rear")), into=[0, 1])
    assert car.components[4:6] == ("road", "road[-1]") and "rear" in car.components
    run = sd.simulate(car, t=(0, 0.4), dt=h, paths=3, seed=1, collect=st.Paths())
    front, rear = (run["path"].sel(component=name).transpose("number", "time").values for name in ("road", "rear"))
    np.testing.assert_array_equal(rear[:, 3:], front[:, :-3])


def test_the_covariance_under_a_passing_wave_is_the_integral_of_its_spectrum():
    M, ω = np.diag(m), np.linspace(0.0, 400.0, 40_001)
    dynamic = -(ω**2)[:, None, None] * M + 1j * ω[:, None, None] * C + K
    phases = np.exp(-1j * ω[:, None] * SUPPORTS.delays)
    x = np.linalg.solve(dynamic, (-M @ FOLLOWS * phases[:, None]).sum(2)[..., None])[..., 0]
    density = GROUND.spectrum(ω / (2 * np.pi))[:, 0, 0].real
    both = np.concatenate([x, 1j * ω[:, None] * x], axis=1)
    products = (both[:, :, None] * both[:, None].conj()).real * density[:, None, None]
    expected = scipy.integrate.simpson(products, x=ω, axis=0) / np.pi
    P = sd.structures.stationary_covariance(SHAKEN)
    np.testing.assert_allclose(P[:2, :2], expected[:2, :2], rtol=1e-8)
    np.testing.assert_allclose(P[2:, 2:], expected[2:, 2:], rtol=1e-4)  # the tail beyond 400 rad/s
    np.testing.assert_allclose(P[:2, 2:], expected[:2, 2:], atol=1e-9)
    at_once = sd.structures.stationary_covariance(sd.base_excited(FRAME, GROUND, FOLLOWS.sum(1)))
    assert P[0, 0] < 0.95 * at_once[0, 0]  # and not what supports that move together would give


def test_the_covariance_under_a_delayed_markov_noise_is_its_closed_form():
    """E y(t - a) y(t - b) = σ² exp(-r |a - b|); with z' = A z + Σ b_j y(t - τ_j) the E y(t - τ_j) z' are integrals of
    exponentials, and A P + P A' + S + S' = 0 gives the covariance."""
    σ, r, delays = 0.9, 1.7, np.array([0.0, 0.06, 0.16])
    late = co.delayed(co.gauss_markov(σ, 1.0 / r, "road"), delays, dt=h)
    lags = delays - delays[:, None]
    np.testing.assert_allclose(late.C @ late.state_covariance @ late.C.T, σ**2 * np.exp(-r * np.abs(lags)), rtol=1e-13)
    into = np.array([[1.0, 1.0, 0.0], [1.0, -0.8, 0.3]])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-K / m[:, None], -C / m[:, None]]])
    b, unit = np.concatenate([np.zeros((2, 3)), into / m[:, None]]), np.eye(4)

    def met(column, lag):
        """∫ exp(A s) b exp(-r |s + lag|) ds from 0 on."""
        if lag >= 0.0:
            return np.exp(-r * lag) * np.linalg.solve(r * unit - A, column)
        grown = np.linalg.solve(A + r * unit, scipy.linalg.expm((A + r * unit) * -lag) - unit) @ column
        return np.exp(r * lag) * grown + scipy.linalg.expm(A * -lag) @ np.linalg.solve(r * unit - A, column)

    rates = [sum(met(b[:, i], lags[j, i]) for i in range(3)) for j in range(3)]
    S = σ**2 * sum(np.outer(b[:, j], rates[j]) for j in range(3))
    P = np.linalg.solve(np.kron(A, unit) + np.kron(unit, A), -(S + S.T).ravel()).reshape(4, 4)
    found = sd.structures.stationary_covariance(sd.with_noise(FRAME, late, into))
    np.testing.assert_allclose(found, P, rtol=0, atol=1e-13 * np.abs(P).max())


def test_steps_under_a_passing_wave_have_the_covariance_of_shifted_responses():
    """The recursion of the step with the past in its state, against responses to undelayed noise k steps earlier."""
    method = StochasticAlpha(tol=1e-13)
    prepared = method.prepared(SHAKEN, h)
    one = OneStep(SHAKEN, prepared, often=False)
    points = np.eye(one.size + one.normals)
    after = one.after(0.0, h, None, points[:, : one.size], points[:, one.size :]).T
    read = one.reading[0][:, :-1][:4]
    M, G = after[:, : one.size], after[:, one.size :]
    ours = read @ lyapunov.discrete(M, G @ G.T) @ read.T

    late = [steps for _, steps in SUPPORTS.late]
    A = np.kron(np.eye(3), -K / m[:, None]), np.kron(np.eye(3), -C / m[:, None])
    push = np.concatenate([-FOLLOWS[:, [j]] for j in range(3)])
    alone = dataclasses.replace(SHAKEN, coloured=GROUND)
    step, kick = linear_step(method, alone, h, np.concatenate(A, axis=1), push, np.zeros((6, 0)))
    P = lyapunov.discrete(step, kick @ kick.T)
    places = [[2 * j, 2 * j + 1, 6 + 2 * j, 7 + 2 * j] for j in range(3)]
    expected = np.zeros((4, 4))
    for i in range(3):
        for j in range(3):
            power = np.linalg.matrix_power(step, abs(late[j] - late[i]))
            apart = power @ P if late[i] <= late[j] else P @ power.T
            expected += apart[np.ix_(places[i], places[j])]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    exact = sd.structures.stationary_covariance(SHAKEN)
    np.testing.assert_allclose(np.diag(ours), np.diag(exact), rtol=0.04)  # order 2 in h


def test_delays_beside_other_noise():
    one = co.delayed(co.gauss_markov(1.0, 0.2, "road"), [0.0, 0.04], dt=h)
    both = sd.with_noise(sd.with_noise(FRAME, one, [0, 1]), co.gauss_markov(2.0, 1.0, "wind"), 1)
    assert both.coloured.names == ("road0", "road1", "wind") and both.coloured.states == 2 + 6
    P = sd.structures.stationary_covariance(both)
    apart = [sd.structures.stationary_covariance(sd.with_noise(FRAME, *load))[:4, :4]
             for load in ((one, [0, 1]), (co.gauss_markov(2.0, 1.0, "wind"), 1))]  # fmt: skip
    np.testing.assert_allclose(P, apart[0] + apart[1], rtol=1e-10, atol=1e-14 * np.abs(P).max())
    with pytest.raises(ValueError, match=r"held in steps of 0\.02 and of 0\.01"):
        sd.with_noise(sd.with_noise(FRAME, one, [0, 1]), co.delayed(GROUND, 0.02, dt=0.01), 0)


def test_what_cannot_be_delayed_is_told_in_words():
    with pytest.raises(
        ValueError, match=r"3.5 steps of 0.02, expected a whole number; steps of 0.0233333333333 or 0.0175"
    ):
        co.delayed(GROUND, 0.07, dt=h)
    with pytest.raises(ValueError, match="expected one or several delays >= 0"):
        co.delayed(GROUND, -0.1, dt=h)
    with pytest.raises(ValueError, match="at most 400"):
        co.delayed(GROUND, 100.0, dt=h)
    with pytest.raises(ValueError, match="names: expected 2 different names"):
        co.delayed(GROUND, [0.0, 0.1], dt=h, names=["one"])
    with pytest.raises(ValueError, match=r"held in steps of 0.02, got steps of 0.01; run with dt=0.02, or make"):
        sd.simulate(SHAKEN, t=(0, 0.1), dt=0.01, paths=2, seed=1)
    with pytest.raises(TypeError, match="mechanical systems, got SDE"):
        sd.with_noise(sd.SDE(lambda t, x: -x, None, start=0.0), co.delayed(GROUND, h, dt=h), "x")
    with pytest.raises(TypeError, match="method of the α family"):
        sd.simulate(SHAKEN, "VanLoan", t=(0, 0.1), dt=h, paths=2, seed=1)
    with pytest.raises(ValueError, match="its noise is delayed"):
        sd.structures.peaks(SHAKEN, np.array([1.0, 0.0, 0.0, 0.0]), duration=10.0)
