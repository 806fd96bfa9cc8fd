"""Every family of methods takes one step length, a list, a plan, and a function of the interval, or says what it does
not take and what to give instead."""

import functools

import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.spec import matched
from stodyn.methods.catalogue import catalogue
from stodyn.models.catalogue import catalogue as models

END, LENGTHS = 0.4, (0.1, 0.05, 0.05, 0.2)
FAMILIES = {type(method).__module__.rpartition(".")[2]: name for name, method in catalogue().items()}  # one of each
FORMS = {
    "one number": lambda problem, name: 0.1,
    "a list": lambda problem, name: LENGTHS,
    "a function of the interval": lambda problem, name: lambda span: np.diff(np.linspace(*span, 5)),
    "a plan": lambda problem, name: sd.plan(problem, name, tol=0.1),
}


@functools.cache
def smallest(name):
    """The smallest model that a method takes, of its own kind where there is one."""
    method = catalogue()[name]
    for kind in (method.accepts, object):
        for model in sorted(models().values(), key=lambda model: model.problem.n):
            try:
                if isinstance(model.problem, kind) and matched(model.problem, method):
                    return model.problem
            except (TypeError, ValueError):
                continue
    raise LookupError(name)


def run(name, dt):
    problem = smallest(name)
    return sd.simulate(problem, name, t=(0.0, END), dt=dt(problem, name), paths=4, seed=1, progress=False,
                       collect=st.Moments(at=[END]))  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.brief("explicit", "multistep", "rattle_alpha", "stiff")
@pytest.mark.parametrize("family", FAMILIES)
def test_steps_are_taken_or_answered_in_words(family):
    for form, dt in FORMS.items():
        try:
            run(FAMILIES[family], dt)
        except (TypeError, ValueError) as error:
            assert form != "one number" or "makes no paths" in str(error)
            assert (
                str(error).startswith(("dt: ", "method: ", "problem: ", "plan: ", "paths: ")) and len(str(error)) > 60
            )


@pytest.mark.brief("explicit", "rattle_alpha")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_rule_for_single_steps_is_refused_in_words(family):
    words = r"dt: a function is called once, with the interval \(0, 0.4\) .* lengths that add up to 0.4, or one number"
    for rule in (lambda t: 0.01 * (1.0 + t), lambda t, x: 0.1, lambda t: t.clip(0.1)):
        with pytest.raises(TypeError, match=words):
            run(FAMILIES[family], lambda problem, name, rule=rule: rule)


def test_an_error_within_a_plan_is_its_own():
    class Plan:
        def __call__(self, span):
            raise TypeError("its own")

    with pytest.raises(TypeError, match=r"^its own$"):
        run("Heun", lambda problem, name: Plan())
