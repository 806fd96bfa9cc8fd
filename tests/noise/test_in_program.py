"""Normals drawn inside a program are the host's: the same numbers, the same state after them, the same runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.methods.srk import SRA1
from stodyn.models.lorenz import lorenz
from stodyn.noise import in_program
from stodyn.noise.normals import Normals

pytestmark = pytest.mark.skipif(not in_program.available(), reason="programs cannot draw normals on this machine")


@pytest.mark.parametrize("cuts", [(100_000,), (1, 7, 0, 50_000, 49_992)])
def test_the_numbers_are_those_of_the_host_however_the_stream_is_cut(cuts):
    expected = np.empty(100_000)
    Normals(np.random.SFC64(3)).fill(expected)
    draw = jax.jit(lambda state, count: in_program.fill(state, count, (100_000,)))
    state, parts = np.random.SFC64(3).state["state"]["state"], []
    for count in cuts:
        state, drawn = draw(state, jnp.asarray(count))
        parts.append(np.asarray(drawn)[:count])
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_a_loop_draws_a_stream_in_order():
    def add(_, carry):
        state, total = carry
        state, drawn = in_program.fill(state, 4096, (64, 64))
        return state, total + drawn.sum(axis=1)

    state = np.random.SFC64(9).state["state"]["state"]
    _, total = jax.jit(lambda state: jax.lax.fori_loop(0, 50, add, (state, jnp.zeros(64))))(state)
    expected = np.empty((50, 64, 64))
    Normals(np.random.SFC64(9)).fill(expected)
    np.testing.assert_allclose(total, expected.sum(axis=(0, 2)), rtol=0, atol=1e-11)


def test_a_run_is_the_same_where_the_host_fills(monkeypatch):
    def run():
        return sd.simulate(lorenz(noise="additive"), SRA1, t=(0, 0.3), dt=0.01, paths=50, seed=2,
                           collect=[st.Moments(every=7), st.Paths(3, at=[0.05, 0.3])])  # fmt: skip

    inside = run()
    monkeypatch.setattr(in_program, "available", lambda: False)
    outside = run()
    for name in ("mean", "variance", "path"):
        np.testing.assert_array_equal(inside[name], outside[name])
