"""Jitter of a ring oscillator: paths and the theory of phase noise

Three NMOS inverters in a ring; thermal noise of their loads and channels makes the
periods uneven. The ends of periods wander: the variance of the k-th grows as c T k, and
`sd.analysis.phase_noise` computes it from one noiseless cycle. The picture compares it
with simulated edges, which the netlist's own .measure lines find on every path.

Domain: circuits
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 400  # small: 40
PERIODS = 10  # small: 3
NETLIST = """Ring of three NMOS inverters
VDD dd 0 5
R1 dd u1 5k
R2 dd u2 5k
R3 dd u3 5k
M1 u1 u3 0 0 inverter
M2 u2 u1 0 0 inverter
M3 u3 u2 0 0 inverter
C1 u1 0 0.2p
C2 u2 0 0.2p
C3 u3 0 0.2p
.model inverter NMOS (KP=0.4m VTO=1 NLEV=3)
.ic v(u1)=1.5 v(u2)=2.5 v(u3)=3
.tran 20p {end}n uic
"""
edges = range(3, PERIODS + 4)  # the first two while the oscillation settles
measures = "".join(f".measure tran edge{k} when v(u1)=2 rise={k}\n" for k in edges)
circuit = sd.circuits.read(NETLIST.format(end=3.6 * (PERIODS + 4)) + measures)

found = sd.analysis.phase_noise(circuit, "u1", level=2.0)
run = sd.simulate(
    circuit, t=circuit.span, dt=circuit.step, paths=PATHS, seed=1,
    collect=st.Paths(PATHS, every=1),
)
measured = circuit.measured("tran", run)
ends = np.stack([measured[f"edge{k}"] for k in edges], axis=1)

k = np.arange(1, PERIODS + 1)
sampled = 1e24 * np.var(ends[:, 1:] - ends[:, :1], axis=0, ddof=1)
exact = 1e24 * found["accumulated"].sel(periods=k).values
errors = sampled * np.sqrt(2 / PATHS)
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(k, exact, "k", lw=1, label="phase noise of the cycle")
ax.errorbar(
    k, sampled, 2 * errors, fmt="C0o", ms=4, label=f"{PATHS} paths, ± 2 standard errors"
)
ax.set(xlabel="period k", ylabel="variance of its end [ps²]", ylim=(0, None))
ax.legend(frameon=False, loc="upper left")
sd.plot.save(ax, "ring_oscillator.png")
print(
    f"period {1e9 * float(found['period']):.4f} ns, jitter of one period "
    f"{1e15 * float(found['period_jitter']):.1f} fs"
)
print(
    f"truth: variance after {PERIODS} periods in ps² is {exact[-1]:.5f}, ours "
    f"{sampled[-1]:.5f} ± {errors[-1]:.5f}"
)
