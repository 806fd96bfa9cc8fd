"""Functions take params or not by their signature, whatever the problem has."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.problems.calling import call, check_call

SHORT = {"t": (0.0, 0.2), "dt": 0.1, "paths": 4, "seed": 1}


class Callable:
    def __call__(self, t, x, p):
        return t, x, p


def with_keyword(t, x, p, *, k=2):
    return t, x, p


@pytest.mark.parametrize("params", [None, {}, {"a": 1.0}, 3.0])
def test_the_signature_decides(params):
    """Functions with a required place for params get them or an empty dict, those without a place get nothing."""
    given, some = {} if params is None else params, params not in (None, {})
    takes = [
        lambda t, x, p: (t, x, p),
        Callable(),
        functools.partial(lambda k, t, x, p: (t, x, p), 5),
        functools.partial(with_keyword, k=3),
        types.MethodType(lambda self, t, x, p: (t, x, p), 7),
    ]
    for function in takes:
        assert call(function, 1, 2, params=params) == (1, 2, given)
    for function in (lambda t, x: (t, x), lambda t, x, *, k=2: (t, x)):
        assert call(function, 1, 2, params=params) == (1, 2)
    assert call(lambda t, x, p=None: (t, x, p), 1, 2, params=params) == (1, 2, params if some else None)
    assert call(lambda *rest: rest, 1, 2, params=params) == ((1, 2, params) if some else (1, 2))
    assert call(jax.jit(lambda t, x: t + x), 1, 2, params=params) == 3


def test_functions_without_a_signature_follow_the_case():
    assert call(max, 1, 2, params=None) == 2
    assert call(max, 1, 2, params=5) == 5


def test_a_default_where_params_would_stand_is_refused():
    """Neither its value nor params are dropped silently."""
    check_call("drift", lambda t, x, k=2: x, ("t", "x"), None)
    check_call("drift", lambda t, x, *, k=2: x, ("t", "x"), {"a": 1.0})
    check_call("drift", lambda t, x, params=2: x, ("t", "x"), {"a": 1.0})
    with pytest.raises(TypeError, match=r"drift: the problem has params, but lambda\(t, x, k=2\) has k=2 .* `\*, k"):
        check_call("drift", lambda t, x, k=2: x, ("t", "x"), {"a": 1.0})


def test_required_keywords_are_named():
    def drift(t, x, *, rate):
        return rate * x

    with pytest.raises(TypeError, match=r"drift: must take .* got drift\(t, x, \*, rate\)\. Give rate a value"):
        check_call("drift", drift, ("t", "x"), None)


def spring(params, takes):
    """x'' = -x - v/10 + ξ/10, each of its functions with or without a place for params."""
    if takes:
        return sd.Mechanical(lambda t, x, v, p: -x - 0.1 * v, lambda t, x, v, p: 0.1, (1.0, 0.0), params=params,
                             mass=lambda t, x, v, p: jnp.ones((1, 1)))  # fmt: skip
    return sd.Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 0.1, (1.0, 0.0), params=params,
                         mass=lambda t, x, v: jnp.ones((1, 1)))  # fmt: skip


def decay(params, takes):
    if takes:
        return sd.SDE(lambda t, x, p: -x, lambda t, x, p: 0.1, 1.0, params)
    return sd.SDE(lambda t, x: -x, lambda t, x: 0.1, 1.0, params)


def oscillator(params, takes):
    """h returns all noise Hamiltonians at once."""
    start = ([1.0, 0.5], [0.0, 0.0])
    if takes:
        return sd.Hamiltonian(lambda t, q, p, _: 0.5 * (q @ q + p @ p), lambda t, q, p, _: 0.1 * q, start=start,
                              force=lambda t, q, p, _: -p, params=params)  # fmt: skip
    return sd.Hamiltonian(lambda t, q, p: 0.5 * (q @ q + p @ p), lambda t, q, p: 0.1 * q, start=start,
                          force=lambda t, q, p: -p, params=params)  # fmt: skip


@pytest.mark.brief("spring-StochasticAlpha", "oscillator-Heun")
@pytest.mark.parametrize(
    ("make", "method"), [(decay, "EulerMaruyama"), (spring, "StochasticAlpha"), (spring, "Heun"), (oscillator, "Heun")]
)
def test_every_pairing_gives_the_same_run(make, method):
    """Four ways to say the same equations, and statistics with and without params on each of them."""
    seen = [lambda t, x: x[0] ** 2, lambda t, x, p: x[0] ** 2]
    collect = [st.Moments(), st.Observable(seen[0], name="one"), st.Observable(seen[1], name="with_params")]
    first, *others = (
        sd.simulate(make(params, takes), method, **SHORT, collect=collect)
        for params in (None, {"a": 2.0})
        for takes in (False, True)
    )
    assert np.array_equal(first["one"], first["with_params"])
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first.data_vars)


def test_levels_stops_and_expectations_take_params_or_not():
    """A level given as a number, as a function of t, and as one of t and params is one event."""
    problem = decay({"low": 0.9}, takes=True)
    levels = [
        sd.Level(0.9, of=lambda t, x: x[0], direction="down"),
        sd.Level(lambda t, p: p["low"], of="x", direction="down"),
        sd.Level(lambda t: 0.9, of=lambda t, x, p: x[0], direction="down"),
    ]
    runs = [sd.simulate(problem, "EulerMaruyama", **SHORT, stop=sd.Stop(level)) for level in levels]
    assert all(np.array_equal(runs[0][name], run[name]) for run in runs[1:] for name in runs[0].data_vars)


def test_an_observable_with_too_many_arguments_is_named():
    with pytest.raises(TypeError, match=r"Observable twice: must take .* got lambda\(t, x, a, b\)"):
        sd.simulate(
            decay(None, False), **SHORT, collect=st.Observable(lambda t, x, a, b: x, name="twice"), method="Heun"
        )
