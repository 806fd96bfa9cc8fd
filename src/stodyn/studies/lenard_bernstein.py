"""Figures 4.5 to 4.9 of Kraus & Tyranowski (2021): relaxation by the Lenard-Bernstein collision operator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import xarray as xr

from stodyn.analysis.system.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.lenard_bernstein import LENARD_BERNSTEIN
from stodyn.statistics.observable import Observable
from stodyn.studies import drawing, full_size
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KRAUS_TYRANOWSKI
from stodyn.warnings import EnergyNotKept

TRAPPING = ("Midpoint", 0.15)
SQUARE = (("DIRK", 0.15), ("Midpoint", 0.05), ("StoermerVerlet", 0.05), ("Heun", 0.02), ("R2", 0.02), ("E1", 0.02))
WEAK = (("SRKw1", 0.05), ("SRKw2", 0.15), ("SRKw2", 0.25), ("RS1", 0.02), ("RS2", 0.02))
TOO_HOT = (TRAPPING, ("Heun", 0.02), ("R2", 0.02), ("RS1", 0.02))
END, PATHS, SMALL = 1000.0, 10_000_000, 4096
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
    full, results, T = size is Size.FULL, {}, size.of(15.0, END, END)
    square, weak = size.of(((), WEAK[3:4]), (SQUARE, WEAK), (SQUARE, WEAK))
    for name, h in (*square, *weak, TRAPPING):
        paths = (
            full_size.affordable(LENARD_BERNSTEIN.problem, name, h, END, PATHS) if full else size.of(64, SMALL, PATHS)
        )
        progress(f"{name}, h = {h:g}, {paths} paths")
        results[name, h] = sampled(name, h, T, paths, block=None if full else paths // 2)  # one block per core, of two
        late = results[name, h].sel(time=slice(0.5 * T, None))
        mean, stderr = float(late["energy"].mean()), float(late["energy_stderr"].max())
        part = full_size.remark(paths, PATHS) if full else ""
        remark = "; ".join(filter(None, (part, "the standard error is that of a single time")))
        rows.append(Row(f"{name}, h = {h:g}: E(H), mean over T/2..T", PAPER, mean, stderr, remark, T=T, h=h,
                        paths=paths))  # fmt: skip
    rows.append(trapped(results[TRAPPING], TRAPPING[1], T, paths))
    figures = {
        "fig4-5": initial(),
        "fig4-6": energies(results, paths),
        "fig4-7": late_energies(results, T, paths, square, weak),
        "fig4-8": densities(results, T, paths, square),
        "fig4-9": densities(results, T, paths, weak),
    }
    return StudyResult(rows, figures)


def sampled(name: str, h: float, T: float, paths: int, block: int | None) -> xr.Dataset:
    """E H over time, and the shares of the particles in every bin of x modulo 1 and of v at the end."""
    problem, steps = LENARD_BERNSTEIN.problem, round(T / h)

    def shares(t, x, params):
        place = x[0] - jnp.floor(x[0])
        inside = [(z >= edges[:-1]) & (z < edges[1:]) for z, edges in ((place, PLACES), (x[1], VELOCITIES))]
        return jnp.concatenate(inside).astype(x.dtype)

    collect = [Observable(energy_of(problem), name="energy", every=max(steps // 100, 1)),
               Observable(shares, name="share", at=[T])]  # fmt: skip
    with warnings.catch_warnings():
        if (name, h) in TOO_HOT:  # of which runs are told: the study says so
            warnings.simplefilter("ignore", EnergyNotKept)
        return simulate(problem, name, t=(0.0, T), dt=[T / steps] * steps, paths=paths, seed=47, block=block,
                        progress=False, collect=collect)  # fmt: skip


def shares_at_end(result: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The exact shares of x and of v, bin by bin."""
    places, velocities = np.split(result["share"].values[-1], [len(PLACES) - 1])
    return places, velocities


def trapped(result: xr.Dataset, h: float, T: float, paths: int) -> Row:
    """The share of particles trapped where they cross one period of the force (1/2) per step: |v| near 1/(2 h)."""
    v = 0.5 * (VELOCITIES[1:] + VELOCITIES[:-1])
    there = np.abs(np.abs(v) - 0.5 / h) < 0.35
    ours = float(shares_at_end(result)[1][there].sum())
    thermal = float(np.sum(LENARD_BERNSTEIN.exact["velocity_density"](v[there]) * np.diff(VELOCITIES)[there]))
    remark = f"trapped: {ours / thermal:.1f} times the Maxwellian's {thermal:.4f}"
    what = f"Midpoint, h = {h:g}: share of particles at |v| near 1/(2h) = {0.5 / h:.3g}"
    return Row(what, None, ours, float(np.sqrt(ours * (1 - ours) / paths)), remark, T=T, h=h, paths=paths)


def initial() -> Picture:
    """Figure 4.5: the density at the start."""
    figure, ax = drawing.canvas(size=(6.0, 4.0))
    x, v = np.meshgrid(np.linspace(0, 1, 121), np.linspace(-4, 7, 201), indexing="ij")
    mesh = ax.pcolormesh(x, v, LENARD_BERNSTEIN.exact["initial_density"](x, v), shading="auto", rasterized=True)
    figure.colorbar(mesh, label="density at the start")
    ax.set(xlabel="position x", ylabel="velocity v")
    return Picture(figure, "The density of particles at the start, exact: a beam of fast particles and slow ones.")


def energies(results: Runs, paths: int) -> Picture:
    """Figure 4.6: E H(t) of DIRK, Heun and E1, and of the midpoint rule at the step that traps particles."""
    figure, ax = drawing.canvas(size=(8.0, 4.4))
    chosen = [run for run in results if run[0] in ("DIRK", "Heun", "E1") or run == TRAPPING]
    for style, (name, h) in zip(drawing.styles(), chosen, strict=False):
        result = results[name, h]
        drawing.error_band(
            ax, result["time"], result["energy"], result["energy_stderr"], **style, label=f"{name}, h = {h:g}"
        )
    ax.axhline(LENARD_BERNSTEIN.exact["ergodic_energy"](), color="k", ls=":", lw=1.5, label="Gibbs measure")
    ax.set(xlabel="time, dimensionless", ylabel="mean energy E(H), dimensionless")
    drawing.legend(figure)
    caption = (
        f"Mean energy over time, {paths} paths, h in the legend; bands are two standard errors. The midpoint rule with "
        f"h = {TRAPPING[1]:g} stays too hot: it traps particles that cross a period of the force in a step."
    )
    return Picture(figure, caption)


def late_energies(results: Runs, T: float, paths: int, *halves: Sequence[tuple[str, float]]) -> Picture:
    """Figure 4.7: E H(t) of every method near the ergodic limit, mean-square (left) and weak (right)."""
    figure, axes = drawing.canvas(1, 2, size=(10.0, 4.8), sharey=True)
    for ax, runs, title in zip(axes, halves, ("mean-square methods", "weak methods"), strict=True):
        for style, (name, h) in zip(drawing.styles(), runs, strict=False):
            late = results[name, h].sel(time=slice(0.5 * T, None))
            drawing.error_band(
                ax, late["time"], late["energy"], late["energy_stderr"], **style, label=f"{name}, h = {h:g}"
            )
        ax.axhline(LENARD_BERNSTEIN.exact["ergodic_energy"](), color="k", ls=":", lw=1.5, label="Gibbs measure")
        ax.set(xlabel="time, dimensionless", title=title)
        drawing.legend_below(ax, columns=3)
    axes[0].set(ylabel="mean energy E(H), dimensionless")
    caption = (
        f"Mean energy in the second half of the time to T = {T:g}, {paths} paths of each method with the "
        "steps in the legend; bands are two standard errors. The variational methods stay near the energy of the Gibbs "
        "measure."
    )
    return Picture(figure, caption)


def densities(results: Runs, T: float, paths: int, runs: Sequence[tuple[str, float]]) -> Picture:
    """Figures 4.8 and 4.9: the densities of x and v at the end, against the Gibbs measure."""
    figure, (left, right) = drawing.canvas(1, 2, size=(10.0, 4.4))
    x, v = np.linspace(0.0, 1.0, 401), np.linspace(-5.0, 5.0, 401)
    left.plot(x, LENARD_BERNSTEIN.exact["position_density"](x), color="k", lw=2, label="Gibbs measure")
    right.plot(v, LENARD_BERNSTEIN.exact["velocity_density"](v), color="k", lw=2)
    for style, (name, h) in zip(drawing.styles(), runs, strict=False):
        places, velocities = shares_at_end(results[name, h])
        left.stairs(places / np.diff(PLACES), PLACES, baseline=None, **style, label=f"{name}, h = {h:g}")
        right.stairs(velocities / np.diff(VELOCITIES), VELOCITIES, baseline=None, **style)
    left.set(xlabel="position x modulo 1", ylabel="density of x", ylim=(0.0, None))
    right.set(xlabel="velocity v", ylabel="density of v", xlim=(-5.0, 5.0), ylim=(0.0, None))
    drawing.legend(figure, columns=4)
    width, share = np.diff(PLACES)[0], 1.0 / (len(PLACES) - 1)
    error = np.sqrt(share * (1.0 - share) / paths) / width
    caption = (
        f"Densities of positions and velocities at T = {T:g}, {paths} paths, h in the legend, against the Gibbs "
        f"measure. One standard error of a bin of x is about {error:.2g}."
    )
    return Picture(figure, caption)


def estimate() -> float:
    return full_size.seconds(LENARD_BERNSTEIN.problem, (*SQUARE, *WEAK, TRAPPING), PATHS, END)


STUDY = Study(
    "lenard-bernstein",
    KRAUS_TYRANOWSKI,
    "Figs 4.5-4.9: relaxation by the Lenard-Bernstein collision operator",
    "Particles in a periodic potential relax to the Gibbs measure with variational methods at steps of 0.05 to 0.25, "
    "as the paper says; quadrature also gives 0.471705 for the energy of the limit. Of the explicit methods at h = "
    "0.02 only RS2 agrees with it: Heun, R2 and RS1 settle 15 to 19 % too high, by five to seven standard errors, and "
    "E1 6 % too low, by less than three. The paper does not mention that the midpoint rule with h = 0.15 traps "
    "particles near |v| = 1/(2h), which cross one period of the force per step, and settles at too high an energy. "
    "Runs whose energy is a fifth too high or more warn (EnergyNotKept), as that of the midpoint rule does.",
    run,
    estimate,
)
