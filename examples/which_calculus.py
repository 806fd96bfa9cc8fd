"""Ito or Stratonovich? The same equation, two answers

A population decays at the rate 0.1, and the rate fluctuates: dx = -0.1 x dt + 0.6 x dW.
Where noise depends on the state, one must say how the equation is meant. In Ito's sense
the mean is exp(-0.1 t): it decays. In Stratonovich's sense, the limit of noise with a
short memory, it is exp((-0.1 + 0.6²/2) t): it grows. The picture shows both means, with
bands of two standard errors, over the same Brownian paths. One word in the problem
decides; methods of either kind solve both.

Domain: first steps
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd

PATHS = 100_000  # small: 2000
DECAY, NOISE = 0.1, 0.6

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for calculus, rate, color in (
    ("ito", -DECAY, sd.plot.BLUE),
    ("stratonovich", -DECAY + NOISE**2 / 2, sd.plot.ORANGE),
):
    population = sd.SDE(
        lambda t, x: -DECAY * x, lambda t, x: NOISE * x, start=1.0, calculus=calculus
    )
    run = sd.simulate(population, "Milstein", t=(0, 5), dt=0.01, paths=PATHS, seed=1)
    t, mean, error = (
        run["time"].values, run["mean"].values[:, 0], run["mean_stderr"].values[:, 0],
    )
    ax.fill_between(t, mean - 2 * error, mean + 2 * error, color=color, alpha=0.3, lw=0)
    ax.plot(t, mean, color=color, label=f"{calculus.capitalize()}, {PATHS:,} paths")
    ax.plot(t, np.exp(rate * t), "k--", lw=0.9, label=f"exp({rate:+.2f} t)")
    print(
        f"truth: mean in {calculus.capitalize()}'s reading is {np.exp(5 * rate):.4f}, "
        f"ours {mean[-1]:.4f} ± {error[-1]:.4f}"
    )
ax.set(xlabel="time", ylabel="mean population [of its start]")
ax.legend(frameon=False)
sd.plot.save(fig, "which_calculus.png")
