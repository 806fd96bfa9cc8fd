"""A differential-algebraic equation: what is its index, and how does it run?"""

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    u, w = x
    return jnp.array([-u, u - w - w**3])


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.array([[1e-2], [0.0]])


problem = sd.SDAE(np.diag([0.1, 0.0]), drift, noise, start=[0.5, 0.4], names=("u", "w"))
print(problem.diagnose())
run = sd.simulate(problem, t=(0, 1), dt=0.05, paths=50, seed=1)
print(run["mean"].isel(time=-1).values)
