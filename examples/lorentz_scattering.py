"""Electrons scattered by ions: from straight flight to diffusion

Heavy ions turn an electron's velocity but do not change its speed: dx = v dt, dv = √(2ν)
(v_y, -v_x) ∘ dW, the Lorentz collision operator in the plane. The direction is forgotten
at the rate ν, so the mean square distance is t² at first and 2t/ν in the long run; the
whole curve is 2 (t/ν - (1 - exp(-νt))/ν²). The picture shows some flights and this curve.
The midpoint rule conserves the speed of every electron to rounding, at any step h; but it
scatters too little, by the factor 1 - ν h, and this determines the step.

Domain: particles and plasma
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 10_000  # small: 500
NU, END = 1.0, 10.0

electron = sd.Hamiltonian(
    lambda t, x, v: 0.5 * (v @ v),
    noise=lambda t, x, v: jnp.sqrt(2 * NU) * jnp.stack([v[1], -v[0]]),
    start=([0.0, 0.0], [1.0, 0.0]),
    names=("x", "y", "vx", "vy"),
)
collect = [
    st.Observable(lambda t, x: x[0] ** 2 + x[1] ** 2, name="square", every=10),
    st.Change(lambda t, x: x[2] ** 2 + x[3] ** 2, name="change"),
    st.Paths(5, every=50),
]
run = sd.simulate(
    electron, "Midpoint", t=(0, END), dt=0.002, paths=PATHS, seed=1, collect=collect
)
t = run["time"].values
exact = 2 * (t / NU - (1 - np.exp(-NU * t)) / NU**2)

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained")
for path, color in zip(run["path"].values, sd.plot.PALETTE, strict=False):
    left.plot(path[:, 0], path[:, 1], color=color)
left.plot(0, 0, "ko", ms=4)
left.set(
    xlabel="x", ylabel="y", title=f"five flights to t = {END:g}", aspect="equal",
    adjustable="datalim",
)
right.loglog(
    t[1:], run["square"][1:], color=sd.plot.BLUE, lw=3, alpha=0.6,
    label=f"{PATHS:,} paths",
)
right.loglog(t[1:], exact[1:], "k--", lw=1, label="exact")
right.loglog(t[1:], t[1:] ** 2, ":", color=sd.plot.ORANGE, label="free flight, t²")
right.loglog(t[1:], 2 * t[1:] / NU, ":", color=sd.plot.GREEN, label="diffusion, 2t/ν")
right.set(xlabel="time", ylabel="mean square distance", ylim=(3e-4, 1e3))
right.legend(frameon=False)
sd.plot.save(fig, "lorentz_scattering.png")

ours, error = float(run["square"][-1]), float(run["square_stderr"][-1])
print(f"root mean square change of the squared speed: {float(run['change_rms'][-1]):.0e}")
print(f"truth: mean square distance is {exact[-1]:.3f}, ours {ours:.3f} ± {error:.3f}")
