"""Noise at several points: coherent at low frequencies and short distances, as wind on a bridge or the ground below it.

A sum of densities with coefficients >= 0 is a density whatever they are, and so is one of products with exp(-d/ℓ),
which is a correlation of points at distances d for every length ℓ. So a cross density is fitted by non-negative least
squares, and the result is a noise:

    S_ij(f) = Σ_kl w_kl exp(-d_ij/ℓ_l) / (1 + (f/f_k)⁴),        w_kl >= 0.

Its parts are second-order filters, each with its own length: first-order ones fall off too slowly for the coherence of
wind, which falls exponentially.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.noise.coloured.fit import DECIBEL, Fit, check_samples
from stodyn.noise.coloured.process import Coloured, stacked
from stodyn.numerics import van_loan
from stodyn.telling import tell
from stodyn.warnings import SpectrumNotMet

PER_DECADE = 2  # first-order processes
POINTS_PER_DECADE = 3  # second-order ones
LENGTHS_PER_DECADE = 3
NEGLIGIBLE = 1e-9  # a weight against the largest
UNCORRELATED = 1e-9  # a length so short that points are independent


@checks_arguments
def relaxing(frequency: ArrayLike, psd: ArrayLike, name: str = "y", per_decade: int = PER_DECADE) -> Coloured:
    """Make a sum of first-order processes whose one-sided density meets that of samples, for densities that only fall.

    There are `per_decade` corners per decade of the band of the samples; the weights, all >= 0, are determined by least
    squares of relative errors. `fit` tells how well the filter meets the samples; where the density rises
    anywhere, take `fitted`.

    Parameters
    ----------
    frequency, psd : arrays
        As for `fitted`.
    name : str
        The name of the output.
    per_decade : int
        How many processes there are per decade.

    Returns
    -------
    Coloured
    """
    f, G = _samples(frequency, psd)
    corners = _corners(f, per_decade)
    shapes = 1.0 / (1.0 + (f[:, None] / corners) ** 2)
    weights = _weights(shapes / G[:, None], np.ones(len(f)))
    is_kept = weights > NEGLIGIBLE * weights.max()
    # One-sided: w/(1 + (f/f_k)²) has the variance π f_k w/2, and the rate 2π f_k.
    rates, variances = 2.0 * np.pi * corners[is_kept], 0.5 * np.pi * corners[is_kept] * weights[is_kept]
    noise = Coloured(np.diag(-rates), np.diag(np.sqrt(2.0 * rates * variances)), np.ones((1, is_kept.sum())), name)
    density = 2.0 * noise.spectrum(f)[:, 0, 0].real
    off = DECIBEL * np.log(density / G)
    in_band = float(np.trapezoid(density, f))
    fit = Fit(len(rates), float(np.abs(off).max()), float(np.sqrt(np.mean(off**2))), float(np.trapezoid(G, f)), in_band,
              float(noise.variance[0]))  # fmt: skip
    return dataclasses.replace(noise, fit=fit)


@checks_arguments
def correlated(noise: Coloured, correlation: ArrayLike, names: Sequence[str] | None = None) -> Coloured:
    """Make one noise at several points, with the same correlation of each pair at all frequencies: S_ij(f) = R_ij S(f).

    Parameters
    ----------
    noise : Coloured
        A noise with one output.
    correlation : array (points, points)
        R, symmetric and not negative in any direction; its diagonal scales the variances, and is 1 for equal points.
    names : sequence of str, optional
        The names of the outputs; by default the name of the noise followed by the number of the point, from 0.

    Returns
    -------
    Coloured

    Raises
    ------
    ValueError
        If the noise has several outputs, or `correlation` is not a correlation of any noises.

    Examples
    --------
    >>> import stodyn as sd
    >>> wind = sd.noise.coloured.gauss_markov(1.0, 2.0, "wind")
    >>> pair = sd.noise.coloured.correlated(wind, [[1.0, 0.5], [0.5, 1.0]])
    >>> pair.names
    ('wind0', 'wind1')
    """
    R = np.asarray(correlation, float)
    if len(noise.C) != 1:
        raise ValueError(f"noise: expected one output, got {noise.names}")
    if R.ndim != 2 or R.shape[0] != R.shape[1] or not np.isfinite(R).all() or np.abs(R - R.T).max() > 1e-9:
        raise ValueError(f"correlation: expected a finite symmetric matrix (points, points), got {correlation!r}")
    if (least := np.linalg.eigvalsh(R)[0]) < -1e-9 * np.abs(R).max():
        raise ValueError(
            f"correlation: is negative in some direction (its lowest eigenvalue is {least:.3g}): no noises can have "
            "such correlations. Correlations that fall off as exp(-distance/length) are always possible"
        )
    copies = stacked(*(noise.named(f"{i}") for i in range(len(R))))
    called = tuple(f"{noise.names[0]}{i}" for i in range(len(R))) if names is None else tuple(names)
    return copies.mixed(van_loan.root(R), called)


@checks_arguments
def at_points(
    frequency: ArrayLike,
    psd: ArrayLike,
    positions: ArrayLike,
    coherence: Callable[[np.ndarray, np.ndarray], np.ndarray],
    names: Sequence[str] | None = None,
    tolerance: float = 0.1,
) -> Coloured:
    """Make noise of one density at several points, with a coherence that depends on frequency and distance.

    The cross density of points i and j is psd(f) coherence(f, d_ij), without a phase: the points lie across the wind.

    Parameters
    ----------
    frequency, psd : arrays
        Samples of the one-sided density in cycles per unit of time, > 0; densities that only fall, as those of wind.
    positions : array (points,) or (points, dimensions)
        The coordinates of the points.
    coherence : function (f, d) -> array
        The share of the density that two points at the distance d have in common, as Davenport's exp(-C f d/U); 1 at
        d = 0, and not negative.
    names : sequence of str, optional
        The names of the outputs.
    tolerance : float
        The error of the cross densities at the samples, relative to the density, above which there is a warning.

    Returns
    -------
    Coloured
        Its `fit` is that of the density at each point.

    Raises
    ------
    ValueError
        If positions are not finite, or `coherence` is negative or not 1 at the distance 0.
    """
    f, G = _samples(frequency, psd)
    where = np.asarray(positions, float)
    where = where[:, None] if where.ndim == 1 else where
    if where.ndim != 2 or not np.isfinite(where).all():
        raise ValueError(f"positions: expected finite numbers (points,) or (points, dimensions), got {positions!r}")
    D = np.sqrt(((where[:, None] - where[None]) ** 2).sum(-1))
    d = np.unique(D)
    wanted = np.broadcast_to(np.asarray(coherence(f[:, None], d[None]), float), (len(f), len(d)))
    if not (np.isfinite(wanted).all() and (wanted >= 0.0).all() and np.allclose(wanted[:, 0], 1.0)):
        raise ValueError("coherence: expected numbers >= 0, and 1 where the distance is 0")
    corners, lengths = _corners(f, POINTS_PER_DECADE), _lengths(d)
    shapes = 1.0 / (1.0 + (f[:, None] / corners) ** 4) / G[:, None]
    matrix = np.einsum("fk,dl->fdkl", shapes, np.exp(-d[:, None] / lengths)).reshape(wanted.size, -1)
    weights = _weights(matrix, wanted.ravel())
    off = (matrix @ weights).reshape(wanted.shape) - wanted
    if np.abs(off).max() > tolerance:
        i, j = np.unravel_index(np.argmax(np.abs(off)), off.shape)
        tell(
            f"coherence: met to {np.abs(off).max():.2g} of the density only, at f = {f[i]:.3g} and the distance "
            f"{d[j]:.3g}, with tolerance {tolerance:g}",
            SpectrumNotMet,
        )
    weights = weights.reshape(len(corners), len(lengths))
    p, A, B = len(where), [], []
    for k, l in np.argwhere(weights > NEGLIGIBLE * weights.max()):
        # Each point has y and y'/ω of y'' + √2 ω y' + ω² y = ω² u, whose density is that of u over 1 + (f/f_k)⁴.
        ω, one = 2.0 * math.pi * corners[k], np.eye(p)
        A.append(np.block([[0.0 * one, ω * one], [-ω * one, -math.sqrt(2.0) * ω * one]]))
        u = math.sqrt(0.5 * weights[k, l]) * van_loan.root(np.exp(-D / lengths[l]))
        B.append(np.concatenate([0.0 * u, ω * u]))
    C = np.tile(np.eye(p, 2 * p), (1, len(A)))
    called = tuple(f"y{i}" for i in range(p)) if names is None else tuple(names)
    noise = Coloured(scipy.linalg.block_diag(*A), scipy.linalg.block_diag(*B), C, called)
    decibel = DECIBEL * np.log1p(off[:, 0])
    density = 2.0 * noise.spectrum(f)[:, 0, 0].real
    variances = float(np.trapezoid(G, f)), float(np.trapezoid(density, f)), float(noise.variance[0])
    fit = Fit(len(noise.A), float(np.abs(decibel).max()), float(np.sqrt(np.mean(decibel**2))), *variances)
    return dataclasses.replace(noise, fit=fit)


def _samples(frequency: ArrayLike, psd: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    f, G = check_samples(frequency, psd)
    if f[0] == 0.0:
        raise ValueError(
            "frequency: expected values > 0; the corners of the filters are spaced evenly in the logarithm"
        )
    return f, G


def _corners(f: np.ndarray, per_decade: int) -> np.ndarray:
    return np.geomspace(f[0], f[-1], max(2, round(per_decade * math.log10(f[-1] / f[0])) + 1))


def _weights(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The weights >= 0 of the columns whose sum is nearest to the target, all columns of one size."""
    size = np.sqrt((matrix**2).sum(0))
    size = np.where(size > 0.0, size, 1.0)
    return scipy.optimize.nnls(matrix / size, wanted, maxiter=50 * matrix.shape[1])[0] / size


def _lengths(d: np.ndarray) -> np.ndarray:
    """Lengths of correlation from independent points to points that move as one."""
    if len(d) == 1:
        return np.array([1.0])
    shortest, longest = 0.1 * d[1], 100.0 * d[-1]
    count = round(LENGTHS_PER_DECADE * math.log10(longest / shortest)) + 1
    return np.concatenate([[UNCORRELATED * d[1]], np.geomspace(shortest, longest, count)])
