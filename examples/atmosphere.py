"""An atmosphere of balls: how high is it?

Balls under gravity and friction, kicked by thermal noise, bounce off an elastic floor;
impacts are located within the steps. In equilibrium a ball has the density exp(-(v²/2 + g
x)/T), whatever the friction: the barometric formula. The picture shows the density of the
heights, which falls by a factor e every T/g, the mean height.

Domain: particles and plasma
"""

import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 20_000  # small: 500
GRAVITY, FRICTION, TEMPERATURE = 1.0, 0.5, 0.7

ball = sd.Mechanical(
    lambda t, x, v: -GRAVITY - FRICTION * v,
    lambda t, x, v: np.sqrt(2 * FRICTION * TEMPERATURE),
    start=(1.0, 0.0),
    names=("height",),
)
floor = sd.Impact(sd.Level(0.0, of="height", direction="down"), sd.Restitution(1.0))
collect = [st.Moments(at=[20.0]), st.Histogram(np.linspace(0, 4, 41), at=[20.0])]
run = sd.simulate(
    sd.with_walls(ball, floor), "SRA1", t=(0, 20), dt=0.02, paths=PATHS, seed=1,
    collect=collect,
)

scale = TEMPERATURE / GRAVITY
ax = sd.plot.histogram(run, "height", exact=lambda x: np.exp(-x / scale) / scale)
sd.plot.save(ax, "atmosphere.png")
end = run.isel(time=-1)
print(
    f"a ball strikes the floor {float(end['mean'].sel(component='impacts')):.1f} times "
    "on average"
)
height, error = (
    float(end[name].sel(component="height")) for name in ("mean", "mean_stderr")
)
print(f"truth: mean height T/g is {scale:.4f}, ours {height:.4f} ± {error:.4f}")
