"""Normals from randomised Sobol points, ordered so that the first coordinates decide most of a Brownian path.

A run has R independent randomisations of one net. Path p is point p // R of randomisation p % R: a function of the seed
and its number alone, so that blocks may be cut anywhere. The first 2^k points of every randomisation are a net.

    points    x_i = ⊕ over the bits of i of the direction numbers, each scrambled by a random lower triangular matrix of
              its coordinate and randomisation (Matoušek, J. Complexity 14, 1998), and shifted; uniforms are
              (x + 1/2)/2^30, off 0 and 1
    in front  the uniforms of random starts and parameters, which decide most (noise.uniforms)
    paths     W on n times is A z: A is √C of its covariance C, by principal components where n <= 256; else that of
              n/2^k times, and the others by halving (Brownian bridges). Coordinate k of channel j stands at k m + j
    behind    the normals of other streams, in the order of the steps; coordinates beyond 21 201 are pseudo-random
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

RANDOMISATIONS = 16
BITS = 30
MOST = 21201  # coordinates: those of Joe and Kuo's direction numbers in scipy.stats.qmc.Sobol
COMPONENTS = 256  # times up to which all of a path is made of principal components
NAME = "Sobol points, Matoušek's scramble, principal components, 2"  # renamed whenever a number changes


@functools.lru_cache(maxsize=64)
def _direction(coordinates: int, bit: int) -> np.ndarray:
    """The direction numbers of one bit k of the index: x_(2^k) ⊕ x_(2^k - 1) in Gray's order, as integers."""
    net = scipy.stats.qmc.Sobol(coordinates, scramble=False, bits=BITS)
    if bit:
        net.fast_forward(2**bit - 1)
    pair = np.rint(net.random(2) * 2.0**BITS).astype(np.uint32)
    return pair[0] ^ pair[1]


class Net:
    """R randomisations of a Sobol net in `coordinates` dimensions; points by index."""

    def __init__(self, seed: int, coordinates: int, randomisations: int = RANDOMISATIONS):
        self.coordinates, self.randomisations = coordinates, randomisations
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(9,))))
        shape = (coordinates, randomisations)
        places = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
        below = rng.integers(0, 2**BITS, (BITS, *shape), dtype=np.uint32)
        one = (np.uint32(1) << places)[:, None, None]
        self._columns = one | (below & (one - np.uint32(1)))  # of the scrambling matrices, the first bit first
        self._shift = rng.integers(0, 2**BITS, shape, dtype=np.uint32)
        self._scrambled: list[np.ndarray] = []
        self._making = threading.Lock()

    def _directions(self, bit: int) -> np.ndarray:
        with self._making:
            while len(self._scrambled) <= bit:
                plain = _direction(self.coordinates, len(self._scrambled))
                digits = np.zeros(self._shift.shape, np.uint32)
                for k in range(BITS):
                    is_set = (plain >> np.uint32(BITS - 1 - k)) & np.uint32(1)
                    digits ^= is_set[:, None] * self._columns[k]
                self._scrambled.append(digits)
        return self._scrambled[bit]

    def points(self, first: int, count: int, coordinates: int | None = None) -> np.ndarray:
        """Uniforms (coordinates, count, randomisations) of the points from `first` on; `coordinates`, if any, limits
        them to the first ones."""
        if first + count > 2**BITS:
            raise ValueError(f"points: a randomisation has {2**BITS} points, asked for {first + count}")
        wanted = slice(0, self.coordinates if coordinates is None else coordinates)
        points = np.empty((wanted.stop, 0, self.randomisations), np.uint32)
        while count:
            size = first & -first if first else 1 << (count.bit_length() - 1)
            while size > count:
                size //= 2
            points = np.concatenate([points, self._piece(first, size, wanted)], axis=1)
            first, count = first + size, count - size
        return (points + 0.5) / 2.0**BITS

    def _piece(self, first: int, size: int, wanted: slice) -> np.ndarray:
        """Some coordinates of the points from a multiple of a power of two on."""
        x = self._shift[wanted].copy()
        for bit in range(first.bit_length()):
            if first >> bit & 1:
                x ^= self._directions(bit)[wanted]
        points = np.empty((wanted.stop, size, self.randomisations), np.uint32)
        points[:, 0], done, bit = x, 1, 0
        while done < size:
            np.bitwise_xor(points[:, :done], self._directions(bit)[wanted, None], out=points[:, done : 2 * done])
            done, bit = 2 * done, bit + 1
        return points


@functools.lru_cache(maxsize=64)
def _components(lengths: tuple[float, ...]) -> np.ndarray:
    """Return the matrix (n, n) of the increments over steps of these lengths of a Brownian path, in units of their own
    deviations, by its principal components, the largest first."""
    h = np.asarray(lengths)
    times = np.cumsum(h)
    values, vectors = np.linalg.eigh(np.minimum.outer(times, times))
    W = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    return np.diff(W, axis=0, prepend=0.0) / np.sqrt(h)[:, None]


def increments(z: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Standardised increments (n, ...) of Brownian paths made of standard normals (n, ...), the most telling first."""
    n = len(lengths)
    if n <= COMPONENTS or n % 2:
        if n > 4 * COMPONENTS:
            return z  # in the order of time: no better order of so many times is cheap
        return np.tensordot(_components(tuple(lengths.tolist())), z, 1)
    pairs = lengths.reshape(-1, 2)
    whole = pairs.sum(axis=1)
    shape = (-1,) + (1,) * (z.ndim - 1)
    first, second = (np.sqrt(pairs[:, k] / whole).reshape(shape) for k in range(2))
    coarse, halves = increments(z[: n // 2], whole), z[n // 2 :]
    steps = np.empty_like(z)
    steps[::2], steps[1::2] = first * coarse + second * halves, second * coarse - first * halves
    return steps


@functools.lru_cache(maxsize=32)
def sobol(
    seed: int, streams: tuple[tuple[str, int], ...], lengths: tuple[float, ...], halves: int, front: int = 0
) -> Sobol:
    """Sobol(...) from a cache: scrambles are made once."""
    return Sobol(seed, streams, np.asarray(lengths), halves, front)


class Sobol:
    """The normals of a run whose points are a randomised net, block by block.

    streams  names, and how many normals a step takes of each; the stream "W" holds `halves` increments per step
    front    how many coordinates stand before those of the normals
    """

    name = NAME

    def __init__(self, seed: int, streams: Any, lengths: np.ndarray, halves: int = 1, front: int = 0):
        self.seed, self.streams, self.halves, self.front = seed, tuple(streams), halves, front
        self.lengths = np.repeat(np.asarray(lengths, float) / halves, halves)
        steps = len(lengths)
        self.coordinates = front + sum(count for _, count in self.streams) * steps
        self.net = Net(seed, min(self.coordinates, MOST))

    def uniforms(self, first_path: int, paths: int) -> np.ndarray:
        """The coordinates in front (front, paths), for the paths from first_path on."""
        R = self.net.randomisations
        begin, end = first_path // R, -(-(first_path + paths) // R)
        points = self.net.points(begin, end - begin, self.front).reshape(self.front, (end - begin) * R)
        return points[:, first_path - begin * R :][:, :paths]

    def normals(self, first_path: int, paths: int, lanes: int) -> Mapping[str, np.ndarray]:
        """The normals (steps, count, lanes) of each stream, for the paths from first_path on; further lanes repeat
        them."""
        R, steps = self.net.randomisations, len(self.lengths) // self.halves
        begin, end = first_path // R, -(-(first_path + paths) // R)
        u = self.net.points(begin, end - begin).reshape(self.net.coordinates, -1)
        u = u[:, first_path - begin * R :][:, np.arange(lanes) % paths]
        z = scipy.special.ndtri(u)
        if self.coordinates > MOST:
            rng = np.random.default_rng((self.seed, first_path))
            z = np.concatenate([z, rng.standard_normal((self.coordinates - MOST, lanes))])
        normals, place = {}, self.front
        for name, count in sorted(self.streams, key=lambda stream: stream[0] != "W"):
            own, place = z[place : place + steps * count], place + steps * count
            if name == "W":
                m, n = count // self.halves, len(self.lengths)
                own = increments(own.reshape(n, m, lanes), self.lengths)
            normals[name] = own.reshape(steps, count, lanes)
        return normals
