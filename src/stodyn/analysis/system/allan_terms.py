"""The Allan variance of sums of noise terms, and the exact law of its overlapping estimator.

Let θ be the sum of the samples times T, d_m(i) = θ_{i+2m} - 2θ_{i+m} + θ_i, τ = m T, and V_m = Σ d_m²/(2 τ² M) over the
M = n - 2m + 1 differences.
A term is known by its generalised covariance γ(x) at a lag of x samples, which second differences see alone:
    Q  quantisation of the angle     Q² at x = 0, else 0              AVAR 3 Q²/τ²
    N  white rate (random walk)      -N² T|x|/2                            N²/τ
    B  flicker, S(f) = B²/(2πf)      B² T² x² ln|x| / 2π                   (2 ln 2/π) B²
    K  walk of the rate, averaged    K² T³ |x|³/12                         K² τ/3
       the same, sampled             K² T³ (|x|³ - |x|)/12                 K² τ/3 (1 + 1/2m²)
    R  ramp R t                      none: d_m = R τ² on average           R² τ²/2
    G  Gauss-Markov, averaged        -s² T_c² (a + exp(-a)), a = T|x|/T_c
       the same, sampled             -s² T² (|x| coth b + exp(-2b|x|)/(2 sinh² b))/2, b = T/2T_c
Covariances of differences are r_mk(x) = Δ²_m Δ²_k γ(x). For Gaussian noise with the means μ_m = R τ_m²
    cov(V_m, V_k) = Σ_ij (2 r_mk(i-j)² + 4 μ_m μ_k r_mk(i-j)) / (4 τ_m² τ_k² M_m M_k),
a quadratic form in the terms' squares, without any table of types of noise.

D. W. Allan, Statistics of atomic frequency standards, Proc. IEEE 54 (1966); S. Guerrier, J. Skaloud, Y. Stebler &
M.-P. Victoria-Feser, Wavelet-variance-based estimation for composite stochastic processes, J. Am. Stat. Assoc. 108
(2013).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

LETTERS = "QNBKRG"
Differences = Callable[[np.ndarray, int], np.ndarray]  # (lags, m) -> Δ²_m γ, for a term of size 1 and T = 1

NEAR = 32  # lags on either side of a kink of r that are all summed; beyond them, ever fewer
GROWTH = 1.06  # by which distances from a kink grow there; a sum differs by less than 3e-4 of itself
ALL = 20_000  # up to so many lags all are summed
FAR = 16.0  # in multiples of m, from where the second difference of x² ln|x| is taken from its derivatives


def _quantisation(x: np.ndarray, m: int) -> np.ndarray:
    return (np.abs(x) == m) - 2.0 * (x == 0.0)


def _white(x: np.ndarray, m: int) -> np.ndarray:
    return -np.maximum(m - np.abs(x), 0.0)


def _flicker(x: np.ndarray, m: int) -> np.ndarray:
    """Δ²_m of x² ln|x|/2π; from FAR m on by its series in (m/x)², where differences would cancel."""
    size = np.abs(x)
    is_far = size > FAR * m
    far, near = np.where(is_far, size, FAR * m), np.where(is_far, 0.0, size)
    squares = (m / far) ** 2
    tail = squares * (-1.0 / 6.0 - squares * (1.0 / 30.0 + squares * (1.0 / 84.0 + squares / 180.0)))
    by_series = m**2 * (2.0 * np.log(far) + 3.0 + tail)
    directly = _squared_log(near + m) - 2.0 * _squared_log(near) + _squared_log(near - m)
    return np.where(is_far, by_series, directly) / (2.0 * np.pi)


def _squared_log(x: np.ndarray) -> np.ndarray:
    return x**2 * np.log(np.where(x == 0.0, 1.0, np.abs(x)))


def _walk(x: np.ndarray, m: int) -> np.ndarray:
    size = np.abs(x)
    inside = (size + m) ** 3 - 2.0 * size**3 + np.maximum(m - size, 0.0) ** 3
    return np.where(size >= m, 6.0 * m**2 * size, inside) / 12.0


def _sampled_walk(x: np.ndarray, m: int) -> np.ndarray:
    return _walk(x, m) + _white(x, m) / 6.0


def _ramp(x: np.ndarray, m: int) -> np.ndarray:
    return np.zeros_like(x)


def gauss_markov(correlation_time: float, is_averaging: bool = True) -> Differences:
    """Return Δ²_m γ of a Gauss-Markov process of variance 1, for a correlation time in samples."""
    half = 0.5 / correlation_time
    line = correlation_time if is_averaging else 0.5 / np.tanh(half)
    bend = correlation_time**2 if is_averaging else 0.25 / np.sinh(half) ** 2

    def differences(x: np.ndarray, m: int) -> np.ndarray:
        a, b = np.abs(x) / correlation_time, m / correlation_time
        outside = np.exp(-np.abs(a - b)) - 2.0 * np.exp(-a) + np.exp(-(a + b))
        return -(2.0 * line * np.maximum(m - np.abs(x), 0.0) + bend * outside)

    return differences


def differences_of(letter: str, is_averaging: bool, correlation_time: float | None = None) -> Differences:
    """Return Δ²_m γ of one of the LETTERS, for size 1 and samples 1 apart; G has a correlation time, in samples."""
    if letter == "G":
        assert correlation_time is not None
        return gauss_markov(correlation_time, is_averaging)
    walk = _walk if is_averaging else _sampled_walk
    return {"Q": _quantisation, "N": _white, "B": _flicker, "K": walk, "R": _ramp}[letter]


UNITS = {"Q": 0.0, "N": 1.0, "B": 2.0, "K": 3.0, "R": 4.0, "G": 2.0}  # powers of T in γ (of R: in the mean's square)


def covariances(differences: Differences, x: np.ndarray, m: int, k: int) -> np.ndarray:
    """Return r_mk, m and k at least 1, at the lags x = i - j of d_m(i) and d_k(j) of a term with these differences Δ²_m
    γ: the difference over the shorter stretch in closed form, then over the longer one."""
    short, long = min(m, k), max(m, k)
    centred = x + (m - k)  # differences are counted from their first sample, stretches are symmetric about their middle
    return differences(centred + long, short) - 2.0 * differences(centred, short) + differences(centred - long, short)


def variances(differences: Differences, m: np.ndarray) -> np.ndarray:
    """Return E V_m of one term without a mean, for size 1 and samples 1 apart."""
    return np.array([covariances(differences, np.zeros(1), int(k), int(k))[0] / (2.0 * k**2) for k in m])


def laws(terms: Sequence[Differences], m: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return H (points, points, terms, terms) and L (points, points, terms), of which covariances of V are made, for
    samples 1 apart and terms of size 1: cov(V_m, V_k) = a' H a for terms with the squared sizes a and without means, to
    which a mean R adds R² L·a."""
    points, count = len(m), len(terms)
    H, L = np.zeros((points, points, count, count)), np.zeros((points, points, count))
    for i in range(points):
        for j in range(i + 1):
            lags, weights = _lags(int(m[i]), int(m[j]), samples)
            r = np.stack([covariances(term, lags, int(m[i]), int(m[j])) for term in terms])
            pairs = float(samples - 2 * m[i] + 1) * float(samples - 2 * m[j] + 1)
            squares = float(m[i]) ** 2 * float(m[j]) ** 2
            H[i, j] = H[j, i] = (r * weights) @ r.T / (2.0 * squares * pairs)
            L[i, j] = L[j, i] = r @ weights / pairs
    return H, L


@functools.lru_cache(maxsize=4096)
def _lags(m: int, k: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lags i - j and how many pairs (i, j) of differences each stands for."""
    most, least = samples - 2 * m, -(samples - 2 * k)  # of i - j, with 0 <= i <= samples - 2 m and j likewise
    if most - least < ALL:
        lags = np.arange(least, most + 1)
        return lags.astype(float), _pairs(lags, m, k, samples)
    of_r = [k - m + p * m + q * k for p in (-1, 0, 1) for q in (-1, 0, 1)]
    kinks = np.array([*of_r, least, 0, 2 * (k - m), most])
    steps = np.ceil(NEAR * GROWTH ** np.arange(np.log((most - least) / NEAR) / np.log(GROWTH) + 1.0))
    distances = np.concatenate([np.arange(NEAR), steps])
    lags = np.unique(np.concatenate([kinks[:, None] + distances, kinks[:, None] - distances]))
    lags = lags[(lags >= least) & (lags <= most)]
    gaps = np.diff(lags)
    share = np.concatenate([[0.5 + gaps[0] / 2.0], (gaps[1:] + gaps[:-1]) / 2.0, [0.5 + gaps[-1] / 2.0]])
    return lags, share * _pairs(lags, m, k, samples)


def _pairs(lags: np.ndarray, m: int, k: int, samples: int) -> np.ndarray:
    """The number of pairs with i - j = lag, 0 <= i < M_m, 0 <= j < M_k."""
    first, second = samples - 2 * m + 1, samples - 2 * k + 1
    return np.maximum(np.minimum(first, second + lags) - np.maximum(0, lags), 0).astype(float)
