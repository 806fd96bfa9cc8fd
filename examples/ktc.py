"""kT/C: why a capacitor's noise does not depend on the resistor

The thermal noise of a resistor charges a capacitor until the mean energy of its voltage
is kT/2: the variance is kT/C, whatever the resistor. A larger resistor makes more noise
in a narrower band. The netlist is read once for each resistor; the picture shows the rms
voltage after the switch closes at time 0, and √(kT/C (1 - exp(-2t/RC))).

Domain: circuits
"""

import matplotlib.pyplot as plt
import numpy as np

import stodyn as sd

PATHS = 20_000  # small: 500
RESISTORS = [3e3, 10e3, 30e3]  # small: [10e3]
C, kT = 1e-12, 1.380649e-23 * 300.15
NETLIST = """A capacitor of 1 pF behind a resistor, at 27 degrees Celsius
V1 in 0 0
R1 in out {resistor}
C1 out 0 1p
.ic v(out)=0
.tran 0.5n 100n uic
"""

_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k, R in enumerate(RESISTORS):
    circuit = sd.circuits.read(NETLIST.format(resistor=R))
    run = sd.simulate(
        circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=PATHS, seed=1
    )
    variance, stderr = (
        run[name].sel(component="out").values for name in ("variance", "variance_stderr")
    )
    t = run["time"].values
    fine = np.linspace(0, t[-1], 1001)
    exact = kT / C * -np.expm1(-2 * fine / (R * C))
    ax.plot(
        1e9 * t[::4], 1e6 * np.sqrt(variance[::4]), f"C{k}o", ms=3,
        label=f"{R / 1e3:.0f} kΩ, {PATHS:,} paths",
    )
    ax.plot(1e9 * fine, 1e6 * np.sqrt(exact), f"C{k}", lw=1)
    ours, error = (
        1e6 * np.sqrt(variance[-1]), 1e6 * stderr[-1] / (2 * np.sqrt(variance[-1])),
    )
    truth = 1e6 * np.sqrt(exact[-1])
    print(
        f"truth: rms voltage in µV after 100 ns behind {R / 1e3:.0f} kΩ is {truth:.3f}, "
        f"ours {ours:.3f} ± {error:.3f}"
    )
ax.axhline(1e6 * np.sqrt(kT / C), color="k", ls="--", lw=1, label="√(kT/C)")
ax.set(xlabel="time [ns]", ylabel="rms voltage [µV]", ylim=(0, 70))
ax.legend(frameon=False, loc="lower right")
sd.plot.save(ax, "ktc.png")
