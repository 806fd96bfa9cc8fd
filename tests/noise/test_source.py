"""A source gives each path its value, however the value was given."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stodyn as sd
from stodyn.noise import rejection
from stodyn.noise.source import Fixed, PerPath, differs, joined, source_of
from stodyn.noise.supply import GivenNormals

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
def test_every_kind_of_source_has_its_shape_and_functions(kind):
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


def test_what_is_known_of_a_source_is_known_of_functions_of_it():
    for value in KINDS.values():
        source = source_of(value)
        mapped = source.mapped(lambda rows: rows)
        assert (mapped.is_listed, mapped.count) == (source.is_listed, source.count)


def test_normals_that_are_supplied_are_read_on_step_by_step():
    normals = {"W": np.arange(4 * 2 * 16.0).reshape(4, 2, 16), "aux": -np.arange(4 * 1 * 16.0).reshape(4, 1, 16)}
    feed = GivenNormals(normals).feed((("W", 2), ("aux", 1)), 8, 8)
    for steps in (slice(0, 1), slice(1, 4)):
        for found, name in zip(feed(steps.stop - steps.start), ("W", "aux"), strict=True):
            np.testing.assert_array_equal(found, normals[name][steps, :, 8:])


def test_a_density_beyond_its_bound_is_refused():
    for density, words in ((lambda x: 2.0 + 0.0 * x[:, 0], "found 2, expected"), (lambda x: -x[:, 0], "found -0.")):
        with pytest.raises(ValueError, match=words):
            rejection.Rejection(density, 0.0, 1.0, 1.5)(np.random.default_rng(1), 5)
    even = rejection.Rejection(lambda x: 1.5 + 0.0 * x[:, 0], 0.0, 1.0, 1.5)(np.random.default_rng(1), 70)
    assert even.shape == (70, 1) and np.all((even >= 0.0) & (even < 1.0))
