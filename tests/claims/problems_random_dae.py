"""What the claims of methods for DAEs with random parameters are measured on; see problems.py.

The orders on higher indices are in tests/methods/test_radau.py.
"""

import numpy as np

from stodyn.methods.radau import states_at
from stodyn.problems.random_dae import RandomDAE

CASES: dict = {RandomDAE: {}}


def deterministic(method):
    """x' = y, y' = -x: the slope of the largest error over the grid, to a quarter of an order."""
    (claim,) = method.claims
    rotation = RandomDAE(np.eye(2), matrix=np.array([[0.0, 1.0], [-1.0, 0.0]]), start=[0.0, 1.0])
    errors = []
    for steps in (16, 32):
        grid = np.linspace(0.0, 3.0, steps + 1)
        exact = np.stack([np.sin(grid), np.cos(grid)], axis=1)
        errors.append(np.abs(states_at(rotation, np.zeros((1, 0)), grid, method.order)[:, 0] - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - claim.order) < 0.25, errors


PROPERTIES: dict = {(RandomDAE, "deterministic"): deterministic}
