"""Tolerance or noise: what makes the output of a circuit scatter?

A tiny capacitor is charged to 0.2 V through a resistor with a tolerance of 10 %. Early
on, the output varies from part to part, because some charge faster than others; later,
only thermal noise is left, with the variance kT/C. `split_variance` separates the two
from one set of runs, all on the same noise. The dashed lines are exact: v = V (1 -
exp(-t/RC)) and its noise kT/C (1 - exp(-2t/RC)), integrated over R.

Domain: tolerances
"""

import numpy as np

import stodyn as sd
from stodyn.analysis.tolerance import split_variance

PATHS = 6400  # small: 320
NETLIST = """A small capacitor charged through a resistor with a tolerance
V1 in 0 0.2
R1 in out {unif(10k, 0.1)}
C1 out 0 1f
.ic v(out)=0
.tran 0.2p 60p
"""
circuit = sd.circuits.read(NETLIST)
split = split_variance(
    circuit, t=circuit.span, dt=circuit.step, paths=PATHS, seed=1, every=10
)
split = split.assign_coords(time=1e12 * split["time"])

points, weights = np.polynomial.legendre.leggauss(20)
R, C, kT, weights = 1e4 * (1 + 0.1 * points), 1e-15, 1.380649e-23 * 300.15, weights / 2


def exact(t):
    """The variances of the output from the tolerance and from noise, in mV²."""
    v = 0.2 * -np.expm1(-t / (R * C))
    return 1e6 * (weights @ v**2 - (weights @ v) ** 2), 1e6 * kT / C * (
        weights @ -np.expm1(-2 * t / (R * C))
    )


times = split["time"].values
tolerance, noise = np.array([exact(1e-12 * t) for t in times]).T
ax = sd.plot.shares(1e6 * split, "out")
ax.plot(times, tolerance, "k--", lw=1)
ax.plot(times, tolerance + noise, "k--", lw=1, label="exact")
ax.set(xlabel="time [ps]", ylabel="variance of the output [mV²]", title="")
ax.legend(frameon=False, fontsize="small", loc="upper right")
sd.plot.save(ax, "tolerance_or_noise.png")
for name, truth in (("parameters", tolerance), ("noise", noise)):
    for k in (len(times) // 6, len(times) - 1):
        one = split.isel(time=k).sel(component="out")
        ours, error = (
            1e6 * float(one[f"variance_{name}{end}"]) for end in ("", "_stderr")
        )
        print(
            f"truth: variance from {name} after {times[k]:.0f} ps in mV² is "
            f"{truth[k]:.4f}, "
            f"ours {ours:.4f} ± {error:.4f}"
        )
