"""What the claims of methods for mechanical systems are measured on; see problems.py."""

import os

import jax
import jax.numpy as jnp
import numpy as np

import stodyn
from stodyn import statistics
from stodyn.methods.alpha import StochasticAlpha, StochasticAlpha20
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.models.jointed import JOINTED_PENDULUM, THERMAL_PENDULUM
from stodyn.models.oscillators import NOISY_OSCILLATOR
from stodyn.noise.increment import Increment
from stodyn.numerics import gauss, uncompiled
from stodyn.numerics.newton import underived
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.mechanical_facts import ADDITIVE_LINEAR, CONSTANT_UNDAMPED

START = (1.0, 0.5)
# Noise strong enough for its errors to be seen beside those of the force.
VELOCITY = Mechanical(lambda t, x, v: -0.5 * x, lambda t, x, v: v, START)
POSITION = Mechanical(lambda t, x, v: -0.5 * x, lambda t, x, v: 1.0 + jnp.sin(x), START)
UNDAMPED = Mechanical(lambda t, x, v: -4.0 * jnp.sin(x), lambda t, x, v: jnp.full_like(x, 0.5), START)
DAMPED = Mechanical(
    lambda t, x, v: -4.0 * jnp.sin(x) - (1.0 + 0.5 * jnp.cos(x)) * v, lambda t, x, v: 0.5 + 0.2 * jnp.sin(t), START
)
SWING = Mechanical(lambda t, x, v: jnp.cos(t) - 4.0 * jnp.sin(x) - 0.3 * x**2 * v, lambda t, x, v: 0.1 * x, START)

# Weak errors of order 1 that stand out beside those of the force.
OSCILLATOR = NOISY_OSCILLATOR(omega=1.0, eta=0.8, chi=0.5).problem


def fine(problem, for_half_orders=None):
    """Orders beyond 1 are measured against a reference that is twice as fine."""

    def case(method):
        chosen = for_half_orders if for_half_orders is not None and method.order == 1.5 else problem
        refine = 4 if method.promised("strong", chosen.noise_structure) == 1.0 else 8
        return chosen, {"reference": StochasticAlpha20, "steps": (16, 32, 64, 128), "paths": 1000, "refine": refine}

    return case


# Two channels of one coordinate that do not commute: (b_2 · ∂/∂v) b_1 = 0.64 cos v, and b_2 is constant.
TURNING = Mechanical(
    lambda t, x, v: -0.5 * x,
    lambda t, x, v: jnp.stack([0.8 * jnp.sin(v), jnp.full_like(v, 0.8)], axis=1),
    start=([1.0], [0.5]),
)


def general(method):
    """The family shares its noise terms, so that one member is measured with areas, the others with one channel: of all
    orders by `make test-full`, else of order 2, which has the terms of the others."""
    with_areas = isinstance(method, type(StochasticAlpha)) and (method.order == 2.0 or os.environ.get("STODYN_FULL"))
    if not with_areas:
        return fine(VELOCITY, for_half_orders=POSITION)(method)
    paths = 1000 if method.order == 1.0 else 2000
    options = {"reference": StochasticAlpha20, "steps": (8, 16, 32, 64), "paths": paths, "refine": 8, "t": (0.0, 0.5)}
    return TURNING, options


# A rod kicked hard, so that the errors of noise rule; its reference, ProjectedAlpha of order 2, equals the angle's path
# to its own error (tests/models/test_jointed.py).
KICKED = JOINTED_PENDULUM(noise=(12.0, 0.0)).problem


# Noise and friction that balance, for the method that samples a temperature.
THERMAL = THERMAL_PENDULUM.problem


def held(method):
    """Of order 1.5 at shorter steps, where its errors no longer fall like h², and for a shorter time."""
    is_half = method.order == 1.5
    steps, paths, end = ((64, 128, 256), 1500, 0.25) if is_half else ((32, 64, 128), 500, 0.5)
    return KICKED, {"reference": ProjectedAlpha, "steps": steps, "paths": paths, "refine": 8, "t": (0.0, end)}


SAMPLED = {"reference": StochasticAlpha20, "steps": (8, 16, 32), "paths": 20_000, "refine": 8}


def fast_or_slow(method):
    """For weak order 2 an oscillator whose frequency makes errors that stand out beside those of sampling."""
    return (OSCILLATOR, SAMPLED | {"refine": 4}) if method.order == 1.0 else (NOISY_OSCILLATOR.problem, SAMPLED)


CASES = {
    Mechanical: {
        "strong": {
            "general": general,
            "scalar": [fine(VELOCITY, for_half_orders=POSITION), held],
            CONSTANT_UNDAMPED: fine(UNDAMPED),
            ADDITIVE_LINEAR: fine(DAMPED),
        },
        "weak, sampled": {
            "scalar": fast_or_slow,
            CONSTANT_UNDAMPED: (UNDAMPED, SAMPLED),
        },
        "deterministic": {
            "scalar": [(SWING, {"t": (0.0, 2.0)}), (JOINTED_PENDULUM.problem, {"t": (0.0, 2.0)})],
            "commutative": [(THERMAL, {"t": (0.0, 2.0)})],
        },
    }
}


def constraints_hold(method):
    """g = 0 and G v = 0 to rounding after a thousand steps."""
    problem = THERMAL if method.refusal(JOINTED_PENDULUM.problem) else JOINTED_PENDULUM.problem

    def off(t, x):
        return jnp.abs(jnp.stack([x[:2] @ x[:2] - 1.0, x[:2] @ x[2:4]]))

    watched = statistics.Observable(off, every=100)
    run = stodyn.simulate(problem, method, t=(0.0, 10.0), dt=0.01, paths=4, seed=3, collect=watched)
    assert run["off"].values.max() < 1e-13


def invariant_measure(method):
    """A step from the exact law of a pendulum changes expectations by O(h³), so that the law that it keeps differs by
    O(h²): by Gauss' rules in ω and the two normals, the trapezoidal rule in θ."""
    κ, θ = 1.5, 2.0 * np.pi * np.arange(32) / 32
    (ω, of_rate), (ξ, of_normal) = gauss.hermite(20), gauss.hermite(6)
    θ, ω, first, second = (part.ravel() for part in np.meshgrid(θ, ω, ξ, ξ, indexing="ij"))
    angles = np.exp(κ * np.cos(2.0 * np.pi * np.arange(32) / 32))
    weight = np.einsum("i,j,k,l->ijkl", angles / angles.sum(), of_rate, of_normal, of_normal).ravel()
    x = np.stack([np.sin(θ), -np.cos(θ), ω * np.cos(θ), ω * np.sin(θ)], axis=1)

    def change(h, x, ξ):
        def seen(x):
            return jnp.stack([-x[1], x[2] ** 2 + x[3] ** 2, -x[1] * (x[2] ** 2 + x[3] ** 2)])

        noise = Increment(h, jnp.sqrt(h) * ξ)
        return seen(method.step(THERMAL, 0.0, x, noise, None)[0]) - seen(x)

    with underived():
        changes = AtPoints(change, (None, 0, 0))
        defects = [np.abs(weight @ changes(h, x, np.stack([first, second], axis=1))) for h in (0.1, 0.05)]
    assert np.all(defects[0] < 5e-4) and np.all(defects[1] < defects[0] / 6.5), defects


def symplectic(method):
    """Of a pendulum in its angle and its rate: the map of a step keeps areas, whatever the increment is."""
    problem = JOINTED_PENDULUM.problem

    def step(u):
        θ, ω = u
        x = jnp.stack([jnp.sin(θ), -jnp.cos(θ), ω * jnp.cos(θ), ω * jnp.sin(θ)])
        after, _ = method.step(problem, 0.0, x, Increment(0.1, jnp.array([0.4]), jnp.array([0.01])), None)
        return jnp.stack([jnp.arctan2(after[0], -after[1]), after[2] * -after[1] + after[3] * after[0]])

    area = jnp.linalg.det(uncompiled.value(jax.jacfwd(step), np.array([0.7, 1.3])))
    assert abs(area - 1.0) < 1e-12


PROPERTIES = {
    (Mechanical, "constraints"): constraints_hold,
    (Mechanical, "invariant measure"): invariant_measure,
    (Mechanical, "symplectic"): symplectic,
}
