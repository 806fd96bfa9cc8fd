"""How the spread of a process depends on its rate and its noise, with exact errors of differences."""

import jax
import numpy as np

import stodyn as sd


def drift(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return -p["rate"] * x


def noise(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return p["sigma"] * x[:, None] ** 0


process = sd.SDE(drift, noise, start=[1.0], params={"rate": 1.0, "sigma": 0.5}, names=("x",))
over = {"rate": np.array([0.5, 1.0, 2.0]), "sigma": [0.2, 0.4]}
paths = np.int64(200)  # an integer as NumPy counts
runs = sd.sweep(process, "EulerMaruyama", over=over, t=(0, 1), dt=0.05, paths=paths, seed=1)
print(runs["variance"].isel(time=-1, component=0).values)
print(sd.difference(runs, "rate")["mean"].sizes)
