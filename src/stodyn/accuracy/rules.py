"""From the means of the levels to an interval, a bound on the bias, and predicted costs: pure functions, no paths.

Level l = 0, 1, ... has n_0 2^l steps. P_l is f on level l, and Y_l = P_l - P_(l-1) on the same noise. With base
b, top L and weak order a (g = 2^a) the estimate is

    E = P_b + Y_(b+1) + ... + Y_L + Y_L/(g - 1),          the last term being Richardson's (Talay & Tubaro, 1990);

b = L is plain Monte Carlo, b = 0 multilevel (Giles, 2008). Its bias is bounded by the last change of E,

    D = |g Y_L - Y_(L-1)|/(g - 1),

2g - 1 times the error that is left where the order is right, and just that error where the order is one less. Where
|Y_L/Y_(L-1)| = ρ > 2^(0.4 - a) is seen (both beyond 3 standard errors), nothing is extrapolated and
D = |Y_L| ρ/(1 - ρ).

Where differences do not fall as claimed yet, their ratio passes the claimed one on its way, and D is small there by
chance: if the pair before showed ρ > 2^(0.4 - a), D is no less than its own |g Y - Y'|/(g - 1)/g, beyond doubt.

Errors in powers of √h, such as those of extremes, leave no such safety: D is then hardly larger than the remaining
error, and a D that is small by chance would end the sampling. Its standard error is therefore added.

Coefficients with roots or corners leave the order open until it is seen: three differences are compared (bias_seen,
bias_seen_above). Where steps cross roots or jumps of the diffusion, differences fall by √2 only, which hardly shows:
the bound is then the largest that their errors allow.

Where fine and coarse paths lose each other (chaos, phase mixing), Y varies as f does, and both g Y_L and the noise of D
cost more than the estimate. Then E = P_b with b = L + k ≥ L, and with s the standard error of Y_L the bias is at most

    D = max(|Y_L| r^(k+1)/(1 - r), (|Y_L| + 2 s) g^-k/(g - 1)),          r = 2^(1 - a), a ≥ 2:

the remainders of differences that fall by an order less than claimed, and, with their noise, that fall as claimed.
A base some levels above L costs more for each path, but its bias needs r^-2k times fewer pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from stodyn.accuracy.levels import LevelEstimate
from stodyn.noise.sobol import RANDOMISATIONS

SEEN, STEEPEST = 3.0, 0.9  # standard errors beyond which a difference is significant; the largest ratio of differences
SLOWER = 2.0**0.25  # times the slowest fall seen from difference to difference: a quarter of an order less
RATIOS, ALLOWED = 49, 4.0  # how many falls of differences are tried; squared deviations to which they may be off
SLACK = 0.4  # shortfall of the order that is tolerated: half an order less is detected
FEWEST_PATHS = 30  # the fewest whose scatter means anything
FEW_DIFFERENT = 5  # the fewest different means of randomisations whose scatter means anything
LOOSE = 0.09  # (kurtosis - 1)/points beyond which a variance is not believed
STOPPED = 0.15  # share of the sampling part by which the interval is widened at least, since sampling stops on s
SHARE, BIAS_SHARE = 0.6, 1.0 / 3.0  # shares of the error for sampling and for the bias in predicted costs
SHARES, MOST_SHARE = (0.5, 0.6, 0.7, 0.8), 0.93  # those for sampling that plain Monte Carlo may take, and of both
MOST_ABOVE = 8  # levels above those of the pilot that the base of plain Monte Carlo may have


class Order(NamedTuple):
    """The weak order of f with a method, and the power of h with which the variance of its differences falls.

    has_roots  whether its error is a series in powers of √h, not of h
    is_rough   whether the coefficients have corners or roots, so that the order holds only where it is seen
    is_low     whether steps cross roots or jumps of the diffusion, where an order of 1/2 is likely (cusps)
    """

    weak: float
    decay: float
    has_roots: bool = False
    is_rough: bool = False
    is_low: bool = False

    @property
    def differences(self) -> int:
        """How many differences it takes to bound the bias."""
        return 3 if self.is_rough else 2

    @property
    def ratio(self) -> float:
        """The factor by which the bias falls from level to level."""
        return 2.0**self.weak

    @property
    def planned(self) -> Order:
        """The order to plan with: of rough coefficients one whose differences fall by √2 an order below it."""
        return self._replace(weak=1.5) if self.is_rough else self


class Bias(NamedTuple):
    """A bound on the bias per entry, its standard error, whether E is extrapolated, and |Y_L/Y_(L-1)| if seen."""

    bound: np.ndarray
    stderr: np.ndarray
    extrapolated: np.ndarray
    ratio: np.ndarray


class Level(NamedTuple):
    """A mean in the estimate: the "base" P or the "difference" Y of level l, and the cost of one of its points."""

    role: str
    level: int
    known: LevelEstimate
    cost: int


def guarded(levels: Sequence[Level], order: Order, span: np.ndarray) -> list[Level]:
    """The levels with standard errors raised to the least that is plausible: differences that never occurred are not
    zero (a quarter of the level before, scaled), nor is the error of means of a two-valued f that agree by accident."""
    guarded_levels: list[Level] = []
    before: Level | None = None
    for one in levels:
        known, least = one.known, np.zeros_like(one.known.stderr2)
        if one.role != "base":
            if before is not None:
                fall = 2.0 ** (-order.decay * (one.level - before.level)) * before.known.points / known.points
                least = 0.25 * before.known.stderr2 * fall
            before = one
        few = known.different < FEW_DIFFERENT
        floor = (RANDOMISATIONS * span / known.points) ** 2 / (4.0 * RANDOMISATIONS)
        least = np.maximum(least, np.where((span > 0) | (few & (known.variance > 0)), floor, 0.0))
        better = known._replace(stderr2=np.maximum(known.stderr2, least))
        guarded_levels.append(one._replace(known=better))
        if one.role != "base":
            before = guarded_levels[-1]
    return guarded_levels


def bias(top: LevelEstimate, below: LevelEstimate, order: Order, third: LevelEstimate | None = None) -> Bias:
    """A bound on the bias from the two finest differences, and the one below them where it is known."""
    b = _bias_of_two(top, below, order)
    if third is None:
        return b
    before, g, Y = _bias_of_two(below, third, order), order.ratio, below.mean
    doubt = SEEN * np.sqrt(g * g * below.stderr2 + third.stderr2)
    left = np.maximum(np.abs(g * Y - third.mean) - doubt, 0.0) / (g - 1) / g
    return b._replace(bound=np.where(b.extrapolated & ~before.extrapolated, np.maximum(b.bound, left), b.bound))


def _bias_of_two(top: LevelEstimate, below: LevelEstimate, order: Order) -> Bias:
    g = order.ratio
    Y, before = top.mean, below.mean
    is_significant = (np.abs(Y) > SEEN * np.sqrt(top.stderr2)) & (np.abs(before) > SEEN * np.sqrt(below.stderr2))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(is_significant, np.abs(Y / before), 0.0)
    lower = ratio > 2.0 ** (SLACK - order.weak)
    r = np.minimum(ratio, STEEPEST)
    bound = np.where(lower, np.abs(Y) * r / (1 - r), np.abs(g * Y - before) / (g - 1))
    stderr = np.where(lower, np.sqrt(top.stderr2), np.sqrt(g * g * top.stderr2 + below.stderr2) / (g - 1))
    if order.has_roots:
        bound = bound + stderr
    return Bias(bound, stderr, ~lower, ratio)


def bias_seen(finest: Sequence[LevelEstimate], order: Order) -> Bias:
    """A bound on the bias of the top from the three finest differences, the finest first, of an order that may be lower
    than claimed: no less than each of them shows at order 1 beyond doubt."""
    claimed = bias(finest[0], finest[1], order)
    shown = [np.maximum(np.abs(Y.mean) - 2 * np.sqrt(Y.stderr2), 0) * 0.5**k for k, Y in enumerate(finest)]
    b = claimed._replace(bound=np.maximum(claimed.bound, np.max(shown, axis=0)))
    return _bias_allowed(finest, order, b) if order.is_low else b


def _bias_allowed(finest: Sequence[LevelEstimate], order: Order, least: Bias) -> Bias:
    """No less than `least`, nor than the largest remainder C r/(1 - r) of differences C r^-k that the three allow by
    their errors, with r up to √½, or to where they fit best."""
    ratios = np.geomspace(1.0 / order.ratio, STEEPEST, RATIOS)[:, None]
    powers = ratios ** -np.arange(len(finest))  # (ratios, differences)
    means = np.array([Y.mean for Y in finest])
    weights = 1.0 / np.maximum([Y.stderr2 for Y in finest], np.finfo(float).tiny)
    precision = powers**2 @ weights
    C = powers @ (weights * means) / precision
    misfit = np.sum(weights * means**2, axis=0) - C**2 * precision
    best = np.min(misfit, axis=0)
    is_allowed = (misfit - best <= ALLOWED * np.maximum(best, 1.0)) & (
        ratios <= np.maximum(math.sqrt(0.5), ratios[np.argmin(misfit, axis=0), 0])
    )
    left = np.abs(ratios / (1 - ratios) - np.where(least.extrapolated, 1 / (order.ratio - 1), 0.0))
    remainders = np.where(is_allowed, left * (np.abs(C) + 2 * precision**-0.5), 0.0)
    worst = np.argmax(remainders, axis=0)[None]
    stderr = np.take_along_axis(left * precision**-0.5, worst, axis=0)[0]
    bound = np.maximum(least.bound, np.max(remainders, axis=0))
    return least._replace(bound=bound, stderr=np.maximum(least.stderr, stderr))


def bias_seen_above(finest: Sequence[LevelEstimate], order: Order, above: int) -> Bias:
    """A bound on the bias of a base `above` levels higher than the finest of three differences: the largest of their
    remainders, should they all fall by the factor r that they show, or by √2 where they do not show it."""
    Y, s = np.abs([one.mean for one in finest]), np.sqrt([one.stderr2 for one in finest])
    is_seen = np.all(SEEN * s < Y, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowest = np.where(is_seen, np.max(Y[:-1] / Y[1:], axis=0), 1.0)
    r = np.where(is_seen, np.clip(SLOWER * slowest, 0.5, STEEPEST), math.sqrt(0.5))
    remainders = [size * r ** (k + above + 1) / (1 - r) for k, size in enumerate(Y)]
    stderr = s[0] * r ** (above + 1) / (1 - r)
    return Bias(np.max(remainders, axis=0) + stderr, stderr, np.zeros(r.shape, bool), np.zeros(r.shape))


def _remainder(order: Order, above: int) -> tuple[float, float]:
    """The remainder of a difference of 1 from `above` levels higher on: at one order less than claimed, and at it."""
    r, g = 2.0 ** (1.0 - order.weak), order.ratio
    return r ** (above + 1) / (1 - r), g**-above / (g - 1)


def _seen_above(differences: Mapping[int, LevelEstimate], order: Order, base: int) -> np.ndarray:
    """The bias of a base as far as the differences show it beyond doubt: two standard errors less than they are."""
    least = [
        np.maximum(np.abs(Y.mean) - 2 * np.sqrt(Y.stderr2), 0) * _remainder(order, base - l)[0]
        for l, Y in differences.items()
    ]
    return np.max(least, axis=0)


def bias_above(differences: Mapping[int, LevelEstimate], top: int, order: Order, base: int) -> Bias:
    """A bound on the bias of a base from the difference of level `top`, no less than others show beyond doubt;
    nothing is extrapolated."""
    slow, claimed = _remainder(order, base - top)
    size, s = np.abs(differences[top].mean), np.sqrt(differences[top].stderr2)
    bound = np.maximum(np.maximum(size * slow, (size + 2 * s) * claimed), _seen_above(differences, order, base))
    return Bias(bound, s * slow, np.zeros(size.shape, bool), np.zeros(size.shape))


def weights(levels: Sequence[Level], base: int, top: int, order: Order, extrapolated: np.ndarray) -> list[np.ndarray]:
    """The weight of each mean in the estimate, per entry."""
    more = np.where(extrapolated, 1.0 / (order.ratio - 1.0), 0.0)
    solutions = []
    for one in levels:
        if one.role == "base":
            weight = np.full(extrapolated.shape, float(one.level == base))
        else:
            weight = float(base < one.level <= top) + (more if one.level == top else 0.0) * np.ones(extrapolated.shape)
        solutions.append(weight)
    return solutions


class Interval(NamedTuple):
    """An estimate per entry: value ± half, half = q stderr + max(bias, 0.15 q stderr).

    Sampling stops when q stderr happens to be small enough, which costs a few per cent of coverage. The bound on the
    bias, which is seldom exhausted, makes up for that; where it is tiny, a share of q stderr does.
    """

    value: np.ndarray
    half: np.ndarray
    stderr: np.ndarray
    bias: np.ndarray
    freedom: float


def interval(levels: Sequence[Level], counted: Sequence[np.ndarray], bound: np.ndarray, level: float) -> Interval:
    """Student's quantile with Satterthwaite's degrees of freedom over the means."""
    value = sum(w * one.known.mean for w, one in zip(counted, levels, strict=True))
    shares = [w**2 * one.known.stderr2 for w, one in zip(counted, levels, strict=True)]
    variance = np.asarray(sum(shares))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = sum(np.square(s / variance) / one.known.freedom for s, one in zip(shares, levels, strict=True))
        freedom = np.where(variance > 0, 1.0 / spread, np.inf)
    q = scipy.stats.t.ppf(0.5 + 0.5 * level, freedom)
    stderr = np.sqrt(variance)
    half = q * stderr + np.maximum(bound, STOPPED * q * stderr)
    return Interval(np.asarray(value), half, stderr, bound, float(np.min(freedom)))


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The expected cost of a base and a top, in path-steps; for plain Monte Carlo also the wanted paths and pairs."""

    base: int
    top: int
    cost: float
    paths: float = 0.0
    pairs: float = 0.0

    @property
    def is_plain(self) -> bool:
        return self.paths > 0


def predicted(
    singles: Mapping[int, tuple[np.ndarray, int]],
    pairs: Mapping[int, tuple[np.ndarray, int]],
    bound: np.ndarray,
    order: Order,
    error: np.ndarray,
    level: float,
    most_levels: int = 24,
    loses_paths: bool = False,
) -> list[Prediction]:
    """The cost of every base, with the lowest top whose bias is small enough.

    singles, pairs  level -> (points times variance of the mean, cost of a point), from a pilot whose finest difference
                    has the bias `bound`; beyond the pilot both fall as the order says
    loses_paths     differences do not fall beyond the pilot, and the noise of the bias costs as well
    """
    finest = max(pairs)
    top, D = finest, bound
    while np.any(BIAS_SHARE * error < D) and top < most_levels:
        top, D = top + 1, D * 2.0 ** -(order.weak + 1)
    g, q = order.ratio, float(scipy.stats.norm.ppf(0.5 + 0.5 * level))
    decay = 0.0 if loses_paths else order.decay

    def single(l: int) -> tuple[np.ndarray, float]:
        known = min(l, max(singles))
        return singles[known][0], singles[known][1] * 2.0 ** (l - known)

    def pair(l: int) -> tuple[np.ndarray, float]:
        known = min(l, finest)
        return pairs[known][0] * 2.0 ** (-decay * (l - known)), pairs[known][1] * 2.0 ** (l - known)

    routes = []
    for base in range(top + 1):
        terms = [(*single(base), 1.0)] + [(*pair(l), 1.0 if l < top else g / (g - 1)) for l in range(base + 1, top + 1)]
        if base == top:
            terms.append((*pair(top), 1.0 / (g - 1)))
        total = sum(np.sqrt(v * c) * w for v, c, w in terms) ** 2 * (q / (SHARE * error)) ** 2
        if loses_paths:
            v, c = pair(top)
            total = total + v * c * (g / (g - 1) / (BIAS_SHARE * error)) ** 2
        routes.append(Prediction(base, top, float(np.max(total))))
    return routes


def plain_routes(
    variance: np.ndarray,
    steps: int,
    known: Mapping[int, tuple[LevelEstimate, int]],
    paths: Mapping[int, int],
    order: Order,
    error: np.ndarray,
    level: float,
) -> list[Prediction]:
    """The remaining costs of plain Monte Carlo, for every difference that may measure its bias and every base above it;
    empty where differences do not fall.

    variance, steps  of f, and of level 0
    known            level -> the difference and the cost of a pair; one level more is guessed from the finest
    paths            base -> the number of its paths so far
    """
    q = float(scipy.stats.norm.ppf(0.5 + 0.5 * level))
    finest = max(known)
    last, price = known[finest]
    guessed = last._replace(points=0)
    pairs_of = dict(known) | {finest + 1: (guessed, 2 * price)}
    differences, routes = {l: Y for l, (Y, _) in sorted(known.items())}, []
    lowest = order.differences if order.is_rough else 1
    for below, above in itertools.pairwise(differences.values()):
        doubt = 2 * np.sqrt(above.stderr2) + 2 * STEEPEST * np.sqrt(below.stderr2)
        if np.any(np.abs(above.mean) - doubt > STEEPEST * np.abs(below.mean)):
            return []
    for base, share in itertools.product(range(1, finest + MOST_ABOVE), SHARES):
        room = ((MOST_SHARE - share) * error) ** 2 - _seen_above(differences, order, base) ** 2
        wanted = max(float(np.max(variance * (q / (share * error)) ** 2)), FEWEST_PATHS)
        missing = max(wanted - paths.get(base, 0), 0.0) * steps * 2.0**base
        for top, (Y, cost) in pairs_of.items():
            if lowest <= top <= base and np.all(room > 0):
                pairs = max(float(np.max(Y.variance * _remainder(order, base - top)[0] ** 2 / room)), FEWEST_PATHS)
                total = missing + max(pairs - Y.points, 0.0) * cost
                routes.append(Prediction(base, top, total, wanted, pairs))
    return routes


def plain(
    variances: Mapping[int, np.ndarray],
    biases: Mapping[int, np.ndarray],
    steps: Mapping[int, int],
    order: Order,
    error: np.ndarray,
    level: float,
) -> tuple[float, int]:
    """Path-steps of plain Monte Carlo with its best step, n V (q/(error - bias_n))² (at least 30 paths), and its number
    of steps n."""
    q = float(scipy.stats.norm.ppf(0.5 + 0.5 * level))
    last, best = max(variances), (math.inf, 0)
    for l in range(last + 24):
        known = min(l, last)
        bound = biases[known] * 2.0 ** (-order.weak * (l - known))
        n = steps[known] * 2 ** (l - known)
        if np.all(bound < error):
            cost = n * max(float(np.max((np.sqrt(variances[known]) * q / (error - bound)) ** 2)), FEWEST_PATHS)
            best = min(best, (cost, n))
    return best
