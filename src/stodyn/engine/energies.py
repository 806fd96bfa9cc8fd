"""Before a run: do the method's steps keep the energy of bodies, as the equations have it?

Some paths are followed by the program of the run, and what single steps make of the energy, δ, is added up
(methods.energy_account). With the power P of noise and loads, and an energy E, the energy becomes too large by the
share e,

    e' = δ/(h E) - e P/E,

since what damping takes grows with the energy. E is 3/2 of the energy of motion K: it lies between K, of a body between
walls, and 2 K, of one on a spring. Of loads P is known from what damping takes and E grows by, less δ/h. Where e is
uncertain, since single steps give and take much by chance, more steps are looked at, and then K is compared with that
of many paths with shorter steps. So stops, steep and softening pieces of a force, friction, slopes that change in time
and modes that steps do not resolve are judged by one measure: what the method's own steps do in them.

Where forces are steep in some places, errors grow fast with the step: such runs are told of small errors, and refused
where these are large. Others are told from a fifth on, if there is white noise and the comparison says so too; what
coloured noise drives is compared when the method is prepared (problems.driven).

Steps of Verlet's kind keep an energy of their own: δ adds up to nothing, where they share it wrongly between positions
and velocities. That is seen by the virial theorem, and then shorter steps are compared with too. Slopes that change in
time give energy by the phase at which they meet a swing, and in proportion to it: δ sees no phase, and P as that of
loads would make errors fade. Without steep forces such runs are compared, also where their account tells of no error.
Where K is right in a comparison, the variances of positions are compared.

Linear systems whose variances are known (engine.variances) are not judged here, nor are systems with joints, dry
friction as an element, walls, or coordinates without inertia, loops, SDEs with coloured noise that is drawn beside
their steps, and those whose steps cannot be printed. Of steps that touch stops which are elements nothing is counted.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from stodyn.engine import grid
from stodyn.engine.laws_of_sdes import LEAST_STEPS
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.spec import checked_functions, describe, has_even_slopes
from stodyn.methods.energy_account import SUBSTEPS, Account, Bodies, Steps, Virial, bodies_of
from stodyn.methods.surfaces import MOST_STATES
from stodyn.noise.supply import DrawnNormals
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.fingerprints import prints
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import remembered
from stodyn.problems.driven import Driven
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.telling import tell, unheard
from stodyn.warnings import EnergyNotKept, StopsNotResolved

PATHS = 64  # that are followed
WINDOWS, LENGTHS = 8, (128, 512)  # times of a run, from which on they are looked at, and for how many steps
SEEN = 16  # steps of each, in which slopes are looked at
FARTHEST = 5e9  # operations on the way to the last window
NUMBERS, MADE = 4_000_000, 300_000_000  # that are looked at, and computed for slopes, at most
TOLD, REFUSED = 0.04, 1.0  # errors of the energy from which on a run with steep forces warns, and is refused
NOTABLE = 0.2  # and from which on a run without such warns
SURE, SURE_OF_EACH = 2.5, 4.0  # standard errors by which it must be, and by which that of one coordinate must
SAME = 0.5  # parts of an error that may change with the substeps of the equations
APART = 4.0  # such errors by which two verdicts may differ
CERTAIN, SHARE = 0.015, 0.25  # standard errors, and parts of the error, that are small enough
FINER, LOOKS = (8, 4), 64  # where paths are compared: with so much shorter steps, if forces are steep, at so many times
GOLDEN = 0.6180339887498949  # parts of their mean distance by which times are moved on
FEW = 0.25  # relative standard error of a mean energy from which on few paths have most of it
THROWN = 10.0  # times the largest value with shorter steps, above which values of a comparison count as that
COMPARED, MANY = 1.5e10, (512, 4096)  # by so many operations at most, and paths
LEAST_COMPARED = 1000  # steps of a run that is compared in its beginning only
ADDED = 1.5  # E/K
ROUNDED = 1e-9  # of the largest power of damping, that may be given by rounding
LEAST = 1e-12  # of the largest energy, that a run has at any time
ENERGY, SPREAD = "energy of bodies", "variance of positions"
TRIES = 4  # halvings of the step, in search of one that is short enough
PLACES = {Mechanical: "`force`", Hamiltonian: "`H` or `force`", SDE: "`drift`", SDAE: "`drift`"}
STEEP = (
    ", make what is steep there less so, or write stops as stodyn.elements.Gap: methods of the α family with "
    "order=1.0, such as StochasticAlpha, then keep the energy."
)


class Verdict(NamedTuple):
    """The relative error of the energy at the end of a run, and its standard error; whether it is one by an account of
    bodies from which damping only takes energy; what it is the error of; by how much the virial theorem fails."""

    error: float
    uncertainty: float
    is_passive: bool = False
    of: str = ENERGY
    imbalance: float = 0.0

    def is_beyond(self, limit: float) -> bool:
        return abs(self.error) > max(limit, SURE * self.uncertainty)

    def is_within(self, limit: float) -> bool:
        """Whether it is surely so, or known well enough, and the energy is shared as the equations have it."""
        is_known = self.is_certain or abs(self.error) + SURE * self.uncertainty <= limit
        return not self.is_beyond(limit) and is_known and self.imbalance <= NOTABLE

    @property
    def is_certain(self) -> bool:
        return self.uncertainty <= max(CERTAIN, SHARE * abs(self.error))

    @property
    def is_refused(self) -> bool:
        low, high = (self.error + side * SURE * self.uncertainty for side in (-1.0, 1.0))
        return low > REFUSED or high < 1.0 / (1.0 + REFUSED) - 1.0

    @property
    def size(self) -> str:
        if self.is_refused:
            return "far too large" if self.error > 0.0 else "far too small"
        return f"about {100.0 * float(f'{abs(self.error):.1g}'):g} % too {'large' if self.error > 0.0 else 'small'}"

    def joined(self, other: Verdict) -> Verdict:
        """The mean of two, by their certainty."""
        own, its = (1.0 / max(one.uncertainty, 1e-12) ** 2 for one in (self, other))
        return Verdict((own * self.error + its * other.error) / (own + its), (own + its) ** -0.5)


UNKNOWN = Verdict(math.nan, math.nan)  # of which nothing is said


class Measured(NamedTuple):
    """Of paths at some times: energies of motion (times, paths), and squares of the distances of positions from their
    means (coordinates, times, paths)."""

    energies: np.ndarray
    spreads: np.ndarray


class Answer(NamedTuple):
    """What is said of a run before it, and the class of the warning that says it; None where the run is refused."""

    words: str
    warning: type[Warning] | None


_bodies: Bounded[Any, Bodies | None] = Bounded(64)
_answers: Bounded[Any, Answer | None] = Bounded(256)


def check_energy(run: Any, problem: Any, method: Any) -> None:
    """Warn where the steps of a run make the energy of bodies wrong, and refuse where steep forces make it so by a
    factor of two or more."""
    spec, place = run.spec, _place(problem)
    if place is None or spec.traced is None or problem.n > MOST_STATES or _has_exact_noise(spec):
        return
    if not _is_driven(spec, problem) and has_even_slopes(problem, checked_functions(problem)):
        return
    members = _members(spec, PATHS, 0, PATHS)
    starts = [np.asarray(leaf).tobytes() for leaf in (members.start, *members.params)]
    lengths = spec.lengths[:1] if grid.are_equal(spec.lengths) else spec.lengths
    key = (*_kind(spec, problem), method.name, spec.steps, float(spec.times[0]),
           lengths.tobytes(), *starts)  # fmt: skip
    answer = remembered(_answers, key, lambda: _answer(run, problem, method, place))
    if answer is None:
        return
    if answer.warning is None:
        raise ValueError(answer.words)
    tell(answer.words, answer.warning)


def _place(problem: Any) -> str | None:
    """Where forces of bodies stand in the user's words; None of a kind of problem that is not judged."""
    if isinstance(problem, SDAE):
        return PLACES[SDAE] if type(problem) is SDAE else None
    return next((words for kind, words in PLACES.items() if isinstance(problem, kind)), None)


def _kind(spec: Any, problem: Any) -> tuple[Any, ...]:
    """What tells the bodies of one problem from those of another."""
    return spec.traced.fingerprints, type(problem), getattr(problem, "calculus", None)


def _is_driven(spec: Any, problem: Any) -> bool:
    """Whether white noise alone drives bodies for as long as variances are judged, and no levels stop them; what
    coloured noise drives is compared when the method is prepared."""
    is_coloured = isinstance(problem, Driven) or getattr(problem, "coloured", None) is not None
    return bool(spec.traced.streams) and spec.steps >= LEAST_STEPS and not spec.levels and not is_coloured


def _has_exact_noise(spec: Any) -> bool:
    """Whether coloured noise is drawn beside the steps of an SDE, whose own white noise they take alone."""
    return isinstance(spec.problem, Driven) and any(name == "coloured" for name, _ in spec.traced.streams)


def _answer(run: Any, problem: Any, method: Any, place: str) -> Answer | None:
    pilot = _pilot(run, problem, method)
    if pilot is None:
        return None
    with np.errstate(all="ignore"):
        is_steep = not has_even_slopes(problem, checked_functions(problem)) and pilot.is_steep
        if not (is_steep or _is_driven(run.spec, problem)):
            return None
        verdict = verdict_on(pilot, is_steep)
        if not verdict.is_beyond(TOLD if is_steep else NOTABLE):
            return None
        longest = _longest(pilot, verdict) if is_steep or not pilot.bodies.is_pumped else None
    words = _in_words(verdict, method.name, pilot.h, longest, place)
    if not is_steep:
        return Answer(words + ", or another method.", EnergyNotKept)
    return Answer(words + STEEP, None if verdict.is_refused and verdict.of == ENERGY else StopsNotResolved)


def _in_words(verdict: Verdict, name: str, h: float, longest: float | None, place: str) -> str:
    shorter = "smaller steps" if longest is None else f"steps of {longest:.2g} or less"
    return (
        f"dt: with steps of {h:g} {name} makes the {verdict.of} {verdict.size}, by what its steps do under {place}"
        f". Take {shorter}"
    )


def _pilot(run: Any, problem: Any, method: Any) -> _Pilot | None:
    """The paths that are followed; None where bodies are not known."""
    spec, executor = run.spec, run.executor
    bodies = remembered(_bodies, _kind(spec, problem), lambda: bodies_of(problem))
    if bodies is None:
        return None
    if not isinstance(executor, executors.ByPrint) or spec.dtype != np.float64 or prints(spec.traced.step):
        with unheard():
            spec = describe(problem, method, (spec.times[0], spec.times[-1]), spec.lengths, None, "float64")
        traced: Any = spec.traced
        spec = dataclasses.replace(spec, traced=traced.silent) if prints(traced.step) else spec
        executor = executors.get(spec)
    return _Pilot(spec, executor, bodies, method) if isinstance(executor, executors.ByPrint) else None


def _members(spec: Any, paths: int, seed: int, lanes: int) -> Any:
    """The first paths of a run; those listed path by path where they are fewer."""
    problem = spec.problem
    listed = int(min((paths, *(part.count for part in (*problem.start_parts, *problem.param_sources)))))
    return Layout(spec, listed, seed, lanes).members_from(0, listed, lanes)


def verdict_on(pilot: _Pilot, is_steep: bool) -> Verdict:
    """What steps make of the energy of a run. Where their own account says that it is surely not wrong, that is so. If
    not, shorter steps are compared with. The account counts beside these, or where they would take long, if damping
    only takes energy: otherwise it may hold the energy whatever steps do, as on a limit cycle. Where forces are steep
    and it is uncertain, it counts only if it tells of an error: it may lack the few contacts that make one. So it does
    where slopes change in time, of which it sees no phase."""
    limit, is_pumped = TOLD if is_steep else NOTABLE, pilot.bodies.is_pumped and not is_steep
    for length in LENGTHS if is_steep else LENGTHS[:1]:
        verdict = pilot.verdict(length)
        if verdict.is_within(limit) and not is_pumped:
            return verdict
    compared = _compared(pilot, is_steep)
    if compared is None:
        return _confirmed(pilot, verdict, length) if is_steep and verdict.is_passive else UNKNOWN
    if compared.of == SPREAD:
        return compared
    agrees = abs(verdict.error - compared.error) <= APART * math.hypot(verdict.uncertainty, compared.uncertainty)
    is_counted = verdict.is_passive and (not is_steep or verdict.is_certain or verdict.is_beyond(limit))
    is_counted &= verdict.imbalance <= NOTABLE and (not is_pumped or verdict.is_beyond(limit))
    return verdict.joined(compared) if agrees and is_counted else compared


def _confirmed(pilot: _Pilot, verdict: Verdict, length: int) -> Verdict:
    """A verdict by an account that is the same with fewer substeps of the equations."""
    rough = pilot.verdict(length, SUBSTEPS // 2)
    return verdict if abs(rough.error - verdict.error) <= SAME * abs(verdict.error) else UNKNOWN


def _longest(pilot: _Pilot, verdict: Verdict) -> float | None:
    """Steps that are short enough, by the account of their own; None where none are found."""
    first = max(1, math.ceil(0.5 * math.log2(max(min(abs(verdict.error), 1e6) / TOLD, 1.0))))
    for times in 2 ** np.arange(first, first + TRIES):
        own = _Pilot(*pilot.shorter(int(times)), pilot.bodies, pilot.method).verdict(LENGTHS[0])
        if abs(own.error) <= max(TOLD, own.uncertainty) and own.imbalance <= TOLD:
            return pilot.h / float(times)
    return None


def _compared(pilot: _Pilot, is_steep: bool) -> Verdict | None:
    """The error by the energies of motion of many paths with these steps and with so many times shorter ones, of at
    least twice as many where it is not seen on which side of a limit it is; of a run that would take long, after its
    first steps. None where these would be few, or steep forces act, which paths may meet later."""
    limit, times, verdict = TOLD if is_steep else NOTABLE, FINER[is_steep], None
    operations = max(pilot.spec.traced.operations, 1) * (1 + times)
    if not is_steep:
        pilot = pilot.first(max(int(COMPARED / (operations * PATHS)), LEAST_COMPARED))
    spec = pilot.spec
    afford = int(COMPARED / (operations * spec.steps)) // PATHS * PATHS
    most = [min(paths, afford) for paths in MANY[: 1 if pilot.paths == 1 else None]] if afford else []
    steps = _compared_steps(spec.steps)
    for before, lanes in zip([0, *most], most, strict=False):
        if verdict is not None and (
            lanes < 2 * before or verdict.is_beyond(limit) or verdict.is_within(limit) or math.isnan(verdict.error)
        ):
            break
        coarse = _Pilot(spec, pilot.executor, pilot.bodies, pilot.method, lanes).measured(steps)
        finer = _Pilot(*pilot.shorter(times), pilot.bodies, pilot.method, lanes, seed=1).measured(times * steps)
        verdict = _ratio(coarse.energies, finer.energies)
    if verdict is None or math.isnan(verdict.error) or verdict.is_beyond(limit):
        return verdict
    spread = [_ratio(*both)._replace(of=SPREAD) for both in zip(coarse.spreads, finer.spreads, strict=True)]
    wrong = [own for own in spread if abs(own.error) > max(NOTABLE, SURE_OF_EACH * own.uncertainty)]
    return max(wrong, key=lambda own: abs(own.error), default=verdict)


def _compared_steps(steps: int) -> np.ndarray:
    """The ends of steps in the second half of a run at which energies are compared: their distances differ, so that no
    swing is met at the same phase every time."""
    along = (np.arange(LOOKS) + GOLDEN * np.arange(1, LOOKS + 1) % 1.0) / LOOKS
    return np.unique(np.append(steps // 2 + (along * (steps - steps // 2)).astype(int), steps))


def _ratio(coarse: np.ndarray, finer: np.ndarray) -> Verdict:
    """The ratio of the means of two energies (times, paths). What it is off by chance is seen between paths, and
    between times where all paths swing together; unknown where most paths fail, or few have most of the energy. Where
    no path with shorter steps fails, energies far above all of these count as just that far above, so that paths which
    steps throw out are told of if they are not few."""
    if np.isfinite(finer).all():
        coarse = np.minimum(coarse, THROWN * finer.max())
    sound = [K[:, np.isfinite(K).all(axis=0)] for K in (coarse, finer)]
    if min(K.shape[1] for K in sound) < max(1, 0.5 * coarse.shape[1]):
        return UNKNOWN
    means = [float(K.mean()) for K in sound]
    if min(means) <= 0.0:
        return UNKNOWN
    shares = [float(K.mean(axis=0).std()) / mean / math.sqrt(K.shape[1]) for K, mean in zip(sound, means, strict=True)]
    if max(shares) > FEW:
        return UNKNOWN
    apart = np.subtract(*(K.mean(axis=1) / mean for K, mean in zip(sound, means, strict=True)))
    chance = max(math.hypot(*shares), float(apart.std()) / math.sqrt(len(apart)))
    return Verdict(means[0] / means[1] - 1.0, means[0] / means[1] * chance)


def _verdict(begins: np.ndarray, durations: np.ndarray, account: Account, end: float, is_loaded: bool) -> Verdict:
    """The error by an account of steps (windows, steps, paths) that take so long together."""
    with np.errstate(all="ignore"):
        is_sound = np.isfinite(account.gained.sum(axis=(0, 1)))
        if is_sound.mean() < 0.5:
            return UNKNOWN
        δ, K, D, P = (np.nanmean(values[:, :, is_sound], axis=1) for values in account)
        powers = account.damped[:, :, is_sound]
        is_passive = bool(np.nanmin(powers) >= -ROUNDED * np.nanmax(np.abs(powers)))
    δ *= account.gained.shape[1] / durations[:, None]
    E, power = ADDED * K.mean(axis=1), P.mean(axis=1)
    if is_loaded or not power.any():
        growth = np.gradient(E, begins) if len(E) > 1 else 0.0
        power = np.maximum(D.mean(axis=1) + growth - δ.mean(axis=1), power)
    if E.min() < 0.0:  # velocities and momenta of different signs
        return UNKNOWN
    E, error = np.maximum(E, LEAST * E.max()), np.zeros(δ.shape[1])
    for gained, rate, T in zip(δ / E[:, None], power / E, np.diff(np.append(begins, end)), strict=True):
        with np.errstate(all="ignore"):  # powers that overflow make an error that is not known
            error = np.exp(-rate * T) * error - np.expm1(-rate * T) * gained / rate if rate else error + T * gained
    return Verdict(float(error.mean()), float(error.std() / math.sqrt(max(len(error) - 1, 1))), is_passive)


def _imbalance(virial: Virial | None) -> float:
    """By how much the virial theorem surely fails, as a share of q' v, for the coordinate for which it fails most."""
    if virial is None:
        return 0.0
    is_sound = np.isfinite(virial.moving + virial.missing).all(axis=1)
    moving, missing = virial.moving[is_sound], virial.missing[is_sound]
    if len(moving) < 2:
        return 0.0
    with np.errstate(all="ignore"):
        share = np.abs(missing.mean(axis=0) / moving.mean(axis=0))
        chance = np.abs(missing.std(axis=0) / moving.mean(axis=0)) / math.sqrt(len(moving) - 1)
        return float(np.nanmax(np.where(share > SURE_OF_EACH * chance, share, 0.0), initial=0.0))


class _Pilot:
    """Paths of a run, by its program, with steps of a length."""

    def __init__(
        self, spec: Any, executor: executors.ByPrint, bodies: Bodies, method: Any, paths: int = PATHS, seed: int = 0
    ):
        self.spec, self.executor, self.bodies, self.method, self.seed = spec, executor, bodies, method, seed
        self.h, problem = float(spec.lengths.max()), spec.problem
        is_single = not (spec.traced.streams or problem.has_random_start or problem.has_random_params)
        self.paths = 1 if is_single else paths
        lanes = executors.lanes_for(self.paths, executor.lane_multiple)
        self.members = _members(spec, paths, seed, lanes)._replace(member=np.ones(lanes, bool))

    def first(self, steps: int) -> _Pilot:
        """The same paths, followed for so many steps at most."""
        spec = self.spec
        if spec.steps <= steps:
            return self
        begun = dataclasses.replace(
            spec, times=spec.times[: steps + 1], lengths=spec.lengths[:steps], saves=(np.array([0]),) * len(spec.saves)
        )
        return _Pilot(begun, self.executor.on_grid(begun), self.bodies, self.method)

    def shorter(self, times: int) -> tuple[Any, Any]:
        """The run with steps so many times shorter, and its program."""
        spec, problem = self.spec, self.bodies.equations.problem
        lengths = np.repeat(spec.lengths / times, times)
        if getattr(problem, "coloured", None) is not None:  # its steps are made for their length
            with unheard():
                finer = describe(problem, self.method, (spec.times[0], spec.times[-1]), lengths, None, "float64")
            return finer, executors.get(finer)
        t = np.interp(np.arange(len(lengths) + 1) / times, np.arange(spec.steps + 1), spec.times)
        finer = dataclasses.replace(spec, times=t, lengths=lengths, saves=(np.array([0]),) * len(spec.saves))
        return finer, self.executor.on_grid(finer)

    @property
    def is_steep(self) -> bool:
        """Whether forces are much steeper in some of the states that paths come to than in most."""
        begins, length = self._begins(LENGTHS[0])
        steps = np.add.outer(begins, np.arange(0, length, max(1, length // SEEN))).ravel()
        z = self._read(self.executor.states_along(self.members, self.seed, steps)[:, :, : self.paths])
        t = np.repeat(self.spec.times[steps], self.paths)
        some = np.flatnonzero(np.isfinite(z).all(axis=1))
        some = some[:: 1 + len(some) * z.shape[1] ** 2 // NUMBERS]
        some = some[:: 1 + len(some) * self.bodies.numbers_of_slopes(t, z) // MADE]
        starts = int(np.searchsorted(some, self.paths))
        return starts > 0 and self.bodies.is_steep(t[some], z[some], starts)

    def measured(self, steps: np.ndarray) -> Measured:
        """The energies of motion after some steps, and how far positions without a period are from their mean."""
        z = self._read(self.executor.states_along(self.members, self.seed, steps)[:, :, : self.paths])
        z = z.reshape(len(steps), self.paths, -1)
        q = z[:, :, self.bodies.q[~np.isfinite(self.bodies.periods)]]
        sound = np.isfinite(q).all(axis=(0, 2))
        with np.errstate(all="ignore"):
            means = q[:, sound].sum(axis=1, keepdims=True) / sound.sum()
            spreads = (q - means) ** 2
        energies = self.bodies.energies(self.spec.times[steps], z, *self._params())
        return Measured(energies, np.moveaxis(spreads, -1, 0))

    def verdict(self, length: int, substeps: int = SUBSTEPS) -> Verdict:
        """The error by the account of the steps in windows of so many."""
        spec = self.spec
        begins, length = self._begins(length)
        wanted = np.add.outer(begins, np.arange(length + 1))
        states = self.executor.states_along(self.members, self.seed, wanted.ravel())[:, :, : self.paths]
        z, numbers = self._read(states).reshape(*wanted.shape, self.paths, -1), wanted[:, :-1]
        h, noise = spec.lengths[numbers], self._noise(numbers)
        steps = Steps(spec.times[numbers], h, z[:, :-1], z[:, 1:], *noise, *self._params())
        account, end = self.bodies.account(steps, substeps), float(spec.times[-1])
        verdict = _verdict(spec.times[begins], h.sum(axis=1), account, end, self.bodies.is_loaded)
        return verdict._replace(imbalance=_imbalance(self.bodies.virial(steps)))

    def _begins(self, length: int) -> tuple[np.ndarray, int]:
        """The steps at which windows begin, and how many steps they have."""
        first, operations = self.spec.traced.starting_steps, max(self.spec.traced.operations, 1)
        afford = int(FARTHEST / (operations * self.members.start.shape[1]))
        last = min(self.spec.steps, first + max(afford, WINDOWS * length))
        length = max(1, min(length, (last - first) // WINDOWS, NUMBERS // (WINDOWS * self.paths * self.spec.problem.n)))
        return np.unique(np.linspace(first, last - length, WINDOWS).astype(int)), length

    def _read(self, states: np.ndarray) -> np.ndarray:
        """z (times, paths, n) of states of the method (times, scalars, paths)."""
        traced = self.spec.traced

        def read(s: jax.Array) -> jax.Array:
            return core.jaxpr_as_fun(traced.read)(*traced.leaves(s))[0]

        rows = states.swapaxes(1, 2).reshape(-1, states.shape[1])
        return np.asarray(AtPoints(read, few=1)(rows))[:, self.bodies.equations.places]

    def _noise(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W and Z (windows, steps, paths, m) of steps."""
        m, streams, needs = self.spec.problem.m, self.spec.traced.streams, self.spec.method.needs
        feed, at = DrawnNormals(self.seed).feed(streams, 0, self.members.start.shape[1]), 0
        normals = []
        for window in steps:
            if window[0] > at:
                feed(int(window[0]) - at)
            normals.append([own[:, :, : self.paths] for own in feed(len(window))])
            at = int(window[-1]) + 1

        def increment(h: jax.Array, *own: jax.Array) -> tuple[jax.Array, jax.Array]:
            noise = needs.increment(h, dict(zip([name for name, _ in streams], own, strict=True)), m)
            return noise.W, 0.5 * h * noise.W if noise.Z is None else noise.Z

        shape = *steps.shape, self.paths, m
        if not m:
            return np.zeros(shape), np.zeros(shape)
        parts = [np.stack(own).swapaxes(2, 3).reshape(-1, own[0].shape[1]) for own in zip(*normals, strict=True)]
        h = np.repeat(self.spec.lengths[steps].ravel(), self.paths)
        return tuple(np.reshape(values, shape) for values in AtPoints(increment, few=1)(h, *parts))  # type: ignore[return-value]

    def _params(self) -> tuple[Any, Any]:
        leaves = [np.moveaxis(leaf, -1, 0)[: self.paths] if varies else leaf
                  for leaf, varies in zip(self.members.params, self.spec.varies, strict=True)]  # fmt: skip
        tree = self.spec.params_tree
        return tree.unflatten(leaves), tree.unflatten([0 if varies else None for varies in self.spec.varies])
