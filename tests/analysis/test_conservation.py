"""Structure, measured on the shipped steps: symplectic form, conformal and volume factors, verdicts, energy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis import conservation
from stodyn.methods import burrage, explicit, implicit, langevin, srk
from stodyn.methods.variational import DIRK, Midpoint, SRKw1, SRKw2, SRKw2Coupled, StoermerVerlet
from stodyn.noise.distribution import Uniform
from stodyn.noise.increment import Increment
from stodyn.numerics.printing.points import at_one
from stodyn.problems.hamiltonian import Hamiltonian

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
VARIATIONAL = (Midpoint, StoermerVerlet, DIRK, SRKw1, SRKw2)
OTHERS = (explicit.Heun, burrage.R2, burrage.E1, srk.RS1, srk.RS2)
X = np.array([0.5, -0.3, 0.2, 0.6])


def ids(method):
    return getattr(method, "name", None)


@functools.cache
def two_channels():
    return Hamiltonian(
        lambda t, q, p: 0.5 * p**2 + 0.25 * q**4 + 0.1 * p * q**2,
        (lambda t, q, p: 0.6 * jnp.sin(q) * p + 0.3 * q * p**2, lambda t, q, p: 0.5 * jnp.cos(q) * p + 0.4 * q**3),
        start=(0.5, 0.2),
    )


@pytest.mark.brief("StoermerVerlet", "SRKw1")  # the midpoint rule is the method of one stage
@pytest.mark.parametrize("method", VARIATIONAL, ids=ids)
def test_variational_steps_are_symplectic(method):
    problem = conservation.entangled_system()
    noise = conservation.draw_increment(method, 1, 0.1, seed=3)
    assert conservation.symplecticity_defect(problem, method, X, noise) < 1e-12


@pytest.mark.brief("Heun", "RS2")
@pytest.mark.parametrize("method", OTHERS, ids=ids)
def test_the_others_are_visibly_not(method):
    noise = conservation.draw_increment(method, 1, 0.1, seed=3)
    assert conservation.symplecticity_defect(conservation.entangled_system(), method, X, noise) > 1e-5


TWO_KICKS = Increment(0.1, jnp.array([0.3**0.5, -(0.3**0.5)]), aux={})


def test_srkw2_refuses_two_channels():
    with pytest.raises(ValueError, match="SRKw2 is made for"):
        conservation.symplecticity_defect(two_channels(), SRKw2, X[::2], TWO_KICKS)


@pytest.mark.long("test_variational_steps_are_symplectic")
def test_srkw2_loses_the_form_with_two_channels_and_its_coupled_form_keeps_it():
    problem, noise, x = two_channels(), TWO_KICKS, X[::2]
    assert conservation.symplecticity_defect(problem, SRKw2Coupled, x, noise) < 1e-12

    def step(x):
        return SRKw2.step(problem, 0.0, x, noise, None)[0]

    J = at_one(jax.jacfwd(step), x)
    assert abs(np.linalg.det(J) - 1.0) > 1e-2


def damped(first=0.7, second=0.3):
    """Separable, two channels, friction by numbers."""
    return Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * jnp.sum(q**4) + 0.3 * q[0] * q[1],
        (lambda t, q, p: 0.4 * jnp.sin(q[0]), lambda t, q, p: 0.3 * jnp.cos(q[1]) + 0.1 * p[0] ** 2),
        lambda t, q, p: -first * p,
        (lambda t, q, p: -second * p, None),
        start=(X[:2], X[2:]),
    )


def test_verlet_is_conformal_and_others_are_not():
    problem, noise = damped(), Increment(0.2, jnp.array([0.3, -0.2]))
    g = 0.7 * 0.2 + 0.3 * 0.3
    exact = np.exp(-g)
    verlet = conservation.conformal_factor(problem, StoermerVerlet, X, noise)
    assert verlet.factor == pytest.approx((1 - g / 2) / (1 + g / 2), abs=1e-14) and verlet.defect < 1e-13
    assert verlet.exact == pytest.approx(exact, abs=1e-15)
    better = conservation.conformal_factor(problem, langevin.ConformalVerlet, X, noise)
    assert better.factor == pytest.approx(exact, abs=1e-14) and better.defect < 1e-13
    for method in (Midpoint, DIRK):
        assert conservation.conformal_factor(problem, method, X, noise).defect > 1e-5


def test_volume_against_the_corrected_formula():
    """N = 2, m = 2, friction by matrices: det J = det(I - γ/2)/det(I + γ/2), not (3.54) as printed."""
    Γ = [np.array([[0.6, 0.2], [-0.1, 0.5]]), np.array([[0.3, -0.2], [0.1, 0.2]]), np.array([[0.1, 0.0], [0.3, 0.4]])]

    def friction(k):
        return lambda t, q, p: -(jnp.asarray(Γ[k]) @ p)

    problem = Hamiltonian(
        lambda t, q, p: 0.5 * p @ p + 0.25 * jnp.sum(q**4) + 0.3 * q[0] * q[1],
        (lambda t, q, p: 0.4 * jnp.sin(q[0]), lambda t, q, p: 0.3 * jnp.cos(q[1])),
        friction(0),
        (friction(1), friction(2)),
        start=(X[:2], X[2:]),
    )
    noise = Increment(0.2, jnp.array([0.3, -0.2]))
    γ = 0.2 * Γ[0] + 0.3 * Γ[1] - 0.2 * Γ[2]
    found = conservation.volume_factor(problem, "StoermerVerlet", X, noise)
    assert found.step == pytest.approx(found.verlet, abs=1e-14)
    assert found.verlet == pytest.approx(np.linalg.det(np.eye(2) - γ @ np.linalg.inv(np.eye(2) + γ / 2)), abs=1e-14)
    assert abs(found.step - np.linalg.det(np.eye(2) + γ @ np.linalg.inv(np.eye(2) - γ / 2))) > 0.1  # as printed
    conformal = conservation.volume_factor(problem, langevin.ConformalVerlet, X, noise)
    assert conformal.step == pytest.approx(np.exp(-np.trace(γ)), abs=1e-14) == pytest.approx(conformal.exact, abs=1e-14)
    with pytest.raises(ValueError, match="some Γ is another matrix"):
        conservation.conformal_factor(problem, StoermerVerlet, X, noise)
    with pytest.raises(ValueError, match="expected forces -Γ p"):
        conservation.frictions(two_channels_forced())


def two_channels_forced():
    return Hamiltonian(lambda t, q, p: 0.5 * p @ p, force=lambda t, q, p: -q * p, start=(X[:2], X[2:]))


@pytest.mark.long("test_verlet_is_conformal_and_others_are_not")
def test_quasi_symplectic_verdicts():
    """Verlet and its kin are quasi-symplectic; midpoint and DIRK keep QS1 alone; explicit methods keep neither."""
    names = ["StoermerVerlet", "ConformalVerlet", "ShiftedVerlet", "Midpoint", "Heun"]
    found = conservation.verdicts(names=names)
    assert {name for name, v in found.items() if v.quasi_symplectic} == {
        "StoermerVerlet", "ConformalVerlet", "ShiftedVerlet",
    }  # fmt: skip
    assert found["Midpoint"].qs1 < 1e-12 < found["Midpoint"].qs2
    assert found["Heun"].qs1 > 1e-6
    assert found["ShiftedVerlet"].symplectic is None and found["Midpoint"].symplectic < 1e-12


def test_a_method_of_high_order_is_not_taken_for_symplectic():
    """In a step of .1 the defect of RKF78 is 8e-14, as small as what Newton's method may leave; at 1 it is 5e-6."""
    verdict = conservation.verdict("RKF78")
    assert verdict.symplectic > 1e-10 and verdict.qs1 > 1e-10 and verdict.lengths[:2] == (0.4, 0.4)


def test_numbers_are_64_bit_for_a_caller_who_is_not():
    with jax.enable_x64(False):
        noise = conservation.draw_increment(StoermerVerlet, 1, 0.1, seed=3)
        assert noise.W.dtype == noise.h.dtype == np.float64
        assert langevin.ConformalVerlet.refusal(conservation.langevin_system(0.7)) is None


def test_verdicts_are_given_with_noise():
    """Three-point draws are mostly zero, and zero draws would say nothing of the noise's part of a step."""
    for seed in range(8):
        assert np.all(conservation.draw_increment("SRKw1", 2, 0.1, seed).W)


def test_the_implicit_midpoint_rule_for_sdes_is_the_same_step():
    problem, noise = two_channels(), Increment(0.1, jnp.array([0.2, -0.1]))
    assert conservation.symplecticity_defect(problem, implicit.ImplicitMidpoint, X[::2], noise) < 1e-12


def test_random_parameters_are_refused():
    """One draw of them decided what was measured; a path takes the numbers that it is given."""
    rubbed = Hamiltonian(
        lambda t, q, p, c: 0.5 * p @ p + 0.5 * q @ q,
        lambda t, q, p, c: -0.3 * q @ q,
        lambda t, q, p, c: -c * p,
        start=(X[:2], X[2:]),
        params=Uniform(0.1, 2.0),
    )
    noise = Increment(0.2, jnp.array([0.3]))
    measured = (conservation.jacobian, conservation.symplecticity_defect, conservation.conformal_factor,
                conservation.volume_factor)  # fmt: skip
    for measure in measured:
        with pytest.raises(ValueError, match="differs from path to path"):
            measure(rubbed, StoermerVerlet, X, noise)
    with pytest.raises(ValueError, match="differs from path to path"):
        conservation.frictions(rubbed)
    turning = np.array([[0.0, -1.0], [1.0, 0.0]])
    follow = functools.partial(
        conservation.momentum_balance, rubbed, StoermerVerlet, lambda q: turning @ q, dt=0.1, steps=2
    )
    with pytest.raises(ValueError, match="differs from path to path"):
        follow()
    assert follow(params=0.5).defect < 1e-14
