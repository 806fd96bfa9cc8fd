"""The double pendulum and the slider crank of Rajan & Raha by their joints, beside accelerations along them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.analysis.step.common_paths import PathRun, common_paths
from stodyn.analysis.step.order import Errors
from stodyn.engine.simulate import simulate
from stodyn.methods.alpha import StochasticAlpha
from stodyn.methods.projected_alpha import ProjectedAlpha
from stodyn.methods.rattle import Rattle
from stodyn.methods.rattle_alpha import RattleAlpha
from stodyn.models import slider_crank as rod
from stodyn.models.jointed import jointed_pendulum, pendulum_chain
from stodyn.problems.mechanical import Mechanical
from stodyn.statistics.paths import Paths
from stodyn.statistics.reaction import Reaction
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.mechanics_runs import pace
from stodyn.studies.papers import RAJAN_RAHA
from stodyn.studies.slider_crank import PUBLISHED

OLD = "accelerations alone"
H, T_ORDERS, FINER = 0.01, 0.5, 32
WEAK = 0.3  # the white force on the double pendulum whose lengths are followed
PUSH, ANGLE = 1.5, 1.0  # the white force on the rod of `reactions`, and its angle at the start


def along_joints(problem: Mechanical) -> Mechanical:
    """Describe the same motion by x'' = acceleration and kicks along the joints, whose positions nothing holds."""
    return Mechanical(
        lambda t, x, v: problem.acceleration(t, x, v, x[:0], None),
        lambda t, x, v: problem.motion.kicks(t, x, v, x[:0], None),
        problem.start, names=problem.coordinates,
    )  # fmt: skip


def crank_by_joints(noise: float = 0.0) -> Mechanical:
    """The slider crank with the paper's three constraints as joints, the crank turning at its given speed."""

    def force(t, x, v):
        return rod.equations(rod.QUADRATIC, x, v)[1]

    def mass(t, x, v):
        return rod.equations(rod.QUADRATIC, x, jnp.zeros_like(x))[0]

    def held(t, x):
        length = rod.L2 + x[-1]
        line = rod.L1 * jnp.sin(x[0]) + length * jnp.sin(x[1])
        return jnp.stack([x[0] - rod.SPEED * t, line, x[2] - rod.L1 * jnp.cos(x[0]) - length * jnp.cos(x[1])])

    own = rod.SLIDER_CRANK.problem
    column = jnp.zeros((own.N, 1)).at[3, 0].set(noise)
    return Mechanical(force, (lambda t, x, v: column) if noise else None, own.start, mass, names=own.coordinates,
                      constraints=held, constraint_names=("speed", "line", "slider"))  # fmt: skip


def drifts(size: Size) -> tuple[list[Row], Picture]:
    """The largest |g| of the double pendulum up to each step, by method."""
    chain = pendulum_chain(noise=WEAK)  # under 1.5 the old way fails before t = 30
    steps, paths = size.of(64, 4096, 4096), 8
    followed = Paths(paths, at=H * np.unique(np.geomspace(1, steps, 40).round()))
    figure, ax = drawing.canvas()
    rows = []
    for style, (label, problem, method) in zip(
        drawing.styles(markers=True),
        (("RattleAlpha", chain, RattleAlpha), ("Rattle", chain, Rattle), (OLD, along_joints(chain), StochasticAlpha())),
        strict=False,
    ):
        run = simulate(problem, method, t=(0.0, steps * H), dt=H, paths=paths, seed=6, progress=False, collect=followed)
        q = run["path"].values[..., : chain.N].reshape(paths, -1, 2, 2)
        off = np.abs(0.5 * (np.sum(np.diff(q, axis=2, prepend=0.0) ** 2, axis=3) - 1.0)).max(axis=(0, 2))
        ax.loglog(run["time"] / H, np.maximum.accumulate(off), **style, label=label)
        rows.append(Row(f"{label}: largest |g| of the double pendulum", None, float(off.max()), None,
                        f"after {steps} steps, over all times and paths", **of_run(run)))  # fmt: skip
    ax.set(xlabel="steps", ylabel="largest |g| so far")
    drawing.legend(figure, columns=3)
    caption = (
        f"Double pendulum under a white force of {WEAK:g}: how far the rods are from their lengths, h = {H:g}, {paths} "
        f"paths. RattleAlpha (ρ = 0.8) and Rattle hold them to rounding; by {OLD} (StochasticAlpha, ρ = 0.8) they grow "
        "apart."
    )
    drawing.note(figure, f"ρ = 0.8, h = {H:g}, {paths} paths")
    return rows, Picture(figure, caption)


def orders(size: Size) -> tuple[list[Row], Picture]:
    """Strong errors of the velocities of the double pendulum, all methods and steps on the same paths."""
    chain, paths = pendulum_chain(noise=4.0), size.of(16, 400, 2000)
    steps = (16, 32, 64, 128)[: size.of(3, 3, 4)]
    fine = steps[-1] * FINER
    factors = tuple(fine // k for k in steps)
    jointed = (("RattleAlpha", RattleAlpha), ("Rattle", Rattle), ("ProjectedAlpha", ProjectedAlpha))
    families = (
        (chain, ProjectedAlpha, jointed),
        (along_joints(chain), StochasticAlpha(rho=1.0, order=2.0), ((OLD, StochasticAlpha()),)),
    )
    figure, ax = drawing.canvas()
    style, rows, h = drawing.styles(markers=True), [], T_ORDERS / np.array(steps)
    for problem, truth, methods in families[: size.of(1, 2, 2)]:
        runs = [PathRun(truth, (1, 2)), *(PathRun(method, factors) for _, method in methods)]
        blocks = [states for _, states in common_paths(problem, runs, (0.0, T_ORDERS), fine, paths, seed=1)]
        reference, *others = (np.concatenate(parts)[..., chain.N : 2 * chain.N] for parts in zip(*blocks, strict=True))
        own = np.sqrt(np.mean(np.sum((reference[:, 0] - reference[:, 1]) ** 2, axis=1)))
        for (label, _), ends in zip(methods, others, strict=True):
            square = np.sum((ends - reference[:, :1]) ** 2, axis=2)
            mean = square.mean(axis=0)
            errors = Errors(np.sqrt(mean), {"the reference's own error": np.full(len(h), own)},
                            np.sum(~np.isfinite(square), axis=0), 0.5 * (square / mean - 1.0))  # fmt: skip
            ax.errorbar(h, errors.error, 2.0 * errors.stderr, **next(style), label=label)
            fit = errors.fit(h, 0.99)
            rows.append(Row(f"{label}: strong order of v", None, fit["order"], fit["order_stderr"],
                            f"99%: {fit['order_low']:.2f} to {fit['order_high']:.2f}", T_ORDERS,
                            f"T/{steps[0]} to T/{steps[-1]}", paths))  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    drawing.slope_guide(ax, h, 1.0, high)
    drawing.slope_guide(ax, h, 2.0, (low * high) ** 0.5)
    ax.set(xlabel="step h", ylabel="rms error of v at T")
    drawing.legend(figure, columns=2)
    caption = (
        f"Double pendulum under a white force of 4 on the second mass: strong errors of the velocities at T = "
        f"{T_ORDERS:g}, {paths} paths, ρ = 0.8; bars are two standard errors, dotted lines have the slopes written "
        "beside them."
    )
    drawing.note(figure, f"ρ = 0.8, h = 1/{round(1 / h[0])} to 1/{round(1 / h[-1])}, {paths:,} paths")
    return rows, Picture(figure, caption)


def reactions(size: Size) -> tuple[list[Row], Picture]:
    """The variance of the mean reaction of a rod against the time over which the mean is taken."""
    pendulum = jointed_pendulum(noise=(PUSH, 0.0), angle=ANGLE, impulses=True)
    h, paths = 1e-3, size.of(256, 20_000, 100_000)
    times = h * np.array([4, 8, 16, 32])
    intensity = (PUSH * np.sin(ANGLE)) ** 2
    rows, variances_at = [], []
    for time in times:
        run = simulate(pendulum, RattleAlpha, t=(0.0, float(time)), dt=h, paths=paths, seed=9, progress=False,
                       collect=Reaction(float(time)))  # fmt: skip
        variance, error = (float(run[f"reaction_variance{end}"].values.ravel()[-1]) for end in ("", "_stderr"))
        variances_at.append((variance, error))
        rows.append(Row(f"mean reaction over {time:g}: variance times the time", None, variance * time, error * time,
                        f"white noise in the reaction at the start: {intensity:.6g}", **of_run(run)))  # fmt: skip
    variances, errors = np.array(variances_at).T
    figure, ax = drawing.canvas()
    ax.errorbar(times, variances, 2.0 * errors, **next(drawing.styles(markers=True)), label="RattleAlpha")
    ax.loglog(times, intensity / times, ":", color=drawing.GREY, label="(1.5 sin 1)²/Δ")
    ax.set(xlabel="time Δ of the mean", ylabel="variance of the mean reaction")
    drawing.legend(figure, columns=2)
    caption = (
        f"Reaction of the rod of a pendulum under a white force of {PUSH:g}, its mean over the first Δ: variance of "
        f"{paths} paths, h = {h:g}, ρ = 0.8; bars are two standard errors. It grows like 1/Δ, since the reaction at a "
        "time is white noise."
    )
    drawing.note(figure, f"ρ = 0.8, h = {h:g}, {paths:,} paths")
    return rows, Picture(figure, caption)


def crank() -> list[Row]:
    """The slider crank without noise by joints and by the paper's accelerations, beside the test set's values."""
    T, rows = 0.1, []
    for label, problem, method in (
        ("by joints", crank_by_joints(), RattleAlpha),
        (OLD, rod.SLIDER_CRANK.problem, StochasticAlpha()),
    ):
        run = simulate(problem, method, t=(0.0, T), dt=1e-5, paths=1, seed=1, progress=False, collect=Paths(1, at=[T]))
        path = run["path"].isel(number=0, time=0)
        setting = of_run(run)
        for name, value in PUBLISHED.items():
            rows.append(Row(f"slider crank, {label}: {name}({T:g})", None, float(path.sel(component=name)), None,
                            f"test set {value:.9g}", **setting))  # fmt: skip
        off = float(np.abs(rod.SLIDER_CRANK.exact["constraints"](T, path.values)).max())
        rows.append(Row(f"slider crank, {label}: distance from the constraints, m", None, off, None, "", **setting))
    return rows


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows: list[Row] = []
    figures: dict[str, Any] = {}
    for name, words, part in (
        ("drift", "lengths of rods", drifts), ("orders", "strong orders", orders), ("reactions", "reactions", reactions)
    ):  # fmt: skip
        progress(words)
        more, figures[name] = part(size)
        rows += more
    if size is not Size.TINY:
        progress("slider crank")
        rows += crank()
    return StudyResult(rows, figures)


def estimate() -> float:
    return 20.0 * pace(along_joints(pendulum_chain()), 64, 50, 50 * H) * 2000 * 1024 + 120.0


STUDY = Study(
    "joints",
    RAJAN_RAHA,
    "The double pendulum and the slider crank by their joints, beside their accelerations",
    "The paper solves for accelerations along the constraints, which nothing then holds: rods change their length step "
    "by step until steps fail. The α method with RATTLE's impulses (RattleAlpha) holds them to rounding. Its errors of "
    "order 1 are so small that those of order 2 still show, where the accelerations alone have order 1. The mean of a "
    "reaction over a time Δ has a variance that grows like 1/Δ: at a time it is white noise and has no value.",
    run,
    estimate,
)
