"""Forces that are known by a few numbers: f(t, x, v) = total(t, x, v, s) with s = links(t, x, v).

A damper between two bodies makes its force depend on all of their coordinates, and all of these on each other. Where
a step solves for s along with its other unknowns, each of its equations holds few of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jax import Array


@dataclasses.dataclass(frozen=True, eq=False)
class LinkedForce:
    """A force, as a Mechanical takes it, in two parts.

    links   (t, x, v) -> s (k,), the forces and torques of what is between bodies
    total   (t, x, v, s) -> all forces (N,), in which s enters linearly
    """

    links: Callable[[Any, Array, Array], Array]
    total: Callable[[Any, Array, Array, Array], Array]

    def __call__(self, t: Any, x: Array, v: Array) -> Array:
        return self.total(t, x, v, self.links(t, x, v))
