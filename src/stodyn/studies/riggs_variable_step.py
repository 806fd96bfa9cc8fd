"""Riggs' Figures 15 and 16: step control by noisy stages, and alternatives that do not distort the statistics."""

from __future__ import annotations

import functools
import math
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import plot
from stodyn.analysis.step.covariance import delivered, exact
from stodyn.analysis.system.plan import plan
from stodyn.methods import classical as c
from stodyn.methods.dyadic import Dyadic
from stodyn.numerics import uncompiled
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.problems.linear import linear
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import RIGGS
from stodyn.studies.riggs_example import EXAMPLE

EPS = 0.01  # Riggs' bound in (92)
FRESH = c.RK4(noise="fresh")
STIFFENING = linear(lambda t: -2.0 - 48.0 * jnp.exp(-(((t - 1.0) / 0.05) ** 2)), 1.0)  # on (0, 2): fast near t = 1
TOLERANCES = (1e-3, 1e-4)
LONGEST, WIDEST = 0.05, 0.04  # the longest steps where rejected ones are drawn again, and with dyadic refinement
REDRAWN = {2e-3: 0.71, 1e-3: 0.57, 5e-4: 0.56}  # tolerance: P_D/P


def run(size: Size, out: Path, progress) -> StudyResult:
    tolerances = size.of((1e-1,), TOLERANCES, TOLERANCES)
    runs, samples = size.of((64, 1000), (8_000, 400_000), (40_000, 400_000))
    rows, figures = [], {}
    progress("Collatz's criterion")
    for name, h in (("figure-15-collatz", 0.005), ("figure-16-collatz", 0.0005)):
        times, left = along_a_path(h, round(size.of(20 * h, 2.0, 2.0) / h))
        figures[name] = _picture(h, times, left)
        values, accepted = collatz(h, samples)
        n = len(values)
        rows.append(
            Row(
                f"mean of the left side of (92), h = {h}",
                "> 0",
                values.mean(),
                values.std() / math.sqrt(n),
                f"(1 - ε) √(14.4 Q h/π) = {(1 - EPS) * math.sqrt(14.4 * 0.01 * h / math.pi):.6g}",
                h,
                h,
                n,
            )
        )
        rows.append(Row(f"share of accepted steps, h = {h}", "never", accepted, math.sqrt(accepted / n),
                        f"{acceptance():.5f} whatever the step: it measures the noise", h, h, n))  # fmt: skip
    progress("the estimate of RKF45")
    for noise in ("fresh", "held"):
        sizes = [estimate_rms(c.RKF45, noise, h) for h in (0.1, 0.05)]
        rows.append(Row(f"RKF45 estimate with {noise} samples, h = 0.1 (rms)", None, sizes[0], None,
                        f"varies as h^{math.log2(sizes[0] / sizes[1]):.2g}", h=0.1))  # fmt: skip
    for tol, known in list(REDRAWN.items())[: size.of(1, 3, 3)]:
        progress(f"reject and draw again, tol = {tol:g}, {runs} runs")
        ratio, stderr, rejected = reject_and_redraw(tol, runs, seed=75)
        rows.append(Row(f"P_D/P where rejected steps are drawn again, tol = {tol:g}", None, ratio, stderr,
                        f"{100 * rejected:.0f} % rejected; expected about {known}", 2.0, f"at most {LONGEST:g}",
                        runs))  # fmt: skip
    progress("plans of steps")
    for method, label in ((FRESH, "fresh"), (c.RK4, "held"))[: size.of(1, 2, 2)]:
        for tol in tolerances:
            planned, lengths = worst_ratio(method, tol)
            uniform = _worst(method, np.full(len(lengths), 2.0 / len(lengths)))
            rows.append(Row(f"RK4 {label}, plan with tol = {tol:g}: max |P_D/P - 1|", None, planned, None,
                            f"{len(lengths)} steps; {uniform:.2g} with as many equal steps", 2.0,
                            f"{lengths.min():.2g} to {lengths.max():.2g}"))  # fmt: skip
    figures["plan"] = _plan_picture(tolerances)
    progress(f"dyadic refinement, {runs} runs")
    ratio, stderr = dyadic(runs, seed=76)
    rows.append(Row("P_D/P with dyadic refinement, nothing drawn again", None, ratio, stderr, "exact: 1", 1.04,
                    f"at most {WIDEST:g}", runs))  # fmt: skip
    return StudyResult(rows, figures)


# --- step control that looks at noise -------------------------------------------------------------------------------


def along_a_path(h: float, steps: int, seed: int = 1986) -> tuple[np.ndarray, np.ndarray]:
    """Times and the left side of (92) along a path of example (89)."""
    problem = EXAMPLE.problem
    noise = _increments(h, steps, np.random.default_rng(seed))
    advance = AtPoints(lambda x, n: FRESH.step(problem, 0.0, x, n, problem.params)[0])
    states = [np.zeros((1, 1))]
    for k in range(steps - 1):
        states.append(advance(states[-1], jax.tree.map(lambda a, k=k: a[k : k + 1], noise)))
    return h * np.arange(steps), _left_side(np.concatenate(states), noise)


def collatz(h: float, samples: int, seed: int = 15) -> tuple[np.ndarray, float]:
    """The left side of (92) in steps from the steady state, and the share of accepted steps."""
    rng = np.random.default_rng(seed)
    left = _left_side(0.05 * rng.standard_normal((samples, 1)), _increments(h, samples, rng))
    return left, float(np.mean(left <= 0.0))


def _increments(h: float, count: int, rng: np.random.Generator) -> Any:
    """Independent increments over steps h, with a leading axis."""
    normals = {name: rng.standard_normal((count, size)) for name, size in FRESH.needs.normals(1).items()}
    return at_points(lambda h, z: FRESH.needs.increment(h, z, 1), np.full(count, h), normals)


def _left_side(x: np.ndarray, noise: Any) -> np.ndarray:
    """|K₂ - K₃| - ε |K₁ - K₂| of steps from x (steps, 1) along increments with a leading axis."""
    problem = EXAMPLE.problem

    def one(x, n):
        K = FRESH.stages(problem, 0.0, x, n, problem.params, FRESH.b)
        return jnp.abs(K[1] - K[2])[0] - EPS * jnp.abs(K[0] - K[1])[0]

    return at_points(one, x, noise)


def acceptance(eps: float = EPS) -> float:
    """P(|w₂ - w₃| <= eps |w₁ - w₂|): the ratio of two normals of correlation -1/2, a Cauchy law."""
    half, width = 0.5, math.sqrt(0.75)
    return (math.atan((eps + half) / width) - math.atan((-eps + half) / width)) / math.pi


def estimate_rms(table: c.ExplicitRungeKutta, noise: str, h: float) -> float:
    """The root mean square of the embedded estimate in the steady state of example (89)."""
    method = _quietly(table, noise)
    counts = method.needs.normals(1)
    ends = np.cumsum(list(counts.values()))[:-1]
    problem = EXAMPLE.problem

    def estimate(point):
        normals = dict(zip(counts, jnp.split(point[1:], ends), strict=True))
        return method.estimate(problem, 0.0, point[:1], method.needs.increment(h, normals, 1), problem.params)[0]

    unit = np.eye(1 + sum(counts.values()))  # the estimate is linear in the state and the normals
    with jax.enable_x64(True):
        slope = uncompiled.run(jax.make_jaxpr(jax.vmap(estimate))(unit), unit)[0]
    return float(np.sqrt(slope[0] ** 2 * 0.0025 + np.sum(slope[1:] ** 2)))


def reject_and_redraw(tol: float, runs: int, seed: int, end: float = 2.0) -> tuple[float, float, float]:
    """P_D/P at the end, its standard error, and the share of rejected steps: RKF45 with fresh samples, step control by
    its estimate, and new samples whenever a step is rejected, as with an ordinary integrator.

    No step is longer than LONGEST.
    """
    method, rng = _quietly(c.RKF45, "fresh"), np.random.default_rng(seed)
    counts = method.needs.normals(1)
    t, x, h = np.zeros(runs), np.zeros((runs, 1)), np.full(runs, LONGEST)
    tried = rejected = 0
    while (going := t < end - 1e-12).any():
        h = np.minimum(h, end - t)
        length = np.where(going, h, 1.0)
        normals = {name: rng.standard_normal((runs, count)) for name, count in counts.items()}
        after, error = _tried(method)(x, length, normals)
        size = np.abs(error[:, 0])
        is_accepted = going & (size <= tol)
        tried, rejected = tried + going.sum(), rejected + (going & ~is_accepted).sum()
        x, t = np.where(is_accepted[:, None], after, x), np.where(is_accepted, t + h, t)
        factor = 0.9 * (tol / np.maximum(size, 1e-300)) ** 0.2
        h = np.where(going, np.minimum(h * np.clip(factor, 0.2, 5.0), LONGEST), h)
    P = float(EXAMPLE.exact["variance"](end)[0])
    ratio = float(np.mean(x**2)) / P
    return ratio, float(np.std(x**2)) / P / math.sqrt(runs), rejected / tried


@functools.cache
def _tried(method: c.ExplicitRungeKutta) -> AtPoints:
    """(states, steps, normals) of many paths -> the states after the steps, and the estimates of their errors."""
    problem = EXAMPLE.problem

    def one(x, h, z):
        noise = method.needs.increment(h, z, 1)
        after, _ = method.step(problem, 0.0, x, noise, problem.params)
        return after, method.estimate(problem, 0.0, x, noise, problem.params)

    return AtPoints(one)


def _quietly(table: c.ExplicitRungeKutta, noise: str) -> c.ExplicitRungeKutta:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", c.CovarianceError)
        return table(noise=noise)


# --- step control that does not --------------------------------------------------------------------------------------


@functools.cache
def worst_ratio(method, tol: float) -> tuple[float, np.ndarray]:
    """max |P_D/P - 1| over the steps of a plan, and their lengths."""
    lengths = plan(STIFFENING, method, tol)((0.0, 2.0))
    return _worst(method, lengths), lengths


def _worst(method, lengths: np.ndarray) -> float:
    return float(np.abs(_ratio(method, tuple(lengths))[1] - 1.0).max())


@functools.cache
def _ratio(method, lengths: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The ends of steps of these lengths, and P_D/P there."""
    times = np.cumsum(lengths)
    P = exact(STIFFENING, times).covariance[:, 0, 0]
    return times, delivered(STIFFENING, method, np.array(lengths)).covariance[1:, 0, 0] / P


def dyadic(runs: int, seed: int) -> tuple[float, float]:
    """P_D/P at t = 1.04, right after the fast phase, with every path refining its own steps."""
    at = 1.04
    run = sd.simulate(STIFFENING, Dyadic(tol=2e-3), t=(0.0, 2.0), dt=WIDEST, paths=runs, seed=seed, progress=False,
                      collect=sd.statistics.Moments(at=[at, 2.0]))  # fmt: skip
    P = exact(STIFFENING, [at, 2.0]).covariance[0, 0, 0]
    return float(run["variance"][0, 0]) / P, float(run["variance_stderr"][0, 0]) / P


def _picture(h: float, times: np.ndarray, left: np.ndarray) -> Picture:
    figure, ax = drawing.canvas(size=(7.2, 3.4))
    ax.plot(times, left, lw=0.5, color=plot.PALETTE[0])
    ax.axhline(0.0, color="k", lw=1.0)
    ax.set(xlabel="time", ylabel=f"|K₂ - K₃| - {EPS} |K₁ - K₂|")
    caption = (
        f"Collatz's criterion along one path of x' = -2x + w, RK4 with fresh samples, T = {h * len(times):g}, h = {h}. "
        "A step is accepted below zero: almost never, whatever the step, since the stages differ by the noise."
    )
    return Picture(figure, caption)


def _plan_picture(tolerances: tuple[float, ...]) -> Picture:
    figure, (above, below) = drawing.canvas(2, size=(8.0, 5.2), sharex=True)
    for color, tol in zip(plot.PALETTE, tolerances, strict=False):
        _, lengths = worst_ratio(FRESH, tol)
        times, ratio = _ratio(FRESH, tuple(lengths))
        above.semilogy(times, np.abs(ratio - 1.0), ".-", ms=3, lw=0.8, color=color, label=f"plan, tol = {tol:g}")
        even = np.full(len(lengths), 2.0 / len(lengths))
        times, ratio = _ratio(FRESH, tuple(even))
        above.semilogy(times, np.abs(ratio - 1.0), ":", lw=1.0, color=color, label=f"{len(even)} equal steps")
        below.step(np.cumsum(lengths), lengths, where="pre", color=color)
    above.set(ylabel="error of the variance,\n|P_D/P - 1|")
    below.set(xlabel="time", ylabel="step h")
    drawing.legend(figure)
    caption = (
        "Steps planned before the run for x' = a(t) x + w, which is fast near t = 1; RK4 with fresh samples, T = 2. "
        "Above, the relative error of the variance, computed, with the plan and with as many equal steps; below, the "
        "planned steps."
    )
    return Picture(figure, caption)


STUDY = Study(
    "riggs-variable-step",
    RIGGS,
    "Figs 15, 16: steps that may vary",
    "Riggs warns that step control reacts to the noise. Collatz's criterion accepts 0.55 % of the steps at any h; a "
    "step control that draws new noise after a rejected step shrinks the variance to 0.6 to 0.7 of the true one. Two "
    "ways work: steps planned before the run from the equations of the covariance, and steps halved on the same "
    "Brownian path (dyadic refinement).",
    run,
    lambda: 60.0,
)
