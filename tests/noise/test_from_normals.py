"""Starts as functions of normal numbers: the law they ask for, and the same draws however paths are run."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr
from scipy import stats

import stodyn as sd

RUN = dict(t=(0, 0.5), dt=0.25, seed=3, collect=sd.statistics.Paths(40, every=1))


def curved(z):
    return jnp.stack([jnp.exp(0.5 * z[0]), ndtr(z[1]) - 0.5 * z[2]])


def problem(start):
    return sd.SDE(lambda t, x: -x, lambda t, x: 0.1 * jnp.eye(2), start)


def test_values_made_of_normals_have_their_law():
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-4 each, and no correlation between normals or paths (4 errors)."""
    uniform = np.asarray(sd.from_normals(ndtr, 3).of_paths(5, 0, 20_000))
    for column in uniform.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
    flat = uniform.ravel()
    for apart in (1, 2, 3):
        assert abs(np.corrcoef(flat[:-apart], flat[apart:])[0, 1]) < 4 / np.sqrt(flat.size)


def test_a_path_has_its_start_in_any_block_and_on_a_card():
    start = sd.from_normals(curved, 3)
    whole = start.of_paths(3, 0, 40)
    np.testing.assert_array_equal(start.of_paths(3, 17, 40), whole[17:])
    for options in ({}, {"block": 16}, {"device": jax.devices("cpu")}):
        run = sd.simulate(problem(start), "EulerMaruyama", paths=40, **RUN, **options)
        np.testing.assert_array_equal(run["path"].isel(time=0).transpose("number", "component"), whole)


def test_a_run_on_a_card_is_replayed_from_its_starts():
    asked = problem(sd.from_normals(curved, 3))
    run = sd.simulate(asked, "EulerMaruyama", paths=40, **RUN, device=jax.devices("cpu"))
    again = sd.replay(asked, "EulerMaruyama", run, 33)["path"].transpose("component", "time")
    np.testing.assert_allclose(again, run["path"].isel(number=33).transpose("component", "time"), rtol=1e-14)


def test_hamiltonian_starts_and_float32():
    system = sd.Hamiltonian(lambda t, q, p: 0.5 * (q**2 + p**2), start=sd.from_normals(curved, 3))
    for device in ("cpu", jax.devices("cpu")):
        run = sd.simulate(system, "StoermerVerlet", paths=40, **RUN, dtype="float32", device=device)
        expected = system.start.of_paths(3, 0, 40).astype(np.float32)
        np.testing.assert_array_equal(run["path"].isel(time=0).transpose("number", "component"), expected)


@pytest.mark.parametrize("kind", ["SDE", "Mechanical"])
def test_the_start_of_a_filter_is_counted_off_behind_that_of_the_system_it_drives(kind):
    """By unit normals: the covariance of the whole start, the system's own and the filter's stationary one."""
    noise = sd.noise.coloured.gauss_markov2(1.0, 2.0, 0.3)
    own = sd.from_normals(lambda z: jnp.array([1.0, 2 * z[0]]), 1)
    quiet = (
        sd.SDE(lambda t, x: -x, None, own)
        if kind == "SDE"
        else sd.Mechanical(lambda t, x, v: -x, None, own, names=["x"])
    )
    system = sd.with_noise(quiet, noise, into=np.eye(quiet.n)[:, :1] if kind == "SDE" else [[1.0]])
    start = system.start_from_normals
    fixed = start.function(jnp.zeros(start.normals))
    root = np.array([start.function(z) - fixed for z in np.eye(start.normals)])
    expected = np.zeros((4, 4))
    expected[1, 1], expected[2:, 2:] = 4.0, noise.state_covariance
    np.testing.assert_allclose(root.T @ root, expected, atol=1e-14)
    np.testing.assert_array_equal(fixed, [1.0, 0.0, 0.0, 0.0])
    run = sd.simulate(system, "StochasticAlpha" if kind == "Mechanical" else "Heun", paths=40, **RUN)
    drawn = run["path"].isel(time=0).transpose("number", "component")
    np.testing.assert_array_equal(drawn, start.of_paths(3, 0, 40))


def test_a_pickled_source_gives_the_same_values():
    start = pickle.loads(pickle.dumps(sd.from_normals(curved, 3)))
    np.testing.assert_array_equal(start.of_paths(1, 0, 4), sd.from_normals(curved, 3).of_paths(1, 0, 4))


@pytest.mark.parametrize(
    "function, normals, error, says",
    [
        (curved, 0, ValueError, "normals must be a whole number from 1 on, got 0"),
        (curved, True, ValueError, "got True"),
        (3.0, 2, TypeError, "function must be a function of 2 normal numbers"),
        (lambda z: (z, z[:1]), 2, TypeError, "could not be traced by JAX"),
        (lambda z: float(z[0]), 2, TypeError, "Write it with jax.numpy"),
    ],
)
def test_what_cannot_be_drawn(function, normals, error, says):
    with pytest.raises(error, match=says):
        sd.from_normals(function, normals)


def test_a_start_of_another_shape():
    with pytest.raises(ValueError, match="drift: returned shape"):
        sd.SDE(lambda t, x: -x[:2], lambda t, x: jnp.eye(2), sd.from_normals(lambda z: z, 3))
