"""Events against exact values: first passage, walls, impacts, and probabilities from 1e-3 to 1e-9 of four problems.

Brownian motion    P(max of W over [0, 1] >= l) = 2 Φ(-l)
Ornstein-Uhlenbeck P(x reaches l before 10) by Kolmogorov's backward equation, finite differences
double well        P(-0.9 reaches 1 before -1) = ∫ exp(2 V/σ²) from -1 to -0.9 over that from -1 to 1
linear oscillator  P(x reaches l before 20), ω = 1, ζ = 0.05: importance sampling from elementary events
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import quad
from scipy.linalg import solve_banded
from scipy.optimize import brentq
from scipy.stats import norm

from stodyn import plot
from stodyn.accuracy.rare import rare
from stodyn.engine.simulate import simulate
from stodyn.problems.impact import Impact, Restitution
from stodyn.problems.level import Level
from stodyn.problems.linear import linear
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.problems.walls import Walls, with_walls
from stodyn.results import provenance
from stodyn.statistics.moments import Moments
from stodyn.statistics.observable import Observable
from stodyn.statistics.passage import Passage
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN

DRIFT, SIGMA = 0.3, 0.8
BROWNIAN = SDE(lambda t, x: DRIFT + 0.0 * x, lambda t, x: SIGMA, 0.0)
WIENER = SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)
OU = SDE(lambda t, x: -x, lambda t, x: np.sqrt(2.0), 0.0)
OSCILLATOR = linear([[0.0, 1.0], [-1.0, -0.1]], [[0.0], [np.sqrt(0.2)]])
PROBABILITIES = (1e-3, 1e-5, 1e-7, 1e-9)


def survival(t: np.ndarray) -> np.ndarray:
    """P(τ > t) of Brownian motion with drift below 1: the reflection principle."""
    s = SIGMA * np.sqrt(t)
    return norm.cdf((1 - DRIFT * t) / s) - np.exp(2 * DRIFT / SIGMA**2) * norm.cdf((-1 - DRIFT * t) / s)


def reached(level: float, T: float = 10.0, cells: int = 2400, steps: int = 1600) -> float:
    """P(x reaches the level before T) of dx = -x dt + √2 dW from 0: u_t = u'' - x u', u = 1 at the level, 0 at first.

    By the Crank-Nicolson rule, after four half steps by Euler's rule because of the jump at the start; second order.
    """
    x = np.linspace(-8.0, level, cells + 1)
    dx = x[1] - x[0]
    lower, upper = 1 / dx**2 + x / (2 * dx), 1 / dx**2 - x / (2 * dx)
    u = np.zeros(cells + 1)
    u[-1] = 1.0
    lengths = [0.5 * T / steps] * 4 + [T / steps] * (steps - 2)
    for k, h in enumerate(lengths):
        share = 1.0 if k < 4 else 0.5  # the weight of the implicit side
        right = u.copy()
        change = lower[1:-1] * u[:-2] - (lower + upper)[1:-1] * u[1:-1] + upper[1:-1] * u[2:]
        right[1:-1] += (1 - share) * h * change
        band = np.zeros((3, cells + 1))
        band[1] = 1.0
        band[0, 2:] = -share * h * upper[1:-1]
        band[1, 1:-1] += share * h * (lower + upper)[1:-1]
        band[2, :-2] = -share * h * lower[1:-1]
        u = solve_banded((1, 1), band, right)
    return float(np.interp(0.0, x, u))


def committor(sigma: float) -> float:
    """P(-0.9 reaches 1 before -1) in the double well (x² - 1)²/4."""

    def weight(x: float) -> float:
        return float(np.exp(((x**2 - 1) ** 2 / 4 - 0.25) * 2 / sigma**2))

    whole = quad(weight, -1, 1, points=[0.0], epsabs=0, epsrel=1e-11)[0]
    return quad(weight, -1, -0.9, epsabs=0, epsrel=1e-11)[0] / whole


# --- the parts --------------------------------------------------------------------------------------------------------


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths = size.of(200, 100_000, 1_000_000)
    progress("first passage")
    rows, run_of_survival = passages(paths)
    progress("walls and impacts")
    rows += walls(paths)
    rare_rows, points = [], []
    for p in size.of((1e-3,), PROBABILITIES, PROBABILITIES):
        for name, call in list(PROBLEMS.items())[: size.of(2, None, None)]:
            progress(f"{name} at {p:g}")
            options = dict(replicas=size.of(16, 128, 128), runs=size.of(2, 16, 128), seed=27, progress=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exact, error, result = call(p, options)
            rare_rows.append(_rare_row(f"{name}: probability near {p:g}", exact, error, result, ENDS.get(name)))
            points.append((name, exact, result))
    return StudyResult(rows + rare_rows, {"survival": _survival_figure(run_of_survival), "rare": _figure(points)})


def passages(paths: int) -> tuple[list[Row], xr.Dataset]:
    """Survival and means against closed forms; also the run that the figure shows."""
    options: dict[str, Any] = dict(paths=paths, seed=27, progress=False)
    statistics = [Passage(1.0, every=1, mean=False), Passage(1.0, every=1, mean=False, bridge=False, name="grid")]
    result = simulate(BROWNIAN, "EulerMaruyama", t=(0, 4), dt=0.25, collect=statistics, **options)
    two = simulate(BROWNIAN, "EulerMaruyama", t=(0, 1), dt=0.125, collect=Passage((-0.7, 1.0), at=[1.0], mean=False),
                   **options)  # fmt: skip
    moving = simulate(WIENER, "EulerMaruyama", t=(0, 1), dt=0.25,
                      collect=Passage(lambda t: 1.0 + 0.5 * t, at=[1.0], mean=False), **options)  # fmt: skip
    ou = simulate(OU, "SRA1", t=(0, 5), dt=0.0625, collect=Passage(2.0, at=[5.0], mean=False), **options)
    market = SDE(lambda t, x: 0.05 * x, lambda t, x: 0.3 * x, 1.0)
    gbm = simulate(market, "Milstein", t=(0, 1), dt=0.0625, collect=Passage(1.2, at=[1.0], mean=False), **options)
    rows = [
        _passed("Brownian motion: P(τ > 4)", 0.2343156380600, result, "passage_survival"),
        _passed("Brownian motion: E min(τ, 4)", 2.0499028446410, result, "passage_restricted_mean"),
        _passed("Brownian motion out of (-0.7, 1): P(τ > 1)", 0.4150659857872, two, "passage_survival"),
        _passed("W and a level that moves: P(τ > 1)", 1 - 0.1803118185958, moving, "passage_survival"),
        _passed("Ornstein-Uhlenbeck: P(τ > 5), level 2", 1 - 0.37748468543, ou, "passage_survival"),
        _passed("geometric Brownian motion, 16 steps of Milstein: P(τ > 1)", 1 - 0.5488641627493, gbm,
                "passage_survival"),
    ]  # fmt: skip
    return rows, result


def walls(paths: int) -> list[Row]:
    """A reflected process, and a ball that bounces with noise and without."""
    reflected = with_walls(SDE(lambda t, x: -(x + 0.5), lambda t, x: 1.0, 0.5), Walls({"x": (0.0, None)}))
    result = simulate(reflected, "EulerMaruyama", t=(0, 1), dt=1 / 64, paths=paths, seed=27, progress=False,
                    collect=Moments(at=[1.0]))  # fmt: skip
    floor = Impact(Level(0.0, of="x", direction="down"), Restitution(0.8))
    ball = Mechanical(lambda t, x, v: -9.81 + 0.0 * x, None, (1.0, 0.0))
    energy = Observable(lambda t, x: 0.5 * x[1] ** 2 + 9.81 * x[0], name="energy", at=[3.0])
    bounced = simulate(with_walls(ball, floor), t=(0, 3), dt=0.1, paths=1, seed=27, progress=False, collect=energy)
    oscillator = Mechanical(lambda t, x, v: -x - 0.1 * v, lambda t, x, v: 0.5, (1.0, 0.0))
    struck = with_walls(oscillator, Walls({"x": (0.0, None)}, "impact", 0.7, located=True))
    noisy = simulate(struck, "SRA1", t=(0, 4), dt=0.025, paths=paths, seed=27, progress=False,
                     collect=Moments(at=[4.0]))  # fmt: skip
    return [
        Row(
            "reflected Ornstein-Uhlenbeck: E X(1)",
            0.41374835240,
            float(result["mean"].values.ravel()[-1]),
            float(result["mean_stderr"].values.ravel()[-1]),
            "Lépingle's rule, steps of 1/64: 0.0017 too large",
            **of_run(result),
        ),
        Row(
            "a ball after six impacts with e = 0.8: its energy",
            9.81 * 0.8**12,
            float(bounced["energy"].values[-1]),
            remark="exact except for rounding",
            **of_run(bounced),
        ),
        Row(
            "an oscillator above a floor, e = 0.7: E x(4)",
            0.5392,
            float(noisy["mean"].values[-1, 0]),
            float(noisy["mean_stderr"].values[-1, 0]),
            "reference accurate to 0.0005",
            **of_run(noisy),
        ),
    ]


def _passed(quantity: str, exact: float, result: xr.Dataset, name: str) -> Row:
    ours, error = (float(result[word].values.ravel()[-1]) for word in (name, f"{name}_stderr"))
    return Row(quantity, exact, ours, error, f"{(ours - exact) / error:+.1f} standard errors" if error else "",
               **of_run(result))  # fmt: skip


def _rare_row(quantity: str, exact: float, error: float, result: xr.Dataset, ends: float | None) -> Row:
    ours, own, record = float(result["probability"]), float(result["probability_stderr"]), provenance(result)
    setting: dict[str, Any] = {"T": ends, "h": record["dt"], "paths": record["runs"] * record["replicas"]}
    if not ours:
        return Row(quantity, exact, ours, own, "no path reached it", **setting)
    low, high = float(result["probability_low"]), float(result["probability_high"])
    steps = record["path_steps"] * (own / ours / 0.1) ** 2
    z = (ours - exact) / np.hypot(own, error)
    remark = f"{low:.2g} to {high:.2g}; {z:+.1f} standard errors; {steps:.1e} path-steps for 10 %"
    return Row(quantity, exact, ours, own, remark, **setting)


# --- rare events ------------------------------------------------------------------------------------------------------


def _brownian(p: float, options: dict) -> tuple[float, float, xr.Dataset]:
    level = -float(norm.ppf(0.5 * p))
    return p, 0.0, rare(WIENER, "EulerMaruyama", event=Level(level), before=1.0, dt=0.01, **options)


def _ornstein_uhlenbeck(p: float, options: dict) -> tuple[float, float, xr.Dataset]:
    level = {1e-3: 4.35, 1e-5: 5.36, 1e-7: 6.18, 1e-9: 6.91}[p]
    result = rare(OU, "SRA1", event=Level(level), before=10.0, dt=0.05, **options)
    return reached(level), 0.0, result


def _double_well(p: float, options: dict) -> tuple[float, float, xr.Dataset]:
    sigma = float(brentq(lambda sigma: np.log(committor(sigma) / p), 0.12, 0.4, rtol=1e-9))
    well = SDE(lambda t, x: x - x**3, lambda t, x: sigma, -0.9)
    result = rare(well, "SRA1", event=Level(1.0), before=Level(-1.0, direction="down"), dt=0.02, **options)
    return p, 0.0, result


def _oscillator(p: float, options: dict) -> tuple[float, float, xr.Dataset]:
    level = {1e-3: 3.4, 1e-5: 4.37, 1e-7: 5.16, 1e-9: 5.85}[p]
    steps: dict[str, Any] = dict(event=Level(level), before=20.0)
    exact = rare(OSCILLATOR, by="elementary", dt=0.025, replicas=3 * options["replicas"], runs=8, seed=28, **steps)
    more = options | {"replicas": 4 * options["replicas"]}
    result = rare(OSCILLATOR, "SRA1", dt=0.05, score="amplitude", **steps, **more)
    return float(exact["probability"]), float(exact["probability_stderr"]), result


PROBLEMS = {
    "Brownian motion": _brownian,
    "Ornstein-Uhlenbeck": _ornstein_uhlenbeck,
    "double well": _double_well,
    "linear oscillator": _oscillator,
}
ENDS = {"Brownian motion": 1.0, "Ornstein-Uhlenbeck": 10.0, "linear oscillator": 20.0}  # the double well has none


# --- figures ----------------------------------------------------------------------------------------------------------


def _survival_figure(result: xr.Dataset) -> Picture:
    figure, ax = drawing.canvas(size=(7.2, 4.0))
    t, setting = np.linspace(1e-3, 4, 200), of_run(result)
    ax.plot(t, survival(t), color="k", label="exact")
    curves = (("passage", "steps and bridges"), ("grid", "steps alone"))
    for colour, (name, words) in zip(plot.PALETTE, curves, strict=False):
        alive, stderr = (result[f"{name}_survival{word}"] for word in ("", "_stderr"))
        ax.errorbar(result["time"], alive, 2.0 * stderr, fmt="o", ms=3, lw=1, color=colour, label=words)
    ax.set(xlabel="time t, dimensionless", ylabel="probability P(τ > t)", ylim=(0.0, None))
    drawing.legend(figure)
    caption = (
        f"The probability that Brownian motion with drift has not reached 1: 16 steps of h = {setting['h']:g}, "
        f"{setting['paths']} paths, bars of two standard errors (smaller than the dots). Looking only at the ends of "
        "steps misses passages."
    )
    return Picture(figure, caption)


def _figure(points: list[tuple[str, float, xr.Dataset]]) -> Picture:
    figure, ax = drawing.canvas(size=(7.2, 4.0))
    ax.axhline(1.0, color="k", lw=0.8)
    for style, name, aside in zip(drawing.styles(markers=True), PROBLEMS, (0.5, 0.8, 1.25, 2.0), strict=False):
        own = [(exact, result) for label, exact, result in points if label == name]
        exact = np.array([one for one, _ in own])
        ours, low, high = (
            np.array([float(result[word]) for _, result in own]) / exact
            for word in ("probability", "probability_low", "probability_high")
        )
        bounds = np.nan_to_num(np.stack([ours - low, high - ours]))
        ax.errorbar(aside * exact, ours, np.maximum(bounds, 0.0), **style | {"ls": ""}, label=name)
    ax.set(xscale="log", xlabel="exact probability", ylabel="estimate over exact value")
    drawing.legend(figure)
    record = provenance(points[0][2])
    caption = (
        f"Estimates of rare events by splitting, divided by their exact probabilities: {record['runs']} runs of "
        f"{record['replicas']} paths (four times as many for the oscillator), bars of 95 % confidence, drawn side by "
        "side; T and h are in the table."
    )
    return Picture(figure, caption)


def estimate() -> float:
    return 600.0


STUDY = Study(
    "events",
    OWN,
    "first passage, walls, impacts and probabilities down to 1e-9",
    "Where a path crosses a level between two steps, Brownian bridges detect it: 16 steps give the survival "
    "probability to within the sampling error, while looking only at the ends of steps gives a result that is far off. "
    "Splitting estimates probabilities down to 1e-9 with a few thousand paths: all exact values lie within the 95 % "
    "bounds, and at 1e-9 the standard errors are 17 to 24 %.",
    run,
    estimate,
)
