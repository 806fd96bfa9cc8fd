"""A building in an earthquake, by the stochastic α method."""

import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.noise import coloured
from stodyn.results import run_in_words
from stodyn.tour.contract import Findings, Stop, rms


def visit(paths: int, seed: int) -> Findings:
    masses = 1e5 * np.array([1.0, 1.0, 0.8])  # kg, of three floors
    k = 1e7 * np.array([8.0, 6.5, 5.0])  # N/m, of three storeys
    stiffness = np.diag(k + np.append(k[1:], 0.0)) - np.diag(k[1:], 1) - np.diag(k[1:], -1)
    units = {"x0": "m", "x1": "m", "x2": "m", "time": "s"}
    frame = sd.Mechanical.from_matrices(masses, None, stiffness, damping=("modal", 0.05), units=units)
    ground = coloured.kanai_tajimi(omega=15.6, zeta=0.6, sigma=1.0)  # rad/s; m/s²
    shaken = sd.base_excited(frame, ground)

    collect = [st.Moments(every=10), st.Paths(3, every=1)]
    run = sd.simulate(shaken, "StochasticAlpha", t=(0, 15), dt=0.02, paths=paths, seed=seed, collect=collect)

    end = run.isel(time=-1).sel(component="x2")
    exact = sd.structures.stationary_covariance(shaken)[2, 2]
    answer = rms("rms displacement of the top floor in mm", end["variance"], end["variance_stderr"], exact, 1e3)
    return Findings([answer], sd.plot.band(run, "x2"), run_in_words(sd.provenance(run)))


BUILDING = Stop("building", "How far does the top of a three-storey building sway in an earthquake?",
                "Lyapunov's equation for the frame and the ground together", visit, 1)  # fmt: skip
