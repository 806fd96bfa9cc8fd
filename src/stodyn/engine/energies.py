"""Before a run: do the method's steps keep the energy of bodies, as the equations have it?

Some paths are followed by the program of the run, and what single steps make of the energy, δ, is added up
(methods.energy_account). With the power P of the noise, and an energy E, the energy becomes too large by the share e,

    e' = δ/(h E) - e P/E,

since what damping takes grows with the energy. E is 3/2 of the energy of motion K: it lies between K, of a body between
walls, and 2 K, of one on a spring. Without white noise P is what damping takes and E grows by. Where e is uncertain,
since single steps give and take much by chance, more steps are looked at, and then K is compared with that of many
paths with shorter steps. So stops, steep and softening pieces of a force, and modes that steps do not resolve, are
judged by one measure: what the method's own steps do in them.

Bodies whose forces have the same slopes everywhere are not judged here (engine.variances does), nor are systems with
joints, dry friction as an element, walls, or coordinates without inertia, those with steps of several lengths, and
those whose steps cannot be printed. Of steps that touch stops which are elements nothing is counted.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from stodyn.engine import grid
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.spec import checked_functions, describe, has_even_slopes
from stodyn.methods.energy_account import SUBSTEPS, Account, Bodies, Steps, bodies_of
from stodyn.noise.supply import DrawnNormals
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.fingerprints import prints
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.telling import tell, unheard
from stodyn.warnings import StopsNotResolved

PATHS = 64  # that are followed
WINDOWS, LENGTHS = 8, (128, 512)  # times of a run, from which on they are looked at, and for how many steps
SEEN = 16  # steps of each, in which slopes are looked at
FARTHEST = 5e9  # operations on the way to the last window
NUMBERS, MADE = 4_000_000, 300_000_000  # that are looked at, and computed for slopes, at most
TOLD, REFUSED = 0.04, 0.5  # errors of the energy from which on a run warns, and is refused
SURE = 2.0  # standard errors by which it must be
SAME = 0.5  # parts of an error that may change with the substeps of the equations
APART = 4.0  # such errors by which two verdicts may differ
CERTAIN, SHARE = 0.015, 0.25  # standard errors, and parts of the error, that are small enough
FINER, LOOKS = 4, 9  # where paths with shorter steps are compared: so much shorter, at so many times
COMPARED, MOST_PATHS = 6e9, 512  # by so many operations, and paths, at most
ADDED = 1.5  # E/K
LEAST = 1e-12  # of the largest energy, that a run has at any time
TRIES = 4  # halvings of the step, in search of one that is short enough
PLACES = {Mechanical: "`force`", Hamiltonian: "`H` or `force`", SDE: "`drift`"}


class Verdict(NamedTuple):
    """The relative error of the energy at the end of a run, and its standard error."""

    error: float
    uncertainty: float

    @property
    def is_told(self) -> bool:
        return abs(self.error) > max(TOLD, SURE * self.uncertainty)

    @property
    def is_refused(self) -> bool:
        low, high = (self.error + side * SURE * self.uncertainty for side in (-1.0, 1.0))
        return low > REFUSED or high < 1.0 / (1.0 + REFUSED) - 1.0

    @property
    def is_certain(self) -> bool:
        return self.uncertainty <= max(CERTAIN, SHARE * abs(self.error))

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

_bodies: Bounded[Any, Bodies | None] = Bounded(64)


def check_energy(run: Any, problem: Any, method: Any) -> None:
    """Warn where the steps of a run make the energy of bodies wrong, and refuse where it is off by half or more."""
    place = next((words for kind, words in PLACES.items() if isinstance(problem, kind)), None)
    if place is None or np.ptp(run.spec.lengths) > grid.TOLERANCE * run.spec.lengths[0]:
        return
    pilot = _pilot(run, problem, method)
    if pilot is None:
        return
    with np.errstate(all="ignore"):
        if not pilot.is_steep:
            return
        verdict = verdict_on(pilot)
        if not verdict.is_told:
            return
        longest = _longest(pilot, verdict)
    words = _in_words(verdict, method.name, pilot.h, longest, place)
    if verdict.is_refused:
        raise ValueError(words)
    tell(words, StopsNotResolved)


def _in_words(verdict: Verdict, name: str, h: float, longest: float | None, place: str) -> str:
    shorter = "smaller steps" if longest is None else f"steps of {longest:.2g} or less"
    return (
        f"dt: with steps of {h:g} {name} makes the energy of bodies {verdict.size}, by what its steps do under {place}"
        f". Take {shorter}, make what is steep there less so, or write stops as stodyn.elements.Gap: methods of the α "
        "family with order=1.0, such as StochasticAlpha, then keep the energy."
    )


def _pilot(run: Any, problem: Any, method: Any) -> _Pilot | None:
    """The paths that are followed; None where bodies are not known, or their forces are linear."""
    spec, executor = run.spec, run.executor
    if spec.traced is None or has_even_slopes(problem, checked_functions(problem)):
        return None
    key = spec.traced.fingerprints
    if key not in _bodies:
        _bodies[key] = bodies_of(problem)
    bodies = _bodies[key]
    if bodies is None:
        return None
    if not isinstance(executor, executors.ByPrint) or spec.dtype != np.float64 or prints(spec.traced.step):
        with unheard():
            spec = describe(problem, method, (spec.times[0], spec.times[-1]), spec.lengths, None, "float64")
        traced: Any = spec.traced
        spec = dataclasses.replace(spec, traced=traced.silent) if prints(traced.step) else spec
        executor = executors.get(spec)
    return _Pilot(spec, executor, bodies, method) if isinstance(executor, executors.ByPrint) else None


def verdict_on(pilot: _Pilot) -> Verdict:
    """What steps make of the energy of a run: by their own account, of more and more of them, and where that is not
    certain by comparing with shorter steps."""
    for length in LENGTHS:
        verdict = _verdict(*pilot.accounts(length), float(pilot.spec.times[-1]))
        if verdict.is_certain and not verdict.is_told:
            return verdict
    compared = _compared(pilot)
    if compared is None or math.isnan(compared.error):
        rough = _verdict(*pilot.accounts(length, SUBSTEPS // 2), float(pilot.spec.times[-1]))
        return verdict if abs(rough.error - verdict.error) <= SAME * abs(verdict.error) else UNKNOWN
    agrees = abs(verdict.error - compared.error) <= APART * math.hypot(verdict.uncertainty, compared.uncertainty)
    return verdict.joined(compared) if agrees else compared


def _longest(pilot: _Pilot, verdict: Verdict) -> float | None:
    """Steps that are short enough, by the account of their own; None where none are found."""
    first = max(1, math.ceil(0.5 * math.log2(max(min(abs(verdict.error), 1e6) / TOLD, 1.0))))
    for times in 2 ** np.arange(first, first + TRIES):
        shorter = _Pilot(*pilot.shorter(int(times)), pilot.bodies, pilot.method)
        error, uncertainty = _verdict(*shorter.accounts(LENGTHS[0]), float(pilot.spec.times[-1]))
        if abs(error) <= max(TOLD, uncertainty):
            return pilot.h / float(times)
    return None


def _compared(pilot: _Pilot) -> Verdict | None:
    """The error by the energies of motion of many paths with these steps and with shorter ones; None where they would
    take long."""
    spec, operations = pilot.spec, max(pilot.spec.traced.operations, 1)
    steps = (1 + FINER) * spec.steps
    lanes = min(int(COMPARED / (operations * steps)) // PATHS * PATHS, MOST_PATHS)
    if not lanes or pilot.paths == 1:
        return None
    saves = np.unique(np.linspace(spec.steps // 2, spec.steps, LOOKS).astype(int))
    coarse = _Pilot(spec, pilot.executor, pilot.bodies, pilot.method, lanes).energies(saves)
    fine = _Pilot(*pilot.shorter(FINER), pilot.bodies, pilot.method, lanes, seed=1).energies(FINER * saves)
    means, errors = zip(*(_mean(K.mean(axis=0)) for K in (coarse, fine)), strict=True)
    ratio = means[0] / means[1]
    return Verdict(ratio - 1.0, ratio * math.hypot(*(error / mean for error, mean in zip(errors, means, strict=True))))


def _mean(K: np.ndarray) -> tuple[float, float]:
    """The mean over sound paths, and its standard error; NaN where most are not."""
    sound = K[np.isfinite(K)]
    if len(sound) < max(2, 0.5 * len(K)):
        return math.nan, math.nan
    return float(sound.mean()), float(sound.std() / math.sqrt(len(sound)))


def _verdict(begins: np.ndarray, h: float, account: Account, end: float) -> Verdict:
    """The error by an account of steps (windows, steps, paths)."""
    with np.errstate(all="ignore"):
        is_sound = np.isfinite(account.gained.sum(axis=(0, 1)))
        if is_sound.mean() < 0.5:
            return UNKNOWN
        δ, K, D, P = (np.nanmean(values[:, :, is_sound], axis=1) for values in account)
    E, power = ADDED * K.mean(axis=1), P.mean(axis=1)
    if not power.any():
        power = np.maximum(D.mean(axis=1) + np.gradient(E, begins), 0.0) if len(E) > 1 else D.mean(axis=1)
    E, error = np.maximum(E, LEAST * E.max()), np.zeros(δ.shape[1])
    for gained, rate, T in zip(δ / h / E[:, None], power / E, np.diff(np.append(begins, end)), strict=True):
        error = math.exp(-rate * T) * error - math.expm1(-rate * T) * gained / rate if rate else error + T * gained
    return Verdict(float(error.mean()), float(error.std() / math.sqrt(max(len(error) - 1, 1))))


class _Pilot:
    """Paths of a run, by its program, with steps of a length."""

    def __init__(
        self, spec: Any, executor: executors.ByPrint, bodies: Bodies, method: Any, paths: int = PATHS, seed: int = 0
    ):
        self.spec, self.executor, self.bodies, self.method, self.seed = spec, executor, bodies, method, seed
        self.h, problem = float(spec.lengths[0]), spec.problem
        is_single = not (spec.traced.streams or problem.has_random_start or problem.has_random_params)
        listed = int(min((paths, *(part.count for part in (*problem.start_parts, *problem.param_sources)))))
        self.paths = 1 if is_single else paths
        lanes = executors.lanes_for(self.paths, executor.lane_multiple)
        members = Layout(spec, listed, seed, lanes).members_from(0, listed, lanes)
        self.members = members._replace(member=np.ones(lanes, bool))

    def shorter(self, times: int) -> tuple[Any, Any]:
        """The run with steps so many times shorter, and its program."""
        spec, problem = self.spec, self.bodies.equations.problem
        lengths = np.full(times * spec.steps, self.h / times)
        if getattr(problem, "coloured", None) is not None:  # its steps are made for their length
            with unheard():
                finer = describe(problem, self.method, (spec.times[0], spec.times[-1]), lengths, None, "float64")
            return finer, executors.get(finer)
        t = np.linspace(spec.times[0], spec.times[-1], len(lengths) + 1)
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

    def energies(self, steps: np.ndarray) -> np.ndarray:
        """The energies of motion (times, paths) after some steps."""
        z = self._read(self.executor.states_along(self.members, self.seed, steps)[:, :, : self.paths])
        return self.bodies.energies(self.spec.times[steps], z.reshape(len(steps), self.paths, -1), *self._params())

    def accounts(self, length: int, substeps: int = SUBSTEPS) -> tuple[np.ndarray, float, Account]:
        """When windows of so many steps begin, how long steps are, and the account of them (windows, steps, paths)."""
        spec = self.spec
        begins, length = self._begins(length)
        wanted = np.add.outer(begins, np.arange(length + 1))
        states = self.executor.states_along(self.members, self.seed, wanted.ravel())[:, :, : self.paths]
        z, numbers = self._read(states).reshape(*wanted.shape, self.paths, -1), wanted[:, :-1]
        steps = Steps(spec.times[numbers], self.h, z[:, :-1], z[:, 1:], *self._noise(numbers), *self._params())
        return spec.times[begins], self.h, self.bodies.account(steps, substeps)

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

        def increment(*own: jax.Array) -> tuple[jax.Array, jax.Array]:
            noise = needs.increment(self.h, dict(zip([name for name, _ in streams], own, strict=True)), m)
            return noise.W, 0.5 * self.h * noise.W if noise.Z is None else noise.Z

        shape = *steps.shape, self.paths, m
        if not m:
            return np.zeros(shape), np.zeros(shape)
        parts = [np.stack(own).swapaxes(2, 3).reshape(-1, own[0].shape[1]) for own in zip(*normals, strict=True)]
        return tuple(np.reshape(values, shape) for values in AtPoints(increment, few=1)(*parts))  # type: ignore[return-value]

    def _params(self) -> tuple[Any, Any]:
        leaves = [np.moveaxis(leaf, -1, 0)[: self.paths] if varies else leaf
                  for leaf, varies in zip(self.members.params, self.spec.varies, strict=True)]  # fmt: skip
        tree = self.spec.params_tree
        return tree.unflatten(leaves), tree.unflatten([0 if varies else None for varies in self.spec.varies])
