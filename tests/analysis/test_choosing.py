"""`sd.recommend`: ranked by what is wanted, never a method that refuses the problem."""

import jax.numpy as jnp
import pytest

import stodyn as sd
from stodyn.methods.catalogue import catalogue
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.models.geometric_brownian_motion import GEOMETRIC_BROWNIAN_MOTION
from stodyn.models.kubo import KUBO
from stodyn.models.noise_structures import GENERAL_NOISE
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK


@pytest.mark.brief("ornstein_uhlenbeck", "general_noise")
@pytest.mark.parametrize("model", [KUBO, ORNSTEIN_UHLENBECK, GENERAL_NOISE, DAMPED_KUBO], ids=lambda model: model.name)
def test_the_first_has_the_highest_order_of_all_that_take_the_problem(model):
    problem = model.problem
    own = [m for m in catalogue().values() if isinstance(problem, m.accepts) and m.refusal(problem) is None]
    for want in ("strong", "weak"):
        choices = sd.recommend(problem, want)
        orders = [choice.method.promised(want, problem.noise_structure) for choice in choices]
        exact = want == "weak" and "exact in law" in choices[0].reason
        assert exact or orders[0] == max(m.promised(want, problem.noise_structure) for m in own)
        assert orders[exact:] == sorted(orders[exact:], reverse=True)
        assert all(choice.method.refusal(problem) is None for choice in choices)


def test_fast_counts_operations():
    choices = sd.recommend(GEOMETRIC_BROWNIAN_MOTION.problem, "fast", 3)
    assert choices[0].method.name in ("Euler", "EulerMaruyama")
    operations = [int(choice.reason.split(" operations")[0].split()[-1]) for choice in choices]
    assert operations == sorted(operations)


def test_long_keeps_the_structure():
    assert "symplectic" in sd.recommend(DAMPED_KUBO.problem, "long", 1)[0].reason


def test_left_out_the_default_comes_first_and_each_method_once():
    choices = sd.recommend(GENERAL_NOISE.problem, most=9)
    assert choices[0].method is sd.method("EulerMaruyama")
    assert "default: " in repr(choices).splitlines()[0]
    names = [choice.method.name for choice in choices[1:]]
    assert len(set(names)) == len(names)
    run = sd.simulate(GENERAL_NOISE.problem, choices[1].method, t=(0, 0.1), dt=0.05, paths=8, seed=1)
    assert bool(jnp.all(jnp.isfinite(run["mean"].values)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="want: expected one of 'strong', 'weak', 'long', 'fast', or nothing"):
        sd.recommend(KUBO.problem, "x")
    with pytest.raises(ValueError, match="most: expected how many methods to list"):
        sd.recommend(KUBO.problem, "strong", 0)
    with pytest.raises(TypeError, match="problem: expected a problem"):
        sd.recommend(3)
