"""A pendulum held upright by a sampled controller that reads a gyro and an encoder."""

from typing import Any

import jax
import jax.numpy as jnp

import stodyn as sd

EVERY = 0.01


def drift(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return jnp.array([x[1], 9.81 * jnp.sin(x[0]) + p["u"]])


def push(t: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.array([[0.0], [0.05]])


def update(t: jax.Array, own: Any, seen: dict[str, jax.Array], params: Any) -> tuple[Any, jax.Array]:
    return own, -40.0 * seen["encoder"] - 8.0 * seen["gyro"]


plant = sd.SDE(drift, push, start=[0.05, 0.0], params={"u": 0.0}, names=("angle", "rate"))
gyro = sd.noise.gyro(arw="0.34 deg/sqrt(h)", every=EVERY)
print(f"angle random walk {gyro.N:.3g} rad/√s")
loop = sd.with_loop(
    plant,
    sd.Sensor("gyro", of="rate", every=EVERY, noise=sd.per_sample(gyro.N / EVERY**0.5)),
    sd.Sensor("encoder", of="angle", every=EVERY, noise=sd.per_sample(1e-3)),
    sd.Part("controller", every=EVERY, reads=("gyro", "encoder"), writes="u", state={}, update=update),
)
run = sd.simulate(loop, "RK4", t=(0, 2), dt=0.005, paths=100, seed=1)
end = run.sel(component="angle").isel(time=-1)
print(f"the angle stays within {1e3 * float(end['std']):.2f} ± {1e3 * float(end['std_stderr']):.2f} mrad (1σ)")
