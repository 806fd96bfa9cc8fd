"""The knob ρ: what the stochastic α method does to stiff modes

Structures have modes that are far faster than any step. The stochastic α method damps
them according to the number ρ, from ρ = 1 (no damping) to ρ = 0 (most damping), while
slow modes keep their variance. The picture shows the stationary variance of x'' + 2 ζ ω
x' + ω² x = σ ξ that the method gives, divided by the true one: it is computed from the
step itself, without sampling. A ρ near 1 leaves far too much noise in stiff modes; ρ = 0
removes it, but from slower modes too. The points are simulations.

Domain: mechanisms
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn.analysis.linear import step_map

PATHS = 4000  # small: 200
CURVE = np.geomspace(0.03, 30, 25)  # small: [0.5, 5.0]
SAMPLED = [0.3, 3.0]  # small: [3.0]
ζ, STEP = 0.05, 1.0


def mode(ω):
    """One mode whose variance is 1."""
    noise = np.sqrt(4 * ζ * ω**3)
    return sd.Mechanical(
        lambda t, x, v: -(ω**2) * x - 2 * ζ * ω * v, lambda t, x, v: noise,
        start=(0.0, 0.0),
    )


def delivered(ω, ρ):
    return (
        step_map(mode(ω), sd.method("StochasticAlpha")(rho=ρ), STEP)
        .stationary()
        .covariance[0, 0]
    )


_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k, ρ in enumerate((0.9, 0.7, 0.5, 0.0)):
    ax.loglog(
        CURVE, [delivered(ω, ρ) for ω in CURVE], f"C{k}", lw=1.2, label=f"ρ = {ρ:g}"
    )
for ω in SAMPLED:
    with warnings.catch_warnings():  # of distorted variances: the subject
        warnings.simplefilter("ignore", sd.problems.ResponseNotDelivered)
        run = sd.simulate(
            mode(ω), sd.method("StochasticAlpha")(rho=0.5), t=(0, 400), dt=STEP,
            paths=PATHS, seed=1,
        )
    ours, error = (
        float(run[name].isel(time=-1, component=0))
        for name in ("variance", "variance_stderr")
    )
    ax.plot(
        ω, ours, "C2o", ms=5, label=f"{PATHS} paths, ρ = 0.5" if ω == SAMPLED[0] else None
    )
    print(
        f"truth: variance of the method at ωh = {ω:g}, ρ = 0.5 is "
        f"{delivered(ω, 0.5):.5f}, "
        f"ours {ours:.5f} ± {error:.5f}"
    )
ax.axhline(1, color="k", ls="--", lw=0.8)
ax.set(xlabel="frequency times step, ωh", ylabel="delivered/true variance of x")
ax.legend(frameon=False)
sd.plot.save(ax, "rho_knob.png")
