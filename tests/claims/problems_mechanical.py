"""What the claims of methods for mechanical systems are measured on; see problems.py."""

import jax.numpy as jnp

import stodyn
from stodyn import statistics
from stodyn.methods.alpha import StochasticAlpha20
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.models.jointed import JOINTED_PENDULUM
from stodyn.models.oscillators import NOISY_OSCILLATOR
from stodyn.problems.mechanical import ADDITIVE_LINEAR, CONSTANT_UNDAMPED, Mechanical

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


# A rod kicked hard, so that the errors of noise rule; its reference, ProjectedAlpha of order 2, equals the angle's path
# to its own error (tests/models/test_jointed.py).
KICKED = JOINTED_PENDULUM(noise=(12.0, 0.0)).problem


def held(method):
    """Of order 1.5 at shorter steps, where its errors no longer fall like h², and for a shorter time."""
    is_half = method.order == 1.5
    steps, paths, end = ((64, 128, 256), 1500, 0.25) if is_half else ((32, 64, 128), 500, 0.5)
    return KICKED, {"reference": ProjectedAlpha, "steps": steps, "paths": paths, "refine": 8, "t": (0.0, end)}


SAMPLED = {"reference": StochasticAlpha20, "steps": (8, 16, 32), "paths": 20_000, "refine": 8}


def fast_or_slow(method):
    """For weak order 2 an oscillator whose frequency makes errors that stand out beside those of sampling."""
    return (OSCILLATOR if method.order == "paper" else NOISY_OSCILLATOR.problem), SAMPLED


CASES = {
    Mechanical: {
        "strong": {
            "scalar": [fine(VELOCITY, for_half_orders=POSITION), held],
            CONSTANT_UNDAMPED: fine(UNDAMPED),
            ADDITIVE_LINEAR: fine(DAMPED),
        },
        "weak, sampled": {
            "scalar": fast_or_slow,
            CONSTANT_UNDAMPED: (UNDAMPED, SAMPLED),
        },
        "deterministic": {"scalar": [(SWING, {"t": (0.0, 2.0)}), (JOINTED_PENDULUM.problem, {"t": (0.0, 2.0)})]},
    }
}


def constraints_hold(method):
    """g = 0 and G v = 0 to rounding after a thousand steps."""
    problem = JOINTED_PENDULUM(friction=0.5).problem

    def off(t, x):
        return jnp.abs(jnp.stack([x[:2] @ x[:2] - 1.0, x[:2] @ x[2:4]]))

    watched = statistics.Observable(off, every=100)
    run = stodyn.simulate(problem, method, t=(0.0, 10.0), dt=0.01, paths=4, seed=3, collect=watched)
    assert run["off"].values.max() < 1e-13


PROPERTIES = {(Mechanical, "constraints"): constraints_hold}
