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

from stodyn.engine.layout import Layout
from stodyn.engine.spec import Spec, matched
from stodyn.methods.contract import Method
from stodyn.noise import iterated, wiener
from stodyn.noise.increment import Increment, Recipe, compose
from stodyn.noise.supply import Drawn

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
    m, h = problem.m, (t[1] - t[0]) / steps
    recipe = shared_recipe([run.needs for run in runs], m)
    counts = dict(recipe.normals(m))
    for run in runs:
        if not composes(run.needs, m):
            counts |= {name: max(count, counts.get(name, 0)) for name, count in run.needs.normals(m).items()}
    streams = tuple((name, count) for name, count in counts.items() if count)
    scalars = 1 + sum(counts.values()) + sum(a.size for a in jax.tree.leaves(example(recipe, m)))
    width = int(np.clip(CHUNK // (steps * scalars), 1, paths))
    method = next(run.by for run in runs if isinstance(run.by, Method))
    ends = np.array(t, float)
    spec = Spec(matched(problem, method)[0], method, ends, np.diff(ends), (), (), np.dtype(float), None, {})
    crowd = Layout(spec, paths, seed, width)
    tree: Any = jax.tree.structure(problem.example_params())
    for block in range(crowd.blocks):
        members, sound = crowd.members(block), crowd.paths_in(block)
        slab = [z[..., :width] for z in Drawn(seed).feed(streams, crowd.first_path(block), width)(steps)]
        normals = {name: np.zeros((steps, count, width)) for name, count in counts.items() if not count}
        normals |= {name: array for (name, _), array in zip(streams, slab, strict=True)}
        with jax.enable_x64(True):
            noise = _made(recipe, m)(h, {name: normals[name][:, :count] for name, count in recipe.normals(m).items()})
            given = members.start, tree.unflatten(members.params)
            states = [_run(run, problem, crowd.spec.varies, t[0], h, *given, noise, normals) for run in runs]
        yield np.asarray(noise.W).sum(axis=0)[:sound], [np.array(x)[:sound] for x in states]


def _run(run: Run, problem: Any, varies: tuple[int, ...], t: float, h: float, start, params, noise, normals):
    """The states of all paths at the end of a run, (paths, factors, n)."""
    if not isinstance(run.by, Method):
        ends = _of_the_path(run.by)(t, noise)
        return jnp.reshape(ends, (len(ends), 1, problem.n))
    steps, m = noise.W.shape[0], problem.m
    longest, advance = steps // min(run.factors), _advance(run.by, problem, varies)
    own = {} if composes(run.needs, m) else {name: c for name, c in run.needs.normals(m).items() if name != "W"}
    ends = []
    for factor in run.factors:
        # Recipes that do not compose take their further normals from the last piece of the longer step.
        further = {name: np.zeros((longest, count, noise.W.shape[1])) for name, count in own.items()}
        for name, count in own.items():
            further[name][: steps // factor] = normals[name][factor - 1 :: factor, :count]
        joined = _joined(noise, factor, longest)
        ends.append(advance(t, factor * h, steps // factor, start, params, joined, further))
    return jnp.stack(ends, axis=1)


@functools.lru_cache(maxsize=16)
def _made(recipe: Recipe, m: int) -> Callable:
    """(h, normals (steps, count, paths) of each stream) -> increments with the leading axes (steps, paths)."""

    def one(h, normals):
        return recipe.increment(h, normals, m)

    return jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, -1)), in_axes=(None, 0)))


@functools.partial(jax.jit, static_argnums=2)
def _joined(noise: Increment, factor: Any, length: int) -> Increment:
    """Steps joined by `factor`, and zeros behind them up to `length`: compiled once for all step sizes."""

    def join(i, carry):
        gathered, out = carry
        piece = jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, i, keepdims=False), noise)
        longer = jax.vmap(compose)(gathered, piece)
        gathered = jax.tree.map(lambda a, b: jnp.where(i % factor == 0, a, b), piece, longer)
        keep = functools.partial(lax.dynamic_update_index_in_dim, index=i // factor, axis=0)
        return gathered, jax.tree.map(keep, out, gathered)

    first = jax.tree.map(lambda a: a[0], noise)
    out = jax.tree.map(lambda a: jnp.zeros((length, *a.shape[1:]), a.dtype), noise)
    return lax.fori_loop(0, noise.W.shape[0], join, (first, out))[1]


@functools.lru_cache(maxsize=16)
def _of_the_path(function: Callable) -> Callable:
    return jax.jit(jax.vmap(function, in_axes=(None, 1)))


@functools.lru_cache(maxsize=16)
def _advance(method: Method, problem: Any, varies: tuple[int, ...]) -> Callable:
    """(t, h, steps, start, params, noise, further normals) -> the states at the end, NaN where a step failed.

    Starts and parameters have the paths last where they differ, noise (steps, paths, ...), normals (steps, count,
    paths). Compiled once for any number of steps.
    """
    taken, m, composed = matched(problem, method)[0], problem.m, composes(method.needs, problem.m)
    tree: Any = jax.tree.structure(problem.example_params())
    axes = tree.unflatten([-1 if differs else None for differs in varies])

    @jax.jit
    def advance(t, h, steps, start, params, noise, further):
        def all_paths(step, k, carry):
            def one(state, ok, params, piece, other):
                piece = dataclasses.replace(piece, h=h)
                if not composed:
                    piece = method.needs.increment(h, other | {"W": piece.W / jnp.sqrt(h)}, m)
                after, report = step(taken, t + k * h, state, piece, params)
                return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state), ok & report.ok

            at = functools.partial(lax.dynamic_index_in_dim, index=k, keepdims=False)
            piece, other = jax.tree.map(at, noise), jax.tree.map(at, further)
            return jax.vmap(one, in_axes=(0, 0, axes, 0, -1))(carry[0], carry[1], params, piece, other)

        def starting(k, carry):
            return all_paths(functools.partial(method.starting_step, k), k, carry)

        time = jnp.asarray(t, float)
        first = jax.vmap(lambda x, params: method.start(taken, time, x, params), in_axes=(-1, axes))(start, params)
        carry, history = (first, jnp.ones(start.shape[-1], bool)), method.starting_steps
        if history:
            carry = lax.fori_loop(0, jnp.minimum(history, steps), starting, carry)
        state, ok = lax.fori_loop(history, steps, functools.partial(all_paths, method.step), carry)
        return jnp.where(ok[:, None], jax.vmap(method.read)(state), jnp.nan)

    return advance


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
