"""A satellite with a noisy wheel keeps its axis.

A motor turns a wheel on a hub, with a white torque of strength s between them. Both are
symmetric about the same axis: the torque makes the rate of the hub about it a Brownian
motion, (s/J)² t its variance, but leaves the momentum of both as it is. So the axis nods
around that momentum as it would without noise, once in 2π I/|L|. The bodies and the hinge
are all that is written: the constraints follow.

Domain: mechanisms
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 500  # small: 8
T = 4.0  # small: 0.2
STRENGTH, OFFSET, TURN, SPIN = 0.2, 0.3, 0.4, 20.0

hub = sd.bodies.Body(name="hub", mass=5.0, inertia=(1.2, 1.2, 1.5), rates=(TURN, 0, 0))
wheel = sd.bodies.Body(
    name="wheel",
    mass=1.0,
    inertia=(0.1, 0.1, 0.15),
    at=(0, 0, OFFSET),
    rates=(TURN, 0, SPIN),
    velocity=(0, -TURN * OFFSET, 0),
)
along_z = {"at": (0, 0, OFFSET), "axis": (0, 0, 1)}
motor = sd.bodies.Revolute("hub", "wheel", **along_z, noise=STRENGTH)
satellite = sd.bodies.mechanism([hub, wheel], [motor])

# moments about the common centre
across, along = 1.3 + 5.0 / 6.0 * OFFSET**2, 0.15 * SPIN
momentum = np.array([across * TURN, 0.0, along])
size = np.linalg.norm(momentum)


def axis(t, x):
    tip, centre = (satellite.point("hub", (0, 0, z)) for z in (1, 0))
    return tip(t, x) - centre(t, x)


def square(t, x):
    return satellite.rates("hub")(t, x)[2] ** 2


run = sd.simulate(
    satellite,
    t=(0, T),
    dt=0.005,
    paths=PATHS,
    seed=1,
    collect=[
        st.Observable(axis, name="axis", every=10),
        st.Observable(satellite.momentum, name="momentum", every=10),
        st.Observable(square, name="square", every=10),
    ],
)

# the axis turns about L by the angle |L| t/I: Rodrigues' formula
angle = size / across * run.time.values[:, None]
e, z = momentum / size, np.array([0, 0, 1.0])
turned = z * np.cos(angle) + np.cross(e, z) * np.sin(angle)
turned = turned + e * (e @ z) * (1 - np.cos(angle))
exact = (STRENGTH / 1.5) ** 2 * run.time.values
variance, error = run["square"].values, run["square_stderr"].values
ours = f"{variance[-1]:.6g} ± {error[-1]:.2g}"
print(f"truth: variance of the hub's rate is {exact[-1]:.6g}, ours {ours}")
x = run["axis"].values[-1, 0]
print(f"truth: x of the axis is {turned[-1, 0]:.6g}, ours {x:.6g} ± 5e-4")
drift = run["momentum"].values - run["momentum"].values[0]
print(f"mean of the momentum: moves by at most {np.abs(drift).max():.1e} of {size:.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
left.plot(turned[:, 0], turned[:, 1], color="0.7", lw=4, label="around its momentum")
left.plot(*run["axis"].values[:, :2].T, label="the axis, mean of all paths")
left.set(xlabel="x", ylabel="y", aspect="equal", title="The axis nods as without noise")
left.legend(loc="center", fontsize=8)
right.errorbar(run.time, variance, error, fmt=".", ms=3, label="paths")
right.plot(run.time, exact, color="0.3", label="(s/J)² t")
right.set(xlabel="t", ylabel="variance of the hub's rate", title="It spins as it likes")
right.legend(fontsize=8)
figure.tight_layout()
figure.savefig("satellite.png", dpi=120)
