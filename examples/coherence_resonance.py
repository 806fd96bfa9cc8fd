"""Coherence resonance: the right amount of noise makes a neuron regular

The FitzHugh-Nagumo neuron at rest, ε dx = (x - x³/3 - y) dt, dy = (x + a) dt + D dW,
fires only when noise kicks it. With weak noise spikes are rare and random, with strong
noise they are erratic; in between they come almost like clockwork. The picture shows
three spike trains and the scatter of the intervals relative to their mean, which has a
minimum (A. Pikovsky & J. Kurths, Phys. Rev. Lett. 78, 1997). Whatever D is, y is
stationary in the long run, so E x = -a.

Domain: nonlinear dynamics
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 24  # small: 8
END = 300.0  # small: 60.0
NOISES = [0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4]  # small: [0.02, 0.07, 0.4]
A, EPS = 1.05, 0.01


def drift(t, x, p):
    v, y = x
    return jnp.array([(v - v**3 / 3 - y) / EPS, v + A])


def noise(t, x, p):
    return jnp.array([[0.0], [p["D"]]])


def intervals(times, paths):
    """Return the times between spikes: a spike begins where x exceeds 1 after it was
    below 0."""
    found = []
    for x in paths:
        (seen,) = np.nonzero((x > 1) | (x < 0))
        begins = seen[1:][(x[seen[1:]] > 1) & (x[seen[:-1]] < 0)]
        found.extend(np.diff(times[begins]))
    return np.array(found)


neuron = sd.SDE(
    drift, noise, start=[-A, A**3 / 3 - A], params={"D": 0.1}, names=("x", "y")
)
collect = st.Paths(PATHS, every=50)
runs = sd.sweep(
    neuron, "SRA1", over={"D": NOISES}, t=(0, END), dt=0.001, paths=PATHS, seed=1,
    collect=collect,
)
t, x = runs["time"].values, runs["path"].sel(component="x")
gaps = [intervals(t, x.sel(D=D).values) for D in NOISES]

fig, axes = plt.subplot_mosaic(
    [[0.02, "scatter"], [0.07, "scatter"], [0.4, "scatter"]], figsize=(7, 4),
    layout="constrained",
)
for D in (0.02, 0.07, 0.4):
    shown = t <= 60
    axes[D].plot(t[shown], x.sel(D=D).values[0, shown], color=sd.plot.BLUE, lw=0.9)
    axes[D].set(ylabel="x", title=f"D = {D:g}", ylim=(-2.5, 2.5))
axes[0.4].set_xlabel("time")
axes["scatter"].semilogx(
    NOISES, [g.std() / g.mean() for g in gaps], "o-", color=sd.plot.ORANGE
)
axes["scatter"].set(
    xlabel="noise D", ylabel="σ of the intervals / their mean", ylim=(0, None)
)
axes["scatter"].set_xticks([0.02, 0.05, 0.1, 0.2, 0.4], [0.02, 0.05, 0.1, 0.2, 0.4])
axes["scatter"].minorticks_off()
sd.plot.save(fig, "coherence_resonance.png")

for D in NOISES[-2:]:
    # of each path: paths are independent, times are not
    late = x.sel(D=D).values[:, t > 20].mean(axis=1)
    print(
        f"truth: mean of x at D = {D:g} is {-A:g}, ours {late.mean():.4f} ± "
        f"{late.std(ddof=1) / np.sqrt(PATHS):.4f}"
    )
