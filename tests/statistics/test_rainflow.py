"""Damage of paths counted inside a run, against closed forms of known waves and counts of stored paths."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.analysis import fatigue
from stodyn.methods.explicit import EulerMaruyama

A = np.random.default_rng(1).standard_normal((200, 2))
PERIOD, PERIODS = 2.0 * np.pi, 4
FROZEN = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: jnp.zeros((2, 1)), sd.PerPath(A))
GRID = dict(t=(0, PERIODS * PERIOD), dt=PERIOD / 20, seed=1)


def wave(t, x):
    return x[0] * jnp.cos(t) + x[1] * jnp.sin(t)


def test_damage_of_random_waves_is_what_their_cycles_do():
    """n periods of R cos(t - φ) hold 2n - 1 half cycles of the amplitude R, and one from either end to a turn."""
    collect = st.Rainflow(wave, curve=(10.0, 3.0), edges=[0.0, 1e-9, 100.0])
    run = sd.simulate(FROZEN, EulerMaruyama, paths=200, collect=collect, block=64, **GRID)
    R, s = np.hypot(*A.T), A[:, 0]
    each = ((PERIODS - 0.5) * R**3 + 0.5 * ((R - s) / 2) ** 3 + 0.5 * ((R + s) / 2) ** 3) / 10.0
    assert float(run["damage"]) == pytest.approx(each.mean(), rel=2e-4)
    assert float(run["damage_std"]) == pytest.approx(each.std(ddof=1), rel=2e-4)
    assert float(run["damage_stderr"]) == pytest.approx(each.std(ddof=1) / np.sqrt(200), rel=2e-4)
    np.testing.assert_allclose(run["damage_cycles"], [0.0, PERIODS + 0.5])
    rate = float(run["damage_rate"])
    assert rate == pytest.approx(float(run["damage"]) / (PERIODS * PERIOD))
    law = fatigue.narrow_band((1.0, 1.0, 1.0, 1.0), (10.0, 3.0))  # σ = 1, one frequency: ends apart, it is exact
    assert rate == pytest.approx(law, abs=5 * float(run["damage_rate_stderr"]) + 0.13 * law)


def test_counts_are_those_of_the_stored_paths():
    """Where noise enters the responses nothing is known between the steps; from a later time on, of two responses."""
    ou = sd.SDE(lambda t, x: -x, lambda t, x: jnp.eye(2), np.zeros(2), structure="additive")
    collect = [st.Rainflow([0, 1], curve=(1e3, 4.0), after=1.0), st.Paths(50, every=1)]
    run = sd.simulate(ou, EulerMaruyama, t=(0, 4), dt=0.05, seed=1, paths=50, collect=collect)
    later = run["path"].values[:, 20:]
    for k in range(2):
        each = fatigue.damage(later[:, :, k].T, (1e3, 4.0))
        np.testing.assert_allclose(run["damage"][k], each.mean(), rtol=1e-12)
    assert run["damage_entry"].values.tolist() == ["x0", "x1"]


def test_wrong_arguments_are_told():
    with pytest.raises(ValueError, match="Rainflow: m: expected a number > 0, got -3"):
        st.Rainflow("x", curve=(1e3, -3.0))
    with pytest.raises(TypeError, match=r"Rainflow: curve: expected \(K, m\)"):
        st.Rainflow("x", curve=3.0)
    with pytest.raises(ValueError, match="Rainflow: edges must be at least two increasing"):
        st.Rainflow("x", curve=(1e3, 3.0), edges=[1.0])
    with pytest.raises(ValueError, match=r"Rainflow: needs at least two times, from after=9\.0 on"):
        st.Rainflow(0, curve=(1e3, 3.0), after=9.0).prepared(FROZEN, np.linspace(0, 1, 5))
