"""A generator whose first uniforms are prescribed, such as coordinates of Sobol points.

A source that knows its quantiles takes one prescribed uniform for each of its numbers; a source that draws in
its own way takes pseudo-random numbers, as from any generator.
"""

from __future__ import annotations

import numpy as np
import scipy


class Uniforms(np.random.Generator):
    """Uniforms of some paths, one coordinate after the other, as a generator of NumPy.

    They are the rows of `coordinates` (coordinates, paths), which `position` counts; beyond the last they are
    pseudo-random, from `bits`, as are all other draws. `places` (paths,) in [0, 1) choose each path's place in all
    lists of values; with None, path i has place i.
    """

    def __init__(self, bits: np.random.BitGenerator, coordinates: np.ndarray, places: np.ndarray | None = None):
        super().__init__(bits)
        self.coordinates, self.places, self.position = coordinates, places, 0

    def take(self, paths: int, shape: tuple[int, ...] = ()) -> np.ndarray:
        """The next uniforms of each path, (paths, *shape)."""
        first, self.position = self.position, self.position + int(np.prod(shape))
        if self.position > len(self.coordinates):
            return self.random((paths, *shape))
        return self.coordinates[first : self.position, :paths].T.reshape(paths, *shape)

    def chosen(self, values: np.ndarray) -> np.ndarray:
        """Return from a list of values the one at the place of each path."""
        return values[(np.asarray(self.places) * len(values)).astype(int)]


def normals_of(rng: np.random.Generator, paths: int, count: int) -> np.ndarray:
    """Standard normals (paths, count): quantiles of prescribed uniforms where there are any."""
    if isinstance(rng, Uniforms):
        return scipy.special.ndtri(rng.take(paths, (count,)))
    return rng.standard_normal((paths, count))
