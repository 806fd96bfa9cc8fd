"""Figures 4.3 and 4.4 of Kraus & Tyranowski (2021): the ergodic energy of van der Pol's oscillator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from stodyn.analysis.system import ergodic
from stodyn.analysis.system.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.van_der_pol import VAN_DER_POL
from stodyn.plot import GREY
from stodyn.statistics.observable import Observable
from stodyn.studies import drawing, full_size
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KRAUS_TYRANOWSKI
from stodyn.warnings import EnergyNotKept

SQUARE = (("DIRK", 0.2), ("Midpoint", 0.2), ("StoermerVerlet", 0.2), ("Heun", 0.02), ("R2", 0.02), ("E1", 0.02))
WEAK = (("SRKw1", 0.2), ("SRKw2", 0.2), ("RS1", 0.02), ("RS2", 0.02))
TOO_LONG = (("Heun", 0.2), ("E1", 0.2), ("RS2", 0.2))
END, AT = 5000.0, (1000.0, 2500.0, 4000.0, 5000.0)
PATHS, SMALL = 1_000_000, 4096
PAPER = 2.3165  # its ergodic energy, sampled by others


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    progress("stationary Fokker-Planck equation")
    basis = ergodic.Hermite(size.of(16, 56, 56), 0.9)
    limit = ergodic.stationary(VAN_DER_POL.problem, basis, basis).average(lambda z: 0.5 * np.sum(z**2, axis=1))
    averaged = VAN_DER_POL.exact["averaged_energy"]
    rows = [
        Row("H_erg, two-dimensional Fokker-Planck equation", PAPER, limit, remark="the paper's is sampled, ±6.6e-4"),
        Row("H_erg in the averaging limit", None, VAN_DER_POL.exact["averaging_limit"]()),
        *(Row(f"E(H)({t:g}), averaged equation", None, float(averaged(t)), remark="error O(ν)", T=t) for t in AT),
    ]
    full, results, T = size is Size.FULL, {}, size.of(50.0, END, END)
    square, weak, too_long = size.of((SQUARE[3:4], WEAK[2:3], TOO_LONG[1:2]), *[(SQUARE, WEAK, TOO_LONG)] * 2)
    for name, h in (*square, *weak, *too_long):
        paths = full_size.affordable(VAN_DER_POL.problem, name, h, END, PATHS) if full else size.of(64, SMALL, PATHS)
        progress(f"{name}, h = {h:g}, {paths} paths")
        results[name, h] = sampled(name, h, T, paths, block=None if full else paths // 2)  # one block per core, of two
        for t in AT if name == "DIRK" and T == END else (T,):
            mean, stderr = (
                float(results[name, h][v].sel(time=t, method="nearest")) for v in ("energy", "energy_stderr")
            )
            distance = f"{(mean - float(averaged(t))) / stderr:+.1f} standard errors from the averaged equation"
            if (name, h) in too_long:
                distance = f"too long a step: the limit is shifted to about {predicted(name, h):.3g}"
            part = full_size.remark(paths, PATHS) if full else ""
            rows.append(Row(f"{name}, h = {h:g}: E(H)({t:g})", None, mean, stderr,
                            "; ".join(filter(None, (distance, part))), T=t, h=h, paths=paths))  # fmt: skip
    return StudyResult(
        rows, {"fig4-3": whole(results, limit, paths), "fig4-4": end(results, limit, paths, square, weak)}
    )


def sampled(name: str, h: float, T: float, paths: int, block: int | None) -> xr.Dataset:
    every = max(round(50.0 / h), 1)
    with warnings.catch_warnings():
        if (name, h) in TOO_LONG:  # of which runs are told: the subject
            warnings.simplefilter("ignore", EnergyNotKept)
        return simulate(VAN_DER_POL.problem, name, t=(0.0, T), dt=h, paths=paths, seed=43, block=block, progress=False,
                        collect=Observable(energy_of(VAN_DER_POL.problem), name="energy", every=every))  # fmt: skip


def whole(results: dict[tuple[str, float], xr.Dataset], limit: float, paths: int) -> Picture:
    """Figure 4.3: E H(t) of DIRK, Heun and E1."""
    figure, ax = drawing.canvas(size=(8.0, 4.4))
    grid = np.linspace(0.0, END, 201)
    ax.plot(grid, VAN_DER_POL.exact["averaged_energy"](grid), color="k", lw=2, label="averaged equation")
    ax.axhline(limit, color="k", ls=":", lw=1, label="ergodic limit")
    chosen = [run for run in results if run[0] in ("DIRK", "Heun", "E1")]
    for style, (name, h) in zip(drawing.styles(), chosen, strict=False):
        result = results[name, h]
        drawing.error_band(
            ax, result["time"], result["energy"], result["energy_stderr"], **style, label=f"{name}, h = {h:g}"
        )
    ax.set(xlabel="time, dimensionless", ylabel="mean energy E(H), dimensionless", ylim=(0.9, 4.0))
    drawing.legend(figure)
    caption = (
        f"Mean energy of van der Pol's oscillator, T = {END:g}, {paths} paths, h in the legend; bands are two standard "
        "errors. At the step of DIRK the explicit methods go to other limits: Heun's to about "
        f"{predicted('Heun', 0.2):.1f} (outside the picture), E1's to {predicted('E1', 0.2):.2f}."
    )
    return Picture(figure, caption)


def end(
    results: dict[tuple[str, float], xr.Dataset], limit: float, paths: int, *halves: Sequence[tuple[str, float]]
) -> Picture:
    """Figure 4.4: every method near the ergodic limit, mean-square (left) and weak (right), with its standard error."""
    figure, axes = drawing.canvas(1, 2, size=(10.0, 4.8), sharey=True)
    grid = np.linspace(4000.0, END, 51)
    for ax, runs, title in zip(axes, halves, ("mean-square methods", "weak methods"), strict=True):
        ax.axhline(PAPER, color=GREY, ls="--", lw=1, label="the paper's H_erg")
        ax.axhline(limit, color="k", ls=":", lw=1, label="Fokker-Planck")
        ax.plot(grid, VAN_DER_POL.exact["averaged_energy"](grid), color="k", lw=2, label="averaged equation")
        for style, (name, h) in zip(drawing.styles(), runs, strict=False):
            late = results[name, h].sel(time=slice(4000.0 - h, None))
            drawing.error_band(
                ax, late["time"], late["energy"], late["energy_stderr"], **style, label=f"{name}, h = {h:g}"
            )
        ax.set(xlabel="time, dimensionless", title=title)
        drawing.legend_below(ax, columns=3)
    axes[0].set(ylabel="mean energy E(H), dimensionless")
    caption = (
        f"Mean energy near the ergodic limit, T = {END:g}, {paths} paths of each method with the steps in the legend; "
        "bands are two standard errors. All methods agree with the averaged equation, which is still below the ergodic "
        "limit at the end."
    )
    return Picture(figure, caption)


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
    return full_size.seconds(VAN_DER_POL.problem, (*SQUARE, *WEAK, *TOO_LONG), PATHS, END)


STUDY = Study(
    "van-der-pol",
    KRAUS_TYRANOWSKI,
    "Figs 4.3, 4.4: the ergodic energy of van der Pol's oscillator",
    "Variational methods reach the ergodic energy with h = 0.2, where explicit methods need a tenth of that step: with "
    "h = 0.2 their limits are shifted, because the scheme adds to the growth of the oscillator, to values that can be "
    "predicted to a few per cent; runs with these steps warn (EnergyNotKept). The paper's "
    "H_erg is a sampled value; a stationary Fokker-Planck equation in two dimensions gives it without sampling. At T = "
    "5000 the mean energy has not settled yet: by the averaged equation it is 0.0017 below the limit, a little more "
    "than a standard error of the paper's million paths.",
    run,
    estimate,
)
