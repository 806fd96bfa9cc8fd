"""How long does a genetic switch keep its state?

Two genes repress each other, du = (a/(1 + v²) - u) dt + σ dW₁ and the same with u and v
exchanged: one of them is on, the other off, until noise switches them. Paths start in one
state and stop when u = v. The mean time is compared with the solution T of the backward
Kolmogorov equation f·∇T + σ²/2 ΔT = -1, T = 0 where u = v, on a grid. The picture shows
one path that switches, and the share of paths that have not switched yet.

Domain: life and finance
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import stodyn as sd
from stodyn import statistics as st

PATHS = 10_000  # small: 500
CELLS = 240  # small: 120
A, SIGMA, END = 3.0, 0.45, 300.0


def drift(t, x):
    u, v = x
    return jnp.array([A / (1 + v**2) - u, A / (1 + u**2) - v])


on = (A + np.sqrt(A**2 - 4)) / 2  # u + 1/u = A, v = 1/u: the stable state
toggle = sd.SDE(
    drift, lambda t, x: SIGMA * jnp.eye(2), start=[on, 1 / on], names=("u", "v")
)
switched = sd.Stop(sd.Level(0.0, of=lambda t, x: x[1] - x[0]))
run = sd.simulate(toggle, "SRA1", t=(0, END), dt=0.02, paths=PATHS, seed=1, stop=switched)
times = np.sort(np.nan_to_num(run["stop_time"].values, nan=END))
mean, error = times.mean(), times.std() / np.sqrt(PATHS)

# T over difference d = u - v > 0 and sum s = u + v, each with noise √2 σ; cells reflect
# at the far edges
d, s = (np.arange(CELLS) + 0.5) * 6 / CELLS, -1.0 + (np.arange(CELLS) + 0.5) * 8 / CELLS
D, S = np.meshgrid(d, s, indexing="ij")
f, g = A / (1 + ((S - D) / 2) ** 2), A / (1 + ((S + D) / 2) ** 2)
neighbours = [sp.diags_array(np.ones(CELLS - 1), offsets=k) for k in (1, -1)]
equations = sp.csr_array((CELLS**2, CELLS**2))
for axis, push, h in ((0, f - g - D, 6 / CELLS), (1, f + g - S, 8 / CELLS)):
    for sign, shift in zip((1, -1), neighbours, strict=True):
        rate = sp.diags_array((SIGMA**2 / h**2 + sign * push / (2 * h)).ravel())
        step = (
            sp.kron(shift, sp.eye_array(CELLS))
            if axis == 0
            else sp.kron(sp.eye_array(CELLS), shift)
        )
        inside = sp.diags_array(step.sum(axis=1))
        equations += rate @ (step - inside)
edge = np.zeros((CELLS, CELLS))  # T = 0 at d = 0, half a cell beyond the first
edge[0] = 2 * (SIGMA * CELLS / 6) ** 2 - (f - g - D)[0] * CELLS / 6
T = spsolve(
    (equations - sp.diags_array(edge.ravel())).tocsc(), -np.ones(CELLS**2)
).reshape(CELLS, CELLS)
exact = np.interp(on + 1 / on, s, [np.interp(on - 1 / on, d, row) for row in T.T])

one = sd.simulate(
    toggle, "SRA1", t=(0, 60), dt=0.02, paths=1, seed=5, collect=st.Paths(1, every=5)
)
_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for name in ("u", "v"):
    left.plot(one["time"], one["path"].sel(component=name)[0], lw=0.8, label=name)
left.set(xlabel="time", ylabel="concentration")
left.legend(frameon=False, ncols=2)
right.semilogy(times, 1 - (np.arange(PATHS) + 0.5) / PATHS, label=f"{PATHS:,} paths")
right.semilogy(
    times, np.exp(-times / exact), "k--", lw=0.8, label="exp(-t/E τ), E τ from the grid"
)
right.set(xlabel="time", ylabel="share not yet switched", ylim=(0.5 / PATHS, 1.5))
right.legend(frameon=False, fontsize="small")
sd.plot.save(left, "gene_toggle.png")
print(f"truth: mean time to switch is {exact:.3f}, ours {mean:.3f} ± {error:.3f}")
