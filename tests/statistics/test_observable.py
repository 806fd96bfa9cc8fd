"""Observables: any function of the state, of time and of each path's own parameters."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, PerPath, simulate
from stodyn import statistics as st
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.models.kubo import kubo
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.warnings import Unbelievable

RUN = dict(t=(0.0, 1.0), dt=0.1, seed=6)


def energy(t, x, p):
    return 0.5 * (x @ x)


@pytest.fixture(scope="module")
def run():
    collect = [
        st.Paths(200, every=5),
        st.Observable(energy, units="J"),
        st.Observable(lambda t, x, p: jnp.array([t, x[0] * x[1], p["beta"]]), name="triple"),
        st.Observable(lambda t, x, p: x[0] > 1.9, name="inside"),
        st.Observable(lambda t, x, p: [x[1]], name="listed"),
    ]
    return simulate(kubo(), Heun, paths=200, block=128, collect=collect, **RUN)


def test_observables_have_mean_variance_and_error_of_their_paths(run):
    x = run["path"].values
    H = 0.5 * (x**2).sum(axis=-1)
    np.testing.assert_allclose(run["energy"], H.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(run["energy_variance"], H.var(axis=0, ddof=1), rtol=1e-9, atol=1e-20)
    np.testing.assert_allclose(run["energy_stderr"], H.std(axis=0, ddof=1) / np.sqrt(200), rtol=1e-9, atol=1e-10)
    assert run["energy"].dims == ("time",)
    assert run["energy"].attrs["units"] == "J"


def test_observables_of_several_entries_have_each_entrys_mean(run):
    x = run["path"].values
    assert run["triple"].dims == ("time", "triple_entry")
    np.testing.assert_allclose(run["triple"][:, 0], run["time"], rtol=1e-15)
    np.testing.assert_allclose(run["triple"][:, 1], (x[..., 0] * x[..., 1]).mean(axis=0), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run["triple"][:, 2], 0.5, rtol=1e-15)
    assert run["triple_variance_stderr"].shape == (3, 3)


def test_probabilities_and_lists(run):
    x = run["path"].values
    p = (x[..., 0] > 1.9).mean(axis=0)
    np.testing.assert_allclose(run["inside"], p, rtol=1e-14)
    np.testing.assert_allclose(run["inside_stderr"], np.sqrt(p * (1 - p) / 199), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(run["listed"], x[..., 1].mean(axis=0), rtol=1e-12, atol=1e-14)
    assert run["listed"].dims == ("time",)


def test_parameters_of_each_path():
    """Without noise x_i(1) = (1 - rate_i h)^10; the function sees rate_i beside it, and the common sigma."""
    rates = np.linspace(0.0, 1.0, 150)
    problem = ornstein_uhlenbeck(rate=PerPath(rates), sigma=0.0)
    watched = st.Observable(lambda t, x, p: jnp.array([x[0] * p["rate"], p["sigma"]]), name="both", at=[1.0])
    found = simulate(problem, EulerMaruyama, paths=150, block=64, collect=watched, **RUN)
    np.testing.assert_allclose(found["both"][0], [np.mean(rates * (1 - 0.1 * rates) ** 10), 0.0], rtol=1e-12)


def test_without_params_and_for_one_number():
    """x is a vector, also where the problem is scalar; a problem without params calls function(t, x)."""
    problem = SDE(lambda t, x: 0.0, lambda t, x: 1.0, 2.0)
    found = simulate(problem, EulerMaruyama, paths=3, collect=st.Observable(lambda t, x: x[0] + t, at=[0.0]), **RUN)
    np.testing.assert_array_equal(found["observable"], [2.0])


def test_a_value_that_is_no_number_is_seen():
    """log of a negative state is NaN: the mean is NaN and not that of the others, and it is said."""
    problem = SDE(lambda t, x: 0.0, lambda t, x: 0.0, PerPath([1.0, -1.0, 2.0]))
    with pytest.warns(Unbelievable, match="observable: not finite"):
        found = simulate(
            problem, EulerMaruyama, paths=3, collect=st.Observable(lambda t, x: jnp.log(x[0]), at=[1.0]), **RUN
        )
    assert np.isnan(found["observable"].item())


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda t, x, p: math.sin(x[0]), TypeError, r"Observable it: .*could not be traced.* with jax\.numpy"),
        (lambda t, x, p: p["mass"], TypeError, r"Observable it: .*KeyError: 'mass'"),
        (lambda t, x, p: jnp.outer(x, x), ValueError, r"Observable it: .* of shape \(1, 1\), expected real numbers"),
        (lambda t, x, p: 1j * x[0], ValueError, r"Observable it: the function returns complex128 of shape \(\)"),
        (lambda t, x, p: x[:0], ValueError, r"Observable it: .* of shape \(0,\)"),
    ],
    ids=["math", "misspelt", "matrix", "complex", "empty"],
)
def test_functions_that_are_refused(function, kind, words):
    with pytest.raises(kind, match=words):
        simulate(ornstein_uhlenbeck(), EulerMaruyama, paths=3, collect=st.Observable(function, name="it"), **RUN)


def test_what_is_no_function_or_name_is_refused():
    with pytest.raises(TypeError, match=r"Observable: expected a function of \(t, x\[, params\]\), got 3"):
        st.Observable(3)
    with pytest.raises(TypeError, match=r"Observable: name must be a word.* got 3"):
        st.Observable(energy, name=3)
