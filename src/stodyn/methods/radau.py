"""Radau IIA for linear and nonlinear differential-algebraic equations with random parameters, many members at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from stodyn.methods.contract import Claim, Solver
from stodyn.numerics import radau
from stodyn.numerics.radau import Forcing
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.random_start import INDEX_LIMIT, check_start

BATCH = 4096  # members that are solved at once


@dataclasses.dataclass(frozen=True)
class _Radau(Solver):
    """Radau IIA collocation: stages x + Z_i with M Σ_j (R⁻¹)_ij Z_j / h = f(t + c_i h, x + Z_i), R its matrix.

    Stiffly accurate and L-stable; for ODEs and for DAEs of index up to 3. With s stages (2 or 3) the order is 2s - 1 in
    differential and index-1 components; in index-2 and index-3 components it is lower, down to s and s - 1. Order 5
    needs one real and one complex factorisation per step length, then n² operations per member and step. Systems of
    more than 64 unknowns are solved one after another with sparse factors, where the Jacobian is sparse.

    Parameters
    ----------
    rtol : float, optional
        Choose the steps so that their relative error is at most rtol; the states at the times of the grid are then read
        off the collocation polynomial, to order s + 1. Without it the steps are those of the grid.
    order : 3 or 5
        The order; Radau3 and Radau5 set it.
    """

    rtol: float | None = None
    order: int = dataclasses.field(default=5, repr=False)

    accepts = RandomDAE
    calculus = None
    citation = "E. Hairer & G. Wanner, Solving Ordinary Differential Equations II (Springer 1996), IV.8, VII.3"

    @property
    def summary(self):
        return f"Radau IIA collocation of order {self.order}"

    @property
    def name(self):
        return f"Radau{self.order}"

    @property
    def claims(self):
        return (Claim("deterministic", float(self.order), source="Hairer & Wanner (1996), IV.5"),)

    def solve(self, problem, grid, start, params, streams):
        nodes = np.empty((len(start), len(problem.distributions)))
        for i, name in enumerate(problem.parameters):
            nodes[:, i] = params[name]
        check_start(problem, float(grid[0]), float(grid[1] - grid[0]))
        return states_at(problem, nodes, grid, self.order, self.rtol)


def states_at(
    problem: RandomDAE,
    nodes: np.ndarray,
    grid: np.ndarray,
    order: int = 5,
    rtol: float | None = None,
    starts: np.ndarray | None = None,
    forcing: Callable[[slice], Forcing] | None = None,
) -> np.ndarray:
    """The states (times, nodes, n) for the values (nodes, Q) of the random parameters.

    Without `starts` and `forcing` the problem gives them for each node.
    """
    systems = problem.systems
    size, starts = (1 if systems.is_sparse else BATCH), (systems.starts(nodes) if starts is None else starts)
    parts = []
    for first in range(0, len(nodes), size):
        some = slice(first, first + size)
        system: Any = (
            systems.sparse_system(nodes[first], grid) if systems.is_sparse else systems.system(nodes[some], grid)
        )
        if forcing is not None:
            system = dataclasses.replace(system, forcing=forcing(some))
        parts.append(integrate(problem, system, starts[some], grid, order, rtol))
    return np.concatenate(parts, axis=1)


def integrate(problem: RandomDAE, system: Any, start: np.ndarray, grid: np.ndarray, order: int, rtol: float | None):
    """The states of a system at the times of the grid, by its steps, or with rtol by steps chosen by their error.

    Components of higher index count less in the error.
    """
    if rtol is None:
        return radau.prescribed(system, grid, start, order)[0]
    small = problem.n <= INDEX_LIMIT
    components = problem.pencil_at(t=float(grid[0])).component_index if small else np.zeros(problem.n)
    powers = np.tile(components, start.shape[-1] // problem.n)
    return radau.controlled(system, grid, start, order, rtol, component_index=powers)[0]


Radau5 = _Radau()
Radau3 = _Radau(order=3)
