"""I_(j,k), I_(j,k,0) and every further word up to weight 4, with a stated mean-square error.

All recipes take W and Z from the same normals as wiener.WZ, so one seed gives every method the same W and Z; the
further normals (stream "area") fill in the path between, conditioned on both.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from abc import abstractmethod
from functools import reduce
from typing import Self

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn import listing
from stodyn.arguments import checks_arguments
from stodyn.noise.increment import Increment, Recipe
from stodyn.noise.wiener import WZ
from stodyn.noise.words import Word, up_to_weight
from stodyn.telling import tell
from stodyn.warnings import ResolutionWarning

__dir__ = listing.names_of(__name__)

LARGEST = 2**60  # number of terms that is tried
BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
)  # B_2k/(2k)!


@checks_arguments
def zeta(s: float, a: float) -> float:
    """Return Hurwitz' zeta function Σ (a + k)^-s, k = 0, 1, ...

    Parameters
    ----------
    s, a : float
        The exponent, above 1, and the first base.

    Returns
    -------
    float
    """
    # Euler and Maclaurin's sum. SciPy has the function too, in a module that takes longer to load than a step to trace.
    count = max(0, math.ceil(12.0 + 2.0 * s - a))  # from there on, the weights below give 16 digits
    b = a + count
    tail, term = b ** (1 - s) / (s - 1) + 0.5 * b**-s, s * b ** (-s - 1)
    for k, weight in enumerate(BERNOULLI, 1):
        tail += weight * term
        term *= (s + 2 * k - 1) * (s + 2 * k) / b**2
    return math.fsum([*((a + k) ** -s for k in range(count)), tail])


class Approximation(Recipe):
    """A recipe with W and Z exact in law and the other integrals to a mean-square error that its one number sets."""

    def __post_init__(self):
        ((name, size),) = dataclasses.asdict(self).items()  # type: ignore[call-overload]
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{type(self).__name__}: {name} must be a positive integer, got {size!r}")

    @abstractmethod
    def error(self, h: float, m: int = 2) -> float:
        """Return the rms error of the least exact integral over a step.

        Parameters
        ----------
        h : float
            The step.
        m : int
            The number of channels of the noise.

        Returns
        -------
        float
        """

    @classmethod
    def for_order(cls, order: float, h: float, m: int = 2, unit: float = 1.0) -> Self:
        """Return the cheapest of these recipes that a method of a strong order may use.

        A local error of mean zero and size h^(order + 1/2) keeps the order (Milstein's theorem): `error` must stay
        below that.

        Parameters
        ----------
        order : float
            The strong order of the method.
        h : float
            The step.
        m : int
            The number of channels of the noise.
        unit : float
            The time scale of the problem, in which h is measured.

        Returns
        -------
        Approximation

        Raises
        ------
        ValueError
            If no recipe of this kind is enough.
        """
        size, step = 1, 1
        while not cls(step).is_enough(order, h, m, unit):  # type: ignore[call-arg]
            size, step = step + 1, 2 * step
            if step > LARGEST:
                raise ValueError(f"order: no {cls.__name__} is enough for strong order {order:g} at h = {h:g}")
        while size < step:
            middle = (size + step) // 2
            fine = cls(middle).is_enough(order, h, m, unit)  # type: ignore[call-arg]
            size, step = (size, middle) if fine else (middle + 1, step)
        return cls(size)  # type: ignore[call-arg]

    def is_enough(self, order: float, h: float, m: int = 2, unit: float = 1.0) -> bool:
        """Whether the error is small enough for a strong order; it scales as a power of time, as integrals do.

        Steps longer than the unit, at which no order can be observed, need no more than a step of one unit.
        """
        scaled = min(h / unit, 1.0)
        return self.error(scaled, m) <= (1 + 1e-9) * scaled ** (order + 0.5)


@checks_arguments
def check_resolution(recipe: Recipe, h: float, order: float, m: int = 2, unit: float = 1.0) -> None:
    """Warn where a recipe's error at step h costs a method its strong order; exact recipes pass.

    Parameters
    ----------
    recipe : Recipe
        How the iterated integrals are drawn.
    h : float
        The step.
    order : float
        The strong order of the method.
    m : int
        The number of channels of the noise.
    unit : float
        The time scale of the problem: steps are measured in it, so that the unit in which the problem is written makes
        no difference.
    """
    if isinstance(recipe, Approximation) and not recipe.is_enough(order, h, m, unit):
        scaled, counted = h / unit, f"h = {h:g}" if unit == 1.0 else f"h = {h:g}, {h / unit:.2g} of the time {unit:.2g}"
        tell(
            f"{recipe} has an rms error of {recipe.error(scaled, m):.2g} at {counted} with {m} channel(s); strong "
            f"order {order:g} needs at most h^{order + 0.5:g} = {scaled ** (order + 0.5):.2g}. "
            f"Take {recipe.for_order(order, h, m, unit)}, or a longer step.",
            ResolutionWarning,
        )


@dataclasses.dataclass(frozen=True)
class Substeps(Approximation):
    """W, Z, I_(j,k) and I_(j,k,0) by conditional means over K substeps, joined by Chen's relation.

    Over a substep d = h/K with W and H = Z/d - W/2, which are exact in law,
        E[I_(j,k)   | W, H] = W_j W_k/2 + H_j W_k - W_j H_k - δ_jk d/2,
        E[I_(j,k,0) | W, H] = d (W_j W_k/6 + H_j W_k/2 + 3 H_j H_k/5 + δ_jk (d/30 - d/4)).
    Rms errors: h/√(12K) in I_(j,k), about h²/(6√K) in I_(j,k,0), h² √(7/3600) K^(-3/2) in I_(j,j,0).
    2mK normals. J. Foster, T. Lyons & H. Oberhauser, An optimal polynomial approximation of Brownian motion, SIAM J.
    Numer. Anal. 58 (2020), for the means.
    """

    K: int

    def normals(self, m):
        return {"W": m, "Z": m, "area": m * (2 * self.K - 2)}

    def increment(self, h, normals, m):
        d = h / self.K
        W, H = _substeps(h, normals, self.K)
        Z = d * (W / 2 + H)
        I = jnp.eye(m, dtype=W.dtype)
        WW, HW, HH = _pairs(W, W), _pairs(H, W), _pairs(H, H)
        II = WW / 2 + HW - HW.swapaxes(1, 2) - d / 2 * I
        II0 = d * (WW / 6 + HW / 2 + 0.6 * HH - (13 / 60) * d * I)
        before = jnp.cumsum(W, axis=0) - W
        joined = II + _pairs(before, W)
        II_before = jnp.cumsum(joined, axis=0) - joined
        II0 = jnp.sum(II0 + _pairs(before, Z) + d * II_before, axis=0)
        words = {(j + 1, k + 1, 0): II0[j, k] for j in range(m) for k in range(m)}
        return dataclasses.replace(WZ.increment(h, normals, m), II=jnp.sum(joined, axis=0), words=words)

    def error(self, h, m=2):
        return h / math.sqrt(12 * self.K) if m > 1 else h**2 * math.sqrt(7 / 3600) * self.K**-1.5


@dataclasses.dataclass(frozen=True)
class Fourier(Approximation):
    """W, Z and I_(j,k) by p terms of the Fourier series of the Brownian bridge.

        I_(j,k) = (W_j W_k - δ_jk h)/2 + H_j W_k - W_j H_k + (h/2π) sum_r (ξ_jr η_kr - η_jr ξ_kr)/r,   H = Z/h - W/2.
    The terms beyond p that are linear in the path are a Gaussian tail and make Z exact, the bilinear ones are left out:
    rms error (h/π) √(½ sum_{r>p} r⁻²) ~ h/(π √(2p)). m(2p + 2) normals.
    P. Kloeden, E. Platen & I. Wright, The approximation of multiple stochastic integrals, Stoch. Anal. Appl. 10 (1992).
    """

    p: int

    def normals(self, m):
        return {"W": m, "Z": m, "area": 2 * m * self.p}

    def increment(self, h, normals, m):
        return _bridge_series(h, normals, m, self.p, tail=jnp.zeros((m, m), normals["W"].dtype))

    def error(self, h, m=2):
        return h / math.pi * math.sqrt(zeta(2, self.p + 1) / 2) if m > 1 else 0.0


@dataclasses.dataclass(frozen=True)
class MrongowiusRoessler(Approximation):
    """W, Z and I_(j,k) as by Fourier(p), with the bilinear tail replaced by a normal of the same variance per pair.

    Given the ξ_jr the tail is Gaussian with variances (h/2π)² sum_{r>p} (ξ_jr² + ξ_kr²)/r²; the mean of its covariance
    is used instead. Rms error, against the exact tail with the same normals, to leading order
    (h/4π) √(m sum_{r>p} r⁻⁴ / sum_{r>p} r⁻²) ~ h √m/(π p √48); the paper proves the bound h √m/(π p √12). The second
    moments of all (W, Z, I_(j,k)) are exact for every p. m(2p + 2) + m(m - 1)/2 normals.
    J. Mrongowius & A. Rößler, On the approximation and simulation of iterated stochastic integrals and the
    corresponding Lévy areas in terms of a multidimensional Brownian motion, Stoch. Anal. Appl. 40 (2022).
    """

    p: int

    def normals(self, m):
        return {"W": m, "Z": m, "area": 2 * m * self.p + m * (m - 1) // 2}

    def increment(self, h, normals, m):
        G = normals["area"][2 * m * self.p :]
        upper = jnp.zeros((m, m), G.dtype).at[np.triu_indices(m, 1)].set(G)
        tail = math.sqrt(zeta(2, self.p + 1) / 2) / math.pi * (upper - upper.T)
        return _bridge_series(h, normals, m, self.p, tail)

    def error(self, h, m=2):
        return h / (4 * math.pi) * math.sqrt(m * zeta(4, self.p + 1) / zeta(2, self.p + 1)) if m > 1 else 0.0


@dataclasses.dataclass(frozen=True)
class SineSeries(Approximation):
    """W, Z and I_(j,j,0) by p terms of the sine series of the Brownian bridge, each channel for itself.

        ∫ W² ds = h W²/3 + 2W (O - E) + (h²/π²) sum_k ζ_k²/k²,   I_(j,j,0) = (∫ W² ds - h²/2)/2,
    with O and E the sums of √(2h) h ζ_k/(πk)² over odd and even k. The tails of O and E are Gaussian and exact (so is
    Z = hW/2 + 2O); the tail of the squares is replaced by its mean: rms error (h²/π²) √(½ sum_{k>p} k⁻⁴)
    ~ 0.0413 h² p^(-3/2). m(p + 3) normals. P. Kloeden & E. Platen (1992), section 5.8, for the expansion.
    """

    p: int = 8

    def normals(self, m):
        return {"W": m, "Z": m, "area": m * (self.p + 1)}

    def increment(self, h, normals, m):
        step = WZ.increment(h, normals, m)
        W, Z = step.W, step.Z
        odd, even = 1.0 / np.arange(1, self.p + 1, 2), 1.0 / np.arange(2, self.p + 1, 2)
        at_even, others = jnp.split(normals["area"].reshape(m, -1), [len(even) + 1], axis=1)
        at_odd = _conditioned(normals["Z"], others, [*odd**2, math.sqrt(zeta(4, len(odd) + 0.5)) / 4])
        O = (Z - h * W / 2) / 2
        E = h * jnp.sqrt(2 * h) / math.pi**2 * _sum(at_even, [*even**2, math.sqrt(zeta(4, len(even) + 1)) / 4])
        squares = _sum(at_odd[:, :-1] ** 2, odd**2) + _sum(at_even[:, :-1] ** 2, even**2) + float(zeta(2, self.p + 1))
        integral = h * W**2 / 3 + 2 * W * (O - E) + (h / math.pi) ** 2 * squares
        words = {(j + 1, j + 1, 0): (integral[j] - h**2 / 2) / 2 for j in range(m)}
        return dataclasses.replace(step, words=words)

    def error(self, h, m=1):
        return (h / math.pi) ** 2 * math.sqrt(zeta(4, self.p + 1) / 2)


@dataclasses.dataclass(frozen=True)
class Signature(Approximation):
    """Every word up to weight 4 (time weighs 2, a channel 1) from the Ito signature of K substeps.

    A substep d has the signature exp(L) with, summed over i, j, k and l,
        L = d e_0 + W_j e_j + (H_j W_k - W_j H_k + R_jk) e_j e_k + d H_j [e_j, e_0]
            + C_jk [e_j, [e_k, e_0 + W_l e_l/d]] + (6/7) H_i R_jk [e_i, e_j e_k],
        C_jk = d (3 H_j H_k/5 + δ_jk d/30),    R_jk = √(d/5) (H_j η_k - η_j H_k) + (d/√20) ζ_jk,    H = Z/d - W/2,
    and e_0 - ½ Σ e_k e_k put for e_0 (Ito); substeps are joined by Chen's relation. R, the Lévy area beyond the mean
    given W and H, is drawn with the right covariance given H, from normals η_j and ζ_jk = -ζ_kj; the brackets of three
    channels have their means given W and H and their regression on H R. So all means up to weight 4, all second moments
    up to weight 2, and all identities between words are exact.

    Errors are those of the best coupling of the drawn integrals with true ones for the same W and H, as a strong order
    requires of drawn integrals. Given H, R is symmetric, so that its sum over the substeps differs in
    law from the true one only from the fourth cumulant on, by h⁴/(200 K³); √6/24 of that over the cube of the standard
    deviation is the rms error of I_(j,k), 0.0212 h K^(-3/2). A bracket of three channels lacks 0.115 h^(3/2)/K, 0.155
    where they all differ. So orders 1.5 and 2 need K like h^(-2/3) and 1/h, 2 and 12 at h = 0.01. In one channel only
    I_(1,1,0) is not exact. 2mK normals and for m > 1 another K m(m + 1)/2; per substep, some 80 products of tensors of
    up to m⁴ entries.
    J. Foster & K. Habermann, Brownian bridge expansions for Lévy area approximations and particular values of the
    Riemann zeta function, Combin. Probab. Comput. 32 (2023), for the law of R. S. G. Bobkov, Berry-Esseen bounds and
    Edgeworth expansions in the central limit theorem for transport distances, Probab. Theory Relat. Fields 170 (2018),
    for the best coupling of sums.
    """

    K: int

    def normals(self, m):
        within = self.K * m * (m + 1) // 2 if m > 1 else 0
        return {"W": m, "Z": m, "area": m * (2 * self.K - 2) + within}

    def increment(self, h, normals, m):
        d = h / self.K
        between, within = jnp.split(normals["area"], [m * (2 * self.K - 2)])
        W, H = _substeps(h, {**normals, "area": between}, self.K)
        R = self._areas(d, H, within, m) if m > 1 else jnp.zeros((self.K, m, m), W.dtype)
        S: Series = {w: jnp.full((m,) * sum(w), 0.0 if w else 1.0, W.dtype) for w in up_to_weight(4, 1)}

        def longer(k, S):
            return _times(S, _exp(_log_signature(d, W[k], H[k], R[k])))

        S = lax.fori_loop(0, self.K, longer, S)
        words = {}
        for word in up_to_weight(4, m):
            pattern, index = tuple(min(letter, 1) for letter in word), tuple(letter - 1 for letter in word if letter)
            if index and pattern not in [(1,), (1, 0), (1, 1)]:
                words[word] = S[pattern][index]
        return dataclasses.replace(WZ.increment(h, normals, m), II=S[1, 1], words=words)

    def _areas(self, d, H: Array, normals: Array, m: int) -> Array:
        """R of every substep, (K, m, m)."""
        η, ζ = jnp.split(normals, [self.K * m])
        pairs = np.triu_indices(m, 1)
        upper = jnp.zeros((self.K, m, m), H.dtype).at[:, *pairs].set(ζ.reshape(self.K, -1))
        upper = jnp.sqrt(d / 5) * _pairs(H, η.reshape(self.K, m)) + d / math.sqrt(20) * upper
        return upper - upper.swapaxes(1, 2)

    def error(self, h, m=2):
        if m == 1:
            return Substeps(self.K).error(h, m)
        area = math.sqrt(6) / 24 * 12**1.5 / 200 * h * self.K**-1.5
        return max(area, (0.115 if m == 2 else 0.155) * h**1.5 / self.K)


@dataclasses.dataclass(frozen=True)
class SecondMoments(Approximation):
    """W, Z, I_(j,k) and I_(j,k,0) with exact means and second moments, all of them together, from few normals.

        I_(j,k,0) = E[I_(j,k,0) | W, Z] + (h/2) (I_(j,k) - E[I_(j,k) | W, Z]) + h² (S_jk + T_jk)
    with the conditional means of Substeps(1), I_(j,k) of MrongowiusRoessler(p), and independent normals S_jk = S_kj of
    variance 7/7200 (7/3600 for j = k) and T_jk = -T_kj of variance 1/96, which stand for the remainder. p = 0 leaves
    I_(j,k) and T out: for one channel, and for channels that commute, where both cancel; then m(m + 5)/2 normals, else
    m(2p + 2) + m(3m - 1)/2. Rms errors: of I_(j,k) that of MrongowiusRoessler(p), of I_(j,k,0) h²/16 for j = k, less
    than h²/6 else: enough for strong order 1.
    """

    p: int

    def __post_init__(self):
        if self.p != 0:
            super().__post_init__()

    def normals(self, m):
        fine = self.p > 0 and m > 1
        areas = MrongowiusRoessler(self.p).normals(m)["area"] + m * (m - 1) // 2 if fine else 0
        return {"W": m, "Z": m, "area": areas + m * (m + 1) // 2}

    def increment(self, h, normals, m):
        if m == 0:
            return WZ.increment(h, normals, m)
        step, pairs = WZ.increment(h, normals, m), np.triu_indices(m)
        S, rest = jnp.split(normals["area"], [len(pairs[0])])
        spread = jnp.asarray(np.sqrt(np.where(pairs[0] == pairs[1], 7 / 3600, 7 / 7200)), S.dtype)
        left = jnp.zeros((m, m), S.dtype).at[pairs].set(h**2 * spread * S)
        W, H, I = step.W, step.Z / h - step.W / 2, jnp.eye(m, dtype=S.dtype)
        WW, HW = _pairs(W, W), _pairs(H, W)
        II = WW / 2 - h / 2 * I + (HW - HW.T if m > 1 else 0.0)
        II0 = h * (WW / 6 + HW / 2 + 0.6 * _pairs(H, H) - (13 / 60) * h * I)
        II0 = II0 + left + (left.T * (1 - I) if m > 1 else 0.0)
        if len(rest):
            T, rest = jnp.split(rest, [m * (m - 1) // 2])
            upper = jnp.zeros((m, m), T.dtype).at[np.triu_indices(m, 1)].set(h**2 / math.sqrt(96) * T)
            mean, II = II, MrongowiusRoessler(self.p).increment(h, {**normals, "area": rest}, m).II
            II0 = II0 + h / 2 * (II - mean) + upper - upper.T
        words = {(j + 1, k + 1, 0): II0[j, k] for j in range(m) for k in range(m)}
        return dataclasses.replace(step, II=II, words=words)

    def error(self, h, m=2):
        own = h**2 * math.sqrt(2 * 7 / 3600)
        return max(own, MrongowiusRoessler(self.p).error(h, m)) if self.p > 0 and m > 1 else own


@dataclasses.dataclass(frozen=True)
class Words(Recipe):
    """Every word up to weight 4: from SineSeries(p) in one channel, from Signature(K) in several."""

    p: int = 8
    K: int = 8

    def of(self, m: int) -> Recipe:
        return WZ if m == 0 else SineSeries(self.p) if m == 1 else Signature(self.K)

    def normals(self, m):
        return self.of(m).normals(m)

    def increment(self, h, normals, m):
        return self.of(m).increment(h, normals, m)


# A truncated series in the letters e_0, ..., e_m, one tensor per pattern: (1, 0) has the coefficients of e_j e_0, (m,).
Series = dict[Word, Array]


def _log_signature(d, W: Array, H: Array, R: Array) -> Series:
    I = jnp.eye(len(W), dtype=W.dtype)
    c = 0.6 * _pairs(H, H) + d / 30 * I
    C, bent = d * c, _outer(c, W) + _outer(W, c) - 2 * c[:, None, :] * W[:, None]
    return {
        (0,): jnp.asarray(d, W.dtype),
        (1,): W,
        (1, 1): _pairs(H, W) - _pairs(W, H) + R - d / 2 * I,
        (1, 0): d * H,
        (0, 1): -d * H,
        (1, 1, 1): d / 2 * (_outer(I, H) - _outer(H, I)) + bent + 6 / 7 * (_outer(H, R) - _outer(R, H)),
        (1, 1, 0): C,
        (1, 0, 1): -2 * C,
        (0, 1, 1): C,
        (1, 1, 1, 1): C[:, None, None, :] * I[None, :, :, None] - (_outer(C, I) + _outer(I, C)) / 2,
    }


def _exp(L: Series) -> Series:
    """1 + L (1 + L/2 (1 + L/3 (1 + L/4))); a factor inside n brackets is needed up to weight 4 - n."""
    one: Series = {(): jnp.ones((), L[1,].dtype)}
    E = one
    for n in (4, 3, 2, 1):
        E = one | {w: c / n for w, c in _times(L, E, 5 - n).items()}
    return E


def _times(a: Series, b: Series, limit: int = 4) -> Series:
    """Chen's relation up to a weight; a pattern that is missing is zero."""
    result = {}
    for w in up_to_weight(limit, 1):
        terms = [_outer(a[w[:i]], b[w[i:]]) for i in range(len(w) + 1) if w[:i] in a and w[i:] in b]
        if terms:
            result[w] = reduce(operator.add, terms)
    return result


def _outer(a: Array, b: Array) -> Array:
    return a.reshape(a.shape + (1,) * b.ndim) * b


def _substeps(h, normals, K: int) -> tuple[Array, Array]:
    """W and H = Z/d - W/2 of K substeps d of the step, (K, m) each, given the W and Z of the whole step."""
    m = len(normals["W"])
    x = jnp.concatenate([normals["W"][:, None], normals["Z"][:, None], normals["area"].reshape(m, 2 * K - 2)], axis=1)
    # The normals of W and Z of the step, as unit vectors in the 2K normals of the substeps' W and H.
    u = np.repeat([K**-0.5, 0.0], K)
    v = np.concatenate([math.sqrt(3) * (K - 1 - 2.0 * np.arange(K)), np.ones(K)]) / K**1.5
    W, H = jnp.split(_orthogonal(x, u, v).T, 2)
    d = h / K
    return jnp.sqrt(d) * W, jnp.sqrt(d / 12) * H


def _bridge_series(h, normals, m: int, p: int, tail: Array) -> Increment:
    step = WZ.increment(h, normals, m)
    W, H = step.W, step.Z / h - step.W / 2
    r = np.arange(1, p + 1)
    others, eta = normals["area"][: 2 * m * p].reshape(2, m, p)
    xi = _conditioned(normals["Z"], others, [*-1.0 / r, -math.sqrt(zeta(2, p + 1))])[:, :p]
    B = (xi / jnp.asarray(r, xi.dtype)) @ eta.T
    A = _pairs(H, W) - _pairs(W, H) + h * ((B - B.T) / (2 * math.pi) + tail)
    return dataclasses.replace(step, II=(_pairs(W, W) - h * jnp.eye(m, dtype=W.dtype)) / 2 + A)


def _conditioned(known: Array, others: Array, c) -> Array:
    """Independent normals x (m, n) with known = x·c/|c|, (m,), made from it and n - 1 other normals."""
    c = np.asarray(c) / np.linalg.norm(c)
    return _orthogonal(jnp.concatenate([known[:, None], others], axis=1), c)


def _orthogonal(x: Array, *columns: np.ndarray) -> Array:
    """x (m, n) under an orthogonal map of R^n with these first columns, by Householder reflections: O(n)."""
    reflectors: list[np.ndarray] = []
    for i, c in enumerate(columns):
        for v in reflectors:
            c = c - 2 * v * (v @ c)
        v = -c
        v[i] += 1.0
        size = np.linalg.norm(v)
        if size > 1e-12:
            reflectors.append(v / size)
    for v in reversed(reflectors):
        x = x - 2 * _pairs(_sum(x, v), jnp.asarray(v, x.dtype))
    return x


def _sum(x: Array, weights) -> Array:
    return x @ jnp.asarray(weights, x.dtype)


def _pairs(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]
