"""Figures 4.5 to 4.9 of Kraus & Tyranowski (2021): relaxation by the Lenard-Bernstein collision operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from stodyn import plot
from stodyn.analysis.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.statistics.observable import Observable
from stodyn.studies import full_size
from stodyn.studies.contract import Row, Size, Study, StudyResult

TRAPPING = ("Midpoint", 0.15)
SQUARE = (("DIRK", 0.15), ("Midpoint", 0.05), ("StoermerVerlet", 0.05), ("Heun", 0.02), ("R2", 0.02), ("E1", 0.02))
WEAK = (("SRKw1", 0.05), ("SRKw2", 0.15), ("SRKw2", 0.25), ("RS1", 0.02), ("RS2", 0.02))
T, PATHS, SMALL = 1000.0, 10_000_000, 1024
PAPER = 0.471705
VELOCITIES = np.linspace(-7.0, 7.0, 71)
PLACES = np.linspace(0.0, 1.0, 21)

Runs = Mapping[tuple[str, float], xr.Dataset]


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    exact = LENARD_BERNSTEIN.exact
    rows = [
        Row("H_erg of the Gibbs measure", PAPER, exact["ergodic_energy"](), remark="exact"),
        Row("E(H)(0)", None, exact["initial_energy"](), remark="exact"),
    ]
    full, found = size is Size.FULL, {}
    square, weak = size.of((SQUARE[:1], WEAK[:1]), (SQUARE, WEAK), (SQUARE, WEAK))
    for name, h in (*square, *weak, TRAPPING):
        taken = full_size.affordable(LENARD_BERNSTEIN.problem, name, h, T, PATHS) if full else size.of(64, SMALL, PATHS)
        progress(f"{name}, dt = {h:g}, {taken} paths")
        found[name, h] = sampled(name, h, taken, block=None if full else taken // 2)  # one block per core, of two
        late = found[name, h].sel(time=slice(0.5 * T, None))
        mean, stderr = float(late["energy"].mean()), float(late["energy_stderr"].max())
        part = full_size.remark(taken, PATHS) if full else ""
        remark = "; ".join(filter(None, (part, "the standard error is that of a single time")))
        rows.append(Row(f"{name}, dt = {h:g}: E(H), mean over T/2..T", PAPER, mean, stderr, remark))
    rows.append(trapped(found[TRAPPING], TRAPPING[1], taken))
    figures = {"fig4-5": initial(), "fig4-6": energies(found), "fig4-7": late_energies(found, square, weak)}
    return StudyResult(rows, figures | {"fig4-8": densities(found, square), "fig4-9": densities(found, weak)})


def sampled(name: str, h: float, paths: int, block: int | None) -> xr.Dataset:
    """E H over time, and the shares of the particles in every bin of x modulo 1 and of v at the end."""
    problem, steps = LENARD_BERNSTEIN.problem, round(T / h)

    def shares(t, x, params):
        place = x[0] - jnp.floor(x[0])
        inside = [(z >= edges[:-1]) & (z < edges[1:]) for z, edges in ((place, PLACES), (x[1], VELOCITIES))]
        return jnp.concatenate(inside).astype(x.dtype)

    return simulate(problem, name, t=(0.0, T), dt=[T / steps] * steps, paths=paths, seed=47, block=block,
                    progress=False, collect=[Observable(energy_of(problem), name="energy", every=max(steps // 100, 1)),
                                             Observable(shares, name="share", at=[T])])  # fmt: skip


def shares_at_end(found: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The exact shares of x and of v, bin by bin."""
    places, velocities = np.split(found["share"].values[-1], [len(PLACES) - 1])
    return places, velocities


def trapped(found: xr.Dataset, h: float, paths: int) -> Row:
    """The share of particles trapped where they cross one period of the force (1/2) per step: |v| near 1/(2 dt)."""
    v = 0.5 * (VELOCITIES[1:] + VELOCITIES[:-1])
    there = np.abs(np.abs(v) - 0.5 / h) < 0.35
    ours = float(shares_at_end(found)[1][there].sum())
    thermal = float(np.sum(LENARD_BERNSTEIN.exact["velocity_density"](v[there]) * np.diff(VELOCITIES)[there]))
    remark = f"trapped: {ours / thermal:.1f} times the Maxwellian's {thermal:.4f}"
    what = f"Midpoint, dt = {h:g}: particles at |v| near 1/(2 dt) = {0.5 / h:.3g}"
    return Row(what, None, ours, float(np.sqrt(ours * (1 - ours) / paths)), remark)


def initial() -> Figure:
    """Figure 4.5: the density at the start."""
    fig = Figure(figsize=(6, 4), layout="constrained")
    ax = fig.subplots()
    x, v = np.meshgrid(np.linspace(0, 1, 121), np.linspace(-4, 7, 201), indexing="ij")
    drawn = ax.pcolormesh(x, v, LENARD_BERNSTEIN.exact["initial_density"](x, v), shading="auto")
    fig.colorbar(drawn, label="density at the start")
    ax.set(xlabel="x", ylabel="v")
    return fig


def energies(found: Runs) -> Figure:
    """Figure 4.6: E H(t) of DIRK, Heun and E1, and of the midpoint rule at the step that traps particles."""
    fig = Figure(figsize=(7, 4.5), layout="constrained")
    ax = fig.subplots()
    chosen = [run for run in found if run[0] in ("DIRK", "Heun", "E1") or run == TRAPPING]
    for colour, (name, h) in zip(plot.PALETTE, chosen, strict=False):
        ax.plot(found[name, h]["time"], found[name, h]["energy"], color=colour, label=f"{name}, dt = {h:g}")
    ax.axhline(LENARD_BERNSTEIN.exact["ergodic_energy"](), color="k", ls=":", lw=1, label="Gibbs measure")
    ax.set(xlabel="time", ylabel="E(H)")
    ax.legend(fontsize=8)
    return fig


def late_energies(found: Runs, *halves: Sequence[tuple[str, float]]) -> Figure:
    """Figure 4.7: E H(t) of every method near the ergodic limit, mean-square (left) and weak (right)."""
    fig = Figure(figsize=(10, 4.5), layout="constrained")
    for ax, runs in zip(fig.subplots(1, 2, sharey=True), halves, strict=True):
        for colour, (name, h) in zip((*plot.PALETTE, plot.GREY), runs, strict=False):
            late = found[name, h].sel(time=slice(0.5 * T, None))
            ax.plot(late["time"], late["energy"], color=colour, lw=1, label=f"{name}, dt = {h:g}")
        ax.axhline(LENARD_BERNSTEIN.exact["ergodic_energy"](), color="k", ls=":", lw=1, label="Gibbs measure")
        ax.set(xlabel="time")
        ax.legend(fontsize=7)
    fig.axes[0].set(ylabel="E(H)")
    return fig


def densities(found: Runs, runs: Sequence[tuple[str, float]]) -> Figure:
    """Figures 4.8 and 4.9: the densities of x and v at the end, against the Gibbs measure."""
    fig = Figure(figsize=(7, 8), layout="constrained")
    above, below = fig.subplots(2, 1)
    x, v = np.linspace(0.0, 1.0, 401), np.linspace(-5.0, 5.0, 401)
    above.plot(x, LENARD_BERNSTEIN.exact["position_density"](x), color="k", lw=2, label="Gibbs measure")
    below.plot(v, LENARD_BERNSTEIN.exact["velocity_density"](v), color="k", lw=2)
    for colour, (name, h) in zip((*plot.PALETTE, plot.GREY), runs, strict=False):
        places, velocities = shares_at_end(found[name, h])
        above.stairs(places / np.diff(PLACES), PLACES, color=colour, label=f"{name}, dt = {h:g}")
        below.stairs(velocities / np.diff(VELOCITIES), VELOCITIES, color=colour)
    above.set(xlabel="x", ylabel="density")
    below.set(xlabel="v", ylabel="density", xlim=(-5.0, 5.0))
    above.legend(fontsize=8)
    return fig


def estimate() -> float:
    return full_size.seconds(LENARD_BERNSTEIN.problem, (*SQUARE, *WEAK, TRAPPING), PATHS, T)


STUDY = Study(
    "lenard-bernstein",
    "Kraus & Tyranowski (2021), Figs 4.5-4.9: relaxation by the Lenard-Bernstein collision operator",
    run,
    estimate,
)
