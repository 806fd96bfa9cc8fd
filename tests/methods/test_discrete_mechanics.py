"""The discrete mechanics of every Lagrange-d'Alembert step, by autodiff: (3.1) and (3.5) on a path, and (3.14).

The equations are those of M. Kraus & T. M. Tyranowski, IMA J. Numer. Anal. 41 (2021).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis import conservation
from stodyn.methods import burrage, explicit, srk, variational
from stodyn.methods.variational import DIRK, Midpoint, SRKw1, SRKw2, SRKw2Coupled, StoermerVerlet
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import AtPoints, at_one, at_points
from stodyn.problems.hamiltonian import Hamiltonian

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
METHODS = (Midpoint, StoermerVerlet, DIRK, SRKw1, SRKw2, SRKw2Coupled)
STEPS, TOLERANCE = 4, 1e-11
named = functools.partial(pytest.mark.parametrize, ids=lambda value: getattr(value, "name", None))


@functools.cache
def crossed(m):
    """One coordinate, channels that do not commute, nothing separable, all forces nonlinear, everything timed."""
    h = (lambda t, q, p: 0.3 * jnp.sin(q) * p, lambda t, q, p: 0.2 * jnp.cos(p + t) * q)
    f = (lambda t, q, p: -0.1 * p, lambda t, q, p: 0.1 * jnp.sin(q + p))
    return Hamiltonian(
        lambda t, q, p: 0.5 * p**2 - jnp.cos(q - t) + 0.1 * q * p**2,
        h[:m],
        lambda t, q, p: -0.2 * p * q**2,
        f[:m],
        start=(1.0, 0.5),
    )


class Along(NamedTuple):
    """A path of some steps: q, p (steps + 1, N), and D₁H_d, D₂H_d, F⁺, F⁻ (steps, N) of each step."""

    q: np.ndarray
    p: np.ndarray
    D1: np.ndarray
    D2: np.ndarray
    plus: np.ndarray
    minus: np.ndarray


@functools.cache
def along(method):
    """Once a method, the pieces of all steps side by side."""
    problem = crossed(1 if method is SRKw2 else 2)
    d, N = variational.discrete(problem, method), problem.n // 2
    rng = np.random.default_rng(3)
    normals = {k: rng.standard_normal((STEPS, c)) for k, c in method.needs.normals(problem.m).items()}
    noise = at_points(lambda h, z: method.needs.increment(h, z, problem.m), np.full(STEPS, 0.1), normals)
    times, states = 0.1 * np.arange(STEPS), [problem.example_start()]
    step = AtPoints(lambda t, x, noise: method.step(problem, t, x, noise, None)[0])
    for k in range(STEPS):
        piece = jax.tree.map(lambda a, k=k: a[k : k + 1], noise)
        states.append(step(times[k : k + 1], states[-1][None], piece)[0])
    q, p = np.split(np.stack(states), [N], axis=1)
    return Along(q, p, *at_points(lambda *given: d.pieces(*given, None), times, q[:-1], p[1:], noise))


DIFFERENT = ("StoermerVerlet", "DIRK", "SRKw1")  # two kinds of stages, several stages, weak draws


@pytest.mark.brief(*DIFFERENT)
@named("method", METHODS)
def test_discrete_mechanics_generates_the_step(method):
    """(3.1): q_(k+1) = D₂H_d - F⁺ and p_k = D₁H_d - F⁻, forced, nonseparable, in every step."""
    a = along(method)
    assert np.abs(a.plus).min() > 1e-6 and np.abs(a.minus).min() > 1e-6
    np.testing.assert_allclose(a.D2 - a.plus, a.q[1:], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(a.D1 - a.minus, a.p[:-1], rtol=0, atol=TOLERANCE)


@pytest.mark.brief(*DIFFERENT)
@named("method", METHODS)
def test_discrete_lagrange_dalembert_principle(method):
    """(3.5): δB_d = Σ F⁻ δq_k + F⁺ δp_(k+1) for every variation with δq_0 = δp_K = 0, where
    B_d = p_K q_K - Σ (p_(k+1) q_(k+1) - H_d(q_k, p_(k+1)))."""
    a, K = along(method), STEPS
    slopes_q, slopes_p = np.zeros_like(a.q), np.zeros_like(a.p)
    slopes_q[K] += a.p[K]
    for k in range(K):
        slopes_q[k] += a.D1[k]
        slopes_q[k + 1] -= a.p[k + 1]
        slopes_p[k + 1] += a.D2[k] - a.q[k + 1]
    np.testing.assert_allclose(slopes_q[1:K], a.minus[1:], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(slopes_q[K], 0.0, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(slopes_p[1:K], a.plus[: K - 1], rtol=0, atol=TOLERANCE)


def test_from_discrete_solves_the_two_equations():
    """p = D₁H_d - F⁻ and q' = D₂H_d - F⁺ by hand, for H_d = p'q + h (p'²/2 - cos q) + 0.3 W sin q and both forces."""

    def H_d(t, q, p, noise, params):
        return (p @ q) + noise.h * (0.5 * (p @ p) - jnp.cos(q[0])) + 0.3 * noise.W[0] * jnp.sin(q[0])

    method = variational.from_discrete(
        H_d, lambda t, q, p, noise, params: 0.1 * noise.h * t * p, lambda t, q, p, noise, params: -0.2 * noise.W * p
    )
    q, p, h, W, t = 1.0, 0.5, 0.1, 0.2, 0.3
    x, report = at_one(lambda x, noise: method.step(crossed(1), t, x, noise, None), np.array([q, p]),
                       Increment(h, np.array([W])))  # fmt: skip
    after = (p - h * np.sin(q) - 0.3 * W * np.cos(q)) / (1.0 + 0.2 * W)
    np.testing.assert_allclose(x, [q + h * after - 0.1 * h * t * after, after], atol=1e-14)
    assert bool(report.ok)


@pytest.mark.long("test_from_discrete_solves_the_two_equations")
def test_from_discrete_gives_the_method_back():
    """With what a user would hand in: H_d by itself and the two forces."""
    problem = Hamiltonian(
        lambda t, q, p: 0.5 * p**2 - jnp.cos(q - t),
        lambda t, q, p: 0.3 * jnp.sin(q),
        lambda t, q, p: -0.2 * p,
        lambda t, q, p: -0.1 * p,
        start=(1.0, 0.5),
    )
    method, given = StoermerVerlet, Increment(0.1, np.array([0.2]))
    d = variational.discrete(problem, method)
    again = variational.from_discrete(d.H, d.F_plus, d.F_minus)
    (found, report), (expected, _) = at_one(
        lambda x, noise: [m.step(problem, 0.3, x, noise, None) for m in (again, method)], np.array([1.0, 0.5]), given
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert bool(report.ok)


def test_a_discrete_hamiltonian_of_the_users_own_is_symplectic():
    """Symplectic Euler with noise: H_d = p·q + h H(q, p) + W h(q, p)."""
    problem = conservation.entangled_system()

    def H_d(t, q, p, noise, params):
        return p @ q + noise.h * problem.energy(0, t, q, p, params) + noise.W[0] * problem.energy(1, t, q, p, params)

    method, given = variational.from_discrete(H_d), Increment(0.1, jnp.array([0.25]))
    assert conservation.symplecticity_defect(problem, method, problem.example_start(), given) < 1e-13
    with pytest.raises(TypeError, match=r"H_d: expected a function"):
        variational.from_discrete(None)
    with pytest.raises(TypeError, match=r"method: expected one of methods\.variational"):
        variational.discrete(problem, explicit.Heun)


# --- momentum maps ---------------------------------------------------------------------------------------------------

CALM, STEP = 200, 0.05  # drag sets in after so many steps of that length


@functools.cache
def rotating():
    """Invariant under rotations; forces along q are orthogonal to them, drag, which sets in later, is not."""

    def force(along, drag):
        return lambda t, q, p: jnp.where(t < (CALM - 0.5) * STEP, -along * (q @ p) * q, -drag * p)

    return Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * (q @ q) ** 2,
        lambda t, q, p: 0.15 * (0.5 * q @ q + 0.2 * (p @ p) * (q @ q)),
        force(0.3, 0.3),
        force(0.05, 0.05),
        start=([1.0, 0.2], [-0.3, 0.8]),
    )


def rotation(q):
    return jnp.stack([-q[1], q[0]])


@pytest.mark.brief("StoermerVerlet")
@named("method", METHODS[:5])  # SRKw2Coupled is SRKw2 where there is one channel
def test_angular_momentum_is_kept_until_forces_turn_it(method):
    """Kept to 1e-13 over 199 steps while forces are orthogonal to rotations; from then on (3.14): what it loses is what
    the discrete forces take."""
    found = conservation.momentum_balance(rotating(), method, rotation, dt=STEP, steps=2 * CALM)
    calm = conservation.MomentumBalance(found.momentum[:CALM], None)
    assert calm.drift < 1e-13 and found.defect < TOLERANCE
    assert found.drift > 1e-2


@named("method", [explicit.Heun, burrage.R2, burrage.E1, srk.RS1, srk.RS2])
def test_angular_momentum_drifts_without_structure(method):
    found = conservation.momentum_balance(rotating(), method, rotation, dt=STEP, steps=CALM - 1)
    assert 1e-5 < found.drift < 1e-1
    with pytest.raises(ValueError, match="no discrete forces"):
        _ = found.defect


def test_a_generator_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"generator: returned shape \(\) for q of shape \(2,\), expected \(2,\)"):
        conservation.momentum_balance(rotating(), Midpoint, lambda q: q[0], dt=0.1, steps=2)
    with pytest.raises(TypeError, match=r"(?s)generator: expected a function ξ.* For a matrix A"):
        conservation.momentum_balance(rotating(), Midpoint, np.eye(2), dt=0.1, steps=2)
