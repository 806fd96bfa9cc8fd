"""Stochastic α for structures whose equations are sparse and have no narrow band: a grid of masses."""

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st

SIDE = 5
N = SIDE**2
PUSHED = np.eye(N)[:, [7]]


def laplacian():
    line = 2.0 * np.eye(SIDE) - np.eye(SIDE, k=1) - np.eye(SIDE, k=-1)
    return np.kron(line, np.eye(SIDE)) + np.kron(np.eye(SIDE), line)


def stretched(x):
    return (
        4.0 * x
        - sum(
            jnp.roll(jnp.pad(x.reshape(SIDE, SIDE), 1), shift, axis)[1:-1, 1:-1] for shift in (1, -1) for axis in (0, 1)
        ).ravel()
    )


def test_a_grid_given_by_its_force_has_the_paths_of_its_matrices():
    """By Newton with sparse elimination, and by one solve with the structure's matrices."""
    given = sd.Mechanical(
        lambda t, x, v: -50.0 * stretched(x) - 0.4 * stretched(v), lambda t, x, v: jnp.asarray(PUSHED),
        start=(np.zeros(N), np.zeros(N)),
    )  # fmt: skip
    matrices = sd.Mechanical.from_matrices(np.ones(N), 0.4 * laplacian(), 50.0 * laplacian(), noise=PUSHED)
    run = dict(t=(0, 0.5), dt=0.05, paths=3, seed=2, collect=st.Paths(3, every=1))
    found, expected = (sd.simulate(problem, "StochasticAlpha", **run) for problem in (given, matrices))
    assert "loops over arrays" in sd.provenance(found)["executor_reason"]
    np.testing.assert_allclose(found["path"], expected["path"], rtol=0, atol=1e-9)
    assert np.abs(found["path"]).max() > 0.01
