"""Can a tolerance change the index of a circuit?

The Miller integrator is a differential-algebraic equation of index 2, but of index 3
where the gain of its amplifier is exactly a = 1 + C₁/C₂. If the tolerances of a, C₁ and
C₂ include such a point, no polynomial of the parameters can follow the solution. stodyn
searches for such points before a run, and refuses the run with the point it has found.
The picture shows where it searched for two gains; the square is the point of index 3.

Domain: tolerances
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn.models.miller_integrator import miller_integrator

C1, C2 = 1e-10, 5e-11

safe, crossing = (
    miller_integrator(2.0, C1, C2, tolerance=0.1),
    miller_integrator(3.1, C1, C2, tolerance=0.1),
)
print(f"a = 2.0 ± 10 %: {safe.domain_index.words}")
print(f"a = 3.1 ± 10 %: {crossing.domain_index.words}")
try:
    sd.simulate(crossing, "Galerkin", t=(0, 1e-6), dt=1e-8)
except ValueError as error:
    print(f"refused: {error}")

_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for circuit, color, label in (
    (safe, "C2", "a = 2.0 ± 10 %: simulated"),
    (crossing, "C1", "a = 3.1 ± 10 %: refused"),
):
    found = circuit.domain_index
    a, c1, c2 = found.places.T  # where stodyn looked
    ax.plot(c1 / c2, a, f"{color}o", ms=4, label=label)
    ax.plot(
        (c1 / c2)[found.indices == 3], a[found.indices == 3], "ks", ms=9, mfc="none",
        label=None,
    )
ratio = np.linspace(1.6, 2.5, 2)
ax.plot(ratio, 1 + ratio, "k--", lw=1, label="index 3: a = 1 + C₁/C₂")
ax.set(xlabel="C₁/C₂", ylabel="gain a of the amplifier", ylim=(1.7, 4.3))
ax.legend(frameon=False, fontsize="small", loc="upper left")
sd.plot.save(ax, "changing_index.png")
where = crossing.domain_index.where
print(
    f"truth: gain at the place found is {1 + where['C1'] / where['C2']:.9f}, ours "
    f"{where['a']:.9f} ± 1e-06"
)
