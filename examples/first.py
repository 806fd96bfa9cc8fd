"""A pendulum in turbulent air: twenty lines, one picture

A pendulum starts high and swings under gravity and drag, while gusts kick it, the harder the faster it moves:
d(rate) = (-g sin(angle) - drag rate) dt + gust (1 + |rate|) dW. The picture shows six of the paths, their mean, and
the band of two standard deviations, which is wide because some pendulums go over the top. No closed form is known,
but energy must balance: the mean energy at the end is that of the start plus what gusts bring and drag takes.
Domain: first steps
"""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 100_000  # small: 2000


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
    units={"angle": "rad", "rate": "rad/s", "time": "s"},
)


def energy(t, x, p):
    return 0.5 * x[1] ** 2 + p["gravity"] * (1.0 - jnp.cos(x[0]))


def power(t, x, p):  # Ito's formula: what gusts bring minus what drag takes
    return 0.5 * (p["gust"] * (1.0 + jnp.abs(x[1]))) ** 2 - p["drag"] * x[1] ** 2


collect = [st.Moments(every=4), st.Paths(6), st.Observable(energy), st.Observable(power)]
run = sd.simulate(pendulum, "Heun", t=(0, 8), dt=0.01, paths=PATHS, seed=1, collect=collect)
sd.plot.save(sd.plot.band(run, "angle"), "first.png")

end = run.isel(time=-1)
angle = end.sel(component="angle")
print(f"mean angle after 8 s: {float(angle['mean']):.4f} +- {float(angle['mean_stderr']):.4f} rad")
balance = float(run["energy"][0]) + np.trapezoid(run["power"], run["time"])
error = float(end["energy_stderr"]) + np.trapezoid(run["power_stderr"], run["time"])
print(f"truth: energy by its balance {balance:.4f}, ours {float(end['energy']):.4f} +- {error:.4f}")
