"""Ito <-> Stratonovich: the drift in closed form, there and back, and as simulate does it; the table of conversions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDAE, SDE, PerPath, diagonal, product, provenance, simulate, sparse
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.models.geometric_brownian_motion import geometric_brownian_motion
from stodyn.models.kubo import kubo
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.numerics.printing.points import at_points
from stodyn.problems.lowering import correction, to_ito, to_stratonovich

CONVERT = {"ito": to_ito, "stratonovich": to_stratonovich}
OTHER = {"ito": "stratonovich", "stratonovich": "ito"}
STATES = np.random.default_rng(5).uniform(0.2, 2.0, (7, 3))


def drift(t, x, p):
    return jnp.array([x[1] * x[2], -p["a"] * x[0], jnp.cos(t) * x[2]])


def two_channels(t, x, p):
    """g_1 = (sin x_1, x_0², a), g_2 = (x_0 x_1, t exp(-x_2), x_2)."""
    first = jnp.array([jnp.sin(x[1]), x[0] ** 2, p["a"]])
    second = jnp.array([x[0] * x[1], t * jnp.exp(-x[2]), x[2]])
    return jnp.stack([first, second], axis=1)


def correction_by_hand(t, x, p):
    """½ Σ_k Σ_l g_lk ∂g_ik/∂x_l, differentiated by hand."""
    g11, g21, g31 = np.sin(x[1]), x[0] ** 2, p["a"]
    g12, g22, g32 = x[0] * x[1], t * np.exp(-x[2]), x[2]
    return 0.5 * np.array([
        g21 * np.cos(x[1]) + g12 * x[1] + g22 * x[0],
        g11 * 2 * x[0] - g32 * t * np.exp(-x[2]),
        0.0 * g31 + g32,
    ])  # fmt: skip


@pytest.mark.parametrize("calculus", ["ito", "stratonovich"])
def test_vector_drift_in_closed_form(calculus):
    problem = SDE(drift, two_channels, [1.0, 2.0, 3.0], params={"a": 0.7}, calculus=calculus, names=("u", "v", "w"))
    lowered = CONVERT[OTHER[calculus]](problem)
    sign = 1.0 if calculus == "stratonovich" else -1.0
    assert lowered.calculus == OTHER[calculus]
    assert (lowered.components, lowered.params, lowered.diffusion) == (
        problem.components,
        problem.params,
        problem.diffusion,
    )
    before, after = jax.jit(problem.f), jax.jit(lowered.f)
    for t, x in enumerate(STATES):
        p = {"a": 0.3 * t}
        expected = before(float(t), x, p) + sign * correction_by_hand(t, x, p)
        np.testing.assert_allclose(after(float(t), x, p), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("calculus", ["ito", "stratonovich"])
def test_there_and_back(calculus):
    problem = SDE(drift, two_channels, [1.0, 2.0, 3.0], params={"a": 0.7}, calculus=calculus)
    back = CONVERT[calculus](CONVERT[OTHER[calculus]](problem))
    assert back.calculus == calculus
    one, two = (jax.jit(jax.vmap(lambda x: q.f(0.4, x, q.params)))(STATES) for q in (problem, back))
    np.testing.assert_allclose(two, one, rtol=1e-14, atol=1e-14)


def test_scalar_drift_in_closed_form():
    """dx = μ x dt + σ x dW (Ito) is dx = (μ - σ²/2) x dt + σ x ∘ dW; without params as well."""
    lowered = to_stratonovich(geometric_brownian_motion(growth=0.5, volatility=0.4))
    bare = to_ito(SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.sin(x), 1.0, calculus="stratonovich"))
    for x in (0.3, 1.7):
        at = jnp.array([x])
        np.testing.assert_allclose(lowered.f(0.0, at, lowered.params), [(0.5 - 0.08) * x], rtol=1e-15)
        np.testing.assert_allclose(bare.f(0.0, at, None), [0.5 * np.sin(x) * np.cos(x)], rtol=1e-15)


def test_kubo_in_closed_form():
    """g = beta A x: the correction is ½ beta² A² x."""
    problem = kubo(beta=0.7, nu=0.3)
    A = np.array([[0.0, 1.0], [-1.0, -0.3]])
    x = np.array([1.2, -0.5])
    expected = A @ x + 0.5 * 0.49 * A @ A @ x
    np.testing.assert_allclose(to_ito(problem).f(0.0, jnp.asarray(x), problem.params), expected, rtol=1e-14)


def test_additive_noise_needs_no_correction():
    for diffusion in (lambda t, x: jnp.sin(t) * jnp.eye(2), lambda t, x: jnp.ones((2, 1))):
        problem = SDE(lambda t, x: -(x**3), diffusion, [1.0, 2.0])
        lowered = to_stratonovich(problem)
        assert lowered.calculus == "stratonovich"
        assert lowered.drift is problem.drift
    assert to_ito(problem) is problem


def test_what_a_problem_carries_survives():
    values = PerPath(np.linspace(0.1, 0.9, 5))
    problem = SDE(
        lambda t, x, p: -x,
        lambda t, x, p: p * jnp.sin(x),
        PerPath(np.arange(5.0)),
        params=values,
        units="V",
        structure="commutative",
    )
    lowered = to_stratonovich(problem)
    assert (lowered.start, lowered.params) == (problem.start, values)
    assert (lowered.component_units, lowered.structure) == ({"x": "V"}, "commutative")


def test_lowering_inside_a_trace():
    """The derivative of the lowered drift with respect to a captured number."""

    def end(volatility):
        problem = SDE(lambda t, x: x, lambda t, x: volatility * x, 1.0, structure="scalar")
        return to_stratonovich(problem).f(0.0, jnp.array([2.0]), None)[0]

    np.testing.assert_allclose(jax.grad(end)(0.4), -0.4 * 2.0, rtol=1e-14)


# --- through simulate ----------------------------------------------------------------------------------------------

RUN = dict(t=(0.0, 1.0), dt=0.05, paths=4, seed=2, collect=st.Paths(4, every=5))


def by_hand(growth, volatility):
    return SDE(
        lambda t, x: (growth - 0.5 * volatility**2) * x,
        lambda t, x: volatility * x,
        1.0,
        calculus="stratonovich",
    )


def test_simulate_lowers_and_says_so():
    run = simulate(geometric_brownian_motion(0.5, 0.4), Heun, **RUN)
    assert provenance(run)["lowering"] == ["ito -> stratonovich (drift corrected by half of sum (dg_k/dx) g_k)"]
    plain = simulate(by_hand(0.5, 0.4), Heun, **RUN)
    assert provenance(plain)["lowering"] == []
    np.testing.assert_allclose(run["path"], plain["path"], rtol=1e-12)


def test_simulate_lowers_the_other_way():
    run = simulate(kubo(beta=0.7, nu=0.3), EulerMaruyama, **RUN)
    assert provenance(run)["lowering"] == ["stratonovich -> ito (drift corrected by half of sum (dg_k/dx) g_k)"]
    A = np.array([[0.0, 1.0], [-1.0, -0.3]])
    ito = SDE(lambda t, x: (A + 0.245 * A @ A) @ x, lambda t, x: 0.7 * (A @ x)[:, None], (2.0, 0.0))
    np.testing.assert_allclose(run["path"], simulate(ito, EulerMaruyama, **RUN)["path"], rtol=1e-12, atol=1e-12)


def test_simulate_says_that_additive_noise_needs_none():
    run = simulate(ornstein_uhlenbeck(), Heun, **RUN)
    assert provenance(run)["lowering"] == ["ito = stratonovich for additive noise"]
    assert provenance(run)["noise"] == "additive (proved from the trace)"


N = 11
ROWS, COLUMNS = np.random.default_rng(3).integers(0, (N, 6), (40, 2)).T  # with places that are named twice
MIXED = {
    "neighbours": (lambda t, x: diagonal(0.3 * jnp.sin(x) * jnp.roll(x, 1) + t), 3),
    "all together": (lambda t, x: diagonal(x * jnp.mean(x)), N),
    "a matrix of neighbours": (lambda t, x: jnp.diag(x * jnp.roll(x, 2)), 3),
    "sparse": (lambda t, x: sparse(ROWS, COLUMNS, jnp.cos(x)[ROWS] * x[(ROWS + 1) % N] + t, (N, 6)), None),
    "products": (lambda t, x: product(lambda w: x * jnp.cumsum(w) * x[0], N), None),
    "a full matrix": (lambda t, x: jnp.outer(jnp.sin(x), jnp.roll(x, 1)), None),
}


@pytest.mark.parametrize("name", MIXED)
def test_the_correction_of_noise_that_is_never_a_matrix_is_that_of_its_matrix(name):
    """½ Σ_k (∂g_k/∂x) g_k, channel by channel; neighbours in a ring are found in three groups at once, or four."""
    noise, groups = MIXED[name]
    problem = SDE(lambda t, x: -x, noise, np.linspace(0.5, 1.5, N), calculus="stratonovich")

    def both(x):
        g, slopes = problem.g(0.2, x, None), jax.jacfwd(lambda x: problem.g(0.2, x, None))(x)
        return jnp.stack([correction(problem, 0.2, x, None), 0.5 * jnp.einsum("ikj,jk->i", slopes, g)])

    found, exact = at_points(both, np.linspace(0.5, 1.5, N)[None])[0]
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14)
    if groups is not None:
        assert groups <= problem.noise_places.groups.max() + 1 <= max(groups, 4)


def test_a_conversion_is_a_row_of_the_table_made_once_and_found_for_derived_classes():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Quiet(SDE):
        """A kind of SDE without a row of its own."""

    problem = Quiet(lambda t, x: -x, None, 1.0)
    written, words = problem.lower(SDAE)
    assert words == "SDE -> SDAE with M = 1" and problem.lower(SDAE)[0] is written and problem.lower(int) is None
