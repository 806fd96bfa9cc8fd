"""The table of conversions: how a problem of one kind is written as one of another kind with the same law.

`Problem.lower` looks its own class up in the table, then those that the class is derived from, so that kinds of
problems need not know each other. Kinds that are derived from these, and those of circuits and users, enter their rows
themselves. A row is a function of the problem; it returns the new problem and the conversion in words, or None where
this problem has no such form.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from stodyn.numerics.facts.dependence import FOLLOWED
from stodyn.problems import contract
from stodyn.problems.as_first_order import hamiltonian_to_sde, mechanical_to_sdae, mechanical_to_sde, sdae_to_sde
from stodyn.problems.calculus import correction, to_ito, to_stratonovich
from stodyn.problems.contract import Problem
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE

__all__ = ["correction", "to_ito", "to_stratonovich"]


def _with_unit_mass(problem: SDE) -> tuple[SDAE, str]:
    """Write an SDE as the SDAE with M = 1, for methods that take SDAEs."""
    sde = to_ito(problem)
    start = sde.start_source.mapped(lambda rows: rows).argument
    is_large = sde.n > FOLLOWED
    mass: Any = scipy.sparse.eye_array(sde.n) if is_large else np.eye(sde.n)
    diffusion = sde.multiplier if is_large else sde.g
    sdae = SDAE(mass, sde.f, diffusion, start, sde.params, sde.components, sde.component_units, sde.structure)
    if is_large:  # the state-space form is the SDE itself
        vars(sdae)["noise_structure"] = sde.noise_structure
    changed = "" if problem.calculus == "ito" else ", stratonovich -> ito"
    return sdae, f"SDE -> SDAE with M = 1{changed}"


TABLE: dict[tuple[type, type], Callable[[Any], tuple[Problem, str] | None]] = {
    (SDE, SDAE): _with_unit_mass,
    (SDAE, SDE): sdae_to_sde,
    (Mechanical, SDE): mechanical_to_sde,
    (Mechanical, SDAE): mechanical_to_sdae,
    (Hamiltonian, SDE): hamiltonian_to_sde,
}
contract.conversions.update(TABLE)
