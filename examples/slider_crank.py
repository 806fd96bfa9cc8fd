"""A slider-crank runs down: how much energy does noise leave it?

There are masses at the pin and at the slider, and three joints: crank, rod and guide.
Friction -γ m v and white forces act on both masses. The joints hold at every step, and
the mean kinetic energy obeys

    d E K/dt = -2 γ (E K - kT/2),    whatever the lengths and the masses,

where the forces have the intensity 2 γ m kT. The picture shows the slider of two cranks,
and the mean energy with its exact value.

Domain: mechanisms
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 2000  # small: 100
# m, m, kg: of x1, y1 (the pin), x2, y2 (the slider)
RADIUS, ROD, MASSES = 0.5, 1.2, np.array([1.0, 1.0, 2.0, 2.0])
γ, kT, END = 0.5, 2.0, 4.0  # 1/s, J, s


def joints(t, q):
    x1, y1, x2, y2 = q
    return jnp.array(
        [
            (x1**2 + y1**2 - RADIUS**2) / 2,
            ((x2 - x1) ** 2 + (y2 - y1) ** 2 - ROD**2) / 2, y2,
        ]
    )


def energy(t, z):
    return 0.5 * jnp.sum(MASSES * z[4:8] ** 2)


crank = sd.Mechanical(
    force=lambda t, q, v: -γ * MASSES * v,
    noise=lambda t, q, v: jnp.diag(jnp.sqrt(2 * γ * kT * MASSES)),
    # 6 rad/s
    start=([0.0, RADIUS, np.sqrt(ROD**2 - RADIUS**2), 0.0], [-3.0, 0.0, -3.0, 0.0]),
    mass=MASSES,
    names=("x1", "y1", "x2", "y2"),
    constraints=joints,
    constraint_names=("crank", "rod", "guide"),
)
collect = [st.Observable(energy, name="energy", every=5), st.Paths(2, every=2)]
run = sd.simulate(crank, t=(0, END), dt=0.01, paths=PATHS, seed=1, collect=collect)

times, ours, error = (run[name].values for name in ("time", "energy", "energy_stderr"))
exact = kT / 2 + (ours[0] - kT / 2) * np.exp(-2 * γ * times)
_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.plot(run["time_paths"], run["path"].sel(component="x2").T, lw=1)
left.set(xlabel="time [s]", ylabel="place of the slider [m]")
right.errorbar(
    times[::8], ours[::8], 2 * error[::8], fmt="C0o", ms=3, lw=1,
    label=f"{PATHS} cranks, ± 2 errors",
)
right.plot(times, exact, "k", lw=1, label="exact")
right.axhline(kT / 2, color="0.6", ls="--", lw=1, label="kT/2")
right.set(xlabel="time [s]", ylabel="mean kinetic energy [J]", ylim=(0, None))
right.legend(frameon=False, fontsize="small")
sd.plot.save(left, "slider_crank.png")
for k in (len(times) // 4, len(times) - 1):
    print(
        f"truth: energy in J after {times[k]:.1f} s is {exact[k]:.4f}, "
        f"ours {ours[k]:.4f} "
        f"± {error[k]:.4f}"
    )
