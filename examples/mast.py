"""How likely is a mast to sway by more than 4.5 standard deviations?

A mast in gusty wind, x'' + 2 ζ ω x' + ω² x = σ ξ, must not sway too far within 20 s.
Plain simulation would need a hundred million paths to see enough failures. Splitting
copies the paths that come nearest to the limit, again and again: it needs a few thousand,
and shows how the mast fails. It is not hit by one gust; its sway builds up over several
periods. The sway is Gaussian, so the probability can also be computed in another way:
from paths drawn from their law given that they fail.

Domain: vehicles and structures
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd

REPLICAS = 512  # small: 32
DRAWN = 1000  # small: 200
LIMIT = 4.5  # small: 3.0
ω, ζ = 1.0, 0.05  # rad/s, and the damping ratio
σ = np.sqrt(4 * ζ * ω**3)  # which makes the stationary variance of the sway 1

mast = sd.linear(
    [[0.0, 1.0], [-(ω**2), -2 * ζ * ω]], [[0.0], [σ]], names=("sway", "rate")
)
event = sd.Level((-LIMIT, LIMIT), of="sway")
with warnings.catch_warnings():
    # that the runs scatter more than with a perfect score
    warnings.simplefilter("ignore")
    found = sd.rare(
        mast, "SRA1", event=event, before=20.0, dt=0.05, seed=1, score="amplitude",
        replicas=REPLICAS,
    )
ours, error = float(found["probability"]), float(found["probability_stderr"])
print(
    f"95 %: {float(found['probability_low']):.2e} to "
    f"{float(found['probability_high']):.2e}, from 16 runs"
)

exact = sd.rare(
    mast, event=event, before=20.0, dt=0.025, seed=2, by="elementary", replicas=DRAWN
)

_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for path in found["event_path"].values[:4]:
    ax.plot(found["time"], path[:, 0], lw=1)
for level in (-LIMIT, LIMIT):
    ax.axhline(level, color="k", ls="--", lw=1)
ax.set(
    xlabel="time [s]", ylabel="sway [standard deviations]",
    title="four paths that pass the limit",
)
sd.plot.save(ax, "mast.png")
print(
    f"truth: probability is {float(exact['probability']):.4e}, ours {ours:.4e} ± "
    f"{error:.1e}"
)
