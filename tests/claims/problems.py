"""What the claims of methods for SDEs are measured on, one problem of each structure of noise.

Every file problems*.py of this folder gives
    CASES       class of problem -> kind of claim -> structure of noise -> (problem, options of analysis.order), a
                function of the method that gives them, or a list of which a method takes the first it does not refuse
    PROPERTIES  (class of problem, kind of claim) -> function(method) that asserts it, for claims that are no orders of
                methods that step
Where W(T) does not give the solution, the truth is a function of the path.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import stodyn
from stodyn.analysis.check import PENDULUM
from stodyn.analysis.linear import exact_moments
from stodyn.methods.srk import SRA1, SRA3
from stodyn.models.noise_structures import ADDITIVE_NOISE
from stodyn.noise import wiener
from stodyn.noise.iterated import MrongowiusRoessler
from stodyn.problems.contract import CALCULI
from stodyn.problems.sde import SDE

# --- commuting noise with a drift that does not commute with it: x = asinh(y), dy = (A y + a) dt + (1 + c t) B dW. A
# diagonal B makes the noise diagonal, a single column makes it scalar; all depend on t, x and a parameter c

A, a, Y0 = np.array([[-0.5, 1.0], [-1.0, -0.3]]), np.array([0.3, -0.2]), np.array([0.5, -0.4])


GROWTH = 0.5


def seen_through_asinh(B):
    """The problem, and its truth as a function of the path."""
    problem = SDE(
        lambda t, x, c: (A @ jnp.sinh(x) + a) / jnp.cosh(x),
        lambda t, x, c: jnp.where(B == 0.0, 0.0, (1.0 + c * t) * B / jnp.cosh(x)[:, None]),
        np.arcsinh(Y0),
        params=GROWTH,
        calculus="stratonovich",
    )

    def truth(t, noise):
        """y by the exponential of A; of ∫ exp(A (h-s)) σ(s) B dW over a fine step the terms σ(h/2) B W, σ' B (h W/2 -
        I_(j,0)) and σ(h/2) A B I_(j,0) are kept."""
        h = 1.0 / len(noise.W)
        E, σ = scipy.linalg.expm(h * A), 1.0 + GROWTH * h * (np.arange(len(noise.W))[:, None] + 0.5)
        W = σ * noise.W + GROWTH * (0.5 * h * noise.W - noise.Z)
        kicks = W @ B.T + σ * noise.Z @ (A @ B).T + np.linalg.solve(A, (E - np.eye(2)) @ a)
        return jnp.arcsinh(jax.lax.scan(lambda y, kick: (E @ y + kick, None), jnp.asarray(Y0), kicks)[0])

    truth.needs = wiener.WZ
    return problem, FINE | {"reference": truth, "refine": 4}


FINE = {"steps": (16, 32, 64, 128), "paths": 1000}
FINER = (64, 128, 256)

# --- noise that does not commute: y = (αt + W₁, W₂, ∫ y₁ dW₂) seen as x = (y₁ + sin(y₂)/2, y₂, y₃ + cos y₁)

ALPHA = 0.3


def first_channel(x):
    y = x[0] - 0.5 * jnp.sin(x[1])
    return jnp.stack([jnp.ones_like(y), jnp.zeros_like(y), -jnp.sin(y)])


def second_channel(x):
    y = x[0] - 0.5 * jnp.sin(x[1])
    return jnp.stack([0.5 * jnp.cos(x[1]), jnp.ones_like(y), y])


GENERAL = SDE(
    lambda t, x: ALPHA * first_channel(x),
    lambda t, x: jnp.stack([first_channel(x), second_channel(x)], axis=1),
    (0.0, 0.0, 1.0),
    calculus="stratonovich",
)


def general_truth(t, noise):
    """y₃ = Σ (y₁ W₂ + I_(1,2) + α I_(0,2)), all from the increments of the path."""
    h, W = noise.h, noise.W
    moves = ALPHA * h + W[:, 0]
    before = jnp.cumsum(moves) - moves
    third = jnp.sum(before * W[:, 1] + noise.II[:, 0, 1] + ALPHA * (h * W[:, 1] - noise.Z[:, 1]))
    first, second = jnp.sum(moves), jnp.sum(W[:, 1])
    return jnp.stack([first + 0.5 * jnp.sin(second), second, third + jnp.cos(first)])


general_truth.needs = MrongowiusRoessler(1)

# --- linear problems, whose weak errors are computed, in both calculi so that no method needs a converted drift

DRIFT = np.array([[-0.5, 1.0], [-1.0, -0.3]])
CHANNELS = {
    "additive": lambda x: jnp.array([[0.6, 0.2], [0.1, 0.5]], x.dtype),
    "scalar": lambda x: jnp.stack([0.4 * x[0] + 0.2 * x[1], 0.1 - 0.5 * x[0]])[:, None],
    "diagonal": lambda x: jnp.diag(x * np.array([0.6, 0.4])),
    "commutative": lambda x: jnp.stack([0.5 * x, jnp.stack([-0.5 * x[1], 0.5 * x[0]])], axis=1),
    "general": lambda x: jnp.stack([jnp.stack([0.7 * x[1], 0.0 * x[0]]), jnp.stack([0.3 * x[0], 0.5 - 0.8 * x[0]])]),
}
LINEAR = {
    (structure, calculus): SDE(
        lambda t, x: DRIFT @ x, lambda t, x, g=g: g(x), (1.0, 0.5), calculus=calculus, structure=structure
    )
    for structure, g in CHANNELS.items()
    for calculus in CALCULI
}

# --- nonlinear problems whose weak errors are computed, see polynomials.py


def curved(x):
    return jnp.stack([0.4 + 0.3 * x[0], 0.2 * x[0] ** 2 - 0.3 * x[1]])


POLYNOMIAL = {
    structure: SDE(lambda t, x: jnp.stack([0.3 - 0.8 * x[0], x[0] ** 2 - 0.5 * x[1]]), g, (0.6, -0.4))
    for structure, g in {
        "additive": lambda t, x: jnp.array([[0.6, 0.2], [0.1, 0.5]], x.dtype),
        "scalar": lambda t, x: curved(x)[:, None],
        "diagonal": lambda t, x: jnp.diag(jnp.stack([0.4 + 0.3 * x[0], 0.2 - 0.5 * x[1]])),
        "commutative": lambda t, x: jnp.stack([curved(x), -0.5 * curved(x)], axis=1),
        "general": lambda t, x: jnp.stack([curved(x), jnp.stack([-0.2 * x[0], 0.5 + 0.3 * x[0]])], axis=1),
    }.items()
}


def smooth_reference(method):
    """Additive noise: against SRA3 (SRA1 for itself), which must be much finer only for methods as good as it is."""
    alike = any(claim.kind == "strong" and claim.order > 1 for claim in method.claims)
    options = FINE | {"reference": SRA1 if method.name == SRA3.name else SRA3, "refine": 8 if alike else 2}
    return options | ({"steps": (64, 128, 256)} if method.starting_steps else {})


def finer_for_high_orders(problem, options):
    """Steps half as long and more paths for methods of order 3/2, whose errors bend at long ones."""

    def case(method):
        high = any(claim.kind == "strong" and claim.order > 1 for claim in method.claims)
        finer = {"steps": tuple(2 * steps for steps in options["steps"]), "paths": 4 * options["paths"]}
        return problem, options | (finer if high else {})

    return case


CASES = {
    SDE: {
        "strong": {
            "additive": lambda method: (ADDITIVE_NOISE, smooth_reference(method)),
            "scalar": finer_for_high_orders(*seen_through_asinh(np.array([[0.9], [-0.6]]))),
            "diagonal": finer_for_high_orders(*seen_through_asinh(np.diag([0.9, 0.7]))),
            "commutative": seen_through_asinh(np.array([[0.9, 0.3], [-0.4, 0.7]])),
            "general": (GENERAL, FINE | {"reference": general_truth, "refine": 1}),
        },
        "weak": {
            structure: lambda method, s=structure: (LINEAR[s, method.calculus or "ito"], {"steps": FINER})
            for structure in CHANNELS
        },
        "weak, sampled": {
            "general": (GENERAL, {"steps": (16, 32, 64), "paths": 10_000, "reference": general_truth, "refine": 1})
        },
        "weak, nonlinear": {
            structure: (problem, {"steps": (8, 16, 32, 64)}) for structure, problem in POLYNOMIAL.items()
        },
        "deterministic": {"additive": (PENDULUM[0], {"t": (0.0, 2.0)}), "scalar": (PENDULUM[1], {"t": (0.0, 2.0)})},
    }
}


def exact_in_law(method):
    """Mean and variance after two long steps within 6 standard errors of the exact ones: false alarms below 1e-7."""
    problem = LINEAR["additive", "ito"]
    run = stodyn.simulate(problem, method, t=(0.0, 2.0), dt=1.0, paths=40_000, seed=11)
    mean, covariance = exact_moments(problem, 2.0, np.array(problem.start), np.zeros((2, 2)))
    for name, exact in (("mean", mean), ("variance", np.diagonal(covariance))):
        found = run.isel(time=-1)
        assert np.all(np.abs(found[name] - exact) <= 6.0 * found[f"{name}_stderr"]), (name, found[name].values, exact)


PROPERTIES = {(SDE, "exact in law"): exact_in_law}
