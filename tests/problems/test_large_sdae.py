"""Large SDAEs are looked at through sparse matrices, and what is found is what dense ones show.

Most systems here are small, and called large.
"""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import stodyn as sd
from stodyn.numerics import direct
from stodyn.problems import facts, index, operators

N = 14
LOUD = np.array([i for i in range(N) if i not in (5, 10, 11)])


def mass():
    """Masses, a constraint by a row of zeros, one by two rows that depend on each other, and a coupled pair."""
    M = np.diag(1.0 + 0.1 * (np.arange(N) % 4))
    M[5, 5] = 0.0
    M[10:12, 10:12] = [[2.0, -2.0], [-2.0, 2.0]]
    M[7:9, 7:9] = [[2.0, -1.0], [-1.0, 2.0]]
    return M


def drift(t, x):
    nothing = jnp.zeros(1)
    return jnp.concatenate([x[1:], nothing]) + jnp.concatenate([nothing, x[:-1]]) - 3.0 * x + 1.0


def noise(t, x):
    """Two components on each channel, and one entry in two parts."""
    values = jnp.append(0.3 + 0.05 * jnp.sin(x[LOUD[::-1]]), 0.1)
    return sd.sparse([*LOUD[::-1], 3], [*np.arange(len(LOUD)) // 2, 4], values, (N, len(LOUD)))


def quiet(t, x):
    return sd.sparse([0], [0], jnp.ones(1), (N, 1))


def made(few, monkeypatch, diffusion=noise, f=drift, M=None):
    """The equations, with sparse matrices where `few` is less than N."""
    monkeypatch.setattr(facts, "FOLLOWED", few)
    M = mass() if M is None else M
    if few < N:
        return sd.SDAE(scipy.sparse.csr_array(M), f, diffusion, np.zeros(N))
    return sd.SDAE(M, f, lambda t, x: jnp.asarray(diffusion(t, x).dense()), np.zeros(N))


def test_noise_that_is_affine_is_found_to_be(monkeypatch):
    """Of a large system by sparse products it is not asked; of a small one by products and of a large one by a matrix
    it is."""

    def affine(t, x):
        return sd.sparse([0, 3], [0, 1], 0.3 + 0.1 * x[:2], (N, 2))

    monkeypatch.setattr(facts, "FOLLOWED", 64)
    assert sd.SDAE(mass(), drift, affine, np.zeros(N)).facts.has_affine_noise
    assert not sd.SDAE(mass(), drift, noise, np.zeros(N)).facts.has_affine_noise
    monkeypatch.setattr(facts, "FOLLOWED", 12)
    sparse_mass = scipy.sparse.csr_array(mass())
    by_matrix = sd.SDAE(sparse_mass, drift, lambda t, x: jnp.asarray(affine(t, x).dense()), np.zeros(N))
    assert by_matrix.facts.is_large and by_matrix.facts.has_affine_noise
    assert not sd.SDAE(sparse_mass, drift, affine, np.zeros(N)).facts.has_affine_noise


def test_the_same_diagnosis_and_the_same_run(monkeypatch):
    found = []
    for few in (12, 64):
        problem = made(few, monkeypatch)
        assert problem.facts.is_large is (few < N)
        said, structure = problem.facts.diagnosed(), problem.noise_structure
        run = dict(t=(0.0, 0.2), dt=0.1, paths=2, seed=3, collect=sd.statistics.Paths(2, at=[0.2]))
        end = sd.simulate(problem, "Trapezoidal", **run)["path"].values
        found.append((said.index, said.rank, said.noisy, len(said.differential), structure.kinds, said.start, end))
        assert said.move
    large, small = found
    assert large[:5] == small[:5]
    assert large[:4] == (1, 2, (), N - 2)
    np.testing.assert_allclose(large[5], small[5], atol=1e-12)
    np.testing.assert_allclose(large[6], small[6], rtol=1e-9)


def test_what_has_not_index_1_is_refused_in_the_same_words(monkeypatch):
    free = mass()
    free[6, 6] = 0.0
    cases = {
        "enters constraint 0, 0 = f\\[5\\]": dict(diffusion=lambda t, x: sd.diagonal(jnp.ones(N))),
        "its index is 2 or higher": dict(M=free, f=lambda t, x: drift(t, x).at[5].set(x[3]), diffusion=quiet),
        "Newton found no values": dict(f=lambda t, x: drift(t, x).at[5].set(1.0 + x[5] + x[5] ** 2)),
    }
    for few in (12, 64):
        for words, changes in cases.items():
            problem = made(few, monkeypatch, **changes)
            with pytest.raises(ValueError, match=words):
                problem.before_run(0.0)


def test_noise_in_constraints_is_looked_for_without_slopes(monkeypatch):
    """In the 64 states in which it is tried, those of 300 components that all depend on all took a second."""
    looks, made_look = [], index.sparse_coefficients_at

    def counted(problem):
        look = made_look(problem)
        return lambda t, x: looks.append(t) or look(t, x)

    monkeypatch.setattr(index, "sparse_coefficients_at", counted)
    monkeypatch.setattr(facts, "FOLLOWED", 12)
    M = mass()
    for place, noisy in ((LOUD, ()), (np.arange(N), ((0, 0), (1, 0)))):
        looks.clear()
        problem = sd.SDAE(M, drift, lambda t, x, place=place: jnp.zeros((N, 1)).at[place, 0].set(0.3), np.zeros(N))
        assert problem.facts.is_large and problem.facts.noise_pattern is None
        assert problem.facts.diagnosed().noisy == noisy
        assert 0 < len(looks) < 10


def test_slopes_are_followed_once_for_all_that_is_asked_of_them(monkeypatch):
    follow, followed = facts.find_varying, []
    monkeypatch.setattr(facts, "find_varying", lambda *given: followed.append(given) or follow(*given))
    bent = made(12, monkeypatch, f=lambda t, x: drift(t, x).at[0].add(jnp.sin(x[0])))
    assert not bent.facts.is_affine and bent.facts.has_constant_orientation
    assert len(followed) == 1 and np.count_nonzero(bent.facts.varying_slopes) == 1


def test_noise_commutes_or_not(monkeypatch):
    own = sd.SDAE(scipy.sparse.eye_array(N), drift, lambda t, x: sd.diagonal(0.1 * x + 1.0), np.zeros(N))
    monkeypatch.setattr(facts, "FOLLOWED", 12)
    assert own.noise_structure.implies("commutative")
    mixed = made(12, monkeypatch, lambda t, x: sd.diagonal(1.0 + 0.1 * jnp.roll(x, 1)), M=np.eye(N))
    assert not mixed.noise_structure.implies("commutative")


def test_the_state_space_form_and_its_rows(monkeypatch):
    """Of diagonal masses it keeps noise that is never a matrix."""
    M = np.diag(1.0 + 0.1 * (np.arange(N) % 4))
    large, small = (made(few, monkeypatch, M=M) for few in (12, 64))
    monkeypatch.setattr(facts, "FOLLOWED", 12)
    x = 0.1 * jnp.arange(N)
    given = 0.0, x, None
    wanted = np.diag(1.0 / np.diag(M)) @ small.g(*given)
    sde = large.to_sde()
    np.testing.assert_allclose(sde.multiplier(*given).dense(), wanted, rtol=1e-14)
    np.testing.assert_allclose(sde.f(*given), small.f(*given) / np.diag(M), rtol=1e-14)
    W = jnp.cos(jnp.arange(large.m))
    np.testing.assert_allclose(large.noise_push(*given, W), wanted @ W, rtol=1e-13)
    np.testing.assert_allclose(large.noise_along(*given, x, range(N)), x @ wanted, rtol=1e-13)
    rows = large.noise_rows(*given, [3, 4])
    np.testing.assert_allclose([row @ row for row in rows], [wanted[k] @ wanted[k] for k in (3, 4)], rtol=1e-13)


def test_rows_that_hang_together():
    """Capacitors in a row without a way to ground make one constraint; with a way they make none."""
    n = 300
    floating = scipy.sparse.diags_array([-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1]).tolil()
    floating[0, 0] = floating[n - 1, n - 1] = 1.0
    parts = index.split(scipy.sparse.csr_array(floating))
    assert parts.N.shape == (1, n)
    assert abs(parts.N @ floating).max() == 0.0
    floating[0, 0] = 2.0
    assert index.split(scipy.sparse.csr_array(floating)).N.shape == (0, n)
    for M in (mass(), np.pad(mass()[10:12, 10:12], (0, 3))):
        sparse, dense = index.split(scipy.sparse.csr_array(M)), index.split(M)
        assert sparse.rows.tolist() == dense.rows.tolist()
        assert np.abs(sparse.N @ M).max() < 1e-12 > np.abs(M @ sparse.K.toarray()).max()
        assert sparse.N.shape == dense.N.shape


@pytest.mark.parametrize(("share", "left"), [([1e6, 0.0, 0.3], 2), ([1e-14, 2e-15, 0.0], 2), ([0.0, 3.0, 0.0], 1)])
def test_components_beside_what_rounding_leaves_of_zeros(share, left):
    """The fourth column is a combination of the others, whose zeros are zeros in any units, and nothing else is."""
    columns = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.7], [0.7, 0.8, 0.1]])
    rows = np.column_stack([columns, columns @ share])
    M = scipy.sparse.csr_array(np.vstack([rows, rows.sum(axis=0)]))
    found = index.evolving(M, index.Split(np.arange(3), None, None, np.arange(3))).toarray()
    np.testing.assert_allclose(found[:, 3], share, rtol=1e-9)
    assert np.count_nonzero(found[:, 3]) == left


def test_superlu_gets_no_matrix_that_is_singular_by_its_pattern():
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        direct.factorised(scipy.sparse.diags_array(np.arange(300.0)))


def test_a_matrix_of_noise_beyond_the_memory_names_the_way_out(monkeypatch):
    monkeypatch.setattr(operators, "MEMORY_SHARE", 0.0)
    with pytest.raises(MemoryError, match=r"sd\.diagonal\(vector\)"):
        sd.SDAE(np.eye(3), lambda t, x: -x, lambda t, x: jnp.ones((3, 2)), np.zeros(3))
    assert sd.SDAE(np.eye(3), lambda t, x: -x, lambda t, x: sd.diagonal(x), np.zeros(3)).is_operator


def test_a_large_system_in_which_all_depends_on_all_is_eliminated_in_order():
    """Its constraint is one of a sparse matrix, and its slopes are full ones."""
    n = 65
    coupling = np.random.default_rng(0).normal(size=(n, n)) / n
    mass = np.diag([*np.ones(n - 1), 0.0])
    problem = sd.SDAE(mass, lambda t, x: coupling @ x - x, None, np.zeros(n))
    assert problem.matrices.row_orders == (None, (0,))
    assert problem.matrices.determinant_units[1] > 0.0
