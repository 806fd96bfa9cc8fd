"""How warm does a noisy rod get between cold ends?

The stochastic heat equation, du = u'' dt + dW(t, x) with noise that is white in space and
time and u = 0 at both ends, is solved on 100 nodes. The fastest mode decays 4000 times as
fast as the slowest, so an explicit step would have to be below 5e-5; the trapezoidal rule
takes steps eighty times as long and gives every mode its exact stationary variance. The
picture shows some states and the variance along the rod with the closed form x (1 - x)/2.

Domain: large systems
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 2000  # small: 32
N = 100
SPACING = 1.0 / (N + 1)


def drift(t, u):
    edged = jnp.pad(u, 1)
    return (edged[2:] - 2 * u + edged[:-2]) / SPACING**2


rod = sd.SDE(
    drift, lambda t, u: sd.diagonal(jnp.full(N, SPACING**-0.5)), start=np.zeros(N)
)
rule = sd.method("ThetaEuler")(theta=0.5)
collect = [st.Moments(at=[1.0]), st.Paths(3, at=[1.0])]
run = sd.simulate(rod, rule, t=(0, 1), dt=0.004, paths=PATHS, seed=1, collect=collect)

x = SPACING * np.arange(1, N + 1)
variance, error = run["variance"].values[0], run["variance_stderr"].values[0]
fig, (top, bottom) = plt.subplots(2, figsize=(6, 5), sharex=True, layout="constrained")
for u, color in zip(run["path"].values[:, 0], sd.plot.PALETTE, strict=False):
    top.plot(x, u, color=color, lw=1)
top.set(ylabel="u at t = 1, three paths")
bottom.errorbar(
    x[::4], variance[::4], 2 * error[::4], fmt=".", color=sd.plot.BLUE, lw=0.8,
    label=f"{PATHS:,} paths, ± 2σ",
)
bottom.plot(x, x * (1 - x) / 2, color=sd.plot.ORANGE, zorder=3, label="x (1 - x)/2")
bottom.set(xlabel="position x", ylabel="variance of u", ylim=(0, None))
bottom.legend(frameon=False, loc="lower center")
sd.plot.save(fig, "heat_equation.png")

k = N // 2
print(
    f"truth: variance in the middle is {x[k] * (1 - x[k]) / 2:.5f}, "
    f"ours {variance[k]:.5f} "
    f"± {error[k]:.5f}"
)
