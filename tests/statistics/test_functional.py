"""Functionals: which form of an extreme belongs to which problem."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.statistics import functional


@pytest.mark.parametrize("kind", [functional.Maximum, functional.Minimum])
def test_extremes_are_cubics_where_no_noise_acts(kind):
    """Noise acts on v of (x, v), between t = 2 and t = 4 only, and not at the start, where v = 1."""

    def noise(t, x):
        return jnp.stack([0.0, jnp.where((t > 2.0) & (t < 4.0), x[1] - 1.0, 0.0)])[:, None]

    problem = sd.SDE(lambda t, x: jnp.stack([x[1], -x[0]]), noise, [0.0, 1.0])
    position, velocity = kind(lambda t, x: x[0]), kind(lambda t, x: x[1])
    assert velocity.along(problem, (2.0, 4.0)) is velocity
    smooth = position.along(problem, (2.0, 4.0))
    assert smooth == functional._Smooth(position.function, sign=kind.sign)
    assert isinstance(velocity.along(problem, (0.0, 2.0)), functional._Smooth)
    tied = sd.SDAE(np.diag([1.0, 0.0]), lambda t, x: jnp.stack([-x[0], x[1] - x[0]]), None, [1.0, 1.0])
    assert position.along(tied, (2.0, 4.0)) is position
