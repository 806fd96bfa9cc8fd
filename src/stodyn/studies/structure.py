"""Which methods keep what: symplecticity and quasi-symplecticity of the whole catalogue, measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stodyn.analysis import conservation
from stodyn.methods.catalogue import catalogue
from stodyn.methods.contract import Method
from stodyn.studies.contract import Row, Study, StudyResult

SMALL = ("Midpoint", "StoermerVerlet", "DIRK", "SRKw1", "SRKw2", "ConformalVerlet", "ShiftedVerlet", "AdditiveDIRK",
         "ImplicitMidpoint", "Heun", "R2", "E1", "RS1", "RS2", "EulerMaruyama")  # fmt: skip


def run(full: bool, out: Path, progress: Callable[[str], None]) -> StudyResult:
    rows = []
    for name, method in catalogue().items():
        if not isinstance(method, Method) or not (full or name in SMALL):
            continue
        progress(name)
        found = conservation.verdict(method)
        if found.symplectic is not None:
            rows.append(
                Row(f"{name}: max |J'ΩJ - Ω|, no forces", None, found.symplectic, remark=_word(found.symplectic))
            )
        if found.qs1 is not None and found.qs2 is not None:
            verdict = "quasi-symplectic" if found.quasi_symplectic else "not quasi-symplectic"
            rows.append(Row(f"{name}: QS1, defect without friction", None, found.qs1, remark=_word(found.qs1)))
            rows.append(Row(f"{name}: QS2, spread of det J over states", None, found.qs2, remark=verdict))
    return StudyResult(rows)


def _word(defect: float) -> str:
    return "symplectic" if defect < conservation.TOLERANCE else "not symplectic"


STUDY = Study(
    "structure", "Kraus & Tyranowski (2021), section 3.5: what every method of the catalogue keeps", run, lambda: 120.0
)
