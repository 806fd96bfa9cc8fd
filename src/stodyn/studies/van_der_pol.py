"""Figures 4.3 and 4.4 of Kraus & Tyranowski (2021): the ergodic energy of van der Pol's oscillator."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from stodyn import plot
from stodyn.analysis import ergodic
from stodyn.analysis.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.van_der_pol import VAN_DER_POL
from stodyn.statistics.observable import Observable
from stodyn.studies.contract import Row, Study, StudyResult

RUNS = (("DIRK", 0.2), ("StoermerVerlet", 0.2), ("Midpoint", 0.2), ("SRKw1", 0.2), ("SRKw2", 0.2))
EXPLICIT = (("Heun", 0.2), ("E1", 0.2), ("RS2", 0.2))
FINE = (("Heun", 0.02), ("E1", 0.02), ("R2", 0.02), ("RS1", 0.02), ("RS2", 0.02))
T, AT = 5000.0, (1000.0, 2500.0, 4000.0, 5000.0)


def run(full: bool, out: Path, progress: Callable[[str], None]) -> StudyResult:
    progress("stationary Fokker-Planck equation")
    limit = ergodic.stationary(VAN_DER_POL.problem, ergodic.Hermite(56, 0.9), ergodic.Hermite(56, 0.9)).average(
        lambda z: 0.5 * np.sum(z**2, axis=1)
    )
    averaged = VAN_DER_POL.exact["averaged_energy"]
    rows = [
        Row("H_erg, two-dimensional Fokker-Planck equation", 2.3165, limit, remark="the paper's is sampled, ±6.6e-4"),
        Row("H_erg in the averaging limit", None, VAN_DER_POL.exact["averaging_limit"]()),
        *(Row(f"E(H)({t:g}), averaged equation", None, float(averaged(t)), remark="error O(nu)") for t in AT),
    ]
    paths = 1_000_000 if full else 1024
    fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    grid = np.linspace(0.0, T, 201)
    ax.plot(grid, averaged(grid), color="k", lw=2, label="averaged equation")
    ax.axhline(limit, color="k", ls=":", lw=1)
    chosen = (*RUNS, *EXPLICIT, *(FINE if full else ()))
    for number, (name, h) in enumerate(chosen):
        progress(f"{name}, dt = {h:g}, {paths} paths")
        found = sampled(name, h, paths)
        for t in AT if name == "DIRK" else AT[-1:]:
            mean, stderr = (float(found[v].sel(time=t, method="nearest")) for v in ("energy", "energy_stderr"))
            remark = f"{(mean - float(averaged(t))) / stderr:+.1f} standard errors from the averaged equation"
            if (name, h) in EXPLICIT:
                remark = f"too large a step: the limit is shifted to about {predicted(name, h):.3g}"
            rows.append(Row(f"{name}, dt = {h:g}: E(H)({t:g})", None, mean, stderr, remark))
        if name in ("DIRK", "Heun", "E1"):
            colour = plot.PALETTE[number % len(plot.PALETTE)]
            ax.plot(found["time"], found["energy"], color=colour, label=f"{name}, dt = {h:g}")
    ax.set(xlabel="time", ylabel="E(H)", ylim=(0.9, 4.0))
    ax.legend(fontsize=8)
    return StudyResult(rows, {"fig4-3": fig})


def sampled(name: str, h: float, paths: int):
    every = max(round(50.0 / h), 1)
    return simulate(VAN_DER_POL.problem, name, t=(0.0, T), dt=h, paths=paths, seed=43, progress=False,
                    collect=Observable(energy_of(VAN_DER_POL.problem), name="energy", every=every))  # fmt: skip


def predicted(name: str, h: float, nu: float = 0.001, sigma: float = 0.05) -> float:
    """The limit with the scheme's own growth ln|R(i h)|²/h of the oscillator added to nu in the linear term."""
    z = 1j * h
    R = 1 + z + z**2 / 2 + (z**3 / 6 if name != "Heun" else 0)
    grown = nu + np.log(abs(R) ** 2) / h
    E = np.linspace(0.0, 60.0, 200_001)
    exponent = 2.0 / sigma**2 * (grown * E - 0.25 * nu * E**2)
    weight = np.exp(exponent - exponent.max())
    return float(np.sum(E * weight) / np.sum(weight))


def estimate() -> float:
    began = time.perf_counter()
    simulate(VAN_DER_POL.problem, "DIRK", t=(0.0, 100.0), dt=0.2, paths=8192, seed=1, progress=False)
    rate = 8192 * 500 / (time.perf_counter() - began)
    return sum(1e6 * T / h for _, h in (*RUNS, *EXPLICIT, *FINE)) / rate


STUDY = Study(
    "van-der-pol",
    "Kraus & Tyranowski (2021), Figs 4.3, 4.4: the ergodic energy of van der Pol's oscillator",
    run,
    estimate,
)
