"""Rainflow cycles of paths and the damage they do, counted block by block while a run goes on."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.hints import Reals
from stodyn.numerics.fatigue import SNCurve, between_steps, curve_of, cycles_of
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.followed import check_of, followed
from stodyn.statistics.moments import Sums, Valued, merge_sums, summarise

BLOCK = 2048  # paths whose series are in memory at one time, about


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Rainflow(Valued):
    """Miner's damage of rainflow cycles (ASTM E1049), path by path, of many responses at once; no path is stored.

    Cycles are closed by the four-point rule; what is left at the end counts as half cycles. A response that noise
    enters at most in its rate, such as a displacement, or anything under coloured forces, is followed between two steps
    by a cubic through values and rates, so that its peaks are not cut off. Of others the values at the steps are
    counted; white noise in a response has ever more small cycles as steps become shorter.

    Parameters
    ----------
    of : str, int, sequence of these, or function
        Components by their names or numbers, or of(t, x[, params]) -> a number or a vector of stresses.
    curve : (K, m) or SNCurve
        N = K S^-m cycles to failure at the amplitude S; `analysis.fatigue.SNCurve` has a second slope, and ranges.
    edges : sequence of numbers, optional
        Edges of bins of ranges: the mean number of cycles per path in each is estimated, too.
    after : float, optional
        The time from which on cycles are counted.
    name : str
        The name under which the variables appear in the result.
    every, at : int, sequence of numbers, optional
        Which points of a path are read: after every `every` steps, or `at` these times; by default after every step.

    Notes
    -----
    Variables, with NAME for `name` and (NAME_entry) where there are several responses: NAME, the mean damage of a path;
    NAME_std, its standard deviation over the paths; NAME_rate, the mean per unit of time; and with `edges` NAME_cycles
    (NAME_range[, NAME_entry]); each with NAME_..._stderr. While a block of paths is counted, its series are in memory.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> damage = st.Rainflow("x", curve=(1e6, 3.0), after=10.0)
    """

    own_times = 2**40  # every step
    refuses_stops = "needs records that go on to the end"

    of: Any = dataclasses.field(kw_only=False)
    curve: Any
    edges: Reals | None = None
    after: float | None = None
    name: str = "damage"
    responses: Any = dataclasses.field(default=None, init=False, repr=False)
    times: Any = dataclasses.field(default=(), init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "of", check_of("Rainflow", self.of))
        try:
            object.__setattr__(self, "curve", curve_of(self.curve))
        except (TypeError, ValueError) as error:
            raise type(error)(f"Rainflow: {error}") from error
        edges = np.asarray(() if self.edges is None else self.edges, float)
        if edges.ndim != 1 or len(edges) == 1 or not np.isfinite(edges).all() or np.any(np.diff(edges) <= 0.0):
            raise ValueError(f"Rainflow: edges must be at least two increasing finite numbers, got {self.edges!r}")
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    def prepared(self, problem, times):
        first = 0 if self.after is None else int(np.searchsorted(times, self.after - 1e-9 * np.ptp(times)))
        if len(times) - first < 2:
            raise ValueError(f"Rainflow: needs at least two times, from after={self.after} on; the run ends before")
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "responses", followed("Rainflow", self.of, problem))
        object.__setattr__(ready, "times", np.asarray(times, float)[first:])
        return ready

    def values(self, snapshot):
        def one(x, params):
            value = self.responses.value(snapshot.t, x, params)
            if not any(self.responses.is_smooth):
                return value
            return jnp.concatenate([value, self.responses.rate(snapshot.t, x, params)])

        return jax.vmap(one, in_axes=(-1, snapshot.axes), out_axes=-1)(snapshot.x, snapshot.params)

    def fold(self, observed, block):
        values, sound = (np.asarray(part)[-len(self.times) :, ..., : block.paths] for part in observed)
        values = values[..., sound[-1]].astype(float)  # (times, entries, paths)
        numbers = [self._numbers(self._points(values, k)) for k in range(len(self.responses.is_smooth))]
        per_path = np.concatenate(numbers, axis=0)  # damage, then bins, of one response after the other
        count = float(per_path.shape[1])
        mean = per_path.sum(axis=1) / max(count, 1.0)
        d = per_path - mean[:, None]
        powers = ((d**k).sum(axis=1)[None] for k in (2, 3, 4))
        return Sums(np.array([count]), mean[None], *powers)

    def _points(self, values: np.ndarray, entry: int) -> np.ndarray:
        """The points of one response, (points, paths), with its turning points between the steps where these are
        known."""
        smooth = self.responses.is_smooth
        own = values[:, entry]
        if not smooth[entry]:
            return own
        slopes = np.diff(self.times)[:, None] * np.stack([values[:-1, len(smooth) + entry],
                                                          values[1:, len(smooth) + entry]])  # fmt: skip
        return between_steps(own, slopes)

    def _numbers(self, points: np.ndarray) -> np.ndarray:
        """The damage of each path and its cycles in each bin, (1 + bins, paths)."""
        cycles, paths = cycles_of(points), points.shape[1]
        damage = np.bincount(cycles.series, cycles.counts * self.curve.damage(cycles.range), paths)
        if not self.edges:
            return damage[None]
        bins = [np.append(self.edges, np.inf), np.arange(paths + 1) - 0.5]
        counts, *_ = np.histogram2d(cycles.range, cycles.series, bins, weights=cycles.counts)
        return np.concatenate([damage[None], counts[:-1]])

    def merge(self, a, b):
        return merge_sums(a, b)

    def memory(self, times, paths, n):
        entries = len(self.of) if isinstance(self.of, tuple) else n
        return 16 * times * min(paths, BLOCK) * entries

    def label(self, result, labels):
        s, name, entries = summarise(result), self.name, len(self.responses.is_smooth)
        entry = () if entries == 1 else (f"{name}_entry",)
        attrs = {"curve": _in_words(self.curve), "between_steps": self.responses.between_steps}
        student, deviation = (
            intervals.attributes(kind, result.weight) for kind in (intervals.STUDENT, intervals.DEVIATION)
        )

        def of(values, divided_by=1.0):
            damage = values[0].reshape(entries, -1)[:, 0] / divided_by
            return damage[0] if entries == 1 else damage

        span = float(self.times[-1] - self.times[0])
        variables = {
            name: Variable(entry, of(s.mean), attrs | student),
            f"{name}_stderr": Variable(entry, of(s.mean_stderr)),
            f"{name}_std": Variable(entry, of(s.std), attrs | deviation),
            f"{name}_std_stderr": Variable(entry, of(s.std_stderr)),
            f"{name}_rate": Variable(entry, of(s.mean, span), attrs | student),
            f"{name}_rate_stderr": Variable(entry, of(s.mean_stderr, span)),
        }
        coords = {}
        if self.edges:
            for ending, values in (("cycles", s.mean), ("cycles_stderr", s.mean_stderr)):
                counts = values[0].reshape(entries, -1)[:, 1:].T
                dims = (f"{name}_range", *entry)
                more = student if ending == "cycles" else {}
                variables[f"{name}_{ending}"] = Variable(dims, counts[:, 0] if entries == 1 else counts, more)
            edges = np.asarray(self.edges)
            coords[f"{name}_range"] = Variable((f"{name}_range",), 0.5 * (edges[1:] + edges[:-1]))
        if self.responses.names is not None and entries > 1:
            coords[f"{name}_entry"] = Variable(entry, np.asarray(self.responses.names))
        return Labelled(variables, coords)


def _in_words(curve: SNCurve) -> str:
    knee = "" if curve.knee is None else f", slope {curve.below:g} below {curve.knee:g}"
    return f"N = {curve.K:g} S^-{curve.m:g}{knee}, S the {curve.per}"
