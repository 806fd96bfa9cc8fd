"""What a step may ask of the noise, and how adjacent pieces join."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


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
    words: dict[tuple[int, ...], Array] | None = None
    aux: dict[str, Array] | None = None


class Recipe(ABC):
    """How an Increment is made from independent standard normals; concrete ones are frozen dataclasses.

    A recipe only says how many normals it wants from which stream, and what it makes of them, for ONE step of ONE
    path, in plain JAX. The engine draws the normals and batches the rest. Streams are named, so that every recipe
    takes W from the same numbers and two methods run with one seed see the same Brownian path.
    """

    @abstractmethod
    def normals(self, m: int) -> Mapping[str, int]:
        """Stream name -> how many normals a step takes from it, for m channels. Names: see stream.STREAMS."""

    @abstractmethod
    def increment(self, h: ArrayLike, normals: Mapping[str, Array], m: int) -> Increment:
        """The increment over a step h; normals[name] has the shape (count,) that `normals` asked for."""


def compose(first: Increment, second: Increment) -> Increment:
    """The increment over two adjacent steps, by Chen's relation I_w(s,t) = sum over w = uv of I_u(s,r) I_v(r,t)."""
    if first.aux is not None or second.aux is not None:
        raise ValueError(
            "compose: weak (discrete) draws do not add up to the draw of a longer step. "
            "Use a Gaussian recipe (wiener.W, wiener.WZ, iterated.*) where one path must serve several step sizes."
        )
    h = jnp.asarray(first.h) + second.h
    W = first.W + second.W
    Z = None if first.Z is None or second.Z is None else first.Z + second.Z + first.W * second.h
    II = None
    if first.II is not None and second.II is not None:
        II = first.II + second.II + first.W[:, None] * second.W[None, :]
    if first.words is not None or second.words is not None:
        raise NotImplementedError
    return Increment(h, W, Z, II)
