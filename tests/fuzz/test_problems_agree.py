"""Generated problems give the same paths in print, under vmap, on threads and by the kernels of a card.

Their drifts gather, scatter, sort, count in integers and branch inside loops, for 2 and for 60 unknowns. A few in CI,
always the same; `make fuzz` makes some hundreds of new ones, and runs the kernels on a GPU where there is one.
"""

import contextlib
import os
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st

FULL = bool(os.environ.get("STODYN_FUZZ"))
PROBLEMS, DEPTH = (500 if FULL else 4), 3
SIZES = (2, 60)
RUN = dict(t=(0.0, 0.15), dt=0.05, paths=64, seed=4, collect=st.Paths(64, every=1))


class Grammar:
    """Vectors, integers and truth values of n entries, chosen by `rng`, as functions of (t, x).

    One in five sorts: what is sorted is not printed, so that nothing is compared but vmap and threads.
    """

    def __init__(self, rng, n):
        self.rng, self.n = rng, n
        self.sorts = rng.random() < 0.2
        self.table = np.cos(np.arange(n * n, dtype=float)).reshape(n, n) / n

    def vector(self, depth):
        if depth == 0:
            n = self.n
            return self.rng.choice(
                (lambda t, x: x, lambda t, x: jnp.roll(x, 1), lambda t, x: t + jnp.linspace(-1, 1, n))
            )
        kinds = (self.entrywise, self.of_two, self.gathered, self.scattered, self.selected, self.rearranged,
                 self.summed, self.scanned, self.repeated, self.until, self.branched)  # fmt: skip
        return self.rng.choice(kinds)(depth - 1)

    def entrywise(self, depth):
        inner = self.vector(depth)
        act = self.rng.choice((jnp.tanh, jnp.sin, jnp.abs, lambda v: jnp.sqrt(jnp.abs(v)), lambda v: jnp.exp(-v * v)))
        return lambda t, x: act(inner(t, x))

    def of_two(self, depth):
        one, other = self.vector(depth), self.vector(depth)
        act = self.rng.choice((jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, lambda a, b: a / (1.0 + b * b)))
        return lambda t, x: act(one(t, x), other(t, x))

    def gathered(self, depth):
        inner, index, mode = self.vector(depth), self.integers(depth), self.rng.choice(("clip", "fill"))
        fill = {"fill_value": 0.25} if mode == "fill" else {}
        return lambda t, x: inner(t, x).at[index(t, x)].get(mode=mode, **fill)

    def scattered(self, depth):
        inner, values, index = self.vector(depth), self.vector(depth), self.integers(depth)
        act, mode = self.rng.choice(("add", "max", "min", "multiply")), self.rng.choice(("clip", "drop"))
        return lambda t, x: getattr(inner(t, x).at[index(t, x)], act)(values(t, x), mode=mode)

    def selected(self, depth):
        which, one, other = self.truths(depth), self.vector(depth), self.vector(depth)
        return lambda t, x: jnp.where(which(t, x), one(t, x), other(t, x))

    def rearranged(self, depth):
        inner = self.vector(depth)
        sorting = (jnp.sort, lambda v: v[jnp.argsort(-v)]) if self.sorts else ()
        act = self.rng.choice((*sorting, jnp.flip, lambda v: jnp.roll(v, 2)))
        return lambda t, x: act(inner(t, x))

    def summed(self, depth):
        inner, index, n = self.vector(depth), self.integers(depth), self.n
        act = self.rng.choice((
            jnp.cumsum, lambda v: self.table @ v, lambda v: v - v.mean(), lambda v: jnp.full(n, v.max() - v.min()),
            lambda v: jnp.cumprod(jnp.tanh(v)),
        ))  # fmt: skip
        if self.rng.random() < 0.5:
            return lambda t, x: act(inner(t, x))
        return lambda t, x: jax.ops.segment_sum(inner(t, x), index(t, x), num_segments=n)

    def scanned(self, depth):
        inner, other = self.vector(depth), self.vector(depth)

        def along(t, x):
            return jax.lax.scan(lambda kept, row: (0.5 * kept + row[0], kept * row[1]), t, (inner(t, x), other(t, x)))[
                1
            ]

        return along

    def repeated(self, depth):
        """A loop of three turns that branches in each."""
        inner, act = self.vector(depth), self.vector(depth)

        def turn(k, t, v):
            return jax.lax.cond(k % 2 == 0, lambda: jnp.tanh(act(t, v)), lambda: 0.5 * v + k)

        return lambda t, x: jax.lax.fori_loop(0, 3, lambda k, v: turn(k, t, v), inner(t, x))

    def until(self, depth):
        """A loop whose number of turns the state decides."""
        inner = self.vector(depth)

        def along(t, x):
            return jax.lax.while_loop(
                lambda kept: (kept[0] < 5) & (jnp.abs(kept[1]).max() > 0.3),
                lambda kept: (kept[0] + 1, 0.6 * kept[1]),
                (0, inner(t, x)),
            )[1]

        return along

    def branched(self, depth):
        which, branches = self.integers(depth), [self.vector(depth) for _ in range(3)]
        return lambda t, x: jax.lax.switch(which(t, x)[0] % 3, [lambda b=b: b(t, x) for b in branches])

    def integers(self, depth):
        """Mostly within 0 and n - 1, where an index must be."""
        n, rng = self.n, self.rng
        if depth <= 0:
            sorting = (lambda t, x: jnp.argsort(x),) if self.sorts else ()
            return rng.choice((
                lambda t, x: jnp.arange(n), lambda t, x: (3 * jnp.arange(n) + 1) % n,
                lambda t, x: jnp.floor(5.0 * jnp.abs(x)).astype(int) % n, lambda t, x: jnp.sign(x).astype(int),
                lambda t, x: jnp.searchsorted(jnp.linspace(-2, 2, 7), x) - 2, *sorting,
            ))  # fmt: skip
        one, other = self.integers(depth - 1), self.integers(depth - 1)
        act = rng.choice((
            lambda a, b: (a + b) % n, lambda a, b: a // 2, lambda a, b: (a << 1) % n, lambda a, b: (a ^ b) % n,
            lambda a, b: jnp.clip(a - b, 0, n - 1), lambda a, b: jnp.where(a > b, a, b), lambda a, b: (a & 5) % n,
            lambda a, b: (a * b) % n, lambda a, b: jnp.fmod(a - b, 3), lambda a, b: a >> 1,
        ))  # fmt: skip
        return lambda t, x: act(one(t, x), other(t, x))

    def truths(self, depth):
        n, rng = self.n, self.rng
        if depth <= 0:
            return rng.choice(
                (lambda t, x: x > jnp.roll(x, 1), lambda t, x: jnp.arange(n) % 3 == 1, lambda t, x: x < 0.2)
            )
        one, other, count = self.truths(depth - 1), self.truths(depth - 1), self.integers(depth - 1)
        act = rng.choice((
            lambda a, b, k: a ^ b, lambda a, b, k: ~a & b, lambda a, b, k: a | jnp.all(b),
            lambda a, b, k: b & jnp.any(a), lambda a, b, k: (k % 2 == 0) | b,
            lambda a, b, k: jnp.full(n, jnp.sum(a) > n // 2),
        ))  # fmt: skip
        return lambda t, x: act(one(t, x), other(t, x), count(t, x))


def generated(seed):
    """A problem with bounded steps, its noise written by the same grammar one time in three."""
    rng = random.Random(seed)
    n = SIZES[seed % 2]
    grammar = Grammar(rng, n)
    force, strength = grammar.vector(DEPTH), grammar.vector(DEPTH - 1)
    multiplied = rng.random() < 0.3

    def diffusion(t, x):
        return (0.3 + (0.1 * jnp.tanh(strength(t, x)) if multiplied else 0.0 * x))[:, None]

    start = np.random.default_rng(seed).normal(size=(RUN["paths"], n))
    return sd.SDE(lambda t, x: jnp.tanh(force(t, x)) - x, diffusion, sd.PerPath(start))


def paths_of(problem, **where):
    run = sd.simulate(problem, "EulerMaruyama", **RUN, **where)
    return run["path"].values, sd.provenance(run)["executor"]


@contextlib.contextmanager
def naming(seed, problem):
    """A failure says how to make its problem again, and what that computes."""
    try:
        yield
    except Exception as error:
        functions = [jax.make_jaxpr(f)(0.0, problem.example_start()) for f in (problem.drift, problem.diffusion)]
        error.add_note("generated({}), with the drift\n{}\nand the diffusion\n{}".format(seed, *functions))
        raise


@pytest.mark.parametrize("number", range(PROBLEMS))
def test_generated_problems_have_the_same_paths_wherever_they_run(number, quick_compiling):
    seed = random.randrange(2**40) if FULL else number
    problem = generated(seed)
    with naming(seed, problem):
        expect_the_same_paths(problem)


def expect_the_same_paths(problem):
    card = jax.devices(jax.default_backend() if FULL else "cpu")
    printed, executor = paths_of(problem)
    mapped, _ = paths_of(problem, executor="vmap")
    np.testing.assert_allclose(printed, mapped, rtol=1e-9, atol=1e-11, err_msg=f"{executor} beside vmap")
    np.testing.assert_array_equal(paths_of(problem, threads=2, block=16)[0], printed, "on two threads")
    kernel, executor = paths_of(problem, device=card)
    mapped, _ = paths_of(problem, device=card, executor="vmap")
    np.testing.assert_allclose(kernel, mapped, rtol=1e-9, atol=1e-11, err_msg=f"{executor} on a card")


def test_a_failure_names_the_problem_and_shows_its_functions():
    problem = sd.SDE(lambda t, x: -jnp.sin(x), lambda t, x: jnp.eye(2), np.zeros(2))
    with pytest.raises(AssertionError) as failure, naming(17, problem):
        np.testing.assert_array_equal(1.0, 2.0)
    assert re.search(r"(?s)generated\(17\), .*= sin .*and the diffusion", failure.value.__notes__[0])
