"""Systems whose index Galerkin's method changes: Pulch (2012), section 3.4, and an affine one on M_R."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy

from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes
from stodyn.noise.distribution import Uniform
from stodyn.problems.random_dae import RandomDAE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import PULCH

TIMES = np.array([0.0, 1.0])
CENTERS, HALF = (-0.5, 0.5), 0.4


def smooth(p: float, center: float) -> float:
    """(1 - ((p - c)/0.4)²)³ inside its support."""
    return max(1.0 - ((p - center) / HALF) ** 2, 0.0) ** 3


def spline(p: float, center: float) -> float:
    """The cubic B-spline on five knots over the same support."""
    knots = center + HALF * np.linspace(-1.0, 1.0, 5)
    value = scipy.interpolate.BSpline.basis_element(knots, extrapolate=False)(p)
    return float(np.nan_to_num(value))


def diagonal(bump: Callable[[float, float], float]) -> RandomDAE:
    """diag(a₁(p), a₂(p)) x' = -x with bumps of disjoint supports: index 1 for every p."""
    kinks = sorted(c + HALF * k for c in CENTERS for k in (-1.0, -0.5, 0.0, 0.5, 1.0))
    return RandomDAE(
        lambda p: np.diag([bump(p["p"], c) for c in CENTERS]), matrix=-np.eye(2), start=[0.0, 0.0],
        params={"p": Uniform(-1.0, 1.0)}, kinks={"p": kinks},
    )  # fmt: skip


def affine(c: float) -> RandomDAE:
    """v' = v + x, y₁ = p₁x, y₂ = p₂y₁, z₁ = p₂x, z₂ = p₁z₁, 0 = c x + J(y₂ - z₂) + v, each of two components: index 1
    for every p, as y₂ = z₂; with products replaced by matrices that do not commute, c x + J(y₂ - z₂) may be singular.
    """
    eye, J, zero = np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros((2, 2))

    def matrix(p):
        a, b = p["p1"] * eye, p["p2"] * eye
        return -np.block([
            [-eye, -eye, zero, zero, zero, zero],
            [zero, -a, eye, zero, zero, zero],
            [zero, zero, -b, eye, zero, zero],
            [zero, -b, zero, zero, eye, zero],
            [zero, zero, zero, zero, -a, eye],
            [eye, c * eye, zero, J, zero, -J],
        ])  # fmt: skip

    mass = np.zeros((12, 12))
    mass[:2, :2] = eye
    params = {name: Uniform(-1.0, 1.0) for name in ("p1", "p2")}
    return RandomDAE(mass, matrix=matrix, start=np.zeros(12), params=params)


def commutator(kind: str, degree: int) -> float:
    """‖T₁T₂ - T₂T₁‖ of two uniform parameters on a basis."""
    basis = bases.make(kind, (Uniform(-1.0, 1.0),) * 2, degree)
    T1, T2 = (basis.product((j,)).toarray() for j in (0, 1))
    return float(np.linalg.norm(T1 @ T2 - T2 @ T1, 2))


def smallest(problem: RandomDAE, degree: int) -> tuple[float, int]:
    """The smallest eigenvalue of Â₁ on polynomials up to that degree, and the index of the Galerkin system."""
    basis = bases.make("total", problem.distributions, degree)
    whole = coupled.galerkin(problem, basis, TIMES)
    A = whole.system.mass.toarray()
    return float(np.linalg.eigvalsh(A[::2, ::2])[0]), whole.pencil().index


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows: list[Row] = []
    degrees = size.of((0, 1), (0, 1, 2, 3, 5, 8), (0, 1, 2, 3, 5, 8))
    decay: dict[str, list[tuple[int, float]]] = {}
    for label, bump in (("smooth bumps", smooth), ("cubic B-splines", spline)):
        progress(label)
        problem = diagonal(bump)
        rows.append(Row(f"{label}: index for every p", 1, problem.domain_index.index))
        decay[label] = []
        for M in degrees:
            value, index = smallest(problem, M)
            decay[label].append((M, value))
            remark = "" if index == 0 else "regular in exact arithmetic, numerically singular"
            rows.append(Row(f"{label}, degree {M}: smallest eigenvalue of Â₁", None, value))
            rows.append(Row(f"{label}, degree {M}: index of the Galerkin system", 0, index, remark=remark))
    problem = diagonal(smooth)
    for M in (1, 2, 3, 5):
        grid = nodes.tensor(problem.distributions, M + 1)
        phi = bases.make("total", problem.distributions, M).evaluate(grid.points)
        A = phi.T @ ((grid.weights * [smooth(x, CENTERS[0]) for x in grid.points[:, 0]])[:, None] * phi)
        remark = f"of {M + 1}: index 1 again; integrate over the supports"
        rows.append(
            Row(f"degree {M}: rank of Â₁ by {M + 1} Gauss nodes", None, int(np.linalg.matrix_rank(A)), remark=remark)
        )
    progress("the affine pencil")
    most, most_tensor = size.of((1, 1), (4, 2), (4, 3))
    for R in range(1, most + 1):
        c = commutator("total", R)
        rows.append(Row(f"M_{R}: ‖T₁T₂ - T₂T₁‖", None, c))
        for space, kind, share in (("M", "total", 1.0), ("M", "total", 0.9), ("N", "tensor", 1.0)):
            if kind == "tensor" and most_tensor < R:
                continue
            problem = affine(share * c)
            pencil = coupled.galerkin(problem, bases.make(kind, problem.distributions, R), TIMES).pencil()
            label = f"{space}_{R}: index of the Galerkin system with {share:g} c"
            rows.append(Row(label, None, pencil.index, remark=str(pencil)))
        rows.append(Row(f"index for every p with c of M_{R}", None, affine(c).domain_index.index))
    return StudyResult(rows, {"fig1": _bumps(), "decay": _decay(decay)})


def _bumps() -> Picture:
    figure, ax = drawing.canvas(size=(7.2, 3.2))
    p = np.linspace(-1.0, 1.0, 401)
    for label, look, bump in (("cubic B-splines", "-", spline), ("smooth bumps", "--", smooth)):
        for number, (style, center) in enumerate(zip(drawing.styles(), CENTERS, strict=False)):
            ax.plot(p, [bump(x, center) for x in p], **style | {"ls": look}, label=f"a{'₁₂'[number]}, {label}")
    ax.set(xlabel="parameter p", ylabel="a₁(p), a₂(p)")
    drawing.legend(figure)
    return Picture(
        figure,
        ("The two entries of the leading matrix: their supports do not overlap, so one of them is zero for every p."),
    )


def _decay(singular_values: dict[str, list[tuple[int, float]]]) -> Picture:
    figure, ax = drawing.canvas(size=(7.2, 3.6))
    for style, (label, points) in zip(drawing.styles(markers=True), singular_values.items(), strict=False):
        degrees, values = zip(*points, strict=True)
        ax.semilogy(degrees, np.abs(values), **style, label=label)
    ax.set(xlabel="degree of the polynomials", ylabel="smallest eigenvalue of Â₁")
    drawing.legend(figure)
    caption = (
        "The smallest eigenvalue of the Galerkin matrix, computed: it is positive for every degree, so the index falls "
        "from 1 to 0, but it is soon too small to be distinguished from zero in floating-point arithmetic."
    )
    return Picture(figure, caption)


STUDY = Study(
    "index-counterexample",
    PULCH,
    "sections 3.4 and 5: systems whose index Galerkin's method changes",
    "Pulch's example has index 1 for every p and index 0 after Galerkin's method, as he says; the eigenvalue that "
    "decides this falls below rounding at degree 8. The study goes beyond the paper: even an affine dependence on p, "
    "the simplest, does not protect the index; here it rises from 1 to 2 on polynomials of total degree.",
    run,
    lambda: 40.0,
)
