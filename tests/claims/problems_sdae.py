"""What the claims of methods for SDAEs are measured on; see problems.py.

All have an affine drift and linear constraints, so that their truth is a function of the path; nonlinear ones are in
tests/methods/test_stiff.py.
"""

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.analysis.stability import a_stability, mean_square
from stodyn.analysis.stability_function import stability_function
from stodyn.models.differential_algebraic import AMPLIFIED_NOISE, LINEAR_DAE
from stodyn.noise import wiener
from stodyn.noise.iterated import MrongowiusRoessler
from stodyn.problems.sdae import SDAE

# --- additive noise: dy = (A y + a) dt + B dW seen with a mass matrix and z = y₁ + 2 y₂ - sin t

A, a, Y0 = np.array([[-0.5, 1.0], [-1.0, -0.3]]), np.array([0.3, -0.2]), np.array([0.5, -0.4])
B = np.array([[0.9, 0.3], [-0.4, 0.7]])
MASS = np.array([[1.0, 0.5], [-0.2, 1.0]])


def drift(t, x):
    return jnp.concatenate([MASS @ (A @ x[:2] + a), (x[0] + 2.0 * x[1] - jnp.sin(t) - x[2])[None]])


def constant_noise(t, x):
    return jnp.asarray(np.concatenate([MASS @ B, np.zeros((1, 2))]), x.dtype)


def mass():
    M = np.zeros((3, 3))
    M[:2, :2] = MASS
    return M


ADDITIVE = SDAE(mass(), drift, constant_noise, (*Y0, Y0[0] + 2.0 * Y0[1]))


def additive_truth(t, noise):
    """y by the exponential of A; of ∫ exp(A (h-s)) B dW over a fine step the terms B W and A B I_(j,0) are kept."""
    E = jax.scipy.linalg.expm(noise.h[0] * jnp.asarray(A))
    shift = jnp.linalg.solve(jnp.asarray(A), (E - jnp.eye(2)) @ a)
    kicks = noise.W @ B.T + noise.Z @ (A @ B).T
    y, _ = jax.lax.scan(lambda y, kick: (E @ y + shift + kick, None), jnp.asarray(Y0), kicks)
    return jnp.append(y, y[0] + 2.0 * y[1] - jnp.sin(t + jnp.sum(noise.h)))


additive_truth.needs = wiener.WZ

# --- noise that does not commute


def general_truth(t, noise):
    """Over a fine step x₁ -> e⁻ʰ x₁ + W₁ - I_(1,0), x₂ -> e⁻ʰ x₂ + z (W₂ - I_(2,0)) + I_(1,2) - x₁ (h W₂ - I_(2,0))."""

    def step(x, given):
        h, W, Z, II = given
        first, second = x
        z = first + 0.5
        kick = z * (W[1] - Z[1]) + II[0, 1] - first * (h * W[1] - Z[1])
        return (jnp.exp(-h) * first + W[0] - Z[0], jnp.exp(-h) * second + kick), None

    (first, second), _ = jax.lax.scan(step, (0.0, 0.2), (noise.h, noise.W, noise.Z, noise.II))
    return jnp.stack([first, second, first + 0.5])


general_truth.needs = MrongowiusRoessler(1)

FINE = {"steps": (16, 32, 64, 128), "paths": 1000, "refine": 2}
SHORT = {"steps": (8, 16, 32, 64), "paths": 1000, "t": (0.0, 0.125)}  # longer times are ruled by a growing mode
CASES = {
    SDAE: {
        "strong": {
            "additive": (ADDITIVE, FINE | {"reference": additive_truth}),
            "scalar": (LINEAR_DAE, SHORT),
            "commutative": (LINEAR_DAE(channels=2), SHORT),
            "general": (AMPLIFIED_NOISE.problem, FINE | {"reference": general_truth}),
        },
        "deterministic": {"additive": (ADDITIVE, {"t": (0.0, 2.0)}), "scalar": (LINEAR_DAE, {"t": (0.0, 0.5)})},
    }
}


def a_stable(method):
    """For complex λ and μ, in exact arithmetic; and the step is the one whose function was judged, to rounding."""
    verdict = a_stability(method, complex_arguments=True)
    assert verdict.a_stable is True, str(verdict)
    rng = np.random.default_rng(2)
    h = -rng.uniform(0.1, 4.0, 20) + 1j * rng.standard_normal(20)
    k = rng.standard_normal(20) + 1j * rng.standard_normal(20)
    np.testing.assert_allclose(
        stability_function(method.table).mean_square(h, k), mean_square(method, h, k), rtol=1e-11
    )


def l_stable(method):
    verdict = a_stability(method, complex_arguments=True)
    assert verdict.l_stable is True, str(verdict)
    far = mean_square(method, np.array([-1e4, -1e6]), np.array([np.sqrt(2e4), np.sqrt(2e6)]))
    assert far[1] < 0.02 * far[0] < 1e-4


PROPERTIES = {(SDAE, "A-stable"): a_stable, (SDAE, "L-stable"): l_stable}
