"""Which methods come into question for an estimate, on which coarsest grid, and with which orders.

SDEs        PlatenWeak2, of weak order 2 and, where the noise commutes, of strong order 1
+ general   Milstein's step without areas on antithetic pairs, whose differences fall faster where channels do not
            commute
+ stiff     a drift-implicit method, from 4 steps on
+ steep     TamedEuler where the drift grows faster than linearly: explicit steps are watched there, and given up
            when a path leaves
others      the recommended method of the problem
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.accuracy.rules import Order
from stodyn.engine.spec import matched
from stodyn.methods import implicit, milstein
from stodyn.methods.catalogue import named
from stodyn.methods.coupled import refusal
from stodyn.methods.milstein import _Milstein
from stodyn.methods.platen import PlatenWeak2, PlatenWeak2Pairs
from stodyn.methods.recommend import recommended
from stodyn.methods.tamed import TamedEuler
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.problems.measured import Measured
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.statistics.functional import Functional

STIFF = 64.0  # decay times in the interval beyond which implicit methods are tried
FEWEST, MOST_FIRST = 2, 4096  # steps of the coarsest level
COUPLABLE = "PlatenWeak2 (weak 2), Milstein, Heun, ThetaEuler"


class Candidate(NamedTuple):
    """A method on the problem as it takes it; watched: whether paths that leave must be looked for."""

    problem: Any
    method: Any
    kind: str
    order: Order
    steps: int
    watched: bool


@dataclasses.dataclass(frozen=True)
class _WithoutAreas(_Milstein):
    """Milstein's step for any noise with W_j W_k/2 in place of the integrals: for antithetic pairs."""

    @property
    def structures(self):
        return ()

    @property
    def name(self):
        return "MilsteinWithoutAreas"


def candidates(problem: Any, functional: Functional, method: Any, t: tuple[float, float]) -> list[Candidate]:
    """The methods to try; refuses what cannot be estimated, in the user's terms."""
    if isinstance(problem, (Measured, RandomDAE)):
        raise TypeError(
            f"problem: expected an SDE, a Hamiltonian, Mechanical or SDAE system, got {type(problem).__name__}"
        )
    if method is not None:
        chosen = [(named(method), "pair")]
    else:
        chosen = _for_problem(problem, t)
    found = []
    for one, kind in chosen:
        stepped, _ = matched(problem, one)
        reason = refusal(one, stepped.m)
        if reason is not None:
            raise ValueError(f"method: {reason}. Take one of {COUPLABLE}")
        if functional.diffuses and (isinstance(stepped, SDAE) or not hasattr(stepped, "g")):
            name = type(functional).__name__
            raise TypeError(f"f: {name} needs the drift and diffusion of an SDE, and {one.name} steps none; use End(f)")
        weak = min(max(one.promised("weak", stepped.noise_structure), 1.0), functional.weak_order)
        strong = 1.0 if kind == "antithetic" else one.promised("strong", stepped.noise_structure)
        is_implicit = one in (implicit.ThetaEuler, milstein.ImplicitMilstein)
        growth = _rates(stepped) if isinstance(stepped, SDE) else None
        steps = 8 if growth is None else _first_steps(growth, t, is_implicit)
        watched = isinstance(stepped, SDE) and one is not TamedEuler and not is_implicit and superlinear(stepped)
        found.append(Candidate(stepped, one, kind, Order(weak, 2.0 if strong >= 1 else 1.0), steps, watched))
    return found


def _for_problem(problem: Any, t: tuple[float, float]) -> list[tuple[Any, str]]:
    lowered = problem
    if not isinstance(problem, SDE):  # an SDAE is an SDE only where its constraints are solved in every step
        lowered = None if isinstance(problem, SDAE) else (problem.lower(SDE) or (None,))[0]
    if lowered is None:
        return [(recommended(problem), "pair")]
    commutes = lowered.noise_structure.implies("commutative")
    found: list[tuple[Any, str]] = [(PlatenWeak2 if commutes else PlatenWeak2Pairs, "pair")]
    if not commutes:
        found.append((_WithoutAreas(), "antithetic"))
    if _rates(lowered)[1] * (t[1] - t[0]) > STIFF:
        found.append((milstein.ImplicitMilstein if commutes else implicit.ThetaEuler, "pair"))
    if superlinear(lowered):
        found.append((TamedEuler, "pair"))
    return found


def _rates(problem: Any) -> tuple[float, float]:
    """The largest rate of the drift's linearisation at the start, and its fastest decay."""
    params, x = problem.example_params(), np.asarray(problem.example_start(), float)
    slope = at_points(jax.jacfwd(lambda x: problem.f(0.0, x, params)), x[None])[0]
    if not np.all(np.isfinite(slope)):
        return 0.0, 0.0
    rates = np.linalg.eigvals(slope)
    return float(np.abs(rates).max()), float(max(-rates.real.min(), 0.0))


def _first_steps(rates: tuple[float, float], t: tuple[float, float], is_implicit: bool) -> int:
    """About a step for every time of the system; implicit methods begin with four."""
    if is_implicit:
        return 4
    wanted = min(max(FEWEST, (t[1] - t[0]) * rates[0]), MOST_FIRST)
    return 2 ** math.ceil(math.log2(wanted))


def superlinear(problem: Any) -> bool:
    """Whether the drift grows faster than linearly along some of a few directions."""
    rng = np.random.default_rng(0)
    params, x = problem.example_params(), np.asarray(problem.example_start(), float)
    drift = AtPoints(lambda x: problem.f(0.0, x, params))
    directions, scale = rng.standard_normal((8, problem.n)), 1.0 + float(np.abs(x).max())
    near, far = (np.abs(drift(x + size * directions)).max(axis=1) for size in scale * np.array([1e4, 1e7]))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log10(far / near) / 3.0
    return bool(np.any(~np.isfinite(far) | (power > 1.05)))
