"""Energy over a long time: a variational integrator against Heun's method

A pendulum without friction in weak white noise, dp = -sin(q) dt + σ dW: by Ito's formula
its mean energy grows by exactly σ²/2 per unit of time, whatever the amplitude. Over a
time of 480 at the step 0.3, Heun's method adds spurious energy in every step; the method
of Störmer and Verlet, which preserves the structure of the equations, does not. With
friction γ an area of phase space shrinks by exp(-γ h) in a step, and ConformalVerlet
reproduces that too, to rounding.

Domain: particles and plasma
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis import conservation

PATHS = 4000  # small: 200
END = 480.0  # small: 60.0
SIGMA, STEP = 0.1, 0.3


def H(t, q, p):
    return 0.5 * p**2 + 1 - jnp.cos(q)


pendulum = sd.Hamiltonian(H, h=lambda t, q, p: -SIGMA * q, start=(1.0, 0.0))
energy = st.Observable(lambda t, x: H(t, *x), name="energy")

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for method, color in (("Heun", sd.plot.ORANGE), ("StoermerVerlet", sd.plot.BLUE)):
    run = sd.simulate(
        pendulum, method, t=(0, END), dt=STEP, paths=PATHS, seed=1, collect=energy
    )
    t, mean, error = run["time"].values, run["energy"].values, run["energy_stderr"].values
    ax.fill_between(t, mean - 2 * error, mean + 2 * error, color=color, alpha=0.3, lw=0)
    ax.plot(t, mean, color=color, label=method)
exact = float(H(0.0, 1.0, 0.0)) + SIGMA**2 / 2 * t
ax.plot(t, exact, "k--", lw=0.9, label="exact")
ax.set(xlabel="time", ylabel="mean energy", title=f"dt = {STEP:g}, {PATHS:,} paths")
ax.legend(frameon=False)
sd.plot.save(fig, "energy_drift.png")
print(f"truth: mean energy is {exact[-1]:.4f}, ours {mean[-1]:.4f} ± {error[-1]:.4f}")

damped = sd.Hamiltonian(
    H, h=lambda t, q, p: -SIGMA * q, force=lambda t, q, p: -0.1 * p, start=(1.0, 0.0)
)
for method in ("Heun", "ConformalVerlet"):
    noise = conservation.draw_increment(method, 1, STEP, seed=1)
    area = np.linalg.det(conservation.jacobian(damped, method, [1.0, 0.5], noise))
    print(f"a step of {method} multiplies areas by {area:.10f}")
print(f"truth: area after a step is {np.exp(-0.1 * STEP):.10f}, ours {area:.10f} ± 1e-9")
