"""Frequency and damping of a mast from a record of its sway, with their intervals."""

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd


def drift(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return jnp.array([x[1], -(p["omega"] ** 2) * x[0] - 2 * p["zeta"] * p["omega"] * x[1]])


def gusts(t: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.array([[0.0], [0.5]])


truth = {"omega": 3.0, "zeta": 0.05}
mast = sd.SDE(drift, gusts, start=[0.0, 0.0], params=truth, names=("sway", "speed"))
sensor = sd.Sensor("sway", of="sway", noise=sd.per_sample(0.02))
run = sd.simulate(mast, t=(0, 60), dt=0.05, paths=1, seed=2, collect=sd.statistics.Paths(1, every=4))
path = run["path"].isel(number=0).sel(component="sway")
values = path.values[1:] + 0.02 * np.random.default_rng(1).standard_normal(path.size - 1)
record = sd.Record({"sway": (path[path.dims[0]].values[1:], values)}, sensor)
result = sd.fit(mast, data=record, free={"omega": (0, 15), "zeta": (0, 1)})
for name in truth:
    one = result.sel(parameter=name)
    print(f"{name} = {float(one['estimate']):.4f}, 95 %: {float(one['low']):.4f} to {float(one['high']):.4f}")
