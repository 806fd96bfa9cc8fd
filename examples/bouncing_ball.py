"""How far does a bouncing ball get in gusty wind?

A ball thrown sideways from one metre loses a fifth of its vertical speed at each bounce,
y' → -0.8 y', while gusts push it along: x'' = -γ x' + σ ξ. Impacts are located within the
steps, so every bounce takes its energy at the right time. The picture shows six balls.
The height follows in closed form from the bounces alone, and the law of the distance from
the gusts alone.

Domain: mechanisms
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 10_000  # small: 300
END, G, E, γ, σ, SPEED, DROP = 2.5, 9.81, 0.8, 0.3, 0.4, 1.5, 1.0

ball = sd.Mechanical(
    lambda t, x, v: jnp.array([-γ * v[0], -G]),
    lambda t, x, v: jnp.array([[σ], [0.0]]),
    start=([0.0, DROP], [SPEED, 0.0]),
    names=("x", "y"),
)
floor = sd.Impact(sd.Level(0.0, of="y", direction="down"), sd.Restitution(E))
collect = [st.Moments(at=[END]), st.Paths(6, every=1)]
run = sd.simulate(
    sd.with_walls(ball, floor), "SRA1", t=(0, END), dt=0.01, paths=PATHS, seed=1,
    collect=collect,
)

# Closed forms: parabolas between the impacts, and the integral of an Ornstein-Uhlenbeck
# velocity
time, speed = np.sqrt(2 * DROP / G), E * np.sqrt(2 * G * DROP)
while time + 2 * speed / G < END:
    time, speed = time + 2 * speed / G, E * speed
height = speed * (END - time) - G * (END - time) ** 2 / 2
decay = np.exp(-γ * END)
distance = SPEED * (1 - decay) / γ
variance = σ**2 / γ**2 * (END - 2 * (1 - decay) / γ + (1 - decay**2) / (2 * γ))

_, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for path in run["path"].values:
    ax.plot(path[:, 0], path[:, 1], lw=1)
ax.axhline(0, color="k", lw=1)
ax.errorbar(
    distance, height, xerr=2 * np.sqrt(variance), fmt="ks", ms=4, lw=1, capsize=3,
    label="exact: mean ± 2σ at 2.5 s",
)
ax.set(xlabel="distance [m]", ylabel="height [m]")
ax.legend(frameon=False, fontsize="small")
sd.plot.save(ax, "bouncing_ball.png")
end = run.isel(time=-1)
x, y = end.sel(component="x"), end.sel(component="y")
print(f"bounces: {float(end['mean'].sel(component='impacts')):g}")
print(
    f"truth: height in m after {END} s is {height:.8f}, "
    f"ours {float(y['mean']):.8f} ± 1e-06"
)
for name, exact in (("mean", distance), ("variance", variance)):
    print(
        f"truth: {name} of the distance is {exact:.5f}, ours {float(x[name]):.5f} ± "
        f"{float(x[f'{name}_stderr']):.5f}"
    )
