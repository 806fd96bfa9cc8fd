"""Coloured noise in the equations of any problem: an exact rewriting with white noise."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.analysis import covariance
from stodyn.analysis.integrator import linear_step
from stodyn.analysis.linear import coefficients
from stodyn.noise import coloured as co
from stodyn.numerics import lyapunov
from stodyn.numerics.printing.points import at_one
from stodyn.numerics.uncompiled import value
from stodyn.problems.driven import delivered_variance
from stodyn.problems.linear import linear
from stodyn.warnings import NoiseNotDelivered, ResponseNotDelivered

pytestmark = pytest.mark.usefixtures("quick_compiling")

OSCILLATOR = np.array([[0.0, 1.0], [-4.0, -0.5]])
STILL = sd.SDE(lambda t, x: OSCILLATOR @ x, lambda t, x: jnp.zeros((2, 1)), [0.0, 0.0], names=("x", "v"))
WIND = co.dryden(1.0, 1.5, 2.0, components="uw")


def test_matrices_of_the_joint_system():
    G = np.array([[0.0, 0.0], [1.0, 0.5]])
    problem = sd.with_noise(STILL, WIND, G)
    found = coefficients(problem)
    wind = WIND.with_outputs_first()
    np.testing.assert_allclose(found.A, np.block([[OSCILLATOR, G @ wind.C], [np.zeros((3, 2)), wind.A]]), atol=1e-14)
    np.testing.assert_allclose(found.b.T, np.concatenate([np.zeros((2, 2)), wind.B]), atol=1e-15)
    assert problem.m == 2, "the channel of the problem that is known to be quiet is left out"
    assert problem.components == ("x", "v", "u_g", "w_g", "u_g.2")
    assert problem.noise_structure.kind == "additive"


@pytest.mark.parametrize("name", ["RK4", "SRA1", "AB4", "EulerMaruyama"])
def test_variance_of_the_noise_that_a_method_delivers(name):
    wind, h = WIND.with_outputs_first(), 0.3
    exact = np.diagonal(wind.C @ covariance.steady(name, wind.A, wind.B, h) @ wind.C.T)
    np.testing.assert_allclose(delivered_variance(sd.method(name), wind, h), exact, rtol=1e-10)


def test_steps_too_long_for_the_noise_are_told():
    problem, heun = sd.with_noise(STILL, co.gauss_markov(1.0, 0.5, "gust"), "v"), sd.method("Heun")
    heun.prepared(problem, 0.1)  # z = -0.2 leaves -1.1 %
    with pytest.warns(NoiseNotDelivered, match=r"variance of gust 4.76 % too small.*ExactNoise\('Heun'"):
        heun.prepared(problem, 0.2)  # z = -0.4
    with pytest.raises(ValueError, match=r"dt: Heun makes the coloured noise grow with steps of 1.* rates up to 2"):
        heun.prepared(problem, 1.0)
    for right in (sd.ExactNoise(heun), sd.method("VanLoan")):
        assert right.prepared(problem, 1.0).spelling == right.spelling  # without a warning


def test_steps_too_long_for_what_the_noise_drives_are_told():
    """The noise is right at any step with ExactNoise; of the oscillator the exact covariance is known."""
    problem = sd.with_noise(STILL, co.dryden(1.0, 1.0, 1.0, components="w"), "v")
    exact = lyapunov.continuous(coefficients(problem).A, coefficients(problem).b.T @ coefficients(problem).b)[1, 1]
    for dt, is_told in ((0.5, True), (0.05, False)):
        method = sd.ExactNoise("RK4")
        step = linear_step(problem, method, dt)
        lost = 1 - lyapunov.discrete(step.M, step.G @ step.G.T)[1, 1] / exact
        assert (lost > 0.05) == is_told
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            method.prepared(problem, dt)
        words = f"ExactNoise(RK4) makes the variance of v in the long run {100 * lost:.3g} % too small"
        assert [words in str(w.message) for w in found] == [True] * is_told
    with pytest.warns(ResponseNotDelivered, match="Heun makes the variance of v in the long run .* too large"):
        sd.method("Heun").prepared(sd.with_noise(STILL, co.gauss_markov(1.0, 5.0, "gust"), "v"), 0.5)
    integrating = sd.SDE(lambda t, x: jnp.array([x[1], 0.0 * x[0]]), None, [0.0, 0.0], names=("x", "v"))
    sd.method("RK4").prepared(sd.with_noise(integrating, co.gauss_markov(1.0, 5.0, "gust"), "v"), 0.5)


def test_the_error_of_the_response_is_named_beside_that_of_the_noise():
    """EulerMaruyama makes the noise 4 % too strong, and the oscillator more than twice."""
    swinging = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0] - 0.2 * x[1]]), None, [0.0, 0.0], names=("x", "v"))
    problem, euler = sd.with_noise(swinging, co.gauss_markov(1.0, 1.25, "gust"), "v"), sd.method("EulerMaruyama")
    step, exact = linear_step(problem, euler, 0.1), coefficients(problem)
    delivered = np.diagonal(lyapunov.discrete(step.M, step.G @ step.G.T))
    ratios = delivered / np.diagonal(lyapunov.continuous(exact.A, exact.b.T @ exact.b))
    words = rf"variance of gust {100 * (ratios[2] - 1):.3g} % too large, and that of \w in the long run "
    with pytest.warns(NoiseNotDelivered, match=f"{words}{100 * (ratios[:2].max() - 1):.3g} % too large"):
        euler.prepared(problem, 0.1)


def test_steps_on_the_margin_of_stability_are_no_error():
    """Euler's steps of 2ζ/ω make the oscillator's eigenvalue 1 to rounding: nothing is known of its long run."""
    swinging = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0] - 0.1 * x[1]]), None, [0.0, 0.0], names=("x", "v"))
    problem = sd.with_noise(swinging, co.gauss_markov(1.0, 20.0, "gust"), "v")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sd.method("EulerMaruyama").prepared(problem, 0.1)
    assert not [w for w in found if w.category is ResponseNotDelivered]


def test_problems_without_white_noise():
    quiet = sd.SDE(STILL.drift, None, [0.0, 0.0])
    assert quiet.m == 1 and not np.any(quiet.g(0.0, jnp.ones(2), None))
    assert sd.with_noise(quiet, WIND, [[0, 0], [1, 1]]).m == WIND.B.shape[1]
    assert sd.SDE(lambda t, x, p: -p * x, None, 1.0, params=2.0).g(0.0, jnp.ones(1), 2.0) == 0.0


def test_noise_of_the_problem_stays_with_its_calculus():
    own = sd.SDE(lambda t, x: -x, lambda t, x: 0.3 * x, 1.0, calculus="stratonovich")
    problem = sd.with_noise(own, co.gauss_markov(1.0, 2.0, "wind"), "x")
    assert problem.calculus == "stratonovich" and problem.m == 2 and problem.components == ("x", "wind")
    g = problem.g(0.0, jnp.array([2.0, 5.0]), None)
    np.testing.assert_allclose(g, [[0.6, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(problem.f(0.0, jnp.array([2.0, 5.0]), None), [3.0, -2.5])


def test_places_by_name_number_matrix_and_function_agree():
    noise = co.gauss_markov(1.0, 2.0)
    z = np.array([0.3, -0.4, 2.0])
    expected = np.append(OSCILLATOR @ z[:2] + np.array([0.0, 2.0]), -1.0)
    for into in ("v", 1, ["v"], [[0.0], [1.0]], [0.0, 1.0], lambda t, x: jnp.array([[0.0], [1.0]])):
        problem = sd.with_noise(STILL, noise, into)
        np.testing.assert_allclose(at_one(lambda z: problem.f(0.0, z, None), z), expected, atol=1e-14)


def test_input_that_depends_on_state_time_and_parameters():
    quiet = sd.SDE(lambda t, x, p: -x, lambda t, x, p: 0.0 * x, 1.0, params={"k": 3.0})
    problem = sd.with_noise(quiet, co.gauss_markov(1.0, 2.0), lambda t, x, p: p["k"] * t * x)
    np.testing.assert_allclose(problem.f(2.0, jnp.array([0.5, 4.0]), {"k": 3.0})[0], -0.5 + 3.0 * 2.0 * 0.5 * 4.0)


def test_two_noises_after_each_other():
    both = sd.with_noise(sd.with_noise(STILL, co.gauss_markov(1.0, 2.0, "a"), "v"), co.gauss_markov(2.0, 0.5, "b"), "x")
    assert both.components == ("x", "v", "a", "b") and both.m == 2
    np.testing.assert_allclose(both.f(0.0, jnp.array([0.0, 0.0, 3.0, 5.0]), None), [5.0, 3.0, -1.5, -10.0])


def test_hamiltonian_problems_are_driven_too():
    pendulum = sd.Hamiltonian(lambda t, q, p: 0.5 * p**2 - jnp.cos(q), force=lambda t, q, p: -0.2 * p, start=(1.0, 0.0))
    problem = sd.with_noise(pendulum, co.gauss_markov(0.5, 1.0, "push"), "p")
    assert isinstance(problem, sd.SDE) and problem.m == 1 and problem.components == ("q", "p", "push")
    run = sd.simulate(problem, "RK4", t=(0, 1), dt=0.05, paths=16, seed=1)
    assert np.isfinite(run["mean"].values).all()


def test_starts_in_the_stationary_law_beside_any_start_of_the_problem():
    noise = co.gauss_markov2(2.0, 1.5, 0.3)
    starts = {
        "fixed": [1.0, -1.0],
        "drawn": scipy.stats.multivariate_normal([1.0, -1.0], 0.01 * np.eye(2)),
        "per path": sd.PerPath(np.tile([1.0, -1.0], (20_000, 1))),
        "function": lambda rng, size: np.tile([1.0, -1.0], (size, 1)),
    }
    for start in starts.values():
        own = sd.SDE(lambda t, x: -x, lambda t, x: jnp.zeros((2, 1)), start)
        z = sd.with_noise(own, noise, [[1.0], [0.0]]).draw_start(np.random.default_rng(3), range(20_000))
        np.testing.assert_allclose(z[:, :2].mean(axis=0), [1.0, -1.0], atol=0.01)
        assert z[:, 2:].var(axis=0) == pytest.approx([4.0, 9.0], rel=0.05)  # five standard errors


def test_known_starts_are_known_to_the_analysis():
    own = linear(OSCILLATOR, np.array([[0.0], [1.0]]), covariance=np.eye(2))
    problem = sd.with_noise(own, WIND, np.array([[0.0, 0.0], [1.0, 0.0]]))
    found = covariance.exact(problem, 0.0).covariance
    np.testing.assert_allclose(found[:2, :2], np.eye(2))
    np.testing.assert_allclose(found[2:4, 2:4], WIND.covariance, atol=1e-12)


def test_the_exact_discretisation_is_exact_for_a_driven_linear_problem_at_a_large_step():
    G = np.array([[0.0, 0.0], [1.0, 0.5]])
    problem = sd.with_noise(STILL, WIND, G)
    run = sd.simulate(
        problem, "VanLoan", t=(0, 30), dt=3.0, paths=40_960, seed=2, collect=sd.statistics.Moments(at=[30.0])
    )
    found = coefficients(problem)
    exact = lyapunov.continuous(found.A, found.b.T @ found.b)
    spread = np.sqrt((np.outer(np.diagonal(exact), np.diagonal(exact)) + exact**2) / 40_960)
    # Four standard errors of 15 different entries: a false alarm in one of a thousand.
    assert (abs(run["covariance"].values[0] - exact) <= 4 * spread + 1e-4 * abs(exact)).all()


def test_methods_deliver_what_the_analysis_says_of_them():
    """RK4 on the Dryden filter at h V/L = 0.5: -4.8 % with held samples, as told before the run."""
    problem = sd.with_noise(STILL, co.dryden(1.0, 1.0, 1.0, components="w"), "v")
    expected = covariance.delivered(problem, sd.method("RK4"), 0.5, 24).covariance[-1]
    assert expected[2, 2] == pytest.approx(1 - 0.048, abs=5e-4)
    with pytest.warns(NoiseNotDelivered, match=r"w_g 4\.8 % too small"):
        run = sd.simulate(problem, "RK4", t=(0, 12), dt=0.5, paths=40_960, seed=3,
                          collect=sd.statistics.Moments(at=[12.0]))  # fmt: skip
    assert list(run["component"].values) == ["x", "v", "w_g", "w_g.1"]
    # Four standard errors of four variances: a false alarm in one of 4000.
    stderr = run["variance_stderr"].values[0]
    assert (np.abs(run["variance"].values[0] - np.diagonal(expected)) <= 4 * stderr).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sd.with_noise(STILL, WIND, "v"), r"into: 1 component\(s\) for the 2 output\(s\)"),
        (lambda: sd.with_noise(STILL, WIND["u_g"], "w"), "into: there is no component 'w'; the components are x, v"),
        (lambda: sd.with_noise(STILL, WIND["u_g"], 2), "into: there is no component 2"),
        (lambda: sd.with_noise(STILL, WIND, np.eye(3)), r"into: expected a finite matrix of shape \(2, 2\)"),
        (lambda: sd.with_noise(STILL, 3.0, "v"), "noise: expected coloured noise"),
        (lambda: sd.with_noise(OSCILLATOR, WIND, "v"), "problem: expected a problem"),
        (lambda: sd.with_noise(sd.with_measurement(STILL, [[1.0, 0.0]], 1.0), WIND["u_g"], "v"), "add noise before"),
        (lambda: sd.with_noise(STILL, WIND["u_g"].named("x"), "v"), r"already has components called \['x'\]"),
        (lambda: sd.with_noise(STILL, WIND, lambda t, x: jnp.ones(3)), r"into: returned shape \(3,\), expected \(2, 2"),
        (lambda: sd.with_noise(STILL, WIND, lambda t: jnp.ones((2, 2))), r"into: must take into\(t, x\)"),
    ],
)  # fmt: skip
def test_noise_into_what_is_not_there_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_where_noise_enters_may_depend_on_numbers_and_on_velocities_behind_joints():
    """A function `into` sees x and v in the user's form: numbers where the start is a pair of numbers."""
    one = sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.5))
    colour = co.gauss_markov(1.0, 2.0)
    assert sd.with_noise(one, colour, lambda t, x, v: jnp.array([[x * v]])).n == 3
    rod = sd.Mechanical(
        lambda t, x, v: -x, None, ([1.0, 0.0], [0.0, 0.5]), constraints=lambda t, x: (x @ x - 1.0)[None], impulses=True
    )
    assert sd.with_noise(rod, colour, lambda t, x, v: (x + v)[:, None]).n == 6


def test_a_mechanical_system_with_its_filter_has_the_same_equations_as_an_sde_and_as_an_sdae():
    mass = sd.Mechanical(lambda t, x, v: -(x**3) - 0.1 * v + jnp.sin(t), None, (1.0, 0.0))
    problem = sd.with_noise(mass, co.gauss_markov(2.0, 0.5), into="x")
    (plain, in_words), (algebraic, longer) = (problem.lower(kind) for kind in (sd.SDE, sd.SDAE))
    x = np.linspace(0.2, 0.9, plain.n)
    np.testing.assert_array_equal(algebraic.mass_matrix, np.eye(plain.n))
    for one, other in ((plain.f, algebraic.f), (plain.g, algebraic.g)):
        np.testing.assert_array_equal(*(value(lambda t, x: part(t, x, None), 0.7, x) for part in (one, other)))
    assert in_words.startswith("Mechanical -> SDE") and longer.endswith("the filter; SDE -> SDAE with M = 1")
    assert problem.lower(int) is None


def test_white_noise_too_small_for_single_precision_is_kept():
    """In a session of float32 1e-60 would be a zero, and the problem one without noise of its own."""
    with jax.enable_x64(False):
        faint = sd.SDE(lambda t, x: -x, lambda t, x: jnp.array([[1e-60]]), [0.0])
        assert sd.with_noise(faint, co.gauss_markov(1.0, 2.0), into=0).m == 2
