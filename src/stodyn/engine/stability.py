"""Before a run: does the method's own step grow where the equations decay, about the states that the run begins with?

The program of the run makes single steps from a state s and from states beside it, which gives the matrix M(ξ) of the
step linearised about s at nodes ξ of its normals. Differences of paths grow by ρ(E M) per step in the mean and by
ρ(E M ⊗ M) in mean square. The effect of the equations on them is read off the same program with steps so short that the
rates log ρ / h no longer change.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from stodyn.engine import held
from stodyn.engine.energies import check_energy
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.spec import Spec, describe
from stodyn.engine.variances import warn_of_wrong_variances
from stodyn.methods.recommend import stable_methods
from stodyn.methods.wrapping import innermost_method
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.fingerprints import prints
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_unexamined
from stodyn.problems.looped import Looped
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE
from stodyn.problems.structure import DIFFERENTIATED, PROVED, holds_in, noise_and_slopes
from stodyn.telling import tell, unheard
from stodyn.warnings import UnstableSteps

GROWTH = math.log(10.0)  # of differences over the whole run, beyond what the equations do, that a run warns of
NOTICED = 1e-3  # growth in a step that is not a matter of rounding
APART = 1e-6  # of neighbouring states, relative to the size of each component
_NEAR, _FAR = np.sqrt(3.0 - np.sqrt(6.0)), np.sqrt(3.0 + np.sqrt(6.0))
NODES = np.array([-_FAR, -_NEAR, _NEAR, _FAR])  # Gauss and Hermite's, of each normal where a step takes few
WEIGHTS = np.array([_NEAR, _FAR, _FAR, _NEAR]) ** 2 / 12.0
DRAWN = 64  # nodes where it takes many
WHOLE = 24  # scalars of a state up to which its matrix is examined; beyond, its growth in some directions
DIRECTIONS, TURNS, FEWEST_TURNS = 4, 24, 4
SHARE, CHEAP = 0.03, 1e7  # of the work of a run for the growth about one state; operations that cost nothing
SOLVED = 8  # scalars of a state up to which the eigenvalues of its second moments are computed
SAVES = 2  # at which states are examined
FREE = 1e6  # operations, half a millisecond
FIRST = 4  # paths that are followed to see whether what is stated of the noise holds
ALONG = 0.1, 0.4, 1.0  # of the way of the first paths, where what is stated of the noise is looked at
CLAIMS = ("additive", "diagonal", "commutative")
PILOT = 0.01  # of the work of a run that may be spent on reaching them
SMALL = 12  # components of a problem for which implicit methods are tried
FINEST = 30  # halvings of a step


_looked: Bounded[Any, AtPoints] = Bounded(64)  # noise and its slopes

Look = Callable[[float], "Growth | None"]  # by the length of a step; None where rates are not finite, or unknown


class Growth(NamedTuple):
    """Rates at which differences of paths grow: in the mean and in mean square (of its root)."""

    mean: float
    square: float


class UnstableStep(NamedTuple):
    """An unstable step: where, how long it is, in which sense, its growth; `longest()` is the longest stable step."""

    t: float
    length: float
    sense: str
    factor: float
    longest: Callable[[], float]


def examined(
    run: Any, problem: Any, method: Any, judges_laws: bool = True, judges_energies: bool = True
) -> Any:  # fmt: skip
    """The run, once its steps are examined: warns where they are unstable, and of variances and energies that they make
    wrong, if these are to be judged; refuses noise that is not what is stated of it along the first paths, and energies
    that are far off."""
    unstable = ""
    with or_unexamined():
        _refuse_false_structure(run, problem)
    with or_unexamined():
        unstable = _warn_of_unstable_steps(run, problem)
    if judges_laws and not unstable:
        whole, is_judged = run, False
        with or_unexamined():
            whole = _of_whole_paths(run, problem, method)
        with or_unexamined():
            is_judged = warn_of_wrong_variances(whole, problem, method)
        with or_unexamined():
            if judges_energies and not is_judged:
                check_energy(run, problem, method)
    return run.suspecting(unstable)


def _of_whole_paths(run: Any, problem: Any, method: Any) -> Any:
    """The run, or where a stop ends the paths of a mechanical system, one of paths that go on: what steps do is known
    of these."""
    if not (run.spec.levels and isinstance(problem, Mechanical)):
        return run
    whole = held.in_double(run.spec, problem, method)
    layout = dataclasses.replace(whole.layout, paths=run.layout.paths, seed=run.layout.seed)
    return dataclasses.replace(whole, layout=layout)


def _warn_of_unstable_steps(run: Any, problem: Any) -> str:
    """Warn where the steps of a run are unstable, and name a step and a method that are stable; returns the words."""
    unstable = find_unstable(*_silent(run))
    if unstable is not None and isinstance(problem, Looped):
        unstable = _of_plant(problem, run.spec, run.layout)
    if unstable is None:
        return ""
    spec, h = run.spec, unstable.length
    name = _stable_method(problem, spec, run.layout)
    other = "" if name is None else f", or {name}, which is stable with steps of {h:g}"
    words = (
        f"steps of {h:g} are unstable: about the state at t = {unstable.t:g} {spec.method.name} makes differences "
        f"grow by {unstable.factor:.4g} per step {unstable.sense}, but the equations do not. Take steps of "
        f"{_rounded_down(unstable.longest()):g} or less{other}."
    )
    tell(f"dt: {words}", UnstableSteps)
    return words


def _silent(run: Any) -> tuple[Spec, Layout, Any]:
    """The steps of a run without the prints of its functions, which are for the steps that are taken."""
    spec = run.spec
    if spec.traced is None or not prints(spec.traced.step):
        return spec, run.layout, run.executor
    spec = dataclasses.replace(spec, traced=spec.traced.silent)
    executor = executors.get(spec)
    return spec, dataclasses.replace(run.layout, spec=spec), executor


def _rounded_down(x: float) -> float:
    """The number rounded down to two digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 1)
    return math.floor(x / unit) * unit


def find_unstable(spec: Spec, layout: Layout, executor: Any) -> UnstableStep | None:
    """The first state about which the steps grow but the equations do not, where that is so about two of the examined
    states: a single one may be a place that the path only passes. None where there is no such state.

    Of implicit steps only the growth in mean square is examined, which comes from the noise; Solvers, GPUs and
    float32 are not examined. Errors of the run's own paths, such as of its starts, are raised.
    """
    if spec.problem.joints is not None:
        return None  # differences off the constraints grow in every step, and are taken back by the next
    if not isinstance(executor, executors.SingleSteps) or spec.dtype != np.float64:
        return None
    is_explicit = isinstance(spec.traced.step.jaxpr.outvars[-2], core.Literal)  # type: ignore[union-attr]
    nodes = _nodes(spec, len(executor.real_rows) <= WHOLE)
    if not is_explicit and len(nodes[1]) == 1:
        return None
    states, steps = list(_states(spec, layout, executor)), _Steps(spec, layout, executor, nodes)
    first, unstable = None, 0
    for t, state in states:
        is_lost = not np.isfinite(state).all()
        here = None if is_lost else _unstable_about(functools.partial(steps.about, t, state), t, spec, is_explicit)
        first, unstable = first or here, unstable + (is_lost or here is not None)
    return first if unstable >= min(2, len(states)) else None


def _unstable_about(
    about: Callable[..., tuple[Look, Look]], t: float, spec: Spec, is_explicit: bool
) -> UnstableStep | None:
    """The unstable step about a state, or None, by the rates of steps and by those of the equations beside them."""
    look, own_of = about()
    place = min(int(np.searchsorted(spec.times, t, side="right")), spec.steps) - 1
    h, T = float(spec.lengths[place]), float(spec.times[-1] - spec.times[0])
    grown = look(h)
    if grown is None or not any(_is_notable(rate, h, T) for rate in grown):
        return None
    own = own_of(h)
    if own is None:
        return None
    in_the_mean, in_mean_square = (_is_unstable(rate, slow, h, T) for rate, slow in zip(grown, own, strict=True))

    def longest() -> float:
        return _longest(*about(TURNS), h, T)

    if in_the_mean:
        return UnstableStep(t, h, "in the mean", math.exp(grown.mean * h), longest) if is_explicit else None
    return UnstableStep(t, h, "in mean square", math.exp(grown.square * h), longest) if in_mean_square else None


def _is_notable(rate: float, h: float, T: float) -> bool:
    return rate * h > NOTICED and rate * T > GROWTH


def _is_unstable(rate: float, own: float, h: float, T: float) -> bool:
    """Whether a step grows although the equations do not, or much faster than they do."""
    return _is_notable(rate - max(own, 0.0), h, T) and rate > 3.0 * own


def _own_growth(look: Look, h: float, T: float) -> Growth | None:
    """The rates of the equations: those of steps so short that two halvings leave them as they are, since those of two
    unstable steps may agree by chance."""
    before, was_near = None, False
    for halvings in range(4, FINEST):
        now = look(h / 2**halvings)
        if now is None:
            return None
        is_near = before is not None and all(
            abs(a - b) <= 0.1 * (abs(a) + 1.0 / T) for a, b in zip(now, before, strict=True)
        )
        if is_near and was_near:
            return now
        before, was_near = now, is_near
    return None


def _longest(look: Look, own_of: Look, h: float, T: float) -> float:
    """The longest step that is not unstable, to some percent."""
    bad, good = 0.0, -float(FINEST)  # of log2 of the step over h
    for _ in range(10):
        middle = 0.5 * (bad + good)
        step = h * 2.0**middle
        grown = look(step)
        is_good = grown is not None and not any(_is_notable(rate, step, T) for rate in grown)
        if grown is not None and not is_good and (own := own_of(step)) is not None:
            is_good = not any(_is_unstable(a, b, step, T) for a, b in zip(grown, own, strict=True))
        bad, good = (bad, middle) if is_good else (middle, good)
    return h * 2.0**good


def _stable_method(problem: Any, spec: Spec, layout: Layout) -> str | None:
    """The name of an implicit method whose steps of the same length are stable, tried as this one was."""
    for method in stable_methods(problem) if problem.n <= SMALL else ():
        try:
            if _unstable_with(problem, method, spec, layout) is None:
                return method.name
        except (TypeError, ValueError):  # it takes no such problem
            continue
    return None


def _of_plant(loop: Looped, spec: Spec, layout: Layout) -> UnstableStep | None:
    """The unstable step of the plant alone: between samples a loop makes its steps, and what grows there because the
    plant is unstable is what the parts of the loop bring back."""
    return _unstable_with(loop.problem, innermost_method(spec.method), spec, layout)


def _unstable_with(problem: Any, method: Any, spec: Spec, layout: Layout) -> UnstableStep | None:
    """The unstable step of another problem or method in a run like this one."""
    with unheard():
        other = describe(problem, method, (spec.times[0], spec.times[-1]), spec.lengths, None, "float64")
    executor = executors.get(other)
    return find_unstable(other, Layout(other, layout.paths, layout.seed, executor.width), executor)


def _states(spec: Spec, layout: Layout, executor: executors.SingleSteps) -> Iterator[tuple[float, np.ndarray]]:
    """Times and states of the method: of the first path at its start, of another one at each of the first saves."""
    starting = spec.traced.starting_steps  # type: ignore[union-attr]
    if not starting:
        yield float(spec.times[0]), executor.states_after(layout, 1, 0)[:, 0]
    saves = np.unique(np.concatenate([saved_steps[:3] for saved_steps in spec.saves]))
    limit = int(PILOT * layout.paths * spec.steps / executor.lane_multiple)
    steps = sorted({min(int(k), limit) for k in saves if k > starting} - set(range(starting + 1)))[:SAVES]
    paths = min(layout.paths, executor.lane_multiple)
    for k in steps:
        yield float(spec.times[k]), executor.states_after(layout, paths, k)[:, k % paths]


class _Stated(NamedTuple):
    """What a run states of its noise and shows along its first paths.

    spec, layout, executor  its steps
    kind   what is stated
    paths  how many are followed
    steps  after which their states are looked at: as far as a small part of the run's work, or what costs nothing,
           takes them
    """

    spec: Spec
    layout: Layout
    executor: executors.SingleSteps
    kind: str
    paths: int
    steps: tuple[int, ...]

    def states(self, k: int) -> np.ndarray:
        return self.executor.states_after(self.layout, self.paths, k)[: self.spec.problem.n].T

    @property
    def params(self) -> Any:
        return self.spec.params_tree.unflatten(self.layout.members_from(0, self.paths, self.paths).params)


def _stated(run: Any, problem: Any) -> _Stated | None:
    """What can be examined; None where nothing is stated that is not proved, or the states of the method do not show
    those of the problem."""
    spec, layout, executor = _silent(run)
    kind = getattr(problem, "structure", None)
    is_examined = (
        isinstance(executor, executors.SingleSteps)
        and type(spec.problem) is type(problem) is SDE
        and spec.dtype == np.float64
        and kind in CLAIMS
        and problem.examined_structure.known != PROVED
        and problem.n**2 * problem.m <= DIFFERENTIATED
    )
    traced: Any = spec.traced
    if not is_examined or traced.read.jaxpr.outvars[0] is not traced.read.jaxpr.invars[0]:
        return None  # its state does not begin with x
    affordable = max(PILOT * layout.paths * spec.steps, FREE / max(traced.operations, 1))
    farthest = min(affordable / (executor.lane_multiple * sum(ALONG)), spec.steps)
    return _Stated(spec, layout, executor, str(kind), min(layout.paths, FIRST),
                   tuple(sorted({int(share * farthest) for share in ALONG})))  # fmt: skip


def _refuse_false_structure(run: Any, problem: Any) -> None:
    """Refuse noise that is not what is stated of it in states that the first paths come to."""
    stated = _stated(run, problem)
    if stated is None:
        return
    spec, look = stated.spec, problem.traced_functions["diffusion"]
    key = (look.digest, *spec.varies) if look.has_full_digest else object()
    if key not in _looked:
        _looked[key] = noise_and_slopes(spec.problem.g, spec.axes)
    params = stated.params
    for k in stated.steps:
        if not holds_in(stated.kind, _looked[key](np.full(stated.paths, spec.times[k]), stated.states(k), params)):
            raise ValueError(
                f"structure: {stated.kind!r} is stated, but on the first {stated.paths} paths the noise is not "
                f"{stated.kind} at t = {spec.times[k]:g}, and methods made for {stated.kind} noise would give wrong "
                "results. Leave structure out: it is then determined from the diffusion."
            )


class _Steps:
    """Single steps of a run from a state of its method and from states beside it."""

    def __init__(
        self, spec: Spec, layout: Layout, executor: executors.SingleSteps, nodes: tuple[np.ndarray, np.ndarray]
    ):
        self.rows, self.duration = executor.real_rows, float(spec.times[-1] - spec.times[0])
        N, (points, self.weights) = len(self.rows), nodes
        self.is_whole = N <= WHOLE
        if self.is_whole:
            self.shifts = np.concatenate([np.zeros((N, 1)), APART * np.eye(N), 8 * APART * np.eye(N)], axis=1)
        else:
            self.shifts = np.zeros((N, 2 * DIRECTIONS))
        self.normals, first = {}, 0
        for name, count in spec.traced.streams:  # type: ignore[union-attr]
            self.normals[name] = np.repeat(points[first : first + count], self.shifts.shape[1], axis=1)
            first += count
        lanes = executors.lanes_for(min(layout.paths, layout.width), executor.lane_multiple)
        operations = max(spec.traced.operations, 1)  # type: ignore[union-attr]
        affordable = max(SHARE * lanes * spec.steps, CHEAP / operations) / (2 * DIRECTIONS)
        self.turns = int(np.clip(affordable, FEWEST_TURNS, TURNS))
        self.spec, self.layout, self.step = spec, layout, self._stepper(layout, executor)

    def _stepper(self, layout: Layout, executor: executors.SingleSteps) -> executors.Step:
        return executor.stepper(layout, self.normals, len(self.weights) * self.shifts.shape[1])

    @functools.cached_property
    def step_at_any_length(self) -> executors.Step:
        """The step where it has another length than those of the run."""
        method: Any = self.spec.method
        free = method.at_any_length()
        if free is method:
            return self.step
        spec = dataclasses.replace(self.spec, method=free).traced_anew()
        spec = dataclasses.replace(spec, traced=spec.traced.silent)  # type: ignore[union-attr]
        return self._stepper(dataclasses.replace(self.layout, spec=spec), executors.get(spec))  # type: ignore[arg-type]

    def about(self, t: float, state: np.ndarray, turns: int | None = None) -> tuple[Look, Look]:
        """The rates of steps about a state, and those of the equations.

        Short steps hardly turn random directions, so that a slow growth would be missed along those. Where rates are
        not eigenvalues the equations are therefore followed from the directions, or second moments, that steps of
        that length come to in some turns; by itself it makes as many of them as the run can afford.
        """
        if self.is_whole:
            begun, follow = np.eye(len(self.rows)), functools.partial(self._growth, t, state)
        else:
            begun = np.random.default_rng(1).standard_normal((len(self.rows), DIRECTIONS))
            follow = functools.partial(self._growth_in_directions, turns or self.turns, t, state)

        def own_growth(h: float) -> Growth | None:
            moved, turned = follow(h, begun)
            return None if moved is None else _own_growth(lambda short: follow(short, turned)[0], h, self.duration)

        return lambda h: follow(h, begun)[0], own_growth

    def _growth(self, t: float, state: np.ndarray, h: float, P: np.ndarray) -> tuple[Growth | None, np.ndarray]:
        """The rates of steps of length h about a small state, and the second moments that P comes to."""
        with np.errstate(all="ignore"):
            M = self._matrices(t, state, h)
            if M is None:
                return None, P
            mean = square = _radius(np.tensordot(self.weights, M, 1))
            if len(M) > 1:
                square, P = _square_radius(M, self.weights, P)
                square = math.sqrt(square)
        return Growth(*(math.log(max(rho, 1e-300)) / h for rho in (mean, square))), P

    def _after(self, t: float, state: np.ndarray, h: float, shifts: np.ndarray) -> np.ndarray:
        """The states (nodes, N, shifts) after a step, in units of their size, from a state and states beside it."""
        states = np.repeat(state[:, None], shifts.shape[1], axis=1)
        states[self.rows] += _size(state[self.rows])[:, None] * shifts
        step = self.step if h == self.spec.lengths[0] else self.step_at_any_length
        after = step(np.tile(states, len(self.weights)), t, h)[self.rows] / _size(state[self.rows])[:, None]
        return after.reshape(len(self.rows), len(self.weights), -1).transpose(1, 0, 2)

    def _matrices(self, t: float, state: np.ndarray, h: float) -> np.ndarray | None:
        """M (nodes, N, N) in units of the state's size, from differences at two distances, which must agree."""
        N, after = len(self.rows), self._after(t, state, h, self.shifts)
        near = (after[:, :, 1 : N + 1] - after[:, :, :1]) / APART
        far = (after[:, :, N + 1 :] - after[:, :, :1]) / (8 * APART)
        agree = np.abs(near - far).max() <= 0.01 * max(1.0, np.abs(near).max())  # NaN does not
        return near if agree else None

    def _growth_in_directions(
        self, turns: int, t: float, state: np.ndarray, h: float, v: np.ndarray
    ) -> tuple[Growth | None, np.ndarray]:
        """The growth that some directions v come to, turned by the step repeatedly, and those directions."""
        grown = []
        with np.errstate(all="ignore"):
            for _ in range(turns):
                v = v / np.linalg.norm(v, axis=0)
                shifts = np.concatenate([0.0 * v, APART * v], axis=1)
                (after,) = self._after(t, state, h, shifts)
                v = (after[:, DIRECTIONS:] - after[:, :DIRECTIONS]) / APART
                grown.append(float(np.mean(np.linalg.norm(v, axis=0))))
        if not np.all(np.isfinite(grown)):
            return None, v
        rate = float(np.mean(np.log(np.maximum(grown[turns // 2 :], 1e-300)))) / h
        return Growth(rate, rate), v


def _size(state: np.ndarray) -> np.ndarray:
    """The size of each scalar of a state; that of a zero is the size of the others, or 1."""
    size = np.abs(state)
    rest = size.max(initial=0.0)
    return np.where(size > 0, size, rest if rest > 0 else 1.0)


def _nodes(spec: Spec, is_whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (normals, count) of a step's normals and their weights: one, zero, where the noise is additive, and where
    the state is large."""
    traced: Any = spec.traced
    normals = sum(count for _, count in traced.streams)
    if spec.record["noise"].startswith("additive") or not normals or not is_whole:
        return np.zeros((normals, 1)), np.ones(1)
    if len(NODES) ** normals <= DRAWN:
        points = np.array(list(itertools.product(range(len(NODES)), repeat=normals))).T
        return NODES[points], np.prod(WEIGHTS[points], axis=0)
    half = DRAWN // 2
    z = np.random.default_rng(0).standard_normal((normals, half))
    z /= np.sqrt(np.mean(z**2, axis=1, keepdims=True))
    return np.concatenate([z, -z], axis=1), np.full(2 * half, 0.5 / half)


def _radius(M: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(M)).max())


def _square_radius(M: np.ndarray, weights: np.ndarray, P: np.ndarray) -> tuple[float, np.ndarray]:
    """The spectral radius of P -> E[M P M']: from its eigenvalues, or by growth from some P; and what P comes to."""
    N, grown = M.shape[1], []
    flat = M.reshape(len(M), -1)
    products = np.einsum("ki,kj->ij", weights[:, None] * flat, flat)  # not by BLAS, whose threads would wake for it
    square = products.reshape(N, N, N, N).swapaxes(1, 2).reshape(N * N, -1)
    if N <= SOLVED:
        return _radius(square), P
    p = P.ravel()
    for _ in range(2 * TURNS):
        p = np.einsum("ij,j->i", square, p)
        grown.append(np.trace(p.reshape(N, N)))
        p = p / grown[-1]
    return float(np.exp(np.mean(np.log(grown[TURNS:])))), p.reshape(N, N)
