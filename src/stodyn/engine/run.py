"""A run: its blocks computed one by one, folded, merged in order and labelled; and its identity."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn import results
from stodyn.engine.failure import FailureLog
from stodyn.engine.layout import Layout
from stodyn.engine.program.executors import Executor
from stodyn.engine.record import identity
from stodyn.engine.record.job import Job, Tell
from stodyn.engine.spec import Spec
from stodyn.noise import sobol
from stodyn.statistics.contract import Block, Labelled, Labels, Statistic


class Part(NamedTuple):
    """The record of a block: the result of each statistic, the failed lanes, the step after which each failed, why, and
    how many steps were solved no better than rounding allows."""

    folded: list[Any]
    lanes: np.ndarray
    steps: np.ndarray
    causes: np.ndarray
    rounded: int


@dataclasses.dataclass(frozen=True)
class Run(Job):
    """A run: its spec, its paths in blocks, and how they are computed."""

    spec: Spec
    layout: Layout
    executor: Executor
    first_block: int = 0

    def grown(self, paths: int) -> Run:
        """The same run with that many paths, of which those of this one's whole blocks are done."""
        layout = dataclasses.replace(self.layout, paths=paths)
        more = dataclasses.replace(self, layout=layout, first_block=self.layout.whole_blocks)
        if "identity" in self.__dict__:  # which does not depend on the number of paths, and takes time to compute
            more.__dict__["identity"] = self.identity
        return more

    def suspecting(self, words: str) -> Run:
        """The same run, whose failures name a further suspect."""
        suspect = " ".join(filter(None, (words[:1].upper() + words[1:], self.spec.suspect)))
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, suspect=suspect)) if words else self

    @property
    def paths(self) -> int:  # type: ignore[override]
        return self.layout.paths

    @property
    def blocks(self) -> int:
        return self.layout.blocks

    def paths_in(self, block: int) -> int:
        return self.layout.paths_in(block)

    def path_steps(self, block: int) -> int:
        return self.spec.steps * self.paths_in(block)

    def compute(self, block: int, tell: Tell) -> Part:
        observed, failures, rounded = self.executor.block(self.layout, block, tell)
        where = Block(self.layout.first_path(block), self.paths_in(block))
        folded = [s.fold(o, where) for s, o in zip(self.spec.statistics, observed, strict=True)]
        # Laid out in memory as they are when read from a record, so that later sums add in the same order.
        leaves, tree = jax.tree.flatten(folded)
        ordered = [np.asarray(x, order="C") if isinstance(x, (np.ndarray, jax.Array)) else x for x in leaves]
        return Part(jax.tree.unflatten(tree, ordered), *failures, rounded)

    def let_go(self) -> None:
        """Give up memory that is kept from block to block."""
        self.executor.let_go()
        self.spec.members_alike.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without programs and traces, which are made again on arrival."""
        fields = {f.name: getattr(self.layout, f.name) for f in dataclasses.fields(self.layout) if f.name != "spec"}
        return _arrived, (self.spec.without_traces(), fields, self.executor.recipe)

    def describe(self) -> dict[str, Any]:
        return identity.of_run(self)

    def members_digest(self, block: int) -> str:
        values = self.layout.draw(self.layout.first_path(block), self.layout.first_path(block) + self.paths_in(block))
        return identity.digest(*values)

    def owners(self) -> Iterable[type]:
        return (*map(type, self.spec.statistics), Part)

    def labels(self) -> list[Labels]:
        """The facts that a statistic may use when it labels its result."""
        spec = self.spec
        names, units = tuple(spec.problem.components), spec.problem.component_units or {}
        return [Labels(spec.times[steps], names, units, steps) for steps in spec.saves]

    def label(self, merged: Sequence[Any]) -> list[tuple[Statistic, Labelled, Labels]]:
        triples = zip(self.spec.statistics, merged, self.labels(), strict=True)
        return [(statistic, statistic.label(result, run), run) for statistic, result, run in triples]

    def record(self) -> dict[str, Any]:
        """How the run was made."""
        spec, layout, executor = self.spec, self.layout, self.executor
        record = {
            "t": [float(spec.times[0]), float(spec.times[-1])],
            "dt": float(spec.lengths[0]) if spec.has_equal_steps else spec.lengths.tolist(),
            "steps": spec.steps,
            "paths": layout.paths,
            "seed": layout.seed,
            "dtype": str(spec.dtype),
            "block": layout.width,
            "given": identity.members_in_brief(layout),
            "executor": executor.name,
            "executor_reason": executor.reason,
        }
        if layout.least is not None:
            record |= {"least_block": layout.least}
        if executor.normals is not None:
            record |= {"normals": sobol.NAME if layout.points == "sobol" else executor.normals}
        if spec.traced is not None:
            record |= {"fingerprint": spec.traced.fingerprint}
        devices = getattr(executor, "devices", ())
        return record | ({"devices": [device.device_kind for device in devices]} if devices else {})


def _arrived(spec: Spec, fields: dict[str, Any], recipe: Callable[[Spec], Executor]) -> Run:
    spec = spec.traced_anew()
    return Run(spec, Layout(spec, **fields), recipe(spec))


class Tally:
    """The blocks of a run merged so far, in their order, and the failures; on_failure="raise" stops at the first.

    merged  the partial result of every statistic
    """

    def __init__(self, run: Run, on_failure: str):
        self.run, self.on_failure = run, on_failure
        self.log = FailureLog(run.spec.times, run.spec.fit.fitness.unfit if run.spec.fit else "")
        self.merged: list[Any] = []
        self.rounded = 0  # steps that were solved no better than rounding allows

    def take(self, block: int, part: Part) -> None:
        """Merge the part of the next block."""
        run, (folded, lanes, steps, causes, rounded) = self.run, part
        first = run.layout.first_path(block)
        self.rounded += rounded
        self.log.add(first + lanes, steps, causes)
        if self.log.failures and self.on_failure == "raise":
            spec, problem = run.spec, run.spec.problem
            looked_at = first + run.paths_in(block)
            raise self.log.error(
                looked_at, problem.failure_advice, problem.unsolved, spec.implicit, spec.suspect, spec.undefined
            )
        if not self.merged:
            self.merged = folded
            if run.blocks > 1:  # results that contradict each other are refused here, not at the end
                results.merged(self.labelled(), {})
        else:
            pairs = zip(run.spec.statistics, self.merged, folded, strict=True)
            self.merged = [statistic.merge(a, b) for statistic, a, b in pairs]

    def labelled(self) -> list[tuple[Statistic, Labelled, Labels]]:
        return self.run.label(self.merged)
