"""Riggs' Figures 15 and 16: step control by noisy stages, and alternatives that do not distort the statistics."""

from __future__ import annotations

import functools
import math
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import stodyn as sd
from stodyn import plot
from stodyn.analysis.covariance import delivered, exact
from stodyn.analysis.plan import plan
from stodyn.methods import classical as c
from stodyn.methods.dyadic import Dyadic
from stodyn.numerics import uncompiled
from stodyn.problems.linear import linear
from stodyn.studies.contract import Row, Size, Study, StudyResult
from stodyn.studies.riggs_example import EXAMPLE, SOURCE

EPS = 0.01  # Riggs' bound in (92)
FRESH = c.RK4(noise="fresh")
STIFFENING = linear(lambda t: -2.0 - 48.0 * jnp.exp(-(((t - 1.0) / 0.05) ** 2)), 1.0)  # on (0, 2): fast near t = 1
TOLERANCES = (1e-3, 1e-4)
LONGEST = 0.05
REDRAWN = {2e-3: 0.71, 1e-3: 0.57, 5e-4: 0.56}  # tolerance: P_D/P


def run(size: Size, out: Path, progress) -> StudyResult:
    tolerances = size.of((1e-2,), TOLERANCES, TOLERANCES)
    runs, samples = size.of((64, 1000), (8_000, 400_000), (40_000, 400_000))
    rows, figures = [], {}
    progress("Collatz's criterion")
    for name, h in (("figure-15-collatz", 0.005), ("figure-16-collatz", 0.0005)):
        times, left = along_a_path(h)
        figures[name] = _drawn(f"|K₂ - K₃| - {EPS} |K₁ - K₂|, h = {h}", times, left)
        values, accepted = collatz(h, samples)
        n = len(values)
        rows.append(Row(f"mean of the left side of (92), h = {h}", "> 0", values.mean(), values.std() / math.sqrt(n),
                        f"(1 - ε) √(14.4 Q h/π) = {(1 - EPS) * math.sqrt(14.4 * 0.01 * h / math.pi):.6g}"))  # fmt: skip
        rows.append(Row(f"share of accepted steps, h = {h}", "never", accepted, math.sqrt(accepted / n),
                        f"{acceptance():.5f} whatever the step: it measures the noise"))  # fmt: skip
    progress("the estimate of RKF45")
    for noise in ("fresh", "held"):
        sizes = [estimate_rms(c.RKF45, noise, h) for h in (0.1, 0.05)]
        rows.append(Row(f"RKF45 estimate with {noise} samples, h = 0.1 (rms)", None, sizes[0], None,
                        f"goes as h^{math.log2(sizes[0] / sizes[1]):.2g}"))  # fmt: skip
    for tol, known in list(REDRAWN.items())[: size.of(1, 3, 3)]:
        progress(f"reject and draw again, tol = {tol:g}, {runs} runs")
        ratio, stderr, rejected = reject_and_redraw(tol, runs, seed=75)
        rows.append(Row(f"P_D/P where rejected steps are drawn again, tol = {tol:g}", None, ratio, stderr,
                        f"{100 * rejected:.0f} % rejected; expected about {known}"))  # fmt: skip
    progress("plans of steps")
    for method, label in ((FRESH, "fresh"), (c.RK4, "held")):
        for tol in tolerances:
            planned, lengths = worst_ratio(method, tol)
            uniform = _worst(method, np.full(len(lengths), 2.0 / len(lengths)))
            rows.append(Row(f"RK4 {label}, plan with tol = {tol:g}: max |P_D/P - 1|", None, planned, None,
                            f"{len(lengths)} steps; {uniform:.2g} with as many equal steps"))  # fmt: skip
    figures["plan"] = _drawn_plan(tolerances)
    progress(f"dyadic refinement, {runs} runs")
    ratio, stderr = dyadic(runs, seed=76)
    rows.append(Row("P_D/P with dyadic refinement, nothing drawn again", None, ratio, stderr, "1 within its error bar"))
    return StudyResult(rows, figures)


# --- step control that looks at noise -------------------------------------------------------------------------------


def along_a_path(h: float, seed: int = 1986) -> tuple[np.ndarray, np.ndarray]:
    """Times and the left side of (92) along a path of example (89)."""
    steps = round(2.0 / h)
    with jax.enable_x64(True):
        noise = sd.draw_increments(jax.random.key(seed), FRESH.needs, 1, jnp.full(steps, h))
        states, _ = jax.jit(lambda n: sd.path(EXAMPLE.problem, FRESH, 0.0, n))(noise)
        return h * np.arange(steps), np.asarray(_left_side(states[:-1], noise))


def collatz(h: float, samples: int, seed: int = 15) -> tuple[np.ndarray, float]:
    """The left side of (92) in steps from the steady state, and the share of accepted steps."""
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        x = jnp.asarray(0.05 * rng.standard_normal((samples, 1)))
        counts = FRESH.needs.normals(1)
        normals = {name: jnp.asarray(rng.standard_normal((samples, count))) for name, count in counts.items()}
        left = np.asarray(_left_side(x, sd.increments(FRESH.needs, 1, jnp.full(samples, h), normals)))
    return left, float(np.mean(left <= 0.0))


@jax.jit
def _left_side(x, noise):
    problem = EXAMPLE.problem

    def one(x, n):
        K = FRESH.stages(problem, 0.0, x, n, problem.params, FRESH.b)
        return jnp.abs(K[1] - K[2])[0] - EPS * jnp.abs(K[0] - K[1])[0]

    return jax.vmap(one)(x, noise)


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
    with jax.enable_x64(True):
        while (going := t < end - 1e-12).any():
            h = np.minimum(h, end - t)
            length = np.where(going, h, 1.0)
            normals = {name: rng.standard_normal((runs, count)) for name, count in counts.items()}
            after, error = (np.asarray(a) for a in _tried(method, x, length, normals))
            size = np.abs(error[:, 0])
            taken = going & (size <= tol)
            tried, rejected = tried + going.sum(), rejected + (going & ~taken).sum()
            x, t = np.where(taken[:, None], after, x), np.where(taken, t + h, t)
            factor = 0.9 * (tol / np.maximum(size, 1e-300)) ** 0.2
            h = np.where(going, np.minimum(h * np.clip(factor, 0.2, 5.0), LONGEST), h)
    P = float(EXAMPLE.exact["variance"](end)[0])
    ratio = float(np.mean(x**2)) / P
    return ratio, float(np.std(x**2)) / P / math.sqrt(runs), rejected / tried


@functools.partial(jax.jit, static_argnums=0)
def _tried(method, x, h, normals):
    problem = EXAMPLE.problem

    def one(x, h, z):
        noise = method.needs.increment(h, z, 1)
        after, _ = method.step(problem, 0.0, x, noise, problem.params)
        return after, method.estimate(problem, 0.0, x, noise, problem.params)

    return jax.vmap(one)(x, h, normals)


def _quietly(table: c.ExplicitRungeKutta, noise: str) -> c.ExplicitRungeKutta:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", c.CovarianceError)
        return table(noise=noise)


# --- step control that does not --------------------------------------------------------------------------------------


def worst_ratio(method, tol: float) -> tuple[float, np.ndarray]:
    """max |P_D/P - 1| over the steps of a plan, and their lengths."""
    lengths = plan(STIFFENING, method, tol)((0.0, 2.0))
    return _worst(method, lengths), lengths


def _worst(method, lengths: np.ndarray) -> float:
    return float(np.abs(_ratio(method, lengths)[1] - 1.0).max())


def _ratio(method, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    times = np.cumsum(lengths)
    P = exact(STIFFENING, times).covariance[:, 0, 0]
    return times, delivered(STIFFENING, method, lengths).covariance[1:, 0, 0] / P


def dyadic(runs: int, seed: int) -> tuple[float, float]:
    """P_D/P at t = 1.04, right after the fast phase, with every path refining its own steps."""
    at = 1.04
    run = sd.simulate(STIFFENING, Dyadic(tol=2e-3), t=(0.0, 2.0), dt=0.04, paths=runs, seed=seed, progress=False,
                      collect=sd.statistics.Moments(at=[at, 2.0]))  # fmt: skip
    P = exact(STIFFENING, [at, 2.0]).covariance[0, 0, 0]
    return float(run["variance"][0, 0]) / P, float(run["variance_stderr"][0, 0]) / P


def _drawn(title: str, times: np.ndarray, left: np.ndarray):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    ax = figure.subplots()
    ax.plot(times, left, lw=0.5, color=plot.PALETTE[0])
    ax.axhline(0.0, color=plot.GREY, lw=1.0)
    ax.set(xlabel="time", title=title)
    return figure


def _drawn_plan(tolerances: tuple[float, ...]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for color, tol in zip(plot.PALETTE, tolerances, strict=False):
        _, lengths = worst_ratio(FRESH, tol)
        times, ratio = _ratio(FRESH, lengths)
        above.semilogy(times, np.abs(ratio - 1.0), ".-", ms=3, lw=0.8, color=color, label=f"plan, tol = {tol:g}")
        even = np.full(len(lengths), 2.0 / len(lengths))
        times, ratio = _ratio(FRESH, even)
        above.semilogy(times, np.abs(ratio - 1.0), ":", lw=1.0, color=color, label=f"{len(even)} equal steps")
        below.step(np.cumsum(lengths), lengths, where="pre", color=color)
    above.set(ylabel="|P_D/P - 1|")
    below.set(xlabel="time", ylabel="step")
    above.legend(frameon=False, fontsize="small")
    return figure


STUDY = Study("riggs-variable-step", f"{SOURCE}: Figs 15, 16, and steps that may vary", run, lambda: 60.0)
