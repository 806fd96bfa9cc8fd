"""Statistics of a run that stops paths: when, where and by which level each was stopped, and how many go on."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.moments import Averaged, Valued

KEPT_STATES = 2**24  # most numbers that are stored of the states of stopped paths


class Stops(NamedTuple):
    """How some paths were stopped: the times, the numbers of the levels (0: none, -1: the path failed), the states of
    the first paths, and the smallest distance of any path from each level."""

    time: list[np.ndarray]
    by: list[np.ndarray]
    state: list[np.ndarray]
    closest: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stopped(Valued):
    """How every path was stopped, known at the end of the run.

    Notes
    -----
    Variables: stop_time (member), NaN where a path was not stopped; stopped_by (member), the number of its level in the
    order of Stop, -1 where there is none; stop_state (member, component), where there is room for all of them.
    """

    levels: tuple[str, ...]
    n: int

    collected_by_users = False

    def values(self, snapshot):
        stops = snapshot.stops
        return jnp.concatenate([stops.time[None], stops.by[None], stops.closest, stops.place])

    def fold(self, observed, block):
        time, by, *rest = np.asarray(observed[0][-1][:, : block.paths], float)
        closest, place = np.array(rest[: len(self.levels)]), np.array(rest[len(self.levels) :])
        failed = ~np.isfinite(place).all(axis=0)
        room = int(np.clip(KEPT_STATES // self.n - block.first, 0, block.paths))
        nearest = np.where(failed, np.inf, closest).min(axis=1)
        return Stops(
            [np.where((by > 0) & ~failed, time, np.nan)],
            [np.where(failed, -1, by).astype(np.int32)],
            [place.T[:room].copy()],
            nearest,
        )

    def merge(self, a, b):
        return Stops(a.time + b.time, a.by + b.by, a.state + b.state, np.minimum(a.closest, b.closest))

    def label(self, result, labels):
        time, by, state = map(np.concatenate, result[:3])
        variables = {
            "stop_time": Variable(("member",), time, {"units": labels.units["time"]} if "time" in labels.units else {}),
            "stopped_by": Variable(("member",), np.where(by > 0, by - 1, -1), {"levels": "; ".join(self.levels)}),
        }
        if len(state) == len(time):
            stopped = np.where((by > 0)[:, None], state, np.nan)
            variables["stop_state"] = Variable(("member", "component"), stopped)
        return Labelled(variables)

    def memory(self, times, paths, n):
        return 12 * paths + 8 * min(paths * n, KEPT_STATES)

    def unmet(self, result: Stops) -> list[str]:
        """Name each level that no path has reached."""
        by = np.concatenate(result.by)
        return [
            f"no path has reached {words}; the closest was {closest:.3g} away from it"
            for k, (words, closest) in enumerate(zip(self.levels, result.closest, strict=True), 1)
            if not np.any(by == k)
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alive(Averaged):
    """How many paths go on beyond a time. Variable: alive (time)."""

    collected_by_users = False

    def means(self):
        return {}

    def error_covariances(self, of_means, of_variances, paths):
        return {"alive": of_means * paths.reshape(-1, *[1] * (of_means.ndim - 1)) ** 2}

    def values(self, snapshot):
        return jnp.where(snapshot.stops.by == 0, 1.0, 0.0)[None]

    def label(self, result, labels):
        count = np.asarray(result.weight) * np.asarray(result.mean)[:, 0]
        return Labelled({"alive": Variable(("time",), np.rint(count).astype(int))})
