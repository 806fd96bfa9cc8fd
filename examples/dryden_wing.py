"""Gusts on a wing: is noise of variance 1/dt right?

A wing heaves on its spring in Dryden gusts, which are white noise passed through the
filter of MIL-F-8785C. Folklore says: give the integrator samples of variance 1/dt. With
RK4 that is right if one sample is held over the whole step. If a new sample is drawn at
each of the four stages, the response has only Σ b_i² = 10/36 of the true variance, at any
step; samples of variance 3.6/dt put that right. The picture shows the rms heave after a
start at rest, and the exact one.

Domain: vehicles and structures
"""

import warnings

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn.analysis import covariance, linear
from stodyn.noise import coloured

PATHS = 40_000  # small: 1000
END, STEP = 12.0, 0.05  # s
STIFFNESS, DAMPING, LIFT = 9.0, 1.2, 1.5  # 1/s², 1/s, 1/s: forces per unit of mass

gusts = coloured.dryden(V=60.0, sigma=2.0, L=150.0, components="w")  # m/s, m/s, m
wing = sd.SDE(
    lambda t, x: jnp.array([x[1], -STIFFNESS * x[0] - DAMPING * x[1]]),
    None,
    start=[0.0, 0.0],
    names=("heave", "rate"),
    units=("m", "m/s"),
)
wing = sd.with_noise(wing, gusts, into=[[0.0], [LIFT]])
A, _, _, b = linear.coefficients(wing)
exact = covariance.exact_steady(A, b.T)[0, 0]

RK4 = sd.method("RK4")
ways = {
    "one sample of variance 1/dt, held": (RK4, 1.0, "C0o"),
    "a new sample at each stage, variance 3.6/dt": (RK4(noise="fresh"), 1.0, "C2x"),
    "a new sample at each stage, variance 1/dt": (
        RK4(noise="fresh", gamma=1.0), 10 / 36, "C3^",
    ),
}
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for label, (method, share, style) in ways.items():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run = sd.simulate(wing, method, t=(0, END), dt=STEP, paths=PATHS, seed=1).sel(
            component="heave"
        )
    ax.plot(
        run["time"][::10], np.sqrt(run["variance"])[::10], style, ms=6, mfc="none",
        label=label,
    )
    ours, error = (float(run[name][-1]) for name in ("variance", "variance_stderr"))
    for one in warned:
        print(f"warning: {one.message}")
    print(
        f"truth: variance with {label} is {share * exact:.5f}, ours {ours:.5f} ± "
        f"{error:.5f}"
    )

times = np.linspace(0, END, 200)
ax.plot(
    times, np.sqrt(covariance.exact(wing, times).covariance[:, 0, 0]), "k", lw=1,
    zorder=0, label="exact",
)
ax.set(xlabel="time [s]", ylabel="rms heave [m]", ylim=(0, None))
ax.legend(frameon=False, fontsize="small", loc="lower right")
sd.plot.save(ax, "dryden_wing.png")
