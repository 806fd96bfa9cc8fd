"""Levels of a path: a functional with steps of length h, and its difference to steps of 2h with the same noise.

A level is a method for a problem whose state holds all the paths that are followed at once:

    "single"      one path                                     P
    "pair"        two fine steps beside a coarse one           Y = P_fine - P_coarse
    "antithetic"  a second fine path with the halves exchanged Y = (P_fine + P_swapped)/2 - P_coarse

A level is therefore run like any other problem: in blocks, on any place, with a ledger. The recipe of the base makes
the coarse increment from the two fine ones. Where channels do not commute, Milstein's step without areas has
differences of variance O(h) for pairs but O(h²) for antithetic pairs (Giles & Szpruch, Ann. Appl. Prob. 24, 2014).

Fine and coarse paths of a loop share the increments of their plant and the random numbers of their sensors, which
belong to samples; each has its own registers, and its own count of steps to a tick.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stodyn.methods.contract import Method
from stodyn.methods.langevin import Shifted
from stodyn.methods.looping import looping
from stodyn.methods.wrapping import FurtherState
from stodyn.noise.increment import Increment, Recipe
from stodyn.problems.looped import Looped

FINE = {"single": 1, "pair": 1, "antithetic": 2}  # how many fine paths a level follows
PATHS = {"single": 1, "pair": 2, "antithetic": 3}  # how many paths in all


def refusal(method: Any, m: int) -> str | None:
    """Why levels of a method cannot be coupled, in words; None where they can."""
    if not isinstance(method, Method):
        return f"{method.name} makes whole paths at once"
    if method.starting_steps:
        return f"{method.name} is a multistep method, whose history does not couple"
    if hasattr(method, "base") and not isinstance(method, Shifted):
        return f"{method.name} chooses or fixes its steps by itself"
    recipe = method.needs
    if type(recipe).join is Recipe.join:
        normals = {name: np.zeros(count) for name, count in recipe.normals(m).items()}
        if jax.eval_shape(lambda normals: recipe.increment(1.0, normals, m), normals).aux is not None:
            return f"{method.name}'s draws have the moments of W but are not a Brownian path: levels cannot be coupled"
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class Levelled(FurtherState):
    """A problem with several paths on the same noise, and the numbers that a functional gathers along each of them."""

    functional: Any  # statistics.functional
    kind: str
    gathered: int
    begin: float = 0.0  # the time from which the ticks of a loop are counted

    @property
    def copies(self) -> int:
        return PATHS[self.kind]

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.copies * (self.problem.n + self.gathered)

    @property
    def components(self) -> tuple[str, ...]:
        own = (*self.problem.components, *(f"gathered{k}" for k in range(self.gathered)))
        return tuple(f"{name}.{copy}" for copy in range(self.copies) for name in own)

    def draw_start(self, rng, paths):
        x = self.problem.draw_start(rng, paths)
        return np.tile(np.concatenate([x, np.zeros((len(x), self.gathered))], axis=1), (1, self.copies))

    def parted(self, x) -> list[tuple[Any, Any]]:
        """The state of each path, and the numbers gathered along it."""
        n, size = self.problem.n, self.problem.n + self.gathered
        return [(x[k * size : k * size + n], x[k * size + n : (k + 1) * size]) for k in range(self.copies)]

    def values(self, t, x, params) -> jnp.ndarray:
        """The quantities to average: P of a single path, or Y of a pair and P of its fine path.

        Where the functional watches, the farthest point of each path follows.
        """
        payoffs = [self.functional.finish(self.problem, t, own, state, params) for state, own in self.parted(x)]
        far = [own[-1:] for _, own in self.parted(x)] if self.functional.watches else []
        if self.kind == "single":
            return jnp.concatenate([payoffs[0], *far])
        fine = payoffs[0] if self.kind == "pair" else 0.5 * (payoffs[0] + payoffs[1])
        return jnp.concatenate([fine - payoffs[-1], payoffs[0], *far])


class Step(NamedTuple):
    """A step as a functional sees it, with W of the whole step, W of its first half where known, and normals."""

    t: Any
    h: Any
    before: Any
    after: Any
    W: Any
    first_W: Any
    normals: Any


class Halved(NamedTuple):
    """The increments of both halves of a step and of the whole, and the normals of the functional for each half."""

    h: Any
    first: Any
    second: Any
    whole: Any
    normals: Any


@dataclasses.dataclass(frozen=True)
class Drawing(Recipe):
    """The normals of a base recipe and of a functional; for pairs, those of both halves of a step, side by side."""

    base: Recipe
    extra: int
    halves: int

    def normals(self, m):
        counts = {name: self.halves * count for name, count in self.base.normals(m).items()}
        return {**counts, **({"extreme": self.halves * self.extra} if self.extra else {})}

    def increment(self, h, normals, m):
        extra = normals.get("extreme")
        own = {name: z for name, z in normals.items() if name != "extreme"}
        if self.halves == 1:
            return Halved(h, None, None, self.base.increment(h, own, m), extra)
        counts = self.base.normals(m)

        def half(k: int) -> Increment:
            mine = {name: z[k * counts[name] : (k + 1) * counts[name]] for name, z in own.items()}
            return self.base.increment(0.5 * h, mine, m)

        first, second = half(0), half(1)
        return Halved(h, first, second, self.base.join(first, second), extra)


@dataclasses.dataclass(frozen=True)
class Level(Method):
    """The base method on every path of a Levelled problem; its state: those of the base and the numbers gathered.

    fine, coarse  the base as it makes fine and coarse steps of a loop, once prepared
    """

    base: Any

    accepts = Levelled
    calculus = None
    claims = ()

    kind: str = "single"
    functional: Any = dataclasses.field(default=None, repr=False)
    fine: Any = dataclasses.field(default=None, repr=False)
    coarse: Any = dataclasses.field(default=None, repr=False)

    @property
    def name(self):
        return f"{self.base.spelling}, {self.kind}"

    @property
    def spelling(self):
        return self.name

    @property
    def citation(self):
        return "M. B. Giles, Multilevel Monte Carlo path simulation, Oper. Res. 56 (2008)"

    @property
    def needs(self):
        return Drawing(self.base.needs, self.functional.normals, 1 if self.kind == "single" else 2)

    def prepared(self, problem, h):
        inner, shortest = problem.problem, h if self.kind == "single" else 0.5 * h
        if not isinstance(inner, Looped) or self.base.accepts is Looped:
            return dataclasses.replace(self, base=self.base.prepared(inner, shortest))
        inner.check_steps(self.base, problem.begin, h)
        base = self.base.prepared(inner.problem, shortest)
        fine, coarse = (looping(base, inner, problem.begin, step) for step in (shortest, h))
        return dataclasses.replace(self, base=base, fine=fine, coarse=coarse)

    def _stepping(self, copy: int) -> Any:
        """The base as it steps one of the paths, of which the last of several is the coarse one."""
        is_coarse = copy > 0 and copy == PATHS[self.kind] - 1
        return (self.coarse if is_coarse else self.fine) or self.base

    def start(self, problem, t, x, params):
        inner, states = problem.problem, []
        for copy, (state, _) in enumerate(problem.parted(x)):
            method = self._stepping(copy)
            begun = method.start(inner, t, state, params)
            states.append((begun, problem.functional.begin(inner, t, method.read(begun), params)))
        return tuple(states)

    def read(self, state):
        parts = (
            part for copy, (own, gathered) in enumerate(state) for part in (self._stepping(copy).read(own), gathered)
        )
        return jnp.concatenate(list(parts))

    def step(self, problem, t, state, noise, params):
        inner, functional, half = problem.problem, problem.functional, 0.5 * noise.h
        extra = problem.functional.normals
        firsts = None if noise.normals is None else noise.normals[:extra]
        seconds = None if noise.normals is None else noise.normals[extra:]

        def moved(copy, own, t, h, increment, normals, first_W=None):
            method, (before, gathered) = self._stepping(copy), own
            after, report = method.step(inner, t, before, increment, params)
            here, there = method.read(before), method.read(after)
            if isinstance(inner, Looped):  # what it holds jumps at the end of the step
                there = jnp.concatenate([there[: inner.held.start], here[inner.held.start :]])
            step = Step(t, h, here, there, increment.W, first_W, normals)
            take = functional.move if first_W is None else functional.halved
            return (after, take(inner, gathered, step, params)), report

        if self.kind == "single":
            after, report = moved(0, state[0], t, noise.h, noise.whole, noise.normals)
            return (after,), report
        states, reports = [], []
        orders = [((noise.first, firsts), (noise.second, seconds)), ((noise.second, seconds), (noise.first, firsts))]
        halves = zip(state[:-1], orders[: len(state) - 1], strict=True)
        for copy, (own, ((one, one_normals), (other, other_normals))) in enumerate(halves):
            middle, report = moved(copy, own, t, half, one, one_normals)
            after, second = moved(copy, middle, t + half, half, other, other_normals)
            states.append(after)
            reports += [report, second]
        last = len(state) - 1
        coarse, report = moved(last, state[last], t, noise.h, noise.whole, noise.normals, noise.first.W)
        for other in reports:
            report = report.joined(other)
        return (*states, coarse), report
