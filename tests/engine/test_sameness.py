"""A trace is kept from run to run as long as nothing that its functions can see has changed."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine import batch
from stodyn.engine.sameness import KEPT, Kept, Unjudged, token

RATE = 1.0
RUN = dict(t=(0.0, 1.0), dt=0.25, paths=1, seed=0)


def end(problem):
    return float(sd.simulate(problem, "EulerMaruyama", **RUN)["mean"][-1, 0])


def decaying(rate):
    """dx = -rate() x dt."""
    return sd.SDE(lambda t, x: -rate() * x, lambda t, x: 0.0, 1.0)


def global_rate():
    return RATE


def test_a_changed_variable_of_the_module_is_seen(monkeypatch):
    problem = decaying(global_rate)
    assert end(problem) == 0.75**4
    monkeypatch.setitem(globals(), "RATE", 2.0)
    assert end(problem) == 0.5**4


def test_a_changed_variable_around_the_function_is_seen():
    rate = 1.0
    problem = decaying(lambda: rate)
    assert end(problem) == 0.75**4
    rate = 2.0
    assert end(problem) == 0.5**4


def test_an_array_written_to_and_a_changed_object_are_seen():
    rates, holder, settings = np.ones(2), types.SimpleNamespace(rate=1.0), {"rate": 1.0}
    problems = [decaying(lambda: rates[1]), decaying(lambda: holder.rate), decaying(lambda: settings["rate"])]
    assert [end(problem) for problem in problems] == [0.75**4] * 3
    rates[1] = holder.rate = settings["rate"] = 2.0
    assert [end(problem) for problem in problems] == [0.5**4] * 3


def test_a_changed_variable_of_another_module_is_seen():
    module = types.ModuleType("settings")
    module.rate = 1.0
    problem = decaying(lambda: module.rate)
    assert end(problem) == 0.75**4
    module.rate = 2.0
    assert end(problem) == 0.5**4


def test_the_same_words_are_traced_once(monkeypatch):
    traced = []
    trace = batch.trace
    monkeypatch.setattr(batch, "trace", lambda *what: traced.append(what) or trace(*what))
    for rate in (3.0, 3.0, 3.5, 3.0):
        end(decaying(lambda rate=rate: rate))
    assert len(traced) == 2


def test_tokens():
    def again(n):
        return again(n - 1) if n else 0

    assert token(again) == token(again)
    assert token(jax.jit(again)) != token(again)
    assert token(functools.partial(again, 1)) != token(functools.partial(again, 2))
    assert token([1.0, jnp.ones(2), jnp.sin, np]) == token([1.0, jnp.ones(2), jnp.sin, np])
    assert token(1.0) != token(1) and token(0.0) != token(-0.0) and token((1,)) != token([1])
    assert token(np.ones(2)) != token(np.ones((2, 1))) and token(np.ones(2)) != token(np.ones(2, np.float32))


@pytest.mark.parametrize("thing", [object(), np.ones(200_000), np.array([object()]), iter([1])])
def test_what_cannot_be_judged(thing):
    with pytest.raises(Unjudged):
        token([thing])
    kept = Kept()
    assert [kept.get(thing, lambda k=k: k) for k in (1, 2)] == [1, 2]


def test_the_oldest_make_room():
    kept = Kept()
    for k in range(KEPT + 1):
        kept.get(k, lambda: "first")
    assert kept.get(0, lambda: "anew") == "anew" and kept.get(KEPT, lambda: "anew") == "first"
