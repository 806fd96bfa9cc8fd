"""Before a run: do the method's steps give a linear mechanical system with white noise the variances that it has?

A step of such a system is a linear map s' = M s + G ξ + c of the method's state s and its normals ξ. The program of the
run makes single steps from unit states and with unit normals, which gives M and G, and by doubling the covariance of
the state after all steps of the run and in the long run. Both must be notably off before a run warns: the first steps
of a path are off at any length of the steps, and of a run that is short beside the time in which the system forgets its
start nothing in the long run is seen. In the modes of a large structure M is a small matrix for each mode, and
covariances cost little.

How wrong a mode is does not depend on how strong the noise is. Noise that changes in time is therefore held as it is
when it is strongest, and as it is when its shape differs most from that; of noise that always changes much in a step
nothing is said. Parameters that differ between paths are those of a few paths, from those with low frequencies to those
with high ones, whose variances are averaged. Such runs, and those in float32, are made once more for this, in float64.

Nothing is said of systems whose variances do not settle (no damping), and of nonlinear ones, unless they are nearly
linear wherever the noise takes them. Their steps are then linearised about the start too. Noise that depends on the
state, but is nearly the same wherever it takes the system, is held as it is at the start.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
import scipy
from jax import Array

from stodyn.engine import grid
from stodyn.engine.layout import Layout
from stodyn.engine.program import executors
from stodyn.engine.run import Run
from stodyn.engine.spec import describe
from stodyn.numerics import lyapunov, uncompiled, van_loan
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_else
from stodyn.problems.calling import call
from stodyn.problems.contract import sample_params
from stodyn.problems.driven import LINEARISED, longest_step, response_in_words, warn_of_response
from stodyn.problems.measured import Measured
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.mechanical_facts import (
    deviations_where_nearly_linear,
    has_constant_slopes,
    has_nearly_constant_noise,
    slopes_at_the_start,
)
from stodyn.telling import unheard

FEW = 60  # scalars of a state up to which modes would save nothing
MOST_STATES = 200  # up to which its covariance is computed where modes are no help
MOST_COORDINATES = 600  # of structures whose modes are computed
SYMMETRIC = 1e-9  # entries that agree so well are equal: slopes and matrices from files are known no better
COUPLED = 1e-6  # damping between modes, relative to that of each, above which it couples them
BEGUN = 0.01  # of its variance in the long run, below which that of a component at the end of a run counts as none yet
PATHS, MEMBERS = 60, 5  # of a run whose parameters differ between paths, and those of them whose variances are averaged
MOMENTS = 64  # at which noise that changes in time is looked at
SLIGHT, SAME_SHAPE = 0.01, 1e-6  # of the strongest noise, that does not matter; entries of products, shapes being 1
STEADY = 0.3  # of its variance, by which noise may change in a step at a time as of which it is held
MOST_DOUBLINGS = 64  # of a number of steps, in which every system that settles has settled
SMALL_SHIFT = 2.0**-20  # of a state that must not reach a level, or not leave what is linear about it
LEAST_SHIFT = 2.0**-34  # relative to the start, below which differences are rounding

_verdicts: Bounded[Any, Verdict | None] = Bounded(256)


class Verdict(NamedTuple):
    """The variances of x and v at the end of a run, as they are delivered and exact; `longest`: the longest step with
    which they are right, None where none was found; `basis`: what they are computed from, where it is not the run's."""

    delivered: np.ndarray
    exact: np.ndarray
    longest: float | None
    basis: str = ""

    @property
    def error(self) -> float:
        """The largest relative error."""
        known = self.exact > 0.0
        return float(np.abs(self.delivered[known] / self.exact[known] - 1.0).max(initial=0.0))


class _Equations(NamedTuple):
    """M x'' + C x' + K x = B ξ."""

    M: np.ndarray
    C: np.ndarray
    K: np.ndarray
    B: np.ndarray

    @property
    def is_known(self) -> bool:
        return all(np.isfinite(part).all() for part in self)

    def of_first_order(self) -> tuple[np.ndarray, np.ndarray]:
        """A and b of d(x, v) = A (x, v) dt + b dW."""
        N = len(self.M)
        K, C, B = np.split(np.linalg.solve(self.M, np.concatenate([self.K, self.C, self.B], axis=1)), [N, 2 * N], 1)
        return np.block([[np.zeros((N, N)), np.eye(N)], [-K, -C]]), np.concatenate([np.zeros_like(B), B])


class _Law(Protocol):
    """Variances of x and v: exact, and delivered by steps of a length, at a time and, at infinity, in the long run;
    None where they are not known."""

    def exact(self, T: float) -> np.ndarray | None: ...

    def delivered(self, h: float, T: float) -> np.ndarray | None: ...


def warn_of_wrong_variances(run: Any, problem: Any, method: Any) -> None:
    """Warn where a run gives x or v of a linear mechanical system with white noise a wrong variance at its end."""
    spec = run.spec
    system = problem.problem if type(problem) is Measured else problem
    if not isinstance(system, Mechanical) or system.coloured is not None or not system.m:
        return
    if not isinstance(run.executor, executors.SingleSteps) or np.ptp(spec.lengths) > grid.TOLERANCE * spec.lengths[0]:
        return
    h, (params, _) = float(spec.lengths[0]), sample_params(system, PATHS)
    values = (np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params))
    key = (spec.traced.fingerprints, *values, h, spec.steps, str(spec.dtype))
    if key not in _verdicts:
        _verdicts[key] = _verdict(run, system, method)
    verdict = _verdicts[key]
    if verdict is not None:
        when = f"at t = {spec.times[-1]:g}"
        warn_of_response(method, h, (verdict.delivered, verdict.exact), system.components, when, verdict.longest,
                         verdict.basis)  # fmt: skip


@or_else(lambda run, system, method: None)
def _verdict(run: Any, system: Mechanical, method: Any) -> Verdict | None:
    if system.joints is not None or not system.motion.is_regular or not _is_nearly_additive(system, run.spec.times):
        return None
    h, verdicts = float(run.spec.lengths[0]), []
    for basis, cases in _held(run, system, method):
        shift = _shift(*cases[0])
        laws = [] if shift is None else [own for case in cases if (own := _law(*case, shift)) is not None]
        if not laws or len(laws) < len(cases):
            return None
        law: _Law = laws[0] if len(laws) == 1 else _Mean(laws)
        verdict = _verdict_on(law, h, h * run.spec.steps, system.components)
        if verdict is not None:
            linearised = "" if has_constant_slopes(cases[0][1]) else LINEARISED
            verdicts.append(verdict._replace(basis=linearised + basis))
    return max(verdicts, key=lambda verdict: verdict.error, default=None)


def _is_nearly_additive(system: Mechanical, times: np.ndarray) -> bool:
    if system.facts.additive:
        return True
    is_small = system.n == 2 * system.N <= FEW
    if not is_small or system.has_random_start:
        return False
    return all(has_nearly_constant_noise(system, t) for t in _moments(system, times))


def _shift(run: Any, system: Mechanical) -> float | None:
    """By how much states may be moved to show a linear step, None where none would be."""
    if has_constant_slopes(system):
        return SMALL_SHIFT if run.spec.levels else 1.0
    if system.has_random_start or system.n != 2 * system.N or 2 * system.N > FEW:
        return None
    deviations = deviations_where_nearly_linear(system, run.spec.times)
    if deviations is None:
        return None
    shift = SMALL_SHIFT * min(1.0, deviations.min())
    return shift if shift > LEAST_SHIFT * np.abs(system.example_start()).max() else None


def _verdict_on(law: _Law, h: float, T: float, names: Sequence[str]) -> Verdict | None:
    exact, delivered = law.exact(T), law.delivered(h, T)
    if exact is None or delivered is None or response_in_words(delivered, exact, names) is None:
        return None
    settled, in_the_long_run = law.exact(np.inf), law.delivered(h, np.inf)
    if settled is None:
        return None
    exact, delivered = (np.where(exact < BEGUN * settled, 0.0, variances) for variances in (exact, delivered))
    if response_in_words(delivered, exact, names) is None:
        return None
    is_right_later = in_the_long_run is not None and response_in_words(in_the_long_run, settled, names) is None
    if is_right_later and response_in_words(exact, settled, names) is not None:
        return None  # the run ends on the way to a law that the steps have too

    def is_off(shorter: float) -> bool:
        at_end = law.delivered(shorter, T)
        return at_end is None or response_in_words(np.where(exact > 0.0, at_end, 0.0), exact, names) is not None

    return Verdict(delivered, exact, longest_step(is_off, h))


def _law(run: Any, system: Mechanical, shift: float) -> _Law | None:
    """The law of a small state as a whole, of a large one by modes where damping leaves these uncoupled."""
    states = len(run.executor.real_rows)
    if system.N > MOST_COORDINATES:
        return None
    equations = _equations(system)
    if not equations.is_known:
        return None
    modes = None if states <= FEW or states % system.N else _modes(equations)
    if modes is not None:
        return _ByModes(run, equations, modes, shift)
    return _Whole(run, equations, shift) if states <= MOST_STATES else None


def _equations(system: Any) -> _Equations:
    """The equations, by their matrices where these are given, else by their slopes."""
    N, start = system.N, np.asarray(system.example_start()[: 2 * system.N], float)
    if system.is_linear:

        def noise(s: Array) -> Array:
            return call(system.noise, 0.0, s[:N], s[N:], params=system.example_params())

        B = np.reshape(uncompiled.value(noise, start), (N, system.m))
        M, C, K = (matrix.toarray() for matrix in system.matrices)
        return _Equations(M, C, K, B)
    A, b = slopes_at_the_start(system)
    M = np.eye(N) if system.mass_matrix is None else np.asarray(system.mass_matrix)
    return _Equations(M, -M @ A[N:, N:], -M @ A[N:, :N], M @ b[N:])


class _Whole:
    """The law of all coordinates together."""

    def __init__(self, run: Any, equations: _Equations, shift: float):
        self.A, self.b = equations.of_first_order()
        units = np.eye(len(run.executor.real_rows))
        self.step, self.read = _stepper(run, units, shift), _reading(run, units, len(self.A))

    def exact(self, T: float) -> np.ndarray | None:
        if np.isfinite(T):
            return np.diagonal(van_loan.discretise(self.A, self.b, np.eye(self.b.shape[1]), T)[1])
        try:
            return np.diagonal(lyapunov.continuous(self.A, self.b @ self.b.T))
        except ValueError:  # nothing is known of the long run of modes that decay no faster than rounding lets them
            return None

    def delivered(self, h: float, T: float) -> np.ndarray | None:
        M, G = self.step(h)
        covariance = _covariance(M[None], G @ G.T, h, T)
        return None if covariance is None else np.sum((self.read @ covariance) * self.read, axis=1)


def _stepper(run: Any, directions: np.ndarray, shift: float) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
    """M times some directions, and G, of a step by its length, from single steps of the run's program about the state
    it begins with."""
    spec, executor, rows = run.spec, run.executor, run.executor.real_rows
    streams, count = spec.traced.streams, directions.shape[1]
    inputs = shift * scipy.linalg.block_diag(directions, *(np.eye(size) for _, size in streams))
    inputs = np.concatenate([np.zeros((len(inputs), 1)), inputs], axis=1)
    shifts, *parts = np.split(inputs, np.cumsum([len(rows), *(size for _, size in streams)])[:-1])
    normals = {name: part for (name, _), part in zip(streams, parts, strict=True)}
    states = np.repeat(executor.states_after(run.layout, 1, spec.traced.starting_steps), inputs.shape[1], axis=1)
    states[rows] += shifts
    advance = executor.stepper(run.layout, normals, inputs.shape[1])

    def step(h: float) -> tuple[np.ndarray, np.ndarray]:
        after = advance(states, float(spec.times[0]), h)[rows]
        moved = (after[:, 1:] - after[:, :1]) / shift
        return moved[:, :count], moved[:, count:]

    return step


def _reading(run: Any, directions: np.ndarray, count: int) -> np.ndarray:
    """The first components (count, directions) that are read off some directions of the real scalars of a state."""
    traced, rows = run.spec.traced, run.executor.real_rows
    sizes = [int(np.prod(shape)) for shape in traced.state_shapes]
    states = np.zeros((sum(sizes), directions.shape[1]))
    states[rows] = directions
    shapes = list(zip(traced.state_shapes, traced.state_dtypes, strict=True))
    columns = []
    for state in states.T:
        parts = np.split(state, np.cumsum(sizes)[:-1])
        leaves = [part.reshape(shape).astype(dtype) for part, (shape, dtype) in zip(parts, shapes, strict=True)]
        columns.append(uncompiled.run(traced.read, *leaves)[0][:count])
    return np.array(columns).T


def _covariance(M: np.ndarray, Q: np.ndarray, h: float, T: float) -> np.ndarray | None:
    """Q + M Q M' + ... up to time T, by doubling, where M (blocks, s, s) is the diagonal of a matrix of blocks; None
    where it overflows, or where there is no limit."""

    def from_left(P: np.ndarray) -> np.ndarray:
        return (M @ P.reshape(len(M), M.shape[1], -1)).reshape(P.shape)

    total, doubled = np.zeros_like(Q), Q
    steps = round(T / h) if np.isfinite(T) else 2**MOST_DOUBLINGS
    with np.errstate(all="ignore"):
        while steps and np.isfinite(doubled).all():
            if steps & 1:
                total = doubled + from_left(from_left(total).T)
            if np.isinf(T) and np.abs(M).max() < np.finfo(float).eps:
                return doubled
            steps >>= 1
            doubled, M = doubled + from_left(from_left(doubled).T), M @ M
    return total if np.isfinite(total).all() and np.isfinite(T) else None


# --- what changes in time, or from path to path, held fast ------------------------------------------------------------


def _held(run: Any, system: Mechanical, method: Any) -> Iterator[tuple[str, list[tuple[Any, Any]]]]:
    """Runs in float64, and their systems, in which neither noise nor parameters vary, with what they hold in words:
    those in one list are together the run."""
    has_constant_noise, params = system.facts.is_constant_noise, _spread_params(system)
    if has_constant_noise and not params and run.spec.dtype == np.float64:
        yield "", [(run, system)]
        return
    spread = f", in the mean over {MEMBERS} paths from low frequencies to high ones" if params else ""
    for t in [None] if has_constant_noise else _moments(system, run.spec.times):
        held: Any = system if t is None else system.changed(noise=functools.partial(_noise_at, system, t))
        held = held.changed(params=params[0]) if params else held
        is_traced = t is None and run.spec.dtype == np.float64
        first = _with_params(run, held) if is_traced else _in_double(run.spec, held, method)
        others = [held.changed(params=own) for own in params[1:]]
        cases = [(first, held), *((_with_params(first, other), other) for other in others)]
        where = "" if system.facts.additive else " where paths start"
        yield spread + ("" if t is None else f", by the noise as it is at t = {t:g}{where}"), cases


def _noise_at(system: Any, moment: float, t: Array, x: Array, v: Array, params: Any) -> Any:
    start = np.asarray(system.example_start()[: 2 * system.N], float)
    return call(system.noise, moment, *(np.reshape(part, x.shape) for part in np.split(start, 2)), params=params)


def _in_double(spec: Any, system: Any, method: Any) -> Run:
    with unheard():
        spec = describe(system, method, (spec.times[0], spec.times[-1]), spec.lengths, None, "float64")
    executor = executors.get(spec)
    return Run(spec, Layout(spec, 1, 0, executor.width), executor)


def _with_params(run: Run, system: Any) -> Run:
    """The run with other parameters, without tracing it again."""
    spec = dataclasses.replace(run.spec, problem=run.spec.problem.changed(params=system.params))
    return Run(spec, Layout(spec, 1, 0, run.executor.width), executors.get(spec))


def _spread_params(system: Any) -> list[Any]:
    """The parameters of some paths whose highest frequencies are spread as those of all; none where all are alike."""
    if not system.has_random_params:
        return []
    params, axes = sample_params(system, PATHS)
    start = np.asarray(system.example_start(), float)
    slopes = AtPoints(jax.jacfwd(lambda s, p: system.f(0.0, s, p)), (None, axes), few=1)
    fastest = np.abs(np.linalg.eigvals(slopes(start, params))).max(axis=1)
    chosen = np.argsort(fastest)[PATHS // (2 * MEMBERS) :: PATHS // MEMBERS]
    return [jax.tree.map(lambda axis, leaf, k=k: leaf if axis is None else leaf[k], axes, params,
                         is_leaf=lambda axis: axis is None) for k in chosen]  # fmt: skip


def _moments(system: Any, times: np.ndarray) -> list[float]:
    """When the noise is strongest, and when its shape differs most from that, among the times at which it hardly
    changes in a step; none where it is not seen at such a time."""
    steps = np.linspace(0, len(times) - 2, min(len(times) - 1, MOMENTS)).astype(int)
    start, params = np.asarray(system.example_start(), float), system.example_params()
    noise = AtPoints(lambda t: system.g(t, start, params), few=1)(np.concatenate([times[steps], times[steps + 1]]))
    products = noise @ noise.swapaxes(1, 2)
    now, next_ = products[: len(steps)], products[len(steps) :]
    sizes = np.trace(now, axis1=1, axis2=2)
    is_steady = np.abs(next_ - now).max(axis=(1, 2)) <= STEADY * sizes
    sizes = np.where(is_steady, sizes, 0.0)
    strongest = int(np.argmax(sizes))
    if not sizes[strongest] > 0.0:
        return []
    shapes = now / np.where(sizes > SLIGHT * sizes[strongest], sizes, np.inf)[:, None, None]
    apart = np.where(shapes.any(axis=(1, 2)), np.abs(shapes - shapes[strongest]).max(axis=(1, 2)), 0.0)
    other = int(np.argmax(apart))
    return [float(times[steps[k]]) for k in ([strongest, other] if apart[other] > SAME_SHAPE else [strongest])]


class _Mean:
    """The law of a system whose parameters differ between paths, from those of some of these."""

    def __init__(self, laws: list[_Law]):
        self.laws = laws

    def exact(self, T: float) -> np.ndarray | None:
        return _mean([law.exact(T) for law in self.laws])

    def delivered(self, h: float, T: float) -> np.ndarray | None:
        return _mean([law.delivered(h, T) for law in self.laws])


def _mean(variances: list[np.ndarray | None]) -> np.ndarray | None:
    known = [own for own in variances if own is not None]
    return np.mean(known, axis=0) if len(known) == len(variances) else None


# --- modes of large structures ----------------------------------------------------------------------------------------


class _Modes(NamedTuple):
    """q'' = -k q - c q' + ... of each mode (N,), and the shapes (N, N) of x = Φ q with Φ' M Φ = 1."""

    k: np.ndarray
    c: np.ndarray
    shapes: np.ndarray


def _is_symmetric(X: np.ndarray) -> bool:
    """Whether X is, in units in which its diagonal is 1: no entry of a positive matrix is larger."""
    unit = np.sqrt(np.abs(X.diagonal()))
    return bool((np.abs(X - X.T) <= SYMMETRIC * unit * unit[:, None]).all())


def _modes(equations: _Equations) -> _Modes | None:
    """The modes; None where there are no real ones, damping couples them, or one is not damped."""
    M, C, K, _ = equations
    if not (_is_symmetric(K) and _is_symmetric(M)):
        return None
    k, shapes = scipy.linalg.eigh(K, M)
    damping = shapes.T @ C @ shapes
    c = np.diagonal(damping)
    if not (k.min() > 0 and c.min() > 0):
        return None
    between = np.abs(damping - np.diag(c)) / np.sqrt(np.outer(c, c))
    return _Modes(k, c, shapes) if between.max() <= COUPLED else None


class _ByModes:
    """The law of a structure by that of its modes and the correlations between them.

    A state is some vectors (N,), such as x, v and φ. A step moves all modes side by side, so that steps from all shapes
    at once, one for each of these vectors, show the matrix of every mode.
    """

    def __init__(self, run: Any, equations: _Equations, modes: _Modes, shift: float):
        self.modes, vectors = modes, len(run.executor.real_rows) // len(modes.k)
        self.step = _stepper(run, np.kron(np.eye(vectors), modes.shapes.sum(axis=1)[:, None]), shift)
        self.to_modes, force = modes.shapes.T @ equations.M, modes.shapes.T @ equations.B
        self.common = force @ force.T
        first = np.kron(np.eye(vectors), np.eye(len(modes.k), 1))  # x and v of a coordinate are read like all others
        self.read = _reading(run, first, 2 * len(modes.k))[[0, len(modes.k)]]

    def exact(self, T: float) -> np.ndarray:
        """From the stationary covariances of pairs of modes, less what is left of them after a time T."""
        k, c, W = self.modes.k, self.modes.c, self.common
        sums, apart = c[:, None] + c, k - k[:, None]
        xx = W * sums / (sums * (np.outer(c, k) + np.outer(k, c)) + apart**2)
        xv, vv = -apart * xx / sums, xx * (np.outer(c, k) + np.outer(k, c)) / sums
        if np.isfinite(T):
            P = np.block([[xx, xv], [xv.T, vv]])
            left = _left_of(P, _flow(k, c, T))
            xx, vv = (P - left)[: len(k), : len(k)], (P - left)[len(k) :, len(k) :]
        return self._in_coordinates(xx, vv)

    def delivered(self, h: float, T: float) -> np.ndarray | None:
        N = len(self.modes.k)
        M, G = self.step(h)
        s = M.shape[1]
        blocks, kicks = (np.einsum("ik,pkn->ipn", self.to_modes, X.reshape(s, N, -1), optimize=True) for X in (M, G))
        kicks = kicks.reshape(N * s, -1)
        P = _covariance(blocks, kicks @ kicks.T, h, T)
        if P is None:
            return None
        xx, vv = (np.einsum("p,ipjq,q->ij", row, P.reshape(N, s, N, s), row, optimize=True) for row in self.read)
        return self._in_coordinates(xx, vv)

    def _in_coordinates(self, xx: np.ndarray, vv: np.ndarray) -> np.ndarray:
        Φ = self.modes.shapes
        return np.concatenate([np.sum((Φ @ P) * Φ, axis=1) for P in (xx, vv)])


def _flow(k: np.ndarray, c: np.ndarray, T: float) -> tuple[np.ndarray, ...]:
    """The entries xx, xv, vx, vv of exp(A T) of each mode."""
    δ = np.sqrt(0.25 * c**2 - k + 0j)
    δ = np.where(np.abs(δ) < 1e-8 * c, 1e-8 * c, δ)  # beside critical damping, where the quotient has a limit
    grown, decayed = np.exp((δ - 0.5 * c) * T), np.exp((-δ - 0.5 * c) * T)
    even, odd = 0.5 * (grown + decayed).real, (0.5 * (grown - decayed) / δ).real
    return even + 0.5 * c * odd, odd, -k * odd, even - 0.5 * c * odd


def _left_of(P: np.ndarray, flow: tuple[np.ndarray, ...]) -> np.ndarray:
    """exp(A T) P exp(A T)' of all modes."""
    xx, xv, vx, vv = (entries[:, None] for entries in flow)

    def from_left(P: np.ndarray) -> np.ndarray:
        x, v = np.split(P, 2)
        return np.concatenate([xx * x + xv * v, vx * x + vv * v])

    return from_left(from_left(P).T)
