"""Variational steps of many coordinates: stages are solved by sparse elimination, in programs of loops over arrays."""

import itertools

import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import statistics as st

N, H = 24, 0.2


def bonds(q):
    return jnp.diff(jnp.concatenate([jnp.zeros(1), q, jnp.zeros(1)]))


def chain(friction):
    """Springs with a cubic part (FPU), ends held; all masses are pushed alike by one channel."""
    return sd.Hamiltonian(
        lambda t, q, p: 0.5 * jnp.sum(p**2) + jnp.sum(0.5 * bonds(q) ** 2 + 0.25 * bonds(q) ** 4),
        lambda t, q, p: 0.3 * jnp.sum(q),
        lambda t, q, p: -friction * p,
        start=(np.zeros(N), np.linspace(-1.0, 1.0, N)),
    )


def force(q):
    d = np.diff(np.concatenate([[0.0], q, [0.0]]))
    pull = d + d**3
    return np.diff(pull)


def test_the_midpoint_rule_holds_for_every_mass():
    """q' = q + h p̄ and p' = p + h (F(q̄) - γ p̄) - σ W with one W for all masses, at the middle of the step."""
    run = sd.simulate(chain(0.4), "Midpoint", t=(0, 4 * H), dt=H, paths=3, seed=5, collect=st.Paths(3, every=1))
    assert "loops over arrays" in sd.provenance(run)["executor_reason"]
    for path in run["path"].values:
        for before, after in itertools.pairwise(path):
            middle = 0.5 * (before + after)
            np.testing.assert_allclose(after[:N] - before[:N], H * middle[N:], atol=1e-12)
            noise = after[N:] - before[N:] - H * (force(middle[:N]) - 0.4 * middle[N:])
            np.testing.assert_allclose(noise, noise[0], atol=1e-9)  # as far as Newton goes
            assert abs(noise[0]) > 1e-4
