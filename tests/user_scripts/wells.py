"""The mean square of a particle in two wells, from a ready-made model, by a method that is recommended."""

import jax
import jax.numpy as jnp

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.double_well import DOUBLE_WELL


def square(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return jnp.sum(x**2)


problem = DOUBLE_WELL.problem
choices = sd.recommend(problem, want="weak")
run = sd.simulate(problem, None, t=(0, 1), dt=0.05, paths=1e2, seed=1, collect=st.Observable(square, name="square"))
print(choices)
print(float(run["square"][-1]), float(run["square_stderr"][-1]))
