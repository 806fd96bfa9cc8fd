"""RandomDAE: structure found by interpolation, the index over the domain, starts, and bad input."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import stodyn as sd
from stodyn import simulate, sweep
from stodyn.methods.radau import states_at
from stodyn.models.miller_integrator import MILLER_INTEGRATOR
from stodyn.noise.distribution import Normal, Uniform
from stodyn.noise.source import PerPath
from stodyn.problems import domain_index, multiaffine
from stodyn.problems.random_dae import RandomDAE
from stodyn.problems.random_start import check_start, derivatives
from stodyn.statistics.surrogate import Surrogate

TWO = {"p": Uniform(1.0, 3.0), "q": Normal(0.0, 1.0)}


def with_matrices(mass, matrix, source=None, params=TWO, start=(0.0, 0.0)):
    return RandomDAE(mass, matrix=matrix, source=source, params=params, start=start)


def test_fixed_params_stand_beside_random_ones_and_problems_keep_what_they_were_given():
    """τ u' = g - u with τ random and g fixed: only τ is expanded, E u(1) = g ∫ (1 - exp(-1/τ)) dτ; a sweep over g."""
    given = {"tau": scipy.stats.uniform(0.5, 1.0), "g": 2.0}
    problem = RandomDAE(
        lambda p: [[p["tau"]]], matrix=[[-1.0]], source=lambda t, p: [p["g"]], params=given, start=[0.0]
    )
    assert problem.parameters == ("tau",) and problem.params is given
    exact = scipy.integrate.quad(lambda tau: 1.0 - np.exp(-1.0 / tau), 0.5, 1.5)[0]
    grid = {"t": (0.0, 1.0), "dt": 0.05, "seed": 1}
    expanded = sweep(problem, "Galerkin", over={"g": [1.0, 2.0]}, collect=Surrogate(at=[1.0]), **grid)
    np.testing.assert_allclose(expanded["mean"].values[:, 0, 0], exact * np.array([1.0, 2.0]), rtol=1e-4)
    sampled = sweep(problem, "Radau3", over={"g": [1.0, 2.0]}, paths=50, **grid)
    np.testing.assert_allclose(sampled["mean"].values[1], 2.0 * sampled["mean"].values[0], rtol=1e-12)
    nonlinear = RandomDAE([[1.0]], lambda t, x, p: p["g"] * (1.0 - p["tau"] * x), [0.0], given)
    at_mean = states_at(nonlinear, nonlinear.center[None], np.linspace(0.0, 1.0, 21))[-1, 0, 0]
    assert at_mean == pytest.approx(1.0 - np.exp(-2.0), rel=1e-6)


@pytest.mark.parametrize("names", [("p",), ("p", "q", "r")])
@pytest.mark.parametrize("share", [0.02, 0.14, 0.35, 0.6, 0.86, 0.98])
def test_matrices_that_bend_anywhere_are_not_taken_for_affine(share, names):
    laws = dict.fromkeys(names, scipy.stats.norm(1.0, 0.1))
    bend = scipy.stats.norm(1.0, 0.1).ppf(share)
    for name in names:
        for bent in (np.maximum, np.minimum):
            problem = with_matrices(
                [[1.0]], lambda p, n=name, b=bent: [[-1.0 - b(p[n] - bend, 0.0)]], params=laws, start=[0.0]
            )
            assert problem.structure["matrix"] == "general"


def test_structure_is_found():
    fixed = np.diag([1.0, 0.0])
    cases = {
        "constant": lambda p: fixed,
        "affine": lambda p: np.array([[p["p"], 1.0 - p["q"]], [0.0, 3.0 * p["p"] + p["q"]]]),
        "multi-affine": lambda p: np.array([[p["p"] * p["q"], p["q"]], [1.0, p["p"]]]),
        "general": lambda p: np.array([[p["p"] ** 2, p["q"]], [1.0, 1.0]]),
    }
    for kind, matrix in cases.items():
        for form in (np.asarray, scipy.sparse.csr_array):
            problem = with_matrices(fixed, lambda p, matrix=matrix, form=form: form(matrix(p)))
            assert problem.structure == {"mass": "constant", "matrix": kind}
            nodes = np.random.default_rng(0).uniform(1.0, 2.0, (5, 2))
            values = np.stack([matrix({"p": p, "q": q}) for p, q in nodes])
            np.testing.assert_allclose(problem.systems.matrices(nodes), values, rtol=1e-13, atol=1e-13)
    terms = with_matrices(fixed, cases["multi-affine"]).dependence.matrix_terms.terms
    np.testing.assert_allclose(terms[0, 1].toarray(), [[1.0, 0.0], [0.0, 0.0]], atol=1e-14)
    np.testing.assert_allclose(terms[0,].toarray(), [[0.0, 0.0], [0.0, 1.0]], atol=1e-14)


def test_interactions_of_three_parameters_around_zero_are_found():
    """p q r around 0 shows no pair: all subsets are looked at."""
    three = {name: Uniform(-1.0, 1.0) for name in "pqr"}
    problem = with_matrices([[1.0]], lambda p: [[2.0 + p["p"] * p["q"] * p["r"]]], params=three, start=[0.0])
    assert problem.structure["matrix"] == "multi-affine"
    assert set(problem.dependence.matrix_terms.terms) == {(), (0, 1, 2)}


def test_sources_are_expanded_in_the_parameters_they_depend_on():
    times = np.linspace(0.0, 1.0, 11)
    nodes = np.array([[1.0, 0.5], [2.0, -1.0]])
    for source, sets in [
        (lambda t, p: [np.sin(t), 1.0], [()]),
        (lambda t, p: [p["p"] * np.sin(t), p["q"]], [(), (0,), (1,)]),
        (lambda t, p: [np.sin(p["p"] * t), 0.0], None),
    ]:
        problem = with_matrices(np.eye(2), np.eye(2), source)
        assert problem.dependence.source_terms(times) == sets
        found = problem.systems.forcing(nodes, times).values(times)
        wanted = np.array([[source(t, {"p": p, "q": q}) for p, q in nodes] for t in times])
        wanted = wanted[:, 0] if sets == [()] else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", ["Quadrature", "Galerkin"])
def test_a_source_with_parameters_in_a_short_pulse_alone(method):
    """x' = p q + (h² for 0.3 <= t < 0.4): E x(1) = 0.1/3, Var x(1) = 1/9 + 0.1² · 4/45; no even look sees the pulse."""

    def source(t, p):
        return [p["p"] * p["q"] + (p["h"] ** 2 if 0.3 <= t < 0.4 else 0.0)]

    laws = {"p": Uniform(-1.0, 1.0), "q": Uniform(-1.0, 1.0), "h": Uniform(0.0, 1.0)}
    problem = with_matrices([[1.0]], [[0.0]], source, laws, [0.0])
    assert problem.dependence.source_terms(np.linspace(0.0, 1.0, 51)) is None
    assert problem.dependence.source_terms(np.linspace(0.0, 0.2, 51)) == [(), (0, 1)]
    method = sd.method(method)(degree=2)  # the solution is a polynomial of degree two
    with pytest.warns(UserWarning, match="do not decay"):  # that there is no degree three cannot be known
        run = simulate(problem, method, t=(0.0, 1.0), dt=0.02, collect=Surrogate(every=50))
        early = simulate(problem, method, t=(0.0, 0.2), dt=0.02, collect=Surrogate(every=10))
    np.testing.assert_allclose(run["mean"].values[-1], 0.1 / 3.0, rtol=1e-11)
    np.testing.assert_allclose(run["variance"].values[-1], 1.0 / 9.0 + 0.01 * 4.0 / 45.0, rtol=1e-11)
    np.testing.assert_allclose(early["variance"].values[-1], 0.04 / 9.0, rtol=1e-11)


def test_the_index_over_the_domain_and_the_surface_where_it_changes():
    """The Miller integrator has index 3 on a = 1 + C1/C2, a surface that no sample hits."""
    inside = MILLER_INTEGRATOR.problem.domain_index
    assert inside.index == 2 and np.all(inside.indices == 2)
    assert "least clear at a = 2.2, C1 = 9e-11, C2 = 5.5e-11" in inside.words
    across = MILLER_INTEGRATOR(a=2.9).problem.domain_index
    assert across.index is None
    at = across.where
    assert at["a"] == pytest.approx(1.0 + at["C1"] / at["C2"], rel=1e-8)
    assert across.indices.max() == 3


def test_starts_are_consistent_corrected_or_refused():
    """Consistent ones pass; one that the first step corrects is told; one with an impulse is refused."""
    problem = MILLER_INTEGRATOR.problem
    assert check_start(problem, 0.0, 1e-8) == "consistent"
    wrong = dataclasses.replace(problem, start=[0.0, 0.1, 0.2, 1e-4, 0.0])
    assert check_start(wrong, 0.0, 1e-8) == "the first step moves j2 by 0.0001; nothing else changes"
    charged = dataclasses.replace(problem, start=[0.0, 0.1, 0.0, 0.0, 0.0])
    with pytest.raises(
        ValueError, match=r"start: does not satisfy .*u2 by 0\.2, u3 by 0\.6.*impulses \(j2: -2e-11 δ\(t\)\)"
    ):
        check_start(charged, 0.0, 1e-8)
    mended = charged.consistent(0.0, 1e-8)
    assert check_start(mended, 0.0, 1e-8) == "consistent"
    np.testing.assert_allclose(mended.systems.starts(problem.center[None])[0], [0.0, 0.3, 0.6, 3e-4, 3e-4], atol=1e-13)
    other = np.array([[2.1, 1e-10, 5e-11]])
    u2 = 1.5e-11 / (1e-10 - 1.1 * 5e-11)
    np.testing.assert_allclose(mended.systems.starts(other)[0, 1:3], [u2, 2.1 * u2], rtol=1e-9)


def test_the_integrator_shows_the_impulse():
    """From the inconsistent start j2 is of the size 1/h in the first step, and u2 at the value it jumps to."""
    problem = MILLER_INTEGRATOR.problem
    charged = dataclasses.replace(problem, start=[0.0, 0.1, 0.0, 0.0, 0.0])
    for steps, current in ((400, -5.81e-3), (800, -1.18e-2)):
        states = states_at(charged, problem.center[None], np.linspace(0.0, 4e-6, steps + 1))[:, 0]
        assert states[1, 4] == pytest.approx(current, rel=5e-3)
        assert states[1, 1] == pytest.approx(0.3, abs=0.1)
    with pytest.raises(ValueError, match="show impulses"):
        simulate(charged, "Radau5", t=(0.0, 4e-6), dt=1e-8, paths=2, seed=0)


def test_sparse_and_dense_systems_of_a_nonlinear_drift_are_the_same():
    """At any time, state and parameters; fixed ones stand beside random ones."""

    def drift(t, x, p):
        return p["a"] * jnp.roll(x, 1).at[0].set(t) ** 2 - p["b"] * x * jnp.cos(t)

    problem = RandomDAE(np.diag(np.arange(1.0, 7.0)), drift, np.zeros(6), {"a": Uniform(0.5, 2.0), "b": 3.0})
    node, times, x = np.array([1.7]), np.linspace(0.0, 1.0, 3), np.linspace(-1.0, 2.0, 6)[None]
    sparse, dense = problem.systems.sparse_system(node, times), problem.systems.system(node[None], times)
    slopes = np.diag(-3.0 * np.cos(0.8) * np.ones(6)) + np.diag(2 * 1.7 * x[0, :-1], -1)
    np.testing.assert_allclose(sparse.jacobian(0.8, x).toarray(), slopes, rtol=1e-14)
    np.testing.assert_allclose(dense.jacobian(0.8, x), slopes[None], rtol=1e-14, atol=1e-15)
    assert sparse.jacobian(0.8, x).nnz == 11 and not problem.systems.is_sparse


def test_derivatives_from_values():
    found = derivatives(lambda t: np.array([np.sin(3.0 * t), np.exp(t)]), 0.5, 0.2, 3)
    exact = [[np.sin(1.5), np.exp(0.5)], [3 * np.cos(1.5), np.exp(0.5)], [-9 * np.sin(1.5), np.exp(0.5)]]
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def square(p):
    return np.eye(2)


def unfulfilled(t, x):
    return jnp.stack([x[1], x[0] - 1.0])


BAD = [
    (lambda: RandomDAE(np.eye(2), params=TWO, start=[0, 0]), "drift, matrix: give one of them"),
    (lambda: RandomDAE(np.ones((2, 3)), matrix=np.eye(2), start=[0, 0]), r"mass: expected a square matrix, got"),
    (lambda: with_matrices(square, np.eye(3)), "matrix: expected 2 rows, as mass has"),
    (lambda: with_matrices(square, np.full((2, 2), np.inf)), "matrix: has entries that are not finite"),
    (lambda: with_matrices(square, np.eye(2), lambda t, p: [1.0]), "source: expected 2 numbers"),
    (lambda: with_matrices(square, np.eye(2), lambda: [1.0, 1.0]), r"source: must take source\(t\) or source\(t, par"),
    (lambda: with_matrices(lambda p: p["Tau"] * np.eye(2), np.eye(2)),
     r"mass: mass\(p\) failed at the mean parameters \(KeyError: 'Tau', in .*'Tau'\. It has 'p', 'q'"),
    (lambda: with_matrices(square, lambda p: p[0] * np.eye(2)), r"matrix: matrix\(p\) failed .* no entry 0\. It has"),
    (lambda: RandomDAE(np.diag([1.0, 0]), matrix=np.diag([1.0, 0]), start=[0, 0], names=("u", "w")).pencil_at(),
     "the equations do not determine w. Look"),
    (lambda: with_matrices(square, np.eye(2), start=[0.0]), "start: expected 2 numbers"),
    (lambda: with_matrices(square, np.eye(2), start=None), "start: missing; give 2 initial values"),
    (lambda: with_matrices(square, np.eye(2), params=[1.0]), "params: expected a mapping name -> distribution"),
    (lambda: with_matrices(square, np.eye(2), params={("a", "b"): scipy.stats.multivariate_normal([0, 0])}),
     "not the name of a single parameter.* write dependent ones as functions of independent ones"),
    (lambda: with_matrices(square, np.eye(2), params={"a": lambda: 1.0}), r"params\['a'\]: expected a distribution"),
    (lambda: with_matrices(square, np.eye(2), params={"a": np.nan}), r"params\['a'\]: is NaN"),
    (lambda: with_matrices(square, np.eye(2), params={"a": PerPath([1.0, 2.0])}), r"params\['a'\]: got PerPath values"),
    (lambda: RandomDAE([[1.0]], [[1.0]], start=[0]), r"drift: expected a function .* For M x' = A x: matrix=A"),
    (lambda: RandomDAE(np.eye(2), lambda t, x: x[:1], [0, 0]), "drift: returned shape"),
    (lambda: RandomDAE(np.eye(1), lambda t, x: x, [0], source=[1.0]), "source: belongs to the linear form"),
    (lambda: RandomDAE(np.eye(1), matrix=np.eye(1), start=[0], kinks={"p": [0.0]}), "kinks: 'p' is not a random par"),
    (lambda: RandomDAE(np.eye(1), matrix=np.eye(1), start=[0], params={"p": Uniform(0, 1)}, kinks={"p": [2.0]}),
     r"kinks\['p'\]: 2 lies outside the values of p, from 0 to 1"),
    (lambda: RandomDAE(np.eye(1), matrix=np.eye(1), start=[0], params={"p": Uniform(0, 1)}, kinks={"p": 0.5}),
     r"kinks\['p'\]: expected a list of numbers, got 0.5"),
    (lambda: RandomDAE(np.eye(1), matrix=lambda p: [[1.0 / p["p"]]], start=[0], params={"p": Normal(0, 1)}),
     "matrix: ZeroDivisionError: .* at the mean parameters p = 0.0"),
    (lambda: check_start(RandomDAE(np.diag([1.0, 0]), unfulfilled, [0, 0]), 0.0, 1.0),
     "start: the algebraic equations have the residuals"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_arguments_that_do_not_fit_are_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.parametrize("power", [1, 2, 4])
def test_an_index_that_changes_inside_the_domain_is_found_whatever_its_order(power):
    """0 = -x₁ + (c - 0.3127)^k x₂ loses its index at one c; for even k the determinant keeps its sign on both sides."""

    def matrix(p):
        return -jnp.array([[1.0, 0.0], [-1.0, (p["c"] - 0.3127) ** power]])

    problem = with_matrices(np.diag([1.0, 0.0]), matrix, lambda t, p: jnp.zeros(2), {"c": scipy.stats.uniform(-1, 2)})
    found = problem.domain_index
    assert found.index is None and found.where["c"] == pytest.approx(0.3127, abs=1e-2)


def test_the_surface_between_two_places_is_found_by_bisection():
    """Where 0 = -x₁ + (c - 0.3127) x₂ loses its index, between c = -0.9 and c = 0.8."""

    def matrix(p):
        return np.array([[-1.0, 0.0], [1.0, 0.3127 - p["c"]]])

    problem = with_matrices(np.diag([1.0, 0.0]), matrix, params={"c": Uniform(-1.0, 1.0)})
    scaling = problem.pencil_at().scaling
    leading = problem.pencil_at(np.array([-0.9]), scaling=scaling).leading
    found = domain_index._surface(problem, scaling, np.array([-0.9]), np.array([0.8]), leading)
    np.testing.assert_allclose(found, [0.3127], rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_parameters_that_change_nothing_are_left_out(form):
    """One entry of the matrix changes with the first of two parameters; a zero stays a zero."""
    tests = np.array([[1.0, 5.0], [-1.0, 4.0], [3.0, -4.0]])

    def at(p):
        return form(np.array([[p[0], 7.0], [0.0, 2.0]]))

    depends = [multiaffine._depends(at, np.array([2.0, 0.5]), tests, i) for i in (0, 1)]
    assert depends == [True, False]


def test_small_matrices_are_not_taken_for_affine_ones():
    """The curvature of 0.01 p² is beyond rounding, however small its values are beside 1."""
    problem = with_matrices(np.eye(2), lambda p: 0.01 * np.array([[p["p"] ** 2, p["q"]], [1.0, 1.0]]))
    assert problem.structure["matrix"] == "general"
    assert multiaffine._near(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2)))


def test_corners_of_many_parameters_are_taken_one_at_a_time():
    """Of up to four all of them, after the means; ends of infinite supports at probability 1e-3."""
    for count in (2, 5):
        laws = {f"p{i}": Uniform(0.0, i + 1.0) if i else Normal(0.0, 1.0) for i in range(count)}
        problem = with_matrices([[1.0]], lambda p: [[p["p0"]]], params=laws, start=[0.0])
        ends = [
            (scipy.stats.norm.ppf(1e-3), scipy.stats.norm.ppf(1.0 - 1e-3)),
            *((0.0, i + 1.0) for i in range(1, count)),
        ]
        found = domain_index._domain(problem, 8)
        assert len(found) == 1 + (4 if count == 2 else 10) + 7
        np.testing.assert_allclose(found[0], problem.center)
        corners = [[a, b] for a in ends[0] for b in ends[1]] if count == 2 else np.tile(problem.center, (10, 1))
        for i, pair in enumerate(ends if count == 5 else ()):
            corners[2 * i : 2 * i + 2, i] = pair
        np.testing.assert_allclose(found[1 : 1 + len(corners)], corners, rtol=1e-12)


@pytest.mark.parametrize(("count", "name"), [(0, "Radau5"), (1, "Quadrature"), (4, "Quadrature"), (5, "Sampling")])
def test_the_method_for_nonlinear_equations_follows_from_the_number_of_parameters(count, name):
    laws = {f"p{i}": Uniform(0.5, 1.0) for i in range(count)} or None
    problem = RandomDAE([[1.0]], lambda t, x, *p: -(x**2), [1.0], laws)
    assert problem.recommended.method == name


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_the_size_of_entries_is_the_largest_of_all_values(form):
    values = np.random.default_rng(1).uniform(size=(3, 2, 2))
    found = multiaffine._largest([form(value) for value in values])
    np.testing.assert_array_equal(found.toarray() if form is not np.asarray else found, values.max(axis=0))


def test_functions_written_with_jax_give_all_digits_in_a_session_of_float32():
    def matrix(p):
        return jnp.array([[-p["p"] / 3.0, 0.0], [0.1, -p["q"] - 4.0]])

    with jax.enable_x64(False):
        problem = with_matrices(
            lambda p: jnp.eye(2) / 3.0,
            matrix,
            lambda t, p: jnp.array([t / 3.0, 0.1]),
            start=lambda p: p["p"] * jnp.ones(2) / 7.0,
        )
        at, times = np.array([[2.1, 0.3]]), np.array([0.1, 0.7])
        systems = problem.systems
        values = systems.masses(at), systems.matrices(at), systems.starts(at), systems.forcing(at, times).values(times)
        assert problem.structure == {"mass": "constant", "matrix": "affine"}
    np.testing.assert_allclose(values[0][0], np.eye(2) / 3.0, rtol=1e-15)
    np.testing.assert_allclose(values[1][0], [[-0.7, 0.0], [0.1, -4.3]], rtol=1e-15)
    np.testing.assert_allclose(values[2][0], [0.3, 0.3], rtol=1e-15)
    np.testing.assert_allclose(np.reshape(values[3], (2, 2)), [[0.1 / 3.0, 0.1], [0.7 / 3.0, 0.1]], rtol=1e-15)


@pytest.mark.parametrize("kind", ["fixed", "affine", "general"])
def test_functions_of_jax_are_called_a_few_times_only(kind):
    """Each call of an operation of JAX takes long by itself: at 11 times and 4 nodes they are computed at once, to the
    same digits as those of Python."""
    calls = []

    def source(sin):
        def value(t, p):
            calls.append(t)
            return [{"fixed": sin(t), "affine": p["a"] * sin(t), "general": sin(p["a"] * t)}[kind]]

        return value

    runs = []
    for sin in (np.sin, jnp.sin):
        calls.clear()
        problem = RandomDAE([[1.0]], matrix=[[-1.0]], source=source(sin), start=[0.0], params={"a": Uniform(0.5, 1.5)})
        runs.append(sd.simulate(problem, "Quadrature", t=(0, 1), dt=0.1))
    assert len(calls) < 30
    assert np.allclose(runs[0]["mean"], runs[1]["mean"], rtol=1e-12, atol=1e-14)


def test_functions_of_jax_that_cannot_be_traced_are_called_as_they_are():
    source = lambda t, p: jnp.array([float(p["a"]) * t])  # noqa: E731
    problem = RandomDAE([[1.0]], matrix=[[-1.0]], source=source, start=[0.0], params={"a": Uniform(0.5, 1.5)})
    mean = sd.simulate(problem, "Quadrature", t=(0, 1), dt=0.1)["mean"].values[-1, 0]
    assert mean == pytest.approx(np.exp(-1.0), rel=1e-6)
