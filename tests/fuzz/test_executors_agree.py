"""Generated functions give the same numbers in print, under vmap and by NumPy, at zeros of both signs, ∞ and NaN too.

A dozen in CI, always the same; `make fuzz` makes some hundreds of new ones.
"""

import contextlib
import os
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from stodyn.numerics import uncompiled
from stodyn.numerics.as_written import as_written
from stodyn.numerics.printing.points import at_points

FULL = bool(os.environ.get("STODYN_FUZZ"))
BATCHES, TOGETHER, DEPTH = (40 if FULL else 1), 12, 3
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e3, np.inf, -np.inf, np.nan)
POINTS = np.array([(x, y) for x in SPECIAL for y in SPECIAL])
UNARY = {
    "abs": jnp.abs, "neg": jnp.negative, "sign": jnp.sign, "sqrt": jnp.sqrt, "exp": jnp.exp, "log": jnp.log,
    "sin": jnp.sin, "tanh": jnp.tanh, "square": jnp.square, "reciprocal": lambda a: 1.0 / a, "floor": jnp.floor,
    "log1p": jnp.log1p, "arctan": jnp.arctan, "times zero": lambda a: 0.0 * a, "zero over": lambda a: 0.0 / a,
}  # fmt: skip
BINARY = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "max": jnp.maximum, "min": jnp.minimum,
    "copysign": jnp.copysign, "where": lambda a, b: jnp.where(a > b, a, b), "hypot of few": lambda a, b: a * a + b,
    "first": lambda a, b: jnp.stack([a, b])[jnp.argmax(jnp.stack([a, b]))], "sum": lambda a, b: jnp.stack([a, b]).sum(),
    "if": lambda a, b: jax.lax.cond(a < b, lambda: a, lambda: b),
}  # fmt: skip
SAFE = ("floor", "sign")  # whose jumps turn rounding into differences: taken of x and y themselves alone


def generated(rng, depth=DEPTH):
    """A function of (x, y), and its text."""
    if depth == 0:
        k = rng.randrange(3)
        return (lambda x, y: (x, y, jnp.asarray(0.5))[k]), ("x", "y", ".5")[k]
    if rng.random() < 0.5:
        name = rng.choice([*UNARY])
        inner, words = generated(rng, 0 if name in SAFE else depth - 1)
        return (lambda x, y: UNARY[name](inner(x, y))), f"{name}({words})"
    name = rng.choice([*BINARY])
    jumps = name in ("where", "first", "if", "copysign")  # what is chosen by rounding differs by more than that
    (a, of_a), (b, of_b) = (generated(rng, 0 if jumps else depth - 1) for _ in range(2))
    return (lambda x, y: BINARY[name](a(x, y), b(x, y))), f"{name}({of_a}, {of_b})"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_executors_agree_on_generated_functions(batch, quick_compiling):
    rng = random.Random(None if FULL else batch)
    functions, words = zip(*(generated(rng) for _ in range(TOGETHER)), strict=True)

    def all_of_them(point):
        return jnp.stack([function(point[0], point[1]) for function in functions])

    by_print = np.asarray(at_points(all_of_them, POINTS))
    trace = jax.make_jaxpr(all_of_them)(POINTS[0])
    mapped = jax.jit(jax.vmap(core.jaxpr_as_fun(as_written(trace))))
    others = {"vmap": np.asarray(mapped(POINTS)[0])}
    with contextlib.suppress(uncompiled.Compile):  # where it does not know an operation it says so, and vmap is asked
        others["NumPy"] = np.stack([uncompiled.run(trace, point)[0] for point in POINTS])
    for name, other in others.items():
        near = np.isclose(by_print, other, rtol=1e-9, atol=1e-12, equal_nan=True)
        wrong = [f"{words[k]} at {POINTS[i]}: {by_print[i, k]} in print, {other[i, k]} by {name}"
                 for i, k in np.argwhere(~near)]  # fmt: skip
        assert not wrong, "\n".join(wrong[:10])
