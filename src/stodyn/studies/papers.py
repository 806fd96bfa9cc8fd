"""The papers whose experiments are repeated here, and the page of the report that each has."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper: the name of its page, how lists call it, its full reference, and what to know before the numbers."""

    page: str
    short: str
    reference: str
    about: str


RAJAN_RAHA = Paper(
    "stochastic-alpha",
    "Rajan & Raha (2008)",
    "N. Rajan & S. Raha, The stochastic α method: a numerical method for simulation of noisy second order dynamical "
    "systems, Computer Modeling in Engineering & Sciences (2008)",
    "The generalised-α method of structural dynamics with noise: its strong orders, its stability, and six mechanical "
    "systems. The orders that the paper claims hold only in special cases; its stability theorem cannot hold, since "
    "the noisy oscillator itself grows in mean square. For the mechanical systems the paper omits T, h, seeds or "
    "gravity in places, so single paths cannot be repeated; only moments, failures and numbers of Newton iterations "
    "can be compared.",
)
KRAUS_TYRANOWSKI = Paper(
    "variational",
    "Kraus & Tyranowski (2021)",
    "M. Kraus & T. M. Tyranowski, Variational integrators for stochastic dissipative Hamiltonian systems, IMA Journal "
    "of Numerical Analysis 41 (2021)",
    "Variational integrators for Hamiltonian systems with friction and noise are compared with explicit Runge-Kutta "
    "methods. The paper's figures are confirmed with exact moments where there are any. The paper does not say that a "
    "variational method can be unstable, or that the midpoint rule at a long step traps fast particles. With f of "
    "(4.16) as printed, the collisions do not conserve the energy; V_y and V_x must be exchanged.",
)
RIGGS = Paper(
    "white-noise",
    "Riggs (1986)",
    "T. L. Riggs, Modeling continuous-time random processes in digital computer simulations of physical systems, "
    "dissertation, Auburn University (1986)",
    "How large must the samples be that represent white noise in an integrator built for smooth functions? Riggs' "
    "factors for Runge-Kutta methods are right. His factor for Adams-Bashforth, (71), is wrong at first order in the "
    "step, and 1.8 for Adams-Moulton should be 32/17; with his 1000 runs the standard error of a variance, 4.5 %, hid "
    "both.",
)
KUPPER = Paper(
    "sdae",
    "Küpper, Kværnø & Rößler (2012)",
    "D. Küpper, A. Kværnø & A. Rößler, A Runge-Kutta method for index 1 stochastic differential-algebraic equations "
    "with scalar noise, BIT Numerical Mathematics 52 (2012)",
    "Stiffly accurate Runge-Kutta methods of strong order 1 for stochastic differential-algebraic equations. The "
    "printed tables satisfy the order conditions and the observed orders are confirmed. There are misprints: (7.2) has "
    "B32 in place of B31, the matrix of example 1 has one row too many, and the solution of example 2 lacks a "
    "rotation. The question that the paper leaves open, whether there are A-stable methods of order 1, is answered in "
    "the first study.",
)
PULCH = Paper(
    "polynomial-chaos",
    "Pulch (2012)",
    "R. Pulch, Stochastic collocation and stochastic Galerkin methods for linear differential algebraic equations, "
    "preprint BUW-IMACM 12/31, Bergische Universität Wuppertal (2012)",
    "Galerkin's method, collocation and quadrature are applied to differential-algebraic equations whose parameters "
    "are random. The theorems are confirmed to rounding; one remark after them holds for collocation but not for "
    "Galerkin's method, and one column of Table 1 cannot be reached with any step.",
)
OWN = Paper(
    "own",
    "stodyn",
    "Experiments of this library",
    'Systems with an exact answer, simulated: gusts, an earthquake, circuits, events, tolerances. The column "paper" '
    "holds the exact value, where there is one.",
)
