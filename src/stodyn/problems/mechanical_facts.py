"""What is proved about a mechanical system from the traces of its functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from stodyn.numerics import lyapunov, uncompiled
from stodyn.numerics.facts.degree import has_jumps
from stodyn.numerics.facts.dependence import arguments_of
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.tracing_errors import one_error_of_derivatives
from stodyn.problems.contract import NoiseStructure, kind_named, sample_params, written_as
from stodyn.problems.known_matrices import ConstantNoise
from stodyn.problems.motion import Motion
from stodyn.problems.structure import CHECKED_STATES, PROVED, find_structure

CONSTANT_UNDAMPED = "constant noise, undamped"
ADDITIVE_LINEAR = "additive noise, linear damping"
POINTS, NEARLY = 8, 0.05  # where slopes are looked at, and by how much those of a nearly linear system differ
T, Y, V, Z = range(4)  # the numbers of the arguments of accelerations and kicks


class Facts(NamedTuple):
    """The arguments on which the acceleration M⁻¹ force and the kicks M⁻¹ noise depend, proved from their traces."""

    noise_on_t: bool
    noise_on_x: bool
    noise_on_v: bool
    force_on_v: bool
    linear_damping: bool  # a is affine in v
    noise_follows_constraints: bool = False  # noise depends on a z that depends on v, and so does its derivative in v

    @property
    def additive(self) -> bool:
        """Whether the kicks do not depend on the state."""
        return not (self.noise_on_x or self.noise_on_v)

    @property
    def is_constant_noise(self) -> bool:
        """Whether the kicks depend on nothing."""
        return self.additive and not self.noise_on_t


def facts_of(motion: Motion) -> Facts:
    """Return the facts of a mechanical system; whatever its traces cannot be taken apart for counts as dependence."""
    if motion.linear is not None and (not motion.m or isinstance(motion.noise, ConstantNoise)):
        return Facts(False, False, False, motion.linear.C.nnz > 0, True)
    if motion.joints is not None and motion.joints.mass_is_regular:
        return _facts_with_joints(motion)
    with jax.enable_x64(True):
        t, (y, v, z), params = np.zeros(()), motion.example_coordinates(), motion.params
        try:
            noise, force = _reached(motion, motion.kicks), _reached(motion, motion.acceleration)
            bent = arguments_of(
                lambda t, y, v, z, p, d: jax.jvp(lambda v: motion.acceleration(t, y, v, z, p), (v,), (d,))[1],
                t, y, v, z, params, v,
            )  # fmt: skip
        except Unprintable:
            return Facts(*(motion.m > 0,) * 3, True, False, _noise_follows_constraints(motion))
        if Z in bent:
            bent |= _reached(motion, lambda *args: motion.balance(*args)[1])
        follows = _noise_follows_constraints(motion)
    return Facts(T in noise, Y in noise, V in noise, V in force, V not in bent, follows)


def _facts_with_joints(motion: Motion) -> Facts:
    """The facts of the motion along the constraints, from those of the free motion and of the slopes G of g: the
    projections depend on what G depends on, and the term of the curvature is quadratic in v where that is q."""
    joints: Any = motion.joints
    free = joints.free.facts
    G = joints.reached(lambda t, q, v, p: jax.jvp(lambda q: joints.value(t, q, p), (q,), (v,))[1]) & {T, Y}
    on_t, on_x = (free.noise_on_t or T in G, free.noise_on_x or Y in G) if motion.m else (False, False)
    return Facts(on_t, on_x, free.noise_on_v, free.force_on_v or bool(G), free.linear_damping and Y not in G)


def _noise_follows_constraints(motion: Motion) -> bool:
    if motion.is_regular:
        return False
    arguments = (np.zeros(()), *motion.example_coordinates(), motion.params)
    try:
        constraints = arguments_of(lambda *args: motion.balance(*args)[1], *arguments)
        return Z in arguments_of(motion.kicks, *arguments) and V in constraints
    except Unprintable:
        return True


def _reached(motion: Motion, function: Callable) -> set[int]:
    """Return which of t, y and v a function depends on; through z on what the constraints do."""
    arguments = (np.zeros(()), *motion.example_coordinates(), motion.params)
    reached = arguments_of(function, *arguments)
    if Z in reached:
        reached |= arguments_of(lambda *args: motion.balance(*args)[1], *arguments)
    return reached & {T, Y, V}


def noise_structure_of(problem: Any) -> NoiseStructure:
    """Return the structure of the noise of (x, v), with two further kinds that methods.alpha distinguishes.

    constant noise, undamped         noise depends on nothing, the acceleration not on v
    additive noise, linear damping   noise depends on t alone, the acceleration is affine in v
    """
    has_matrices = problem.matrices is not None and isinstance(problem.noise, ConstantNoise)
    if has_matrices and problem.motion.is_regular:
        return _structure_of_matrices(problem)
    structure, facts = _plain_structure(problem), problem.facts
    kinds = structure.kinds
    if facts.additive and facts.linear_damping:
        kinds = (*kinds, ADDITIVE_LINEAR)
    if facts.additive and not (facts.noise_on_t or facts.force_on_v):
        kinds = (*kinds, CONSTANT_UNDAMPED)
    return NoiseStructure(kinds, structure.known)


def _plain_structure(problem: Any) -> NoiseStructure:
    """Return the structure of the noise of (x, v) without the further kinds."""
    if problem.m == 0:
        return NoiseStructure(("additive", "commutative"), "there is none")
    if not problem.motion.is_regular:
        return written_as(problem, kind_named("SDAE")).noise_structure
    if problem.joints is not None and not problem.facts.noise_on_v:
        # It acts on v and depends on t and x alone, so that no channel changes what another does.
        kinds = (*(("additive",) if problem.facts.additive else ()), *(("scalar",) if problem.m == 1 else ()))
        return NoiseStructure((*kinds, "commutative"), PROVED)
    with jax.enable_x64(True):
        start, params = problem.motion.start, problem.example_params()
        return find_structure(problem.g, start, params, sample_params(problem, CHECKED_STATES))


def _structure_of_matrices(problem: Any) -> NoiseStructure:
    """Return the structure of noise that multiplies a constant matrix, in a structure whose matrices are known."""
    kinds = ("additive", *(("scalar",) if problem.m == 1 else ()), "commutative")
    if problem.is_linear:
        kinds = (*kinds, ADDITIVE_LINEAR, *((CONSTANT_UNDAMPED,) if not problem.facts.force_on_v else ()))
    return NoiseStructure(kinds, "its matrix is constant")


def has_constant_slopes(problem: Any) -> bool:
    """Whether the acceleration of a system is affine in x and v with slopes that do not depend on time; all its
    coordinates have inertia and are free."""
    motion = problem.motion
    if motion.linear is not None:
        return True
    if not problem.facts.linear_damping:
        return False
    with jax.enable_x64(True):
        arguments = np.zeros(()), motion.start, motion.params
        direction = np.ones_like(motion.start)  # any: in a fixed one, forces of differences would have no slope
        try:
            with one_error_of_derivatives():
                return not has_jumps(problem.f, arguments, (1,)) and not {0, 1} & arguments_of(
                    lambda t, s, params, v: jax.jvp(lambda s: problem.f(t, s, params), (s,), (v,))[1],
                    *arguments, direction,
                )  # fmt: skip
        except (Unprintable, NotImplementedError):  # JAX differentiates most operations, but not all
            return False


def slopes_at_the_start(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of d(x, v) = A (x, v) dt + b dW, the equations of a system linearised about its start."""
    start, params = problem.motion.start, problem.motion.params
    with jax.enable_x64(True):
        A = uncompiled.value(jax.jacfwd(lambda s: problem.f(0.0, s, params)), start)
        b = uncompiled.value(lambda s: problem.g(0.0, s, params), start)
    return A, b


class _Reach(NamedTuple):
    """Where noise takes a system linearised about its start: A, the deviations of x and v in the long run, and places
    twice these about the start and the place of rest."""

    A: np.ndarray
    deviations: np.ndarray
    places: np.ndarray


def _reach(problem: Any, A: np.ndarray, b: np.ndarray) -> _Reach | None:
    """None of a system in which some component comes to rest nowhere, or is not moved by noise."""
    start, params = problem.motion.start, problem.motion.params
    with jax.enable_x64(True):
        rate = uncompiled.value(lambda s: problem.f(0.0, s, params), start)
    try:
        deviations = np.sqrt(lyapunov.continuous(A, b @ b.T).diagonal())
        rest = start - np.linalg.solve(A, rate)
    except ValueError:
        return None
    if not deviations.all():
        return None
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (POINTS, len(start)))
    return _Reach(A, deviations, np.concatenate([place + 2.0 * deviations * signs for place in (start, rest)]))


def deviations_where_nearly_linear(problem: Any, times: np.ndarray) -> np.ndarray | None:
    """The deviations of x and v in the long run by the equations linearised about the start; None where there are
    none, or where slopes anywhere within twice these, about the start or the place of rest, are others than there."""
    start, params = problem.motion.start, problem.motion.params
    with jax.enable_x64(True):
        if has_jumps(problem.f, (np.zeros(()), start, params), (1,)):
            return None
        slopes = AtPoints(jax.jacfwd(lambda s, t: problem.f(t, s, params)), (0, 0), few=1)
    reach = _reach(problem, *slopes_at_the_start(problem))
    if reach is None:
        return None
    at = times[np.linspace(0, len(times) - 1, len(reach.places)).astype(int)]
    unit = reach.deviations / reach.deviations[:, None]
    off = np.abs(slopes(reach.places, at) - reach.A) * unit
    return reach.deviations if off.max() <= NEARLY * np.abs(reach.A * unit).max() else None


def has_nearly_constant_noise(problem: Any, t: float) -> bool:
    """Whether noise as it is at a time is nearly the same wherever it takes the system, linearised about the start."""
    noise = AtPoints(lambda s: problem.g(t, s, problem.motion.params), (0,), few=1)
    at_start = noise(problem.motion.start[None])[0]
    reach = _reach(problem, slopes_at_the_start(problem)[0], at_start)
    return reach is not None and np.abs(noise(reach.places) - at_start).max() <= NEARLY * np.abs(at_start).max()
