"""How noisy is a transistor amplifier?

A common-source stage with a MOS transistor is read from its netlist. Its noise is the
thermal noise of the source and load resistors and of the channel. Noise of microvolts
moves the stage linearly, so the density of `.noise`, integrated over all frequencies, is
the variance of the output. The picture shows that density with its parts, and the
spectrum of simulated waveforms, into which everything beyond half the sampling rate is
folded.

Domain: circuits
"""

import numpy as np

import stodyn as sd
from stodyn import statistics as st

PATHS = 800  # small: 24
NETLIST = """A common-source stage
VDD dd 0 5
VG in 0 1.6
RS in g 10k
CG g 0 0.2p
RD dd out 20k
CL out 0 1p
M1 out g 0 0 stage W=10u L=1u
.model stage NMOS (KP=50u VTO=1 NLEV=3)
.tran 1n 2u
.noise v(out) VG dec 20 10k 10g
"""
circuit = sd.circuits.read(NETLIST)
theory = circuit.noise_spectrum()

collect = [
    st.Moments(at=[0.5e-6, 1e-6, 1.5e-6, 2e-6]),
    st.Spectrum(segment=512, paths=PATHS, after=0.3e-6),
]
run = sd.simulate(
    circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=PATHS, seed=1,
    collect=collect,
)

# one-sided, as circuit designers read it
density = 2 * run["spectrum"].sel(component="out")
ax = sd.plot.noise_density(
    (density["frequency"].values[1:], density.values[1:]),
    (theory.frequency, theory.density), unit="V",
)
for name, part in theory.parts.items():
    if part.max() > 1e-3 * theory.density.max():
        ax.loglog(theory.frequency, np.sqrt(part), ":", lw=1.2, label=f"from {name}")
ax.set(xlim=(1e5, 5e8), ylim=(1e-10, None))
ax.legend(frameon=False, fontsize="small")
sd.plot.save(ax, "amplifier_noise.png")

frequency = np.geomspace(1e3, 1e11, 4001)
exact = np.trapezoid(circuit.noise_spectrum("out", frequency).density, frequency)
# over four times so far apart that they are independent
ours = run["variance"].sel(component="out").values.mean()
error = run["variance_stderr"].sel(component="out").values.mean() / 2
print(
    f"truth: output variance in µV² is {1e12 * exact:.1f}, ours {1e12 * ours:.1f} ± "
    f"{1e12 * error:.1f}"
)
