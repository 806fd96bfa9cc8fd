"""Which state does a noisy bit settle in? A sweep as a heat map

A bit is a particle in a double well, tilted by a signal: dx = (x - x³ + tilt) dt + √(2T)
dW. The map shows the share of particles in the right well after a long time as a function
of the tilt and the temperature T, from one call that runs every pair of values on the
same Brownian paths. The dashed lines are where Gibbs' density exp(-V(x)/T) puts 10, 30,
50, 70 and 90 %: the colder, the more sharply the bit follows its signal.

Domain: running
"""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 1000  # small: 100
TILTS = np.linspace(-0.2, 0.2, 11)  # small: np.linspace(-0.2, 0.2, 3)
TEMPERATURES = np.linspace(0.1, 0.4, 11)  # small: np.linspace(0.1, 0.4, 3)

bit = sd.SDE(
    lambda t, x, p: x - x**3 + p["tilt"],
    lambda t, x, p: jnp.sqrt(2 * p["temperature"]),
    start=-1.0,
    params={"tilt": 0.0, "temperature": 0.1},
)
share = st.Observable(
    lambda t, x: jnp.where(x[0] > 0, 1.0, 0.0), name="share", at=[200.0]
)
over = {"tilt": TILTS, "temperature": TEMPERATURES}
runs = sd.sweep(
    bit, "SRA1", over=over, t=(0, 200), dt=0.1, paths=PATHS, seed=1, collect=share,
    differences=False,
)


def exact(tilt, temperature):
    x = np.linspace(-4, 4, 8001)
    density = np.exp(-((x**2 - 1) ** 2 / 4 - tilt * x) / temperature)
    return density[x > 0].sum() / density.sum()


shares = np.array([[exact(tilt, T) for tilt in TILTS] for T in TEMPERATURES])
ax = sd.plot.sweep(runs, "share")
lines = ax.contour(
    TILTS, TEMPERATURES, shares, levels=[0.1, 0.3, 0.5, 0.7, 0.9], colors="k",
    linestyles="--",
)
ax.clabel(lines, fmt="%g")
sd.plot.save(ax, "sweep_heat_map.png")

for tilt, T in ((0.0, 0.1), (0.2, 0.4)):
    point = runs.sel(tilt=tilt, temperature=T, method="nearest").isel(time=-1)
    ours, error = float(point["share"]), float(point["share_stderr"])
    print(
        f"truth: share at tilt {tilt:g} and T = {T:g} is {exact(tilt, T):.4f}, ours "
        f"{ours:.4f} ± {error:.4f}"
    )
