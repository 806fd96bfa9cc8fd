"""The right noise for your own integrator, against the 1/dt folklore

Many simulators add white noise of intensity Q as random numbers of variance Q/dt. That is
right if one number is held over a step. A Runge-Kutta loop that draws a fresh number in
each of its four stages averages most of it away: the variance of this oscillator comes
out 72 % too small. stodyn probes your step as a black box and gives the factor Γ on Q/dt.
The picture shows the variance by both recipes, and the exact one. The step remains your
own code, in plain NumPy.

Domain: choosing a method
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn.analysis import covariance

PATHS = 40_000  # small: 2000
A, B, Q, DT, STEPS = (
    np.array([[0.0, 1.0], [-4.0, -0.4]]), np.array([[0.0], [1.0]]), 0.5, 0.1, 150,
)


def my_rk4(f, x, t, h, noise):  # f(x, t, w) is the derivative, noise() draws a sample w
    k1 = f(x, t, noise())
    k2 = f(x + h / 2 * k1, t + h / 2, noise())
    k3 = f(x + h / 2 * k2, t + h / 2, noise())
    k4 = f(x + h * k3, t + h, noise())
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def variance_over_time(sample_variance):
    rng = np.random.default_rng(1)
    x, found = np.zeros((2, PATHS)), []
    for k in range(STEPS):
        x = my_rk4(
            lambda x, t, w: A @ x + B @ w,
            x,
            k * DT,
            DT,
            lambda: np.sqrt(sample_variance) * rng.standard_normal((1, PATHS)),
        )
        found.append(x[0].var())
    return np.array(found)


probe = covariance.probe(my_rk4, A, B, [[Q]], dt=DT)
print(probe)
t = DT * np.arange(1, STEPS + 1)
exact = covariance.exact(
    sd.linear(A, B, [[Q]]), t, np.zeros(2), np.zeros((2, 2))
).covariance[:, 0, 0]
folklore, right = variance_over_time(Q / DT), variance_over_time(probe.gamma * Q / DT)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(t, folklore, color=sd.plot.ORANGE, label="samples of variance Q/dt")
ax.plot(
    t, right, color=sd.plot.BLUE,
    label=f"samples of variance Γ Q/dt, Γ = {probe.gamma:.3g}",
)
ax.plot(t, exact, "k--", lw=0.9, label="exact")
ax.set(xlabel="time", ylabel="variance of x", ylim=(0, None))
ax.legend(frameon=False, loc="center right")
sd.plot.save(fig, "own_integrator.png")

error = right[-1] * np.sqrt(2 / PATHS)
print(f"folklore delivers {folklore[-1]:.4f}, exact in the long run {exact[-1]:.4f}")
print(f"truth: variance is {exact[-1]:.4f}, ours {right[-1]:.4f} ± {error:.4f}")
