"""Measured orders: 1 and 1/2 of the general steps, 2 and 1.5 for additive noise; intervals of level 1 - 1e-6.

Every claim of every method is measured by tests/claims; here are the systems of Kraus & Tyranowski (2021), and what a
step has without the shift, the special noise loads or enough of the increments.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.analysis.covariance import delivered
from stodyn.analysis.order import strong_order, weak_order
from stodyn.methods import burrage, langevin, variational
from stodyn.models.damped_kubo import DAMPED_KUBO
from stodyn.problems.hamiltonian import Hamiltonian

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
LEVEL = 1 - 1e-6
named = functools.partial(pytest.mark.parametrize, ids=lambda value: getattr(value, "name", None))


def includes(found, order, width=0.35):
    """The interval holds the order and is narrow enough to exclude its neighbours."""
    low, high = found.attrs["order_low"], found.attrs["order_high"]
    assert low <= order <= high and high - low < 2 * width, (found.attrs["order"], low, high)


@pytest.mark.brief("StoermerVerlet")  # tests/claims measures the others
@named("method", [variational.Midpoint, variational.StoermerVerlet, variational.DIRK, burrage.R2, burrage.E1])
def test_mean_square_order_one_on_kubo(method):
    includes(strong_order(DAMPED_KUBO(nu=0.1), method, steps=(16, 32, 64, 128), paths=500, level=LEVEL), 1.0)


def test_mean_square_order_one_with_coupled_noise():
    """Kubo cannot tell a wrong coupling of drift and noise; the pendulum with h = .3 sin(q) p can."""
    pendulum = Hamiltonian(
        lambda t, q, p: 0.5 * p**2 - jnp.cos(q),
        lambda t, q, p: 0.3 * jnp.sin(q) * p,
        lambda t, q, p: -0.2 * p,
        lambda t, q, p: -0.1 * p,
        start=(1.0, 0.5),
    )
    found = strong_order(pendulum, variational.StoermerVerlet, steps=(4, 8, 16), paths=1200, level=LEVEL,
                         reference=variational.DIRK, refine=32)  # fmt: skip
    includes(found, 1.0)


@pytest.mark.long("tests/claims measures the orders")
def test_mean_square_order_one_half_where_the_channels_do_not_commute():
    crossed = Hamiltonian(
        lambda t, q, p: 0.5 * (p**2 + q**2),
        (lambda t, q, p: 0.25 * q**2, lambda t, q, p: 0.25 * p**2),
        start=(1.0, 0.0),
    )
    found = strong_order(crossed, variational.StoermerVerlet, steps=(16, 32, 64), paths=1000, level=LEVEL,
                         reference=variational.Midpoint, refine=256)  # fmt: skip
    includes(found, 0.5)


def test_mean_square_order_one_with_two_channels_that_commute():
    pair = Hamiltonian(
        lambda t, q, p: 0.5 * p**2 + 0.25 * q**4,
        (lambda t, q, p: 0.5 * jnp.sin(q), lambda t, q, p: 0.4 * jnp.cos(q)),
        start=(1.0, 0.5),
    )
    found = strong_order(pair, variational.StoermerVerlet, steps=(8, 16, 32), paths=600, level=LEVEL,
                         reference=variational.StoermerVerlet, refine=32)  # fmt: skip
    includes(found, 1.0)


def particle(force):
    return Hamiltonian(lambda t, q, p: 0.5 * p**2 - 2.0 * jnp.cos(q), lambda t, q, p: -0.5 * q, force, start=(1.0, 0.5))


@named(
    ("method", "order"),
    [
        (variational.StoermerVerlet, 1.0),
        (langevin.ShiftedVerlet, 2.0),
        (langevin.ShiftedMidpoint, 2.0),
    ],
)
def test_the_shift_makes_order_two_of_order_one(method, order):
    found = strong_order(particle(lambda t, q, p: -0.3 * p), method, steps=(8, 16, 32, 64), paths=300, level=LEVEL,
                         reference=langevin.ShiftedVerlet, refine=8)  # fmt: skip
    includes(found, order)


@pytest.mark.long("tests/claims measures AdditiveDIRK where the drift is not affine in p")
@named(("method", "order"), [(langevin.AdditiveDIRK, 1.5), (variational.Midpoint, 1.0)])
def test_order_one_and_a_half_for_additive_noise_and_any_drift(method, order):
    cubic = Hamiltonian(
        lambda t, q, p: 0.5 * (p**2 + q**2), lambda t, q, p: -1.2 * q, lambda t, q, p: -0.5 * p**3, start=(1.0, 0.5)
    )
    found = strong_order(cubic, method, steps=(64, 128, 256), paths=1000, level=LEVEL, reference=langevin.AdditiveDIRK,
                         refine=16)  # fmt: skip
    includes(found, order)


@pytest.mark.long("tests/claims measures the weak orders, and tests/methods/test_trees.py proves them")
@named(
    ("method", "order"),
    [
        (variational.SRKw1, 1.0),
        (variational.SRKw2, 2.0),
    ],
)
def test_weak_orders_on_kubo_without_sampling(method, order):
    found = weak_order(DAMPED_KUBO(nu=0.3), method, t=(0.0, 2.0), steps=(128, 256, 512, 1024))
    assert found.attrs["how"] == "moments"
    assert abs(found.attrs["order"] - order) < 0.06


def test_truncation_with_k_2_keeps_the_order_and_k_1_loses_it():
    kubo = DAMPED_KUBO(nu=0.1)
    two, one = (
        strong_order(kubo, variational.Midpoint(truncation=k), steps=(32, 64, 128, 256), paths=1000).attrs["order"]
        for k in (2.0, 1.0)
    )
    assert two > 0.9 and one < 0.85


@pytest.mark.brief("ShiftedDIRK")  # tests/claims measures all of them with noise that depends on time
@named("method", [langevin.ShiftedVerlet, langevin.ShiftedMidpoint, langevin.ShiftedDIRK,
                  langevin.ShiftedConformalVerlet, langevin.AdditiveDIRK])  # fmt: skip
def test_additive_noise_that_depends_on_time(method):
    """dq = p dt, dp = t dW: Var q(1) = ∫ (1-s)² s² ds = 1/30 and Var p(1) = ∫ s² ds = 1/3, to order 2 in the step."""
    problem = Hamiltonian(lambda t, q, p: 0.5 * p**2, lambda t, q, p: -t * q, start=(0.0, 0.0))
    misses = []
    for steps in (10, 20):
        variances = np.diagonal(delivered(problem, method, 1.0 / steps, steps).covariance[-1])
        misses.append(np.abs(variances * [30.0, 3.0] - 1.0).max())
    assert misses[0] < 0.02 and misses[1] < 0.3 * misses[0]
