"""A beam in a plasma wave relaxes to the Gibbs density

Particles move in a wave with Lenard-Bernstein collisions: dx = v dt, dv = (-E cos(4πx) -
ν v) dt + √(2ν) dW on a circle. At the start a third of them form a beam at v = 4 on the
tail of a Maxwell distribution. Phase space shows how the beam is sheared, slowed and
mixed, until the density is exp(-v²/2 - E sin(4πx)/(4π)), whatever the start was; the mean
energy follows from it. ConformalVerlet treats the friction exactly.

Domain: particles and plasma
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN

PATHS = 200_000  # small: 2000
TIMES = [0.0, 0.2, 1.0, 8.0]
plasma = LENARD_BERNSTEIN(nu=0.6)


def energy(t, x, p):
    return 0.5 * x[1] ** 2 + p["E0"] / (4 * jnp.pi) * jnp.sin(4 * jnp.pi * x[0])


collect = [
    st.Paths(PATHS, at=TIMES), st.Observable(energy, at=TIMES),
    st.Histogram(np.linspace(-5, 7, 97), at=TIMES),
]
run = sd.simulate(
    plasma.problem, "ConformalVerlet", t=(0, 8), dt=0.02, paths=PATHS, seed=1,
    collect=collect,
)

fig, axes = plt.subplots(
    2, 2, figsize=(7, 5), sharex=True, sharey=True, layout="constrained"
)
for k, ax in enumerate(axes.flat):
    x, v = run["path"].values[:, k].T
    *_, image = ax.hist2d(
        x % 1.0, v, bins=(40, 50), range=((0, 1), (-4, 6)), cmap="magma", density=True,
        vmax=0.5,
    )
    ax.set(title=f"t = {TIMES[k]:g}", xticks=(0.25, 0.5, 0.75))
    ax.label_outer()
fig.colorbar(image, ax=axes, label="density")
fig.supxlabel("position x")
fig.supylabel("velocity v")
sd.plot.save(fig, "gibbs_relaxation.png")
ax = sd.plot.histogram(run, "v", time=8.0, exact=plasma.exact["velocity_density"])
sd.plot.save(ax, "gibbs_relaxation_2.png")

exact, ours, error = (
    plasma.exact["ergodic_energy"](), float(run["energy"][-1]),
    float(run["energy_stderr"][-1]),
)
print(f"truth: mean energy is {exact:.4f}, ours {ours:.4f} ± {error:.4f}")
