"""Küpper, Kværnø & Rößler, Fig. 5: mean-square errors of stiffly accurate Runge-Kutta methods on a linear SDAE."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stodyn.engine.follow import States, followed
from stodyn.engine.spec import describe
from stodyn.methods import stiff
from stodyn.methods.contract import Method
from stodyn.models.catalogue import Model
from stodyn.models.differential_algebraic import LINEAR_DAE
from stodyn.plot import GREY, PALETTE
from stodyn.studies.contract import Row, Size, Study, StudyResult

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


def convergence(model: Model, figure: str, size: Size, progress: Callable[[str], None]) -> StudyResult:
    """Errors and slopes of the seven methods on a model: the paper's ten step sizes, or the first of them."""
    fine = increments(size.of(40, PATHS, PATHS))
    halvings = range(size.of(4, 7, 10))
    rows, found = [], {}
    for method in METHODS[: size.of(2, 7, 7)]:
        progress(method.name)
        squares = squared_errors(method, model, fine, halvings)
        errors = found[method.name] = np.sqrt(squares.mean(axis=1))
        order, last, spread = ORDERS.get(method.name, 1.0), slope(errors, 4), slope_error(squares[-4:])
        rows.append(Row(f"{method.name}: slope over the last four steps", order, last, spread))
        for halving in (halvings[0], halvings[-1]):
            rows.append(Row(f"{method.name}: error at h = 2^-{4 + halving}", None, errors[halving], remark=figure))
    return StudyResult(rows, {figure.replace(" ", "").replace(".", ""): drawn(found, model.name)})


def drawn(found: Mapping[str, np.ndarray], title: str) -> Any:
    """Errors against step sizes, as the paper draws them."""
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
    for k, (name, errors) in enumerate(found.items()):
        h = END / 2.0 ** np.arange(len(errors))
        ax.loglog(h, errors, marker="o", base=2, ms=3, lw=1, color=PALETTE[k % len(PALETTE)], label=name,
                  ls="-" if k < len(PALETTE) else "--")  # fmt: skip
    ax.loglog(h, 1.5 * max(errors[0] for errors in found.values()) * h / h[0], ":", base=2, color=GREY, label="order 1")
    ax.set(xlabel="step size h", ylabel="mean-square error", title=title)
    ax.legend(frameon=False, fontsize="small")
    return figure


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    return convergence(LINEAR_DAE, "Fig. 5", size, progress)


STUDY = Study(
    "sdae-linear",
    "Küpper, Kværnø & Rößler (2012), Fig. 5: errors on a linear SDAE of index 1",
    run,
    lambda: 60.0,
)
