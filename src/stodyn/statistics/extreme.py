"""The extreme values that each path reaches, of many responses at once, and their distribution over the paths."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.hints import Reals
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.followed import check_of, followed
from stodyn.statistics.moments import Sums, Valued, merge_sums, summarise

KINDS = ("absolute", "largest", "smallest")


class Reached(NamedTuple):
    """Sums over the paths at each time, and at the last time the extremes (paths, entries) and the numbers of paths."""

    sums: Sums
    extremes: np.ndarray
    numbers: np.ndarray


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Extreme(Valued):
    """The extreme value that each path has reached since the start, and its distribution: peaks, for many responses.

    Every step is looked at, whenever the statistic is observed. A response that noise enters at most in its rate, such
    as a displacement, or anything under coloured forces, is followed between two steps by a cubic through values and
    rates. Of others, such as velocities and accelerations under white noise, the values at the steps are taken, which
    are too small by O(√h); the attribute `between_steps` says which.

    Parameters
    ----------
    of : str, int, sequence of these, or function
        Components by their names or numbers, or of(t, x[, params]) -> a number or a vector of responses, such as
        lambda t, x: rows @ x with rows of `structures.responses`.
    kind : "absolute", "largest" or "smallest"
        Whether the extreme is max |q|, max q or min q.
    levels : sequence of numbers, optional
        Levels of which the probability of being passed is estimated, as for a fragility curve.
    quantiles : sequence of numbers
        Probabilities of the quantiles that are estimated.
    name : str
        The name under which the variables appear in the result.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables, with NAME for `name` and [, NAME_entry] where there are several responses: NAME_mean and NAME_std (time[,
    NAME_entry]), each with NAME_..._stderr; of the last observation NAME (NAME_path[, NAME_entry]), the extreme of each
    path; NAME_quantile, NAME_quantile_stderr (NAME_probability[, NAME_entry]); and with `levels` NAME_passed,
    NAME_passed_stderr (NAME_level[, NAME_entry]), the share of the paths beyond each. NAME_path holds the numbers of
    the paths. The error of a quantile q is half the distance of those at q ± √(q(1 - q)/N), NaN where too
    few paths lie beyond it.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> peaks = st.Extreme(["x0", "x1"], levels=[0.5, 1.0, 1.5], every=100)
    """

    of: Any = dataclasses.field(kw_only=False)
    kind: str = "absolute"
    levels: Reals | None = None
    quantiles: Reals = (0.05, 0.5, 0.95)
    name: str = "peak"
    responses: Any = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "of", check_of("Extreme", self.of))
        if self.kind not in KINDS:
            raise ValueError(f"Extreme: kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        for name in ("levels", "quantiles"):
            numbers = np.atleast_1d(np.asarray(getattr(self, name) if getattr(self, name) is not None else (), float))
            if numbers.ndim != 1 or not np.isfinite(numbers).all() or np.any(np.diff(numbers) <= 0.0):
                raise ValueError(f"Extreme: {name} must be increasing finite numbers, got {getattr(self, name)!r}")
            object.__setattr__(self, name, tuple(numbers.tolist()))
        if any(not 0.0 < q < 1.0 for q in self.quantiles):
            raise ValueError(f"Extreme: quantiles must lie between 0 and 1, got {self.quantiles!r}")

    def prepared(self, problem, times):
        ready = dataclasses.replace(self)
        object.__setattr__(ready, "responses", followed("Extreme", self.of, problem))
        return ready

    # --- along a path -------------------------------------------------------------------------------------------------

    def track_start(self, t, x, params):
        def begun(x, params):
            value = self.responses.value(t, x, params)
            return self._of_both(value, value)

        return jax.vmap(begun, in_axes=(-1, self.responses.axes(params)), out_axes=-1)(x, params)

    def track(self, gathered, move):
        def further(gathered, h, before, after, params):
            extreme = self._of_both(*self.responses.extremes(move.t, h, before, after, params))
            return jnp.minimum(gathered, extreme) if self.kind == "smallest" else jnp.maximum(gathered, extreme)

        of_h = -1 if jnp.ndim(move.h) else None
        over = jax.vmap(further, in_axes=(-1, of_h, -1, -1, move.axes), out_axes=-1)
        return over(gathered, move.h, move.before, move.after, move.params)

    def _of_both(self, low, high):
        """The extreme of the kind that is asked for, from the smallest and the largest value."""
        return {"absolute": jnp.maximum(-low, high), "largest": high, "smallest": low}[self.kind]

    def values(self, snapshot):
        return snapshot.track

    # --- over the paths -----------------------------------------------------------------------------------------------

    def fold(self, observed, block):
        values, sound = (np.asarray(part)[..., : block.paths] for part in observed)  # (times, entries, lanes)
        x, w = np.where(sound[:, None], values, 0.0).astype(float), sound[:, None]
        count = w.sum(axis=-1, dtype=float)
        mean = x.sum(axis=-1) / np.maximum(count, 1.0)
        d = np.where(w, x - mean[..., None], 0.0)
        sums = Sums(count[:, 0], mean, *((d**k).sum(axis=-1) for k in (2, 3, 4)))
        return Reached(sums, x[-1][:, sound[-1]].T, block.first + np.flatnonzero(sound[-1]))

    def merge(self, a, b):
        extremes, numbers = (np.concatenate(parts) for parts in zip(a[1:], b[1:], strict=True))
        return Reached(merge_sums(a.sums, b.sums), extremes, numbers)

    def memory(self, times, paths, n):
        return 8 * (len(self.of) if isinstance(self.of, tuple) else n) * (2 * paths + 8 * times)

    def label(self, result, labels):
        one, name = result.extremes.shape[1] == 1, self.name
        entry = () if one else (f"{name}_entry",)
        s, attrs = summarise(result.sums), {"kind": self.kind, "between_steps": self.responses.between_steps}

        def shaped(dim, values, more=None):
            return Variable((dim, *entry), values[:, 0] if one else values, attrs | (more or {}))

        units = {labels.units.get(own) for own in self.responses.names or ()}
        if len(units) == 1 and None not in units:
            attrs |= {"units": units.pop()}
        count = result.sums.weight
        variables = {
            name: shaped(f"{name}_path", result.extremes),
            f"{name}_mean": shaped("time", s.mean, intervals.attributes(intervals.STUDENT, count)),
            f"{name}_mean_stderr": shaped("time", s.mean_stderr),
            f"{name}_std": shaped("time", s.std, intervals.attributes(intervals.DEVIATION, count)),
            f"{name}_std_stderr": shaped("time", s.std_stderr),
        }
        coords = {f"{name}_path": Variable((f"{name}_path",), result.numbers)}
        if self.quantiles:
            values, errors = _quantiles(result.extremes, np.asarray(self.quantiles))
            variables[f"{name}_quantile"] = shaped(f"{name}_probability", values)
            variables[f"{name}_quantile_stderr"] = shaped(f"{name}_probability", errors)
            coords[f"{name}_probability"] = Variable((f"{name}_probability",), np.asarray(self.quantiles))
        if self.levels:
            share, error = self._passed(result.extremes)
            attrs.pop("units", None)
            known = intervals.attributes(intervals.BINOMIAL, len(result.extremes))
            variables[f"{name}_passed"] = shaped(f"{name}_level", share, known)
            variables[f"{name}_passed_stderr"] = shaped(f"{name}_level", error)
            coords[f"{name}_level"] = Variable((f"{name}_level",), np.asarray(self.levels))
        if self.responses.names is not None and not one:
            coords[f"{name}_entry"] = Variable(entry, np.asarray(self.responses.names))
        return Labelled(variables, coords)

    def _passed(self, extremes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The share of the paths beyond each level, (levels, entries), and its error."""
        levels, N = np.asarray(self.levels)[:, None, None], len(extremes)
        beyond = extremes <= levels if self.kind == "smallest" else extremes >= levels
        if not N:
            return (np.full((len(self.levels), extremes.shape[1]), np.nan),) * 2  # type: ignore[arg-type]
        share = np.where(np.isnan(extremes).any(axis=0), np.nan, beyond.mean(axis=1))
        return share, np.sqrt(share * (1.0 - share) / (N - 1.0)) if N > 1 else np.full_like(share, np.nan)


def _quantiles(values: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles over the first axis, and half the distance of those at q ± √(q(1 - q)/N)."""
    if not len(values):
        return (np.full((len(q), values.shape[1]), np.nan),) * 2
    off = np.sqrt(q * (1.0 - q) / len(values))
    low, middle, high = (np.quantile(values, np.clip(p, 0.0, 1.0), axis=0) for p in (q - off, q, q + off))
    is_inside = (q - off >= 0.0) & (q + off <= 1.0)
    return middle, np.where(is_inside[:, None], 0.5 * (high - low), np.nan)
