"""The stochastic Allen-Cahn equation on a ring of 2000 nodes: phases that form, meet and are moved by noise."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

N, LENGTH, DIFFUSIVITY, NOISE = 2000, 200.0, 1.0, 0.3
SPACING = LENGTH / N


def drift(t, u):
    curvature = (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)) / SPACING**2
    return DIFFUSIVITY * curvature + u - u**3


def noise(t, u):  # white in space too: a node stands for a cell of length SPACING
    return sd.diagonal(jnp.full(N, NOISE / np.sqrt(SPACING)))


field = sd.SDE(drift, noise, start=np.zeros(N))
run = sd.simulate(field, "EulerMaruyama", t=(0, 50), dt=0.004, paths=8, seed=1, collect=st.Paths(1, every=125))
times, u = run.time.values, run.path.values[0]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
picture = axes.pcolormesh(np.arange(N) * SPACING, times, u, cmap="RdBu_r", vmin=-1.5, vmax=1.5, shading="auto")
axes.set(xlabel="x", ylabel="t", title="Allen-Cahn equation with space-time white noise")
figure.colorbar(picture, label="u")
figure.savefig("allen_cahn.png", dpi=120)
