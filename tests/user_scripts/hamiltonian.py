"""A stochastic pendulum by an integrator that keeps its structure; one path is differentiable."""

import jax
import jax.numpy as jnp

import stodyn as sd
from stodyn import statistics as st


def energy(t: jax.Array, q: jax.Array, p: jax.Array) -> jax.Array:
    return p**2 / 2 - jnp.cos(q)


def kick(t: jax.Array, q: jax.Array, p: jax.Array) -> jax.Array:
    return -0.1 * q


pendulum = sd.Hamiltonian(energy, h=kick, start=(1.0, 0.0))
best = sd.recommend(pendulum, want="long")[0]
run = sd.simulate(pendulum, best.method, t=(0, 2), dt=0.1, paths=50, seed=1, collect=st.Paths(2))
print(best.method, run["path"].shape)
