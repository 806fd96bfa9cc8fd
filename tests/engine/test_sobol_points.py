"""Runs with Sobol points: the same expectations, smaller errors, told from independent randomisations."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.warnings import HeavyTailed

RUN = dict(t=(0.0, 1.0), dt=0.125, paths=4096, seed=1)
END = st.Moments(at=1.0)


def test_errors_are_those_of_the_randomisations():
    """Euler's OU from 1 in 8 steps of 1/8: mean (7/8)^8, variance σ² h Σ (7/8)^2k. Within 12 standard errors of 15
    degrees of freedom (once in a million), which are below a fifth of those of pseudo-random points."""
    energy = st.Observable(lambda t, x, p: x[0] ** 2, name="square", at=1.0)
    problem = ornstein_uhlenbeck(1.0, 1.0, 1.0)
    net = sd.simulate(problem, "EulerMaruyama", points="sobol", collect=[END, energy], **RUN)
    random = sd.simulate(problem, "EulerMaruyama", collect=[END, energy], **RUN)
    mean, variance = 0.875**8, 0.125 * sum(0.875 ** (2 * k) for k in range(8))
    for name, exact in (("mean", mean), ("variance", variance), ("square", mean**2 + variance)):
        error = float(net[f"{name}_stderr"].squeeze())
        assert abs(float(net[name].squeeze()) - exact) < 12 * error < 2.4 * float(random[f"{name}_stderr"].squeeze())
    assert "Sobol" in sd.provenance(net)["normals"] and int(net["paths_used"][0]) == 4096


def test_the_same_bits_in_any_blocks_of_one_width(tmp_path):
    runs = [
        sd.simulate(ornstein_uhlenbeck(), points="sobol", collect=END, block=1024, threads=n, **RUN) for n in (1, 3)
    ]
    kept = sd.simulate(ornstein_uhlenbeck(), points="sobol", collect=END, block=1024, ledger=tmp_path, **RUN)
    for run in (*runs, kept, sd.load(tmp_path)):
        np.testing.assert_array_equal(run["mean_stderr"], runs[0]["mean_stderr"])
    with pytest.raises(ValueError, match="normals was"):
        sd.simulate(ornstein_uhlenbeck(), collect=END, block=1024, ledger=tmp_path, **RUN)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": "halton"}, 'points: expected "random" or "sobol"'),
        ({"paths": 1000}, "paths: Sobol points come in 16 randomisations"),
        ({"paths": sd.until(error=1.0)}, "paths: Sobol points come in 16 randomisations"),
        ({"collect": st.Paths(3)}, 'points: "sobol" is for averages'),
        ({"device": "auto"}, "points: Sobol points are made on the processor"),
    ],
)
def test_what_sobol_points_cannot_do_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        sd.simulate(ornstein_uhlenbeck(), **(RUN | {"points": "sobol"} | options))


def test_what_is_said_of_standard_errors_from_randomisations():
    """exp 2W has the kurtosis 9e6: the 16 means tell little, and that is said; those of W tell by Student's 2.13."""
    brownian = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
    tails = st.Observable(lambda t, x: jnp.exp(2.0 * x[0]), name="tails", at=[1.0])
    options = dict(t=(0, 1), dt=0.5, seed=1, paths=1024, points="sobol")
    with pytest.warns(HeavyTailed, match="the standard error of tails is dominated by rare large values"):
        sd.simulate(brownian, "EulerMaruyama", collect=[tails], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = sd.simulate(brownian, "EulerMaruyama", collect=[st.Moments(at=[1.0])], **options)
    assert "2.13" in sd.provenance(run)["stderr"]
