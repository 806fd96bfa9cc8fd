"""Figures 4.5 to 4.9 of Kraus & Tyranowski (2021): relaxation by the Lenard-Bernstein collision operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from stodyn import plot
from stodyn.analysis.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.statistics.histogram import Histogram
from stodyn.statistics.observable import Observable
from stodyn.studies.contract import Row, Study, StudyResult

SMALL = (("DIRK", 0.15), ("Midpoint", 0.15), ("StoermerVerlet", 0.05), ("SRKw2", 0.25), ("E1", 0.02))
FULL = (*SMALL, ("Midpoint", 0.05), ("SRKw1", 0.05), ("SRKw2", 0.15), ("Heun", 0.02), ("R2", 0.02), ("RS1", 0.02),
        ("RS2", 0.02))  # fmt: skip
T = 1000.0
EDGES = np.linspace(-7.0, 7.0, 141)


def run(full: bool, out: Path, progress: Callable[[str], None]) -> StudyResult:
    exact = LENARD_BERNSTEIN.exact
    limit, paths = exact["ergodic_energy"](), 10_000_000 if full else 1024
    rows = [
        Row("H_erg of the Gibbs measure", 0.471705, limit, remark="exact"),
        Row("E(H)(0)", None, exact["initial_energy"](), remark="exact"),
    ]
    energies, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.axhline(limit, color="k", ls=":", lw=1, label="Gibbs measure")
    marginals, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    x, v = np.linspace(0.0, 1.0, 401), np.linspace(-5.0, 5.0, 401)
    left.plot(x, exact["position_density"](x), color="k", label="Gibbs measure")
    right.plot(v, exact["velocity_density"](v), color="k")
    for number, (name, h) in enumerate(FULL if full else SMALL):
        progress(f"{name}, dt = {h:g}, {paths} paths")
        found = sampled(name, h, paths)
        late = found.sel(time=slice(0.5 * T, None))
        mean, stderr = float(late["energy"].mean()), float(late["energy_stderr"].max())
        rows.append(Row(f"{name}, dt = {h:g}: E(H), mean over T/2..T", 0.471705, mean, stderr,
                        "the error is that of one time: an upper bound"))  # fmt: skip
        if h == 0.15 and name == "Midpoint":
            rows.append(trapped(found, h))
        colour = plot.PALETTE[number % len(plot.PALETTE)]
        axes.plot(found["time"], found["energy"], color=colour, label=f"{name}, dt = {h:g}")
        density = found["density"][-1]
        right.plot(found["bin"], density.sel(component="v"), color=colour, lw=1)
        inside = (found["bin"] > 0.0) & (found["bin"] < 1.0)
        wrapped = density.sel(component="x")
        if float(wrapped[~inside.values].sum()) == 0.0:
            left.plot(found["bin"][inside], wrapped[inside], color=colour, lw=1, label=f"{name}, dt = {h:g}")
    axes.set(xlabel="time", ylabel="E(H)")
    left.set(xlabel="x", ylabel="density")
    right.set(xlabel="v")
    axes.legend(fontsize=8)
    left.legend(fontsize=8)
    return StudyResult(rows, {"fig4-5": initial(), "fig4-6": energies, "fig4-8": marginals})


def sampled(name: str, h: float, paths: int):
    steps = round(T / h)
    lengths = [T / steps] * steps
    every = max(steps // 100, 1)
    return simulate(LENARD_BERNSTEIN.problem, name, t=(0.0, T), dt=lengths, paths=paths, seed=47, progress=False,
                    collect=[Observable(energy_of(LENARD_BERNSTEIN.problem), name="energy", every=every),
                             Histogram(EDGES, at=[T])])  # fmt: skip


def trapped(found, h: float) -> Row:
    """How many particles stay where they cross one period of the force (1/2) in a step: |v| near 1/(2 dt)."""
    v = found["bin"].values
    density = found["density"][-1].sel(component="v").values
    there = np.abs(np.abs(v) - 0.5 / h) < 0.35
    width = EDGES[1] - EDGES[0]
    ours = float(density[there].sum() * width)
    thermal = float(LENARD_BERNSTEIN.exact["velocity_density"](v[there]).sum() * width)
    count = float(found["sound_in_histogram"][-1])
    remark = f"trapped: {ours / thermal:.1f} times the Maxwellian's {thermal:.4f}"
    what = f"Midpoint, dt = {h:g}: particles at |v| near 1/(2 dt) = {0.5 / h:.3g}"
    return Row(what, None, ours, float(np.sqrt(ours * (1 - ours) / count)), remark)


def initial():
    fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    x, v = np.meshgrid(np.linspace(0, 1, 121), np.linspace(-4, 7, 201), indexing="ij")
    drawn = ax.pcolormesh(x, v, LENARD_BERNSTEIN.exact["initial_density"](x, v), shading="auto")
    fig.colorbar(drawn, label="density at the start")
    ax.set(xlabel="x", ylabel="v")
    return fig


def estimate() -> float:
    began = time.perf_counter()
    simulate(LENARD_BERNSTEIN.problem, "DIRK", t=(0.0, 30.0), dt=0.15, paths=8192, seed=1, progress=False)
    rate = 8192 * 200 / (time.perf_counter() - began)
    return sum(1e7 * T / h for _, h in FULL) / rate


STUDY = Study(
    "lenard-bernstein",
    "Kraus & Tyranowski (2021), Figs 4.5-4.9: relaxation by the Lenard-Bernstein collision operator",
    run,
    estimate,
)
