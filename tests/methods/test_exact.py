"""The exact discretisation, in steps and as a solver: the law of linear systems at any step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis import covariance
from stodyn.engine.spec import describe
from stodyn.methods.contract import Solver
from stodyn.methods.exact import VanLoan, linear_coefficients
from stodyn.numerics import lyapunov, van_loan
from stodyn.problems.linear import linear

pytestmark = pytest.mark.usefixtures("quick_compiling")

OSCILLATOR = [[0.0, 1.0], [-1.0, -0.4]]


class Quiet:
    """A generator of given normals."""

    def __init__(self, values):
        self.values = iter(values)

    def standard_normal(self, shape):
        return np.broadcast_to(next(self.values), shape)


def test_steps_are_the_transition_and_the_noise_of_van_loan():
    problem = linear(OSCILLATOR, [[0.0], [1.0]], 2.0)
    grid, start = np.array([0.0, 0.3, 1.0]), np.array([[1.0, -0.5]])
    quiet = VanLoan.solve(problem, grid, start, None, {"W": Quiet([0.0, 0.0])})
    first = van_loan.discretise(OSCILLATOR, [[0.0], [1.0]], [[2.0]], 0.3)
    second = van_loan.discretise(OSCILLATOR, [[0.0], [1.0]], [[2.0]], 0.7)
    np.testing.assert_allclose(quiet[1, 0], first[0] @ start[0], atol=1e-14)
    np.testing.assert_allclose(quiet[2, 0], second[0] @ first[0] @ start[0], atol=1e-14)
    for Phi, Qd in (first, second):
        np.testing.assert_allclose(van_loan.root(Qd) @ van_loan.root(Qd).T, Qd, atol=1e-15)
        assert Phi.shape == (2, 2)


def test_small_steps_keep_the_digits_of_the_slow_component():
    Qd = van_loan.discretise(OSCILLATOR, [[0.0], [1.0]], [[1.0]], 1e-4)[1]
    np.testing.assert_allclose(van_loan.root(Qd) @ van_loan.root(Qd).T, Qd, rtol=1e-8)


def test_an_input_that_changes_with_time_is_integrated():
    problem = linear(OSCILLATOR, [[0.0], [1.0]], Bu=[[0.0], [1.0]], u=lambda t: jnp.sin(3.0 * t), mean=[1.0, 0.0])
    states = VanLoan.solve(problem, np.array([0.0, 0.8, 1.6]), np.array([[1.0, 0.0]]), None, {"W": Quiet([0.0, 0.0])})
    np.testing.assert_allclose(states[1:, 0], covariance.exact(problem, [0.8, 1.6]).mean, atol=1e-11)


def test_law_of_a_run_with_one_large_step():
    problem = linear(OSCILLATOR, [[0.0], [1.0]], mean=[1.0, 0.0], covariance=[[0.1, 0.0], [0.0, 0.2]])
    run = sd.simulate(problem, "VanLoan", t=(0, 3), dt=1.5, paths=40_000, seed=3)
    exact = covariance.exact(problem, run["time"].values)
    # Five standard errors: a false alarm in less than one of a million runs.
    assert (abs(run["mean"].values - exact.mean) <= 5 * run["mean_stderr"].values).all()
    variance = np.diagonal(exact.covariance, axis1=1, axis2=2)
    assert (abs(run["variance"].values - variance) <= 5 * run["variance_stderr"].values).all()


DAMPED = sd.SDE(
    lambda t, x, p: jnp.array([x[1], -p["k"] * x[0] - 0.4 * x[1] + p["u"]]),
    lambda t, x, p: jnp.array([[0.0, 0.1], [p["size"], 0.0]]),
    start=[1.0, 0.0], params={"k": 4.0, "u": 0.5, "size": 0.7}, names=("x", "v"),
)  # fmt: skip


def one_step(spec):
    """The matrices of the step that a run prints: x → Φ x + a + N z, fed with unit vectors."""
    step, count, zero = spec.method, spec.method.needs.normals(2), np.zeros(2)

    def after(x, z):
        parts = np.split(np.asarray(z), np.cumsum(list(count.values()))[:-1])
        noise = step.needs.increment(0.3, dict(zip(count, parts, strict=True)), 2)
        return np.asarray(step.step(spec.problem, 0.0, jnp.asarray(x), noise, spec.problem.params)[0])

    with jax.enable_x64(True):
        quiet = np.zeros(sum(count.values()))
        a = after(zero, quiet)
        Phi = np.stack([after(e, quiet) - a for e in np.eye(2)], axis=1)
        return Phi, a, np.stack([after(zero, z) - a for z in np.eye(len(quiet))], axis=1)


def test_the_steps_of_a_run_have_the_stationary_law_of_lyapunov_at_any_length():
    spec = describe(DAMPED, "VanLoan", (0, 3), 0.3, None, "float64")
    Phi, a, N = one_step(spec)
    A, B, _, _ = linear_coefficients(DAMPED)
    P = lyapunov.continuous(A, B @ B.T)
    np.testing.assert_allclose(Phi @ P @ Phi.T + N @ N.T, P, rtol=0, atol=1e-14)
    rest = np.array([0.5 / 4.0, 0.0])
    np.testing.assert_allclose(Phi @ rest + a, rest, rtol=0, atol=1e-14)


def test_steps_are_printed_for_processors_and_cards_and_follow_the_paths_of_a_seed():
    options = {"t": (0, 1), "dt": 0.01, "paths": 3, "seed": 2, "progress": False, "collect": [st.Paths(3)]}
    runs = [sd.simulate(DAMPED, method, **options) for method in ("VanLoan", "RK4")]
    assert sd.provenance(runs[0])["executor"] == "printed"
    assert abs(runs[0]["path"] - runs[1]["path"]).max() < 0.02 < 0.3 < runs[0]["path"].std("number").max()
    card = sd.simulate(DAMPED, "VanLoan", device=jax.devices("cpu"), **options)
    assert sd.provenance(card)["executor"] == "printed"
    assert (sd.replay(DAMPED, "VanLoan", card, 1)["path"].values == card["path"][1].values).all()


def test_inputs_that_change_and_steps_that_differ_take_whole_paths():
    pushed = linear(OSCILLATOR, [[0.0], [1.0]], Bu=[[0.0], [1.0]], u=jnp.sin)
    for problem, dt in ((pushed, 0.1), (linear(-1.0, 1.0), [0.1, 0.2, 0.3])):
        assert isinstance(describe(problem, "VanLoan", (0, 0.6), dt, None, "float64").method, Solver)


def test_other_params_make_other_matrices():
    ready = sd.prepare(DAMPED, "VanLoan", t=(0, 1), dt=0.5, paths=4)
    other = {"k": 1.0, "u": 0.5, "size": 0.0}
    with pytest.raises(ValueError, match="the matrices of its steps are not made of them"):
        ready.raw(seed=1, params=other)
    mean = ready.arrays(seed=1, params=other)["mean"][-1]
    assert abs(mean - ready.arrays(seed=1)["mean"][-1]).max() > 0.1


def test_without_noise_the_steps_are_those_of_the_exponential():
    decay = sd.SDE(lambda t, x: -x, lambda t, x: jnp.zeros((1, 1)), [1.0])
    run = sd.simulate(decay, "VanLoan", t=(0, 2), dt=1.0, paths=1, seed=1, progress=False)
    np.testing.assert_allclose(run["mean"].values[:, 0], np.exp([0.0, -1.0, -2.0]), rtol=1e-14)


def test_the_same_seed_gives_the_same_paths():
    problem = linear(-1.0, 1.0)
    a, b = (sd.simulate(problem, VanLoan, t=(0, 1), dt=0.1, paths=5000, seed=4, threads=n) for n in (1, 2))
    assert np.array_equal(a["variance"], b["variance"])


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (sd.SDE(lambda t, x: -(x**3), lambda t, x: 1.0 + 0.0 * t, 1.0), "linear systems with constant coefficients"),
        (sd.SDE(lambda t, x: -t * x, lambda t, x: 1.0 + 0.0 * t, 1.0), "linear systems with constant coefficients"),
        (sd.SDE(lambda t, x: -x, lambda t, x: 1.0 + t, 1.0), "this problem's noise depends on time"),
        (sd.SDE(lambda t, x: -x, lambda t, x: x, 1.0), "made for additive noise"),
        (sd.SDE(lambda t, x, p: -p * x, lambda t, x, p: 1.0 + 0.0 * t, 1.0, params=scipy.stats.uniform(1, 2)),
         "params differ between paths"),
    ],
)  # fmt: skip
def test_what_it_is_not_made_for_is_refused(problem, message):
    with pytest.raises(ValueError, match=message):
        sd.simulate(problem, VanLoan, t=(0, 1), dt=0.1, paths=4, seed=1)


def test_coefficients_of_a_plain_sde():
    problem = sd.SDE(lambda t, x: jnp.array([x[1], -x[0] - 0.4 * x[1] + 2.0]), lambda t, x: jnp.array([[0.0], [3.0]]),
                     [0.0, 0.0])  # fmt: skip
    A, B, a, reason = linear_coefficients(problem)
    np.testing.assert_allclose(A, OSCILLATOR, atol=1e-15)
    assert reason is None and B.tolist() == [[0.0], [3.0]] and a.tolist() == [0.0, 2.0]


# Shaping filters, discretised: first- and second-order Gauss-Markov processes and the Dryden gust spectrum.


def test_first_order_gauss_markov():
    sigma, tau = 2.0, 3.0
    Phi, Qd = van_loan.discretise([[-1 / tau]], [[sigma * np.sqrt(2 / tau)]], [[1.0]], 0.2)
    assert Phi[0, 0] == pytest.approx(0.935506985031618, rel=1e-14)
    assert Qd[0, 0] == pytest.approx(0.499306723828210, rel=1e-13)


def test_second_order_gauss_markov():
    sigma, w0, zeta = 2.0, 1.5, 0.3
    A = [[0, 1], [-(w0**2), -2 * zeta * w0]]
    Phi, Qd = van_loan.discretise(A, [[0], [2 * sigma * w0 * np.sqrt(zeta * w0)]], [[1.0]], 0.2)
    np.testing.assert_allclose(
        Phi, [[0.9578960668256485, 0.18030140217424193], [-0.40567815489204434, 0.7956248048688304]], rtol=1e-13
    )
    upper = [Qd[0, 0], Qd[0, 1], Qd[1, 1]]
    assert upper == pytest.approx([0.037163140005831034, 0.26331962457058156, 2.6445314674704585], rel=1e-12)


def test_dryden_gusts_are_discretised_exactly():
    T = 5.334
    Phi, Qd = van_loan.discretise([[0, 1], [-1 / T**2, -2 / T]], [[0], [1]], [[1.0]], 0.1)
    np.testing.assert_allclose(
        Phi, [[0.9998264437640277, 0.09814269876770933], [-0.0034494668329461257, 0.9630275315901584]], rtol=1e-13
    )
    upper = [Qd[0, 0], Qd[0, 1], Qd[1, 1]]
    assert upper == pytest.approx([3.240986423060468e-4, 4.815994660704667e-3, 0.09633128445899768], rel=1e-11)


def test_integrators_on_the_dryden_filter():
    from stodyn.methods.classical import RK4, Euler

    A, B, C = np.array([[0, 1], [-1, -2.0]]), np.array([[0], [1.0]]), np.array([1, np.sqrt(3.0)])
    exact = C @ lyapunov.continuous(A, B @ B.T) @ C
    for h, fresh, held, euler in ((0.1, -0.14, -0.19, 8.8), (0.5, -1.98, -4.8, 63)):
        found = [100 * (C @ covariance.steady(m, A, B, h) @ C / exact - 1) for m in (RK4(noise="fresh"), RK4, Euler)]
        assert found == pytest.approx([fresh, held, euler], rel=0.03)
