"""A field of 1000 nodes in noise: phases that form, meet and vanish

The Allen-Cahn equation, du = (u'' + u - u³) dt + σ dW with noise that is white in space
and time, on a ring of 1000 nodes: the field separates into phases u = ±1, whose walls
wander, meet and annihilate, while noise creates new ones. The map shows one path. In the
long run the field has the Gibbs distribution, and because each node is coupled only to
its neighbours, the exact mean of u² on this lattice follows from the leading eigenvector
of a transfer matrix.

Domain: large systems
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

N = 1000  # small: 500
PATHS = 16  # small: 8
END = 120.0  # small: 40.0
SPACING, NOISE = 0.5, 0.7


def drift(t, u):
    curvature = (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)) / SPACING**2
    return curvature + u - u**3


def noise(t, u):  # a node stands for a cell of length SPACING
    return sd.diagonal(jnp.full(N, NOISE / np.sqrt(SPACING)))


field = sd.SDE(drift, noise, start=np.zeros(N))
square = st.Observable(lambda t, u: jnp.mean(u**2), name="square", at=[END])
run = sd.simulate(
    field, "SRA1", t=(0, END), dt=0.01, paths=PATHS, seed=1,
    collect=[st.Paths(1, every=200), square],
)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
u = run["path"].values[0].reshape(-1, N // 5, 5).mean(axis=2)  # of five nodes each
x = 5 * SPACING * (np.arange(N // 5) + 0.5)
image = ax.pcolormesh(x, run["time"], u, cmap="RdBu_r", vmin=-1.3, vmax=1.3)
ax.set(xlabel="position x", ylabel="time")
fig.colorbar(image, label="u, averaged over five nodes")
sd.plot.save(fig, "allen_cahn.png")

# exp(-βE), E = Σ (u_{i+1} - u_i)²/(2 SPACING) + SPACING (u_i² - 1)²/4, is a product over
# neighbours: E u² = Σ φ² u²
u, β = np.linspace(-3.5, 3.5, 201), 2 / NOISE**2
well = SPACING * (u**2 - 1) ** 2 / 8
transfer = np.exp(-β * ((u[:, None] - u) ** 2 / (2 * SPACING) + well[:, None] + well))
φ = np.linalg.eigh(transfer)[1][:, -1]
ours, error = float(run["square"][-1]), float(run["square_stderr"][-1])
print(f"truth: mean of u² is {φ**2 @ u**2:.4f}, ours {ours:.4f} ± {error:.4f}")
