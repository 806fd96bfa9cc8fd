"""Polynomial chaos: the solution as x = Σ_i v_i(t) Φ_i(p) in orthonormal polynomials of the random parameters.

Quadrature   v_i = Σ_k w_k x(t, p_k) Φ_i(p_k) over a Gauss or sparse grid
Sampling     the same over random or quasi-random points, or the least-squares fit through them
Collocation  the polynomial through the solutions at as many points as there are terms
Galerkin     a residual orthogonal to every term: one large sparse system for all coefficients
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes, regression, sampled
from stodyn.chaos.basis import Basis
from stodyn.chaos.bends import bends
from stodyn.chaos.compared import compared
from stodyn.chaos.expansion import Series
from stodyn.chaos.memory import refuse_too_large
from stodyn.hints import is_integer
from stodyn.methods.contract import Expanded, Expansion
from stodyn.methods.radau import integrate, states_at
from stodyn.numerics.radau import Forcing
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.random_start import INDEX_LIMIT, check_start
from stodyn.telling import tell

CITATION = (
    "R. Pulch, Stochastic collocation and stochastic Galerkin methods for linear differential algebraic equations, "
    "J. Comput. Appl. Math. 262 (2014)"
)
COUPLED_LIMIT = 700  # the most unknowns of a coupled system whose index is computed
CHECKS, FEWER_CHECKS = 128, 16  # other parameters at which an expansion is compared with the solution: all are solved
# at once, or where systems are large and sparse one after another


@dataclasses.dataclass(frozen=True)
class _Chaos(Expansion):
    """The common part of the four expansions; _Galerkin explains the options."""

    degree: int = 3
    basis: str = "total"
    order: int = 5
    rtol: float | None = None
    diagnose: bool = True

    accepts = RandomDAE
    splits_at_kinks: ClassVar[bool] = True  # whether integrals over the parameters are taken piece by piece
    calculus = None
    citation = CITATION
    claims = ()

    def refusal(self, problem) -> str | None:
        if not problem.parameters:
            return f"{self.name} expands in random parameters, but this problem has none"
        return None

    def _begin(self, problem: RandomDAE, times: np.ndarray, saved: np.ndarray) -> tuple[Basis, dict[str, Any]]:
        basis = bases.make(self.basis, problem.distributions, self.degree)
        refuse_too_large(
            3.0 * len(basis) * problem.n * len(saved),
            f"collect: {len(basis)} terms of {problem.n} components at {len(saved)} times",
            "Keep fewer times, or a lower degree.",
        )
        if problem.kinks and not self.splits_at_kinks:
            tell(
                f"kinks: {self.name} takes no integrals that could be split at the kinks of "
                f"{', '.join(problem.kinks)}, which change nothing here. Quadrature and Galerkin split theirs."
            )
        record: dict[str, Any] = {"basis": basis.spelling, "structure": problem.structure}
        if self.diagnose:
            record["index"] = self._checked_index(problem)
            record["start"] = check_start(problem, float(times[0]), float(times[1] - times[0]))
        return basis, record

    def _expanded(self, problem: RandomDAE, basis: Basis, coefficients: np.ndarray, times, saved, record) -> Expanded:
        """The expansion with these coefficients, compared with the solution at parameters that had no part in it."""
        series = Series(basis, coefficients)
        if self.diagnose:
            checks = FEWER_CHECKS if problem.systems.is_sparse else CHECKS
            points, weights, _ = nodes.independent(problem.distributions, checks)
            states = states_at(problem, points, times, self.order, self.rtol)[saved]
            solved = np.isfinite(states).all(axis=(0, 2))
            share = weights[solved] / max(weights[solved].sum(), np.finfo(float).tiny)
            solution = np.moveaxis(states[:, solved], 1, 0)
            comparison = compared(coefficients, solution, series.evaluate(points[solved]), share)
            series = dataclasses.replace(series, compared=comparison)
            if series.may_bend:
                series = dataclasses.replace(series, bends=bends(problem, times))
        return Expanded(problem.parameters, series, record)

    @staticmethod
    def _checked_index(problem: RandomDAE) -> str:
        if problem.n > INDEX_LIMIT:
            return f"not computed: {problem.n} components"
        domain = problem.domain_index
        if domain.index is None:
            raise ValueError(
                f"params: the index of the system changes inside the domain of the parameters: {domain.words}. "
                "Polynomials of the parameters do not converge to such a solution; take narrower distributions, or "
                "pass diagnose=False and check the result with care."
            )
        return domain.words


@dataclasses.dataclass(frozen=True)
class _Quadrature(_Chaos):
    """Coefficients by quadrature over a Gauss or sparse grid: v_i = Σ_k w_k x(t, p_k) Φ_i(p_k).

    For few parameters and a smooth solution. Exact where x Φ_i is a polynomial that the rule integrates exactly. All
    nodes are integrated as one batch.

    Parameters
    ----------
    degree, basis, order, rtol, diagnose
        As for Galerkin.
    nodes : int, optional
        The number of Gauss nodes per parameter, and per piece between its kinks (degree + 1 by default), or the level
        of Smolyak's grid.
    grid : "tensor" or "smolyak"
        The tensor product of Gauss rules, or Smolyak's sparse grid.
    """

    nodes: int | None = None
    grid: str = "tensor"
    name = "Quadrature"

    def expand(self, problem, times, saved, seed):
        basis, record = self._begin(problem, times, saved)
        count = self.nodes
        if count is not None and not is_integer(count):
            raise ValueError(f"nodes: expected a whole number >= 1, got {count!r}")
        laws = coupled.split_laws(problem)
        if self.grid == "tensor":
            grid = nodes.tensor(laws, count or self.degree + 1)
        elif self.grid == "smolyak":
            grid = nodes.smolyak(laws, self.degree if count is None else count)
        else:
            raise ValueError(f'grid: expected "tensor" or "smolyak", got {self.grid!r}')
        states = _solve(self, problem, grid.points, times, saved)
        record["nodes"] = grid.spelling
        return self._expanded(problem, basis, _projected(basis, grid, states), times, saved, record)


@dataclasses.dataclass(frozen=True)
class _Sampling(_Chaos):
    """Coefficients from solutions at sampled parameters: random or quasi-random, drawn with the seed of the run.

    Parameters
    ----------
    degree, basis, order, rtol, diagnose
        As for Galerkin.
    samples : int
        The number of samples.
    points : "sobol" or "random"
        Quasi-random or random points.
    fit : "projection" or "regression"
        "projection": v_i is the mean of x Φ_i, for any number of samples. "regression": least squares, for smooth
        dependence on many parameters; it chooses the degree, at most `degree`, that best predicts samples left out.

    Notes
    -----
    The mean and the standard deviation of the result are not those of the expansion, which leaves out terms, but of the
    samples: with "projection" simply theirs, with "regression" those of the fit plus what it misses at samples left out
    one at a time, which is more accurate where the fit is good. Their standard errors are those of independent samples;
    the errors of quasi-random ones are smaller as a rule.
    """

    samples: int = 1024
    points: str = "sobol"
    fit: str = "projection"
    name = "Sampling"
    draws = True
    splits_at_kinks = False

    def expand(self, problem, times, saved, seed):
        if self.points not in ("sobol", "random") or self.fit not in ("projection", "regression"):
            raise ValueError(
                f'points, fit: expected "sobol" or "random" and "projection" or "regression", got {self.points!r} and '
                f"{self.fit!r}"
            )
        if not is_integer(self.samples, 2):
            raise ValueError(f"samples: expected a whole number >= 2, got {self.samples!r}")
        basis, record = self._begin(problem, times, saved)
        laws = problem.distributions
        if self.points == "sobol":
            grid = nodes.sobol(laws, self.samples, seed)
        else:
            grid = nodes.random(laws, self.samples, np.random.default_rng(seed))
        states = _solve(self, problem, grid.points, times, saved)
        record |= {"nodes": grid.spelling, "seed": seed}
        values = np.moveaxis(states, 1, 0)
        if self.fit == "projection":
            fit = regression.projected(basis, grid.points, values)
            moments = sampled.of_samples(values, fit.left_out)
        else:
            fit = regression.selected(self.basis, laws, self.degree, grid.points, values)
            moments = sampled.with_control(values, fit.coefficients, fit.off)
            record["basis"] = f"{fit.basis.spelling}, chosen by cross-validation"
        return Expanded(problem.parameters, Series(fit.basis, _terms_last(fit.coefficients), moments), record)


@dataclasses.dataclass(frozen=True)
class _Collocation(_Chaos):
    """The polynomial through the solutions at as many points as terms: v = C⁻¹ x(t, p_l), C = (Φ_i(p_l)).

    On the tensor basis with Gauss nodes it is the same as Quadrature.

    Parameters
    ----------
    degree, basis, order, rtol, diagnose
        As for Galerkin.
    points : array (terms, Q), optional
        One row per point. By default the Gauss nodes for a tensor basis, and a well-spread choice of them for others.
    coupled : bool
        Solve the coupled system (9) in place of the independent ones: the same result at a higher cost.
    """

    basis: str = "tensor"
    points: Any = None
    coupled: bool = False
    name = "Collocation"
    splits_at_kinks = False

    def expand(self, problem, times, saved, seed):
        basis, record = self._begin(problem, times, saved)
        points = coupled.collocation_points(basis) if self.points is None else np.asarray(self.points, float)
        C = coupled.collocation_matrix(basis, points)
        record |= {"nodes": f"{len(points)} points", "condition": float(np.linalg.cond(C))}
        if not self.coupled:
            states = _solve(self, problem, points, times, saved)
            coefficients = np.linalg.solve(C, np.moveaxis(states, 1, 0).reshape(len(C), -1))
            coefficients = _terms_last(coefficients.reshape(len(C), len(saved), problem.n))
            return self._expanded(problem, basis, coefficients, times, saved, record)
        if not problem.linear:
            raise ValueError("coupled: the coupled collocation system is made for linear problems; leave it False")
        whole = coupled.collocation(problem, basis, points, times)
        record |= _coupled_index(self, whole)
        coefficients = _integrate(self, problem, basis, whole, times, saved)
        return self._expanded(problem, basis, coefficients, times, saved, record)


@dataclasses.dataclass(frozen=True)
class _Galerkin(_Chaos):
    """The stochastic Galerkin method: <residual Φ_l> = 0 for every term, one sparse system for all coefficients.

    Where mass and matrix are multi-affine in the parameters, the system is a sum of Kronecker products of their
    coefficients with matrices from three-term recurrences; otherwise it is integrated numerically, and the record
    states the error. On the tensor basis a multi-affine system decouples at the Gauss nodes (Pulch's Theorem 2) and is
    solved there; the record says which was done. The index of the coupled system, which may differ from that of the
    original system, is computed.

    Parameters
    ----------
    degree : int
        R, the largest degree of the polynomials.
    basis : "total", "tensor" or "cross"
        The set of polynomials: total degree (M_R), tensor product (N_R) or hyperbolic cross.
    order : 3 or 5
        The order of the Radau method that integrates in time.
    rtol : float, optional
        Choose the steps in time by this relative error; without it they are those of the run.
    diagnose : bool
        Before the run, compute the index over the parameters and of coupled systems, and check the start; after it,
        compare the expansion with the solution at 128 other parameters (16 where systems are large and sparse), and
        warn where it misses them by more than a quarter of the standard deviation, or by more than a hundredth
        where functions of the problem bend or jump at values of parameters that are not among their kinks, or where
        its mean or its standard deviation is off by more than a twentieth of the latter.
    """

    name = "Galerkin"

    def expand(self, problem, times, saved, seed):
        basis, record = self._begin(problem, times, saved)
        terms = problem.dependence
        if self.basis == "tensor" and problem.linear and None not in (terms.mass_terms, terms.matrix_terms):
            return self._decoupled(problem, basis, times, saved, record)
        whole = coupled.galerkin(problem, basis, times)
        record |= {"solved": f"coupled, {whole.start.size} unknowns", "projection_error": whole.projection_error}
        record |= _coupled_index(self, whole) if problem.linear else {}
        coefficients = _integrate(self, problem, basis, whole, times, saved)
        return self._expanded(problem, basis, coefficients, times, saved, record)

    def _decoupled(self, problem, basis, times, saved, record):
        """The solution at the Gauss nodes, with source and start projected onto the basis as in Galerkin's method."""
        grid = nodes.tensor(problem.distributions, basis.degree + 1)
        phi = basis.evaluate(grid.points)
        forcing, off_s = coupled.projected_forcing(problem, basis, times)
        start, off_x = coupled.projected_start(problem, basis)
        blocks, n = np.unique(forcing.columns // problem.n), problem.n

        def at_nodes(t, weights):
            return np.einsum("kl,tln->tkn", weights, forcing.values(t).reshape(len(t), -1, n))

        def forcing_at(some: slice) -> Forcing:
            if len(blocks) == 1 and blocks[0] == 0:  # a source without parameters is evaluated once for all nodes
                return forcing
            return Forcing(lambda t: at_nodes(t, phi[some][:, blocks]), np.arange(n))

        states = states_at(problem, grid.points, times, self.order, self.rtol, phi @ start, forcing_at)[saved]
        record |= {"solved": f"decoupled at {grid.spelling}: mass is {record['structure']['mass']} and matrix "
                             f"{record['structure']['matrix']}, the basis a tensor product",
                   "projection_error": max(off_s, off_x)}  # fmt: skip
        if self.diagnose:
            record["coupled_index"] = "that of the systems at the nodes"
        return self._expanded(problem, basis, _projected(basis, grid, states), times, saved, record)


def _solve(method: _Chaos, problem: RandomDAE, points: np.ndarray, times: np.ndarray, saved: np.ndarray) -> np.ndarray:
    """The states at the saved times, (times, points, n)."""
    refuse_too_large(2.0 * len(points) * problem.n * len(times), f"nodes: {len(points)} of {problem.n} components over "
                     f"{len(times)} times", "Take fewer nodes, or longer steps.")  # fmt: skip
    states = states_at(problem, points, times, method.order, method.rtol)[saved]
    bad = np.flatnonzero(~np.isfinite(states).all(axis=(0, 2)))
    if len(bad):
        where = ", ".join(
            f"{name} = {value:.6g}" for name, value in zip(problem.parameters, points[bad[0]], strict=True)
        )
        raise ValueError(f"problem: {len(bad)} of {len(points)} solutions failed, first at {where}. Try smaller steps.")
    return states


def _projected(basis: Basis, grid: nodes.Nodes, states: np.ndarray) -> np.ndarray:
    weighted = basis.evaluate(grid.points) * grid.weights[:, None]
    return np.einsum("kl,tkn->tnl", weighted, states, optimize=True)


def _terms_last(stacked: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(stacked, 0, -1))


def _integrate(method: _Chaos, problem: RandomDAE, basis: Basis, whole: coupled.Coupled, times, saved) -> np.ndarray:
    states = integrate(problem, whole.system, whole.start, times, method.order, method.rtol)[saved, 0]
    if not np.isfinite(states).all():
        raise ValueError("problem: the coupled system could not be solved at some step. Try smaller steps.")
    return np.ascontiguousarray(np.moveaxis(states.reshape(len(saved), len(basis), problem.n), 1, 2))


def _coupled_index(method: _Chaos, whole: coupled.Coupled) -> dict[str, str]:
    if not method.diagnose:
        return {}
    if whole.start.size > COUPLED_LIMIT:
        return {"coupled_index": f"not computed: {whole.start.size} unknowns"}
    return {"coupled_index": str(whole.pencil())}


Quadrature = _Quadrature()
Sampling = _Sampling()
Collocation = _Collocation()
Galerkin = _Galerkin()
