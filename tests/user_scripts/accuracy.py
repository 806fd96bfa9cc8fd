"""An expectation to a stated error: how many paths and which step is the library's business."""

import jax
import jax.numpy as jnp

import stodyn as sd


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return -x


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.array([[1.0]])


def square(t: jax.Array, x: jax.Array) -> jax.Array:
    return x[0] ** 2


process = sd.SDE(drift, noise, start=[0.0])
found = sd.estimate(process, square, t=(0, 1), error=0.05, seed=1)
print(f"{float(found['value']):.3f} ± {float(found['error']):.3f}, exactly 0.432")
run = sd.simulate(process, "SRA1", t=(0, 1), dt=0.1, paths=sd.until(error=0.05, most=10_000), seed=1)
print(sd.provenance(run)["paths"], "paths")
