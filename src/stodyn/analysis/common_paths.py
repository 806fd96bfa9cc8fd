"""Several methods at several step sizes on the same Brownian paths: drawn fine once, composed to every coarser step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from stodyn.engine.ensemble import Ensemble
from stodyn.engine.feed import Feed
from stodyn.engine.path import increments
from stodyn.engine.simulate import matched
from stodyn.methods.contract import Method
from stodyn.noise import iterated, wiener
from stodyn.noise.increment import Increment, Recipe, compose

CHUNK = 4_000_000  # numbers of fine noise held at a time


@dataclasses.dataclass(frozen=True)
class Run:
    """What is run along each path: a method with steps of factor · h for each factor, or a function of the path.

    by  a Method, or by(t0, noise) -> x (n,), noise the fine increments of one path with a leading axis of steps; a
        function that reads more than W of them says so in its attribute `needs`, a recipe
    """

    by: Method | Callable[[float, Increment], Array]
    factors: tuple[int, ...] = (1,)

    @property
    def needs(self) -> Recipe:
        return getattr(self.by, "needs", wiener.W)


def common_paths(
    problem: Any, runs: Sequence[Run], t: tuple[float, float], steps: int, paths: int, seed: int
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Block by block W(T) (paths, m), and of each run the states at the end (paths, factors, n), NaN where it failed.

    Every path is drawn at h = (T - t0)/steps with all that the runs ask for. Noise that does not compose (weak draws,
    samples of stages) is made by its own recipe in every longer step, from the W of that step and other normals.
    """
    begin, m, n = t[0], problem.m, problem.n
    h = (t[1] - t[0]) / steps
    recipe = shared_recipe([run.needs for run in runs], m)
    counts = dict(recipe.normals(m))
    for run in runs:
        if not composes(run.needs, m):
            counts |= {name: max(count, counts.get(name, 0)) for name, count in run.needs.normals(m).items()}
    streams = tuple((name, count) for name, count in counts.items() if count)
    stepped = [matched(problem, run.by)[0] if isinstance(run.by, Method) else problem for run in runs]

    def along(run: Run, taken, start, params, noise, normals):
        if not isinstance(run.by, Method):
            return jnp.reshape(jnp.asarray(run.by(begin, noise)), (1, n))
        end = functools.partial(_end, run.by, taken, begin, h, start, params, noise, normals)
        return lax.map(end, jnp.array(run.factors))

    def one(start, params, drawn):
        normals = {name: jnp.zeros((steps, count)) for name, count in counts.items()} | drawn
        own = {name: normals[name][:, :count] for name, count in recipe.normals(m).items()}
        noise = increments(recipe, m, jnp.full(steps, h), own)
        pairs = zip(runs, stepped, strict=True)
        return jnp.sum(noise.W, axis=0), [along(run, taken, start, params, noise, normals) for run, taken in pairs]

    scalars = 1 + sum(counts.values()) + sum(a.size for a in jax.tree.leaves(example(recipe, m)))
    width = int(np.clip(CHUNK // (steps * scalars), 1, paths))
    method = next(run.by for run in runs if isinstance(run.by, Method))
    ends = np.array(t, float)
    crowd = Ensemble(problem, method, ends, np.diff(ends), paths, seed, (), np.dtype(float), "vmap", width)
    tree: Any = jax.tree.structure(problem.example_params())
    axes = tree.unflatten([-1 if varies else None for varies in crowd.varies])
    compiled = jax.jit(jax.vmap(one, in_axes=(-1, axes, -1)))
    for block in range(crowd.blocks):
        members, sound = crowd.members(block), crowd.paths_in(block)
        slab = Feed(seed, block, streams, width, steps).slab(steps)
        drawn = {name: array for (name, _), array in zip(streams, slab, strict=True)}
        with jax.enable_x64(True):
            W, states = compiled(members.start, tree.unflatten(members.params), drawn)
        yield np.array(W[:sound]), [np.array(x[:sound]) for x in states]


def _end(method: Method, problem: Any, t, h, x, params, noise: Increment, normals: dict[str, Array], factor) -> Array:
    """The state of one path at the end with steps of factor · h, NaN where a step failed."""
    counts = {} if composes(method.needs, problem.m) else dict(method.needs.normals(problem.m))
    further = {name: normals[name][:, :count] for name, count in counts.items() if name != "W"}
    nothing = jax.tree.map(lambda a: jnp.zeros_like(a[0]), noise)
    first = method.start(problem, jnp.asarray(t, float), x, params)

    def advance(carry, given):
        number, piece, other = given
        gathered = compose(carry[1], piece)

        def step():
            state, _, ok = carry
            whole = dataclasses.replace(gathered, h=factor * h)
            if counts:
                own = other | {"W": whole.W / jnp.sqrt(whole.h)}
                whole = method.needs.increment(whole.h, own, problem.m)
            k = number // factor
            after, report = method.numbered_step(k, problem, t + k * whole.h, state, whole, params)
            after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state)
            return after, nothing, ok & report.ok

        return lax.cond((number + 1) % factor == 0, step, lambda: (carry[0], gathered, carry[2])), None

    numbers = jnp.arange(noise.W.shape[0])
    (state, _, ok), _ = lax.scan(advance, (first, nothing, jnp.asarray(True)), (numbers, noise, further))
    return jnp.where(ok, method.read(state), jnp.nan)


def shared_recipe(recipes: Sequence[Recipe], m: int) -> Recipe:
    """The cheapest recipe that composes and holds all that those of the given ones do which compose.

    The coarse increments are made of many fine ones, so the coarsest approximation of the areas will do: what it leaves
    out is left out of the path that every method sees.
    """
    wanted = set().union(*(_held(recipe, m) for recipe in recipes if composes(recipe, m)))
    known = (wiener.W, wiener.WZ, iterated.SineSeries(1), iterated.MrongowiusRoessler(1), iterated.Substeps(1),
             iterated.Signature(1))  # fmt: skip
    for recipe in (*known, *recipes):
        if composes(recipe, m) and wanted <= _held(recipe, m):
            return recipe
    raise ValueError(f"reference: no recipe of noise holds all that it and the method need together: {wanted}")


def composes(recipe: Recipe, m: int) -> bool:
    """Whether adjacent increments join to that of the longer step."""
    return example(recipe, m).aux is None


@functools.lru_cache(maxsize=256)
def follows_path(recipe: Recipe, m: int) -> bool:
    """Whether its W is the increment of the Brownian path, and not a draw that shares some moments with it."""
    with jax.enable_x64(True):
        normals = {name: jnp.linspace(0.1, 0.7, count) for name, count in recipe.normals(m).items()}
        return bool(np.allclose(recipe.increment(1.0, normals, m).W, normals["W"], rtol=1e-9))


def example(recipe: Recipe, m: int) -> Increment:
    """The shapes of what a recipe makes."""
    normals = {name: jax.ShapeDtypeStruct((count,), np.float32) for name, count in recipe.normals(m).items()}
    return jax.eval_shape(lambda h, normals: recipe.increment(h, normals, m), 1.0, normals)


def _held(recipe: Recipe, m: int) -> set:
    noise = example(recipe, m)
    return {name for name in ("Z", "II") if getattr(noise, name) is not None} | set(noise.words or ())
