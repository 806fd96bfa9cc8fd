"""Output noise of a transimpedance amplifier: 100 kΩ and .5 pF around an amplifier with a pole, behind a photodiode."""

import numpy as np

import stodyn as sd

NETLIST = """transimpedance amplifier
IPD 0 sum 0
CD sum 0 2p
RF out sum 100k
CF out sum 0.5p
EOP pole 0 0 sum 1e4
RP pole out 1k
CP out 0 10p
.tran 5n 2u
.noise v(out) IPD dec 20 1k 1g
"""

circuit = sd.circuits.read(NETLIST)
frequency = np.geomspace(1e2, 1e11, 2001)
theory = circuit.noise_spectrum("out", frequency)
for name, part in theory.parts.items():
    print(f"{name}: {1e6 * np.trapezoid(part, frequency) ** 0.5:.1f} µV")
rms = np.trapezoid(theory.density, frequency) ** 0.5
run = sd.simulate(circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=300, seed=1)
end = run.sel(component="out").isel(time=-1)
low, high = (float(side.sel(component="out")[-1]) ** 0.5 for side in sd.interval(run, "variance").data_vars.values())
print(f"by formula {1e6 * rms:.1f} µV, by paths {1e6 * float(end['std']):.1f} µV ({1e6 * low:.1f} to {1e6 * high:.1f})")
