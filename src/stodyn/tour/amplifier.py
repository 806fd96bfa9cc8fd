"""A photodiode amplifier from its netlist, with the thermal and shot noise of its elements."""

import stodyn as sd
from stodyn import statistics as st
from stodyn.circuits.devices import BOLTZMANN
from stodyn.studies.circuit_noise import transimpedance
from stodyn.tour.contract import Answer, Stop, Told, counted


def visit(paths: int, seed: int) -> Told:
    circuit = sd.circuits.read(sd.circuits.examples()["transimpedance"])
    collect = [st.Moments(every=20), st.Paths(4)]
    run = sd.simulate(circuit, t=circuit.span, dt=circuit.step, paths=paths, seed=seed, collect=collect)

    end = run.isel(time=-1).sel(component="out")
    exact = transimpedance(BOLTZMANN * 300.15) ** 0.5
    ours = float(end["variance"]) ** 0.5
    answer = Answer("rms noise of the output in µV", 1e6 * ours,
                    1e6 * float(end["variance_stderr"]) / (2 * ours), 1e6 * exact)  # fmt: skip
    return Told([answer], sd.plot.band(run, "out"), counted(sd.provenance(run)))


AMPLIFIER = Stop("amplifier", "How much noise stands on the output of a photodiode amplifier?",
                 "the closed form (2kT/R + qI)/(2bc) of its transfer function", visit, 4)  # fmt: skip
