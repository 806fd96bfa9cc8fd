"""Noise that is not a matrix: what `diffusion` may return where an (n, m) array would be mostly zeros.

    diagonal(v)                    diag(v)               one channel for each component
    sparse(rows, columns, values)  Σ_k v_k e_r(k) e_c(k)'
    product(apply, channels)       w -> apply(w)         known by its products with vectors only

A method asks for one thing, the product with an increment: operator @ W.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.hints import is_integer
from stodyn.problems.contract import Problem, machine_memory, returned_shape, shared

MEMORY_SHARE = 0.25  # of the machine's memory that one matrix of noise may take


class Operator(ABC):
    """A linear map from m channels to n components; `shape` is (n, m).

    entries  the numbers that it is made of, for proofs of what they depend on
    """

    shape: tuple[int, int]
    entries: Any

    @abstractmethod
    def __matmul__(self, w: Any) -> jax.Array:
        """The product with a vector (m,)."""

    @abstractmethod
    def dense(self) -> jax.Array:
        """The matrix (n, m)."""

    def row(self, i: int) -> jax.Array:
        """Row i, its zeros left out where that is possible."""
        return self.dense()[i]

    @abstractmethod
    def __sub__(self, other: Any) -> Operator:
        """The difference from an operator with entries at the same places."""

    @property
    def sorted_entries(self) -> Any:
        """Its entries by rows, then columns, those at the same place added up; for a Product they are not a matrix."""
        return self.entries


class Diagonal(Operator):
    def __init__(self, vector: Any):
        self.entries = jnp.asarray(vector)
        if self.entries.ndim != 1:
            raise ValueError(f"diagonal: expected a vector, one number per component, got shape {self.entries.shape}")
        self.shape = (self.entries.size, self.entries.size)

    def __matmul__(self, w):
        return self.entries * w

    def dense(self):
        return jnp.diag(self.entries)

    def __sub__(self, other):
        return Diagonal(self.entries - other.entries)

    def row(self, i):
        return self.entries[i : i + 1]


class Sparse(Operator):
    def __init__(self, rows: ArrayLike, columns: ArrayLike, values: Any, shape: tuple[int, int]):
        self.rows, self.columns, self.entries, self.shape = np.asarray(rows), np.asarray(columns), values, shape

    def __matmul__(self, w):
        return (
            jnp.zeros(self.shape[0], jnp.result_type(self.entries, w)).at[self.rows].add(self.entries * w[self.columns])
        )

    def row(self, i):
        here = np.flatnonzero(self.rows == i)
        columns, places = np.unique(self.columns[here], return_inverse=True)
        return jnp.zeros(len(columns), self.entries.dtype).at[places].add(self.entries[here])

    def dense(self):
        return jnp.zeros(self.shape, self.entries.dtype).at[self.rows, self.columns].add(self.entries)

    def __sub__(self, other):
        return Sparse(self.rows, self.columns, self.entries - other.entries, self.shape)

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The places in order, each once, as numbers row m + column; and the number of its place for each entry."""
        return np.unique(self.rows.astype(np.int64) * self.shape[1] + self.columns, return_inverse=True)

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and the columns of the places, in the order of `sorted_entries`."""
        rows, columns = np.divmod(self._sorted[0], self.shape[1])
        return rows, columns

    @property
    def sorted_entries(self):
        places, which = self._sorted
        if len(places) < len(which):
            return jnp.zeros(len(places), self.entries.dtype).at[which].add(self.entries)
        is_sorted = np.array_equal(which, np.arange(len(which)))
        return self.entries if is_sorted else self.entries[np.argsort(which)]


class Product(Operator):
    def __init__(self, apply: Callable[[Any], Any], channels: int):
        self.apply = apply
        self.entries = jnp.asarray(apply(jnp.ones(channels)))
        self.shape = (self.entries.size, channels)

    def __matmul__(self, w):
        return jnp.asarray(self.apply(w))

    def dense(self):
        return jax.vmap(self.apply)(jnp.eye(self.shape[1])).T

    def __sub__(self, other):
        return Product(lambda w: self @ w - other @ w, self.shape[1])


def returned_noise(problem: Problem, function: Any, *arguments: tuple[str, Any]) -> tuple[tuple[int, ...], bool]:
    """The shape of the value that a problem's diffusion returns, and whether it is an operator; as `returned_shape`.

    The stored trace of an operator is that of its row sums, which holds the places of its entries beside their values.
    """
    traced, shapes = shared("row sums", function, lambda: _row_sums(function))
    shape = returned_shape(problem, "diffusion", traced, *arguments).shape
    return (shapes[0], True) if shapes else (shape, False)


def _row_sums(function: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """A function of the row sums of the operator that a diffusion returns, or of what else it returns; and a list to
    which it adds the shape of the operator."""
    shapes: list[tuple[int, ...]] = []

    def row_sums(*values):
        operator = function(*values)
        if not isinstance(operator, Operator):
            return operator
        shapes.append(operator.shape)
        return operator @ jnp.ones(operator.shape[1])

    return (functools.wraps(function)(row_sums) if callable(function) else function), shapes


def check_memory(n: int, m: int) -> None:
    """Refuse a matrix of noise that would not fit into memory."""
    needed = 8.0 * n * m
    if needed > MEMORY_SHARE * machine_memory():
        raise MemoryError(
            f"diffusion: its matrix ({n}, {m}) takes {needed / 1e9:.3g} GB, but this machine has "
            f"{machine_memory() / 1e9:.3g} GB. Return sd.diagonal(vector) for one channel per component, or "
            "sd.sparse(rows, columns, values, shape), which are never written out."
        )


@checks_arguments
def diagonal(vector: ArrayLike) -> Operator:
    """Return the matrix diag(vector) from `diffusion`: one channel per component, without the n² zeros.

    Parameters
    ----------
    vector : array (n,)
        The amplitude of each component's own noise; it may depend on t, x and params.

    Returns
    -------
    Operator
        To be returned by `diffusion`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import stodyn as sd
    >>> problem = sd.SDE(lambda t, x: -x, lambda t, x: sd.diagonal(0.1 * x), start=jnp.ones(3))
    >>> problem.noise_structure.kind
    'diagonal'
    """
    return Diagonal(vector)


@checks_arguments
def sparse(rows: ArrayLike, columns: ArrayLike, values: ArrayLike, shape: tuple[int, int]) -> Operator:
    """Return a matrix with values[k] at (rows[k], columns[k]) and zeros elsewhere from `diffusion`.

    Parameters
    ----------
    rows, columns : whole numbers (k,)
        The places of the entries, known before the run; values at the same place are added up.
    values : array (k,)
        The entries; they may depend on t, x and params.
    shape : (n, m)
        The numbers of components and channels.

    Returns
    -------
    Operator
        To be returned by `diffusion`.

    Raises
    ------
    TypeError
        If rows or columns are computed during the run.
    ValueError
        If rows and columns do not fit values and shape.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import stodyn as sd
    >>> noise = lambda t, x: sd.sparse([1, 2], [0, 0], 0.1 * x[1:], (3, 1))  # one channel, components 1 and 2
    >>> sd.SDE(lambda t, x: -x, noise, start=jnp.ones(3)).m
    1
    """
    values, shape = jnp.asarray(values), (int(shape[0]), int(shape[1]))
    places = []
    for name, indices, size in zip(("rows", "columns"), (rows, columns), shape, strict=True):
        if isinstance(indices, jax.core.Tracer):
            raise TypeError(f"sparse: {name} must be known before the run, but these are computed in it")
        entries = np.asarray(indices)
        if entries.dtype.kind not in "iu" or entries.shape != values.shape or entries.ndim != 1:
            raise ValueError(
                f"sparse: {name}: expected whole numbers of shape {values.shape}, one per value, "
                f"got {entries.dtype} of shape {entries.shape}"
            )
        if entries.size and not (entries.min() >= 0 and entries.max() < size):
            raise ValueError(
                f"sparse: {name}: expected numbers from 0 to {size - 1}, got {entries.min()}..{entries.max()}"
            )
        places.append(entries)
    return Sparse(places[0], places[1], values, shape)


@checks_arguments
def product(apply: Callable[[Any], Any], channels: int) -> Operator:
    """Return a linear map known only by its products w -> apply(w) from `diffusion`.

    Parameters
    ----------
    apply : function (m,) -> (n,)
        Linear in its argument; it may use the t, x and params of the call of `diffusion` that creates it.
    channels : int
        The length m of its argument.

    Returns
    -------
    Operator
        To be returned by `diffusion`.

    Raises
    ------
    ValueError
        If `channels` is not a whole number >= 1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import stodyn as sd
    >>> noise = lambda t, x: sd.product(lambda w: 0.1 * x * jnp.cumsum(w), 3)
    >>> sd.SDE(lambda t, x: -x, noise, start=jnp.ones(3)).m
    3
    """
    if not is_integer(channels):
        raise ValueError(f"product: channels: expected a whole number >= 1, got {channels!r}")
    return Product(apply, channels)


def silent(t, x):
    """A diffusion of one channel without noise: a column of zeros."""
    return jnp.zeros((*jnp.shape(x), 1) if jnp.ndim(x) else ())


def entries_at(pattern: Any, g: Any) -> Any:
    """The entries of noise at the places of its pattern, or the whole matrix where there is none."""
    if isinstance(g, Operator):
        return g.dense() if pattern is None else g.sorted_entries
    return g if pattern is None else g[pattern.rows, pattern.columns]
