"""Figures 4.1 and 4.2 of Kraus & Tyranowski (2021): the energy of a damped Kubo oscillator.

A variational method need not be stable: with Störmer-Verlet second moments grow at dt = .5; at .25 they still decay,
but sixteen times too slowly, while fourth moments grow, so that a sample captures ever less of E(H).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn.analysis.step.linear import step_map
from stodyn.analysis.system.conservation import energy_of, jacobians
from stodyn.engine.path import increments
from stodyn.engine.simulate import simulate
from stodyn.methods.catalogue import find
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.numerics import gauss
from stodyn.statistics.observable import Observable
from stodyn.studies import drawing, full_size
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import KRAUS_TYRANOWSKI

STEPS: Mapping[str, tuple[float, ...]] = {
    "Midpoint": (0.5, 0.25, 0.1),
    "StoermerVerlet": (0.5, 0.25, 0.1),
    "DIRK": (0.5, 0.25, 0.1),
    "Heun": (0.05, 0.02, 0.01),
    "R2": (0.02,),
    "E1": (0.05, 0.02, 0.01),
    "SRKw1": (0.5, 0.25, 0.1),
    "SRKw2": (0.5, 0.25, 0.1),
    "RS1": (0.05, 0.02, 0.01),
    "RS2": (0.05, 0.02, 0.01),
}
WEAK = ("SRKw1", "SRKw2", "RS1", "RS2")
RATIONAL = ("Midpoint", "StoermerVerlet", "DIRK")  # their steps are rational in the noise and need more nodes
TIMES = (1000.0, 5000.0)
PATHS, SMALL = 50_000, 4096
START = np.array([2.0, 0.0])


def exact_of_scheme(name: str, h: float, times: np.ndarray) -> np.ndarray:
    """E H of a scheme at the given times, without sampling: by E[M ⊗ M] to the power of the number of steps."""
    step = step_map(DAMPED_KUBO.problem, name, h, nodes=40 if name in RATIONAL else 8)
    values, vectors = np.linalg.eig(step.MM)
    start = np.linalg.solve(vectors, np.outer(START, START).ravel().astype(complex))
    trace = vectors[0] + vectors[3]
    steps = np.rint(np.asarray(times) / h)
    return np.real(np.exp(steps[:, None] * np.log(values)) @ (0.5 * trace * start))


@functools.cache
def step_matrices(name: str, h: float) -> tuple[np.ndarray, np.ndarray]:
    """The matrices M of a step at the nodes of a rule for its draws, and the weights of the nodes."""
    method: Any = find(name)
    recipe, counts = method.needs, method.needs.normals(1)
    rule = gauss.hermite(60 if name in RATIONAL else 12)
    axes = recipe.nodes(1) if hasattr(recipe, "nodes") else [rule] * sum(counts.values())
    points, weights = (np.array(list(itertools.product(*(axis[k] for axis in axes)))) for k in (0, 1))
    with jax.enable_x64(True):
        normals = {stream: jnp.asarray(points[:, k : k + 1]) for k, stream in enumerate(counts)}
        noises = increments(recipe, 1, jnp.full(len(points), h), normals)
    return jacobians(DAMPED_KUBO.problem, method, START, noises, of_noises=True), weights.prod(axis=1)


@functools.cache
def moment_matrix(name: str, h: float, power: int) -> np.ndarray:
    """E[M ⊗ ... ⊗ M], `power` factors, of the matrix M of a step: it advances moments of that degree by one step."""
    return sum(w * functools.reduce(np.kron, [M] * power) for M, w in zip(*step_matrices(name, h), strict=True))


def moment_growth(h: float, power: int, name: str = "StoermerVerlet") -> float:
    """The growth rate of moments of a degree: ln of the spectral radius of E[M ⊗ ... ⊗ M] per unit of time."""
    return float(np.log(np.abs(np.linalg.eigvals(moment_matrix(name, h, power))).max()) / h)


def energy_moments(name: str, h: float, t: float) -> tuple[float, float]:
    """E H(t) of a scheme and its standard deviation without sampling, from second and fourth moments."""
    second, fourth = (
        np.linalg.matrix_power(moment_matrix(name, h, power), round(t / h)) @ functools.reduce(np.kron, [START] * power)
        for power in (2, 4)
    )
    mean = 0.5 * np.trace(second.reshape(2, 2))
    return float(mean), float(np.sqrt(0.25 * np.einsum("iijj", fourth.reshape(2, 2, 2, 2)) - mean**2))


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    truth, rows = DAMPED_KUBO.exact["energy"], []
    for T in TIMES:
        rows.append(Row(f"E(H)({T:g}), exact solution", None, float(truth(T)), remark="(4.2)", T=T))
    problem, results = DAMPED_KUBO.problem, {}
    full, end = size is Size.FULL, size.of(5.0, TIMES[-1], TIMES[-1])
    for name in size.of(("RS1",), tuple(STEPS), tuple(STEPS)):
        progress(f"{name}: exact second moments")
        for h in STEPS[name]:
            values = exact_of_scheme(name, h, np.array(TIMES))
            rows += [
                Row(f"{name}, h = {h:g}: E(H)({T:g})", None, float(value), remark="no sampling: recursion of moments",
                    T=T, h=h)
                for T, value in zip(TIMES, values, strict=True)
            ]  # fmt: skip
        h = sampled_step(name)
        paths = full_size.affordable(problem, name, h, end, PATHS) if full else size.of(64, SMALL, PATHS)
        progress(f"{name}: {paths} paths with h = {h:g}")
        results[name] = sampled = simulate(
            problem, name, t=(0.0, end), dt=h, paths=paths, seed=41, progress=False,
            collect=Observable(energy_of(problem), name="energy", every=round(end / 10 / h)))  # fmt: skip
        mean, stderr = float(sampled["energy"][-1]), float(sampled["energy_stderr"][-1])
        own, deviation = energy_moments(name, h, end)
        off = (mean - own) / (deviation / np.sqrt(paths))
        distance = f"{off:+.1f} exact standard errors from the scheme's own {own:.6g}"
        part = full_size.remark(paths, PATHS) if full else ""
        rows.append(Row(f"{name}, h = {h:g}: E(H)({end:g}) sampled", None, mean, stderr,
                        "; ".join(filter(None, (distance, part))), T=end, h=h, paths=paths))  # fmt: skip
    progress("growth of moments")
    for h in STEPS["StoermerVerlet"][-size.of(1, 3, 3) :]:
        mean, deviation = energy_moments("StoermerVerlet", h, TIMES[-1])
        rows += [
            Row(f"StoermerVerlet, h = {h:g}: growth rate of second moments", None, moment_growth(h, 2), h=h),
            Row(f"StoermerVerlet, h = {h:g}: growth rate of fourth moments", None, moment_growth(h, 4), h=h),
            Row(
                f"StoermerVerlet, h = {h:g}: standard error of {PATHS} paths over E(H)(5000), exact",
                None,
                deviation / np.sqrt(PATHS) / mean,
                remark="a sample captures the mean" if moment_growth(h, 4) < 0 else "rests on ever rarer paths",
                T=TIMES[-1],
                h=h,
                paths=PATHS,
            ),
        ]
    return StudyResult(rows, {"fig4-1": picture(results, False), "fig4-2": picture(results, True)})


def sampled_step(name: str) -> float:
    """The largest step; with Störmer-Verlet the smallest, since only with this one a sample has the mean."""
    return STEPS[name][-1 if name == "StoermerVerlet" else 0]


def picture(results: Mapping[str, xr.Dataset], weak: bool) -> Picture:
    """E H(t) of each scheme, and its difference from the exact one."""
    figure, (above, below) = drawing.canvas(2, size=(8.0, 6.4), sharex=True)
    exact = DAMPED_KUBO.exact["energy"]
    t = np.linspace(0.0, TIMES[-1], 401)[1:]
    above.plot(t, exact(t), color="k", lw=2, label="exact solution")
    chosen = [name for name in results if (name in WEAK) == weak]
    for style, name in zip(drawing.styles(), chosen, strict=False):
        h = sampled_step(name)
        times = np.rint(t / h) * h
        values = exact_of_scheme(name, h, times)
        above.plot(times, np.where(values < 2.6, values, np.nan), **style, label=f"{name}, h = {h:g}")
        if np.max(np.abs(values)) < 2.6:
            below.plot(times, values - exact(times), **style)
        result = results[name].isel(time=slice(1, None))
        bars = {"fmt": "o", "ms": 3, "lw": 1, "color": style["color"]}
        above.errorbar(result["time"], result["energy"], 2.0 * result["energy_stderr"], **bars)
    above.set(ylabel="E(H)", ylim=(0, 2.6))
    below.set(xlabel="time", ylabel="E(H) - exact")
    drawing.legend(figure)
    kind, last = "weak" if weak else "mean-square", next(iter(results.values()))
    caption = (
        f"Mean energy of the damped Kubo oscillator, methods with {kind} convergence, T = {TIMES[-1]:g}, h in the "
        "legend. Lines: exact moments of each scheme, without sampling; below, their difference from the exact "
        f"solution. Dots with bars of two standard errors: {of_run(last)['paths']} paths. A curve that leaves the "
        "picture grows."
    )
    return Picture(figure, caption)


def estimate() -> float:
    runs = [(name, sampled_step(name)) for name in STEPS]
    return full_size.seconds(DAMPED_KUBO.problem, runs, PATHS, TIMES[-1])


STUDY = Study(
    "kubo",
    KRAUS_TYRANOWSKI,
    "Figs 4.1, 4.2: the energy of the damped Kubo oscillator",
    "Variational methods follow the decay of the mean energy over 5000 units of time with steps ten to fifty times as "
    "long as explicit methods need, as the paper says. The paper does not mention that with Störmer-Verlet second "
    "moments grow at h = 0.5, and fourth moments at h = 0.25, so that a sample captures less and less of the mean. The "
    "moments of every scheme are computed exactly here, and the samples agree with them.",
    run,
    estimate,
)
