"""How to find a probability of one in ten million

A particle in a double well, dx = (x - x³) dt + σ dW, starts beside the bottom of the left
well. What is the chance that it reaches the bottom of the right well before it falls
back? The weaker the noise, the smaller the chance: plain simulation would need billions
of paths for the last point of the picture. Splitting copies the paths that climb highest,
again and again. The exact probability is a ratio of integrals of exp(2V/σ²).

Domain: particles and plasma
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd

REPLICAS = 100  # small: 50
NOISE = [0.4, 0.3, 0.22, 0.18]  # small: [0.4]
START, LEFT, RIGHT = -0.9, -1.0, 1.0


def exact(σ):
    x = np.linspace(LEFT, RIGHT, 20_001)
    weight = np.exp(2 * (x**2 - 1) ** 2 / 4 / σ**2)
    return np.trapezoid(weight[x <= START + 1e-9], x[x <= START + 1e-9]) / np.trapezoid(
        weight, x
    )


_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for σ in NOISE:
    found = sd.rare(
        sd.SDE(lambda t, x: x - x**3, lambda t, x: σ, START),
        "SRA1",
        event=sd.Level(RIGHT),
        before=sd.Level(LEFT, direction="down"),
        dt=0.005,
        seed=1,
        replicas=REPLICAS,
    )
    p, low, high, error = (
        float(found[f"probability{end}"]) for end in ("", "_low", "_high", "_stderr")
    )
    ax.errorbar(
        1 / σ**2, p, [[p - low], [high - p]], fmt="C0o", ms=4,
        label="splitting, 95 %" if σ == NOISE[0] else None,
    )
    print(
        f"truth: probability at σ = {σ:g} is {exact(σ):.3e}, "
        f"ours {p:.3e} ± {error:.1e}"
    )
curve = np.linspace(0.17, 0.45, 50)
ax.semilogy(1 / curve**2, [exact(σ) for σ in curve], "k", lw=1, label="exact")
ax.set(xlabel="1/σ²", ylabel="probability of reaching the other well")
ax.legend(frameon=False)
sd.plot.save(ax, "rare_event.png")
