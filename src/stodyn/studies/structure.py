"""The invariants that each method keeps, measured: the symplectic form, phase-space volume, momenta."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from stodyn.analysis.system import conservation
from stodyn.analysis.system.conservation import Verdict
from stodyn.methods.catalogue import catalogue, find
from stodyn.methods.contract import Method
from stodyn.plot import GREEN, ORANGE
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KRAUS_TYRANOWSKI

TINY = ("Heun",)
PAPERS = ("Midpoint", "StoermerVerlet", "DIRK", "SRKw1", "SRKw2", "Heun", "R2", "E1", "RS1", "RS2")
CONFORMAL = ("StoermerVerlet", "ConformalVerlet", "Midpoint", "DIRK")
H, STEPS = 0.05, 200


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows: list[Row] = []
    steppers = {name: method for name, method in catalogue().items() if isinstance(method, Method)}
    verdicts: dict[str, Verdict] = {}
    twice: dict[str, float] = {}
    for name, method in steppers.items():
        if size is not Size.TINY or name in TINY:
            progress(f"{name}: symplectic form and volume")
            verdict = conservation.verdict(method)
            if not verdict.is_empty:
                verdicts[name] = verdict
            if size is not Size.TINY and name in PAPERS and (defect := two_channel_defect(name)) is not None:
                twice[name] = defect
    for name, verdict in verdicts.items():
        rows += verdict_rows(name, verdict)
    rows += [Row(f"{name}: max |J'ΩJ - Ω|, no forces, two channels", None, defect, remark=_word(defect), h=0.1)
             for name, defect in twice.items()]  # fmt: skip
    progress("conformal factors")
    rows += conformal_rows(CONFORMAL[: size.of(1, 4, 4)])
    for name in size.of(PAPERS[-1:], PAPERS, PAPERS):
        progress(f"{name}: angular momentum over {STEPS} steps")
        rows.append(momentum_row(name, size.of(2, STEPS, STEPS)))
    return StudyResult(rows, {"defects": picture(verdicts)})


def verdict_rows(name: str, own: Verdict) -> Iterator[Row]:
    of_form, of_qs1, of_qs2 = own.lengths
    if own.symplectic is not None:
        yield Row(f"{name}: max |J'ΩJ - Ω|, no forces", None, own.symplectic, remark=_word(own.symplectic), h=of_form)
    if own.qs1 is not None and own.qs2 is not None:
        verdict = "quasi-symplectic" if own.quasi_symplectic else "not quasi-symplectic"
        yield Row(f"{name}: QS1, defect without friction", None, own.qs1, remark=_word(own.qs1), h=of_qs1)
        yield Row(f"{name}: QS2, spread of det J over states", None, own.qs2, remark=verdict, h=of_qs2)


@functools.cache
def two_channels() -> Hamiltonian:
    """A system of two coordinates without forces, with two noise Hamiltonians that do not commute."""
    return Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * (q @ q) ** 2,
        [lambda t, q, p: 0.2 * jnp.sin(q[0]), lambda t, q, p: 0.3 * q[0] * q[1] + 0.1 * q[1]],
        start=([0.5, -0.3], [0.2, 0.6]),
    )


def two_channel_defect(name: str) -> float | None:
    """The symplectic defect of a step with two channels of noise, where the method takes them."""
    problem, method = two_channels(), _method(name)
    lowered = (problem, "") if isinstance(problem, method.accepts) else problem.lower(method.accepts)
    if lowered is None or method.refusal(lowered[0]) is not None:
        return None
    noise = conservation.draw_increment(method, 2, 0.1, seed=5)
    return conservation.symplecticity_defect(problem, method, problem.example_start(), noise)


def conformal_rows(names: tuple[str, ...]) -> Iterator[Row]:
    """A separable system of two coordinates with scalar friction, in the drift and in the noise."""
    damped = Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * jnp.sum(q**4) + 0.3 * q[0] * q[1],
        lambda t, q, p: 0.4 * jnp.sin(q[0]) + 0.1 * p[0] ** 2,
        lambda t, q, p: -0.7 * p,
        lambda t, q, p: -0.3 * p,
        start=([0.5, -0.3], [0.2, 0.6]),
    )
    for name in names:
        noise = conservation.draw_increment(_method(name), 1, 0.1, seed=5)
        factor = conservation.conformal_factor(damped, _method(name), damped.example_start(), noise)
        word = "conformal" if factor.defect < conservation.TOLERANCE else "not conformal"
        yield Row(f"{name}: conformal factor c", None, factor.factor, remark=f"the flow's is {factor.exact:.8g}", h=0.1)
        yield Row(f"{name}: max |J'ΩJ - cΩ|", None, factor.defect, remark=word, h=0.1)


def momentum_row(name: str, steps: int) -> Row:
    """A system invariant under rotations, with forces orthogonal to them."""
    rotating = Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * (q @ q) ** 2,
        lambda t, q, p: 0.15 * (0.5 * q @ q + 0.2 * (p @ p) * (q @ q)),
        lambda t, q, p: -0.3 * (q @ p) * q,
        lambda t, q, p: -0.05 * (q @ p) * q,
        start=([1.0, 0.2], [-0.3, 0.8]),
    )
    balance = conservation.momentum_balance(
        rotating, _method(name), lambda q: jnp.stack([-q[1], q[0]]), dt=H, steps=steps
    )
    verdict = "conserved" if balance.drift < conservation.TOLERANCE else "not conserved"
    quantity = f"{name}: max |L_k - L_0| of the angular momentum"
    return Row(quantity, None, balance.drift, remark=verdict, T=H * steps, h=H, paths=1)


def picture(verdicts: Mapping[str, Verdict]) -> Picture:
    """The defects of every method, on a logarithmic scale."""
    figure, axes = drawing.canvas(1, 3, size=(10.0, 1.2 + 0.19 * len(verdicts)), sharey=True, sharex=True)
    titles = ("symplectic form, no forces", "symplectic form, no friction (QS1)", "spread of volume (QS2)")
    for ax, title, kind in zip(axes, titles, ("symplectic", "qs1", "qs2"), strict=True):
        for row, verdict in enumerate(verdicts.values()):
            defect = getattr(verdict, kind)
            if defect is not None:
                is_kept = defect < conservation.TOLERANCE
                ax.plot(max(defect, 1e-18), row, "o" if is_kept else "X", color=GREEN if is_kept else ORANGE, ms=5)
        ax.axvline(conservation.TOLERANCE, color="k", lw=0.8)
        ax.set(xscale="log", xlabel="defect", title=title, xlim=(3e-19, 3.0), xticks=[1e-18, 1e-12, 1e-6, 1.0])
        ax.minorticks_off()
    axes[0].set_yticks(range(len(verdicts)), list(verdicts), fontsize="x-small")
    axes[0].set(ylim=(len(verdicts) - 0.5, -0.5), ylabel="method")
    caption = (
        "What every method of the catalogue preserves in one step of h = 0.1 (of 0.4 where the defect shows only "
        "there), one draw of its noise: a dot to the left of the line is rounding, a cross to the right of it is a "
        "defect. Where a place is empty, the method does not "
        "take that system."
    )
    return Picture(figure, caption)


def _method(name: str) -> Any:
    return find(name)


def _word(defect: float) -> str:
    return "symplectic" if defect < conservation.TOLERANCE else "not symplectic"


def estimate() -> float:
    """An estimate from one method that has not been compiled: most of the time goes into compiling."""
    began = time.perf_counter()
    conservation.verdict(_method("Midpoint"))
    steppers = sum(isinstance(method, Method) for method in catalogue().values())
    return (time.perf_counter() - began) * (steppers + len(CONFORMAL) + 2 * len(PAPERS))


STUDY = Study(
    "structure",
    KRAUS_TYRANOWSKI,
    "section 3: what each method of the catalogue conserves",
    "Without forces, the variational methods of the paper preserve the symplectic form, also with two channels of "
    "noise, and they are quasi-symplectic where the paper says so; its explicit methods do neither. (The defect of "
    "RKF78 is as small as rounding at h = 0.1, and shows at 0.4.) (3.54) to (3.58) are right with -γ "
    "for γ. With variational methods, forces orthogonal to a symmetry do not change its momentum.",
    run,
    estimate,
)
