"""What is compiled is found again: by what a function says, not by which function it is."""

import dataclasses
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, PerPath, simulate
from stodyn import statistics as st
from stodyn.engine.program import executors, vmap
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.numerics.bounded import Bounded

RUN = dict(t=(0.0, 1.0), dt=0.1, paths=4, seed=1)


@pytest.fixture(autouse=True)
def nothing_kept():
    """Whatever other tests have printed."""
    executors.forget()


def compiled_by(*arguments, **options):
    """How many programs a run adds to those there are."""
    before = {*executors.cached_digests(), *vmap._compiled}
    simulate(*arguments, **RUN | options)
    return len({*executors.cached_digests(), *vmap._compiled} - before)


def pulled(constant, power=2):
    table = np.array([constant, 1.0])
    return SDE(lambda t, x: -table[0] * x**power + table[1], lambda t, x: 0.25, 1.0)


def test_the_same_words_are_compiled_once():
    assert compiled_by(pulled(0.375), EulerMaruyama) == 1
    assert compiled_by(pulled(0.375), EulerMaruyama) == 0  # written again
    assert compiled_by(pulled(0.375), EulerMaruyama, seed=9, dt=0.05, t=(2.0, 2.5)) == 0  # dt and times are inputs
    assert compiled_by(pulled(0.5), EulerMaruyama) == 1  # a captured constant is part of the program
    assert compiled_by(pulled(0.375, 3), EulerMaruyama) == 1
    assert compiled_by(pulled(0.375), Heun) == 1


def test_parameters_are_inputs():
    def ou(rate):
        return ornstein_uhlenbeck(rate=rate, sigma=0.375)

    compiled_by(ou(1.0), EulerMaruyama)
    assert compiled_by(ou(2.0), EulerMaruyama) == 0
    assert compiled_by(ornstein_uhlenbeck(3.0, 0.1, 7.0), EulerMaruyama) == 0
    assert compiled_by(ou(PerPath(np.ones(4))), EulerMaruyama) == 1
    assert compiled_by(ou(PerPath(np.arange(4.0))), EulerMaruyama) == 0


def test_statistics_are_told_apart_by_what_they_do():
    def watched(factor):
        return st.Observable(lambda t, x, p: factor * x[0], name="watched")

    values = []
    for factor in (1.0, 3.0, 1.0):
        run = simulate(ornstein_uhlenbeck(), EulerMaruyama, collect=watched(factor), **RUN)
        values.append(run["watched"].values)
    np.testing.assert_allclose(values[1], 3.0 * values[0], rtol=1e-14)
    np.testing.assert_array_equal(values[2], values[0])
    assert compiled_by(ornstein_uhlenbeck(), EulerMaruyama, collect=watched(3.0)) == 0
    assert compiled_by(ornstein_uhlenbeck(), EulerMaruyama, collect=st.Histogram([0.0, 1.0])) == 1
    assert compiled_by(ornstein_uhlenbeck(), EulerMaruyama, collect=st.Histogram([0.0, 2.0])) == 0  # edges are inputs


@pytest.mark.usefixtures("quick_compiling")
def test_own_statistics_of_one_name_are_told_apart():
    """Classes that a user writes again, with the same fields: what they compute is in their functions."""

    def made(factor):
        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Scaled(st.Moments):
            def values(self, snapshot):
                return factor * snapshot.x

        return Scaled(at=[1.0])

    ends = [
        simulate(pulled(0.375), EulerMaruyama, executor="vmap", collect=made(factor), **RUN)["mean"].values
        for factor in (1.0, 3.0)
    ]
    np.testing.assert_allclose(ends[1], 3.0 * ends[0], rtol=1e-14)
    compiled_by(pulled(0.375), EulerMaruyama, executor="vmap", collect=st.Observable(lambda t, x: x[0], name="end"))
    again = st.Observable(lambda t, x: x[0], name="end")
    assert compiled_by(pulled(0.375), EulerMaruyama, executor="vmap", collect=again) == 0


@pytest.mark.usefixtures("quick_compiling")
def test_host_functions_are_told_apart():
    """What a callback does is not in the trace; two of them must not share a program."""

    def called(function):
        def drift(t, x):
            return jax.pure_callback(function, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="broadcast_all")

        return SDE(drift, lambda t, x: 0.0, 1.0)

    def halve(x):
        return -0.5 * np.asarray(x)

    def double(x):
        return 2.0 * np.asarray(x)

    for function, factor in ((halve, 0.95), (double, 1.2), (halve, 0.95)):
        run = simulate(called(function), EulerMaruyama, collect=st.Moments(at=[1.0]), **RUN)
        np.testing.assert_allclose(run["mean"], factor**10, rtol=1e-12)
    assert compiled_by(called(halve), EulerMaruyama, collect=st.Moments(at=[1.0])) == 0

    @dataclasses.dataclass(frozen=True)
    class Scaled:
        """Two of them compare equal, whatever their factors are."""

        factor: float = dataclasses.field(compare=False)

        def __call__(self, x):
            return self.factor * np.asarray(x)

        def method(self, x):
            return self(x)

    one, other = Scaled(-0.5), Scaled(2.0)
    for function, factor in ((one, 0.95), (other, 1.2), (one.method, 0.95), (other.method, 1.2)):
        run = simulate(called(function), EulerMaruyama, collect=st.Moments(at=[1.0]), **RUN)
        np.testing.assert_allclose(run["mean"], factor**10, rtol=1e-12)
    assert compiled_by(called(other.method), EulerMaruyama, collect=st.Moments(at=[1.0])) == 0


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.usefixtures("quick_compiling")
def test_host_functions_leave_the_precision_of_the_session_as_it_was(session):
    """New threads have that of the session; those of XLA that call the host compute in float64 during the run."""

    def of_a_new_thread(answers):
        asking = threading.Thread(target=lambda: answers.append(jax.config.jax_enable_x64))
        asking.start()
        asking.join()
        return answers

    def drift(t, x):
        return jax.pure_callback(seen, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="broadcast_all")

    def seen(x):
        of_a_new_thread(during)
        return -np.asarray(x)

    (before,), during = of_a_new_thread([]), []
    jax.config.update("jax_enable_x64", session)
    try:
        simulate(SDE(drift, None, 1.0), EulerMaruyama, **RUN)
        assert during[-1] and of_a_new_thread([]) == [session]
    finally:
        jax.config.update("jax_enable_x64", before)


def test_old_programs_make_room(monkeypatch):
    monkeypatch.setattr(vmap, "_compiled", Bounded(2))

    def double(x):
        return 2 * x

    first = vmap.compiled("a", double, 1.0)
    for key in "bc":
        vmap.compiled(key, double, 1.0)
    assert [key for key, *_ in vmap._compiled] == ["b", "c"]
    assert vmap.compiled("a", double, 1.0) is not first
    assert first.call(3.0) == 6.0


def test_jax_arrays_and_numpy_arrays_say_the_same():
    constant = [0.125, 0.5]
    for array in (np.array(constant), jnp.array(constant)):
        problem = SDE(lambda t, x: x * array, lambda t, x: jnp.eye(2), [1.0, 1.0])
        count = compiled_by(problem, EulerMaruyama)
    assert count == 0
