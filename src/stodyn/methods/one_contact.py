"""What a method's own steps make of the energy of a body that meets a stop, by steps from many places before it."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from stodyn.numerics.bounded import Bounded
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_else
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sde import SDE

PLACES = 32  # from which a body sets out, over the length of one step
AFTERWARDS = 6  # steps beyond those of half a period, after which it has left the stop

_measures: Bounded[Any, Any] = Bounded(32)


def gain_at_contact(method: Any, Ω: float) -> float | None:
    """The mean relative change of the energy of a body that meets a stop with h √(k/m) = Ω, without damping; None where
    the method makes no steps of such a body."""
    if method not in _measures:
        _measures[method] = _measure(method)
    return None if _measures[method] is None else _measures[method](Ω)


@or_else(lambda method: None)
def _measure(method: Any) -> Any:
    problem = next(
        (own for own in map(functools.partial(_as_stepped, method), _bodies(method)) if own is not None), None
    )
    if problem is None or method.starting_steps:
        return None
    ready, counts = method.prepared(problem, 1.0), method.needs.normals(problem.m)
    with jax.enable_x64(True):
        _, unravel = ravel_pytree(ready.start(problem, jnp.zeros(()), jnp.zeros(problem.n), jnp.ones(1)))

    def start(x: Array, params: Array) -> Array:
        return ravel_pytree(ready.start(problem, jnp.zeros(()), x, params))[0]

    def step(s: Array, params: Array) -> Array:
        normals = {name: jnp.zeros(count) for name, count in counts.items()}
        increment = ready.needs.increment(jnp.ones(()), normals, problem.m)
        return ravel_pytree(ready.step(problem, jnp.zeros(()), unravel(s), increment, params)[0])[0]

    begun, stepped, read = (AtPoints(f, axes) for f, axes in (
        (start, (0, None)), (step, (0, None)), (lambda s: ready.read(unravel(s)), 0)
    ))  # fmt: skip
    before = np.zeros((PLACES, problem.n))
    before[:, 0], before[:, 1] = -(np.arange(PLACES) + 0.5) / PLACES, 1.0

    def gain(Ω: float) -> float:
        with np.errstate(all="ignore"):
            states, params = begun(before, np.full(1, Ω)), np.full(1, Ω)
            for _ in range(math.ceil(math.pi / Ω) + AFTERWARDS):
                states = stepped(states, params)
            x, v = read(states)[:, :2].T
            return float(np.mean(v**2 + (Ω * np.maximum(x, 0.0)) ** 2)) - 1.0

    return gain


def _as_stepped(method: Any, problem: Any) -> Any:
    """A problem as the method steps it; None where it does not."""
    stepped = problem if isinstance(problem, method.accepts) else (problem.lower(method.accepts) or (None,))[0]
    return None if stepped is None or not hasattr(method, "needs") or method.refusal(stepped) else stepped


def _bodies(method: Any) -> list[Any]:
    """A body before a stop with a stiffness Ω² at 0, as a problem of each kind."""
    Ω = np.ones(1)

    def force(x: Array, params: Array) -> Array:
        return -(params[0] ** 2) * jnp.maximum(x, 0.0)

    return [
        Mechanical(lambda t, x, v, p: force(x, p), None, (0.0, 0.0), params=Ω),
        Hamiltonian(lambda t, q, p, Ω: 0.5 * p**2 + 0.5 * (Ω[0] * jnp.maximum(q, 0.0)) ** 2, start=(0.0, 0.0),
                    params=Ω),
        SDE(lambda t, z, p: jnp.stack([z[1], force(z[0], p)]), lambda t, z: jnp.zeros((2, 1)), np.zeros(2), Ω,
            getattr(method, "calculus", None) or "ito", structure="additive"),
    ]  # fmt: skip
