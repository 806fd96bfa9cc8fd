"""What an expansion x = Σ_i v_i(t) Φ_i(p) tells: moments, Sobol indices, quantiles, densities, how fast it decays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stodyn.chaos import nodes as grids
from stodyn.chaos.basis import Basis
from stodyn.chaos.bends import Bends
from stodyn.chaos.compared import OFF, Compared
from stodyn.chaos.sampled import Sampled

SCRAMBLES = 8  # independent scramblings of the Sobol points: their spread is the standard error
POINTS = 2**11
NOTHING = 1e-13  # of the largest value of a component: a smaller standard deviation, some hundred ε, counts as none
BENT = 0.01  # of the standard deviation: a larger error is reported where functions are known to bend or jump
MISSED = 0.25  # of the standard deviation: a larger error at independent parameters is reported. Jumps in a combination
# of two parameters have .25 to 1.2 up to degree 5, smooth functions with means right to 1 % seldom more than .2

BAD_MOMENTS = (
    "Its moments are not to be trusted. Take a higher degree, a narrower distribution or a shorter run, or Sampling, "
    "whose mean and standard deviation are those of the samples."
)
BAD_SHAPE = "Its quantiles, densities and Sobol indices are not to be trusted. Take a higher degree, or more samples."


class Quantiles(NamedTuple):
    """Quantiles of the surrogate and their standard errors, (times, n, levels)."""

    values: np.ndarray
    stderr: np.ndarray


class Densities(NamedTuple):
    """Mean densities between edges, their standard errors (times, n, bins), and the edges (times, n, bins + 1)."""

    values: np.ndarray
    stderr: np.ndarray
    edges: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """An expansion: its coefficients (times, n, terms) in a basis; `sampled` holds what the samples tell where there
    were any, `compared` its errors at independent parameters where they were measured, `bends` where functions of the
    problem bend, jump or are singular."""

    basis: Basis
    coefficients: np.ndarray
    sampled: Sampled | None = None
    compared: Compared | None = None
    bends: Bends = dataclasses.field(default_factory=Bends)

    @property
    def mean(self) -> np.ndarray:
        return self.coefficients[..., 0] if self.sampled is None else self.sampled.mean

    @property
    def variance(self) -> np.ndarray:
        return self.explained if self.sampled is None else self.sampled.variance

    @functools.cached_property
    def explained(self) -> np.ndarray:
        """The variance of the expansion, Σ_(i >= 1) v_i²."""
        return np.sum(self.coefficients[..., 1:] ** 2, axis=-1)

    def first_order(self) -> np.ndarray:
        """Sobol indices: the share of the expansion's variance from each parameter alone, (times, n, Q); NaN without
        variance.
        """
        alone = (self.basis.indices > 0).sum(axis=1) == 1
        return self._shares((self.basis.indices > 0) & alone[:, None])

    def total(self) -> np.ndarray:
        """The share of the variance that each parameter has a part in, (times, n, Q)."""
        return self._shares(self.basis.indices > 0)

    def _shares(self, counted: np.ndarray) -> np.ndarray:
        """The share of the variance of the terms that count for each parameter; NaN where nothing varies."""
        parts = self.coefficients**2 @ counted.astype(float)
        size = np.abs(self.coefficients).max(axis=(0, 2))[None]
        real = np.sqrt(self.explained) > NOTHING * size
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(real[..., None], parts / self.explained[..., None], np.nan)

    def by_degree(self) -> np.ndarray:
        """The root of the sum of squares of the coefficients of each total degree, (times, n, degrees)."""
        degrees = self.basis.indices.sum(axis=1)
        counted = degrees[:, None] == np.arange(degrees.max() + 1)
        return np.sqrt(self.coefficients**2 @ counted.astype(float))

    def truncation(self) -> np.ndarray:
        """An estimate of the root mean square of what the expansion leaves out, (times, n): its error at samples left
        out where there are samples, else from the decay of its coefficients, and no less than it misses at independent
        parameters where that was measured.

        With the ratio r of the last two degrees, taken over all times, the rest of a geometric series is
        (last) r / √(1 - r²). Even and odd degrees also decay by themselves, since either may be missing (sin p has no
        even ones): with the ratio ρ of the last degree of a kind and the one two below it, the rest is
        (last) ρ / √(1 - ρ²), for both kinds together. The larger of the two is taken, and the latter where r >= 1:
        the former is 0 for sines, the latter four times too small for Miller's integrator, whose decay slows down.
        Where there is no degree two below, ρ is r² of degrees 2 and 1, so that degree 2 cannot tell an odd function
        from a linear one. Infinite where a kind does not decay; NaN for bases of degree below 2.
        """
        if self.sampled is not None:
            return self.sampled.left_out
        return self._by_decay() if self.compared is None else np.fmax(self._by_decay(), self.compared.missed)

    def _by_decay(self) -> np.ndarray:
        """What the decay of the coefficients tells of what is left out."""
        sizes, degree = self.by_degree()[..., : self.basis.degree + 1], self.basis.degree
        if degree < 2:
            return np.full(sizes.shape[:2], np.nan)
        tops = sizes.max(axis=0)

        def rest(last: int, ratio: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.where(ratio < 1.0, ratio / np.sqrt(1.0 - np.minimum(ratio, 1.0) ** 2), np.inf)
                remainder = sizes[..., last] * np.where(tops[:, last] > NOTHING * tops.max(axis=-1), factor, 0.0)
            return np.where(sizes[..., last] > 0.0, remainder, 0.0)

        with np.errstate(divide="ignore", invalid="ignore"):
            kinds = [rest(k, tops[:, k] / tops[:, k - 2] if k > 2 else (tops[:, 2] / tops[:, 1]) ** 2)
                     for k in (degree, degree - 1)]  # fmt: skip
            by_degree = rest(degree, tops[:, -1] / tops[:, -2])
        return np.maximum(np.hypot(*kinds), np.where(np.isfinite(by_degree), by_degree, 0.0))

    def doubts(self, times: np.ndarray, components: Sequence[str]) -> list[str]:
        """Warnings about the expansion and about the samples that it is made from."""
        return [words for words in (self._shortness(times, components), self._heaviness(times, components)) if words]

    def _shortness(self, times: np.ndarray, components: Sequence[str]) -> str | None:
        """A warning where the expansion leaves out more than it holds, its terms do not decay, or it misses solutions
        at independent parameters; otherwise None."""
        left_out = self._by_decay() if self.sampled is None else self.sampled.left_out
        left_out, std = np.nan_to_num(left_out, posinf=np.inf), np.sqrt(self.explained)
        real = np.sqrt(self.variance) > NOTHING * np.abs(self.coefficients).max(axis=(0, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(real, left_out / std, 0.0)
        at, component = map(int, np.unravel_index(np.argmax(share), share.shape))
        if not share[at, component] > 1.0:
            return self._misses(times, components)
        size = left_out[at, component]
        finding = (
            f"leaves out about {size:.3g}, more than the standard deviation of {std[at, component]:.3g} that it holds"
            if np.isfinite(size)
            else "has terms that do not decay with their degree, so that what it leaves out is not known"
        )
        return (
            f"degree: the expansion of degree {self.basis.degree} of {components[component]} at t = {times[at]:.6g} "
            f"{finding}. {self._way_out() if self.bends else ''}{BAD_MOMENTS if self.sampled is None else BAD_SHAPE}"
        )

    def _heaviness(self, times: np.ndarray, components: Sequence[str]) -> str | None:
        """A warning where the tails of the samples are too heavy for their moments."""
        if self.sampled is None or not self.sampled.heaviest:
            return None
        index, at, component = self.sampled.heaviest
        return (
            f"samples: the largest values of {components[component]} at t = {times[at]:.6g} fall off like a power of "
            f"about {index:.2g}, and rare parameters that were not drawn decide its moments: below 2 the variance is "
            "infinite, below 1 the mean. Neither they nor their standard errors are to be trusted. Take a law without "
            "such values, the quantiles, or the logarithm of the component."
        )

    @property
    def may_bend(self) -> bool:
        """Whether it misses so much that bends of the functions, if there are any, are to be named."""
        return self._worst_miss()[0] > BENT

    def _worst_miss(self) -> tuple[float, int, int]:
        """The largest error at independent parameters as a share of a component's largest standard deviation, its time
        and its component."""
        return (0.0, 0, 0) if self.compared is None else self._worst(self.compared.missed)

    def _worst(self, errors: np.ndarray) -> tuple[float, int, int]:
        """The largest of some errors (times, n) as a share of a component's largest standard deviation."""
        std = np.sqrt(self.explained).max(axis=0)
        is_real = errors > NOTHING * np.abs(self.coefficients).max()  # a component may be nothing but rounding
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(is_real, errors / std, 0.0)
        at, component = map(int, np.unravel_index(np.argmax(share), share.shape))
        return float(share[at, component]), at, component

    def _misses(self, times: np.ndarray, components: Sequence[str]) -> str | None:
        """A warning where the error at independent parameters is large, where it may be due to bends, or where the
        moments are off; a straight line is not expected to follow a curve."""
        if self.compared is None:
            return None
        share, at, component = self._worst_miss()
        if (self.basis.degree >= 2 and share > MISSED) or (self.bends and share > BENT):
            std = np.sqrt(self.explained[:, component].max())
            return (
                f"degree: at parameters other than its nodes, the expansion of degree {self.basis.degree} of "
                f"{components[component]} misses the solution at t = {times[at]:.6g} by "
                f"{self.compared.missed[at, component]:.3g} (root mean square); the standard deviation is {std:.3g}. "
                f"{self._way_out()}{BAD_MOMENTS}"
            )
        share, at, component = self._worst(self.compared.surely_off)
        if not (self.basis.degree >= 2 and share > OFF):
            return None
        mean, std = self.coefficients[at, component, 0], np.sqrt(self.explained[at, component])
        right = self.compared.off[:, at, component] + (mean, std)
        return (
            f"degree: the expansion of degree {self.basis.degree} of {components[component]} at t = {times[at]:.6g} "
            f"has the mean {mean:.4g} and the standard deviation {std:.4g}, but other parameters than its nodes tell "
            f"{right[0]:.4g} and {right[1]:.4g}. {self._way_out()}{BAD_MOMENTS}"
        )

    def _way_out(self) -> str:
        """What to do about functions that bend or jump."""
        return self.bends.way_out or (
            "Functions that jump or bend within the domain of the parameters do that: name the values of a "
            "parameter at which they do in kinks. "
        )

    def evaluate(self, points: np.ndarray) -> np.ndarray:
        """The surrogate at parameters (K, Q): (K, times, n)."""
        return np.einsum("kp,tnp->ktn", self.basis.evaluate(np.atleast_2d(points)), self.coefficients, optimize=True)

    def quantiles(self, levels: Sequence[float], seed: int = 0) -> Quantiles:
        """Quantiles from the surrogate at scrambled Sobol points.

        Their errors are those of the points and of what the expansion leaves out (`truncation`, where the degree is
        high enough to tell): a quantile moves by about as much as its argument.
        """
        parts = np.stack([np.quantile(sample, levels, axis=0) for sample in self._samples(seed)])
        values = np.moveaxis(parts, 1, -1)
        scatter = values.std(axis=0, ddof=1) / np.sqrt(SCRAMBLES)
        left_out = np.nan_to_num(self.truncation(), posinf=np.inf)[..., None]
        return Quantiles(values.mean(axis=0), np.hypot(scatter, left_out))

    def densities(self, bins: int, seed: int = 0) -> Densities:
        """Histograms of the surrogate between its extremes, `bins` equal ones for every time and component."""
        samples = self._samples(seed)
        low, high = np.min([s.min(axis=0) for s in samples], axis=0), np.max([s.max(axis=0) for s in samples], axis=0)
        width = np.where(high > low, (high - low) / bins, 1.0)
        edges = low[..., None] + width[..., None] * np.arange(bins + 1)
        parts = []
        for sample in samples:
            which = np.clip(((sample - low) / width).astype(int), 0, bins - 1)
            counts = np.zeros((*low.shape, bins))
            t, n = np.meshgrid(*map(np.arange, low.shape), indexing="ij")
            np.add.at(counts, (np.broadcast_to(t, which.shape), np.broadcast_to(n, which.shape), which), 1.0)
            parts.append(counts / len(sample) / width[..., None])
        values = np.stack(parts)
        return Densities(values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(SCRAMBLES), edges)

    def _samples(self, seed: int) -> list[np.ndarray]:
        """The surrogate at several scrambled Sobol sequences."""
        return [self.evaluate(grids.sobol(self.basis.laws, POINTS, seed + k).points) for k in range(SCRAMBLES)]
