"""Long-run averages with honest errors, Gibbs measures, and stationary densities by Galerkin's method to check them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.engine.simulate import simulate
from stodyn.hints import Count, Integer, Reals, whole
from stodyn.numerics import gauss
from stodyn.problems import lowering
from stodyn.problems.contract import written_as
from stodyn.problems.linear_plant import refuse_random_params
from stodyn.problems.sde import SDE
from stodyn.statistics.contract import Labelled, Variable
from stodyn.statistics.paths import Paths

__dir__ = listing.names_of(__name__)


class Average(NamedTuple):
    """A mean with its standard error, and the integrated autocorrelation time it was found with, in samples."""

    mean: float
    stderr: float
    correlation_time: float


@checks_arguments
def time_average(series: ArrayLike) -> Average:
    """Compute the mean of a stationary series and its standard error √(τ var/n).

    τ = 1 + 2 Σ ρ_k is the autocorrelation time.
    The sum over k ends where k >= 5 τ(k) (A. Sokal, Monte Carlo methods in statistical mechanics, 1989). A series
    shorter than 50 τ is refused: its error could not be estimated.

    Parameters
    ----------
    series : array (n,) or (paths, n)
        One series, or independent series of one length, whose autocorrelations are averaged.

    Returns
    -------
    Average

    Raises
    ------
    ValueError
        If numbers are not finite, or the series is too short for its autocorrelation time.
    """
    x = np.atleast_2d(np.asarray(series, float))
    if x.ndim != 2 or x.shape[1] < 2 or not np.isfinite(x).all():
        raise ValueError(f"series: expected finite numbers (n,) or (paths, n) with n >= 2, got shape {x.shape}")
    paths, n = x.shape
    mean = x.mean()
    d = x - mean
    size = 2 ** int(np.ceil(np.log2(2 * n)))
    power = np.abs(np.fft.rfft(d, size, axis=1)) ** 2
    covariance = np.fft.irfft(power.mean(axis=0), size)[:n] / n
    if covariance[0] <= 0:
        return Average(float(mean), 0.0, 1.0)
    τ = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    window = np.flatnonzero(np.arange(n) >= 5.0 * τ)
    if len(window) == 0 or n * paths < 50 * τ[window[0]]:
        raise ValueError(
            f"series: {n} samples of {paths} series are too few for their autocorrelation time of about "
            f"{τ[min(n - 1, window[0] if len(window) else n - 1)]:.3g} samples; run longer or take more paths"
        )
    time = max(float(τ[window[0]]), 1.0 / (n * paths))
    return Average(float(mean), float(np.sqrt(covariance[0] * time / (n * paths))), time)


@checks_arguments
def ensemble_average(values: ArrayLike) -> Average:
    """Compute the mean over paths of each path's own mean: paths are independent, times need not be.

    Parameters
    ----------
    values : array (paths, times)
        The values of at least two paths.

    Returns
    -------
    Average

    Raises
    ------
    ValueError
        If numbers are not finite, or there are fewer than two paths.
    """
    x = np.asarray(values, float)
    if x.ndim != 2 or len(x) < 2 or not np.isfinite(x).all():
        raise ValueError(f"values: expected finite numbers (paths, times) of at least two paths, got shape {x.shape}")
    means = x.mean(axis=1)
    stderr = means.std(ddof=1) / np.sqrt(len(means))
    alone = x.std(ddof=1) / np.sqrt(x.size)
    return Average(float(means.mean()), float(stderr), float((stderr / alone) ** 2) if alone > 0 else 1.0)


@checks_arguments
def long_run(
    problem: Any,
    method: Any,
    function: Callable,
    *,
    t: Reals,
    dt: float,
    seed: Integer,
    paths: Count = 1,
    skip: float = 0.1,
    every: Integer = 1,
) -> Average:
    """Compute the long-run average of function(t, x[, params]) from a run.

    Over few paths the error is that of the series in time (time_average), over 32 or more that of the paths' own means
    (ensemble_average).

    Parameters
    ----------
    problem, method, t, dt, seed, paths
        As in `simulate`.
    function : callable
        function(t, x[, params]) -> number.
    skip : float
        The fraction of the run that is left out at its beginning.
    every : int
        The number of steps between two values of the series.

    Returns
    -------
    Average

    Raises
    ------
    ValueError
        If `paths` is not a whole number >= 1, `skip` is not a fraction below 1, or the run is too short for its
        autocorrelation time.
    """
    if not 0 <= skip < 1:
        raise ValueError(f"skip: expected a fraction 0 <= skip < 1, got {skip!r}")
    paths = whole("paths", paths)
    collect = _Values(paths, every=every, function=function)
    run: xr.Dataset = simulate(problem, method, t=t, dt=dt, paths=paths, seed=seed, collect=collect)
    values = run["path"].values[:, run["time"].values >= t[0] + skip * (t[1] - t[0])]
    return ensemble_average(values) if paths >= 32 else time_average(values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Values(Paths):
    """function(t, x[, params]) along paths 0 .. count-1, a number each, with the parameters of the path."""

    function: Callable

    def observe(self, snapshot):
        values = snapshot.map(self.function, "long_run")
        if values.ndim != 1:
            raise ValueError(f"long_run: the function returns shape {values.shape[:-1]}, expected a number")
        return values[None, : self.count]

    def label(self, result, labels):
        return Labelled({"path": Variable(("number", "time"), np.concatenate(result)[..., 0])})


@checks_arguments
def gibbs_average(
    energy: Callable[[np.ndarray], np.ndarray],
    function: Callable[[np.ndarray], np.ndarray],
    beta: float,
    lower: Sequence[float],
    upper: Sequence[float],
    nodes: int = 64,
) -> float:
    """Compute ∫ function exp(-beta energy) / ∫ exp(-beta energy) over a box by Gauss-Legendre.

    Costs nodes^d evaluations; check that twice as many nodes do not change the digits you rely on.

    Parameters
    ----------
    energy, function : callable
        Both take points (k, d) -> (k,).
    beta : float
        The inverse temperature.
    lower, upper : sequences of float (d,)
        The corners of the box.
    nodes : int
        The number of nodes per dimension.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `lower` and `upper` are not the corners of a box.
    """
    a, b = np.asarray(lower, float), np.asarray(upper, float)
    if a.shape != b.shape or a.ndim != 1 or not (a < b).all():
        raise ValueError(f"lower, upper: expected the corners of a box, got {a} and {b}")
    x, w = gauss.legendre(nodes)
    axes = [low + (high - low) * 0.5 * (x + 1.0) for low, high in zip(a, b, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(a))
    weights = np.prod(np.stack(np.meshgrid(*[w] * len(a), indexing="ij"), -1), axis=-1).ravel()
    exponent = -beta * np.asarray(energy(points), float)
    weights = weights * np.exp(exponent - exponent.max())
    return float(np.sum(weights * np.asarray(function(points), float)) / np.sum(weights))


# --- stationary densities in two dimensions --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Hermite:
    """Polynomials up to a degree, orthonormal for the normal distribution of the given mean and scale: a whole axis."""

    degree: int
    scale: float = 1.0
    mean: float = 0.0

    def sample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes (k,), weights (k,), and values, slopes and curvatures (3, k, functions)."""
        n = self.degree + 1
        u, w = gauss.hermite(n + 8)
        φ = np.zeros((n + 1, len(u)))
        φ[0] = 1.0
        φ[1] = u
        for k in range(1, n):
            φ[k + 1] = (u * φ[k] - np.sqrt(k) * φ[k - 1]) / np.sqrt(k + 1)
        φ, roots = φ[:n], np.sqrt(np.arange(n))[:, None]
        slope = roots * np.roll(φ, 1, axis=0)
        curvature = roots * np.roll(slope, 1, axis=0)
        return (
            self.mean + self.scale * u,
            w,
            np.stack([φ, slope / self.scale, curvature / self.scale**2]).swapaxes(1, 2),
        )

    def keeps(self, index: int) -> float:
        """How much of the degree a function takes: the factors of a product share it."""
        return index / max(self.degree, 1)


@dataclasses.dataclass(frozen=True)
class Fourier:
    """1, √2 cos, √2 sin of 2πkx/period up to k = modes: a periodic axis."""

    modes: int
    period: float = 1.0

    def sample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = 4 * self.modes + 9
        x = self.period * np.arange(size) / size
        columns = [np.stack([np.ones(size), np.zeros(size), np.zeros(size)])]
        for k in range(1, self.modes + 1):
            ω = 2 * np.pi * k / self.period
            cos, sin = np.sqrt(2) * np.cos(ω * x), np.sqrt(2) * np.sin(ω * x)
            columns += [np.stack([cos, -ω * sin, -(ω**2) * cos]), np.stack([sin, ω * cos, -(ω**2) * sin])]
        return x, np.full(size, 1.0 / size), np.stack(columns, axis=2)

    def keeps(self, index: int) -> float:
        return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Stationary:
    """A stationary density as a sum c_j ψ_j μ over products of the axes' functions and measures."""

    points: np.ndarray
    weights: np.ndarray  # of the density itself: Σ weights f(points) = E f

    def average(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """Compute the mean of a function in the stationary state.

        Parameters
        ----------
        function : callable
            function(points) -> values: (k, 2) -> (k,).

        Returns
        -------
        float
        """
        return float(self.weights @ np.asarray(function(self.points), float))


@checks_arguments
def stationary(problem: Any, first: Hermite | Fourier, second: Hermite | Fourier, t: float = 0.0) -> Stationary:
    """Compute the stationary density of a problem of two components by Galerkin's method: ∫ (Lφ) ρ = 0 for all φ.

    L = f·∇ + ½ Σ (g gᵀ)_ij ∂_i∂_j is the generator of the Ito form. Two Hermite axes share a total degree. Errors fall
    faster than any power of the degree where the density is smooth and Gaussian or thinner in the tails; compare two
    degrees. Costs (functions)³: 1000 functions take seconds.

    Parameters
    ----------
    problem : Problem
        A problem of two components, an SDE or one that can be written as an SDE.
    first, second : Hermite or Fourier
        The functions along each component.
    t : float
        The time at which the coefficients are taken.

    Returns
    -------
    Stationary

    Raises
    ------
    ValueError
        If the problem does not have two components, or cannot be written as an SDE.
    """
    refuse_random_params("problem", problem)
    sde = written_as(problem, SDE)
    if sde is None or sde.n != 2:
        raise ValueError("problem: expected one of two components that lowers to an SDE")
    sde = lowering.to_ito(sde)
    (x, wx, X), (y, wy, Y) = first.sample(), second.sample()
    points = np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)
    weights = np.multiply.outer(wx, wy).ravel()
    with jax.enable_x64(True):
        f = np.asarray(jax.vmap(lambda z: sde.f(t, z, sde.params))(jnp.asarray(points)))
        g = np.asarray(jax.vmap(lambda z: sde.g(t, z, sde.params))(jnp.asarray(points)))
    D = 0.5 * np.einsum("kir,kjr->kij", g, g)
    index = [
        (i, j)
        for i, j in itertools.product(range(X.shape[2]), range(Y.shape[2]))
        if first.keeps(i) + second.keeps(j) <= 1.0 + 1e-9
    ]
    rows, columns = map(np.array, zip(*index, strict=True))

    def products(a: int, b: int) -> np.ndarray:
        """∂_x^a ∂_y^b of every basis function at every point, (points, functions)."""
        return (X[a][:, None, rows] * Y[b][None, :, columns]).reshape(len(points), -1)

    ψ = products(0, 0)
    generator = f[:, :1] * products(1, 0) + f[:, 1:] * products(0, 1)
    for (i, j), order in {(0, 0): (2, 0), (1, 1): (0, 2)}.items():
        if np.any(D[:, i, j]):
            generator += D[:, i, j, None] * products(*order)
    if np.any(D[:, 0, 1]):
        generator += 2 * D[:, :1, 1] * products(1, 1)
    M = generator.T @ (weights[:, None] * ψ)
    constant = int(np.flatnonzero((rows == 0) & (columns == 0))[0])
    others = np.arange(len(index)) != constant
    coefficients = np.zeros(len(index))
    coefficients[constant] = 1.0
    coefficients[others] = np.linalg.solve(M[np.ix_(others, others)], -M[others, constant])
    return Stationary(points, weights * (ψ @ coefficients))
