"""The orders of passages, stops and walls, by analysis.order with its intervals of 99 %, at fixed seeds.

The process is x' = -x + √2 ξ from 0 with the level 1, or with a wall; exact values are those of Kolmogorov's equation.
"""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.analysis.order import weak_order
from stodyn.methods import stopping
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.methods.wrapping import Wrapping
from stodyn.numerics import crossing

LEVEL, ROOT2 = 1.0, np.sqrt(2.0)
BESIDE = sd.SDE(lambda t, x: jnp.array([-x[0], 0.0]), lambda t, x: jnp.array([[ROOT2], [0.0]]), [0.0, 1.0])
CLOCKED = sd.SDE(lambda t, x: jnp.array([-x[0], 1.0]), lambda t, x: jnp.array([[ROOT2], [0.0]]), [0.0, 0.0])
REFLECTED = sd.SDE(lambda t, x: -(x + 0.5), lambda t, x: 1.0, 0.5)


@functools.cache
def exact():
    """P(τ > 1) and E min(τ, 1): u_t = u_xx - x u_x by Chebyshev's points on [-7, 1], u = 0 at the level."""
    n = 60
    k = np.arange(n + 1)
    y = np.cos(np.pi * k / n)
    c = np.where((k == 0) | (k == n), 2.0, 1.0) * (-1.0) ** k
    apart = y[:, None] - y + np.eye(n + 1)
    D = np.outer(c, 1 / c) / apart
    D = (D - np.diag(D.sum(axis=1))) / 4.0
    x = 4.0 * y - 3.0
    A = (D @ D - x[:, None] * D)[1:, 1:]
    A[-1] = 0.0  # far below the level, nothing is lost
    both = np.block([[A, np.zeros_like(A)], [np.eye(n), np.zeros_like(A)]])
    u = scipy.linalg.expm(both) @ np.concatenate([np.ones(n), np.zeros(n)])
    at_start = [scipy.interpolate.BarycentricInterpolator(x, np.append(0.0, part))(0.0) for part in np.split(u, 2)]
    return tuple(map(float, at_start))


@dataclasses.dataclass(frozen=True)
class Weighed(Wrapping, Method):
    """A method whose second component is the survival that Passage gives to a path."""

    bridge: bool = True
    accepts = sd.SDE

    @property
    def needs(self):
        return self.method.needs

    def step(self, problem, t, state, noise, params):
        after, report = self.method.step(problem, t, state, noise, params)
        ends = sd.Level(LEVEL).on(BESIDE).in_deviations(t, noise.h, state, after, params, False)
        reached = crossing.bridge_chance(*ends)[0] if self.bridge else jnp.where(ends[1][0] <= 0, 1.0, 0.0)
        return after.at[1].set(state[1] * (1.0 - reached)), report


@dataclasses.dataclass(frozen=True)
class Shown(Wrapping, Method):
    """A method that stops paths, of which it shows the components of the problem."""

    accepts = sd.SDE

    def __getattr__(self, name):
        return getattr(self.method, name)

    def start(self, *given):
        return self.method.start(*given)

    def step(self, *given):
        return self.method.step(*given)

    def read(self, state):
        return self.method.read(state)[:2]

    @property
    def needs(self):
        return self.method.needs


def known(*means):
    """A "solution" with the expectation of the true one."""
    return lambda T, W: np.tile(means, (len(W), 1))


def test_the_equation_gives_the_known_value():
    assert 1.0 - exact()[0] == pytest.approx(0.45338300386, abs=1e-9)


def holds(found, order):
    return found.attrs["order_low"] < order < found.attrs["order_high"]


def test_survival_on_the_grid_alone():
    """Order ½ without the bridge, on the paths of finer steps with it. (With it: tests/statistics/test_passage.py.)"""
    weighed, reference = Weighed(catalogue()["SRA1"], bridge=False), Weighed(catalogue()["SRA1"])
    found = weak_order(
        BESIDE, weighed, steps=(8, 16, 32), paths=10_000, seed=3, function=lambda x: x[1], reference=reference
    )
    assert holds(found, 0.5) and found.attrs["order_high"] < 0.8


def test_mean_stopping_times_converge_with_order_one():
    """E min(τ, 1), by the clock of a path that is stopped."""
    stop = stopping.stopping(catalogue()["EulerMaruyama"], CLOCKED, sd.Stop(sd.Level(LEVEL)), 0.0)
    found = weak_order(
        CLOCKED,
        Shown(stop),
        steps=(8, 16, 32),
        paths=150_000,
        seed=4,
        function=lambda x: x[1],
        exact=known(0.0, exact()[1]),
    )
    assert holds(found, 1.0) and found.attrs["order_low"] > 0


@pytest.mark.filterwarnings("ignore::stodyn.problems.walls.WallsNotResolved")  # that is measured
@pytest.mark.parametrize(("draw", "errors"), [(True, [0.0196, 0.0111, 0.00614]), (False, [0.0789, 0.0381, 0.0189])])
def test_means_of_reflected_paths_converge_with_order_one(draw, errors):
    """E X(1) of dX = -(X + ½) dt + dW, X >= 0, from ½; the errors are those of the rules' own kernels."""
    walled = sd.with_walls(REFLECTED, sd.Walls({"x": (0.0, None)}, draw=draw))
    found = weak_order(
        walled,
        "EulerMaruyama",
        steps=(4, 8, 16),
        paths=100_000,
        seed=5,
        function=lambda x: x,
        exact=known(0.41374835240),
    )
    assert holds(found, 1.0) and found.attrs["order_low"] > 0.5
    assert np.all(np.abs(found["error"] - errors) < 5 * found["error_stderr"])
