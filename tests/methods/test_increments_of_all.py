"""What every method for SDEs makes of its normals: with dx = a dt + g dW it adds a h + g W, and nothing else.

W is the one that the seed gives to every method; all other normals of a step must cancel out, over the steps in which a
method with a history uses them.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine.spec import matched
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.methods.multistep import AB4, AM3, AM4
from stodyn.methods.tamed import TamedEuler
from stodyn.noise.discrete import ThreePoint, WeakPairs
from stodyn.numerics.printing.points import at_points
from stodyn.problems.sde import SDE

A, G = np.array([0.7, -0.2]), np.array([[1.0, 0.5], [-0.3, 2.0]])
WHITE = sd.SDE(lambda t, x: jnp.asarray(A), lambda t, x: jnp.asarray(G), [0.0, 0.0])
H = 0.25
VARIANTS = (AB4(placement="history"), AB4(placement="history", starter="rk4-resampled"), AM3(noise="held"),
            AM4(mode="PEC"), AM4(corrections=3), AM4(predictor="rk4"), AM4(predictor="rk4", mode="PEC"),
            AM4(noise="held", corrections="converged"))  # fmt: skip
METHODS = [method for method in catalogue().values()
           if isinstance(method, Method) and method.accepts is SDE and method.refusal(WHITE) is None
           and method is not TamedEuler]  # fmt: skip


@pytest.mark.parametrize("method", [*METHODS, *VARIANTS], ids=repr)
def test_constant_drift_and_noise_are_added_up_exactly(method):
    problem, counts = matched(WHITE, method)[0], method.needs.normals(2)
    ends, size = np.cumsum(list(counts.values()))[:-1], sum(counts.values())
    steps = 13 if method.starting_steps else 1  # of which the one in the middle has normals

    def end(ξ):
        state = method.start(problem, 0.0, jnp.zeros(2), None)
        for k in range(steps):
            drawn = jnp.split(ξ if k == steps // 2 else 0.0 * ξ, ends)
            noise = method.needs.increment(jnp.asarray(H), dict(zip(counts, drawn, strict=True)), 2)
            if k < method.starting_steps:
                state, _ = method.starting_step(k, problem, k * H, state, noise, None)
            else:
                state, _ = method.step(problem, k * H, state, noise, None)
        return method.read(state)

    quiet, *moved = at_points(end, np.concatenate([np.zeros((1, size)), np.eye(size)]))
    np.testing.assert_allclose(quiet, steps * H * A, rtol=1e-13)
    one = np.sqrt(3.0 * H if isinstance(method.needs, ThreePoint | WeakPairs) else H)
    expected = np.concatenate([one * G.T, np.zeros((size - 2, 2))])
    np.testing.assert_allclose(np.array(moved) - quiet, expected, atol=1e-14)
