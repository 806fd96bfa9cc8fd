"""Stationary covariances against closed forms and against elimination in 80 digits."""

import importlib.util
import math
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from stodyn.circuits import read
from stodyn.noise import coloured
from stodyn.numerics import lyapunov
from stodyn.numerics.lyapunov import continuous, discrete
from stodyn.numerics.van_loan import covariance, discretise

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "lyapunov.py"
specification = importlib.util.spec_from_file_location("benchmark_of_lyapunov", BENCHMARK)
benchmark = importlib.util.module_from_spec(specification)
specification.loader.exec_module(benchmark)

rng = np.random.default_rng(11)
MATRIX = rng.normal(size=(4, 4)) - 1.5 * np.eye(4)
SPREAD = rng.normal(size=(4, 2))
COLOUR = np.array([[1.0, 0.3], [0.3, 0.5]])

AMPLIFIER = """transimpedance amplifier with an op-amp of gain 1e5 and 100 MHz
Cd in 0 20p
Rf in out 100k
Cf in out .2p
E1 x 0 0 in 1e5
R1 x y 1
C1 y 0 159.1549u
E2 out 0 y 0 1
"""


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("number", range(28))
def test_every_variance_of_random_systems(number):
    """Of rates from 1e-12 to 1e12 and up to 1e14 apart; benchmarks/lyapunov.py asks for 300."""
    _, A, Q = benchmark.system(number)
    variances = continuous(A, Q).diagonal()
    assert benchmark.off(variances, benchmark.exact_variances(A, Q)) <= 1e-12
    assert (variances >= 0.0).all()


@pytest.mark.parametrize("number", range(14))
def test_every_variance_of_random_systems_in_steps(number):
    _, A, Q = benchmark.system(number)
    Phi = discretise(A, np.eye(len(A)), np.eye(len(A)), 0.1 / np.abs(np.linalg.eigvals(A)).max())[0]
    exact = benchmark.exact_variances(Phi, Q, discrete=True)
    if (exact > 0.0).all():  # rounding of Phi may have made it one that grows
        assert benchmark.off(discrete(Phi, Q).diagonal(), exact) <= 1e-11


@pytest.mark.parametrize("rate", [1e-12, 1e-6, 3e5, 1e7, 1e12])
def test_filters_at_any_rate(rate):
    noise = coloured.gauss_markov2(1.0, rate, 0.5)
    np.testing.assert_allclose(noise.variance, 1.0, rtol=1e-13)
    np.testing.assert_allclose(coloured.kanai_tajimi(rate, 0.1, sigma=1.0).variance, 1.0, rtol=1e-12)
    start = noise.sample(0.1 / rate, 1, paths=4000, seed=1)[:, 0, 0]
    assert abs(start.std() - 1.0) < 5.0 / math.sqrt(8000)


def test_amplifier_has_the_variance_that_its_spectrum_has():
    circuit = read(AMPLIFIER).small_signal
    variance = circuit.covariance()[circuit.component("out"), circuit.component("out")]
    frequency = np.geomspace(1.0, 1e12, 800)
    density = circuit.spectrum("out", frequency).density
    assert math.isclose(variance, np.trapezoid(density * frequency, np.log(frequency)), rel_tol=1e-3)


def test_outputs_that_are_small_differences_keep_their_digits():
    """Two filters of one noise whose rates differ by 1e-9: E (x1 - x2)² = 1/2a + 1/2b - 2/(a + b)."""
    a, b = 1.0, 1.0 + 2.0**-30
    (variance,) = continuous(np.diag([-a, -b]), np.ones((2, 2)), [[1.0, -1.0]]).ravel()
    assert math.isclose(variance, (b - a) ** 2 / (2.0 * a * b * (a + b)), rel_tol=1e-9)


def test_noise_that_cancels_or_never_arrives_gives_no_variance():
    A = np.array([[-1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0], [1.0, -1.0, -3.0, 0.0], [0.0, 0.0, 0.0, -0.1]])
    Q = np.zeros((4, 4))
    Q[:2, :2] = 0.7
    P = continuous(A, Q)
    np.testing.assert_allclose(P, np.pad(np.full((2, 2), 0.35), (0, 2)), rtol=1e-15)
    assert (discrete(0.3 * np.eye(2), np.zeros((2, 2))) == 0.0).all()


def test_blocks_are_those_of_components_that_reach_each_other():
    """Whatever the order of components, and in whichever order memory has the entries."""
    generator = np.random.default_rng(2)
    for number in range(300):
        n = int(generator.integers(1, 8))
        A = np.where(generator.random((n, n)) < generator.uniform(0.0, 0.5), generator.normal(size=(n, n)), 0.0)
        A = np.tril(A) if number % 3 == 0 else A
        mixed = generator.permutation(n)
        A = A[mixed][:, mixed]
        reaches = np.linalg.matrix_power((A != 0.0) + np.eye(n), n) > 0.0
        order, ends = lyapunov._blocks(A)
        block = np.searchsorted(ends, np.argsort(order), side="right")
        np.testing.assert_array_equal(block == block[:, None], reaches & reaches.T)
        assert (A[block[:, None] > block] == 0.0).all()


def test_rates_without_a_common_scale():
    np.testing.assert_allclose(continuous(np.diag([-1e12, -1e-12]), np.eye(2)).diagonal(), [5e-13, 5e11], rtol=1e-15)


def test_lyapunov_closed_forms():
    omega, damping, strength = 3.0, 0.2, 0.7
    A = np.array([[0, 1], [-(omega**2), -2 * damping]])
    P = continuous(A, np.diag([0, strength**2]))
    np.testing.assert_allclose(P, strength**2 / (4 * damping) * np.diag([1 / omega**2, 1]), rtol=1e-13, atol=1e-16)
    S = SPREAD @ COLOUR @ SPREAD.T
    A = MATRIX - 2 * np.eye(4)
    P = continuous(A, S)
    np.testing.assert_allclose(P, covariance(A, SPREAD, COLOUR, np.zeros((4, 4)), 200.0), rtol=1e-12)
    assert np.abs(A @ P + P @ A.T + S).max() < 1e-14 * np.abs(S).max() * 10


@pytest.mark.parametrize("n", [1, 3, 12])
def test_discrete_lyapunov_is_the_sum_of_all_powers(n):
    generator = np.random.default_rng(n)
    Phi = generator.normal(size=(n, n))
    Phi *= 0.8 / np.abs(np.linalg.eigvals(Phi)).max()
    root = generator.normal(size=(n, n))
    Q = root @ root.T
    total, power = np.zeros((n, n)), np.eye(n)
    for _ in range(400):
        total, power = total + power @ Q @ power.T, Phi @ power
    np.testing.assert_allclose(discrete(Phi, Q), total, rtol=1e-11, atol=1e-13 * np.abs(total).max())
    assert math.isclose(discrete([[0.5]], [[3.0]])[0, 0], 4.0, rel_tol=1e-15)


def test_sampling_a_stationary_process_leaves_it_stationary():
    A = MATRIX - 2 * np.eye(4)
    Phi, Qd = discretise(A, SPREAD, COLOUR, 0.3)
    np.testing.assert_allclose(discrete(Phi, Qd), continuous(A, SPREAD @ COLOUR @ SPREAD.T), rtol=1e-12)


def test_unstable_systems_are_named_by_their_eigenvalue():
    with pytest.raises(ValueError, match=r"eigenvalue 0\.25 does not have a negative real part"):
        continuous(np.diag([-1.0, 0.25]), np.eye(2))
    with pytest.raises(ValueError, match=r"eigenvalue 0[+-]2i"):
        continuous([[0.0, 1.0], [-4.0, 0.0]], np.eye(2))
    with pytest.raises(ValueError, match=r"eigenvalue -1\.5 has the modulus 1\.5"):
        discrete(np.diag([0.2, -1.5]), np.eye(2))
    with pytest.raises(ValueError, match=r"eigenvalue -1 has the modulus 1,"):
        discrete([[-1.0]], [[1.0]])


def test_a_mode_that_rounding_hides_is_refused_by_name():
    """The matrix is singular, and LAPACK gives its eigenvalue 0 some sign."""
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    A = basis @ np.diag([-1.0, -2.0, 0.0]) @ basis.T
    A[2] = A[0] + A[1]
    A[:, 2] = A[:, 0] + A[:, 1]
    with pytest.raises(ValueError, match=r"eigenvalue -?\d.*e-1\d does not have a negative real part"):
        continuous(A, np.eye(3))


def test_a_matrix_that_is_no_covariance_is_refused():
    with pytest.raises(ValueError, match=r"Q: expected a covariance, .* got one whose lowest is -1"):
        continuous(-np.eye(2), np.diag([1.0, -1.0]))


@pytest.mark.parametrize("Q", [[[1.0, 1.5], [1.5, 1.0]], [[1.0, 0.5], [0.2, 1.0]]], ids=["indefinite", "unsymmetric"])
def test_a_matrix_that_is_no_covariance_is_refused_though_it_gives_positive_variances(Q):
    with pytest.raises(ValueError, match=r"Q: expected a covariance, symmetric and with eigenvalues of 0 or more"):
        continuous([[-1.0, 1.0], [0.0, -1.0]], Q)
    with pytest.raises(ValueError, match=r"Q: expected a covariance, symmetric and with eigenvalues of 0 or more"):
        discrete([[0.3, 0.1], [0.0, 0.3]], Q)


def test_rounding_makes_no_covariance_indefinite():
    """Singular ones, in units far apart, from products and from sums."""
    generator = np.random.default_rng(5)
    for _ in range(20):
        B = generator.normal(size=(5, 2)) * 10.0 ** generator.uniform(-8, 8, (5, 1))
        assert (continuous(-np.eye(5), B @ B.T).diagonal() > 0.0).all()
    phases = np.array([[1.0, 1.0 / 3.0], [1.0 / 3.0, 1.0 / 9.0]])
    assert (continuous(-np.eye(2), phases).diagonal() > 0.0).all()


def test_sizes_that_numbers_do_not_have_are_refused_in_words():
    with pytest.raises(ValueError, match=r"A: expected a finite square matrix, not empty, got shape \(0, 0\)"):
        continuous(np.zeros((0, 0)), np.zeros((0, 0)))
    for size in (1e-300, 1e300):
        with pytest.raises(ValueError, match=r"A: its largest entry is 1e[+-]300, expected one from 1e-250 to 1e\+250"):
            continuous(-size * np.array([[1.0, 0.2], [0.2, 1.0]]), np.eye(2))
        with pytest.raises(ValueError, match=r"Q: its largest entry is 1e[+-]300"):
            discrete(0.5 * np.eye(2), size * np.eye(2))


@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.parametrize(
    ("equation", "solve"), [(lyapunov._Continuous, continuous), (lyapunov._Discrete, discrete)], ids=["rate", "step"]
)
def test_residuals_have_twice_as_many_digits(equation, solve, n):
    """Against fractions, at the solution, where nearly all of a residual cancels: what is left is right to a few units
    of its own and to 2^-96 of what cancels, entries of each row and column in units of their own."""
    rng = np.random.default_rng(5)
    A, B, low = rng.standard_normal((3, n, n)) * 0.3 / np.sqrt(n)
    A = A - 0.5 * np.eye(n) if solve is continuous else A
    unit = 2.0 ** rng.integers(-20, 20, n)
    A, Q = A * unit[:, None] / unit, (B @ B.T) * unit[:, None] * unit
    P, low = solve(A, Q), 1e-17 * (low + low.T) * unit[:, None] * unit
    F, G, S, s = (np.vectorize(Fraction, otypes=[object])(matrix) for matrix in (A, Q, P, low))
    exact = F @ (S + s) + (S + s) @ F.T + G if solve is continuous else F @ (S + s) @ F.T - S - s + G
    exact, size = exact.astype(float), P.diagonal().max()
    off = np.abs(equation(A, Q).residual(P, low) - exact)
    largest = np.abs(A).max() * size if solve is continuous else (1.0 + np.abs(A).max()) ** 2 * size
    assert (off <= 2.0**-50 * np.abs(exact) + 2.0**-96 * largest).all()
    assert np.abs(exact).max() < 1e-12 * largest


def test_residuals_of_sizes_far_apart_are_finite():
    far = np.array([[1e200, 1e-200], [1e-200, 1.0]])
    assert np.isfinite(lyapunov._Continuous(-np.eye(2), np.eye(2)).residual(far, 0.0 * far)).all()
