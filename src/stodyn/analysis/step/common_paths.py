"""Several methods at several step sizes on the same Brownian paths: drawn once, composed to every coarser step."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from stodyn.engine import kept_traces
from stodyn.engine.follow import States
from stodyn.engine.layout import Layout, Members
from stodyn.engine.program import executors
from stodyn.engine.program.executors import lanes_of
from stodyn.engine.spec import Spec, matched
from stodyn.engine.traces import traced_functions_of
from stodyn.methods.contract import Method
from stodyn.methods.measured import measuring
from stodyn.noise import iterated, wiener
from stodyn.noise.increment import Increment, Recipe, compose
from stodyn.noise.supply import DrawnNormals, GivenNormals
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.looped import Looped

CHUNK = 4_000_000  # numbers of fine noise held at once


@dataclasses.dataclass(frozen=True)
class PathRun:
    """A run along each path: a method with steps of factor · h for each factor, or a function of the path.

    by  a Method, or by(t0, noise) -> x (n,), noise the fine increments of one path with a leading axis of steps; a
        function that reads more than W of them says so in its attribute `needs`, a recipe
    """

    by: Method | Callable[[float, Increment], Array]
    factors: tuple[int, ...] = (1,)

    @property
    def needs(self) -> Recipe:
        return getattr(self.by, "needs", wiener.W)


def common_paths(
    problem: Any, runs: Sequence[PathRun], t: tuple[float, float], steps: int, paths: int, seed: int
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Block by block W(T) (paths, m), and of each run the states at the end (paths, factors, n), NaN where it failed.

    Every path is drawn at h = (T - t0)/steps with everything that the runs need. Noise that does not compose
    (weak draws, samples of stages) is made by its own recipe in every longer step, from the W of that step and other
    normals.
    """
    m, h = problem.m, (t[1] - t[0]) / steps
    problems = [matched(problem, run.by)[0] if isinstance(run.by, Method) else None for run in runs]
    if isinstance(problem, Looped):
        raise ValueError(
            "problem: a loop acts at times of its own, which steps of several lengths do not share; take its plant"
        )
    runs = [PathRun(measuring(run.by, one, t[0], h), run.factors) for run, one in zip(runs, problems, strict=True)]
    recipe = shared_recipe([run.needs for run in runs], m)
    counts = dict(recipe.normals(m))
    for run in runs:
        if not composes(run.needs, m):
            counts |= {name: max(count, counts.get(name, 0)) for name, count in run.needs.normals(m).items()}
    streams = tuple((name, count) for name, count in counts.items() if count)
    scalars = 1 + sum(counts.values()) + sum(a.size for a in jax.tree.leaves(example(recipe, m)))
    width = int(np.clip(CHUNK // (steps * scalars), 1, paths))
    steppers = [
        _Stepper(problem, one, run.by, recipe) if isinstance(run.by, Method) else None
        for run, one in zip(runs, problems, strict=True)
    ]
    of_the_path = [None if isinstance(run.by, Method) else jax.jit(jax.vmap(run.by, in_axes=(None, 1))) for run in runs]
    spec = next(stepper for stepper in steppers if stepper is not None).spec(t[0], h, steps)
    crowd = Layout(spec, paths, seed, width)
    increments = AtPoints(lambda h, normals: recipe.increment(h, normals, m), (None, 0))
    join = AtPoints(compose)
    for block in range(crowd.blocks):
        lanes, sound = lanes_of(crowd, block), crowd.paths_in(block)
        members, first = crowd.members(block, lanes), crowd.first_path(block)
        slab = [z[..., :lanes] for z in DrawnNormals(seed).feed(streams, first, lanes)(steps)]
        normals = {name: np.zeros((steps, count, lanes)) for name, count in counts.items() if not count}
        normals |= {name: array for (name, _), array in zip(streams, slab, strict=True)}
        own_normals = {name: _points(normals[name][:, :count]) for name, count in recipe.normals(m).items()}
        fine = jax.tree.map(lambda a: a.reshape(steps, lanes, *a.shape[1:]), increments(h, own_normals))
        noise = {1: fine}
        for factor in sorted({factor for run in runs for factor in run.factors} - {1}):
            divisor = max(k for k in noise if factor % k == 0)
            noise[factor] = _joined(noise[divisor], factor // divisor, join)
        states = []
        for run, stepper, function in zip(runs, steppers, of_the_path, strict=True):
            if stepper is None:
                with jax.enable_x64(True):
                    sound_states = jax.tree.map(lambda a: a[:, :sound], fine)
                    ends = np.asarray(function(t[0], sound_states))  # type: ignore[misc]
                    states.append(ends.reshape(sound, 1, problem.n))
            else:
                of_each = [stepper.ends(t[0], f * h, noise[f], normals, members) for f in run.factors]
                states.append(np.stack(of_each, axis=1))
        yield fine.W.sum(axis=0)[:sound], [x[:sound] for x in states]


def _points(normals: np.ndarray) -> np.ndarray:
    """Reshape (steps, count, paths) to one row for each point, (steps · paths, count)."""
    steps, count, paths = normals.shape
    return normals.swapaxes(1, 2).reshape(steps * paths, count)


def _joined(noise: Increment, factor: int, join: Callable) -> Increment:
    """Increments with the leading axes (steps, paths) joined by `factor`, one piece after the other."""

    steps, paths, _ = noise.W.shape

    def piece(k: int) -> Increment:
        return jax.tree.map(lambda a: a[k::factor].reshape(steps // factor * paths, *a.shape[2:]), noise)

    longer = piece(0)
    for k in range(1, factor):
        longer = join(longer, piece(k))
    return jax.tree.map(lambda a: a.reshape(steps // factor, paths, *a.shape[1:]), longer)


class _Stepper:
    """A method on a problem along known increments, by the engine's programs."""

    def __init__(self, problem: Any, stepped: Any, method: Method, recipe: Recipe):
        """`stepped` is the problem as the method takes it."""
        self.m, self.method = stepped.m, method
        self.composes = composes(method.needs, stepped.m)
        along = _Along(method, _AsGiven(recipe)) if self.composes else method
        ends = np.zeros(2)
        spec = Spec(stepped, along, ends, ends[1:], (States(),), (np.zeros(1, int),), np.dtype(float), None, {})

        def traced_anew() -> Any:
            return spec.traced_anew().traced

        traced = kept_traces.of_step(problem, traced_functions_of(problem), along, traced_anew)
        self.described = dataclasses.replace(spec, traced=traced)

    def spec(self, t: float, h: float, steps: int) -> Spec:
        """The run with `steps` steps of length h, of which only the last state is observed."""
        times, lengths = t + h * np.arange(steps + 1), np.full(steps, h)
        return dataclasses.replace(self.described, times=times, lengths=lengths, saves=(np.array([steps]),))

    def ends(self, t: float, h: float, noise: Increment, normals: Mapping[str, np.ndarray], members: Members):
        """The states (paths, n) after all increments (steps, paths, ...), NaN where a step failed.

        Recipes that do not compose take their further normals from the last piece of the longer step.
        """
        steps, lanes = noise.W.shape[:2]
        if self.composes:
            parts = jax.tree.leaves(_without_length(noise))
            leaves = [a.reshape(steps, lanes, math.prod(a.shape[2:])).swapaxes(1, 2) for a in parts]
            numbers = np.empty((steps, sum(leaf.shape[1] for leaf in leaves), lanes))
            standard = {"W": np.concatenate(leaves, axis=1, out=numbers)}
        else:
            factor, counts = len(normals["W"]) // steps, self.method.needs.normals(self.m)
            standard = {name: normals[name][factor - 1 :: factor, :count] for name, count in counts.items() if count}
            standard["W"] = noise.W.swapaxes(1, 2) / np.sqrt(h)
        with jax.enable_x64(True):
            program: Any = executors.get(self.spec(t, h, steps))
            done = program.paths(members, 0, GivenNormals(standard))
        return done.observed[0][-1].T


@dataclasses.dataclass(frozen=True)
class _AsGiven(Recipe):
    """The numbers of an increment themselves, W, Z, ..., in place of the normals that make it."""

    recipe: Recipe

    def normals(self, m):
        return {"W": sum(math.prod(a.shape) for a in jax.tree.leaves(self._parts(m)))}

    def increment(self, h, normals, m):
        tree: Any
        leaves, tree = jax.tree.flatten(self._parts(m))
        pieces = jnp.split(normals["W"], np.cumsum([math.prod(a.shape) for a in leaves])[:-1])
        parts = tree.unflatten([jnp.reshape(x, a.shape) for x, a in zip(pieces, leaves, strict=True)])
        return dataclasses.replace(parts, h=h)

    def _parts(self, m: int) -> Increment:
        return _without_length(example(self.recipe, m))


def _without_length(noise: Increment) -> Increment:
    return dataclasses.replace(noise, h=None)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class _Along(Method):
    """A method that takes other noise than its own recipe's."""

    method: Method
    recipe: Recipe

    needs = property(lambda self: self.recipe)
    accepts = property(lambda self: self.method.accepts)
    calculus = property(lambda self: self.method.calculus)
    name = property(lambda self: self.method.name)
    claims = ()
    citation = property(lambda self: self.method.citation)
    starting_steps = property(lambda self: self.method.starting_steps)

    def start(self, problem, t, x, params):
        return self.method.start(problem, t, x, params)

    def step(self, problem, t, state, noise, params):
        return self.method.step(problem, t, state, noise, params)

    def starting_step(self, k, problem, t, state, noise, params):
        return self.method.starting_step(k, problem, t, state, noise, params)

    def read(self, state):
        return self.method.read(state)


def shared_recipe(recipes: Sequence[Recipe], m: int) -> Recipe:
    """The cheapest recipe that composes and holds everything that these recipes hold, of those that compose.

    The coarse increments are made of many fine ones, so the coarsest approximation of the areas will do: the part that
    it omits is missing from the path of every method alike.
    """
    wanted = set().union(*(_held(recipe, m) for recipe in recipes if composes(recipe, m)))
    known = (wiener.W, wiener.WZ, iterated.SineSeries(1), iterated.MrongowiusRoessler(1), iterated.Substeps(1),
             iterated.Signature(1))  # fmt: skip
    for recipe in (*known, *recipes):
        if composes(recipe, m) and wanted <= _held(recipe, m):
            return recipe
    raise ValueError(f"reference: no recipe of noise holds everything that it and the method need: {wanted}")


def composes(recipe: Recipe, m: int) -> bool:
    """Whether adjacent increments join to that of the longer step."""
    return example(recipe, m).aux is None


@functools.lru_cache(maxsize=256)
def follows_path(recipe: Recipe, m: int) -> bool:
    """Whether its W is the increment of the Brownian path, and not a draw that shares some moments with it."""
    normals = {name: np.linspace(0.1, 0.7, count)[None] for name, count in recipe.normals(m).items()}
    W = AtPoints(lambda normals: recipe.increment(1.0, normals, m).W, few=1)(normals)
    return bool(np.allclose(W, normals["W"], rtol=1e-9))


@functools.lru_cache(maxsize=256)
def example(recipe: Recipe, m: int) -> Increment:
    """The shapes of the increments that a recipe makes."""
    normals = {name: jax.ShapeDtypeStruct((count,), np.float32) for name, count in recipe.normals(m).items()}
    return jax.eval_shape(lambda h, normals: recipe.increment(h, normals, m), 1.0, normals)


def _held(recipe: Recipe, m: int) -> set:
    noise = example(recipe, m)
    return {name for name in ("Z", "II") if getattr(noise, name) is not None} | set(noise.words or ())
