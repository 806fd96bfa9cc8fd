"""A five-storey building on shaking ground: floor accelerations, and when a drift first passes its limit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import stodyn as sd
from stodyn import plot
from stodyn.methods.classical import RK4
from stodyn.models.shear_building import SHEAR_BUILDING, floor_accelerations, matrices
from stodyn.statistics import Moments, Observable, Passage
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN

STEP, END, EVERY = 0.005, 20.0, 40  # s, s, and steps between observations: every 0.2 s
LIMITS = (2.5, 3.0, 3.5)  # limits of the first storey's drift, in standard deviations
STOREYS = 5


def run(size: Size, out: Path, progress) -> StudyResult:
    paths, end = size.of((64, 1.0), (20_000, END), (100_000, END))
    progress(f"{paths} paths over {end:g} s")
    motion = shaken(paths, end)
    drifts, accelerations = SHEAR_BUILDING.exact["stationary_covariance"](), exact_acceleration_variance()

    def rms(quantity: str, unit: float, estimate: Iterable[float], exact: float) -> Row:
        variance, stderr = estimate
        size = unit * math.sqrt(variance)
        return Row(
            quantity, None, size, 0.5 * size * stderr / variance, f"exact {unit * math.sqrt(exact):.4g}", **setting
        )

    setting, rows = of_run(motion), []
    for i in range(STOREYS):
        estimate = (float(motion[f"acceleration_variance{word}"][-1, i]) for word in ("", "_stderr"))
        rows.append(rms(f"rms acceleration of floor {i + 1} [m/s²]", 1.0, estimate, accelerations[i]))
    for i in range(STOREYS):
        estimate = (float(motion[word].sel(component=f"drift{i + 1}")[-1]) for word in ("variance", "variance_stderr"))
        rows.append(rms(f"rms drift of storey {i + 1} [mm]", 1e3, estimate, drifts[i, i]))
    for limit in LIMITS:
        alive, stderr = (float(motion[f"{_name(limit)}_survival{word}"][-1]) for word in ("", "_stderr"))
        rice = f"{poisson_survival(limit, end):.4g} if crossings were independent (Rice)"
        rows.append(Row(f"P(drift of storey 1 below {limit:g} σ for {end:g} s)", None, alive, stderr, rice, **setting))
    return StudyResult(rows, {"accelerations": _accelerations_picture(motion), "passages": _passages_picture(motion)})


def shaken(paths: int, end: float = END, seed: int = 1940):
    """Moments, floor accelerations and first passages of a building initially at rest."""
    parameters = {name: SHEAR_BUILDING.parameters[name] for name in ("storeys", "mass", "stiffness", "damping")}
    K, D = matrices(**parameters)
    n = STOREYS
    floors = np.cumsum(-np.concatenate([K, D], axis=1), axis=0)
    σ = math.sqrt(SHEAR_BUILDING.exact["stationary_covariance"]()[0, 0])
    collect = [
        Moments(every=EVERY),
        Observable(lambda t, z: floors @ z[: 2 * n], name="acceleration", every=EVERY),
        *(Passage(limit * σ, "drift1", name=_name(limit), every=EVERY, mean=False) for limit in LIMITS),
    ]
    return sd.simulate(SHEAR_BUILDING.problem, RK4, t=(0.0, end), dt=STEP, paths=paths, seed=seed, collect=collect,
                       progress=False)  # fmt: skip


def exact_acceleration_variance() -> np.ndarray:
    """The stationary variances (storeys,) of the floors' absolute accelerations."""
    parameters = {name: SHEAR_BUILDING.parameters[name] for name in ("storeys", "mass", "stiffness", "damping")}
    P = SHEAR_BUILDING.exact["stationary_covariance"]()
    H = floor_accelerations(np.eye(len(P)), **parameters).T
    return np.diagonal(H @ P @ H.T)


def poisson_survival(limit: float, end: float) -> float:
    """exp(-ν end) with Rice's rate ν = (σ_v/σ_d) exp(-limit²/2)/2π of crossings of limit · σ_d from below."""
    P = SHEAR_BUILDING.exact["stationary_covariance"]()
    rate = math.sqrt(P[STOREYS, STOREYS] / P[0, 0]) * math.exp(-0.5 * limit**2) / (2.0 * math.pi)
    return math.exp(-rate * end)


def _name(limit: float) -> str:
    return f"limit_{10 * limit:g}"


def _accelerations_picture(result) -> Picture:
    figure, ax = drawing.canvas(size=(7.6, 4.0))
    t, setting = result["time"].values, of_run(result)
    for i, (color, exact) in enumerate(zip(plot.PALETTE, exact_acceleration_variance(), strict=False)):
        variance, stderr = (result[f"acceleration_variance{word}"][:, i].values for word in ("", "_stderr"))
        rms = np.sqrt(variance)
        drawing.error_band(ax, t, rms, 0.5 * stderr / np.maximum(rms, 1e-12), color=color, label=f"floor {i + 1}")
        ax.axhline(math.sqrt(exact), color=color, lw=0.8, ls="--")
    ax.set(xlabel="time [s]", ylabel="rms acceleration [m/s²]")
    drawing.legend(figure)
    caption = (
        f"Accelerations of the five floors after a start at rest: RK4, T = {setting['T']:g} s, h = {setting['h']:g} s, "
        f"{setting['paths']} paths, bands of two standard errors; dashed, the exact values in the long run."
    )
    return Picture(figure, caption)


def _passages_picture(result) -> Picture:
    figure, ax = drawing.canvas(size=(7.6, 4.0))
    t, setting = result["time"].values, of_run(result)
    for color, limit in zip(plot.PALETTE, LIMITS, strict=False):
        alive, stderr = (result[f"{_name(limit)}_survival{word}"] for word in ("", "_stderr"))
        drawing.error_band(ax, t, alive, stderr, color=color, label=f"{limit:g} σ")
        ax.plot(t, [poisson_survival(limit, s) for s in t], color=color, lw=0.8, ls="--")
    ax.plot([], [], color=plot.GREY, lw=0.8, ls="--", label="Rice")
    ax.set(xlabel="time [s]", ylabel="probability not yet passed")
    drawing.legend(figure)
    caption = (
        f"The drift of the first storey and its limits, in standard deviations: RK4, h = {setting['h']:g} s, "
        f"{setting['paths']} paths, bands of two standard errors; dashed, as if crossings were independent (Rice)."
    )
    return Picture(figure, caption)


def estimate() -> float:
    began = time.perf_counter()
    shaken(2_000)
    return 50.0 * (time.perf_counter() - began)


STUDY = Study(
    "ground-motion",
    OWN,
    "a five-storey building under Kanai-Tajimi ground motion: accelerations, first passage",
    "Accelerations and drifts reach their exact stationary values. Crossings of a limit come in clumps, so Rice's "
    "formula for independent crossings predicts that the limit is passed earlier than it really is.",
    run,
    estimate,
)
