"""Every model runs at its default size: with the methods recommended for it, and with one method of each family.

`make test` takes for each model the recommended methods and one more family, another one from model to model, so that
each family is asked of several models; `make models` takes every family for every model.
"""

import os

import numpy as np
import pytest

import stodyn as sd
from stodyn.methods import catalogue as methods
from stodyn.methods.recommend import recommended, stable_methods
from stodyn.models import catalogue as models
from stodyn.problems.time_scale import time_scale

FULL = bool(os.environ.get("STODYN_FULL"))
MODELS = models.catalogue()
STEPS = 3

# The others are computed by printed programs, or by the host's code of a Solver.
BY_VMAP: dict[tuple[str, str], str] = {}


def families(problem):
    """The first method of each module of methods that takes the problem, by the module's name."""
    first = {}
    for name in methods.fitting(problem):
        method = methods.catalogue()[name]
        first.setdefault(type(method).__module__, method)
    return first


def chosen(name):
    """The methods that a model is run with."""
    problem = MODELS[name].problem
    some = [recommended(problem), *stable_methods(problem)]
    others = [
        method for family, method in families(problem).items() if family not in {type(m).__module__ for m in some}
    ]
    return [*some, *(others if FULL else others[list(MODELS).index(name) % max(len(others), 1) :][:1])]


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.parametrize("name", MODELS)
def test_runs_at_its_default_size(name):
    problem = MODELS[name].problem
    dt = 0.01 * min(time_scale(problem), 1.0)
    for method in chosen(name):
        run = sd.simulate(problem, method, t=(0.0, STEPS * dt), dt=dt, paths=2, seed=1, progress=False)
        record = sd.provenance(run)
        expected = BY_VMAP.get((name, method.name))
        assert record["executor"] == ("vmap" if expected else "host" if record["executor"] == "host" else "printed"), (
            method.name,
            record["executor_reason"],
        )
        assert expected is None or expected in record["executor_reason"]
        assert np.isfinite(run["mean"]).all(), method.name
