"""How a step of a path that is stopped at a level is decided, by the law of the bridge between its ends."""

import jax.numpy as jnp
import numpy as np

from stodyn.methods import stopping
from stodyn.numerics import crossing
from stodyn.numerics.printing.points import at_one, at_points

UNIFORM = (np.arange(2000) + 0.5) / 2000  # the chance that an exponential variable is above -log of it


def decided(a, b):
    """Whether the level is reached, what is left of the exponential variable, and the side, for all of UNIFORM."""

    def one(energy):
        test = object.__new__(stopping._Test)
        test.units, test.energy = (jnp.asarray(a), jnp.asarray(b)), energy
        return test._decision()

    return at_points(one, -np.log(UNIFORM))


def test_one_level_is_reached_with_the_chance_of_a_bridge():
    """exp(-2 a b), and what is left of the variable has its law again; a path that ends beyond is stopped for sure."""
    reached, left, side = decided([0.5], [0.7])
    np.testing.assert_array_equal(reached, np.exp(-0.7) > UNIFORM)
    np.testing.assert_allclose(np.exp(-left[reached]), UNIFORM[reached] / np.exp(-0.7), rtol=1e-12)
    assert not left[~reached].any() and not side.any()
    assert decided([0.5], [-0.1])[0].all()


def test_one_of_two_levels_is_reached_with_the_chance_of_either():
    a, b = np.array([0.8, 0.5]), np.array([0.4, 1.1])
    reached, left, side = decided(a, b)
    either, low, high = at_one(
        lambda a, b: (crossing.bridge_chance_of_two((a[0], b[0]), (a[1], b[1])), *crossing.bridge_chance(a, b)), a, b
    )
    assert reached.mean() == np.round(2000 * either) / 2000
    share = low / (low + high)
    assert abs((side[reached] == 0).mean() - share) < 1e-3
    for k, part in ((0, share), (1, 1.0 - share)):  # uniform again, given the side
        again = np.sort(np.exp(-left[reached & (side == k)]))
        even = (np.arange(len(again)) + 0.5) / len(again)
        np.testing.assert_allclose(again, even, atol=2.0 / (2000 * either * part))
