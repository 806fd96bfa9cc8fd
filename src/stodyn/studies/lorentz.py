"""Figures 4.10 and 4.11 of Kraus & Tyranowski (2021): the energy under the Lorentz collision operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from stodyn.analysis.system.conservation import energy_of
from stodyn.engine.simulate import simulate
from stodyn.models.lorentz_collisions import LORENTZ_COLLISIONS
from stodyn.statistics.change import Change
from stodyn.statistics.paths import Paths
from stodyn.studies import drawing, full_size
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KRAUS_TYRANOWSKI

STRONG = (("Midpoint", 0.05), ("StoermerVerlet", 0.05), ("DIRK", 0.05), ("Heun", 0.01), ("R2", 0.01), ("E1", 0.01))
WEAK = (("SRKw1", 0.05), ("SRKw2", 0.05), ("RS1", 0.01), ("RS2", 0.01))
FINE = (("RS1", 0.002), ("RS2", 0.002))  # the paper's steps of these two, at full size
ENERGY = energy_of(LORENTZ_COLLISIONS.problem)
LONG, WEAK_END, PATHS, SMALL = 100_000.0, 10_000.0, 1_000_000, 4096


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    full, rows = size is Size.FULL, []
    strong, weak = size.of((STRONG[1:2], WEAK[2:3]), (STRONG, WEAK), (STRONG, (*WEAK, *FINE)))
    end = size.of(1.0, 200.0, LONG)
    lone, ax = drawing.canvas(size=(8.0, 4.4))
    for style, (name, h) in zip(drawing.styles(), strong, strict=False):
        progress(f"{name}, h = {h:g}, one path to {end:g}")
        t, H = one_path(name, h, end)
        rows.append(Row(f"{name}, h = {h:g}: largest |H(t) - H(0)| of one path to {end:g}", 0.0,
                        float(np.abs(H - H[0]).max()), remark="no path of the system changes H", T=end, h=h,
                        paths=1))  # fmt: skip
        ax.plot(t, H, **style, label=f"{name}, h = {h:g}")
    ax.set(xlabel="time", ylabel="energy H of one path")
    drawing.legend(lone)
    one = Picture(
        lone,
        f"The energy of one path, the same Brownian path for all methods, T = {end:g}, h in the legend; the system "
        "itself conserves H.",
    )
    crowd, ax = drawing.canvas(size=(8.0, 4.4))
    ax.axhline(1.0, color="k", ls=":", lw=1.5, label="exact")
    end, look = size.of(1.0, 20.0, WEAK_END), drawing.styles()
    for name, h in (*weak, *strong):
        paths = (
            full_size.affordable(LORENTZ_COLLISIONS.problem, name, h, end, PATHS) if full else size.of(64, SMALL, PATHS)
        )
        progress(f"{name}, h = {h:g}, {paths} paths to {end:g}")
        result = simulate(LORENTZ_COLLISIONS.problem, name, t=(0.0, end), dt=h, paths=paths, seed=53, progress=False,
                         collect=Change(ENERGY, name="change", every=max(round(end / h) // 50, 1)))  # fmt: skip
        mean, stderr, rms = (float(result[v][-1]) for v in ("change", "change_stderr", "change_rms"))
        remark = "; ".join(filter(None, (f"rms {rms:.2g}", full_size.remark(paths, PATHS) if full else "")))
        rows.append(Row(f"{name}, h = {h:g}: E(H)({end:g}) - E(H)(0)", 0.0, mean, stderr, remark, T=end, h=h,
                        paths=paths))  # fmt: skip
        if (name, h) in weak:
            drawing.error_band(ax, result["time"], 1.0 + result["change"], result["change_stderr"], **next(look),
                               label=f"{name}, h = {h:g}")  # fmt: skip
    ax.set(xlabel="time", ylabel="1 + E(H(t) - H(0))")
    drawing.legend(crowd)
    many = Picture(
        crowd,
        f"Mean energy of the weak methods, T = {end:g}, {paths} paths, h in the legend; bands are two standard errors.",
    )
    return StudyResult(rows, {"fig4-10": one, "fig4-11": many})


def one_path(name: str, h: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """500 times, and H of one path at them."""
    result = simulate(LORENTZ_COLLISIONS.problem, name, t=(0.0, end), dt=h, paths=1, seed=53, progress=False,
                     collect=Paths(1, every=max(round(end / h) // 500, 1)))  # fmt: skip
    params = LORENTZ_COLLISIONS.problem.params
    with jax.enable_x64(True):
        H = jax.vmap(lambda t, x: ENERGY(t, x, params))(result["time"].values, result["path"].values[0])
    return result["time"].values, np.asarray(H)


def estimate() -> float:
    one_path("DIRK", 0.05, 100.0)
    began = time.perf_counter()
    one_path("DIRK", 0.05, 100.0)
    alone = (time.perf_counter() - began) / 2000
    many = full_size.seconds(LORENTZ_COLLISIONS.problem, (*WEAK, *FINE, *STRONG), PATHS, WEAK_END)
    return many + alone * sum(LONG / h for _, h in STRONG)


STUDY = Study(
    "lorentz",
    KRAUS_TYRANOWSKI,
    "Figs 4.10, 4.11: the energy under Lorentz collisions",
    "Collisions turn the velocity but conserve the energy. The variational methods nearly conserve it, without a "
    "drift; the explicit methods drift. This holds with f = √(2ν) (V_y, -V_x); as (4.16) is printed, with V_x and V_y "
    "exchanged, the noise changes the energy itself.",
    run,
    estimate,
)
