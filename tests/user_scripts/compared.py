"""Which method and which step for the accuracy I want?"""

import jax

import stodyn as sd


def drift(t: jax.Array, x: jax.Array) -> jax.Array:
    return 0.1 * x


def noise(t: jax.Array, x: jax.Array) -> jax.Array:
    return 0.3 * x[:, None]


growth = sd.SDE(drift, noise, start=[1.0])
table = sd.compare(growth, ["EulerMaruyama", "Milstein"], t=(0, 1), dt=[0.25, 0.125], paths=200, seed=1)
print(table["error"].values)
sd.plot.save(sd.plot.comparison(table), "compared.png")
