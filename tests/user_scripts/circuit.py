"""kT/C noise of a capacitor from its netlist."""

import stodyn as sd

NETLIST = """kT/C
V1 in 0 0
R1 in out 1k
C1 out 0 1n
.tran 100n 5u
"""

circuit = sd.circuits.read(NETLIST)
run = sd.simulate(circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=200, seed=1)
deviation = float(run["variance"].isel(time=-1).sel(component="out")) ** 0.5
print(f"{1e6 * deviation:.2f} µV, sqrt(kT/C) is {1e6 * (1.380649e-23 * 300.15 / 1e-9) ** 0.5:.2f} µV")
