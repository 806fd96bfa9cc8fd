"""A controller shaped by gradients of noisy runs

A mass is pushed by white noise and held by the force -(k x + c v). How large should k and
c be, if the mean square of the force counts a tenth of that of the place? sd.sensitivity
differentiates the time average over a hundred noisy paths; with one seed it is a smooth
function of k and c, which L-BFGS walks down. The lines are the exact cost, the star is
the linear-quadratic regulator.

Domain: vehicles and structures
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import stodyn as sd
from stodyn.statistics.functional import TimeAverage

PATHS = 100  # small: 4
END = 200.0  # small: 5.0
MOST = 20  # small: 1
PRICE = 0.1  # of the mean square of the force
mass = sd.SDE(
    lambda t, x, p: jnp.stack([x[1], -p["k"] * x[0] - p["c"] * x[1]]),
    lambda t, x: jnp.array([[0.0], [1.0]]), [0.0, 0.0], params={"k": 0.5, "c": 0.4},
)  # fmt: skip


def spent(t, x, p):
    return x[0] ** 2 + PRICE * (p["k"] * x[0] + p["c"] * x[1]) ** 2


steps = [np.log([0.5, 0.4])]


def run(u):
    k, c = np.exp(u)
    return sd.sensitivity(
        mass.changed(params={"k": k, "c": c}), TimeAverage(spent), of=("k", "c"),
        t=(0, END), dt=0.05, paths=PATHS, seed=1,
    )  # fmt: skip


def cost(u):
    result = run(u)
    return float(result["value"]), result["gradient"].values * np.exp(u)


best = minimize(
    cost, steps[0], jac=True, method="L-BFGS-B", options={"maxiter": MOST},
    callback=lambda u: steps.append(u.copy()),
)  # fmt: skip
(k, c), regulator = np.exp(best.x), (PRICE**-0.5, np.sqrt(2) * PRICE**-0.25)
least = run(np.log(regulator))


def exact(k, c):
    return 1 / (2 * k * c) + PRICE * (k / (2 * c) + c / 2)


words = "k = {:.3f}, c = {:.3f}"
print("ours:", words.format(k, c), "regulator:", words.format(*regulator))
value, error = float(least["value"]), float(least["value_stderr"])
lowest = exact(*regulator)
print(f"truth: cost of the regulator is {lowest:.4f}, ours {value:.4f} ± {error:.4f}")
ks, cs = np.meshgrid(np.geomspace(0.3, 10, 80), np.geomspace(0.3, 10, 80))
costs = exact(ks, cs)
_, axes = plt.subplots(figsize=(4.8, 4), layout="constrained")
levels = costs.min() * 1.15 ** np.arange(14)
axes.contour(ks, cs, costs, levels, colors="0.75", linewidths=0.8)
axes.plot(*np.exp(np.array(steps)).T, "o-", ms=4)
axes.plot(*regulator, "*", ms=14, color="C3")
axes.set(xscale="log", yscale="log", xlabel="stiffness k", ylabel="damping c")
sd.plot.save(axes, "controller_by_gradients.png")
