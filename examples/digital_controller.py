"""A digital controller: what happens between its samples?

A cart is pushed by white noise. Ten times a second a sensor reads where it is, with
noise, and 20 ms later a controller sets the speed that brings it back. Until then the
cart drifts with the speed of before, so its variance depends on when one looks: it is
largest when the new speed arrives, and least in the middle of the period. The picture
shows one path with its readings and the speed held, and the variance over a period: of
paths, and computed without any.

Domain: vehicles and structures
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 100_000  # small: 500
EVERY, DT, END = 0.1, 0.005, 4.0

cart = sd.SDE(
    lambda t, x, p: p["u"] + 0 * x,
    lambda t, x: jnp.ones((1, 1)),
    start=[0.0],
    params={"u": 0.0},
    names=["x"],
)


def law(t, own, seen, params):
    return own, -5 * seen["y"]


loop = sd.with_loop(
    cart,
    sd.Sensor("y", of="x", every=EVERY, noise=sd.per_sample(0.1)),
    sd.Part("law", every=EVERY, delay=0.02, reads="y", writes="u", update=law),
)
inside = END + DT * np.arange(round(EVERY / DT) + 1)
span, collect = (0, float(inside[-1])), [st.Moments(at=inside), st.Paths(1, every=1)]
run = sd.simulate(
    loop, "EulerMaruyama", t=span, dt=DT, paths=PATHS, seed=1, collect=collect
)
solved = sd.analysis.sampled(loop)
times = np.linspace(0, EVERY, 200, endpoint=False)
exact = [solved.covariance(t)[0, 0] for t in times]

_, (upper, lower) = plt.subplots(2, 1, figsize=(6, 5), layout="constrained")
path, t = run["path"][0], run["time_paths"].values
first = t < 1.5
upper.plot(t[first], path.sel(component="x")[first], "C0", lw=1, label="x")
readings = path.sel(component="y")[first][:: round(EVERY / DT)]
upper.plot(t[first][:: round(EVERY / DT)], readings, "k.", label="readings")
upper.step(t[first], 0.2 * path.sel(component="u")[first], "C1", lw=1, label="u / 5")
upper.set(xlabel="time [s]", ylabel="one path")
upper.legend(frameon=False, ncol=3)
variance = run["variance"].sel(component="x")
lower.plot(1e3 * (inside - END), variance, "o", ms=4, label=f"{PATHS:,} paths")
lower.plot(1e3 * times, exact, "k", lw=1, label="without paths")
lower.axvline(20, color="0.6", lw=1, ls=":")
lower.set(xlabel="time since the sample [ms]", ylabel="variance of x")
lower.legend(frameon=False)
sd.plot.save(upper, "digital_controller.png")
before = solved.covariance(0, before=True)[0, 0]
error = float(run["variance_stderr"].sel(component="x")[-1])
print(
    f"truth: variance before a sample is {before:.5f}, "
    f"ours {float(variance[-1]):.5f} ± {error:.5f}"
)
