"""The matrices that implicit methods meet on the models are eliminated to rounding, whatever the step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.engine.spec import matched
from stodyn.methods import stiff
from stodyn.models import slider_crank
from stodyn.models.circuits import RECTIFIER
from stodyn.models.differential_algebraic import CONSTRAINED_PENDULUM
from stodyn.numerics import newton
from stodyn.numerics.elimination import GROWTH, solve
from stodyn.numerics.printing.points import AtPoints, at_points

PATHS, STEPS = 8, 3
pytestmark = pytest.mark.usefixtures("quick_compiling")


def systems_of_a_model(model, lengths):
    """Jacobians and residuals of two rounds of Newton in the trapezoidal rule, on paths with steps of these lengths."""
    problem, method, met = model.problem, stiff.Trapezoidal, []
    problem.before_run(0.0)
    taken, p = matched(problem, method)[0], problem.example_params()

    def recording(residual, x, **_):
        for _ in range(2):
            met.append((jax.jacfwd(residual)(x), residual(x)))
            x = x - solve(*met[-1])
        return newton.Root(x, jnp.asarray(True), jnp.asarray(2), jnp.asarray(False))

    def step(h, x, xi):
        met.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(stiff, "newton", recording)
            x = method.step(taken, 0.0, x, method.needs.increment(h, {"W": xi}, problem.m), p)[0]
        return x, tuple(jnp.stack(part) for part in zip(*met, strict=True))

    normals, found = np.random.default_rng(1).standard_normal((STEPS, PATHS, problem.m)), []
    start = method.start(taken, 0.0, jnp.asarray(taken.example_start()), p)
    steps = AtPoints(step)
    for h in lengths:
        x = np.tile(start, (PATHS, 1))
        for xi in normals:
            x, systems = steps(np.full(PATHS, h), x, xi)
            found.append([np.concatenate(part) for part in systems])
    a, b = (np.concatenate(part) for part in zip(*found, strict=True))
    return a, b, problem.matrices.row_orders[0]


def saddle_points_of_the_slider_crank(elements):
    """[M G'; G 0] at random angles, with the rod bent as far as it bends and ten thousand times as far."""
    rod = slider_crank.two_node_rod(elements)
    rng = np.random.default_rng(elements)
    x, v = rng.uniform(-np.pi, np.pi, (2, 64, 3 + len(rod.K)))
    x[:, 3:] *= np.where(rng.integers(2, size=(64, 1)) > 0, 1e-3, 1e-7)
    M, F, G, γ = at_points(lambda x, v: slider_crank.equations(rod, x, v), x, v)
    a = np.block([[M, G.transpose(0, 2, 1)], [G, np.zeros((64, 3, 3))]])
    return a, np.concatenate([F, -γ], axis=1), None


CASES = {
    "pendulum on its rod": lambda: systems_of_a_model(CONSTRAINED_PENDULUM, (1e-6, 1e-3, 0.3)),
    "rectifier": lambda: systems_of_a_model(RECTIFIER, (1e-8, 1e-4, 1.0)),
    "slider crank": lambda: saddle_points_of_the_slider_crank(2),
}


@pytest.mark.brief("rectifier")
@pytest.mark.parametrize("name", CASES)
def test_they_are_solved_to_rounding(name):
    """Row by row, and the chosen order makes entries so little larger than those it began with that it serves."""
    a, b, order = CASES[name]()
    good = np.isfinite(a).all(axis=(1, 2)) & np.isfinite(b).all(axis=1)
    assert good.mean() > 0.9
    a, b = a[good], b[good]
    assert 3 < a.shape[1] <= 12
    x = at_points(lambda a, b: solve(a, b, order), a, b)
    left = np.abs(np.einsum("sij,sj->si", a, x) - b)
    scale = np.abs(a).sum(axis=2) * np.abs(x).max(axis=1, keepdims=True) + np.abs(b)
    assert (left <= 4 * a.shape[1] * np.finfo(float).eps * scale).all()
    assert growth(a if order is None else a[:, list(order)]).max() < GROWTH


def growth(a):
    u = a / np.abs(a).max(axis=2, keepdims=True)
    largest = np.ones(len(a))
    for k in range(a.shape[1] - 1):
        u[:, k + 1 :] -= u[:, k + 1 :, k, None] / u[:, k, None, k, None] * u[:, k, None]
        largest = np.maximum(largest, np.abs(u[:, k + 1 :, k + 1 :]).max(axis=(1, 2)))
    return largest
