"""Which steps are stable? A chart of three methods

dy = λ y dt + μ y dW decays in mean square where μ² < -2λ. Whether a method at step Δt
decays too depends only on h = λ Δt and k² = μ² Δt, so one chart says which steps are
allowed. The shaded regions are those of three methods, computed from their own steps; the
dashed line is the limit of the equation itself. Euler-Maruyama is stable only for short
steps, and Milstein only for even shorter ones. The implicit Euler method is stable even
where the equation is not.

Domain: choosing a method
"""

import numpy as np

import stodyn as sd
from stodyn.analysis import stability

POINTS = 300  # small: 30
h, k_squared = np.linspace(-4.0, 1.0, POINTS), np.linspace(0.0, 8.0, POINTS)
methods = {
    "implicit Euler": (sd.method("ThetaEuler")(theta=1.0), sd.plot.SKY),
    "Euler-Maruyama": ("EulerMaruyama", sd.plot.BLUE),
    "Milstein": ("Milstein", sd.plot.ORANGE),
}
ax = None
for name, (method, color) in methods.items():
    # the growth of E y² in a step: stable below 1
    radius = stability.region(method, h, k_squared)
    ax = sd.plot.region(
        h, k_squared, radius, labels=("h = λ Δt", "k² = μ² Δt"), label=name, color=color,
        ax=ax,
    )
ax.plot([-4.0, 0.0], [8.0, 0.0], "k--", lw=1, label="limit of the equation")
ax.legend(frameon=False, loc="upper right")
sd.plot.save(ax, "stability_chart.png")

# At h = -1, E y² grows in a step by (1 + k²)/4, k² and k² + k⁴/2
for name, exact in (
    ("implicit Euler", 3.0), ("Euler-Maruyama", 1.0), ("Milstein", np.sqrt(3.0) - 1.0),
):
    ours = stability.largest_noise(methods[name][0], -1.0)
    print(f"truth: largest k² of {name} is {exact:.8f}, ours {ours:.8f} ± 1e-7")
