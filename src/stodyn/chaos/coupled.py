"""The coupled systems for all coefficients of an expansion: Galerkin (12) and collocation (9).

With x = Σ_i v_i(t) Φ_i(p) and V the stacked v_i, both are systems A V' + B V = s(t), of size terms times components.
They come from M(p) x' - A(p) x = s(t, p); what is written here for one matrix F(p) holds for M and for -A:

    Galerkin     <residual Φ_l> = 0:     Σ_S T_S ⊗ F_S where F(p) = Σ_S Π_(j ∈ S) (p_j - mean_j) F_S
    collocation  residual(p_l) = 0:      block (l, i) is Φ_i(p_l) F(p_l)

R. Pulch, Stochastic collocation and stochastic Galerkin methods for linear differential algebraic equations (2012).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from stodyn.chaos import nodes as grids
from stodyn.chaos.basis import Basis
from stodyn.chaos.memory import refuse_too_large
from stodyn.numerics.radau import Forcing, Linear, Nonlinear
from stodyn.problems import pencil
from stodyn.problems.multiaffine import MultiAffine
from stodyn.problems.random_dae import RandomDAE

FINER = 4  # more nodes per parameter than the degree, where integrals are not known in closed form
MOST_NODES = 40_000


@dataclasses.dataclass(frozen=True, eq=False)
class Coupled:
    """The system of a basis, its start (1, terms · n), and the largest relative error of what was integrated
    numerically (0: everything by recurrences).
    """

    system: Any  # radau.Linear or radau.Nonlinear
    start: np.ndarray
    projection_error: float

    def pencil(self) -> pencil.Pencil:
        """The analysis of the coupled system as a DAE: its index and the matrices that belong to it."""
        return pencil.analyse(self.system.A, self.system.B)


def galerkin(problem: RandomDAE, basis: Basis, times: np.ndarray) -> Coupled:
    """The Galerkin system; matrices that are not multi-affine in the parameters are integrated numerically."""
    if not problem.linear:
        return _nonlinear_galerkin(problem, basis)
    A, off_A = _projected(problem, basis, problem.dependence.mass_terms, problem.systems.masses)
    minus_B, off_B = _projected(problem, basis, problem.dependence.matrix_terms, problem.systems.matrices)
    forcing, off_s = projected_forcing(problem, basis, times)
    start, off_x = projected_start(problem, basis)
    return Coupled(Linear(A, -minus_B, forcing), start.reshape(1, -1), max(off_A, off_B, off_s, off_x))


def collocation(problem: RandomDAE, basis: Basis, points: np.ndarray, times: np.ndarray) -> Coupled:
    """The collocation system (9) at as many points as the basis has terms."""
    C = collocation_matrix(basis, points)
    A, B, n = problem.systems.masses(points), -problem.systems.matrices(points), problem.n
    starts = np.linalg.solve(C, problem.systems.starts(points))

    def blocks(stack: np.ndarray) -> Any:
        return scipy.sparse.csr_array(np.einsum("li,lab->laib", C, stack).reshape(len(C) * n, -1))

    forcing = problem.systems.forcing(points, times)

    def values(t: np.ndarray) -> np.ndarray:
        s = forcing.values(t)
        s = np.broadcast_to(s[:, None], (len(t), len(C), n)) if s.ndim == 2 else s
        return s.reshape(len(t), -1)

    refuse_too_large(float(len(C) * n) ** 2, "collocation: the coupled system", "Leave coupled=False: it is the same.")
    return Coupled(Linear(blocks(A), blocks(B), Forcing(values, np.arange(len(C) * n))), starts.reshape(1, -1), 0.0)


def collocation_matrix(basis: Basis, points: np.ndarray) -> np.ndarray:
    """The matrix C = (Φ_i(p_l)) of all terms at all points; a singular one is refused."""
    if points.shape != (len(basis), len(basis.laws)):
        raise ValueError(
            f"nodes: collocation in {len(basis)} terms needs as many points of {len(basis.laws)} parameters, got an "
            f"array of shape {points.shape}"
        )
    C = basis.evaluate(points)
    if not np.linalg.cond(C) < 1e12:
        raise ValueError(
            "nodes: the matrix (Φ_i(p_l)) is singular: these points do not determine a polynomial of the basis"
        )
    return C


def collocation_points(basis: Basis) -> np.ndarray:
    """The Gauss nodes for a tensor basis; else as many of them as there are terms, chosen to span the largest volume
    (approximate Fekete points, by a pivoted QR factorisation).
    """
    grid = grids.tensor(basis.laws, basis.degree + 1)
    if basis.kind == "tensor":
        return grid.points
    columns = basis.evaluate(grid.points) * np.sqrt(grid.weights)[:, None]
    chosen = scipy.linalg.qr(columns.T, mode="economic", pivoting=True)[2][: len(basis)]
    return grid.points[np.sort(chosen)]


# --- projections --------------------------------------------------------------------------------------------------


def kronecker(basis: Basis, terms: Mapping[tuple[int, ...], Any]) -> Any:
    """Sum the Kronecker products T_S ⊗ F_S over all sets S of parameters, as one sparse matrix."""
    rows, columns, values, n = [], [], [], next(iter(terms.values())).shape[0]
    for S, F in terms.items():
        T, F = basis.product(S), scipy.sparse.coo_array(F)
        (i, l), (a, b) = T.coords, F.coords
        rows.append(np.add.outer(i * n, a).ravel())
        columns.append(np.add.outer(l * n, b).ravel())
        values.append(np.multiply.outer(T.data, F.data).ravel())
    data = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    whole = scipy.sparse.csr_array(data, (len(basis) * n, len(basis) * n))
    whole.sum_duplicates()
    whole.eliminate_zeros()
    return whole


def _projected(problem: RandomDAE, basis: Basis, terms: MultiAffine | None, at: Any) -> tuple[Any, float]:
    if terms is not None:
        return kronecker(basis, terms.terms), 0.0

    def integral(grid: grids.Nodes) -> np.ndarray:
        values, phi = at(grid.points), basis.evaluate(grid.points)
        return np.einsum("k,ki,kl,kab->ialb", grid.weights, phi, phi, values, optimize=True)

    def rounding(grid: grids.Nodes) -> np.ndarray:
        """The rounding of each integral: that of its sum, whose terms are products of four rounded numbers."""
        values, phi = np.abs(at(grid.points)), np.abs(basis.evaluate(grid.points))
        sizes = np.einsum("k,ki,kl,kab->ialb", np.abs(grid.weights), phi, phi, values, optimize=True)
        return (len(values) + 4) * np.finfo(float).eps * sizes

    size = len(basis) * problem.n
    pair = quadratures(problem, basis)
    refuse_too_large(4.0 * size**2 + 2.0 * len(pair[0].weights) * problem.n**2 * len(basis),
                     f"Galerkin: the dense projection of size {size}", "Take a lower degree.")  # fmt: skip
    fine, coarse = (integral(grid) for grid in pair)
    off = np.abs(fine - coarse).max() / max(np.abs(fine).max(), np.finfo(float).tiny)
    fine[np.abs(fine) <= rounding(pair[0])] = 0.0
    return scipy.sparse.csr_array(fine.reshape(size, size)), float(off)


def quadratures(problem: RandomDAE, basis: Basis) -> tuple[grids.Nodes, grids.Nodes]:
    """Two grids for integrals that are not known in closed form; their difference tells the error of the coarser."""
    laws = split_laws(problem)
    most = int((MOST_NODES / grids.piece_count(laws)) ** (1.0 / len(laws)) + 1e-9)
    fine = min(2 * basis.degree + 2 * FINER, most)
    if fine < basis.degree + 2:
        return grids.smolyak(laws, basis.degree + 2), grids.smolyak(laws, basis.degree + 1)
    return grids.tensor(laws, fine), grids.tensor(laws, fine - 1)


def split_laws(problem: RandomDAE) -> list[Any]:
    """The distributions of the parameters as integrals are taken over them: split at the kinks."""
    return grids.split(problem.distributions, problem.parameters, problem.kinks)


def projected_forcing(problem: RandomDAE, basis: Basis, times: np.ndarray) -> tuple[Forcing, float]:
    """Project the forcing, <s(t, p) Φ_l>: only the blocks l that are not zero, and the error of the integrals."""
    sets, n = problem.dependence.source_terms(times), problem.n
    if sets is not None:
        weights = first_columns(basis, sets)
        used = np.flatnonzero(np.abs(weights).max(axis=0) > 0.0)

        def parts(t):
            values = problem.dependence.source_parts(t, sets)
            return np.einsum("sl,tsn->tln", weights[:, used], values).reshape(len(t), -1)

        return Forcing(parts, np.add.outer(used * n, np.arange(n)).ravel()), 0.0
    fine, coarse = quadratures(problem, basis)

    def integral(grid: grids.Nodes, t: np.ndarray) -> np.ndarray:
        phi = basis.evaluate(grid.points) * grid.weights[:, None]
        return np.einsum("kl,tkn->tln", phi, problem.systems.forcing(grid.points, times).values(t)).reshape(len(t), -1)

    look = times[np.unique(np.linspace(0, len(times) - 1, 5).astype(int))]
    a, b = integral(fine, look), integral(coarse, look)
    off = np.abs(a - b).max() / max(np.abs(a).max(), np.finfo(float).tiny)
    return Forcing(lambda t: integral(fine, t), np.arange(len(basis) * n)), float(off)


def projected_start(problem: RandomDAE, basis: Basis) -> tuple[np.ndarray, float]:
    """Project the start, <x_0(p) Φ_l>: (terms, n), and the error of the integrals."""
    terms = problem.dependence.start_terms
    if terms is not None:
        return np.einsum(
            "sl,sn->ln", first_columns(basis, list(terms.terms)), np.stack(list(terms.terms.values()))
        ), 0.0
    values = []
    for grid in quadratures(problem, basis):
        values.append((basis.evaluate(grid.points) * grid.weights[:, None]).T @ problem.systems.starts(grid.points))
    off = np.abs(values[0] - values[1]).max() / max(np.abs(values[0]).max(), np.finfo(float).tiny)
    return values[0], float(off)


def first_columns(basis: Basis, sets: list[tuple[int, ...]]) -> np.ndarray:
    """Project the products of parameters of each set S, <Π_(j ∈ S) (p_j - mean_j) Φ_l>: (sets, terms)."""
    return np.stack([basis.product(S).tocsc()[:, [0]].toarray()[:, 0] for S in sets])


def _nonlinear_galerkin(problem: RandomDAE, basis: Basis) -> Coupled:
    """The nonlinear Galerkin system M V' = <f(t, Σ v_i Φ_i, p) Φ_l>, projected by the Gauss rule with two more nodes
    per parameter than the degree."""
    n, P = problem.n, len(basis)
    refuse_too_large(4.0 * (P * n) ** 2, f"Galerkin: the dense Jacobian of size {P * n}", "Take a lower degree.")
    grid = grids.tensor(split_laws(problem), basis.degree + 2)
    phi = basis.evaluate(grid.points)
    weighted = phi * grid.weights[:, None]
    inner = problem.systems.system(grid.points, np.zeros(1))
    assert isinstance(inner, Nonlinear)
    mass, off = _projected(problem, basis, problem.dependence.mass_terms, problem.systems.masses)

    def f(t: np.ndarray, V: np.ndarray) -> np.ndarray:
        x = np.einsum("ki,sin->skn", phi, V.reshape(len(t), P, n))
        return np.einsum("kl,skn->sln", weighted, inner.f(t, x)).reshape(V.shape)

    def jacobian(t: float, V: np.ndarray) -> np.ndarray:
        x = phi @ V.reshape(P, n)
        J = np.einsum("kl,ki,kab->laib", weighted, phi, inner.jacobian(t, x), optimize=True)
        return J.reshape(1, P * n, P * n)

    start, off_x = projected_start(problem, basis)
    return Coupled(Nonlinear(mass.toarray()[None], f, jacobian), start.reshape(1, -1), max(off, off_x))
