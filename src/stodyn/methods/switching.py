"""A method for a circuit with switches that have memory: they change where their controls reach a level in a step.

The method makes a step from x to y. Where the control of a switch is beyond its level at y, the step is made again as
far as the moment at which the level is reached, found by regula falsi on the lengths of such steps; there the switch
changes, the unknowns that constraints determine follow, and the rest of the step is made from there. The noise W of the
step is not drawn anew: up to the share u it is u W + √(u (1 - u) h) ξ, a Brownian bridge, and the rest is what is left.
A control that reaches its level and turns back within one step is not seen.

The normals ξ come from two normals of the stream "switch", whose bits are the key of a counter-based generator, so that
they cost nothing where nothing changes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.methods.contract import Method, Report
from stodyn.methods.striking import key_of, normals_of
from stodyn.methods.wrapping import AndNormals, WrappedSteps, without
from stodyn.noise import wiener
from stodyn.numerics.rarely import rarely
from stodyn.problems.contract import innermost
from stodyn.problems.sdae import SDAE

STREAM = "switch"
MOST = 8  # the most changes in a step
ROUNDS = 5  # of regula falsi for a change
NEAR = 1e-6  # of the distance between the two levels of a switch: a control this near to its level has reached it
WITHIN = 0.01  # of the interval in which a change lies: trials stay this far from its ends
LEAST = 1e-14  # the least share of a step that a rest covers: methods divide by the length of their steps


def switching(method: Any, problem: Any) -> Any:
    """The method for a problem, with its switches where they have memory; refuses methods that cannot restart."""
    memories = problem.known.memories if isinstance(problem, SDAE) else None
    if memories is None:
        return method
    if not isinstance(method, Method) or method.starting_steps or method.takes_equal_steps or method.needs != wiener.W:
        raise ValueError(
            f"method: {method.name} cannot begin anew within a step, but {memories.names[0]} is a switch with "
            "memory (VH > 0, or a control at VT), which changes there; take Trapezoidal or ImplicitEuler"
        )
    return _Switching(method)


def refuse_switches(problem: Any, computation: str) -> None:
    """Refuse a circuit with switches that have memory, or with lines, where they would not be followed."""
    problem = innermost(problem)
    if not isinstance(problem, SDAE):
        return
    lines, memories = problem.known.lines, problem.known.memories
    if lines:
        raise ValueError(f"problem: {lines[0]} is an ideal line, a delay, which {computation} does not follow")
    if memories is not None:
        raise ValueError(
            f"problem: {', '.join(memories.names)} has a memory (VH > 0, or a control at VT), which {computation} does "
            "not follow; simulate, noiseless, .op, .ac and .noise do. VH < 0 is a transition of that half-width "
            "without memory"
        )


class _Now(NamedTuple):
    """A step as far as it has been made: the share of it, the state there, the noise that is left, the share of the
    rest that is tried next and the two between which a change lies, with the distances of all controls there."""

    gone: Array
    x: Array
    W: Array
    share: Array
    low: Array
    at_low: Array
    high: Array
    at_high: Array
    rounds: Array
    changes: Array
    ended: Array
    report: Report


@dataclasses.dataclass(frozen=True)
class _Switching(WrappedSteps):
    """A step of the method, cut where switches change."""

    accepts = SDAE

    @property
    def needs(self):
        return AndNormals(self.method.needs, STREAM, 2)

    def start(self, problem, t, x, params):
        return self.method.start(problem, t, x, params)

    def read(self, state):
        return self.method.read(state)

    def step(self, problem, t, x, noise, params):
        memories, key, h = problem.known.memories, key_of(noise.aux[STREAM]), noise.h
        own, one, count = without(noise, STREAM), jnp.ones((), x.dtype), jnp.zeros((), np.int32)
        near = NEAR * (memories.high - memories.low)

        def turn(now: _Now) -> _Now:
            left = jnp.maximum(1.0 - now.gone, LEAST) * h
            normals = normals_of(key, now.changes, problem.m, x.dtype)[: problem.m]
            W = now.share * now.W + jnp.sqrt(now.share * (1.0 - now.share) * left) * normals
            part = dataclasses.replace(own, h=now.share * left, W=W)
            y, report = self.method.step(problem, t + now.gone * h, now.x, part, params)
            before, after = memories.distances(now.x, jnp), memories.distances(y, jnp)
            at_once, beyond = jnp.any(before <= 0.0), jnp.any(after <= 0.0)
            ended = (now.share == 1.0) & ~beyond & ~at_once
            reached = beyond & (jnp.all(after >= -near) | (now.rounds >= ROUNDS))
            changes = at_once | reached
            gone = jnp.where(at_once, now.gone, now.gone + now.share * (1.0 - now.gone))
            which = jnp.where(at_once, before <= 0.0, after <= 0.0)
            place = memories.changed(jnp.where(at_once, now.x, y), which, jnp)
            place = rarely(changes, lambda z: self.method.start(problem, t + gone * h, z, params), place)
            joined = now.report.joined(Report(*(jnp.asarray(value) for value in report)))
            new = _Now(gone, place, jnp.where(at_once, now.W, now.W - W), one, 0.0 * one,
                       memories.distances(place, jnp), one, after, count, now.changes + 1, ended, joined)  # fmt: skip
            tried = _tried(now, after, beyond)._replace(ended=ended, report=joined, x=jnp.where(ended, y, now.x))
            return _Now(*(_picked(changes, a, b) for a, b in zip(new, tried, strict=True)))

        distances = memories.distances(x, jnp)
        first = Report(jnp.asarray(True), count, jnp.asarray(False))
        begun = _Now(0.0 * one, x, own.W, one, 0.0 * one, distances, one, distances, count, count,
                     jnp.asarray(False), first)  # fmt: skip
        done = lax.while_loop(lambda now: ~now.ended & (now.changes <= MOST), turn, begun)
        return done.x, done.report._replace(ok=done.report.ok & done.ended)


def _tried(now: _Now, after: Array, beyond: Array) -> _Now:
    """Return the same step with a nearer look at where its first change lies."""
    low, high = jnp.where(beyond, now.low, now.share), jnp.where(beyond, now.share, now.high)
    at_low, at_high = jnp.where(beyond, now.at_low, after), jnp.where(beyond, after, now.at_high)
    fallen = jnp.where(at_high <= 0.0, at_low - at_high, 1.0)
    parts = jnp.where(at_high <= 0.0, at_low / jnp.where(fallen > 0.0, fallen, 1.0), 1.0)
    share = low + (high - low) * jnp.clip(jnp.min(parts), WITHIN, 1.0 - WITHIN)
    share = jnp.where(now.rounds + 1 >= ROUNDS, high, share)
    return now._replace(low=low, high=high, at_low=at_low, at_high=at_high, share=share, rounds=now.rounds + 1)


def _picked(changes: Array, new: Any, old: Any) -> Any:
    if isinstance(new, Report):
        return new
    return jnp.where(changes, new, old)
