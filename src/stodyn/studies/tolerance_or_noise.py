"""How much of the scatter of a noisy oscillator and of a noisy pendulum comes from tolerances, how much from noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.analysis.system.tolerance import split_variance
from stodyn.chaos import nodes
from stodyn.noise.distribution import Normal, Uniform
from stodyn.numerics import van_loan
from stodyn.problems.sde import SDE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import OWN

OSCILLATOR = {"stiffness": Uniform(0.9, 1.1), "damping": Uniform(0.05, 0.15)}
PENDULUM = {"gravity": Normal(9.81, 0.05), "drag": Uniform(0.3, 0.5)}
END = 12.0
PATHS = 4096


def oscillator() -> SDE:
    """x'' = -stiffness x - damping x' + sigma w: from x = 1 at rest."""
    return SDE(
        lambda t, x, p: jnp.stack([x[1], -p["stiffness"] * x[0] - p["damping"] * x[1]]),
        lambda t, x, p: jnp.stack([0.0 * p["sigma"], p["sigma"]])[:, None],
        [1.0, 0.0], {"stiffness": 1.0, "damping": 0.1, "sigma": 0.1}, names=("x", "v"),
    )  # fmt: skip


def pendulum() -> SDE:
    """The pendulum in gusts of the README."""
    return SDE(
        lambda t, x, p: jnp.stack([x[1], -p["gravity"] * jnp.sin(x[0]) - p["drag"] * x[1]]),
        lambda t, x, p: jnp.stack([0.0 * x[1], p["gust"] * (1.0 + jnp.abs(x[1]))])[:, None],
        [2.0, 0.0], {"gravity": 9.81, "drag": 0.4, "gust": 0.1}, names=("angle", "rate"),
    )  # fmt: skip


def exact_split(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two parts of the oscillator's variance of x: exact moments given the parameters, integrated over them."""
    rule = nodes.tensor(tuple(OSCILLATOR.values()), 10)
    mean, variance = np.empty((2, len(times), len(rule.points)))
    for k, (stiffness, damping) in enumerate(rule.points):
        A = np.array([[0.0, 1.0], [-stiffness, -damping]])
        for i, t in enumerate(times):
            Phi, Q = van_loan.discretise(A, np.array([[0.0], [0.1]]), np.eye(1), max(t, 1e-9))
            mean[i, k], variance[i, k] = Phi[0, 0], Q[0, 0]
    center = mean @ rule.weights
    return (mean - center[:, None]) ** 2 @ rule.weights, variance @ rule.weights


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths = size.of(64, PATHS, 16 * PATHS)
    progress("oscillator")
    linear = split_variance(oscillator(), "SRA1", random=OSCILLATOR, t=(0.0, END), dt=0.02, paths=paths, seed=7,
                            degree=size.of(1, 4, 4), every=20)  # fmt: skip
    linear_at = linear.sel(time=[3.2, 6.4, 12.0], method="nearest")
    rows = []
    for k, (parameters, noise) in enumerate(zip(*exact_split(linear_at["time"].values), strict=True)):
        one = linear_at.isel(time=k).sel(component="x")
        t = float(one["time"])
        for name, exact in (("variance_parameters", parameters), ("variance_noise", noise)):
            ours, stderr = float(one[name]), float(one[f"{name}_stderr"])
            rows.append(
                Row(
                    f"oscillator, t = {t:g}: {name}",
                    None,
                    ours,
                    stderr,
                    f"exact {exact:.6g}, {(ours - exact) / stderr:+.1f} standard errors from it",
                    t,
                    0.02,
                    paths,
                )
            )
    progress("pendulum")
    swing = split_variance(pendulum(), "Heun", random=PENDULUM, t=(0.0, 4.0), dt=0.01, paths=paths, seed=8,
                           degree=size.of(1, 3, 3), every=20)  # fmt: skip
    for t in (1.0, 2.0, 4.0):
        one = swing.isel(time=int(np.argmin(np.abs(swing["time"].values - t)))).sel(component="angle")
        share, stderr = float(one["share_parameters"]), float(one["share_parameters_stderr"])
        alone = (one["variance_first"] / one["variance"]).values
        remark = "alone: " + ", ".join(f"{name} {part:.3f}" for name, part in zip(PENDULUM, alone, strict=True))
        rows.append(Row(f"pendulum, t = {t:g}: share of the tolerances", None, share, stderr, remark, t, 0.01, paths))
    panels = [("oscillator", "variance of x", linear.sel(component="x")),
              ("pendulum", "variance of the angle [rad²]", swing.sel(component="angle"))]  # fmt: skip
    return StudyResult(rows, {"split": _figure(panels, paths)})


def _figure(panels: list[tuple[str, str, Any]], paths: int) -> Picture:
    figure, axes = drawing.canvas(1, 2, size=(9.0, 3.8))
    for ax, (title, axis, run) in zip(axes, panels, strict=True):
        for style, name in zip(drawing.styles(), ("variance_parameters", "variance_noise"), strict=False):
            value, stderr = run[name].values, run[f"{name}_stderr"].values
            label = {"parameters": "from tolerances", "noise": "from noise"}[name.removeprefix("variance_")]
            ax.errorbar(run["time"].values, value, 2.0 * stderr, marker=".", ms=4, **style, label=label)
        ax.set(title=title, xlabel="time", ylabel=axis)
    drawing.legend(figure, columns=2)
    caption = (
        "The variance split into the part due to tolerances and the part due to noise: oscillator by SRA1, T = "
        f"{END:g}, h = 0.02; pendulum by Heun, T = 4, h = 0.01; {paths} paths, bars of two standard errors."
    )
    return Picture(figure, caption)


STUDY = Study(
    "tolerance-or-noise",
    OWN,
    "how much of a variance comes from tolerances, how much from noise",
    "The variance of an oscillator's position is split into the part caused by uncertain parameters and the part "
    "caused by noise; both agree with exact moments integrated over the parameters. For the pendulum of the README the "
    "share is estimated in the same way.",
    run,
    lambda: 120.0,
)
