"""The laws of linear SDEs with additive noise and slopes that do not change, as variances are judged.

Of coloured noise the long run is looked at when the method is prepared (problems.driven); those runs are judged here of
which that says nothing, because the method's steps grow or cannot be taken by NumPy.

Equations of Hamiltonians, and of SDAEs without constraints, are written as SDEs; those of circuits, with constraints or
without, are reduced as matrices. Noise that changes in time is held as it is when it is strongest and when its shape
differs most from that, at times at which it hardly changes in a step; parameters that differ between paths are those of
a few paths. A start that differs between paths has its covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy

from stodyn.engine.held import held_in_words, in_double, moments, spread_params, with_params
from stodyn.engine.laws import Law, Whole, mean_of
from stodyn.methods.exact import VanLoan
from stodyn.methods.wrapping import WrappedSteps, innermost_method
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.unprintable import remembered
from stodyn.numerics.uncompiled import Uncompiled
from stodyn.problems.contract import innermost, written_as
from stodyn.problems.driven import Driven
from stodyn.problems.driven_mechanical import DrivenMechanical
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.index import STATES
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.structure import depends_on_time, has_fixed_slopes

NOTABLE = 0.21  # relative error of a variance above which a run warns: twice that of Euler's method at a rate of 0.2/h
MOST = 30  # components of an SDE that is judged
LEAST_STEPS = 12  # of a run that is judged: the first are off at any length
STEADY = 0.02  # of its variance, by which noise may change in a step at a time as of which it is held
SOUND = 1e10  # condition of the masses of a circuit with which its law is computed
STARTS = 4096  # of which the covariance is taken where their law is not normal


def is_judged(run: Any, system: Any) -> bool:
    """Whether a system may be a linear SDE, which its paths follow to the end."""
    has_noise = (_is_of_kind(system) and system.m > 0) or (_is_additive(run) and _driven(run, system) is not None)
    return has_noise and _is_followed(run, system) and innermost_method(run.spec.method) is not VanLoan


def has_moments(run: Any, system: Any) -> bool:
    """Whether means and variances of a system that is judged may be followed together: one without coloured noise, and
    not a circuit, whose equations are long."""
    is_circuit = isinstance(system, SDAE) and system.known.coefficients is not None
    is_mechanical = isinstance(system, Mechanical) and system.coloured is None and system.joints is None
    return (is_mechanical or (_is_of_kind(system) and not is_circuit)) and _is_followed(run, system)


def _is_followed(run: Any, system: Any) -> bool:
    """Whether its components are few enough, and the steps that all paths take many."""
    return system.n <= MOST and run.spec.steps >= LEAST_STEPS and not run.spec.levels


def _is_additive(run: Any) -> bool:
    return run.spec.record["noise"].startswith("additive")


def _is_of_kind(system: Any) -> bool:
    """Whether it is an SDE or may be written as one; circuits are SDAEs."""
    return type(system) in (SDE, Hamiltonian) or isinstance(system, SDAE)


def _driven(run: Any, system: Any) -> Driven | None:
    """The problem with coloured noise that a run steps as such; None where there is none."""
    if isinstance(system, Driven):
        return system
    stepped = innermost(run.spec.problem)
    return stepped if isinstance(system, DrivenMechanical) and isinstance(stepped, Driven) else None


def _is_known_in_the_long_run(run: Any, system: Any) -> bool:
    """Whether there is coloured noise whose response in the long run was looked at when the method was prepared."""
    driven, method = _driven(run, system), innermost_method(run.spec.method, WrappedSteps)
    return driven is not None and driven.response(method, float(run.spec.lengths[0])) is not None


class _Equations(NamedTuple):
    """The equations of a linear SDE: whether the noise changes in time, and (t, x, params) -> A, b of dx = (A x + a(t))
    dt + b(t) dW."""

    has_moving_noise: bool
    matrices: Callable[..., tuple[np.ndarray, np.ndarray]]


_linear: Bounded[Any, _Equations] = Bounded(256)


def laws(run: Any, system: Any, method: Any) -> list[tuple[str, Law]]:
    """The laws of a run, each with what it holds fast in words; none where nothing is known."""
    if not _is_additive(run) or hasattr(run.spec.method.needs, "nodes"):  # normals cut into a few values
        return []
    if isinstance(system, SDAE) and system.known.is_affine and system.known.coefficients is not None:
        return _of_stamps(run, system, method)
    sde = written_as(system, SDE)
    equations = _equations(sde) if sde is not None and sde.n == system.n else None
    if equations is None or _is_known_in_the_long_run(run, system):
        return []
    members = spread_params(sde)
    runs, params = _runs(run, system, method, members), members or [sde.example_params()]
    by_moment = []
    for t in moments(sde, run.spec.times, STEADY) if equations.has_moving_noise else run.spec.times[:1]:
        pairs = zip(runs, params, strict=True)
        own = [law for one, values in pairs if (law := _law(one, sde, equations, float(t), values)) is not None]
        if len(own) < len(runs):
            return []
        basis = held_in_words(t if equations.has_moving_noise else None, bool(members))
        by_moment.append((basis, mean_of(own)))
    return by_moment


def _of_stamps(run: Any, system: Any, method: Any) -> list[tuple[str, Law]]:
    """The law of a linear SDAE with constant coefficients that are known as numbers, as a circuit's are; none where
    parameters differ between paths, or where constraints need derivatives."""
    if system.has_random_params or not system.noise_structure.implies("additive"):
        return []
    times = np.linspace(run.spec.times[0], run.spec.times[-1], STATES)
    x = np.asarray(system.facts.diagnosed().start, float)
    _, slopes, noise = system.known.coefficients(times, np.tile(x, (STATES, 1)), _repeated(system.example_params()))
    reduced = _reduced(system, slopes[0], noise[0])
    if reduced is None or np.abs(noise - noise[0]).max() > STEADY * np.abs(noise[0]).max():
        return []
    first = run if run.spec.dtype == np.float64 else in_double(run.spec, system, method)
    shift = max(1.0, float(np.abs(x).max()))
    return [("", Whole(first, *reduced, shift, float(run.spec.times[0]), covariance_of_starts(system), is_of_end=True))]


def _repeated(params: Any) -> Any:
    """Parameters of one path for each of some states."""
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (STATES, *np.shape(leaf))), params)


def _reduced(system: Any, slopes: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """A and b of dx = A x dt + b dW of all components of M dx = f_x x dt + g dW, from states that meet the constraints:
    with the directions Z that these leave free, x = Z y and R M Z dy = R f_x Z y dt + R g dW."""
    split, M = system.facts.split, np.asarray(system.mass_matrix, float)
    Z = scipy.linalg.null_space(split.N @ slopes) if len(split.N) else np.eye(system.n)
    inertia = M[split.rows] @ Z
    if inertia.shape[0] != inertia.shape[1]:
        return None
    scale = 1.0 / np.abs(inertia).max(axis=1)  # of rows: farads beside henries
    if not np.linalg.cond(scale[:, None] * inertia) < SOUND:
        return None
    solved = np.linalg.solve(inertia, np.hstack([slopes[split.rows] @ Z, noise[split.rows]]))
    return Z @ solved[:, : Z.shape[1]] @ Z.T, Z @ solved[:, Z.shape[1] :]


def _equations(sde: SDE) -> _Equations | None:
    """The equations of a linear SDE, found once for all parameters; None of one that is not linear."""
    x, params = np.asarray(sde.example_start(), float), sde.example_params()
    if not has_fixed_slopes(sde.f, x, params):
        return None
    traces = [sde.traced_functions.get(name) for name in ("drift", "diffusion")]
    is_told_apart = all(trace is not None and trace.has_full_digest for trace in traces)
    key = tuple(trace.digest for trace in traces if trace is not None) if is_told_apart else object()

    def equations() -> _Equations:
        matrices = Uncompiled(lambda t, x, p: (jax.jacfwd(lambda x: sde.f(t, x, p))(x), sde.g(t, x, p)))
        return _Equations(depends_on_time(sde.g, x, params), matrices)

    return remembered(_linear, key, equations)


def _runs(run: Any, system: Any, method: Any, members: list[Any]) -> list[Any]:
    """The run in double precision, with the parameters of each of some paths."""
    cases = [system.changed(params=params) for params in members] or [system]
    first = run if run.spec.dtype == np.float64 else in_double(run.spec, cases[0], method)
    return [with_params(first, case) for case in cases] if members else [first]


def _law(run: Any, sde: SDE, equations: _Equations, t: float, params: Any) -> Law | None:
    x = np.asarray(sde.example_start(), float)
    A, b = equations.matrices(t, x, params)
    shift = max(1.0, float(np.abs(x).max()))  # which rounding beside x leaves its digits
    if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(shift)):
        return None
    return Whole(run, A, b, shift, t, covariance_of_starts(sde), is_of_end=True)


def covariance_of_starts(system: Any) -> np.ndarray:
    """The covariance of the starts of the paths."""
    return starts_of(system)[1]


def starts_of(system: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the covariance of the starts of the paths."""
    source = system.start_source
    law = source.normal()
    if law is not None:
        return law
    count = int(min((STARTS, *(part.count for part in system.start_parts))))
    starts = source.spread(np.random.default_rng(0), count, "start")
    with np.errstate(all="ignore"):  # some may not be finite, or too large
        rows = np.reshape(starts, (count, -1))
        return rows.mean(axis=0), np.atleast_2d(np.cov(rows.T, bias=True))
