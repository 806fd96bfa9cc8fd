"""Bases, their product matrices from recurrences, grids and regression."""

import itertools
import math
import types

import numpy as np
import pytest

from stodyn.chaos import basis as bases
from stodyn.chaos import coupled, nodes, regression
from stodyn.noise.distribution import Beta, Exponential, Normal, Uniform

LAWS = (Uniform(1.0, 3.0), Normal(0.5, 2.0), Exponential(0.7), Beta(2.0, 3.0))


@pytest.mark.parametrize("kind", bases.KINDS)
@pytest.mark.parametrize(("Q", "R"), [(1, 4), (3, 3), (4, 2)])
def test_the_indices_are_the_definition(kind, Q, R):
    basis = bases.make(kind, LAWS[:Q], R)
    allowed = {
        "total": lambda i: sum(i) <= R,
        "tensor": lambda i: max(i) <= R,
        "cross": lambda i: math.prod(k + 1 for k in i) <= R + 1,
    }[kind]
    wanted = {i for i in itertools.product(range(R + 1), repeat=Q) if allowed(i)}
    assert set(map(tuple, basis.indices.tolist())) == wanted
    assert len(basis) == len(wanted) == bases.size(kind, Q, R)
    assert not basis.indices[0].any() and np.all(np.diff(basis.indices.sum(axis=1)) >= 0)


@pytest.mark.parametrize("kind", bases.KINDS)
def test_orthonormal_and_products_from_recurrences_equal_quadrature(kind):
    basis, grid = bases.make(kind, LAWS, 2), nodes.tensor(LAWS, 5)
    phi = basis.evaluate(grid.points)
    np.testing.assert_allclose(phi.T @ (grid.weights[:, None] * phi), np.eye(len(basis)), atol=1e-12)
    center = np.array([law.mean for law in LAWS])
    for S in ((), (0,), (2,), (1, 3), (0, 1, 2, 3)):
        product = (grid.points - center)[:, list(S)].prod(axis=1)
        wanted = phi.T @ ((grid.weights * product)[:, None] * phi)
        np.testing.assert_allclose(basis.product(S).toarray(), wanted, atol=1e-11)
    legendre = bases.make("total", LAWS[:1], 5).product((0,)).toarray()
    n = np.arange(1, 6)
    np.testing.assert_allclose(np.diagonal(legendre, 1), n / np.sqrt(4 * n**2 - 1), rtol=1e-14)


def test_grids_integrate_what_they_promise():
    """Tensor Gauss: degree 2K - 1 in each parameter; Smolyak level L: total degree 2L + 1."""
    laws = LAWS[:3]
    for grid, exponents in [
        (nodes.tensor(laws, 3), itertools.product(range(6), repeat=3)),
        (nodes.smolyak(laws, 3), (e for e in itertools.product(range(8), repeat=3) if sum(e) <= 7)),
    ]:
        assert grid.weights.sum() == pytest.approx(1.0, rel=1e-12)
        for e in exponents:
            exact = math.prod(law.moment(k) for law, k in zip(laws, e, strict=True))
            terms = grid.weights * np.prod(grid.points ** np.array(e), axis=1)
            assert terms.sum() == pytest.approx(exact, rel=1e-9, abs=1e-12 * np.abs(terms).sum())
    assert len(nodes.smolyak((Uniform(-1, 1),) * 8, 2).points) < 3**8 / 20


def test_sampled_points_have_the_moments():
    """Sobol points: far inside what random ones reach; random ones within 5 standard errors (6e-7)."""
    laws = LAWS[:2]
    for grid, slack in ((nodes.sobol(laws, 4096, 1), 0.2), (nodes.random(laws, 4096, np.random.default_rng(1)), 5.0)):
        for j, law in enumerate(laws):
            assert abs(grid.points[:, j].mean() - law.mean) < slack * np.sqrt(law.variance / 4096)
        assert grid.weights.sum() == pytest.approx(1.0)


def test_regression_recovers_a_polynomial_and_cross_validates():
    """Without noise the coefficients are exact; the left-out error equals leaving samples out by hand."""
    laws = (Uniform(-1.0, 1.0),) * 3
    basis = bases.make("total", laws, 2)
    truth = np.random.default_rng(2).standard_normal(len(basis))
    points = nodes.sobol(laws, 64, 3).points
    values = basis.evaluate(points) @ truth
    found = regression.selected("total", laws, 4, points, values[:, None])
    assert found.basis.degree >= 2 and found.left_out[0] < 1e-12
    np.testing.assert_allclose(found.coefficients[: len(basis), 0], truth, atol=1e-12)
    rough = np.sin(3.0 * points[:, 0]) + points[:, 1]
    fit = regression.fitted(basis, points, rough)
    by_hand = []
    for k in range(len(points)):
        others = np.delete(np.arange(len(points)), k)
        v = np.linalg.lstsq(basis.evaluate(points[others]), rough[others], rcond=None)[0]
        by_hand.append(rough[k] - (basis.evaluate(points[[k]]) @ v)[0])
    assert float(fit.left_out) == pytest.approx(np.sqrt(np.mean(np.square(by_hand))), rel=1e-9)
    mean = regression.projected(basis, points, rough)
    np.testing.assert_allclose(mean.coefficients, basis.evaluate(points).T @ rough / len(points), rtol=1e-12)
    others = np.arange(1, len(points))
    v = basis.evaluate(points[others]).T @ rough[others] / len(others)
    assert mean.off[0] == pytest.approx(rough[0] - (basis.evaluate(points[[0]]) @ v)[0], rel=1e-12)
    with pytest.raises(ValueError, match="samples: 10 for 10 terms; expected more"):
        regression.fitted(basis, points[:10], rough[:10])


def test_collocation_points_of_a_basis():
    for kind in bases.KINDS:
        basis = bases.make(kind, LAWS[:3], 2)
        points = coupled.collocation_points(basis)
        assert len(points) == len(basis)
        assert np.linalg.cond(coupled.collocation_matrix(basis, points)) < 1e3
    with pytest.raises(ValueError, match="needs as many points of 3 parameters, got an array of shape"):
        coupled.collocation_matrix(basis, points[:-1])
    with pytest.raises(ValueError, match="do not determine a polynomial of the basis"):
        coupled.collocation_matrix(basis, np.repeat(points[:1], len(basis), axis=0))


def test_what_is_too_large_says_so_before_it_is_made():
    laws = (Uniform(-1.0, 1.0),) * 30
    with pytest.raises(
        MemoryError, match=r"basis: tensor of degree 3 in 30 parameters has 1\.15292e\+18 terms and would take .* GB"
    ):
        bases.make("tensor", laws, 3)
    with pytest.raises(MemoryError, match=r"basis: total of degree 20 .* terms .*basis=\"cross\""):
        bases.make("total", laws, 20)
    assert len(bases.make("cross", laws, 3)) == bases.size("cross", 30, 3) < 1000
    with pytest.raises(MemoryError, match=r"nodes: the tensor grid 4\^30 would take"):
        nodes.tensor(laws, 4)


def test_bases_that_do_not_exist_are_refused():
    for call, words in [
        (lambda: bases.make("full", LAWS, 2), "basis: expected one of"),
        (lambda: bases.make("total", LAWS, -1), "degree: expected a whole number >= 0, got -1"),
        (lambda: bases.make("total", (), 2), "no random parameter to expand in; Radau5"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_projections_keep_small_entries_beside_large_ones():
    """An entry of 1 beside one of 1e17, as of currents beside charges, and what is 0 for each p."""
    laws = (Uniform(1.0, 3.0),)
    problem = types.SimpleNamespace(n=2, distributions=laws, parameters=("p",), kinks={})
    basis = bases.make("total", laws, 2)

    def matrices(points):
        p = points[:, 0]
        return np.moveaxis(np.array([[1e17 * np.exp(p), 0.0 * p], [1.0 / p, 1.0 + 0.0 * p]]), 2, 0)

    found = coupled._projected(problem, basis, None, matrices)[0].toarray().reshape(3, 2, 3, 2)
    np.testing.assert_allclose(found[:, 1, :, 1], np.eye(3), atol=1e-13)
    assert found[:, 1, :, 0].all() and not found[:, 0, :, 1].any()
    assert (found[:, 1, :, 1] == np.diag(found[:, 1, :, 1].diagonal())).all()  # what cancels is 0
