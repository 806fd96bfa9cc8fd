"""An airliner in gusts: a classical Runge-Kutta method with the noise that belongs to it."""

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.gust_response import GUST_RESPONSE
from stodyn.results import run_in_words
from stodyn.tour.contract import Findings, Stop, rms


def visit(paths: int, seed: int) -> Findings:
    airliner = GUST_RESPONSE.problem  # speed, heave, pitch in Dryden gusts, from its stationary law
    collect = [st.Moments(every=20), st.Paths(3, every=1)]
    run = sd.simulate(airliner, "RK4", t=(0, 30), dt=0.05, paths=paths, seed=seed, collect=collect)

    end = run.isel(time=-1).sel(component="w")
    exact = GUST_RESPONSE.exact["stationary_covariance"]()[1, 1]
    answer = rms("rms heave in ft/s", end["variance"], end["variance_stderr"], exact)
    return Findings([answer], sd.plot.band(run, "w"), run_in_words(sd.provenance(run)))


WING = Stop("wing", "How fast does an airliner heave in turbulent air?",
            "the stationary covariance of airliner and gusts", visit, 2)  # fmt: skip
