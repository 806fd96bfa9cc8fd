"""How small must the step be? The bias of two methods without sampling

A lightly damped oscillator in white noise, x'' + 2 ζ ω x' + ω² x = σ ξ: in the long run
its variance is σ²/(4 ζ ω³). A method at step h gives a different variance. For linear
equations stodyn computes it exactly from the method's own step, so nobody has to guess a
step or run a convergence study. The picture shows the error of the variance against the
step. For 1 %, Heun's method can take steps two hundred times as long as Euler-Maruyama;
the dip in its curve is where its error changes sign.

Domain: first steps
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis import linear

warnings.simplefilter("ignore", sd.warnings.ResponseNotDelivered)  # as is shown here
PATHS = 20_000  # small: 1000
POINTS = 40  # small: 5
# rad/s, damping ratio; the noise makes the stationary variance 1
OMEGA, ZETA = 2 * np.pi, 0.05
oscillator = sd.linear(
    [[0.0, 1.0], [-(OMEGA**2), -2 * ZETA * OMEGA]],
    [[0.0], [np.sqrt(4 * ZETA * OMEGA**3)]],
    names=("x", "rate"),
)


def variance(method, h):
    return linear.step_map(oscillator, method, h).stationary().covariance[0, 0]


fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for method, longest, color in (
    ("EulerMaruyama", 0.015, sd.plot.BLUE), ("Heun", 0.08, sd.plot.ORANGE),
):
    steps = np.geomspace(1e-4, longest, POINTS)
    error = [abs(variance(method, h) - 1) for h in steps]
    ax.loglog(steps, error, color=color, label=f"{method}, computed")

h = 0.005
run = sd.simulate(
    oscillator, "EulerMaruyama", t=(0, 20), dt=h, paths=PATHS, seed=1,
    collect=st.Moments(at=[20.0]),
)
ours, error = (
    float(run[name].sel(component="x")[-1]) for name in ("variance", "variance_stderr")
)
ax.errorbar(
    h, ours - 1, 2 * error, fmt="o", color=sd.plot.BLUE, capsize=3,
    label=f"EulerMaruyama, {PATHS:,} paths",
)
ax.axhline(0.01, color=sd.plot.GREY, ls="--", lw=1, label="1 %")
ax.set(xlabel="step h [s]", ylabel="relative error of the variance")
ax.legend(frameon=False, loc="lower right")
sd.plot.save(fig, "how_small_a_step.png")

expected = variance("EulerMaruyama", h)
print(
    f"at h = {h} s EulerMaruyama is off by {expected - 1:+.1%}, Heun by "
    f"{variance('Heun', h) - 1:+.2%}"
)
print(
    f"truth: variance of EulerMaruyama is {expected:.4f}, "
    f"ours {ours:.4f} ± {error:.4f}"
)
