"""Sample and hold: what noise stays on the capacitor?

A transistor connects an input of 1 V to a capacitor of 1 pF for 300 ns, then lets go.
While it conducts, the thermal noise of its channel shakes the capacitor with the variance
kT/C; when it opens, the value at that moment stays. The sample has an rms error of
√(kT/C), whatever the transistor: only a larger capacitor helps. The picture shows a few
paths around their mean, and the rms over time.

Domain: circuits
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 2000  # small: 100
NETLIST = """Sample and hold
VIN in 0 1
VCLK clk 0 PULSE(5 0 300n 50p 50p 300n 600n)
M1 in clk hold 0 switch
CH hold 0 1p
.model switch NMOS (KP=20u VTO=1 NLEV=3)
.tran 2n 500n
"""
circuit = sd.circuits.read(NETLIST)
collect = [st.Moments(at=circuit.times[::2]), st.Paths(5, at=circuit.times)]
steps = circuit.time_steps()  # they meet every edge of the clock
run = sd.simulate(
    circuit, "Trapezoidal", t=circuit.span, dt=steps, paths=PATHS, seed=1, collect=collect
)

one = run.sel(component="hold")
exact = 1e6 * np.sqrt(1.380649e-23 * 300.15 / 1e-12)
rms = 1e6 * np.sqrt(one["variance"].values)
_, (upper, lower) = plt.subplots(
    2, 1, figsize=(6, 4.8), layout="constrained", sharex=True
)
mean = np.interp(one["time_paths"], one["time"], one["mean"])
upper.plot(1e9 * one["time_paths"], 1e6 * (one["path"].values - mean).T, lw=0.8)
upper.set_ylabel("paths less their mean [µV]")
lower.plot(1e9 * one["time"], rms, "C0", label=f"{PATHS:,} paths")
lower.axhline(exact, color="k", ls="--", lw=1, label="√(kT/C)")
lower.set(xlabel="time [ns]", ylabel="rms [µV]", ylim=(0, None))
lower.legend(frameon=False, loc="lower right")
for ax in (upper, lower):
    ax.axvline(300, color="0.6", lw=1, ls=":")
sd.plot.save(upper, "sample_and_hold.png")
error = 1e12 * float(one["variance_stderr"][-1]) / (2 * rms[-1])
print(
    f"truth: rms of the held voltage in µV is {exact:.3f}, "
    f"ours {rms[-1]:.3f} ± {error:.3f}"
)
