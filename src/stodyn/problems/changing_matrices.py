"""Matrices M, C and K that are functions of (t[, params]): the force that they make, and those of drawn paths.

Matrices that do not change are refused where they are negative in some direction. Those that depend on random
parameters are looked at before a run, for some draws of the parameters: a stiffness with a law that reaches below zero
makes some paths grow without bound, and moments over all paths are then those of these few.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.problems.calling import PARAMS_NAMES, call, needed_names, takes_params
from stodyn.problems.contract import returned_shape, sample_params
from stodyn.telling import tell
from stodyn.warnings import NegativeMatrix

NEGATIVE = 1e-10  # relative: eigenvalues below minus this are negative; matrices from files have some ten digits
DRAWS, FEWEST = 4096, 16  # of the parameters: the most, and the fewest by which a share is told
WORK = 60 * 60**3  # draws N³, of which the eigenvalues cost a tenth of a second
LARGEST, VARIED = 1000, 8  # coordinates; numbers among the parameters whose smallest and largest draws are looked at


@dataclasses.dataclass(frozen=True, eq=False)
class Changing:
    """The force load(t) - K x - C v of matrices of which some are functions.

    matrices  "M", "C", "K" -> array (N, N), or function of (t[, params])
    load      a function of (t[, params]), or None
    checked   whether matrices that are negative in some direction are to be told of: symmetric=False is not given
    """

    matrices: Mapping[str, Any]
    load: Callable | None
    checked: bool

    def __call__(self, t, x, v, params):
        total = -self.at("K", t, params) @ x - self.at("C", t, params) @ v
        return total if self.load is None else total + jnp.asarray(call(self.load, t, params=params), total.dtype)

    def at(self, name: str, t: Any, params: Any) -> jax.Array:
        """A matrix at a time."""
        A = self.matrices[name]
        return jnp.asarray(call(A, t, params=params) if callable(A) else A)

    def check(self, problem: Any) -> None:
        """Refuse functions that are no matrices (N, N), each under its own name."""
        for name, A in self.matrices.items():
            if not callable(A):
                continue
            if len(needed := needed_names(A)) == 1 and needed[0].lower() in PARAMS_NAMES:
                raise TypeError(
                    f"{name}: is called as {name}(t), since it has one argument, {needed[0]!r}; for a matrix that "
                    f"depends on params write lambda t, {needed[0]}: ..."
                )
            shape = returned_shape(problem, name, A, ("t", 0.0)).shape
            if shape != (problem.N, problem.N):
                raise ValueError(
                    f"{name}: has shape {shape}, expected {(problem.N, problem.N)}, a row for each coordinate"
                )

    def warn_of_negative(self, problem: Any, t: float) -> None:
        """Warn where K or C of some drawn paths is negative in some direction; a negative M ends its paths anyway. Of
        matrices so large that few can be looked at, those of the paths with the smallest and the largest values of a
        parameter are."""
        if not self.checked or not problem.has_random_params or problem.N > LARGEST:
            return
        count = min(DRAWS, WORK // problem.N**3)
        is_large = count < FEWEST
        params, axes = sample_params(problem, DRAWS if is_large else count)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(params)):
            return
        if is_large:
            params, count = _extremes(params, axes)
        for name, what in (("K", "stiffness"), ("C", "damping")):
            if not callable(self.matrices[name]) or not takes_params(self.matrices[name], 1, problem.params):
                continue
            with jax.enable_x64(True):
                at = jax.vmap(lambda p, name=name: self.at(name, t, p), (axes,), axis_size=count)
                of_paths = np.asarray(at(params), float)
            lowest, is_negative = _lowest(of_paths, needs_symmetry=name == "K")
            if is_negative.any():
                some = f"some of {DRAWS}" if is_large else f"{is_negative.mean():.2g} of {count}"
                tell(
                    f"{name}: is negative in some direction on {some} drawn paths, its lowest "
                    f"eigenvalue being {lowest.min():.4g}: with negative {what} a path grows without bound, and "
                    "means and variances over all paths are those of such paths. Give the parameter a law on (0, inf), "
                    "such as a lognormal one; symmetric=False says that it is meant",
                    NegativeMatrix,
                )


def _extremes(params: Any, axes: Any) -> tuple[Any, int]:
    """The draws of the parameters with the smallest and the largest value of each of the first numbers that vary, and
    how many these are."""
    places, leaves = jax.tree.flatten(axes, is_leaf=lambda axis: axis is None)[0], jax.tree.leaves(params)
    varying = [leaf for leaf, axis in zip(leaves, places, strict=True) if axis is not None]
    columns = np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in varying], axis=1)[:, :VARIED]
    chosen = np.unique([columns.argmin(axis=0), columns.argmax(axis=0)])
    own = [leaf if axis is None else leaf[chosen] for leaf, axis in zip(leaves, places, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(params), own), len(chosen)


def _lowest(matrices: np.ndarray, *, needs_symmetry: bool) -> tuple[np.ndarray, np.ndarray]:
    """The lowest eigenvalue of the symmetric part of each of these matrices, and where it is below zero by more than
    rounding; not where a matrix that needs symmetry has none, whose symmetric part decides on nothing."""
    size = np.abs(matrices).max(axis=(1, 2))
    turned = matrices.swapaxes(1, 2)
    usable = np.isfinite(size)
    if needs_symmetry:
        usable &= np.abs(matrices - turned).max(axis=(1, 2)) <= NEGATIVE * size
    lowest, rounding = np.zeros(len(matrices)), NEGATIVE * matrices.shape[1] * size
    symmetric = 0.5 * (matrices + turned)[usable]
    try:  # which takes a tenth of the time of eigenvalues
        np.linalg.cholesky(symmetric + rounding[usable, None, None] * np.eye(matrices.shape[1]))
    except np.linalg.LinAlgError:
        lowest[usable] = np.linalg.eigvalsh(symmetric)[:, 0]
    return lowest, lowest < -rounding
