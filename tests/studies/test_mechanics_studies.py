"""The studies of noisy mechanics: what is exact in them is exact, and the small sizes run."""

import math

import numpy as np
import pytest
import xarray as xr

from stodyn.models.bushing import BUSHING
from stodyn.models.slider_crank import SLIDER_CRANK
from stodyn.models.spring_pendulum import SPRING_PENDULUM
from stodyn.numerics import uncompiled
from stodyn.studies import alpha_stability, bushing, joints, slider_crank, spring_pendulum
from stodyn.studies.contract import catalogue
from stodyn.studies.mechanics_runs import by_rho, damping_is_shown, newton_row, same_paths

NAMES = ("beam", "slider-crank", "double-pendulum", "bushing", "spring-pendulum", "alpha-orders", "alpha-stability",
         "joints")  # fmt: skip


def test_they_are_all_there():
    assert set(NAMES) <= set(catalogue())


@pytest.mark.parametrize("steps", [100, 300])
def test_a_sound_newton_takes_two_rounds_a_step_on_the_bushing(steps):
    """The step equation is linear to 1e-10; the paper prints 549 and 2094, and failures at other ρ."""
    with damping_is_shown():
        (run,) = same_paths(BUSHING.problem, by_rho(0.0, tol=1e-4), bushing.T, steps, 8, 1, seed=3).values()
    assert newton_row("", run, steps, None).ours == 2 * steps


def test_newton_counts_of_the_spring_pendulum():
    """Three rounds a step at h = .01; at h = .08 as many as an independent Newton took on 12 other paths."""
    method = by_rho(0.4, tol=1e-12)
    for h, low, high in ((0.01, 1150, 1250), (0.08, 185, 210)):
        steps = math.ceil(spring_pendulum.T / h - 1e-9)
        with damping_is_shown():
            (run,) = same_paths(SPRING_PENDULUM.problem, method, steps * h, steps, 32, 1, seed=27).values()
        assert low <= newton_row("", run, steps, None).ours <= high


def test_ringing_and_drift_of_the_slider_crank():
    """Of three paths as they start, on the constraints of t = 0, but for rates of q4 of ±1, ±2 and ±3."""
    problem, times = SLIDER_CRANK.problem, np.zeros(4)
    values = np.tile(np.asarray(problem.example_start()), (3, 4, 1))
    values[:, :, problem.components.index("dq4")] = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 1.0, -1.0])
    found = xr.Dataset({"path": (("number", "time", "component"), values)},
                       {"time": times, "component": list(problem.components)})  # fmt: skip
    size = math.sqrt(14.0 / 3.0)
    error = np.std([1.0, 4.0, 9.0], ddof=1) / math.sqrt(3.0) / (2.0 * size)
    assert slider_crank.ringing(found) == pytest.approx((size, error), rel=1e-12)
    assert slider_crank.drift(found) < 1e-12
    moved = found["path"].copy()
    moved[1, 2, 0] += 0.1
    assert slider_crank.drift(found.assign(path=moved)) > 0.01


def test_the_crank_by_joints_is_that_of_the_accelerations():
    """Where the paper's constraints hold, both have the same accelerations."""
    jointed, written = joints.crank_by_joints(), SLIDER_CRANK.problem
    q, v = np.split(np.asarray(written.example_start()), 2)
    found, expected = (
        uncompiled.value(lambda q, v, problem=problem: problem.acceleration(0.0, q, v, q[:0], None), q, v)
        for problem in (jointed, written)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_the_pictures_of_stability_are_drawn():
    for picture in (alpha_stability.dissipation_picture(10), alpha_stability.mean_square_picture(3)):
        for ax in picture.figure.axes:
            assert ax.lines and all(np.isfinite(line.get_ydata()).any() for line in ax.lines)
