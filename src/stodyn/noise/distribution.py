"""Distributions of random numbers, and the orthogonal polynomials that belong to them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.arguments import checks_arguments
from stodyn.noise.source import check_law
from stodyn.numerics import gauss, orthogonal
from stodyn.numerics.orthogonal import Recurrence

RESOLVED = 1e-14  # relative to the whole mass: how well the integral of a density over a panel is known
NEGLIGIBLE = 1e-8  # the share of a moment that may come from the outermost panels before it is called infinite
NOTHING = 1e-15  # the probability beyond a kink below which nothing lies there
FAR_TAIL = 1e-15  # the probability beyond which nothing grows, where tails are as light as exponential ones:
GROWTH = 1.2  # by more than that, a choice: heavier tails make it grow with the logarithm of the probability at least
TAIL = 1e-60  # the probability beyond the outermost quantile that is integrated to


class Piece(NamedTuple):
    """A part of a distribution, normalised, and its probability."""

    law: Distribution
    probability: float


class Distribution(ABC):
    """A random number with a density, as polynomial chaos expands it and as a run draws it.

    low, high  the ends of its support, possibly infinite
    """

    low: float
    high: float

    @abstractmethod
    def pdf(self, x: Any) -> np.ndarray:
        """The density."""

    @abstractmethod
    def ppf(self, u: Any) -> np.ndarray:
        """The quantiles: the inverse of the distribution function."""

    @abstractmethod
    def recurrence(self, n: int) -> Recurrence:
        """The first n coefficients of its monic orthogonal polynomials; an error where moments do not exist."""

    def rule(self, n: int) -> gauss.Rule:
        """The Gauss rule with n nodes: exact for polynomials of degree 2n - 1."""
        return gauss.rule(*self.recurrence(n))

    def moment(self, k: int) -> float:
        """The moment E x^k."""
        x, w = self.rule(k // 2 + 1)
        return float(np.sum(w * x**k))

    @property
    def mean(self) -> float:
        return float(self.recurrence(1).alpha[0])

    @property
    def variance(self) -> float:
        return float(self.recurrence(2).beta[1])

    @property
    def poincare(self) -> float:
        """C with Var u ≤ C E u'² for every function u: Muckenhoupt's bound, at most four times the least such C.

        With the median m it is 4 times the largest P(x > r) ∫_m^r dx/density over r > m, or the same on the other side;
        infinite where tails are heavier than exponential."""
        points = self._points
        with np.errstate(all="ignore"):
            over = points.w / np.asarray(self.pdf(points.x), float) ** 2  # dx/density at each point
        middle = int(np.searchsorted(np.cumsum(points.w), 0.5))
        upper = _muckenhoupt(points.w[middle:], over[middle:])
        lower = _muckenhoupt(points.w[middle::-1], over[middle::-1])
        return 4.0 * max(upper, lower)

    @property
    @abstractmethod
    def _points(self) -> _Points:
        """The density as weighted points."""

    def between(self, low: float, high: float) -> Piece:
        """This distribution on [low, high], and the probability of that interval."""
        part = Density(self.pdf, max(low, self.low), min(high, self.high))
        return Piece(part, part._points.mass)

    def split(self, kinks: Sequence[float]) -> list[Piece]:
        """This distribution between neighbours of the kinks; one with nothing on one of its sides divides nothing."""
        outermost = self.ppf(np.array([NOTHING, 1.0 - NOTHING]))
        inner = [kink for kink in np.unique(kinks) if outermost[0] < kink < outermost[1]]
        return [self.between(*ends) for ends in itertools.pairwise([self.low, *inner, self.high])]

    def rvs(self, size: Any = None, random_state: np.random.Generator | None = None) -> np.ndarray:
        """Draws, by quantiles of uniform numbers."""
        rng = np.random.default_rng() if random_state is None else random_state
        return self.ppf(rng.random(size))


@dataclasses.dataclass(frozen=True)
class _Law(Distribution):
    """A distribution of scipy.stats, by its closed recurrence where there is one."""

    law: Any
    spelling: str
    closed: Callable[[int], Recurrence] | None = None
    location: float = 0.0
    scale: float = 1.0

    @property
    def low(self) -> float:  # type: ignore[override]
        return float(self.law.support()[0])

    @property
    def high(self) -> float:  # type: ignore[override]
        return float(self.law.support()[1])

    def pdf(self, x):
        return self.law.pdf(x)

    def ppf(self, u):
        return self.law.ppf(u)

    def rvs(self, size=None, random_state=None):
        return self.law.rvs(size=size, random_state=random_state)

    def between(self, low, high):
        part = Truncated(self, low, high)
        return Piece(part, part._between)

    def recurrence(self, n):
        if self.closed is not None:
            return self.closed(n).moved(self.location, self.scale)
        return _discretised(self._points, n, self.spelling)

    def rule(self, n):
        if self.closed is None:
            return super().rule(n)
        x, w = gauss.rule(*self.closed(n))
        return gauss.Rule(self.location + self.scale * x, w)

    @property
    def poincare(self):
        family, (_, _, scale) = self.law.dist.name, self.law.dist._parse_args(*self.law.args, **self.law.kwds)
        known = {"uniform": (scale / np.pi) ** 2, "norm": scale**2}
        return float(known[family]) if family in known else super().poincare

    @functools.cached_property
    def _points(self) -> _Points:
        u = np.concatenate([10.0 ** np.arange(np.log10(TAIL), 0.0), [0.25, 0.5]])
        edges = np.unique(np.concatenate([self.law.ppf(u), self.law.isf(u), [self.low, self.high]]))
        return _integrated(self.law.pdf, edges[np.isfinite(edges)], self.spelling)

    def __repr__(self) -> str:
        return self.spelling


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Truncated(Distribution):
    """A distribution cut to [low, high] and normalised again.

    Parameters
    ----------
    base : distribution
        One of stodyn.noise (Normal, Gamma, ...) or a frozen continuous scipy.stats distribution.
    low, high : float
        The ends of the new support; low < high.

    Examples
    --------
    >>> import stodyn as sd
    >>> resistance = sd.noise.Truncated(sd.noise.Normal(1.0, 0.1), 0.8, 1.2)
    >>> round(resistance.mean, 12)
    1.0
    """

    base: Any
    low: float
    high: float

    def __post_init__(self):
        object.__setattr__(self, "base", distribution(self.base, "Truncated"))
        if not isinstance(self.base, _Law):
            raise TypeError(f"Truncated: expected a distribution of scipy.stats or of stodyn.noise, got {self.base!r}")
        if not (self.low < self.high and self._between > 0.0):
            raise ValueError(f"Truncated: {self.base} has no mass in [{self.low}, {self.high}]; expected low < high")

    @functools.cached_property
    def _share(self) -> tuple[Callable, float, float]:
        """The quantiles of the base, and the probabilities at low and high from which they are taken: those of larger
        numbers where both lie in the upper half, so that no digits are lost in that tail."""
        law = self.base.law
        if law.cdf(self.low) > 0.5:
            return law.isf, float(law.sf(self.low)), float(law.sf(self.high))
        return law.ppf, float(law.cdf(self.low)), float(law.cdf(self.high))

    @property
    def _between(self) -> float:
        return abs(self._share[2] - self._share[1])

    def pdf(self, x):
        return np.where((x >= self.low) & (x <= self.high), self.base.pdf(x) / self._between, 0.0)

    def ppf(self, u):
        quantile, at_low, at_high = self._share
        return np.clip(quantile(at_low + np.asarray(u) * (at_high - at_low)), self.low, self.high)

    def between(self, low, high):
        part = Truncated(self.base, max(low, self.low), min(high, self.high))
        return Piece(part, part._between / self._between)

    def recurrence(self, n):
        return _discretised(self._points, n, repr(self))

    @functools.cached_property
    def _points(self) -> _Points:
        share, law = (
            self._between * np.concatenate([10.0 ** np.arange(np.log10(TAIL), 0.0), [0.25, 0.5]]),
            self.base.law,
        )
        inner = np.concatenate([law.ppf(law.cdf(self.low) + share), law.isf(law.sf(self.high) + share)])
        ends = max(self.low, self.base.low), min(self.high, self.base.high)
        edges = np.concatenate([np.clip(inner, self.low, self.high), ends])
        return _integrated(self.pdf, np.unique(edges[np.isfinite(edges)]), repr(self))


@checks_arguments
@dataclasses.dataclass(frozen=True)
class Density(Distribution):
    """A distribution with a density of your own on [low, high]; the ends may be infinite.

    Parameters
    ----------
    density : function density(x) -> array in the shape of x
        It takes arrays and need not be normalised.
    low, high : float
        The ends of the support; low < high.
    breaks : tuple of float
        Points at which the density is not smooth.

    Examples
    --------
    >>> import numpy as np
    >>> import stodyn as sd
    >>> triangle = sd.noise.Density(lambda x: 1.0 - np.abs(x), -1.0, 1.0, breaks=(0.0,))
    >>> round(triangle.variance, 12)
    0.166666666667
    """

    density: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    breaks: tuple[float, ...] = ()

    def __post_init__(self):
        if not self.low < self.high:
            raise ValueError(f"Density: expected low < high, got {self.low} and {self.high}")
        x = self._points.x[:3]
        if np.shape(self.density(x)) != x.shape:
            raise ValueError(f"Density: density(x) gave shape {np.shape(self.density(x))} for x of shape {x.shape}")

    def pdf(self, x):
        return self.density(np.asarray(x, float)) / self._points.mass

    def ppf(self, u):
        return self.mean + np.sqrt(self.variance) * self._standard.ppf(u)

    def between(self, low, high):
        low, high = max(low, self.low), min(high, self.high)
        part = Density(self.density, low, high, tuple(x for x in self.breaks if low < x < high))
        return Piece(part, part._points.mass / self._points.mass)

    def recurrence(self, n):
        return _discretised(self._points, n, repr(self))

    @functools.cached_property
    def _standard(self) -> Any:
        """The quantiles in standard deviations from the mean."""
        from scipy.stats.sampling import NumericalInversePolynomial  # slow to import

        mean, std, mass = self.mean, np.sqrt(self.variance), self._points.mass

        class Standardised:
            pdf = staticmethod(lambda z: float(self.density(np.array([mean + std * z]))[0]) / mass * std)

        ends = ((self.low - mean) / std, (self.high - mean) / std)
        return NumericalInversePolynomial(Standardised(), domain=ends, center=0.0, u_resolution=1e-12)

    @functools.cached_property
    def _points(self) -> _Points:
        far = 2.0 ** np.arange(-60, 61)
        if np.isfinite(self.low) and np.isfinite(self.high):
            graded = 2.0 ** np.arange(-50, 0) * (self.high - self.low)
            edges = np.concatenate([[self.low, self.high], self.low + graded, self.high - graded])
        elif np.isfinite(self.low):
            edges = np.append(self.low, self.low + far)
        elif np.isfinite(self.high):
            edges = np.append(self.high, self.high - far)
        else:
            edges = np.concatenate([-far, [0.0], far])
        return _integrated(self.density, np.unique(np.append(edges, self.breaks)), "Density")

    def __repr__(self) -> str:
        return f"Density({self.low:g}, {self.high:g})"


@checks_arguments
def Uniform(low: float, high: float) -> Distribution:
    """Make the uniform distribution on [low, high], which goes with Legendre polynomials.

    Parameters
    ----------
    low, high : float
        The ends of the support; low < high.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.noise.Uniform(0.9, 1.1).mean
    1.0
    """
    _expect_numbers("Uniform", low, high)
    _expect(low < high, "Uniform", f"low < high, got {low} and {high}")
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    return _Law(scipy.stats.uniform(low, high - low), f"Uniform({low:g}, {high:g})", orthogonal.legendre, middle, half)


@checks_arguments
def Normal(mean: float, std: float) -> Distribution:
    """Make the normal distribution, which goes with Hermite polynomials.

    Parameters
    ----------
    mean, std : float
        Mean and standard deviation; std > 0.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.noise.Normal(1.0, 2.0).mean
    1.0
    """
    _expect_numbers("Normal", mean, std)
    _expect(std > 0, "Normal", f"std > 0, got {std}")
    return _Law(scipy.stats.norm(mean, std), f"Normal({mean:g}, {std:g})", orthogonal.hermite, mean, std)


@checks_arguments
def Beta(a: float, b: float, low: float = 0.0, high: float = 1.0) -> Distribution:
    """Make the beta distribution, density ∝ (x - low)^(a-1) (high - x)^(b-1), which goes with Jacobi polynomials.

    Parameters
    ----------
    a, b : float
        Shape parameters > 0.
    low, high : float
        The ends of the support; low < high.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> import stodyn as sd
    >>> round(sd.noise.Beta(2.0, 2.0).variance, 12)
    0.05
    """
    _expect_numbers("Beta", a, b, low, high)
    _expect(a > 0 and b > 0 and low < high, "Beta", f"a, b > 0 and low < high, got {a}, {b}, {low}, {high}")
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    return _Law(scipy.stats.beta(a, b, low, high - low), f"Beta({a:g}, {b:g}, {low:g}, {high:g})",
                functools.partial(orthogonal.jacobi, a=b - 1.0, b=a - 1.0), middle, half)  # fmt: skip


@checks_arguments
def Gamma(shape: float, scale: float = 1.0, low: float = 0.0) -> Distribution:
    """Make the gamma distribution, density ∝ (x - low)^(shape-1) exp(-(x - low)/scale): Laguerre polynomials.

    Parameters
    ----------
    shape, scale : float
        Shape and scale, both > 0.
    low : float
        The lower end of the support.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> import stodyn as sd
    >>> round(sd.noise.Gamma(2.0, 3.0).mean, 12)
    6.0
    """
    _expect_numbers("Gamma", shape, scale)
    _expect(shape > 0 and scale > 0, "Gamma", f"shape, scale > 0, got {shape}, {scale}")
    return _Law(scipy.stats.gamma(shape, low, scale), f"Gamma({shape:g}, {scale:g}, {low:g})",
                functools.partial(orthogonal.laguerre, shape=shape), low, scale)  # fmt: skip


@checks_arguments
def Exponential(scale: float = 1.0, low: float = 0.0) -> Distribution:
    """Make the exponential distribution, density ∝ exp(-(x - low)/scale), which goes with Laguerre polynomials.

    Parameters
    ----------
    scale : float
        The mean distance from `low`; > 0.
    low : float
        The lower end of the support.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> import stodyn as sd
    >>> round(sd.noise.Exponential(2.0).mean, 12)
    2.0
    """
    _expect_numbers("Exponential", scale, low)
    _expect(scale > 0, "Exponential", f"scale > 0, got {scale}")
    law = scipy.stats.expon(low, scale)
    return _Law(law, f"Exponential({scale:g}, {low:g})", orthogonal.laguerre, low, scale)


@checks_arguments
def LogNormal(mu: float, sigma: float) -> Distribution:
    """Make the distribution of exp(z), z normal, which goes with Stieltjes-Wigert polynomials.

    These polynomials are not complete: expansions of smooth functions may converge to something else. Where that
    matters, take the normal exponent itself as the random parameter and its exponential inside your functions.

    Parameters
    ----------
    mu, sigma : float
        Mean and standard deviation of z; sigma > 0.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> import stodyn as sd
    >>> round(sd.noise.LogNormal(0.0, 1.0).mean, 6)
    1.648721
    """
    _expect_numbers("LogNormal", mu, sigma)
    _expect(sigma > 0, "LogNormal", f"sigma > 0, got {sigma}")
    return _Law(scipy.stats.lognorm(sigma, scale=np.exp(mu)), f"LogNormal({mu:g}, {sigma:g})",
                functools.partial(orthogonal.stieltjes_wigert, sigma=sigma), 0.0, float(np.exp(mu)))  # fmt: skip


def distribution(source: Any, name: str) -> Distribution:
    """Return `source` as a Distribution: one of these classes, or a frozen continuous scipy.stats distribution."""
    if isinstance(source, Distribution):
        return source
    if isinstance(source, scipy.stats.rv_continuous):
        raise TypeError(
            f"{name}: {source.name} is a family of distributions; give its parameters: scipy.stats.{source.name}(...)"
        )
    if hasattr(source, "rvs") and not isinstance(getattr(source, "dist", None), scipy.stats.rv_continuous):
        raise TypeError(
            f"{name}: {type(source).__name__} is not a distribution of one continuous number. Random parameters are "
            "independent numbers with densities; write dependent ones as functions of independent ones (a Cholesky "
            "factor times normal numbers)."
        )
    if not hasattr(source, "rvs"):
        raise TypeError(f"{name}: expected a distribution such as Uniform(0.9, 1.1), got {source!r}")
    check_law(source, name)
    shapes, location, scale = source.dist._parse_args(*source.args, **source.kwds)
    if np.ndim(location) or np.ndim(scale) or any(map(np.ndim, shapes)):
        raise TypeError(f"{name}: this is a distribution of vectors; give one distribution per parameter")
    location, scale = float(location), float(scale)
    shapes = [float(shape) for shape in shapes]
    known: dict[str, Callable[[], Distribution]] = {
        "uniform": lambda: Uniform(location, location + scale),
        "norm": lambda: Normal(location, scale),
        "beta": lambda: Beta(shapes[0], shapes[1], location, location + scale),
        "arcsine": lambda: Beta(0.5, 0.5, location, location + scale),
        "gamma": lambda: Gamma(shapes[0], scale, location),
        "expon": lambda: Exponential(scale, location),
    }
    if source.dist.name in known:
        return known[source.dist.name]()
    if source.dist.name == "lognorm" and location == 0.0:
        return LogNormal(np.log(scale), shapes[0])
    numbers = ", ".join(f"{value:g}" for value in (*shapes, location, scale))
    return _Law(source, f"{source.dist.name}({numbers})")


@dataclasses.dataclass(frozen=True, eq=False)
class _Points:
    """A density as weighted points, in the order of x; mass is its integral, `outer` marks the outermost panels."""

    x: np.ndarray
    w: np.ndarray
    mass: float
    outer: np.ndarray


def _integrated(pdf: Callable, edges: np.ndarray, name: str) -> _Points:
    """Gauss-Legendre points on panels between the edges, halved until the density is resolved on each."""
    panel = gauss.legendre(16)

    def on(low, high):
        half = 0.5 * (high - low)[:, None]
        x = half * panel.nodes + 0.5 * (high + low)[:, None]
        with np.errstate(all="ignore"):
            values = np.asarray(pdf(x.ravel()), float)
        if values.shape != (x.size,) or np.any(values < 0) or not np.all(np.isfinite(values)):
            raise ValueError(f"{name}: the density must give one finite number >= 0 for every x of an array")
        return x, values.reshape(x.shape) * panel.weights * 2.0 * half

    low, high = edges[:-1], edges[1:]
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    x, w = on(low, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        (xa, wa), (xb, wb) = on(low, middle), on(middle, high)
        total = sum(part.sum() for _, part in pieces) + wa.sum() + wb.sum()
        rough = np.abs(w.sum(axis=1) - wa.sum(axis=1) - wb.sum(axis=1)) > RESOLVED * total
        rough &= middle > low  # neighbours in floating point
        pieces.append((np.concatenate([xa[~rough], xb[~rough]]), np.concatenate([wa[~rough], wb[~rough]])))
        if not rough.any():
            break
        low, high = np.concatenate([low[rough], middle[rough]]), np.concatenate([middle[rough], high[rough]])
        x, w = np.concatenate([xa[rough], xb[rough]]), np.concatenate([wa[rough], wb[rough]])
    else:
        raise ValueError(f"{name}: the density is too rough to be integrated; name its kinks in `breaks`")
    x, w = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*pieces, strict=True))
    order = np.argsort(x)
    x, w = x[order], w[order]
    if not 1e-6 < w.sum() < np.inf:
        raise ValueError(f"{name}: integrates to {w.sum():.3g} over ({edges[0]:g}, {edges[-1]:g}); expected a density "
                         "whose mass lies within its ends; give narrower ones")  # fmt: skip
    outer = (x > edges[-2]) | (x < edges[1])
    return _Points(x, w / w.sum(), float(w.sum()), outer)


def _muckenhoupt(w: np.ndarray, over: np.ndarray) -> float:
    """The largest P(beyond r) ∫ dx/density up to r, from the median outwards; infinite where it grows to the end."""
    beyond = np.cumsum(w[::-1])[::-1] - 0.5 * w  # at a point, half of which lies on either side
    with np.errstate(all="ignore"):
        products = beyond * (np.cumsum(over) - 0.5 * over)
    inside = np.isfinite(products) & (beyond > TAIL)
    products, beyond = products[inside], beyond[inside]
    inner = products[beyond > FAR_TAIL].max(initial=0.0)
    largest = float(products.max(initial=0.0))
    return largest if largest <= GROWTH * inner else np.inf


def _discretised(points: _Points, n: int, name: str) -> Recurrence:
    center = np.sum(points.w * points.x)
    size = points.w * np.abs(points.x - center) ** (2 * n - 1)
    tail = size[points.outer].sum() / size.sum()
    if tail > NEGLIGIBLE and np.abs(points.x).max() > 1e3 * np.sqrt(np.sum(points.w * (points.x - center) ** 2)):
        raise ValueError(
            f"{name}: has no moment of order {2 * n - 1}, which {n} orthogonal polynomials need. Take a lower degree, "
            "a Truncated distribution, or sampling."
        )
    if np.count_nonzero(points.w > 0) < 4 * n:
        raise ValueError(f"{name}: too few points carry mass for {n} orthogonal polynomials")
    return orthogonal.stieltjes(n, points.x, points.w)


def _expect_numbers(name: str, *values: Any) -> None:
    for value in values:
        if not (np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number) and np.isfinite(value)):
            raise ValueError(
                f"{name}: expected finite numbers, got {value!r}. It is the law of one number; several independent "
                "ones have a law each, and dependent ones are functions of these"
            )


def _expect(right: bool, name: str, words: str) -> None:
    if not right:
        raise ValueError(f"{name}: expected {words}")
