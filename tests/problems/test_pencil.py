"""The index of a pencil: constructed Kronecker forms in bad units, the Miller integrator in SI units, starts."""

import numpy as np
import pytest
import scipy.sparse

from stodyn.problems.pencil import SingularPencil, analyse, scaled

NAMES = ("u1", "u2", "u3", "j1", "j2")


def miller(a=2.0, C1=1e-10, C2=5e-11, R=1e3):
    A = np.zeros((5, 5))
    A[1:3, 1:3] = [[C1 + C2, -C2], [-C2, C2]]
    G = 1.0 / R
    B = [[G, -G, 0, 1, 0], [-G, G, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, -a, 1, 0, 0]]
    return A, np.array(B, float)


def kronecker_form(blocks, dynamic, rng):
    """E = diag(I, N), H = diag(W, I) with nilpotent blocks of the given sizes."""
    n = dynamic + sum(blocks)
    E, H = np.zeros((n, n)), np.eye(n)
    E[:dynamic, :dynamic], H[:dynamic, :dynamic] = np.eye(dynamic), rng.standard_normal((dynamic, dynamic))
    at = dynamic
    for size in blocks:
        E[at : at + size - 1, at + 1 : at + size] = np.eye(size - 1)
        at += size
    return E, H


@pytest.mark.parametrize("blocks", [(), (1, 1), (2, 1, 1), (3, 2, 1), (4, 1), (2, 2, 2)])
@pytest.mark.parametrize("dynamic", [0, 4])
def test_constructed_pencils_in_bad_units(blocks, dynamic):
    """Rows and columns scaled by up to 1e6 both ways, time by 1e-9: both algorithms find the largest block."""
    rng = np.random.default_rng(len(blocks) + 10 * dynamic)
    E, H = kronecker_form(blocks, dynamic, rng)
    n = len(E)
    if n == 0:
        pytest.skip("nothing there")
    P, Q = np.eye(n) + 0.4 * rng.standard_normal((2, n, n)) / np.sqrt(n)
    rows, columns = 10.0 ** rng.uniform(-6, 6, (2, n))
    found = analyse(1e-9 * rows[:, None] * (P @ E @ Q) * columns, rows[:, None] * (P @ H @ Q) * columns)
    assert found.agree and found.index == max(blocks, default=0)
    assert found.freedom == dynamic
    assert len(found.constraints) == sum(blocks)
    assert np.linalg.matrix_rank(found.projector * columns[:, None] / columns, tol=1e-6) == dynamic
    assert all(d.largest_dropped < 1e-12 < 1e-4 < d.smallest_kept for d in found.decisions)


def test_entries_that_are_rounding_beside_their_row_or_column_have_no_say_in_the_scaling():
    A, B = np.diag([1.0, 2.0, 4.0]), np.diag([3.0, 1.0, 0.5])
    A[0, 1] = 1e20
    for place in ((1, 1), (0, 0)):  # in the column of 1e20, and in its row
        without = A.copy()
        without[place] = 0.0
        for one, other in ((A, without), (A.T, without.T)):
            for found, expected in zip(scaled(one, B), scaled(other, B), strict=True):
                np.testing.assert_array_equal(found, expected)
    assert [np.ndim(part) for part in scaled(np.zeros((2, 2)), np.zeros((2, 2)))] == [1, 1, 0]


def test_miller_in_raw_si_units():
    """Index 2, and 3 where a = 1 + C1/C2; near it 2 until the tolerance."""
    for a in (0.5, 2.0, 3.0 * (1 + 1e-3), 3.0 * (1 + 1e-6), 10.0):
        found = analyse(*miller(a))
        assert (found.index, found.nilpotency, found.freedom) == (2, 2, 1), a
    for a in (3.0, 3.0 * (1 + 1e-12)):
        found = analyse(*miller(a))
        assert (found.index, found.nilpotency, found.freedom) == (3, 3, 0), a
    assert analyse(*miller(3.0 * (1 + 1e-6))).margin < 1e-5 < analyse(*miller()).margin
    assert analyse(*miller(2.9)).leading == -analyse(*miller(3.1)).leading
    A, B = miller()
    assert analyse(scipy.sparse.csr_array(A), scipy.sparse.csr_array(B)).index == 2
    np.testing.assert_array_equal(analyse(A, B).component_index, [1, 1, 1, 1, 2])
    np.testing.assert_array_equal(analyse(*miller(3.0)).component_index, [1, 2, 2, 2, 3])


def test_constraints_of_miller():
    """Three explicit ones and one hidden: they hold on the closed form, whose x and s' are put in."""
    A, B = miller()
    C1, C2, a, R = 1e-10, 5e-11, 2.0, 1e3
    found = analyse(A, B)
    assert [c.hidden for c in found.constraints] == [False, False, False, True]
    tau, w = R * (C1 + C2 * (1 - a)), 2e6 * np.pi
    for t in (1e-8, 3e-7):
        u_in, slope = np.sin(w * t), w * np.cos(w * t)
        u2 = (np.sin(w * t) - w * tau * np.cos(w * t) + w * tau * np.exp(-t / tau)) / (1 + (w * tau) ** 2)
        rate = (u_in - u2) / tau
        x = np.array([u_in, u2, a * u2, (u2 - u_in) / R, C2 * (1 - a) * rate])
        s = np.zeros((3, 5))
        s[0, 3], s[1, 3], s[2, 3] = u_in, slope, -w * w * u_in
        for c in found.constraints:
            right = sum(weight @ given for weight, given in zip(c.weights, s, strict=False))
            size = np.abs(c.coefficients * x).max()
            assert c.coefficients @ x == pytest.approx(right, abs=1e-12 * size)
        determined = sum(R_ @ given for R_, given in zip(found.response, s, strict=False))
        np.testing.assert_allclose(found.projector @ x + determined, x, rtol=1e-10, atol=1e-18)
    assert "u2 - 0.5 u3 = a combination of s" in [c.in_words(NAMES) for c in found.constraints]


def test_what_inconsistent_starts_do():
    """Miller: zero is consistent; u3 ≠ a u2 jumps at constant charge (C1 + C2) u2 - C2 u3 with an impulse of current
    equal to the charge moved; a wrong j2 alone is corrected without harm; a cosine input makes u1 jump without harm.
    """
    found = analyse(*miller())
    s = np.zeros((2, 5))
    s[1, 3] = 2e6 * np.pi
    at_rest = found.start(np.zeros(5), s)
    np.testing.assert_allclose(at_rest.x, 0.0, atol=1e-15)
    assert at_rest.harmless and not at_rest.moved.any()
    charged = found.start(np.array([0.0, 0.1, 0.0, 0.0, 0.0]), s)
    np.testing.assert_allclose(charged.x, [0.0, 0.3, 0.6, 3e-4, 3e-4], atol=1e-14)
    assert not charged.harmless and charged.moved.tolist() == [False, True, True, True, True]
    np.testing.assert_allclose(charged.impulses, [[0, 0, 0, 0, -5e-11 * 0.4]], atol=1e-21)
    wrong_current = found.start(np.array([0.0, 0.1, 0.2, 1e-4, 0.0]), s)
    assert wrong_current.harmless
    np.testing.assert_allclose(wrong_current.jump, [0, 0, 0, 0, 1e-4], atol=1e-14)
    np.testing.assert_allclose(wrong_current.impulses, 0.0, atol=1e-21)
    cosine = found.start(np.zeros(5), np.array([[0, 0, 0, 1.0, 0], [0, 0, 0, 0, 0]]))
    assert cosine.harmless
    np.testing.assert_allclose(cosine.jump, [1.0, 0.0, 0.0, -1e-3, -1e-3], atol=1e-13)


def test_impulses_of_an_index_three_chain():
    """x3 = s, x2 = -x3', x1 = -x2' from x(0) = (0, 0, 1) with s = 0: x3 jumps by -1, x2 = δ, x1 = -δ'."""
    A, B = np.array([[0.0, 1, 0], [0, 0, 1], [0, 0, 0]]), np.eye(3)
    found = analyse(A, B)
    assert (found.index, found.freedom) == (3, 0)
    start = found.start(np.array([0.0, 0.0, 1.0]), np.zeros((3, 3)))
    np.testing.assert_allclose(start.x, 0.0, atol=1e-14)
    np.testing.assert_allclose(start.impulses, [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]], atol=1e-13)


def test_singular_pencils_name_what_they_do_not_determine():
    with pytest.raises(
        SingularPencil, match=r"do not determine components \[1, 2\] .* a node without a path to ground"
    ):
        analyse(np.diag([1.0, 0, 0]), np.array([[1.0, 0, 0], [0, 1, 1], [0, 2, 2]]))
    with pytest.raises(SingularPencil):
        analyse(np.zeros((2, 2)), np.diag([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"two square matrices of one size, got shapes \(2, 2\) and \(3, 3\)"):
        analyse(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match="A: expected a finite matrix"):
        analyse(np.full((2, 2), np.nan), np.eye(2))


@pytest.mark.parametrize("seed", [2, 40])
def test_a_start_that_a_pencil_gives_is_consistent_to_its_rounding(seed):
    """Constraints of condition 1e9: the start that they give satisfies them to 1e-7, and to no more."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(2))
    pencil = analyse(U @ np.diag([1.0, 1.0, 0.0, 0.0]) @ V, U @ np.diag([1.0, 2.0, 1.0, 1e-9]) @ V)
    x, source = rng.standard_normal(4), rng.standard_normal((1, 4))
    assert pencil.index == 1 and not pencil.start(pencil.start(x, source).x, source).moved.any()
    assert pencil.start(x, source).moved.any()


def test_a_singular_pencil_of_many_components_is_called_singular(monkeypatch):
    """Singular values of n components are right to n ε: beyond 1/(n ε) a condition says nothing, whatever SINGULAR."""
    monkeypatch.setattr("stodyn.problems.pencil.SINGULAR", np.inf)
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((2, 40, 40))
    A[-1], B[-1] = A[:-1].sum(axis=0) / 40, B[:-1].sum(axis=0) / 40
    with pytest.raises(SingularPencil):
        analyse(A, B)
