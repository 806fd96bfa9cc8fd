"""A run made ready gives what simulate gives, for any seed, and with other values what they would give."""

import concurrent.futures

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine import spec as specs
from stodyn.engine.program import printed
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

RUN = dict(t=(0.0, 1.0), dt=0.125, paths=100)


def test_it_gives_what_simulate_gives():
    collect = [st.Moments(every=4), st.Paths(3, every=4)]
    ready = sd.prepare(ornstein_uhlenbeck(), "Heun", collect=collect, **RUN)
    for seed in (1, 2):
        run, plain = ready(seed=seed), sd.simulate(ornstein_uhlenbeck(), "Heun", collect=collect, seed=seed, **RUN)
        for name in plain.data_vars:
            np.testing.assert_array_equal(run[name], plain[name])
        arrays = ready.arrays(seed=seed)
        assert set(arrays) == set(plain.data_vars)
        np.testing.assert_array_equal(arrays["variance"], plain["variance"])
        assert sd.provenance(run)["seed"] == seed


def test_calls_in_turn_and_from_threads_do_not_disturb_each_other():
    """Every thread has its own memory, which the runs that it computes share; here with paths that stop and without."""
    problem, level = sd.SDE(lambda t, x: 0.3 - x, lambda t, x: 0.8, sd.noise.Normal(0.0, 0.3)), sd.Level(0.7)
    free = sd.prepare(problem, "Heun", collect=st.Paths(100, every=1), **RUN)
    stopped = sd.prepare(problem, "Heun", stop=sd.Stop(level), **RUN)
    alone = [(free.arrays(seed=seed)["path"], stopped.arrays(seed=seed)["stop_time"]) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pairs = [(pool.submit(free.arrays, seed=k % 4), pool.submit(stopped.arrays, seed=k % 4)) for k in range(24)]
        for k, (paths, times) in enumerate(pairs):
            np.testing.assert_array_equal(paths.result()["path"], alone[k % 4][0])
            np.testing.assert_array_equal(times.result()["stop_time"], alone[k % 4][1])


def test_nothing_is_looked_at_again_for_another_seed(monkeypatch):
    ready = sd.prepare(ornstein_uhlenbeck(), "Heun", **RUN)
    monkeypatch.setattr(specs.traces, "trace", lambda *arguments: pytest.fail("traced again"))
    ready(seed=3)


def test_other_values_are_those_of_another_problem():
    ready = sd.prepare(ornstein_uhlenbeck(rate=1.0), "Heun", **RUN)
    params = {"rate": 3.0, "sigma": 0.25}
    run = ready(seed=1, params=params, start=2.0)
    plain = sd.simulate(ornstein_uhlenbeck(3.0, 0.25, 2.0), "Heun", seed=1, **RUN)
    np.testing.assert_array_equal(run["mean"], plain["mean"])
    np.testing.assert_array_equal(
        ready(seed=1)["mean"], sd.simulate(ornstein_uhlenbeck(), "Heun", seed=1, **RUN)["mean"]
    )


def test_what_hung_on_the_old_values_is_proved_again():
    """Noise that commutes with the old parameters and not with the new ones: Milstein must refuse these."""

    def diffusion(t, x, p):
        return jnp.stack([jnp.stack([x[1], 0.0 * p]), jnp.stack([0.0 * p, p * x[0]])])

    problem = sd.SDE(lambda t, x, p: -x, diffusion, [1.0, 2.0], params=0.0)
    ready = sd.prepare(problem, "Milstein", **RUN)
    ready(seed=1)
    with pytest.raises(ValueError, match="Milstein"):
        ready(seed=1, params=1.0)


def test_wrong_calls_of_a_prepared_run_are_named():
    ready = sd.prepare(ornstein_uhlenbeck(), "Heun", **RUN)
    with pytest.raises(ValueError, match="params: expected the structure"):
        ready(seed=1, params=[1.0])
    with pytest.raises(ValueError, match="seed: expected a whole number"):
        ready(seed=-1)
    with pytest.raises(ValueError, match="paths: expected a whole number"):
        sd.prepare(ornstein_uhlenbeck(), "Heun", **RUN | dict(paths=0))


def particles(paths):
    """Noise with parameters and starts of each path, two components, in blocks the last of which is not full."""
    rates = sd.PerPath(np.linspace(1.0, 2.0, paths))
    return sd.SDE(
        lambda t, x, p: -p["rate"] * x + p["push"], lambda t, x, p: jnp.diag(1.0 + 0.1 * x),
        lambda rng, size: rng.normal(size=(size, 2)), params={"rate": rates, "push": 0.5},
    )  # fmt: skip


def at_the_end(ready, **options):
    return ready.arrays(**options)["path"][:, 0].T


def test_the_raw_states_are_those_of_the_paths():
    """Also by a method whose first steps are others, and into the caller's array."""
    paths = 1100
    whole = dict(collect=st.Paths(paths, at=[1.0]), block=1024, **RUN | {"paths": paths})
    for problem, method in ((particles(paths), "Heun"), (ornstein_uhlenbeck(), "AB3")):
        ready = sd.prepare(problem, method, **whole)
        out = np.empty((problem.n, paths))
        for seed in (1, 2):
            assert ready.raw(seed=seed, out=out) is out
            np.testing.assert_array_equal(out, at_the_end(ready, seed=seed))


def test_raw_calls_in_several_parts_begin_at_the_start_again(monkeypatch):
    """A program is called for some steps at a time; the next seed begins with the first of them."""
    ready = sd.prepare(ornstein_uhlenbeck(), "Heun", collect=st.Paths(100, at=[1.0]), **RUN)
    expected = [at_the_end(ready, seed=seed) for seed in (1, 2)]
    monkeypatch.setattr(printed, "SECONDS", 0.0)
    for seed, states in zip((1, 2), expected, strict=True):
        np.testing.assert_array_equal(ready.raw(seed=seed), states)


def test_raw_calls_take_other_starts_and_parameters():
    ready = sd.prepare(ornstein_uhlenbeck(rate=1.0), "Heun", collect=st.Paths(100, at=[1.0]), **RUN)
    other = {"rate": 3.0, "sigma": 0.25}
    states = ready.raw(seed=3, params=other, start=np.full((1, 100), 2.0))
    np.testing.assert_array_equal(states, at_the_end(ready, seed=3, params=other, start=2.0))
    np.testing.assert_array_equal(ready.raw(seed=3), at_the_end(ready, seed=3))
    own = sd.prepare(particles(100), "Heun", **RUN)
    rates = {"rate": np.ones(100), "push": 0.0}
    cloud = own.raw(seed=1, params=rates, start=np.zeros((2, 100)))
    np.testing.assert_array_equal(own.raw(seed=1, params=rates, start=cloud)[:, 7:8], own.raw(
        seed=1, params={"rate": np.arange(100) - 6.0, "push": 0.0}, start=cloud)[:, 7:8])  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(seed=-1), "seed: expected a whole number >= 0"),
        (dict(start=np.zeros(100)), r"start: expected an array of shape \(1, 100\), got \(100,\)"),
        (dict(out=np.zeros((2, 100))), r"out: expected an array of shape \(1, 100\)"),
        (dict(params={"rate": 1.0}), "params: expected the structure"),
        (dict(params={"rate": np.ones(3), "sigma": 1.0}), r"params: expected an array of shape \(\), got \(3,\)"),
    ],
)
def test_raw_calls_refuse_what_does_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        sd.prepare(ornstein_uhlenbeck(), "Heun", **RUN).raw(**{"seed": 1} | options)


def test_raw_calls_say_where_they_are_not_possible():
    explodes = sd.SDE(lambda t, x: x**3, lambda t, x: 0.0 * x, sd.PerPath([1e100, 0.0]))
    with pytest.raises(sd.PathsFailed, match="1 of 2 paths failed, the first is path 0"):
        sd.prepare(explodes, "EulerMaruyama", **RUN | {"paths": 2}).raw(seed=1)
    recorded = sd.prepare(explodes, "EulerMaruyama", on_failure="record", **RUN | {"paths": 2}).raw(seed=1)
    assert np.isfinite(recorded).tolist() == [[False, True]]
    with pytest.raises(ValueError, match="stop= ends some before it"):
        sd.prepare(ornstein_uhlenbeck(), "Heun", stop=sd.Stop(sd.Level(2.0)), **RUN).raw(seed=1)
    checked = sd.SDE(lambda t, x, p: -x, lambda t, x, p: jnp.stack([x, -p * x], 1), [1.0, 2.0], params=2.0)
    with pytest.raises(ValueError, match="where the structure of its noise is proved"):
        sd.prepare(checked, "Milstein", **RUN).raw(seed=1, params=1.0)
