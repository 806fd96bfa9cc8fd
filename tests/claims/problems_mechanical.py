"""What the claims of methods for mechanical systems are measured on; see problems.py."""

import jax.numpy as jnp

from stodyn.methods.alpha import StochasticAlpha20
from stodyn.models.oscillators import NOISY_OSCILLATOR
from stodyn.problems.mechanical import ADDITIVE_LINEAR, CONSTANT_UNDAMPED, Mechanical

START = (1.0, 0.5)
# Noise strong enough for its errors to be seen beside those of the force.
VELOCITY = Mechanical(lambda t, x, v: -0.5 * x, lambda t, x, v: v, START)
UNDAMPED = Mechanical(lambda t, x, v: -4.0 * jnp.sin(x), lambda t, x, v: jnp.full_like(x, 0.5), START)
DAMPED = Mechanical(
    lambda t, x, v: -4.0 * jnp.sin(x) - (1.0 + 0.5 * jnp.cos(x)) * v, lambda t, x, v: 0.5 + 0.2 * jnp.sin(t), START
)
SWING = Mechanical(lambda t, x, v: jnp.cos(t) - 4.0 * jnp.sin(x) - 0.3 * x**2 * v, lambda t, x, v: 0.1 * x, START)

FINE = {"reference": StochasticAlpha20, "steps": (16, 32, 64, 128), "paths": 1000, "refine": 4}
SAMPLED = {"reference": StochasticAlpha20, "steps": (16, 32, 64), "paths": 20_000, "refine": 4}

CASES = {
    Mechanical: {
        "strong": {
            "scalar": (VELOCITY, FINE),
            CONSTANT_UNDAMPED: (UNDAMPED, FINE),
            ADDITIVE_LINEAR: (DAMPED, FINE),
        },
        "weak, sampled": {
            "scalar": (NOISY_OSCILLATOR.problem, SAMPLED),
            CONSTANT_UNDAMPED: (UNDAMPED, SAMPLED),
            ADDITIVE_LINEAR: (DAMPED, SAMPLED),
        },
        "deterministic": {"scalar": (SWING, {"t": (0.0, 2.0)})},
    }
}
PROPERTIES = {}
