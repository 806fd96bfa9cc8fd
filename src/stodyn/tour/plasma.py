"""Particles in a plasma wave with collisions, by a variational integrator."""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.results import run_in_words
from stodyn.tour.contract import Answer, Findings, Stop


def visit(paths: int, seed: int) -> Findings:
    plasma = LENARD_BERNSTEIN(nu=1.0)  # a bump on the tail of a Maxwellian, frequent collisions

    def energy(t, x, p):
        return 0.5 * x[1] ** 2 + p["E0"] / (4 * jnp.pi) * jnp.sin(4 * jnp.pi * x[0])

    collect = [st.Observable(energy, name="energy", every=10), st.Histogram(np.linspace(-4, 4, 61), at=[8.0])]
    run = sd.simulate(plasma.problem, "ConformalVerlet", t=(0, 8), dt=0.02, paths=paths, seed=seed, collect=collect)

    ours, stderr = (float(run[name][-1]) for name in ("energy", "energy_stderr"))
    answer = Answer("mean energy of a particle", ours, stderr, plasma.exact["ergodic_energy"]())
    picture = sd.plot.histogram(run, "v", exact=plasma.exact["velocity_density"])
    return Findings([answer], picture, run_in_words(sd.provenance(run)))


PLASMA = Stop("plasma", "How much energy do collisions leave the particles of a plasma wave?",
              "Gibbs' distribution", visit, 3)  # fmt: skip
