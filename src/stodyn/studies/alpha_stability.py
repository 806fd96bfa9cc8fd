"""Rajan & Raha, sections 4 and 6: stability and dissipation of the stochastic α method, as claimed and as computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stodyn.analysis.step import second_order
from stodyn.analysis.step.second_order import amplification, dissipation, largest_stable_step
from stodyn.methods.alpha import HHT, WBZ, StochasticAlpha
from stodyn.models.oscillators import growth
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import RAJAN_RAHA

RHOS = (0.0, 0.5, 0.8, 1.0)


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows: list[Row] = []
    progress("dissipation without noise")
    figures = {"dissipation": dissipation_picture(size.of(10, 200, 200))}
    for rho in RHOS:
        radius = float(dissipation(StochasticAlpha(rho=rho), np.array([1e4])).radius[0])
        rows.append(Row(f"ρ = {rho:g}: spectral radius of A_d at Ω = 1e4", rho, radius, None, "tends to ρ as Ω → ∞"))
    pairs = [(rho, Ω) for rho in RHOS for Ω in (0.1, 1.0, 10.0)]
    read = [amplification(StochasticAlpha(rho=rho), Ω, 1.0).deterministic for rho, Ω in pairs]
    gap = np.abs(np.array(read) - [second_order.closed_amplification(*pair) for pair in pairs]).max()
    rows.append(Row("A_d against (12), sign of entry (1, 3) corrected", None, float(gap), None, "largest difference"))
    progress("mean square")
    figures["mean-square"] = mean_square_picture(size.of(3, 60, 60))
    for eta, chi in ((0.5, 0.0), (0.0, 1.0), (0.5, 1.0)):
        step = amplification(StochasticAlpha(rho=0.8), 3.0, 1e-3, eta, chi)
        rate = math.log(step.mean_square_radius) / 1e-3
        exact = growth(omega=3.0, eta=eta, chi=chi)
        rows.append(Row(f"ω = 3, η = {eta:g}, χ = {chi:g}: growth of second moments, h = .001", "decay", rate, None,
                        f"the equation itself: {exact:.6f}; Theorem 4.3 cannot hold", h=1e-3))  # fmt: skip
    draws = size.of(2000, 200_000, 200_000)
    cases = ((3.0, 0.01, 0.5, 0.0), (3.0, 0.01, 0.0, 1.0), (100.0, 0.1, 1.0, 0.0))
    for omega, h, eta, chi in cases[: size.of(1, 2, 3)]:
        progress(f"lemmas at ω = {omega:g}, h = {h:g}, η = {eta:g}, χ = {chi:g}")
        where = f"ω = {omega:g}, h = {h:g}, η = {eta:g}, χ = {chi:g}"
        for lemma in second_order.lemmas(StochasticAlpha(rho=0.8), omega, h, eta, chi, 0.8, draws):
            verdict = "holds" if lemma.holds else "does not hold"
            T, paths = (4000 * h, 400) if "exponent" in lemma.name else (h, draws)
            setting: dict[str, Any] = {"T": T, "h": h, "paths": paths} if lemma.stderr else {"h": h}
            rows.append(
                Row(f"{where}: {lemma.name}", lemma.printed, lemma.true, lemma.stderr or None, verdict, **setting)
            )
    for omega, eta, rho in ((30.0, 0.5, 0.8), (30.0, 0.5, 0.0))[: size.of(1, 1, 2)]:
        progress(f"largest stable step at ω = {omega:g}, η = {eta:g}, ρ = {rho:g}")
        limit = largest_stable_step(omega, eta, 0.0, rho, simulate=size is Size.FULL)
        name = f"ω = {omega:g}, η = {eta:g}, ρ = {rho:g}: stable steps"
        words = "none" if limit.mean_square is None else "{:.4g} to {:.4g}".format(*limit.mean_square)
        rows.append(
            Row(f"{name} in mean square", limit.paper or "none", words, None, "paper: the largest by its inequality")
        )
        if limit.almost_surely is not None:
            rows.append(
                Row(f"{name} almost surely", None, "{:.3g} to {:.3g}".format(*limit.almost_surely), None, "simulated")
            )
    return StudyResult(rows, figures)


def dissipation_picture(points: int) -> Picture:
    range_of = np.logspace(-2, 3, points)
    figure, axes = drawing.canvas(1, 3, size=(11.0, 4.2))
    methods = {f"ρ = {rho:g}": StochasticAlpha(rho=rho) for rho in RHOS} | {"HHT, ρ = 0.8": HHT, "WBZ, ρ = 0.8": WBZ}
    low = range_of < 3.0
    for style, (label, method) in zip(drawing.styles(), methods.items(), strict=False):
        measures = dissipation(method, range_of)
        axes[0].semilogx(range_of, measures.radius, **style, label=label)
        axes[1].plot(range_of[low], measures.period_elongation[low], **style)
        axes[2].plot(range_of[low], measures.damping[low], **style)
    names = ("spectral radius", "relative period elongation", "algorithmic damping ratio")
    for ax, name in zip(axes, names, strict=True):
        ax.set(xlabel="angular frequency times step, ωh", ylabel=name)
    drawing.legend(figure, columns=6)
    caption = (
        "Without noise, computed: the spectral radius of a step on x'' = -ω²x, which tends to ρ for long steps, how "
        "much longer the period is than the true one, and the damping that the method adds."
    )
    drawing.note(figure, "computed for every h, without paths")
    return Picture(figure, caption)


def mean_square_picture(points: int) -> Picture:
    figure, axes = drawing.canvas(1, 2, size=(10.0, 4.2), sharey=True)
    h, range_of = 0.1, np.logspace(-2, 3, points)
    for ax, eta in zip(axes, (0.2, 1.0), strict=True):
        for style, rho in zip(drawing.styles(), RHOS, strict=False):
            radii = [amplification(StochasticAlpha(rho=rho), Ω / h, h, eta).mean_square_radius for Ω in range_of]
            ax.semilogx(range_of, radii, **style, label=f"ρ = {rho:g}")
        exact = [math.exp(h * growth(omega=Ω / h, eta=eta, chi=0.0)) for Ω in range_of]
        ax.semilogx(range_of, exact, "k:", lw=1.5, label="the equation itself")
        ax.set(xlabel="angular frequency times step, ωh", title=f"η = {eta:g}")
    axes[0].set(ylabel="growth of second moments in a step")
    drawing.legend(figure, columns=5)
    caption = (
        f"The factor by which second moments grow in a step of h = {h:g} on x'' = -ω²x + η x' ξ, computed. The "
        "equation itself grows (dotted, above 1); a method that dissipates (ρ < 1) hides this at high frequencies."
    )
    drawing.note(figure, f"h = {h:g}, computed without paths")
    return Picture(figure, caption)


def estimate() -> float:
    return 240.0


STUDY = Study(
    "alpha-stability",
    RAJAN_RAHA,
    "sections 4 and 6: stability and dissipation",
    "Without noise the method is that of Chung and Hulbert and dissipates according to ρ; entry (1, 3) of (12) has the "
    "wrong sign. Theorem 4.3 promises decay in mean square, but the noisy oscillator itself grows, and so does every "
    "consistent method. Some of the lemmas on the norm of the noise hold and some do not, as the table shows; the "
    "inequality for the largest step is unrelated to the true limits.",
    run,
    estimate,
)
