"""Mean, variance, standard deviation and covariance with errors; for many components the variances alone."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.statistics import intervals
from stodyn.statistics.contract import Labelled, Snapshot, Statistic, Variable


class Sums(NamedTuple):
    """Weight, mean and central sums Σ w (x - mean)^k; the first axis is time."""

    weight: Any  # ()
    mean: Any  # (n,)
    second: Any  # (n, n), or (n,): the products of different components are left out
    third: Any  # (n,), or where products have errors (n, n): Σ w d_i² d_j
    fourth: Any  # (n,), or (n, n): Σ w d_i² d_j²


FEW_ENTRIES = 100  # up to which all products are stored by default
WIDE, FEW = 2**16, 6  # lanes of a block on a GPU; components for which sums one by one beat a product of matrices


def central_sums(x, sound, weight, products: bool = True, crosses: bool = False) -> Sums:
    """All the sums over the sound lanes of x (n, lanes) at once, as the product of (d, d²) with itself.

    Without `products`, only the sums of single components, one by one; with `crosses` the higher ones of pairs too.

    Computed in float64 whatever the states are: a mean in float32 would be off by its last digit, which shows with
    many paths.
    A GPU multiplies matrices of a few long rows slowly; it takes the sums of few components in two passes instead.
    """
    n, lanes = x.shape
    w = jnp.where(sound, jnp.asarray(weight, float), 0.0)
    x = jnp.where(sound, jnp.asarray(x, float), 0.0)
    if products and lanes >= WIDE and n <= FEW and not crosses:
        return _sums_one_by_one(x, sound, w)
    origin = x[:, :1]  # zero where the first lane is not sound; equal numbers have no variance about it
    first = jnp.concatenate([jnp.where(sound, x - origin, 0.0), jnp.ones((1, lanes), x.dtype)]) @ w
    total = first[n]
    mean = origin[:, 0] + first[:n] / jnp.maximum(total, np.finfo(x.dtype).tiny)
    d = jnp.where(sound, x - mean[:, None], 0.0)
    if not products:
        square = d * d
        return Sums(total, mean, square @ w, (square * d) @ w, (square * square) @ w)
    powers = jnp.concatenate([d, d * d])
    sums = (w * powers) @ powers.T
    if crosses:
        return Sums(total, mean, sums[:n, :n], sums[n:, :n], sums[n:, n:])
    return Sums(total, mean, sums[:n, :n], jnp.diagonal(sums[:n, n:]), jnp.diagonal(sums[n:, n:]))


def _sums_one_by_one(x, sound, w) -> Sums:
    """Compute the central sums of few components row by row."""
    total = jnp.sum(w)
    about = jnp.stack([jnp.sum(w * jnp.where(sound, row - row[0], 0.0)) for row in x])
    mean = x[:, 0] + about / jnp.maximum(total, np.finfo(x.dtype).tiny)
    d = [jnp.where(sound, row - m, 0.0) for row, m in zip(x, mean, strict=True)]
    upper = {(i, j): jnp.sum(w * d[i] * d[j]) for i in range(len(d)) for j in range(i, len(d))}
    second = jnp.stack([jnp.stack([upper[min(i, j), max(i, j)] for j in range(len(d))]) for i in range(len(d))])
    third, fourth = (jnp.stack([jnp.sum(w * row**k) for row in d]) for k in (3, 4))
    return Sums(total, mean, second, third, fourth)


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Pébay's pairwise update of central sums (Sandia report SAND2008-6212), each time by itself, in float64."""
    a, b = (Sums(*(np.asarray(part, float) for part in sums)) for sums in (a, b))
    with np.errstate(over="ignore", invalid="ignore"):  # fourth powers of states beyond 1e77
        return _merge_sums(a, b)


def _merge_sums(a: Sums, b: Sums) -> Sums:
    """Merge the central sums of two sets of paths about their common mean."""
    wa, wb = a.weight[:, None], b.weight[:, None]
    w = np.maximum(wa + wb, 1e-300)
    d = b.mean - a.mean
    third, fourth = _merged_singles(a, b) if a.third.ndim == 2 else _merged_pairs(a, b)
    fraction = wa * wb / w
    apart = d * d if a.second.ndim == 2 else d[:, :, None] * d[:, None, :]
    return Sums(
        a.weight + b.weight,
        np.where(wb > 0, a.mean + d * wb / w, a.mean),
        a.second + b.second + fraction.reshape(-1, *(1,) * (apart.ndim - 1)) * apart,
        third,
        fourth,
    )


def _merged_singles(a: Sums, b: Sums) -> tuple[np.ndarray, np.ndarray]:
    """The third and fourth sums of single components."""
    wa, wb = a.weight[:, None], b.weight[:, None]
    w, d = np.maximum(wa + wb, 1e-300), b.mean - a.mean
    va, vb = variances(a), variances(b)
    fraction = wa * wb / w
    return (
        a.third + b.third + fraction * (wa - wb) / w * d**3 + 3 * d * (wa * vb - wb * va) / w,
        a.fourth
        + b.fourth
        + fraction * (wa * wa - wa * wb + wb * wb) / w**2 * d**4
        + 6 * d * d * (wa * wa * vb + wb * wb * va) / w**2
        + 4 * d * (wa * b.third - wb * a.third) / w,
    )


def _merged_pairs(a: Sums, b: Sums) -> tuple[np.ndarray, np.ndarray]:
    """The third and fourth sums of pairs, each set's moved from its own mean to the common one."""
    w, d = np.maximum(a.weight + b.weight, 1e-300)[:, None], b.mean - a.mean
    third, fourth = np.zeros_like(a.third), np.zeros_like(a.fourth)
    for own, move in ((a, -d * b.weight[:, None] / w), (b, d * a.weight[:, None] / w)):
        i, j = move[:, :, None], move[:, None, :]
        square, weight = variances(own), own.weight[:, None, None]
        squares, others = square[:, :, None], square[:, None, :]
        third += own.third + j * squares + 2 * i * own.second + weight * i * i * j
        fourth += own.fourth + 2 * (j * own.third + i * own.third.swapaxes(1, 2)) + 4 * i * j * own.second
        fourth += j * j * squares + i * i * others + weight * (i * j) ** 2
    return third, fourth


def variances(sums: Sums) -> np.ndarray:
    """The central sums of squares of the components."""
    return single(sums.second, sums)


def single(part: Any, sums: Sums) -> np.ndarray:
    """The sums of single components in the second, third or fourth sums."""
    part = np.asarray(part)
    return part if part.ndim == np.ndim(sums.mean) else np.diagonal(part, axis1=-2, axis2=-1)


class Summary(NamedTuple):
    """Mean, variance and standard deviation with their errors, and the covariance or None; the first axis is time."""

    mean: np.ndarray
    mean_stderr: np.ndarray
    variance: np.ndarray
    variance_stderr: np.ndarray
    covariance: np.ndarray | None
    std: np.ndarray
    std_stderr: np.ndarray


@checks_arguments
def summarise(sums: Sums) -> Summary:
    """Return the means of an Averaged statistic, its unbiased variances s², and their standard errors.

    The estimate of Var s² = κ₄/N + 2σ⁴/(N-1) is unbiased, from Fisher's k-statistics: k₄ estimates the fourth cumulant
    κ₄, which is taken to be zero for N < 4, as it is for normal numbers. That of the standard deviation s is the delta
    method's, Var s ≈ σ²/(2 (N-1)) + κ₄/(4 N σ²); with 2 (N-1) + ½ in place of 2 (N-1) the first term, all there is for
    normal numbers, is right to 1 % from N = 5 on.

    Parameters
    ----------
    sums : Sums
        The result that `label` of an Averaged statistic receives.

    Returns
    -------
    Summary
        mean, mean_stderr, variance, variance_stderr, std and std_stderr, (times, entries), and covariance, (times,
        entries, entries), or None where products of different entries were not averaged.
    """
    sums = Sums(*(np.asarray(part, float) for part in sums))
    count = sums.weight[:, None]
    less = np.where(count > 1, count - 1, np.nan)  # degrees of freedom
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        squares = variances(sums)
        variance = squares / less
        covariance = sums.second / less[:, :, None] if sums.second.ndim == 3 else None
        k4 = count * (count + 1) * single(sums.fourth, sums) - 3 * less * squares**2
        k4 = np.where(count > 3, k4 / (less * (count - 2) * (count - 3)), 0.0)
        spread = (2 * variance**2 + less / count * k4) / (count + 1)
        mean = np.where(count > 0, sums.mean, np.nan)
        of_std = variance / (2 * less + 0.5) + np.where(variance > 0, k4 / (4 * count * variance), 0.0)
        errors = (np.sqrt(np.maximum(square, 0.0)) for square in (variance / count, spread, of_std))
        mean_stderr, variance_stderr, std_stderr = errors
        return Summary(mean, mean_stderr, variance, variance_stderr, covariance, np.sqrt(variance), std_stderr)


def covariance_errors(sums: Sums) -> np.ndarray:
    """The standard errors (times, n, n) of covariances c, from the sums of pairs.

    The estimate of Var c = κ₂₂/N + (σ₁²σ₂² + c²)/(N-1) is unbiased, from bivariate k-statistics; κ₂₂ is taken to be
    zero for N < 4. On the diagonal it is that of a variance.
    """
    sums = Sums(*(np.asarray(part, float) for part in sums))
    count, squares = sums.weight[:, None, None], variances(sums)
    less = np.where(count > 1, count - 1, np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        sizes, own = squares[:, :, None] * squares[:, None, :], sums.second**2
        k22 = count * (count + 1) * sums.fourth - less * (sizes + 2 * own)
        k22 = np.where(count > 3, k22 / (less * (count - 2) * (count - 3)), 0.0)
        normal = np.where(count > 2, (less * sizes + (count - 3) * own) / (count - 2), 2 * own)
        return np.sqrt(np.maximum((normal / less**2 + less / count * k22) / (count + 1), 0.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Valued(Statistic):
    """A statistic of numbers that each path has by itself: its `values`. They are printed with the step; `fold`
    receives them and a mask of the sound lanes, each with a leading axis of times."""

    @abstractmethod
    def values(self, snapshot: Snapshot) -> Any:
        """The numbers (entries, lanes) that the statistic takes from each path."""

    def observe(self, snapshot):
        return self.values(snapshot), snapshot.sound


@dataclasses.dataclass(frozen=True, kw_only=True)
class Averaged(Valued):
    """A statistic that is made of averages over the paths of its `values`.

    crosses  whether the products of different entries have errors, so that the higher sums of pairs are needed
    """

    crosses = False

    def means(self) -> dict[str, slice]:
        """The variables of the result that are means of `values`, with the entries each is taken from."""
        return {getattr(self, "averages", ("",))[0]: slice(None)}

    def error_covariances(
        self, of_means: np.ndarray, of_variances: np.ndarray, paths: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The covariances of the errors of its variables at two points of a sweep, from those of the means and of the
        variances of its `values` (times, entries, ...), taken over so many paths (times,)."""
        covariances = {name: of_means[:, entries] for name, entries in self.means().items() if name}
        return covariances | dict.fromkeys(getattr(self, "averages", ())[1:], of_variances)

    def products(self, entries: int) -> bool:
        """Whether the products of different entries are averaged too."""
        return entries <= FEW_ENTRIES

    def observe(self, snapshot):
        values = self.values(snapshot)
        return central_sums(values, snapshot.sound, snapshot.weight, self.products(len(values)), self.crosses)

    def merge(self, a, b):
        return merge_sums(a, b)


@checks_arguments
@dataclasses.dataclass(frozen=True, kw_only=True)
class Moments(Averaged):
    """Mean, variance, standard deviation and covariance of every component, with their errors.

    Parameters
    ----------
    covariance : bool, optional
        Whether the covariance is stored. True stores it with its errors, which takes sums of each pair. By default it
        is stored without, for at most 100 components; where it is left out, the attributes of `variance` say so.
    every, at : int, sequence of numbers, optional
        When to observe: after every `every` steps, or `at` these times; by default on the run's own grid.

    Notes
    -----
    Variables: mean, mean_stderr, variance, variance_stderr, std, std_stderr (time, component); covariance and, if it is
    asked for, covariance_stderr (time, component, other); and paths_used (time), the number of paths they are taken
    over. `std` is the root of `variance`, the unbiased one; its error heeds the kurtosis of the paths, as that of
    `variance` does.

    Examples
    --------
    >>> from stodyn import statistics as st
    >>> moments = st.Moments(every=10)
    """

    covariance: bool | None = None
    averages = ("mean", "variance")  # the names of the variables that describe `values`

    def __post_init__(self):
        super().__post_init__()
        if self.covariance not in (None, True, False):
            raise ValueError(f"Moments: covariance must be True, False or None, got {self.covariance!r}")

    @property
    def crosses(self):  # type: ignore[override]
        return bool(self.covariance)

    def products(self, entries):
        return entries <= FEW_ENTRIES if self.covariance is None else bool(self.covariance)

    def values(self, snapshot):
        return snapshot.x

    def memory(self, times, paths, n):
        pairs = (self.products(n) + 2 * self.crosses) * n
        return 8 * times * n * (6 + max(pairs, 1))

    def label(self, result, labels):
        s = summarise(result)
        by_component = ("time", "component")
        left_out = f"left out, as there are {s.mean.shape[1]} components; Moments(covariance=True) stores it"
        note = {} if s.covariance is not None else {"covariance": left_out}
        student = intervals.attributes(intervals.STUDENT, result.weight)
        variables = {
            "mean": Variable(by_component, s.mean, student),
            "mean_stderr": Variable(by_component, s.mean_stderr),
            "variance": Variable(by_component, s.variance, note | student | {"interval": intervals.CHI_SQUARE}),
            "variance_stderr": Variable(by_component, s.variance_stderr),
            "std": Variable(by_component, s.std, student | {"interval": intervals.DEVIATION}),
            "std_stderr": Variable(by_component, s.std_stderr),
            "paths_used": Variable(("time",), np.rint(result.weight).astype(int)),
        }
        if s.covariance is None:
            return Labelled(variables)
        of_pairs, notes = ("time", "component", "other"), {"stderr": "Moments(covariance=True) stores it"}
        if self.crosses:
            notes = student | {"interval": intervals.COVARIANCE}
            variables["covariance_stderr"] = Variable(of_pairs, covariance_errors(result))
        variables["covariance"] = Variable(of_pairs, s.covariance, notes)
        return Labelled(variables, {"other": Variable(("other",), np.array(labels.names))})
