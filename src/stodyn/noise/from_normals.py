"""Random starts as functions of normal numbers: traced, so that they are drawn wherever the paths are run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core

from stodyn.arguments import checks_arguments
from stodyn.noise import counter
from stodyn.noise.source import Source, checked_draws
from stodyn.noise.stream import STREAMS
from stodyn.noise.uniforms import normals_of
from stodyn.numerics.printing.fingerprints import are_known_to_differ, calls_host
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.tracing_errors import in_words, way_out

STREAM = "start"


class FromNormals(Source):
    """function(z) of `normals` independent standard normal numbers z per path.

    trace  the trace of the function, whose only result is the start
    """

    def __init__(self, function: Callable, normals: int):
        if isinstance(normals, bool) or not isinstance(normals, (int, np.integer)) or normals < 1:
            raise ValueError(f"from_normals: normals must be a whole number from 1 on, got {normals!r}")
        if not callable(function):
            raise TypeError(f"from_normals: function must be a function of {normals} normal numbers, got {function!r}")
        self.function, self.normals = function, int(normals)
        examples = jax.ShapeDtypeStruct((self.normals,), np.float64)
        with jax.enable_x64(True):
            try:
                self.trace, second = (jax.make_jaxpr(lambda z: self._real(z))(examples) for _ in range(2))
            except Exception as error:
                hint = way_out(error)
                raise TypeError(
                    f"from_normals: function(z) with z of shape ({normals},) could not be traced by JAX "
                    f"({in_words(error)}).{hint and ' '}{hint} Let it return one array; jax.scipy.special.ndtr(z) "
                    "turns normal numbers into uniform ones."
                ) from error
        if are_known_to_differ(self.trace, second) and not calls_host(second):
            raise ValueError(
                "from_normals: traced twice, function(z) gives two different functions: does it draw a random number, "
                "count, or read a clock? All paths would get the same number. Draw from z alone, of which there may be "
                f"more than {normals}"
            )
        self._at = AtPoints(self._value)
        self._of_path = AtPoints(self.counted, in_axes=(0, None))

    def _real(self, z: Array) -> Array:
        return jnp.asarray(self.function(z), float)

    def _value(self, z: Array) -> Array:
        return core.jaxpr_as_fun(self.trace)(z)[0]

    def counted(self, path: Array, key: Array) -> Array:
        """The value for a path, from the normals that it counts off with the key of a run."""
        pairs = range(-(-self.normals // 2))
        halves = [counter.pair((key[0], key[1]), STREAMS[STREAM], path, jnp.asarray(k, np.uint64)) for k in pairs]
        return self._value(jnp.stack([half for pair in halves for half in pair][: self.normals]))

    def followed_by(self, root: np.ndarray) -> FromNormals:
        """The same start with `root` times further normals behind it: zeros where the root has no columns."""
        function = functools.partial(_followed, self.function, self.normals, root)
        return FromNormals(function, self.normals + root.shape[1])

    def __reduce__(self):
        return FromNormals, (self.function, self.normals)

    def __repr__(self) -> str:
        return f"from_normals({getattr(self.function, '__name__', self.function)}, {self.normals})"

    def __call__(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws for that many paths, like any function that draws starts."""
        return self._at(normals_of(rng, size, self.normals))

    def draw(self, rng, paths, name):
        return checked_draws(self(rng, len(paths)), len(paths), name)

    def of_paths(self, seed: int, first: int, last: int) -> np.ndarray:
        """The draws of the paths from `first` to `last`, from the normals that a GPU computes for them by counting."""
        return self._of_path(np.arange(first, last, dtype=np.uint64), counter.key_of(seed))


def _followed(function: Callable, normals: int, root: np.ndarray, z: Array) -> Array:
    rest = root @ z[normals:] if root.shape[1] else jnp.zeros(len(root))
    return jnp.concatenate([jnp.ravel(jnp.asarray(function(z[:normals]), float)), rest])


@checks_arguments
def from_normals(function: Callable, normals: int) -> Any:
    """Make random starts from independent standard normal numbers.

    Parameters
    ----------
    function : function(z) -> start
        z is an array of `normals` standard normal numbers; the result is the start of one path. It is written with
        jax.numpy and traced once, here. `jax.scipy.special.ndtr(z)` turns normal numbers into uniform ones.
    normals : int
        How many normal numbers each path uses.

    Returns
    -------
    FromNormals
        A value for the `start` of a problem. A run on a GPU draws such starts there; those of `start(rng, size)` and of
        distributions are drawn by the host.

    Raises
    ------
    TypeError, ValueError
        If JAX cannot trace the function, or if it draws other numbers than z.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import stodyn as sd
    >>> on_a_circle = sd.from_normals(lambda z: z / jnp.linalg.norm(z), 2)
    >>> problem = sd.SDE(lambda t, x: -x, lambda t, x: 0.1 * jnp.eye(2), start=on_a_circle)
    """
    return FromNormals(function, normals)
