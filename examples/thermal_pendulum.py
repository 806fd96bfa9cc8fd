"""A pendulum on a rod at temperature kT: which angles does it take?

A mass hangs on a rigid rod, in Cartesian coordinates with the joint (x² + y² - L²)/2 = 0,
under its weight, friction -γ m v and white forces of intensity 2 γ m kT. The law of its
angle in the long run is exp(κ cos θ)/(2π I₀(κ)), κ = m g L/kT, and that of its speed is
Gaussian. ConstrainedBAOAB is made for this law; the rod keeps its length to rounding.

Domain: mechanisms
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ive

import stodyn as sd
from stodyn import statistics as st

PATHS = 20_000  # small: 400
M, L, G, γ, kT = 1.0, 1.0, 1.5, 1.0, 1.0

pendulum = sd.Mechanical(
    force=lambda t, x, v: jnp.array([0.0, -M * G]) - γ * M * v,
    noise=lambda t, x, v: np.sqrt(2 * γ * M * kT) * jnp.eye(2),
    start=([0.0, -L], [0.0, 0.0]),
    mass=[M, M],
    names=("x", "y"),
    constraints=lambda t, x: 0.5 * (x @ x - L**2)[None],
    constraint_names=("rod",),
)
run = sd.simulate(
    pendulum,
    "ConstrainedBAOAB",
    t=(0, 15),
    dt=0.1,
    paths=PATHS,
    seed=1,
    collect=st.Paths(PATHS, at=[15.0]),
)
x, y = (run["path"].sel(component=name).values[:, -1] for name in ("x", "y"))
angles = np.degrees(np.arctan2(x, -y))
print(f"the rod is off its length by {np.abs(np.hypot(x, y) - L).max():.0e} at most")

κ = M * G * L / kT
θ = np.linspace(-180, 180, 361)
density = np.exp(κ * (np.cos(np.radians(θ)) - 1)) / (360 * ive(0, κ))  # per degree
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.hist(
    angles, np.linspace(-180, 180, 37), density=True, color="C0", alpha=0.4,
    label=f"{PATHS:,} pendulums",
)
ax.plot(θ, density, "k", lw=1.2, label="exp(κ cos θ)/(2π I₀(κ))")
ax.set(
    xlabel="angle from the vertical [degrees]", ylabel="density [1/degree]",
    xticks=np.arange(-180, 181, 60),
)
ax.legend(frameon=False)
sd.plot.save(ax, "thermal_pendulum.png")
ours, error = np.mean(-y / L), np.std(y / L) / np.sqrt(PATHS)
print(
    f"truth: mean of cos θ is {ive(1, κ) / ive(0, κ):.5f}, "
    f"ours {ours:.5f} ± {error:.5f}"
)
