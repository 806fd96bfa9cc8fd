"""How much does a car pitch? Front and rear axle on the same rough road

The rear wheels meet the road that the front wheels have passed, a wheelbase over the
speed later. `coloured.delayed` holds the road under the car in the state of the run, so
that the delay is exact. Long waves lift both axles together and the car heaves; waves of
twice the wheelbase, or two thirds of it, lift one and lower the other. The picture shows
rms heave and pitch accelerations against the speed: the lines are exact, the points are
simulated drives, and the dashed lines leave out the delay, as if the road under each axle
were one of its own.

Domain: vehicles and structures
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured

PATHS = 2000  # small: 100
SPEEDS = np.geomspace(6, 50, 45)  # small: [10, 25]
DRIVEN = [10.0, 25.0]  # small: [25.0]
BODY, INERTIA, WHEEL = 1000.0, 1500.0, 80.0  # kg, kg m², kg per axle
SUSPENSION, DAMPING, TYRE = 4e4, 3e3, 4e5  # N/m, N s/m, N/m per axle
FRONT, REAR = 1.2, -1.4  # of the axles before the centre of mass, m
WHEELBASE, T = FRONT - REAR, 8.0  # m, length of a drive in s

K, C = np.zeros((4, 4)), np.zeros((4, 4))  # heave, pitch, front wheel, rear wheel
for wheel, arm in ((2, FRONT), (3, REAR)):
    stretch = np.array([1.0, arm, 0.0, 0.0])
    stretch[wheel] = -1.0
    K += SUSPENSION * np.outer(stretch, stretch)
    C += DAMPING * np.outer(stretch, stretch)
    K[wheel, wheel] += TYRE
into = TYRE * np.eye(4)[:, 2:]  # the road pushes the wheels through the tyres
names = ("heave", "pitch", "front", "rear")


def car(road):
    parts = sd.Mechanical.from_matrices([BODY, INERTIA, WHEEL, WHEEL], C, K, names=names)
    return sd.with_noise(parts, road, into=into)


def accelerations(covariance):
    """The rms accelerations of heave and pitch from the covariance of (x, v)."""
    rows = -np.concatenate([K, C], axis=1)[:2] / np.array([[BODY], [INERTIA]])
    return np.sqrt(np.diagonal(rows @ covariance[:8, :8] @ rows.T))


exact, apart = [], []
for speed in SPEEDS:
    road = coloured.iso_road("C", speed)
    late = coloured.delayed(road, [0.0, WHEELBASE / speed], dt=WHEELBASE / speed)
    two = coloured.stacked(road.named("left"), road.named("right"))
    for rms, loads in ((exact, late), (apart, two)):
        rms.append(accelerations(sd.structures.stationary_covariance(car(loads))))

ours = []
for speed in DRIVEN:
    dt = WHEELBASE / speed / round(WHEELBASE / speed / 0.004)
    road = coloured.iso_road("C", speed)
    drive = car(coloured.delayed(road, [0.0, WHEELBASE / speed], dt=dt))
    end = st.Moments(at=[dt * round(T / dt)], covariance=True)
    run = sd.simulate(drive, t=(0, dt * round(T / dt)), dt=dt, paths=PATHS, seed=1,
                      collect=end)  # fmt: skip
    known = sd.structures.stationary_covariance(drive)
    ours.append(accelerations(run["covariance"].isel(time=-1).values))
    for name, value, truth in zip(names, ours[-1], accelerations(known), strict=False):
        print(f"truth: rms {name} acceleration at {speed:.0f} m/s is {truth:.4f}, ours "
              f"{value:.4f} ± {value / np.sqrt(2 * PATHS):.4f}")  # fmt: skip

_, axes = plt.subplots(2, 1, figsize=(6, 5), layout="constrained", sharex=True)
units = ("heave [m/s²]", "pitch [rad/s²]")
for i, (ax, unit) in enumerate(zip(axes, units, strict=True)):
    ax.plot(SPEEDS, np.array(exact)[:, i], "k", lw=1, label="one road, exact")
    ax.plot(
        SPEEDS, np.array(apart)[:, i], "0.6", ls="--", lw=1, label="a road for each axle"
    )
    points = np.array(ours)[:, i]
    ax.errorbar(DRIVEN, points, 2 * points / np.sqrt(2 * PATHS), fmt="C0o", ms=4,
                label=f"{PATHS} drives, ± 2 standard errors")  # fmt: skip
    ax.set_ylabel(f"rms acceleration of\n{unit}")
axes[1].set_xlabel("speed [m/s]")
axes[0].legend(frameon=False, fontsize="small")
sd.plot.save(axes[0], "half_car.png")
