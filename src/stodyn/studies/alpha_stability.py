"""Rajan & Raha, sections 4 and 6: stability and dissipation of the stochastic α method, as claimed and as computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from stodyn import plot
from stodyn.analysis import second_order
from stodyn.analysis.second_order import amplification, dissipation, largest_step
from stodyn.methods.alpha import HHT, WBZ, StochasticAlpha
from stodyn.models.oscillators import growth
from stodyn.studies.contract import Row, Size, Study, StudyResult

RHOS = (0.0, 0.5, 0.8, 1.0)
OMEGA = np.logspace(-2, 3, 200)


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows: list[Row] = []
    progress("dissipation without noise")
    figures = {"dissipation": dissipation_picture()}
    for rho in RHOS:
        radius = float(dissipation(StochasticAlpha(rho=rho), np.array([1e4])).radius[0])
        rows.append(Row(f"ρ = {rho:g}: spectral radius of A_d at Ω = 1e4", rho, radius, None, "tends to ρ as Ω → ∞"))
    pairs = [(rho, Ω) for rho in RHOS for Ω in (0.1, 1.0, 10.0)]
    read = [amplification(StochasticAlpha(rho=rho), Ω, 1.0).deterministic for rho, Ω in pairs]
    gap = np.abs(np.array(read) - [second_order.closed_amplification(*pair) for pair in pairs]).max()
    rows.append(Row("A_d against (12), sign of entry (1, 3) corrected", None, float(gap), None, "largest difference"))
    progress("mean square")
    figures["mean-square"] = mean_square_picture()
    for eta, chi in ((0.5, 0.0), (0.0, 1.0), (0.5, 1.0)):
        step = amplification(StochasticAlpha(rho=0.8), 3.0, 1e-3, eta, chi)
        rate = math.log(step.mean_square_radius) / 1e-3
        exact = growth(omega=3.0, eta=eta, chi=chi)
        rows.append(Row(f"ω = 3, η = {eta:g}, χ = {chi:g}: growth of second moments, h = .001", "decay", rate, None,
                        f"the equation itself: {exact:.6f}; Theorem 4.3 cannot hold"))  # fmt: skip
    cases = ((3.0, 0.01, 0.5, 0.0), (3.0, 0.01, 0.0, 1.0), (100.0, 0.1, 1.0, 0.0))
    for omega, h, eta, chi in cases[: size.of(1, 2, 3)]:
        progress(f"lemmas at ω = {omega:g}, h = {h:g}, η = {eta:g}, χ = {chi:g}")
        where = f"ω = {omega:g}, h = {h:g}, η = {eta:g}, χ = {chi:g}"
        for lemma in second_order.lemmas(StochasticAlpha(rho=0.8), omega, h, eta, chi, 0.8):
            verdict = "holds" if lemma.holds else "does not hold"
            rows.append(Row(f"{where}: {lemma.name}", lemma.printed, lemma.true, lemma.stderr or None, verdict))
    for omega, eta, rho in ((30.0, 0.5, 0.8), (30.0, 0.5, 0.0))[: size.of(1, 1, 2)]:
        progress(f"largest stable step at ω = {omega:g}, η = {eta:g}, ρ = {rho:g}")
        found = largest_step(omega, eta, 0.0, rho, simulate=size is Size.FULL)
        name = f"ω = {omega:g}, η = {eta:g}, ρ = {rho:g}: stable steps"
        words = "none" if found.mean_square is None else "{:.4g} to {:.4g}".format(*found.mean_square)
        rows.append(
            Row(f"{name} in mean square", found.paper or "none", words, None, "paper: the largest by its inequality")
        )
        if found.almost_surely is not None:
            rows.append(
                Row(f"{name} almost surely", None, "{:.3g} to {:.3g}".format(*found.almost_surely), None, "simulated")
            )
    return StudyResult(rows, figures)


def dissipation_picture() -> Figure:
    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    methods = {f"ρ = {rho:g}": StochasticAlpha(rho=rho) for rho in RHOS} | {"HHT, ρ = 0.8": HHT, "WBZ, ρ = 0.8": WBZ}
    for k, (label, method) in enumerate(methods.items()):
        found, colour = dissipation(method, OMEGA), plot.PALETTE[k % len(plot.PALETTE)]
        style = {"color": colour, "label": label, "ls": "-" if k < len(RHOS) else "--"}
        low = OMEGA < 3.0
        axes[0].semilogx(OMEGA, found.radius, **style)
        axes[1].plot(OMEGA[low], found.period_elongation[low], **style)
        axes[2].plot(OMEGA[low], found.damping[low], **style)
    for ax, name in zip(axes, ("spectral radius", "period elongation", "algorithmic damping ratio"), strict=True):
        ax.set(xlabel="ω h", ylabel=name)
    axes[0].legend(fontsize=8)
    return figure


def mean_square_picture() -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    h, range_of = 0.1, np.logspace(-2, 3, 60)
    for ax, eta in zip(figure.subplots(1, 2, sharey=True), (0.2, 1.0), strict=True):
        for k, rho in enumerate(RHOS):
            radii = [amplification(StochasticAlpha(rho=rho), Ω / h, h, eta).mean_square_radius for Ω in range_of]
            ax.semilogx(range_of, radii, color=plot.PALETTE[k], label=f"ρ = {rho:g}")
        exact = [math.exp(h * growth(omega=Ω / h, eta=eta, chi=0.0)) for Ω in range_of]
        ax.semilogx(range_of, exact, "k:", label="the equation itself")
        ax.set(xlabel="ω h", ylabel="mean-square radius", title=f"h = {h:g}, η = {eta:g}")
        ax.legend(fontsize=8)
    return figure


def estimate() -> float:
    return 240.0


STUDY = Study("alpha-stability", "Rajan & Raha, sections 4 and 6: stability and dissipation", run, estimate)
