"""Jitter of a ring oscillator: how the variance of its k-th period grows, against the theory of small noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

import stodyn
from stodyn import plot, statistics
from stodyn.methods.stiff import RK1W2M, Trapezoidal
from stodyn.models.circuits import RING_OSCILLATOR
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems.sde import SDE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN

LEVEL = 2.0  # V: a period is counted where u1 rises through it
STEP = 0.01  # ns


class Cycle(NamedTuple):
    """The noise-free oscillation: its period, a state of the cycle, and the variance added to its phase per period."""

    period: float
    state: np.ndarray
    jitter: float


def cycle(problem: Any, guess: float = 3.3, rtol: float = 1e-10) -> Cycle:
    """The limit cycle through u1 = LEVEL, and c = ∫ v' g g' v dt over a period, v the phase response of the oscillator.

    v(t) is the left Floquet vector of the multiplier 1 with v' f = 1: noise moves the phase by v' g dW, so that the
    variance of the k-th period end is c k to leading order (A. Demir, A. Mehrotra & J. Roychowdhury, IEEE Trans.
    Circuits Syst. I 47 (2000)).
    """
    sde = problem.lower(SDE)[0]
    n, params = sde.n, problem.example_params()

    def along(z):
        y, flow = z[:n], z[n:].reshape(n, n)
        f, A = sde.f(0.0, y, params), jax.jacfwd(lambda y: sde.f(0.0, y, params))(y)
        return jnp.concatenate([f, (A @ flow).ravel()])

    drift, slope = AtPoints(lambda y: sde.f(0.0, y, params)), AtPoints(along)

    def rises(t, z):
        return z[0] - LEVEL

    rises.direction = 1.0  # type: ignore[attr-defined]
    options = {"method": "LSODA", "rtol": rtol, "atol": rtol / 100.0}
    settled = scipy.integrate.solve_ivp(lambda t, y: drift(y[None])[0], (0.0, 12.0 * guess), sde.example_start(),
                                        events=rises, **options)  # fmt: skip
    period, state = settled.t_events[0][-1] - settled.t_events[0][-2], settled.y_events[0][-1]
    start = np.concatenate([state, np.eye(n).ravel()])
    times = np.linspace(0.0, period, 2001)
    solution = scipy.integrate.solve_ivp(lambda t, z: slope(z[None])[0], (0.0, period), start, t_eval=times, **options)
    flows = solution.y[n:].T.reshape(-1, n, n)
    values, vectors = np.linalg.eig(flows[-1].T)
    left = vectors[:, np.argmin(np.abs(values - 1.0))].real
    responses = np.linalg.solve(flows.transpose(0, 2, 1), left[:, None])[..., 0]
    responses /= left @ drift(state[None])[0]
    noise = at_points(lambda y: sde.g(0.0, y, params), solution.y[:n].T)
    kicks = np.einsum("tn,tnm->tm", responses, noise)
    return Cycle(float(period), state, float(scipy.integrate.simpson(np.sum(kicks**2, axis=1), times)))


def crossings(times: np.ndarray, u: np.ndarray, count: int) -> np.ndarray:
    """The first `count` times at which each path (paths, times) rises through LEVEL, by linear interpolation."""
    crossing_times = np.empty((len(u), count))
    for path, values in enumerate(u):
        before = np.flatnonzero((values[:-1] < LEVEL) & (values[1:] >= LEVEL))[:count]
        share = (LEVEL - values[before]) / (values[before + 1] - values[before])
        crossing_times[path] = times[before] + share * (times[before + 1] - times[before])
    return crossing_times


def growth(ends: np.ndarray, groups: int = 16) -> tuple[float, float]:
    """The slope of Var(t_k - t_0) in k, through the origin, and its standard error from groups of paths."""

    def fitted(part: np.ndarray) -> float:
        k = np.arange(1, part.shape[1])
        variance = np.var(part[:, 1:] - part[:, :1], axis=0, ddof=1)
        return float(np.sum(k * variance) / np.sum(k**2))

    parts = np.array([fitted(part) for part in np.array_split(ends, groups)])
    return fitted(ends), float(parts.std(ddof=1) / np.sqrt(groups))


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths, periods = size.of((64, 1), (512, 12), (4096, 40))
    # Thermal noise of loads and channels does not commute; at its physical size that cannot be seen.
    problem = dataclasses.replace(RING_OSCILLATOR.problem, structure="without areas")
    progress("the noise-free cycle")
    quiet = cycle(problem, rtol=size.of(1e-5, 1e-10, 1e-10))
    begun = at_one(lambda x: problem.state_space.state(0.0, x, problem.params), quiet.state)
    problem = dataclasses.replace(problem, start=begun)  # no transient: every path begins on the cycle
    end = STEP * round((periods + 2.5) * quiet.period / STEP)
    progress(f"{paths} paths over {periods} periods")
    method = size.of(Trapezoidal, RK1W2M, RK1W2M)  # the first compiles faster
    sampled = stodyn.simulate(problem, method, t=(0.0, end), dt=STEP, paths=paths, seed=1, progress=False,
                              collect=statistics.Paths(paths, every=1))  # fmt: skip
    u = sampled["path"].sel(component="u1").values
    ends = crossings(sampled["time"].values, u, periods + 1)
    slope, stderr = growth(ends)
    first = np.diff(ends, axis=1)
    setting = of_run(sampled)
    rows = [
        Row("noise-free period, ns", None, quiet.period),
        Row(
            "mean period, ns",
            quiet.period,
            float(first.mean()),
            float(first.std() / np.sqrt(first.size)),
            f"against the noise-free one; the step {STEP} ns adds its own error of order 2",
            **setting,
        ),
        Row(
            "growth of the variance per period, ns²",
            quiet.jitter,
            slope,
            stderr,
            "against small noise (Floquet)",
            **setting,
        ),
        Row(
            "jitter of one period, ps",
            1e3 * np.sqrt(quiet.jitter),
            1e3 * np.sqrt(slope),
            500 * stderr / np.sqrt(slope),
            "T and h in ns",
            **setting,
        ),
    ]
    return StudyResult(rows, {"jitter": picture(ends, quiet.jitter, setting)})


def picture(ends: np.ndarray, jitter: float, setting: dict[str, Any]) -> Picture:
    figure, ax = drawing.canvas(size=(7.2, 4.0))
    k = np.arange(ends.shape[1])
    variance = 1e6 * np.var(ends - ends[:, :1], axis=0, ddof=1)
    bars = 2.0 * variance * np.sqrt(2.0 / len(ends))
    ax.plot(k, 1e6 * jitter * k, color=plot.ORANGE, lw=1.5, label="small noise")
    ax.errorbar(k, variance, bars, fmt="o", color=plot.BLUE, ms=4, lw=1, label="paths")
    ax.set(xlabel="period k", ylabel="variance of the end of period k [ps²]")
    drawing.legend(figure)
    caption = (
        f"Jitter accumulates: the variance of the time at which period k ends. RK1W2M, T = {setting['T']:.4g} ns, h = "
        f"{setting['h']:g} ns, {setting['paths']} paths, bars of two standard errors (dependent from k to k), compared "
        "with the theory of small noise."
    )
    return Picture(figure, caption)


STUDY = Study(
    "ring-oscillator",
    OWN,
    "three NMOS inverters in a ring: how jitter accumulates",
    "The variance of the end of the k-th period grows in proportion to k, at the rate predicted by the phase response "
    "of the noise-free cycle (A. Demir, A. Mehrotra & J. Roychowdhury, IEEE Trans. Circuits Syst. I 47, 2000).",
    run,
    lambda: 900.0,
)
