"""Stiff methods on nets of more than 12 unknowns: sparse matrices give the steps that dense ones give."""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import simulate
from stodyn import statistics as st
from stodyn.methods import stiff
from stodyn.models.circuits import RC_LADDER
from stodyn.problems.sdae import SDAE
from stodyn.results import provenance

pytestmark = pytest.mark.usefixtures("quick_compiling")

NODES = 14


@functools.cache
def net(nonlinear):
    """A ladder fed by a voltage source (its current is the last unknown) whose nodes all draw from a common rail."""
    x = np.linspace(0.1, 0.4, NODES + 1)

    def drift(t, x, p):
        u, j = x[:NODES], x[NODES]
        along = p["g"] * (u[:-1] - u[1:])
        load = 0.3 * (u[:-1] - u[-1])
        load = jnp.expm1(load) if nonlinear else load
        at_nodes = jnp.zeros(NODES).at[1:].add(along).at[:-1].add(-along).at[:-1].add(-load).at[-1].add(load.sum())
        return jnp.concatenate([at_nodes.at[0].add(j), (u[0] - jnp.sin(t))[None]])

    def diffusion(t, x, p):
        strength = 0.1 * (1.0 + x[1:NODES] ** 2) if nonlinear else 0.1 * jnp.ones(NODES - 1)
        return jnp.concatenate([jnp.zeros(1), strength, jnp.zeros(1)])[:, None]

    mass = np.diag([0.0] + [0.5] * (NODES - 1) + [0.0])
    return SDAE(mass, drift, diffusion, x, {"g": 2.0}, structure=None if nonlinear else "additive")


def densely(problem):
    found = copy.copy(problem)
    vars(found).update(sparsity=None, noisy_sparsity=None, noise_pattern=None)
    return found


@pytest.mark.brief("Trapezoidal-True", "RK1W4-True", "RK1W2M-False")  # implicit drift, noise; affine
@pytest.mark.parametrize(
    ("name", "nonlinear"),
    [("Trapezoidal", True), ("StiffMilstein", True), ("RK1W4", True), ("RK1W2M", False)],
)
def test_steps_are_those_of_dense_matrices(name, nonlinear):
    method, problem = getattr(stiff, name), net(nonlinear)
    assert problem.sparsity is not None and problem.is_affine is not nonlinear
    rng = np.random.default_rng(1)
    starts = problem.diagnose().start[:, None] + 0.01 * rng.standard_normal((problem.n, 3))
    normals = rng.standard_normal((1, 3))

    def step(problem):
        def one(x, z):
            noise = method.needs.increment(jnp.asarray(0.05), {name: z for name in method.needs.normals(1)}, 1)
            x = method.start(problem, 0.1, x, problem.params)
            return method.step(problem, 0.1, x, noise, problem.params)

        return jax.jit(jax.vmap(one, in_axes=-1, out_axes=-1))(starts, normals)

    (sparse, report), (dense, other) = step(problem), step(densely(problem))
    assert report.ok.all() and other.ok.all()
    np.testing.assert_allclose(sparse, dense, rtol=1e-11, atol=1e-11)
    assert not np.allclose(sparse, starts, atol=1e-3)


def test_a_run_takes_large_nets_as_a_batch_and_gives_what_dense_matrices_give():
    problem = RC_LADDER(nodes=15).problem

    def run(problem):
        return simulate(problem, stiff.RK1W2M, t=(0.0, 0.2), dt=0.04, paths=8, seed=1, collect=st.Paths(at=[0.2]))

    found, wanted = run(problem), run(densely(problem))
    np.testing.assert_allclose(found["path"], wanted["path"], rtol=1e-10, atol=1e-12 * np.abs(wanted["path"]).max())
    assert "loops over arrays" in provenance(found)["executor_reason"]
