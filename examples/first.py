"""A pendulum in turbulent air: twenty lines, one picture

A pendulum starts high and swings under gravity and drag, while gusts kick it, the harder
the faster it moves: d(rate) = (-g sin(angle) - drag rate) dt + gust (1 + |rate|) dW. The
picture shows six of the paths, their mean, and the band of two standard deviations, which
is wide because some pendulums go over the top. No closed form is known, but energy must
balance: besides the angle and the rate, each path sums the energy that the gusts bring
and the drag takes away, and the mean energy at the end minus this sum equals the mean
energy at the start.

Domain: first steps
"""

import jax.numpy as jnp

import stodyn as sd
from stodyn import statistics as st

PATHS = 100_000  # small: 2000


def gust(rate, p):  # stronger when the pendulum moves
    return p["gust"] * (1.0 + jnp.abs(rate))


def drift(t, x, p):
    angle, rate, _ = x
    # Ito's formula: what gusts bring minus what drag takes
    power = 0.5 * gust(rate, p) ** 2 - p["drag"] * rate**2
    return jnp.array([rate, -p["gravity"] * jnp.sin(angle) - p["drag"] * rate, power])


def gusts(t, x, p):  # one channel
    return jnp.array([0.0, gust(x[1], p), 0.0])[:, None]


pendulum = sd.SDE(
    drift,
    gusts,
    start=[2.0, 0.0, 0.0],
    params={"gravity": 9.81, "drag": 0.4, "gust": 0.3},
    names=("angle", "rate", "gained"),
    units={"angle": "rad", "rate": "rad/s", "time": "s"},
)


def energy(t, x, p):
    return 0.5 * x[1] ** 2 + p["gravity"] * (1.0 - jnp.cos(x[0]))


def balance(t, x, p):
    return energy(t, x, p) - x[2]


collect = [
    st.Moments(every=4), st.Paths(6), st.Observable(energy), st.Observable(balance),
]
run = sd.simulate(
    pendulum, "Heun", t=(0, 8), dt=0.01, paths=PATHS, seed=1, collect=collect
)
sd.plot.save(sd.plot.band(run, "angle"), "first.png")

end = run.isel(time=-1)
angle = end.sel(component="angle")
print(
    f"mean angle after 8 s: {float(angle['mean']):.4f} ± "
    f"{float(angle['mean_stderr']):.4f} rad"
)
print(
    f"mean energy after 8 s: {float(end['energy']):.4f} ± "
    f"{float(end['energy_stderr']):.4f}"
)
ours, error = float(end["balance"]), float(end["balance_stderr"])
print(
    f"truth: energy less what was gained is {float(run['energy'][0]):.4f}, "
    f"ours {ours:.4f} "
    f"± {error:.4f}"
)
