"""How long does a particle stay in its well? Paths stop when they leave it, and cost nothing from then on.

dx = (x - x³) dt + dW/2 from the bottom at -1 to the top at 0: E τ = 18.4262 by quadrature of exp(2V/σ²).
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import dblquad

import stodyn as sd

SIGMA = 0.5
well = sd.SDE(lambda t, x: x - x**3, lambda t, x: SIGMA, -1.0)
run = sd.simulate(well, "SRA1", t=(0, 250), dt=0.02, paths=10_000, seed=1, stop=sd.Stop(sd.Level(0.0)))

times = np.sort(np.nan_to_num(run["stop_time"].values, nan=250.0))
mean, error = times.mean(), times.std() / np.sqrt(times.size)


def potential(x):
    return (x**2 - 1) ** 2 / 4


def integrand(z, y):
    return 2 / SIGMA**2 * np.exp(2 * (potential(y) - potential(z)) / SIGMA**2)


exact = dblquad(integrand, -1, 0, -4, lambda y: y, epsrel=1e-6)[0]
fig = Figure(figsize=(6, 4), layout="constrained")
ax = fig.subplots()
ax.semilogy(times, 1 - (np.arange(times.size) + 0.5) / times.size, label="paths")
ax.semilogy(times, np.exp(-times / exact), "k--", lw=0.8, label="exp(-t/E τ)")
ax.set(xlabel="time", ylabel="share of paths still in the well")
ax.legend()
sd.plot.save(fig, "escape.png")
print(f"{np.count_nonzero(run['stopped_by'].values < 0)} of {times.size} paths had not left by t = 250")
print(f"truth: mean time {exact:.4f}, ours {mean:.4f} +- {error:.4f}")
