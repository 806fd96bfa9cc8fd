"""Stiff methods on nets of more than 12 unknowns: sparse matrices give the steps that dense ones give."""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import simulate
from stodyn import statistics as st
from stodyn.engine import kept_traces
from stodyn.models.circuits import RC_LADDER
from stodyn.problems.sdae import SDAE
from stodyn.results import provenance

pytestmark = pytest.mark.usefixtures("quick_compiling")

NODES = 12


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


def paths(problem, method):
    result = simulate(problem, method, t=(0.1, 0.2), dt=0.05, paths=3, seed=1, collect=st.Paths(at=[0.2]))
    return result["path"].values, provenance(result)["executor_reason"]


@pytest.fixture
def densely(monkeypatch):
    """From here on no net knows which of its entries are zeros, and no step is taken from those traced before."""

    def begin():
        kept_traces.forget()
        for fact in ("sparsity", "noisy_sparsity", "noise_pattern"):
            monkeypatch.setattr(SDAE, fact, None)

    yield begin
    kept_traces.forget()


@pytest.mark.brief("Trapezoidal-net-True", "RK1W2M-ladder-False")  # Newton, and a linear solve
@pytest.mark.parametrize(
    ("name", "make", "nonlinear"),
    [
        ("Trapezoidal", net, True),
        ("StiffMilstein", net, True),
        ("RK1W4", net, True),
        ("RK1W2M", net, False),
        ("RK1W2M", lambda _: RC_LADDER(nodes=15).problem, False),
    ],
    ids=lambda value: "net" if value is net else "ladder" if callable(value) else None,
)
def test_steps_are_those_of_dense_matrices(name, make, nonlinear, densely):
    problem = make(nonlinear)
    assert problem.sparsity is not None and problem.is_affine is not nonlinear
    sparse, how = paths(problem, name)
    densely()
    dense, other = paths(make(nonlinear), name)
    assert how != other  # two programs
    np.testing.assert_allclose(sparse, dense, rtol=1e-10, atol=1e-12 * np.abs(dense).max())
    start = np.broadcast_to(problem.diagnose().start, sparse.shape)
    assert np.abs(sparse - start).max() > 0.01 * np.abs(sparse).max()
