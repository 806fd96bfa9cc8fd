"""Recursions over rows, printed and by XLA, against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics.printing import recurrence
from stodyn.numerics.printing.recurrence import Recurrence


def step(carry, entry, fixed, row):
    x, count = carry
    y, is_seen = row
    new = jnp.where(is_seen, entry @ x + fixed * y, x)
    return (new, count + is_seen), (new.sum(), is_seen)


def looped(x, table, fixed, which, y, seen):
    kept = []
    for k, number in enumerate(which):
        if seen[k]:
            x = np.einsum("lij,lj->li", table[number], x) + fixed * y[k]
        kept.append(x.sum(axis=1))
    return x, np.array(kept)


@pytest.mark.parametrize("lanes", [1, 3, 21])
@pytest.mark.parametrize("is_printed", [True, False])
def test_against_a_loop(lanes, is_printed, monkeypatch):
    if not is_printed:
        monkeypatch.setattr(recurrence, "MOST_OPERATIONS", 0)
        monkeypatch.setattr(recurrence, "_programs", {})
    rng = np.random.default_rng(1)
    x, table, fixed = rng.normal(size=(lanes, 2)), rng.normal(size=(3, lanes, 2, 2)), rng.normal(size=(lanes, 2))
    which, y, seen = rng.integers(0, 3, 10)[::-1], rng.normal(size=10), rng.uniform(size=10) < 0.7
    last, kept = Recurrence(step)((x, np.zeros(lanes, int)), table, fixed, which, (y, seen))
    expected, sums = looped(x, table, fixed, which, y, seen)
    np.testing.assert_allclose(last[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(last[1], np.full(lanes, seen.sum()))
    np.testing.assert_allclose(kept[0], sums, rtol=1e-12)
    np.testing.assert_array_equal(kept[1], np.repeat(seen[:, None], lanes, axis=1))
    assert jax.tree.structure(last) == jax.tree.structure((0, 0))
