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
    data = recurrence.prepared((y, seen), which)
    last, kept = Recurrence(step)((x, np.zeros(lanes, int)), table, fixed, data)
    expected, sums = looped(x, table, fixed, which, y, seen)
    np.testing.assert_allclose(last[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(last[1], np.full(lanes, seen.sum()))
    np.testing.assert_allclose(kept[0], sums, rtol=1e-12)
    np.testing.assert_array_equal(kept[1], np.repeat(seen[:, None], lanes, axis=1))
    assert jax.tree.structure(last) == jax.tree.structure((0, 0))


def halve(slow, entry, fixed, row):
    """It settles at 1 within some sixty rows; the link is where it stands."""
    _, rate = row
    new = 1.0 + rate * (slow - 1.0)
    return new, new, jnp.abs(new - slow) <= 1e-16


def add(total, link, entry, fixed, row):
    y, _ = row
    return total + link * y, link


@pytest.mark.parametrize("lanes", [1, 3, 21])
@pytest.mark.parametrize("is_printed", [True, False])
def test_what_settles_is_left_out_until_a_row_differs(lanes, is_printed, monkeypatch):
    """The second rate pulls the slow carry back to 1, from where it was when the first rows had settled it."""
    if not is_printed:
        monkeypatch.setattr(recurrence, "MOST_OPERATIONS", 0)
        monkeypatch.setattr(recurrence, "_programs", {})
    rng = np.random.default_rng(2)
    slow, y = rng.uniform(2.0, 3.0, lanes), rng.normal(size=200)
    rate = np.where(np.arange(200) == 150, 3.0, 0.5)
    (last, total), series = Recurrence(add, halve)(
        (slow, np.zeros(lanes)), np.zeros((1, lanes)), np.zeros(lanes),
        recurrence.prepared((y, rate), np.zeros(200), (rate,)),
    )  # fmt: skip
    expected, sums = slow.copy(), np.zeros(lanes)
    for k in range(200):
        expected = 1.0 + rate[k] * (expected - 1.0)
        sums = sums + expected * y[k]
        np.testing.assert_allclose(series[k], expected, rtol=1e-14)
    np.testing.assert_allclose(total, sums, rtol=1e-12)
    np.testing.assert_allclose(last, 1.0, rtol=1e-14)
