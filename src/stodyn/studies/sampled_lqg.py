"""A double integrator under sampled LQG control: cost against the period, by Riccati's equations and by the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

import stodyn
from stodyn import plot, statistics
from stodyn.problems import parts
from stodyn.problems.looped import Part, with_loop
from stodyn.problems.sde import SDE
from stodyn.problems.sensor import Sensor
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN

COST = {"x": 1.0, "u": 0.1}
DENSITY = 0.001  # of the measured position, two-sided
PER_SAMPLE = 0.01  # the variance of a reading
PERIODS = (0.01, 0.05, 0.1, 0.2, 0.5)
STEPS, SETTLED = 10, 12.0  # in a period of a run, and its end


def plant() -> SDE:
    """x'' = u + w, with white noise of intensity 1."""
    drift = lambda t, x, p: jnp.array([x[1], p["u"]])  # noqa: E731
    return SDE(drift, lambda t, x: jnp.array([[0.0], [1.0]]), [0.0, 0.0], params={"u": 0.0}, names=("x", "v"))


def sensor(every: float, variance: float) -> Sensor:
    """The position, with noise of this variance in each reading."""
    return Sensor("y", of="x", every=every, noise=stodyn.per_sample(math.sqrt(variance)))


def loop(every: float, variance: float, believed: float | None = None, delay: float = 0.0) -> tuple[Any, float]:
    """The loop, and the cost of its design: for the variance that it believes in, and for no delay."""
    y = sensor(every, variance)
    modelled = y if believed is None else sensor(every, believed)
    law = parts.lqg(plant(), COST, modelled, every)
    late = Part(law.name, every, law.update, law.reads, law.writes, state=law.state, delay=delay)
    assert law.design.J is not None
    return with_loop(plant(), y, late), law.design.J


def cost(problem: Any) -> float:
    """The average of x² + u²/10 over time, from the covariances of the loop."""
    return stodyn.analysis.sampled(problem).cost(COST)


def continuous() -> float:
    """The cost of continuous control and filtering of a position with that density: tr(X G Gᵀ) + tr(Kᵀ ρ K Y)."""
    A, B, C = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]]), np.array([[1.0, 0.0]])
    rho = np.array([[COST["u"]]])
    X = scipy.linalg.solve_continuous_are(A, B, np.diag([1.0, 0.0]), rho)
    Y = scipy.linalg.solve_continuous_are(A.T, C.T, B @ B.T, np.array([[DENSITY]]))
    K = B.T @ X / COST["u"]
    return float(np.trace(X @ B @ B.T) + np.trace(K.T @ rho @ K @ Y))


def sampled_cost(every: float, paths: int) -> tuple[float, float, Any]:
    """The cost over a period of a run, and its standard error at most, as if all its instants had one error."""
    problem, _ = loop(every, PER_SAMPLE)
    end = math.ceil(SETTLED / every) * every
    times = end + every * np.arange(STEPS + 1) / STEPS
    run = stodyn.simulate(problem, "RK4", t=(0.0, float(times[-1])), dt=every / STEPS, paths=paths, seed=1,
                          progress=False, collect=statistics.Moments(at=times))  # fmt: skip
    x, u = run.sel(component="x"), run.sel(component="u").isel(time=slice(0, STEPS))
    trapezoid = np.array([0.5, *np.ones(STEPS - 1), 0.5]) / STEPS
    ours = trapezoid @ x["variance"].values + COST["u"] * float(u["variance"].mean())
    stderr = trapezoid @ x["variance_stderr"].values + COST["u"] * float(u["variance_stderr"].mean())
    return float(ours), float(stderr), run


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths, runs = size.of((64, (0.5,)), (4000, (0.1, 0.5)), (200_000, (0.05, 0.1, 0.5)))
    periods = size.of(PERIODS[2::2], PERIODS, PERIODS)
    progress("Riccati's equations and covariances")
    rows, curves = [], {"sample": [], "density": [], "believed": []}  # type: ignore[var-annotated]
    for every in periods:
        for word, variance in (("sample", PER_SAMPLE), ("density", DENSITY / every)):
            problem, J = loop(every, variance)
            curves[word].append(cost(problem))
            words = "variance 0.01 a sample" if word == "sample" else "density 0.001"
            rows.append(Row(f"J, {words}, period {every:g}", J, curves[word][-1], remark="Riccati and the loop"))
        curves["believed"].append(cost(loop(every, DENSITY / every, DENSITY)[0]))
    limit = continuous()
    small = cost(loop(0.001, DENSITY / 0.001)[0])
    rows.append(Row("J of a density, period 0.001", limit, small, remark="continuous time, and 1.8 h² more"))
    for delay in (0.02, 0.05):
        late, J = loop(0.1, PER_SAMPLE, delay=delay)
        rows.append(
            Row(f"J, period 0.1, a delay of {delay:g} that the design ignores", J, cost(late), remark="without it")
        )
    for every in runs:
        progress(f"{paths} paths, period {every:g}")
        ours, stderr, result = sampled_cost(every, paths)
        remark = "Riccati and paths; standard error at most"
        rows.append(
            Row(f"J, period {every:g}: paths", loop(every, PER_SAMPLE)[1], ours, stderr, remark, **of_run(result))
        )
    return StudyResult(rows, {"periods": picture(periods, curves, limit)})


def picture(periods: tuple[float, ...], curves: dict[str, list[float]], limit: float) -> Picture:
    figure, ax = drawing.canvas(size=(6.8, 3.8))
    ax.plot(periods, curves["density"], "o-", color=plot.BLUE, ms=4, label="density 0.001")
    ax.plot(periods, curves["sample"], "s-", color=plot.SKY, ms=4, label="variance 0.01 a sample")
    ax.plot(periods, curves["believed"], "^--", color="0.5", ms=4, label="density taken for a variance")
    ax.axhline(limit, color="k", lw=1, ls=":", label="continuous time")
    ax.set(xscale="log", yscale="log", xlabel="period", ylabel="cost J")
    drawing.legend(figure)
    return Picture(
        figure, "The average of x² + u²/10 of a double integrator under sampled LQG control, computed exactly."
    )


STUDY = Study(
    "sampled-lqg",
    OWN,
    "sampled LQG control of a double integrator (K. J. Åström & B. Wittenmark, Computer-Controlled Systems, 1997)",
    "The cost by separation, from two Riccati equations, is that of the loop's covariances to thirteen digits and that "
    "of paths within their errors. With noise of a given density the loss against continuous time is quadratic in the "
    "period; with a given error of each reading a faster rate is better without end. A filter that takes the density "
    "for the variance of a reading, or ignores a delay, pays for it.",
    run,
    lambda: 120.0,
)
