"""Figures 4.1 and 4.2 of Kraus & Tyranowski (2021): the energy of a damped Kubo oscillator."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from stodyn import plot
from stodyn.analysis.conservation import energy_of, jacobian
from stodyn.analysis.linear import step_map
from stodyn.engine.simulate import simulate
from stodyn.methods.catalogue import find
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.noise.increment import Increment
from stodyn.numerics import gauss
from stodyn.statistics.observable import Observable
from stodyn.studies.contract import Row, Study, StudyResult

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
TIMES = (1000.0, 5000.0)


def exact_of_scheme(name: str, h: float, times: np.ndarray) -> np.ndarray:
    """E H of a scheme at the given times without sampling: E[M ⊗ M] to the power of the number of steps."""
    step = step_map(name, DAMPED_KUBO.problem, h, nodes=40 if name in ("Midpoint", "StoermerVerlet", "DIRK") else 8)
    values, vectors = np.linalg.eig(step.MM)
    start = np.linalg.solve(vectors, np.outer((2.0, 0.0), (2.0, 0.0)).ravel().astype(complex))
    trace = vectors[0] + vectors[3]
    steps = np.rint(np.asarray(times) / h)
    return np.real(np.exp(steps[:, None] * np.log(values)) @ (0.5 * trace * start))


def moment_growth(h: float, power: int, name: str = "StoermerVerlet", nodes: int = 60) -> float:
    """ln of the spectral radius of E[M ⊗ ... ⊗ M], `power` factors, per unit of time: how such moments grow."""
    total = np.zeros((2**power, 2**power))
    for z, weight in zip(*gauss.hermite(nodes), strict=True):
        noise = Increment(h, np.sqrt(h) * np.array([z]))
        M = jacobian(find(name), DAMPED_KUBO.problem, (1.0, 0.0), noise)  # type: ignore[arg-type]
        total += weight * functools.reduce(np.kron, [M] * power)
    return float(np.log(np.abs(np.linalg.eigvals(total)).max()) / h)


def run(full: bool, out: Path, progress: Callable[[str], None]) -> StudyResult:
    truth, rows = DAMPED_KUBO.exact["energy"], []
    for T in TIMES:
        rows.append(Row(f"E(H)({T:g}), exact solution", None, float(truth(T)), remark="(4.2)"))
    problem = DAMPED_KUBO.problem
    sampled_until, paths = (5000.0, 50_000) if full else (100.0, 4096)
    for name, sizes in STEPS.items():
        progress(f"{name}: exact second moments")
        for h in sizes:
            values = exact_of_scheme(name, h, np.array(TIMES))
            rows += [
                Row(
                    f"{name}, dt = {h:g}: E(H)({T:g})",
                    None,
                    float(value),
                    remark="no sampling: second-moment recursion",
                )
                for T, value in zip(TIMES, values, strict=True)
            ]
        h = sizes[-1] if not full else sizes[0]
        if name == "StoermerVerlet":
            h = 0.1  # see moment_growth
        progress(f"{name}: {paths} paths with dt = {h:g}")
        found = simulate(problem, name, t=(0.0, sampled_until), dt=h, paths=paths, seed=41, progress=False,
                         collect=Observable(energy_of(problem), name="energy", at=[sampled_until]))  # fmt: skip
        mean, stderr = float(found["energy"][-1]), float(found["energy_stderr"][-1])
        own = float(exact_of_scheme(name, h, np.array([sampled_until]))[0])
        rows.append(Row(f"{name}, dt = {h:g}: E(H)({sampled_until:g}) sampled", None, mean, stderr,
                        f"{(mean - own) / stderr:+.1f} standard errors from the scheme's own {own:.6g}"))  # fmt: skip
    for h in (0.5, 0.25, 0.1):
        second, fourth = moment_growth(h, 2), moment_growth(h, 4)
        remark = "a sample holds its mean" if fourth < 0 else "grows: E(H) rests on paths too rare for any sample"
        rows.append(Row(f"StoermerVerlet, dt = {h:g}: growth rate of second moments", None, second))
        rows.append(Row(f"StoermerVerlet, dt = {h:g}: growth rate of fourth moments", None, fourth, remark=remark))
    return StudyResult(rows, {"fig4-1": figure(False), "fig4-2": figure(True)})


def figure(weak: bool):
    """E H(t) of each scheme at its largest step, and its difference from the exact one."""
    fig, (above, below) = plt.subplots(2, 1, figsize=(7, 7), sharex=True, layout="constrained")
    t = np.linspace(0.0, 5000.0, 401)[1:]
    above.plot(t, DAMPED_KUBO.exact["energy"](t), color="k", lw=2, label="exact")
    chosen = [name for name in STEPS if (name in WEAK) == weak]
    for colour, name in zip((*plot.PALETTE, plot.GREY), chosen, strict=False):
        h = 0.1 if name == "StoermerVerlet" else STEPS[name][0]
        times = np.rint(t / h) * h
        values = exact_of_scheme(name, h, times)
        above.plot(times, np.minimum(values, 3.0), color=colour, label=f"{name}, dt = {h:g}")
        if np.max(np.abs(values)) < 3.0:
            below.plot(times, values - DAMPED_KUBO.exact["energy"](times), color=colour)
    above.set(ylabel="E(H)", ylim=(0, 2.6))
    below.set(xlabel="time", ylabel="E(H) - exact")
    above.legend(fontsize=8)
    return fig


def estimate() -> float:
    began = time.perf_counter()
    simulate(DAMPED_KUBO.problem, "Heun", t=(0.0, 20.0), dt=0.02, paths=8192, seed=1, progress=False)
    rate = 8192 * 1000 / (time.perf_counter() - began)
    return (
        sum(50_000 * 5000.0 / (0.1 if name == "StoermerVerlet" else sizes[0]) for name, sizes in STEPS.items()) / rate
    )


STUDY = Study(
    "kubo", "Kraus & Tyranowski (2021), Figs 4.1, 4.2: the energy of the damped Kubo oscillator", run, estimate
)
