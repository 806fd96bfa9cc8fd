"""What engineers rely on: variances of linear structures without sampling, and the dissipation of modes."""

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis.second_order import amplification
from stodyn.methods.alpha import StochasticAlpha
from stodyn.models.beam import BEAM
from stodyn.models.oscillators import NOISY_OSCILLATOR, OSCILLATOR_CHAIN
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.mechanical import Mechanical

OSCILLATOR = Mechanical(lambda t, x, v: -9.0 * x, lambda t, x, v: 0.5, (0.0, 0.0))


pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")


@functools.cache
def stepped(problem, method):
    """The state as an array, and (h, s, (W, Z)) -> s' at many points."""
    m = problem.m
    flat, unflat = ravel_pytree(method.start(problem, 0.0, jnp.zeros(problem.n), None))

    def after(h, s, WZ):
        state, report = method.step(problem, 0.0, unflat(s), Increment(h, WZ[:m], WZ[m:]), None)
        return jnp.where(report.ok, ravel_pytree(state)[0], jnp.nan)

    return len(flat), AtPoints(after, (None, 0, 0))


def linear_step(problem, method, h):
    """M and Q of s' = M s + c, Cov c = Q, for a linear problem with additive noise.

    What the shipped step, which is affine, makes of each unit vector, less what it makes of zero.
    """
    m, (size, after) = problem.m, stepped(problem, method)
    units = np.concatenate([np.zeros((1, size + 2 * m)), np.eye(size + 2 * m)])
    found = after(np.asarray(h), units[:, :size], units[:, size:])
    M, C = np.split((found[1:] - found[0]).T, [size], axis=1)
    WZ = np.kron([[h, h**2 / 2], [h**2 / 2, h**3 / 3]], np.eye(m))
    return M, C @ WZ @ C.T


@pytest.mark.parametrize(("ρ", "low", "high"), [(0.0, 1.8, 2.3), (0.8, 1.8, 2.3), (1.0, 1.8, 2.3)])
def test_variance_of_an_undamped_oscillator(ρ, low, high):
    """Against the exact variances at t = 1, with weak order 2: the low mode keeps its variance for every ρ."""
    exact = np.array([0.0145356840236, 0.1191788437875])
    errors = []
    for steps in (50, 100):
        M, Q = linear_step(OSCILLATOR, StochasticAlpha(ρ), 1.0 / steps)
        P = np.zeros_like(Q)
        for _ in range(steps):
            P = M @ P @ M.T + Q
        errors.append(np.abs(np.diagonal(P)[:2] / exact - 1.0).max())
    assert errors[1] < 2e-3 and low < math.log2(errors[0] / errors[1]) < high


def test_stationary_variance_of_a_chain_against_lyapunovs_equation():
    """10 degrees of freedom with linear damping and constant noise: of order 2 for the paper's scheme too."""
    exact = OSCILLATOR_CHAIN.exact["stationary_covariance"]()
    for order in (1.0, 1.5):
        errors = []
        for h in (0.02, 0.01):
            M, Q = linear_step(OSCILLATOR_CHAIN.problem, StochasticAlpha(0.8, order), h)
            P = scipy.linalg.solve_discrete_lyapunov(M, Q)[:20, :20]
            errors.append(np.abs(P - exact).max() / np.abs(exact).max())
        assert errors[1] < 0.01
        assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


def test_modes_of_the_beam_lose_the_energy_that_the_spectral_radius_says():
    """Small free vibrations after the pull has ended: x_n is that of A_d(ωh)^n, and energy falls by its radius squared
    a step; for ω h → ∞ that tends to ρ², the lowest mode keeps all of it."""
    problem = BEAM(position=0.0, velocity=0.0, additive=0.0, form="dense").problem
    ω, modes = BEAM.exact["frequencies"](), BEAM.exact["modes"]()
    h, steps, ρ = 0.02, 40, 0.8
    method = StochasticAlpha(ρ, tol=1e-13)
    silent = Increment(h, jnp.zeros(0), jnp.zeros(0))
    begun = AtPoints(lambda x: method.start(problem, 4.0, x, None))
    one = AtPoints(lambda t, state: method.step(problem, t, state, silent, None)[0], (None, 0))

    size = 1e-6
    left, x, asked = {}, [], (0, 9)
    state = begun(np.concatenate([size * modes[:, asked].T, np.zeros((2, 10))], axis=1))
    for k in range(steps):
        state = one(np.asarray(4.0 + k * h), state)
        x.append(state[0][:, :10])
    for place, k in enumerate(asked):
        amplitude = np.linalg.solve(modes, np.array(x)[:, place].T)[k] / size
        A = amplification(StochasticAlpha(ρ), ω[k], h).deterministic
        Ξ, expected = np.array([1.0, 0.0, -((ω[k] * h) ** 2)]), []
        for _ in range(steps):
            Ξ = A @ Ξ
            expected.append(Ξ[0])
        np.testing.assert_allclose(amplitude, expected, atol=2e-6)
        radius = np.abs(np.linalg.eigvals(A)).max()
        left[k] = radius ** (2 * steps)
        envelope = np.abs(expected) / radius ** np.arange(1, steps + 1)
        assert 0.1 < envelope[steps // 2 :].max() < 10.0
    assert left[0] > 0.99 and left[9] < 0.02
    steps_of_fast_modes = (amplification(StochasticAlpha(ρ), Ω, 1.0).deterministic for Ω in (1e2, 1e4, 1e6))
    far = [np.abs(np.linalg.eigvals(A)).max() for A in steps_of_fast_modes]
    assert np.all(np.diff(far) < 0) and far[-1] == pytest.approx(ρ, abs=2e-3)


def test_an_ensemble_has_the_moments_that_are_computed_without_sampling():
    """Second moments of the noisy oscillator after 40 steps, 4 standard errors: a false alarm in 16 000 each."""
    run = sd.simulate(NOISY_OSCILLATOR.problem, StochasticAlpha(0.8), t=(0, 1), dt=1 / 40, paths=40_000, seed=8,
                      collect=st.Observable(lambda t, x, p: jnp.stack([x[0] ** 2, x[0] * x[1], x[1] ** 2]), at=[1.0],
                                            name="square"))  # fmt: skip
    exact = amplification(StochasticAlpha(0.8), 3.0, 1 / 40, 0.5, 1.0).second_moments(1.0, 0.0, -9.0, 40)[-1]
    gap = np.abs(run["square"].values[0] - exact) / run["square_stderr"].values[0]
    assert np.all(gap < 4.0), gap
