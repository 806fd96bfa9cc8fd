"""A photodiode amplifier from its netlist, with the thermal and shot noise of its elements."""

import stodyn as sd
from stodyn import statistics as st
from stodyn.circuits.devices import BOLTZMANN
from stodyn.results import run_in_words
from stodyn.studies.circuit_noise import transimpedance
from stodyn.tour.contract import Findings, Stop, rms


def visit(paths: int, seed: int) -> Findings:
    circuit = sd.circuits.read(sd.circuits.examples()["transimpedance"])
    collect = [st.Moments(every=20), st.Paths(4)]
    run = sd.simulate(circuit, t=circuit.span, dt=circuit.step, paths=paths, seed=seed, collect=collect)

    end = run.isel(time=-1).sel(component="out")
    exact = transimpedance(BOLTZMANN * 300.15)
    answer = rms("rms noise of the output in µV", end["variance"], end["variance_stderr"], exact, 1e6)
    return Findings([answer], sd.plot.band(run, "out"), run_in_words(sd.provenance(run)))


AMPLIFIER = Stop("amplifier", "How much noise is there at the output of a photodiode amplifier?",
                 "the closed form (2kT/R + qI)/(2bc) of its transfer function", visit, 4)  # fmt: skip
