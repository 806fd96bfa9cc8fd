"""Implicit steps of large systems, by sparse elimination: the stochastic heat equation against its closed form."""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn.engine.program import executors
from stodyn.engine.spec import describe
from stodyn.methods.implicit import ThetaEuler
from stodyn.noise import path_normals
from stodyn.numerics.printing.arrays import Executed

N, SIGMA = 40, 0.5
STIFFNESS = (N + 1) ** 2


def heat(t, u):
    edged = jnp.pad(u, 1)
    return STIFFNESS * (edged[2:] - 2 * u + edged[:-2])


def problem(n=N):
    return sd.SDE(heat, lambda t, u: sd.diagonal(jnp.full(n, SIGMA)), np.zeros(n))


def test_the_order_of_elimination_is_that_of_a_line():
    order = problem().elimination
    assert len(order.pattern.rows) == 3 * N - 2
    assert problem(12).elimination is None


def test_equations_that_grow_have_an_order_too():
    """Of Allen and Cahn's at rest the matrix of the time of growth itself is singular."""
    ring = sd.SDE(lambda t, u: jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1) + 3 * u - u**3, None, np.zeros(N))
    assert len(ring.elimination.pattern.rows) == 3 * N


def test_sparse_steps_are_the_dense_ones():
    options = {"t": (0, 0.02), "dt": 0.01, "paths": 3, "seed": 1, "collect": sd.statistics.Paths(3)}
    sparse = sd.simulate(problem(), "ThetaEuler", **options)
    assert "loops over arrays" in sd.provenance(sparse)["executor_reason"]
    h, x = 0.01, np.zeros((N, 3))
    A = STIFFNESS * (np.diag(np.ones(N - 1), 1) - 2 * np.eye(N) + np.diag(np.ones(N - 1), -1))
    for z in path_normals.rows(1, "W", 0, 3, 2, N):
        x = np.linalg.solve(np.eye(N) - h * A, x + SIGMA * np.sqrt(h) * z)
    np.testing.assert_allclose(sparse.path.values[:, -1], x.T, rtol=0, atol=1e-10)


def executed_before_steps(problem, dt):
    """How many tables of instructions a step's program executes before the steps."""
    spec = describe(problem, ThetaEuler, (0.0, float(np.sum(dt))), dt, None, "float64")
    return sum(isinstance(item, Executed) for item in executors.get(spec).program.source.stepped.program.fixed)


def test_a_matrix_is_eliminated_once_where_it_never_changes_and_anew_where_it_does():
    warming = sd.SDE(lambda t, u: (1 + 50 * t) * heat(t, u), lambda t, u: sd.diagonal(jnp.full(N, SIGMA)), np.zeros(N))
    steps = [0.01, 0.02, 0.01]
    assert executed_before_steps(problem(), 0.01) > 0
    assert executed_before_steps(problem(), steps) == executed_before_steps(warming, 0.01) == 0
    collect = sd.statistics.Paths(3)
    run = sd.simulate(warming, ThetaEuler, t=(0, 0.04), dt=steps, paths=3, seed=1, collect=collect)
    t, x = 0.0, np.zeros((N, 3))
    A = STIFFNESS * (np.diag(np.ones(N - 1), 1) - 2 * np.eye(N) + np.diag(np.ones(N - 1), -1))
    for h, z in zip(steps, path_normals.rows(1, "W", 0, 3, 3, N), strict=True):
        t += h
        x = np.linalg.solve(np.eye(N) - h * (1 + 50 * t) * A, x + SIGMA * np.sqrt(h) * z)
    np.testing.assert_allclose(run.path.values[:, -1], x.T, rtol=0, atol=1e-10)


def test_stationary_covariance_of_the_heat_equation():
    """Of the trapezoidal rule it is exact at any step: σ² (-2A)⁻¹; of its trace the sample is within five errors."""
    eigenvalues = 2 * STIFFNESS * (1 - np.cos(np.pi * np.arange(1, N + 1) / (N + 1)))
    exact = np.sum(SIGMA**2 / (2 * eigenvalues))
    size = sd.statistics.Observable(lambda t, u: jnp.sum(u**2), at=[1.0])
    run = sd.simulate(problem(), ThetaEuler(theta=0.5), t=(0, 1.0), dt=0.02, paths=600, seed=3, collect=size)
    found, error = float(run.observable[0]), float(run.observable_stderr[0])
    decayed = np.max(((1 - 0.01 * eigenvalues) / (1 + 0.01 * eigenvalues)) ** 100)  # of the start, in 50 steps
    assert abs(found - exact) < 5 * error + decayed * exact, (found, exact, error)
