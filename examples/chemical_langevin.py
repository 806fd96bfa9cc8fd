"""How noisy is a gene? The chemical Langevin equation

A gene makes messengers, messengers make proteins, and both decay: four reactions, each
with its own Poisson noise,

    dX = Σ_r s_r (a_r(X) dt + √a_r(X) dW_r),    a = (k₁, γ₁ m, k₂ m, γ₂ p).

All rates are linear, so the mean and the covariance obey closed equations, the same as
for the numbers of single molecules. The picture shows paths of the protein, and their
mean and its band of two standard deviations together with the exact ones.

Domain: life and finance
"""

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import stodyn as sd
from stodyn import statistics as st

PATHS = 40_000  # small: 500
# of (m, p) by each reaction
CHANGE = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
# the rates of the reactions are BASE + SLOPE (m, p), per hour
BASE = np.array([40.0, 0.0, 0.0, 0.0])
SLOPE = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [0.0, 0.25]])
START, END = np.array([10.0, 20.0]), 16.0

gene = sd.SDE(
    lambda t, x: CHANGE @ (BASE + SLOPE @ x),
    lambda t, x: CHANGE * jnp.sqrt(jnp.maximum(BASE + SLOPE @ x, 0.0)),
    start=START,
    names=("messenger", "protein"),
    units=("molecules", "molecules"),
)
collect = [st.Moments(every=5), st.Paths(4)]
run = sd.simulate(
    gene, "PlatenWeak2Pairs", t=(0, END), dt=0.05, paths=PATHS, seed=1, collect=collect
)


def moments(t, y):
    """m' = S a(m), P' = A P + P A' + S diag(a(m)) S', A = S SLOPE: exact, since the rates
    a are linear."""
    m, P, A = y[:2], y[2:].reshape(2, 2), CHANGE @ SLOPE
    rates = BASE + SLOPE @ m
    return np.concatenate(
        [CHANGE @ rates, (A @ P + P @ A.T + CHANGE * rates @ CHANGE.T).ravel()]
    )


times = run["time"].values
exact = solve_ivp(
    moments, (0, END), [*START, 0, 0, 0, 0], t_eval=times, rtol=1e-9, atol=1e-9
).y
ax = sd.plot.band(run, "protein")
for sign in (-2, 0, 2):
    ax.plot(
        times, exact[1] + sign * np.sqrt(exact[5]), "k--", lw=1,
        label=None if sign else "exact",
    )
ax.set(xlabel="time [h]", ylabel="protein [molecules]", title="")
ax.legend(frameon=False, fontsize="small", loc="lower right")
sd.plot.save(ax, "chemical_langevin.png")
end = run.isel(time=-1).sel(component="protein")
for name, truth in (("mean", exact[1, -1]), ("variance", exact[5, -1])):
    ours, error = float(end[name]), float(end[f"{name}_stderr"])
    print(f"truth: {name} of the protein is {truth:.2f}, ours {ours:.2f} ± {error:.2f}")
