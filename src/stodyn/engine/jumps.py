"""Whether a drift or force jumps in time where a step ends, and how far that puts the paths of a method off.

A step that ends at the jump may read the value after it, one that begins there that before it, and methods that carry
derivatives from step to step take those of before along: what a step counts too much falls with its length alone, so
that every method has order 1. It is linear in the load, and therefore measured: on x' = load (x'' = load). One value at
the jump, mostly the mean of both sides, takes the error away (docs/howto/choose_a_step.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.engine.traces import trace, traced_functions_of
from stodyn.methods.contract import Method
from stodyn.numerics import uncompiled
from stodyn.numerics.bounded import Bounded
from stodyn.numerics.facts.degree import has_jumps_in
from stodyn.numerics.printing.points import AtPoints
from stodyn.numerics.printing.unprintable import or_else, remembered
from stodyn.problems.contract import TracedFunction
from stodyn.problems.ground import GroundLoad
from stodyn.problems.hamiltonian import Hamiltonian
from stodyn.problems.mechanical import Mechanical
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.telling import tell
from stodyn.warnings import JumpsInTime

MOST_TIMES = 4096  # of the ends of steps that are looked at
MOST_COMPONENTS = 100
BESIDE = 1e-9  # of a step: how near to its end the function is evaluated, by choice far above the rounding of times
NOTABLE = 1e-6  # of the largest value: a jump below this is none, by choice
SHARE = 1e-2  # of the jump times the step: an error below this is none, by choice
JUMP, STEPS = 8, 72  # the step before the jump of the load on which methods are measured, and all steps


class Ends(NamedTuple):
    """How far paths are off, in parts of the jump times the step, where the load takes the value before the jump there
    and where it takes that after it."""

    before: float
    after: float

    def errors(self, values: np.ndarray) -> np.ndarray:
        """The errors over the step for values (before, at, after) of a load."""
        before, here, after = values
        return self.before * (after - before) + (self.after - self.before) * (here - before)

    @property
    def remedy(self) -> str:
        """The value at the jump for which there is no error, in words."""
        right = self.before / (self.before - self.after) if self.before != self.after else 0.5
        if abs(right) < SHARE:
            return "the value before the jump there, as in jnp.where(t > T, b, a)"
        if abs(right - 1.0) < SHARE:
            return "the value after the jump there, as in jnp.where(t >= T, b, a)"
        is_mean = abs(right - 0.5) < SHARE
        mixed = "(a + b)/2" if is_mean else f"{1.0 - right:.4g}*a + {right:.4g}*b"
        what = "the mean of both sides" if is_mean else "a value"
        return f"{what} there, as in jnp.where(t > T, b, jnp.where(t == T, {mixed}, a))"


BY_SYMMETRY = Ends(-0.5, 0.5)  # of methods that are not measured: those for constraints

_jumps: Bounded[str, bool] = Bounded(256)
_ends: Bounded[str, Ends] = Bounded(256)


def check_jumps(method: Any, problem: Any, times: np.ndarray) -> None:
    """Warn where a drift or force jumps at one of the times, and takes a value there that lowers the method's order."""
    own = getattr(problem, "own", problem)
    is_recorded = isinstance(getattr(own, "load", None), GroundLoad)  # whose end is a jump, and not the user's
    if (
        not isinstance(problem, SDE | Mechanical | SDAE | Hamiltonian)
        or problem.n > MOST_COMPONENTS
        or not _has_order(method)
    ):
        return
    if is_recorded or problem.clocks == ():
        return
    for name, look in traced_functions_of(problem).items():
        word = name.rsplit(".", 1)[-1]
        is_rate = word in ("drift", "force", "H")
        rate = _slopes(look) if word == "H" else look
        jump = first_jump(rate, times[1:-1][:MOST_TIMES], method, problem.clocks) if is_rate else None
        if jump is not None:
            time, off, remedy = jump
            tell(
                f"{word}: jumps at t = {time:g}, where a step ends. For the value that it has there, {method.name} is "
                f"{off:.2g} of the jump times the step off from there on, so that its order is 1. Give it {remedy}, "
                "which takes this error away.",
                JumpsInTime,
            )


def _slopes(energy: TracedFunction) -> TracedFunction:
    """The forces and velocities of a Hamiltonian H(t, q, p, ...), which jump where it may not, and the other way
    round."""

    def slopes(t: Any, q: Any, p: Any, *others: Any) -> Any:
        by_q, by_p = jax.grad(energy.function, argnums=(1, 2))(t, q, p, *others)
        return jnp.concatenate([jnp.ravel(by_q), jnp.ravel(by_p)])

    with jax.enable_x64(True):
        points = jax.tree.map(lambda x: jnp.asarray(x, float), energy.arguments)
        return TracedFunction(slopes, points, jax.make_jaxpr(slopes)(*points))


def _has_order(method: Any) -> bool:
    """Whether a method makes steps and promises an order that a jump takes from it."""
    return isinstance(method, Method) and any(float(claim.order or 0) > 1.0 for claim in method.claims)


@or_else(lambda look, times, method, clocks: None)
def first_jump(
    look: TracedFunction, times: np.ndarray, method: Any, clocks: tuple[int, ...] | None
) -> tuple[float, float, str] | None:
    """The first of the times at which a function of (t, x, ...), with all but the time at the start, jumps so that
    paths are off: the time, by how many parts of the jump times the step, and the value to give it there, in words."""
    moving = (0,) if clocks is None else (1,)
    may_jump = remembered(_jumps, look.digest, lambda: has_jumps_in(look.trace, look.arguments, moving))
    if not may_jump or not len(times):
        return None
    x, *others = look.arguments[1:]

    def value(t: Any) -> Any:
        at = x if clocks is None else jnp.asarray(x).at[np.array(clocks)].set(t)
        return jnp.ravel(jnp.asarray(look.function(t, at, *others)))

    δ = BESIDE * np.min(np.diff(times, prepend=0.0)[1:], initial=times[0] or 1.0)
    with jax.enable_x64(True):
        values = np.array([AtPoints(value)(t) for t in (times - δ, times, times + δ)])
    before, here, after = values
    jumps = np.maximum(np.abs(after - before), np.abs(here - before))
    large = jumps > NOTABLE * np.max(np.abs(values), initial=0.0)
    if not large.any():
        return None
    ends = measured_ends(method)
    shares = np.where(large, np.abs(ends.errors(values)) / np.where(large, jumps, 1.0), 0.0)
    place = int(np.argmax((shares > SHARE).any(axis=1)))
    off = float(shares[place].max())
    return (float(times[place]), off, ends.remedy) if off > SHARE else None


def measured_ends(method: Any) -> Ends:
    """What a method makes of a load that jumps where a step ends."""
    if method.spelling not in _ends:
        path: list[np.ndarray] = []
        with jax.enable_x64(True), contextlib.suppress(uncompiled.Compile, TypeError, ValueError):
            path = list(_path(method))
        if not path:
            return BY_SYMMETRY
        _ends[method.spelling] = Ends(*(np.mean(path[-2:], axis=0) - (STEPS - JUMP - 0.5)))  # without what alternates
    return _ends[method.spelling]


def _path(method: Any) -> Iterator[np.ndarray]:
    """x (2,) after steps of length 1 of x' = load, with the value before the jump there and with that after it;
    nothing of a method that does not take such a problem."""

    def load(t: Any) -> Any:
        return jnp.stack([jnp.where(t > JUMP + BESIDE, 1.0, 0.0), jnp.where(t > JUMP - BESIDE, 1.0, 0.0)])

    calculus = method.calculus or "ito"
    problem: Any = SDE(lambda t, x: load(t), None, np.zeros(2), calculus=calculus)
    if method.accepts is Mechanical:
        problem = Mechanical(lambda t, x, v: load(t), None, (np.zeros(2), np.zeros(2)))
    if method.accepts is Hamiltonian:
        problem = Hamiltonian(lambda t, q, p: -load(t) @ q, start=(np.zeros(2), np.zeros(2)))
    lowered = (problem, "") if isinstance(problem, method.accepts) else problem.lower(method.accepts)
    if lowered is None or method.refusal(lowered[0]) is not None:
        return
    problem = lowered[0]
    traced = trace(problem, method.prepared(problem, 1.0))
    state = uncompiled.run(traced.start, 0.0, problem.example_start())
    normals = [np.zeros(count) for _, count in traced.streams]
    for k in range(STEPS):
        arguments = (float(k), 1.0, *state, *normals)
        if traced.starting is not None and k < traced.starting_steps:
            state = uncompiled.run(traced.starting, np.int32(k), *arguments)[: len(state)]
        else:
            state = uncompiled.run(traced.step, *arguments)[: len(state)]
        yield uncompiled.run(traced.read, *state)[0][-2:]
