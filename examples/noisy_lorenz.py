"""The Lorenz attractor in noise: where the paths are, and a balance they obey

The Lorenz equations have white noise of strength s in every component. A single path says
little about a chaotic system; the density of many does. The pictures show it in the plane
(x, z) for weak and for strong noise, which washes out the fine leaves and fills the holes
of the attractor. In the stationary state every moment obeys a balance: that of x²/2 is E
x² = E x y + s²/(2 σ), with σ = 10. It is the check here, for strong noise.

Domain: nonlinear dynamics
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.lorenz import lorenz

PATHS = 500  # small: 32
END = 80.0  # small: 20.0
TIMES = np.arange(0.25 * END, END, 0.05)

fig, axes = plt.subplots(1, 2, figsize=(7, 4), sharey=True, layout="constrained")
for ax, strength in zip(axes, (0.3, 6.0), strict=True):
    flow = lorenz(noise="additive", strength=strength)
    run = sd.simulate(
        flow, "SRA1", t=(0, END), dt=0.005, paths=PATHS, seed=1,
        collect=st.Paths(PATHS, at=TIMES),
    )
    x, y, z = np.moveaxis(run["path"].values, -1, 0)  # each (paths, times)
    bins = {"bins": 90, "range": ((-28, 28), (-5, 60)), "density": True}
    *_, image = ax.hist2d(
        x.ravel(), z.ravel(), **bins, cmap="magma", norm=LogNorm(1e-5, 1e-2)
    )
    ax.set(xlabel="x", title=f"s = {strength:g}", facecolor="black")
axes[0].set_ylabel("z")
fig.colorbar(image, ax=axes, label="density")
sd.plot.save(fig, "noisy_lorenz.png")

# of each path over time: paths are independent, times are not
means = (x**2 - x * y).mean(axis=1)
ours, error = means.mean(), means.std(ddof=1) / np.sqrt(PATHS)
print(f"E x² = {np.mean(x**2):.2f}, E x y = {np.mean(x * y):.2f}")
print(f"truth: E x² - E x y is {strength**2 / 20:.4f}, ours {ours:.4f} ± {error:.4f}")
