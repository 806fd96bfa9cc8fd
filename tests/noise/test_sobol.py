"""Randomised Sobol points: nets, points by their index, and Brownian paths of them."""

import numpy as np
import pytest
import scipy.special

from stodyn.noise import sobol
from stodyn.noise.sobol import Net, Sobol, increments
from stodyn.noise.uniforms import Uniforms, normals_of


def test_every_prefix_of_every_randomisation_is_a_net():
    """One point of the first 2^k in each interval of length 2^-k, for every coordinate; in pairs of the first
    coordinates, 2^(j + k) points hit each box 2^-j x 2^-k once."""
    u = Net(3, 5).points(0, 64)
    for k in (1, 4, 6):
        boxes = np.sort(np.floor(u[:, : 2**k] * 2**k), axis=1)
        np.testing.assert_array_equal(boxes, np.broadcast_to(np.arange(2**k)[None, :, None], boxes.shape))
    for j in range(7):
        boxes = np.floor(u[0] * 2**j) + 2**j * np.floor(u[1] * 2 ** (6 - j))
        np.testing.assert_array_equal(np.sort(boxes, axis=0), np.broadcast_to(np.arange(64)[:, None], boxes.shape))


def test_points_are_functions_of_their_index():
    whole = Net(3, 5).points(0, 64)
    parts = np.concatenate([Net(3, 5).points(a, b - a) for a, b in ((0, 5), (5, 16), (16, 63), (63, 64))], axis=1)
    np.testing.assert_array_equal(whole, parts)
    assert not np.any(Net(4, 5).points(0, 64) == whole)
    normals = Sobol(3, [("W", 2), ("aux", 1)], np.full(4, 0.25))
    one, other = normals.normals(0, 64, 64), normals.normals(32, 32, 32)
    for name in one:
        np.testing.assert_array_equal(one[name][..., 32:], other[name])
    assert one["W"].shape == (4, 2, 64) and one["aux"].shape == (4, 1, 64)


@pytest.mark.parametrize("n", [1, 6, 512])
def test_increments_are_independent_standard_normals(n):
    """The map from normals to standardised increments is orthogonal, for steps of any lengths."""
    lengths = np.linspace(1.0, 2.0, n) / n
    matrix = increments(np.eye(n), lengths)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(n), atol=1e-9)
    W = np.cumsum(np.sqrt(lengths)[:, None] * matrix, axis=0)
    assert W[:, 0] @ W[:, 0] >= (W**2).sum(axis=0).max() - 1e-12  # the first normal tells most of the path


def test_coordinates_in_front_are_those_of_the_net_for_any_paths():
    points = Sobol(3, [("W", 1)], np.full(2, 0.5), front=2)
    whole = points.uniforms(0, 48)
    np.testing.assert_array_equal(whole, Net(3, points.coordinates).points(0, 3)[:2].reshape(2, 48))
    np.testing.assert_array_equal(points.uniforms(21, 10), whole[:, 21:31])


def test_uniforms_are_drawn_where_no_more_are_given():
    given = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]])
    uniforms = Uniforms(np.random.PCG64(1), given)
    np.testing.assert_array_equal(uniforms.take(3), given[0])
    np.testing.assert_array_equal(uniforms.take(3, (2,)), given[1:].T)
    np.testing.assert_array_equal(uniforms.take(3, (2,)), np.random.Generator(np.random.PCG64(1)).random((3, 2)))


def test_beyond_the_coordinates_of_nets_normals_are_drawn(monkeypatch):
    """Behind eight coordinates of a net, with a generator for every block of paths."""
    lengths = np.full(6, 0.5)
    monkeypatch.setattr(sobol, "MOST", 8)
    some, later = (Sobol(3, [("aux", 2)], lengths).normals(first, 32, 32)["aux"].reshape(12, 32) for first in (0, 32))
    np.testing.assert_array_equal(some[:8], scipy.special.ndtri(Net(3, 8).points(0, 2).reshape(8, 32)))
    np.testing.assert_array_equal(some[8:], np.random.default_rng((3, 0)).standard_normal((4, 32)))
    np.testing.assert_array_equal(later[8:], np.random.default_rng((3, 32)).standard_normal((4, 32)))


def test_many_times_that_cannot_be_halved_keep_their_order(monkeypatch):
    """Odd numbers of them, where they are more than four times those that have principal components."""
    monkeypatch.setattr(sobol, "COMPONENTS", 4)
    z = np.random.default_rng(1).normal(size=(17, 2))
    assert increments(z, np.full(17, 0.1)) is z
    assert not np.array_equal(increments(z[:15], np.full(15, 0.1)), z[:15])


def test_normals_are_quantiles_of_prescribed_uniforms():
    given = np.array([[0.1, 0.5], [0.975, 0.2]])
    found = normals_of(Uniforms(np.random.PCG64(1), given), 2, 2)
    np.testing.assert_allclose(found, scipy.special.ndtri(given.T))
    np.testing.assert_array_equal(
        normals_of(np.random.default_rng(1), 2, 3), np.random.default_rng(1).standard_normal((2, 3))
    )
