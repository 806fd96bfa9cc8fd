"""Random starts and parameters: one draw a path."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.stats


@dataclasses.dataclass(frozen=True, eq=False)
class PerPath:
    """Values that differ from path to path: `values[i]` belongs to path i (a leaf of `params`, or a `start`)."""

    values: np.ndarray

    def __init__(self, values: Any):
        values = np.asarray(values, float)
        if values.ndim == 0:
            raise ValueError("PerPath: values is a single number; give one value a path, shape (paths, ...)")
        object.__setattr__(self, "values", values)


def is_random(source: Any) -> bool:
    """Whether each path has its own value: PerPath, a frozen scipy.stats distribution, or draw(rng, size)."""
    return isinstance(source, PerPath) or hasattr(source, "rvs") or callable(source)


def draw(source: Any, rng: np.random.Generator, paths: range, name: str) -> np.ndarray:
    """The values of the paths in `paths`, shape (len(paths), ...)."""
    size = len(paths)
    if isinstance(source, PerPath):
        if paths.stop > len(source.values):
            raise ValueError(
                f"{name}: PerPath holds values for {len(source.values)} paths, and path {paths.stop - 1} of the run "
                "needs one too. Give one value a path."
            )
        return source.values[paths.start : paths.stop]
    if hasattr(source, "rvs"):
        if isinstance(source, (scipy.stats.rv_continuous, scipy.stats.rv_discrete)):
            raise TypeError(
                f"{name}: {source.name} is a family of distributions; "
                f"give its parameters: scipy.stats.{source.name}(...)"
            )
        given = (*source.args, *source.kwds.values()) if hasattr(source, "args") else ()
        own = np.broadcast_shapes(*map(np.shape, given))
        values = np.asarray(source.rvs(size=(size, *own) if own else size, random_state=rng), float)
        if size == 1 and values.shape[:1] != (1,):
            values = values[None]  # scipy drops the axis of a single draw of a vector
    else:
        values = np.asarray(source(rng, size), float)
    if values.shape[:1] != (size,):
        raise ValueError(
            f"{name}: asked for {size} draws and got an array of shape {values.shape}; "
            "its first axis must count the draws"
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name}: drew a value that is not finite")
    return values
