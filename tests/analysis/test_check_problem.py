"""Every kind of problem passes the suite of all problems; what is wrong with one is named."""

import dataclasses
import os

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.check import CheckFailed
from stodyn.analysis.check_problem import OF_RUNS, SUITE, check_problem
from stodyn.noise import coloured
from stodyn.noise.distribution import Uniform
from stodyn.problems.accounted import with_energy
from stodyn.problems.as_first_order import DriftingSDE
from stodyn.problems.contract import Around, Problem

GROUND = coloured.gauss_markov(1.0, 2.0)
RATE = {"rate": 0.7, "noise": np.array([0.3, 0.2])}
M, C, K = np.diag([2.0, 1.0]), np.array([[0.3, -0.1], [-0.1, 0.2]]), np.array([[3.0, -1.0], [-1.0, 2.0]])


def drift(t, x):
    return jnp.stack([x[1] - t, -jnp.sin(x[0]) - x[1]])


def matrix(t, x):
    return jnp.array([[0.2, 0.0], [0.0, 1.0]]) + jnp.outer(jnp.stack([x[1], x[0]]), jnp.array([0.3, 0.1]))


def sparse(t, x):
    return sd.sparse([0, 0, 1, 1], [0, 1, 0, 1], matrix(t, x).ravel(), (2, 2))


def force(t, x, v):
    return -x - 0.2 * v + jnp.cos(t)


def noise(t, x, v):
    return 0.3 + 0.1 * x


def pair(t, x, v):
    return jnp.stack([-x[0] + 0.5 * x[1], -2.0 * x[1] + x[0]]) - 0.1 * v


def kick(t, x, v):
    return jnp.array([[0.3], [0.2]])


RESTING = ([0.1, 0.2], [0.0, 0.3])
OSCILLATOR = sd.Mechanical(force, noise, (0.1, 0.2), units={"x": "m", "dx": "m/s", "time": "s"})
STRUCTURE = sd.Mechanical.from_matrices(M, C, K, noise=np.array([[0.1], [0.2]]), start=RESTING)
PLAIN = sd.SDE(drift, matrix, [0.1, 0.2], names=("a", "b"), units=("m", "s"))
KINDS = {
    "a number": sd.SDE(lambda t, x: -x, lambda t, x: 0.1 * x, 1.0),
    "an SDE": PLAIN,
    "Stratonovich": sd.SDE(drift, matrix, [0.1, 0.2], calculus="stratonovich"),
    "a diagonal": sd.SDE(drift, lambda t, x: sd.diagonal(0.1 * x), [1.0, 0.2]),
    "sparse noise": sd.SDE(drift, sparse, [0.1, 0.2]),
    "products": sd.SDE(drift, lambda t, x: sd.product(lambda w: matrix(t, x) @ w, 2), [0.1, 0.2]),
    "params": sd.SDE(lambda t, x, p: -p["rate"] * x, lambda t, x, p: sd.diagonal(p["noise"] * x), [1.0, 0.5], RATE),
    "linear": sd.linear([[-1.0, 0.5], [0.0, -2.0]], [[0.2], [0.3]], covariance=np.eye(2)),
    "a regular mass": sd.SDAE([[2.0, 1.0], [0.0, 1.0]], drift, matrix, [0.1, 0.2]),
    "an SDAE": sd.SDAE(np.diag([1.0, 0.0]), lambda t, x, p: jnp.stack([-p * x[0] + x[1], 2.0 * x[1] - x[0]]),
                       lambda t, x, p: jnp.stack([0.2 + 0.1 * x[0], 0.0])[:, None], [1.0, 0.5], 0.9),
    "Hamiltonian": sd.Hamiltonian(lambda t, q, p, k: (k * q**2 + p**2) / 2, lambda t, q, p, k: -0.1 * jnp.sin(q) * p,
                                  lambda t, q, p, k: -0.1 * p, start=(0.3, 0.2), params=1.3),
    "baths": sd.Hamiltonian(lambda t, q, p: q @ q / 2 + p @ p / 2, lambda t, q, p: -0.2 * q, start=RESTING),
    "kicked": sd.Hamiltonian(lambda t, q, p: p**2 / 2 - jnp.cos(q), noise=lambda t, q, p: 0.1 * p,
                             start=(0.3, 0.2), periodic=2 * np.pi),
    "Mechanical": OSCILLATOR,
    "quiet": sd.Mechanical(force, None, (0.1, 0.2)),
    "accelerations": sd.Mechanical(pair, kick, RESTING, mass=[[2.0, 0.5], [0.5, 1.0]], accelerations=True),
    "without inertia": sd.Mechanical(lambda t, x, v: jnp.stack([x[1] - x[0] - 0.1 * v[0], x[0] - 2 * x[1]]),
                                     lambda t, x, v: jnp.array([[0.3], [0.0]]), RESTING, mass=[1.0, 0.0]),
    "a mass of the state": sd.Mechanical(lambda t, x, v, k: -k * x, lambda t, x, v, k: 0.1, (0.1, 0.2),
                                         mass=lambda t, x, v, k: 1.0 + x**2, params=2.0),
    "a pendulum": sd.Mechanical(lambda t, x, v: jnp.array([0.0, -1.0]), lambda t, x, v: 0.1 * jnp.eye(2),
                                ([0.6, -0.8], [0.0, 0.0]), constraints=lambda t, x: x @ x - 1.0, impulses=True),
    "matrices": STRUCTURE,
    "modes": sd.Mechanical.from_matrices(M, C, K, noise=np.array([[0.1], [0.2]]), modes=1),
    "a gap": sd.with_elements(STRUCTURE, sd.elements.Gap(at=0, stiffness=3.0, gap=0.5)),
    "hysteretic": sd.with_elements(OSCILLATOR, sd.elements.BoucWen(at=0, stiffness=1.0, alpha=0.2)),
    "a driven SDE": sd.with_noise(PLAIN, GROUND, "a"),
    "a driven structure": sd.base_excited(STRUCTURE, GROUND),
    "driven by its state": sd.with_noise(OSCILLATOR, GROUND, lambda t, x, v: 0.5 + x),
    "a driven pendulum": sd.with_noise(
        sd.Mechanical(lambda t, x, v: jnp.array([0.0, -1.0]), None, ([0.6, -0.8], [0.0, 0.0]),
                      constraints=lambda t, x: x @ x - 1.0, impulses=True), GROUND, "x0"),
    "bodies": sd.bodies.mechanism(
        [sd.bodies.Body(name="arm", mass=1.0, inertia=(0.1, 0.2, 0.25), at=(0.3, 0.0, -0.5))],
        [sd.bodies.Spherical(None, "arm", at=(0.0, 0.0, 0.0))],
        [sd.bodies.Force("arm", at=(0.3, 0.0, -0.5), noise=(0.1, 0.0, 0.0))], gravity=(0.0, 0.0, -9.81)),
    "measured": sd.with_measurement(PLAIN, [[1.0, 1.0]], 0.1),
    "tangents": sd.problems.with_tangents(
        sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x, p: p["k"] * x, 1.0, params={"k": 0.9}), ["k"]),
    "a loop": sd.with_loop(sd.SDE(lambda t, x, p: p["u"] - x, lambda t, x: 0.3, 0.5, params={"u": 0.0}, names="x"),
                           sd.Sensor("y", of="x", every=0.5, noise=sd.per_sample(0.1)),
                           sd.Part("law", 0.5, lambda t, own, seen, p: (own, -seen["y"]), reads="y", writes="u")),
    "energies": with_energy(STRUCTURE),
    "walls": sd.with_walls(sd.SDE(lambda t, x, p: -p * x, lambda t, x, p: 0.1, 0.5, 1.5), {"x": (0.0, None)}),
    "a ball": sd.with_walls(sd.Mechanical(lambda t, x, v, g: -g, lambda t, x, v, g: 0.1, (0.1, -0.2), params=9.81),
                            sd.Impact(sd.Level(0.0, of="x", direction="down"), sd.Restitution(0.7))),
    "impacts": sd.with_walls(OSCILLATOR, sd.Walls({"x": (None, 1.0)}, kind="impact", restitution=0.5)),
    "random parameters": sd.RandomDAE(np.diag([1.0, 0.0]), matrix=lambda p: np.array([[-p["r"], 1.0], [1.0, -2.0]]),
                                      params={"r": Uniform(0.5, 1.5)}, start=[1.0, 0.5]),
}  # fmt: skip
MADE_INSIDE = {Around, DriftingSDE}


def kinds(of):
    return {of, *(deeper for kind in of.__subclasses__() for deeper in kinds(kind))}


def test_every_kind_is_listed():
    here = {kind for kind in kinds(Problem) if kind.__module__.startswith("stodyn.problems.")}
    listed = {kind for problem in KINDS.values() for kind in type(problem).__mro__}
    assert here - MADE_INSIDE <= listed


@pytest.mark.brief(*KINDS.keys() - {"Stratonovich", "sparse noise", "products", "baths", "kicked", "accelerations",
                                    "a mass of the state", "modes", "a gap", "driven by its state"})  # fmt: skip
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_passes(name):
    """Runs are asked of one problem of each class, with STODYN_FULL=1 of all."""
    problem = KINDS[name]
    first = next(other for other in KINDS.values() if type(other) is type(problem))
    runs = problem is first or "STODYN_FULL" in os.environ
    results = check_problem(problem, runs)
    assert [result.question for result in results] == [q for q in SUITE if runs or q not in OF_RUNS]


@dataclasses.dataclass(frozen=True, eq=False)
class Forgetful(sd.SDE):
    """Takes the noise of the first channel for that of all."""

    def noise_rows(self, t, x, params, components):
        return tuple(row[:1] for row in super().noise_rows(t, x, params, components))


def test_what_is_wrong_is_named():
    with pytest.raises(CheckFailed, match="rows: the square of a row of the noise differs by"):
        check_problem(Forgetful(drift, matrix, [0.1, 0.2]), runs=False)
    with pytest.raises(CheckFailed, match="structure: it is said to be commutative"):
        check_problem(sd.SDE(drift, matrix, [0.1, 0.2], structure="commutative"), runs=False)
    with pytest.raises(TypeError, match="expected a problem"):
        check_problem("an SDE")
