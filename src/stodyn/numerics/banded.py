"""Sparse systems whose unknowns can be ordered so that each equation holds only its neighbours: O(n) solves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array, lax

from stodyn.numerics.facts.dependence import dependence
from stodyn.numerics.printing.unprintable import Unprintable


@dataclasses.dataclass(frozen=True, eq=False)
class Band:
    """An order of unknowns and equations in which |i - j| <= width wherever equation i holds unknown j.

    order  (n,) the number of the unknown, and of the equation, at each place
    width  w, with 2w + 1 <= n: the solves below cost O(n w²) and the Jacobian 2w + 1 derivatives
    """

    order: np.ndarray
    width: int

    def jacobian(self, residual: Callable[[Array], Array], x: Array) -> Array:
        """The diagonals of the ordered Jacobian, (2w + 1, n): entry [k, i] belongs to row i and column i - w + k.

        Unknowns 2w + 1 places apart share no equation, so one derivative gives the entries of all of them.
        """
        n, w = len(self.order), self.width
        count, place = 2 * w + 1, np.argsort(self.order)
        colour = (place % count)[None, :] == np.arange(count)[:, None]
        _, slope = jax.linearize(residual, x)
        columns = jax.vmap(slope)(jnp.asarray(colour, x.dtype))[:, self.order]  # (colour, equation)
        blocks = jnp.pad(columns, ((0, 0), (0, -n % count))).reshape(count, -1, count)
        turned = [jnp.roll(blocks[:, :, a], w - a, axis=0) for a in range(count)]
        diagonals = jnp.stack(turned, axis=2).reshape(count, -1)[:, :n]
        k, i = np.indices((count, n))
        return jnp.where((i - w + k >= 0) & (i - w + k < n), diagonals, 0.0)

    def factorised(self, diagonals: Array) -> Callable[[Array], Array]:
        """r -> J⁻¹ r for the diagonals of an ordered Jacobian, by elimination without exchanges of rows.

        Each row is a handful of numbers, not a vector: batched, they are as many arrays over the paths, and one loop
        over the rows works on all of them.

        Every result is NaN where growth has cost more than half of the digits: J x = J·1 must give ones back.
        """
        w = self.width

        def eliminate(above, row):
            upper, inverse = above  # the last w rows of U, without their diagonals, and the inverses of these
            row = list(row)
            for k in range(w):
                row[k] = row[k] * inverse[k]
                for j in range(w):
                    row[k + 1 + j] = row[k + 1 + j] - row[k] * upper[k][j]
            pivot, right = 1.0 / row[w], tuple(row[w + 1 :])
            return ((*upper, right)[1:], (*inverse, pivot)[1:]), (tuple(row[:w]), right, pivot)

        zero = jnp.zeros((), diagonals.dtype)
        none = (zero,) * w
        entries = tuple(diagonals[k] for k in range(2 * w + 1))
        _, (lower, upper, inverse) = lax.scan(eliminate, ((none,) * w, none), entries)

        def substitute(r: Array) -> Array:
            def forward(before, inputs):
                factors, right = inputs
                y = right - sum(f * b for f, b in zip(factors, before, strict=True))
                return (*before, y)[1:], y

            def backward(after, inputs):
                coefficients, pivot, y = inputs
                x = (y - sum(c * a for c, a in zip(coefficients, after, strict=True))) * pivot
                return (x, *after)[:w], x

            _, y = lax.scan(forward, none, (lower, r))
            return lax.scan(backward, none, (upper, inverse, y), reverse=True)[1]

        ones = substitute(jnp.sum(diagonals, axis=0))
        sound = jnp.max(jnp.abs(ones - 1.0)) <= math.sqrt(float(jnp.finfo(diagonals.dtype).eps))
        place = np.argsort(self.order)

        def solve(r: Array) -> Array:
            return jnp.where(sound, substitute(r[self.order])[place], jnp.nan)

        return solve


def find_band(residual: Callable, *arguments: Any) -> Band | None:
    """The band of the Jacobian of residual(x, ...) in x, proved from the trace; None where its width is n/3 or more.

    The order is that of Cuthill and McKee, reversed, on the pattern of the Jacobian made symmetric.
    """
    try:
        holds = dependence(residual, *arguments).on(0).toarray()
    except Unprintable:
        return None
    n = len(holds)
    holds |= holds.T | np.eye(n, dtype=bool)
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(scipy.sparse.csr_array(holds), symmetric_mode=True)
    equation, unknown = np.nonzero(holds[np.ix_(order, order)])
    width = int(np.abs(equation - unknown).max())
    return Band(np.asarray(order), width) if 3 * width < n else None
