"""Küpper, Kværnø & Rößler, Fig. 5: root mean square errors of stiffly accurate Runge-Kutta methods on a linear SDAE."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from stodyn.engine.follow import States, followed
from stodyn.engine.spec import describe
from stodyn.methods import stiff
from stodyn.methods.contract import Method
from stodyn.models.catalogue import Model
from stodyn.models.differential_algebraic import LINEAR_DAE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KUPPER

METHODS = (stiff.ImplicitEuler, stiff.Trapezoidal, stiff.RK1W1, stiff.RK1W2, stiff.RK1W3, stiff.RK1W4, stiff.RK1W5)
END, FINEST, PATHS, SEED = 2.0**-4, 512, 2000, 12345
ORDERS = {"ImplicitEuler": 0.5, "Trapezoidal": 0.5}


def increments(paths: int = PATHS, steps: int = FINEST) -> np.ndarray:
    """The increments (paths, steps) of the finest step."""
    return np.random.default_rng(SEED).standard_normal((paths, steps)) * np.sqrt(END / steps)


def squared_errors(method: Method, model: Model, fine: np.ndarray, halvings: Sequence[int] = range(10)) -> np.ndarray:
    """|x_h - x|² at the end (halvings, paths) for h = END/2^k, k in halvings, on the paths whose fine increments
    (paths, steps) are given; a longer step sums its neighbours."""
    paths = len(fine)
    exact, errors = model.exact["solution"](END, fine.sum(axis=1, keepdims=True)), []
    once = describe(model.problem, method, (0.0, END), END, States(at=[END]), "float64")  # all steps are alike
    for halving in halvings:
        count = 2**halving
        normals = fine.reshape(paths, count, -1).sum(axis=2).T[:, None] / np.sqrt(END / count)
        times, lengths = np.linspace(0.0, END, count + 1), np.full(count, END / count)
        spec = dataclasses.replace(once, times=times, lengths=lengths, saves=(np.array([count]),))
        errors.append(np.sum((followed(spec, paths, {"W": normals})[-1].T - exact) ** 2, axis=1))
    return np.array(errors)


def strong_errors(method: Method, model: Model, fine: np.ndarray, halvings: Sequence[int] = range(10)) -> np.ndarray:
    """√E|x_h - x|² of `squared_errors`."""
    return np.sqrt(squared_errors(method, model, fine, halvings).mean(axis=1))


def slope(errors: np.ndarray, last: int | None = None) -> float:
    """The least-squares slope of log₂ error against log₂ h, h halved from each to the next."""
    used = errors[-last:] if last else errors
    return -float(np.polyfit(np.arange(len(used)), np.log2(used), 1)[0])


def slope_error(squares: np.ndarray, groups: int = 20) -> float:
    """The standard error of the slope, from groups of the paths of squared errors (halvings, paths)."""
    slopes = [slope(np.sqrt(part.mean(axis=1))) for part in np.array_split(squares, groups, axis=1)]
    return float(np.std(slopes, ddof=1) / np.sqrt(groups))


def convergence(model: Model, what: str, figure: str, size: Size, progress: Callable[[str], None]) -> StudyResult:
    """Errors and slopes of the seven methods on a model: the paper's ten step sizes, or the first of them."""
    fine = increments(size.of(40, PATHS, PATHS))
    halvings = range(size.of(4, 7, 10))
    rows, results = [], {}
    for method in METHODS[: size.of(2, 7, 7)]:
        progress(method.name)
        squares = squared_errors(method, model, fine, halvings)
        errors = results[method.name] = np.sqrt(squares.mean(axis=1))
        order, last, spread = ORDERS.get(method.name, 1.0), slope(errors, 4), slope_error(squares[-4:])
        finest = f"2^-{4 + halvings[-4]} to 2^-{4 + halvings[-1]}"
        rows.append(
            Row(f"{method.name}: slope over the last four steps", order, last, spread, "", END, finest, len(fine))
        )
        for halving in (halvings[0], halvings[-1]):
            h, deviation = END / 2.0**halving, float(np.std(squares[halving], ddof=1))
            stderr = deviation / np.sqrt(len(fine)) / (2.0 * errors[halving])
            rows.append(
                Row(
                    f"{method.name}: rms error at h = 2^-{4 + halving}",
                    None,
                    errors[halving],
                    stderr,
                    figure,
                    END,
                    h,
                    len(fine),
                )
            )
    name = figure.replace(" ", "").replace(".", "").lower()
    return StudyResult(rows, {name: error_picture(results, what, len(fine))})


def error_picture(results: Mapping[str, np.ndarray], what: str, paths: int) -> Picture:
    """Errors against step sizes, as the paper draws them."""
    figure, ax = drawing.canvas(size=(7.6, 4.6))
    for style, (name, errors) in zip(drawing.styles(markers=True), results.items(), strict=False):
        h = END / 2.0 ** np.arange(len(errors))
        hollow = {"mfc": "none", "ms": 8, "lw": 0} if name == "RK1W3" else {}  # it lies on RK1W2
        ax.plot(h, errors, **style | hollow, label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    drawing.slope_guide(ax, h, 0.5, 1.5 * max(errors[0] for errors in results.values()))
    drawing.slope_guide(ax, h, 1.0, 0.6 * min(errors[0] for errors in results.values()))
    ax.set(xlabel="step h", ylabel="root mean square error at T")
    drawing.legend(figure)
    caption = (
        f"{what}: √E|x_h - x|² at T = {END:g} against the exact solution, {paths} paths, the same for all methods and "
        "steps; dotted lines have the orders written beside them. RK1W3 is drawn as hollow markers where it may lie "
        "on RK1W2."
    )
    return Picture(figure, caption)


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    return convergence(LINEAR_DAE, "The linear SDAE of index 1 (example 1)", "Fig. 5", size, progress)


STUDY = Study(
    "sdae-linear",
    KUPPER,
    "Fig. 5: errors on a linear SDAE of index 1",
    "The orders are those of the paper: 1/2 for implicit Euler and the trapezoidal rule, 1 for the others; and RK1W4 "
    "has the smallest errors. RK1W2 and RK1W3 have the same errors here. The printed matrix B of the example has five "
    "rows; the repeated row is left out.",
    run,
    lambda: 60.0,
)
