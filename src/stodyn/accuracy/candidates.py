"""The candidate methods of an estimate, with their coarsest grids and orders.

linear      exact steps where coefficients are constant and the noise is additive; nothing else is tried there
SDEs        PlatenWeak2, of weak order 2 and, where the noise commutes, of strong order 1
+ general   Milstein's step without areas on antithetic pairs, whose differences fall faster where channels do not
            commute
+ stiff     a drift-implicit method, from 4 steps on
+ long      a method of weak order 2 that keeps the structure of Hamiltonian systems over many periods, where other
            explicit steps heat or damp them; the recommended one where none fits
+ steep     TamedEuler where the drift grows faster than linearly: explicit steps are watched there, and it is tried
            when a path runs away with them; those below weak order 2 are not used, and not trusted where the user
            asks for them
others      the recommended method of the problem
loops       the same for the plant, in steps that fall on all samples

The coarsest grid has about one step per time constant of the linearised system, more where explicit steps would heat
it, and follows the coefficients in time: a load with 16 periods is zero at every time of 4, 8 and 16 steps, and no
difference of these levels would show it. Implicit steps also follow modes that decay quickly, where f would miss the
noise that reaches them (fast_modes).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.accuracy.cusps import crosses_roots_or_jumps
from stodyn.accuracy.exact_steps import ExactSteps, are_exact
from stodyn.accuracy.fast_modes import FastModes
from stodyn.accuracy.rules import Order
from stodyn.engine.spec import matched
from stodyn.methods import implicit, milstein
from stodyn.methods.catalogue import named
from stodyn.methods.contacts import NOTABLE
from stodyn.methods.coupled import refusal
from stodyn.methods.langevin import ShiftedConformalVerlet, ShiftedMidpoint, ShiftedVerlet
from stodyn.methods.looping import in_steps
from stodyn.methods.milstein import _Milstein
from stodyn.methods.platen import PlatenWeak2, PlatenWeak2Pairs
from stodyn.methods.recommend import recommended
from stodyn.methods.tamed import TamedEuler
from stodyn.numerics.facts.degree import is_rough
from stodyn.numerics.printing.points import AtPoints, at_points
from stodyn.problems.contract import written_as
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.looped import Looped, plant_of
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.stops import stiffest_stop
from stodyn.problems.structure import depends_on_time
from stodyn.statistics.functional import End, Functional, Integral

STIFF = 64.0  # decay times in the interval beyond which implicit methods are tried
LONG = 64.0  # time constants in the interval beyond which structure-preserving methods are tried
FEWEST, MOST_FIRST = 2, 4096  # steps of the coarsest level
STARTS = 64  # random starts at which forces are evaluated
MOST_RESOLVING = 64  # steps of the coarsest level that resolve the noise at the start
RANDOM_TIMES = 512  # random times at which coefficients are evaluated
CLOCK_LOOKS, CLOCKED = 8, 64  # times at which clocks are looked for, and components up to which
KEEPING = (ShiftedConformalVerlet, ShiftedVerlet, ShiftedMidpoint)  # keep structure; the cheapest first
HEATING = (PlatenWeak2, PlatenWeak2Pairs, TamedEuler)  # explicit; the last one more than the others
COUPLABLE = "PlatenWeak2 (weak 2), Milstein, Heun, ThetaEuler"


class Candidate(NamedTuple):
    """A method and the problem in the form that it takes.

    watched  whether to look for paths that run away
    leaves   whether paths must be expected to run away on coarse grids, even if none has done so yet
    fast     the modes whose noise an implicit method may damp out
    waits    whether the method is for paths that run away with other methods, and not to be tried before they do
    stops    the steps of the coarsest level that resolve contacts with the stiffest stop
    unit     what the steps of every level are multiples of: the fewest that fall on the samples of a loop
    """

    problem: Any
    method: Any
    kind: str
    order: Order
    steps: int
    watched: bool
    leaves: bool
    fast: FastModes | None
    waits: bool
    stops: int
    unit: int = 1

    def following(self, error: float, is_relative: bool) -> Candidate:
        """Return the candidate with enough steps for the fast modes that noise reaches."""
        if self.fast is None:
            return self
        return self._replace(steps=self.fast.steps_for(error, is_relative, self.steps))


@dataclasses.dataclass(frozen=True)
class _WithoutAreas(_Milstein):
    """Milstein's step for any noise with W_j W_k/2 in place of the integrals: for antithetic pairs."""

    @property
    def structures(self):
        return ()

    @property
    def name(self):
        return "MilsteinWithoutAreas"


def candidates(
    problem: Any, functional: Functional, method: Any, t: tuple[float, float], is_differentiated: bool = False
) -> list[Candidate]:
    """The methods to try; raises an error in the user's terms where nothing can be estimated.

    Exact steps are made of numbers, which do not change with the parameters: they have no derivatives.
    """
    _refuse(problem, functional)
    plant = plant_of(problem)
    if method is not None:
        chosen = [(named(method), "pair")]
    elif isinstance(problem, Looped):
        chosen = _for_problem(plant, t, is_differentiated, tuple(problem.layout.inputs))
    else:
        chosen = _for_problem(plant, t, is_differentiated)
    choices, along, stops = [], _rate_along_paths(plant, t[0]), _steps_that_resolve_stops(plant, t)
    unit = problem.fewest_steps(t) if isinstance(problem, Looped) else 1
    for one, kind in chosen:
        matching, _ = matched(problem, one)
        stepped = plant_of(matching)
        reason = refusal(one, stepped.m)
        if reason is not None:
            raise ValueError(f"method: {reason}. Take one of {COUPLABLE}")
        if isinstance(matching, Looped):
            in_steps(one, matching, (t[1] - t[0]) / unit)
        if functional.diffuses and (isinstance(stepped, SDAE) or not hasattr(stepped, "g")):
            name = type(functional).__name__
            raise TypeError(
                f"f: {name} needs the drift and diffusion of an SDE, but {one.name} does not step an SDE; use End(f)"
            )
        own = max(one.promised("weak", stepped.noise_structure), 1.0)
        strong = 1.0 if kind == "antithetic" else one.promised("strong", stepped.noise_structure)
        is_implicit = one in (implicit.ThetaEuler, milstein.ImplicitMilstein)
        growth = _rates(stepped, t[0]) if isinstance(stepped, (SDE, Hamiltonian)) else None
        if growth is None:
            steps = 8
        elif isinstance(one, ExactSteps):
            steps = _first_exact_steps(growth, functional, t)
        else:
            steps = _first_steps(growth, along, t, is_implicit, one in KEEPING)
            while one in HEATING and steps < MOST_FIRST and growth.heated(t[1] - t[0], steps):
                steps *= 2
        steps = max(steps, stops, _steps_in_time(matching, functional, t))
        rough = has_rough_coefficients(stepped, t[0])
        if rough:
            steps = max(steps, _steps_that_resolve_noise(stepped, t))
        is_low = rough and isinstance(stepped, SDE) and crosses_roots_or_jumps(stepped, t, 4 * steps)
        watched = isinstance(stepped, SDE) and one is not TamedEuler and not is_implicit and superlinear(stepped)
        decay = 2.0 if strong >= 1 else 1.0
        if isinstance(matching, Looped) and matching.jumps_at_samples:
            rough, decay = True, 0.5 * decay
        order = Order(min(own, functional.weak_order), decay, functional.has_roots, rough, is_low)
        damps = is_implicit or isinstance(stepped, SDAE)
        fast = FastModes(matching, functional, t) if damps else None
        waits = one is TamedEuler and len(chosen) > 1
        steps = unit * 2 ** max(math.ceil(math.log2(steps / unit)), 0) if unit > 1 else steps
        watches = watched, watched and own < 2
        choices.append(Candidate(matching, one, kind, order, steps, *watches, fast, waits, stops, unit))
    return choices


def _refuse(problem: Any, functional: Functional) -> None:
    """Refuse problems whose levels cannot be coupled, and functionals that a loop does not show."""
    plant = plant_of(problem)
    if isinstance(plant, (Measured, RandomDAE)):
        raise TypeError(
            f"problem: expected an SDE, a Hamiltonian, Mechanical or SDAE system, got {type(plant).__name__}, whose "
            "levels cannot be coupled; use simulate(..., paths=stodyn.until(...)), and compare two steps for the bias"
        )
    if not isinstance(problem, Looped):
        return
    for thing in problem.things:
        if thing.jitter is not None:
            raise ValueError(
                f"jitter ({thing.name}): it is counted in steps, so that levels with other steps are other loops; "
                "use simulate(..., paths=stodyn.until(...)) with the dt that is meant"
            )
    if functional.diffuses:
        raise TypeError(
            f"f: {type(functional).__name__} follows its function between steps, where what a loop holds does not move "
            "by drift and diffusion; use End, Integral or TimeAverage, or simulate with the statistic"
        )


def _for_problem(
    problem: Any, t: tuple[float, float], is_differentiated: bool, inputs: tuple[str, ...] | None = None
) -> list[tuple[Any, str]]:
    """The methods that suit a problem, or the plant of a loop with these inputs, each with the kind of its
    differences."""
    lowered = problem
    if not isinstance(problem, SDE):  # an SDAE is an SDE only where its constraints are solved in every step
        lowered = None if isinstance(problem, SDAE) else written_as(problem, SDE)
    if lowered is None:
        return [(recommended(problem), "pair")]
    if not is_differentiated and are_exact(lowered, inputs or ()):
        return [(ExactSteps(is_held=inputs is not None), "pair")]
    commutes, steep = lowered.noise_structure.implies("commutative"), superlinear(lowered)
    methods: list[tuple[Any, str]] = [(PlatenWeak2 if commutes else PlatenWeak2Pairs, "pair")]
    if not commutes and not steep:
        methods.append((_WithoutAreas(), "antithetic"))
    rates, T = _rates(lowered, t[0]), t[1] - t[0]
    if isinstance(problem, Hamiltonian) and rates.largest * T > LONG:
        fitting = (one for one in KEEPING if one.refusal(problem) is None)
        methods.insert(0, (next(fitting, recommended(problem)), "pair"))
    if rates.decay * T > STIFF:
        methods.append((milstein.ImplicitMilstein if commutes else implicit.ThetaEuler, "pair"))
    if steep:
        methods.append((TamedEuler, "pair"))
    return methods


class _Rates(NamedTuple):
    """Rates of the linearised drift at the start: the largest, how much faster than any growth the fastest decay is,
    the fastest oscillation that lasts for a period, and all of them."""

    largest: float
    decay: float
    oscillation: float
    all: np.ndarray

    def heated(self, T: float, steps: int) -> bool:
        """Whether steps of weak order 2 with R(z) = 1 + z + z²/2, of which Heun's is one, make a mode grow: by a factor
        of e over the time T, and by more than half of its damping."""
        h, own = T / steps, self.all.real
        z = h * self.all
        with np.errstate(divide="ignore"):
            excess = np.log(np.abs(1.0 + z + 0.5 * z**2)) / h - own
        return bool(np.any(excess * T > np.maximum(1.0, -0.5 * own * T)))


def _rates(problem: Any, t: float) -> _Rates:
    """The rates of the drift linearised at the start; none where the drift has no derivative there."""
    params, x = problem.example_params(), np.asarray(problem.example_start(), float)
    slope = at_points(jax.jacfwd(lambda x: problem.f(t, x, params)), x[None])[0]
    if not np.all(np.isfinite(slope)):
        return _Rates(0.0, 0.0, 0.0, np.zeros(0))
    rates = np.linalg.eigvals(slope)
    swinging = np.where(np.abs(rates.real) < np.abs(rates.imag), np.abs(rates), 0.0)
    decay = max(-rates.real.min() - max(rates.real.max(), 0.0), 0.0)  # a saddle grows as fast, and is not stiff
    return _Rates(float(np.abs(rates).max()), float(decay), float(swinging.max()), rates)


def _rate_along_paths(problem: Any, t: float) -> float:
    """How fast the forces on the particles of a Hamiltonian system change on their way, |f' f|/|f| in the root mean
    square over random starts: particles that cross a wave see it at a frequency which no linearisation shows."""
    if not (isinstance(problem, Hamiltonian) and problem.has_random_start):
        return 0.0
    params, starts = problem.example_params(), problem.draw_start(np.random.default_rng(0), range(STARTS))

    def moved(x):
        return jax.jvp(lambda x: problem.f(t, x, params), (x,), (problem.f(t, x, params),))

    forces, changes = (np.asarray(part)[:, problem.n // 2 :] for part in AtPoints(moved)(np.asarray(starts, float)))
    force, change = (np.sqrt(np.mean(part**2)) for part in (forces, changes))
    return float(change / force) if np.isfinite(change) and force > 0 else 0.0


def _first_steps(rates: _Rates, along: float, t: tuple[float, float], is_implicit: bool, keeps_structure: bool) -> int:
    """About one step per time constant of the system; implicit methods begin with four, or follow the oscillations;
    those that keep structure may take up to two time constants for a step."""
    least, rate = (4, rates.oscillation) if is_implicit else (FEWEST, max(rates.largest, along))
    wanted = math.log2(min(max(least, (t[1] - t[0]) * rate), MOST_FIRST))
    return 2 ** (math.floor(wanted) if keeps_structure else math.ceil(wanted))


def _first_exact_steps(rates: _Rates, functional: Functional, t: tuple[float, float]) -> int:
    """The fewest exact steps that f needs: one for a function of the end state; integrals follow the oscillations."""
    if isinstance(functional, End):
        return FEWEST
    if isinstance(functional, Integral):
        rates = rates._replace(largest=rates.oscillation)
    return _first_steps(rates, 0.0, t, is_implicit=False, keeps_structure=True)


def _steps_in_time(problem: Any, functional: Functional, t: tuple[float, float]) -> int:
    """The fewest steps on which the coefficients and the integrand are nearly linear in time: at random times, and at
    the times of the finest grid, which sees short pulses, they deviate from their chords by less than half their
    standard deviation. Components that only count time move along."""
    params, x = problem.example_params(), np.asarray(problem.example_start(), float)
    plant = plant_of(problem)
    functions: list[Any] = [lambda t, x, params, one=one: one(t, x[: plant.n], params) for one in (plant.f, plant.g)]
    if functional.gathers_in_time:
        functions.append(lambda t, x, params: functional.value(problem, t, x, params))
    rng = np.random.default_rng(0)
    states = np.stack([x, x + (1.0 + np.abs(x)) * rng.standard_normal(x.shape)])
    places = np.concatenate([np.linspace(0.0, 1.0, MOST_FIRST + 1), rng.random(RANDOM_TIMES)])
    times = t[0] + (t[1] - t[0]) * places
    moved = np.repeat(states[:, None], len(places), axis=1)
    clocks = _clocks(plant, params, states[:, : plant.n], times)
    if clocks:
        for i, rate in clocks.items():
            moved[:, :, i] += rate * (times - t[0])
    else:
        functions = [function for function in functions if depends_on_time(function, x, params)]
    if not functions:
        return FEWEST
    rows = []
    for function in functions:
        values = AtPoints(function, (0, 0, None))(np.tile(times, len(states)), moved.reshape(-1, x.size), params)
        rows.append(
            np.moveaxis(np.asarray(values).reshape(len(states), len(places), -1), 1, 2).reshape(-1, len(places))
        )
    values = np.concatenate(rows)
    values = values[np.isfinite(values).all(axis=1) & (np.ptp(values, axis=1) > 1e-9 * np.abs(values).max(axis=1))]
    grid, deviation, n = values[:, : MOST_FIRST + 1], values.std(axis=1), FEWEST
    sets = slice(0, MOST_FIRST + 1), slice(MOST_FIRST + 1, None)
    while n <= MOST_FIRST:
        left = np.minimum((places * n).astype(int), n - 1)
        nodes, part = grid[:, :: MOST_FIRST // n], places * n - left
        apart = (1 - part) * nodes[:, left] + part * nodes[:, left + 1] - values
        if all(np.all(np.sqrt(np.mean(apart[:, one] ** 2, axis=1)) <= 0.5 * deviation) for one in sets):
            return n
        n *= 2
    return n


def _clocks(problem: Any, params: Any, states: np.ndarray, times: np.ndarray) -> dict[int, float]:
    """The components that only count time, x_i' = c ≠ 0 without noise, and their rates: the same at a few states and
    times."""
    if isinstance(problem, SDAE) or problem.n > CLOCKED:
        return {}
    few = times[:: max(len(times) // CLOCK_LOOKS, 1)]
    points = np.repeat(states, len(few), axis=0)
    f, g = (
        AtPoints(one, (0, 0, None), few=1)(np.tile(few, len(states)), points, params) for one in (problem.f, problem.g)
    )
    still = (np.ptp(f, axis=0) == 0) & (f[0] != 0) & ~np.any(g, axis=(0, 2))
    return {int(i): float(f[0, i]) for i in np.flatnonzero(still)}


def has_rough_coefficients(problem: Any, t: float) -> bool:
    """Whether the trace of the drift or of the diffusion holds a root, |·|, a maximum or the like of the state, so that
    the order of a method is not known until it is seen."""
    with jax.enable_x64(True):
        arguments = np.asarray(t, float), np.asarray(problem.example_start(), float), problem.example_params()
        return any(is_rough(function, arguments, moving=1) for function in (problem.f, problem.g))


def _steps_that_resolve_noise(problem: Any, t: tuple[float, float]) -> int:
    """The fewest steps in which noise of one deviation leaves at least half of the diffusion at the start as it is: in
    longer steps paths reach places that the true ones do not, such as negative prices."""
    params, x = problem.example_params(), np.asarray(problem.example_start(), float)
    diffusion = AtPoints(lambda x: problem.g(t[0], x, params))
    here, n = np.asarray(diffusion(x[None]))[0], FEWEST
    while n < MOST_RESOLVING:
        moves = math.sqrt((t[1] - t[0]) / n) * here.T
        there = np.asarray(diffusion(np.concatenate([x + moves, x - moves])))
        if np.all(np.linalg.norm(there - here, axis=1) <= 0.5 * np.linalg.norm(here, axis=0)):
            break
        n *= 2
    return n


def _steps_that_resolve_stops(problem: Any, t: tuple[float, float]) -> int:
    """The fewest steps that are short for the half period of a contact with the stiffest stop; longer ones multiply the
    energy of a body that meets it."""
    stiffest = stiffest_stop(problem) if isinstance(problem, Mechanical) else None
    if stiffest is None:
        return FEWEST
    return 2 ** math.ceil(math.log2(max((t[1] - t[0]) * stiffest.rate / NOTABLE[0], FEWEST)))


def superlinear(problem: Any) -> bool:
    """Whether the drift grows faster than linearly in one of a few random directions."""
    rng = np.random.default_rng(0)
    params, x = problem.example_params(), np.asarray(problem.example_start(), float)
    drift = AtPoints(lambda x: problem.f(0.0, x, params))
    directions, scale = rng.standard_normal((8, problem.n)), 1.0 + float(np.abs(x).max())
    near, far = (np.abs(drift(x + size * directions)).max(axis=1) for size in scale * np.array([1e4, 1e7]))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log10(far / near) / 3.0
    return bool(np.any(~np.isfinite(far) | (power > 1.05)))
