"""The last states of all paths of a prepared run, with nothing around the steps: no places, statistics or labels."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np

from stodyn.engine.failure import PathsFailed
from stodyn.engine.layout import Layout, Members
from stodyn.engine.program.executors import ByPrint, lanes_of
from stodyn.engine.run import Run
from stodyn.hints import check_seed
from stodyn.numerics.elimination import WRITTEN_OUT
from stodyn.problems.structure import PROVED


class Raw:
    """raw(seed, params, start, out): the components (n, paths) at the end of a prepared run."""

    def __init__(self, run: Run, on_failure: str):
        spec, executor = run.spec, run.executor
        if not isinstance(executor, ByPrint):
            raise ValueError(f"raw: needs a printed program, but this run is computed by {executor.name}: call "
                             "ready.arrays(seed=...)")  # fmt: skip
        if spec.levels:
            raise ValueError("raw: gives all paths at the end of the run, but here stop= ends some before it: call "
                             "ready.arrays(seed=...)")  # fmt: skip
        self.run, self.executor, self.raises = run, executor, on_failure == "raise"
        self.takes_start = spec.record["problem"] == "SDE" and spec.problem.n <= WRITTEN_OUT  # its step knows no values
        noise = spec.problem.noise_structure
        is_free = not spec.method.fixed_params and (noise.known == PROVED or not noise.kinds)
        self.takes_params = self.takes_start and is_free
        layout = run.layout
        self.shape = spec.problem.n, run.paths
        self.lanes = lanes_of(layout, 0, executor.lane_multiple)
        firsts = [layout.first_path(block) for block in range(layout.blocks)]
        self.parts = [slice(*ends) for ends in itertools.pairwise([*firsts, run.paths])]
        self.draws = not layout.has_common_start or any(spec.varies)

    def __call__(self, seed: int, params: Any, start: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
        check_seed(seed)
        if out is None:
            out = np.empty(self.shape)
        _check("out", out, self.shape)
        changes = {} if params is None and start is None else self._changes(params, start)
        run, supply, layout = self.run, self.executor.supply(int(seed)), self.run.layout
        if self.draws:
            layout = Layout(run.spec, run.paths, int(seed), layout.width)
        for part in self.parts:
            members = layout.members_from(part.start, part.stop - part.start, self.lanes)
            if changes:
                members = _changed(members, changes, part, run.spec.varies)
            out[:, part] = self.executor.at_end(members, part.start, supply)[:, : part.stop - part.start]
        if self.raises and not np.isfinite(out).all():
            self._fail(out)
        return out

    def _changes(self, params: Any, start: np.ndarray | None) -> dict[str, Any]:
        """Other values as the members of a block have them: starts (n, paths), and the leaves of the parameters."""
        spec, changes = self.run.spec, dict[str, Any]()
        if (params is not None and not self.takes_params) or (start is not None and not self.takes_start):
            raise ValueError(
                f"raw: takes other params and starts of an SDE of up to {WRITTEN_OUT} components alone, and params "
                "where the structure of its noise is proved and the matrices of its steps are not made of them; this "
                "problem is checked and traced again for them: call "
                "ready.arrays(seed=..., params=..., start=...)"
            )
        if start is not None:
            _check("start", start, (spec.problem.n, self.run.paths))
            changes["start"] = start
        if params is not None:
            changes["params"] = self._leaves(params)
        return changes

    def _leaves(self, params: Any) -> list[np.ndarray]:
        """The leaves of parameters in the run's types, those of single paths with a last axis of paths."""
        spec = self.run.spec
        leaves, tree = jax.tree.flatten(params)
        if tree != spec.params_tree:
            raise ValueError(f"params: expected the structure {spec.params_tree}, got {tree}")
        arrays = []
        for leaf, example, varies in zip(leaves, spec.examples, spec.varies, strict=True):
            array = np.asarray(leaf, example.dtype)
            _check("params", array, (*(self.run.paths,) * varies, *example.shape))
            arrays.append(np.moveaxis(array, 0, -1) if varies else array)
        return arrays

    def _fail(self, out: np.ndarray) -> None:
        failed = np.flatnonzero(~np.isfinite(out).all(axis=0))
        times = np.full(failed.size, self.run.spec.times[-1])
        raise PathsFailed(
            f"{failed.size} of {self.run.paths} paths failed, the first is path {failed[0]}. ready(seed=...) says when "
            'and why; with on_failure="record" failed paths are not finite here',
            failed, times,
        )  # fmt: skip


def _check(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if np.shape(array) != shape:
        raise ValueError(f"{name}: expected an array of shape {shape}, got {np.shape(array)}")


def _changed(members: Members, changes: dict[str, Any], paths: slice, varies: tuple[int, ...]) -> Members:
    """The members of a block with these values; lanes beyond its last path repeat its first ones."""
    lanes = members.start.shape[1]

    def of_lanes(values: np.ndarray) -> np.ndarray:
        own = values[..., paths]
        return np.ascontiguousarray(own) if own.shape[-1] == lanes else own.take(np.arange(lanes), axis=-1, mode="wrap")

    start, params = members.start, members.params
    if "start" in changes:
        start = of_lanes(changes["start"]).astype(start.dtype, copy=False)
    if "params" in changes:
        params = [of_lanes(v) if own else v for v, own in zip(changes["params"], varies, strict=True)]
    return Members(members.member, members.weight, start, params)
