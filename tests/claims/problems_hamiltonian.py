"""What the claims of methods for Hamiltonian systems are measured on; see problems.py."""

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.analysis.linear import step_map
from stodyn.methods.milstein import MilsteinLevy
from stodyn.methods.srk import SRA3
from stodyn.noise.iterated import MrongowiusRoessler
from stodyn.numerics.printing.points import at_points
from stodyn.problems.hamiltonian import Hamiltonian

START = (0.8, -0.3)


def pendulum(q, p):
    return 0.5 * p**2 - jnp.cos(q)


# Noise on both q and p, and on p alone: Langevin's equation, where some methods do better. Additive noise may depend on
# time and on parameters, and so do these.
ADDITIVE = Hamiltonian(
    lambda t, q, p, c: pendulum(q, p) + 0.5 * jnp.sin(2.0 * p) * (1.0 + 0.3 * jnp.sin(t)),
    [lambda t, q, p, c: 1.5 * (0.4 + c * t) * (p - q), lambda t, q, p, c: 0.5 * jnp.cos(2.0 * t) * p],
    lambda t, q, p, c: -0.4 * p,
    start=START,
    params=0.8,
)
LANGEVIN = Hamiltonian(
    lambda t, q, p, c: pendulum(q, p) - 0.3 * q * jnp.sin(t),
    [lambda t, q, p, c: -1.2 * (0.4 + c * t) * q, lambda t, q, p, c: -0.6 * jnp.cos(2.0 * t) * q],
    lambda t, q, p, c: -0.4 * p,
    start=START,
    params=0.8,
)
LINEAR_ADDITIVE = Hamiltonian(
    lambda t, q, p, c: 0.5 * (q**2 + p**2),
    lambda t, q, p, c: -0.8 * (0.4 + c * t) * q,
    lambda t, q, p, c: -0.4 * p,
    start=START,
    params=0.8,
)

# Rotations whose clock fluctuates: the angle is t + 0.6 W₁ + 0.4 W₂.
LINEAR_CLOCKS = Hamiltonian(
    lambda t, q, p: 0.5 * (q**2 + p**2),
    [lambda t, q, p: 0.3 * (q**2 + p**2), lambda t, q, p: 0.2 * (q**2 + p**2)],
    start=START,
)
LINEAR_CLOCK = Hamiltonian(
    lambda t, q, p: 0.5 * (q**2 + p**2), lambda t, q, p: 0.3 * (q**2 + p**2), lambda t, q, p: -0.4 * p, start=START
)


def rotated(t, W):
    (q, p), angle = START, t + W @ np.array([0.6, 0.4])
    return np.stack([q * np.cos(angle) + p * np.sin(angle), p * np.cos(angle) - q * np.sin(angle)], axis=-1)


# Two channels whose brackets do not vanish: q₁ = αt + W₁, q₂ = W₂, q₃ = ∫ q₁ dW₂, p₁ = -p₃ W₂.
ALPHA = 0.3
GENERAL = Hamiltonian(
    lambda t, q, p: ALPHA * p[0],
    [lambda t, q, p: p[0], lambda t, q, p: p[1] + q[0] * p[2]],
    start=((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
)


def general_truth(t, noise):
    h, W = noise.h, noise.W
    moves = ALPHA * h + W[:, 0]
    before = jnp.cumsum(moves) - moves
    third = jnp.sum(before * W[:, 1] + noise.II[:, 0, 1] + ALPHA * (h * W[:, 1] - noise.Z[:, 1]))
    second = jnp.sum(W[:, 1])
    return jnp.stack([jnp.sum(moves), second, third, -second, jnp.zeros(()), jnp.ones(())])


general_truth.needs = MrongowiusRoessler(1)

LINEAR_GENERAL = Hamiltonian(
    lambda t, q, p: 0.5 * (q**2 + p**2), [lambda t, q, p: 0.3 * p**2, lambda t, q, p: 0.3 * q**2], start=START
)

FINE, COMPUTED = {"steps": (16, 32, 64, 128), "paths": 1000}, {"steps": (16, 32, 64, 128)}

CASES = {
    Hamiltonian: {
        "strong": {
            "additive": [(problem, FINE | {"reference": SRA3}) for problem in (ADDITIVE, LANGEVIN)],
            "commutative": (LINEAR_CLOCKS, FINE | {"exact": rotated}),
            "general": [
                (GENERAL, FINE | {"reference": general_truth, "refine": 1}),
                (LINEAR_GENERAL, FINE | {"reference": MilsteinLevy}),
            ],
        },
        "weak": {
            "additive": (LINEAR_ADDITIVE, {"steps": (8, 16, 32, 64)}),
            "scalar": (LINEAR_CLOCK, COMPUTED),
            "commutative": (LINEAR_CLOCKS, COMPUTED),
            "general": (LINEAR_GENERAL, COMPUTED),
        },
        "deterministic": {"additive": (LANGEVIN, {"t": (0.0, 2.0)})},
    }
}


def symplectic(method):
    """The derivative J of a step has J' Ω J = Ω, for some starts and increments and no forces."""
    free = (GENERAL, LINEAR_GENERAL, unforced(LINEAR_CLOCK), unforced(LANGEVIN))
    problem = next(problem for problem in free if method.refusal(problem) is None)
    Ω = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(problem.n // 2))
    rng = np.random.default_rng(0)
    drawn = {name: rng.standard_normal((3, count)) for name, count in method.needs.normals(problem.m).items()}

    def after(x, drawn):
        return method.step(problem, 0.0, x, method.needs.increment(0.1, drawn, problem.m), problem.params)[0]

    for J in at_points(jax.jacfwd(after), rng.standard_normal((3, problem.n)), drawn):
        np.testing.assert_allclose(J.T @ Ω @ J, Ω, atol=1e-8)


def unforced(problem):
    return Hamiltonian(problem.H, problem.h, start=START, params=problem.params)


FRICTION, SIGMA = 0.7, 0.9  # of the temperature σ²/(2γ)


def bath(stiffness):
    """Of a harmonic oscillator in a bath the covariance that steps of length h leave, from the moments of the step."""
    problem = Hamiltonian(lambda t, q, p: 0.5 * p**2 + 0.5 * stiffness * q**2, lambda t, q, p: -SIGMA * q,
                          lambda t, q, p: -FRICTION * p, start=START)  # fmt: skip
    return lambda method, h: step_map(problem, method, h)


def temperature_of_free_particles(method):
    """Var p tends to σ²/(2γ) at any step, γ h = 5 included."""
    for h in (0.1, 5.0 / FRICTION):
        step = bath(0.0)(method, h)
        slope, spread = step.M[1, 1], step.second[1, -1, 1, -1]
        np.testing.assert_allclose(spread / (1.0 - slope**2), SIGMA**2 / (2 * FRICTION), rtol=1e-12)


def measured_covariances(method, steps):
    return [np.asarray(bath(1.7)(method, h).stationary().covariance) for h in steps]


def invariant_measure(method):
    """The error of the stationary covariance falls with h²."""
    exact = SIGMA**2 / (2 * FRICTION) * np.diag([1 / 1.7, 1.0])
    coarse, fine = (np.abs(P - exact).max() for P in measured_covariances(method, (0.2, 0.1)))
    assert 1.9 < np.log2(coarse / fine) < 2.1


def harmonic_spread(method):
    """Var q is kT/k at any stable step."""
    for P in measured_covariances(method, (0.1, 1.0)):
        np.testing.assert_allclose(P[0, 0], SIGMA**2 / (2 * FRICTION) / 1.7, rtol=1e-11)


PROPERTIES = {
    (Hamiltonian, "symplectic"): symplectic,
    (Hamiltonian, "temperature of free particles"): temperature_of_free_particles,
    (Hamiltonian, "invariant measure"): invariant_measure,
    (Hamiltonian, "exact spread of harmonic oscillators"): harmonic_spread,
}
