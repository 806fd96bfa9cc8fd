"""The states of a few paths at every save, with the noise of a run or with supplied normals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import Array

from stodyn.engine.layout import Members
from stodyn.engine.program import executors
from stodyn.engine.spec import Spec
from stodyn.noise.supply import GivenNormals
from stodyn.statistics.contract import Snapshot, Statistic


@dataclasses.dataclass(frozen=True, kw_only=True)
class States(Statistic):
    """The states of all lanes: (times, n, lanes)."""

    def observe(self, snapshot: Snapshot) -> Array:
        return snapshot.x

    def merge(self, a: Any, b: Any) -> Any:
        raise AssertionError("states are followed without being merged")

    label = merge  # type: ignore[assignment]


def followed(
    spec: Spec, paths: int, normals: Mapping[str, Any], start: Any = None, executor: str = "auto"
) -> np.ndarray:
    """The states (times, n, paths) of paths with supplied normals, (steps, count, paths) for each stream; the spec
    has States as its only statistic.

    start  (n, paths); default the problem's own for all of them. Paths that failed are NaN from then on.
    """
    lanes = -(-paths // executors.LANE_MULTIPLE) * executors.LANE_MULTIPLE
    fill = np.arange(lanes) % paths
    begun = np.repeat(spec.problem.example_start()[:, None], paths, axis=1) if start is None else np.asarray(start)
    members = Members(np.arange(lanes) < paths, np.ones(lanes), np.ascontiguousarray(begun[:, fill], spec.dtype),
                      list(spec.examples))  # fmt: skip
    spec = dataclasses.replace(spec, statistics=spec.statistics[:1], saves=spec.saves[:1])
    chosen: Any = executors.get(spec, executor)
    with jax.enable_x64(True):
        went = chosen.paths(members, 0, GivenNormals({name: np.asarray(z)[..., fill] for name, z in normals.items()}))
    return went.observed[0][:, :, :paths]
