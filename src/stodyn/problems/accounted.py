"""The energy of a structure beside its state: input, dissipation, stored energy and residual.

E_in = T + U + D,   T = v'Mv/2,   U = x'Kx/2,   D = ∫ v'C v dt,   E_in = ∫ v'(Γ y + load) dt + ∫ v'B ∘ dW
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import checks_arguments
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.known_matrices import Product, is_symmetric
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical

NAMES = ("kinetic", "strain", "dissipated", "input", "residual")


@dataclasses.dataclass(frozen=True, eq=False)
class Accounted(Measured):
    """A structure with its energies as further components; made by `with_energy`."""

    made_by = "with_energy"

    def draw_start(self, rng: np.random.Generator, paths: range) -> np.ndarray:
        x = self.problem.draw_start(rng, paths)
        return np.concatenate([x, np.zeros((len(paths), len(NAMES)))], axis=1)

    @property
    def structure(self) -> Any:
        """The structure without its coloured loads."""
        return self.problem.own

    def held(self, x: Any, v: Any) -> tuple[Any, Any]:
        """Kinetic and strain energy at a state."""
        M, _, K = (Product(matrix) for matrix in self.structure.matrices)
        return 0.5 * v @ M(v), 0.5 * x @ K(x)

    def losses(self, v: Any) -> Any:
        """The power that dampers dissipate at a velocity."""
        C = self.structure.matrices.C
        return v @ Product(C)(v) if C.nnz else jnp.zeros((), v.dtype)


@checks_arguments
def with_energy(problem: Mechanical) -> Accounted:
    """Return a structure with its energies as components: "kinetic", "strain", "dissipated", "input" and "residual".

    The methods of the α family keep the account. Dissipation is integrated by the trapezoidal rule; the input is the
    impulse of each step times the mean of the velocities at its ends, which for white noise is Stratonovich's product
    and holds the ½ tr(B'M⁻¹B) per unit of time that such noise feeds in. The residual, input - dissipated - change of
    kinetic and strain energy, is the energy that the integrator itself created or lost: small where steps are short
    enough.

    Parameters
    ----------
    problem : Mechanical
        A linear structure of `Mechanical.from_matrices`, with or without coloured loads; its white noise must be
        constant.

    Returns
    -------
    Accounted
        The components of a run are those of the structure, then the five energies.

    Raises
    ------
    TypeError
        If the problem is not such a structure.
    ValueError
        If energy enters that is not accounted for: by white noise or a coloured force that depends on the state, by a
        constraint that moves, or in coordinates without inertia; and if components have the names of the energies.
    """
    if not isinstance(problem, Mechanical) or not problem.own.is_linear:
        raise TypeError(
            "problem: expected a linear structure made by Mechanical.from_matrices: for other forces it is unknown "
            "which part is strain and which is loss"
        )
    own = problem.own
    if not is_symmetric(own.matrices.K):
        raise ValueError("problem: K is not symmetric; the work of circulatory forces is not the change of an energy")
    if own.m and not own.facts.additive:
        raise ValueError(
            "problem: its white noise depends on the state; the energy that it feeds in is not accounted for"
        )
    if own.joints is not None and own.joints.moves:
        raise ValueError(
            "problem: a constraint moves with time; the work that it does is not accounted for, and would stand in the "
            "residual"
        )
    if not own.motion.is_regular:
        raise ValueError("problem: has coordinates without inertia, whose energy is not accounted for")
    if isinstance(problem, DrivenMechanical) and problem.pushes_by_state:
        raise ValueError(
            "problem: the coloured force depends on the state; the energy that it feeds in is not accounted for"
        )
    clashes = sorted(set(NAMES) & set(problem.components or ()))
    if clashes:
        raise ValueError(f"problem: already has components called {clashes}; give it other names")
    names = (*(problem.components or ()), *NAMES)
    zeros = np.zeros((len(NAMES), problem.n))
    return Accounted(problem, zeros, np.eye(len(NAMES)), names, problem.component_units)
