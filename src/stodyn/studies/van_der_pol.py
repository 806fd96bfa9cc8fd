"""Figures 4.3 and 4.4 of Kraus & Tyranowski (2021): the ergodic energy of van der Pol's oscillator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from stodyn import plot
from stodyn.analysis import ergodic
from stodyn.analysis.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.van_der_pol import VAN_DER_POL
from stodyn.statistics.observable import Observable
from stodyn.studies import full_size
from stodyn.studies.contract import Row, Size, Study, StudyResult

SQUARE = (("DIRK", 0.2), ("Midpoint", 0.2), ("StoermerVerlet", 0.2), ("Heun", 0.02), ("R2", 0.02), ("E1", 0.02))
WEAK = (("SRKw1", 0.2), ("SRKw2", 0.2), ("RS1", 0.02), ("RS2", 0.02))
TOO_LONG = (("Heun", 0.2), ("E1", 0.2), ("RS2", 0.2))
T, AT = 5000.0, (1000.0, 2500.0, 4000.0, 5000.0)
PATHS, SMALL = 1_000_000, 1024
PAPER = 2.3165  # its ergodic energy, sampled by others


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    progress("stationary Fokker-Planck equation")
    basis = ergodic.Hermite(size.of(16, 56, 56), 0.9)
    limit = ergodic.stationary(VAN_DER_POL.problem, basis, basis).average(lambda z: 0.5 * np.sum(z**2, axis=1))
    averaged = VAN_DER_POL.exact["averaged_energy"]
    rows = [
        Row("H_erg, two-dimensional Fokker-Planck equation", PAPER, limit, remark="the paper's is sampled, ±6.6e-4"),
        Row("H_erg in the averaging limit", None, VAN_DER_POL.exact["averaging_limit"]()),
        *(Row(f"E(H)({t:g}), averaged equation", None, float(averaged(t)), remark="error O(nu)") for t in AT),
    ]
    full, found = size is Size.FULL, {}
    square, weak, too_long = (runs[: size.of(1, None, None)] for runs in (SQUARE, WEAK, TOO_LONG))
    for name, h in (*square, *weak, *too_long):
        taken = full_size.affordable(VAN_DER_POL.problem, name, h, T, PATHS) if full else size.of(64, SMALL, PATHS)
        progress(f"{name}, dt = {h:g}, {taken} paths")
        found[name, h] = sampled(name, h, taken, block=None if full else taken // 2)  # one block per core, of two
        for t in AT if name == "DIRK" else AT[-1:]:
            mean, stderr = (float(found[name, h][v].sel(time=t, method="nearest")) for v in ("energy", "energy_stderr"))
            distance = f"{(mean - float(averaged(t))) / stderr:+.1f} standard errors from the averaged equation"
            if (name, h) in too_long:
                distance = f"too long a step: the limit is shifted to about {predicted(name, h):.3g}"
            part = full_size.remark(taken, PATHS) if full else ""
            rows.append(
                Row(f"{name}, dt = {h:g}: E(H)({t:g})", None, mean, stderr, "; ".join(filter(None, (distance, part))))
            )
    return StudyResult(rows, {"fig4-3": whole(found, limit), "fig4-4": end(found, limit, square, weak)})


def sampled(name: str, h: float, paths: int, block: int | None) -> xr.Dataset:
    every = max(round(50.0 / h), 1)
    return simulate(VAN_DER_POL.problem, name, t=(0.0, T), dt=h, paths=paths, seed=43, block=block, progress=False,
                    collect=Observable(energy_of(VAN_DER_POL.problem), name="energy", every=every))  # fmt: skip


def whole(found: dict[tuple[str, float], xr.Dataset], limit: float) -> Figure:
    """Figure 4.3: E H(t) of DIRK, Heun and E1."""
    fig = Figure(figsize=(7, 4.5), layout="constrained")
    ax = fig.subplots()
    grid = np.linspace(0.0, T, 201)
    ax.plot(grid, VAN_DER_POL.exact["averaged_energy"](grid), color="k", lw=2, label="averaged equation")
    ax.axhline(limit, color="k", ls=":", lw=1, label="ergodic limit")
    chosen = [run for run in found if run[0] in ("DIRK", "Heun", "E1")]
    for colour, (name, h) in zip(plot.PALETTE, chosen, strict=False):
        ax.plot(found[name, h]["time"], found[name, h]["energy"], color=colour, label=f"{name}, dt = {h:g}")
    ax.set(xlabel="time", ylabel="E(H)", ylim=(0.9, 4.0))
    ax.legend(fontsize=8)
    return fig


def end(found: dict[tuple[str, float], xr.Dataset], limit: float, *halves: Sequence[tuple[str, float]]) -> Figure:
    """Figure 4.4: every method near the ergodic limit, mean-square (left) and weak (right), with its standard error."""
    fig = Figure(figsize=(10, 4.5), layout="constrained")
    grid = np.linspace(4000.0, T, 51)
    for ax, runs in zip(fig.subplots(1, 2, sharey=True), halves, strict=True):
        ax.axhline(PAPER, color=plot.GREY, ls="--", lw=1, label="the paper's H_erg")
        ax.axhline(limit, color="k", ls=":", lw=1, label="Fokker-Planck")
        ax.plot(grid, VAN_DER_POL.exact["averaged_energy"](grid), color="k", lw=2, label="averaged equation")
        for colour, (name, h) in zip((*plot.PALETTE, plot.GREY), runs, strict=False):
            late = found[name, h].sel(time=slice(4000.0 - h, None))
            ax.plot(late["time"], late["energy"], color=colour, lw=1, label=f"{name}, dt = {h:g}")
            low, high = (late["energy"] + side * late["energy_stderr"] for side in (-1, 1))
            ax.fill_between(late["time"], low, high, color=colour, alpha=0.1, lw=0)
        ax.set(xlabel="time")
        ax.legend(fontsize=7)
    fig.axes[0].set(ylabel="E(H)")
    return fig


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
    return full_size.seconds(VAN_DER_POL.problem, (*SQUARE, *WEAK, *TOO_LONG), PATHS, T)


STUDY = Study(
    "van-der-pol",
    "Kraus & Tyranowski (2021), Figs 4.3, 4.4: the ergodic energy of van der Pol's oscillator",
    run,
    estimate,
)
