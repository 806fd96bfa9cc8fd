"""Unknowns of an SDAE that the others give in closed form, so that no step has to eliminate them.

In the order (u, q, s) of the others, the stored and the filtered unknowns, the equations are
    M_u du + M_q dq = f_u(t, u, s) dt + g_u dW,    0 = q - Q(t, u),    ds = λ s dt + g_s dW,
f_u including constraints. A stage whose increment is Z = (z, Z_q, Z_s) has Z_q = Q(u + z) - q, and Z_s follows from
what is known before the stage, so that Newton's method and the elimination know z alone.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.numerics import sparse
from stodyn.numerics.elimination import ORDERED, PIVOTED, Order, row_order
from stodyn.problems.index import STATES, Split, look


@dataclasses.dataclass(frozen=True, eq=False)
class Explicit:
    """The numbers of the unknowns that need no elimination.

    stored    those with the constraints 0 = x_k - Q(t, others), read by nothing but M: charges
    filtered  those with dx_k = rate x_k dt + noise, mass 1, which read nothing: the states of filters
    rates     λ of the filtered
    """

    stored: np.ndarray
    filtered: np.ndarray
    rates: np.ndarray


class Rest:
    """The unknowns of an SDAE that are not explicit, and their equations.

    unknowns   their numbers
    rows       of the stacked [R v; N v]: the equations that belong to them
    row_order  the order in which these equations are eliminated, where there is one
    """

    def __init__(self, explicit: Explicit, split: Split, n: int):
        self.explicit = explicit
        self.row_order: Order = None
        is_explicit = np.zeros(n, bool)
        is_explicit[explicit.stored], is_explicit[explicit.filtered] = True, True
        N = scipy.sparse.csr_array(split.N)
        moving = np.flatnonzero(~is_explicit[split.rows])
        held = np.flatnonzero(np.diff(N[:, explicit.stored].indptr) == 0)
        self._filters = np.searchsorted(split.rows, explicit.filtered)
        self._take(np.flatnonzero(~is_explicit), np.concatenate([moving, len(split.rows) + held]))

    def _take(self, unknowns: np.ndarray, rows: np.ndarray) -> None:
        self.unknowns, self.rows = unknowns, rows
        self._place = np.argsort(np.concatenate([unknowns, self.explicit.stored, self.explicit.filtered]))

    def sorted(self, samples: np.ndarray) -> Rest:
        """The rest in an order of unknowns and equations in which elimination fills few places, by samples of their
        matrix; where none is found, in an order of the equations for the first sample that is regular."""
        other, n = copy.copy(self), len(self.unknowns)
        holds = np.any(samples != 0.0, axis=0)
        if np.isfinite(samples).all() and n > PIVOTED:
            order = sparse.find_order(sparse.Pattern.of(holds), samples[:, holds], most=n**3)
            if order is not None:
                other._take(self.unknowns[order.columns], self.rows[order.rows])
                other.row_order = tuple(range(n))
                return other
        for matrix in samples:
            with contextlib.suppress(ValueError):
                other.row_order = row_order(matrix)
                return other
        other.row_order = tuple(range(n))
        return other

    def filtered(self, x: Array, known: Array, a: Any) -> Array:
        """Z_s of a stage Z_s = known + a λ (s + Z_s); `known` (r,) is that of all equations with a derivative."""
        pushed = known[self._filters]
        if a is None or not len(self._filters):
            return pushed
        decay = a * jnp.asarray(self.explicit.rates, x.dtype)
        return (pushed + decay * x[self.explicit.filtered]) / (1.0 - decay)

    def whole(self, z: Array, stored: Array, filtered: Array) -> Array:
        """Z (n,) from its three parts."""
        return jnp.concatenate([z, stored, filtered])[self._place]

    def completed(self, rates: Callable[[Array], Array], x: Array, z: Array, filtered: Array) -> tuple[Array, Array]:
        """Z (n,) and f(x + Z): one evaluation of f serves both, since it reads the stored unknowns nowhere else."""
        nothing = jnp.zeros(len(self.explicit.stored), x.dtype)
        drift = rates(x + self.whole(z, nothing, filtered))
        return self.whole(z, -drift[self.explicit.stored], filtered), drift

    def matrix(self, stacked: Any, f_x: Any) -> Any:
        """The matrix of the equations of z, from that of all unknowns [R M - a R f_x; N f_x] and f_x."""
        own, u, q = stacked[self.rows], self.unknowns, self.explicit.stored
        return own[:, u] - own[:, q] @ f_x[q][:, u]


def find_rest(problem: Any) -> Rest | None:
    """Return the unknowns of an SDAE that are not explicit; None where all have to be eliminated."""
    explicit = problem.known.explicit
    if explicit is None:
        return None
    unordered = Rest(explicit, problem.facts.split, problem.n)
    return unordered.sorted(rest_samples(problem, unordered)) if problem.facts.unknowns <= ORDERED else unordered


def rest_samples(problem: Any, rest: Rest) -> np.ndarray:
    """Matrices in the unknowns that are not explicit: of infinitely short steps at the times of `slopes_at_the_start`,
    then of longer ones."""
    rows, N, *_ = problem.facts.split
    RM, slopes = problem.mass_matrix[rows], slopes_at_the_start(problem)
    lengths = np.append(np.zeros(len(slopes)), step_lengths(RM, slopes[0][rows])[1:])
    slopes = np.concatenate([slopes, np.broadcast_to(slopes[0], (len(lengths) - len(slopes), *slopes[0].shape))])
    return np.array([rest.matrix(np.concatenate([RM - a * f_x[rows], N @ f_x]), f_x)
                     for a, f_x in zip(lengths, slopes, strict=True)])  # fmt: skip


def slopes_at_the_start(problem: Any) -> np.ndarray:
    """f_x (index.STATES, n, n) of an SDAE in its consistent start, at t = 0 and at later times."""
    times = np.append(0.0, np.geomspace(1e-3, 1e3, STATES - 1))
    return look(problem, times, np.tile(problem.facts.diagnosed().start, (STATES, 1))).f_x


def step_lengths(RM: Any, R_f_x: Any) -> list[float]:
    """No length, and those of the fastest, the middle and the slowest equation of R M dX = R f dt."""
    inertia, slope = (np.abs(scipy.sparse.csr_array(part)).max(axis=1).toarray().ravel() for part in (RM, R_f_x))
    lengths = np.sort(inertia[slope > 0.0] / slope[slope > 0.0])
    return [0.0, *(float(a) for a in (lengths[[0, len(lengths) // 2, -1]] if len(lengths) else ()))]
