"""Paths that branch, many at once: each goes on from the carry of any other, with normals of its own.

A carry is the whole state of a path: that of its method, its clock and its own parameters (methods/branching.py). A
segment is the part of a path between two branchings. Segments of a run are numbered in the order in which they begin,
and segment s of run r takes the normals of path r·2³² + s from its first step on, so that every segment can be made
again by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stodyn.engine.layout import Members
from stodyn.engine.program.executors import Stepping
from stodyn.noise.supply import Numbered

SEGMENTS = 2**32  # most segments of a run
NONE = -1  # the parent of a segment that begins at a start


class Grown:
    """An array that grows at its end."""

    def __init__(self, values: np.ndarray):
        self._memory, self.count = values, len(values)

    @property
    def values(self) -> np.ndarray:
        return self._memory[: self.count]

    def add(self, values: np.ndarray) -> np.ndarray:
        """Append values; returns their places."""
        first, self.count = self.count, self.count + len(values)
        if self.count > len(self._memory):
            larger = np.empty((2 * self.count, *self._memory.shape[1:]), self._memory.dtype)
            larger[:first] = self._memory[:first]
            self._memory = larger
        self._memory[first : self.count] = values
        return np.arange(first, self.count)


class Family:
    """The segments of some runs, by the place at which they were added: the carry each begins with, its run, its number
    in that run, and its parent, the segment from which it branches."""

    def __init__(self, runs: range, size: int):
        self.runs, self._counts = runs, np.zeros(len(runs), int)
        self._carries, self._links = Grown(np.empty((0, size))), Grown(np.empty((0, 3), int))

    def begin(self, run: np.ndarray, parent: np.ndarray | int, carries: np.ndarray) -> np.ndarray:
        """Begin a segment with each of the carries; `run` counts from the first of the runs and does not fall. Returns
        their places."""
        number = self._counts[run] + np.arange(len(run)) - np.searchsorted(run, run)
        self._counts += np.bincount(run, minlength=len(self.runs))
        self._links.add(np.stack([run, number, np.broadcast_to(parent, len(run))], axis=1))
        return self._carries.add(carries)

    def carries(self, segments: np.ndarray) -> np.ndarray:
        """The carries with which segments begin."""
        return self._carries.values[segments]

    def numbers(self, segments: np.ndarray) -> np.ndarray:
        """The number of each segment in its run."""
        return self._links.values[segments, 1]

    def paths(self, segments: np.ndarray) -> np.ndarray:
        """The numbers of the paths whose normals the segments take."""
        run, number, _ = self._links.values[segments].T
        return path_numbers(self.runs.start + run, number)

    def lineage(self, segments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All ancestors of some segments and these themselves, the oldest first: which of them each row belongs to, and
        its place."""
        which, generations = np.arange(len(segments)), []
        while which.size:
            generations.append((which, segments))
            parents = self._links.values[segments, 2]
            which, segments = which[parents != NONE], parents[parents != NONE]
        which, segments = (np.concatenate([np.empty(0, int), *(g[k] for g in generations[::-1])]) for k in (0, 1))
        order = np.argsort(which, kind="stable")
        return which[order], segments[order]


def path_numbers(run: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """The numbers of the paths whose normals the segments of runs take."""
    return np.asarray(run, np.uint64) * np.uint64(SEGMENTS) + np.asarray(segment, np.uint64)


def continued(
    executor: Stepping, seed: int, carries: np.ndarray, paths: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Go on from carries (segments, size) with the normals of these paths, call by call, until all stand still.

    Each call gives the segments that may have gone on, and the carries (steps, size, lanes) after each of its steps,
    where lane k holds segment k; they are valid until the next call. Raises FloatingPointError where paths fail.
    """
    spec, count = executor.spec, len(carries)
    lanes = executor.lanes(count)
    fill = np.arange(lanes) % count
    params = [np.asarray(leaf, example.dtype)
              for leaf, example in zip(spec.param_leaves, spec.examples, strict=True)]  # fmt: skip
    members = Members(fill == np.arange(lanes), np.ones(lanes), np.ascontiguousarray(carries[fill].T), params)
    for going, values in executor.until_stopped(members, Numbered(seed, paths[fill])):
        yield going[going < count], values
