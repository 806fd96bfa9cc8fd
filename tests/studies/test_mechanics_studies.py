"""The studies of noisy mechanics: what is exact in them is exact, and the small sizes run."""

import math

import numpy as np
import pytest

from stodyn.models.bushing import BUSHING
from stodyn.models.spring_pendulum import SPRING_PENDULUM
from stodyn.studies import alpha_stability, bushing, spring_pendulum
from stodyn.studies.contract import catalogue
from stodyn.studies.mechanics_runs import by_rho, newton_row, same_paths

NAMES = ("beam", "slider-crank", "double-pendulum", "bushing", "spring-pendulum", "alpha-orders", "alpha-stability")


def test_they_are_all_there():
    assert set(NAMES) <= set(catalogue())


@pytest.mark.parametrize("steps", [100, 300])
def test_a_sound_newton_takes_two_rounds_a_step_on_the_bushing(steps):
    """The step equation is linear to 1e-10; the paper prints 549 and 2094, and failures at other ρ."""
    (run,) = same_paths(BUSHING.problem, by_rho(0.0, tol=1e-4), bushing.T, steps, 8, 1, seed=3).values()
    assert newton_row("", run, steps, None).ours == 2 * steps


def test_newton_counts_of_the_spring_pendulum():
    """Three rounds a step at h = .01; at h = .08 as many as an independent Newton took on 12 other paths."""
    method = by_rho(0.4, tol=1e-12)
    for h, low, high in ((0.01, 1150, 1250), (0.08, 185, 210)):
        steps = math.ceil(spring_pendulum.T / h - 1e-9)
        (run,) = same_paths(SPRING_PENDULUM.problem, method, steps * h, steps, 32, 1, seed=27).values()
        assert low <= newton_row("", run, steps, None).ours <= high


def test_the_pictures_of_stability_are_drawn():
    for picture in (alpha_stability.dissipation_picture(10), alpha_stability.mean_square_picture(3)):
        for ax in picture.figure.axes:
            assert ax.lines and all(np.isfinite(line.get_ydata()).any() for line in ax.lines)
