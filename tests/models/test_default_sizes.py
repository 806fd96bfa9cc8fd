"""Every model runs at its default size: with the methods recommended for it, and with one method of each family.

`make test` takes for each model the method that it gets when none is named and, for small ones, one family, another one
from model to model; `make models` takes the other recommended methods and every family, too.
"""

import os

import numpy as np
import pytest

import stodyn as sd
from stodyn.methods import catalogue as methods
from stodyn.methods.contract import Expansion, Method
from stodyn.methods.recommend import recommended, stable_methods
from stodyn.models import catalogue as models
from stodyn.problems.time_scale import time_scale

FULL = bool(os.environ.get("STODYN_FULL"))
MODELS = models.catalogue()
STEPS, SMALL = 3, 4

# (model, method) -> the reason; all others are printed, but for methods that make whole paths by the host's code.
BY_VMAP = {
    ("ring_oscillator", "RK1A4MLevy"): "a scan of 6 turns over series",
}


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
    first, of_families = recommended(problem), list(families(problem).values())
    if FULL:
        return {method.name: method for method in (first, *stable_methods(problem), *of_families)}.values()
    return [first, of_families[list(MODELS).index(name) % len(of_families)]] if problem.n <= SMALL else [first]


@pytest.mark.usefixtures("quick_compiling")
# They need not fit well.
@pytest.mark.filterwarnings("ignore", "error::stodyn.numerics.printing.unprintable.PrinterFault")
@pytest.mark.parametrize("name", MODELS)
def test_runs_at_its_default_size(name):
    problem = MODELS[name].problem
    dt = 0.01 * min(time_scale(problem), 1.0)
    for method in chosen(name):
        ensemble = {} if isinstance(method, Expansion) else {"paths": 2, "seed": 1}
        run = sd.simulate(problem, method, t=(0.0, STEPS * dt), dt=dt, progress=False, **ensemble)
        record, why = sd.provenance(run), BY_VMAP.get((name, method.name))
        expected = "host" if not isinstance(method, Method) else "vmap" if why else "printed"
        assert record.get("executor", "host") == expected, (method.name, record["executor_reason"])
        assert why is None or why in record["executor_reason"]
        assert np.isfinite(run["mean"]).all(), method.name
