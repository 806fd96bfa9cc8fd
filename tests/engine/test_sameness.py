"""A trace is kept from run to run as long as nothing that its functions can see has changed."""

import functools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.engine import batch
from stodyn.engine import simulate as front_door
from stodyn.engine.sameness import KEPT, Kept, Unjudged, judged, token
from stodyn.models.noise_structures import general_noise
from stodyn.noise.distribution import Normal
from stodyn.noise.iterated import ResolutionWarning, Substeps

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
    assert token(scipy.stats.norm(0.0, 1.0)) != token(scipy.stats.norm(0.0, 2.0)) != token(scipy.stats.cauchy(0.0, 2.0))
    assert token({1, 2}) == token({2, 1}) != token({1, 3}) and token({1}) != token(frozenset({1}))
    assert token(np.ones(2)) != token(np.ones((2, 1))) and token(np.ones(2)) != token(np.ones(2, np.float32))


HISTOGRAM = scipy.stats.rv_histogram(np.histogram([1.0, 2.0, 4.0], bins=2))


@pytest.mark.parametrize("thing", [object(), np.ones(200_000), np.array([object()]), iter([1]), HISTOGRAM()])
def test_what_cannot_be_judged(thing):
    with pytest.raises(Unjudged):
        token([thing])
    kept = Kept()
    assert judged([thing]) is None
    assert [kept.get(judged(thing), (thing,), lambda k=k: k) for k in (1, 2)] == [1, 2]


def test_the_oldest_make_room():
    kept = Kept()
    for k in range(KEPT + 1):
        kept.get(k, (k,), lambda: "first")
    assert kept.get(0, (0,), lambda: "anew") == "anew" and kept.get(KEPT, (KEPT,), lambda: "anew") == "first"


def test_a_run_made_ready_before_gives_the_bits_of_a_fresh_one():
    """Random starts and parameters are drawn anew for every seed; nothing that was drawn is kept."""

    def problem():
        random = dict(start=Normal(1.0, 0.1), params={"rate": scipy.stats.uniform(1.0, 1.0)})
        return sd.SDE(lambda t, x, p: -p["rate"] * x, lambda t, x, p: x, **random)

    def run(seed):
        return sd.simulate(problem(), "EulerMaruyama", t=(0, 1), dt=0.25, paths=50, seed=seed).drop_attrs()

    first = [run(seed) for seed in (1, 2, 1)]
    kept, _ = list(front_door._ensembles.values.values())[-1]
    assert {"runners", "plan"} < kept.__dict__.keys() and not {"_first_members", "given"} & kept.__dict__.keys()
    front_door._ensembles.values.clear()
    assert run(2).identical(first[1])
    assert first[2].identical(first[0]) and not first[1].equals(first[0])


def test_results_of_equal_runs_stand_apart():
    problem = decaying(lambda: 1.0)
    one, other = (sd.simulate(problem, "EulerMaruyama", **RUN) for _ in range(2))
    one["time"].attrs["units"] = "s"
    one["mean"].values[:] = 7.0
    one = one.assign_coords(time=one["time"] + 1)
    again = sd.simulate(problem, "EulerMaruyama", **RUN)
    assert other["time"].attrs == again["time"].attrs == {}
    assert other.drop_attrs().identical(again.drop_attrs()) and again["mean"][-1, 0] == 0.75**4


def test_what_a_method_warns_of_is_said_in_every_run():
    problem = general_noise()
    for _ in range(2):
        with pytest.warns(ResolutionWarning, match="Substeps"):
            sd.simulate(problem, sd.method("MilsteinLevy")(area=Substeps(2)), t=(0, 0.02), dt=0.01, paths=2, seed=1)


def test_a_kept_run_does_not_follow_what_was_written_to_since():
    """It may hold the arrays of the first call; a later one with arrays of its own that say the same is another."""

    def run(start, rate, dt):
        problem = sd.SDE(lambda t, x, p: -p * x, lambda t, x, p: jnp.zeros((2, 1)), start, params=rate)
        run = sd.simulate(problem, "EulerMaruyama", t=(0, 1), dt=dt, paths=2100, seed=1)
        return run["mean"][-1].values.tolist()

    def arrays():
        return np.ones(2), np.array([1.0, 2.0]), np.array([0.25, 0.75])

    expected = [0.75 * 0.25, 0.5 * -0.5]
    for k in range(3):
        given = arrays()
        assert run(*given) == expected
        given[k][:] = 0.5
        assert run(*arrays()) == expected
        assert run(*given) != expected


def slope(x):
    return scaling(x)


scaling = jnp.tanh


def scaled(x):
    return scaled.factor * x


def imported_inside(x):
    import settings_of_a_test

    return settings_of_a_test.factor * x


def found_by_name(x):
    return globals()["FACTOR"] * x


def test_changes_that_only_an_observable_sees(monkeypatch):
    module = types.ModuleType("settings_of_a_test")
    monkeypatch.setitem(sys.modules, "settings_of_a_test", module)
    problem = decaying(lambda: 0.0)

    def seen(function):
        observable = sd.statistics.Observable(lambda t, x: function(x[0]), name="seen")
        return float(sd.simulate(problem, "EulerMaruyama", **RUN, collect=observable)["seen"][-1])

    assert seen(slope) == pytest.approx(np.tanh(1.0))
    monkeypatch.setitem(globals(), "scaling", jax.grad(jnp.tanh))
    assert seen(slope) == pytest.approx(1 / np.cosh(1.0) ** 2)
    for factor in (2.0, 3.0):
        scaled.factor = module.factor = factor
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert [seen(scaled), seen(imported_inside), seen(found_by_name)] == [factor] * 3


def test_what_carries_the_name_of_a_library_function_is_not_it():
    things = [jnp.tanh, jax.grad(jnp.tanh), jax.jit(jnp.tanh), functools.wraps(jnp.tanh)(lambda x: 2 * x)]
    tokens = [judged(thing) for thing in things]
    assert tokens[0] is not None and all(token != tokens[0] for token in tokens[1:])
    assert token(jnp.maximum) != token(jnp.minimum)


def test_what_a_problem_has_found_out_is_found_out_again_where_its_functions_have_changed():
    """dX = (1/2 + k X) dW, Ito: additive for k = 0; the mean is 1 whatever k, which Heun delivers after conversion."""
    k = 0.0
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 0.5 + k * x, 1.0)
    assert problem.noise_structure.implies("additive")

    def run():
        return sd.simulate(problem, "Heun", t=(0, 1), dt=0.1, paths=4000, seed=1)

    first, k = run(), 1.0
    second = run()
    assert "additive" in sd.provenance(first)["lowering"][0] and "corrected" in sd.provenance(second)["lowering"][0]
    assert abs(second["mean"][-1, 0] - 1.0) < 4 * second["mean_stderr"][-1, 0]
