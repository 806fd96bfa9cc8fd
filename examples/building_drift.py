"""How far does a storey drift? An answer to a stated error

The columns of a storey harden under white ground acceleration, x'' + 2 ζ ω x' + ω² (x + a
x³) = σ ξ. `sd.estimate` is asked for the mean square drift after 20 s to a total error:
it chooses the method, the steps and the number of paths, and its error covers the bias of
the steps as well as the sampling error. The picture shows how its interval narrows during
the run. The truth is an integral over the stationary density exp(-(x² + a x⁴/2)/2).

Domain: vehicles and structures
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd

ERROR = 0.01  # small: 0.04
ω, ζ, a, T = 6.0, 0.05, 0.1, 20.0  # rad/s, damping ratio, hardening in 1/cm², s
σ = np.sqrt(4 * ζ * ω**3)  # without the hardening, the rms drift would be 1 cm


def motion(t, x):
    drift, rate = x
    return jnp.stack([rate, -2 * ζ * ω * rate - ω**2 * (drift + a * drift**3)])


storey = sd.SDE(
    motion, lambda t, x: jnp.array([[0.0], [σ]]), [0.0, 0.0], names=("drift", "rate")
)
found = sd.estimate(storey, lambda t, x: x[0] ** 2, t=(0, T), error=ERROR, seed=1)

x = np.linspace(-8, 8, 4001)
density = np.exp(-0.5 * x**2 - 0.25 * a * x**4)
exact = np.sum(x**2 * density) / np.sum(density)

print(
    f"95 %: {float(found.low):.4f} to {float(found.high):.4f} cm², by "
    f"{found.attrs['route']}"
)
print(f"{found.attrs['path_steps']:.2g} path-steps; {found.attrs['why']}")
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.axhline(exact, color="k", lw=1, label="exact")
spent, values, errors = (
    found[f"progress_{name}"] for name in ("path_steps", "value", "error")
)
ax.errorbar(
    spent, values, errors, fmt="C0o", ms=3, lw=1,
    label="estimate and its 95 % interval so far",
)
ax.set(xscale="log", xlabel="path-steps", ylabel="mean square drift [cm²]")
ax.legend(frameon=False, fontsize="small")
sd.plot.save(ax, "building_drift.png")
print(
    f"truth: mean square drift in cm² is {exact:.4f}, ours {float(found.value):.4f} ± "
    f"{float(found.error) / 2:.4f}"
)
