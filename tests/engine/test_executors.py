"""Which steps run in lanes and which under vmap, and that both compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn.engine import batch
from stodyn.engine.simulate import set_up
from stodyn.methods.implicit import ImplicitMidpoint

A = -2.0 * np.eye(10) + 0.1 * np.ones((10, 10))


def coupled(n):
    """dx = (A x - x³) dt + 0.1 dW, A full: Newton eliminates a full matrix of n unknowns."""
    return sd.SDE(lambda t, x: A[:n, :n] @ x - x**3, lambda t, x: 0.1 * jnp.eye(n), np.ones(n), calculus="stratonovich")


@pytest.fixture(scope="module")
def traced():
    with jax.enable_x64(True):
        return {n: batch.trace(coupled(n), ImplicitMidpoint) for n in (3, 5, 10)}


def test_many_operations_run_in_lanes_only_where_the_run_is_worth_their_compiling(traced):
    """Of ten unknowns: more than 1500 operations, which need not be counted to see it, and fewer than 6000."""
    run, reason = batch.executor(traced[10], 64, path_steps=batch.WORTH_COMPILING - 1)
    assert run.name == "vmap" and "about" in reason and "path-steps" in reason
    run, reason = batch.executor(traced[10], 64, path_steps=batch.WORTH_COMPILING)
    assert run.name == "lanes" and batch.LANE_OPERATIONS < int(reason.split()[0]) < batch.ELIMINATING_OPERATIONS


def test_few_operations_run_in_lanes(traced):
    for n in (3, 5):
        run, reason = batch.executor(traced[n], 64, path_steps=1)
        assert run.name == "lanes" and int(reason.split()[0]) < batch.LANE_OPERATIONS


def test_elimination_by_rows_gives_under_vmap_what_it_gives_in_lanes():
    runs = [
        sd.simulate(coupled(5), ImplicitMidpoint, t=(0, 0.5), dt=0.1, paths=16, seed=1, executor=executor)["mean"]
        for executor in ("lanes", "vmap")
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-13)


def test_a_run_that_may_grow_is_run_the_same_way_whatever_its_paths(monkeypatch):
    """As a run with a ledger: blocks that are added later must be computed as those that are there."""
    monkeypatch.setattr(batch, "LANE_OPERATIONS", 500)

    def way(paths, grows):
        run = (coupled(5), None, ImplicitMidpoint, (0.0, 1.0), 0.1, paths, 1, None, "float64", "auto", None, (), grows)
        return set_up(*run)[0].chosen[0].name

    few, many = 10, batch.WORTH_COMPILING // 10
    assert (way(few, grows=False), way(many, grows=False)) == ("vmap", "lanes")
    assert way(few, grows=True) == way(many, grows=True) == "lanes"
