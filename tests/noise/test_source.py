"""A source gives each path its value, however the value was given."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.noise.source import Fixed, PerPath, differs, joined, source_of

LISTED = np.arange(12.0).reshape(6, 2)
KINDS = {
    "fixed": [1.0, 2.0],
    "listed": PerPath(LISTED),
    "distribution": scipy.stats.multivariate_normal([0.0, 5.0], np.eye(2)),
    "function": lambda rng, size: rng.random((size, 2)),
    "normals": sd.from_normals(lambda z: jnp.sin(z), 2),
}


def drawn(source, paths):
    return source.draw(np.random.default_rng(7), paths, "start")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind):
    """Its shape, whether paths differ, that a source is its own source, and functions of its values."""
    source = source_of(KINDS[kind])
    assert source_of(source) is source
    values = drawn(source, range(1, 4))
    assert values.shape == (3, 2)
    assert source.is_random == (kind != "fixed") == (len(np.unique(values, axis=0)) > 1)
    assert source.is_listed == (kind == "listed") == (source.count == 6)
    np.testing.assert_array_equal(drawn(source.mapped(lambda rows: rows @ [[1.0], [2.0]]), range(1, 4))[:, 0],
                                  values @ [1.0, 2.0])  # fmt: skip
    np.testing.assert_array_equal(source.mapped(lambda rows: rows).example("start"), source.example("start"))


def test_sources_side_by_side_are_drawn_one_after_the_other():
    first, second = source_of(KINDS["function"]), source_of(KINDS["distribution"])
    both = joined([first, source_of(PerPath(LISTED)), Fixed(3.0), second])
    rng = np.random.default_rng(7)
    one, other = (source.draw(rng, range(2, 5), "start") for source in (first, second))
    expected = np.column_stack([one, LISTED[2:5], np.full(3, 3.0), other])
    np.testing.assert_array_equal(drawn(both, range(2, 5)), expected)
    assert both.is_listed and both.count == 6 and len(both.parts) == 4
    assert not joined([Fixed(1.0), Fixed([2.0, 3.0])]).is_random


def test_a_tree_differs_where_one_of_its_leaves_does():
    assert not differs({"a": 1.0, "b": [2.0, np.ones(3)], "c": None})
    assert all(differs({"a": 1.0, "b": [KINDS[kind]]}) for kind in KINDS if kind != "fixed")
