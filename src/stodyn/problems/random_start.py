"""The start of M(p) x' = f(t, x, p) and its constraints: whether it fits them, and where the solution jumps if not.

At parameters p the pencil λM - A splits a linear system into equations that determine derivatives and equations that
determine values. A start that contradicts the latter jumps at once to one that fits, and an index above 1 adds impulses
δ(t), δ'(t), ... of its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stodyn.problems import pencil
from stodyn.problems.index import split

INDEX_LIMIT = 400  # components up to which an index is computed


class Jumped:
    """start(p): where the solution jumps to."""

    def __init__(self, problem: Any, t: float, dt: float):
        self.problem, self.t, self.dt = problem, t, dt

    def __call__(self, p: Mapping[str, float]) -> np.ndarray:
        random = np.array([p[name] for name in self.problem.parameters])
        return start_report(self.problem, random, self.t, self.dt).x


def start_report(problem: Any, p: np.ndarray, t: float, dt: float) -> pencil.Start:
    """The effect of the start of a linear system at one parameter: consistent value, jump and impulses."""
    report = problem.pencil_at(p)
    sources = derivatives(lambda s: problem.source_at(s, p), t, 4.0 * dt, report.index)
    return report.start(problem.start_at(p), sources)


def check_start(problem: Any, t: float, dt: float) -> str:
    """Describe how the start fits the constraints at the mean parameters; refuse one that would cause an impulse."""
    if problem.n > INDEX_LIMIT:
        return f"not checked: {problem.n} components are too many"
    if not problem.linear:
        return _check_nonlinear_start(problem, t)
    report = start_report(problem, problem.center, t, dt)
    pencil = problem.pencil_at()
    c, names = pencil.scaling.columns, problem.components
    bad = np.flatnonzero(report.moved)
    if not len(bad):
        return "consistent"
    jumps = ", ".join(f"{names[i]} by {report.jump[i]:.4g}" for i in bad.tolist())
    if report.harmless:
        return f"the first step moves {jumps}; nothing else changes"
    impulses = [
        f"{names[i]}: {row[i]:.4g} δ{chr(39) * j}(t)"
        for j, row in enumerate(report.impulses)
        for i in np.flatnonzero(np.abs(row / c) > 1e-9 * np.abs(row / c).max(initial=1e-300)).tolist()
    ]
    raise ValueError(
        f"start: does not satisfy the constraints. The solution would jump ({jumps})"
        + (f" and show impulses ({'; '.join(impulses)})" if impulses else "")
        + f". Give a start with {', '.join(w.in_words(names) for w in pencil.constraints)}, or take "
        "problem.consistent(t, dt), the value it jumps to."
    )


def _check_nonlinear_start(problem: Any, t: float) -> str:
    system = problem.systems.nonlinear(problem.center[None])
    constraints = split(system.mass[0]).N
    if not len(constraints):
        return "consistent"
    x = problem.start_at(problem.center)
    residual = np.abs(constraints @ system.f(np.array([t]), x[None, None])[0, 0])
    size = np.abs(constraints) @ (
        np.abs(system.jacobian(t, x[None])[0]) @ (np.abs(x) + 1e-3 * np.abs(x).max(initial=1.0))
    )
    if np.any(residual > 1e-6 * np.maximum(size, 1e-300)):
        raise ValueError(
            f"start: the algebraic equations have the residuals {np.array2string(residual, precision=3)} there, "
            "expected 0. Solve them for the algebraic components first."
        )
    return "consistent with the algebraic equations"


def derivatives(function: Callable[[float], np.ndarray], t: float, span: float, count: int) -> np.ndarray:
    """function and its derivatives at t, (count, n), from its polynomial of degree 10 over [t, t + span]."""
    degree = 10
    places = 0.5 * (1.0 - np.cos(np.pi * np.arange(degree + 1) / degree))
    values = np.stack([function(t + span * place) for place in places])
    fit = np.polynomial.Chebyshev.fit
    rows = []
    for column in values.T:
        polynomial = fit(places, column, degree, domain=[0.0, 1.0])
        rows.append([polynomial.deriv(j)(0.0) / span**j if j else column[0] for j in range(max(count, 1))])
    return np.array(rows).T
