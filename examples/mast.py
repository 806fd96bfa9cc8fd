"""A mast in gusty wind must not sway by more than 4.5 standard deviations within 20 seconds. How likely is it to fail?

Plain simulation would need a hundred million paths. Splitting needs a few thousand, and shows how the mast fails.
"""

import numpy as np
from matplotlib.figure import Figure

import stodyn as sd

FREQUENCY, DAMPING = 1.0, 0.05  # rad/s, and the damping ratio; the noise makes the stationary variance of the sway 1
mast = sd.linear(
    [[0.0, 1.0], [-(FREQUENCY**2), -2 * DAMPING * FREQUENCY]],
    [[0.0], [np.sqrt(4 * DAMPING * FREQUENCY**3)]],
    names=("sway", "rate"),
)
event = sd.Level((-4.5, 4.5), of="sway")
found = sd.rare(mast, "SRA1", event=event, before=20.0, dt=0.05, seed=1, score="amplitude", replicas=256)
p, error = float(found["probability"]), float(found["probability_stderr"])
print(f"95 %: {float(found['probability_low']):.2e} to {float(found['probability_high']):.2e}, from 16 runs")

# The sway is Gaussian, so that paths can be drawn from their law given that they are beyond the bound at some time
exact = sd.rare(mast, event=event, before=20.0, dt=0.025, seed=2, by="elementary", replicas=1000)

fig = Figure(figsize=(6, 4), layout="constrained")
ax = fig.subplots()
for path in found["event_path"].values:
    ax.plot(found["time"], path[:, 0], lw=0.8)
ax.axhline(4.5, color="k", ls="--")
ax.axhline(-4.5, color="k", ls="--")
ax.set(xlabel="time [s]", ylabel="sway [standard deviations]", title="paths that pass the limit")
sd.plot.save(fig, "mast.png")
truth, uncertain = float(exact["probability"]), float(exact["probability_stderr"])
print(f"truth: {truth:.3e} +- {uncertain:.0e} by importance sampling, ours {p:.3e} +- {error:.0e}")
