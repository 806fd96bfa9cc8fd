"""A generator whose first uniforms are prescribed, such as coordinates of Sobol points.

A source that knows its quantiles takes one prescribed uniform for each of its numbers; a source that draws in
its own way takes pseudo-random numbers, as from any generator.
"""

from __future__ import annotations

import numpy as np
import scipy


class Uniforms(np.random.Generator):
    """Uniforms of some paths, one coordinate after the other.

    Parameters
    ----------
    bits : np.random.BitGenerator
        The generator of all other draws.
    coordinates : array (coordinates, paths)
        The uniforms; beyond the last coordinate they are pseudo-random. `position` counts them.
    places : array (paths,) or None
        Uniforms in [0, 1) that choose a path's place in all lists of values; None: path i has place i.
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
        """The values at the places of the paths."""
        return values[(np.asarray(self.places) * len(values)).astype(int)]


def normals_of(rng: np.random.Generator, paths: int, count: int) -> np.ndarray:
    """Standard normals (paths, count): quantiles of prescribed uniforms where there are any."""
    if isinstance(rng, Uniforms):
        return scipy.special.ndtri(rng.take(paths, (count,)))
    return rng.standard_normal((paths, count))
