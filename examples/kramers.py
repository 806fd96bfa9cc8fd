"""When is Kramers' formula right? Switching times against temperature

A particle in a double well in a bath of temperature T, dx = (x - x³) dt + √(2T) dW,
switches from one bottom to the other. Kramers' formula for the mean time, √2 π exp(ΔV/T)
with the barrier ΔV = 1/4, holds where the barrier is high compared with T. The picture
shows it against ΔV/T (an Arrhenius plot) with simulated times and with the exact ones,
which are double integrals. The formula has the right slope, but its times are still 12 %
too short at ΔV = 4 T.

Domain: particles and plasma
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import cumulative_trapezoid

import stodyn as sd

PATHS = 2000  # small: 200
POINTS = 7  # small: 2
BARRIER = 0.25


def exact(T):  # ∫ exp(V(y)/T)/T ∫ exp(-V(z)/T) dz dy, z from -∞ to y, y from -1 to 1
    x = np.linspace(-2.5, 1.0, 35_001)
    V = (x**2 - 1) ** 2 / 4
    inner = cumulative_trapezoid(np.exp(-V / T), x, initial=0.0)
    return np.trapezoid(np.where(x >= -1.0, np.exp(V / T) / T * inner, 0.0), x)


def switching_times(T, longest):
    bath = sd.SDE(lambda t, x: x - x**3, lambda t, x: np.sqrt(2 * T), start=-1.0)
    dt = 0.02
    end = dt * np.ceil(longest / dt)
    run = sd.simulate(
        bath, "SRA1", t=(0, end), dt=dt, paths=PATHS, seed=1, stop=sd.Stop(sd.Level(1.0))
    )
    return run["stop_time"].fillna(end).values


ratios = np.linspace(1.0, 4.0, POINTS)
mean, error = [], []
for ratio in ratios:
    T = BARRIER / ratio
    times = switching_times(T, 20 * exact(T))
    mean.append(times.mean())
    error.append(times.std() / np.sqrt(PATHS))

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
fine = np.linspace(0.8, 4.2, 50)
ax.semilogy(
    fine, [exact(BARRIER / r) for r in fine], color=sd.plot.BLUE,
    label="exact, by quadrature",
)
ax.semilogy(
    fine, np.sqrt(2) * np.pi * np.exp(fine), "--", color=sd.plot.ORANGE,
    label="Kramers' formula",
)
ax.errorbar(
    ratios, mean, 2 * np.array(error), fmt="ko", ms=4, capsize=3,
    label=f"{PATHS:,} paths each, ± 2σ",
)
ax.set(xlabel="barrier over temperature, ΔV/T", ylabel="mean switching time")
ax.legend(frameon=False)
sd.plot.save(fig, "kramers.png")

for k in (0, -1):
    print(
        f"ΔV/T = {ratios[k]:g}: Kramers' formula "
        f"{np.sqrt(2) * np.pi * np.exp(ratios[k]):.2f}"
    )
    print(
        f"truth: mean switching time at ΔV/T = {ratios[k]:g} is "
        f"{exact(BARRIER / ratios[k]):.3f}, ours {mean[k]:.3f} ± {error[k]:.3f}"
    )
