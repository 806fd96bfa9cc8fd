"""Stiff methods on nets of more than 12 unknowns: sparse matrices give the steps that dense ones give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

import stodyn as sd
from stodyn.engine import kept_traces
from stodyn.engine.spec import matched
from stodyn.methods.stiff import Stepping
from stodyn.models.circuits import RC_LADDER
from stodyn.numerics import uncompiled
from stodyn.problems.facts import Facts
from stodyn.problems.sdae import SDAE

pytestmark = pytest.mark.usefixtures("quick_compiling")

NODES = 12


def test_determinants_of_large_constraints_are_relative_to_the_one_at_the_start():
    """Along the way of a step, of 1e-5 conductances: their product is 1e-200 of a unit and more."""
    problem, Z = net(True), np.full(NODES + 1, 0.01)

    def along(h, Z):
        stepping = Stepping(sd.method("RK1W2"), problem, 0.0, jnp.asarray(problem.example_start()), {"g": 2.0})
        sign, relative = stepping._determinant_along(h, Z)
        return jnp.stack([sign, relative(0.0), relative(1.0)])

    assert problem.facts.sparsity is not None
    sign, first, last = uncompiled.value(along, np.array(0.1), Z)
    assert first == sign and abs(sign) == 1.0 and 0.1 < last / first < 10.0


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


def stepped(problem, name):
    """The state after each of two steps from the consistent start, and how many operations a step has."""
    method = sd.method(name)
    given, rng = matched(problem, method)[0], np.random.default_rng(1)

    def step(x, normals):
        state, report = method.step(given, 0.1, x, method.needs.increment(0.05, normals, given.m), problem.params)
        return jnp.where(report.ok, method.read(state), jnp.nan)

    states, normals = [problem.diagnose().start], method.needs.normals(given.m)
    trace = jax.make_jaxpr(step)(states[0], {name: np.zeros(count) for name, count in normals.items()})
    for _ in range(2):
        inputs = [states[-1], *(rng.standard_normal(count) for _, count in sorted(normals.items()))]
        try:
            states += uncompiled.run(trace, *inputs)
        except uncompiled.Compile:  # it calls LAPACK
            states += jax.jit(core.jaxpr_as_fun(trace))(*inputs)
    return np.array(states[1:]), len(trace.eqns)


@pytest.fixture
def densely(monkeypatch):
    """From here on no net knows which of its entries are zeros, and no step is taken from those traced before."""

    def begin():
        kept_traces.forget()
        for fact in ("sparsity", "noisy_sparsity", "noise_pattern"):
            monkeypatch.setattr(Facts, fact, None)

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
    assert problem.facts.sparsity is not None and problem.facts.is_affine is not nonlinear
    sparse, operations = stepped(problem, name)
    densely()
    dense, others = stepped(make(nonlinear), name)
    assert operations != others  # two programs
    np.testing.assert_allclose(sparse, dense, rtol=1e-10, atol=1e-12 * np.abs(dense).max())
    assert np.abs(np.diff(sparse, axis=0)).max() > 0.01 * np.abs(sparse).max()
