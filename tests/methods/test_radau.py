"""Radau IIA: orders on every index, against closed forms and scipy's Radau, steps chosen by the error, bad input."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.sparse
from jax import lax

from stodyn import simulate
from stodyn import statistics as st
from stodyn.methods.radau import Radau3, Radau5, states_at
from stodyn.models.miller_integrator import MILLER_INTEGRATOR
from stodyn.noise.distribution import Uniform
from stodyn.numerics import radau
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.random_systems import RandomSystems

NONE = np.zeros((1, 0))


def orders(problem, exact, end, order, steps=(8, 16, 32)):
    """log2 of the ratio of the largest errors over the grid, component by component."""
    errors = []
    for n in steps:
        grid = np.linspace(0.0, end, n + 1)
        errors.append(np.abs(states_at(problem, NONE, grid, order)[:, 0] - exact(grid)).max(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):  # components that are exact
        return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))[-1]


def linear(mass, minus_matrix, source, start):
    """mass x' + minus_matrix x = source(t), as text books write it."""
    return RandomDAE(np.array(mass, float), matrix=-np.array(minus_matrix, float), source=source, start=start)


def test_coefficients_satisfy_the_order_conditions():
    """Row sums are the nodes; the quadrature has order 2s - 1; the stages order s."""
    for order, s in ((3, 2), (5, 3)):
        method = radau.scheme(order)
        np.testing.assert_allclose(method.A.sum(axis=1), method.c, rtol=1e-14)
        for q in range(1, 2 * s):
            assert method.A[-1] @ method.c ** (q - 1) == pytest.approx(1.0 / q, rel=1e-13)
        for q in range(1, s + 1):
            np.testing.assert_allclose(method.A @ method.c ** (q - 1), method.c**q / q, rtol=1e-13)
        assert len(method.eigen) == 2 - (s == 2)
    e = radau.scheme(5).error  # those of RADAU5
    np.testing.assert_allclose(3.0 * e, [-13 - 7 * 6**0.5, -13 + 7 * 6**0.5, -1], rtol=1e-11)


@pytest.mark.parametrize("order", [3, 5])
def test_orders_on_every_index(order):
    """2s - 1 for an ODE and index 1; in the index-2 component s, in the index-3 component s - 1, where a derivative of
    the source is to be found; the differential ones beside them keep 2s - 1.
    """
    s = (order + 1) // 2
    ode = linear(np.eye(2), [[0, -1], [1, 0]], None, [0.0, 1.0])
    found = orders(ode, lambda t: np.stack([np.sin(t), np.cos(t)], axis=1), 3.0, order)
    np.testing.assert_allclose(found, order, atol=0.25)
    # x' = -x + z, 0 = z - x/2 - sin t: x' = -x/2 + sin t
    index1 = linear(np.diag([1.0, 0]), [[1, -1], [-0.5, 1]], lambda t: [0.0, np.sin(t)], [0.0, 0.0])

    def truth(t):
        x = 0.8 * (np.exp(-0.5 * t) - np.cos(t) + 0.5 * np.sin(t))
        return np.stack([x, 0.5 * x + np.sin(t)], axis=1)

    np.testing.assert_allclose(orders(index1, truth, 3.0, order), order, atol=0.3)
    # y1' = -y1 + z, y2' = y1 - y2, 0 = y1 - sin t: z = cos t + sin t
    index2 = linear(np.diag([1.0, 1, 0]), [[1, 0, -1], [-1, 1, 0], [1, 0, 0]], lambda t: [0.0, 0.0, np.sin(t)],
                    [0.0, 0.0, 1.0])  # fmt: skip

    def truth2(t):
        y2 = 0.5 * (np.sin(t) - np.cos(t) + np.exp(-t))
        return np.stack([np.sin(t), y2, np.cos(t) + np.sin(t)], axis=1)

    steps = (8, 16, 32)
    _, y2, z = orders(index2, truth2, 3.0, order, steps)
    assert y2 == pytest.approx(order, abs=0.3)
    assert z == pytest.approx(s, abs=0.3)
    # x1 = -x2', x2 = -x3', x3 = sin t
    index3 = linear([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.eye(3), lambda t: [0.0, 0.0, np.sin(t)], [-0.0, -1.0, 0.0])
    found = orders(index3, lambda t: np.stack([-np.sin(t), -np.cos(t), np.sin(t)], axis=1), 3.0, order, steps)
    assert found[1] == pytest.approx(s, abs=0.3)
    assert found[0] == pytest.approx(s - 1, abs=0.3)


def test_miller_is_order_five_in_every_component():
    """Its index-2 constraint u3 = a u2 is homogeneous, and stage derivatives satisfy it: no reduction."""
    problem, exact = MILLER_INTEGRATOR.problem, MILLER_INTEGRATOR.exact["states"]
    p, errors = problem.center[None], []
    for n in (100, 200, 400):
        grid = np.linspace(0.0, 4e-6, n + 1)
        errors.append(np.abs(states_at(problem, p, grid) - exact(grid, p)).max(axis=(0, 1))[1:])
    np.testing.assert_allclose(errors[0], [4.19e-6, 8.38e-6, 4.19e-9, 4.19e-9], rtol=2e-3)
    np.testing.assert_allclose(errors[1][0], 1.39e-7, rtol=2e-3)
    np.testing.assert_allclose(errors[2][0], 4.53e-9, rtol=2e-3)
    assert np.all(np.log2(np.array(errors[:-1]) / errors[1:]) > 4.85)


def test_a_batch_equals_its_members_and_sparse_equals_dense(monkeypatch):
    problem = MILLER_INTEGRATOR.problem
    rng, grid = np.random.default_rng(1), np.linspace(0.0, 1e-6, 41)
    nodes = np.stack([law.rvs(size=7, random_state=rng) for law in problem.distributions], axis=1)
    batch = states_at(problem, nodes, grid)
    for k in range(7):
        system = problem.systems.sparse_system(nodes[k], grid)
        alone, work = radau.prescribed(system, grid, problem.systems.starts(nodes[k : k + 1]))
        scale = np.abs(batch[:, k]).max(axis=0)
        assert np.abs((alone[:, 0] - batch[:, k]) / scale).max() < 1e-12
        assert (work.steps, work.factorisations) == (40, 2)
    uneven = np.concatenate([grid[:21], grid[22::2]])
    two = states_at(problem, nodes, uneven)
    np.testing.assert_allclose(two[:21], batch[:21], rtol=1e-11, atol=1e-18)
    assert np.abs(two[-1] - batch[-1]).max() < 1e-5
    monkeypatch.setattr(RandomSystems, "is_sparse", True)
    monkeypatch.setattr(RandomSystems, "system", None)  # a problem with sparse matrices makes no dense ones
    found = states_at(problem, nodes[:3], grid)
    assert np.abs((found - batch[:, :3]) / np.abs(batch[:, :3]).max(axis=0)).max() < 1e-12


def van_der_pol(x):
    return [x[1], 1e3 * ((1.0 - x[0] ** 2) * x[1]) - x[0]]


def robertson(x):
    slow, fast = 0.04 * x[0], 1e4 * x[1] * x[2]
    return [-slow + fast, slow - fast - 3e7 * x[1] ** 2, 3e7 * x[1] ** 2]


@pytest.mark.parametrize(
    ("drift", "start", "end"),
    [(van_der_pol, [2.0, 0.0], 1200.0), (robertson, [1.0, 0.0, 0.0], 1e4)],
    ids=["van der Pol", "Robertson"],
)
def test_stiff_equations_against_scipy(drift, start, end):
    """Steps chosen for rtol = 1e-6: within 1e-4 of scipy's Radau at 1e-9, over a relaxation and a transient."""
    problem = RandomDAE(np.eye(len(start)), lambda t, x: jnp.stack(drift(x)), start)
    collect = st.Paths(1, every=1)
    run = simulate(problem, Radau5(rtol=1e-6), t=(0.0, end), dt=end / 40, paths=1, seed=0, collect=collect)
    reference = scipy.integrate.solve_ivp(lambda t, x: drift(x), (0.0, end), start, "Radau", run["time"].values,
                                          rtol=1e-9, atol=1e-12)  # fmt: skip
    ours, scale = run["path"].values[0], np.abs(reference.y).max(axis=1)
    assert np.abs((ours - reference.y.T) / scale).max() < 1e-4


def test_chosen_steps_on_index_two():
    """The index-2 component does not stop the run, and the error follows rtol."""
    problem = linear(np.diag([1.0, 1, 0]), [[1, 0, -1], [-1, 1, 0], [1, 0, 0]], lambda t: [0.0, 0.0, np.sin(t)],
                     [0.0, 0.0, 1.0])  # fmt: skip
    grid = np.linspace(0.0, 10.0, 21)
    y2 = 0.5 * (np.sin(grid) - np.cos(grid) + np.exp(-grid))
    errors, steps = [], []
    for rtol in (1e-4, 1e-7):
        components = problem.pencil_at().component_index
        np.testing.assert_array_equal(components, [1, 0, 2])
        states, work = radau.controlled(problem.systems.system(NONE, grid), grid, problem.systems.starts(NONE), 5, rtol,
                                        component_index=components)  # fmt: skip
        errors.append(np.abs(states[:, 0, 1] - y2).max())
        steps.append(work.steps)
        assert np.abs(states[:, 0, 2] - np.cos(grid) - np.sin(grid)).max() < 50 * rtol**0.5
    assert errors[0] < 1e-4 and errors[1] < 1e-7
    assert steps[1] < 15 * steps[0]


def test_chosen_steps_from_zero():
    """x' = 3 t² + z - y, y' = x³, 0 = z - y: everything starts at 0, y as t¹⁰/10; x = t³ exactly."""
    problem = RandomDAE(
        np.diag([1.0, 1.0, 0.0]), lambda t, x: jnp.stack([3.0 * t**2 + x[2] - x[1], x[0] ** 3, x[2] - x[1]]),
        start=[0.0, 0.0, 0.0],
    )  # fmt: skip
    grid = np.linspace(0.0, 2.0, 5)
    for rtol in (1e-4, 1e-8):
        states = states_at(problem, NONE, grid, 5, rtol)[:, 0]
        exact = np.stack([grid**3, grid**10 / 10, grid**10 / 10], axis=1)
        assert np.abs((states - exact) / exact[-1]).max() < 10 * rtol
    with pytest.raises(ValueError, match="rtol: expected a relative error > 0, got -1"):
        states_at(problem, NONE, grid, 5, -1)


def test_nonlinear_index_one_with_prescribed_steps():
    """x' = -z, 0 = z - x³: x = 1/√(1 + 2t). Order 5 and 3, and Newton reaches rounding."""
    problem = RandomDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.stack([-x[1], x[1] - x[0] ** 3]), [1.0, 1.0])
    for order in (3, 5):
        found = orders(problem, lambda t: np.stack([(1 + 2 * t) ** -0.5, (1 + 2 * t) ** -1.5], axis=1), 2.0, order)
        np.testing.assert_allclose(found, order, atol=0.35)


def test_newton_begins_where_the_polynomial_of_the_step_before_leads():
    """x' = 3 t² + (x - t³)²: the solution t³ is such a polynomial, so after the first step nothing is left to do."""

    def f(t, x):
        return 3.0 * t[:, None, None] ** 2 + (x - t[:, None, None] ** 3) ** 2

    system = radau.Nonlinear(np.ones((1, 1, 1)), f, lambda t, x: 2.0 * (x - t**3)[..., None])
    states, work = radau.prescribed(system, np.linspace(0.0, 1.0, 17), np.zeros((1, 1)))
    np.testing.assert_allclose(states[-1], 1.0, rtol=1e-14)
    assert work.iterations <= 16 + 10


def test_many_nonlinear_equations_are_solved_with_sparse_matrices():
    """100 pairs x' = -p z, 0 = z - x³ side by side: x = a/√(1 + 2 p a² t), by steps of the grid and by chosen ones."""
    n, a = 100, np.linspace(0.5, 1.5, 100)
    drift = lambda t, x, p: jnp.concatenate([-p["p"] * x[n:], x[n:] - x[:n] ** 3])  # noqa: E731
    mass = np.diag(np.repeat([1.0, 0.0], n))
    problem = RandomDAE(mass, drift, np.concatenate([a, a**3]), {"p": Uniform(0.5, 2.0)})
    system = problem.systems.sparse_system(np.ones(1), np.linspace(0.0, 1.0, 3))
    assert system.jacobian(0.0, np.ones((1, 2 * n))).nnz == 3 * n
    run = simulate(problem, "Radau5", t=(0.0, 1.0), dt=0.1, paths=2, seed=1, collect=st.Paths(2, at=[1.0]))
    for x in run["path"].values[:, 0]:
        p = ((a[-1] / x[n - 1]) ** 2 - 1.0) / (2.0 * a[-1] ** 2)
        exact = a / np.sqrt(1.0 + 2.0 * p * a**2)
        np.testing.assert_allclose(x, np.concatenate([exact, exact**3]), rtol=2e-6)
    (chosen,) = states_at(problem, np.ones((1, 1)), np.array([0.0, 1.0]), 5, 1e-8)[-1]
    np.testing.assert_allclose(chosen[:n], a / np.sqrt(1.0 + 2.0 * a**2), rtol=1e-7)


def test_a_scan_in_what_is_observed():
    """It is computed by NumPy, which reads a scan's sizes from its trace: JAX calls them anew from time to time."""
    problem = RandomDAE([[1.0, 0.0], [0.0, 1.0]], matrix=-np.eye(2), start=[1.0, 2.0], params={"p": Uniform(0.0, 1.0)})
    total = st.Observable(lambda t, x: lax.scan(lambda s, y: (s + y, None), 0.0, x)[0], name="total", at=[1.0])
    run = simulate(problem, "Radau5", t=(0.0, 1.0), dt=0.1, paths=2, seed=1, collect=total)
    np.testing.assert_allclose(run["total"].values, 3.0 * np.exp(-1.0), rtol=1e-8)


def test_monte_carlo_over_the_parameters_through_simulate():
    """u' = (1 - u)/p, p uniform: the mean of 2000 paths within 5 standard errors (6e-7) of the integral."""
    problem = RandomDAE(lambda p: [[p["tau"]]], matrix=[[-1.0]], source=[1.0], params={"tau": Uniform(0.5, 1.5)},
                        start=[0.0])  # fmt: skip
    run = simulate(problem, Radau3, t=(0.0, 1.0), dt=0.02, paths=2000, seed=4)
    exact = scipy.integrate.quad(lambda tau: 1.0 - np.exp(-1.0 / tau), 0.5, 1.5)[0]
    assert abs(run["mean"].values[-1, 0] - exact) < 5 * run["mean_stderr"].values[-1, 0]
    started = RandomDAE([[1.0]], matrix=[[-1.0]], params={"x0": Uniform(0.5, 1.5)}, start=lambda p: [p["x0"]])
    paths = simulate(started, "Radau5", t=(0.0, 1.0), dt=0.1, paths=5, seed=4, collect=st.Paths(5, at=[0.0, 1.0]))
    x = paths["path"].values[:, :, 0]
    np.testing.assert_allclose(x[:, 1], x[:, 0] * np.exp(-1.0), rtol=1e-8)
    assert np.ptp(x[:, 0]) > 0.1


def test_members_that_fail_leave_the_others_alone():
    """x' = p x² with p = 1 blows up at t = 1, with p = -1 it does not: NaN from there on, and the rest to rounding."""
    problem = RandomDAE(np.eye(1), lambda t, x, p: p["p"] * x**2, [1.0], {"p": Uniform(-2.0, 2.0)})
    grid = np.linspace(0.0, 1.5, 16)
    states = states_at(problem, np.array([[1.0], [-1.0]]), grid)[:, :, 0]
    assert np.isfinite(states[:9, 0]).all() and np.isnan(states[-1, 0])
    np.testing.assert_allclose(states[:, 1], 1.0 / (1.0 + grid), rtol=1e-6)


def test_what_cannot_be_done():
    with pytest.raises(ValueError, match="order: expected 3 or 5, got 4"):
        states_at(MILLER_INTEGRATOR.problem, MILLER_INTEGRATOR.problem.center[None], np.linspace(0, 1e-6, 3), 4)
    blowing = RandomDAE(np.eye(1), lambda t, x: x**2, [1.0])
    with pytest.raises(radau.StepTooSmall, match=r"rtol: 1e-06 was not reached at t = 1.*look for a jump or a sing"):
        states_at(blowing, NONE, np.linspace(0.0, 2.0, 3), 5, 1e-6)
    singular = RandomDAE(np.zeros((2, 2)), matrix=[[1.0, 1.0], [1.0, 1.0]], start=[0.0, 0.0])
    with pytest.raises(ValueError, match="the pencil may be singular"):
        states_at(singular, NONE, np.linspace(0.0, 1.0, 3))
    sparse = radau.Linear(scipy.sparse.csr_array((2, 2)), scipy.sparse.csr_array(np.ones((2, 2))),
                          radau.Forcing(lambda t: np.zeros((len(t), 2)), np.arange(2)))  # fmt: skip
    with pytest.raises(ValueError, match="the pencil may be singular"):
        radau.prescribed(sparse, np.linspace(0.0, 1.0, 3), np.zeros((1, 2)))
