"""How hard should a shock absorber be? A quarter of a car on a rough road

A body on a suspension, a wheel and a tyre is driven at 25 m/s over a road of class C of
ISO 8608, which is modelled as white noise passed through a first-order filter. A soft
damper lets body and wheel ring; a hard one passes the road on to the passengers. The
picture shows the rms acceleration of the body and the rms load of the tyre against the
damping: the lines solve Lyapunov's equation, the points are averages over simulated
drives.

Domain: vehicles and structures
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn.noise import coloured

PATHS = 4000  # small: 200
CURVE = np.geomspace(400, 6000, 40)  # small: [1000, 2000]
DRIVEN = [500.0, 1500.0, 5000.0]  # small: [1500.0]
BODY, WHEEL, SUSPENSION, TYRE = 300.0, 40.0, 2e4, 1.8e5  # kg, kg, N/m, N/m
road = coloured.iso_road("C", speed=25.0)


def car(damping):
    link = np.array([[1.0, -1.0], [-1.0, 1.0]])  # between body and wheel
    stiffness = SUSPENSION * link + np.diag([0.0, TYRE])
    parts = sd.Mechanical.from_matrices(
        [BODY, WHEEL], damping * link, stiffness, names=("body", "wheel")
    )
    # the road pushes the wheel through the tyre
    return sd.with_noise(parts, road, into=[0.0, TYRE])


def rms(damping, covariance):
    """The acceleration of the body and the load of the tyre over its weight, from the
    covariance of (x, v, road)."""
    acceleration = np.array([-SUSPENSION, SUSPENSION, -damping, damping, 0.0]) / BODY
    load = np.array([0.0, -TYRE, 0.0, 0.0, TYRE]) / (9.81 * (BODY + WHEEL))
    return np.sqrt([row @ covariance @ row for row in (acceleration, load)])


def exact(damping):
    return rms(damping, sd.structures.stationary_covariance(car(damping)))


_, axes = plt.subplots(2, 1, figsize=(6, 5), layout="constrained", sharex=True)
for ax, curve in zip(
    axes, np.array([exact(damping) for damping in CURVE]).T, strict=True
):
    ax.plot(CURVE, curve, "k", lw=1, label="Lyapunov's equation")
    ax.axvline(CURVE[np.argmin(curve)], color="0.7", lw=1, ls="--", label="best damping")
for damping in DRIVEN:
    # VanLoan is exact for linear problems, at any step
    run = sd.simulate(car(damping), "VanLoan", t=(0, 8), dt=0.05, paths=PATHS, seed=1)
    ours = rms(damping, run["covariance"].isel(time=-1).values)
    errors = ours / np.sqrt(2 * PATHS)  # of the rms of Gaussian numbers
    for ax, name, value, error, truth in zip(
        axes, ("body", "tyre"), ours, errors, exact(damping), strict=True
    ):
        ax.errorbar(
            damping, value, 2 * error, fmt="C0o", ms=4,
            label=f"{PATHS} drives, ± 2 standard errors",
        )
        print(
            f"truth: rms of the {name} at {damping:.0f} N s/m is {truth:.4f}, ours "
            f"{value:.4f} ± {error:.4f}"
        )
axes[0].set_ylabel("rms acceleration\nof the body [m/s²]")
axes[1].set(
    ylabel="rms load of the tyre\nover the weight",
    xlabel="damping of the suspension [N s/m]",
)
axes[0].legend(
    *(handles[:3] for handles in axes[0].get_legend_handles_labels()), frameon=False,
    fontsize="small",
)
sd.plot.save(axes[0], "quarter_car.png")
