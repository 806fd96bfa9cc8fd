"""Statistics that runs collect for themselves: batches of paths, and where paths were stopped."""

import numpy as np

from stodyn.statistics.batches import Batches
from stodyn.statistics.contract import Block, Labels
from stodyn.statistics.moments import Moments
from stodyn.statistics.randomised import randomised
from stodyn.statistics.stopping import Alive, Stopped, Stops


def test_batches_have_the_mean_and_the_variance_of_their_own_paths():
    """Blocks of 5, 1 and 3 paths at two times; a single path has no variance."""
    one, rng = Batches(), np.random.default_rng(1)
    blocks = [rng.normal(size=(2, 3, count)) for count in (5, 1, 3)]  # times, components, paths
    parts = []
    for number, x in enumerate(blocks):
        off = x - x.mean(axis=-1, keepdims=True)
        powers = ((off**k).sum(axis=-1) for k in (2, 3, 4))
        parts.append(one.fold((np.full(2, x.shape[-1]), x.mean(axis=-1), *powers), Block(number, x.shape[-1])))
    result = one.merge(one.merge(*parts[:2]), parts[2])
    found = {name: part.values for name, part in one.label(result, None).variables.items()}
    np.testing.assert_array_equal(found["batch_paths"], np.repeat([[5], [1], [3]], 2, axis=1))
    for k, x in enumerate(blocks):
        np.testing.assert_allclose(found["batch_mean"][k], x.mean(axis=-1), rtol=1e-12)
        if x.shape[-1] > 1:
            np.testing.assert_allclose(found["batch_variance"][k], x.var(axis=-1, ddof=1), rtol=1e-12)
    assert np.isnan(found["batch_variance"][1]).all()
    assert one.memory(2, 9, 3) == 2 * 3 * 5 * 8 and not one.products(3) and not one.collected_by_users


def test_a_randomised_statistic_stores_sixteen_of_them():
    inner = Moments(at=(0.5, 1.0))
    outer = randomised(inner)
    assert outer.memory(2, 64, 3) == 16 * inner.memory(2, 64, 3) and outer.at == inner.at and outer.every is None
    assert randomised(Moments(every=3)).every == 3 and inner.means() == {"mean": slice(None)}


def test_stopped_paths_of_blocks_stand_one_behind_the_other():
    """Three paths in two blocks: the first is stopped by level 2, the second fails, the third goes on."""
    one = Stopped(levels=("a", "b"), n=1)

    def folded(first, time, by, closest, place):
        rows = np.array([time, by, *closest, place], float)
        return one.fold((rows[None], None), Block(first, len(time)))

    whole = one.merge(
        folded(0, [0.3, 0.9], [2, 1], [[0.4, 0.0], [0.0, 0.7]], [5.0, np.nan]),
        folded(2, [1.0], [0], [[0.2], [0.6]], [7.0]),
    )
    found = {
        name: part.values
        for name, part in one.label(whole, Labels(np.array([1.0]), ("x",), {}, None)).variables.items()
    }
    np.testing.assert_array_equal(found["stop_time"], [0.3, np.nan, np.nan])
    np.testing.assert_array_equal(found["stopped_by"], [1, -1, -1])
    np.testing.assert_array_equal(found["stop_state"], [[5.0], [np.nan], [np.nan]])
    np.testing.assert_array_equal(whole.closest, [0.2, 0.0])
    (words,) = one.unmet(whole)
    assert words == "no path has reached a; the closest was 0.2 away from it"
    assert one.memory(1, 3, 1) == 12 * 3 + 8 * 3 and Alive().means() == {} and isinstance(whole, Stops)
