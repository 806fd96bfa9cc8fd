"""Figures 4.10 and 4.11 of Kraus & Tyranowski (2021): the energy under the Lorentz collision operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from stodyn import plot
from stodyn.analysis.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.lorentz_collisions import LORENTZ_COLLISIONS
from stodyn.statistics.change import Change
from stodyn.statistics.observable import Observable
from stodyn.statistics.paths import Paths
from stodyn.studies.contract import Row, Study, StudyResult

STRONG = (("Midpoint", 0.05), ("StoermerVerlet", 0.05), ("DIRK", 0.05), ("Heun", 0.01), ("R2", 0.01), ("E1", 0.01))
WEAK = (("SRKw1", 0.05), ("SRKw2", 0.05), ("RS1", 0.01), ("RS2", 0.01))
MOST_PATH_STEPS = 5e9  # of one weak run: the paper's 1e6 paths to T = 10000 are taken to the part that fits


def run(full: bool, out: Path, progress: Callable[[str], None]) -> StudyResult:
    problem, rows = LORENTZ_COLLISIONS.problem, []
    energy = energy_of(problem)
    end = 100_000.0 if full else 100.0
    one, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for number, (name, h) in enumerate(STRONG):
        progress(f"{name}, dt = {h:g}, one path to {end:g}")
        steps = round(end / h)
        found = simulate(problem, name, t=(0.0, end), dt=h, paths=1, seed=53, progress=False,
                         collect=Paths(1, every=max(steps // 500, 1)))  # fmt: skip
        x = found["path"].values[0]
        H = 0.5 * np.sum(x[:, 2:] ** 2, axis=1) + 3.0 / (4 * np.pi) * np.prod(np.sin(4 * np.pi * x[:, :2]), axis=1)
        rows.append(Row(f"{name}, dt = {h:g}: largest |H(t) - H(0)| of one path to {end:g}", 0.0,
                        float(np.abs(H - H[0]).max()), remark="no path of the system changes H"))  # fmt: skip
        ax.plot(found["time"], H, lw=1, color=(*plot.PALETTE, plot.GREY)[number], label=f"{name}, dt = {h:g}")
    ax.set(xlabel="time", ylabel="H of one path")
    ax.legend(fontsize=8)
    many, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    ax.axhline(1.0, color="k", ls=":", lw=1)
    for number, (name, h) in enumerate((*WEAK, *STRONG[:4])):
        end, paths = (10_000.0, int(min(1e6, MOST_PATH_STEPS * h / 10_000.0))) if full else (20.0, 512)
        progress(f"{name}, dt = {h:g}, {paths} paths to {end:g}")
        every = max(round(end / h) // 50, 1)
        found = simulate(problem, name, t=(0.0, end), dt=h, paths=paths, seed=53, progress=False,
                         collect=[Observable(energy, name="energy", every=every),
                                  Change(energy, name="change", every=every)])  # fmt: skip
        mean, stderr, rms = (float(found[v][-1]) for v in ("change", "change_stderr", "change_rms"))
        part = f"; {paths:.2g} of the paper's 1e6 paths" if full and paths < 1e6 else ""
        rows.append(Row(f"{name}, dt = {h:g}: E(H)({end:g}) - E(H)(0)", 0.0, mean, stderr, f"rms {rms:.2g}{part}"))
        if (name, h) in WEAK:
            ax.plot(found["time"], found["energy"], color=plot.PALETTE[number], label=f"{name}, dt = {h:g}")
    ax.set(xlabel="time", ylabel="E(H)")
    ax.legend(fontsize=8)
    return StudyResult(rows, {"fig4-10": one, "fig4-11": many})


def estimate() -> float:
    began = time.perf_counter()
    simulate(LORENTZ_COLLISIONS.problem, "DIRK", t=(0.0, 10.0), dt=0.05, paths=8192, seed=1, progress=False)
    rate = 8192 * 200 / (time.perf_counter() - began)
    began = time.perf_counter()
    simulate(LORENTZ_COLLISIONS.problem, "DIRK", t=(0.0, 100.0), dt=0.05, paths=1, seed=1, progress=False)
    alone = 2000 / (time.perf_counter() - began)
    return 8 * MOST_PATH_STEPS / rate + sum(1e5 / h for _, h in STRONG) / alone


STUDY = Study(
    "lorentz", "Kraus & Tyranowski (2021), Figs 4.10, 4.11: the energy under Lorentz collisions", run, estimate
)
