"""Errors of points that share their paths, against sums over every sample there can be."""

import itertools

import numpy as np

from stodyn.statistics.comparison import compared, error_covariances, merged

ATOMS = np.array([[1.0, 7.0], [2.0, 3.0], [5.0, 4.0]])  # values at two points, far from 0, with equal probabilities
SAMPLES = np.array(list(itertools.product(range(3), repeat=4)))


def sums_of(paths: np.ndarray, sound=True):
    """Those of one time and one entry, for values (paths, points)."""
    lanes = np.broadcast_to(sound, (1, len(paths)))
    return compared([column[None, None] for column in paths.T], [lanes] * 2, (2,))


def test_covariances_of_means_and_of_variances_are_estimated_without_bias():
    """Four paths: the mean of the estimates over all 81 samples is the covariance over them of what was estimated."""
    values = ATOMS[SAMPLES]
    estimates = [error_covariances(sums_of(paths), 0) for paths in values]
    for estimated, made in zip(
        zip(*estimates, strict=True), (values.mean(axis=1), values.var(axis=1, ddof=1)), strict=True
    ):
        np.testing.assert_allclose(np.mean(estimated, axis=0)[0, 0], np.cov(made.T, bias=True), rtol=1e-12)


def test_blocks_merge_to_the_whole_and_paths_that_failed_are_left_out():
    paths = ATOMS[[0, 1, 2, 2, 0, 1, 1]] + 1e6
    sound = np.array([True, True, False, True, True, True, True])
    whole = error_covariances(sums_of(paths[sound]), 0)
    parts = error_covariances(merged(sums_of(paths[:3], sound[:3]), sums_of(paths[3:], sound[3:])), 0)
    for found, exact in zip(parts, whole, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-8)
