"""Models are found by listing their folder, and their parameters stand in one place."""

import numpy as np
import pytest

from stodyn.models.catalogue import Model, catalogue, find
from stodyn.models.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK, mean, ornstein_uhlenbeck
from stodyn.problems.contract import Problem


def test_the_classics_are_there():
    wanted = {"ornstein_uhlenbeck", "geometric_brownian_motion", "double_well", "kubo", "lorenz"}
    assert wanted <= set(catalogue())


@pytest.mark.parametrize("model", catalogue().values(), ids=lambda model: model.name)
def test_every_model_builds_and_says_what_it_is(model):
    assert isinstance(model.problem, Problem)
    assert model.summary.startswith(("d", "M x' = "))  # its equations come first
    for quantity in {"mean", "variance"} & set(model.exact):
        assert model.exact[quantity](np.zeros((2, 3))).shape == (2, 3, model.problem.n)
        assert model.exact[quantity](0.0).shape == (model.problem.n,)
    start = model.problem.example_start()
    if "solution" in model.exact:
        np.testing.assert_array_equal(model.exact["solution"](0.0, np.zeros(model.problem.m)), start)
        assert model.exact["solution"](0.5, np.zeros((4, model.problem.m))).shape == (4, model.problem.n)
    if "mean" in model.exact:
        np.testing.assert_allclose(model.exact["mean"](0.0), start, rtol=1e-15)
        np.testing.assert_allclose(model.exact["variance"](0.0), np.zeros(model.problem.n), atol=1e-15)


def test_changed_parameters_reach_problem_and_answers():
    faster = ORNSTEIN_UHLENBECK(rate=3.0)
    assert faster.problem.params == {"rate": 3.0, "sigma": 0.5}
    np.testing.assert_array_equal(faster.exact["mean"](2.0), mean(2.0, rate=3.0, start=1.0))
    assert faster(start=2.0).parameters == {"rate": 3.0, "sigma": 0.5, "start": 2.0}
    assert ORNSTEIN_UHLENBECK.parameters["rate"] == 1.0


def test_unknown_names_are_answered_with_those_near_them():
    with pytest.raises(TypeError, match="ornstein_uhlenbeck has no parameter 'speed'; it has rate, sigma, start"):
        ORNSTEIN_UHLENBECK(speed=1.0)
    with pytest.raises(ValueError, match=r"model: there is no 'ornstein-ulenbeck'\. Near it: ornstein_uhlenbeck"):
        find("ornstein-ulenbeck")
    assert find("kubo").name == "kubo"
    with pytest.raises(TypeError, match="median takes 'pace', which is not a parameter of ornstein_uhlenbeck"):
        Model(ornstein_uhlenbeck, {"median": lambda t, *, pace: t})
