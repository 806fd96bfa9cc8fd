"""When does a noisy process first reach a level, and how rare is a high one?"""

import jax
import jax.numpy as jnp

import stodyn as sd
from stodyn import statistics as st


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return -x


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.array([[1.0]])


process = sd.SDE(drift, noise, start=[0.0], names=("x",))
level = sd.Level(1.0, of="x")
run = sd.simulate(process, "SRA1", t=(0, 4), dt=0.05, paths=200, seed=1, collect=st.Passage(level, mean=False))
print(float(run["passage_survival"][-1]))
stopped = sd.simulate(process, "SRA1", t=(0, 4), dt=0.05, paths=200, seed=1, stop=sd.Stop(level))
print(int((stopped["stopped_by"] >= 0).sum()), "of 200 paths were stopped")
