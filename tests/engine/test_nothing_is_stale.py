"""Functions are traced anew at every call: whatever they read that has changed since shows in the next run."""

import dataclasses
import functools
import itertools
import operator
import time
import types

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.statistics import functional

RUN = dict(t=(0.0, 1.0), dt=0.25, paths=2, seed=1, collect=st.Moments(at=[1.0]))
RATE = 1.0


def grown(problem):
    """x(1) of dx = rate x dt by Euler's four steps."""
    return float(sd.simulate(problem, "EulerMaruyama", **RUN)["mean"][0, 0])


def expected(rate):
    return (1 + 0.25 * rate) ** 4


class Number(float):
    """Compares equal to every other of its kind."""

    __hash__ = None

    def __eq__(self, other):
        return isinstance(other, Number)


class Told:
    """A callable that says it is like any other."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, t, x):
        return self.rate * x

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


@dataclasses.dataclass
class Held:
    rate: float


def a_global():
    def change(rate):
        globals()["RATE"] = rate

    return lambda t, x: RATE * x, change


def an_array():
    array = np.array([1.0])
    return lambda t, x: array[0] * x, functools.partial(array.__setitem__, 0)


def a_dict():
    values = {"rate": 1.0}
    return lambda t, x: values["rate"] * x, functools.partial(values.__setitem__, "rate")


def an_attribute():
    held = Held(1.0)
    return lambda t, x: held.rate * x, lambda rate: setattr(held, "rate", rate)


def a_module():
    module = types.ModuleType("settings")
    module.rate = 1.0
    read = operator.attrgetter("rate")
    return lambda t, x: read(module) * x, lambda rate: setattr(module, "rate", rate)


def a_callable():
    told = Told(1.0)
    return told, lambda rate: setattr(told, "rate", rate)


def a_number_that_compares_equal():
    cell = [Number(1.0)]
    return lambda t, x: float(cell[0]) * x, lambda rate: cell.__setitem__(0, Number(rate))


def a_default():
    def drift(t, x, rate=1.0):
        return rate * x

    return drift, lambda rate: setattr(drift, "__defaults__", (rate,))


WAYS = [a_global, an_array, a_dict, an_attribute, a_module, a_callable, a_number_that_compares_equal, a_default]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_a_function_reads_may_change(way):
    drift, change = way()
    problem = sd.SDE(drift, None, 1.0)
    for rate in (1.0, 2.0, 1.0):
        change(rate)
        np.testing.assert_allclose(grown(problem), expected(rate), rtol=1e-14)


def test_what_was_found_out_about_a_problem_is_found_out_anew():
    """Noise that was additive when it was first looked at, and is not now: its Ito correction must not be lost."""
    power = [0.0]
    problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0 + power[0] * x, 1.0, calculus="stratonovich")
    assert "additive" in sd.provenance(sd.simulate(problem, "EulerMaruyama", **RUN))["noise"]
    power[0] = 1.0
    record = sd.provenance(sd.simulate(problem, "EulerMaruyama", **RUN))
    assert "additive" not in record["noise"] and "corrected" in record["lowering"][0]


def test_what_is_prepared_stays_as_it_was():
    """It is held in the hand for that: its docstring says so."""
    rate = np.array([1.0])
    options = {name: value for name, value in RUN.items() if name != "seed"}
    ready = sd.prepare(sd.SDE(lambda t, x: jnp.asarray(rate[0]) * x, None, 1.0), "EulerMaruyama", **options)
    before = ready.arrays(seed=1)["mean"]
    rate[0] = 2.0
    np.testing.assert_array_equal(ready.arrays(seed=1)["mean"], before)


def test_functions_that_draw_count_or_read_a_clock_are_refused():
    """What they give would be looked at once, and be the same for all paths and steps."""
    rng, count = np.random.default_rng(1), itertools.count()
    for drift in (lambda t, x: -x + rng.normal(), lambda t, x: -x * next(count), lambda t, x: -x * time.time()):
        with pytest.raises(ValueError, match="drift: traced twice, it gives two different functions"):
            sd.simulate(sd.SDE(drift, None, 1.0), "EulerMaruyama", **RUN)
    noisy = sd.SDE(lambda t, x: -x, lambda t, x: rng.normal() * x, 1.0)
    with pytest.raises(ValueError, match=r"diffusion: .* Put randomness into diffusion, start or params"):
        sd.simulate(noisy, "EulerMaruyama", **RUN)


WATCHING = {
    "Observable wave": lambda of: dict(collect=st.Observable(of, name="wave")),
    "of": lambda of: dict(stop=sd.Stop(sd.Level(3.0, of=of))),
    "level": lambda of: dict(stop=sd.Stop(sd.Level(lambda t: of(t, np.ones(1))))),
    "Passage: of": lambda of: dict(collect=st.Passage(sd.Level(3.0, of=of))),
    r"of \(gauge\)": lambda of: dict(collect=st.Sensed(sd.Sensor("gauge", of, every=0.5))),
}


@pytest.mark.parametrize("who", WATCHING)
def test_functions_that_watch_paths_are_refused_likewise(who):
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0)
    for number in (np.random.default_rng(1).normal, functools.partial(next, itertools.count()), time.time):
        watching = WATCHING[who](lambda t, x, number=number: x[0] + number())
        with pytest.raises(ValueError, match=f"^{who}: traced twice, it gives two different functions"):
            sd.simulate(problem, "EulerMaruyama", **RUN | watching)


def test_sensors_of_a_record_are_refused_likewise():
    rng = np.random.default_rng(1)
    gauge = sd.Sensor("gauge", lambda t, x: x * rng.normal(), noise=sd.per_sample(0.1))
    problem = sd.SDE(lambda t, x, rate: -rate * x, lambda t, x: 1.0, 1.0, params=1.0)
    with pytest.raises(ValueError, match=r"^of \(gauge\): traced twice, it gives two different functions"):
        sd.likelihood(problem, data=([0.0, 0.5, 1.0], [1.0, 0.5, 0.2]), sensors=gauge, free={"params": (0, 9)})


@pytest.mark.parametrize("kind", ["End", "TimeAverage", "Maximum", "Probability"])
def test_functionals_are_refused_likewise(kind):
    """Each level had a number of its own, and an estimate with it was trusted."""
    rng = np.random.default_rng(1)
    f = getattr(functional, kind)(lambda t, x: x[0] + rng.normal())
    problem = sd.SDE(lambda t, x, rate: -rate * x, lambda t, x: 1.0, 1.0, params=1.0)
    with pytest.raises(ValueError, match=r"^f: traced twice, it gives two different functions"):
        sd.estimate(problem, f, t=(0, 1), error=0.1, seed=1)
    with pytest.raises(ValueError, match=r"^f: traced twice, it gives two different functions"):
        sd.sensitivity(problem, f, of="params", t=(0, 1), dt=0.25, paths=8, seed=1)


def test_controls_are_refused_likewise():
    rng = np.random.default_rng(1)
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0)
    with pytest.raises(ValueError, match=r"^control: traced twice, it gives two different functions"):
        sd.estimate(problem, lambda t, x: jnp.sin(x[0]), t=(0, 1), error=0.1, seed=1,
                    control=(lambda t, x: x[0] + rng.normal(), np.exp(-1.0)))  # fmt: skip


def test_starts_that_draw_other_numbers_than_those_given_are_refused():
    for number in (np.random.default_rng(1).normal, functools.partial(next, itertools.count()), time.time):
        with pytest.raises(ValueError, match=r"^from_normals: traced twice, .* Draw from z alone"):
            sd.from_normals(lambda z, number=number: z * number(), 2)


@pytest.mark.parametrize("name", ["start", "params"])
def test_draws_from_another_generator_are_refused(name):
    """From the one that is given, a path gets the same value in every run."""
    rng = np.random.default_rng(1)
    others = dict(start=1.0, params=1.0) | {name: lambda own, size: rng.normal(size=size)}
    with pytest.raises(ValueError, match=rf"{name}: called twice with the same generator, .* Draw from rng alone"):
        grown(sd.SDE(lambda t, x, rate: -rate * x, None, **others))
    others[name] = lambda own, size: own.normal(size=size)
    problem = sd.SDE(lambda t, x, rate: -rate * x, None, **others)
    assert grown(problem) == grown(problem)


def test_the_structure_of_noise_is_that_of_the_functions_as_they_are_now():
    """It stayed as it was when it was first asked for, or when the problem was made."""
    slope = {"is": 0.0}
    problem = sd.SDE(lambda t, x: -x, lambda t, x: (1.0 + slope["is"] * x)[:, None], [1.0])
    kinds = []
    for slope["is"] in (0.5, 0.0, 0.5):
        kinds.append(problem.noise_structure.kind)
    assert kinds == ["diagonal", "additive", "diagonal"]
