"""Linear systems from matrices, and measurements of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis import covariance
from stodyn.analysis.linear import coefficients
from stodyn.problems.linear import GaussianStart, linear
from stodyn.problems.measured import with_measurement

pytestmark = pytest.mark.usefixtures("quick_compiling")

A, B = np.array([[0.0, 1.0], [-2.0, -0.5]]), np.array([[0.0, 1.0], [1.0, 0.5]])
Q = np.array([[0.5, 0.2], [0.2, 0.4]])


def test_matrices_come_back():
    found = coefficients(linear(A, B, Q, Bu=[[1.0], [0.0]], u=3.0))
    np.testing.assert_allclose(found.A, A, atol=1e-15)
    np.testing.assert_allclose(found.a, [3.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(found.b.T @ found.b, B @ Q @ B.T, atol=1e-14)
    assert not found.B.any()


def test_matrices_that_change_with_time():
    problem = linear(lambda t: A * (1.0 + t), B, lambda t: jnp.asarray(Q) * (1.0 + t * t))
    found = coefficients(problem, 2.0)
    np.testing.assert_allclose(found.A, 3 * A, atol=1e-14)
    np.testing.assert_allclose(found.b.T @ found.b, 5 * B @ Q @ B.T, atol=1e-13)


def test_noise_is_proved_additive():
    assert linear(A, B, Q).noise_structure.kind == "additive"


def test_start_is_drawn_with_its_covariance_even_where_it_is_singular():
    problem = linear(A, B, mean=[1.0, 2.0], covariance=[[1.0, 1.0], [1.0, 1.0]])
    x = problem.draw_start(np.random.default_rng(1), range(20_000))
    np.testing.assert_allclose(x[:, 0] - 1.0, x[:, 1] - 2.0, atol=1e-7)
    assert x[:, 0].var() == pytest.approx(1.0, abs=0.05)  # five standard errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear(np.eye(3), B), r"A: expected shape \(2, 2\)"),
        (lambda: linear(A, [1.0, 2.0]), "B: expected a finite matrix"),
        (lambda: linear(A, B, -Q), "Q: indefinite"),
        (lambda: linear(A, B, np.ones((2, 2))), "Q: singular.*Leave out the channels"),
        (lambda: linear(A, B, np.eye(3)), r"Q: expected a symmetric matrix of shape \(2, 2\)"),
        (lambda: linear(A, B, Q * [[1.0, 1.5], [1.0, 1.0]]), "Q: expected a symmetric matrix"),
        (lambda: linear(A, B, 1e-9 * (Q * [[1.0, 1.5], [1.0, 1.0]])), "Q: expected a symmetric matrix"),
        (lambda: linear(A, B, covariance=-np.eye(2)), "covariance: expected"),
        (lambda: with_measurement(linear(A, B), [[1.0]], 1.0), "H: expected a finite matrix with 2 columns"),
        (lambda: with_measurement(linear(A, B), [[1.0, 0.0]], -1.0), "R: indefinite"),
        (lambda: with_measurement(A, [[1.0, 0.0]], 1.0), "problem: expected a problem"),
    ],
)
def test_matrices_that_do_not_fit_are_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


H, R = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.1, 0.02], [0.02, 0.3]])


@pytest.mark.parametrize("method", ["RK4", "AM4", "VanLoan"])
def test_measurements_have_their_exact_covariance(method):
    problem, dt = linear(A, B, Q, mean=[1.0, 0.0]), 0.05
    measured = with_measurement(problem, H, R, names=("position", "mix"))
    run = sd.simulate(
        measured, method, t=(0, 1), dt=dt, paths=40_960, seed=7, collect=sd.statistics.Moments(at=[0.0, 1.0])
    )
    assert list(run["component"].values) == ["x0", "x1", "position", "mix"]
    P = run["covariance"].values[1]
    if method == "VanLoan":
        exact = covariance.exact(problem, 1.0).covariance
    else:
        exact = covariance.delivered(problem, method, dt, 20).covariance[-1]
    expected = np.block([[exact, exact @ H.T], [H @ exact, measured.covariance(exact, dt)]])
    # A covariance of N normal pairs has the standard error √((P_ii P_jj + P_ij²)/N); five of them.
    error = np.sqrt((np.outer(np.diagonal(expected), np.diagonal(expected)) + expected**2) / 40_960)
    assert (abs(P - expected) <= 5 * error).all()
    np.testing.assert_allclose(run["mean"].values[0], [1.0, 0.0, 1.0, 1.0], atol=1e-14)


def test_measuring_does_not_change_the_paths():
    problem = linear(A, B, Q)
    plain, measured = (
        sd.simulate(p, "RK4", t=(0, 1), dt=0.1, paths=100, seed=2, collect=sd.statistics.Paths(100, every=1))
        for p in (problem, with_measurement(problem, H, R))
    )
    np.testing.assert_allclose(measured["path"].values[..., :2], plain["path"].values, rtol=1e-13)


def test_measured_paths_can_be_replayed():
    problem = with_measurement(linear(A, B, Q), H, R)
    run = sd.simulate(problem, "RK4", t=(0, 1), dt=0.1, paths=10, seed=2, collect=sd.statistics.Paths(10, every=1))
    again = sd.replay(problem, "RK4", run, 3)
    assert np.array_equal(again["path"].values, run["path"].values[3])


def test_recommended_method_of_a_measured_problem_is_that_of_the_problem():
    problem = linear(A, B, Q)
    runs = [sd.simulate(p, t=(0, 0.1), dt=0.1, paths=4, seed=1) for p in (problem, with_measurement(problem, H, R))]
    assert len({sd.provenance(run)["method"] for run in runs}) == 1


def test_starts_made_by_numbers_alone_trace_in_either_precision():
    with jax.enable_x64(False):
        run = sd.simulate(linear(-1.0, 1.0), "RK4", t=(0, 1), dt=0.5, paths=4, seed=1, dtype="float32")
    assert run["mean"].shape == (3, 1)


@pytest.mark.parametrize("covariance", [np.eye(3), np.diag([1.0, -1e-6]), np.ones((2, 1))])
def test_covariances_that_no_start_has_are_refused(covariance):
    with pytest.raises(
        ValueError, match=r"covariance: expected a matrix of shape \(2, 2\) without negative eigenvalues"
    ):
        GaussianStart(np.zeros(2), covariance)


def test_a_singular_covariance_moves_its_directions_alone():
    drawn = GaussianStart(np.array([1.0, 2.0]), np.ones((2, 2)))(np.random.default_rng(1), 50)
    np.testing.assert_allclose(drawn[:, 0] - 1.0, drawn[:, 1] - 2.0, atol=1e-7)
    assert 0.5 < drawn[:, 0].std() < 1.5


def test_an_intensity_given_as_a_function_is_looked_at_in_float64():
    """Rounded to float32 it would be singular."""
    with jax.enable_x64(False):
        assert linear(-np.eye(2), np.eye(2), lambda t: jnp.array([[1.0, 1.0], [1.0, 1.0 + 1e-10]])).m == 2


def test_an_entry_that_is_zero_but_for_rounding_does_not_make_an_intensity_unsymmetric():
    """1e-17 above the diagonal and 0 below, beside variances of 1."""
    problem = linear(-np.eye(2), np.eye(2), Q=np.array([[1.0, 1e-17], [0.0, 1.0]]))
    assert problem.m == 2
    with pytest.raises(ValueError, match="expected a symmetric matrix"):
        linear(-np.eye(2), np.eye(2), Q=np.array([[1.0, 1e-9], [0.0, 1.0]]))
