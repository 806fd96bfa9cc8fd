"""Steps that add to places which they compute, as particles deposit their charge on a grid."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st

CELLS = 64


def particles(count):
    def drift(t, x):
        cell = jnp.floor(CELLS * jnp.mod(x, 1.0)).astype(int)
        return -0.1 * jnp.zeros(CELLS).at[cell].add(x)[cell] / count

    return sd.SDE(drift, lambda t, x: sd.diagonal(0.1 + 0.0 * x), np.linspace(0.0, 3.0, count))


@pytest.mark.parametrize(("count", "form"), [(40, "scalar operations"), (300, "loops over arrays")])
def test_deposits_are_printed(count, form):
    """By a few thousand operations, or as a loop over the particles; they were written out cell by cell for every one
    (94297 operations for 40, 46 s before a run of 500, which ended in vmap)."""
    run = dict(t=(0.0, 0.5), dt=0.25, paths=8, seed=1, collect=st.Moments(at=[0.5]))
    printed, mapped = (sd.simulate(particles(count), "EulerMaruyama", executor=way, **run) for way in ("auto", "vmap"))
    record = sd.provenance(printed)
    assert record["executor"] == "printed" and form in record["executor_reason"]
    np.testing.assert_allclose(printed["mean"].values, mapped["mean"].values, rtol=1e-13)
