"""Nodes and weights over the parameters: tensor Gauss and sparse grids, random and quasi-random points."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from stodyn.chaos.memory import refuse_too_large
from stodyn.noise.distribution import Distribution, Piece
from stodyn.numerics import gauss

SEEN_ALIKE = 1e-12
MOST_SPREAD = 4  # parameters up to which points to compare at are spread into the tails: their weights differ the more


class Nodes(NamedTuple):
    """A quadrature rule over the law of the parameters: Σ weights f(points) is about <f>; points (K, Q)."""

    points: np.ndarray
    weights: np.ndarray
    spelling: str


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """The distribution of a parameter, its integrals split at kinks: rules have n nodes on every smooth piece."""

    name: str
    law: Distribution
    pieces: Sequence[Piece]

    @property
    def mean(self) -> float:
        return self.law.mean

    @property
    def variance(self) -> float:
        return self.law.variance

    def rule(self, n: int) -> gauss.Rule:
        """The Gauss rule with n nodes on every piece."""
        rules = [self._rule_on(piece.law, n) for piece in self.pieces]
        weights = [rule.weights * piece.probability for rule, piece in zip(rules, self.pieces, strict=True)]
        return gauss.Rule(np.concatenate([rule.nodes for rule in rules]), np.concatenate(weights))

    def _rule_on(self, part: Distribution, n: int) -> gauss.Rule:
        """The Gauss rule of one piece; one that is too narrow is refused by its name."""
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # points that are all the same have no rule
                return part.rule(n)
        except ValueError as error:
            raise ValueError(
                f"kinks[{self.name!r}]: no rule can be made for the piece from {float(part.low)!r} to "
                f"{float(part.high)!r}, which is too narrow or too improbable. Of kinks that are nearly the same name "
                "only one."
            ) from error


def split(laws: Sequence[Distribution], names: Sequence[str], kinks: Mapping[str, Sequence[float]]) -> list[Any]:
    """The laws of the parameters, split at their kinks where they have any."""
    return [
        Split(name, law, law.split(kinks[name])) if name in kinks else law
        for name, law in zip(names, laws, strict=True)
    ]


def tensor(laws: Sequence[Any], count: int) -> Nodes:
    """The Gauss rule with `count` nodes for each parameter and piece: exact for degree 2 count - 1 in each."""
    cells = piece_count(laws)
    refuse_too_large(float(count) ** len(laws) * cells * (len(laws) + 1), f"nodes: the tensor grid {count}^{len(laws)}",
                     'Take grid="smolyak", or Sampling.')  # fmt: skip
    on_pieces = f" on each of {cells} smooth pieces" if cells > 1 else ""
    return _product([law.rule(count) for law in laws], f"{count}^{len(laws)} Gauss nodes{on_pieces}")


def piece_count(laws: Sequence[Any]) -> int:
    """The number of pieces into which kinks split the domain of the parameters."""
    return math.prod(len(law.pieces) for law in laws if isinstance(law, Split))


def smolyak(laws: Sequence[Any], level: int) -> Nodes:
    """Smolyak's sparse grid of Gauss rules with 1, 2, ..., level + 1 nodes: exact for total degree 2 level + 1.

    Some weights are negative.
    """
    Q = len(laws)
    rules = [[law.rule(k + 1) for k in range(level + 1)] for law in laws]
    points, weights = [], []
    for total in range(max(level - Q + 1, 0), level + 1):
        sign = (-1) ** (level - total) * math.comb(Q - 1, level - total)
        for levels in _compositions(Q, total):
            part = _product([rules[j][k] for j, k in enumerate(levels)], "")
            points.append(part.points)
            weights.append(sign * part.weights)
        refuse_too_large(sum(map(len, points)) * (Q + 1.0), f"nodes: Smolyak's grid of level {level} in {Q} parameters",
                         "Take a lower level, or Sampling.")  # fmt: skip
    joined, w = np.concatenate(points), np.concatenate(weights)
    scale = np.array([np.sqrt(law.variance) for law in laws])
    center = np.array([law.mean for law in laws])
    rounded = np.rint((joined - center) / scale / SEEN_ALIKE / 10.0)
    _, first, which = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return Nodes(joined[first], np.bincount(which.ravel(), w), f"Smolyak level {level}, {len(first)} nodes")


def random(laws: Sequence[Distribution], count: int, rng: np.random.Generator) -> Nodes:
    """Draw independent parameters; all have the same weight."""
    points = np.stack([law.rvs(size=count, random_state=rng) for law in laws], axis=1)
    return Nodes(points, np.full(count, 1.0 / count), f"{count} random draws")


def sobol(laws: Sequence[Distribution], count: int, seed: int) -> Nodes:
    """A scrambled Sobol sequence through the quantiles, with equal weights; a power of two is best."""
    engine = scipy.stats.qmc.Sobol(len(laws), scramble=True, rng=np.random.default_rng(seed))
    u = engine.random_base2(math.ceil(math.log2(count)))[:count]
    u = np.clip(u, 0.5**53, 1.0 - 0.5**53)
    points = np.stack([law.ppf(u[:, j]) for j, law in enumerate(laws)], axis=1)
    return Nodes(points, np.full(count, 1.0 / count), f"{count} points of a Sobol sequence")


def independent(laws: Sequence[Distribution], count: int) -> Nodes:
    """A few points to compare at, of a Sobol sequence in v with the quantiles u = 3v² - 2v³ and the weights du/dv: the
    tails, where expansions miss most, hold more of them."""
    v = scipy.stats.qmc.Sobol(len(laws), scramble=True, rng=np.random.default_rng(0)).random(count)
    v = np.clip(v, 1e-3, 1.0 - 1e-3)
    spreads = len(laws) <= MOST_SPREAD
    u, density = (v * v * (3.0 - 2.0 * v), 6.0 * v * (1.0 - v)) if spreads else (v, np.ones_like(v))
    points = np.stack([law.ppf(u[:, j]) for j, law in enumerate(laws)], axis=1)
    weights = np.prod(density, axis=1)
    return Nodes(points, weights / weights.sum(), f"{count} points of a Sobol sequence")


def _product(rules: Sequence[gauss.Rule], spelling: str) -> Nodes:
    """The tensor product of one rule per parameter."""
    points = np.stack(np.meshgrid(*(rule.nodes for rule in rules), indexing="ij"), axis=-1).reshape(-1, len(rules))
    weights = np.array([math.prod(w) for w in itertools.product(*(rule.weights for rule in rules))])
    return Nodes(points, weights, spelling)


def _compositions(parts: int, total: int) -> list[tuple[int, ...]]:
    """All ways to write a total as an ordered sum of so many whole numbers >= 0."""
    if parts == 1:
        return [(total,)]
    return [(k, *rest) for k in range(total + 1) for rest in _compositions(parts - 1, total - k)]
