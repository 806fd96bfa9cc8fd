"""Kernels of large systems, loops over the entries of arrays: printed for the processor, a block has one thread."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import on_card
from stodyn.engine.program.as_loops import Loops
from stodyn.engine.program.kernel import LaunchResults
from stodyn.engine.program.watching import watched
from stodyn.engine.spec import describe
from stodyn.methods.catalogue import find
from stodyn.numerics.printing import compiling

N, STEPS, H = 401, 7, 0.01
RUN = dict(t=(0.0, STEPS * H), dt=H, seed=4, paths=9, device=jax.devices("cpu"))


def lorenz(**options):
    """Lorenz's 96 model with noise of its own in every component; its forcing is a parameter."""

    def drift(t, x, forcing):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + forcing

    def diffusion(t, x, forcing):
        return sd.diagonal(0.5 + 0.0 * x)

    return sd.SDE(drift, diffusion, **dict(start=np.linspace(1.0, 3.0, N), params=8.0) | options)


def drawn(rng, size):
    return rng.normal(2.0, 0.5, size=(size, N))


def run_of(problem, method="Heun", **options):
    run = sd.simulate(problem, method, **RUN | dict(collect=st.Paths(9, every=1)) | options)
    assert "over arrays per step" in sd.provenance(run)["executor_reason"]
    return run


@pytest.mark.brief("AB2", "SRA1")
@pytest.mark.parametrize("method", ["Heun", "AB2", "SRA1"])
def test_a_path_has_the_bits_of_the_processors_programs(method):
    """Odd numbers of normals, of which one pair reaches from step to step; starting steps; two streams."""
    problem = lorenz(start=drawn, params=sd.PerPath(np.linspace(6.0, 9.0, 9)))
    run = run_of(problem, method)
    for path in (0, 8):
        np.testing.assert_array_equal(sd.replay(problem, method, run, path)["path"], run["path"][path])


def test_calls_and_blocks_are_cut_anywhere(monkeypatch):
    problem = lorenz(start=drawn, params=sd.PerPath(np.linspace(6.0, 9.0, 9)))
    whole = run_of(problem)
    monkeypatch.setattr("stodyn.engine.program.cards.OPERATIONS", 1.0)  # a step a call
    monkeypatch.setattr("stodyn.engine.program.cards.SECONDS", 0.0)
    np.testing.assert_array_equal(run_of(problem)["path"], whole["path"])


def test_statistics_of_many_components_and_of_one_number():
    edges = np.linspace(-10.0, 20.0, 6)
    collect = [st.Moments(every=STEPS), st.Paths(9, every=STEPS), st.Histogram(edges, at=[STEPS * H]),
               st.Observable(lambda t, x, p: jnp.sum(x**2), name="energy", every=STEPS)]  # fmt: skip
    run = run_of(lorenz(start=drawn), collect=collect)
    x = run["path"].values
    np.testing.assert_allclose(run["mean"], x.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(run["variance"], x.var(axis=0, ddof=1), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(run["energy"], (x**2).sum(axis=2).mean(axis=0), rtol=1e-13)
    assert "covariance" not in run
    counts, _ = np.histogram(x[:, -1, 0], edges)
    np.testing.assert_allclose(run["density"][-1, 0] * 9 * 6.0, counts, rtol=1e-12)


def test_a_covariance_where_it_is_asked_for():
    run = run_of(lorenz(start=drawn), collect=[st.Moments(every=STEPS, covariance=True), st.Paths(9, every=STEPS)])
    x = run["path"].values[:, -1]
    np.testing.assert_allclose(run["covariance"][-1], np.cov(x.T), rtol=1e-9, atol=1e-12)


def test_failures_are_found_at_their_step():
    """One component of one path is far enough out to overflow, at the second step."""

    def start(rng, size):
        x = np.ones((size, N))
        x[np.arange(size) == 7, 200] = 1e200
        return x

    run = run_of(lorenz(start=start), "EulerMaruyama", on_failure="record", collect=st.Moments(every=1))
    assert run["failed_path"].values.tolist() == [7]
    assert run["failure_time"].values.tolist() == [2 * H]
    assert run["paths_used"].values.tolist() == [9, 9, *[8] * (STEPS - 1)]
    with pytest.raises(sd.PathsFailed, match=r"t = 0\.02"):
        run_of(lorenz(start=start), "EulerMaruyama")


def test_the_text_does_not_grow_with_the_system():
    """As PTX: threads share a loop's entries, and wait for each other behind it."""
    texts = []
    for n in (500, 50_000):

        def drift(t, x):
            return jnp.roll(x, -1) * jnp.roll(x, 1) - x

        problem = sd.SDE(drift, lambda t, x: sd.diagonal(x), np.ones(n))
        spec = describe(problem, find("Heun"), (0.0, 1.0), 0.1, st.Moments(every=5), "float64")
        source = Loops(spec, watched(spec))
        kept = LaunchResults(source, spec.statistics)
        texts.append(compiling.ptx(on_card.text(source, kept)))
    small, large = (len(text.splitlines()) for text in texts)
    assert abs(large - small) <= 0.02 * small
    step = texts[1][texts[1].index(".entry run(") :]
    assert len(re.findall(r"bar\.sync", step)) >= 3  # behind the normals, the predictor and the corrector


@pytest.mark.parametrize("n", [20, N])
def test_implicit_steps_of_large_systems_go_to_vmap_with_the_reason(n):
    """Those of 20 components too: as scalars their elimination would be written out for minutes."""
    problem = sd.SDE(lambda t, x: -(x**3) + jnp.roll(x, 1), lambda t, x: sd.diagonal(0.2 + 0.0 * x), np.ones(n))
    with pytest.raises(ValueError, match=r"executor=\"printed\" is not possible .*no iterations such as Newton's"):
        sd.simulate(problem, "ImplicitMidpoint", executor="printed", **RUN)


def test_blocks_hold_as_many_paths_as_keep_a_card_busy():
    spec = describe(lorenz(), find("Heun"), (0.0, 1.0), 0.1, st.Moments(every=5), "float64")
    source = Loops(spec, watched(spec))
    assert [on_card.paths_of_a_block(source, 128, lanes) for lanes in (128, 512, 1024, 100_352)] == [4, 4, 8, 8]
    assert on_card.threads_of_a_block(source) == 1024


def test_normals_take_whole_pairs_of_rows_wherever_they_begin():
    assert on_card.rows_of_normals((("W", 3), ("Z", 4), ("U", 1))) == 4 + 6 + 2


def test_components_that_statistics_observe_are_saved_once():
    """Moments read the components, which are saved anyway; only the cubes are saved beside them."""
    collect = [st.Moments(every=5), st.Observable(lambda t, x, p: x[:3] ** 3, name="cube")]
    spec = describe(lorenz(), find("Heun"), (0.0, 1.0), 0.1, collect, "float64")
    assert len(Loops(spec, watched(spec)).saved_dtypes) == N + 3
