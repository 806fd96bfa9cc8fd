"""The strong orders of the α method in x, v and φ on common paths.

Seeds are fixed; the intervals are at the level 1 - 1e-6, so that another seed would fail once in a million each.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.problems.mechanical import Mechanical
from stodyn.studies.alpha_orders import PROBLEMS, error_curves

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")


@pytest.mark.long("tests/claims measures the order with general noise")
def test_strong_orders_of_two_coordinates_with_two_channels_that_do_not_commute():
    """The double pendulum; one coordinate and one channel are measured with every other claim (tests/claims)."""
    problem, expected = PROBLEMS["double pendulum, two channels"]
    found = error_curves(problem, level=1 - 1e-6, paths=200, steps=(16, 32, 64), T=0.5)
    for order, true in zip((1.0, 1.5, 2.0), expected, strict=True):
        for quantity in ("x", "v"):
            one = found[order, quantity]
            seen = f"order={order}, {quantity}: {one.error}, {one.slope}"
            if order == 1.5:  # the error of the force, of order 2, is still the larger one
                assert one.slope["order"] > 1.4, seen
                continue
            assert one.slope["order_low"] - 0.1 <= true <= one.slope["order_high"] + 0.1, seen
            assert abs(one.last - true) < 0.25, seen


def test_the_acceleration_has_half_an_order_where_the_force_depends_on_a_noisy_velocity():
    """φ - f is a memory of what the noise did to the force in the last step, of size √h; order 2.0 takes it out."""
    damped = Mechanical(lambda t, x, v: -2.0 * v, lambda t, x, v: jnp.ones((1, 1)), ([0.0], [0.0]), accelerations=True)
    found = error_curves(damped, (1.0, 2.0), paths=400, steps=(16, 32, 64, 128))
    assert found[1.0, "φ"].slope["order"] == pytest.approx(0.5, abs=0.1)
    assert found[2.0, "φ"].slope["order"] == pytest.approx(1.0, abs=0.1)
    assert np.all(found[2.0, "v"].error < found[1.0, "v"].error)
