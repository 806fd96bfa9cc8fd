"""Structures on shaking ground, and how much of their mass each of their modes moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.arguments import check_positive, checks_arguments
from stodyn.noise.coloured import Coloured
from stodyn.noise.coloured.delay import Delayed
from stodyn.problems.accelerogram import Accelerogram
from stodyn.problems.calling import call
from stodyn.problems.driven_mechanical import DrivenMechanical, driven_mechanical
from stodyn.problems.known_matrices import ConstantNoise
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.modal import natural_modes
from stodyn.problems.structural import with_load


@checks_arguments
def base_excited(
    problem: Mechanical, noise: Any, direction: Any = None, envelope: Callable | None = None
) -> Mechanical:
    """Return a structure on shaking ground: M x'' + C x' + K x = -M ι e(t) a_g(t), x relative to the ground.

    Ground that accelerates to the right pushes the structure on it to the left: hence the sign. The absolute
    acceleration is x'' + ι a_g, for a linear structure -M⁻¹ (C x' + K x); see `responses`.

    Parameters
    ----------
    problem : Mechanical
        A system with a constant mass, made by `Mechanical.from_matrices` or in any other way.
    noise : Coloured, Delayed, Accelerogram or number
        The acceleration of the ground: coloured noise with one output, or one for each column of `direction`, such as
        the supports that it reaches one after the other (`noise.coloured.delayed`); a record
        (`structures.read_record`); or σ of white noise σ ξ, with the two-sided density σ² per cycle. Ground that moves
        by a record and by noise beside it is made by two calls.
    direction : array (N,) or (N, outputs), optional
        ι: how all coordinates move when the ground moves by 1 and the structure stays rigid. By default ones, as for a
        shear frame; zero for rotations and for coordinates across the motion. For a modal reduction it
        has an entry for every coordinate of the whole structure.
    envelope : function of t, optional
        The strength of the motion over time, such as one of `noise.coloured.envelopes`.

    Returns
    -------
    Mechanical
        A DrivenMechanical where the noise is coloured.

    Raises
    ------
    ValueError
        If the mass depends on the state, or `direction` does not fit.

    Examples
    --------
    >>> import stodyn as sd
    >>> storey = sd.Mechanical(lambda t, x, v: -25.0 * x - 0.5 * v, None, start=([0.0], [0.0]))
    >>> shaken = sd.base_excited(storey, sd.noise.coloured.kanai_tajimi(15.0, 0.6, sigma=1.0, name="a_g"))
    """
    if not isinstance(problem, Mechanical):
        raise TypeError(f"problem: expected a mechanical system, got {type(problem).__name__}")
    is_white = isinstance(noise, (int, float, np.number)) and not isinstance(noise, bool)
    if not (is_white or isinstance(noise, (Coloured, Delayed, Accelerogram))):
        raise TypeError(
            "noise: expected coloured noise such as stodyn.noise.coloured.kanai_tajimi(15, 0.6, sigma=1), a record of "
            f"structures.read_record, or σ of white noise, got {type(noise).__name__}"
        )
    if is_white:
        check_positive("the σ of white noise σ ξ", noise=noise)
    if callable(problem.mass):
        raise ValueError("problem: its mass depends on the state; write the force of the moving base into `into`")
    if envelope is not None and not callable(envelope):
        raise TypeError(
            "envelope: expected a function of t, such as noise.coloured.envelopes.jennings(2, 10, 0.5), got "
            f"{envelope!r}. A strength that does not change belongs in the noise, as its sigma"
        )
    own = problem.own
    inertia, N = _inertia_of(own)
    ι = np.ones(N) if direction is None else np.asarray(direction, float)
    outputs = 1 if is_white or isinstance(noise, Accelerogram) else len(noise.names)
    if ι.shape not in ((N,), (N, outputs)) or not np.isfinite(ι).all() or not ι.any():
        raise ValueError(
            f"direction: expected {N} finite numbers, or ({N}, {outputs}), how each coordinate moves with the ground, "
            f"got shape {ι.shape}"
        )
    load = -inertia(ι).reshape(N, -1)
    if is_white or isinstance(noise, Accelerogram):
        pushed = load[:, 0] if own.reduction is None else own.reduction.shapes.T @ load[:, 0]
        add = _with_white if is_white else _with_record
        return add(problem, noise, pushed, envelope)
    if load.shape[1] != len(noise.names):
        raise ValueError(
            f"direction: one column for {len(noise.names)} outputs of the noise, {noise.names}; give one per output"
        )
    reduction = own.reduction
    into = load if reduction is None else reduction.shapes.T @ load
    driven = driven_mechanical(problem, noise, into if envelope is None else _Enveloped(into, envelope))
    earlier = np.zeros((N, driven.outputs - load.shape[1]))
    if isinstance(problem, DrivenMechanical) and problem.base is not None:
        earlier = problem.base
    base = np.concatenate([earlier, ι.reshape(N, -1)], axis=1)
    if reduction is None or envelope is not None:
        return dataclasses.replace(driven, base=base)
    known = problem.at_nodes if isinstance(problem, DrivenMechanical) else np.zeros((N, 0))
    return dataclasses.replace(
        driven, base=base, at_nodes=None if known is None else np.concatenate([known, load], axis=1)
    )


class GroundLoad:
    """The force -M ι e(t) a(t) of recorded ground, besides another load; accelerations relative to it are absolute."""

    def __init__(self, record: Accelerogram, push: np.ndarray, envelope: Callable | None, other: Callable | None):
        self.record, self.push, self.envelope, self.other = record, push, envelope, other

    def __call__(self, t, params):
        strength = 1.0 if self.envelope is None else self.envelope(t)
        own = strength * self.record(t) * jnp.asarray(self.push)
        return own if self.other is None else own + call(self.other, t, params=params)

    @property
    def is_ground_alone(self) -> bool:
        """Whether no other load acts."""
        return self.other is None or (isinstance(self.other, GroundLoad) and self.other.is_ground_alone)


def _with_record(problem: Mechanical, record: Accelerogram, push: np.ndarray, envelope: Callable | None) -> Mechanical:
    """The problem with the load of recorded ground."""
    own: Any = problem.own
    if own.is_linear:
        moved = with_load(own, GroundLoad(record, push, envelope, own.load))
    else:
        load, force = GroundLoad(record, push, envelope, None), own.force
        shape = np.shape(own.example_pair[0])

        def pushed(t, x, v, params):
            return call(force, t, x, v, params=params) + jnp.reshape(load(t, params), shape)

        moved = dataclasses.replace(own, force=pushed)
    if not isinstance(problem, DrivenMechanical):
        return moved
    return dataclasses.replace(problem, system=moved, force=moved.force)


def _with_white(problem: Mechanical, sigma: float, push: np.ndarray, envelope: Callable | None) -> Mechanical:
    """The problem with one more channel of white noise, from the ground."""
    own, column = problem.own, sigma * push[:, None]
    if own.scalar and own.noise is not None:
        raise ValueError("problem: x is a number and has noise already; give start as vectors, start=([x0], [v0])")

    def more(t, x, v):
        return (1.0 if envelope is None else envelope(t)) * jnp.asarray(column, jnp.asarray(x).dtype)

    if own.scalar:
        return dataclasses.replace(problem, noise=lambda t, x, v: more(t, x, v)[0, 0])
    if envelope is None and (own.noise is None or isinstance(own.noise, ConstantNoise)):
        known = [] if own.noise is None else [own.noise.matrix]
        return dataclasses.replace(problem, noise=ConstantNoise(np.concatenate([*known, column], axis=1)))
    if own.noise is None:
        return dataclasses.replace(problem, noise=more)
    earlier = own.noise

    def both(t, x, v, params):
        return jnp.concatenate([call(earlier, t, x, v, params=params), more(t, x, v)], axis=1)

    return dataclasses.replace(problem, noise=both)


class _Enveloped:
    """The matrix Γ(t) = e(t) Γ of coloured forces with an envelope e."""

    def __init__(self, matrix: np.ndarray, envelope: Callable):
        self.matrix, self.envelope = matrix, envelope

    def __call__(self, t, x, v):
        return jnp.asarray(self.envelope(t)) * jnp.asarray(self.matrix)


def _inertia_of(problem: Mechanical) -> tuple[Callable, int]:
    """Return ι -> M ι in the coordinates of a problem, or of the whole of a modal reduction, and the number of entries
    of ι."""
    reduction = problem.reduction
    if reduction is not None:
        return lambda ι: reduction.whole.matrices.M @ ι, len(reduction.shapes)
    M = np.eye(problem.N) if problem.mass_matrix is None else problem.mass_matrix
    return lambda ι: M @ ι, problem.N


@checks_arguments
def effective_masses(problem: Mechanical, direction: Any = None) -> np.ndarray:
    """The share of the mass ι'Mι that each mode moves in a direction, (r,): (Φ'Mι)²/(ι'Mι); all modes sum to 1.

    Parameters
    ----------
    problem : Mechanical
        A structure from matrices; of a modal reduction, the shares of the modes that it keeps.
    direction : array (N,), optional
        ι; by default ones.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        If the structure is reduced to an interface, or K is not symmetric.
    """
    own = _known(problem)
    reduction = own.reduction
    if reduction is not None and reduction.held:
        raise ValueError("problem: is reduced to an interface, whose shapes are no modes; ask the whole structure")
    whole = reduction.whole if reduction is not None else own
    M, _, K = whole.matrices
    ι = np.ones(whole.N) if direction is None else np.asarray(direction, float)
    Φ = reduction.shapes if reduction is not None else natural_modes(M, K)[1]
    return (Φ.T @ (M @ ι)) ** 2 / float(ι @ (M @ ι))


@checks_arguments
def frequencies(problem: Mechanical) -> np.ndarray:
    """Return the natural frequencies ω of a structure from matrices, in radians per unit of time, ascending.

    Parameters
    ----------
    problem : Mechanical
        A structure of `Mechanical.from_matrices`, with or without coloured loads.

    Returns
    -------
    array, (N,)
    """
    M, _, K = _known(problem).matrices
    return natural_modes(M, K)[0]


def _known(problem: Any) -> Any:
    """Return a structure without its coloured loads; refuse other problems."""
    if not isinstance(problem, Mechanical) or problem.own.matrices is None:
        raise TypeError(
            "problem: expected a structure made by Mechanical.from_matrices, whose matrices are known; where they are "
            "functions of t and params, give them at one value"
        )
    return problem.own
