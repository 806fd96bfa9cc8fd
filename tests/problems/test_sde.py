"""What is read off a problem, and what is refused, each with the argument, what was found and the way out."""

import fractions
import math
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from stodyn import SDE, PathsFailed, PerPath, simulate
from stodyn.engine.spec import describe
from stodyn.numerics.printing.points import AtPoints
from stodyn.problems.lowering import to_stratonovich
from stodyn.problems.sparsity import find_elimination
from stodyn.problems.structure import (
    CHECKED_STATES,
    commutes,
    commutes_in_directions,
    depends_on_time,
    directed_kinds,
    find_structure,
)

L = np.array([[1.0, 0.0], [0.5, 1.0]])


def decay(t, x):
    return -x


def sde(diffusion, start=(1.0, 2.0), **options):
    drift = decay if options.get("params") is None else lambda t, x, p: -x
    return SDE(drift, diffusion, start, **options)


def solved(matrix, right):
    """A linear solve: it leaves lanes, so nothing can be proved of it from the trace."""
    return jnp.linalg.solve(matrix, right)


PROVED, CHECKED = "proved from the trace", "checked at 64 random states"

# name -> (problem, every kind that holds, how it is known)
STRUCTURES = {
    "constant column": (sde(lambda t, x: jnp.array([[1.0], [0.5]])), {"additive", "scalar"}, PROVED),
    "constant matrix": (sde(lambda t, x: L), {"additive"}, PROVED),
    "constant diagonal": (sde(lambda t, x: jnp.eye(2)), {"additive", "diagonal"}, PROVED),
    "of time": (sde(lambda t, x: jnp.sin(t) * L), {"additive"}, PROVED),
    "of params": (sde(lambda t, x, p: p["s"] * L, params={"s": 0.3}), {"additive"}, PROVED),
    "of random params": (sde(lambda t, x, p: p * L, params=scipy.stats.uniform(1, 2)), {"additive"}, PROVED),
    "times zero": (sde(lambda t, x: L + 0.0 * jnp.outer(x, x)), {"additive"}, PROVED),
    "scalar start": (sde(lambda t, x: 0.4 * x, 1.0), {"diagonal", "scalar"}, PROVED),
    "number": (sde(lambda t, x: 0.4, 1.0), {"additive", "diagonal", "scalar"}, PROVED),
    "one channel": (sde(lambda t, x: x[::-1, None] ** 2), {"scalar"}, PROVED),
    "diagonal": (sde(lambda t, x: jnp.diag(jnp.sin(x))), {"diagonal"}, PROVED),
    "square root": (sde(lambda t, x: jnp.diag(jnp.sqrt(x)), (0.04, 0.01)), {"diagonal"}, PROVED),
    "foreign diagonal": (sde(lambda t, x: jnp.diag(x[::-1])), set(), CHECKED),
    "two fields, one direction": (sde(lambda t, x: jnp.stack([x, -2 * x], axis=1)), {"commutative"}, CHECKED),
    "commuting, not finite everywhere": (
        sde(lambda t, x: jnp.stack([jnp.sqrt(x), 3 * jnp.sqrt(x)], axis=1), (0.04,) * 5),
        {"commutative"},
        CHECKED,
    ),
    "correlated square roots": (sde(lambda t, x: L * jnp.sqrt(x), (0.04, 0.09)), set(), CHECKED),
    "clock and gate": (sde(lambda t, x: jnp.array([[1.0, 0.0], [0.0, x[0]]])), set(), CHECKED),
    "constant, but not provably": (sde(lambda t, x: L + x - x), {"commutative"}, CHECKED),
    "solve, constant": (sde(lambda t, x: solved(2.0 * jnp.eye(2), L)), {"additive"}, PROVED),
    "solve with params": (sde(lambda t, x, p: solved(p * jnp.eye(2), L), params=2.0), {"additive"}, PROVED),
    "solve, one channel": (sde(lambda t, x: solved(jnp.eye(2) + jnp.outer(x, x), x)[:, None]), {"scalar"}, PROVED),
    "solve, diagonal": (sde(lambda t, x: solved(jnp.diag(1 + x**2), jnp.eye(2))), {"diagonal"}, CHECKED),
    "solve, general": (
        sde(lambda t, x: solved(jnp.eye(2) * 3.0 + jnp.outer(x, x), jnp.diag(x[::-1]))),
        set(),
        CHECKED,
    ),
}


@pytest.mark.brief(*STRUCTURES.keys() - {"solve, diagonal", "solve, constant"})
@pytest.mark.parametrize("name", STRUCTURES)
def test_noise_structure_is_found(name):
    problem, kinds, known = STRUCTURES[name]
    found = problem.noise_structure
    assert set(found.kinds) == kinds | ({"commutative"} if kinds else set())
    assert found.known == known
    assert all(found.implies(kind) for kind in (*kinds, "general"))
    first = [kind for kind in ("additive", "diagonal", "scalar", "commutative") if kind in kinds]
    assert str(found) == f"{(first or ['general'])[0]} ({known})"


def clock_and_gate(strength, x):
    """Channels that do not commute, at the given strength."""
    return strength * jnp.array([[1.0, 0.0], [0.0, 1.0]]) * jnp.array([1.0, x[0]])


@pytest.mark.parametrize(
    "problem",
    [
        sde(lambda t, x: clock_and_gate(t, x)),
        sde(lambda t, x: clock_and_gate(jnp.where(t > 1.0, 1.0, 0.0), x)),
        sde(lambda t, x, p: clock_and_gate(p, x), params=PerPath(np.linspace(0.0, 1.0, 9))),
        sde(lambda t, x, p: clock_and_gate(p, x), params=scipy.stats.bernoulli(0.3)),
    ],
    ids=["grows from nothing", "is switched on later", "a sweep that begins at zero", "drawn, most of them zero"],
)
def test_noise_that_vanishes_at_first_is_not_taken_for_commutative(problem):
    assert not problem.noise_structure.implies("commutative")


@pytest.mark.parametrize("unit", [1e12, 1e-12])
def test_noise_that_does_not_commute_in_small_units_is_not_taken_for_commutative(unit):
    """Beside a component whose own noise is as far from additive, in a unit of its own."""

    def noise(t, x, p=None):
        return jnp.diag(jnp.array([unit * (1.0 + 0.1 * (x[0] / unit) ** 2), 1.0, x[1]]))

    start = np.array([unit, 1.0, 1.0])
    assert not sde(noise, start).noise_structure.implies("commutative")
    with jax.enable_x64(True):
        assert not commutes_in_directions(noise, start, (None, None))


@pytest.mark.parametrize("structure", ["additive", "commutative", "general", "diagonal"])
def test_a_stated_structure_is_believed(structure):
    found = sde(lambda t, x: jnp.diag(x[::-1]), structure=structure).noise_structure
    assert str(found) == f"{structure} (stated by the user)"
    assert found.implies("commutative") == (structure != "general")


@pytest.mark.parametrize(
    ("diffusion", "structure", "shape"),
    [(lambda t, x: jnp.diag(x), "scalar", r"\(2, 2\)"), (lambda t, x: x[:, None], "diagonal", r"\(2, 1\)")],
)
def test_a_stated_structure_that_cannot_be_is_refused(diffusion, structure, shape):
    with pytest.raises(ValueError, match=f"structure: '{structure}' is impossible: diffusion returns shape {shape}"):
        sde(diffusion, structure=structure)


def test_sizes_names_and_units():
    problem = sde(lambda t, x: jnp.ones((2, 3)), names=("q", "p"), units=("m", "kg m/s"))
    assert (problem.n, problem.m, problem.scalar) == (2, 3, False)
    assert problem.components == ("q", "p")
    assert problem.component_units == {"q": "m", "p": "kg m/s"}
    assert sde(lambda t, x: 1.0, 2.0).components == ("x",)
    assert sde(lambda t, x: 1.0, 2.0, names="v", units="m/s").component_units == {"v": "m/s"}
    assert sde(lambda t, x: jnp.eye(2)).components == ("x0", "x1")
    assert sde(lambda t, x: jnp.eye(2), units={"x1": "V", "time": "s"}).component_units == {"x1": "V", "time": "s"}


def test_scalar_functions_are_called_with_numbers():
    problem = SDE(lambda t, x, p: p * x, lambda t, x, p: jnp.cos(x), 0.5, params=-2.0)
    x = jnp.array([0.7])
    np.testing.assert_array_equal(problem.f(0.0, x, -3.0), [-3.0 * 0.7])
    np.testing.assert_allclose(problem.g(0.0, x, -3.0), [[np.cos(0.7)]], rtol=1e-15)


@pytest.mark.parametrize("start", [fractions.Fraction(1, 2), np.float32(0.5), 1, [1, 2], np.arange(2), jnp.arange(2.0)])
def test_starts_of_many_kinds(start):
    problem = SDE(decay, lambda t, x: jnp.eye(2) if jnp.ndim(x) else 1.0, start)
    np.testing.assert_array_equal(problem.example_start(), np.atleast_1d(np.asarray(start, float)))


def test_starts_drawn_path_by_path():
    given = SDE(decay, lambda t, x: x[:, None], PerPath([[1.0, 2.0], [3.0, 4.0]]))
    drawn = SDE(decay, lambda t, x: 1.0, scipy.stats.norm(3.0, 0.1))
    made = SDE(decay, lambda t, x: x[:, None], lambda rng, size: rng.uniform(size=(size, 3)))
    assert (given.n, given.scalar) == (2, False)
    assert (drawn.n, drawn.scalar) == (1, True)
    assert (made.n, made.scalar) == (3, False)
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(given.draw_start(rng, range(2)), [[1.0, 2.0], [3.0, 4.0]])
    assert drawn.draw_start(rng, range(7)).shape == (7, 1)


# --- what is refused -----------------------------------------------------------------------------------------------


def no_message(t, x):
    raise ValueError


def ones(t, x):
    return jnp.ones((2, 1))


REFUSED = {
    # functions
    "drift not callable": (
        dict(drift=3.0),
        TypeError,
        r"drift: expected a function drift\(t, x\[, params\]\), got 3.0",
    ),
    "diffusion not callable": (dict(diffusion=0.5), TypeError, r"diffusion: expected a function .* got 0.5"),
    "drift of x alone": (
        dict(drift=lambda x: -x),
        TypeError,
        r"drift: must take drift\(t, x\) or drift\(t, x, params\), got lambda\(x\)\. Its 2 arguments are",
    ),
    "params not given": (
        dict(diffusion=lambda t, x, p: p["size"] * x[:, None]),
        TypeError,
        r"diffusion: diffusion\(t, x, params\) .*KeyError.* The problem has no params, so",
    ),
    "two arguments too many": (
        dict(drift=lambda t, x, a, b: a * x),
        TypeError,
        r"drift: must take .* got lambda\(t, x, a, b\)\. Capture further values in",
    ),
    "list": (dict(drift=lambda t, x: [x[1], x[0]]), TypeError, r"drift: .* returned a list, expected one array\. Wrap"),
    "tuple": (
        dict(diffusion=lambda t, x: (x, x)),
        TypeError,
        r"diffusion: .* returned a tuple.* jnp\.array\(\[\.\.\.\]",
    ),
    "nothing": (dict(drift=lambda t, x: None), TypeError, r"drift: .* returned None, expected one array"),
    "bool": (dict(drift=lambda t, x: x > 0), TypeError, r"drift: .* returned bool values, expected real numbers"),
    "complex": (dict(drift=lambda t, x: 1j * x), TypeError, r"drift: .* returned complex128 values, expected real"),
    "math.sin": (dict(drift=lambda t, x: math.sin(x[0]) * x), TypeError, r"drift: .*could not be traced.*jnp\.sin for"),
    "numpy": (dict(drift=lambda t, x: np.sin(x)), TypeError, r"drift: .*could not be traced by JAX \(TracerArrayConv"),
    "if on x": (dict(drift=lambda t, x: x if x[0] > 0 else -x), TypeError, r"drift: .*lax\.cond for `if` on x"),
    "bare raise": (
        dict(drift=no_message),
        TypeError,
        r"drift: .*could not be traced by JAX \(ValueError, in `raise ValueError`, line",
    ),
    "misspelt parameter": (
        dict(drift=lambda t, x, p: p["rat"] * x, diffusion=lambda t, x, p: x[:, None], params={"rate": 1.0}),
        TypeError,
        r"drift: .*KeyError: 'rat'",
    ),
    # shapes
    "drift too long": (
        dict(drift=lambda t, x: jnp.ones(3)),
        ValueError,
        r"drift: returned shape \(3,\), expected \(2,\)",
    ),
    "drift a number": (
        dict(drift=lambda t, x: 1.0),
        ValueError,
        r"drift: returned shape \(\), expected \(2,\), the shape of",
    ),
    "(n,) diffusion": (
        dict(diffusion=lambda t, x: x),
        ValueError,
        r"diffusion: returned shape \(2,\), expected \(2, channels\).*: write \[:, None\] for one channel, sd\.diag",
    ),
    "diffusion transposed": (
        dict(diffusion=lambda t, x: jnp.ones((1, 2))),
        ValueError,
        r"diffusion: returned shape \(1, 2\), expected \(2, channels\), one row per component .*: write \.T",
    ),
    "no channel": (dict(diffusion=lambda t, x: jnp.ones((2, 0))), ValueError, r"diffusion: returned shape \(2, 0\)"),
    "three axes": (
        dict(diffusion=lambda t, x: jnp.ones((2, 1, 1))),
        ValueError,
        r"diffusion: returned shape \(2, 1, 1\)",
    ),
    "scalar start, vector diffusion": (
        dict(start=1.0, diffusion=lambda t, x: jnp.array([x, x])),
        ValueError,
        r"diffusion: returned shape \(2,\) for a scalar start; expected a number.* give start as a vector",
    ),
    # start
    "NaN": (dict(start=[1.0, np.nan]), ValueError, r"start: not finite: \[ 1\. nan\]"),
    "infinite": (dict(start=[np.inf, 1.0]), ValueError, r"start: not finite"),
    "matrix": (dict(start=np.eye(2)), ValueError, r"start: expected a number or a vector, got shape \(2, 2\)"),
    "empty": (dict(start=[]), ValueError, r"start: expected a number or a vector per path, got shape \(0,\)"),
    "word": (
        dict(start="1.5"),
        TypeError,
        r"start: expected a number, a vector, a distr.* start\(rng, size\) .*got '1.5'",
    ),
    "ragged": (dict(start=[1.0, [2.0]]), TypeError, r"start: expected a number, a vector"),
    "complex start": (dict(start=np.array([1j, 0])), TypeError, r"start: expected a number, a vector"),
    "none": (dict(start=None), ValueError, r"start: not finite"),
    "draws are matrices": (
        dict(start=lambda rng, size: np.ones((size, 2, 2))),
        ValueError,
        r"start: expected a number or a vector per path, got shape \(2, 2\)",
    ),
    "draw without size": (dict(start=lambda rng: 1.0), TypeError, r"start: expected a function start\(rng, size\)"),
    "draw of one": (dict(start=lambda rng, size: np.ones(2)), ValueError, r"start: asked for 1 draws .* shape \(2,\)"),
    "draws infinity": (
        dict(start=lambda rng, size: np.full((size, 2), np.inf)),
        ValueError,
        r"start: drew .* not finite",
    ),
    "path without start": (
        dict(start=PerPath([[1.0, 2.0], [np.nan, 2.0], [1.0, 2.0], [1.0, np.inf]])),
        ValueError,
        r"start: not finite for 2 of 4 paths, first for path 1",
    ),
    # params
    "word in params": (dict(params={"kind": "fast"}), TypeError, r"params\['kind'\]: expected numbers.* got 'fast'"),
    "NaN in params": (dict(params=(1.0, [np.nan])), ValueError, r"params\[1\]\[0\]: is NaN"),
    "NaN for a path": (
        dict(params=PerPath([1.0, np.nan])),
        ValueError,
        r"params: is NaN for 1 of 2 paths, first .* path 1",
    ),
    "function in params": (
        dict(params={"f": jnp.sin}),
        TypeError,
        r"params\['f'\]: expected a function .*\(rng, size\)",
    ),
    # words
    "calculus": (dict(calculus="Ito"), ValueError, r"calculus: expected one of \('ito', 'stratonovich'\), got 'Ito'"),
    "structure": (dict(structure="constant"), ValueError, r"structure: expected one of .*'additive'.*, got 'constant'"),
    "one name": (dict(names="ab"), ValueError, r"names: expected 2 different names, one per component, got \('ab',\)"),
    "same names": (dict(names=("a", "a")), ValueError, r"names: expected 2 different names"),
    "numbers as names": (dict(names=(1, 2)), ValueError, r"names: expected 2 different names"),
    "number as names": (dict(names=5), ValueError, r"names: expected 2 different names.* got \(5,\)"),
    "one unit": (dict(units=("m",)), ValueError, r"units: expected one per component, 2 in all, got \('m',\)"),
    "unit of nothing": (
        dict(units={"z": "m"}),
        ValueError,
        r"units: unknown component\(s\) 'z'; the components are x0, x1; 'time' may have a unit too",
    ),
    "number as unit": (dict(units=("m", 3)), ValueError, r"units: expected words such as 'm/s', got"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_do_not_fit_are_named(name):
    options, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        SDE(**(dict(drift=decay, diffusion=ones, start=[1.0, 2.0]) | options))


def test_infinity_may_be_a_parameter():
    """A wall that is nowhere: only NaN is surely a mistake."""
    SDE(lambda t, x, wall: jnp.minimum(-x, wall), lambda t, x, wall: 1.0, 1.0, params=np.inf)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'noise'"):
        SDE(decay, ones, [1.0, 2.0], noise="additive")


def test_checking_a_problem_leaves_the_precision_of_the_session_alone():
    with jax.enable_x64(False):
        problem = SDE(decay, lambda t, x: clock_and_gate(t, x), [1.0, 2.0])
        assert problem.noise_structure.kind == "general"
        assert jnp.zeros(1).dtype == np.float32


def test_functions_that_are_nan_for_some_numbers_are_named_where_paths_fail():
    """A square root of what a step may make negative: not the step is to blame."""
    rooted = SDE(lambda t, x: -x, lambda t, x: jnp.where(x > -1e9, jnp.sqrt(x), 0.0), 0.1)
    with pytest.raises(PathsFailed, match="the diffusion takes a square root, NaN or infinite outside"):
        simulate(rooted, t=(0, 5), dt=0.1, paths=40, seed=1)
    defined = SDE(lambda t, x: -x, lambda t, x: 0.1 * x, 0.1)
    assert describe(defined, None, (0, 1), 0.1, None, "float64").undefined == ""


def test_methods_without_slopes_are_named_where_a_root_is_finite_and_its_slope_is_not():
    guarded = SDE(lambda t, x: 1.0 - x, lambda t, x: 2.8 * jnp.sqrt(jnp.maximum(x, 0.0)), 0.5)
    with pytest.raises(PathsFailed, match="the slope of the root, which is infinite at 0: PlatenWeak2, SRIW1"):
        simulate(guarded, "Milstein", t=(0, 1), dt=1 / 16, paths=100, seed=1)
    simulate(guarded, "PlatenWeak2", t=(0, 1), dt=1 / 16, paths=100, seed=1)


DIRECTED = {
    "constant": (lambda t, x: jnp.sin(t) * jnp.eye(2), ["additive", "diagonal"], True),
    "diagonal": (lambda t, x: jnp.diag(x**2), ["diagonal"], True),
    "foreign diagonal": (lambda t, x: jnp.diag(x[::-1]), [], False),
    "full and constant": (lambda t, x: jnp.ones((2, 2)), ["additive"], True),
    "two fields, one direction": (lambda t, x: jnp.stack([x, -2 * x], axis=1), [], True),
    "clock and gate": (lambda t, x: jnp.array([[1.0, 0.0], [0.0, x[0]]]), [], False),
    "one column": (lambda t, x: jnp.stack([x[:1], jnp.zeros(1)]), [], True),
    "three columns": (lambda t, x: jnp.concatenate([jnp.diag(x), jnp.zeros((2, 1))], axis=1), [], True),
}


@pytest.mark.parametrize("name", DIRECTED)
def test_large_noise_is_looked_at_in_random_directions(name):
    g, kinds, commutes = DIRECTED[name]
    sampled, x = (None, None), np.array([1.0, 2.0])
    with jax.enable_x64(True):
        assert directed_kinds(lambda t, x, p: g(t, x), x, sampled) == kinds
        assert commutes_in_directions(lambda t, x, p: g(t, x), x, sampled) == commutes


def test_directions_are_looked_at_with_the_parameters_of_every_path():
    params = {"a": np.where(np.arange(64) == 40, 1.0, 0.0), "b": 2.0}
    with jax.enable_x64(True):
        found = directed_kinds(lambda t, x, p: jnp.eye(2) + p["a"] * x, np.ones(2), (params, {"a": 0, "b": None}))
    assert found == []


def test_the_structure_of_many_components_is_proved_without_their_matrix():
    n = 200_000
    start = np.ones(n)
    with jax.enable_x64(True):
        found = find_structure(lambda t, x, p: jnp.diag(0.1 * x), start, None)
    assert found.implies("diagonal") and found.known == PROVED


def test_drift_corrections_of_diagonal_noise_are_those_of_any_noise():
    problem = sde(lambda t, x: jnp.diag(jnp.sin(x) * (1 + t)))
    stated = sde(lambda t, x: jnp.diag(jnp.sin(x) * (1 + t)), structure="general")
    x = np.array([0.3, 1.4])
    with jax.enable_x64(True):
        one, other = (to_stratonovich(p).f(0.5, x, None) for p in (problem, stated))
    np.testing.assert_allclose(one, other, rtol=1e-14)


def test_a_start_that_jax_traces_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"start: is a value that JAX is tracing.*stodyn\.path"):
        jax.grad(lambda start: SDE(lambda t, x: -x, lambda t, x: 1.0, start).example_start()[0])(1.0)


def test_the_order_of_elimination_suits_steps_of_all_lengths():
    """Pairs x' = K y, y' = -K (x + y) beside slow components: at slow steps the pivot 1 of x loses all digits to K."""

    def drift(t, x):
        pairs = x[:12].reshape(6, 2)
        return jnp.concatenate([1e12 * jnp.stack([pairs[:, 1], -pairs.sum(axis=1)], axis=1).ravel(), -x[12:]])

    elimination = find_elimination(SDE(drift, None, np.ones(16)))
    place = np.argsort(elimination.rows)
    assert np.all(place[1:12:2] < place[0:12:2])
    assert find_elimination(SDE(decay, None, np.ones(12))) is None  # written out


def shown(t, x):
    jax.debug.print("at {}", t)
    return 2.0 * x


@pytest.mark.parametrize(
    ("function", "depends"),
    [
        (lambda t, x, p: solved(jnp.eye(2) * (1.0 + t), x), True),
        (lambda t, x, p: solved(jnp.eye(2) * jnp.where(t >= 0.0, 1.0, 2.0 + t), x), False),
        (lambda t, x, p: solved(jnp.eye(2), x), False),
        (lambda t, x, p: x * t, True),
        (lambda t, x, p: shown(t, x), False),
    ],
)
def test_dependence_on_time_is_looked_for_where_it_cannot_be_proved(function, depends):
    assert depends_on_time(function, np.array([1.0, 2.0]), None) is depends


@pytest.mark.parametrize("is_one_apart", [False, True])
def test_all_pairs_of_many_channels_are_compared_in_little_memory(is_one_apart):
    """g_k = b_k A x for all channels k commute, until one entry differs; comparing them took 300 MB."""
    n, m, rng = 3, 120, np.random.default_rng(1)
    slopes = np.einsum("il,k->ikl", rng.standard_normal((n, n)), rng.standard_normal(m))
    slopes[0, -1, 1] *= 1.0 + 1e-6 * is_one_apart
    states = rng.standard_normal((CHECKED_STATES, n))
    values, all_slopes = (
        np.einsum("ikl,sl->sik", slopes, states),
        np.broadcast_to(slopes, (CHECKED_STATES, *slopes.shape)),
    )
    tracemalloc.start()
    try:
        assert commutes(values, all_slopes) is not is_one_apart
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


def test_the_slopes_of_many_channels_are_not_compiled(monkeypatch):
    """LLVM took half a minute for a matrix of 10 by 300 sines and its slopes."""
    monkeypatch.setattr(AtPoints, "_compiled", None)
    A = np.random.default_rng(1).standard_normal((10, 110))
    assert (
        sde(lambda t, x: jnp.sin(A * x[:, None] + x.sum()), np.linspace(0.1, 1.0, 10)).noise_structure.kind == "general"
    )
