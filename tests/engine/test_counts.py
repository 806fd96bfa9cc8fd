"""Histograms are counted in machine code: the counts are NumPy's, whatever stands in lanes that do not count."""

import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import counts


@pytest.mark.parametrize("edges", [2, 4, 7], ids="{} edges".format)
def test_counts_below_edges_are_those_of_numpy(edges):
    rng = np.random.default_rng(edges)
    seen, sound = rng.normal(size=(3, 5, 32)), rng.random((3, 32)) < 0.8
    seen[0, 0, :4] = np.inf, -np.inf, np.nan, 0.5
    sound[0, :4] = True
    levels, look = np.append(0.5, np.sort(rng.uniform(0.6, 2.0, edges - 1))), np.array([0, 2])
    found, total = counts.below(seen, 2, sound, look, levels)
    expected = (seen[look][:, :2, :, None] < levels) & sound[look][:, None, :, None]
    np.testing.assert_array_equal(found, expected.sum(axis=2))
    np.testing.assert_array_equal(total, sound[look].sum(axis=1))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_histogram_of_a_run_counts_its_paths(dtype):
    problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.7 + 0.0 * x, 1.0)
    edges = np.linspace(-1.0, 2.0, 10)
    kept = [st.Histogram(edges, every=2), st.Paths(100, every=2)]
    run = sd.simulate(problem, "EulerMaruyama", t=(0.0, 1.0), dt=0.25, paths=100, seed=1, collect=kept, dtype=dtype)
    x = run["path"].transpose("time", "component", ...).values.reshape(3, 1, 100)
    expected = (x[..., None] < edges.astype(dtype)).mean(axis=2)
    np.testing.assert_array_equal(run["cumulative"].values, expected)
    assert sd.provenance(run)["executor"] == "printed"
