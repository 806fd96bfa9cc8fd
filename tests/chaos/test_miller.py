"""Pulch's Miller integrator: reference values, theorems, indices of coupled systems, all methods by simulate."""

import os

import numpy as np
import pytest

from stodyn import load, plot, provenance, replay, save, simulate
from stodyn import statistics as st
from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes
from stodyn.methods.expansions import Collocation, Galerkin, Quadrature, Sampling
from stodyn.models.miller_integrator import MILLER_INTEGRATOR
from stodyn.noise.distribution import Normal, Uniform
from stodyn.numerics import radau
from stodyn.problems.random_dae import RandomDAE

T = 1e-6
PROBLEM, STATES = MILLER_INTEGRATOR.problem, MILLER_INTEGRATOR.exact["states"]

# t/T, then mean and standard deviation of u2, u3, j1, j2
REFERENCE = np.array([
    [0.25, 9.1115144248e-1, 1.8242965227, -8.8848557520e-5, -8.5826773375e-5,
     2.5926174930e-2, 1.4494571009e-1, 2.5926174930e-5, 8.4294188370e-6],
    [0.5, 2.8395450271e-1, 5.6478126264e-1, 2.8395450271e-4, 2.8631234316e-4,
     4.0756704512e-2, 6.5378498744e-2, 4.0756704512e-5, 4.3863304044e-5],
    [1.0, -2.8392014576e-1, -5.6471572257e-1, -2.8392014576e-4, -2.8628665567e-4,
     4.0717233495e-2, 6.5313554032e-2, 4.0717233495e-5, 4.3884645508e-5],
    [1.5, 2.8392015669e-1, 5.6471574305e-1, 2.8392015669e-4, 2.8628666289e-4,
     4.0717250392e-2, 6.5313580519e-2, 4.0717250392e-5, 4.3884636452e-5],
    [2.0, -2.8392015668e-1, -5.6471574304e-1, -2.8392015668e-4, -2.8628666289e-4,
     4.0717250383e-2, 6.5313580505e-2, 4.0717250383e-5, 4.3884636457e-5],
    [4.0, -2.8392015668e-1, -5.6471574304e-1, -2.8392015668e-4, -2.8628666289e-4,
     4.0717250383e-2, 6.5313580505e-2, 4.0717250383e-5, 4.3884636457e-5],
])  # fmt: skip


def run(method, steps, every=1, **options):
    return simulate(PROBLEM, method, t=(0.0, 4 * T), dt=4 * T / steps, collect=st.Surrogate(every=every), **options)


def coefficients(method, steps=100, **options):
    return run(method, steps, **options)["coefficient"].values


def exact_coefficients(grid, degree, count=8):
    """In M_degree, from the closed form and a fine Gauss rule."""
    basis, rule = bases.make("total", PROBLEM.distributions, degree), nodes.tensor(PROBLEM.distributions, count)
    phi = basis.evaluate(rule.points) * rule.weights[:, None]
    return np.einsum("kl,tkn->tnl", phi, STATES(grid, rule.points))


def difference(a, b):
    """Relative to the largest value of each component."""
    return np.abs((a - b) / np.abs(b).max(axis=(0, 2), keepdims=True)).max()


def test_the_closed_form_and_quadrature_give_the_reference_values():
    """To all ten digits from the closed form; the run with steps T/800 adds less than one in the ninth."""
    times, rule = REFERENCE[:, 0] * T, nodes.tensor(PROBLEM.distributions, 8)
    x = STATES(times, rule.points)[..., 1:]
    mean = np.einsum("k,tkn->tn", rule.weights, x)
    std = np.sqrt(np.einsum("k,tkn->tn", rule.weights, (x - mean[:, None]) ** 2))
    np.testing.assert_allclose(np.concatenate([mean, std], axis=1), REFERENCE[:, 1:], rtol=3e-11)
    found = simulate(PROBLEM, Quadrature(degree=7, basis="tensor"), t=(0, 4 * T), dt=T / 800,
                     collect=st.Surrogate(at=times.tolist()))  # fmt: skip
    np.testing.assert_allclose(found["mean"].values[:, 1:], REFERENCE[:, 1:5], rtol=1e-9)
    np.testing.assert_allclose(found["std"].values[:, 1:], REFERENCE[:, 5:], rtol=1e-9)
    assert np.all(found["std"].values[:, 0] < 1e-14) and np.all(np.isnan(found["sobol_total"].values[:, 0]))


def test_galerkin_on_the_total_basis():
    """Reference values of M_3, the sparsity of Pulch's Figure 5, the decay of Figure 4, Table 1 as recomputed."""
    for kind, sizes in (("total", (180, 200)), ("tensor", (736, 672))):
        basis = bases.make(kind, PROBLEM.distributions, 3)
        whole = coupled.galerkin(PROBLEM, basis, np.linspace(0.0, 4 * T, 9))
        assert (whole.system.A.nnz, whole.system.B.nnz) == sizes
        assert whole.projection_error == 0.0
    found = run(Galerkin(degree=3), 800)
    one = found.sel(component="u3").isel(time=200)
    assert float(one["mean"]) == pytest.approx(-0.564715724, abs=5e-10)
    assert float(one["std"]) == pytest.approx(0.0653135778, abs=5e-11)
    assert float(found["std"].isel(time=750).sel(component="j2")) == pytest.approx(9.08876735e-6, rel=1e-9)
    degrees = found["degree_in"].values.sum(axis=1)
    exact = np.abs(exact_coefficients(found["time"].values, 3)[:, 2])
    galerkin = np.abs(found["coefficient"].sel(component="u3").values)
    wanted = [1.9069, 0.14373, 6.7150e-3, 7.2223e-4]
    np.testing.assert_allclose([exact[:, degrees == d].max() for d in range(4)], wanted, rtol=3e-5)
    np.testing.assert_allclose([galerkin[:, degrees == d].max() for d in range(4)], wanted, rtol=0.015)
    told = provenance(found)
    assert told["solved"] == "coupled, 100 unknowns" and told["coupled_index"].startswith("index 2,")
    assert told["structure"] == {"mass": "affine", "matrix": "affine"} and told["start"] == "consistent"
    steps, grid = 200, np.linspace(0.0, 4 * T, 201)
    exact = exact_coefficients(grid, 3)
    errors = np.abs(coefficients(Galerkin(degree=3), steps) - exact).max(axis=(0, 2))
    assert errors[0] < 1e-14
    np.testing.assert_allclose(errors[1:], [6.4e-6, 1.7e-5, 6.4e-9, 2.2e-8], rtol=0.05)
    errors = np.abs(coefficients(Quadrature(degree=3, nodes=4), steps) - exact).max(axis=(0, 2))
    np.testing.assert_allclose(errors[1:], [2.7e-7, 8.3e-7, 2.7e-10, 1.2e-9], rtol=0.15)


def test_the_estimate_from_the_decay_is_near_what_is_left_out():
    """RMS of the terms of degree 4 to 7, per component, against the estimate from degrees up to 3: a factor of 3."""
    grid = np.linspace(0.0, 4 * T, 201)
    full, low = exact_coefficients(grid, 7, 12), run(Galerkin(degree=3), 200)
    left = np.sqrt(np.sum(full[:, :, 20:] ** 2, axis=2)).max(axis=0)[1:]
    estimated = low["truncation"].values.max(axis=0)[1:]
    assert np.all(estimated > left / 3.0) and np.all(estimated < 3.0 * left)


def test_theorems_and_corollaries():
    """Collocation = quadrature (Theorem 1) = Galerkin (Theorem 2, Corollary 1) on N_R, also after discretisation in
    time: below 1e-13. On M_R, and for a matrix outside N_1, they differ.
    """
    grid = np.linspace(0.0, 4 * T, 101)
    for R in (1, 2, 3) if "STODYN_FULL" in os.environ else (1, 2):
        basis = bases.make("tensor", PROBLEM.distributions, R)
        rule = nodes.tensor(PROBLEM.distributions, R + 1)
        C = basis.evaluate(rule.points)
        assert np.abs(C.T @ (rule.weights[:, None] * C) - np.eye(len(basis))).max() < 1e-14
        quadrature = coefficients(Quadrature(degree=R, basis="tensor"))
        assert difference(coefficients(Collocation(degree=R)), quadrature) < 1e-13
        decoupled = run(Galerkin(degree=R, basis="tensor"), 100)
        assert difference(decoupled["coefficient"].values, quadrature) < 1e-13
        assert provenance(decoupled)["solved"].startswith(f"decoupled at {R + 1}^3 Gauss nodes: mass is affine")
        whole = coupled.galerkin(PROBLEM, basis, grid)
        states = radau.prescribed(whole.system, grid, whole.start)[0][:, 0].reshape(101, len(basis), 5)
        assert difference(np.moveaxis(states, 1, 2), quadrature) < 1e-13
        on_total = coefficients(Galerkin(degree=R)) - coefficients(Quadrature(degree=R))
        off = np.abs(on_total / np.abs(quadrature).max(axis=(0, 2))[:, None]).max()
        assert off == pytest.approx({1: 1.3e-3, 2: 2.2e-4, 3: 5.8e-5}[R], rel=0.25)
    both = [coefficients(Collocation(degree=1, coupled=c)) for c in (True, False)]
    assert difference(*both) < 1e-13


@pytest.mark.filterwarnings("ignore:degree")  # of the short expansion of a rough system
def test_theorem_two_needs_its_hypothesis():
    """A random multi-affine pencil: Galerkin = quadrature on N_R; with a p² term they differ."""
    rng = np.random.default_rng(6)
    A0, A1, B0, B1, B2, B12 = rng.standard_normal((6, 4, 4))
    laws = {"p": Uniform(-1.0, 1.0), "q": Uniform(-1.0, 1.0)}

    def problem(square):
        return RandomDAE(
            lambda p: 5.0 * np.diag([1.0, 1, 1, 0]) + 0.3 * np.diag([1.0, 1, 1, 0]) @ (A0 + p["p"] * A1),
            matrix=lambda p: -(6.0 * np.eye(4) + B0 + 0.3 * (p["p"] * B1 + p["q"] * B2 + p["p"] * p["q"] * B12)
                               + square * 0.3 * p["p"] ** 2 * B1),
            source=lambda t, p: [np.sin(t), p["q"], 0.0, 0.0], params=laws, start=lambda p: [0.0, 1.0, p["p"], 0.0],
        )  # fmt: skip

    for square, low, high in ((0.0, 0.0, 1e-13), (1.0, 1e-6, 1.0)):
        options = {"t": (0.0, 2.0), "dt": 0.1, "collect": st.Surrogate(every=1)}
        a = simulate(problem(square), Quadrature(degree=2, basis="tensor", diagnose=False), **options)
        b = simulate(problem(square), Galerkin(degree=2, basis="tensor", diagnose=False), **options)
        assert low <= difference(b["coefficient"].values, a["coefficient"].values) <= high
        assert provenance(b)["solved"].startswith("coupled" if square else "decoupled")


def test_the_remark_on_the_basis_of_degree_one():
    """M_1, Q = 3: with the degree-2 rule of four nodes Theorem 1 holds; Galerkin differs, as the T_q do not commute."""
    signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3.0)
    scale = np.array([0.5 * (law.high - law.low) for law in PROBLEM.distributions])
    points = PROBLEM.center + signs * scale
    basis = bases.make("total", PROBLEM.distributions, 1)
    collocated = coefficients(Collocation(degree=1, basis="total", points=points))
    states = radau.prescribed(PROBLEM.systems.system(points, np.linspace(0, 4 * T, 101)), np.linspace(0, 4 * T, 101),
                              PROBLEM.systems.starts(points))[0]  # fmt: skip
    by_rule = np.einsum("kl,tkn->tnl", basis.evaluate(points) / 4.0, states)
    assert difference(collocated, by_rule) < 1e-13
    assert difference(coefficients(Galerkin(degree=1)), by_rule) == pytest.approx(1.3e-2, rel=0.3)
    unit = bases.make("total", (Uniform(-1.0, 1.0),) * 3, 1)
    T1, T2 = (unit.product((j,)).toarray() for j in (0, 1))
    assert np.linalg.norm(T1 @ T2 - T2 @ T1, 2) == pytest.approx(1.0 / 3.0, rel=1e-12)


def test_indices_of_the_coupled_systems():
    """Index 2 on M_1, ..., M_4 and N_1, ..., N_3 (Corollary 3), and of collocation (Corollary 2)."""
    grid = np.linspace(0.0, 4 * T, 9)
    for kind, degrees in (("total", (1, 2, 3, 4)), ("tensor", (1, 2, 3))):
        for R in degrees:
            basis = bases.make(kind, PROBLEM.distributions, R)
            found = coupled.galerkin(PROBLEM, basis, grid).pencil()
            assert (found.index, found.nilpotency, found.freedom) == (2, 2, len(basis)), (kind, R)
    basis = bases.make("tensor", PROBLEM.distributions, 1)
    found = coupled.collocation(PROBLEM, basis, coupled.collocation_points(basis), grid).pencil()
    assert (found.index, found.nilpotency, found.freedom) == (2, 2, 8)


def test_every_method_agrees_and_returns_the_same_variables():
    exact, sizes = exact_coefficients(np.array([T]), 3)[0], None
    for method, slack in [
        (Galerkin(degree=3), 3e-5),
        (Quadrature(degree=3, grid="smolyak"), 3e-5),
        (Quadrature(degree=3, rtol=1e-6), 3e-5),
        (Collocation(degree=3, basis="total"), 3e-3),
        (Sampling(degree=3, samples=128, fit="regression"), 3e-4),
        (Sampling(degree=3, samples=4096), 3e-3),
        (Sampling(degree=3, samples=4096, points="random"), 0.2),
    ]:
        found = simulate(PROBLEM, method, t=(0, T), dt=T / 50, seed=1, collect=st.Surrogate(at=[T]))
        off = np.abs(found["coefficient"].values[0] - exact) / np.abs(exact).max(axis=1, keepdims=True)
        assert off[1:].max() < slack, method.spelling
        names = set(found.variables) - {"left_out", "mean_stderr", "variance_stderr", "std_stderr"}
        names -= {"mean_error", "std_error"}  # the errors of the others
        assert sizes in (None, names)
        sizes = names
    assert simulate(PROBLEM, t=(0, T), dt=T / 50).attrs["provenance"].count("Galerkin(")


def test_a_run_is_saved_drawn_and_cannot_be_replayed(tmp_path):
    found = simulate(PROBLEM, Galerkin(degree=2, diagnose=False), t=(0, T), dt=T / 20, collect=st.Surrogate(density=5))
    save(found, tmp_path / "run.nc")
    assert load(tmp_path / "run.nc").equals(found)
    ax = plot.band(found, "u3")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found["mean"].sel(component="u3"))
    with pytest.raises(ValueError, match="which has no paths to replay"):
        replay(PROBLEM, Galerkin(degree=2, diagnose=False), found, 0)


BAD = [
    (PROBLEM, Galerkin, {"paths": 10}, "paths: Galerkin expands in the random parameters and makes no paths"),
    (PROBLEM, Sampling, {}, "seed: Sampling draws its points"),
    (PROBLEM, Sampling, {"seed": -1}, "seed: expected a whole number >= 0, such as seed=1, got -1"),
    (PROBLEM, Galerkin, {"collect": st.Moments()}, "collect: Galerkin gives an expansion, not paths"),
    (PROBLEM, "Radau5", {"paths": 4, "seed": 1, "collect": st.Surrogate()}, "collect: Surrogate describes expansions"),
    (PROBLEM, Quadrature(grid="cube"), {}, 'grid: expected "tensor" or "smolyak"'),
    (PROBLEM, Quadrature(nodes=0), {}, "nodes: expected a whole number >= 1, got 0"),
    (PROBLEM, Sampling(samples=1), {"seed": 1}, "samples: expected a whole number >= 2"),
    (PROBLEM, Sampling(fit="guess"), {"seed": 1}, "points, fit: expected"),
    (MILLER_INTEGRATOR(a=2.9).problem, Galerkin, {},
     r"params: the index of the system changes inside the domain .* index 2 at the means but index 3"),
    (RandomDAE([[1.0]], matrix=[[1.0]], start=[0.0]), Galerkin, {}, "expands in random parameters, but this"),
    (RandomDAE(lambda p: np.diag([p["a"], 0]), matrix=np.diag([-1.0, 0]), params={"a": Normal(1, 0.1)}, start=[0.0, 0]),
     Galerkin, {},
     "the pencil is singular"),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "method", "options", "words"), BAD, ids=[words[:30] for *_, words in BAD])
def test_wrong_arguments_are_named_with_what_is_expected(problem, method, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        simulate(problem, method, t=(0, T), dt=T / 10, **options)
