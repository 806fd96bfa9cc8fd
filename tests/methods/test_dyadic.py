"""Steps that every path refines for itself along one Brownian path."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn.analysis import covariance
from stodyn.methods import classical as c
from stodyn.methods.dyadic import SPINS, Dyadic
from stodyn.problems.linear import linear

PULSE = linear(lambda t: -2.0 - 48.0 * jnp.exp(-(((t - 1.0) / 0.05) ** 2)), 1.0)


def test_variance_is_right_where_equal_steps_of_the_grid_are_not():
    """At steps of 0.1 the pulse is out of reach of RK4; nothing that is refined is drawn again."""
    times = [1.0, 1.2, 2.0]
    exact = covariance.exact(PULSE, times).covariance[:, 0, 0]
    collect = sd.statistics.Moments(at=times)
    run = sd.simulate(PULSE, Dyadic(tol=1e-3), t=(0, 2), dt=0.1, paths=5_000, seed=11, collect=collect)
    stderr = run["variance_stderr"].values[:, 0]
    # Four standard errors at three times: a false alarm in one of 5000.
    assert (abs(run["variance"].values[:, 0] - exact) <= 4 * stderr).all()
    plain = covariance.delivered(PULSE, c.RK4, 0.1, 20).covariance[[10, 12], 0, 0]
    assert (abs(plain / exact[:2] - 1) > 0.2).any()


def test_without_need_it_is_two_half_steps_on_the_bridge():
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.3 * x, 1.0, calculus="stratonovich")
    rng = {name: np.random.default_rng(k) for k, name in enumerate(("W", "aux"))}
    x = Dyadic(tol=1e9).solve(problem, np.array([0.0, 0.2]), np.full((6, 1), 1.5), None, rng)
    W = np.sqrt(0.2) * np.random.default_rng(0).standard_normal((1, 6)).T
    first = 0.5 * W + 0.5 * np.sqrt(0.2) * np.random.default_rng(1).standard_normal((6, 1))

    def R(z):
        return 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24

    np.testing.assert_allclose(x[1], 1.5 * R(-0.1 + 0.3 * first) * R(-0.1 + 0.3 * (W - first)), rtol=1e-12)


def test_one_step_is_compiled_and_taken_three_times():
    """Three together were beyond what is printed for mechanical systems of ten coordinates, and XLA took minutes."""
    traced = []

    def drift(t, x):
        traced.append(t)
        return -x

    problem = sd.SDE(drift, lambda t, x: jnp.ones_like(x), 1.0)
    rng = {name: np.random.default_rng(0) for name in ("W", "aux")}
    assert problem.n == problem.m == 1  # which look at the drift
    traced.clear()
    Dyadic(tol=1e9).solve(problem, np.array([0.0, 0.2, 0.4]), np.ones((6, 1)), None, rng)
    assert len(traced) == len(c.RK4.b)


def test_refined_paths_come_near_the_solution_of_the_same_brownian_path():
    """Geometric Brownian motion is exp(W) exactly (Stratonovich): the error falls with tol, the path stays the same."""
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: x, 1.0, calculus="stratonovich")
    grid, paths = np.linspace(0.0, 1.0, 5), 200
    W = np.cumsum(0.5 * np.random.default_rng(0).standard_normal((4, 1, paths)), axis=0)[-1, 0]
    errors = []
    for tol in (1e-1, 1e-3, 1e-5):
        rng = {name: np.random.default_rng(k) for k, name in enumerate(("W", "aux"))}
        x = Dyadic(tol=tol).solve(problem, grid, np.ones((paths, 1)), None, rng)[-1, :, 0]
        errors.append(np.abs(x / np.exp(W) - 1).max())
    assert errors[0] > 0.02 > errors[1] and errors[2] < 1e-3


@pytest.mark.parametrize("paths", [2, 11])
def test_its_brownian_paths_are_those_of_other_methods(paths):
    """dx = dW ends at W whatever the method; halves of a step sum up to it."""
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.eye(2), [0.0, 0.0])
    options = {"t": (0, 1), "dt": 0.25, "paths": paths, "seed": 3, "collect": sd.statistics.Paths(paths, every=1)}
    a, b = (sd.simulate(problem, method, **options)["path"].values for method in ("EulerMaruyama", Dyadic))
    np.testing.assert_allclose(a, b, atol=1e-14)


def test_parameters_of_every_path_and_the_same_bits():
    problem = sd.SDE(lambda t, x, p: -p * x, lambda t, x, p: 0.3 * x, 1.0, params=sd.PerPath(np.linspace(1, 50, 300)))
    options = {"t": (0, 1), "dt": 0.25, "paths": 300, "seed": 4, "collect": sd.statistics.Paths(300, every=4)}
    a, b = (sd.simulate(problem, Dyadic(tol=1e-2), threads=n, **options) for n in (1, 2))
    assert np.array_equal(a["path"], b["path"])
    assert abs(a["path"].values[0, -1, 0]) > abs(a["path"].values[-1, -1, 0])


def test_what_cannot_be_resolved_is_a_failure_not_a_number():
    problem = sd.SDE(lambda t, x: x**3, lambda t, x: 0.1 + 0.0 * x, 5.0)
    with pytest.raises(sd.PathsFailed):
        sd.simulate(problem, Dyadic(tol=1e-2), t=(0, 1), dt=0.5, paths=4, seed=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dyadic(base=c.RK4(noise="fresh")), "base: expected a one-step method for SDEs that needs W alone"),
        (lambda: Dyadic(base=0.5), "base: expected a one-step method"),
        (lambda: Dyadic(base=sd.method("StoermerVerlet")), "base: expected a one-step method for SDEs"),
        (lambda: Dyadic(tol=0.0), "tol: expected a number > 0"),
        (lambda: Dyadic(floor=-1.0), "floor: expected a number > 0"),
    ],
)
def test_bases_and_options_that_cannot_be_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["EulerMaruyama", "ThetaEuler", "Euler"])
def test_bases_that_converge_to_another_process_are_refused(name):
    """E X(1) of dX = X dW would be 1.05 to 1.22 instead of 1, the more the smaller tol is. Additive noise is fine."""
    euler = Dyadic(base=sd.method(name))
    assert euler.calculus == "ito" and Dyadic.calculus == "stratonovich"
    options = {"t": (0, 1), "dt": 0.25, "paths": 4, "seed": 1}
    with pytest.raises(ValueError, match=f"with such steps {name} converges to another process"):
        sd.simulate(sd.SDE(lambda t, x: 0.0 * x, lambda t, x: x, 1.0), euler, **options)
    sd.simulate(sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0), euler, **options)


def test_a_base_may_be_named():
    assert Dyadic(base="Heun") == Dyadic(base=sd.method("Heun"))


def test_what_the_base_refuses_is_refused():
    spins = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.einsum("kij,j->ik", SPINS, x), (1.0, 0.5))
    with pytest.raises(ValueError, match="Dyadic is made for commutative"):
        sd.simulate(spins, Dyadic(base=sd.method("Milstein")), t=(0, 1), dt=0.25, paths=4, seed=1)


def test_channels_that_do_not_commute():
    """Areas are left out, and have no bias: E x x' solves its linear equation. 5 standard errors: once in 6e5."""
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.einsum("kij,j->ik", SPINS, x), (1.0, 0.5))
    grow = scipy.linalg.expm(sum(np.kron(G, G) for G in SPINS))
    exact = (grow @ np.kron(problem.start, problem.start)).reshape(2, 2)
    collect = sd.statistics.Observable(lambda t, x: jnp.stack([x[0] ** 2, x[0] * x[1], x[1] ** 2]), name="second")
    run = sd.simulate(problem, Dyadic(tol=1e-2), t=(0, 1), dt=0.25, paths=8000, seed=5, collect=collect)
    found, stderr = run["second"].values[-1], run["second_stderr"].values[-1]
    assert np.all(np.abs(found - exact[[0, 0, 1], [0, 1, 1]]) < 5 * stderr)


def test_pieces_of_a_step_tile_it_and_their_noise_adds_up():
    """Each path is refined to its own depth; the second never is fine, and is given up after 30 halvings."""
    depth, h, start = np.array([2, 99, 0]), 0.5, 4.0
    W, walked = np.array([[0.3, 1.0], [-0.2, 0.4], [0.7, 0.1]]), []

    def steps(t, length, x, W, first, params):
        level = np.rint(np.log2(h / length)).astype(int)
        walked.append((t, length, W.copy(), level, level >= depth))
        return x + W, x + W + np.where(level < depth, 1.0, 0.0)[:, None]

    x = Dyadic(tol=1e-3)._refined(steps, start, h, np.zeros((3, 2)), W, None, np.random.default_rng(1))
    np.testing.assert_allclose(x[[0, 2]], W[[0, 2]], rtol=1e-14)
    assert np.isnan(x[1]).all()
    t, _, noise, level, fine = (np.array(part) for part in zip(*walked, strict=True))
    assert level[:, 1].max() == 30 and len(level) == 31
    own = np.flatnonzero(fine[:, 0])[:4]
    np.testing.assert_array_equal(t[own, 0], start + h * np.arange(4) / 4)
    np.testing.assert_allclose(noise[own, 0].sum(axis=0), W[0], rtol=1e-14)
    assert np.ptp(noise[own, 0], axis=0).min() > 0
