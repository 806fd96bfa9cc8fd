"""Mean reactions of joints: their mean and variance, and what is refused."""

import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.models.jointed import JOINTED_PENDULUM

PENDULUM = JOINTED_PENDULUM(impulses=True).problem


def test_the_variance_of_mean_reactions_falls_like_one_over_the_time():
    """ΔΛ/Δ at the start of the pendulum has the mean λ_d and the variance μ²/Δ + O(1): within 5 standard errors, one
    false alarm in a million."""
    Δ, λ, μ = 0.004, 0.25 + 9.81 * np.cos(1.0), 1.5 * np.sin(1.0)
    run = sd.simulate(PENDULUM, t=(0.0, Δ), dt=Δ / 4, paths=20_000, seed=4, collect=st.Reaction(Δ, at=[Δ])).isel(
        time=-1
    )
    assert run["constraint"].values.tolist() == ["rod"]
    assert abs(run["reaction"][0] - λ) < 5.0 * run["reaction_stderr"][0] + 0.02
    assert abs(run["reaction_variance"][0] * Δ - μ**2) < 5.0 * run["reaction_variance_stderr"][0] * Δ + 0.005


def test_windows_follow_each_other_and_the_last_whole_one_is_seen():
    run = sd.simulate(PENDULUM, t=(0.0, 0.1), dt=0.01, paths=3, seed=4,
                      collect=[st.Reaction(0.04, every=1), st.Paths(3, every=1)])  # fmt: skip
    Λ = run["path"].values[..., -1].mean(axis=0)
    found = run["reaction"].values[:, 0]
    assert np.isnan(found[:4]).all()
    assert np.allclose(found[4:8], (Λ[4] - Λ[0]) / 0.04, rtol=1e-12)
    assert np.allclose(found[8:], (Λ[8] - Λ[4]) / 0.04, rtol=1e-12)


def test_without_impulses_or_a_time_there_is_no_reaction():
    with pytest.raises(ValueError, match="this run shows no impulses"):
        sd.simulate(
            JOINTED_PENDULUM.problem, t=(0.0, 0.1), dt=0.01, paths=2, seed=0, collect=st.Reaction(0.02, every=1)
        )
    with pytest.raises(ValueError, match="is longer than the run"):
        sd.simulate(PENDULUM, t=(0.0, 0.1), dt=0.01, paths=2, seed=0, collect=st.Reaction(1.0, every=1))
    with pytest.raises(ValueError, match="time must be a positive number"):
        st.Reaction(0.0)
