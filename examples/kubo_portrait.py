"""Kubo's oscillator: every path keeps its energy, the mean loses it

An oscillator whose clock is noisy: dq = p dτ, dp = -q dτ with dτ = dt + β ∘ dW, as for a
spin in a fluctuating field. Each path runs along its circle at a random pace. The
portrait shows an ensemble that starts at one point and spreads around the circle, and the
mean, which spirals inwards although no path does. The midpoint rule conserves the energy
of every path to rounding, at any step; the mean is known in closed form.

Domain: particles and plasma
"""

import matplotlib.pyplot as plt

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.damped_kubo import DAMPED_KUBO

PATHS = 20_000  # small: 500
SHOWN = [0.5, 2.0, 6.0]
kubo = DAMPED_KUBO(beta=0.5, nu=0.0, start=(2.0, 0.0))


def energy(t, x):
    return 0.5 * (x[0] ** 2 + x[1] ** 2)


collect = [st.Moments(every=1), st.Observable(energy), st.Paths(400, at=SHOWN)]
run = sd.simulate(
    kubo.problem, "Midpoint", t=(0, 12), dt=0.01, paths=PATHS, seed=1, collect=collect
)

fig, ax = plt.subplots(figsize=(5, 5), layout="constrained")
for k, (time, color) in enumerate(
    zip(SHOWN, (sd.plot.SKY, sd.plot.GREEN, sd.plot.PURPLE), strict=True)
):
    q, p = run["path"].values[:, k].T
    ax.plot(
        q, p, ".", color=color, ms=4, alpha=0.5, mew=0, label=f"paths at t = {time:g}"
    )
ax.plot(*run["mean"].values.T, color=sd.plot.BLUE, label="mean, t = 0 to 12")
exact = kubo.exact["mean"](run["time"].values)
ax.plot(*exact.T, "k--", lw=0.9, label="exact mean")
ax.plot(2.0, 0.0, "ko", ms=5)
ax.set(xlabel="q", ylabel="p", aspect="equal", xlim=(-2.4, 2.4), ylim=(-2.4, 3.6))
ax.legend(frameon=False, loc="upper center", ncols=2, markerscale=2.0)
sd.plot.save(fig, "kubo_portrait.png")

late = int((run["time"] <= 3.0).sum()) - 1
mean, error = (
    float(run[name].sel(component="q")[late]) for name in ("mean", "mean_stderr")
)
print(f"truth: mean of q at t = 3 is {exact[late, 0]:.4f}, ours {mean:.4f} ± {error:.4f}")
print(
    f"truth: mean energy at t = 12 is 2.0, "
    f"ours {float(run['energy'][-1]):.12f} ± 1e-11"
)
