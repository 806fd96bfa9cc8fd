"""The mean time to cross a barrier, beside the exact one."""

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st

T = 0.35


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return x - x**3


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.full_like(x, (2 * T) ** 0.5)


particle = sd.SDE(drift, noise, start=-1.0, names=("x",))
escape = st.Passage(sd.Level(1.0, of="x"))
run = sd.simulate(particle, "SRA1", t=(0, 120), dt=0.05, paths=300, seed=1, collect=escape)
y = np.linspace(-3.0, 1.0, 4001)
V = y**4 / 4 - y**2 / 2
inner = np.concatenate([[0.0], np.cumsum(0.5 * (np.exp(-V / T)[1:] + np.exp(-V / T)[:-1]) * np.diff(y))])
exact = np.trapezoid((np.exp(V / T) * inner)[y >= -1.0], y[y >= -1.0]) / T
print(f"{float(run['passage_mean']):.2f} ± {float(run['passage_mean_stderr']):.2f}, exactly {exact:.2f}")
sd.plot.save(sd.plot.survival(run), "survival.png")
