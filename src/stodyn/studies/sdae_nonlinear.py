"""Küpper, Kværnø & Rößler, Fig. 6: mean-square errors of stiffly accurate Runge-Kutta methods on a nonlinear SDAE."""

from collections.abc import Callable
from pathlib import Path

from stodyn.models.differential_algebraic import NONLINEAR_DAE
from stodyn.studies.contract import Study, StudyResult
from stodyn.studies.sdae_linear import convergence


def run(full: bool, out: Path, progress: Callable[[str], None]) -> StudyResult:
    return convergence(NONLINEAR_DAE, "Fig. 6", full, progress)


STUDY = Study(
    "sdae-nonlinear",
    "Küpper, Kværnø & Rößler (2012), Fig. 6: errors on a nonlinear SDAE of index 1",
    run,
    lambda: 120.0,
)
