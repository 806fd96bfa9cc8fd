"""How likely is a storey to drift too far in an earthquake?

Five floors stand on ground that shakes with the Kanai-Tajimi spectrum: M x'' + C x' + K
x = -M 1 a_g. The stochastic α method treats the ground motion exactly. The picture shows
the rms drift of each storey with the solution of Lyapunov's equation, and the probability
that the first storey has not yet drifted by more than 2 cm, with Vanmarcke's
approximation for stationary motion. Simulated buildings start from rest, so they begin to
fail later.

Domain: vehicles and structures
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured

PATHS = 10_000  # small: 200
STOREYS, MASS, STIFFNESS = 5, 2e5, 2.5e8  # kg, N/m
DURATION, LIMIT = 15.0, 0.02  # s, m

K = STIFFNESS * (2 * np.eye(STOREYS) - np.eye(STOREYS, k=1) - np.eye(STOREYS, k=-1))
K[-1, -1] = STIFFNESS
frame = sd.Mechanical.from_matrices(
    np.full(STOREYS, MASS), None, K, damping=("rayleigh", (10, 0.05), (60, 0.05))
)
ground = coloured.kanai_tajimi(omega=15.6, zeta=0.6, sigma=1.0)  # firm soil; rad/s, m/s²
shaken = sd.base_excited(frame, ground)

drifts = sd.structures.responses(shaken).drifts  # rows that multiply (x, v)
# x0 is the drift of the first storey
passage = st.Passage((-LIMIT, LIMIT), of="x0", every=25, mean=False)
collect = [st.Moments(at=[DURATION]), passage]
run = sd.simulate(
    shaken, "StochasticAlpha", t=(0, DURATION), dt=0.01, paths=PATHS, seed=1,
    collect=collect,
)

P = sd.structures.stationary_covariance(shaken)[: 2 * STOREYS, : 2 * STOREYS]
exact = np.sqrt(np.diagonal(drifts @ P @ drifts.T))
ours = np.sqrt(
    np.diagonal(
        drifts @ run["covariance"].values[-1][: 2 * STOREYS, : 2 * STOREYS] @ drifts.T
    )
)
errors = ours / np.sqrt(2 * PATHS)  # of the rms of Gaussian numbers

_, (left, right) = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
storey = np.arange(1, STOREYS + 1)
left.barh(storey, 1e3 * exact, color="0.85", label="Lyapunov's equation")
left.errorbar(
    1e3 * ours, storey, xerr=2e3 * errors, fmt="C0o", ms=4, label=f"{PATHS:,} earthquakes"
)
left.set(xlabel="rms drift [mm]", ylabel="storey", ylim=(0.4, 6.4), yticks=storey)
times, survival, error = (
    run[name].values
    for name in ("time_passage", "passage_survival", "passage_survival_stderr")
)
right.fill_between(
    times, survival - 2 * error, survival + 2 * error, color="C0", alpha=0.3, lw=0
)
right.plot(times, survival, "C0", label=f"{PATHS:,} earthquakes")
vanmarcke = [
    sd.structures.peaks(shaken, drifts[0], t).survival(LIMIT / exact[0])
    for t in times[1:]
]
right.plot(times[1:], vanmarcke, "k--", lw=1, label="Vanmarcke")
right.set(
    xlabel="time [s]", ylabel="P(drift still within 2 cm)", ylim=(0, 1.05),
    xticks=[0, 5, 10, 15],
)
for ax in (left, right):
    ax.legend(frameon=False, fontsize="small", loc="upper right")
sd.plot.save(left, "shear_building.png")
for k in (0, STOREYS - 1):
    truth, value, error = 1e3 * exact[k], 1e3 * ours[k], 1e3 * errors[k]
    print(
        f"truth: rms drift of storey {k + 1} in mm is {truth:.4f}, ours {value:.4f} ± "
        f"{error:.4f}"
    )
