"""The invariants that each method keeps, measured: the symplectic form, phase-space volume, momenta."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.analysis import conservation
from stodyn.methods.catalogue import catalogue, find
from stodyn.methods.contract import Method
from stodyn.noise.increment import Increment
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.studies.contract import Row, Size, Study, StudyResult

TINY = ("StoermerVerlet", "Heun")
SMALL = (
    "Midpoint",
    "StoermerVerlet",
    "DIRK",
    "SRKw1",
    "ConformalVerlet",
    "AdditiveDIRK",
    "Heun",
    "R2",
    "E1",
    "RS1",
    "RS2",
)
PAPERS = ("Midpoint", "StoermerVerlet", "DIRK", "SRKw1", "SRKw2", "Heun", "R2", "E1", "RS1", "RS2")
CONFORMAL = ("StoermerVerlet", "ConformalVerlet", "Midpoint", "DIRK")
STEPS = 200


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows: list[Row] = []
    steppers = {name: method for name, method in catalogue().items() if isinstance(method, Method)}
    for name, method in steppers.items():
        if name in size.of(TINY, SMALL, tuple(steppers)):
            progress(f"{name}: symplectic form and volume")
            rows += verdict_rows(name, method)
    progress("conformal factors")
    rows += conformal_rows(CONFORMAL[: size.of(1, 2, 4)])
    for name in size.of(PAPERS[-1:], (*PAPERS[:2], *PAPERS[-1:]), PAPERS):
        progress(f"{name}: angular momentum over {STEPS} steps")
        rows.append(momentum_row(name))
    return StudyResult(rows)


def verdict_rows(name: str, method: Method) -> Iterator[Row]:
    found = conservation.verdict(method)
    if found.symplectic is not None:
        yield Row(f"{name}: max |J'ΩJ - Ω|, no forces", None, found.symplectic, remark=_word(found.symplectic))
    if found.qs1 is not None and found.qs2 is not None:
        verdict = "quasi-symplectic" if found.quasi_symplectic else "not quasi-symplectic"
        yield Row(f"{name}: QS1, defect without friction", None, found.qs1, remark=_word(found.qs1))
        yield Row(f"{name}: QS2, spread of det J over states", None, found.qs2, remark=verdict)


def conformal_rows(names: tuple[str, ...]) -> Iterator[Row]:
    """A separable system of two coordinates with scalar friction, in the drift and in the noise."""
    damped = Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * jnp.sum(q**4) + 0.3 * q[0] * q[1],
        lambda t, q, p: 0.4 * jnp.sin(q[0]) + 0.1 * p[0] ** 2,
        lambda t, q, p: -0.7 * p,
        lambda t, q, p: -0.3 * p,
        start=([0.5, -0.3], [0.2, 0.6]),
    )
    noise = Increment(0.1, np.array([0.3]))  # type: ignore[arg-type]
    for name in names:
        found = conservation.conformal_factor(damped, _method(name), damped.example_start(), noise)
        word = "conformal" if found.defect < conservation.TOLERANCE else "not conformal"
        yield Row(f"{name}: conformal factor c", None, found.factor, remark=f"the flow's is {found.exact:.8g}")
        yield Row(f"{name}: max |J'ΩJ - cΩ|", None, found.defect, remark=word)


def momentum_row(name: str) -> Row:
    """A system invariant under rotations, with forces orthogonal to them."""
    rotating = Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * (q @ q) ** 2,
        lambda t, q, p: 0.15 * (0.5 * q @ q + 0.2 * (p @ p) * (q @ q)),
        lambda t, q, p: -0.3 * (q @ p) * q,
        lambda t, q, p: -0.05 * (q @ p) * q,
        start=([1.0, 0.2], [-0.3, 0.8]),
    )
    found = conservation.momentum_balance(
        rotating, _method(name), lambda q: jnp.stack([-q[1], q[0]]), dt=0.05, steps=STEPS
    )
    kept = "kept" if found.drift < 1e-13 else "not kept"
    return Row(f"{name}: max |L_k - L_0| of the angular momentum", None, found.drift, remark=kept)


def _method(name: str) -> Any:
    return find(name)


def _word(defect: float) -> str:
    return "symplectic" if defect < conservation.TOLERANCE else "not symplectic"


def estimate() -> float:
    """An estimate from one method that has not been compiled: most of the time goes into compiling."""
    began = time.perf_counter()
    list(verdict_rows("Midpoint", _method("Midpoint")))
    steppers = sum(isinstance(method, Method) for method in catalogue().values())
    return (time.perf_counter() - began) * (steppers + len(CONFORMAL) + 2 * len(PAPERS))


STUDY = Study(
    "structure", "Kraus & Tyranowski (2021), section 3: what each method of the catalogue conserves", run, estimate
)
