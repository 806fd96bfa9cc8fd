"""Any method beside coloured noise that is stepped exactly."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.analysis.integrator import linear_step
from stodyn.analysis.linear import coefficients
from stodyn.engine.spec import matched
from stodyn.noise import coloured as co
from stodyn.numerics import lyapunov
from stodyn.numerics.printing.points import at_points
from stodyn.warnings import NoiseNotDelivered

pytestmark = pytest.mark.usefixtures("quick_compiling")

OSCILLATOR = np.array([[0.0, 1.0], [-4.0, -0.5]])
STILL = sd.SDE(lambda t, x: OSCILLATOR @ x, lambda t, x: jnp.zeros((2, 1)), [0.0, 0.0], names=("x", "v"))
GUST = sd.with_noise(STILL, co.dryden(1.0, 1.0, 1.0, components="w"), "v")


def steady(problem, dt, method="RK4"):
    step = linear_step(problem, sd.ExactNoise(method), dt)
    return lyapunov.discrete(step.M, step.G @ step.G.T)


@pytest.mark.parametrize("dt", [0.01, 0.5, 0.9])
def test_noise_is_exact_at_any_step_and_with_any_method(dt):
    for method in ("RK4", "EulerMaruyama") if dt < 0.1 else ("RK4",):
        P = steady(GUST, dt, method)[2:, 2:]
        np.testing.assert_allclose(P, GUST.noise.state_covariance, rtol=1e-10, atol=1e-12)
        step = linear_step(GUST, sd.ExactNoise(method), dt)
        np.testing.assert_allclose(step.M[2:, 2:], GUST.noise.discretise(dt)[0], atol=1e-12)


def test_response_has_an_error_of_second_order():
    found = coefficients(GUST)
    exact = np.diagonal(lyapunov.continuous(found.A, found.b.T @ found.b))[:2]
    errors = [np.diagonal(steady(GUST, dt))[:2] / exact - 1 for dt in (0.2, 0.1, 0.05)]
    assert (np.abs(errors[0]) < 0.03).all()
    np.testing.assert_allclose(errors[1] / errors[2], [4.0, 4.0], rtol=0.1)


def test_it_is_found_by_its_name():
    options = dict(t=(0, 1), dt=0.25, paths=4, seed=1)
    named = sd.simulate(GUST, "ExactNoise(RK4)", **options)
    made = sd.simulate(GUST, sd.ExactNoise("RK4"), **options)
    assert sd.provenance(named)["method"] == sd.provenance(made)["method"]
    np.testing.assert_array_equal(named["mean"], made["mean"])


def test_white_noise_of_the_problem_stays():
    own = sd.SDE(lambda t, x: -2.0 * x, lambda t, x: 0.3 + 0.0 * x, 0.0)
    problem = sd.with_noise(own, co.gauss_markov(0.5, 0.7), "x")
    found = coefficients(problem)
    exact = lyapunov.continuous(found.A, found.b.T @ found.b)
    np.testing.assert_allclose(steady(problem, 0.02), exact, rtol=2e-3)


def test_runs_of_a_nonlinear_problem_at_a_large_step():
    """A Duffing oscillator that sees 0.5 s of a gust of 1 s at a time: the gusts' variance is exact in the runs."""
    duffing = sd.SDE(lambda t, x: jnp.array([x[1], -x[0] - x[0] ** 3 - 0.5 * x[1]]), lambda t, x: jnp.zeros((2, 1)),
                     [0.0, 0.0], names=("x", "v"))  # fmt: skip
    problem = sd.with_noise(duffing, co.dryden(1.0, 1.0, 1.0, components="w"), "v")
    run = sd.simulate(
        problem, sd.ExactNoise("RK4"), t=(0, 10), dt=0.5, paths=40_000, seed=5, collect=sd.statistics.Moments(at=[10.0])
    )
    found, stderr = (float(run[name].sel(component="w_g")[0]) for name in ("variance", "variance_stderr"))
    assert found == pytest.approx(1.0, abs=4 * stderr)  # a false alarm in one of 16 000; RK4 on the filter is 4.8 % low
    assert abs(1 - 0.048 - found) > 4 * stderr


def test_calculus_of_the_problem_is_that_of_its_own_noise():
    own = sd.SDE(lambda t, x: -x, lambda t, x: 0.5 * x, 1.0)  # Ito, and Heun takes Stratonovich problems
    problem = sd.with_noise(own, co.gauss_markov(0.1, 1.0), "x")
    method = sd.ExactNoise("Heun").for_steps(problem, 0.05)
    np.testing.assert_allclose(method.own.f(0.0, jnp.array([2.0]), {"own": None, "noise": np.zeros(1)}), [-2.0 - 0.25])


def test_what_is_advised_for_steps_that_are_too_long_can_be_done():
    """A multistep method has no form with exact noise: another method is named in its place."""
    slow = sd.with_noise(sd.SDE(lambda t, x: -0.1 * x, None, 0.0), co.gauss_markov(1.0, 1.0), "x")
    with pytest.warns(NoiseNotDelivered) as caught:
        slow.check_step(sd.method("EulerMaruyama"), 0.1)
    with pytest.raises(ValueError, match="AB4 makes the coloured noise grow") as raised:
        GUST.check_step(sd.method("AB4"), 1.0)
    for said, expected in ((caught[0].message, "EulerMaruyama"), (raised.value, "Heun")):
        (named,) = re.findall(r"ExactNoise\('(\w+)'\)", str(said))
        assert named == expected and sd.ExactNoise(named).for_steps(GUST, 0.1).own.n == 2


def theta_euler(h):
    """Variances in the long run of (x, v, y), x'' = -25 x - .2 x' + y, dy = -y/2 dt + dW, by implicit Euler steps over
    those of the equations."""
    A = np.array([[0.0, 1.0, 0.0], [-25.0, -0.2, 1.0], [0.0, 0.0, -0.5]])
    M = np.linalg.inv(np.eye(3) - h * A)
    Q = np.diag([0.0, 0.0, 1.0])
    delivered = scipy.linalg.solve_discrete_lyapunov(M, h * M @ Q @ M.T)
    return np.diagonal(delivered) / np.diagonal(scipy.linalg.solve_continuous_lyapunov(A, -Q))


def test_where_the_response_is_the_larger_error_a_step_is_advised_that_cures_it():
    """Exact noise leaves x' 96.3 % too small."""
    ringing = sd.SDE(lambda t, x: jnp.stack([x[1], -25.0 * x[0] - 0.2 * x[1]]), None, (0.0, 0.0), names=("x", "v"))
    driven = sd.with_noise(ringing, co.gauss_markov(1.0, 2.0, "y"), "v")
    with pytest.warns(NoiseNotDelivered) as caught:
        driven.check_step(sd.method("ThetaEuler"), 0.2)
    words = str(caught[0].message)
    x, v, y = theta_euler(0.2)
    assert f"of y {100 * (1 - y):.3g} % too small, and that of v in the long run {100 * (1 - v):.3g} % too" in words
    assert "ExactNoise" not in words and x > v
    longest = float(re.search(r"Take steps of (\S+) or less", words)[1])
    assert abs(theta_euler(longest)[2] - 1.0) <= 0.02
    assert np.abs(theta_euler(longest) - 1.0).max() <= 0.05 < np.abs(theta_euler(1.25 * longest) - 1.0).max()


def test_problems_and_bases_that_do_not_fit_are_refused():
    run = {"t": (0, 1), "dt": 0.1, "paths": 4, "seed": 1}
    with pytest.raises(TypeError, match=r"ExactNoise\(RK4\) takes Driven problems, but the problem is of type SDE"):
        sd.simulate(STILL, sd.ExactNoise("RK4"), **run)
    with pytest.raises(TypeError, match="base: expected a one-step method such as RK4, got 'AB4', which has a history"):
        sd.ExactNoise("AB4")
    with pytest.raises(TypeError, match=r"base: expected a method that makes steps, or its name, .* got VanLoan"):
        sd.ExactNoise("VanLoan")
    with pytest.raises(ValueError, match=r"dt: ExactNoise\(RK4\) draws coloured noise from its law over one length"):
        sd.simulate(GUST, sd.ExactNoise("RK4"), **run | {"t": (0, 0.1), "dt": [0.04, 0.02, 0.04]})
    with pytest.raises(TypeError, match=r"for a single step take method.for_steps\(problem, dt\)"):
        assert sd.ExactNoise("RK4").needs


def test_methods_for_other_problems_are_refused():
    oscillator = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0] - 0.2 * x[1]]), None, (0.0, 0.0))
    driven = sd.with_noise(oscillator, co.gauss_markov(1.0, 2.0), 1)
    with pytest.raises(ValueError, match="StochasticAlpha steps Mechanical problems"):
        sd.simulate(driven, sd.ExactNoise("StochasticAlpha"), t=(0, 1), dt=0.1, paths=4, seed=1)


@pytest.mark.parametrize("method", ["ExactNoise(Heun)", "StochasticAlpha"])
def test_a_step_of_another_length_than_the_law_of_its_noise_is_not_sound(method):
    """Up to rounding in single precision it is the same; questions about the step itself may ask for any length."""
    spring = sd.Mechanical(lambda t, x, v: -x - 0.1 * v, None, (0.0, 0.0))
    problem = sd.with_noise(spring, co.gauss_markov(1.0, 1.0), [1.0])
    stepped = matched(problem, sd.method(method))[0]
    ready = sd.method(method).prepared(stepped, 0.2)
    counts = ready.needs.normals(stepped.m)

    def is_sound(h, by=ready):
        noise = ready.needs.increment(h, {name: np.zeros(count) for name, count in counts.items()}, stepped.m)
        state = ready.start(stepped, 0.0, jnp.asarray(stepped.example_start()), stepped.params)
        return jnp.asarray(by.step(stepped, 0.0, state, noise, stepped.params)[1].ok)

    off = np.array([0.0, 1e-7, -1e-7, 1e-5, -1e-5])
    np.testing.assert_array_equal(at_points(is_sound, 0.2 * (1.0 + off)), np.abs(off) < 1e-6)
    assert is_sound(0.05, ready.at_any_length()) and is_sound(0.05, ready.with_steps(0.05))
