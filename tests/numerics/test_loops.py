"""Functions of large arrays printed as loops, against NumPy: by construct, at sizes that do and do not fit the axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.numerics.facts import entries
from stodyn.numerics.facts.dependence import dependence, dependence_by_arrays
from stodyn.numerics.printing import operations, scalars
from stodyn.numerics.printing.array_traces import ArrayTraces
from stodyn.numerics.printing.arrays import Buffer
from stodyn.numerics.printing.entrywise import TABLE, Row
from stodyn.numerics.printing.flat import flattened, scalar_operations
from stodyn.numerics.printing.loops import mapped
from stodyn.numerics.printing.nodes import reachable
from stodyn.numerics.printing.table import KINDS
from stodyn.numerics.printing.unprintable import Unprintable
from stodyn.numerics.printing.views import VIEWS

FRAME = ("x", "y", "scratch", "tables", "stride", "first_lane", "last_lane")
LANES = 16
N = 23


A = np.random.default_rng(1).standard_normal((N, N))
BAND = np.triu(np.tril(A, 1), -1)
ORDER = np.random.default_rng(2).permutation(N)
BONDS = np.random.default_rng(6).integers(0, (N - 1) // 2, (30, 2))
NEAR = np.random.default_rng(7).integers(0, N, (N, 2))
TWICE = np.repeat(np.arange(N - 3), 2)[:N]


def softmax(xp, x):
    e = xp.exp(x - xp.max(x))
    return e / xp.sum(e)


def early_and_late(xp, x):
    """Two folds of one length, of which one needs what is stored first."""
    y = xp.sin(x) * xp.exp(x)
    return y * xp.max(x) + y[::-1] * xp.max(y)


def rows_softmax(xp, x):
    M = x[:, None] * A
    e = xp.exp(M - xp.max(M, axis=1, keepdims=True))
    return xp.sum(e / xp.sum(e, axis=1, keepdims=True) * x, axis=1)


def pairs(xp, x):
    q = x[: N - 1].reshape(-1, 2)
    apart = q[:, None, :] - q[None, :, :]
    r2 = xp.sum(apart**2, axis=-1) + 0.1
    return xp.sum((1 / r2**2 - 1 / r2)[:, :, None] * apart, axis=1).ravel()


def scattered(xp, x):
    if xp is np:
        y = np.cos(x)
        np.add.at(y, TWICE, np.sin(x))
        return y
    return xp.cos(x).at[TWICE].add(xp.sin(x))


def bonds(xp, x):
    """Pair forces along bonds of a plane, whose rows land on those of both ends; then along a list of neighbours."""
    q, F = x[: N - 1].reshape(-1, 2), xp.sin(x[: N - 1].reshape(-1, 2)[BONDS[:, 0]] - x[0])
    if xp is np:
        y, z = np.cos(q), np.ones(N)
        np.add.at(y, BONDS[:, 0], F)
        np.subtract.at(y, BONDS[:, 1], F)
        np.multiply.at(z, NEAR, x[NEAR])
        np.maximum.at(z, NEAR, x[NEAR])
        return np.concatenate([y.ravel(), z])
    y = xp.cos(q).at[BONDS[:, 0]].add(F).at[BONDS[:, 1]].subtract(F)
    return xp.concatenate([y.ravel(), xp.ones(N).at[NEAR].multiply(x[NEAR]).at[NEAR].max(x[NEAR])])


def bounded(xp, x):
    if xp is np:
        y = x * x
        y[0], y[1:-1], y[-1] = 0.0, x[2:] - 2 * x[1:-1] + x[:-2], 1.0
        return y
    y = (x * x).at[0].set(0.0).at[1:-1].set(x[2:] - 2 * x[1:-1] + x[:-2])
    return y.at[-1].set(1.0)


CASES = {
    "element-wise": lambda xp, x: xp.sin(x) * xp.exp(-x * x) + xp.sqrt(1 + x**2),
    "Lorenz-96": lambda xp, x: (xp.roll(x, -1) - xp.roll(x, 2)) * xp.roll(x, 1) - x + 8.0,
    "two loops": lambda xp, x: xp.roll(x + 0.1 * xp.sin(xp.roll(x, 1)) * x, 3) - x,
    "slices": lambda xp, x: xp.concatenate([x[::2] * 2, xp.tanh(x[1::2])]),
    "reversed": lambda xp, x: x[::-1] - x,
    "padded": lambda xp, x: xp.pad(x[2:-1], (2, 1)) * x + xp.pad(x, (0, 1))[1:],
    "gather": lambda xp, x: x[ORDER] * 2 + x[np.arange(N) // 2],
    "matrix": lambda xp, x: A @ xp.cos(x),
    "transposed": lambda xp, x: xp.sin(x) @ A.T - A.T @ x,
    "sparse matrix": lambda xp, x: BAND @ x**2 + x @ BAND,
    "matrix of matrices": lambda xp, x: xp.sum((x[:, None] * A) @ BAND, axis=1),
    "mean": lambda xp, x: x - xp.mean(x) + xp.max(x) * xp.min(x),
    "softmax": softmax,
    "softmax of rows": rows_softmax,
    "early and late": early_and_late,
    "pair forces": pairs,
    "reshaped": lambda xp, x: xp.transpose(x[: N - 2].reshape(3, 7)).ravel() + xp.sum(x.reshape(1, N)),
    "whole plane": lambda xp, x: xp.roll(x[: N - 2].reshape(3, 7), 1, axis=1).T.reshape(-1),
    "where": lambda xp, x: xp.where(x > 0.3, xp.where(np.arange(N) % 3 == 0, x, -x), 0.5),
    "counters": lambda xp, x: x * np.arange(N) + np.linspace(0, 1, N) ** 2,
    "outer": lambda xp, x: xp.sum(xp.outer(x, x) * A, axis=0) + xp.sum(xp.outer(x, x) * A),
    "powers": lambda xp, x: xp.abs(x) ** 1.5 + x**3 - 1 / (2 + x**2),
    "scatter": scattered,
    "bonds": bonds,
    "edges": bounded,
    "stack": lambda xp, x: xp.stack([x, -x, x * x]).sum(axis=0),
    "unstack": lambda xp, x: xp.exp(xp.unstack(x.reshape(1, N), axis=1)[3]) * x + xp.unstack(xp.stack([x, -x]))[1],
    "tile": lambda xp, x: xp.tile(x[:4], 2)[:7] * xp.tile(x[:7], (2, 1))[1],
    "scalar": lambda xp, x: xp.sum(x**2) * xp.ones(1),
    "prefix": lambda xp, x: x[0] * x + x[3] * x[N - 1],
    "diagonals": lambda xp, x: xp.diagonal(xp.outer(xp.sin(x), x)) * xp.trace(A * x) + xp.diag(A * x[:, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_loops_compute_what_numpy_does(name, evaluated):
    x = np.random.default_rng(3).standard_normal((N, LANES))
    expected = np.stack([CASES[name](np, x[:, k].copy()) for k in range(LANES)], axis=-1)
    found = evaluated(lambda x: CASES[name](jnp, x), x)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-13, atol=2e-13)


@pytest.mark.parametrize("name", CASES)
def test_patterns_of_whole_arrays_are_those_of_scalars(name):
    def function(x):
        return CASES[name](jnp, x)

    with jax.enable_x64(True):
        found = dependence_by_arrays(jax.make_jaxpr(function)(np.ones(N)), (np.ones(N),))
        assert np.array_equal(found.rows.toarray(), dependence(function, np.ones(N)).rows.toarray())


def test_whole_numbers_and_truth_values(evaluated):
    x = np.random.default_rng(4).standard_normal((N, LANES))
    found = evaluated(lambda x: jnp.sum(x > 0) + jnp.floor(x).astype(jnp.int32), x)
    assert np.array_equal(found, (x > 0).sum(axis=0) + np.floor(x).astype(int))
    assert np.array_equal(evaluated(lambda x: jnp.roll(x > 0, 1) & (x < 1), x), np.roll(x > 0, 1, axis=0) & (x < 1))


def test_branches_are_selected(evaluated):
    x = np.random.default_rng(5).standard_normal((N, LANES))
    found = evaluated(lambda x: jax.lax.cond(x[0] > 0, jnp.sin, lambda x: -x, x), x)
    np.testing.assert_allclose(found, np.where(x[0] > 0, np.sin(x), -x), rtol=1e-15)


def test_the_program_is_as_long_as_the_trace_whatever_the_size(program_of):
    def step(x):
        y = x + 0.1 * CASES["Lorenz-96"](jnp, x)
        return x + 0.05 * (CASES["Lorenz-96"](jnp, x) + CASES["Lorenz-96"](jnp, y))

    texts = []
    for n in (100, 10_000):
        program, _, _ = program_of(step, (n,))
        assert program.loops == 2
        assert program.scratch == n  # the prediction; the rest of the first stage is computed again
        texts.append(mapped("run", program, FRAME, ("x", "y")).finished())
    assert abs(len(texts[0]) - len(texts[1])) < 100
    assert len(texts[0]) < 10_000


def test_long_chains_of_operations_are_cut(evaluated):
    """Sums over many channels: rules that call each other hundreds of times would end in Python's limit."""

    def function(xp, x):
        y = x
        for k in range(400):
            y = y * 0.5 + x[k % N]
        return y

    x = np.random.default_rng(3).standard_normal((N, LANES))
    expected = np.stack([function(np, x[:, k]) for k in range(LANES)], axis=-1)
    np.testing.assert_allclose(evaluated(lambda x: function(jnp, x), x), expected, rtol=1e-13)


def test_arrays_of_pairs_are_not_kept(program_of):
    program, _, _ = program_of(lambda x: CASES["pair forces"](jnp, x), (N,))
    assert program.scratch <= 2 * N


def newton(xp, x):
    """y³ + y = x, each path in its own number of turns, which are added."""
    y, turns = xp.zeros(N), 0.0
    if xp is np:
        while np.max(np.abs(y**3 + y - x)) > 1e-9:
            y, turns = y - (y**3 + y - x) / (3 * y**2 + 1), turns + 1.0
        return y + turns
    y, turns = jax.lax.while_loop(
        lambda carry: jnp.max(jnp.abs(carry[0] ** 3 + carry[0] - x)) > 1e-9,
        lambda carry: (carry[0] - (carry[0] ** 3 + carry[0] - x) / (3 * carry[0] ** 2 + 1), carry[1] + 1.0),
        (y, 0.0),
    )
    return y + turns


def two_steps_back(xp, x):
    """A recurrence with a series in and out, and what it hands on crossed over; then the same from the end."""
    coefficients = xp.cos(x)
    if xp is np:
        found = np.empty((2, N))
        for row, order in zip(found, (range(N), range(N)[::-1]), strict=True):
            a, b = 1.0, x[0]
            for k in order:
                a, b = b, a + coefficients[k] * b
                row[k] = a
        return found.ravel()

    def turn(carry, c):
        a, b = carry
        return (b, a + c * b), b

    forwards, backwards = (jax.lax.scan(turn, (1.0, x[0]), coefficients, reverse=r)[1] for r in (False, True))
    return jnp.concatenate([forwards, backwards])


def loop_in_a_loop(xp, x):
    """Of k = 0 .. 4: double what is kept until it is above k; what stands outside moves no turn."""
    weights = xp.sin(x)
    if xp is np:
        total = np.zeros(N)
        for k in range(5):
            y = np.abs(x) + 0.1
            while y.sum() < 30.0 * k:
                y = y * 2.0
            total = total + weights * y
        return total

    def turn(k, total):
        y = jax.lax.while_loop(lambda y: y.sum() < 30.0 * k, lambda y: y * 2.0, jnp.abs(x) + 0.1)
        return total + weights * y

    return jax.lax.fori_loop(0, 5, turn, jnp.zeros(N))


def nobody_enters(xp, x):
    if xp is np:
        return x
    return jax.lax.while_loop(lambda x: x[0] > 1e9, lambda x: x + 1.0, x)


def own_place(xp, x):
    """The largest entry and what follows it, and a place that is not there."""
    if xp is np:
        y = x.copy()
        y[np.argmax(x)] = 7.0
        first = min(max(np.argmin(x), 0), N - 3)
        y[first : first + 3] = x[:3]
        return y
    y = x.at[jnp.argmax(x)].set(7.0).at[jnp.argmax(x) + N].set(5.0)
    return jax.lax.dynamic_update_slice(y, x[:3], (jnp.argmin(x),))


TURNS = {
    "newton": newton,
    "recurrence": two_steps_back,
    "loop in a loop": loop_in_a_loop,
    "nobody enters": nobody_enters,
    "cumulative": lambda xp, x: xp.cumsum(xp.sin(x)) * xp.cumprod(1.0 + 0.1 * x),
    "cumulative rows": lambda xp, x: xp.cumsum(x[: N - 2].reshape(3, 7), axis=1).ravel(),
    "own index": lambda xp, x: x[xp.argmax(x)] * x - x[xp.argmin(x)],
    "own indices": lambda xp, x: x[xp.clip(xp.floor(abs(5 * x)).astype(int), 0, N - 1)] * 2.0,
    "own index of a table": lambda xp, x: xp.asarray(A)[xp.argmax(x)] * x,
    "own place": own_place,
    "solved": lambda xp, x: xp.cumsum(x) if xp is np else jax.lax.custom_linear_solve(
        lambda y: jnp.diff(y, prepend=0.0), x, lambda _, b: jnp.cumsum(b)),
}  # fmt: skip


@pytest.mark.parametrize("config", [(0, 0, 1), (2, 1, 2), (-1, 3, 1), (1, -2, 3), (-3, -2, 2)])
def test_entries_are_spread_apart(config, evaluated):
    """As the derivatives of strided slices are."""
    x = np.random.default_rng(3).standard_normal((N, LANES))

    def spread(x):
        return jax.lax.pad(jnp.sin(x), 0.5, [config])

    def force(x):
        return jax.grad(lambda x: jnp.sum(x[::2] ** 3) + jnp.sum(x[1::3][:7] * x[2::3]))(x)

    for function in (spread, force):
        with jax.enable_x64(True):
            expected = jax.vmap(function, in_axes=-1, out_axes=-1)(jnp.asarray(x))
        np.testing.assert_allclose(evaluated(function, x), expected, rtol=1e-14)


@pytest.mark.parametrize("name", TURNS)
def test_turns_compute_what_numpy_does(name, evaluated):
    """Each of the paths ends by itself; what another one still does changes none of its bits."""
    x = np.random.default_rng(3).standard_normal((N, LANES))
    expected = np.stack([TURNS[name](np, x[:, k].copy()) for k in range(LANES)], axis=-1)
    found = evaluated(lambda x: TURNS[name](jnp, x), x)
    np.testing.assert_allclose(found, expected, rtol=2e-13, atol=2e-13)
    y = x.copy()
    y[:, 1], y[:, 2] = 1e3, np.nan
    others = np.arange(LANES) // 3 != 0
    assert np.array_equal(evaluated(lambda x: TURNS[name](jnp, x), y)[..., others], found[..., others])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.cos(x).at[jnp.floor(9 * x).astype(int)].add(jnp.sin(x)),
        lambda x: jnp.zeros(7).at[jnp.floor(9 * x).astype(int)].add(x, mode="clip"),
        lambda x: jnp.outer(x[:4], x[:3]).at[jnp.floor(2 * x).astype(int), jnp.floor(3 * x**2).astype(int)].add(x),
        lambda x: jnp.outer(x, x).at[jnp.floor(9 * x).astype(int)].add(jnp.outer(x, x) + 1.0),
    ],
    ids=["outside", "clipped", "plane", "rows"],
)
def test_what_is_added_at_computed_places_is_added_in_order(function, evaluated):
    """As XLA adds it, one after another, and nothing where a place lies outside."""
    x = np.random.default_rng(3).standard_normal((N, LANES))
    with jax.enable_x64(True):
        expected = np.stack([function(jnp.asarray(x[:, k])) for k in range(LANES)], axis=-1)
    np.testing.assert_allclose(evaluated(function, x), expected, rtol=1e-15, atol=1e-15)


OUTSIDE = np.array([0, N + 70, 3, -N - 60, N])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[jnp.floor(30 * x).astype(jnp.int32)],
        lambda x: x[(100 * x).astype(jnp.int8)] * 2.0,
        lambda x: x.at[(90 * jnp.abs(x)).astype(jnp.uint8)].get(mode="promise_in_bounds"),
        lambda x: x.at[OUTSIDE].get(mode="promise_in_bounds"),
        lambda x: jnp.asarray(A)[jnp.floor(30 * x).astype(int), np.arange(N)],
    ],
)
def test_indices_outside_an_array_are_moved_inside(function, evaluated):
    """As XLA moves them: they would read numbers of other arrays, or memory that is not there."""
    x = np.random.default_rng(3).standard_normal((N, LANES))
    with jax.enable_x64(True):
        expected = np.stack([function(jnp.asarray(x[:, k])) for k in range(LANES)], axis=-1)
    assert np.array_equal(evaluated(function, x), expected)


def test_tables_are_read_inside_where_parts_are_joined():
    """Entries of one array, joined: the places of all parts are found for every entry, those not wanted too."""
    arrays = ArrayTraces()
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda x: jnp.concatenate([x[ORDER[:9]], x]))(np.ones(N))
    (y,) = arrays.run(closed, [arrays.buffered(Buffer("x", 0, (N,), np.dtype(float)))])
    read = reachable([y.at((arrays.graph.counter()[1],))])
    tables = [node for node in read if node.op == "load" and node.attr.name == "table"]
    assert tables and all(node.args[0].op == "min" for node in tables)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: jnp.sort(x), "sort is not among"),
        (lambda x: x.at[jnp.argsort(x)].set(0.0), "sort is not among"),
        (lambda x: x.at[jnp.floor(x).astype(int)].multiply(2.0), "a scatter to many places that are computed"),
        (lambda x: jnp.zeros(20_000).at[jnp.floor(x).astype(int)].add(1.0), "of 23 entries to 20000 places"),
        (lambda x: jax.vmap(lambda x: jax.lax.while_loop(lambda x: x < 1, lambda x: x + 1, x))(x), "under jax.vmap"),
        (lambda x: jnp.fft.fft(x).real, "numbers of type complex"),
        (lambda x: x.at[np.arange(N - 1)].apply(jnp.cos), r"a function of some entries, x.at\[k\].apply"),
        (lambda x: jnp.argmax(x > 0.0) * x, "an extreme of truth values"),
        (lambda x: x.at[1].apply(jnp.cos), r"a function of some entries, x.at\[k\].apply"),
    ],
)
def test_what_cannot_be_a_loop_is_refused_with_the_reason(function, words, program_of):
    with pytest.raises(Unprintable, match=words):
        program_of(function, (N,))


def test_operations_are_counted_by_shapes():
    with jax.enable_x64(True):
        count = scalar_operations(jax.make_jaxpr(lambda x: A @ x + jnp.sin(x) * x)(np.ones(N)))
    assert count == 2 * N * N + 3 * N


def halved(x, below=1.0):
    return jax.lax.while_loop(lambda x: jnp.max(x) > below, lambda x: 0.5 * x, x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: halved(jnp.sin(x) + 2.0) * halved(jnp.sin(x) + 2.0), 1),
        (lambda x: halved(jnp.sin(x) + 2.0) * halved(jnp.sin(x) + 3.0), 2),
        (lambda x: halved(jnp.sin(x) + 2.0) * halved(jnp.sin(x) + 2.0, below=0.5), 2),
    ],
    ids=["the same", "other operands", "another end"],
)
def test_a_loop_that_repeats_another_is_made_once(function, expected):
    with jax.enable_x64(True):
        _, equations, _ = flattened(jax.make_jaxpr(function)(np.ones(N)))
    assert [equation.name for equation in equations].count("while") == expected


def test_whatever_moves_entries_as_scalars_moves_them_in_loops():
    """JAX gives some movements primitives of their own from time to time: large systems take them too, and so do proofs
    of patterns and NumPy."""
    assert {kind for kind, row in KINDS.items() if isinstance(row, Row) and row.data} - set(VIEWS) == set()
    assert operations.Scatter in scalars.SPECIAL.keys() & VIEWS.keys() & entries.RULES.keys()
    folds = {name.removeprefix("scatter-") for name in operations.READ if name.startswith("scatter-")}
    assert all(isinstance(TABLE[fold].numpy, np.ufunc) for fold in folds)
