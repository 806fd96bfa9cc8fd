"""An atmosphere of balls: gravity, friction, thermal noise, and an elastic floor. How high is it on average?

The law of a single ball in equilibrium is exp(-(v²/2 + g x)/T), so that its mean height is T/g, whatever the friction.
Impacts are located within the steps.
"""

import numpy as np

import stodyn as sd
from stodyn import statistics as st

GRAVITY, FRICTION, TEMPERATURE = 1.0, 0.5, 0.7

ball = sd.Mechanical(
    lambda t, x, v: -GRAVITY - FRICTION * v,
    lambda t, x, v: np.sqrt(2 * FRICTION * TEMPERATURE),
    start=(1.0, 0.0),
    names=("height",),
)
floor = sd.Impact(sd.Level(0.0, of="height", direction="down"), sd.Restitution(1.0))
run = sd.simulate(
    sd.with_walls(ball, floor),
    "SRA1",
    t=(0, 20),
    dt=0.02,
    paths=20_000,
    seed=1,
    collect=st.Moments(every=10),
)
height, error = (float(run[name].sel(component="height")[-1]) for name in ("mean", "mean_stderr"))
impacts = float(run["mean"].sel(component="impacts")[-1])
print(f"a ball strikes the floor {impacts:.1f} times on average")
sd.plot.save(sd.plot.band(run, "height"), "atmosphere.png")
print(f"truth: mean height T/g = {TEMPERATURE / GRAVITY:.4f}, ours {height:.4f} +- {error:.4f}")
