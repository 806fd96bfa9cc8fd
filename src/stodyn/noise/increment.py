"""The noise of a step, and how the noise of adjacent steps is joined."""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from stodyn.noise.words import Word, express, weight


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Increment:
    """The noise of one step of one path over m channels; a recipe fills what its method needs, the rest is None.

    h    length of the step
    W    (m,)    W_j, the Wiener increments (for weak recipes: draws with the same low moments)
    Z    (m,)    I_(j,0) = ∫ (W_j(s) - W_j) ds
    II   (m, m)  II[j, k] = I_(j,k) = ∫ (W_j(s) - W_j) dW_k(s): the first index is the inner one (Ito)
    words        {(j, ...): I_word}, channels counted from 1 and 0 for time, for the words no other field holds
    aux          {name: (m,) or (m, m)}, the further variables of weak recipes; an increment with aux does not compose
    """

    h: ArrayLike
    W: Array
    Z: Array | None = None
    II: Array | None = None
    words: dict[Word, Array] | None = None
    aux: dict[str, Array] | None = None

    def word(self, word: Word) -> Array:
        """I_word, channels counted from 1 and 0 for time, the innermost integrator first: word((1, 2, 0)).

        Other integrals are computed by Ito's product rule from the stored ones, e.g. I_(0,j) = h W_j - I_(j,0),
        I_(j,j) = (W_j² - h)/2, I_(1,0,1) = W I_(1,0) - 2 I_(1,1,0) - h²/2.
        """
        m = self.W.shape[-1]
        if any(letter not in range(m + 1) for letter in word):
            raise ValueError(f"word: {word} has a letter outside 0..{m}; this increment has {m} channel(s)")
        polynomial = express(word, self._held)
        if polynomial is None:
            raise ValueError(f"word: I_{word} does not follow from the integrals of this increment. {_source(word, m)}")
        terms = (math.prod(map(self._read, monomial), start=float(c)) for monomial, c in polynomial.items())
        return jnp.asarray(sum(terms), self.W.dtype)

    @property
    def _held(self) -> frozenset[Word]:
        channels = range(1, self.W.shape[-1] + 1)
        Z = () if self.Z is None else ((j, 0) for j in channels)
        II = () if self.II is None else itertools.product(channels, repeat=2)
        return frozenset([*((j,) for j in channels), *Z, *II, *(self.words or ())])

    def _read(self, word: Word) -> ArrayLike:
        if self.words is not None and word in self.words:
            return self.words[word]
        match word:
            case (0,):
                return self.h
            case (j,):
                return self.W[..., j - 1]
            case (j, 0):
                return self.Z[..., j - 1]  # type: ignore[index]
            case (j, k):
                return self.II[..., j - 1, k - 1]  # type: ignore[index]
        raise KeyError(word)


class Recipe(ABC):
    """How an Increment is made from independent standard normals; concrete ones are frozen dataclasses.

    A recipe only says how many normals it wants from which stream, and how it combines them, for ONE step of ONE
    path, in plain JAX. The engine draws the normals and batches the rest. Streams are named, so that every recipe
    takes W from the same numbers and two methods run with one seed have the same Brownian path.
    """

    @abstractmethod
    def normals(self, m: int) -> Mapping[str, int]:
        """Stream name -> how many normals a step takes from it, for m channels. Names: see stream.STREAMS."""

    @abstractmethod
    def increment(self, h: ArrayLike, normals: Mapping[str, Array], m: int) -> Increment:
        """The increment over a step h; normals[name] has the shape (count,) stated by `normals`."""

    def join(self, first: Increment, second: Increment) -> Increment:
        """The increment over two adjacent steps, made of theirs."""
        return compose(first, second)


def compose(first: Increment, second: Increment) -> Increment:
    """The increment over two adjacent steps, by Chen's relation I_w(s,t) = sum over w = uv of I_u(s,r) I_v(r,t).

    It holds Z and II where both pieces do, and every word of either; an error where part of a word is unknown.
    """
    if first.aux is not None or second.aux is not None:
        raise ValueError(
            "compose: weak (discrete) draws do not add up to the draw of a longer step. "
            "Use a Gaussian recipe (wiener.W, wiener.WZ, iterated.*) where one path is used with several step sizes."
        )
    h = jnp.asarray(first.h) + second.h
    W = first.W + second.W
    Z = II = words = None
    if first.Z is not None and second.Z is not None:
        Z = first.Z + second.Z + first.W * jnp.asarray(second.h)[..., None]
    if first.II is not None and second.II is not None:
        II = first.II + second.II + first.W[..., :, None] * second.W[..., None, :]
    if first.words is not None or second.words is not None:
        keys = dict.fromkeys([*(first.words or ()), *(second.words or ())])
        words = {w: jnp.asarray(sum(first.word(w[:i]) * second.word(w[i:]) for i in range(len(w) + 1))) for w in keys}
    return Increment(h, W, Z, II, words)


def compose_all(increments: Increment, factor: int | None = None) -> Increment:
    """Steps joined by `factor`: an Increment stacked along a leading axis, (steps, ...) -> (steps/factor, ...).

    Without a factor all steps become one, without the leading axis. So one fine path gives those of every coarser step.
    """
    steps = increments.W.shape[0]
    size = steps if factor is None else factor
    if size < 1 or steps % size:
        raise ValueError(f"compose_all: factor={factor} does not divide the {steps} steps; take a divisor of {steps}")
    if jnp.ndim(increments.h) == 0:
        increments = dataclasses.replace(increments, h=jnp.full(steps, increments.h))
    groups = jax.tree.map(lambda a: a.reshape(steps // size, size, *a.shape[1:]).swapaxes(0, 1), increments)
    first, others = jax.tree.map(lambda a: a[0], groups), jax.tree.map(lambda a: a[1:], groups)
    joined, _ = lax.scan(lambda left, right: (jax.vmap(compose)(left, right), None), first, others)
    return joined if factor is not None else jax.tree.map(lambda a: a[0], joined)


def _source(word: Word, m: int) -> str:
    """Which recipe gives the word, in words."""
    channels = range(1, m + 1)
    W, Z = {(j,) for j in channels}, {(j, 0) for j in channels}
    pairs = set(itertools.product(channels, repeat=2))
    sources: dict[str, set[Word]] = {
        "wiener.WZ": W | Z,
        "iterated.SineSeries": W | Z | {(j, j, 0) for j in channels},
        "iterated.MrongowiusRoessler": W | Z | pairs,
        "iterated.Substeps": W | Z | pairs | {(*pair, 0) for pair in pairs},
    }
    for name, held in sources.items():
        if express(word, frozenset(held)) is not None:
            return f"The recipe {name} gives it."
    if weight(word) <= 4:
        return "The recipe iterated.Signature gives it."
    return f"Its weight is {weight(word)} (time counts 2, a channel 1), and recipes go up to 4 (iterated.Signature)."
