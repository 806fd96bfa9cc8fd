"""Pulch (2012), section 3.2: when quadrature, collocation and Galerkin are the same, and how they differ otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes
from stodyn.engine.simulate import simulate
from stodyn.methods.expansions import Collocation, Galerkin, Quadrature
from stodyn.models.miller_integrator import MILLER_INTEGRATOR
from stodyn.noise.distribution import Uniform
from stodyn.numerics import radau
from stodyn.statistics.surrogate import Surrogate
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.miller import END, exact_coefficients
from stodyn.studies.papers import PULCH

STEPS = 100
MADE: dict[str, Any] = {"T": END, "h": END / STEPS}  # s
TETRAHEDRON = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3.0)


def coefficients(method) -> np.ndarray:
    run = simulate(
        MILLER_INTEGRATOR.problem, method(diagnose=False), t=(0.0, END), dt=END / STEPS, collect=Surrogate(every=1)
    )
    return run["coefficient"].values


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest value of each component."""
    return float(np.abs((a - b) / np.abs(b).max(axis=(0, 2), keepdims=True)).max())


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    problem, rows = MILLER_INTEGRATOR.problem, []
    times = np.linspace(0.0, END, STEPS + 1)
    degrees = size.of((1,), (1, 2, 3), (1, 2, 3))
    for R in degrees:
        progress(f"degree {R}")
        basis, rule = bases.make("tensor", problem.distributions, R), nodes.tensor(problem.distributions, R + 1)
        C = basis.evaluate(rule.points)
        defect = np.abs(C.T @ (rule.weights[:, None] * C) - np.eye(len(basis))).max()
        rows.append(Row(f"N_{R}: |C'WC - I|", 0, float(defect), remark="Lemma 2"))
        rows.append(Row(f"N_{R}: condition of C", None, float(np.linalg.cond(C)), remark="Lemma 1 needs it finite"))
        quadrature = coefficients(Quadrature(degree=R, basis="tensor"))
        collocated = coefficients(Collocation(degree=R))
        rows.append(
            Row(f"N_{R}: collocation - quadrature", 0, apart(collocated, quadrature), remark="Theorem 1", **MADE)
        )
        whole = coupled.galerkin(problem, basis, times)
        states = radau.prescribed(whole.system, times, whole.start)[0][:, 0].reshape(len(times), len(basis), -1)
        off = apart(np.moveaxis(states, 1, 2), quadrature)
        rows.append(Row(f"N_{R}: Galerkin, coupled - quadrature", 0, off, remark="Theorem 2, Corollary 1", **MADE))
        if R < 3 or size is Size.FULL:
            progress(f"indices for degree {R}")
            rows.append(Row(f"N_{R}: index of the Galerkin system", 2, whole.pencil().index, remark="Corollary 3"))
            collocation = coupled.collocation(problem, basis, rule.points, times).pencil()
            rows.append(Row(f"N_{R}: index of the collocation system", 2, collocation.index, remark="Corollary 2"))
    progress("indices on M_R")
    for R in (*degrees, degrees[-1] + 1):
        basis = bases.make("total", problem.distributions, R)
        pencil = coupled.galerkin(problem, basis, times).pencil()
        rows.append(Row(f"M_{R}: index of the Galerkin system", 2, pencil.index, remark="no corollary; computed"))
    progress("accuracy at equal size")
    for R in degrees:
        exact = exact_coefficients(times, R, 8)
        for label, method in (
            ("Galerkin", Galerkin(degree=R)),
            ("collocation", Collocation(degree=R, basis="total")),
            (f"quadrature {R + 1}³", Quadrature(degree=R)),
        ):
            off = apart(coefficients(method), exact)
            rows.append(
                Row(f"M_{R}: {label} - exact coefficients", None, off, remark=f"{exact.shape[2]} terms", **MADE)
            )
    progress("the remark on M_1")
    half = np.array([0.5 * (law.high - law.low) for law in problem.distributions])
    points = problem.center + TETRAHEDRON * half
    basis = bases.make("total", problem.distributions, 1)
    states = radau.prescribed(problem.systems.system(points, times), times, problem.systems.starts(points))[0]
    by_rule = np.einsum("kl,tkn->tnl", basis.evaluate(points) / 4.0, states)
    collocated = coefficients(Collocation(degree=1, basis="total", points=points))
    off = apart(collocated, by_rule)
    rows.append(Row("M_1: collocation - four-node rule of degree 2", 0, off, remark="the remark holds", **MADE))
    off = apart(coefficients(Galerkin(degree=1)), by_rule)
    rows.append(Row("M_1: Galerkin - four-node rule", 0, off, remark="the remark does not hold for Theorem 2", **MADE))
    T = [bases.make("total", (Uniform(-1.0, 1.0),) * 2, 1).product((j,)).toarray() for j in (0, 1)]
    commutator = float(np.linalg.norm(T[0] @ T[1] - T[1] @ T[0], 2))
    rows.append(Row("M_1: ‖T₁T₂ - T₂T₁‖", 0, commutator, remark="1/3: no nodes make these matrices diagonal"))
    return StudyResult(rows)


STUDY = Study(
    "chaos-equivalence",
    PULCH,
    "section 3: when quadrature, collocation and Galerkin are the same",
    "On full tensor spaces the three methods agree to rounding and preserve the index, as the lemmas, theorems and "
    "corollaries say. The remark that this carries over to polynomials of total degree 1 with a rule of four nodes "
    "holds for collocation but not for Galerkin's method, whose matrices do not commute there. At equal size "
    "Galerkin's method is more accurate.",
    run,
    lambda: 30.0,
)
