"""One path in pure JAX, for jit, vmap and grad, in the caller's precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from stodyn.arguments import checks_arguments
from stodyn.engine.spec import fit_of
from stodyn.hints import is_integer
from stodyn.methods.catalogue import named
from stodyn.methods.contract import Method
from stodyn.methods.recommend import best_fitting
from stodyn.methods.switching import refuse_switches
from stodyn.noise.increment import Increment, Recipe
from stodyn.noise.source import differs
from stodyn.numerics.tracing_errors import TRACED


@checks_arguments
def draw_increments(key: Array, recipe: Recipe, channels: int, dt: Array) -> Increment:
    """Draw the increments of one path, with a leading axis of steps.

    Parameters
    ----------
    key : jax.Array
        A key of jax.random.
    recipe : Recipe
        The noise that a method needs: method.needs.
    channels : int
        The number of noise channels of the problem: problem.m.
    dt : array (steps,)
        The length of every step.

    Returns
    -------
    Increment
        For `noise` of `path`.

    Raises
    ------
    ValueError
        If `channels` or `dt` is impossible.

    Examples
    --------
    >>> import jax, stodyn as sd
    >>> noise = sd.draw_increments(jax.random.key(1), sd.method("Heun").needs, 2, jax.numpy.full(100, 0.01))
    >>> noise.W.shape
    (100, 2)
    """
    _expect_recipe(recipe)
    if not is_integer(channels):
        raise ValueError(f"channels: expected a whole number >= 1 (problem.m), got {channels!r}")
    if jnp.ndim(dt) != 1:
        raise ValueError(
            f"dt: expected the length of every step, shape (steps,), got shape {jnp.shape(dt)}; "
            "for equal steps jnp.full(steps, dt)"
        )
    dt = jnp.asarray(dt, float)
    normals = {
        name: jax.random.normal(jax.random.fold_in(key, number), (len(dt), count))
        for number, (name, count) in enumerate(sorted(recipe.normals(channels).items()))
    }
    return increments(recipe, channels, dt, normals)


@checks_arguments
def increments(recipe: Recipe, channels: int, dt: Array, normals: Mapping[str, Array]) -> Increment:
    """Make the increments of a recipe from normals, with a leading axis of steps.

    Parameters
    ----------
    recipe, channels, dt
        As in `draw_increments`.
    normals : mapping
        The standard normals (steps, count) of each stream by its name; recipe.normals(channels) gives the counts.

    Returns
    -------
    Increment
        For `noise` of `path`.
    """
    _expect_recipe(recipe)
    return jax.vmap(lambda h, z: recipe.increment(h, z, channels))(jnp.asarray(dt), dict(normals))


def _expect_recipe(recipe: Any) -> None:
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe: expected the recipe of a method (method.needs), got {recipe!r}")


@checks_arguments
def path(
    problem: Any, method: Method | str, t: float, noise: Increment, *, start: Any = None, params: Any = None
) -> tuple[Array, Array]:
    """Compute one path with known noise, in pure JAX.

    It can be differentiated with respect to start, params and noise, and through any function of them that made the
    problem. It is computed in JAX's default precision, float32, unless the caller works under jax.enable_x64(True).

    Parameters
    ----------
    problem : problem
        A single path must have one start and one set of params; give them here where they differ between paths.
    method : method or str
        A method that takes one step after another, or its name.
    t : float
        The time at which the path begins.
    noise : Increment
        The increments of every step, made by `draw_increments` or `increments`; they hold the lengths of the steps.
    start, params : optional
        By default those of the problem.

    Returns
    -------
    states : array (steps + 1, n)
        The components at the beginning and after every step.
    ok : array (steps,)
        Whether each step succeeded, and ended in a state that the problem allows.

    Raises
    ------
    TypeError, ValueError
        If the method makes no steps or does not take the problem, or a start or params of one path are missing.

    Examples
    --------
    >>> import jax, stodyn as sd
    >>> decay, heun = sd.SDE(lambda t, x: -x, lambda t, x: 0.5, start=1.0), sd.method("Heun")
    >>> noise = sd.draw_increments(jax.random.key(1), heun.needs, decay.m, jax.numpy.full(100, 0.01))
    >>> states, ok = sd.path(decay, heun, 0.0, noise)
    >>> states.shape, bool(ok.all())
    ((101, 1), True)
    """
    method = named(method)
    if not isinstance(method, Method):
        raise TypeError(
            f"method: expected a method that makes one step after another, or its name, got {method!r}; those that "
            "make whole paths at once (Dyadic, VanLoan) and expansions are run only by simulate"
        )
    refuse_switches(problem, "path")
    original = problem
    if not isinstance(problem, method.accepts):
        lowered = problem.lower(method.accepts)
        if lowered is None:
            kind = type(problem).__name__
            raise TypeError(
                f"method: {method.name} takes {method.accepts.__name__} problems, but the problem is of type {kind}"
            )
        problem = lowered[0]
    _require_taken(method, problem)
    if method.calculus not in (None, problem.calculus) and not problem.noise_structure.implies("additive"):
        raise ValueError(
            f"method: {method.name} takes {method.calculus} problems, but this one is {problem.calculus}. Convert it "
            f"exactly with stodyn.problems.lowering.to_{method.calculus}(problem)."
        )
    params = problem.params if params is None else params
    own = problem.has_random_start if start is None else differs(start)
    for name, is_own in (("start", own), ("params", differs(params))):
        if is_own:
            raise ValueError(
                f"{name}: differs from path to path in this problem; give that of one path, path(..., {name}=...)"
            )
    _check_noise(noise, method, problem.m)
    x = problem.flat_start(problem.start if start is None else start)
    lengths = jnp.asarray(noise.h)
    begins = t + jnp.concatenate([jnp.zeros(1, lengths.dtype), jnp.cumsum(lengths)[:-1]])
    first = method.start(problem, begins[0], x, params)
    fit = fit_of(original, problem)

    def step(state: Any, inputs: tuple[Array, Array, Increment]) -> tuple[Any, tuple[Array, Array]]:
        k, time, increment = inputs
        after, report = method.numbered_step(k, problem, time, state, increment, params)
        shown = method.read(after)
        is_fit = True if fit is None else ~fit.fails(time + increment.h, shown, params)
        return after, (shown, jnp.asarray(report.ok & is_fit))

    _, (states, ok) = lax.scan(step, first, (jnp.arange(len(lengths)), begins, noise))
    return jnp.concatenate([method.read(first)[None], states]), ok


def _require_taken(method: Method, problem: Any) -> None:
    """Refuse problems that the method refuses; one made of values that are being traced cannot be examined."""
    try:
        reason = method.refusal(problem)
    except TRACED:
        return
    if reason is not None:
        raise ValueError(f"method: {reason}. {best_fitting(problem, method.name)}")


def _check_noise(noise: Any, method: Method, channels: int) -> None:
    """Refuse increments that do not fit the problem, or that lack something the method needs."""
    made_by = "make it with draw_increments(key, method.needs, problem.m, lengths)"
    if not isinstance(noise, Increment):
        raise TypeError(f"noise: expected the increments of every step, got {noise!r}; {made_by}")
    shape, steps = jnp.shape(noise.W), jnp.shape(noise.h)
    if len(steps) != 1 or shape != (*steps, channels):
        raise ValueError(
            f"noise: expected h of shape (steps,) and W of shape (steps, {channels}), one column per channel of "
            f"the problem; got {steps} and {shape}; {made_by}"
        )
    counts = method.needs.normals(channels)
    needed = jax.eval_shape(
        lambda: method.needs.increment(1.0, {name: jnp.zeros(count) for name, count in counts.items()}, channels)
    )
    lacking = [
        name
        for name in ("Z", "II", "words", "aux")
        if getattr(needed, name) is not None and getattr(noise, name) is None
    ]
    if lacking:
        raise ValueError(f"noise: {method.name} needs {', '.join(lacking)} besides W, but it holds none; {made_by}")
