"""A tuned mass damper: how much sway does a small mass on top remove?

A tower in white wind, x'' + 2 ζ ω x' + ω² x = ξ, with and without a mass of 3 % hung in
it by a spring and a damper. The left picture shows both towers in the same wind: a seed
gives the same Brownian path, whatever the problem. The right one shows the rms sway
against the frequency of the damper, by Lyapunov's equation and by simulation: it shows
how well the damper must be tuned.

Domain: vehicles and structures
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 4000  # small: 300
CURVE = np.linspace(0.7, 1.3, 41)  # small: [0.9, 1.0, 1.1]
ω, ζ, WIND = 1.2, 0.01, 0.05  # rad/s, ratio, m/s^1.5
SHARE = 0.03  # the mass of the damper over that of the tower
# Warburton's optimum for white noise: frequency and damping ratio
BEST = np.sqrt(1 + SHARE / 2) / (1 + SHARE)
RATIO = np.sqrt(SHARE * (1 + 3 * SHARE / 4) / (4 * (1 + SHARE) * (1 + SHARE / 2)))

bare = sd.Mechanical.from_matrices(
    [1.0], [[2 * ζ * ω]], [[ω**2]], noise=[WIND], names=("tower",)
)


def damped(tuning):
    link = SHARE * np.array([[1.0, -1.0], [-1.0, 1.0]])
    C = np.diag([2 * ζ * ω, 0.0]) + 2 * RATIO * tuning * ω * link
    K = np.diag([ω**2, 0.0]) + (tuning * ω) ** 2 * link
    return sd.Mechanical.from_matrices(
        [1.0, SHARE], C, K, noise=[WIND, 0.0], names=("tower", "damper")
    )


def exact(structure):
    return np.sqrt(sd.structures.stationary_covariance(structure)[0, 0])


_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
right.axhline(exact(bare), color="C1", lw=1)
right.plot(CURVE, [exact(damped(tuning)) for tuning in CURVE], "C0", lw=1)
for name, structure, color in (("without", bare, "C1"), ("with", damped(BEST), "C0")):
    collect = [st.Moments(at=[300]), st.Paths(1)]
    run = sd.simulate(
        structure, "StochasticAlpha", t=(0, 300), dt=0.1, paths=PATHS, seed=1,
        collect=collect,
    )
    path = run["path"].sel(component="tower", time_paths=slice(240, 300))[0]
    left.plot(path["time_paths"], path, color, lw=1, label=f"{name} damper")
    variance, error = (
        float(run[word].sel(component="tower")[-1])
        for word in ("variance", "variance_stderr")
    )
    ours, error = np.sqrt(variance), error / (2 * np.sqrt(variance))
    right.errorbar(BEST, ours, 2 * error, fmt=f"{color}o", ms=4, label=f"{name} damper")
    print(
        f"truth: rms sway {name} damper is {exact(structure):.5f}, ours {ours:.5f} ± "
        f"{error:.5f}"
    )
left.set(xlabel="time [s]", ylabel="sway [m]", ylim=(-0.45, 0.6))
right.set(
    xlabel="frequency of the damper over the tower's", ylabel="rms sway [m]",
    ylim=(0, 0.25),
)
left.legend(frameon=False, fontsize="small", ncols=2, loc="upper left")
right.legend(
    frameon=False, fontsize="small", loc="lower left",
    title=f"{PATHS} paths (lines: exact)", title_fontsize="small",
)
sd.plot.save(left, "tuned_mass_damper.png")
