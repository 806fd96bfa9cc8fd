"""A wing in gusts by RK4, the filter of the gusts stepped exactly."""

import jax
import jax.numpy as jnp

import stodyn as sd
from stodyn.noise import coloured

scales = coloured.turbulence_scales(height=200.0, wind=30.0)
noise = coloured.dryden(V=176.0, sigma=scales.sigma, L=scales.L, components="uw")


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    heave, rate = x
    return jnp.array([rate, -4.0 * heave - 0.8 * rate])


wing = sd.SDE(drift, None, start=[0.0, 0.0], names=("heave", "rate"))
problem = sd.with_noise(wing, noise, into=[[0.0, 0.0], [0.0, 0.02]])
run = sd.simulate(problem, "VanLoan", t=(0, 5), dt=0.05, paths=100, seed=1)
print(run["variance"].isel(time=-1).sel(component=["heave", "w_g"]).values)
