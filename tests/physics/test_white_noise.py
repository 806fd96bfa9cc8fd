"""Runs of the classical integrators: the variances that their steps deliver exactly, and the equation they solve."""

from fractions import Fraction as Q

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import stodyn as sd
from stodyn.analysis.covariance import delivered
from stodyn.engine.ensemble import Ensemble
from stodyn.engine.grid import step_times
from stodyn.engine.place import Threads
from stodyn.engine.progress import Progress
from stodyn.methods import classical as c
from stodyn.methods.multistep import AB2, AB3, AB4, AM4
from stodyn.problems.linear import linear
from stodyn.results import dataset

RUNS = 40_000
EXAMPLE = linear(-2.0, 1.0, 0.01)  # Riggs' (89)
METHODS = [
    c.Kasdin4, c.RK2(noise="fresh"), c.RK2, c.RK3(noise="fresh"), c.RK4(noise="fresh"), c.RK4, c.Gill(noise="fresh"),
    c.RK56Butcher(noise="fresh"), c.Euler, AB2(placement="history", starter="adams"),
    AB3(placement="history", starter="adams"), AB4(placement="history", starter="adams"), AB4, AM4, AM4(noise="held"),
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.spelling)
def test_variance_of_the_runs_is_that_of_the_step(method):
    h = 0.05
    run = sd.simulate(EXAMPLE, method, t=(0, 1), dt=h, paths=RUNS, seed=89, collect=sd.statistics.Moments(every=5))
    exact = delivered(method, EXAMPLE, h, 20).covariance[::5, 0, 0]
    # Five standard errors at four times: a false alarm in less than one of 100 000 methods, none with this seed.
    assert (abs(run["variance"].values[:, 0] - exact) <= 5 * run["variance_stderr"].values[:, 0] + 1e-18).all()


# Geometric Brownian motion, a rotation, and two channels that do not commute, side by side.
M = np.array([[[0, 1], [0, 0.3]], [[0.2, 0], [-0.8, 0]]])
PAIR = np.einsum("ka,kij->aij", np.linalg.cholesky([[0.5, 0.2], [0.2, 0.4]]), M)
TURN = 0.5 * np.array([[0.0, -1.0], [1.0, 0.0]])
NOISE = np.zeros((4, 5, 5))
NOISE[0, 0, 0] = 0.6
NOISE[1, 1:3, 1:3] = TURN
NOISE[2:, 3:, 3:] = PAIR
START = np.array([1.0, 1.0, 0.0, 1.0, 0.5])
SYSTEM = np.zeros((5, 5))
SYSTEM[0, 0] = -0.3


def problem(calculus):
    return sd.SDE(lambda t, x: SYSTEM @ x, lambda t, x: jnp.einsum("aij,j->ia", NOISE, x), START, calculus=calculus)


SCHEMES = [
    (c.RK4(noise="fresh"), Q(0)), (c.RK4, Q(1, 2)), (AB4(placement="history", starter="adams"), Q(0)),
    (AM4(mode="PEC"), Q(0)), (AM4, Q(0)), (AM4(noise="held"), Q(15, 64)), (AM4(noise="held", corrections=2), Q(3, 8)),
    (c.RK4(noise=Q(1, 2)), Q(9, 23)),
]  # fmt: skip


@pytest.mark.parametrize(("method", "kappa"), SCHEMES, ids=lambda x: getattr(x, "spelling", ""))
def test_the_equation_that_is_solved(method, kappa):
    assert method.kappa == kappa
    # The engine underneath `simulate`, which would convert the drift or refuse: here it is taken as it stands.
    stated = problem(method.calculus or "ito")
    moments = (sd.statistics.Moments(at=[1.0]),)
    ensemble = Ensemble(stated, method, *step_times((0, 1), 0.02), RUNS, 28, moments, np.dtype(float), "auto", None)
    merged, _ = ensemble.run(Threads(), Progress(0, False), "raise")
    found = dataset(ensemble.label(merged), {}, {})
    mean, stderr = found["mean"].values[0], found["mean_stderr"].values[0]
    drift = SYSTEM + float(kappa) * np.einsum("aij,ajk->ik", NOISE, NOISE)
    # Five standard errors, and the error of order h = 0.02 of a weak first-order scheme.
    assert (abs(mean - scipy.linalg.expm(drift) @ START) <= 5 * stderr + 0.004).all()
    # The other equations are told from this one.
    for other in {0.0, 0.5} - {float(kappa)}:
        away = scipy.linalg.expm(SYSTEM + other * np.einsum("aij,ajk->ik", NOISE, NOISE)) @ START
        assert (abs(mean - away) > 5 * stderr + 0.004).any()
