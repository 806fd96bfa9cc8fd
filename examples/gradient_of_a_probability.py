"""Gradients of a probability: three routes, and how much each scatters

How does the chance that dx = μ x dt + σ x dW ends above 1.1 change with the drift μ and
with the noise σ? Along a path, whether it ends there has the derivative 0, which
sd.sensitivity refuses. It integrates the last step out, weighs paths by the score of
their law, or compares neighbours on the same noise. The picture shows each beside the
exact derivative.

Domain: choosing a method
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import stodyn as sd

PATHS = 40_000  # small: 2000
μ, σ = 0.1, 0.3
growth = sd.SDE(
    lambda t, x, p: p["mu"] * x, lambda t, x, p: p["sigma"] * x, 1.0,
    params={"mu": μ, "sigma": σ},
)
ROUTES = (("mu", "conditional"), ("mu", "weight"), ("mu", "difference"),
          ("sigma", "conditional"), ("sigma", "difference"))  # fmt: skip

d = (μ - σ**2 / 2 - np.log(1.1)) / σ
by_sigma = -norm.pdf(d) * ((μ - np.log(1.1)) / σ**2 + 0.5)
exact = {"mu": norm.pdf(d) / σ, "sigma": by_sigma}

_, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for row, (name, route) in enumerate(ROUTES):
    result = sd.sensitivity(
        growth, lambda t, x: x[0] > 1.1, of=name, by=route,
        t=(0, 1), dt=1 / 16, paths=PATHS, seed=1,
    )
    ours, error = float(result["gradient"][0]), float(result["gradient_stderr"][0])
    axes.errorbar(ours - exact[name], row, xerr=2 * error, fmt="o", ms=4)
    print(
        f"truth: dP/d{name} by the {route} route is {exact[name]:.5f}, "
        f"ours {ours:.5f} ± {error:.5f}"
    )
axes.axvline(0.0, color="0.6", lw=1)
axes.locator_params(axis="x", nbins=5)
axes.set_yticks(range(len(ROUTES)), [f"d/d{name}, {route}" for name, route in ROUTES])
axes.set_xlabel("estimate less the exact derivative, ± 2 standard errors")
sd.plot.save(axes, "gradient_of_a_probability.png")
