"""A pendulum in turbulent air: twenty lines, one picture."""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st


def drift(t, x, p):
    angle, rate = x
    return jnp.array([rate, -p["gravity"] * jnp.sin(angle) - p["drag"] * rate])


def gusts(t, x, p):  # one channel, stronger when the pendulum moves
    return jnp.array([0.0, p["gust"] * (1.0 + jnp.abs(x[1]))])[:, None]


pendulum = sd.SDE(
    drift,
    gusts,
    start=[2.0, 0.0],
    params={"gravity": 9.81, "drag": 0.4, "gust": 0.3},
    names=("angle", "rate"),
    units=("rad", "rad/s"),
)
run = sd.simulate(
    pendulum,
    "Heun",
    t=(0, 8),
    dt=0.01,
    paths=100_000,
    seed=1,
    collect=[st.Moments(every=4), st.Paths(6), st.Histogram(np.linspace(-4, 4, 81))],
)
print(
    run["mean"].sel(component="angle", time=8.0).item(),
    "+-",
    run["mean_stderr"].sel(component="angle", time=8.0).item(),
)
sd.plot.save(sd.plot.band(run, "angle"), "pendulum.png")
