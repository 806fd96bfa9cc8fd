"""A circuit with tolerances and noise: how much of its scatter comes from each."""

import numpy as np

import stodyn as sd
from stodyn.analysis.system.tolerance import split_variance
from stodyn.circuits.devices import BOLTZMANN
from stodyn.tour.contract import Findings, Stop, rms

NETLIST = """A small capacitor charged through a resistor with a tolerance of 10 %
V1 in 0 0.05
R1 in out {unif(10k, 0.1)}
C1 out 0 1f
.ic v(out)=0
.tran 0.2p 20p
"""


def visit(paths: int, seed: int) -> Findings:
    circuit = sd.circuits.read(NETLIST)
    batches = max(paths // 10 // 32, 2) * 32
    split = split_variance(circuit, t=circuit.span, dt=circuit.step, paths=batches, seed=seed, every=10)

    end = split.isel(time=-1).sel(component="out")
    u, weights = np.polynomial.legendre.leggauss(20)  # the truth: v = V (1 - exp(-t/RC)), R uniform
    R, weights, t, C = 1e4 * (1 + 0.1 * u), weights / 2, circuit.span[1], 1e-15
    v = 0.05 * -np.expm1(-t / (R * C))
    tolerance = weights @ v**2 - (weights @ v) ** 2
    noise = BOLTZMANN * 300.15 / C * (weights @ -np.expm1(-2 * t / (R * C)))
    answers = [
        rms(f"rms of the output by {word}, in mV", end[f"variance_{name}"], end[f"variance_{name}_stderr"], truth, 1e3)
        for word, name, truth in (("tolerance", "parameters", tolerance), ("noise", "noise", noise))
    ]
    return Findings(answers, sd.plot.shares(split, "out"), f"{batches:,} paths at each of 3 values of the resistor")


TOLERANCES = Stop("tolerances", "How much of a circuit's scatter comes from tolerances, and how much from noise?",
                  "v = V (1 - exp(-t/RC)) and kT/C, integrated over R", visit, 5)  # fmt: skip
