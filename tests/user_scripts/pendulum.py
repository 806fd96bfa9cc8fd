"""How far does a damped pendulum in gusts swing after 4 s?"""

import jax
import jax.numpy as jnp

import stodyn as sd
from stodyn import statistics as st


def drift(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    angle, rate = x
    return jnp.array([rate, -p["gravity"] * jnp.sin(angle) - p["drag"] * rate])


def gusts(t: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return jnp.array([[0.0], [p["gust"]]])


pendulum = sd.SDE(
    drift,
    gusts,
    start=[1.0, 0.0],
    params={"gravity": 9.81, "drag": 0.4, "gust": 0.3},
    names=("angle", "rate"),
    units=("rad", "rad/s"),
)
run = sd.simulate(pendulum, "Heun", t=(0, 4), dt=0.02, paths=200, seed=1, collect=[st.Moments(every=20), st.Paths(3)])
end = run.sel(component="angle").isel(time=-1)
print(f"angle {float(end['mean']):.3f} ± {float(end['mean_stderr']):.3f} rad by {sd.provenance(run)['method']}")
