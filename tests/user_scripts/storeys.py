"""Drifts of a five-storey building in an earthquake: medians of their peaks from the ground up, and a fragility."""

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured

N, k = 5, 1.2e8  # floors of 200 t, storeys of 120 kN/mm
between = np.eye(N) - np.eye(N, k=-1)  # rows: the drift of each storey
frame = sd.Mechanical.from_matrices(
    np.full(N, 2e5), None, k * between.T @ between, damping=("modal", 0.05), units={"time": "s"}
)
print(frame)
shaken = sd.base_excited(frame, coloured.kanai_tajimi(omega=15.6, zeta=0.6, sigma=1.5))


def drifts(t: jax.Array, z: jax.Array) -> jax.Array:
    return jnp.asarray(between) @ z[:N]


peaks = st.Extreme(drifts, levels=[0.01, 0.02, 0.04], at=[4.0])
run = sd.simulate(shaken, t=(0, 4), dt=0.02, paths=200, seed=1, collect=peaks)
print("medians, in mm:", (1e3 * run["peak_quantile"].sel(peak_probability=0.5)).values.round(2))
print("P(drift of a storey > 20 mm):", run["peak_passed"].sel(peak_level=0.02).values)
sd.plot.save(sd.plot.profile(run), "drifts.png")
sd.plot.save(sd.plot.fragility(run), "fragility.png")
