"""No path fails for a matrix that is regular: through the front door, each path with a matrix of its own."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st

EPS = np.finfo(float).eps
EACH, H = 12, 0.125


def shuffled_triangular(rng, n):
    a = np.tril(rng.normal(size=(n, n)), -1) + np.diag(rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 2.0, n))
    return a[rng.permutation(n)][:, rng.permutation(n)]


def scaled_rows(rng, n):
    return 10.0 ** rng.uniform(-12, 12, (n, 1)) * rng.normal(size=(n, n))


def scaled_rows_and_columns(rng, n):
    return 10.0 ** rng.uniform(-6, 6, (n, 1)) * rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-6, 6, n)


def nearly_singular(rng, n):
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    return left @ np.diag(np.geomspace(1.0, 1e-12, n)) @ right


def saddle_point(rng, n):
    k = n // 3
    a = rng.normal(size=(n, n))
    a = a @ a.T * 10.0 ** rng.uniform(-8, 8)
    a[-k:, :-k] = rng.normal(size=(k, n - k))
    a[:-k, -k:] = a[-k:, :-k].T
    a[-k:, -k:] = 0.0
    return a


def tiny_diagonal(rng, n):
    return np.where(np.eye(n) > 0, 10.0 ** rng.uniform(-30, -5, n), rng.normal(size=(n, n)))


def permutation(rng, n):
    return np.eye(n)[rng.permutation(n)]


KINDS = (shuffled_triangular, scaled_rows, scaled_rows_and_columns, nearly_singular, saddle_point, tiny_diagonal,
         permutation)  # fmt: skip


def matrices(n):
    rng = np.random.default_rng(n)
    return np.stack([kind(rng, n) for kind in KINDS for _ in range(EACH)])


def ends(problem, method, paths, steps=1):
    """The states of all paths at the end; a failed path is an error."""
    run = sd.simulate(problem, method, t=(0.0, steps * H), dt=H, paths=paths, seed=1, progress=False,
                      collect=st.Paths(paths, every=steps))  # fmt: skip
    assert sd.provenance(run)["executor"] == "printed"
    return run["path"].values[:, -1]


@pytest.mark.parametrize("n, method", [(3, "ThetaEuler"), (4, "ImplicitMilstein"), (9, "ThetaEuler")])
def test_implicit_steps_of_sdes_solve_any_regular_matrix(n, method):
    """(1 - h A) x' = x with any matrix on the left: x' solves it as well as a change of its entries by some ε does."""
    B = matrices(n)
    A = (np.eye(n) - B) / H
    B = np.eye(n) - H * A  # as it was rounded
    x = np.random.default_rng(0).normal(size=n)
    problem = sd.SDE(lambda t, x, p: p["A"] @ x, lambda t, x, p: p["noise"] * x[:, None], start=x,
                     params={"A": sd.PerPath(A), "noise": 0.0})  # fmt: skip
    found = ends(problem, method, len(B))
    size = (np.abs(A) * H + np.eye(n)).sum(axis=2) * np.abs(found).max(axis=1, keepdims=True) + np.abs(x)
    assert (np.abs(np.einsum("pij,pj->pi", B, found) - x) <= 1e4 * EPS * size).all()


@pytest.mark.brief("RK1W4")
@pytest.mark.parametrize("method", ["ImplicitEuler", "RK1W4"])
def test_constraints_of_sdaes_may_have_any_regular_matrix(method):
    """0 = C a + B b with any matrix B at the unknowns b without a derivative."""
    k = 4
    B = matrices(k)
    rng = np.random.default_rng(0)
    C, S = rng.normal(size=(2, k, k))
    starts = np.tile(rng.normal(size=k), (len(B), 1))
    b = np.linalg.solve(B, -(starts @ C.T)[..., None])[..., 0]
    load = 1.0 / np.abs(b).max(axis=1)  # of the forces that b has on a, which are then of one size

    def drift(t, x, p):
        a, b = x[:k], x[k:]
        return jnp.concatenate([C @ a + p["B"] @ b, S @ a + p["load"] * b])  # the constraints first

    problem = sd.SDAE(mass=np.eye(2 * k, k=-k), drift=drift, start=sd.PerPath(np.concatenate([starts, b], axis=1)),
                      diffusion=lambda t, x, p: jnp.concatenate([jnp.zeros(k), 0.1 * x[:k]])[:, None],
                      params={"B": sd.PerPath(B), "load": sd.PerPath(load)})  # fmt: skip
    found = ends(problem, method, len(B), steps=2)
    a, b = found[:, :k], found[:, k:]
    size = np.abs(a) @ np.abs(C).T + np.abs(B).sum(axis=2) * np.abs(b).max(axis=1, keepdims=True)
    assert (np.abs(a @ C.T + np.einsum("pij,pj->pi", B, b)) <= 1e4 * EPS * size).all()


def test_trapezoidal_steps_solve_any_regular_matrix():
    """x'' = -K x, with 1 + h² K/4 any matrix in a step of the trapezoidal rule."""
    n = 4
    B = matrices(n)
    problem = sd.Mechanical(lambda t, x, v, p: -(p["K"] @ x), lambda t, x, v, p: p["noise"] * jnp.ones((n, 1)),
                            start=(np.random.default_rng(0).normal(size=n), np.zeros(n)),
                            params={"K": sd.PerPath(4.0 * (B - np.eye(n)) / H**2), "noise": 0.0})  # fmt: skip
    assert np.isfinite(ends(problem, "Newmark", len(B))).all()


def test_midpoint_steps_solve_any_regular_matrix():
    """H = p²/2 + q K q/2, with 1 + h² K/4 = [0 B; Bᵀ 0] in a step of the midpoint rule."""
    n = 6
    B = matrices(3)
    K = np.tile(np.zeros((n, n)), (len(B), 1, 1))
    K[:, :3, 3:], K[:, 3:, :3] = B, B.transpose(0, 2, 1)
    K = 4.0 * (K - np.eye(n)) / H**2
    problem = sd.Hamiltonian(lambda t, q, p, w: 0.5 * (p @ p + q @ (w["K"] @ q)), lambda t, q, p, w: w["noise"] * q[0],
                             start=(np.random.default_rng(0).normal(size=n), np.zeros(n)),
                             params={"K": sd.PerPath(K), "noise": 0.0})  # fmt: skip
    assert np.isfinite(ends(problem, "Midpoint", len(B))).all()


def test_equations_may_be_written_in_any_unit():
    """Times 2⁻⁵⁰ or 2⁻⁵⁵⁰, where determinants of two equations are no floats any more: no bit of a path changes."""
    S, Q = np.array([[-1.0, 0.2], [0.1, -1.5]]), np.array([[0.5, -0.3], [0.4, 0.1]])
    P = np.array([[0.1, 2.0], [1.5, 0.3]])

    def states(unit):
        def drift(t, x):
            a, b = x[:2], x[2:]
            return unit * jnp.concatenate([S @ a + Q @ b, P @ b + 0.1 * b**3 + Q.T @ a])

        def diffusion(t, x):
            return unit * jnp.concatenate([0.2 * x[:2], jnp.zeros(2)])[:, None]

        problem = sd.SDAE(unit * np.diag([1.0, 1.0, 0.0, 0.0]), drift, diffusion, start=[1.0, -0.5, 0.0, 0.0])
        return ends(problem, "ImplicitEuler", paths=8, steps=2)

    np.testing.assert_array_equal(states(2.0**-550), states(2.0**-50))
