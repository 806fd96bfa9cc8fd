"""The mean square drift of a hardening storey under a white ground acceleration, to a given error.

python building_drift.py [ERROR]    in cm²; the default takes seconds, a hundredth of it ten thousand times as long
"""

import sys

import jax.numpy as jnp
import numpy as np

import stodyn as sd

ω, ζ, a, T = 6.0, 0.05, 0.1, 20.0  # rad/s, damping ratio, hardening in 1/cm², s
σ = np.sqrt(4 * ζ * ω**3)  # without the hardening, the root-mean-square drift would be 1 cm


def motion(t, x):
    drift, rate = x
    return jnp.stack([rate, -2 * ζ * ω * rate - ω**2 * (drift + a * drift**3)])


storey = sd.SDE(motion, lambda t, x: jnp.array([[0.0], [σ]]), [0.0, 0.0], names=("drift", "rate"))


def main(error: float = 0.05) -> tuple[float, float]:
    found = sd.estimate(storey, lambda t, x: x[0] ** 2, t=(0, T), error=error, seed=1)
    x = np.linspace(-8, 8, 4001)  # after 20 s the law is the stationary one, exp(-(x² + a x⁴/2)/2)
    density = np.exp(-0.5 * x**2 - 0.25 * a * x**4)
    truth = float(np.sum(x**2 * density) / np.sum(density))
    print(f"estimate {float(found.value):.4f} ± {float(found.error):.4f} cm²   {found.attrs['route']}")
    print(f"truth    {truth:.4f} cm²")
    print(f"{found.attrs['path_steps']:.2g} path-steps; {found.attrs['why']}")
    sd.plot.save(sd.plot.levels(found, truth), "building_drift.png")
    return float(found.value), truth


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
