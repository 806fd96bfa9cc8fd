"""How long does a particle stay in its well?

A particle in a double well, dx = (x - x³) dt + 0.5 dW, starts at the bottom of the left
well, at -1. Paths stop when they reach the top of the barrier at 0, even between two
steps, and cost nothing from then on. The picture shows how many are still in the well:
after a short delay they leave at a constant rate, as memoryless events do. The mean time
is compared with a quadrature of exp(2 (V(y) - V(z))/σ²) over z < y, which follows from
the Fokker-Planck equation.

Domain: particles and plasma
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import cumulative_trapezoid

import stodyn as sd

PATHS = 10_000  # small: 500
SIGMA, END = 0.5, 250.0

well = sd.SDE(lambda t, x: x - x**3, lambda t, x: SIGMA, start=-1.0)
run = sd.simulate(
    well, "SRA1", t=(0, END), dt=0.02, paths=PATHS, seed=1, stop=sd.Stop(sd.Level(0.0))
)
times = np.sort(run["stop_time"].fillna(END).values)
mean, error = times.mean(), times.std() / np.sqrt(PATHS)


x = np.linspace(-3.0, 0.0, 30_001)
V = (x**2 - 1) ** 2 / 4
# from -3: beyond there is nothing
inner = cumulative_trapezoid(np.exp(-2 * V / SIGMA**2), x, initial=0.0)
outer = 2 / SIGMA**2 * np.exp(2 * V / SIGMA**2) * inner
exact = np.trapezoid(outer[x >= -1.0], x[x >= -1.0])

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.semilogy(
    times, 1 - (np.arange(PATHS) + 0.5) / PATHS, color=sd.plot.BLUE,
    label=f"{PATHS:,} paths",
)
ax.semilogy(times, np.exp(-times / exact), "k--", lw=0.9, label="exp(-t/E τ)")
ax.set(xlabel="time", ylabel="share of paths still in the well")
ax.legend(frameon=False)
sd.plot.save(fig, "escape.png")

print(
    f"{np.count_nonzero(run['stopped_by'].values < 0)} of {PATHS} paths had not left by "
    f"t = {END:g}"
)
print(f"truth: mean time is {exact:.4f}, ours {mean:.4f} ± {error:.4f}")
