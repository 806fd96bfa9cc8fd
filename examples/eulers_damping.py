"""Euler's damping: what a discretised likelihood makes of an oscillator

A mass on a spring in white noise, x'' + 2 ζ x' + x = 0.3 ξ with ζ = 0.05, is read every
0.1 s for an hour. Fitted by the exact law of the readings, and by the law of Euler steps
of the same 0.1 s, as is common for stochastic differential equations. Euler's step adds
energy, as if the damping were lower by h/2, and its fit makes up for it: it puts h/2 on
the damping, in a narrow interval far from the truth. `sd.fit` halves the step and warns
that the likelihood is one of steps.

Domain: records
"""

import warnings

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import scipy

import stodyn as sd

READINGS = 36_000  # small: 400
H, ζ, Q = 0.1, 0.05, 0.3

oscillator = sd.SDE(
    lambda t, x, p: jnp.stack([x[1], -x[0] - 2 * p["zeta"] * x[1]]),
    lambda t, x, p: jnp.array([[0.0], [1.0]]) * p["q"],
    start=[0.0, 0.0], params={"zeta": 0.1, "q": 0.5}, names=["x", "v"],
)  # fmt: skip
sensors = [sd.Sensor(name, of=name, noise=sd.per_sample(1e-3)) for name in ("x", "v")]

A = np.array([[0.0, 1.0], [-1.0, -2 * ζ]])
block = np.block([[A, np.diag([0.0, Q**2])], [np.zeros((2, 2)), -A.T]])
power = scipy.linalg.expm(H * block)
step, root = power[:2, :2], np.linalg.cholesky(power[:2, 2:] @ power[:2, :2].T)
rng, state, values = np.random.default_rng(1), np.zeros(2), []
for _ in range(READINGS):
    state = step @ state + root @ rng.standard_normal(2)
    values.append(state + 1e-3 * rng.standard_normal(2))
values = np.array(values)
times = H * np.arange(1, READINGS + 1)
record = {"x": (times, values[:, 0]), "v": (times, values[:, 1])}

free = {"zeta": (0, None), "q": (0, None)}
options = {"data": record, "sensors": sensors, "free": free, "predictive": 0}
options["profile"] = False
exact = sd.fit(oscillator, **options)
warnings.simplefilter("ignore", sd.warnings.StepTooLong)  # as is shown here
euler = sd.fit(oscillator, law="EulerMaruyama", dt=H, **options)

_, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
for row, (name, result, truth) in enumerate(
    (("the exact law", exact, ζ), (f"Euler steps of {H} s", euler, ζ + H / 2))
):
    own = result.sel(parameter="zeta")
    ours, error = float(own.estimate), float(own.stderr)
    axes.errorbar(ours, row, xerr=2 * error, fmt="o", ms=4)
    print(f"truth: damping by {name} is {truth:.4f}, ours {ours:.4f} ± {error:.4f}")
axes.axvline(ζ, color="0.5", lw=1)
axes.axvline(ζ + H / 2, color="0.5", lw=1, ls=":")
axes.text(ζ, 1.3, " ζ", va="center")
axes.text(ζ + H / 2, 0.3, "ζ + h/2 ", va="center", ha="right")
axes.set_yticks((0, 1), ("exact law", f"Euler, h = {H} s"))
axes.set(xlabel="damping ratio, ± 2 standard errors", ylim=(-0.6, 1.6))
sd.plot.save(axes, "eulers_damping.png")
