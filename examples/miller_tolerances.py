"""A Miller integrator with tolerances, by polynomial chaos

An amplifier of gain a with a capacitor C₂ around it integrates a sine wave; a, C₁ and C₂
have tolerances of 10 %. Its equations are differential-algebraic, of index 2. Galerkin's
method solves them once for polynomials of degree 3 in all three parameters, instead of
thousands of samples. The picture shows the output with the band that contains 90 % of all
circuits, and the share of each tolerance in the variance.

Domain: circuits
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.miller_integrator import miller_integrator

STEPS = 400  # small: 200
A, C1, C2, R1, PERIOD, TOLERANCE = 2.0, 1e-10, 5e-11, 1e3, 1e-6, 0.1
END = 2 * PERIOD

circuit = miller_integrator(A, C1, C2, R1, PERIOD, TOLERANCE)
collect = st.Surrogate(every=2, quantiles=(0.05, 0.95))
run = sd.simulate(
    circuit, sd.method("Galerkin")(degree=3), t=(0, END), dt=END / STEPS, collect=collect
)
print(f"before the run: {circuit.domain_index.words}")

out, t = run.sel(component="u3"), 1e6 * run["time"].values
_, (upper, lower) = plt.subplots(2, 1, figsize=(6, 5), layout="constrained", sharex=True)
low, high = out["quantile"].values.T
upper.fill_between(
    t, low, high, color="C0", alpha=0.3, lw=0, label="90 % of all circuits"
)
upper.plot(t, out["mean"], "C0", label="mean")
upper.set(ylabel="output [V]", ylim=(-2.5, 3.5))
for name in circuit.parameters:
    lower.plot(
        t[1:], out["sobol_first"].sel(parameter=name)[1:], label=f"tolerance of {name}"
    )
lower.set(
    xlabel="time [µs]", ylabel="share of the variance", ylim=(0, 1.3), yticks=[0, 0.5, 1]
)
for ax in (upper, lower):
    ax.legend(frameon=False, fontsize="small", loc="upper right", ncols=3)
sd.plot.save(upper, "miller_tolerances.png")

# Closed form: τ u₂' = sin(ω t) - u₂ with τ = R₁ (C₁ + C₂ (1 - a)), and the output is a u₂
points, weights = np.polynomial.legendre.leggauss(10)
a, c1, c2 = np.meshgrid(
    *(value * (1 + TOLERANCE * points) for value in (A, C1, C2)), indexing="ij"
)
w = np.einsum("a,b,c->abc", weights, weights, weights) / 8
τ, ω = R1 * (c1 + c2 * (1 - a)), 2 * np.pi / PERIOD
k = len(t) // 4
s, c = np.sin(ω * 1e-6 * t[k]), np.cos(ω * 1e-6 * t[k])
v = a * (s - ω * τ * c + ω * τ * np.exp(-1e-6 * t[k] / τ)) / (1 + (ω * τ) ** 2)
mean = np.sum(w * v)
exact = {"mean": mean, "std": np.sqrt(np.sum(w * (v - mean) ** 2))}
for name in ("mean", "std"):
    print(
        f"truth: {name} of the output in V at {t[k]:.2f} µs is {exact[name]:.6f}, ours "
        f"{float(out[name][k]):.6f} ± 1e-06"
    )
