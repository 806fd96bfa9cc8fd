"""A mechanical oscillator in white noise, its histogram and a quantile."""

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st


def force(t: jax.Array, x: jax.Array, v: jax.Array) -> jax.Array:
    return -4.0 * x - x**3 - 0.4 * v


def noise(t: jax.Array, x: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.array([[0.5]])


mast = sd.Mechanical(force, noise, start=([0.0], [0.0]), mass=1.0, names=("x",), units=("m", "m/s"))
edges = np.linspace(-2.0, 2.0, 41)
run = sd.simulate(mast, "StochasticAlpha", t=(0, 4), dt=0.05, paths=500, seed=1, collect=st.Histogram(edges))
print(float(sd.quantile(run, 0.9)["quantile"].sel(component="x")[-1]))
