"""Geometric stiffness: what loads along a structure's members take from its stiffness, K - K_G, the P-Δ effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from stodyn.arguments import checks_arguments
from stodyn.numerics import direct
from stodyn.problems.known_matrices import is_symmetric

LEAST = 1e-12  # of the largest: a share of 1/factor below this is rounding, and the load buckles nothing

__all__ = ["buckling_factors", "p_delta"]


@checks_arguments
def p_delta(weights: ArrayLike, heights: ArrayLike) -> np.ndarray:
    """Return the geometric stiffness K_G of a frame under the weights of its floors; it leaves K - K_G for sways.

    One horizontal coordinate for each floor, from the ground up. The weight P_i above a storey of height h_i pushes its
    upper end aside with P_i/h_i times the drift: K_G = Σ (P_i/h_i) d_i d_i', d_i the drift of storey i.

    Parameters
    ----------
    weights : array (N,)
        The weight of each floor, mass times gravity, positive downwards.
    heights : array (N,)
        The height of each storey.

    Returns
    -------
    array (N, N)

    Raises
    ------
    ValueError
        If there are not as many heights as weights, or a height is not positive.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.structures.p_delta([10.0, 10.0], [4.0, 4.0])
    array([[ 7.5, -2.5],
           [-2.5,  2.5]])
    """
    floors, storeys = np.atleast_1d(np.asarray(weights, float)), np.atleast_1d(np.asarray(heights, float))
    if floors.ndim != 1 or floors.shape != storeys.shape or not np.isfinite([floors, storeys]).all():
        raise ValueError(
            f"weights, heights: expected a finite number for each floor in both, got shapes {floors.shape} and "
            f"{storeys.shape}"
        )
    if not np.all(storeys > 0.0):
        raise ValueError(f"heights: expected positive numbers, got {storeys.tolist()}")
    drift = np.eye(len(floors)) - np.eye(len(floors), k=-1)
    return drift.T @ np.diag(np.cumsum(floors[::-1])[::-1] / storeys) @ drift


@checks_arguments
def buckling_factors(K: Any, geometric: Any) -> np.ndarray:
    """Return the factors λ > 0 of a load at which a structure buckles, K φ = λ K_G φ, ascending: λ_1 ≤ 1 has buckled.

    Parameters
    ----------
    K : array (N, N)
        The stiffness without the load, dense or of scipy.sparse.
    geometric : array (N, N)
        K_G, which the load takes from the stiffness, as `p_delta` or a finite-element program gives it. Programs that
        add it to K have the other sign.

    Returns
    -------
    array
        Empty where the load buckles nothing, as one that pulls.

    Raises
    ------
    ValueError
        If the matrices are not symmetric or do not fit, or K is not positive definite.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.structures.buckling_factors([[100.0]], sd.structures.p_delta([50.0], [4.0]))
    array([8.])
    """
    matrices = {}
    for name, matrix in (("K", K), ("geometric", geometric)):
        A = scipy.sparse.csr_array(np.atleast_2d(matrix) if not scipy.sparse.issparse(matrix) else matrix, dtype=float)
        if A.shape[0] != A.shape[1] or not np.isfinite(A.data).all():
            raise ValueError(f"{name}: expected a finite square matrix, got shape {A.shape}")
        if not is_symmetric(A):
            raise ValueError(f"{name}: is not symmetric; a load that follows the structure has no factor of this kind")
        matrices[name] = direct.dense(A)
    stiff, load = matrices["K"], matrices["geometric"]
    if stiff.shape != load.shape:
        raise ValueError(f"geometric: has shape {load.shape}, but K has {stiff.shape}; expected the same")
    try:
        shares = scipy.linalg.eigh(load, stiff, eigvals_only=True)
    except np.linalg.LinAlgError:
        raise ValueError("K: is not positive definite: the structure moves or buckles without the load") from None
    shares = shares[shares > LEAST * np.abs(shares).max(initial=0.0)]
    return 1.0 / shares[::-1]
