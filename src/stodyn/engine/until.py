"""Choose the number of paths: continue until the collected numbers are known to a tolerance.

At a look after k blocks, a number with mean μ, standard error s and tolerance ε is known well enough when

    q s <= ε        (relative: q s <= ε |μ|),

where q is the two-sided quantile for `level`. The one danger is looking too early: a standard error that happens to be
small ends the run, and for skewed or 0/1 numbers it is small together with the mean. Hence

    looks     at 4, 6, 9, 13, ... blocks, the next at max(k + 1, 3k/2), and not before 4096 paths;
    q, s      Student's quantile with the paths' degrees of freedom; from 16 blocks on with those of the blocks, and s
              is the larger of the paths' standard error and that of the block means, which also sees dependent paths
              and heavy tails;
    0/1       s² = p(1 - p)/n with p = (events + 2)/(n + 4) (Agresti & Coull, Am. Stat. 52, 1998), so that the absence
              of events does not give a standard error of zero; a relative tolerance also needs 20 events;
    relative  at the first look |μ| - q s replaces |μ|.

A look depends only on the blocks merged in order: neither the end of a run nor its bits depend on where blocks run.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.hints import Count, Reals, is_whole
from stodyn.noise.sobol import RANDOMISATIONS
from stodyn.statistics.contract import Labelled, Labels, Statistic
from stodyn.statistics.histogram import Histogram
from stodyn.statistics.moments import Averaged, Sums, single
from stodyn.statistics.observable import Observable
from stodyn.telling import tell
from stodyn.warnings import HeavyTailed, NotReached, OneValue

FEWEST_BLOCKS, FEWEST_PATHS, MANY_BLOCKS = 4, 4096, 16
GROWTH = 1.5
EVENTS = 20  # needed for a relative tolerance of a probability
LOOSE = 0.15  # relative error of a variance beyond which a run warns
MOST = 2**30
BINARY = 1e-6  # how near to 0 or 1 all values lie, in the mean square, that are counted as events


@checks_arguments
def until(
    *,
    error: float | Mapping[str, float] | None = None,
    relative: float | Mapping[str, float] | None = None,
    level: float = 0.95,
    at: float | Reals | None = None,
    most: Count = MOST,
    seconds: float | None = None,
) -> Until:
    """Ask `paths=` of simulate for as many paths as it takes to know the collected numbers to a tolerance.

    Parameters
    ----------
    error : float or mapping, optional
        The tolerance, as in `estimate`: the half-width of each number's interval at `level`, at 0.95 about two standard
        errors. Give one tolerance for all variables of the result that have a standard error (NAME with NAME_stderr),
        or tolerances by name. The worst of a variable's components and times counts. Of an Observable, one tolerance
        also decides by its variance and standard deviation; {"observable": 0.01} decides by its mean alone.
    relative : float or mapping, optional
        The same as a share of the number's own size. A number whose interval contains zero never meets it.
    level : float
        The confidence level of each interval by itself.
    at : float or sequence of float, optional
        The times that count; by default all times at which the statistics are observed.
    most, seconds : int, and float, optional
        The largest number of paths, and roughly the longest time. If one of them ends the run before the tolerance is
        met, a warning and the result say so. With `seconds` the number of paths depends on the machine.

    Returns
    -------
    Until
        The value for `paths=` of simulate.

    Notes
    -----
    Only the number of paths is chosen: the bias of dt is neither in the standard errors nor in the tolerance.
    stodyn.provenance(run)["until"] states the request, the accuracy that was reached, and how far to trust it.

    Examples
    --------
    >>> import stodyn as sd
    >>> decay = sd.SDE(lambda t, x: -x, lambda t, x: 0.1, start=1.0)
    >>> run = sd.simulate(decay, "Heun", t=(0, 1), dt=0.1, seed=1, paths=sd.until(error={"mean": 0.01}, at=1.0))
    >>> sd.provenance(run)["until"]["reached"]
    True
    """
    return Until(_tolerances("error", error), _tolerances("relative", relative), level, at, most, seconds)


def _tolerances(name: str, tolerances: Any) -> Any:
    """One tolerance, or tolerances by name, checked."""
    if tolerances is None:
        return None
    values = tolerances if isinstance(tolerances, Mapping) else {"": tolerances}
    for key, value in values.items():
        place = f"{name}[{key!r}]" if key else name
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
            raise ValueError(f"until: {place} must be a number > 0, got {value!r}")
    if not values:
        raise ValueError(f"until: {name} does not name a variable; give a number, or a dict such as {{'mean': 1e-3}}")
    return dict(values) if isinstance(tolerances, Mapping) else float(tolerances)


@dataclasses.dataclass(frozen=True)
class Until:
    """The result of `until`, which a run takes as its number of paths."""

    error: float | dict[str, float] | None = None
    relative: float | dict[str, float] | None = None
    level: float = 0.95
    at: Any = None
    most: Count = MOST
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.error is None and self.relative is None:
            raise ValueError("until: give error= or relative=, a number or numbers by the names of variables")
        if not isinstance(self.level, (int, float)) or not 0.5 <= self.level < 1:
            raise ValueError(f"until: level must be a number from 0.5 to 1, such as 0.95, got {self.level!r}")
        if not is_whole(self.most):
            raise ValueError(f"until: most counts paths and must be a whole number >= 1, got {self.most!r}")
        object.__setattr__(self, "most", int(self.most))
        if self.seconds is not None and not (isinstance(self.seconds, (int, float)) and self.seconds > 0):
            raise ValueError(f"until: seconds must be a number > 0, got {self.seconds!r}")

    def first_look(self, width: int) -> int:
        """The number of paths at the first look of a run in blocks of `width`."""
        return min(width * max(FEWEST_BLOCKS, -(-FEWEST_PATHS // width)), int(self.most))

    def next_look(self, paths: int, width: int, took: float) -> int:
        """The number of paths at the next look, after `took` seconds; the same number where the run must end."""
        blocks = -(-paths // width)
        following = min(width * max(blocks + 1, int(GROWTH * blocks)), int(self.most))
        if self.seconds is not None:
            in_time = paths * self.seconds / max(took, 1e-9)
            following = max(min(following, int(in_time) // width * width), paths)
        return following

    def quantile(self, freedom: float) -> float:
        return float(scipy.stats.t.ppf(0.5 + 0.5 * self.level, freedom))

    def request(self) -> dict[str, Any]:
        """The request, in the words of `until`."""
        wanted = ((name, getattr(self, name)) for name in ("error", "relative", "at", "seconds"))
        at = {"at": np.atleast_1d(self.at).tolist()} if self.at is not None else {}
        return {name: v for name, v in wanted if v is not None} | at | {"level": self.level, "most": int(self.most)}


class Quantity(NamedTuple):
    """The current state of a variable: arrays over its dims, the first of which may be time.

    ones      how many of the paths are 1, where every path is 0 or 1; kurtosis, paths: where they are known
    same      whether all paths have one value, where that is known
    """

    dims: tuple[str, ...]
    mean: np.ndarray
    stderr: np.ndarray
    ones: np.ndarray | None = None
    kurtosis: np.ndarray | None = None
    paths: np.ndarray | None = None
    same: np.ndarray | None = None


def quantities(statistic: Statistic, merged: Any, labels: Labels) -> dict[str, Quantity]:
    """The variables of a statistic that have a standard error, by name."""
    labelled: Labelled = statistic.label(merged, labels)
    by_name = {}
    for name, variable in labelled.variables.items():
        if f"{name}_stderr" in labelled.variables:
            error = np.asarray(labelled.variables[f"{name}_stderr"].values, float)
            by_name[name] = Quantity(tuple(variable.dims), np.asarray(variable.values, float), error)
    if isinstance(statistic, Averaged):
        for name, columns in statistic.means().items():
            if name in by_name:
                by_name[name] = _of_sums(by_name[name], merged, columns)
    if isinstance(statistic, Histogram):
        below, count = merged
        by_name["density"] = _of_counts(by_name["density"], below, count, np.asarray(statistic.edges))
    return by_name


def _of_sums(quantity: Quantity, sums: Sums, columns: slice) -> Quantity:
    """The quantity with its kurtosis; columns that hold only 0 and 1 get the variance of such numbers."""
    weight = np.asarray(sums.weight, float)[:, None]
    mean = np.asarray(sums.mean, float)[:, columns]
    m2, third, fourth = (single(part, sums)[:, columns] for part in (sums.second, sums.third, sums.fourth))
    with np.errstate(all="ignore"):
        m2, m3, m4 = (np.asarray(s, float) / weight for s in (m2, third, fourth))
        kurtosis = np.where(m2 > 0, m4 / m2**2, np.nan)
        a, b = mean * (1 - mean), 1 - 2 * mean
        off = a * a + b * b * m2 + m4 - 2 * a * m2 - 2 * b * m3  # E x²(1 - x)²
        is_binary = (off <= BINARY**2 * (m2 + mean**2)) & (np.abs(m2 - a) <= BINARY * (m2 + np.abs(a)))
    binary = is_binary.all(axis=0)[None] & np.ones_like(is_binary)
    shape = quantity.mean.shape
    count = np.broadcast_to(weight, mean.shape)
    p = np.where(binary, (mean * count + 2) / (count + 4), 0.0)
    stderr = np.where(binary, np.sqrt(p * (1 - p) / np.maximum(count, 1)), quantity.stderr.reshape(mean.shape))
    ones = np.where(binary, np.rint(mean * count), np.inf)
    return quantity._replace(
        stderr=stderr.reshape(shape),
        ones=ones.reshape(shape),
        kurtosis=kurtosis.reshape(shape),
        paths=count.reshape(shape),
        same=(m2 == 0).reshape(shape),
    )


def _of_counts(quantity: Quantity, below: np.ndarray, count: np.ndarray, edges: np.ndarray) -> Quantity:
    ones = np.diff(np.asarray(below, float), axis=-1)
    paths = np.broadcast_to(np.asarray(count, float)[:, None, None], ones.shape)
    p = (ones + 2) / (paths + 4)
    return quantity._replace(
        stderr=np.sqrt(p * (1 - p) / np.maximum(paths, 1)) / np.diff(edges), ones=ones, paths=paths
    )


class Verdict(NamedTuple):
    """The number furthest from its tolerance; `share` is the half-width of its interval over the tolerance."""

    share: float
    where: str
    half: float
    tolerance: float
    kurtosis: float
    paths: float


class Watch:
    """Follows the variables of a run, block by block and look by look."""

    def __init__(self, rule: Until, statistics: Sequence[Statistic], labels: Sequence[Labels]):
        self.rule, self.statistics, self.labels = rule, tuple(statistics), tuple(labels)
        self.blocks = 0
        self._means: dict[str, np.ndarray] = {}
        self._squares: dict[str, np.ndarray] = {}
        self.checked_at: list[int] = []
        self.same: list[str] = []  # Observables that have one value on all paths at the end

    def take(self, folded: Sequence[Any]) -> None:
        """Take in the next whole block: the means of its variables (Welford's sums)."""
        self.blocks += 1
        for statistic, part, labels in zip(self.statistics, folded, self.labels, strict=True):
            for name, quantity in quantities(statistic, part, labels).items():
                if self._tolerance(name) is not None:
                    mean = self._means.get(name, np.zeros_like(quantity.mean))
                    change = quantity.mean - mean
                    self._means[name] = mean + change / self.blocks
                    squares = self._squares.get(name, np.zeros_like(mean))
                    self._squares[name] = squares + change * (quantity.mean - self._means[name])

    def look(self, merged: Sequence[Any], paths: int) -> Verdict:
        """Compare the merged results with the tolerances."""
        self.checked_at.append(paths)
        by_name: dict[str, tuple[Quantity, Labels]] = {}
        for statistic, part, labels in zip(self.statistics, merged, self.labels, strict=True):
            by_name |= {name: (q, labels) for name, q in quantities(statistic, part, labels).items()}
        self._check_names(list(by_name))
        own = [name for one in self.statistics if isinstance(one, Observable) for name in one.means()]
        self.same = [name for name in own if self._tolerance(name) is not None and _is_same(by_name[name][0])]
        verdicts = [
            self._worst(name, q, labels, paths)
            for name, (q, labels) in by_name.items()
            if self._tolerance(name) is not None
        ]
        return max(verdicts, key=lambda v: math.inf if math.isnan(v.share) else v.share)

    def _tolerance(self, name: str) -> tuple[float | None, float | None] | None:
        """The absolute and the relative tolerance of a variable; None where it has neither."""
        pair = tuple(
            tolerance.get(name) if isinstance(tolerance, dict) else tolerance
            for tolerance in (self.rule.error, self.rule.relative)
        )
        return None if pair == (None, None) else pair  # type: ignore[return-value]

    def _check_names(self, names: list[str]) -> None:
        for tolerance in (self.rule.error, self.rule.relative):
            strangers = [name for name in tolerance if name not in names] if isinstance(tolerance, dict) else []
            if strangers or not names:
                there = ", ".join(names) or "none: collect Moments, Observable, Histogram or Passage"
                raise ValueError(
                    f"until: there is no variable {strangers[0] if strangers else ''!r} with a standard error; "
                    f"there are {there}"
                )

    def _worst(self, name: str, quantity: Quantity, labels: Labels, paths: int) -> Verdict:
        absolute, relative = self._tolerance(name) or (None, None)
        variance, freedom = quantity.stderr**2, paths - 1.0
        if self.blocks >= MANY_BLOCKS:
            between = self._squares[name] / (self.blocks - 1) / self.blocks
            variance, freedom = np.fmax(variance, between), self.blocks - 1.0
        half = self.rule.quantile(freedom) * np.sqrt(variance)
        size = np.abs(quantity.mean) - (half if len(self.checked_at) == 1 else 0.0)
        tolerance = np.full(half.shape, math.inf if absolute is None else absolute)
        if relative is not None:
            tolerance = np.fmin(tolerance, relative * np.maximum(size, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(half == 0, 0.0, half / tolerance)
            if relative is not None and quantity.ones is not None:
                share = np.where(quantity.ones < EVENTS, np.fmax(share, EVENTS / np.maximum(quantity.ones, 1)), share)
        share = self._at_times(name, share, quantity, labels)
        place = np.unravel_index(int(np.argmax(np.where(np.isnan(share), math.inf, share))), share.shape)
        kurtosis = math.nan if quantity.kurtosis is None else float(quantity.kurtosis[place])
        counted = float(paths) if quantity.paths is None else float(quantity.paths[place])
        return Verdict(
            float(share[place]),
            _words(name, quantity.dims, tuple(map(int, place)), labels),
            float(half[place]),
            float(tolerance[place]),
            kurtosis,
            counted,
        )

    def _at_times(self, name: str, share: np.ndarray, quantity: Quantity, labels: Labels) -> np.ndarray:
        """The shares with zeros at the times that do not count."""
        if self.rule.at is None or "time" not in quantity.dims:
            return share
        wanted = np.atleast_1d(np.asarray(self.rule.at, float))
        apart = np.abs(labels.times[:, None] - wanted)
        near = 1e-9 * max(float(np.ptp(labels.times)), float(np.abs(labels.times).max()), 1e-300)
        missed = wanted[apart.min(axis=0) > near]
        if missed.size:
            raise ValueError(
                f"until: at = {missed[0]:g} is not a time at which {name} is collected; collect it there with at=, "
                f"or choose one of its {len(labels.times)} times from {labels.times[0]:g} to {labels.times[-1]:g}"
            )
        shape = [-1 if dim == "time" else 1 for dim in quantity.dims]
        return np.where((apart <= near).any(axis=1).reshape(shape), share, 0.0)

    def report(self, verdict: Verdict, ended_by: str) -> dict[str, Any]:
        """The entry in the run's record; warns where the tolerance is not met, or the standard error poorly known."""
        rule, q = self.rule, self.rule.quantile(math.inf)
        loose = math.sqrt(max(verdict.kurtosis - 1, 0.0) / verdict.paths) if verdict.kurtosis > 0 else math.nan
        density = math.exp(-0.5 * q * q) / math.sqrt(2 * math.pi)
        tails = {
            "kurtosis": verdict.kurtosis,
            "variance_error": loose,
            "coverage_lost": 0.25 * q * density * (1 + q * q) * loose**2,  # E Φ over such errors, to second order
        }
        if loose > LOOSE:
            tell(
                f"the standard error of {verdict.where} is itself known only to {100 * loose:.0f} % (kurtosis "
                f"{verdict.kurtosis:.3g}), so the coverage may fall short. Rare large values dominate it: more paths "
                "help slowly",
                HeavyTailed,
            )
        if self.same:
            paths = self.checked_at[-1]
            tell(
                f"{', '.join(self.same)} had one value on all {paths} paths. Other values have a probability below "
                f"{3 / paths:.1g}: the tolerance holds where they are truth values, but says nothing about rare large "
                "ones; see stodyn.rare for rare events",
                OneValue,
            )
        self._warn_of_the_end(verdict, ended_by)
        return {
            "asked": rule.request(),
            "reached": bool(verdict.share <= 1),
            "ended_by": ended_by,
            "looks": self.checked_at,
            "last": verdict.where,
            "half_width": verdict.half,
            "tolerance": verdict.tolerance,
            **({} if math.isnan(loose) else tails),
            **({"one_value": self.same} if self.same else {}),
            "says": f"each number by itself at {rule.level:g}, sampling only: the bias of the step is not in it",
        }

    def _warn_of_the_end(self, verdict: Verdict, ended_by: str) -> None:
        """Warn where something else than the tolerance ended the run."""
        if verdict.share <= 1:
            return
        limit = {"most": f"most = {self.checked_at[-1]} paths", "seconds": f"seconds = {self.rule.seconds}"}
        needed = self.checked_at[-1] * verdict.share**2
        paths = f"; about {needed:.1g} paths would reach it" if math.isfinite(needed) else ""
        tell(
            f"until: {limit.get(ended_by, ended_by)} ended the run before the tolerance was met: the half-width of "
            f"{verdict.where} is {verdict.half:.2g}, and {verdict.tolerance:.2g} was asked for{paths}",
            NotReached,
        )


def _is_same(quantity: Quantity) -> bool:
    """Whether some number has one value on all paths at the last time."""
    return quantity.same is not None and bool(quantity.same[-1:].any())


def of_randomisations(statistics: Sequence[Any], merged: Sequence[Any], labels: Sequence[Labels]) -> dict[str, Any]:
    """Entries for the record of a run with Sobol points; warns where a few points dominate the standard errors."""
    freedom = RANDOMISATIONS - 1
    for statistic, part, own in zip(statistics, merged, labels, strict=True):
        whole = functools.reduce(statistic.merge, statistic.parted(part))
        for name, quantity in quantities(statistic.of, whole, own).items():
            if quantity.kurtosis is None or quantity.paths is None:
                continue
            with np.errstate(invalid="ignore"):
                loose = float(np.nanmax(np.sqrt((quantity.kurtosis - 1) / quantity.paths), initial=0.0))
            if loose > LOOSE:
                tell(
                    f"the standard error of {name} is dominated by rare large values (kurtosis "
                    f"{np.nanmax(quantity.kurtosis):.3g} with {int(quantity.paths.max())} paths), so intervals "
                    "made from it cover too little. Take more paths",
                    HeavyTailed,
                )
    q = float(scipy.stats.t.ppf(0.975, freedom))
    return {
        "randomisations": RANDOMISATIONS,
        "stderr": f"from {RANDOMISATIONS} means: intervals at 0.95 take Student's quantile {q:.2f}, not 1.96",
    }


def _words(name: str, dims: Sequence[str], place: Sequence[int], labels: Labels) -> str:
    """One number of a variable: 'mean of x at time 8'."""
    words = {"component": lambda k: f" of {labels.names[k]}", "time": lambda k: f" at time {labels.times[k]:g}"}
    inner = [words.get(dim, lambda k, dim=dim: f", {dim} {k}")(k) for dim, k in zip(dims, place, strict=True)]
    return name + "".join(sorted(inner, key=lambda word: word.startswith(" at ")))
